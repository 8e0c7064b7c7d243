// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_post_recv(): the whole way from a list of receives to the doorbell. As post_send.cc, into the same
// ring.
#include "userspace/providers/cxgb3/verbs_words.hh"

namespace {

using t3::Qp;
using t3::RecvQueue;
using t3::SlotCursor;

// False: the receive is malformed; nothing has changed.
[[gnu::always_inline]] inline bool post_one(RecvQueue& rq, uint32_t pos, const SlotCursor& at,
                                            t3_wr_slot* slot, uint64_t wr_id, uint32_t num_sge,
                                            const t3_host_sge* sge) {
    if (t3_build_recv(&slot->recv, sge, num_sge, nullptr) < 0) [[unlikely]]
        return false;
    slot->hdr.hi = t3_wr_hi(T3_WR_OP_RECV, T3_WR_F_COMPLETION);
    rq.push(pos, wr_id); // before the card can see it
    at.publish(slot, T3_RECV_FLITS);
    return true;
}

// The rest of a list, first to last until one is refused. Those before it are posted and rung for, *bad_wr
// names it, and the result is its positive errno. With the lock held; unlocks. `posted`: so was something of
// the list before.
[[gnu::noinline]] int post_rest(Qp& qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr, bool posted) noexcept {
    const uint64_t status = qp.status();
    const bool dead = qp.takes_no_work(status);
    RecvQueue& rq = qp.rq();
    int error = 0;
    for (; wr; wr = wr->next) {
        const uint32_t pos = rq.tail_relaxed();
        if (rq.full(pos)) {
            error = ENOMEM;
            break;
        }
        const SlotCursor at = dead ? qp.on_paper() : qp.cursor();
        if (!post_one(rq, pos, at, at.slot, wr->wr_id, static_cast<uint32_t>(wr->num_sge),
                      t3::host_sges(wr->sg_list))) {
            error = EINVAL;
            break;
        }
        if (!dead) {
            qp.step(at.slot);
            posted = true;
        }
    }
    if (error)
        *bad_wr = wr;
    if (posted)
        qp.ring_if_told(status);
    qp.post_lock().unlock_receive();
    return error;
}

// Another thread changes the ring, or a batch of sends is open, which does not hold receives up.
[[gnu::noinline]] int wait_and_post(Qp& qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    qp.post_lock().lock_receive();
    return post_rest(qp, wr, bad_wr, false);
}

bool is_usual(const ibv_recv_wr& wr) {
    return wr.num_sge == 1 && wr.sg_list->length != 0;
}

} // namespace

int cxgb3_post_recv(ibv_qp* ibqp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    Qp& qp = t3::core(ibqp);
    if (!qp.post_lock().try_lock()) [[unlikely]]
        return wait_and_post(qp, wr, bad_wr);
    if (qp.status()) [[unlikely]]
        return post_rest(qp, wr, bad_wr, false);
    RecvQueue& rq = qp.rq();
    uint32_t pos = rq.tail_relaxed();
    if (!wr || !is_usual(*wr) || rq.seems_full(pos)) [[unlikely]]
        return post_rest(qp, wr, bad_wr, false);
    for (;;) {
        const SlotCursor& at = qp.cursor();
        t3_wr_slot* const slot = at.slot;
        if (!post_one(rq, pos, at, slot, wr->wr_id, 1, t3::host_sges(wr->sg_list))) [[unlikely]]
            return post_rest(qp, wr, bad_wr, true);
        qp.step(slot);
        wr = wr->next;
        if (!wr)
            break;
        pos++;
        if (!is_usual(*wr) || rq.seems_full(pos)) [[unlikely]]
            return post_rest(qp, wr, bad_wr, true);
    }
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
