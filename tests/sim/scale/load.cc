// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// scale_load N: two cards with N connections, and a message each way on each; instructions.py counts what it
// costs.
#include <cstdio>
#include <cstdlib>

#include "sim/core/log.hh"
#include "tests/sim/scale/stand_in.hh"

int main(int argc, char** argv) {
    const unsigned connections = argc == 2 ? static_cast<unsigned>(std::atoi(argv[1])) : 0;
    if (connections == 0 || connections > 4096) {
        std::fprintf(stderr, "usage: %s CONNECTIONS (1 to 4096)\n", argv[0]);
        return 2;
    }
    t3sim::test::Hall hall(1, connections);
    hall.connect_all();
    hall.traffic();
    return hall.card(0).completions() == 2ULL * connections ? 0 : 1;
}
