// SPDX-License-Identifier: GPL-2.0
/*
 * The port mapper: a daemon that answers, refuses, sends invalid messages, ends, or does not reply;
 * the ends of listeners, ids and devices while a thread waits for it; each allocation failing. The
 * daemon is the test: it gets the messages, and its own go through the callbacks of ib_core.
 */
#include "../failing_alloc.h"

#include <linux/netdevice.h>
#include <net/netlink.h>
#include <net/sock.h>
#include <rdma/iw_portmap.h>
#include <rdma/rdma_netlink.h>

enum answer {
	ANSWERS, REJECTS_QUERY, REFUSES, NO_REPLY, IS_GONE, ANSWERS_OTHER_SEQ, ANSWERS_OTHER_LOCAL,
	ANSWERS_OTHER_REMOTE, ANSWERS_OTHER_OP, MAPS_TO_OTHER_ADDRESS, MAPS_TO_PORT_0,
	MAPS_REMOTE_TO_OTHER_ADDRESS, MAPS_REMOTE_TO_WILDCARD, OTHER_SENDER, NO_PORT_IS_KEPT,
};

enum { DAEMON = 77, OTHER_PROCESS = 78, MAPPED_LOCAL = 30001, MAPPED_REMOTE = 30002 };

static struct {
	bool listens;			/* to the multicast group */
	enum answer answer;
	bool answers_register;
	const char *device;		/* that it names in the answer to REG_PID */
	u16 version;
	u32 seq;			/* of its own messages */
	/* Messages that it got, by their number, and the last one. */
	unsigned int got[RDMA_NL_IWPM_NUM_OPS];
	u32 request_seq;
	struct sockaddr_storage local, remote;
	bool has_flags;
	unsigned int mapinfos;		/* mappings in MAPINFO messages */
	unsigned int malformed;		/* messages that iwpmd refuses */
	struct sockaddr_storage removed, info, info_mapped;
	char if_name[IWPM_IFNAME_SIZE], device_name[IWPM_DEVNAME_SIZE];
	/* The function that the first thread runs that waits for it. */
	void (*while_waiting)(void);
	bool killed;			/* the thread that waits */
	unsigned int waits, timeouts;
	int registered;			/* as the client of ib_core */
	bool client_locked;		/* while the client is exchanged */
	struct kobject *iw_cm;		/* of the module, if it is loaded */
} nl;

static int nl_send(struct sk_buff *skb, u32 portid);
static long nl_wait(struct completion *done);

#define FAKE_WITH_IWPM
#define rdma_nl_chk_listeners(group)		(nl.listens)
#define rdma_nl_register(index, callbacks)	((void)(callbacks), nl.registered++)
#define rdma_nl_unregister(index)		((void)nl.registered--)
#define rdma_nl_multicast(net, skb, group, gfp)	nl_send(skb, 0)
#define rdma_nl_unicast(net, skb, portid)	nl_send(skb, portid)
#define rdma_nl_unicast_wait(net, skb, portid)	nl_send(skb, portid)
#define wait_for_completion_killable_timeout(done, timeout)	nl_wait(done)
/* As kset_find_obj(), with a reference. Suites run before the module is in sysfs. */
#define kset_find_obj(kset, name)		kobject_get(nl.iw_cm)
#define netlink_register_notifier(block)	((void)(block), 0)
#define netlink_unregister_notifier(block)	((void)(block))
#define register_module_notifier(block)		((void)(block), 0)
#define unregister_module_notifier(block)	((void)(block))

#include "conversation.h"

/* --- the daemon ------------------------------------------------------------- */

static struct sk_buff *message(u8 op)
{
	struct sk_buff *skb = sure_skb(nlmsg_total_size(2048), GFP_KERNEL);

	nlmsg_put(skb, 0, ++nl.seq, RDMA_NL_GET_TYPE(RDMA_NL_IWCM, op), 0, NLM_F_REQUEST);
	return skb;
}

/* What ib_core does with a message of a process. */
static int deliver_from(struct sk_buff *skb, u32 portid)
{
	struct netlink_callback cb = { .skb = skb, .nlh = nlmsg_hdr(skb) };
	u8 op = RDMA_NL_GET_OP(nlmsg_hdr(skb)->nlmsg_type);
	int ret;

	nlmsg_end(skb, nlmsg_hdr(skb));
	NETLINK_CB(skb).portid = portid;
	ret = cm_iwpm_callbacks[op].dump(NULL, &cb);
	kfree_skb(skb);
	return ret;
}

static int deliver(struct sk_buff *skb)
{
	return deliver_from(skb, nl.answer == OTHER_SENDER ? OTHER_PROCESS : DAEMON);
}

static void put_addr(struct sk_buff *skb, int type, struct sockaddr_storage addr, u16 port)
{
	if (port)
		cm_addr_set_port((struct sockaddr *)&addr, port);
	nla_put(skb, type, sizeof(addr), &addr);
}

static int hello(u16 version, u32 portid)
{
	struct sk_buff *skb = message(RDMA_NL_IWPM_HELLO);

	nla_put_u16(skb, IWPM_NLA_HELLO_ABI_VERSION, version);
	return deliver_from(skb, portid);
}

static int want_mapinfo(const char *library, u16 version, u32 portid)
{
	struct sk_buff *skb = message(RDMA_NL_IWPM_MAPINFO);

	nla_put_string(skb, IWPM_NLA_MAPINFO_ULIB_NAME, library);
	nla_put_u16(skb, IWPM_NLA_MAPINFO_ULIB_VER, version);
	return deliver_from(skb, portid);
}

static void answer_register(u32 seq)
{
	struct sk_buff *skb = message(RDMA_NL_IWPM_REG_PID);

	nla_put_u32(skb, IWPM_NLA_RREG_PID_SEQ, seq);
	nla_put_string(skb, IWPM_NLA_RREG_IBDEV_NAME, nl.device ? nl.device : "fake0");
	nla_put_string(skb, IWPM_NLA_RREG_ULIB_NAME, CM_IWPM_LIBRARY);
	nla_put_u16(skb, IWPM_NLA_RREG_ULIB_VER, nl.version);
	nla_put_u16(skb, IWPM_NLA_RREG_PID_ERR, 0);
	deliver(skb);
}

static int send_error(u32 seq, u16 code)
{
	struct sk_buff *skb = message(RDMA_NL_IWPM_HANDLE_ERR);

	nla_put_u32(skb, IWPM_NLA_ERR_SEQ, seq);
	nla_put_u16(skb, IWPM_NLA_ERR_CODE, code);
	return deliver(skb);
}

static int answer_request(u8 op, u32 seq)
{
	bool query = op == RDMA_NL_IWPM_QUERY_MAPPING;
	struct sockaddr_storage other = fake_address(0x0a000063, 9);
	struct sockaddr_storage any = fake_address(INADDR_ANY, 9);
	struct sockaddr_storage local = nl.local, remote = nl.remote;
	struct sockaddr_storage mapped = local, mapped_remote = remote;
	struct sk_buff *skb;
	u16 port = MAPPED_LOCAL, status = 0;

	switch (nl.answer) {
	case REFUSES:
		return send_error(seq, IWPM_CREATE_MAPPING_ERR);
	case REJECTS_QUERY:
		status = IWPM_REMOTE_QUERY_REJECT;
		break;
	case ANSWERS_OTHER_SEQ:
		seq += 100;
		break;
	case ANSWERS_OTHER_LOCAL:
		local = other;
		break;
	case ANSWERS_OTHER_REMOTE:
		remote = other;
		break;
	case ANSWERS_OTHER_OP:
		query = !query;
		break;
	case MAPS_TO_OTHER_ADDRESS:
		mapped = other;
		break;
	case MAPS_TO_PORT_0:
		cm_addr_set_port((struct sockaddr *)&mapped, 0);
		port = 0;
		break;
	case MAPS_REMOTE_TO_OTHER_ADDRESS:
		mapped_remote = other;
		break;
	case MAPS_REMOTE_TO_WILDCARD:
		mapped_remote = any;
		break;
	case NO_PORT_IS_KEPT:
		port = 7000;
		break;
	default:
		break;
	}
	skb = message(query ? RDMA_NL_IWPM_QUERY_MAPPING : RDMA_NL_IWPM_ADD_MAPPING);
	if (query) {
		nla_put_u32(skb, IWPM_NLA_RQUERY_MAPPING_SEQ, seq);
		put_addr(skb, IWPM_NLA_RQUERY_LOCAL_ADDR, local, 0);
		put_addr(skb, IWPM_NLA_RQUERY_REMOTE_ADDR, remote, 0);
		put_addr(skb, IWPM_NLA_RQUERY_MAPPED_LOC_ADDR, mapped, port);
		put_addr(skb, IWPM_NLA_RQUERY_MAPPED_REM_ADDR, mapped_remote, MAPPED_REMOTE);
		nla_put_u16(skb, IWPM_NLA_RQUERY_MAPPING_ERR, status);
	} else {
		nla_put_u32(skb, IWPM_NLA_RMANAGE_MAPPING_SEQ, seq);
		put_addr(skb, IWPM_NLA_RMANAGE_ADDR, local, 0);
		put_addr(skb, IWPM_NLA_RMANAGE_MAPPED_LOC_ADDR, mapped, port);
		nla_put_u16(skb, IWPM_NLA_RMANAGE_MAPPING_ERR, status);
	}
	return deliver(skb);
}

/* iwpmd refuses a message that lacks one of its first attributes; further ones are optional. */
static const u8 required_attrs[RDMA_NL_IWPM_NUM_OPS] = {
	[RDMA_NL_IWPM_REG_PID]		= IWPM_NLA_REG_ULIB_NAME,
	[RDMA_NL_IWPM_ADD_MAPPING]	= IWPM_NLA_MANAGE_ADDR,
	[RDMA_NL_IWPM_QUERY_MAPPING]	= IWPM_NLA_QUERY_REMOTE_ADDR,
	[RDMA_NL_IWPM_REMOVE_MAPPING]	= IWPM_NLA_MANAGE_ADDR,
	[RDMA_NL_IWPM_MAPINFO]		= IWPM_NLA_MAPINFO_MAPPED_ADDR,
	[RDMA_NL_IWPM_MAPINFO_NUM]	= IWPM_NLA_MAPINFO_SEND_NUM,
	[RDMA_NL_IWPM_HELLO]		= IWPM_NLA_HELLO_ABI_VERSION,
};

static bool has_required_attrs(struct nlattr **attr, u8 op)
{
	unsigned int i;

	for (i = 1; i <= required_attrs[op]; i++)
		if (!attr[i])
			return false;
	return true;
}

static void take_addr(struct sockaddr_storage *addr, const struct nlattr *attr)
{
	if (attr)
		nla_memcpy(addr, attr, sizeof(*addr));
}

/* Takes one message. Return: what netlink returns to the sender. */
static int take_message(struct nlmsghdr *nlh)
{
	u8 op = RDMA_NL_GET_OP(nlh->nlmsg_type);
	struct nlattr *attr[8] = {};

	nlmsg_parse_deprecated(nlh, 0, attr, ARRAY_SIZE(attr) - 1, NULL, NULL);
	nl.got[op]++;
	if (!has_required_attrs(attr, op)) {
		nl.malformed++;
		return 0;
	}
	switch (op) {
	case RDMA_NL_IWPM_REG_PID:
		nla_memcpy(nl.if_name, attr[IWPM_NLA_REG_IF_NAME], sizeof(nl.if_name));
		nla_memcpy(nl.device_name, attr[IWPM_NLA_REG_IBDEV_NAME], sizeof(nl.device_name));
		if (nl.answers_register)
			answer_register(nlh->nlmsg_seq);
		break;
	case RDMA_NL_IWPM_ADD_MAPPING:
	case RDMA_NL_IWPM_QUERY_MAPPING:
		take_addr(&nl.local, attr[2]);
		nl.has_flags = attr[op == RDMA_NL_IWPM_ADD_MAPPING ? IWPM_NLA_MANAGE_FLAGS :
								     IWPM_NLA_QUERY_FLAGS];
		if (op == RDMA_NL_IWPM_QUERY_MAPPING)
			take_addr(&nl.remote, attr[IWPM_NLA_QUERY_REMOTE_ADDR]);
		nl.request_seq = nlh->nlmsg_seq;
		if (nl.answer != NO_REPLY)
			answer_request(op, nlh->nlmsg_seq);
		break;
	case RDMA_NL_IWPM_REMOVE_MAPPING:
		take_addr(&nl.removed, attr[IWPM_NLA_MANAGE_ADDR]);
		break;
	case RDMA_NL_IWPM_MAPINFO:
		take_addr(&nl.info, attr[IWPM_NLA_MAPINFO_LOCAL_ADDR]);
		take_addr(&nl.info_mapped, attr[IWPM_NLA_MAPINFO_MAPPED_ADDR]);
		nl.mapinfos++;
		break;
	}
	return 0;
}

static int nl_send(struct sk_buff *skb, u32 portid)
{
	struct nlmsghdr *nlh = nlmsg_hdr(skb);
	int left = skb->len, ret = 0;

	if ((portid && portid != DAEMON) || nl.answer == IS_GONE || !nl.listens)
		ret = portid ? -ECONNREFUSED : -ESRCH;
	for (; !ret && nlmsg_ok(nlh, left); nlh = nlmsg_next(nlh, &left))
		ret = take_message(nlh);
	kfree_skb(skb);
	return ret;
}

/* The time of a wait is over at once. */
static long nl_wait(struct completion *done)
{
	void (*function)(void) = nl.while_waiting;

	nl.waits++;
	if (function && !completion_done(done)) {
		nl.while_waiting = NULL;
		function();
	}
	if (try_wait_for_completion(done))
		return 1;
	nl.timeouts++;
	return nl.killed ? -ERESTARTSYS : 0;
}

/* --- steps ------------------------------------------------------------------ */

static void flush_mapper(void)
{
	flush_workqueue(cm_iwpm_wq);
}

static void start(struct kunit *test)
{
	memset(&nl, 0, sizeof(nl));
	memset(cm_paused_peers, 0, sizeof(cm_paused_peers));
	nl.listens = true;
	nl.answers_register = true;
	nl.version = 4;
	cm_iwpm_set_own(true);
	begin(test, IN_PROCESS);
	dev_set_name(&fake.device.dev, "fake0");
	strscpy(fake.device.iw_ifname, "eth7", sizeof(fake.device.iw_ifname));
}

static void finish(struct kunit *test)
{
	end(test);
	flush_mapper();
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_TRUE(test, list_empty(&cm_requests));
	KUNIT_EXPECT_TRUE(test, list_empty(&cm_mappings));
	KUNIT_EXPECT_TRUE(test, list_empty(&cm_unmapped));
	KUNIT_EXPECT_EQ(test, cm_iwpm.pending, 0u);
	KUNIT_EXPECT_EQ(test, nl.malformed, 0u);
	kfree_const(fake.device.dev.kobj.name);
	fake.device.dev.kobj.name = NULL;
}

static u16 port_of(const struct sockaddr_storage *addr)
{
	return cm_addr_port((const struct sockaddr *)addr);
}

/* Listens, and waits until the mapper has done what it does. */
static void listen_mapped(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, call(BIND), 0);
	KUNIT_ASSERT_EQ(test, call(LISTEN), 0);
	KUNIT_ASSERT_NOT_NULL(test, fake.listener);
	flush_mapper();
}

/* A connect request on the mapped port, or on the own one. */
static int request_on(struct iw_cm_id *to, u16 local, u16 remote)
{
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr = fake_address(FAKE_LOCAL, local),
		.remote_addr = fake_address(FAKE_REMOTE, remote),
		.provider_data = &fake,
	};

	return fake_upcall_in_context(to, &event);
}

static int announce(u32 claimed, u16 port, u16 mapped, u16 listener_port)
{
	struct sk_buff *skb = message(RDMA_NL_IWPM_REMOTE_INFO);

	nla_put_u32(skb, IWPM_NLA_RQUERY_MAPPING_SEQ, 0);
	put_addr(skb, IWPM_NLA_RQUERY_LOCAL_ADDR, fake_address(FAKE_LOCAL, 7000), 0);
	put_addr(skb, IWPM_NLA_RQUERY_REMOTE_ADDR, fake_address(claimed, port), 0);
	put_addr(skb, IWPM_NLA_RQUERY_MAPPED_LOC_ADDR, fake_address(FAKE_LOCAL, listener_port), 0);
	put_addr(skb, IWPM_NLA_RQUERY_MAPPED_REM_ADDR, fake_address(FAKE_REMOTE, mapped), 0);
	nla_put_u16(skb, IWPM_NLA_RQUERY_MAPPING_ERR, 0);
	return deliver(skb);
}

static void expect_request(struct kunit *test, u16 local, u16 remote)
{
	flush_events();
	KUNIT_ASSERT_NOT_NULL(test, got.request);
	KUNIT_EXPECT_EQ(test, cm_addr_port(cm_src(to_cm_id(got.request))), local);
	KUNIT_EXPECT_EQ(test, cm_addr_port(cm_dst(to_cm_id(got.request))), remote);
	destroy(&got.request);
}

static void connect_is(struct kunit *test, u16 local, u16 remote)
{
	struct iw_cm_id *iw;

	KUNIT_ASSERT_EQ(test, call(CONNECT), 0);
	iw = fake.conn;
	KUNIT_ASSERT_NOT_NULL(test, iw);
	KUNIT_EXPECT_EQ(test, port_of(&iw->m_local_addr), local);
	KUNIT_EXPECT_EQ(test, port_of(&iw->m_remote_addr), remote);
	KUNIT_EXPECT_EQ(test, port_of(&iw->local_addr), 7000);
	KUNIT_EXPECT_EQ(test, port_of(&iw->remote_addr), 7000);
}

static const struct conversation ready = { "ready", { S(READY) } };

/* --- listeners --------------------------------------------------------------- */

static void a_listener_has_both_ports(struct kunit *test)
{
	start(test);
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
	finish(test);
}

/* In a softirq and in an interrupt, too. */
static void a_request_is_translated_in_any_context(struct kunit *test)
{
	enum fake_context context;

	start(test);
	listen_mapped(test);
	for (context = IN_PROCESS; context <= UNDER_LOCK; context++) {
		fake.context = context;
		announce(FAKE_REMOTE, 4000, 30003, MAPPED_LOCAL);
		KUNIT_EXPECT_EQ(test, request_on(fake.mapped_listener, MAPPED_LOCAL, 30003), 0);
		expect_request(test, 7000, 4000);
	}
	fake.context = IN_PROCESS;
	finish(test);
}

static void a_peer_cannot_claim_another_address(struct kunit *test)
{
	start(test);
	listen_mapped(test);
	KUNIT_EXPECT_EQ(test, announce(FAKE_REMOTE + 1, 4000, 30003, MAPPED_LOCAL), -EINVAL);
	request_on(fake.mapped_listener, MAPPED_LOCAL, 30003);
	expect_request(test, 7000, 30003);
	/* Nor is the announcement for another listener used. */
	announce(FAKE_REMOTE, 4000, 30003, MAPPED_LOCAL + 1);
	request_on(fake.mapped_listener, MAPPED_LOCAL, 30003);
	expect_request(test, 7000, 30003);
	finish(test);
}

static void announcements_are_bounded(struct kunit *test)
{
	unsigned int i;

	start(test);
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
	finish(test);
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

static void refusal_name(const struct refusal *refusal, char *name)
{
	strscpy(name, refusal->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(refusal, refusals, refusal_name);

/* All works as without a daemon. */
static void a_listener_without_a_mapping(struct kunit *test)
{
	const struct refusal *refusal = test->param_value;

	start(test);
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
	finish(test);
}

static void the_device_refuses_the_mapped_port(struct kunit *test)
{
	start(test);
	fake.mapped_listen_error = -EADDRINUSE;
	listen_mapped(test);
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], 1u);
	finish(test);
}

/* As siw: a mapping to another port would not be listened on. */
static void a_device_whose_ports_are_not_mapped(struct kunit *test)
{
	start(test);
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
	finish(test);
}

static void a_daemon_of_version_3(struct kunit *test)
{
	start(test);
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
	finish(test);
}

static void other_namespaces_are_not_mapped(struct kunit *test)
{
	struct net *net = kunit_kzalloc(test, sizeof(*net), GFP_KERNEL);
	struct rdma_dev_addr *dev_addr;

	KUNIT_ASSERT_NOT_NULL(test, net);
	start(test);
	KUNIT_ASSERT_EQ(test, call(BIND), 0);
	dev_addr = &to_cm_id(id)->base.id.route.addr.dev_addr;
	dev_addr->net = net;
	KUNIT_EXPECT_FALSE(test, cm_iwpm_is_there(to_cm_id(id)));
	dev_addr->net = &init_net;
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_there(to_cm_id(id)));
	finish(test);
}

/* --- connections -------------------------------------------------------------- */

static void a_connection_has_the_mapped_ports(struct kunit *test)
{
	start(test);
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
	finish(test);
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

KUNIT_ARRAY_PARAM(connect_refusal, connect_refusals, refusal_name);

static void a_connection_without_a_mapping(struct kunit *test)
{
	const struct refusal *refusal = test->param_value;

	start(test);
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
	finish(test);
}

static void a_wildcard_of_the_peer_is_its_address(struct kunit *test)
{
	start(test);
	nl.answer = MAPS_REMOTE_TO_WILDCARD;
	run(test, &ready);
	connect_is(test, MAPPED_LOCAL, MAPPED_REMOTE);
	KUNIT_EXPECT_EQ(test, ((struct sockaddr_in *)&fake.conn->m_remote_addr)->sin_addr.s_addr,
			htonl(FAKE_REMOTE));
	finish(test);
}

/* After a refused connect, the mapping ends; the next try asks again. */
static void a_connect_that_the_device_refuses(struct kunit *test)
{
	start(test);
	run(test, &ready);
	fake.next_error = -ENOMEM;
	KUNIT_EXPECT_EQ(test, call(CONNECT), -ENOMEM);
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], 1u);
	connect_is(test, MAPPED_LOCAL, MAPPED_REMOTE);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_QUERY_MAPPING], 2u);
	finish(test);
}

/* A peer whose daemon does not reply is not asked again at once; others are. */
static void a_peer_without_a_daemon_is_asked_once(struct kunit *test)
{
	struct sockaddr_storage other = fake_address(FAKE_REMOTE + 1, 1);
	struct sockaddr_storage same = fake_address(FAKE_REMOTE, 1);

	start(test);
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
	cm_iwpm_pause_peer((union cm_inet *)&same);
	spin_unlock_irq(&cm_iwpm_lock);
	KUNIT_EXPECT_TRUE(test, cm_iwpm_is_paused((struct sockaddr *)&same));
	hello(4, DAEMON);
	KUNIT_EXPECT_FALSE(test, cm_iwpm_is_paused((struct sockaddr *)&same));
	finish(test);
}

/* --- the daemon ----------------------------------------------------------------- */

/* A daemon that does not answer REG_PID is not asked until it sends a message. */
static void a_daemon_without_a_reply_is_waited_for_once(struct kunit *test)
{
	start(test);
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
	finish(test);
}

static void a_daemon_that_names_another_device(struct kunit *test)
{
	start(test);
	nl.device = "fake1";
	run(test, &ready);
	connect_is(test, 7000, 7000);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_QUERY_MAPPING], 0u);
	finish(test);
}

/* A new daemon gets all mappings, and those that end meanwhile are not left with it. */
static void a_daemon_that_is_started_again(struct kunit *test)
{
	unsigned int removes;

	start(test);
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
	finish(test);
}

/* More mappings than fit into one message. */
static void many_mappings_are_sent(struct kunit *test)
{
	struct cm_mapping *mappings[40];
	struct cm_iwpm_addrs addrs = {};
	unsigned int i;

	start(test);
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
	want_mapinfo(CM_IWPM_LIBRARY, 4, DAEMON);
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.mapinfos, (unsigned int)ARRAY_SIZE(mappings));
	for (i = 0; i < ARRAY_SIZE(mappings); i++)
		cm_iwpm_unmap(mappings[i]);
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING],
			(unsigned int)ARRAY_SIZE(mappings));
	finish(test);
}

static void messages_that_are_not_well_formed(struct kunit *test)
{
	struct sk_buff *skb;
	u8 op;

	start(test);
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
	finish(test);
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
	start(test);
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
	finish(test);
}

static void look_at_the_client_mutex(void)
{
	nl.client_locked = mutex_is_locked(&cm_iwpm_client_mutex);
}

/* Loads and unloads of iw_cm and this module may coincide: one exchanges the client at a time. */
static void the_client_is_exchanged_under_its_mutex(struct kunit *test)
{
	start(test);
	fake.point = "cm_iwpm_own_changed";
	fake.at_point = look_at_the_client_mutex;
	cm_iwpm_set_own(false);
	KUNIT_EXPECT_TRUE(test, nl.client_locked);
	KUNIT_EXPECT_FALSE(test, mutex_is_locked(&cm_iwpm_client_mutex));
	finish(test);
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
	start(test);
	KUNIT_EXPECT_FALSE(test, cm_iwpm_iw_cm_is_loaded());
	kobject_init(iw_cm, (struct kobj_type *)&iw_cm_type);
	nl.iw_cm = iw_cm;
	KUNIT_EXPECT_TRUE(test, cm_iwpm_iw_cm_is_loaded());
	KUNIT_EXPECT_EQ(test, kref_read(&iw_cm->kref), 1u);
	nl.iw_cm = NULL;
	kobject_put(iw_cm);
	finish(test);
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

static void iw_cm_comes(void)
{
	cm_iwpm_set_own(false);
}

static void device_goes(void)
{
	/* As the beginning of cm_remove_one(), whose end waits for the connect. */
	cm_iwpm_cancel_dev(fake.cm_dev);
}

static void id_is_destroyed(void)
{
	destroy(&id);
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

static void wait_name(const struct wait *wait, char *name)
{
	strscpy(name, wait->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(wait, waits, wait_name);

static void while_a_connect_waits(struct kunit *test)
{
	const struct wait *wait = test->param_value;

	start(test);
	nl.answer = NO_REPLY;
	nl.while_waiting = wait->function;
	run(test, &ready);
	connect_is(test, wait->local, wait->remote);
	flush_mapper();
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], wait->removes);
	nl.listens = true;
	finish(test);
}

/* The destroy does not wait. The connection is aborted when it is established. */
static void an_id_is_destroyed_while_its_connect_waits(struct kunit *test)
{
	start(test);
	nl.answer = NO_REPLY;
	nl.while_waiting = id_is_destroyed;
	run(test, &ready);
	KUNIT_EXPECT_EQ(test, call(CONNECT), 0);
	KUNIT_EXPECT_NULL(test, id);
	KUNIT_ASSERT_NOT_NULL(test, fake.conn);
	fake_report(FAKE_REPLY, 0);
	flush_events();
	KUNIT_EXPECT_EQ(test, fake.aborts, 1u);
	finish(test);
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
	start(test);
	nl.answer = NO_REPLY;
	nl.while_waiting = device_is_removed;
	run(test, &ready);
	call(CONNECT);
	KUNIT_EXPECT_EQ(test, nl.timeouts, 0u);
	if (fake.conn)
		fake_report(FAKE_REPLY, -ECONNREFUSED);
	flush_events();
	finish(test);
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

KUNIT_ARRAY_PARAM(listener_wait, listener_waits, wait_name);

static void while_a_listener_waits(struct kunit *test)
{
	const struct wait *wait = test->param_value;

	start(test);
	nl.answer = NO_REPLY;
	nl.while_waiting = wait->function;
	listen_mapped(test);
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
	finish(test);
}

/* Windows of the work item: the listener ends between the answer and the listen. */
static void a_listener_ends_when_it_was_mapped(struct kunit *test)
{
	start(test);
	fake.point = "cm_iwpm_listener_mapped";
	fake.at_point = listener_is_destroyed;
	listen_mapped(test);
	KUNIT_EXPECT_NULL(test, fake.mapped_listener);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_REMOVE_MAPPING], 1u);
	finish(test);
}

static void a_listener_ends_before_it_asks(struct kunit *test)
{
	start(test);
	nl.answers_register = true;
	fake.point = "cm_iwpm_answered";	/* of REG_PID */
	fake.at_point = listener_is_destroyed;
	listen_mapped(test);
	KUNIT_EXPECT_EQ(test, nl.got[RDMA_NL_IWPM_ADD_MAPPING], 0u);
	finish(test);
}

static void the_daemon_ends_before_it_is_asked(struct kunit *test)
{
	start(test);
	fake.point = "cm_iwpm_begun";
	fake.at_point = daemon_ends;
	run(test, &ready);
	connect_is(test, 7000, 7000);
	finish(test);
}

static void requests_are_bounded(struct kunit *test)
{
	start(test);
	hello(4, DAEMON);
	spin_lock_irq(&cm_iwpm_lock);
	cm_iwpm.pending = CM_IWPM_MAX_PENDING;
	spin_unlock_irq(&cm_iwpm_lock);
	run(test, &ready);
	connect_is(test, 7000, 7000);
	KUNIT_EXPECT_EQ(test, nl.waits, 0u);
	spin_lock_irq(&cm_iwpm_lock);
	cm_iwpm.pending = 0;
	spin_unlock_irq(&cm_iwpm_lock);
	finish(test);
}

/* --- failing allocations ------------------------------------------------------------ */

/* Without memory nothing is mapped, or the daemon is not notified; calls succeed. */
static void map_without_memory(struct kunit *test)
{
	start(test);
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
	finish(test);
}

static void a_listener_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, map_without_memory), 5u);
}

static void connect_without_memory(struct kunit *test)
{
	bool refused;
	int ret;

	start(test);
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
	finish(test);
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
	KUNIT_CASE(a_daemon_without_a_reply_is_waited_for_once),
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
	KUNIT_CASE(an_id_is_destroyed_while_its_connect_waits),
	KUNIT_CASE_PARAM(while_a_listener_waits, listener_wait_gen_params),
	KUNIT_CASE(a_listener_ends_when_it_was_mapped),
	KUNIT_CASE(a_listener_ends_before_it_asks),
	KUNIT_CASE(the_daemon_ends_before_it_is_asked),
	KUNIT_CASE(requests_are_bounded),
	KUNIT_CASE(a_listener_without_memory),
	KUNIT_CASE(a_connection_without_memory),
	{}
};

static int mapper_init(struct kunit *test)
{
	int ret = conversation_init(test);

	if (!ret)
		ret = cm_iwpm_init();
	cm_iwpm_set_own(true);
	nl.registered = 0;
	return ret;
}

static void mapper_exit(struct kunit *test)
{
	cm_iwpm_exit();
	KUNIT_EXPECT_EQ(test, cm_number_of_remotes, 0u);
	conversation_exit(test);
}

static struct kunit_suite iwpm_suite = {
	.name = "t3_rdma_cm_iwpm",
	.init = mapper_init,
	.exit = mapper_exit,
	.test_cases = iwpm_cases,
};

kunit_test_suites(&iwpm_suite);

MODULE_DESCRIPTION("KUnit tests of t3_rdma_cm: cm_iwpm");
MODULE_LICENSE("GPL");
