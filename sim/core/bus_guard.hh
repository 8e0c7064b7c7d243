// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A client may shrink a file after this process has mapped it; the next access to the lost pages raises
// SIGBUS. For guarded mappings the handler replaces the lost pages by zeroed private memory, so the copy that
// was interrupted can end. The guest no longer shares this memory.
#pragma once

#include <atomic>
#include <cstddef>

namespace t3sim {

/// Guards [start, start + size). From any thread, and for accesses of any thread. Sets @p lost when pages
/// were lost.
void guard_mapping(void* start, std::size_t size, std::atomic<bool>& lost);
void unguard_mapping(void* start);

} // namespace t3sim
