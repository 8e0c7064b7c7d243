// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of a consumer and its events, with the real cm.c, ep.c and tables: a call does not wait for
 * the card, the consumer gets one result, and its reference is dropped once. The card, the QP and
 * the consumer are fakes in this file.
 */
#include <linux/delay.h>
#include <linux/module.h>

/* Replaces t3_race_point.h: something may happen at a named point. */
#define T3_RACE_POINT_H

static void cm_point(const char *name);
#define T3_RACE_POINT(name)	cm_point(#name)

#include "conn.h"
#include "slow_work.h"

#include "ep_fsm.c"
#include "quota.c"
#include "ep.c"
#include "mpa.c"
#include "cm.c"

enum { QPN = 32 };

static struct {
	unsigned int opens, streams, rtrs, closes, aborts, abort_rpls, connects;
	int rtr_error, connect_error, stream_error, route_error, atid_error;
	unsigned int accepts_failed;		/* T3_QPEV_ACCEPT_FAILED */
	bool init_is_acked, no_qp, no_rtr_entry, no_connect, qp_in_error;
	int qp_refs;
	unsigned int ids, max_ids;		/* ATIDs and TIDs, each of which is charged */
	unsigned int lost, detached;
	u8 mpa_rev, rtr_type, mpa_attrs;
	unsigned int handled;			/* messages; each takes a while */
	void (*message)(struct t3_ep *ep);	/* what the next one does instead */
	int debugfs;				/* folders */
} card;

static struct {
	unsigned int replies, established, closes, requests, others;
	int reply, established_status, close;
	int refs;
	unsigned int pdata_len;
	void (*answer)(void);		/* to a request, inside its event */
	int answered;			/* its result */
} consumer;

static struct {
	const char *name;
	void (*happens)(void);
} at;

static struct t3_dev *dev;
static struct t3_qp *qp;
static struct iw_cm_id cm_id;
static struct t3_listener listener;

static void cm_point(const char *name)
{
	if (!at.name || strcmp(name, at.name))
		return;
	at.name = NULL;
	at.happens();
}

/* --- the consumer --------------------------------------------------------- */

static int on_event(struct iw_cm_id *id, struct iw_cm_event *event)
{
	switch (event->event) {
	case IW_CM_EVENT_CONNECT_REPLY:
		consumer.replies++;
		consumer.reply = event->status;
		consumer.pdata_len = event->private_data_len;
		break;
	case IW_CM_EVENT_CONNECT_REQUEST:
		consumer.requests++;
		id->provider_data = event->provider_data;
		if (consumer.answer)
			consumer.answer();
		break;
	case IW_CM_EVENT_ESTABLISHED:
		/* iw_cm: BUG() after another event of the connection. */
		consumer.others += consumer.closes;
		consumer.established++;
		consumer.established_status = event->status;
		break;
	case IW_CM_EVENT_CLOSE:
		/* iw_cm: BUG() before the connection is established. */
		consumer.others += !consumer.established && !consumer.replies;
		consumer.closes++;
		consumer.close = event->status;
		break;
	default:
		consumer.others++;
	}
	return 0;
}

static void take(struct iw_cm_id *id)
{
	consumer.refs++;
}

static void drop(struct iw_cm_id *id)
{
	consumer.refs--;
}

/* --- the QP --------------------------------------------------------------- */

struct t3_qp *t3_qp_find(struct t3_dev *dev, u32 id)
{
	if (card.no_qp || id != QPN)
		return NULL;
	card.qp_refs++;
	return qp;
}

void t3_qp_put(struct t3_qp *qp)
{
	card.qp_refs--;
}

bool t3_qp_reserve_rtr_entry(struct t3_qp *qp)
{
	return !card.no_rtr_entry;
}

bool t3_qp_in_state(struct t3_qp *qp, enum ib_qp_state state)
{
	return state == IB_QPS_ERR && card.qp_in_error;
}

bool t3_qp_allows_remote_read(struct t3_qp *qp)
{
	return true;
}

int t3_qp_connect(struct t3_qp *qp, struct t3_ep *ep, const struct t3_conn_attrs *attrs,
		  bool *acked)
{
	card.connects++;
	card.mpa_rev = attrs->mpa_rev;
	card.rtr_type = attrs->rtr_type;
	card.mpa_attrs = attrs->mpa_attrs;
	*acked = card.init_is_acked;
	return card.connect_error;
}

int t3_qp_report(struct t3_qp *qp, enum t3_qp_event ev)
{
	card.lost += ev == T3_QPEV_LOST;
	card.accepts_failed += ev == T3_QPEV_ACCEPT_FAILED;
	return 0;
}

void t3_qp_disconnected(struct t3_qp *qp)
{
	card.detached++;
}

/* --- the card ------------------------------------------------------------- */

int t3_send_act_open_req(struct t3_ep *ep)
{
	card.opens++;
	card.mpa_rev = ep->mpa_rev;
	return 0;
}

int t3_send_stream(struct t3_ep *ep, unsigned int until)
{
	card.streams++;
	return card.stream_error;
}

int t3_send_rtr_read(struct t3_ep *ep)
{
	card.rtrs += !card.rtr_error;
	return card.rtr_error;
}

void t3_send_close_con_req(struct t3_ep *ep)
{
	card.closes++;
}

void t3_send_abort_req(struct t3_ep *ep)
{
	card.aborts++;
}

void t3_send_abort_rpl(struct t3_ep *ep)
{
	card.abort_rpls++;
}

int t3_cpl_reserve(struct t3_ep *ep)
{
	return 0;
}

void t3_cpl_handle(struct t3_ep *ep, struct sk_buff *skb)
{
	void (*message)(struct t3_ep *ep) = card.message;

	if (message) {
		card.message = NULL;
		message(ep);
		return;
	}
	msleep(50);
	card.handled++;
}

unsigned long t3_card_timeout(void)
{
	return 60 * HZ;
}

void t3_dev_fatal(struct t3_dev *dev, const char *what)
{
}

int t3_take_atid(struct t3_ep *ep)
{
	if (card.atid_error)
		return card.atid_error;
	ep->id_kind = T3_ID_ATID;
	card.max_ids = max(card.max_ids, ++card.ids);
	return 0;
}

void t3_return_id(struct t3_ep *ep)
{
	card.ids -= ep->id_kind != T3_ID_NONE;
	ep->id_kind = T3_ID_NONE;
}

int t3_route_resolve(struct t3_ep *ep)
{
	return card.route_error;
}

void t3_route_release(struct t3_ep *ep)
{
}

bool t3_listener_upcall_begin(struct t3_listener *l)
{
	return true;
}

void t3_listener_upcall_end(struct t3_listener *l)
{
}

void t3_listener_remove_child(struct t3_ep *ep)
{
}

void t3_listener_wake_all(struct t3_cm_dev *cm)
{
}

void t3_cm_debugfs_add(struct t3_cm_dev *cm)
{
	card.debugfs++;
}

void t3_cm_debugfs_remove(struct t3_cm_dev *cm)
{
	card.debugfs--;
}

/* --- a device, and a connection that waits for the reply ------------------- */

static int cm_init(struct kunit *test)
{
	memset(&card, 0, sizeof(card));
	memset(&consumer, 0, sizeof(consumer));
	dev = conn_dev(test);
	qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->id = QPN;
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	KUNIT_ASSERT_EQ(test, xa_insert_irq(&dev->qps, QPN, qp, GFP_KERNEL), 0);
	cm_id = (struct iw_cm_id){ .device = &dev->ibdev };
	cm_id.event_handler = on_event;
	cm_id.add_ref = take;
	cm_id.rem_ref = drop;
	KUNIT_ASSERT_EQ(test, t3_cm_init(), 0);
	return 0;
}

static void cm_exit(struct kunit *test)
{
	drain_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 0);
	KUNIT_EXPECT_EQ(test, card.ids, 0);
	KUNIT_EXPECT_EQ(test, card.qp_refs, 0);
	KUNIT_EXPECT_NULL(test, at.name);
	KUNIT_EXPECT_EQ(test, consumer.others, 0);
	KUNIT_EXPECT_EQ(test, consumer.replies, !card.no_connect);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	KUNIT_EXPECT_EQ(test, card.debugfs, 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_CM_BAD_EVENT]), 0);
	t3_cm_exit();
	xa_destroy(&dev->qps);
}

/* It has sent a request in revision 2 that offers the RTR read. */
static struct t3_ep *new_ep(struct kunit *test)
{
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	ep->active = true;
	ep->mpa_rev = MPA_REVISION_2;
	ep->enhanced = true;
	ep->rtr_type = T3_RTR_READ;
	ep->ord = 4;
	ep->ird = 4;
	ep->qpn = QPN;
	ep->cm_id = &cm_id;
	ep->id_kind = T3_ID_TID;
	card.max_ids = max(card.max_ids, ++card.ids);
	take(&cm_id);
	ep->state = EP_MPA_REQ_SENT;
	t3_ep_set_timer(ep, 60 * HZ);
	return ep;
}

static void end(struct kunit *test, struct t3_ep *ep)
{
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	KUNIT_EXPECT_NULL(test, ep->cm_id);
	flush_work(&ep->work);
	flush_delayed_work(&ep->timer);
	KUNIT_EXPECT_EQ(test, kref_read(&ep->ref), 1);
	t3_ep_put(ep);
}

static struct mpa_startup good_reply(void)
{
	return (struct mpa_startup){
		.kind = MPA_REPLY,
		.rev = MPA_REVISION_2,
		.crc = true,
		.enhanced = true,
		.peer_to_peer = true,
		.rtr = MPA_RTR_READ,
		.ird = 4,
		.ord = 4,
		.pdata = "hi",
		.pdata_len = 2,
	};
}

static void receive(struct kunit *test, struct t3_ep *ep, const struct mpa_startup *reply)
{
	int len = mpa_build(ep->rx_frame, sizeof(ep->rx_frame), reply);

	KUNIT_ASSERT_GT(test, len, 0);
	ep->rx_len = len;
	t3_cm_rx_stream(ep);
}

/* --- tests ----------------------------------------------------------------- */

static void good_reply_connects(struct kunit *test)
{
	const struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	receive(test, ep, &reply);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	KUNIT_EXPECT_EQ(test, card.connects, 1);
	KUNIT_EXPECT_EQ(test, card.rtrs, 1);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	KUNIT_EXPECT_EQ(test, consumer.reply, 0);
	KUNIT_EXPECT_EQ(test, consumer.pdata_len, 2);
	KUNIT_EXPECT_EQ(test, consumer.refs, 1);
	t3_ep_fsm_apply(ep, EP_EV_PEER_ABORT, -ECONNRESET);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	KUNIT_EXPECT_EQ(test, consumer.close, -ECONNRESET);
	KUNIT_EXPECT_EQ(test, card.detached, 1);
	end(test, ep);
}

/* With posted receives the read follows the ack of RDMA_INIT. */
static void rtr_read_waits_for_the_init_ack(struct kunit *test)
{
	const struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	card.init_is_acked = true;
	receive(test, ep, &reply);
	KUNIT_EXPECT_EQ(test, card.rtrs, 0);
	KUNIT_EXPECT_EQ(test, consumer.reply, 0);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	ep->init_unacked = false;
	t3_cm_init_acked(ep);
	KUNIT_EXPECT_EQ(test, card.rtrs, 1);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, -ENODEV);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	end(test, ep);
}

/* The connect was reported before, so the end is a CLOSE. */
static void late_rtr_failure_closes(struct kunit *test)
{
	const struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	card.init_is_acked = true;
	receive(test, ep, &reply);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	card.rtr_error = -ENOMEM;
	ep->init_unacked = false;
	t3_cm_init_acked(ep);
	KUNIT_EXPECT_EQ(test, card.aborts, 1);
	t3_ep_fsm_apply(ep, EP_EV_ABORT_RPL, 0);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	end(test, ep);
}

static const struct rtr_end {
	const char *name;
	enum ep_event events[2];
	int status;			/* of the last one */
	int reply;
} rtr_ends[] = {
	{ "reply to the abort", { EP_EV_ABORT_RPL }, 0, -ECONNRESET },
	{ "aborts cross", { EP_EV_ABORT_RPL_CROSSED, EP_EV_PEER_ABORT }, -ECONNRESET, -ECONNRESET },
	{ "device down", { EP_EV_DEVICE_DOWN }, -ENODEV, -ENODEV },
};

static void rtr_end_name(const struct rtr_end *end, char *name)
{
	strscpy(name, end->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(rtr_end, rtr_ends, rtr_end_name);

/* iw_cm in CONN_SENT expects a CONNECT_REPLY only. A CLOSE is a BUG() there. */
static void rtr_failure_fails_the_connect(struct kunit *test)
{
	const struct rtr_end *how = test->param_value;
	const struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	card.rtr_error = -ENOMEM;
	receive(test, ep, &reply);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	KUNIT_EXPECT_EQ(test, card.aborts, 1);
	KUNIT_EXPECT_EQ(test, card.lost, 1);
	KUNIT_EXPECT_EQ(test, consumer.replies, 0);
	t3_cm_report_peer_close(ep);
	t3_ep_fsm_apply(ep, how->events[0], how->status);
	if (how->events[1])
		t3_ep_fsm_apply(ep, how->events[1], how->status);
	KUNIT_EXPECT_EQ(test, consumer.closes, 0);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	KUNIT_EXPECT_EQ(test, consumer.reply, how->reply);
	KUNIT_EXPECT_EQ(test, card.detached, 1);
	/* The peer has sent a reply, so it implements revision 2: no retry. */
	drain_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, card.opens, 0);
	end(test, ep);
}

static void qp_error_fails_the_connect(struct kunit *test)
{
	const struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	card.connect_error = -EINVAL;
	receive(test, ep, &reply);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	KUNIT_EXPECT_EQ(test, consumer.reply, -EINVAL);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	t3_ep_fsm_apply(ep, EP_EV_ABORT_RPL, 0);
	KUNIT_EXPECT_EQ(test, consumer.closes, 0);
	KUNIT_EXPECT_EQ(test, card.detached, 0);
	KUNIT_EXPECT_EQ(test, card.rtrs, 0);
	end(test, ep);
}

static void missing_qp_fails_the_connect(struct kunit *test)
{
	const struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	card.no_qp = true;
	receive(test, ep, &reply);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	KUNIT_EXPECT_EQ(test, card.connects, 0);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	KUNIT_EXPECT_EQ(test, consumer.reply, -EINVAL);
	t3_ep_fsm_apply(ep, EP_EV_ABORT_RPL, 0);
	KUNIT_EXPECT_EQ(test, consumer.closes, 0);
	end(test, ep);
}

static void reject_is_reported_with_its_data(struct kunit *test)
{
	struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	reply.reject = true;
	receive(test, ep, &reply);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSING);
	KUNIT_EXPECT_EQ(test, card.closes, 1);
	KUNIT_EXPECT_EQ(test, card.connects, 0);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	KUNIT_EXPECT_EQ(test, consumer.reply, -ECONNREFUSED);
	KUNIT_EXPECT_EQ(test, consumer.pdata_len, 2);
	t3_ep_fsm_apply(ep, EP_EV_PEER_ABORT, -ECONNRESET);
	KUNIT_EXPECT_EQ(test, consumer.closes, 0);
	end(test, ep);
}

/* A reply in revision 1 to a request in revision 2 negotiates no RTR. */
static void rev1_reply_connects_without_rtr(struct kunit *test)
{
	struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	reply.rev = MPA_REVISION_1;
	reply.enhanced = false;
	reply.peer_to_peer = false;
	receive(test, ep, &reply);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	KUNIT_EXPECT_EQ(test, card.mpa_rev, MPA_REVISION_1);
	KUNIT_EXPECT_EQ(test, card.rtr_type, T3_RTR_NONE);
	KUNIT_EXPECT_EQ(test, card.rtrs, 0);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	KUNIT_EXPECT_EQ(test, consumer.reply, 0);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, -ENODEV);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	end(test, ep);
}

static const struct rtr_case {
	const char *name;
	unsigned int peer2peer;
	u8 rev;
	bool no_entry;
	int ret;
	u8 rtr_type;
} rtr_cases[] = {
	{ "an entry", T3_P2P_NEGOTIATED, MPA_REVISION_2, false, 0, T3_RTR_READ },
	{ "no entry", T3_P2P_NEGOTIATED, MPA_REVISION_2, true, 0, T3_RTR_NONE },
	{ "revision 1", T3_P2P_NEGOTIATED, MPA_REVISION_1, false, 0, T3_RTR_NONE },
	{ "by convention", T3_P2P_ALWAYS, MPA_REVISION_1, false, 0, T3_RTR_READ },
	{ "by convention, no entry", T3_P2P_ALWAYS, MPA_REVISION_1, true, -ENOMEM, 0 },
	{ "the reply may be in revision 1", T3_P2P_ALWAYS, MPA_REVISION_2, true, -ENOMEM, 0 },
	{ "never, no entry", T3_P2P_NEVER, MPA_REVISION_2, true, 0, T3_RTR_NONE },
};

static void rtr_case_name(const struct rtr_case *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(rtr_case, rtr_cases, rtr_case_name);

/* The response of the read takes an entry of the send CQ. peer2peer 1 requires one. */
static void rtr_needs_a_cq_entry(struct kunit *test)
{
	const struct rtr_case *c = test->param_value;
	struct t3_ep *ep = t3_ep_alloc(dev);
	struct mpa_startup request;
	bool read = c->rtr_type == T3_RTR_READ;

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	ep->mpa_rev = c->rev;
	card.no_rtr_entry = c->no_entry;
	peer2peer = c->peer2peer;
	KUNIT_EXPECT_EQ(test, t3_cm_post_connect(ep, &cm_id, qp), c->ret);
	peer2peer = T3_P2P_NEGOTIATED;
	flush_work(&ep->work);
	if (c->ret) {
		KUNIT_EXPECT_EQ(test, card.opens, 0);
		card.no_connect = true;
		t3_ep_put(ep);
		return;
	}
	KUNIT_EXPECT_EQ(test, ep->rtr_type, c->rtr_type);
	KUNIT_EXPECT_EQ(test, ep->ord, (u16)read);
	KUNIT_ASSERT_EQ(test, mpa_parse(MPA_REQUEST, ep->tx_frame, ep->tx_len, &request),
			MPA_COMPLETE);
	KUNIT_EXPECT_EQ(test, request.rev, c->rev);
	KUNIT_EXPECT_EQ(test, request.peer_to_peer, read && c->rev == MPA_REVISION_2);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, -ENODEV);
	end(test, ep);
}

/* A reset instead of a reply: the peer may implement only revision 1. */
static void reset_without_a_reply_retries_rev1(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test);

	t3_ep_fsm_apply(ep, EP_EV_PEER_ABORT, -ECONNRESET);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, card.opens, 1);
	KUNIT_EXPECT_EQ(test, card.mpa_rev, MPA_REVISION_1);
	KUNIT_EXPECT_EQ(test, consumer.replies, 0);
	KUNIT_EXPECT_EQ(test, consumer.refs, 1);
	end(test, ep);
	t3_ep_request_if(dev, T3_REQ_DEVICE_DOWN, t3_cm_match_any, NULL);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, consumer.reply, -ENODEV);
}

/*
 * A FIN instead of a reply: the retry follows when the first connection is closed and its TID is
 * released, so that a connect has one TID at a time.
 */
static void fin_without_a_reply_retries_rev1(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test);

	t3_ep_fsm_apply(ep, EP_EV_PEER_CLOSE, -ECONNRESET);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, card.closes, 1);
	KUNIT_EXPECT_EQ(test, card.opens, 0);
	KUNIT_EXPECT_EQ(test, consumer.replies, 0);
	t3_ep_fsm_apply(ep, EP_EV_CLOSE_RPL, 0);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, card.opens, 1);
	KUNIT_EXPECT_EQ(test, card.mpa_rev, MPA_REVISION_1);
	KUNIT_EXPECT_EQ(test, card.max_ids, 1);
	KUNIT_EXPECT_EQ(test, consumer.replies, 0);
	KUNIT_EXPECT_EQ(test, consumer.refs, 1);
	end(test, ep);
	t3_ep_request_if(dev, T3_REQ_DEVICE_DOWN, t3_cm_match_any, NULL);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, consumer.reply, -ENODEV);
}

static const struct fin_end {
	const char *name;
	enum ep_event events[2];
	int status;			/* of the last one */
	int reply;
} fin_ends[] = {
	{ "close times out", { EP_EV_TIMEOUT, EP_EV_ABORT_RPL }, 0, -ECONNRESET },
	{ "QP is destroyed", { EP_EV_ABORT, EP_EV_ABORT_RPL }, 0, -ECONNRESET },
	{ "driver is unbound", { EP_EV_SHUT_DOWN, EP_EV_ABORT_RPL }, 0, -ECONNRESET },
	{ "device down", { EP_EV_DEVICE_DOWN }, -ENODEV, -ENODEV },
};

static void fin_end_name(const struct fin_end *end, char *name)
{
	strscpy(name, end->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(fin_end, fin_ends, fin_end_name);

/* The close of the first connection fails: no retry, and one CONNECT_REPLY. */
static void fin_then_a_failed_close_fails_the_connect(struct kunit *test)
{
	const struct fin_end *how = test->param_value;
	struct t3_ep *ep = new_ep(test);
	unsigned int i;

	t3_ep_fsm_apply(ep, EP_EV_PEER_CLOSE, -ECONNRESET);
	for (i = 0; i < ARRAY_SIZE(how->events) && how->events[i]; i++)
		t3_ep_fsm_apply(ep, how->events[i], how->status);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, card.opens, 0);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	KUNIT_EXPECT_EQ(test, consumer.reply, how->reply);
	KUNIT_EXPECT_EQ(test, card.lost, 0);
	end(test, ep);
}

/* The peer has got the request: what it requires cannot change any more. */
static void parameters_change_after_the_request(struct kunit *test)
{
	struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	reply.crc = false;
	crc_enabled = false;
	KUNIT_EXPECT_EQ(test, t3_cm_build_request(ep), 0);
	crc_enabled = true;
	markers_enabled = true;
	receive(test, ep, &reply);
	markers_enabled = false;
	KUNIT_EXPECT_EQ(test, card.mpa_attrs, T3_MPA_IETF);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, -ENODEV);
	end(test, ep);
}

/* --- connect --------------------------------------------------------------- */

static void ipv4(struct sockaddr_storage *addr, u16 port)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)addr;

	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = cpu_to_be32(0x0a000001);
	sin->sin_port = cpu_to_be16(port);
}

static int connect(u32 qpn, u32 ord, const char *pdata)
{
	struct iw_cm_conn_param param = {
		.private_data = pdata,
		.private_data_len = pdata ? strlen(pdata) : 0,
		.ord = ord,
		.qpn = qpn,
	};

	ipv4(&cm_id.m_local_addr, 1);
	ipv4(&cm_id.m_remote_addr, 2);
	return t3_cm_connect(&cm_id, &param);
}

/* The endpoint of connect(). */
static struct t3_ep *connected(struct kunit *test)
{
	unsigned long id = 0;
	struct t3_ep *ep = xa_find(&dev->cm->eps, &id, ULONG_MAX, XA_PRESENT);

	KUNIT_ASSERT_NOT_NULL(test, ep);
	t3_ep_get(ep);
	return ep;
}

static void connect_returns_before_the_reply(struct kunit *test)
{
	char pdata[] = "mine";
	struct mpa_startup request;
	struct t3_ep *ep;

	KUNIT_ASSERT_EQ(test, connect(QPN, 4, pdata), 0);
	memset(pdata, 'x', sizeof(pdata));
	ep = connected(test);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CONNECTING);
	KUNIT_EXPECT_EQ(test, card.opens, 1);
	KUNIT_EXPECT_EQ(test, card.qp_refs, 0);
	KUNIT_EXPECT_EQ(test, consumer.replies, 0);
	KUNIT_EXPECT_EQ(test, consumer.refs, 1);
	KUNIT_ASSERT_EQ(test, mpa_parse(MPA_REQUEST, ep->tx_frame, ep->tx_len, &request),
			MPA_COMPLETE);
	KUNIT_EXPECT_EQ(test, memcmp(request.pdata, "mine", 4), 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, consumer.reply, -ENODEV);
	end(test, ep);
}

static void stop_device(void)
{
	t3_cm_refuse_new(dev->cm);
	t3_ep_request_if(dev, T3_REQ_SHUT_DOWN, t3_cm_match_any, NULL);
}

static void destroy_qp(void)
{
	xa_erase_irq(&dev->qps, QPN);
	t3_cm_abort_connects(dev, QPN);
}

static void destroy_qp_and_wait(void)
{
	destroy_qp();
	flush_workqueue(t3_cm_wq);
}

static void qp_in_error(void)
{
	card.qp_in_error = true;
	t3_cm_abort_connects(dev, QPN);
}

static void qp_in_error_and_wait(void)
{
	qp_in_error();
	flush_workqueue(t3_cm_wq);
}

static void stop_device_and_wait(void)
{
	stop_device();
	flush_workqueue(t3_cm_wq);
}

static const struct refused_connect {
	const char *name;
	u32 qpn, ord;
	int route, atid;
	const char *point;
	void (*happens)(void);
	int ret;
} refused_connects[] = {
	{ "no such QP", QPN + 1, 0, 0, 0, NULL, NULL, -EINVAL },
	{ "read depth", QPN, T3_MAX_RD_ATOM + 1, 0, 0, NULL, NULL, -EINVAL },
	{ "no route", QPN, 0, -EHOSTUNREACH, 0, NULL, NULL, -EHOSTUNREACH },
	{ "no id", QPN, 0, 0, -ENOMEM, NULL, NULL, -ENOMEM },
	{ "device stops, with an id", QPN, 0, 0, -ENODEV, "t3_connect_has_route", stop_device,
	  -ENODEV },
	{ "QP is destroyed, with a route", QPN, 0, 0, 0, "t3_connect_has_route", destroy_qp,
	  -EINVAL },
	{ "QP is destroyed, published", QPN, 0, 0, 0, "t3_connect_published", destroy_qp_and_wait,
	  -EINVAL },
	{ "QP is in error, with a route", QPN, 0, 0, 0, "t3_connect_has_route", qp_in_error,
	  -EINVAL },
	{ "QP is in error, published", QPN, 0, 0, 0, "t3_connect_published", qp_in_error_and_wait,
	  -EINVAL },
};

static void refused_connect_name(const struct refused_connect *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(refused_connect, refused_connects, refused_connect_name);

/* What is known at once is the result of the call, and no event follows. */
static void connect_is_refused_at_once(struct kunit *test)
{
	const struct refused_connect *c = test->param_value;

	card.no_connect = true;
	card.route_error = c->route;
	card.atid_error = c->atid;
	at.name = c->point;
	at.happens = c->happens;
	KUNIT_EXPECT_EQ(test, connect(c->qpn, c->ord, NULL), c->ret);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, card.opens, 0);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_allocated), 0);
}

static const struct lost_connect {
	const char *name;
	const char *point;
	void (*happens)(void);
	bool opened;
} lost_connects[] = {
	{ "device stops, with a route", "t3_connect_has_route", stop_device, false },
	{ "device stops, published", "t3_connect_published", stop_device_and_wait, false },
	{ "QP is destroyed, posted", "t3_connect_posted", destroy_qp_and_wait, true },
	{ "device stops, posted", "t3_connect_posted", stop_device_and_wait, true },
};

static void lost_connect_name(const struct lost_connect *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(lost_connect, lost_connects, lost_connect_name);

/* It is posted, or will be: the end comes with the event, once. */
static void connect_ends_while_it_is_posted(struct kunit *test)
{
	const struct lost_connect *c = test->param_value;

	at.name = c->point;
	at.happens = c->happens;
	KUNIT_EXPECT_EQ(test, connect(QPN, 0, NULL), 0);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	KUNIT_EXPECT_NE(test, consumer.reply, 0);
	KUNIT_EXPECT_TRUE(test, c->opened || !card.opens || consumer.reply == -ENODEV);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	/* An open that the card has not replied to. */
	t3_ep_request_if(dev, T3_REQ_DEVICE_DOWN, t3_cm_match_any, NULL);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_allocated), 0);
}

/* --- accept and reject ------------------------------------------------------ */

/* It has received a request in revision 2, and the consumer has its event. */
static struct t3_ep *requested(struct kunit *test)
{
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	card.no_connect = true;
	listener.cm_id = &cm_id;
	ep->listener = &listener;
	ep->id_kind = T3_ID_TID;
	ep->state = EP_MPA_REQ_WAIT;
	card.max_ids = max(card.max_ids, ++card.ids);
	t3_ep_set_timer(ep, 60 * HZ);
	return ep;
}

static void in_the_ordered_context(struct kunit *test, struct t3_ep *ep,
				   void (*what)(struct t3_ep *ep))
{
	struct sk_buff *skb = alloc_skb(16, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	card.message = what;
	skb_queue_tail(&ep->inbox, skb);
	t3_ep_kick(ep);
	flush_work(&ep->work);
}

static void request_arrives(struct t3_ep *ep)
{
	const struct mpa_startup request = {
		.kind = MPA_REQUEST,
		.rev = MPA_REVISION_2,
		.crc = true,
		.enhanced = true,
		.ird = 4,
		.ord = 4,
	};

	ep->rx_len = mpa_build(ep->rx_frame, sizeof(ep->rx_frame), &request);
	t3_cm_rx_stream(ep);
}

static struct t3_ep *new_request(struct kunit *test)
{
	struct t3_ep *ep = requested(test);

	in_the_ordered_context(test, ep, request_arrives);
	KUNIT_ASSERT_EQ(test, ep->state, EP_MPA_REQ_RCVD);
	KUNIT_ASSERT_EQ(test, consumer.requests, 1);
	KUNIT_ASSERT_PTR_EQ(test, cm_id.provider_data, ep);
	return ep;
}

static int accept_with(u32 qpn, u32 ord, const char *pdata)
{
	struct iw_cm_conn_param param = {
		.private_data = pdata,
		.private_data_len = pdata ? strlen(pdata) : 0,
		.ord = ord,
		.ird = 2,
		.qpn = qpn,
	};

	return t3_cm_accept(&cm_id, &param);
}

static void accept(void)
{
	consumer.answered = accept_with(QPN, 4, NULL);
}

static void reject(void)
{
	consumer.answered = t3_cm_reject(&cm_id, NULL, 0);
}

static void init_acked(struct t3_ep *ep)
{
	ep->init_unacked = false;
	t3_cm_init_acked(ep);
}

/* RDMA_INIT is acknowledged at some time: no caller waits for it. */
static void accept_returns_before_the_card_answers(struct kunit *test)
{
	struct t3_ep *ep = new_request(test);
	char pdata[] = "mine";
	struct mpa_startup reply;

	card.init_is_acked = true;
	KUNIT_EXPECT_EQ(test, accept_with(QPN, 4, pdata), 0);
	memset(pdata, 'x', sizeof(pdata));
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ACCEPTING);
	KUNIT_EXPECT_EQ(test, card.connects, 1);
	KUNIT_EXPECT_EQ(test, card.qp_refs, 0);
	KUNIT_EXPECT_EQ(test, consumer.established, 0);
	KUNIT_EXPECT_EQ(test, consumer.refs, 1);
	KUNIT_ASSERT_EQ(test, mpa_parse(MPA_REPLY, ep->tx_frame, ep->tx_len, &reply), MPA_COMPLETE);
	KUNIT_EXPECT_EQ(test, memcmp(reply.pdata, "mine", 4), 0);
	in_the_ordered_context(test, ep, init_acked);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	KUNIT_EXPECT_EQ(test, consumer.established, 1);
	KUNIT_EXPECT_EQ(test, consumer.established_status, 0);
	KUNIT_EXPECT_EQ(test, consumer.closes, 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	KUNIT_EXPECT_NULL(test, cm_id.provider_data);
	end(test, ep);
}

/* The event is delivered in the ordered context that executes the answer. */
static void request_is_answered_inside_its_event(struct kunit *test)
{
	static void (*const answers[])(void) = { accept, reject };
	struct t3_ep *ep;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(answers); i++) {
		ep = requested(test);
		consumer.answer = answers[i];
		consumer.answered = -1;
		in_the_ordered_context(test, ep, request_arrives);
		flush_work(&ep->work);
		KUNIT_EXPECT_EQ(test, consumer.answered, 0);
		KUNIT_EXPECT_EQ(test, ep->state, i ? EP_CLOSING : EP_FPDU);
		KUNIT_EXPECT_EQ(test, consumer.established, 1);
		t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
		flush_work(&ep->work);
		KUNIT_EXPECT_EQ(test, consumer.closes, 1);
		end(test, ep);
	}
}

static void accept_and_reset(struct t3_ep *ep)
{
	accept();
	t3_ep_fsm_apply(ep, EP_EV_PEER_ABORT, -ECONNRESET);
}

static void accept_and_fin(struct t3_ep *ep)
{
	accept();
	t3_ep_fsm_apply(ep, EP_EV_PEER_CLOSE, -ECONNRESET);
}

static void accept_and_device_down(struct t3_ep *ep)
{
	accept();
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, -ENODEV);
}

static void accept_alone(struct t3_ep *ep)
{
	accept();
}

static const struct failed_accept {
	const char *name;
	void (*begin)(struct t3_ep *ep);	/* accepts; then the call is executed */
	int stream_error, connect_error;
	enum ep_event then;			/* while RDMA_INIT is not acknowledged */
	int then_status, status;
	bool had_qp;
	enum ep_state state;
} failed_accepts[] = {
	{ "peer resets before", accept_and_reset, 0, 0, 0, 0, -ECONNRESET, false, EP_CLOSED },
	{ "peer closes before", accept_and_fin, 0, 0, 0, 0, -ECONNRESET, false, EP_LAST_ACK },
	{ "device ends before", accept_and_device_down, 0, 0, 0, 0, -ECONNRESET, false, EP_CLOSED },
	{ "no memory for the reply", accept_alone, -ENOMEM, 0, 0, 0, -ENOMEM, false, EP_ABORTING },
	{ "QP cannot be connected", accept_alone, 0, -EINVAL, 0, 0, -EINVAL, false, EP_ABORTING },
	{ "peer resets", accept_alone, 0, 0, EP_EV_PEER_ABORT, -ECONNRESET, -ECONNRESET, true,
	  EP_CLOSED },
	{ "peer closes", accept_alone, 0, 0, EP_EV_PEER_CLOSE, -ECONNRESET, -ECONNRESET, true,
	  EP_ABORTING },
	{ "no ack", accept_alone, 0, 0, EP_EV_TIMEOUT, -ETIMEDOUT, -ETIMEDOUT, true, EP_ABORTING },
	{ "QP is destroyed", accept_alone, 0, 0, EP_EV_ABORT, -ECONNABORTED, -ECONNABORTED, true,
	  EP_ABORTING },
	{ "QP is closed", accept_alone, 0, 0, EP_EV_DISCONNECT, 0, -ECONNRESET, true, EP_ABORTING },
	{ "driver is unbound", accept_alone, 0, 0, EP_EV_SHUT_DOWN, -ENODEV, -ENODEV, true,
	  EP_ABORTING },
	{ "device ends", accept_alone, 0, 0, EP_EV_DEVICE_DOWN, -ENODEV, -ENODEV, true, EP_CLOSED },
};

static void failed_accept_name(const struct failed_accept *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(failed_accept, failed_accepts, failed_accept_name);

static const struct failed_accept *failing;

static void then_it_fails(struct t3_ep *ep)
{
	t3_ep_fsm_apply(ep, failing->then, failing->then_status);
}

/* After an accept that returned 0 iw_cm takes ESTABLISHED and then CLOSE, or is a BUG(). */
static void accept_fails_after_its_return(struct kunit *test)
{
	struct t3_ep *ep = new_request(test);

	failing = test->param_value;
	consumer.answered = -1;
	card.init_is_acked = true;
	card.stream_error = failing->stream_error;
	card.connect_error = failing->connect_error;
	in_the_ordered_context(test, ep, failing->begin);
	KUNIT_EXPECT_EQ(test, consumer.answered, 0);
	if (failing->then) {
		KUNIT_EXPECT_EQ(test, consumer.established, 0);
		in_the_ordered_context(test, ep, then_it_fails);
	}
	KUNIT_EXPECT_EQ(test, ep->state, failing->state);
	KUNIT_EXPECT_EQ(test, consumer.established, 1);
	KUNIT_EXPECT_EQ(test, consumer.established_status, failing->status);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	KUNIT_EXPECT_EQ(test, consumer.close, failing->status);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	KUNIT_EXPECT_NULL(test, cm_id.provider_data);
	/* The QP is in the ERROR state by the one way or the other. */
	KUNIT_EXPECT_EQ(test, card.lost, failing->had_qp);
	KUNIT_EXPECT_EQ(test, card.accepts_failed, !failing->had_qp);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	end(test, ep);
}

static const struct refused_accept {
	const char *name;
	enum ep_event before;
	u32 qpn, ord;
	int ret;
	enum ep_state state;
} refused_accepts[] = {
	{ "read depth", 0, QPN, T3_MAX_RD_ATOM + 1, -EINVAL, EP_ABORTING },
	{ "no such QP", 0, QPN + 1, 0, -EINVAL, EP_ABORTING },
	{ "peer has reset", EP_EV_PEER_ABORT, QPN, 0, -ECONNRESET, EP_CLOSED },
	{ "peer has closed", EP_EV_PEER_CLOSE, QPN, 0, -ECONNRESET, EP_LAST_ACK },
};

static void refused_accept_name(const struct refused_accept *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(refused_accept, refused_accepts, refused_accept_name);

/* An error of iw_accept precludes events: iw_cm would be a BUG(). */
static void accept_is_refused_at_once(struct kunit *test)
{
	const struct refused_accept *c = test->param_value;
	struct t3_ep *ep = new_request(test);

	if (c->before)
		t3_ep_fsm_apply(ep, c->before, -ECONNRESET);
	KUNIT_EXPECT_EQ(test, accept_with(c->qpn, c->ord, NULL), c->ret);
	KUNIT_EXPECT_NULL(test, cm_id.provider_data);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, c->state);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, consumer.established + consumer.closes, 0);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	end(test, ep);
	KUNIT_EXPECT_EQ(test, accept_with(QPN, 0, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, t3_cm_reject(&cm_id, NULL, 0), -ECONNRESET);
}

/* iw_cm admits it until it has handled ESTABLISHED, and forgets its reference on the first QP. */
static void second_accept_changes_nothing(struct kunit *test)
{
	struct t3_ep *ep = new_request(test);

	card.init_is_acked = true;
	KUNIT_EXPECT_EQ(test, accept_with(QPN, 4, NULL), 0);
	flush_work(&ep->work);
	card.qp_refs++;		/* that of iw_cm */
	KUNIT_EXPECT_EQ(test, accept_with(QPN, 4, NULL), 0);
	KUNIT_EXPECT_EQ(test, card.qp_refs, 0);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, card.connects, 1);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ACCEPTING);
	in_the_ordered_context(test, ep, init_acked);
	KUNIT_EXPECT_EQ(test, consumer.established, 1);
	KUNIT_EXPECT_EQ(test, consumer.established_status, 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	end(test, ep);
}

/* iw_cm takes no event any more: each of them would be a BUG(). */
static void reject_after_an_accept_ends_it_silently(struct kunit *test)
{
	struct t3_ep *ep = new_request(test);

	card.init_is_acked = true;
	KUNIT_EXPECT_EQ(test, accept_with(QPN, 4, NULL), 0);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, t3_cm_reject(&cm_id, NULL, 0), 0);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	KUNIT_EXPECT_EQ(test, card.lost, 1);
	KUNIT_EXPECT_EQ(test, consumer.established + consumer.closes, 0);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	end(test, ep);
}

/* The ack has come just before the reject. */
static void reject_meets_the_ack(struct t3_ep *ep)
{
	reject();
	init_acked(ep);
}

static void reject_after_an_accept_meets_the_ack(struct kunit *test)
{
	struct t3_ep *ep = new_request(test);

	card.init_is_acked = true;
	KUNIT_EXPECT_EQ(test, accept_with(QPN, 4, NULL), 0);
	flush_work(&ep->work);
	in_the_ordered_context(test, ep, reject_meets_the_ack);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, consumer.established + consumer.closes, 0);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	end(test, ep);
}

static void reject_is_sent_after_its_return(struct kunit *test)
{
	struct t3_ep *ep = new_request(test);
	char pdata[] = "full";
	struct mpa_startup reply;

	KUNIT_EXPECT_EQ(test, t3_cm_reject(&cm_id, pdata, 4), 0);
	memset(pdata, 'x', sizeof(pdata));
	KUNIT_EXPECT_NULL(test, cm_id.provider_data);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSING);
	KUNIT_EXPECT_EQ(test, card.streams, 1);
	KUNIT_ASSERT_EQ(test, mpa_parse(MPA_REPLY, ep->tx_frame, ep->tx_len, &reply), MPA_COMPLETE);
	KUNIT_EXPECT_TRUE(test, reply.reject);
	KUNIT_EXPECT_EQ(test, memcmp(reply.pdata, "full", 4), 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, consumer.established + consumer.closes, 0);
	end(test, ep);
}

static void unsent_reject_aborts(struct kunit *test)
{
	struct t3_ep *ep = new_request(test);

	card.stream_error = -ENOMEM;
	KUNIT_EXPECT_EQ(test, t3_cm_reject(&cm_id, NULL, 0), 0);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	end(test, ep);
}

static void reject_and_reset(struct t3_ep *ep)
{
	reject();
	t3_ep_fsm_apply(ep, EP_EV_PEER_ABORT, -ECONNRESET);
}

static void reject_of_a_request_that_ends(struct kunit *test)
{
	struct t3_ep *ep = new_request(test);

	consumer.answered = -1;
	in_the_ordered_context(test, ep, reject_and_reset);
	KUNIT_EXPECT_EQ(test, consumer.answered, 0);
	KUNIT_EXPECT_EQ(test, card.streams, 0);
	end(test, ep);
}

/* --- the end of the manager ---------------------------------------------------- */

static struct t3_dev *other;

static struct t3_ep *endpoint_of_another_device(struct kunit *test)
{
	static struct t3c_data nic;
	static struct t3cdev tdev = { .l4opt = &nic };
	struct t3_ep *ep;

	card.no_connect = true;
	other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, other);
	other->tdev = &tdev;
	KUNIT_ASSERT_EQ(test, t3_cm_open(other), 0);
	KUNIT_EXPECT_EQ(test, card.debugfs, 1);
	ep = t3_ep_alloc(other);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	return ep;
}

/*
 * The timer has expired while the endpoint closed: its work item queues the endpoint's one more
 * time, and that one finds a message.
 */
static void close_waits_for_the_last_work_item(struct kunit *test)
{
	struct t3_ep *ep = endpoint_of_another_device(test);
	struct sk_buff *skb = alloc_skb(16, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	KUNIT_EXPECT_FALSE(test, t3_cm_busy(other));
	skb_queue_tail(&ep->inbox, skb);
	/* With the last reference. */
	queue_delayed_work(t3_cm_wq, &ep->timer, 0);
	t3_cm_close(other);
	KUNIT_EXPECT_EQ(test, card.handled, 1);
	KUNIT_EXPECT_NULL(test, other->cm);
}

static struct completion closed;

static void close_work(struct work_struct *work)
{
	t3_cm_close(other);
	complete(&closed);
}

static void close_waits_for_endpoints(struct kunit *test)
{
	struct t3_ep *ep = endpoint_of_another_device(test);
	struct work_struct work;

	init_completion(&closed);
	INIT_WORK_ONSTACK(&work, close_work);
	queue_work(system_unbound_wq, &work);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&closed, HZ / 5), 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	t3_ep_put(ep);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&closed, 20 * HZ), 0);
	flush_work(&work);
	destroy_work_on_stack(&work);
}

/* cxgb3 frees its tables then, which others use between t3_dev_enter() and t3_dev_leave(). */
static void stop_waits_for_users_of_the_tables(struct kunit *test)
{
	struct t3_ep *ep = endpoint_of_another_device(test);
	unsigned long before;

	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	t3_ep_put(ep);
	before = get_state_synchronize_rcu();
	t3_cm_stop(other);
	KUNIT_EXPECT_TRUE(test, poll_state_synchronize_rcu(before));
	t3_cm_close(other);
}

/* Its code is freed then. */
static void exit_waits_for_work_items(struct kunit *test)
{
	struct workqueue_struct *of_the_test = t3_cm_wq;
	struct slow_work *slow = kunit_kzalloc(test, sizeof(*slow), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, slow);
	card.no_connect = true;
	KUNIT_ASSERT_EQ(test, t3_cm_init(), 0);
	INIT_WORK(&slow->work, run_slowly);
	queue_work(t3_cm_wq, &slow->work);
	t3_cm_exit();
	KUNIT_EXPECT_TRUE(test, slow->done);
	flush_work(&slow->work);
	t3_cm_wq = of_the_test;
}

static struct kunit_case cm_cases[] = {
	KUNIT_CASE(close_waits_for_the_last_work_item),
	KUNIT_CASE(close_waits_for_endpoints),
	KUNIT_CASE(stop_waits_for_users_of_the_tables),
	KUNIT_CASE(exit_waits_for_work_items),
	KUNIT_CASE(good_reply_connects),
	KUNIT_CASE(rtr_read_waits_for_the_init_ack),
	KUNIT_CASE(late_rtr_failure_closes),
	KUNIT_CASE_PARAM(rtr_failure_fails_the_connect, rtr_end_gen_params),
	KUNIT_CASE(qp_error_fails_the_connect),
	KUNIT_CASE(missing_qp_fails_the_connect),
	KUNIT_CASE(reject_is_reported_with_its_data),
	KUNIT_CASE(rev1_reply_connects_without_rtr),
	KUNIT_CASE_PARAM(rtr_needs_a_cq_entry, rtr_case_gen_params),
	KUNIT_CASE(reset_without_a_reply_retries_rev1),
	KUNIT_CASE(fin_without_a_reply_retries_rev1),
	KUNIT_CASE(parameters_change_after_the_request),
	KUNIT_CASE(connect_returns_before_the_reply),
	KUNIT_CASE_PARAM(connect_is_refused_at_once, refused_connect_gen_params),
	KUNIT_CASE_PARAM(connect_ends_while_it_is_posted, lost_connect_gen_params),
	KUNIT_CASE(accept_returns_before_the_card_answers),
	KUNIT_CASE(request_is_answered_inside_its_event),
	KUNIT_CASE_PARAM(accept_fails_after_its_return, failed_accept_gen_params),
	KUNIT_CASE_PARAM(accept_is_refused_at_once, refused_accept_gen_params),
	KUNIT_CASE(second_accept_changes_nothing),
	KUNIT_CASE(reject_after_an_accept_ends_it_silently),
	KUNIT_CASE(reject_after_an_accept_meets_the_ack),
	KUNIT_CASE(reject_is_sent_after_its_return),
	KUNIT_CASE(unsent_reject_aborts),
	KUNIT_CASE(reject_of_a_request_that_ends),
	KUNIT_CASE_PARAM(fin_then_a_failed_close_fails_the_connect, fin_end_gen_params),
	{}
};

static struct kunit_suite cm_suite = {
	.name = "iw_cxgb3_cm",
	.init = cm_init,
	.exit = cm_exit,
	.test_cases = cm_cases,
};

kunit_test_suites(&cm_suite);

MODULE_DESCRIPTION("KUnit tests of iw_cxgb3: cm");
MODULE_LICENSE("GPL");
