// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Injected faults of a card (docs/faults.md). The engines hold a reference to Faults and check the object of
// a fault at the one place where it has an effect; `Card::inject` arms it by name. A fault that is not armed
// costs one comparison. Faults without state (an error bit, an abort, a reset) have no object here: they are
// functions of the catalogue in faults.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "sim/card/base/guesses.hh"
#include "sim/card/base/lies.hh"
#include "sim/card/base/timing.hh"
#include "sim/core/counters.hh"
#include "sim/core/event_queue.hh"

namespace t3sim {

/// A fault that affects the next n operations.
class CountedFault {
public:
    explicit CountedFault(Counter& done) : done_(&done) {}
    void arm(std::uint64_t times) { left_ = times; }
    [[nodiscard]] bool fires() {
        if (left_ == 0) [[likely]]
            return false;
        --left_;
        ++*done_;
        return true;
    }

private:
    std::uint64_t left_ = 0;
    Counter* done_;
};

/// A fault that affects one operation: the nth from now on, of one object or of all. Several may be armed.
class NthFault {
public:
    explicit NthFault(Counter& done) : done_(&done) {}
    static constexpr std::uint32_t all = 0xffffffff; ///< objects
    static constexpr std::size_t most = 64;

    [[nodiscard]] bool armed() const { return armed_; }
    /// @p kind: a bit; only operations that have it are counted. Throws std::invalid_argument, with a
    /// complete sentence.
    void arm(std::uint32_t object, std::uint64_t nth, unsigned kind = 1) {
        if (waiting_.size() == most)
            throw std::invalid_argument("64 faults of this kind wait already");
        waiting_.push_back({object, kind, nth});
        armed_ = true;
    }
    /// Counts an operation of @p object, which has all of these @p kinds.
    [[nodiscard]] bool fires(std::uint32_t object, unsigned kinds = 1) {
        if (!armed_) [[likely]]
            return false;
        return count(object, kinds);
    }
    /// The object has ended.
    void forget(std::uint32_t object) {
        std::erase_if(waiting_, [object](const Waiting& one) { return one.object == object; });
        armed_ = !waiting_.empty();
    }

private:
    struct Waiting {
        std::uint32_t object;
        unsigned kind;
        std::uint64_t left;
    };
    [[gnu::cold, gnu::noinline]] bool count(std::uint32_t object, unsigned kinds) {
        const auto fired = std::erase_if(waiting_, [&](Waiting& one) {
            return (one.object == all || one.object == object) && (one.kind & kinds) != 0 && --one.left == 0;
        });
        armed_ = !waiting_.empty();
        *done_ += fired != 0 ? 1 : 0;
        return fired != 0;
    }

    bool armed_ = false;
    std::vector<Waiting> waiting_;
    Counter* done_;
};

/// The segments that a fault may lose: any; with data, in RDMA mode; without data.
struct SegmentKind {
    static constexpr unsigned any = 1, fpdu = 2, ack = 4;
};

/// Delays operations until a given time. The owner queues them in order.
class DelayFault {
public:
    explicit DelayFault(Counter& done) : done_(&done) {}
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
        ++*done_;
        return true;
    }

private:
    Time until_ = 0;
    Counter* done_;
};

/// Those that a chip reset disarms.
struct ArmedFaults {
    explicit ArmedFaults(Counters& counters)
        : interrupt(counters["faults.interrupts_lost"]), doorbell(counters["faults.doorbells_dropped"]),
          tpt_entry(counters["faults.tpt_ecc_errors"]), tid(counters["faults.tids_refused"]),
          stid(counters["faults.stids_refused"]), dma(counters["faults.dma_late"]),
          completion(counters["faults.completions_late"]), sent(counters["faults.segments_lost"]),
          received(counters["faults.segments_lost"]), bad_crc(counters["faults.bad_crcs"]),
          cqe(counters["faults.completions_held"]) {}

    CountedFault interrupt;        ///< an MSI or MSI-X edge is lost
    CountedFault doorbell;         ///< the doorbell FIFO drops one and reports it (SG_INT_CAUSE)
    CountedFault tpt_entry;        ///< a TPT entry is read with an uncorrectable error
    CountedFault tid, stid;        ///< the TCAM has no free entry for a connection, for a listener
    DelayFault dma;                ///< writes of the card reach host memory late
    DelayFault completion;         ///< completions and async events are late
    Time answer_delay = 0;         ///< each message of the TOE to the host is late by this time
    NthFault sent, received;       ///< a segment is lost, by TID; SegmentKind
    NthFault bad_crc;              ///< of an FPDU that is sent, by TID
    NthFault cqe;                  ///< is held until it is released, by QP
    bool firmware_stopped = false; ///< no work requests other than those of Ethernet are executed
    bool unplugged = false;        ///< the card is out of its slot
};

struct Faults : ArmedFaults {
    explicit Faults(Counters& counters)
        : ArmedFaults(counters), answers_late(counters["faults.answers_late"]), lies(counters),
          counters_(counters) {}

    /// Disarms all faults, as a chip reset does.
    void reset() {
        static_cast<ArmedFaults&>(*this) = ArmedFaults(counters_);
        lies.forget();
    }

    /// The TID is free for another connection.
    void connection_ended(std::uint32_t tid) {
        for (NthFault* one : {&sent, &received, &bad_crc})
            one->forget(tid);
    }

    Counter& answers_late;
    // Not faults, but selected in the same way; a reset keeps them.
    Guesses guesses;
    Lies lies;
    Timing timing;

private:
    Counters& counters_;
};

} // namespace t3sim
