// SPDX-License-Identifier: GPL-2.0
/* RoCE: the callbacks of ib_cm about connections, and what the consumer gets of them. */
#include <rdma/ib_cm.h>

#include "compat.h"
#include "rdma_cm.h"
#include "roce.h"
#include "trace.h"

/*
 * Posts an event from a callback. The callback may sleep, but actions that sleep are left to the
 * worker: cm_roce_close() may wait for a callback.
 */
static void cm_roce_post(struct cm_id *id, enum cm_slot slot, enum cm_event event, int status)
{
	cm_event_post(id, slot, event, status, CM_DISPATCH_ATOMIC);
}

static void cm_roce_refused(struct cm_id *id, const void *data, unsigned int len, int status)
{
	id->roce->refusal_len = len;
	if (len)
		memcpy(id->roce->refusal, data, len);
	cm_roce_post(id, CM_SLOT_CLOSE, CM_EV_REPLY_FAILED, status);
}

/* The REP of the peer: it has accepted. The process moves its QP, and then establishes. */
static void cm_roce_replied(struct cm_id *id, struct ib_cm_id *ib, const struct ib_cm_event *event)
{
	const struct ib_cm_rep_event_param *rep = &event->param.rep_rcvd;

	cm_roce_save_data(&id->peer, event->private_data, IB_CM_REP_PRIVATE_DATA_SIZE);
	id->peer.ird = rep->initiator_depth;
	id->peer.ord = rep->responder_resources;
	id->peer.flow_control = rep->flow_control;
	id->peer.rnr_retry_count = rep->rnr_retry_count;
	id->peer.srq = rep->srq;
	id->peer.qpn = rep->remote_qpn;
	id->peer.ece = rep->ece;
	t3_ib_cm_mra(ib, ROCE_MRA_TIMEOUT);
	cm_roce_post(id, CM_SLOT_OPEN, CM_EV_RESPONSE, 0);
}

/* The SIDR REP of a peer of datagrams. Its status 0 is an accept. */
static void cm_roce_sidr_replied(struct cm_id *id, const struct ib_cm_event *event)
{
	const struct ib_cm_sidr_rep_event_param *rep = &event->param.sidr_rep_rcvd;
	struct rdma_cm_id *cm = &id->base.id;
	struct cm_roce *roce = id->roce;
	int ret = rep->status;

	if (!ret)
		ret = cm_roce_set_qkey(id, rep->qkey);
	if (!ret)
		ret = ib_init_ah_attr_from_path(cm->device, cm->port_num, &roce->path, &roce->ah,
						rep->sgid_attr);
	if (ret) {
		cm_roce_refused(id, event->private_data, IB_CM_SIDR_REP_PRIVATE_DATA_SIZE, ret);
		return;
	}
	cm_roce_save_data(&id->peer, event->private_data, IB_CM_SIDR_REP_PRIVATE_DATA_SIZE);
	id->peer.qpn = rep->qpn;
	id->peer.qkey = rep->qkey;
	cm_roce_post(id, CM_SLOT_OPEN, CM_EV_REPLY_OK, 0);
}

/*
 * An event of ib_cm about a connection. Returns 0: the destroy of the id destroys the ib_cm_id.
 * Context: a worker of ib_cm; the callbacks of one ib_cm_id come one after the other.
 */
int cm_roce_callback(struct ib_cm_id *ib, const struct ib_cm_event *event)
{
	struct cm_id *id = ib->context;

	trace_cm_ib_upcall(id->number, event->event);
	switch (event->event) {
	case IB_CM_REQ_ERROR:
	case IB_CM_REP_ERROR:
	case IB_CM_SIDR_REQ_ERROR:
		cm_roce_refused(id, NULL, 0, -ETIMEDOUT);
		break;
	case IB_CM_REP_RECEIVED:
		cm_roce_replied(id, ib, event);
		break;
	case IB_CM_SIDR_REP_RECEIVED:
		cm_roce_sidr_replied(id, event);
		break;
	case IB_CM_RTU_RECEIVED:
		cm_roce_post(id, CM_SLOT_OPEN, CM_EV_ESTABLISHED, 0);
		break;
	case IB_CM_REJ_RECEIVED:
		cm_roce_refused(id, event->private_data, IB_CM_REJ_PRIVATE_DATA_SIZE,
				event->param.rej_rcvd.reason);
		break;
	case IB_CM_DREQ_RECEIVED:
	case IB_CM_DREP_RECEIVED:
		cm_roce_post(id, CM_SLOT_CLOSE, CM_EV_CLOSE, 0);
		break;
	case IB_CM_DREQ_ERROR:
		cm_roce_post(id, CM_SLOT_CLOSE, CM_EV_CLOSE, -ETIMEDOUT);
		break;
	case IB_CM_TIMEWAIT_EXIT:
		cm_roce_post(id, CM_SLOT_TIMEWAIT, CM_EV_TIMEWAIT_EXIT, 0);
		break;
	default:
		/* MRA_RECEIVED: ib_cm waits longer. The others are about alternate paths. */
		break;
	}
	return 0;
}

static void cm_roce_report_conn(struct cm_id *id, struct rdma_cm_event *report)
{
	struct rdma_conn_param *to = &report->param.conn;
	const struct cm_peer_params *peer = &id->peer;

	to->initiator_depth = peer->ird;
	to->responder_resources = peer->ord;
	to->flow_control = peer->flow_control;
	to->retry_count = peer->retry_count;
	to->rnr_retry_count = peer->rnr_retry_count;
	to->srq = peer->srq;
	to->qp_num = peer->qpn;
	to->private_data = peer->data;
	to->private_data_len = peer->len;
	report->ece = peer->ece;
}

void cm_roce_report(struct cm_id *id, enum cm_event event, struct rdma_cm_event *report)
{
	bool ud = cm_roce_is_ud(id);

	switch (event) {
	case CM_EV_REPLY_FAILED:
		/* Both begin with the private data. */
		report->param.conn.private_data = id->roce->refusal;
		report->param.conn.private_data_len = id->roce->refusal_len;
		break;
	case CM_EV_REQUEST:
	case CM_EV_REPLY_OK:
	case CM_EV_RESPONSE:
		if (!ud) {
			cm_roce_report_conn(id, report);
			break;
		}
		report->param.ud.private_data = id->peer.data;
		report->param.ud.private_data_len = id->peer.len;
		report->param.ud.ah_attr = id->roce->ah;
		report->param.ud.qp_num = id->peer.qpn;
		report->param.ud.qkey = id->peer.qkey;
		break;
	default:
		break;
	}
}
