// SPDX-License-Identifier: GPL-2.0
/* Ids: memory, references, and the list of all. */
#include <linux/cred.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "rdma_cm.h"

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

	spin_lock_irqsave(&cm_ids_lock, flags);
	list_del(&id->all_item);
	spin_unlock_irqrestore(&cm_ids_lock, flags);
	if (dev && dev->transport->detach)
		dev->transport->detach(id);
	put_net(cm_net(id));
	put_cred(id->listen_cred);
	cm_user_release(id);
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

/* --- memory -------------------------------------------------------------- */

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
 * @memcg: the cgroup that is charged for the id and its listeners; NULL without cgroups
 * @gfp: GFP_ATOMIC in upcalls
 *
 * Return: an id with one reference, or NULL. The caller must call cm_queue_init() and cm_res_init()
 * on it.
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
	spin_lock_init(&id->lock);
	/* Not published yet. */
	context_unsafe(INIT_LIST_HEAD(&id->dev_item));
	context_unsafe(INIT_LIST_HEAD(&id->listeners));
	context_unsafe(INIT_LIST_HEAD(&id->groups));
	context_unsafe(INIT_LIST_HEAD(&id->listening));
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
