/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For suites of the port mapper: its daemon iwpmd, which answers, refuses, sends invalid messages
 * or does not reply, and the steps of the tests. The daemon is the test: it gets the messages, and
 * its own go through the callbacks of ib_core.
 */
#ifndef T3_FAKE_IWPMD_H
#define T3_FAKE_IWPMD_H

#include "../failing_alloc.h"

#include <linux/netdevice.h>
#include <net/netlink.h>
#include <net/sock.h>
#include <rdma/iw_portmap.h>
#include <rdma/rdma_netlink.h>

enum answer {
	ANSWERS, REJECTS_QUERY, REFUSES, NO_REPLY, DOES_NOT_READ, IS_GONE, ANSWERS_OTHER_SEQ,
	ANSWERS_OTHER_LOCAL, ANSWERS_OTHER_REMOTE, ANSWERS_OTHER_OP, MAPS_TO_OTHER_ADDRESS,
	MAPS_TO_PORT_0,
	MAPS_REMOTE_TO_OTHER_ADDRESS, MAPS_REMOTE_TO_WILDCARD, OTHER_SENDER, NO_PORT_IS_KEPT,
};

enum { DAEMON = 77, OTHER_PROCESS = 78, MAPPED_LOCAL = 30001, MAPPED_REMOTE = 30002 };

static struct {
	bool listens;			/* to the multicast group */
	bool group_is_full;		/* another process there does not read */
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
	unsigned int reads;		/* n: it reads n - 1 messages more; 0: all */
	unsigned int sends_that_wait;	/* for space in its receive buffer, inside netlink */
	int registered;			/* as the client of ib_core */
	bool client_locked;		/* while the client is exchanged */
	struct kobject *iw_cm;		/* of the module, if it is loaded */
} nl;

static int nl_send(struct sk_buff *skb, u32 portid);
static int nl_multicast(struct sk_buff *skb);
static long nl_wait(struct completion *done);

#define FAKE_WITH_IWPM
#define rdma_nl_chk_listeners(group)		(nl.listens)
#define rdma_nl_register(index, callbacks)	((void)(callbacks), nl.registered++)
#define rdma_nl_unregister(index)		((void)nl.registered--)
#define rdma_nl_multicast(net, skb, group, gfp)	nl_multicast(skb)
#define rdma_nl_unicast(net, skb, portid)	nl_send(skb, portid)
#define rdma_nl_unicast_wait(net, skb, portid)	(nl.sends_that_wait++, nl_send(skb, portid))
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
	else if (portid && (nl.answer == DOES_NOT_READ || nl.reads == 1))
		ret = -EAGAIN;
	else if (nl.reads)
		nl.reads--;
	for (; !ret && nlmsg_ok(nlh, left); nlh = nlmsg_next(nlh, &left))
		ret = take_message(nlh);
	kfree_skb(skb);
	return ret;
}

/* The sender learns of a full receive buffer if its owner wants it (NETLINK_BROADCAST_ERROR). */
static int nl_multicast(struct sk_buff *skb)
{
	int ret = nl_send(skb, 0);

	return !ret && nl.group_is_full ? -ENOBUFS : ret;
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
static int __maybe_unused request_on(struct iw_cm_id *to, u16 local, u16 remote)
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

static void __maybe_unused expect_request(struct kunit *test, u16 local, u16 remote)
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

static void __maybe_unused start_again(struct kunit *test)
{
	finish(test);
	start(test);
}

static int mapper_init(struct kunit *test)
{
	int ret = conversation_init(test);

	if (!ret)
		ret = cm_iwpm_init();
	cm_iwpm_set_own(true);
	nl.registered = 0;
	if (!ret)
		start(test);
	return ret;
}

static void mapper_exit(struct kunit *test)
{
	finish(test);
	cm_iwpm_exit();
	KUNIT_EXPECT_EQ(test, cm_number_of_remotes, 0u);
	conversation_exit(test);
}

#endif
