// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#define OFEDAIX_IMPLEMENTATION
#include <errno.h>
#include <rdma/verbs.h>
#include <stddef.h>

static void *refused(int err)
{
	errno = err;
	return NULL;
}

static int minus_one(int err)
{
	errno = err;
	return -1;
}

/* Devices */

struct ibv_device **ofedaix_get_device_list(int *count)
{
	return ibv_get_device_list(count);
}

void ofedaix_free_device_list(struct ibv_device **list)
{
	if (list)
		ibv_free_device_list(list);
}

const char *ofedaix_get_device_name(struct ibv_device *device)
{
	return device ? ibv_get_device_name(device) : refused(EINVAL);
}

__be64 ofedaix_get_device_guid(struct ibv_device *device)
{
	return device ? ibv_get_device_guid(device) : 0;
}

struct ibv_context *ofedaix_open_device(struct ibv_device *device)
{
	return device ? ibv_open_device(device) : refused(EINVAL);
}

int ofedaix_close_device(struct ibv_context *context)
{
	return context ? ibv_close_device(context) : minus_one(EINVAL);
}

int ofedaix_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	return context && attr ? ibv_query_device(context, attr) : EINVAL;
}

int ofedaix_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	return context && attr ? ibv_query_port(context, port, attr) : EINVAL;
}

int ofedaix_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	return context && pkey ? ibv_query_pkey(context, port, index, pkey) : minus_one(EINVAL);
}

int ofedaix_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	return context && gid ? ibv_query_gid(context, port, index, gid) : minus_one(EINVAL);
}

/* Queue pairs */

struct ibv_qp *ofedaix_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (!pd || !attr)
		return refused(EINVAL);
	if (attr->srq)
		return refused(ENOSYS);
	return ibv_create_qp(pd, attr);
}

int ofedaix_destroy_qp(struct ibv_qp *qp)
{
	return qp ? ibv_destroy_qp(qp) : EINVAL;
}

int ofedaix_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return qp && attr ? ibv_modify_qp(qp, attr, mask) : EINVAL;
}

/*
 * Refuses what AIX refuses in the middle of a list too; as with any bad request there, those before it are posted. Linux takes a
 * request without a list of data.
 */
int ofedaix_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct ibv_recv_wr *bad, *last = NULL;
	int err;

	if (!bad_wr)
		return EINVAL;
	*bad_wr = wr;
	if (!qp || !qp->context || !wr)
		return EINVAL;
	for (bad = wr; bad && bad->sg_list; bad = bad->next)
		last = bad;
	if (!bad)
		return ibv_post_recv(qp, wr, bad_wr);
	if (last) {
		last->next = NULL;
		err = ibv_post_recv(qp, wr, bad_wr);
		last->next = bad;
		if (err)
			return err;
	}
	*bad_wr = bad;
	return EINVAL;
}

/* Why AIX would not post this one; 0: it would. */
static int send_refusal(const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		return wr->sg_list ? 0 : EINVAL;
	default:
		return ENOTSUP;
	}
}

int ofedaix_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct ibv_send_wr *bad, *last = NULL;
	int err;

	if (!bad_wr)
		return EINVAL;
	*bad_wr = wr;
	if (!qp || !qp->context || !wr)
		return EINVAL;
	for (bad = wr; bad && !send_refusal(bad); bad = bad->next)
		last = bad;
	if (!bad)
		return ibv_post_send(qp, wr, bad_wr);
	if (last) {
		last->next = NULL;
		err = ibv_post_send(qp, wr, bad_wr);
		last->next = bad;
		if (err)
			return err;
	}
	*bad_wr = bad;
	return send_refusal(bad);
}

/* Completion queues */

struct ibv_cq *ofedaix_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector)
{
	return context ? ibv_create_cq(context, cqe, cq_context, channel, vector) : refused(EINVAL);
}

int ofedaix_destroy_cq(struct ibv_cq *cq)
{
	return cq ? ibv_destroy_cq(cq) : EINVAL;
}

int ofedaix_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return cq ? ibv_req_notify_cq(cq, solicited_only) : EINVAL;
}

int ofedaix_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	return cq && wc && entries >= 0 ? ibv_poll_cq(cq, entries, wc) : -EINVAL;
}

int ofedaix_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	return channel && cq && context ? ibv_get_cq_event(channel, cq, context) : minus_one(EINVAL);
}

void ofedaix_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	if (cq)
		ibv_ack_cq_events(cq, count);
}

struct ibv_comp_channel *ofedaix_create_comp_channel(struct ibv_context *context)
{
	return context ? ibv_create_comp_channel(context) : refused(EINVAL);
}

int ofedaix_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return channel ? ibv_destroy_comp_channel(channel) : EINVAL;
}

/* Protection domains and memory */

struct ibv_pd *ofedaix_alloc_pd(struct ibv_context *context)
{
	return context ? ibv_alloc_pd(context) : refused(EINVAL);
}

int ofedaix_dealloc_pd(struct ibv_pd *pd)
{
	return pd ? ibv_dealloc_pd(pd) : EINVAL;
}

struct ibv_mr *ofedaix_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	const int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	if (!pd || !addr || access & ~known)
		return refused(EINVAL);
	if (access & IBV_ACCESS_REMOTE_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE))
		return refused(EINVAL);
	return ibv_reg_mr(pd, addr, length, access);
}

int ofedaix_dereg_mr(struct ibv_mr *mr)
{
	return mr ? ibv_dereg_mr(mr) : EINVAL;
}

/* Asynchronous events, and names */

int ofedaix_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	return context && event ? ibv_get_async_event(context, event) : minus_one(EINVAL);
}

void ofedaix_ack_async_event(struct ibv_async_event *event)
{
	if (event)
		ibv_ack_async_event(event);
}

static const char unknown[] = "<<unknown>>";

const char *ofedaix_event_type_str(enum ibv_event_type event)
{
	return event >= IBV_EVENT_CQ_ERR && event <= IBV_EVENT_GID_CHANGE ? ibv_event_type_str(event) : unknown;
}

const char *ofedaix_node_type_str(enum ibv_node_type type)
{
	return type >= IBV_NODE_CA && type <= IBV_NODE_RNIC ? ibv_node_type_str(type) : unknown;
}

const char *ofedaix_port_state_str(enum ibv_port_state state)
{
	return state >= IBV_PORT_NOP && state <= IBV_PORT_ACTIVE_DEFER ? ibv_port_state_str(state) : unknown;
}

/* What AIX does not have */

int ofedaix_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq, (void)cqe;
	return ENOSYS;
}

int ofedaix_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return ENOSYS;
}

int ofedaix_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return ENOSYS;
}

struct ibv_srq *ofedaix_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	(void)pd, (void)attr;
	return refused(ENOSYS);
}
