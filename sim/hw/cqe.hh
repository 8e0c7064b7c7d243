// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Status codes of CQEs and async events: docs/hw/cq.md 5. The layout of a CQE in a CQ ring: docs/hw/cq.md 2.
#pragma once

#include "sim/hw/wr.hh"

namespace t3sim::hw {

enum class Status : std::uint8_t {
    success = 0x00,
    invalid_stag = 0x01,
    pd_mismatch = 0x02,
    qp_mismatch = 0x03,
    access = 0x04,
    wrap = 0x05,
    bounds = 0x06,
    inv_shared = 0x07,
    inv_bound = 0x08,
    ecc = 0x09,
    pbl_bounds = 0x0b,
    crc = 0x10,
    marker = 0x11,
    pdu_length = 0x12,
    no_receive = 0x13,
    ddp_version = 0x14,
    rdmap_version = 0x15,
    rdmap_opcode = 0x16,
    queue_number = 0x17,
    msn = 0x18,
    msn_gap = 0x1b, ///< only with another answer to G28
    tagged_bit = 0x19,
    message_offset = 0x1a,
    ird_overflow = 0x1d,
    rqe_bounds = 0x1e,
    internal = 0x1f,
};

struct CqeLayout {
    Be32 header;
    Be32 length;
    Be32 word2;
    Be32 word3;

    [[nodiscard]] std::uint32_t qp() const { return bits(header, 30, 12); }
    [[nodiscard]] Status status() const { return static_cast<Status>(bits(header, 9, 5)); }
    [[nodiscard]] bool send_side() const { return bits(header, 4, 4) != 0; }
    [[nodiscard]] RdmaOp opcode() const { return static_cast<RdmaOp>(bits(header, 3, 0)); }
};
static_assert(sizeof(CqeLayout) == 16);

/// The header word. A card sets the out-of-order and software bits to 0.
constexpr std::uint32_t cqe_header(std::uint32_t qp, bool generation, std::uint8_t status, bool send_side,
                                   std::uint8_t opcode) {
    return (qp & 0x7ffff) << 12 | std::uint32_t{generation} << 10 | (status & 0x1fU) << 5 |
           std::uint32_t{send_side} << 4 | (opcode & 0xfU);
}
static_assert(cqe_header(0x20, true, 0, false, 3) == 0x00020403);
static_assert(cqe_header(0x20, false, 4, false, 0) == 0x00020080);

} // namespace t3sim::hw
