// SPDX-License-Identifier: GPL-2.0
/*
 * Connect requests of a listener: when they migrate with it, its backlog, and its end while a
 * request is handled.
 */
#include "ucm_process.h"

/* --- requests that migrate with their listener -------------------------------- */

/* The number of a connect request that GET_EVENT has not returned: as a process may guess it. */
static u32 guess_request(struct kunit *test)
{
	struct ucm_context *ctx;
	unsigned long number;

	victim = listener(test, INADDR_ANY);
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	xa_for_each(&ucm_contexts, number, ctx)
		if (number != victim)
			return number;
	KUNIT_FAIL(test, "no request");
	return 0;
}

/* The device of a request is removed, so that the request has no id. It migrates all the same. */
static void a_request_without_an_id_migrates(struct kunit *test)
{
	u32 request = guess_request(test);

	remove_device();
	KUNIT_EXPECT_EQ(test, migrate_id(victim), 0);
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_CONNECT_REQUEST);
	KUNIT_EXPECT_EQ(test, event.id, request);
	KUNIT_EXPECT_EQ(test, destroy_of(&other_filp, request, NULL), 0);
	KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
}

/* A command of another thread on a context, which ends after the migration, or after a while. */
struct ucm_command {
	struct work_struct work;
	struct ucm_context *ctx;
	struct completion begun, end;
	bool waited_for;
};

static void run_command(struct work_struct *work)
{
	struct ucm_command *cmd = container_of(work, struct ucm_command, work);

	mutex_lock(&cmd->ctx->mutex);
	complete(&cmd->begun);
	cmd->waited_for = !wait_for_completion_timeout(&cmd->end, 2 * HZ);
	mutex_unlock(&cmd->ctx->mutex);
}

/* The process has guessed the number of the request. */
static void a_migration_waits_for_no_command(struct kunit *test)
{
	u32 request = guess_request(test);
	struct ucm_command cmd = { .ctx = xa_load(&ucm_contexts, request) };

	KUNIT_ASSERT_NOT_NULL(test, cmd.ctx);
	init_completion(&cmd.begun);
	init_completion(&cmd.end);
	INIT_WORK_ONSTACK(&cmd.work, run_command);
	queue_work(system_long_wq, &cmd.work);
	wait_for_completion(&cmd.begun);
	KUNIT_EXPECT_EQ(test, migrate_id(victim), 0);
	complete(&cmd.end);
	flush_work(&cmd.work);
	destroy_work_on_stack(&cmd.work);
	KUNIT_EXPECT_FALSE(test, cmd.waited_for);
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), 0);
	KUNIT_EXPECT_EQ(test, event.id, request);
	KUNIT_EXPECT_EQ(test, destroy_of(&other_filp, request, NULL), 0);
}

static int accept_request(u32 id)
{
	struct rdma_ucm_accept cmd = {
		.id = id, .uid = 1, .conn_param = { .qp_num = FAKE_QPN, .valid = 1 },
	};

	return command(RDMA_USER_CM_CMD_ACCEPT, &cmd, sizeof(cmd), 0);
}

/* A request is accepted before GET_EVENT has returned it. Its own events migrate, too. */
static void a_request_migrates_with_its_events(struct kunit *test)
{
	u32 request = guess_request(test), reported;

	KUNIT_ASSERT_EQ(test, accept_request(request), 0);
	KUNIT_EXPECT_EQ(test, fake_report(FAKE_ESTABLISHED, 0), 0);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, migrate_id(victim), 0);
	KUNIT_EXPECT_TRUE_MSG(test, list_empty(&ucm_of(&filp)->events),
			      "an event is left in the old file");
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_CONNECT_REQUEST);
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_ESTABLISHED);
	KUNIT_EXPECT_EQ(test, event.id, request);
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), -EAGAIN);
	KUNIT_EXPECT_EQ(test, destroy_of(&other_filp, request, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1u);
}

/* A request is destroyed before GET_EVENT has returned it. The listener's file gets no context. */
static void a_request_that_was_destroyed_does_not_migrate(struct kunit *test)
{
	u32 request = guess_request(test);

	KUNIT_EXPECT_EQ(test, destroy(request, NULL), 0);
	KUNIT_EXPECT_EQ(test, migrate_id(victim), 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&ucm_of(&filp)->contexts));
	KUNIT_EXPECT_TRUE(test, list_is_singular(&ucm_of(&other_filp)->contexts));
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), 0);
	KUNIT_EXPECT_EQ(test, event.id, request);
	KUNIT_EXPECT_EQ(test, destroy_of(&other_filp, request, NULL), -ENOENT);
}

/* --- limits ------------------------------------------------------------------- */

static void request_is_delivered(void)
{
	struct ucm_context *ctx = xa_load(&ucm_contexts, victim);
	int i, free = atomic_read(&ctx->backlog_left);

	fake_request();
	for (i = 0; i < 100 && atomic_read(&ctx->backlog_left) == free; i++)
		msleep(20);
}

/* The parameter and the sysctl are unsigned. */
static void a_limit_beyond_an_int(struct kunit *test)
{
	unsigned int limit = ucm_max_backlog;

	ucm_max_backlog = UINT_MAX;
	guess_request(test);
	ucm_max_backlog = limit;
}

static bool second_is_reported;

/* A second request comes while the handler of the first one runs, and is reported before it. */
static void second_request(void)
{
	int i;

	fake_request();
	for (i = 0; i < 100 && !ucm_has_events(ucm_of(&filp)); i++)
		msleep(20);
	second_is_reported = ucm_has_events(ucm_of(&filp));
}

static void requests_are_handled_at_the_same_time(struct kunit *test)
{
	u32 first;

	listener(test, FAKE_LOCAL);
	second_is_reported = false;
	fake.at_point = second_request;
	fake.point = "ucm_request_made";
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_TRUE(test, second_is_reported);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	first = event.id;
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_NE(test, event.id, first);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
}

static struct work_struct ending;
static bool ended, ended_early, has_begun;

/* Not by a command, which needs the credentials of the opener. */
static void end_the_listener(struct work_struct *work)
{
	struct ucm_context *ctx = xa_load(&ucm_contexts, victim);

	if (ucm_context_claim(ctx))
		ucm_context_destroy(ctx);
	WRITE_ONCE(ended, true);
}

/* A listener, whose next request is held at a point in its worker until @at_point returns. */
static void hold_next_request(struct kunit *test, const char *point, void (*at_point)(void))
{
	victim = listener(test, FAKE_LOCAL);
	fake.rejects = 0;
	ended = false;
	ended_early = false;
	has_begun = false;
	INIT_WORK(&ending, end_the_listener);
	fake.at_point = at_point;
	fake.point = point;
}

/* The request was rejected, the listener has ended, and nothing remains. */
static void expect_rejected(struct kunit *test)
{
	flush_workqueue(cm_wq);
	flush_work(&ending);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_TRUE(test, ended);
	KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, number_of_ids(), 0u);
}

static void end_listener_during_request(struct kunit *test, const char *point,
					void (*at_point)(void))
{
	hold_next_request(test, point, at_point);
	fake.context = IN_SOFTIRQ;
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	expect_rejected(test);
}

static void listener_ends(void)
{
	struct ucm_context *ctx = xa_load(&ucm_contexts, victim);
	struct cm_id *id = to_cm_id(ctx->cm_id);
	int i;

	cm_id_get(id);
	queue_work(system_long_wq, &ending);
	for (i = 0; i < 100 && cm_state(id) != CM_ST_DESTROYING; i++)
		msleep(20);
	has_begun = cm_state(id) == CM_ST_DESTROYING;
	msleep(20);
	ended_early = READ_ONCE(ended);
	cm_id_put(id);
}

/* The listener is destroyed while the handler of a request runs, and waits for it. */
static void a_listener_ends_after_its_requests(struct kunit *test)
{
	end_listener_during_request(test, "ucm_request_made", listener_ends);
	KUNIT_EXPECT_TRUE(test, has_begun);
	KUNIT_EXPECT_FALSE(test, ended_early);
}

static void listener_has_ended(void)
{
	int i;

	queue_work(system_long_wq, &ending);
	for (i = 0; i < 100 && !READ_ONCE(ended); i++)
		msleep(20);
}

/* The listener ends before the handler of its request begins. */
static void a_request_outlives_its_listener(struct kunit *test)
{
	end_listener_during_request(test, "cm_request_begins", listener_has_ended);
}

/*
 * An upcall completes a request and cannot report it, because the backlog is full. Then the
 * listener ends, before the worker reports the request.
 */
static void a_request_that_is_complete_outlives_its_listener(struct kunit *test)
{
	struct ucm_context *ctx;

	if (!IS_ENABLED(CONFIG_PREEMPT_COUNT))
		kunit_skip(test, "no request is handled in an upcall");
	hold_next_request(test, "cm_work_begins", listener_has_ended);
	ctx = xa_load(&ucm_contexts, victim);
	KUNIT_ASSERT_NOT_NULL(test, ctx);
	atomic_set(&ctx->backlog_left, 0);
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	expect_rejected(test);
}

/* Once, without a worker. */
static void a_request_is_reported_in_the_upcall(struct kunit *test)
{
	struct ucm_file *file = filp.private_data;

	if (!IS_ENABLED(CONFIG_PREEMPT_COUNT))
		kunit_skip(test, "the kernel has no preemption counter");
	victim = listener(test, FAKE_LOCAL);
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	KUNIT_EXPECT_TRUE(test, ucm_has_events(file));
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, number_of_ids(), 2u);
}

/* The events of others wait for the workers, and a task of a process may take long. */
static void a_worker_waits_for_no_task(struct kunit *test)
{
	struct ucm_context *ctx;
	struct cm_id *id;
	int i;

	ctx = xa_load(&ucm_contexts, create(test));
	KUNIT_ASSERT_NOT_NULL(test, ctx);
	id = to_cm_id(ctx->cm_id);
	lock_handler(ctx->cm_id);
	KUNIT_EXPECT_EQ(test, cm_event_post(id, CM_SLOT_ROUTE, CM_EV_ROUTE_DONE, 0,
					    CM_DISPATCH_WORKER), 0);
	for (i = 0; i < 100 && work_busy(&id->work); i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, work_busy(&id->work), 0u);
	KUNIT_EXPECT_FALSE(test, list_empty(&id->queue));
	unlock_handler(ctx->cm_id);
	/* Its turn comes before the next call. */
	cm_handler_lock(id);
	KUNIT_EXPECT_TRUE(test, list_empty(&id->queue));
	cm_handler_release(id);
}

/* A listen fails after a request was reported. The next one has the backlog that it asks for. */
static void a_failed_listen_keeps_its_backlog(struct kunit *test)
{
	struct rdma_ucm_listen cmd = { .backlog = 4 };
	struct ucm_context *ctx;

	cmd.id = create(test);
	victim = cmd.id;
	ctx = xa_load(&ucm_contexts, victim);
	KUNIT_ASSERT_NOT_NULL(test, ctx);
	KUNIT_ASSERT_EQ(test, bind(victim, INADDR_ANY), 0);
	fake_add(test, &fake.other);
	fake.other_listen_error = -EADDRINUSE;
	fake.at_point = request_is_delivered;
	fake.point = "cm_listener_listens";
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_LISTEN, &cmd, sizeof(cmd), 0), -EADDRINUSE);
	KUNIT_EXPECT_NULL(test, fake.point);
	fake.other_listen_error = 0;
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_LISTEN, &cmd, sizeof(cmd), 0), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->backlog_left), 3);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->backlog_left), 4);
	KUNIT_EXPECT_EQ(test, atomic_read(&to_cm_id(ctx->cm_id)->backlog_left), 4);
	KUNIT_EXPECT_EQ(test, destroy(event.id, NULL), 0);
	KUNIT_EXPECT_EQ(test, destroy(victim, NULL), 0);
	cm_remove_one(&fake.other, fake.other_dev);
}

/* A second listen fails, and does not reset the backlog. */
static void a_second_listen_does_not_reset_the_backlog(struct kunit *test)
{
	struct rdma_ucm_listen cmd = { .id = listener(test, FAKE_LOCAL), .backlog = 4 };
	int i;

	for (i = 0; i < 6; i++) {
		KUNIT_EXPECT_EQ(test, fake_request(), 0);
		flush_workqueue(cm_wq);
		KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_LISTEN, &cmd, sizeof(cmd), 0),
				-EINVAL);
	}
	KUNIT_EXPECT_EQ(test, fake.rejects, 2u);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, fake.rejects, 2u);
}

static struct kunit_case ucm_request_cases[] = {
	KUNIT_CASE(a_limit_beyond_an_int),
	KUNIT_CASE(a_request_without_an_id_migrates),
	KUNIT_CASE(a_request_migrates_with_its_events),
	KUNIT_CASE(a_request_that_was_destroyed_does_not_migrate),
	KUNIT_CASE(a_migration_waits_for_no_command),
	KUNIT_CASE(a_failed_listen_keeps_its_backlog),
	KUNIT_CASE(requests_are_handled_at_the_same_time),
	KUNIT_CASE(a_listener_ends_after_its_requests),
	KUNIT_CASE(a_request_outlives_its_listener),
	KUNIT_CASE(a_request_that_is_complete_outlives_its_listener),
	KUNIT_CASE(a_second_listen_does_not_reset_the_backlog),
	KUNIT_CASE(a_request_is_reported_in_the_upcall),
	KUNIT_CASE(a_worker_waits_for_no_task),
	{}
};

TEST_SUITE("t3_rdma_cm_ucm_request", ucm_request_cases, .init = open_files, .exit = close_files);
