// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The size of a ring whose counters run freely through 2^32 and are masked only to index.
#pragma once

#include <cstdint>

namespace common {

class RingSize {
public:
    RingSize() = default;
    explicit constexpr RingSize(unsigned log2) : log2_(log2), mask_((1u << log2) - 1) {}

    constexpr uint32_t entries() const { return mask_ + 1; }
    constexpr unsigned log2() const { return log2_; }
    constexpr uint32_t index(uint32_t counter) const { return counter & mask_; }
    // Parity of the lap that a counter is in. Rings that mark valid entries by lap start at 1 and alternate.
    constexpr bool lap_bit(uint32_t counter) const { return !((counter >> log2_) & 1); }

private:
    unsigned log2_ = 0;
    uint32_t mask_ = 0;
};

} // namespace common
