// SPDX-License-Identifier: GPL-2.0
/*
 * Building work requests from the requests of consumers.
 */
#include <linux/bitfield.h>
#include <linux/errno.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/barrier.h>
#include <asm/byteorder.h>

#include "wr.h"

#define FLITS(type)	(sizeof(type) / 8)

void t3_wr_publish(union t3_wr_slot *slot, u32 flits, u32 tid, u32 gen)
{
	/* The card must not see a valid generation before the slot is complete. */
	wmb();
	slot->hdr.lo = t3_wr_lo(flits, tid, gen);
	slot->flit[T3_WR_GEN2_FLIT] = t3_wr_gen2(gen);
}

static int t3_wq_build_send(union t3_wr_slot *slot, const struct t3_send *send)
{
	const struct t3_request *req = &send->req;

	switch (send->op) {
	case T3_WR_OP_SEND:
		return t3_build_send(&slot->send, req);
	case T3_WR_OP_WRITE:
		return t3_build_write(&slot->write, req);
	case T3_WR_OP_READ:
		/* The card cannot place a response by bus address. */
		if (req->num_sge && req->sge[0].len && !req->sge[0].stag)
			return -EINVAL;
		return t3_build_read(&slot->read, req);
	case T3_WR_OP_LOCAL_INV:
		return t3_build_local_inv(&slot->local_inv, req);
	case T3_WR_OP_FASTREG:
		return t3_build_fastreg(&slot->fastreg, &send->fr);
	default:
		return -EINVAL;
	}
}

static void t3_sq_record(struct t3_wq *wq, const struct t3_send *send)
{
	struct t3_sq_entry *e = t3_sq_at(wq, wq->sq_wptr);

	memset(e, 0, sizeof(*e));
	e->wr_id = send->wr_id;
	e->rdma_op = send->req.rdma_op;
	e->signaled = send->flags & T3_WR_F_COMPLETION;
	if (send->op == T3_WR_OP_READ && send->req.num_sge)
		e->read_len = send->req.sge[0].len;
	wq->sq_wptr++;
}

static union t3_wr_slot *t3_wq_next_slot(const struct t3_wq *wq)
{
	return &wq->slots[wq->wptr & (t3_wq_slots(wq) - 1)];
}

int t3_wq_post_send(struct t3_wq *wq, const struct t3_send *send)
{
	union t3_wr_slot *slot = t3_wq_next_slot(wq);
	/* A read has no flags; the card always writes an entry for it. */
	u8 flags = send->op == T3_WR_OP_READ ? 0 : send->flags;
	int flits;

	if (!t3_sq_avail(wq))
		return -ENOMEM;
	flits = t3_wq_build_send(slot, send);
	if (flits < 0)
		return flits;

	slot->hdr.hi = t3_wr_hi(send->op, flags);
	slot->send.id.hi = wq->sq_wptr;
	slot->send.id.lo = 0;
	t3_wr_publish(slot, flits, 0, t3_gen(wq->wptr, wq->slots_log2));
	t3_sq_record(wq, send);
	wq->wptr++;
	return 0;
}

int t3_wq_defer_send(struct t3_wq *wq, const struct t3_send *send)
{
	if (!t3_sq_avail(wq))
		return -ENOMEM;
	t3_sq_record(wq, send);
	return 0;
}

static void t3_rq_record(struct t3_wq *wq, const struct t3_recv *req)
{
	struct t3_rq_entry *e = t3_rq_at(wq, wq->rq_wptr);
	u64 len = 0;
	u32 i;

	for (i = 0; i < req->num_sge; i++)
		len += req->sge[i].len;
	memset(e, 0, sizeof(*e));
	e->len = len > U32_MAX ? U32_MAX : len;
	e->wr_id = req->wr_id;
	e->pbl_addr = req->scratch;
	wq->rq_wptr++;
}

int t3_wq_post_recv(struct t3_wq *wq, const struct t3_recv *req)
{
	union t3_wr_slot *slot = t3_wq_next_slot(wq);
	int flits;

	if (!t3_rq_avail(wq))
		return -ENOMEM;
	flits = t3_build_recv(&slot->recv, req->sge, req->num_sge, &req->pages);
	if (flits < 0)
		return flits;

	slot->recv.id.hi = 0;
	slot->recv.id.lo = 0;
	slot->hdr.hi = t3_wr_hi(T3_WR_OP_RECV, T3_WR_F_COMPLETION);
	t3_wr_publish(slot, flits, 0, t3_gen(wq->wptr, wq->slots_log2));
	t3_rq_record(wq, req);
	wq->wptr++;
	return 0;
}

int t3_wq_defer_recv(struct t3_wq *wq, const struct t3_recv *req)
{
	if (!t3_rq_avail(wq))
		return -ENOMEM;
	t3_rq_record(wq, req);
	return 0;
}

u16 t3_wq_leading_recvs(const struct t3_wq *wq)
{
	u32 max = t3_rq_size(wq) - 1;	/* as in t3_rq_avail() */
	u32 n;

	for (n = 0; n < max; n++) {
		u32 hi = be32_to_cpu(wq->slots[n].hdr.hi);

		if (FIELD_GET(T3_WR_OPCODE, hi) != T3_WR_OP_RECV)
			break;
	}
	return n;
}

void t3_wr_build_rdma_init(struct t3_wr_rdma_init *wr, const struct t3_rdma_init *init)
{
	memset(wr, 0, sizeof(*wr));
	wr->hdr.hi = cpu_to_be32(FIELD_PREP(T3_WR_OPCODE, T3_WR_OP_RDMA_INIT));
	wr->hdr.lo = t3_wr_lo(FLITS(*wr), init->tid, false);
	wr->qpid = cpu_to_be32(init->qpid);
	wr->pdid = cpu_to_be32(init->pdid);
	wr->scqid = cpu_to_be32(init->scqid);
	wr->rcqid = cpu_to_be32(init->rcqid);
	wr->rq_addr = cpu_to_be32(init->rq_addr);
	wr->rq_size = cpu_to_be32(init->rq_size);
	wr->mpa_attrs = init->mpa_attrs;
	wr->qp_caps = init->qp_caps;
	wr->ulpdu_size = cpu_to_be16(init->ulpdu_size);
	wr->flags_rtr_type = cpu_to_be16((init->initiator ? T3_INIT_INITIATOR : 0) |
					 FIELD_PREP(T3_INIT_RTR_TYPE, init->rtr_type) |
					 FIELD_PREP(T3_INIT_CHANNEL, init->channel));
	wr->rqe_count = cpu_to_be16(init->rqe_count);
	wr->ord = cpu_to_be32(init->ord);
	wr->ird = cpu_to_be32(init->ird);
	wr->qp_dma_addr = cpu_to_be64(init->ring_dma);
	wr->qp_dma_size = cpu_to_be32(init->ring_slots);
	wr->irs = cpu_to_be32(init->irs);
}

void t3_wr_build_terminate(void *buf, u32 tid, u8 layer_type, u8 code)
{
	struct t3_wr_send *wr = buf;
	u8 *term = (u8 *)wr->sge;

	/* The work request is the first 40 bytes of a SEND: the control word is inline. */
	memset(buf, 0, T3_TERMINATE_WR_BYTES);
	wr->hdr.hi = t3_wr_hi(T3_WR_OP_SEND, T3_WR_F_COMPLETION | T3_WR_F_NOTIFY);
	wr->hdr.lo = t3_wr_lo(T3_TERMINATE_WR_BYTES / 8, tid, false);
	wr->rdma_op = T3_RDMA_TERMINATE;
	wr->plen = cpu_to_be32(4);
	term[0] = layer_type;
	term[1] = code;
}

void t3_wr_build_ctrl_context(struct t3_wr_modify_qp *wr, u64 ring_dma, u32 slots)
{
	u64 cmd = (u64)T3_CTRL_QP_CONTEXT << 8 | 3;
	u64 page = ring_dma >> 12;
	u32 word[4];

	memset(wr, 0, sizeof(*wr));
	wr->hdr.hi = t3_wr_hi(T3_WR_OP_MODIFY_QP, T3_WR_F_COMPLETION | T3_WR_F_NOTIFY);
	wr->hdr.lo = t3_wr_lo(FLITS(*wr), 0, false);
	wr->flags = cpu_to_be32(T3_MODQP_WRITE_EC);
	if (slots) {
		word[0] = FIELD_PREP(T3_EC0_CREDITS, 16);
		word[1] = FIELD_PREP(T3_EC1_SIZE, slots) |
			  FIELD_PREP(T3_EC1_BASE_LO, page & 0xffff);
		word[2] = (u32)(page >> 16);
		word[3] = FIELD_PREP(T3_EC3_BASE_HI, (u32)(page >> 48)) | T3_EC3_GEN |
			  FIELD_PREP(T3_EC3_TOKEN, T3_CTRL_QP_TOKEN) | T3_EC3_VALID;
		wr->ctx0 = cpu_to_be64((u64)word[1] << 32 | word[0]);
		wr->ctx1 = cpu_to_be64((u64)word[3] << 32 | word[2]);
		cmd |= 3ULL << 56;
	}
	wr->sge_cmd = cpu_to_be64(cmd);
}

u32 t3_wr_build_mem_write(struct t3_wr_bypass *wr, u32 addr, const void *data,
			  u32 len, u32 counter, bool completion)
{
	u32 units = (len + T3_MEM_UNIT - 1) / T3_MEM_UNIT;

	wr->hdr.hi = t3_wr_hi(T3_WR_OP_BYPASS, completion ? T3_WR_F_COMPLETION : 0);
	wr->id.hi = 0;
	wr->id.lo = counter;
	wr->cmd_addr = cpu_to_be32(FIELD_PREP(T3_MEM_CMD, T3_MEM_CMD_WRITE) |
				   FIELD_PREP(T3_MEM_ADDR, addr / T3_MEM_UNIT));
	wr->cmd_len = cpu_to_be32(FIELD_PREP(T3_MEM_UNITS, units) |
				  FIELD_PREP(T3_MEM_FLITS, 4 * units + 1));
	memset(wr->data, 0, units * T3_MEM_UNIT);
	if (data)
		memcpy(wr->data, data, len);
	return 3 + 4 * units;
}
