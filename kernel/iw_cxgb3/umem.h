/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pinned user memory. Our own, because ib_umem lives in ib_uverbs.ko on 6.1
 * and 6.12, which must be replaceable.
 */
#ifndef T3_UMEM_H
#define T3_UMEM_H

#include <linux/scatterlist.h>
#include <linux/types.h>

struct device;
struct mm_struct;

/*
 * Holds the pages, the DMA mapping, the charge on the owner's pinned_vm, and
 * with mmgrab() the mm_struct to which that charge goes back.
 */
struct t3_umem {
	struct device *device;
	struct mm_struct *mm;
	struct sg_append_table table;
	u64 addr;
	size_t len;
	unsigned long npages;
	bool writable;
};

struct t3_umem *t3_umem_get(struct device *device, u64 addr, size_t len, bool writable);
void t3_umem_put(struct t3_umem *umem);

/*
 * log2 of the largest page size, of those in the bitmap, in which the memory
 * is made of whole pages when it is addressed from va on. PAGE_SHIFT at least,
 * or 0 if va and the memory do not fit together.
 */
unsigned int t3_umem_page_shift(const struct t3_umem *umem, u64 va, unsigned long sizes);

#endif
