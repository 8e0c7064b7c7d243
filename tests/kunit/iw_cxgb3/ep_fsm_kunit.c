// SPDX-License-Identifier: GPL-2.0
/*
 * Every cell of the connection table is checked against the rules at the head of
 * ep_fsm.c. tests/unit/kernel has sequences of events.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "ep_fsm.c"

/* States in which a QP may be attached, whose ring the card reads. */
static bool has_qp(enum ep_state state)
{
	switch (state) {
	case EP_ACCEPTING:
	case EP_FPDU:
	case EP_TERMINATING:
	case EP_CLOSING:
	case EP_FIN_WAIT:
	case EP_LAST_ACK:
	case EP_ABORTING:
	case EP_ABORT_CROSSED:
		return true;
	default:
		return false;
	}
}

static const enum ep_state every_state[] = {
	EP_IDLE, EP_CONNECTING, EP_OPEN_DELAYED, EP_ABANDONED, EP_SYN_RCVD, EP_MPA_REQ_SENT,
	EP_MPA_REQ_WAIT, EP_MPA_REQ_RCVD, EP_ACCEPTING, EP_FPDU, EP_TERMINATING, EP_CLOSING,
	EP_FIN_WAIT, EP_LAST_ACK, EP_ABORTING, EP_ABORT_CROSSED, EP_CLOSED,
};

static_assert(ARRAY_SIZE(every_state) == EP_NUM_STATES);

static void state_name(const enum ep_state *state, char *name)
{
	strscpy(name, ep_state_name(*state), KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(state, every_state, state_name);

/* A state with a timer is entered with a start of the timer, and left with a stop. */
static void timer_runs_in_states_with_a_timer(struct kunit *test)
{
	enum ep_state from = *(const enum ep_state *)test->param_value;
	enum ep_event event;

	for (event = 0; event < EP_NUM_EVENTS; event++) {
		const struct ep_transition *t = ep_fsm(from, event);
		bool before, after;

		if (!t)
			continue;
		before = ep_state_has_timer(from);
		after = ep_state_has_timer(t->next);
		if (before && !after)
			KUNIT_EXPECT_TRUE_MSG(test, t->actions & EP_ACT_STOP_TIMER, "%s, %s",
					      ep_state_name(from), ep_event_name(event));
		if (!before && after)
			KUNIT_EXPECT_TRUE_MSG(test, t->actions & EP_ACT_START_TIMER, "%s, %s",
					      ep_state_name(from), ep_event_name(event));
		if (!after)
			KUNIT_EXPECT_FALSE_MSG(test, t->actions & EP_ACT_START_TIMER, "%s, %s",
					       ep_state_name(from), ep_event_name(event));
	}
}

static void closing_transition_releases_once(struct kunit *test)
{
	enum ep_state from = *(const enum ep_state *)test->param_value;
	enum ep_event event;

	for (event = 0; event < EP_NUM_EVENTS; event++) {
		const struct ep_transition *t = ep_fsm(from, event);
		bool closes;

		if (!t)
			continue;
		closes = t->next == EP_CLOSED && from != EP_CLOSED;
		KUNIT_EXPECT_EQ_MSG(test, !!(t->actions & EP_ACT_RELEASE), closes, "%s, %s",
				    ep_state_name(from), ep_event_name(event));
		KUNIT_EXPECT_EQ_MSG(test, !!(t->actions & EP_ACT_QP_DISCONNECTED),
				    closes && has_qp(from), "%s, %s", ep_state_name(from),
				    ep_event_name(event));
		if (from == EP_CLOSED)
			KUNIT_EXPECT_EQ_MSG(test, t->actions, 0, "%s", ep_event_name(event));
	}
}

static void entering_aborting_sends_one_abort(struct kunit *test)
{
	enum ep_state from = *(const enum ep_state *)test->param_value;
	enum ep_event event;

	for (event = 0; event < EP_NUM_EVENTS; event++) {
		const struct ep_transition *t = ep_fsm(from, event);
		bool enters;

		if (!t)
			continue;
		enters = t->next == EP_ABORTING && from != EP_ABORTING;
		KUNIT_EXPECT_EQ_MSG(test, !!(t->actions & EP_ACT_SEND_ABORT), enters, "%s, %s",
				    ep_state_name(from), ep_event_name(event));
	}
}

static void device_down_closes_every_state(struct kunit *test)
{
	enum ep_state from = *(const enum ep_state *)test->param_value;
	const struct ep_transition *t = ep_fsm(from, EP_EV_DEVICE_DOWN);

	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_EXPECT_EQ(test, t->next, EP_CLOSED);
	if (ep_state_has_timer(from))
		KUNIT_EXPECT_NOT_NULL(test, ep_fsm(from, EP_EV_TIMEOUT));
}

static void every_state_is_reachable(struct kunit *test)
{
	unsigned long reached = BIT(EP_IDLE), before;
	enum ep_event event;
	enum ep_state from;

	do {
		before = reached;
		for_each_set_bit(from, &before, EP_NUM_STATES)
			for (event = 0; event < EP_NUM_EVENTS; event++)
				if (ep_fsm(from, event))
					__set_bit(ep_fsm(from, event)->next, &reached);
	} while (reached != before);
	KUNIT_EXPECT_EQ(test, reached, BIT(EP_NUM_STATES) - 1);
}

static void out_of_range_is_refused(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, ep_fsm(EP_NUM_STATES, EP_EV_ABORT));
	KUNIT_EXPECT_NULL(test, ep_fsm(EP_FPDU, EP_NUM_EVENTS));
	KUNIT_EXPECT_NULL(test, ep_fsm(-1, -1));
	KUNIT_EXPECT_STREQ(test, ep_state_name(EP_NUM_STATES), "?");
	KUNIT_EXPECT_STREQ(test, ep_event_name(-1), "?");
	KUNIT_EXPECT_STREQ(test, ep_action_name(EP_NUM_ACTIONS), "?");
}

static void names_are_unique(struct kunit *test)
{
	unsigned int a, b;

	for (a = 0; a < EP_NUM_STATES; a++)
		for (b = 0; b < a; b++)
			KUNIT_EXPECT_STRNEQ(test, ep_state_name(a), ep_state_name(b));
	for (a = 0; a < EP_NUM_EVENTS; a++)
		for (b = 0; b < a; b++)
			KUNIT_EXPECT_STRNEQ(test, ep_event_name(a), ep_event_name(b));
	for (a = 0; a < EP_NUM_ACTIONS; a++)
		for (b = 0; b < a; b++)
			KUNIT_EXPECT_STRNEQ(test, ep_action_name(a), ep_action_name(b));
}

static struct kunit_case ep_fsm_cases[] = {
	KUNIT_CASE_PARAM(timer_runs_in_states_with_a_timer, state_gen_params),
	KUNIT_CASE_PARAM(closing_transition_releases_once, state_gen_params),
	KUNIT_CASE_PARAM(entering_aborting_sends_one_abort, state_gen_params),
	KUNIT_CASE_PARAM(device_down_closes_every_state, state_gen_params),
	KUNIT_CASE(every_state_is_reachable),
	KUNIT_CASE(out_of_range_is_refused),
	KUNIT_CASE(names_are_unique),
	{}
};

static struct kunit_suite ep_fsm_suite = {
	.name = "iw_cxgb3_ep_fsm",
	.test_cases = ep_fsm_cases,
};

kunit_test_suites(&ep_fsm_suite);

MODULE_DESCRIPTION("KUnit tests of iw_cxgb3: ep_fsm");
MODULE_LICENSE("GPL");
