/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connection manager's calls as AIX has them: what is NULL is refused instead of followed, and a failure is returned as
 * -errno instead of -1 (errno is set too). A call that AIX has not returns -ENOSYS.
 */
#ifndef OFEDAIX_CM_H
#define OFEDAIX_CM_H

#ifdef __cplusplus
extern "C" {
#endif

/* What AIX allows "for Chelsio boards". */
#define OFEDAIX_MAX_INLINE 64

struct rdma_event_channel *ofedaix_create_event_channel(void);
void ofedaix_destroy_event_channel(struct rdma_event_channel *channel);
int ofedaix_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps);
int ofedaix_destroy_id(struct rdma_cm_id *id);
int ofedaix_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);
int ofedaix_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int ofedaix_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms);
int ofedaix_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int ofedaix_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int ofedaix_listen(struct rdma_cm_id *id, int backlog);
int ofedaix_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int ofedaix_reject(struct rdma_cm_id *id, const void *data, uint8_t length);
int ofedaix_disconnect(struct rdma_cm_id *id);
uint16_t ofedaix_get_src_port(struct rdma_cm_id *id);
uint16_t ofedaix_get_dst_port(struct rdma_cm_id *id);
struct sockaddr *ofedaix_get_local_addr(struct rdma_cm_id *id);
struct sockaddr *ofedaix_get_peer_addr(struct rdma_cm_id *id);
int ofedaix_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int ofedaix_ack_cm_event(struct rdma_cm_event *event);
int ofedaix_rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void ofedaix_rdma_destroy_qp(struct rdma_cm_id *id);
void ofedaix_free_devices(struct ibv_context **list);
int ofedaix_notify(struct rdma_cm_id *id, enum ibv_event_type event);
int ofedaix_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
int ofedaix_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);
int ofedaix_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length);

#ifdef __cplusplus
}
#endif

#ifndef OFEDAIX_IMPLEMENTATION
#define rdma_create_event_channel	ofedaix_create_event_channel
#define rdma_destroy_event_channel	ofedaix_destroy_event_channel
#define rdma_create_id			ofedaix_create_id
#define rdma_destroy_id			ofedaix_destroy_id
#define rdma_migrate_id			ofedaix_migrate_id
#define rdma_bind_addr			ofedaix_bind_addr
#define rdma_resolve_addr		ofedaix_resolve_addr
#define rdma_resolve_route		ofedaix_resolve_route
#define rdma_connect			ofedaix_connect
#define rdma_listen			ofedaix_listen
#define rdma_accept			ofedaix_accept
#define rdma_reject			ofedaix_reject
#define rdma_disconnect			ofedaix_disconnect
#define rdma_get_src_port		ofedaix_get_src_port
#define rdma_get_dst_port		ofedaix_get_dst_port
#define rdma_get_local_addr		ofedaix_get_local_addr
#define rdma_get_peer_addr		ofedaix_get_peer_addr
#define rdma_get_cm_event		ofedaix_get_cm_event
#define rdma_ack_cm_event		ofedaix_ack_cm_event
#define rdma_create_qp			ofedaix_rdma_create_qp
#define rdma_destroy_qp			ofedaix_rdma_destroy_qp
#define rdma_free_devices		ofedaix_free_devices
#define rdma_notify			ofedaix_notify
#define rdma_join_multicast		ofedaix_join_multicast
#define rdma_leave_multicast		ofedaix_leave_multicast
#define rdma_set_option			ofedaix_set_option
#endif

#endif
