/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Card services: per-user limits for a card's resources. All users of the host share
 * a card, and without a limit one user could exhaust it. So all contexts of one user
 * (a kuid; in a user namespace see t3_cred_user()) together get at most seven eighths
 * of each resource of a device, and the remainder is available to other users. Kernel
 * consumers have no limit, and neither have processes that open the device, listen or
 * connect with CAP_SYS_RESOURCE.
 *
 * Page lists and receive queues need ranges, and within seven eighths a user could leave only gaps
 * of one granule in the whole region. So a user who has more than a sixteenth of it gets nothing
 * that ends in its last eighth.
 *
 * A user's quota is freed with the last context, listener and endpoint of this
 * user on the device. No charge may be left then.
 */
#ifndef T3_QUOTA_H
#define T3_QUOTA_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "t3_context.h"

struct t3_dev;

enum t3_quota_kind {
	T3_QUOTA_PD,
	T3_QUOTA_CQ,
	T3_QUOTA_QP_GROUP,
	T3_QUOTA_STAG,
	T3_QUOTA_PBL,			/* bytes */
	T3_QUOTA_RQT,			/* bytes */
	T3_QUOTA_ATID,
	T3_QUOTA_STID,
	T3_QUOTA_TID,
	T3_QUOTA_L2T,			/* t3_quota_charge_l2t() */
	T3_QUOTA_NUM
};

#define T3_QUOTA_L2T_ENTRIES	2048	/* cxgb3 has as many */

struct t3_quota {
	struct list_head node;		/* in t3_quotas.list */
	unsigned int refs;		/* with its lock */
	kuid_t uid;
	atomic_t used[T3_QUOTA_NUM];
	u32 l2t_users[T3_QUOTA_L2T_ENTRIES];	/* connections by L2T entry; with the lock too */
};

/* Of a device. */
struct t3_quotas {
	spinlock_t lock;		/* also for the references of the elements; irq */
	struct list_head list __guarded_by(&lock);
	/*
	 * Next hops of connections to listeners without a limit. And all that listeners and
	 * connections use that have no user: see t3_listener_get_quota().
	 */
	struct t3_quota peers;
};

void t3_quotas_init(struct t3_quotas *quotas);
void t3_quotas_close(struct t3_quotas *quotas);

/* The quota of the current process; NULL if it has no limit, or an error pointer. */
struct t3_quota *t3_quota_get(struct t3_quotas *quotas);
/* Another reference. Atomic; NULL is allowed here and below. */
struct t3_quota *t3_quota_share(struct t3_quotas *quotas, struct t3_quota *quota);
void t3_quota_put(struct t3_quotas *quotas, struct t3_quota *quota);

/*
 * Charge n of a resource of which the device has a total, and uncharge them.
 * 0, or -ENOMEM above the limit, which is counted. Any context.
 */
int t3_quota_charge(struct t3_dev *dev, struct t3_quota *quota, enum t3_quota_kind kind,
		    u32 n, u32 total);
void t3_quota_uncharge(struct t3_quota *quota, enum t3_quota_kind kind, u32 n);

/*
 * Whether a range, which is charged, may end at this offset of a region: 0, or -ENOMEM as above.
 */
int t3_quota_check_top(struct t3_dev *dev, struct t3_quota *quota, enum t3_quota_kind kind,
		       u32 end, u32 total);

/*
 * The same for an L2T entry, of which connections to one next hop share one: a user is charged for
 * an entry once.
 */
int t3_quota_charge_l2t(struct t3_dev *dev, struct t3_quota *quota, unsigned int entry, u32 total);
void t3_quota_uncharge_l2t(struct t3_dev *dev, struct t3_quota *quota, unsigned int entry);

#endif
