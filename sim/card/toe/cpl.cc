// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// CPL messages in FORWARD (or BYPASS) work requests: docs/hw/toe.md 6.
#include <algorithm>
#include <cstring>

#include "sim/card/toe/impl.hh"

namespace t3sim {

using hw::Cpl;
using hw::CplStatus;
using hw::ot;

namespace {

template <class Impl> struct Row {
    Cpl opcode;
    const char* name;
    std::size_t length;
    void (*handle)(Impl&, unsigned queue, Bytes cpl);
};

template <class Layout, auto Method, class Impl> constexpr Row<Impl> row(Cpl opcode, const char* name) {
    return {opcode, name, sizeof(Layout),
            [](Impl& toe, unsigned queue, Bytes cpl) { (toe.*Method)(queue, *hw::parse<Layout>(cpl)); }};
}

hw::TableWriteRpl table_reply(Cpl opcode, std::uint32_t index, CplStatus status) {
    hw::TableWriteRpl rpl{};
    rpl.ot = ot(opcode, index);
    rpl.status = static_cast<std::uint8_t>(status);
    return rpl;
}

hw::StatusRpl status_reply(Cpl opcode, std::uint32_t id, CplStatus status) {
    hw::StatusRpl rpl{};
    rpl.ot = ot(opcode, id);
    rpl.status = static_cast<std::uint8_t>(status);
    return rpl;
}

} // namespace

void Toe::Impl::forward(unsigned queue, Bytes cpl) {
    static constexpr Row<Impl> table[] = {
        row<hw::PassOpenReq, &Impl::pass_open, Impl>(Cpl::pass_open_req, "PASS_OPEN_REQ"),
        row<hw::PassAcceptRpl, &Impl::pass_accept, Impl>(Cpl::pass_accept_rpl, "PASS_ACCEPT_RPL"),
        row<hw::ActOpenReq, &Impl::act_open, Impl>(Cpl::act_open_req, "ACT_OPEN_REQ"),
        row<hw::SetTcbField, &Impl::set_tcb_field, Impl>(Cpl::set_tcb_field, "SET_TCB_FIELD"),
        row<hw::GetTcb, &Impl::get_tcb, Impl>(Cpl::get_tcb, "GET_TCB"),
        row<hw::CloseListsrvReq, &Impl::close_listener, Impl>(Cpl::close_listsrv_req, "CLOSE_LISTSRV_REQ"),
        row<hw::RxDataAck, &Impl::rx_data_ack, Impl>(Cpl::rx_data_ack, "RX_DATA_ACK"),
        row<hw::CplRequest, &Impl::rte_write, Impl>(Cpl::rte_write_req, "RTE_WRITE_REQ"),
        row<hw::L2tWriteReq, &Impl::l2t_write, Impl>(Cpl::l2t_write_req, "L2T_WRITE_REQ"),
        row<hw::SmtWriteReq, &Impl::smt_write, Impl>(Cpl::smt_write_req, "SMT_WRITE_REQ"),
        row<hw::CplRequest, &Impl::barrier, Impl>(Cpl::barrier, "BARRIER"),
        row<hw::CplRequest, &Impl::tid_release, Impl>(Cpl::tid_release, "TID_RELEASE"),
    };
    const auto head = hw::parse<hw::CplRequest>(cpl);
    if (!head) {
        ++counters["toe.malformed"];
        return;
    }
    const auto it = std::find_if(std::begin(table), std::end(table),
                                 [&](const auto& r) { return r.opcode == head->opcode(); });
    if (it == std::end(table)) {
        ++counters["toe.unknown_cpl"];
        log.warn("unknown CPL opcode {:#x}", static_cast<unsigned>(head->opcode()));
        return;
    }
    if (cpl.size() < it->length) {
        ++counters["toe.malformed"];
        log.warn("{} of {} bytes, expected {}", it->name, cpl.size(), it->length);
        return;
    }
    log.debug("> {} {:#x}", it->name, head->id());
    discard.free(2); // the host may fill tables and reset the card again and again
    it->handle(*this, queue, cpl);
    rearm();
}

/// A list of ULP_TXPKT commands, each with a CPL without work request header (docs/hw/cpl.md 21).
void Toe::Impl::bypass(unsigned queue, Bytes wr) {
    constexpr unsigned ulp_txpkt = 4;
    // The largest request can have 16,383, which took 6 ms. Drivers send a few.
    constexpr unsigned most = 256;
    Bytes commands = wr.subspan(sizeof(hw::FwWrHeader));
    for (unsigned n = 0; commands.size() >= 8; ++n) {
        const std::uint32_t command = be32(commands.data());
        const std::size_t length = bits(be32(&commands[4]), 7, 0) * std::size_t{8};
        if (bits(command, 31, 28) != ulp_txpkt || length < 16 || length > commands.size() || n == most) {
            ++counters["toe.malformed"];
            return;
        }
        Buffer cpl(sizeof(hw::FwWrHeader), 0);
        cpl.insert(cpl.end(), commands.begin() + 8, commands.begin() + static_cast<std::ptrdiff_t>(length));
        forward(queue, cpl);
        commands = commands.subspan(length);
    }
}

// ---- Tables -------------------------------------------------------------------------------------------

void Toe::Impl::l2t_write(unsigned queue, const hw::L2tWriteReq& req) {
    CplStatus status = CplStatus::none;
    if (req.id() < l2t_entries) {
        l2t[req.id()] = {req.dst_mac, req.vlan(), req.interface(), req.priority()};
    } else {
        ++counters["toe.malformed"];
        status = CplStatus::general;
    }
    post(queue, table_reply(Cpl::l2t_write_rpl, req.id(), status));
}

void Toe::Impl::smt_write(unsigned queue, const hw::SmtWriteReq& req) {
    CplStatus status = CplStatus::none;
    if (req.id() < smt_entries) {
        smt[req.id()] = req.src_mac0;
    } else {
        ++counters["toe.malformed"];
        status = CplStatus::general;
    }
    post(queue, table_reply(Cpl::smt_write_rpl, req.id(), status));
}

/// The routing table has no effect: every open specifies its L2T entry.
void Toe::Impl::rte_write(unsigned queue, const hw::CplRequest& req) {
    post(queue, table_reply(Cpl::rte_write_rpl, req.id(), CplStatus::none));
}

void Toe::Impl::set_tcb_field(unsigned queue, const hw::SetTcbField& req) {
    constexpr unsigned l2t_word = 0, quiesce_word = 25;
    const unsigned word = req.word;
    const Tid tid = req.id();
    Flow* flow = find(tid);
    if (tid >= params.tids || word + 1 > tcbs[tid].size() || (flow && flow->aborted)) {
        count_ignored("SET_TCB_FIELD", tid);
        return;
    }
    Tcb& tcb = tcbs[tid];
    const auto masked = [](std::uint32_t old, std::uint64_t mask, std::uint64_t value) {
        const auto m = static_cast<std::uint32_t>(mask);
        return (old & ~m) | (static_cast<std::uint32_t>(value) & m);
    };
    tcb[word] = masked(tcb[word], req.mask, req.value);
    if (word + 1 < tcb.size())
        tcb[word + 1] = masked(tcb[word + 1], req.mask >> 32, req.value >> 32);
    if (flow) { // fields with an effect
        if (word == l2t_word)
            flow->l2t_index = tcb_field(tcb, 0, 7, 11);
        if (word <= quiesce_word && word + 1 >= quiesce_word) {
            flow->quiesced = tcb_field(tcb, quiesce_word, 1, 1) != 0;
            apply_hold(tid, *flow);
        }
    }
    if (!req.no_reply())
        post(flow ? queue_of(tid) : queue, status_reply(Cpl::set_tcb_rpl, tid, CplStatus::none));
}

void Toe::Impl::get_tcb(unsigned, const hw::GetTcb& req) {
    constexpr unsigned response_queues = 8;
    const Tid tid = req.id();
    const Flow* flow = find(tid);
    if (tid >= params.tids || (flow && flow->aborted)) {
        count_ignored("GET_TCB", tid);
        return;
    }
    const TcbBytes tcb = composed_tcb(tid);
    hw::GetTcbRpl rpl{};
    rpl.ot = ot(Cpl::get_tcb_rpl, tid);
    rpl.len = static_cast<std::uint16_t>(tcb.size()); // [guess G37]
    static_assert(sizeof rpl.words == sizeof tcb);
    std::memcpy(rpl.words, tcb.data(), tcb.size());
    post(req.cpuno < response_queues ? unsigned{req.cpuno} : queue_of(tid), rpl);
}

// ---- Listening ----------------------------------------------------------------------------------------

void Toe::Impl::pass_open(unsigned queue, const hw::PassOpenReq& req) {
    const std::uint32_t stid = req.id();
    const bool fits =
        stid >= params.stid_base && stid - params.stid_base < params.stids && !faults.stid.fires();
    if (fits) // a TCAM entry is overwritten
        engine.listen(stid, req.ends.local_ip, req.ends.local_port);
    hw::OpenRpl rpl{};
    rpl.ot = ot(Cpl::pass_open_rpl, stid);
    rpl.ends = req.ends;
    rpl.status = static_cast<std::uint8_t>(fits ? CplStatus::none : CplStatus::tcam_full);
    post(queue, rpl);
}

void Toe::Impl::close_listener(unsigned queue, const hw::CloseListsrvReq& req) {
    engine.unlisten(req.id());
    post(queue, status_reply(Cpl::close_listsrv_rpl, req.id(), CplStatus::none));
}

// ---- Opening ------------------------------------------------------------------------------------------

void Toe::Impl::act_open(unsigned, const hw::ActOpenReq& req) {
    const hw::Opt0h opt0h{req.opt0h};
    const hw::Opt0l opt0l{req.opt0l};
    const auto refuse = [&](CplStatus status) { // a refused open has no TID
        hw::OpenRpl rpl{};
        rpl.ot = ot(Cpl::act_open_rpl, 0);
        rpl.ends = req.ends;
        rpl.atid = req.id();
        rpl.status = static_cast<std::uint8_t>(status);
        post(queue_of(0), rpl);
    };
    if (!l2t[opt0h.l2t_index()].valid()) { // [guess G15]
        refuse(CplStatus::arp_miss);
        return;
    }
    const tcp::FourTuple tuple{.local_ip = req.ends.local_ip,
                               .remote_ip = req.ends.peer_ip,
                               .local_port = req.ends.local_port,
                               .remote_port = req.ends.peer_port};
    if (engine.in_use(tuple)) {
        refuse(CplStatus::conn_exist);
        return;
    }
    const auto tid = allocate_tid();
    if (!tid) {
        refuse(CplStatus::tcam_full);
        return;
    }
    Flow& flow = add(*tid);
    flow.peer_id = req.id();
    flow.l2t_index = opt0h.l2t_index();
    flow.channel = opt0h.channel();
    flow.tos = opt0l.tos();
    flow.tuple = tuple;
    ::t3sim::set_tcb_field(tcbs[*tid], 0, 7, 11, flow.l2t_index);
    engine.open(*tid, tuple, options(opt0h, opt0l));
}

void Toe::Impl::pass_accept(unsigned, const hw::PassAcceptRpl& req) {
    const Tid tid = req.id();
    Flow* flow = find(tid);
    if (!flow || flow->phase != Flow::Phase::syn_received) {
        count_ignored("PASS_ACCEPT_RPL", tid);
        return;
    }
    const hw::Opt0h opt0h{req.opt0h};
    const hw::Opt0l opt0l{req.opt0l};
    if (opt0l.status() == hw::Opt0l::reject) { // for T3A; later cards get TID_RELEASE
        engine.abort(tid, true);
        release(tid);
        return;
    }
    flow->phase = Flow::Phase::accepted;
    flow->l2t_index = opt0h.l2t_index();
    flow->channel = opt0h.channel();
    flow->tos = opt0l.tos();
    ::t3sim::set_tcb_field(tcbs[tid], 0, 7, 11, flow->l2t_index);
    engine.accept(tid, options(opt0h, opt0l));
}

// ---- Credits and release ------------------------------------------------------------------------------

void Toe::Impl::rx_data_ack(unsigned, const hw::RxDataAck& req) {
    if (!engine.credit(req.id(), req.credits(), req.force_ack()))
        count_ignored("RX_DATA_ACK", req.id());
}

void Toe::Impl::tid_release(unsigned, const hw::CplRequest& req) {
    const Tid tid = req.id();
    Flow* flow = find(tid);
    if (!flow || flow->phase == Flow::Phase::opening) { // the TID has not been announced to the host
        count_ignored("TID_RELEASE", tid);
        return;
    }
    end_rdma(tid, *flow);
    engine.abort(tid, flow->phase != Flow::Phase::aborting);
    release(tid);
}

} // namespace t3sim
