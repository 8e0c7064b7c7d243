// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs: life, states, posting.
 */
#include <linux/log2.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <rdma/restrack.h>

#include <t3_race_point.h>

#include "uapi/t3_abi.h"
#include "compat_verbs.h"
#include "iw_cxgb3.h"
#include "trace.h"

/* --- references ------------------------------------------------------------- */

static void qp_release(struct kref *ref)
{
	complete(&container_of(ref, struct t3_qp, ref)->released);
}

void t3_qp_get(struct t3_qp *qp)
{
	kref_get(&qp->ref);
}

void t3_qp_put(struct t3_qp *qp)
{
	kref_put(&qp->ref, qp_release);
}

struct t3_qp *t3_qp_find(struct t3_dev *dev, u32 id)
{
	struct t3_qp *qp;
	unsigned long flags;

	xa_lock_irqsave(&dev->qps, flags);
	qp = xa_load(&dev->qps, id);
	if (qp && !kref_get_unless_zero(&qp->ref))
		qp = NULL;
	xa_unlock_irqrestore(&dev->qps, flags);
	return qp;
}

static void iw_add_ref(struct ib_qp *ibqp)
{
	t3_qp_get(to_t3_qp(ibqp));
}

static void iw_rem_ref(struct ib_qp *ibqp)
{
	t3_qp_put(to_t3_qp(ibqp));
}

/*
 * The contract of the CM core: this returns a pointer, and iw_add_ref() takes a reference
 * by it. iw_cm calls both under a spinlock, other callers must under rcu_read_lock(). So
 * destroy takes the QP out of the table, lets a grace period pass, and only then drops
 * the reference from creation: whoever found the QP has a reference by then. Grace periods
 * cost time, so destroy asks whether the QP has ever been found in this way; the table's
 * lock makes the answer final once the QP is out of the table.
 */
static struct ib_qp *iw_get_qp(struct ib_device *ibdev, int qpn)
{
	struct t3_dev *dev = to_t3_dev(ibdev);
	unsigned long flags;
	struct t3_qp *qp;

	RCU_LOCKDEP_WARN(!rcu_read_lock_any_held(), "neither RCU nor a spinlock is held");
	xa_lock_irqsave(&dev->qps, flags);
	qp = xa_load(&dev->qps, qpn);
	if (qp)
		qp->found_by_cm = true;
	xa_unlock_irqrestore(&dev->qps, flags);
	T3_RACE_POINT(t3_get_qp_found);
	return qp ? &qp->ibqp : NULL;
}

/* Every QP of the device, with a reference during the call. */
void t3_for_each_qp(struct t3_dev *dev, void (*fn)(struct t3_qp *qp))
{
	unsigned long id = 0, flags;
	struct t3_qp *qp;

	for (;; id++) {
		xa_lock_irqsave(&dev->qps, flags);
		do {
			qp = xa_find(&dev->qps, &id, ULONG_MAX, XA_PRESENT);
		} while (qp && !kref_get_unless_zero(&qp->ref) && ++id);
		xa_unlock_irqrestore(&dev->qps, flags);
		if (!qp)
			return;
		T3_RACE_POINT(t3_each_qp_found);
		fn(qp);
		t3_qp_put(qp);
	}
}

/* --- what the library sees of a user QP -------------------------------------- */

/* The library only ever sets the bit that stops it, and a reset clears all of them. */
void t3_qp_set_status(struct t3_qp *qp, u64 set, u64 clear)
{
	t3_status_change(qp->ring.va + T3_QP_STATUS_OFFSET, set, clear);
}

static void notify_cqs(struct t3_qp *qp)
{
	t3_cq_notify(to_t3_cq(qp->ibqp.recv_cq));
	if (qp->ibqp.send_cq != qp->ibqp.recv_cq)
		t3_cq_notify(to_t3_cq(qp->ibqp.send_cq));
}

/*
 * Complete what is outstanding, if the card has let go of it. A user QP is flushed by its
 * library, which learns of it from the status words of QP and CQs; a thread that waits
 * for events must be woken up for that.
 */
static void t3_qp_flush(struct t3_qp *qp)
{
	unsigned long flags;
	bool over;

	spin_lock_irqsave(&qp->lock, flags);
	over = t3_qp_over(qp);
	if (over && qp->user)
		t3_qp_set_status(qp, T3_QP_STATUS_ERROR, 0);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (!over)
		return;

	t3_count(t3_qp_dev(qp), T3_CNT_FLUSHED_QP);
	if (qp->user) {
		t3_cq_tell_user(to_t3_cq(qp->ibqp.send_cq));
		t3_cq_tell_user(to_t3_cq(qp->ibqp.recv_cq));
	} else {
		t3_cq_flush_qp(qp);
	}
	T3_RACE_POINT(t3_qp_flushed);
	notify_cqs(qp);
}

/*
 * The consumer may free a buffer when its request has come back, and those of a kernel
 * consumer are not protected by an STag. So whatever ended the connection, the flush is here:
 * the card has said its last word about it, or has lost its bus mastering.
 */
void t3_qp_disconnected(struct t3_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	qp->busy = false;
	spin_unlock_irqrestore(&qp->lock, flags);
	t3_qp_flush(qp);
	t3_qp_put(qp);
}

/* --- states --------------------------------------------------------------------- */

static void free_scratch(struct t3_qp *qp)
{
	struct t3_wq *wq = &qp->wq;
	u32 i;

	for (i = wq->rq_rptr; wq->rq && i != wq->rq_wptr; i++)
		if (t3_rq_at(wq, i)->pbl_addr)
			t3_pbl_free(t3_qp_dev(qp), t3_rq_at(wq, i)->pbl_addr, T3_PBL_GRANULE);
}

/* The ring is as new, so that a connection can start at slot 0. */
static void reset(struct t3_qp *qp)
{
	struct t3_wq *wq = &qp->wq;

	lockdep_assert_held(&qp->lock);
	free_scratch(qp);
	memset(qp->ring.va, 0, qp->ring.size);
	wq->error = false;
	wq->rtr_expected = false;
	wq->wptr = 0;
	wq->sq_wptr = 0;
	wq->sq_rptr = 0;
	wq->rq_wptr = 0;
	wq->rq_rptr = 0;
	wq->rq_done = 0;
	qp->used = false;
}

static void send_terminate(struct t3_qp *qp, struct t3_ep *ep, u32 tid, struct t3_term term)
{
	struct t3_dev *dev = t3_qp_dev(qp);
	struct sk_buff *skb = alloc_skb(T3_TERMINATE_WR_BYTES, GFP_ATOMIC);

	if (!skb) {
		t3_ep_disconnect(ep, true);
		return;
	}
	t3_wr_build_terminate(skb_put(skb, T3_TERMINATE_WR_BYTES), tid,
			      term.layer_type, term.code);
	skb->priority = CPL_PRIORITY_DATA;
	t3_count(dev, T3_CNT_TERM_SENT);
	/* If the message or the answer to it is lost, the deadline decides. */
	t3_dev_send(dev, skb);
	t3_ep_terminating(ep);
}

/* What an event leads to, with what the table cannot know. */
static struct t3_qp_step t3_qp_step(const struct t3_qp *qp, enum t3_qp_event ev)
{
	struct t3_qp_step step = t3_qp_fsm(qp->state, ev);

	lockdep_assert_held(&qp->lock);
	if (step.actions & T3_QPA_RESET && (qp->busy || qp->resetting))
		step.legal = false;
	/* The card starts at slot 0: a ring that was used must be reset first. */
	if (ev == T3_QPEV_CONNECT && (qp->busy || qp->resetting || qp->used))
		step.legal = false;
	return step;
}

/*
 * What waits in the CQs belongs to the time before a reset, and goes if the reset is
 * granted. CQ locks are outside of the QP's, so a mark keeps a connection away meanwhile.
 */
static bool t3_qp_begin_reset(struct t3_qp *qp)
{
	unsigned long flags;
	bool granted;

	spin_lock_irqsave(&qp->lock, flags);
	granted = t3_qp_step(qp, T3_QPEV_USER_RESET).legal;
	if (granted)
		qp->resetting = true;
	spin_unlock_irqrestore(&qp->lock, flags);
	if (granted)
		t3_cq_purge_qp(qp);
	return granted;
}

int t3_qp_report(struct t3_qp *qp, enum t3_qp_event ev)
{
	struct t3_ep *ep = NULL;
	struct t3_qp_step step;
	struct t3_term term;
	unsigned long flags;
	bool resetting, detached;
	u32 tid;

	resetting = ev == T3_QPEV_USER_RESET && t3_qp_begin_reset(qp);
	spin_lock_irqsave(&qp->lock, flags);
	if (resetting)
		qp->resetting = false;
	step = t3_qp_step(qp, ev);
	/* Refused above, even if it would be granted now: the CQs were not purged for it. */
	if (ev == T3_QPEV_USER_RESET && !resetting)
		step.legal = false;
	trace_t3_qp_state(qp, ev, &step);
	if (!step.legal) {
		spin_unlock_irqrestore(&qp->lock, flags);
		t3_count(t3_qp_dev(qp), T3_CNT_QP_BAD_EVENT);
		ibdev_dbg(qp->ibqp.device, "qp %u: %s refused in %s\n", qp->id,
			  t3_qp_event_name(ev), t3_qp_state_name(qp->state));
		return -EINVAL;
	}
	qp->state = step.next;
	if (step.actions & T3_QPA_MARK_ERROR) {
		qp->wq.error = true;
		if (qp->user)
			t3_qp_set_status(qp, T3_QP_STATUS_STOPPED, 0);
	}
	if (step.actions & T3_QPA_RESET)
		reset(qp);
	term = qp->term;
	tid = qp->conn.tid;
	detached = step.actions & T3_QPA_DETACH;
	if (detached) {
		ep = qp->ep;
		qp->ep = NULL;
	} else if (qp->ep && step.actions & (T3_QPA_TERMINATE | T3_QPA_DISCONNECT)) {
		ep = qp->ep;
		t3_ep_get(ep);
	}
	spin_unlock_irqrestore(&qp->lock, flags);

	T3_RACE_POINT(t3_qp_stepped);
	/* With a connection it is t3_qp_disconnected() that does it. */
	if (step.actions & T3_QPA_FLUSH)
		t3_qp_flush(qp);
	if (!ep)
		return 0;
	if (step.actions & T3_QPA_TERMINATE)
		send_terminate(qp, ep, tid, term);
	if (step.actions & T3_QPA_DISCONNECT)
		t3_ep_disconnect(ep, false);
	if (step.actions & T3_QPA_ABORT)
		t3_ep_disconnect(ep, true);
	t3_ep_put(ep);
	return 0;
}

/*
 * What the peer may do, as far as it is the QP that forbids it, and what the consumer may.
 * No flag at all forbids nothing: rdma_cm moves each QP that is to connect to INIT with 0,
 * whatever its owner wants. Who names any flag gets just those.
 */
static u8 t3_qp_caps(const struct t3_qp *qp)
{
	u8 caps = T3_QPCAP_BIND;

	lockdep_assert_held(&qp->lock);
	if (!qp->access || qp->access & IB_ACCESS_REMOTE_READ)
		caps |= T3_QPCAP_RDMA_READ;
	if (!qp->access || qp->access & IB_ACCESS_REMOTE_WRITE)
		caps |= T3_QPCAP_RDMA_WRITE;
	/* STag 0 is any bus address; no user space may have that. */
	return qp->user ? caps : caps | T3_QPCAP_FASTREG | T3_QPCAP_STAG0;
}

/*
 * A connection that opens with an RTR read needs an entry of the send CQ for its response,
 * which no request of the consumer accounts for: the card overwrites unread entries of a full
 * CQ. The QP keeps the entry until it is destroyed. False: none is to spare.
 */
bool t3_qp_take_rtr_entry(struct t3_qp *qp)
{
	struct t3_cq *cq = to_t3_cq(qp->ibqp.send_cq);
	unsigned long flags;
	bool taken;

	spin_lock_irqsave(&qp->lock, flags);
	if (!qp->rtr_entry)
		qp->rtr_entry = atomic_dec_if_positive(&cq->rtr_left) >= 0;
	taken = qp->rtr_entry;
	spin_unlock_irqrestore(&qp->lock, flags);
	return taken;
}

bool t3_qp_readable(struct t3_qp *qp)
{
	unsigned long flags;
	bool readable;

	spin_lock_irqsave(&qp->lock, flags);
	readable = t3_qp_caps(qp) & T3_QPCAP_RDMA_READ;
	spin_unlock_irqrestore(&qp->lock, flags);
	return readable;
}

int t3_qp_connect(struct t3_qp *qp, struct t3_ep *ep,
		  const struct t3_conn_attrs *attrs, bool *acked)
{
	struct t3_dev *dev = t3_qp_dev(qp);
	struct t3_rdma_init init = {
		.tid = attrs->tid,
		.qpid = qp->id,
		.pdid = to_t3_pd(qp->ibqp.pd)->id,
		.scqid = to_t3_cq(qp->ibqp.send_cq)->id,
		.rcqid = to_t3_cq(qp->ibqp.recv_cq)->id,
		.rq_addr = qp->rqt_addr - dev->info.rqt_base,
		.rq_size = t3_rq_size(&qp->wq),
		.mpa_attrs = attrs->mpa_attrs,
		.rtr_type = attrs->rtr_type,
		.channel = attrs->channel,
		.initiator = attrs->initiator,
		.ulpdu_size = attrs->ulpdu_size,
		.ord = attrs->ord,
		.ird = attrs->ird,
		.ring_dma = qp->ring.dma,
		.ring_slots = t3_wq_slots(&qp->wq),
		.irs = attrs->irs,
	};
	struct t3_qp_step step;
	struct sk_buff *skb;
	unsigned long flags;
	int err;

	skb = alloc_skb(sizeof(struct t3_wr_rdma_init), GFP_KERNEL);
	if (!skb)
		return -ENOMEM;

	spin_lock_irqsave(&qp->lock, flags);
	init.qp_caps = t3_qp_caps(qp);
	step = t3_qp_step(qp, T3_QPEV_CONNECT);
	/* The peer is going to open with a read, if only of nothing. */
	if (attrs->rtr_type == T3_RTR_READ && !attrs->initiator &&
	    !(init.qp_caps & T3_QPCAP_RDMA_READ))
		step.legal = false;
	trace_t3_qp_state(qp, T3_QPEV_CONNECT, &step);
	if (!step.legal) {
		spin_unlock_irqrestore(&qp->lock, flags);
		t3_count(dev, T3_CNT_QP_BAD_EVENT);
		kfree_skb(skb);
		return -EINVAL;
	}
	qp->state = step.next;
	qp->used = true;
	qp->busy = true;
	qp->ep = ep;
	qp->conn = *attrs;
	qp->wq.rtr_expected = attrs->initiator && attrs->rtr_type == T3_RTR_READ;
	t3_ep_get(ep);
	t3_qp_get(qp);
	init.rqe_count = t3_wq_leading_recvs(&qp->wq);
	spin_unlock_irqrestore(&qp->lock, flags);

	*acked = init.rqe_count;
	t3_wr_build_rdma_init(skb_put(skb, sizeof(struct t3_wr_rdma_init)), &init);
	skb->priority = CPL_PRIORITY_DATA;
	err = t3_dev_send(dev, skb);
	if (err) {
		t3_qp_report(qp, T3_QPEV_LOST);
		t3_qp_disconnected(qp);
	}
	return err;
}

static int event_for(enum ib_qp_state state)
{
	switch (state) {
	case IB_QPS_RESET:
		return T3_QPEV_USER_RESET;
	case IB_QPS_INIT:
		return T3_QPEV_USER_INIT;
	case IB_QPS_SQD:
		return T3_QPEV_USER_CLOSE;
	case IB_QPS_SQE:
		return T3_QPEV_USER_TERM;
	case IB_QPS_ERR:
		return T3_QPEV_USER_ERROR;
	default:
		return -EINVAL;
	}
}

/*
 * An iWARP QP has no RESET state that a consumer can see: it takes receives from its creation
 * on, which verbs allows in INIT. All in-tree iWARP drivers report INIT too.
 */
static enum ib_qp_state verbs_state(const struct t3_qp *qp)
{
	lockdep_assert_held(&qp->lock);
	switch (qp->state) {
	case T3_QPS_IDLE:
		return IB_QPS_INIT;
	case T3_QPS_RTS:
		return IB_QPS_RTS;
	case T3_QPS_CLOSING:
		return IB_QPS_SQD;
	case T3_QPS_TERMINATE:
		return IB_QPS_SQE;
	default:
		return IB_QPS_ERR;
	}
}

static bool t3_qp_is_in(struct t3_qp *qp, enum ib_qp_state state)
{
	unsigned long flags;
	bool same;

	spin_lock_irqsave(&qp->lock, flags);
	same = verbs_state(qp) == state;
	spin_unlock_irqrestore(&qp->lock, flags);
	return same;
}

static int set_attrs(struct t3_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	unsigned long flags;
	int err = 0;

	if (!(mask & (IB_QP_ACCESS_FLAGS | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_MAX_DEST_RD_ATOMIC)))
		return 0;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > T3_MAX_RD_ATOM)
		return -EINVAL;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > T3_MAX_RD_ATOM)
		return -EINVAL;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->state != T3_QPS_IDLE) {
		err = -EINVAL;
		goto unlock;
	}
	if (mask & IB_QP_ACCESS_FLAGS)
		qp->access = attr->qp_access_flags;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		qp->max_ord = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		qp->max_ird = attr->max_dest_rd_atomic;
unlock:
	spin_unlock_irqrestore(&qp->lock, flags);
	return err;
}

/*
 * iWARP: a QP gets to RTS by its connection, and there is no RTR. librdmacm moves a QP to
 * RTR all the same, and later sets nothing but a port; both succeed and change nothing. A
 * program that connects QPs itself (ibv_rc_pingpong) sets the InfiniBand path to the peer
 * with RTR. That is refused at once, since no such QP ever gets to RTS.
 */
static int modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		     struct ib_udata *udata)
{
	struct t3_qp *qp = to_t3_qp(ibqp);
	int ev, err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	err = t3_udata_empty(udata);
	if (err)
		return err;
	if (mask & IB_QP_STATE && attr->qp_state == IB_QPS_RTR &&
	    mask & (IB_QP_AV | IB_QP_DEST_QPN)) {
		ibdev_dbg(ibqp->device, "qp %u: iWARP connects by the RDMA CM only\n", qp->id);
		return -EOPNOTSUPP;
	}
	err = set_attrs(qp, attr, mask);
	if (err || !(mask & IB_QP_STATE) || attr->qp_state == IB_QPS_RTR)
		return err;
	if (attr->qp_state != IB_QPS_RESET && t3_qp_is_in(qp, attr->qp_state))
		return 0;
	ev = event_for(attr->qp_state);
	return ev < 0 ? ev : t3_qp_report(qp, ev);
}

static int query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_qp_init_attr *init)
{
	struct t3_dev *dev = to_t3_dev(ibqp->device);
	struct t3_qp *qp = to_t3_qp(ibqp);
	unsigned long flags;
	u32 port;

	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	spin_lock_irqsave(&qp->lock, flags);
	attr->qp_state = verbs_state(qp);
	attr->qp_access_flags = qp->access;
	attr->max_rd_atomic = qp->used ? qp->conn.ord : qp->max_ord;
	attr->max_dest_rd_atomic = qp->used ? qp->conn.ird : qp->max_ird;
	port = qp->ep ? qp->conn.channel + 1 : 1;
	spin_unlock_irqrestore(&qp->lock, flags);
	attr->cur_qp_state = attr->qp_state;
	attr->port_num = port;
	/* As ib_core reports the active MTU of the port. */
	attr->path_mtu = ib_mtu_int_to_enum(READ_ONCE(dev->ports.lldevs[port - 1]->mtu));
	attr->cap.max_send_wr = t3_sq_size(&qp->wq);
	attr->cap.max_recv_wr = t3_rq_size(&qp->wq) - 1;
	attr->cap.max_send_sge = T3_MAX_SGE;
	attr->cap.max_recv_sge = T3_MAX_SGE;
	attr->cap.max_inline_data = T3_MAX_INLINE;
	init->qp_type = ibqp->qp_type;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->qp_context = ibqp->qp_context;
	init->event_handler = ibqp->event_handler;
	init->sq_sig_type = qp->sq_sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->cap = attr->cap;
	return 0;
}

/* --- posting, for kernel consumers -------------------------------------------- */

static int to_send(struct t3_dev *dev, struct t3_qp *qp, const struct ib_send_wr *wr,
		   struct t3_send *req)
{
	int i;

	memset(req, 0, sizeof(*req));
	req->wr_id = wr->wr_id;
	if (qp->sq_sig_all || wr->send_flags & IB_SEND_SIGNALED)
		req->flags |= T3_WR_F_COMPLETION;
	if (wr->send_flags & IB_SEND_SOLICITED)
		req->flags |= T3_WR_F_SOLICITED;
	req->is_inline = wr->send_flags & IB_SEND_INLINE;

	switch (wr->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_INV:
		req->op = T3_WR_OP_SEND;
		req->rdma_op = wr->opcode == IB_WR_SEND ?
			(wr->send_flags & IB_SEND_SOLICITED ? T3_RDMA_SEND_SE : T3_RDMA_SEND) :
			(wr->send_flags & IB_SEND_SOLICITED ? T3_RDMA_SEND_SE_INV :
							      T3_RDMA_SEND_INV);
		if (wr->opcode == IB_WR_SEND_WITH_INV)
			req->inv_stag = wr->ex.invalidate_rkey;
		if (wr->send_flags & IB_SEND_FENCE)
			req->flags |= T3_WR_F_READ_FENCE;
		break;
	case IB_WR_RDMA_WRITE:
		req->op = T3_WR_OP_WRITE;
		req->rdma_op = T3_RDMA_WRITE;
		req->rkey = rdma_wr(wr)->rkey;
		req->remote_addr = rdma_wr(wr)->remote_addr;
		if (wr->send_flags & IB_SEND_FENCE)
			req->flags |= T3_WR_F_READ_FENCE;
		break;
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		req->op = T3_WR_OP_READ;
		req->rdma_op = T3_RDMA_READ_REQ;
		req->rkey = rdma_wr(wr)->rkey;
		req->remote_addr = rdma_wr(wr)->remote_addr;
		req->local_inv = wr->opcode == IB_WR_RDMA_READ_WITH_INV;
		req->is_inline = false;
		break;
	case IB_WR_LOCAL_INV:
		req->op = T3_WR_OP_LOCAL_INV;
		req->rdma_op = T3_RDMA_LOCAL_INV;
		req->inv_stag = wr->ex.invalidate_rkey;
		if (wr->send_flags & IB_SEND_FENCE)
			req->flags |= T3_WR_F_LOCAL_FENCE;
		return 0;
	case IB_WR_REG_MR:
		req->op = T3_WR_OP_FASTREG;
		req->rdma_op = T3_RDMA_FASTREG;
		return t3_mr_fastreg(dev, reg_wr(wr)->mr, reg_wr(wr)->key,
				     reg_wr(wr)->access, &req->fr);
	default:
		/* No immediate data and no atomics in iWARP; binding has no kernel verb. */
		return -EOPNOTSUPP;
	}

	if (wr->num_sge < 0 || wr->num_sge > T3_MAX_SGE)
		return -EINVAL;
	req->num_sge = wr->num_sge;
	for (i = 0; i < wr->num_sge; i++) {
		req->sge[i].addr = wr->sg_list[i].addr;
		req->sge[i].len = wr->sg_list[i].length;
		req->sge[i].stag = wr->sg_list[i].lkey;
	}
	return 0;
}

/*
 * A receive goes out in one of two forms: through STag 0 with private PBL
 * memory into which the firmware puts the pages, or as pages of a region. They
 * do not mix.
 */
static int to_recv(struct t3_dev *dev, const struct ib_recv_wr *wr, struct t3_recv *req)
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
		req->scratch = t3_pbl_alloc(dev, T3_PBL_GRANULE);
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
		t3_pbl_free(dev, req->scratch, T3_PBL_GRANULE);
	return err;
}

/* In IDLE the ring is filled before a connection; afterwards only in RTS. */
static bool ring_open(const struct t3_qp *qp)
{
	return qp->state == T3_QPS_RTS || (qp->state == T3_QPS_IDLE && !qp->used);
}

/*
 * Nothing will ever complete this request but a flush: at once, if the card has let go of
 * those before it, else together with them. The handler is called from a work item, since
 * this may run inside it.
 */
static void flush_late(struct t3_qp *qp, struct t3_cq *cq)
{
	unsigned long flags;
	bool over;

	spin_lock_irqsave(&qp->lock, flags);
	over = t3_qp_over(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (!over)
		return;
	t3_cq_flush_qp(qp);
	queue_work(t3_wq, &cq->comp_work);
}

static int post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad_wr)
{
	struct t3_dev *dev = to_t3_dev(ibqp->device);
	struct t3_qp *qp = to_t3_qp(ibqp);
	bool ring = false, late = false;
	struct t3_send req;
	unsigned long flags;
	int err = 0;

	if (qp->user) {
		*bad_wr = wr;
		return -EOPNOTSUPP;
	}
	spin_lock_irqsave(&qp->lock, flags);
	for (; wr; wr = wr->next) {
		err = to_send(dev, qp, wr, &req);
		if (err)
			break;
		if (ring_open(qp)) {
			err = t3_wq_post_send(&qp->wq, &req);
			ring = ring || !err;
		} else {
			req.flags |= T3_WR_F_COMPLETION;
			err = t3_wq_defer_send(&qp->wq, &req);
			late = late || !err;
		}
		if (err)
			break;
	}
	spin_unlock_irqrestore(&qp->lock, flags);

	if (err)
		*bad_wr = wr;
	/* Also for the requests that were placed before a bad one. */
	if (ring)
		t3_ring_doorbell(dev, qp->id);
	if (late)
		flush_late(qp, to_t3_cq(ibqp->send_cq));
	return err;
}

static int post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad_wr)
{
	struct t3_dev *dev = to_t3_dev(ibqp->device);
	struct t3_qp *qp = to_t3_qp(ibqp);
	bool ring = false, late = false;
	struct t3_recv req;
	unsigned long flags;
	int err = 0;

	if (qp->user) {
		*bad_wr = wr;
		return -EOPNOTSUPP;
	}
	spin_lock_irqsave(&qp->lock, flags);
	for (; wr; wr = wr->next) {
		err = to_recv(dev, wr, &req);
		if (err)
			break;
		if (ring_open(qp)) {
			err = t3_wq_post_recv(&qp->wq, &req);
			ring = ring || !err;
		} else {
			err = t3_wq_defer_recv(&qp->wq, &req);
			late = late || !err;
		}
		if (err) {
			if (req.scratch)
				t3_pbl_free(dev, req.scratch, T3_PBL_GRANULE);
			break;
		}
	}
	spin_unlock_irqrestore(&qp->lock, flags);

	if (err)
		*bad_wr = wr;
	if (ring)
		t3_ring_doorbell(dev, qp->id);
	if (late)
		flush_late(qp, to_t3_cq(ibqp->recv_cq));
	return err;
}

/* --- life ----------------------------------------------------------------------- */

struct qp_sizes {
	u32 sq, rq, slots;
};

static int check_init(const struct ib_qp_init_attr *init, struct qp_sizes *sizes)
{
	const struct ib_qp_cap *cap = &init->cap;

	if (init->qp_type != IB_QPT_RC || init->create_flags || init->srq)
		return -EOPNOTSUPP;
	if (cap->max_send_wr >= T3_MAX_RQ_ENTRIES || cap->max_recv_wr >= T3_MAX_RQ_ENTRIES ||
	    cap->max_send_sge > T3_MAX_SGE || cap->max_recv_sge > T3_MAX_SGE ||
	    cap->max_inline_data > T3_MAX_INLINE)
		return -EINVAL;

	sizes->rq = max_t(u32, roundup_pow_of_two(cap->max_recv_wr + 1), T3_MIN_RQ_ENTRIES);
	sizes->sq = roundup_pow_of_two(max(cap->max_send_wr, 1U));
	sizes->slots = roundup_pow_of_two(sizes->rq + sizes->sq);
	return 0;
}

static int user_respond(struct t3_qp *qp, struct t3_ucontext *uc, struct ib_udata *udata)
{
	struct t3_dev *dev = t3_qp_dev(qp);
	struct t3_create_qp_resp resp = {
		.qpid = qp->id,
		.size_log2 = qp->wq.slots_log2,
		.sq_size_log2 = qp->wq.sq_log2,
		.rq_size_log2 = qp->wq.rq_log2,
	};
	phys_addr_t doorbell = dev->info.udbell_physbase +
			       ((phys_addr_t)(qp->id / dev->qp_group_size) << PAGE_SHIFT);
	int err;

	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	qp->map = t3_mmap_insert(uc, &qp->ring, qp->ring.size);
	if (IS_ERR(qp->map))
		return PTR_ERR(qp->map);
	qp->db_map = t3_mmap_insert_doorbell(uc, doorbell);
	if (IS_ERR(qp->db_map)) {
		err = PTR_ERR(qp->db_map);
		goto err_map;
	}
	resp.key = rdma_user_mmap_get_offset(&qp->map->rdma);
	resp.db_key = rdma_user_mmap_get_offset(&qp->db_map->rdma);
	err = t3_udata_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_db;
	return 0;

err_db:
	rdma_user_mmap_entry_remove(&qp->db_map->rdma);
err_map:
	rdma_user_mmap_entry_remove(&qp->map->rdma);
	return err;
}

static int kernel_arrays(struct t3_qp *qp)
{
	qp->wq.sq = kvcalloc(t3_sq_size(&qp->wq), sizeof(*qp->wq.sq), GFP_KERNEL);
	qp->wq.rq = kvcalloc(t3_rq_size(&qp->wq), sizeof(*qp->wq.rq), GFP_KERNEL);
	if (qp->wq.sq && qp->wq.rq)
		return 0;
	kvfree(qp->wq.sq);
	kvfree(qp->wq.rq);
	return -ENOMEM;
}

/*
 * The tables in which a QP is found by its id: the device's, and for a kernel QP those of
 * its CQs, which have the id in an entry. A slot is reserved while creation may still
 * fail. It is filled when nothing can fail any more, and until then no lookup finds it: an
 * id is easily guessed, and a connection may be made of whatever QP is found.
 */
static int t3_qp_reserve(struct t3_qp *qp)
{
	struct t3_cq *scq = to_t3_cq(qp->ibqp.send_cq), *rcq = to_t3_cq(qp->ibqp.recv_cq);
	struct t3_dev *dev = t3_qp_dev(qp);
	int err;

	err = xa_reserve_irq(&dev->qps, qp->id, t3_gfp(qp->user));
	if (err || qp->user)
		return err;
	err = xa_reserve_irq(&scq->qps, qp->id, GFP_KERNEL);
	if (err)
		goto err_dev;
	/* Nothing more to do if they are the same. */
	err = xa_reserve_irq(&rcq->qps, qp->id, GFP_KERNEL);
	if (err)
		goto err_scq;
	return 0;

err_scq:
	xa_erase_irq(&scq->qps, qp->id);
err_dev:
	xa_erase_irq(&dev->qps, qp->id);
	return err;
}

static void t3_qp_unreserve(struct t3_qp *qp)
{
	xa_erase_irq(&t3_qp_dev(qp)->qps, qp->id);
	xa_erase_irq(&to_t3_cq(qp->ibqp.send_cq)->qps, qp->id);
	xa_erase_irq(&to_t3_cq(qp->ibqp.recv_cq)->qps, qp->id);
}

/* Into reserved slots, which needs no memory. */
static void t3_qp_publish(struct t3_qp *qp)
{
	if (!qp->user) {
		xa_store_irq(&to_t3_cq(qp->ibqp.send_cq)->qps, qp->id, qp, 0);
		xa_store_irq(&to_t3_cq(qp->ibqp.recv_cq)->qps, qp->id, qp, 0);
	}
	WARN_ON_ONCE(xa_err(xa_store_irq(&t3_qp_dev(qp)->qps, qp->id, qp, 0)));
}

static void leave_cqs(struct t3_qp *qp)
{
	struct t3_cq *scq = to_t3_cq(qp->ibqp.send_cq), *rcq = to_t3_cq(qp->ibqp.recv_cq);

	t3_cq_purge_qp(qp);
	xa_erase_irq(&scq->qps, qp->id);
	xa_erase_irq(&rcq->qps, qp->id);
	/* Whoever polls now does not find the QP; whoever did has let go of it. */
	t3_cq_purge_qp(qp);
	if (qp->rtr_entry)
		atomic_inc(&scq->rtr_left);
}

static int create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct t3_ucontext *uc = rdma_udata_to_drv_context(udata, struct t3_ucontext, ibucontext);
	struct t3_dev *dev = to_t3_dev(ibqp->device);
	struct t3_qp *qp = to_t3_qp(ibqp);
	struct qp_sizes sizes;
	int id, err;

	err = check_init(init, &sizes);
	if (err)
		return err;
	err = t3_udata_empty(udata);
	if (err)
		return err;

	qp->user = uc;
	qp->groups = uc ? &uc->groups : &dev->kernel_groups;
	qp->sq_sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->max_ord = 1;
	qp->max_ird = 1;
	qp->access = IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE;
	qp->wq.slots_log2 = ilog2(sizes.slots);
	qp->wq.sq_log2 = ilog2(sizes.sq);
	qp->wq.rq_log2 = ilog2(sizes.rq);
	spin_lock_init(&qp->lock);
	qp->sq = (struct t3_half){ .qp = qp, .send = true };
	qp->rq = (struct t3_half){ .qp = qp, .send = false };
	INIT_LIST_HEAD(&qp->sq.node);
	INIT_LIST_HEAD(&qp->rq.node);
	kref_init(&qp->ref);
	init_completion(&qp->released);

	id = t3_qp_id_get(dev, qp->groups, t3_gfp(uc));
	if (id < 0)
		return id;
	qp->id = id;
	qp->rqt_addr = t3_rqt_alloc(dev, qp->groups->quota, sizes.rq);
	if (!qp->rqt_addr) {
		err = -ENOMEM;
		goto err_id;
	}
	err = t3_dma_alloc(dev, &qp->ring, (size_t)sizes.slots * T3_WR_SLOT_BYTES, t3_gfp(uc));
	if (err)
		goto err_rqt;
	qp->wq.slots = qp->ring.va;
	if (!qp->user) {
		err = kernel_arrays(qp);
		if (err)
			goto err_ring;
	}
	err = t3_qp_reserve(qp);
	if (err)
		goto err_arrays;
	T3_RACE_POINT(t3_create_qp_made);
	if (uc) {
		err = user_respond(qp, uc, udata);
		if (err)
			goto err_reserved;
	}

	ibqp->qp_num = qp->id;
	init->cap.max_send_wr = sizes.sq;
	init->cap.max_recv_wr = sizes.rq - 1;
	init->cap.max_inline_data = T3_MAX_INLINE;
	t3_qp_publish(qp);
	T3_RACE_POINT(t3_create_qp_published);
	/* Who switches doorbells off or on from now on finds the QP. */
	if (uc)
		t3_doorbell_init(qp);
	return 0;

err_reserved:
	t3_qp_unreserve(qp);
err_arrays:
	kvfree(qp->wq.sq);
	kvfree(qp->wq.rq);
err_ring:
	if (IS_ERR_OR_NULL(qp->map))
		t3_dma_free(dev, &qp->ring);
err_rqt:
	t3_rqt_free(dev, qp->groups->quota, qp->rqt_addr, sizes.rq);
err_id:
	t3_qp_id_put(dev, qp->groups, qp->id);
	return err;
}

static int destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(ibqp->device);
	struct t3_qp *qp = to_t3_qp(ibqp);

	t3_qp_report(qp, T3_QPEV_DESTROY);
	T3_RACE_POINT(t3_destroy_qp_stepped);
	xa_erase_irq(&dev->qps, qp->id);
	T3_RACE_POINT(t3_destroy_qp_erased);
	if (qp->found_by_cm)
		synchronize_rcu_expedited();	/* see iw_get_qp() */
	t3_qp_put(qp);
	/* A connection that has begun ends by the state; one that is only asked for, here. */
	if (!READ_ONCE(qp->busy) && !completion_done(&qp->released))
		t3_cm_qp_goes(dev, qp->id);
	/* The connection's reference goes when the card is through with the ring. */
	wait_for_completion(&qp->released);

	T3_RACE_POINT(t3_destroy_qp_released);
	leave_cqs(qp);
	free_scratch(qp);
	kvfree(qp->wq.sq);
	kvfree(qp->wq.rq);
	if (qp->map) {
		rdma_user_mmap_entry_remove(&qp->db_map->rdma);
		rdma_user_mmap_entry_remove(&qp->map->rdma);
	} else {
		t3_dma_free(dev, &qp->ring);
	}
	t3_rqt_free(dev, qp->groups->quota, qp->rqt_addr, t3_rq_size(&qp->wq));
	t3_qp_id_put(dev, qp->groups, qp->id);
	return 0;
}

static int fill_res_conn(struct sk_buff *msg, const struct t3_conn_attrs *conn)
{
	if (rdma_nl_put_driver_u32_hex(msg, "tid", conn->tid) ||
	    rdma_nl_put_driver_u32(msg, "mpa_rev", conn->mpa_rev) ||
	    rdma_nl_put_driver_u32(msg, "mpa_crc", !!(conn->mpa_attrs & T3_MPA_CRC)) ||
	    rdma_nl_put_driver_u32(msg, "rx_markers", !!(conn->mpa_attrs & T3_MPA_RX_MARKERS)) ||
	    rdma_nl_put_driver_u32(msg, "tx_markers", !!(conn->mpa_attrs & T3_MPA_TX_MARKERS)) ||
	    rdma_nl_put_driver_string(msg, "rtr", t3_rtr_name(conn->rtr_type)) ||
	    rdma_nl_put_driver_u32(msg, "ird", conn->ird) ||
	    rdma_nl_put_driver_u32(msg, "ord", conn->ord))
		return -EMSGSIZE;
	return 0;
}

/*
 * The values of one point in time: a connection may begin or end meanwhile. The requests of
 * a user QP are posted and counted by its library alone, so they are left out.
 */
static int fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct t3_qp *qp = to_t3_qp(ibqp);
	struct t3_conn_attrs conn;
	enum t3_qp_state state;
	struct nlattr *table;
	unsigned long flags;
	u32 sends, recvs;
	bool connected;

	spin_lock_irqsave(&qp->lock, flags);
	state = qp->state;
	conn = qp->conn;
	connected = qp->ep;
	sends = qp->wq.sq_wptr - qp->wq.sq_rptr;
	recvs = qp->wq.rq_wptr - qp->wq.rq_rptr;
	spin_unlock_irqrestore(&qp->lock, flags);

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_string(msg, "t3_state", t3_qp_state_name(state)) ||
	    rdma_nl_put_driver_u32(msg, "slots", t3_wq_slots(&qp->wq)) ||
	    rdma_nl_put_driver_u32(msg, "sq", t3_sq_size(&qp->wq)) ||
	    rdma_nl_put_driver_u32(msg, "rq", t3_rq_size(&qp->wq)) ||
	    rdma_nl_put_driver_u32(msg, "user", qp->user) ||
	    (!qp->user && rdma_nl_put_driver_u32(msg, "sends", sends)) ||
	    (!qp->user && rdma_nl_put_driver_u32(msg, "recvs", recvs)) ||
	    (connected && fill_res_conn(msg, &conn))) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}

const struct ib_device_ops t3_qp_ops = {
	.create_qp	= create_qp,
	.destroy_qp	= destroy_qp,
	.modify_qp	= modify_qp,
	.query_qp	= query_qp,
	.post_send	= post_send,
	.post_recv	= post_recv,
	.fill_res_qp_entry = fill_res_qp_entry,
	.iw_add_ref	= iw_add_ref,
	.iw_rem_ref	= iw_rem_ref,
	.iw_get_qp	= iw_get_qp,

	INIT_RDMA_OBJ_SIZE(ib_qp, t3_qp, ibqp),
};
