// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// The common part of the command lines of all tools.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace t3tools {

inline constexpr const char* version = "0.1";

/// Exit statuses with the same meaning in all tools.
namespace status {
inline constexpr int ok = 0;
inline constexpr int failed = 1;
inline constexpr int usage = 2;
} // namespace status

/// Adds --help and --version and parses. Returns the exit status if the program must end.
std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments, std::ostream& out,
                         std::ostream& err);

} // namespace t3tools
