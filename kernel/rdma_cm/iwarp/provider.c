// SPDX-License-Identifier: GPL-2.0
/*
 * iWARP: the provider's iw_* calls and its upcalls. Other files call the provider only for QPs
 * (qp.c) and for the listener on a mapped port (iwpm.c).
 *
 * Upcalls come in any context, also inside our own calls. They store the peer's parameters and
 * queue an event, which is reported at once if that needs no sleep. The upcall itself allocates
 * memory only for a connect request; if that fails or the backlog is full, it returns an error, and
 * the provider rejects the peer. ucm_handler(), if it runs inside the upcall, allocates without
 * blocking, and leaves the report to the worker if that fails.
 */
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "iwarp.h"
#include "trace.h"

/* No other namespace may have the address of the id. */
static int cm_iw_attach(struct cm_id *id, struct net_device *ndev)
{
	return cm_iw_check_addr(id);
}

/* --- devices ------------------------------------------------------------- */

static bool cm_iw_serves_port(struct ib_device *device, u32 port)
{
	return rdma_cap_iw_cm(device, port);
}

static bool cm_iw_serves(struct ib_device *device)
{
	u32 port;

	if (!device->ops.iw_connect || !device->ops.iw_accept || !device->ops.iw_reject ||
	    !device->ops.iw_create_listen || !device->ops.iw_destroy_listen ||
	    !device->ops.iw_get_qp || !device->ops.iw_add_ref || !device->ops.iw_rem_ref)
		return false;
	rdma_for_each_port(device, port)
		if (cm_iw_serves_port(device, port))
			return true;
	return false;
}

/* --- connections --------------------------------------------------------- */

/**
 * struct cm_iw - the provider's part of an id
 * @base: what the provider sees
 * @id: the id, which has allocated this
 */
struct cm_iw {
	struct iw_cm_id base;
	struct cm_id *id;
};

static struct cm_id *cm_iw_to_id(struct iw_cm_id *iw)
{
	return container_of(iw, struct cm_iw, base)->id;
}

/* In any context. The id has these from its first connect, or from its request. */
static void cm_iw_detach(struct cm_id *id)
{
	cm_iwpm_unmap(id->mapping);
	id->mapping = NULL;
	if (id->iw)
		kfree(container_of(id->iw, struct cm_iw, base));
	id->iw = NULL;
}

/* The provider takes the reference inside iw_connect or iw_accept, while it holds the QP. */
static void cm_conn_get(struct iw_cm_id *iw)
{
	cm_id_get(cm_iw_to_id(iw));
	cm_qp_get_late(cm_iw_to_id(iw));
}

static void cm_conn_put(struct iw_cm_id *iw)
{
	cm_id_put(cm_iw_to_id(iw));
}

/*
 * The provider's last event puts the reference on the QP here, and not when the event is handled:
 * a destroy of the QP waits for the reference, and a task may hold handler_mutex for long.
 * iw_rem_ref of iw_cxgb3 may be called in any context; siw holds a reference of its own during the
 * upcall.
 */
static int cm_conn_upcall(struct iw_cm_id *iw, struct iw_cm_event *iw_event)
{
	struct cm_id *id = cm_iw_to_id(iw);
	enum cm_event event;

	trace_cm_upcall(id->number, iw_event->event, iw_event->status);
	switch (iw_event->event) {
	case IW_CM_EVENT_CONNECT_REPLY:
		cm_iwpm_unmap_reply(id, iw_event);
		if (iw_event->status) {
			event = CM_EV_REPLY_FAILED;
			cm_qp_put(id);
		} else {
			event = id->qp_prepared ? CM_EV_REPLY_OK : CM_EV_RESPONSE;
		}
		return cm_reply_post(id, event, iw_event);
	case IW_CM_EVENT_ESTABLISHED:
		/* An accept that failed after its return: CLOSE follows, with the same status. */
		if (iw_event->status)
			return 0;
		return cm_reply_post(id, CM_EV_ESTABLISHED, iw_event);
	case IW_CM_EVENT_DISCONNECT:
		return cm_event_post(id, CM_SLOT_PEER_CLOSE, CM_EV_PEER_CLOSE, iw_event->status,
				     CM_DISPATCH_ATOMIC);
	case IW_CM_EVENT_CLOSE:
		cm_qp_put(id);
		return cm_event_post(id, CM_SLOT_CLOSE, CM_EV_CLOSE, iw_event->status,
				     CM_DISPATCH_ATOMIC);
	default:
		return -EINVAL;
	}
}

/* An id that connects again after an error has it already, and may be on another device now. */
static int cm_conn_init(struct cm_id *id, struct ib_device *device, gfp_t gfp)
{
	struct cm_iw *iw;

	if (!id->iw) {
		iw = cm_zalloc(id->memcg, sizeof(*iw), gfp);
		if (!iw)
			return -ENOMEM;
		iw->id = id;
		id->iw = &iw->base;
	}
	id->iw->device = device;
	/* As in-tree rdma_cm: a provider asks it for the namespace and the owner. */
	id->iw->context = &id->base.id;
	id->iw->event_handler = cm_conn_upcall;
	id->iw->add_ref = cm_conn_get;
	id->iw->rem_ref = cm_conn_put;
	return 0;
}

/* The mapped addresses equal the addresses, until the port mapper has others. */
static void cm_iw_set_addrs(struct iw_cm_id *iw, struct cm_id *id, const struct sockaddr *src)
{
	cm_addr_copy((struct sockaddr *)&iw->local_addr, src);
	iw->remote_addr = id->base.id.route.addr.dst_addr;
	iw->m_local_addr = iw->local_addr;
	iw->m_remote_addr = iw->remote_addr;
	iw->tos = id->tos;
	iw->tos_set = id->tos_set;
	iw->afonly = id->bind.afonly;
}

/* responder_resources are the READs that the peer may have outstanding: IRD. */
static struct iw_cm_conn_param cm_iw_param(const struct rdma_conn_param *param, u32 qpn)
{
	return (struct iw_cm_conn_param) {
		.private_data = param->private_data,
		.private_data_len = param->private_data_len,
		.ord = param->initiator_depth,
		.ird = param->responder_resources,
		.qpn = qpn,
	};
}

/*
 * siw makes its socket in the namespace of the task that calls it, which may be another one than
 * that of the id: a worker is in the first namespace, and a process may have changed its own.
 */
static bool cm_iw_in_net(struct cm_id *id, const struct ib_device *device)
{
	const struct nsproxy *nsproxy = current->nsproxy;

	return !cm_dev_has_sockets(device) ||
	       (nsproxy && net_eq(nsproxy->net_ns, cm_net(id)));
}

/* Return: 0: a reply follows, or has come inside the call. Otherwise none follows. */
static int cm_iw_connect(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct ib_device *device = id->base.id.device;
	struct iw_cm_conn_param to_iw = cm_iw_param(param, id->base.qp_num);
	int ret;

	if (!cm_dev_takes(cm_dev_of(id), id))
		return -EINVAL;
	if (!cm_iw_in_net(id, device))
		return -EADDRNOTAVAIL;
	ret = cm_iw_check_addr(id);	/* the bind may have been long ago */
	if (!ret)
		ret = cm_conn_init(id, device, GFP_KERNEL);
	if (ret)
		return ret;
	cm_iw_set_addrs(id->iw, id, cm_src(id));
	cm_port_release_tcp(id, device);
	cm_iwpm_map_connection(id);
	ret = cm_qp_get_again(id);
	if (!ret)
		ret = device->ops.iw_connect(id->iw, &to_iw);
	if (ret) {
		/* The consumer may try again. */
		cm_iwpm_unmap(id->mapping);
		id->mapping = NULL;
		return ret;
	}
	cm_qp_abort_refused(id);
	return 0;
}

/* A reject of MPA has no reason. */
static int cm_iw_reject(struct cm_id *id, const void *data, u8 len, u8 reason)
{
	return id->iw->device->ops.iw_reject(id->iw, data, len);
}

/* Return: 0: ESTABLISHED or CLOSE follows, or has come inside the call. Otherwise neither. */
static int cm_iw_accept(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct iw_cm_conn_param to_iw = cm_iw_param(param, id->base.qp_num);
	int ret;

	id->iw->tos = id->tos;
	id->iw->tos_set = id->tos_set;
	ret = cm_qp_get_again(id);
	if (ret) {
		cm_iw_reject(id, NULL, 0, 0);
		return ret;
	}
	ret = id->iw->device->ops.iw_accept(id->iw, &to_iw);
	if (!ret)
		cm_qp_abort_refused(id);
	return ret;
}

/*
 * iWARP providers close gracefully on a change to SQD, and abort on a change to ERR. An error of
 * the change means that the QP has left RTS, so its connection is being closed already.
 *
 * The worker may meanwhile handle the provider's CLOSE and put the connection's reference, and
 * the QP's owner may destroy the QP. So this takes a reference of its own.
 */
static void cm_iw_close(struct cm_id *id, bool abrupt)
{
	struct ib_qp_attr attr = { .qp_state = abrupt ? IB_QPS_ERR : IB_QPS_SQD };
	unsigned long flags;
	struct ib_qp *qp;

	spin_lock_irqsave(&id->lock, flags);
	qp = id->conn_qp;
	if (qp)
		qp->device->ops.iw_add_ref(qp);
	spin_unlock_irqrestore(&id->lock, flags);
	if (!qp)
		return;
	ib_modify_qp(qp, &attr, IB_QP_STATE);
	qp->device->ops.iw_rem_ref(qp);
}

/* A provider that can cancel a connect does so when its QP goes to ERR. */
static void cm_iw_cancel(struct cm_id *id)
{
	cm_iw_close(id, true);
}

/* --- listeners ----------------------------------------------------------- */

static struct cm_listener *cm_iw_to_listener(struct iw_cm_id *iw)
{
	return container_of(iw, struct cm_iw_bound, iw)->listener;
}

static void cm_iw_listener_get(struct iw_cm_id *iw)
{
	cm_listener_get(cm_iw_to_listener(iw));
}

static void cm_iw_listener_put(struct iw_cm_id *iw)
{
	cm_listener_put(cm_iw_to_listener(iw));
}

/*
 * A connect request. Allocates its id, which stores the peer's parameters; cm_request_complete()
 * does the rest. The request takes a place of the listener's backlog until then.
 */
static int cm_iw_request(struct cm_listener *l, struct iw_cm_event *iw_event)
{
	struct cm_id *listener = l->id, *id;

	trace_cm_upcall(listener->number, iw_event->event, iw_event->status);
	if (iw_event->event != IW_CM_EVENT_CONNECT_REQUEST)
		return -EINVAL;
	id = cm_request_alloc(l, RDMA_PS_TCP, IB_QPT_RC);
	if (!id)
		return -ENOMEM;
	if (cm_conn_init(id, l->dev->device, GFP_ATOMIC)) {
		cm_request_free(l, id);
		return -ENOMEM;
	}
	/*
	 * The id belongs to the device on which the request arrived; here the listener still holds
	 * it. The id's own reference makes cm_remove_one() wait while the request is queued.
	 */
	cm_dev_assign(id, l->dev);
	id->iw->m_local_addr = iw_event->local_addr;
	id->iw->m_remote_addr = iw_event->remote_addr;
	cm_iwpm_unmap_request(l, iw_event);
	id->iw->local_addr = iw_event->local_addr;
	id->iw->remote_addr = iw_event->remote_addr;
	id->iw->provider_data = iw_event->provider_data;
	/* Cannot fail, as the slot of a new id is free. */
	return cm_request_post(listener, id, iw_event);
}

static int cm_listener_upcall(struct iw_cm_id *iw, struct iw_cm_event *iw_event)
{
	return cm_iw_request(cm_iw_to_listener(iw), iw_event);
}

static void cm_iw_bound_init(struct cm_iw_bound *bound, struct cm_listener *l)
{
	bound->listener = l;
	bound->iw.device = l->dev->device;
	bound->iw.context = &l->id->base.id;	/* for the namespace, inside the call */
	bound->iw.event_handler = cm_listener_upcall;
	bound->iw.add_ref = cm_iw_listener_get;
	bound->iw.rem_ref = cm_iw_listener_put;
}

static int cm_iw_listen(struct cm_listener *l)
{
	struct ib_device *device = l->dev->device;
	int ret;

	if (!cm_dev_takes(l->dev, l->id))
		return -EINVAL;
	if (!cm_iw_in_net(l->id, device))
		return -EADDRNOTAVAIL;
	l->iw = cm_zalloc_nowait(l->id->memcg, sizeof(*l->iw));
	if (!l->iw)
		return -ENOMEM;
	cm_iw_bound_init(&l->iw->own, l);
	cm_iw_bound_init(&l->iw->mapped, l);
	cm_iw_set_addrs(&l->iw->own.iw, l->id, (struct sockaddr *)&l->addr);
	cm_port_share_tcp(l->id, device, true);
	ret = device->ops.iw_create_listen(&l->iw->own.iw, l->id->backlog);
	cm_port_share_tcp(l->id, device, false);
	if (!ret)
		cm_iwpm_map_listener(l);
	return ret;
}

static void cm_iw_unlisten(struct cm_listener *l)
{
	cm_iwpm_unmap_listener(l);
	l->dev->device->ops.iw_destroy_listen(&l->iw->own.iw);
}

/* --- QPs ------------------------------------------------------------------ */

/*
 * The provider moves the QP to RTS when it establishes the connection. After CONNECT_RESPONSE the
 * QP is already in RTS, so the returned mask changes nothing.
 */
static int cm_iw_init_qp_attr(struct cm_id *id, struct ib_qp_attr *attr, int *mask)
{
	enum cm_state state = cm_state(id);

	attr->qp_access_flags = 0;
	attr->port_num = id->base.id.port_num;
	if (!cm_past_connect(state)) {
		id->qp_prepared = true;
		*mask = IB_QP_STATE | IB_QP_ACCESS_FLAGS | IB_QP_PORT;
		return 0;
	}
	switch (attr->qp_state) {
	case IB_QPS_INIT:
	case IB_QPS_RTR:
		if (state == CM_ST_RESPONDED) {
			*mask = IB_QP_PORT;
			return 0;
		}
		attr->qp_access_flags = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ;
		*mask = IB_QP_STATE | IB_QP_ACCESS_FLAGS | IB_QP_PORT;
		return 0;
	case IB_QPS_RTS:
		*mask = IB_QP_PORT;
		return 0;
	default:
		return -EINVAL;
	}
}

static void cm_iw_report(struct cm_id *id, enum cm_event event, struct rdma_cm_event *report)
{
	switch (event) {
	case CM_EV_REQUEST:
	case CM_EV_REPLY_OK:
	case CM_EV_RESPONSE:
	case CM_EV_REPLY_FAILED:
		report->param.conn.private_data = id->peer.data;
		report->param.conn.private_data_len = id->peer.len;
		fallthrough;
	case CM_EV_ESTABLISHED:
		report->param.conn.initiator_depth = id->peer.ird;
		report->param.conn.responder_resources = id->peer.ord;
		break;
	default:
		break;
	}
}

const struct cm_transport cm_iw_transport = {
	.tcp = true,
	.serves = cm_iw_serves,
	.serves_port = cm_iw_serves_port,
	.port_is_on = cm_iw_port_is_on,
	.is_in_net = cm_iw_is_in_net,
	.attach = cm_iw_attach,
	.detach = cm_iw_detach,
	.cancel_waits = cm_iwpm_cancel_dev,
	.listen_addrs = cm_iw_listen_addrs,
	.addr_use = cm_iw_addr_use,
	.listen = cm_iw_listen,
	.unlisten = cm_iw_unlisten,
	.get_qp = cm_qp_get,
	.put_qp = cm_qp_put,
	.init_qp_attr = cm_iw_init_qp_attr,
	.connect = cm_iw_connect,
	.accept = cm_iw_accept,
	.reject = cm_iw_reject,
	.close = cm_iw_close,
	.cancel = cm_iw_cancel,
	.report = cm_iw_report,
};
