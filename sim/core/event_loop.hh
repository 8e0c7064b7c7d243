// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The loop of a running model: it polls file descriptors with epoll and advances its event queue along
// CLOCK_MONOTONIC. It sleeps while no event is due and no descriptor is ready. A loop and all that uses it
// belong to one thread, which may run several loops. Only post() and call() may be used by other threads.
//
// One turn runs the due events until the turn's budget is used up, then polls the descriptors once. Each
// descriptor's handler has the same budget. So every descriptor is served after a few budgets, no matter how
// many events are due and how many new ones they schedule. Turns are shorter while a peer sends one request
// after the other and waits for each response: each request waits for a turn.
//
// A client decides what an access to its descriptors costs: Linux wakes all that wait for the other end, and
// a client can let 100,000 instances of epoll wait. So one whose handlers take long has to rest: see Share.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <sys/epoll.h>

#include "sim/core/event_queue.hh"
#include "sim/core/fd.hh"

namespace t3sim {

class EventLoop {
public:
    /// Receives the epoll events that are ready.
    using Handler = std::function<void(std::uint32_t ready)>;
    /// Identifies one watched descriptor; 0: none.
    using Watch = std::uint64_t;

    /// What the descriptors of one client have together, and those of its successors. After a handler of one
    /// has taken more than long_time of processor time, none is handled until rest_factor times this time has
    /// passed. That clock is slow, and the other one counts what a busy machine takes. So processor time is
    /// measured only in watch_time after a handler that was long by the other one.
    struct Share {
        bool rests = false;
        unsigned long_handlers = 0; ///< each within watch_time after the one before
        Time until = 0, measured_until = 0, suspected_until = 0; ///< CLOCK_MONOTONIC
        EventQueue::Id end;                                      ///< of the rest
    };
    using SharedShare = std::shared_ptr<Share>;
    static constexpr Time long_time = 1'000'000, rest_factor = 20, watch_time = 1'000'000'000;
    /// Processor time includes what a hypervisor takes. So single long handlers cause no rest, and all of
    /// them no longer rest than one of longest_time does: the next client of the card waits for its end, too.
    static constexpr unsigned single_handlers = 2;
    static constexpr Time longest_time = 100'000'000;

    /// Budget of the events of one turn, and of one handler.
    static constexpr Time turn_time = 50'000;
    static constexpr unsigned turn_events = 1024;
    /// The budget for so long after expect_request().
    static constexpr Time short_turn_time = 10'000, request_time = 200'000;

    /// @p start: CLOCK_MONOTONIC when the time of its queue is 0; nothing: now. Throws std::system_error if
    /// the kernel refuses.
    explicit EventLoop(std::optional<Time> start = {});
    EventLoop(const EventLoop&) = delete;
    EventLoop& operator=(const EventLoop&) = delete;

    [[nodiscard]] EventQueue& queue() { return queue_; }

    /// Calls @p handler while one of @p events (EPOLLIN, EPOLLOUT) holds. Level triggered. @p fd must stay
    /// open until unwatch(). Without a @p share it never rests.
    Watch watch(int fd, std::uint32_t events, Handler handler, SharedShare share = std::make_shared<Share>());
    void change(Watch watch, std::uint32_t events);
    /// The handler is never called again, even if its descriptor is already ready. Handlers may remove
    /// themselves and others.
    void unwatch(Watch watch);

    /// Stops the time of the queue: no event runs, but handlers are called. The time goes on where it stood.
    void pause() { paused_ = true; }
    void resume();
    [[nodiscard]] bool paused() const { return paused_; }
    /// Runs the next events of a paused loop, each at its time. Returns how many there were.
    unsigned step(unsigned events);

    void run();
    void stop() { stop_ = true; }
    /// Runs all @p loops in this thread until the first one is stopped. They take turns, and share the budget
    /// of a turn.
    static void run_together(std::span<EventLoop* const> loops);

    /// Runs @p task in the loop's thread after its present turn. From any thread.
    void post(std::function<void()> task);
    /// Runs @p task as post() does and waits for its end. From any other thread. False: the loop has not
    /// begun the task within @p limit, and never will. Exceptions of the task are rethrown here.
    [[nodiscard]] bool call(const std::function<void()>& task, Time limit);
    /// Runs @p task now, as if a descriptor of this loop had become ready. In the loop's thread, also from a
    /// handler of another loop of this thread; and while no thread runs the loop.
    void call_here(const std::function<void()>& task);

    /// Runs @p work now, as a handler of a descriptor of @p share. For events of a client.
    void charge(const SharedShare& share, const std::function<void()>& work);

    /// CLOCK_MONOTONIC when the time of the queue was 0.
    [[nodiscard]] Time start() const { return start_; }
    /// Runs one turn. Waits for at most @p timeout_ms (-1: without limit) if no event is due.
    void run_once(int timeout_ms);
    /// For handlers with much work: true when they have used up their budget and should return. Their
    /// descriptor is still ready in the next turn.
    [[nodiscard]] bool turn_is_over() const;
    /// For handlers whose peer waits for each response, and will probably send the next request soon.
    void expect_request();

private:
    struct Entry {
        int fd;
        std::uint32_t events;
        Handler handler;
        SharedShare share;
    };
    /// What the loops of one thread share.
    struct Turns {
        unsigned loops = 1;
        Time short_until = 0; ///< CLOCK_MONOTONIC: until then turns are short
    };

    int wait(std::span<epoll_event> ready, int timeout_ms);
    void poll_for(int operation, Watch watch, const Entry& entry);
    void took_long(const SharedShare& share, Time processor_time);
    void rest(const SharedShare& share, bool rests);
    void run_posted();
    void advance();
    [[nodiscard]] Time queue_time(Time now) const { return paused_ ? queue_.now() : now - start_; }
    void begin_turn(Time now);
    void arm_timer();

    EventQueue queue_;
    Fd epoll_;
    Fd timer_;
    Time start_; ///< CLOCK_MONOTONIC when the queue's time was 0
    Time armed_ = 0;
    Time turn_end_ = 0; ///< CLOCK_MONOTONIC
    std::shared_ptr<Turns> turns_ = std::make_shared<Turns>();
    bool paused_ = false;
    bool more_is_due_ = false; ///< the budget of the last turn ended before all due events had run
    Watch last_watch_ = 0;
    std::map<Watch, std::shared_ptr<Entry>> entries_;
    bool stop_ = false;

    Fd wake_; ///< eventfd: tasks have been posted
    std::mutex posted_lock_;
    std::vector<std::function<void()>> posted_;
};

} // namespace t3sim
