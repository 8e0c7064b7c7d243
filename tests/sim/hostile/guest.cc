// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tests/sim/hostile/guest.hh"

#include <cstring>

#include "sim/card/engines.hh"
#include "sim/core/counters.hh"
#include "sim/hw/cpl.hh"
#include "sim/hw/regs.hh"
#include "sim/hw/sge.hh"
#include "sim/hw/tpt.hh"
#include "sim/hw/wr.hh"

namespace t3sim::test {
namespace {

namespace cmd = hw::context_cmd;

constexpr std::uint32_t page = 4096;
constexpr unsigned offload_ring = 2, control_ring = 3, first_qp_ring = 4, control_qp_ring = 7;
constexpr std::uint32_t tpt_base = 0x100000, rqt_base = 0x200000, pbl_base = 0x300000, region_size = 0x100000;
constexpr std::uint32_t ip_of(unsigned side) {
    return 0x0a000001 + side;
}
constexpr std::uint16_t port = 5001;
constexpr std::uint32_t first_stid = 0x3d7c;

std::array<std::uint8_t, 6> mac_of(unsigned side, unsigned card_port = 0) {
    return {0x00, 0x07, 0x43, 0x11, 0x22, static_cast<std::uint8_t>(0x10 * side + card_port)};
}

hw::Endpoints ends(std::uint32_t local_port, std::uint32_t peer_port, std::uint32_t local_ip,
                   std::uint32_t peer_ip) {
    hw::Endpoints e{};
    e.local_port = static_cast<std::uint16_t>(local_port);
    e.peer_port = static_cast<std::uint16_t>(peer_port);
    e.local_ip = local_ip;
    e.peer_ip = peer_ip;
    return e;
}

template <typename T> Buffer raw(const T& value) {
    const auto* p = reinterpret_cast<const std::uint8_t*>(&value);
    return {p, p + sizeof value};
}

/// Work requests end with the last SGE in use.
template <typename Wr> Buffer without_unused_sges(const Wr& wr) {
    Buffer bytes = raw(wr);
    bytes.resize(offsetof(Wr, sge) + sizeof(hw::Sge) * std::min<std::uint32_t>(wr.num_sge, hw::max_sge));
    return bytes;
}

void append32(Buffer& to, std::uint32_t word) {
    to.resize(to.size() + 4);
    put_be32(&to[to.size() - 4], word);
}
void append64(Buffer& to, std::uint64_t word) {
    append32(to, static_cast<std::uint32_t>(word >> 32));
    append32(to, static_cast<std::uint32_t>(word));
}

/// A firmware work request around a CPL: header words, then @p cpl's body after its own header.
template <typename T> Buffer forward(T cpl, hw::Cpl opcode, std::uint32_t id) {
    cpl.wr.hi = static_cast<std::uint32_t>(hw::FwOp::forward) << 24;
    cpl.ot = hw::ot(opcode, id);
    return raw(cpl);
}

} // namespace

// --- Machine -----------------------------------------------------------------------------------------------

HostileGuest::Side::Side(EventQueue& queue, unsigned number)
    : card(CardConfig{.name = number ? "b" : "a", .mac = mac_of(number)}, host, queue) {
    using hw::EgressType;
    constexpr std::pair<std::uint32_t, EgressType> kinds[] = {
        {0, EgressType::ethernet},    {1, EgressType::ethernet}, {8, EgressType::offload},
        {65528, EgressType::control}, {16, EgressType::rdma},    {17, EgressType::rdma},
        {18, EgressType::rdma},       {65527, EgressType::rdma}};
    for (std::size_t i = 0; i < rings.size(); i++)
        rings[i] = {.context = kinds[i].first,
                    .type = static_cast<unsigned>(kinds[i].second),
                    .base = host.alloc(2 * page),
                    .size = 64};
    data = host.alloc(1 << 20);
}

HostileGuest::HostileGuest(Choices& choices) : choices_(choices) {
    for (unsigned n = 0; n < 2; n++) {
        sides_[n] = std::make_unique<Side>(queue_, n);
        for (unsigned p = 0; p < Card::ports; p++) {
            sides_[n]->card.connect(p, wires_[p]);
            wires_[p].attach(sides_[n]->card.port(p), "end");
        }
    }
    wires_[0].attach(raw_peer_, "raw peer");
}

HostileGuest::~HostileGuest() = default;

void HostileGuest::context(Side& side, std::uint32_t command, std::array<std::uint32_t, 4> words) {
    for (std::uint32_t i = 0; i < 4; i++) {
        write(side, reg::SG_CONTEXT_DATA0 + 4 * i, words[i]);
        write(side, reg::SG_CONTEXT_MASK0 + 4 * i, 0xffffffff);
    }
    write(side, reg::SG_CONTEXT_CMD, cmd::write << 28 | command);
}

/// A driver clears the ring first; else the card finds work requests of an earlier run.
void HostileGuest::open_ring(Side& side, Ring& ring, bool clear) {
    if (clear)
        side.host.put(ring.base, Buffer(2 * page));
    namespace ec = hw::egress_context;
    hw::Context c{};
    ec::credits.set(c, 100);
    ec::size.set(c, ring.size);
    ec::set_base(c, ring.base);
    ec::gen.set(c, 1);
    ec::type.set(c, ring.type);
    ec::valid.set(c, 1);
    context(side, cmd::egress | ring.context, c);
    ring.index = 0;
    ring.gen = 1;
}

/// Sixty-four buffers in each of eight lists, from the beginning.
void HostileGuest::fill_free_lists(Side& side) {
    for (unsigned list = 0; list < 8; list++) {
        const std::uint64_t at = side.data + page * (64 + list);
        for (std::uint32_t i = 0; i < 64; i++) {
            const std::uint64_t buffer = side.data + (512 << 10) + (list * 64 + i) % 128 * 2048;
            std::uint8_t* entry = side.host.at(at + i * 16, 16);
            put_be32(entry, static_cast<std::uint32_t>(buffer));
            put_be32(entry + 4, 1U << 31); // generation, twice
            put_be32(entry + 8, 1);
            put_be32(entry + 12, static_cast<std::uint32_t>(buffer >> 32));
        }
        context(side, cmd::free_list | list,
                {static_cast<std::uint32_t>(at >> 12), static_cast<std::uint32_t>(at >> 44),
                 (2048U & 0x7ff) << 21 | 1U << 20 | 64U << 4, 2048U >> 11});
        write(side, reg::SG_KDOORBELL, list);
    }
}

void HostileGuest::bring_up() {
    valid_only_ = true; // bring the cards up before malformed input starts
    effort_.action_begins();
    advance_time(0); // no frame of an earlier run is in flight
    for (Wire& wire : wires_)
        wire.set_up(true);
    for (unsigned n = 0; n < 2; n++) {
        Side& side = *sides_[n];
        side.host.map_all();
        side.card.config_write(4, std::array<std::uint8_t, 2>{6, 0});
        write(side, reg::SG_CONTROL, 11U << 14 | 1U << 11 | hw::sg_control::global_enable);
        for (unsigned q = 0; q < 4; q++) {
            const std::uint64_t ring = (side.data >> 12) + 16 + 4 * q;
            context(side, cmd::response_queue | q,
                    {256U << 16, static_cast<std::uint32_t>(ring),
                     1U << 28 | 1U << 26 | q << 20 | static_cast<std::uint32_t>(ring >> 32), 0});
            write(side, reg::SG_RSPQ_CREDIT_RETURN, q << 29 | 255);
        }
        fill_free_lists(side);
        for (std::uint32_t cq = 0; cq < 4; cq++) {
            const std::uint64_t ring = (side.data >> 12) + 32 + cq;
            context(side, cmd::cq | cq,
                    {cq ? 64U << 16 : 0, static_cast<std::uint32_t>(ring),
                     (cq ? 0 : 1U << 31) | 1U << 29 | static_cast<std::uint32_t>(ring >> 32), 0});
        }
        for (Ring& ring : side.rings)
            open_ring(side, ring, true);
        for (unsigned p = 0; p < Card::ports; p++) {
            const std::uint32_t block = p * reg::xgm_stride;
            write(side, reg::XGM_RX_CFG + block, 1); // promiscuous
            write(side, reg::XGM_RX_MAX_PKT_SIZE + block, 1518);
            write(side, reg::XGM_TX_CTRL + block, 1);
            write(side, reg::XGM_RX_CTRL + block, 1);
        }
        write(side, reg::ULPRX_STAG_LLIMIT, tpt_base);
        write(side, reg::ULPRX_STAG_ULIMIT, tpt_base + region_size - 1);
        write(side, reg::ULPRX_RQ_LLIMIT, rqt_base);
        write(side, reg::ULPRX_RQ_ULIMIT, rqt_base + region_size - 1);
        write(side, reg::ULPRX_PBL_LLIMIT, pbl_base);
        write(side, reg::ULPRX_PBL_ULIMIT, pbl_base + region_size - 1);
        write(side, reg::ULPTX_TPT_LLIMIT, tpt_base);
        write(side, reg::ULPTX_TPT_ULIMIT, tpt_base + region_size - 1);
        write(side, reg::ULPTX_PBL_LLIMIT, pbl_base);
        write(side, reg::ULPTX_PBL_ULIMIT, pbl_base + region_size - 1);

        hw::SmtWriteReq smt{};
        smt.src_mac0 = smt.src_mac1 = mac_of(n);
        post(side, side.rings[control_ring], forward(smt, hw::Cpl::smt_write_req, 0));
        hw::L2tWriteReq l2t{};
        l2t.params = hw::vlan_untagged << 11;
        l2t.dst_mac = mac_of(1 - n);
        post(side, side.rings[control_ring], forward(l2t, hw::Cpl::l2t_write_req, 0));
    }
    connect();
    valid_only_ = false;
}

/// The steps of two correct drivers: B listens, A opens, both enter RDMA mode, register memory and post
/// receives. On cards in use it is malformed input like any other.
void HostileGuest::connect() {
    valid_writes_ = 0;
    Side &a = *sides_[0], &b = *sides_[1];
    hw::PassOpenReq listen{};
    listen.ends = ends(port, 0, ip_of(1), 0);
    post(b, b.rings[control_ring], forward(listen, hw::Cpl::pass_open_req, first_stid));
    hw::ActOpenReq open{};
    open.ends = ends(4000, port, ip_of(0), ip_of(1));
    open.opt0h = 8U << 28; // MTU index: 1500
    open.opt0l = 64U << 12;
    post(a, a.rings[offload_ring], forward(open, hw::Cpl::act_open_req, 0));
    advance_time(1'000'000);
    hw::PassAcceptRpl accept{};
    accept.opt0h = open.opt0h, accept.opt0l = open.opt0l;
    accept.peer_ip = ip_of(0);
    post(b, b.rings[offload_ring], forward(accept, hw::Cpl::pass_accept_rpl, 0));
    advance_time(1'000'000);
    for (unsigned n = 2; n-- != 0;) { // the passive side first, as with real drivers
        Side& side = *sides_[n];
        for (std::uint32_t i = 0; i < 8; i++)
            post(side, side.rings[control_qp_ring], memory_write_wr(side));
        for (std::uint32_t i = 0; i < 8; i++)
            post(side, side.rings[first_qp_ring], receive_wr());
        Ring& qp = side.rings[first_qp_ring];
        hw::RdmaInitWr init{};
        init.header.hi = static_cast<std::uint32_t>(hw::FwOp::ri_rdma_init) << 24 | hw::wr::compl_;
        init.qpid = qp.context;
        init.pdid = 1;
        init.scqid = 1, init.rcqid = 2;
        init.rq_size = 64;
        init.mpa_attrs = hw::RdmaInitWr::crc;
        init.qp_caps = 0x1f;
        init.ulpdu_size = 1400;
        init.flags_rtr_type = n == 0 ? 1 : 0;
        init.ord = 8, init.ird = 8;
        init.qp_dma_addr = qp.base;
        init.qp_dma_size = qp.size;
        post(side, side.rings[offload_ring], raw(init));
        if (n == 1) { // the last streaming message of the passive side
            hw::TxDataWr reply{};
            reply.wr.hi = static_cast<std::uint32_t>(hw::FwOp::tx_data) << 24;
            reply.len = 20;
            Buffer wr = raw(reply);
            wr.resize(wr.size() + 24, 0x4d);
            post(side, side.rings[offload_ring], std::move(wr));
            advance_time(1'000'000);
        }
    }
    advance_time(1'000'000);
    for (unsigned n = 0; n < 2; n++) // something to complete on both sides
        for (int i = 0; i < first_sends; i++)
            post(*sides_[n], sides_[n]->rings[first_qp_ring], send_wr());
    advance_time(1'000'000);
}

void HostileGuest::valid_send() {
    valid_only_ = true;
    post(*sides_[1], sides_[1]->rings[first_qp_ring], receive_wr());
    post(*sides_[0], sides_[0]->rings[first_qp_ring], send_wr());
    advance_time(1'000'000);
    valid_only_ = false;
}

void HostileGuest::advance_random_time() {
    advance_time(choices_.pick<Time>({0, 1000, 100'000, 1'000'000, 50'000'000, 1'000'000'000}));
}

/// Runs a bounded number of events, because two cards can keep each other busy forever.
void HostileGuest::advance_time(Time time) {
    const Time until = queue_.now() + time;
    for (int turns = 0; turns < 2000; turns++) {
        const auto next = queue_.next();
        if (!next || *next > until)
            break;
        queue_.run_due(*next, [this] {
            effort_.action_ends();
            return true;
        });
        effort_.action_ends();
    }
    effort_.look_at_heap();
}

/// Writes a work request into a ring as a driver does (both generations, one to four descriptors), and rings.
void HostileGuest::post(Side& side, Ring& ring, Buffer wr, bool doorbell) {
    wr.resize(std::max<std::size_t>((wr.size() + 7) / 8 * 8, 16));
    const Buffer header(wr.begin(), wr.begin() + 8);
    std::size_t at = 0;
    for (unsigned descriptor = 0; at < wr.size() && descriptor < 5; descriptor++) {
        Slot slot{};
        const std::size_t body = descriptor ? 8 : 0;
        const std::size_t take = std::min(wr.size() - at, 120 - body);
        std::memcpy(slot.data(), header.data(), 8);
        std::memcpy(slot.data() + body, wr.data() + at, take);
        at += take;
        std::uint32_t hi = be32(slot.data()) & ~(hw::wr::sop | hw::wr::eop);
        hi |= (descriptor == 0 ? hw::wr::sop : 0) | (at == wr.size() ? hw::wr::eop : 0);
        std::uint32_t lo = be32(slot.data() + 4) & ~0x800000ffU;
        lo |= ring.gen << 31 | static_cast<std::uint32_t>((body + take) / 8);
        if (mutate_one_in(1000))
            hi ^= 1U << choices_.below(32);
        if (mutate_one_in(1000))
            lo ^= 1U << choices_.below(32);
        put_be32(slot.data(), hi);
        put_be32(slot.data() + 4, lo);
        slot.back() = static_cast<std::uint8_t>(ring.gen);
        side.host.put(ring.base + ring.index * slot_size, slot);
        if (++ring.index == ring.size) {
            ring.index = 0;
            ring.gen ^= 1;
        }
    }
    if (doorbell)
        write(side, reg::SG_KDOORBELL, 1U << 31 | ring.context);
}

// --- Malformed messages ------------------------------------------------------------------------------------

std::uint64_t HostileGuest::address(Side& side) {
    if (choices_.one_in(12))
        return std::uint64_t{choices_.edge_value()} << 32 | choices_.edge_value();
    return side.data + choices_.below(1 << 20);
}

void HostileGuest::mutate(Buffer& bytes) {
    if (bytes.empty() || !choices_.one_in(6))
        return;
    for (std::uint32_t n = 1 + choices_.below(3); n != 0; n--) {
        const std::size_t at = choices_.below(static_cast<std::uint32_t>(bytes.size()));
        if (choices_.one_in(2))
            bytes[at] ^= static_cast<std::uint8_t>(1U << choices_.below(8));
        else
            put_be32(&bytes[std::min(at, bytes.size() - 4)], choices_.edge_value());
    }
    if (choices_.one_in(4))
        bytes.resize(
            std::max<std::size_t>(16, choices_.below(static_cast<std::uint32_t>(bytes.size()) + 64)));
}

void HostileGuest::append_sgl(Side& side, Buffer& wr) {
    put_be32(wr.data(), be32(wr.data()) | hw::wr::sgl | static_cast<std::uint32_t>(wr.size() / 8) << 8);
    for (std::uint32_t pairs = 1 + choices_.below(3); pairs != 0; pairs--) {
        append32(wr, choices_.one_in(10) ? choices_.edge_value() : choices_.below(3000));
        append32(wr, choices_.one_in(10) ? choices_.edge_value() : choices_.below(3000));
        append64(wr, address(side));
        append64(wr, address(side));
    }
}

/// A valid request to cut much data into small segments.
Buffer HostileGuest::large_lso_wr(Side& side) {
    constexpr std::uint32_t part = 32000, header_words = 5U << 20 | 5U << 16;
    Buffer wr;
    append32(wr, static_cast<std::uint32_t>(hw::FwOp::tunnel_tx_pkt) << 24 | hw::wr::sgl | 3U << 8);
    append32(wr, 0);
    append32(wr, hw::ot(hw::Cpl::tx_pkt_lso, 0) | choices_.below(2) << 16);
    append32(wr, 2 * part);
    append32(wr, 0);
    append32(wr, header_words | choices_.pick({1U, 8U, 100U, 536U, 1460U, 8960U}));
    append32(wr, part);
    append32(wr, part);
    append64(wr, side.data + choices_.below(1 << 19));
    append64(wr, side.data + choices_.below(1 << 19));
    return wr;
}

Buffer HostileGuest::nic_wr(Side& side) {
    if (choices_.one_in(8))
        return large_lso_wr(side);
    Buffer wr;
    append32(wr, static_cast<std::uint32_t>(hw::FwOp::tunnel_tx_pkt) << 24 |
                     (choices_.one_in(2) ? hw::wr::compl_ : 0));
    append32(wr, 0);
    const bool lso = choices_.one_in(3);
    append32(wr, hw::ot(lso ? hw::Cpl::tx_pkt_lso : hw::Cpl::tx_pkt, 0) | (choices_.edge_value() & 0x7fffff));
    append32(wr, choices_.one_in(2) ? choices_.edge_value() : 64 + choices_.below(1500));
    if (lso) {
        append32(wr, choices_.one_in(2) ? choices_.edge_value() : 0);
        append32(wr, 5U << 20 | 5U << 16 | (choices_.one_in(4) ? choices_.edge_value() & 0x3fff : 1460));
    }
    if (choices_.one_in(2)) {
        append_sgl(side, wr);
    } else {
        const Buffer payload = frame();
        wr.insert(wr.end(), payload.begin(),
                  payload.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(payload.size(), 90)));
    }
    return wr;
}

Buffer HostileGuest::cpl_wr() {
    const auto opt = [&] { return choices_.one_in(3) ? choices_.edge_value() : 0; };
    const auto from = choices_.below(2);
    switch (choices_.below(14)) {
    case 0: {
        hw::PassOpenReq m{};
        m.ends = ends(port + choices_.below(2), 0, choices_.one_in(2) ? 0 : ip_of(from), 0);
        m.opt0h = opt(), m.opt0l = opt(), m.opt1 = opt(), m.peer_netmask = opt();
        return forward(m, hw::Cpl::pass_open_req,
                       choices_.one_in(4) ? tid() : first_stid + choices_.below(3));
    }
    case 1:
    case 2: {
        hw::ActOpenReq m{};
        m.ends = ends(4000 + choices_.below(4), port + choices_.below(2), ip_of(from), ip_of(1 - from));
        m.opt0h = opt(), m.opt0l = opt(), m.params = opt(), m.opt2 = opt();
        return forward(m, hw::Cpl::act_open_req, choices_.below(4));
    }
    case 3:
    case 4: {
        hw::PassAcceptRpl m{};
        m.opt2 = opt(), m.opt0h = opt(), m.peer_ip = ip_of(from);
        m.opt0l = choices_.one_in(4) ? choices_.edge_value() : 64U << 12;
        return forward(m, hw::Cpl::pass_accept_rpl, tid());
    }
    case 5: {
        hw::SetTcbField m{};
        m.word = static_cast<std::uint16_t>(choices_.one_in(2) ? choices_.below(40) : choices_.edge_value());
        m.mask = std::uint64_t{choices_.edge_value()} << 32 | choices_.edge_value();
        m.value = std::uint64_t{choices_.edge_value()} << 32 | choices_.edge_value();
        return forward(m, hw::Cpl::set_tcb_field, tid());
    }
    case 6:
        return forward(hw::GetTcb{}, hw::Cpl::get_tcb, tid());
    case 7:
        return forward(hw::CloseListsrvReq{}, hw::Cpl::close_listsrv_req, tid());
    case 8: {
        hw::RxDataAck m{};
        m.credit_dack = choices_.edge_value();
        return forward(m, hw::Cpl::rx_data_ack, tid());
    }
    case 9: {
        hw::AbortWr m{};
        m.wr.hi = static_cast<std::uint32_t>(
                      choices_.pick({hw::FwOp::host_abort_con_req, hw::FwOp::host_abort_con_rpl}))
                  << 24;
        m.wr.lo = tid() << 8;
        m.ot = hw::ot(hw::Cpl::abort_req, tid());
        m.cmd = static_cast<std::uint8_t>(choices_.below(3));
        return raw(m);
    }
    case 10: {
        hw::CplRequest m{};
        m.wr.hi = static_cast<std::uint32_t>(hw::FwOp::close_con) << 24;
        m.wr.lo = tid() << 8;
        m.ot = hw::ot(hw::Cpl::close_con_req, tid());
        return raw(m);
    }
    case 11:
        return forward(hw::CplRequest{},
                       choices_.pick({hw::Cpl::tid_release, hw::Cpl::barrier, hw::Cpl::rte_write_req}),
                       tid());
    default: {
        hw::TxDataWr m{};
        m.wr.hi =
            static_cast<std::uint32_t>(hw::FwOp::tx_data) << 24 | (choices_.one_in(2) ? hw::wr::compl_ : 0);
        m.wr.lo = tid() << 8;
        m.flags = choices_.edge_value();
        m.param = choices_.edge_value();
        Buffer wr = raw(m);
        const std::uint32_t length = choices_.one_in(8) ? choices_.edge_value() : choices_.below(200);
        put_be32(&wr[8], length);
        wr.resize(wr.size() + std::min<std::uint32_t>(length, 300), 0x55);
        return wr;
    }
    }
}

template <typename Wr> void HostileGuest::fill_sges(Wr& wr, std::uint32_t valid_length) {
    wr.num_sge = mutate_one_in(12) ? choices_.edge_value()
                 : valid_only_     ? 1 + choices_.below(hw::max_sge)
                                   : choices_.below(hw::max_sge + 1);
    for (auto& sge : wr.sge) {
        sge.stag = stag();
        sge.length = mutate_one_in(8) ? choices_.edge_value()
                     : valid_only_    ? valid_length + choices_.below(700)
                                      : choices_.below(5000);
        sge.to = choices_.below(valid_only_ ? 8000 : 20000);
    }
}

Buffer HostileGuest::rdma_wr() {
    using hw::WrOpcode;
    const auto header = [&](WrOpcode op) {
        hw::WrHeader h{};
        h.hi = static_cast<std::uint32_t>(op) << 24 | (choices_.word() & 0x1f00);
        h.wr_id_lo = choices_.word();
        return h;
    };
    switch (choices_.below(9)) {
    case 0:
    case 1:
        return send_wr();
    case 2: {
        hw::WriteWr wr{};
        wr.header = header(WrOpcode::rdma_write);
        wr.sink_stag = stag();
        wr.sink_to = choices_.one_in(6) ? ~std::uint64_t{0} - choices_.below(100) : choices_.below(20000);
        fill_sges(wr);
        wr.plen = choices_.one_in(6) ? choices_.edge_value() : choices_.below(8000);
        return without_unused_sges(wr);
    }
    case 3: {
        hw::ReadWr wr{};
        wr.header = header(WrOpcode::rdma_read);
        wr.rdma_op = static_cast<std::uint8_t>(hw::RdmaOp::read_request);
        wr.local_inv = static_cast<std::uint8_t>(choices_.below(2));
        wr.rem_stag = stag(), wr.local_stag = stag();
        wr.local_len = choices_.one_in(6) ? choices_.edge_value() : choices_.below(100000);
        wr.rem_to = choices_.below(20000), wr.local_to = choices_.below(20000);
        return raw(wr);
    }
    case 4:
    case 5:
        return receive_wr();
    case 6: {
        hw::BindWr wr{};
        wr.header = header(WrOpcode::bind_mw);
        wr.type = static_cast<std::uint8_t>(choices_.below(3));
        wr.perms = static_cast<std::uint8_t>(choices_.edge_value());
        wr.mr_stag = stag(), wr.mw_stag = stag();
        wr.mw_len = choices_.edge_value();
        wr.mw_va = choices_.below(20000);
        wr.mr_pbl_addr = choices_.edge_value();
        return raw(wr);
    }
    case 7: {
        hw::FastRegisterWr wr{};
        wr.header = header(WrOpcode::fast_register);
        wr.stag = stag();
        wr.len = choices_.edge_value();
        wr.page_type_perms = choices_.edge_value();
        for (auto& p : wr.page)
            p = choices_.edge_value();
        return raw(wr);
    }
    default: {
        hw::LocalInvWr wr{};
        wr.header = header(choices_.one_in(4) ? WrOpcode::bypass : WrOpcode::local_inv);
        wr.stag = stag();
        return raw(wr);
    }
    }
}

Buffer HostileGuest::send_wr() {
    hw::SendWr wr{};
    wr.header.hi = static_cast<std::uint32_t>(hw::WrOpcode::send) << 24 | hw::wr::completion |
                   (valid_only_ ? 0 : choices_.word() & 0x1f00);
    wr.rdma_op = static_cast<std::uint8_t>(
        valid_only_ ? hw::RdmaOp::send
                    : choices_.pick({hw::RdmaOp::send, hw::RdmaOp::send_inv, hw::RdmaOp::send_se,
                                     hw::RdmaOp::write, hw::RdmaOp::send_se_inv, hw::RdmaOp::read_request}));
    wr.inv_stag = valid_only_ ? 0 : stag();
    fill_sges(wr);
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < std::min<std::uint32_t>(wr.num_sge, hw::max_sge); i++)
        sum += wr.sge[i].length;
    wr.plen = mutate_one_in(6) ? choices_.edge_value() : sum;
    return without_unused_sges(wr);
}

Buffer HostileGuest::receive_wr() {
    hw::ReceiveWr wr{};
    wr.header.hi = static_cast<std::uint32_t>(hw::WrOpcode::receive) << 24 | hw::wr::completion;
    wr.header.wr_id_lo = choices_.word();
    fill_sges(wr, 4000); // more than a send has
    for (unsigned i = 0; i < hw::max_sge; i++) {
        wr.page_code[i] =
            static_cast<std::uint8_t>(mutate_one_in(6) ? choices_.edge_value() : choices_.below(4));
        wr.pbl_addr[i] = mutate_one_in(6) ? choices_.edge_value() : pbl_base / 8 + choices_.below(64);
    }
    return raw(wr);
}

/// For the ring of the control QP: TPT entries, page lists and noise into the card's memory.
Buffer HostileGuest::memory_write_wr(Side& side) {
    constexpr std::uint32_t tpt_at = tpt_base / 32, pbl_at = pbl_base / 32;
    hw::BypassWr wr{};
    wr.header.hi = static_cast<std::uint32_t>(hw::WrOpcode::bypass) << 24 | (choices_.word() & 0x100);
    std::uint32_t to = (choices_.one_in(2) ? tpt_at : pbl_at) + choices_.below(16);
    std::uint32_t units = mutate_one_in(12) ? choices_.below(16) : 1 + choices_.below(3);
    if (mutate_one_in(12))
        to = choices_.edge_value();
    if (valid_only_) { // three entries of the TPT, or twelve pages, at a time; all in order
        const std::uint32_t n = valid_writes_++ % 6;
        to = n < 3 ? tpt_at + 3 * n : pbl_at + 3 * (n - 3);
        units = 3;
    }
    wr.command = hw::BypassWr::memory_write << 28 | (to & 0x7ffffff);
    wr.size = units << 28 | (1 + units * 4);
    for (std::size_t unit = 0; unit < 3; unit++) {
        std::uint8_t* const at = wr.data + unit * hw::BypassWr::unit;
        if (to >= pbl_at) {
            for (std::size_t i = 0; i < 32; i += 8)
                put_be64(at + i, valid_only_ ? side.data + page * (128 + choices_.below(64)) : address(side));
            continue;
        }
        hw::TptEntry e{};
        e.state_word = 1U << 31 | 1U << 22 | (valid_only_ ? 0 : choices_.below(4) << 20) |
                       (mutate_one_in(8) ? choices_.below(100) : 1);
        e.rights_word = mutate_one_in(3) ? choices_.edge_value() : 0xf2000000 | choices_.below(2) << 26;
        e.pbl_addr = mutate_one_in(8) ? choices_.edge_value() : choices_.below(16);
        e.length = mutate_one_in(4) ? choices_.edge_value() : 16384;
        e.va = valid_only_ ? 0 : choices_.below(8192);
        e.pbl_size = 4;
        std::memcpy(at, &e, sizeof e);
    }
    Buffer bytes = raw(wr);
    bytes.resize(
        std::min<std::size_t>(bytes.size(), offsetof(hw::BypassWr, data) + units * hw::BypassWr::unit));
    return bytes;
}

Buffer HostileGuest::control_wr() {
    if (choices_.one_in(3)) {
        hw::SmtWriteReq m{};
        m.src_mac0 = mac_of(choices_.below(2));
        return forward(m, hw::Cpl::smt_write_req, choices_.below(20));
    }
    if (choices_.one_in(2)) {
        hw::L2tWriteReq m{};
        m.params = choices_.one_in(2) ? choices_.edge_value() : hw::vlan_untagged << 11;
        m.dst_mac = mac_of(choices_.below(2));
        return forward(m, hw::Cpl::l2t_write_req,
                       choices_.one_in(4) ? choices_.edge_value() & 0xffffff : choices_.below(4));
    }
    hw::ModifyQpWr m{};
    m.header.hi = static_cast<std::uint32_t>(hw::WrOpcode::modify_qp) << 24 | (choices_.word() & 0x200);
    m.flags = choices_.one_in(2) ? hw::ModifyQpWr::write_context : choices_.edge_value();
    m.sge_cmd = std::uint64_t{choices_.one_in(4) ? choices_.edge_value() : 65527} << 8;
    m.ctx0 = std::uint64_t{choices_.edge_value()} << 32 | choices_.edge_value();
    m.ctx1 = std::uint64_t{choices_.edge_value()} << 32 | choices_.edge_value();
    return raw(m);
}

Buffer HostileGuest::wr_for(Side& side, const Ring& ring) {
    if (ring.context == 65527)
        return memory_write_wr(side);
    switch (static_cast<hw::EgressType>(ring.type)) {
    case hw::EgressType::ethernet:
        return nic_wr(side);
    case hw::EgressType::control:
        return choices_.one_in(2) ? control_wr() : cpl_wr();
    case hw::EgressType::rdma:
        return rdma_wr();
    default:
        break;
    }
    if (!choices_.one_in(4))
        return cpl_wr();
    // Into RDMA mode, or the work requests that go through the offload queue then.
    hw::RdmaInitWr init{};
    const auto op = choices_.pick(
        {hw::FwOp::ri_rdma_init, hw::FwOp::ri_rdma_init, hw::FwOp::ri_send, hw::FwOp::ri_rdma_read});
    if (op != hw::FwOp::ri_rdma_init) {
        Buffer wr = rdma_wr();
        put_be32(wr.data(), static_cast<std::uint32_t>(op) << 24);
        put_be32(wr.data() + 4, tid() << 8);
        return wr;
    }
    const std::uint32_t n = choices_.below(3);
    init.header.hi = static_cast<std::uint32_t>(op) << 24 | hw::wr::compl_;
    init.header.lo = tid() << 8;
    init.qpid = choices_.one_in(8) ? choices_.edge_value() : 16 + n;
    init.pdid = 1;
    init.scqid = choices_.one_in(10) ? choices_.edge_value() : 1 + choices_.below(3);
    init.rcqid = choices_.one_in(10) ? choices_.edge_value() : 1 + choices_.below(3);
    init.rq_addr = choices_.one_in(8) ? choices_.edge_value() : 64 * 64 * n;
    init.rq_size = choices_.one_in(8) ? choices_.edge_value() : 64;
    init.mpa_attrs = static_cast<std::uint8_t>(choices_.below(8));
    init.qp_caps = static_cast<std::uint8_t>(choices_.one_in(3) ? choices_.edge_value() : 0x1f);
    init.ulpdu_size = static_cast<std::uint16_t>(choices_.one_in(4) ? choices_.edge_value() : 1400);
    init.flags_rtr_type = static_cast<std::uint16_t>(choices_.below(16));
    init.ord = choices_.one_in(8) ? choices_.edge_value() : choices_.below(9);
    init.ird = choices_.one_in(8) ? choices_.edge_value() : choices_.below(9);
    init.qp_dma_addr = side.rings[first_qp_ring + n].base;
    init.qp_dma_size = choices_.one_in(8) ? choices_.edge_value() : side.rings[first_qp_ring + n].size;
    // The card restarts the ring, and so does the guest.
    side.rings[first_qp_ring + n].index = 0;
    side.rings[first_qp_ring + n].gen = 1;
    return raw(init);
}

/// A TCP segment, or another frame, to one of the cards.
Buffer HostileGuest::frame() {
    const unsigned to = choices_.below(2);
    Buffer f;
    for (const auto& mac : {mac_of(to), mac_of(1 - to)})
        f.insert(f.end(), mac.begin(), mac.end());
    if (choices_.one_in(8)) {
        f.resize(choices_.below(1600), static_cast<std::uint8_t>(choices_.word()));
        return f;
    }
    const std::uint32_t payload = choices_.one_in(4) ? choices_.below(1400) : choices_.below(64);
    const std::uint32_t options = choices_.one_in(4) ? 4 * choices_.below(11) : 0;
    f.insert(f.end(), {0x08, 0x00, 0x45, 0});
    f.insert(f.end(), {0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0});
    const std::uint32_t total = 40 + options + payload;
    put_be16(&f[16], static_cast<std::uint16_t>(total));
    append32(f, ip_of(1 - to));
    append32(f, ip_of(to));
    std::uint32_t sum = 0;
    for (std::size_t i = 14; i < 34; i += 2)
        sum += be16(&f[i]);
    sum = (sum & 0xffff) + (sum >> 16);
    put_be16(&f[24], static_cast<std::uint16_t>(~(sum + (sum >> 16))));
    const std::size_t tcp = f.size();
    append32(f, (4000 + choices_.below(4)) << 16 | static_cast<std::uint32_t>(port + choices_.below(2)));
    append32(f, choices_.one_in(3) ? choices_.edge_value() : choices_.below(3000)); // sequence
    append32(f, choices_.one_in(3) ? choices_.edge_value() : choices_.below(3000)); // acknowledgement
    append32(f, (5 + options / 4) << 28 |
                    choices_.pick<std::uint32_t>({2, 0x10, 0x18, 4, 0x11, 0x12, 0x29}) << 16 |
                    (choices_.edge_value() & 0xffff));
    append32(f, 0);
    for (std::uint32_t i = 0; i < options + payload; i++)
        f.push_back(static_cast<std::uint8_t>(i < options ? choices_.word() : i));
    sum = (ip_of(0) >> 16) + (ip_of(0) & 0xffff) + (ip_of(1) >> 16) + (ip_of(1) & 0xffff) + 6 + (total - 20);
    for (std::size_t i = tcp; i < f.size(); i++)
        sum += i % 2 == tcp % 2 ? f[i] << 8 : f[i];
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    put_be16(&f[tcp + 16], static_cast<std::uint16_t>(~sum));
    return f;
}

// --- Actions -----------------------------------------------------------------------------------------------

void HostileGuest::step() {
    effort_.action_begins();
    take_step();
    effort_.action_ends();
    effort_.look_at_heap();
}

void HostileGuest::take_step() {
    Side& side = *sides_[choices_.below(2)];
    switch (choices_.below(32)) {
    case 0: // any register, any size, any value
        side.card.mmio_write(0, choices_.below(reg::file_size), choices_.pick({1U, 2U, 4U, 8U}),
                             std::uint64_t{choices_.edge_value()} << 32 | choices_.edge_value());
        break;
    case 1:
        (void)side.card.mmio_read(choices_.below(6), choices_.below(reg::file_size),
                                  choices_.pick({1U, 2U, 4U, 8U}));
        break;
    case 2:
        write(side, choices_.below(0x10) * 4, choices_.edge_value()); // the SGE's command registers
        break;
    case 3: // doorbells of user space
        side.card.mmio_write(2, choices_.below(8 << 20) & ~3U, choices_.one_in(8) ? 8 : 4,
                             choices_.one_in(2) ? choices_.edge_value() : choices_.below(32));
        break;
    case 4: {
        Buffer bytes(1 + choices_.below(8));
        for (auto& byte : bytes)
            byte = static_cast<std::uint8_t>(choices_.word());
        side.card.config_write(choices_.below(4096), bytes);
        break;
    }
    case 5: // a context of its own making
        context(side,
                choices_.pick({cmd::egress, cmd::cq, cmd::response_queue, cmd::free_list}) |
                    (choices_.one_in(2) ? choices_.below(32) : choices_.edge_value() & 0xffff),
                {choices_.edge_value(), choices_.edge_value(), choices_.edge_value(), choices_.edge_value()});
        break;
    case 6:
        open_ring(side, side.rings[choices_.below(8)], !choices_.one_in(4));
        break;
    case 7: { // writes over what the card may be reading
        std::uint8_t* const at = side.host.at(side.data + choices_.below((1 << 20) - 64), 64);
        for (unsigned i = 0; i < 64; i += 4)
            put_be32(at + i, choices_.edge_value());
        break;
    }
    case 8: {
        Ring& ring = side.rings[choices_.below(8)];
        put_be32(side.host.at(ring.base + choices_.below(2 * page - 4), 4), choices_.edge_value());
        break;
    }
    case 9:
        if (choices_.one_in(4))
            side.host.map_all();
        else
            side.host.unmap(side.data + page * choices_.below(256), page);
        break;
    case 10: // the host takes its messages
    case 11:
    case 12:
        for (std::uint32_t q = 0; q < 4; q++) {
            write(side, reg::SG_RSPQ_CREDIT_RETURN,
                  q << 29 | (choices_.one_in(16) ? choices_.edge_value() & 0xffff : 64));
            write(side, reg::SG_GTS, q << 29 | choices_.below(256));
        }
        fill_free_lists(side);
        break;
    case 13:
        if (choices_.one_in(8))
            wires_[choices_.below(2)].set_up(choices_.one_in(4) ? false : true);
        break;
    case 14:
        if (choices_.one_in(40))
            bring_up();
        break;
    case 15:
    case 16:
    case 17:
        wires_[0].send(raw_peer_, frame());
        break;
    case 18:
        if (choices_.one_in(40))
            side.card.reset();
        break;
    case 19:
    case 20:
    case 21:
    case 22:
        advance_random_time();
        break;
    default: {
        Ring& ring = side.rings[choices_.below(8)];
        Buffer wr = wr_for(side, ring);
        mutate(wr);
        post(side, ring, std::move(wr), !choices_.one_in(8));
        break;
    }
    }
}

bool HostileGuest::responds() {
    for (auto& side : sides_) {
        side->card.reset();
        if (side->card.mmio_read(0, reg::SG_CONTROL, 4) != 0)
            return false;
        std::array<std::uint8_t, 4> ids{};
        side->card.config_read(0, ids);
        if (ids != std::array<std::uint8_t, 4>{0x25, 0x14, 0x36, 0x00})
            return false;
    }
    return true;
}

void HostileGuest::record(Recorder* recorder) {
    for (auto& side : sides_)
        side->card.record(recorder);
}

std::string HostileGuest::counters() const {
    return "a\n" + sides_[0]->card.counters().text() + "b\n" + sides_[1]->card.counters().text();
}

} // namespace t3sim::test
