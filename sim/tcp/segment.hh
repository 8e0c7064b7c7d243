// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Conversion between IPv4/TCP packets and Segment. No state.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "sim/core/bytes.hh"
#include "sim/core/packet.hh"
#include "sim/tcp/params.hh"
#include "sim/tcp/seq.hh"

namespace t3sim::tcp {

enum Flag : std::uint8_t {
    flag_fin = 0x01,
    flag_syn = 0x02,
    flag_rst = 0x04,
    flag_psh = 0x08,
    flag_ack = 0x10,
    flag_urg = 0x20,
    flag_ece = 0x40,
    flag_cwr = 0x80
};

/// A segment from the view of this end: tuple.local is the end that sends or receives it.
struct Segment {
    FourTuple tuple = {};
    Seq seq = {}, ack = {};
    std::uint8_t flags = 0;
    std::uint16_t window = 0; // as in the header, not scaled
    std::uint8_t tos = 0;
    // Options, processed and sent only with SYN.
    std::optional<std::uint16_t> mss = {};
    std::optional<std::uint8_t> window_scale = {};
    bool sack_permitted = false;
    bool timestamps = false;
    Bytes payload = {};
    const Packet* intact =
        nullptr; // received: the payload's packet, if it is intact. Its sums may be missing

    [[nodiscard]] bool has(Flag f) const { return (flags & f) != 0; }
    /// Length in sequence space.
    [[nodiscard]] std::uint32_t length() const {
        return static_cast<std::uint32_t>(payload.size()) + has(flag_syn) + has(flag_fin);
    }
};

/// The fields for demultiplexing, from a packet that is not validated yet.
struct Addressed {
    FourTuple tuple;
    std::uint8_t flags;
};

/// Nothing if @p packet is not an unfragmented IPv4 packet with a complete TCP header.
std::optional<Addressed> peek(Bytes packet);

/// Stores the segment of a packet that peek() accepted in @p to, which is a new one. False: lengths, a
/// checksum or the options are invalid. @p intact: the packet, whose checksums are not checked; or nullptr.
[[nodiscard]] bool decode(Bytes packet, Segment& to, const Packet* intact = nullptr);

/// The same in an optional, for tests. On the path of each segment its copy costs more than the parsing:
/// fields are stored one by one and loaded as vectors.
inline std::optional<Segment> decode(Bytes packet) {
    std::optional<Segment> to(std::in_place);
    if (!decode(packet, *to))
        to.reset();
    return to;
}

constexpr std::size_t max_headers = 20 + 60, data_headers = 20 + 20;
/// Size of the IPv4 and TCP header of a segment; only with SYN there are options.
std::size_t header_size(const Segment& segment);
/// Writes the headers to @p at, checksums included. DF is set.
void encode(const Segment& segment, std::uint16_t ip_id, std::uint8_t ttl, std::uint8_t* at);
/// The same, but the checksum of TCP as Packet::omit_checksum() expects it.
void encode_without_payload(const Segment& segment, std::uint16_t ip_id, std::uint8_t ttl, std::uint8_t* at);

/// The same in an array, for tests.
struct Headers {
    std::array<std::uint8_t, max_headers> bytes;
    std::size_t size;
    operator Bytes() const { return {bytes.data(), size}; }
};
inline Headers encode(const Segment& segment, std::uint16_t ip_id, std::uint8_t ttl) {
    Headers h{.bytes = {}, .size = header_size(segment)};
    encode(segment, ip_id, ttl, h.bytes.data());
    return h;
}

/// One's complement sum of big-endian 16-bit words, not folded; an odd last byte is the high half of a word.
std::uint64_t sum(Bytes data, std::uint64_t start = 0);
/// Folded and inverted: the value of a checksum field, or 0 for a range that includes a correct checksum.
std::uint16_t fold(std::uint64_t sum);

} // namespace t3sim::tcp
