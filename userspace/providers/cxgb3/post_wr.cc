// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_wr_start() ... ibv_wr_complete(): requests that are made one call at a time and posted together, or not
// at all.
//
// ibv_wr_start() opens the QP's batch, which excludes other sends. A call like ibv_wr_send() opens a request,
// the setter after it gives the data and closes it: only then is its slot built, by the builders of
// ibv_post_send(), in the memory of the batch. ibv_wr_complete() copies the slots into the ring, with one
// barrier and one doorbell. The first error makes it post nothing, as ibv_wr_abort() does.
//
// An open batch has no place in the ring: see post_lock.hh.
#include "userspace/providers/cxgb3/post.hh"

#include "include/hw/t3_tpt.h"

#include <cstring>
#include <new>

namespace {

using t3::Batch;
using t3::BatchState;
using t3::BindRequest;
using t3::Built;
using t3::Qp;
using t3::SendQueue;

Qp& core(ibv_qp_ex* ex) {
    return t3::core(&ex->qp_base);
}

[[gnu::cold, gnu::noinline]] void fail(Batch& b, int error) {
    if (b.state != BatchState::failed)
        b.error = error;
    b.state = BatchState::failed;
}

// The request is built: on to the next.
[[gnu::always_inline]] inline void finish_request(Qp& qp, Batch& b, t3_wr_slot* slot, t3::wr_flags flags,
                                                  const Built& built) {
    if (built.error) [[unlikely]]
        return fail(b, built.error);
    const uint32_t pos = b.pos;
    slot->hdr.lo = t3_to_be32(built.flits);
    t3::record(qp.sq(), pos, slot, b.wr_id, flags, built);
    b.pos = pos + 1;
    b.slot = slot + 1;
    b.state = BatchState::ready;
}

// Gives the open request its data.
[[gnu::always_inline]] inline void set_data(Qp& qp, Batch& b, bool in_line, uint32_t num_sge,
                                            const t3_host_sge* sge) {
    if (b.state != BatchState::wants_data) [[unlikely]]
        return fail(b, EINVAL); // a setter without a request, or a second one
    t3_wr_slot* const slot = b.slot;
    const t3::wr_flags flags = b.flags;
    finish_request(qp, b, slot, flags,
                   t3::build_any(*slot, b.opcode, flags, b.key, b.remote_addr, in_line, num_sge, sge));
}

[[gnu::noinline]] void finish_without_data(Qp& qp, Batch& b) {
    set_data(qp, b, false, 0, nullptr);
}

// False: there is an error, and nothing is to be built any more.
bool can_begin(Qp& qp, Batch& b) {
    if (b.state == BatchState::wants_data)
        finish_without_data(qp, b);
    if (b.state != BatchState::ready)
        return false;
    if (qp.sq().full(b.pos)) {
        fail(b, ENOMEM);
        return false;
    }
    return true;
}

// Of a request that can begin.
[[gnu::always_inline]] inline void copy_header_fields(const Qp& qp, Batch& b, const ibv_qp_ex* ex) {
    b.wr_id = ex->wr_id;
    b.flags = (ex->wr_flags & (t3::known_flags & ~IBV_SEND_INLINE)) | qp.signal_all();
}

void begin_request_slow(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint32_t key, uint64_t remote_addr) noexcept;

[[gnu::always_inline]] inline void begin_request_now(ibv_qp_ex* ex, Qp& qp, Batch& b, ibv_wr_opcode opcode,
                                                     uint32_t key, uint64_t remote_addr) {
    copy_header_fields(qp, b, ex);
    b.opcode = opcode;
    b.key = key;
    b.remote_addr = remote_addr;
    b.state = BatchState::wants_data;
}

[[gnu::always_inline]] inline void begin_request(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint32_t key,
                                                 uint64_t remote_addr) {
    Qp& qp = core(ex);
    Batch& b = qp.batch();
    if (b.state != BatchState::ready || qp.sq().seems_full(b.pos)) [[unlikely]]
        return begin_request_slow(ex, opcode, key, remote_addr);
    begin_request_now(ex, qp, b, opcode, key, remote_addr);
}

// The request before it has no data, there was an error, or the queue is full as far as the last look at the
// consumer's counter shows.
[[gnu::noinline]] void begin_request_slow(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint32_t key,
                                          uint64_t remote_addr) noexcept {
    Qp& qp = core(ex);
    Batch& b = qp.batch();
    if (can_begin(qp, b))
        begin_request_now(ex, qp, b, opcode, key, remote_addr);
}

// ---- requests

void wr_send(ibv_qp_ex* ex) noexcept {
    begin_request(ex, IBV_WR_SEND, 0, 0);
}
void wr_send_inv(ibv_qp_ex* ex, uint32_t invalidate_rkey) noexcept {
    begin_request(ex, IBV_WR_SEND_WITH_INV, invalidate_rkey, 0);
}
void wr_rdma_write(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr) noexcept {
    begin_request(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}
void wr_rdma_read(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr) noexcept {
    begin_request(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}
void wr_local_inv(ibv_qp_ex* ex, uint32_t invalidate_rkey) noexcept {
    Qp& qp = core(ex);
    Batch& b = qp.batch();
    if (!can_begin(qp, b))
        return;
    copy_header_fields(qp, b, ex);
    finish_request(qp, b, b.slot, b.flags, t3::build_local_inv(*b.slot, b.flags, invalidate_rkey));
}
// A bind gives the window a new key, which is the window's from now on, also if the list is aborted. Without
// bytes the window is taken back by its present key.
void wr_bind_mw(ibv_qp_ex* ex, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) noexcept {
    Qp& qp = core(ex);
    Batch& b = qp.batch();
    if (!can_begin(qp, b))
        return;
    copy_header_fields(qp, b, ex);
    const BindRequest request = t3::check_bind(*mw, rkey, *info);
    if (request.error || (rkey == mw->rkey) != request.unbind ||
        (rkey ^ mw->rkey) >> T3_STAG_INDEX_SHIFT != 0)
        return fail(b, EINVAL);
    mw->rkey = rkey;
    b.flags &= request.flags;
    finish_request(qp, b, b.slot, b.flags, t3::build_bind(*b.slot, b.flags, request));
}

// What iWARP or this card does not support. A QP that requests it is not created; a call that is made all the
// same makes ibv_wr_complete() fail.
template <class... Arguments> void unsupported(ibv_qp_ex* ex, Arguments...) noexcept {
    fail(core(ex).batch(), EOPNOTSUPP);
}

// ---- data

void wr_set_sge(ibv_qp_ex* ex, uint32_t lkey, uint64_t addr, uint32_t length) noexcept {
    Qp& qp = core(ex);
    const t3_host_sge sge{addr, length, lkey};
    set_data(qp, qp.batch(), false, 1, &sge);
}
void wr_set_sge_list(ibv_qp_ex* ex, size_t num_sge, const ibv_sge* list) noexcept {
    Qp& qp = core(ex);
    if (num_sge > T3_MAX_SGE)
        return fail(qp.batch(), EINVAL);
    set_data(qp, qp.batch(), false, static_cast<uint32_t>(num_sge), t3::host_sges(list));
}
void wr_set_inline_data(ibv_qp_ex* ex, void* addr, size_t length) noexcept {
    Qp& qp = core(ex);
    if (length > T3_MAX_INLINE) [[unlikely]]
        return fail(qp.batch(), EINVAL);
    const t3_host_sge sge{reinterpret_cast<uintptr_t>(addr), static_cast<uint32_t>(length), 0};
    set_data(qp, qp.batch(), true, 1, &sge);
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
    set_data(qp, qp.batch(), true, 1, &sge);
}

// ---- from start to end

void wr_start(ibv_qp_ex* ex) noexcept {
    Qp& qp = core(ex);
    qp.post_lock().open_batch();
    Batch& b = qp.batch();
    b.slot = b.slots.get();
    b.pos = qp.sq().tail_relaxed();
    b.state = BatchState::ready;
}

void wr_abort(ibv_qp_ex* ex) noexcept {
    core(ex).post_lock().abort_batch();
}

[[gnu::always_inline]] inline void copy_two(t3_wr_slot& to, const t3_wr_slot& from, size_t flit) {
    std::memcpy(&to.flit[flit], &from.flit[flit], 16);
}

// Copies a request without its header: exactly its flits, two at a time, from the front and from the back.
// The pieces overlap, so that each has a size that the compiler can use.
[[gnu::always_inline]] inline void copy_body(t3_wr_slot& to, const t3_wr_slot& from, size_t flits) {
    constexpr uint32_t most = T3_WRITE_FLITS + T3_MAX_INLINE / 8;
    static_assert(most <= 13 && T3_LOCAL_INV_FLITS == 3);
    if (flits - 5 <= 4) [[likely]] { // 5 to 9
        copy_two(to, from, 1);
        copy_two(to, from, 3);
    } else if (flits > 9) {
        copy_two(to, from, 1);
        copy_two(to, from, 3);
        copy_two(to, from, 5);
        copy_two(to, from, 7);
    } else {
        copy_two(to, from, 1);
        copy_two(to, from, flits - 2);
        return;
    }
    copy_two(to, from, flits - 4);
    copy_two(to, from, flits - 2);
}

// Into the ring. With the lock held.
[[gnu::always_inline]] inline void copy_batch_to_ring(Qp& qp, const Batch& b) {
    t3::SlotCursor at = qp.cursor();
    const t3_wr_slot* from = b.slots.get();
    do {
        copy_body(*at.slot, *from, reinterpret_cast<const uint8_t*>(&from->hdr.lo)[3]);
        at.publish_with_header(at.slot, from->flit[0]);
        qp.step(at, at.slot);
    } while (++from != b.slot);
    qp.cursor() = at;
}

// The end of a batch of which nothing is posted.
[[gnu::cold, gnu::noinline]] int end_unposted(Qp& qp, const Batch& b) {
    const int error = b.state == BatchState::failed ? b.error : 0;
    qp.post_lock().abort_batch();
    return error;
}

// The requests are in the ring, or the QP is in error and they are only recorded, for polling to flush.
[[gnu::cold, gnu::noinline]] int end_without_doorbell(Qp& qp, uint64_t status) {
    qp.flag_error(status);
    if (!Qp::keeps_from_card(status))
        qp.ring_unless_db_off(status);
    qp.post_lock().close_batch();
    return 0;
}

[[gnu::always_inline]] inline int complete_batch(Qp& qp, Batch& b) {
    if (b.state == BatchState::failed || b.slot == b.slots.get()) [[unlikely]]
        return end_unposted(qp, b);
    qp.post_lock().lock_in_batch();
    const uint64_t status = qp.status();
    qp.sq().publish(b.pos); // before the card can see them
    if (status & Qp::no_work) [[unlikely]]
        return end_without_doorbell(qp, status);
    copy_batch_to_ring(qp, b);
    if (status) [[unlikely]]
        return end_without_doorbell(qp, status);
    qp.ring_doorbell();
    qp.post_lock().close_batch();
    return 0;
}

[[gnu::noinline]] int complete_batch_without_data(Qp& qp, Batch& b) {
    finish_without_data(qp, b);
    return complete_batch(qp, b);
}

int wr_complete(ibv_qp_ex* ex) noexcept {
    Qp& qp = core(ex);
    Batch& b = qp.batch();
    if (b.state == BatchState::wants_data) [[unlikely]]
        return complete_batch_without_data(qp, b);
    return complete_batch(qp, b);
}

int wr_complete_counted(ibv_qp_ex* ex) noexcept {
    Qp& qp = core(ex);
    const uint32_t before = qp.sq().tail_relaxed();
    const int error = wr_complete(ex);
    const uint32_t posted = qp.sq().tail_relaxed() - before;
    t3::count(qp.counters()->post_send);
    t3::count(qp.counters()->send_requests, posted);
    t3::count(qp.counters()->doorbells, posted && !(qp.status() & Qp::no_work));
    return error;
}

} // namespace

int cxgb3_set_builders(cxgb3_qp* qp, bool counted) noexcept {
    try {
        static_cast<Qp*>(qp->core)->alloc_batch_slots();
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
    ibv_qp_ex& ex = qp->vqp.qp_ex;
    ex.wr_atomic_cmp_swp = unsupported;
    ex.wr_atomic_fetch_add = unsupported;
    ex.wr_atomic_write = unsupported;
    ex.wr_bind_mw = wr_bind_mw;
    ex.wr_local_inv = wr_local_inv;
    ex.wr_rdma_read = wr_rdma_read;
    ex.wr_rdma_write = wr_rdma_write;
    ex.wr_rdma_write_imm = unsupported;
    ex.wr_send = wr_send;
    ex.wr_send_imm = unsupported;
    ex.wr_send_inv = wr_send_inv;
    ex.wr_send_tso = unsupported;
    ex.wr_set_ud_addr = unsupported;
    ex.wr_set_xrc_srqn = unsupported;
    ex.wr_set_inline_data = wr_set_inline_data;
    ex.wr_set_inline_data_list = wr_set_inline_data_list;
    ex.wr_set_sge = wr_set_sge;
    ex.wr_set_sge_list = wr_set_sge_list;
    ex.wr_start = wr_start;
    ex.wr_complete = counted ? wr_complete_counted : wr_complete;
    ex.wr_abort = wr_abort;
#if T3_RDMA_CORE >= 45
    ex.wr_flush = unsupported;
#endif
    qp->vqp.comp_mask |= VERBS_QP_EX; // ibv_qp_to_qp_ex() accepts it
    return 0;
}
