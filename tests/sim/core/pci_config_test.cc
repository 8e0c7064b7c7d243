// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/pci_config.hh"

#include <map>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace t3sim {
namespace {

constexpr PciIds ids{.vendor = 0x1425,
                     .device = 0x0036,
                     .subsystem_vendor = 0x1425,
                     .subsystem_device = 1,
                     .class_code = 0x020000};

std::uint32_t get(const PciConfig& config, std::uint32_t offset, unsigned size) {
    std::uint32_t value = 0;
    config.read(offset, MutableBytes(reinterpret_cast<std::uint8_t*>(&value), size));
    return value;
}

void set(PciConfig& config, std::uint32_t offset, unsigned size, std::uint32_t value) {
    config.write(offset, Bytes(reinterpret_cast<const std::uint8_t*>(&value), size));
}

/// Offsets by capability id, as an operating system finds them.
std::map<unsigned, unsigned> capabilities(const PciConfig& config) {
    std::map<unsigned, unsigned> found;
    for (unsigned at = get(config, 0x34, 1); at != 0 && found.size() < 20; at = get(config, at + 1, 1))
        found[get(config, at, 1)] = at;
    return found;
}

TEST(PciConfig, HeaderIsReadOnlyWhereItMustBe) {
    PciConfig config(ids, 1);
    for (std::uint32_t offset : {0x00U, 0x08U, 0x2cU, 0x34U})
        set(config, offset, 4, 0xffffffff);
    EXPECT_EQ(get(config, 0x00, 4), 0x00361425U);
    EXPECT_EQ(get(config, 0x08, 4), 0x02000000U);
    EXPECT_EQ(get(config, 0x2c, 4), 0x00011425U);
    EXPECT_EQ(get(config, 0x3d, 1), 1U);
    EXPECT_EQ(get(config, 0x06, 2), 0U) << "no capabilities, no capability bit";
}

TEST(PciConfig, CommandBits) {
    PciConfig config(ids, 1);
    EXPECT_FALSE(config.memory_enabled() || config.bus_master() || config.intx_disabled());
    set(config, 0x04, 2, 0xffff);
    EXPECT_EQ(get(config, 0x04, 2), 0x0546U);
    EXPECT_TRUE(config.memory_enabled() && config.bus_master() && config.intx_disabled());
    config.reset();
    EXPECT_FALSE(config.memory_enabled() || config.bus_master() || config.intx_disabled());
}

TEST(PciConfig, BarSizingAsAnOperatingSystemDoesIt) {
    PciConfig config(ids, 1);
    config.add_bar(0, 4096);
    config.add_bar(2, 8 << 20);
    set(config, 0x10, 4, 0xffffffff);
    set(config, 0x14, 4, 0xffffffff);
    EXPECT_EQ(get(config, 0x10, 4), 0xfffff004U);
    EXPECT_EQ(get(config, 0x14, 4), 0xffffffffU);
    set(config, 0x18, 4, 0xffffffff);
    EXPECT_EQ(get(config, 0x18, 4), 0xff800004U);
    set(config, 0x20, 4, 0xffffffff);
    EXPECT_EQ(get(config, 0x20, 4), 0U) << "no BAR 4";
    EXPECT_EQ(config.bar_size(2), 8U << 20);
    EXPECT_EQ(config.bar_size(4), 0U);
    EXPECT_EQ(config.bar_size(7), 0U);
}

TEST(PciConfig, CapabilityChain) {
    PciConfig config(ids, 1);
    config.add_pm(0x40);
    config.add_msi(0x48, 1);
    config.add_pcie(0x58, {});
    config.add_vpd(0x94, {}, {});
    config.add_msix(0x9c, 9, 4, 0, 0x2000);
    EXPECT_THAT(capabilities(config),
                testing::ElementsAre(testing::Pair(0x01, 0x40), testing::Pair(0x03, 0x94),
                                     testing::Pair(0x05, 0x48), testing::Pair(0x10, 0x58),
                                     testing::Pair(0x11, 0x9c)));
    EXPECT_EQ(get(config, 0x06, 2), 0x0010U);
    EXPECT_EQ(get(config, 0x58 + 18, 2) >> 4 & 0x3f, 8U) << "link width";
    EXPECT_EQ(get(config, 0x9c + 2, 2), 8U) << "nine vectors";
    EXPECT_EQ(get(config, 0x9c + 4, 4), 4U);
    EXPECT_EQ(get(config, 0x9c + 8, 4), 0x2004U);
}

TEST(PciConfig, ANarrowSlotLeavesTheDevicesWidth) {
    PciConfig config(ids, 1);
    config.add_pcie(0x58, {.slot_width = 4});
    EXPECT_EQ(get(config, 0x58 + 12, 4) >> 4 & 0x3f, 8U) << "of the device";
    EXPECT_EQ(get(config, 0x58 + 18, 2) >> 4 & 0x3f, 4U) << "of the link";
}

TEST(PciConfig, InterruptEnables) {
    PciConfig config(ids, 1);
    config.add_msi(0x48, 1);
    config.add_msix(0x9c, 9, 4, 0, 0x2000);
    EXPECT_FALSE(config.msi_enabled() || config.msix_enabled());
    set(config, 0x4a, 2, 0xffff);
    EXPECT_TRUE(config.msi_enabled());
    EXPECT_EQ(get(config, 0x4a, 2), 0x00f1U) << "capability bits kept";
    set(config, 0x9e, 2, 0xffff);
    EXPECT_TRUE(config.msix_enabled());
    EXPECT_EQ(get(config, 0x9e, 2), 0xc008U) << "table size kept";
}

TEST(PciConfig, VpdReadAndWrite) {
    std::map<std::uint32_t, std::uint32_t> memory{{0xc00, 0x4d001082}};
    PciConfig config(ids, 1);
    config.add_vpd(
        0x94, [&](std::uint32_t a) { return memory[a]; },
        [&](std::uint32_t a, std::uint32_t w) { memory[a] = w; });

    set(config, 0x96, 2, 0x0c00);
    EXPECT_EQ(get(config, 0x96, 2), 0x8c00U) << "the flag reports valid data";
    EXPECT_EQ(get(config, 0x98, 4), 0x4d001082U);

    set(config, 0x98, 4, 0x0c);
    set(config, 0x96, 2, 0x8000 | 0x4000);
    EXPECT_EQ(get(config, 0x96, 2), 0x4000U) << "the flag reports stored data";
    EXPECT_EQ(memory[0x4000], 0x0cU);
}

TEST(PciConfig, FunctionLevelResetOnlyWhereAdvertised) {
    for (const bool has : {false, true}) {
        PciConfig config(ids, 1);
        config.add_pcie(0x58, {.function_level_reset = has});
        int resets = 0;
        config.on_function_level_reset([&] {
            config.reset();
            resets++;
        });
        set(config, 0x04, 2, 0x0006);
        set(config, 0x60, 2, 0x2810);
        EXPECT_EQ(resets, 0);
        set(config, 0x60, 2, 0xa810);
        EXPECT_EQ(resets, has ? 1 : 0);
        EXPECT_EQ(config.bus_master(), !has);
        EXPECT_EQ(get(config, 0x60, 2), 0x2810U) << "the bit always reads 0";
    }
}

TEST(PciConfig, StatusErrorBitsAreClearedByWritingOnes) {
    PciConfig config(ids, 1);
    config.set_interrupt_status(true);
    EXPECT_EQ(get(config, 0x06, 2), 0x0008U);
    set(config, 0x06, 2, 0xffff);
    EXPECT_EQ(get(config, 0x06, 2), 0x0008U) << "interrupt status is not W1C";
    config.set_interrupt_status(false);
    EXPECT_EQ(get(config, 0x06, 2), 0U);
}

TEST(PciConfig, AccessesBeyondTheEnd) {
    PciConfig config(ids, 1);
    std::vector<std::uint8_t> all(8192, 0xaa);
    config.read(0, all);
    EXPECT_EQ(all[0], 0x25);
    EXPECT_EQ(all[4096], 0);
    EXPECT_EQ(all[8191], 0);
    config.write(4090, std::vector<std::uint8_t>(100, 0xff));
    config.write(0xfffffff0, std::vector<std::uint8_t>(100, 0xff));
    EXPECT_EQ(get(config, 0x00, 4), 0x00361425U);
}

TEST(PciConfig, MistakesInTheDescriptionAreRefused) {
    PciConfig config(ids, 1);
    config.add_bar(0, 4096);
    config.add_pm(0x40);
    EXPECT_THROW(config.add_bar(0, 4096), std::logic_error) << "twice";
    EXPECT_THROW(config.add_bar(1, 4096), std::logic_error) << "upper half";
    EXPECT_THROW(config.add_bar(2, 5000), std::logic_error) << "no power of two";
    EXPECT_THROW(config.add_msi(0x44, 1), std::logic_error) << "overlap";
    EXPECT_THROW(config.add_msi(0x3c, 1), std::logic_error) << "in the header";
    EXPECT_THROW(config.add_msi(0xf8, 1), std::logic_error) << "runs out";
    EXPECT_THROW(config.add_msi(0x80, 3), std::logic_error) << "vectors";
}

} // namespace
} // namespace t3sim
