// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/rnic/ddp.hh"

#include <array>
#include <endian.h>

namespace t3sim {
namespace {

struct OpcodeRow {
    bool tagged;
    std::uint32_t qn;
};

constexpr std::array<OpcodeRow, 8> opcodes{{
    {true, 0},                      // write
    {false, RDMAP_QN_READ_REQUEST}, // read request
    {true, 0},                      // read response
    {false, RDMAP_QN_SEND},         // send
    {false, RDMAP_QN_SEND},         // send with invalidate
    {false, RDMAP_QN_SEND},         // send with solicited event
    {false, RDMAP_QN_SEND},         // send with both
    {false, RDMAP_QN_TERMINATE},    // terminate
}};

const OpcodeRow& row(hw::RdmaOp op) {
    return opcodes[static_cast<std::size_t>(op)];
}

template <typename T> T copy(Bytes from) {
    T t;
    std::memcpy(&t, from.data(), sizeof t);
    return t;
}

hw::Status status_of(MpaError error) {
    switch (error) {
    case MpaError::marker:
        return hw::Status::marker;
    case MpaError::crc:
        return hw::Status::crc;
    case MpaError::none:
        break;
    }
    return hw::Status::success;
}

} // namespace

bool is_tagged(hw::RdmaOp op) {
    return row(op).tagged;
}

std::size_t ddp_header_size(hw::RdmaOp op) {
    return is_tagged(op) ? tagged_header : untagged_header;
}

hw::Status parse_segment(Bytes ulpdu, MpaError mpa, DdpSegment* segment) {
    *segment = {};
    const bool tagged = !ulpdu.empty() && ulpdu[0] & DDP_CTRL_TAGGED;
    const std::size_t header = tagged ? tagged_header : untagged_header;
    if (ulpdu.size() < header) // a ULPDU is never too long: the length field has 16 bits
        return hw::Status::pdu_length;
    if (mpa != MpaError::none)
        return status_of(mpa);
    if ((ulpdu[0] & DDP_CTRL_VERSION_MASK) != DDP_VERSION)
        return hw::Status::ddp_version;
    if (ulpdu[1] >> RDMAP_CTRL_VERSION_SHIFT != RDMAP_VERSION)
        return hw::Status::rdmap_version;
    const unsigned opcode = ulpdu[1] & RDMAP_CTRL_OPCODE_MASK;
    if (opcode >= opcodes.size())
        return hw::Status::rdmap_opcode;

    segment->op = static_cast<hw::RdmaOp>(opcode);
    segment->last = ulpdu[0] & DDP_CTRL_LAST;
    segment->payload = ulpdu.subspan(header);
    if (tagged != opcodes[opcode].tagged)
        return hw::Status::tagged_bit;
    if (tagged) {
        const auto h = copy<ddp_tagged_hdr>(ulpdu);
        segment->stag = be32toh(h.stag);
        segment->to = be64toh(h.to);
        return hw::Status::success;
    }
    const auto h = copy<ddp_untagged_hdr>(ulpdu);
    segment->stag = be32toh(h.ulp);
    segment->qn = be32toh(h.qn);
    segment->msn = be32toh(h.msn);
    segment->mo = be32toh(h.mo);
    return segment->qn == opcodes[opcode].qn ? hw::Status::success : hw::Status::queue_number;
}

void write_header(std::uint8_t* at, const DdpSegment& segment) {
    const auto ddp = static_cast<std::uint8_t>(DDP_VERSION | (segment.last ? DDP_CTRL_LAST : 0));
    const auto rdmap = static_cast<std::uint8_t>(RDMAP_VERSION << RDMAP_CTRL_VERSION_SHIFT |
                                                 static_cast<unsigned>(segment.op));
    if (is_tagged(segment.op)) {
        const ddp_tagged_hdr h{static_cast<std::uint8_t>(ddp | DDP_CTRL_TAGGED), rdmap, htobe32(segment.stag),
                               htobe64(segment.to)};
        std::memcpy(at, &h, sizeof h);
    } else {
        const ddp_untagged_hdr h{ddp,
                                 rdmap,
                                 htobe32(segment.stag),
                                 htobe32(row(segment.op).qn),
                                 htobe32(segment.msn),
                                 htobe32(segment.mo)};
        std::memcpy(at, &h, sizeof h);
    }
}

ReadRequest parse_read_request(Bytes body) {
    const auto r = copy<rdmap_read_request>(body);
    return {be32toh(r.sink_stag), be64toh(r.sink_to), be32toh(r.size), be32toh(r.source_stag),
            be64toh(r.source_to)};
}

void write_read_request(std::uint8_t* at, const ReadRequest& request) {
    const rdmap_read_request r{htobe32(request.sink_stag), htobe64(request.sink_to), htobe32(request.size),
                               htobe32(request.source_stag), htobe64(request.source_to)};
    std::memcpy(at, &r, sizeof r);
}

} // namespace t3sim
