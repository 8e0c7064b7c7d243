// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_post_send(): the whole way from a list of requests to the doorbell.
//
// Per request: the body of a slot by the shared builders (include/hw/t3_wr_build.h), an entry in the send
// queue, then the two words that make the slot valid. Per call: one lock, one look at the QP's mailbox, one
// barrier, one doorbell. No division, no indirect call, no system call.
//
// post_one() posts a request of a usual kind: a send, write or read with one scatter/gather element, or
// inline. dispatch() chooses between its instances. Anything else, and whatever has to be refused, is left to
// post_rest(), with the rest of the list. The functions end in calling each other, and call nothing else, so
// that the usual way needs no stack.
#include "userspace/providers/cxgb3/post.hh"

#include <cstring>

namespace {

using t3::Built;
using t3::Qp;
using t3::SendQueue;
using t3::SlotCursor;
using t3::WorkOp;

Built build(t3_wr_slot& slot, const ibv_send_wr& wr, t3::wr_flags flags) {
    const bool invalidates = wr.opcode == IBV_WR_SEND_WITH_INV || wr.opcode == IBV_WR_LOCAL_INV;
    return t3::build_any(slot, wr.opcode, flags, invalidates ? wr.invalidate_rkey : wr.wr.rdma.rkey,
                         wr.wr.rdma.remote_addr, flags & IBV_SEND_INLINE, static_cast<uint32_t>(wr.num_sge),
                         t3::host_sges(wr.sg_list));
}

// The rest of a list, of any requests, first to last until one is refused. Those before it are posted and
// rung for, *bad_wr names it, and the result is its positive errno. With the lock held; unlocks. `posted`: so
// was something of the list before.
[[gnu::noinline]] int post_rest(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr, bool posted) noexcept {
    const uint64_t status = qp.status();
    const bool dead = qp.takes_no_work(status);
    SendQueue& sq = qp.sq();
    int error = 0;
    for (; wr; wr = wr->next) {
        const t3::wr_flags flags = (wr->send_flags & t3::known_flags) | qp.signal_all();
        const uint32_t pos = sq.tail_relaxed();
        if (sq.full(pos)) {
            error = ENOMEM;
            break;
        }
        const SlotCursor at = dead ? qp.on_paper() : qp.cursor();
        const Built built = build(*at.slot, *wr, flags);
        if (built.error) {
            error = built.error;
            break;
        }
        t3::finish(sq, pos, at, at.slot, wr->wr_id, flags, built);
        if (!dead) {
            qp.step(at.slot);
            posted = true;
        }
    }
    if (error)
        *bad_wr = wr;
    if (posted)
        qp.ring_if_told(status);
    qp.post_lock().unlock();
    return error;
}

[[gnu::noinline]] int wait_and_post(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    if (!qp.post_lock().lock_send()) {
        *bad_wr = wr;
        return EBUSY; // in the middle of a batch of the only thread, which ibv_wr_start(3) forbids
    }
    return post_rest(qp, wr, bad_wr, false);
}

int post_first(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept;
int post_next(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept;

// The queue is full, as far as the last look at the consumer's counter told.
[[gnu::noinline]] int look_for_room(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr, bool posted) noexcept {
    if (qp.sq().full(qp.sq().tail_relaxed()))
        return post_rest(qp, wr, bad_wr, posted);
    return posted ? post_next(qp, wr, bad_wr) : post_first(qp, wr, bad_wr);
}

bool is_inline(const ibv_send_wr& wr) {
    return wr.send_flags & IBV_SEND_INLINE;
}

// Number of elements and opcode, which lie side by side, in one word.
static_assert(offsetof(ibv_send_wr, opcode) == offsetof(ibv_send_wr, num_sge) + 4 &&
              offsetof(ibv_send_wr, num_sge) % 8 == 0);
[[gnu::always_inline]] inline uint64_t shape(const ibv_send_wr& wr) {
    uint64_t word;
    std::memcpy(&word, reinterpret_cast<const char*>(&wr) + offsetof(ibv_send_wr, num_sge), sizeof(word));
    return word;
}
constexpr uint64_t one_sge(ibv_wr_opcode op) {
    return t3_two_words(1, op);
}

template <ibv_wr_opcode Op, bool Inline, bool Posted>
[[gnu::noinline]] int post_one(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    SendQueue& sq = qp.sq();
    const t3_host_sge* const sge = t3::host_sges(wr->sg_list);
    t3::wr_flags flags = wr->send_flags | qp.signal_all();
    if constexpr (Op == IBV_WR_RDMA_READ) {
        // An unsignaled one is rare, and remembered in another way. Further on in a list, post_next() has
        // sorted out what is inline.
        const unsigned odd = Posted ? IBV_SEND_SIGNALED : IBV_SEND_SIGNALED | IBV_SEND_INLINE;
        if ((flags ^ IBV_SEND_SIGNALED) & odd) [[unlikely]]
            return post_rest(qp, wr, bad_wr, Posted);
        flags = IBV_SEND_SIGNALED;
    } else {
        flags &= t3::known_flags;
    }
    const uint32_t pos = sq.tail_relaxed();
    if (sq.seems_full(pos)) [[unlikely]]
        return look_for_room(qp, wr, bad_wr, Posted);
    const SlotCursor& at = qp.cursor();
    t3_wr_slot* const slot = at.slot;
    if (sge->len == 0) [[unlikely]]
        return post_rest(qp, wr, bad_wr, Posted);
    Built built;
    if constexpr (Op == IBV_WR_SEND)
        built = t3::build_send(*slot, flags, Inline, 1, sge);
    else if constexpr (Op == IBV_WR_RDMA_WRITE)
        built = t3::build_write(*slot, flags, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, Inline, 1, sge);
    else
        built = t3::build_read(*slot, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, Inline, 1, sge);
    if (built.error) [[unlikely]]
        return post_rest(qp, wr, bad_wr, Posted);
    t3::finish(sq, pos, at, slot, wr->wr_id, flags, built);
    qp.step(slot);
    if (wr->next)
        return post_next(qp, wr->next, bad_wr);
    qp.ring_doorbell();
    qp.post_lock().unlock();
    return 0;
}

// Which instance. The first request of a list is sorted with least work for the most usual, the others so
// that all kinds stay below their aims (bench/fastpath.py).
[[gnu::always_inline]] inline int dispatch_first(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
    const uint64_t what = shape(*wr);
    if (what == one_sge(IBV_WR_RDMA_WRITE))
        return is_inline(*wr) ? post_one<IBV_WR_RDMA_WRITE, true, false>(qp, wr, bad_wr)
                              : post_one<IBV_WR_RDMA_WRITE, false, false>(qp, wr, bad_wr);
    if (what == one_sge(IBV_WR_RDMA_READ))
        return post_one<IBV_WR_RDMA_READ, false, false>(qp, wr, bad_wr);
    if (what == one_sge(IBV_WR_SEND))
        return is_inline(*wr) ? post_one<IBV_WR_SEND, true, false>(qp, wr, bad_wr)
                              : post_one<IBV_WR_SEND, false, false>(qp, wr, bad_wr);
    return post_rest(qp, wr, bad_wr, false);
}

[[gnu::noinline]] int post_first(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    return dispatch_first(qp, wr, bad_wr);
}
[[gnu::noinline]] int post_next(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    const uint64_t what = shape(*wr);
    if (is_inline(*wr)) {
        if (what == one_sge(IBV_WR_SEND))
            return post_one<IBV_WR_SEND, true, true>(qp, wr, bad_wr);
        if (what == one_sge(IBV_WR_RDMA_WRITE))
            return post_one<IBV_WR_RDMA_WRITE, true, true>(qp, wr, bad_wr);
        return post_rest(qp, wr, bad_wr, true);
    }
    if (what == one_sge(IBV_WR_RDMA_READ))
        return post_one<IBV_WR_RDMA_READ, false, true>(qp, wr, bad_wr);
    if (what == one_sge(IBV_WR_RDMA_WRITE))
        return post_one<IBV_WR_RDMA_WRITE, false, true>(qp, wr, bad_wr);
    if (what == one_sge(IBV_WR_SEND))
        return post_one<IBV_WR_SEND, false, true>(qp, wr, bad_wr);
    return post_rest(qp, wr, bad_wr, true);
}

} // namespace

int cxgb3_post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    Qp& qp = t3::core(ibqp);
    if (!qp.post_lock().try_lock()) [[unlikely]]
        return wait_and_post(qp, wr, bad_wr);
    if (qp.status()) [[unlikely]]
        return post_rest(qp, wr, bad_wr, false);
    if (!wr) [[unlikely]]
        return post_rest(qp, wr, bad_wr, false);
    return dispatch_first(qp, wr, bad_wr);
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
