// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Numbers as text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace t3sim {

/// All of @p text as a number, without spaces; an integer is hexadecimal if it begins with "0x". Nothing: it
/// is no number of this type.
template <typename Number> [[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
    Number value = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = [&] {
        if constexpr (std::is_integral_v<Number>) {
            const bool hexadecimal = text.starts_with("0x");
            return std::from_chars(text.data() + (hexadecimal ? 2 : 0), end, value, hexadecimal ? 16 : 10);
        } else {
            return std::from_chars(text.data(), end, value);
        }
    }();
    return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(value) : std::nullopt;
}

} // namespace t3sim
