// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs: lookup, states, flushing, the begin and the end of a connection.
 */
#include <linux/skbuff.h>

#include "uapi/t3_abi.h"
#include "verbs.h"
#include "trace.h"

/* --- references ------------------------------------------------------------- */

static void t3_qp_release(struct kref *ref)
{
	complete(&container_of(ref, struct t3_qp, ref)->released);
}

void t3_qp_get(struct t3_qp *qp)
{
	kref_get(&qp->ref);
}

void t3_qp_put(struct t3_qp *qp)
{
	kref_put(&qp->ref, t3_qp_release);
}

/* The table's lock keeps a QP that was found in it from being freed. */
static bool t3_qp_tryget(struct t3_dev *dev, struct t3_qp *qp)
{
	lockdep_assert_held(&dev->qps.xa_lock);
	return !qp->dying && kref_get_unless_zero(&qp->ref);
}

struct t3_qp *t3_qp_find(struct t3_dev *dev, u32 id)
{
	struct t3_qp *qp;
	unsigned long flags;

	xa_lock_irqsave(&dev->qps, flags);
	qp = xa_load(&dev->qps, id);
	if (qp && !t3_qp_tryget(dev, qp))
		qp = NULL;
	xa_unlock_irqrestore(&dev->qps, flags);
	return qp;
}

/* The next QP of the device from *id to last, with a reference, or NULL. Sets *id to its id. */
struct t3_qp *t3_qp_next(struct t3_dev *dev, unsigned long *id, unsigned long last)
{
	unsigned long flags;
	struct t3_qp *qp;

	xa_lock_irqsave(&dev->qps, flags);
	do {
		qp = xa_find(&dev->qps, id, last, XA_PRESENT);
	} while (qp && !t3_qp_tryget(dev, qp) && ++*id);
	xa_unlock_irqrestore(&dev->qps, flags);
	return qp;
}

/* --- status word of a user QP, and flushing ------------------------------------ */

/* The library sets only T3_QP_STATUS_STOPPED. A reset clears all bits. */
void t3_qp_set_status(struct t3_qp *qp, u64 set, u64 clear)
{
	t3_status_change(qp->ring.va + T3_QP_STATUS_OFFSET, set, clear);
}

static void t3_qp_notify_cqs(struct t3_qp *qp)
{
	t3_cq_notify(to_t3_cq(qp->ibqp.recv_cq));
	if (qp->ibqp.send_cq != qp->ibqp.recv_cq)
		t3_cq_notify(to_t3_cq(qp->ibqp.send_cq));
}

/*
 * Flush outstanding requests, if the card does not access them any more. A user QP is flushed
 * by its library, which reads the status words of QP and CQs. A thread of the process that
 * sleeps until the next completion event must be woken up for that.
 */
static void t3_qp_flush(struct t3_qp *qp)
{
	unsigned long flags;
	bool flush;

	spin_lock_irqsave(&qp->lock, flags);
	flush = t3_qp_flushable(qp);
	if (flush && qp->user)
		t3_qp_set_status(qp, T3_QP_STATUS_ERROR, 0);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (!flush)
		return;

	t3_count(t3_qp_dev(qp), T3_CNT_FLUSHED_QP);
	if (qp->user) {
		t3_cq_set_user_error(to_t3_cq(qp->ibqp.send_cq));
		t3_cq_set_user_error(to_t3_cq(qp->ibqp.recv_cq));
	} else {
		t3_cq_flush_qp(qp);
	}
	t3_qp_notify_cqs(qp);
}

/*
 * The consumer may free a buffer as soon as its request completes, and the buffers of a kernel
 * consumer are not protected by an STag. So every QP that was connected is flushed here: the
 * card has sent its last message about the connection, or has lost its bus mastering.
 */
void t3_qp_disconnected(struct t3_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	qp->busy = false;
	spin_unlock_irqrestore(&qp->lock, flags);
	t3_pd_put_user(to_t3_pd(qp->ibqp.pd));
	t3_qp_flush(qp);
	t3_qp_put(qp);
}

/* --- states --------------------------------------------------------------------- */

void t3_qp_free_scratch(struct t3_qp *qp)
{
	struct t3_wq *wq = &qp->wq;
	u32 i;

	for (i = wq->rq_rptr; wq->rq && i != wq->rq_wptr; i++)
		if (t3_rq_at(wq, i)->pbl_addr)
			t3_pbl_free(t3_qp_dev(qp), NULL, t3_rq_at(wq, i)->pbl_addr, T3_PBL_GRANULE);
}

/* Clear the ring and all counters: the next connection starts at slot 0. */
static void t3_qp_reset_ring(struct t3_qp *qp)
{
	const size_t after = T3_QP_STATUS_OFFSET + sizeof(u64);
	struct t3_wq *wq = &qp->wq;

	lockdep_assert_held(&qp->lock);
	t3_qp_free_scratch(qp);
	/* T3_QP_STATUS_DB_OFF belongs to the doorbells of the device, not to the connection. */
	memset(qp->ring.va, 0, T3_QP_STATUS_OFFSET);
	t3_qp_set_status(qp, 0, ~T3_QP_STATUS_DB_OFF);
	memset(qp->ring.va + after, 0, qp->ring.size - after);
	qp->term = (struct t3_term){};
	qp->bad_entry = false;
	wq->rtr_expected = false;
	wq->wptr = 0;
	wq->sq_wptr = 0;
	wq->sq_rptr = 0;
	wq->rq_wptr = 0;
	wq->rq_rptr = 0;
	wq->rq_done = 0;
	qp->used = false;
}

/* The transition of the table, with the conditions that are not part of the state; or NULL. */
static const struct t3_transition *t3_qp_next_transition(const struct t3_qp *qp,
							 enum t3_qp_event ev)
{
	const struct t3_transition *to;

	lockdep_assert_held(&qp->lock);
	to = t3_qp_fsm(qp->state, ev);
	if (to && to->actions & T3_QPA_RESET && (qp->busy || qp->resetting))
		return NULL;
	/* The card starts at slot 0: a ring that was used must be reset first. */
	if (ev == T3_QPEV_CONNECT && (qp->busy || qp->resetting || qp->used))
		return NULL;
	return to;
}

/*
 * A reset discards the completions that the CQs still hold. CQ locks are taken before the QP's
 * lock, so the CQs are purged without it, and the resetting flag refuses a connect meanwhile.
 * False if the reset is refused; then the CQs keep their completions.
 */
static bool t3_qp_begin_reset(struct t3_qp *qp)
{
	unsigned long flags;
	bool granted;

	spin_lock_irqsave(&qp->lock, flags);
	granted = t3_qp_next_transition(qp, T3_QPEV_USER_RESET);
	if (granted)
		qp->resetting = true;
	spin_unlock_irqrestore(&qp->lock, flags);
	if (granted)
		t3_cq_purge_qp(qp);
	return granted;
}

/*
 * The iWARP CM has a reference on the QP from before the connect until the reply, so a QP that has
 * no other reference than its own needs no walk of all endpoints.
 */
static void t3_qp_abort_connect(struct t3_qp *qp)
{
	smp_mb();	/* pairs with the one in t3_cm_qp_allows_connect() */
	if (kref_read(&qp->ref) > 1)
		t3_conn_ops.abort_connects(t3_qp_dev(qp), qp->serial);
}

int t3_qp_fsm_apply(struct t3_qp *qp, enum t3_qp_event ev)
{
	struct t3_ep *ep = NULL;
	const struct t3_transition *to;
	struct t3_term term;
	unsigned long flags;
	enum t3_qp_state from;
	bool resetting, detached;

	resetting = ev == T3_QPEV_USER_RESET && t3_qp_begin_reset(qp);
	spin_lock_irqsave(&qp->lock, flags);
	if (resetting)
		qp->resetting = false;
	to = t3_qp_next_transition(qp, ev);
	/* A reset that was refused above stays refused: the CQs were not purged. */
	if (ev == T3_QPEV_USER_RESET && !resetting)
		to = NULL;
	from = qp->state;
	trace_t3_qp_state(qp, from, ev, to);
	if (!to) {
		spin_unlock_irqrestore(&qp->lock, flags);
		t3_count(t3_qp_dev(qp), T3_CNT_QP_BAD_EVENT);
		ibdev_dbg(qp->ibqp.device, "qp %u: %s refused in %s\n", qp->id,
			  t3_qp_event_name(ev), t3_qp_state_name(from));
		return -EINVAL;
	}
	qp->state = to->next;
	if (to->actions & T3_QPA_MARK_ERROR && qp->user)
		t3_qp_set_status(qp, T3_QP_STATUS_STOPPED, 0);
	if (to->actions & T3_QPA_RESET)
		t3_qp_reset_ring(qp);
	term = qp->term;
	detached = to->actions & T3_QPA_DROP_EP;
	if (detached) {
		ep = qp->ep;
		qp->ep = NULL;
	} else if (qp->ep &&
		   to->actions & (T3_QPA_TERMINATE | T3_QPA_DISCONNECT | T3_QPA_LIMIT_CLOSE)) {
		ep = qp->ep;
		t3_conn_ops.get(ep);
	}
	spin_unlock_irqrestore(&qp->lock, flags);

	/* A connected QP is flushed by t3_qp_disconnected(). */
	if (to->actions & T3_QPA_FLUSH)
		t3_qp_flush(qp);
	if (to->actions & T3_QPA_ABORT_CONNECT)
		t3_qp_abort_connect(qp);
	if (!ep)
		return 0;
	if (to->actions & T3_QPA_TERMINATE)
		t3_conn_ops.terminate(ep, term);
	if (to->actions & (T3_QPA_DISCONNECT | T3_QPA_ABORT))
		t3_conn_ops.disconnect(ep, to->actions & T3_QPA_ABORT, t3_qp_event_may_sleep(ev));
	if (to->actions & T3_QPA_LIMIT_CLOSE)
		t3_conn_ops.limit_close(ep);
	t3_conn_ops.put(ep);
	return 0;
}

/*
 * Rights of the peer and of the consumer. Access flags of 0 grant all remote access, because
 * rdma_cm moves each QP to INIT with 0 before it connects, whatever its owner intends.
 * Otherwise exactly the named remote rights are granted.
 */
static u8 t3_qp_caps(const struct t3_qp *qp)
{
	u8 caps = t3_memory_windows ? T3_QPCAP_BIND : 0;

	lockdep_assert_held(&qp->lock);
	if (!qp->access || qp->access & IB_ACCESS_REMOTE_READ)
		caps |= T3_QPCAP_RDMA_READ;
	if (!qp->access || qp->access & IB_ACCESS_REMOTE_WRITE)
		caps |= T3_QPCAP_RDMA_WRITE;
	/* STag 0 addresses all of memory by bus address: never for user space. */
	return qp->user ? caps : caps | T3_QPCAP_FASTREG | T3_QPCAP_STAG0;
}

/*
 * The response to an RTR read takes an entry of the send CQ that no request of the consumer
 * accounts for, and the card overwrites unread entries of a full CQ. So a connection that opens
 * with an RTR read reserves a spare entry. The QP keeps it until it is destroyed. False if the
 * CQ has no spare entry left.
 */
bool t3_qp_reserve_rtr_entry(struct t3_qp *qp)
{
	struct t3_cq *cq = to_t3_cq(qp->ibqp.send_cq);
	unsigned long flags;
	bool reserved;

	spin_lock_irqsave(&qp->lock, flags);
	if (!qp->rtr_entry)
		qp->rtr_entry = atomic_dec_if_positive(&cq->rtr_avail) >= 0;
	reserved = qp->rtr_entry;
	spin_unlock_irqrestore(&qp->lock, flags);
	return reserved;
}

bool t3_qp_allows_remote_read(struct t3_qp *qp)
{
	unsigned long flags;
	bool allowed;

	spin_lock_irqsave(&qp->lock, flags);
	allowed = t3_qp_caps(qp) & T3_QPCAP_RDMA_READ;
	spin_unlock_irqrestore(&qp->lock, flags);
	return allowed;
}

int t3_qp_connect(struct t3_qp *qp, struct t3_ep *ep,
		  const struct t3_conn_attrs *attrs, bool *acked)
{
	const struct t3_wq *sizes = t3_qp_sizes_of(qp);
	struct t3_dev *dev = t3_qp_dev(qp);
	struct t3_rdma_init init = {
		.tid = attrs->tid,
		.qpid = qp->id,
		.pdid = to_t3_pd(qp->ibqp.pd)->id,
		.scqid = to_t3_cq(qp->ibqp.send_cq)->id,
		.rcqid = to_t3_cq(qp->ibqp.recv_cq)->id,
		.rq_addr = qp->rqt_addr - dev->info.rqt_base,
		.rq_size = t3_rq_size(sizes),
		.mpa_attrs = attrs->mpa_attrs,
		.rtr_type = attrs->rtr_type,
		.channel = attrs->channel,
		.initiator = attrs->initiator,
		.ulpdu_size = attrs->ulpdu_size,
		.ord = attrs->ord,
		.ird = attrs->ird,
		.ring_dma = qp->ring.dma,
		.ring_slots = t3_wq_slots(sizes),
		.irs = attrs->irs,
	};
	const struct t3_transition *to;
	struct sk_buff *skb;
	unsigned long flags;
	int err;

	skb = alloc_skb(sizeof(struct t3_wr_rdma_init), GFP_KERNEL);
	if (!skb)
		return -ENOMEM;

	spin_lock_irqsave(&qp->lock, flags);
	init.qp_caps = t3_qp_caps(qp);
	to = t3_qp_next_transition(qp, T3_QPEV_CONNECT);
	/* The peer opens with a zero-length RDMA READ and needs the right for it. */
	if (attrs->rtr_type == T3_RTR_READ && !attrs->initiator &&
	    !(init.qp_caps & T3_QPCAP_RDMA_READ))
		to = NULL;
	trace_t3_qp_state(qp, qp->state, T3_QPEV_CONNECT, to);
	if (!to) {
		spin_unlock_irqrestore(&qp->lock, flags);
		t3_count(dev, T3_CNT_QP_BAD_EVENT);
		kfree_skb(skb);
		return -EINVAL;
	}
	qp->state = to->next;
	qp->used = true;
	qp->busy = true;
	qp->ep = ep;
	qp->conn = *attrs;
	qp->wq.rtr_expected = attrs->initiator && attrs->rtr_type == T3_RTR_READ;
	t3_conn_ops.get(ep);
	t3_qp_get(qp);
	t3_pd_get_user(to_t3_pd(qp->ibqp.pd));
	init.rqe_count = t3_wq_leading_recvs(&qp->wq);
	spin_unlock_irqrestore(&qp->lock, flags);

	WRITE_ONCE(*acked, init.rqe_count);	/* a CPL handler reads it */
	t3_wr_build_rdma_init(skb_put(skb, sizeof(struct t3_wr_rdma_init)), &init);
	skb->priority = CPL_PRIORITY_DATA;
	err = t3_dev_send(dev, skb);
	if (err) {
		t3_qp_fsm_apply(qp, T3_QPEV_LOST);
		t3_qp_disconnected(qp);
	}
	return err;
}

/*
 * An iWARP QP has no RESET state that a consumer can see: it takes receives from its creation
 * on, which verbs allows in INIT. All in-tree iWARP drivers report INIT too.
 */
enum ib_qp_state t3_qp_verbs_state(const struct t3_qp *qp)
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

bool t3_qp_in_state(struct t3_qp *qp, enum ib_qp_state state)
{
	unsigned long flags;
	bool same;

	spin_lock_irqsave(&qp->lock, flags);
	same = t3_qp_verbs_state(qp) == state;
	spin_unlock_irqrestore(&qp->lock, flags);
	return same;
}
