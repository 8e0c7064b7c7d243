// SPDX-License-Identifier: GPL-2.0
/*
 * RoCE: the kernel's ib_cm has the messages, timers and retries of the IB connection protocol. This
 * chooses the GID and the path of an id, and translates calls and events.
 *
 * Lifetimes. A struct ib_cm_id holds a reference on its id from its creation until
 * ib_destroy_cm_id() has returned, which waits for the callbacks that run. So a callback may use
 * the id, and cm_roce_release(), at the destroy of the id or a close before the RTU, is the end of
 * callbacks. It is called with handler_mutex held: a callback only tries that mutex, and never
 * destroys its ib_cm_id.
 *
 * roce_listen.c has the listeners, which give an id its ib_cm_id with a request; roce_event.c has
 * the callbacks.
 */
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/route.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>

#include "rdma_cm.h"
#include "roce.h"

#define ROCE_CM_TIMEOUT		20	/* 4.096 us * 2^20: 4 s for the reply to a message */
#define ROCE_CM_RETRIES		15
#define ROCE_PACKET_LIFE_TIME	16	/* 4.096 us * 2^16: 0.3 s */

/* --- devices --------------------------------------------------------------- */

static bool cm_roce_serves_port(struct ib_device *device, u32 port)
{
	return rdma_protocol_roce(device, port) && rdma_cap_ib_cm(device, port);
}

/* All ports: a listener of ib_cm takes the requests of each port of its device. */
static bool cm_roce_serves(struct ib_device *device)
{
	u32 port;

	rdma_for_each_port(device, port)
		if (!cm_roce_serves_port(device, port))
			return false;
	return true;
}

/*
 * The GID of an IP address: of RoCE version 2, or else of version 1. Return: the attribute, with a
 * reference; or an error pointer.
 */
static const struct ib_gid_attr *cm_roce_gid(struct ib_device *device, u32 port,
					     struct net_device *ndev, const struct sockaddr *addr)
{
	static const enum ib_gid_type types[] = { IB_GID_TYPE_ROCE_UDP_ENCAP, IB_GID_TYPE_ROCE };
	const struct ib_gid_attr *attr = ERR_PTR(-EAFNOSUPPORT);
	union ib_gid gid;
	int i;

	if (rdma_ip2gid((struct sockaddr *)addr, &gid))
		return attr;
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		attr = rdma_find_gid_by_port(device, &gid, types[i], port, ndev);
		if (!IS_ERR(attr))
			break;
	}
	return attr;
}

static bool cm_roce_port_is_on(struct ib_device *device, u32 port, struct net_device *ndev,
			       const struct sockaddr *addr)
{
	const struct ib_gid_attr *attr = cm_roce_gid(device, port, ndev, addr);

	if (IS_ERR(attr))
		return false;
	rdma_put_gid_attr(attr);
	return true;
}

static int cm_roce_attach(struct cm_id *id, struct net_device *ndev)
{
	struct rdma_cm_id *cm = &id->base.id;
	const struct ib_gid_attr *attr;
	int ret = cm_roce_alloc(id);

	if (ret)
		return ret;
	attr = cm_roce_gid(cm->device, cm->port_num, ndev, cm_src(id));
	/* The address has gone meanwhile. */
	if (IS_ERR(attr))
		return -ENODEV;
	cm->route.addr.dev_addr.sgid_attr = attr;
	return 0;
}

/* In any context. */
static void cm_roce_detach(struct cm_id *id)
{
	struct rdma_route *route = &id->base.id.route;
	struct cm_roce *roce = id->roce;

	if (route->addr.dev_addr.sgid_attr)
		rdma_put_gid_attr(route->addr.dev_addr.sgid_attr);
	route->addr.dev_addr.sgid_attr = NULL;
	route->path_rec = NULL;
	route->num_pri_alt_paths = 0;
	id->roce = NULL;
	if (roce)
		rdma_destroy_ah_attr(&roce->ah);
	kfree(roce);
}

/* --- routes ---------------------------------------------------------------- */

/* The service level is the priority that an Ethernet frame of this type of service has. */
static u8 cm_roce_sl(struct net_device *ndev, u8 tos)
{
	int prio = rt_tos2priority(tos);

	if (is_vlan_dev(ndev))
		return (vlan_dev_get_egress_qos_mask(ndev, prio) & VLAN_PRIO_MASK) >>
		       VLAN_PRIO_SHIFT;
	return netdev_get_num_tc(ndev) ? netdev_get_prio_tc_map(ndev, prio) : 0;
}

/*
 * That of the IPv6 address, or one of the ports; never 0. With a label ib_core makes no address
 * handle of a GID that has gone (rdma_lag_get_ah_roce_slave()). Without one a message of ib_cm is
 * sent from it, for example after the link address has changed, and then QP 1 of rxe stops.
 */
static __be32 cm_roce_flow_label(struct cm_id *id)
{
	const struct sockaddr *src = cm_src(id);
	u32 label = 0;

	if (src->sa_family == AF_INET6)
		label = be32_to_cpu(((const struct sockaddr_in6 *)src)->sin6_flowinfo) &
			IB_GRH_FLOWLABEL_MASK;
	if (!label)
		label = rdma_calc_flow_label(cm_addr_port(src), cm_addr_port(cm_dst(id)));
	return cpu_to_be32(label ? label : 1);
}

static int cm_roce_resolve_route(struct cm_id *id)
{
	struct rdma_route *route = &id->base.id.route;
	struct rdma_dev_addr *dev_addr = &route->addr.dev_addr;
	struct sa_path_rec *path = &id->roce->path;
	struct net_device *ndev;

	ndev = dev_get_by_index(dev_addr->net, dev_addr->bound_dev_if);
	if (!ndev)
		return -ENODEV;
	*path = (struct sa_path_rec) {
		.rec_type = sa_conv_gid_to_pathrec_type(dev_addr->sgid_attr->gid_type),
		.roce.route_resolved = true,
		.flow_label = cm_roce_flow_label(id),
		.hop_limit = dev_addr->hoplimit,
		.traffic_class = id->tos,
		.reversible = 1,
		.numb_path = 1,
		.pkey = cpu_to_be16(ROCE_PKEY),
		.sl = cm_roce_sl(ndev, id->tos),
		.mtu_selector = IB_SA_EQ,
		.mtu = iboe_get_mtu(ndev->mtu),
		.rate_selector = IB_SA_EQ,
		.rate = IB_RATE_PORT_CURRENT,
		.packet_life_time_selector = IB_SA_EQ,
		.packet_life_time = id->ack_timeout ? id->ack_timeout - 1 : ROCE_PACKET_LIFE_TIME,
	};
	dev_put(ndev);
	sa_path_set_dmac(path, dev_addr->dst_dev_addr);
	rdma_ip2gid(cm_src(id), &path->sgid);
	rdma_ip2gid(cm_dst(id), &path->dgid);
	if (!path->mtu)
		return -EINVAL;
	route->path_rec = path;
	route->num_pri_alt_paths = 1;
	return 0;
}

/* --- calls -------------------------------------------------------------------- */

/* The QP is named in a message only, and so needs no reference. */
static int cm_roce_get_qp(struct cm_id *id, u32 qpn)
{
	if (qpn >> 24)
		return -EINVAL;
	cm_qp_set_user(id);
	id->base.qp_num = qpn;
	return 0;
}

/*
 * Directly before the message: the ib_cm of the peer ends the connection that it has with a QP of
 * this number, so it must not be that of another user. An id for XRC names a QP that processes
 * share. A library can reserve numbers of the device, for QPs that ib_core does not know.
 */
static bool cm_roce_qp_permitted(struct cm_id *id)
{
	struct rdma_restrack_entry *entry;
	bool permitted;
	struct ib_qp *qp;

	entry = rdma_restrack_get_byid(id->base.id.device, RDMA_RESTRACK_QP, id->base.qp_num);
	if (IS_ERR(entry))
		return true;
	qp = container_of(entry, struct ib_qp, res);
	permitted = cm_qp_permitted(id, qp) ||
		    (id->base.id.qp_type == IB_QPT_XRC_TGT && qp->qp_type == IB_QPT_XRC_TGT);
	rdma_restrack_put(entry);
	return permitted;
}

static void cm_roce_put_qp(struct cm_id *id)
{
}

/* The id's end of ib_cm: no callback runs any more when this returns. */
static void cm_roce_release(struct cm_id *id)
{
	struct ib_cm_id *ib = id->roce ? id->roce->ib : NULL;

	lockdep_assert_held(&id->handler_mutex);
	if (!ib)
		return;
	id->roce->ib = NULL;
	ib_destroy_cm_id(ib);
	cm_id_put(id);
}

static int cm_roce_send_request(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct rdma_route *route = &id->base.id.route;
	struct ib_cm_req_param req = {
		.primary_path = route->path_rec,
		.ppath_sgid_attr = route->addr.dev_addr.sgid_attr,
		.service_id = cm_roce_service_id(id, cm_dst(id)),
		.qp_num = id->base.qp_num,
		.qp_type = id->base.id.qp_type,
		.starting_psn = id->roce->psn,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.flow_control = param->flow_control,
		.retry_count = min_t(u8, 7, param->retry_count),
		.rnr_retry_count = min_t(u8, 7, param->rnr_retry_count),
		.remote_cm_response_timeout = ROCE_CM_TIMEOUT,
		.local_cm_response_timeout = ROCE_CM_TIMEOUT,
		.max_cm_retries = ROCE_CM_RETRIES,
		.srq = param->srq,
		.ece = id->ece,
	};
	void *data;
	int ret;

	data = cm_roce_request_data(id, param, IB_CM_REQ_PRIVATE_DATA_SIZE, &req.private_data_len);
	if (IS_ERR(data))
		return PTR_ERR(data);
	req.private_data = data;
	ret = cm_roce_qp_permitted(id) ? ib_send_cm_req(id->roce->ib, &req) : -EINVAL;
	kfree(data);
	return ret;
}

static int cm_roce_send_sidr_request(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct rdma_route *route = &id->base.id.route;
	struct ib_cm_sidr_req_param req = {
		.path = route->path_rec,
		.sgid_attr = route->addr.dev_addr.sgid_attr,
		.service_id = cm_roce_service_id(id, cm_dst(id)),
		.timeout_ms = 1 << (ROCE_CM_TIMEOUT - 8),
		.max_cm_retries = ROCE_CM_RETRIES,
	};
	void *data;
	int ret;

	data = cm_roce_request_data(id, param, IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE,
				    &req.private_data_len);
	if (IS_ERR(data))
		return PTR_ERR(data);
	req.private_data = data;
	ret = ib_send_cm_sidr_req(id->roce->ib, &req);
	kfree(data);
	return ret;
}

static int cm_roce_connect_locked(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct ib_cm_id *ib;
	int ret;

	lockdep_assert_held(&id->handler_mutex);
	ib = ib_create_cm_id(id->base.id.device, cm_roce_callback, id);
	if (IS_ERR(ib))
		return PTR_ERR(ib);
	cm_id_get(id);
	id->roce->ib = ib;
	cm_addr_copy((struct sockaddr *)&id->peer.local, cm_src(id));
	cm_addr_copy((struct sockaddr *)&id->peer.remote, cm_dst(id));
	ret = cm_roce_is_ud(id) ? cm_roce_send_sidr_request(id, param) :
				  cm_roce_send_request(id, param);
	/* ib_cm sends one request per ib_cm_id, even if it fails. */
	if (ret)
		cm_roce_release(id);
	return ret;
}

static int cm_roce_connect(struct cm_id *id, const struct rdma_conn_param *param)
{
	int ret;

	cm_handler_lock(id);
	ret = cm_roce_connect_locked(id, param);
	cm_handler_release(id);
	return ret;
}

/* Return: 0: the id is connected, and nothing follows. */
static int cm_roce_accept_ud(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct ib_cm_sidr_rep_param rep = {
		.qp_num = id->base.qp_num,
		.status = IB_SIDR_SUCCESS,
		.private_data = param->private_data,
		.private_data_len = param->private_data_len,
		.ece = id->ece,
	};
	int ret;

	ret = cm_roce_set_qkey(id, param->qkey);
	rep.qkey = id->roce->qkey;
	if (!ret && !cm_roce_qp_permitted(id))
		ret = -EINVAL;
	if (!ret)
		ret = ib_send_cm_sidr_rep(id->roce->ib, &rep);
	if (!ret)
		cm_fsm_run(id, CM_EV_ACCEPTED, 0);
	return ret;
}

static int cm_roce_accept(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct ib_cm_rep_param rep = {
		.qp_num = id->base.qp_num,
		.starting_psn = id->roce->psn,
		.private_data = param->private_data,
		.private_data_len = param->private_data_len,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.flow_control = param->flow_control,
		.rnr_retry_count = min_t(u8, 7, param->rnr_retry_count),
		.srq = param->srq,
		.ece = id->ece,
	};
	int ret;

	if (cm_roce_is_ud(id))
		return cm_roce_accept_ud(id, param);
	ret = cm_roce_qp_permitted(id) ? ib_send_cm_rep(id->roce->ib, &rep) : -EINVAL;
	if (ret)
		ib_send_cm_rej(id->roce->ib, IB_CM_REJ_CONSUMER_DEFINED, NULL, 0, NULL, 0);
	return ret;
}

static int cm_roce_establish(struct cm_id *id)
{
	return ib_send_cm_rtu(id->roce->ib, NULL, 0);
}

static int cm_roce_reject(struct cm_id *id, const void *data, u8 len, u8 reason)
{
	struct ib_cm_sidr_rep_param rep = {
		.status = IB_SIDR_REJECT,
		.private_data = data,
		.private_data_len = len,
	};

	if (!id->roce->ib)
		return -EINVAL;
	if (cm_roce_is_ud(id))
		return ib_send_cm_sidr_rep(id->roce->ib, &rep);
	return ib_send_cm_rej(id->roce->ib, reason, NULL, 0, data, len);
}

/*
 * ib_send_cm_rej() does not cancel a REP (docs/upstream). The end of the ib_cm_id does, and sends a
 * REJ.
 */
static void cm_roce_close_unestablished(struct cm_id *id)
{
	struct ib_cm_id *ib = id->roce->ib;
	enum ib_cm_state state = READ_ONCE(ib->state);

	if (state == IB_CM_REP_SENT || state == IB_CM_MRA_REP_RCVD)
		cm_roce_release(id);
	else
		ib_send_cm_rej(ib, IB_CM_REJ_CONSUMER_DEFINED, NULL, 0, NULL, 0);
}

/*
 * ib_cm knows which message is due: DREQ; DREP, if the peer has sent a DREQ; REJ before the
 * connection is established. After a DREQ another event follows; a DREQ of the peer was an event.
 */
static void cm_roce_close(struct cm_id *id, bool abrupt)
{
	struct ib_cm_id *ib = id->roce->ib;

	if (!ib || cm_roce_is_ud(id))
		return;
	if (!ib_send_cm_dreq(ib, NULL, 0) || !ib_send_cm_drep(ib, NULL, 0))
		return;
	cm_roce_close_unestablished(id);
	if (cm_state(id) != CM_ST_CLOSED)
		cm_event_post(id, CM_SLOT_CLOSE, CM_EV_CLOSE, 0, CM_DISPATCH_WORKER);
}

/*
 * Data came before the RTU, so the peer is connected. ib_cm goes on and waits for the RTU. After
 * ib_cm_notify() no thread could cancel the REP if the connection ended before a work item of ib_cm
 * ran, and ib_destroy_cm_id() would wait for it, up to 18 minutes (docs/upstream).
 */
static int cm_roce_notify(struct cm_id *id, enum ib_event_type event)
{
	/* No id has the alternate path of IB_EVENT_PATH_MIG. */
	if (event != IB_EVENT_COMM_EST || cm_roce_is_ud(id))
		return -EINVAL;
	if (cm_state(id) == CM_ST_CONNECTED)
		return -EISCONN;
	if (cm_state(id) != CM_ST_ACCEPTING)
		return -EINVAL;
	/* If the slot is taken, the RTU has come. */
	cm_event_post(id, CM_SLOT_OPEN, CM_EV_ESTABLISHED, 0, CM_DISPATCH_WORKER);
	return 0;
}

/* --- the transport --------------------------------------------------------------- */

const struct cm_transport cm_roce_transport = {
	.close_is_locked = true,
	.serves = cm_roce_serves,
	.serves_port = cm_roce_serves_port,
	.port_is_on = cm_roce_port_is_on,
	.attach = cm_roce_attach,
	.detach = cm_roce_detach,
	.release = cm_roce_release,
	.resolve_route = cm_roce_resolve_route,
	.listen = cm_roce_listen,
	.unlisten = cm_roce_unlisten,
	.get_qp = cm_roce_get_qp,
	.put_qp = cm_roce_put_qp,
	.init_qp_attr = cm_roce_init_qp_attr,
	.connect = cm_roce_connect,
	.accept = cm_roce_accept,
	.establish = cm_roce_establish,
	.reject = cm_roce_reject,
	.close = cm_roce_close,
	.notify = cm_roce_notify,
	.join = cm_roce_join,
	.leave = cm_roce_leave,
	.report = cm_roce_report,
};
