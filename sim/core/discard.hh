// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Large tables that are not used any more are freed in parts, an event for each: no event may take long
// (docs/card-model.md, "Fairness").
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "sim/core/event_queue.hh"

namespace t3sim {

class Discard {
public:
    /// @p events must outlive it.
    explicit Discard(EventQueue& events) : event_(events, [this] { free_some(); }) {}

    /// Elements that one event frees.
    static constexpr unsigned at_a_time = 64;

    /// @p drop_one: frees one element of each table that it holds; false: nothing is left.
    void add(std::function<bool()> drop_one) {
        tables_.push_back(std::move(drop_one));
        event_.soon();
    }
    [[nodiscard]] bool empty() const { return tables_.empty(); }
    /// Frees up to @p count elements now: for what fills such a table again, and may be faster than the
    /// events. Returns how many it has freed.
    std::size_t free(std::size_t count) {
        std::size_t freed = 0;
        for (; freed != count && !tables_.empty(); ++freed)
            if (!tables_.back()())
                tables_.pop_back();
        return freed;
    }

private:
    void free_some() {
        free(at_a_time);
        if (!tables_.empty())
            event_.soon();
    }

    /// The newest first: an old one with many small elements does not keep a new one with few large ones.
    std::deque<std::function<bool()>> tables_;
    EventQueue::Repeated event_;
};

} // namespace t3sim
