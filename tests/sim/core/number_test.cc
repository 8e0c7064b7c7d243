// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/number.hh"

#include <cstdint>

#include <gtest/gtest.h>

namespace t3sim {
namespace {

TEST(Number, IsDecimalOrHexadecimal) {
    EXPECT_EQ(parse_number<std::uint32_t>("64"), 64U);
    EXPECT_EQ(parse_number<std::uint32_t>("0x40"), 64U);
    EXPECT_EQ(parse_number<std::uint32_t>("0xffffFFFF"), 0xffffffffU);
    EXPECT_EQ(parse_number<std::uint32_t>("010"), 10U) << "not octal";
    for (const char* wrong : {"", "0x", "x", "40x", "0x4g", " 1", "1 ", "-1", "+1", "1.5", "0X40", "0x-1",
                              "4294967296", "0x100000000"})
        EXPECT_EQ(parse_number<std::uint32_t>(wrong), std::nullopt) << wrong;
    EXPECT_EQ(parse_number<std::uint64_t>("0x100000000"), std::uint64_t{1} << 32);
}

TEST(Number, HasAFractionIfItsTypeHas) {
    EXPECT_EQ(parse_number<double>("0.25"), 0.25);
    EXPECT_EQ(parse_number<double>("1"), 1.0);
    for (const char* wrong : {"", "0x1", "bad-crc", "0.5%"})
        EXPECT_EQ(parse_number<double>(wrong), std::nullopt) << wrong;
}

} // namespace
} // namespace t3sim
