// SPDX-License-Identifier: GPL-2.0
/* RoCE: QPs of t3_rdma_create_qp(), and the attributes for any QP. */
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>

#include "rdma_cm.h"
#include "roce.h"

/* The attributes of a QP without a connection. */
static int cm_roce_init_attr(struct cm_id *id, struct ib_qp_attr *attr, int *mask)
{
	struct rdma_cm_id *cm = &id->base.id;
	int ret;

	ret = ib_find_cached_pkey(cm->device, cm->port_num, ROCE_PKEY, &attr->pkey_index);
	if (ret)
		return ret;
	attr->port_num = cm->port_num;
	*mask = IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT;
	if (!cm_roce_is_ud(id)) {
		attr->qp_access_flags = 0;
		*mask |= IB_QP_ACCESS_FLAGS;
		return 0;
	}
	ret = cm_roce_set_qkey(id, 0);
	attr->qkey = id->roce->qkey;
	*mask |= IB_QP_QKEY;
	return ret;
}

int cm_roce_init_qp_attr(struct cm_id *id, struct ib_qp_attr *attr, int *mask)
{
	struct cm_roce *roce = id->roce;
	int ret;

	if (!roce->ib || cm_roce_is_ud(id))
		ret = cm_roce_init_attr(id, attr, mask);
	else
		ret = ib_cm_init_qp_attr(roce->ib, attr, mask);
	if (ret)
		return ret;
	if (attr->qp_state == IB_QPS_RTR)
		attr->rq_psn = roce->psn;
	if (*mask & IB_QP_TIMEOUT && id->ack_timeout_set)
		attr->timeout = id->ack_timeout;
	return 0;
}

static int cm_roce_modify_qp(struct cm_id *id, enum ib_qp_state state, u8 ird, u8 ord)
	__must_hold(&id->base.qp_mutex)
{
	struct ib_qp_attr attr = { .qp_state = state };
	int mask, ret;

	ret = cm_roce_init_qp_attr(id, &attr, &mask);
	if (ret)
		return ret;
	if (state == IB_QPS_RTR)
		attr.max_dest_rd_atomic = ird;
	if (state == IB_QPS_RTS)
		attr.max_rd_atomic = ord;
	return ib_modify_qp(cm_id_qp(id), &attr, mask);
}

/* Moves the QP of t3_rdma_create_qp() to RTS. Nothing if the consumer has a QP of its own. */
int cm_roce_open_qp(struct cm_id *id, u8 ird, u8 ord)
{
	int ret = 0;

	mutex_lock(&id->base.qp_mutex);
	if (cm_id_qp(id)) {
		ret = cm_roce_modify_qp(id, IB_QPS_INIT, ird, ord);
		if (!ret)
			ret = cm_roce_modify_qp(id, IB_QPS_RTR, ird, ord);
		if (!ret)
			ret = cm_roce_modify_qp(id, IB_QPS_RTS, ird, ord);
	}
	mutex_unlock(&id->base.qp_mutex);
	return ret;
}

void cm_roce_close_qp(struct cm_id *id)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	mutex_lock(&id->base.qp_mutex);
	if (cm_id_qp(id))
		ib_modify_qp(cm_id_qp(id), &attr, IB_QP_STATE);
	mutex_unlock(&id->base.qp_mutex);
}
