// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The serial EEPROM behind the PCI VPD capability: identity, MAC addresses, clocks and the type of each
// port's PHY.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/core/bytes.hh"

namespace t3sim {

/// Clocks in the VPD; the model's timers use the core clock.
constexpr std::uint32_t core_clock_khz = 175'000;
constexpr std::uint32_t memory_clock_khz = 200'000;

class Vpd {
public:
    static constexpr std::size_t size = 0x8000; ///< the range of 15 address bits
    static constexpr std::size_t record = 0xc00;

    Vpd(const std::array<std::uint8_t, 6>& mac, std::string_view serial);

    /// One 32-bit word; the byte at @p addr is in bits 7:0. @p addr is taken modulo the size and aligned
    /// down.
    [[nodiscard]] std::uint32_t read(std::uint32_t addr) const;
    void write(std::uint32_t addr, std::uint32_t value);

private:
    Buffer bytes_;
};

} // namespace t3sim
