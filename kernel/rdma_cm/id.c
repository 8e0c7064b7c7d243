// SPDX-License-Identifier: GPL-2.0
/*
 * Ids: how they are made and end, the one function that changes their state, the
 * queue of events and the worker that hands them to the consumer.
 */
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "rdma_cm.h"
#include "trace.h"

static struct workqueue_struct *cm_wq;
static atomic_t cm_numbers;

/* All ids, for debugfs. */
static LIST_HEAD(all_ids);
static DEFINE_SPINLOCK(all_ids_lock);

/* --- references ---------------------------------------------------------- */

void cm_id_get(struct cm_id *id)
{
	kref_get(&id->ref);
}

/* In any context: everything that sleeps was done in cm_id_end(). */
static void cm_id_free(struct kref *ref)
{
	struct cm_id *id = container_of(ref, struct cm_id, ref);
	struct cm_dev *dev = id->dev;
	unsigned long flags;

	spin_lock_irqsave(&all_ids_lock, flags);
	list_del(&id->of_all);
	spin_unlock_irqrestore(&all_ids_lock, flags);
	put_net(cm_net(id));
	kfree(id);
	/* The module may be unloaded as soon as its devices have no users. */
	if (dev)
		cm_dev_put(dev);
}

void cm_id_put(struct cm_id *id)
{
	kref_put(&id->ref, cm_id_free);
}

void cm_all_ids(void (*show)(struct cm_id *id, void *arg), void *arg)
{
	struct cm_id *id;
	unsigned long flags;

	spin_lock_irqsave(&all_ids_lock, flags);
	list_for_each_entry(id, &all_ids, of_all)
		show(id, arg);
	spin_unlock_irqrestore(&all_ids_lock, flags);
}

/* --- the state ----------------------------------------------------------- */

enum cm_state cm_state(struct cm_id *id)
{
	return READ_ONCE(id->state);
}

/**
 * cm_step - take an event: the only place where an id's state changes
 * @id: the id
 * @event: what happened
 * @status: goes into the history
 * @cell: where the actions are that the caller now owes, or NULL
 *
 * Return: 0, or -EINVAL if the state does not take this event.
 */
int cm_step(struct cm_id *id, enum cm_event event, int status, const struct cm_cell **cell)
{
	const struct cm_cell *to;
	struct cm_moment *moment;
	enum cm_state from;
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	from = id->state;
	to = cm_fsm(from, event);
	moment = &id->history[id->steps++ % CM_HISTORY];
	*moment = (struct cm_moment) {
		.ns = ktime_get_ns(),
		.status = status,
		.event = event,
		.from = from,
		.to = to ? to->next : from,
		.legal = to,
	};
	if (to) {
		WRITE_ONCE(id->state, to->next);
		id->mirror.state = cm_res_state(to->next);
	} else {
		id->refused++;
	}
	spin_unlock_irqrestore(&id->lock, flags);

	if (!to) {
		trace_cm_refused(id->number, from, event, status);
		return -EINVAL;
	}
	trace_cm_step(id->number, from, event, to->next, to->actions, status);
	if (cell)
		*cell = to;
	return 0;
}

/* What a step asks for, but for what is told. */
void cm_act(struct cm_id *id, u16 actions)
{
	if (actions & CM_UNLISTEN) {
		cm_listen_no_more(id);
		cm_iw_unlisten(id, NULL);
	}
	if (actions & (CM_CLOSE | CM_ABORT))
		cm_iw_close(id, actions & CM_ABORT);
	if (actions & CM_REFUSE)
		cm_iw_refuse(id, NULL, 0);
	if (actions & CM_DROP_QP)
		cm_iw_drop_qp(id);
}

/* A step with its actions. For callers that are not the worker. */
int cm_do(struct cm_id *id, enum cm_event event, int status)
{
	const struct cm_cell *cell;
	int ret;

	ret = cm_step(id, event, status, &cell);
	if (!ret)
		cm_act(id, cell->actions);
	return ret;
}

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
	ret = id->mirror.id.event_handler(&id->mirror.id, &told);
	WRITE_ONCE(id->handler_task, NULL);
	trace_cm_tell(id->number, told.event, told.status, ret);
	return ret;
}

/* --- the queue ----------------------------------------------------------- */

/* Private data longer than any that the ABI can carry does not exist: len is a byte. */
void cm_remember(struct cm_peer_says *says, const struct iw_cm_event *said)
{
	says->ird = said->ird;
	says->ord = said->ord;
	if (said->event == IW_CM_EVENT_ESTABLISHED)
		return;
	says->local = said->local_addr;
	says->remote = said->remote_addr;
	says->len = said->private_data ? said->private_data_len : 0;
	if (says->len)
		memcpy(says->data, said->private_data, says->len);
}

/**
 * cm_post - queue an event; in any context, never fails for want of memory
 * @queue_of: whose worker is to take it
 * @id: whom it is about
 * @slot: its place
 * @event: what happened
 * @status: with which result
 * @said: what the peer said, to be remembered in @id, or NULL
 *
 * Return: 0, or -EBUSY if the last one of this kind has not been taken yet.
 */
int cm_post(struct cm_id *queue_of, struct cm_id *id, enum cm_slot slot, enum cm_event event,
	    int status, const struct iw_cm_event *said)
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
	if (!queue_work(cm_wq, &queue_of->work))
		cm_id_put(queue_of);
	spin_unlock_irqrestore(&queue_of->lock, flags);
	return 0;
}

/* Takes the oldest event; its place in the id is free again. */
static bool cm_take(struct cm_id *id, struct cm_note *note)
{
	struct cm_note *first;
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	first = list_first_entry_or_null(&id->queue, struct cm_note, item);
	if (first) {
		list_del_init(&first->item);
		*note = *first;
		if (note->event == CM_EV_REQUEST)
			id->room++;
	}
	spin_unlock_irqrestore(&id->lock, flags);
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
		ret = cm_dev_attach(id);
	if (!ret) {
		cm_res_show(&id->mirror);
		id->mirror.id.context = listener->mirror.id.context;
		ret = cm_tell(id, cell->actions, CM_EV_REQUEST, 0);
	}
	if (ret)
		cm_id_end(id);
	mutex_unlock(&id->handler_mutex);
	cm_id_put(id);
}

static void cm_handle(struct cm_id *id, struct cm_note *note)
{
	enum cm_event event = note->event;
	const struct cm_cell *cell;
	int status = note->status;

	if (event == CM_EV_ADDR_DONE)
		event = cm_addr_result(id, &status);
	if (cm_step(id, event, status, &cell))
		return;
	if (event == CM_EV_REPLY_OK || event == CM_EV_REPLY_OK_QPLESS) {
		cm_addr_copy(cm_src(id), (struct sockaddr *)&id->says.local);
		cm_addr_copy(cm_dst(id), (struct sockaddr *)&id->says.remote);
	}
	cm_act(id, cell->actions);
	if (cell->actions & CM_TELL_ANY && cm_tell(id, cell->actions, event, status))
		cm_id_end(id);
}

/* One per id: the events of an id are handled one after another, as they came. */
static void cm_id_work(struct work_struct *work)
{
	struct cm_id *id = container_of(work, struct cm_id, work);
	struct cm_note note;

	mutex_lock(&id->handler_mutex);
	while (cm_take(id, &note)) {
		if (note.event == CM_EV_REQUEST)
			cm_handle_request(id, note.id);
		else
			cm_handle(id, &note);
	}
	mutex_unlock(&id->handler_mutex);
	cm_id_put(id);
}

/* --- made and ended ------------------------------------------------------ */

/**
 * cm_id_make - the common part of making an id
 * @net: its network namespace
 * @handler: the consumer's
 * @context: the consumer's
 * @ps: port space
 * @qp_type: kind of QP
 * @gfp: in upcalls GFP_ATOMIC
 *
 * Return: an id with one reference, or NULL. The caller owes it a cm_res_init().
 */
struct cm_id *cm_id_make(struct net *net, rdma_cm_event_handler handler, void *context,
			 enum rdma_ucm_port_space ps, enum ib_qp_type qp_type, gfp_t gfp)
{
	struct cm_id *id;
	unsigned long flags;
	int slot;

	id = kzalloc(sizeof(*id), gfp);
	if (!id)
		return NULL;
	kref_init(&id->ref);
	id->number = atomic_inc_return(&cm_numbers);
	mutex_init(&id->handler_mutex);
	mutex_init(&id->listen_mutex);
	spin_lock_init(&id->lock);
	INIT_LIST_HEAD(&id->queue);
	INIT_LIST_HEAD(&id->of_dev);
	INIT_LIST_HEAD(&id->listeners);
	INIT_LIST_HEAD(&id->wildcard);
	INIT_HLIST_NODE(&id->bind.item);
	INIT_WORK(&id->work, cm_id_work);
	for (slot = 0; slot < CM_NUM_SLOTS; slot++) {
		INIT_LIST_HEAD(&id->slots[slot].item);
		id->slots[slot].id = id;
	}
	id->bind.ps = ps;
	id->mirror.id.event_handler = handler;
	id->mirror.id.context = context;
	id->mirror.id.ps = ps;
	id->mirror.id.qp_type = qp_type;
	id->mirror.id.route.addr.dev_addr.net = get_net(net);

	spin_lock_irqsave(&all_ids_lock, flags);
	list_add_tail(&id->of_all, &all_ids);
	spin_unlock_irqrestore(&all_ids_lock, flags);
	return id;
}

/*
 * Take an id from its consumer: gives back all but what the provider still needs.
 * The caller holds handler_mutex and a reference beside the consumer's, which is
 * put here.
 */
void cm_id_end(struct cm_id *id)
{
	lockdep_assert_held(&id->handler_mutex);
	if (cm_do(id, CM_EV_DESTROY, 0))
		return;
	cm_addr_stop(id);
	cm_port_put(id);
	cm_res_hide(&id->mirror);
	cm_dev_detach(id);
	cm_id_put(id);
}

/**
 * __t3_rdma_create_id - make an id
 * @net: network namespace
 * @handler: gets the id's events, one at a time, where it may sleep. If it answers
 *	non-zero the id is destroyed. It must not call t3_rdma_destroy_id() on the id,
 *	nor on the listener that the id comes from.
 * @context: for @handler
 * @ps: port space; RDMA_PS_TCP for all that can be connected
 * @qp_type: IB_QPT_RC for all that can be connected
 * @caller: name of the module, for `rdma resource`
 *
 * Return: the id, or an error pointer.
 */
struct rdma_cm_id *__t3_rdma_create_id(struct net *net, rdma_cm_event_handler handler,
				       void *context, enum rdma_ucm_port_space ps,
				       enum ib_qp_type qp_type, const char *caller)
{
	struct cm_id *id;

	id = cm_id_make(net, handler, context, ps, qp_type, GFP_KERNEL);
	if (!id)
		return ERR_PTR(-ENOMEM);
	cm_res_init(&id->mirror, caller, NULL);
	return &id->mirror.id;
}
EXPORT_SYMBOL(__t3_rdma_create_id);

/* For a process; in its network namespace. */
struct rdma_cm_id *cm_create_user_id(rdma_cm_event_handler handler, void *context,
				     enum rdma_ucm_port_space ps, enum ib_qp_type qp_type)
{
	return __t3_rdma_create_id(current->nsproxy->net_ns, handler, context, ps, qp_type, NULL);
}

/**
 * t3_rdma_destroy_id - give an id back
 * @id: the id; its QP, if it was made by t3_rdma_create_qp(), must be gone
 *
 * A connection is aborted, a request refused. When this returns the handler is not
 * running and will not be called again. Must not be called by the id's own handler.
 */
void t3_rdma_destroy_id(struct rdma_cm_id *id)
{
	struct cm_id *cm = to_cm_id(id);

	if (WARN_ON(cm_in_handler(cm)))
		return;
	cm_id_get(cm);
	mutex_lock(&cm->handler_mutex);
	cm_id_end(cm);
	mutex_unlock(&cm->handler_mutex);
	cm_id_put(cm);
}
EXPORT_SYMBOL(t3_rdma_destroy_id);

/**
 * t3_rdma_lock_handler - keep the id's handler from running
 * @id: the id
 */
void t3_rdma_lock_handler(struct rdma_cm_id *id)
{
	mutex_lock(&to_cm_id(id)->handler_mutex);
}
EXPORT_SYMBOL(t3_rdma_lock_handler);

/**
 * t3_rdma_unlock_handler - let the id's handler run again
 * @id: the id
 */
void t3_rdma_unlock_handler(struct rdma_cm_id *id)
{
	mutex_unlock(&to_cm_id(id)->handler_mutex);
}
EXPORT_SYMBOL(t3_rdma_unlock_handler);

int cm_ids_init(void)
{
	/* A consumer may wait for us while memory is reclaimed (nvme-rdma). */
	cm_wq = alloc_workqueue("t3_rdma_cm", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return cm_wq ? 0 : -ENOMEM;
}

void cm_ids_exit(void)
{
	destroy_workqueue(cm_wq);
}
