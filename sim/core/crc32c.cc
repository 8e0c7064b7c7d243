// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/crc32c.hh"

#include <algorithm>
#include <array>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace t3sim {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78; // reflected

/// tables[k][b]: the effect of byte b followed by k zero bytes, to process eight bytes in one step.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
    Tables t{};
    for (std::uint32_t b = 0; b < 256; ++b) {
        std::uint32_t crc = b;
        for (int bit = 0; bit < 8; ++bit)
            crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
        t[0][b] = crc;
    }
    for (std::size_t k = 1; k < t.size(); ++k)
        for (std::size_t b = 0; b < 256; ++b)
            t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 0xff];
    return t;
}

constexpr Tables tables = make_tables();

#ifdef __x86_64__
/// The CRC instruction has a latency of three cycles, so three ranges side by side take the time of one. Then
/// "append" moves the CRC of one range past the next range, which is as long: a multiplication by
/// x^(8*length).
constexpr std::size_t max_words = 512; ///< of 8 bytes, in a range
constexpr std::size_t min_words = 4;

/// by_words[n]: x^(64n-33) modulo the polynomial, reflected as a CRC is. The other x^33 are of the
/// instructions: x of the carry-less multiplication of reflected numbers, x^32 of the CRC.
constexpr auto make_powers() {
    std::array<std::uint32_t, max_words + 1> by_words{};
    std::uint32_t power = 1; // x^31
    for (std::size_t n = 1; n < by_words.size(); ++n) {
        by_words[n] = power;
        for (int bit = 0; bit < 64; ++bit)
            power = power & 1 ? power >> 1 ^ polynomial : power >> 1;
    }
    return by_words;
}
constexpr auto powers = make_powers();

std::uint64_t load64(const std::uint8_t* p) {
    std::uint64_t eight;
    std::memcpy(&eight, p, sizeof eight);
    return eight;
}

[[gnu::target("sse4.2,pclmul")]] std::uint64_t append(std::uint64_t crc, std::size_t words) {
    const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(crc)),
                                                 _mm_cvtsi32_si128(static_cast<int>(powers[words])), 0);
    return _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)));
}

[[gnu::target("sse4.2,pclmul")]] std::uint32_t crc32c_by_instruction(Bytes data) {
    std::uint64_t crc = 0xffffffff;
    const std::uint8_t* p = data.data();
    std::size_t left = data.size();
    while (left >= 3 * min_words * 8) {
        const std::size_t words = std::min(left / 24, max_words), range = words * 8;
        std::uint64_t second = 0, third = 0;
        for (const std::uint8_t* const end = p + range; p != end; p += 8) {
            crc = _mm_crc32_u64(crc, load64(p));
            second = _mm_crc32_u64(second, load64(p + range));
            third = _mm_crc32_u64(third, load64(p + 2 * range));
        }
        crc = append(append(crc, words) ^ second, words) ^ third;
        p += 2 * range;
        left -= 3 * range;
    }
    for (; left >= 8; left -= 8, p += 8)
        crc = _mm_crc32_u64(crc, load64(p));
    auto last = static_cast<std::uint32_t>(crc);
    for (; left; --left, ++p)
        last = _mm_crc32_u8(last, *p);
    return ~last;
}
#endif

} // namespace

std::uint32_t crc32c(Bytes data) {
#ifdef __x86_64__
    static const bool instructions = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
    if (instructions)
        return crc32c_by_instruction(data);
#endif
    return crc32c_by_table(data);
}

std::uint32_t crc32c_by_table(Bytes data) {
    std::uint32_t crc = 0xffffffff;
    const std::uint8_t* p = data.data();
    std::size_t left = data.size();
    for (; left >= 8; left -= 8, p += 8) {
        const std::uint32_t low =
            crc ^ (p[0] | p[1] << 8 | p[2] << 16 | static_cast<std::uint32_t>(p[3]) << 24);
        crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^ tables[5][low >> 16 & 0xff] ^
              tables[4][low >> 24] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
    }
    for (; left; --left, ++p)
        crc = crc >> 8 ^ tables[0][(crc ^ *p) & 0xff];
    return ~crc;
}

} // namespace t3sim
