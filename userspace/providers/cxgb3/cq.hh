// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A completion queue: the card's ring of entries, and the QPs that complete into it.
//
// There is no software queue between ring and consumer. An entry of the card becomes a completion when the
// program polls with space for it. Further requests that the entry completes stay in their SendQueue until
// the next poll. Flush completions are made one by one from the outstanding requests of the QP. So nothing
// can overflow here, and each request is delivered once, because delivery removes it from its queue.
//
// poll_cq.cc reads ordinary entries: successful, and completing in the order of posting. Everything else is
// done by take() and next() here, and while anything of it is unfinished, attention() sends polling there.
#pragma once

#include "include/hw/t3_cqe_decode.h"
#include "userspace/common/barrier.hh"
#include "userspace/common/ring.hh"
#include "userspace/common/spinlock.hh"
#include "userspace/providers/cxgb3/counters.h"
#include "userspace/providers/cxgb3/qp.hh"
#include "userspace/providers/cxgb3/qp_map.hh"
#include "userspace/providers/cxgb3/types.hh"

#include <atomic>
#include <vector>

namespace t3 {

// A position in the ring, in one word, so that a thread may look without holding the lock: the address of an
// entry, 16 bytes in size and aligned, and in the bits below it the generation that the entry has once the
// card has written it.
class CqPosition {
public:
    CqPosition() = default;
    CqPosition(const t3_cqe* entry, bool gen)
        : bits_(reinterpret_cast<uintptr_t>(entry) | (gen ? gen_bit : 0)) {}

    t3_cqe* entry() const { return reinterpret_cast<t3_cqe*>(bits_ & ~uintptr_t{15}); }
    bool gen() const { return bits_ & gen_bit; }
    CqPosition plus_one() const { return CqPosition(bits_ + T3_CQE_BYTES); }
    CqPosition other_lap() const { return CqPosition(bits_ ^ gen_bit); }
    bool operator==(const CqPosition&) const = default;

    // The card has written the entry, and what is read of it from now on is not older.
    bool filled() const { return filled(entry()); }
    bool filled(const t3_cqe* entry) const { return !((gen_byte(entry) ^ bits_) & gen_bit); }

private:
    explicit CqPosition(uintptr_t bits) : bits_(bits) {}
    // The third byte of a header, as stored in memory. The thread sanitizer does not support loads of a part
    // of what another thread has stored. For it the byte is taken from the whole word, with one more
    // instruction.
    static uint32_t gen_byte(const t3_cqe* entry) {
#ifdef __SANITIZE_THREAD__
        return t3_from_be32(static_cast<uint32_t>(__atomic_load_n(&entry->header, __ATOMIC_ACQUIRE))) >> 8;
#else
        return __atomic_load_n(reinterpret_cast<const uint8_t*>(entry) + 2, __ATOMIC_ACQUIRE);
#endif
    }
    static constexpr uintptr_t gen_bit = T3_CQE_GEN >> 8;
    uintptr_t bits_ = 0;
};

// What decides about an entry, as stored in memory: QP, status, type and opcode. All others of the same
// value are treated alike, so that polling looks a QP up once per run of its completions.
inline constexpr uint32_t key_mask = t3_to_be32(T3_CQE_QPID | T3_CQE_STATUS | T3_CQE_TYPE_SQ | T3_CQE_OPCODE);

// One kind of ordinary entry, and the queue that the last one of it belonged to.
template <class Queue> struct LastOf {
    static constexpr uint32_t none = ~0u; // no key: outside of key_mask
    uint32_t key = none;
    Queue* queue = nullptr;
};

class Cq {
public:
    // needs_locks: false if the program promises to use the CQ and its QPs from one thread.
    explicit Cq(bool needs_locks, cxgb3_counters* counters = nullptr)
        : lock_(needs_locks), counters_(counters) {}
    Cq(const Cq&) = delete;
    Cq& operator=(const Cq&) = delete;

    // Address of the consumer index that the kernel reads when it arms the CQ. The create command carries
    // this address and its response describes the ring, hence use_ring(). Only ring index and lap are used.
    // publish_consumed() subtracts the completions that QPs still hold, so that the kernel raises an event
    // for them at once.
    const void* consumer_counter() const { return &consumed_for_kernel_; }
    void publish_consumed();

    // The ring: 2^log2 entries, and the status word after them.
    void use_ring(void* ring, unsigned log2);

    uint32_t entries() const { return size_.entries(); }
    // Entries consumed, modulo two laps.
    uint32_t consumed() const;
    cxgb3_counters* counters() const { return counters_; }

    // ---- polling, data path

    void lock() { lock_.lock(); }
    bool try_lock() { return lock_.try_lock(); }
    void unlock() { lock_.unlock(); }

    // The read position, for a thread that does not hold the lock.
    CqPosition position_relaxed() const {
        CqPosition p;
        __atomic_load(&position_, &p, __ATOMIC_RELAXED);
        return p;
    }
    CqPosition position() const { return position_; }
    void set_position(CqPosition p) { __atomic_store(&position_, &p, __ATOMIC_RELAXED); }
    // The position after p; after the last entry the first one, in the next lap.
    CqPosition next_position(CqPosition p) {
        const CqPosition next = p.plus_one();
        if (next != end_) [[likely]]
            return next;
        end_ = end_.other_lap();
        return CqPosition(ring_, !p.gen());
    }

    // Polling must use next(). The kernel's reason and the library's own are bits of the word after the
    // ring, so that polling tests one word.
    bool attention() const { return __atomic_load_n(status_, __ATOMIC_RELAXED) != mapped; }
    // The only reason is that the ring might overflow.
    bool may_only_overflow() const {
        return __atomic_load_n(status_, __ATOMIC_RELAXED) == (mapped | oversubscribed);
    }

    LastOf<SendQueue> last_send, last_read;
    LastOf<RecvQueue> last_message;
    // Finds the queue for an ordinary entry. False: it is not an ordinary one.
    bool cache_queue(uint32_t header);

    // ---- polling, all cases

    // Takes the entry at the position, which was found filled, and moves on. True if it gives a completion.
    bool take_entry(Completion& c);
    // Another completion, from wherever one may come.
    bool next(Completion& c);
    // Before the first next() of a call: collects QPs that the kernel or a poster has flagged.
    void collect_errors();
    // True if the card has written over entries that were not read, or may have.
    bool may_be_overrun() const;

    // ---- QPs

    // A QP that completes into this CQ is in error: the next poll looks for it.
    void raise_error_flag() { __atomic_fetch_or(status_, T3_CQ_STATUS_ERROR, __ATOMIC_RELEASE); }
    // Adds a QP that completes into this CQ, with its sends, its receives or both. The kernel frees the id of
    // a destroyed QP before the thread that destroys it gets to detach(). Another thread may attach the next
    // QP of that id meanwhile: this detaches the destroyed one. All CQEs of the id are then still those of
    // the destroyed QP.
    void attach(Qp& qp);
    // Forgets the QP and removes its entries from the ring, so that a later QP of the same id does not get
    // them. Does nothing if attach() has done it.
    void detach(Qp& qp);

private:
    // Why polling needs attention; bits of the word after the ring. The kernel uses only the first.
    enum : uint32_t {
        errored = T3_CQ_STATUS_ERROR << 1,        // a QP in error
        backlog = T3_CQ_STATUS_ERROR << 2,        // sends are ready that did not fit the last poll
        oversubscribed = T3_CQ_STATUS_ERROR << 3, // more work can be outstanding than the ring has entries
        // Always set, and no reason. After the removal of the device one page of zeroes replaces all mappings
        // of the process. What it posts then appears in this ring too, and polling must not take it for an
        // entry.
        mapped = T3_CQ_STATUS_ERROR << 4
    };
    // In the word after the status word, which the library writes once.
    static constexpr uint32_t mark = 0x7433c971;
    bool removed() const { return __atomic_load_n(&status_[1], __ATOMIC_RELAXED) != mark; }

    // The entry n positions on from p.
    CqPosition after(CqPosition p, uint32_t n) const;
    // Entries that the card has written from the position on.
    uint32_t unread() const;
    void forget(Qp& qp);
    void remove_entries(uint32_t qpid);
    void set_attention(uint32_t why, bool on);
    uint32_t held();
    void forget_last();
    bool take(const t3_cqe& e, Completion& c);
    bool take_send(Qp& qp, const t3_cqe& e, uint8_t status, Completion& c);
    bool take_message(Qp& qp, const t3_cqe& e, uint32_t header, Completion& c);
    bool take_read_response(Qp& qp, const t3_cqe& e, uint8_t status, Completion& c);
    bool deliver_next(Qp& qp, Completion& c);
    bool next_from_backlog(Completion& c);
    bool next_flushed(Completion& c);
    void overrun();
    void add_errored(Qp& qp);
    void check_subscription();

    // What polling uses besides the three above.
    alignas(64) CqPosition position_;
    CqPosition end_;             // after the last entry, in this lap
    uint32_t* status_ = nullptr; // the word after the last entry
    common::SpinLock lock_;

    uint32_t attention_ = mapped; // our bits of *status_, which the kernel may overwrite
    t3_cqe* ring_ = nullptr;
    common::RingSize size_;
    cxgb3_counters* const counters_;
    std::atomic<uint32_t> consumed_for_kernel_{0};
    Qp* backlog_ = nullptr;
    std::vector<Qp*> errored_;  // to be flushed into this CQ
    uint32_t before_flush_ = 0; // entries that were in the ring before an error come before its flush
    std::vector<Qp*> attached_;
    QpMap qps_;
};

} // namespace t3
