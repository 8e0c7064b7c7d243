/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private part of the verbs commands between iw_cxgb3 and its user library,
 * ABI version 1. Never change a field: the driver and the library must each
 * run with the other's predecessor. New abilities are added at the end.
 *
 * All fields are in host order and naturally aligned.
 */
#ifndef CXGB3_ABI_USER_H
#define CXGB3_ABI_USER_H

#include <linux/types.h>

#define CXGB3_UVERBS_ABI_VERSION 1

struct cxgb3_alloc_pd_resp {
	__u32 pdid;
};

struct cxgb3_reg_mr_resp {
	__u32 pbl_addr; /* 8-byte units from the PBL base */
};

struct cxgb3_create_cq_req {
	__aligned_u64 user_rptr_addr; /* u32: hardware entries consumed, unmasked */
};

/* A library whose response space ends before memsize gets the first 16 bytes. */
struct cxgb3_create_cq_resp {
	__aligned_u64 key;
	__u32 cqid;
	__u32 size_log2;
	__u32 memsize; /* bytes to map: ring and status word */
	__u32 reserved;
};

#define CXGB3_CREATE_CQ_RESP_V0_BYTES 16

struct cxgb3_create_qp_resp {
	__aligned_u64 key;
	__aligned_u64 db_key;
	__u32 qpid;
	__u32 size_log2;
	__u32 sq_size_log2;
	__u32 rq_size_log2;
};

/*
 * CQ status word, a __u32 in host order directly behind the last entry: not 0
 * when a QP of this CQ is in error and its owner must flush it. The QP's own
 * status word is T3_QP_STATUS_OFFSET in slot 0 of its ring.
 */
#define CXGB3_CQ_STATUS_FLUSH 1U

#endif
