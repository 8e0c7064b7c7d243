// SPDX-License-Identifier: GPL-2.0
/*
 * Posting of sends and receives for kernel consumers. Programs post in the provider.
 */
#include <linux/build_bug.h>
#include <rdma/ib_verbs.h>

#include "verbs.h"

/* The list of the consumer is used without a copy. */
static_assert(sizeof(struct t3_host_sge) == sizeof(struct ib_sge));
static_assert(offsetof(struct t3_host_sge, addr) == offsetof(struct ib_sge, addr));
static_assert(offsetof(struct t3_host_sge, len) == offsetof(struct ib_sge, length));
static_assert(offsetof(struct t3_host_sge, stag) == offsetof(struct ib_sge, lkey));

static int t3_send_from_wr(struct t3_qp *qp, const struct ib_send_wr *wr, struct t3_send *send)
{
	struct t3_request *req = &send->req;

	memset(send, 0, sizeof(*send));
	send->wr_id = wr->wr_id;
	if (qp->sq_sig_all || wr->send_flags & IB_SEND_SIGNALED)
		send->flags |= T3_WR_F_COMPLETION;
	if (wr->send_flags & IB_SEND_SOLICITED)
		send->flags |= T3_WR_F_SOLICITED;
	req->is_inline = wr->send_flags & IB_SEND_INLINE;

	switch (wr->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_INV:
		send->op = T3_WR_OP_SEND;
		req->rdma_op = wr->opcode == IB_WR_SEND ?
			(wr->send_flags & IB_SEND_SOLICITED ? T3_RDMA_SEND_SE : T3_RDMA_SEND) :
			(wr->send_flags & IB_SEND_SOLICITED ? T3_RDMA_SEND_SE_INV :
							      T3_RDMA_SEND_INV);
		if (wr->opcode == IB_WR_SEND_WITH_INV)
			req->inv_stag = wr->ex.invalidate_rkey;
		if (wr->send_flags & IB_SEND_FENCE)
			send->flags |= T3_WR_F_READ_FENCE;
		break;
	case IB_WR_RDMA_WRITE:
		send->op = T3_WR_OP_WRITE;
		req->rdma_op = T3_RDMA_WRITE;
		req->rkey = rdma_wr(wr)->rkey;
		req->remote_addr = rdma_wr(wr)->remote_addr;
		if (wr->send_flags & IB_SEND_FENCE)
			send->flags |= T3_WR_F_READ_FENCE;
		break;
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		send->op = T3_WR_OP_READ;
		req->rdma_op = T3_RDMA_READ_REQ;
		req->rkey = rdma_wr(wr)->rkey;
		req->remote_addr = rdma_wr(wr)->remote_addr;
		req->local_inv = wr->opcode == IB_WR_RDMA_READ_WITH_INV;
		req->is_inline = false;
		break;
	case IB_WR_LOCAL_INV:
		send->op = T3_WR_OP_LOCAL_INV;
		req->rdma_op = T3_RDMA_LOCAL_INV;
		req->inv_stag = wr->ex.invalidate_rkey;
		if (wr->send_flags & IB_SEND_FENCE)
			send->flags |= T3_WR_F_LOCAL_FENCE;
		return 0;
	case IB_WR_REG_MR:
		send->op = T3_WR_OP_FASTREG;
		req->rdma_op = T3_RDMA_FASTREG;
		return t3_mr_fastreg(reg_wr(wr)->mr, reg_wr(wr)->key, reg_wr(wr)->access,
				     &send->fr);
	default:
		/* iWARP has no immediate data and no atomics; there is no kernel verb to bind. */
		return -EOPNOTSUPP;
	}

	if (wr->num_sge < 0 || wr->num_sge > T3_MAX_SGE)
		return -EINVAL;
	req->num_sge = wr->num_sge;
	req->sge = (const struct t3_host_sge *)wr->sg_list;
	return 0;
}

/*
 * A receive has one of two forms: STag 0 with private PBL memory, into which
 * the firmware writes the page addresses, or pages of a region. A receive with
 * both forms is refused.
 */
static int t3_recv_from_wr(struct t3_dev *dev, const struct ib_recv_wr *wr, struct t3_recv *req)
{
	bool stag0;
	int i, err;

	if (wr->num_sge < 0 || wr->num_sge > T3_MAX_SGE)
		return -EINVAL;
	memset(req, 0, sizeof(*req));
	req->wr_id = wr->wr_id;
	req->num_sge = wr->num_sge;
	if (!wr->num_sge)
		return 0;

	stag0 = !wr->sg_list[0].lkey;
	if (stag0) {
		req->scratch = t3_pbl_alloc(dev, NULL, T3_PBL_GRANULE);
		if (!req->scratch)
			return -ENOMEM;
	}
	for (i = 0; i < wr->num_sge; i++) {
		struct t3_host_sge *sge = &req->sge[i];

		sge->addr = wr->sg_list[i].addr;
		sge->len = wr->sg_list[i].length;
		sge->stag = wr->sg_list[i].lkey;
		err = -EINVAL;
		if (stag0 != !sge->stag)
			goto err;
		if (stag0) {
			if (sge->len > 1U << (T3_PAGE_CODE_SHIFT + T3_STAG0_PAGE_CODE))
				goto err;
			req->pages.code[i] = T3_STAG0_PAGE_CODE;
			req->pages.pbl_index[i] =
				((req->scratch - dev->info.pbl_base) >> 3) + 2 * i;
			continue;
		}
		err = t3_mr_resolve(dev, sge, &req->pages.code[i], &req->pages.pbl_index[i]);
		if (err)
			goto err;
	}
	return 0;

err:
	if (req->scratch)
		t3_pbl_free(dev, NULL, req->scratch, T3_PBL_GRANULE);
	return err;
}

/* The ring accepts requests in RTS, and in IDLE before the first connection. */
static bool t3_qp_can_post(const struct t3_qp *qp)
{
	lockdep_assert_held(&qp->lock);
	return qp->state == T3_QPS_RTS || (qp->state == T3_QPS_IDLE && !qp->used);
}

/*
 * Only a flush completes a request that was deferred: now, if the card does not access earlier
 * requests any more, otherwise together with these. The completion handler is called from a
 * work item, since the caller may be the handler itself.
 */
static void t3_qp_flush_deferred(struct t3_qp *qp, struct t3_cq *cq)
{
	unsigned long flags;
	bool flush;

	spin_lock_irqsave(&qp->lock, flags);
	flush = t3_qp_flushable(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (!flush)
		return;
	t3_cq_flush_qp(qp);
	t3_cq_notify_later(cq);
}

int t3_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		 const struct ib_send_wr **bad_wr)
{
	struct t3_dev *dev = to_t3_dev(ibqp->device);
	struct t3_qp *qp = to_t3_qp(ibqp);
	bool ring = false, deferred = false;
	struct t3_send send;
	unsigned long flags;
	int err = 0;

	if (qp->user) {
		*bad_wr = wr;
		return -EOPNOTSUPP;
	}
	spin_lock_irqsave(&qp->lock, flags);
	for (; wr; wr = wr->next) {
		err = t3_send_from_wr(qp, wr, &send);
		if (err)
			break;
		if (t3_qp_can_post(qp)) {
			err = t3_wq_post_send(&qp->wq, &send);
			ring = ring || !err;
			if (!err && send.op == T3_WR_OP_FASTREG)
				t3_mr_fastreg_posted(dev, reg_wr(wr)->mr, &send.fr);
		} else {
			send.flags |= T3_WR_F_COMPLETION;
			err = t3_wq_defer_send(&qp->wq, &send);
			deferred = deferred || !err;
		}
		if (err)
			break;
	}
	spin_unlock_irqrestore(&qp->lock, flags);

	if (err)
		*bad_wr = wr;
	/* Requests before a bad one are in the ring. */
	if (ring)
		t3_ring_doorbell(dev, qp->id);
	if (deferred)
		t3_qp_flush_deferred(qp, to_t3_cq(ibqp->send_cq));
	return err;
}

int t3_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		 const struct ib_recv_wr **bad_wr)
{
	struct t3_dev *dev = to_t3_dev(ibqp->device);
	struct t3_qp *qp = to_t3_qp(ibqp);
	bool ring = false, deferred = false;
	struct t3_recv req;
	unsigned long flags;
	int err = 0;

	if (qp->user) {
		*bad_wr = wr;
		return -EOPNOTSUPP;
	}
	spin_lock_irqsave(&qp->lock, flags);
	for (; wr; wr = wr->next) {
		err = t3_recv_from_wr(dev, wr, &req);
		if (err)
			break;
		if (t3_qp_can_post(qp)) {
			err = t3_wq_post_recv(&qp->wq, &req);
			ring = ring || !err;
		} else {
			err = t3_wq_defer_recv(&qp->wq, &req);
			deferred = deferred || !err;
		}
		if (err) {
			if (req.scratch)
				t3_pbl_free(dev, NULL, req.scratch, T3_PBL_GRANULE);
			break;
		}
	}
	spin_unlock_irqrestore(&qp->lock, flags);

	if (err)
		*bad_wr = wr;
	if (ring)
		t3_ring_doorbell(dev, qp->id);
	if (deferred)
		t3_qp_flush_deferred(qp, to_t3_cq(ibqp->recv_cq));
	return err;
}
