// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts and objects are charged to the rdma cgroup of who makes them. The
 * root of that hierarchy has no limits and shows no counts, so what is made
 * there is charged to nobody: ib_core would go through a lock that all
 * processes share, to count what no one can read.
 */

#include <linux/cgroup.h>

#include "core_calls.h"
#include "uverbs.h"

#ifdef CONFIG_CGROUP_RDMA

static bool in_root(void)
{
	bool root;

	/* Of RCU's flavours the one that is no function call anywhere. */
	rcu_read_lock_sched();
	root = !task_css_check(current, rdma_cgrp_id, rcu_read_lock_sched_held())->parent;
	rcu_read_unlock_sched();
	return root;
}

int uv_charge(struct ib_rdmacg_object *cg, struct ib_device *dev, enum rdmacg_resource_type type)
{
	if (!in_root())
		return ib_rdmacg_try_charge(cg, dev, type);
	cg->cg = NULL;
	return 0;
}

/* Whom it was charged to, wherever the caller is now. */
void uv_uncharge(struct ib_rdmacg_object *cg, struct ib_device *dev,
		 enum rdmacg_resource_type type)
{
	if (cg->cg)
		ib_rdmacg_uncharge(cg, dev, type);
}

#else

int uv_charge(struct ib_rdmacg_object *cg, struct ib_device *dev, enum rdmacg_resource_type type)
{
	return 0;
}

void uv_uncharge(struct ib_rdmacg_object *cg, struct ib_device *dev,
		 enum rdmacg_resource_type type)
{
}

#endif
