// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A minimal driver for complete cards, of this process or of a t3sim: brings one up, opens or accepts any
// number of connections, creates a QP for each, and sends messages and RDMA writes. It does not exchange MPA
// frames: both ends enter RDMA mode at once, as initiators.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/card/card.hh"
#include "sim/card/engines.hh"
#include "sim/core/counters.hh"
#include "sim/core/event_queue.hh"
#include "sim/hw/cpl.hh"
#include "sim/hw/cqe.hh"
#include "sim/hw/regs.hh"
#include "sim/hw/sge.hh"
#include "sim/hw/tpt.hh"
#include "sim/hw/wr.hh"
#include "sim/net/wire.hh"
#include "tests/sim/fake_host.hh"
#include "tests/sim/nic/rings.hh"

namespace t3sim::test {

class CardDriver {
public:
    static constexpr std::uint32_t rq_entries = 16, slots = 32;

    /// Host memory for these.
    static constexpr std::size_t memory_size(unsigned connections, std::uint32_t ring_slots = slots) {
        return (10U << 20) + std::size_t{connections} * (4096 + std::size_t{ring_slots} * slot_size);
    }
    /// @p ring_slots: of each QP.
    CardDriver(Device& device, FakeHost& host, unsigned number, unsigned connections,
               std::uint32_t ring_slots = slots)
        : number_(number), slots_(ring_slots), host_(host), device_(device), responses_(host_, entries),
          frames_(host_, entries, buffer_size), control_(host_, entries),
          offload_(host_, entries), ethernet_{EgressRing(host_, entries), EgressRing(host_, entries)},
          control_qp_(host_, entries), cq_(host_.alloc(std::size_t{cqes} * sizeof(hw::CqeLayout))),
          zeroes_(host_.alloc(4096)) {
        for (unsigned n = 0; n < connections; ++n)
            qp_rings_.push_back(host_.alloc(slots_ * slot_size));
        qp_index_.resize(connections);
    }

    static std::array<std::uint8_t, 6> mac(unsigned number) {
        return {0x00, 0x07, 0x43, 0x11, 0x22, static_cast<std::uint8_t>(0x10 * number)};
    }

    /// Prepares the card for connections to the card of driver @p peer.
    void bring_up(unsigned peer) {
        device_.config_write(4, std::array<std::uint8_t, 2>{6, 0});
        write(reg::SG_CONTROL, 11U << 14 | 1U << 11 | hw::sg_control::global_enable);
        context(hw::context_cmd::response_queue, responses_.context(1, 1 << 20));
        write(reg::SG_RSPQ_CREDIT_RETURN, entries - 1);
        for (unsigned n = 0; n < entries; ++n)
            frames_.add();
        context(hw::context_cmd::free_list | 0, frames_.context());
        context(hw::context_cmd::egress | control_context,
                control_.context(hw::EgressType::control, 65536, 0));
        context(hw::context_cmd::egress | offload_context, offload_.context(hw::EgressType::offload, 0, 0));
        for (unsigned ring = 0; ring < ethernet_.size(); ++ring)
            context(hw::context_cmd::egress | (ethernet_context + ring),
                    ethernet_[ring].context(hw::EgressType::ethernet, 65544, 0));
        context(hw::context_cmd::cq | 1, {cqes << 16, static_cast<std::uint32_t>(cq_ >> 12),
                                          static_cast<std::uint32_t>(cq_ >> 44) | 1U << 29, 0});
        for (const std::uint32_t port : {0U, reg::xgm_stride}) {
            write(reg::XGM_RX_CFG + port, 1); // promiscuous
            write(reg::XGM_RX_MAX_PKT_SIZE + port, 1518);
            write(reg::XGM_TX_CTRL + port, 1);
            write(reg::XGM_RX_CTRL + port, 1);
        }
        context(hw::context_cmd::egress | hw::control_qp, control_qp_.context(hw::EgressType::rdma, 0, 0));
        const std::pair<std::uint32_t, std::uint32_t> regions[] = {
            {reg::ULPTX_TPT_LLIMIT, tpt_base},  {reg::ULPTX_TPT_ULIMIT, pbl_base - 1},
            {reg::ULPTX_PBL_LLIMIT, pbl_base},  {reg::ULPTX_PBL_ULIMIT, (3U << 20) - 1},
            {reg::ULPRX_STAG_LLIMIT, tpt_base}, {reg::ULPRX_STAG_ULIMIT, pbl_base - 1},
            {reg::ULPRX_PBL_LLIMIT, pbl_base},  {reg::ULPRX_PBL_ULIMIT, (3U << 20) - 1},
            {reg::ULPRX_RQ_LLIMIT, 16U << 20},  {reg::ULPRX_RQ_ULIMIT, (32U << 20) - 1},
        };
        for (const auto& [offset, value] : regions)
            write(offset, value);
        hw::SmtWriteReq smt{};
        smt.src_mac0 = smt.src_mac1 = mac(number_);
        forward(smt, hw::Cpl::smt_write_req, 0);
        hw::L2tWriteReq l2t{};
        l2t.params = hw::vlan_untagged << 11;
        l2t.dst_mac = mac(peer);
        forward(l2t, hw::Cpl::l2t_write_req, 0);
    }
    void listen() {
        hw::PassOpenReq req{};
        req.ends.local_port = server_port;
        req.ends.local_ip = ip(number_);
        forward(req, hw::Cpl::pass_open_req, first_stid);
    }
    /// Connection @p n.
    void open(unsigned n, unsigned peer) {
        hw::ActOpenReq req{};
        req.ends.local_port = static_cast<std::uint16_t>(10000 + n);
        req.ends.peer_port = server_port;
        req.ends.local_ip = ip(number_);
        req.ends.peer_ip = ip(peer);
        req.opt0h = mtu_1500_keepalive;
        req.opt0l = window_256k;
        forward(req, hw::Cpl::act_open_req, atid_base + n);
    }
    /// Posts a receive and a SEND without payload on connection @p n, with one doorbell.
    void receive_and_send(unsigned n) {
        post_receive(n);
        post_send(n);
        ring_doorbell(n);
    }
    /// @p size: of the buffer, at most write_size. A size above 0 needs registered memory.
    void receive(unsigned n, std::uint32_t size = 0) {
        post_receive(n, size);
        ring_doorbell(n);
    }
    void send(unsigned n, std::uint32_t size = 0) {
        post_send(n, size);
        ring_doorbell(n);
    }
    /// Posts an RDMA write without payload; no doorbell.
    void post_write(unsigned n) {
        hw::WriteWr wr{};
        wr.header.hi = wr_hi(0x11, 0);
        wr.rdma_op = static_cast<std::uint8_t>(hw::RdmaOp::write);
        wr.sink_stag = 0x100;
        post_slot(n, wr, offsetof(hw::WriteWr, sge));
    }
    /// Registers write_size bytes of memory, to which the peer writes, and which it sends.
    void register_memory() {
        constexpr std::uint32_t index = sink_stag >> 8;
        static_assert(write_size == 4096U << page_code);
        memory_ = host_.alloc(write_size, write_size);
        Buffer page(hw::BypassWr::unit);
        put_be64(page.data(), memory_);
        write_memory(pbl_base, page);
        hw::TptEntry entry{};
        entry.state_word = 1U << 31 | 1U; // PD 1
        entry.set_state(sink_stag & 0xff, true);
        entry.set_rights(hw::TptEntry::local_read | hw::TptEntry::local_write | hw::TptEntry::remote_write,
                         true, false, page_code);
        entry.length = write_size;
        write_memory(tpt_base + index * sizeof entry, hw::bytes_of(entry));
    }
    /// Posts an RDMA write of write_size bytes; no doorbell. Both sides must have registered memory.
    void post_full_write(unsigned n) {
        hw::WriteWr wr{};
        wr.header.hi = wr_hi(0x11, 0);
        wr.rdma_op = static_cast<std::uint8_t>(hw::RdmaOp::write);
        wr.sink_stag = sink_stag;
        wr.plen = write_size;
        wr.num_sge = 1;
        wr.sge[0].length = write_size; // STag 0: a bus address
        wr.sge[0].to = memory_;
        post_slot(n, wr, offsetof(hw::WriteWr, sge) + sizeof(hw::Sge));
    }
    static constexpr std::uint32_t write_size = 64 << 10;
    [[nodiscard]] std::uint64_t memory() const { return memory_; }
    void ring_doorbell(unsigned n) { write(reg::SG_KDOORBELL, 1U << 31 | (first_qp + n)); }
    /// Sends an Ethernet frame of zeroes, but for @p number at number_at. Short frames are immediate data,
    /// long ones only at their start.
    void transmit(unsigned port, std::uint32_t size, unsigned ring = 0, std::uint16_t number = 0) {
        constexpr std::uint32_t header = 16, start = 16, sgl_at = header + start, max_immediate = 104;
        const bool immediate = size <= max_immediate;
        Buffer wr(immediate ? header + (size + 7) / 8 * 8 : sgl_at + 16);
        put_be32(&wr[0], 3U << 24 | hw::wr::sop | hw::wr::eop |
                             (immediate ? 0 : hw::wr::sgl | sgl_at / hw::flit << 8));
        put_be32(&wr[8],
                 hw::ot(hw::Cpl::tx_pkt, 0) | port << 16 | hw::cpl::tx_l4_csum_off | hw::cpl::tx_ip_csum_off);
        put_be32(&wr[12], size);
        put_be16(&wr[header + number_at], number);
        if (!immediate) {
            put_be32(&wr[sgl_at], size - start);
            put_be64(&wr[sgl_at + 8], zeroes_);
        }
        post(ethernet_.at(ring), ethernet_context + ring, wr);
    }
    static constexpr std::size_t number_at = 14;
    void disconnect(unsigned n) {
        Buffer bytes(24);
        put_be32(&bytes[0], wr_hi(static_cast<std::uint32_t>(hw::FwOp::close_con), 0));
        put_be32(&bytes[4], tids_.at(n) << 8 | 3);
        offload_.post(bytes);
        write(reg::SG_KDOORBELL, 1U << 31 | offload_context);
    }

    void release_tid(std::uint32_t tid) { forward(hw::CplRequest{}, hw::Cpl::tid_release, tid); }

    /// Processes all responses of the card. False: there were none.
    bool process_responses() {
        unsigned count = 0;
        while (const auto response = responses_.next()) {
            ++count;
            if ((response->flags() & hw::response::immediate) != 0)
                handle(Bytes(response->bytes).subspan(hw::immediate_offset), response->opcode());
            else if (response->length() != 0)
                receive_frame(response->length());
        }
        if (count != 0)
            write(reg::SG_RSPQ_CREDIT_RETURN, count);
        return count != 0;
    }

    [[nodiscard]] std::size_t connected() const { return tids_.size(); }
    /// Called for each Ethernet frame in process_responses().
    std::function<void(Bytes frame)> on_frame = [](Bytes) {};
    unsigned closed = 0; ///< connections that have been closed in order

private:
    static constexpr unsigned entries = 1024;
    static constexpr std::uint32_t buffer_size = 2048; ///< of a received frame
    static constexpr std::uint32_t cqes = 32768;
    static constexpr std::uint32_t control_context = 65528, offload_context = 8, ethernet_context = 0,
                                   first_qp = 64;
    static constexpr std::uint32_t first_stid = 0x3d7c, atid_base = 0x10000;
    static constexpr std::uint16_t server_port = 5001;
    static constexpr std::uint32_t mtu_1500_keepalive = 8U << 28 | 1U << 22 | 3U << 18,
                                   window_256k = 256U << 12;
    static constexpr std::uint32_t tpt_base = 1U << 20, pbl_base = 2U << 20, sink_stag = 0x100;
    static constexpr std::uint32_t page_code = 4; ///< of the registered memory: one page of 64 KiB

    static std::uint32_t ip(unsigned number) { return 0x0a000001 + number; }
    static std::uint32_t wr_hi(std::uint32_t opcode, std::uint32_t flags) {
        return opcode << 24 | hw::wr::sop | hw::wr::eop | flags;
    }

    void write(std::uint32_t offset, std::uint32_t value) { device_.mmio_write(0, offset, 4, value); }
    void context(std::uint32_t which, hw::Context words) {
        for (std::uint32_t i = 0; i < words.size(); ++i) {
            write(reg::SG_CONTEXT_DATA0 + 4 * i, words[i]);
            write(reg::SG_CONTEXT_MASK0 + 4 * i, ~0U);
        }
        write(reg::SG_CONTEXT_CMD, hw::context_cmd::write << 28 | which);
    }

    void post_receive(unsigned n, std::uint32_t size = 0) {
        hw::ReceiveWr receive{};
        receive.header.hi = wr_hi(0x17, 0);
        if (size != 0) {
            receive.num_sge = 1;
            receive.sge[0].stag = sink_stag;
            receive.sge[0].length = size;
            receive.page_code[0] = page_code;
            receive.pbl_addr[0] = 0; // the first page of the region
        }
        post_slot(n, receive, sizeof receive);
    }
    void post_send(unsigned n, std::uint32_t size = 0) {
        hw::SendWr send{};
        send.header.hi = wr_hi(0x14, hw::wr::completion);
        send.rdma_op = static_cast<std::uint8_t>(hw::RdmaOp::send);
        send.plen = size;
        if (size != 0) {
            send.num_sge = 1;
            send.sge[0].stag = sink_stag;
            send.sge[0].length = size;
        }
        post_slot(n, send, offsetof(hw::SendWr, sge) + send.num_sge * sizeof(hw::Sge));
    }
    void post(EgressRing& ring, std::uint32_t egress, Bytes wr) {
        Buffer bytes(wr.begin(), wr.end());
        bytes.resize((bytes.size() + 7) / 8 * 8);
        put_be32(&bytes[4], (be32(&bytes[4]) & 0x0fffff00) | static_cast<std::uint32_t>(bytes.size() / 8));
        ring.post(bytes);
        write(reg::SG_KDOORBELL, 1U << 31 | egress);
    }
    template <typename T> void forward(T cpl, hw::Cpl opcode, std::uint32_t id) {
        cpl.wr.hi = wr_hi(static_cast<std::uint32_t>(hw::FwOp::forward), 0);
        cpl.ot = hw::ot(opcode, id);
        post(control_, control_context, hw::bytes_of(cpl));
    }
    /// A memory write on the ring of the control QP.
    void write_memory(std::uint64_t to, Bytes data) {
        hw::BypassWr wr{};
        wr.header.hi = wr_hi(0x1c, 0);
        wr.command = static_cast<std::uint32_t>(hw::BypassWr::memory_write << 28 | to / hw::BypassWr::unit);
        wr.size = static_cast<std::uint32_t>(1U << 28 | (1 + hw::BypassWr::unit / hw::flit));
        std::copy(data.begin(), data.end(), wr.data);
        post(control_qp_, hw::control_qp,
             Bytes(hw::bytes_of(wr)).first(offsetof(hw::BypassWr, data) + hw::BypassWr::unit));
    }
    template <typename T> void post_slot(unsigned n, T wr, std::size_t size) {
        const std::uint32_t index = qp_index_[n]++;
        const std::uint32_t gen = index / slots_ % 2 == 0 ? 1 : 0;
        wr.header.lo = gen << 31 | static_cast<std::uint32_t>(size / hw::flit);
        std::uint8_t* slot = host_.at(qp_rings_[n] + index % slots_ * slot_size, slot_size);
        const Bytes bytes = hw::bytes_of(wr);
        std::copy_n(bytes.begin(), std::min(bytes.size(), slot_size - 8), slot);
        put_be64(slot + 120, gen);
    }

    void handle(Bytes cpl, std::uint8_t opcode) {
        switch (static_cast<hw::Cpl>(opcode)) {
        case hw::Cpl::pass_accept_req: {
            hw::PassAcceptRpl rpl{};
            rpl.opt0h = mtu_1500_keepalive;
            rpl.opt0l = window_256k;
            rpl.peer_ip = be32(&cpl[12]);
            forward(rpl, hw::Cpl::pass_accept_rpl, tid_of(cpl));
            break;
        }
        case hw::Cpl::act_establish:
        case hw::Cpl::pass_establish:
            rdma_init(*hw::parse<hw::Establish>(cpl));
            break;
        case hw::Cpl::close_con_rpl:
            ++closed;
            break;
        case hw::Cpl::act_open_rpl:
        case hw::Cpl::abort_req_rss:
            throw std::runtime_error("a connection failed");
        default:
            break;
        }
    }
    void receive_frame(std::uint32_t length) {
        constexpr std::size_t cpl_size = 8;
        on_frame(host_.bytes(frames_.add_again(), length).subspan(cpl_size));
    }
    static std::uint32_t tid_of(Bytes cpl) { return be32(cpl.data()) & 0xffffff; }

    void rdma_init(const hw::Establish& established) {
        const auto n = static_cast<std::uint32_t>(tids_.size());
        const std::uint32_t tid = established.ot & 0xffffff;
        tids_.push_back(tid);
        hw::RdmaInitWr init{};
        init.header.hi = wr_hi(0x10, 0);
        init.header.lo = tid << 8;
        init.qpid = first_qp + n;
        init.pdid = 1;
        init.scqid = 1, init.rcqid = 1;
        init.rq_addr = n * rq_entries * rqe_bytes;
        init.rq_size = rq_entries;
        init.mpa_attrs = hw::RdmaInitWr::crc;
        init.qp_caps = 0x1f;
        init.ulpdu_size = 1400;
        init.flags_rtr_type = 1;
        init.ord = 4, init.ird = 4;
        init.qp_dma_addr = qp_rings_.at(n);
        init.qp_dma_size = slots_;
        init.irs = established.rcv_isn;
        post(offload_, offload_context, hw::bytes_of(init));
    }
    static constexpr std::uint32_t rqe_bytes = 64;

    unsigned number_;
    std::uint32_t slots_;
    FakeHost& host_;
    Device& device_;
    ResponseRing responses_;
    FreeList frames_;
    EgressRing control_, offload_;
    std::array<EgressRing, 2> ethernet_;
    EgressRing control_qp_;
    std::uint64_t memory_ = 0; ///< registered
    std::uint64_t cq_, zeroes_;
    std::vector<std::uint64_t> qp_rings_;
    std::vector<std::uint32_t> qp_index_;
    std::vector<std::uint32_t> tids_;
};

/// A card of this process and its host.
struct CardAndHost {
    CardAndHost(EventQueue& queue, unsigned number, std::size_t memory)
        : own_host_(memory), card_(CardConfig{.name = std::to_string(number), .mac = CardDriver::mac(number)},
                                   own_host_, queue) {}
    FakeHost own_host_;
    Card card_;
};

/// Them with their driver.
class TestDriver : private CardAndHost, public CardDriver {
public:
    TestDriver(EventQueue& queue, unsigned number, unsigned connections, std::uint32_t ring_slots = slots)
        : CardAndHost(queue, number, memory_size(connections, ring_slots)),
          CardDriver(card_, own_host_, number, connections, ring_slots) {}

    Card& card() { return card_; }
    FakeHost& host() { return own_host_; }
    [[nodiscard]] std::uint64_t completions() const { return card_.counters().value("sge.cqes"); }
};

/// Cards in pairs, a wire for each pair.
class CardPairs {
public:
    /// @p queue: nullptr to use an own queue.
    CardPairs(unsigned pairs, unsigned connections, EventQueue* queue = nullptr,
              std::uint32_t ring_slots = TestDriver::slots)
        : connections_(connections), queue_(queue ? *queue : own_queue_) {
        for (unsigned pair = 0; pair < pairs; ++pair) {
            wires_.push_back(std::make_unique<Wire>(queue_, "w" + std::to_string(pair)));
            for (unsigned number : {2 * pair, 2 * pair + 1}) {
                cards_.push_back(std::make_unique<TestDriver>(queue_, number, connections, ring_slots));
                cards_.back()->card().connect(0, *wires_.back());
                wires_.back()->attach(cards_.back()->card().port(0), std::to_string(number));
            }
        }
        for (unsigned number = 0; number < cards_.size(); ++number)
            cards_[number]->bring_up(number ^ 1U);
        for (unsigned number = 1; number < cards_.size(); number += 2)
            cards_[number]->listen();
        settle();
    }

    Wire& wire(unsigned pair) { return *wires_.at(pair); }
    TestDriver& card(unsigned number) { return *cards_.at(number); }
    [[nodiscard]] unsigned size() const { return static_cast<unsigned>(cards_.size()); }

    /// Connection @p n of every pair.
    void connect(unsigned n) {
        for (unsigned number = 0; number < cards_.size(); number += 2)
            cards_[number]->open(n, number + 1);
        settle();
    }
    void connect_all() {
        for (unsigned n = 0; n < connections_; ++n)
            connect(n);
    }
    /// Sends a message each way on every connection.
    void traffic() {
        for (unsigned n = 0; n < connections_; ++n) {
            for (auto& card : cards_)
                card->receive_and_send(n);
            settle();
        }
    }

    void pass(Time time) {
        queue_.advance(queue_.now() + time);
        settle();
    }
    void settle() {
        bool busy = true;
        while (busy) {
            queue_.advance(queue_.now() + 100'000);
            busy = false;
            for (auto& card : cards_)
                busy = card->process_responses() || busy;
        }
    }

private:
    unsigned connections_;
    EventQueue own_queue_;
    EventQueue& queue_;
    std::vector<std::unique_ptr<Wire>> wires_;
    std::vector<std::unique_ptr<TestDriver>> cards_;
};

} // namespace t3sim::test
