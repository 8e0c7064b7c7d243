/* SPDX-License-Identifier: GPL-2.0 */
#ifndef T3_HANDOVER_H
#define T3_HANDOVER_H

#include <linux/skbuff.h>

/*
 * Whose is a message that was handed to the NIC driver? Its send functions give
 * back a negative errno if they do not want it, and otherwise NET_XMIT_*: the
 * message is theirs, and NET_XMIT_CN only means that it waits for room. To free
 * it then is to free it twice (CVE-2015-8812).
 */
static inline int t3_handed_over(struct sk_buff *skb, int ret)
{
	if (ret >= 0)
		return 0;
	kfree_skb(skb);
	return ret;
}

#endif
