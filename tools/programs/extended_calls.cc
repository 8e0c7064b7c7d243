// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "program.hh"

namespace prog {

namespace {

void set_data(ibv_qp_ex* ex, const ibv_send_wr& wr) {
    const auto n = static_cast<size_t>(wr.num_sge);
    if (wr.send_flags & IBV_SEND_INLINE) {
        std::vector<ibv_data_buf> bufs;
        for (size_t i = 0; i < n; i++)
            bufs.push_back({reinterpret_cast<void*>(wr.sg_list[i].addr), wr.sg_list[i].length});
        if (n == 1)
            ibv_wr_set_inline_data(ex, bufs[0].addr, bufs[0].length);
        else
            ibv_wr_set_inline_data_list(ex, n, bufs.data());
    } else if (n == 1) {
        ibv_wr_set_sge(ex, wr.sg_list->lkey, wr.sg_list->addr, wr.sg_list->length);
    } else if (n) {
        ibv_wr_set_sge_list(ex, n, wr.sg_list);
    }
}

} // namespace

int post_send_ex(ibv_qp* qp, const ibv_send_wr& wr) {
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
    if (!ex)
        fail("the QP is not an extended one");
    ibv_wr_start(ex);
    ex->wr_id = wr.wr_id;
    ex->wr_flags = wr.send_flags;
    switch (static_cast<unsigned>(wr.opcode)) {
    case IBV_WR_SEND:
        ibv_wr_send(ex);
        break;
    case IBV_WR_SEND_WITH_IMM:
        ibv_wr_send_imm(ex, wr.imm_data);
        break;
    case IBV_WR_SEND_WITH_INV:
        ibv_wr_send_inv(ex, wr.invalidate_rkey);
        break;
    case IBV_WR_RDMA_WRITE:
        ibv_wr_rdma_write(ex, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
        break;
    case IBV_WR_RDMA_READ:
        ibv_wr_rdma_read(ex, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
        break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        ibv_wr_atomic_fetch_add(ex, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr, 1);
        break;
    case IBV_WR_LOCAL_INV:
        ibv_wr_local_inv(ex, wr.invalidate_rkey);
        return ibv_wr_complete(ex);
    default:
        fail("opcode %d is not supported", wr.opcode);
    }
    set_data(ex, wr);
    return ibv_wr_complete(ex);
}

int poll_cq_ex(ibv_cq* cq, ibv_wc& wc) {
    auto* ex = reinterpret_cast<ibv_cq_ex*>(cq);
    ibv_poll_cq_attr attr{};
    const int err = ibv_start_poll(ex, &attr);
    if (err)
        return err == ENOENT ? 0 : -err;
    wc = {};
    wc.wr_id = ex->wr_id;
    wc.status = ex->status;
    wc.opcode = ibv_wc_read_opcode(ex);
    wc.vendor_err = ibv_wc_read_vendor_err(ex);
    wc.byte_len = ibv_wc_read_byte_len(ex);
    wc.wc_flags = ibv_wc_read_wc_flags(ex);
    wc.invalidated_rkey = ibv_wc_read_invalidated_rkey(ex);
    wc.qp_num = ibv_wc_read_qp_num(ex);
    wc.src_qp = ibv_wc_read_src_qp(ex);
    ibv_end_poll(ex);
    return 1;
}

} // namespace prog
