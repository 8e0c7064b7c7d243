// SPDX-License-Identifier: GPL-2.0
/*
 * iw_accept() and iw_reject(): the calls do not wait for the card. If a call returns an error, the
 * consumer gets no event; if an accept fails later, it gets ESTABLISHED and CLOSE.
 */
#include "around_cm.h"

static struct t3_listener listener;

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

static void in_the_runner(struct kunit *test, struct t3_ep *ep, void (*what)(struct t3_ep *ep))
{
	struct sk_buff *skb = alloc_skb(16, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	card.message = what;
	t3_ep_receive(ep, skb, T3_RUN_QUEUED, NULL);
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

	in_the_runner(test, ep, request_arrives);
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
	in_the_runner(test, ep, init_acked);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	KUNIT_EXPECT_EQ(test, consumer.established, 1);
	KUNIT_EXPECT_EQ(test, consumer.established_status, 0);
	KUNIT_EXPECT_EQ(test, consumer.closes, 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	KUNIT_EXPECT_PTR_NE(test, cm_id.provider_data, (void *)ep);
	end(test, ep);
}

/* The event is delivered in the runner that executes the answer. */
static void request_is_answered_inside_its_event(struct kunit *test)
{
	static void (*const answers[])(void) = { accept, reject };
	struct t3_ep *ep;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(answers); i++) {
		ep = requested(test);
		consumer.answer = answers[i];
		consumer.answered = -1;
		in_the_runner(test, ep, request_arrives);
		flush_work(&ep->work);
		KUNIT_EXPECT_EQ(test, consumer.answered, 0);
		KUNIT_EXPECT_EQ(test, ep->state, i ? EP_CLOSING : EP_FPDU);
		KUNIT_EXPECT_EQ(test, consumer.established, 1);
		t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
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

NAMED_PARAM(failed_accept, failed_accepts);

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
	in_the_runner(test, ep, failing->begin);
	KUNIT_EXPECT_EQ(test, consumer.answered, 0);
	if (failing->then) {
		KUNIT_EXPECT_EQ(test, consumer.established, 0);
		in_the_runner(test, ep, then_it_fails);
	}
	KUNIT_EXPECT_EQ(test, ep->state, failing->state);
	KUNIT_EXPECT_EQ(test, consumer.established, 1);
	KUNIT_EXPECT_EQ(test, consumer.established_status, failing->status);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	KUNIT_EXPECT_EQ(test, consumer.close, failing->status);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	KUNIT_EXPECT_PTR_NE(test, cm_id.provider_data, (void *)ep);
	/* The QP is in the ERROR state by the one way or the other. */
	KUNIT_EXPECT_EQ(test, card.lost, failing->had_qp);
	KUNIT_EXPECT_EQ(test, card.accepts_failed, !failing->had_qp);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
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
	{ "QP of another user", 0, FOREIGN_QPN, 0, -EINVAL, EP_ABORTING },
	{ "peer has reset", EP_EV_PEER_ABORT, QPN, 0, -ECONNRESET, EP_CLOSED },
	{ "peer has closed", EP_EV_PEER_CLOSE, QPN, 0, -ECONNRESET, EP_LAST_ACK },
};

NAMED_PARAM(refused_accept, refused_accepts);

/* An error of iw_accept precludes events: iw_cm would be a BUG(). */
static void accept_is_refused_at_once(struct kunit *test)
{
	const struct refused_accept *c = test->param_value;
	struct t3_ep *ep = new_request(test);

	if (c->before)
		t3_ep_fsm_apply(ep, c->before, -ECONNRESET);
	KUNIT_EXPECT_EQ(test, accept_with(c->qpn, c->ord, NULL), c->ret);
	KUNIT_EXPECT_PTR_NE(test, cm_id.provider_data, (void *)ep);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, c->state);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, consumer.established + consumer.closes, 0);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	end(test, ep);
	KUNIT_EXPECT_EQ(test, accept_with(QPN, 0, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, t3_cm_reject(&cm_id, NULL, 0), -ECONNRESET);
}

/* iw_cm allows it until it has handled ESTABLISHED, and forgets its reference on the first QP. */
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
	in_the_runner(test, ep, init_acked);
	KUNIT_EXPECT_EQ(test, consumer.established, 1);
	KUNIT_EXPECT_EQ(test, consumer.established_status, 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	flush_work(&ep->work);
	end(test, ep);
}

/* iw_cm has stored the QP of the last accept, and forgotten its reference on the one before. */
static void iw_cm_accepts(struct kunit *test, u32 qpn)
{
	card.qp_refs++;
	KUNIT_EXPECT_EQ(test, accept_with(qpn, 4, NULL), 0);
}

/* Each further accept gives back the QP of the one before, not that of the connection. */
static void each_accept_puts_the_qp_of_the_last_one(struct kunit *test)
{
	struct t3_ep *ep = new_request(test);

	card.init_is_acked = true;
	iw_cm_accepts(test, QPN);
	flush_work(&ep->work);
	iw_cm_accepts(test, FOREIGN_QPN);
	KUNIT_EXPECT_EQ(test, card.foreign_puts, 0);
	KUNIT_EXPECT_EQ(test, card.qp_refs, 1);
	iw_cm_accepts(test, QPN);
	KUNIT_EXPECT_EQ(test, card.foreign_puts, 1);
	iw_cm_accepts(test, FOREIGN_QPN);
	KUNIT_EXPECT_EQ(test, card.foreign_puts, 1);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	flush_work(&ep->work);
	/* The connection has ended; iw_cm has not handled that yet. */
	iw_cm_accepts(test, QPN);
	KUNIT_EXPECT_EQ(test, card.foreign_puts, 2);
	KUNIT_EXPECT_EQ(test, card.qp_refs, 1);
	KUNIT_EXPECT_EQ(test, t3_cm_reject(&cm_id, NULL, 0), -ECONNRESET);
	card.qp_refs--;		/* iw_cm handles it */
	end(test, ep);
}

/*
 * An accept that fails reports ESTABLISHED and CLOSE, which iw_cm handles later: EINVAL would be a
 * BUG().
 */
static void accept_after_one_that_failed_succeeds(struct kunit *test)
{
	struct t3_ep *ep = new_request(test);

	card.connect_error = -EINVAL;
	iw_cm_accepts(test, QPN);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, consumer.established_status, -EINVAL);
	KUNIT_EXPECT_EQ(test, consumer.closes, 1);
	iw_cm_accepts(test, FOREIGN_QPN);
	KUNIT_EXPECT_EQ(test, card.foreign_puts, 0);
	KUNIT_EXPECT_EQ(test, card.qp_refs, 1);
	card.qp_refs--;
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
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
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
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
	in_the_runner(test, ep, reject_meets_the_ack);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
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
	KUNIT_EXPECT_PTR_NE(test, cm_id.provider_data, (void *)ep);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSING);
	KUNIT_EXPECT_EQ(test, card.streams, 1);
	KUNIT_ASSERT_EQ(test, mpa_parse(MPA_REPLY, ep->tx_frame, ep->tx_len, &reply), MPA_COMPLETE);
	KUNIT_EXPECT_TRUE(test, reply.reject);
	KUNIT_EXPECT_EQ(test, memcmp(reply.pdata, "full", 4), 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
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
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
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
	in_the_runner(test, ep, reject_and_reset);
	KUNIT_EXPECT_EQ(test, consumer.answered, 0);
	KUNIT_EXPECT_EQ(test, card.streams, 0);
	end(test, ep);
}

static struct kunit_case iw_accept_cases[] = {
	KUNIT_CASE(accept_returns_before_the_card_answers),
	KUNIT_CASE(request_is_answered_inside_its_event),
	KUNIT_CASE_PARAM(accept_fails_after_its_return, failed_accept_gen_params),
	KUNIT_CASE_PARAM(accept_is_refused_at_once, refused_accept_gen_params),
	KUNIT_CASE(second_accept_changes_nothing),
	KUNIT_CASE(each_accept_puts_the_qp_of_the_last_one),
	KUNIT_CASE(accept_after_one_that_failed_succeeds),
	KUNIT_CASE(reject_after_an_accept_ends_it_silently),
	KUNIT_CASE(reject_after_an_accept_meets_the_ack),
	KUNIT_CASE(reject_is_sent_after_its_return),
	KUNIT_CASE(unsent_reject_aborts),
	KUNIT_CASE(reject_of_a_request_that_ends),
	{}
};

TEST_SUITE("iw_cxgb3_iw_accept", iw_accept_cases, .init = cm_init, .exit = cm_exit);
