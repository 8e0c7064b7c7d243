// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// CPL messages: the driver's view against the model's. Nothing is executed.
#include <cstddef>

#include "include/hw/t3_cpl.h"
#include "sim/hw/cpl.hh"

namespace hw = t3sim::hw;

#define SAME_PLACE(driver, field, model, other)                                                              \
    static_assert(offsetof(driver, field) == offsetof(model, other));                                        \
    static_assert(sizeof(driver::field) == sizeof(model::other))
#define SAME_SIZE(driver, model) static_assert(sizeof(driver) == sizeof(model))

SAME_SIZE(t3_cpl_act_open_req, hw::ActOpenReq);
SAME_SIZE(t3_cpl_pass_open_req, hw::PassOpenReq);
SAME_SIZE(t3_cpl_pass_accept_rpl, hw::PassAcceptRpl);
SAME_SIZE(t3_cpl_close_listsrv_req, hw::CloseListsrvReq);
SAME_SIZE(t3_cpl_abort, hw::AbortWr);
SAME_SIZE(t3_cpl_rx_data_ack, hw::RxDataAck);
SAME_SIZE(t3_wr_tx_data, hw::TxDataWr);
SAME_SIZE(t3_cpl_act_open_rpl, hw::OpenRpl);
SAME_PLACE(t3_cpl_act_open_rpl, atid, hw::OpenRpl, atid);
SAME_PLACE(t3_cpl_act_open_rpl, status, hw::OpenRpl, status);
SAME_SIZE(t3_cpl_establish, hw::Establish);
SAME_PLACE(t3_cpl_establish, tos_tid, hw::Establish, tos_id);
SAME_PLACE(t3_cpl_establish, l2t_idx, hw::Establish, l2t_idx);
SAME_PLACE(t3_cpl_establish, tcp_opt, hw::Establish, tcp_opt);
SAME_PLACE(t3_cpl_establish, snd_isn, hw::Establish, snd_isn);
SAME_PLACE(t3_cpl_establish, rcv_isn, hw::Establish, rcv_isn);
SAME_SIZE(t3_cpl_pass_accept_req, hw::PassAcceptReq);
SAME_PLACE(t3_cpl_pass_accept_req, tos_tid, hw::PassAcceptReq, tos_stid);
SAME_PLACE(t3_cpl_pass_accept_req, mss, hw::PassAcceptReq, mss);
SAME_PLACE(t3_cpl_pass_accept_req, flags, hw::PassAcceptReq, flags);
SAME_PLACE(t3_cpl_pass_accept_req, vlan_tag, hw::PassAcceptReq, vlan_tag);
SAME_PLACE(t3_cpl_pass_accept_req, rcv_isn, hw::PassAcceptReq, rcv_isn);
SAME_SIZE(t3_cpl_peer_close, hw::PeerClose);
SAME_PLACE(t3_cpl_peer_close, rcv_nxt, hw::PeerClose, rcv_nxt);
SAME_SIZE(t3_cpl_close_con_rpl, hw::CloseConRpl);
SAME_PLACE(t3_cpl_close_con_rpl, status, hw::CloseConRpl, status);
SAME_PLACE(t3_cpl_close_con_rpl, snd_nxt, hw::CloseConRpl, snd_nxt);
SAME_SIZE(t3_cpl_status, hw::StatusRpl);
SAME_PLACE(t3_cpl_status, status, hw::StatusRpl, status);
SAME_SIZE(t3_cpl_abort_rss, hw::AbortRss);
SAME_PLACE(t3_cpl_abort_rss, status, hw::AbortRss, status);
SAME_SIZE(t3_cpl_wr_ack, hw::WrAck);
SAME_PLACE(t3_cpl_wr_ack, credits, hw::WrAck, credits);
SAME_PLACE(t3_cpl_wr_ack, snd_una, hw::WrAck, snd_una);
SAME_SIZE(t3_cpl_rx_data, hw::RxData);
SAME_PLACE(t3_cpl_rx_data, len, hw::RxData, len);
SAME_PLACE(t3_cpl_rx_data, seq, hw::RxData, seq);
