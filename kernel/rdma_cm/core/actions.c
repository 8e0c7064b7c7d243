// SPDX-License-Identifier: GPL-2.0
/* What the state table asks for, and the end of an id. */
#include <rdma/ib_cm.h>

#include "rdma_cm.h"

/* The actions of a transition but the reports. */
void cm_run_actions(struct cm_id *id, u16 actions)
{
	if (actions & CM_ACT_UNLISTEN) {
		cm_listen_stop(id);
		cm_unlisten(id, NULL);
	}
	if (actions & (CM_ACT_CLOSE | CM_ACT_ABORT))
		cm_transport(id)->close(id, actions & CM_ACT_ABORT);
	if (actions & CM_ACT_CANCEL && cm_transport(id)->cancel)
		cm_transport(id)->cancel(id);
	if (actions & CM_ACT_REJECT)
		cm_transport(id)->reject(id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED);
	if (actions & CM_ACT_DROP_QP)
		cm_transport(id)->put_qp(id);
}

/* Applies an event and runs its actions. For callers that are not the worker. */
int cm_fsm_run(struct cm_id *id, enum cm_event event, int status)
{
	const struct t3_transition *to;
	int ret;

	ret = cm_fsm_apply(id, event, status, &to);
	if (!ret)
		cm_run_actions(id, to->actions);
	return ret;
}

/*
 * Waits for the handlers of requests to an id that listened. Those that begin now see that it does
 * not listen any more.
 */
static void cm_requests_wait(struct cm_id *id)
{
	if (!id->listen_cred)
		return;
	down_write(&id->requests);
	up_write(&id->requests);
}

/*
 * Destroys an id: releases all but what the provider still needs, and puts the consumer's
 * reference. The caller holds handler_mutex and a reference of its own.
 */
void cm_id_destroy(struct cm_id *id)
{
	u16 deferred = id->deferred.actions & ~CM_ACT_REPORTS;

	lockdep_assert_held(&id->handler_mutex);
	/* First the actions that an upcall left to the worker: the present state implies them. */
	id->deferred.actions = 0;
	cm_run_actions(id, deferred);
	if (cm_fsm_run(id, CM_EV_DESTROY, 0))
		return;
	cm_requests_wait(id);
	cm_leave_all(id);
	if (cm_dev_of(id) && cm_transport(id)->release)
		cm_transport(id)->release(id);
	cm_addr_cancel(id);
	cm_port_release(id);
	cm_res_del(&id->base);
	cm_dev_unlink(id);
	cm_id_put(id);
}
