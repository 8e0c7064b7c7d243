/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The net devices whose addresses a card serves: its ports, and the VLANs on these. A card has no
 * bridges, bonds and macvlans, and users choose what is above.
 */
#ifndef T3_NETDEV_H
#define T3_NETDEV_H

#include <linux/if_vlan.h>
#include <linux/inetdevice.h>

#include <t3_context.h>

/*
 * The interface below a VLAN device, or NULL. Of 802.1Q only, and one step: the card inserts one
 * tag, so that a VLAN in another one would be the inner VLAN of the port.
 */
static inline struct net_device *t3_vlan_below(const struct net_device *ndev)
{
#if IS_ENABLED(CONFIG_VLAN_8021Q)
	if (is_vlan_dev(ndev) && vlan_dev_vlan_proto(ndev) == htons(ETH_P_8021Q))
		return vlan_dev_priv(ndev)->real_dev;
#endif
	return NULL;
}

static inline bool t3_has_vlans(const struct net_device *port)
{
#if IS_ENABLED(CONFIG_VLAN_8021Q)
	return rcu_access_pointer(port->vlan_info);
#else
	return false;
#endif
}

/*
 * The body of the loop runs for each VLAN device on @port. @id counts their ids, of which there are
 * few: users make any number of other interfaces on a port.
 */
#define t3_for_each_vlan_rcu(port, vlan, id)						\
	for ((id) = t3_has_vlans(port) ? 0 : VLAN_N_VID;				\
	     (id) < VLAN_N_VID &&							\
	     ((vlan) = __vlan_find_dev_deep_rcu(port, htons(ETH_P_8021Q), id), true);	\
	     (id)++)									\
		if (!(vlan) || t3_vlan_below(vlan) != (port))				\
			continue;							\
		else

/* @left: how many addresses to look at; those that it has looked at are subtracted. */
static inline bool t3_netdev_find_ipv4(const struct net_device *ndev, __be32 addr,
				       unsigned int *left)
	__must_hold_shared(RCU)
{
	const struct in_device *in_dev = __in_dev_get_rcu(ndev);
	const struct in_ifaddr *ifa;

	if (!in_dev)
		return false;
	in_dev_for_each_ifa_rcu(ifa, in_dev) {
		if (!*left)
			break;
		--*left;
		if (ifa->ifa_local == addr)
			return true;
	}
	return false;
}

#endif
