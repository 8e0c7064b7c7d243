// SPDX-License-Identifier: GPL-2.0
/* Port spaces: which ids may share a port, and the sockets in the host's TCP. */
#include <net/inet_hashtables.h>

#include "../suite.h"

#include "address.c"

void t3_race_point(const char *name)
{
}

/* A lookup changes the address of an id while another call reads it: both hold id->lock. */
static unsigned int copies;
static bool copied_without_lock;

static void copy_addr(struct sockaddr *to, const struct sockaddr *from)
{
	copies++;
	copied_without_lock |= !irqs_disabled();
	cm_addr_copy(to, from);
}

#define cm_addr_copy			copy_addr
static struct hlist_head *locked_chain(struct hlist_head *chain)
{
	lockdep_assert_held(&container_of(chain, struct inet_bind_hashbucket, chain)->lock);
	return chain;
}

#undef inet_bind_bucket_for_each
#define inet_bind_bucket_for_each(tb, chain) hlist_for_each_entry(tb, locked_chain(chain), node)

/* What the calling process may do. */
static struct {
	bool root, root_of_own;
	bool has_device;
} caller;

static bool caller_capable(int cap)
{
	return caller.root;
}

static bool caller_ns_capable(struct user_namespace *ns, int cap)
{
	return ns == &init_user_ns ? caller.root : caller.root_of_own;
}

static unsigned int ports_tried;

static bool is_local_reserved_port(struct net *net, unsigned short port)
{
	ports_tried++;
	return inet_is_local_reserved_port(net, port);
}

#define inet_is_local_reserved_port	is_local_reserved_port
#define capable				caller_capable
#define ns_capable			caller_ns_capable

void *cm_zalloc_nowait(struct mem_cgroup *memcg, size_t size)
{
	return kzalloc(size, GFP_KERNEL);
}

bool cm_dev_exists_for(struct cm_id *id)
{
	return caller.has_device;
}

#include "port.c"
#include "ports.h"

static bool reserve_by_default;

enum { ANY = INADDR_ANY, LOCAL = 0x0a000001, REMOTE = 0x0a000002 };

static struct cm_id *make_id(struct kunit *test, u32 addr, u16 port)
{
	struct cm_id *id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	struct sockaddr_in *sin;

	KUNIT_ASSERT_NOT_NULL(test, id);
	sin = (struct sockaddr_in *)cm_src(id);
	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(addr);
	sin->sin_port = htons(port);
	id->base.id.route.addr.dev_addr.net = &init_net;
	id->bind.ps = RDMA_PS_TCP;
	spin_lock_init(&id->lock);
	mutex_init(&id->listen_mutex);
	return id;
}

/* --- tests ---------------------------------------------------------------- */

struct pair {
	const char *name;
	u32 first, second;
	bool reuse_first, reuse_second;
	int result;
};

static const struct pair pairs[] = {
	{ "the same address", LOCAL, LOCAL, false, false, -EADDRINUSE },
	{ "other addresses", LOCAL, REMOTE, false, false, 0 },
	{ "wildcard after address", LOCAL, ANY, false, false, -EADDRNOTAVAIL },
	{ "address after wildcard", ANY, LOCAL, false, false, -EADDRNOTAVAIL },
	{ "two cm_wildcard_ids", ANY, ANY, false, false, -EADDRNOTAVAIL },
	{ "both reuse", LOCAL, LOCAL, true, true, 0 },
	{ "both reuse, one is a wildcard", ANY, LOCAL, true, true, 0 },
	{ "only the first reuses", LOCAL, LOCAL, true, false, -EADDRINUSE },
	{ "only the second reuses", LOCAL, LOCAL, false, true, -EADDRINUSE },
};

NAMED_PARAM(pair, pairs);

static void two_ids_of_one_port(struct kunit *test)
{
	const struct pair *pair = test->param_value;
	struct cm_id *first = make_id(test, pair->first, 7174);
	struct cm_id *second = make_id(test, pair->second, 7174);

	first->bind.reuse = pair->reuse_first;
	second->bind.reuse = pair->reuse_second;
	KUNIT_ASSERT_EQ(test, cm_port_assign(first), 0);
	KUNIT_EXPECT_EQ(test, cm_port_assign(second), pair->result);
	if (!pair->result)
		cm_port_release(second);
	cm_port_release(first);
	/* The port is free again. */
	KUNIT_EXPECT_EQ(test, cm_port_assign(second), 0);
	cm_port_release(second);
	KUNIT_EXPECT_TRUE(test, ports_are_free());
}

static void port_spaces_are_separate(struct kunit *test)
{
	struct cm_id *tcp = make_id(test, LOCAL, 7174), *udp = make_id(test, LOCAL, 7174);

	udp->bind.ps = RDMA_PS_UDP;
	KUNIT_EXPECT_EQ(test, cm_port_assign(tcp), 0);
	KUNIT_EXPECT_EQ(test, cm_port_assign(udp), 0);
	cm_port_release(tcp);
	cm_port_release(udp);
}

static void a_listener_does_not_share_its_port(struct kunit *test)
{
	struct cm_id *first = make_id(test, LOCAL, 7174), *second = make_id(test, LOCAL, 7174);
	struct cm_id *late = make_id(test, LOCAL, 7174);

	first->bind.reuse = true;
	second->bind.reuse = true;
	late->bind.reuse = true;
	KUNIT_ASSERT_EQ(test, cm_port_assign(first), 0);
	KUNIT_ASSERT_EQ(test, cm_port_assign(second), 0);
	KUNIT_EXPECT_EQ(test, cm_port_end_reuse(first), -EADDRINUSE);
	cm_port_release(second);
	KUNIT_EXPECT_EQ(test, cm_port_end_reuse(first), 0);
	KUNIT_EXPECT_EQ(test, cm_port_assign(late), -EADDRINUSE);
	cm_port_release(first);
}

static void a_port_that_the_manager_chooses(struct kunit *test)
{
	struct cm_id *id[64];
	int low, high;
	unsigned int i, j;
	u16 port;

	inet_get_local_port_range(&init_net, &low, &high);
	for (i = 0; i < ARRAY_SIZE(id); i++) {
		id[i] = make_id(test, LOCAL, 0);
		KUNIT_ASSERT_EQ(test, cm_port_assign(id[i]), 0);
		port = cm_addr_port(cm_src(id[i]));
		KUNIT_EXPECT_EQ(test, port, id[i]->bind.port);
		KUNIT_EXPECT_GE(test, port, low);
		KUNIT_EXPECT_LE(test, port, high);
		for (j = 0; j < i; j++)
			KUNIT_EXPECT_NE(test, port, id[j]->bind.port);
	}
	for (i = 0; i < ARRAY_SIZE(id); i++)
		cm_port_release(id[i]);
}

/* All ports of the range are reserved but two (net.ipv4.ip_local_reserved_ports). */
static void a_reserved_port_is_not_chosen(struct kunit *test)
{
	unsigned long *reserved = init_net.ipv4.sysctl_local_reserved_ports;
	struct cm_id *id = make_id(test, LOCAL, 0);
	int low, high;

	inet_get_local_port_range(&init_net, &low, &high);
	KUNIT_ASSERT_TRUE(test, bitmap_empty(reserved, 65536));
	bitmap_set(reserved, low, high - low - 1);
	KUNIT_EXPECT_EQ(test, cm_port_assign(id), 0);
	KUNIT_EXPECT_GE(test, id->bind.port, high - 1);
	cm_port_release(id);
	bitmap_zero(reserved, 65536);
}

static struct socket *host_socket(struct kunit *test, u32 addr, u16 port, int *error)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(addr), .sin_port = htons(port),
	};
	struct socket *sock;

	KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP,
					       &sock), 0);
	sock_set_reuseaddr(sock->sk);
	*error = t3_kernel_bind(sock, (struct sockaddr *)&sin, sizeof(sin));
	return sock;
}

/* A port belongs to the host or to RDMA; without reserve_tcp_ports both may bind it. */
static void host_and_port_space(struct kunit *test)
{
	struct cm_id *id = make_id(test, ANY, 7174);
	struct socket *sock;
	int error;

	KUNIT_ASSERT_TRUE(test, reserve_by_default);
	reserve_tcp_ports = true;
	KUNIT_ASSERT_EQ(test, cm_port_assign(id), 0);
	sock = host_socket(test, ANY, 7174, &error);
	KUNIT_EXPECT_EQ(test, error, -EADDRINUSE);
	sock_release(sock);
	cm_port_release(id);

	sock = host_socket(test, ANY, 7174, &error);
	KUNIT_EXPECT_EQ(test, error, 0);
	KUNIT_ASSERT_EQ(test, kernel_listen(sock, 1), 0);
	KUNIT_EXPECT_EQ(test, cm_port_assign(id), -EADDRINUSE);
	KUNIT_EXPECT_TRUE(test, ports_are_free());
	reserve_tcp_ports = false;
	KUNIT_EXPECT_EQ(test, cm_port_assign(id), 0);
	cm_port_release(id);
	sock_release(sock);
}

/* Both have SO_REUSEADDR, as most servers set it: the id until it listens. */
static void a_listener_shares_with_no_server(struct kunit *test)
{
	struct cm_id *id = make_id(test, ANY, 7174);
	struct socket *sock;
	int error;

	reserve_tcp_ports = true;
	id->bind.reuse = true;
	KUNIT_ASSERT_EQ(test, cm_port_assign(id), 0);
	sock = host_socket(test, ANY, 7174, &error);
	KUNIT_EXPECT_EQ(test, error, 0);
	KUNIT_ASSERT_EQ(test, kernel_listen(sock, 1), 0);
	KUNIT_EXPECT_EQ(test, cm_port_end_reuse(id), -EADDRINUSE);
	KUNIT_EXPECT_TRUE(test, id->bind.reuse);
	sock_release(sock);

	/* Bound, but it does not listen: the first one that listens has the port. */
	sock = host_socket(test, ANY, 7174, &error);
	KUNIT_EXPECT_EQ(test, error, 0);
	KUNIT_EXPECT_EQ(test, cm_port_end_reuse(id), 0);
	KUNIT_EXPECT_EQ(test, kernel_listen(sock, 1), -EADDRINUSE);
	sock_release(sock);
	sock = host_socket(test, ANY, 7174, &error);
	KUNIT_EXPECT_EQ(test, error, -EADDRINUSE);
	sock_release(sock);
	cm_port_release(id);
}

/* A connection of siw keeps the port of its listener, which has been closed. */
static void a_connection_does_not_prevent_a_bind(struct kunit *test)
{
	struct cm_id *id = make_id(test, ANY, 7174);
	struct socket *connection, *server;
	int error;

	reserve_tcp_ports = true;
	connection = host_socket(test, ANY, 7174, &error);
	KUNIT_EXPECT_EQ(test, error, 0);
	KUNIT_EXPECT_EQ(test, cm_port_assign(id), 0);
	server = host_socket(test, ANY, 7174, &error);
	KUNIT_EXPECT_EQ(test, error, -EADDRINUSE);
	sock_release(server);
	cm_port_release(id);
	sock_release(connection);
}

/* A lookup has bound the id: its port is reserved later, and the host may take it before. */
static void a_port_that_is_reserved_late(struct kunit *test)
{
	struct cm_id *id = make_id(test, ANY, 0);
	struct socket *sock, *server;
	int error;
	u16 port;

	reserve_tcp_ports = true;
	id->bind.reserve_late = true;
	KUNIT_ASSERT_EQ(test, cm_port_assign(id), 0);
	KUNIT_EXPECT_NULL(test, id->bind.reserved);
	port = id->bind.port;
	sock = host_socket(test, ANY, port, &error);
	KUNIT_EXPECT_EQ(test, error, 0);
	KUNIT_ASSERT_EQ(test, kernel_listen(sock, 1), 0);
	KUNIT_EXPECT_EQ(test, cm_port_reserve(id, false), -EADDRINUSE);
	KUNIT_EXPECT_EQ(test, id->bind.port, port);
	KUNIT_EXPECT_EQ(test, cm_port_reserve(id, true), 0);
	KUNIT_EXPECT_NE(test, id->bind.port, port);
	KUNIT_EXPECT_EQ(test, cm_addr_port(cm_src(id)), id->bind.port);
	KUNIT_EXPECT_NOT_NULL(test, id->bind.reserved);
	server = host_socket(test, ANY, id->bind.port, &error);
	KUNIT_EXPECT_EQ(test, error, -EADDRINUSE);
	sock_release(server);
	KUNIT_EXPECT_EQ(test, cm_port_reserve(id, true), 0);
	cm_port_release(id);
	KUNIT_EXPECT_TRUE(test, ports_are_free());
	sock_release(sock);
}

/*
 * The host takes the port, and no other one is free: the id has no port, until the next call. Its
 * socket ends with it.
 */
static void a_lost_port(struct kunit *test)
{
	unsigned long *reserved = init_net.ipv4.sysctl_local_reserved_ports;
	struct cm_id *id = make_id(test, ANY, 0), *other = make_id(test, ANY, 0);
	struct socket *sock;
	int error;
	u16 port;

	reserve_tcp_ports = true;
	id->bind.reserve_late = true;
	KUNIT_ASSERT_EQ(test, cm_port_assign(id), 0);
	port = id->bind.port;
	sock = host_socket(test, ANY, port, &error);
	KUNIT_EXPECT_EQ(test, error, 0);
	KUNIT_ASSERT_EQ(test, kernel_listen(sock, 1), 0);
	bitmap_fill(reserved, 65536);
	ports_tried = 0;
	KUNIT_EXPECT_EQ(test, cm_port_reserve(id, true), -EADDRNOTAVAIL);
	/* Others wait for the worker. */
	KUNIT_EXPECT_LE(test, ports_tried, 256u);
	KUNIT_EXPECT_GT(test, ports_tried, 0u);
	KUNIT_EXPECT_TRUE(test, ports_are_free());
	KUNIT_EXPECT_EQ(test, cm_port_reserve(id, true), -EADDRNOTAVAIL);
	bitmap_zero(reserved, 65536);
	sock_release(sock);

	cm_addr_set_port(cm_src(other), port);
	KUNIT_EXPECT_EQ(test, cm_port_assign(other), 0);
	KUNIT_EXPECT_EQ(test, cm_port_reserve(id, false), -EADDRINUSE);
	KUNIT_EXPECT_NULL(test, id->bind.reserved);
	cm_port_release(other);
	KUNIT_EXPECT_EQ(test, cm_port_reserve(id, false), 0);
	KUNIT_EXPECT_NOT_NULL(test, id->bind.reserved);
	KUNIT_EXPECT_FALSE(test, ports_are_free());
	cm_port_release(id);
	sock = host_socket(test, ANY, port, &error);
	KUNIT_EXPECT_EQ(test, error, 0);
	sock_release(sock);
	KUNIT_EXPECT_TRUE(test, ports_are_free());
}

static void a_port_of_the_host_is_known(struct kunit *test)
{
	struct socket *sock;
	int error;

	KUNIT_EXPECT_FALSE(test, cm_port_host_has(&init_net, 7174));
	sock = host_socket(test, ANY, 7174, &error);
	KUNIT_EXPECT_EQ(test, error, 0);
	KUNIT_EXPECT_TRUE(test, cm_port_host_has(&init_net, 7174));
	KUNIT_EXPECT_FALSE(test, cm_port_host_has(&init_net, 7175));
	sock_release(sock);
	KUNIT_EXPECT_FALSE(test, cm_port_host_has(&init_net, 7174));
}

static void addresses_are_copied_under_the_lock_of_their_id(struct kunit *test)
{
	struct cm_id *id = make_id(test, LOCAL, 7174), *other = make_id(test, REMOTE, 7174);

	copies = 0;
	copied_without_lock = false;
	KUNIT_ASSERT_EQ(test, cm_port_assign(id), 0);
	KUNIT_ASSERT_EQ(test, cm_port_assign(other), 0);
	KUNIT_EXPECT_EQ(test, copies, 1u);
	cm_port_release(other);
	cm_addr_set_port(cm_src(other), 0);
	KUNIT_EXPECT_EQ(test, cm_port_take(other, NULL, 7174, false), 0);
	KUNIT_EXPECT_EQ(test, copies, 3u);
	cm_port_set_addr(id, cm_src(id), cm_src(other));
	KUNIT_EXPECT_EQ(test, copies, 4u);
	KUNIT_EXPECT_FALSE(test, copied_without_lock);
	cm_port_release(other);
	cm_port_release(id);
}

/* A bind goes through them while others wait. */
static void the_owners_of_a_port_are_limited(struct kunit *test)
{
	struct cm_id **ids, *other = make_id(test, ANY, 7175), *chosen = make_id(test, LOCAL, 0);
	unsigned int i;

	ids = kunit_kcalloc(test, CM_PORT_MAX_OWNERS + 1, sizeof(*ids), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ids);
	for (i = 0; i <= CM_PORT_MAX_OWNERS; i++) {
		ids[i] = make_id(test, REMOTE, 7174);
		ids[i]->bind.reuse = true;
		KUNIT_ASSERT_EQ(test, cm_port_assign(ids[i]), i < 1024 ? 0 : -ENOBUFS);
	}
	KUNIT_EXPECT_EQ(test, cm_port_take(chosen, NULL, 7174, false), -ENOBUFS);
	KUNIT_EXPECT_EQ(test, cm_port_assign(other), 0);
	cm_port_release(other);
	cm_port_release(ids[0]);
	KUNIT_EXPECT_EQ(test, cm_port_take(chosen, NULL, 7174, false), 0);
	cm_port_release(chosen);
	KUNIT_EXPECT_EQ(test, cm_port_assign(ids[i - 1]), 0);
	for (i = 0; i <= CM_PORT_MAX_OWNERS; i++)
		cm_port_release(ids[i]);
	KUNIT_EXPECT_TRUE(test, ports_are_free());
}

struct privilege {
	const char *name;
	bool own_namespace, root, root_of_own, has_device;
	u16 port;
	bool result;
};

static const struct privilege privileges[] = {
	{ "a user", false, false, false, true, 22, false },
	{ "a user, and another port", false, false, false, true, 1024, true },
	{ "root", false, true, true, true, 22, true },
	{ "root of a namespace without a card", true, false, true, false, 22, false },
	{ "another port there", true, false, true, false, 1024, true },
	{ "the host's root there", true, true, true, false, 22, true },
	{ "root of a namespace with a port of a card", true, false, true, true, 22, true },
	{ "a user there", true, false, false, true, 22, false },
};

NAMED_PARAM(privilege, privileges);

/* In its own namespace a user has all capabilities, and no privileged ports if it wants. */
static void a_privileged_port(struct kunit *test)
{
	const struct privilege *privilege = test->param_value;
	static struct user_namespace user_ns;
	struct cm_id *id = make_id(test, ANY, privilege->port);
	struct net *net = kunit_kzalloc(test, sizeof(*net), GFP_KERNEL);
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, net);
	net->user_ns = privilege->own_namespace ? &user_ns : &init_user_ns;
	net->ipv4.sysctl_ip_prot_sock = privilege->has_device ? PROT_SOCK : 0;
	id->base.id.route.addr.dev_addr.net = net;
	caller.root = privilege->root;
	caller.root_of_own = privilege->root_of_own;
	caller.has_device = privilege->has_device;
	ret = cm_port_assign(id);
	KUNIT_EXPECT_EQ(test, ret, privilege->result ? 0 : -EACCES);
	if (!ret)
		cm_port_release(id);
}

static struct kunit_case port_cases[] = {
	KUNIT_CASE_PARAM(a_privileged_port, privilege_gen_params),
	KUNIT_CASE_PARAM(two_ids_of_one_port, pair_gen_params),
	KUNIT_CASE(port_spaces_are_separate),
	KUNIT_CASE(a_listener_does_not_share_its_port),
	KUNIT_CASE(a_port_that_the_manager_chooses),
	KUNIT_CASE(a_reserved_port_is_not_chosen),
	KUNIT_CASE(addresses_are_copied_under_the_lock_of_their_id),
	KUNIT_CASE(the_owners_of_a_port_are_limited),
	KUNIT_CASE(host_and_port_space),
	KUNIT_CASE(a_listener_shares_with_no_server),
	KUNIT_CASE(a_connection_does_not_prevent_a_bind),
	KUNIT_CASE(a_port_that_is_reserved_late),
	KUNIT_CASE(a_lost_port),
	KUNIT_CASE(a_port_of_the_host_is_known),
	{}
};

/* The host does not have the addresses of most cases. */
static int port_init(struct kunit *test)
{
	reserve_tcp_ports = false;
	return 0;
}

static int port_suite_init(struct kunit_suite *suite)
{
	reserve_by_default = reserve_tcp_ports;
	return cm_ports_init();
}

static void port_suite_exit(struct kunit_suite *suite)
{
	cm_ports_exit();
}

TEST_SUITE("t3_rdma_cm_port", port_cases, .suite_init = port_suite_init,
	   .suite_exit = port_suite_exit, .init = port_init);
