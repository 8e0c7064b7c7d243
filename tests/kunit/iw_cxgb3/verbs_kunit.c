// SPDX-License-Identifier: GPL-2.0
/* Mappings of doorbell pages and rings into a process, by verbs.c. */
#include <kunit/test.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>

#include "compat_mm.h"

static struct {
	struct rdma_user_mmap_entry *entry;
	unsigned int lookups, puts;
	unsigned long pfn, size, set, cleared;
	pgprot_t prot;
	unsigned int uncached;
} seen;

static inline struct rdma_user_mmap_entry *look_up(void)
{
	seen.lookups++;
	return seen.entry;
}

/* Counted, because without PAT all uncached attributes are the same. */
static inline pgprot_t uncached(pgprot_t prot)
{
	seen.uncached++;
	return pgprot_noncached(prot);
}

static inline int mapped_io(unsigned long pfn, unsigned long size, pgprot_t prot)
{
	seen.pfn = pfn;
	seen.size = size;
	seen.prot = prot;
	return 0;
}

#define rdma_user_mmap_entry_get(context, vma) look_up()
#define rdma_user_mmap_entry_put(entry) ((void)(entry), seen.puts++)
#define rdma_user_mmap_io(context, vma, pfn, size, prot, entry) mapped_io(pfn, size, prot)
/* The test's VMA has no mm, so its lock cannot be held. */
#define t3_vma_flags(vma, bits, no_bits) ((void)(vma), seen.set = (bits), seen.cleared = (no_bits))
#pragma push_macro("pgprot_noncached")
#undef pgprot_noncached
#define pgprot_noncached(prot) uncached(prot)
#include "verbs.c"
#pragma pop_macro("pgprot_noncached")

/* --- stubs of the driver ------------------------------------------------------- */

struct t3_quota *t3_quota_get(struct t3_quotas *quotas)
{
	return NULL;
}

void t3_quota_put(struct t3_quotas *quotas, struct t3_quota *quota)
{
}

int t3_id_get(struct t3_dev *dev, struct t3_ids *ids, struct t3_quota *quota)
{
	return 0;
}

void t3_id_put(struct t3_ids *ids, struct t3_quota *quota, u32 id)
{
}

void t3_qp_groups_init(struct t3_qp_groups *groups)
{
}

void t3_qp_groups_free(struct t3_dev *dev, struct t3_qp_groups *groups)
{
}

void t3_dma_free(struct t3_dev *dev, struct t3_dma *mem)
{
}

/* --- tests ------------------------------------------------------------------- */

enum { DOORBELL = 0xfe003000, RING_PAGES = 4 };

static struct t3_mmap mapping;
static struct vm_area_struct *vma;

static int verbs_init(struct kunit *test)
{
	memset(&seen, 0, sizeof(seen));
	memset(&mapping, 0, sizeof(mapping));
	seen.entry = &mapping.rdma;
	vma = kunit_kzalloc(test, sizeof(*vma), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, vma);
	vma->vm_start = 0x10000;
	vma->vm_page_prot = PAGE_SHARED;
	return 0;
}

static void verbs_exit(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, seen.lookups - !seen.entry, seen.puts);
}

static int mapped(unsigned long pages, unsigned long flags)
{
	vma->vm_end = vma->vm_start + pages * PAGE_SIZE;
	*(unsigned long *)&vma->vm_flags = flags;
	return t3_mmap(NULL, vma);
}

/*
 * B4: stores to write-combining memory are not ordered by the barrier that the library has between
 * a request and its doorbell.
 */
static void doorbells_are_uncached(struct kunit *test)
{
	mapping.doorbell = DOORBELL;
	KUNIT_EXPECT_EQ(test, mapped(1, VM_WRITE | VM_SHARED), 0);
	KUNIT_EXPECT_EQ(test, seen.pfn, (unsigned long)DOORBELL >> PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, seen.size, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, pgprot_val(seen.prot), pgprot_val(pgprot_noncached(PAGE_SHARED)));
	KUNIT_EXPECT_EQ(test, seen.uncached, 1);
	/* A child process does not inherit the mapping, and it is write only. */
	KUNIT_EXPECT_EQ(test, seen.set & VM_DONTCOPY, VM_DONTCOPY);
	KUNIT_EXPECT_EQ(test, seen.cleared, VM_MAYREAD);
	KUNIT_EXPECT_EQ(test, mapped(1, VM_READ | VM_WRITE | VM_SHARED), -EPERM);
}

static void rings_are_cached(struct kunit *test)
{
	mapping.mem.page = virt_to_page(vma);
	KUNIT_EXPECT_EQ(test, mapped(RING_PAGES, VM_READ | VM_WRITE | VM_SHARED), 0);
	KUNIT_EXPECT_EQ(test, seen.pfn, page_to_pfn(mapping.mem.page));
	KUNIT_EXPECT_EQ(test, seen.size, RING_PAGES * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, pgprot_val(seen.prot), pgprot_val(PAGE_SHARED));
	KUNIT_EXPECT_EQ(test, seen.uncached, 0);
}

static void unknown_mmap_key_is_refused(struct kunit *test)
{
	seen.entry = NULL;
	KUNIT_EXPECT_EQ(test, mapped(1, VM_WRITE | VM_SHARED), -EINVAL);
	KUNIT_EXPECT_EQ(test, seen.size, 0);
}

static struct kunit_case verbs_cases[] = {
	KUNIT_CASE(doorbells_are_uncached),
	KUNIT_CASE(rings_are_cached),
	KUNIT_CASE(unknown_mmap_key_is_refused),
	{}
};

static struct kunit_suite verbs_suite = {
	.name = "iw_cxgb3_verbs",
	.init = verbs_init,
	.exit = verbs_exit,
	.test_cases = verbs_cases,
};

kunit_test_suites(&verbs_suite);

MODULE_LICENSE("GPL");
