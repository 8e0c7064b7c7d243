// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/event_loop.hh"

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "sim/core/log.hh"

namespace t3sim {
namespace {

Time time_of(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<Time>(now.tv_sec) * 1'000'000'000 + static_cast<Time>(now.tv_nsec);
}

Time monotonic() {
    return time_of(CLOCK_MONOTONIC);
}

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

} // namespace

EventLoop::EventLoop(std::optional<Time> start)
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      start_(start.value_or(monotonic())), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!epoll_)
        fail("epoll_create1");
    if (!timer_)
        fail("timerfd_create");
    if (!wake_)
        fail("eventfd");
    watch(
        timer_.get(), EPOLLIN,
        [this](std::uint32_t) {
            std::uint64_t expirations;
            [[maybe_unused]] const auto n = ::read(timer_.get(), &expirations, sizeof expirations);
            armed_ = 0;
        },
        nullptr);
    watch(
        wake_.get(), EPOLLIN, [this](std::uint32_t) { run_posted(); }, nullptr);
}

EventLoop::Watch EventLoop::watch(int fd, std::uint32_t events, Handler handler, SharedShare share) {
    const Watch id = ++last_watch_;
    const auto entry = std::make_shared<Entry>(Entry{fd, events, std::move(handler), std::move(share)});
    poll_for(EPOLL_CTL_ADD, id, *entry);
    entries_.emplace(id, entry);
    return id;
}

void EventLoop::poll_for(int operation, Watch watch, const Entry& entry) {
    epoll_event event{};
    // While it rests, epoll reports only an end of the connection, and that once. A removal could not be
    // undone without memory, and takes the lock that a client holds while it wakes others.
    event.events = entry.share && entry.share->rests ? EPOLLET : entry.events;
    event.data.u64 = watch;
    if (epoll_ctl(epoll_.get(), operation, entry.fd, &event) != 0)
        fail("epoll_ctl");
}

void EventLoop::change(Watch watch, std::uint32_t events) {
    const auto it = entries_.find(watch);
    if (it == entries_.end())
        return;
    it->second->events = events;
    poll_for(EPOLL_CTL_MOD, watch, *it->second);
}

void EventLoop::unwatch(Watch watch) {
    const auto it = entries_.find(watch);
    if (it == entries_.end())
        return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second->fd, nullptr);
    entries_.erase(it);
}

void EventLoop::run() {
    stop_ = false;
    while (!stop_)
        run_once(-1);
}

void EventLoop::run_together(std::span<EventLoop* const> loops) {
    if (loops.size() == 1)
        return loops[0]->run();
    const auto turns = std::make_shared<Turns>();
    turns->loops = static_cast<unsigned>(loops.size());
    std::vector<pollfd> ready;
    for (EventLoop* loop : loops) {
        loop->turns_ = turns;
        loop->stop_ = false;
        ready.push_back({.fd = loop->epoll_.get(), .events = POLLIN, .revents = POLLIN});
    }
    for (;;) {
        bool more = false;
        for (std::size_t i = 0; i < loops.size(); ++i) {
            if (ready[i].revents != 0 || loops[i]->more_is_due_)
                loops[i]->run_once(0);
            if (loops[0]->stop_)
                return;
            if (!loops[i]->more_is_due_)
                loops[i]->arm_timer();
            more |= loops[i]->more_is_due_;
        }
        if (poll(ready.data(), ready.size(), more ? 0 : -1) < 0 && errno != EINTR)
            fail("poll");
    }
}

void EventLoop::post(std::function<void()> task) {
    {
        const std::lock_guard lock(posted_lock_);
        posted_.push_back(std::move(task));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
}

void EventLoop::run_posted() {
    std::uint64_t count;
    [[maybe_unused]] const auto n = ::read(wake_.get(), &count, sizeof count);
    std::vector<std::function<void()>> tasks;
    {
        const std::lock_guard lock(posted_lock_);
        tasks.swap(posted_);
    }
    for (const auto& task : tasks)
        task();
}

bool EventLoop::call(const std::function<void()>& task, Time limit) {
    struct Call {
        std::mutex lock;
        std::condition_variable changed;
        enum { waits, runs, done, dropped } state = waits;
        std::exception_ptr error;
    };
    // Shared: a task that comes too late only looks at the state.
    const auto call = std::make_shared<Call>();
    post([call, &task] {
        {
            const std::lock_guard lock(call->lock);
            if (call->state == Call::dropped)
                return;
            call->state = Call::runs;
        }
        try {
            task();
        } catch (...) {
            call->error = std::current_exception();
        }
        const std::lock_guard lock(call->lock);
        call->state = Call::done;
        call->changed.notify_one();
    });
    std::unique_lock lock(call->lock);
    const auto done = [&] { return call->state == Call::done; };
    if (!call->changed.wait_for(lock, std::chrono::nanoseconds(limit), done)) {
        if (call->state == Call::waits) {
            call->state = Call::dropped;
            return false;
        }
        call->changed.wait(lock, done); // it uses what the caller holds
    }
    if (call->error)
        std::rethrow_exception(call->error);
    return true;
}

void EventLoop::call_here(const std::function<void()>& task) {
    const Time now = monotonic();
    queue_.run_due(queue_time(now), [] { return false; }); // only advances the time
    begin_turn(now);
    task();
    // The loop may sleep, or come to its turn after others.
    arm_timer();
}

void EventLoop::charge(const SharedShare& share, const std::function<void()>& work) {
    if (!share)
        return work();
    const Time began = monotonic();
    const bool measured = began < share->measured_until;
    const Time used = measured ? time_of(CLOCK_THREAD_CPUTIME_ID) : 0;
    work();
    if (monotonic() - began > long_time)
        took_long(share, measured ? time_of(CLOCK_THREAD_CPUTIME_ID) - used : 0);
}

void EventLoop::took_long(const SharedShare& share, Time processor_time) {
    const Time now = monotonic();
    // Events of the client run also while it rests. They make the rest longer, not shorter.
    Time end = std::max(share->until, now);
    bool has_to_rest = false;
    if (processor_time > long_time) {
        if (now >= share->suspected_until)
            share->long_handlers = 0;
        has_to_rest = ++share->long_handlers > single_handlers;
        if (has_to_rest)
            end = std::min(end + rest_factor * processor_time, now + rest_factor * longest_time);
        share->suspected_until = end + watch_time;
    }
    share->measured_until = end + watch_time;
    if (!has_to_rest)
        return;
    share->until = end;
    logger("loop").debug("a handler took {} us of processor time: its client rests", processor_time / 1000);
    queue_.cancel(share->end);
    share->end = queue_.at(end - start_, [this, share] { rest(share, false); });
    rest(share, true);
}

void EventLoop::rest(const SharedShare& share, bool rests) {
    share->rests = rests;
    for (const auto& [watch, entry] : entries_)
        if (entry->share == share)
            poll_for(EPOLL_CTL_MOD, watch, *entry);
}

void EventLoop::run_once(int timeout_ms) {
    // An event that was scheduled outside of the loop may already be due.
    if (!more_is_due_)
        advance();
    if (!more_is_due_)
        arm_timer();
    std::array<epoll_event, 32> ready{};
    const int n = wait(ready, more_is_due_ ? 0 : timeout_ms);
    if (n < 0 && errno != EINTR)
        fail("epoll_wait");
    for (int i = 0; i < n; i++) {
        // By value: epoll_event is packed, its members are not aligned.
        const epoll_event event = ready[static_cast<std::size_t>(i)];
        const Watch watch = event.data.u64;
        const auto it = entries_.find(watch);
        if (it == entries_.end())
            continue;
        // Holds a reference: the handler may remove its own entry.
        const auto entry = it->second;
        if (entry->share && entry->share->rests)
            continue;
        const Time now = monotonic();
        queue_.run_due(queue_time(now), [] { return false; }); // only advances the time
        begin_turn(now);
        charge(entry->share, [&] { entry->handler(event.events); });
        queue_.run_urgent();
    }
    advance();
}

/// A CPU that waits for a register often reads the next one at once. To sleep and to be woken takes longer.
int EventLoop::wait(std::span<epoll_event> ready, int timeout_ms) {
    while (timeout_ms != 0 && monotonic() < turns_->short_until) {
        const int n = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
        if (n != 0)
            return n;
        sched_yield();
    }
    return epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), timeout_ms);
}

bool EventLoop::turn_is_over() const {
    return queue_.is_urgent() || monotonic() >= turn_end_;
}

void EventLoop::expect_request() {
    turns_->short_until = monotonic() + request_time;
}

void EventLoop::begin_turn(Time now) {
    turn_end_ = now + (now < turns_->short_until ? short_turn_time : turn_time) / turns_->loops;
}

void EventLoop::advance() {
    const Time now = monotonic();
    begin_turn(now);
    unsigned left = turn_events / turns_->loops;
    bool first = true; // at least one event each time, however slow the machine is
    const auto go_on = [&] {
        return !paused_ && (std::exchange(first, false) || (left-- != 0 && !turn_is_over()));
    };
    more_is_due_ = queue_.run_due(queue_time(now), go_on) && !paused_;
    queue_.run_urgent(); // before another handler runs
}

void EventLoop::resume() {
    if (std::exchange(paused_, false))
        start_ = monotonic() - queue_.now();
}

unsigned EventLoop::step(unsigned events) {
    unsigned done = 0;
    for (; done != events && queue_.next(); ++done)
        queue_.run_due(std::max(*queue_.next(), queue_.now()),
                       [first = true]() mutable { return std::exchange(first, false); });
    return done;
}

void EventLoop::arm_timer() {
    const auto next = paused_ ? std::nullopt : queue_.next();
    const Time expiry = next ? start_ + *next : 0;
    if (expiry == armed_)
        return;
    // A zero time disarms the timer; monotonic() is never 0 on a running system.
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(expiry / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(expiry % 1'000'000'000);
    if (timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr) != 0)
        fail("timerfd_settime");
    armed_ = expiry;
}

} // namespace t3sim
