// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Byte ranges and explicit byte order. All data that the card exchanges with host memory or the wire is
// big-endian, except where docs/hw states "raw". Registers are little-endian 32-bit words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace t3sim {

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;
using Buffer = std::vector<std::uint8_t>;

inline std::uint16_t be16(const std::uint8_t* p) {
    return static_cast<std::uint16_t>(p[0] << 8 | p[1]);
}
inline std::uint32_t be32(const std::uint8_t* p) {
    std::uint32_t v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}
inline std::uint64_t be64(const std::uint8_t* p) {
    std::uint64_t v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}
inline void put_be16(std::uint8_t* p, std::uint16_t v) {
    p[0] = static_cast<std::uint8_t>(v >> 8);
    p[1] = static_cast<std::uint8_t>(v);
}
inline void put_be32(std::uint8_t* p, std::uint32_t v) {
    v = __builtin_bswap32(v);
    std::memcpy(p, &v, sizeof v);
}
inline void put_be64(std::uint8_t* p, std::uint64_t v) {
    v = __builtin_bswap64(v);
    std::memcpy(p, &v, sizeof v);
}

/// Bits [hi:lo] of a word, in the notation of docs/hw.
constexpr std::uint32_t bits(std::uint32_t word, unsigned hi, unsigned lo) {
    return word >> lo & (hi - lo == 31 ? 0xffffffffU : (1U << (hi - lo + 1)) - 1);
}

} // namespace t3sim
