// SPDX-License-Identifier: GPL-2.0
/* RoCE: the attributes of QPs. */
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
