// SPDX-License-Identifier: GPL-2.0
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/swiotlb.h>

#include "compat_mm.h"
#include "umem.h"

/* Pages pinned per step: what fits into one page of pointers. */
#define T3_PIN_BATCH	(PAGE_SIZE / sizeof(struct page *))

/* Charged before pinning, so that the limit is never exceeded. */
static int t3_umem_charge(struct mm_struct *mm, unsigned long npages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;

	if (atomic64_add_return(npages, &mm->pinned_vm) > limit && !capable(CAP_IPC_LOCK)) {
		atomic64_sub(npages, &mm->pinned_vm);
		return -ENOMEM;
	}
	return 0;
}

static void t3_umem_unpin(struct t3_umem *umem)
{
	struct scatterlist *sg;
	unsigned int i;

	for_each_sgtable_sg(&umem->table.sgt, sg, i)
		unpin_user_page_range_dirty_lock(sg_page(sg),
						 DIV_ROUND_UP(sg->length, PAGE_SIZE),
						 umem->writable);
	sg_free_append_table(&umem->table);
}

static int t3_umem_pin(struct t3_umem *umem)
{
	unsigned long addr = umem->addr & PAGE_MASK;
	unsigned long left = umem->npages;
	unsigned int flags = t3_pin_flags(umem->writable);
	struct page **pages;
	int n, err = 0;

	pages = (struct page **)__get_free_page(GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	while (left) {
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			break;
		}
		n = pin_user_pages_fast(addr, min(left, T3_PIN_BATCH), flags, pages);
		if (n <= 0) {
			err = n ? n : -EFAULT;
			break;
		}
		left -= n;
		addr += (unsigned long)n << PAGE_SHIFT;
		err = sg_alloc_append_table_from_pages(&umem->table, pages, n, 0,
						       (unsigned long)n << PAGE_SHIFT,
						       UINT_MAX & PAGE_MASK, left,
						       GFP_KERNEL_ACCOUNT);
		if (err) {
			unpin_user_pages_dirty_lock(pages, n, false);
			break;
		}
		cond_resched();
	}
	free_page((unsigned long)pages);
	if (err)
		t3_umem_unpin(umem);
	return err;
}

struct t3_umem *t3_umem_get(struct device *device, u64 addr, size_t len, bool writable)
{
	struct t3_umem *umem;
	u64 end;
	int err;

	if (!len || check_add_overflow(addr, (u64)len, &end) || end > ULONG_MAX - PAGE_SIZE)
		return ERR_PTR(-EINVAL);
	/* The card would use a copy of the pages. DMA_ATTR_REQUIRE_COHERENT refuses that, too. */
	if (is_swiotlb_force_bounce(device)) {
		dev_warn_once(device, "no user memory can be registered: all DMA is bounced (swiotlb)\n");
		return ERR_PTR(-EOPNOTSUPP);
	}

	umem = kzalloc(sizeof(*umem), GFP_KERNEL_ACCOUNT);
	if (!umem)
		return ERR_PTR(-ENOMEM);
	umem->device = device;
	umem->addr = addr;
	umem->len = len;
	umem->writable = writable;
	umem->npages = (PAGE_ALIGN(end) - (addr & PAGE_MASK)) >> PAGE_SHIFT;
	umem->mm = current->mm;
	mmgrab(umem->mm);

	err = t3_umem_charge(umem->mm, umem->npages);
	if (err)
		goto err_mm;
	err = t3_umem_pin(umem);
	if (err)
		goto err_charge;
	err = dma_map_sgtable(device, &umem->table.sgt, DMA_BIDIRECTIONAL, T3_UMEM_DMA_ATTRS);
	if (err)
		goto err_pin;
	return umem;

err_pin:
	t3_umem_unpin(umem);
err_charge:
	atomic64_sub(umem->npages, &umem->mm->pinned_vm);
err_mm:
	mmdrop(umem->mm);
	kfree(umem);
	return ERR_PTR(err);
}

void t3_umem_put(struct t3_umem *umem)
{
	dma_unmap_sgtable(umem->device, &umem->table.sgt, DMA_BIDIRECTIONAL, T3_UMEM_DMA_ATTRS);
	t3_umem_unpin(umem);
	atomic64_sub(umem->npages, &umem->mm->pinned_vm);
	mmdrop(umem->mm);
	kfree(umem);
}

unsigned int t3_umem_page_shift(const struct t3_umem *umem, u64 va, unsigned long sizes)
{
	/* A bit below a page size that is set here rules this size out. */
	u64 differs = 0;
	struct scatterlist *sg;
	unsigned int i;

	for_each_sgtable_dma_sg(&umem->table.sgt, sg, i) {
		if (i == 0)
			differs |= sg_dma_address(sg) ^ (va & PAGE_MASK);
		else
			differs |= sg_dma_address(sg);
		if (i + 1 < umem->table.sgt.nents)
			differs |= sg_dma_address(sg) + sg_dma_len(sg);
	}
	/* The first and the last page may exceed the region: the card checks its bounds. */
	differs |= roundup_pow_of_two(umem->npages << PAGE_SHIFT);
	sizes &= (2ULL << __ffs64(differs)) - 1;
	if ((va ^ umem->addr) & ~PAGE_MASK)
		return 0;
	return sizes >= PAGE_SIZE ? __fls(sizes) : 0;
}

bool t3_umem_is_whole(const struct t3_umem *umem, unsigned int shift)
{
	struct scatterlist *sg;
	u64 ends = 0;
	unsigned int i;

	for_each_sgtable_dma_sg(&umem->table.sgt, sg, i) {
		if (i == 0)
			ends |= sg_dma_address(sg);
		if (i + 1 == umem->table.sgt.nents)
			ends |= sg_dma_address(sg) + sg_dma_len(sg);
	}
	return !(ends & ((1ULL << shift) - 1));
}
