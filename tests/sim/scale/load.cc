// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// scale_load N: two cards with N connections, and a message each way on each; instructions.py counts what it
// costs.
#include <cstdio>
#include <cstdlib>

#include "sim/core/log.hh"
#include "tests/sim/scale/test_driver.hh"

int main(int argc, char** argv) {
    const unsigned connections = argc >= 2 ? static_cast<unsigned>(std::atoi(argv[1])) : 0;
    const unsigned pairs = argc >= 3 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
    if (connections == 0 || connections > 4096 || pairs == 0 || pairs > 4) {
        std::fprintf(stderr, "usage: %s CONNECTIONS (1 to 4096) [PAIRS (1 to 4)]\n", argv[0]);
        return 2;
    }
    t3sim::test::CardPairs cards(pairs, connections);
    cards.connect_all();
    cards.traffic();
    unsigned right = 0;
    for (unsigned card = 0; card < cards.size(); ++card)
        right += cards.card(card).completions() == 2ULL * connections ? 1 : 0;
    std::printf("%u of %u cards had %u connections and a message each way on each\n", right, cards.size(),
                connections);
    return right == cards.size() ? 0 : 1;
}
