// SPDX-License-Identifier: GPL-2.0
/*
 * verbs.c: mappings of doorbell pages and rings into a process, and what user contexts and
 * protection domains hold: ids, charges, references. With the real quota.c and pools.c.
 */
#include <linux/capability.h>
#include <linux/cc_platform.h>
#include <linux/dma-mapping.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "compat_mm.h"
#include "../failing_alloc.h"

static struct {
	struct rdma_user_mmap_entry *entry;
	unsigned int lookups, puts;
	unsigned long pfn, size, set, cleared;
	pgprot_t prot;
	unsigned int uncached;
	int insert_error, respond_error;
	int rings;			/* allocated for the card */
	bool encrypted;			/* the memory of the host */
	unsigned int zaps;
	unsigned long first_pfn, inserted;	/* with the encryption bit */
} seen;

/* The test runs as root, which quotas do not limit. */
#define capable(cap) false

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

static inline vm_fault_t insert_pfn(struct vm_area_struct *vma, unsigned long addr,
				    unsigned long pfn, pgprot_t prot)
{
	if (!seen.inserted)
		seen.first_pfn = pfn;
	if (addr == vma->vm_start + (pfn - seen.first_pfn) * PAGE_SIZE &&
	    pgprot_val(prot) == pgprot_val(vma->vm_page_prot))
		seen.inserted++;
	return VM_FAULT_NOPAGE;
}

#define cc_platform_has(attr) ((attr) == CC_ATTR_HOST_MEM_ENCRYPT && seen.encrypted)
#define t3_zap_vma(vma) ((void)(vma), seen.zaps++)
#define vmf_insert_pfn_prot(vma, addr, pfn, prot) insert_pfn(vma, addr, pfn, prot)
#define rdma_user_mmap_entry_get(context, vma) look_up()
#define rdma_user_mmap_entry_put(entry) ((void)(entry), seen.puts++)
#define rdma_user_mmap_io(context, vma, pfn, size, prot, entry) mapped_io(pfn, size, prot)
#define rdma_user_mmap_entry_insert(context, entry, len) ((void)(entry), seen.insert_error)
#define ib_copy_to_udata(udata, from, len) ((void)(from), seen.respond_error)
#undef dma_alloc_pages
#undef dma_free_pages
#define dma_alloc_pages(device, size, dma, dir, gfp) \
	(*(dma) = 0x1000, seen.rings++, alloc_page(gfp))
#define dma_free_pages(device, size, page, dma, dir) (seen.rings--, __free_page(page))
/* The test's VMA has no mm, so its lock cannot be held. */
#define t3_vma_flags(vma, bits, no_bits) ((void)(vma), seen.set = (bits), seen.cleared = (no_bits))
#pragma push_macro("pgprot_noncached")
#undef pgprot_noncached
#define pgprot_noncached(prot) uncached(prot)
struct workqueue_struct *t3_workqueue;
bool t3_memory_windows;

#include "quota.c"
#include "pools.c"
#include "pbl.c"
#include "verbs.c"
#pragma pop_macro("pgprot_noncached")

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

/* rdma_user_mmap_io() leaves the encryption bit out, which is right for doorbells. */
static void rings_in_encrypted_memory_are_mapped_so(struct kunit *test)
{
	mapping.mem.page = virt_to_page(vma);
	KUNIT_EXPECT_EQ(test, mapped(RING_PAGES, VM_READ | VM_WRITE | VM_SHARED), 0);
	KUNIT_EXPECT_EQ(test, seen.zaps, 0);
	seen.encrypted = true;
	KUNIT_EXPECT_EQ(test, mapped(RING_PAGES, VM_READ | VM_WRITE | VM_SHARED), 0);
	KUNIT_EXPECT_EQ(test, seen.zaps, 1);
	KUNIT_EXPECT_EQ(test, seen.inserted, RING_PAGES);
	KUNIT_EXPECT_EQ(test, seen.first_pfn, page_to_pfn(mapping.mem.page));
	mapping.doorbell = DOORBELL;
	KUNIT_EXPECT_EQ(test, mapped(1, VM_WRITE | VM_SHARED), 0);
	KUNIT_EXPECT_EQ(test, seen.zaps, 1);
}

static void unknown_mmap_key_is_refused(struct kunit *test)
{
	seen.entry = NULL;
	KUNIT_EXPECT_EQ(test, mapped(1, VM_WRITE | VM_SHARED), -EINVAL);
	KUNIT_EXPECT_EQ(test, seen.size, 0);
}

/* --- what a process holds -------------------------------------------------------- */

static struct t3_dev *dev;
static struct t3_ucontext *context;

static void open_device(struct kunit *test)
{
	static const struct rdma_info small_card = {
		.tpt_base = 0x1000, .tpt_top = 0x1000 + 64 * T3_TPT_ENTRY_BYTES - 1,
		.pbl_base = 0x10000, .pbl_top = 0x10000 + 8 * T3_PBL_GRANULE - 1,
		.rqt_base = 0x20000, .rqt_top = 0x20000 + 4 * T3_RQT_GRANULE - 1,
		.udbell_len = 2048 << PAGE_SHIFT,
	};

	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	context = kunit_kzalloc(test, sizeof(*context), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, dev && context);
	dev->pdev = kunit_kzalloc(test, sizeof(*dev->pdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->pdev);
	dev->info = small_card;
	context->ibucontext.device = &dev->ibdev;
	KUNIT_ASSERT_EQ(test, t3_rsc_open(dev), 0);
}

/* Nothing is allocated and no user is charged any more. */
static void close_device(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, list_empty(&dev->quotas.list));
	KUNIT_EXPECT_TRUE(test, ida_is_empty(&dev->pd_ids.ida));
	KUNIT_EXPECT_TRUE(test, ida_is_empty(&dev->qp_groups.ida));
	KUNIT_EXPECT_EQ(test, seen.rings, 0);
	t3_rsc_close(dev);
}

/* As ib_get_eth_speed() of all kernels translates 1 and 10 Gbit/s. */
static void speed_of_a_port_is_that_of_its_link(struct kunit *test)
{
	struct ib_port_attr attr = {};

	open_device(test);
	dev->ports_slow = BIT(1);
	KUNIT_EXPECT_EQ(test, t3_query_port(&dev->ibdev, 1, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.active_speed, IB_SPEED_FDR10);
	KUNIT_EXPECT_EQ(test, attr.active_width, IB_WIDTH_1X);
	KUNIT_EXPECT_EQ(test, t3_query_port(&dev->ibdev, 2, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.active_speed, IB_SPEED_SDR);
	KUNIT_EXPECT_EQ(test, attr.active_width, IB_WIDTH_1X);
	close_device(test);
}

/* rmmod is refused until the process has closed the device. */
static void open_device_holds_the_module(struct kunit *test)
{
	int users = module_refcount(THIS_MODULE);

	open_device(test);
	KUNIT_ASSERT_EQ(test, t3_alloc_ucontext(&context->ibucontext, NULL), 0);
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), users + 1);
	/* A process that imports the context has none of its own. */
	KUNIT_EXPECT_EQ(test, t3_verbs_ops.query_ucontext(&context->ibucontext, NULL), 0);
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), users + 1);
	t3_dealloc_ucontext(&context->ibucontext);
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), users);
	close_device(test);
}

/* A killed process leaves them: its doorbell pages, and its share of the card. */
static void close_releases_the_doorbell_pages_of_the_process(struct kunit *test)
{
	open_device(test);
	KUNIT_ASSERT_EQ(test, t3_alloc_ucontext(&context->ibucontext, NULL), 0);
	KUNIT_EXPECT_GE(test, t3_qp_id_get(dev, &context->groups, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&context->quota->used[T3_QUOTA_QP_GROUP]), 1);
	KUNIT_EXPECT_FALSE(test, ida_is_empty(&dev->qp_groups.ida));
	t3_dealloc_ucontext(&context->ibucontext);
	close_device(test);
}

static void open_and_close(struct kunit *test)
{
	int users = module_refcount(THIS_MODULE), ret;

	allocations_fail();
	ret = t3_alloc_ucontext(&context->ibucontext, NULL);
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	if (!ret)
		t3_dealloc_ucontext(&context->ibucontext);
	KUNIT_EXPECT_EQ_MSG(test, module_refcount(THIS_MODULE), users, "%s", alloc_that_failed());
}

static void open_without_memory_releases_the_module(struct kunit *test)
{
	open_device(test);
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, open_and_close), 1U);
	close_device(test);
}

/* kmemleak reports the entries that are not freed. */
static void refused_mapping_is_freed(struct kunit *test)
{
	const struct t3_mmap ring = { .mem.size = PAGE_SIZE };

	open_device(test);
	seen.insert_error = -ENOSPC;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(t3_mmap_insert(context, &ring, PAGE_SIZE)), -ENOSPC);
	close_device(test);
}

static void last_mapping_frees_the_ring(struct kunit *test)
{
	const struct t3_mmap doorbell = { .doorbell = DOORBELL };
	struct t3_mmap ring = {};
	struct t3_mmap *map;

	open_device(test);
	KUNIT_ASSERT_EQ(test, t3_dma_alloc(dev, &ring.mem, PAGE_SIZE, GFP_KERNEL), 0);
	count_uncharged();
	map = t3_mmap_insert(context, &ring, PAGE_SIZE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(map));
	KUNIT_EXPECT_EQ(test, seen.rings, 1);
	map->rdma.ucontext = &context->ibucontext;
	t3_mmap_free(&map->rdma);
	KUNIT_EXPECT_EQ(test, seen.rings, 0);

	map = t3_mmap_insert(context, &doorbell, PAGE_SIZE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(map));
	KUNIT_EXPECT_EQ(test, uncharged(), 0);
	map->rdma.ucontext = &context->ibucontext;
	t3_mmap_free(&map->rdma);
	close_device(test);
}

static void protection_domain_is_charged_until_it_is_freed(struct kunit *test)
{
	static struct uverbs_attr_bundle bundle;
	struct ib_udata *udata = &bundle.driver_udata;
	static struct t3_pd pd;
	atomic_t *used;

	open_device(test);
	KUNIT_ASSERT_EQ(test, t3_alloc_ucontext(&context->ibucontext, NULL), 0);
	used = &context->quota->used[T3_QUOTA_PD];
	bundle.context = &context->ibucontext;
	udata->outlen = sizeof(struct t3_alloc_pd_resp);
	pd.ibpd.device = &dev->ibdev;

	KUNIT_EXPECT_EQ(test, t3_alloc_pd(&pd.ibpd, udata), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(used), 1);
	t3_dealloc_pd(&pd.ibpd, udata);
	KUNIT_EXPECT_EQ(test, atomic_read(used), 0);
	KUNIT_EXPECT_TRUE(test, ida_is_empty(&dev->pd_ids.ida));

	/* The process does not get to know the id. */
	seen.respond_error = -EFAULT;
	KUNIT_EXPECT_EQ(test, t3_alloc_pd(&pd.ibpd, udata), -EFAULT);
	KUNIT_EXPECT_EQ(test, atomic_read(used), 0);
	KUNIT_EXPECT_TRUE(test, ida_is_empty(&dev->pd_ids.ida));
	t3_dealloc_ucontext(&context->ibucontext);
	close_device(test);
}

static struct kunit_case verbs_cases[] = {
	KUNIT_CASE(doorbells_are_uncached),
	KUNIT_CASE(rings_are_cached),
	KUNIT_CASE(rings_in_encrypted_memory_are_mapped_so),
	KUNIT_CASE(unknown_mmap_key_is_refused),
	KUNIT_CASE(speed_of_a_port_is_that_of_its_link),
	KUNIT_CASE(open_device_holds_the_module),
	KUNIT_CASE(close_releases_the_doorbell_pages_of_the_process),
	KUNIT_CASE(open_without_memory_releases_the_module),
	KUNIT_CASE(refused_mapping_is_freed),
	KUNIT_CASE(last_mapping_frees_the_ring),
	KUNIT_CASE(protection_domain_is_charged_until_it_is_freed),
	{}
};

TEST_SUITE("iw_cxgb3_verbs", verbs_cases, .init = verbs_init, .exit = verbs_exit);
