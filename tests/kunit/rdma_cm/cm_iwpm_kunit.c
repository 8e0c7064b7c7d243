// SPDX-License-Identifier: GPL-2.0
/*
 * Mapped ports of listeners and connections. Without a mapping, because the daemon refuses, does
 * not reply or answers something else, or without memory, all works as without a daemon. C21: each
 * test ends without a mapping and without a reference.
 */
#include "fake_iwpmd.h"

/* --- listeners --------------------------------------------------------------- */

static void a_listener_has_both_ports(struct kunit *test)
{
	listen_mapped(test);
	KUNIT_ASSERT_NOT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_EQ(test, port_of(&fake.mapped_listener->m_local_addr), MAPPED_LOCAL);
	KUNIT_EXPECT_EQ(test, port_of(&fake.listener->m_local_addr), 7000);
	KUNIT_EXPECT_TRUE(test, nl.has_flags);
	KUNIT_EXPECT_STREQ(test, nl.if_name, "eth7");
	KUNIT_EXPECT_STREQ(test, nl.device_name, "fake0");

	KUNIT_EXPECT_EQ(test, announce(FAKE_REMOTE, 4000, 30003, MAPPED_LOCAL), 0);
	KUNIT_EXPECT_EQ(test, request_on(fake.mapped_listener, MAPPED_LOCAL, 30003), 0);
	expect_request(test, 7000, 4000);
	/* An announcement is for one connection. */
	KUNIT_EXPECT_EQ(test, request_on(fake.mapped_listener, MAPPED_LOCAL, 30003), 0);
	expect_request(test, 7000, 30003);
	KUNIT_EXPECT_EQ(test, request_on(fake.listener, 7000, 4001), 0);
	expect_request(test, 7000, 4001);

	destroy(&listener);
	id = NULL;
	flush_mapper();
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], 1u);
	KUNIT_EXPECT_EQ(test, port_of(&nl.removed), 7000);
}

/* In a softirq and in an interrupt, too. */
static void a_request_is_translated_in_any_context(struct kunit *test)
{
	enum fake_context context;

	listen_mapped(test);
	for (context = IN_PROCESS; context <= UNDER_LOCK; context++) {
		fake.context = context;
		announce(FAKE_REMOTE, 4000, 30003, MAPPED_LOCAL);
		KUNIT_EXPECT_EQ(test, request_on(fake.mapped_listener, MAPPED_LOCAL, 30003), 0);
		expect_request(test, 7000, 4000);
	}
	fake.context = IN_PROCESS;
}

static void a_peer_cannot_claim_another_address(struct kunit *test)
{
	listen_mapped(test);
	KUNIT_EXPECT_EQ(test, announce(FAKE_REMOTE + 1, 4000, 30003, MAPPED_LOCAL), -EINVAL);
	request_on(fake.mapped_listener, MAPPED_LOCAL, 30003);
	expect_request(test, 7000, 30003);
	/* Nor is the announcement for another listener used. */
	announce(FAKE_REMOTE, 4000, 30003, MAPPED_LOCAL + 1);
	request_on(fake.mapped_listener, MAPPED_LOCAL, 30003);
	expect_request(test, 7000, 30003);
}

static void announcements_are_bounded(struct kunit *test)
{
	unsigned int i;

	listen_mapped(test);
	for (i = 0; i < CM_IWPM_MAX_REMOTES + 10; i++)
		announce(FAKE_REMOTE, 4000, 20000 + i, MAPPED_LOCAL);
	KUNIT_EXPECT_EQ(test, cm_number_of_remotes, (unsigned int)CM_IWPM_MAX_REMOTES);
	/* The oldest ones are forgotten; the same one again replaces itself. */
	request_on(fake.mapped_listener, MAPPED_LOCAL, 20000);
	expect_request(test, 7000, 20000);
	announce(FAKE_REMOTE, 4001, 20000 + CM_IWPM_MAX_REMOTES, MAPPED_LOCAL);
	KUNIT_EXPECT_EQ(test, cm_number_of_remotes, (unsigned int)CM_IWPM_MAX_REMOTES);
	request_on(fake.mapped_listener, MAPPED_LOCAL, 20000 + CM_IWPM_MAX_REMOTES);
	expect_request(test, 7000, 4001);
}

struct refusal {
	const char *name;
	enum answer answer;
	unsigned int removes;		/* the daemon has a mapping that it must forget */
};

static const struct refusal refusals[] = {
	{ "it refuses", REFUSES, 0 },
	{ "it does not reply", NO_REPLY, 1 },
	{ "it is gone", IS_GONE, 0 },
	{ "an answer to no request", ANSWERS_OTHER_SEQ, 1 },
	{ "an answer to another question", ANSWERS_OTHER_OP, 1 },
	{ "an answer for another address", ANSWERS_OTHER_LOCAL, 0 },
	{ "another address is mapped", MAPS_TO_OTHER_ADDRESS, 1 },
	{ "port 0 is mapped", MAPS_TO_PORT_0, 1 },
	{ "another process answers", OTHER_SENDER, 1 },
};

NAMED_PARAM(refusal, refusals);

/* All works as without a daemon. */
static void a_listener_without_a_mapping(struct kunit *test)
{
	const struct refusal *refusal = test->param_value;

	hello(4, DAEMON);
	spin_lock_irq(&cm_iwpm_lock);
	cm_iwpm.registered = true;
	spin_unlock_irq(&cm_iwpm_lock);
	nl.answer = refusal->answer;
	listen_mapped(test);
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], refusal->removes);
	request_on(fake.listener, 7000, 4000);
	expect_request(test, 7000, 4000);
}

static void the_device_refuses_the_mapped_port(struct kunit *test)
{
	fake.mapped_listen_error = -EADDRINUSE;
	listen_mapped(test);
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], 1u);
}

/* As siw: a mapping to another port would not be listened on. */
static void a_device_whose_ports_are_not_mapped(struct kunit *test)
{
	fake.device.iw_driver_flags = IW_F_NO_PORT_MAP;
	nl.answer = NO_PORT_IS_KEPT;
	listen_mapped(test);
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_FALSE(test, list_empty(&cm_mappings));
	/* A peer that asked is known. */
	announce(FAKE_REMOTE, 4000, 30003, 7000);
	request_on(fake.listener, 7000, 30003);
	expect_request(test, 7000, 4000);
	destroy(&listener);
	id = make_id();
	flush_mapper();

	nl.answer = ANSWERS;
	listen_mapped(test);
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_TRUE(test, list_empty(&cm_mappings));
	fake.device.iw_driver_flags = 0;
}

static void a_daemon_of_version_3(struct kunit *test)
{
	nl.version = 3;
	listen_mapped(test);
	KUNIT_ASSERT_NOT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_FALSE(test, nl.has_flags);
	destroy(&listener);
	id = make_id();
	flush_mapper();
	/* Its messages have no flag that keeps a port. */
	fake.device.iw_driver_flags = IW_F_NO_PORT_MAP;
	listen_mapped(test);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_ADD_MAPPING], 1u);
	fake.device.iw_driver_flags = 0;
}

static void other_namespaces_are_not_mapped(struct kunit *test)
{
	struct net *net = kunit_kzalloc(test, sizeof(*net), GFP_KERNEL);
	struct rdma_dev_addr *dev_addr;

	KUNIT_ASSERT_NOT_NULL(test, net);
	KUNIT_ASSERT_EQ(test, call(BIND), 0);
	dev_addr = &to_cm_id(id)->base.id.route.addr.dev_addr;
	dev_addr->net = net;
	KUNIT_EXPECT_FALSE(test, cm_iwpm_is_there(to_cm_id(id)));
	dev_addr->net = &init_net;
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_there(to_cm_id(id)));
}

/* --- connections -------------------------------------------------------------- */

static void a_connection_has_the_mapped_ports(struct kunit *test)
{
	run(test, &ready);
	connect_is(test, MAPPED_LOCAL, MAPPED_REMOTE);
	fake_report(FAKE_REPLY, 0);
	expect_event(test, "reply", 0, RDMA_CM_EVENT_ESTABLISHED, 0);
	KUNIT_EXPECT_EQ(test, cm_addr_port(cm_src(to_cm_id(id))), 7000);
	KUNIT_EXPECT_EQ(test, cm_addr_port(cm_dst(to_cm_id(id))), 7000);
	/* The mapping ends with the connection, after its CLOSE. */
	destroy(&id);
	flush_events();
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], 1u);
}

static const struct refusal connect_refusals[] = {
	{ "it refuses", REFUSES, 0 },
	{ "the peer has no mapping", REJECTS_QUERY, 1 },
	{ "it does not reply", NO_REPLY, 1 },
	{ "it is gone", IS_GONE, 0 },
	{ "an answer to no request", ANSWERS_OTHER_SEQ, 1 },
	{ "an answer to another question", ANSWERS_OTHER_OP, 1 },
	{ "an answer for another address", ANSWERS_OTHER_LOCAL, 0 },
	{ "an answer for another peer", ANSWERS_OTHER_REMOTE, 0 },
	{ "another address is mapped", MAPS_TO_OTHER_ADDRESS, 1 },
	{ "port 0 is mapped", MAPS_TO_PORT_0, 1 },
	{ "another peer is mapped", MAPS_REMOTE_TO_OTHER_ADDRESS, 1 },
	{ "another process answers", OTHER_SENDER, 1 },
};

NAMED_PARAM(connect_refusal, connect_refusals);

static void a_connection_without_a_mapping(struct kunit *test)
{
	const struct refusal *refusal = test->param_value;

	hello(4, DAEMON);
	spin_lock_irq(&cm_iwpm_lock);
	cm_iwpm.registered = true;
	spin_unlock_irq(&cm_iwpm_lock);
	nl.answer = refusal->answer;
	run(test, &ready);
	connect_is(test, 7000, 7000);
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], refusal->removes);
	KUNIT_EXPECT_NULL(test, to_cm_id(id)->mapping);
}

static void a_wildcard_of_the_peer_is_its_address(struct kunit *test)
{
	nl.answer = MAPS_REMOTE_TO_WILDCARD;
	run(test, &ready);
	connect_is(test, MAPPED_LOCAL, MAPPED_REMOTE);
	KUNIT_EXPECT_EQ(test, ((struct sockaddr_in *)&fake.conn->m_remote_addr)->sin_addr.s_addr,
			htonl(FAKE_REMOTE));
}

/* After a refused connect, the mapping ends; the next try asks again. */
static void a_connect_that_the_device_refuses(struct kunit *test)
{
	run(test, &ready);
	fake.next_error = -ENOMEM;
	KUNIT_EXPECT_EQ(test, call(CONNECT), -ENOMEM);
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], 1u);
	connect_is(test, MAPPED_LOCAL, MAPPED_REMOTE);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_QUERY_MAPPING], 2u);
}

/* A peer whose daemon does not reply is not asked again at once; others are. */
static void a_peer_without_a_daemon_is_asked_once(struct kunit *test)
{
	struct sockaddr_storage other = fake_address(FAKE_REMOTE + 1, 1);
	struct sockaddr_storage same = fake_address(FAKE_REMOTE, 1);

	nl.answer = NO_REPLY;
	run(test, &ready);
	connect_is(test, 7000, 7000);
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_paused((struct sockaddr *)&same));
	KUNIT_EXPECT_FALSE(test, cm_iwpm_is_paused((struct sockaddr *)&other));
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_there(to_cm_id(id)));
	fake_report(FAKE_REPLY, -ECONNREFUSED);
	flush_events();
	destroy(&id);
	id = make_id();
	got.read = got.written;
	nl.waits = 0;
	run(test, &ready);
	connect_is(test, 7000, 7000);
	KUNIT_EXPECT_EQ(test, nl.waits, 0u);
	/* Its daemon speaks, or ours is started. */
	KUNIT_EXPECT_EQ(test, announce(FAKE_REMOTE, 4000, 30003, MAPPED_LOCAL), 0);
	KUNIT_EXPECT_FALSE(test, cm_iwpm_is_paused((struct sockaddr *)&same));
	spin_lock_irq(&cm_iwpm_lock);
	cm_iwpm_pause_peer((union cm_inet *)&same, cm_user_number(current_cred(), &init_net));
	spin_unlock_irq(&cm_iwpm_lock);
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_paused((struct sockaddr *)&same));
	hello(4, DAEMON);
	KUNIT_EXPECT_FALSE(test, cm_iwpm_is_paused((struct sockaddr *)&same));
}

static void pause_peers(unsigned int first, unsigned int n, unsigned long user)
{
	struct sockaddr_storage peer;

	spin_lock_irq(&cm_iwpm_lock);
	for (; n; n--, first++) {
		peer = fake_address(first, 1);
		cm_iwpm_pause_peer((union cm_inet *)&peer, user);
	}
	spin_unlock_irq(&cm_iwpm_lock);
}

static unsigned int paused_peers(unsigned int first, unsigned int n)
{
	struct sockaddr_storage peer;
	unsigned int paused = 0;

	for (; n; n--, first++) {
		peer = fake_address(first, 1);
		paused += cm_iwpm_is_paused((struct sockaddr *)&peer);
	}
	return paused;
}

/* A user connects to any number of peers without a daemon: those of another one stay. */
static void the_peers_of_one_user_do_not_replace_those_of_another(struct kunit *test)
{
	pause_peers(0x0a000001, 3, 1000);
	pause_peers(0x0a000101, 3 * CM_IWPM_PEERS, 1001);
	KUNIT_EXPECT_EQ(test, paused_peers(0x0a000001, 3), 3u);
	KUNIT_EXPECT_EQ(test, paused_peers(0x0a000101, 3 * CM_IWPM_PEERS), CM_IWPM_PEERS - 3u);
	/* Of a third one, which has none yet. */
	pause_peers(0x0a000201, 2, 1002);
	KUNIT_EXPECT_EQ(test, paused_peers(0x0a000202, 1), 1u);
	hello(4, DAEMON);
	KUNIT_EXPECT_EQ(test, paused_peers(0x0a000001, 3), 0u);
}

/* --- failing allocations ------------------------------------------------------------ */

/* Without memory nothing is mapped, or the daemon is not notified; calls succeed. */
static void map_without_memory(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, call(BIND), 0);
	allocations_fail();
	if (!call(LISTEN)) {
		flush_mapper();
		KUNIT_EXPECT_TRUE(test, !failing.where || !fake.mapped_listener);
		want_mapinfo(CM_IWPM_LIBRARY, 4, DAEMON);
		flush_mapper();
		announce(FAKE_REMOTE, 4000, 30003, MAPPED_LOCAL);
		destroy(&listener);
		id = NULL;
		flush_mapper();
	}
	allocations_work();
	start_again(test);
}

static void a_listener_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, map_without_memory), 5u);
}

static void connect_without_memory(struct kunit *test)
{
	bool refused;
	int ret;

	run(test, &ready);
	allocations_fail();
	ret = call(CONNECT);
	/* Without memory for the provider's part the connect fails. It can be repeated. */
	refused = ret == -ENOMEM && failing.where;
	if (refused)
		ret = call(CONNECT);
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, 0, "%s", alloc_that_failed());
	KUNIT_ASSERT_NOT_NULL(test, fake.conn);
	KUNIT_EXPECT_EQ_MSG(test, port_of(&fake.conn->m_remote_addr),
			    failing.where && !refused ? 7000 : MAPPED_REMOTE, "%s",
			    alloc_that_failed());
	start_again(test);
}

static void a_connection_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, connect_without_memory), 3u);
}

static struct kunit_case iwpm_cases[] = {
	KUNIT_CASE(a_listener_has_both_ports),
	KUNIT_CASE(a_request_is_translated_in_any_context),
	KUNIT_CASE(a_peer_cannot_claim_another_address),
	KUNIT_CASE(announcements_are_bounded),
	KUNIT_CASE_PARAM(a_listener_without_a_mapping, refusal_gen_params),
	KUNIT_CASE(the_device_refuses_the_mapped_port),
	KUNIT_CASE(a_device_whose_ports_are_not_mapped),
	KUNIT_CASE(a_daemon_of_version_3),
	KUNIT_CASE(other_namespaces_are_not_mapped),
	KUNIT_CASE(a_connection_has_the_mapped_ports),
	KUNIT_CASE_PARAM(a_connection_without_a_mapping, connect_refusal_gen_params),
	KUNIT_CASE(a_wildcard_of_the_peer_is_its_address),
	KUNIT_CASE(a_connect_that_the_device_refuses),
	KUNIT_CASE(a_peer_without_a_daemon_is_asked_once),
	KUNIT_CASE(the_peers_of_one_user_do_not_replace_those_of_another),
	KUNIT_CASE(a_listener_without_memory),
	KUNIT_CASE(a_connection_without_memory),
	{}
};

TEST_SUITE("t3_rdma_cm_iwpm", iwpm_cases, .init = mapper_init, .exit = mapper_exit);
