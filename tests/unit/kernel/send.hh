// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A send-side request with a scatter/gather list of its own.
#pragma once

#include <cstdint>

extern "C" {
#include "kernel/iw_cxgb3/card/wr.h"
}

struct Send {
    std::uint64_t wr_id;
    std::uint8_t op, rdma_op, flags;
    bool is_inline;
    std::uint32_t inv_stag, rkey;
    std::uint64_t remote_addr;
    std::uint32_t num_sge;
    t3_host_sge sge[T3_MAX_SGE];
    t3_fastreg fr;

    t3_send request() const {
        t3_send send{};
        send.wr_id = wr_id;
        send.op = op;
        send.flags = flags;
        send.req.rdma_op = rdma_op;
        send.req.is_inline = is_inline;
        send.req.inv_stag = inv_stag;
        send.req.rkey = rkey;
        send.req.remote_addr = remote_addr;
        send.req.num_sge = num_sge;
        send.req.sge = sge;
        send.fr = fr;
        return send;
    }
};

inline int post_send(t3_wq& wq, const Send& send) {
    const t3_send request = send.request();
    return t3_wq_post_send(&wq, &request);
}

inline int defer_send(t3_wq& wq, const Send& send) {
    const t3_send request = send.request();
    return t3_wq_defer_send(&wq, &request);
}
