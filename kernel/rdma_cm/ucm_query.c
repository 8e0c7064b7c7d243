// SPDX-License-Identifier: GPL-2.0
/* Commands that answer with what an id knows. */
#include <rdma/ib.h>
#include <rdma/ib_addr.h>

#include "rdma_cm.h"
#include "ucm.h"

static __u16 pkey_of(struct rdma_cm_id *id)
{
	return (__force __u16)cpu_to_be16(ib_addr_get_pkey(&id->route.addr.dev_addr));
}

/* A route of iWARP is the two link addresses, in the place of GIDs. */
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
	return ucm_answer(call, cmd->response, &resp, sizeof(resp));
}

static void say_device(struct rdma_cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	if (!id->device)
		return;
	resp->node_guid = (__force __u64)id->device->node_guid;
	resp->ibdev_index = id->device->index;
	resp->port_num = id->port_num;
	resp->pkey = pkey_of(id);
}

static int query_addr(struct ucm_call *call, u64 response)
{
	struct rdma_cm_id *id = ucm_id(call);
	struct sockaddr *src = (struct sockaddr *)&id->route.addr.src_addr;
	struct sockaddr *dst = (struct sockaddr *)&id->route.addr.dst_addr;
	struct rdma_ucm_query_addr_resp resp = {};

	resp.src_size = rdma_addr_size(src);
	resp.dst_size = rdma_addr_size(dst);
	memcpy(&resp.src_addr, src, resp.src_size);
	memcpy(&resp.dst_addr, dst, resp.dst_size);
	say_device(id, &resp);
	return ucm_answer(call, response, &resp, sizeof(resp));
}

/* An id's end as an InfiniBand address: the link address is the GID. */
static void say_gid(struct rdma_cm_id *id, const struct sockaddr *addr,
		    void (*get_gid)(struct rdma_dev_addr *dev, union ib_gid *gid),
		    struct __kernel_sockaddr_storage *said)
{
	struct sockaddr_ib *sib = (struct sockaddr_ib *)said;

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

static int query_gid(struct ucm_call *call, u64 response)
{
	struct rdma_cm_id *id = ucm_id(call);
	struct rdma_ucm_query_addr_resp resp = {
		.src_size = sizeof(struct sockaddr_ib),
		.dst_size = sizeof(struct sockaddr_ib),
	};

	say_device(id, &resp);
	say_gid(id, (struct sockaddr *)&id->route.addr.src_addr, rdma_addr_get_sgid,
		&resp.src_addr);
	say_gid(id, (struct sockaddr *)&id->route.addr.dst_addr, rdma_addr_get_dgid,
		&resp.dst_addr);
	return ucm_answer(call, response, &resp, sizeof(resp));
}

/* iWARP has no path records. */
static int query_path(struct ucm_call *call, u64 response)
{
	struct rdma_ucm_query_path_resp resp = {};

	return ucm_answer(call, response, &resp, sizeof(resp));
}

int ucm_query(struct ucm_call *call)
{
	static const struct {
		int (*answer)(struct ucm_call *call, u64 response);
		size_t room;
	} options[] = {
		[RDMA_USER_CM_QUERY_ADDR] = {
			query_addr, offsetof(struct rdma_ucm_query_addr_resp, ibdev_index) },
		[RDMA_USER_CM_QUERY_PATH] = {
			query_path, sizeof(struct rdma_ucm_query_path_resp) },
		[RDMA_USER_CM_QUERY_GID] = {
			query_gid, offsetof(struct rdma_ucm_query_addr_resp, ibdev_index) },
	};
	const struct rdma_ucm_query *cmd = call->cmd;

	if (cmd->option >= ARRAY_SIZE(options))
		return -ENOSYS;
	if (call->out < options[cmd->option].room)
		return -ENOSPC;
	return options[cmd->option].answer(call, cmd->response);
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
	/* What else the struct can say is not iWARP's. */
	resp.qp_attr_mask = mask;
	resp.qp_state = attr.qp_state;
	resp.qp_access_flags = attr.qp_access_flags;
	resp.port_num = attr.port_num;
	return ucm_answer(call, cmd->response, &resp, sizeof(resp));
}
