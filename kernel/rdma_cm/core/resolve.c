// SPDX-License-Identifier: GPL-2.0
/*
 * From an address to a device: binding, and resolving the address and the route of a destination.
 *
 * A call changes the addresses of an id in CM_ST_BINDING and CM_ST_ADDR_QUERY, where the table
 * refuses other calls. After a lookup the worker changes them: the callback of the lookup, or the
 * call that has the result at once, stores the result in @peer and posts an event.
 */
#include <net/ipv6.h>
#include <net/neighbour.h>
#include <net/net_namespace.h>
#include <net/route.h>

#include <t3_race_point.h>

#include "rdma_cm.h"

/* --- bind ---------------------------------------------------------------- */

/* The scope of a link-local address is its interface. */
static int cm_addr_scope(const struct sockaddr *addr, int *ifindex)
{
	const struct sockaddr_in6 *sin6 = (const struct sockaddr_in6 *)addr;

	if (addr->sa_family != AF_INET6 ||
	    !(ipv6_addr_type(&sin6->sin6_addr) & IPV6_ADDR_LINKLOCAL))
		return 0;
	if (!sin6->sin6_scope_id)
		return -EINVAL;
	*ifindex = sin6->sin6_scope_id;
	return 0;
}

/*
 * librdmacm binds an id to the IB wildcard address to find out whether the kernel takes addresses
 * of that length. So the bind succeeds; resolve and listen refuse such an id.
 */
static int cm_bind_ib(struct cm_id *id, const struct sockaddr *addr)
{
	if (!cm_addr_any(addr))
		return -ENODEV;
	cm_addr_copy(cm_src(id), addr);
	cm_dst(id)->sa_family = AF_IB;
	return 0;
}

static int cm_bind_inet(struct cm_id *id, const struct sockaddr *addr, const struct sockaddr *dst)
{
	struct rdma_dev_addr *dev_addr = &id->base.id.route.addr.dev_addr;
	int ret;

	ret = cm_addr_scope(addr, &dev_addr->bound_dev_if);
	if (!ret && dst && cm_addr_any(addr))
		ret = cm_addr_scope(dst, &dev_addr->bound_dev_if);
	if (ret)
		return ret;
	cm_addr_copy(cm_src(id), addr);
	/* Routing sets the address without its scope, and a provider's socket needs both. */
	if (dev_addr->bound_dev_if)
		((struct sockaddr_in6 *)cm_src(id))->sin6_scope_id = dev_addr->bound_dev_if;
	if (dst)
		cm_addr_copy(cm_dst(id), dst);
	cm_dst(id)->sa_family = addr->sa_family;
	if (!cm_addr_any(addr)) {
		ret = rdma_translate_ip(addr, dev_addr);
		if (!ret)
			ret = cm_dev_attach(id);
		if (ret)
			return ret;
	}
	if (!id->bind.afonly_set)
		id->bind.afonly = addr->sa_family == AF_INET ||
				  cm_net(id)->ipv6.sysctl.bindv6only;
	/* The lookup that follows finds the device. */
	id->bind.reserve_late = dst && cm_addr_any(addr) && !cm_addr_port(addr);
	return cm_port_assign(id);
}

static int cm_bind(struct cm_id *id, const struct sockaddr *addr, const struct sockaddr *dst)
{
	int ret;

	switch (addr->sa_family) {
	case AF_INET:
	case AF_INET6:
	case AF_IB:
		break;
	default:
		return -EAFNOSUPPORT;
	}
	ret = cm_fsm_apply(id, CM_EV_BIND, 0, NULL);
	if (ret)
		return ret;
	ret = addr->sa_family == AF_IB ? cm_bind_ib(id, addr) : cm_bind_inet(id, addr, dst);
	if (ret) {
		cm_dev_detach(id);
		id->base.id.route.addr.dev_addr.bound_dev_if = 0;
		cm_fsm_apply(id, CM_EV_BIND_FAILED, ret, NULL);
		return ret;
	}
	if (cm_dev_of(id))
		cm_res_add(&id->base);
	T3_RACE_POINT(cm_bind_has_port);
	return cm_fsm_apply(id, CM_EV_BIND_DONE, 0, NULL);
}

/* Binds an id to any port of the wildcard address, for calls on an id that is not bound. */
int cm_bind_any(struct cm_id *id, const struct sockaddr *dst)
{
	struct sockaddr_storage any = { .ss_family = dst ? dst->sa_family : AF_INET };

	return cm_bind(id, (struct sockaddr *)&any, dst);
}

/**
 * t3_rdma_bind_addr - bind an id to an address and a port
 * @id: the id
 * @addr: an address of this machine, or a wildcard; port 0 is any free port
 *
 * Return: 0; -EINVAL if it is bound; -EADDRINUSE, -EADDRNOTAVAIL or -EACCES as for sockets;
 * -ENODEV if no RDMA device has the address.
 */
int t3_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return cm_bind(to_cm_id(id), addr, NULL);
}
EXPORT_SYMBOL(t3_rdma_bind_addr);

/* --- routes that the kernel has ------------------------------------------ */

static bool cm_neigh_lookup(const struct rtable *rt, const __be32 *dst, struct net_device *ndev,
			    struct rdma_dev_addr *dev_addr)
{
	struct neighbour *neighbour = dst_neigh_lookup(&rt->dst, dst);
	bool valid;

	if (!neighbour)
		return false;
	valid = READ_ONCE(neighbour->nud_state) & NUD_VALID;
	if (valid)
		neigh_ha_snapshot(dev_addr->dst_dev_addr, neighbour, ndev);
	neigh_release(neighbour);
	return valid;
}

static bool cm_rt_lookup(const struct rtable *rt, const struct sockaddr_in *dst,
			 struct rdma_dev_addr *dev_addr)
	__must_hold_shared(RCU)
{
	struct net_device *ndev = READ_ONCE(rt->dst.dev);

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "the net device may be freed");

	/*
	 * An address of this machine. RDMA does not use the loopback interface: the device is that
	 * of the interface with the address.
	 */
	if (ndev->flags & IFF_LOOPBACK) {
		if (rdma_translate_ip((const struct sockaddr *)dst, dev_addr))
			return false;
		memcpy(dev_addr->dst_dev_addr, dev_addr->src_dev_addr, MAX_ADDR_LEN);
		return true;
	}
	if (!cm_neigh_lookup(rt, &dst->sin_addr.s_addr, ndev, dev_addr))
		return false;
	/* With an interface in dev_addr rdma_translate_ip() does not look at the address. */
	dev_addr->bound_dev_if = ndev->ifindex;
	return !rdma_translate_ip((const struct sockaddr *)dst, dev_addr);
}

/*
 * Looks a route up without a wait: rdma_resolve_ip() calls back from a worker of ib_core even if
 * the routing and neighbour tables have the result. Only for IPv4, whose routing lookup is exported
 * by every kernel. @src is the source address or the wildcard, and becomes the one that routing
 * chooses; @dev_addr becomes what rdma_resolve_ip() would make of it.
 *
 * Return: false if the caller must use rdma_resolve_ip(), which also finds out what is wrong.
 */
static bool cm_route_lookup(struct sockaddr *src, const struct sockaddr *dst,
			    struct rdma_dev_addr *dev_addr)
{
	const struct sockaddr_in *to = (const struct sockaddr_in *)dst;
	struct sockaddr_in *from = (struct sockaddr_in *)src;
	struct flowi4 flow = {};
	struct rtable *rt;
	bool found;

	if (dst->sa_family != AF_INET)
		return false;
	flow.daddr = to->sin_addr.s_addr;
	flow.saddr = from->sin_addr.s_addr;
	flow.flowi4_oif = dev_addr->bound_dev_if;
	rt = ip_route_output_key(dev_addr->net, &flow);
	if (IS_ERR(rt))
		return false;
	rcu_read_lock();
	found = cm_rt_lookup(rt, to, dev_addr);
	rcu_read_unlock();
	if (found) {
		from->sin_addr.s_addr = flow.saddr;
		dev_addr->hoplimit = ip4_dst_hoplimit(&rt->dst);
		dev_addr->network = rt->rt_uses_gateway ? RDMA_NETWORK_IPV4 : RDMA_NETWORK_IB;
	}
	ip_rt_put(rt);
	return found;
}

/* --- address resolution -------------------------------------------------- */

static void cm_addr_handler(int status, struct sockaddr *src, struct rdma_dev_addr *addr,
			    void *context)
{
	struct cm_id *id = context;

	/* The handler of the event may destroy the id here; cm_addr_cancel() does not wait then. */
	cm_id_get(id);
	cm_addr_copy((struct sockaddr *)&id->peer.local, src);
	WRITE_ONCE(id->addr_task, current);
	T3_RACE_POINT(cm_lookup_done);
	cm_event_post(id, CM_SLOT_ADDR, CM_EV_ADDR_DONE, status, CM_DISPATCH_MAY_SLEEP);
	WRITE_ONCE(id->addr_task, NULL);
	cm_id_put(id);
}

/*
 * For the end of an id: afterwards a lookup does not call back, and its callback has returned, so
 * that the module can be unloaded. The callback waits for nothing. It cannot wait for itself.
 */
void cm_addr_cancel(struct cm_id *id)
{
	lockdep_assert_held(&id->handler_mutex);
	T3_RACE_POINT(cm_addr_cancel_begins);
	if (id->addr_used && READ_ONCE(id->addr_task) != current)
		rdma_addr_cancel(&id->base.id.route.addr.dev_addr);
}

/**
 * cm_addr_result - take over the result of a lookup
 * @id: the id
 * @status: result of the lookup; becomes -ENODEV if no RDMA device is on the route
 *
 * Return: the event for the state table.
 */
enum cm_event cm_addr_result(struct cm_id *id, int *status)
{
	struct sockaddr_storage before = id->base.id.route.addr.src_addr;

	lockdep_assert_held(&id->handler_mutex);
	if (cm_state(id) != CM_ST_ADDR_QUERY)
		return *status ? CM_EV_ADDR_FAILED : CM_EV_ADDR_DONE;
	if (*status)
		goto failed;
	cm_port_set_addr(id, cm_src(id), (struct sockaddr *)&id->peer.local);
	if (cm_dev_of(id))
		return CM_EV_ADDR_DONE;
	*status = cm_dev_attach(id);
	if (*status)
		goto failed;
	*status = cm_port_reserve(id, true);
	if (*status) {
		cm_dev_detach(id);
		goto failed;
	}
	cm_res_add(&id->base);
	return CM_EV_ADDR_DONE;
failed:
	/* The next lookup may find another route. */
	cm_port_set_addr(id, cm_src(id), (struct sockaddr *)&before);
	id->base.id.route.addr.dev_addr.bound_dev_if = id->bound_if;
	return CM_EV_ADDR_FAILED;
}

/* As for sockets, the wildcard as a destination is this machine. */
static void cm_addr_set_dst(struct cm_id *id, const struct sockaddr *to)
{
	struct sockaddr_storage storage = {};
	struct sockaddr *dst = (struct sockaddr *)&storage;

	cm_addr_copy(dst, to);
	if (cm_addr_any(dst) && dst->sa_family == AF_INET)
		((struct sockaddr_in *)dst)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (cm_addr_any(dst))
		((struct sockaddr_in6 *)dst)->sin6_addr = in6addr_loopback;
	cm_port_set_addr(id, cm_dst(id), dst);
}

static int cm_addr_lookup(struct cm_id *id, const struct sockaddr *dst, unsigned long timeout_ms)
{
	struct rdma_dev_addr *dev_addr = &id->base.id.route.addr.dev_addr;
	struct sockaddr *src = (struct sockaddr *)&id->peer.local;
	int ret;

	if (cm_src(id)->sa_family != dst->sa_family)
		return -EINVAL;
	if (dst->sa_family == AF_IB)
		return -ENODEV;
	cm_addr_set_dst(id, dst);
	/* The callback of the last lookup may still run. */
	if (id->addr_used)
		rdma_addr_cancel(dev_addr);
	T3_RACE_POINT(cm_lookup_begins);
	cm_addr_copy(src, cm_src(id));
	id->bound_if = dev_addr->bound_dev_if;
	if (cm_route_lookup(src, cm_dst(id), dev_addr))
		return cm_event_post(id, CM_SLOT_ADDR, CM_EV_ADDR_DONE, 0, CM_DISPATCH_MAY_SLEEP);
	dev_addr->bound_dev_if = id->bound_if;
	id->addr_used = true;
	T3_RACE_POINT(cm_lookup_pending);
	ret = rdma_resolve_ip(cm_src(id), cm_dst(id), dev_addr, timeout_ms, cm_addr_handler, false,
			      id);
	if (ret)
		dev_addr->bound_dev_if = id->bound_if;
	return ret;
}

/**
 * t3_rdma_resolve_addr - find the device and the route to a destination
 * @id: the id; if it is not bound, it is bound first
 * @src: address to bind to; NULL or without a family: routing chooses it
 * @dst: destination
 * @timeout_ms: limit for the reply of the neighbour
 *
 * Return: 0: ADDR_RESOLVED or ADDR_ERROR follows; otherwise an error. The id is bound then, unless
 * the bind failed.
 */
int t3_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			 const struct sockaddr *dst, unsigned long timeout_ms)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (cm_state(cm) != CM_ST_BOUND) {
		ret = src && src->sa_family ? cm_bind(cm, src, dst) : cm_bind_any(cm, dst);
		if (ret)
			return ret;
	}
	ret = cm_fsm_apply(cm, CM_EV_RESOLVE_ADDR, 0, NULL);
	if (ret)
		return ret;
	ret = cm_addr_lookup(cm, dst, timeout_ms);
	if (ret)
		cm_fsm_apply(cm, CM_EV_RESOLVE_FAILED, ret, NULL);
	return ret;
}
EXPORT_SYMBOL(t3_rdma_resolve_addr);

/* --- route resolution ---------------------------------------------------- */

/**
 * t3_rdma_resolve_route - resolve the route to the peer
 * @id: the id
 * @timeout_ms: must not be 0
 *
 * Return: 0: ROUTE_RESOLVED follows; -EINVAL if the address is not resolved; -ENODEV if the
 * interface is gone.
 */
int t3_rdma_resolve_route(struct rdma_cm_id *id, unsigned long timeout_ms)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (!timeout_ms)
		return -EINVAL;
	ret = cm_fsm_apply(cm, CM_EV_RESOLVE_ROUTE, 0, NULL);
	if (ret)
		return ret;
	if (cm_transport(cm)->resolve_route) {
		ret = cm_transport(cm)->resolve_route(cm);
		if (ret) {
			cm_fsm_apply(cm, CM_EV_ROUTE_FAILED, ret, NULL);
			return ret;
		}
	}
	return cm_event_post(cm, CM_SLOT_ROUTE, CM_EV_ROUTE_DONE, 0, CM_DISPATCH_MAY_SLEEP);
}
EXPORT_SYMBOL(t3_rdma_resolve_route);
