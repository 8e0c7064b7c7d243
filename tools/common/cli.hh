// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// What the command lines of all tools have in common.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace t3tools {

inline constexpr const char* version = "0.1";

/// Exit statuses that mean the same everywhere.
namespace status {
inline constexpr int ok = 0;
inline constexpr int failed = 1;
inline constexpr int usage = 2;
} // namespace status

/// Sets --help and --version up and parses. Nothing: go on; else the status to end with.
std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments, std::ostream& out,
                         std::ostream& err);

} // namespace t3tools
