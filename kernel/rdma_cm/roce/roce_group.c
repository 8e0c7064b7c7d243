// SPDX-License-Identifier: GPL-2.0
/*
 * Multicast over RoCE: there is no subnet manager, so a join is local. The MGID is made of the IP
 * address, and the host joins the IP group on the interface, so that switches forward its frames.
 */
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/ipv6.h>
#include <rdma/ib_sa.h>
#include <rdma/rdma_cm_ib.h>

#include "rdma_cm.h"
#include "roce.h"

/* As RoCE version 1 maps an IPv4 group: with the prefix ff0e. Version 2 has an IPv4 header. */
static int cm_group_mgid(const struct cm_group *group, bool version2, union ib_gid *mgid)
{
	const struct sockaddr_in6 *sin6 = (const struct sockaddr_in6 *)&group->addr;
	const struct sockaddr_in *sin = (const struct sockaddr_in *)&group->addr;

	memset(mgid, 0, sizeof(*mgid));
	switch (group->addr.ss_family) {
	case AF_INET:
		if (!ipv4_is_multicast(sin->sin_addr.s_addr))
			return -EINVAL;
		if (!version2) {
			mgid->raw[0] = 0xff;
			mgid->raw[1] = 0x0e;
		}
		mgid->raw[10] = 0xff;
		mgid->raw[11] = 0xff;
		memcpy(&mgid->raw[12], &sin->sin_addr, sizeof(sin->sin_addr));
		return 0;
	case AF_INET6:
		if (!ipv6_addr_is_multicast(&sin6->sin6_addr))
			return -EINVAL;
		if (version2)
			return -EOPNOTSUPP;
		memcpy(mgid->raw, &sin6->sin6_addr, sizeof(mgid->raw));
		return 0;
	default:
		return -EINVAL;
	}
}

/* The host's part; IPv4 only. */
static int cm_group_igmp(const struct cm_group *group, struct net_device *ndev, bool join)
{
	const struct sockaddr_in *sin = (const struct sockaddr_in *)&group->addr;
	struct in_device *in_dev;

	rtnl_lock();
	in_dev = __in_dev_get_rtnl(ndev);
	if (in_dev && join)
		ip_mc_inc_group(in_dev, sin->sin_addr.s_addr);
	else if (in_dev)
		ip_mc_dec_group(in_dev, sin->sin_addr.s_addr);
	rtnl_unlock();
	return in_dev ? 0 : -ENODEV;
}

static int cm_roce_join_on(struct cm_id *id, struct cm_group *group, struct net_device *ndev)
{
	struct rdma_cm_id *cm = &id->base.id;
	enum ib_gid_type type = cm->route.addr.dev_addr.sgid_attr->gid_type;
	bool version2 = type == IB_GID_TYPE_ROCE_UDP_ENCAP;
	struct ib_sa_mcmember_rec rec = {
		.pkey = cpu_to_be16(ROCE_PKEY),
		.hop_limit = version2 ? IPV6_DEFAULT_HOPLIMIT : 1,
		.mtu = iboe_get_mtu(ndev->mtu),
		.rate = IB_RATE_PORT_CURRENT,
		.traffic_class = id->tos,
	};
	int ret;

	ret = cm_group_mgid(group, version2, &rec.mgid);
	if (!ret)
		ret = rec.mtu ? cm_roce_qkey(id, &group->qkey) : -EINVAL;
	if (ret)
		return ret;
	rec.qkey = cpu_to_be32(group->qkey);
	rdma_ip2gid(cm_src(id), &rec.port_gid);
	ret = ib_init_ah_from_mcmember(cm->device, cm->port_num, &rec, ndev, type, &group->ah);
	if (ret)
		return ret;
	group->ifindex = version2 && !group->send_only ? ndev->ifindex : 0;
	if (group->ifindex)
		ret = cm_group_igmp(group, ndev, true);
	if (ret)
		rdma_destroy_ah_attr(&group->ah);
	return ret;
}

int cm_roce_join(struct cm_id *id, struct cm_group *group)
{
	struct rdma_dev_addr *dev_addr = &id->base.id.route.addr.dev_addr;
	struct net_device *ndev;
	int ret;

	ndev = dev_get_by_index(dev_addr->net, dev_addr->bound_dev_if);
	if (!ndev)
		return -ENODEV;
	ret = cm_roce_join_on(id, group, ndev);
	dev_put(ndev);
	return ret;
}

void cm_roce_leave(struct cm_id *id, struct cm_group *group)
{
	struct net_device *ndev;

	rdma_destroy_ah_attr(&group->ah);
	if (!group->ifindex)
		return;
	/* An interface that is gone has left its groups. */
	ndev = dev_get_by_index(cm_net(id), group->ifindex);
	if (!ndev)
		return;
	cm_group_igmp(group, ndev, false);
	dev_put(ndev);
}
