// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A completion entry, read once from the ring into host order.
#pragma once

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_wr.h"
#include "userspace/common/be.hh"
#include "userspace/common/field.hh"

#include <cstdint>

namespace t3 {

static_assert(sizeof(t3_cqe) == T3_CQE_BYTES);

class CqeView {
public:
    explicit CqeView(const t3_cqe& e)
        : header_(common::from_be(e.header)), len_(common::from_be(e.len)), hi_(e.u.sq.wrid_hi),
          lo_(e.u.sq.wrid_lo) {}

    uint32_t qpid() const { return common::field_get<T3_CQE_QPID>(header_); }
    uint8_t status() const { return static_cast<uint8_t>(common::field_get<T3_CQE_STATUS>(header_)); }
    uint32_t opcode() const { return header_ & T3_CQE_OPCODE; }
    bool is_sq() const { return header_ & T3_CQE_TYPE_SQ; }
    uint32_t len() const { return len_; }
    uint32_t position() const { return hi_; } // of an SQ entry: raw, as it was posted
    uint32_t stag() const { return common::from_be(hi_); }
    uint32_t msn() const { return common::from_be(lo_); }

    // Data of one of our reads has arrived. Such an entry calls itself a receive.
    bool is_read_response() const { return !is_sq() && opcode() == T3_RDMA_READ_RESP; }
    bool is_terminate() const { return opcode() == T3_RDMA_TERMINATE; }
    // Reports about inbound writes and read requests that were refused: nobody here posted them.
    bool is_inbound_error() const {
        return (!is_sq() && opcode() == T3_RDMA_WRITE) || (is_sq() && opcode() == T3_RDMA_READ_RESP);
    }
    bool is_message() const {
        return !is_sq() && opcode() >= T3_RDMA_SEND && opcode() <= T3_RDMA_SEND_SE_INV;
    }
    bool invalidates() const { return opcode() == T3_RDMA_SEND_INV || opcode() == T3_RDMA_SEND_SE_INV; }

private:
    uint32_t header_, len_, hi_, lo_;
};

} // namespace t3
