// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The ABI between iw_cxgb3 and its library, place by place: compiled for this machine and once more for 32
 * bits, it must come out the same (A7, B5). A structure that is longer for one of them is an answer written
 * past the end of the other's. The places are written down here as numbers, since the old library has them so
 * too.
 *
 * They are also complete: no byte is left over for anything but keys, ids and sizes, so for no DMA address
 * (A20).
 */
#include "include/uapi/t3_abi.h"

#include <rdma/ib_user_ioctl_verbs.h>
#include <stddef.h>

#define AT(type, field, offset, size)                                                                        \
    _Static_assert(offsetof(struct type, field) == (offset) && sizeof(((struct type*)0)->field) == (size),   \
                   #type "." #field)
#define ENDS(type, size) _Static_assert(sizeof(struct type) == (size), #type)

AT(t3_alloc_pd_resp, pdid, 0, 4);
ENDS(t3_alloc_pd_resp, 4);

AT(t3_reg_mr_resp, pbl_addr, 0, 4);
ENDS(t3_reg_mr_resp, 4);

AT(t3_create_cq_req, user_rptr_addr, 0, 8);
ENDS(t3_create_cq_req, 8);

AT(t3_create_cq_resp_v0, key, 0, 8);
AT(t3_create_cq_resp_v0, cqid, 8, 4);
AT(t3_create_cq_resp_v0, size_log2, 12, 4);
ENDS(t3_create_cq_resp_v0, 16);

AT(t3_create_cq_resp, key, 0, 8);
AT(t3_create_cq_resp, cqid, 8, 4);
AT(t3_create_cq_resp, size_log2, 12, 4);
AT(t3_create_cq_resp, memsize, 16, 4);
AT(t3_create_cq_resp, reserved, 20, 4);
ENDS(t3_create_cq_resp, 24);

AT(t3_create_qp_resp, key, 0, 8);
AT(t3_create_qp_resp, db_key, 8, 8);
AT(t3_create_qp_resp, qpid, 16, 4);
AT(t3_create_qp_resp, size_log2, 20, 4);
AT(t3_create_qp_resp, sq_size_log2, 24, 4);
AT(t3_create_qp_resp, rq_size_log2, 28, 4);
ENDS(t3_create_qp_resp, 32);

/* The library identifies the driver by this number, whatever else the enumeration has (A21). */
_Static_assert(RDMA_DRIVER_CXGB3 == 3, "the kernel's name for the driver");
