/* SPDX-License-Identifier: GPL-2.0 */
/* Conversion between the address vectors of the ABI and of ib_core (cmd_ah.c). */
#ifndef T3_UVERBS_AH_ATTR_H
#define T3_UVERBS_AH_ATTR_H

#include <rdma/ib_user_verbs.h>
#include <rdma/ib_verbs.h>

void uv_ah_from_qp_dest(struct rdma_ah_attr *to, struct ib_device *dev,
			const struct ib_uverbs_qp_dest *from);
void uv_ah_to_qp_dest(struct ib_uverbs_qp_dest *to, struct rdma_ah_attr *from);

#endif
