// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tools/common/cli.hh"
#include "tools/common/machine.hh"

namespace ofedctrl {

/// Exit statuses beyond those of all tools; the manual page has the list.
namespace status {
using namespace t3tools::status;
inline constexpr int not_loaded = 3;
inline constexpr int in_use = 4;
inline constexpr int no_rights = 5;
inline constexpr int no_module = 6;
} // namespace status

/// The program, without main().
int run(const std::vector<std::string>& arguments, const t3tools::Machine& machine, std::ostream& out,
        std::ostream& err);

} // namespace ofedctrl
