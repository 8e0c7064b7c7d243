/* SPDX-License-Identifier: GPL-2.0 */
/* What roce.c and roce_group.c share. */
#ifndef T3_RDMA_CM_ROCE_H
#define T3_RDMA_CM_ROCE_H

#include <linux/types.h>

struct cm_group;
struct cm_id;

#define ROCE_PKEY	0xffff

/* roce.c */
int cm_roce_qkey(struct cm_id *id, u32 *qkey);

/* roce_group.c */
int cm_roce_join(struct cm_id *id, struct cm_group *group);
void cm_roce_leave(struct cm_id *id, struct cm_group *group);

#endif
