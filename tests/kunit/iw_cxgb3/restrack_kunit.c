// SPDX-License-Identifier: GPL-2.0
/* Details of connections and listeners in netlink, looked up by their addresses. */
#include <net/netlink.h>

#include "../suite.h"
#include "cm.h"
#include "ep_fsm.c"
#include "restrack.c"

static struct t3_dev *dev;
static struct t3_ep *ep;
static struct t3_listener *listener;
static struct rdma_cm_id *id;
static struct sk_buff *msg;
static int references;

bool t3_ep_tryget(struct t3_ep *ep)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "the endpoint may be freed");
	references++;
	return true;
}

void t3_ep_put(struct t3_ep *ep)
{
	references--;
}

static struct sockaddr_in address(u32 addr, u16 port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = cpu_to_be32(addr),
		.sin_port = cpu_to_be16(port),
	};
}

static void set_addresses(struct sockaddr_in local, struct sockaddr_in remote)
{
	memcpy(&id->route.addr.src_addr, &local, sizeof(local));
	memcpy(&id->route.addr.dst_addr, &remote, sizeof(remote));
}

static int res_init(struct kunit *test)
{
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	ep = kunit_kzalloc(test, sizeof(*ep), GFP_KERNEL);
	listener = kunit_kzalloc(test, sizeof(*listener), GFP_KERNEL);
	id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, dev && ep && listener && id);
	dev->cm = kunit_kzalloc(test, sizeof(*dev->cm), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->cm);
	spin_lock_init(&dev->cm->lock);
	INIT_LIST_HEAD(&dev->cm->listeners);
	xa_init_flags(&dev->cm->eps, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);
	ep->tid = 0x123;
	ep->local = address(0x0a000001, 7174);
	ep->remote = address(0x0a000002, 40000);
	KUNIT_ASSERT_EQ(test, xa_insert_bh(&dev->cm->eps, 1, ep, GFP_KERNEL), 0);
	listener->addr = cpu_to_be32(0x0a000001);
	listener->port = cpu_to_be16(7174);
	list_add(&listener->link, &dev->cm->listeners);
	id->device = &dev->ibdev;
	msg = alloc_skb(512, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, msg);
	references = 0;
	return 0;
}

static void res_exit(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, references, 0);
	xa_destroy(&dev->cm->eps);
	kfree_skb(msg);
}

/* True if the message has an attribute with this name. */
static bool shows(const char *name)
{
	size_t length = strlen(name) + 1;
	unsigned int at;

	for (at = 0; at + length <= msg->len; at++)
		if (!memcmp(msg->data + at, name, length))
			return true;
	return false;
}

static void connection_is_found_by_both_addresses(struct kunit *test)
{
	set_addresses(ep->local, ep->remote);
	KUNIT_EXPECT_EQ(test, t3_cm_fill_res_entry(msg, id), 0);
	KUNIT_EXPECT_TRUE(test, shows("tid"));
	KUNIT_EXPECT_TRUE(test, shows("ep_state"));
	KUNIT_EXPECT_FALSE(test, shows("stid"));
}

static void other_port_is_another_connection(struct kunit *test)
{
	set_addresses(ep->local, address(0x0a000002, 40001));
	KUNIT_EXPECT_EQ(test, t3_cm_fill_res_entry(msg, id), 0);
	KUNIT_EXPECT_FALSE(test, shows("tid"));
}

static void listener_is_found_by_its_address(struct kunit *test)
{
	set_addresses(address(0x0a000001, 7174), (struct sockaddr_in){});
	KUNIT_EXPECT_EQ(test, t3_cm_fill_res_entry(msg, id), 0);
	KUNIT_EXPECT_TRUE(test, shows("stid"));
	KUNIT_EXPECT_FALSE(test, shows("ep_state"));
}

/* The id of a listener has a zero remote address. */
static void zero_remote_address_means_listener(struct kunit *test)
{
	set_addresses(address(0x0a000001, 7174), address(0, 0));
	KUNIT_EXPECT_EQ(test, t3_cm_fill_res_entry(msg, id), 0);
	KUNIT_EXPECT_TRUE(test, shows("stid"));
}

/* netlink repeats the dump with a larger message, so a failed attempt must leave no attributes. */
static void full_message_is_left_unchanged(struct kunit *test)
{
	unsigned int length;

	set_addresses(ep->local, ep->remote);
	while (skb_tailroom(msg) > 64)
		skb_put_zero(msg, 4);
	length = msg->len;
	KUNIT_EXPECT_EQ(test, t3_cm_fill_res_entry(msg, id), -EMSGSIZE);
	KUNIT_EXPECT_EQ(test, msg->len, length);
}

static struct kunit_case res_cases[] = {
	KUNIT_CASE(connection_is_found_by_both_addresses),
	KUNIT_CASE(other_port_is_another_connection),
	KUNIT_CASE(listener_is_found_by_its_address),
	KUNIT_CASE(zero_remote_address_means_listener),
	KUNIT_CASE(full_message_is_left_unchanged),
	{}
};

TEST_SUITE("iw_cxgb3_res", res_cases, .init = res_init, .exit = res_exit);
