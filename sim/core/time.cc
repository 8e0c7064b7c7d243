// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/time.hh"

#include <charconv>
#include <chrono>
#include <cmath>

namespace t3sim {
namespace {

constexpr double hour = 3600e9, longest = 9e18;

std::optional<Time> rounded(std::optional<double> value) {
    return value ? std::optional(static_cast<Time>(std::llround(*value))) : std::nullopt;
}

} // namespace

std::uint64_t wall_clock() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

std::optional<double> parse_quantity(std::string_view text, std::span<const Unit> units, double max) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [next, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || !std::isfinite(value) || value < 0)
        return std::nullopt;
    const std::string_view unit(next, static_cast<std::size_t>(end - next));
    for (const auto& known : units)
        if (unit == known.name && value * known.factor <= max)
            return value * known.factor;
    return std::nullopt;
}

std::optional<Time> parse_time(std::string_view text) {
    return rounded(parse_quantity(text, time_units, hour));
}

std::optional<Time> parse_seconds(std::string_view text) {
    constexpr Unit plain[] = {{"", 1e9}};
    const auto seconds = parse_quantity(text, plain, longest);
    return rounded(seconds ? seconds : parse_quantity(text, time_units, longest));
}

} // namespace t3sim
