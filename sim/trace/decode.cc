// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/trace/decode.hh"

#include <algorithm>

#include <fmt/format.h>

#include "include/wire/mpa.h"
#include "sim/card/rnic/ddp.hh"
#include "sim/hw/cpl.hh"
#include "sim/hw/cqe.hh"
#include "sim/hw/regs.hh"
#include "sim/hw/sge.hh"
#include "sim/hw/wr.hh"

namespace t3sim::trace {
namespace {

using hw::Cpl;
using hw::FwOp;
using hw::RdmaOp;
using hw::WrOpcode;

/// Kind of the id in an opcode/TID word.
enum class Id : std::uint8_t { tid, stid, atid, none };

constexpr struct {
    const char* name;
    Cpl opcode;
    Id id;
} cpls[] = {
    {"PASS_OPEN_REQ", Cpl::pass_open_req, Id::stid},
    {"PASS_ACCEPT_RPL", Cpl::pass_accept_rpl, Id::tid},
    {"ACT_OPEN_REQ", Cpl::act_open_req, Id::atid},
    {"SET_TCB_FIELD", Cpl::set_tcb_field, Id::tid},
    {"GET_TCB", Cpl::get_tcb, Id::tid},
    {"CLOSE_CON_REQ", Cpl::close_con_req, Id::tid},
    {"CLOSE_LISTSRV_REQ", Cpl::close_listsrv_req, Id::stid},
    {"ABORT_REQ", Cpl::abort_req, Id::tid},
    {"ABORT_RPL", Cpl::abort_rpl, Id::tid},
    {"RX_DATA_ACK", Cpl::rx_data_ack, Id::tid},
    {"TX_PKT", Cpl::tx_pkt, Id::none},
    {"RTE_WRITE_REQ", Cpl::rte_write_req, Id::none},
    {"L2T_WRITE_REQ", Cpl::l2t_write_req, Id::none},
    {"SMT_WRITE_REQ", Cpl::smt_write_req, Id::none},
    {"TX_PKT_LSO", Cpl::tx_pkt_lso, Id::none},
    {"BARRIER", Cpl::barrier, Id::none},
    {"TID_RELEASE", Cpl::tid_release, Id::tid},
    {"CLOSE_LISTSRV_RPL", Cpl::close_listsrv_rpl, Id::stid},
    {"GET_TCB_RPL", Cpl::get_tcb_rpl, Id::tid},
    {"L2T_WRITE_RPL", Cpl::l2t_write_rpl, Id::none},
    {"PEER_CLOSE", Cpl::peer_close, Id::tid},
    {"RTE_WRITE_RPL", Cpl::rte_write_rpl, Id::none},
    {"SET_TCB_RPL", Cpl::set_tcb_rpl, Id::tid},
    {"SMT_WRITE_RPL", Cpl::smt_write_rpl, Id::none},
    {"ABORT_REQ_RSS", Cpl::abort_req_rss, Id::tid},
    {"ABORT_RPL_RSS", Cpl::abort_rpl_rss, Id::tid},
    {"CLOSE_CON_RPL", Cpl::close_con_rpl, Id::tid},
    {"RX_DATA", Cpl::rx_data, Id::tid},
    {"ACT_OPEN_RPL", Cpl::act_open_rpl, Id::atid},
    {"PASS_OPEN_RPL", Cpl::pass_open_rpl, Id::stid},
    {"ACT_ESTABLISH", Cpl::act_establish, Id::tid},
    {"PASS_ESTABLISH", Cpl::pass_establish, Id::tid},
    {"PASS_ACCEPT_REQ", Cpl::pass_accept_req, Id::tid},
    {"TX_DMA_ACK", Cpl::tx_dma_ack, Id::tid},
    {"RDMA_TERMINATE", Cpl::rdma_terminate, Id::tid},
    {"RDMA_EC_STATUS", Cpl::rdma_ec_status, Id::tid},
};

auto* find_cpl(Cpl opcode) {
    const auto* row =
        std::find_if(std::begin(cpls), std::end(cpls), [&](const auto& r) { return r.opcode == opcode; });
    return row == std::end(cpls) ? nullptr : row;
}

template <typename Enum> constexpr unsigned of(Enum value) {
    return static_cast<unsigned>(value);
}

struct Name {
    unsigned opcode;
    const char* name;
};

constexpr Name fw_ops[] = {
    {of(FwOp::forward), "FORWARD"},
    {of(FwOp::tunnel_tx_pkt), "TUNNEL_TX_PKT"},
    {of(FwOp::bypass), "BYPASS"},
    {of(FwOp::close_con), "CLOSE_CON"},
    {of(FwOp::host_abort_con_req), "HOST_ABORT_CON_REQ"},
    {of(FwOp::tx_data), "TX_DATA"},
    {of(FwOp::host_abort_con_rpl), "HOST_ABORT_CON_RPL"},
    {of(FwOp::ri_rdma_init), "RDMA_INIT"},
    {of(FwOp::ri_send), "RDMA TERMINATE"},
    {of(FwOp::ri_rdma_read), "RDMA_READ (ready to receive)"},
    {of(FwOp::ri_modify_qp), "MODIFY_QP"},
    {of(FwOp::mngt), "MNGT"},
};

constexpr Name rdma_wrs[] = {
    {of(WrOpcode::rdma_write), "WRITE"},    {of(WrOpcode::send), "SEND"},
    {of(WrOpcode::rdma_read), "READ"},      {of(WrOpcode::receive), "RECEIVE"},
    {of(WrOpcode::bind_mw), "BIND_MW"},     {of(WrOpcode::fast_register), "FAST_REGISTER"},
    {of(WrOpcode::local_inv), "LOCAL_INV"}, {of(WrOpcode::bypass), "memory write"},
};

/// Operation codes of CQEs and RDMAP.
constexpr Name rdma_ops[] = {
    {of(RdmaOp::write), "WRITE"},
    {of(RdmaOp::read_request), "READ request"},
    {of(RdmaOp::read_response), "READ response"},
    {of(RdmaOp::send), "SEND"},
    {of(RdmaOp::send_inv), "SEND_INV"},
    {of(RdmaOp::send_se), "SEND_SE"},
    {of(RdmaOp::send_se_inv), "SEND_SE_INV"},
    {of(RdmaOp::terminate), "TERMINATE"},
    {of(RdmaOp::rdma_init), "RDMA_INIT"},
    {of(RdmaOp::bind_mw), "BIND_MW"},
    {of(RdmaOp::fast_register), "FAST_REGISTER"},
    {of(RdmaOp::local_inv), "LOCAL_INV"},
    {of(RdmaOp::modify_qp), "MODIFY_QP"},
    {of(RdmaOp::bypass), "memory write"},
};

constexpr Name statuses[] = {
    {of(hw::Status::invalid_stag), "invalid STag"},
    {of(hw::Status::pd_mismatch), "other PD"},
    {of(hw::Status::qp_mismatch), "other QP"},
    {of(hw::Status::access), "access right"},
    {of(hw::Status::wrap), "wrap"},
    {of(hw::Status::bounds), "bounds"},
    {of(hw::Status::inv_shared), "shared region"},
    {of(hw::Status::inv_bound), "window bound"},
    {of(hw::Status::ecc), "ECC error"},
    {of(hw::Status::pbl_bounds), "PBL bounds"},
    {of(hw::Status::crc), "CRC"},
    {of(hw::Status::marker), "marker"},
    {of(hw::Status::pdu_length), "PDU length"},
    {of(hw::Status::no_receive), "no receive"},
    {of(hw::Status::ddp_version), "DDP version"},
    {of(hw::Status::rdmap_version), "RDMAP version"},
    {of(hw::Status::rdmap_opcode), "RDMAP opcode"},
    {of(hw::Status::queue_number), "queue number"},
    {of(hw::Status::msn), "MSN"},
    {of(hw::Status::tagged_bit), "tagged bit"},
    {of(hw::Status::message_offset), "message offset"},
    {of(hw::Status::ird_overflow), "too many reads"},
    {of(hw::Status::rqe_bounds), "RQE bounds"},
    {of(hw::Status::internal), "internal"},
};

constexpr Name ring_types[] = {{of(hw::EgressType::rdma), "QP"},
                               {of(hw::EgressType::ethernet), "Ethernet"},
                               {of(hw::EgressType::offload), "offload"},
                               {of(hw::EgressType::control), "control"}};

std::string name_of(std::span<const Name> table, unsigned opcode) {
    for (const Name& row : table)
        if (row.opcode == opcode)
            return row.name;
    return fmt::format("{:#x}", opcode);
}

std::string cpl_name(Cpl opcode) {
    const auto* row = find_cpl(opcode);
    return row ? row->name : fmt::format("CPL {:#x}", of(opcode));
}

std::string size_text(std::uint64_t bytes) {
    return fmt::format("{} B", bytes);
}

std::string ip_text(std::uint32_t ip) {
    return fmt::format("{}.{}.{}.{}", ip >> 24, ip >> 16 & 0xff, ip >> 8 & 0xff, ip & 0xff);
}

std::string ends_text(const hw::Endpoints& e) {
    return fmt::format("{}:{} - {}:{}", ip_text(e.local_ip), std::uint16_t{e.local_port}, ip_text(e.peer_ip),
                       std::uint16_t{e.peer_port});
}

std::string hex(Bytes data, std::size_t most) {
    std::string text;
    for (std::size_t i = 0; i < std::min(data.size(), most); ++i)
        text += fmt::format("{}{:02x}", i != 0 && i % 4 == 0 ? " " : "", data[i]);
    return data.size() > most ? text + " ..." : text;
}

// --- MMIO, DMA, interrupts ---------------------------------------------------------------------------------

const RegisterBank& register_names() {
    static const RegisterBank bank = [] {
        RegisterBank b("names", reg::file_size);
        fill_register_file(b, RegisterHooks());
        return b;
    }();
    return bank;
}

Words mmio(const Event& e) {
    const bool write = e.head.kind == EventKind::mmio_write;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < e.data.size(); ++i)
        value |= std::uint64_t{e.data[i]} << 8 * i;
    const char* name = nullptr;
    if (e.head.unit == 0 && e.head.where < reg::file_size)
        name = register_names().name(static_cast<std::uint32_t>(e.head.where) & ~3U);
    std::string target = name ? name : fmt::format("BAR{}+{:#x}", e.head.unit, e.head.where);
    if (name && e.head.where % 4 != 0)
        target += fmt::format("+{}", e.head.where % 4);
    std::string width = e.data.size() == 4 ? "" : fmt::format("{} bits", 8 * e.data.size());
    return {(write ? "write " : "read ") + target, fmt::format("{:#010x}", value), std::move(width)};
}

Words dma(const Event& e) {
    return {e.head.kind == EventKind::dma_read ? "read" : "write",
            fmt::format("{} {} {:#x}", size_text(e.head.length),
                        e.head.kind == EventKind::dma_read ? "from" : "to", e.head.where),
            (e.head.flags & RecordHead::flag_failed) != 0 ? std::string("BUS ERROR") : hex(e.data, 16)};
}

Words interrupt(const Event& e) {
    if (e.head.unit == 1)
        return {e.head.where != 0 ? "INTx up" : "INTx down", {}, {}};
    return {fmt::format("interrupt {}", e.head.where), {}, {}};
}

Words doorbell(const Event& e) {
    return {"doorbell",
            e.head.unit == 0 ? fmt::format("QP {:#x}", e.head.where)
                             : fmt::format("{} ring {}", name_of(ring_types, e.head.unit), e.head.where),
            {}};
}

// --- Work requests and CPL messages ------------------------------------------------------------------------

template <typename Wr> std::string payload_text(const Wr& wr) {
    return std::uint32_t{wr.num_sge} == 0 ? "inline" : fmt::format("{} SGE", std::uint32_t{wr.num_sge});
}

Words rdma_wr(const Event& e) {
    const auto header = hw::load<hw::WrHeader>(e.data);
    Words w{name_of(rdma_wrs, of(header.opcode())), {}, {}};
    switch (header.opcode()) {
    case WrOpcode::send: {
        const auto wr = hw::load<hw::SendWr>(e.data);
        w = {name_of(rdma_ops, wr.rdma_op), size_text(wr.plen), payload_text(wr)};
        break;
    }
    case WrOpcode::rdma_write: {
        const auto wr = hw::load<hw::WriteWr>(e.data);
        w.brief = size_text(wr.plen);
        w.more = fmt::format("{}, sink STag {:#x} TO {:#x}", payload_text(wr), std::uint32_t{wr.sink_stag},
                             std::uint64_t{wr.sink_to});
        break;
    }
    case WrOpcode::rdma_read: {
        const auto wr = hw::load<hw::ReadWr>(e.data);
        w.brief = size_text(wr.local_len);
        w.more =
            fmt::format("from STag {:#x} TO {:#x} to STag {:#x} TO {:#x}", std::uint32_t{wr.rem_stag},
                        std::uint64_t{wr.rem_to}, std::uint32_t{wr.local_stag}, std::uint64_t{wr.local_to});
        break;
    }
    case WrOpcode::receive: {
        const auto wr = hw::load<hw::ReceiveWr>(e.data);
        std::uint64_t size = 0;
        for (unsigned i = 0; i < std::min<std::uint32_t>(wr.num_sge, hw::max_sge); ++i)
            size += wr.sge[i].length;
        w.brief = size_text(size);
        w.more = fmt::format("{} SGE", std::uint32_t{wr.num_sge});
        break;
    }
    case WrOpcode::local_inv:
        w.brief = fmt::format("STag {:#x}", std::uint32_t{hw::load<hw::LocalInvWr>(e.data).stag});
        break;
    case WrOpcode::fast_register:
        w.brief = fmt::format("STag {:#x}", std::uint32_t{hw::load<hw::FastRegisterWr>(e.data).stag});
        break;
    case WrOpcode::bind_mw:
        w.brief = fmt::format("STag {:#x}", std::uint32_t{hw::load<hw::BindWr>(e.data).mw_stag});
        break;
    case WrOpcode::bypass: {
        const auto wr = hw::load<hw::BypassWr>(e.data);
        w.brief = fmt::format("{} to {:#x}", size_text(bits(wr.size, 31, 28) * hw::BypassWr::unit),
                              bits(wr.command, 26, 0) * hw::BypassWr::unit);
        break;
    }
    default:
        break;
    }
    constexpr struct {
        std::uint32_t flag;
        const char* text;
    } flags[] = {{hw::wr::completion, "completion"},
                 {hw::wr::notify, "notify"},
                 {hw::wr::solicited, "solicited"},
                 {hw::wr::read_fence, "read fence"},
                 {hw::wr::local_fence, "local fence"}};
    for (const auto& f : flags)
        if (header.flag(f.flag))
            w.more += fmt::format("{}{}", w.more.empty() ? "" : ", ", f.text);
    return w;
}

bool is_rdma_ring(const Event& e) {
    return e.head.unit == of(hw::EgressType::rdma);
}

Words work_request(const Event& e) {
    if (is_rdma_ring(e))
        return rdma_wr(e);
    const auto request = hw::load<hw::CplRequest>(e.data);
    Words w{name_of(fw_ops, of(request.wr.op())), {}, {}};
    switch (request.wr.op()) {
    case FwOp::forward:
    case FwOp::mngt:
    case FwOp::close_con:
    case FwOp::host_abort_con_req:
    case FwOp::host_abort_con_rpl:
        w.name = cpl_name(request.opcode());
        if (request.opcode() == Cpl::act_open_req || request.opcode() == Cpl::pass_open_req) {
            const auto open = hw::load<hw::ActOpenReq>(e.data);
            w.more = ends_text(open.ends) + ", ";
        } else if (request.opcode() == Cpl::rx_data_ack) {
            w.brief = size_text(hw::load<hw::RxDataAck>(e.data).credits());
        }
        if (const auto* row = find_cpl(request.opcode()); row && row->id != Id::none)
            w.more += fmt::format("{} {}",
                                  row->id == Id::tid    ? "tid"
                                  : row->id == Id::stid ? "stid"
                                                        : "atid",
                                  request.id());
        break;
    case FwOp::tx_data: {
        const auto wr = hw::load<hw::TxDataWr>(e.data);
        w.brief = size_text(wr.len);
        w.more = fmt::format("{}{}{}", wr.shove() ? "shove " : "", wr.close() ? "close " : "",
                             wr.init() ? "init" : "");
        break;
    }
    case FwOp::ri_rdma_init: {
        const auto wr = hw::load<hw::RdmaInitWr>(e.data);
        w.brief = fmt::format("QP {:#x}", std::uint32_t{wr.qpid});
        w.more = fmt::format("{}, {} slots, RQ {}, ORD {}, IRD {}",
                             wr.initiator() ? "initiator" : "responder", std::uint32_t{wr.qp_dma_size},
                             std::uint32_t{wr.rq_size}, std::uint32_t{wr.ord}, std::uint32_t{wr.ird});
        break;
    }
    default:
        if (e.head.unit == of(hw::EgressType::ethernet))
            w.brief = size_text(e.head.length);
        break;
    }
    return w;
}

Words cpl(const Event& e) {
    const std::uint32_t word = be32(e.data.data());
    const auto opcode = static_cast<Cpl>(word >> 24);
    Words w{cpl_name(opcode), {}, {}};
    switch (opcode) {
    case Cpl::act_establish:
    case Cpl::pass_establish:
        w.more = ends_text(hw::load<hw::Establish>(e.data).ends);
        break;
    case Cpl::pass_accept_req:
        w.more = ends_text(hw::load<hw::PassAcceptReq>(e.data).ends);
        break;
    case Cpl::act_open_rpl:
    case Cpl::pass_open_rpl:
        w.brief = fmt::format("status {}", hw::load<hw::OpenRpl>(e.data).status);
        break;
    case Cpl::rx_data: {
        const auto m = hw::load<hw::RxData>(e.data);
        w.brief = size_text(m.len);
        w.more = fmt::format("seq {:#x}", std::uint32_t{m.seq});
        break;
    }
    case Cpl::tx_dma_ack:
        w.brief = fmt::format("{} credits", std::uint16_t{hw::load<hw::WrAck>(e.data).credits});
        break;
    case Cpl::abort_req_rss:
    case Cpl::abort_rpl_rss:
        w.brief = fmt::format("status {}", hw::load<hw::AbortRss>(e.data).status);
        break;
    default:
        break;
    }
    const auto* row = find_cpl(opcode);
    if (row && (row->id == Id::stid || row->id == Id::atid))
        w.more = fmt::format("{} {}", row->id == Id::stid ? "stid" : "atid", word & 0xffffff);
    return w;
}

// --- The wire ----------------------------------------------------------------------------------------------

std::string flags_text(std::uint8_t flags) {
    constexpr struct {
        std::uint8_t flag;
        const char* name;
    } names[] = {
        {Segment::syn, "SYN"}, {Segment::fin, "FIN"}, {Segment::rst, "RST"}, {Segment::ack_flag, "ACK"}};
    std::string text;
    for (const auto& n : names)
        if ((flags & n.flag) != 0)
            text += (text.empty() ? "" : "|") + std::string(n.name);
    return text.empty() ? "-" : text;
}

bool starts_with(Bytes data, std::string_view key) {
    return data.size() >= key.size() && std::equal(key.begin(), key.end(), data.begin());
}

Words segment(const Event& e) {
    const auto s = parse_frame(e.data, e.head.length);
    if (!s)
        return {"segment", size_text(e.head.length), {}};
    Words w{flags_text(s->flags), {}, {}};
    if (starts_with(s->payload, MPA_KEY_REQUEST))
        w.brief = fmt::format("MPA request, {}", size_text(s->payload_length));
    else if (starts_with(s->payload, MPA_KEY_REPLY))
        w.brief = fmt::format("MPA reply, {}", size_text(s->payload_length));
    else if (s->payload_length != 0)
        w.brief = size_text(s->payload_length);
    w.more = fmt::format("seq {:#x}{}, {}:{} to {}:{}", s->seq,
                         (s->flags & Segment::ack_flag) != 0 ? fmt::format(" ack {:#x}", s->ack) : "",
                         ip_text(s->ends.ip), s->ends.port, ip_text(s->ends.peer_ip), s->ends.peer_port);
    if ((e.head.flags & RecordHead::flag_lost) != 0)
        w.more += ", LOST by a fault";
    return w;
}

Words frame(const Event& e) {
    const unsigned type = e.data.size() >= 14 ? be16(&e.data[12]) : 0;
    constexpr Name types[] = {{0x0800, "IPv4"}, {0x0806, "ARP"}, {0x86dd, "IPv6"}, {0x8100, "VLAN"}};
    const auto s = parse_frame(e.data, e.head.length);
    return {s ? "TCP " + flags_text(s->flags) : name_of(types, type), size_text(e.head.length),
            fmt::format("port {}", e.head.unit)};
}

/// A ULPDU of @p length bytes that starts with @p data.
Words ulpdu(Bytes data, std::uint32_t length, unsigned error) {
    if (error != 0)
        return {"FPDU", error == 1 ? "bad marker" : "bad CRC", size_text(length)};
    DdpSegment s;
    const hw::Status status = parse_segment(data, MpaError::none, &s);
    if (status != hw::Status::success)
        return {"FPDU", name_of(statuses, of(status)), size_text(length)};
    const auto header = static_cast<std::uint32_t>(ddp_header_size(s.op));
    Words w{name_of(rdma_ops, of(s.op)), size_text(length - std::min(length, header)), {}};
    if (s.op == RdmaOp::read_request && s.payload.size() >= sizeof(rdmap_read_request)) {
        const ReadRequest r = parse_read_request(s.payload);
        w.brief = fmt::format("for {}", size_text(r.size));
        w.more = fmt::format("source STag {:#x} TO {:#x}, sink STag {:#x} TO {:#x}, ", r.source_stag,
                             r.source_to, r.sink_stag, r.sink_to);
    }
    w.more += is_tagged(s.op) ? fmt::format("STag {:#x} TO {:#x}", s.stag, s.to)
                              : fmt::format("QN {} MSN {} MO {}", s.qn, s.msn, s.mo);
    if (s.last)
        w.more += ", last";
    return w;
}

Words fpdu(const Event& e) {
    return ulpdu(e.data, e.head.length, e.head.unit);
}

// --- Completions -------------------------------------------------------------------------------------------

Words completion(const Event& e) {
    const auto cqe = hw::load<hw::CqeLayout>(e.data);
    const unsigned status = of(cqe.status());
    const RdmaOp op = cqe.opcode();
    Words w{e.head.kind == EventKind::cqe ? "CQE " : "event ", {}, {}};
    w.name += cqe.send_side() || op == RdmaOp::read_response || op == RdmaOp::terminate
                  ? name_of(rdma_ops, of(op))
                  : "RECEIVE";
    if (status != 0)
        w.brief = "error: " + name_of(statuses, status);
    else if (w.name.ends_with("RECEIVE"))
        w.brief = size_text(cqe.length);
    w.more = fmt::format("CQ {}, status {:#x}, words {:#x} {:#x}", e.head.where, status,
                         std::uint32_t{cqe.word2}, std::uint32_t{cqe.word3});
    return w;
}

Words chip_reset(const Event&) {
    return {"chip reset", {}, {}};
}

// --- Kinds -------------------------------------------------------------------------------------------------

constexpr struct {
    const char* name;
    Words (*describe)(const Event&);
    std::size_t min_data; ///< that describe() needs
} kinds[] = {
    {"card", nullptr, 0},     {"mmio", mmio, 0},        {"mmio", mmio, 0},      {"doorbell", doorbell, 0},
    {"dma", dma, 0},          {"dma", dma, 0},          {"irq", interrupt, 0},  {"wr", work_request, 0},
    {"cpl", cpl, 4},          {"tcp out", segment, 0},  {"tcp in", segment, 0}, {"eth out", frame, 0},
    {"eth in", frame, 0},     {"fpdu out", fpdu, 0},    {"fpdu in", fpdu, 0},   {"cqe", completion, 0},
    {"event", completion, 0}, {"reset", chip_reset, 0},
};
static_assert(std::size(kinds) == static_cast<std::size_t>(EventKind::count));

} // namespace

Words describe(const Event& event) {
    const auto& kind = kinds[static_cast<std::size_t>(event.head.kind)];
    if (!kind.describe || event.data.size() < kind.min_data)
        return {kind.name, "too short", {}};
    return kind.describe(event);
}

Words describe_fpdu(Bytes fpdu) {
    if (fpdu.size() <= MPA_LENGTH_SIZE)
        return {"FPDU", {}, {}};
    const std::uint32_t length = be16(fpdu.data());
    const Bytes data = fpdu.subspan(MPA_LENGTH_SIZE);
    return ulpdu(data.first(std::min<std::size_t>(data.size(), length)), length, 0);
}

const char* kind_name(EventKind kind) {
    return kinds[static_cast<std::size_t>(kind)].name;
}

std::uint32_t tid_of(const Event& e) {
    if (e.head.tid != RecordHead::none)
        return e.head.tid;
    const auto of_cpl = [](std::uint32_t word) {
        const auto* row = find_cpl(static_cast<Cpl>(word >> 24));
        return row && row->id == Id::tid ? word & 0xfffff : RecordHead::none;
    };
    if (e.head.kind == EventKind::cpl && e.data.size() >= 4)
        return of_cpl(be32(e.data.data()));
    if (e.head.kind != EventKind::work_request || is_rdma_ring(e) ||
        e.head.unit == of(hw::EgressType::ethernet) || e.data.size() < 12)
        return RecordHead::none;
    const auto request = hw::load<hw::CplRequest>(e.data);
    switch (request.wr.op()) {
    case FwOp::forward:
    case FwOp::mngt:
        return of_cpl(request.ot);
    case FwOp::close_con:
    case FwOp::host_abort_con_req:
    case FwOp::host_abort_con_rpl:
    case FwOp::tx_data:
    case FwOp::ri_rdma_init:
    case FwOp::ri_send:
    case FwOp::ri_rdma_read:
        return request.wr.tid();
    default:
        return RecordHead::none;
    }
}

bool is_send_side(const Event& cqe) {
    return hw::load<hw::CqeLayout>(cqe.data).send_side();
}

} // namespace t3sim::trace
