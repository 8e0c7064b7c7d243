// SPDX-License-Identifier: GPL-2.0
/*
 * Use of the NIC driver: only while the card is not gone, under RCU. The remove callback waits
 * for a grace period before cxgb3 frees its tables.
 */
#include <linux/skbuff.h>

#include "handover.h"
#include "iw_cxgb3.h"

bool t3_dev_enter(struct t3_dev *dev)
{
	rcu_read_lock();
	if (!t3_dev_gone(dev)) {
		__release_shared(RCU);	/* sparse: see t3_dev_leave() */
		return true;
	}
	rcu_read_unlock();
	return false;
}

int t3_dev_ctl(struct t3_dev *dev, unsigned int req, void *data)
{
	int ret;

	if (!t3_dev_enter(dev))
		return -EIO;
	ret = dev->tdev->ctl(dev->tdev, req, data);
	t3_dev_leave(dev);
	return ret;
}

int t3_dev_send(struct t3_dev *dev, struct sk_buff *skb)
{
	int ret;

	if (!t3_dev_enter(dev)) {
		kfree_skb(skb);
		return -EIO;
	}
	ret = cxgb3_ofld_send(dev->tdev, skb);
	t3_dev_leave(dev);
	return t3_handed_over(skb, ret);
}
