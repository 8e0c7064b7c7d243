// SPDX-License-Identifier: GPL-2.0
/*
 * What consumers ask for and are told (iw_cm), and the MPA conversation between.
 *
 * connect, accept and reject are carried out in the endpoint's ordered context;
 * the caller waits for the result, which every time has a bound. Events go out
 * from there too, with no lock held.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include <t3_race_point.h>

#include "cm.h"
#include "wire/rdmap.h"

#include "trace_cm.h"

static unsigned int mpa_rev = MPA_REVISION_2;
module_param(mpa_rev, uint, 0644);
MODULE_PARM_DESC(mpa_rev,
		 "MPA revision of connections made from here: 2 (default) negotiates read depths and RTR, with a second try in 1; or 1; both are answered");

static bool crc_enabled = true;
module_param(crc_enabled, bool, 0644);
MODULE_PARM_DESC(crc_enabled, "ask for MPA CRCs (default Y); they are used if either side asks");

static bool markers_enabled;
module_param(markers_enabled, bool, 0644);
MODULE_PARM_DESC(markers_enabled, "ask the peer for MPA markers (default N)");

/*
 * Ready to receive: RFC 5044 lets the accepting side send only when it has received a
 * message, and programs do not know that (the server of an rsocket sends at once).
 * Revision 2 negotiates that the connecting side opens with a zero-length read, until which
 * the card holds the accepting side's queue. In revision 1 it is a convention of T3s.
 */
enum { T3_P2P_NEVER, T3_P2P_ALWAYS, T3_P2P_NEGOTIATED };

static unsigned int peer2peer = T3_P2P_NEGOTIATED;
module_param(peer2peer, uint, 0644);
MODULE_PARM_DESC(peer2peer,
		 "the connecting side opens with a zero-length read, so that the accepting side may send first: 0 never, 2 (default) where MPA revision 2 negotiates it, 1 in revision 1 too, where both sides need it");

static unsigned int ep_timeout_secs = 60;
module_param(ep_timeout_secs, uint, 0644);
MODULE_PARM_DESC(ep_timeout_secs,
		 "seconds to wait for the peer or the card in each step of opening and closing (default 60)");

unsigned long t3_cm_timeout(void)
{
	return clamp(READ_ONCE(ep_timeout_secs), 1U, 3600U) * HZ;
}

/* The first message that we ask for; of the three kinds of RTR the T3 can make only the read. */
static u8 rtr_wanted(bool enhanced)
{
	unsigned int when = READ_ONCE(peer2peer);
	bool wanted = enhanced ? when != T3_P2P_NEVER : when == T3_P2P_ALWAYS;

	return wanted ? T3_RTR_READ : T3_RTR_NONE;
}

static u8 negotiate_attrs(const struct mpa_startup *peer)
{
	u8 attrs = T3_MPA_IETF;

	if (crc_enabled || peer->crc)
		attrs |= T3_MPA_CRC;
	if (markers_enabled)
		attrs |= T3_MPA_RX_MARKERS;
	if (peer->markers)
		attrs |= T3_MPA_TX_MARKERS;
	return attrs;
}

/* --- telling the consumer ------------------------------------------------ */

/*
 * The depths of an event are the peer's: what it lets us read at a time is its
 * ird, and our ord.
 */
static int tell(struct iw_cm_id *cm_id, struct t3_ep *ep, enum iw_cm_event_type type, int status)
{
	struct iw_cm_event event = {
		.event = type,
		.status = status,
		.ird = ep->ord,
		.ord = ep->ird,
	};

	memcpy(&event.local_addr, &ep->local, sizeof(ep->local));
	memcpy(&event.remote_addr, &ep->remote, sizeof(ep->remote));
	if (type == IW_CM_EVENT_CONNECT_REQUEST)
		event.provider_data = ep;
	if (ep->peer_pdata_len && (type == IW_CM_EVENT_CONNECT_REQUEST ||
				   type == IW_CM_EVENT_CONNECT_REPLY)) {
		event.private_data = (void *)ep->peer_pdata;
		event.private_data_len = ep->peer_pdata_len;
	}
	T3_RACE_POINT(t3_upcall);
	return cm_id->event_handler(cm_id, &event);
}

void t3_cm_tell_peer_closed(struct t3_ep *ep)
{
	if (ep->cm_id && ep->told)
		tell(ep->cm_id, ep, IW_CM_EVENT_DISCONNECT, 0);
}

static void complete_call(struct t3_ep_call *call, int ret)
{
	call->ret = ret;
	complete(&call->done);
}

/*
 * A peer that implements only revision 1 does not take a request in revision 2 for
 * MPA. It resets or closes the connection without a reply.
 */
static bool peer_may_be_rev1(const struct t3_ep *ep)
{
	return ep->active && ep->mpa_rev != MPA_REVISION_1 && !ep->told && !ep->rx_len;
}

/* The second try is a connection of its own, which takes over the consumer. */
static bool try_again_with_rev1(struct t3_ep *ep)
{
	struct t3_ep_call *call;
	struct t3_ep *next;
	struct t3_qp *qp;

	if (!peer_may_be_rev1(ep))
		return false;
	qp = t3_qp_find(ep->dev, ep->qpn);
	if (!qp)
		return false;
	next = t3_ep_alloc(ep->dev);
	if (IS_ERR(next)) {
		t3_qp_put(qp);
		return false;
	}

	next->quota = t3_quota_share(&ep->dev->quotas, ep->quota);
	next->local = ep->local;
	next->remote = ep->remote;
	next->tos = ep->tos;
	next->mpa_rev = MPA_REVISION_1;
	next->pdata_len = ep->pdata_len;
	memcpy(next->pdata, ep->pdata, ep->pdata_len);
	call = &next->second_try;
	call->what = EP_EV_CONNECT;
	call->cm_id = ep->cm_id;
	call->qp = qp;
	call->ord = ep->ord;
	call->ird = ep->ird;
	call->pdata = next->pdata;
	call->pdata_len = next->pdata_len;
	call->nobody_waits = true;
	t3_ep_get(next);
	if (t3_ep_publish(next)) {
		t3_ep_put(next);
		t3_ep_put(next);
		t3_qp_put(qp);
		return false;
	}
	ep->cm_id = NULL;
	t3_ep_post(next, call);
	t3_ep_put(next);
	return true;
}

/*
 * The last word to whoever waits for one: a failed accept, a failed connect, or
 * CLOSE. The consumer's reference ends here, so it comes once.
 */
void t3_cm_tell_end(struct t3_ep *ep, enum ep_event event, int status)
{
	struct iw_cm_id *cm_id = ep->cm_id;

	if (!cm_id)
		return;
	/*
	 * After a FIN the first connection has its TID until both sides have closed. The
	 * second try waits for that: one connect never has two TIDs, nor two charges for
	 * them, and the card has no connection with the same addresses and ports.
	 */
	if (ep->state == EP_LAST_ACK && peer_may_be_rev1(ep)) {
		ep->rev1_due = true;
		return;
	}
	if ((event == EP_EV_PEER_ABORT || (event == EP_EV_CLOSE_RPL && ep->rev1_due)) &&
	    try_again_with_rev1(ep))
		return;

	ep->cm_id = NULL;
	if (ep->pending) {
		complete_call(ep->pending, status ? status : -ECONNRESET);
		ep->pending = NULL;
	} else if (ep->told) {
		/* The peer's close is the end of ours, not a reset. */
		tell(cm_id, ep, IW_CM_EVENT_CLOSE, event == EP_EV_PEER_CLOSE ? 0 : status);
	} else if (ep->active) {
		tell(cm_id, ep, IW_CM_EVENT_CONNECT_REPLY, status ? status : -ECONNRESET);
	}
	T3_RACE_POINT(t3_end_told);
	cm_id->rem_ref(cm_id);
}

/* --- RDMA mode ----------------------------------------------------------- */

static int enter_rdma(struct t3_ep *ep, struct t3_qp *qp)
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

	trace_t3_mpa_agreed(ep);
	ret = t3_qp_connect(qp, ep, &attrs, &ep->init_unacked);
	if (!ret)
		ep->qp = qp;
	return ret;
}

/* The last streaming message switches the card to RDMA mode (firmware 4.3). */
static void finish_accept(struct t3_ep *ep)
{
	int ret = t3_send_stream(ep, ep->tx_len);

	if (ret) {
		t3_ep_fire(ep, EP_EV_ABORT, ret);
		return;
	}
	if (t3_ep_fire(ep, EP_EV_INIT_DONE, 0))
		return;
	ep->told = true;
	tell(ep->cm_id, ep, IW_CM_EVENT_ESTABLISHED, 0);
	complete_call(ep->pending, 0);
	ep->pending = NULL;
}

static void send_rtr(struct t3_ep *ep)
{
	int ret = t3_send_rtr_read(ep);

	ep->rtr_due = false;
	if (ret)
		t3_ep_fire(ep, EP_EV_ABORT, ret);
}

/* RDMA_INIT is done: the receives that were posted before are in place. */
void t3_cm_init_acked(struct t3_ep *ep)
{
	if (ep->state == EP_ACCEPTING) {
		finish_accept(ep);
		return;
	}
	if (!t3_ep_fire(ep, EP_EV_INIT_DONE, 0) && ep->rtr_due && ep->state == EP_FPDU)
		send_rtr(ep);
}

/* --- active side --------------------------------------------------------- */

static int build_request(struct t3_ep *ep, const struct t3_ep_call *call)
{
	struct mpa_startup frame = {
		.kind = MPA_REQUEST,
		.rev = ep->mpa_rev,
		.markers = markers_enabled,
		.crc = crc_enabled,
		.enhanced = ep->mpa_rev == MPA_REVISION_2,
		.ird = ep->ird,
		.ord = ep->ord,
		.pdata = call->pdata,
		.pdata_len = call->pdata_len,
	};
	int len;

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
 * Notes the QP, if it is not being destroyed. destroy_qp takes it out of the table and
 * then looks for endpoints with its number; here it is the other way round, so that
 * one of the two sees the other.
 */
static bool claim_qp(struct t3_ep *ep, const struct t3_qp *qp)
{
	WRITE_ONCE(ep->qpn, qp->id);
	smp_mb();	/* pairs with the one in t3_cm_qp_goes() */
	return xa_load(&ep->dev->qps, qp->id) == qp;
}

/*
 * Without an entry for the response revision 2 can agree on no RTR. Where the read is a
 * convention of both sides (peer2peer 1, perhaps after a reply in revision 1) the peer would
 * wait for it.
 */
static int choose_rtr(struct t3_ep *ep, struct t3_qp *qp)
{
	ep->rtr_type = rtr_wanted(ep->mpa_rev == MPA_REVISION_2);
	if (ep->rtr_type == T3_RTR_NONE || t3_qp_reserve_rtr_entry(qp))
		return 0;
	ibdev_dbg(&ep->dev->ibdev, "QP %u: its send CQ has no entry for an RTR read\n", qp->id);
	if (rtr_wanted(false) == T3_RTR_READ)
		return -ENOMEM;
	ep->rtr_type = T3_RTR_NONE;
	return 0;
}

static int start_connect(struct t3_ep *ep, struct t3_ep_call *call)
{
	int ret;

	ep->active = true;
	ret = choose_rtr(ep, call->qp);
	ep->ord = ep->rtr_type == T3_RTR_READ ? max(call->ord, 1U) : call->ord;
	ep->ird = call->ird;
	if (!ret)
		ret = claim_qp(ep, call->qp) ? t3_route_resolve(ep) : -EINVAL;
	if (!ret)
		ret = build_request(ep, call);
	if (!ret)
		ret = t3_take_atid(ep);
	if (ret) {
		t3_ep_fire(ep, EP_EV_ABORT, ret);
		return ret;
	}

	ep->cm_id = call->cm_id;
	T3_RACE_POINT(t3_connect_has_route);
	t3_ep_fire(ep, EP_EV_CONNECT, 0);
	T3_RACE_POINT(t3_connect_stepped);
	/* From here on the result is an event. */
	ret = t3_send_act_open_req(ep);
	if (ret)
		t3_ep_fire(ep, EP_EV_ARP_FAILED, ret);
	return 0;
}

/* TCP is up. The initiator speaks first. */
void t3_cm_established(struct t3_ep *ep)
{
	int ret;

	if (ep->state != EP_MPA_REQ_SENT)
		return;
	ret = t3_send_stream(ep, ep->tx_len);
	if (ret)
		t3_ep_fire(ep, EP_EV_ABORT, ret);
}

/*
 * What the reply makes of what we asked for. A reply in revision 1 to a request
 * in revision 2 is a peer that knows no better. Return: 0, or -EPROTO, and then
 * in @code why, if RFC 6581 wants the peer told.
 */
static int agree(struct t3_ep *ep, const struct mpa_startup *reply, u8 *code)
{
	*code = 0;
	ep->mpa_attrs = negotiate_attrs(reply);
	if (reply->rev > ep->mpa_rev)
		return -EPROTO;
	ep->mpa_rev = reply->rev;
	ep->enhanced &= reply->enhanced;
	if (!ep->enhanced) {
		if (ep->rtr_type == T3_RTR_READ)
			ep->rtr_type = rtr_wanted(false);
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
 * We are still in streaming mode, and stay there; so the host writes the message
 * that the card would. A peer that wants markers gets a reset instead.
 */
static void refuse_reply(struct t3_ep *ep, u8 code)
{
	int ret = -EPROTO;

	if (code && !(ep->mpa_attrs & T3_MPA_TX_MARKERS)) {
		ep->tx_len = mpa_build_terminate(ep->tx_frame, sizeof(ep->tx_frame), code);
		ep->tx_sent = 0;
		ret = t3_send_stream(ep, ep->tx_len);
	}
	t3_ep_fire(ep, ret ? EP_EV_MPA_BAD : EP_EV_MPA_REJECTED, -EPROTO);
}

static void got_reply(struct t3_ep *ep, const struct mpa_startup *reply)
{
	struct t3_qp *qp;
	u8 code;
	int ret;

	if (reply->reject) {
		t3_ep_fire(ep, EP_EV_MPA_REJECTED, -ECONNREFUSED);
		return;
	}
	ret = agree(ep, reply, &code);
	if (ret) {
		refuse_reply(ep, code);
		return;
	}
	qp = t3_qp_find(ep->dev, ep->qpn);
	if (!qp) {
		t3_ep_fire(ep, EP_EV_ABORT, -EINVAL);
		return;
	}
	T3_RACE_POINT(t3_reply_qp_found);
	ret = enter_rdma(ep, qp);
	t3_qp_put(qp);
	T3_RACE_POINT(t3_reply_in_rdma_mode);
	if (ret) {
		t3_ep_fire(ep, EP_EV_ABORT, ret);
		return;
	}

	t3_ep_fire(ep, EP_EV_MPA_FRAME, 0);
	ep->rtr_due = ep->rtr_type == T3_RTR_READ;
	if (ep->rtr_due && !ep->init_unacked)
		send_rtr(ep);
	/* If the read could not be sent, the end of the abort is the consumer's CONNECT_REPLY. */
	if (ep->state != EP_FPDU)
		return;
	ep->told = true;
	tell(ep->cm_id, ep, IW_CM_EVENT_CONNECT_REPLY, 0);
}

/* --- passive side -------------------------------------------------------- */

static int build_reply(struct t3_ep *ep, const struct t3_ep_call *call, bool reject)
{
	struct mpa_startup frame = {
		.kind = MPA_REPLY,
		.rev = ep->mpa_rev,
		.reject = reject,
		.enhanced = ep->enhanced,
		/* Who does not negotiate a depth is not answered with one. */
		.ird = ep->peer_ord == MPA_V2_DEPTH_NONE ? MPA_V2_DEPTH_NONE : ep->ird,
		.ord = ep->peer_ird == MPA_V2_DEPTH_NONE ? MPA_V2_DEPTH_NONE : ep->ord,
		.pdata = call->pdata,
		.pdata_len = call->pdata_len,
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

static void reject_request(struct t3_ep *ep, const struct t3_ep_call *call)
{
	int ret = build_reply(ep, call, true);

	if (!ret)
		ret = t3_send_stream(ep, ep->tx_len);
	t3_ep_fire(ep, ret ? EP_EV_ABORT : EP_EV_REJECT, ret);
}

/*
 * In this order on the offload queue: all of the reply but its last piece,
 * RDMA_INIT, the last piece. If receives are posted the card must have taken
 * them before the peer may send.
 */
static void accept_request(struct t3_ep *ep, struct t3_ep_call *call)
{
	unsigned int pieces;
	int ret;

	ep->ird = call->ird;
	ep->ord = call->ord;
	if (ep->peer_ird != MPA_V2_DEPTH_NONE)
		ep->ord = min(ep->ord, ep->peer_ird);
	/* A QP that may not be read from is not opened by a read, if that can be negotiated. */
	if (ep->enhanced && !t3_qp_allows_remote_read(call->qp))
		ep->rtr_type = T3_RTR_NONE;
	if (ep->rtr_type == T3_RTR_READ)
		ep->ird = max_t(u16, ep->ird, 1);

	ret = build_reply(ep, call, false);
	if (!ret) {
		pieces = DIV_ROUND_UP(ep->tx_len, T3_STREAM_PIECE_MAX);
		ret = t3_send_stream(ep, (pieces - 1) * T3_STREAM_PIECE_MAX);
	}
	if (ret) {
		t3_ep_fire(ep, EP_EV_ABORT, ret);
		complete_call(call, ret);
		return;
	}

	call->cm_id->add_ref(call->cm_id);
	ep->cm_id = call->cm_id;
	ep->pending = call;
	t3_ep_fire(ep, EP_EV_ACCEPT, 0);
	T3_RACE_POINT(t3_accept_stepped);
	ret = enter_rdma(ep, call->qp);
	T3_RACE_POINT(t3_accept_in_rdma_mode);
	if (ret)
		t3_ep_fire(ep, EP_EV_ABORT, ret);
	else if (!ep->init_unacked)
		finish_accept(ep);
}

static void deliver_request(struct t3_ep *ep)
{
	const struct t3_ep_call refuse = { .what = EP_EV_REJECT };
	struct t3_listener *l = ep->listener;
	int ret;

	if (!t3_listener_upcall_begin(l)) {
		t3_ep_fire(ep, EP_EV_ABORT, 0);
		return;
	}
	t3_ep_get(ep);		/* for accept or reject */
	T3_RACE_POINT(t3_request_deliver);
	ret = tell(l->cm_id, ep, IW_CM_EVENT_CONNECT_REQUEST, 0);
	t3_listener_upcall_end(l);
	T3_RACE_POINT(t3_request_delivered);
	t3_listener_forget(ep);
	if (ret) {
		/* The consumer has no room for another one. */
		reject_request(ep, &refuse);
		t3_ep_put(ep);
	}
}

static void got_request(struct t3_ep *ep, const struct mpa_startup *request)
{
	const struct t3_ep_call refuse = { .what = EP_EV_REJECT };

	ep->mpa_rev = request->rev;
	ep->enhanced = request->enhanced;
	ep->mpa_attrs = negotiate_attrs(request);
	ep->peer_ird = request->ird;
	ep->peer_ord = request->ord;
	/* As the consumer sees it: its ird is what the peer may read. */
	ep->ird = min_t(u16, request->ord, T3_MAX_RD_ATOM);
	ep->ord = min_t(u16, request->ird, T3_MAX_RD_ATOM);
	if (request->enhanced)
		ep->rtr_type = request->peer_to_peer ? T3_RTR_READ : T3_RTR_NONE;
	else
		ep->rtr_type = rtr_wanted(false);

	if (t3_ep_fire(ep, EP_EV_MPA_FRAME, 0))
		return;
	if (request->peer_to_peer && !(request->rtr & MPA_RTR_READ)) {
		/* No RTR in common; the reject says which one we know. */
		reject_request(ep, &refuse);
		return;
	}
	deliver_request(ep);
}

/* More bytes in rx_frame. */
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
			got_reply(ep, &frame);
		else
			got_request(ep, &frame);
		return;
	default:
		ibdev_dbg(&ep->dev->ibdev, "ep %u: MPA: %s\n", ep->id, mpa_status_name(status));
		t3_ep_fire(ep, EP_EV_MPA_BAD, -EPROTO);
	}
}

/* --- iw_cm ops ----------------------------------------------------------- */

/* Ordered context. */
void t3_cm_do_call(struct t3_ep *ep, struct t3_ep_call *call)
{
	enum ep_state due = call->what == EP_EV_CONNECT ? EP_IDLE : EP_MPA_REQ_RCVD;
	struct iw_cm_id *cm_id = call->cm_id;
	int ret = 0;

	if (ep->state != due) {
		ret = due == EP_IDLE ? -ENODEV : -ECONNRESET;
	} else if (call->what == EP_EV_ACCEPT) {
		accept_request(ep, call);	/* completes the call itself */
		return;
	} else if (call->what == EP_EV_REJECT) {
		reject_request(ep, call);
	} else {
		ret = start_connect(ep, call);
	}

	if (!call->nobody_waits) {
		complete_call(call, ret);
		return;
	}
	t3_qp_put(call->qp);
	if (ret) {
		tell(cm_id, ep, IW_CM_EVENT_CONNECT_REPLY, ret);
		cm_id->rem_ref(cm_id);
	}
}

static int check_params(const struct iw_cm_conn_param *param)
{
	if (param->ord > T3_MAX_RD_ATOM || param->ird > T3_MAX_RD_ATOM ||
	    param->private_data_len > MPA_MAX_CONSUMER_PD)
		return -EINVAL;
	return 0;
}

/**
 * t3_cm_connect - iw_connect: open a connection
 * @cm_id: the consumer's id, with mapped addresses
 * @param: QP, read depths, private data
 *
 * Return: 0, and exactly one CONNECT_REPLY comes, perhaps before the return; or
 * -errno and no event: -EINVAL for parameters, -EAFNOSUPPORT for IPv6,
 * -EADDRNOTAVAIL, -EOPNOTSUPP and -EHOSTUNREACH as t3_route_resolve(), -ENOMEM (also: no
 * entry of the send CQ is to spare for the RTR read that peer2peer 1 demands),
 * -ENODEV.
 */
int t3_cm_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct t3_dev *dev = to_t3_dev(cm_id->device);
	struct t3_ep_call call = {
		.what = EP_EV_CONNECT,
		.cm_id = cm_id,
		.ord = param->ord,
		.ird = param->ird,
	};
	struct t3_quota *quota;
	struct t3_ep *ep;
	int ret;

	if (cm_id->m_local_addr.ss_family != AF_INET ||
	    cm_id->m_remote_addr.ss_family != AF_INET)
		return -EAFNOSUPPORT;
	ret = check_params(param);
	if (ret)
		return ret;
	call.qp = t3_qp_find(dev, param->qpn);
	if (!call.qp)
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
	memcpy(&ep->local, &cm_id->m_local_addr, sizeof(ep->local));
	memcpy(&ep->remote, &cm_id->m_remote_addr, sizeof(ep->remote));
	ep->tos = cm_id->tos_set ? cm_id->tos : 0;
	ep->mpa_rev = READ_ONCE(mpa_rev) == MPA_REVISION_2 ? MPA_REVISION_2 : MPA_REVISION_1;
	if (param->private_data_len)
		memcpy(ep->pdata, param->private_data, param->private_data_len);
	ep->pdata_len = param->private_data_len;
	call.pdata = ep->pdata;
	call.pdata_len = ep->pdata_len;

	t3_ep_get(ep);
	ret = t3_ep_publish(ep);
	if (ret) {
		t3_ep_put(ep);
		goto out_ep;
	}
	/* The reference is the endpoint's; it ends with the last event. */
	cm_id->add_ref(cm_id);
	T3_RACE_POINT(t3_connect_published);
	ret = t3_ep_call(ep, &call);
	if (ret)
		cm_id->rem_ref(cm_id);
out_ep:
	t3_ep_put(ep);
out_qp:
	t3_qp_put(call.qp);
	return ret;
}

/* Only an endpoint that connects notes a number, and none is 0. */
static bool is_for_qp(const struct t3_ep *ep, const void *qpn)
{
	return READ_ONCE(ep->qpn) == *(const u32 *)qpn;
}

/**
 * t3_cm_qp_goes - end the connect that a QP is meant for
 * @dev: device
 * @qpn: number of the QP, which is not in dev->qps any more
 *
 * Without this the QP would wait for the peer's answer, or for the timeout, since the
 * consumer has a reference to it until CONNECT_REPLY.
 */
void t3_cm_qp_goes(struct t3_dev *dev, u32 qpn)
{
	smp_mb();	/* pairs with the one in claim_qp() */
	t3_ep_request_if(dev, T3_REQ_ABORT, is_for_qp, &qpn);
}

/**
 * t3_cm_accept - iw_accept: answer a connect request with yes
 * @cm_id: id of the new connection
 * @param: QP, read depths, private data
 *
 * Waits until the card is in RDMA mode. Return: 0 after the ESTABLISHED event;
 * -ECONNRESET if the peer has gone, -EINVAL for parameters, -ETIMEDOUT. After a
 * failure the connection is closed.
 */
int t3_cm_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct t3_dev *dev = to_t3_dev(cm_id->device);
	struct t3_ep *ep = cm_id->provider_data;
	struct t3_ep_call call = {
		.what = EP_EV_ACCEPT,
		.cm_id = cm_id,
		.ord = param->ord,
		.ird = param->ird,
		.pdata = param->private_data,
		.pdata_len = param->private_data_len,
	};
	int ret;

	ret = check_params(param);
	if (!ret) {
		call.qp = t3_qp_find(dev, param->qpn);
		if (!call.qp)
			ret = -EINVAL;
	}
	if (ret) {
		t3_ep_request(ep, T3_REQ_ABORT);
	} else {
		ret = t3_ep_call(ep, &call);
		t3_qp_put(call.qp);
	}
	cm_id->provider_data = NULL;
	t3_ep_put(ep);
	return ret;
}

/**
 * t3_cm_reject - iw_reject: answer a connect request with no
 * @cm_id: id of the connection that will not be
 * @pdata: what to tell the peer
 * @len: its length
 *
 * Return: 0, or -ECONNRESET if the peer has gone.
 */
int t3_cm_reject(struct iw_cm_id *cm_id, const void *pdata, u8 len)
{
	struct t3_ep *ep = cm_id->provider_data;
	struct t3_ep_call call = {
		.what = EP_EV_REJECT,
		.pdata = pdata,
		.pdata_len = len,
	};
	int ret = t3_ep_call(ep, &call);

	cm_id->provider_data = NULL;
	t3_ep_put(ep);
	return ret;
}

/* --- life of the connection manager -------------------------------------- */

int t3_cm_init(void)
{
	t3_cm_wq = alloc_workqueue("iw_cxgb3_cm", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return t3_cm_wq ? 0 : -ENOMEM;
}

void t3_cm_exit(void)
{
	destroy_workqueue(t3_cm_wq);
	rcu_barrier();
}

int t3_cm_open(struct t3_dev *dev)
{
	const struct t3c_data *td = t3c_data(dev->tdev);
	struct t3_cm_dev *cm;

	cm = kvzalloc(sizeof(*cm), GFP_KERNEL);
	if (!cm)
		return -ENOMEM;
	cm->dev = dev;
	cm->nmtus = min_t(unsigned int, td->nmtus, T3_CM_MTUS);
	memcpy(cm->mtus, td->mtus, cm->nmtus * sizeof(cm->mtus[0]));
	xa_init_flags(&cm->eps, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);
	init_waitqueue_head(&cm->idle);
	spin_lock_init(&cm->lock);
	INIT_LIST_HEAD(&cm->listeners);
	dev->cm = cm;
	t3_cm_debugfs_add(cm);
	return 0;
}

/* No new endpoint or listener after this. */
static void forbid(struct t3_cm_dev *cm)
{
	spin_lock_bh(&cm->lock);
	WRITE_ONCE(cm->stopped, true);
	spin_unlock_bh(&cm->lock);
	smp_mb();	/* pairs with the one in t3_ep_alloc() */
}

static bool is_any(const struct t3_ep *ep, const void *arg)
{
	return true;
}

/* Ask every endpoint; whether all have come to their end within the timeout. */
static bool end_all(struct t3_cm_dev *cm, enum t3_ep_request req, unsigned long timeout)
{
	t3_ep_request_if(cm->dev, req, is_any, NULL);
	return wait_event_timeout(cm->idle, !atomic_read(&cm->live), timeout);
}

void t3_cm_retire(struct t3_dev *dev)
{
	forbid(dev->cm);
	/* What remains is opens that the card has yet to give up. */
	end_all(dev->cm, T3_REQ_RETIRE, T3_RETIRE_TIMEOUT);
}

void t3_cm_fatal(struct t3_dev *dev)
{
	forbid(dev->cm);
	t3_listener_stop_all(dev->cm);
	end_all(dev->cm, T3_REQ_DEVICE_DOWN, 0);
}

bool t3_cm_busy(struct t3_dev *dev)
{
	return atomic_read(&dev->cm->live);
}

void t3_cm_stop(struct t3_dev *dev)
{
	struct t3_cm_dev *cm = dev->cm;

	forbid(cm);
	t3_listener_stop_all(cm);
	if (!end_all(cm, T3_REQ_DEVICE_DOWN, t3_card_timeout()))
		ibdev_err(&dev->ibdev, "%d connections do not end\n", atomic_read(&cm->live));

	/* cxgb3 frees its tables when we return. */
	WRITE_ONCE(cm->unplugged, true);
	synchronize_rcu();
}

void t3_cm_close(struct t3_dev *dev)
{
	struct t3_cm_dev *cm = dev->cm;

	wait_event(cm->idle, !atomic_read(&cm->live));
	flush_workqueue(t3_cm_wq);
	t3_cm_debugfs_remove(cm);
	xa_destroy(&cm->eps);
	dev->cm = NULL;
	kvfree(cm);
}
