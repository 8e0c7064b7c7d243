// SPDX-License-Identifier: GPL-2.0
/*
 * The consumer's calls about connections. Each applies an event to the state table, calls the
 * transport, and applies the event of the failure if that fails. It takes no lock of its own around
 * the transport's function (the command holds ctx->mutex), except listen_mutex for a listen, and
 * handler_mutex for a disconnect over RoCE; cm_roce_connect() takes handler_mutex.
 */
#include <linux/cred.h>
#include <net/net_namespace.h>

#include "rdma_cm.h"

#define DEFAULT_BACKLOG	256

/**
 * t3_rdma_listen - listen for connect requests
 * @id: the id. If it is not bound, it is bound to any port of the IPv4 wildcard address
 * @backlog: how many requests may wait for the handler; 0 or less: a default
 *
 * On a wildcard address the id listens on all devices, and on devices that are added later.
 *
 * Return: 0, or an error of the port space or of the devices. On an error, connect requests of a
 * device that did listen may have been reported already.
 */
int t3_rdma_listen(struct rdma_cm_id *id, int backlog)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (cm_state(cm) != CM_ST_BOUND) {
		ret = cm_bind_any(cm, NULL);
		if (ret)
			return ret;
	}
	if (cm_src(cm)->sa_family == AF_IB)
		return -EAFNOSUPPORT;
	ret = cm_fsm_apply(cm, CM_EV_LISTEN, 0, NULL);
	if (ret)
		return ret;
	if (backlog <= 0)
		backlog = DEFAULT_BACKLOG;
	/* Requests of a listen that failed may still be queued, and keep their places. */
	atomic_add(backlog - cm->backlog, &cm->backlog_left);
	cm->backlog = backlog;
	if (!cm->listen_cred)
		cm->listen_cred = get_current_cred();
	ret = cm_user_set(cm);
	if (!ret)
		ret = cm_port_reserve(cm, false);
	if (!ret)
		ret = cm_port_end_reuse(cm);
	if (!ret)
		ret = cm_listen_start(cm);
	if (ret)
		cm_fsm_run(cm, CM_EV_LISTEN_FAILED, ret);
	return ret;
}

/**
 * t3_rdma_connect - connect to the destination of the id's route
 * @id: the id
 * @param: private data, initiator_depth (ORD), responder_resources (IRD), qp_num
 * @ece: RoCE: options of enhanced connection establishment
 *
 * The process may destroy the QP before this returns.
 *
 * Return: 0: ESTABLISHED, CONNECT_RESPONSE, REJECTED, UNREACHABLE or CONNECT_ERROR follows.
 * Otherwise no event follows, and the caller may try again.
 */
int t3_rdma_connect(struct rdma_cm_id *id, const struct rdma_conn_param *param,
		    const struct rdma_ucm_ece *ece)
{
	const struct cm_transport *transport;
	struct cm_id *cm = to_cm_id(id);
	int ret;

	cm->ece = *ece;
	ret = cm_fsm_apply(cm, CM_EV_CONNECT, 0, NULL);
	if (ret)
		return ret;
	transport = cm_transport(cm);
	ret = transport->get_qp(cm, param->qp_num);
	if (!ret)
		ret = transport->connect(cm, param);
	if (ret)
		cm_fsm_run(cm, CM_EV_CONNECT_FAILED, ret);
	return ret;
}

/**
 * t3_rdma_accept - accept a connect request
 * @id: the id of the request
 * @param: as for t3_rdma_connect()
 * @ece: as for t3_rdma_connect()
 *
 * Return: 0: ESTABLISHED or CONNECT_ERROR follows, over RoCE also UNREACHABLE or REJECTED; for
 * datagrams nothing. -EINVAL if the id has no request to accept, or if the QP was not found: then
 * the peer was rejected. After an error of the device the request is over, too. In both cases the
 * id is in CM_ST_CLOSED.
 */
int t3_rdma_accept(struct rdma_cm_id *id, const struct rdma_conn_param *param,
		   const struct rdma_ucm_ece *ece)
{
	const struct cm_transport *transport;
	struct cm_id *cm = to_cm_id(id);
	int ret;

	if (cm_state(cm) != CM_ST_REQUESTED)
		return -EINVAL;
	cm->ece = *ece;
	transport = cm_transport(cm);
	/* Before the event, as there is no event that takes an accept back. */
	ret = transport->get_qp(cm, param->qp_num);
	if (ret) {
		cm_fsm_run(cm, CM_EV_REJECT, ret);
		return ret;
	}
	ret = cm_fsm_apply(cm, CM_EV_ACCEPT, 0, NULL);
	if (ret) {
		transport->put_qp(cm);
		return ret;
	}
	ret = transport->accept(cm, param);
	if (ret)
		cm_fsm_run(cm, CM_EV_ACCEPT_FAILED, ret);
	return ret;
}

/**
 * t3_rdma_establish - complete a connection after CONNECT_RESPONSE, when the QP is ready
 * @id: the id
 *
 * Return: 0; -EINVAL if the id has no response to complete. After an error of the device the
 * connection is over.
 */
int t3_rdma_establish(struct rdma_cm_id *id)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	ret = cm_fsm_run(cm, CM_EV_ESTABLISH, 0);
	if (ret || !cm_transport(cm)->establish)
		return ret;
	ret = cm_transport(cm)->establish(cm);
	if (ret)
		cm_fsm_run(cm, CM_EV_ESTABLISH_FAILED, ret);
	return ret;
}

/**
 * t3_rdma_reject - reject a connect request, or a response
 * @id: the id
 * @private_data: for the peer; iWARP sends it only if a request is rejected
 * @len: length of @private_data
 * @reason: RoCE: enum ib_cm_rej_reason
 *
 * Return: 0, -EINVAL if there is nothing to reject, or an error of the provider.
 */
int t3_rdma_reject(struct rdma_cm_id *id, const void *private_data, u8 len, u8 reason)
{
	struct cm_id *cm = to_cm_id(id);
	const struct cm_transport *transport;
	const struct t3_transition *to;
	int ret;

	ret = cm_fsm_apply(cm, CM_EV_REJECT, 0, &to);
	if (ret)
		return ret;
	transport = cm_transport(cm);
	if (to->actions & CM_ACT_REJECT)
		return transport->reject(cm, private_data, len, reason);
	/* A reply is rejected with a message before RTU (RoCE), or by the abort alone (iWARP). */
	if (transport->establish)
		ret = transport->reject(cm, private_data, len, reason);
	cm_run_actions(cm, to->actions);
	return ret;
}

/**
 * t3_rdma_disconnect - close a connection
 * @id: the id
 *
 * Return: 0. From CONNECTED or RESPONDED, DISCONNECTED follows. While connecting or accepting,
 * either the failure event follows, or ESTABLISHED and then DISCONNECTED. In REQUESTED, CLOSING,
 * CLOSED and REMOVED the call has no effect for the id. -EINVAL in all other states, and for
 * datagrams.
 */
int t3_rdma_disconnect(struct rdma_cm_id *id)
{
	struct cm_id *cm = to_cm_id(id);
	int ret;

	/* Datagrams have no connection. */
	if (id->qp_type == IB_QPT_UD)
		return -EINVAL;
	if (!cm_past_connect(cm_state(cm)) || !cm_transport(cm)->close_is_locked)
		return cm_fsm_run(cm, CM_EV_DISCONNECT, 0);
	cm_handler_lock(cm);
	ret = cm_fsm_run(cm, CM_EV_DISCONNECT, 0);
	cm_handler_release(cm);
	return ret;
}

/* --- QPs ----------------------------------------------------------------- */

/**
 * t3_rdma_init_qp_attr - get the attributes that move a QP to a state
 * @id: the id, which has a device
 * @attr: the state in qp_state; receives the other attributes
 * @mask: receives the mask of attributes to set
 *
 * Waits for a handler of the id that runs: a lookup that ends gives the id its device in steps.
 *
 * Return: 0 or -EINVAL.
 */
int t3_rdma_init_qp_attr(struct rdma_cm_id *id, struct ib_qp_attr *attr, int *mask)
{
	struct cm_id *cm = to_cm_id(id);
	int ret = -EINVAL;

	cm_handler_lock(cm);
	if (id->device)
		ret = cm_transport(cm)->init_qp_attr(cm, attr, mask);
	cm_handler_release(cm);
	return ret;
}

/* --- options ------------------------------------------------------------- */

/**
 * t3_rdma_set_service_type - set the IP type of service
 * @id: the id, before it listens or connects
 * @tos: type of service
 *
 * Return: 0.
 */
int t3_rdma_set_service_type(struct rdma_cm_id *id, int tos)
{
	to_cm_id(id)->tos = tos;
	to_cm_id(id)->tos_set = true;
	return 0;
}

/**
 * t3_rdma_set_reuseaddr - share the address with other ids that allow it, too
 * @id: the id
 * @reuse: not 0: share
 *
 * Return: 0; -EINVAL if the id listens, or if @reuse is 0 and the id is bound.
 */
int t3_rdma_set_reuseaddr(struct rdma_cm_id *id, int reuse)
{
	struct cm_id *cm = to_cm_id(id);

	if (cm_state(cm) != CM_ST_IDLE && (!reuse || cm_state(cm) == CM_ST_LISTENING))
		return -EINVAL;
	/* A bind of another id sees the port as it was, or as it is. */
	WRITE_ONCE(cm->bind.reuse, reuse);
	return 0;
}

/**
 * t3_rdma_set_afonly - restrict the IPv6 wildcard address to IPv6 peers
 * @id: the id
 * @afonly: not 0: restrict
 *
 * Return: 0; -EINVAL if the state is later than bound, or if the id is bound with the restriction:
 * it has the port for IPv6 only.
 */
int t3_rdma_set_afonly(struct rdma_cm_id *id, int afonly)
{
	struct cm_id *cm = to_cm_id(id);

	if (cm_state(cm) != CM_ST_IDLE && cm_state(cm) != CM_ST_BOUND)
		return -EINVAL;
	if (cm_state(cm) == CM_ST_BOUND && cm_src(cm)->sa_family == AF_INET6 &&
	    cm->bind.afonly && !afonly)
		return -EINVAL;
	cm->bind.afonly = afonly;
	cm->bind.afonly_set = true;
	return 0;
}

/**
 * t3_rdma_set_ack_timeout - set the QP attribute timeout; without effect for iWARP
 * @id: the id, before it resolves its route or listens
 * @timeout: as the attribute; 0: no limit
 *
 * Return: 0; -EINVAL for an id whose QP type is not RC.
 */
int t3_rdma_set_ack_timeout(struct rdma_cm_id *id, int timeout)
{
	if (id->qp_type != IB_QPT_RC)
		return -EINVAL;
	to_cm_id(id)->ack_timeout = timeout & 0x1f;
	to_cm_id(id)->ack_timeout_set = true;
	return 0;
}

/**
 * t3_rdma_notify - report an event of the QP; without effect for iWARP
 * @id: the id
 * @event: RoCE: IB_EVENT_COMM_EST, if data comes before the peer's RTU
 *
 * Return: 0; -EINVAL for an id without a connection, or for another event.
 */
int t3_rdma_notify(struct rdma_cm_id *id, enum ib_event_type event)
{
	struct cm_id *cm = to_cm_id(id);

	if (!cm_past_connect(cm_state(cm)))
		return -EINVAL;
	return cm_transport(cm)->notify ? cm_transport(cm)->notify(cm, event) : 0;
}
