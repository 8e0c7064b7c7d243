// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The firmware's work requests: offload.md 5 and 10.1.
#include <algorithm>

#include "sim/card/toe_impl.hh"

namespace t3sim {

using hw::Cpl;
using hw::CplStatus;
using hw::FwOp;
using hw::ot;

namespace {

/// WRs of one connection that may be outstanding at the firmware (offload.md 5.4).
constexpr unsigned max_outstanding = 16;

} // namespace

void Toe::Impl::control_wr(unsigned queue, Bytes wr) {
    const auto head = hw::parse<hw::FwWrHeader>(wr);
    if (!head) {
        ++counters["toe.malformed"];
        return;
    }
    switch (head->op()) {
    case FwOp::forward:
        forward(queue, wr);
        break;
    case FwOp::bypass:
        bypass(queue, wr);
        break;
    case FwOp::ri_modify_qp:
        rnic.control_wr(wr);
        break;
    case FwOp::mngt: // the packet scheduler's; nothing is paced here
        break;
    default:
        ++counters["toe.unknown_wr"];
        log.warn("control queue {}: work request {:#x} is not known", queue,
                 static_cast<unsigned>(head->op()));
    }
}

void Toe::Impl::offload_wr(unsigned queue, Bytes wr, unsigned descriptors) {
    const auto head = hw::parse<hw::FwWrHeader>(wr);
    if (!head) {
        ++counters["toe.malformed"];
        return;
    }
    const Tid tid = head->tid();
    switch (head->op()) {
    case FwOp::forward:
        forward(queue, wr);
        return;
    case FwOp::bypass:
        bypass(queue, wr);
        return;
    // Not held back by what was posted before.
    case FwOp::host_abort_con_req:
        abort_req(tid, wr);
        break;
    case FwOp::host_abort_con_rpl:
        abort_rpl(tid, wr);
        break;
    case FwOp::tx_data:
    case FwOp::close_con:
    case FwOp::ri_rdma_init:
    case FwOp::ri_rdma_read:
    case FwOp::ri_send: {
        Flow* flow = find(tid);
        if (!flow || flow->phase != Flow::Phase::up) {
            ignored("work request", tid); // [guess G13]
            return;
        }
        if (flow->pending_descriptors + descriptors > max_outstanding) {
            ++counters["toe.too_many_wrs"];
            log.warn("tid {}: more than {} work requests outstanding", tid, max_outstanding);
            return;
        }
        flow->pending.push_back({queue, Buffer(wr.begin(), wr.end()), descriptors, wr.size()});
        flow->pending_descriptors += descriptors;
        pending_bytes += wr.size();
        run_pending(tid);
        break;
    }
    default:
        ++counters["toe.unknown_wr"];
        log.warn("offload queue {}: work request {:#x} is not known", queue,
                 static_cast<unsigned>(head->op()));
        return;
    }
    rearm();
}

void Toe::Impl::run_pending(Tid tid) {
    // Everything here may end the connection or call back, so the flow is looked up anew each time.
    for (Flow* flow = find(tid); flow && !flow->pending.empty() && !flow->running; flow = find(tid)) {
        Flow::PendingWr wr = std::move(flow->pending.front());
        flow->running = true;
        const bool done = execute(tid, *flow, wr);
        flow = find(tid);
        if (!flow)
            return;
        flow->running = false;
        if (flow->pending.empty()) // the connection has ended meanwhile
            return;
        if (!done) {
            flow->pending.front() = std::move(wr);
            return;
        }
        flow->pending_descriptors -= wr.descriptors;
        pending_bytes -= wr.size;
        flow->pending.pop_front();
    }
}

bool Toe::Impl::execute(Tid tid, Flow& flow, const Flow::PendingWr& wr) {
    switch (hw::parse<hw::FwWrHeader>(wr.bytes)->op()) {
    case FwOp::tx_data:
        return tx_data(tid, flow, wr);
    case FwOp::close_con:
        close_con(tid, flow, wr);
        return true;
    default:
        rdma_wr(tid, flow, wr);
        return true;
    }
}

bool Toe::Impl::tx_data(Tid tid, Flow& flow, const Flow::PendingWr& wr) {
    const auto req = hw::parse<hw::TxDataWr>(wr.bytes);
    if (!req) {
        ++counters["toe.malformed"];
        return true;
    }
    if (req->init())
        flow.send_buffer = std::max<std::size_t>(req->send_buffer(), 32U << 10);
    if (send_room(tid, flow.send_buffer) == 0)
        return false;
    const Bytes payload = Bytes(wr.bytes).subspan(sizeof *req);
    const bool last_streaming = std::exchange(flow.switching, false);
    if (flow.rdma && !last_streaming) {
        ++counters["toe.tx_data_in_rdma_mode"]; // dropped, but acknowledged [guess G4]
        log.warn("tid {}: TX_DATA in RDMA mode", tid);
    } else if (req->len > payload.size()) {
        ++counters["toe.malformed"];
        log.warn("tid {}: TX_DATA of {} bytes says {}", tid, payload.size(), std::uint32_t{req->len});
    } else if (req->len > 0) {
        engine.send(tid, Buffer(payload.begin(), payload.begin() + req->len), req->shove());
    }
    // The payload has been fetched; what became of it does not matter [guess G6].
    flow.unreported += wr.descriptors;
    if (req->wr.completion())
        acknowledge(tid, wr.queue, std::exchange(flow.unreported, 0));
    if (last_streaming) {
        rnic.stream_switched(tid);
        if (const Flow* still = find(tid))
            apply_hold(tid, *still);
    }
    if (req->close())
        engine.close(tid);
    return true;
}

void Toe::Impl::close_con(Tid tid, Flow& flow, const Flow::PendingWr& wr) {
    flow.unreported += wr.descriptors;
    if (hw::parse<hw::FwWrHeader>(wr.bytes)->completion())
        acknowledge(tid, wr.queue, std::exchange(flow.unreported, 0));
    if (flow.rdma)
        rnic.close_requested(tid); // comes back with send_fin() [guess G11]
    else if (!engine.close(tid))
        ignored("CLOSE_CON_REQ", tid);
}

void Toe::Impl::rdma_wr(Tid tid, Flow& flow, const Flow::PendingWr& wr) {
    constexpr std::size_t init_length = 72, flags_offset = 44; // flags_rtr_type, rdma.md 4.13
    const bool init = hw::parse<hw::FwWrHeader>(wr.bytes)->op() == FwOp::ri_rdma_init;
    const auto view = engine.view(tid);
    if (!view || init == flow.rdma || (init && wr.bytes.size() < init_length)) {
        ignored(init ? "RDMA_INIT" : "RDMA work request", tid);
        return;
    }
    if (!init) {
        rnic.offload_wr(tid, wr.bytes, view->rcv_nxt.value()); // no TX_DMA_ACK [guess G2]
        return;
    }
    const bool initiator = (be16(&wr.bytes[flags_offset]) & 1) != 0;
    flow.rdma = true;
    flow.switching = !initiator;
    engine.auto_credit(tid);
    apply_hold(tid, flow);
    const bool report = rnic.offload_wr(tid, wr.bytes, view->rcv_nxt.value());
    if (report && find(tid)) // alone, never with the credits of others [guess G1]
        acknowledge(tid, wr.queue, 1);
}

/// What is received waits while the host has quiesced the connection, and on the passive side from
/// RDMA_INIT until the last streaming message is in the stream [guess G4].
void Toe::Impl::apply_hold(Tid tid, const Flow& flow) {
    engine.hold(tid, flow.quiesced || flow.switching);
}

void Toe::Impl::acknowledge(Tid tid, unsigned queue, unsigned credits) {
    const auto view = engine.view(tid);
    if (!view)
        return;
    hw::WrAck cpl{};
    cpl.ot = ot(Cpl::tx_dma_ack, tid);
    cpl.credits = static_cast<std::uint16_t>(credits);
    cpl.snd_nxt = view->snd_end.value();
    cpl.snd_una = view->snd_una.value();
    post(queue, cpl);
}

// ---- Aborts -------------------------------------------------------------------------------------------

/// Answered always, or the host would wait for ever [guess G13].
void Toe::Impl::abort_req(Tid tid, Bytes wr) {
    const auto req = hw::parse<hw::AbortWr>(wr);
    if (!req) {
        ++counters["toe.malformed"];
        return;
    }
    Flow* flow = find(tid);
    if (!flow || flow->phase == Flow::Phase::opening) { // of an opening one the host cannot know the TID yet
        ignored("ABORT_REQ", tid);
    } else {
        drop_pending(*flow);
        no_longer_half_open(*flow);
        leave_rdma(tid, *flow);
        if (flow->phase != Flow::Phase::dying) { // else the host owes us an ABORT_RPL still
            engine.abort(tid, req->cmd == hw::AbortWr::send_rst);
            flow->phase = Flow::Phase::gone;
        }
        flow->aborted = true;
    }
    post_abort(tid, Cpl::abort_rpl_rss, CplStatus::none);
}

/// The end of an abort that the card began. Any other is late or a second copy, and means nothing.
void Toe::Impl::abort_rpl(Tid tid, Bytes wr) {
    const auto req = hw::parse<hw::AbortWr>(wr);
    Flow* flow = find(tid);
    if (!req || !flow || flow->phase != Flow::Phase::dying)
        return;
    engine.abort(tid, req->cmd == hw::AbortWr::send_rst);
    flow->phase = Flow::Phase::gone;
    flow->aborted = true;
}

} // namespace t3sim
