// SPDX-License-Identifier: GPL-2.0
/* Every transition of the QP table, against the rules that the driver relies on. */
#include <kunit/test.h>
#include <linux/module.h>

#include "qp_fsm.c"

static const enum t3_qp_state every_state[] = {
	T3_QPS_IDLE, T3_QPS_RTS, T3_QPS_ERROR, T3_QPS_TERMINATE, T3_QPS_CLOSING,
};

static_assert(ARRAY_SIZE(every_state) == T3_QPS_NUM);

static void state_name(const enum t3_qp_state *state, char *name)
{
	strscpy(name, t3_qp_state_name(*state), KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(state, every_state, state_name);

static bool connected(enum t3_qp_state state)
{
	return state == T3_QPS_RTS || state == T3_QPS_TERMINATE || state == T3_QPS_CLOSING;
}

/* The ring must not accept requests that would never complete. */
static void entering_error_stops_posting_and_flushes(struct kunit *test)
{
	enum t3_qp_state from = *(const enum t3_qp_state *)test->param_value;
	enum t3_qp_event ev;

	for (ev = 0; ev < T3_QPEV_NUM; ev++) {
		struct t3_qp_transition tr = t3_qp_fsm(from, ev);

		if (!tr.legal || tr.next == from)
			continue;
		if (tr.next == T3_QPS_ERROR)
			KUNIT_EXPECT_EQ_MSG(test,
					    tr.actions & (T3_QPA_MARK_ERROR | T3_QPA_FLUSH),
					    T3_QPA_MARK_ERROR | T3_QPA_FLUSH, "%s, %s",
					    t3_qp_state_name(from), t3_qp_event_name(ev));
		if (tr.next == T3_QPS_TERMINATE)
			KUNIT_EXPECT_TRUE_MSG(test, tr.actions & T3_QPA_MARK_ERROR, "%s, %s",
					      t3_qp_state_name(from), t3_qp_event_name(ev));
	}
}

/* Otherwise the endpoint would never be freed. */
static void end_of_a_connection_drops_the_endpoint(struct kunit *test)
{
	enum t3_qp_state from = *(const enum t3_qp_state *)test->param_value;
	enum t3_qp_event ev;

	for (ev = 0; ev < T3_QPEV_NUM; ev++) {
		struct t3_qp_transition tr = t3_qp_fsm(from, ev);

		if (!tr.legal || !connected(from))
			continue;
		KUNIT_EXPECT_EQ_MSG(test, !!(tr.actions & T3_QPA_DROP_EP), !connected(tr.next),
				    "%s, %s", t3_qp_state_name(from), t3_qp_event_name(ev));
	}
}

/* The connection manager reports these events in any state that the consumer has set. */
static void end_is_legal_in_all_connected_states(struct kunit *test)
{
	enum t3_qp_state from = *(const enum t3_qp_state *)test->param_value;

	KUNIT_EXPECT_TRUE(test, t3_qp_fsm(from, T3_QPEV_LOST).legal);
	KUNIT_EXPECT_TRUE(test, t3_qp_fsm(from, T3_QPEV_DESTROY).legal);
	if (connected(from)) {
		KUNIT_EXPECT_TRUE(test, t3_qp_fsm(from, T3_QPEV_CLOSED).legal);
		KUNIT_EXPECT_FALSE(test, connected(t3_qp_fsm(from, T3_QPEV_CLOSED).next));
		KUNIT_EXPECT_EQ(test, (int)t3_qp_fsm(from, T3_QPEV_LOST).next, T3_QPS_ERROR);
	}
}

/* A QP can be reset in ERROR or IDLE, not while it is connected. */
static void connected_qp_cannot_be_reset(struct kunit *test)
{
	enum t3_qp_state from = *(const enum t3_qp_state *)test->param_value;

	KUNIT_EXPECT_EQ(test, t3_qp_fsm(from, T3_QPEV_USER_RESET).legal, !connected(from));
	KUNIT_EXPECT_EQ(test, t3_qp_fsm(from, T3_QPEV_CONNECT).legal, from == T3_QPS_IDLE);
}

static void out_of_range_state_and_event_are_refused(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, t3_qp_fsm(T3_QPS_NUM, T3_QPEV_LOST).legal);
	KUNIT_EXPECT_FALSE(test, t3_qp_fsm(T3_QPS_RTS, T3_QPEV_NUM).legal);
	KUNIT_EXPECT_FALSE(test, t3_qp_fsm(-1, -1).legal);
	KUNIT_EXPECT_STREQ(test, t3_qp_state_name(T3_QPS_NUM), "?");
	KUNIT_EXPECT_STREQ(test, t3_qp_event_name(-1), "?");
}

static struct kunit_case qp_fsm_cases[] = {
	KUNIT_CASE_PARAM(entering_error_stops_posting_and_flushes, state_gen_params),
	KUNIT_CASE_PARAM(end_of_a_connection_drops_the_endpoint, state_gen_params),
	KUNIT_CASE_PARAM(end_is_legal_in_all_connected_states, state_gen_params),
	KUNIT_CASE_PARAM(connected_qp_cannot_be_reset, state_gen_params),
	KUNIT_CASE(out_of_range_state_and_event_are_refused),
	{}
};

static struct kunit_suite qp_fsm_suite = {
	.name = "iw_cxgb3_qp_fsm",
	.test_cases = qp_fsm_cases,
};

kunit_test_suites(&qp_fsm_suite);

MODULE_DESCRIPTION("KUnit tests of iw_cxgb3: qp_fsm");
MODULE_LICENSE("GPL");
