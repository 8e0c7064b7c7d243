// SPDX-License-Identifier: GPL-2.0
/*
 * Requests posted to a QP: the page lists of receives with STag 0, fast registrations, and when
 * requests are flushed. Each end of a connection flushes, after the last message of the card.
 */
#include "around_qp.h"

/* --- tests: receives with STag 0 ----------------------------------------------- */

/* With STag 0: it needs a page list of its own. Return: 0 or -errno. */
static int recv_stag0(struct t3_qp *qp)
{
	struct ib_sge sge = { .addr = 0x5000, .length = 64 };
	const struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return t3_post_recv(&qp->ibqp, &wr, &bad);
}

/* Each has a page list in the card until it is polled, or the QP is reset or destroyed. */
static void page_list_of_a_receive_is_freed_once(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	KUNIT_EXPECT_EQ(test, recv_stag0(qp), 0);
	KUNIT_EXPECT_EQ(test, recv_stag0(qp), 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 2);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 2);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);

	KUNIT_EXPECT_EQ(test, recv_stag0(qp), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 1);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);

	KUNIT_EXPECT_EQ(test, recv_stag0(qp), 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 1);
	t3_destroy_qp(&qp->ibqp, NULL);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);
}

static void refused_receive_keeps_no_page_list(struct kunit *test)
{
	struct ib_sge mixed[] = { { .addr = 0x5000, .length = 64 },
				  { .addr = 0x6000, .length = 64, .lkey = 0x100 } };
	const struct ib_recv_wr wr = { .sg_list = mixed, .num_sge = 2 }, *bad;
	struct t3_qp *qp = make_qp(test, false);
	int posted = 0, ret;

	KUNIT_EXPECT_EQ(test, t3_post_recv(&qp->ibqp, &wr, &bad), -EINVAL);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);
	while (!(ret = recv_stag0(qp)))
		posted++;
	KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
	KUNIT_EXPECT_GT(test, posted, 0);
	KUNIT_EXPECT_EQ(test, card.pbls, posted);
	t3_destroy_qp(&qp->ibqp, NULL);
}

static int post_fastreg(struct t3_qp *qp)
{
	const struct ib_reg_wr wr = { .wr.opcode = IB_WR_REG_MR, .key = 0x100 };
	const struct ib_send_wr *bad;

	return t3_post_send(&qp->ibqp, &wr.wr, &bad);
}

/* The driver's copy of a region changes with the card's: not if the request gets no slot. */
static void fast_registration_counts_when_posted(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);
	unsigned int posted = 0;

	while (!post_fastreg(qp))
		posted++;
	KUNIT_EXPECT_GT(test, posted, 0);
	KUNIT_EXPECT_EQ(test, card.fastregs, posted);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	while (polled(test, IB_WC_WR_FLUSH_ERR))
		;
	KUNIT_EXPECT_EQ(test, post_fastreg(qp), 0);	/* only to be flushed */
	KUNIT_EXPECT_EQ(test, card.fastregs, posted);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* --- tests: flushing ---------------------------------------------------------- */

/* B3: buffers of completed requests may be freed, so a flush waits until the card is done. */
static void flush_waits_for_the_card(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	recv(test, qp, 2);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	send(test, qp, 3);
	cq->armed = true;
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, card.aborts, 1);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 0);
	KUNIT_EXPECT_EQ(test, card.handlers, 0);

	/* As ib_drain_qp() does. */
	card.rung = 0;
	recv(test, qp, 4);
	send(test, qp, 5);
	flush_workqueue(t3_workqueue);
	KUNIT_EXPECT_EQ(test, card.rung, 0);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 0);

	/* The card still completes a request. */
	received(qp, 1);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_SUCCESS), 1);

	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, card.handlers, 1);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 4);
	recv(test, qp, 6);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	flush_workqueue(t3_workqueue);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* The entry was counted, and the QP went on with completions of the wrong requests. */
static void contradictory_entry_ends_the_qp_once(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	received(qp, 1);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_SUCCESS), 1);
	flush_workqueue(t3_workqueue);
	KUNIT_EXPECT_EQ(test, card.bad_entries, 0);
	received(qp, 2);	/* without a receive */
	received(qp, 3);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_SUCCESS), 0);
	flush_workqueue(t3_workqueue);
	KUNIT_EXPECT_EQ(test, card.bad_entries, 1);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(qp->bad_cqe.u.rq.msn), 2);

	/* After a flush entries are late, not wrong. */
	connection_ends(qp, T3_QPEV_LOST);
	received(qp, 4);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	KUNIT_EXPECT_FALSE(test, qp->bad_entry);
	flush_workqueue(t3_workqueue);
	KUNIT_EXPECT_EQ(test, card.bad_entries, 1);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* The work item uses the QP without a reference. */
static void destroy_waits_for_the_end_by_an_entry(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	card.bad_entry_ms = 100;
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	received(qp, 1);	/* without a receive */
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_SUCCESS), 0);
	while (!READ_ONCE(card.bad_entries))
		msleep(20);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
	KUNIT_EXPECT_EQ(test, card.ended_by_entry, 1);
}

static void user_qp_is_stopped_and_later_flushed(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, true);
	u32 *cq_word = (u32 *)((struct t3_cqe *)cq->ring.va + cq->entries);

	cq->status_word = true;
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, status_of(qp), T3_QP_STATUS_STOPPED);
	KUNIT_EXPECT_EQ(test, *cq_word, 0);
	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, status_of(qp), T3_QP_STATUS_STOPPED | T3_QP_STATUS_ERROR);
	KUNIT_EXPECT_EQ(test, *cq_word, T3_CQ_STATUS_ERROR);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* Its owner has posted receives, as before each accept. They are flushed; a connection stays. */
static void failed_accept_flushes(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_EXPECT_EQ(test, t3_qp_fsm_apply(qp, T3_QPEV_ACCEPT_FAILED), 0);
	KUNIT_EXPECT_EQ(test, qp->state, T3_QPS_ERROR);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	KUNIT_EXPECT_EQ(test, card.aborts, 0);
	t3_destroy_qp(&qp->ibqp, NULL);

	qp = make_qp(test, false);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	recv(test, qp, 1);
	KUNIT_EXPECT_EQ(test, t3_qp_fsm_apply(qp, T3_QPEV_ACCEPT_FAILED), 0);
	KUNIT_EXPECT_EQ(test, qp->state, T3_QPS_RTS);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 0);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
}

static void every_end_of_a_connection_flushes_once(struct kunit *test)
{
	static const struct {
		enum t3_qp_event before, end;
	} ends[] = {
		{ T3_QPEV_PEER_CLOSE, T3_QPEV_CLOSED },
		{ T3_QPEV_PEER_CLOSE, T3_QPEV_LOST },
		{ T3_QPEV_USER_CLOSE, T3_QPEV_CLOSED },
		{ T3_QPEV_USER_ERROR, T3_QPEV_LOST },
		{ T3_QPEV_PROTO_ERROR, T3_QPEV_CLOSED },
		{ T3_QPEV_TERM_RCVD, T3_QPEV_LOST },
		{ T3_QPEV_LOST, T3_QPEV_LOST },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		struct t3_qp *qp = make_qp(test, false);

		KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
		recv(test, qp, 1);
		send(test, qp, 2);
		t3_qp_fsm_apply(qp, ends[i].before);
		KUNIT_EXPECT_EQ_MSG(test, polled(test, IB_WC_WR_FLUSH_ERR), 0, "%s",
				    t3_qp_event_name(ends[i].before));
		t3_qp_fsm_apply(qp, ends[i].end);
		KUNIT_EXPECT_EQ_MSG(test, polled(test, IB_WC_WR_FLUSH_ERR), 0, "%s",
				    t3_qp_event_name(ends[i].end));
		t3_qp_disconnected(qp);
		KUNIT_EXPECT_EQ_MSG(test, polled(test, IB_WC_WR_FLUSH_ERR), 2, "%s, %s",
				    t3_qp_event_name(ends[i].before),
				    t3_qp_event_name(ends[i].end));
		t3_destroy_qp(&qp->ibqp, NULL);
	}
}

static void unconnected_qp_is_flushed_at_once(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	t3_destroy_qp(&qp->ibqp, NULL);

	/* Likewise if the connect fails. */
	qp = make_qp(test, false);
	recv(test, qp, 1);
	card.send_error = -EIO;
	KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), -EIO);
	card.send_error = 0;
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* The iWARP CM has a reference while a connect is pending. */
static void error_aborts_a_pending_connect(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	KUNIT_EXPECT_FALSE(test, t3_qp_in_state(qp, IB_QPS_ERR));
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_TRUE(test, t3_qp_in_state(qp, IB_QPS_ERR));
	KUNIT_EXPECT_EQ(test, card.connect_aborts, 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);

	t3_qp_get(qp);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_SQD), 0);
	KUNIT_EXPECT_EQ(test, card.connect_aborts, 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, card.connect_aborts, 1);
	t3_qp_put(qp);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* Also after a disconnect: a FIN flushes nothing, and the peer may not reply for long. */
static void error_after_a_disconnect_aborts(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_SQD), 0);
	KUNIT_EXPECT_EQ(test, card.closes, 1);
	KUNIT_EXPECT_EQ(test, card.aborts, 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, card.aborts, 1);
	KUNIT_EXPECT_EQ(test, card.disconnected_now, 2);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* A destroy does not abort at once: the last messages may still be in flight. */
static void destroy_after_a_disconnect_waits(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);
	struct destroyer d = { .qp = qp };

	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_SQD), 0);
	INIT_WORK_ONSTACK(&d.work, destroy_work);
	init_completion(&d.done);
	queue_work(system_unbound_wq, &d.work);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&d.done, HZ / 5), 0);
	KUNIT_EXPECT_EQ(test, card.aborts, 0);
	KUNIT_EXPECT_EQ(test, card.limited_closes, 1);
	connection_ends(qp, T3_QPEV_CLOSED);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&d.done, 20 * HZ), 0);
	flush_work(&d.work);
	destroy_work_on_stack(&d.work);
}

static struct kunit_case qp_requests_cases[] = {
	KUNIT_CASE(page_list_of_a_receive_is_freed_once),
	KUNIT_CASE(refused_receive_keeps_no_page_list),
	KUNIT_CASE(flush_waits_for_the_card),
	KUNIT_CASE(contradictory_entry_ends_the_qp_once),
	KUNIT_CASE(destroy_waits_for_the_end_by_an_entry),
	KUNIT_CASE(user_qp_is_stopped_and_later_flushed),
	KUNIT_CASE(failed_accept_flushes),
	KUNIT_CASE(every_end_of_a_connection_flushes_once),
	KUNIT_CASE(unconnected_qp_is_flushed_at_once),
	KUNIT_CASE(error_after_a_disconnect_aborts),
	KUNIT_CASE(error_aborts_a_pending_connect),
	KUNIT_CASE(destroy_after_a_disconnect_waits),
	KUNIT_CASE(fast_registration_counts_when_posted),
	{}
};

TEST_SUITE("iw_cxgb3_qp_requests", qp_requests_cases, .init = qp_init, .exit = qp_exit);
