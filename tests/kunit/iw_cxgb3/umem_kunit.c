// SPDX-License-Identifier: GPL-2.0
/*
 * Pinned memory of a process, by umem.c: what is pinned, charged and mapped, and that each failed
 * step undoes the earlier ones. The memory is that of the process that loads the module. DMA
 * mappings are fakes.
 */
#include <linux/dma-mapping.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/swiotlb.h>

#include "../failing_alloc.h"
#include "counted_pages.h"

/* Other CPUs may hold references on an mm_struct for a while. */
static struct {
	int mm_refs, mappings;
	int map_error, table_error;
	bool privileged, bounced;
	unsigned long limit;		/* RLIMIT_MEMLOCK */
} seen;

static inline void grab(struct mm_struct *mm)
{
	seen.mm_refs++;
	mmgrab(mm);
}

static inline void drop(struct mm_struct *mm)
{
	seen.mm_refs--;
	mmdrop(mm);
}

static inline int fake_map(struct sg_table *sgt)
{
	if (seen.map_error)
		return seen.map_error;
	seen.mappings++;
	return 0;
}

#define mmgrab(mm) grab(mm)
#define mmdrop(mm) drop(mm)
#define capable(cap) (seen.privileged)
#define rlimit(resource) (seen.limit)
#define is_swiotlb_force_bounce(device) ((void)(device), seen.bounced)
#define dma_map_sgtable(device, sgt, dir, attrs) fake_map(sgt)
#define dma_unmap_sgtable(device, sgt, dir, attrs) ((void)(sgt), seen.mappings--)
#define sg_alloc_append_table_from_pages(table, pages, n, offset, size, most, left, gfp) \
	(alloc_fails(gfp, __func__) ? -ENOMEM : seen.table_error ?: \
	 (sg_alloc_append_table_from_pages)(table, pages, n, offset, size, most, left, gfp))
#include "umem.c"

/* --- a process --------------------------------------------------------------- */

enum { PAGES = 4 };

static struct mm_struct *user_mm;
static unsigned long user_base;		/* PAGES pages, and an unmapped one */
static s64 charged_before;

/* A suite starts in the process that loads the module, and its tests run in kernel threads. */
static int umem_suite_init(struct kunit_suite *suite)
{
	user_mm = current->mm;
	if (!user_mm)
		return -EINVAL;
	user_base = vm_mmap(NULL, 0, (PAGES + 1) * PAGE_SIZE, PROT_READ | PROT_WRITE,
			    MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (IS_ERR_VALUE(user_base))
		return user_base;
	vm_munmap(user_base + PAGES * PAGE_SIZE, PAGE_SIZE);
	mmget(user_mm);
	return 0;
}

static void umem_suite_exit(struct kunit_suite *suite)
{
	vm_munmap(user_base, PAGES * PAGE_SIZE);
	mmput(user_mm);
}

/* Of the pages that a test pins. */
static void limit_to(unsigned long pages)
{
	seen.limit = (charged_before + pages) * PAGE_SIZE;
}

static int umem_init(struct kunit *test)
{
	memset(&seen, 0, sizeof(seen));
	charged_before = atomic64_read(&user_mm->pinned_vm);
	limit_to(PAGES);
	return 0;
}

static long charged(void)
{
	return atomic64_read(&user_mm->pinned_vm) - charged_before;
}

static void umem_exit(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, charged(), 0L);
	KUNIT_EXPECT_EQ(test, list_pages, 0);
	KUNIT_EXPECT_EQ(test, seen.mm_refs, 0);
	KUNIT_EXPECT_EQ(test, seen.mappings, 0);
}

/* A command of the process. A thread that fails an assertion must not have its memory. */
static struct t3_umem *pin_range(u64 addr, size_t len)
{
	struct t3_umem *umem;

	kthread_use_mm(user_mm);
	umem = t3_umem_get(NULL, addr, len, true);
	kthread_unuse_mm(user_mm);
	return umem;
}

static struct t3_umem *pin(unsigned long pages)
{
	return pin_range(user_base, pages * PAGE_SIZE);
}

/* The first page of the process, which stays mapped. */
static struct page *first_page(struct kunit *test)
{
	struct t3_umem *umem = pin(1);
	struct page *page;

	KUNIT_ASSERT_FALSE(test, IS_ERR(umem));
	page = sg_page(umem->table.sgt.sgl);
	t3_umem_put(umem);
	KUNIT_EXPECT_FALSE(test, folio_maybe_dma_pinned(page_folio(page)));
	return page;
}

/* --- tests --------------------------------------------------------------------- */

static void memory_is_charged_while_it_is_pinned(struct kunit *test)
{
	struct page *page = first_page(test);
	struct t3_umem *umem;

	count_uncharged();
	umem = pin_range(user_base + 100, 2 * PAGE_SIZE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(umem));
	KUNIT_EXPECT_EQ(test, uncharged(), 0);
	KUNIT_EXPECT_EQ(test, umem->npages, 3UL);
	KUNIT_EXPECT_EQ(test, charged(), 3L);
	KUNIT_EXPECT_EQ(test, seen.mm_refs, 1);
	KUNIT_EXPECT_EQ(test, seen.mappings, 1);
	KUNIT_EXPECT_TRUE(test, folio_maybe_dma_pinned(page_folio(page)));
	t3_umem_put(umem);
	KUNIT_EXPECT_FALSE(test, folio_maybe_dma_pinned(page_folio(page)));
}

static void memory_above_the_limit_is_refused_and_not_charged(struct kunit *test)
{
	struct page *page = first_page(test);
	struct t3_umem *umem;

	limit_to(PAGES - 1);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(pin(PAGES)), -ENOMEM);
	KUNIT_EXPECT_EQ(test, charged(), 0L);
	KUNIT_EXPECT_FALSE(test, folio_maybe_dma_pinned(page_folio(page)));

	seen.privileged = true;
	umem = pin(PAGES);
	KUNIT_ASSERT_FALSE(test, IS_ERR(umem));
	KUNIT_EXPECT_EQ(test, charged(), (long)PAGES);
	t3_umem_put(umem);
}

/* The pages before it are pinned already. */
static void unmapped_page_unpins_the_others(struct kunit *test)
{
	struct page *page = first_page(test);

	limit_to(2 * PAGES);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(pin(PAGES + 1)), -EFAULT);
	KUNIT_EXPECT_FALSE(test, folio_maybe_dma_pinned(page_folio(page)));
}

static void failed_dma_mapping_unpins_the_memory(struct kunit *test)
{
	struct page *page = first_page(test);

	seen.map_error = -EIO;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(pin(PAGES)), -EIO);
	KUNIT_EXPECT_FALSE(test, folio_maybe_dma_pinned(page_folio(page)));
}

/* Pages that are pinned, but not in the table yet. */
static void failed_table_unpins_its_pages(struct kunit *test)
{
	struct page *page = first_page(test);

	seen.table_error = -ENOMEM;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(pin(PAGES)), -ENOMEM);
	KUNIT_EXPECT_FALSE(test, folio_maybe_dma_pinned(page_folio(page)));
}

static void range_that_wraps_around_is_refused(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(pin(0)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(pin_range(U64_MAX - 1, PAGE_SIZE)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(pin_range(U64_MAX - 9, 8)), -EINVAL);
}

static void memory_is_refused_if_dma_is_bounced(struct kunit *test)
{
	seen.bounced = true;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(pin(1)), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, charged(), 0L);
}

static struct kunit_case umem_cases[] = {
	KUNIT_CASE(memory_is_charged_while_it_is_pinned),
	KUNIT_CASE(memory_above_the_limit_is_refused_and_not_charged),
	KUNIT_CASE(unmapped_page_unpins_the_others),
	KUNIT_CASE(failed_dma_mapping_unpins_the_memory),
	KUNIT_CASE(failed_table_unpins_its_pages),
	KUNIT_CASE(range_that_wraps_around_is_refused),
	KUNIT_CASE(memory_is_refused_if_dma_is_bounced),
	{}
};

TEST_SUITE("iw_cxgb3_umem", umem_cases, .suite_init = umem_suite_init,
	   .suite_exit = umem_suite_exit, .init = umem_init, .exit = umem_exit);
