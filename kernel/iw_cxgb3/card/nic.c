// SPDX-License-Identifier: GPL-2.0
/*
 * Use of the NIC driver: only while the card is not gone, under RCU. The remove callback waits
 * for a grace period before cxgb3 frees its tables.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/skbuff.h>

#include "handover.h"
#include "card.h"

static unsigned int card_timeout_secs = 10;
module_param(card_timeout_secs, uint, 0644);
MODULE_PARM_DESC(card_timeout_secs,
		 "seconds without a reply after which the card is declared dead (default 10)");

unsigned long t3_card_timeout(void)
{
	return clamp(READ_ONCE(card_timeout_secs), 1U, 3600U) * HZ;
}

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

/*
 * Commands on SGE contexts execute one at a time. cxgb3 polls 100 us for the end of its command;
 * -EIO or -EAGAIN if that is too short, -EBUSY for the next command until the card is done. The
 * card executes each of them, and all of ours may be repeated.
 */
int t3_dev_context_ctl(struct t3_dev *dev, unsigned int req, void *data, bool may_sleep)
{
	u32 limit_ms = may_sleep ? jiffies_to_msecs(t3_card_timeout()) : T3_CONTEXT_ATOMIC_MS;
	u32 attempts = 0, least = may_sleep ? T3_CONTEXT_ATTEMPTS : 1;
	ktime_t end = ktime_add_ms(ktime_get(), limit_ms);
	bool last;
	int ret;

	do {
		/* Before the attempt: one always follows, even if this thread stood still. */
		last = ++attempts >= least && ktime_after(ktime_get(), end);
		ret = t3_dev_ctl(dev, req, data);
		if (ret != -EBUSY && ret != -EIO && ret != -EAGAIN)
			break;
		if (may_sleep)
			usleep_range(100, 1000);
		else
			udelay(5);
	} while (!last && !t3_dev_gone(dev));
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
