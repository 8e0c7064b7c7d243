// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_post_recv(): from a list of receives to the doorbell. As post_send.cc, into the same ring.
#include "userspace/providers/cxgb3/verbs_core.hh"

namespace {

using t3::Qp;
using t3::RecvQueue;
using t3::SlotCursor;

// Builds a receive in its slot and gives it to the card. The caller has checked that the queue has space.
// False: the receive is malformed; nothing has changed.
[[gnu::always_inline]] inline bool build_and_publish(RecvQueue& rq, uint32_t pos, const SlotCursor& at,
                                                     t3_wr_slot* slot, uint64_t wr_id, uint32_t num_sge,
                                                     const t3_host_sge* sge) {
    if (t3_build_recv(&slot->recv, sge, num_sge, nullptr) < 0) [[unlikely]]
        return false;
    slot->hdr.hi = t3_wr_hi(T3_WR_OP_RECV, T3_WR_F_COMPLETION);
    rq.push(pos, wr_id); // before the card can see it
    at.publish(slot, T3_RECV_FLITS);
    return true;
}

// Any receive, in any state of the queue and of the QP. Returns a positive errno; then nothing has changed.
int post_any_recv(Qp& qp, const SlotCursor& at, const ibv_recv_wr& wr) {
    RecvQueue& rq = qp.rq();
    const uint32_t pos = rq.tail_relaxed();
    if (rq.full(pos))
        return ENOMEM;
    return build_and_publish(rq, pos, at, at.slot, wr.wr_id, static_cast<uint32_t>(wr.num_sge),
                             t3::host_sges(wr.sg_list))
               ? 0
               : EINVAL;
}

// With the lock held; unlocks. `posted`: receives before `wr` are in the ring, without a doorbell.
[[gnu::noinline]] int post_slow(Qp& qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr, bool posted) noexcept {
    const int error = t3::post_list(qp, wr, bad_wr, posted, post_any_recv);
    qp.post_lock().unlock_receive();
    return error;
}

// Another thread changes the ring, or a batch of sends is open. The batch does not delay receives.
[[gnu::noinline]] int wait_and_post(Qp& qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    qp.post_lock().lock_receive();
    return post_slow(qp, wr, bad_wr, false);
}

// A receive of the usual kind: one element that is not empty. False: it is of another kind or must be
// refused; nothing has changed.
[[gnu::always_inline]] inline bool post_usual(Qp& qp, uint32_t pos, const ibv_recv_wr& wr) {
    RecvQueue& rq = qp.rq();
    if (wr.num_sge != 1 || wr.sg_list->length == 0 || rq.seems_full(pos)) [[unlikely]]
        return false;
    t3_wr_slot* const slot = qp.cursor().slot;
    if (!build_and_publish(rq, pos, qp.cursor(), slot, wr.wr_id, 1, t3::host_sges(wr.sg_list))) [[unlikely]]
        return false;
    qp.step(slot);
    return true;
}

} // namespace

int cxgb3_post_recv(ibv_qp* ibqp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    Qp& qp = t3::core(ibqp);
    if (!qp.post_lock().try_lock()) [[unlikely]]
        return wait_and_post(qp, wr, bad_wr);
    if (!wr || qp.status()) [[unlikely]]
        return post_slow(qp, wr, bad_wr, false);
    const ibv_recv_wr* const first = wr;
    uint32_t pos = qp.rq().tail_relaxed();
    do {
        if (!post_usual(qp, pos++, *wr)) [[unlikely]]
            return post_slow(qp, wr, bad_wr, wr != first);
        wr = wr->next;
    } while (wr);
    qp.ring_doorbell();
    qp.post_lock().unlock();
    return 0;
}

// As cxgb3_post_send_counted().
int cxgb3_post_recv_counted(ibv_qp* ibqp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    Qp& qp = t3::core(ibqp);
    const uint32_t before = qp.rq().tail_relaxed();
    const t3_wr_slot* const slot = qp.cursor().slot;
    const int error = cxgb3_post_recv(ibqp, wr, bad_wr);
    t3::count(qp.counters()->post_recv);
    t3::count(qp.counters()->recv_requests, qp.rq().tail_relaxed() - before);
    t3::count(qp.counters()->doorbells, qp.cursor().slot != slot);
    return error;
}
