// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Seeded runs of the test that tests/fuzz/tcp.cc runs with a fuzzer's bytes.
#include <gtest/gtest.h>

#include "tests/sim/tcp/any_segments.hh"

namespace t3sim::tcp::test {
namespace {

class TcpFuzz : public testing::TestWithParam<unsigned> {};

TEST_P(TcpFuzz, AnySegmentsAndAnyOperations) {
    t3sim::test::SeededChoices choices(GetParam(), ~std::uint64_t{0});
    AnySegments any(choices);
    for (int step = 0; step < 4000; ++step) {
        any.step();
        ASSERT_EQ(any.broken(), "") << "after step " << step;
    }
    EXPECT_GT(std::count(any.end.log.begin(), any.end.log.end(), "established"), 5)
        << "this seed has tried little";
    EXPECT_GT(any.received, 10'000U);
}
INSTANTIATE_TEST_SUITE_P(Seeds, TcpFuzz, testing::Range(0U, 12U));

} // namespace
} // namespace t3sim::tcp::test
