// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/counters.hh"

#include <gtest/gtest.h>

namespace t3sim {
namespace {

TEST(Counters, ReferencesSurviveLaterNames) {
    Counters counters;
    Counter& first = counters["sge.doorbells"];
    for (int i = 0; i < 1000; i++)
        counters["x." + std::to_string(i)] = 1;
    first += 7;
    EXPECT_EQ(counters.value("sge.doorbells"), 7U);
}

TEST(Counters, ReadingDoesNotCreateOne) {
    const Counters counters;
    EXPECT_EQ(counters.value("nothing"), 0U);
    int seen = 0;
    counters.for_each([&](const std::string&, Counter) { seen++; });
    EXPECT_EQ(seen, 0);
}

TEST(Counters, TextIsSortedAndLeavesZeroesOut) {
    Counters counters;
    counters["b"] = 2;
    counters["a"] = 1;
    counters["c"] = 0;
    EXPECT_EQ(counters.text(), "a 1\nb 2\n");
}

} // namespace
} // namespace t3sim
