// SPDX-License-Identifier: GPL-2.0
/*
 * Ids: creation, destruction, and the one function that changes the state.
 */
#include <linux/cred.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib_cm.h>

#include <t3_race_point.h>

#include "rdma_cm.h"
#include "trace.h"

static atomic_t cm_last_number;

/* All ids, for debugfs. */
static struct list_head cm_ids __guarded_by(&cm_ids_lock) = LIST_HEAD_INIT(cm_ids);
DEFINE_SPINLOCK(cm_ids_lock);

/* --- references ---------------------------------------------------------- */

void cm_id_get(struct cm_id *id)
{
	kref_get(&id->ref);
}

/* In any context: cm_id_destroy() has done everything that sleeps. */
static void cm_id_free(struct kref *ref)
{
	struct cm_id *id = container_of(ref, struct cm_id, ref);
	struct cm_dev *dev = cm_dev_of(id);
	struct mem_cgroup *memcg = id->memcg;
	unsigned long flags;

	T3_RACE_POINT(cm_id_free);
	spin_lock_irqsave(&cm_ids_lock, flags);
	list_del(&id->all_item);
	spin_unlock_irqrestore(&cm_ids_lock, flags);
	if (dev && dev->transport->detach)
		dev->transport->detach(id);
	put_net(cm_net(id));
	put_cred(id->listen_cred);
	put_cred(id->qp_cred);
	put_pid(id->qp_tgid);
	kfree(id);
	mem_cgroup_put(memcg);
	/* Last: the module can be unloaded as soon as its devices have no users. */
	if (dev)
		cm_dev_put(dev);
}

void cm_id_put(struct cm_id *id)
{
	kref_put(&id->ref, cm_id_free);
}

/**
 * cm_ids_next - walk the list of all ids, for debugfs
 * @after: an id; its reference is put; or NULL for the first one
 *
 * Return: the next id, with a reference, or NULL.
 */
struct cm_id *cm_ids_next(struct cm_id *after)
{
	struct cm_id *id = after, *found = NULL;
	unsigned long flags;

	spin_lock_irqsave(&cm_ids_lock, flags);
	id = id ? list_next_entry(id, all_item) : list_first_entry(&cm_ids, struct cm_id, all_item);
	list_for_each_entry_from(id, &cm_ids, all_item) {
		/* The last reference may have been put, with cm_id_free() waiting for the lock. */
		if (!kref_get_unless_zero(&id->ref))
			continue;
		found = id;
		break;
	}
	spin_unlock_irqrestore(&cm_ids_lock, flags);
	if (after)
		cm_id_put(after);
	return found;
}

/* --- the state ----------------------------------------------------------- */

enum cm_state cm_state(struct cm_id *id)
{
	return context_unsafe(READ_ONCE(id->state)); /* it may change at any time */
}

/**
 * cm_fsm_apply - apply an event: the only place where the state of an id changes
 * @id: the id
 * @event: what happened; CM_EV_REMOVE is refused if the id's present device is not removed
 * @status: its result, for the history
 * @cell: receives the cell of the table, whose actions the caller must run; or NULL
 *
 * Return: 0, or -EINVAL if the state refuses the event.
 */
int cm_fsm_apply(struct cm_id *id, enum cm_event event, int status, const struct cm_cell **cell)
{
	struct cm_history_entry *entry;
	const struct cm_cell *to;
	enum cm_state from;
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	from = id->state;
	to = cm_fsm(from, event);
	/* It was posted for the device of a bind that has failed since. */
	if (event == CM_EV_REMOVE && !cm_dev_is_removed(id))
		to = NULL;
	entry = &id->history[id->steps++ % CM_HISTORY];
	*entry = (struct cm_history_entry) {
		.status = status,
		.event = event,
		.from = from,
		.to = to ? to->next : from,
		.legal = to,
	};
	if (to) {
		WRITE_ONCE(id->state, to->next);
		id->base.state = cm_res_state(to->next);
	} else {
		id->refused++;
	}
	spin_unlock_irqrestore(&id->lock, flags);

	if (!to) {
		trace_cm_fsm_refuse(id->number, from, event, status);
		return -EINVAL;
	}
	trace_cm_fsm_apply(id->number, from, event, to->next, to->actions, status);
	T3_RACE_POINT(cm_fsm_applied);
	if (cell)
		*cell = to;
	return 0;
}

/* The id has, had, or was asked for a connection. */
bool cm_past_connect(enum cm_state state)
{
	switch (state) {
	case CM_ST_CONNECTING:
	case CM_ST_RESPONDED:
	case CM_ST_REQUESTED:
	case CM_ST_ACCEPTING:
	case CM_ST_CANCELLING:
	case CM_ST_CONNECTED:
	case CM_ST_CLOSING:
	case CM_ST_CLOSED:
		return true;
	default:
		return false;
	}
}

/* The actions of a cell but the reports. */
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
	const struct cm_cell *cell;
	int ret;

	ret = cm_fsm_apply(id, event, status, &cell);
	if (!ret)
		cm_run_actions(id, cell->actions);
	return ret;
}

/* --- creation and destruction -------------------------------------------- */

static struct mem_cgroup *cm_memcg_get(struct mem_cgroup *memcg)
{
#ifdef CONFIG_MEMCG
	if (memcg)
		css_get(&memcg->css);
#endif
	return memcg;
}

/**
 * cm_zalloc - allocate memory that a cgroup is charged for, whichever task runs
 * @memcg: the cgroup, or NULL for no charge
 * @size: size of the object
 * @gfp: GFP_KERNEL only in a command of the process, without handler_mutex: a charge above
 *	memory.high sleeps. The charge of GFP_ATOMIC may exceed the cgroup's limit
 *
 * Return: zeroed memory, or NULL.
 */
void *cm_zalloc(struct mem_cgroup *memcg, size_t size, gfp_t gfp)
{
	struct mem_cgroup *before;
	void *memory;

	if (!memcg)
		return kzalloc(size, gfp);
	before = set_active_memcg(memcg);
	memory = kzalloc(size, gfp | __GFP_ACCOUNT);
	set_active_memcg(before);
	return memory;
}

/**
 * cm_zalloc_nowait - cm_zalloc() where others wait for the caller: in a worker, for handler_mutex
 * @memcg: the cgroup, or NULL for no charge
 * @size: size of the object, of which an id has few
 *
 * The charge does not sleep, and may exceed the cgroup's limit. While the machine has no free
 * memory the object is not charged, and then the allocation may sleep.
 *
 * Return: zeroed memory, or NULL.
 */
void *cm_zalloc_nowait(struct mem_cgroup *memcg, size_t size)
{
	void *memory = memcg ? cm_zalloc(memcg, size, GFP_ATOMIC | __GFP_NOWARN) : NULL;

	return memory ? memory : kzalloc(size, GFP_KERNEL);
}

/**
 * cm_id_alloc - allocate an id
 * @net: network namespace
 * @handler: the consumer's handler
 * @context: the consumer's context
 * @ps: port space
 * @qp_type: type of QP
 * @memcg: the cgroup that is charged for the id and its listeners, or NULL for no charge
 * @gfp: GFP_ATOMIC in upcalls
 *
 * Return: an id with one reference, or NULL. The caller must call cm_res_init() on it.
 */
struct cm_id *cm_id_alloc(struct net *net, rdma_cm_event_handler handler, void *context,
			  enum rdma_ucm_port_space ps, enum ib_qp_type qp_type,
			  struct mem_cgroup *memcg, gfp_t gfp)
{
	struct cm_id *id;
	unsigned long flags;

	id = cm_zalloc(memcg, sizeof(*id), gfp);
	if (!id)
		return NULL;
	id->memcg = cm_memcg_get(memcg);
	kref_init(&id->ref);
	id->number = atomic_inc_return(&cm_last_number);
	mutex_init(&id->handler_mutex);
	mutex_init(&id->listen_mutex);
	init_rwsem(&id->requests);
	mutex_init(&id->base.qp_mutex);
	spin_lock_init(&id->lock);
	/* Not published yet. */
	context_unsafe(INIT_LIST_HEAD(&id->dev_item));
	context_unsafe(INIT_LIST_HEAD(&id->listeners));
	context_unsafe(INIT_LIST_HEAD(&id->groups));
	context_unsafe(INIT_LIST_HEAD(&id->listening));
	context_unsafe(INIT_HLIST_NODE(&id->bind.item));
	cm_queue_init(id);
	id->bind.ps = ps;
	id->base.id.event_handler = handler;
	id->base.id.context = context;
	id->base.id.ps = ps;
	id->base.id.qp_type = qp_type;
	id->base.id.route.addr.dev_addr.net = get_net(net);

	spin_lock_irqsave(&cm_ids_lock, flags);
	list_add_tail(&id->all_item, &cm_ids);
	spin_unlock_irqrestore(&cm_ids_lock, flags);
	return id;
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
	T3_RACE_POINT(cm_destroy_applied);
	cm_requests_wait(id);
	cm_leave_all(id);
	if (cm_dev_of(id) && cm_transport(id)->release)
		cm_transport(id)->release(id);
	cm_addr_cancel(id);
	cm_port_release(id);
	T3_RACE_POINT(cm_destroy_port_put);
	cm_res_del(&id->base);
	cm_dev_unlink(id);
	T3_RACE_POINT(cm_destroy_unlinked);
	cm_id_put(id);
}

/**
 * __t3_rdma_create_id - create an id
 * @net: network namespace
 * @handler: receives the id's events, one at a time, and may sleep. If it returns non-zero,
 *	the id is destroyed. It must not call t3_rdma_destroy_id() on the id, nor on the
 *	listener of its connect request.
 * @context: for @handler
 * @ps: port space; iWARP: an id that connects or listens needs RDMA_PS_TCP
 * @qp_type: type of QP: IB_QPT_RC; over RoCE also IB_QPT_UD, for datagrams
 * @caller: name of the module, for `rdma resource`
 *
 * Return: the id, or an error pointer.
 */
struct rdma_cm_id *__t3_rdma_create_id(struct net *net, rdma_cm_event_handler handler,
				       void *context, enum rdma_ucm_port_space ps,
				       enum ib_qp_type qp_type, const char *caller)
{
	struct cm_id *id;

	id = cm_id_alloc(net, handler, context, ps, qp_type, NULL, GFP_KERNEL);
	if (!id)
		return ERR_PTR(-ENOMEM);
	cm_res_init(&id->base, caller, NULL);
	return &id->base.id;
}
EXPORT_SYMBOL(__t3_rdma_create_id);

/* For a process: in its network namespace, and charged to its memory cgroup. */
struct rdma_cm_id *cm_create_user_id(rdma_cm_event_handler handler, void *context,
				     enum rdma_ucm_port_space ps, enum ib_qp_type qp_type)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(current->mm);
	struct cm_id *id;

	id = cm_id_alloc(current->nsproxy->net_ns, handler, context, ps, qp_type, memcg,
			 GFP_KERNEL);
	mem_cgroup_put(memcg);
	if (!id)
		return ERR_PTR(-ENOMEM);
	id->user = true;
	cm_res_init(&id->base, NULL, NULL);
	return &id->base.id;
}

/**
 * t3_rdma_destroy_id - destroy an id
 * @id: the id; a QP of t3_rdma_create_qp() must have been destroyed
 *
 * Aborts a connection, rejects a request. When this returns the handler does not run, and is
 * not called again. The id's own handler must not call this.
 */
void t3_rdma_destroy_id(struct rdma_cm_id *id)
{
	struct cm_id *cm = to_cm_id(id);

	if (WARN_ON(cm_in_handler(cm)))
		return;
	cm_id_get(cm);
	T3_RACE_POINT(cm_destroy_begins);
	mutex_lock(&cm->handler_mutex);
	cm_id_destroy(cm);
	mutex_unlock(&cm->handler_mutex);
	cm_id_put(cm);
}
EXPORT_SYMBOL(t3_rdma_destroy_id);

/**
 * t3_rdma_lock_handler - keep the id's handler from running, also for connect requests to the id
 * @id: the id
 */
void t3_rdma_lock_handler(struct rdma_cm_id *id)
	__context_unsafe(/* the consumer calls t3_rdma_unlock_handler() */)
{
	mutex_lock(&to_cm_id(id)->handler_mutex);
	down_write(&to_cm_id(id)->requests);
}
EXPORT_SYMBOL(t3_rdma_lock_handler);

/**
 * t3_rdma_unlock_handler - let the id's handler run again
 * @id: the id
 */
void t3_rdma_unlock_handler(struct rdma_cm_id *id)
	__context_unsafe(/* the consumer called t3_rdma_lock_handler() */)
{
	up_write(&to_cm_id(id)->requests);
	mutex_unlock(&to_cm_id(id)->handler_mutex);
}
EXPORT_SYMBOL(t3_rdma_unlock_handler);
