// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The core's own words for requests and completions. The core knows no libibverbs: verbs_path.cc puts verbs
// into these words and back, inline, so that the translation costs nothing.
#pragma once

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_wr.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace t3 {

// Same layout as ibv_sge (asserted in verbs_path.cc), so that a caller's list is used where it lies.
struct [[gnu::may_alias]] Sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

// What a completed request was. Receives have one kind, whatever the flavour of the message.
enum class WorkOp : uint8_t { send, write, read, local_inv, bind_mw, recv };

enum class SendOp : uint8_t { send, send_inv, write, read, local_inv };

struct SendRequest {
    uint64_t wr_id = 0;
    SendOp op = SendOp::send;
    bool signaled = false;
    bool solicited = false;
    bool fence = false;
    bool inline_data = false;
    std::span<const Sge> sg = {};
    uint32_t inv_stag = 0;    // send_inv: at the peer; local_inv: here
    uint32_t remote_stag = 0; // write, read
    uint64_t remote_addr = 0;
};

struct BindRequest {
    uint64_t wr_id = 0;
    bool signaled = false;
    uint32_t mr_stag = 0;
    uint32_t mw_stag = 0;
    uint64_t addr = 0;
    uint32_t length = 0;
    uint8_t perms = 0;      // T3_PERM_REMOTE_*
    uint32_t pbl_index = 0; // of the page that holds addr
    uint8_t page_code = 0;
};

struct RecvRequest {
    uint64_t wr_id = 0;
    std::span<const Sge> sg = {};
};

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
