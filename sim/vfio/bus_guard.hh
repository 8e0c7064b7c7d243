// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A client may shrink a file after it was mapped here; the next access to the lost pages is then a SIGBUS.
// For guarded mappings the handler puts zeroed private memory in the place of the lost pages, so the model
// goes on: the memory has become unreachable for the guest, which is the guest's own doing.
#pragma once

#include <cstddef>

namespace t3sim::vfio {

/// Guards [start, start + size); the model's one thread only.
void guard_mapping(void* start, std::size_t size);
void unguard_mapping(void* start);

} // namespace t3sim::vfio
