// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Seeded runs of the hostile guest. T3_HOSTILE_SEED=N runs another seed, T3_HOSTILE_STEPS=N longer; a failure
// names the seed. Build with -DT3_SANITIZE=ON to see more than crashes.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "sim/core/log.hh"
#include "tests/sim/hostile/guest.hh"

namespace t3sim::test {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

class Hostile : public testing::TestWithParam<unsigned> {};

TEST_P(Hostile, TheCardsLiveOn) {
    const char* levels = std::getenv("T3_HOSTILE_LOG");
    ASSERT_TRUE(set_log_levels(levels ? levels : "off", nullptr));
    const std::uint64_t seed = from_environment("T3_HOSTILE_SEED", GetParam());
    const std::uint64_t steps = from_environment("T3_HOSTILE_STEPS", 4000);
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededChoices choices(seed, ~std::uint64_t{0});
    HostileGuest guest(choices);
    if (seed % 4 != 0) // some find a card that nobody has set up
        guest.bring_up();
    for (std::uint64_t i = 0; i < steps; i++) {
        guest.step();
        // After a while most rings are broken; begin again.
        if (i % 400 == 399) {
            EXPECT_TRUE(guest.alive());
            guest.bring_up();
        }
    }
    EXPECT_TRUE(guest.alive());
    if (std::getenv("T3_HOSTILE_COUNTERS"))
        std::fputs(guest.counters().c_str(), stdout);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Hostile, testing::Range(1U, 9U));

} // namespace
} // namespace t3sim::test
