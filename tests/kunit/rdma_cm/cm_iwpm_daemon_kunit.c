// SPDX-License-Identifier: GPL-2.0
/*
 * The port mapper's daemon: its messages, which may be invalid, its start and end; and iw_cm, which
 * is the client of ib_core in our place while it is loaded. What happens while a thread waits for
 * the daemon: it answers or ends; ids, listeners and devices end; the thread is killed (C21).
 */
#include "fake_iwpmd.h"

/* --- the daemon ----------------------------------------------------------------- */

/* A daemon that does not answer REG_PID is not asked until it sends a message. */
static void a_daemon_without_a_reply_is_waited_for_once(struct kunit *test)
{
	nl.answers_register = false;
	run(test, &ready);
	connect_is(test, 7000, 7000);
	KUNIT_EXPECT_EQ(test, nl.waits, 1u);
	KUNIT_EXPECT_FALSE(test, cm_iwpm_is_there(to_cm_id(id)));
	hello(4, DAEMON);
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_there(to_cm_id(id)));
	/* The same by its late answer. */
	spin_lock_irq(&cm_iwpm_lock);
	cm_iwpm.no_reply = true;
	spin_unlock_irq(&cm_iwpm_lock);
	answer_register(1);
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_there(to_cm_id(id)));
	KUNIT_EXPECT_FALSE(test, cm_iwpm_is_registered());
}

static void listener_leaves(void)
{
	nl.listens = false;
	cm_iwpm_lose(OTHER_PROCESS);
}

/* Any process can join the group: it delays one connect, not each. A daemon announces itself. */
static void a_process_that_joins_the_group_and_leaves(struct kunit *test)
{
	nl.answers_register = false;
	nl.while_waiting = listener_leaves;
	run(test, &ready);
	connect_is(test, 7000, 7000);
	KUNIT_EXPECT_EQ(test, nl.waits, 1u);
	KUNIT_EXPECT_EQ(test, nl.timeouts, 0u);
	fake_report(FAKE_REPLY, -ECONNREFUSED);
	flush_events();
	destroy(&id);
	id = make_id();
	KUNIT_ASSERT_NOT_NULL(test, id);
	got.read = got.written;
	nl.listens = true;
	run(test, &ready);
	connect_is(test, 7000, 7000);
	KUNIT_EXPECT_EQ(test, nl.waits, 1u);
	want_mapinfo(CM_IWPM_LIBRARY, 4, DAEMON);
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_there(to_cm_id(id)));
	flush_mapper();
}

/* It has joined the group, too, and the daemon has the message. */
static void a_process_that_does_not_read_the_group(struct kunit *test)
{
	nl.group_is_full = true;
	run(test, &ready);
	connect_is(test, MAPPED_LOCAL, MAPPED_REMOTE);
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_registered());
}

static void iw_cm_comes(void)
{
	cm_iwpm_set_own(false);
}

/* The daemon is still there when iw_cm is unloaded. */
static void iw_cm_ends_a_registration(struct kunit *test)
{
	nl.answers_register = false;
	nl.while_waiting = iw_cm_comes;
	run(test, &ready);
	connect_is(test, 7000, 7000);
	cm_iwpm_set_own(true);
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_there(to_cm_id(id)));
}

static void a_daemon_that_names_another_device(struct kunit *test)
{
	nl.device = "fake1";
	run(test, &ready);
	connect_is(test, 7000, 7000);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_QUERY_MAPPING], 0u);
}

/* A new daemon gets all mappings, and those that end meanwhile are not left with it. */
static void a_daemon_that_is_started_again(struct kunit *test)
{
	unsigned int removes;

	listen_mapped(test);
	cm_iwpm_lose(DAEMON);
	KUNIT_EXPECT_EQ(test, hello(4, DAEMON), 0);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_HELLO], 1u);
	KUNIT_EXPECT_EQ(test, want_mapinfo(CM_IWPM_LIBRARY, 4, DAEMON), 0);
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.mapinfos, 1u);
	KUNIT_EXPECT_EQ(test, port_of(&nl.info), 7000);
	KUNIT_EXPECT_EQ(test, port_of(&nl.info_mapped), MAPPED_LOCAL);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_MAPINFO_NUM], 1u);
	KUNIT_EXPECT_NOT_NULL(test, fake.mapped_listener);

	removes = nl.got[RDMA_NL_IWPM_REMOVE_MAPPING];
	destroy(&listener);
	id = NULL;
	KUNIT_EXPECT_EQ(test, want_mapinfo(CM_IWPM_LIBRARY, 4, DAEMON), 0);
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.mapinfos, 1u);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], removes + 1);
}

/* More mappings than fit into one message. */
static void many_mappings_are_sent(struct kunit *test)
{
	struct cm_mapping *mappings[40];
	struct cm_iwpm_addrs addrs = {};
	unsigned int i;

	hello(4, DAEMON);
	addrs.mapped_local.sin.sin_port = htons(1);
	for (i = 0; i < ARRAY_SIZE(mappings); i++) {
		struct sockaddr_storage local = fake_address(FAKE_LOCAL, 1000 + i);

		mappings[i] = cm_mapping_new(to_cm_id(id), &fake.device, (struct sockaddr *)&local,
					     NULL);
		KUNIT_ASSERT_NOT_NULL(test, mappings[i]);
		spin_lock_irq(&cm_iwpm_lock);
		cm_iwpm_set_mapped(mappings[i], &addrs);
		spin_unlock_irq(&cm_iwpm_lock);
	}
	/* After a while in which the daemon does not read it gets those that it lacks. */
	nl.reads = 2;
	want_mapinfo(CM_IWPM_LIBRARY, 4, DAEMON);
	flush_mapper();
	KUNIT_EXPECT_GT(test, nl.mapinfos, 0u);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_MAPINFO_NUM], 0u);
	nl.reads = 0;
	flush_delayed_work(&cm_iwpm_work);
	KUNIT_EXPECT_EQ(test, nl.mapinfos, (unsigned int)ARRAY_SIZE(mappings));
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_MAPINFO_NUM], 1u);
	KUNIT_EXPECT_EQ(test, nl.sends_that_wait, 0u);
	for (i = 0; i < ARRAY_SIZE(mappings); i++)
		cm_iwpm_unmap(mappings[i]);
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING],
			(unsigned int)ARRAY_SIZE(mappings));
}

static void messages_that_are_not_well_formed(struct kunit *test)
{
	struct sk_buff *skb;
	u8 op;

	KUNIT_EXPECT_EQ(test, hello(2, DAEMON), -EINVAL);
	KUNIT_EXPECT_EQ(test, want_mapinfo("another library", 4, DAEMON), -EINVAL);
	KUNIT_EXPECT_EQ(test, want_mapinfo(CM_IWPM_LIBRARY, 2, DAEMON), -EINVAL);
	KUNIT_EXPECT_EQ(test, cm_iwpm.to.portid, 0u);
	/* No daemon yet: nothing else is taken. */
	KUNIT_EXPECT_EQ(test, send_error(1, 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, announce(FAKE_REMOTE, 4000, 30003, MAPPED_LOCAL), -EINVAL);
	KUNIT_EXPECT_EQ(test, hello(9, DAEMON), 0);
	KUNIT_EXPECT_EQ(test, cm_iwpm.to.version, 4);
	for (op = 0; op < RDMA_NL_IWPM_NUM_OPS; op++) {
		if (op == RDMA_NL_IWPM_REMOVE_MAPPING || op == RDMA_NL_IWPM_MAPINFO_NUM)
			continue;
		/* No attributes; attributes that are too short; of another family. */
		KUNIT_EXPECT_EQ(test, deliver(message(op)), -EINVAL);
		skb = message(op);
		nla_put_u8(skb, 1, 1);
		nla_put_u8(skb, 2, 1);
		nla_put_u8(skb, 3, 1);
		nla_put_u8(skb, 4, 1);
		nla_put_u8(skb, 5, 1);
		nla_put_u8(skb, 6, 1);
		KUNIT_EXPECT_EQ(test, deliver(skb), -EINVAL);
	}
	skb = message(RDMA_NL_IWPM_ADD_MAPPING);
	nla_put_u32(skb, IWPM_NLA_RMANAGE_MAPPING_SEQ, 1);
	put_addr(skb, IWPM_NLA_RMANAGE_ADDR, (struct sockaddr_storage) {}, 0);
	put_addr(skb, IWPM_NLA_RMANAGE_MAPPED_LOC_ADDR, (struct sockaddr_storage) {}, 0);
	nla_put_u16(skb, IWPM_NLA_RMANAGE_MAPPING_ERR, 0);
	KUNIT_EXPECT_EQ(test, deliver(skb), -EINVAL);
}

/* Any process may send, if it is privileged. */
static void messages_need_a_privilege(struct kunit *test)
{
	u8 op;

	for (op = 0; op < RDMA_NL_IWPM_NUM_OPS; op++)
		KUNIT_EXPECT_EQ(test, !!cm_iwpm_callbacks[op].dump,
				!!(cm_iwpm_callbacks[op].flags & RDMA_NL_ADMIN_PERM));
}

/* iw_cm is loaded: ib_core can have one client only. */
static void iw_cm_takes_over(struct kunit *test)
{
	struct module *iw_cm = kunit_kzalloc(test, sizeof(*iw_cm), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, iw_cm);
	strscpy(iw_cm->name, "iw_cm", sizeof(iw_cm->name));
	listen_mapped(test);
	cm_iwpm_module_event(NULL, MODULE_STATE_COMING, iw_cm);
	KUNIT_EXPECT_EQ(test, nl.registered, -1);
	KUNIT_EXPECT_FALSE(test, cm_iwpm_is_there(to_cm_id(id)));
	/* The mapping is still removed. */
	destroy(&listener);
	id = make_id();
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], 1u);
	cm_iwpm_module_event(NULL, MODULE_STATE_GOING, iw_cm);
	KUNIT_EXPECT_EQ(test, nl.registered, 0);
	listen_mapped(test);
	KUNIT_EXPECT_NOT_NULL(test, fake.mapped_listener);
}

static void look_at_the_client_mutex(void)
{
	nl.client_locked = mutex_is_locked(&cm_iwpm_client_mutex);
}

/* Loads and unloads of iw_cm and this module may coincide: one exchanges the client at a time. */
static void the_client_is_exchanged_under_its_mutex(struct kunit *test)
{
	fake.point = "cm_iwpm_own_changed";
	fake.at_point = look_at_the_client_mutex;
	cm_iwpm_set_own(false);
	KUNIT_EXPECT_TRUE(test, nl.client_locked);
	KUNIT_EXPECT_FALSE(test, mutex_is_locked(&cm_iwpm_client_mutex));
}

static void iw_cm_released(struct kobject *kobj)
{
}

static const struct kobj_type iw_cm_type = { .release = iw_cm_released };

/* It can be unloaded afterwards. */
static void a_search_for_iw_cm_keeps_no_reference(struct kunit *test)
{
	struct kobject *iw_cm = kunit_kzalloc(test, sizeof(*iw_cm), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, iw_cm);
	KUNIT_EXPECT_FALSE(test, cm_iwpm_iw_cm_is_loaded());
	kobject_init(iw_cm, (struct kobj_type *)&iw_cm_type);
	nl.iw_cm = iw_cm;
	KUNIT_EXPECT_TRUE(test, cm_iwpm_iw_cm_is_loaded());
	KUNIT_EXPECT_EQ(test, kref_read(&iw_cm->kref), 1u);
	nl.iw_cm = NULL;
	kobject_put(iw_cm);
}

/* --- while a thread waits --------------------------------------------------------- */

static void answer_late(void)
{
	nl.answer = ANSWERS;
	answer_request(RDMA_NL_IWPM_QUERY_MAPPING, nl.request_seq);
	/* Again, and for the other kind: without effect. */
	answer_request(RDMA_NL_IWPM_QUERY_MAPPING, nl.request_seq);
	send_error(nl.request_seq, 1);
}

static void daemon_ends(void)
{
	struct netlink_notify closed = {
		.net = &init_net, .portid = DAEMON, .protocol = NETLINK_RDMA,
	};

	nl.listens = false;
	cm_iwpm_netlink_event(NULL, NETLINK_URELEASE, &closed);
}

static void other_daemon_comes(void)
{
	hello(4, OTHER_PROCESS);
}

static void device_goes(void)
{
	/* As the beginning of cm_remove_one(), whose end waits for the connect. */
	cm_iwpm_cancel_dev(fake.cm_dev);
}

static void thread_is_killed(void)
{
	nl.killed = true;
}

struct wait {
	const char *name;
	void (*function)(void);
	u16 local, remote;		/* ports of the connection */
	unsigned int removes;
};

static const struct wait waits[] = {
	{ "the answer comes", answer_late, MAPPED_LOCAL, MAPPED_REMOTE, 0 },
	{ "the daemon ends", daemon_ends, 7000, 7000, 0 },
	{ "another daemon comes", other_daemon_comes, 7000, 7000, 0 },
	{ "iw_cm is loaded", iw_cm_comes, 7000, 7000, 0 },
	{ "the device is removed", device_goes, 7000, 7000, 1 },
	{ "the thread is killed", thread_is_killed, 7000, 7000, 1 },
};

NAMED_PARAM(wait, waits);

static void while_a_connect_waits(struct kunit *test)
{
	const struct wait *wait = test->param_value;

	nl.answer = NO_REPLY;
	nl.while_waiting = wait->function;
	run(test, &ready);
	connect_is(test, wait->local, wait->remote);
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], wait->removes);
	nl.listens = true;
}

static void device_is_removed(void)
{
	removing = true;
	queue_work(system_long_wq, &removal);
	while (!READ_ONCE(fake.removal_waits))
		schedule_timeout_uninterruptible(1);
}

/* The removal waits for the id, so the id's thread must not wait for the daemon. */
static void a_removal_ends_the_wait_of_a_connect(struct kunit *test)
{
	nl.answer = NO_REPLY;
	nl.while_waiting = device_is_removed;
	run(test, &ready);
	call(CONNECT);
	KUNIT_EXPECT_EQ(test, nl.timeouts, 0u);
	if (fake.conn)
		fake_report(FAKE_REPLY, -ECONNREFUSED);
	flush_events();
}

static void listener_is_destroyed(void)
{
	destroy(&listener);
	id = NULL;
}

static const struct wait listener_waits[] = {
	{ "the listener is destroyed", listener_is_destroyed },
	{ "the device is removed", device_is_removed },
	{ "the daemon ends", daemon_ends },
	{ "iw_cm is loaded", iw_cm_comes },
};

NAMED_PARAM(listener_wait, listener_waits);

static void while_a_listener_waits(struct kunit *test)
{
	const struct wait *wait = test->param_value;

	nl.answer = NO_REPLY;
	nl.while_waiting = wait->function;
	listen_mapped(test);
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
}

/* Windows of the work item: the listener ends between the answer and the listen. */
static void a_listener_ends_when_it_was_mapped(struct kunit *test)
{
	fake.point = "cm_iwpm_listener_mapped";
	fake.at_point = listener_is_destroyed;
	listen_mapped(test);
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], 1u);
}

static void a_listener_ends_before_it_asks(struct kunit *test)
{
	nl.answers_register = true;
	fake.point = "cm_iwpm_answered";	/* of REG_PID */
	fake.at_point = listener_is_destroyed;
	listen_mapped(test);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_ADD_MAPPING], 0u);
}

static void the_daemon_ends_before_it_is_asked(struct kunit *test)
{
	fake.point = "cm_iwpm_begun";
	fake.at_point = daemon_ends;
	run(test, &ready);
	connect_is(test, 7000, 7000);
}

/* --- the daemon does not read ---------------------------------------------------------- */

/* It is stopped, and its receive buffer is full. */
static void stop_daemon(void)
{
	hello(4, DAEMON);
	spin_lock_irq(&cm_iwpm_lock);
	cm_iwpm.registered = true;
	spin_unlock_irq(&cm_iwpm_lock);
	nl.answer = DOES_NOT_READ;
}

/* That is as if it did not reply: only the first connect waits. */
static void a_daemon_that_does_not_read_is_waited_for_once(struct kunit *test)
{
	stop_daemon();
	run(test, &ready);
	connect_is(test, 7000, 7000);
	KUNIT_EXPECT_EQ(test, nl.waits, CM_IWPM_TIMEOUT * HZ / CM_IWPM_RETRY + 0u);
	KUNIT_EXPECT_FALSE(test, cm_iwpm_is_there(to_cm_id(id)));
	hello(4, DAEMON);
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_there(to_cm_id(id)));
}

static void a_removal_ends_the_wait_for_a_daemon_that_does_not_read(struct kunit *test)
{
	stop_daemon();
	nl.while_waiting = device_goes;
	run(test, &ready);
	connect_is(test, 7000, 7000);
	KUNIT_EXPECT_EQ(test, nl.waits, 1u);
	KUNIT_EXPECT_EQ(test, nl.sends_that_wait, 0u);
}

/* It is notified when it reads again. The unload of the module does not wait for that. */
static void the_end_of_a_mapping_waits_for_the_daemon(struct kunit *test)
{
	int i;

	for (i = 0; i < 2; i++) {
		nl.answer = ANSWERS;
		listen_mapped(test);
		nl.answer = DOES_NOT_READ;
		destroy(&listener);
		id = make_id();
		flush_mapper();
		KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], i + 0u);
		KUNIT_EXPECT_FALSE(test, list_empty(&cm_unmapped));
		KUNIT_EXPECT_EQ(test, nl.sends_that_wait, 0u);
		if (i)
			break;
		nl.answer = ANSWERS;
		flush_delayed_work(&cm_iwpm_work);
		KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], 1u);
	}
	cm_iwpm_exit();
	KUNIT_EXPECT_TRUE(test, list_empty(&cm_unmapped));
	KUNIT_ASSERT_EQ(test, cm_iwpm_init(), 0);
}

/* --- many requests ---------------------------------------------------------------------- */

/* A user has as many as may be; those of another user are still sent. */
static void requests_of_a_user_are_bounded(struct kunit *test)
{
	struct cm_iwpm_request *reqs;
	bool others;
	int i;

	reqs = kunit_kcalloc(test, CM_IWPM_MAX_PENDING, sizeof(*reqs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, reqs);
	for (others = false;; others = true) {
		hello(4, DAEMON);
		spin_lock_irq(&cm_iwpm_lock);
		for (i = 0; i < CM_IWPM_MAX_PENDING; i++) {
			reqs[i].finished = true;
			reqs[i].user = others ? 1000 : cm_user_number(current_cred(), &init_net);
			list_add(&reqs[i].item, &cm_requests);
		}
		spin_unlock_irq(&cm_iwpm_lock);
		run(test, &ready);
		if (others)
			connect_is(test, MAPPED_LOCAL, MAPPED_REMOTE);
		else
			connect_is(test, 7000, 7000);
		spin_lock_irq(&cm_iwpm_lock);
		for (i = 0; i < CM_IWPM_MAX_PENDING; i++)
			list_del(&reqs[i].item);
		spin_unlock_irq(&cm_iwpm_lock);
		if (others)
			break;
		start_again(test);
	}
}

static struct kunit_case iwpm_daemon_cases[] = {
	KUNIT_CASE(a_daemon_without_a_reply_is_waited_for_once),
	KUNIT_CASE(a_process_that_joins_the_group_and_leaves),
	KUNIT_CASE(a_process_that_does_not_read_the_group),
	KUNIT_CASE(iw_cm_ends_a_registration),
	KUNIT_CASE(a_daemon_that_names_another_device),
	KUNIT_CASE(a_daemon_that_is_started_again),
	KUNIT_CASE(many_mappings_are_sent),
	KUNIT_CASE(messages_that_are_not_well_formed),
	KUNIT_CASE(messages_need_a_privilege),
	KUNIT_CASE(iw_cm_takes_over),
	KUNIT_CASE_PARAM(while_a_connect_waits, wait_gen_params),
	KUNIT_CASE(the_client_is_exchanged_under_its_mutex),
	KUNIT_CASE(a_search_for_iw_cm_keeps_no_reference),
	KUNIT_CASE(a_removal_ends_the_wait_of_a_connect),
	KUNIT_CASE_PARAM(while_a_listener_waits, listener_wait_gen_params),
	KUNIT_CASE(a_listener_ends_when_it_was_mapped),
	KUNIT_CASE(a_listener_ends_before_it_asks),
	KUNIT_CASE(the_daemon_ends_before_it_is_asked),
	KUNIT_CASE(a_daemon_that_does_not_read_is_waited_for_once),
	KUNIT_CASE(a_removal_ends_the_wait_for_a_daemon_that_does_not_read),
	KUNIT_CASE(the_end_of_a_mapping_waits_for_the_daemon),
	KUNIT_CASE(requests_of_a_user_are_bounded),
	{}
};

TEST_SUITE("t3_rdma_cm_iwpm_daemon", iwpm_daemon_cases, .init = mapper_init,
	   .exit = mapper_exit);
