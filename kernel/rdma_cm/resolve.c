// SPDX-License-Identifier: GPL-2.0
/*
 * From an address to a device: binding, and finding the way to a destination.
 *
 * Addresses of an id change only in states that belong to whoever changes them:
 * CM_BINDING and CM_ADDR_QUERY while a call runs, and the worker's. A lookup's
 * callback leaves its result in @says and posts it, and so does a call that has it at once.
 */
#include <net/ipv6.h>
#include <net/net_namespace.h>

#include <t3_race_point.h>

#include "rdma_cm.h"

/* --- bind ---------------------------------------------------------------- */

/* A link-local address is on the link that it names. */
static int link_of(const struct sockaddr *addr, int *ifindex)
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
 * What librdmacm does to learn whether the 64-byte addresses of later kernels are
 * understood: an IB address that says nothing. It may be had; nothing can be done with it.
 */
static int bind_ib(struct cm_id *id, const struct sockaddr *addr)
{
	if (!cm_addr_any(addr))
		return -ENODEV;
	cm_addr_copy(cm_src(id), addr);
	cm_dst(id)->sa_family = AF_IB;
	return 0;
}

static int bind_inet(struct cm_id *id, const struct sockaddr *addr, const struct sockaddr *dst)
{
	struct rdma_dev_addr *dev_addr = &id->mirror.id.route.addr.dev_addr;
	int ret;

	ret = link_of(addr, &dev_addr->bound_dev_if);
	if (!ret && dst && cm_addr_any(addr))
		ret = link_of(dst, &dev_addr->bound_dev_if);
	if (ret)
		return ret;
	cm_addr_copy(cm_src(id), addr);
	/* Routing fills in the address but not its scope, and a provider's socket wants both. */
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
	return cm_port_get(id);
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
	ret = cm_step(id, CM_EV_BIND, 0, NULL);
	if (ret)
		return ret;
	ret = addr->sa_family == AF_IB ? bind_ib(id, addr) : bind_inet(id, addr, dst);
	if (ret) {
		cm_dev_release(id);
		id->mirror.id.route.addr.dev_addr.bound_dev_if = 0;
		cm_step(id, CM_EV_BIND_FAILED, ret, NULL);
		return ret;
	}
	if (id->dev)
		cm_res_show(&id->mirror);
	T3_RACE_POINT(cm_bind_has_port);
	return cm_step(id, CM_EV_BIND_DONE, 0, NULL);
}

/* For ids that are used before they are bound: any address, any port. */
int cm_bind_any(struct cm_id *id, const struct sockaddr *dst)
{
	struct sockaddr_storage any = { .ss_family = dst ? dst->sa_family : AF_INET };

	return cm_bind(id, (struct sockaddr *)&any, dst);
}

/**
 * t3_rdma_bind_addr - give an id an address and a port
 * @id: the id
 * @addr: an address of this machine, or a wildcard; port 0 is any free port
 *
 * Return: 0; -EINVAL if it has one; -EADDRINUSE, -EADDRNOTAVAIL or -EACCES as for
 * sockets; -ENODEV if no RDMA device has the address.
 */
int t3_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return cm_bind(to_cm_id(id), addr, NULL);
}
EXPORT_SYMBOL(t3_rdma_bind_addr);

/* --- addresses ----------------------------------------------------------- */

static void addr_done(int status, struct sockaddr *src, struct rdma_dev_addr *addr, void *context)
{
	struct cm_id *id = context;
	unsigned long flags;

	/* Once it is not pending any more nobody waits for this function to end. */
	cm_id_get(id);
	cm_addr_copy((struct sockaddr *)&id->says.local, src);
	spin_lock_irqsave(&id->lock, flags);
	id->addr_pending = false;
	spin_unlock_irqrestore(&id->lock, flags);
	T3_RACE_POINT(cm_lookup_done);
	cm_post(id, id, CM_SLOT_ADDR, CM_EV_ADDR_DONE, status, NULL, CM_IN_CALL);
	cm_id_put(id);
}

static void set_pending(struct cm_id *id, bool pending)
{
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	id->addr_pending = pending;
	spin_unlock_irqrestore(&id->lock, flags);
}

/* When an id ends: a lookup that has not called back yet will not any more. */
void cm_addr_stop(struct cm_id *id)
{
	lockdep_assert_held(&id->handler_mutex);
	T3_RACE_POINT(cm_lookup_stop);
	if (READ_ONCE(id->addr_pending))
		rdma_addr_cancel(&id->mirror.id.route.addr.dev_addr);
}

/**
 * cm_addr_result - what a lookup's result means for the id
 * @id: the id; the caller is its worker
 * @status: of the lookup; becomes -ENODEV if the way leads over no RDMA device
 *
 * Return: the event for the state table.
 */
enum cm_event cm_addr_result(struct cm_id *id, int *status)
{
	struct sockaddr_storage before = id->mirror.id.route.addr.src_addr;

	lockdep_assert_held(&id->handler_mutex);
	if (cm_state(id) != CM_ADDR_QUERY)
		return *status ? CM_EV_ADDR_FAILED : CM_EV_ADDR_DONE;
	if (*status)
		goto failed;
	cm_addr_copy(cm_src(id), (struct sockaddr *)&id->says.local);
	if (id->dev)
		return CM_EV_ADDR_DONE;
	*status = cm_dev_attach(id);
	if (*status)
		goto failed;
	cm_res_show(&id->mirror);
	return CM_EV_ADDR_DONE;
failed:
	/* The next lookup may lead elsewhere. */
	id->mirror.id.route.addr.src_addr = before;
	id->mirror.id.route.addr.dev_addr.bound_dev_if = id->bound_if;
	return CM_EV_ADDR_FAILED;
}

/* The wildcard as a destination is this machine, as for sockets. */
static void no_wildcard(struct sockaddr *dst)
{
	if (!cm_addr_any(dst))
		return;
	if (dst->sa_family == AF_INET)
		((struct sockaddr_in *)dst)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)dst)->sin6_addr = in6addr_loopback;
}

static int look_up(struct cm_id *id, const struct sockaddr *dst, unsigned long timeout_ms)
{
	struct rdma_dev_addr *dev_addr = &id->mirror.id.route.addr.dev_addr;
	struct sockaddr *src = (struct sockaddr *)&id->says.local;
	int ret;

	if (cm_src(id)->sa_family != dst->sa_family)
		return -EINVAL;
	if (dst->sa_family == AF_IB)
		return -ENODEV;
	cm_addr_copy(cm_dst(id), dst);
	no_wildcard(cm_dst(id));

	/* The last lookup may still be on its way out (C9). */
	if (id->addr_used)
		rdma_addr_cancel(dev_addr);
	T3_RACE_POINT(cm_lookup_begins);
	cm_addr_copy(src, cm_src(id));
	id->bound_if = dev_addr->bound_dev_if;
	if (cm_route_known(src, cm_dst(id), dev_addr))
		return cm_post(id, id, CM_SLOT_ADDR, CM_EV_ADDR_DONE, 0, NULL, CM_IN_CALL);
	dev_addr->bound_dev_if = id->bound_if;
	id->addr_used = true;
	set_pending(id, true);
	T3_RACE_POINT(cm_lookup_pending);
	ret = rdma_resolve_ip(cm_src(id), cm_dst(id), dev_addr, timeout_ms, addr_done, false, id);
	if (ret) {
		set_pending(id, false);
		dev_addr->bound_dev_if = id->bound_if;
	}
	return ret;
}

/**
 * t3_rdma_resolve_addr - find the device and the way to a destination
 * @id: the id; if it is not bound, it is bound first
 * @src: address to bind to, or NULL or of no family: the one that routing chooses
 * @dst: destination
 * @timeout_ms: how long the neighbour may take to answer
 *
 * Return: 0: ADDR_RESOLVED or ADDR_ERROR follows; else what is wrong, and the id is
 * bound, if it could be.
 */
int t3_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			 const struct sockaddr *dst, unsigned long timeout_ms)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (cm_state(cm) != CM_BOUND) {
		ret = src && src->sa_family ? cm_bind(cm, src, dst) : cm_bind_any(cm, dst);
		if (ret)
			return ret;
	}
	ret = cm_step(cm, CM_EV_RESOLVE_ADDR, 0, NULL);
	if (ret)
		return ret;
	ret = look_up(cm, dst, timeout_ms);
	if (ret)
		cm_step(cm, CM_EV_RESOLVE_FAILED, ret, NULL);
	return ret;
}
EXPORT_SYMBOL(t3_rdma_resolve_addr);

/* --- routes -------------------------------------------------------------- */

/**
 * t3_rdma_resolve_route - a step that iWARP has nothing to do in
 * @id: the id
 * @timeout_ms: must not be 0
 *
 * Return: 0: ROUTE_RESOLVED follows; -EINVAL if the address is not resolved.
 */
int t3_rdma_resolve_route(struct rdma_cm_id *id, unsigned long timeout_ms)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (!timeout_ms)
		return -EINVAL;
	ret = cm_step(cm, CM_EV_RESOLVE_ROUTE, 0, NULL);
	if (ret)
		return ret;
	return cm_post(cm, cm, CM_SLOT_ROUTE, CM_EV_ROUTE_DONE, 0, NULL, CM_IN_CALL);
}
EXPORT_SYMBOL(t3_rdma_resolve_route);
