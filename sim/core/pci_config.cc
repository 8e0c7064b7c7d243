// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/pci_config.hh"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace t3sim {
namespace {

// Offsets in the type 0 header.
constexpr std::uint32_t command = 0x04;
constexpr std::uint32_t status = 0x06;
constexpr std::uint32_t bar0 = 0x10;

// Offsets in capabilities.
constexpr std::uint32_t pcie_devctl = 8;
constexpr std::uint8_t pcie_devctl_flr = 0x80; // in its upper byte
constexpr std::uint32_t vpd_address = 2;
constexpr std::uint32_t vpd_data = 4;
constexpr std::uint8_t vpd_flag = 0x80; // in the upper byte of the address

[[noreturn]] void bad(const std::string& what) {
    throw std::logic_error("PCI config space: " + what);
}

} // namespace

void PciConfig::put(std::uint32_t offset, unsigned bytes, std::uint64_t value, std::uint64_t write_mask,
                    std::uint64_t write_1_clears) {
    for (unsigned i = 0; i < bytes; i++) {
        value_[offset + i] = reset_[offset + i] = static_cast<std::uint8_t>(value >> 8 * i);
        mask_[offset + i] = static_cast<std::uint8_t>(write_mask >> 8 * i);
        w1c_[offset + i] = static_cast<std::uint8_t>(write_1_clears >> 8 * i);
    }
}

void PciConfig::claim(std::uint32_t offset, std::uint32_t bytes, const char* what) {
    for (std::uint32_t i = offset; i < offset + bytes; i++) {
        if (i >= 0x100 || claimed_[i])
            bad(std::string(what) + " overlaps something else or leaves the first 256 bytes");
        claimed_[i] = true;
    }
}

PciConfig::PciConfig(const PciIds& ids, unsigned pin) {
    claim(0, 0x40, "header");
    put(0x00, 2, ids.vendor);
    put(0x02, 2, ids.device);
    // Memory, bus master, parity error response, SERR, INTx disable. No I/O BARs, so no I/O enable.
    put(command, 2, 0, 0x0546);
    put(status, 2, 0, 0, 0xf900);
    put(0x08, 1, ids.revision);
    put(0x09, 3, ids.class_code);
    put(0x0c, 1, 0, 0xff); // cache line size
    put(0x2c, 2, ids.subsystem_vendor);
    put(0x2e, 2, ids.subsystem_device);
    put(0x3c, 1, 0, 0xff); // interrupt line, a scratch byte for the firmware
    put(0x3d, 1, pin);
}

void PciConfig::add_bar(unsigned bar, std::uint64_t bytes) {
    if (bar > 4 || bar % 2 != 0)
        bad("a 64-bit BAR is number 0, 2 or 4");
    if (!std::has_single_bit(bytes) || bytes < 16)
        bad("a BAR's size is a power of two, at least 16");
    if (bars_[bar] != 0)
        bad("BAR " + std::to_string(bar) + " added twice");
    bars_[bar] = bytes;
    put(bar0 + 4 * bar, 8, 0x4, ~(bytes - 1));
}

void PciConfig::add_capability(std::uint8_t at, std::uint8_t id, std::uint32_t bytes, const char* what) {
    if (at % 4 != 0)
        bad(std::string(what) + " capability is not aligned");
    claim(at, bytes, what);
    put(at, 2, id);
    value_[chain_end_] = reset_[chain_end_] = at;
    chain_end_ = at + 1U;
    value_[status] = reset_[status] = static_cast<std::uint8_t>(reset_[status] | 0x10);
}

void PciConfig::add_pm(std::uint8_t at) {
    add_capability(at, 0x01, 8, "power management");
    put(at + 2U, 2, 0x0003);
    put(at + 4U, 2, 0x0008, 0x0003); // no soft reset; power state
}

void PciConfig::add_msi(std::uint8_t at, unsigned vectors) {
    if (!std::has_single_bit(vectors) || vectors > 32)
        bad("MSI has 1, 2, 4, 8, 16 or 32 vectors");
    add_capability(at, 0x05, 14, "MSI");
    msi_ = at;
    const unsigned log2 = static_cast<unsigned>(std::countr_zero(vectors));
    put(at + 2U, 2, 0x0080 | log2 << 1, 0x0071); // 64-bit; enable and number of vectors enabled
    put(at + 4U, 8, 0, ~std::uint64_t{3});
    put(at + 12U, 2, 0, 0xffff);
}

void PciConfig::add_pcie(std::uint8_t at, const PcieCapability& pcie) {
    add_capability(at, 0x10, 60, "PCI Express");
    pcie_ = at;
    const std::uint32_t link = pcie.link_width << 4 | pcie.link_speed;
    put(at + 2U, 2, 0x0002); // version 2, endpoint
    put(at + 4U, 4, pcie.device_capabilities | (pcie.function_level_reset ? 1U << 28 : 0));
    put(at + pcie_devctl, 2, pcie.device_control, 0x7fff);
    put(at + 10U, 2, 0, 0, 0x000f); // device status: errors seen
    put(at + 12U, 4, link);
    put(at + 16U, 2, 0, 0x01fb); // link control
    put(at + 18U, 2, std::min(pcie.slot_width, pcie.link_width) << 4 | pcie.link_speed);
    put(at + 40U, 2, 0, 0x001f); // device control 2: completion timeout
}

void PciConfig::add_vpd(std::uint8_t at, std::function<std::uint32_t(std::uint32_t)> read,
                        std::function<void(std::uint32_t, std::uint32_t)> write) {
    add_capability(at, 0x03, 8, "VPD");
    vpd_ = at;
    put(at + vpd_address, 2, 0, 0xffff);
    put(at + vpd_data, 4, 0, 0xffffffff);
    vpd_read_ = std::move(read);
    vpd_write_ = std::move(write);
}

void PciConfig::add_msix(std::uint8_t at, unsigned vectors, unsigned bar, std::uint32_t table,
                         std::uint32_t pba) {
    if (vectors == 0 || vectors > 2048)
        bad("MSI-X has 1 to 2048 vectors");
    if (table % 8 != 0 || pba % 8 != 0 || bar > 5)
        bad("MSI-X table and PBA must be at multiples of 8 in BAR 0 to 5");
    add_capability(at, 0x11, 12, "MSI-X");
    msix_ = at;
    put(at + 2U, 2, vectors - 1, 0xc000); // enable, function mask
    put(at + 4U, 4, table | bar);
    put(at + 8U, 4, pba | bar);
}

void PciConfig::read(std::uint32_t offset, MutableBytes to) const {
    for (std::size_t i = 0; i < to.size(); i++)
        to[i] = offset + i < size ? value_[offset + i] : 0;
}

void PciConfig::write(std::uint32_t offset, Bytes from) {
    const std::uint64_t end = std::uint64_t{offset} + from.size();
    for (std::size_t i = 0; i < from.size() && offset + i < size; i++) {
        const std::size_t at = offset + i;
        value_[at] = static_cast<std::uint8_t>(((value_[at] & ~mask_[at]) | (from[i] & mask_[at])) &
                                               ~(from[i] & w1c_[at]));
    }
    const auto covers = [&](std::uint32_t byte) { return offset <= byte && byte < end; };
    if (vpd_ != 0 && covers(vpd_ + vpd_address + 1))
        vpd_access();
    // The bit is write-only, so test the written value.
    if (const std::uint32_t at = pcie_ + pcie_devctl + 1; pcie_ != 0 && covers(at) && flr_ &&
                                                          (reset_[pcie_ + 7U] & 0x10) != 0 &&
                                                          (from[at - offset] & pcie_devctl_flr) != 0)
        flr_();
}

/// The guest has written the address. Bit 15 clear requests a read and becomes set when the data is valid;
/// bit 15 set requests a write and becomes clear when the data is stored. Both complete at once here.
void PciConfig::vpd_access() {
    std::uint8_t* const flag = &value_[vpd_ + vpd_address + 1];
    std::uint8_t* const data = &value_[vpd_ + vpd_data];
    const std::uint32_t address = (static_cast<std::uint32_t>(*flag & ~vpd_flag) << 8 | flag[-1]) & ~3U;
    std::uint32_t word;
    if ((*flag & vpd_flag) != 0) {
        std::memcpy(&word, data, sizeof word);
        if (vpd_write_)
            vpd_write_(address, word);
    } else {
        word = vpd_read_ ? vpd_read_(address) : 0;
        std::memcpy(data, &word, sizeof word);
    }
    *flag ^= vpd_flag;
}

void PciConfig::set_interrupt_status(bool asserted) {
    value_[status] = static_cast<std::uint8_t>((value_[status] & ~0x08) | (asserted ? 0x08 : 0));
}

void PciConfig::reset() {
    value_ = reset_;
}

} // namespace t3sim
