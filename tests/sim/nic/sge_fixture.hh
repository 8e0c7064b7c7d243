// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The SGE alone, with rings in a fake host and engines that only record calls.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "sim/card/base/tp.hh"
#include "sim/card/sge/sge.hh"
#include "tests/sim/nic/rings.hh"

namespace t3sim::test {

inline constexpr unsigned rspq_entries = 16;
inline constexpr std::uint32_t small_buffer = 1984, big_buffer = 8128;
inline constexpr std::uint32_t sop_eop = hw::wr::sop | hw::wr::eop;
constexpr std::uint32_t op(std::uint32_t opcode) {
    return opcode << 24;
}

struct RecordedToe final : ToeServices {
    void offload_wr(unsigned queue, Bytes wr, unsigned descriptors) override {
        offload_descriptors += descriptors;
        offload.emplace_back(queue, Buffer(wr.begin(), wr.end()));
    }
    void control_wr(unsigned queue, Bytes wr) override {
        control.emplace_back(queue, Buffer(wr.begin(), wr.end()));
        if (on_control)
            on_control(queue);
    }
    bool frame_in(unsigned, Bytes, const Packet*) override { return false; }

    std::vector<std::pair<unsigned, Buffer>> offload, control;
    std::function<void(unsigned)> on_control;
    unsigned offload_descriptors = 0;
};

struct RecordedRnic final : RnicServices {
    bool offload_wr(Tid, Bytes, std::uint32_t) override { return false; }
    void control_wr(Bytes wr) override { control.emplace_back(wr.begin(), wr.end()); }
    void doorbell(QpId context) override {
        doorbells.push_back(context);
        if (on_doorbell)
            on_doorbell(context);
    }
    [[nodiscard]] bool rdma_mode(Tid) const override { return false; }
    void stream_switched(Tid) override {}
    void stream_in(Tid, Bytes, const Packet*) override {}
    void stream_writable(Tid) override {}
    void close_requested(Tid) override {}
    bool peer_closed(Tid) override { return false; }
    void connection_ended(Tid) override {}

    std::vector<Buffer> control;
    std::vector<QpId> doorbells;
    std::function<void(QpId)> on_doorbell;
};

struct RecordedMacs final : MacServices {
    void transmit(unsigned port, Packet&& frame) override {
        sent.emplace_back(port, Buffer(frame.data(), frame.data() + frame.size()));
    }
    bool ready_or_wait(unsigned, User) override { return ready; }
    bool ready = true;
    std::vector<std::pair<unsigned, Buffer>> sent;
};

class SgeTest : public testing::Test {
protected:
    SgeTest() {
        sge.connect(nic, toe, rnic);
        RegisterHooks hooks;
        irq.add_hooks(hooks);
        sge.add_hooks(hooks);
        tp.add_hooks(hooks);
        fill_register_file(regs, hooks);
    }

    void context(std::uint32_t type_and_id, hw::Context data, hw::Context mask = {~0U, ~0U, ~0U, ~0U}) {
        for (std::uint32_t i = 0; i < 4; ++i) {
            regs.write(reg::SG_CONTEXT_DATA0 + 4 * i, data[i]);
            regs.write(reg::SG_CONTEXT_MASK0 + 4 * i, mask[i]);
        }
        regs.write(reg::SG_CONTEXT_CMD, hw::context_cmd::write << 28 | type_and_id);
        EXPECT_EQ(regs.read(reg::SG_CONTEXT_CMD) & hw::context_cmd::busy, 0U);
    }
    hw::Context read_context(std::uint32_t type_and_id) {
        regs.write(reg::SG_CONTEXT_CMD, type_and_id);
        hw::Context c;
        for (std::uint32_t i = 0; i < 4; ++i)
            c[i] = regs.read(reg::SG_CONTEXT_DATA0 + 4 * i);
        return c;
    }

    /// Queue set 0 as the driver creates it, but smaller; no buffers, no response credits yet.
    void queue_set() {
        context(hw::context_cmd::response_queue | 0, rq.context(1, small_buffer),
                {~0U, ~0U, 0x17ffffff, ~0U});
        context(hw::context_cmd::free_list | 0, fl0.context());
        context(hw::context_cmd::free_list | 1, fl1.context());
        context(hw::context_cmd::egress | 8, eth.context(hw::EgressType::ethernet, 65544, 0));
        context(hw::context_cmd::egress | 0, offload.context(hw::EgressType::offload, 0, 0));
        context(hw::context_cmd::egress | 65528, control.context(hw::EgressType::control, 65536, 0));
    }
    void enable(std::uint32_t more = 0) {
        regs.write(reg::SG_CONTROL, 0x3952ca86 | hw::sg_control::global_enable | more);
    }
    void credits(std::uint32_t n) { regs.write(reg::SG_RSPQ_CREDIT_RETURN, n); }
    void arm(std::uint32_t index) { regs.write(reg::SG_GTS, 50 << 16 | index); }
    void ring(unsigned id) { regs.write(reg::SG_KDOORBELL, 0x80000000 | id); }
    void ready() {
        queue_set();
        enable();
        credits(rspq_entries - 1);
        arm(0);
    }

    /// A frame of @p size bytes, addresses 02:.., all bytes different enough.
    static Buffer frame(std::size_t size) {
        Buffer f(size);
        for (std::size_t i = 0; i < size; ++i)
            f[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
        f[0] = 2;
        put_be16(&f[12], 0x88b5);
        return f;
    }
    /// TUNNEL_TX_PKT with the frame inside.
    void post_frame(Bytes f, std::uint32_t flags = 0) {
        Buffer d(16 + (f.size() + 7) / 8 * 8);
        put_be32(&d[0], op(0x03) | sop_eop | flags | (f.size() & 7) << 16);
        put_be32(&d[4], 65544 << 8 | static_cast<std::uint32_t>(d.size() / 8));
        put_be32(&d[8], 0x0e000000 | hw::cpl::tx_l4_csum_off | hw::cpl::tx_ip_csum_off);
        put_be32(&d[12], static_cast<std::uint32_t>(f.size()));
        std::copy(f.begin(), f.end(), d.begin() + 16);
        eth.post(d);
    }
    RxPacket packet(Bytes f) {
        RxPacket p;
        p.cpl = {static_cast<std::uint8_t>(hw::Cpl::rx_pkt), 0, 0, 0, 0, 0, 0, 0};
        p.frame[0] = f;
        return p;
    }

    FakeHost host;
    EventQueue events;
    Counters counters;
    RegisterBank regs{"bar0", reg::file_size};
    Irq irq{host, regs};
    Tp tp{regs};
    RecordedToe toe;
    RecordedRnic rnic;
    RecordedMacs macs;
    Faults faults{counters};
    Sge sge{host, events, regs, irq, faults, counters};
    Nic nic{regs, tp, macs, sge, counters};

    ResponseRing rq{host, rspq_entries};
    FreeList fl0{host, 8, small_buffer}, fl1{host, 4, big_buffer};
    EgressRing eth{host, 8}, offload{host, 8}, control{host, 8};
};

} // namespace t3sim::test
