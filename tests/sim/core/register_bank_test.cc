// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/register_bank.hh"

#include <stdexcept>

#include <gtest/gtest.h>

namespace t3sim {
namespace {

TEST(RegisterBank, PlainRegisterReadsBackAndResets) {
    RegisterBank bank("test", 0x100);
    bank.add({.offset = 0x10, .name = "CONFIG", .reset = 0x55});
    EXPECT_EQ(bank.read(0x10), 0x55U);
    bank.write(0x10, 0xdeadbeef);
    EXPECT_EQ(bank.read(0x10), 0xdeadbeefU);
    bank.reset();
    EXPECT_EQ(bank.read(0x10), 0x55U);
}

TEST(RegisterBank, WriteMaskKeepsTheOtherBits) {
    RegisterBank bank("test", 0x100);
    bank.add({.offset = 0, .name = "MASKED", .reset = 0xf0f0, .write = 0x00ff});
    bank.write(0, 0xffffffff);
    EXPECT_EQ(bank.read(0), 0xf0ffU);
}

TEST(RegisterBank, WriteOneToClear) {
    RegisterBank bank("test", 0x100);
    bank.add({.offset = 0, .name = "CAUSE", .write = 0, .w1c = 0xffff});
    bank.poke(0, 0x1ff0f);
    bank.write(0, 0x1000f);
    EXPECT_EQ(bank.read(0), 0x1ff00U) << "bit 16 is not W1C, bits 3:0 are";
    bank.write(0, 0);
    EXPECT_EQ(bank.read(0), 0x1ff00U);
}

TEST(RegisterBank, WriteOneToClearWinsOverTheWriteMask) {
    RegisterBank bank("test", 0x100);
    bank.add({.offset = 0, .name = "CAUSE", .w1c = 0x1});
    bank.write(0, 0x1);
    EXPECT_EQ(bank.read(0), 0U) << "a write must not raise a cause";
}

TEST(RegisterBank, ReadClears) {
    RegisterBank bank("test", 0x100);
    bank.add({.offset = 0, .name = "STAT", .rc = 0xff});
    bank.poke(0, 0x1234);
    EXPECT_EQ(bank.read(0), 0x1234U);
    EXPECT_EQ(bank.read(0), 0x1200U);
}

TEST(RegisterBank, SelfClearingBitsReachTheHookOnly) {
    RegisterBank bank("test", 0x100);
    std::uint32_t seen = 0, before = 1;
    bank.add({.offset = 0,
              .name = "OP",
              .self_clear = 0x80000000,
              .on_write = [&](std::uint32_t written, std::uint32_t old) { seen = written, before = old; }});
    bank.write(0, 0x80000007);
    EXPECT_EQ(seen, 0x80000007U);
    EXPECT_EQ(before, 0U);
    EXPECT_EQ(bank.read(0), 7U);
}

TEST(RegisterBank, ReadHookComputesAndWriteHookMayPokeOthers) {
    RegisterBank bank("test", 0x100);
    bank.add({{.offset = 0,
               .name = "ADDR",
               .on_write = [&](std::uint32_t written, std::uint32_t) { bank.poke(4, written * 2); }},
              {.offset = 4, .name = "DATA", .on_read = [](std::uint32_t stored) { return stored + 1; }}});
    bank.write(0, 21);
    EXPECT_EQ(bank.read(4), 43U);
    EXPECT_EQ(bank.peek(4), 42U);
}

TEST(RegisterBank, UnmodelledReadsResetAndIgnoresWrites) {
    RegisterBank bank("test", 0x100);
    bank.add(unmodelled(8, "MYSTERY", 0x77));
    bank.write(8, 1);
    EXPECT_EQ(bank.read(8), 0x77U);
    EXPECT_STREQ(bank.name(8), "MYSTERY");
}

TEST(RegisterBank, NoRowReadsZeroAndNeverThrows) {
    RegisterBank bank("test", 0x100);
    bank.write(0x20, 5);
    EXPECT_EQ(bank.read(0x20), 0U);
    EXPECT_EQ(bank.read(0x21), 0U);
    EXPECT_EQ(bank.read(0xfffffffc), 0U);
    bank.write(0xfffffffc, 5);
    EXPECT_EQ(bank.read_bytes(~std::uint64_t{0} - 1, 8), 0U);
    bank.write_bytes(~std::uint64_t{0} - 1, 8, 1);
    EXPECT_EQ(bank.name(0x20), nullptr);
}

TEST(RegisterBank, MistakesInTheTableAreRefused) {
    RegisterBank bank("test", 0x100);
    bank.add({.offset = 4, .name = "A"});
    EXPECT_THROW(bank.add({.offset = 4, .name = "B"}), std::logic_error) << "overlap";
    EXPECT_THROW(bank.add({.offset = 6, .name = "B"}), std::logic_error) << "alignment";
    EXPECT_THROW(bank.add({.offset = 0x100, .name = "B"}), std::logic_error) << "outside";
    EXPECT_THROW(bank.add({.offset = 8, .name = ""}), std::logic_error) << "no name";
    EXPECT_THROW((void)bank.peek(8), std::logic_error) << "a mistake of the model";
    EXPECT_EQ(bank.name(8), nullptr);
}

TEST(RegisterBank, OverlapMessageNamesBoth) {
    RegisterBank bank("BAR0", 0x100);
    bank.add({.offset = 4, .name = "FIRST"});
    try {
        bank.add({.offset = 0, .name = "SECOND"}, 4, "P1_");
        FAIL() << "accepted";
    } catch (const std::logic_error& e) {
        EXPECT_STREQ(e.what(), "register bank BAR0: P1_SECOND overlaps FIRST at 0x4");
    }
}

TEST(RegisterBank, BlockTwiceWithBaseAndPrefix) {
    RegisterBank bank("test", 0x400);
    const Register block[] = {{.offset = 0x10, .name = "CTRL", .reset = 3}, {.offset = 0x14, .name = "STAT"}};
    bank.add(block, 0, "XGM0_");
    bank.add(block, 0x200, "XGM1_");
    bank.write(0x210, 9);
    EXPECT_EQ(bank.read(0x10), 3U);
    EXPECT_EQ(bank.read(0x210), 9U);
    EXPECT_STREQ(bank.name(0x214), "XGM1_STAT");
}

TEST(RegisterBank, NumberedWindow) {
    RegisterBank window("TP_PIO", 0x200, 1);
    window.add({{.offset = 0x59, .name = "ONE", .reset = 1}, {.offset = 0x5a, .name = "TWO", .reset = 2}});
    EXPECT_EQ(window.read(0x59), 1U);
    EXPECT_EQ(window.read(0x5a), 2U);
}

TEST(RegisterBank, NarrowAndWideAccesses) {
    RegisterBank bank("test", 0x100);
    int writes = 0;
    bank.add(
        {{.offset = 0, .name = "LOW", .reset = 0x44332211},
         {.offset = 4, .name = "HIGH", .reset = 0x88776655, .on_write = [&](std::uint32_t, std::uint32_t) {
              writes++;
          }}});
    EXPECT_EQ(bank.read_bytes(1, 1), 0x22U);
    EXPECT_EQ(bank.read_bytes(2, 2), 0x4433U);
    EXPECT_EQ(bank.read_bytes(0, 8), 0x8877665544332211U);
    EXPECT_EQ(bank.read_bytes(3, 4), 0x77665544U) << "unaligned, as a rev 3 driver does";
    bank.write_bytes(1, 1, 0xaa);
    EXPECT_EQ(bank.read(0), 0x4433aa11U);
    bank.write_bytes(0, 8, 0x0102030405060708);
    EXPECT_EQ(bank.read(0), 0x05060708U);
    EXPECT_EQ(bank.read(4), 0x01020304U);
    EXPECT_EQ(writes, 1);
}

TEST(RegisterBank, NarrowWriteDoesNotClearOtherCauses) {
    RegisterBank bank("test", 0x100);
    bank.add({.offset = 0, .name = "CAUSE", .w1c = 0xffffffff});
    bank.poke(0, 0xffffffff);
    bank.write_bytes(2, 1, 0x0f);
    EXPECT_EQ(bank.read(0), 0xfff0ffffU);
}

} // namespace
} // namespace t3sim
