// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Many cards in one process, and many connections on a card: that it works, and that memory grows with the
// number and no faster. Memory is counted at operator new, so that the result is the same everywhere.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include <malloc.h>

#include "tests/sim/scale/stand_in.hh"

namespace {

std::size_t in_use = 0; // bytes of the heap; the tests have one thread

void* count(void* block) {
    if (!block)
        throw std::bad_alloc();
    in_use += malloc_usable_size(block);
    return block;
}
void uncount(void* block) {
    if (block)
        in_use -= malloc_usable_size(block);
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

void expect_no_trouble(Hall& hall) {
    for (unsigned number = 0; number < hall.size(); ++number)
        for (const char* counter :
             {"sge.bus_errors", "sge.framing_errors", "sge.messages_lost", "rnic.errors",
              "rnic.malformed_work_requests", "toe.ignored", "toe.malformed"})
            EXPECT_EQ(hall.card(number).card().counters().value(counter), 0U) << number << ": " << counter;
}

TEST(Scale, EightCardsInOneProcess) {
    constexpr unsigned connections = 50;
    Hall hall(4, connections);
    hall.connect_all();
    for (unsigned lap = 0; lap < 3; ++lap)
        hall.traffic();
    ASSERT_EQ(hall.size(), 8U);
    for (unsigned number = 0; number < hall.size(); ++number) {
        EXPECT_EQ(hall.card(number).connected(), connections);
        EXPECT_EQ(hall.card(number).completions(), 3U * 2 * connections) << "a send and a receive each";
    }
    expect_no_trouble(hall);
}

/// Bytes that a connection costs one card, with its QP, after traffic.
std::size_t memory_of(unsigned connections) {
    Hall hall(1, connections);
    const std::size_t before = in_use;
    hall.connect_all();
    hall.traffic();
    for (unsigned number : {0U, 1U}) {
        EXPECT_EQ(hall.card(number).connected(), connections);
        EXPECT_EQ(hall.card(number).completions(), std::uint64_t{2} * connections);
    }
    expect_no_trouble(hall);
    return (in_use - before) / (std::size_t{2} * connections);
}

TEST(Scale, FourThousandConnectionsCostFourTimesWhatAThousandDo) {
    const std::size_t thousand = memory_of(1000), four_thousand = memory_of(4000);
    std::printf("memory per connection: %zu bytes with 1000, %zu bytes with 4000\n", thousand, four_thousand);
    EXPECT_LT(four_thousand, 6000U) << "docs/card-model.md says 4.4 KB";
    EXPECT_LT(four_thousand * 10, thousand * 11);
    EXPECT_GT(four_thousand * 11, thousand * 10);
}

TEST(Scale, WhatEndsGivesItsMemoryBack) {
    constexpr unsigned connections = 500;
    Hall hall(1, connections);
    hall.connect_all();
    hall.traffic();
    const std::size_t full = in_use;
    for (unsigned n = 0; n < connections; ++n)
        for (unsigned number : {0U, 1U})
            hall.card(number).disconnect(n);
    hall.settle();
    for (unsigned number : {0U, 1U})
        EXPECT_EQ(hall.card(number).closed, connections);
    EXPECT_LT(in_use, full - std::size_t{2} * connections * 1000);
}

} // namespace
} // namespace t3sim::test
