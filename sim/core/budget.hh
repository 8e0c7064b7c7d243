// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "sim/core/event_queue.hh"

namespace t3sim {

/// The work that one event may do, whatever it is counted in. The accesses to registers between two events
/// share one budget.
class Budget {
public:
    /// @p events must outlive it. @p all: of an event.
    Budget(const EventQueue& events, std::size_t all) : events_(events), all_(all) {}

    /// What the present event may still do.
    [[nodiscard]] std::size_t& left() {
        if (std::exchange(at_, events_.ran()) != events_.ran())
            left_ = all_;
        return left_;
    }
    void use(std::size_t work) { left_ = left() - std::min(left_, work); }

private:
    const EventQueue& events_;
    const std::size_t all_;
    std::size_t left_ = 0;
    std::uint64_t at_ = ~std::uint64_t{0}; ///< EventQueue::ran() when left_ was last set to all_
};

} // namespace t3sim
