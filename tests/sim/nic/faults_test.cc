// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The catalogue of faults: the effect of each on a complete card. Effects within an engine are tested in
// sge_test.cc and in the tests of Toe and Rnic.
#include <algorithm>

#include "sim/card/base/faulty_host.hh"
#include "tests/sim/nic/card_fixture.hh"

namespace t3sim::test {
namespace {

class FaultyBus : public testing::Test {
protected:
    static Buffer some(std::uint8_t what) { return Buffer(8, what); }

    FakeHost host;
    EventQueue events;
    Counters counters;
    Faults faults{counters};
    FaultyHost bus{host, events, faults, counters["lost"]};
    std::uint64_t at = host.alloc(4096);
};

TEST_F(FaultyBus, WritesAreLateAndInOrder) {
    faults.dma.arm(1000);
    EXPECT_TRUE(bus.dma_write(at, some(1)));
    EXPECT_TRUE(bus.dma_store(at + 4, 0x02020202));
    bus.raise_irq(3);
    bus.set_intx(true);
    events.advance(999);
    EXPECT_EQ(host.word(at), 0U);
    EXPECT_EQ(host.irqs[3], 0U);
    EXPECT_FALSE(host.intx);
    events.advance(1000);
    EXPECT_EQ(host.word(at), 0x01010101U);
    EXPECT_EQ(host.word(at + 4), 0x02020202U) << "written later, so it stays";
    EXPECT_EQ(host.irqs[3], 1U);
    EXPECT_TRUE(host.intx);
    EXPECT_TRUE(bus.dma_write(at, some(5)));
    EXPECT_EQ(host.word(at), 0x05050505U) << "the fault is over";
}

TEST_F(FaultyBus, OverlappingReadFlushesEarlierWrites) {
    faults.dma.arm(1000);
    bus.dma_write(at, some(1));
    bus.dma_write(at + 64, some(2));
    Buffer back(8);
    EXPECT_TRUE(bus.dma_read(at + 256, back));
    EXPECT_EQ(host.word(at), 0U) << "a read of another address does not flush";
    std::uint32_t raw = 0;
    EXPECT_TRUE(bus.dma_load(at + 68, raw));
    EXPECT_EQ(raw, 0x02020202U);
    EXPECT_EQ(host.word(at), 0x01010101U);
}

/// A read searches those that wait: one doorbell took 3 s with 70,000.
TEST_F(FaultyBus, OperationsThatWaitAreLimited) {
    faults.dma.arm(1000);
    for (std::size_t n = 0; n < FaultyHost::waiting_operations - 1; ++n)
        bus.raise_irq(3);
    EXPECT_EQ(host.irqs[3], 0U);
    bus.dma_write(at, some(2));
    EXPECT_EQ(host.irqs[3], FaultyHost::waiting_operations - 1) << "before the delay was over";
    EXPECT_EQ(host.word(at), 0x02020202U);
    EXPECT_EQ(bus.waiting_bytes(), 0U);
}

TEST_F(FaultyBus, WritesToUnmappedMemoryAreCounted) {
    faults.dma.arm(1000);
    EXPECT_TRUE(bus.dma_write(1, some(1))) << "posted writes always succeed";
    events.advance(1000);
    EXPECT_EQ(counters.value("lost"), 1U);
}

/// A reset in the middle of the fault: the next fault may delay as much again.
TEST_F(FaultyBus, DroppedWritesDoNotCount) {
    constexpr std::size_t most_of_the_limit = FaultyHost::waiting_limit / 8 * 5;
    faults.dma.arm(1000);
    EXPECT_TRUE(bus.dma_write(1, Buffer(most_of_the_limit)));
    bus.drop();
    EXPECT_FALSE(events.next()) << "nothing is left to do";
    EXPECT_TRUE(bus.dma_write(at, some(1)));
    EXPECT_TRUE(bus.dma_write(1, Buffer(most_of_the_limit)));
    EXPECT_EQ(host.word(at), 0U) << "still late";
    events.advance(1000);
    EXPECT_EQ(host.word(at), 0x01010101U);
    EXPECT_EQ(counters.value("lost"), 1U) << "the dropped write did not reach the host";
}

TEST_F(FaultyBus, WritesAndInterruptsTakeTime) {
    faults.timing.set("write=1us");
    bus.dma_write(at, some(1));
    events.advance(400);
    bus.raise_irq(3);
    events.advance(999);
    EXPECT_EQ(host.word(at), 0U);
    events.advance(1000);
    EXPECT_EQ(host.word(at), 0x01010101U);
    EXPECT_EQ(host.irqs[3], 0U);
    events.advance(1400);
    EXPECT_EQ(host.irqs[3], 1U);
    faults.timing.set("instant");
    bus.raise_irq(3);
    EXPECT_EQ(host.irqs[3], 2U);
}

TEST_F(FaultyBus, JitterKeepsTheOrderAndIsThatOfItsSeed) {
    const auto arrivals = [this](const char* seed) {
        faults.timing.set("jitter=10us");
        faults.timing.set(seed);
        std::vector<Time> all;
        const Time begin = events.now();
        for (std::uint32_t n = 1; n <= 20; ++n)
            bus.dma_store(at, n);
        while (all.size() < 20) {
            events.advance(events.now() + 10);
            std::uint32_t last = 0;
            host.dma_load(at, last);
            EXPECT_GE(last, all.size());
            all.resize(last, events.now() - begin);
        }
        EXPECT_LE(all.back(), 10'000U);
        bus.dma_store(at, 0);
        bus.flush();
        return all;
    };
    const auto first = arrivals("seed=7");
    EXPECT_EQ(arrivals("seed=7"), first);
    EXPECT_NE(arrivals("seed=8"), first);
}

TEST(Timings, AreReadAndShown) {
    Timing timing;
    EXPECT_EQ(timing.text(), "instant");
    timing.set("seed=7");
    EXPECT_FALSE(timing.any());
    timing.set("fetch=1.5us");
    EXPECT_EQ(timing.text(), "fetch=1500ns write=0ns command=0ns jitter=0ns seed=7");
    EXPECT_EQ(timing.fetch(), 1500U);
    timing.set("t3");
    EXPECT_TRUE(timing.text().ends_with(" seed=7"));
    timing.set("instant");
    EXPECT_FALSE(timing.any());
    for (const char* bad : {"", "fetch", "fetch=", "fetch=2", "write=2s", "seed=x", "t4", "fetch=-1us"})
        EXPECT_THROW(timing.set(bad), std::invalid_argument) << bad;
}

TEST_F(FaultyBus, ArmedNumberOfInterruptsIsLost) {
    faults.interrupt.arm(2);
    for (unsigned n = 0; n < 3; ++n)
        bus.raise_irq(1);
    bus.set_intx(true);
    EXPECT_EQ(host.irqs[1], 1U);
    EXPECT_TRUE(host.intx) << "INTx is never lost";
    EXPECT_EQ(counters.value("faults.interrupts_lost"), 2U);
}

class FaultsOfACard : public CardTest {
protected:
    /// Enables all error interrupts.
    void listen() {
        write(reg::SG_CONTROL, hw::sg_control::global_enable);
        for (const std::uint32_t enable :
             {reg::SG_INT_ENABLE, reg::PCIE_INT_ENABLE, reg::MC7_INT_ENABLE, reg::PL_INT_ENABLE0})
            write(enable, ~0U);
    }
};

TEST_F(FaultsOfACard, NamesAreChecked) {
    EXPECT_THROW(card.inject("frob"), std::invalid_argument);
    EXPECT_THROW(card.inject(""), std::invalid_argument);
    EXPECT_THROW(card.inject("abort", 1), std::invalid_argument);
}

TEST_F(FaultsOfACard, EachCanBeInjectedAtAnyTime) {
    for (const Card::Fault& fault : Card::faults()) {
        SCOPED_TRACE(fault.name);
        const auto all = Card::faults();
        EXPECT_EQ(std::count_if(all.begin(), all.end(),
                                [&](const auto& f) { return std::string_view(f.name) == fault.name; }),
                  1);
        EXPECT_EQ(fault.default_amount != 0, fault.amount != Card::Fault::Amount::none);
        card.inject(fault.name);
        events.advance(events.now() + 2'000'000'000);
    }
}

TEST_F(FaultsOfACard, ErrorsAreReportedByTheirBlock) {
    const struct {
        const char* name;
        std::uint32_t cause, bits, top;
    } errors[] = {
        {"pci-error", reg::PCIE_INT_CAUSE, hw::bit(6) | hw::bit(0), hw::bit(1)},
        {"framing-error", reg::SG_INT_CAUSE, hw::sg_int::r_req_framing_error, hw::bit(0)},
        {"db-full", reg::SG_INT_CAUSE, hw::sg_int::db_full, hw::bit(0)},
        {"db-empty", reg::SG_INT_CAUSE, hw::sg_int::db_empty, hw::bit(0)},
        {"db-drop", reg::SG_INT_CAUSE, hw::sg_int::db_drop, hw::bit(0)},
        {"pmrx-ecc", reg::MC7_INT_CAUSE, hw::bit(1), hw::bit(2)},
    };
    listen();
    for (const auto& error : errors) {
        const unsigned before = host.irqs[0];
        card.inject(error.name);
        EXPECT_EQ(read(error.cause), error.bits) << error.name;
        EXPECT_EQ(read(reg::PL_INT_CAUSE0), error.top) << error.name;
        EXPECT_EQ(host.irqs[0], before + 1) << error.name;
        write(error.cause, error.bits);
        write(reg::PL_INT_CAUSE0, error.top);
    }
}

TEST_F(FaultsOfACard, LinkFlap) {
    const auto signals = [&] {
        return (read(reg::XGM_SERDES_STAT0) & 1) == 0 &&
               (read(reg::XGM_SERDES_STAT0 + reg::xgm_stride) & 1) == 0;
    };
    EXPECT_TRUE(signals());
    card.inject("link-flap", 1000);
    EXPECT_FALSE(signals());
    events.advance(500);
    card.inject("link-flap", 1000);
    events.advance(1499);
    EXPECT_FALSE(signals()) << "the second flap replaces the first";
    events.advance(1500);
    EXPECT_TRUE(signals());
}

TEST_F(FaultsOfACard, AdapterResetRaisesNoInterruptAndDisarmsFaults) {
    listen();
    card.inject("lost-interrupt");
    const unsigned before = host.irqs[0];
    card.inject("adapter-reset");
    EXPECT_EQ(read(reg::PL_INT_ENABLE0), 0U);
    EXPECT_EQ(host.irqs[0], before);
    listen();
    card.inject("db-full");
    EXPECT_EQ(host.irqs[0], before + 1) << "no interrupt is lost any more";
}

TEST_F(FaultsOfACard, RegisterReadFlushesLateWrites) {
    listen();
    card.inject("late-dma", 1000);
    card.inject("db-full"); // its interrupt is a write as well
    EXPECT_EQ(host.irqs[0], 0U);
    (void)read(reg::SG_INT_CAUSE);
    EXPECT_EQ(host.irqs[0], 1U);
}

TEST_F(FaultsOfACard, TimesRemainAfterAReset) {
    card.set_time("write=1us");
    card.inject("adapter-reset");
    listen();
    card.inject("db-full");
    EXPECT_EQ(host.irqs[0], 0U);
    events.advance(events.now() + 1000);
    EXPECT_EQ(host.irqs[0], 1U);
    write(reg::SG_INT_CAUSE, ~0U);
    write(reg::PL_INT_CAUSE0, ~0U);
    card.inject("db-empty");
    (void)read(reg::SG_INT_CAUSE);
    EXPECT_EQ(host.irqs[0], 2U) << "a register read does not overtake a write";
}

} // namespace
} // namespace t3sim::test
