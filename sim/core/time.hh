// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Times and their units.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace t3sim {

/// Virtual time: nanoseconds since the EventQueue was created.
using Time = std::uint64_t;

/// Nanoseconds since 1970, for files that a person reads. Nothing in a card depends on it.
[[nodiscard]] std::uint64_t wall_clock();

/// A suffix of a number, and what it multiplies the number by.
struct Unit {
    std::string_view name;
    double factor;
};
constexpr Unit time_units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

/// A number from 0 to @p max with one of the units.
[[nodiscard]] std::optional<double> parse_quantity(std::string_view text, std::span<const Unit> units,
                                                   double max);

/// "50us", "1.5s"; at most an hour.
[[nodiscard]] std::optional<Time> parse_time(std::string_view text);
/// The same, also "1.5": seconds. No limit.
[[nodiscard]] std::optional<Time> parse_seconds(std::string_view text);

} // namespace t3sim
