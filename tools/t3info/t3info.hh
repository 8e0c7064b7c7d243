// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <functional>
#include <memory>
#include <ostream>

#include "tools/t3info/model.hh"

namespace t3info {

inline constexpr int no_device = 3; ///< exit status: there is no such device, or none at all

/// The program, without main(). connect() gives the kernel's netlink, and may throw std::runtime_error.
int run(const std::vector<std::string>& arguments, const t3tools::Machine& machine,
        const std::function<std::unique_ptr<Source>()>& connect, std::ostream& out, std::ostream& err);

} // namespace t3info
