// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The sum behind the checksums of IPv4, TCP and UDP (RFC 1071).
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "sim/core/bytes.hh"

namespace t3sim {

/// Adds eight bytes.
inline std::uint64_t ones_complement_add_word(std::uint64_t a, std::uint64_t b) {
    a += b;
    return a + (a < b ? 1 : 0);
}

namespace detail {

constexpr std::size_t sum_block = 64;

#ifdef __x86_64__
/// The sum of whole blocks: 32-bit words in sums of 64 bits, which cannot overflow.
[[gnu::target("avx2")]] inline std::uint64_t sum_blocks(const std::uint8_t* p, std::size_t blocks) {
    const __m256i low = _mm256_set1_epi64x(0xffffffff);
    __m256i even = _mm256_setzero_si256(), odd = even;
    for (; blocks != 0; --blocks, p += sum_block)
        for (std::size_t at = 0; at < sum_block; at += sizeof(__m256i)) {
            const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + at));
            even = _mm256_add_epi64(even, _mm256_and_si256(words, low));
            odd = _mm256_add_epi64(odd, _mm256_srli_epi64(words, 32));
        }
    std::uint64_t sums[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), _mm256_add_epi64(even, odd));
    return sums[0] + sums[1] + sums[2] + sums[3];
}
inline const bool sums_blocks = __builtin_cpu_supports("avx2");
#else
inline std::uint64_t sum_blocks(const std::uint8_t*, std::size_t) {
    return 0;
}
constexpr bool sums_blocks = false;
#endif

} // namespace detail

/// The same as ones_complement_add(), for a few bytes: a header.
inline std::uint64_t ones_complement_add_few(std::uint64_t sum, Bytes bytes) {
    const std::uint8_t* p = bytes.data();
    std::size_t left = bytes.size();
    std::uint64_t word;
    for (; left >= sizeof word; left -= sizeof word, p += sizeof word) {
        std::memcpy(&word, p, sizeof word);
        sum = ones_complement_add_word(sum, word);
    }
    if (left >= 4) {
        std::uint32_t half;
        std::memcpy(&half, p, sizeof half);
        sum = ones_complement_add_word(sum, half);
        left -= 4;
        p += 4;
    }
    if (left != 0) {
        const std::uint8_t tail[4] = {p[0], left > 1 ? p[1] : std::uint8_t{0},
                                      left > 2 ? p[2] : std::uint8_t{0}, 0};
        std::uint32_t half;
        std::memcpy(&half, tail, sizeof half);
        sum = ones_complement_add_word(sum, half);
    }
    return sum;
}

/// One's-complement sum of 16-bit words in memory order; adding swapped words gives the swapped sum. Adds
/// eight bytes at a time with end-around carry: 2^64 is 1 modulo 2^16 - 1, as 2^16 and 2^32 are. 0 only if
/// all words are 0.
inline std::uint64_t ones_complement_add(std::uint64_t sum, Bytes bytes) {
    if (bytes.size() >= 2 * detail::sum_block && detail::sums_blocks) {
        const std::size_t blocks = bytes.size() / detail::sum_block;
        sum = ones_complement_add_word(sum, detail::sum_blocks(bytes.data(), blocks));
        bytes = bytes.subspan(blocks * detail::sum_block);
    }
    return ones_complement_add_few(sum, bytes);
}

/// 16 bits of such a sum.
inline std::uint16_t ones_complement_fold(std::uint64_t sum) {
    sum = (sum & 0xffffffff) + (sum >> 32); // 33 bits
    sum = (sum & 0xffff) + (sum >> 16);     // 18
    sum = (sum & 0xffff) + (sum >> 16);     // 17
    return static_cast<std::uint16_t>((sum & 0xffff) + (sum >> 16));
}

} // namespace t3sim
