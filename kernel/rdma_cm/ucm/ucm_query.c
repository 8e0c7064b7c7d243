// SPDX-License-Identifier: GPL-2.0
/* Commands that read attributes of an id. */
#include <linux/nospec.h>
#include <rdma/ib.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_sa.h>

#include "rdma_cm.h"
#include "ucm.h"

#define UCM_ROCE_PKEY	0xffff	/* the default P_Key: RoCE has no other */

static __u16 ucm_pkey(struct rdma_cm_id *id)
{
	return (__force __u16)cpu_to_be16(ib_addr_get_pkey(&id->route.addr.dev_addr));
}

/* The GIDs of the two ends: of RoCE the IP addresses, of iWARP the link addresses. */
static void ucm_sgid(struct rdma_cm_id *id, union ib_gid *gid)
{
	if (id->device && rdma_protocol_roce(id->device, id->port_num))
		rdma_ip2gid((struct sockaddr *)&id->route.addr.src_addr, gid);
	else
		rdma_addr_get_sgid(&id->route.addr.dev_addr, gid);
}

static void ucm_dgid(struct rdma_cm_id *id, union ib_gid *gid)
{
	if (id->device && rdma_protocol_roce(id->device, id->port_num))
		rdma_ip2gid((struct sockaddr *)&id->route.addr.dst_addr, gid);
	else
		rdma_addr_get_dgid(&id->route.addr.dev_addr, gid);
}

static void ucm_copy_path(struct ib_user_path_rec *to, const struct sa_path_rec *from)
{
	memcpy(to->dgid, &from->dgid, sizeof(to->dgid));
	memcpy(to->sgid, &from->sgid, sizeof(to->sgid));
	to->flow_label = from->flow_label;
	to->hop_limit = from->hop_limit;
	to->traffic_class = from->traffic_class;
	to->reversible = from->reversible;
	to->numb_path = from->numb_path;
	to->pkey = from->pkey;
	to->sl = from->sl;
	to->mtu_selector = from->mtu_selector;
	to->mtu = from->mtu;
	to->rate_selector = from->rate_selector;
	to->rate = from->rate;
	to->packet_life_time_selector = from->packet_life_time_selector;
	to->packet_life_time = from->packet_life_time;
	to->preference = from->preference;
}

int ucm_query_route(struct ucm_call *call)
{
	const struct rdma_ucm_query *cmd = call->cmd;
	struct rdma_cm_id *id = ucm_id(call);
	struct rdma_addr *addr = &id->route.addr;
	struct rdma_ucm_query_route_resp resp = {};

	cm_handler_lock(to_cm_id(id));
	memcpy(&resp.src_addr, &addr->src_addr, sizeof(resp.src_addr));
	memcpy(&resp.dst_addr, &addr->dst_addr, sizeof(resp.dst_addr));
	if (id->device) {
		resp.node_guid = (__force __u64)id->device->node_guid;
		resp.ibdev_index = id->device->index;
		resp.port_num = id->port_num;
		ucm_sgid(id, (union ib_gid *)resp.ib_route[0].sgid);
		ucm_dgid(id, (union ib_gid *)resp.ib_route[0].dgid);
		if (rdma_protocol_roce(id->device, id->port_num))
			resp.ib_route[0].pkey = cpu_to_be16(UCM_ROCE_PKEY);
	}
	resp.num_paths = id->route.num_pri_alt_paths;
	if (resp.num_paths)
		ucm_copy_path(&resp.ib_route[0], id->route.path_rec);
	cm_handler_release(to_cm_id(id));
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

	cm_handler_lock(to_cm_id(id));
	resp.src_size = rdma_addr_size(src);
	resp.dst_size = rdma_addr_size(dst);
	memcpy(&resp.src_addr, src, resp.src_size);
	memcpy(&resp.dst_addr, dst, resp.dst_size);
	ucm_fill_device(id, &resp);
	cm_handler_release(to_cm_id(id));
	return ucm_respond(call, response, &resp, sizeof(resp));
}

/* One end of an id as an InfiniBand address. */
static void ucm_fill_gid(struct rdma_cm_id *id, const struct sockaddr *addr,
			 void (*get_gid)(struct rdma_cm_id *id, union ib_gid *gid),
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
		get_gid(id, (union ib_gid *)&sib->sib_addr);
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

	cm_handler_lock(to_cm_id(id));
	ucm_fill_device(id, &resp);
	ucm_fill_gid(id, (struct sockaddr *)&id->route.addr.src_addr, ucm_sgid,
		     &resp.src_addr);
	ucm_fill_gid(id, (struct sockaddr *)&id->route.addr.dst_addr, ucm_dgid,
		     &resp.dst_addr);
	cm_handler_release(to_cm_id(id));
	return ucm_respond(call, response, &resp, sizeof(resp));
}

/* iWARP has no path records. The path is copied as far as there is space. */
static int ucm_query_path(struct ucm_call *call, u64 response)
{
	const struct rdma_route *route = &ucm_id(call)->route;
	struct ucm_query_path_resp resp = {};

	if (!route->num_pri_alt_paths)
		return ucm_respond(call, response, &resp, offsetof(typeof(resp), path_data));
	resp.num_paths = 1;
	resp.path_data.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
	ib_sa_pack_path(route->path_rec, &resp.path_data.path_rec);
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
	u32 option;

	if (cmd->option >= ARRAY_SIZE(options))
		return -ENOSYS;
	option = array_index_nospec(cmd->option, ARRAY_SIZE(options));
	if (call->out < options[option].out)
		return -ENOSPC;
	return options[option].query(call, cmd->response);
}

void ucm_copy_ah_attr(struct ib_uverbs_ah_attr *to, const struct rdma_ah_attr *from)
{
	to->sl = rdma_ah_get_sl(from);
	to->static_rate = rdma_ah_get_static_rate(from);
	to->port_num = rdma_ah_get_port_num(from);
	to->is_global = !!(rdma_ah_get_ah_flags(from) & IB_AH_GRH);
	if (!to->is_global)
		return;
	memcpy(to->grh.dgid, &from->grh.dgid, sizeof(to->grh.dgid));
	to->grh.flow_label = from->grh.flow_label;
	to->grh.sgid_index = from->grh.sgid_index;
	to->grh.hop_limit = from->grh.hop_limit;
	to->grh.traffic_class = from->grh.traffic_class;
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
	/* The members that a connection manager sets; the others are zeros. */
	resp.qp_attr_mask = mask;
	resp.qp_state = attr.qp_state;
	resp.path_mtu = attr.path_mtu;
	resp.path_mig_state = attr.path_mig_state;
	resp.qkey = attr.qkey;
	resp.rq_psn = attr.rq_psn;
	resp.sq_psn = attr.sq_psn;
	resp.dest_qp_num = attr.dest_qp_num;
	resp.qp_access_flags = attr.qp_access_flags;
	ucm_copy_ah_attr(&resp.ah_attr, &attr.ah_attr);
	resp.pkey_index = attr.pkey_index;
	resp.max_rd_atomic = attr.max_rd_atomic;
	resp.max_dest_rd_atomic = attr.max_dest_rd_atomic;
	resp.min_rnr_timer = attr.min_rnr_timer;
	resp.port_num = attr.port_num;
	resp.timeout = attr.timeout;
	resp.retry_cnt = attr.retry_cnt;
	resp.rnr_retry = attr.rnr_retry;
	return ucm_respond(call, cmd->response, &resp, sizeof(resp));
}
