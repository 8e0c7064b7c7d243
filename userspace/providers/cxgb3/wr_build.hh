// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Work requests as the card wants them, built where they will be fetched. A builder fills the body of a slot
// (flits 1 to 14); the slot stays invalid until publish() has written its two generation bits.
//
// Builders check everything that the card would punish with the loss of the connection, and return a positive
// errno before the slot becomes visible.
#pragma once

#include "include/hw/t3_wr.h"
#include "userspace/common/barrier.hh"
#include "userspace/common/be.hh"
#include "userspace/common/field.hh"
#include "userspace/providers/cxgb3/types.hh"

#include <bit>
#include <cerrno>
#include <cstring>

namespace t3::wr {

using common::to_be;
using Slot = union t3_wr_slot;

static_assert(sizeof(Slot) == T3_WR_SLOT_BYTES);

// STag of a request that moves no data. The peer does not check it, but 0 makes it terminate the
// connection, and 1 is the mark of the kernel's own "ready to receive" read.
inline constexpr uint32_t no_data_stag = 2;

// Word 0 of the header without flags: everything in it is known at compile time.
template <uint32_t Opcode>
inline constexpr uint32_t header_hi = common::field_prep<T3_WR_OPCODE>(Opcode) | T3_WR_SOP | T3_WR_EOP;

struct Header {
    uint32_t hi;
    uint32_t flits;
};

template <uint32_t Opcode> constexpr Header header(uint32_t flags, uint32_t flits) {
    return {header_hi<Opcode> | common::field_prep<T3_WR_FLAGS>(flags), flits};
}

// Makes a slot ready for the card: the body and the first half of flit 0, a barrier, then both generations.
inline void publish(Slot& slot, Header h, bool generation) {
    slot.hdr.hi = to_be(h.hi);
    common::dma_publish_barrier();
    const uint32_t lo = common::field_prep<T3_WR_GEN>(generation) | h.flits;
    __atomic_store_n(&slot.hdr.lo, to_be(lo), __ATOMIC_RELEASE);
    __atomic_store_n(&slot.flit[T3_WR_GEN2_FLIT], to_be<uint64_t>(generation), __ATOMIC_RELEASE);
}

// A list in the card's format. Entries without bytes are left out: their STag would be checked for nothing.
struct Gathered {
    int error;
    uint32_t bytes;
    uint32_t entries;
};

inline Gathered put_sges(t3_sge* out, std::span<const Sge> sg) {
    if (sg.size() > T3_MAX_SGE) [[unlikely]]
        return {EINVAL, 0, 0};
    uint64_t bytes = 0;
    uint32_t entries = 0;
    for (const Sge& s : sg) {
        if (s.length == 0)
            continue;
        out[entries].stag = to_be(s.lkey);
        out[entries].len = to_be(s.length);
        out[entries].to = to_be(s.addr);
        bytes += s.length;
        entries++;
    }
    if (bytes > UINT32_MAX) [[unlikely]]
        return {EINVAL, 0, 0};
    return {0, static_cast<uint32_t>(bytes), entries};
}

inline Gathered put_inline(uint8_t* out, std::span<const Sge> sg) {
    if (sg.size() > T3_MAX_SGE) [[unlikely]]
        return {EINVAL, 0, 0};
    uint32_t bytes = 0;
    for (const Sge& s : sg) {
        if (s.length > T3_MAX_INLINE - bytes) [[unlikely]] // a sum could wrap
            return {EINVAL, 0, 0};
        if (s.length)
            std::memcpy(out + bytes, reinterpret_cast<const void*>(s.addr), s.length);
        bytes += s.length;
    }
    return {0, bytes, 0};
}

constexpr uint32_t inline_flits(uint32_t bytes) {
    return (bytes + 7) / 8;
}

// Flags that every send-side request but READ carries.
constexpr uint32_t common_flags(bool signaled, bool solicited, bool fence) {
    return (signaled ? T3_WR_F_COMPLETION : 0u) | (solicited ? T3_WR_F_SOLICITED : 0u) |
           (fence ? T3_WR_F_READ_FENCE : 0u);
}

inline int build_send(Slot& slot, const SendRequest& r, Header& h) {
    auto& w = slot.send;
    const bool inv = r.op == SendOp::send_inv;
    const Gathered data =
        r.inline_data ? put_inline(reinterpret_cast<uint8_t*>(&w.sge), r.sg) : put_sges(w.sge, r.sg);
    if (data.error) [[unlikely]]
        return data.error;
    w.rdma_op =
        r.solicited ? (inv ? T3_RDMA_SEND_SE_INV : T3_RDMA_SEND_SE) : (inv ? T3_RDMA_SEND_INV : T3_RDMA_SEND);
    w.rsvd[0] = w.rsvd[1] = w.rsvd[2] = 0;
    w.inv_stag = to_be(inv ? r.inv_stag : 0u);
    w.plen = to_be(data.bytes);
    w.num_sge = to_be(data.entries);
    h = header<T3_WR_OP_SEND>(common_flags(r.signaled, r.solicited, r.fence),
                              4 + (r.inline_data ? inline_flits(data.bytes) : 2 * data.entries));
    return 0;
}

inline int build_write(Slot& slot, const SendRequest& r, Header& h) {
    auto& w = slot.write;
    const Gathered data =
        r.inline_data ? put_inline(reinterpret_cast<uint8_t*>(&w.sge), r.sg) : put_sges(w.sge, r.sg);
    if (data.error) [[unlikely]]
        return data.error;
    w.rdma_op = T3_RDMA_WRITE;
    w.rsvd[0] = w.rsvd[1] = w.rsvd[2] = 0;
    w.sink_stag = to_be(data.bytes || r.remote_stag ? r.remote_stag : no_data_stag);
    w.sink_to = to_be(r.remote_addr);
    w.plen = to_be(data.bytes);
    w.num_sge = to_be(data.entries);
    h = header<T3_WR_OP_WRITE>(common_flags(r.signaled, r.solicited, r.fence),
                               5 + (r.inline_data ? inline_flits(data.bytes) : 2 * data.entries));
    return 0;
}

// A read always completes, and its flags must be 0 (firmware limit): fences are lost on it, which does no
// harm because a peer answers reads in order.
inline int build_read(Slot& slot, const SendRequest& r, Header& h) {
    if (r.sg.size() > T3_MAX_READ_SGE || r.inline_data) [[unlikely]]
        return EINVAL;
    const uint32_t bytes = r.sg.empty() ? 0 : r.sg[0].length;
    auto& w = slot.read;
    w.rdma_op = T3_RDMA_READ_REQ;
    w.local_inv = 0;
    w.rsvd[0] = w.rsvd[1] = 0;
    w.rem_stag = to_be(bytes ? r.remote_stag : no_data_stag);
    w.rem_to = to_be(bytes ? r.remote_addr : 0);
    w.local_stag = to_be(bytes ? r.sg[0].lkey : no_data_stag);
    w.local_len = to_be(bytes);
    w.local_to = to_be(bytes ? r.sg[0].addr : 0);
    h = header<T3_WR_OP_READ>(0, 6);
    return 0;
}

inline int build_local_inv(Slot& slot, const SendRequest& r, Header& h) {
    slot.local_inv.stag = to_be(r.inv_stag);
    slot.local_inv.rsvd = 0;
    const uint32_t flags =
        common_flags(r.signaled, r.solicited, false) | (r.fence ? T3_WR_F_LOCAL_FENCE : 0u);
    h = header<T3_WR_OP_LOCAL_INV>(flags, 3);
    return 0;
}

inline void build_bind_mw(Slot& slot, const BindRequest& r, bool signaled, Header& h) {
    auto& w = slot.bind_mw;
    std::memset(&w.rsvd0, 0, sizeof(w) - offsetof(t3_wr_bind_mw, rsvd0));
    w.type = 1; // addressed by VA
    w.perms = r.perms;
    w.mr_stag = to_be(r.mr_stag);
    w.mw_stag = to_be(r.mw_stag);
    w.mw_len = to_be(r.length);
    w.mw_va = to_be(r.addr);
    w.mr_pbl_addr = to_be(r.pbl_index);
    w.mr_pagesz = r.page_code;
    h = header<T3_WR_OP_BIND_MW>(common_flags(signaled, false, false), 6);
}

// Form A of a receive: full virtual addresses, page sizes and PBL addresses 0. Unused entries must be 0 too,
// since a receive is always 13 flits long.
inline int build_recv(Slot& slot, const RecvRequest& r, Header& h) {
    auto& w = slot.recv;
    std::memset(&w.pagesz, 0, sizeof(w) - offsetof(t3_wr_recv, pagesz));
    const Gathered data = put_sges(w.sge, r.sg);
    if (data.error) [[unlikely]]
        return data.error;
    w.num_sge = to_be(data.entries);
    h = header<T3_WR_OP_RECV>(T3_WR_F_COMPLETION, 13);
    return 0;
}

} // namespace t3::wr
