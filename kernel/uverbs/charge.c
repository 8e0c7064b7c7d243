// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts and objects are charged to the rdma cgroup of the process that creates
 * them. The root of that hierarchy has no limits and shows no counts, so for a
 * process in the root nothing is charged. This avoids ib_core's lock, which all
 * processes share.
 */

#include <linux/cgroup.h>

#include "core_calls.h"
#include "uverbs.h"

#ifdef CONFIG_CGROUP_RDMA

static bool uv_in_root_cgroup(void)
{
	bool root;

	/* Unlike rcu_read_lock() it is inline in each configuration. */
	rcu_read_lock_sched();
	root = !task_css_check(current, rdma_cgrp_id, rcu_read_lock_sched_held())->parent;
	rcu_read_unlock_sched();
	return root;
}

int uv_charge(struct ib_rdmacg_object *cg, struct ib_device *dev, enum rdmacg_resource_type type)
{
	if (!uv_in_root_cgroup())
		return ib_rdmacg_try_charge(cg, dev, type);
	cg->cg = NULL;
	return 0;
}

/* Uncharges the cgroup that was charged, which need not be that of the caller. */
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
