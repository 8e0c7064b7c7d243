// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What an operation between two cards costs: bench/card.py counts the instructions of
//
//   card_cost CASE COUNT      does one case COUNT times
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bench/card_pair.hh"
#include "sim/core/log.hh"

namespace {

using t3sim::bench::CardPair;

constexpr struct {
    std::string_view name;
    void (*run)(CardPair&);
} cases[] = {{"send_16", [](CardPair& pair) { pair.send(16); }},
             {"send_64k", [](CardPair& pair) { pair.send(64 << 10); }},
             {"write_64k", [](CardPair& pair) { pair.write(1); }}};

} // namespace

int main(int argc, char** argv) {
    t3sim::set_log_levels("off", nullptr);
    if (argc == 2 && std::string_view(argv[1]) == "--list") {
        for (const auto& c : cases)
            std::puts(c.name.data());
        return 0;
    }
    for (const auto& c : cases)
        if (argc == 3 && c.name == argv[1]) {
            CardPair pair;
            const long count = std::atol(argv[2]);
            for (long n = 0; n < count; ++n)
                c.run(pair);
            if (c.name.starts_with("send") &&
                pair.pairs.card(0).completions() + pair.pairs.card(1).completions() !=
                    2 * static_cast<unsigned long>(count))
                std::abort();
            return 0;
        }
    std::fprintf(stderr, "usage: %s --list | CASE COUNT\n", argv[0]);
    return 2;
}
