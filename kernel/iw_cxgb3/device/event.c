// SPDX-License-Identifier: GPL-2.0
/*
 * Events: those of CQs, QPs and the control QP, which arrive as async events on response queue 0
 * in softirq, and those of the adapter, from the NIC driver in process context.
 */
#include <linux/random.h>

#include "device.h"
#include "trace.h"

/* --- events for consumers ------------------------------------------------------ */

static void t3_cq_dispatch(struct t3_cq *cq, enum ib_event_type type)
{
	struct ib_event event = {
		.device = cq->ibcq.device,
		.element.cq = &cq->ibcq,
		.event = type,
	};

	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

/* --- async events ----------------------------------------------------------- */

/* The QP's endpoint with a reference, or NULL. */
static struct t3_ep *t3_qp_get_ep(struct t3_qp *qp)
{
	struct t3_ep *ep;
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	ep = qp->ep;
	if (ep)
		t3_ep_get(ep);
	spin_unlock_irqrestore(&qp->lock, flags);
	return ep;
}

static void t3_qp_async_event(struct t3_qp *qp, const struct t3_cqe *cqe, enum t3_ae_class class)
{
	struct t3_ep *ep;

	switch (class) {
	case T3_AE_COMPLETION:
		/* A completed request was acknowledged by the peer. */
		if (!t3_cqe_is_sq(cqe))
			break;
		ep = t3_qp_get_ep(qp);
		if (!ep)
			break;
		t3_ep_confirm_neigh(ep);
		t3_ep_put(ep);
		break;
	case T3_AE_TERM_SENT:
		ep = t3_qp_get_ep(qp);
		if (!ep)
			break;
		t3_ep_disconnect(ep, false, false);
		t3_ep_put(ep);
		break;
	default:
		t3_qp_async_error(qp, cqe, class);
		break;
	}
}

/*
 * The card has dropped an entry, so completions are missing. It reports that only
 * for a CQ that counts credits (overflow mode 1), and ours do not; firmware may
 * report it nevertheless. Reported once for each CQ, since the lost completions
 * do not come back.
 */
static void t3_cq_overflowed(struct t3_dev *dev, struct t3_cq *cq)
{
	if (xchg(&cq->overflowed, true))
		return;
	ibdev_dbg(&dev->ibdev, "cq %u: overflow\n", cq->id);
	t3_count(dev, T3_CNT_CQ_OVERFLOW);
	t3_cq_dispatch(cq, IB_EVENT_CQ_ERR);
}

/* An event with a CQ entry: for the CQ, and for the QP that the entry names. */
static void t3_cqe_async_event(struct t3_dev *dev, const struct t3_async_event *ae)
{
	u32 cq_id = be32_to_cpu(ae->cq) & T3_AE_CQ_ID;
	enum t3_ae_class class = t3_ae_classify(&ae->cqe);
	struct t3_cq *cq = t3_cq_find(dev, cq_id);
	struct t3_qp *qp = t3_qp_find(dev, t3_cqe_qpid(&ae->cqe));

	trace_t3_async_event(ae);
	WRITE_ONCE(dev->async_events, dev->async_events + 1);
	if (!cq || !qp)
		t3_count(dev, T3_CNT_AE_NO_OBJECT);
	if (qp) {
		t3_qp_async_event(qp, &ae->cqe, class);
		t3_qp_put(qp);
	}
	/*
	 * This event has disarmed the CQ, so its consumer must be notified even
	 * if the QP is gone: other QPs use the CQ too. After an error this wakes
	 * a thread that has to flush its QP.
	 */
	if (cq) {
		if (be32_to_cpu(ae->flags) & T3_AE_OVERFLOW)
			t3_cq_overflowed(dev, cq);
		t3_cq_written(cq);
		t3_cq_put(cq);
	}
}

/* Softirq. The NIC driver frees the buffer. */
int t3_async_event(struct t3cdev *tdev, struct sk_buff *skb)
{
	const struct t3_async_event *ae = (const void *)skb->data;
	struct t3_dev *dev = t3_dev_of(tdev);
	u32 qpid;

	if (!dev || skb_headlen(skb) < sizeof(*ae))
		return CPL_RET_BUF_DONE;
	qpid = t3_cqe_qpid(&ae->cqe);
	if (qpid == T3_CTRL_QP_CONTEXT)
		t3_ctrl_completed(dev, ae->cqe.u.sq.wrid_lo);
	else if (qpid == T3_CTRL_QUEUE_CONTEXT)
		t3_ctrl_modified(dev);
	else
		t3_cqe_async_event(dev, ae);
	return CPL_RET_BUF_DONE;
}

/* --- adapter events -------------------------------------------------------------- */

/*
 * Process context, with the NIC driver's client lock held, and sometimes rtnl.
 * port.c handles events of the ports' interfaces.
 */
void t3_adapter_event(struct t3_dev *dev, u32 event)
{
	switch (event) {
	case OFFLOAD_STATUS_DOWN:
		/* remove follows, with rtnl held */
		set_bit(T3_DEV_DOWN, &dev->flags);
		t3_dev_fatal(dev, "the adapter is being reset");
		break;
	case OFFLOAD_DB_FULL:
		t3_doorbells_off(dev);
		break;
	case OFFLOAD_DB_EMPTY:
		/* Takes a while if there are many QPs, and cxgb3's client lock is held here. */
		mod_delayed_work(t3_workqueue, &dev->db_work, 0);
		break;
	case OFFLOAD_DB_DROP:
		t3_count(dev, T3_CNT_DB_DROP);
		t3_doorbells_off(dev);
		/* Random, so that the hosts of a cluster do not ring at the same time. */
		mod_delayed_work(t3_workqueue, &dev->db_work,
				 usecs_to_jiffies(1000 + (get_random_u32() & 1023)));
		break;
	}
}
