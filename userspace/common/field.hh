// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Bit fields named by their mask, as the kernel's FIELD_PREP() and FIELD_GET(): headers shared with the
// kernel define masks only, and both sides use the same ones.
#pragma once

#include <bit>
#include <cstdint>

namespace common {

template <auto Mask> constexpr auto field_prep(decltype(Mask) value) {
    static_assert(Mask != 0);
    return (value << std::countr_zero(Mask)) & Mask;
}

template <auto Mask> constexpr auto field_get(decltype(Mask) word) {
    static_assert(Mask != 0);
    return (word & Mask) >> std::countr_zero(Mask);
}

} // namespace common
