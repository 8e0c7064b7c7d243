// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// DDP segments and RDMAP headers (RFC 5041, RFC 5040; docs/hw/mpa.md 7): parsing with the checks that need no
// connection state, and writing.
#pragma once

#include "include/wire/ddp.h"
#include "include/wire/rdmap.h"
#include "sim/card/rnic/mpa.hh"
#include "sim/hw/cqe.hh"
#include "sim/hw/wr.hh"

namespace t3sim {

struct DdpSegment {
    bool last = false;
    hw::RdmaOp op = hw::RdmaOp::send;
    std::uint32_t stag = 0; // tagged: of the buffer; untagged: to invalidate
    std::uint64_t to = 0;   // tagged
    std::uint32_t qn = 0;   // untagged, as the next two
    std::uint32_t msn = 0;
    std::uint32_t mo = 0;
    Bytes payload{};
};

constexpr std::size_t tagged_header = sizeof(ddp_tagged_hdr);
constexpr std::size_t untagged_header = sizeof(ddp_untagged_hdr);

[[nodiscard]] bool is_tagged(hw::RdmaOp op);
[[nodiscard]] std::size_t ddp_header_size(hw::RdmaOp op);

/// Checks 1 to 8 of docs/hw/engine.md 5, in that order. *@p segment has the received opcode only if the
/// opcode check passed; otherwise "send", as the card reports it (docs/hw/engine.md 6).
[[nodiscard]] hw::Status parse_segment(Bytes ulpdu, MpaError mpa, DdpSegment* segment);

/// Writes the header of @p segment to @p at, which has ddp_header_size() bytes.
void write_header(std::uint8_t* at, const DdpSegment& segment);

struct ReadRequest {
    std::uint32_t sink_stag = 0;
    std::uint64_t sink_to = 0;
    std::uint32_t size = 0;
    std::uint32_t source_stag = 0;
    std::uint64_t source_to = 0;
};

[[nodiscard]] ReadRequest parse_read_request(Bytes body);
void write_read_request(std::uint8_t* at, const ReadRequest& request);

} // namespace t3sim
