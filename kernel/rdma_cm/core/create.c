// SPDX-License-Identifier: GPL-2.0
/* The consumer's calls that create an id, lock its handler, and destroy it. */
#include <linux/memcontrol.h>
#include <linux/sched.h>

#include "rdma_cm.h"

/**
 * __t3_rdma_create_id - create an id
 * @net: network namespace
 * @handler: receives the id's events, one at a time, and may sleep. If it returns non-zero,
 *	the id is destroyed. It must not call t3_rdma_destroy_id() on the id, nor on the
 *	listener of its connect request.
 * @context: for @handler
 * @ps: port space; over iWARP only an id of RDMA_PS_TCP connects and listens
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
	cm_queue_init(id);
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
	cm_queue_init(id);
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
	mutex_lock(&cm->handler_mutex);
	cm_id_destroy(cm);
	cm_handler_release(cm);
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
	cm_handler_release(to_cm_id(id));
}
EXPORT_SYMBOL(t3_rdma_unlock_handler);
