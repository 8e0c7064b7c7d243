// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The send side: slots of the ring in order, messages, segments. Payload is read from host memory one segment
// at a time, when TCP has send buffer space for it.
#include <algorithm>
#include <utility>

#include "sim/card/rnic/log.hh"
#include "sim/card/rnic/qp.hh"
#include "sim/card/rnic/rnic.hh"
#include "sim/hw/sge.hh"

namespace t3sim {

using hw::RdmaOp;
using hw::Status;

namespace {

/// Every stack supports segments of this size (RFC 5044 requires a MULPDU of 128).
constexpr std::uint32_t min_emss = 136;

} // namespace

/// Requests of offload rings, frames and doorbells run many QPs in one event.
void Rnic::run(Qp& qp) {
    if (qp.running || qp.ended || qp.queued)
        return; // the running call, or the run queue, handles new work
    if (guesses_.other(Guess::send_complete_when_tcp_has_it)) [[unlikely]]
        complete_acknowledged(qp);
    qp.running = true;
    Step last = Step::progress;
    std::size_t left = qp_work, &of_event = work_.left();
    while (left != 0 && of_event != 0 && last == Step::progress) {
        const std::size_t work = qp.out.empty() ? slot_work : segment_work, filled = parts_.memory.filled();
        last = step(qp);
        left -= std::min(left, work);
        of_event -= std::min(of_event, work + page_work * (parts_.memory.filled() - filled));
    }
    qp.running = false;
    qp.waits_for_peer = last == Step::wait_peer;
    qp.waits_for_space = last == Step::wait_space;
    if (qp.ended)
        return;
    if (last == Step::progress) {
        enqueue(qp);
    } else if (last != Step::wait_space && last != Step::wait_sge && qp.closing && !qp.fin_sent) {
        // No more work is possible: slots that wait for the peer are never executed [guess G11].
        qp.finished = qp.fin_sent = true;
        parts_.stream.send_fin(qp.tid);
    }
}

void Rnic::enqueue(Qp& qp) {
    qp.queued = true;
    run_queue_.wait(qp.tid);
    run_event_.soon();
}

/// Runs one QP per event, so that frames and other cards are served in between.
void Rnic::run_queued() {
    const Tid tid = run_queue_.take();
    if (!run_queue_.empty())
        run_event_.soon();
    if (Qp* qp = find(tid); qp && qp->queued) {
        qp->queued = false;
        run(*qp);
    }
}

/// Sends one segment, executes one slot, or starts one read response.
Rnic::Step Rnic::step(Qp& qp) {
    if (qp.finished || qp.ended)
        return Step::idle;
    if (!qp.out.empty())
        return send_segment(qp);
    if (qp.stopped)
        return Step::idle;
    if (qp.response_turn && !qp.inbound_reads.empty()) {
        start_response(qp);
        return Step::progress;
    }
    qp.response_turn = true;
    const Step ring =
        qp.closing && guesses_.other(Guess::ring_executed_at_close) ? Step::idle : next_slot(qp);
    if (ring != Step::progress && !qp.inbound_reads.empty()) {
        start_response(qp);
        return Step::progress;
    }
    return ring;
}

bool Rnic::must_wait(const Qp& qp, const hw::WrHeader& wr, bool send_side) const {
    if (send_side && (!qp.sends_fpdus || qp.rtr_pending)) // later receives in the ring wait too [guess G32]
        return true;
    // When the next slot is read, all earlier WRs except reads are done.
    if (!qp.reads.empty() && (wr.flag(hw::wr::read_fence) || wr.flag(hw::wr::local_fence)))
        return true;
    if (wr.opcode() != hw::WrOpcode::rdma_read || qp.reads.size() < qp.ord())
        return false;
    if (qp.ord() == 0)
        rnic_log.warn("QP {:#x}: a read can never be sent, ORD is 0", qp.id());
    return true;
}

Rnic::Step Rnic::next_slot(Qp& qp) {
    Slot slot;
    if (!qp.passed.empty() && !must_wait(qp, hw::load<hw::WrHeader>(qp.passed.front()), true)) [[unlikely]] {
        slot = qp.passed.front();
        qp.passed.pop_front();
        return run_slot(qp, slot);
    }
    if (const auto got = parts_.sge.fetch_slot(qp.id(), slot); got != SgeServices::Fetch::slot)
        return got == SgeServices::Fetch::busy ? Step::wait_sge
               : qp.passed.empty()             ? Step::idle
                                               : Step::wait_peer;
    const auto wr = hw::load<hw::WrHeader>(slot);
    const WrRow* row = wr_row(wr.opcode());
    const bool send_side = !row || row->send_side;
    if (must_wait(qp, wr, send_side) || (send_side && !qp.passed.empty())) {
        if (guesses_.other(Guess::receives_wait_behind_send) && qp.passed.size() < qp.init.qp_dma_size) {
            qp.passed.push_back(slot);
            return Step::progress;
        }
        parts_.sge.unfetch_slot(qp.id());
        return Step::wait_peer;
    }
    return run_slot(qp, slot);
}

/// Executes a slot that need not wait.
Rnic::Step Rnic::run_slot(Qp& qp, const Slot& slot) {
    const auto wr = hw::load<hw::WrHeader>(slot);
    const WrRow* row = wr_row(wr.opcode());
    ++count_wrs_;
    if (probe_) [[unlikely]]
        record_slot(qp.id(), qp.tid, slot);
    const Status status = execute(qp, row, slot);
    if (status == Status::success)
        return Step::progress;
    if (status == Status::internal)
        ++count_malformed_;
    const bool receive = row && !row->send_side;
    fail(qp, status, !receive, row ? row->op(slot) : RdmaOp::send, receive ? qp.receive_cq() : qp.send_cq(),
         receive ? nullptr : &wr);
    return Step::idle;
}

void Rnic::record_slot(QpId context, std::uint32_t tid, Bytes slot) const {
    const unsigned flits = hw::load<hw::WrHeader>(slot).flits();
    probe_({.kind = EventKind::work_request,
            .unit = static_cast<std::uint16_t>(hw::EgressType::rdma),
            .where = context,
            .tid = tid,
            .qp = context},
           slot.first(std::min<std::size_t>(slot.size(), flits * hw::flit)));
}

Status Rnic::execute(Qp& qp, const WrRow* row, Bytes slot) {
    const auto wr = hw::load<hw::WrHeader>(slot);
    const bool one_slot = wr.flag(hw::wr::sop) && wr.flag(hw::wr::eop);
    if (!row || (!one_slot && !guesses_.other(Guess::two_slot_form_refused))) // two-slot form: [guess G30]
        return Status::internal;
    if (const Status status = (this->*row->execute)(qp, slot); status != Status::success)
        return status;
    if (row->immediate && wr.flag(hw::wr::completion))
        complete_wr(qp, wr, row->op(slot));
    return Status::success;
}

void Rnic::complete_wr(Qp& qp, const hw::WrHeader& wr, RdmaOp op, std::uint32_t length) {
    if (guesses_.other(Guess::send_has_exact_opcode) && op >= RdmaOp::send &&
        op <= RdmaOp::send_se_inv) // [guess G45]
        op = RdmaOp::send;
    const Cqe cqe{.qp = qp.id(),
                  .send_side = true,
                  .opcode = static_cast<std::uint8_t>(op),
                  // [guess G21]
                  .length = guesses_.other(Guess::send_side_entries_have_length_0) ? length : 0,
                  .word2 = wr.wr_id_hi,
                  .word3 = wr.wr_id_lo};
    if (wr.flag(hw::wr::notify))
        parts_.sge.async_event(qp.send_cq(), cqe);
    else
        parts_.sge.complete(qp.send_cq(), cqe, false);
}

/// Checks the source again: it may have been invalidated since the request was received.
void Rnic::start_response(Qp& qp) {
    const ReadRequest& request = qp.inbound_reads.front();
    OutMessage message;
    message.segment = {.op = RdmaOp::read_response, .stag = request.sink_stag, .to = request.sink_to};
    message.length = request.size;
    message.is_response = true;
    if (request.size != 0) {
        const Status status = tpt_.check(qp.prot, request.source_stag, request.source_to, request.size,
                                         remote_read, &message.part[0]);
        if (status != Status::success) {
            inbound_error(qp, RdmaOp::read_request, status);
            return;
        }
    }
    qp.out.push_back(message);
    qp.response_turn = false;
}

std::uint32_t Rnic::max_payload(const Qp& qp, RdmaOp op) const {
    const std::uint32_t emss = std::min<std::uint32_t>(qp.init.ulpdu_size, parts_.stream.emss(qp.tid));
    const bool markers = qp.init.mpa_attrs & hw::RdmaInitWr::tx_markers;
    return mulpdu(std::max(emss, min_emss), markers) - static_cast<std::uint32_t>(ddp_header_size(op));
}

/// Each FPDU is one TCP segment [guess G49].
Rnic::Step Rnic::send_segment(Qp& qp) {
    if (parts_.stream.send_space_or_wait(qp.tid) == 0)
        return Step::wait_space;
    OutMessage& message = qp.out.front();
    DdpSegment& segment = message.segment;
    const std::uint32_t size = std::min(message.length - message.sent, max_payload(qp, segment.op));
    segment.last = message.sent + size == message.length;

    Packet fpdu = Framer::start(ddp_header_size(segment.op) + size, RdmaStream::record_headroom);
    const MutableBytes ulpdu = Framer::ulpdu(fpdu);
    write_header(ulpdu.data(), segment);
    if (const Status status = gather(message, ulpdu.last(size)); status != Status::success) {
        if (message.is_response)
            inbound_error(qp, RdmaOp::read_request, status);
        else
            fail(qp, status, true, segment.op, qp.send_cq(), &message.wr);
        return Step::idle;
    }
    ++count_fpdus_out_;
    if (probe_) [[unlikely]]
        probe_({.kind = EventKind::fpdu_out, .tid = qp.tid, .qp = qp.id()}, ulpdu);
    fpdu = qp.framer.finish(std::move(fpdu));
    if (parts_.faults.bad_crc.fires(qp.tid)) [[unlikely]]
        fpdu.data()[fpdu.size() - 1] ^= 0xff;
    if (guesses_.other(Guess::fpdu_is_one_segment)) {
        const Bytes all = fpdu;
        const std::size_t half = all.size() / 2;
        parts_.stream.send_record(qp.tid, Packet::copy(all.first(half), RdmaStream::record_headroom));
        fpdu = Packet::copy(all.subspan(half), RdmaStream::record_headroom);
    }
    parts_.stream.send_record(qp.tid, std::move(fpdu));
    message.sent += size;
    if (is_tagged(segment.op))
        segment.to += size;
    else
        segment.mo += size;
    if (segment.last)
        message_done(qp);
    return Step::progress;
}

/// Reads the payload of the next segment.
Status Rnic::gather(const OutMessage& message, MutableBytes to) const {
    if (message.is_inline) {
        std::copy_n(message.inline_data.begin() + message.sent, to.size(), to.begin());
        return Status::success;
    }
    return for_each_part(message.part, message.sent, to.size(),
                         [&](const Extent& extent, std::uint32_t skip, std::size_t size) {
                             const MutableBytes at = to.first(size);
                             to = to.subspan(size);
                             return read_extent(*host_, parts_.memory, extent, skip, at);
                         });
}

/// A message is complete when all of it has been read from host memory and queued in TCP [guess G36].
void Rnic::message_done(Qp& qp) {
    const OutMessage& message = qp.out.front();
    if (message.is_response) {
        // The response to the ready-to-receive read has been sent [guess G5].
        if (qp.init.rtr_type() == hw::rtr_read && message.length == 0 && !qp.init.initiator())
            qp.rtr_pending = false;
        qp.inbound_reads.pop_front();
    }
    if (message.is_rtr_read)
        qp.rtr_pending = false;
    if (message.segment.op == RdmaOp::terminate)
        qp.finished = true;
    if (message.signaled && guesses_.other(Guess::send_complete_when_tcp_has_it))
        qp.unacknowledged.push_back(message);
    else if (message.signaled)
        complete_wr(qp, message.wr, message.segment.op, message.length);
    qp.out.pop_front();
}

/// The other answer to G36: a message is complete when TCP's send buffer is empty.
void Rnic::complete_acknowledged(Qp& qp) {
    const std::size_t space = parts_.stream.send_space_or_wait(qp.tid);
    qp.whole_space = std::max(qp.whole_space, space);
    if (space < qp.whole_space)
        return;
    for (; !qp.unacknowledged.empty(); qp.unacknowledged.pop_front()) {
        const OutMessage& message = qp.unacknowledged.front();
        complete_wr(qp, message.wr, message.segment.op, message.length);
    }
}

} // namespace t3sim
