// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A queue pair: one ring in host memory that carries sends and receives in the order of posting, a doorbell,
// and the memory of what was posted.
//
// Locks. Posting takes the QP's own lock. Completing takes no QP lock: sends are completed under the lock of
// the send CQ, receives under that of the receive CQ, and SendQueue and RecvQueue are single producer, single
// consumer. Order where both are needed: CQ before QP.
//
// Error. The kernel, or whoever on this side notices first, sets T3_QP_STATUS_ERROR in slot 0 and a flag
// behind each CQ's ring. Polling sees the flag and flushes. Work posted later is not given to the card; it
// comes back flushed, so that a program may drain a dead QP as the verbs promise.
#pragma once

#include "include/hw/t3_wr.h"
#include "include/uapi/t3_abi.h"
#include "userspace/common/mmio.hh"
#include "userspace/common/ring.hh"
#include "userspace/common/spinlock.hh"
#include "userspace/providers/cxgb3/types.hh"
#include "userspace/providers/cxgb3/work_queue.hh"
#include "userspace/providers/cxgb3/wr_build.hh"

#include <cerrno>
#include <cstring>
#include <mutex>

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
    bool threads = true; // false: the program promises one thread
};

class Qp {
public:
    Qp(const QpConfig& cfg, Cq& send_cq, Cq& recv_cq);
    Qp(const Qp&) = delete;
    Qp& operator=(const Qp&) = delete;
    ~Qp(); // detaches from both CQs; their entries of this QP are lost, as the verbs say

    uint32_t qpid() const { return qpid_; }
    Cq& send_cq() const { return send_cq_; }
    Cq& recv_cq() const { return recv_cq_; }

    // A list of requests, first to last until one is refused. Those before it are posted and rung for,
    // *bad_wr names it, and the result is its positive errno. post_one is called as int(Wr&).
    template <class Wr, class PostOne> int post_list(Wr* wr, Wr** bad_wr, PostOne&& post_one) {
        std::lock_guard guard(lock_);
        const uint64_t status = begin_post();
        const uint32_t before = wptr_;
        int error = 0;
        for (; wr; wr = wr->next) {
            error = post_one(*wr);
            if (error) [[unlikely]] {
                *bad_wr = wr;
                break;
            }
        }
        if (wptr_ != before)
            ring_doorbell(status);
        return error;
    }

    // One request into the ring, unrung: for post_list(). Positive errno if it is refused.
    [[gnu::always_inline]] inline int post_send(SendRequest r) {
        r.signaled |= signal_all_;
        if (sq_.full()) [[unlikely]]
            return ENOMEM;
        wr::Slot& slot = next_slot();
        wr::Header h;
        WorkOp op = WorkOp::send;
        int error;
        switch (r.op) {
        case SendOp::send:
        case SendOp::send_inv:
            error = wr::build_send(slot, r, h);
            break;
        case SendOp::write:
            op = WorkOp::write;
            error = wr::build_write(slot, r, h);
            break;
        case SendOp::read:
            op = WorkOp::read;
            error = wr::build_read(slot, r, h);
            break;
        case SendOp::local_inv:
            op = WorkOp::local_inv;
            error = wr::build_local_inv(slot, r, h);
            break;
        default:
            return EINVAL;
        }
        if (error) [[unlikely]]
            return error;
        const uint32_t read_bytes = op == WorkOp::read && !r.sg.empty() ? r.sg[0].length : 0;
        commit_send(slot, h, r.wr_id, op, r.signaled, read_bytes);
        return 0;
    }

    [[gnu::always_inline]] inline int post_recv(const RecvRequest& r) {
        if (rq_.full()) [[unlikely]]
            return ENOMEM;
        wr::Slot& slot = next_slot();
        wr::Header h;
        if (const int error = wr::build_recv(slot, r, h)) [[unlikely]]
            return error;
        slot.recv.id = {};
        rq_.push(r.wr_id);
        make_visible(slot, h);
        return 0;
    }

    // Binds a window; rings by itself.
    int bind_mw(const BindRequest& r);

    // The connection is gone or about to go: everything outstanding will be flushed.
    void set_error();
    bool in_error() const { return status() & T3_QP_STATUS_ERROR; }

    // Back to RESET: counters, ring, error, and entries of this QP in its CQs.
    void reset();

    SendQueue& sq() { return sq_; }
    RecvQueue& rq() { return rq_; }

private:
    friend class Cq;

    wr::Slot& next_slot() { return ring_[slots_.index(wptr_)]; }

    void commit_send(wr::Slot& slot, wr::Header h, uint64_t wr_id, WorkOp op, bool signaled,
                     uint32_t read_bytes) {
        const uint32_t pos = sq_.next_position();
        slot.send.id = {pos, 0};
        sq_.push(wr_id, op, signaled, read_bytes);
        make_visible(slot, h);
    }

    // The card must not find the request before software remembers it, hence after push().
    void make_visible(wr::Slot& slot, wr::Header h) {
        if (dead_) [[unlikely]]
            return; // remembered only; polling flushes it
        wr::publish(slot, h, slots_.lap_bit(wptr_));
        wptr_++;
    }

    uint64_t status() const { return __atomic_load_n(status_, __ATOMIC_RELAXED); }

    uint64_t begin_post() {
        const uint64_t s = status();
        if ((s & T3_QP_STATUS_ERROR) && !dead_) [[unlikely]]
            notice_error();
        return s;
    }

    void notice_error();

    // One doorbell per call. It carries no index; the card looks at the ring until it finds an invalid slot.
    void ring_doorbell(uint64_t seen_status) {
        common::doorbell_barrier();
        if (seen_status & T3_QP_STATUS_DB_OFF) [[unlikely]] {
            // The kernel clears the bit, then rings for everyone. Seen set once more after a full barrier,
            // its ring comes after our request became visible; else it may not, and we ring.
            __sync_synchronize();
            if (status() & T3_QP_STATUS_DB_OFF)
                return;
        }
        common::mmio_write32(doorbell_, qpid_);
    }

    // What posting needs, on one cache line.
    alignas(64) common::SpinLock lock_;
    bool dead_ = false; // error seen by the posting side
    const bool signal_all_;
    const common::RingSize slots_;
    uint32_t wptr_ = 0; // slots ever used
    const uint32_t qpid_;
    wr::Slot* const ring_;
    volatile uint32_t* const doorbell_;
    uint64_t* const status_; // mailbox in slot 0

    SendQueue sq_;
    RecvQueue rq_;

    Cq& send_cq_;
    Cq& recv_cq_;
};

} // namespace t3
