// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The core's own types for completed requests. The core does not depend on libibverbs.
#pragma once

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_wr.h"

#include <cstdint>

namespace t3 {

// What a completed request was, by the values of ibv_wc_opcode (asserted in completion.hh), so that nothing
// has to be translated. Receives have one kind, whatever the flavour of the message.
enum class WorkOp : uint8_t { send = 0, write = 1, read = 2, bind_mw = 5, local_inv = 6, recv = 128 };

struct Completion {
    uint64_t wr_id;
    uint32_t qpid;
    uint32_t byte_len;         // recv and read, if status is success
    uint32_t invalidated_stag; // recv of a message with invalidate, else 0
    WorkOp op;
    uint8_t status; // T3_STATUS_*
    bool with_invalidate;
};

} // namespace t3
