// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A card with one Ethernet queue set, with memory instead of a guest and without a peer on the wire.
#pragma once

#include "sim/card/card.hh"
#include "sim/hw/regs.hh"
#include "tests/sim/nic/rings.hh"

namespace t3sim::bench {

using test::FakeHost;

class NullLink : public Link {
public:
    void send(const Endpoint&, Packet&&) override {}
    [[nodiscard]] bool up() const override { return true; }
};

/// A card with one queue set, its free list full, its MAC on.
struct Rig {
    static constexpr unsigned entries = 1024;

    Rig() {
        card.connect(0, link);
        context(hw::context_cmd::response_queue, rq.context(1, 1984));
        context(hw::context_cmd::free_list, list.context());
        context(hw::context_cmd::egress | 8, eth.context(hw::EgressType::ethernet, 65544, 0));
        write(reg::SG_CMDQ_CREDIT_TH, 0x0088b820);
        write(reg::SG_CONTROL, 0x3952ca87);
        write(reg::SG_RSPQ_CREDIT_RETURN, entries - 1);
        write(reg::XGM_RX_CFG, 0x3c5);
        write(reg::XGM_RX_MAX_PKT_SIZE, 1514);
        write(reg::XGM_TX_CTRL, 1);
        write(reg::XGM_RX_CTRL, 1);
        for (unsigned n = 0; n < entries; ++n)
            list.add();
    }
    void write(std::uint32_t offset, std::uint32_t value) { card.mmio_write(0, offset, 4, value); }
    void context(std::uint32_t id, hw::Context data) {
        for (std::uint32_t i = 0; i < 4; ++i) {
            write(reg::SG_CONTEXT_DATA0 + 4 * i, data[i]);
            write(reg::SG_CONTEXT_MASK0 + 4 * i, ~0U);
        }
        write(reg::SG_CONTEXT_CMD, hw::context_cmd::write << 28 | id);
    }
    /// One frame from the wire into host memory; false: it was lost.
    bool receive(Bytes frame) {
        card.port(0).frame_in(frame);
        if (!rq.next())
            return false;
        write(reg::SG_RSPQ_CREDIT_RETURN, 1);
        list.add_again();
        return true;
    }
    /// One frame of @p size bytes at @p at from host memory to the wire.
    void transmit(std::uint64_t at, std::uint32_t size) {
        eth.post({0x03000000 | hw::wr::sop | hw::wr::eop | hw::wr::sgl | 2 << 8, 4, 0x0e100000, size, size, 0,
                  static_cast<std::uint32_t>(at >> 32), static_cast<std::uint32_t>(at)});
        write(reg::SG_KDOORBELL, 0x80000008);
        events.advance(events.now());
        if (rq.next())
            write(reg::SG_RSPQ_CREDIT_RETURN, 1);
    }
    FakeHost host{16 << 20};
    EventQueue events;
    NullLink link;
    Card card{CardConfig{.name = "bench", .mac = {0, 7, 0x43, 0x11, 0x22, 0}}, host, events};
    test::ResponseRing rq{host, entries};
    test::FreeList list{host, entries, 1984};
    test::EgressRing eth{host, entries};
};

inline Buffer tcp_frame(std::size_t size) {
    Buffer f(size, 0x55);
    f[0] = 0;
    put_be16(&f[12], 0x0800);
    f[14] = 0x45;
    put_be16(&f[16], static_cast<std::uint16_t>(size - 14));
    put_be16(&f[20], 0);
    f[23] = 6;
    return f;
}

} // namespace t3sim::bench
