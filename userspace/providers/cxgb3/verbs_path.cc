// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The data path in the words of verbs: ibv_send_wr and ibv_recv_wr in, ibv_wc out. Only public types of
// libibverbs and none of its functions.
#include "userspace/providers/cxgb3/border.h"
#include "userspace/providers/cxgb3/cq.hh"
#include "userspace/providers/cxgb3/qp.hh"

#include "include/hw/t3_tpt.h"

#include <array>
#include <cerrno>
#include <new>

namespace {

using t3::Completion;
using t3::SendOp;
using t3::WorkOp;

static_assert(sizeof(t3::Sge) == sizeof(ibv_sge) && offsetof(t3::Sge, addr) == offsetof(ibv_sge, addr) &&
              offsetof(t3::Sge, length) == offsetof(ibv_sge, length) &&
              offsetof(t3::Sge, lkey) == offsetof(ibv_sge, lkey));

t3::Qp& core(ibv_qp* qp) {
    return *static_cast<t3::Qp*>(reinterpret_cast<cxgb3_qp*>(qp)->core);
}
t3::Cq& core(ibv_cq* cq) {
    return *static_cast<t3::Cq*>(reinterpret_cast<cxgb3_cq*>(cq)->core);
}

std::span<const t3::Sge> sge_span(const ibv_sge* list, int n) {
    return {reinterpret_cast<const t3::Sge*>(list), static_cast<size_t>(n)};
}

// 0, or why the card cannot do it. iWARP has no immediate data and no atomics; an old driver that sent
// immediate data wrote four bytes over the peer's memory instead.
int translate(const ibv_send_wr& wr, t3::SendRequest& r) {
    switch (wr.opcode) {
    case IBV_WR_SEND:
        r.op = SendOp::send;
        break;
    case IBV_WR_SEND_WITH_INV:
        r.op = SendOp::send_inv;
        r.inv_stag = wr.invalidate_rkey;
        break;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
        r.op = wr.opcode == IBV_WR_RDMA_READ ? SendOp::read : SendOp::write;
        r.remote_addr = wr.wr.rdma.remote_addr;
        r.remote_stag = wr.wr.rdma.rkey;
        break;
    case IBV_WR_LOCAL_INV:
        r.op = SendOp::local_inv;
        r.inv_stag = wr.invalidate_rkey;
        break;
    default:
        return EOPNOTSUPP;
    }
    r.wr_id = wr.wr_id;
    r.signaled = wr.send_flags & IBV_SEND_SIGNALED;
    r.solicited = wr.send_flags & IBV_SEND_SOLICITED;
    r.fence = wr.send_flags & IBV_SEND_FENCE;
    r.inline_data = wr.send_flags & IBV_SEND_INLINE;
    r.sg = sge_span(wr.sg_list, wr.num_sge);
    return 0;
}

// What the old kernel driver and library both made of the card's status. Codes without a line of their own
// are protocol errors.
constexpr auto wc_status = [] {
    std::array<ibv_wc_status, 32> t{};
    t.fill(IBV_WC_FATAL_ERR);
    t[T3_STATUS_SUCCESS] = IBV_WC_SUCCESS;
    t[T3_STATUS_STAG] = IBV_WC_LOC_ACCESS_ERR;
    t[T3_STATUS_PDID] = IBV_WC_LOC_PROT_ERR;
    t[T3_STATUS_QPID] = IBV_WC_LOC_ACCESS_ERR;
    t[T3_STATUS_ACCESS] = IBV_WC_LOC_ACCESS_ERR;
    t[T3_STATUS_WRAP] = IBV_WC_GENERAL_ERR;
    t[T3_STATUS_BOUND] = IBV_WC_LOC_LEN_ERR;
    t[T3_STATUS_INV_SHARED_MR] = IBV_WC_MW_BIND_ERR;
    t[T3_STATUS_INV_BOUND_MR] = IBV_WC_MW_BIND_ERR;
    t[T3_STATUS_FLUSH] = IBV_WC_WR_FLUSH_ERR;
    return t;
}();

// Indexed by WorkOp.
constexpr std::array wc_opcode = {IBV_WC_SEND,      IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,
                                  IBV_WC_LOCAL_INV, IBV_WC_BIND_MW,    IBV_WC_RECV};
static_assert(wc_opcode.size() == static_cast<size_t>(WorkOp::recv) + 1);

void fill(ibv_wc& wc, const Completion& c) {
    wc.wr_id = c.wr_id;
    wc.status = wc_status[c.status];
    wc.opcode = wc_opcode[static_cast<size_t>(c.op)];
    wc.vendor_err = c.status;
    wc.byte_len = c.byte_len;
    wc.invalidated_rkey = c.invalidated_stag;
    wc.qp_num = c.qpid;
    wc.src_qp = 0;
    wc.wc_flags = c.with_invalidate ? IBV_WC_WITH_INV : 0;
    wc.pkey_index = 0;
    wc.slid = 0;
    wc.sl = 0;
    wc.dlid_path_bits = 0;
}

// Runs what may throw bad_alloc; nothing else does.
template <class F> int guarded(F&& f) {
    try {
        f();
        return 0;
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}

} // namespace

int cxgb3_post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    t3::Qp& qp = core(ibqp);
    return qp.post_list(wr, bad_wr, [&](const ibv_send_wr& w) {
        t3::SendRequest r;
        if (const int error = translate(w, r)) [[unlikely]]
            return error;
        return qp.post_send(r);
    });
}

int cxgb3_post_recv(ibv_qp* ibqp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    t3::Qp& qp = core(ibqp);
    return qp.post_list(wr, bad_wr, [&](const ibv_recv_wr& w) {
        return qp.post_recv({.wr_id = w.wr_id, .sg = sge_span(w.sg_list, w.num_sge)});
    });
}

int cxgb3_poll_cq(ibv_cq* cq, int num_entries, ibv_wc* wc) noexcept {
    return core(cq).poll(num_entries, [wc](int i, const Completion& c) { fill(wc[i], c); });
}

// A window of type 1. Binding to no bytes takes it back, which for the card is an invalidate.
int cxgb3_bind_mw(ibv_qp* ibqp, ibv_mw* mw, ibv_mw_bind* bind) noexcept {
    t3::Qp& qp = core(ibqp);
    const ibv_mw_bind_info& info = bind->bind_info;
    const bool signaled = bind->send_flags & IBV_SEND_SIGNALED;
    if (mw->type != IBV_MW_TYPE_1 ||
        (info.mw_access_flags & ~(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)))
        return EINVAL;
    if (info.length == 0) {
        ibv_send_wr wr{}, *bad;
        wr.wr_id = bind->wr_id;
        wr.opcode = IBV_WR_LOCAL_INV;
        wr.send_flags = bind->send_flags & (IBV_SEND_SIGNALED | IBV_SEND_FENCE);
        wr.invalidate_rkey = mw->rkey;
        return cxgb3_post_send(ibqp, &wr, &bad);
    }
    if (!info.mr || info.mr->pd != mw->pd)
        return EINVAL;
    const auto* mr = reinterpret_cast<const cxgb3_mr*>(info.mr);
    const uint64_t offset = info.addr - mr->hca_va;
    if (info.length > UINT32_MAX || info.addr < mr->hca_va || offset > info.mr->length ||
        info.length > info.mr->length - offset)
        return EINVAL;
    const unsigned shift = T3_PAGE_CODE_SHIFT + mr->page_code;
    const uint64_t in_first_page = mr->hca_va & ((uint64_t{1} << shift) - 1);
    return qp.bind_mw({.wr_id = bind->wr_id,
                       .signaled = signaled,
                       .mr_stag = info.mr->lkey,
                       .mw_stag = mw->rkey,
                       .addr = info.addr,
                       .length = static_cast<uint32_t>(info.length),
                       .perms = static_cast<uint8_t>(
                           (info.mw_access_flags & IBV_ACCESS_REMOTE_READ ? T3_PERM_REMOTE_READ : 0) |
                           (info.mw_access_flags & IBV_ACCESS_REMOTE_WRITE ? T3_PERM_REMOTE_WRITE : 0)),
                       .pbl_index = static_cast<uint32_t>(mr->pbl_addr + ((offset + in_first_page) >> shift)),
                       .page_code = mr->page_code});
}

int cxgb3_core_create_cq(cxgb3_cq* cq, bool threads) noexcept {
    return guarded([&] { cq->core = new t3::Cq(threads); });
}

uint64_t cxgb3_core_cq_counter(const cxgb3_cq* cq) noexcept {
    return reinterpret_cast<uintptr_t>(static_cast<const t3::Cq*>(cq->core)->consumer_counter());
}

void cxgb3_core_cq_use_ring(cxgb3_cq* cq, const t3_create_cq_resp* resp) noexcept {
    static_cast<t3::Cq*>(cq->core)->use_ring(cq->ring, resp->size_log2);
}

void cxgb3_core_destroy_cq(cxgb3_cq* cq) noexcept {
    delete static_cast<t3::Cq*>(cq->core);
}

int cxgb3_core_create_qp(cxgb3_qp* qp, const t3_create_qp_resp* resp, bool signal_all,
                         bool threads) noexcept {
    return guarded([&] {
        qp->core = new t3::Qp({.qpid = resp->qpid,
                               .size_log2 = resp->size_log2,
                               .sq_size_log2 = resp->sq_size_log2,
                               .rq_size_log2 = resp->rq_size_log2,
                               .ring = qp->ring,
                               .doorbell = qp->doorbell,
                               .signal_all = signal_all,
                               .threads = threads},
                              core(qp->vqp.qp.send_cq), core(qp->vqp.qp.recv_cq));
    });
}

void cxgb3_core_destroy_qp(cxgb3_qp* qp) noexcept {
    delete static_cast<t3::Qp*>(qp->core);
}
void cxgb3_core_reset_qp(cxgb3_qp* qp) noexcept {
    static_cast<t3::Qp*>(qp->core)->reset();
}
void cxgb3_core_fail_qp(cxgb3_qp* qp) noexcept {
    static_cast<t3::Qp*>(qp->core)->set_error();
}
