// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_bind_mw(), for windows of type 1; what ibv_wr_bind_mw() has to check too.
#include "userspace/providers/cxgb3/post.hh"

#include "include/hw/t3_tpt.h"

namespace t3 {

BindRequest check_bind(const ibv_mw& mw, uint32_t rkey, const ibv_mw_bind_info& info) noexcept {
    if (mw.type != IBV_MW_TYPE_1 ||
        (info.mw_access_flags & ~(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)))
        return {.error = EINVAL};
    if (info.length == 0)
        return {.unbind = true, .flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE, .stag = mw.rkey};
    if (!info.mr || info.mr->pd->handle != mw.pd->handle) // by handle: one of them may be a parent domain
        return {.error = EINVAL};
    const auto* mr = reinterpret_cast<const cxgb3_mr*>(info.mr);
    if (mr->vmr.mr_type == VERBS_MR_IMPORTED) // its page list is not known
        return {.error = EOPNOTSUPP};
    const uint64_t offset = info.addr - mr->hca_va;
    if (info.length > UINT32_MAX || info.addr < mr->hca_va || offset > info.mr->length ||
        info.length > info.mr->length - offset)
        return {.error = EINVAL};
    const unsigned shift = T3_PAGE_CODE_SHIFT + mr->page_code;
    const uint64_t in_first_page = mr->hca_va & ((uint64_t{1} << shift) - 1);
    return {.flags = IBV_SEND_SIGNALED,
            .bind = {.mr_stag = info.mr->lkey,
                     .mw_stag = rkey,
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

// A list of one, for post_list().
struct Bind {
    uint64_t wr_id;
    t3::wr_flags flags;
    t3::BindRequest request;
    Bind* next = nullptr;
};

int post_bind(t3::Qp& qp, const t3::SlotCursor& at, const Bind& bind) {
    return t3::post_one(qp, at, bind.wr_id, bind.flags,
                        [&](t3_wr_slot& slot) { return t3::build_bind(slot, bind.flags, bind.request); });
}

} // namespace

int cxgb3_bind_mw(ibv_qp* ibqp, ibv_mw* mw, ibv_mw_bind* mw_bind) noexcept {
    t3::Qp& qp = t3::core(ibqp);
    const uint32_t rkey = ibv_inc_rkey(mw->rkey);
    Bind bind{.wr_id = mw_bind->wr_id, .flags = 0, .request = t3::check_bind(*mw, rkey, mw_bind->bind_info)};
    if (bind.request.error)
        return bind.request.error;
    bind.flags = (mw_bind->send_flags & bind.request.flags) | qp.signal_all();
    if (!qp.post_lock().lock_send())
        return EBUSY;
    Bind* bad;
    const int error = t3::post_list(qp, &bind, &bad, false, post_bind);
    qp.post_lock().unlock();
    if (!error && !bind.request.unbind)
        mw->rkey = rkey; // what had the old key has lost its access
    return error;
}
