// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/vpd.hh"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>

namespace t3sim {

namespace {

/// A VPD-R field: two-letter keyword, length, text padded with blanks.
void field(Buffer& out, std::string_view keyword, std::size_t length, std::string_view text) {
    out.insert(out.end(), keyword.begin(), keyword.end());
    out.push_back(static_cast<std::uint8_t>(length));
    for (std::size_t i = 0; i < length; ++i)
        out.push_back(i < text.size() ? static_cast<std::uint8_t>(text[i]) : ' ');
}

Buffer record_of(const std::array<std::uint8_t, 6>& mac, std::string_view serial) {
    constexpr std::string_view product = "Model S320E-CR  ";
    constexpr std::uint16_t vpd_r_length = 155;

    Buffer out;
    out.reserve(256);
    out.insert(out.end(), {0x82, product.size(), 0});
    out.insert(out.end(), product.begin(), product.end());
    out.insert(out.end(), {0x90, vpd_r_length & 0xff, vpd_r_length >> 8});

    char address[13];
    std::snprintf(address, sizeof address, "%02X%02X%02X%02X%02X%02X", mac[0], mac[1], mac[2], mac[3], mac[4],
                  mac[5]);
    field(out, "PN", 16, "MODEL-T3C");
    field(out, "EC", 16, "0001");
    field(out, "SN", 16, serial);
    field(out, "NA", 12, address);
    field(out, "V0", 6, std::to_string(core_clock_khz));
    field(out, "V1", 6, std::to_string(memory_clock_khz));
    field(out, "V2", 6, "200000"); // microprocessor clock, kHz
    field(out, "V3", 6, "2000");   // MDIO clock, kHz
    field(out, "V4", 2, "1");      // row of the memory timing table
    field(out, "V5", 6, "0");      // XAUI configuration of both ports
    field(out, "V6", 6, "0");
    field(out, "V7", 2, "4"); // PHY type of both ports: XAUI direct, link state in the MAC, no MDIO
    field(out, "V8", 2, "4");
    field(out, "V9", 2, "0"); // no ports 2 and 3
    field(out, "VA", 2, "0");

    out.insert(out.end(), {'R', 'V', 1});
    out.push_back(static_cast<std::uint8_t>(-std::accumulate(out.begin(), out.end(), 0)));
    out.push_back(0x78); // end tag
    return out;
}

} // namespace

Vpd::Vpd(const std::array<std::uint8_t, 6>& mac, std::string_view serial) : bytes_(size) {
    if (serial.size() > 16)
        throw std::invalid_argument("serial number longer than 16 characters: " + std::string(serial));
    if ((mac[0] & 1) != 0 || mac[3] >= 0x80)
        throw std::invalid_argument(
            "MAC address must be unicast, its fourth octet below 0x80 (bit 7 is set in a "
            "port's second address)");
    const Buffer vpd = record_of(mac, serial);
    // At 0xc00 for the driver; at 0 for a PCI core that parses the structure itself.
    for (std::size_t base : {record, std::size_t{0}})
        std::copy(vpd.begin(), vpd.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(base));
}

std::uint32_t Vpd::read(std::uint32_t addr) const {
    const std::uint8_t* p = &bytes_[addr % size & ~3U];
    return p[0] | p[1] << 8 | p[2] << 16 | static_cast<std::uint32_t>(p[3]) << 24;
}

void Vpd::write(std::uint32_t addr, std::uint32_t value) {
    for (unsigned i = 0; i < 4; ++i)
        bytes_[(addr % size & ~3U) + i] = static_cast<std::uint8_t>(value >> 8 * i);
}

} // namespace t3sim
