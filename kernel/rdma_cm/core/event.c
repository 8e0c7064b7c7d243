// SPDX-License-Identifier: GPL-2.0
/*
 * Events: who handles them, the worker, and the call of the consumer's handler. queue.c has the
 * queue.
 */
#include "rdma_cm.h"
#include "trace.h"

/* --- reports to the consumer --------------------------------------------- */

static enum rdma_cm_event_type cm_failure_type(const struct cm_id *id, enum cm_event event,
					       int status)
{
	if (event == CM_EV_CLOSE)
		return RDMA_CM_EVENT_CONNECT_ERROR;
	/* RoCE: the reason of a REJ, or the status of a SIDR REP. */
	if (status > 0)
		return id->base.id.qp_type == IB_QPT_UD ? RDMA_CM_EVENT_UNREACHABLE :
							  RDMA_CM_EVENT_REJECTED;
	switch (status) {
	case -ECONNRESET:
	case -ECONNREFUSED:
		return RDMA_CM_EVENT_REJECTED;
	case -ETIMEDOUT:
		return RDMA_CM_EVENT_UNREACHABLE;
	default:
		return RDMA_CM_EVENT_CONNECT_ERROR;
	}
}

static enum rdma_cm_event_type cm_notice_type(enum cm_event event, int status)
{
	switch (event) {
	case CM_EV_GROUP:
		return status ? RDMA_CM_EVENT_MULTICAST_ERROR : RDMA_CM_EVENT_MULTICAST_JOIN;
	case CM_EV_ADDR_CHANGE:
		return RDMA_CM_EVENT_ADDR_CHANGE;
	default:
		return RDMA_CM_EVENT_TIMEWAIT_EXIT;
	}
}

static enum rdma_cm_event_type cm_event_type(const struct cm_id *id, u16 actions,
					     enum cm_event event, int status)
{
	switch (actions & CM_ACT_REPORTS) {
	case CM_ACT_REPORT_ADDR:
		return RDMA_CM_EVENT_ADDR_RESOLVED;
	case CM_ACT_REPORT_ADDR_ERROR:
		return RDMA_CM_EVENT_ADDR_ERROR;
	case CM_ACT_REPORT_ROUTE:
		return RDMA_CM_EVENT_ROUTE_RESOLVED;
	case CM_ACT_REPORT_REQUEST:
		return RDMA_CM_EVENT_CONNECT_REQUEST;
	case CM_ACT_REPORT_RESPONSE:
		return RDMA_CM_EVENT_CONNECT_RESPONSE;
	case CM_ACT_REPORT_ESTABLISHED:
		return RDMA_CM_EVENT_ESTABLISHED;
	case CM_ACT_REPORT_DISCONNECTED:
		return RDMA_CM_EVENT_DISCONNECTED;
	case CM_ACT_REPORT_REMOVAL:
		return RDMA_CM_EVENT_DEVICE_REMOVAL;
	case CM_ACT_REPORT_NOTICE:
		return cm_notice_type(event, status);
	default:
		return cm_failure_type(id, event, status);
	}
}

static void cm_report_group(const struct cm_group *group, struct rdma_cm_event *report)
{
	report->param.ud.private_data = group->context;
	report->param.ud.ah_attr = group->ah;
	report->param.ud.qp_num = IB_MULTICAST_QPN;
	report->param.ud.qkey = group->qkey;
}

/*
 * Calls the consumer's handler for one of @actions of an event. Return: its return value. An error
 * refuses a connect request. Another event gets an error only in an upcall: the handler has no
 * memory, and the worker calls it again.
 */
static int cm_report(struct cm_id *id, u16 actions, const struct cm_deferred *of)
	__must_hold(&id->handler_mutex)
{
	enum cm_event event = of->event;
	int status = of->status;
	struct rdma_cm_event report = {
		.event = cm_event_type(id, actions, event, status),
		.status = status,
	};
	int ret;

	lockdep_assert_held(&id->handler_mutex);
	if (report.event == RDMA_CM_EVENT_CONNECT_ERROR && !status)
		report.status = -ECONNRESET;
	if (cm_is_conn_event(event) || event == CM_EV_REQUEST)
		cm_transport(id)->report(id, event, &report);
	if (of->group)
		cm_report_group(of->group, &report);
	ret = id->base.id.event_handler(&id->base.id, &report);
	trace_cm_report(id->number, report.event, report.status, ret);
	return ret;
}

/* --- posting ------------------------------------------------------------- */

static void cm_dispatch(struct cm_id *id, enum cm_dispatch dispatch);

/**
 * cm_event_post - queue an event; in any context, queueing allocates nothing
 * @id: the id
 * @slot: where the id stores the event
 * @event: what happened
 * @status: its result
 * @dispatch: whether the event may be handled before this returns
 *
 * Return: 0, or -EBUSY if the last event of this slot is still queued.
 */
int cm_event_post(struct cm_id *id, enum cm_slot slot, enum cm_event event, int status,
		  enum cm_dispatch dispatch)
{
	int ret = cm_event_add(id, &id->slots[slot], event, status, NULL);

	if (!ret)
		cm_dispatch(id, dispatch);
	return ret;
}

/* Queues the reply to a connect or an accept, with the parameters of the peer. */
int cm_reply_post(struct cm_id *id, enum cm_event event, const struct iw_cm_event *iw)
{
	int ret = cm_event_add(id, &id->slots[CM_SLOT_OPEN], event, iw->status, iw);

	if (!ret)
		cm_dispatch(id, CM_DISPATCH_ATOMIC);
	return ret;
}

/*
 * Queues a connect request, the first event of @id. The handler takes several requests of a
 * listener at the same time. @iw may be NULL, if @id has the parameters of the peer already.
 */
int cm_request_post(struct cm_id *listener, struct cm_id *id, const struct iw_cm_event *iw)
{
	int ret;

	cm_id_get(listener);
	id->listener = listener;
	ret = cm_event_add(id, &id->slots[CM_SLOT_REQUEST], CM_EV_REQUEST, 0, iw);
	if (!ret)
		cm_dispatch(id, CM_DISPATCH_ATOMIC);
	return ret;
}

static void cm_backlog_put(struct cm_id *listener)
{
	atomic_inc(&listener->backlog_left);
}

/**
 * cm_request_alloc - allocate the id of a connect request, which takes a place of the backlog
 * @l: the listener
 * @ps: the port space of the id
 * @qp_type: the type of its QP
 *
 * Does not sleep: an upcall may be in any context, and others wait for a worker of ib_cm.
 *
 * The place is free again when the request is handled, or after cm_request_free(). The transport
 * adds its part, and then calls cm_dev_assign() and cm_request_post().
 *
 * Return: the id; or NULL if the backlog is full, the user has too many ids of requests, or there
 * is no memory.
 */
struct cm_id *cm_request_alloc(struct cm_listener *l, enum rdma_ucm_port_space ps,
			       enum ib_qp_type qp_type)
{
	struct cm_id *listener = l->id, *id;

	if (atomic_dec_if_positive(&listener->backlog_left) < 0)
		return NULL;
	if (!cm_user_add_request(listener->user))
		goto err_backlog;
	id = cm_id_alloc(cm_net(listener), listener->base.id.event_handler, NULL, ps, qp_type,
			 listener->memcg, GFP_ATOMIC);
	if (!id)
		goto err_user;
	id->user = listener->user;
	id->is_request = true;
	cm_queue_init(id);
	id->tos = listener->tos;
	id->tos_set = listener->tos_set;
	return id;

err_user:
	cm_user_remove_request(listener->user);
err_backlog:
	cm_backlog_put(listener);
	return NULL;
}

/* Frees the id of a request that was not posted, without a device. */
void cm_request_free(struct cm_listener *l, struct cm_id *id)
{
	cm_backlog_put(l->id);
	cm_id_put(id);
}

/* --- handling ------------------------------------------------------------ */

/*
 * A connect request. The transport has allocated its id; this completes the id, and does not sleep.
 * @listening: the listener does not end meanwhile: the caller holds its @requests.
 */
static int cm_request_complete(struct cm_id *id, bool listening)
	__must_hold(&id->handler_mutex)
{
	struct rdma_dev_addr *dev_addr = &id->base.id.route.addr.dev_addr;
	struct cm_id *listener = id->listener;
	int ret;

	lockdep_assert_held(&id->handler_mutex);
	cm_backlog_put(listener);
	/* A listener that was destroyed has no name to inherit. */
	cm_res_init(&id->base, KBUILD_MODNAME, listening ? &listener->base : NULL);
	cm_addr_copy(cm_src(id), (struct sockaddr *)&id->peer.local);
	cm_addr_copy(cm_dst(id), (struct sockaddr *)&id->peer.remote);
	ret = cm_fsm_apply(id, CM_EV_REQUEST, 0, NULL);
	if (!ret && !listening)
		ret = -ECONNABORTED;
	if (!ret)
		ret = rdma_translate_ip(cm_src(id), dev_addr);
	if (!ret)
		ret = cm_dev_link(id);
	return ret;
}

/* Reports a request that is complete. ib_core sleeps to add an entry to `rdma resource`. */
static int cm_request_report(struct cm_id *id, bool may_sleep)
	__must_hold(&id->handler_mutex)
{
	const struct cm_deferred request = { .event = CM_EV_REQUEST };

	lockdep_assert_held(&id->handler_mutex);
	id->res_late = true;
	if (may_sleep)
		cm_res_add_late(id);
	id->base.id.context = id->listener->base.id.context;
	return cm_report(id, CM_ACT_REPORT_REQUEST, &request);
}

/* The request is over: reported, or refused with @error. */
static void cm_request_end(struct cm_id *id, int error)
	__must_hold(&id->handler_mutex)
{
	struct cm_id *listener = id->listener;

	if (error)
		cm_id_destroy(id);
	id->listener = NULL;
	cm_id_put(listener);
}

/* Completes and reports a request, once each. @listening: as in cm_request_complete(). */
static int cm_request_run(struct cm_id *id, bool listening, bool may_sleep, bool *final)
	__must_hold(&id->handler_mutex)
{
	int ret = 0;

	lockdep_assert_held(&id->handler_mutex);
	if (cm_state(id) == CM_ST_IDLE)
		ret = cm_request_complete(id, listening);
	else if (!listening)
		ret = -ECONNABORTED;
	*final = ret;
	return ret ? ret : cm_request_report(id, may_sleep);
}

/*
 * Other requests of the listener are handled at the same time, with @requests of the listener,
 * which only its end locks for writing. This does not wait for that end: the request is refused.
 * Return: an error, with @final set if the request cannot be completed.
 */
static int cm_request_handle(struct cm_id *id, bool may_sleep, bool *final)
	__must_hold(&id->handler_mutex)
{
	struct cm_id *listener = id->listener;
	int ret;

	lockdep_assert_held(&id->handler_mutex);
	if (!down_read_trylock(&listener->requests))
		return cm_request_run(id, false, may_sleep, final);
	ret = cm_request_run(id, cm_state(listener) == CM_ST_LISTENING, may_sleep, final);
	up_read(&listener->requests);
	return ret;
}

/*
 * A connect request, in an upcall or in the worker of its own id. @error: it could not be
 * completed in the upcall. What the upcall cannot do is left to the worker, in id->deferred: to
 * wait for memory, and to refuse the request.
 */
static void cm_request_deliver(struct cm_id *id, int error, bool may_sleep)
	__must_hold(&id->handler_mutex)
{
	bool final = false;

	lockdep_assert_held(&id->handler_mutex);
	if (!error)
		error = cm_request_handle(id, may_sleep, &final);
	id->deferred = (struct cm_deferred) {};
	if (!error || may_sleep) {
		cm_request_end(id, error);
		return;
	}
	id->deferred.actions = CM_ACT_REPORT_REQUEST;
	id->deferred.event = CM_EV_REQUEST;
	id->deferred.status = final ? error : 0;
}

/*
 * Changes the state. The actions of the event are in id->deferred afterwards. @slot is the event's
 * slot, which may have another event by now.
 */
static bool cm_event_apply(struct cm_id *id, const struct cm_pending *pending,
			   struct cm_pending *slot)
	__must_hold(&id->handler_mutex)
{
	struct cm_deferred *deferred = &id->deferred;
	const struct t3_transition *to;

	lockdep_assert_held(&id->handler_mutex);
	deferred->event = pending->event;
	deferred->status = pending->status;
	deferred->group = NULL;
	if (pending->event == CM_EV_GROUP)
		deferred->group = container_of(slot, struct cm_group, pending);
	if (pending->event == CM_EV_ADDR_DONE)
		deferred->event = cm_addr_result(id, &deferred->status);
	if (cm_fsm_apply(id, deferred->event, deferred->status, &to))
		return false;
	deferred->actions = to->actions;
	if (deferred->event == CM_EV_REPLY_OK || deferred->event == CM_EV_RESPONSE) {
		cm_addr_copy(cm_src(id), (struct sockaddr *)&id->peer.local);
		cm_addr_copy(cm_dst(id), (struct sockaddr *)&id->peer.remote);
	}
	return true;
}

/*
 * Runs the actions in id->deferred, then reports the event. Where it must not sleep it leaves two
 * things in id->deferred: actions that sleep, and a report for which the handler had no memory.
 */
static void cm_event_finish(struct cm_id *id, bool may_sleep)
	__must_hold(&id->handler_mutex)
{
	struct cm_deferred event = id->deferred;
	bool run = may_sleep || !(event.actions & CM_ACT_SLEEPS);
	u16 reports = event.actions & CM_ACT_REPORTS;

	lockdep_assert_held(&id->handler_mutex);
	id->deferred.actions = run ? 0 : event.actions & ~CM_ACT_REPORTS;
	if (run)
		cm_run_actions(id, event.actions);
	if (reports && cm_report(id, reports, &event) && !WARN_ON_ONCE(may_sleep))
		id->deferred.actions |= reports;
}

/* What an upcall has left to the worker. */
static void cm_deferred_run(struct cm_id *id)
	__must_hold(&id->handler_mutex)
{
	lockdep_assert_held(&id->handler_mutex);
	if (id->deferred.event == CM_EV_REQUEST)
		cm_request_deliver(id, id->deferred.status, true);
	else
		cm_event_finish(id, true);
}

/**
 * cm_run_events - handle the pending events of an id, in the order in which they came
 * @id: the id
 * @may_sleep: false in an upcall of the provider: it stops at the first event that needs to sleep
 *
 * Return: false if the worker must go on.
 */
static bool cm_run_events(struct cm_id *id, bool may_sleep)
	__must_hold(&id->handler_mutex)
{
	struct cm_pending pending, *slot;

	lockdep_assert_held(&id->handler_mutex);
	if (id->deferred.actions && may_sleep)
		cm_deferred_run(id);
	id->in_upcall = !may_sleep;
	while (!id->deferred.actions) {
		slot = cm_event_dequeue(id, &pending, may_sleep);
		if (!slot)
			break;
		if (pending.event == CM_EV_REQUEST)
			cm_request_deliver(id, 0, may_sleep);
		else if (cm_event_apply(id, &pending, slot))
			cm_event_finish(id, may_sleep);
	}
	id->in_upcall = false;
	/* An event that is added now queues the work item. */
	return !id->deferred.actions && context_unsafe(list_empty_careful(&id->queue));
}

static void cm_id_work(struct work_struct *work)
{
	struct cm_id *id = container_of(work, struct cm_id, work);

	if (!cm_handler_try(id))
		return;
	cm_run_events(id, true);
	cm_handler_release(id);
	cm_id_put(id);
}

/*
 * Handles the events of an id in the context of the caller, which saves the switch to the worker.
 * Takes over the reference of cm_event_add(). The worker still does it in four cases:
 *
 *  - The caller wants it: others wait for the caller.
 *  - Another task holds handler_mutex. It may be destroying the id and wait for the caller, so the
 *    caller must not wait for it. That task queues the worker.
 *  - The caller holds a spinlock, as siw does with its socket's callback lock. Softirqs take that
 *    lock while a task holds one of ours.
 *  - The kernel has no preemption counter (preemptible() is 0), or interrupts are off, or the
 *    caller is a softirq of PREEMPT_RT.
 */
static void cm_dispatch(struct cm_id *id, enum cm_dispatch dispatch)
{
	bool done;

	if (dispatch == CM_DISPATCH_WORKER || !preemptible() || !in_task()) {
		cm_queue_work(id);
		return;
	}
	if (!cm_handler_try(id))
		return;
	done = cm_run_events(id, dispatch == CM_DISPATCH_MAY_SLEEP);
	cm_handler_release(id);
	if (done)
		cm_id_put(id);
	else
		cm_queue_work(id);
}

void cm_queue_init(struct cm_id *id)
{
	int slot;

	context_unsafe(INIT_LIST_HEAD(&id->queue)); /* not published yet */
	INIT_WORK(&id->work, cm_id_work);
	for (slot = 0; slot < CM_NUM_SLOTS; slot++)
		INIT_LIST_HEAD(&id->slots[slot].item);
}
