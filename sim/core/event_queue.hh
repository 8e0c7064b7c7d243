// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Virtual time. All that a card does "later" is an event here; nothing in the model reads a clock of its
// own. A program advances the queue along real time, a test advances it as it likes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace t3sim {

/// Nanoseconds since the queue was made.
using Time = std::uint64_t;

class EventQueue {
public:
    using Handler = std::function<void()>;
    /// Names one scheduled event; {0, 0} names none.
    struct Id {
        Time when = 0;
        std::uint64_t serial = 0;
        auto operator<=>(const Id&) const = default;
    };

    [[nodiscard]] Time now() const { return now_; }

    /// Runs @p handler at @p when; a time that has passed means now, behind all that is due already. Events
    /// of one time run in the order in which they were scheduled.
    Id at(Time when, Handler handler) {
        const Id id{when < now_ ? now_ : when, ++serial_};
        events_.emplace(id, std::move(handler));
        return id;
    }
    Id after(Time delay, Handler handler) { return at(now_ + delay, std::move(handler)); }

    /// Forgets an event; false if it has run or was never there.
    bool cancel(Id id) { return events_.erase(id) != 0; }

    /// How many events have run: the same number means that nothing has come in between.
    [[nodiscard]] std::uint64_t ran() const { return ran_; }

    [[nodiscard]] std::optional<Time> next() const {
        return events_.empty() ? std::nullopt : std::optional<Time>(events_.begin()->first.when);
    }

    /// Moves time to @p to (never back) and runs what is due, including what becomes due meanwhile.
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

    /// Moves time to @p to (never back) and runs what is due in the same order as advance(), but stops as
    /// soon as @p go_on() is false, which is asked before each event. All events see the time @p to: what
    /// they schedule for "now" is behind everything that was due before. True: something that is due is left.
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
