// SPDX-License-Identifier: GPL-2.0
/*
 * GET_EVENT and other copies of user memory: no lock is held, and an event is neither lost nor
 * returned twice when a copy fails, or when its id ends or moves to another file meanwhile. Unread
 * events are limited; events that librdmacm writes are read as those of the kernel. Files are
 * closed, and devices removed, while other threads use an id. An id under creation is not found.
 */
#include "ucm_process.h"
#include "../pollers.h"

static bool locked;

static void find_locks(void)
{
	unsigned long number;
	struct ucm_context *ctx;

	lockdep_assert_not_held(&ucm_lock);
	xa_for_each(&ucm_contexts, number, ctx)
		locked |= mutex_is_locked(&ctx->mutex) ||
			  (ctx->cm_id && mutex_is_locked(&to_cm_id(ctx->cm_id)->handler_mutex));
}

/* A process decides how long a copy of its memory takes. No lock may be held meanwhile. */
static void no_lock_is_held_while_user_memory_is_copied(struct kunit *test)
{
	u8 resp[512] = {}, tos = 3;
	struct rdma_ucm_query query = { .response = (uintptr_t)resp };
	struct rdma_ucm_init_qp_attr attr = {
		.response = (uintptr_t)resp, .qp_state = IB_QPS_INIT,
	};
	struct rdma_ucm_set_option option = {
		.optval = (uintptr_t)&tos, .level = RDMA_OPTION_ID, .optname = RDMA_OPTION_ID_TOS,
		.optlen = sizeof(tos),
	};
	u32 id;

	locked = false;
	during_copy = find_locks;
	id = create(test);
	query.id = id;
	attr.id = id;
	option.id = id;
	KUNIT_EXPECT_EQ(test, bind(id, FAKE_LOCAL), 0);
	KUNIT_EXPECT_FALSE_MSG(test, locked, "CREATE_ID, BIND_IP");
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_QUERY_ROUTE, &query, sizeof(query),
				      sizeof(struct rdma_ucm_query_route_resp)), 0);
	KUNIT_EXPECT_FALSE_MSG(test, locked, "QUERY_ROUTE");
	query.option = RDMA_USER_CM_QUERY_ADDR;
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_QUERY, &query, sizeof(query),
				      sizeof(struct rdma_ucm_query_addr_resp)), 0);
	KUNIT_EXPECT_FALSE_MSG(test, locked, "QUERY");
	KUNIT_EXPECT_EQ(test, (int)((struct rdma_ucm_query_addr_resp *)resp)->src_size,
			(int)sizeof(struct sockaddr_in));
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_INIT_QP_ATTR, &attr, sizeof(attr),
				      sizeof(struct ib_uverbs_qp_attr)), 0);
	KUNIT_EXPECT_FALSE_MSG(test, locked, "INIT_QP_ATTR");
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_SET_OPTION, &option, sizeof(option), 0), 0);
	KUNIT_EXPECT_FALSE_MSG(test, locked, "SET_OPTION");
	KUNIT_EXPECT_EQ(test, resolve_ip(id), 0);
	fake_lookup_done(0);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_ADDR_RESOLVED);
	KUNIT_EXPECT_FALSE_MSG(test, locked, "GET_EVENT");
	KUNIT_EXPECT_EQ(test, destroy(id, NULL), 0);
	KUNIT_EXPECT_FALSE_MSG(test, locked, "DESTROY_ID");
}

/* An event that could not be copied is returned by the next GET_EVENT, and counted once. */
static void an_event_that_cannot_be_copied_is_not_lost(struct kunit *test)
{
	u32 id = create(test), reported;

	KUNIT_ASSERT_EQ(test, resolve_ip(id), 0);
	fake_lookup_done(0);
	flush_workqueue(cm_wq);
	unmapped_memory = &event;
	KUNIT_EXPECT_EQ(test, get_event(), -EFAULT);
	unmapped_memory = NULL;
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_ADDR_RESOLVED);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, destroy(id, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1u);
}

/* The process may have thousands of others, and its handlers wait for the lock of the queue. */
static void a_destroy_looks_at_the_events_of_its_id(struct kunit *test)
{
	u32 id = create(test), other = create(test);
	unsigned int i;

	KUNIT_ASSERT_EQ(test, resolve_ip(id), 0);
	fake_lookup_done(0);
	for (i = 0; i < 20; i++) {
		KUNIT_ASSERT_EQ(test, resolve_ip(other), 0);
		fake_lookup_done(-ETIMEDOUT);
		flush_workqueue(cm_wq);
	}
	visited = 0;
	KUNIT_EXPECT_EQ(test, destroy(id, NULL), 0);
	KUNIT_EXPECT_EQ(test, visited, 2u);	/* its event is taken off, and freed */
	for (i = 0; i < 20; i++)
		KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, destroy(other, NULL), 0);
}

static void destroy_victim(void)
{
	during_copy = NULL;
	victim_result = destroy(victim, &victim_reported);
}

/*
 * A listener is destroyed while the event of a request is copied. If user space gets the event,
 * DESTROY_ID has counted it, and the request stays; if not, the request is destroyed.
 */
static void a_listener_ends_while_its_event_is_copied(struct kunit *test)
{
	bool fails;

	for (fails = false;; fails = true) {
		fake.rejects = 0;
		victim = listener(test, FAKE_LOCAL);
		KUNIT_ASSERT_EQ(test, fake_request(), 0);
		flush_workqueue(cm_wq);
		slow_memory = &event;
		unmapped_memory = fails ? &event : NULL;
		during_copy = destroy_victim;
		KUNIT_EXPECT_EQ(test, get_event(), fails ? -EFAULT : 0);
		KUNIT_EXPECT_EQ(test, victim_result, 0);
		unmapped_memory = NULL;
		if (fails)
			break;
		KUNIT_EXPECT_EQ(test, victim_reported, 1u);
		KUNIT_EXPECT_EQ(test, fake.rejects, 0u);
		KUNIT_EXPECT_EQ(test, destroy(event.id, NULL), 0);
		KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
	}
	KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_contexts));
}

static void migrate_victim(void)
{
	during_copy = NULL;
	victim_result = migrate_id(victim);
}

static void migrate_and_destroy_victim(void)
{
	migrate_victim();
	if (!victim_result)
		victim_result = destroy_of(&other_filp, victim, &victim_reported);
}

/* An id with an event that is not read yet. */
static u32 id_with_an_event(struct kunit *test)
{
	u32 id = create(test);

	KUNIT_ASSERT_EQ(test, resolve_ip(id), 0);
	fake_lookup_done(0);
	flush_workqueue(cm_wq);
	return id;
}

/*
 * An id moves to another file while its event is copied, and the copy fails. The event goes to the
 * new file of the id; if the id is destroyed there, it is dropped. It is not left in the old file.
 */
static void an_id_moves_while_its_event_is_copied(struct kunit *test)
{
	u32 reported;

	victim = id_with_an_event(test);
	fail_the_copy(test, migrate_victim);
	KUNIT_EXPECT_EQ_MSG(test, get_event(), -EAGAIN, "the event is in the old file");
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_ADDR_RESOLVED);
	KUNIT_EXPECT_EQ(test, destroy_of(&other_filp, victim, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1u);
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), -EAGAIN);
}

static void an_id_moves_and_ends_while_its_event_is_copied(struct kunit *test)
{
	victim = id_with_an_event(test);
	fail_the_copy(test, migrate_and_destroy_victim);
	KUNIT_EXPECT_EQ_MSG(test, get_event(), -EAGAIN, "an event of an id that is destroyed");
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), -EAGAIN);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_contexts));
}

/* The same, with the destroy after the copy. */
static void an_id_moves_while_its_event_is_copied_and_ends(struct kunit *test)
{
	u32 reported;

	victim = id_with_an_event(test);
	fail_the_copy(test, migrate_victim);
	KUNIT_EXPECT_EQ(test, destroy_of(&other_filp, victim, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 0u);
	KUNIT_EXPECT_EQ_MSG(test, get_event(), -EAGAIN, "an event of an id that is destroyed");
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_contexts));
}

/* The same with a connect request: its context moves along. */
static void a_listener_moves_while_its_event_is_copied(struct kunit *test)
{
	victim = listener(test, FAKE_LOCAL);
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	fail_the_copy(test, migrate_victim);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_CONNECT_REQUEST);
	KUNIT_EXPECT_EQ(test, destroy_of(&other_filp, event.id, NULL), 0);
	KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
}

static void read_the_new_file(void)
{
	victim_result = get_event_of(&other_filp);
}

/*
 * MIGRATE_ID reports the events that GET_EVENT returned from the old file. librdmacm waits for
 * their acknowledgment, and must not wait for that of an event which another thread gets from the
 * new one.
 */
static void an_event_of_the_new_file_is_not_of_the_old_one(struct kunit *test)
{
	u32 id = id_with_an_event(test), reported;

	victim_result = -EAGAIN;
	fake.at_point = read_the_new_file;
	fake.point = "ucm_move_queued";
	KUNIT_EXPECT_EQ(test, migrate_reporting(id, &reported), 0);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_EQ(test, victim_result, 0);
	KUNIT_EXPECT_EQ(test, reported, 0u);
	KUNIT_EXPECT_EQ(test, destroy_of(&other_filp, id, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1u);
}

/* How often a thread runs, of some times at which it should sleep. */
static unsigned int times_running(struct task_struct *thread)
{
	unsigned int i, ran = 0;

	msleep(200);
	for (i = 0; i < 10; i++) {
		ran += task_is_running(thread);
		msleep(20);
	}
	return ran;
}

static int release(void *unused)
{
	ucm_release(NULL, &filp);
	return 0;
}

static DECLARE_COMPLETION(thread_has_begun);

static void complete_thread_has_begun(void)
{
	complete(&thread_has_begun);
}

/* Starts a thread that calls a function. Returns when the thread is at a point in it. */
static struct task_struct *begin_in_thread(struct kunit *test, int (*function)(void *unused),
					   const char *point)
{
	struct task_struct *thread = kthread_create(function, NULL, "ucm_thread");

	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	get_task_struct(thread);
	reinit_completion(&thread_has_begun);
	fake.at_point = complete_thread_has_begun;
	fake.point = point;
	wake_up_process(thread);
	wait_for_completion(&thread_has_begun);
	return thread;
}

static int end_of_thread(struct task_struct *thread)
{
	int ret = kthread_stop(thread);

	put_task_struct(thread);
	return ret;
}

static int read_event(void *unused)
{
	const struct cred *before = override_creds(filp.f_cred);
	int ret = get_event();

	revert_creds(before);
	return ret;
}

/* A reader without O_NONBLOCK sleeps until there is an event. */
static void a_reader_sleeps_until_an_event_comes(struct kunit *test)
{
	struct task_struct *reader;
	u32 id = create(test);

	KUNIT_ASSERT_EQ(test, resolve_ip(id), 0);
	filp.f_flags = 0;
	reader = begin_in_thread(test, read_event, "ucm_get_event_begins");
	KUNIT_EXPECT_EQ_MSG(test, times_running(reader), 0u, "the reader runs");
	KUNIT_EXPECT_EQ(test, READ_ONCE(reader->exit_state), 0);
	fake_lookup_done(0);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, end_of_thread(reader), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_ADDR_RESOLVED);
}

/*
 * A file is closed while another thread destroys its context, which may wait for the card. The
 * thread that closes the file sleeps until the context has ended.
 */
static void a_close_sleeps_while_a_context_ends(struct kunit *test)
{
	struct ucm_context *ctx = xa_load(&ucm_contexts, create(test));
	struct task_struct *closer;

	KUNIT_ASSERT_NOT_NULL(test, ctx);
	KUNIT_ASSERT_TRUE(test, ucm_context_claim(ctx));
	closer = begin_in_thread(test, release, "ucm_release_found");
	KUNIT_EXPECT_EQ_MSG(test, times_running(closer), 0u,
			    "the thread that closes the file runs");
	KUNIT_EXPECT_EQ(test, READ_ONCE(closer->exit_state), 0);
	ucm_context_destroy(ctx);
	KUNIT_EXPECT_EQ(test, end_of_thread(closer), 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_contexts));
	KUNIT_ASSERT_EQ(test, ucm_open(NULL, &filp), 0);
}

/* The device is removed while an event is copied to slow memory, and a request is queued. */
static void a_device_is_removed_while_an_event_is_copied(struct kunit *test)
{
	listener(test, INADDR_ANY);
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	slow_memory = &event;
	during_copy = remove_device;
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_TRUE(test, fake.removed);
	KUNIT_EXPECT_EQ(test, fake.rejects, 2u);
}

/* --- the close of an id after the removal of its device -------------------------- */

static DECLARE_COMPLETION(closes_go_on);

static void wait_for_closes_go_on(struct work_struct *work)
{
	wait_for_completion(&closes_go_on);
}

static DECLARE_WORK(busy, wait_for_closes_go_on);

/* The workqueue is busy, so closes are queued and do not run. */
static void hold_closes(struct kunit *test)
{
	reinit_completion(&closes_go_on);
	ucm_close_wq = alloc_ordered_workqueue("ucm_closes", 0);
	KUNIT_ASSERT_NOT_NULL(test, ucm_close_wq);
	queue_work(ucm_close_wq, &busy);
}

static void run_closes(void)
{
	complete(&closes_go_on);
	destroy_workqueue(ucm_close_wq);
	ucm_close_wq = t3_unbound_wq;
}

static struct ucm_context *context_of(u32 number)
{
	return xa_load(&ucm_contexts, number);
}

/* A process destroys an id whose device was removed, before the close of the id has run. */
static void an_id_is_destroyed_before_its_close_runs(struct kunit *test)
{
	u32 id = create(test);
	int i;

	KUNIT_ASSERT_EQ(test, bind(id, FAKE_LOCAL), 0);
	hold_closes(test);
	device_removed = true;
	queue_work(system_long_wq, &removal);
	for (i = 0; i < 100 && get_event(); i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_DEVICE_REMOVAL);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_TRUE(test, work_pending(&context_of(id)->close));
	KUNIT_EXPECT_EQ(test, destroy(id, NULL), 0);
	KUNIT_EXPECT_EQ_MSG(test, kref_read(&ucm_of(&filp)->ref), 1u,
			    "the context is left, and holds its file");
	flush_work(&removal);
	run_closes();
}

/* Closes of other users wait for the worker. The command that runs closes, once. */
static void a_close_waits_for_no_command(struct kunit *test)
{
	struct rdma_cm_event removed = { .event = RDMA_CM_EVENT_DEVICE_REMOVAL };
	struct ucm_context *ctx = context_of(create(test));
	int i, j;

	KUNIT_ASSERT_NOT_NULL(test, ctx);
	kref_get(&ctx->ref);
	mutex_lock(&ctx->mutex);	/* a command */
	for (i = 0; i < 2; i++) {
		lock_handler(ctx->cm_id);
		KUNIT_EXPECT_EQ(test, ucm_handler(ctx->cm_id, &removed), 0);
		unlock_handler(ctx->cm_id);
		for (j = 0; j < 100 && work_busy(&ctx->close); j++)
			msleep(20);
		KUNIT_EXPECT_EQ(test, work_busy(&ctx->close), 0u);
	}
	KUNIT_EXPECT_NOT_NULL(test, ctx->cm_id);
	ucm_context_unlock(ctx);
	flush_work(&ctx->close);
	KUNIT_EXPECT_NULL(test, ctx->cm_id);
	KUNIT_EXPECT_EQ(test, kref_read(&ctx->ref), 2u + atomic_read(&ctx->unread));
	ucm_context_put(ctx);
}

/* A removal that finds the close queued takes no second reference for it. */
static void a_close_is_queued_once(struct kunit *test)
{
	struct rdma_cm_event removed = { .event = RDMA_CM_EVENT_DEVICE_REMOVAL };
	struct ucm_context *ctx = context_of(create(test));
	unsigned int refs, unread;

	KUNIT_ASSERT_NOT_NULL(test, ctx);
	hold_closes(test);
	lock_handler(ctx->cm_id);
	KUNIT_EXPECT_EQ(test, ucm_handler(ctx->cm_id, &removed), 0);
	refs = kref_read(&ctx->ref);
	unread = atomic_read(&ctx->unread);
	KUNIT_EXPECT_EQ(test, ucm_handler(ctx->cm_id, &removed), 0);
	KUNIT_EXPECT_EQ(test, kref_read(&ctx->ref) - refs, atomic_read(&ctx->unread) - unread);
	unlock_handler(ctx->cm_id);
	run_closes();
}

/* Workers that serve all users call the handler. */
static void the_handler_wakes_no_pollers(struct kunit *test)
{
	struct rdma_cm_event failed = { .event = RDMA_CM_EVENT_ADDR_ERROR };
	struct ucm_context *ctx = context_of(create(test));

	KUNIT_ASSERT_NOT_NULL(test, ctx);
	pollers_begin(test, &filp);
	lock_handler(ctx->cm_id);
	KUNIT_EXPECT_EQ(test, ucm_handler(ctx->cm_id, &failed), 0);
	unlock_handler(ctx->cm_id);
	pollers_end(test);
}

/* --- ids under creation ---------------------------------------------------------- */

static u32 looked_for, found_early;

/* Another thread guesses numbers: they are small. */
static void look_for_new_contexts(void)
{
	struct ucm_context *ctx, *found;
	unsigned long number;

	xa_for_each(&ucm_contexts, number, ctx) {
		if (number == victim)
			continue;
		looked_for++;
		found = ucm_context_get(ucm_of(&filp), number);
		if (!IS_ERR(found)) {
			found_early++;
			ucm_context_put(found);
		}
	}
}

/* CREATE_ID can fail until it has copied the number, and frees the context then. */
static void an_id_is_found_only_after_success(struct kunit *test)
{
	struct rdma_ucm_create_id_resp resp = {};
	struct rdma_ucm_create_id cmd = {
		.uid = 1, .response = (uintptr_t)&resp, .ps = RDMA_PS_TCP,
	};
	struct ucm_context *ctx;

	victim = U32_MAX;
	looked_for = 0;
	found_early = 0;
	slow_memory = &resp;
	unmapped_memory = &resp;
	during_copy = look_for_new_contexts;
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(resp)),
			-EFAULT);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_contexts));
	unmapped_memory = NULL;
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(resp)),
			0);
	during_copy = NULL;
	KUNIT_EXPECT_EQ(test, looked_for, 2u);
	KUNIT_EXPECT_EQ(test, found_early, 0u);
	ctx = ucm_context_get(ucm_of(&filp), resp.id);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ctx));
	ucm_context_put(ctx);
}

/* The context of a request gets its id, and is put into its file, before it can be found. */
static void a_request_is_found_only_when_it_is_complete(struct kunit *test)
{
	victim = listener(test, FAKE_LOCAL);
	looked_for = 0;
	found_early = 0;
	fake.at_point = look_for_new_contexts;
	fake.point = "ucm_request_made";
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, looked_for, 1u);
	KUNIT_EXPECT_EQ(test, found_early, 0u);
	KUNIT_ASSERT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, destroy(event.id, NULL), 0);
}

/* --- limits, and events of the library ----------------------------------------- */

/* Lookups that fail repeatedly are refused when too many events are unread. */
static void unread_events_are_limited(struct kunit *test)
{
	u32 id = create(test);
	int i, ret = 0;

	for (i = 0; i < 4 * UCM_MAX_UNREAD && !ret; i++) {
		ret = resolve_ip(id);
		if (!ret)
			fake_lookup_done(-ETIMEDOUT);
		flush_workqueue(cm_wq);
	}
	KUNIT_EXPECT_EQ(test, ret, -ENOBUFS);
	KUNIT_EXPECT_EQ(test, i, UCM_MAX_UNREAD + 1);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, resolve_ip(id), 0);
	fake_lookup_done(0);
}

/*
 * The memory of a request is charged above the limit of the cgroup, and in part not at all. So the
 * user has a limited number of their ids, as long as these exist: also rejected ones.
 */
static void a_user_has_a_limited_number_of_ids_of_requests(struct kunit *test)
{
	struct rdma_ucm_reject rejection = {};
	struct cm_user *user;
	struct cm_id *id;

	victim = listener(test, FAKE_LOCAL);
	id = to_cm_id(((struct ucm_context *)xa_load(&ucm_contexts, victim))->cm_id);
	user = id->user;
	KUNIT_ASSERT_EQ(test, atomic_read(&user->left[CM_SHARE_REQUESTS]), CM_MAX_REQUESTS);
	atomic_set(&user->left[CM_SHARE_REQUESTS], 1);
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	KUNIT_EXPECT_NE(test, fake_request(), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&id->backlog_left), id->backlog);
	KUNIT_ASSERT_EQ(test, get_event(), 0);
	rejection.id = event.id;
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_REJECT, &rejection, sizeof(rejection), 0),
			0);
	KUNIT_EXPECT_NE(test, fake_request(), 0);
	KUNIT_EXPECT_EQ(test, destroy(event.id, NULL), 0);
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	KUNIT_ASSERT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, destroy(event.id, NULL), 0);
	KUNIT_EXPECT_EQ(test, destroy(victim, NULL), 0);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_TRUE(test, xa_empty(&cm_users));
}

/* An update of the listeners visits those of all users. */
static void a_user_has_a_limited_number_of_ids_that_listen(struct kunit *test)
{
	struct rdma_ucm_listen listen = { .backlog = 4 };
	struct cm_id *id;
	atomic_t *left;

	victim = listener(test, FAKE_LOCAL);
	id = to_cm_id(((struct ucm_context *)xa_load(&ucm_contexts, victim))->cm_id);
	left = &id->user->left[CM_SHARE_LISTENERS];
	KUNIT_EXPECT_EQ(test, atomic_read(left), CM_MAX_LISTENERS - 1);
	atomic_set(left, 0);
	listen.id = create(test);
	KUNIT_ASSERT_EQ(test, bind_to(listen.id, FAKE_LOCAL, 7001), 0);
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_LISTEN, &listen, sizeof(listen), 0),
			-ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic_read(left), 0);
	atomic_set(left, 1);
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_LISTEN, &listen, sizeof(listen), 0), 0);
	KUNIT_EXPECT_EQ(test, destroy(listen.id, NULL), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(left), 1);
	KUNIT_EXPECT_EQ(test, destroy(victim, NULL), 0);
}

static bool lookup_ended;

static void end_last_lookup(struct work_struct *work)
{
	lookup_ended = true;
	fake_lookup_done(0);
}

static DECLARE_DELAYED_WORK(end_of_last_lookup, end_last_lookup);

/* Of the lookups that wait for neighbours ib_core has one list for all users. */
static void a_call_waits_while_the_user_has_too_many_lookups(struct kunit *test)
{
	u32 ids[CM_MAX_LOOKUPS + 1], reported;
	int i;

	for (i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = create(test);
	for (i = 0; i < CM_MAX_LOOKUPS; i++)
		KUNIT_ASSERT_EQ(test, resolve_ip(ids[i]), 0);
	/* Not for long: the removal of a device waits for the command. */
	KUNIT_EXPECT_EQ(test, resolve_ip(ids[i]), -ENOBUFS);
	lookup_ended = false;
	schedule_delayed_work(&end_of_last_lookup, HZ / 10);
	KUNIT_EXPECT_EQ(test, resolve_ip(ids[i]), 0);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(lookup_ended));
	for (i = 0; i < ARRAY_SIZE(ids); i++)
		KUNIT_EXPECT_EQ(test, destroy(ids[i], &reported), 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&cm_users));
}

/* A net device's owner can change it without end. */
static void changes_of_the_link_address_are_one_event(struct kunit *test)
{
	u32 id = create(test), reported;
	int i;

	KUNIT_ASSERT_EQ(test, bind(id, FAKE_LOCAL), 0);
	for (i = 0; i < 2; i++) {
		fake_link_address(6);
		fake_link_address(4);
		KUNIT_EXPECT_EQ(test, get_event(), 0);
		KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_ADDR_CHANGE);
		KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	}
	/* Nor is it above the limit. */
	for (i = 0; i < UCM_MAX_UNREAD; i++) {
		KUNIT_ASSERT_EQ(test, resolve_ip(id), 0);
		fake_lookup_done(-ETIMEDOUT);
		flush_workqueue(cm_wq);
	}
	fake_link_address(6);
	for (i = 0; !get_event(); i++)
		KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_ADDR_ERROR);
	KUNIT_EXPECT_EQ(test, i, UCM_MAX_UNREAD);
	KUNIT_EXPECT_EQ(test, destroy(id, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, UCM_MAX_UNREAD + 2u);
	fake_link_address(0);
}

static u32 last_of_many;

static void last_of_many_leaves(void)
{
	struct ucm_context *ctx = xa_load(&ucm_contexts, last_of_many);

	cm_dev_unlink(to_cm_id(context_unsafe(ctx->cm_id)));
}

/* A process chooses how many ids it has. They are visited in pieces, and may leave in between. */
static void the_link_address_of_many_ids_changes(struct kunit *test)
{
	u32 ids[CM_MAX_IDS_LOCKED + 2];
	int i;

	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		ids[i] = create(test);
		KUNIT_ASSERT_EQ(test, bind_to(ids[i], FAKE_LOCAL, 0), 0);
	}
	last_of_many = ids[i - 1];
	fake.at_point = last_of_many_leaves;
	fake.point = "cm_walk_pauses";
	fake_link_address(2);
	KUNIT_EXPECT_NULL(test, fake.point);
	for (i = 0; !get_event(); i++)
		KUNIT_EXPECT_EQ(test, event.id, ids[i]);
	KUNIT_EXPECT_EQ(test, i, CM_MAX_IDS_LOCKED + 1);
	fake_link_address(0);
}

/* The in-tree manager has WRITE_CM_EVENT since 7.1. */
static void older_kernels_have_no_events_of_the_library(struct kunit *test)
{
	struct ucm_write_event_cmd cmd = { .id = create(test), .event = UCM_EVENT_USER };

	has_write_event = false;
	KUNIT_EXPECT_EQ(test, command(UCM_WRITE_EVENT, &cmd, sizeof(cmd), 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
}

static void an_event_of_the_library_is_read(struct kunit *test)
{
	struct ucm_write_event_cmd cmd = {
		.id = create(test), .event = UCM_EVENT_USER, .status = 3, .param.arg = 0x1234,
	};

	has_write_event = true;
	KUNIT_ASSERT_EQ(test, command(UCM_WRITE_EVENT, &cmd, sizeof(cmd), 0), 0);
	KUNIT_ASSERT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)UCM_EVENT_USER);
	KUNIT_EXPECT_EQ(test, event.id, cmd.id);
	KUNIT_EXPECT_EQ(test, event.status, 3u);
	KUNIT_EXPECT_EQ(test, memcmp(&event.param, &cmd.param.arg, sizeof(cmd.param.arg)), 0);
	cmd.event = RDMA_CM_EVENT_ESTABLISHED;
	KUNIT_EXPECT_EQ(test, command(UCM_WRITE_EVENT, &cmd, sizeof(cmd), 0), -EINVAL);
}

static void unread_events_of_the_library_are_limited(struct kunit *test)
{
	struct ucm_write_event_cmd cmd = { .id = create(test), .event = UCM_EVENT_USER };
	int i, ret = 0;

	has_write_event = true;
	for (i = 0; i < 4 * UCM_MAX_UNREAD && !ret; i++)
		ret = command(UCM_WRITE_EVENT, &cmd, sizeof(cmd), 0);
	KUNIT_EXPECT_EQ(test, ret, -ENOBUFS);
	KUNIT_EXPECT_EQ(test, i, UCM_MAX_UNREAD + 1);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, command(UCM_WRITE_EVENT, &cmd, sizeof(cmd), 0), 0);
}

static struct kunit_case ucm_event_cases[] = {
	KUNIT_CASE(no_lock_is_held_while_user_memory_is_copied),
	KUNIT_CASE(an_event_that_cannot_be_copied_is_not_lost),
	KUNIT_CASE(a_destroy_looks_at_the_events_of_its_id),
	KUNIT_CASE(a_listener_ends_while_its_event_is_copied),
	KUNIT_CASE(an_id_moves_while_its_event_is_copied),
	KUNIT_CASE(an_id_moves_and_ends_while_its_event_is_copied),
	KUNIT_CASE(an_id_moves_while_its_event_is_copied_and_ends),
	KUNIT_CASE(a_listener_moves_while_its_event_is_copied),
	KUNIT_CASE(an_event_of_the_new_file_is_not_of_the_old_one),
	KUNIT_CASE(a_reader_sleeps_until_an_event_comes),
	KUNIT_CASE(a_close_sleeps_while_a_context_ends),
	KUNIT_CASE(a_device_is_removed_while_an_event_is_copied),
	KUNIT_CASE(an_id_is_destroyed_before_its_close_runs),
	KUNIT_CASE(a_close_is_queued_once),
	KUNIT_CASE(the_handler_wakes_no_pollers),
	KUNIT_CASE(a_close_waits_for_no_command),
	KUNIT_CASE(an_id_is_found_only_after_success),
	KUNIT_CASE(a_request_is_found_only_when_it_is_complete),
	KUNIT_CASE(unread_events_are_limited),
	KUNIT_CASE(a_user_has_a_limited_number_of_ids_of_requests),
	KUNIT_CASE(a_user_has_a_limited_number_of_ids_that_listen),
	KUNIT_CASE(a_call_waits_while_the_user_has_too_many_lookups),
	KUNIT_CASE(changes_of_the_link_address_are_one_event),
	KUNIT_CASE(the_link_address_of_many_ids_changes),
	KUNIT_CASE(older_kernels_have_no_events_of_the_library),
	KUNIT_CASE(an_event_of_the_library_is_read),
	KUNIT_CASE(unread_events_of_the_library_are_limited),
	{}
};

TEST_SUITE("t3_rdma_cm_ucm_event", ucm_event_cases, .init = open_files, .exit = close_files);
