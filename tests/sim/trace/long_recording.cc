// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// long_recording FILE MEGABYTES: records two cards that send each other messages until the file has that
// size. For trying the views with a recording that is larger than the memory (docs/trace-format.md).
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "sim/core/log.hh"
#include "sim/core/recorder.hh"
#include "tests/sim/scale/test_driver.hh"

int main(int argc, char** argv) {
    const std::uint64_t size = argc == 3 ? std::strtoull(argv[2], nullptr, 10) << 20 : 0;
    if (size == 0) {
        std::fprintf(stderr, "usage: %s FILE MEGABYTES\n", argv[0]);
        return 2;
    }
    constexpr unsigned connections = 4, at_a_time = 1000;
    t3sim::set_log_levels("off", nullptr);
    t3sim::EventQueue queue;
    t3sim::test::CardPairs cards(1, connections, &queue);
    t3sim::Recorder recorder(queue, argv[1]);
    for (unsigned card : {0U, 1U})
        cards.card(card).card().record(&recorder);
    cards.connect_all();
    for (unsigned card : {0U, 1U})
        cards.card(card).register_memory();
    cards.settle();
    std::uint64_t messages = 0;
    while (std::filesystem::file_size(argv[1]) < size) {
        for (unsigned n = 0; n < at_a_time; ++n, ++messages) {
            const unsigned from = n % 2, connection = n / 2 % connections;
            cards.card(1 - from).receive(connection, 16);
            cards.card(from).send(connection, 16);
            cards.settle();
        }
        recorder.flush();
    }
    for (unsigned card : {0U, 1U})
        cards.card(card).card().record(nullptr);
    std::printf("%llu messages\n", static_cast<unsigned long long>(messages));
    return 0;
}
