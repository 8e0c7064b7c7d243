// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// libibverbs' command functions with no kernel behind them: objects are counted, rings are in a file in
// memory, and any step can be made to fail.
#pragma once

#include "userspace/providers/cxgb3/border.h"

namespace fake {

struct Kernel {
    int refuse_call = 0;    // the call of this number (from 1) is refused with ENOMEM
    int calls = 0;          // so far
    int refuse_destroy = 0; // errno of all that would destroy something
    bool bad_ring = false;  // keys that cannot be mapped
    bool bad_doorbell = false;
    bool bad_sizes = false; // an answer that no driver of this card gives
    bool refuse_context = false;
    // What needs memory of the process itself, or its kernel's consent: the steps of the provider that a test
    // cannot make fail otherwise.
    int refuse_new = 0; // the call of operator new of this number, from now on
    bool refuse_core_qp = false, refuse_builders = false, refuse_madvise = false;
    int dirty_answers = 0; // response buffers that were not zero when a command was called
    int pds = 0, mrs = 0, mws = 0, cqs = 0, qps = 0;
    int notify_calls = 0;
    uint64_t page = 0; // the size of its pages; 0: as the host
    bool no_status_word =
        false; // memory for the entries of a CQ only, as for libraries that know no status word
    int fd = -1;
    uint64_t bytes = 0;

    int objects() const { return pds + mrs + mws + cqs + qps; }
    uint64_t whole_pages(uint64_t size) const;
    // Space in the file; its offset is the key.
    uint64_t map_pages(uint64_t size);
    int step();
    void look_at_answer(const void* resp, size_t size);
};

extern Kernel kernel;

} // namespace fake

extern "C" const verbs_context_ops* glue_ops(void);
extern "C" const verbs_device_ops* glue_device_ops(void);
