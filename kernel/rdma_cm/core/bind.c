// SPDX-License-Identifier: GPL-2.0
/*
 * The addresses, the device and the port of an id: bind, and the result of a lookup (resolve.c).
 *
 * A call changes the addresses of an id in CM_ST_BINDING and CM_ST_ADDR_QUERY, where the table
 * refuses other calls. After a lookup the worker changes them: the callback of the lookup, or the
 * call that has the result at once, stores the result in @peer and posts an event.
 */
#include <net/ipv6.h>
#include <net/net_namespace.h>

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

int cm_bind(struct cm_id *id, const struct sockaddr *addr, const struct sockaddr *dst)
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
 * -ENOBUFS if 1,024 ids share the port; -ENODEV if no RDMA device has the address.
 */
int t3_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return cm_bind(to_cm_id(id), addr, NULL);
}

/* --- a lookup ------------------------------------------------------------ */

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
