// SPDX-License-Identifier: GPL-2.0
/*
 * Ids: how they are made and end, and the one function that changes their state.
 */
#include <linux/cred.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include <t3_race_point.h>

#include "rdma_cm.h"
#include "trace.h"

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
	struct mem_cgroup *memcg = id->memcg;
	unsigned long flags;

	T3_RACE_POINT(cm_id_free);
	spin_lock_irqsave(&all_ids_lock, flags);
	list_del(&id->of_all);
	spin_unlock_irqrestore(&all_ids_lock, flags);
	put_net(cm_net(id));
	put_cred(id->listen_cred);
	kfree(id);
	mem_cgroup_put(memcg);
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
	T3_RACE_POINT(cm_stepped);
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
		cm_qp_drop(id);
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

/* --- made and ended ------------------------------------------------------ */

static struct mem_cgroup *memcg_get(struct mem_cgroup *memcg)
{
#ifdef CONFIG_MEMCG
	if (memcg)
		css_get(&memcg->css);
#endif
	return memcg;
}

/**
 * cm_zalloc - allocate on behalf of a process, whoever runs
 * @memcg: what is charged; NULL: nobody
 * @size: of the object
 * @gfp: flags; where nothing may sleep the memory is charged also over the limit
 *
 * Return: memory of zeros, or NULL.
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
 * cm_id_make - the common part of making an id
 * @net: its network namespace
 * @handler: the consumer's
 * @context: the consumer's
 * @ps: port space
 * @qp_type: kind of QP
 * @memcg: what is charged for it, and for all that it makes; NULL: nobody
 * @gfp: in upcalls GFP_ATOMIC
 *
 * Return: an id with one reference, or NULL. The caller owes it a cm_res_init().
 */
struct cm_id *cm_id_make(struct net *net, rdma_cm_event_handler handler, void *context,
			 enum rdma_ucm_port_space ps, enum ib_qp_type qp_type,
			 struct mem_cgroup *memcg, gfp_t gfp)
{
	struct cm_id *id;
	unsigned long flags;

	id = cm_zalloc(memcg, sizeof(*id), gfp);
	if (!id)
		return NULL;
	id->memcg = memcg_get(memcg);
	kref_init(&id->ref);
	id->number = atomic_inc_return(&cm_numbers);
	mutex_init(&id->handler_mutex);
	mutex_init(&id->listen_mutex);
	spin_lock_init(&id->lock);
	INIT_LIST_HEAD(&id->of_dev);
	INIT_LIST_HEAD(&id->listeners);
	INIT_LIST_HEAD(&id->wildcard);
	INIT_HLIST_NODE(&id->bind.item);
	cm_queue_init(id);
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
	u16 left = id->rest.actions & ~CM_TELL_ANY;

	lockdep_assert_held(&id->handler_mutex);
	/* What an upcall left to the worker comes first: the steps after it take it for done. */
	id->rest.actions = 0;
	cm_act(id, left);
	if (cm_do(id, CM_EV_DESTROY, 0))
		return;
	T3_RACE_POINT(cm_ended);
	cm_addr_stop(id);
	cm_port_put(id);
	T3_RACE_POINT(cm_end_port_put);
	cm_res_hide(&id->mirror);
	cm_dev_detach(id);
	T3_RACE_POINT(cm_end_detached);
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

	id = cm_id_make(net, handler, context, ps, qp_type, NULL, GFP_KERNEL);
	if (!id)
		return ERR_PTR(-ENOMEM);
	cm_res_init(&id->mirror, caller, NULL);
	return &id->mirror.id;
}
EXPORT_SYMBOL(__t3_rdma_create_id);

/* For a process; in its network namespace, and charged to its memory cgroup. */
struct rdma_cm_id *cm_create_user_id(rdma_cm_event_handler handler, void *context,
				     enum rdma_ucm_port_space ps, enum ib_qp_type qp_type)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(current->mm);
	struct cm_id *id;

	id = cm_id_make(current->nsproxy->net_ns, handler, context, ps, qp_type, memcg, GFP_KERNEL);
	mem_cgroup_put(memcg);
	if (!id)
		return ERR_PTR(-ENOMEM);
	id->user = true;
	cm_res_init(&id->mirror, NULL, NULL);
	return &id->mirror.id;
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
	T3_RACE_POINT(cm_destroy_begins);
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
