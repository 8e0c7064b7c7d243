// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/guesses.hh"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <vector>

namespace t3sim {

namespace {

constexpr Guesses::Row table[] = {
    {10, "a FIN inside an FPDU gives RDMA_EC_STATUS", "it gives none"},
    {12, "ABORT messages come twice", "once"},
    {21, "entries of the send side have length 0", "that of the message"},
    {45, "a completed send has the exact opcode", "always that of a plain send"},
    {49, "each FPDU is one TCP segment", "it is cut into two"},
    {1, "RDMA_INIT is acknowledged if receives were posted", "always"},
    {50, "the TCP options are MSS and window scale", "MSS only"},
};

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
        if (other(row.number))
            all.push_back("G" + std::to_string(row.number) + "=other");
    return joined(all);
}

} // namespace t3sim
