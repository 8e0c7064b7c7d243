// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The interfaces between the engines of the card, each of which has its own files:
//
//   Sge    host rings: egress contexts, free lists, response queues, completion queues, doorbells, interrupts
//   Nic    Ethernet: transmit with offloads, classification, RSS                      (docs/hw/ethernet.md)
//   Mac    Ethernet ports: filters, statistics, the cable                             (docs/hw/ethernet.md)
//   Toe    offloaded TCP: L2T, SMT, listeners, TIDs, CPL messages, firmware WRs       (docs/hw/toe.md)
//   Rnic   RDMA: QP rings, TPT/PBL/RQT, MPA, DDP, RDMAP, CQEs, async events           (docs/hw/engine.md)
//
// Sge, Toe and Rnic call each other, and Nic and Toe call the Macs, only through these interfaces. The Sge
// calls the Nic directly, the Nic calls the Sge through PacketSink (nic.hh). The Card (card.hh) connects all
// and implements MacServices. "docs/hw/cq.md 2" is section 2 of that chapter of the hardware manual.
#pragma once

#include <array>
#include <cstdint>

#include "sim/core/bytes.hh"
#include "sim/core/packet.hh"

namespace t3sim {

using Tid = std::uint32_t;
using QpId = std::uint32_t;
using CqId = std::uint32_t;

constexpr std::size_t slot_size = 128; // an egress descriptor, or a QP ring slot
using Slot = std::array<std::uint8_t, slot_size>;

/// A completion queue entry, or its copy in an async event; word numbers of docs/hw/cq.md 2.
struct Cqe {
    QpId qp = 0;
    std::uint8_t status = 0; // docs/hw/cq.md 5
    bool send_side = false;  // "type" in docs/hw/cq.md 2: 1 = send side
    std::uint8_t opcode = 0;
    std::uint32_t length = 0;
    std::uint32_t word2 = 0; // STag, or high half of the WR id; the memory words read as big-endian
    std::uint32_t word3 = 0; // MSN, or low half of the WR id
};

/// Services of the SGE for the other engines.
class SgeServices {
public:
    virtual ~SgeServices() = default;

    /// Delivers a CPL message to the host. @p cpl starts with the opcode word. The form (immediate or
    /// free-list buffers) follows docs/hw/sge.md 7 [guess G8]. If the ring has no credit or the free list no
    /// buffer, the message waits in order, up to the limits of Responses.
    /// RDMA_TERMINATE (0xa2) has no opcode word in memory: the TID of @p cpl's first word goes into the hash
    /// word of the RSS header, with the body's length in flits in bits 7:0; the body starts after that word.
    virtual void post_cpl(unsigned response_queue, Bytes cpl) = 0;
    /// Whether so many bytes wait for the host that no more data should be accepted from the wire.
    [[nodiscard]] virtual bool full([[maybe_unused]] unsigned response_queue) const { return false; }

    /// Writes a completion to a CQ ring and, if the CQ is armed for it, posts the async event
    /// (docs/hw/cq.md 10). @p solicited: a receive of opcode 5 or 6.
    virtual void complete(CqId cq, const Cqe& cqe, bool solicited) = 0;

    /// Posts an async event without a CQE: errors, NOTIFY requests, the control CQ (docs/hw/events.md 2).
    virtual void async_event(CqId cq, const Cqe& cqe) = 0;

    /// Sets up the type-0 egress context of a QP with index 0 and generation 1 (docs/hw/engine.md 7).
    virtual void open_qp_context(QpId qp, Tid tid, std::uint64_t ring_base, std::uint32_t slots) = 0;
    virtual void invalidate_qp_context(QpId qp) = 0;

    /// busy: the ring was not read, because the response queue is congested; RnicServices::doorbell()
    /// follows.
    enum class Fetch { slot, empty, busy, bus_error, invalid_context };
    /// Reads the next slot of a type-0 context's ring if both of its generations are valid, and advances the
    /// index.
    virtual Fetch fetch_slot(QpId context, Slot& slot) = 0;
    /// Moves the index back by one: the next fetch_slot() returns the same slot again (a WR that must wait).
    virtual void unfetch_slot(QpId context) = 0;

    /// After ToeServices::congested() returned true: most of the waiting work requests are done.
    virtual void offload_drained() {}

    /// The fatal-error path: raises the named cause bit of SG_INT_CAUSE / PL_INT_CAUSE.
    virtual void fatal(std::uint32_t sge_cause) = 0;
};

/// A TCB as it is in the context memory, in the form of GET_TCB_RPL [guess G37].
using TcbBytes = std::array<std::uint8_t, 128>;

/// The on-card memories PM-RX (TPT, RQT, PBL), PM-TX and CM. Addresses are card addresses.
class CardMemory {
public:
    virtual ~CardMemory() = default;
    /// A range of PM-RX, to read, valid until the next reset. Null: outside the memory.
    [[nodiscard]] virtual const std::uint8_t* pmrx(std::uint32_t addr, std::size_t count) const = 0;
    /// False: outside the memory.
    virtual bool pmrx_write(std::uint32_t addr, Bytes from) = 0;
    /// Region limits that the driver has programmed (ULPRX_*_LLIMIT/ULIMIT; docs/hw/memory.md 3).
    struct Region {
        std::uint32_t base = 0, limit = 0; // limit: last byte
    };
    [[nodiscard]] virtual Region tpt() const = 0;
    [[nodiscard]] virtual Region pbl() const = 0;
    [[nodiscard]] virtual Region rqt() const = 0;
    /// Counts accesses that were the first ones to a page since a reset or a self test, and so had to fill
    /// it.
    [[nodiscard]] std::size_t filled() const { return filled_; }

protected:
    mutable std::size_t filled_ = 0; ///< mutable: a read may be the first access
};

/// A TCP connection as the RDMA engine uses it. Implemented by the Toe.
class RdmaStream {
public:
    virtual ~RdmaStream() = default;
    /// Queues bytes as one record: it starts a TCP segment and keeps its boundary when retransmitted. With so
    /// much headroom a record is sent without a copy.
    static constexpr std::size_t record_headroom = 64;
    virtual void send_record(Tid tid, Packet&& fpdu) = 0;
    /// Bytes that may be queued. A record may be larger than a value above 0. At 0 the sender must wait for
    /// RnicServices::stream_writable().
    [[nodiscard]] virtual std::size_t send_space_or_wait(Tid tid) = 0;
    /// Queues a FIN after all data.
    virtual void send_fin(Tid tid) = 0;
    /// Current effective maximum segment size of the connection.
    [[nodiscard]] virtual std::uint32_t emss(Tid tid) const = 0;
};

/// Services of the RDMA engine for the Toe and the SGE.
class RnicServices {
public:
    virtual ~RnicServices() = default;

    /// RI_RDMA_INIT, an RI_RDMA_READ (ready-to-receive) or an RI_SEND (TERMINATE) on the offload queue.
    /// @p wr starts with the WR header. For RDMA_INIT the result is whether to acknowledge the WR [guess
    /// G1]; @p receive_seq is the sequence number of the next byte for stream_in().
    virtual bool offload_wr(Tid tid, Bytes wr, std::uint32_t receive_seq) = 0;
    /// RI_MODIFY_QP on the control queue.
    virtual void control_wr(Bytes wr) = 0;
    /// A doorbell, or the end of a congestion, for a type-0 context (QP or control QP).
    virtual void doorbell(QpId context) = 0;

    /// Whether RDMA_INIT was executed for the TID: then received bytes go to the Rnic.
    [[nodiscard]] virtual bool rdma_mode(Tid tid) const = 0;
    /// The passive side's last streaming message has been queued [guess G4]; FPDUs may follow.
    virtual void stream_switched(Tid tid) = 0;
    /// @p intact: the packet of which @p data is the payload, if it is intact; or nullptr.
    virtual void stream_in(Tid tid, Bytes data, const Packet* intact) = 0;
    /// The send buffer has space again.
    virtual void stream_writable(Tid tid) = 0;
    /// CLOSE_CON_REQ: complete the work of the QP, then call RdmaStream::send_fin() [guess G11].
    virtual void close_requested(Tid tid) = 0;
    /// The peer's FIN, after all data. True: the last FPDU is truncated [guess G10].
    virtual bool peer_closed(Tid tid) = 0;
    /// The connection is reset, aborted or closed. The last call for the TID; invalidates the QP context
    /// [guess G44].
    virtual void connection_ended(Tid tid) = 0;
};

/// Services of the Toe for the SGE, which passes work requests as in the ring, header first, length = its
/// flits. The SGE has replaced an SGL (WR_DATATYPE, from flit WR_SGLSFLT on) by the exact bytes of its data,
/// so both forms of a WR look alike.
class ToeServices {
public:
    virtual ~ToeServices() = default;
    /// @p descriptors: ring descriptors of the request, which is its cost in WR credits.
    virtual void offload_wr(unsigned offload_queue, Bytes wr, unsigned descriptors) = 0;
    virtual void control_wr(unsigned control_queue, Bytes wr) = 0;
    /// Whether so many requests wait for send buffer space that no more offload work requests should be
    /// fetched; SgeServices::offload_drained() follows.
    [[nodiscard]] virtual bool congested() { return false; }
    /// A frame from the wire. False: pass it to the NIC. @p intact: its packet, if it is intact
    /// (core/packet.hh), so that sums may be missing; or nullptr.
    virtual bool frame_in(unsigned port, Bytes frame, const Packet* intact) = 0;
    /// See Endpoint. Between burst(true) and burst(false) the segments that reply to the frames wait.
    [[nodiscard]] virtual bool takes_bursts() const { return false; }
    virtual void burst([[maybe_unused]] bool on) {}
};

/// Services of the Macs, implemented by the Card: sends a complete frame without FCS to the wire of a port.
class MacServices {
public:
    virtual ~MacServices() = default;
    virtual void transmit(unsigned port, Packet&& frame) = 0;
    /// Whether @p user should send more on @p port. If false, the card calls the user's resume() when the
    /// wire accepts frames again; waiting users take turns.
    enum class User : std::uint8_t { nic, toe };
    [[nodiscard]] virtual bool ready_or_wait([[maybe_unused]] unsigned port, [[maybe_unused]] User user) {
        return true;
    }
};

} // namespace t3sim
