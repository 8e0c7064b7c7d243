// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// State of one connected QP, from its RDMA_INIT to the end of its connection (rdma 11.2).
//
// Life: open -> stopped (an error, a TERMINATE sent or received) -> gone. A stopped QP executes no slots and
// drops what it receives; a TERMINATE, the FIN and the end of the connection still work.
#pragma once

#include <array>
#include <deque>

#include "sim/card/ddp.hh"
#include "sim/card/mpa.hh"
#include "sim/card/rqe.hh"
#include "sim/card/tpt.hh"

namespace t3sim {

/// A message on its way out, cut into segments as there is room in the stream.
struct OutMessage {
    DdpSegment segment; ///< header of the next segment
    std::uint32_t length = 0;
    std::uint32_t sent = 0;
    std::array<Extent, hw::max_sge> part; ///< the payload, unless it is inline
    bool is_inline = false;
    std::array<std::uint8_t, hw::max_inline> inline_data{};

    bool is_response = false; ///< of the oldest inbound read
    bool releases_hold = false;
    bool signaled = false;
    hw::WrHeader wr{}; ///< for the completion
};

/// A read of ours whose response has not come.
struct OutstandingRead {
    std::uint32_t sink_stag = 0;
    std::uint64_t sink_to = 0;
    std::uint32_t length = 0;
    std::uint32_t placed = 0;
    bool invalidate = false;
};

struct Qp {
    Qp(Tid connection, const hw::RdmaInitWr& wr, std::uint32_t stream_position)
        : tid(connection), init(wr), who{wr.qpid, wr.pdid, wr.qp_caps},
          framer({(wr.mpa_attrs & wr.tx_markers) != 0, (wr.mpa_attrs & wr.crc) != 0}),
          deframer({(wr.mpa_attrs & wr.rx_markers) != 0, (wr.mpa_attrs & wr.crc) != 0}, stream_position),
          switched(wr.initiator()), held(wr.rtr_type() != 0) {}

    [[nodiscard]] QpId id() const { return who.qp; }
    [[nodiscard]] CqId send_cq() const { return init.scqid; }
    [[nodiscard]] CqId receive_cq() const { return init.rcqid; }

    const Tid tid;
    const hw::RdmaInitWr init;
    const Protection who;

    // Stream
    Framer framer;
    Deframer deframer;
    bool switched; ///< what we transmit is FPDUs; until then what we receive is kept [guess G4]
    Buffer early;  ///< that
    bool held;     ///< no send-side WR yet, because of the ready-to-receive exchange [guess G5]

    // Life
    bool stopped = false;
    bool closing = false;  ///< CLOSE_CON_REQ has come
    bool finished = false; ///< nothing more is sent: TERMINATE or FIN
    bool fin_sent = false;
    bool gone = false;
    bool running = false;
    bool in_turns = false; ///< waits for its turn: nothing else makes it run

    // Send side
    std::deque<OutMessage> out; ///< the first is under way; the ring waits until it is empty
    std::uint32_t next_send_msn = 1;
    std::uint32_t next_read_msn = 1;
    std::deque<OutstandingRead> reads;
    bool response_turn = false; ///< responses and the ring take turns

    // Receive side
    std::array<std::uint32_t, 3> expected_msn{1, 1, 1}; ///< by queue number
    std::uint32_t rqes_posted = 0;
    std::uint32_t rqes_used = 0;
    bool receiving = false; ///< a message has begun to arrive in rqe
    Rqe rqe;
    std::uint32_t placed = 0;
    std::deque<ReadRequest> inbound_reads;
};

} // namespace t3sim
