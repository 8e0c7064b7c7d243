// SPDX-License-Identifier: GPL-2.0
/* The consumer's calls that resolve the address and the route of a destination. */
#include <net/neighbour.h>
#include <net/route.h>

#include "rdma_cm.h"

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

/* ib_core looks up all addresses of the machine in one worker, so this waits for nothing. */
static void cm_addr_handler(int status, struct sockaddr *src, struct rdma_dev_addr *addr,
			    void *context)
{
	struct cm_id *id = context;

	cm_id_get(id);
	cm_lookup_end(id);
	cm_addr_copy((struct sockaddr *)&id->peer.local, src);
	cm_event_post(id, CM_SLOT_ADDR, CM_EV_ADDR_DONE, status, CM_DISPATCH_WORKER);
	cm_id_put(id);
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
	cm_addr_cancel(id);		/* the callback of the last lookup may still run */
	cm_addr_copy(src, cm_src(id));
	id->bound_if = dev_addr->bound_dev_if;
	if (cm_route_lookup(src, cm_dst(id), dev_addr))
		return cm_event_post(id, CM_SLOT_ADDR, CM_EV_ADDR_DONE, 0, CM_DISPATCH_MAY_SLEEP);
	dev_addr->bound_dev_if = id->bound_if;
	ret = cm_lookup_begin(id);
	if (ret)
		return ret;
	id->addr_used = true;
	ret = rdma_resolve_ip(cm_src(id), cm_dst(id), dev_addr, timeout_ms, cm_addr_handler, false,
			      id);
	if (ret) {
		cm_lookup_end(id);
		dev_addr->bound_dev_if = id->bound_if;
	}
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
