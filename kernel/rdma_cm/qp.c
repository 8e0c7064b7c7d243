// SPDX-License-Identifier: GPL-2.0
/*
 * The QP of a connection: how an id gets the reference that it holds on it.
 *
 * Consumers name a QP by its number, and a process may destroy the QP in another thread at the
 * same time. iw_get_qp() returns no reference, and iw_add_ref() must not be called once the last
 * one is gone. So something else keeps the QP from being destroyed in between:
 *
 *  - A module passes the QP of t3_rdma_create_qp(), or the number of another one of its own. It
 *    must not destroy it before the call has returned.
 *  - The QP of a process is an object of an open verbs file. It is taken for shared use, as the
 *    commands of that file take it: a destroy then fails with EBUSY, and the file is not torn
 *    down. Until then a reference on the QP's entry in ib_core's resource tracking keeps the
 *    memory of QP, object and file: ib_destroy_qp_user() waits for it.
 *  - Resource tracking does not have every QP: providers may give a number out again before the
 *    entry of its last owner is removed, and then the new QP is not entered. Such a QP is left to
 *    the provider. iw_connect and iw_accept look it up with a reference of their own, and hold
 *    that when they take one on the iw_cm_id; inside this callback the id takes its reference.
 */
#include <linux/cred.h>
#include <linux/sched/signal.h>

#include <t3_race_point.h>
#include <t3_uverbs_file.h>

#include "rdma_cm.h"

static void set_qp(struct cm_id *id, struct ib_qp *qp, bool wanted)
{
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	id->qp = qp;
	id->qp_wanted = wanted;
	spin_unlock_irqrestore(&id->lock, flags);
}

/*
 * Takes an object of a verbs file for shared use; false if it is being made or destroyed. Does not
 * wait, for who destroys it may wait for the caller's reference on the QP's entry.
 */
static bool uobject_get(struct ib_uobject *uobj)
{
	struct rw_semaphore *teardown = &uobj->ufile->hw_destroy_rwsem;

	if (!down_read_trylock(teardown))
		return false;
	if (atomic_fetch_add_unless(&uobj->usecnt, 1, -1) != -1)
		return true;
	up_read(teardown);
	return false;
}

static void uobject_put(struct ib_uobject *uobj)
{
	struct rw_semaphore *teardown = &uobj->ufile->hw_destroy_rwsem;

	atomic_fetch_dec_release(&uobj->usecnt);
	up_read(teardown);
}

/* A process connects QPs that it made, or that a process of the same user made. */
static bool may_use(const struct ib_qp *qp)
{
	struct task_struct *maker = qp->res.task;

	return maker && (same_thread_group(maker, current) ||
			 uid_eq(task_uid(maker), current_uid()));
}

/* Holds a QP whose entry in resource tracking the caller has a reference on. */
static int hold_tracked(struct cm_id *id, struct ib_qp *qp)
{
	/* struct ib_uqp_object begins with a struct ib_uobject. */
	struct ib_uobject *uobj = (struct ib_uobject *)qp->uobject;

	if (id->user && (!uobj || !may_use(qp)))
		return -EINVAL;
	if (uobj && !uobject_get(uobj))
		return -EINVAL;
	T3_RACE_POINT(cm_qp_found);
	qp->device->ops.iw_add_ref(qp);
	T3_RACE_POINT(cm_qp_held);
	if (uobj)
		uobject_put(uobj);
	set_qp(id, qp, false);
	return 0;
}

static int hold_by_number(struct cm_id *id, u32 qpn)
{
	struct ib_device *device = id->mirror.id.device;
	struct rdma_restrack_entry *entry;
	struct ib_qp *qp;
	int ret = 0;

	entry = rdma_restrack_get_byid(device, RDMA_RESTRACK_QP, qpn);
	T3_RACE_POINT(cm_qp_entry_held);
	/* Without a reference this is compared, and not followed. */
	rcu_read_lock();
	qp = device->ops.iw_get_qp(device, qpn);
	rcu_read_unlock();
	if (!qp)
		ret = -EINVAL;
	else if (!IS_ERR(entry) && qp == container_of(entry, struct ib_qp, res))
		ret = hold_tracked(id, qp);
	else
		set_qp(id, NULL, true);
	if (!IS_ERR(entry))
		rdma_restrack_put(entry);
	return ret;
}

/**
 * cm_qp_hold - take the reference that a connection has on its QP
 * @id: the id, which has a device
 * @qpn: number of the QP; of no meaning if t3_rdma_create_qp() made it
 *
 * Return: 0: the id holds the QP, or will when the provider has found it; -EINVAL if there is no
 * such QP, it is being destroyed, or it is not the caller's.
 */
int cm_qp_hold(struct cm_id *id, u32 qpn)
{
	struct ib_qp *qp = id->mirror.id.qp;

	id->mirror.qp_num = qp ? qp->qp_num : qpn;
	if (!qp)
		return hold_by_number(id, qpn);
	qp->device->ops.iw_add_ref(qp);
	set_qp(id, qp, false);
	return 0;
}

/**
 * cm_qp_hold_late - take that reference if cm_qp_hold() left it to the provider
 * @id: the id; the caller is inside its iw_connect or iw_accept, which hold the QP
 *
 * A QP that is not found is being destroyed, and the provider ends its connection.
 */
void cm_qp_hold_late(struct cm_id *id)
{
	struct ib_device *device = id->mirror.id.device;
	unsigned long flags;
	struct ib_qp *qp;
	bool wanted;

	spin_lock_irqsave(&id->lock, flags);
	wanted = id->qp_wanted;
	id->qp_wanted = false;
	spin_unlock_irqrestore(&id->lock, flags);
	if (!wanted)
		return;
	rcu_read_lock();
	qp = device->ops.iw_get_qp(device, id->mirror.qp_num);
	if (qp)
		device->ops.iw_add_ref(qp);
	rcu_read_unlock();
	if (qp)
		set_qp(id, qp, false);
}

void cm_qp_drop(struct cm_id *id)
{
	unsigned long flags;
	struct ib_qp *qp;

	spin_lock_irqsave(&id->lock, flags);
	qp = id->qp;
	id->qp = NULL;
	id->qp_wanted = false;
	spin_unlock_irqrestore(&id->lock, flags);
	T3_RACE_POINT(cm_qp_forgotten);
	if (qp)
		id->mirror.id.device->ops.iw_rem_ref(qp);
}
