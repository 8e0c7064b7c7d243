// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Pairs of cards in several threads share nothing that changes: with virtual time the captures and the
// recordings of a pair are the same bit for bit, whatever the number of threads.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sim/core/recorder.hh"
#include "sim/net/pcapng.hh"
#include "tests/sim/scale/test_driver.hh"
#include "tests/sim/trace/folder.hh"

namespace t3sim::test {
namespace {

constexpr unsigned pairs = 4, connections = 2, steps = 6;

/// A pair of cards with a lossy wire, whose seed is its number.
class SeededPair {
public:
    SeededPair(unsigned number, const std::string& capture, const std::string& recording)
        : cards_(1, connections, &queue_),
          recorder_(queue_, recording, 0, Recorder::Component{.number = number, .count = pairs, .id = 1}),
          capture_(queue_, cards_.wire(0), capture, 0, 0) {
        for (unsigned side : {0U, 1U})
            cards_.card(side).card().record(&recorder_);
        cards_.connect_all();
        for (unsigned side : {0U, 1U})
            cards_.card(side).register_memory();
        cards_.settle();
        Impairments impairments{.loss = 0.02, .reorder = 0.02, .seed = number};
        for (unsigned port : {0U, 1U})
            cards_.wire(0).impair(port, impairments);
    }
    ~SeededPair() {
        for (unsigned side : {0U, 1U})
            cards_.card(side).card().record(nullptr);
    }
    SeededPair(const SeededPair&) = delete;
    SeededPair& operator=(const SeededPair&) = delete;

    void step() {
        for (unsigned n = 0; n < connections; ++n) {
            cards_.card(1).receive(n, TestDriver::write_size);
            cards_.card(0).send(n, TestDriver::write_size);
            cards_.card(1).post_full_write(n);
            cards_.card(1).ring_doorbell(n);
        }
        for (unsigned i = 0; i < 20; ++i) { // lost segments are sent again
            queue_.advance(queue_.now() + 100'000'000);
            cards_.settle();
        }
    }
    [[nodiscard]] std::uint64_t completions() { return cards_.card(1).completions(); }

private:
    EventQueue queue_;
    CardPairs cards_;
    Recorder recorder_;
    PcapngWriter capture_;
};

struct Result {
    std::string capture, recording;
    std::uint64_t completions = 0;
};

/// Pair n is in thread n % threads. The pairs of a thread take turns.
std::vector<Result> run(unsigned threads) {
    const Folder folder;
    std::vector<Result> results(pairs);
    const auto capture = [&](unsigned n) { return folder / (std::to_string(n) + ".pcapng"); };
    const auto recording = [&](unsigned n) { return folder / (std::to_string(n) + ".t3t"); };
    std::vector<std::thread> running;
    for (unsigned thread = 0; thread < threads; ++thread)
        running.emplace_back([&, thread] {
            std::vector<std::unique_ptr<SeededPair>> mine(pairs);
            for (unsigned n = thread; n < pairs; n += threads)
                mine[n] = std::make_unique<SeededPair>(n, capture(n), recording(n));
            for (unsigned step = 0; step < steps; ++step)
                for (unsigned n = thread; n < pairs; n += threads)
                    mine[n]->step();
            for (unsigned n = thread; n < pairs; n += threads)
                results[n].completions = mine[n]->completions();
        });
    for (auto& thread : running)
        thread.join();
    for (unsigned n = 0; n < pairs; ++n) {
        results[n].capture = content(capture(n));
        results[n].recording = content(recording(n));
    }
    return results;
}

TEST(Components, ARunIsTheSameWhateverTheNumberOfThreads) {
    const auto one = run(1);
    for (unsigned n = 0; n < pairs; ++n) {
        EXPECT_GE(one[n].completions, std::uint64_t{connections} * steps) << n;
        EXPECT_GT(one[n].capture.size(), std::size_t{TestDriver::write_size} * connections * steps) << n;
        EXPECT_GT(one[n].recording.size(), 100'000U) << n;
        if (n != 0) {
            EXPECT_NE(one[n].capture, one[0].capture) << "another seed must lose other frames";
        }
    }
    for (const unsigned threads : {2U, 4U}) {
        const auto more = run(threads);
        for (unsigned n = 0; n < pairs; ++n) {
            EXPECT_TRUE(more[n].capture == one[n].capture) << threads << " threads, pair " << n;
            EXPECT_TRUE(more[n].recording == one[n].recording) << threads << " threads, pair " << n;
        }
    }
}

} // namespace
} // namespace t3sim::test
