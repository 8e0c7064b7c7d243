// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What goes wrong in a card when somebody asks for it (docs/faults.md). The engines hold a reference to the
// Faults and ask, at the one place where a fault strikes, the object of that fault; `Card::inject` arms it by
// name. A fault that nobody armed costs one comparison. Faults that are an act and no state (an error bit, an
// abort, a reset) have no object here: they are functions of the catalogue in faults.cc.
#pragma once

#include <cstdint>

#include "sim/core/counters.hh"
#include "sim/core/event_queue.hh"

namespace t3sim {

/// Strikes the next n times that it is asked for.
class Strikes {
public:
    explicit Strikes(Counter& done) : done_(done) {}
    void arm(std::uint64_t times) { left_ = times; }
    [[nodiscard]] bool strike() {
        if (left_ == 0) [[likely]]
            return false;
        --left_;
        ++done_;
        return true;
    }

private:
    std::uint64_t left_ = 0;
    Counter& done_;
};

/// Holds something back until a moment; what it is, its owner keeps, in order.
class Stall {
public:
    explicit Stall(Counter& done) : done_(done) {}
    void arm(Time until) { until_ = until; }
    [[nodiscard]] Time until() const { return until_; }
    /// Whether to hold back what would happen at @p now.
    [[nodiscard]] bool holds(const EventQueue& events) {
        if (until_ == 0) [[likely]]
            return false;
        if (events.now() >= until_) {
            until_ = 0;
            return false;
        }
        ++done_;
        return true;
    }

private:
    Time until_ = 0;
    Counter& done_;
};

struct Faults {
    explicit Faults(Counters& counters)
        : interrupt(counters["faults.interrupts_lost"]), doorbell(counters["faults.doorbells_dropped"]),
          tpt_entry(counters["faults.tpt_ecc_errors"]), tid(counters["faults.tids_refused"]),
          stid(counters["faults.stids_refused"]), dma(counters["faults.dma_late"]),
          completion(counters["faults.completions_late"]) {}

    /// The state that a chip reset leaves.
    void reset() {
        for (Strikes* one : {&interrupt, &doorbell, &tpt_entry, &tid, &stid})
            one->arm(0);
        for (Stall* one : {&dma, &completion})
            one->arm(0);
        firmware_dead = false;
    }

    Strikes interrupt;          ///< an MSI or MSI-X edge gets lost
    Strikes doorbell;           ///< the doorbell FIFO drops one, and says so (SG_INT_CAUSE)
    Strikes tpt_entry;          ///< a TPT entry is read with an uncorrectable error
    Strikes tid, stid;          ///< the TCAM has no room for a connection, for a listener
    Stall dma;                  ///< what the card writes reaches the memory late
    Stall completion;           ///< completions and async events are made late
    bool firmware_dead = false; ///< nobody executes work requests, other than those of Ethernet
};

} // namespace t3sim
