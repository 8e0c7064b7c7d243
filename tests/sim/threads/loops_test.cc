// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Event loops in several threads, and several loops in one: tasks of other threads, fairness between loops.
#include "sim/core/event_loop.hh"

#include <algorithm>
#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/core/dma_table.hh"
#include "tests/sim/scale/test_driver.hh"

namespace t3sim::test {
namespace {

constexpr Time long_enough = 60'000'000'000;

/// Loops in a thread of their own.
class LoopThread {
public:
    explicit LoopThread(std::vector<EventLoop*> loops)
        : loops_(std::move(loops)), thread_([this] { EventLoop::run_together(loops_); }) {}
    ~LoopThread() {
        loops_[0]->post([this] { loops_[0]->stop(); });
        thread_.join();
    }
    LoopThread(const LoopThread&) = delete;
    LoopThread& operator=(const LoopThread&) = delete;
    [[nodiscard]] std::thread::id id() const { return thread_.get_id(); }

private:
    std::vector<EventLoop*> loops_;
    std::thread thread_;
};

/// Events without end.
class Busy {
public:
    explicit Busy(EventLoop& loop) : loop_(loop) { again(); }
    [[nodiscard]] std::uint64_t events() const { return events_; }

private:
    void again() {
        ++events_;
        loop_.queue().after(0, [this] { again(); });
    }
    EventLoop& loop_;
    std::uint64_t events_ = 0;
};

TEST(Loops, ATaskRunsInTheThreadOfItsLoop) {
    EventLoop loop;
    const LoopThread thread({&loop});
    std::thread::id ran;
    EXPECT_TRUE(loop.call([&] { ran = std::this_thread::get_id(); }, long_enough));
    EXPECT_EQ(ran, thread.id());
    EXPECT_THROW((void)loop.call([] { throw std::invalid_argument("no"); }, long_enough),
                 std::invalid_argument);
    EXPECT_TRUE(loop.call([] {}, long_enough)) << "an exception of a task does not end the loop";
}

TEST(Loops, ATaskThatComesTooLateIsNeverRun) {
    EventLoop loop;
    std::promise<void> release;
    bool late = false;
    {
        const LoopThread thread({&loop});
        std::promise<void> stuck;
        loop.post([&] {
            stuck.set_value();
            release.get_future().wait();
        });
        stuck.get_future().wait();
        EXPECT_FALSE(loop.call([&] { late = true; }, 1'000'000));
        release.set_value();
        EXPECT_TRUE(loop.call([] {}, long_enough));
    }
    EXPECT_FALSE(late);
}

TEST(Loops, BusyAndIdleLoopsOfOneThreadTakeTasks) {
    EventLoop first, busy(first.start()), idle(first.start());
    Busy events(busy);
    const LoopThread thread({&first, &busy, &idle});
    std::uint64_t last = 0;
    for (int round = 0; round < 20; ++round) {
        for (EventLoop* loop : {&first, &idle})
            EXPECT_TRUE(loop->call([] {}, long_enough));
        std::uint64_t now = 0;
        EXPECT_TRUE(busy.call([&] { now = events.events(); }, long_enough));
        EXPECT_GT(now, last) << "the events go on";
        last = now;
    }
}

/// The loops share the budget: a descriptor waits as long as beside one busy loop.
TEST(Loops, BusyLoopsOfOneThreadShareATurn) {
    std::array<EventLoop, 4> busy;
    const Fd other(eventfd(1, EFD_CLOEXEC)); // always ready
    std::vector<std::unique_ptr<Busy>> events;
    for (std::size_t i = 1; i < busy.size(); ++i)
        events.push_back(std::make_unique<Busy>(busy[i]));
    std::uint64_t longest = 0, last = 0;
    int looks = 0;
    const auto watch = busy[0].watch(other.get(), EPOLLIN, [&](std::uint32_t) {
        std::uint64_t sum = 0;
        for (const auto& e : events)
            sum += e->events();
        if (looks != 0)
            longest = std::max(longest, sum - last);
        last = sum;
        if (++looks == 200)
            busy[0].stop();
    });
    std::array<EventLoop*, 4> all{};
    for (std::size_t i = 0; i < busy.size(); ++i)
        all[i] = &busy[i];
    EventLoop::run_together(all);
    EXPECT_LE(longest, 2 * EventLoop::turn_events);
    EXPECT_GT(longest, 0U);
    for (const auto& e : events)
        EXPECT_GT(e->events(), 100U);
    busy[0].unwatch(watch);
}

/// What a handler of one loop does in another loop of its thread takes effect: also if that loop sleeps.
TEST(Loops, ALoopIsUsedFromAnotherOneOfItsThread) {
    EventLoop first, second(first.start());
    Time scheduled = 0, ran = 0;
    first.queue().after(20'000'000, [&] {
        second.call_here([&] {
            scheduled = second.queue().now();
            second.queue().after(5'000'000, [&] {
                ran = second.queue().now();
                first.call_here([&] { first.stop(); });
            });
        });
    });
    std::array<EventLoop*, 2> both{&first, &second};
    EventLoop::run_together(both);
    EXPECT_GE(scheduled, 20'000'000U) << "the time of a loop that has slept";
    EXPECT_GE(ran, scheduled + 5'000'000);
}

/// A pair of cards with a loop. While it is busy one card sends frames without end.
struct Pair {
    ~Pair() { busy = false; }
    void run() {
        cards.card(0).transmit(0, 60);
        for (unsigned side : {0U, 1U})
            cards.card(side).process_responses();
        if (busy)
            loop.queue().after(0, [this] { run(); });
    }
    std::uint64_t frames() { return cards.wire(0).statistics().frames; }

    EventLoop loop;
    CardPairs cards{1, 1, &loop.queue()};
    bool busy = false;
};

TEST(Loops, BusyAndIdleCardsAreUsedFromAnotherThread) {
    std::array<Pair, 3> pairs;
    const LoopThread a({&pairs[0].loop}), b({&pairs[1].loop}), c({&pairs[2].loop});
    for (unsigned n : {0U, 1U})
        ASSERT_TRUE(pairs[n].loop.call([&] { pairs[n].busy = true, pairs[n].run(); }, long_enough));
    std::array<std::uint64_t, 3> before{};
    for (int round = 0; round < 20; ++round)
        for (unsigned n = 0; n < pairs.size(); ++n) {
            const auto look = [&] {
                std::uint64_t now = 0;
                EXPECT_TRUE(pairs[n].loop.call(
                    [&] {
                        now = pairs[n].frames();
                        EXPECT_NE(pairs[n].cards.card(0).card().counters().value("sge.doorbells"), 0U);
                        EXPECT_TRUE(pairs[n].cards.card(0).card().ring(0));
                    },
                    long_enough));
                return now;
            };
            std::uint64_t now = look();
            while (n != 2 && now == before[n]) // the frames of busy cards go on
                now = look();
            before[n] = now;
        }
    // A reset of a busy card and of an idle one; the other busy pair goes on.
    for (unsigned n : {0U, 2U})
        ASSERT_TRUE(pairs[n].loop.call(
            [&] {
                pairs[n].busy = false;
                pairs[n].cards.card(0).card().reset();
            },
            long_enough));
    std::uint64_t now = before[1];
    while (now == before[1])
        ASSERT_TRUE(pairs[1].loop.call([&] { now = pairs[1].frames(); }, long_enough));
    ASSERT_TRUE(pairs[1].loop.call([&] { pairs[1].busy = false; }, long_enough));
}

/// The registry of mappings is used by all threads: while some map and unmap, another loses its pages.
TEST(Loops, GuestsThatShrinkTheirMemoryDoSoInAnyThread) {
    constexpr std::uint64_t size = 64 << 10;
    std::array<std::thread, 3> threads;
    for (auto& thread : threads)
        thread = std::thread([] {
            for (int round = 0; round < 50; ++round) {
                const Fd file(memfd_create("guest", MFD_CLOEXEC));
                ASSERT_EQ(ftruncate(file.get(), size), 0);
                Worker worker;
                DmaTable table(worker);
                ASSERT_EQ(table.map(0, size, file.get(), 0, true, true), 0);
                const Buffer data(4096, 0x55);
                EXPECT_TRUE(table.write(0, data));
                ASSERT_EQ(ftruncate(file.get(), 0), 0);
                Buffer back(4096, 1);
                EXPECT_FALSE(table.read(0, back));
                EXPECT_EQ(back, Buffer(4096, 0));
            }
        });
    for (auto& thread : threads)
        thread.join();
}

} // namespace
} // namespace t3sim::test
