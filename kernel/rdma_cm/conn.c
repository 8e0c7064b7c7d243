// SPDX-License-Identifier: GPL-2.0
/*
 * Connections, as consumers ask for them: a step in the table, then the call to the
 * provider without any lock, then, if that failed, a step back.
 */
#include <linux/cred.h>
#include <net/net_namespace.h>

#include <t3_race_point.h>

#include "rdma_cm.h"

#define DEFAULT_BACKLOG	256

/**
 * t3_rdma_listen - wait for connect requests
 * @id: the id; if it is not bound, it gets any port of any IPv4 address
 * @backlog: how many requests may wait for the handler; 0 or less: a default
 *
 * On a wildcard address the id listens on all devices, and on those that come.
 *
 * Return: 0, or an error of the port space or of the devices.
 */
int t3_rdma_listen(struct rdma_cm_id *id, int backlog)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (cm_state(cm) != CM_BOUND) {
		ret = cm_bind_any(cm, NULL);
		if (ret)
			return ret;
	}
	if (cm_src(cm)->sa_family == AF_IB)
		return -EAFNOSUPPORT;
	ret = cm_step(cm, CM_EV_LISTEN, 0, NULL);
	if (ret)
		return ret;
	cm->backlog = backlog > 0 ? backlog : DEFAULT_BACKLOG;
	atomic_set(&cm->backlog_left, cm->backlog);
	if (!cm->listen_cred)
		cm->listen_cred = get_current_cred();
	T3_RACE_POINT(cm_listen_stepped);
	ret = cm->bind.reuse ? cm_port_listen(cm) : 0;
	if (!ret)
		ret = cm->dev ? cm_iw_listen(cm, cm->dev) : cm_listen_on_all(cm);
	if (ret)
		cm_do(cm, CM_EV_LISTEN_FAILED, ret);
	return ret;
}
EXPORT_SYMBOL(t3_rdma_listen);

/**
 * t3_rdma_connect - connect to where the route of an id leads
 * @id: the id
 * @param: private data, depths, and the number of the QP if it was not made by
 *	t3_rdma_create_qp()
 *
 * A module must not destroy the QP before this has returned; a process may.
 *
 * Return: 0: ESTABLISHED, CONNECT_RESPONSE or one of REJECTED, UNREACHABLE and
 * CONNECT_ERROR follows. Else there is no event, and it may be tried again.
 */
int t3_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (id->qp_type != IB_QPT_RC)
		return -EINVAL;
	ret = cm_step(cm, CM_EV_CONNECT, 0, NULL);
	if (ret)
		return ret;
	ret = cm_qp_hold(cm, param->qp_num);
	if (!ret)
		ret = cm_iw_connect(cm, param);
	T3_RACE_POINT(cm_connect_asked);
	if (ret)
		cm_do(cm, CM_EV_CONNECT_FAILED, ret);
	return ret;
}
EXPORT_SYMBOL(t3_rdma_connect);

/**
 * t3_rdma_accept - say yes to a connect request
 * @id: the id that came with it
 * @param: as for t3_rdma_connect()
 *
 * Return: 0: ESTABLISHED or CONNECT_ERROR follows. Else the peer was refused.
 */
int t3_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (cm_state(cm) != CM_REQUESTED)
		return -EINVAL;
	ret = cm_qp_hold(cm, param->qp_num);
	if (ret) {
		cm_do(cm, CM_EV_REJECT, ret);
		return ret;
	}
	ret = cm_step(cm, CM_EV_ACCEPT, 0, NULL);
	if (ret) {
		cm_qp_drop(cm);
		return ret;
	}
	ret = cm_iw_accept(cm, param);
	T3_RACE_POINT(cm_accept_asked);
	if (ret)
		cm_do(cm, CM_EV_ACCEPT_FAILED, ret);
	return ret;
}
EXPORT_SYMBOL(t3_rdma_accept);

/**
 * t3_rdma_establish - say that the QP of an id that got CONNECT_RESPONSE is ready
 * @id: the id
 *
 * Return: 0, or -EINVAL if there is no such response.
 */
int t3_rdma_establish(struct rdma_cm_id *id)
{
	return cm_do(to_cm_id(id), CM_EV_ESTABLISH, 0);
}
EXPORT_SYMBOL(t3_rdma_establish);

/**
 * t3_rdma_reject - say no to a connect request, or to a response
 * @id: the id
 * @private_data: for the peer; only a request's answer carries it
 * @len: its length
 *
 * Return: 0, -EINVAL if there is nothing to reject, or what the provider says.
 */
int t3_rdma_reject(struct rdma_cm_id *id, const void *private_data, u8 len)
{
	struct cm_id *cm = to_cm_id(id);
	const struct cm_cell *cell;
	int ret;

	ret = cm_step(cm, CM_EV_REJECT, 0, &cell);
	if (ret)
		return ret;
	if (cell->actions & CM_REFUSE)
		return cm_iw_refuse(cm, private_data, len);
	cm_act(cm, cell->actions);
	return 0;
}
EXPORT_SYMBOL(t3_rdma_reject);

/**
 * t3_rdma_disconnect - close a connection
 * @id: the id
 *
 * Return: 0: DISCONNECTED follows, unless it has come already; -EINVAL if there never
 * was a connection.
 */
int t3_rdma_disconnect(struct rdma_cm_id *id)
{
	return cm_do(to_cm_id(id), CM_EV_DISCONNECT, 0);
}
EXPORT_SYMBOL(t3_rdma_disconnect);

/* --- QPs ----------------------------------------------------------------- */

/* The provider knows the connection of the id, or will. */
static bool has_connection(enum cm_state state)
{
	switch (state) {
	case CM_CONNECTING:
	case CM_ANSWERED:
	case CM_REQUESTED:
	case CM_ACCEPTING:
	case CM_CANCELLING:
	case CM_CONNECTED:
	case CM_CLOSING:
	case CM_CLOSED:
		return true;
	default:
		return false;
	}
}

/**
 * t3_rdma_init_qp_attr - how to move a QP to a state
 * @id: the id, which has a device
 * @attr: qp_state says which state; the rest is filled in
 * @mask: which attributes are to be set
 *
 * The provider moves the QP when the connection comes about. An id that got
 * CONNECT_RESPONSE has its QP in RTS already: for it there is nothing left to set but
 * what changes nothing.
 *
 * Return: 0 or -EINVAL.
 */
int t3_rdma_init_qp_attr(struct rdma_cm_id *id, struct ib_qp_attr *attr, int *mask)
{
	struct cm_id *cm = to_cm_id(id);
	enum cm_state state = cm_state(cm);

	if (!id->device)
		return -EINVAL;
	attr->qp_access_flags = 0;
	attr->port_num = id->port_num;
	if (!has_connection(state)) {
		cm->qp_prepared = true;
		*mask = IB_QP_STATE | IB_QP_ACCESS_FLAGS | IB_QP_PORT;
		return 0;
	}
	switch (attr->qp_state) {
	case IB_QPS_INIT:
	case IB_QPS_RTR:
		if (state == CM_ANSWERED) {
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
EXPORT_SYMBOL(t3_rdma_init_qp_attr);

/**
 * t3_rdma_create_qp - make the QP of an id
 * @id: the id, which has a device
 * @pd: on that device
 * @attr: what it is to be
 *
 * Return: 0, with id->qp in INIT, or an error.
 */
int t3_rdma_create_qp(struct rdma_cm_id *id, struct ib_pd *pd, struct ib_qp_init_attr *attr)
{
	struct ib_qp_attr to_init = { .qp_state = IB_QPS_INIT };
	struct ib_qp *qp;
	int ret, mask;

	if (id->device != pd->device)
		return -EINVAL;
	qp = ib_create_qp(pd, attr);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	ret = t3_rdma_init_qp_attr(id, &to_init, &mask);
	if (!ret)
		ret = ib_modify_qp(qp, &to_init, mask);
	if (ret) {
		ib_destroy_qp(qp);
		return ret;
	}
	id->qp = qp;
	return 0;
}
EXPORT_SYMBOL(t3_rdma_create_qp);

/**
 * t3_rdma_destroy_qp - the end of the QP of an id
 * @id: the id; t3_rdma_create_qp() made its QP
 */
void t3_rdma_destroy_qp(struct rdma_cm_id *id)
{
	ib_destroy_qp(id->qp);
	id->qp = NULL;
}
EXPORT_SYMBOL(t3_rdma_destroy_qp);

/* --- options ------------------------------------------------------------- */

/**
 * t3_rdma_set_service_type - set the IP type of service
 * @id: the id, before it listens or connects
 * @tos: the byte
 */
void t3_rdma_set_service_type(struct rdma_cm_id *id, int tos)
{
	to_cm_id(id)->tos = tos;
	to_cm_id(id)->tos_set = true;
}
EXPORT_SYMBOL(t3_rdma_set_service_type);

/**
 * t3_rdma_set_reuseaddr - share the address with others that allow it
 * @id: the id
 * @reuse: whether
 *
 * Return: 0; -EINVAL once it is bound (to take it back) or listens.
 */
int t3_rdma_set_reuseaddr(struct rdma_cm_id *id, int reuse)
{
	struct cm_id *cm = to_cm_id(id);

	if (cm_state(cm) != CM_IDLE && (!reuse || cm_state(cm) == CM_LISTENING))
		return -EINVAL;
	cm->bind.reuse = reuse;
	return 0;
}
EXPORT_SYMBOL(t3_rdma_set_reuseaddr);

/**
 * t3_rdma_set_afonly - an IPv6 wildcard does not take IPv4
 * @id: the id
 * @afonly: whether
 *
 * Return: 0; -EINVAL when it is more than bound.
 */
int t3_rdma_set_afonly(struct rdma_cm_id *id, int afonly)
{
	struct cm_id *cm = to_cm_id(id);

	if (cm_state(cm) != CM_IDLE && cm_state(cm) != CM_BOUND)
		return -EINVAL;
	cm->bind.afonly = afonly;
	cm->bind.afonly_set = true;
	return 0;
}
EXPORT_SYMBOL(t3_rdma_set_afonly);

/**
 * t3_rdma_set_ack_timeout - accepted, and of no use to iWARP: TCP has its own
 * @id: the id
 * @timeout: ignored
 *
 * Return: 0; -EINVAL for an id that is not reliable connected.
 */
int t3_rdma_set_ack_timeout(struct rdma_cm_id *id, u8 timeout)
{
	return id->qp_type == IB_QPT_RC ? 0 : -EINVAL;
}
EXPORT_SYMBOL(t3_rdma_set_ack_timeout);

/**
 * t3_rdma_notify - accepted, and of no use to iWARP: the provider sees all by itself
 * @id: the id
 * @event: ignored
 *
 * Return: 0; -EINVAL for an id without a connection.
 */
int t3_rdma_notify(struct rdma_cm_id *id, enum ib_event_type event)
{
	return has_connection(cm_state(to_cm_id(id))) ? 0 : -EINVAL;
}
EXPORT_SYMBOL(t3_rdma_notify);
