/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of iWARP share. */
#ifndef T3_RDMA_CM_IWARP_H
#define T3_RDMA_CM_IWARP_H

#include "rdma_cm.h"

/* interfaces.c */
bool cm_iw_port_is_on(struct ib_device *device, u32 port, struct net_device *ndev,
		      const struct sockaddr *addr);
bool cm_iw_is_in_net(struct ib_device *device, struct net *net);
enum cm_addr_use cm_iw_addr_use(struct cm_id *id, struct ib_device *device,
				const struct sockaddr_in6 *addr, unsigned int *visits);
int cm_iw_check_addr(struct cm_id *id);
void cm_iw_listen_addrs(struct cm_id *id, struct ib_device *device, struct cm_addrs *addrs);

/* iwpm.c */
void cm_iwpm_map_listener(struct cm_listener *l);
void cm_iwpm_unmap_listener(struct cm_listener *l);
void cm_iwpm_map_connection(struct cm_id *id);
void cm_iwpm_unmap(struct cm_mapping *mapping);
void cm_iwpm_unmap_request(struct cm_listener *l, struct iw_cm_event *event);
void cm_iwpm_unmap_reply(struct cm_id *id, struct iw_cm_event *event);
void cm_iwpm_cancel_dev(struct cm_dev *dev);

/* iwpm_recv.c */
int cm_iwpm_init(void);
void cm_iwpm_exit(void);

/* qp.c */
int cm_qp_get(struct cm_id *id, u32 qpn);
int cm_qp_get_again(struct cm_id *id);
void cm_qp_get_late(struct cm_id *id);
void cm_qp_abort_refused(struct cm_id *id);
void cm_qp_put(struct cm_id *id);

#endif
