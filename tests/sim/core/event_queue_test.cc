// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/event_queue.hh"

#include <string>

#include <gtest/gtest.h>

namespace t3sim {
namespace {

TEST(EventQueue, RunsByTimeThenByOrderOfScheduling) {
    EventQueue queue;
    std::string order;
    queue.at(20, [&] { order += 'c'; });
    queue.at(10, [&] { order += 'a'; });
    queue.at(10, [&] { order += 'b'; });
    queue.advance(15);
    EXPECT_EQ(order, "ab");
    EXPECT_EQ(queue.now(), 15U);
    queue.advance(20);
    EXPECT_EQ(order, "abc");
}

TEST(EventQueue, HandlersSeeTheirOwnTimeAndMayScheduleMore) {
    EventQueue queue;
    Time inner = 0;
    queue.at(10, [&] { queue.after(5, [&] { inner = queue.now(); }); });
    queue.advance(100);
    EXPECT_EQ(inner, 15U);
    EXPECT_EQ(queue.now(), 100U);
}

TEST(EventQueue, PastTimeMeansNow) {
    EventQueue queue;
    queue.advance(50);
    bool ran = false;
    queue.at(10, [&] { ran = true; });
    queue.advance(50);
    EXPECT_TRUE(ran);
    EXPECT_EQ(queue.now(), 50U);
}

TEST(EventQueue, CancelWorksOnceAndOnlyBeforeTheEvent) {
    EventQueue queue;
    bool ran = false;
    const auto id = queue.at(10, [&] { ran = true; });
    EXPECT_TRUE(queue.cancel(id));
    EXPECT_FALSE(queue.cancel(id));
    queue.advance(20);
    EXPECT_FALSE(ran);
    EXPECT_FALSE(queue.cancel(EventQueue::Id{}));
    EXPECT_EQ(queue.next(), std::nullopt);
}

TEST(EventQueue, TimeNeverGoesBack) {
    EventQueue queue;
    queue.advance(30);
    queue.advance(10);
    EXPECT_EQ(queue.now(), 30U);
}

} // namespace
} // namespace t3sim
