// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/nic/inet.hh"

#include <array>

#include "sim/core/ones_complement.hh"

namespace t3sim::inet {

namespace {

constexpr std::size_t min_ip_header = 20, tcp_header = 20, udp_header = 8;
constexpr std::size_t ip_checksum_at = 10, ip_source_at = 12;

std::uint64_t pseudo_header(Bytes frame, const Ipv4& packet) {
    const auto length = static_cast<std::uint16_t>(packet.end - packet.payload);
    const std::uint8_t tail[] = {0, packet.protocol, static_cast<std::uint8_t>(length >> 8),
                                 static_cast<std::uint8_t>(length)};
    return ones_complement_add(ones_complement_add(0, frame.subspan(packet.ip + ip_source_at, 8)), tail);
}

std::uint16_t l4_sum(Bytes frame, const Ipv4& packet) {
    return ones_complement_fold(ones_complement_add(
        pseudo_header(frame, packet), frame.subspan(packet.payload, packet.end - packet.payload)));
}

void store(std::uint8_t* at, std::uint16_t raw) {
    std::memcpy(at, &raw, sizeof raw);
}

constexpr std::array<std::uint8_t, 40> rss_key = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                                  0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                                  0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                                  0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

constexpr std::size_t hash_input = 12;
using HashTable = std::array<std::array<std::uint32_t, 256>, hash_input>;

/// The contribution of each value of each input byte to the hash.
constexpr HashTable make_hash_table() {
    HashTable table{};
    for (std::size_t n = 0; n < hash_input; ++n) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            std::uint64_t window = 0; // the 32 bits of the key that start at this input bit
            for (std::size_t i = 0; i < 5; ++i)
                window = window << 8 | rss_key[n + i];
            const auto key = static_cast<std::uint32_t>(window >> (8 - bit));
            for (unsigned value = 0; value < 256; ++value)
                if ((value & 0x80U >> bit) != 0)
                    table[n][value] ^= key;
        }
    }
    return table;
}

} // namespace

std::optional<Ipv4> find_ipv4(Bytes frame) {
    std::size_t at = addresses;
    while (at + 2 + vlan_tag <= frame.size() && be16(&frame[at]) == type_vlan)
        at += vlan_tag;
    if (at + 2 + min_ip_header > frame.size() || be16(&frame[at]) != type_ipv4)
        return std::nullopt;
    at += 2;
    const std::size_t header = std::size_t{4} * (frame[at] & 0xfU);
    const std::size_t total = be16(&frame[at + 2]);
    if (frame[at] >> 4 != 4 || header < min_ip_header || total < header || at + total > frame.size())
        return std::nullopt;
    return Ipv4{.ip = at,
                .payload = at + header,
                .end = at + total,
                .protocol = frame[at + 9],
                .fragment = (be16(&frame[at + 6]) & 0x3fff) != 0};
}

std::optional<std::size_t> l4_checksum_at(const Ipv4& packet) {
    const std::size_t length = packet.end - packet.payload;
    if (packet.protocol == proto_tcp && length >= tcp_header)
        return packet.payload + 16;
    if (packet.protocol == proto_udp && length >= udp_header)
        return packet.payload + 6;
    return std::nullopt;
}

void put_ip_checksum(MutableBytes frame, const Ipv4& packet) {
    std::uint8_t* const at = &frame[packet.ip + ip_checksum_at];
    store(at, 0);
    store(at, static_cast<std::uint16_t>(~ones_complement_fold(
                  ones_complement_add(0, frame.subspan(packet.ip, packet.payload - packet.ip)))));
}

void put_l4_checksum(MutableBytes frame, const Ipv4& packet, std::size_t at) {
    store(&frame[at], 0);
    auto sum = static_cast<std::uint16_t>(~l4_sum(frame, packet));
    if (sum == 0 && packet.protocol == proto_udp)
        sum = 0xffff;
    store(&frame[at], sum);
}

bool l4_checksum_good(Bytes frame, const Ipv4& packet) {
    return l4_sum(frame, packet) == 0xffff;
}

std::uint32_t rss_hash(Bytes frame, const Ipv4& packet, bool with_ports) {
    static constexpr HashTable table = make_hash_table();
    std::uint32_t hash = 0;
    for (std::size_t i = 0; i < 8; ++i)
        hash ^= table[i][frame[packet.ip + ip_source_at + i]];
    if (with_ports && packet.end - packet.payload >= 4)
        for (std::size_t i = 0; i < 4; ++i)
            hash ^= table[8 + i][frame[packet.payload + i]];
    return hash;
}

} // namespace t3sim::inet
