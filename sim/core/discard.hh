// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Large tables that are not used any more are freed in parts, an event for each: no event may take long
// (docs/card-model.md, "Fairness").
#pragma once

#include <deque>
#include <functional>
#include <memory>
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
        event_.after(0);
    }
    template <typename Element> void add(std::deque<Element>&& table) {
        if (table.empty())
            return;
        add([held = std::make_shared<std::deque<Element>>(std::move(table))] {
            held->pop_back();
            return !held->empty();
        });
    }

private:
    void free_some() {
        for (unsigned n = 0; n < at_a_time && !tables_.empty(); ++n)
            if (!tables_.front()())
                tables_.pop_front();
        if (!tables_.empty())
            event_.after(0);
    }

    std::deque<std::function<bool()>> tables_;
    EventQueue::Repeated event_;
};

} // namespace t3sim
