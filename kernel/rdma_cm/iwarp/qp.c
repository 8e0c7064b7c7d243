// SPDX-License-Identifier: GPL-2.0
/*
 * iWARP: the reference of an id on the QP of its connection.
 *
 * A process names a QP by its number, and may destroy the QP in another thread at the same time.
 * iw_get_qp() returns no reference, and iw_add_ref() must not be called after the last reference
 * was put. So between the two something else must hold the QP:
 *
 *  - A QP is an object of an open verbs file. This takes the object for shared use,
 *    as the commands of that file do: a destroy then fails with EBUSY, and the file is not torn
 *    down. Up to that point a reference on the QP's entry in ib_core's resource tracking keeps
 *    the memory of QP, object and file: ib_destroy_qp_user() waits for it.
 *  - Resource tracking lacks some QPs: a provider may reuse a number before the entry of its last
 *    owner is removed, and then ib_core adds no entry for the new QP. It also adds the entry after
 *    the provider has created the QP. For a QP without an entry iw_connect and iw_accept take a
 *    reference of their own, and still have it when they take one on the iw_cm_id. The id takes
 *    its reference inside that callback. A process connects such a QP only if it has created it
 *    itself: before the provider's call cm_qp_created_here() compares, without a reference. With
 *    the reference the owner is checked again, as the number may be that of another QP by then.
 *    The provider cannot be made to fail any more. So the connection of another user's QP is
 *    aborted as soon as the provider's call returns.
 */
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include <t3_uverbs_file.h>

#include "iwarp.h"

static void cm_qp_set(struct cm_id *id, struct ib_qp *qp, bool by_provider)
{
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	id->conn_qp = qp;
	id->qp_by_provider = by_provider;
	spin_unlock_irqrestore(&id->lock, flags);
}

/*
 * Takes an object of a verbs file for shared use. Does not wait: the task that destroys the object
 * may wait for the caller's reference on the QP's entry. Return: false if the object is being
 * created or destroyed.
 */
static bool cm_uobject_get(struct ib_uobject *uobj)
	__context_unsafe(/* if true, cm_uobject_put() releases the lock */)
{
	struct rw_semaphore *teardown = &uobj->ufile->hw_destroy_rwsem;

	if (!down_read_trylock(teardown))
		return false;
	if (atomic_fetch_add_unless(&uobj->usecnt, 1, -1) != -1)
		return true;
	up_read(teardown);
	return false;
}

static void cm_uobject_put(struct ib_uobject *uobj)
	__context_unsafe(/* cm_uobject_get() took the lock */)
{
	struct rw_semaphore *teardown = &uobj->ufile->hw_destroy_rwsem;

	atomic_fetch_dec_release(&uobj->usecnt);
	up_read(teardown);
}

/*
 * The provider's QP of a number, or NULL. It has no reference: the provider frees it after a grace
 * period.
 */
static struct ib_qp *cm_qp_find(struct ib_device *device, u32 qpn)
	__must_hold_shared(RCU)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "the QP may be freed");
	return device->ops.iw_get_qp(device, qpn);
}

static void cm_qp_add_ref(struct cm_id *id, struct ib_qp *qp)
{
	qp->device->ops.iw_add_ref(qp);
	cm_qp_set(id, qp, false);
}

/*
 * Takes a reference on a QP whose entry in resource tracking the caller holds. iw_get_qp() is not
 * called: its QP would be freed only after a grace period. The object of another user is not even
 * taken: its owner's destroy would fail. Return: false if the caller may not use the QP, if it is
 * no object of a process, or is being created or destroyed.
 */
static bool cm_qp_get_object(struct cm_id *id, struct ib_qp *qp)
{
	/* struct ib_uqp_object begins with a struct ib_uobject. */
	struct ib_uobject *uobj = (struct ib_uobject *)qp->uobject;

	if (!cm_qp_permitted(id, qp) || !cm_uobject_get(uobj))
		return false;
	cm_qp_add_ref(id, qp);
	cm_uobject_put(uobj);
	return true;
}

/*
 * Whether a thread of this process has created a QP. Without a reference the QP may be freed, and
 * its members may be anything. So this uses none of them, and compares with threads that exist.
 */
static bool cm_qp_created_here(const struct ib_qp *qp)
	__must_hold_shared(RCU)
{
	struct task_struct *creator, *thread;

	if (copy_from_kernel_nofault(&creator, &qp->res.task, sizeof(creator)))
		return false;
	for_each_thread(current, thread)
		if (thread == creator)
			return true;
	return false;
}

/*
 * The same, with the provider's QP of the number: cm_qp_get_late() takes the reference. @tracked:
 * the QP of the entry that the caller holds, or NULL. The caller may not use it.
 */
static int cm_qp_get_of_provider(struct cm_id *id, u32 qpn, const struct ib_qp *tracked)
{
	struct ib_qp *qp;
	bool permitted;

	rcu_read_lock();
	qp = cm_qp_find(id->base.id.device, qpn);
	permitted = qp && qp != tracked && cm_qp_created_here(qp);
	rcu_read_unlock();
	if (!permitted)
		return -EINVAL;
	cm_qp_set(id, NULL, true);
	return 0;
}

static int cm_qp_get_by_num(struct cm_id *id, u32 qpn)
{
	struct rdma_restrack_entry *entry;
	struct ib_qp *tracked;
	int ret = 0;

	entry = rdma_restrack_get_byid(id->base.id.device, RDMA_RESTRACK_QP, qpn);
	if (IS_ERR(entry))
		return cm_qp_get_of_provider(id, qpn, NULL);
	tracked = container_of(entry, struct ib_qp, res);
	if (!cm_qp_get_object(id, tracked))
		ret = cm_qp_get_of_provider(id, qpn, tracked);
	rdma_restrack_put(entry);
	return ret;
}

/**
 * cm_qp_get - take the connection's reference on its QP
 * @id: the id, which has a device
 * @qpn: number of the QP
 *
 * Return: 0: the id has the reference, or cm_qp_get_late() takes it; -EINVAL if there is no such
 * QP, if it is being destroyed, or if the caller may not use it.
 */
int cm_qp_get(struct cm_id *id, u32 qpn)
{
	id->qp_refused = false;
	cm_qp_set_user(id);
	id->base.qp_num = qpn;
	return cm_qp_get_by_num(id, qpn);
}

/**
 * cm_qp_get_again - repeat cm_qp_get() if that took no reference
 * @id: the id; the provider is called next
 *
 * The command may have slept since then, for seconds if the port mapper did not reply. Meanwhile
 * the process may have destroyed its QP, and the number may be that of another user's.
 *
 * Return: as cm_qp_get().
 */
int cm_qp_get_again(struct cm_id *id)
{
	unsigned long flags;
	bool late;

	spin_lock_irqsave(&id->lock, flags);
	late = id->qp_by_provider;
	spin_unlock_irqrestore(&id->lock, flags);
	return late ? cm_qp_get_by_num(id, id->base.qp_num) : 0;
}

/**
 * cm_qp_get_late - take the reference inside iw_connect or iw_accept, if cm_qp_get() did not
 * @id: the id; the provider calls this while it holds the QP
 *
 * If the QP is not found, it is being destroyed, and the provider ends its connection. If the
 * process may not use it, this sets @id->qp_refused, and the caller of the provider aborts the
 * connection with cm_qp_abort_refused().
 */
void cm_qp_get_late(struct cm_id *id)
{
	struct ib_device *device = id->base.id.device;
	unsigned long flags;
	struct ib_qp *qp;
	bool late;

	spin_lock_irqsave(&id->lock, flags);
	late = id->qp_by_provider;
	id->qp_by_provider = false;
	spin_unlock_irqrestore(&id->lock, flags);
	if (!late)
		return;
	rcu_read_lock();
	qp = cm_qp_find(device, id->base.qp_num);
	if (qp)
		device->ops.iw_add_ref(qp);
	rcu_read_unlock();
	if (!qp)
		return;
	id->qp_refused = !cm_qp_permitted(id, qp);
	cm_qp_set(id, qp, false);
}

/* After a connect or accept of the provider has begun: ends the connection of another user's QP. */
void cm_qp_abort_refused(struct cm_id *id)
{
	if (!id->qp_refused)
		return;
	cm_transport(id)->close(id, true);
	/* If the provider establishes the connection all the same, it is closed. */
	cm_fsm_run(id, CM_EV_DISCONNECT, -EPERM);
}

void cm_qp_put(struct cm_id *id)
{
	unsigned long flags;
	struct ib_qp *qp;

	spin_lock_irqsave(&id->lock, flags);
	qp = id->conn_qp;
	id->conn_qp = NULL;
	id->qp_by_provider = false;
	spin_unlock_irqrestore(&id->lock, flags);
	if (qp)
		id->base.id.device->ops.iw_rem_ref(qp);
}
