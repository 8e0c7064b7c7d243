// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The sum behind the checksums of IPv4, TCP and UDP (RFC 1071).
#pragma once

#include <cstdint>
#include <cstring>

#include "sim/core/bytes.hh"

namespace t3sim {

/// One's-complement sum of 16-bit words in memory order; adding swapped words gives the swapped sum. Adds
/// eight bytes at a time with end-around carry: 2^64 is 1 modulo 2^16 - 1, as 2^16 is. 0 only if all words
/// are 0.
inline std::uint64_t ones_complement_add(std::uint64_t sum, Bytes bytes) {
    const auto carry_round = [](std::uint64_t a, std::uint64_t b) {
        a += b;
        return a + (a < b ? 1 : 0);
    };
    const std::uint8_t* p = bytes.data();
    std::size_t left = bytes.size();
    std::uint64_t even = sum, odd = 0; // two independent dependency chains
    for (std::uint64_t word[2]; left >= sizeof word; left -= sizeof word, p += sizeof word) {
        std::memcpy(word, p, sizeof word);
        even = carry_round(even, word[0]);
        odd = carry_round(odd, word[1]);
    }
    std::uint64_t tail[2] = {};
    if (left != 0)
        std::memcpy(tail, p, left);
    return carry_round(carry_round(even, odd), carry_round(tail[0], tail[1]));
}

/// 16 bits of such a sum.
inline std::uint16_t ones_complement_fold(std::uint64_t sum) {
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(sum);
}

} // namespace t3sim
