// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// One object, which several threads destroy at once while another thread uses it.
#pragma once

#include "world.hh"

#include <functional>

namespace uv {

// Reports for each kind of object, by write() and by ioctl(), the outcome of `rounds` rounds in words that
// do not depend on which thread was first.
void race(const World& world, unsigned rounds,
          const std::function<void(const std::string& what, const std::string& result)>& sink);

} // namespace uv
