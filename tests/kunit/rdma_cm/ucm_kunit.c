// SPDX-License-Identifier: GPL-2.0
/*
 * The user device over a fake provider: commands as a process writes them, user memory that is slow
 * or unmapped, with other operations during the copy; and failing allocations in commands, upcalls
 * and events.
 */
#include "../failing_alloc.h"

static bool has_write_event;

#define UCM_HAS_WRITE_EVENT	has_write_event
#define FAKE_WITH_UCM
#include "fake_provider.h"

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/uaccess.h>

/* A function that runs during each copy, or only during copies to slow_memory; unmapped memory. */
static void (*during_copy)(void);
static const void *slow_memory, *unmapped_memory;

static unsigned long user_copy(void *to, const void *from, unsigned long len)
{
	if (during_copy && (!slow_memory || to == slow_memory))
		during_copy();
	if (to == unmapped_memory)
		return len;
	memcpy(to, from, len);
	return 0;
}

#undef copy_to_user
#undef copy_from_user
#define copy_to_user(to, from, len)	user_copy((void __force *)(to), from, len)
#define copy_from_user(to, from, len)	user_copy(to, (const void __force *)(from), len)

/* Instead of t3_copy.h. */
#define T3_COPY_H
#define t3_copy_in(to, size, from, len) \
	(WARN_ON_ONCE((len) > (size)) || copy_from_user(to, from, len) ? -EFAULT : 0)
#define t3_copy_out(to, from, size, len) \
	(WARN_ON_ONCE((len) > (size)) || copy_to_user(to, from, len) ? -EFAULT : 0)

/* The two files, by descriptor. */
static struct file *file_of(unsigned int fd);

#define fget(fd)	file_of(fd)
#define fput(file)	((void)(file))

/* Where ids are closed after the removal of their device, if a test has such a workqueue. */
static struct workqueue_struct *wq_of_closes;

static struct workqueue_struct *wq_for_closes(void)
{
	return wq_of_closes ? wq_of_closes : t3_unbound_wq;
}

#undef t3_unbound_wq
#define t3_unbound_wq	wq_for_closes()

#include "ucm_cmd.c"
/* A join stores over an entry that is allocated, so the store does not fail. */
#pragma push_macro("xa_store")
#undef xa_store
#include "ucm_group.c"
#pragma pop_macro("xa_store")
#include "ucm_query.c"
#include "ucm_event.c"
#include "ucm.c"

/* --- a process -------------------------------------------------------------- */

static struct file filp, other_filp;
static struct rdma_ucm_event_resp event;
static struct work_struct removal;
static bool device_removed;

static struct ucm_file *ucm_of(struct file *of)
{
	return of->private_data;
}

static struct file *file_of(unsigned int fd)
{
	return fd ? &other_filp : &filp;
}

static int command_to(struct file *to, u32 number, const void *cmd, u16 len, u16 out)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		u8 cmd[320];
	} words = { .hdr = { .cmd = number, .in = len, .out = out } };
	ssize_t ret;

	memcpy(words.cmd, cmd, len);
	ret = ucm_write(to, (const char __user __force *)&words, sizeof(words.hdr) + len, NULL);
	return ret < 0 ? ret : 0;
}

static int command(u32 number, const void *cmd, u16 len, u16 out)
{
	return command_to(&filp, number, cmd, len, out);
}

static int get_event_of(struct file *of)
{
	struct rdma_ucm_get_event cmd = { .response = (uintptr_t)&event };

	memset(&event, 0, sizeof(event));
	return command_to(of, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), sizeof(event));
}

static int get_event(void)
{
	return get_event_of(&filp);
}

static u32 create(struct kunit *test)
{
	struct rdma_ucm_create_id_resp resp = {};
	struct rdma_ucm_create_id cmd = {
		.uid = 1, .response = (uintptr_t)&resp, .ps = RDMA_PS_TCP,
	};

	KUNIT_ASSERT_EQ(test, command(RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(resp)),
			0);
	return resp.id;
}

static int destroy_of(struct file *of, u32 id, u32 *reported)
{
	struct rdma_ucm_destroy_id_resp resp = {};
	struct rdma_ucm_destroy_id cmd = { .id = id, .response = (uintptr_t)&resp };
	int ret;

	ret = command_to(of, RDMA_USER_CM_CMD_DESTROY_ID, &cmd, sizeof(cmd), sizeof(resp));
	if (reported)
		*reported = resp.events_reported;
	return ret;
}

static int destroy(u32 id, u32 *reported)
{
	return destroy_of(&filp, id, reported);
}

/* MIGRATE_ID to the other file. */
static int migrate_reporting(u32 id, u32 *reported)
{
	struct rdma_ucm_migrate_resp resp = {};
	struct rdma_ucm_migrate_id cmd = { .id = id, .response = (uintptr_t)&resp, .fd = 0 };
	int ret;

	ret = command_to(&other_filp, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd),
			 sizeof(resp));
	*reported = resp.events_reported;
	return ret;
}

static int migrate_id(u32 id)
{
	u32 reported;

	return migrate_reporting(id, &reported);
}

static int bind(u32 id, u32 addr)
{
	struct sockaddr_storage to = fake_address(addr, 7000);
	struct rdma_ucm_bind_ip cmd = { .id = id };

	memcpy(&cmd.addr, &to, sizeof(struct sockaddr_in));
	return command(RDMA_USER_CM_CMD_BIND_IP, &cmd, sizeof(cmd), 0);
}

static int resolve_ip(u32 id)
{
	struct sockaddr_storage to = fake_address(FAKE_REMOTE, 7000);
	struct rdma_ucm_resolve_ip cmd = { .id = id, .timeout_ms = 1000 };

	memcpy(&cmd.dst_addr, &to, sizeof(struct sockaddr_in));
	return command(RDMA_USER_CM_CMD_RESOLVE_IP, &cmd, sizeof(cmd), 0);
}

static u32 listener(struct kunit *test, u32 addr)
{
	struct rdma_ucm_listen cmd = { .id = create(test), .backlog = 4 };

	KUNIT_ASSERT_EQ(test, bind(cmd.id, addr), 0);
	KUNIT_ASSERT_EQ(test, command(RDMA_USER_CM_CMD_LISTEN, &cmd, sizeof(cmd), 0), 0);
	return cmd.id;
}

static int open_files(struct kunit *test)
{
	int ret;

	INIT_WORK(&removal, fake_remove_device);
	device_removed = false;
	reserve_tcp_ports = false;	/* the host does not have the addresses of the device */
	fake_uncharged = 0;
	during_copy = NULL;
	slow_memory = NULL;
	unmapped_memory = NULL;
	memset(&filp, 0, sizeof(filp));
	filp.f_cred = current_cred();
	filp.f_flags = O_NONBLOCK;
	filp.f_op = &ucm_fops;
	memcpy(&other_filp, &filp, sizeof(filp));	/* 7.2: it has constant members */
	cm_ports_init();
	ret = cm_events_init();
	if (!ret)
		ret = ucm_open(NULL, &filp);
	if (!ret)
		ret = ucm_open(NULL, &other_filp);
	fake_add_devices(test, IN_PROCESS);
	return ret;
}

static void close_files(struct kunit *test)
{
	allocations_work();
	during_copy = NULL;
	flush_workqueue(cm_wq);
	ucm_release(NULL, &filp);
	ucm_release(NULL, &other_filp);
	if (!device_removed)
		queue_work(system_long_wq, &removal);
	flush_work(&removal);
	KUNIT_EXPECT_TRUE(test, list_empty(&cm_ids));
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_contexts));
	KUNIT_EXPECT_TRUE(test, ports_are_free());
	KUNIT_EXPECT_FALSE(test, fake.used_after_removal);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake_memcg_refs), 0);
	if (!mem_cgroup_disabled())
		KUNIT_EXPECT_EQ_MSG(test, fake_uncharged, 0u,
				    "memory of a process that its cgroup is not charged for");
	cm_events_exit();
}

/* --- tests ------------------------------------------------------------------- */

static bool locked;

static void find_locks(void)
{
	unsigned long number;
	struct ucm_context *ctx;

	locked |= mutex_is_locked(&ucm_of(&filp)->mutex) ||
		  mutex_is_locked(&ucm_of(&other_filp)->mutex);
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

static u32 victim, victim_reported;
static int victim_result;

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

/* Runs a function during the copy of the next event, and fails the copy. */
static void fail_the_copy(struct kunit *test, void (*meanwhile)(void))
{
	slow_memory = &event;
	unmapped_memory = &event;
	during_copy = meanwhile;
	KUNIT_EXPECT_EQ(test, get_event(), -EFAULT);
	KUNIT_EXPECT_EQ(test, victim_result, 0);
	unmapped_memory = NULL;
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

/* Removes the device. Returns when its last user has gone. */
static void remove_device(void)
{
	during_copy = NULL;
	device_removed = true;
	queue_work(system_long_wq, &removal);
	flush_work(&removal);
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
	wq_of_closes = alloc_ordered_workqueue("ucm_closes", 0);
	KUNIT_ASSERT_NOT_NULL(test, wq_of_closes);
	queue_work(wq_of_closes, &busy);
}

static void run_closes(void)
{
	complete(&closes_go_on);
	destroy_workqueue(wq_of_closes);
	wq_of_closes = NULL;
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

/* A removal that finds the close queued takes no second reference for it. */
static void a_close_is_queued_once(struct kunit *test)
{
	struct rdma_cm_event removed = { .event = RDMA_CM_EVENT_DEVICE_REMOVAL };
	struct ucm_context *ctx = context_of(create(test));
	unsigned int refs, unread;

	KUNIT_ASSERT_NOT_NULL(test, ctx);
	hold_closes(test);
	t3_rdma_lock_handler(ctx->cm_id);
	KUNIT_EXPECT_EQ(test, ucm_handler(ctx->cm_id, &removed), 0);
	refs = kref_read(&ctx->ref);
	unread = atomic_read(&ctx->unread);
	KUNIT_EXPECT_EQ(test, ucm_handler(ctx->cm_id, &removed), 0);
	KUNIT_EXPECT_EQ(test, kref_read(&ctx->ref) - refs, atomic_read(&ctx->unread) - unread);
	t3_rdma_unlock_handler(ctx->cm_id);
	run_closes();
}

/* --- requests that migrate with their listener -------------------------------- */

/* The number of a connect request that GET_EVENT has not returned: as a process may guess it. */
static u32 guess_request(struct kunit *test)
{
	struct ucm_context *ctx;
	unsigned long number;

	fake_assign_qp_to_process();
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
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_ESTABLISHED);
	KUNIT_EXPECT_EQ(test, event.id, request);
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_CONNECT_REQUEST);
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

/*
 * A request is held at a point in its worker until @at_point returns. It is rejected, and nothing
 * remains.
 */
static void end_listener_during_request(struct kunit *test, const char *point,
					void (*at_point)(void))
{
	victim = listener(test, FAKE_LOCAL);
	fake.context = IN_SOFTIRQ;
	fake.rejects = 0;
	ended = false;
	ended_early = false;
	has_begun = false;
	INIT_WORK(&ending, end_the_listener);
	fake.at_point = at_point;
	fake.point = point;
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	flush_work(&ending);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_TRUE(test, ended);
	KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, number_of_ids(), 0u);
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

/* In an upcall the handler of a request waits for nothing: the worker handles it then, once. */
static void an_upcall_waits_for_nothing(struct kunit *test)
{
	struct ucm_file *file = filp.private_data;
	struct rdma_cm_id *id;

	victim = listener(test, FAKE_LOCAL);
	id = ((struct ucm_context *)xa_load(&ucm_contexts, victim))->cm_id;
	t3_rdma_lock_handler(id);
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	KUNIT_EXPECT_FALSE(test, ucm_has_events(file));
	t3_rdma_unlock_handler(id);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);

	mutex_lock(&file->mutex);
	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	KUNIT_EXPECT_FALSE(test, ucm_has_events(file));
	mutex_unlock(&file->mutex);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);

	KUNIT_EXPECT_EQ(test, fake_request(), 0);
	KUNIT_EXPECT_TRUE(test, ucm_has_events(file));
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, number_of_ids(), 4u);
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

/* --- multicast groups ---------------------------------------------------------- */

/* An id for datagrams; the device has RoCE. */
static u32 id_for_datagrams(struct kunit *test)
{
	struct rdma_ucm_create_id_resp resp = {};
	struct rdma_ucm_create_id cmd = {
		.uid = 1, .response = (uintptr_t)&resp, .ps = RDMA_PS_UDP,
	};

	fake.cm_dev->transport = &cm_roce_transport;
	fake.port_data[1].immutable.core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	KUNIT_ASSERT_EQ(test, command(RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(resp)),
			0);
	KUNIT_ASSERT_EQ(test, bind(resp.id, FAKE_LOCAL), 0);
	return resp.id;
}

enum { GROUP = 0xe1010101 };	/* 225.1.1.1 */

static int join_address(u32 id, u32 addr, u32 *group)
{
	struct sockaddr_storage to = fake_address(addr, 0);
	struct rdma_ucm_create_id_resp resp = {};
	struct rdma_ucm_join_mcast cmd = {
		.response = (uintptr_t)&resp, .uid = 77, .id = id,
		.addr_size = sizeof(struct sockaddr_in),
	};

	int ret;

	memcpy(&cmd.addr, &to, sizeof(struct sockaddr_in));
	ret = command(RDMA_USER_CM_CMD_JOIN_MCAST, &cmd, sizeof(cmd), sizeof(resp));
	flush_workqueue(cm_wq);
	*group = resp.id;
	return ret;
}

static u32 join(struct kunit *test, u32 id)
{
	u32 group;

	KUNIT_ASSERT_EQ(test, join_address(id, GROUP, &group), 0);
	return group;
}

static int leave_of(struct file *of, u32 group, u32 *reported)
{
	struct rdma_ucm_destroy_id_resp resp = { .events_reported = 99 };
	struct rdma_ucm_destroy_id cmd = { .id = group, .response = (uintptr_t)&resp };
	int ret;

	ret = command_to(of, RDMA_USER_CM_CMD_LEAVE_MCAST, &cmd, sizeof(cmd), sizeof(resp));
	*reported = resp.events_reported;
	return ret;
}

static void a_group_is_joined_and_left(struct kunit *test)
{
	u32 id = id_for_datagrams(test), group = join(test, id), reported;

	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_MULTICAST_JOIN);
	KUNIT_EXPECT_EQ(test, event.uid, 77ull);
	KUNIT_EXPECT_EQ(test, event.id, group);
	KUNIT_EXPECT_EQ(test, event.param.ud.qp_num, (u32)IB_MULTICAST_QPN);
	KUNIT_EXPECT_EQ(test, event.param.ud.qkey, (u32)RDMA_UDP_QKEY);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 1);
	KUNIT_EXPECT_EQ(test, leave_of(&other_filp, group, &reported), -EINVAL);
	KUNIT_EXPECT_EQ(test, leave_of(&filp, group, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1u);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	KUNIT_EXPECT_EQ(test, leave_of(&filp, group, &reported), -ENOENT);
	KUNIT_EXPECT_EQ(test, destroy(id, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1u);
}

static void a_group_is_left_with_an_unread_event(struct kunit *test)
{
	u32 id = id_for_datagrams(test), group = join(test, id), other = join(test, id), reported;

	KUNIT_EXPECT_EQ(test, leave_of(&filp, group, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 0u);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, event.id, other);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, destroy(id, NULL), 0);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_group_table));
}

static void leave_victim(void)
{
	during_copy = NULL;
	victim_result = leave_of(&filp, victim, &victim_reported);
}

static void a_group_is_left_while_its_event_is_copied(struct kunit *test)
{
	u32 id = id_for_datagrams(test), reported;

	victim = join(test, id);
	fail_the_copy(test, leave_victim);
	KUNIT_EXPECT_EQ(test, victim_reported, 1u);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, destroy(id, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 0u);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_group_table));
}

static void an_id_ends_with_its_groups(struct kunit *test)
{
	u32 id = id_for_datagrams(test), reported;

	join(test, id);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	join(test, id);
	KUNIT_EXPECT_EQ(test, destroy(id, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1u);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.ah_refs, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.gid_refs, 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_group_table));
}

/* --- one allocation fails ---------------------------------------------------- */

enum { SMALL_BACKLOG = 4 };

static unsigned int number_of_contexts(void)
{
	unsigned long number;
	struct ucm_context *ctx;
	unsigned int n = 0;

	xa_for_each(&ucm_contexts, number, ctx)
		n++;
	return n;
}

/* No request of a listener is left, and its backlog is free. */
static void expect_free_backlog(struct kunit *test, u32 number)
{
	struct ucm_context *ctx = xa_load(&ucm_contexts, number);
	const char *what = alloc_that_failed();

	KUNIT_ASSERT_NOT_NULL(test, ctx);
	KUNIT_EXPECT_EQ_MSG(test, atomic_read(&to_cm_id(ctx->cm_id)->backlog_left),
			    SMALL_BACKLOG, "id, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, atomic_read(&ctx->backlog_left), SMALL_BACKLOG, "context, %s",
			    what);
	KUNIT_EXPECT_EQ_MSG(test, atomic_read(&ctx->unread), 0, "events, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, number_of_contexts(), 1u, "contexts, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, number_of_ids(), 1u, "ids, %s", what);
}

/*
 * If its event is lost, the peer is rejected: by the provider itself, or by our reject. What fails
 * in an upcall and is repeated by the worker is not lost.
 */
static void take_a_request(struct kunit *test)
{
	int upcall, read;

	fake.rejects = 0;
	allocations_fail();
	upcall = fake_request();
	flush_workqueue(cm_wq);
	read = get_event();
	allocations_work();
	if (fake.context == IN_PROCESS)
		KUNIT_EXPECT_EQ_MSG(test, read, upcall ? -EAGAIN : 0, "%s", alloc_that_failed());
	else
		KUNIT_EXPECT_EQ_MSG(test, read, failing.where ? -EAGAIN : 0, "%s",
				    alloc_that_failed());
	KUNIT_EXPECT_TRUE(test, !upcall || upcall == -ENOMEM);
	KUNIT_EXPECT_TRUE(test, !upcall || failing.where);
	KUNIT_EXPECT_EQ_MSG(test, fake.rejects, read && !upcall, "%s", alloc_that_failed());
	if (!read)
		KUNIT_EXPECT_EQ(test, destroy(event.id, NULL), 0);
	expect_free_backlog(test, victim);
}

static const enum fake_context upcall_contexts[] = {
	IN_PROCESS, UNDER_LOCK, IN_SOFTIRQ, IN_HARDIRQ,
};

static void a_request_without_memory(struct kunit *test)
{
	unsigned int i;

	victim = listener(test, FAKE_LOCAL);
	for (i = 0; i < ARRAY_SIZE(upcall_contexts); i++) {
		fake.context = upcall_contexts[i];
		KUNIT_EXPECT_GE(test, fail_each_allocation(test, take_a_request), 5u);
	}
	/* Requests still arrive. */
	for (i = 0; i < SMALL_BACKLOG; i++)
		KUNIT_EXPECT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	for (i = 0; i < SMALL_BACKLOG; i++)
		KUNIT_EXPECT_EQ(test, get_event(), 0);
}

/* Expects these events, in this order, each once, and no others. */
static void expect_events(struct kunit *test, const u32 *events, unsigned int number)
{
	unsigned int i;

	flush_workqueue(cm_wq);
	for (i = 0; i < number; i++) {
		KUNIT_EXPECT_EQ_MSG(test, get_event(), 0, "event %u, %s", i, alloc_that_failed());
		KUNIT_EXPECT_EQ_MSG(test, event.event, events[i], "%s", alloc_that_failed());
	}
	KUNIT_EXPECT_EQ_MSG(test, get_event(), -EAGAIN, "%s", alloc_that_failed());
}

static int on_id(u32 number, u32 id)
{
	u8 resp[512];
	struct rdma_ucm_connect connect = {
		.id = id, .conn_param = { .qp_num = FAKE_QPN, .valid = 1 },
	};
	struct rdma_ucm_accept accept = {
		.id = id, .uid = 1, .conn_param = { .qp_num = FAKE_QPN, .valid = 1 },
	};
	struct rdma_ucm_init_qp_attr attr = {
		.response = (uintptr_t)resp, .id = id, .qp_state = IB_QPS_INIT,
	};
	struct rdma_ucm_resolve_route route = { .id = id, .timeout_ms = 1000 };
	struct rdma_ucm_disconnect disconnect = { .id = id };
	struct rdma_ucm_reject reject = { .id = id };

	switch (number) {
	case RDMA_USER_CM_CMD_CONNECT:
		return command(number, &connect, sizeof(connect), 0);
	case RDMA_USER_CM_CMD_ACCEPT:
		return command(number, &accept, sizeof(accept), 0);
	case RDMA_USER_CM_CMD_REJECT:
		return command(number, &reject, sizeof(reject), 0);
	case RDMA_USER_CM_CMD_DISCONNECT:
		return command(number, &disconnect, sizeof(disconnect), 0);
	case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		return command(number, &route, sizeof(route), 0);
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
		return command(number, &attr, sizeof(attr), sizeof(struct ib_uverbs_qp_attr));
	default:
		return -EOPNOTSUPP;
	}
}

/* A device belongs to no process; events of a connection are allocated over the limit, too. */
static void uncharged_by_design(struct kunit *test)
{
	KUNIT_EXPECT_GT(test, fake_uncharged, 0u);
	fake_uncharged = 0;
}

/*
 * A connect without memory can be repeated; the other commands allocate nothing. No event is lost:
 * the worker, which may sleep, tries again.
 */
static void connect_and_close(struct kunit *test)
{
	static const u32 events[] = {
		RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED,
		RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED,
	};
	u32 id = create(test), reported;
	int ret;

	allocations_fail();
	KUNIT_EXPECT_EQ(test, resolve_ip(id), 0);
	fake_lookup_done(0);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, on_id(RDMA_USER_CM_CMD_RESOLVE_ROUTE, id), 0);
	KUNIT_EXPECT_EQ(test, on_id(RDMA_USER_CM_CMD_INIT_QP_ATTR, id), 0);
	flush_workqueue(cm_wq);
	ret = on_id(RDMA_USER_CM_CMD_CONNECT, id);
	if (ret) {
		KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
		KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 0);
		ret = on_id(RDMA_USER_CM_CMD_CONNECT, id);
	}
	KUNIT_ASSERT_EQ(test, ret, 0);
	fake_report(FAKE_REPLY, 0);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, on_id(RDMA_USER_CM_CMD_DISCONNECT, id), 0);
	fake_report(FAKE_CLOSE, 0);
	expect_events(test, events, ARRAY_SIZE(events));
	allocations_work();
	KUNIT_EXPECT_EQ(test, destroy(id, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, (u32)ARRAY_SIZE(events));
	KUNIT_EXPECT_EQ(test, number_of_ids(), 0u);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 0);
}

static void a_connect_without_memory(struct kunit *test)
{
	unsigned int i;

	fake_assign_qp_to_process();
	for (i = 0; i < ARRAY_SIZE(upcall_contexts); i++) {
		fake.context = upcall_contexts[i];
		KUNIT_EXPECT_GE(test, fail_each_allocation(test, connect_and_close), 5u);
	}
	uncharged_by_design(test);
}

static void accept_and_close(struct kunit *test)
{
	static const u32 events[] = {
		RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED,
	};
	u32 id;

	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	KUNIT_ASSERT_EQ(test, get_event(), 0);
	id = event.id;
	allocations_fail();
	KUNIT_EXPECT_EQ(test, on_id(RDMA_USER_CM_CMD_ACCEPT, id), 0);
	fake_report(FAKE_ESTABLISHED, 0);
	fake_report(FAKE_PEER_CLOSE, 0);
	flush_workqueue(cm_wq);
	fake_report(FAKE_CLOSE, 0);
	expect_events(test, events, ARRAY_SIZE(events));
	allocations_work();
	KUNIT_EXPECT_EQ(test, destroy(id, NULL), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 0);
	expect_free_backlog(test, victim);
}

static void an_accept_without_memory(struct kunit *test)
{
	unsigned int i;

	fake_assign_qp_to_process();
	victim = listener(test, FAKE_LOCAL);
	for (i = 0; i < ARRAY_SIZE(upcall_contexts); i++) {
		fake.context = upcall_contexts[i];
		KUNIT_EXPECT_GE(test, fail_each_allocation(test, accept_and_close), 2u);
	}
	uncharged_by_design(test);
}

/* A reject, a migration with queued events and GET_EVENT allocate nothing. */
static void reject_and_migrate(struct kunit *test)
{
	struct rdma_ucm_join_mcast join = {};
	struct rdma_ucm_destroy_id leave = {};
	u32 id;

	victim = listener(test, FAKE_LOCAL);
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	KUNIT_ASSERT_EQ(test, get_event(), 0);
	id = event.id;
	join.id = id;
	leave.id = id;
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	fake.rejects = 0;
	allocations_fail();
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_JOIN_MCAST, &join, sizeof(join),
				      sizeof(struct rdma_ucm_create_id_resp)), -EINVAL);
	KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_LEAVE_MCAST, &leave, sizeof(leave),
				      sizeof(struct rdma_ucm_destroy_id_resp)), -ENOENT);
	KUNIT_EXPECT_EQ(test, on_id(RDMA_USER_CM_CMD_REJECT, id), 0);
	KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
	KUNIT_EXPECT_EQ(test, destroy(id, NULL), 0);
	KUNIT_EXPECT_EQ(test, migrate_id(victim), 0);
	KUNIT_EXPECT_EQ(test, get_event_of(&other_filp), 0);
	KUNIT_EXPECT_EQ(test, destroy_of(&other_filp, event.id, NULL), 0);
	KUNIT_EXPECT_EQ(test, fake.rejects, 2u);
	expect_free_backlog(test, victim);
	KUNIT_EXPECT_EQ(test, destroy_of(&other_filp, victim, NULL), 0);
	allocations_work();
}

static void commands_that_allocate_nothing(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, fail_each_allocation(test, reject_and_migrate), 0u);
}

static void join_and_leave(struct kunit *test)
{
	u32 group, reported;
	int ret;

	allocations_fail();
	ret = join_address(victim, GROUP, &group);
	allocations_work();
	KUNIT_EXPECT_EQ(test, ret, get_event() ? -ENOMEM : 0);
	if (!ret)
		KUNIT_EXPECT_EQ(test, leave_of(&filp, group, &reported), 0);
	KUNIT_EXPECT_EQ_MSG(test, fake_ib.igmp, 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_TRUE_MSG(test, xa_empty(&ucm_group_table), "%s", alloc_that_failed());
}

static void a_join_that_fails_leaves_no_group(struct kunit *test)
{
	u32 group;

	victim = id_for_datagrams(test);
	KUNIT_EXPECT_EQ(test, join_address(victim, FAKE_REMOTE, &group), -EINVAL);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_group_table));
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, join_and_leave), 3u);
	uncharged_by_design(test);
}

static u32 address;

static void make_a_listener(struct kunit *test)
{
	struct rdma_ucm_create_id_resp resp = {};
	struct rdma_ucm_create_id made = {
		.uid = 1, .response = (uintptr_t)&resp, .ps = RDMA_PS_TCP,
	};
	struct rdma_ucm_listen cmd = { .backlog = SMALL_BACKLOG };
	bool exists;
	int ret;

	allocations_fail();
	ret = command(RDMA_USER_CM_CMD_CREATE_ID, &made, sizeof(made), sizeof(resp));
	exists = !ret;
	cmd.id = resp.id;
	if (!ret)
		ret = bind(cmd.id, address);
	if (!ret)
		ret = command(RDMA_USER_CM_CMD_LISTEN, &cmd, sizeof(cmd), 0);
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, !fake.listener, !!ret, "%s", alloc_that_failed());
	/* If only the listen has failed, a second one works. */
	if (ret && exists)
		KUNIT_EXPECT_EQ(test, command(RDMA_USER_CM_CMD_LISTEN, &cmd, sizeof(cmd), 0), 0);
	if (exists) {
		expect_free_backlog(test, cmd.id);
		KUNIT_EXPECT_EQ(test, destroy(cmd.id, NULL), 0);
	}
	KUNIT_EXPECT_NULL(test, fake.listener);
	KUNIT_EXPECT_EQ(test, number_of_contexts(), 0u);
	KUNIT_EXPECT_EQ(test, number_of_ids(), 0u);
	KUNIT_EXPECT_EQ(test, refcount_read(&fake.cm_dev->users), 1u);
}

static void a_listener_without_memory(struct kunit *test)
{
	address = FAKE_LOCAL;
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, make_a_listener), 4u);
	address = INADDR_ANY;
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, make_a_listener), 4u);
}

/* A device is added while an id listens on all devices, and is removed. */
static void add_and_remove(struct kunit *test)
{
	int ret;

	fake.other_dev = NULL;
	allocations_fail();
	ret = cm_add_one(&fake.other);
	allocations_work();
	KUNIT_EXPECT_TRUE(test, !ret || (ret == -ENOMEM && failing.where));
	KUNIT_EXPECT_EQ_MSG(test, !fake.other_dev, !!ret, "%s", alloc_that_failed());
	if (!failing.where)
		KUNIT_EXPECT_NOT_NULL(test, fake.other_listener);
	allocations_fail();
	if (!ret)
		cm_remove_one(&fake.other, fake.other_dev);
	allocations_work();
	KUNIT_EXPECT_NULL(test, fake.other_listener);
	expect_free_backlog(test, victim);
}

static void a_device_is_added_without_memory(struct kunit *test)
{
	fake.other.ops = fake.device.ops;
	fake.other.phys_port_cnt = 1;
	fake.other.port_data = fake.port_data;
	victim = listener(test, INADDR_ANY);
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, add_and_remove), 2u);
	uncharged_by_design(test);
}

/* A device is added by a kworker. Its listener is charged to the user who called listen. */
static void a_new_device_charges_the_listening_user(struct kunit *test)
{
	struct cred *user = prepare_creds();
	const struct cred *before;

	KUNIT_ASSERT_NOT_NULL(test, user);
	user->uid = KUIDT_INIT(1000);
	before = override_creds(user);
	filp.f_cred = user;
	victim = listener(test, INADDR_ANY);
	filp.f_cred = before;
	revert_creds(before);
	put_cred(user);
	fake.listen_memcg = NULL;
	fake.listen_uid = GLOBAL_ROOT_UID;
	fake_add(test, &fake.other);
	KUNIT_EXPECT_NOT_NULL(test, fake.other_listener);
	KUNIT_EXPECT_EQ(test, __kuid_val(fake.listen_uid), 1000u);
	KUNIT_EXPECT_PTR_EQ(test, fake.listen_memcg,
			    to_cm_id(((struct ucm_context *)xa_load(&ucm_contexts, victim))->cm_id)
				    ->memcg);
	cm_remove_one(&fake.other, fake.other_dev);
}

static void remove_bound_device(struct kunit *test)
{
	static const u32 events[] = { RDMA_CM_EVENT_DEVICE_REMOVAL };
	u32 id = create(test);

	KUNIT_ASSERT_EQ(test, bind(id, FAKE_LOCAL), 0);
	allocations_fail();
	remove_device();
	expect_events(test, events, ARRAY_SIZE(events));
	allocations_work();
	KUNIT_EXPECT_TRUE(test, fake.removed);
	KUNIT_EXPECT_EQ(test, destroy(id, NULL), 0);
	KUNIT_EXPECT_EQ(test, number_of_ids(), 0u);
	fake_add_devices(test, IN_PROCESS);
	device_removed = false;
}

static void a_device_is_removed_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, remove_bound_device), 1u);
	uncharged_by_design(test);
}

static struct kunit_case ucm_cases[] = {
	KUNIT_CASE(no_lock_is_held_while_user_memory_is_copied),
	KUNIT_CASE(an_event_that_cannot_be_copied_is_not_lost),
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
	KUNIT_CASE(a_request_without_an_id_migrates),
	KUNIT_CASE(a_request_migrates_with_its_events),
	KUNIT_CASE(a_request_that_was_destroyed_does_not_migrate),
	KUNIT_CASE(a_failed_listen_keeps_its_backlog),
	KUNIT_CASE(requests_are_handled_at_the_same_time),
	KUNIT_CASE(a_listener_ends_after_its_requests),
	KUNIT_CASE(a_request_outlives_its_listener),
	KUNIT_CASE(unread_events_are_limited),
	KUNIT_CASE(a_second_listen_does_not_reset_the_backlog),
	KUNIT_CASE(older_kernels_have_no_events_of_the_library),
	KUNIT_CASE(an_event_of_the_library_is_read),
	KUNIT_CASE(unread_events_of_the_library_are_limited),
	KUNIT_CASE(a_request_without_memory),
	KUNIT_CASE(an_upcall_waits_for_nothing),
	KUNIT_CASE(a_connect_without_memory),
	KUNIT_CASE(an_accept_without_memory),
	KUNIT_CASE(a_group_is_joined_and_left),
	KUNIT_CASE(a_group_is_left_with_an_unread_event),
	KUNIT_CASE(a_group_is_left_while_its_event_is_copied),
	KUNIT_CASE(an_id_ends_with_its_groups),
	KUNIT_CASE(a_join_that_fails_leaves_no_group),
	KUNIT_CASE(commands_that_allocate_nothing),
	KUNIT_CASE(a_listener_without_memory),
	KUNIT_CASE(a_device_is_added_without_memory),
	KUNIT_CASE(a_device_is_removed_without_memory),
	KUNIT_CASE(a_new_device_charges_the_listening_user),
	{}
};

static struct kunit_suite ucm_suite = {
	.name = "t3_rdma_cm_ucm",
	.init = open_files,
	.exit = close_files,
	.test_cases = ucm_cases,
};

kunit_test_suites(&ucm_suite);

MODULE_DESCRIPTION("KUnit tests of t3_rdma_cm: ucm");
MODULE_LICENSE("GPL");
