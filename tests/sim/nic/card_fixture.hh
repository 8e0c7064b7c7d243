// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A complete card with a fake host, driven as the NIC driver does: by registers and rings.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "sim/card/card.hh"
#include "sim/core/counters.hh"
#include "sim/core/event_queue.hh"
#include "sim/hw/regs.hh"
#include "sim/hw/sge.hh"
#include "tests/sim/fake_host.hh"

namespace t3sim::test {

/// A cable with the test at its other end.
class FakeLink : public Link {
public:
    void send(const Endpoint&, Packet&& frame) override {
        sent.emplace_back(frame.data(), frame.data() + frame.size());
    }
    [[nodiscard]] bool up() const override { return signal; }

    bool signal = true;
    std::vector<Buffer> sent;
};

class CardTest : public testing::Test {
protected:
    static constexpr std::array<std::uint8_t, 6> mac0{0x00, 0x07, 0x43, 0x11, 0x22, 0x00};

    CardTest() {
        for (unsigned port = 0; port < Card::ports; ++port)
            card.connect(port, links[port]);
    }

    std::uint32_t read(std::uint32_t offset) {
        return static_cast<std::uint32_t>(card.mmio_read(0, offset, 4));
    }
    void write(std::uint32_t offset, std::uint32_t value) { card.mmio_write(0, offset, 4, value); }
    /// Writes, then reads back.
    std::uint32_t reread(std::uint32_t offset, std::uint32_t value) {
        write(offset, value);
        return read(offset);
    }
    /// A context command with data and full or given masks.
    void context(std::uint32_t command, hw::Context data, hw::Context mask = {~0U, ~0U, ~0U, ~0U}) {
        for (std::uint32_t i = 0; i < 4; ++i) {
            write(reg::SG_CONTEXT_DATA0 + 4 * i, data[i]);
            write(reg::SG_CONTEXT_MASK0 + 4 * i, mask[i]);
        }
        write(reg::SG_CONTEXT_CMD, command);
    }
    hw::Context read_context(std::uint32_t type_and_id) {
        write(reg::SG_CONTEXT_CMD, type_and_id);
        hw::Context c;
        for (std::uint32_t i = 0; i < 4; ++i)
            c[i] = read(reg::SG_CONTEXT_DATA0 + 4 * i);
        return c;
    }

    FakeHost host;
    EventQueue events;
    FakeLink links[Card::ports];
    Card card{CardConfig{.name = "a", .mac = mac0}, host, events};
};

} // namespace t3sim::test
