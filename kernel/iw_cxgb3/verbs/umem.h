/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pinned user memory; calls no other file of the driver. ib_umem is not used, because
 * it is part of ib_uverbs.ko in 6.1 and 6.12, and that module must be replaceable.
 */
#ifndef T3_UMEM_H
#define T3_UMEM_H

#include <linux/scatterlist.h>
#include <linux/types.h>

struct device;
struct mm_struct;

/*
 * Pinned pages and their DMA mapping. The pages are charged to the owner's
 * pinned_vm; mmgrab() keeps its mm_struct until they are uncharged.
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
 * log2 of the largest page size in the bitmap that divides the memory, addressed
 * from va on, into whole pages. At least PAGE_SHIFT, or 0 if va and the memory
 * differ in their offset in a page.
 */
unsigned int t3_umem_page_shift(const struct t3_umem *umem, u64 va, unsigned long sizes);
/* True if all bytes of all pages of this size are pinned: also of the first and the last one. */
bool t3_umem_is_whole(const struct t3_umem *umem, unsigned int shift);

#endif
