// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/event_loop.hh"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "sim/core/unix_socket.hh"

namespace t3sim {
namespace {

TEST(EventLoop, TheQueueFollowsTheClock) {
    EventLoop loop;
    const auto begin = std::chrono::steady_clock::now();
    loop.queue().after(20'000'000, [&] { loop.stop(); });
    loop.run();
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(took, std::chrono::milliseconds(20));
    EXPECT_GE(loop.queue().now(), 20'000'000U);
}

TEST(EventLoop, SleepsWhenThereIsNothingToDo) {
    EventLoop loop;
    loop.queue().after(200'000'000, [&] { loop.stop(); });
    const std::clock_t cpu = std::clock();
    loop.run();
    EXPECT_LT(std::clock() - cpu, CLOCKS_PER_SEC / 20) << "busy-polling";
}

TEST(EventLoop, APauseStopsTheTime) {
    EventLoop loop;
    unsigned ran = 0;
    const auto again = [&] { loop.queue().after(2'000'000, [&] { ++ran; }); };
    again();
    loop.pause();
    const Time began = loop.queue().now();
    EXPECT_EQ(loop.step(5), 1U);
    EXPECT_EQ(ran, 1U);
    EXPECT_EQ(loop.queue().now(), began + 2'000'000);
    again();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    loop.run_once(0);
    EXPECT_EQ(ran, 1U);
    EXPECT_EQ(loop.queue().now(), began + 2'000'000);
    loop.resume();
    loop.run_once(0);
    EXPECT_LT(loop.queue().now(), began + 10'000'000) << "the time of the pause is left out";
    while (ran == 1)
        loop.run_once(-1);
}

TEST(EventLoop, AnEarlierEventIsNotLateBecauseOfALaterOne) {
    EventLoop loop;
    int order = 0, first = 0, second = 0;
    loop.queue().after(60'000'000'000, [] { FAIL(); });
    loop.run_once(0); // arms for the far one
    loop.queue().after(2'000'000, [&] {
        first = ++order;
        loop.queue().after(2'000'000, [&] {
            second = ++order;
            loop.stop();
        });
    });
    loop.run();
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 2);
}

TEST(EventLoop, WhatAnEventMakesUrgentRunsBeforeAnotherHandler) {
    EventLoop loop;
    const Fd ready(eventfd(1, EFD_CLOEXEC));
    std::string order;
    loop.watch(ready.get(), EPOLLIN, [&](std::uint32_t) { order += "handler "; });
    loop.queue().after(0, [&] { loop.queue().next_of_all([&] { order += "urgent "; }); });
    loop.run_once(0);
    loop.run_once(0);
    EXPECT_EQ(order.substr(0, 7), "urgent ");
}

/// An event that reschedules itself at once must not starve descriptors or later events.
TEST(EventLoop, EndlessEventsDoNotStarveDescriptors) {
    EventLoop loop;
    const Fd other(eventfd(1, EFD_CLOEXEC)); // always ready
    constexpr unsigned endless = 2'000'000;
    unsigned events = 0, at_look = 0, longest = 0, at_timer = 0;
    const auto watch = loop.watch(other.get(), EPOLLIN, [&](std::uint32_t) {
        longest = std::max(longest, events - at_look);
        at_look = events;
    });
    std::function<void()> again = [&] {
        if (++events < endless)
            loop.queue().after(0, again);
    };
    loop.queue().after(0, again);
    loop.queue().after(1, [&] { at_timer = events; });
    for (int turns = 0; turns < 100; ++turns)
        loop.run_once(-1);
    EXPECT_LE(longest, 2 * EventLoop::turn_events);
    EXPECT_GT(events, 0U);
    EXPECT_LT(events, endless);
    EXPECT_GT(at_timer, 0U);
    EXPECT_LE(at_timer, 2 * EventLoop::turn_events);
    loop.unwatch(watch);
}

/// While a peer sends one request after the other, it waits for a shorter turn each time.
TEST(EventLoop, RequestsShortenTheTurns) {
    EventLoop loop;
    const Fd other(eventfd(1, EFD_CLOEXEC)); // always ready
    bool sends_requests = false;
    std::vector<unsigned> gaps;
    unsigned events = 0;
    const auto watch = loop.watch(other.get(), EPOLLIN, [&](std::uint32_t) {
        gaps.push_back(std::exchange(events, 0));
        if (sends_requests)
            loop.expect_request();
    });
    std::function<void()> again = [&] {
        ++events;
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(1);
        while (std::chrono::steady_clock::now() < end)
            ;
        loop.queue().after(0, again);
    };
    loop.queue().after(0, again);
    const auto typical_gap = [&](bool with_requests) {
        sends_requests = with_requests;
        loop.run_once(0);
        gaps.clear();
        for (int turn = 0; turn < 101; ++turn)
            loop.run_once(0);
        std::nth_element(gaps.begin(), gaps.begin() + 50, gaps.end());
        return gaps.at(50);
    };
    const unsigned without = typical_gap(false), with = typical_gap(true);
    EXPECT_GE(with, 1U);
    EXPECT_LE(with, without / 2);
    loop.unwatch(watch);
}

TEST(EventLoop, HandlersMayUnwatchThemselvesAndOthers) {
    EventLoop loop;
    const Fd a(eventfd(1, EFD_CLOEXEC)), b(eventfd(1, EFD_CLOEXEC)); // both readable
    int calls = 0;
    EventLoop::Watch wa = 0, wb = 0;
    const auto both = [&](std::uint32_t) {
        calls++;
        loop.unwatch(wa);
        loop.unwatch(wb);
    };
    wa = loop.watch(a.get(), EPOLLIN, both);
    wb = loop.watch(b.get(), EPOLLIN, both);
    loop.run_once(0);
    loop.run_once(0);
    EXPECT_EQ(calls, 1);
    loop.unwatch(wa);
    loop.unwatch(0);
}

Time processor_time() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<Time>(now.tv_sec) * 1'000'000'000 + static_cast<Time>(now.tv_nsec);
}

/// Runs the loop for at least 300 ms. Returns the part of its processor time that @p handler took.
double part_of(const EventLoop::Handler& handler, const std::vector<EventLoop::SharedShare>& shares) {
    EventLoop loop;
    Time used = 0;
    std::vector<EventLoop::Watch> watches;
    const Fd other(eventfd(1, EFD_CLOEXEC)); // always ready
    std::vector<Fd> copies;
    for (const auto& share : shares) {
        copies.emplace_back(dup(other.get()));
        watches.push_back(loop.watch(
            copies.back().get(), EPOLLIN,
            [&](std::uint32_t ready) {
                const Time before = processor_time();
                handler(ready);
                used += processor_time() - before;
            },
            share));
    }
    unsigned others = 0;
    const auto innocent = loop.watch(other.get(), EPOLLIN, [&](std::uint32_t) { ++others; });
    const Time begin = processor_time();
    while (processor_time() - begin < 300'000'000)
        loop.run_once(0);
    EXPECT_GT(others, 1U);
    for (const auto watch : watches)
        loop.unwatch(watch);
    loop.unwatch(innocent);
    return static_cast<double>(used) / static_cast<double>(processor_time() - begin);
}

void compute(Time duration) {
    const Time begin = processor_time();
    while (processor_time() - begin < duration)
        ;
}

TEST(EventLoop, HandlersThatTakeLongHaveToRest) {
    const auto share = std::make_shared<EventLoop::Share>();
    // A busy machine makes rests shorter in processor time, which is what the loop has.
    EXPECT_LT(part_of([](std::uint32_t) { compute(3'000'000); }, {share, share, share}), 0.5);
    EXPECT_GT(part_of([](std::uint32_t) { compute(3'000'000); }, {nullptr}), 0.9) << "not the loop's own";
    EXPECT_GT(part_of([](std::uint32_t) { compute(100'000); }, {std::make_shared<EventLoop::Share>()}), 0.9);
}

/// A machine with other work interrupts any handler.
TEST(EventLoop, HandlersThatWaitForTheProcessorDoNotRest) {
    EventLoop loop;
    const Fd other(eventfd(1, EFD_CLOEXEC));
    unsigned calls = 0;
    const auto watch = loop.watch(other.get(), EPOLLIN, [&](std::uint32_t) {
        ++calls;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
    for (int i = 0; i < 10; ++i)
        loop.run_once(0);
    EXPECT_EQ(calls, 10U);
    loop.unwatch(watch);
}

/// A hypervisor interrupts handlers, too, and its time counts as theirs.
TEST(EventLoop, SingleLongHandlersCauseNoRest) {
    EventLoop loop;
    const auto share = std::make_shared<EventLoop::Share>();
    unsigned handlers = 0;
    // The first one only starts the measurement.
    for (; !share->rests; ++handlers)
        loop.charge(share, [] { compute(20'000'000); });
    EXPECT_EQ(handlers, 1 + EventLoop::single_handlers + 1);
    share->rests = false;
    // As if the last one had been long ago.
    share->until = share->suspected_until = 0;
    for (unsigned i = 0; i < EventLoop::single_handlers; ++i)
        loop.charge(share, [] { compute(2'000'000); });
    EXPECT_FALSE(share->rests);
    loop.charge(share, [] { compute(2'000'000); });
    EXPECT_TRUE(share->rests);
}

TEST(EventLoop, AnEventDuringARestMakesItLonger) {
    EventLoop loop;
    const auto share = std::make_shared<EventLoop::Share>();
    while (!share->rests)
        loop.charge(share, [] { compute(20'000'000); });
    for (const Time duration : {2'000'000, 20'000'000, 100'000}) {
        const Time until = share->until, measured_until = share->measured_until;
        loop.charge(share, [duration] { compute(duration); });
        EXPECT_GE(share->until, until + (duration > EventLoop::long_time ? 20 * duration : 0));
        EXPECT_GE(share->measured_until, measured_until);
    }
    EXPECT_TRUE(share->rests);
}

/// The next client of the card waits for the end of the rest, too.
TEST(EventLoop, RestsDoNotAddUp) {
    EventLoop loop;
    const auto share = std::make_shared<EventLoop::Share>();
    const Time longest = EventLoop::rest_factor * EventLoop::longest_time;
    for (int i = 0; i < 8; ++i)
        loop.charge(share, [] { compute(30'000'000); });
    EXPECT_TRUE(share->rests);
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    EXPECT_LE(share->until, static_cast<Time>(std::chrono::nanoseconds(now).count()) + longest);
}

/// What happens meanwhile is handled after the rest: a level, an edge, a change, a new descriptor.
TEST(EventLoop, ARestLosesNothing) {
    EventLoop loop;
    const auto share = std::make_shared<EventLoop::Share>();
    const Fd edge(eventfd(0, EFD_CLOEXEC)), changed(eventfd(1, EFD_CLOEXEC)), late(eventfd(1, EFD_CLOEXEC));
    int edges = 0, changes = 0, lates = 0;
    std::vector watches{loop.watch(
                            edge.get(), EPOLLIN | EPOLLET, [&](std::uint32_t) { ++edges; }, share),
                        loop.watch(
                            changed.get(), 0, [&](std::uint32_t) { ++changes; }, share)};
    while (!share->rests)
        loop.charge(share, [] { compute(2'000'000); });
    const std::uint64_t one = 1;
    ASSERT_EQ(write(edge.get(), &one, sizeof one), ssize_t{sizeof one});
    loop.change(watches[1], EPOLLIN);
    watches.push_back(loop.watch(
        late.get(), EPOLLIN, [&](std::uint32_t) { ++lates; }, share));
    while (share->rests) {
        EXPECT_EQ(edges + changes + lates, 0);
        loop.run_once(-1);
    }
    loop.run_once(0);
    EXPECT_EQ(edges, 1);
    EXPECT_GE(changes, 1);
    EXPECT_GE(lates, 1);
    for (const auto watch : watches)
        loop.unwatch(watch);
}

struct ListenerTest : testing::Test {
    ListenerTest() {
        char name[] = "/tmp/t3sim-listen-XXXXXX";
        directory = mkdtemp(name);
        path = directory / "s";
    }
    ~ListenerTest() override { std::filesystem::remove_all(directory); }
    std::string refusal(const std::string& where) {
        try {
            const Listener listener(loop, where, [](Fd) {});
            return "";
        } catch (const std::runtime_error& e) {
            return e.what();
        }
    }

    EventLoop loop;
    std::filesystem::path directory, path;
};

TEST_F(ListenerTest, AcceptsUnlessPausedAndRemovesItsFile) {
    {
        int accepted = 0;
        Listener listener(loop, path, [&](Fd) { accepted++; });
        const Fd one = connect_unix(path);
        loop.run_once(0);
        EXPECT_EQ(accepted, 1);
        listener.pause(true);
        const Fd two = connect_unix(path);
        loop.run_once(0);
        EXPECT_EQ(accepted, 1);
        listener.pause(false);
        loop.run_once(0);
        EXPECT_EQ(accepted, 2);
    }
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ListenerTest, ReplacesAStaleSocketButNoOtherFile) {
    {
        const Listener first(loop, path, [](Fd) {});
        EXPECT_EQ(refusal(path), "another process already listens at '" + path.string() + "'");
        // An ended process leaves its file.
        std::filesystem::create_hard_link(path, directory / "stale");
    }
    EXPECT_EQ(refusal(directory / "stale"), "");
    std::ofstream(path) << "precious";
    EXPECT_EQ(refusal(path), "'" + path.string() + "' exists and is not a socket");
    EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(ListenerTest, LongPathsAreReported) {
    EXPECT_EQ(refusal("/tmp/" + std::string(103, 'x')), "socket path '/tmp/" + std::string(103, 'x') +
                                                            "' has 108 characters, at most 107 are possible");
}

} // namespace
} // namespace t3sim
