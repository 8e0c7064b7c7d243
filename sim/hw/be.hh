// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Big-endian fields of layouts in host memory, in card memory or in a message. They are byte arrays, so a
// struct of them has no padding and no alignment.
#pragma once

#include <cstring>
#include <optional>
#include <type_traits>

#include "sim/core/bytes.hh"

namespace t3sim::hw {

struct Be16 {
    std::uint8_t raw[2];
    operator std::uint16_t() const { return be16(raw); }
    Be16& operator=(std::uint16_t v) {
        put_be16(raw, v);
        return *this;
    }
};

struct Be32 {
    std::uint8_t raw[4];
    operator std::uint32_t() const { return be32(raw); }
    Be32& operator=(std::uint32_t v) {
        put_be32(raw, v);
        return *this;
    }
};

struct Be64 {
    std::uint8_t raw[8];
    operator std::uint64_t() const { return be64(raw); }
    Be64& operator=(std::uint64_t v) {
        put_be64(raw, v);
        return *this;
    }
};

/// Reads a layout from bytes. If @p from is shorter than the layout, the missing bytes read as 0.
template <typename Layout> Layout load(Bytes from) {
    static_assert(std::is_trivially_copyable_v<Layout> && alignof(Layout) == 1);
    Layout layout;
    if (from.size() >= sizeof layout) [[likely]] {
        std::memcpy(&layout, from.data(), sizeof layout);
        return layout;
    }
    layout = {};
    if (!from.empty()) // data() of an empty span may be null
        std::memcpy(&layout, from.data(), from.size());
    return layout;
}

/// Reads a layout from bytes; nothing if @p from is shorter than the layout.
template <typename Layout> std::optional<Layout> parse(Bytes from) {
    if (from.size() < sizeof(Layout))
        return std::nullopt;
    return load<Layout>(from);
}

/// The bytes of a layout.
template <typename Layout> Bytes bytes_of(const Layout& layout) {
    static_assert(std::is_trivially_copyable_v<Layout> && alignof(Layout) == 1);
    return {reinterpret_cast<const std::uint8_t*>(&layout), sizeof layout};
}

} // namespace t3sim::hw
