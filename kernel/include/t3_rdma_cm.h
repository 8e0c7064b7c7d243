/* SPDX-License-Identifier: GPL-2.0 */
/*
 * t3_rdma_cm for other kernel modules.
 *
 * The types are those of <rdma/rdma_cm.h>, and so are the rules. To use t3_rdma_cm, a consumer of
 * rdma_cm adds the prefix t3_ to its calls. It must not pass an id of one manager to the other.
 *
 * Differences to rdma_cm:
 *
 *  - A destroy does not wait for the network. If the id was connecting and its connection is
 *    established later, the connection is aborted.
 *  - t3_rdma_listen() on a wildcard address ignores devices without its address family, and for
 *    datagrams those without datagrams.
 *  - iWARP: an id whose QP was not created with t3_rdma_create_qp() and whose QP attributes were
 *    not queried gets CONNECT_RESPONSE when its connection was accepted. The consumer calls
 *    t3_rdma_establish() when its QP is ready.
 */
#ifndef T3_RDMA_CM_API_H
#define T3_RDMA_CM_API_H

#include <rdma/rdma_cm.h>

struct rdma_cm_id *__t3_rdma_create_id(struct net *net, rdma_cm_event_handler handler,
				       void *context, enum rdma_ucm_port_space ps,
				       enum ib_qp_type qp_type, const char *caller);
#define t3_rdma_create_id(net, handler, context, ps, qp_type)			\
	__t3_rdma_create_id(net, handler, context, ps, qp_type, KBUILD_MODNAME)
void t3_rdma_destroy_id(struct rdma_cm_id *id);

int t3_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int t3_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			 const struct sockaddr *dst, unsigned long timeout_ms);
int t3_rdma_resolve_route(struct rdma_cm_id *id, unsigned long timeout_ms);

int t3_rdma_create_qp(struct rdma_cm_id *id, struct ib_pd *pd, struct ib_qp_init_attr *attr);
void t3_rdma_destroy_qp(struct rdma_cm_id *id);
int t3_rdma_init_qp_attr(struct rdma_cm_id *id, struct ib_qp_attr *attr, int *mask);

int t3_rdma_listen(struct rdma_cm_id *id, int backlog);
int t3_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int t3_rdma_connect_ece(struct rdma_cm_id *id, struct rdma_conn_param *param,
			struct rdma_ucm_ece *ece);
int t3_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int t3_rdma_accept_ece(struct rdma_cm_id *id, struct rdma_conn_param *param,
		       struct rdma_ucm_ece *ece);
int t3_rdma_establish(struct rdma_cm_id *id);
int t3_rdma_reject(struct rdma_cm_id *id, const void *private_data, u8 len, u8 reason);
int t3_rdma_disconnect(struct rdma_cm_id *id);

int t3_rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, u8 join_state,
			   void *context);
void t3_rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);

int t3_rdma_notify(struct rdma_cm_id *id, enum ib_event_type event);
void t3_rdma_set_service_type(struct rdma_cm_id *id, int tos);
int t3_rdma_set_reuseaddr(struct rdma_cm_id *id, int reuse);
int t3_rdma_set_afonly(struct rdma_cm_id *id, int afonly);
int t3_rdma_set_ack_timeout(struct rdma_cm_id *id, u8 timeout);

void t3_rdma_lock_handler(struct rdma_cm_id *id);
void t3_rdma_unlock_handler(struct rdma_cm_id *id);

#endif
