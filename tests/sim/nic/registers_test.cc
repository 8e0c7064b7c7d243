// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The register file as the NIC driver uses it from probe to the first "ifup": reset values, self-clearing
// bits, and values that a reset must keep.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string>

#include <sys/mman.h>

#include "sim/card/base/memory.hh"
#include "sim/card/base/tp.hh"
#include "sim/card/base/vpd.hh"
#include "tests/sim/nic/card_fixture.hh"

namespace t3sim::test {

using Registers = CardTest;

TEST_F(Registers, IdentityAndStraps) {
    EXPECT_EQ(read(reg::PL_REV), 4U);
    EXPECT_EQ(read(reg::MC7_CFG), 0x100U);
    EXPECT_EQ(read(reg::MC7_CFG + reg::mc7_stride), 0x200U);
    EXPECT_EQ(read(reg::MC7_CFG + 2 * reg::mc7_stride), 0x200U);
    EXPECT_EQ(read(reg::MC5_DB_CONFIG), 0x70000000U);
    EXPECT_EQ(read(reg::XGM_RXFIFO_CFG), 0x80000000U);
    EXPECT_EQ(read(reg::XGM_RXFIFO_CFG + reg::xgm_stride), 0x80000000U);
}

TEST(Chips, DifferInIdAndRevision) {
    FakeHost host;
    EventQueue events;
    const auto id_and_revision = [&](Chip chip) {
        Card card(CardConfig{.name = "a", .mac = {0, 7, 0x43, 0x11, 0x22, 0}, .chip = chip}, host, events);
        std::array<std::uint8_t, 2> id{};
        card.config_read(2, id);
        card.reset();
        return std::pair(id[0] | id[1] << 8, card.mmio_read(0, reg::PL_REV, 4));
    };
    EXPECT_EQ(id_and_revision(Chip::t3b), std::pair(0x0031, std::uint64_t{2}));
    EXPECT_EQ(id_and_revision(Chip::t3c), std::pair(0x0036, std::uint64_t{4}));
}

TEST_F(Registers, PlainOnesReadBack) {
    EXPECT_EQ(reread(reg::T3DBG_GPIO_EN, 0x0cf70463), 0x0cf70463U);
    EXPECT_EQ(reread(reg::TP_GLOBAL_CONFIG, 0x0100b840), 0x0100b840U);
    EXPECT_EQ(reread(reg::XGM_RX_CFG + reg::xgm_stride, 0x3c4), 0x3c4U);
    EXPECT_EQ(read(reg::XGM_RX_CFG), 0U) << "the other port has its own";
}

TEST_F(Registers, CommandsAreDoneAtOnce) {
    EXPECT_EQ(reread(reg::MC7_CAL, 1 << 20), 0U);
    EXPECT_EQ(reread(reg::TP_RESET, 0x2), 0U);
    EXPECT_EQ(reread(reg::TP_RESET, 0x1), 0U);
    EXPECT_EQ(reread(reg::MC7_BIST_OP, 1) >> 31, 0U);
    EXPECT_EQ(reread(reg::MC5_DB_DBGI_REQ_CMD, 1), 1U);
    EXPECT_EQ(read(reg::MC5_DB_DBGI_RSP_STATUS), 1U);
    EXPECT_EQ(reread(reg::XGM_RXFIFO_CFG, 0x46e0), 0x800046e0U) << "the FIFO is always empty";
}

TEST_F(Registers, TpResetKeepsConfiguration) {
    write(reg::TP_TCP_OPTIONS, 0x02400515);
    write(reg::TP_RESET, 0x1);
    EXPECT_EQ(read(reg::TP_TCP_OPTIONS), 0x02400515U);
}

TEST_F(Registers, TcamBecomesReadyAndKeepsStraps) {
    write(reg::MC5_DB_CONFIG, 0x70000002);
    EXPECT_EQ(read(reg::MC5_DB_CONFIG), 0x70000004U);
    write(reg::MC5_DB_CONFIG, 0x10);
    EXPECT_EQ(read(reg::MC5_DB_CONFIG), 0x70000014U);
    write(reg::MC5_DB_CONFIG, 0x60);
    EXPECT_EQ(read(reg::MC5_DB_CONFIG), 0x70000064U);
}

TEST_F(Registers, VersionsThatTheDriverExpects) {
    // As it appears on the bus: fast read of 0x7fffc, a dummy byte, the word.
    write(reg::SF_DATA, 0xfcff070b);
    write(reg::SF_OP, 0x0f);
    write(reg::SF_OP, 0x08);
    (void)read(reg::SF_DATA);
    write(reg::SF_OP, 0x06);
    EXPECT_EQ(read(reg::SF_DATA), 0x10070c00U);

    write(reg::TP_EMBED_OP_FIELD0, 0);
    EXPECT_EQ(read(reg::TP_EMBED_OP_FIELD0) & 1, 1U);
    EXPECT_EQ(read(reg::TP_EMBED_OP_FIELD1), 0x00010100U);
}

/// A product of 0 (modulo 2^64) let each probe of a closed window follow the one before at once.
TEST(TpTicks, AreNeverZeroAndNeverTooLong) {
    EXPECT_EQ(tp_ticks(1, 0), 1'000'000U / core_clock_khz);
    for (const std::uint32_t count : {0U, 1U, 1U << 27, 1U << 30, ~0U})
        for (const std::uint32_t resolution : {0U, 14U, 27U, 31U, 255U}) {
            EXPECT_GE(tp_ticks(count, resolution), 1U) << count << " " << resolution;
            EXPECT_LE(tp_ticks(count, resolution), Time{1} << 56) << count << " " << resolution;
        }
}

TEST_F(Registers, FlashIsErasedAndProgrammed) {
    const auto send = [&](std::uint32_t data, unsigned bytes, bool more) {
        write(reg::SF_DATA, data);
        write(reg::SF_OP, 1 | (bytes - 1) << 1 | (more ? 8 : 0));
    };
    const auto word_at = [&](std::uint32_t at) {
        send(0x0b | (at >> 16 & 0xff) << 8 | (at >> 8 & 0xff) << 16 | (at & 0xff) << 24, 4, true);
        write(reg::SF_OP, 8);
        write(reg::SF_OP, 6);
        return read(reg::SF_DATA);
    };
    send(0x000007d8, 4, false);
    EXPECT_EQ(word_at(0x7fffc), 0x10070c00U) << "no erase without write enable";
    send(0x06, 1, false);
    send(0x000007d8, 4, false);
    EXPECT_EQ(word_at(0x7fffc), 0xffffffffU);
    send(0x06, 1, false);
    send(0x00000702 | 0x10 << 24, 4, true); // page program at 0x70010
    send(0x44332211, 4, true);
    send(0x88776655, 4, false);
    EXPECT_EQ(word_at(0x70010), 0x44332211U);
    EXPECT_EQ(word_at(0x70014), 0x88776655U);
    send(0x0b, 4, true);
    write(reg::SF_OP, 8); // the guest ends in the middle of a read
    card.reset();
    EXPECT_EQ(word_at(0x70010), 0x44332211U) << "a reset keeps the flash";
    card.restore_nonvolatile();
    EXPECT_EQ(word_at(0x70010), 0xffffffffU) << "the next guest's is as new";
    EXPECT_EQ(word_at(0x7fffc), 0x10070c00U);
}

TEST_F(Registers, MicroprocessorBoots) {
    EXPECT_EQ(reread(reg::CIM_HOST_ACC_DATA, 0x30d40), 0x30d40U);
    write(reg::CIM_BOOT_CFG, 0x70000);
    EXPECT_EQ(read(reg::CIM_HOST_ACC_DATA), 0U);
}

TEST_F(Registers, ChipResetRestoresAndClearsItself) {
    write(reg::MC7_CFG, 0x2903);
    write(reg::TP_IN_CONFIG, 0xc000);
    context(hw::context_cmd::write << 28 | hw::context_cmd::egress | 8, {1, 2, 3, 4});
    write(reg::PL_RST, 0x3);
    EXPECT_EQ(read(reg::PL_RST), 0U);
    EXPECT_EQ(read(reg::MC7_CFG), 0x100U);
    EXPECT_EQ(read(reg::TP_IN_CONFIG), 0U);
    EXPECT_EQ(read_context(hw::context_cmd::egress | 8), hw::Context{});
    write(reg::PL_RST, read(reg::PL_RST) | 0x10);
    EXPECT_EQ(read(reg::PL_RST), 0x10U);
}

TEST_F(Registers, WindowsOfTp) {
    write(reg::TP_PIO_ADDR, 0x12b);
    write(reg::TP_PIO_DATA, 0xc4ffff01);
    write(reg::TP_PIO_ADDR, 0x145);
    EXPECT_EQ(reread(reg::TP_PIO_DATA, 1), 1U);
    write(reg::TP_PIO_ADDR, 0x12b);
    EXPECT_EQ(read(reg::TP_PIO_DATA), 0xc4ffff01U);

    write(reg::TP_RSS_MAP_TABLE, 33 << 16 | 2);
    write(reg::TP_RSS_LKP_TABLE, 5 << 16 | 0x0302);
    EXPECT_EQ(reread(reg::TP_RSS_MAP_TABLE, 0xffff0000 | 33), 0x80000002U);
    EXPECT_EQ(reread(reg::TP_RSS_LKP_TABLE, 0xffff0000 | 5), 0x80000302U);
    write(reg::TP_MTU_TABLE, 8 << 24 | 10 << 16 | 1500);
    EXPECT_EQ(reread(reg::TP_MTU_TABLE, 0xff000000 | 8) & 0x3fff, 1500U);
    write(reg::TP_CCTRL_TABLE, 8 << 21 | 3 << 16 | 0x155);
    EXPECT_EQ(reread(reg::TP_CCTRL_TABLE, 0xffff0000 | 8 << 5 | 3) & 0x1fff, 0x155U);
}

TEST_F(Registers, BackDoorOfMemoryReadsSlices) {
    // PMRX of the recommended board is 32 bits wide: two reads make a word, upper half first.
    for (std::uint32_t k : {0U, 1U}) {
        write(reg::MC7_BD_ADDR, 16 * 5 + 8 * k);
        write(reg::MC7_BD_OP, 0);
        EXPECT_EQ(read(reg::MC7_BD_OP) >> 31, 0U);
        EXPECT_EQ(read(reg::MC7_BD_DATA1), 0U);
    }
    write(reg::MC7_BIST_DATA, 0xa1b2c3d4);
    write(reg::MC7_BIST_OP, 1);
    write(reg::MC7_BD_ADDR, 16 * 5 + 8);
    write(reg::MC7_BD_OP, 0);
    EXPECT_EQ(read(reg::MC7_BD_DATA1), 0xa1b2c3d4U);
    card.guess("G27=other"); // bytes of the complete word in the opposite order
    write(reg::MC7_BD_OP, 0);
    EXPECT_EQ(read(reg::MC7_BD_DATA1), 0xd4c3b2a1U);
    card.guess("G27=modelled");
    // PMTX is 16 bits wide.
    write(reg::MC7_BIST_DATA + reg::mc7_stride, 0xa1b2c3d4);
    write(reg::MC7_BIST_OP + reg::mc7_stride, 1);
    write(reg::MC7_BD_ADDR + reg::mc7_stride, 32 * 7 + 8);
    write(reg::MC7_BD_OP + reg::mc7_stride, 0);
    EXPECT_EQ(read(reg::MC7_BD_DATA1 + reg::mc7_stride), 0xc3d40000U);
    // An address far outside of the memory has no effect.
    write(reg::MC7_BD_ADDR, 0xfffffff8);
    write(reg::MC7_BD_OP, 0);
    EXPECT_EQ(read(reg::MC7_BD_DATA1), 0U);
}

/// A self test with a pattern is one register write: it must not allocate the 128 MB of memory.
TEST_F(Registers, SelfTestOfMemoryAllocatesNone) {
    const auto resident = [] {
        std::ifstream statm("/proc/self/statm");
        std::size_t all = 0, pages = 0;
        statm >> all >> pages;
        return pages * 4096;
    };
    const std::size_t before = resident();
    for (std::uint32_t n = 1; n <= 3000; ++n) {
        write(reg::MC7_BIST_DATA, n);
        write(reg::MC7_BIST_OP, 1);
    }
    EXPECT_LT(resident(), before + (16U << 20));
    for (const std::uint32_t at : {0U, (8U << 20) - 16, 8U << 20}) {
        write(reg::MC7_BD_ADDR, at);
        write(reg::MC7_BD_OP, 0);
        EXPECT_EQ(read(reg::MC7_BD_DATA1), 3000U) << at;
    }
    // A first access is one of an event that may have a thousand: it fills a page, where it filled 64 KiB.
    for (std::uint32_t n = 0; n < 1000; ++n) {
        write(reg::MC7_BD_ADDR, n << 17);
        write(reg::MC7_BD_OP, 0);
        EXPECT_EQ(read(reg::MC7_BD_DATA1), 3000U);
    }
    EXPECT_LT(resident(), before + (16U << 20));
}

TEST_F(Registers, MdioBusIsEmpty) {
    write(reg::MI1_ADDR, 0x21);
    write(reg::MI1_OP, 3);
    EXPECT_EQ(read(reg::MI1_OP) >> 31, 0U);
    EXPECT_EQ(read(reg::MI1_DATA), 0xffffU);
}

TEST_F(Registers, LinkStateFollowsTheCable) {
    for (std::uint32_t lane = 0; lane < 4; ++lane)
        EXPECT_EQ(read(reg::XGM_SERDES_STAT0 + 4 * lane) & 1, 0U);
    links[0].signal = false;
    EXPECT_EQ(read(reg::XGM_SERDES_STAT2) & 1, 1U);
    EXPECT_EQ(read(reg::XGM_SERDES_STAT2 + reg::xgm_stride) & 1, 0U) << "port 1 still has its cable";
    EXPECT_EQ(read(reg::XGM_INT_STATUS) & 0x200, 0U);
}

// --- Interrupt tree
// ------------------------------------------------------------------------------------------

TEST_F(Registers, CausesClearByWritingOnes) {
    write(reg::SG_CONTROL, hw::sg_control::global_enable);
    write(reg::SG_INT_ENABLE, 0xffffccf8);
    write(reg::PL_INT_ENABLE0, 0x009c1fff);
    // A response queue gets more credits than it has entries: rspq credit overflow, not enabled.
    write(reg::SG_RSPQ_CREDIT_RETURN, 2 << 29 | 5);
    EXPECT_EQ(read(reg::SG_INT_CAUSE), hw::sg_int::rspq_credit_overflow);
    EXPECT_EQ(read(reg::PL_INT_CAUSE0), 0U);
    EXPECT_EQ(host.irqs[0], 0U);

    write(reg::SG_INT_ENABLE, 0xffffffff);
    EXPECT_EQ(read(reg::PL_INT_CAUSE0), 1U) << "latched once it is enabled";
    EXPECT_EQ(host.irqs[0], 1U);
    write(reg::PL_INT_CAUSE0, 1);
    EXPECT_EQ(host.irqs[0], 2U) << "acknowledged in PL_INT_CAUSE0 with its cause still set: raised again";
    write(reg::SG_INT_CAUSE, hw::sg_int::rspq_credit_overflow);
    EXPECT_EQ(read(reg::SG_INT_CAUSE), 0U);
    EXPECT_EQ(read(reg::PL_INT_CAUSE0), 1U) << "latched until written";
    write(reg::PL_INT_CAUSE0, 1);
    EXPECT_EQ(read(reg::PL_INT_CAUSE0), 0U);
    EXPECT_EQ(host.irqs[0], 2U);
}

TEST_F(Registers, IntxSlowPath) {
    write(reg::SG_CONTROL, hw::sg_control::global_enable | hw::sg_control::one_int_mult_q);
    write(reg::SG_INT_ENABLE, 0xffffffff);
    write(reg::PL_INT_ENABLE0, 1);
    EXPECT_EQ(read(reg::SG_DATA_INTR), 0U);
    write(reg::SG_RSPQ_CREDIT_RETURN, 5);
    EXPECT_TRUE(host.intx);
    write(reg::PL_CLI, 0);
    EXPECT_FALSE(host.intx);
    EXPECT_EQ(read(reg::SG_DATA_INTR), 1U << 31);
    write(reg::SG_INT_CAUSE, ~0U);
    write(reg::PL_INT_CAUSE0, ~0U);
    EXPECT_EQ(read(reg::SG_DATA_INTR), 0U);
}

// --- Memory

TEST(SparseMemory, FillOnlyMarksThePagesAndFreesThemLater) {
    constexpr std::size_t page = 4096, pieces = 4;
    std::size_t filled = 0;
    SparseMemory memory(pieces * SparseMemory::piece, filled);
    const auto resident = [&] {
        std::array<unsigned char, pieces * SparseMemory::piece / page> in{};
        // The first access returns the address.
        EXPECT_EQ(mincore(memory.at(0, 0), memory.size(), in.data()), 0);
        return std::count_if(in.begin(), in.end(), [](unsigned char p) { return (p & 1) != 0; });
    };
    for (std::size_t n = 0; n < pieces; ++n)
        std::memset(memory.at(n * SparseMemory::piece, SparseMemory::piece), 0x5a, SparseMemory::piece);
    const auto all = resident();
    EXPECT_EQ(filled, pieces);
    memory.fill(0);
    EXPECT_EQ(resident(), all);
    EXPECT_EQ(*memory.at(2 * SparseMemory::piece, 1), 0) << "cleared when it is used";
    EXPECT_EQ(*memory.at(2 * SparseMemory::piece + 1, 1), 0);
    EXPECT_EQ(filled, pieces + 1);
    EXPECT_TRUE(memory.free_piece());
    EXPECT_EQ(resident(), all / 2 + 1) << "one by use, one by free_piece()";
    EXPECT_TRUE(memory.free_piece());
    EXPECT_TRUE(memory.free_piece());
    EXPECT_FALSE(memory.free_piece());
    EXPECT_EQ(resident(), 1);

    memory.fill(0x01020304);
    const std::size_t border = SparseMemory::piece;
    EXPECT_EQ(be64(memory.at(border - 4, 8)), 0x0102030401020304U);
    memory.fill(0x0a0b0c0d);
    EXPECT_EQ(be32(memory.at(border, 4)), 0x0a0b0c0dU);
    EXPECT_EQ(be32(memory.at(3 * border, 4)), 0x0a0b0c0dU) << "was never used";
    while (memory.free_piece())
        ;
    EXPECT_EQ(be32(memory.at(0, 4)), 0x0a0b0c0dU) << "its pages are freed";
    EXPECT_EQ(memory.at(memory.size() - 1, 2), nullptr);
}

// --- Configuration space and VPD
// -----------------------------------------------------------------------------

class Config : public CardTest {
protected:
    std::uint32_t config(std::uint32_t offset, unsigned size) {
        std::uint8_t b[4] = {};
        card.config_read(offset, MutableBytes(b).first(size));
        return b[0] | b[1] << 8 | b[2] << 16 | static_cast<std::uint32_t>(b[3]) << 24;
    }
    std::uint32_t capability(std::uint8_t id) {
        for (std::uint32_t at = config(0x34, 1); at != 0; at = config(at + 1, 1))
            if (config(at, 1) == id)
                return at;
        ADD_FAILURE() << "no capability " << unsigned{id};
        return 0;
    }
    std::string vpd(std::uint32_t addr, std::size_t size) {
        const std::uint32_t cap = capability(0x03);
        std::string out;
        for (std::uint32_t at = addr & ~3U; at < addr + size; at += 4) {
            const std::uint8_t cmd[] = {static_cast<std::uint8_t>(at), static_cast<std::uint8_t>(at >> 8)};
            card.config_write(cap + 2, cmd);
            EXPECT_NE(config(cap + 2, 2) & 0x8000, 0U);
            const std::uint32_t word = config(cap + 4, 4);
            for (unsigned i = 0; i < 4; ++i)
                out.push_back(static_cast<char>(word >> 8 * i));
        }
        return out.substr(addr & 3, size);
    }
    void write_vpd(std::uint32_t addr, std::uint32_t word) {
        const std::uint32_t cap = capability(0x03);
        std::uint8_t data[4], cmd[2];
        for (unsigned i = 0; i < 4; ++i)
            data[i] = static_cast<std::uint8_t>(word >> 8 * i);
        card.config_write(cap + 4, data);
        for (unsigned i = 0; i < 2; ++i)
            cmd[i] = static_cast<std::uint8_t>((addr | 0x8000) >> 8 * i);
        card.config_write(cap + 2, cmd);
    }
};

TEST_F(Config, IdentityAndCapabilities) {
    EXPECT_EQ(config(0, 4), 0x00361425U);
    EXPECT_EQ(config(0x08, 4) >> 8, 0x020000U);
    EXPECT_EQ(config(capability(0x10) + 0x12, 2) >> 4 & 0x3f, 8U) << "link width";
    EXPECT_GE((config(capability(0x11) + 2, 2) & 0x7ff) + 1, 9U);
    EXPECT_EQ(card.bar_size(0), 4096U);
    EXPECT_EQ(card.bar_size(2), 8U << 20);
    EXPECT_EQ(card.bar_size(1), 0U);
    capability(0x05);
    capability(0x01);
}

TEST_F(Config, VpdMatchesTheDocumentedExample) {
    EXPECT_EQ(vpd(0xc00, 3), std::string("\x82\x10\x00", 3));
    EXPECT_EQ(vpd(0xc00 + 63, 16), "SIM0000001      ");
    EXPECT_EQ(vpd(0xc00 + 82, 12), "000743112200");
    EXPECT_EQ(vpd(0xc00 + 97, 6), "175000");
    EXPECT_EQ(vpd(0xc00 + 156, 2), "4 ");
    EXPECT_EQ(vpd(0xc00 + 173, 5), "RV\x01\x17\x78") << "checksum and end tag";
    EXPECT_EQ(vpd(0, 178), vpd(0xc00, 178));
}

TEST_F(Config, EepromIsKeptInAResetAndAsNewForTheNextGuest) {
    write_vpd(0xc00, 0x64636261);
    card.reset();
    EXPECT_EQ(vpd(0xc00, 4), "abcd");
    card.restore_nonvolatile();
    EXPECT_EQ(vpd(0xc00, 3), std::string("\x82\x10\x00", 3));
}

TEST_F(Config, BadCardsAreRefused) {
    EXPECT_THROW(Card(CardConfig{.name = "x", .mac = {0, 7, 0x43, 0x91, 0, 0}}, host, events),
                 std::invalid_argument);
    EXPECT_THROW(Card(CardConfig{.name = "x", .mac = {1, 7, 0x43, 0, 0, 0}}, host, events),
                 std::invalid_argument);
    EXPECT_THROW(Card(CardConfig{.name = "x", .mac = mac0, .serial = "12345678901234567"}, host, events),
                 std::invalid_argument);
    EXPECT_THROW((void)card.port(2), std::out_of_range);
}

} // namespace t3sim::test
