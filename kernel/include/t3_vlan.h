/* SPDX-License-Identifier: GPL-2.0 */
/* VLANs as the card knows them. */
#ifndef T3_VLAN_H
#define T3_VLAN_H

#include <linux/if_vlan.h>

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

#endif
