// SPDX-License-Identifier: GPL-2.0
/*
 * iw_connect(): the call does not wait for the card. The consumer gets one CONNECT_REPLY: after the
 * MPA reply and the RTR read, after a second try in MPA revision 1, or with an error.
 */
#include "around_cm.h"

/* --- replies --------------------------------------------------------------- */

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
	ep->qp_serial = qp->serial;
	ep->cm_id = &cm_id;
	ep->id_kind = T3_ID_TID;
	card.max_ids = max(card.max_ids, ++card.ids);
	take(&cm_id);
	ep->state = EP_MPA_REQ_SENT;
	t3_ep_set_timer(ep, 60 * HZ);
	return ep;
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

/* iw_cm cannot copy the private data. The reply comes without, so the CLOSE follows a reply. */
static void reply_without_memory_has_no_private_data(struct kunit *test)
{
	const struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	consumer.no_memory = true;
	receive(test, ep, &reply);
	KUNIT_EXPECT_EQ(test, consumer.replies, 1);
	KUNIT_EXPECT_EQ(test, consumer.reply, 0);
	KUNIT_EXPECT_EQ(test, consumer.pdata_len, 0);
	t3_ep_fsm_apply(ep, EP_EV_PEER_ABORT, -ECONNRESET);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	KUNIT_EXPECT_EQ(test, consumer.others, 0);
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

/* How a connect that has failed ends. */
struct connect_end {
	const char *name;
	enum ep_event events[2];
	int status;			/* of the last one */
	int reply;
};

static const struct connect_end rtr_ends[] = {
	{ "reply to the abort", { EP_EV_ABORT_RPL }, 0, -ECONNRESET },
	{ "aborts cross", { EP_EV_ABORT_RPL_CROSSED, EP_EV_PEER_ABORT }, -ECONNRESET, -ECONNRESET },
	{ "device down", { EP_EV_DEVICE_DOWN }, -ENODEV, -ENODEV },
};

NAMED_PARAM(rtr_end, rtr_ends);

/* iw_cm in CONN_SENT expects a CONNECT_REPLY only. A CLOSE is a BUG() there. */
static void rtr_failure_fails_the_connect(struct kunit *test)
{
	const struct connect_end *how = test->param_value;
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

/* Its owner has destroyed the QP, and the QP of another user has got the number. */
static void a_qp_that_got_the_number_later_is_not_connected(struct kunit *test)
{
	const struct mpa_startup reply = good_reply();
	struct t3_ep *ep = new_ep(test);

	qp->serial++;
	receive(test, ep, &reply);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	KUNIT_EXPECT_EQ(test, card.connects, 0);
	KUNIT_EXPECT_EQ(test, consumer.reply, -EINVAL);
	t3_ep_fsm_apply(ep, EP_EV_ABORT_RPL, 0);
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

NAMED_PARAM(rtr_case, rtr_cases);

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

static const struct connect_end fin_ends[] = {
	{ "close times out", { EP_EV_TIMEOUT, EP_EV_ABORT_RPL }, 0, -ECONNRESET },
	{ "QP is destroyed", { EP_EV_ABORT, EP_EV_ABORT_RPL }, 0, -ECONNRESET },
	{ "driver is unbound", { EP_EV_SHUT_DOWN, EP_EV_ABORT_RPL }, 0, -ECONNRESET },
	{ "device down", { EP_EV_DEVICE_DOWN }, -ENODEV, -ENODEV },
};

NAMED_PARAM(fin_end, fin_ends);

/* The close of the first connection fails: no retry, and one CONNECT_REPLY. */
static void fin_then_a_failed_close_fails_the_connect(struct kunit *test)
{
	const struct connect_end *how = test->param_value;
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

enum { LOCAL = 0x0a000001 };

static void ipv4(struct sockaddr_storage *addr, u16 port)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)addr;

	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = cpu_to_be32(LOCAL);
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
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
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
	qp->dying = true;
	t3_cm_abort_connects(dev, qp->serial);
}

static void destroy_qp_and_wait(void)
{
	destroy_qp();
	flush_workqueue(t3_cm_wq);
}

static void qp_in_error(void)
{
	card.qp_in_error = true;
	t3_cm_abort_connects(dev, qp->serial);
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

/* The work item for addresses makes a request, for which the endpoint has another one. */
static void address_is_removed(void)
{
	card.address_removed = true;
	t3_cm_addr_removed(dev);
	flush_delayed_work(&dev->cm->addrs_work);
	flush_workqueue(t3_cm_wq);
}

static const struct refused_connect {
	const char *name;
	u32 qpn, ord;
	int route, atid;
	const char *point;
	void (*happens)(void);
	int ret;
	int port;
	bool conflicts, host_is_connected;
} refused_connects[] = {
	{ "no such QP", QPN + 1, 0, 0, 0, NULL, NULL, -EINVAL },
	{ "QP of another user", FOREIGN_QPN, 0, 0, 0, NULL, NULL, -EINVAL },
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
	{ "port of the host", QPN, 0, 0, 0, NULL, NULL, -EADDRINUSE, -EADDRINUSE },
	{ "connection of the host", QPN, .ret = -EADDRINUSE, .host_is_connected = true },
	{ "address of another namespace", QPN, .ret = -EADDRINUSE, .conflicts = true },
	{ "address is removed, with a route", QPN, 0, 0, 0, "t3_connect_has_route",
	  address_is_removed, -EADDRNOTAVAIL },
	{ "address is removed, published", QPN, 0, 0, 0, "t3_connect_published",
	  address_is_removed, -EADDRNOTAVAIL },
};

NAMED_PARAM(refused_connect, refused_connects);

/* What is known at once is the result of the call, and no event follows. */
static void connect_is_refused_at_once(struct kunit *test)
{
	const struct refused_connect *c = test->param_value;

	card.no_connect = true;
	card.route_error = c->route;
	card.atid_error = c->atid;
	card.port_error = c->port;
	card.conflicts = c->conflicts;
	card.host_is_connected = c->host_is_connected;
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
	{ "address is removed, posted", "t3_connect_posted", address_is_removed, true },
};

NAMED_PARAM(lost_connect, lost_connects);

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

/* As by a port mapper: the consumer's address stays. */
static void connect_may_get_another_port(struct kunit *test)
{
	struct t3_ep *ep;

	card.port_shift = 7;
	KUNIT_ASSERT_EQ(test, connect(QPN, 0, NULL), 0);
	ep = connected(test);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(ep->local.sin_port), 1 + 7);
	KUNIT_EXPECT_EQ(test, ((struct sockaddr_in *)&cm_id.m_local_addr)->sin_port,
			cpu_to_be16(1));
	KUNIT_EXPECT_EQ(test, card.ports_held, 1);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	flush_work(&ep->work);
	end(test, ep);
}

/*
 * Another user removes it, and as many others as he likes: the connections of this one are not
 * woken.
 */
static void another_address_is_removed(struct kunit *test)
{
	struct t3_ep *ep;

	KUNIT_ASSERT_EQ(test, connect(QPN, 0, NULL), 0);
	ep = connected(test);
	t3_cm_addr_removed(dev);
	flush_delayed_work(&dev->cm->addrs_work);
	KUNIT_EXPECT_FALSE(test, work_busy(&ep->work));
	KUNIT_EXPECT_EQ(test, ep->state, EP_CONNECTING);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	flush_work(&ep->work);
	end(test, ep);
}

static struct kunit_case iw_connect_cases[] = {
	KUNIT_CASE(another_address_is_removed),
	KUNIT_CASE(connect_may_get_another_port),
	KUNIT_CASE(good_reply_connects),
	KUNIT_CASE(reply_without_memory_has_no_private_data),
	KUNIT_CASE(rtr_read_waits_for_the_init_ack),
	KUNIT_CASE(late_rtr_failure_closes),
	KUNIT_CASE_PARAM(rtr_failure_fails_the_connect, rtr_end_gen_params),
	KUNIT_CASE(qp_error_fails_the_connect),
	KUNIT_CASE(missing_qp_fails_the_connect),
	KUNIT_CASE(a_qp_that_got_the_number_later_is_not_connected),
	KUNIT_CASE(reject_is_reported_with_its_data),
	KUNIT_CASE(rev1_reply_connects_without_rtr),
	KUNIT_CASE_PARAM(rtr_needs_a_cq_entry, rtr_case_gen_params),
	KUNIT_CASE(reset_without_a_reply_retries_rev1),
	KUNIT_CASE(fin_without_a_reply_retries_rev1),
	KUNIT_CASE(parameters_change_after_the_request),
	KUNIT_CASE(connect_returns_before_the_reply),
	KUNIT_CASE_PARAM(connect_is_refused_at_once, refused_connect_gen_params),
	KUNIT_CASE_PARAM(connect_ends_while_it_is_posted, lost_connect_gen_params),
	KUNIT_CASE_PARAM(fin_then_a_failed_close_fails_the_connect, fin_end_gen_params),
	{}
};

TEST_SUITE("iw_cxgb3_iw_connect", iw_connect_cases, .init = cm_init, .exit = cm_exit);
