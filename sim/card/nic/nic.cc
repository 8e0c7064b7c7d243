// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/nic/nic.hh"

#include <algorithm>

#include "sim/card/nic/inet.hh"
#include "sim/hw/sge.hh"

namespace t3sim {

namespace {

enum HashType : std::uint8_t { no_hash = 0, hash_addresses = 1, hash_ports = 2 };

constexpr unsigned vlan_extraction_bit = 12; // of TP_OUT_CONFIG, for port 0

// TCP header fields that segmentation changes.
constexpr std::size_t tcp_sequence = 4, tcp_flags = 13;
constexpr std::uint8_t tcp_fin = 0x01, tcp_psh = 0x08, tcp_cwr = 0x80;

/// Of the smallest MTU of TP_MTU_TABLE, with headers without options. [guess G52]
constexpr std::size_t min_mss = 88 - 40;

/// Moves the addresses down by the size of a tag and writes the tag after them. The caller provides the space
/// in front of the frame.
MutableBytes insert_tag(MutableBytes frame, std::uint16_t tci) {
    std::uint8_t* const start = frame.data() - inet::vlan_tag;
    std::memmove(start, frame.data(), inet::addresses);
    put_be16(start + inet::addresses, inet::type_vlan);
    put_be16(start + inet::addresses + 2, tci);
    return {start, frame.size() + inet::vlan_tag};
}

} // namespace

Nic::Nic(RegisterBank& regs, Tp& tp, MacServices& macs, PacketSink& host, Counters& counters)
    : regs_(regs), tp_(tp), macs_(macs), host_(host), tx_malformed_(counters["nic.tx_malformed"]),
      tx_packets_(counters["nic.tx_packets"]), tx_lso_(counters["nic.tx_lso"]),
      rx_packets_(counters["nic.rx_packets"]), rx_dropped_(counters["nic.rx_dropped"]) {}

void Nic::transmit(MutableBytes wr) {
    constexpr std::size_t plain_at = 2 * hw::flit, lso_at = 3 * hw::flit;
    const std::uint32_t control = wr.size() >= plain_at ? be32(&wr[hw::flit]) : 0;
    const auto opcode = static_cast<hw::Cpl>(control >> 24);
    const bool lso = opcode == hw::Cpl::tx_pkt_lso;
    const std::size_t frame_at = lso ? lso_at : plain_at;
    const std::size_t length = wr.size() >= frame_at ? hw::cpl::tx_length(be32(&wr[hw::flit + 4])) : 0;
    const unsigned port = hw::cpl::tx_interface(control);
    if ((!lso && opcode != hw::Cpl::tx_pkt) || length < inet::eth_header || length > wr.size() - frame_at ||
        port > 1) {
        ++tx_malformed_;
        return;
    }
    MutableBytes frame = wr.subspan(frame_at, length);
    if (lso) {
        ++tx_lso_;
        transmit_segments(port, frame, control, be32(&wr[2 * hw::flit + 4]));
        return;
    }
    if ((control & (hw::cpl::tx_l4_csum_off | hw::cpl::tx_ip_csum_off)) !=
        (hw::cpl::tx_l4_csum_off | hw::cpl::tx_ip_csum_off)) {
        if (const auto packet = inet::find_ipv4(frame)) {
            if ((control & hw::cpl::tx_ip_csum_off) == 0)
                inet::put_ip_checksum(frame, *packet);
            const auto at = inet::l4_checksum_at(*packet);
            if ((control & hw::cpl::tx_l4_csum_off) == 0 && at && !packet->fragment)
                inet::put_l4_checksum(frame, *packet, *at);
        }
    }
    if ((control & hw::cpl::tx_vlan_valid) != 0)
        frame = insert_tag(frame, hw::cpl::tx_vlan(control));
    if (macs_.ready_or_wait(port, MacServices::User::nic)) {
        ++tx_packets_;
        send(port, frame);
    } else {
        defer(port, {}, frame);
    }
}

unsigned Nic::port_of(Bytes head) {
    return hw::cpl::tx_interface(be32(&head[hw::flit])) % ports;
}

void Nic::defer(unsigned port, Job&& job, Bytes frame) {
    job.frame.assign(frame.begin(), frame.end());
    job.active = true;
    jobs_[port] = std::move(job);
}

void Nic::resume(unsigned port) {
    Job& job = jobs_[port];
    if (!job.active || !run(port, job, job.frame))
        return;
    job = {};
    host_.port_ready(port);
}

void Nic::reset() {
    jobs_ = {};
}

/// Splits one large TCP segment into segments of at most MSS bytes, each with its own lengths, IP id,
/// sequence number and checksums. FIN and PSH are set only in the last one, CWR only in the first.
void Nic::transmit_segments(unsigned port, Bytes frame, std::uint32_t control, std::uint32_t lso) {
    Job job{.segmented = true, .frame = {}, .control = control};
    job.ip = inet::eth_header + (hw::cpl::lso_eth_type(lso) == 1 ? inet::vlan_tag : 0);
    job.tcp = job.ip + std::size_t{4} * hw::cpl::lso_ip_words(lso);
    job.data = job.tcp + std::size_t{4} * hw::cpl::lso_tcp_words(lso);
    if (job.tcp - job.ip < 20 || job.data - job.tcp < 20 || job.data > frame.size() ||
        hw::cpl::lso_mss(lso) == 0 || hw::cpl::lso_eth_type(lso) > 1) {
        ++tx_malformed_;
        return;
    }
    job.mss = std::max<std::size_t>(hw::cpl::lso_mss(lso), min_mss);
    if (!run(port, job, frame))
        defer(port, std::move(job), frame);
}

/// Sends the unsent part of @p frame while the wire accepts it. False: part of it remains.
bool Nic::run(unsigned port, Job& job, Bytes frame) {
    if (!job.segmented) {
        if (!macs_.ready_or_wait(port, MacServices::User::nic))
            return false;
        ++tx_packets_;
        send(port, frame);
        return true;
    }
    const std::size_t data = job.data, size = frame.size() - data;
    const std::uint32_t sequence = be32(&frame[job.tcp + tcp_sequence]);
    const std::uint16_t ip_id = be16(&frame[job.ip + 4]);
    const std::uint8_t flags = frame[job.tcp + tcp_flags];
    const bool tag = (job.control & hw::cpl::tx_vlan_valid) != 0;

    segment_.resize(inet::vlan_tag + data + job.mss);
    for (; job.done < size || job.count == 0; ++job.count) {
        if (!macs_.ready_or_wait(port, MacServices::User::nic))
            return false;
        const std::size_t part = std::min(job.mss, size - job.done);
        const bool last = job.done + part == size;
        MutableBytes segment = MutableBytes(segment_).subspan(inet::vlan_tag, data + part);
        std::memcpy(segment.data(), frame.data(), data);
        std::memcpy(&segment[data], frame.data() + data + job.done, part);
        put_be16(&segment[job.ip + 2], static_cast<std::uint16_t>(data - job.ip + part));
        put_be16(&segment[job.ip + 4], static_cast<std::uint16_t>(ip_id + job.count));
        put_be32(&segment[job.tcp + tcp_sequence], sequence + static_cast<std::uint32_t>(job.done));
        segment[job.tcp + tcp_flags] = static_cast<std::uint8_t>(flags & ~(last ? 0 : tcp_fin | tcp_psh) &
                                                                 ~(job.count == 0 ? 0 : tcp_cwr));
        const inet::Ipv4 packet{.ip = job.ip,
                                .payload = job.tcp,
                                .end = data + part,
                                .protocol = inet::proto_tcp,
                                .fragment = false};
        inet::put_ip_checksum(segment, packet);
        inet::put_l4_checksum(segment, packet, job.tcp + 16);
        if (tag)
            segment = insert_tag(segment, hw::cpl::tx_vlan(job.control));
        ++tx_packets_;
        send(port, segment);
        job.done += part;
    }
    return true;
}

void Nic::send(unsigned port, Bytes frame) {
    if (probe_) [[unlikely]]
        probe_({.kind = EventKind::frame_out, .unit = static_cast<std::uint16_t>(port)}, frame);
    macs_.transmit(port, Packet::copy(frame));
}

void Nic::receive(unsigned port, Bytes frame) {
    if (probe_) [[unlikely]]
        probe_({.kind = EventKind::frame_in, .unit = static_cast<std::uint16_t>(port)}, frame);
    RxPacket packet;
    packet.cpl[0] = static_cast<std::uint8_t>(hw::Cpl::rx_pkt);
    packet.cpl[1] = static_cast<std::uint8_t>(port);
    if (const auto ip = inet::find_ipv4(frame)) {
        const bool ports = !ip->fragment && inet::l4_checksum_at(*ip).has_value();
        const bool tcp = ports && ip->protocol == inet::proto_tcp;
        // A UDP checksum of 0 means no checksum.
        if (ip->fragment)
            packet.cpl[1] |= hw::cpl::rx_fragment;
        else if (ports && (tcp || be16(&frame[ip->payload + 6]) != 0) && inet::l4_checksum_good(frame, *ip)) {
            packet.cpl[1] |= hw::cpl::rx_csum_valid;
            put_be16(&packet.cpl[2], 0xffff);
        }
        packet.hash_type = tcp ? hash_ports : hash_addresses;
        packet.hash = inet::rss_hash(frame, *ip, tcp);
    }
    packet.frame[0] = frame;
    if (frame.size() >= inet::eth_header + inet::vlan_tag &&
        be16(&frame[inet::addresses]) == inet::type_vlan &&
        (regs_.peek(reg::TP_OUT_CONFIG) >> (vlan_extraction_bit + port) & 1) != 0) {
        packet.cpl[1] |= hw::cpl::rx_vlan_valid;
        put_be16(&packet.cpl[4], be16(&frame[inet::addresses + 2]));
        packet.frame = {frame.first(inet::addresses), frame.subspan(inet::addresses + inet::vlan_tag)};
    }
    put_be16(&packet.cpl[6], static_cast<std::uint16_t>(packet.frame[0].size() + packet.frame[1].size()));
    packet.queue = tp_.rss_queue(port, packet.hash);
    if (host_.post_packet(packet)) {
        ++rx_packets_;
    } else {
        ++rx_dropped_;
        tp_.count_congestion_drop(port);
    }
}

} // namespace t3sim
