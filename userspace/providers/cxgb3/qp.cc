// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "userspace/providers/cxgb3/qp.hh"

#include "userspace/providers/cxgb3/cq.hh"

namespace t3 {

Qp::Qp(const QpConfig& cfg, Cq& send_cq, Cq& recv_cq)
    : lock_(cfg.threads), signal_all_(cfg.signal_all), slots_(cfg.size_log2), qpid_(cfg.qpid),
      ring_(static_cast<wr::Slot*>(cfg.ring)), doorbell_(cfg.doorbell),
      status_(reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(cfg.ring) + T3_QP_STATUS_OFFSET)),
      sq_(cfg.sq_size_log2), rq_(cfg.rq_size_log2), send_cq_(send_cq), recv_cq_(recv_cq) {
    send_cq_.attach(*this);
    if (&recv_cq_ != &send_cq_)
        recv_cq_.attach(*this);
}

Qp::~Qp() {
    send_cq_.detach(*this);
    if (&recv_cq_ != &send_cq_)
        recv_cq_.detach(*this);
}

int Qp::bind_mw(const BindRequest& r) {
    std::lock_guard guard(lock_);
    if (sq_.full())
        return ENOMEM;
    const uint64_t status = begin_post();
    wr::Slot& slot = next_slot();
    wr::Header h;
    const bool signaled = r.signaled || signal_all_;
    wr::build_bind_mw(slot, r, signaled, h);
    commit_send(slot, h, r.wr_id, WorkOp::bind_mw, signaled, 0);
    if (!dead_)
        ring_doorbell(status);
    return 0;
}

void Qp::set_error() {
    __atomic_fetch_or(status_, T3_QP_STATUS_ERROR, __ATOMIC_SEQ_CST);
    send_cq_.raise_error_flag();
    recv_cq_.raise_error_flag();
}

void Qp::notice_error() {
    dead_ = true;
    send_cq_.raise_error_flag();
    recv_cq_.raise_error_flag();
}

void Qp::reset() {
    send_cq_.detach(*this);
    if (&recv_cq_ != &send_cq_)
        recv_cq_.detach(*this);
    {
        std::lock_guard guard(lock_);
        sq_.reset();
        rq_.reset();
        wptr_ = 0;
        dead_ = false;
        std::memset(ring_, 0, size_t{slots_.entries()} * sizeof(wr::Slot));
    }
    send_cq_.attach(*this);
    if (&recv_cq_ != &send_cq_)
        recv_cq_.attach(*this);
}

} // namespace t3
