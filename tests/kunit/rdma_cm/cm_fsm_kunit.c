// SPDX-License-Identifier: GPL-2.0
/* The rules at the head of cm_fsm.c, for every cell of the state table. */
#include <kunit/test.h>
#include <linux/module.h>

#include "cm_fsm.c"

static void state_name(const enum cm_state *state, char *name)
{
	strscpy(name, cm_state_name(*state), KUNIT_PARAM_DESC_SIZE);
}

static const enum cm_state every_state[] = {
	CM_ST_IDLE, CM_ST_BINDING, CM_ST_BOUND, CM_ST_ADDR_QUERY, CM_ST_ADDR_RESOLVED,
	CM_ST_ROUTE_QUERY, CM_ST_ROUTE_RESOLVED, CM_ST_LISTENING, CM_ST_CONNECTING,
	CM_ST_RESPONDED, CM_ST_REQUESTED, CM_ST_ACCEPTING, CM_ST_CANCELLING, CM_ST_CONNECTED,
	CM_ST_CLOSING, CM_ST_CLOSED, CM_ST_REMOVED, CM_ST_DESTROYING,
};

static_assert(ARRAY_SIZE(every_state) == CM_NUM_STATES);

KUNIT_ARRAY_PARAM(state, every_state, state_name);

/* Calls report no events: they have a return value. */
static void calls_report_no_events(struct kunit *test)
{
	enum cm_state from = *(const enum cm_state *)test->param_value;
	enum cm_event event;

	for (event = 0; event < CM_FIRST_QUEUED; event++) {
		const struct cm_cell *cell = cm_fsm(from, event);

		if (cell)
			KUNIT_EXPECT_FALSE_MSG(test, cell->actions & CM_ACT_REPORTS, "%s, %s",
					       cm_state_name(from), cm_event_name(event));
	}
}

static bool has_qp(enum cm_state state)
{
	switch (state) {
	case CM_ST_CONNECTING:
	case CM_ST_RESPONDED:
	case CM_ST_ACCEPTING:
	case CM_ST_CANCELLING:
	case CM_ST_CONNECTED:
	case CM_ST_CLOSING:
		return true;
	default:
		return false;
	}
}

/* CM_ST_REMOVED and CM_ST_DESTROYING may hold a QP until the provider's last event. */
static void the_end_of_a_connection_drops_its_qp(struct kunit *test)
{
	enum cm_state from = *(const enum cm_state *)test->param_value;
	enum cm_event event;

	for (event = 0; event < CM_NUM_EVENTS; event++) {
		const struct cm_cell *cell = cm_fsm(from, event);

		if (!cell)
			continue;
		if (has_qp(from) && !has_qp(cell->next) && cell->next != CM_ST_REMOVED &&
		    cell->next != CM_ST_DESTROYING)
			KUNIT_EXPECT_TRUE_MSG(test, cell->actions & CM_ACT_DROP_QP, "%s, %s",
					      cm_state_name(from), cm_event_name(event));
		if (!has_qp(from) && from != CM_ST_REMOVED && from != CM_ST_DESTROYING)
			KUNIT_EXPECT_FALSE_MSG(test, cell->actions & CM_ACT_DROP_QP, "%s, %s",
					       cm_state_name(from), cm_event_name(event));
		if (has_qp(cell->next))
			KUNIT_EXPECT_FALSE_MSG(test, cell->actions & CM_ACT_DROP_QP, "%s, %s",
					       cm_state_name(from), cm_event_name(event));
	}
}

/* CLOSE is the provider's last event, so no later one would drop the reference. */
static void a_close_drops_the_qp(struct kunit *test)
{
	enum cm_state from = *(const enum cm_state *)test->param_value;
	const struct cm_cell *cell = cm_fsm(from, CM_EV_CLOSE);

	if (!has_qp(from) && from != CM_ST_REMOVED && from != CM_ST_DESTROYING)
		return;
	KUNIT_ASSERT_NOT_NULL(test, cell);
	KUNIT_EXPECT_TRUE(test, cell->actions & CM_ACT_DROP_QP);
	KUNIT_EXPECT_EQ(test, !!(cell->actions & CM_ACT_REPORTS_END), has_qp(from));
}

static void every_state_can_be_destroyed_and_removed(struct kunit *test)
{
	enum cm_state from = *(const enum cm_state *)test->param_value;
	const struct cm_cell *cell = cm_fsm(from, CM_EV_DESTROY);

	if (from != CM_ST_DESTROYING) {
		KUNIT_ASSERT_NOT_NULL(test, cell);
		KUNIT_EXPECT_EQ(test, cell->next, CM_ST_DESTROYING);
	}
	cell = cm_fsm(from, CM_EV_REMOVE);
	if (from != CM_ST_IDLE && from != CM_ST_REMOVED && from != CM_ST_DESTROYING) {
		KUNIT_ASSERT_NOT_NULL(test, cell);
		KUNIT_EXPECT_EQ(test, cell->next, CM_ST_REMOVED);
		KUNIT_EXPECT_TRUE(test, cell->actions & CM_ACT_REPORT_REMOVAL);
	}
}

/* A removed or destroyed id reports nothing, and reaches no other state. */
static void destroyed_ids_report_nothing(struct kunit *test)
{
	enum cm_event event;

	for (event = 0; event < CM_NUM_EVENTS; event++) {
		const struct cm_cell *destroying = cm_fsm(CM_ST_DESTROYING, event);
		const struct cm_cell *removed = cm_fsm(CM_ST_REMOVED, event);

		if (destroying) {
			KUNIT_EXPECT_FALSE(test, destroying->actions & CM_ACT_REPORTS);
			KUNIT_EXPECT_EQ(test, destroying->next, CM_ST_DESTROYING);
		}
		if (removed) {
			KUNIT_EXPECT_FALSE(test, removed->actions & CM_ACT_REPORTS);
			KUNIT_EXPECT_TRUE(test, removed->next == CM_ST_REMOVED ||
					  removed->next == CM_ST_DESTROYING);
		}
	}
}

static void states_and_events_out_of_range_are_refused(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, cm_fsm(CM_NUM_STATES, CM_EV_BIND));
	KUNIT_EXPECT_NULL(test, cm_fsm(CM_ST_IDLE, CM_NUM_EVENTS));
	KUNIT_EXPECT_NULL(test, cm_fsm(-1, -1));
}

static struct kunit_case cm_fsm_cases[] = {
	KUNIT_CASE_PARAM(calls_report_no_events, state_gen_params),
	KUNIT_CASE_PARAM(the_end_of_a_connection_drops_its_qp, state_gen_params),
	KUNIT_CASE_PARAM(a_close_drops_the_qp, state_gen_params),
	KUNIT_CASE_PARAM(every_state_can_be_destroyed_and_removed, state_gen_params),
	KUNIT_CASE(destroyed_ids_report_nothing),
	KUNIT_CASE(states_and_events_out_of_range_are_refused),
	{}
};

static struct kunit_suite cm_fsm_suite = {
	.name = "t3_rdma_cm_fsm",
	.test_cases = cm_fsm_cases,
};

kunit_test_suites(&cm_fsm_suite);

MODULE_DESCRIPTION("KUnit tests of t3_rdma_cm: cm_fsm");
MODULE_LICENSE("GPL");
