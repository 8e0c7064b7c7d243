// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/log.hh"

#include <gtest/gtest.h>

namespace t3sim {
namespace {

TEST(Log, LevelsByPartAndInGeneral) {
    std::string wrong;
    auto& early = logger("test-early");
    ASSERT_TRUE(set_log_levels("warning,test-early=trace,test-late=debug", &wrong));
    EXPECT_EQ(early.level(), spdlog::level::trace);
    EXPECT_EQ(logger("test-late").level(), spdlog::level::debug);
    EXPECT_EQ(logger("test-other").level(), spdlog::level::warn);
}

TEST(Log, WrongWordIsNamedAndNothingChanges) {
    std::string wrong;
    auto& part = logger("test-part");
    ASSERT_TRUE(set_log_levels("test-part=error", &wrong));
    EXPECT_FALSE(set_log_levels("test-part=debug,loud", &wrong));
    EXPECT_EQ(wrong, "loud");
    EXPECT_FALSE(set_log_levels("mmio=9", &wrong));
    EXPECT_EQ(wrong, "mmio=9");
    EXPECT_EQ(part.level(), spdlog::level::err);
}

} // namespace
} // namespace t3sim
