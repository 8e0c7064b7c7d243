// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The borders inside the card. Four engines, each in its own files, meet only here:
//
//   Sge    host rings: egress contexts, free lists, response queues, completion queues, doorbells, interrupts
//   Mac    Ethernet ports: NIC transmit and receive, filters, statistics              (nic.md)
//   Toe    offloaded TCP: L2T, SMT, listeners, TIDs, CPL messages, firmware WRs       (offload.md)
//   Rnic   RDMA: QP rings, TPT/PBL/RQT, MPA, DDP, RDMAP, CQEs, async events           (rdma.md)
//
// No engine calls another engine's private parts; the Card (card.hh) wires them together.
#pragma once

#include <array>
#include <cstdint>

#include "sim/core/bytes.hh"

namespace t3sim {

using Tid = std::uint32_t;
using QpId = std::uint32_t;
using CqId = std::uint32_t;

constexpr std::size_t slot_size = 128; // an egress descriptor, or a QP ring slot
using Slot = std::array<std::uint8_t, slot_size>;

/// A completion queue entry or the copy of one in an async event; four words as rdma.md 5.2 numbers them.
struct Cqe {
    QpId qp = 0;
    std::uint8_t status = 0; // rdma.md 5.5
    bool send_side = false;  // "type" in the facts: 1 = send side
    std::uint8_t opcode = 0;
    std::uint32_t length = 0;
    std::uint32_t word2 = 0; // STag, or high half of the WR id; as it lies in memory read as big-endian
    std::uint32_t word3 = 0; // MSN, or low half of the WR id
};

/// What the SGE offers the other engines.
class SgeServices {
public:
    virtual ~SgeServices() = default;

    /// Delivers a CPL message to the host. @p cpl starts with the opcode word. The form (immediate or
    /// free-list buffers) follows nic.md 5.7 and decision G8. If the ring or the free list is full the
    /// message waits in order; it is never lost.
    /// RDMA_TERMINATE (0xa2) has no opcode word in memory: the TID of @p cpl's first word goes into the RSS
    /// header's hash word with the flits of the rest in its bits 7:0, and the body starts behind that word.
    virtual void post_cpl(unsigned response_queue, Bytes cpl) = 0;
    /// So many bytes wait for the host there that no more data should be taken from the wire.
    [[nodiscard]] virtual bool full([[maybe_unused]] unsigned response_queue) const { return false; }

    /// Writes a completion to a CQ ring and, if the CQ is armed for it, posts the async event
    /// (rdma.md 11.10). @p solicited: a receive of opcode 5 or 6.
    virtual void complete(CqId cq, const Cqe& cqe, bool solicited) = 0;

    /// Posts an async event without touching a ring: errors, NOTIFY requests, the control CQ (rdma.md 8.2).
    virtual void async_event(CqId cq, const Cqe& cqe) = 0;

    /// Sets up the type-0 egress context of a QP (rdma.md 7.4, 11.9), index 0, generation 1.
    virtual void open_qp_context(QpId qp, Tid tid, std::uint64_t ring_base, std::uint32_t slots) = 0;
    virtual void invalidate_qp_context(QpId qp) = 0;

    /// busy: nobody has looked, since what comes of a slot would find no room; RnicServices::doorbell()
    /// follows.
    enum class Fetch { slot, empty, busy, bus_error, invalid_context };
    /// Takes the next slot of a type-0 context's ring if both of its generations are valid, and moves on.
    virtual Fetch fetch_slot(QpId context, Slot& slot) = 0;
    /// Gives the slot last fetched back: the next fetch_slot() delivers it again (a WR that must wait).
    virtual void unfetch_slot(QpId context) = 0;

    /// ToeServices::congested() was true and is no longer.
    virtual void offload_drained() {}

    /// The fatal-error path: raises the named cause bit of SG_INT_CAUSE / PL_INT_CAUSE.
    virtual void fatal(std::uint32_t sge_cause) = 0;
};

/// The on-card memories behind PM-RX (TPT, RQT, PBL), PM-TX and CM. Addresses are the card's own.
class CardMemory {
public:
    virtual ~CardMemory() = default;
    /// False: outside the memory; @p to is zeroed.
    virtual bool pmrx_read(std::uint32_t addr, MutableBytes to) const = 0;
    virtual bool pmrx_write(std::uint32_t addr, Bytes from) = 0;
    /// Region limits as the driver programmed them (ULPRX_*_LLIMIT/ULIMIT; rdma.md 1.3).
    struct Region {
        std::uint32_t base = 0, limit = 0; // limit: last byte
    };
    [[nodiscard]] virtual Region tpt() const = 0;
    [[nodiscard]] virtual Region pbl() const = 0;
    [[nodiscard]] virtual Region rqt() const = 0;
};

/// What the RDMA engine needs of a TCP connection. Implemented by the Toe.
class RdmaStream {
public:
    virtual ~RdmaStream() = default;
    /// Queues bytes as one record: it starts a TCP segment and keeps its boundary when retransmitted.
    virtual void send_record(Tid tid, Buffer&& fpdu) = 0;
    /// Bytes that may be queued before the sender should wait for stream_room(). The last record may be
    /// larger than what is left: 0 is the stop sign.
    [[nodiscard]] virtual std::size_t send_room(Tid tid) const = 0;
    /// All data has been queued; FIN after it.
    virtual void send_fin(Tid tid) = 0;
    /// Largest segment of the connection now.
    [[nodiscard]] virtual std::uint32_t emss(Tid tid) const = 0;
};

/// What the Toe and the SGE tell the RDMA engine.
class RnicServices {
public:
    virtual ~RnicServices() = default;

    /// RI_RDMA_INIT, an RI_RDMA_READ (ready-to-receive) or an RI_SEND (TERMINATE) on the offload queue.
    /// @p wr starts with the WR header. For RDMA_INIT the result says whether the WR is to be acknowledged
    /// (G1); @p receive_seq is TCP's next receive sequence number.
    virtual bool offload_wr(Tid tid, Bytes wr, std::uint32_t receive_seq) = 0;
    /// RI_MODIFY_QP on the control queue.
    virtual void control_wr(Bytes wr) = 0;
    /// A doorbell, or a reason to look again, for a type-0 context (QP or control QP).
    virtual void doorbell(QpId context) = 0;

    /// Whether the TID has had its RDMA_INIT: then received bytes belong to the Rnic.
    [[nodiscard]] virtual bool rdma_mode(Tid tid) const = 0;
    /// The passive side's last streaming message is in the stream (G4); FPDUs may follow.
    virtual void stream_switched(Tid tid) = 0;
    virtual void stream_in(Tid tid, Bytes data) = 0;
    /// Acknowledged data made room in the send buffer.
    virtual void stream_room(Tid tid) = 0;
    /// CLOSE_CON_REQ: finish as G11 says, then RdmaStream::send_fin().
    virtual void close_requested(Tid tid) = 0;
    /// The peer's FIN, after all data. True: an FPDU was cut short (G10).
    virtual bool peer_closed(Tid tid) = 0;
    /// Connection reset, aborted, or finally closed: no more calls about it, the QP context goes (G44).
    virtual void connection_gone(Tid tid) = 0;
};

/// What the SGE tells the Toe: work requests as they lie in the ring, header first, length = its flits. The
/// data that an SGL describes (WR_DATATYPE, from flit WR_SGLSFLT on) has been fetched: it takes the place of
/// the SGL, byte-exact, so that both forms of a WR look alike.
class ToeServices {
public:
    virtual ~ToeServices() = default;
    /// @p descriptors: how many the request took in the ring, which is what it costs in WR credits.
    virtual void offload_wr(unsigned offload_queue, Bytes wr, unsigned descriptors) = 0;
    virtual void control_wr(unsigned control_queue, Bytes wr) = 0;
    /// So much waits for room in send buffers that no more offload work requests should be fetched;
    /// SgeServices::offload_drained() follows.
    [[nodiscard]] virtual bool congested() { return false; }
    /// A frame from the wire. False: it is the NIC's.
    virtual bool frame_in(unsigned port, Bytes frame) = 0;
};

/// What the Mac offers: a complete frame without FCS to the wire of a port.
class MacServices {
public:
    virtual ~MacServices() = default;
    virtual void transmit(unsigned port, Bytes frame) = 0;
    /// Whether @p user should send more on @p port. False: the card calls it when it should; the users that
    /// wait take turns.
    enum class User : std::uint8_t { nic, toe };
    [[nodiscard]] virtual bool room([[maybe_unused]] unsigned port, [[maybe_unused]] User user) {
        return true;
    }
};

} // namespace t3sim
