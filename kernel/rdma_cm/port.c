// SPDX-License-Identifier: GPL-2.0
/*
 * Port spaces, with the rules of sockets.
 *
 * Each network namespace has one port space per RDMA_PS_*. Two owners of a port do not conflict if
 * both allow reuse, or if they have different specific addresses. A listener does not allow
 * reuse. Errors are those of rdma_cm: EADDRNOTAVAIL for a conflict with a wildcard, EADDRINUSE for
 * equal addresses.
 *
 * The host's TCP stack does not see these ports. With reserve_tcp_ports=1 each bound id of
 * RDMA_PS_TCP holds a socket on its port, so that the host and RDMA do not use one port. It is off
 * by default, as rdma_cm does not do it. A device with sockets of its own (siw) binds the port
 * itself. So an id on such a device holds no socket, and an id without a device releases its
 * socket before it listens or connects on such a device.
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

#include "compat.h"
#include "rdma_cm.h"

static bool reserve_tcp_ports;
module_param(reserve_tcp_ports, bool, 0644);
MODULE_PARM_DESC(reserve_tcp_ports, "hold a TCP socket on the port of each bound id (default: no)");

static DEFINE_MUTEX(cm_ports_mutex);
static DEFINE_HASHTABLE(cm_ports, 8);
static u16 cm_last_port;	/* not assigned again at once: the peer may still remember it */

static u32 cm_port_key(struct cm_id *id, u16 port)
{
	return jhash_3words(hash_ptr(cm_net(id), 32), id->bind.ps, port, 0);
}

/* Whether another id than @id owns the port in @id's port space. */
static bool cm_port_is_owner(struct cm_id *other, struct cm_id *id, u16 port)
{
	return other != id && cm_net(other) == cm_net(id) && other->bind.ps == id->bind.ps &&
	       other->bind.port == port;
}

/* Checks a port that the consumer has chosen. Return: 0, -EADDRNOTAVAIL or -EADDRINUSE. */
static int cm_port_check_shared(struct cm_id *id, u16 port, bool reuse)
{
	struct cm_id *other;

	lockdep_assert_held(&cm_ports_mutex);
	hash_for_each_possible(cm_ports, other, bind.item, cm_port_key(id, port)) {
		if (!cm_port_is_owner(other, id, port) || (reuse && other->bind.reuse))
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

/* Whether two ends of connections are both specific, and different. */
static bool cm_addr_differ(const struct sockaddr *a, const struct sockaddr *b, bool with_port)
{
	if (cm_addr_any(a) || cm_addr_any(b))
		return false;
	return !cm_addr_same(a, b) || (with_port && cm_addr_port(a) != cm_addr_port(b));
}

/* Whether an id can have a port that we choose: no other owner may have the same connection. */
static bool cm_port_is_unique(struct cm_id *id, u16 port)
{
	struct cm_id *other;

	lockdep_assert_held(&cm_ports_mutex);
	hash_for_each_possible(cm_ports, other, bind.item, cm_port_key(id, port))
		if (cm_port_is_owner(other, id, port) &&
		    !cm_addr_differ(cm_src(id), cm_src(other), false) &&
		    !cm_addr_differ(cm_dst(id), cm_dst(other), true))
			return false;
	return true;
}

static bool cm_dev_has_sockets(const struct ib_device *device)
{
	return device->iw_driver_flags & IW_F_NO_PORT_MAP;
}

static bool cm_port_needs_socket(struct cm_id *id)
{
	return reserve_tcp_ports && id->bind.ps == RDMA_PS_TCP &&
	       !(id->dev && cm_dev_has_sockets(id->dev->device));
}

/* Binds a socket, which is not used otherwise, to the port of the host's TCP. */
static int cm_port_reserve_tcp(struct cm_id *id, u16 port)
{
	struct sockaddr_storage storage = id->base.id.route.addr.src_addr;
	struct sockaddr *addr = (struct sockaddr *)&storage;
	struct socket *sock;
	int ret;

	lockdep_assert_held(&cm_ports_mutex);
	if (!cm_port_needs_socket(id))
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

static int cm_port_assign(struct cm_id *id, u16 port)
{
	int ret;

	lockdep_assert_held(&cm_ports_mutex);
	ret = cm_port_reserve_tcp(id, port);
	if (ret)
		return ret;
	id->bind.port = port;
	cm_addr_set_port(cm_src(id), port);
	hash_add(cm_ports, &id->bind.item, cm_port_key(id, port));
	return 0;
}

static int cm_port_assign_any(struct cm_id *id)
{
	int low, high, tries, ret;
	u32 port;

	inet_get_local_port_range(cm_net(id), &low, &high);
	tries = high - low + 1;
	port = low + get_random_u32() % tries;
	for (; tries; tries--, port = port < high ? port + 1 : low) {
		if (port == cm_last_port || !cm_port_is_unique(id, port))
			continue;
		ret = cm_port_assign(id, port);
		if (ret == -EADDRINUSE)
			continue;
		if (!ret)
			cm_last_port = port;
		return ret;
	}
	return -EADDRNOTAVAIL;
}

static int cm_port_assign_requested(struct cm_id *id, u16 port)
{
	int ret;

	if (inet_port_requires_bind_service(cm_net(id), port) &&
	    !ns_capable(cm_net(id)->user_ns, CAP_NET_BIND_SERVICE))
		return -EACCES;
	ret = cm_port_check_shared(id, port, id->bind.reuse);
	return ret ? ret : cm_port_assign(id, port);
}

/**
 * cm_port_get - assign an id the port of its source address, or any port if that is 0
 * @id: the id, in CM_ST_BINDING
 *
 * Return: 0; -EACCES, -EADDRINUSE, -EADDRNOTAVAIL
 */
int cm_port_get(struct cm_id *id)
{
	u16 port = cm_addr_port(cm_src(id));
	int ret;

	mutex_lock(&cm_ports_mutex);
	ret = port ? cm_port_assign_requested(id, port) : cm_port_assign_any(id);
	mutex_unlock(&cm_ports_mutex);
	return ret;
}

static struct socket *cm_port_detach_socket(struct cm_id *id)
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
	sock = cm_port_detach_socket(id);
	mutex_unlock(&cm_ports_mutex);
	T3_RACE_POINT(cm_port_released);
	if (sock)
		sock_release(sock);
}

/**
 * cm_port_release_tcp - release the socket of an id to a provider that binds one of its own
 * @id: the id
 * @device: the provider's device, which is about to listen or connect
 */
void cm_port_release_tcp(struct cm_id *id, const struct ib_device *device)
{
	struct socket *sock;

	if (!cm_dev_has_sockets(device))
		return;
	mutex_lock(&cm_ports_mutex);
	sock = cm_port_detach_socket(id);
	mutex_unlock(&cm_ports_mutex);
	if (sock)
		sock_release(sock);
}

/* Ends the reuse of an id's address. Return: 0, or an error if the address is in use. */
int cm_port_listen(struct cm_id *id)
{
	int ret;

	mutex_lock(&cm_ports_mutex);
	ret = cm_port_check_shared(id, id->bind.port, false);
	if (!ret)
		id->bind.reuse = false;
	mutex_unlock(&cm_ports_mutex);
	return ret;
}
