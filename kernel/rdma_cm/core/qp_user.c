// SPDX-License-Identifier: GPL-2.0
/* Whose QPs a process may connect. It names a QP by its number, which can be that of any other. */
#include <linux/cred.h>

#include <t3_cred.h>

#include "compat.h"
#include "rdma_cm.h"

/**
 * cm_qp_set_user - note who calls connect or accept
 * @id: the id
 */
void cm_qp_set_user(struct cm_id *id)
{
	put_pid(id->qp_tgid);
	id->qp_tgid = get_pid(task_tgid(current));
	put_cred(id->qp_cred);
	id->qp_cred = get_current_cred();
}

/*
 * The conditions of ptrace. A process that has dropped privileges has the ids of a user, but is not
 * dumpable: the user may not connect its QPs. The credentials are read first, as commit_creds()
 * changes them last.
 */
static bool cm_qp_may_trace(const struct cm_id *id, struct task_struct *creator)
	__must_hold_shared(RCU)
{
	if (!t3_may_act_as(id->qp_cred, __task_cred(creator)))
		return false;
	smp_rmb(); /* pairs with the barrier in commit_creds() */
	return t3_task_is_dumpable(creator);
}

/**
 * cm_qp_permitted - whether the caller of connect or accept may name a QP
 * @id: the id; cm_qp_set_user() was called
 * @qp: the QP, which the caller holds
 *
 * A process connects QPs that were created by itself, or by one that it may trace. Not with
 * `current`: inside the provider's call that may be another task than the one that called us.
 */
bool cm_qp_permitted(const struct cm_id *id, const struct ib_qp *qp)
{
	struct task_struct *creator = READ_ONCE(qp->res.task);
	bool permitted;

	if (!qp->uobject || !creator)
		return false;
	rcu_read_lock();
	/* A process that has ended has none, and its number may be that of another one. */
	permitted = task_tgid(creator) == id->qp_tgid || cm_qp_may_trace(id, creator);
	rcu_read_unlock();
	return permitted;
}
