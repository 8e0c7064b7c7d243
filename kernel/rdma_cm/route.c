// SPDX-License-Identifier: GPL-2.0
/* The way to a destination, as far as the kernel knows it already. */
#include <net/neighbour.h>
#include <net/route.h>

#include "rdma_cm.h"

static bool neighbour_known(const struct rtable *rt, const __be32 *dst, struct net_device *ndev,
			    struct rdma_dev_addr *dev_addr)
{
	struct neighbour *neighbour = dst_neigh_lookup(&rt->dst, dst);
	bool known;

	if (!neighbour)
		return false;
	known = READ_ONCE(neighbour->nud_state) & NUD_VALID;
	if (known)
		neigh_ha_snapshot(dev_addr->dst_dev_addr, neighbour, ndev);
	neigh_release(neighbour);
	return known;
}

static bool way_known(const struct rtable *rt, const struct sockaddr_in *dst,
		      struct rdma_dev_addr *dev_addr)
{
	struct net_device *ndev = READ_ONCE(rt->dst.dev);

	/*
	 * An address of this machine: RDMA has it on the device that it belongs to. Any other
	 * is reached by a device that is known, and then rdma_translate_ip() does not ask for
	 * the address.
	 */
	if (ndev->flags & IFF_LOOPBACK) {
		if (rdma_translate_ip((const struct sockaddr *)dst, dev_addr))
			return false;
		memcpy(dev_addr->dst_dev_addr, dev_addr->src_dev_addr, MAX_ADDR_LEN);
		return true;
	}
	if (!neighbour_known(rt, &dst->sin_addr.s_addr, ndev, dev_addr))
		return false;
	dev_addr->bound_dev_if = ndev->ifindex;
	return !rdma_translate_ip((const struct sockaddr *)dst, dev_addr);
}

/**
 * cm_route_known - the answer of a lookup that has nothing to wait for
 * @src: address to come from, or the wildcard; becomes the one that routing chooses
 * @dst: destination
 * @dev_addr: becomes what rdma_resolve_ip() would make of it
 *
 * ib_core tells by a worker even what it knows at once. Only for IPv4, whose lookup is there for
 * modules on every kernel.
 *
 * Return: false if one has to ask rdma_resolve_ip(), be it for what is wrong.
 */
bool cm_route_known(struct sockaddr *src, const struct sockaddr *dst,
		    struct rdma_dev_addr *dev_addr)
{
	const struct sockaddr_in *to = (const struct sockaddr_in *)dst;
	struct sockaddr_in *from = (struct sockaddr_in *)src;
	struct flowi4 flow = {};
	struct rtable *rt;
	bool known;

	if (dst->sa_family != AF_INET)
		return false;
	flow.daddr = to->sin_addr.s_addr;
	flow.saddr = from->sin_addr.s_addr;
	flow.flowi4_oif = dev_addr->bound_dev_if;
	rt = ip_route_output_key(dev_addr->net, &flow);
	if (IS_ERR(rt))
		return false;
	rcu_read_lock();
	known = way_known(rt, to, dev_addr);
	rcu_read_unlock();
	if (known) {
		from->sin_addr.s_addr = flow.saddr;
		dev_addr->hoplimit = ip4_dst_hoplimit(&rt->dst);
		dev_addr->network = rt->rt_uses_gateway ? RDMA_NETWORK_IPV4 : RDMA_NETWORK_IB;
	}
	ip_rt_put(rt);
	return known;
}
