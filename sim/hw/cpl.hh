// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Layouts of CPL messages and of the firmware work requests that carry them (docs/hw/cpl.md). Egress layouts
// start with the work request header, ingress layouts with the opcode/TID word.
#pragma once

#include <array>
#include <cstdint>

#include "sim/hw/be.hh"
#include "sim/hw/wr.hh"

namespace t3sim::hw {

enum class Cpl : std::uint8_t {
    // host to card
    pass_open_req = 0x01,
    pass_accept_rpl = 0x02,
    act_open_req = 0x03,
    set_tcb_field = 0x05,
    get_tcb = 0x06,
    close_con_req = 0x08,
    close_listsrv_req = 0x09,
    abort_req = 0x0a,
    abort_rpl = 0x0b,
    rx_data_ack = 0x0d,
    tx_pkt = 0x0e,
    rte_write_req = 0x10,
    l2t_write_req = 0x12,
    smt_write_req = 0x14,
    tx_pkt_lso = 0x16,
    barrier = 0x18,
    tid_release = 0x1a,
    // card to host; ERROR, TX_DATA_ACK and the ABORT_RPL without RSS are never sent [guess G48]
    close_listsrv_rpl = 0x20,
    get_tcb_rpl = 0x22,
    l2t_write_rpl = 0x23,
    peer_close = 0x26,
    rte_write_rpl = 0x28,
    rx_pkt = 0x2b,
    set_tcb_rpl = 0x2d,
    smt_write_rpl = 0x2e,
    abort_req_rss = 0x30,
    abort_rpl_rss = 0x31,
    close_con_rpl = 0x32,
    rx_data = 0x39,
    act_open_rpl = 0x40,
    pass_open_rpl = 0x41,
    act_establish = 0x50,
    pass_establish = 0x51,
    pass_accept_req = 0x70,
    tx_dma_ack = 0xa0,
    rdma_terminate = 0xa2,
    rdma_ec_status = 0xa5
};

enum class CplStatus : std::uint8_t { // docs/hw/cpl.md 3
    none = 0,
    tcam_full = 3,
    conn_reset = 20,
    conn_exist = 22,
    arp_miss = 23,
    conn_timedout = 30,
    xmit_timedout = 31,
    persist_timedout = 32,
    finwait2_timedout = 33,
    keepalive_timedout = 34,
    rtx_neg_advice = 35,
    persist_neg_advice = 36,
    general = 99
};

/// The opcode/TID word.
constexpr std::uint32_t ot(Cpl opcode, std::uint32_t id) {
    return static_cast<std::uint32_t>(opcode) << 24 | (id & 0xffffff);
}

// ---- Firmware work request header ----------------------------------------------------------------------

/// WrHeader without the WR id, which only RDMA work requests have.
struct FwWrHeader {
    Be32 hi, lo;
    [[nodiscard]] FwOp op() const { return static_cast<FwOp>(wr::opcode(hi)); }
    [[nodiscard]] bool completion() const { return (hi & wr::compl_) != 0; }
    [[nodiscard]] std::uint32_t tid() const { return wr::tid(lo); }
};

/// The start of every egress CPL.
struct CplRequest {
    FwWrHeader wr;
    Be32 ot;
    [[nodiscard]] Cpl opcode() const { return static_cast<Cpl>(bits(ot, 31, 24)); }
    [[nodiscard]] std::uint32_t id() const { return bits(ot, 23, 0); }
};

// ---- Option words (docs/hw/cpl.md 4) --------------------------------------------------------------------

struct Opt0h {
    std::uint32_t word;
    [[nodiscard]] bool delayed_ack() const { return bits(word, 0, 0) != 0; }
    [[nodiscard]] bool no_congestion_control() const { return bits(word, 1, 1) != 0; }
    [[nodiscard]] unsigned l2t_index() const { return bits(word, 14, 4); }
    [[nodiscard]] unsigned channel() const { return bits(word, 15, 15); }
    [[nodiscard]] bool nagle() const { return bits(word, 17, 17) != 0; }
    [[nodiscard]] unsigned window_scale() const { return bits(word, 21, 18); }
    [[nodiscard]] bool keepalive() const { return bits(word, 22, 22) != 0; }
    [[nodiscard]] unsigned mss_index() const { return bits(word, 31, 28); }
};

struct Opt0l {
    std::uint32_t word;
    static constexpr unsigned accept = 0, reject = 1; // status(), PASS_ACCEPT_RPL only
    [[nodiscard]] unsigned status() const { return bits(word, 7, 0); }
    [[nodiscard]] std::uint32_t receive_buffer() const { return bits(word, 25, 12) * 1024; }
    [[nodiscard]] std::uint8_t tos() const { return static_cast<std::uint8_t>(bits(word, 31, 26) << 2); }
};

/// tcp_opt of the ESTABLISH messages.
constexpr std::uint16_t tcp_opt(bool scaling, unsigned peer_scale, unsigned mtu_index) {
    return static_cast<std::uint16_t>(mtu_index << 12 | peer_scale << 8 | (scaling ? 1U << 5 : 0));
}

// ---- Tables -------------------------------------------------------------------------------------------

using MacAddress = std::array<std::uint8_t, 6>;
constexpr unsigned vlan_untagged = 0xfff;

struct L2tWriteReq : CplRequest {
    Be32 params;
    Be16 reserved;
    MacAddress dst_mac;
    [[nodiscard]] unsigned vlan() const { return bits(params, 22, 11); }
    [[nodiscard]] unsigned interface() const { return bits(params, 26, 23); }
    [[nodiscard]] unsigned priority() const { return bits(params, 29, 27); }
};
static_assert(sizeof(L2tWriteReq) == 24);

struct SmtWriteReq : CplRequest {
    std::uint8_t reserved0, iff_mtu;
    std::uint8_t reserved1[4];
    MacAddress src_mac1;
    std::uint8_t reserved2[2];
    MacAddress src_mac0;
};
static_assert(sizeof(SmtWriteReq) == 32);

/// L2T_WRITE_RPL, SMT_WRITE_RPL, RTE_WRITE_RPL.
struct TableWriteRpl {
    Be32 ot;
    std::uint8_t status;
    std::uint8_t reserved[3];
};
static_assert(sizeof(TableWriteRpl) == 8);

// ---- TCB ----------------------------------------------------------------------------------------------

struct SetTcbField : CplRequest {
    std::uint8_t reply, cpu_idx;
    Be16 word;
    Be64 mask, value;
    [[nodiscard]] bool no_reply() const { return (reply & 0x80) != 0; }
};
static_assert(sizeof(SetTcbField) == 32);

struct GetTcb : CplRequest {
    Be16 cpuno, reserved;
};
static_assert(sizeof(GetTcb) == 16);

struct GetTcbRpl {
    Be32 ot;
    std::uint8_t reserved, status;
    Be16 len;
    Be32 words[32]; // descending: TCB word 31 first
};
static_assert(sizeof(GetTcbRpl) == 136);

/// SET_TCB_RPL, CLOSE_LISTSRV_RPL, RDMA_EC_STATUS: an id and a status.
struct StatusRpl {
    Be32 ot;
    std::uint8_t reserved[3];
    std::uint8_t status;
};
static_assert(sizeof(StatusRpl) == 8);

// ---- Opening ------------------------------------------------------------------------------------------

struct Endpoints {
    Be16 local_port, peer_port;
    Be32 local_ip, peer_ip;
};

struct PassOpenReq : CplRequest {
    Endpoints ends;
    Be32 opt0h, opt0l, peer_netmask, opt1;
};
static_assert(sizeof(PassOpenReq) == 40);

/// PASS_OPEN_RPL; ACT_OPEN_RPL has the ATID in atid.
struct OpenRpl {
    Be32 ot;
    Endpoints ends;
    Be32 atid;
    std::uint8_t reserved[3];
    std::uint8_t status;
};
static_assert(sizeof(OpenRpl) == 24);

struct CloseListsrvReq : CplRequest {
    std::uint8_t reserved0, cpu_idx;
    Be16 reserved1;
};
static_assert(sizeof(CloseListsrvReq) == 16);

struct ActOpenReq : CplRequest {
    Endpoints ends;
    Be32 opt0h, opt0l, params, opt2;
};
static_assert(sizeof(ActOpenReq) == 40);

struct PassAcceptReq {
    Be32 ot;
    Endpoints ends;
    Be32 tos_stid;
    Be16 mss;
    std::uint8_t window_scale;
    std::uint8_t flags; // bit 7 timestamps, 6 SACK, 5 ECN
    MacAddress dst_mac;
    Be16 vlan_tag;
    MacAddress src_mac;
    std::uint8_t match; // bit 7 exact match, 6 port, 5:3 address index
    std::uint8_t reserved0;
    Be32 rcv_isn; // of the SYN itself
    Be32 reserved1;
};
static_assert(sizeof(PassAcceptReq) == 48);

struct PassAcceptRpl : CplRequest {
    Be32 opt2, opt2_again, peer_ip, opt0h, opt0l;
};
static_assert(sizeof(PassAcceptRpl) == 32);

/// ACT_ESTABLISH (tos_id holds the ATID) and PASS_ESTABLISH (the STID).
struct Establish {
    Be32 ot;
    Endpoints ends;
    Be32 tos_id;
    Be16 l2t_idx; // index in 15:5
    Be16 tcp_opt;
    Be32 snd_isn, rcv_isn; // of the first data byte
};
static_assert(sizeof(Establish) == 32);

// ---- Data ---------------------------------------------------------------------------------------------

struct TxDataWr {
    FwWrHeader wr;
    Be32 len, flags, sndseq, param;
    [[nodiscard]] bool shove() const { return bits(flags, 14, 14) != 0; }
    [[nodiscard]] bool close() const { return bits(flags, 17, 17) != 0; }
    [[nodiscard]] bool init() const { return bits(flags, 18, 18) != 0; }
    [[nodiscard]] std::uint32_t send_buffer() const { return bits(param, 31, 16) * (32U << 10); }
};
static_assert(sizeof(TxDataWr) == 24);

struct WrAck { // TX_DMA_ACK
    Be32 ot;
    Be16 credits, reserved;
    Be32 snd_nxt, snd_una;
};
static_assert(sizeof(WrAck) == 16);

struct RxData {
    Be32 ot;
    Be16 reserved, len;
    Be32 seq;
    Be16 urg;
    std::uint8_t flags; // bit 2: PSH
    std::uint8_t status;
};
static_assert(sizeof(RxData) == 16);
constexpr std::uint8_t rx_data_psh = 1 << 2;

struct RxDataAck : CplRequest {
    Be32 credit_dack;
    [[nodiscard]] std::uint32_t credits() const { return bits(credit_dack, 26, 0); }
    [[nodiscard]] bool force_ack() const { return bits(credit_dack, 28, 28) != 0; }
};
static_assert(sizeof(RxDataAck) == 16);

// ---- Closing ------------------------------------------------------------------------------------------

struct PeerClose {
    Be32 ot, rcv_nxt;
};
static_assert(sizeof(PeerClose) == 8);

struct CloseConRpl {
    Be32 ot;
    std::uint8_t reserved[3];
    std::uint8_t status;
    Be32 snd_nxt, rcv_nxt;
};
static_assert(sizeof(CloseConRpl) == 16);

/// ABORT_REQ and ABORT_RPL, host to card.
struct AbortWr : CplRequest {
    Be32 reserved0;
    std::uint8_t reserved1, cmd;
    std::uint8_t reserved2[6];
    static constexpr std::uint8_t send_rst = 0;
};
static_assert(sizeof(AbortWr) == 24);

/// ABORT_REQ_RSS and ABORT_RPL_RSS.
struct AbortRss {
    Be32 ot, reserved0;
    std::uint8_t reserved1, status;
    std::uint8_t reserved2[6];
};
static_assert(sizeof(AbortRss) == 16);

} // namespace t3sim::hw
