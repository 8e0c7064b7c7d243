// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/worker.hh"

#include <filesystem>
#include <iterator>

#include <gtest/gtest.h>

namespace t3sim {
namespace {

/// When a task comes the process may have no more threads, and the task may wait for ever.
TEST(Worker, HasItsThreadFromTheStart) {
    const auto threads = [] {
        const std::filesystem::directory_iterator all("/proc/self/task");
        return std::distance(begin(all), end(all));
    };
    const auto before = threads();
    const Worker worker;
    EXPECT_EQ(threads(), before + 1);
}

} // namespace
} // namespace t3sim
