// SPDX-License-Identifier: GPL-2.0
/* The consumer's calls that create an id, and destroy it. */
#include <linux/memcontrol.h>
#include <linux/sched.h>

#include "rdma_cm.h"

/**
 * t3_rdma_create_id - create an id of the current process
 * @handler: receives the id's events, one at a time. An error refuses a connect request; in an
 *	upcall a worker calls it again. It must not call t3_rdma_destroy_id() on the id, nor on
 *	the listener of its connect request
 * @context: for @handler
 * @ps: port space; over iWARP only an id of RDMA_PS_TCP connects and listens
 * @qp_type: type of QP: IB_QPT_RC; over RoCE also IB_QPT_UD, for datagrams
 *
 * The id is in the network namespace of the process, and charged to its memory cgroup.
 *
 * Return: the id, or an error pointer.
 */
struct rdma_cm_id *t3_rdma_create_id(rdma_cm_event_handler handler, void *context,
				     enum rdma_ucm_port_space ps, enum ib_qp_type qp_type)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(current->mm);
	struct cm_id *id;

	id = cm_id_alloc(current->nsproxy->net_ns, handler, context, ps, qp_type, memcg,
			 GFP_KERNEL);
	mem_cgroup_put(memcg);
	if (!id)
		return ERR_PTR(-ENOMEM);
	cm_queue_init(id);
	cm_res_init(&id->base, NULL, NULL);
	return &id->base.id;
}

/**
 * t3_rdma_destroy_id - destroy an id
 * @id: the id
 *
 * Aborts a connection, rejects a request. When this returns the handler does not run, and is
 * not called again. The id's own handler must not call this.
 */
void t3_rdma_destroy_id(struct rdma_cm_id *id)
{
	struct cm_id *cm = to_cm_id(id);

	cm_id_get(cm);
	mutex_lock(&cm->handler_mutex);
	cm_id_destroy(cm);
	cm_handler_release(cm);
	cm_id_put(cm);
}
