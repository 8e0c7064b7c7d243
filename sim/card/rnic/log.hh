// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// The log of the RDMA engine.
#pragma once

#include "sim/core/log.hh"

namespace t3sim {

inline spdlog::logger& rnic_log = logger("rnic");

} // namespace t3sim
