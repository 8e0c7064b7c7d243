// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Virtual time. Deferred work of a card is an event here; no code in the model reads a clock. The program
// advances the queue along real time, a test advances it explicitly.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "sim/core/time.hh"

namespace t3sim {

class EventQueue {
public:
    using Handler = std::function<void()>;
    /// Identifies one scheduled event; {0, 0}: none.
    struct Id {
        Time when = 0;
        std::uint64_t serial = 0;
        auto operator<=>(const Id&) const = default;
    };

    [[nodiscard]] Time now() const { return now_; }

    /// Runs @p handler at @p when. A time in the past means now, after all events that are already due.
    /// Events of the same time run in the order in which they were scheduled.
    Id at(Time when, Handler handler) {
        const Id id{when < now_ ? now_ : when, ++serial_};
        events_.emplace(id, std::move(handler));
        return id;
    }
    Id after(Time delay, Handler handler) { return at(now_ + delay, std::move(handler)); }

    /// Removes an event; false if it has run or does not exist.
    bool cancel(Id id) { return events_.erase(id) != 0; }

    /// How many events have run. Two equal values mean that no event has run in between.
    [[nodiscard]] std::uint64_t ran() const { return ran_; }

    [[nodiscard]] std::optional<Time> next() const {
        return events_.empty() ? std::nullopt : std::optional<Time>(events_.begin()->first.when);
    }

    /// Moves time to @p to (never back) and runs the due events, including those that become due meanwhile.
    void advance(Time to) {
        while (!events_.empty() && events_.begin()->first.when <= to) {
            auto node = events_.extract(events_.begin());
            ++ran_;
            if (node.key().when > now_)
                now_ = node.key().when;
            node.mapped()();
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
        while (!events_.empty() && events_.begin()->first.when <= now_) {
            if (!go_on())
                return true;
            auto node = events_.extract(events_.begin());
            ++ran_;
            node.mapped()();
        }
        return false;
    }

private:
    Time now_ = 0;
    std::uint64_t serial_ = 0;
    std::uint64_t ran_ = 0;
    std::map<Id, Handler> events_;
};

} // namespace t3sim
