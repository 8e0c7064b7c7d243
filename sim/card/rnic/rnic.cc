// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Connections: RDMA_INIT, the switch to RDMA mode, errors, TERMINATE, close.
#include "sim/card/rnic/rnic.hh"

#include <algorithm>
#include <bit>

#include "sim/card/rnic/log.hh"
#include "sim/card/rnic/qp.hh"
#include "sim/hw/sge.hh"

namespace t3sim {

using hw::RdmaOp;
using hw::Status;

namespace {

/// Limit of data from a peer that does not wait for the MPA reply; far above any TCP window.
constexpr std::size_t max_early_data = 64U << 10;

} // namespace

Rnic::Rnic(const Parts& parts)
    : parts_(parts), host_(&parts.host), guesses_(parts.faults.guesses),
      tpt_(parts.memory, parts.faults.tpt_entry, parts.faults.guesses),
      run_event_(parts.events, [this] { run_queued(); }), work_(parts.events, event_work),
      free_ended_(parts.events, [this] { free_ended(); }), count_wrs_(parts.counters["rnic.work_requests"]),
      count_malformed_(parts.counters["rnic.malformed_work_requests"]),
      count_fpdus_in_(parts.counters["rnic.fpdus_in"]), count_fpdus_out_(parts.counters["rnic.fpdus_out"]),
      count_errors_(parts.counters["rnic.errors"]),
      count_idle_doorbells_(parts.counters["rnic.doorbells_without_qp"]),
      count_dropped_bytes_(parts.counters["rnic.dropped_bytes"]), discard_(parts.events) {}

Rnic::~Rnic() {
    reset();
}

void Rnic::reset() {
    if (!qps_.empty())
        discard_.add(
            [held = std::make_shared<decltype(qps_)>(std::exchange(qps_, {}))] { return held->drop_last(); });
    by_id_.clear();
    late_list_.reset();
    run_queue_ = {};
    run_event_.cancel();
    control_resume_.cancel();
}

bool Rnic::rdma_mode(Tid tid) const {
    return find(tid) != nullptr;
}

std::optional<QpState> Rnic::qp_state(QpId id) const {
    const Qp* qp = by_id_.find(id);
    if (!qp)
        return std::nullopt;
    return QpState{.state = qp->finished  ? "finished"
                            : qp->stopped ? "stopped"
                            : qp->closing ? "closing"
                                          : "running",
                   .tid = qp->tid,
                   .pd = qp->prot.pd,
                   .send_cq = qp->send_cq(),
                   .receive_cq = qp->receive_cq(),
                   .rq_size = qp->init.rq_size,
                   .receives_posted = qp->rqes_posted - qp->rqes_used,
                   .ord = qp->ord(),
                   .reads = static_cast<std::uint32_t>(qp->reads.size()),
                   .ird = qp->ird(),
                   .inbound_reads = static_cast<std::uint32_t>(qp->inbound_reads.size()),
                   .messages = static_cast<std::uint32_t>(qp->out.size())};
}

std::optional<QpId> Rnic::qp_of(Tid tid) const {
    const Qp* qp = find(tid);
    return qp ? std::optional(qp->id()) : std::nullopt;
}

bool Rnic::offload_wr(Tid tid, Bytes wr, std::uint32_t receive_seq) {
    const auto header = hw::load<hw::WrHeader>(wr);
    ++count_wrs_;
    if (header.opcode() == hw::WrOpcode::rdma_init && wr.size() >= sizeof(hw::RdmaInitWr))
        return rdma_init(tid, hw::load<hw::RdmaInitWr>(wr), receive_seq);
    Qp* qp = find(tid);
    if (qp && header.opcode() == hw::WrOpcode::rdma_read) {
        send_rtr_read(*qp, wr);
    } else if (qp && header.opcode() == hw::WrOpcode::send) {
        terminate(*qp, wr);
    } else {
        ++count_malformed_;
        rnic_log.warn("tid {:#x}: invalid offload work request {:#x} of {} bytes", tid,
                      static_cast<unsigned>(header.opcode()), wr.size());
    }
    return false;
}

Status Rnic::check_init(const hw::RdmaInitWr& wr) const {
    const std::uint32_t slots = wr.qp_dma_size;
    const std::uint32_t rqes = wr.rq_size;
    if (wr.qpid < hw::first_qp || wr.qpid >= hw::control_qp || slots == 0 || slots > 0xffff ||
        wr.qp_dma_addr & 0xfff)
        return Status::internal;
    // The card indexes RQEs by the low 10 bits of the MSN (docs/hw/qp.md 7).
    if (!std::has_single_bit(rqes) || rqes < 16 || rqes > 1024)
        return Status::internal;
    const CardMemory::Region rqt = parts_.memory.rqt();
    if (std::uint64_t{rqt.base} + wr.rq_addr + std::uint64_t{rqes} * rqe_size > std::uint64_t{rqt.limit} + 1)
        return Status::rqe_bounds;
    return Status::success;
}

bool Rnic::rdma_init(Tid tid, const hw::RdmaInitWr& wr, std::uint32_t receive_seq) {
    const Status status = find(tid) ? Status::internal : check_init(wr);
    if (status != Status::success) {
        ++count_malformed_;
        rnic_log.error("tid {:#x}: RDMA_INIT of QP {:#x} refused, status {:#x}", tid, std::uint32_t{wr.qpid},
                       static_cast<unsigned>(status));
        parts_.sge.async_event(wr.scqid, {.qp = wr.qpid,
                                          .status = static_cast<std::uint8_t>(status),
                                          .send_side = true,
                                          .opcode = static_cast<std::uint8_t>(RdmaOp::rdma_init)});
        return false;
    }
    // irs only sets the marker origin [guess G3, G39].
    if (receive_seq != wr.irs)
        rnic_log.warn("tid {:#x}: RDMA_INIT expects sequence number {:#x}, TCP is at {:#x}", tid,
                      std::uint32_t{wr.irs}, receive_seq);
    discard_.free(2); // the host may reset the card again and again
    auto made = std::make_unique<Qp>(tid, wr, receive_seq - wr.irs);
    Qp* const qp = made.get();
    if (Qp* old = by_id_.find(qp->id())) {
        rnic_log.error("QP {:#x} moves from tid {:#x}, whose connection still exists, to tid {:#x}", qp->id(),
                       old->tid, tid);
        stop(*old);
    }
    if (guesses_.other(Guess::sends_wait_for_rtr)) // [guess G5]
        qp->rtr_pending = false;
    if (guesses_.other(Guess::first_marker_before_first_fpdu))
        qp->framer.start_at(256);
    qps_.set(tid, std::move(made));
    by_id_.set(qp->id(), qp);
    parts_.sge.open_qp_context(qp->id(), tid, wr.qp_dma_addr, wr.qp_dma_size);
    // Receives that are already in the ring [guess G35] are consumed before the WR is acknowledged [guess
    // G1].
    if (!guesses_.other(Guess::requests_before_init_executed))
        run(*qp);
    return wr.rqe_count != 0 || guesses_.other(Guess::init_acked_if_receives_posted);
}

void Rnic::stream_switched(Tid tid) {
    Qp* qp = find(tid);
    if (!qp || qp->sends_fpdus)
        return;
    qp->sends_fpdus = true;
    receive(*qp, std::exchange(qp->early_data, {}), nullptr);
    run(*qp);
}

void Rnic::stream_in(Tid tid, Bytes data, const Packet* intact) {
    Qp* qp = find(tid);
    if (!qp)
        return;
    if (qp->sends_fpdus) {
        receive(*qp, data, intact);
        // The ring is not read again: new slots have a doorbell.
        if (qp->waits_for_peer || qp->closing || !qp->inbound_reads.empty())
            run(*qp);
    } else if (qp->stopped || qp->early_data.size() + data.size() > max_early_data) {
        count_dropped_bytes_ += data.size();
        inbound_error(*qp, RdmaOp::send, Status::internal);
    } else {
        if (intact)
            intact->fill_in();
        const std::size_t size = qp->early_data.size() + data.size();
        if (size > qp->early_data.capacity())
            qp->early_data.reserve(std::min(max_early_data, 2 * size));
        qp->early_data.insert(qp->early_data.end(), data.begin(), data.end());
    }
}

void Rnic::stream_writable(Tid tid) {
    if (Qp* qp = find(tid); qp && (qp->waits_for_space || !qp->unacknowledged.empty()))
        run(*qp);
}

void Rnic::doorbell(QpId context) {
    if (context == hw::control_qp) {
        run_control_qp();
        return;
    }
    if (Qp* qp = by_id_.find(context))
        run(*qp);
    else
        ++count_idle_doorbells_; // receives may be posted before the connection exists
}

/// Sends the initiator's ready-to-receive read before all slots of the ring; its response completes it: see
/// docs/hw/wr.md 14.
void Rnic::send_rtr_read(Qp& qp, Bytes wr) {
    const auto header = hw::load<hw::WrHeader>(wr);
    Status status = Status::internal;
    if (!qp.stopped && qp.reads.size() < qp.ord() && wr.size() >= sizeof(hw::ReadWr))
        status = wr_read(qp, wr);
    if (status != Status::success) {
        ++count_malformed_;
        fail(qp, status, true, RdmaOp::read_request, qp.send_cq(), &header);
        return;
    }
    qp.out.back().is_rtr_read = true;
    run(qp);
}

/// A TERMINATE is sent before all other messages, in every state, and is the last message.
void Rnic::terminate(Qp& qp, Bytes wr) {
    constexpr std::size_t control_word = 4;
    const auto send = hw::load<hw::SendWr>(wr);
    if (static_cast<RdmaOp>(send.rdma_op) != RdmaOp::terminate || send.plen != control_word ||
        send.num_sge != 0 || qp.finished) {
        ++count_malformed_;
        rnic_log.warn("QP {:#x}: TERMINATE ignored", qp.id());
        return;
    }
    stop(qp);
    OutMessage message;
    message.segment = {.op = RdmaOp::terminate, .msn = 1};
    message.length = control_word;
    message.is_inline = true;
    std::copy_n(send.inline_data, control_word, message.inline_data.begin());
    message.signaled = send.header.flag(hw::wr::completion);
    message.wr = send.header;
    if (qp.sends_fpdus) {
        qp.out.push_back(message);
    } else { // the peer still expects the MPA reply
        qp.finished = true;
        if (message.signaled)
            complete_wr(qp, message.wr, RdmaOp::terminate);
    }
    run(qp);
}

/// Drops all unsent messages and unanswered reads. A stopped QP executes no slots (qp.hh).
void Rnic::stop(Qp& qp) {
    qp.stopped = true;
    qp.out.clear();
    qp.inbound_reads.clear();
}

/// The only function that reports an error: posts at most one async event per QP, see docs/hw/engine.md 6
/// [guess G29].
void Rnic::fail(Qp& qp, Status status, bool send_side, RdmaOp op, CqId cq, const hw::WrHeader* wr) {
    if (qp.stopped)
        return;
    const Cqe event{.qp = qp.id(),
                    .status = static_cast<std::uint8_t>(status),
                    .send_side = send_side,
                    .opcode = static_cast<std::uint8_t>(op),
                    .word2 = wr ? std::uint32_t{wr->wr_id_hi} : 0,
                    .word3 = wr ? std::uint32_t{wr->wr_id_lo} : 0};
    stop(qp); // may free *wr
    ++count_errors_;
    rnic_log.info("QP {:#x}: error {:#x}, {} side, operation {}", qp.id(), static_cast<unsigned>(status),
                  send_side ? "send" : "receive", static_cast<unsigned>(op));
    for (int events = guesses_.other(Guess::one_error_event_per_qp) ? 2 : 1; events > 0; --events)
        parts_.sge.async_event(cq, event);
}

void Rnic::close_requested(Tid tid) {
    Qp* qp = find(tid);
    if (!qp) {
        parts_.stream.send_fin(tid);
        return;
    }
    qp->closing = true;
    run(*qp);
}

bool Rnic::peer_closed(Tid tid) {
    Qp* qp = find(tid);
    return qp && qp->deframer.inside_fpdu(); // [guess G10]
}

void Rnic::end_qp(Tid tid) {
    ended_.push_back(qps_.take(tid));
    ended_.back()->ended = true;
    free_ended_.soon();
}

void Rnic::free_ended() {
    ended_.resize(ended_.size() - std::min<std::size_t>(ended_.size(), Discard::at_a_time));
    if (!ended_.empty())
        free_ended_.soon();
}

void Rnic::connection_ended(Tid tid) {
    Qp* qp = find(tid);
    if (!qp)
        return;
    end_qp(tid);
    if (by_id_.find(qp->id()) == qp) {
        by_id_.take(qp->id());
        parts_.sge.invalidate_qp_context(qp->id()); // [guess G44]
    }
}

} // namespace t3sim
