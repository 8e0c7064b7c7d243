// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Named event counters. Invalid input of a guest never stops the model; it increments a counter.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace t3sim {

using Counter = std::uint64_t;

/// A set of counters, printed in the order of their names. Name them "part.what", e.g. "sge.bus_errors".
class Counters {
public:
    Counters() = default;
    // operator[] returns references into the set.
    Counters(const Counters&) = delete;
    Counters& operator=(const Counters&) = delete;

    /// The counter of that name, created (as 0) on first use. The reference stays valid as long as the set,
    /// so hot paths look it up once.
    Counter& operator[](std::string_view name) {
        auto it = values_.find(name);
        if (it == values_.end())
            it = values_.emplace(std::string(name), 0).first;
        return it->second;
    }

    /// The value; 0 if the counter does not exist.
    [[nodiscard]] Counter value(std::string_view name) const {
        const auto it = values_.find(name);
        return it == values_.end() ? 0 : it->second;
    }

    template <typename F> void for_each(F&& f) const {
        for (const auto& [name, value] : values_)
            f(name, value);
    }

    /// "name value" lines, without counters that are 0.
    [[nodiscard]] std::string text() const {
        std::string out;
        for (const auto& [name, value] : values_)
            if (value)
                out += name + ' ' + std::to_string(value) + '\n';
        return out;
    }

private:
    std::map<std::string, Counter, std::less<>> values_;
};

} // namespace t3sim
