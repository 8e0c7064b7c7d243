// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Completing in all cases: reads that hold others back, errors, flush, and unusual entries.
#include "userspace/providers/cxgb3/cq.hh"

#include <algorithm>
#include <mutex>

namespace t3 {

static_assert(sizeof(t3_cqe) == T3_CQE_BYTES && T3_CQE_BYTES == 16);

void Cq::use_ring(void* ring, unsigned log2) {
    size_ = common::RingSize(log2);
    ring_ = static_cast<t3_cqe*>(ring);
    end_ = CqPosition(ring_ + size_.entries(), true);
    status_ = reinterpret_cast<uint32_t*>(ring_ + size_.entries());
    __atomic_store_n(&status_[1], mark, __ATOMIC_RELAXED);
    set_attention(mapped, true);
    set_position(CqPosition(ring_, true));
}

// ---- positions

uint32_t Cq::consumed() const {
    const CqPosition p = position_relaxed();
    return static_cast<uint32_t>(p.entry() - ring_) | (p.gen() ? 0 : size_.entries());
}

// If another thread polls now, or is between ibv_start_poll() and ibv_end_poll(), it has the lock and gets
// the completions that QPs hold.
void Cq::publish_consumed() {
    uint32_t count = consumed();
    if (attention() && try_lock()) {
        count = consumed();
        if (uint32_t held = this->held())
            count -= std::min(held, size_.entries() - unread());
        unlock();
    }
    // The kernel reads it in this thread's next system call.
    consumed_for_kernel_.store(count, std::memory_order_relaxed);
}

// Completions that can be polled although no entry of the card is left for them: sends that were held back by
// a read, and the flush of QPs in error.
uint32_t Cq::held() {
    collect_errors();
    uint32_t n = backlog_ ? backlog_->sq().ready() : 0;
    for (Qp* qp : errored_) {
        n += &qp->send_cq() == this ? qp->sq().outstanding() : 0;
        n += &qp->recv_cq() == this ? qp->rq().outstanding() : 0;
    }
    return n;
}

CqPosition Cq::after(CqPosition p, uint32_t n) const {
    const uint32_t index = static_cast<uint32_t>(p.entry() - ring_) + n;
    return CqPosition(ring_ + size_.index(index), p.gen() != static_cast<bool>(index >> size_.log2() & 1));
}

// ---- QPs

template <class T> static void reserve_one(std::vector<T>& v) {
    if (v.size() == v.capacity())
        v.reserve(std::max<size_t>(8, 2 * v.size()));
}

void Cq::attach(Qp& qp) {
    std::lock_guard guard(lock_);
    reserve_one(attached_);
    errored_.reserve(attached_.capacity());         // so that polling never allocates
    if (Qp* const destroyed = qps_.find(qp.qpid())) // its id is free again
        forget(*destroyed);
    qps_.insert(qp.qpid(), &qp);
    attached_.push_back(&qp);
    forget_last();
    check_subscription();
}

void Cq::detach(Qp& qp) {
    std::lock_guard guard(lock_);
    if (qps_.find(qp.qpid()) == &qp)
        forget(qp);
}

void Cq::forget(Qp& qp) {
    std::erase(attached_, &qp);
    std::erase(errored_, &qp);
    set_attention(errored, !errored_.empty());
    qps_.erase(qp.qpid());
    forget_last();
    if (backlog_ == &qp) {
        backlog_ = nullptr;
        set_attention(backlog, false);
    }
    remove_entries(qp.qpid());
    check_subscription();
}

uint32_t Cq::unread() const {
    uint32_t n = 0;
    while (n < size_.entries() && after(position(), n).filled())
        n++;
    return n;
}

// Removes the unread CQEs of this QP: closes the gap towards the card's write index and advances the read
// position. The gap must not stay, because the kernel counts the CQ entries of a destroyed QP as free.
void Cq::remove_entries(uint32_t qpid) {
    const uint32_t filled = unread();
    uint32_t to = filled;
    for (uint32_t from = filled; from-- > 0;) {
        const t3_cqe e = *after(position(), from).entry();
        const uint32_t header = t3_from_be32(e.header);
        if (t3_header_qpid(header) == qpid) {
            before_flush_ -= from < before_flush_;
            continue;
        }
        if (--to == from)
            continue;
        const CqPosition target = after(position(), to);
        target.entry()->len = e.len;
        target.entry()->u = e.u;
        // Atomic for the threads that look for an entry without the lock.
        __atomic_store_n(&target.entry()->header,
                         t3_to_be32((header & ~T3_CQE_GEN) | (target.gen() ? T3_CQE_GEN : 0)),
                         __ATOMIC_RELAXED);
    }
    CqPosition first = position();
    for (uint32_t n = 0; n < to; n++)
        first = next_position(first);
    set_position(first);
}

// A card that is allowed to complete more than the ring holds may overwrite what was not read, so polling
// has to check for it. Rings of the usual size never need to.
void Cq::check_subscription() {
    uint64_t most = 0;
    for (Qp* qp : attached_) {
        most += &qp->send_cq() == this ? qp->sq().capacity() + 1 : 0; // and the kernel's own read
        most += &qp->recv_cq() == this ? qp->rq().capacity() : 0;
    }
    set_attention(oversubscribed, most > size_.entries());
}

void Cq::set_attention(uint32_t why, bool on) {
    attention_ = on ? attention_ | why : attention_ & ~why;
    if (on)
        __atomic_fetch_or(status_, why, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(status_, ~why, __ATOMIC_RELAXED);
}

void Cq::forget_last() {
    last_send = last_read = {};
    last_message = {};
}

bool Cq::cache_queue(uint32_t header) {
    Qp* const qp = qps_.find(t3_header_qpid(header));
    if (!qp || t3_header_status(header) != T3_STATUS_SUCCESS)
        return false;
    const uint32_t key = t3_to_be32(header) & key_mask;
    switch (t3_header_kind(header)) {
    case T3_KIND_SENT:
        last_send = {key, &qp->sq()};
        return &qp->send_cq() == this;
    case T3_KIND_READ:
        last_read = {key, &qp->sq()};
        return &qp->send_cq() == this;
    case T3_KIND_MESSAGE:
        last_message = {key, &qp->rq()};
        return &qp->recv_cq() == this;
    default:
        return false;
    }
}

// ---- entries

bool Cq::take_entry(Completion& c) {
    common::dma_consume_barrier();
    const CqPosition at = position();
    const t3_cqe e = *at.entry();
    set_position(next_position(at));
    before_flush_ -= before_flush_ != 0;
    return take(e, c);
}

bool Cq::next(Completion& c) {
    if (removed()) [[unlikely]]
        return false;
    if (backlog_ && next_from_backlog(c))
        return true;
    if (before_flush_ == 0 && next_flushed(c))
        return true;
    for (;;) {
        if (!position().filled()) {
            if (!may_be_overrun())
                break;
            overrun();
            if (!position().filled())
                break;
        }
        if (take_entry(c))
            return true;
    }
    return next_flushed(c);
}

bool Cq::take(const t3_cqe& e, Completion& c) {
    const uint32_t header = t3_from_be32(e.header);
    Qp* const qp = qps_.find(t3_header_qpid(header));
    if (!qp)
        return false; // destroyed since
    c.qpid = qp->qpid();
    switch (t3_header_kind(header)) {
    case T3_KIND_SENT:
        return take_send(*qp, e, t3_header_status(header), c);
    case T3_KIND_MESSAGE:
    case T3_KIND_MESSAGE_INV:
        return take_message(*qp, e, header, c);
    case T3_KIND_READ:
        return take_read_response(*qp, e, t3_header_status(header), c);
    default:
        // A TERMINATE, or a report about a peer's request that was refused. It completes nothing, but it is
        // the end of the connection, and the kernel has the same report. A kind of entry that no card writes
        // today also ends the connection; the kernel may have no report of it.
        if (t3_header_status(header) != T3_STATUS_SUCCESS || t3_header_opcode(header) == T3_RDMA_TERMINATE)
            qp->stop();
        else
            qp->abort();
        return false;
    }
}

bool Cq::take_send(Qp& qp, const t3_cqe& e, uint8_t status, Completion& c) {
    SendQueue& sq = qp.sq();
    const uint32_t position = e.u.sq.wrid_hi;
    if (&qp.send_cq() != this || sq.flushing() || !sq.holds(position))
        return false; // late entry of a flushed QP
    if (status != T3_STATUS_SUCCESS) {
        sq.failed(position, status);
        qp.stop();
    } else {
        sq.executed(position);
    }
    return deliver_next(qp, c);
}

bool Cq::take_message(Qp& qp, const t3_cqe& e, uint32_t header, Completion& c) {
    RecvQueue& rq = qp.rq();
    const uint32_t head = rq.head_relaxed();
    if (&qp.recv_cq() != this || !rq.holds(head)) {
        qp.abort();
        return false;
    }
    const uint32_t msn = t3_from_be32(e.u.rq.msn);
    if (msn != rq.msn(head) && qp.in_error())
        return false; // late entry of a flushed QP
    c.status = t3_message_status(header, msn, rq.msn(head));
    const bool ok = c.status == T3_STATUS_SUCCESS;
    c.wr_id = rq.wr_id(head);
    rq.complete(head);
    c.op = WorkOp::recv;
    c.byte_len = ok ? t3_from_be32(e.len) : 0;
    c.with_invalidate = ok && t3_header_kind(header) == T3_KIND_MESSAGE_INV;
    c.invalidated_stag = c.with_invalidate ? t3_from_be32(e.u.rq.stag) : 0;
    if (!ok && t3_header_status(header) == T3_STATUS_SUCCESS)
        qp.abort(); // the card reports success, the check fails
    else if (!ok)
        qp.stop();
    return true;
}

bool Cq::take_read_response(Qp& qp, const t3_cqe& e, uint8_t status, Completion& c) {
    const bool ok = status == T3_STATUS_SUCCESS;
    // The response of the kernel's own RTR read completes no request of this queue.
    if (t3_from_be32(e.u.rq.stag) == T3_RTR_STAG || &qp.send_cq() != this) {
        if (!ok)
            qp.stop();
        return false;
    }
    if (!ok)
        qp.stop();
    return (ok ? qp.sq().read_arrived() : qp.sq().read_failed(status)) && deliver_next(qp, c);
}

// Delivers one of the QP's sends. If more are ready, the QP becomes the backlog.
bool Cq::deliver_next(Qp& qp, Completion& c) {
    if (!qp.sq().next_done(c))
        return false;
    if (qp.sq().more_done()) {
        backlog_ = &qp;
        set_attention(backlog, true);
    }
    return true;
}

bool Cq::next_from_backlog(Completion& c) {
    Qp& qp = *backlog_;
    backlog_ = nullptr;
    set_attention(backlog, false);
    c.qpid = qp.qpid();
    return deliver_next(qp, c);
}

// ---- errors

// Clears the kernel's flag first: for a QP that fails from here on the kernel sets it again. The kernel's
// store may have cleared our own bits, so they are set again.
void Cq::collect_errors() {
    if (!(__atomic_load_n(status_, __ATOMIC_RELAXED) & T3_CQ_STATUS_ERROR) || removed())
        return;
    __atomic_fetch_and(status_, ~T3_CQ_STATUS_ERROR, __ATOMIC_ACQ_REL);
    __atomic_fetch_or(status_, attention_, __ATOMIC_RELAXED);
    for (Qp* qp : attached_) {
        if (qp->in_error())
            add_errored(*qp);
    }
}

void Cq::add_errored(Qp& qp) {
    if (std::find(errored_.begin(), errored_.end(), &qp) != errored_.end())
        return;
    errored_.push_back(&qp);
    set_attention(errored, true);
    before_flush_ = unread();
}

// A QP stays in the list until it is reset or destroyed: work may be posted to it at any time, also by a
// thread that had not seen the error when it began.
bool Cq::next_flushed(Completion& c) {
    for (Qp* qp : errored_) {
        c.qpid = qp->qpid();
        if (&qp->send_cq() == this && qp->sq().next_flushed(c))
            return true;
        if (&qp->recv_cq() == this && !qp->rq().empty()) {
            const uint32_t head = qp->rq().head_relaxed();
            c = {.wr_id = qp->rq().wr_id(head),
                 .qpid = qp->qpid(),
                 .byte_len = 0,
                 .invalidated_stag = 0,
                 .op = WorkOp::recv,
                 .status = T3_STATUS_FLUSH,
                 .with_invalidate = false};
            qp->rq().complete(head);
            return true;
        }
    }
    return false;
}

// The entry before the read position is the one that the card writes last. If it has the generation of the
// lap that begins at the read position, the card has overrun the ring, or has filled it exactly (then the
// entry at the read position is valid too).
bool Cq::may_be_overrun() const {
    return size_.entries() != 1 && after(position_relaxed(), size_.entries() - 1).filled();
}

// The program made the CQ too small for its work and the card has overwritten entries that were not read.
// Those are lost, so outstanding requests of any QP here might never complete. All connections are aborted,
// and then their work is flushed.
void Cq::overrun() {
    set_position(position().other_lap());
    end_ = end_.other_lap();
    for (Qp* qp : attached_)
        qp->abort();
}

} // namespace t3
