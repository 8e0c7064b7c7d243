// SPDX-License-Identifier: GPL-2.0
/*
 * Events of a queue pair: errors that the card or the peer reports, and entries of a CQ that
 * contradict the requests of a kernel QP.
 */
#include "verbs.h"

/* For events of a QP only: uverbs counts every event of this handler to the QP. */
static void t3_qp_dispatch(struct t3_qp *qp, enum ib_event_type type)
{
	struct ib_event event = {
		.device = qp->ibqp.device,
		.element.qp = &qp->ibqp,
		.event = type,
	};

	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
}

static enum ib_event_type t3_ae_event_type(enum t3_ae_class class)
{
	switch (class) {
	case T3_AE_ACCESS:
		return IB_EVENT_QP_ACCESS_ERR;
	case T3_AE_REQUEST:
	case T3_AE_TERM_RCVD:
		return IB_EVENT_QP_REQ_ERR;
	default:
		return IB_EVENT_QP_FATAL;
	}
}

/* An error, detected here or by the peer. Only the first one of a QP is handled. */
void t3_qp_async_error(struct t3_qp *qp, const struct t3_cqe *cqe, enum t3_ae_class class)
{
	struct t3_dev *dev = t3_qp_dev(qp);
	unsigned long flags;
	bool first;

	spin_lock_irqsave(&qp->lock, flags);
	first = qp->state != T3_QPS_ERROR && qp->state != T3_QPS_TERMINATE;
	if (first) {
		qp->term = t3_term_for(t3_cqe_status(cqe), t3_cqe_opcode(cqe),
				       t3_cqe_is_sq(cqe));
		if (!qp->user)
			t3_wq_record_error(&qp->wq, cqe);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	if (!first)
		return;

	ibdev_dbg(&dev->ibdev, "qp %u: %s, opcode %u of the %s queue\n", qp->id,
		  class == T3_AE_TERM_RCVD ? "terminated by the peer" :
					     t3_status_name(t3_cqe_status(cqe)),
		  t3_cqe_opcode(cqe), t3_cqe_is_sq(cqe) ? "send" : "receive");
	t3_count(dev, class == T3_AE_TERM_RCVD ? T3_CNT_TERM_RCVD : T3_CNT_AE_ERROR);
	/* Refused if the connection has closed since: then the consumer has no error either. */
	if (!t3_qp_fsm_apply(qp, class == T3_AE_TERM_RCVD ? T3_QPEV_TERM_RCVD :
							    T3_QPEV_PROTO_ERROR))
		t3_qp_dispatch(qp, t3_ae_event_type(class));
	/* Memory or logic of the card has failed, not only the QP. */
	if (class == T3_AE_DEVICE)
		t3_dev_dispatch(dev, IB_EVENT_DEVICE_FATAL, 0);
}

/*
 * An entry in a CQ contradicts the requests of a kernel QP. A QP that was reset meanwhile has
 * other requests.
 */
void t3_qp_bad_entry_work(struct work_struct *work)
{
	struct t3_qp *qp = container_of(work, struct t3_qp, bad_entry_work);
	struct t3_cqe cqe;
	bool bad;

	spin_lock_irq(&qp->lock);
	bad = qp->bad_entry;
	cqe = qp->bad_cqe;
	spin_unlock_irq(&qp->lock);
	if (bad)
		t3_qp_async_error(qp, &cqe, T3_AE_FATAL);
}
