// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "tools/t3info/model.hh"

namespace t3info {

/// The kinds that can be selected by name, in the order in which they are shown.
inline constexpr std::array kinds{"devices", "ports", "qp", "cm", "mr", "cq", "pd", "counters"};

nlohmann::ordered_json to_json(const std::vector<Device>& devices, const std::set<std::string>& wanted);
std::string to_text(const std::vector<Device>& devices, const std::set<std::string>& wanted);

/// The screen of --watch: changes in `seconds` since `before`, without unchanged counters.
std::string to_screen(const std::vector<Device>& before, const std::vector<Device>& now, double seconds);

} // namespace t3info
