// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The seldom-used half of completion: attaching, errors, flush, and odd entries.
#include "userspace/providers/cxgb3/cq.hh"

#include <algorithm>

namespace t3 {

void Cq::attach(Qp& qp) {
    std::lock_guard guard(lock_);
    attached_.reserve(attached_.size() + 1);
    errored_.reserve(attached_.size() + 1); // so that polling never allocates
    qps_.insert(qp.qpid(), &qp);
    attached_.push_back(&qp);
    last_id_ = nobody;
}

void Cq::detach(Qp& qp) {
    std::lock_guard guard(lock_);
    std::erase(attached_, &qp);
    std::erase(errored_, &qp);
    qps_.erase(qp.qpid(), &qp);
    last_id_ = nobody;
    last_ = nullptr;
    if (backlog_ == &qp)
        backlog_ = nullptr;
    for (uint32_t at = consumed(), end = at + size_.entries(); at != end && valid_at(at); at++) {
        t3_cqe& e = ring_[size_.index(at)];
        const uint32_t header = common::from_be(static_cast<uint32_t>(e.header));
        if (common::field_get<T3_CQE_QPID>(header) == qp.qpid())
            e.header = common::to_be(header | T3_CQE_QPID);
    }
}

Qp* Cq::look_up(uint32_t id) {
    last_ = qps_.find(id);
    last_id_ = last_ ? id : nobody;
    return last_;
}

bool Cq::next_of_backlog(Completion& c) {
    Qp& qp = *backlog_;
    backlog_ = nullptr;
    c.qpid = qp.qpid();
    return next_of(qp, c);
}

bool Cq::take_read_response(Qp& qp, const CqeView& e, Completion& c) {
    const bool ok = e.status() == T3_STATUS_SUCCESS;
    // Data of the kernel's own read that opens a peer-to-peer connection belongs to nobody here.
    if (e.stag() == T3_RTR_STAG || &qp.send_cq_ != this) {
        if (!ok)
            fail(qp);
        return false;
    }
    if (ok)
        return qp.sq_.read_arrived() && next_of(qp, c);
    if (!qp.sq_.read_failed(e.status()))
        return false;
    fail(qp);
    return qp.sq_.next_flushed(c);
}

void Cq::fail(Qp& qp) {
    qp.set_error();
    note_errored(qp);
}

void Cq::note_errored(Qp& qp) {
    if (std::find(errored_.begin(), errored_.end(), &qp) != errored_.end())
        return;
    errored_.push_back(&qp);
    uint32_t end = consumed();
    while (end - consumed() < size_.entries() && valid_at(end))
        end++;
    flush_from_ = end;
}

// Somebody raised the flag. It is lowered first: a QP that fails from here on raises it again.
void Cq::collect_errors() {
    __atomic_exchange_n(status_, 0u, __ATOMIC_ACQ_REL);
    for (Qp* qp : attached_) {
        if (qp->in_error())
            note_errored(*qp);
    }
}

// A QP stays in the list until it is reset or destroyed: work may be posted to it at any time, also by a
// thread that had not seen the error when it began.
bool Cq::next_flushed(Completion& c) {
    for (Qp* qp : errored_) {
        c.qpid = qp->qpid();
        if (&qp->send_cq_ == this && qp->sq_.next_flushed(c))
            return true;
        if (&qp->recv_cq_ == this && !qp->rq_.empty()) {
            c = {.wr_id = qp->rq_.pop(),
                 .qpid = qp->qpid(),
                 .byte_len = 0,
                 .invalidated_stag = 0,
                 .op = WorkOp::recv,
                 .status = T3_STATUS_FLUSH,
                 .with_invalidate = false};
            return true;
        }
    }
    return false;
}

// The program made the CQ too small for its work and the card has overwritten entries that were not read.
// What they said is lost, so no QP here can be trusted to complete; all are put in error, and their work
// flushed.
void Cq::overflowed() {
    consumed_.store(consumed() + size_.entries(), std::memory_order_relaxed);
    for (Qp* qp : attached_)
        fail(*qp);
}

} // namespace t3
