// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The rare paths of posting: creation, errors, doorbells that the kernel has switched off.
#include "userspace/providers/cxgb3/qp.hh"

#include "userspace/providers/cxgb3/cq.hh"

#include <cstring>
#include <new>

namespace t3 {

static_assert(sizeof(t3_wr_slot) == T3_WR_SLOT_BYTES);

Qp::Qp(const QpConfig& cfg, Cq& send_cq, Cq& recv_cq)
    : lock_(cfg.needs_locks), signal_all_(cfg.signal_all ? SendEntry::signaled_flag : 0), qpid_(cfg.qpid),
      cursor_(static_cast<t3_wr_slot*>(cfg.ring)), end_(cursor_.slot + (size_t{1} << cfg.size_log2)),
      ring_(cursor_.slot), doorbell_(cfg.doorbell),
      status_(reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(cfg.ring) + T3_QP_STATUS_OFFSET)),
      counters_(cfg.counters), sq_(cfg.sq_size_log2, cfg.qpid), rq_(cfg.rq_size_log2, cfg.qpid),
      send_cq_(send_cq), recv_cq_(recv_cq), abort_(cfg.abort), owner_(cfg.owner) {
    send_cq_.attach(*this);
    if (&recv_cq_ == &send_cq_)
        return;
    try {
        recv_cq_.attach(*this);
    } catch (...) { // no destructor will run
        send_cq_.detach(*this);
        throw;
    }
}

Qp::~Qp() {
    send_cq_.detach(*this);
    if (&recv_cq_ != &send_cq_)
        recv_cq_.detach(*this);
}

void Qp::alloc_batch_slots() {
    const size_t bytes = size_t{sq_.capacity()} * sizeof(t3_wr_slot);
    batch_.slots.reset(static_cast<t3_wr_slot*>(::operator new (bytes, std::align_val_t{64})));
    std::memset(static_cast<void*>(batch_.slots.get()), 0, bytes); // the builders leave gaps
}

void Qp::report_error() {
    if (error_reported_)
        return;
    error_reported_ = true;
    send_cq_.raise_error_flag();
    recv_cq_.raise_error_flag();
}

// The kernel, which has switched doorbells off, clears the bit, then rings for all QPs. If the bit is still
// set after a full barrier, the kernel rings after our request became visible. Otherwise it may have rung
// before, so we ring.
bool Qp::ring_unless_db_off(uint64_t seen_status) {
    if (seen_status & T3_QP_STATUS_DB_OFF) {
        __sync_synchronize();
        if (status() & T3_QP_STATUS_DB_OFF)
            return false;
    }
    ring_doorbell();
    return true;
}

void Qp::stop() {
    __atomic_fetch_or(status_, T3_QP_STATUS_STOPPED, __ATOMIC_SEQ_CST);
}

void Qp::abort() {
    const uint64_t before = __atomic_fetch_or(status_, T3_QP_STATUS_STOPPED, __ATOMIC_SEQ_CST);
    if (abort_ && !(before & no_work))
        abort_(owner_);
}

// The kernel has cleared the ring. A status bit that is set now belongs to the new life of the QP: another
// thread may have moved it to the error state already.
void Qp::reset() {
    send_cq_.detach(*this);
    if (&recv_cq_ != &send_cq_)
        recv_cq_.detach(*this);
    lock_.lock_receive();
    sq_.reset();
    rq_.reset();
    cursor_ = SlotCursor(ring_);
    error_reported_ = false;
    lock_.unlock_receive();
    send_cq_.attach(*this);
    if (&recv_cq_ != &send_cq_)
        recv_cq_.attach(*this);
}

} // namespace t3
