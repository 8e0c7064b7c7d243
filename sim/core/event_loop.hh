// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The one thread of a running model: file descriptors by epoll, and the event queue advanced along
// CLOCK_MONOTONIC. Sleeps whenever there is nothing to do.
//
// One turn is: events that are due, until the turn's budget is used up; then one look at the descriptors,
// each of which has the same budget for its handler. So whatever the events are, and however many they make,
// every descriptor is served after a few budgets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include <sys/epoll.h>

#include "sim/core/event_queue.hh"
#include "sim/core/fd.hh"

namespace t3sim {

class EventLoop {
public:
    /// Gets the epoll events that are ready.
    using Handler = std::function<void(std::uint32_t ready)>;
    /// Names one watched descriptor; 0 names none.
    using Watch = std::uint64_t;

    /// Of the events of one turn, and of one handler.
    static constexpr Time turn_time = 50'000;
    static constexpr unsigned turn_events = 1024;

    /// Throws std::system_error if the kernel refuses.
    EventLoop();
    EventLoop(const EventLoop&) = delete;
    EventLoop& operator=(const EventLoop&) = delete;

    [[nodiscard]] EventQueue& queue() { return queue_; }

    /// Calls @p handler while one of @p events (EPOLLIN, EPOLLOUT) holds. Level triggered. @p fd must stay
    /// open until forget().
    Watch watch(int fd, std::uint32_t events, Handler handler);
    void change(Watch watch, std::uint32_t events);
    /// Never called again, not even for what is ready already. Handlers may forget themselves and others.
    void forget(Watch watch);

    void run();
    void stop() { stop_ = true; }
    /// One turn. Waits for at most @p timeout_ms (-1: for ever) if nothing is due.
    void run_once(int timeout_ms);
    /// For handlers with much to do: true when they have used up their budget and should return. What is left
    /// is still ready in the next turn.
    [[nodiscard]] bool turn_is_over() const;

private:
    struct Entry {
        int fd;
        Handler handler;
    };

    void advance();
    void arm_timer();

    EventQueue queue_;
    Fd epoll_;
    Fd timer_;
    Time start_; ///< CLOCK_MONOTONIC when the queue's time was 0
    Time armed_ = 0;
    Time turn_end_ = 0;        ///< CLOCK_MONOTONIC
    bool more_is_due_ = false; ///< the last turn ended before the events that were due
    Watch last_watch_ = 0;
    std::map<Watch, std::shared_ptr<Entry>> entries_;
    bool stop_ = false;
};

} // namespace t3sim
