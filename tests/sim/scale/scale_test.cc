// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Many cards in one process, and many connections on a card: memory must grow linearly with the number of
// connections. Memory is counted at operator new, so that the result is the same everywhere.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include <malloc.h>

#include "tests/sim/scale/test_driver.hh"

namespace {

std::size_t in_use = 0; // bytes of the heap; the tests have one thread
std::size_t frees = 0;  // blocks

void* count(void* block) {
    if (!block)
        throw std::bad_alloc();
    in_use += malloc_usable_size(block);
    return block;
}
void uncount(void* block) {
    if (block) {
        in_use -= malloc_usable_size(block);
        ++frees;
    }
    std::free(block);
}

} // namespace

// NOLINTBEGIN(misc-new-delete-overloads)
void* operator new(std::size_t size) {
    return count(std::malloc(size));
}
void operator delete(void* block) noexcept {
    uncount(block);
}
void operator delete(void* block, std::size_t) noexcept {
    uncount(block);
}
// NOLINTEND(misc-new-delete-overloads)

namespace t3sim::test {
namespace {

void expect_no_errors(CardPairs& pairs) {
    for (unsigned number = 0; number < pairs.size(); ++number)
        for (const char* counter :
             {"sge.bus_errors", "sge.framing_errors", "sge.messages_lost", "rnic.errors",
              "rnic.malformed_work_requests", "toe.ignored", "toe.malformed"})
            EXPECT_EQ(pairs.card(number).card().counters().value(counter), 0U) << number << ": " << counter;
}

TEST(Scale, EightCardsInOneProcess) {
    constexpr unsigned connections = 50;
    CardPairs pairs(4, connections);
    pairs.connect_all();
    for (unsigned lap = 0; lap < 3; ++lap)
        pairs.traffic();
    ASSERT_EQ(pairs.size(), 8U);
    for (unsigned number = 0; number < pairs.size(); ++number) {
        EXPECT_EQ(pairs.card(number).connected(), connections);
        EXPECT_EQ(pairs.card(number).completions(), 3U * 2 * connections) << "a send and a receive each";
    }
    expect_no_errors(pairs);
}

/// Bytes per connection on one card, with its QP, after traffic.
std::size_t memory_of(unsigned connections) {
    CardPairs pairs(1, connections);
    const std::size_t before = in_use;
    pairs.connect_all();
    pairs.traffic();
    for (unsigned number : {0U, 1U}) {
        EXPECT_EQ(pairs.card(number).connected(), connections);
        EXPECT_EQ(pairs.card(number).completions(), std::uint64_t{2} * connections);
    }
    expect_no_errors(pairs);
    return (in_use - before) / (std::size_t{2} * connections);
}

TEST(Scale, FourThousandConnectionsCostFourTimesWhatAThousandDo) {
    const std::size_t thousand = memory_of(1000), four_thousand = memory_of(4000);
    std::printf("memory per connection: %zu bytes with 1000, %zu bytes with 4000\n", thousand, four_thousand);
    EXPECT_LT(four_thousand, 3500U) << "docs/card-model.md states 3.0 KB";
    EXPECT_LT(four_thousand * 10, thousand * 11);
    EXPECT_GT(four_thousand * 11, thousand * 10);
}

// Each end probes after two hours. The replies come in the same second, and none may be missing.
TEST(Scale, ConnectionsThatFallIdleTogetherStay) {
    constexpr unsigned connections = 2000;
    constexpr Time second = 1'000'000'000;
    CardPairs pairs(1, connections);
    pairs.connect_all();
    const std::uint64_t before = pairs.wire(0).statistics().frames;
    pairs.pass(8400 * second); // two hours, and all probes of a connection that gets no reply
    EXPECT_GE(pairs.wire(0).statistics().frames - before, std::uint64_t{2} * connections)
        << "probes and replies";
    for (unsigned number : {0U, 1U}) {
        EXPECT_EQ(pairs.card(number).connected(), connections);
        EXPECT_EQ(pairs.card(number).closed, 0U);
    }
    expect_no_errors(pairs);
}

TEST(Scale, EndedConnectionsFreeTheirMemory) {
    constexpr unsigned connections = 500;
    CardPairs pairs(1, connections);
    pairs.connect_all();
    pairs.traffic();
    const std::size_t full = in_use;
    for (unsigned n = 0; n < connections; ++n)
        for (unsigned number : {0U, 1U})
            pairs.card(number).disconnect(n);
    pairs.settle();
    for (unsigned number : {0U, 1U})
        EXPECT_EQ(pairs.card(number).closed, connections);
    EXPECT_LT(in_use, full - std::size_t{2} * connections * 1000);
}

// Freeing 15,000 connections and their QPs takes 15 ms: no access to a register and no event may do all of
// it.
TEST(Scale, AResetFreesConnectionsInParts) {
    constexpr unsigned connections = 1000;
    EventQueue events;
    CardPairs pairs(1, connections, &events);
    pairs.connect_all();
    pairs.traffic();
    const std::size_t full = in_use;
    frees = 0;
    pairs.card(0).card().reset();
    EXPECT_LT(frees, 100U) << "by the reset itself";
    std::size_t most = 0;
    frees = 0;
    const auto next_event = [&] {
        most = std::max(most, std::exchange(frees, 0));
        return true;
    };
    events.run_due(events.now(), next_event);
    next_event();
    EXPECT_LT(most, 1000U) << "by one event";
    EXPECT_LT(in_use, full - connections * 2000UL);
}

} // namespace
} // namespace t3sim::test
