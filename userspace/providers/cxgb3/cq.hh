// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A completion queue: the card's ring of entries, and the QPs that complete into it.
//
// There is no software queue between ring and consumer. An entry of the card is turned into a completion when
// the consumer has room for it; what an entry makes ready beyond that stays in the SendQueue it belongs to;
// and flush completions are made one by one from what the QP still holds. So nothing can overflow here, and
// every request is delivered once, because delivering it is what retires it.
#pragma once

#include "include/hw/t3_cqe.h"
#include "userspace/common/barrier.hh"
#include "userspace/common/ring.hh"
#include "userspace/common/spinlock.hh"
#include "userspace/providers/cxgb3/cqe_view.hh"
#include "userspace/providers/cxgb3/qp.hh"
#include "userspace/providers/cxgb3/qp_map.hh"
#include "userspace/providers/cxgb3/types.hh"

#include <atomic>
#include <mutex>
#include <vector>

namespace t3 {

class Cq {
public:
    // threads: false if the program promises to use the CQ and its QPs from one thread.
    explicit Cq(bool threads) : lock_(threads) {}
    Cq(const Cq&) = delete;
    Cq& operator=(const Cq&) = delete;

    // Where the kernel reads how many of the card's entries were consumed when it arms the CQ. It wants to
    // know before it says where the ring is, hence two steps.
    const void* consumer_counter() const { return &consumed_; }

    // The ring: 2^log2 entries, and the status word behind them.
    void use_ring(void* ring, unsigned log2) {
        size_ = common::RingSize(log2);
        ring_ = static_cast<t3_cqe*>(ring);
        status_ = reinterpret_cast<uint32_t*>(ring_ + size_.entries());
    }

    uint32_t entries() const { return size_.entries(); }

    // Up to n completions, handed to sink(i, const Completion&). Returns how many. Never fails: an error of a
    // QP is a completion like any other.
    template <class Sink> int poll(int n, Sink&& sink) {
        std::lock_guard guard(lock_);
        begin_poll();
        int i = 0;
        Completion c;
        for (; i < n && next(c); i++)
            sink(i, c);
        return i;
    }

    // The same in pieces, for the extended CQ calls: lock(), begin_poll(), next() while it gives, unlock().
    void lock() { lock_.lock(); }
    void unlock() { lock_.unlock(); }

    void begin_poll() {
        if (__atomic_load_n(status_, __ATOMIC_RELAXED)) [[unlikely]]
            collect_errors();
    }

    [[gnu::always_inline]] inline bool next(Completion& c) {
        if (backlog_ && next_of_backlog(c))
            return true;
        if (!errored_.empty() && flush_due() && next_flushed(c)) [[unlikely]]
            return true;
        while (entry_ready()) {
            if (take_entry(c))
                return true;
        }
        return !errored_.empty() && next_flushed(c);
    }

    // A QP that completes into this CQ is in error: the next poll looks for it.
    void raise_error_flag() { __atomic_store_n(status_, T3_CQ_STATUS_ERROR, __ATOMIC_RELEASE); }

    // A QP says that it completes into this CQ, with its sends, its receives or both.
    void attach(Qp& qp);
    // Forgets the QP and voids its entries in the ring, so that a later QP of the same id does not get them.
    void detach(Qp& qp);

private:
    static constexpr uint32_t nobody = common::field_get<T3_CQE_QPID>(T3_CQE_QPID);

    bool valid_at(uint32_t counter) const {
        const uint32_t header = common::from_be(
            static_cast<uint32_t>(__atomic_load_n(&ring_[size_.index(counter)].header, __ATOMIC_ACQUIRE)));
        return static_cast<bool>(header & T3_CQE_GEN) == size_.lap_bit(counter);
    }

    uint32_t consumed() const { return consumed_.load(std::memory_order_relaxed); }

    bool entry_ready() {
        if (!valid_at(consumed())) {
            // The entry before this one, a lap later, can be there only if the card has overtaken us.
            if (size_.entries() == 1 || !valid_at(consumed() + size_.entries() - 1)) [[likely]]
                return false;
            overflowed();
            if (!valid_at(consumed()))
                return false;
        }
        common::dma_consume_barrier();
        return true;
    }

    [[gnu::always_inline]] inline bool take_entry(Completion& c) {
        const CqeView e(ring_[size_.index(consumed())]);
        consumed_.store(consumed() + 1, std::memory_order_relaxed);
        Qp* const qp = e.qpid() == last_id_ ? last_ : look_up(e.qpid());
        if (!qp) [[unlikely]]
            return false; // destroyed meanwhile
        c.qpid = e.qpid();
        switch (e.kind()) {
        case CqeView::Kind::sent:
            return take_send(*qp, e, c);
        case CqeView::Kind::message:
            return take_message(*qp, e, c);
        case CqeView::Kind::read_response:
            return take_read_response(*qp, e, c);
        default:
            // A TERMINATE, or a report about a peer's request that was refused. It completes nothing, but it
            // is the end of the connection; so is a kind of entry that no card writes today.
            fail(*qp);
            return false;
        }
    }

    bool take_send(Qp& qp, const CqeView& e, Completion& c) {
        SendQueue& sq = qp.sq_;
        if (&qp.send_cq_ != this || !sq.holds(e.position())) [[unlikely]]
            return false; // late entry of a flushed QP
        if (e.status() != T3_STATUS_SUCCESS) [[unlikely]] {
            sq.failed(e.position(), e.status());
            fail(qp);
            return sq.next_flushed(c);
        }
        sq.executed(e.position());
        return next_of(qp, c);
    }

    bool take_message(Qp& qp, const CqeView& e, Completion& c) {
        RecvQueue& rq = qp.rq_;
        if (&qp.recv_cq_ != this || rq.empty()) [[unlikely]] {
            fail(qp);
            return false;
        }
        c.status = e.status();
        if (e.msn() != rq.expected_msn()) [[unlikely]] {
            if (qp.in_error())
                return false; // late entry of a flushed QP
            c.status |= T3_STATUS_MSN;
        }
        c.wr_id = rq.pop();
        c.op = WorkOp::recv;
        c.byte_len = c.status == T3_STATUS_SUCCESS ? e.len() : 0;
        c.with_invalidate = e.invalidates() && c.status == T3_STATUS_SUCCESS;
        c.invalidated_stag = c.with_invalidate ? e.stag() : 0;
        if (c.status != T3_STATUS_SUCCESS) [[unlikely]]
            fail(qp);
        return true;
    }

    // Delivers from the QP's sends, and remembers the QP if this was not all of it.
    bool next_of(Qp& qp, Completion& c) {
        if (!qp.sq_.next_done(c))
            return false;
        if (qp.sq_.more_done())
            backlog_ = &qp;
        return true;
    }

    bool flush_due() const { return static_cast<int32_t>(consumed() - flush_from_) >= 0; }

    Qp* look_up(uint32_t id);
    bool next_of_backlog(Completion& c);
    bool take_read_response(Qp& qp, const CqeView& e, Completion& c);
    bool next_flushed(Completion& c);
    void collect_errors();
    void overflowed();
    void fail(Qp& qp);
    void note_errored(Qp& qp);

    common::SpinLock lock_;
    std::atomic<uint32_t> consumed_{0}; // entries of the card, never masked; the kernel reads it too
    common::RingSize size_;
    t3_cqe* ring_ = nullptr;
    uint32_t* status_ = nullptr; // mailbox behind the last entry
    uint32_t last_id_ = nobody;
    Qp* last_ = nullptr;
    Qp* backlog_ = nullptr; // has sends ready that did not fit the last poll

    std::vector<Qp*> errored_; // to be flushed into this CQ
    uint32_t flush_from_ = 0;  // entries that were in the ring before an error come before its flush
    std::vector<Qp*> attached_;
    QpMap qps_;
};

} // namespace t3
