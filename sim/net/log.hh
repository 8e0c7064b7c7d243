// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// The log of wires and their ends.
#pragma once

#include "sim/core/log.hh"

namespace t3sim {

inline spdlog::logger& wire_log = logger("wire");

} // namespace t3sim
