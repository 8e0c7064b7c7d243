// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A completion entry, read once from the ring into host order.
#pragma once

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_wr.h"
#include "userspace/common/be.hh"
#include "userspace/common/field.hh"

#include <array>
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
    uint32_t len() const { return len_; }
    uint32_t position() const { return hi_; } // of an SQ entry: raw, as it was posted
    uint32_t stag() const { return common::from_be(hi_); }
    uint32_t msn() const { return common::from_be(lo_); }

    // Type and opcode together say what an entry is about.
    enum class Kind : uint8_t {
        sent,          // a request of ours, but a read
        message,       // a receive of ours
        read_response, // a read of ours; such an entry calls itself a receive
        other,         // nobody's: a TERMINATE, a refused request of the peer, or what no card writes
    };
    Kind kind() const { return kinds[header_ & (T3_CQE_TYPE_SQ | T3_CQE_OPCODE)]; }
    bool invalidates() const { return opcode() == T3_RDMA_SEND_INV || opcode() == T3_RDMA_SEND_SE_INV; }

private:
    static constexpr auto kinds = [] {
        std::array<Kind, 32> t{};
        t.fill(Kind::other);
        for (const unsigned op :
             {T3_RDMA_WRITE, T3_RDMA_READ_REQ, T3_RDMA_SEND, T3_RDMA_SEND_INV, T3_RDMA_SEND_SE,
              T3_RDMA_SEND_SE_INV, T3_RDMA_BIND_MW, T3_RDMA_FASTREG, T3_RDMA_LOCAL_INV})
            t[T3_CQE_TYPE_SQ | op] = Kind::sent;
        for (const unsigned op : {T3_RDMA_SEND, T3_RDMA_SEND_INV, T3_RDMA_SEND_SE, T3_RDMA_SEND_SE_INV})
            t[op] = Kind::message;
        t[T3_RDMA_READ_RESP] = Kind::read_response;
        return t;
    }();

    uint32_t header_, len_, hi_, lo_;
};

} // namespace t3
