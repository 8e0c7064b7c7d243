/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Building work requests. Pure logic: no card, no locks, no memory of its own.
 * hw/t3_wr_build.h, which the user library uses too, has the layout of a
 * consumer's request in a slot.
 *
 * The builders write a slot except for its two generation bits. t3_wr_publish()
 * writes these last, because the card may read the slot at any time.
 */
#ifndef T3_WR_H
#define T3_WR_H

#include <linux/types.h>

#include "hw/t3_wr.h"
#include "hw/t3_wr_build.h"
#include "wq.h"

/* A send-side request: its fields fit the verb, but are not checked against limits. */
struct t3_send {
	u64 wr_id;
	u8 op;			/* T3_WR_OP_SEND, WRITE, READ, LOCAL_INV or FASTREG */
	u8 flags;		/* T3_WR_F_*; COMPLETION: signaled */
	struct t3_request req;	/* req.sge is the list of the consumer */
	struct t3_fastreg fr;
};

struct t3_recv {
	u64 wr_id;
	u32 num_sge;
	struct t3_host_sge sge[T3_MAX_SGE];
	struct t3_recv_pages pages;
	u32 scratch;			/* STag 0: private PBL memory, absolute; else 0 */
};

/*
 * Write a request into the next slot, record it, advance the counters. 0, or
 * -ENOMEM (queue full), -EMSGSIZE (too long), -EINVAL (malformed, or not
 * supported by the card). On an error nothing has changed.
 */
int t3_wq_post_send(struct t3_wq *wq, const struct t3_send *send);
int t3_wq_post_recv(struct t3_wq *wq, const struct t3_recv *req);

/* Record a request of a QP that cannot post, without a slot: a flush completes it. */
int t3_wq_defer_send(struct t3_wq *wq, const struct t3_send *send);
int t3_wq_defer_recv(struct t3_wq *wq, const struct t3_recv *req);

/*
 * Number of leading slots that hold receives. User space may write to the ring:
 * for any content the result is at most what the receive queue takes.
 */
u16 t3_wq_leading_recvs(const struct t3_wq *wq);

/* Make a slot valid: write both generation bits. */
void t3_wr_publish(union t3_wr_slot *slot, u32 flits, u32 tid, u32 gen);

struct t3_rdma_init {
	u32 tid;
	u32 qpid, pdid, scqid, rcqid;
	u32 rq_addr, rq_size;
	u8 mpa_attrs, qp_caps, rtr_type, channel;
	bool initiator;
	u16 ulpdu_size;
	u16 rqe_count;
	u32 ord, ird;
	u64 ring_dma;
	u32 ring_slots;
	u32 irs;
};

/* For the offload queue: the NIC driver sets generation, SOP and EOP. */
void t3_wr_build_rdma_init(struct t3_wr_rdma_init *wr, const struct t3_rdma_init *init);

#define T3_TERMINATE_WR_BYTES	40

/* The first bytes of the Terminate message: layer_type and code. */
void t3_wr_build_terminate(void *wr, u32 tid, u8 layer_type, u8 code);

/* Egress context of the control QP; slots == 0 invalidates it. */
void t3_wr_build_ctrl_context(struct t3_wr_modify_qp *wr, u64 ring_dma, u32 slots);

/* A memory write of up to T3_BYPASS_MAX_DATA bytes; data == NULL writes zeroes. Returns flits. */
u32 t3_wr_build_mem_write(struct t3_wr_bypass *wr, u32 addr, const void *data,
			  u32 len, u32 counter, bool completion);

#endif
