// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Layouts of RDMA work requests in a 128-byte slot (docs/hw/wr.md). Fields that the model does not use are
// reserved.
#pragma once

#include <cstddef>

#include "sim/hw/be.hh"

namespace t3sim::hw {

constexpr std::size_t flit = 8;

/// Header bits 31:24.
enum class WrOpcode : std::uint8_t {
    rdma_init = 0x10,
    rdma_write = 0x11,
    send = 0x14,
    rdma_read = 0x16,
    receive = 0x17,
    bind_mw = 0x18,
    fast_register = 0x19,
    local_inv = 0x1a,
    modify_qp = 0x1b,
    bypass = 0x1c,
};

/// Operation codes of CQEs, of the rdma_op field of WRs and (0 to 7) of RDMAP.
enum class RdmaOp : std::uint8_t {
    write = 0,
    read_request = 1,
    read_response = 2,
    send = 3,
    send_inv = 4,
    send_se = 5,
    send_se_inv = 6,
    terminate = 7,
    rdma_init = 8,
    bind_mw = 9,
    fast_register = 10,
    local_inv = 11,
    modify_qp = 12,
    bypass = 13,
};

/// Opcodes of the Ethernet, offload and control queues (docs/hw/cpl.md 24), header bits 31:24 too; ri_*:
/// those of RDMA work requests.
enum class FwOp : std::uint8_t {
    forward = 0x01,
    tunnel_tx_pkt = 0x03,
    bypass = 0x05,
    close_con = 0x09,
    host_abort_con_req = 0x0b,
    tx_data = 0x0d,
    host_abort_con_rpl = 0x0f,
    ri_rdma_init = static_cast<std::uint8_t>(WrOpcode::rdma_init),
    ri_send = static_cast<std::uint8_t>(WrOpcode::send),
    ri_rdma_read = static_cast<std::uint8_t>(WrOpcode::rdma_read),
    ri_modify_qp = static_cast<std::uint8_t>(WrOpcode::modify_qp),
    mngt = 0x1d
};

/// The two words of flit 0 of each descriptor and slot.
namespace wr {
// hi
constexpr std::uint32_t sop = 1U << 23;
constexpr std::uint32_t eop = 1U << 22;
constexpr std::uint32_t compl_ = 1U << 21; ///< not of RDMA work requests, as sgl
constexpr std::uint32_t sgl = 1U << 20;
constexpr std::uint32_t local_fence = 1U << 12; ///< of RDMA work requests only, as the next four
constexpr std::uint32_t read_fence = 1U << 11;
constexpr std::uint32_t solicited = 1U << 10;
constexpr std::uint32_t notify = 1U << 9;
constexpr std::uint32_t completion = 1U << 8;
constexpr std::uint8_t opcode(std::uint32_t hi) {
    return static_cast<std::uint8_t>(hi >> 24);
}
constexpr std::uint32_t sgl_flit(std::uint32_t hi) {
    return bits(hi, 15, 8);
}
// lo
constexpr std::uint32_t gen(std::uint32_t lo) {
    return lo >> 31;
}
constexpr std::uint32_t tid(std::uint32_t lo) {
    return bits(lo, 27, 8);
}
constexpr std::uint32_t flits(std::uint32_t lo) {
    return lo & 0xff;
}
} // namespace wr

struct WrHeader {
    Be32 hi;
    Be32 lo;
    Be32 wr_id_hi; // opaque to the card, copied to the CQE
    Be32 wr_id_lo;

    [[nodiscard]] WrOpcode opcode() const { return static_cast<WrOpcode>(wr::opcode(hi)); }
    [[nodiscard]] bool flag(std::uint32_t f) const { return (hi & f) != 0; }
    [[nodiscard]] unsigned flits() const { return wr::flits(lo); }
    [[nodiscard]] std::uint32_t tid() const { return wr::tid(lo); }
};
static_assert(sizeof(WrHeader) == 2 * flit);

struct Sge {
    Be32 stag;
    Be32 length;
    Be64 to;
};
static_assert(sizeof(Sge) == 16);

/// RdmaInitWr::rtr_type().
enum RtrType : unsigned { rtr_none = 0, rtr_read = 1, rtr_write = 2, rtr_send = 3 };

constexpr unsigned max_sge = 4;
constexpr unsigned max_inline = 64;
constexpr unsigned max_inline_of_a_slot = 80; // what would fit
constexpr unsigned max_fast_register_pages = 10;

struct SendWr {
    WrHeader header;
    std::uint8_t rdma_op;
    std::uint8_t reserved[3];
    Be32 inv_stag;
    Be32 plen;
    Be32 num_sge; // 0: inline
    union {
        Sge sge[max_sge];
        std::uint8_t inline_data[max_inline];
    };
};
static_assert(offsetof(SendWr, rdma_op) == 16 && offsetof(SendWr, inv_stag) == 20 &&
              offsetof(SendWr, plen) == 24 && offsetof(SendWr, num_sge) == 28 && offsetof(SendWr, sge) == 32);

struct WriteWr {
    WrHeader header;
    std::uint8_t rdma_op;
    std::uint8_t reserved[3];
    Be32 sink_stag;
    Be64 sink_to;
    Be32 plen;
    Be32 num_sge;
    union {
        Sge sge[max_sge];
        std::uint8_t inline_data[max_inline];
    };
};
static_assert(offsetof(WriteWr, sink_stag) == 20 && offsetof(WriteWr, sink_to) == 24 &&
              offsetof(WriteWr, plen) == 32 && offsetof(WriteWr, sge) == 40 && sizeof(WriteWr) == 13 * flit);

struct ReadWr {
    WrHeader header;
    std::uint8_t rdma_op;
    std::uint8_t local_inv;
    std::uint8_t reserved[2];
    Be32 rem_stag;
    Be64 rem_to;
    Be32 local_stag;
    Be32 local_len;
    Be64 local_to;
};
static_assert(offsetof(ReadWr, local_inv) == 17 && offsetof(ReadWr, rem_to) == 24 &&
              offsetof(ReadWr, local_to) == 40 && sizeof(ReadWr) == 6 * flit);

struct ReceiveWr {
    WrHeader header;
    std::uint8_t page_code[max_sge];
    Be32 num_sge;
    Sge sge[max_sge];
    Be32 pbl_addr[max_sge];
};
static_assert(offsetof(ReceiveWr, num_sge) == 20 && offsetof(ReceiveWr, sge) == 24 &&
              offsetof(ReceiveWr, pbl_addr) == 88 && sizeof(ReceiveWr) == 13 * flit);

struct BindWr {
    WrHeader header;
    std::uint8_t reserved[2];
    std::uint8_t type; // 1: VA based
    std::uint8_t perms;
    Be32 mr_stag;
    Be32 mw_stag;
    Be32 mw_len;
    Be64 mw_va;
    Be32 mr_pbl_addr;
    std::uint8_t reserved2[3];
    std::uint8_t mr_page_code;
};
static_assert(offsetof(BindWr, type) == 18 && offsetof(BindWr, mw_va) == 32 &&
              offsetof(BindWr, mr_page_code) == 47 && sizeof(BindWr) == 6 * flit);

struct LocalInvWr {
    WrHeader header;
    Be32 stag;
    Be32 reserved;
};
static_assert(sizeof(LocalInvWr) == 3 * flit);

struct FastRegisterWr {
    WrHeader header;
    Be32 stag;
    Be32 len;
    Be64 va; // or, zero based, the first byte offset in the low word
    Be32 page_type_perms;
    Be32 reserved;
    Be64 page[max_fast_register_pages];

    [[nodiscard]] unsigned pages() const { return bits(page_type_perms, 31, 24); }
    [[nodiscard]] unsigned page_code() const { return bits(page_type_perms, 20, 16); }
    [[nodiscard]] bool va_based() const { return bits(page_type_perms, 8, 8) != 0; }
    [[nodiscard]] unsigned perms() const { return bits(page_type_perms, 3, 0); }
    [[nodiscard]] bool bind_enable() const { return bits(page_type_perms, 4, 4) != 0; }
};
static_assert(offsetof(FastRegisterWr, va) == 24 && offsetof(FastRegisterWr, page) == 40 &&
              sizeof(FastRegisterWr) == 15 * flit);

struct ModifyQpWr {
    WrHeader header;
    Be32 flags;
    Be32 quiesce;
    Be32 max_ird;
    Be32 max_ord;
    Be64 sge_cmd;
    Be64 ctx1;
    Be64 ctx0;

    static constexpr std::uint32_t write_context = 1U << 3;
};
static_assert(offsetof(ModifyQpWr, sge_cmd) == 32 && sizeof(ModifyQpWr) == 7 * flit);

struct RdmaInitWr {
    WrHeader header;
    Be32 qpid;
    Be32 pdid;
    Be32 scqid;
    Be32 rcqid;
    Be32 rq_addr; // bytes from the RQT base
    Be32 rq_size;
    std::uint8_t mpa_attrs;
    std::uint8_t qp_caps;
    Be16 ulpdu_size; // the EMSS, despite the name
    Be16 flags_rtr_type;
    Be16 rqe_count;
    Be32 ord;
    Be32 ird;
    Be64 qp_dma_addr;
    Be32 qp_dma_size; // slots
    Be32 irs;

    // mpa_attrs
    static constexpr std::uint8_t rx_markers = 1;
    static constexpr std::uint8_t tx_markers = 2;
    static constexpr std::uint8_t crc = 4;
    // qp_caps
    static constexpr std::uint8_t read_enable = 1;
    static constexpr std::uint8_t write_enable = 2;
    static constexpr std::uint8_t bind_enable = 4;
    static constexpr std::uint8_t fast_register_enable = 8;
    static constexpr std::uint8_t stag0_enable = 16;

    [[nodiscard]] bool initiator() const { return bits(flags_rtr_type, 0, 0) != 0; }
    [[nodiscard]] unsigned rtr_type() const { return bits(flags_rtr_type, 3, 2); }
};
static_assert(offsetof(RdmaInitWr, mpa_attrs) == 40 && offsetof(RdmaInitWr, ulpdu_size) == 42 &&
              offsetof(RdmaInitWr, rqe_count) == 46 && offsetof(RdmaInitWr, qp_dma_addr) == 56 &&
              sizeof(RdmaInitWr) == 9 * flit);

/// RI_BYPASS with its memory-write command (docs/hw/mr.md 12).
struct BypassWr {
    WrHeader header;
    Be32 command; // 31:28 = 3: write; 26:0 = destination / 32
    Be32 size;    // 31:28 = units of 32 bytes; 7:0 = flits of the command
    std::uint8_t data[96];

    static constexpr unsigned memory_write = 3;
    static constexpr std::size_t unit = 32;
    static constexpr unsigned max_units = 3;
};
static_assert(offsetof(BypassWr, data) == 24 && sizeof(BypassWr) == 15 * flit);

} // namespace t3sim::hw
