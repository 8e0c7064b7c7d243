// SPDX-License-Identifier: GPL-2.0
/*
 * RoCE: the kernel's ib_cm has the messages, timers and retries of the IB connection protocol. This
 * chooses the GID and the path of an id, and translates calls and events.
 *
 * Private data of a REQ and a SIDR REQ begin with the IP addresses of the connection (annex A11 of
 * the IB architecture); a service id is made of port space and port.
 *
 * Lifetimes. A struct ib_cm_id holds a reference on its id from its creation until
 * ib_destroy_cm_id() has returned, which waits for the callbacks that run. So a callback may use
 * the id, and cm_roce_release(), at the destroy of the id, is the end of callbacks. It is called
 * with handler_mutex held: a callback only tries that mutex, and never destroys its ib_cm_id.
 *
 * roce_listen.c has the listeners, which give an id its ib_cm_id with a request.
 */
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>
#include <rdma/rdma_cm_ib.h>

#include <t3_race_point.h>

#include "compat.h"
#include "rdma_cm.h"
#include "roce.h"
#include "trace.h"

#define ROCE_CM_TIMEOUT		20	/* 4.096 us * 2^20: 4 s for the reply to a message */
#define ROCE_CM_RETRIES		15
#define ROCE_PACKET_LIFE_TIME	16	/* 4.096 us * 2^16: 0.3 s */
#define ROCE_PSN_MASK		0xffffff
#define ROCE_NOTIFY_TIMEOUT	HZ	/* a worker of ib_cm takes less */

/* Woken when @notified of an id becomes 0. */
static DECLARE_WAIT_QUEUE_HEAD(cm_roce_notify_ended);

/* The head of the private data of a request. */
struct cm_ip_header {
	u8 version;		/* 0 */
	u8 ip_version;		/* in the upper 4 bits */
	__be16 port;		/* of the source */
	struct in6_addr src;	/* an IPv4 address is in the last 4 bytes */
	struct in6_addr dst;
} __packed;

static_assert(sizeof(struct cm_ip_header) == 36);

static bool cm_roce_is_ud(const struct cm_id *id)
{
	return id->base.id.qp_type == IB_QPT_UD;
}

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

int cm_roce_alloc(struct cm_id *id)
{
	id->roce = cm_zalloc_nowait(id->memcg, sizeof(*id->roce));
	if (!id->roce)
		return -ENOMEM;
	id->roce->psn = get_random_u32() & ROCE_PSN_MASK;
	return 0;
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

/* --- the IP addresses in a request ------------------------------------------ */

__be64 cm_roce_service_id(const struct cm_id *id, const struct sockaddr *addr)
{
	return cpu_to_be64(((u64)id->base.id.ps << 16) + cm_addr_port(addr));
}

static void cm_ip_header_set(struct in6_addr *to, const struct sockaddr *from)
{
	if (from->sa_family == AF_INET)
		to->s6_addr32[3] = ((const struct sockaddr_in *)from)->sin_addr.s_addr;
	else
		*to = ((const struct sockaddr_in6 *)from)->sin6_addr;
}

static void cm_ip_header_get(struct sockaddr_in6 *sin6, bool ipv4, const struct in6_addr *from,
			     u16 port, int ifindex)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)sin6;

	memset(sin6, 0, sizeof(*sin6));
	if (ipv4) {
		sin->sin_family = AF_INET;
		sin->sin_addr.s_addr = from->s6_addr32[3];
	} else {
		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = *from;
		if (ipv6_addr_type(from) & IPV6_ADDR_LINKLOCAL)
			sin6->sin6_scope_id = ifindex;
	}
	cm_addr_set_port((struct sockaddr *)sin6, port);
}

/* Private data of a request: the header, then the data of the consumer. The caller frees it. */
static void *cm_roce_request_data(struct cm_id *id, const struct rdma_conn_param *param,
				  unsigned int limit, u8 *len)
{
	struct cm_ip_header *header;
	unsigned int size = sizeof(*header) + param->private_data_len;

	if (size > limit)
		return ERR_PTR(-EINVAL);
	header = kzalloc(size, GFP_KERNEL);
	if (!header)
		return ERR_PTR(-ENOMEM);
	header->ip_version = (cm_src(id)->sa_family == AF_INET ? 4 : 6) << 4;
	header->port = cpu_to_be16(cm_addr_port(cm_src(id)));
	cm_ip_header_set(&header->src, cm_src(id));
	cm_ip_header_set(&header->dst, cm_dst(id));
	if (param->private_data_len)
		memcpy(header + 1, param->private_data, param->private_data_len);
	*len = size;
	return header;
}

static void cm_roce_save_data(struct cm_peer_params *peer, const void *data, unsigned int len)
{
	peer->len = len;
	memcpy(peer->data, data, len);
}

/* Return: false if the header is malformed. */
bool cm_roce_parse_request(struct cm_peer_params *peer, const void *data, unsigned int len,
			   __be64 service_id, int ifindex)
{
	const struct cm_ip_header *header = data;
	bool ipv4 = header->ip_version >> 4 == 4;

	if (header->version || (!ipv4 && header->ip_version >> 4 != 6))
		return false;
	cm_ip_header_get(&peer->remote, ipv4, &header->src, be16_to_cpu(header->port), ifindex);
	cm_ip_header_get(&peer->local, ipv4, &header->dst, be64_to_cpu(service_id), ifindex);
	cm_roce_save_data(peer, header + 1, len - sizeof(*header));
	return true;
}

/* --- QPs of kernel modules --------------------------------------------------- */

static int cm_roce_set_qkey(struct cm_id *id, u32 qkey)
{
	struct cm_roce *roce = id->roce;

	if (id->base.id.ps == RDMA_PS_IPOIB)
		return -EINVAL;
	if (roce->qkey)
		return qkey && qkey != roce->qkey ? -EINVAL : 0;
	roce->qkey = qkey ? qkey : RDMA_UDP_QKEY;
	return 0;
}

/* The Q_Key of an id's datagrams. */
int cm_roce_qkey(struct cm_id *id, u32 *qkey)
{
	int ret = cm_roce_set_qkey(id, 0);

	*qkey = id->roce->qkey;
	return ret;
}

/* The attributes of a QP without a connection. */
static int cm_roce_init_attr(struct cm_id *id, struct ib_qp_attr *attr, int *mask)
{
	struct rdma_cm_id *cm = &id->base.id;
	int ret;

	ret = ib_find_cached_pkey(cm->device, cm->port_num, ROCE_PKEY, &attr->pkey_index);
	if (ret)
		return ret;
	attr->port_num = cm->port_num;
	*mask = IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT;
	if (!cm_roce_is_ud(id)) {
		attr->qp_access_flags = 0;
		*mask |= IB_QP_ACCESS_FLAGS;
		return 0;
	}
	ret = cm_roce_set_qkey(id, 0);
	attr->qkey = id->roce->qkey;
	*mask |= IB_QP_QKEY;
	return ret;
}

static int cm_roce_init_qp_attr(struct cm_id *id, struct ib_qp_attr *attr, int *mask)
{
	struct cm_roce *roce = id->roce;
	int ret;

	if (!roce->ib || cm_roce_is_ud(id))
		ret = cm_roce_init_attr(id, attr, mask);
	else
		ret = ib_cm_init_qp_attr(roce->ib, attr, mask);
	if (ret)
		return ret;
	if (attr->qp_state == IB_QPS_RTR)
		attr->rq_psn = roce->psn;
	if (*mask & IB_QP_TIMEOUT && id->ack_timeout_set)
		attr->timeout = id->ack_timeout;
	return 0;
}

static int cm_roce_modify_qp(struct cm_id *id, enum ib_qp_state state, u8 ird, u8 ord)
	__must_hold(&id->base.qp_mutex)
{
	struct ib_qp_attr attr = { .qp_state = state };
	int mask, ret;

	ret = cm_roce_init_qp_attr(id, &attr, &mask);
	if (ret)
		return ret;
	if (state == IB_QPS_RTR)
		attr.max_dest_rd_atomic = ird;
	if (state == IB_QPS_RTS)
		attr.max_rd_atomic = ord;
	return ib_modify_qp(cm_id_qp(id), &attr, mask);
}

/* Moves the QP of t3_rdma_create_qp() to RTS. Nothing if the consumer has a QP of its own. */
static int cm_roce_open_qp(struct cm_id *id, u8 ird, u8 ord)
{
	int ret = 0;

	mutex_lock(&id->base.qp_mutex);
	if (cm_id_qp(id)) {
		ret = cm_roce_modify_qp(id, IB_QPS_INIT, ird, ord);
		if (!ret)
			ret = cm_roce_modify_qp(id, IB_QPS_RTR, ird, ord);
		if (!ret)
			ret = cm_roce_modify_qp(id, IB_QPS_RTS, ird, ord);
	}
	mutex_unlock(&id->base.qp_mutex);
	return ret;
}

static void cm_roce_close_qp(struct cm_id *id)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	mutex_lock(&id->base.qp_mutex);
	if (cm_id_qp(id))
		ib_modify_qp(cm_id_qp(id), &attr, IB_QP_STATE);
	mutex_unlock(&id->base.qp_mutex);
}

/* The QP is named in a message only, and so needs no reference. */
static int cm_roce_get_qp(struct cm_id *id, u32 qpn)
{
	struct ib_qp *qp = id->base.id.qp;

	id->base.qp_num = qp ? qp->qp_num : qpn;
	return 0;
}

static void cm_roce_put_qp(struct cm_id *id)
{
}

/* --- events ------------------------------------------------------------------ */

/*
 * Posts an event from a callback. The callback may sleep, but actions that sleep are left to the
 * worker: cm_roce_close() may wait for a callback.
 */
static void cm_roce_post(struct cm_id *id, enum cm_slot slot, enum cm_event event, int status)
{
	cm_event_post(id, slot, event, status, CM_DISPATCH_ATOMIC);
}

static void cm_roce_refused(struct cm_id *id, const void *data, unsigned int len, int status)
{
	id->roce->refusal_len = len;
	if (len)
		memcpy(id->roce->refusal, data, len);
	cm_roce_post(id, CM_SLOT_CLOSE, CM_EV_REPLY_FAILED, status);
}

/* The REP of the peer: it has accepted. A consumer moves its own QP, and then establishes. */
static void cm_roce_replied(struct cm_id *id, struct ib_cm_id *ib, const struct ib_cm_event *event)
{
	const struct ib_cm_rep_event_param *rep = &event->param.rep_rcvd;
	bool own_qp = !id->base.id.qp;
	int ret;

	cm_roce_save_data(&id->peer, event->private_data, IB_CM_REP_PRIVATE_DATA_SIZE);
	id->peer.ird = rep->initiator_depth;
	id->peer.ord = rep->responder_resources;
	id->peer.flow_control = rep->flow_control;
	id->peer.rnr_retry_count = rep->rnr_retry_count;
	id->peer.srq = rep->srq;
	id->peer.qpn = rep->remote_qpn;
	id->peer.ece = rep->ece;
	if (own_qp) {
		t3_ib_cm_mra(ib, ROCE_MRA_TIMEOUT);
		cm_roce_post(id, CM_SLOT_OPEN, CM_EV_REPLY_OK_OWN_QP, 0);
		return;
	}
	ret = cm_roce_open_qp(id, id->roce->ird, id->roce->ord);
	T3_RACE_POINT(cm_roce_qp_open);
	if (!ret)
		ret = ib_send_cm_rtu(ib, NULL, 0);
	if (!ret) {
		cm_roce_post(id, CM_SLOT_OPEN, CM_EV_REPLY_OK, 0);
		return;
	}
	cm_roce_close_qp(id);
	ib_send_cm_rej(ib, IB_CM_REJ_CONSUMER_DEFINED, NULL, 0, NULL, 0);
	cm_roce_refused(id, NULL, 0, ret);
}

/* The SIDR REP of a peer of datagrams. Its status 0 is an accept. */
static void cm_roce_sidr_replied(struct cm_id *id, const struct ib_cm_event *event)
{
	const struct ib_cm_sidr_rep_event_param *rep = &event->param.sidr_rep_rcvd;
	struct rdma_cm_id *cm = &id->base.id;
	struct cm_roce *roce = id->roce;
	int ret = rep->status;

	if (!ret)
		ret = cm_roce_set_qkey(id, rep->qkey);
	if (!ret)
		ret = ib_init_ah_attr_from_path(cm->device, cm->port_num, &roce->path, &roce->ah,
						rep->sgid_attr);
	if (ret) {
		cm_roce_refused(id, event->private_data, IB_CM_SIDR_REP_PRIVATE_DATA_SIZE, ret);
		return;
	}
	cm_roce_save_data(&id->peer, event->private_data, IB_CM_SIDR_REP_PRIVATE_DATA_SIZE);
	id->peer.qpn = rep->qpn;
	id->peer.qkey = rep->qkey;
	cm_roce_post(id, CM_SLOT_OPEN, CM_EV_REPLY_OK, 0);
}

/*
 * Waits for the callback that follows a successful ib_cm_notify(). A work item of ib_cm cancels the
 * REP and then calls back, but only if it finds the connection established. After a disconnect or a
 * destroy it does not: the REP is repeated for a minute or more, and ib_destroy_cm_id() waits for
 * that (docs/upstream). So a disconnect and a destroy wait here first.
 */
static void cm_roce_wait_for_notify(struct cm_roce *roce)
{
	wait_event_timeout(cm_roce_notify_ended, !READ_ONCE(roce->notified), ROCE_NOTIFY_TIMEOUT);
}

static void cm_roce_end_notify(struct cm_roce *roce)
{
	if (xchg(&roce->notified, 0))
		wake_up_all(&cm_roce_notify_ended);
}

/*
 * An event of ib_cm about a connection. Returns 0: the destroy of the id destroys the ib_cm_id.
 * Context: a worker of ib_cm; the callbacks of one ib_cm_id come one after the other.
 */
int cm_roce_callback(struct ib_cm_id *ib, const struct ib_cm_event *event)
{
	struct cm_id *id = ib->context;

	trace_cm_ib_upcall(id->number, event->event);
	T3_RACE_POINT(cm_roce_callback);
	switch (event->event) {
	case IB_CM_REQ_ERROR:
	case IB_CM_REP_ERROR:
	case IB_CM_SIDR_REQ_ERROR:
		cm_roce_refused(id, NULL, 0, -ETIMEDOUT);
		break;
	case IB_CM_REP_RECEIVED:
		cm_roce_replied(id, ib, event);
		break;
	case IB_CM_SIDR_REP_RECEIVED:
		cm_roce_sidr_replied(id, event);
		break;
	case IB_CM_RTU_RECEIVED:
	case IB_CM_USER_ESTABLISHED:
		cm_roce_end_notify(id->roce);
		cm_roce_post(id, CM_SLOT_OPEN, CM_EV_ESTABLISHED, 0);
		break;
	case IB_CM_REJ_RECEIVED:
		cm_roce_close_qp(id);
		cm_roce_refused(id, event->private_data, IB_CM_REJ_PRIVATE_DATA_SIZE,
				event->param.rej_rcvd.reason);
		break;
	case IB_CM_DREQ_RECEIVED:
	case IB_CM_DREP_RECEIVED:
		cm_roce_end_notify(id->roce);
		cm_roce_post(id, CM_SLOT_CLOSE, CM_EV_CLOSE, 0);
		break;
	case IB_CM_DREQ_ERROR:
		cm_roce_post(id, CM_SLOT_CLOSE, CM_EV_CLOSE, -ETIMEDOUT);
		break;
	case IB_CM_TIMEWAIT_EXIT:
		cm_roce_post(id, CM_SLOT_TIMEWAIT, CM_EV_TIMEWAIT_EXIT, 0);
		break;
	default:
		/* MRA_RECEIVED: ib_cm waits longer. The others are about alternate paths. */
		break;
	}
	T3_RACE_POINT(cm_roce_callback_ends);
	return 0;
}

static void cm_roce_report_conn(struct cm_id *id, struct rdma_cm_event *report)
{
	struct rdma_conn_param *to = &report->param.conn;
	const struct cm_peer_params *peer = &id->peer;

	to->initiator_depth = peer->ird;
	to->responder_resources = peer->ord;
	to->flow_control = peer->flow_control;
	to->retry_count = peer->retry_count;
	to->rnr_retry_count = peer->rnr_retry_count;
	to->srq = peer->srq;
	to->qp_num = peer->qpn;
	to->private_data = peer->data;
	to->private_data_len = peer->len;
	report->ece = peer->ece;
}

static void cm_roce_report(struct cm_id *id, enum cm_event event, struct rdma_cm_event *report)
{
	bool ud = cm_roce_is_ud(id);

	switch (event) {
	case CM_EV_REPLY_FAILED:
		/* Both begin with the private data. */
		report->param.conn.private_data = id->roce->refusal;
		report->param.conn.private_data_len = id->roce->refusal_len;
		break;
	case CM_EV_REQUEST:
	case CM_EV_REPLY_OK:
	case CM_EV_REPLY_OK_OWN_QP:
		if (!ud) {
			cm_roce_report_conn(id, report);
			break;
		}
		report->param.ud.private_data = id->peer.data;
		report->param.ud.private_data_len = id->peer.len;
		report->param.ud.ah_attr = id->roce->ah;
		report->param.ud.qp_num = id->peer.qpn;
		report->param.ud.qkey = id->peer.qkey;
		break;
	default:
		break;
	}
}

/* --- calls -------------------------------------------------------------------- */

/* The id's end of ib_cm: no callback runs any more when this returns. */
static void cm_roce_release(struct cm_id *id)
{
	struct ib_cm_id *ib = id->roce ? id->roce->ib : NULL;

	if (!ib)
		return;
	id->roce->ib = NULL;
	T3_RACE_POINT(cm_roce_release);
	cm_roce_wait_for_notify(id->roce);
	ib_destroy_cm_id(ib);
	T3_RACE_POINT(cm_roce_released);
	cm_id_put(id);
}

static int cm_roce_send_request(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct rdma_route *route = &id->base.id.route;
	struct ib_qp *qp = id->base.id.qp;
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
		.srq = qp ? !!qp->srq : param->srq,
		.ece = id->ece,
	};
	void *data;
	int ret;

	data = cm_roce_request_data(id, param, IB_CM_REQ_PRIVATE_DATA_SIZE, &req.private_data_len);
	if (IS_ERR(data))
		return PTR_ERR(data);
	req.private_data = data;
	ret = ib_send_cm_req(id->roce->ib, &req);
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
	/* cm_roce_release() has been called, and is not called again. */
	if (cm_state(id) == CM_ST_DESTROYING)
		return -ENODEV;
	ib = ib_create_cm_id(id->base.id.device, cm_roce_callback, id);
	if (IS_ERR(ib))
		return PTR_ERR(ib);
	cm_id_get(id);
	id->roce->ib = ib;
	cm_addr_copy((struct sockaddr *)&id->peer.local, cm_src(id));
	cm_addr_copy((struct sockaddr *)&id->peer.remote, cm_dst(id));
	id->roce->ird = param->responder_resources;
	id->roce->ord = param->initiator_depth;
	T3_RACE_POINT(cm_roce_connect);
	ret = cm_roce_is_ud(id) ? cm_roce_send_sidr_request(id, param) :
				  cm_roce_send_request(id, param);
	/* ib_cm sends one request per ib_cm_id, even if it fails. */
	if (ret)
		cm_roce_release(id);
	return ret;
}

/*
 * The handler of an event, such as the removal of the device, may return non-zero, which destroys
 * the id and its ib_cm_id. It does so before this, or after it.
 */
static int cm_roce_connect(struct cm_id *id, const struct rdma_conn_param *param)
{
	int ret;

	cm_handler_lock(id);
	ret = cm_roce_connect_locked(id, param);
	cm_handler_unlock(id);
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
	if (!ret)
		ret = ib_send_cm_sidr_rep(id->roce->ib, &rep);
	if (!ret)
		cm_fsm_run(id, CM_EV_ACCEPTED, 0);
	return ret;
}

static int cm_roce_accept(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct ib_qp *qp = id->base.id.qp;
	struct ib_cm_rep_param rep = {
		.qp_num = id->base.qp_num,
		.starting_psn = id->roce->psn,
		.private_data = param->private_data,
		.private_data_len = param->private_data_len,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.flow_control = param->flow_control,
		.rnr_retry_count = min_t(u8, 7, param->rnr_retry_count),
		.srq = qp ? !!qp->srq : param->srq,
		.ece = id->ece,
	};
	int ret;

	T3_RACE_POINT(cm_roce_accept);
	if (cm_roce_is_ud(id))
		return cm_roce_accept_ud(id, param);
	ret = cm_roce_open_qp(id, param->responder_resources, param->initiator_depth);
	if (!ret)
		ret = ib_send_cm_rep(id->roce->ib, &rep);
	if (ret) {
		cm_roce_close_qp(id);
		ib_send_cm_rej(id->roce->ib, IB_CM_REJ_CONSUMER_DEFINED, NULL, 0, NULL, 0);
	}
	return ret;
}

static int cm_roce_establish(struct cm_id *id)
{
	T3_RACE_POINT(cm_roce_establish);
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
 * ib_cm knows which message is due: DREQ; DREP, if the peer has sent a DREQ; REJ before the
 * connection is established. After a DREQ another event follows; a DREQ of the peer was an event.
 */
static void cm_roce_close(struct cm_id *id, bool abrupt)
{
	struct ib_cm_id *ib = id->roce->ib;

	if (!ib || cm_roce_is_ud(id))
		return;
	cm_roce_close_qp(id);
	T3_RACE_POINT(cm_roce_close);
	cm_roce_wait_for_notify(id->roce);
	if (!ib_send_cm_dreq(ib, NULL, 0) || !ib_send_cm_drep(ib, NULL, 0))
		return;
	ib_send_cm_rej(ib, IB_CM_REJ_CONSUMER_DEFINED, NULL, 0, NULL, 0);
	if (cm_state(id) != CM_ST_CLOSED)
		cm_event_post(id, CM_SLOT_CLOSE, CM_EV_CLOSE, 0, CM_DISPATCH_WORKER);
}

/* In any context. The callback may come before ib_cm_notify() returns. */
static int cm_roce_notify(struct cm_id *id, enum ib_event_type event)
{
	struct cm_roce *roce = id->roce;
	bool first;
	int ret;

	if (!roce->ib)
		return -EINVAL;
	first = event == IB_EVENT_COMM_EST && !xchg(&roce->notified, 1);
	ret = ib_cm_notify(roce->ib, event);
	if (ret && first)
		cm_roce_end_notify(roce);
	return ret;
}

/* --- the transport --------------------------------------------------------------- */

const struct cm_transport cm_roce_transport = {
	.datagrams = true,
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
