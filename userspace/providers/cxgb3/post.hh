// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Builds send-side requests of verbs in slots: for ibv_post_send() and for the builders of
// ibv_qp_ex. Inline, so that the compiler uses what is constant in a caller.
#pragma once

#include "userspace/providers/cxgb3/verbs_core.hh"

namespace t3 {

struct Built {
    int error = 0; // positive errno; then the other fields have no meaning
    uint32_t flits = 0;
    WorkOp op = WorkOp::send;
    uint32_t read_bytes = 0;
};

[[gnu::always_inline]] inline Built refuse(int error) {
    return {.error = error};
}

[[gnu::always_inline]] inline Built built(int flits, WorkOp op, uint32_t read_bytes = 0) {
    if (flits < 0) [[unlikely]]
        return refuse(EINVAL);
    return {.flits = static_cast<uint32_t>(flits), .op = op, .read_bytes = read_bytes};
}

[[gnu::always_inline]] inline t3_request request(bool in_line, uint32_t num_sge, const t3_host_sge* sge) {
    t3_request r{};
    r.is_inline = in_line;
    r.num_sge = num_sge;
    r.sge = sge;
    return r;
}

// One of two opcodes, without a branch.
[[gnu::always_inline]] inline uint8_t solicited(wr_flags flags, uint8_t without, uint8_t with) {
    return static_cast<uint8_t>(without +
                                (flags & IBV_SEND_SOLICITED) / IBV_SEND_SOLICITED * (with - without));
}

[[gnu::always_inline]] inline Built build_send(t3_wr_slot& slot, wr_flags flags, bool in_line,
                                               uint32_t num_sge, const t3_host_sge* sge) {
    t3_request r = request(in_line, num_sge, sge);
    r.rdma_op = solicited(flags, T3_RDMA_SEND, T3_RDMA_SEND_SE);
    slot.hdr.hi = header_of<T3_WR_OP_SEND, T3_WR_F_READ_FENCE>[flags];
    return built(t3_build_send(&slot.send, &r), WorkOp::send);
}

[[gnu::always_inline]] inline Built build_send_inv(t3_wr_slot& slot, wr_flags flags, uint32_t stag,
                                                   bool in_line, uint32_t num_sge, const t3_host_sge* sge) {
    t3_request r = request(in_line, num_sge, sge);
    r.rdma_op = solicited(flags, T3_RDMA_SEND_INV, T3_RDMA_SEND_SE_INV);
    r.inv_stag = stag;
    slot.hdr.hi = header_of<T3_WR_OP_SEND, T3_WR_F_READ_FENCE>[flags];
    return built(t3_build_send(&slot.send, &r), WorkOp::send);
}

[[gnu::always_inline]] inline Built build_write(t3_wr_slot& slot, wr_flags flags, uint32_t rkey,
                                                uint64_t remote_addr, bool in_line, uint32_t num_sge,
                                                const t3_host_sge* sge) {
    t3_request r = request(in_line, num_sge, sge);
    r.rkey = rkey;
    r.remote_addr = remote_addr;
    slot.hdr.hi = header_of<T3_WR_OP_WRITE, T3_WR_F_READ_FENCE>[flags];
    return built(t3_build_write(&slot.write, &r), WorkOp::write);
}

// A read always completes, and its flags must be 0 (firmware limit): so a fence has no
// effect on it. This does no harm, because a peer responds to reads in order.
[[gnu::always_inline]] inline Built build_read(t3_wr_slot& slot, uint32_t rkey, uint64_t remote_addr,
                                               bool in_line, uint32_t num_sge, const t3_host_sge* sge) {
    if (in_line) [[unlikely]]
        return refuse(EINVAL);
    t3_request r = request(false, num_sge, sge);
    r.rkey = rkey;
    r.remote_addr = remote_addr;
    const uint32_t bytes = num_sge ? sge->len : 0;
    slot.hdr.hi = t3_wr_hi(T3_WR_OP_READ, 0);
    return built(t3_build_read(&slot.read, &r), WorkOp::read, bytes);
}

[[gnu::always_inline]] inline Built build_local_inv(t3_wr_slot& slot, wr_flags flags, uint32_t stag) {
    t3_request r{};
    r.inv_stag = stag;
    slot.hdr.hi = header_of<T3_WR_OP_LOCAL_INV, T3_WR_F_LOCAL_FENCE>[flags];
    return built(t3_build_local_inv(&slot.local_inv, &r), WorkOp::local_inv);
}

// Any request, by its opcode at run time. key: of the peer's memory, or to be invalidated. iWARP has no
// immediate data and no atomics.
[[gnu::always_inline]] inline Built build_any(t3_wr_slot& slot, uint32_t opcode, wr_flags flags, uint32_t key,
                                              uint64_t remote_addr, bool in_line, uint32_t num_sge,
                                              const t3_host_sge* sge) {
    switch (opcode) {
    case IBV_WR_SEND:
        return build_send(slot, flags, in_line, num_sge, sge);
    case IBV_WR_SEND_WITH_INV:
        return build_send_inv(slot, flags, key, in_line, num_sge, sge);
    case IBV_WR_RDMA_WRITE:
        return build_write(slot, flags, key, remote_addr, in_line, num_sge, sge);
    case IBV_WR_RDMA_READ:
        return build_read(slot, key, remote_addr, in_line, num_sge, sge);
    case IBV_WR_LOCAL_INV:
        return build_local_inv(slot, flags, key);
    default:
        return refuse(EOPNOTSUPP);
    }
}

// What all requests have in common, once the body of the slot is built. The request is recorded before
// the card can see it, since it may complete at once.
[[gnu::always_inline]] inline void record(SendQueue& sq, uint32_t pos, t3_wr_slot* slot, uint64_t wr_id,
                                          wr_flags flags, const Built& built) {
    slot->send.id.hi = pos; // comes back with the completion; the other half is not used
    if (built.op == WorkOp::read)
        sq.record_read(pos, SendEntry::of_read(wr_id, built.read_bytes, flags & IBV_SEND_SIGNALED));
    else
        sq.record(pos, SendEntry::of(wr_id, built.op, static_cast<uint32_t>(flags)));
}
[[gnu::always_inline]] inline void record_and_publish(SendQueue& sq, uint32_t pos, const SlotCursor& at,
                                                      t3_wr_slot* slot, uint64_t wr_id, wr_flags flags,
                                                      const Built& built) {
    record(sq, pos, slot, wr_id, flags, built);
    sq.publish(pos + 1);
    at.publish(slot, built.flits);
}

// One request in any state of the queue and of the QP, built by build(slot). Returns a positive errno; then
// nothing has changed.
template <class Build>
int post_one(Qp& qp, const SlotCursor& at, uint64_t wr_id, wr_flags flags, Build build) {
    SendQueue& sq = qp.sq();
    const uint32_t pos = sq.tail_relaxed();
    if (sq.full(pos))
        return ENOMEM;
    const Built built = build(*at.slot);
    if (!built.error)
        record_and_publish(sq, pos, at, at.slot, wr_id, flags, built);
    return built.error;
}

// What ibv_bind_mw() and ibv_wr_bind_mw() post (bind_mw.cc). Binding to no bytes takes a window back: a bind
// for the program, an invalidate of `stag` for the card. Then `unbind` is set, and `bind` has no meaning.
struct BindRequest {
    int error = 0; // positive errno
    bool unbind = false;
    wr_flags flags = 0; // that such a request may have: the card has no fence for a bind
    uint32_t stag = 0;
    t3_bind bind{};
};
BindRequest check_bind(const ibv_mw& mw, uint32_t rkey, const ibv_mw_bind_info& info) noexcept;
inline Built build_bind(t3_wr_slot& slot, wr_flags flags, const BindRequest& request) {
    if (request.unbind) {
        Built built = build_local_inv(slot, flags, request.stag);
        built.op = WorkOp::bind_mw;
        return built;
    }
    slot.hdr.hi = header_of<T3_WR_OP_BIND_MW, 0>[flags];
    return built(t3_build_bind_mw(&slot.bind_mw, &request.bind), WorkOp::bind_mw);
}

} // namespace t3
