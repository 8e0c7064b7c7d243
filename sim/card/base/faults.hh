// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Injected faults of a card (docs/faults.md). The engines hold a reference to Faults and check the object of
// a fault at the one place where it has an effect; `Card::inject` arms it by name. A fault that is not armed
// costs one comparison. Faults without state (an error bit, an abort, a reset) have no object here: they are
// functions of the catalogue in faults.cc.
#pragma once

#include <cstdint>

#include "sim/card/base/guesses.hh"
#include "sim/card/base/lies.hh"
#include "sim/core/counters.hh"
#include "sim/core/event_queue.hh"

namespace t3sim {

/// A fault that affects the next n operations.
class CountedFault {
public:
    explicit CountedFault(Counter& done) : done_(done) {}
    void arm(std::uint64_t times) { left_ = times; }
    [[nodiscard]] bool fires() {
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

/// Delays operations until a given time. The owner queues them in order.
class DelayFault {
public:
    explicit DelayFault(Counter& done) : done_(done) {}
    void arm(Time until) { until_ = until; }
    [[nodiscard]] Time until() const { return until_; }
    /// Whether to delay an operation now.
    [[nodiscard]] bool delays(const EventQueue& events) {
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
          completion(counters["faults.completions_late"]), answers_late(counters["faults.answers_late"]),
          lies(counters) {}

    /// Disarms all faults, as a chip reset does.
    void reset() {
        for (CountedFault* one : {&interrupt, &doorbell, &tpt_entry, &tid, &stid})
            one->arm(0);
        for (DelayFault* one : {&dma, &completion})
            one->arm(0);
        answer_delay = 0;
        firmware_stopped = false;
        lies.forget();
    }

    CountedFault interrupt; ///< an MSI or MSI-X edge is lost
    CountedFault doorbell;  ///< the doorbell FIFO drops one and reports it (SG_INT_CAUSE)
    CountedFault tpt_entry; ///< a TPT entry is read with an uncorrectable error
    CountedFault tid, stid; ///< the TCAM has no free entry for a connection, for a listener
    DelayFault dma;         ///< writes of the card reach host memory late
    DelayFault completion;  ///< completions and async events are late
    Time answer_delay = 0;  ///< each message of the TOE to the host is late by this time
    Counter& answers_late;
    // Not faults, but selected in the same way; a reset keeps them.
    Guesses guesses;
    Lies lies;
    bool firmware_stopped = false; ///< no work requests other than those of Ethernet are executed
};

} // namespace t3sim
