// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Stores to device registers: one call is one transaction of exactly that size, in little endian.
#pragma once

#include "userspace/common/be.hh"

#include <cstdint>

namespace common {

inline void mmio_write32(volatile uint32_t* reg, uint32_t value) {
    *reg = to_le(value);
}

} // namespace common
