// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/timing.hh"

#include <algorithm>
#include <stdexcept>

#include "sim/core/number.hh"

namespace t3sim {

void Timing::set(std::string_view text) {
    Values values = values_;
    const auto equals = text.find('=');
    const std::string_view key = text.substr(0, equals);
    const std::string_view value = equals == text.npos ? "" : text.substr(equals + 1);
    const auto* const row = std::ranges::find(rows, key, &Row::key);
    constexpr Time second = 1'000'000'000; // longer than any driver waits
    if (text == "instant") {
        values = {};
    } else if (text == "t3") {
        // An estimate: no public source has them. A fetch is two reads over PCI Express 1.0.
        values = {.fetch = 2'000, .write = 500, .command = 1'000, .jitter = 500, .seed = values.seed};
    } else if (row != std::end(rows)) {
        const auto time = parse_time(value);
        if (!time || *time > second)
            throw std::invalid_argument("'" + std::string(text) + "': expected for example " +
                                        std::string(key) + "=2us, and one second at most");
        values.*row->value = *time;
    } else if (key == "seed") {
        const auto seed = parse_number<std::uint64_t>(value);
        if (!seed)
            throw std::invalid_argument("'" + std::string(text) + "': expected for example seed=7");
        values.seed = *seed;
    } else {
        throw std::invalid_argument("'" + std::string(text) +
                                    "' is no time of a card; expected one of: t3, instant, fetch=2us, "
                                    "write=500ns, command=1us, jitter=100us, seed=7");
    }
    values_ = values;
    random_ = Random(values.seed);
    any_ = std::ranges::any_of(rows, [&](const Row& one) { return values.*one.value != 0; });
}

std::string Timing::text() const {
    if (!any_)
        return "instant";
    std::string all;
    for (const Row& row : rows)
        all += std::string(row.key) + "=" + std::to_string(values_.*row.value) + "ns ";
    return all + "seed=" + std::to_string(values_.seed);
}

} // namespace t3sim
