// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// One object, destroyed by several threads at once while another one uses it.
#pragma once

#include "world.hh"

#include <functional>

namespace uv {

// Tells for each kind of object and door what was seen in `rounds` rounds, in words that do not depend on who
// was first.
void race(const World& world, unsigned rounds,
          const std::function<void(const std::string& what, const std::string& seen)>& sink);

} // namespace uv
