/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of iWARP share. */
#ifndef T3_RDMA_CM_IWARP_H
#define T3_RDMA_CM_IWARP_H

#include "rdma_cm.h"

/* provider.c */
int cm_iw_request(struct cm_listener *l, struct iw_cm_event *iw_event);

/* iwpm.c */
void cm_iwpm_map_listener(struct cm_listener *l);
void cm_iwpm_unmap_listener(struct cm_listener *l);
void cm_iwpm_map_connection(struct cm_id *id);
void cm_iwpm_unmap(struct cm_mapping *mapping);
void cm_iwpm_unmap_request(struct cm_listener *l, struct iw_cm_event *event);
void cm_iwpm_unmap_reply(struct cm_id *id, struct iw_cm_event *event);
void cm_iwpm_cancel_dev(struct cm_dev *dev);
int cm_iwpm_init(void);
void cm_iwpm_exit(void);

/* qp.c */
int cm_qp_get(struct cm_id *id, u32 qpn);
void cm_qp_get_late(struct cm_id *id);
void cm_qp_abort_foreign(struct cm_id *id);
void cm_qp_put(struct cm_id *id);

#endif
