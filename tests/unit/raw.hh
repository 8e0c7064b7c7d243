// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

/// A 32-bit word that the card only copies, and that a host therefore stores in its own byte order: its bytes
/// in memory as eight hexadecimal digits, first byte leftmost. 5 is "05000000" on a little-endian host.
inline std::string raw(std::uint32_t value) {
    std::uint8_t bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    char text[2 * sizeof(value) + 1];
    std::snprintf(text, sizeof(text), "%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2], bytes[3]);
    return text;
}
