// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The Ethernet path between rings and MACs: CPL_TX_PKT with checksum offload, segmentation and VLAN insertion
// on the way out; classification, VLAN extraction, RSS and CPL_RX_PKT on the way in.
#pragma once

#include <array>
#include <cstdint>

#include "sim/card/engines.hh"
#include "sim/card/tp.hh"
#include "sim/core/counters.hh"
#include "sim/core/recorder.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

/// A received packet on its way to the host.
struct RxPacket {
    unsigned queue = 0; ///< response queue
    std::uint8_t hash_type = 0;
    std::uint32_t hash = 0;
    std::array<std::uint8_t, 8> cpl{};
    std::array<Bytes, 2> frame; ///< the second piece follows the first
};

class PacketSink {
public:
    virtual ~PacketSink() = default;
    /// False: no room; the packet is lost.
    virtual bool post_packet(const RxPacket& packet) = 0;
};

class Nic {
public:
    Nic(RegisterBank& regs, Tp& tp, MacServices& macs, PacketSink& host, Counters& counters);

    /// A TUNNEL_TX_PKT work request; data of an SGL lies behind the header. The bytes are used as scratch.
    void transmit(MutableBytes wr);
    /// A frame of a port that is the NIC's.
    void receive(unsigned port, Bytes frame);
    void record(Probe probe) { probe_ = probe; }

private:
    void send(unsigned port, Bytes frame);
    void transmit_segments(unsigned port, MutableBytes frame, std::uint32_t control, std::uint32_t lso);

    RegisterBank& regs_;
    Tp& tp_;
    MacServices& macs_;
    PacketSink& host_;
    Probe probe_;
    Buffer segment_;
    Counter &tx_malformed_, &tx_packets_, &tx_lso_, &rx_packets_, &rx_no_room_;
};

} // namespace t3sim
