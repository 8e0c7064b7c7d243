// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/event_queue.hh"

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/core/discard.hh"

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

TEST(EventQueue, AnIdOfAnEarlierEventDoesNotCancelALaterOne) {
    EventQueue queue;
    const auto first = queue.at(10, [] {});
    queue.advance(10);
    bool ran = false;
    const auto second = queue.at(20, [&] { ran = true; }); // uses the memory of the first
    EXPECT_EQ(second.place, first.place);
    EXPECT_FALSE(queue.cancel(first));
    queue.advance(20);
    EXPECT_TRUE(ran);
}

TEST(EventQueue, CancelFreesWhatTheHandlerHolds) {
    EventQueue queue;
    auto held = std::make_shared<int>();
    const auto id = queue.at(10, [held] {});
    EXPECT_EQ(held.use_count(), 2);
    queue.cancel(id);
    EXPECT_EQ(held.use_count(), 1);
    queue.at(10, [held] {});
    queue.advance(10);
    EXPECT_EQ(held.use_count(), 1);
}

TEST(EventQueue, ARepeatedEventRunsOncePerScheduling) {
    EventQueue queue;
    std::string order;
    EventQueue::Repeated event(queue, [&] { order += 'r'; });
    EXPECT_FALSE(event.scheduled());
    event.at(10);
    EXPECT_TRUE(event.scheduled());
    EXPECT_EQ(event.when(), 10U);
    queue.at(20, [&] { order += 'a'; });
    event.at(20); // moved, and so behind the other
    queue.at(20, [&] { order += 'b'; });
    queue.advance(20);
    EXPECT_EQ(order, "arb");
    EXPECT_FALSE(event.scheduled());
    EXPECT_EQ(queue.ran(), 3U);
    queue.advance(30);
    event.at(5); // the past is now
    EXPECT_EQ(event.when(), 30U);
    event.cancel();
    event.cancel();
    queue.advance(40);
    EXPECT_EQ(order, "arb");
}

TEST(EventQueue, ARepeatedEventMayScheduleItselfAndOthers) {
    EventQueue queue;
    unsigned runs = 0, others = 0;
    EventQueue::Repeated* self = nullptr;
    EventQueue::Repeated event(queue, [&] {
        queue.after(0, [&] { ++others; });
        if (++runs < 3)
            self->after(10);
    });
    self = &event;
    event.after(0);
    queue.advance(100);
    EXPECT_EQ(runs, 3U);
    EXPECT_EQ(others, 3U);
}

TEST(EventQueue, ARepeatedEventIsMovedToAnEarlierTimeOnly) {
    EventQueue queue;
    std::string order;
    EventQueue::Repeated event(queue, [&] { order += 'r'; });
    event.soon();
    queue.at(10, [&] { order += 'a'; });
    event.soon();
    event.at_latest(10);
    queue.advance(5);
    EXPECT_EQ(order, "r");
    event.at_latest(10);
    event.at_latest(20);
    EXPECT_EQ(event.when(), 10U);
    event.soon();
    EXPECT_EQ(event.when(), 5U);
    queue.advance(10);
    EXPECT_EQ(order, "rra");

    // It is due, and has not run.
    event.at_latest(20);
    queue.at(20, [&] { order += 'b'; });
    queue.run_due(30, [] { return false; });
    event.soon();
    event.at_latest(25);
    event.at_latest(15);
    queue.advance(30);
    EXPECT_EQ(order, "rrarb");
}

/// Something else uses up each turn, and fills such tables.
TEST(Discard, IsNotPostponedByFurtherTables) {
    EventQueue queue;
    const std::function<void()> busy = [&] { queue.after(0, busy); };
    busy();
    Discard discard(queue);
    for (int turns = 0; turns < 100; ++turns) {
        discard.add([] { return false; });
        bool over = false;
        queue.run_due(0, [&] { return !std::exchange(over, true); });
        if (discard.empty())
            return;
    }
    FAIL() << "nothing is freed";
}

TEST(EventQueue, ARepeatedEventIsCancelledWhenItIsDestroyed) {
    EventQueue queue;
    bool ran = false;
    {
        EventQueue::Repeated event(queue, [&] { ran = true; });
        event.after(10);
    }
    EXPECT_EQ(queue.next(), std::nullopt);
    queue.advance(20);
    EXPECT_FALSE(ran);
}

/// Schedules and cancels at random, also in handlers, beside a list that is sorted by time and order of
/// scheduling.
TEST(EventQueue, RunsInTheOrderOfAListThatIsSorted) {
    std::mt19937 random(3);
    EventQueue queue;
    struct Entry {
        EventQueue::Id id;
        unsigned number;
    };
    std::multimap<Time, Entry> expected; // of equal keys the earlier inserted one is first
    std::vector<EventQueue::Id> old;
    unsigned numbers = 0, ran = 0;
    std::function<void()> change = [&] {
        for (unsigned n = random() % 4; n != 0; --n) {
            const Time when = queue.now() + random() % 30;
            const unsigned number = ++numbers;
            const auto id = queue.at(when, [&, number] {
                ASSERT_FALSE(expected.empty());
                EXPECT_EQ(expected.begin()->second.number, number);
                EXPECT_EQ(expected.begin()->first, queue.now());
                old.push_back(expected.begin()->second.id);
                expected.erase(expected.begin());
                ++ran;
                if (numbers < 5000)
                    change();
            });
            expected.emplace(when, Entry{id, number});
        }
        if (!expected.empty() && random() % 3 == 0) {
            auto victim =
                std::next(expected.begin(), static_cast<std::ptrdiff_t>(random() % expected.size()));
            EXPECT_TRUE(queue.cancel(victim->second.id));
            EXPECT_FALSE(queue.cancel(victim->second.id));
            expected.erase(victim);
        }
        if (!old.empty()) {
            EXPECT_FALSE(queue.cancel(old[random() % old.size()]));
        }
    };
    while (numbers < 5000) {
        change();
        queue.advance(queue.now() + random() % 20);
    }
    queue.advance(queue.now() + 100);
    EXPECT_TRUE(expected.empty());
    EXPECT_EQ(queue.ran(), ran);
    EXPECT_EQ(queue.next(), std::nullopt);
}

} // namespace
} // namespace t3sim
