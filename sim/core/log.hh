// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// One logger per part of the model ("card", "mmio", "vfio", "wire", ...), all to stderr in one format.
// Off by default below "info"; a disabled line costs one load and one branch. Use them as
//
//     static spdlog::logger& log = t3sim::logger("sge");
//     SPDLOG_LOGGER_TRACE(&log, ...)   or   log.debug("{} of {}", a, b);
#pragma once

#include <string>
#include <string_view>

#include <spdlog/spdlog.h>

namespace t3sim {

/// The logger of a part, made on first use. The reference stays valid for the life of the program.
spdlog::logger& logger(const std::string& part);

/// Sets levels from text such as "debug" or "info,mmio=trace,wire=debug"; false and *@p wrong names the
/// word that is neither a level nor PART=LEVEL. Parts may be named before their logger exists.
bool set_log_levels(std::string_view text, std::string* wrong);

} // namespace t3sim
