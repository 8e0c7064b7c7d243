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
enum class Id { tid, stid, atid, none };

constexpr struct {
    std::uint8_t opcode;
    const char* name;
    Id id;
} cpls[] = {
    {0x01, "PASS_OPEN_REQ", Id::stid},
    {0x02, "PASS_ACCEPT_RPL", Id::tid},
    {0x03, "ACT_OPEN_REQ", Id::atid},
    {0x05, "SET_TCB_FIELD", Id::tid},
    {0x06, "GET_TCB", Id::tid},
    {0x08, "CLOSE_CON_REQ", Id::tid},
    {0x09, "CLOSE_LISTSRV_REQ", Id::stid},
    {0x0a, "ABORT_REQ", Id::tid},
    {0x0b, "ABORT_RPL", Id::tid},
    {0x0d, "RX_DATA_ACK", Id::tid},
    {0x0e, "TX_PKT", Id::none},
    {0x10, "RTE_WRITE_REQ", Id::none},
    {0x12, "L2T_WRITE_REQ", Id::none},
    {0x14, "SMT_WRITE_REQ", Id::none},
    {0x16, "TX_PKT_LSO", Id::none},
    {0x18, "BARRIER", Id::none},
    {0x1a, "TID_RELEASE", Id::tid},
    {0x20, "CLOSE_LISTSRV_RPL", Id::stid},
    {0x22, "GET_TCB_RPL", Id::tid},
    {0x23, "L2T_WRITE_RPL", Id::none},
    {0x26, "PEER_CLOSE", Id::tid},
    {0x28, "RTE_WRITE_RPL", Id::none},
    {0x2d, "SET_TCB_RPL", Id::tid},
    {0x2e, "SMT_WRITE_RPL", Id::none},
    {0x30, "ABORT_REQ_RSS", Id::tid},
    {0x31, "ABORT_RPL_RSS", Id::tid},
    {0x32, "CLOSE_CON_RPL", Id::tid},
    {0x39, "RX_DATA", Id::tid},
    {0x40, "ACT_OPEN_RPL", Id::atid},
    {0x41, "PASS_OPEN_RPL", Id::stid},
    {0x50, "ACT_ESTABLISH", Id::tid},
    {0x51, "PASS_ESTABLISH", Id::tid},
    {0x70, "PASS_ACCEPT_REQ", Id::tid},
    {0xa0, "TX_DMA_ACK", Id::tid},
    {0xa2, "RDMA_TERMINATE", Id::tid},
    {0xa5, "RDMA_EC_STATUS", Id::tid},
};

template <typename Table> auto* find(const Table& table, unsigned opcode) {
    const auto* row =
        std::find_if(std::begin(table), std::end(table), [&](const auto& r) { return r.opcode == opcode; });
    return row == std::end(table) ? nullptr : row;
}

struct Name {
    unsigned opcode;
    const char* name;
};

constexpr Name fw_ops[] = {
    {0x01, "FORWARD"},
    {0x03, "TUNNEL_TX_PKT"},
    {0x05, "BYPASS"},
    {0x09, "CLOSE_CON"},
    {0x0b, "HOST_ABORT_CON_REQ"},
    {0x0d, "TX_DATA"},
    {0x0f, "HOST_ABORT_CON_RPL"},
    {0x10, "RDMA_INIT"},
    {0x14, "RDMA TERMINATE"},
    {0x16, "RDMA_READ (ready to receive)"},
    {0x1b, "MODIFY_QP"},
    {0x1d, "MNGT"},
};

constexpr Name rdma_wrs[] = {
    {0x11, "WRITE"},   {0x14, "SEND"},          {0x16, "READ"},      {0x17, "RECEIVE"},
    {0x18, "BIND_MW"}, {0x19, "FAST_REGISTER"}, {0x1a, "LOCAL_INV"}, {0x1c, "memory write"},
};

/// Operation codes of CQEs and RDMAP.
constexpr Name rdma_ops[] = {
    {0, "WRITE"},          {1, "READ request"}, {2, "READ response"}, {3, "SEND"},          {4, "SEND_INV"},
    {5, "SEND_SE"},        {6, "SEND_SE_INV"},  {7, "TERMINATE"},     {8, "RDMA_INIT"},     {9, "BIND_MW"},
    {10, "FAST_REGISTER"}, {11, "LOCAL_INV"},   {12, "MODIFY_QP"},    {13, "memory write"},
};

constexpr Name statuses[] = {
    {0x01, "invalid STag"},   {0x02, "other PD"},    {0x03, "other QP"},      {0x04, "access right"},
    {0x05, "wrap"},           {0x06, "bounds"},      {0x07, "shared region"}, {0x08, "window bound"},
    {0x0b, "PBL bounds"},     {0x10, "CRC"},         {0x11, "marker"},        {0x12, "PDU length"},
    {0x13, "no receive"},     {0x14, "DDP version"}, {0x15, "RDMAP version"}, {0x16, "RDMAP opcode"},
    {0x17, "queue number"},   {0x18, "MSN"},         {0x19, "tagged bit"},    {0x1a, "message offset"},
    {0x1d, "too many reads"}, {0x1e, "RQE bounds"},  {0x1f, "internal"},
};

constexpr Name ring_types[] = {{0, "QP"}, {2, "Ethernet"}, {4, "offload"}, {5, "control"}};

std::string name_of(std::span<const Name> table, unsigned opcode) {
    for (const Name& row : table)
        if (row.opcode == opcode)
            return row.name;
    return fmt::format("{:#x}", opcode);
}

std::string cpl_name(unsigned opcode) {
    const auto* row = find(cpls, opcode);
    return row ? row->name : fmt::format("CPL {:#x}", opcode);
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
    Words w{name_of(rdma_wrs, static_cast<unsigned>(header.opcode())), {}, {}};
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
    } flags[] = {{hw::wr_hi::completion, "completion"},
                 {hw::wr_hi::notify, "notify"},
                 {hw::wr_hi::solicited, "solicited"},
                 {hw::wr_hi::read_fence, "read fence"},
                 {hw::wr_hi::local_fence, "local fence"}};
    for (const auto& f : flags)
        if (header.flag(f.flag))
            w.more += fmt::format("{}{}", w.more.empty() ? "" : ", ", f.text);
    return w;
}

bool is_rdma_ring(const Event& e) {
    return e.head.unit == static_cast<unsigned>(hw::EgressType::rdma);
}

Words work_request(const Event& e) {
    if (is_rdma_ring(e))
        return rdma_wr(e);
    const auto request = hw::load<hw::CplRequest>(e.data);
    Words w{name_of(fw_ops, bits(request.wr.hi, 31, 24)), {}, {}};
    switch (request.wr.op()) {
    case FwOp::forward:
    case FwOp::mngt:
    case FwOp::close_con:
    case FwOp::host_abort_con_req:
    case FwOp::host_abort_con_rpl:
        w.name = cpl_name(bits(request.ot, 31, 24));
        if (request.opcode() == Cpl::act_open_req || request.opcode() == Cpl::pass_open_req) {
            const auto open = hw::load<hw::ActOpenReq>(e.data);
            w.more = ends_text(open.ends) + ", ";
        } else if (request.opcode() == Cpl::rx_data_ack) {
            w.brief = size_text(hw::load<hw::RxDataAck>(e.data).credits());
        }
        if (const auto* row = find(cpls, bits(request.ot, 31, 24)); row && row->id != Id::none)
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
        if (e.head.unit == static_cast<unsigned>(hw::EgressType::ethernet))
            w.brief = size_text(e.head.length);
        break;
    }
    return w;
}

Words cpl(const Event& e) {
    const std::uint32_t word = be32(e.data.data());
    Words w{cpl_name(word >> 24), {}, {}};
    switch (static_cast<Cpl>(word >> 24)) {
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
    const auto* row = find(cpls, word >> 24);
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
        return {"FPDU", name_of(statuses, static_cast<unsigned>(status)), size_text(length)};
    const auto header = static_cast<std::uint32_t>(ddp_header_size(s.op));
    Words w{name_of(rdma_ops, static_cast<unsigned>(s.op)), size_text(length - std::min(length, header)), {}};
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
    const unsigned status = bits(cqe.header, 9, 5);
    Words w{e.head.kind == EventKind::cqe ? "CQE " : "event ", {}, {}};
    w.name += is_send_side(e) || bits(cqe.header, 3, 0) == static_cast<unsigned>(RdmaOp::read_response) ||
                      bits(cqe.header, 3, 0) == static_cast<unsigned>(RdmaOp::terminate)
                  ? name_of(rdma_ops, bits(cqe.header, 3, 0))
                  : "RECEIVE";
    if (status != 0)
        w.brief = "error: " + name_of(statuses, status);
    else if (w.name.ends_with("RECEIVE"))
        w.brief = size_text(cqe.length);
    w.more = fmt::format("CQ {}, status {:#x}, words {:#x} {:#x}", e.head.where, status,
                         std::uint32_t{cqe.word2}, std::uint32_t{cqe.word3});
    return w;
}

// --- Kinds -------------------------------------------------------------------------------------------------

constexpr struct {
    const char* name;
    Words (*describe)(const Event&);
    std::size_t min_data; ///< that describe() needs
} kinds[] = {
    {"card", nullptr, 0},     {"mmio", mmio, 0},       {"mmio", mmio, 0},      {"doorbell", doorbell, 0},
    {"dma", dma, 0},          {"dma", dma, 0},         {"irq", interrupt, 0},  {"wr", work_request, 0},
    {"cpl", cpl, 4},          {"tcp out", segment, 0}, {"tcp in", segment, 0}, {"eth out", frame, 0},
    {"eth in", frame, 0},     {"fpdu out", fpdu, 0},   {"fpdu in", fpdu, 0},   {"cqe", completion, 0},
    {"event", completion, 0},
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
        const auto* row = find(cpls, word >> 24);
        return row && row->id == Id::tid ? word & 0xfffff : RecordHead::none;
    };
    if (e.head.kind == EventKind::cpl && e.data.size() >= 4)
        return of_cpl(be32(e.data.data()));
    if (e.head.kind != EventKind::work_request || is_rdma_ring(e) ||
        e.head.unit == static_cast<unsigned>(hw::EgressType::ethernet) || e.data.size() < 12)
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
    return cqe.data.size() >= 4 && bits(be32(cqe.data.data()), 4, 4) != 0;
}

} // namespace t3sim::trace
