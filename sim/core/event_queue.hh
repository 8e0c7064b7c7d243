// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Virtual time. Deferred work of a card is an event here; no code in the model reads a clock. The program
// advances the queue along real time, a test advances it explicitly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sim/core/time.hh"
#include "sim/core/timer_heap.hh"

namespace t3sim {

class EventQueue {
    struct Event;

public:
    using Handler = std::function<void()>;
    class Repeated;
    /// Identifies one scheduled event; by default: none.
    struct Id {
        Time when = 0;
        std::uint64_t serial = 0;
        std::size_t place = 0;
        bool operator==(const Id&) const = default;
    };

    EventQueue() = default;
    EventQueue(const EventQueue&) = delete;
    EventQueue& operator=(const EventQueue&) = delete;

    [[nodiscard]] Time now() const { return now_; }

    /// Runs @p handler at @p when. A time in the past means now, after all events that are already due.
    /// Events of the same time run in the order in which they were scheduled.
    Id at(Time when, Handler handler) { return schedule(when < now_ ? now_ : when, std::move(handler)); }
    Id after(Time delay, Handler handler) { return at(now_ + delay, std::move(handler)); }
    /// Runs @p handler as the next event, before all others that are due.
    Id next_of_all(Handler handler) { return schedule(0, std::move(handler)); }
    /// Whether one of next_of_all() has not run.
    [[nodiscard]] bool is_urgent() const {
        return now_ != 0 && !heap_.empty() && heap_.earliest()->when() == 0;
    }
    /// Runs those of next_of_all().
    void run_urgent() {
        while (is_urgent())
            run_earliest();
    }

    /// Removes an event; false if it has run or does not exist.
    bool cancel(Id id) {
        if (id.serial == 0)
            return false;
        Event& event = events_[id.place];
        if (!event.running() || event.serial() != id.serial)
            return false;
        [[maybe_unused]] const Handler dropped = take(event);
        return true;
    }

    /// How many events have run. Two equal values mean that no event has run in between.
    [[nodiscard]] std::uint64_t ran() const { return ran_; }

    [[nodiscard]] std::optional<Time> next() const {
        return heap_.empty() ? std::nullopt : std::optional<Time>(heap_.earliest()->when());
    }

    /// At most so many bytes for an event, without what its handler has allocated: it, and its places in
    /// heap_, events_ and unused_ while these grow.
    static constexpr std::size_t event_cost = 128;

    /// Moves time to @p to (never back) and runs the due events, including those that become due meanwhile.
    void advance(Time to) {
        while (!heap_.empty() && heap_.earliest()->when() <= to) {
            if (heap_.earliest()->when() > now_)
                now_ = heap_.earliest()->when();
            run_earliest();
        }
        if (to > now_)
            now_ = to;
    }

    /// Moves time to @p to (never back) and runs the due events in the same order as advance(). Calls
    /// @p go_on() before each event and stops when it returns false. All events see the time @p to, so an
    /// event that they schedule for "now" runs after all that were due before. True: due events remain.
    template <typename GoOn> bool run_due(Time to, GoOn&& go_on) {
        if (to > now_)
            now_ = to;
        while (!heap_.empty() && heap_.earliest()->when() <= now_) {
            if (!go_on())
                return true;
            run_earliest();
        }
        return false;
    }

private:
    struct Event : Timer {
        explicit Event(std::size_t number) : place(number) {}
        static constexpr std::size_t of_its_owner = SIZE_MAX;
        const std::size_t place; ///< in events_, or of_its_owner
        Handler handler;
    };
    static_assert(sizeof(Event) + 8 * sizeof(void*) <= event_cost);

    Id schedule(Time when, Handler&& handler) {
        Event* event;
        if (unused_.empty()) {
            event = &events_.emplace_back(events_.size());
        } else {
            event = unused_.back();
            unused_.pop_back();
        }
        event->handler = std::move(handler);
        heap_.start(*event, when);
        return {.when = event->when(), .serial = event->serial(), .place = event->place};
    }

    /// Removes an event. Its place is free then, also for an event that the handler schedules.
    Handler take(Event& event) {
        heap_.stop(event);
        unused_.push_back(&event);
        return std::exchange(event.handler, nullptr);
    }
    void run_earliest() {
        ++ran_;
        auto& event = static_cast<Event&>(*heap_.earliest());
        if (event.place != Event::of_its_owner) {
            take(event)();
            return;
        }
        heap_.stop(event);
        event.handler();
    }

    Time now_ = 0;
    std::uint64_t ran_ = 0;
    TimerHeap heap_;
    std::deque<Event> events_; ///< all that were ever scheduled at a time; an element never moves
    std::vector<Event*> unused_;
};

/// An event that its owner schedules again and again, at most once at a time: it has one handler, and nothing
/// is allocated or moved for it. The handler must not destroy it.
class EventQueue::Repeated {
public:
    /// @p queue must outlive it.
    Repeated(EventQueue& queue, Handler handler) : queue_(queue), event_(Event::of_its_owner) {
        event_.handler = std::move(handler);
    }
    ~Repeated() { cancel(); }
    Repeated(const Repeated&) = delete;
    Repeated& operator=(const Repeated&) = delete;

    /// As EventQueue::at(). Moves the event if it is scheduled.
    void at(Time when) { queue_.heap_.start(event_, when < queue_.now_ ? queue_.now_ : when); }
    void after(Time delay) { at(queue_.now_ + delay); }
    /// The same, but an event that is scheduled for @p when or earlier keeps its place: however often this is
    /// called, it cannot be postponed.
    void at_latest(Time when) {
        if (!scheduled() || std::max(when, queue_.now_) < event_.when())
            at(when);
    }
    void soon() { at_latest(queue_.now_); }
    void cancel() { queue_.heap_.stop(event_); }

    [[nodiscard]] bool scheduled() const { return event_.running(); }
    [[nodiscard]] Time when() const { return event_.when(); }

private:
    EventQueue& queue_;
    Event event_;
};

} // namespace t3sim
