// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Seeded runs of the hostile guest. T3_HOSTILE_SEED=N runs another seed, T3_HOSTILE_STEPS=N longer; a failure
// names the seed. Build with -DT3_SANITIZE=ON to see more than crashes.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "sim/core/counters.hh"
#include "sim/core/log.hh"
#include "tests/sim/hostile/guest.hh"

namespace t3sim::test {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

/// Each run has an action that is too long: the same one, or that with the run's number.
std::string excess_of_ten(bool same) {
    unsigned run = 0;
    return Effort::excess_each_time([&] {
        Effort effort;
        for (unsigned action = 0; action < Effort::attempts; ++action) {
            const std::uint64_t begin = Effort::cpu_time();
            while (action == (same ? 1 : run) && Effort::cpu_time() - begin <= Effort::longest_allowed) {
            }
            effort.action_ends();
        }
        ++run;
        return effort;
    });
}

TEST(Effort, OnlyAnActionThatIsTooLongEachTimeExceedsTheLimit) {
    EXPECT_EQ(excess_of_ten(true).substr(0, 13), "action 1 took");
    EXPECT_EQ(excess_of_ten(false), "");
}

class Hostile : public testing::TestWithParam<unsigned> {
protected:
    static Effort run(std::uint64_t seed, std::uint64_t steps) {
        SeededChoices choices(seed, ~std::uint64_t{0});
        HostileGuest guest(choices);
        if (seed % 4 != 0) // some seeds start with a card that is not set up
            guest.bring_up();
        for (std::uint64_t i = 0; i < steps; i++) {
            guest.step();
            // After some steps most rings are invalid; bring the cards up again.
            if (i % 400 == 399) {
                EXPECT_TRUE(guest.responds());
                guest.bring_up();
            }
        }
        EXPECT_TRUE(guest.responds());
        if (std::getenv("T3_HOSTILE_COUNTERS"))
            std::printf("longest action %ju us, heap %zu KiB\n%s",
                        static_cast<std::uintmax_t>(guest.effort().longest_action() / 1000),
                        guest.effort().heap_growth() >> 10, guest.counters().c_str());
        return guest.effort();
    }
};

TEST_P(Hostile, TheCardsRecover) {
    const char* levels = std::getenv("T3_HOSTILE_LOG");
    ASSERT_TRUE(set_log_levels(levels ? levels : "off", nullptr));
    const std::uint64_t seed = from_environment("T3_HOSTILE_SEED", GetParam());
    const std::uint64_t steps = from_environment("T3_HOSTILE_STEPS", 4000);
    SCOPED_TRACE("seed " + std::to_string(seed));
    EXPECT_EQ(Effort::excess_each_time([&] { return run(seed, steps); }), "");
}

/// Work of bring_up() on both cards since @p before.
void expect_that_all_came_through(const HostileGuest& guest,
                                  const std::array<std::uint64_t, 2>& cqes_before) {
    for (unsigned side = 0; side < 2; side++) {
        const Counters& counters = guest.counters(side);
        EXPECT_EQ(counters.value("sge.cqes") - cqes_before[side], 2U * HostileGuest::first_sends)
            << "sends and receives of side " << side << '\n'
            << guest.counters();
    }
}

// If bring_up() failed, all later input would fail the first check.
TEST(HostileGuestTest, BringsUpFreshCardsForEverySeed) {
    ASSERT_TRUE(set_log_levels("off", nullptr));
    for (std::uint64_t seed = 0; seed < 200 && !HasFailure(); seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        SeededChoices choices(seed, ~std::uint64_t{0});
        HostileGuest guest(choices);
        guest.bring_up();
        expect_that_all_came_through(guest, {});
    }
}

TEST(HostileGuestTest, BringsUpCardsAfterARunAndReset) {
    ASSERT_TRUE(set_log_levels("off", nullptr));
    SeededChoices choices(4711, ~std::uint64_t{0});
    HostileGuest guest(choices);
    for (int run = 0; run < 40 && !HasFailure(); run++) {
        SCOPED_TRACE("run " + std::to_string(run));
        for (int i = 0; i < 100; i++)
            guest.step();
        EXPECT_TRUE(guest.responds());
        const std::array<std::uint64_t, 2> before{guest.counters(0).value("sge.cqes"),
                                                  guest.counters(1).value("sge.cqes")};
        guest.bring_up();
        expect_that_all_came_through(guest, before);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Hostile, testing::Range(1U, 9U));

} // namespace
} // namespace t3sim::test
