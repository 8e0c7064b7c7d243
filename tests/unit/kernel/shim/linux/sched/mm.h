/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef T3_SHIM_LINUX_SCHED_MM_H
#define T3_SHIM_LINUX_SCHED_MM_H

#include <linux/mm.h>

struct task_struct {
    struct mm_struct* mm;
};
extern struct task_struct* current;

static inline void mmgrab(struct mm_struct* mm) {
    (void)mm;
}
static inline void mmdrop(struct mm_struct* mm) {
    (void)mm;
}

#endif
