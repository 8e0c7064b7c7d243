// SPDX-License-Identifier: GPL-2.0
/*
 * RoCE over a fake ib_cm: ids and listeners are destroyed while a callback of ib_cm runs.
 */
#include "roce.h"

#include <linux/delay.h>

/* --- lifetimes ------------------------------------------------------------------------ */

struct held_callback {
	struct work_struct work;
	enum ib_cm_event_type type;
};

static struct completion callback_held, callback_goes_on, destroy_begun;

static void hold_callback(void)
{
	complete(&callback_held);
	wait_for_completion(&callback_goes_on);
}

static void run_held_callback(struct work_struct *work)
{
	fake_ib_event(container_of(work, struct held_callback, work)->type, 0);
}

static void run_destroy(struct work_struct *work)
{
	struct rdma_cm_id *destroyed = id;

	complete(&destroy_begun);
	destroy(&id);
	got.destroyed = destroyed;	/* until here events are allowed */
}

/*
 * A callback runs while the id is destroyed. The destroy waits for the callback, and the id exists
 * as long as the callback uses it.
 */
static void destroy_with_a_callback(struct kunit *test, const char *point,
				    enum ib_cm_event_type type)
{
	struct held_callback held = { .type = type };
	struct work_struct end_of_id;

	init_completion(&callback_held);
	init_completion(&callback_goes_on);
	init_completion(&destroy_begun);
	INIT_WORK_ONSTACK(&held.work, run_held_callback);
	INIT_WORK_ONSTACK(&end_of_id, run_destroy);
	fake.at_point = hold_callback;
	fake.point = point;
	queue_work(system_long_wq, &held.work);
	wait_for_completion(&callback_held);
	queue_work(t3_unbound_wq, &end_of_id);
	wait_for_completion(&destroy_begun);
	msleep(20);
	KUNIT_EXPECT_NOT_NULL(test, fake_ib.conn);
	KUNIT_EXPECT_GE(test, number_of_ids(), 1u);
	complete(&callback_goes_on);
	flush_work(&held.work);
	flush_work(&end_of_id);
	KUNIT_EXPECT_NULL(test, fake_ib.conn);
	destroy_work_on_stack(&held.work);
	destroy_work_on_stack(&end_of_id);
}

static void a_destroy_waits_for_a_callback(struct kunit *test)
{
	static const char *const points[] = {
		"cm_roce_callback", "cm_event_posted", "cm_roce_callback_ends",
	};
	static const enum ib_cm_event_type types[] = {
		IB_CM_REP_RECEIVED, IB_CM_REJ_RECEIVED, IB_CM_REQ_ERROR,
	};
	int p, t;

	for (p = 0; p < ARRAY_SIZE(points); p++) {
		for (t = 0; t < ARRAY_SIZE(types); t++) {
			roce_begin(test);
			STEPS(S(READY), S(CONNECT));
			destroy_with_a_callback(test, points[p], types[t]);
			roce_end(test);
		}
	}
}

static int held_result;

static void run_held_request(struct work_struct *work)
{
	held_result = req();
}

static void hold_request(const char *point, struct work_struct *work)
{
	init_completion(&callback_held);
	init_completion(&callback_goes_on);
	init_completion(&destroy_begun);
	fake.at_point = hold_callback;
	fake.point = point;
	queue_work(system_long_wq, work);
	wait_for_completion(&callback_held);
}

/* The consumer refuses a request while the callback that posted it still runs. */
static void a_request_is_destroyed_during_its_callback(struct kunit *test)
{
	struct work_struct request;

	INIT_WORK_ONSTACK(&request, run_held_request);
	roce_begin(test);
	listening(test);
	got.next_return = 1;
	hold_request("cm_roce_request_posted", &request);
	msleep(20);
	KUNIT_EXPECT_EQ(test, got.written, 1u);
	KUNIT_EXPECT_EQ(test, fake_ib.ids, 2);
	complete(&callback_goes_on);
	flush_work(&request);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, held_result, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.ids, 1);
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	roce_end(test);
	destroy_work_on_stack(&request);
}

/* A listener is destroyed while a request is in its callback: the destroy waits. */
static void the_destroy_of_a_listener_waits_for_a_request(struct kunit *test)
{
	static const char *const points[] = {
		"cm_roce_listener_found", "cm_roce_request_made", "cm_roce_request_posted",
	};
	struct work_struct request, end_of_id;
	int i;

	for (i = 0; i < ARRAY_SIZE(points); i++) {
		INIT_WORK_ONSTACK(&request, run_held_request);
		INIT_WORK_ONSTACK(&end_of_id, run_destroy);
		roce_begin(test);
		listening(test);
		got.next_return = 1;
		hold_request(points[i], &request);
		listener = NULL;
		queue_work(t3_unbound_wq, &end_of_id);
		wait_for_completion(&destroy_begun);
		msleep(20);
		KUNIT_EXPECT_NOT_NULL(test, fake_ib.listener);
		complete(&callback_goes_on);
		flush_work(&request);
		flush_work(&end_of_id);
		flush_workqueue(cm_wq);
		KUNIT_EXPECT_EQ(test, fake_ib.ids, 0);
		roce_end(test);
		destroy_work_on_stack(&request);
		destroy_work_on_stack(&end_of_id);
	}
}

static void run_disconnect(struct work_struct *work)
{
	held_result = t3_rdma_disconnect(id);
}

/*
 * The device is removed while a disconnect is about to end the ib_cm_id of a connection whose RTU
 * has not come. The removal does not end it, too.
 */
static void a_removal_during_a_disconnect(struct kunit *test)
{
	struct work_struct disconnect;

	INIT_WORK_ONSTACK(&disconnect, run_disconnect);
	roce_begin(test);
	requested(test);
	STEPS(S(ACCEPT));
	KUNIT_EXPECT_EQ(test, t3_rdma_notify(id, IB_EVENT_COMM_EST), 0);
	STEPS(S(GOT_ESTABLISHED));
	hold_request("cm_roce_close", &disconnect);
	STEPS(S(REMOVE));
	msleep(20);
	KUNIT_EXPECT_NOT_NULL(test, fake_ib.conn);
	complete(&callback_goes_on);
	flush_work(&disconnect);
	KUNIT_EXPECT_EQ(test, held_result, 0);
	KUNIT_EXPECT_NULL(test, fake_ib.conn);
	/* Of the id and of its listener. */
	STEPS(S(GOT_REMOVAL), S(GOT_REMOVAL), S(DESTROY), S(GOT_NOTHING));
	roce_end(test);
	destroy_work_on_stack(&disconnect);
}

static struct kunit_case roce_life_cases[] = {
	KUNIT_CASE(a_destroy_waits_for_a_callback),
	KUNIT_CASE(a_request_is_destroyed_during_its_callback),
	KUNIT_CASE(the_destroy_of_a_listener_waits_for_a_request),
	KUNIT_CASE(a_removal_during_a_disconnect),
	{}
};

TEST_SUITE("t3_rdma_cm_roce_life", roce_life_cases, .init = conversation_init,
	   .exit = conversation_exit);
