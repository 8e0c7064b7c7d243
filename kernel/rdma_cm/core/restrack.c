// SPDX-License-Identifier: GPL-2.0
/* Ids in ib_core's resource tracking. */
#include <linux/moduleparam.h>

#include "restrack.h"

static bool show_ids = CM_RES_LAYOUT_IS_CHECKED;
module_param(show_ids, bool, 0444);
MODULE_PARM_DESC(show_ids, "list ids in `rdma resource` (default: yes, if their layout is checked)");

static const enum cm_res_state cm_res_states[CM_NUM_STATES] = {
	[CM_ST_IDLE]		= CM_RES_IDLE,
	[CM_ST_BINDING]		= CM_RES_IDLE,
	[CM_ST_BOUND]		= CM_RES_ADDR_BOUND,
	[CM_ST_ADDR_QUERY]	= CM_RES_ADDR_QUERY,
	[CM_ST_ADDR_RESOLVED]	= CM_RES_ADDR_RESOLVED,
	[CM_ST_ROUTE_QUERY]	= CM_RES_ROUTE_QUERY,
	[CM_ST_ROUTE_RESOLVED]	= CM_RES_ROUTE_RESOLVED,
	[CM_ST_LISTENING]	= CM_RES_LISTEN,
	[CM_ST_CONNECTING]	= CM_RES_CONNECT,
	[CM_ST_RESPONDED]	= CM_RES_CONNECT,
	[CM_ST_REQUESTED]	= CM_RES_CONNECT,
	[CM_ST_ACCEPTING]	= CM_RES_CONNECT,
	[CM_ST_CANCELLING]	= CM_RES_CONNECT,
	[CM_ST_CONNECTED]	= CM_RES_CONNECT,
	[CM_ST_CLOSING]		= CM_RES_CONNECT,
	[CM_ST_CLOSED]		= CM_RES_DISCONNECT,
	[CM_ST_REMOVED]		= CM_RES_DEVICE_REMOVAL,
	[CM_ST_DESTROYING]	= CM_RES_DESTROYING,
};

enum cm_res_state cm_res_state(enum cm_state state)
{
	return cm_res_states[state];
}

/**
 * cm_res_init - initialize the entry of an id, and set its owner
 * @base: of the id
 * @caller: name of the kernel module, or NULL for the current process
 * @parent: the listener whose owner is inherited, or NULL; overrides @caller
 */
void cm_res_init(struct cm_base *base, const char *caller, const struct cm_base *parent)
{
	rdma_restrack_new(&base->res, RDMA_RESTRACK_CM_ID);
	if (parent)
		rdma_restrack_parent_name(&base->res, &parent->res);
	else
		rdma_restrack_set_name(&base->res, caller);
}

/*
 * ib_core calls the driver of an entry for more attributes. A driver may cast the id to the private
 * struct of the in-tree rdma_cm, as cxgb4 does. iw_cxgb3 reads the public part only.
 */
static bool cm_res_driver_is_safe(const struct ib_device *device)
{
	return !device->ops.fill_res_cm_id_entry || device->ops.driver_id == RDMA_DRIVER_CXGB3;
}

/* Adds the entry of an id that has got its device, unless its driver would misread the id. */
void cm_res_add(struct cm_base *base)
{
	if (show_ids && cm_res_driver_is_safe(base->id.device))
		rdma_restrack_add(&base->res);
}

/* Removes the entry. Sleeps until its last reader has finished. */
void cm_res_del(struct cm_base *base)
{
	rdma_restrack_del(&base->res);
}
