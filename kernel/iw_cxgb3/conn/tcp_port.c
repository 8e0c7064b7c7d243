// SPDX-License-Identifier: GPL-2.0
/*
 * TCP ports of the host that listeners and connects use.
 *
 * The card takes the SYNs to the port of a listener, and the segments of a connection, before the
 * host's TCP sees them. So each of them holds a socket on its local address and port: neither the
 * host's TCP nor RDMA gets a port that the other one uses. A connection that was accepted needs
 * none.
 *
 * A listener holds a socket for each interface whose SYNs it takes, bound to that interface: the
 * ports of the card (of a specific address, its interface), the VLANs on them, and a VRF that these
 * are in, each in its network namespace. So it excludes servers that are bound to one of these
 * interfaces or to none, and not the listener that rdma_cm has on another iWARP device with sockets
 * of its own (siw). Interfaces that are made or moved later are not followed.
 *
 * The socket is that of the manager or of the port mapper in two cases. The ids of t3_rdma_cm have
 * no handler of iw_cm: it holds the ports of its ids from their bind on. iwpmd has a socket on each
 * mapped port.
 *
 * rdma_cm chooses the ports of most connects, and does not know those of the host. So a connect
 * whose port is one of those that the host chooses, too, may get another one, as from a port
 * mapper. Another port has several users only if rdma_cm allows it: ids with the option for that,
 * or the next connect while the last one is still being closed. They share a socket, as do two
 * ports of the card in one VRF.
 *
 * A socket of the kernel does not keep its namespace. It is released when the namespace ends: what
 * is still in the table then, by t3_tcp_ports_net_exit().
 */
#include <linux/hashtable.h>
#include <linux/jhash.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/ip.h>
#include <net/l3mdev.h>
#include <net/net_namespace.h>

#include <t3_netdev.h>
#include <t3_tcp_port.h>

#include "cm.h"

struct t3_tcp_port {
	struct hlist_node node;		/* in t3_tcp_ports */
	unsigned int users;
	struct socket *sock;		/* NULL: its namespace has ended */
	const struct net *net;		/* this and the next ones: constant */
	int ifindex;
	__be32 addr;
	__be16 port;
};

/* An interface whose SYNs a listener takes. */
struct t3_tcp_place {
	struct list_head node;
	struct net *net;
	int ifindex;
	struct t3_tcp_port *held;
};

/* A mutex would let a process without processor time hold up the connections of all users. */
static DEFINE_SPINLOCK(t3_tcp_ports_lock);
static struct hlist_head t3_tcp_ports[1 << 10] __guarded_by(&t3_tcp_ports_lock);

static bool t3_tcp_port_is_managers(const struct iw_cm_id *cm_id)
{
	/* The port of both families is at the same place. */
	const struct sockaddr_in *local = (const void *)&cm_id->local_addr;
	const struct sockaddr_in *mapped = (const void *)&cm_id->m_local_addr;

	return !cm_id->cm_handler || local->sin_port != mapped->sin_port;
}

/* If the port of @local is 0, stores one there. @ifindex: of a listener; 0: of a connect */
static struct socket *t3_tcp_port_bind(struct net *net, int ifindex, struct sockaddr_in *local)
{
	struct sockaddr_in addr = *local;
	struct socket *sock;
	int ret;

	ret = sock_create_kern(net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (ret)
		return ERR_PTR(ret);
	/* As a listener of TCP it may follow one whose connections have not all ended. */
	sock->sk->sk_reuse = ifindex ? SK_CAN_REUSE : SK_NO_REUSE;
	sock->sk->sk_bound_dev_if = ifindex;
	ip_sock_set_freebind(sock->sk);	/* for the address of an interface in a VRF */
	ret = t3_kernel_bind(sock, (struct sockaddr *)&addr, sizeof(addr));
	if (ret) {
		sock_release(sock);
		return ERR_PTR(ret);
	}
	t3_tcp_set_exclusive(sock->sk);
	local->sin_port = inet_sk(sock->sk)->inet_sport;
	return sock;
}

static u32 t3_tcp_port_hash(const struct net *net, int ifindex, const struct sockaddr_in *local)
{
	return jhash_3words((__force u32)local->sin_addr.s_addr, ifindex,
			    (__force u32)local->sin_port, net_hash_mix(net));
}

static bool t3_tcp_port_is_for(const struct t3_tcp_port *held, const struct net *net, int ifindex,
			       const struct sockaddr_in *local)
{
	return net_eq(held->net, net) && held->ifindex == ifindex &&
	       held->addr == local->sin_addr.s_addr && held->port == local->sin_port;
}

/*
 * What another user holds for the same address and port, or NULL. The caller has the namespace, so
 * it has not ended, and no port in it waits for that without a user.
 */
static struct t3_tcp_port *t3_tcp_port_share(const struct net *net, int ifindex,
					     const struct sockaddr_in *local)
{
	u32 hash = t3_tcp_port_hash(net, ifindex, local);
	struct t3_tcp_port *held, *found = NULL;

	spin_lock(&t3_tcp_ports_lock);
	hash_for_each_possible(t3_tcp_ports, held, node, hash) {
		if (t3_tcp_port_is_for(held, net, ifindex, local)) {
			found = held;
			found->users++;
			break;
		}
	}
	spin_unlock(&t3_tcp_ports_lock);
	return found;
}

/*
 * The caller's reference on the namespace keeps it until the socket is in the table, where
 * t3_tcp_ports_net_exit() finds it.
 */
static struct t3_tcp_port *t3_tcp_port_get(struct net *net, int ifindex, struct sockaddr_in *local)
{
	struct socket *sock = t3_tcp_port_bind(net, ifindex, local);
	struct t3_tcp_port *held;

	if (sock == ERR_PTR(-EADDRINUSE)) {
		held = t3_tcp_port_share(net, ifindex, local);
		if (held)
			return held;
		/* The last user may have gone meanwhile. */
		sock = t3_tcp_port_bind(net, ifindex, local);
	}
	if (IS_ERR(sock))
		return ERR_CAST(sock);
	held = kzalloc(sizeof(*held), GFP_KERNEL_ACCOUNT);
	if (!held) {
		sock_release(sock);
		return ERR_PTR(-ENOMEM);
	}
	held->users = 1;
	held->sock = sock;
	held->net = net;
	held->ifindex = ifindex;
	held->addr = local->sin_addr.s_addr;
	held->port = local->sin_port;
	spin_lock(&t3_tcp_ports_lock);
	hash_add(t3_tcp_ports, &held->node, t3_tcp_port_hash(net, ifindex, local));
	spin_unlock(&t3_tcp_ports_lock);
	return held;
}

/**
 * t3_tcp_port_release - release a port
 * @held: from t3_tcp_port_connect(), or NULL
 *
 * May sleep. The namespace does not end before its socket; if it ends already, the port is left to
 * t3_tcp_ports_net_exit().
 */
void t3_tcp_port_release(struct t3_tcp_port *held)
{
	struct net *net = NULL;
	bool last;

	if (!held)
		return;
	spin_lock(&t3_tcp_ports_lock);
	last = !--held->users;
	if (last && held->sock) {
		net = maybe_get_net(sock_net(held->sock->sk));
		last = net;
	}
	if (last)
		hash_del(&held->node);
	spin_unlock(&t3_tcp_ports_lock);
	if (net) {
		sock_release(held->sock);
		put_net(net);
	}
	if (last)
		kfree(held);
}

static bool t3_tcp_port_may_be_any(struct net *net, __be16 port)
{
	int low, high;

	inet_get_local_port_range(net, &low, &high);
	return be16_to_cpu(port) >= low && be16_to_cpu(port) <= high;
}

/*
 * Hold the local port of a connect.
 * @cm_id: its id
 * @local: its local address; if the connect gets another port, that is stored here
 *
 * May sleep. Return: what t3_tcp_port_release() takes; NULL if the manager answers for the port; or
 * an error pointer: -EADDRINUSE, -EACCES, -ENOMEM, -EADDRNOTAVAIL if no port of the card has the
 * address.
 */
struct t3_tcp_port *t3_tcp_port_connect(struct t3_dev *dev, const struct iw_cm_id *cm_id,
					struct sockaddr_in *local)
{
	struct t3_tcp_port *held;
	struct net_device *ndev;
	struct net *net;

	if (t3_tcp_port_is_managers(cm_id))
		return NULL;
	rcu_read_lock();
	ndev = t3_route_local_dev(dev, t3_cm_id_net(cm_id), local->sin_addr.s_addr);
	net = ndev ? maybe_get_net(dev_net(ndev)) : NULL;
	rcu_read_unlock();
	dev_put(ndev);
	if (!net)
		return ERR_PTR(-EADDRNOTAVAIL);
	held = t3_tcp_port_get(net, 0, local);
	if (held == ERR_PTR(-EADDRINUSE) && t3_tcp_port_may_be_any(net, local->sin_port)) {
		local->sin_port = 0;
		held = t3_tcp_port_get(net, 0, local);
	}
	put_net(net);
	return held;
}

/**
 * t3_tcp_is_connected - whether the host's TCP has a connection with the addresses of an endpoint
 * @ep: endpoint with a route
 *
 * The card would take its segments. A connection may have a port that another one holds: if both
 * sockets have SO_REUSEADDR, as those of t3_rdma_cm do. A server may close its listener and keep
 * its connections, and a SYN of any host may have the addresses of one. Any context.
 */
bool t3_tcp_is_connected(const struct t3_ep *ep)
{
	struct sock *sk;

	rcu_read_lock();
	sk = t3_tcp_connection(dev_net(ep->ndev), &ep->local, &ep->remote, ep->ndev->ifindex,
			       l3mdev_master_ifindex_rcu(ep->ndev));
	rcu_read_unlock();
	if (sk)
		sock_gen_put(sk);
	return sk;
}

static int t3_tcp_place_add(struct list_head *places, struct net_device *ndev)
	__must_hold_shared(RCU)
{
	struct t3_tcp_place *place = kzalloc(sizeof(*place), GFP_ATOMIC | __GFP_ACCOUNT);

	if (!place)
		return -ENOMEM;
	place->net = maybe_get_net(dev_net(ndev));
	place->ifindex = ndev->ifindex;
	list_add_tail(&place->node, places);
	return 0;
}

/* An interface, and the VRF that it is in. */
static int t3_tcp_places_at(struct list_head *places, struct net_device *ndev)
	__must_hold_shared(RCU)
{
	struct net_device *vrf = netdev_master_upper_dev_get_rcu(ndev);
	int ret = t3_tcp_place_add(places, ndev);

	if (!ret && vrf && netif_is_l3_master(vrf))
		ret = t3_tcp_place_add(places, vrf);
	return ret;
}

/* @ndev and, if it is a port, the VLANs on it: the card serves no VLAN on a VLAN. */
static int t3_tcp_places_add(struct list_head *places, struct net_device *ndev)
{
	struct net_device *vlan;
	unsigned int id;
	int ret;

	rcu_read_lock();
	ret = t3_tcp_places_at(places, ndev);
	if (!t3_vlan_below(ndev)) {
		t3_for_each_vlan_rcu(ndev, vlan, id)
			if (!ret)
				ret = t3_tcp_places_at(places, vlan);
	}
	rcu_read_unlock();
	return ret;
}

/* Empty if the manager answers for the port. */
static int t3_tcp_places_find(struct list_head *list, struct t3_dev *dev,
			      const struct iw_cm_id *cm_id, __be32 addr)
{
	bool managers = t3_tcp_port_is_managers(cm_id);
	struct net_device *ndev;
	unsigned int i;
	int ret = 0;

	if (addr) {
		ndev = t3_route_local_dev(dev, t3_cm_id_net(cm_id), addr);
		if (!ndev)
			return -EADDRNOTAVAIL;
		if (!managers)
			ret = t3_tcp_places_add(list, ndev);
		dev_put(ndev);
		return ret;
	}
	for (i = 0; !ret && !managers && i < dev->ports.nports; i++)
		ret = t3_tcp_places_add(list, dev->ports.lldevs[i]);
	return ret;
}

static int t3_tcp_place_hold(struct t3_tcp_place *place, struct sockaddr_in *local)
{
	struct t3_tcp_port *held;

	if (!place->net)
		return 0;	/* it ends */
	held = t3_tcp_port_get(place->net, place->ifindex, local);
	if (IS_ERR(held))
		return PTR_ERR(held);
	place->held = held;
	return 0;
}

/*
 * Hold the port of a listener.
 * @cm_id: its id
 * @local: its address
 * @places: an empty list; for t3_tcp_port_unlisten(), after an error, too
 *
 * May sleep. Return: 0, or an error as that of t3_tcp_port_connect(). If the manager holds the
 * port, only the address is checked (-EADDRNOTAVAIL).
 */
int t3_tcp_port_listen(struct t3_dev *dev, const struct iw_cm_id *cm_id, struct sockaddr_in *local,
		       struct list_head *places)
{
	int ret = t3_tcp_places_find(places, dev, cm_id, local->sin_addr.s_addr);
	struct t3_tcp_place *place;

	list_for_each_entry(place, places, node) {
		if (!ret)
			ret = t3_tcp_place_hold(place, local);
		if (place->net)
			put_net(place->net);
	}
	return ret;
}

/**
 * t3_tcp_port_unlisten - release the port of a listener
 * @places: from t3_tcp_port_listen(); empty then
 *
 * May sleep.
 */
void t3_tcp_port_unlisten(struct list_head *places)
{
	struct t3_tcp_place *place, *next;

	list_for_each_entry_safe(place, next, places, node) {
		t3_tcp_port_release(place->held);
		list_del(&place->node);
		kfree(place);
	}
}

static void __net_exit t3_tcp_ports_net_exit(struct net *net)
{
	HLIST_HEAD(ending);
	struct t3_tcp_port *held;
	struct hlist_node *next;
	struct socket *sock;
	unsigned int i;

	spin_lock(&t3_tcp_ports_lock);
	hash_for_each_safe(t3_tcp_ports, i, next, held, node) {
		if (net_eq(held->net, net)) {
			hash_del(&held->node);
			hlist_add_head(&held->node, &ending);
		}
	}
	while (!hlist_empty(&ending)) {
		held = hlist_entry(ending.first, struct t3_tcp_port, node);
		hash_del(&held->node);
		sock = held->sock;
		held->sock = NULL;
		if (!held->users)
			kfree(held);
		spin_unlock(&t3_tcp_ports_lock);
		sock_release(sock);
		spin_lock(&t3_tcp_ports_lock);
	}
	spin_unlock(&t3_tcp_ports_lock);
}

static struct pernet_operations t3_tcp_ports_net_ops = {
	.exit = t3_tcp_ports_net_exit,
};

int t3_tcp_ports_init(void)
{
	return register_pernet_subsys(&t3_tcp_ports_net_ops);
}

void t3_tcp_ports_exit(void)
{
	unregister_pernet_subsys(&t3_tcp_ports_net_ops);
}
