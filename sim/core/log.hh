// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// One logger per part of the model ("card", "mmio", "vfio", "wire", ...). All write to stderr in one format,
// from any thread.
// Levels below "info" are off by default; a disabled line costs one load and one branch. Usage:
//
//     static spdlog::logger& log = t3sim::logger("sge");
//     SPDLOG_LOGGER_TRACE(&log, ...)   or   log.debug("{} of {}", a, b);
#pragma once

#include <string>
#include <string_view>

#include <spdlog/spdlog.h>

namespace t3sim {

/// The logger of a part, created on first use. The reference stays valid until the program ends.
spdlog::logger& logger(const std::string& part);

/// Sets levels from text such as "debug" or "info,mmio=trace,wire=debug". On false, *@p wrong is the word
/// that is neither a level nor PART=LEVEL. A part may be named before its logger exists.
bool set_log_levels(std::string_view text, std::string* wrong);

} // namespace t3sim
