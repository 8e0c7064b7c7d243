/* SPDX-License-Identifier: GPL-2.0 */
#ifndef T3_HANDOVER_H
#define T3_HANDOVER_H

#include <linux/skbuff.h>

/*
 * Ownership of a message that was passed to the NIC driver. Its send functions
 * return a negative errno if they have not taken the message. Otherwise they own it
 * and return NET_XMIT_*; NET_XMIT_CN only means that it is queued for free slots.
 * Freeing the message then would be a double free (CVE-2015-8812).
 */
static inline int t3_handed_over(struct sk_buff *skb, int ret)
{
	if (ret >= 0)
		return 0;
	kfree_skb(skb);
	return ret;
}

#endif
