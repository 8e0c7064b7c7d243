// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// CRC32c (Castagnoli), as MPA uses it: initial value all ones, final inversion.
#pragma once

#include "sim/core/bytes.hh"

namespace t3sim {

[[nodiscard]] std::uint32_t crc32c(Bytes data);
/// The same without the processor's CRC instruction; crc32c() uses it if the instruction is missing.
[[nodiscard]] std::uint32_t crc32c_by_table(Bytes data);

} // namespace t3sim
