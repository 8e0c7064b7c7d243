/* SPDX-License-Identifier: GPL-2.0 */
/* Memory management: differences between 6.1 and later kernels. */
#ifndef T3_COMPAT_MM_H
#define T3_COMPAT_MM_H

#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/version.h>

/*
 * Until 6.2 a read-only long-term pin does not break copy-on-write, so that
 * the card would go on reading a page which the process has left behind.
 */
static inline unsigned int t3_pin_flags(bool writable)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
	return FOLL_LONGTERM | FOLL_WRITE | (writable ? 0 : FOLL_FORCE);
#else
	return FOLL_LONGTERM | (writable ? FOLL_WRITE : 0);
#endif
}

/*
 * Programs and the card share memory without a sync, and a page may be in several
 * regions. Older kernels have no word for that; to them it is a mapping that leaves
 * the caches alone, which is what a second one of the same page may be.
 */
#ifdef DMA_ATTR_REQUIRE_COHERENT
#define T3_UMEM_DMA_ATTRS	DMA_ATTR_REQUIRE_COHERENT
#else
#define T3_UMEM_DMA_ATTRS	DMA_ATTR_SKIP_CPU_SYNC
#endif

static inline void t3_vma_flags(struct vm_area_struct *vma, unsigned long set,
				unsigned long clear)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#else
	vm_flags_mod(vma, set, clear);
#endif
}

#endif
