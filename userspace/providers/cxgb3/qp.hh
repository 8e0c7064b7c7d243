// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A queue pair: one ring in host memory that carries sends and receives in the order of posting, a doorbell,
// and the queues that record what was posted.
//
// Locks. Posting takes the QP's own lock (post_lock.hh). Completing takes no QP lock: sends are completed
// under the lock of the send CQ, receives under that of the receive CQ, and SendQueue and RecvQueue are
// single producer, single consumer. No function holds a QP lock and a CQ lock at once.
//
// Error. The kernel or the library, whichever finds the error first, sets T3_QP_STATUS_STOPPED in slot 0.
// Work posted from then on is not given to the card. It is kept to be flushed, so that a program can drain a
// QP in error as verbs require. When the connection has ended and the card no longer uses the buffers, the
// kernel sets T3_QP_STATUS_ERROR, and a flag after each CQ's ring. Polling sees the flag and flushes. The
// library never flushes before that, since a program may free the buffers of a completed request.
#pragma once

#include "include/hw/t3_wr_build.h"
#include "include/uapi/t3_abi.h"
#include "userspace/common/barrier.hh"
#include "userspace/common/mmio.hh"
#include "userspace/common/ring.hh"
#include "userspace/providers/cxgb3/counters.h"
#include "userspace/providers/cxgb3/post_lock.hh"
#include "userspace/providers/cxgb3/work_queue.hh"

#include <memory>

namespace t3 {

class Cq;

// What create QP brought: ids, sizes and the two mappings.
struct QpConfig {
    uint32_t qpid = 0;
    unsigned size_log2 = 0; // slots
    unsigned sq_size_log2 = 0;
    unsigned rq_size_log2 = 0;
    void* ring = nullptr;
    volatile uint32_t* doorbell = nullptr;
    bool signal_all = false;
    bool needs_locks = true; // false: the program promises one thread
    cxgb3_counters* counters = nullptr;
    // Makes the kernel abort the connection: for errors that the card does not report to it.
    void (*abort)(void* owner) = nullptr;
    void* owner = nullptr;
};

// The next slot of the ring and the generation to write there. Advanced by Qp::step() after each request.
struct SlotCursor {
    t3_wr_slot* slot;
    uint64_t gen2; // as the slot's last flit must be
    uint32_t lo;   // the generation as header word 1 has it

    explicit SlotCursor(t3_wr_slot* ring) : slot(ring), gen2(t3_wr_gen2(true)), lo(t3_to_be32(T3_WR_GEN)) {}

    // Makes the slot ready for the card. The other words of the slot, and the recorded request,
    // must be visible before these two words.
    void publish(t3_wr_slot* here, uint32_t flits) const {
        __atomic_store_n(&here->hdr.lo, lo | t3_to_be32(flits), __ATOMIC_RELEASE);
        __atomic_store_n(&here->flit[T3_WR_GEN2_FLIT], gen2, __ATOMIC_RELEASE);
    }
    // The same with both words of a header that has its length, but no generation.
    void publish_with_header(t3_wr_slot* here, uint64_t header) const {
        __atomic_store_n(&here->flit[0], header | t3_two_words(0, lo), __ATOMIC_RELEASE);
        __atomic_store_n(&here->flit[T3_WR_GEN2_FLIT], gen2, __ATOMIC_RELEASE);
    }
};

enum class BatchState {
    ready,      // for the next request
    wants_data, // the last request was begun and waits for its data
    failed      // nothing is posted
};

// The requests between ibv_wr_start() and ibv_wr_complete() (post_wr.cc): they are built, but not in the
// ring.
struct Batch {
    struct Free {
        void operator()(t3_wr_slot* slots) const { ::operator delete (slots, std::align_val_t{64}); }
    };
    // As many slots as the send queue has entries; none if the QP was not created for such posting. The word
    // of a request that will hold its generation holds its length only.
    std::unique_ptr<t3_wr_slot[], Free> slots;

    t3_wr_slot* slot = nullptr; // where the next request is built
    uint32_t pos = 0;           // and its position in the send queue
    BatchState state = BatchState::ready;
    int error = 0; // if failed

    uint64_t wr_id = 0;
    uint64_t flags = 0;
    uint64_t remote_addr = 0;
    uint32_t key = 0; // of the peer's memory, or to be invalidated
    uint32_t opcode = 0;
};

class Qp {
public:
    Qp(const QpConfig& cfg, Cq& send_cq, Cq& recv_cq);
    Qp(const Qp&) = delete;
    Qp& operator=(const Qp&) = delete;
    ~Qp(); // detaches from both CQs and removes the entries of this QP from them

    uint32_t qpid() const { return qpid_; }
    Cq& send_cq() const { return send_cq_; }
    Cq& recv_cq() const { return recv_cq_; }
    SendQueue& sq() { return sq_; }
    RecvQueue& rq() { return rq_; }
    cxgb3_counters* counters() const { return counters_; }
    // A flag that every send gets: SendEntry::signaled_flag or nothing.
    uint64_t signal_all() const { return signal_all_; }

    // ---- posting

    PostLock& post_lock() { return lock_; }

    SlotCursor& cursor() { return cursor_; }
    // To the next slot.
    void step(t3_wr_slot* slot) { step(cursor_, slot); }
    void step(SlotCursor& cursor, t3_wr_slot* slot) const {
        if (++slot == end_) [[unlikely]] {
            slot = ring_;
            cursor.lo ^= t3_to_be32(T3_WR_GEN);
            cursor.gen2 ^= t3_wr_gen2(true);
        }
        cursor.slot = slot;
    }

    // The status word in slot 0. If it is not 0, posting uses the slow path.
    uint64_t status() const { return __atomic_load_n(status_, __ATOMIC_RELAXED); }
    // True if new work is kept from the card.
    static bool keeps_from_card(uint64_t seen_status) { return seen_status & no_work; }
    // If the QP is in error, flags that to its CQs, once, so that polling flushes what is posted from now on.
    void flag_error(uint64_t seen_status) {
        if (seen_status & T3_QP_STATUS_ERROR)
            report_error();
    }
    static constexpr uint64_t no_work = T3_QP_STATUS_ERROR | T3_QP_STATUS_STOPPED;
    // For posting to a QP that is stopped or in error. Its requests are checked and recorded like all others,
    // for polling to flush, but are built in a slot outside the ring.
    SlotCursor scratch_slot() { return SlotCursor(&scratch_slot_); }
    Batch& batch() { return batch_; }
    // Memory for the requests of a batch. Throws bad_alloc.
    void alloc_batch_slots();

    // It carries no index; the card looks at the ring until it finds an invalid slot.
    void ring_doorbell() {
        common::doorbell_barrier();
        common::mmio_write32(doorbell_, qpid_);
    }
    // Unless the status shows that the kernel rings it.
    bool ring_unless_db_off(uint64_t seen_status);

    // ---- the end

    // The connection is ending. All outstanding work is flushed when it has ended.
    void stop();
    // The same for an error that the kernel does not know of: requests the abort.
    void abort();
    // The kernel has reported that the connection has ended.
    bool in_error() const { return status() & T3_QP_STATUS_ERROR; }

    // Back to RESET, after the kernel's part: counters, cursor, and entries of this QP in its CQs.
    void reset();

private:
    void report_error();

    // What posting needs.
    alignas(64) PostLock lock_;
    bool error_reported_ = false; // posting has flagged the error to the CQs
    const uint64_t signal_all_;
    const uint32_t qpid_;
    SlotCursor cursor_;
    t3_wr_slot* const end_;
    t3_wr_slot* const ring_;
    volatile uint32_t* const doorbell_;
    uint64_t* const status_; // in slot 0
    cxgb3_counters* const counters_;

    SendQueue sq_;
    RecvQueue rq_;

    Cq& send_cq_;
    Cq& recv_cq_;
    Batch batch_;
    t3_wr_slot scratch_slot_ = {};
    void (*const abort_)(void*);
    void* const owner_;
};

} // namespace t3
