// SPDX-License-Identifier: GPL-2.0
/*
 * Port spaces: who has which port, by the rules of sockets.
 *
 * A port space is one of a network namespace and of an RDMA_PS_*. Owners of a port
 * do not conflict if all of them allow reuse, or if they have different specific
 * addresses; a listener allows no reuse. Errors are those of rdma_cm: a conflict with
 * a wildcard is EADDRNOTAVAIL, one of equal addresses EADDRINUSE.
 *
 * The host's TCP does not know of these ports. With reserve_tcp_ports=1 each bound id
 * of RDMA_PS_TCP holds a socket on its port, so that neither side takes one from under the
 * other. It is off by default, for rdma_cm does not do it. A device that has sockets of its
 * own (siw) takes the port by them: an id on such a device has none here, and one that is on no
 * device yet gives it back when it comes to listen or connect on such a device.
 */
#include <linux/hashtable.h>
#include <linux/jhash.h>
#include <linux/moduleparam.h>
#include <linux/net.h>
#include <linux/random.h>
#include <linux/user_namespace.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include <t3_race_point.h>

#include "compat_net.h"
#include "rdma_cm.h"

static bool reserve_tcp_ports;
module_param(reserve_tcp_ports, bool, 0644);
MODULE_PARM_DESC(reserve_tcp_ports, "hold a TCP socket on the port of each bound id (default: no)");

static DEFINE_MUTEX(cm_ports_mutex);
static DEFINE_HASHTABLE(ports, 8);
static u16 last_port;	/* not given out twice in a row: its peer may still remember it */

static u32 key_of(struct cm_id *id, u16 port)
{
	return jhash_3words(hash_ptr(cm_net(id), 32), id->bind.ps, port, 0);
}

/* One that owns the port of @id's port space, and is not @id. */
static bool is_owner(struct cm_id *other, struct cm_id *id, u16 port)
{
	return other != id && cm_net(other) == cm_net(id) && other->bind.ps == id->bind.ps &&
	       other->bind.port == port;
}

/* Whether an id may have a port that it asked for. */
static int may_share(struct cm_id *id, u16 port, bool reuse)
{
	struct cm_id *other;

	lockdep_assert_held(&cm_ports_mutex);
	hash_for_each_possible(ports, other, bind.item, key_of(id, port)) {
		if (!is_owner(other, id, port) || (reuse && other->bind.reuse))
			continue;
		if (id->bind.afonly && other->bind.afonly &&
		    cm_src(id)->sa_family != cm_src(other)->sa_family)
			continue;
		if (cm_addr_any(cm_src(id)) || cm_addr_any(cm_src(other)))
			return -EADDRNOTAVAIL;
		if (cm_addr_same(cm_src(id), cm_src(other)))
			return -EADDRINUSE;
	}
	return 0;
}

/* Two ends of connections that are known, and are not one. */
static bool differ(const struct sockaddr *a, const struct sockaddr *b, bool with_port)
{
	if (cm_addr_any(a) || cm_addr_any(b))
		return false;
	return !cm_addr_same(a, b) || (with_port && cm_addr_port(a) != cm_addr_port(b));
}

/* Whether an id that asked for no port can share one: only if its connection differs. */
static bool is_unique(struct cm_id *id, u16 port)
{
	struct cm_id *other;

	lockdep_assert_held(&cm_ports_mutex);
	hash_for_each_possible(ports, other, bind.item, key_of(id, port))
		if (is_owner(other, id, port) && !differ(cm_src(id), cm_src(other), false) &&
		    !differ(cm_dst(id), cm_dst(other), true))
			return false;
	return true;
}

static bool has_sockets(const struct ib_device *device)
{
	return device->iw_driver_flags & IW_F_NO_PORT_MAP;
}

static bool wants_socket(struct cm_id *id)
{
	return reserve_tcp_ports && id->bind.ps == RDMA_PS_TCP &&
	       !(id->dev && has_sockets(id->dev->device));
}

/* A socket that is bound, and never used. */
static int hold_tcp_port(struct cm_id *id, u16 port)
{
	struct sockaddr_storage storage = id->mirror.id.route.addr.src_addr;
	struct sockaddr *addr = (struct sockaddr *)&storage;
	struct socket *sock;
	int ret;

	lockdep_assert_held(&cm_ports_mutex);
	if (!wants_socket(id))
		return 0;
	cm_addr_set_port(addr, port);
	ret = sock_create_kern(cm_net(id), addr->sa_family, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (ret)
		return ret;
	if (id->bind.reuse)
		sock->sk->sk_reuse = SK_CAN_REUSE;
	if (addr->sa_family == AF_INET6)
		sock->sk->sk_ipv6only = id->bind.afonly;
	ret = t3_kernel_bind(sock, addr, rdma_addr_size(addr));
	if (ret)
		sock_release(sock);
	else
		id->bind.reserved = sock;
	return ret;
}

static int take(struct cm_id *id, u16 port)
{
	int ret;

	lockdep_assert_held(&cm_ports_mutex);
	ret = hold_tcp_port(id, port);
	if (ret)
		return ret;
	id->bind.port = port;
	cm_addr_set_port(cm_src(id), port);
	hash_add(ports, &id->bind.item, key_of(id, port));
	return 0;
}

static int take_any(struct cm_id *id)
{
	int low, high, tries, ret;
	u32 port;

	inet_get_local_port_range(cm_net(id), &low, &high);
	tries = high - low + 1;
	port = low + get_random_u32() % tries;
	for (; tries; tries--, port = port < high ? port + 1 : low) {
		if (port == last_port || !is_unique(id, port))
			continue;
		ret = take(id, port);
		if (ret == -EADDRINUSE)
			continue;
		if (!ret)
			last_port = port;
		return ret;
	}
	return -EADDRNOTAVAIL;
}

static int take_this(struct cm_id *id, u16 port)
{
	int ret;

	if (inet_port_requires_bind_service(cm_net(id), port) &&
	    !ns_capable(cm_net(id)->user_ns, CAP_NET_BIND_SERVICE))
		return -EACCES;
	ret = may_share(id, port, id->bind.reuse);
	return ret ? ret : take(id, port);
}

/**
 * cm_port_get - give an id the port of its source address, or any if that is 0
 * @id: the id, in CM_BINDING
 *
 * Return: 0; -EACCES, -EADDRINUSE, -EADDRNOTAVAIL.
 */
int cm_port_get(struct cm_id *id)
{
	u16 port = cm_addr_port(cm_src(id));
	int ret;

	mutex_lock(&cm_ports_mutex);
	ret = port ? take_this(id, port) : take_any(id);
	mutex_unlock(&cm_ports_mutex);
	return ret;
}

static struct socket *forget_socket(struct cm_id *id)
{
	struct socket *sock = id->bind.reserved;

	lockdep_assert_held(&cm_ports_mutex);
	id->bind.reserved = NULL;
	return sock;
}

void cm_port_put(struct cm_id *id)
{
	struct socket *sock;

	mutex_lock(&cm_ports_mutex);
	hash_del(&id->bind.item);
	sock = forget_socket(id);
	mutex_unlock(&cm_ports_mutex);
	T3_RACE_POINT(cm_port_given_back);
	if (sock)
		sock_release(sock);
}

/**
 * cm_port_leave_to - let a provider take the id's port in the host's TCP, if it does so
 * @id: the id
 * @device: the provider's, which is about to listen or connect
 */
void cm_port_leave_to(struct cm_id *id, const struct ib_device *device)
{
	struct socket *sock;

	if (!has_sockets(device))
		return;
	mutex_lock(&cm_ports_mutex);
	sock = forget_socket(id);
	mutex_unlock(&cm_ports_mutex);
	if (sock)
		sock_release(sock);
}

/* A listener shares its address with nobody, from now on. */
int cm_port_listen(struct cm_id *id)
{
	int ret;

	mutex_lock(&cm_ports_mutex);
	ret = may_share(id, id->bind.port, false);
	if (!ret)
		id->bind.reuse = false;
	mutex_unlock(&cm_ports_mutex);
	return ret;
}
