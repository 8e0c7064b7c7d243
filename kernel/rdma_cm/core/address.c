// SPDX-License-Identifier: GPL-2.0
/* Helpers for socket addresses of any family. Pure: they depend on their arguments only. */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/string.h>
#include <rdma/ib.h>
#include <net/ipv6.h>

#include "rdma_cm.h"

static const struct sockaddr_in *cm_sin(const struct sockaddr *addr)
{
	return (const struct sockaddr_in *)addr;
}

static const struct sockaddr_in6 *cm_sin6(const struct sockaddr *addr)
{
	return (const struct sockaddr_in6 *)addr;
}

static const struct sockaddr_ib *cm_sib(const struct sockaddr *addr)
{
	return (const struct sockaddr_ib *)addr;
}

/*
 * Whether an id that is bound to the address uses all devices. RDMA does not run over the loopback
 * interface, so the loopback addresses count as wildcards.
 */
bool cm_addr_any(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return !cm_sin(addr)->sin_addr.s_addr ||
		       ipv4_is_loopback(cm_sin(addr)->sin_addr.s_addr);
	case AF_INET6:
		return ipv6_addr_any(&cm_sin6(addr)->sin6_addr) ||
		       ipv6_addr_loopback(&cm_sin6(addr)->sin6_addr);
	case AF_IB:
		return ib_addr_any(&cm_sib(addr)->sib_addr) ||
		       ib_addr_loopback(&cm_sib(addr)->sib_addr);
	default:
		return true;
	}
}

/* Whether it is the wildcard itself: of each interface, and not only of loopback. */
bool cm_addr_wildcard(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET6)
		return ipv6_addr_any(&cm_sin6(addr)->sin6_addr);
	return addr->sa_family == AF_INET && !cm_sin(addr)->sin_addr.s_addr;
}

/* Whether two addresses are equal but for their ports. */
bool cm_addr_same(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	switch (a->sa_family) {
	case AF_INET:
		return cm_sin(a)->sin_addr.s_addr == cm_sin(b)->sin_addr.s_addr;
	case AF_INET6:
		/* Each link has its own link-local addresses. */
		return ipv6_addr_equal(&cm_sin6(a)->sin6_addr, &cm_sin6(b)->sin6_addr) &&
		       (!(ipv6_addr_type(&cm_sin6(a)->sin6_addr) & IPV6_ADDR_LINKLOCAL) ||
			cm_sin6(a)->sin6_scope_id == cm_sin6(b)->sin6_scope_id);
	default:
		return false;
	}
}

u16 cm_addr_port(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ntohs(cm_sin(addr)->sin_port);
	case AF_INET6:
		return ntohs(cm_sin6(addr)->sin6_port);
	default:
		return 0;
	}
}

void cm_addr_set_port(struct sockaddr *addr, u16 port)
{
	switch (addr->sa_family) {
	case AF_INET:
		((struct sockaddr_in *)addr)->sin_port = htons(port);
		break;
	case AF_INET6:
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
		break;
	}
}

/* Copies as much as the family has; nothing for an unknown family. */
void cm_addr_copy(struct sockaddr *to, const struct sockaddr *from)
{
	memcpy(to, from, rdma_addr_size(from));
}
