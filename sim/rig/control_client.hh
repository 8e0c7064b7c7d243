// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// `t3sim ctl`: the client of the control socket.
#pragma once

#include <span>

namespace t3sim {

/// Names the socket for `t3sim ctl COMMAND`.
constexpr const char* control_variable = "T3SIM_CONTROL";

/// t3sim ctl [SOCKET] COMMAND [ARG...]; returns the exit status.
int control_client(std::span<const char* const> arguments);

} // namespace t3sim
