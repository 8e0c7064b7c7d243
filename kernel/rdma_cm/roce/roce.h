/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of RoCE share. */
#ifndef T3_RDMA_CM_ROCE_H
#define T3_RDMA_CM_ROCE_H

#include <linux/types.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_sa.h>

#include "rdma_cm.h"

#define ROCE_PKEY		0xffff
#define ROCE_MRA_TIMEOUT	24	/* 4.096 us * 2^24: 69 s for the consumer */

/**
 * struct cm_roce - what an id on a RoCE device has
 * @ib: of ib_cm, from connect or request to the destroy of the id; or NULL
 * @path: the path to the peer
 * @psn: the peer's first packet has this sequence number
 * @qkey: Q_Key of the datagrams of the id; 0: not known yet
 * @ah: address handle attributes of a peer of datagrams, once it has replied
 * @refusal_len: length of @refusal
 * @refusal: private data of the peer's REJ or SIDR REP that refuses
 */
struct cm_roce {
	/* Set by connect, under handler_mutex, or with a new id; cleared under handler_mutex. */
	struct ib_cm_id *ib;
	struct sa_path_rec path;
	u32 psn;
	u32 qkey;
	/* As @refusal: a callback writes it before it posts the event in which it is read. */
	struct rdma_ah_attr ah;
	u8 refusal_len;
	u8 refusal[IB_CM_REJ_PRIVATE_DATA_SIZE];
};

static inline bool cm_roce_is_ud(const struct cm_id *id)
{
	return id->base.id.qp_type == IB_QPT_UD;
}

/* roce_id.c */
int cm_roce_alloc(struct cm_id *id);
int cm_roce_set_qkey(struct cm_id *id, u32 qkey);
int cm_roce_qkey(struct cm_id *id, u32 *qkey);
__be64 cm_roce_service_id(const struct cm_id *id, const struct sockaddr *addr);
void *cm_roce_request_data(struct cm_id *id, const struct rdma_conn_param *param,
			   unsigned int limit, u8 *len);
void cm_roce_save_data(struct cm_peer_params *peer, const void *data, unsigned int len);
bool cm_roce_parse_request(struct cm_peer_params *peer, const void *data, unsigned int len,
			   __be64 service_id, int ifindex);

/* roce_qp.c */
int cm_roce_init_qp_attr(struct cm_id *id, struct ib_qp_attr *attr, int *mask);

/* roce_event.c */
int cm_roce_callback(struct ib_cm_id *ib, const struct ib_cm_event *event);
void cm_roce_report(struct cm_id *id, enum cm_event event, struct rdma_cm_event *report);

/* roce_listen.c */
int cm_roce_listen(struct cm_listener *l);
void cm_roce_unlisten(struct cm_listener *l);

/* roce_group.c */
int cm_roce_join(struct cm_id *id, struct cm_group *group);
void cm_roce_leave(struct cm_id *id, struct cm_group *group);

#endif
