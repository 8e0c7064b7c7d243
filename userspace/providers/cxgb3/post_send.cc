// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_post_send(): from a list of requests to the doorbell.
//
// Per request: the body of a slot by the shared builders (include/hw/t3_wr_build.h), an entry in the send
// queue, then the two words that make the slot valid. Per call: one lock, one load of the QP's status word,
// one barrier, one doorbell. No division, no indirect call, no system call.
//
// The loop in cxgb3_post_send() posts the usual requests: a send, write or signaled read with one
// scatter/gather element, or inline. post_slow() posts the remaining list from the first request that is of
// another kind or must be refused, and all of it while the status word is not 0. The loop calls no function,
// so that it needs few registers.
#include "userspace/providers/cxgb3/post.hh"

namespace {

using t3::Built;
using t3::Qp;
using t3::SendQueue;
using t3::SlotCursor;

Built build(t3_wr_slot& slot, const ibv_send_wr& wr, t3::wr_flags flags) {
    const bool invalidates = wr.opcode == IBV_WR_SEND_WITH_INV || wr.opcode == IBV_WR_LOCAL_INV;
    return t3::build_any(slot, wr.opcode, flags, invalidates ? wr.invalidate_rkey : wr.wr.rdma.rkey,
                         wr.wr.rdma.remote_addr, flags & IBV_SEND_INLINE, static_cast<uint32_t>(wr.num_sge),
                         t3::host_sges(wr.sg_list));
}

// Any request, in any state of the queue and of the QP. Returns a positive errno; then nothing has changed.
int post_any_send(Qp& qp, const SlotCursor& at, const ibv_send_wr& wr) {
    const t3::wr_flags flags = (wr.send_flags & t3::known_flags) | qp.signal_all();
    return t3::post_one(qp, at, wr.wr_id, flags, [&](t3_wr_slot& slot) { return build(slot, wr, flags); });
}

// With the lock held; unlocks. `posted`: requests before `wr` are in the ring, without a doorbell.
[[gnu::noinline]] int post_slow(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr, bool posted) noexcept {
    const int error = t3::post_list(qp, wr, bad_wr, posted, post_any_send);
    qp.post_lock().unlock();
    return error;
}

[[gnu::noinline]] int wait_and_post(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    if (!qp.post_lock().lock_send()) {
        *bad_wr = wr;
        return EBUSY; // the only thread has a batch open: ibv_wr_start(3) does not allow this call
    }
    return post_slow(qp, wr, bad_wr, false);
}

// Puts a request that was built into the ring. False: it must be refused; nothing has changed.
[[gnu::always_inline]] inline bool post_built(Qp& qp, t3_wr_slot* slot, uint64_t wr_id, t3::wr_flags flags,
                                              const Built& built) {
    if (built.error) [[unlikely]]
        return false;
    SendQueue& sq = qp.sq();
    t3::record_and_publish(sq, sq.tail_relaxed(), qp.cursor(), slot, wr_id, flags, built);
    qp.step(slot);
    return true;
}

// A request of the usual kinds. False: it is of another kind or must be refused; nothing has changed.
[[gnu::always_inline]] inline bool post_usual(Qp& qp, const ibv_send_wr& wr) {
    const t3_host_sge* const sge = t3::host_sges(wr.sg_list);
    const t3::wr_flags all_flags = wr.send_flags | qp.signal_all();
    t3_wr_slot* const slot = qp.cursor().slot;
    if (wr.num_sge != 1 || qp.sq().seems_full(qp.sq().tail_relaxed())) [[unlikely]]
        return false;
    if (wr.opcode == IBV_WR_RDMA_READ) {
        if ((all_flags & (IBV_SEND_SIGNALED | IBV_SEND_INLINE)) != IBV_SEND_SIGNALED) [[unlikely]]
            return false;
        return post_built(qp, slot, wr.wr_id, IBV_SEND_SIGNALED,
                          t3::build_read(*slot, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, false, 1, sge));
    }
    const t3::wr_flags flags = all_flags & t3::known_flags;
    const bool in_line = flags & IBV_SEND_INLINE;
    if (wr.opcode == IBV_WR_SEND)
        return post_built(qp, slot, wr.wr_id, flags, t3::build_send(*slot, flags, in_line, 1, sge));
    if (wr.opcode == IBV_WR_RDMA_WRITE)
        return post_built(
            qp, slot, wr.wr_id, flags,
            t3::build_write(*slot, flags, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, in_line, 1, sge));
    return false;
}

} // namespace

int cxgb3_post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    Qp& qp = t3::core(ibqp);
    if (!qp.post_lock().try_lock()) [[unlikely]]
        return wait_and_post(qp, wr, bad_wr);
    if (!wr || qp.status()) [[unlikely]]
        return post_slow(qp, wr, bad_wr, false);
    const ibv_send_wr* const first = wr;
    do {
        if (!post_usual(qp, *wr)) [[unlikely]]
            return post_slow(qp, wr, bad_wr, wr != first);
        wr = wr->next;
    } while (wr);
    qp.ring_doorbell();
    qp.post_lock().unlock();
    return 0;
}

// Requests are counted before and after, which is right as long as one thread posts.
int cxgb3_post_send_counted(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    Qp& qp = t3::core(ibqp);
    const uint32_t before = qp.sq().tail_relaxed();
    const t3_wr_slot* const slot = qp.cursor().slot;
    const int error = cxgb3_post_send(ibqp, wr, bad_wr);
    t3::count(qp.counters()->post_send);
    t3::count(qp.counters()->send_requests, qp.sq().tail_relaxed() - before);
    t3::count(qp.counters()->doorbells, qp.cursor().slot != slot);
    return error;
}
