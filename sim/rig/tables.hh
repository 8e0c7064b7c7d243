// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The tables of the control socket: connections, QPs, CQs, regions and rings of the cards. A table may have
// tens of thousands of rows, and the cards must not wait for it; so a request returns a part of it, and where
// the next part begins.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/card/card.hh"

namespace t3sim {

/// Keeps the order of the columns.
using Json = nlohmann::ordered_json;

struct NamedCard {
    std::string name;
    const Card* card;
};

struct TablePart {
    Json rows = Json::array();
    /// The rest begins at this number of this card; empty: there is none.
    std::string card;
    std::uint32_t number = 0;
};

/// The names of the tables.
[[nodiscard]] std::vector<std::string> tables();
/// Limits of one part: rows, and numbers that were looked at.
constexpr unsigned rows_per_part = 256, numbers_per_part = 8192;
/// A part of a table, from number @p from of card @p card on; empty: from the start.
[[nodiscard]] TablePart table_part(const std::string& table, std::span<const NamedCard> cards,
                                   const std::string& card = {}, std::uint32_t from = 0);

/// The rows as text in columns; a sentence if there are none.
[[nodiscard]] std::string table_text(const std::string& table, const Json& rows);

} // namespace t3sim
