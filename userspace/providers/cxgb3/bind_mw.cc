// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_bind_mw(), for windows of type 1; what ibv_wr_bind_mw() has to check too.
#include "userspace/providers/cxgb3/post.hh"

#include "include/hw/t3_tpt.h"

namespace t3 {

BindRequest check_bind(const ibv_mw& mw, const ibv_mw_bind_info& info) noexcept {
    if (mw.type != IBV_MW_TYPE_1 ||
        (info.mw_access_flags & ~(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)))
        return {.error = EINVAL};
    if (info.length == 0)
        return {.unbind = true};
    if (!info.mr || info.mr->pd->handle != mw.pd->handle) // by handle: one of them may be a parent domain
        return {.error = EINVAL};
    const auto* mr = reinterpret_cast<const cxgb3_mr*>(info.mr);
    const uint64_t offset = info.addr - mr->hca_va;
    if (info.length > UINT32_MAX || info.addr < mr->hca_va || offset > info.mr->length ||
        info.length > info.mr->length - offset)
        return {.error = EINVAL};
    const unsigned shift = T3_PAGE_CODE_SHIFT + mr->page_code;
    const uint64_t in_first_page = mr->hca_va & ((uint64_t{1} << shift) - 1);
    return {.bind = {.mr_stag = info.mr->lkey,
                     .mw_stag = mw.rkey,
                     .addr = info.addr,
                     .len = static_cast<uint32_t>(info.length),
                     .perms = static_cast<uint8_t>(
                         (info.mw_access_flags & IBV_ACCESS_REMOTE_READ ? T3_PERM_REMOTE_READ : 0) |
                         (info.mw_access_flags & IBV_ACCESS_REMOTE_WRITE ? T3_PERM_REMOTE_WRITE : 0)),
                     .page_code = mr->page_code,
                     .pbl_index = static_cast<uint32_t>(mr->pbl_addr + ((offset + in_first_page) >> shift))}};
}

} // namespace t3

namespace {

int unbind(ibv_qp* qp, const ibv_mw* mw, const ibv_mw_bind* bind) {
    ibv_send_wr wr{}, *bad;
    wr.wr_id = bind->wr_id;
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.send_flags = bind->send_flags & (IBV_SEND_SIGNALED | IBV_SEND_FENCE);
    wr.invalidate_rkey = mw->rkey;
    return cxgb3_post_send(qp, &wr, &bad);
}

int post(t3::Qp& qp, const t3_bind& bind, uint64_t wr_id, t3::wr_flags flags) {
    if (!qp.post_lock().lock_send())
        return EBUSY;
    t3::SendQueue& sq = qp.sq();
    const uint32_t pos = sq.tail_relaxed();
    if (sq.full(pos)) {
        qp.post_lock().unlock();
        return ENOMEM;
    }
    const uint64_t status = qp.status();
    const bool dead = qp.keeps_from_card(status);
    const t3::SlotCursor at = dead ? qp.scratch_slot() : qp.cursor();
    t3::finish(sq, pos, at, at.slot, wr_id, flags, t3::build_bind(*at.slot, flags, bind));
    if (!dead) {
        qp.step(at.slot);
        qp.ring_unless_db_off(status);
    }
    qp.post_lock().unlock();
    return 0;
}

} // namespace

int cxgb3_bind_mw(ibv_qp* ibqp, ibv_mw* mw, ibv_mw_bind* bind) noexcept {
    const t3::BindRequest request = t3::check_bind(*mw, bind->bind_info);
    if (request.error)
        return request.error;
    if (request.unbind)
        return unbind(ibqp, mw, bind);
    t3::Qp& qp = t3::core(ibqp);
    return post(qp, request.bind, bind->wr_id, (bind->send_flags & IBV_SEND_SIGNALED) | qp.signal_all());
}
