// SPDX-License-Identifier: GPL-2.0
/*
 * The MPA reply on the active side, with the real cm.c, ep.c and tables: the consumer gets one
 * event, and its reference is dropped once. The card, the QP and the consumer are fakes in this
 * file.
 */
#include <linux/delay.h>
#include <linux/module.h>

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
	int rtr_error, connect_error, stream_error;
	bool init_is_acked, no_qp, no_rtr_entry, no_connect;
	int qp_refs;
	unsigned int ids, max_ids;		/* ATIDs and TIDs, each of which is charged */
	unsigned int lost, detached;
	u8 mpa_rev, rtr_type, mpa_attrs;
	unsigned int handled;			/* messages; each takes a while */
	int debugfs;				/* folders */
} card;

static struct {
	unsigned int replies, closes, others;
	int reply, close;
	int refs;
	unsigned int pdata_len;
} consumer;

static struct t3_dev *dev;
static struct t3_qp *qp;
static struct iw_cm_id cm_id;

/* --- the consumer --------------------------------------------------------- */

static int on_event(struct iw_cm_id *id, struct iw_cm_event *event)
{
	switch (event->event) {
	case IW_CM_EVENT_CONNECT_REPLY:
		consumer.replies++;
		consumer.reply = event->status;
		consumer.pdata_len = event->private_data_len;
		break;
	case IW_CM_EVENT_CLOSE:
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
	return 0;
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
	struct t3_ep_call call = { .qp = qp, .cm_id = &cm_id };
	struct t3_ep *ep = t3_ep_alloc(dev);
	struct mpa_startup request;
	bool read = c->rtr_type == T3_RTR_READ;

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	ep->mpa_rev = c->rev;
	card.no_rtr_entry = c->no_entry;
	peer2peer = c->peer2peer;
	take(&cm_id);
	KUNIT_EXPECT_EQ(test, t3_cm_start_connect(ep, &call), c->ret);
	peer2peer = T3_P2P_NEGOTIATED;
	if (c->ret) {
		KUNIT_EXPECT_EQ(test, card.opens, 0);
		/* As t3_cm_connect() after a failure. */
		drop(&cm_id);
		consumer.replies++;
		end(test, ep);
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
	const struct t3_ep_call call = {};
	struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	reply.crc = false;
	crc_enabled = false;
	KUNIT_EXPECT_EQ(test, t3_cm_build_request(ep, &call), 0);
	crc_enabled = true;
	markers_enabled = true;
	receive(test, ep, &reply);
	markers_enabled = false;
	KUNIT_EXPECT_EQ(test, card.mpa_attrs, T3_MPA_IETF);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, -ENODEV);
	end(test, ep);
}

static void unsent_reject_is_an_error(struct kunit *test)
{
	struct t3_ep_call call = { .event = EP_EV_REJECT };
	struct t3_ep *ep = new_ep(test);

	init_completion(&call.done);
	ep->active = false;
	ep->cm_id = NULL;
	drop(&cm_id);
	t3_ep_stop_timer(ep);
	ep->state = EP_MPA_REQ_RCVD;
	card.stream_error = -ENOMEM;
	t3_cm_run_call(ep, &call);
	KUNIT_EXPECT_EQ(test, call.ret, -ENOMEM);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	t3_ep_fsm_apply(ep, EP_EV_ABORT_RPL, 0);
	end(test, ep);
	consumer.replies++;	/* the passive side has none, but cm_exit() counts it */
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
	KUNIT_CASE(unsent_reject_is_an_error),
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

MODULE_LICENSE("GPL");
