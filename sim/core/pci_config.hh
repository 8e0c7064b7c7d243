// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The 4 KiB configuration space of a PCI Express endpoint: a type 0 header, memory BARs and the usual
// capabilities, with the write masks that the PCI specifications require. Independent of the card.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "sim/core/bytes.hh"

namespace t3sim {

struct PciIds {
    std::uint16_t vendor;
    std::uint16_t device;
    std::uint16_t subsystem_vendor = 0;
    std::uint16_t subsystem_device = 0;
    std::uint32_t class_code = 0; ///< 24 bits: base class, sub-class, programming interface
    std::uint8_t revision = 0;
};

struct PcieCapability {
    std::uint32_t device_capabilities = 0x8001; ///< role-based errors, payload up to 256 bytes
    std::uint16_t device_control = 0x2810;      ///< 512-byte reads, no snoop, relaxed ordering
    unsigned link_width = 8;                    ///< of the device
    unsigned slot_width = 8;                    ///< what the slot leaves of it
    unsigned link_speed = 1;                    ///< 1: 2.5 GT/s
    bool function_level_reset = false;
};

class PciConfig {
public:
    static constexpr std::uint32_t size = 4096;

    /// @p pin: the INTx pin, 1 = INTA; 0: none.
    PciConfig(const PciIds& ids, unsigned pin);
    // The hooks hold references to it.
    PciConfig(const PciConfig&) = delete;
    PciConfig& operator=(const PciConfig&) = delete;

    // Description. Capabilities are linked in the order in which they are added. Mistakes (overlap, bad size
    // or alignment) throw std::logic_error.

    /// A 64-bit non-prefetchable memory BAR at @p bar and @p bar + 1; @p bytes is a power of two >= 16.
    void add_bar(unsigned bar, std::uint64_t bytes);
    /// Power management, version 3. State is kept in D3hot ("no soft reset").
    void add_pm(std::uint8_t at);
    /// 64-bit MSI without masking; @p vectors is a power of two.
    void add_msi(std::uint8_t at, unsigned vectors);
    void add_pcie(std::uint8_t at, const PcieCapability& pcie);
    /// Vital product data: 32-bit words at byte addresses below 0x8000, lowest byte in bits 7:0.
    void add_vpd(std::uint8_t at, std::function<std::uint32_t(std::uint32_t address)> read,
                 std::function<void(std::uint32_t address, std::uint32_t word)> write);
    void add_msix(std::uint8_t at, unsigned vectors, unsigned bar, std::uint32_t table, std::uint32_t pba);
    /// Called on a function-level reset. The hook must call reset().
    void on_function_level_reset(std::function<void()> hook) { flr_ = std::move(hook); }

    // Bus accesses of any offset and length; bytes beyond the end read 0 and ignore writes.
    void read(std::uint32_t offset, MutableBytes to) const;
    void write(std::uint32_t offset, Bytes from);

    // What the host has configured.
    [[nodiscard]] bool memory_enabled() const { return (value_[0x04] & 0x02) != 0; }
    [[nodiscard]] bool bus_master() const { return (value_[0x04] & 0x04) != 0; }
    [[nodiscard]] bool intx_disabled() const { return (value_[0x05] & 0x04) != 0; }
    [[nodiscard]] bool msi_enabled() const { return msi_ != 0 && (value_[msi_ + 2U] & 0x01) != 0; }
    [[nodiscard]] bool msix_enabled() const { return msix_ != 0 && (value_[msix_ + 3U] & 0x80) != 0; }
    [[nodiscard]] std::uint64_t bar_size(unsigned bar) const { return bar < 6 ? bars_[bar] : 0; }

    /// The interrupt status bit: INTx asserted.
    void set_interrupt_status(bool asserted);

    /// Restores the values after power-on, except the VPD, whose memory belongs to the card.
    void reset();

private:
    void put(std::uint32_t offset, unsigned bytes, std::uint64_t value, std::uint64_t write_mask = 0,
             std::uint64_t write_1_clears = 0);
    void claim(std::uint32_t offset, std::uint32_t bytes, const char* what);
    void add_capability(std::uint8_t at, std::uint8_t id, std::uint32_t bytes, const char* what);
    void vpd_access();

    std::array<std::uint8_t, size> value_{};
    std::array<std::uint8_t, size> reset_{};
    std::array<std::uint8_t, size> mask_{};
    std::array<std::uint8_t, size> w1c_{};
    std::array<bool, size> claimed_{};
    std::array<std::uint64_t, 6> bars_{};
    std::uint32_t chain_end_ = 0x34; ///< where the next capability's offset goes
    std::uint8_t msi_ = 0, msix_ = 0, pcie_ = 0, vpd_ = 0;
    std::function<std::uint32_t(std::uint32_t)> vpd_read_;
    std::function<void(std::uint32_t, std::uint32_t)> vpd_write_;
    std::function<void()> flr_;
};

} // namespace t3sim
