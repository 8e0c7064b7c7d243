// SPDX-License-Identifier: GPL-2.0
/*
 * The iw_cm operations of consumers, the MPA negotiation, and the iw_cm events.
 *
 * Connect, accept and reject check what can be checked at once, and leave the rest to the
 * endpoint's runner, which usually is their own thread. It delivers the events with
 * no lock held.
 *
 * After an accept that returned 0, iw_cm takes nothing but ESTABLISHED, and then a CLOSE. So an
 * accept that fails later reports both, with its error. Until iw_cm has handled ESTABLISHED it
 * lets a consumer accept or reject again: t3_cm_accept_again(), t3_cm_reject().
 */
#include <linux/module.h>
#include <linux/slab.h>

#include <t3_update.h>

#include "cm.h"
#include "wire/rdmap.h"

#include "trace_cm.h"

static unsigned int mpa_rev = MPA_REVISION_2;
module_param(mpa_rev, uint, 0644);
MODULE_PARM_DESC(mpa_rev,
		 "MPA revision of outgoing connections: 2 (default) negotiates read depths and RTR, and is retried in 1; or 1. Requests in both revisions are accepted");

static bool crc_enabled = true;
module_param(crc_enabled, bool, 0644);
MODULE_PARM_DESC(crc_enabled, "request MPA CRCs (default Y); they are used if either side requests them");

static bool markers_enabled;
module_param(markers_enabled, bool, 0644);
MODULE_PARM_DESC(markers_enabled, "request MPA markers from the peer (default N)");

/*
 * After the end of a request that was accepted, provider_data is the QP on which iw_cm has a
 * reference, for t3_cm_accept_again(). It is not dereferenced: iw_cm may have put its reference.
 */
static void *t3_cm_ended(struct t3_qp *qp)
{
	return qp ? (void *)((unsigned long)qp | 1) : NULL;
}

static bool t3_cm_has_ended(const void *provider_data)
{
	return (unsigned long)provider_data & 1;
}

static struct t3_qp *t3_cm_ended_qp(void *provider_data)
{
	return (struct t3_qp *)((unsigned long)provider_data & ~1UL);
}

/*
 * Ready to receive (RTR). RFC 5044 allows the responder to send only after it has received
 * a message, but programs do not observe that: the server of an rsocket sends at once.
 * Revision 2 negotiates that the initiator starts with a zero-length RDMA READ. The card
 * holds the responder's send queue until the read arrives. In revision 1 the read is a
 * convention among T3s.
 */
enum { T3_P2P_NEVER, T3_P2P_ALWAYS, T3_P2P_NEGOTIATED };

static unsigned int peer2peer = T3_P2P_NEGOTIATED;
module_param(peer2peer, uint, 0644);
MODULE_PARM_DESC(peer2peer,
		 "the connecting side starts with a zero-length read, so that the accepting side may send first: 0 never, 2 (default) if MPA revision 2 negotiates it, 1 in revision 1 too, which both sides must then have");

static unsigned int ep_timeout_secs = 60;
module_param(ep_timeout_secs, uint, 0644);
MODULE_PARM_DESC(ep_timeout_secs,
		 "timeout in seconds for the peer or the card in each state of opening and closing (default 60)");

unsigned long t3_cm_timeout(void)
{
	return clamp(READ_ONCE(ep_timeout_secs), 1U, 3600U) * HZ;
}

/* The RTR message to negotiate. Of the three kinds the T3 can generate only the read. */
static u8 t3_cm_rtr_type(bool enhanced)
{
	unsigned int mode = READ_ONCE(peer2peer);
	bool use_rtr = enhanced ? mode != T3_P2P_NEVER : mode == T3_P2P_ALWAYS;

	return use_rtr ? T3_RTR_READ : T3_RTR_NONE;
}

/* What this end requires. Read once a connection, since the parameters may change. */
static u8 t3_cm_own_mpa_attrs(void)
{
	return T3_MPA_IETF | (READ_ONCE(crc_enabled) ? T3_MPA_CRC : 0) |
	       (READ_ONCE(markers_enabled) ? T3_MPA_RX_MARKERS : 0);
}

static u8 t3_cm_peer_mpa_attrs(const struct mpa_startup *peer)
{
	return (peer->crc ? T3_MPA_CRC : 0) | (peer->markers ? T3_MPA_TX_MARKERS : 0);
}

/* --- events to the consumer ---------------------------------------------- */

/* The read depths of an event are the peer's: its IRD is our ORD. */
static int t3_cm_upcall(struct iw_cm_id *cm_id, struct t3_ep *ep, enum iw_cm_event_type type,
			int status)
{
	struct iw_cm_event event = {
		.event = type,
		.status = status,
		.ird = ep->ord,
		.ord = ep->ird,
	};
	int err;

	memcpy(&event.local_addr, &ep->local, sizeof(ep->local));
	memcpy(&event.remote_addr, &ep->remote, sizeof(ep->remote));
	if (type == IW_CM_EVENT_CONNECT_REQUEST)
		event.provider_data = ep;
	if (ep->peer_pdata_len && (type == IW_CM_EVENT_CONNECT_REQUEST ||
				   type == IW_CM_EVENT_CONNECT_REPLY)) {
		event.private_data = (void *)ep->peer_pdata;
		event.private_data_len = ep->peer_pdata_len;
	}
	err = cm_id->event_handler(cm_id, &event);
	if (err != -ENOMEM || type != IW_CM_EVENT_CONNECT_REPLY || !event.private_data_len)
		return err;
	/*
	 * iw_cm had no memory for a copy of the private data, and lost the event: the consumer
	 * would wait forever, and a CLOSE is a BUG() of iw_cm then. Without the data it needs none.
	 */
	event.private_data = NULL;
	event.private_data_len = 0;
	return cm_id->event_handler(cm_id, &event);
}

void t3_cm_report_peer_close(struct t3_ep *ep)
{
	if (ep->cm_id && ep->est_reported && !READ_ONCE(ep->no_upcalls))
		t3_cm_upcall(ep->cm_id, ep, IW_CM_EVENT_DISCONNECT, 0);
}

/*
 * To a peer that implements only revision 1 a request in revision 2 is not MPA. It
 * resets or closes the connection without a reply.
 */
static bool t3_cm_peer_may_be_rev1(const struct t3_ep *ep)
{
	return ep->active && ep->mpa_rev != MPA_REVISION_1 && !ep->est_reported && !ep->rx_len;
}

static int t3_cm_post_connect(struct t3_ep *ep, struct iw_cm_id *cm_id, struct t3_qp *qp);

/*
 * Return: the QP of a connect, with a reference; or NULL if its owner has destroyed it, and if
 * another user's QP has its number by now. The manager may have no reference on it.
 */
static struct t3_qp *t3_cm_get_qp(const struct t3_ep *ep)
{
	struct t3_qp *qp = t3_qp_find(ep->dev, ep->qpn);

	if (qp && qp->serial != ep->qp_serial) {
		t3_qp_put(qp);
		return NULL;
	}
	return qp;
}

/* Connect again in revision 1: a new endpoint, which takes over the consumer. */
static bool t3_cm_retry_rev1(struct t3_ep *ep)
{
	struct iw_cm_id *cm_id = ep->cm_id;
	struct t3_ep *next;
	int ret;
	struct t3_qp *qp;

	if (!t3_cm_peer_may_be_rev1(ep))
		return false;
	might_sleep();	/* the messages that get here are not handled in softirq */
	qp = t3_cm_get_qp(ep);
	if (!qp)
		return false;
	next = t3_ep_alloc(ep->dev);
	if (IS_ERR(next)) {
		t3_qp_put(qp);
		return false;
	}

	next->quota = t3_quota_share(&ep->dev->quotas, ep->quota);
	next->net = ep->net;
	next->net_may_have_ended = true;
	next->local = ep->local;
	next->remote = ep->remote;
	next->tos = ep->tos;
	next->mpa_rev = MPA_REVISION_1;
	next->ord = ep->ord;
	next->ird = ep->ird;
	next->pdata_len = ep->pdata_len;
	memcpy(next->pdata, ep->pdata, ep->pdata_len);
	ret = t3_cm_post_connect(next, cm_id, qp);
	t3_ep_put(next);
	t3_qp_put(qp);
	if (ret)
		return false;
	/* The next endpoint has its own reference. */
	ep->cm_id = NULL;
	cm_id->rem_ref(cm_id);
	return true;
}

/* Reports the last events of a connection. */
static void t3_cm_upcall_end(struct iw_cm_id *cm_id, struct t3_ep *ep, enum ep_event event,
			     int status)
{
	if (ep->accept_pending) {
		ep->accept_pending = false;
		if (!status)
			status = -ECONNRESET;
		t3_cm_upcall(cm_id, ep, IW_CM_EVENT_ESTABLISHED, status);
		t3_cm_upcall(cm_id, ep, IW_CM_EVENT_CLOSE, status);
	} else if (ep->est_reported) {
		/* A FIN of the peer completes a graceful close: no error. */
		t3_cm_upcall(cm_id, ep, IW_CM_EVENT_CLOSE, event == EP_EV_PEER_CLOSE ? 0 : status);
	} else if (ep->active) {
		t3_cm_upcall(cm_id, ep, IW_CM_EVENT_CONNECT_REPLY, status ? status : -ECONNRESET);
	}
}

/*
 * Report the end to the consumer: the accept or the connect fails, or CLOSE. Called at
 * most once with a cm_id, because it drops the reference on it.
 */
void t3_cm_report_end(struct t3_ep *ep, enum ep_event event, int status)
{
	struct iw_cm_id *cm_id = ep->cm_id;

	if (!cm_id)
		return;
	/*
	 * After a FIN the first connection has its TID until both sides have closed. The
	 * retry waits for that. So a connect has one TID and one charge for it at any
	 * time, and the card has no other connection with the same four-tuple.
	 */
	if (ep->state == EP_LAST_ACK && t3_cm_peer_may_be_rev1(ep)) {
		ep->rev1_due = true;
		return;
	}
	if ((event == EP_EV_PEER_ABORT || (event == EP_EV_CLOSE_RPL && ep->rev1_due)) &&
	    t3_cm_retry_rev1(ep))
		return;

	spin_lock_bh(&ep->cm->lock);
	ep->cm_id = NULL;
	/* See t3_cm_accept_again(). */
	WRITE_ONCE(cm_id->provider_data, t3_cm_ended(ep->iw_cm_qp));
	spin_unlock_bh(&ep->cm->lock);
	if (!READ_ONCE(ep->no_upcalls))
		t3_cm_upcall_end(cm_id, ep, event, status);
	cm_id->rem_ref(cm_id);
}

/* --- RDMA mode ----------------------------------------------------------- */

static int t3_cm_enter_rdma(struct t3_ep *ep, struct t3_qp *qp)
{
	struct t3_conn_attrs attrs = {
		.tid = ep->tid,
		.channel = ep->smt_idx,
		.mpa_rev = ep->mpa_rev,
		.mpa_attrs = ep->mpa_attrs,
		.rtr_type = ep->rtr_type,
		.initiator = ep->active,
		.ulpdu_size = ep->emss,
		.ord = ep->ord,
		.ird = ep->ird,
		.irs = ep->rcv_nxt,
	};
	int ret;

	trace_t3_mpa_negotiated(ep);
	ret = t3_qp_connect(qp, ep, &attrs, &ep->init_unacked);
	if (!ret)
		ep->qp = qp;
	return ret;
}

/* The last streaming-mode message switches the card to RDMA mode (firmware 4.3). */
static void t3_cm_finish_accept(struct t3_ep *ep)
{
	int ret = t3_send_stream(ep, ep->tx_len);

	if (ret) {
		t3_ep_fsm_apply(ep, EP_EV_ABORT, ret);
		return;
	}
	if (t3_ep_fsm_apply(ep, EP_EV_INIT_DONE, 0))
		return;
	ep->accept_pending = false;
	ep->est_reported = true;
	if (!READ_ONCE(ep->no_upcalls))
		t3_cm_upcall(ep->cm_id, ep, IW_CM_EVENT_ESTABLISHED, 0);
}

static void t3_cm_send_rtr(struct t3_ep *ep)
{
	int ret = t3_send_rtr_read(ep);

	ep->rtr_due = false;
	if (ret)
		t3_ep_fsm_apply(ep, EP_EV_ABORT, ret);
}

/* The card has acknowledged RDMA_INIT: it has the receives that were posted before. */
void t3_cm_init_acked(struct t3_ep *ep)
{
	if (ep->state == EP_ACCEPTING) {
		t3_cm_finish_accept(ep);
		return;
	}
	if (!t3_ep_fsm_apply(ep, EP_EV_INIT_DONE, 0) && ep->rtr_due && ep->state == EP_FPDU)
		t3_cm_send_rtr(ep);
}

/* --- active side --------------------------------------------------------- */

static int t3_cm_build_request(struct t3_ep *ep)
{
	struct mpa_startup frame = {
		.kind = MPA_REQUEST,
		.rev = ep->mpa_rev,
		.enhanced = ep->mpa_rev == MPA_REVISION_2,
		.ird = ep->ird,
		.ord = ep->ord,
		.pdata = ep->pdata,
		.pdata_len = ep->pdata_len,
	};
	int len;

	ep->mpa_attrs = t3_cm_own_mpa_attrs();
	frame.markers = ep->mpa_attrs & T3_MPA_RX_MARKERS;
	frame.crc = ep->mpa_attrs & T3_MPA_CRC;
	if (frame.enhanced && ep->rtr_type == T3_RTR_READ) {
		frame.peer_to_peer = true;
		frame.rtr = MPA_RTR_READ;
	}
	ep->enhanced = frame.enhanced;
	len = mpa_build(ep->tx_frame, sizeof(ep->tx_frame), &frame);
	if (len < 0)
		return len;
	ep->tx_len = len;
	return 0;
}

/*
 * Return: false if the QP is being destroyed, or is in the ERROR state. Its owner marks the QP as
 * dying, or changes its state, and then looks for endpoints with its number. The endpoint
 * is published with the number before this looks at the QP, so one of the two sees the other.
 */
static bool t3_cm_qp_allows_connect(const struct t3_ep *ep, struct t3_qp *qp)
{
	smp_mb();	/* pairs with those in t3_cm_abort_connects() and t3_qp_abort_connect() */
	return !READ_ONCE(qp->dying) && !t3_qp_in_state(qp, IB_QPS_ERR);
}

/*
 * The response of the RTR read needs an entry of the send CQ. Without one revision 2 can
 * negotiate no RTR. With peer2peer 1 the peer may expect the read without negotiation,
 * also after a reply in revision 1, so the connect fails.
 */
static int t3_cm_choose_rtr(struct t3_ep *ep, struct t3_qp *qp)
{
	ep->rtr_type = t3_cm_rtr_type(ep->mpa_rev == MPA_REVISION_2);
	if (ep->rtr_type == T3_RTR_NONE || t3_qp_reserve_rtr_entry(qp))
		return 0;
	ibdev_dbg(&ep->dev->ibdev, "QP %u: its send CQ has no entry for an RTR read\n", qp->id);
	if (t3_cm_rtr_type(false) == T3_RTR_READ)
		return -ENOMEM;
	ep->rtr_type = T3_RTR_NONE;
	return 0;
}

/*
 * All of a connect that can fail at once. No other context uses the endpoint yet. It has its
 * addresses, depths and private data.
 */
static int t3_cm_prepare_connect(struct t3_ep *ep, struct iw_cm_id *cm_id, struct t3_qp *qp)
{
	struct t3_tcp_port *held;
	int ret;

	if (t3_route_conflicts(ep->dev, cm_id, ep->local.sin_addr.s_addr))
		return -EADDRINUSE;
	held = t3_tcp_port_connect(ep->dev, cm_id, &ep->local);
	if (IS_ERR(held))
		return PTR_ERR(held);
	ep->held = held;
	ep->active = true;
	ep->qpn = qp->id;
	WRITE_ONCE(ep->qp_serial, qp->serial);
	ret = t3_cm_choose_rtr(ep, qp);
	if (ep->rtr_type == T3_RTR_READ)
		ep->ord = max_t(u16, ep->ord, 1);
	if (!ret)
		ret = t3_route_resolve(ep);
	if (!ret && t3_tcp_is_connected(ep))
		ret = -EADDRINUSE;
	if (!ret)
		ret = t3_cm_build_request(ep);
	if (!ret)
		ret = t3_ep_take_atid(ep);
	return ret;
}

/*
 * Hand a connect to the runner of a new endpoint. The endpoint takes a reference on
 * @cm_id, while the caller holds one on @qp. Return: 0 and a CONNECT_REPLY follows; or -errno and
 * none follows.
 */
static int t3_cm_post_connect(struct t3_ep *ep, struct iw_cm_id *cm_id, struct t3_qp *qp)
{
	__be32 local = ep->local.sin_addr.s_addr;
	struct net_device *ndev;
	int ret;

	ret = t3_ep_count(ep);
	if (ret)
		return ret;
	ret = t3_cm_prepare_connect(ep, cm_id, qp);
	if (ret) {
		t3_ep_discard(ep);
		return ret;
	}
	ep->call.event = EP_EV_CONNECT;
	ep->call.cm_id = cm_id;
	ndev = ep->ndev;
	dev_hold(ndev);		/* the endpoint may end as soon as it is published */
	ret = t3_ep_publish(ep);
	if (ret)
		goto out;
	/* t3_cm_addrs_work() may have walked the table before the endpoint was in it. */
	if (!t3_cm_qp_allows_connect(ep, qp))
		ret = -EINVAL;
	else if (!t3_route_has_address(ndev, local))
		ret = -EADDRNOTAVAIL;
	if (ret) {
		t3_ep_request(ep, T3_REQ_ABORT, T3_RUN_QUEUED);
		goto out;
	}
	cm_id->add_ref(cm_id);
	t3_ep_request(ep, T3_REQ_CALL, T3_RUN_NOW);
out:
	dev_put(ndev);
	return ret;
}

static void t3_cm_start_connect(struct t3_ep *ep)
{
	int ret;

	ep->cm_id = ep->call.cm_id;
	/* The device or the QP ended before. */
	if (!ep_fsm(ep->state, EP_EV_CONNECT)) {
		t3_cm_report_end(ep, EP_EV_CONNECT, -ENODEV);
		return;
	}
	t3_ep_fsm_apply(ep, EP_EV_CONNECT, 0);
	ret = t3_send_act_open_req(ep);
	if (ret)
		t3_ep_fsm_apply(ep, EP_EV_ARP_FAILED, ret);
}

/* The TCP connection is established. The initiator sends the MPA request. */
void t3_cm_established(struct t3_ep *ep)
{
	int ret;

	if (ep->state != EP_MPA_REQ_SENT)
		return;
	ret = t3_send_stream(ep, ep->tx_len);
	if (ret)
		t3_ep_fsm_apply(ep, EP_EV_ABORT, ret);
}

/*
 * Reduce our offer to what the reply allows. A reply in revision 1 to a request in
 * revision 2 is accepted. Return: 0; or -EPROTO with the error for a Terminate message in
 * @code, or 0 there if RFC 6581 requires none.
 */
static int t3_cm_negotiate(struct t3_ep *ep, const struct mpa_startup *reply, u8 *code)
{
	*code = 0;
	ep->mpa_attrs |= t3_cm_peer_mpa_attrs(reply);
	if (reply->rev > ep->mpa_rev)
		return -EPROTO;
	ep->mpa_rev = reply->rev;
	ep->enhanced &= reply->enhanced;
	if (!ep->enhanced) {
		if (ep->rtr_type == T3_RTR_READ)
			ep->rtr_type = t3_cm_rtr_type(false);
		return 0;
	}

	if (reply->ird != MPA_V2_DEPTH_NONE)
		ep->ord = min(ep->ord, reply->ird);
	if (reply->ord != MPA_V2_DEPTH_NONE && reply->ord > ep->ird) {
		if (reply->ord > T3_MAX_RD_ATOM) {
			*code = MPA_ERR_IRD;
			return -EPROTO;
		}
		ep->ird = reply->ord;
	}
	if (ep->rtr_type == T3_RTR_READ) {
		if (!reply->peer_to_peer) {
			ep->rtr_type = T3_RTR_NONE;
		} else if (!(reply->rtr & MPA_RTR_READ) || !ep->ord) {
			*code = MPA_ERR_RTR;
			return -EPROTO;
		}
	}
	return 0;
}

/*
 * The connection stays in streaming mode, so the host builds the Terminate message. A
 * peer that requires markers gets a RST instead.
 */
static void t3_cm_refuse_reply(struct t3_ep *ep, u8 code)
{
	int ret = -EPROTO;

	if (code && !(ep->mpa_attrs & T3_MPA_TX_MARKERS)) {
		ep->tx_len = mpa_build_terminate(ep->tx_frame, sizeof(ep->tx_frame), code);
		ep->tx_sent = 0;
		ret = t3_send_stream(ep, ep->tx_len);
	}
	t3_ep_fsm_apply(ep, ret ? EP_EV_MPA_BAD : EP_EV_MPA_REJECTED, -EPROTO);
}

static void t3_cm_rx_reply(struct t3_ep *ep, const struct mpa_startup *reply)
{
	struct t3_qp *qp;
	u8 code;
	int ret;

	if (reply->reject) {
		t3_ep_fsm_apply(ep, EP_EV_MPA_REJECTED, -ECONNREFUSED);
		return;
	}
	ret = t3_cm_negotiate(ep, reply, &code);
	if (ret) {
		t3_cm_refuse_reply(ep, code);
		return;
	}
	qp = t3_cm_get_qp(ep);
	if (!qp) {
		t3_ep_fsm_apply(ep, EP_EV_ABORT, -EINVAL);
		return;
	}
	ret = t3_cm_enter_rdma(ep, qp);
	t3_qp_put(qp);
	if (ret) {
		t3_ep_fsm_apply(ep, EP_EV_ABORT, ret);
		return;
	}

	t3_ep_fsm_apply(ep, EP_EV_MPA_FRAME, 0);
	ep->rtr_due = ep->rtr_type == T3_RTR_READ;
	if (ep->rtr_due && !ep->init_unacked)
		t3_cm_send_rtr(ep);
	/* If the read could not be sent, the end of the abort makes the CONNECT_REPLY. */
	if (ep->state != EP_FPDU)
		return;
	ep->est_reported = true;
	t3_cm_upcall(ep->cm_id, ep, IW_CM_EVENT_CONNECT_REPLY, 0);
}

/* --- passive side -------------------------------------------------------- */

static int t3_cm_build_reply(struct t3_ep *ep, bool reject)
{
	struct mpa_startup frame = {
		.kind = MPA_REPLY,
		.rev = ep->mpa_rev,
		.reject = reject,
		.enhanced = ep->enhanced,
		/* A depth that the peer did not negotiate stays out of the reply. */
		.ird = ep->peer_ord == MPA_V2_DEPTH_NONE ? MPA_V2_DEPTH_NONE : ep->ird,
		.ord = ep->peer_ird == MPA_V2_DEPTH_NONE ? MPA_V2_DEPTH_NONE : ep->ord,
		.pdata = ep->pdata,
		.pdata_len = ep->pdata_len,
	};
	int len;

	if (!reject) {
		frame.markers = ep->mpa_attrs & T3_MPA_RX_MARKERS;
		frame.crc = ep->mpa_attrs & T3_MPA_CRC;
	}
	if (ep->enhanced && ep->rtr_type == T3_RTR_READ) {
		frame.peer_to_peer = true;
		frame.rtr = MPA_RTR_READ;
	}
	len = mpa_build(ep->tx_frame, sizeof(ep->tx_frame), &frame);
	if (len < 0)
		return len;
	ep->tx_len = len;
	ep->tx_sent = 0;
	return 0;
}

static void t3_cm_send_reject(struct t3_ep *ep)
{
	int ret = t3_cm_build_reply(ep, true);

	if (!ret)
		ret = t3_send_stream(ep, ep->tx_len);
	t3_ep_fsm_apply(ep, ret ? EP_EV_ABORT : EP_EV_REJECT, ret);
}

/*
 * The order on the offload queue: the reply without its last piece, RDMA_INIT, the last
 * piece. The peer may send after the reply, so the card must have the posted receives
 * before: the last piece waits for the ack of RDMA_INIT.
 */
static int t3_cm_begin_reply(struct t3_ep *ep)
{
	const struct t3_ep_call *call = &ep->call;
	unsigned int pieces;
	int ret;

	ep->ird = call->ird;
	ep->ord = call->ord;
	if (ep->peer_ird != MPA_V2_DEPTH_NONE)
		ep->ord = min(ep->ord, ep->peer_ird);
	/* A QP that denies remote reads negotiates no RTR read. */
	if (ep->enhanced && !t3_qp_allows_remote_read(call->qp))
		ep->rtr_type = T3_RTR_NONE;
	if (ep->rtr_type == T3_RTR_READ)
		ep->ird = max_t(u16, ep->ird, 1);

	ret = t3_cm_build_reply(ep, false);
	if (ret)
		return ret;
	pieces = DIV_ROUND_UP(ep->tx_len, T3_STREAM_PIECE_MAX);
	return t3_send_stream(ep, (pieces - 1) * T3_STREAM_PIECE_MAX);
}

/* The QP gets no connection. Its owner flushes what it has posted, as after another end. */
static void t3_cm_accept_failed(struct t3_ep *ep, int status)
{
	t3_qp_fsm_apply(ep->call.qp, T3_QPEV_ACCEPT_FAILED);
	t3_ep_fsm_apply(ep, EP_EV_ABORT, status);
}

static void t3_cm_start_accept(struct t3_ep *ep)
{
	struct t3_qp *qp = ep->call.qp;
	int ret;

	ep->cm_id = ep->call.cm_id;
	ep->accept_pending = true;
	/* The peer or the device ended the request before. */
	if (!ep_fsm(ep->state, EP_EV_ACCEPT)) {
		t3_qp_fsm_apply(qp, T3_QPEV_ACCEPT_FAILED);
		t3_cm_report_end(ep, EP_EV_ACCEPT, -ECONNRESET);
		return;
	}
	ret = t3_cm_begin_reply(ep);
	if (ret) {
		t3_cm_accept_failed(ep, ret);
		t3_cm_report_end(ep, EP_EV_ACCEPT, ret);
		return;
	}
	t3_ep_fsm_apply(ep, EP_EV_ACCEPT, 0);
	ret = t3_cm_enter_rdma(ep, qp);
	if (ret)
		t3_cm_accept_failed(ep, ret);
	else if (!ep->init_unacked)
		t3_cm_finish_accept(ep);
}

static void t3_cm_deliver_request(struct t3_ep *ep)
{
	struct t3_listener *l = ep->listener;
	int ret;

	if (!t3_listener_upcall_begin(l)) {
		t3_ep_fsm_apply(ep, EP_EV_ABORT, 0);
		return;
	}
	t3_ep_get(ep);		/* for accept or reject */
	ret = t3_cm_upcall(l->cm_id, ep, IW_CM_EVENT_CONNECT_REQUEST, 0);
	t3_listener_upcall_end(l);
	t3_listener_remove_child(ep);
	if (ret) {
		/* The consumer's backlog is full. */
		t3_cm_send_reject(ep);
		t3_ep_put(ep);
	}
}

static void t3_cm_rx_request(struct t3_ep *ep, const struct mpa_startup *request)
{
	ep->mpa_rev = request->rev;
	ep->enhanced = request->enhanced;
	ep->mpa_attrs = t3_cm_own_mpa_attrs() | t3_cm_peer_mpa_attrs(request);
	ep->peer_ird = request->ird;
	ep->peer_ord = request->ord;
	/* Our IRD is bounded by the peer's ORD, and our ORD by its IRD. */
	ep->ird = min_t(u16, request->ord, T3_MAX_RD_ATOM);
	ep->ord = min_t(u16, request->ird, T3_MAX_RD_ATOM);
	if (request->enhanced)
		ep->rtr_type = request->peer_to_peer ? T3_RTR_READ : T3_RTR_NONE;
	else
		ep->rtr_type = t3_cm_rtr_type(false);

	if (t3_ep_fsm_apply(ep, EP_EV_MPA_FRAME, 0))
		return;
	if (request->peer_to_peer && !(request->rtr & MPA_RTR_READ)) {
		/* No RTR in common. The reject offers the one that we support. */
		t3_cm_send_reject(ep);
		return;
	}
	t3_cm_deliver_request(ep);
}

/* rx_frame has more bytes. */
void t3_cm_rx_stream(struct t3_ep *ep)
{
	enum mpa_kind kind = ep->active ? MPA_REPLY : MPA_REQUEST;
	struct mpa_startup frame;
	enum mpa_status status;

	status = mpa_parse(kind, ep->rx_frame, ep->rx_len, &frame);
	trace_t3_mpa(ep, status, ep->rx_len);
	switch (status) {
	case MPA_INCOMPLETE:
		return;
	case MPA_COMPLETE:
		ep->peer_pdata = frame.pdata;
		ep->peer_pdata_len = frame.pdata_len;
		if (ep->active)
			t3_cm_rx_reply(ep, &frame);
		else
			t3_cm_rx_request(ep, &frame);
		return;
	default:
		ibdev_dbg(&ep->dev->ibdev, "ep %u: MPA: %s\n", ep->id, mpa_status_name(status));
		t3_ep_fsm_apply(ep, EP_EV_MPA_BAD, -EPROTO);
	}
}

/* --- iw_cm ops ----------------------------------------------------------- */

void t3_cm_run_call(struct t3_ep *ep)
{
	switch (ep->call.event) {
	case EP_EV_CONNECT:
		t3_cm_start_connect(ep);
		break;
	case EP_EV_ACCEPT:
		t3_cm_start_accept(ep);
		t3_qp_put(ep->call.qp);
		break;
	default:
		/* Otherwise the peer or the device ended the request before. */
		if (ep_fsm(ep->state, EP_EV_REJECT))
			t3_cm_send_reject(ep);
	}
}

static void t3_ep_set_pdata(struct t3_ep *ep, const void *pdata, u16 len)
{
	if (len)
		memcpy(ep->pdata, pdata, len);
	ep->pdata_len = len;
}

static int t3_cm_check_params(struct t3_dev *dev, const struct iw_cm_conn_param *param)
{
	if (t3_over_limit(dev, "ORD", param->ord, T3_MAX_RD_ATOM) ||
	    t3_over_limit(dev, "IRD", param->ird, T3_MAX_RD_ATOM) ||
	    t3_over_limit(dev, "bytes of private data", param->private_data_len,
			  MPA_MAX_CONSUMER_PD))
		return -EINVAL;
	return 0;
}

/* A number of a foreign QP is as good as one of no QP. */
static struct t3_qp *t3_cm_find_qp(struct iw_cm_id *cm_id, u32 qpn)
{
	struct t3_qp *qp = t3_qp_find(to_t3_dev(cm_id->device), qpn);

	if (!qp || t3_qp_permits(qp, cm_id))
		return qp;
	t3_qp_put(qp);
	return NULL;
}

/**
 * t3_cm_connect - iw_connect: open a connection
 * @cm_id: the consumer's id, with mapped addresses
 * @param: QP, read depths, private data
 *
 * Waits for nothing but memory. Return: 0 and exactly one CONNECT_REPLY, possibly before the
 * return; or -errno and no event: -EINVAL for parameters, -EAFNOSUPPORT for IPv6, -EADDRNOTAVAIL,
 * -ENETUNREACH, -EOPNOTSUPP and -EHOSTUNREACH from t3_route_resolve(), -EADDRINUSE if the host's
 * TCP has the local port or the connection, or another network namespace the address; -ENOMEM
 * (also if the send CQ has no free entry for the RTR read that peer2peer 1 requires), -ENODEV.
 */
int t3_cm_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct t3_dev *dev = to_t3_dev(cm_id->device);
	struct t3_quota *quota;
	struct t3_qp *qp;
	struct t3_ep *ep;
	int ret;

	if (cm_id->m_local_addr.ss_family != AF_INET ||
	    cm_id->m_remote_addr.ss_family != AF_INET)
		return -EAFNOSUPPORT;
	ret = t3_cm_check_params(dev, param);
	if (ret)
		return ret;
	qp = t3_cm_find_qp(cm_id, param->qpn);
	if (!qp)
		return -EINVAL;
	quota = t3_quota_get(&dev->quotas);
	if (IS_ERR(quota)) {
		ret = PTR_ERR(quota);
		goto out_qp;
	}
	ep = t3_ep_alloc(dev);
	if (IS_ERR(ep)) {
		t3_quota_put(&dev->quotas, quota);
		ret = PTR_ERR(ep);
		goto out_qp;
	}
	ep->quota = quota;
	ep->net = t3_cm_id_net(cm_id);
	memcpy(&ep->local, &cm_id->m_local_addr, sizeof(ep->local));
	memcpy(&ep->remote, &cm_id->m_remote_addr, sizeof(ep->remote));
	ep->tos = cm_id->tos_set ? cm_id->tos : 0;
	ep->mpa_rev = READ_ONCE(mpa_rev) == MPA_REVISION_2 ? MPA_REVISION_2 : MPA_REVISION_1;
	ep->ord = param->ord;
	ep->ird = param->ird;
	t3_ep_set_pdata(ep, param->private_data, param->private_data_len);

	ret = t3_cm_post_connect(ep, cm_id, qp);
	t3_ep_put(ep);
out_qp:
	t3_qp_put(qp);
	return ret;
}

/* Only the active side stores a serial number, and no QP has number 0. */
static bool t3_cm_match_qp(struct t3_ep *ep, const void *qp_serial)
{
	return READ_ONCE(ep->qp_serial) == *(const u64 *)qp_serial;
}

/*
 * The QP is dying or in the ERROR state. The iWARP CM holds a reference on it until CONNECT_REPLY.
 * Without the abort a destroy, or the removal of the CM's device, would wait for the peer's reply
 * or for the timeout.
 */
static void t3_cm_abort_connects(struct t3_dev *dev, u64 qp_serial)
{
	smp_mb();	/* pairs with the one in t3_cm_qp_allows_connect() */
	t3_ep_request_if(dev, T3_REQ_ABORT, t3_cm_match_qp, &qp_serial);
}

static bool t3_cm_may_lack_address(struct t3_ep *ep, const void *arg)
{
	cond_resched();
	return !t3_route_is_valid(ep);
}

static void t3_cm_addrs_work(struct work_struct *work)
{
	struct t3_cm_dev *cm = container_of(work, struct t3_cm_dev, addrs_work.work);
	unsigned long start = jiffies;

	smp_mb();	/* pairs with the one in t3_ep_publish() */
	t3_ep_request_if(cm->dev, T3_REQ_ADDR_REMOVED, t3_cm_may_lack_address, NULL);
	WRITE_ONCE(cm->addrs_took, jiffies - start);
}

/*
 * An address or an interface was removed: abort the connections that used it. The owner of a
 * namespace may remove any number of them with rtnl held, so one work item looks for all.
 */
void t3_cm_addr_removed(struct t3_dev *dev)
{
	struct t3_cm_dev *cm = dev->cm;

	queue_delayed_work(t3_cm_wq, &cm->addrs_work,
			   t3_update_delay(READ_ONCE(cm->addrs_took)));
}

/*
 * The endpoint of a connect request, with a reference, until the last event of its connection.
 * Afterwards NULL.
 */
static struct t3_ep *t3_cm_requested(struct iw_cm_id *cm_id)
{
	struct t3_ep *ep;

	rcu_read_lock();
	ep = READ_ONCE(cm_id->provider_data);
	if (!ep || t3_cm_has_ended(ep) || !t3_ep_tryget(ep))
		ep = NULL;
	rcu_read_unlock();
	return ep;
}

/* The consumer has answered the request, so it has no reference on the endpoint any more. */
static void t3_cm_drop_request(struct iw_cm_id *cm_id, struct t3_ep *ep)
{
	WRITE_ONCE(cm_id->provider_data, NULL);
	t3_ep_put(ep);
}

/*
 * iw_cm lets a consumer accept again until it has handled ESTABLISHED, which may be queued already.
 * If the second accept failed, iw_cm would undo the first, and the event of the first would hit a
 * BUG(). So the second one succeeds and has no effect. iw_cm has stored the QP of this call, and
 * forgotten its reference on that of the last one, which is put here.
 *
 * Return: 0; -EINVAL if the request was not accepted.
 */
static int t3_cm_accept_again(struct t3_dev *dev, struct iw_cm_id *cm_id, u32 qpn)
{
	struct t3_qp *qp = xa_load(&dev->qps, qpn), *forgotten = NULL;	/* also a dying one */
	struct t3_ep *ep;

	spin_lock_bh(&dev->cm->lock);
	ep = cm_id->provider_data;
	if (ep && t3_cm_has_ended(ep)) {
		forgotten = t3_cm_ended_qp(ep);
		WRITE_ONCE(cm_id->provider_data, t3_cm_ended(qp));
	} else if (ep) {
		forgotten = ep->iw_cm_qp;
		if (forgotten)
			ep->iw_cm_qp = qp;
	}
	spin_unlock_bh(&dev->cm->lock);
	if (!forgotten)
		return -EINVAL;
	t3_qp_put(forgotten);
	return 0;
}

/**
 * t3_cm_accept - iw_accept: accept a connect request
 * @cm_id: id of the new connection
 * @param: QP, read depths, private data
 *
 * Does not wait. Return: 0 and ESTABLISHED, possibly before the return. If the accept fails
 * later, ESTABLISHED has the error and a CLOSE with the same error follows, and the QP is in the
 * ERROR state unless it has another connection: -ECONNRESET if the peer has closed or reset the
 * connection, -ETIMEDOUT, -EINVAL for a QP that cannot be connected, -ENODEV, -ENOMEM. Or -errno
 * and no event: -ECONNRESET for a request that has ended already, -EINVAL for parameters. A
 * failure closes the connection.
 */
int t3_cm_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct t3_dev *dev = to_t3_dev(cm_id->device);
	struct t3_ep *ep = t3_cm_requested(cm_id);
	struct t3_qp *qp = NULL;
	int ret;

	if (!ep)
		return t3_cm_accept_again(dev, cm_id, param->qpn);
	if (!t3_ep_reserve_call(ep)) {
		ret = t3_cm_accept_again(dev, cm_id, param->qpn);
		t3_ep_put(ep);
		return ret;
	}
	ret = t3_cm_check_params(dev, param);
	if (!ret) {
		qp = t3_cm_find_qp(cm_id, param->qpn);
		if (!qp)
			ret = -EINVAL;
	}
	if (ret) {
		t3_ep_request(ep, T3_REQ_ABORT, T3_RUN_QUEUED);
	} else if (!ep_fsm(READ_ONCE(ep->state), EP_EV_ACCEPT)) {
		t3_qp_put(qp);
		ret = -ECONNRESET;
	}
	if (ret) {
		t3_cm_drop_request(cm_id, ep);
		t3_ep_put(ep);
		return ret;
	}

	t3_ep_set_pdata(ep, param->private_data, param->private_data_len);
	ep->call.event = EP_EV_ACCEPT;
	ep->call.ord = param->ord;
	ep->call.ird = param->ird;
	ep->call.qp = qp;
	ep->call.cm_id = cm_id;
	ep->iw_cm_qp = qp;
	cm_id->add_ref(cm_id);
	t3_ep_request(ep, T3_REQ_CALL, T3_RUN_NOW);
	t3_ep_put(ep);	/* the consumer's */
	t3_ep_put(ep);
	return 0;
}

/**
 * t3_cm_reject - iw_reject: reject a connect request
 * @cm_id: id of the request
 * @pdata: private data for the peer
 * @len: its length
 *
 * Does not wait, and no event follows. After an accept, which iw_cm does not prevent, the
 * connection is aborted: iw_cm takes no event of it any more.
 *
 * Return: 0, or -ECONNRESET if the peer has closed or reset the connection.
 */
int t3_cm_reject(struct iw_cm_id *cm_id, const void *pdata, u8 len)
{
	struct t3_ep *ep = t3_cm_requested(cm_id);
	int ret = 0;

	if (!ep)
		return -ECONNRESET;
	if (!t3_ep_reserve_call(ep)) {
		WRITE_ONCE(ep->no_upcalls, true);
		t3_ep_request(ep, T3_REQ_ABORT, T3_RUN_QUEUED);
		t3_ep_put(ep);
		return 0;
	}
	if (ep_fsm(READ_ONCE(ep->state), EP_EV_REJECT)) {
		t3_ep_set_pdata(ep, pdata, len);
		ep->call.event = EP_EV_REJECT;
		t3_ep_request(ep, T3_REQ_CALL, T3_RUN_NOW);
	} else {
		ret = -ECONNRESET;
	}
	t3_cm_drop_request(cm_id, ep);
	t3_ep_put(ep);
	return ret;
}

/* --- init and exit, devices ----------------------------------------------- */

int t3_cm_init(void)
{
	int ret = t3_tcp_ports_init();

	t3_cpl_init();
	if (ret)
		return ret;
	t3_cm_wq = alloc_workqueue("iw_cxgb3_cm", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (t3_cm_wq)
		return 0;
	t3_tcp_ports_exit();
	return -ENOMEM;
}

void t3_cm_exit(void)
{
	destroy_workqueue(t3_cm_wq);
	t3_tcp_ports_exit();
}

int t3_cm_open(struct t3_dev *dev)
{
	const struct t3c_data *td = t3c_data(dev->tdev);
	struct t3_cm_dev *cm;

	cm = kvzalloc(sizeof(*cm), GFP_KERNEL);
	if (!cm)
		return -ENOMEM;
	cm->dev = dev;
	if (t3_tids_open(cm, t3_cpl_release_tids)) {
		kvfree(cm);
		return -ENOMEM;
	}
	cm->nmtus = min_t(unsigned int, td->nmtus, T3_CM_MTUS);
	memcpy(cm->mtus, td->mtus, cm->nmtus * sizeof(cm->mtus[0]));
	xa_init_flags(&cm->eps, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	init_waitqueue_head(&cm->idle);
	INIT_DELAYED_WORK(&cm->addrs_work, t3_cm_addrs_work);
	spin_lock_init(&cm->lock);
	context_unsafe(INIT_LIST_HEAD(&cm->listeners)); /* not published yet */
	dev->cm = cm;
	t3_cm_debugfs_add(cm);
	return 0;
}

/* Refuse new endpoints and listeners. */
static void t3_cm_refuse_new(struct t3_cm_dev *cm)
{
	spin_lock_bh(&cm->lock);
	WRITE_ONCE(cm->stopped, true);
	spin_unlock_bh(&cm->lock);
	smp_mb();	/* pairs with the one in t3_ep_publish() */
}

static bool t3_cm_match_any(struct t3_ep *ep, const void *arg)
{
	return true;
}

/* Make a request of every endpoint. Return: all of them closed within the timeout. */
static bool t3_cm_end_all(struct t3_cm_dev *cm, enum t3_ep_request req, unsigned long timeout)
{
	t3_ep_request_if(cm->dev, req, t3_cm_match_any, NULL);
	return wait_event_timeout(cm->idle, !atomic_read(&cm->num_eps), timeout);
}

void t3_cm_shut_down(struct t3_dev *dev)
{
	t3_cm_refuse_new(dev->cm);
	/* Only abandoned opens may remain, to which the card has not replied yet. */
	t3_cm_end_all(dev->cm, T3_REQ_SHUT_DOWN, T3_SHUT_DOWN_TIMEOUT);
}

static void t3_cm_fatal(struct t3_dev *dev)
{
	t3_cm_refuse_new(dev->cm);
	t3_listener_wake_all(dev->cm);
	t3_cm_end_all(dev->cm, T3_REQ_DEVICE_DOWN, 0);
}

static bool t3_cm_busy(struct t3_dev *dev)
{
	return atomic_read(&dev->cm->num_eps);
}

const struct t3_conn_ops t3_conn_ops = {
	.fatal		= t3_cm_fatal,
	.busy		= t3_cm_busy,
	.abort_connects	= t3_cm_abort_connects,
	.get		= t3_ep_get,
	.put		= t3_ep_put,
	.disconnect	= t3_ep_disconnect,
	.terminate	= t3_ep_terminate,
	.limit_close	= t3_ep_limit_close,
};

void t3_cm_stop(struct t3_dev *dev)
{
	struct t3_cm_dev *cm = dev->cm;

	t3_cm_refuse_new(cm);
	t3_listener_wake_all(cm);
	if (!t3_cm_end_all(cm, T3_REQ_DEVICE_DOWN, t3_card_timeout()))
		ibdev_err(&dev->ibdev, "%d connections do not end\n", atomic_read(&cm->num_eps));

	/* cxgb3 frees its tables when this function returns. */
	WRITE_ONCE(cm->unplugged, true);
	synchronize_rcu();
}

void t3_cm_close(struct t3_dev *dev)
{
	struct t3_cm_dev *cm = dev->cm;

	wait_event(cm->idle, !atomic_read(&cm->num_eps));
	cancel_delayed_work_sync(&cm->addrs_work);
	/*
	 * Other threads may still be runners of endpoints that have closed. There is no
	 * softirq any more: t3_cm_stop() has waited for them. There is no call of a consumer:
	 * ib_unregister_device() has returned. The first flush waits for the timers and the work
	 * items, the second for the work items that these have queued.
	 */
	flush_workqueue(t3_cm_wq);
	flush_workqueue(t3_cm_wq);
	WARN_ONCE(atomic_read(&cm->num_allocated), "%d endpoints are not freed\n",
		  atomic_read(&cm->num_allocated));
	t3_cm_debugfs_remove(cm);
	xa_destroy(&cm->eps);
	t3_tids_close(cm);
	dev->cm = NULL;
	kvfree(cm);
}
