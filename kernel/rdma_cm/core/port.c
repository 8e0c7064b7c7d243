// SPDX-License-Identifier: GPL-2.0
/*
 * Port spaces, with the rules of sockets.
 *
 * Each network namespace has one port space per RDMA_PS_*. Two owners of a port do not conflict if
 * both allow reuse, or if they have different specific addresses. A listener does not allow
 * reuse. Errors are those of rdma_cm: EADDRNOTAVAIL for a conflict with a wildcard, EADDRINUSE for
 * equal addresses.
 *
 * The host's TCP stack does not see these ports, but a listener of a card gets the SYNs of the
 * host's listener with the same address. So each bound id of RDMA_PS_TCP holds a socket on its
 * port: neither the host nor RDMA can bind a port that the other one uses. The parameter
 * reserve_tcp_ports=0 turns this off, as rdma_cm does not do it. iw_cxgb3 holds the ports of
 * rdma_cm's ids itself, and knows those of this manager as they have no cm_handler. RoCE does not
 * use the ports of the host, so an id on such a device holds no socket. A device with sockets of
 * its own (siw) binds the port itself. So an id on such a device holds no socket; the socket of an
 * id without a device admits the one of the provider while that listens, and is released before
 * the id connects.
 *
 * A lookup that binds an id chooses a port on which the host's TCP has no socket. When the device
 * is known, or if the id listens all the same, the id gets its socket, if it needs one.
 */
#include <linux/moduleparam.h>
#include <linux/net.h>
#include <linux/random.h>
#include <linux/rhashtable.h>
#include <linux/user_namespace.h>
#include <net/inet_connection_sock.h>
#include <net/inet_hashtables.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include <t3_tcp_port.h>

#include "compat.h"
#include "rdma_cm.h"

static bool reserve_tcp_ports = true;
module_param(reserve_tcp_ports, bool, 0644);
MODULE_PARM_DESC(reserve_tcp_ports, "hold a TCP socket on the port of each bound id (default: yes)");

/* Each bind to a port goes through its owners, under a spinlock. */
#define CM_PORT_MAX_OWNERS	1024
/* How many ports the result of a lookup tries: others wait for its worker. */
#define CM_PORT_TRIES		256

struct cm_port_key {
	struct net *net;
	u32 ps;
	u32 port;
};

/*
 * A port of a port space, while an id owns it or a call is busy with it. The lock is a spinlock:
 * a process without processor time would keep a mutex from workers, and from everyone who tries
 * one port after the other. So an id is an owner before its socket is bound, and leaves the owners
 * again if the host's TCP has the port. Meanwhile another id cannot have the port.
 */
struct cm_port {
	struct rhash_head node;
	struct cm_port_key key;		/* constant */
	unsigned int users;		/* owners and calls, under cm_ports_lock */
	spinlock_t lock;
	unsigned int count __guarded_by(&lock);	/* of owners */
	struct hlist_head owners __guarded_by(&lock);
};

static const struct rhashtable_params cm_ports_params = {
	.key_len = sizeof(struct cm_port_key),
	.key_offset = offsetof(struct cm_port, key),
	.head_offset = offsetof(struct cm_port, node),
	.automatic_shrinking = true,
};

static DEFINE_SPINLOCK(cm_ports_lock);
static struct rhashtable cm_ports;	/* all ports; under cm_ports_lock */

/*
 * It is not assigned again at once: the peer may still remember it. Without a lock two calls may
 * miss each other's port here; the owners of the port decide.
 */
static u16 cm_last_port;

int cm_ports_init(void)
{
	return rhashtable_init(&cm_ports, &cm_ports_params);
}

/* No id is left. */
void cm_ports_exit(void)
{
	rhashtable_destroy(&cm_ports);
}

/* Finds a port, or adds @new, which may be NULL. Return: the port, NULL, or an error. */
static struct cm_port *cm_port_find(const struct cm_port_key *key, struct cm_port *new)
{
	struct cm_port *port;
	int err = 0;

	spin_lock(&cm_ports_lock);
	port = rhashtable_lookup_fast(&cm_ports, key, cm_ports_params);
	if (!port && new) {
		err = rhashtable_insert_fast(&cm_ports, &new->node, cm_ports_params);
		port = err ? NULL : new;
	}
	if (port)
		port->users++;
	spin_unlock(&cm_ports_lock);
	return err ? ERR_PTR(err) : port;
}

/* Return: the port @number in the id's port space, or an error; the caller calls cm_port_put(). */
static struct cm_port *cm_port_get(struct cm_id *id, u16 number)
{
	const struct cm_port_key key = { .net = cm_net(id), .ps = id->bind.ps, .port = number };
	struct cm_port *port = cm_port_find(&key, NULL), *new;

	if (port)
		return port;
	new = cm_zalloc_nowait(id->memcg, sizeof(*new));
	if (!new)
		return ERR_PTR(-ENOMEM);
	new->key = key;
	spin_lock_init(&new->lock);
	/* Not published yet. */
	context_unsafe(INIT_HLIST_HEAD(&new->owners));
	port = cm_port_find(&key, new);
	if (port != new)
		kfree(new);
	return port;
}

/* Look-ups hold the lock, too, and a table that grows that of the bucket. So no reader is left. */
static void cm_port_put(struct cm_port *port)
{
	bool last;

	spin_lock(&cm_ports_lock);
	last = !--port->users;
	if (last)
		rhashtable_remove_fast(&cm_ports, &port->node, cm_ports_params);
	spin_unlock(&cm_ports_lock);
	if (last)
		kfree(port);
}

/* A copy: the result of a lookup may change the address of an owner at any time. */
static struct sockaddr_in6 cm_port_addr(struct cm_id *id, struct sockaddr *from)
{
	struct sockaddr_in6 addr = {};
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	cm_addr_copy((struct sockaddr *)&addr, from);
	spin_unlock_irqrestore(&id->lock, flags);
	return addr;
}

/* Checks a port that the consumer has chosen. Return: 0, -EADDRNOTAVAIL or -EADDRINUSE */
static int cm_port_check_shared(struct cm_port *port, struct cm_id *id, bool reuse)
	__must_hold(&port->lock)
{
	struct sockaddr_in6 addr;
	struct sockaddr *src = (struct sockaddr *)&addr;
	struct cm_id *other;

	lockdep_assert_held(&port->lock);
	hlist_for_each_entry(other, &port->owners, bind.item) {
		if (other == id || (reuse && READ_ONCE(other->bind.reuse)))
			continue;
		addr = cm_port_addr(other, cm_src(other));
		if (id->bind.afonly && other->bind.afonly &&
		    cm_src(id)->sa_family != src->sa_family)
			continue;
		if (cm_addr_any(cm_src(id)) || cm_addr_any(src))
			return -EADDRNOTAVAIL;
		if (cm_addr_same(cm_src(id), src))
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

/* Whether an id can have a port that we choose: no owner may have the same connection. */
static bool cm_port_is_unique(struct cm_port *port, struct cm_id *id)
	__must_hold(&port->lock)
{
	struct sockaddr_in6 src, dst;
	struct cm_id *other;

	lockdep_assert_held(&port->lock);
	hlist_for_each_entry(other, &port->owners, bind.item) {
		src = cm_port_addr(other, cm_src(other));
		dst = cm_port_addr(other, cm_dst(other));
		if (!cm_addr_differ(cm_src(id), (struct sockaddr *)&src, false) &&
		    !cm_addr_differ(cm_dst(id), (struct sockaddr *)&dst, true))
			return false;
	}
	return true;
}

static bool cm_port_needs_socket(struct cm_id *id)
{
	if (!reserve_tcp_ports || id->bind.ps != RDMA_PS_TCP)
		return false;
	return !cm_dev_of(id) ||
	       (cm_transport(id)->tcp && !cm_dev_has_sockets(cm_dev_of(id)->device));
}

/*
 * Creates the socket that reserves a port of the host's TCP; it is used for nothing else. Return:
 * NULL if the id needs none, or if the host has no TCP of its address family.
 */
static struct socket *cm_port_create_socket(struct cm_id *id)
{
	int family = cm_src(id)->sa_family, ret;
	struct socket *sock;

	if (!cm_port_needs_socket(id))
		return NULL;
	ret = sock_create_kern(cm_net(id), family, SOCK_STREAM, IPPROTO_TCP, &sock);
	/* The kernel has no IPv6: the wildcard is that of IPv4. */
	if (ret == -EAFNOSUPPORT && family == AF_INET6 && !id->bind.afonly)
		ret = sock_create_kern(cm_net(id), AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (ret)
		return ret == -EAFNOSUPPORT ? NULL : ERR_PTR(ret);
	/* Connections of siw keep the port, also after their end. They do not prevent a bind. */
	sock->sk->sk_reuse = SK_CAN_REUSE;
	if (sock->sk->sk_family == AF_INET6)
		sock->sk->sk_ipv6only = id->bind.afonly;
	return sock;
}

static int cm_port_bind_socket(struct cm_id *id, struct socket *sock, u16 port)
{
	struct sockaddr_storage storage = id->base.id.route.addr.src_addr;
	struct sockaddr *addr = (struct sockaddr *)&storage;
	int ret;

	if (addr->sa_family != sock->sk->sk_family || id->bind.reserve_late) {
		memset(&storage, 0, sizeof(storage));
		addr->sa_family = sock->sk->sk_family;
	}
	cm_addr_set_port(addr, port);
	ret = t3_kernel_bind(sock, addr, rdma_addr_size(addr));
	if (!ret && !id->bind.reuse)
		t3_tcp_set_exclusive(sock->sk);
	return ret;
}

/* The id is no owner of its port any more. */
static void cm_port_leave(struct cm_id *id)
{
	struct cm_port *port = id->bind.owned;

	spin_lock(&port->lock);
	hlist_del(&id->bind.item);
	port->count--;
	spin_unlock(&port->lock);
	id->bind.owned = NULL;
	cm_port_put(port);
}

/* Makes @id an owner of a port. Return: 0; -EADDRINUSE, -EADDRNOTAVAIL, -ENOBUFS */
static int cm_port_join(struct cm_port *port, struct cm_id *id, bool chosen)
{
	int ret = 0;

	spin_lock(&port->lock);
	if (chosen)
		ret = cm_port_check_shared(port, id, id->bind.reuse);
	else if (!cm_port_is_unique(port, id))
		ret = -EADDRINUSE;
	if (!ret && port->count == CM_PORT_MAX_OWNERS)
		ret = -ENOBUFS;
	if (!ret) {
		hlist_add_head(&id->bind.item, &port->owners);
		port->count++;
		id->bind.owned = port;
	}
	spin_unlock(&port->lock);
	return ret;
}

/*
 * Gives an id a port. @sock: the socket for @id, which owns it on success; or NULL. @chosen: the
 * consumer has chosen the port. Return: 0; -EADDRINUSE, -ENOBUFS: another port may be free;
 * -EADDRNOTAVAIL, -ENOMEM, or another error of the socket.
 */
static int cm_port_take(struct cm_id *id, struct socket *sock, u16 number, bool chosen)
{
	struct cm_port *port = cm_port_get(id, number);
	unsigned long flags;
	int ret;

	if (IS_ERR(port))
		return PTR_ERR(port);
	ret = cm_port_join(port, id, chosen);
	if (ret) {
		cm_port_put(port);
		return ret;
	}
	ret = sock ? cm_port_bind_socket(id, sock, number) : 0;
	if (ret) {
		cm_port_leave(id);
		return ret;
	}
	id->bind.reserved = sock;
	id->bind.port = number;
	/* Calls for other owners may be reading the address. */
	spin_lock_irqsave(&id->lock, flags);
	cm_addr_set_port(cm_src(id), number);
	spin_unlock_irqrestore(&id->lock, flags);
	return 0;
}

/* The host's TCP has a socket on the port, maybe one of a connection that has ended. */
static bool cm_port_host_has(struct net *net, u16 port)
{
	struct inet_hashinfo *info = net->ipv4.tcp_death_row.hashinfo;
	struct inet_bind_hashbucket *head;
	struct inet_bind_bucket *tb;
	bool found = false;

	head = &info->bhash[inet_bhashfn(net, port, info->bhash_size)];
	spin_lock_bh(&head->lock);
	inet_bind_bucket_for_each(tb, &head->chain)
		if (net_eq(ib_net(tb), net) && tb->port == port)
			found = true;
	spin_unlock_bh(&head->lock);
	return found;
}

static int cm_port_assign_any(struct cm_id *id, struct socket *sock, int most)
{
	int low, high, tries, ret;
	u32 port;

	inet_get_local_port_range(cm_net(id), &low, &high);
	port = low + get_random_u32() % (high - low + 1);
	tries = min(most, high - low + 1);
	for (; tries; tries--, port = port < high ? port + 1 : low) {
		cond_resched();
		if (port == READ_ONCE(cm_last_port) ||
		    inet_is_local_reserved_port(cm_net(id), port))
			continue;
		if (id->bind.reserve_late && reserve_tcp_ports &&
		    cm_port_host_has(cm_net(id), port))
			continue;
		ret = cm_port_take(id, sock, port, false);
		if (ret == -EADDRINUSE || ret == -ENOBUFS)
			continue;
		if (!ret)
			WRITE_ONCE(cm_last_port, port);
		return ret;
	}
	return -EADDRNOTAVAIL;
}

/*
 * Any user can create a namespace, with all capabilities and its own range of privileged ports.
 * They count if the administrator has given it a net device of an RDMA device; otherwise the ports
 * of the card are those of the host.
 */
static bool cm_port_permitted(struct cm_id *id, u16 port)
{
	struct net *net = cm_net(id);

	if (net->user_ns == &init_user_ns || cm_dev_exists_for(id))
		return !inet_port_requires_bind_service(net, port) ||
		       ns_capable(net->user_ns, CAP_NET_BIND_SERVICE);
	return port >= PROT_SOCK || capable(CAP_NET_BIND_SERVICE);
}

/**
 * cm_port_assign - assign an id the port of its source address, or any port if that is 0
 * @id: the id, in CM_ST_BINDING
 *
 * Return: 0; -EACCES, -EADDRINUSE (also if the host's TCP has the port), -EADDRNOTAVAIL, -ENOBUFS,
 * -ENOMEM
 */
int cm_port_assign(struct cm_id *id)
{
	struct socket *sock = id->bind.reserve_late ? NULL : cm_port_create_socket(id);
	u16 port = cm_addr_port(cm_src(id));
	int ret;

	if (IS_ERR(sock))
		return PTR_ERR(sock);
	if (!port)
		ret = cm_port_assign_any(id, sock, INT_MAX);
	else if (!cm_port_permitted(id, port))
		ret = -EACCES;
	else
		ret = cm_port_take(id, sock, port, true);
	if (ret && sock)
		sock_release(sock);
	return ret;
}

/* A connect and the end of the id may come at the same time. */
static struct socket *cm_port_detach_socket(struct cm_id *id)
{
	return xchg(&id->bind.reserved, NULL);
}

/* A destroy of an id without a port waits for nothing. */
void cm_port_release(struct cm_id *id)
{
	struct socket *sock = cm_port_detach_socket(id);

	if (id->bind.owned)
		cm_port_leave(id);
	if (sock)
		sock_release(sock);
}

/*
 * The id owns the port already, so this needs no lock. Return: 0; -EADDRINUSE if the host's TCP
 * has the port meanwhile; or another error.
 */
static int cm_port_reserve_own(struct cm_id *id, struct socket *sock)
{
	int ret = cm_port_bind_socket(id, sock, id->bind.port);

	if (!ret)
		id->bind.reserved = sock;
	return ret;
}

/**
 * cm_port_reserve - reserve the port of an id that a lookup has bound, if that is not done yet
 * @id: the id, which has its device, or listens without
 * @any: for the result of a lookup: if the host's TCP has the port meanwhile, take another one
 *
 * If no other one is free, the id has no port, and the next call tries again.
 *
 * Return: 0; -EADDRINUSE, -EADDRNOTAVAIL, -ENOBUFS, -ENOMEM: the next call tries again
 */
int cm_port_reserve(struct cm_id *id, bool any)
{
	struct socket *sock;
	int ret = -EADDRINUSE;

	if (!id->bind.reserve_late)
		return 0;
	sock = cm_port_create_socket(id);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	if (id->bind.owned)
		ret = sock ? cm_port_reserve_own(id, sock) : 0;
	else if (!any)
		ret = cm_port_take(id, sock, id->bind.port, false);
	if (ret == -EADDRINUSE && any) {
		cm_port_release(id);
		ret = cm_port_assign_any(id, sock, CM_PORT_TRIES);
	}
	if (!ret)
		id->bind.reserve_late = false;
	else if (sock)
		sock_release(sock);
	return ret;
}

/* Releases the socket of an id that connects over a provider with sockets of its own. */
void cm_port_release_tcp(struct cm_id *id, const struct ib_device *device)
{
	struct socket *sock;

	if (!cm_dev_has_sockets(device))
		return;
	sock = cm_port_detach_socket(id);
	if (sock)
		sock_release(sock);
}

/**
 * cm_port_share_tcp - admit the socket of a provider on the port of an id, or admit no more
 * @id: the id, which is about to listen on @device, or listens there
 * @device: a device; nothing happens if it has no sockets of its own
 * @share: whether to admit a socket
 *
 * The provider's socket must be one that may reuse its address (SO_REUSEADDR). Once it listens,
 * both remain: TCP checks for conflicts when a socket is bound or starts to listen, not later.
 */
void cm_port_share_tcp(struct cm_id *id, const struct ib_device *device, bool share)
{
	struct socket *sock;

	lockdep_assert_held(&id->listen_mutex);
	if (!cm_dev_has_sockets(device))
		return;
	/* The end of the id ends its listeners first, under this mutex. */
	sock = id->bind.reserved;
	if (sock && share) {
		lock_sock(sock->sk);
		sock->sk->sk_reuse = SK_CAN_REUSE;
		release_sock(sock->sk);
	} else if (sock) {
		t3_tcp_set_exclusive(sock->sk);
	}
}

/* Return: 0, or -EADDRINUSE if another socket listens, or does not allow reuse. */
static int cm_port_end_reuse_tcp(struct sock *sk, u16 port)
{
	int ret;

	lock_sock(sk);
	ret = sk->sk_prot->get_port(sk, port);
	release_sock(sk);
	if (ret)
		return -EADDRINUSE;
	t3_tcp_set_exclusive(sk);
	return 0;
}

/* Ends the reuse of the address of an id with a port. Return: 0, or an error if it is in use. */
int cm_port_end_reuse(struct cm_id *id)
{
	struct cm_port *port = id->bind.owned;
	int ret;

	if (!id->bind.reuse)
		return 0;
	spin_lock(&port->lock);
	ret = cm_port_check_shared(port, id, false);
	if (!ret)
		WRITE_ONCE(id->bind.reuse, false);
	spin_unlock(&port->lock);
	if (ret || !id->bind.reserved)
		return ret;
	ret = cm_port_end_reuse_tcp(id->bind.reserved->sk, id->bind.port);
	if (ret)
		WRITE_ONCE(id->bind.reuse, true);
	return ret;
}

/*
 * Changes an address of @id, which has a port: a call for another id may be reading it. The reply
 * to a connect changes addresses without this; it has the values that they have already, unless
 * the provider has chosen others.
 */
void cm_port_set_addr(struct cm_id *id, struct sockaddr *to, const struct sockaddr *from)
{
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	cm_addr_copy(to, from);
	spin_unlock_irqrestore(&id->lock, flags);
}
