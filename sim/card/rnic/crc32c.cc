// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/rnic/crc32c.hh"

#include <array>
#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
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
/// Processes every byte of every FPDU twice; seven times as fast as the table.
[[gnu::target("sse4.2")]] std::uint32_t crc32c_by_instruction(Bytes data) {
    std::uint64_t crc = 0xffffffff;
    const std::uint8_t* p = data.data();
    std::size_t left = data.size();
    for (; left >= 8; left -= 8, p += 8) {
        std::uint64_t eight;
        std::memcpy(&eight, p, sizeof eight);
        crc = _mm_crc32_u64(crc, eight);
    }
    auto last = static_cast<std::uint32_t>(crc);
    for (; left; --left, ++p)
        last = _mm_crc32_u8(last, *p);
    return ~last;
}
#endif

} // namespace

std::uint32_t crc32c(Bytes data) {
#ifdef __x86_64__
    static const bool instruction = __builtin_cpu_supports("sse4.2");
    if (instruction)
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
