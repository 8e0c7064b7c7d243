// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// From an entry of the card, or a completion of the core, to an ibv_wc: what ibv_poll_cq() and
// ibv_next_poll() share.
#pragma once

#include "userspace/providers/cxgb3/verbs_core.hh"

#include <cstring>

namespace t3 {

static_assert(int{IBV_WC_SEND} == int(WorkOp::send) && int{IBV_WC_RDMA_WRITE} == int(WorkOp::write) &&
              int{IBV_WC_RDMA_READ} == int(WorkOp::read) && int{IBV_WC_BIND_MW} == int(WorkOp::bind_mw) &&
              int{IBV_WC_LOCAL_INV} == int(WorkOp::local_inv) && int{IBV_WC_RECV} == int(WorkOp::recv));
static_assert(T3_WC_SUCCESS == IBV_WC_SUCCESS && T3_WC_LOC_LEN_ERR == IBV_WC_LOC_LEN_ERR &&
              T3_WC_LOC_PROT_ERR == IBV_WC_LOC_PROT_ERR && T3_WC_WR_FLUSH_ERR == IBV_WC_WR_FLUSH_ERR &&
              T3_WC_MW_BIND_ERR == IBV_WC_MW_BIND_ERR && T3_WC_LOC_ACCESS_ERR == IBV_WC_LOC_ACCESS_ERR &&
              T3_WC_FATAL_ERR == IBV_WC_FATAL_ERR && T3_WC_GENERAL_ERR == IBV_WC_GENERAL_ERR);

// A work completion by pairs of words, each written in one store: the compiler does not find this by itself.
struct [[gnu::may_alias]] WcPairs {
    uint64_t wr_id, status_opcode, vendor_err_byte_len, rkey_qp_num, src_qp_flags, pkey_slid_sl;
};
static_assert(sizeof(WcPairs) == sizeof(ibv_wc) && offsetof(ibv_wc, status) == 8 &&
              offsetof(ibv_wc, opcode) == 12 && offsetof(ibv_wc, vendor_err) == 16 &&
              offsetof(ibv_wc, byte_len) == 20 && offsetof(ibv_wc, invalidated_rkey) == 24 &&
              offsetof(ibv_wc, qp_num) == 28 && offsetof(SendEntry, op) == offsetof(ibv_wc, opcode) &&
              offsetof(ibv_wc, src_qp) == 32 && offsetof(ibv_wc, wc_flags) == 36 &&
              offsetof(ibv_wc, pkey_index) == 40);

// What most completions have in common: no error, no key, no address of a peer.
[[gnu::always_inline]] inline void fill_common(ibv_wc& wc, uint32_t bytes, uint64_t no_rkey_and_qpid) {
    auto& pairs = reinterpret_cast<WcPairs&>(wc);
    pairs.vendor_err_byte_len = t3_two_words(0, bytes);
    pairs.rkey_qp_num = no_rkey_and_qpid;
    pairs.src_qp_flags = 0;
    pairs.pkey_slid_sl = 0;
}

inline void fill(ibv_wc& wc, const Completion& c) {
    wc.wr_id = c.wr_id;
    wc.status = static_cast<ibv_wc_status>(t3_status_to_wc(c.status));
    wc.opcode = static_cast<ibv_wc_opcode>(c.op);
    fill_common(wc, c.byte_len, t3_two_words(c.invalidated_stag, c.qpid));
    wc.vendor_err = c.status;
    wc.wc_flags = c.with_invalidate ? IBV_WC_WITH_INV : 0;
}

// One completion of a send, a receive or a read that is successful and in posting order. False: it is not;
// nothing has changed. The key selects kind and queue.
[[gnu::always_inline]] inline bool fast_take_send(SendQueue& sq, const t3_cqe& e, ibv_wc& wc) {
    const uint32_t pos = e.u.sq.wrid_hi, head = sq.head_relaxed();
    if (pos == head) [[likely]] {
        if (head == sq.tail()) [[unlikely]]
            return false;
    } else if (!sq.holds(pos) || sq.reads_outstanding()) { // unsignaled ones before it
        return false;
    }
    std::memcpy(&wc.wr_id, &sq.entry(pos), sizeof(SendEntry)); // wr_id, something, opcode
    wc.status = IBV_WC_SUCCESS;
    fill_common(wc, 0, sq.no_rkey_and_qpid());
    sq.complete(pos);
    return true;
}
[[gnu::always_inline]] inline bool fast_take_message(RecvQueue& rq, const t3_cqe& e, ibv_wc& wc) {
    const uint32_t head = rq.head_relaxed();
    if (!rq.holds(head) || t3_from_be32(e.u.rq.msn) != rq.msn(head)) [[unlikely]]
        return false;
    wc.wr_id = rq.wr_id(head);
    wc.status = IBV_WC_SUCCESS;
    wc.opcode = IBV_WC_RECV;
    fill_common(wc, t3_from_be32(e.len), rq.no_rkey_and_qpid());
    rq.complete(head);
    return true;
}
[[gnu::always_inline]] inline bool fast_take_read(SendQueue& sq, const t3_cqe& e, ibv_wc& wc) {
    const uint32_t pos = sq.head_relaxed();
    if (e.u.rq.stag == t3_to_be32(T3_RTR_STAG) || pos == sq.tail() || !sq.in_order()) [[unlikely]]
        return false;
    const SendEntry& sent = sq.entry(pos);
    if (sent.op != IBV_WC_RDMA_READ) [[unlikely]] // a send before it, or an unsignaled read
        return false;
    const uint32_t bytes = sent.more;
    std::memcpy(&wc.wr_id, &sent, sizeof(SendEntry));
    wc.status = IBV_WC_SUCCESS;
    fill_common(wc, bytes, sq.no_rkey_and_qpid());
    sq.complete(pos);
    return true;
}

[[gnu::always_inline]] inline bool fast_take(Cq& cq, const t3_cqe& e, ibv_wc& wc) {
    const uint32_t key = static_cast<uint32_t>(__atomic_load_n(&e.header, __ATOMIC_RELAXED)) & t3::key_mask;
    if (key == cq.last_send.key)
        return fast_take_send(*cq.last_send.queue, e, wc);
    if (key == cq.last_message.key)
        return fast_take_message(*cq.last_message.queue, e, wc);
    if (key == cq.last_read.key)
        return fast_take_read(*cq.last_read.queue, e, wc);
    return false;
}

// Up to n completions of any kind, with the lock held (poll_cq.cc).
int poll_slow(Cq& cq, int n, ibv_wc* wc) noexcept;

} // namespace t3
