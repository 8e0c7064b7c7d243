// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The Ethernet path between rings and MACs. Transmit: CPL_TX_PKT with checksum offload, segmentation and VLAN
// insertion. Receive: classification, VLAN extraction, RSS and CPL_RX_PKT.
#pragma once

#include <array>
#include <cstdint>

#include "sim/card/base/tp.hh"
#include "sim/card/engines.hh"
#include "sim/core/counters.hh"
#include "sim/core/recorder.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

/// A received packet for the host.
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
    /// False: no response credit or buffer; the packet is dropped.
    virtual bool post_packet(const RxPacket& packet) = 0;
    /// A busy port can accept the next request.
    virtual void port_ready([[maybe_unused]] unsigned port) {}
};

class Nic {
public:
    Nic(RegisterBank& regs, Tp& tp, MacServices& macs, PacketSink& host, Counters& counters);

    static constexpr unsigned ports = 2;

    /// Executes a TUNNEL_TX_PKT work request; the data of an SGL follows the header. Modifies the bytes. The
    /// request's port must not be busy.
    void transmit(MutableBytes wr);
    /// The port of a work request that starts with @p head.
    [[nodiscard]] static unsigned port_of(Bytes head);
    /// Whether a request of the port is incomplete because the wire is full: the next one must wait for
    /// PacketSink::port_ready().
    [[nodiscard]] bool busy(unsigned port) const { return jobs_[port].active; }
    [[nodiscard]] bool busy() const { return jobs_[0].active || jobs_[1].active; }
    /// The wire of a busy port accepts frames again.
    void resume(unsigned port);
    void reset();
    /// Receives a frame that does not belong to an offloaded connection.
    void receive(unsigned port, Bytes frame);
    void record(Probe probe) { probe_ = probe; }

private:
    /// A frame that waits for the wire, or a large TCP segment that has been sent in part.
    struct Job {
        bool active = false;
        bool segmented = false;
        Buffer frame; ///< the frame, while the job is active
        std::uint32_t control = 0;
        std::size_t ip = 0, tcp = 0, data = 0; ///< offsets of headers and payload
        std::size_t mss = 0;
        std::size_t done = 0;
        std::uint16_t count = 0;
    };

    void send(unsigned port, Bytes frame);
    [[nodiscard]] bool run(unsigned port, Job& job, Bytes frame);
    /// Stores @p frame in the port's job until the wire accepts frames.
    void defer(unsigned port, Job&& job, Bytes frame);
    void transmit_segments(unsigned port, Bytes frame, std::uint32_t control, std::uint32_t lso);

    RegisterBank& regs_;
    Tp& tp_;
    MacServices& macs_;
    PacketSink& host_;
    Probe probe_;
    Buffer segment_;
    std::array<Job, ports> jobs_;
    Counter &tx_malformed_, &tx_packets_, &tx_lso_, &rx_packets_, &rx_dropped_;
};

} // namespace t3sim
