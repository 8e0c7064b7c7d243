// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#define OFEDAIX_IMPLEMENTATION
#include <errno.h>
#include <rdma/rdma_cma.h>

/* AIX's rule for a result of librdmacm, which is 0, or -1 with errno. */
static int aix_result(int result)
{
	return result ? -errno : 0;
}

static int is_inet(const struct sockaddr *addr)
{
	return addr && (addr->sa_family == AF_INET || addr->sa_family == AF_INET6);
}

struct rdma_event_channel *ofedaix_create_event_channel(void)
{
	return rdma_create_event_channel();
}

void ofedaix_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (channel)
		rdma_destroy_event_channel(channel);
}

int ofedaix_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
	if (!channel || !id)
		return -EINVAL;
	if (ps != RDMA_PS_TCP)
		return -EPROTONOSUPPORT;
	return aix_result(rdma_create_id(channel, id, context, ps));
}

int ofedaix_destroy_id(struct rdma_cm_id *id)
{
	return id ? aix_result(rdma_destroy_id(id)) : -EINVAL;
}

int ofedaix_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	return id && channel ? aix_result(rdma_migrate_id(id, channel)) : -EINVAL;
}

int ofedaix_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return id && is_inet(addr) ? aix_result(rdma_bind_addr(id, addr)) : -EINVAL;
}

int ofedaix_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	if (!id || !is_inet(dst) || (src && !is_inet(src)))
		return -EINVAL;
	return aix_result(rdma_resolve_addr(id, src, dst, timeout_ms));
}

int ofedaix_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return id ? aix_result(rdma_resolve_route(id, timeout_ms)) : -EINVAL;
}

int ofedaix_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct ibv_device_attr device;
	int err;

	if (!id || !param || !id->verbs)
		return -EINVAL;
	if (id->ps != RDMA_PS_TCP)
		return -EPROTONOSUPPORT;
	/* librdmacm would take less instead of refusing. */
	err = ibv_query_device(id->verbs, &device);
	if (err)
		return -err;
	if (param->responder_resources > device.max_qp_rd_atom || param->initiator_depth > device.max_qp_init_rd_atom)
		return -EINVAL;
	return aix_result(rdma_connect(id, param));
}

int ofedaix_listen(struct rdma_cm_id *id, int backlog)
{
	return id ? aix_result(rdma_listen(id, backlog)) : -EINVAL;
}

int ofedaix_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return id && param && id->qp ? aix_result(rdma_accept(id, param)) : -EINVAL;
}

int ofedaix_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	return id && (data || !length) ? aix_result(rdma_reject(id, data, length)) : -EINVAL;
}

int ofedaix_disconnect(struct rdma_cm_id *id)
{
	return id && id->qp ? aix_result(rdma_disconnect(id)) : -EINVAL;
}

uint16_t ofedaix_get_src_port(struct rdma_cm_id *id)
{
	return id ? rdma_get_src_port(id) : 0;
}

uint16_t ofedaix_get_dst_port(struct rdma_cm_id *id)
{
	return id ? rdma_get_dst_port(id) : 0;
}

struct sockaddr *ofedaix_get_local_addr(struct rdma_cm_id *id)
{
	return id ? rdma_get_local_addr(id) : NULL;
}

struct sockaddr *ofedaix_get_peer_addr(struct rdma_cm_id *id)
{
	return id ? rdma_get_peer_addr(id) : NULL;
}

int ofedaix_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	return channel && event ? aix_result(rdma_get_cm_event(channel, event)) : -EINVAL;
}

int ofedaix_ack_cm_event(struct rdma_cm_event *event)
{
	return event ? aix_result(rdma_ack_cm_event(event)) : -EINVAL;
}

int ofedaix_rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (!id || !attr || attr->cap.max_inline_data > OFEDAIX_MAX_INLINE)
		return -EINVAL;
	return aix_result(rdma_create_qp(id, pd, attr));
}

void ofedaix_rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (id && id->qp)
		rdma_destroy_qp(id);
}

void ofedaix_free_devices(struct ibv_context **list)
{
	if (list)
		rdma_free_devices(list);
}

/* What AIX does not have. */

int ofedaix_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	(void)id, (void)event;
	return -ENOSYS;
}

int ofedaix_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	(void)id, (void)addr, (void)context;
	return -ENOSYS;
}

int ofedaix_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	(void)id, (void)addr;
	return -ENOSYS;
}

int ofedaix_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
	(void)id, (void)level, (void)name, (void)value, (void)length;
	return -ENOSYS;
}
