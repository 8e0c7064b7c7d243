// SPDX-License-Identifier: GPL-2.0
/* The consumer's calls that resolve the address and the route of a destination. */
#include "rdma_cm.h"

/**
 * t3_rdma_resolve_addr - find the device and the route to a destination
 * @id: the id; if it is not bound, it is bound first
 * @src: address to bind to; NULL or without a family: routing chooses it
 * @dst: destination
 * @timeout_ms: limit for the reply of the neighbour
 *
 * Return: 0: ADDR_RESOLVED or ADDR_ERROR follows; otherwise an error. The id is bound then, unless
 * the bind failed.
 */
int t3_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			 const struct sockaddr *dst, unsigned long timeout_ms)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (cm_state(cm) != CM_ST_BOUND) {
		ret = src && src->sa_family ? cm_bind(cm, src, dst) : cm_bind_any(cm, dst);
		if (ret)
			return ret;
	}
	ret = cm_fsm_apply(cm, CM_EV_RESOLVE_ADDR, 0, NULL);
	if (ret)
		return ret;
	ret = cm_addr_lookup(cm, dst, timeout_ms);
	if (ret)
		cm_fsm_apply(cm, CM_EV_RESOLVE_FAILED, ret, NULL);
	return ret;
}

/* --- route resolution ---------------------------------------------------- */

/**
 * t3_rdma_resolve_route - resolve the route to the peer
 * @id: the id
 * @timeout_ms: must not be 0
 *
 * Return: 0: ROUTE_RESOLVED follows; -EINVAL if the address is not resolved; -ENODEV if the
 * interface is gone.
 */
int t3_rdma_resolve_route(struct rdma_cm_id *id, unsigned long timeout_ms)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (!timeout_ms)
		return -EINVAL;
	ret = cm_fsm_apply(cm, CM_EV_RESOLVE_ROUTE, 0, NULL);
	if (ret)
		return ret;
	if (cm_transport(cm)->resolve_route) {
		ret = cm_transport(cm)->resolve_route(cm);
		if (ret) {
			cm_fsm_apply(cm, CM_EV_ROUTE_FAILED, ret, NULL);
			return ret;
		}
	}
	return cm_event_post(cm, CM_SLOT_ROUTE, CM_EV_ROUTE_DONE, 0, CM_DISPATCH_MAY_SLEEP);
}
