// SPDX-License-Identifier: GPL-2.0
/*
 * From a request of the consumer to the bytes of a slot.
 */
#include <linux/bitfield.h>
#include <linux/errno.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/barrier.h>
#include <asm/byteorder.h>

#include "wr.h"

#define FLITS(type)	(sizeof(type) / 8)

/* Flits of a request without its scatter list. */
#define SEND_FLITS	4
#define WRITE_FLITS	5
#define SGE_FLITS	2
#define FASTREG_FLITS	5

__be32 t3_wr_hi(u8 op, u8 flags)
{
	return cpu_to_be32(FIELD_PREP(T3_WR_OPCODE, op) | T3_WR_SOP | T3_WR_EOP |
			   FIELD_PREP(T3_WR_FLAGS, flags));
}

void t3_wr_publish(union t3_wr_slot *slot, u32 flits, u32 tid, u32 gen)
{
	/* Everything the card reads must be there before it can find the slot valid. */
	wmb();
	slot->hdr.lo = cpu_to_be32((gen ? T3_WR_GEN : 0) | FIELD_PREP(T3_WR_TID, tid) |
				   FIELD_PREP(T3_WR_LEN, flits));
	slot->flit[T3_WR_GEN2_FLIT] = cpu_to_be64(gen);
}

static int total_len(const struct t3_host_sge *sge, u32 num, u32 *total)
{
	u64 sum = 0;
	u32 i;

	if (num > T3_MAX_SGE)
		return -EINVAL;
	for (i = 0; i < num; i++)
		sum += sge[i].len;
	if (sum > U32_MAX)
		return -EMSGSIZE;
	*total = sum;
	return 0;
}

static void put_sgl(struct t3_sge *dst, const struct t3_host_sge *src, u32 num)
{
	u32 i;

	for (i = 0; i < num; i++) {
		dst[i].stag = cpu_to_be32(src[i].stag);
		dst[i].len = cpu_to_be32(src[i].len);
		dst[i].to = cpu_to_be64(src[i].addr);
	}
}

/*
 * Payload of a SEND or WRITE: inline from the scatter list's place on, with
 * num_sge 0, or as a scatter list. Flits used, or -errno.
 */
static int put_payload(const struct t3_send *req, struct t3_sge *sgl,
		       __be32 *plen, __be32 *num_sge)
{
	u32 len, i;
	u8 *dst = (u8 *)sgl;
	int err;

	err = total_len(req->sge, req->num_sge, &len);
	if (err)
		return err;
	if (!req->is_inline) {
		put_sgl(sgl, req->sge, req->num_sge);
		*plen = cpu_to_be32(len);
		*num_sge = cpu_to_be32(req->num_sge);
		return SGE_FLITS * req->num_sge;
	}

	if (len > T3_MAX_INLINE)
		return -EMSGSIZE;
	for (i = 0; i < req->num_sge; i++) {
		memcpy(dst, (const void *)(uintptr_t)req->sge[i].addr, req->sge[i].len);
		dst += req->sge[i].len;
	}
	*plen = cpu_to_be32(len);
	*num_sge = 0;
	return (len + 7) / 8;
}

static int build_send(struct t3_wr_send *wr, const struct t3_send *req)
{
	int flits;

	wr->rdma_op = req->rdma_op;
	memset(wr->rsvd, 0, sizeof(wr->rsvd));
	wr->inv_stag = cpu_to_be32(req->inv_stag);
	flits = put_payload(req, wr->sge, &wr->plen, &wr->num_sge);
	return flits < 0 ? flits : SEND_FLITS + flits;
}

static int build_write(struct t3_wr_write *wr, const struct t3_send *req)
{
	int flits;

	wr->rdma_op = T3_RDMA_WRITE;
	memset(wr->rsvd, 0, sizeof(wr->rsvd));
	wr->sink_stag = cpu_to_be32(req->rkey);
	wr->sink_to = cpu_to_be64(req->remote_addr);
	flits = put_payload(req, wr->sge, &wr->plen, &wr->num_sge);
	return flits < 0 ? flits : WRITE_FLITS + flits;
}

/*
 * A read of nothing still needs STags that are not 0, or the peer terminates
 * the connection; no STag of a zero-length read is looked up otherwise.
 */
static int build_read(struct t3_wr_read *wr, const struct t3_send *req)
{
	bool empty = !req->num_sge || !req->sge[0].len;

	if (req->num_sge > T3_MAX_READ_SGE)
		return -EINVAL;
	if (!empty && !req->sge[0].stag)
		return -EINVAL;

	wr->rdma_op = T3_RDMA_READ_REQ;
	wr->local_inv = req->local_inv;
	memset(wr->rsvd, 0, sizeof(wr->rsvd));
	wr->rem_stag = cpu_to_be32(empty ? T3_RTR_STAG : req->rkey);
	wr->rem_to = cpu_to_be64(empty ? 1 : req->remote_addr);
	wr->local_stag = cpu_to_be32(empty ? T3_RTR_STAG : req->sge[0].stag);
	wr->local_len = cpu_to_be32(empty ? 0 : req->sge[0].len);
	wr->local_to = cpu_to_be64(empty ? 1 : req->sge[0].addr);
	return FLITS(*wr);
}

static int build_local_inv(struct t3_wr_local_inv *wr, const struct t3_send *req)
{
	wr->stag = cpu_to_be32(req->inv_stag);
	wr->rsvd = 0;
	return FLITS(*wr);
}

static int build_fastreg(struct t3_wr_fastreg *wr, const struct t3_send *req)
{
	const struct t3_fastreg *fr = &req->fr;
	u32 i;

	if (!fr->npages || fr->npages > T3_MAX_FASTREG_PAGES)
		return -EINVAL;
	wr->stag = cpu_to_be32(fr->stag);
	wr->len = cpu_to_be32(fr->len);
	wr->va_hi = cpu_to_be32(fr->va >> 32);
	wr->va_lo_fbo = cpu_to_be32((u32)fr->va);
	wr->page_type_perms = cpu_to_be32(FIELD_PREP(T3_FASTREG_PAGES, fr->npages) |
					  FIELD_PREP(T3_FASTREG_PAGE_CODE, fr->page_code) |
					  T3_FASTREG_VA_BASED |
					  FIELD_PREP(T3_FASTREG_PERMS, fr->perms));
	wr->rsvd = 0;
	for (i = 0; i < fr->npages; i++)
		wr->page[i] = cpu_to_be64(fr->pages[i]);
	return FASTREG_FLITS + fr->npages;
}

static int build(union t3_wr_slot *slot, const struct t3_send *req)
{
	switch (req->op) {
	case T3_WR_OP_SEND:
		return build_send(&slot->send, req);
	case T3_WR_OP_WRITE:
		return build_write(&slot->write, req);
	case T3_WR_OP_READ:
		return build_read(&slot->read, req);
	case T3_WR_OP_LOCAL_INV:
		return build_local_inv(&slot->local_inv, req);
	case T3_WR_OP_FASTREG:
		return build_fastreg(&slot->fastreg, req);
	default:
		return -EINVAL;
	}
}

static void remember_send(struct t3_wq *wq, const struct t3_send *req)
{
	struct t3_sq_entry *e = t3_sq_at(wq, wq->sq_wptr);

	memset(e, 0, sizeof(*e));
	e->wr_id = req->wr_id;
	e->rdma_op = req->rdma_op;
	e->signaled = req->flags & T3_WR_F_COMPLETION;
	if (req->op == T3_WR_OP_READ && req->num_sge)
		e->read_len = req->sge[0].len;
	wq->sq_wptr++;
}

static union t3_wr_slot *next_slot(const struct t3_wq *wq)
{
	return &wq->slots[wq->wptr & (t3_wq_slots(wq) - 1)];
}

int t3_wq_post_send(struct t3_wq *wq, const struct t3_send *req)
{
	union t3_wr_slot *slot = next_slot(wq);
	/* The card wants no flags on a read; it completes always. */
	u8 flags = req->op == T3_WR_OP_READ ? 0 : req->flags;
	int flits;

	if (!t3_sq_room(wq))
		return -ENOMEM;
	flits = build(slot, req);
	if (flits < 0)
		return flits;

	slot->hdr.hi = t3_wr_hi(req->op, flags);
	slot->send.id.hi = wq->sq_wptr;
	slot->send.id.lo = 0;
	t3_wr_publish(slot, flits, 0, t3_gen(wq->wptr, wq->slots_log2));
	remember_send(wq, req);
	wq->wptr++;
	return 0;
}

int t3_wq_defer_send(struct t3_wq *wq, const struct t3_send *req)
{
	if (!t3_sq_room(wq))
		return -ENOMEM;
	remember_send(wq, req);
	return 0;
}

static void remember_recv(struct t3_wq *wq, const struct t3_recv *req)
{
	struct t3_rq_entry *e = t3_rq_at(wq, wq->rq_wptr);

	memset(e, 0, sizeof(*e));
	e->wr_id = req->wr_id;
	e->pbl_addr = req->scratch;
	wq->rq_wptr++;
}

int t3_wq_post_recv(struct t3_wq *wq, const struct t3_recv *req)
{
	union t3_wr_slot *slot = next_slot(wq);
	struct t3_wr_recv *wr = &slot->recv;
	u32 len, i;
	int err;

	if (!t3_rq_room(wq))
		return -ENOMEM;
	err = total_len(req->sge, req->num_sge, &len);
	if (err)
		return err;

	memset(wr->sge, 0, sizeof(wr->sge));
	put_sgl(wr->sge, req->sge, req->num_sge);
	for (i = 0; i < T3_MAX_SGE; i++) {
		bool used = i < req->num_sge;

		wr->pagesz[i] = used ? req->page_code[i] : 0;
		wr->pbl_addr[i] = used ? cpu_to_be32(req->pbl_index[i]) : 0;
	}
	wr->num_sge = cpu_to_be32(req->num_sge);
	wr->id.hi = 0;
	wr->id.lo = 0;
	slot->hdr.hi = t3_wr_hi(T3_WR_OP_RECV, T3_WR_F_COMPLETION);
	t3_wr_publish(slot, FLITS(*wr), 0, t3_gen(wq->wptr, wq->slots_log2));
	remember_recv(wq, req);
	wq->wptr++;
	return 0;
}

int t3_wq_defer_recv(struct t3_wq *wq, const struct t3_recv *req)
{
	if (!t3_rq_room(wq))
		return -ENOMEM;
	remember_recv(wq, req);
	return 0;
}

u16 t3_wq_leading_recvs(const struct t3_wq *wq)
{
	u32 max = t3_wq_slots(wq) < U16_MAX ? t3_wq_slots(wq) : U16_MAX;
	u32 n;

	for (n = 0; n < max; n++) {
		u32 hi = be32_to_cpu(wq->slots[n].hdr.hi);

		if (FIELD_GET(T3_WR_OPCODE, hi) != T3_WR_OP_RECV)
			break;
	}
	return n;
}

static __be32 ofld_lo(u32 tid, u32 flits)
{
	return cpu_to_be32(FIELD_PREP(T3_WR_TID, tid) | FIELD_PREP(T3_WR_LEN, flits));
}

void t3_wr_build_rdma_init(struct t3_wr_rdma_init *wr, const struct t3_rdma_init *init)
{
	memset(wr, 0, sizeof(*wr));
	wr->hdr.hi = cpu_to_be32(FIELD_PREP(T3_WR_OPCODE, T3_WR_OP_RDMA_INIT));
	wr->hdr.lo = ofld_lo(init->tid, FLITS(*wr));
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

	/* Only the first 40 bytes of the SEND exist: the control word is inline. */
	memset(buf, 0, T3_TERMINATE_WR_BYTES);
	wr->hdr.hi = t3_wr_hi(T3_WR_OP_SEND, T3_WR_F_COMPLETION | T3_WR_F_NOTIFY);
	wr->hdr.lo = ofld_lo(tid, T3_TERMINATE_WR_BYTES / 8);
	wr->rdma_op = T3_RDMA_TERMINATE;
	wr->plen = cpu_to_be32(4);
	term[0] = layer_type;
	term[1] = code;
}

void t3_wr_build_rtr_read(struct t3_wr_read *wr, u32 tid)
{
	memset(wr, 0, sizeof(*wr));
	wr->hdr.hi = t3_wr_hi(T3_WR_OP_READ, 0);
	wr->hdr.lo = ofld_lo(tid, FLITS(*wr));
	wr->rdma_op = T3_RDMA_READ_REQ;
	wr->rem_stag = cpu_to_be32(T3_RTR_STAG);
	wr->rem_to = cpu_to_be64(1);
	wr->local_stag = cpu_to_be32(T3_RTR_STAG);
	wr->local_to = cpu_to_be64(1);
}

void t3_wr_build_ctrl_context(struct t3_wr_modify_qp *wr, u64 ring_dma, u32 slots)
{
	u64 cmd = (u64)T3_CTRL_QP_CONTEXT << 8 | 3;
	u64 page = ring_dma >> 12;
	u32 word[4];

	memset(wr, 0, sizeof(*wr));
	wr->hdr.hi = t3_wr_hi(T3_WR_OP_MODIFY_QP, T3_WR_F_COMPLETION | T3_WR_F_NOTIFY);
	wr->hdr.lo = ofld_lo(0, FLITS(*wr));
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
