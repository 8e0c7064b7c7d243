// SPDX-License-Identifier: GPL-2.0
/*
 * Local ports that listeners and connects of the card hold, beside sockets of the host. The
 * sockets are real; the loopback interface is the port of the card.
 */
#include <t3_netdev.h>

#include "../suite.h"
#include "cm.h"

/* The loopback interface is a VLAN, and there is another VLAN on it. */
static bool lo_is_vlan;
static struct net_device vlan_on_lo;

static struct net_device *above(struct net_device *ndev)
{
	return lo_is_vlan && ndev == init_net.loopback_dev ? &vlan_on_lo : NULL;
}

static struct net_device *below(struct net_device *ndev)
{
	static struct net_device port;

	if (ndev == &vlan_on_lo)
		return init_net.loopback_dev;
	return lo_is_vlan ? &port : NULL;
}

/* The namespace has no user any more. */
static bool net_ends;

static struct net *net_if_used(struct net *net)
{
	return net_ends ? NULL : get_net(net);
}

#define maybe_get_net				net_if_used
#define t3_has_vlans(ndev)			true
#define __vlan_find_dev_deep_rcu(ndev, proto, id)	((id) == 5 ? above(ndev) : NULL)
#define t3_vlan_below	below

#include "tcp_port.c"

enum {
	HOST = 0x7f000001,
	ELSEWHERE = 0x7f000002,
	PORT = 7174,			/* the host chooses no port below 32768 */
	CLIENT = 7175,
	EPHEMERAL = 40123,
	OTHER_INTERFACE = 7174,		/* an index that no interface has */
};

static struct t3_dev *dev;
static struct iw_cm_id *cm_id;

static bool no_address;

struct net_device *t3_route_local_dev(struct t3_dev *dev, struct net *net, __be32 addr)
{
	if (no_address)
		return NULL;
	dev_hold(init_net.loopback_dev);
	return init_net.loopback_dev;
}

static int of_iw_cm(struct iw_cm_id *cm_id, struct iw_cm_event *event)
{
	return 0;
}

static int tcp_port_init(struct kunit *test)
{
	no_address = false;
	lo_is_vlan = false;
	net_ends = false;
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	cm_id = kunit_kzalloc(test, sizeof(*cm_id), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_ASSERT_NOT_NULL(test, cm_id);
	dev->ports.nports = 1;
	dev->ports.lldevs[0] = init_net.loopback_dev;
	cm_id->cm_handler = of_iw_cm;
	KUNIT_ASSERT_EQ(test, t3_tcp_ports_init(), 0);
	return 0;
}

static void tcp_port_exit(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, hash_empty(t3_tcp_ports));
	t3_tcp_ports_exit();
}

static struct sockaddr_in address(u32 addr, u16 port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(addr),
		.sin_port = htons(port),
	};
}

static struct t3_tcp_port *hold_connect(u32 addr, u16 port)
{
	struct sockaddr_in local = address(addr, port);

	return t3_tcp_port_connect(dev, cm_id, &local);
}

/* With a second port of the card, or on a second card: they add to @places. */
static int hold_listener(u32 addr, u16 port, struct list_head *places)
{
	struct sockaddr_in local = address(addr, port);

	return t3_tcp_port_listen(dev, cm_id, &local, places);
}

/* A server of the host, as most with SO_REUSEADDR. */
static int serve_on(int ifindex, u32 addr, u16 port, struct socket **sock)
{
	struct sockaddr_in local = address(addr, port);
	int ret;

	ret = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, sock);
	if (ret)
		return ret;
	(*sock)->sk->sk_reuse = SK_CAN_REUSE;
	(*sock)->sk->sk_bound_dev_if = ifindex;
	ret = t3_kernel_bind(*sock, (struct sockaddr *)&local, sizeof(local));
	if (!ret)
		ret = kernel_listen(*sock, 5);
	if (ret) {
		sock_release(*sock);
		*sock = NULL;
	}
	return ret;
}

static int serve(u32 addr, u16 port, struct socket **sock)
{
	return serve_on(0, addr, port, sock);
}

static void expect_free(struct kunit *test, u32 addr, u16 port)
{
	struct socket *sock;

	KUNIT_EXPECT_EQ(test, serve(addr, port, &sock), 0);
	if (sock)
		sock_release(sock);
}

static const struct shared_port {
	const char *name;
	u32 rdma, host;
	bool free;
	int ifindex;			/* of the host's server; 0: any */
} shared_ports[] = {
	{ "same address", HOST, HOST, false },
	{ "host on the wildcard", HOST, INADDR_ANY, false },
	{ "RDMA on the wildcard", INADDR_ANY, HOST, false },
	{ "both on the wildcard", INADDR_ANY, INADDR_ANY, false },
	{ "other address", HOST, ELSEWHERE, true },
	{ "host on the card's interface", INADDR_ANY, INADDR_ANY, false, LOOPBACK_IFINDEX },
	{ "the same, RDMA on an address", HOST, INADDR_ANY, false, LOOPBACK_IFINDEX },
	{ "host on another interface", INADDR_ANY, INADDR_ANY, true, OTHER_INTERFACE },
};

NAMED_PARAM(shared_port, shared_ports);

static void servers_exclude_each_other(struct kunit *test)
{
	const struct shared_port *c = test->param_value;
	int expected = c->free ? 0 : -EADDRINUSE;
	struct socket *sock = NULL;
	LIST_HEAD(places);

	KUNIT_ASSERT_EQ(test, hold_listener(c->rdma, PORT, &places), 0);
	KUNIT_EXPECT_EQ(test, serve_on(c->ifindex, c->host, PORT, &sock), expected);
	if (sock)
		sock_release(sock);
	t3_tcp_port_unlisten(&places);

	KUNIT_ASSERT_EQ(test, serve_on(c->ifindex, c->host, PORT, &sock), 0);
	KUNIT_EXPECT_EQ(test, hold_listener(c->rdma, PORT, &places), expected);
	t3_tcp_port_unlisten(&places);
	sock_release(sock);
}

/* Two ports of a card in one VRF. */
static void interfaces_share_the_one_above(struct kunit *test)
{
	struct socket *sock;
	LIST_HEAD(places);

	dev->ports.nports = 2;
	dev->ports.lldevs[1] = init_net.loopback_dev;
	KUNIT_ASSERT_EQ(test, hold_listener(INADDR_ANY, PORT, &places), 0);
	KUNIT_EXPECT_FALSE(test, list_is_singular(&places));
	t3_tcp_port_release(list_first_entry(&places, struct t3_tcp_place, node)->held);
	list_first_entry(&places, struct t3_tcp_place, node)->held = NULL;
	KUNIT_EXPECT_EQ(test, serve(HOST, PORT, &sock), -EADDRINUSE);
	t3_tcp_port_unlisten(&places);
	KUNIT_EXPECT_TRUE(test, list_empty(&places));
	expect_free(test, HOST, PORT);
}

/* t3_rdma_cm holds the port from the bind of its id on, and iwpmd the ones that it chooses. */
static void manager_answers_for_its_ports(struct kunit *test)
{
	struct sockaddr_in *mapped = (struct sockaddr_in *)&cm_id->m_local_addr;
	LIST_HEAD(places);

	mapped->sin_port = htons(PORT);
	KUNIT_EXPECT_EQ(test, hold_listener(HOST, PORT, &places), 0);
	KUNIT_EXPECT_TRUE(test, hash_empty(t3_tcp_ports));
	KUNIT_EXPECT_TRUE(test, list_empty(&places));
	t3_tcp_port_unlisten(&places);
	KUNIT_EXPECT_NULL(test, hold_connect(HOST, PORT));
	((struct sockaddr_in *)&cm_id->local_addr)->sin_port = htons(PORT);
	cm_id->cm_handler = NULL;
	KUNIT_EXPECT_EQ(test, hold_listener(HOST, PORT, &places), 0);
	KUNIT_EXPECT_TRUE(test, hash_empty(t3_tcp_ports));
	KUNIT_EXPECT_TRUE(test, list_empty(&places));
	t3_tcp_port_unlisten(&places);
	KUNIT_EXPECT_EQ(test, hold_listener(INADDR_ANY, PORT, &places), 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&places));
	KUNIT_EXPECT_NULL(test, hold_connect(HOST, PORT));
}

static void address_must_be_on_the_card(struct kunit *test)
{
	LIST_HEAD(places);

	no_address = true;
	KUNIT_EXPECT_EQ(test, hold_listener(HOST, PORT, &places), -EADDRNOTAVAIL);
	KUNIT_EXPECT_PTR_EQ(test, hold_connect(HOST, PORT), ERR_PTR(-EADDRNOTAVAIL));
	cm_id->cm_handler = NULL;	/* of t3_rdma_cm */
	KUNIT_EXPECT_EQ(test, hold_listener(HOST, PORT, &places), -EADDRNOTAVAIL);
}

/* rdma_cm gives a port to several connects if the program asks for that. */
static void connects_share_a_port(struct kunit *test)
{
	struct t3_tcp_port *first = hold_connect(HOST, PORT), *second = hold_connect(HOST, PORT);
	struct socket *sock;

	KUNIT_ASSERT_FALSE(test, IS_ERR_OR_NULL(first));
	KUNIT_EXPECT_PTR_EQ(test, first, second);
	t3_tcp_port_release(first);
	KUNIT_EXPECT_EQ(test, serve(HOST, PORT, &sock), -EADDRINUSE);
	t3_tcp_port_release(second);
	expect_free(test, HOST, PORT);
}

static void connect_does_not_take_a_port_of_the_host(struct kunit *test)
{
	struct sockaddr_in local = address(HOST, EPHEMERAL);
	struct socket *chosen, *automatic;
	struct t3_tcp_port *held;

	KUNIT_ASSERT_EQ(test, serve(HOST, PORT, &chosen), 0);
	KUNIT_EXPECT_PTR_EQ(test, hold_connect(HOST, PORT), ERR_PTR(-EADDRINUSE));
	/* Probably rdma_cm has chosen it. */
	KUNIT_ASSERT_EQ(test, serve(INADDR_ANY, EPHEMERAL, &automatic), 0);
	held = t3_tcp_port_connect(dev, cm_id, &local);
	KUNIT_EXPECT_FALSE(test, IS_ERR_OR_NULL(held));
	KUNIT_EXPECT_NE(test, local.sin_port, htons(EPHEMERAL));
	KUNIT_EXPECT_NE(test, local.sin_port, 0);
	if (!IS_ERR_OR_NULL(held)) {
		struct socket *sock;

		KUNIT_EXPECT_EQ(test, serve(HOST, ntohs(local.sin_port), &sock), -EADDRINUSE);
		t3_tcp_port_release(held);
	}
	sock_release(automatic);
	sock_release(chosen);
}

static bool connected(struct t3_ep *ep, u32 local, u16 local_port, u32 remote, u16 remote_port)
{
	ep->local = address(local, local_port);
	ep->remote = address(remote, remote_port);
	return t3_tcp_is_connected(ep);
}

/* Its port may be one that a connect holds: t3_rdma_cm's sockets have SO_REUSEADDR. */
static void connection_of_the_host_is_found(struct kunit *test)
{
	struct sockaddr_in from = address(HOST, CLIENT), to = address(HOST, PORT);
	struct t3_ep *ep = kunit_kzalloc(test, sizeof(*ep), GFP_KERNEL);
	struct socket *server, *client, *accepted;

	KUNIT_ASSERT_NOT_NULL(test, ep);
	ep->ndev = init_net.loopback_dev;
	KUNIT_ASSERT_EQ(test, serve(HOST, PORT, &server), 0);
	KUNIT_EXPECT_FALSE(test, connected(ep, HOST, PORT, HOST, CLIENT));
	KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP,
					       &client), 0);
	KUNIT_ASSERT_EQ(test, t3_kernel_bind(client, (struct sockaddr *)&from, sizeof(from)), 0);
	KUNIT_ASSERT_EQ(test, kernel_connect(client, (void *)&to, sizeof(to), 0), 0);
	KUNIT_ASSERT_EQ(test, kernel_accept(server, &accepted, 0), 0);

	KUNIT_EXPECT_TRUE(test, connected(ep, HOST, PORT, HOST, CLIENT));
	KUNIT_EXPECT_TRUE(test, connected(ep, HOST, CLIENT, HOST, PORT));
	KUNIT_EXPECT_FALSE(test, connected(ep, HOST, PORT, HOST, CLIENT + 1));
	KUNIT_EXPECT_FALSE(test, connected(ep, HOST, PORT, ELSEWHERE, CLIENT));
	KUNIT_EXPECT_FALSE(test, connected(ep, ELSEWHERE, PORT, HOST, CLIENT));
	sock_release(client);
	sock_release(accepted);
	KUNIT_EXPECT_TRUE(test, connected(ep, HOST, CLIENT, HOST, PORT));	/* TIME_WAIT */
	sock_release(server);
}

/* The card does not serve it. */
static void listener_on_a_vlan_has_no_vlan_on_it(struct kunit *test)
{
	LIST_HEAD(places);

	lo_is_vlan = true;
	dev_net_set(&vlan_on_lo, &init_net);
	KUNIT_EXPECT_EQ(test, hold_listener(HOST, PORT, &places), 0);
	KUNIT_EXPECT_TRUE(test, list_is_singular(&places));
	t3_tcp_port_unlisten(&places);
}

/* The listener exists on. */
static void end_of_a_namespace_releases_its_sockets(struct kunit *test)
{
	LIST_HEAD(places);

	KUNIT_ASSERT_EQ(test, hold_listener(HOST, PORT, &places), 0);
	t3_tcp_ports_net_exit(&init_net);
	KUNIT_EXPECT_NULL(test, list_first_entry(&places, struct t3_tcp_place, node)->held->sock);
	expect_free(test, HOST, PORT);
	t3_tcp_port_unlisten(&places);
}

/* The socket must not be released after the end of its namespace, which nothing holds up. */
static void port_of_a_namespace_that_ends_is_left_to_its_end(struct kunit *test)
{
	LIST_HEAD(places);

	KUNIT_ASSERT_EQ(test, hold_listener(HOST, PORT, &places), 0);
	net_ends = true;
	t3_tcp_port_unlisten(&places);
	KUNIT_ASSERT_FALSE(test, hash_empty(t3_tcp_ports));
	t3_tcp_ports_net_exit(&init_net);
	expect_free(test, HOST, PORT);
}

static struct kunit_case tcp_port_cases[] = {
	KUNIT_CASE_PARAM(servers_exclude_each_other, shared_port_gen_params),
	KUNIT_CASE(interfaces_share_the_one_above),
	KUNIT_CASE(manager_answers_for_its_ports),
	KUNIT_CASE(address_must_be_on_the_card),
	KUNIT_CASE(connects_share_a_port),
	KUNIT_CASE(connect_does_not_take_a_port_of_the_host),
	KUNIT_CASE(connection_of_the_host_is_found),
	KUNIT_CASE(listener_on_a_vlan_has_no_vlan_on_it),
	KUNIT_CASE(end_of_a_namespace_releases_its_sockets),
	KUNIT_CASE(port_of_a_namespace_that_ends_is_left_to_its_end),
	{}
};

TEST_SUITE("iw_cxgb3_tcp_port", tcp_port_cases, .init = tcp_port_init, .exit = tcp_port_exit);
