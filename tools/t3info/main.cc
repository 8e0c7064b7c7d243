// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <iostream>

#include "tools/t3info/netlink.hh"
#include "tools/t3info/t3info.hh"

int main(int argc, char** argv) {
    const auto connect = [] { return std::make_unique<t3info::Netlink>(); };
    return t3info::run({argv + 1, argv + argc}, t3tools::Machine(), connect, std::cout, std::cerr);
}
