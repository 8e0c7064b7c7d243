// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tools/common/machine.hh"
#include "tools/t3doctor/checks.hh"

namespace t3accept {

/// The program, without main(). program: its own file; folder: of the programs that come with it.
int run(const std::vector<std::string>& arguments, const t3tools::Machine& machine, t3doctor::Probe& probe,
        const std::string& program, const std::string& folder, std::ostream& out, std::ostream& err);

} // namespace t3accept
