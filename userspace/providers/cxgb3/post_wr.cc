// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_wr_start() ... ibv_wr_complete(): requests that are made one call at a time and posted together, or not
// at all.
//
// ibv_wr_start() takes the QP's lock. A call like ibv_wr_send() opens a request, the setter behind it gives
// the data and closes it: only then is its slot built, by the builders of ibv_post_send(). Slots keep a
// generation that the card takes for unused until ibv_wr_complete() shows them all, with one barrier and one
// doorbell. The first error makes it post nothing, as ibv_wr_abort() does: the QP's own cursor has not moved.
//
// Sends and receives share the ring and the lock: ibv_post_recv() for the same QP has to wait for
// ibv_wr_complete().
#include "userspace/providers/cxgb3/post.hh"

#include <cstring>

namespace {

using t3::Batch;
using t3::BindRequest;
using t3::Built;
using t3::Qp;
using t3::SendQueue;

Qp& core(ibv_qp_ex* ex) {
    return t3::core(&ex->qp_base);
}

[[gnu::cold, gnu::noinline]] void fail(Batch& b, int error) {
    if (!b.error)
        b.error = error;
    b.open = false;
}

// The request is built: on to the next.
[[gnu::always_inline]] inline void accept(Qp& qp, Batch& b, const Built& built) {
    t3_wr_slot* const slot = b.at.slot;
    if (built.error) [[unlikely]]
        return fail(b, built.error);
    t3::record(qp.sq(), b.pos, slot, b.wr_id, b.flags, built);
    b.at.prepare(built.flits);
    b.pos++;
    b.open = false;
    if (!b.dead) [[likely]]
        qp.step(b.at, slot);
}

// Gives the open request its data.
[[gnu::always_inline]] inline void close(Qp& qp, Batch& b, bool in_line, uint32_t num_sge,
                                         const t3_host_sge* sge) {
    if (!b.open) [[unlikely]]
        return fail(b, EINVAL); // a setter without a request, or a second one
    accept(qp, b, t3::build_any(*b.at.slot, b.opcode, b.flags, b.key, b.remote_addr, in_line, num_sge, sge));
}

[[gnu::noinline]] void close_without_data(Qp& qp, Batch& b) {
    close(qp, b, false, 0, nullptr);
}

// False: there is an error, and nothing is to be built any more.
[[gnu::always_inline]] inline bool begin(Qp& qp, Batch& b, const ibv_qp_ex* ex) {
    if (b.open) [[unlikely]]
        close_without_data(qp, b);
    if (b.error) [[unlikely]]
        return false;
    if (qp.sq().seems_full(b.pos)) [[unlikely]] {
        if (qp.sq().full(b.pos))
            return fail(b, ENOMEM), false;
    }
    b.wr_id = ex->wr_id;
    b.flags = (ex->wr_flags & (t3::known_flags & ~IBV_SEND_INLINE)) | qp.signal_all();
    return true;
}

[[gnu::always_inline]] inline void open(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint32_t key,
                                        uint64_t remote_addr) {
    Qp& qp = core(ex);
    Batch& b = qp.batch();
    if (!begin(qp, b, ex)) [[unlikely]]
        return;
    b.opcode = opcode;
    b.key = key;
    b.remote_addr = remote_addr;
    b.open = true;
}

// ---- requests

void wr_send(ibv_qp_ex* ex) noexcept {
    open(ex, IBV_WR_SEND, 0, 0);
}
void wr_send_inv(ibv_qp_ex* ex, uint32_t invalidate_rkey) noexcept {
    open(ex, IBV_WR_SEND_WITH_INV, invalidate_rkey, 0);
}
void wr_rdma_write(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr) noexcept {
    open(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}
void wr_rdma_read(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr) noexcept {
    open(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}
void wr_local_inv(ibv_qp_ex* ex, uint32_t invalidate_rkey) noexcept {
    Qp& qp = core(ex);
    Batch& b = qp.batch();
    if (begin(qp, b, ex))
        accept(qp, b, t3::build_local_inv(*b.at.slot, b.flags, invalidate_rkey));
}
// Windows of type 1 keep their key, so the new one must be the old one.
void wr_bind_mw(ibv_qp_ex* ex, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) noexcept {
    Qp& qp = core(ex);
    Batch& b = qp.batch();
    if (!begin(qp, b, ex))
        return;
    const BindRequest request = t3::check_bind(*mw, *info);
    if (request.error || rkey != mw->rkey)
        return fail(b, EINVAL);
    if (request.unbind)
        return accept(qp, b, t3::build_local_inv(*b.at.slot, b.flags, mw->rkey));
    b.flags &= IBV_SEND_SIGNALED; // the card knows no fence here
    accept(qp, b, t3::build_bind(*b.at.slot, b.flags, request.bind));
}

// What iWARP, or this card, has not. A QP that asks for it is not created; who calls it all the same learns
// it from ibv_wr_complete().
template <class... Arguments> void not_here(ibv_qp_ex* ex, Arguments...) noexcept {
    fail(core(ex).batch(), EOPNOTSUPP);
}

// ---- data

void wr_set_sge(ibv_qp_ex* ex, uint32_t lkey, uint64_t addr, uint32_t length) noexcept {
    Qp& qp = core(ex);
    const t3_host_sge sge{addr, length, lkey};
    close(qp, qp.batch(), false, 1, &sge);
}
void wr_set_sge_list(ibv_qp_ex* ex, size_t num_sge, const ibv_sge* list) noexcept {
    Qp& qp = core(ex);
    if (num_sge > T3_MAX_SGE)
        return fail(qp.batch(), EINVAL);
    close(qp, qp.batch(), false, static_cast<uint32_t>(num_sge), t3::host_sges(list));
}
void wr_set_inline_data(ibv_qp_ex* ex, void* addr, size_t length) noexcept {
    Qp& qp = core(ex);
    if (length > T3_MAX_INLINE) [[unlikely]]
        return fail(qp.batch(), EINVAL);
    const t3_host_sge sge{reinterpret_cast<uintptr_t>(addr), static_cast<uint32_t>(length), 0};
    close(qp, qp.batch(), true, 1, &sge);
}
// There may be more pieces than a request has elements: they become one.
void wr_set_inline_data_list(ibv_qp_ex* ex, size_t num_buf, const ibv_data_buf* list) noexcept {
    Qp& qp = core(ex);
    uint8_t bytes[T3_MAX_INLINE];
    size_t length = 0;
    for (size_t i = 0; i < num_buf; i++) {
        if (list[i].length > sizeof(bytes) - length)
            return fail(qp.batch(), EINVAL);
        if (list[i].length)
            std::memcpy(bytes + length, list[i].addr, list[i].length);
        length += list[i].length;
    }
    const t3_host_sge sge{reinterpret_cast<uintptr_t>(bytes), static_cast<uint32_t>(length), 0};
    close(qp, qp.batch(), true, 1, &sge);
}

// ---- from start to end

void wr_start(ibv_qp_ex* ex) noexcept {
    Qp& qp = core(ex);
    qp.lock();
    Batch& b = qp.batch();
    b.pos = qp.sq().tail_relaxed();
    b.error = 0;
    b.open = false;
    b.dead = qp.status() & T3_QP_STATUS_ERROR;
    if (b.dead) [[unlikely]] {
        qp.notice_error();
        b.at = qp.on_paper();
    } else {
        b.at = qp.cursor();
    }
}

void wr_abort(ibv_qp_ex* ex) noexcept {
    core(ex).unlock();
}

int wr_complete(ibv_qp_ex* ex) noexcept {
    Qp& qp = core(ex);
    Batch& b = qp.batch();
    if (b.open) [[unlikely]]
        close_without_data(qp, b);
    const int error = b.error;
    if (!error) [[likely]] {
        qp.sq().publish(b.pos);
        t3::SlotCursor& at = qp.cursor();
        if (!b.dead && at.slot != b.at.slot) [[likely]] {
            do {
                at.show();
                qp.step(at.slot);
            } while (at.slot != b.at.slot);
            const uint64_t status = qp.status();
            if (status) [[unlikely]]
                qp.ring_if_told(status);
            else
                qp.ring_doorbell();
        }
    }
    qp.unlock();
    return error;
}

int wr_complete_counted(ibv_qp_ex* ex) noexcept {
    Qp& qp = core(ex);
    const uint32_t before = qp.sq().tail_relaxed();
    const t3_wr_slot* const slot = qp.cursor().slot;
    const int error = wr_complete(ex);
    t3::count(qp.counters()->post_send);
    t3::count(qp.counters()->send_requests, qp.sq().tail_relaxed() - before);
    t3::count(qp.counters()->doorbells, qp.cursor().slot != slot);
    return error;
}

} // namespace

void cxgb3_set_builders(cxgb3_qp* qp, bool counted) noexcept {
    ibv_qp_ex& ex = qp->vqp.qp_ex;
    ex.wr_atomic_cmp_swp = not_here;
    ex.wr_atomic_fetch_add = not_here;
    ex.wr_atomic_write = not_here;
    ex.wr_bind_mw = wr_bind_mw;
    ex.wr_local_inv = wr_local_inv;
    ex.wr_rdma_read = wr_rdma_read;
    ex.wr_rdma_write = wr_rdma_write;
    ex.wr_rdma_write_imm = not_here;
    ex.wr_send = wr_send;
    ex.wr_send_imm = not_here;
    ex.wr_send_inv = wr_send_inv;
    ex.wr_send_tso = not_here;
    ex.wr_set_ud_addr = not_here;
    ex.wr_set_xrc_srqn = not_here;
    ex.wr_set_inline_data = wr_set_inline_data;
    ex.wr_set_inline_data_list = wr_set_inline_data_list;
    ex.wr_set_sge = wr_set_sge;
    ex.wr_set_sge_list = wr_set_sge_list;
    ex.wr_start = wr_start;
    ex.wr_complete = counted ? wr_complete_counted : wr_complete;
    ex.wr_abort = wr_abort;
#if T3_RDMA_CORE >= 45
    ex.wr_flush = not_here;
#endif
    qp->vqp.comp_mask |= VERBS_QP_EX; // ibv_qp_to_qp_ex() may say so
}
