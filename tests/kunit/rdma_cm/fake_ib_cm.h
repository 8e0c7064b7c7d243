/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's ib_cm, as far as roce.c uses it: ids with the states in which a message may be sent,
 * callbacks that the test calls, and a destroy that waits for them. It counts messages.
 */
#ifndef T3_FAKE_IB_CM_H
#define T3_FAKE_IB_CM_H

#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/wait.h>
#include <net/ip6_route.h>
#include <net/ip_fib.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>

#include "compat.h"

static struct {
	/* The id of the last connect or request; the shared listener, and its users. */
	struct ib_cm_id *conn, *listener;
	int listener_users;
	int ids;			/* number of ids that exist */
	atomic_t callbacks;		/* number of callbacks that run */
	struct task_struct *in_callback;
	wait_queue_head_t callback_done;
	bool destroyed_in_callback;	/* ib_cm would wait for itself */
	bool wrong_state;		/* a message was sent that the protocol does not allow */
	int next_error;			/* of the next message */
	int listen_error;
	/* Messages that were sent, and the contents of the last one. */
	unsigned int reqs, reps, rtus, rejs, dreqs, dreps, mras, sidr_reqs, sidr_reps;
	int rej_reason, sidr_status;
	__be64 service_id;
	u8 data[256], data_len;
	u32 qkey, psn;
	struct rdma_ucm_ece ece;
	/* References on GID attributes and address handle attributes. */
	int gid_refs, ah_refs;
	bool no_gid;
	int igmp;			/* number of IP groups on the interface */
	bool no_ipv4;			/* the interface has no IPv4 */
	union ib_gid mgid;		/* of the last join */
	int join_error;
	/* The route to the peer: not over the interface of arrival; its type, or unicast. */
	bool route_elsewhere;
	u8 route_type;
} fake_ib;

static void fake_ib_reset(void)
{
	memset(&fake_ib, 0, sizeof(fake_ib));
	init_waitqueue_head(&fake_ib.callback_done);
}

static int fake_ib_take_error(void)
{
	int ret = fake_ib.next_error;

	fake_ib.next_error = 0;
	return ret;
}

static struct ib_cm_id *fake_ib_new(struct ib_device *device, ib_cm_handler callback,
				    void *context)
{
	struct ib_cm_id *ib = kzalloc(sizeof(*ib), GFP_KERNEL);

	if (!ib)
		return ERR_PTR(-ENOMEM);
	ib->cm_handler = callback;
	ib->context = context;
	ib->device = device;
	ib->state = IB_CM_IDLE;
	fake_ib.ids++;
	return ib;
}

static struct ib_cm_id *fake_ib_create(struct ib_device *device, ib_cm_handler callback,
				       void *context)
{
	struct ib_cm_id *ib;
	int ret = fake_ib_take_error();

	if (ret)
		return ERR_PTR(ret);
	ib = fake_ib_new(device, callback, context);
	if (!IS_ERR(ib))
		fake_ib.conn = ib;
	return ib;
}

static struct ib_cm_id *fake_ib_listen(struct ib_device *device, ib_cm_handler callback,
				       __be64 service_id)
{
	if (fake_ib.listen_error)
		return ERR_PTR(fake_ib.listen_error);
	if (!fake_ib.listener) {
		struct ib_cm_id *ib = fake_ib_new(device, callback, NULL);

		if (IS_ERR(ib))
			return ib;
		fake_ib.listener = ib;
		ib->service_id = service_id;
	}
	fake_ib.listener_users++;
	return fake_ib.listener;
}

static void fake_ib_destroy(struct ib_cm_id *ib)
{
	if (fake_ib.in_callback == current)
		fake_ib.destroyed_in_callback = true;
	else
		wait_event(fake_ib.callback_done, !atomic_read(&fake_ib.callbacks));
	if (ib == fake_ib.listener) {
		if (--fake_ib.listener_users)
			return;
		fake_ib.listener = NULL;
	}
	if (ib == fake_ib.conn)
		fake_ib.conn = NULL;
	fake_ib.ids--;
	kfree(ib);
}

/* Return: 0, or an error if the state of the id does not allow the message. */
static int fake_ib_send(struct ib_cm_id *ib, bool allowed, enum ib_cm_state next,
			unsigned int *count)
{
	int ret = allowed ? fake_ib_take_error() : -EINVAL;

	if (ret)
		return ret;
	ib->state = next;
	++*count;
	return 0;
}

static void fake_ib_keep_data(const void *data, u8 len)
{
	fake_ib.data_len = len;
	if (len)
		memcpy(fake_ib.data, data, len);
}

static int fake_ib_send_req(struct ib_cm_id *ib, struct ib_cm_req_param *param)
{
	fake_ib_keep_data(param->private_data, param->private_data_len);
	fake_ib.service_id = param->service_id;
	fake_ib.psn = param->starting_psn;
	fake_ib.ece = param->ece;
	return fake_ib_send(ib, ib->state == IB_CM_IDLE, IB_CM_REQ_SENT, &fake_ib.reqs);
}

static int fake_ib_send_rep(struct ib_cm_id *ib, struct ib_cm_rep_param *param)
{
	fake_ib_keep_data(param->private_data, param->private_data_len);
	fake_ib.ece = param->ece;
	return fake_ib_send(ib, ib->state == IB_CM_REQ_RCVD, IB_CM_REP_SENT, &fake_ib.reps);
}

static int fake_ib_send_rtu(struct ib_cm_id *ib, const void *data, u8 len)
{
	return fake_ib_send(ib, ib->state == IB_CM_REP_RCVD, IB_CM_ESTABLISHED, &fake_ib.rtus);
}

static int fake_ib_send_dreq(struct ib_cm_id *ib, const void *data, u8 len)
{
	return fake_ib_send(ib, ib->state == IB_CM_ESTABLISHED, IB_CM_DREQ_SENT, &fake_ib.dreqs);
}

static int fake_ib_send_drep(struct ib_cm_id *ib, const void *data, u8 len)
{
	return fake_ib_send(ib, ib->state == IB_CM_DREQ_RCVD, IB_CM_TIMEWAIT, &fake_ib.dreps);
}

static int fake_ib_send_rej(struct ib_cm_id *ib, enum ib_cm_rej_reason reason, void *ari,
			    u8 ari_len, const void *data, u8 len)
{
	/* ib_cm allows it after a REP, too, which it then repeats until it times out. */
	bool allowed = ib->state == IB_CM_REQ_RCVD || ib->state == IB_CM_REP_RCVD;

	if (allowed) {
		fake_ib.rej_reason = reason;
		fake_ib_keep_data(data, len);
	}
	return fake_ib_send(ib, allowed, IB_CM_IDLE, &fake_ib.rejs);
}

static int fake_ib_send_sidr_req(struct ib_cm_id *ib, struct ib_cm_sidr_req_param *param)
{
	fake_ib_keep_data(param->private_data, param->private_data_len);
	fake_ib.service_id = param->service_id;
	return fake_ib_send(ib, ib->state == IB_CM_IDLE, IB_CM_SIDR_REQ_SENT, &fake_ib.sidr_reqs);
}

static int fake_ib_send_sidr_rep(struct ib_cm_id *ib, struct ib_cm_sidr_rep_param *param)
{
	fake_ib.sidr_status = param->status;
	fake_ib.qkey = param->qkey;
	return fake_ib_send(ib, ib->state == IB_CM_SIDR_REQ_RCVD, IB_CM_IDLE, &fake_ib.sidr_reps);
}

static void fake_ib_mra(struct ib_cm_id *ib, u8 timeout)
{
	fake_ib.mras++;
}

static int fake_ib_init_qp_attr(struct ib_cm_id *ib, struct ib_qp_attr *attr, int *mask)
{
	*mask = IB_QP_STATE | IB_QP_TIMEOUT;
	attr->timeout = 18;
	return 0;
}

/* --- its events ------------------------------------------------------------- */

/* Calls a callback as a worker of ib_cm does: it may sleep. */
static int fake_ib_call(struct ib_cm_id *ib, const struct ib_cm_event *event)
{
	int ret;

	atomic_inc(&fake_ib.callbacks);
	fake_ib.in_callback = current;
	ret = ib->cm_handler(ib, event);
	fake_ib.in_callback = NULL;
	atomic_dec(&fake_ib.callbacks);
	wake_up(&fake_ib.callback_done);
	return ret;
}

/* An event of the connection, which changes the state as in ib_cm. @status: e.g. a reason. */
static void __maybe_unused fake_ib_event(enum ib_cm_event_type type, int status)
{
	static char data[256] = "private";
	struct ib_cm_event event = { .event = type, .private_data = data };
	struct ib_cm_id *ib = fake_ib.conn;

	switch (type) {
	case IB_CM_REP_RECEIVED:
		ib->state = IB_CM_REP_RCVD;
		event.param.rep_rcvd.remote_qpn = 77;
		event.param.rep_rcvd.responder_resources = 3;
		event.param.rep_rcvd.initiator_depth = 2;
		event.param.rep_rcvd.ece.vendor_id = 9;
		break;
	case IB_CM_REJ_RECEIVED:
		ib->state = IB_CM_IDLE;
		event.param.rej_rcvd.reason = status;
		break;
	case IB_CM_RTU_RECEIVED:
		ib->state = IB_CM_ESTABLISHED;
		break;
	case IB_CM_DREQ_RECEIVED:
		ib->state = IB_CM_DREQ_RCVD;
		break;
	case IB_CM_DREP_RECEIVED:
	case IB_CM_DREQ_ERROR:
		ib->state = IB_CM_TIMEWAIT;
		break;
	case IB_CM_SIDR_REP_RECEIVED:
		ib->state = IB_CM_IDLE;
		event.param.sidr_rep_rcvd.status = status;
		event.param.sidr_rep_rcvd.qpn = 77;
		event.param.sidr_rep_rcvd.qkey = fake_ib.qkey;
		break;
	default:
		ib->state = IB_CM_IDLE;
		break;
	}
	fake_ib_call(ib, &event);
}

/* --- ib_core ------------------------------------------------------------------ */

static const struct ib_gid_attr *fake_find_gid(struct ib_device *device, const union ib_gid *gid,
					       enum ib_gid_type type, u32 port,
					       struct net_device *ndev);

static void fake_put_gid(const struct ib_gid_attr *attr)
{
	fake_ib.gid_refs--;
}

static void fake_hold_gid(const struct ib_gid_attr *attr)
{
	fake_ib.gid_refs++;
}

static int fake_init_ah_attr(struct ib_device *device, u32 port, struct sa_path_rec *path,
			     struct rdma_ah_attr *ah, const struct ib_gid_attr *attr)
{
	fake_ib.ah_refs++;
	ah->ah_flags = IB_AH_GRH;
	ah->grh.hop_limit = 64;
	return 0;
}

static void fake_destroy_ah_attr(struct rdma_ah_attr *ah)
{
	if (ah->ah_flags)
		fake_ib.ah_refs--;
}

static int fake_init_group_ah(struct ib_device *device, u32 port, struct ib_sa_mcmember_rec *rec,
			      struct net_device *ndev, enum ib_gid_type type,
			      struct rdma_ah_attr *ah)
{
	if (fake_ib.join_error)
		return fake_ib.join_error;
	fake_ib.mgid = rec->mgid;
	fake_ib.ah_refs++;
	ah->ah_flags = IB_AH_GRH;
	return 0;
}

static struct in_device *fake_in_dev(const struct net_device *ndev)
{
	return fake_ib.no_ipv4 ? NULL : __in_dev_get_rtnl(ndev);
}

static struct net_device *fake_route_ndev(void)
{
	static struct net_device elsewhere;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "the net device may be freed");
	return fake_ib.route_elsewhere ? &elsewhere : init_net.loopback_dev;
}

static int fake_fib_lookup(struct net *net, const struct flowi4 *flow, struct fib_result *result,
			   unsigned int flags)
{
	static struct fib_nh_common next_hop;

	next_hop.nhc_dev = fake_route_ndev();
	result->nhc = &next_hop;
	result->type = fake_ib.route_type ? fake_ib.route_type : RTN_UNICAST;
	return 0;
}

static struct rt6_info *fake_rt6_lookup(struct net *net, const struct in6_addr *daddr,
					const struct in6_addr *saddr, int oif,
					const struct sk_buff *skb, int flags)
{
	static struct inet6_dev in6_dev;
	static struct rt6_info route = { .rt6i_idev = &in6_dev };

	in6_dev.dev = fake_route_ndev();
	return &route;
}

static int fake_find_pkey(struct ib_device *device, u32 port, u16 pkey, u16 *index)
{
	*index = 0;
	return 0;
}

#define ib_create_cm_id			fake_ib_create
#define ib_cm_insert_listen		fake_ib_listen
#define ib_destroy_cm_id		fake_ib_destroy
#define ib_send_cm_req			fake_ib_send_req
#define ib_send_cm_rep			fake_ib_send_rep
#define ib_send_cm_rtu			fake_ib_send_rtu
#define ib_send_cm_dreq			fake_ib_send_dreq
#define ib_send_cm_drep			fake_ib_send_drep
#define ib_send_cm_rej			fake_ib_send_rej
#define ib_send_cm_sidr_req		fake_ib_send_sidr_req
#define ib_send_cm_sidr_rep		fake_ib_send_sidr_rep
#define ib_cm_init_qp_attr		fake_ib_init_qp_attr
#define t3_ib_cm_mra			fake_ib_mra
#define ib_init_ah_attr_from_path	fake_init_ah_attr
#define ib_init_ah_from_mcmember	fake_init_group_ah
#define __in_dev_get_rtnl		fake_in_dev
#define fib_lookup			fake_fib_lookup
#define rt6_lookup			fake_rt6_lookup
#define ip6_rt_put(route)		((void)(route))
#define ip_mc_inc_group(in_dev, addr)	((void)(addr), (void)fake_ib.igmp++)
#define ip_mc_dec_group(in_dev, addr)	((void)(addr), (void)fake_ib.igmp--)
#define rdma_destroy_ah_attr		fake_destroy_ah_attr
#define ib_find_cached_pkey		fake_find_pkey
#define rdma_find_gid_by_port		fake_find_gid
#define rdma_hold_gid_attr		fake_hold_gid
#define rdma_put_gid_attr		fake_put_gid

#endif
