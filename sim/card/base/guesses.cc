// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/guesses.hh"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <vector>

namespace t3sim {

namespace {

constexpr Guesses::Row table[] = {
#define T3_GUESS(number, name, modelled, other) {number, modelled, other},
#include "sim/card/base/guesses.def"
#undef T3_GUESS
};

/// Of a bit for each number.
static_assert(std::ranges::all_of(table, [](const Guesses::Row& row) { return row.number < Guesses::most; }));

std::string joined(auto&& items) {
    std::string out;
    for (const auto& item : items)
        out += (out.empty() ? "" : ", ") + item;
    return out;
}

} // namespace

std::span<const Guesses::Row> Guesses::rows() {
    return table;
}

void Guesses::set(std::string_view text) {
    const auto equals = text.find('=');
    const std::string name(text.substr(0, equals));
    const std::string value(equals == text.npos ? "" : text.substr(equals + 1));
    unsigned number = 0;
    const char* const end = name.data() + name.size();
    const bool is_name =
        name.size() > 1 && name[0] == 'G' && std::from_chars(name.data() + 1, end, number).ptr == end;
    if (!is_name || equals == text.npos)
        throw std::invalid_argument("'" + std::string(text) + "': expected for example G12=other");
    if (std::ranges::none_of(table, [&](const Row& row) { return row.number == number; })) {
        std::vector<std::string> known;
        for (const Row& row : table)
            known.push_back("G" + std::to_string(row.number));
        throw std::invalid_argument("the model has no other answer for " + name + ", only for " +
                                    joined(known));
    }
    if (value != "other" && value != "modelled")
        throw std::invalid_argument("'" + std::string(text) + "': the answers are modelled and other");
    other_[number] = value == "other";
}

std::string Guesses::text() const {
    std::vector<std::string> all;
    for (const Row& row : table)
        if (other_[row.number])
            all.push_back("G" + std::to_string(row.number) + "=other");
    return joined(all);
}

} // namespace t3sim
