// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <ostream>

#include "tools/t3doctor/checks.hh"

namespace t3doctor {

/// The program, without main().
int run(const std::vector<std::string>& arguments, const t3tools::Machine& machine, Probe& probe,
        std::ostream& out, std::ostream& err);

} // namespace t3doctor
