// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The TCP offload engine: TP and the offload part of the firmware. The host speaks CPL messages and
// firmware work requests to it, the wire speaks TCP (sim/tcp), the RDMA engine takes a connection's byte
// stream over once the host has sent RDMA_INIT.
//
// Identifiers (offload.md 2): the host picks ATIDs (active opens) and STIDs (listeners), the card picks
// TIDs. A TID belongs to the host from the message that announces it until TID_RELEASE.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "sim/card/engines.hh"
#include "sim/card/faults.hh"
#include "sim/core/counters.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/recorder.hh"
#include "sim/tcp/params.hh"

namespace t3sim {

/// What the host programs through TP_* and MC5 registers. The card may change it at any time; what a
/// connection has taken over stays.
struct ToeParams {
    tcp::Params tcp;
    /// TP_MTU_TABLE, as cxgb3 fills it.
    std::array<std::uint16_t, 16> mtus{88,   88,   256,  512,  576,  1024, 1280, 1492,
                                       1500, 2002, 2048, 4096, 4352, 8192, 9000, 9600};
    /// TP_MTU_PORT_TABLE.
    std::array<std::uint16_t, 2> port_mtu{1500, 1500};
    /// The TCAM's layout (nic.md 9.2): TIDs, then servers.
    std::uint32_t tids = 0x3d7c;
    std::uint32_t stid_base = 0x3d7c;
    std::uint32_t stids = 512;
    /// The NIC-mode bit of TP_IN_CONFIG is clear: SYNs for servers are taken (offload.md 10.3).
    bool offload_mode = true;
};

/// Legal behaviour that drivers must not depend on, to be turned on by tests (offload.md 10.10).
struct ToeKnobs {
    /// TP messages of odd TIDs go to this response queue instead of queue 0 (G7).
    std::optional<unsigned> odd_tid_queue;
    /// One ABORT_REQ_RSS with status 35 or 36 when retransmissions fail (G14).
    bool negative_advice = false;
    /// ABORT messages once instead of twice (G12), as T3A does.
    bool single_aborts = false;
};

class Toe final : public ToeServices, public RdmaStream {
public:
    /// All references must outlive the Toe; none is used by the constructor.
    Toe(EventQueue& events, SgeServices& sge, MacServices& mac, RnicServices& rnic, Faults& faults,
        Counters& counters);
    ~Toe() override;
    Toe(const Toe&) = delete;
    Toe& operator=(const Toe&) = delete;

    [[nodiscard]] ToeParams& params();
    [[nodiscard]] ToeKnobs& knobs();
    /// Power-on state. Connections vanish without a word on the wire; params and knobs stay.
    void reset();
    void record(Probe probe);

    /// The card gives every established connection up, as if its retransmissions had failed.
    void abort_all();
    /// The card tells of every established connection that the next hop may be stale (CPL status 35).
    void advise_all();

    /// Bounds, in bytes. Data of all connections that waits to be sent or acknowledged lies in the packet
    /// memory for transmit; what does not fit waits in work requests, and past their bound the rings are left
    /// alone. Each may be exceeded by one work request.
    static constexpr std::size_t send_memory = 64U << 20, work_request_memory = 16U << 20;
    /// SYNs of one server that are not answered by the host or whose SYN|ACK is not acknowledged [guess G53].
    static constexpr unsigned half_open_per_server = 1024;
    struct Memory {
        std::size_t sending = 0, work_requests = 0, receiving = 0;
    };
    [[nodiscard]] Memory memory() const;

    /// The 46 words that cxgb3 reads through the TP MIB registers (offload.md 8.5), by word index.
    [[nodiscard]] std::uint32_t mib(unsigned word) const;

    /// The wire of a port has room again (MacServices::room()).
    void resume(unsigned port);

    // ToeServices
    void offload_wr(unsigned offload_queue, Bytes wr, unsigned descriptors) override;
    void control_wr(unsigned control_queue, Bytes wr) override;
    [[nodiscard]] bool congested() override;
    bool frame_in(unsigned port, Bytes frame) override;

    // RdmaStream
    void send_record(Tid tid, Buffer&& fpdu) override;
    [[nodiscard]] std::size_t send_room(Tid tid) const override;
    void send_fin(Tid tid) override;
    [[nodiscard]] std::uint32_t emss(Tid tid) const override;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace t3sim
