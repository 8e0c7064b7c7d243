// SPDX-License-Identifier: GPL-2.0
/* Commands that read attributes of an id. */
#include <rdma/ib.h>
#include <rdma/ib_addr.h>

#include "rdma_cm.h"
#include "ucm.h"

static __u16 ucm_pkey(struct rdma_cm_id *id)
{
	return (__force __u16)cpu_to_be16(ib_addr_get_pkey(&id->route.addr.dev_addr));
}

/* The GIDs of a route are the link addresses of its two ends. */
int ucm_query_route(struct ucm_call *call)
{
	const struct rdma_ucm_query *cmd = call->cmd;
	struct rdma_cm_id *id = ucm_id(call);
	struct rdma_addr *addr = &id->route.addr;
	struct rdma_ucm_query_route_resp resp = {};

	memcpy(&resp.src_addr, &addr->src_addr, sizeof(resp.src_addr));
	memcpy(&resp.dst_addr, &addr->dst_addr, sizeof(resp.dst_addr));
	if (id->device) {
		resp.node_guid = (__force __u64)id->device->node_guid;
		resp.ibdev_index = id->device->index;
		resp.port_num = id->port_num;
		rdma_addr_get_sgid(&addr->dev_addr, (union ib_gid *)resp.ib_route[0].sgid);
		rdma_addr_get_dgid(&addr->dev_addr, (union ib_gid *)resp.ib_route[0].dgid);
	}
	return ucm_respond(call, cmd->response, &resp, sizeof(resp));
}

static void ucm_fill_device(struct rdma_cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	if (!id->device)
		return;
	resp->node_guid = (__force __u64)id->device->node_guid;
	resp->ibdev_index = id->device->index;
	resp->port_num = id->port_num;
	resp->pkey = ucm_pkey(id);
}

static int ucm_query_addr(struct ucm_call *call, u64 response)
{
	struct rdma_cm_id *id = ucm_id(call);
	struct sockaddr *src = (struct sockaddr *)&id->route.addr.src_addr;
	struct sockaddr *dst = (struct sockaddr *)&id->route.addr.dst_addr;
	struct rdma_ucm_query_addr_resp resp = {};

	resp.src_size = rdma_addr_size(src);
	resp.dst_size = rdma_addr_size(dst);
	memcpy(&resp.src_addr, src, resp.src_size);
	memcpy(&resp.dst_addr, dst, resp.dst_size);
	ucm_fill_device(id, &resp);
	return ucm_respond(call, response, &resp, sizeof(resp));
}

/* One end of an id as an InfiniBand address, with the link address as GID. */
static void ucm_fill_gid(struct rdma_cm_id *id, const struct sockaddr *addr,
			 void (*get_gid)(struct rdma_dev_addr *dev, union ib_gid *gid),
			 struct __kernel_sockaddr_storage *to)
{
	struct sockaddr_ib *sib = (struct sockaddr_ib *)to;

	if (addr->sa_family == AF_IB) {
		memcpy(sib, addr, sizeof(*sib));
		return;
	}
	sib->sib_family = AF_IB;
	if (id->device) {
		sib->sib_pkey = cpu_to_be16(ib_addr_get_pkey(&id->route.addr.dev_addr));
		get_gid(&id->route.addr.dev_addr, (union ib_gid *)&sib->sib_addr);
	}
	sib->sib_sid = cpu_to_be64((u64)id->ps << 16 | cm_addr_port(addr));
}

static int ucm_query_gid(struct ucm_call *call, u64 response)
{
	struct rdma_cm_id *id = ucm_id(call);
	struct rdma_ucm_query_addr_resp resp = {
		.src_size = sizeof(struct sockaddr_ib),
		.dst_size = sizeof(struct sockaddr_ib),
	};

	ucm_fill_device(id, &resp);
	ucm_fill_gid(id, (struct sockaddr *)&id->route.addr.src_addr, rdma_addr_get_sgid,
		     &resp.src_addr);
	ucm_fill_gid(id, (struct sockaddr *)&id->route.addr.dst_addr, rdma_addr_get_dgid,
		     &resp.dst_addr);
	return ucm_respond(call, response, &resp, sizeof(resp));
}

/* iWARP has no path records. */
static int ucm_query_path(struct ucm_call *call, u64 response)
{
	struct rdma_ucm_query_path_resp resp = {};

	return ucm_respond(call, response, &resp, sizeof(resp));
}

int ucm_query(struct ucm_call *call)
{
	static const struct {
		int (*query)(struct ucm_call *call, u64 response);
		size_t out;
	} options[] = {
		[RDMA_USER_CM_QUERY_ADDR] = {
			ucm_query_addr, offsetof(struct rdma_ucm_query_addr_resp, ibdev_index) },
		[RDMA_USER_CM_QUERY_PATH] = {
			ucm_query_path, sizeof(struct rdma_ucm_query_path_resp) },
		[RDMA_USER_CM_QUERY_GID] = {
			ucm_query_gid, offsetof(struct rdma_ucm_query_addr_resp, ibdev_index) },
	};
	const struct rdma_ucm_query *cmd = call->cmd;

	if (cmd->option >= ARRAY_SIZE(options))
		return -ENOSYS;
	if (call->out < options[cmd->option].out)
		return -ENOSPC;
	return options[cmd->option].query(call, cmd->response);
}

int ucm_init_qp_attr(struct ucm_call *call)
{
	const struct rdma_ucm_init_qp_attr *cmd = call->cmd;
	struct ib_qp_attr attr = {};
	struct ib_uverbs_qp_attr resp = {};
	int mask, ret;

	if (cmd->qp_state > IB_QPS_ERR)
		return -EINVAL;
	attr.qp_state = cmd->qp_state;
	ret = t3_rdma_init_qp_attr(ucm_id(call), &attr, &mask);
	if (ret)
		return ret;
	/* The other members have no meaning for iWARP. */
	resp.qp_attr_mask = mask;
	resp.qp_state = attr.qp_state;
	resp.qp_access_flags = attr.qp_access_flags;
	resp.port_num = attr.port_num;
	return ucm_respond(call, cmd->response, &resp, sizeof(resp));
}
