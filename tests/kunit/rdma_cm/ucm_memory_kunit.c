// SPDX-License-Identifier: GPL-2.0
/*
 * Commands, upcalls and events with one failing allocation, and what they are charged to. The
 * backlog is free again, and each event comes once.
 */
#include "ucm_process.h"

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
	/* Without a preemption counter the worker handles each event: cm_dispatch(). */
	if (fake.context == IN_PROCESS && IS_ENABLED(CONFIG_PREEMPT_COUNT))
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

/*
 * A lookup and a connect without memory can be repeated; the other commands allocate nothing. No
 * event is lost: the worker, which may sleep, tries again.
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
	ret = resolve_ip(id);
	if (ret) {
		KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
		ret = resolve_ip(id);
	}
	KUNIT_ASSERT_EQ(test, ret, 0);
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

static u32 address;

static void make_a_listener(struct kunit *test)
{
	struct rdma_ucm_create_id_resp resp = {};
	struct rdma_ucm_create_id made = {
		.uid = 1, .response = (uintptr_t)&resp, .ps = RDMA_PS_TCP,
	};
	struct rdma_ucm_listen cmd = { .backlog = SMALL_BACKLOG };
	struct ucm_context *ctx;
	bool exists, listens;
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
	/* Or the list of its addresses fails, or its user. Others are allocated uncharged. */
	ctx = exists ? xa_load(&ucm_contexts, cmd.id) : NULL;
	listens = ctx && strcmp(alloc_that_failed(), "cm_listen_addrs") &&
		  to_cm_id(ctx->cm_id)->user;
	KUNIT_EXPECT_EQ_MSG(test, ret, listens ? 0 : -ENOMEM, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, !fake.listener, !!ret, "%s", alloc_that_failed());
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
	uncharged_by_design(test);
}

/* A device is added while an id listens on all devices, and is removed. */
static void add_and_remove(struct kunit *test)
{
	int ret;

	fake.other_dev = NULL;
	allocations_fail();
	ret = cm_add_one(&fake.other);
	cm_cancel_updates();
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

/* A device is added by a kworker. Its listener is in the quota of the user who called listen. */
static void a_new_device_is_in_the_quota_of_the_user(struct kunit *test)
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
	fake.listen_uid = GLOBAL_ROOT_UID;
	fake_add(test, &fake.other);
	KUNIT_EXPECT_NOT_NULL(test, fake.other_listener);
	KUNIT_EXPECT_EQ(test, __kuid_val(fake.listen_uid), 1000u);
	cm_remove_one(&fake.other, fake.other_dev);
}

/* --- charges in workers ------------------------------------------------------- */

static void (*in_worker)(void);

static void call_in_worker(struct work_struct *work)
{
	in_worker();
}

static void run_in_worker(void (*function)(void))
{
	struct work_struct work;

	in_worker = function;
	INIT_WORK_ONSTACK(&work, call_in_worker);
	queue_work(system_long_wq, &work);
	flush_work(&work);
	destroy_work_on_stack(&work);
}

static void lookup_is_done(void)
{
	fake_lookup_done(0);
}

static int worker_result;

static void other_device_is_added(void)
{
	worker_result = cm_add_one(&fake.other);
	cm_cancel_updates();
}

/* ib_core's worker of lookups, for an id over RoCE, and the id's own worker. */
static void a_lookup_does_not_sleep_for_its_cgroup(struct kunit *test)
{
	u32 id = create(test);

	fake.cm_dev->transport = &cm_roce_transport;
	fake.port_data[1].immutable.core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	KUNIT_ASSERT_EQ(test, resolve_ip(id), 0);
	run_in_worker(lookup_is_done);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_ADDR_RESOLVED);
	KUNIT_EXPECT_EQ(test, fake_sleeping_charges, 0u);
	KUNIT_EXPECT_EQ(test, destroy(id, NULL), 0);
}

/* A request that the worker handles, and a device that is added. */
static void a_listener_does_not_sleep_for_its_cgroup(struct kunit *test)
{
	victim = listener(test, INADDR_ANY);
	fake.context = UNDER_LOCK;
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, fake_sleeping_charges, 0u);
	fake.other.ops = fake.device.ops;
	fake.other.phys_port_cnt = 1;
	fake.other.port_data = fake.port_data;
	run_in_worker(other_device_is_added);
	KUNIT_ASSERT_EQ(test, worker_result, 0);
	KUNIT_EXPECT_NOT_NULL(test, fake.other_listener);
	cm_remove_one(&fake.other, fake.other_dev);
	fake_uncharged = 0;	/* the device */
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

/* An xarray ignores __GFP_ACCOUNT of its callers if memory is free: only the flag charges. */
static void nodes_of_the_tables_are_charged(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, ucm_contexts.xa_flags & XA_FLAGS_ACCOUNT);
	KUNIT_EXPECT_TRUE(test, ucm_group_table.xa_flags & XA_FLAGS_ACCOUNT);
}

static struct kunit_case ucm_memory_cases[] = {
	KUNIT_CASE(a_request_without_memory),
	KUNIT_CASE(a_connect_without_memory),
	KUNIT_CASE(an_accept_without_memory),
	KUNIT_CASE(commands_that_allocate_nothing),
	KUNIT_CASE(a_listener_without_memory),
	KUNIT_CASE(a_device_is_added_without_memory),
	KUNIT_CASE(a_device_is_removed_without_memory),
	KUNIT_CASE(a_new_device_is_in_the_quota_of_the_user),
	KUNIT_CASE(a_lookup_does_not_sleep_for_its_cgroup),
	KUNIT_CASE(a_listener_does_not_sleep_for_its_cgroup),
	KUNIT_CASE(nodes_of_the_tables_are_charged),
	{}
};

TEST_SUITE("t3_rdma_cm_ucm_memory", ucm_memory_cases, .init = open_files, .exit = close_files);
