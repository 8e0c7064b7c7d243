// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// State of one connected QP, from its RDMA_INIT to the end of its connection (docs/hw/engine.md 2).
//
// States: open -> stopped (an error, a TERMINATE sent or received) -> ended. A stopped QP executes no slots
// and drops received data; it still handles a TERMINATE work request, the FIN and the end of the connection.
// A close is independent of these states:
//
//   stopped   no slot is executed, received data is dropped
//   closing   CLOSE_CON_REQ was received: the FIN follows when no more work is possible
//   finished  the TERMINATE or the FIN is queued in TCP: nothing is sent after it
//   ended     the connection does not exist any more; an event frees the QP
#pragma once

#include <algorithm>
#include <array>
#include <map>

#include "sim/card/engines.hh"
#include "sim/card/rnic/ddp.hh"
#include "sim/card/rnic/mpa.hh"
#include "sim/card/rnic/rqe.hh"
#include "sim/card/rnic/tpt.hh"
#include "sim/core/fifo.hh"

namespace t3sim {

/// An outgoing message. Its segments are built when the stream has space.
struct OutMessage {
    DdpSegment segment; ///< header of the next segment
    std::uint32_t length = 0;
    std::uint32_t sent = 0;
    std::array<Extent, hw::max_sge> part; ///< the payload, unless it is inline
    bool is_inline = false;
    std::array<std::uint8_t, hw::max_inline_of_a_slot> inline_data{};

    bool is_response = false; ///< of the oldest inbound read
    bool is_rtr_read = false; ///< the initiator's ready-to-receive read
    bool signaled = false;
    hw::WrHeader wr{}; ///< for the completion
};

/// A read of this QP whose response is outstanding.
struct OutstandingRead {
    std::uint32_t sink_stag = 0;
    std::uint64_t sink_to = 0;
    std::uint32_t length = 0;
    std::uint32_t placed = 0;
    bool invalidate = false;
};

struct Qp {
    Qp(Tid connection, const hw::RdmaInitWr& wr, std::uint32_t stream_position)
        : tid(connection), init(wr), prot{wr.qpid, wr.pdid, wr.qp_caps},
          framer({(wr.mpa_attrs & wr.tx_markers) != 0, (wr.mpa_attrs & wr.crc) != 0}),
          deframer({(wr.mpa_attrs & wr.rx_markers) != 0, (wr.mpa_attrs & wr.crc) != 0}, stream_position),
          sends_fpdus(wr.initiator()), rtr_pending(wr.rtr_type() != 0) {}

    [[nodiscard]] QpId id() const { return prot.qp; }
    [[nodiscard]] CqId send_cq() const { return init.scqid; }
    [[nodiscard]] CqId receive_cq() const { return init.rcqid; }

    /// Reads in one direction that the card keeps, whatever RDMA_INIT allows. [guess G54]
    static constexpr std::uint32_t max_reads = 32;
    [[nodiscard]] std::uint32_t ord() const { return std::min<std::uint32_t>(init.ord, max_reads); }
    [[nodiscard]] std::uint32_t ird() const { return std::min<std::uint32_t>(init.ird, max_reads); }

    const Tid tid;
    const hw::RdmaInitWr init;
    const Protection prot;

    // Stream
    Framer framer;
    Deframer deframer;
    bool sends_fpdus;  ///< if not, received data is stored in early_data [guess G4]
    Buffer early_data; ///< from before the last streaming message was queued
    bool rtr_pending;  ///< send-side WRs wait for the ready-to-receive exchange [guess G5]

    // State
    bool stopped = false;
    bool closing = false;
    bool finished = false;
    bool fin_sent = false;
    bool ended = false;
    bool running = false;
    bool queued = false;          ///< is in Rnic's run queue; run() does nothing else meanwhile
    bool waits_for_peer = false;  ///< the last run() ended with a slot or a message that waits for the peer
    bool waits_for_space = false; ///< the same, for send buffer space of the TCP connection

    // Send side
    Fifo<OutMessage> out; ///< the first is being sent; the ring waits until out is empty
    std::uint32_t next_send_msn = 1;
    std::uint32_t next_read_msn = 1;
    Fifo<OutstandingRead> reads; ///< at most ord()
    bool response_turn = false;  ///< read responses and the ring alternate

    // Receive side
    std::array<std::uint32_t, 3> expected_msn{1, 1, 1}; ///< by queue number
    std::uint32_t rqes_posted = 0;
    std::uint32_t rqes_used = 0;
    bool receiving = false; ///< a message has been received in part into rqe
    Rqe rqe;
    std::uint32_t placed = 0;
    Fifo<ReadRequest> inbound_reads; ///< at most ird()

    // Only with other answers to open questions
    Fifo<Slot> passed;                                ///< G32: sends that wait, which receives have passed
    Fifo<OutMessage> unacknowledged;                  ///< G36: completions
    std::size_t whole_space = 0;                      ///< G36: of TCP's empty send buffer
    std::map<std::uint32_t, hw::Status> bad_receives; ///< G17: by number
};

} // namespace t3sim
