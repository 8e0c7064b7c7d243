// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Frame parsing for the NIC path: offsets of IPv4, TCP and UDP headers, checksums, the RSS hash.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/core/bytes.hh"

namespace t3sim::inet {

constexpr std::size_t eth_header = 14, vlan_tag = 4, addresses = 12;
constexpr std::uint16_t type_vlan = 0x8100, type_ipv4 = 0x0800;
constexpr std::uint8_t proto_tcp = 6, proto_udp = 17;

/// An IPv4 packet in a frame; its lengths have been checked against the frame.
struct Ipv4 {
    std::size_t ip;      ///< offset of the IP header, after any VLAN tags
    std::size_t payload; ///< offset after the IP header
    std::size_t end;     ///< offset after the packet (the frame may be padded)
    std::uint8_t protocol;
    bool fragment;
};
std::optional<Ipv4> find_ipv4(Bytes frame);

/// Offset of the TCP or UDP checksum; nothing if there is no such header or it is incomplete.
std::optional<std::size_t> l4_checksum_at(const Ipv4& packet);

/// Writes the IPv4 header checksum, or the TCP/UDP one (a UDP checksum of 0 as 0xffff).
void put_ip_checksum(MutableBytes frame, const Ipv4& packet);
void put_l4_checksum(MutableBytes frame, const Ipv4& packet, std::size_t at);

/// Whether pseudo-header and segment, checksum included, add up to all ones.
bool l4_checksum_good(Bytes frame, const Ipv4& packet);

/// Toeplitz hash of source and destination address and, if @p with_ports, ports. Drivers never write the
/// card's key registers and their reset value is not documented; this is the key of Microsoft's RSS
/// specification. [guess G43]
std::uint32_t rss_hash(Bytes frame, const Ipv4& packet, bool with_ports);

} // namespace t3sim::inet
