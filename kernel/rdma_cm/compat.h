/* SPDX-License-Identifier: GPL-2.0 */
/* Differences between the kernels 6.1, 6.12 and 7.2. */
#ifndef T3_RDMA_CM_COMPAT_H
#define T3_RDMA_CM_COMPAT_H

#include <linux/sched.h>
#include <linux/sched/coredump.h>
#include <linux/sched/task.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <rdma/ib_cm.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
#include <linux/sched/exec_state.h>
#endif

/* The in-tree manager has the command WRITE_CM_EVENT since 7.1. A test exchanges this. */
#ifndef UCM_HAS_WRITE_EVENT
#define UCM_HAS_WRITE_EVENT	(LINUX_VERSION_CODE >= KERNEL_VERSION(7, 1, 0))
#endif

/* Sysctl tables end with an empty row up to 6.10. Since 6.11 it would count as a row. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define T3_SYSCTL_END { }
#else
#define T3_SYSCTL_END
#endif

/* The unbound workqueue has another name; 7.2 warns when work is queued under the old one. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#define t3_unbound_wq system_unbound_wq
#else
#define t3_unbound_wq system_dfl_wq
#endif

/*
 * The process has not changed its credentials since its exec; otherwise one with the same ids may
 * not trace it. Before 7.2 this is kept with the memory, which a task that has ended lacks.
 */
static inline bool t3_task_is_dumpable(struct task_struct *task)
{
	bool dumpable;

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
	task_lock(task);
	dumpable = !task->mm || get_dumpable(task->mm) == SUID_DUMP_USER;
	task_unlock(task);
#else
	rcu_read_lock();
	dumpable = READ_ONCE(rcu_dereference(task->exec_state)->dumpable) == TASK_DUMPABLE_OWNER;
	rcu_read_unlock();
#endif
	return dumpable;
}

/*
 * Announces that the reply to a message of the peer takes long, at the next copy of that message.
 * The call has another name since 6.17.
 */
static inline void t3_ib_cm_mra(struct ib_cm_id *ib, u8 timeout)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
	ib_send_cm_mra(ib, timeout | IB_CM_MRA_FLAG_DELAY, NULL, 0);
#else
	ib_prepare_cm_mra(ib);
#endif
}

#endif
