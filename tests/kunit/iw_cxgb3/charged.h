/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counts allocations of the driver's files that are not charged to a memory cgroup. Include after
 * the kernel's headers and before the driver's .c files.
 */
#ifndef T3_KUNIT_CHARGED_H
#define T3_KUNIT_CHARGED_H

#include <linux/slab.h>

static unsigned int uncharged;

static inline void *counted_kzalloc(size_t size, gfp_t gfp)
{
	uncharged += !(gfp & __GFP_ACCOUNT);
	return kzalloc(size, gfp);
}

#undef kzalloc
#define kzalloc(size, gfp) counted_kzalloc(size, gfp)

#endif
