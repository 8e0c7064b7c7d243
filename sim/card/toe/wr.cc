// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The firmware's work requests: docs/hw/cpl.md 24 and docs/hw/toe.md 6.
#include <algorithm>

#include "sim/card/toe/impl.hh"
#include "sim/hw/wr.hh"

namespace t3sim {

using hw::Cpl;
using hw::CplStatus;
using hw::FwOp;
using hw::ot;

namespace {

/// Limit of outstanding WRs per connection (docs/hw/cpl.md 25).
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
    case FwOp::mngt: // packet scheduler commands; the model has no pacing
        break;
    default:
        ++counters["toe.unknown_wr"];
        log.warn("control queue {}: unknown work request {:#x}", queue, static_cast<unsigned>(head->op()));
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
    // These do not wait for earlier requests.
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
        if (!flow || flow->phase != Flow::Phase::established) {
            count_ignored("work request", tid); // [guess G13]
            return;
        }
        if (flow->pending_descriptors + descriptors > max_outstanding) {
            ++counters["toe.too_many_wrs"];
            log.warn("tid {}: more than {} work requests outstanding", tid, max_outstanding);
            return;
        }
        const std::size_t cost = wr.size() + Flow::PendingWr::place_cost;
        flow->pending.push_back({queue, Buffer(wr.begin(), wr.end()), descriptors, cost});
        flow->pending_descriptors += descriptors;
        pending_bytes += cost;
        run_pending(tid);
        break;
    }
    default:
        ++counters["toe.unknown_wr"];
        log.warn("offload queue {}: unknown work request {:#x}", queue, static_cast<unsigned>(head->op()));
        return;
    }
    rearm();
}

void Toe::Impl::run_pending(Tid tid) {
    // Executing a request may end the connection or call back, so the flow is looked up each time.
    for (Flow* flow = find(tid); flow && !flow->pending.empty() && !flow->running; flow = find(tid)) {
        if (writes.left() == 0) {
            wait_for_another_event(tid);
            return;
        }
        Flow::PendingWr wr = std::move(flow->pending.front());
        flow->running = true;
        const bool done = execute(tid, *flow, wr);
        flow = find(tid);
        if (!flow)
            return;
        flow->running = false;
        if (flow->pending.empty()) // execute() has ended the connection
            return;
        if (!done) {
            flow->pending.front() = std::move(wr);
            if (writes.left() == 0)
                continue; // to wait for another event
            return;
        }
        flow->pending_descriptors -= wr.descriptors;
        pending_bytes -= wr.cost;
        writes.use(wr.cost);
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
    const Bytes payload = Bytes(wr.bytes).subspan(sizeof *req);
    if (send_space_or_wait(tid, flow.send_buffer, std::max<std::size_t>(1, payload.size())) == 0)
        return false;
    if (!free_old(2 + 2 * payload.size() / tcp::Engine::min_mss))
        return false;
    const bool last_streaming = std::exchange(flow.switching, false);
    if (flow.rdma && !last_streaming) {
        ++counters["toe.tx_data_in_rdma_mode"]; // dropped, but acknowledged [guess G4]
        log.warn("tid {}: TX_DATA in RDMA mode", tid);
    } else if (req->len > payload.size()) {
        ++counters["toe.malformed"];
        log.warn("tid {}: TX_DATA of {} bytes has length {}", tid, payload.size(), std::uint32_t{req->len});
    } else if (req->len > 0) {
        engine.send(tid, Buffer(payload.begin(), payload.begin() + req->len), req->shove());
    }
    // The payload has been fetched, so the request is acknowledged in any case [guess G6].
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

bool Toe::Impl::free_old(std::size_t elements) {
    constexpr std::size_t element_work = 256;
    if (discard.empty()) [[likely]]
        return true;
    const std::size_t most = std::min(elements, writes.left() / element_work);
    writes.use(discard.free(most) * element_work);
    if (most == elements || discard.empty())
        return true;
    writes.left() = 0;
    return false;
}

void Toe::Impl::close_con(Tid tid, Flow& flow, const Flow::PendingWr& wr) {
    flow.unreported += wr.descriptors;
    if (hw::parse<hw::FwWrHeader>(wr.bytes)->completion())
        acknowledge(tid, wr.queue, std::exchange(flow.unreported, 0));
    if (flow.rdma)
        rnic.close_requested(tid); // calls send_fin() later [guess G11]
    else if (!engine.close(tid))
        count_ignored("CLOSE_CON_REQ", tid);
}

void Toe::Impl::rdma_wr(Tid tid, Flow& flow, const Flow::PendingWr& wr) {
    const bool init = hw::parse<hw::FwWrHeader>(wr.bytes)->op() == FwOp::ri_rdma_init;
    const auto view = engine.view(tid);
    if (!view || init == flow.rdma || (init && wr.bytes.size() < sizeof(hw::RdmaInitWr))) {
        count_ignored(init ? "RDMA_INIT" : "RDMA work request", tid);
        return;
    }
    if (!init) {
        rnic.offload_wr(tid, wr.bytes, view->delivered.value()); // no TX_DMA_ACK [guess G2]
        if (faults.guesses.other(Guess::rtr_and_terminate_not_acked) && find(tid))
            acknowledge(tid, wr.queue, 1);
        return;
    }
    flow.rdma = true;
    flow.switching = !hw::load<hw::RdmaInitWr>(wr.bytes).initiator();
    engine.auto_credit(tid);
    const bool report = rnic.offload_wr(tid, wr.bytes, view->delivered.value());
    const Flow* const still = find(tid);
    if (!still)
        return;
    apply_hold(tid, *still); // may deliver what was held: the QP must exist
    if (report && find(tid)) // a message of its own, without other credits [guess G1]
        acknowledge(tid, wr.queue, 1);
}

/// Received data is held while the host has quiesced the connection, and on the passive side from RDMA_INIT
/// until the last streaming message has been queued [guess G4].
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

/// Always replies, because the host waits for it [guess G13].
void Toe::Impl::abort_req(Tid tid, Bytes wr) {
    const auto req = hw::parse<hw::AbortWr>(wr);
    if (!req) {
        ++counters["toe.malformed"];
        return;
    }
    Flow* flow = find(tid);
    if (!flow || flow->phase == Flow::Phase::opening) { // the TID has not been announced to the host
        count_ignored("ABORT_REQ", tid);
    } else {
        drop_pending(*flow);
        clear_half_open(*flow);
        end_rdma(tid, *flow);
        if (flow->phase != Flow::Phase::aborting) { // else the card still waits for the host's ABORT_RPL
            engine.abort(tid, req->cmd == hw::AbortWr::send_rst);
            flow->phase = Flow::Phase::closed;
        }
        flow->aborted = true;
    }
    post_abort(tid, Cpl::abort_rpl_rss, CplStatus::none);
}

/// Completes an abort that the card started. Ignores late and duplicate replies.
void Toe::Impl::abort_rpl(Tid tid, Bytes wr) {
    const auto req = hw::parse<hw::AbortWr>(wr);
    Flow* flow = find(tid);
    if (!req || !flow || flow->phase != Flow::Phase::aborting)
        return;
    engine.abort(tid, req->cmd == hw::AbortWr::send_rst);
    flow->phase = Flow::Phase::closed;
    flow->aborted = true;
}

} // namespace t3sim
