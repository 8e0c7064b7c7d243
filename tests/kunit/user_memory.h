/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests run in kernel threads, which have no user memory. A test uses that of the process that
 * loads its module.
 */
#ifndef T3_USER_MEMORY_H
#define T3_USER_MEMORY_H

#include <linux/kthread.h>
#include <linux/sched/mm.h>

/* For the init function of a suite; user_memory_end() is for its exit function. */
static inline void user_memory_begin(struct mm_struct *mm)
{
	mmget(mm);
	kthread_use_mm(mm);
}

/*
 * Since 6.5 the exit function has a thread of its own. Before, it has the thread of the test, or
 * that of the process if an assertion has ended the former. A thread of a test that ends with the
 * memory drops the reference of mmget(), but not that of kthread_use_mm().
 */
static inline void user_memory_end(struct mm_struct *mm)
{
	if (current->flags & PF_KTHREAD && current->mm) {
		kthread_unuse_mm(mm);
		mmput(mm);
	} else {
		mmdrop(mm);
	}
}

#endif /* T3_USER_MEMORY_H */
