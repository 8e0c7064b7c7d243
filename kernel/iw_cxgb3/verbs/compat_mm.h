/* SPDX-License-Identifier: GPL-2.0 */
/* Memory management: differences between 6.1 and later kernels. */
#ifndef T3_COMPAT_MM_H
#define T3_COMPAT_MM_H

#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/version.h>

/*
 * Before 6.2 a read-only long-term pin does not break copy-on-write: the card
 * would read a page that the process does not map any more.
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
 * Programs and the card share memory without syncs, and a page may be in several
 * regions. Older kernels lack the attribute; they get a mapping without cache
 * maintenance, which a page may have more than once.
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

/* Of a mapping of page frames. The call has another name since 7.1. */
static inline void t3_zap_vma(struct vm_area_struct *vma)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
	zap_vma_ptes(vma, vma->vm_start, vma->vm_end - vma->vm_start);
#else
	zap_special_vma_range(vma, vma->vm_start, vma->vm_end - vma->vm_start);
#endif
}

#endif
