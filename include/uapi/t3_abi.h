/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ABI of iw_cxgb3 and its user library: the driver's own part of the verbs
 * commands, ABI version 1 of the old cxgb3 driver and library, kept unchanged so that each side
 * also works with the other's predecessor.
 *
 * Rules: little or big endian as the host is, natural alignment, no pointers, no hidden padding.
 * A field never changes its place or meaning; new abilities are negotiated at the end of a
 * structure.
 */
#ifndef T3_ABI_H
#define T3_ABI_H

#include <linux/types.h>

#define T3_ABI_VERSION 1

struct t3_alloc_pd_resp {
	__u32 pdid;
};

struct t3_reg_mr_resp {
	__u32 pbl_addr; /* in 8-byte units from the PBL base; used by BIND_MW */
};

struct t3_create_cq_req {
	/*
	 * Address of the library's __u32 consumer index: entries consumed, at least modulo
	 * twice the ring size.
	 */
	__aligned_u64 user_rptr_addr;
};

/* Response to a library whose buffer is smaller than version 1 needs. */
struct t3_create_cq_resp_v0 {
	__aligned_u64 key; /* mmap offset of the ring */
	__u32 cqid;
	__u32 size_log2;
};

struct t3_create_cq_resp {
	__aligned_u64 key;
	__u32 cqid;
	__u32 size_log2;
	__u32 memsize; /* bytes to map: the ring and the status word behind it, whole pages */
	__u32 reserved;
};

struct t3_create_qp_resp {
	__aligned_u64 key;    /* mmap offset of the ring, 128 << size_log2 bytes in whole pages */
	__aligned_u64 db_key; /* mmap offset of the doorbell page, write only */
	__u32 qpid;
	__u32 size_log2;
	__u32 sq_size_log2;
	__u32 rq_size_log2;
};

/*
 * Two mailboxes in shared memory, both in host byte order.
 *
 * QP status: 64 bits at byte 104 of slot 0 of the ring (no user work request reaches that far).
 * CQ status: 32 bits directly behind the last entry of the CQ ring. The kernel uses only the
 * value 1, and stores it whole; the other bits are the library's, which expects to lose them by
 * that.
 */
#define T3_QP_STATUS_OFFSET 104
#define T3_QP_STATUS_ERROR   (1ULL << 0) /* the library must flush the QP */
#define T3_QP_STATUS_DB_OFF  (1ULL << 1) /* queue work, but leave ringing to the kernel */
/*
 * Keep new work from the card; it will be flushed. Unlike ERROR it does not mean that the card has
 * let go of what was posted before. Set by either side, and cleared by a reset. A library that does
 * not know it posts to a ring that is not executed any more.
 */
#define T3_QP_STATUS_STOPPED (1ULL << 2)
#define T3_CQ_STATUS_ERROR  1U          /* a QP of this CQ has T3_QP_STATUS_ERROR set */

#ifdef __cplusplus
#define T3_ABI_ASSERT(cond) static_assert(cond, #cond)
#else
#define T3_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#endif
T3_ABI_ASSERT(sizeof(struct t3_alloc_pd_resp) == 4);
T3_ABI_ASSERT(sizeof(struct t3_reg_mr_resp) == 4);
T3_ABI_ASSERT(sizeof(struct t3_create_cq_req) == 8);
T3_ABI_ASSERT(sizeof(struct t3_create_cq_resp_v0) == 16);
T3_ABI_ASSERT(sizeof(struct t3_create_cq_resp) == 24);
T3_ABI_ASSERT(sizeof(struct t3_create_qp_resp) == 32);
#undef T3_ABI_ASSERT

#endif /* T3_ABI_H */
