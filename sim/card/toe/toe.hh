// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The TCP offload engine: TP and the offload part of the firmware. The host sends CPL messages and firmware
// work requests, sim/tcp implements the protocol, and the RDMA engine owns the byte stream of a connection
// after RDMA_INIT.
//
// Identifiers (docs/hw/toe.md 1): the host allocates ATIDs (active opens) and STIDs (listeners), the card
// allocates TIDs. The host owns a TID from the message that announces it until TID_RELEASE.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "sim/card/base/faults.hh"
#include "sim/card/engines.hh"
#include "sim/card/state.hh"
#include "sim/core/counters.hh"
#include "sim/core/discard.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/recorder.hh"
#include "sim/tcp/params.hh"

namespace t3sim {

/// Parameters that the host programs through TP_* and MC5 registers. They may change at any time; values that
/// a connection has copied do not change.
struct ToeParams {
    tcp::Params tcp;
    /// TP_MTU_TABLE, as cxgb3 fills it.
    std::array<std::uint16_t, 16> mtus{88,   88,   256,  512,  576,  1024, 1280, 1492,
                                       1500, 2002, 2048, 4096, 4352, 8192, 9000, 9600};
    /// TP_MTU_PORT_TABLE.
    std::array<std::uint16_t, 2> port_mtu{1500, 1500};
    /// The TCAM's layout (docs/hw/memory.md 2): TIDs, then servers.
    std::uint32_t tids = 0x3d7c;
    std::uint32_t stid_base = 0x3d7c;
    std::uint32_t stids = 512;
    /// The NIC-mode bit of TP_IN_CONFIG is clear: SYNs for listeners are accepted (docs/hw/toe.md 8).
    bool offload_mode = true;
};

/// Variants of legal behaviour, for tests that drivers do not depend on one of them (docs/hw/toe.md 14).
struct ToeKnobs {
    /// Response queue for TP messages of odd TIDs instead of queue 0 [guess G7].
    std::optional<unsigned> odd_tid_queue;
    /// Send one ABORT_REQ_RSS with status 35 or 36 when retransmissions fail [guess G14].
    bool negative_advice = false;
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
    /// Restores the power-on state. Removes connections without sending a segment; keeps params and knobs.
    void reset();
    void record(Probe probe);

    /// Aborts every established connection, as if its retransmissions had failed.
    void abort_all();
    /// Reports negative advice for every established connection (CPL status 35).
    void advise_all();

    /// Limits in bytes, over all connections. Unsent and unacknowledged data is in the packet memory for
    /// transmit. Work requests that do not fit wait; above their limit the rings are not read. Each limit may
    /// be exceeded by one work request.
    static constexpr std::size_t send_memory = 64U << 20, work_request_memory = 16U << 20;
    /// Limit of half-open connections per listener: the host has not replied to the SYN, or the peer has not
    /// acknowledged the SYN|ACK [guess G53].
    static constexpr unsigned half_open_per_server = 1024;
    struct Memory {
        std::size_t sending = 0, work_requests = 0, receiving = 0;
    };
    [[nodiscard]] Memory memory() const;

    /// All TIDs so far are below it.
    [[nodiscard]] Tid tid_limit() const;
    [[nodiscard]] std::optional<ConnectionState> state(Tid tid) const;
    /// Nothing: there is no TCB.
    [[nodiscard]] std::optional<TcbBytes> tcb(Tid tid) const;

    /// The 46 words that cxgb3 reads through the TP MIB registers (docs/hw/registers.md 9), by word index.
    [[nodiscard]] std::uint32_t mib(unsigned word) const;

    /// The wire of a port accepts frames again (MacServices::ready_or_wait()).
    void resume(unsigned port);

    // ToeServices
    void offload_wr(unsigned offload_queue, Bytes wr, unsigned descriptors) override;
    void control_wr(unsigned control_queue, Bytes wr) override;
    [[nodiscard]] bool congested() override;
    bool frame_in(unsigned port, Bytes frame, const Packet* intact = nullptr) override;
    [[nodiscard]] bool takes_bursts() const override;
    void burst(bool on) override;

    // RdmaStream
    void send_record(Tid tid, Packet&& fpdu) override;
    [[nodiscard]] std::size_t send_space_or_wait(Tid tid) override;
    void send_fin(Tid tid) override;
    [[nodiscard]] std::uint32_t emss(Tid tid) const override;

private:
    struct Impl;
    Discard discard_;
    std::unique_ptr<Impl> impl_;
};

} // namespace t3sim
