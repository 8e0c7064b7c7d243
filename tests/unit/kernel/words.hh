// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Memory as the card's documentation shows it: 32-bit words in hexadecimal, first byte leftmost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <string>

/// "0fff701d 00000000 ..." for n words of memory.
inline std::string words(const void* memory, std::size_t n) {
    std::ostringstream out;
    const auto* bytes = static_cast<const std::uint8_t*>(memory);
    for (std::size_t i = 0; i < 4 * n; i++) {
        if (i && i % 4 == 0)
            out << ' ';
        out << std::hex << std::setw(2) << std::setfill('0') << unsigned{bytes[i]};
    }
    return out.str();
}

/// A word that the card only copies, which a host stores in its own byte order: 5 is "05000000" on a
/// little-endian host.
inline std::string raw(std::uint32_t value) {
    return words(&value, 1);
}

/// The inverse of words().
template <typename T> T from_words(const std::string& text) {
    T object{};
    std::istringstream in(text);
    std::string word;
    auto* bytes = reinterpret_cast<std::uint8_t*>(&object);
    for (std::size_t at = 0; in >> word; at += 4)
        for (std::size_t i = 0; i < 4; i++)
            bytes[at + i] = static_cast<std::uint8_t>(std::stoul(word.substr(2 * i, 2), nullptr, 16));
    return object;
}
