/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The verbs as AIX has them: what is NULL is refused (EINVAL, or NULL or -1 with errno) instead of followed, and a call that AIX has
 * not returns ENOSYS instead of EOPNOTSUPP.
 */
#ifndef OFEDAIX_VERBS_H
#define OFEDAIX_VERBS_H

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_device **ofedaix_get_device_list(int *count);
void ofedaix_free_device_list(struct ibv_device **list);
const char *ofedaix_get_device_name(struct ibv_device *device);
__be64 ofedaix_get_device_guid(struct ibv_device *device);
struct ibv_context *ofedaix_open_device(struct ibv_device *device);
int ofedaix_close_device(struct ibv_context *context);
int ofedaix_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int ofedaix_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
int ofedaix_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
int ofedaix_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
struct ibv_qp *ofedaix_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int ofedaix_destroy_qp(struct ibv_qp *qp);
int ofedaix_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int ofedaix_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int ofedaix_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
struct ibv_cq *ofedaix_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector);
int ofedaix_destroy_cq(struct ibv_cq *cq);
int ofedaix_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int ofedaix_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc);
int ofedaix_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context);
void ofedaix_ack_cq_events(struct ibv_cq *cq, unsigned int count);
struct ibv_pd *ofedaix_alloc_pd(struct ibv_context *context);
int ofedaix_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *ofedaix_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int ofedaix_dereg_mr(struct ibv_mr *mr);
struct ibv_comp_channel *ofedaix_create_comp_channel(struct ibv_context *context);
int ofedaix_destroy_comp_channel(struct ibv_comp_channel *channel);
int ofedaix_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void ofedaix_ack_async_event(struct ibv_async_event *event);
const char *ofedaix_event_type_str(enum ibv_event_type event);
const char *ofedaix_node_type_str(enum ibv_node_type type);
const char *ofedaix_port_state_str(enum ibv_port_state state);
int ofedaix_resize_cq(struct ibv_cq *cq, int cqe);
int ofedaix_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int ofedaix_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
struct ibv_srq *ofedaix_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);

#ifdef __cplusplus
}
#endif

#ifndef OFEDAIX_IMPLEMENTATION
/* These are macros in libibverbs' header already. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

#define ibv_get_device_list		ofedaix_get_device_list
#define ibv_free_device_list		ofedaix_free_device_list
#define ibv_get_device_name		ofedaix_get_device_name
#define ibv_get_device_guid		ofedaix_get_device_guid
#define ibv_open_device			ofedaix_open_device
#define ibv_close_device		ofedaix_close_device
#define ibv_query_device		ofedaix_query_device
#define ibv_query_port			ofedaix_query_port
#define ibv_query_pkey			ofedaix_query_pkey
#define ibv_query_gid			ofedaix_query_gid
#define ibv_create_qp			ofedaix_create_qp
#define ibv_destroy_qp			ofedaix_destroy_qp
#define ibv_modify_qp			ofedaix_modify_qp
#define ibv_post_recv			ofedaix_post_recv
#define ibv_post_send			ofedaix_post_send
#define ibv_create_cq			ofedaix_create_cq
#define ibv_destroy_cq			ofedaix_destroy_cq
#define ibv_req_notify_cq		ofedaix_req_notify_cq
#define ibv_poll_cq			ofedaix_poll_cq
#define ibv_get_cq_event		ofedaix_get_cq_event
#define ibv_ack_cq_events		ofedaix_ack_cq_events
#define ibv_alloc_pd			ofedaix_alloc_pd
#define ibv_dealloc_pd			ofedaix_dealloc_pd
#define ibv_reg_mr			ofedaix_reg_mr
#define ibv_dereg_mr			ofedaix_dereg_mr
#define ibv_create_comp_channel		ofedaix_create_comp_channel
#define ibv_destroy_comp_channel	ofedaix_destroy_comp_channel
#define ibv_get_async_event		ofedaix_get_async_event
#define ibv_ack_async_event		ofedaix_ack_async_event
#define ibv_event_type_str		ofedaix_event_type_str
#define ibv_node_type_str		ofedaix_node_type_str
#define ibv_port_state_str		ofedaix_port_state_str
#define ibv_resize_cq			ofedaix_resize_cq
#define ibv_attach_mcast		ofedaix_attach_mcast
#define ibv_detach_mcast		ofedaix_detach_mcast
#define ibv_create_srq			ofedaix_create_srq
#endif

#endif
