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
    /// A port that was busy can take the next request.
    virtual void port_ready([[maybe_unused]] unsigned port) {}
};

class Nic {
public:
    Nic(RegisterBank& regs, Tp& tp, MacServices& macs, PacketSink& host, Counters& counters);

    static constexpr unsigned ports = 2;

    /// A TUNNEL_TX_PKT work request; data of an SGL lies behind the header. The bytes are used as scratch.
    /// The request's port must not be busy.
    void transmit(MutableBytes wr);
    /// The port of a work request whose first bytes are @p head, if it has one.
    [[nodiscard]] static unsigned port_of(Bytes head);
    /// A request of the port is under way, because the wire does not take more: the next one has to wait for
    /// PacketSink::port_ready().
    [[nodiscard]] bool busy(unsigned port) const { return jobs_[port].active; }
    [[nodiscard]] bool busy() const { return jobs_[0].active || jobs_[1].active; }
    /// The wire of a busy port has room.
    void resume(unsigned port);
    void reset();
    /// A frame of a port that is the NIC's.
    void receive(unsigned port, Bytes frame);
    void record(Probe probe) { probe_ = probe; }

private:
    /// A frame that waits for room, or a big TCP segment of which some segments have been sent.
    struct Job {
        bool active = false;
        bool segmented = false;
        Buffer kept; ///< the frame, while the job is active
        std::uint32_t control = 0;
        std::size_t ip = 0, tcp = 0, data = 0; ///< where headers and payload begin
        std::size_t mss = 0;
        std::size_t done = 0;
        std::uint16_t count = 0;
    };

    void send(unsigned port, Bytes frame);
    [[nodiscard]] bool run(unsigned port, Job& job, Bytes frame);
    /// What is left of @p frame waits for room.
    void keep(unsigned port, Job&& job, Bytes frame);
    void transmit_segments(unsigned port, Bytes frame, std::uint32_t control, std::uint32_t lso);

    RegisterBank& regs_;
    Tp& tp_;
    MacServices& macs_;
    PacketSink& host_;
    Probe probe_;
    Buffer segment_;
    std::array<Job, ports> jobs_;
    Counter &tx_malformed_, &tx_packets_, &tx_lso_, &rx_packets_, &rx_no_room_;
};

} // namespace t3sim
