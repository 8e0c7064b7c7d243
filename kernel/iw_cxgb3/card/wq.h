/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The host's view of a QP's work queue: one ring of slots for sends and
 * receives in posting order, and two arrays that record the posted requests.
 * Pure logic: no card, no locks, no memory of its own.
 *
 * All counters are free-running 32-bit values; compare them by difference only.
 *
 *   post:      wr.c builds the slot and advances sq_wptr or rq_wptr
 *   done:      cqe.c marks requests as done when their entry arrives
 *   complete:  a request that is done at the head of its array goes to the
 *              consumer, and sq_rptr or rq_rptr advances
 */
#ifndef T3_WQ_H
#define T3_WQ_H

#include <linux/types.h>

#include "hw/t3_cqe.h"
#include "hw/t3_wr.h"
#include "hw/t3_wr_build.h"

struct t3_sq_entry {
	u64 wr_id;
	u32 read_len;
	u8 rdma_op;		/* T3_RDMA_* as posted */
	u8 status;		/* T3_STATUS_*, once done */
	bool signaled;
	bool done;
};

struct t3_rq_entry {
	u64 wr_id;
	u32 pbl_addr;		/* scratch of an STag 0 receive, absolute; 0 if none */
	u32 len;		/* of the buffers; of the message, once done */
	u32 inv_stag;
	u8 rdma_op;		/* T3_RDMA_SEND*, once done */
	u8 status;
	bool done;
};

struct t3_wq {
	union t3_wr_slot *slots;
	struct t3_sq_entry *sq;	/* NULL for a user QP */
	struct t3_rq_entry *rq;
	u8 slots_log2;
	u8 sq_log2;
	u8 rq_log2;
	bool rtr_expected;	/* discard the response to the zero-length RTR read */
	u32 wptr;		/* slots */
	u32 sq_wptr, sq_rptr;	/* sends posted, completed */
	u32 rq_wptr, rq_rptr;	/* receives posted, completed */
	u32 rq_done;		/* receives done; rq_rptr <= rq_done <= rq_wptr */
};

static inline u32 t3_wq_slots(const struct t3_wq *wq)
{
	return 1U << wq->slots_log2;
}

static inline u32 t3_sq_size(const struct t3_wq *wq)
{
	return 1U << wq->sq_log2;
}

static inline u32 t3_rq_size(const struct t3_wq *wq)
{
	return 1U << wq->rq_log2;
}

/* Free entries. One receive entry of the hardware stays unused. */
static inline u32 t3_sq_avail(const struct t3_wq *wq)
{
	return t3_sq_size(wq) - (wq->sq_wptr - wq->sq_rptr);
}

static inline u32 t3_rq_avail(const struct t3_wq *wq)
{
	return t3_rq_size(wq) - (wq->rq_wptr - wq->rq_rptr) - 1;
}

static inline struct t3_sq_entry *t3_sq_at(const struct t3_wq *wq, u32 ptr)
{
	return &wq->sq[ptr & (t3_sq_size(wq) - 1)];
}

static inline struct t3_rq_entry *t3_rq_at(const struct t3_wq *wq, u32 ptr)
{
	return &wq->rq[ptr & (t3_rq_size(wq) - 1)];
}

#endif
