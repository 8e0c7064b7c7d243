// SPDX-License-Identifier: GPL-2.0
/*
 * The provider: its iw_* calls, and what it calls back. No other file talks to it.
 *
 * Upcalls come in any context, also inside our own calls. They remember what the peer
 * said, queue an event or, for a process, tell it, and return; only a connect request
 * needs memory, and if there is none, or the listener's queue is full, the provider refuses
 * it by itself.
 */
#include <linux/cred.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include <t3_race_point.h>

#include "rdma_cm.h"
#include "trace.h"

bool cm_iw_able(struct ib_device *device)
{
	u32 port;

	if (!device->ops.iw_connect || !device->ops.iw_accept || !device->ops.iw_reject ||
	    !device->ops.iw_create_listen || !device->ops.iw_destroy_listen ||
	    !device->ops.iw_get_qp || !device->ops.iw_add_ref || !device->ops.iw_rem_ref)
		return false;
	rdma_for_each_port(device, port)
		if (rdma_cap_iw_cm(device, port))
			return true;
	return false;
}

/* --- connections --------------------------------------------------------- */

static struct cm_id *iw_to_id(struct iw_cm_id *iw)
{
	return container_of(iw, struct cm_id, iw);
}

/* The provider takes it inside iw_connect or iw_accept, while it has the QP. */
static void conn_get(struct iw_cm_id *iw)
{
	cm_id_get(iw_to_id(iw));
	cm_qp_hold_late(iw_to_id(iw));
}

static void conn_put(struct iw_cm_id *iw)
{
	cm_id_put(iw_to_id(iw));
}

static int conn_upcall(struct iw_cm_id *iw, struct iw_cm_event *said)
{
	struct cm_id *id = iw_to_id(iw);
	enum cm_event event;

	trace_cm_upcall(id->number, said->event, said->status);
	T3_RACE_POINT(cm_upcall);
	switch (said->event) {
	case IW_CM_EVENT_CONNECT_REPLY:
		if (said->status)
			event = CM_EV_REPLY_FAILED;
		else
			event = id->qp_prepared ? CM_EV_REPLY_OK : CM_EV_REPLY_OK_QPLESS;
		return cm_post(id, id, CM_SLOT_OPEN, event, said->status, said,
			       CM_IN_UPCALL);
	case IW_CM_EVENT_ESTABLISHED:
		return cm_post(id, id, CM_SLOT_OPEN, CM_EV_ESTABLISHED, said->status, said,
			       CM_IN_UPCALL);
	case IW_CM_EVENT_DISCONNECT:
		return cm_post(id, id, CM_SLOT_PEER_CLOSE, CM_EV_PEER_CLOSE, said->status, NULL,
			       CM_IN_UPCALL);
	case IW_CM_EVENT_CLOSE:
		return cm_post(id, id, CM_SLOT_CLOSE, CM_EV_CLOSE, said->status, NULL,
			       CM_IN_UPCALL);
	default:
		return -EINVAL;
	}
}

static void conn_init(struct cm_id *id, struct ib_device *device)
{
	id->iw.device = device;
	id->iw.event_handler = conn_upcall;
	id->iw.add_ref = conn_get;
	id->iw.rem_ref = conn_put;
}

/* No port mapper: the mapped addresses are the addresses. */
static void set_addresses(struct iw_cm_id *iw, struct cm_id *id)
{
	iw->local_addr = id->mirror.id.route.addr.src_addr;
	iw->remote_addr = id->mirror.id.route.addr.dst_addr;
	iw->m_local_addr = iw->local_addr;
	iw->m_remote_addr = iw->remote_addr;
	iw->tos = id->tos;
	iw->tos_set = id->tos_set;
	iw->afonly = id->bind.afonly;
}

/* The consumer's "responder resources" are what it lets the peer read: IRD. */
static struct iw_cm_conn_param iw_param(const struct rdma_conn_param *param, u32 qpn)
{
	return (struct iw_cm_conn_param) {
		.private_data = param->private_data,
		.private_data_len = param->private_data_len,
		.ord = param->initiator_depth,
		.ird = param->responder_resources,
		.qpn = qpn,
	};
}

/* 0: a reply comes, and may be here already. Else: none will. */
int cm_iw_connect(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct ib_device *device = id->mirror.id.device;
	struct iw_cm_conn_param to_iw = iw_param(param, id->mirror.qp_num);

	conn_init(id, device);
	set_addresses(&id->iw, id);
	cm_port_leave_to(id, device);
	T3_RACE_POINT(cm_connect_provider);
	return device->ops.iw_connect(&id->iw, &to_iw);
}

/* 0: ESTABLISHED or CLOSE comes, and may be here already. Else: neither will. */
int cm_iw_accept(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct iw_cm_conn_param to_iw = iw_param(param, id->mirror.qp_num);

	id->iw.tos = id->tos;
	id->iw.tos_set = id->tos_set;
	T3_RACE_POINT(cm_accept_provider);
	return id->iw.device->ops.iw_accept(&id->iw, &to_iw);
}

int cm_iw_refuse(struct cm_id *id, const void *data, u8 len)
{
	T3_RACE_POINT(cm_refuse_provider);
	return id->iw.device->ops.iw_reject(&id->iw, data, len);
}

/*
 * SQD is what iWARP providers take for a graceful close. A QP that has gone to
 * another state is being closed by something else, so errors do not matter. The worker
 * may meanwhile take the provider's CLOSE and drop the connection's reference, and
 * the QP's owner destroy it: so this holds one of its own.
 */
void cm_iw_close(struct cm_id *id, bool abrupt)
{
	struct ib_qp_attr attr = { .qp_state = abrupt ? IB_QPS_ERR : IB_QPS_SQD };
	unsigned long flags;
	struct ib_qp *qp;

	spin_lock_irqsave(&id->lock, flags);
	qp = id->qp;
	if (qp)
		qp->device->ops.iw_add_ref(qp);
	spin_unlock_irqrestore(&id->lock, flags);
	if (!qp)
		return;
	T3_RACE_POINT(cm_close_qp_held);
	ib_modify_qp(qp, &attr, IB_QP_STATE);
	qp->device->ops.iw_rem_ref(qp);
}

/* --- listeners ----------------------------------------------------------- */

static struct cm_listener *iw_to_listener(struct iw_cm_id *iw)
{
	return container_of(iw, struct cm_listener, iw);
}

static void listener_free(struct kref *ref)
{
	struct cm_listener *l = container_of(ref, struct cm_listener, ref);

	cm_dev_put(l->dev);
	cm_id_put(l->id);
	kfree(l);
}

static void listener_get(struct iw_cm_id *iw)
{
	kref_get(&iw_to_listener(iw)->ref);
}

static void listener_put(struct iw_cm_id *iw)
{
	kref_put(&iw_to_listener(iw)->ref, listener_free);
}

/*
 * A request makes its id here, so that what the peer said has a place; the
 * listener's worker makes the rest of it. It takes one of the listener's backlog until that
 * worker has it.
 */
static int listener_upcall(struct iw_cm_id *iw, struct iw_cm_event *said)
{
	struct cm_listener *l = iw_to_listener(iw);
	struct cm_id *listener = l->id, *id;

	trace_cm_upcall(listener->number, said->event, said->status);
	if (said->event != IW_CM_EVENT_CONNECT_REQUEST)
		return -EINVAL;
	T3_RACE_POINT(cm_listener_upcall);
	if (!cm_backlog_get(listener))
		return -ENOMEM;
	id = cm_id_make(cm_net(listener), listener->mirror.id.event_handler, NULL, RDMA_PS_TCP,
			IB_QPT_RC, listener->memcg, GFP_ATOMIC);
	if (!id) {
		cm_backlog_put(listener);
		return -ENOMEM;
	}
	id->user = listener->user;
	/*
	 * The request is of the device that it arrived on, which the listener keeps alive here. The
	 * reference makes cm_remove_one() wait for the request, however long it is queued.
	 */
	cm_dev_hold(id, l->dev);
	conn_init(id, l->dev->device);
	id->iw.local_addr = said->local_addr;
	id->iw.remote_addr = said->remote_addr;
	id->iw.m_local_addr = said->local_addr;
	id->iw.m_remote_addr = said->remote_addr;
	id->iw.provider_data = said->provider_data;
	id->tos = listener->tos;
	id->tos_set = listener->tos_set;
	T3_RACE_POINT(cm_request_made);
	/* The slot of a new id is free: this does not fail. */
	return cm_post(listener, id, CM_SLOT_REQUEST, CM_EV_REQUEST, 0, said, CM_BY_WORKER);
}

/* An id that listens on all devices is listed with each of them, by its ears. */
static void listener_show(struct cm_listener *l)
{
	struct rdma_cm_id *mirror = &l->mirror.id, *id = &l->id->mirror.id;

	lockdep_assert_held(&l->id->listen_mutex);
	if (l->id->dev)
		return;
	mirror->device = l->dev->device;
	mirror->ps = id->ps;
	mirror->qp_type = id->qp_type;
	mirror->route.addr.src_addr = id->route.addr.src_addr;
	l->mirror.state = cm_res_state(CM_LISTENING);
	cm_res_init(&l->mirror, NULL, &l->id->mirror);
	cm_res_show(&l->mirror);
}

static void listener_hide(struct cm_listener *l)
{
	lockdep_assert_held(&l->id->listen_mutex);
	if (!l->id->dev)
		cm_res_hide(&l->mirror);
}

/*
 * A device that is added later listens in a kworker. The provider charges its memory and its quota
 * to the user who called listen, in either case.
 */
static int iw_create_listen(struct cm_listener *l)
{
	struct cm_id *id = l->id;
	struct mem_cgroup *memcg;
	const struct cred *cred;
	int ret;

	cred = override_creds(id->listen_cred);
	memcg = set_active_memcg(id->memcg);
	ret = l->iw.device->ops.iw_create_listen(&l->iw, id->backlog);
	set_active_memcg(memcg);
	revert_creds(cred);
	return ret;
}

/**
 * cm_iw_listen - listen on a device
 * @id: the id
 * @dev: the device
 *
 * Return: 0, also if it listens there already; -EINVAL if it no longer wants to listen;
 * else what the provider says.
 */
int cm_iw_listen(struct cm_id *id, struct cm_dev *dev)
{
	struct cm_listener *l;
	int ret = 0;

	mutex_lock(&id->listen_mutex);
	list_for_each_entry(l, &id->listeners, of_id)
		if (l->dev == dev)
			goto unlock;
	if (cm_state(id) != CM_LISTENING) {
		ret = -EINVAL;
		goto unlock;
	}
	l = cm_zalloc(id->memcg, sizeof(*l), GFP_KERNEL);
	if (!l) {
		ret = -ENOMEM;
		goto unlock;
	}
	kref_init(&l->ref);
	l->id = id;
	l->dev = dev;
	if (!cm_dev_link_listener(l)) {
		kfree(l);
		ret = -ENODEV;
		goto unlock;
	}
	cm_id_get(id);
	l->iw.device = dev->device;
	l->iw.event_handler = listener_upcall;
	l->iw.add_ref = listener_get;
	l->iw.rem_ref = listener_put;
	set_addresses(&l->iw, id);

	cm_port_leave_to(id, dev->device);
	T3_RACE_POINT(cm_listener_linked);
	ret = iw_create_listen(l);
	T3_RACE_POINT(cm_listener_listens);
	if (ret) {
		cm_dev_unlink_listener(l);
		listener_put(&l->iw);
	} else {
		list_add_tail(&l->of_id, &id->listeners);
		listener_show(l);
	}
unlock:
	mutex_unlock(&id->listen_mutex);
	return ret;
}

/**
 * cm_iw_unlisten - listen no more
 * @id: the id
 * @dev: on this device, or NULL: on none
 */
void cm_iw_unlisten(struct cm_id *id, struct cm_dev *dev)
{
	struct cm_listener *l, *next;

	mutex_lock(&id->listen_mutex);
	list_for_each_entry_safe(l, next, &id->listeners, of_id) {
		if (dev && l->dev != dev)
			continue;
		T3_RACE_POINT(cm_unlisten_provider);
		l->dev->device->ops.iw_destroy_listen(&l->iw);
		T3_RACE_POINT(cm_unlistened);
		list_del(&l->of_id);
		listener_hide(l);
		cm_dev_unlink_listener(l);
		listener_put(&l->iw);
	}
	mutex_unlock(&id->listen_mutex);
}
