// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// SipHash (Aumasson, Bernstein 2012) of 64-bit words: the keyed hash of initial sequence numbers
// (SipHash-2-4) and of the table of connections (SipHash-1-3, whose values no peer sees).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>

namespace t3sim::tcp {

using SipKey = std::array<std::uint64_t, 2>;

inline std::uint64_t siphash(const SipKey& key, std::initializer_list<std::uint64_t> words) {
    std::uint64_t a = key[0] ^ 0x736f6d6570736575U, b = key[1] ^ 0x646f72616e646f6dU,
                  c = key[0] ^ 0x6c7967656e657261U, d = key[1] ^ 0x7465646279746573U;
    const auto rounds = [&](int count) {
        for (; count != 0; --count) {
            a += b, c += d;
            b = std::rotl(b, 13) ^ a, d = std::rotl(d, 16) ^ c;
            a = std::rotl(a, 32);
            c += b, a += d;
            b = std::rotl(b, 17) ^ c, d = std::rotl(d, 21) ^ a;
            c = std::rotl(c, 32);
        }
    };
    const auto take = [&](std::uint64_t word) {
        d ^= word;
        rounds(2);
        a ^= word;
    };
    for (const std::uint64_t word : words)
        take(word);
    take(std::uint64_t{8 * words.size()} << 56); // the length in bytes, after the last full word
    c ^= 0xff;
    rounds(4);
    return a ^ b ^ c ^ d;
}

} // namespace t3sim::tcp
