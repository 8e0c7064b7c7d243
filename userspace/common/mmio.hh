// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Stores to device registers: one call is one transaction of exactly that size, in little endian.
#pragma once

#include "userspace/common/be.hh"

#include <cstdint>

namespace common {

#ifdef T3_COUNT_BARRIERS // as in barrier.hh
inline unsigned long registers_written;
#endif

inline void mmio_write32(volatile uint32_t* reg, uint32_t value) {
#ifdef T3_COUNT_BARRIERS
    registers_written++;
#endif
    *reg = to_le(value);
}

} // namespace common
