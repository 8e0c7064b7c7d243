// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/time.hh"

#include <gtest/gtest.h>

namespace t3sim {
namespace {

TEST(Time, HasAUnit) {
    EXPECT_EQ(parse_time("7ns"), 7U);
    EXPECT_EQ(parse_time("50us"), 50'000U);
    EXPECT_EQ(parse_time("1.001ms"), 1'001'000U) << "rounded";
    EXPECT_EQ(parse_time("1.5s"), 1'500'000'000U);
    EXPECT_EQ(parse_time("3600s"), 3'600'000'000'000U);
    for (const char* wrong : {"", "7", "s", "-1s", "7 s", "7m", "7ss", "nans", "infs", "3601s"})
        EXPECT_EQ(parse_time(wrong), std::nullopt) << wrong;
}

TEST(Time, OfARecordingMayBeInSeconds) {
    EXPECT_EQ(parse_seconds("1.5"), 1'500'000'000U);
    EXPECT_EQ(parse_seconds("20ms"), 20'000'000U);
    EXPECT_EQ(parse_seconds("7200"), 7'200'000'000'000U);
    for (const char* wrong : {"", "soon", "-1", "1e30"})
        EXPECT_EQ(parse_seconds(wrong), std::nullopt) << wrong;
}

TEST(Time, QuantitiesHaveALimit) {
    constexpr Unit units[] = {{"", 1}, {"K", 1000}};
    EXPECT_EQ(parse_quantity("2K", units, 2000), 2000.0);
    EXPECT_EQ(parse_quantity("2.1K", units, 2000), std::nullopt);
    EXPECT_EQ(parse_quantity("2M", units, 1e9), std::nullopt);
}

} // namespace
} // namespace t3sim
