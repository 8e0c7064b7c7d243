// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The card as drivers describe it (include/hw) against the card as the model describes it (sim/hw). The two
// were written apart from each other, so an error of one of them stops the build here. Nothing is executed.
#include <cstddef>

extern "C" {
#include "include/hw/t3_cqe.h"
#include "include/hw/t3_tpt.h"
#include "include/hw/t3_wr.h"
}
#include "sim/hw/cqe.hh"
#include "sim/hw/tpt.hh"
#include "sim/hw/wr.hh"

namespace hw = t3sim::hw;

#define SAME_FIELD(driver, field, model, model_field)                                                        \
    static_assert(offsetof(driver, field) == offsetof(model, model_field));                                  \
    static_assert(sizeof(driver::field) == sizeof(model::model_field))

#define SAME_SIZE(driver, model) static_assert(sizeof(driver) == sizeof(model))

#define SAME_VALUE(driver, model) static_assert(unsigned{driver} == static_cast<unsigned>(model))

// Headers.
SAME_FIELD(t3_wr_hdr, hi, hw::WrHeader, hi);
SAME_FIELD(t3_wr_hdr, lo, hw::WrHeader, lo);
SAME_FIELD(t3_wr_send, id.hi, hw::WrHeader, wr_id_hi);
SAME_VALUE(T3_WR_SOP, hw::wr::sop);
SAME_VALUE(T3_WR_EOP, hw::wr::eop);
SAME_VALUE(T3_WR_F_COMPLETION << 8, hw::wr::completion);
SAME_VALUE(T3_WR_F_NOTIFY << 8, hw::wr::notify);
SAME_VALUE(T3_WR_F_SOLICITED << 8, hw::wr::solicited);
SAME_VALUE(T3_WR_F_READ_FENCE << 8, hw::wr::read_fence);
SAME_VALUE(T3_WR_F_LOCAL_FENCE << 8, hw::wr::local_fence);

// Opcodes.
SAME_VALUE(T3_WR_OP_RDMA_INIT, hw::WrOpcode::rdma_init);
SAME_VALUE(T3_WR_OP_WRITE, hw::WrOpcode::rdma_write);
SAME_VALUE(T3_WR_OP_SEND, hw::WrOpcode::send);
SAME_VALUE(T3_WR_OP_READ, hw::WrOpcode::rdma_read);
SAME_VALUE(T3_WR_OP_RECV, hw::WrOpcode::receive);
SAME_VALUE(T3_WR_OP_BIND_MW, hw::WrOpcode::bind_mw);
SAME_VALUE(T3_WR_OP_FASTREG, hw::WrOpcode::fast_register);
SAME_VALUE(T3_WR_OP_LOCAL_INV, hw::WrOpcode::local_inv);
SAME_VALUE(T3_WR_OP_MODIFY_QP, hw::WrOpcode::modify_qp);
SAME_VALUE(T3_WR_OP_BYPASS, hw::WrOpcode::bypass);
SAME_VALUE(T3_RDMA_WRITE, hw::RdmaOp::write);
SAME_VALUE(T3_RDMA_READ_REQ, hw::RdmaOp::read_request);
SAME_VALUE(T3_RDMA_READ_RESP, hw::RdmaOp::read_response);
SAME_VALUE(T3_RDMA_SEND, hw::RdmaOp::send);
SAME_VALUE(T3_RDMA_SEND_INV, hw::RdmaOp::send_inv);
SAME_VALUE(T3_RDMA_SEND_SE, hw::RdmaOp::send_se);
SAME_VALUE(T3_RDMA_SEND_SE_INV, hw::RdmaOp::send_se_inv);
SAME_VALUE(T3_RDMA_TERMINATE, hw::RdmaOp::terminate);
SAME_VALUE(T3_RDMA_INIT, hw::RdmaOp::rdma_init);
SAME_VALUE(T3_RDMA_BIND_MW, hw::RdmaOp::bind_mw);
SAME_VALUE(T3_RDMA_FASTREG, hw::RdmaOp::fast_register);
SAME_VALUE(T3_RDMA_LOCAL_INV, hw::RdmaOp::local_inv);
SAME_VALUE(T3_RDMA_MODIFY_QP, hw::RdmaOp::modify_qp);
SAME_VALUE(T3_RDMA_BYPASS, hw::RdmaOp::bypass);

// Limits.
SAME_VALUE(T3_MAX_SGE, hw::max_sge);
SAME_VALUE(T3_MAX_INLINE, hw::max_inline);
SAME_VALUE(T3_MAX_FASTREG_PAGES, hw::max_fast_register_pages);

// Work requests.
SAME_SIZE(t3_sge, hw::Sge);
SAME_FIELD(t3_sge, stag, hw::Sge, stag);
SAME_FIELD(t3_sge, len, hw::Sge, length);
SAME_FIELD(t3_sge, to, hw::Sge, to);

SAME_FIELD(t3_wr_send, rdma_op, hw::SendWr, rdma_op);
SAME_FIELD(t3_wr_send, inv_stag, hw::SendWr, inv_stag);
SAME_FIELD(t3_wr_send, plen, hw::SendWr, plen);
SAME_FIELD(t3_wr_send, num_sge, hw::SendWr, num_sge);
SAME_FIELD(t3_wr_send, sge, hw::SendWr, sge);

SAME_FIELD(t3_wr_write, rdma_op, hw::WriteWr, rdma_op);
SAME_FIELD(t3_wr_write, sink_stag, hw::WriteWr, sink_stag);
SAME_FIELD(t3_wr_write, sink_to, hw::WriteWr, sink_to);
SAME_FIELD(t3_wr_write, plen, hw::WriteWr, plen);
SAME_FIELD(t3_wr_write, num_sge, hw::WriteWr, num_sge);
SAME_FIELD(t3_wr_write, sge, hw::WriteWr, sge);

SAME_SIZE(t3_wr_read, hw::ReadWr);
SAME_FIELD(t3_wr_read, rdma_op, hw::ReadWr, rdma_op);
SAME_FIELD(t3_wr_read, local_inv, hw::ReadWr, local_inv);
SAME_FIELD(t3_wr_read, rem_stag, hw::ReadWr, rem_stag);
SAME_FIELD(t3_wr_read, rem_to, hw::ReadWr, rem_to);
SAME_FIELD(t3_wr_read, local_stag, hw::ReadWr, local_stag);
SAME_FIELD(t3_wr_read, local_len, hw::ReadWr, local_len);
SAME_FIELD(t3_wr_read, local_to, hw::ReadWr, local_to);

SAME_SIZE(t3_wr_recv, hw::ReceiveWr);
SAME_FIELD(t3_wr_recv, pagesz, hw::ReceiveWr, page_code);
SAME_FIELD(t3_wr_recv, num_sge, hw::ReceiveWr, num_sge);
SAME_FIELD(t3_wr_recv, sge, hw::ReceiveWr, sge);
SAME_FIELD(t3_wr_recv, pbl_addr, hw::ReceiveWr, pbl_addr);

SAME_SIZE(t3_wr_bind_mw, hw::BindWr);
SAME_FIELD(t3_wr_bind_mw, type, hw::BindWr, type);
SAME_FIELD(t3_wr_bind_mw, perms, hw::BindWr, perms);
SAME_FIELD(t3_wr_bind_mw, mr_stag, hw::BindWr, mr_stag);
SAME_FIELD(t3_wr_bind_mw, mw_stag, hw::BindWr, mw_stag);
SAME_FIELD(t3_wr_bind_mw, mw_len, hw::BindWr, mw_len);
SAME_FIELD(t3_wr_bind_mw, mw_va, hw::BindWr, mw_va);
SAME_FIELD(t3_wr_bind_mw, mr_pbl_addr, hw::BindWr, mr_pbl_addr);
SAME_FIELD(t3_wr_bind_mw, mr_pagesz, hw::BindWr, mr_page_code);

SAME_SIZE(t3_wr_local_inv, hw::LocalInvWr);
SAME_FIELD(t3_wr_local_inv, stag, hw::LocalInvWr, stag);

SAME_SIZE(t3_wr_fastreg, hw::FastRegisterWr);
SAME_FIELD(t3_wr_fastreg, stag, hw::FastRegisterWr, stag);
SAME_FIELD(t3_wr_fastreg, len, hw::FastRegisterWr, len);
static_assert(offsetof(t3_wr_fastreg, va_hi) == offsetof(hw::FastRegisterWr, va));
SAME_FIELD(t3_wr_fastreg, page_type_perms, hw::FastRegisterWr, page_type_perms);
SAME_FIELD(t3_wr_fastreg, page, hw::FastRegisterWr, page);

SAME_SIZE(t3_wr_modify_qp, hw::ModifyQpWr);
SAME_FIELD(t3_wr_modify_qp, flags, hw::ModifyQpWr, flags);
SAME_FIELD(t3_wr_modify_qp, sge_cmd, hw::ModifyQpWr, sge_cmd);
SAME_FIELD(t3_wr_modify_qp, ctx1, hw::ModifyQpWr, ctx1);
SAME_FIELD(t3_wr_modify_qp, ctx0, hw::ModifyQpWr, ctx0);
SAME_VALUE(T3_MODQP_WRITE_EC, hw::ModifyQpWr::write_context);

SAME_SIZE(t3_wr_rdma_init, hw::RdmaInitWr);
SAME_FIELD(t3_wr_rdma_init, qpid, hw::RdmaInitWr, qpid);
SAME_FIELD(t3_wr_rdma_init, pdid, hw::RdmaInitWr, pdid);
SAME_FIELD(t3_wr_rdma_init, scqid, hw::RdmaInitWr, scqid);
SAME_FIELD(t3_wr_rdma_init, rcqid, hw::RdmaInitWr, rcqid);
SAME_FIELD(t3_wr_rdma_init, rq_addr, hw::RdmaInitWr, rq_addr);
SAME_FIELD(t3_wr_rdma_init, rq_size, hw::RdmaInitWr, rq_size);
SAME_FIELD(t3_wr_rdma_init, mpa_attrs, hw::RdmaInitWr, mpa_attrs);
SAME_FIELD(t3_wr_rdma_init, qp_caps, hw::RdmaInitWr, qp_caps);
SAME_FIELD(t3_wr_rdma_init, ulpdu_size, hw::RdmaInitWr, ulpdu_size);
SAME_FIELD(t3_wr_rdma_init, flags_rtr_type, hw::RdmaInitWr, flags_rtr_type);
SAME_FIELD(t3_wr_rdma_init, rqe_count, hw::RdmaInitWr, rqe_count);
SAME_FIELD(t3_wr_rdma_init, ord, hw::RdmaInitWr, ord);
SAME_FIELD(t3_wr_rdma_init, ird, hw::RdmaInitWr, ird);
SAME_FIELD(t3_wr_rdma_init, qp_dma_addr, hw::RdmaInitWr, qp_dma_addr);
SAME_FIELD(t3_wr_rdma_init, qp_dma_size, hw::RdmaInitWr, qp_dma_size);
SAME_FIELD(t3_wr_rdma_init, irs, hw::RdmaInitWr, irs);
SAME_VALUE(T3_MPA_RX_MARKERS, hw::RdmaInitWr::rx_markers);
SAME_VALUE(T3_MPA_TX_MARKERS, hw::RdmaInitWr::tx_markers);
SAME_VALUE(T3_MPA_CRC, hw::RdmaInitWr::crc);
SAME_VALUE(T3_QPCAP_RDMA_READ, hw::RdmaInitWr::read_enable);
SAME_VALUE(T3_QPCAP_RDMA_WRITE, hw::RdmaInitWr::write_enable);
SAME_VALUE(T3_QPCAP_BIND, hw::RdmaInitWr::bind_enable);
SAME_VALUE(T3_QPCAP_FASTREG, hw::RdmaInitWr::fast_register_enable);
SAME_VALUE(T3_QPCAP_STAG0, hw::RdmaInitWr::stag0_enable);
SAME_VALUE(T3_RTR_READ, hw::rtr_read);
SAME_VALUE(T3_RTR_WRITE, hw::rtr_write);
SAME_VALUE(T3_RTR_SEND, hw::rtr_send);

SAME_SIZE(t3_wr_bypass, hw::BypassWr);
SAME_FIELD(t3_wr_bypass, cmd_addr, hw::BypassWr, command);
SAME_FIELD(t3_wr_bypass, cmd_len, hw::BypassWr, size);
SAME_FIELD(t3_wr_bypass, data, hw::BypassWr, data);
SAME_VALUE(T3_MEM_CMD_WRITE, hw::BypassWr::memory_write);
SAME_VALUE(T3_MEM_UNIT, hw::BypassWr::unit);
SAME_VALUE(T3_BYPASS_MAX_UNITS, hw::BypassWr::max_units);

// Completion entries.
SAME_SIZE(t3_cqe, hw::CqeLayout);
SAME_FIELD(t3_cqe, header, hw::CqeLayout, header);
SAME_FIELD(t3_cqe, len, hw::CqeLayout, length);
static_assert(offsetof(t3_cqe, u) == offsetof(hw::CqeLayout, word2));
static_assert(hw::cqe_header(0x7ffff, false, 0, false, 0) == T3_CQE_QPID);
static_assert(hw::cqe_header(0, true, 0, false, 0) == T3_CQE_GEN);
static_assert(hw::cqe_header(0, false, 0x1f, false, 0) == T3_CQE_STATUS);
static_assert(hw::cqe_header(0, false, 0, true, 0) == T3_CQE_TYPE_SQ);
static_assert(hw::cqe_header(0, false, 0, false, 0xf) == T3_CQE_OPCODE);
SAME_VALUE(T3_STATUS_STAG, hw::Status::invalid_stag);
SAME_VALUE(T3_STATUS_PDID, hw::Status::pd_mismatch);
SAME_VALUE(T3_STATUS_QPID, hw::Status::qp_mismatch);
SAME_VALUE(T3_STATUS_ACCESS, hw::Status::access);
SAME_VALUE(T3_STATUS_WRAP, hw::Status::wrap);
SAME_VALUE(T3_STATUS_BOUND, hw::Status::bounds);
SAME_VALUE(T3_STATUS_INV_SHARED_MR, hw::Status::inv_shared);
SAME_VALUE(T3_STATUS_INV_BOUND_MR, hw::Status::inv_bound);
SAME_VALUE(T3_STATUS_PBL_BOUND, hw::Status::pbl_bounds);
SAME_VALUE(T3_STATUS_CRC, hw::Status::crc);
SAME_VALUE(T3_STATUS_MARKER, hw::Status::marker);
SAME_VALUE(T3_STATUS_PDU_LEN, hw::Status::pdu_length);
SAME_VALUE(T3_STATUS_NO_RECV, hw::Status::no_receive);
SAME_VALUE(T3_STATUS_DDP_VERSION, hw::Status::ddp_version);
SAME_VALUE(T3_STATUS_RDMAP_VERSION, hw::Status::rdmap_version);
SAME_VALUE(T3_STATUS_OPCODE, hw::Status::rdmap_opcode);
SAME_VALUE(T3_STATUS_DDP_QUEUE, hw::Status::queue_number);
SAME_VALUE(T3_STATUS_MSN, hw::Status::msn);
SAME_VALUE(T3_STATUS_TBIT, hw::Status::tagged_bit);
SAME_VALUE(T3_STATUS_MO, hw::Status::message_offset);
SAME_VALUE(T3_STATUS_IRD_OVERFLOW, hw::Status::ird_overflow);
SAME_VALUE(T3_STATUS_RQE_BOUND, hw::Status::rqe_bounds);
SAME_VALUE(T3_STATUS_INTERNAL, hw::Status::internal);

// TPT entries.
SAME_SIZE(t3_tpt_entry, hw::TptEntry);
SAME_FIELD(t3_tpt_entry, valid_stag_pdid, hw::TptEntry, state_word);
SAME_FIELD(t3_tpt_entry, flags_pagesize_qpid, hw::TptEntry, rights_word);
SAME_FIELD(t3_tpt_entry, pbl_addr, hw::TptEntry, pbl_addr);
SAME_FIELD(t3_tpt_entry, len, hw::TptEntry, length);
static_assert(offsetof(t3_tpt_entry, va_hi) == offsetof(hw::TptEntry, va));
SAME_FIELD(t3_tpt_entry, bind_cnt_pstag, hw::TptEntry, bindings);
SAME_FIELD(t3_tpt_entry, pbl_size, hw::TptEntry, pbl_size);
SAME_VALUE(T3_TPT_TYPE_MR, hw::TptEntry::region);
SAME_VALUE(T3_TPT_TYPE_SHARED_MR, hw::TptEntry::shared_region);
SAME_VALUE(T3_TPT_TYPE_MW, hw::TptEntry::window);
SAME_VALUE(T3_TPT_TYPE_MW_RELAXED, hw::TptEntry::relaxed_window);
SAME_VALUE(T3_PERM_LOCAL_READ, hw::TptEntry::local_read);
SAME_VALUE(T3_PERM_LOCAL_WRITE, hw::TptEntry::local_write);
SAME_VALUE(T3_PERM_REMOTE_READ, hw::TptEntry::remote_read);
SAME_VALUE(T3_PERM_REMOTE_WRITE, hw::TptEntry::remote_write);
static_assert(hw::stag_index(0x00123456) == 0x00123456U >> T3_STAG_INDEX_SHIFT);
