// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The receive side: processes FPDUs in stream order: the checks of docs/hw/engine.md 5 in their order,
// placement, and completion. Data is in host memory before its CQE.
#include <algorithm>

#include "sim/card/rnic/qp.hh"
#include "sim/card/rnic/rnic.hh"
#include "sim/hw/sge.hh"

namespace t3sim {

using hw::RdmaOp;
using hw::Status;

namespace {

/// Maximum Terminate body: control word, segment length, the longest DDP header, a read request (RFC 5040).
constexpr std::size_t max_terminate = 4 + 2 + untagged_header + sizeof(rdmap_read_request);

} // namespace

/// Card address of RQE @p number, counted from the first receive of the connection.
std::uint32_t Rnic::rqe_address(const Qp& qp, std::uint32_t number) const {
    return parts_.memory.rqt().base + qp.init.rq_addr +
           number % qp.init.rq_size * static_cast<std::uint32_t>(rqe_size);
}

RqeLayout Rnic::rqe_layout() const {
    // [guess G20]
    return guesses_.other(Guess::rqe_begins_with_page_code) ? RqeLayout::other : RqeLayout::modelled;
}

void Rnic::receive(Qp& qp, Bytes data, const Packet* intact) {
    if (qp.stopped) {
        count_dropped_bytes_ += data.size();
        return;
    }
    qp.deframer.feed(
        data, [this, &qp](Bytes ulpdu, MpaError error) { return fpdu_in(qp, ulpdu, error); }, intact);
}

/// False: the QP has stopped.
bool Rnic::fpdu_in(Qp& qp, Bytes ulpdu, MpaError error) {
    using Handler = Status (Rnic::*)(Qp&, const DdpSegment&);
    static constexpr Handler handlers[] = {
        &Rnic::in_write,         // write
        &Rnic::in_read_request,  // read request
        &Rnic::in_read_response, // read response
        &Rnic::in_send,          // send
        &Rnic::in_send,          // send with invalidate
        &Rnic::in_send,          // send with solicited event
        &Rnic::in_send,          // send with both
        &Rnic::in_terminate,     // terminate
    };
    ++count_fpdus_in_;
    if (probe_) [[unlikely]]
        probe_({.kind = EventKind::fpdu_in,
                .unit = static_cast<std::uint16_t>(error),
                .tid = qp.tid,
                .qp = qp.id()},
               ulpdu);
    DdpSegment segment;
    Status status = parse_segment(ulpdu, error, &segment);
    if (status == Status::success && !is_tagged(segment.op) && segment.msn != qp.expected_msn[segment.qn])
        status = guesses_.other(Guess::wrong_msn_has_status_0x18)
                     ? Status::msn_gap
                     : Status::msn; // the card compares 4 bits and reports any mismatch as this [guess G28]
    if (status == Status::success)
        status = (this->*handlers[static_cast<std::size_t>(segment.op)])(qp, segment);
    if (status != Status::success)
        inbound_error(qp, segment.op, status);
    return !qp.stopped && !qp.ended;
}

/// Selects the side and the CQ of an error (docs/hw/engine.md 6).
void Rnic::inbound_error(Qp& qp, RdmaOp op, Status status) {
    switch (op) {
    case RdmaOp::read_request:
        fail(qp, status, true, RdmaOp::read_response, qp.send_cq());
        break;
    default:
        fail(qp, status, false, op, qp.receive_cq());
        break;
    }
}

Status Rnic::in_write(Qp& qp, const DdpSegment& segment) {
    if (!(qp.prot.caps & hw::RdmaInitWr::write_enable))
        return Status::access;
    // Also without payload [guess G19].
    if (segment.stag == 0 && !(segment.payload.empty() && guesses_.other(Guess::stag_0_refused_for_no_bytes)))
        return Status::invalid_stag;
    if (!segment.payload.empty()) {
        Extent extent;
        const Status status =
            tpt_.check(qp.prot, segment.stag, segment.to, static_cast<std::uint32_t>(segment.payload.size()),
                       remote_write, &extent);
        if (status != Status::success)
            return status;
        return write_extent(*host_, parts_.memory, extent, 0, segment.payload);
    }
    if (qp.init.rtr_type() == hw::rtr_write && segment.last)
        qp.rtr_pending = false; // [guess G40]
    return Status::success;
}

Status Rnic::in_read_request(Qp& qp, const DdpSegment& segment) {
    if (segment.mo != 0)
        return Status::message_offset;
    if (!(qp.prot.caps & hw::RdmaInitWr::read_enable))
        return Status::access;
    if (qp.inbound_reads.size() >= qp.ird())
        return Status::ird_overflow;
    if (segment.payload.size() != sizeof(rdmap_read_request) || !segment.last)
        return Status::pdu_length;
    const ReadRequest request = parse_read_request(segment.payload);
    if (request.source_stag == 0) // also without payload [guess G19]
        return Status::invalid_stag;
    if (request.size != 0) {
        Extent extent;
        const Status status =
            tpt_.check(qp.prot, request.source_stag, request.source_to, request.size, remote_read, &extent);
        if (status != Status::success)
            return status;
    }
    ++qp.expected_msn[RDMAP_QN_READ_REQUEST];
    if (!qp.finished)
        qp.inbound_reads.push_back(request);
    return Status::success;
}

Status Rnic::in_read_response(Qp& qp, const DdpSegment& segment) {
    if (qp.reads.empty())
        return Status::rdmap_opcode;
    OutstandingRead& read = qp.reads.front();
    if (segment.stag != read.sink_stag || segment.stag == 0)
        return Status::invalid_stag;
    const auto size = static_cast<std::uint32_t>(segment.payload.size());
    if (segment.to != read.sink_to + read.placed || size > read.length - read.placed)
        return Status::bounds;
    if (size != 0) {
        Extent extent;
        const auto permission = // [guess G18]
            guesses_.other(Guess::local_write_suffices_for_read_sink) ? remote_write : read_sink;
        Status status = tpt_.check(qp.prot, segment.stag, segment.to, size, permission, &extent);
        if (status == Status::success)
            status = write_extent(*host_, parts_.memory, extent, 0, segment.payload);
        if (status != Status::success)
            return status;
        read.placed += size;
    }
    if (!segment.last)
        return Status::success;
    if (read.placed != read.length)
        return Status::pdu_length;
    if (read.invalidate) {
        const Status status = tpt_.invalidate(qp.prot, read.sink_stag, Tpt::Invalidator::local);
        if (status != Status::success)
            return status;
    }
    // The CQE of a read contains only the sink STag; length and MSN are 0 [guess G21].
    parts_.sge.complete(qp.send_cq(),
                        {.qp = qp.id(),
                         .opcode = static_cast<std::uint8_t>(RdmaOp::read_response),
                         .length = guesses_.other(Guess::send_side_entries_have_length_0) ? read.length : 0,
                         .word2 = read.sink_stag},
                        false);
    qp.reads.pop_front();
    return Status::success;
}

Status Rnic::in_send(Qp& qp, const DdpSegment& segment) {
    if (segment.mo != qp.placed)
        return Status::message_offset;
    if (!qp.receiving) {
        if (qp.rqes_posted == qp.rqes_used)
            return Status::no_receive;
        if (const auto bad = qp.bad_receives.find(qp.rqes_used); bad != qp.bad_receives.end()) [[unlikely]]
            return bad->second;
        if (!load_rqe(parts_.memory, rqe_address(qp, qp.rqes_used), &qp.rqe, rqe_layout()))
            return Status::rqe_bounds;
        qp.receiving = true;
    }
    if (qp.placed + segment.payload.size() > qp.rqe.length())
        return Status::pdu_length;
    if (const Status status = place_message(qp, qp.placed, segment.payload); status != Status::success)
        return status;
    qp.placed += static_cast<std::uint32_t>(segment.payload.size());
    if (!segment.last)
        return Status::success;

    const bool invalidates = segment.op == RdmaOp::send_inv || segment.op == RdmaOp::send_se_inv;
    if (invalidates) {
        const Status status = tpt_.invalidate(qp.prot, segment.stag, Tpt::Invalidator::remote);
        if (status != Status::success)
            return status;
    }
    const bool solicited = segment.op == RdmaOp::send_se || segment.op == RdmaOp::send_se_inv;
    parts_.sge.complete(qp.receive_cq(),
                        {.qp = qp.id(),
                         .opcode = static_cast<std::uint8_t>(segment.op),
                         .length = qp.placed,
                         .word2 = invalidates ? segment.stag : 0,
                         .word3 = segment.msn},
                        solicited);
    if (qp.init.rtr_type() == hw::rtr_send && qp.placed == 0)
        qp.rtr_pending = false; // [guess G40]
    ++qp.expected_msn[RDMAP_QN_SEND];
    ++qp.rqes_used;
    qp.receiving = false;
    qp.placed = 0;
    return Status::success;
}

/// Scatters payload over the receive's SGEs.
Status Rnic::place_message(const Qp& qp, std::uint32_t offset, Bytes payload) const {
    return for_each_part(qp.rqe.part, offset, payload.size(),
                         [&](const Extent& extent, std::uint32_t skip, std::size_t size) {
                             const Bytes from = payload.first(size);
                             payload = payload.subspan(size);
                             return write_extent(*host_, parts_.memory, extent, skip, from);
                         });
}

/// Posts the CPL message first, then the event [guess G46].
Status Rnic::in_terminate(Qp& qp, const DdpSegment& segment) {
    if (segment.mo != 0)
        return Status::message_offset;
    const Bytes body = segment.payload.first(std::min(segment.payload.size(), max_terminate));
    Buffer cpl(4 + (8 + body.size() + 7) / 8 * 8); // [guess G9]
    put_be32(&cpl[0], hw::ot(hw::Cpl::rdma_terminate, qp.tid));
    put_be32(&cpl[4], segment.msn);
    put_be32(&cpl[8], segment.mo);
    std::copy(body.begin(), body.end(), cpl.begin() + 12);
    const Cqe event{.qp = qp.id(), .opcode = static_cast<std::uint8_t>(RdmaOp::terminate)};
    if (guesses_.other(Guess::terminate_before_its_event))
        parts_.sge.async_event(qp.receive_cq(), event);
    parts_.sge.post_cpl(0, cpl);
    if (!guesses_.other(Guess::terminate_before_its_event))
        parts_.sge.async_event(qp.receive_cq(), event);
    stop(qp);
    return Status::success;
}

} // namespace t3sim
