// SPDX-License-Identifier: GPL-2.0
/*
 * Every cell of the connection table, held to the conventions at the head of
 * ep_fsm.c. What single paths mean is tested in user space (tests/unit/kernel).
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "ep_fsm.c"

/* States whose endpoint may have a QP that the card fetches for. */
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
	EP_FIN_WAIT, EP_LAST_ACK, EP_ABORTING, EP_ABORT_CROSSED, EP_DEAD,
};

static_assert(ARRAY_SIZE(every_state) == EP_NUM_STATES);

static void state_name(const enum ep_state *state, char *name)
{
	strscpy(name, ep_state_name(*state), KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(state, every_state, state_name);

/* A timer that runs in a state was started on the way in, and is stopped on the way out. */
static void timer_follows_the_state(struct kunit *test)
{
	enum ep_state from = *(const enum ep_state *)test->param_value;
	enum ep_event event;

	for (event = 0; event < EP_NUM_EVENTS; event++) {
		const struct ep_step *step = ep_fsm(from, event);
		bool before, after;

		if (!step)
			continue;
		before = ep_state_has_timer(from);
		after = ep_state_has_timer(step->next);
		if (before && !after)
			KUNIT_EXPECT_TRUE_MSG(test, step->actions & EP_STOP_TIMER, "%s, %s",
					      ep_state_name(from), ep_event_name(event));
		if (!before && after)
			KUNIT_EXPECT_TRUE_MSG(test, step->actions & EP_START_TIMER, "%s, %s",
					      ep_state_name(from), ep_event_name(event));
		if (!after)
			KUNIT_EXPECT_FALSE_MSG(test, step->actions & EP_START_TIMER, "%s, %s",
					       ep_state_name(from), ep_event_name(event));
	}
}

static void death_releases_once(struct kunit *test)
{
	enum ep_state from = *(const enum ep_state *)test->param_value;
	enum ep_event event;

	for (event = 0; event < EP_NUM_EVENTS; event++) {
		const struct ep_step *step = ep_fsm(from, event);
		bool dies;

		if (!step)
			continue;
		dies = step->next == EP_DEAD && from != EP_DEAD;
		KUNIT_EXPECT_EQ_MSG(test, !!(step->actions & EP_RELEASE), dies, "%s, %s",
				    ep_state_name(from), ep_event_name(event));
		KUNIT_EXPECT_EQ_MSG(test, !!(step->actions & EP_QP_DETACH), dies && has_qp(from),
				    "%s, %s", ep_state_name(from), ep_event_name(event));
		if (from == EP_DEAD)
			KUNIT_EXPECT_EQ_MSG(test, step->actions, 0, "%s", ep_event_name(event));
	}
}

static void way_into_abort_sends_one(struct kunit *test)
{
	enum ep_state from = *(const enum ep_state *)test->param_value;
	enum ep_event event;

	for (event = 0; event < EP_NUM_EVENTS; event++) {
		const struct ep_step *step = ep_fsm(from, event);
		bool begins;

		if (!step)
			continue;
		begins = step->next == EP_ABORTING && from != EP_ABORTING;
		KUNIT_EXPECT_EQ_MSG(test, !!(step->actions & EP_SEND_ABORT), begins, "%s, %s",
				    ep_state_name(from), ep_event_name(event));
	}
}

static void every_state_ends_with_the_device(struct kunit *test)
{
	enum ep_state from = *(const enum ep_state *)test->param_value;
	const struct ep_step *step = ep_fsm(from, EP_EV_DEVICE_DOWN);

	KUNIT_ASSERT_NOT_NULL(test, step);
	KUNIT_EXPECT_EQ(test, step->next, EP_DEAD);
	if (ep_state_has_timer(from))
		KUNIT_EXPECT_NOT_NULL(test, ep_fsm(from, EP_EV_TIMEOUT));
}

static void every_state_is_reached_and_left(struct kunit *test)
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

static void what_is_no_cell_is_refused(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, ep_fsm(EP_NUM_STATES, EP_EV_ABORT));
	KUNIT_EXPECT_NULL(test, ep_fsm(EP_FPDU, EP_NUM_EVENTS));
	KUNIT_EXPECT_NULL(test, ep_fsm(-1, -1));
	KUNIT_EXPECT_STREQ(test, ep_state_name(EP_NUM_STATES), "?");
	KUNIT_EXPECT_STREQ(test, ep_event_name(-1), "?");
	KUNIT_EXPECT_STREQ(test, ep_action_name(EP_NUM_ACTIONS), "?");
}

static void everything_has_a_name_of_its_own(struct kunit *test)
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
	KUNIT_CASE_PARAM(timer_follows_the_state, state_gen_params),
	KUNIT_CASE_PARAM(death_releases_once, state_gen_params),
	KUNIT_CASE_PARAM(way_into_abort_sends_one, state_gen_params),
	KUNIT_CASE_PARAM(every_state_ends_with_the_device, state_gen_params),
	KUNIT_CASE(every_state_is_reached_and_left),
	KUNIT_CASE(what_is_no_cell_is_refused),
	KUNIT_CASE(everything_has_a_name_of_its_own),
	{}
};

static struct kunit_suite ep_fsm_suite = {
	.name = "iw_cxgb3_ep_fsm",
	.test_cases = ep_fsm_cases,
};

kunit_test_suites(&ep_fsm_suite);

MODULE_LICENSE("GPL");
