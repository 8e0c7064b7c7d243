// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <iostream>

#include "tools/t3doctor/probe.hh"
#include "tools/t3doctor/t3doctor.hh"

int main(int argc, char** argv) {
    t3doctor::SystemProbe probe;
    return t3doctor::run({argv + 1, argv + argc}, t3tools::Machine(), probe, std::cout, std::cerr);
}
