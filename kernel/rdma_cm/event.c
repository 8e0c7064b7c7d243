// SPDX-License-Identifier: GPL-2.0
/*
 * Events, from where they happen to the consumer's handler: the queue of an id, its worker,
 * and the short way that ids of processes take.
 */
#include <t3_race_point.h>

#include "rdma_cm.h"
#include "trace.h"

static struct workqueue_struct *cm_wq;

/* --- telling ------------------------------------------------------------- */

static enum rdma_cm_event_type failure(enum cm_event event, int status)
{
	if (event == CM_EV_CLOSE)
		return RDMA_CM_EVENT_CONNECT_ERROR;
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

static enum rdma_cm_event_type told_as(u16 actions, enum cm_event event, int status)
{
	switch (actions & CM_TELL_ANY) {
	case CM_TELL_ADDR:
		return RDMA_CM_EVENT_ADDR_RESOLVED;
	case CM_TELL_ADDR_ERROR:
		return RDMA_CM_EVENT_ADDR_ERROR;
	case CM_TELL_ROUTE:
		return RDMA_CM_EVENT_ROUTE_RESOLVED;
	case CM_TELL_REQUEST:
		return RDMA_CM_EVENT_CONNECT_REQUEST;
	case CM_TELL_RESPONSE:
		return RDMA_CM_EVENT_CONNECT_RESPONSE;
	case CM_TELL_ESTABLISHED:
		return RDMA_CM_EVENT_ESTABLISHED;
	case CM_TELL_DISCONNECTED:
		return RDMA_CM_EVENT_DISCONNECTED;
	case CM_TELL_REMOVAL:
		return RDMA_CM_EVENT_DEVICE_REMOVAL;
	default:
		return failure(event, status);
	}
}

/* The events that come with what the peer said. */
static bool has_parameters(enum cm_event event)
{
	return event == CM_EV_REQUEST || event == CM_EV_REPLY_OK ||
	       event == CM_EV_REPLY_OK_QPLESS || event == CM_EV_REPLY_FAILED ||
	       event == CM_EV_ESTABLISHED;
}

static int cm_tell(struct cm_id *id, u16 actions, enum cm_event event, int status)
{
	struct rdma_cm_event told = {
		.event = told_as(actions, event, status),
		.status = status,
	};
	int ret;

	lockdep_assert_held(&id->handler_mutex);
	if (told.event == RDMA_CM_EVENT_CONNECT_ERROR && !status)
		told.status = -ECONNRESET;
	if (has_parameters(event)) {
		told.param.conn.initiator_depth = id->says.ird;
		told.param.conn.responder_resources = id->says.ord;
	}
	if (has_parameters(event) && event != CM_EV_ESTABLISHED) {
		told.param.conn.private_data = id->says.data;
		told.param.conn.private_data_len = id->says.len;
	}
	WRITE_ONCE(id->handler_task, current);
	T3_RACE_POINT(cm_handler_called);
	ret = id->mirror.id.event_handler(&id->mirror.id, &told);
	WRITE_ONCE(id->handler_task, NULL);
	trace_cm_tell(id->number, told.event, told.status, ret);
	return ret;
}

/* --- the queue ----------------------------------------------------------- */

/*
 * Of a reply that broke off siw has no data, and still steps over MPA's own words at their
 * beginning: what it says is an address of a few bytes.
 */
static bool is_buffer(const void *data)
{
	return (unsigned long)data >= PAGE_SIZE;
}

/* Private data longer than any that the ABI can carry does not exist: len is a byte. */
static void cm_remember(struct cm_peer_says *says, const struct iw_cm_event *said)
{
	says->ird = said->ird;
	says->ord = said->ord;
	if (said->event == IW_CM_EVENT_ESTABLISHED)
		return;
	says->local = said->local_addr;
	says->remote = said->remote_addr;
	says->len = is_buffer(said->private_data) ? said->private_data_len : 0;
	if (says->len)
		memcpy(says->data, said->private_data, says->len);
}

/* The worker's turn. @id has a reference for it. */
static void cm_to_worker(struct cm_id *id)
{
	if (!queue_work(cm_wq, &id->work))
		cm_id_put(id);
}

static void cm_handle_here(struct cm_id *id, enum cm_where where);

/**
 * cm_post - queue an event; in any context, never fails for want of memory
 * @queue_of: whose worker is to take it
 * @id: whom it is about
 * @slot: its place
 * @event: what happened
 * @status: with which result
 * @said: what the peer said, to be remembered in @id, or NULL
 * @where: whether it may be handled before this returns
 *
 * Return: 0, or -EBUSY if the last one of this kind has not been taken yet.
 */
int cm_post(struct cm_id *queue_of, struct cm_id *id, enum cm_slot slot, enum cm_event event,
	    int status, const struct iw_cm_event *said, enum cm_where where)
{
	struct cm_note *note = &id->slots[slot];
	unsigned long flags;

	spin_lock_irqsave(&queue_of->lock, flags);
	if (!list_empty(&note->item)) {
		queue_of->refused++;
		spin_unlock_irqrestore(&queue_of->lock, flags);
		return -EBUSY;
	}
	if (said)
		cm_remember(&id->says, said);
	note->event = event;
	note->status = status;
	list_add_tail(&note->item, &queue_of->queue);
	cm_id_get(queue_of);
	spin_unlock_irqrestore(&queue_of->lock, flags);

	T3_RACE_POINT(cm_posted);
	/* The handler of a module may do what it likes, so it is called by the worker only. */
	if (queue_of->user && where != CM_BY_WORKER)
		cm_handle_here(queue_of, where);
	else
		cm_to_worker(queue_of);
	return 0;
}

/* What the provider says of a connection: nothing on its way to the handler sleeps by itself. */
static bool is_of_connection(enum cm_event event)
{
	return event >= CM_EV_REPLY_OK && event <= CM_EV_CLOSE;
}

/**
 * cm_backlog_get - take a place of a listener's backlog, for a connect request; in any context
 * @listener: the listener
 *
 * The place is free again when the worker has taken the request, or by cm_backlog_put().
 *
 * Return: false if the backlog is full.
 */
bool cm_backlog_get(struct cm_id *listener)
{
	return atomic_add_unless(&listener->backlog_left, -1, 0);
}

void cm_backlog_put(struct cm_id *listener)
{
	atomic_inc(&listener->backlog_left);
}

/* Takes the oldest event, if it is of the kind that is asked for; its place is free again. */
static bool cm_take(struct cm_id *id, struct cm_note *note, bool only_of_connection)
{
	struct cm_note *first;
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	first = list_first_entry_or_null(&id->queue, struct cm_note, item);
	if (first && only_of_connection && !is_of_connection(first->event))
		first = NULL;
	if (first) {
		list_del_init(&first->item);
		*note = *first;
	}
	spin_unlock_irqrestore(&id->lock, flags);
	if (first && note->event == CM_EV_REQUEST)
		cm_backlog_put(id);
	return first;
}

/*
 * A connect request: make the id that iw.c began into one that can be shown. The
 * consumer's handler runs under both mutexes, so that neither the listener goes nor
 * anything else is told of the new id before it knows of it.
 */
static void cm_handle_request(struct cm_id *listener, struct cm_id *id)
{
	struct rdma_dev_addr *dev_addr = &id->mirror.id.route.addr.dev_addr;
	bool listening = cm_state(listener) == CM_LISTENING;
	const struct cm_cell *cell;
	int ret;

	lockdep_assert_held(&listener->handler_mutex);
	T3_RACE_POINT(cm_request_taken);
	mutex_lock_nested(&id->handler_mutex, SINGLE_DEPTH_NESTING);
	cm_id_get(id);
	/* A listener that has gone has no name to pass on. */
	cm_res_init(&id->mirror, KBUILD_MODNAME, listening ? &listener->mirror : NULL);
	cm_addr_copy(cm_src(id), (struct sockaddr *)&id->says.local);
	cm_addr_copy(cm_dst(id), (struct sockaddr *)&id->says.remote);
	ret = cm_step(id, CM_EV_REQUEST, 0, &cell);
	if (!ret && !listening)
		ret = -ECONNABORTED;
	if (!ret)
		ret = rdma_translate_ip(cm_src(id), dev_addr);
	if (!ret)
		ret = cm_dev_link(id);
	T3_RACE_POINT(cm_request_attached);
	if (!ret) {
		cm_res_show(&id->mirror);
		id->mirror.id.context = listener->mirror.id.context;
		ret = cm_tell(id, cell->actions, CM_EV_REQUEST, 0);
	}
	T3_RACE_POINT(cm_request_handled);
	if (ret)
		cm_id_end(id);
	mutex_unlock(&id->handler_mutex);
	cm_id_put(id);
}

/* The step of an event; what it asks for is the caller's. */
static bool cm_begin(struct cm_id *id, const struct cm_note *note, struct cm_rest *rest)
{
	const struct cm_cell *cell;

	lockdep_assert_held(&id->handler_mutex);
	rest->event = note->event;
	rest->status = note->status;
	if (note->event == CM_EV_ADDR_DONE)
		rest->event = cm_addr_result(id, &rest->status);
	if (cm_step(id, rest->event, rest->status, &cell))
		return false;
	rest->actions = cell->actions;
	if (rest->event == CM_EV_REPLY_OK || rest->event == CM_EV_REPLY_OK_QPLESS) {
		cm_addr_copy(cm_src(id), (struct sockaddr *)&id->says.local);
		cm_addr_copy(cm_dst(id), (struct sockaddr *)&id->says.remote);
	}
	return true;
}

static void cm_finish(struct cm_id *id, const struct cm_rest *rest)
{
	lockdep_assert_held(&id->handler_mutex);
	cm_act(id, rest->actions);
	if (rest->actions & CM_TELL_ANY && cm_tell(id, rest->actions, rest->event, rest->status))
		cm_id_end(id);
}

/* The events of an id are handled one after another, as they came. */
static void cm_handle_all(struct cm_id *id)
{
	struct cm_rest rest = id->rest;
	struct cm_note note;

	lockdep_assert_held(&id->handler_mutex);
	id->rest.actions = 0;
	cm_finish(id, &rest);
	while (cm_take(id, &note, false)) {
		if (note.event == CM_EV_REQUEST)
			cm_handle_request(id, note.id);
		else if (cm_begin(id, &note, &rest))
			cm_finish(id, &rest);
	}
}

static void cm_id_work(struct work_struct *work)
{
	struct cm_id *id = container_of(work, struct cm_id, work);

	T3_RACE_POINT(cm_work_begins);
	mutex_lock(&id->handler_mutex);
	cm_handle_all(id);
	mutex_unlock(&id->handler_mutex);
	T3_RACE_POINT(cm_work_ends);
	cm_id_put(id);
}

/*
 * The same where nothing may sleep, as far as it goes: the worker does what is left of the last
 * event, and what is left of the queue.
 */
static bool cm_handle_upcalls(struct cm_id *id)
{
	struct cm_rest *rest = &id->rest;
	struct cm_note note;

	lockdep_assert_held(&id->handler_mutex);
	id->in_upcall = true;
	while (!rest->actions && cm_take(id, &note, true)) {
		if (!cm_begin(id, &note, rest))
			continue;
		if (!(rest->actions & CM_SLEEPS)) {
			cm_act(id, rest->actions);
			rest->actions &= CM_TELL_ANY;
		}
		if (rest->actions & CM_TELL_ANY &&
		    !cm_tell(id, rest->actions, rest->event, rest->status))
			rest->actions &= ~CM_TELL_ANY;
	}
	id->in_upcall = false;
	return !rest->actions && list_empty_careful(&id->queue);
}

/*
 * Spares a process's id the way through the worker. If somebody has the id just now, be it one
 * who destroys it and waits for the caller, the worker does it as ever. So it does if the caller
 * holds a spinlock (siw may hold its socket's callback lock): softirqs take that one while a
 * task has one of ours.
 */
static void cm_handle_here(struct cm_id *id, enum cm_where where)
{
	bool done = true;

	if (!preemptible() || !mutex_trylock(&id->handler_mutex)) {
		cm_to_worker(id);
		return;
	}
	T3_RACE_POINT(cm_handle_here);
	if (where == CM_IN_UPCALL)
		done = cm_handle_upcalls(id);
	else
		cm_handle_all(id);
	mutex_unlock(&id->handler_mutex);
	if (done)
		cm_id_put(id);
	else
		cm_to_worker(id);
}

/* Of an id that is being made. */
void cm_queue_init(struct cm_id *id)
{
	int slot;

	INIT_LIST_HEAD(&id->queue);
	INIT_WORK(&id->work, cm_id_work);
	for (slot = 0; slot < CM_NUM_SLOTS; slot++) {
		INIT_LIST_HEAD(&id->slots[slot].item);
		id->slots[slot].id = id;
	}
}

int cm_events_init(void)
{
	/* A consumer may wait for us while memory is reclaimed (nvme-rdma). */
	cm_wq = alloc_workqueue("t3_rdma_cm", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return cm_wq ? 0 : -ENOMEM;
}

void cm_events_exit(void)
{
	destroy_workqueue(cm_wq);
}
