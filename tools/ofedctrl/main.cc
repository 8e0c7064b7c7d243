// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <iostream>

#include "tools/ofedctrl/ofedctrl.hh"

int main(int argc, char** argv) {
    return ofedctrl::run({argv + 1, argv + argc}, t3tools::Machine(), std::cout, std::cerr);
}
