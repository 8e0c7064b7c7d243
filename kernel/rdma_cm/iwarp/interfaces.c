// SPDX-License-Identifier: GPL-2.0
/* iWARP: the net devices of a device, and the addresses on which an id may listen and connect. */
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <net/addrconf.h>

#include <t3_netdev.h>

#include "iwarp.h"

/* ib_core holds the net device of a port, and it is freed after a grace period. */
static struct net_device *cm_iw_port_ndev(struct ib_device *device, u32 port)
	__must_hold_shared(RCU)
{
	return rcu_dereference(device->port_data[port].netdev);
}

/* Any process can give a net device of its own namespace the MAC address of the port. */
bool cm_iw_port_is_on(struct ib_device *device, u32 port, struct net_device *ndev,
		      const struct sockaddr *addr)
{
	bool match;

	rcu_read_lock();
	match = cm_iw_port_ndev(device, port) == ndev;
	rcu_read_unlock();
	return match;
}

/**
 * struct cm_iw_walk - a walk of the net devices of a device: its ports, and the VLANs on these
 * @port: the net device of the port
 * @net: a network namespace
 * @addr: an address
 * @addrs: the addresses that were found
 * @visits: how many net devices to visit, of a walk that another namespace can make long
 * @ipv4: look for IPv4 addresses
 * @ipv6: look for IPv6 addresses
 */
struct cm_iw_walk {
	struct net_device *port;
	struct net *net;
	const struct sockaddr_in6 *addr;
	struct cm_addrs *addrs;
	unsigned int *visits;
	bool ipv4;
	bool ipv6;
};

/* Return: what @visit returns first that is not 0, or 0. */
static int cm_iw_walk(struct ib_device *device, struct cm_iw_walk *walk,
		      int (*visit)(struct net_device *ndev, struct cm_iw_walk *walk))
	__must_hold_shared(RCU)
{
	struct net_device *vlan;
	unsigned int id;
	int ret = 0;
	u32 port;

	rdma_for_each_port(device, port) {
		walk->port = cm_iw_port_ndev(device, port);
		if (!walk->port)
			continue;
		ret = visit(walk->port, walk);
		if (!ret) {
			t3_for_each_vlan_rcu(walk->port, vlan, id) {
				ret = visit(vlan, walk);
				if (ret)
					break;
			}
		}
		if (ret)
			break;
	}
	return ret;
}

static int cm_iw_visit_own(struct net_device *ndev, struct cm_iw_walk *walk)
{
	return net_eq(dev_net(ndev), walk->net);
}

/*
 * An id may listen on the interface. TCP keeps the ports of a VRF apart from those outside, and
 * there the id has its port.
 */
static bool cm_iw_may_listen(struct net_device *ndev, struct cm_iw_walk *walk)
{
	return cm_iw_visit_own(ndev, walk) && !netif_is_l3_slave(ndev);
}

bool cm_iw_is_in_net(struct ib_device *device, struct net *net)
{
	struct cm_iw_walk walk = { .net = net };
	bool found;

	rcu_read_lock();
	found = cm_iw_walk(device, &walk, cm_iw_visit_own);
	rcu_read_unlock();
	return found;
}

static void cm_iw_add_ipv4(const struct net_device *ndev, struct cm_addrs *addrs)
	__must_hold_shared(RCU)
{
	const struct in_device *in_dev = __in_dev_get_rcu(ndev);
	const struct in_ifaddr *ifa;
	struct sockaddr_in *sin;

	if (!in_dev)
		return;
	in_dev_for_each_ifa_rcu(ifa, in_dev) {
		if (addrs->n == CM_MAX_ADDRS)
			break;
		sin = (struct sockaddr_in *)&addrs->at[addrs->n++];
		sin->sin_family = AF_INET;
		sin->sin_addr.s_addr = ifa->ifa_local;
	}
}

static void cm_iw_add_ipv6(const struct net_device *ndev, struct cm_addrs *addrs)
	__must_hold_shared(RCU)
{
	struct inet6_dev *in6_dev = __in6_dev_get(ndev);
	const struct inet6_ifaddr *ifa;
	struct sockaddr_in6 *sin6;

	if (!in6_dev)
		return;
	read_lock_bh(&in6_dev->lock);
	list_for_each_entry(ifa, &in6_dev->addr_list, if_list) {
		if (addrs->n == CM_MAX_ADDRS)
			break;
		sin6 = &addrs->at[addrs->n++];
		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = ifa->addr;
		if (ipv6_addr_type(&ifa->addr) & IPV6_ADDR_LINKLOCAL)
			sin6->sin6_scope_id = ndev->ifindex;
	}
	read_unlock_bh(&in6_dev->lock);
}

/* The addresses of the device's own net devices. */
static int cm_iw_visit_addrs(struct net_device *ndev, struct cm_iw_walk *walk)
	__must_hold_shared(RCU)
{
	if (!cm_iw_may_listen(ndev, walk))
		return 0;
	if (walk->ipv4)
		cm_iw_add_ipv4(ndev, walk->addrs);
	if (walk->ipv6)
		cm_iw_add_ipv6(ndev, walk->addrs);
	return 0;
}

/* The interface itself: a namespace can have routes and addresses that its port does not have. */
static int cm_iw_visit_has_addr(struct net_device *ndev, struct cm_iw_walk *walk)
	__must_hold_shared(RCU)
{
	const struct sockaddr_in6 *addr = walk->addr;
	unsigned int left = CM_MAX_ADDRS;
	struct net_device *found;
	__be32 ipv4;

	if (!cm_iw_may_listen(ndev, walk))
		return false;
	if (addr->sin6_family == AF_INET) {
		ipv4 = ((const struct sockaddr_in *)addr)->sin_addr.s_addr;
		found = __ip_dev_find(walk->net, ipv4, false);
		/* Another interface may have it, too. */
		return found == ndev || (found && t3_netdev_find_ipv4(ndev, ipv4, &left));
	}
	return IS_ENABLED(CONFIG_IPV6) &&
	       (!addr->sin6_scope_id || addr->sin6_scope_id == ndev->ifindex) &&
	       ipv6_chk_addr_and_flags(walk->net, &addr->sin6_addr, ndev, false, true, 0);
}

/*
 * One lookup for each interface, since its namespace chooses how many addresses it has. After too
 * many interfaces the address counts as that of another one.
 */
static int cm_iw_visit_conflict(struct net_device *ndev, struct cm_iw_walk *walk)
	__must_hold_shared(RCU)
{
	const struct sockaddr_in6 *addr = walk->addr;
	struct net *net = dev_net(ndev);

	if (!*walk->visits)
		return true;
	--*walk->visits;
	if (net_eq(net, walk->net))
		return false;
	if (addr->sin6_family == AF_INET)
		return __ip_dev_find(net, ((const struct sockaddr_in *)addr)->sin_addr.s_addr,
				     false) == ndev;
	return IS_ENABLED(CONFIG_IPV6) && !addr->sin6_scope_id &&
	       ipv6_chk_addr(net, &addr->sin6_addr, ndev, 1);
}

/* Any interface, also one that the card does not have: a bridge, a bond, a macvlan, loopback. */
static bool cm_iw_is_local(struct net *net, const struct sockaddr_in6 *addr)
{
	if (addr->sin6_family == AF_INET)
		return __ip_dev_find(net, ((const struct sockaddr_in *)addr)->sin_addr.s_addr,
				     false);
	return IS_ENABLED(CONFIG_IPV6) && !addr->sin6_scope_id &&
	       ipv6_chk_addr(net, &addr->sin6_addr, NULL, 0);
}

/*
 * The card finds a listener by the address, whichever port a SYN comes from. The namespace of the
 * device has priority, with any of its interfaces. If two others have the address on the card,
 * neither can use it: what else they have is chosen by their users.
 */
enum cm_addr_use cm_iw_addr_use(struct cm_id *id, struct ib_device *device,
				const struct sockaddr_in6 *addr, unsigned int *visits)
{
	struct net *owner = read_pnet(&device->coredev.rdma_net);
	struct cm_iw_walk walk = { .net = cm_net(id), .addr = addr, .visits = visits };
	enum cm_addr_use use = CM_ADDR_FREE;

	if (cm_dev_has_sockets(device) || net_eq(owner, walk.net) ||
	    cm_addr_any((const struct sockaddr *)addr))
		return CM_ADDR_FREE;
	rcu_read_lock();
	if (cm_iw_is_local(owner, addr))
		use = CM_ADDR_TAKEN;
	else if (cm_iw_walk(device, &walk, cm_iw_visit_conflict))
		use = CM_ADDR_SHARED;
	rcu_read_unlock();
	return use;
}

int cm_iw_check_addr(struct cm_id *id)
{
	unsigned int visits = CM_MAX_VISITS;
	struct sockaddr_in6 addr = {};

	cm_addr_copy((struct sockaddr *)&addr, cm_src(id));
	return cm_iw_addr_use(id, id->base.id.device, &addr, &visits) ? -EADDRINUSE : 0;
}

/*
 * A listener of the card takes the SYNs to its address from all ports, and a wildcard those to any
 * address: also of a container, a guest behind a bridge, or another host. So the id listens only on
 * addresses that interfaces of the card have in its own namespace, and while they have them.
 */
void cm_iw_listen_addrs(struct cm_id *id, struct ib_device *device, struct cm_addrs *addrs)
{
	const struct sockaddr *src = cm_src(id);
	struct cm_iw_walk walk = {
		.net = cm_net(id), .addrs = addrs,
		.ipv4 = src->sa_family == AF_INET || !id->bind.afonly,
		.ipv6 = src->sa_family == AF_INET6,
	};
	struct sockaddr_in6 addr = {};
	unsigned int i;
	bool due;

	cm_addr_copy((struct sockaddr *)&addr, src);
	walk.addr = &addr;
	rcu_read_lock();
	if (cm_dev_has_sockets(device))
		due = cm_iw_walk(device, &walk, cm_iw_visit_own);
	else if (cm_addr_wildcard(src))
		due = cm_iw_walk(device, &walk, cm_iw_visit_addrs);
	else
		due = cm_iw_walk(device, &walk, cm_iw_visit_has_addr);
	rcu_read_unlock();
	if (due)
		addrs->at[addrs->n++] = addr;
	for (i = 0; i < addrs->n; i++)
		cm_addr_set_port((struct sockaddr *)&addrs->at[i], cm_addr_port(src));
}
