// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "iwarp.hh"

#include <array>
#include <cstring>

namespace probe {

namespace {

void put16(Bytes& out, unsigned value) {
    out.push_back(static_cast<uint8_t>(value >> 8));
    out.push_back(static_cast<uint8_t>(value));
}
void put32(Bytes& out, uint32_t value) {
    put16(out, value >> 16);
    put16(out, value & 0xffff);
}
void put64(Bytes& out, uint64_t value) {
    put32(out, static_cast<uint32_t>(value >> 32));
    put32(out, static_cast<uint32_t>(value));
}

// CRC32c of RFC 3720; RFC 5044 sends it with its lowest byte first.
uint32_t crc32c(const Bytes& bytes) {
    constexpr uint32_t reversed = 0x82f63b78;
    uint32_t crc = ~0U;
    for (const uint8_t byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? reversed : 0);
    }
    return ~crc;
}

unsigned queue_of(uint8_t opcode) {
    return opcode == RDMAP_READ_REQUEST ? RDMAP_QN_READ_REQUEST
           : opcode == RDMAP_TERMINATE  ? RDMAP_QN_TERMINATE
                                        : RDMAP_QN_SEND;
}

size_t padded(size_t ulpdu) {
    return (MPA_LENGTH_SIZE + ulpdu + MPA_ALIGNMENT - 1) / MPA_ALIGNMENT * MPA_ALIGNMENT;
}

} // namespace

std::string hex(const Bytes& bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (const uint8_t byte : bytes) {
        out += digits[byte >> 4];
        out += digits[byte & 15];
    }
    return out;
}

Bytes from_hex(const std::string& text) {
    Bytes out;
    for (size_t i = 0; i + 1 < text.size(); i += 2)
        out.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
    return out;
}

uint16_t be16(const uint8_t* at) {
    return static_cast<uint16_t>(at[0] << 8 | at[1]);
}
uint32_t be32(const uint8_t* at) {
    return uint32_t{be16(at)} << 16 | be16(at + 2);
}
uint64_t be64(const uint8_t* at) {
    return uint64_t{be32(at)} << 32 | be32(at + 4);
}

Bytes startup_frame(const char* key, const Startup& startup) {
    Bytes out(key, key + MPA_KEY_SIZE);
    out.push_back(startup.flags);
    out.push_back(startup.revision);
    const bool enhanced = startup.flags & MPA_FLAG_ENHANCED;
    put16(out, enhanced ? sizeof(mpa_v2_params) : 0);
    if (enhanced) {
        put16(out, startup.ird);
        put16(out, startup.ord);
    }
    return out;
}

std::optional<Startup> take_startup(Bytes& stream) {
    if (stream.size() < sizeof(mpa_frame))
        return std::nullopt;
    const size_t data = be16(&stream[18]);
    if (stream.size() < sizeof(mpa_frame) + data)
        return std::nullopt;
    Startup out{stream[16], stream[17], 0, 0};
    if (out.flags & MPA_FLAG_ENHANCED && data >= sizeof(mpa_v2_params)) {
        out.ird = be16(&stream[20]);
        out.ord = be16(&stream[22]);
    }
    stream.erase(stream.begin(), stream.begin() + static_cast<ptrdiff_t>(sizeof(mpa_frame) + data));
    return out;
}

Bytes fpdu(const Segment& segment) {
    Bytes ulpdu;
    ulpdu.push_back(static_cast<uint8_t>((segment.tagged() ? DDP_CTRL_TAGGED : 0) |
                                         (segment.last ? DDP_CTRL_LAST : 0) | DDP_VERSION));
    ulpdu.push_back(static_cast<uint8_t>(RDMAP_VERSION << RDMAP_CTRL_VERSION_SHIFT | segment.opcode));
    put32(ulpdu, segment.stag);
    if (segment.tagged()) {
        put64(ulpdu, segment.to);
    } else {
        put32(ulpdu, queue_of(segment.opcode));
        put32(ulpdu, segment.msn);
        put32(ulpdu, segment.mo);
    }
    ulpdu.insert(ulpdu.end(), segment.payload.begin(), segment.payload.end());
    Bytes out;
    put16(out, static_cast<unsigned>(ulpdu.size()));
    out.insert(out.end(), ulpdu.begin(), ulpdu.end());
    out.resize(padded(ulpdu.size()));
    const uint32_t crc = crc32c(out);
    for (unsigned shift = 0; shift < 32; shift += 8)
        out.push_back(static_cast<uint8_t>(crc >> shift));
    return out;
}

std::vector<Segment> take_fpdus(Bytes& stream) {
    std::vector<Segment> out;
    for (;;) {
        if (stream.size() < MPA_LENGTH_SIZE)
            return out;
        const size_t length = be16(stream.data());
        const size_t whole = padded(length) + MPA_CRC_SIZE;
        if (stream.size() < whole)
            return out;
        const uint8_t* at = stream.data() + MPA_LENGTH_SIZE;
        Segment segment;
        segment.opcode = at[1] & RDMAP_CTRL_OPCODE_MASK;
        segment.last = at[0] & DDP_CTRL_LAST;
        segment.stag = be32(at + 2);
        size_t header = sizeof(ddp_untagged_hdr);
        if (at[0] & DDP_CTRL_TAGGED) {
            segment.to = be64(at + 6);
            header = sizeof(ddp_tagged_hdr);
        } else {
            segment.msn = be32(at + 10);
            segment.mo = be32(at + 14);
        }
        if (length > header)
            segment.payload.assign(at + header, at + length);
        out.push_back(segment);
        stream.erase(stream.begin(), stream.begin() + static_cast<ptrdiff_t>(whole));
    }
}

} // namespace probe
