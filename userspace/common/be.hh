// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Byte order conversion.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

namespace common {

template <std::unsigned_integral T> constexpr T byteswap(T v) {
    if constexpr (sizeof(T) == 1)
        return v;
    else if constexpr (sizeof(T) == 2)
        return __builtin_bswap16(v);
    else if constexpr (sizeof(T) == 4)
        return __builtin_bswap32(v);
    else
        return __builtin_bswap64(v);
}

inline constexpr bool big_endian_host = std::endian::native == std::endian::big;

// One function serves both directions: swapping is its own inverse. The name distinguishes the sides.
template <std::unsigned_integral T> constexpr T to_be(T host) {
    return big_endian_host ? host : byteswap(host);
}
template <std::unsigned_integral T> constexpr T from_be(T wire) {
    return to_be(wire);
}
template <std::unsigned_integral T> constexpr T to_le(T host) {
    return big_endian_host ? byteswap(host) : host;
}

} // namespace common
