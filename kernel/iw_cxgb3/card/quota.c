// SPDX-License-Identifier: GPL-2.0
/*
 * Shares of a card's resources, by user.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/slab.h>

#include <t3_cred.h>

#include "card.h"

static const char * const t3_quota_names[T3_QUOTA_NUM] = {
	[T3_QUOTA_PD]		= "protection domains",
	[T3_QUOTA_CQ]		= "completion queues",
	[T3_QUOTA_QP_GROUP]	= "doorbell pages",
	[T3_QUOTA_STAG]		= "STags",
	[T3_QUOTA_PBL]		= "bytes of page lists",
	[T3_QUOTA_RQT]		= "bytes of receive queues",
	[T3_QUOTA_ATID]		= "active opens",
	[T3_QUOTA_STID]		= "listeners",
	[T3_QUOTA_TID]		= "connections",
	[T3_QUOTA_L2T]		= "next hops",
};

void t3_quotas_init(struct t3_quotas *quotas)
{
	spin_lock_init(&quotas->lock);
	context_unsafe(INIT_LIST_HEAD(&quotas->list)); /* not published yet */
	quotas->peers.refs = 1;		/* its own: it is never freed */
}

/* All contexts, endpoints and listeners of the device are released. */
void t3_quotas_close(struct t3_quotas *quotas)
{
	WARN_ON(!context_unsafe(list_empty(&quotas->list)));	/* there is no user any more */
	WARN_ON(quotas->peers.refs != 1);
}

/* With the lock. */
static struct t3_quota *t3_quota_find(const struct t3_quotas *quotas, kuid_t uid)
{
	struct t3_quota *quota;

	lockdep_assert_held(&quotas->lock);
	list_for_each_entry(quota, &quotas->list, node)
		if (uid_eq(quota->uid, uid))
			return quota;
	return NULL;
}

static void t3_quota_hold(const struct t3_quotas *quotas, struct t3_quota *quota)
	__must_hold(&quotas->lock)
{
	lockdep_assert_held(&quotas->lock);
	quota->refs++;
}

struct t3_quota *t3_quota_get(struct t3_quotas *quotas)
{
	struct t3_quota *quota, *new;
	unsigned long flags;

	if (capable(CAP_SYS_RESOURCE))
		return NULL;
	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return ERR_PTR(-ENOMEM);
	new->uid = t3_cred_user(current_cred());
	spin_lock_irqsave(&quotas->lock, flags);
	quota = t3_quota_find(quotas, new->uid);
	if (!quota) {
		quota = new;
		new = NULL;
		list_add(&quota->node, &quotas->list);
	}
	t3_quota_hold(quotas, quota);
	spin_unlock_irqrestore(&quotas->lock, flags);
	kfree(new);
	return quota;
}

struct t3_quota *t3_quota_share(struct t3_quotas *quotas, struct t3_quota *quota)
{
	unsigned long flags;

	if (quota) {
		spin_lock_irqsave(&quotas->lock, flags);
		t3_quota_hold(quotas, quota);
		spin_unlock_irqrestore(&quotas->lock, flags);
	}
	return quota;
}

/* With the lock. Return: it was the last reference, and the caller frees the account. */
static bool t3_quota_drop(const struct t3_quotas *quotas, struct t3_quota *quota)
{
	lockdep_assert_held(&quotas->lock);
	if (--quota->refs)
		return false;
	list_del(&quota->node);
	return true;
}

void t3_quota_put(struct t3_quotas *quotas, struct t3_quota *quota)
{
	unsigned long flags;
	bool last;
	int i;

	if (!quota)
		return;
	spin_lock_irqsave(&quotas->lock, flags);
	last = t3_quota_drop(quotas, quota);
	spin_unlock_irqrestore(&quotas->lock, flags);
	if (!last)
		return;
	for (i = 0; i < T3_QUOTA_NUM; i++)
		WARN_ONCE(atomic_read(&quota->used[i]), "%d %s are still charged\n",
			  atomic_read(&quota->used[i]), t3_quota_names[i]);
	kfree(quota);
}

static int t3_quota_refuse(struct t3_dev *dev, const struct t3_quota *quota,
			   enum t3_quota_kind kind, u32 limit, u32 total)
{
	t3_count(dev, T3_CNT_OVER_QUOTA);
	ibdev_dbg(&dev->ibdev, "user %u is at the limit for %s, %u of %u\n",
		  __kuid_val(quota->uid), t3_quota_names[kind], limit, total);
	return -ENOMEM;
}

int t3_quota_charge(struct t3_dev *dev, struct t3_quota *quota, enum t3_quota_kind kind,
		    u32 n, u32 total)
{
	u32 limit = total - total / 8;

	if (!quota)
		return 0;
	if ((u32)atomic_add_return(n, &quota->used[kind]) <= limit)
		return 0;
	atomic_sub(n, &quota->used[kind]);
	return t3_quota_refuse(dev, quota, kind, limit, total);
}

int t3_quota_check_top(struct t3_dev *dev, struct t3_quota *quota, enum t3_quota_kind kind,
		       u32 end, u32 total)
{
	u32 limit = total / 16;

	if (!quota || end <= total - total / 8 || (u32)atomic_read(&quota->used[kind]) <= limit)
		return 0;
	return t3_quota_refuse(dev, quota, kind, limit, total);
}

void t3_quota_uncharge(struct t3_quota *quota, enum t3_quota_kind kind, u32 n)
{
	if (quota)
		WARN_ON_ONCE(atomic_sub_return(n, &quota->used[kind]) < 0);
}

int t3_quota_charge_l2t(struct t3_dev *dev, struct t3_quota *quota, unsigned int entry, u32 total)
{
	unsigned long flags;
	int err = 0;

	if (!quota)
		return 0;
	if (entry >= T3_QUOTA_L2T_ENTRIES)
		return -ENOMEM;
	spin_lock_irqsave(&dev->quotas.lock, flags);
	if (!quota->l2t_users[entry])
		err = t3_quota_charge(dev, quota, T3_QUOTA_L2T, 1, total);
	if (!err)
		quota->l2t_users[entry]++;
	spin_unlock_irqrestore(&dev->quotas.lock, flags);
	return err;
}

void t3_quota_uncharge_l2t(struct t3_dev *dev, struct t3_quota *quota, unsigned int entry)
{
	unsigned long flags;

	if (!quota)
		return;
	spin_lock_irqsave(&dev->quotas.lock, flags);
	if (!--quota->l2t_users[entry])
		t3_quota_uncharge(quota, T3_QUOTA_L2T, 1);
	spin_unlock_irqrestore(&dev->quotas.lock, flags);
}
