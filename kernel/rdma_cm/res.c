// SPDX-License-Identifier: GPL-2.0
/* Ids in ib_core's resource tracking. */
#include <linux/moduleparam.h>

#include "res.h"

static bool show_ids = true;
module_param(show_ids, bool, 0444);
MODULE_PARM_DESC(show_ids, "list ids in `rdma resource` (default: yes)");

static const enum cm_res_state res_states[CM_NUM_STATES] = {
	[CM_IDLE]		= CM_RES_IDLE,
	[CM_BINDING]		= CM_RES_IDLE,
	[CM_BOUND]		= CM_RES_ADDR_BOUND,
	[CM_ADDR_QUERY]		= CM_RES_ADDR_QUERY,
	[CM_ADDR_RESOLVED]	= CM_RES_ADDR_RESOLVED,
	[CM_ROUTE_QUERY]	= CM_RES_ROUTE_QUERY,
	[CM_ROUTE_RESOLVED]	= CM_RES_ROUTE_RESOLVED,
	[CM_LISTENING]		= CM_RES_LISTEN,
	[CM_CONNECTING]		= CM_RES_CONNECT,
	[CM_ANSWERED]		= CM_RES_CONNECT,
	[CM_REQUESTED]		= CM_RES_CONNECT,
	[CM_ACCEPTING]		= CM_RES_CONNECT,
	[CM_CANCELLING]		= CM_RES_CONNECT,
	[CM_CONNECTED]		= CM_RES_CONNECT,
	[CM_CLOSING]		= CM_RES_CONNECT,
	[CM_CLOSED]		= CM_RES_DISCONNECT,
	[CM_REMOVED]		= CM_RES_DEVICE_REMOVAL,
	[CM_DYING]		= CM_RES_DESTROYING,
};

enum cm_res_state cm_res_state(enum cm_state state)
{
	return res_states[state];
}

/**
 * cm_res_init - say whose an id is
 * @mirror: the id's
 * @caller: name of the kernel module, or NULL for the current process
 * @parent: a listener that the id comes from, or NULL; goes before @caller
 */
void cm_res_init(struct cm_mirror *mirror, const char *caller, const struct cm_mirror *parent)
{
	rdma_restrack_new(&mirror->res, RDMA_RESTRACK_CM_ID);
	if (parent)
		rdma_restrack_parent_name(&mirror->res, &parent->res);
	else
		rdma_restrack_set_name(&mirror->res, caller);
}

/*
 * Whether the driver may be asked to add to an entry. A driver may take the id for one of
 * rdma_cm's and reach further into it, as cxgb4 does. iw_cxgb3 reads its public part only.
 */
static bool cm_res_driver_is_safe(const struct ib_device *device)
{
	return !device->ops.fill_res_cm_id_entry || device->ops.driver_id == RDMA_DRIVER_CXGB3;
}

/* List an id that got its device, unless its driver would misread it. */
void cm_res_show(struct cm_mirror *mirror)
{
	if (show_ids && cm_res_driver_is_safe(mirror->id.device))
		rdma_restrack_add(&mirror->res);
}

/* Sleeps until nobody reads the entry. */
void cm_res_hide(struct cm_mirror *mirror)
{
	rdma_restrack_del(&mirror->res);
}
