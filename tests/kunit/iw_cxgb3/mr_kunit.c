// SPDX-License-Identifier: GPL-2.0
/*
 * STags and page lists of regions and windows, with the pools of pools.c and arrays as the TPT and
 * the PBL of the card. User memory is a fake.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* Replaces trace.h: tests add no events to tracefs. */
#define T3_TRACE_H
#include "verbs.h"
#include "../failing_alloc.h"
#include "counted_pages.h"

static inline void trace_t3_mr(const struct t3_dev *dev, const struct t3_tpt *tpt, bool made)
{
}

static struct {
	int umems;			/* allocated */
	unsigned int umem_shift;
	int umem_error, respond_error;
	bool unpinned_early;		/* while the card may still access the memory */
	unsigned int others;		/* regions that stay when one ends */
	bool writable;			/* the last user memory */
	bool partial;			/* the next user memory ends inside a page of its size */
	u64 next_dma;			/* of the next user memory */
	u64 required_mask;		/* for DMA */
	int sinks;			/* allocated */
	size_t max_sink;		/* larger ones fail */
	bool sink_misaligned;
	void (*while_sink_is_made)(void);
} host;

struct workqueue_struct *t3_workqueue;

static struct page *fake_sink_get(size_t size, dma_addr_t *dma, gfp_t gfp)
{
	struct page *page = size <= host.max_sink ?
			    alloc_pages(GFP_KERNEL, get_order(size)) : NULL;
	void (*happens)(void) = host.while_sink_is_made;

	host.while_sink_is_made = NULL;
	if (happens)
		happens();
	if (!page)
		return NULL;
	alloc_fails(gfp | __GFP_NOFAIL, __func__);	/* counts it if it is not charged */
	host.sinks++;
	*dma = page_to_phys(page) + (host.sink_misaligned ? PAGE_SIZE : 0);
	return page;
}

static void fake_sink_put(size_t size, struct page *page)
{
	__free_pages(page, get_order(size));
	host.sinks--;
}

#undef dma_alloc_pages
#undef dma_free_pages
#undef dma_mapping_error
#define dma_alloc_pages(device, size, dma, dir, gfp) fake_sink_get(size, dma, gfp)
#define dma_free_pages(device, size, page, dma, dir) fake_sink_put(size, page)
#define dma_mapping_error(device, dma) 0

#define ib_copy_to_udata(udata, from, len) (host.respond_error)
#define dma_get_required_mask(device) (host.required_mask)

#include "quota.c"
#include "pools.c"
#include "tpt.c"
#include "pbl.c"
#include "mr.c"

#define STAGS	16

static struct t3_tpt_entry table[STAGS];
static struct t3_dev *dev;
static struct t3_pd *pd;
static int write_error;
static unsigned int writes_before_error;

static __be64 lists[STAGS * T3_PBL_GRANULE / sizeof(__be64)];
static unsigned int requests;	/* of the control QP */
static bool list_unconfirmed;	/* no request has followed the last change of a list */

static int adapter_write(u32 addr, const void *data, u32 len, bool repeat)
{
	u32 tpt = addr - dev->info.tpt_base, pbl = addr - dev->info.pbl_base, i;

	if (write_error && !writes_before_error)
		return write_error;
	if (write_error)
		writes_before_error--;
	requests += DIV_ROUND_UP(len, T3_BYPASS_MAX_DATA);
	list_unconfirmed = tpt >= sizeof(table);
	if (tpt < sizeof(table)) {
		if (data)
			memcpy((u8 *)table + tpt, data, len);
		else
			memset((u8 *)table + tpt, 0, len);
	} else if (pbl < sizeof(lists)) {
		/* The last request is padded with zeroes. */
		memset((u8 *)lists + pbl, 0, ALIGN(len, T3_MEM_UNIT));
		for (i = 0; i < len / 8; i++)
			lists[pbl / 8 + i] = ((__be64 *)data)[repeat ? i % 12 : i];
	}
	return 0;
}

int t3_ctrl_write(struct t3_dev *dev, u32 addr, const void *data, u32 len)
{
	return adapter_write(addr, data, len, false);
}

int t3_ctrl_fill(struct t3_dev *dev, u32 addr, u64 value, u32 len)
{
	__be64 block[12];
	int i;

	for (i = 0; i < 12; i++)
		block[i] = cpu_to_be64(value);
	return adapter_write(addr, block, len, true);
}

struct t3_umem *t3_umem_get(struct device *device, u64 addr, size_t len, bool writable)
{
	struct t3_umem *umem;

	if (host.umem_error)
		return ERR_PTR(host.umem_error);
	umem = kzalloc(sizeof(*umem) + sizeof(struct scatterlist), GFP_KERNEL_ACCOUNT);
	if (!umem)
		return ERR_PTR(-ENOMEM);
	umem->table.sgt.sgl = (struct scatterlist *)(umem + 1);
	umem->table.sgt.nents = 1;
	sg_init_table(umem->table.sgt.sgl, 1);
	sg_dma_address(umem->table.sgt.sgl) = host.next_dma;
	sg_dma_len(umem->table.sgt.sgl) = PAGE_ALIGN(len);
	host.next_dma += SZ_16M;
	host.umems++;
	host.writable = writable;
	umem->mm = current->mm;
	umem->addr = addr;
	umem->len = len;
	return umem;
}

static bool listed(u64 from, u64 len)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lists); i++)
		if (be64_to_cpu(lists[i]) - from < len)
			return true;
	return false;
}

static unsigned int tpt_entries(void)
{
	unsigned int i, n = 0;

	for (i = 0; i < STAGS; i++)
		n += !!memchr_inv(&table[i], 0, sizeof(table[i]));
	return n;
}

static unsigned int known_regions(void)
{
	unsigned long index;
	unsigned int n = 0;
	struct t3_mr *mr;

	xa_for_each(&dev->mrs, index, mr)
		n++;
	return n;
}

void t3_umem_put(struct t3_umem *umem)
{
	struct scatterlist *sg = umem->table.sgt.sgl;

	host.unpinned_early |= tpt_entries() > host.others || known_regions() > host.others;
	if (t3_pd_is_used(pd))
		host.unpinned_early |= list_unconfirmed ||
				       listed(sg_dma_address(sg), sg_dma_len(sg));
	host.umems--;
	kfree(umem);
}

unsigned int t3_umem_page_shift(const struct t3_umem *umem, u64 va, unsigned long sizes)
{
	return min_t(unsigned int, host.umem_shift, __fls(sizes));
}

bool t3_umem_is_whole(const struct t3_umem *umem, unsigned int shift)
{
	return !host.partial;
}

static int mr_init(struct kunit *test)
{
	static const struct rdma_info small_card = {
		.tpt_base = 0x1000, .tpt_top = 0x1000 + STAGS * T3_TPT_ENTRY_BYTES - 1,
		.pbl_base = 0x10000, .pbl_top = 0x10000 + STAGS * T3_PBL_GRANULE - 1,
		.rqt_base = 0x20000, .rqt_top = 0x20000 + T3_RQT_GRANULE - 1,
		.udbell_len = 2048 << PAGE_SHIFT,
	};

	memset(table, 0, sizeof(table));
	memset(lists, 0, sizeof(lists));
	memset(&host, 0, sizeof(host));
	host.umem_shift = PAGE_SHIFT;
	host.next_dma = SZ_16M;
	host.max_sink = SZ_2M;
	requests = 0;
	t3_memory_windows = true;
	write_error = 0;
	writes_before_error = 0;
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	pd = kunit_kzalloc(test, sizeof(*pd), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, dev && pd);
	dev->info = small_card;
	xa_init_flags(&dev->mrs, XA_FLAGS_LOCK_IRQ);
	dev->pdev = kunit_kzalloc(test, sizeof(*dev->pdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->pdev);
	t3_workqueue = system_wq;
	pd->ibpd.device = &dev->ibdev;
	pd->id = 1;
	t3_pd_init(pd);
	KUNIT_ASSERT_EQ(test, t3_rsc_open(dev), 0);
	return 0;
}

static void mr_exit(struct kunit *test)
{
	t3_pd_close(dev, pd);
	KUNIT_EXPECT_EQ(test, host.sinks, 0);
	KUNIT_EXPECT_EQ(test, list_pages, 0);
	KUNIT_EXPECT_EQ(test, host.umems, 0);
	KUNIT_EXPECT_FALSE(test, host.unpinned_early);
	KUNIT_EXPECT_TRUE(test, ida_is_empty(&dev->stags.ida));
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->mrs));
	t3_rsc_close(dev);
}

static struct t3_pd *make_pd(struct kunit *test)
{
	struct t3_pd *new = kunit_kzalloc(test, sizeof(*new), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, new);
	new->ibpd.device = &dev->ibdev;
	t3_pd_init(new);
	return new;
}

static struct ib_mr *make_mr(struct kunit *test)
{
	struct ib_mr *mr = t3_alloc_mr(&pd->ibpd, IB_MR_TYPE_MEM_REG, 4);

	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	mr->device = &dev->ibdev;
	mr->pd = &pd->ibpd;
	return mr;
}

static u8 tpt_key(u32 stag)
{
	__be32 word = table[stag >> T3_STAG_INDEX_SHIFT].valid_stag_pdid;

	return FIELD_GET(T3_TPT_KEY, be32_to_cpu(word));
}

static unsigned int distinct(const bool *used)
{
	unsigned int i, n = 0;

	for (i = 0; i < 256; i++)
		n += used[i];
	return n;
}

static void each_registration_gets_a_new_key(struct kunit *test)
{
	bool used[256] = {};
	u8 last[STAGS] = {};
	unsigned int i;

	for (i = 0; i < 200 * STAGS; i++) {
		struct ib_mr *mr = make_mr(test);
		u32 index = mr->rkey >> T3_STAG_INDEX_SHIFT;
		u8 key = mr->rkey & T3_STAG_KEY;

		KUNIT_EXPECT_EQ(test, mr->lkey, mr->rkey);
		KUNIT_EXPECT_EQ(test, tpt_key(mr->rkey), key);
		KUNIT_ASSERT_LT(test, index, (u32)STAGS);
		if (i >= STAGS)
			KUNIT_EXPECT_NE(test, key, last[index]);
		last[index] = key;
		used[key] = true;
		t3_dereg_mr(mr, NULL);
	}
	/* Of 3,200 random keys one of 256 values may be missing, but not 64. */
	KUNIT_EXPECT_GT(test, distinct(used), 192U);
}

static struct t3_mw make_window(void)
{
	return (struct t3_mw){
		.ibmw = { .device = &dev->ibdev, .pd = &pd->ibpd, .type = IB_MW_TYPE_1 },
	};
}

static void each_window_gets_a_random_key(struct kunit *test)
{
	bool used[256] = {};
	unsigned int i;

	for (i = 0; i < 64; i++) {
		struct t3_mw mw = make_window();
		u32 rkey;

		KUNIT_ASSERT_EQ(test, t3_alloc_mw(&mw.ibmw, NULL), 0);
		rkey = mw.ibmw.rkey;
		KUNIT_EXPECT_EQ(test, tpt_key(rkey), (u8)(rkey & T3_STAG_KEY));
		used[rkey & T3_STAG_KEY] = true;
		t3_dealloc_mw(&mw.ibmw);
	}
	KUNIT_EXPECT_GT(test, distinct(used), 32U);
}

/* A process could bind a window to any page list (guess G56). */
static void windows_are_off_unless_the_administrator_allows_them(struct kunit *test)
{
	struct t3_mw mw = make_window();

	t3_memory_windows = false;
	KUNIT_EXPECT_EQ(test, t3_alloc_mw(&mw.ibmw, NULL), -EOPNOTSUPP);
	t3_memory_windows = true;
	KUNIT_EXPECT_EQ(test, t3_alloc_mw(&mw.ibmw, NULL), 0);
	t3_dealloc_mw(&mw.ibmw);
}

/* Kernel consumers increment the key before each fast registration. */
static void fast_registration_key_is_recorded(struct kunit *test)
{
	struct ib_mr *mr = make_mr(test);
	struct t3_fastreg fr = {};
	u32 first = mr->rkey;
	unsigned long flags;
	u32 stag;

	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	KUNIT_EXPECT_EQ(test, mr->rkey >> T3_STAG_INDEX_SHIFT, first >> T3_STAG_INDEX_SHIFT);
	mr->length = PAGE_SIZE;
	mr->page_size = PAGE_SIZE;
	to_t3_mr(mr)->npages = 1;
	local_irq_save(flags);
	KUNIT_EXPECT_EQ(test, t3_mr_fastreg(mr, mr->rkey + 256, 0, &fr), -EINVAL);
	KUNIT_EXPECT_EQ(test, t3_mr_fastreg(mr, mr->rkey, 0, &fr), 0);
	KUNIT_EXPECT_EQ(test, fr.stag, mr->rkey);
	/* The send queue may be full: the region changes when the request is in the ring. */
	KUNIT_EXPECT_EQ(test, to_t3_mr(mr)->tpt.stag, first);
	KUNIT_EXPECT_FALSE(test, to_t3_mr(mr)->tpt.usable);
	t3_mr_fastreg_posted(dev, mr, &fr);
	local_irq_restore(flags);
	KUNIT_EXPECT_EQ(test, to_t3_mr(mr)->tpt.stag, mr->rkey);
	KUNIT_EXPECT_TRUE(test, to_t3_mr(mr)->tpt.usable);
	stag = mr->rkey;
	t3_dereg_mr(mr, NULL);
	/* The next STag of the index must differ from this key, not from the first one. */
	KUNIT_EXPECT_EQ(test, dev->stag_keys[stag >> T3_STAG_INDEX_SHIFT],
			(u8)(stag & T3_STAG_KEY));
}

/* The card takes a kernel receive as pages of the page list, not as addresses of the region. */
static void receive_names_the_pages_of_its_region(struct kunit *test)
{
	struct ib_mr *mr = make_mr(test);
	struct t3_host_sge sge = { .len = 64 };
	struct t3_fastreg fr = {};
	unsigned long flags;
	u8 page_code = 0xff;
	u32 pbl_index = 0;

	mr->length = PAGE_SIZE;
	mr->page_size = PAGE_SIZE;
	mr->iova = 0x10000;
	to_t3_mr(mr)->npages = 1;
	sge.stag = mr->rkey;
	sge.addr = mr->iova + 100;
	KUNIT_EXPECT_EQ(test, t3_mr_resolve(dev, &sge, &page_code, &pbl_index), -EINVAL);
	local_irq_save(flags);
	KUNIT_EXPECT_EQ(test, t3_mr_fastreg(mr, mr->rkey, 0, &fr), 0);
	t3_mr_fastreg_posted(dev, mr, &fr);
	local_irq_restore(flags);
	KUNIT_EXPECT_EQ(test, t3_mr_resolve(dev, &sge, &page_code, &pbl_index), 0);
	KUNIT_EXPECT_EQ(test, page_code, PAGE_SHIFT - T3_PAGE_CODE_SHIFT);
	KUNIT_EXPECT_EQ(test, pbl_index, to_t3_mr(mr)->tpt.pbl_index);
	KUNIT_EXPECT_EQ(test, sge.addr, 100ULL);
	sge.addr = mr->iova + PAGE_SIZE - 63;
	KUNIT_EXPECT_EQ(test, t3_mr_resolve(dev, &sge, &page_code, &pbl_index), -EINVAL);
	t3_dereg_mr(mr, NULL);
}

static void restrack_shows_a_region(struct kunit *test)
{
	struct sk_buff *msg = alloc_skb(256, GFP_KERNEL);
	struct sk_buff *small = alloc_skb(0, GFP_KERNEL);
	struct ib_mr *mr = make_mr(test);

	KUNIT_ASSERT_TRUE(test, msg && small);
	KUNIT_EXPECT_PTR_EQ(test, t3_mr_ops.fill_res_mr_entry, &t3_fill_res_mr_entry);
	KUNIT_EXPECT_EQ(test, t3_fill_res_mr_entry(msg, mr), 0);
	KUNIT_EXPECT_GT(test, msg->len, 64U);
	skb_put(small, skb_tailroom(small) & ~63);
	while (skb_tailroom(small) >= 64)
		skb_put(small, 64);
	KUNIT_EXPECT_EQ(test, t3_fill_res_mr_entry(small, mr), -EMSGSIZE);
	t3_dereg_mr(mr, NULL);
	kfree_skb(small);
	kfree_skb(msg);
}

/*
 * B14, E8: the write of the entry fails. No lookup finds the region, and STag and page list are
 * freed (mr_exit() checks it too).
 */
static void failed_tpt_write_frees_the_region(struct kunit *test)
{
	size_t free = gen_pool_avail(dev->pbl_pool);
	struct ib_mr *mr;
	struct t3_mw mw = {};
	unsigned int i;

	mw.ibmw.device = &dev->ibdev;
	mw.ibmw.pd = &pd->ibpd;
	mw.ibmw.type = IB_MW_TYPE_1;
	write_error = -EIO;
	for (i = 0; i < 2 * STAGS; i++) {
		mr = t3_alloc_mr(&pd->ibpd, IB_MR_TYPE_MEM_REG, 4);
		KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EIO);
		KUNIT_EXPECT_EQ(test, t3_alloc_mw(&mw.ibmw, NULL), -EIO);
	}
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->mrs));
	KUNIT_EXPECT_TRUE(test, ida_is_empty(&dev->stags.ida));
	KUNIT_EXPECT_EQ(test, gen_pool_avail(dev->pbl_pool), free);

	write_error = 0;
	mr = make_mr(test);
	KUNIT_EXPECT_EQ(test, t3_dereg_mr(mr, NULL), 0);
}

/* STags and page lists are charged to the quota of the protection domain, and uncharged. */
static void regions_and_windows_are_charged(struct kunit *test)
{
	static struct t3_mw windows[STAGS];
	static struct t3_quota user;
	struct t3_mr mr = { .pd = pd, .sink = DMA_MAPPING_ERROR };
	u32 all = STAGS - 1, share = all - all / 8, i;
	struct t3_pd *rest;

	pd->quota = &user;
	for (i = 0; i < share; i++) {
		windows[i] = make_window();
		KUNIT_ASSERT_EQ(test, t3_alloc_mw(&windows[i].ibmw, NULL), 0);
	}
	windows[i] = make_window();
	KUNIT_EXPECT_EQ(test, t3_alloc_mw(&windows[i].ibmw, NULL), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_OVER_QUOTA]), 1);
	/* The remainder is available without this quota. */
	rest = make_pd(test);
	windows[i].ibmw.pd = &rest->ibpd;
	KUNIT_EXPECT_EQ(test, t3_alloc_mw(&windows[i].ibmw, NULL), 0);
	for (i = 0; i <= share; i++)
		t3_dealloc_mw(&windows[i].ibmw);
	t3_pd_close(dev, rest);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_STAG]), 0);

	KUNIT_EXPECT_EQ(test,
			t3_mr_pbl_alloc(dev, &mr, ARRAY_SIZE(lists), T3_PBL_ALL_RIGHTS, true),
			-ENOMEM);
	KUNIT_EXPECT_EQ(test, t3_mr_pbl_alloc(dev, &mr, 1, T3_PBL_ALL_RIGHTS, true), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), T3_PBL_GRANULE);
	t3_mr_unlist(dev, &mr);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), 0);
}

/* Another user of the card has the rest of the page lists. */
static void refused_page_list_is_not_charged(struct kunit *test)
{
	static struct t3_quota user;
	struct t3_mr mr = { .pd = pd };
	u32 others[STAGS], i;

	pd->quota = &user;
	for (i = 0; i < STAGS; i++) {
		others[i] = t3_pbl_alloc(dev, NULL, T3_PBL_GRANULE);
		KUNIT_ASSERT_NE(test, others[i], 0U);
	}
	KUNIT_EXPECT_EQ(test, t3_mr_pbl_alloc(dev, &mr, 1, T3_PBL_ALL_RIGHTS, true), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_OVER_QUOTA]), 0);
	for (i = 0; i < STAGS; i++)
		t3_pbl_free(dev, NULL, others[i], T3_PBL_GRANULE);
}

static struct ib_mr *register_in(struct t3_pd *in, u64 bytes, int access)
{
	struct ib_udata udata = { .outlen = sizeof(struct t3_reg_mr_resp) };
	struct ib_mr *mr = t3_reg_user_mr(&in->ibpd, 0x10000000, bytes, 0x10000000, access, &udata);

	if (!IS_ERR(mr))
		mr->device = &dev->ibdev;	/* as ib_core does */
	return mr;
}

static struct ib_mr *register_memory(u64 pages)
{
	return register_in(pd, pages * PAGE_SIZE, IB_ACCESS_LOCAL_WRITE);
}

static u32 list_of(struct ib_mr *mr)
{
	return to_t3_mr(mr)->range->addr;
}

static u64 entry(u32 addr, u32 i)
{
	return be64_to_cpu(lists[(addr - dev->info.pbl_base) / 8 + i]);
}

static void region_is_charged_to_the_memcg(struct kunit *test)
{
	struct ib_mr *mr;

	count_uncharged();
	pd->ibpd.uobject = (void *)pd;	/* of a process */
	mr = register_memory(1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, uncharged(), 0);
	KUNIT_EXPECT_EQ(test, t3_dereg_mr(mr, NULL), 0);
}

/* Each step of a registration fails once: memory, page list, TPT entry, response. */
static void failed_registration_releases_the_memory(struct kunit *test)
{
	/* More entries than a page: the list is written in two pieces. */
	const u64 pages = PAGE_SIZE / sizeof(__be64) + 1;
	static const struct {
		const char *what;
		int umem_error, respond_error, write_error;
		unsigned int writes;
		bool no_pages;
		int error;
	} steps[] = {
		{ .what = "memory", .umem_error = -EFAULT, .error = -EFAULT },
		{ .what = "page size", .no_pages = true, .error = -EINVAL },
		{ .what = "first piece", .write_error = -EIO, .writes = 0, .error = -EIO },
		{ .what = "second piece", .write_error = -EIO, .writes = 1, .error = -EIO },
		{ .what = "TPT entry", .write_error = -EIO, .writes = 2, .error = -EIO },
		{ .what = "response", .respond_error = -EFAULT, .error = -EFAULT },
	};
	static struct t3_quota user;
	struct ib_mr *mr;
	unsigned int i;
	size_t free;

	/* Larger page lists than those of the small card. */
	KUNIT_ASSERT_EQ(test, gen_pool_add(dev->pbl_pool, 0x100000, 2 * PAGE_SIZE, -1), 0);
	dev->info.pbl_top = 0x100000 + 2 * PAGE_SIZE - 1;
	free = gen_pool_avail(dev->pbl_pool);
	pd->quota = &user;
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		host.umem_error = steps[i].umem_error;
		host.umem_shift = steps[i].no_pages ? 0 : PAGE_SHIFT;
		host.respond_error = steps[i].respond_error;
		write_error = steps[i].write_error;
		writes_before_error = steps[i].writes;
		KUNIT_EXPECT_EQ_MSG(test, PTR_ERR_OR_ZERO(register_memory(pages)), steps[i].error,
				    "%s", steps[i].what);
		KUNIT_EXPECT_EQ_MSG(test, writes_before_error, 0, "%s", steps[i].what);
		KUNIT_EXPECT_EQ_MSG(test, host.umems, 0, "%s", steps[i].what);
		KUNIT_EXPECT_EQ_MSG(test, list_pages, 0, "%s", steps[i].what);
		KUNIT_EXPECT_EQ_MSG(test, gen_pool_avail(dev->pbl_pool), free, "%s",
				    steps[i].what);
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&user.used[T3_QUOTA_PBL]), 0, "%s",
				    steps[i].what);
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&user.used[T3_QUOTA_STAG]), 0, "%s",
				    steps[i].what);
	}

	write_error = 0;
	host.respond_error = 0;
	mr = register_memory(pages);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, host.umems, 1);
	KUNIT_EXPECT_LT(test, gen_pool_avail(dev->pbl_pool), free);
	t3_dereg_mr(mr, NULL);
	KUNIT_EXPECT_EQ(test, gen_pool_avail(dev->pbl_pool), free);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), 0);
}

/* 64 pages of 64 MiB: all that an STag can cover. */
static void region_of_all_memory_needs_no_more_than_4_gib(struct kunit *test)
{
	size_t free = gen_pool_avail(dev->pbl_pool);
	unsigned int writes;
	struct ib_mr *mr;

	host.required_mask = DMA_BIT_MASK(36);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(t3_get_dma_mr(&pd->ibpd, 0)), -EOPNOTSUPP);
	host.required_mask = DMA_BIT_MASK(32);
	for (writes = 0; writes < 2; writes++) {	/* the page list, then the TPT entry */
		write_error = -EIO;
		writes_before_error = writes;
		KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(t3_get_dma_mr(&pd->ibpd, 0)), -EIO);
		KUNIT_EXPECT_EQ(test, gen_pool_avail(dev->pbl_pool), free);
	}
	write_error = 0;
	mr = t3_get_dma_mr(&pd->ibpd, IB_ACCESS_LOCAL_WRITE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, to_t3_mr(mr)->tpt.len, U32_MAX);
	mr->device = &dev->ibdev;
	t3_dereg_mr(mr, NULL);
	KUNIT_EXPECT_EQ(test, gen_pool_avail(dev->pbl_pool), free);
}

/*
 * A QP of the domain is connected, so the card may use the list without the TPT entry.
 * t3_umem_put() and mr_exit() check that no entry names the memory when it is unpinned, and that
 * one more request was confirmed by then.
 */
static void end_of_a_region_neutralises_its_list(struct kunit *test)
{
	static const u64 sizes[] = { 1, 4, 31 };
	unsigned int i, j;

	t3_pd_get_user(pd);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct ib_mr *mr = register_memory(sizes[i]);
		dma_addr_t sink;
		u32 list;

		KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
		list = list_of(mr);
		sink = to_t3_mr(mr)->sink;
		KUNIT_EXPECT_EQ(test, sink, pd->sinks[0].dma);
		requests = 0;
		KUNIT_EXPECT_EQ(test, t3_dereg_mr(mr, NULL), 0);
		KUNIT_EXPECT_EQ(test, requests, 2U + DIV_ROUND_UP(sizes[i], 12U));
		for (j = 0; j < ALIGN(sizes[i], 4); j++)
			KUNIT_EXPECT_EQ(test, entry(list, j), (u64)sink);
	}
	t3_pd_put_user(pd);
}

static bool fixed(u32 stag)
{
	__be32 word = table[stag >> T3_STAG_INDEX_SHIFT].flags_pagesize_qpid;

	return be32_to_cpu(word) & T3_TPT_RI_DISABLE;
}

/* SEND with invalidate is for fast registrations: other regions belong to all QPs of the domain. */
static void peer_invalidates_fast_registrations_only(struct kunit *test)
{
	struct t3_mw mw = make_window();
	struct ib_mr *mr;

	KUNIT_ASSERT_EQ(test, t3_alloc_mw(&mw.ibmw, NULL), 0);
	KUNIT_EXPECT_TRUE(test, fixed(mw.ibmw.rkey));
	t3_dealloc_mw(&mw.ibmw);
	mr = register_memory(1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_TRUE(test, fixed(mr->rkey));
	t3_dereg_mr(mr, NULL);
	mr = make_mr(test);
	KUNIT_EXPECT_FALSE(test, fixed(mr->rkey));
	t3_dereg_mr(mr, NULL);
}

/* Requests of the control QP: docs/hw/mr.md 13 has the arithmetic, bench/results.md the figures. */
static void cost_of_a_registration(struct kunit *test)
{
	static const struct {
		u64 bytes;
		unsigned int shift;
		unsigned int made, ended, ended_unused;
	} rows[] = {
		{ SZ_4K, 12, 2, 3, 1 },
		{ SZ_1G, 12, 22017, 21848, 1 },
		{ SZ_1G, 21, 44, 45, 1 },
	};
	unsigned int i;

	KUNIT_ASSERT_EQ(test, gen_pool_add(dev->pbl_pool, 0x1000000, SZ_4M, -1), 0);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		bool used = true;

		if (rows[i].shift < PAGE_SHIFT)
			continue;
		host.umem_shift = rows[i].shift;
		do {
			struct ib_mr *mr;

			used = !used;
			if (used)
				t3_pd_get_user(pd);
			requests = 0;
			mr = register_in(pd, rows[i].bytes, IB_ACCESS_LOCAL_WRITE);
			KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
			if (PAGE_SIZE == SZ_4K)
				KUNIT_EXPECT_EQ(test, requests, rows[i].made);
			requests = 0;
			t3_dereg_mr(mr, NULL);
			KUNIT_EXPECT_EQ(test, requests,
					used ? rows[i].ended : rows[i].ended_unused);
			if (used)
				t3_pd_put_user(pd);
		} while (!used);
	}
	flush_work(&pd->release_work);
}

/* The list is written in units of four entries. The card may have kept a longer old list. */
static void shorter_list_leaves_no_entry_without_a_page(struct kunit *test)
{
	struct ib_mr *mr;
	u32 list;

	t3_pd_get_user(pd);
	mr = register_memory(4);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	list = list_of(mr);
	t3_dereg_mr(mr, NULL);
	mr = register_memory(1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, list_of(mr), list);
	KUNIT_EXPECT_EQ(test, entry(list, 1), (u64)pd->sinks[0].dma);
	KUNIT_EXPECT_EQ(test, entry(list, 3), (u64)pd->sinks[0].dma);
	t3_dereg_mr(mr, NULL);
	t3_pd_put_user(pd);
}

/* All STags are taken after the list was written, or the response cannot be copied. */
static void failed_registration_neutralises_the_list(struct kunit *test)
{
	u32 i;

	t3_pd_get_user(pd);
	for (i = 1; i < STAGS; i++)
		KUNIT_ASSERT_GT(test, t3_id_get(dev, &dev->stags, NULL), 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(register_memory(3)), -ENOSPC);
	KUNIT_EXPECT_EQ(test, entry(dev->info.pbl_base, 2), (u64)pd->sinks[0].dma);
	for (i = 1; i < STAGS; i++)
		t3_id_put(&dev->stags, NULL, i);
	host.respond_error = -EFAULT;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(register_memory(3)), -EFAULT);
	KUNIT_EXPECT_EQ(test, host.umems, 0);
	t3_pd_put_user(pd);
}

/* The range goes to other users of the card when the last connection and window have ended. */
static void range_stays_with_its_domain(struct kunit *test)
{
	static struct t3_quota user;
	struct t3_mw window = make_window();
	struct t3_pd *other = make_pd(test);
	size_t free = gen_pool_avail(dev->pbl_pool);
	struct ib_mr *mr, *theirs;
	u32 list;

	pd->quota = &user;
	t3_pd_get_user(pd);
	t3_pd_get_user(other);
	KUNIT_ASSERT_EQ(test, t3_alloc_mw(&window.ibmw, NULL), 0);
	memset(table, 0, sizeof(table));	/* for t3_umem_put() */
	mr = register_memory(1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	list = list_of(mr);
	t3_dereg_mr(mr, NULL);
	KUNIT_EXPECT_EQ(test, gen_pool_avail(dev->pbl_pool), free - T3_PBL_GRANULE);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), T3_PBL_GRANULE);

	theirs = register_in(other, PAGE_SIZE, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(theirs));
	KUNIT_EXPECT_NE(test, list_of(theirs), list);
	/* What one user's peer places into a sink must not be sent by another user. */
	KUNIT_EXPECT_NE(test, to_t3_mr(theirs)->sink, pd->sinks[0].dma);
	t3_dereg_mr(theirs, NULL);
	t3_pd_put_user(other);
	flush_work(&other->release_work);

	mr = register_memory(1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, list_of(mr), list);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), T3_PBL_GRANULE);
	t3_dereg_mr(mr, NULL);

	t3_pd_put_user(pd);	/* the window is left */
	flush_work(&pd->release_work);
	KUNIT_EXPECT_EQ(test, gen_pool_avail(dev->pbl_pool), free - T3_PBL_GRANULE);
	t3_dealloc_mw(&window.ibmw);
	flush_work(&pd->release_work);
	KUNIT_EXPECT_EQ(test, gen_pool_avail(dev->pbl_pool), free);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), 0);
	t3_pd_close(dev, other);
}

/*
 * Of what the card keeps of an old region nothing may reach beyond the new one, or write to it, and
 * a peer may read or write through it only what the new region grants to peers too.
 */
static void range_is_used_again_where_nothing_leaves_the_region(struct kunit *test)
{
	const unsigned int large = ilog2(SZ_2M) - PAGE_SHIFT;
	enum {
		LW = IB_ACCESS_LOCAL_WRITE,
		RR = IB_ACCESS_REMOTE_READ,
		RW = IB_ACCESS_REMOTE_WRITE,
		MW = IB_ACCESS_MW_BIND,
	};
	static const struct {
		const char *what;
		int old, new;		/* rights */
		bool old_large, new_large, partial, again;
	} rows[] = {
		{ "same", LW, LW, .again = true },
		{ "smaller", LW, LW, .old_large = true },
		{ "larger", LW, LW, .new_large = true, .again = true },
		{ "partial", LW, LW, .new_large = true, .partial = true },
		{ "read only", LW, 0 },
		{ "both read only", 0, 0, .again = true },
		{ "writable", 0, LW, .again = true },
		{ "no more for peers to read", LW | RR, LW },
		{ "no more for peers to write", LW | RW, LW },
		{ "for peers to read now", LW, LW | RR, .again = true },
		{ "for peers to read and write", LW | RR, LW | RR | RW, .again = true },
		{ "for peers to write only", LW | RR, LW | RW },
		{ "no more for windows", LW | MW, LW },
		{ "all that windows grant", LW | MW, LW | RR | RW, .again = true },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ib_mr *mr;
		u32 list;

		t3_pd_get_user(pd);
		host.partial = false;
		host.umem_shift = PAGE_SHIFT + (rows[i].old_large ? large : 0);
		mr = register_in(pd, PAGE_SIZE, rows[i].old);
		KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
		list = list_of(mr);
		t3_dereg_mr(mr, NULL);

		host.partial = rows[i].partial;
		host.umem_shift = PAGE_SHIFT + (rows[i].new_large ? large : 0);
		mr = register_in(pd, PAGE_SIZE, rows[i].new);
		KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
		KUNIT_EXPECT_EQ_MSG(test, list_of(mr) == list, rows[i].again, "%s", rows[i].what);
		t3_dereg_mr(mr, NULL);
		t3_pd_put_user(pd);
		flush_work(&pd->release_work);
		KUNIT_EXPECT_TRUE(test, list_empty(&pd->kept));
	}
}

/* A program that registers buffers of any size for each transfer needs no more than the largest. */
static void kept_ranges_are_split_and_joined(struct kunit *test)
{
	const u32 granule = T3_PBL_GRANULE / 8;
	struct ib_mr *mrs[STAGS / 2];
	static struct t3_quota user;
	unsigned int round, i;

	pd->quota = &user;
	t3_pd_get_user(pd);
	for (round = 0; round < 20; round++) {
		mrs[0] = register_in(pd, STAGS / 2 * granule * PAGE_SIZE,
				     IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |
				     IB_ACCESS_REMOTE_WRITE);
		KUNIT_ASSERT_FALSE(test, IS_ERR(mrs[0]));
		t3_dereg_mr(mrs[0], NULL);
		for (i = 0; i < STAGS / 2; i++) {
			mrs[i] = make_mr(test);	/* its memory is not pinned */
			KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]),
					STAGS / 2 * T3_PBL_GRANULE);
		}
		for (i = 0; i < STAGS / 2; i++)	/* 0, 3, 6, 1, 4, 7, 2, 5 */
			t3_dereg_mr(mrs[3 * i % (STAGS / 2)], NULL);
	}
	KUNIT_EXPECT_TRUE(test, list_is_singular(&pd->kept));
	t3_pd_put_user(pd);
}

/* The sink needs memory of the size of a page: if there is none, pages are smaller. */
static void without_memory_for_a_sink_pages_are_smaller(struct kunit *test)
{
	struct ib_mr *mr;

	host.umem_shift = 27;
	mr = register_in(pd, SZ_4M, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, to_t3_mr(mr)->tpt.page_code, 21 - T3_PAGE_CODE_SHIFT);
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED(to_t3_mr(mr)->sink, SZ_2M));
	t3_dereg_mr(mr, NULL);

	t3_pd_close(dev, pd);
	memset(pd->sinks, 0, sizeof(pd->sinks));
	t3_pd_init(pd);
	host.max_sink = SZ_1M;
	mr = register_in(pd, SZ_4M, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, to_t3_mr(mr)->tpt.page_code, 20 - T3_PAGE_CODE_SHIFT);
	t3_dereg_mr(mr, NULL);

	t3_pd_close(dev, pd);
	memset(pd->sinks, 0, sizeof(pd->sinks));
	t3_pd_init(pd);
	host.sink_misaligned = true;
	mr = register_in(pd, PAGE_SIZE, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, to_t3_mr(mr)->tpt.page_code, PAGE_SHIFT - T3_PAGE_CODE_SHIFT);
	t3_dereg_mr(mr, NULL);

	t3_pd_close(dev, pd);
	memset(pd->sinks, 0, sizeof(pd->sinks));
	t3_pd_init(pd);
	host.max_sink = 0;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(register_memory(1)), -ENOMEM);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(t3_alloc_mr(&pd->ibpd, IB_MR_TYPE_MEM_REG, 1)),
			-ENOMEM);
}

static struct {
	bool locked;
	unsigned int shift;
	dma_addr_t sink;
} other_thread;

static void other_thread_makes_the_sink(void)
{
	other_thread.locked = mutex_is_locked(&pd->mutex);
	if (!other_thread.locked)
		other_thread.shift = t3_sink_get(dev, pd, 21, &other_thread.sink);
}

/*
 * A process has the mutex of its domain and gets no processor time. All users share the workqueue,
 * so the work item does not wait, and the release is that of the process.
 */
static void release_waits_for_no_process(struct kunit *test)
{
	unsigned long end = jiffies + 2 * HZ;
	struct ib_mr *mr;

	t3_pd_get_user(pd);
	mr = register_memory(1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	t3_dereg_mr(mr, NULL);

	mutex_lock(&pd->mutex);
	KUNIT_EXPECT_FALSE(test, list_empty(&pd->kept));
	t3_pd_put_user(pd);
	while (work_busy(&pd->release_work) && time_before(jiffies, end))
		msleep(20);
	KUNIT_EXPECT_FALSE(test, work_busy(&pd->release_work));
	KUNIT_EXPECT_FALSE(test, list_empty(&pd->kept));
	t3_pd_unlock(pd);
	flush_work(&pd->release_work);
	KUNIT_EXPECT_TRUE(test, list_empty(&pd->kept));
	KUNIT_EXPECT_FALSE(test, pd->left);
}

/* The allocation may take long, and the kept ranges of the domain are not released meanwhile. */
static void sink_is_allocated_without_the_mutex(struct kunit *test)
{
	dma_addr_t sink;

	host.while_sink_is_made = other_thread_makes_the_sink;
	KUNIT_EXPECT_EQ(test, t3_sink_get(dev, pd, 21, &sink), 21);
	KUNIT_EXPECT_FALSE(test, other_thread.locked);
	KUNIT_EXPECT_EQ(test, other_thread.shift, 21);
	KUNIT_EXPECT_EQ(test, other_thread.sink, sink);
	KUNIT_EXPECT_EQ(test, host.sinks, 1);
}

static struct ib_mr *rereg(struct ib_mr *mr, int flags, u64 addr, u64 bytes, int access,
			   struct t3_pd *in)
{
	struct ib_udata udata = { .outlen = sizeof(struct t3_reg_mr_resp) };
	struct ib_mr *new = t3_rereg_user_mr(mr, flags, addr, bytes, addr, access, &in->ibpd,
					     &udata);

	if (!IS_ERR(new))
		new->device = &dev->ibdev;
	return new;
}

/* A QP of the old domain is connected: what its peers still send goes to the sink. */
static void region_moves_to_another_domain(struct kunit *test)
{
	struct t3_pd *other = make_pd(test);
	struct ib_mr *old, *new;
	u32 list;

	other->id = 2;
	t3_pd_get_user(pd);
	old = register_in(pd, 4 * PAGE_SIZE, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ);
	KUNIT_ASSERT_FALSE(test, IS_ERR(old));
	list = list_of(old);
	new = rereg(old, IB_MR_REREG_PD, 0, 0, 0, other);
	KUNIT_ASSERT_FALSE(test, IS_ERR(new));
	KUNIT_EXPECT_NE(test, new->rkey, old->rkey);
	KUNIT_EXPECT_NE(test, list_of(new), list);
	KUNIT_EXPECT_PTR_EQ(test, to_t3_mr(new)->pd, other);
	KUNIT_EXPECT_EQ(test, to_t3_mr(new)->tpt.pdid, 2U);
	KUNIT_EXPECT_EQ(test, to_t3_mr(new)->tpt.perms, to_t3_mr(old)->tpt.perms);
	KUNIT_EXPECT_NE(test, to_t3_mr(new)->sink, to_t3_mr(old)->sink);
	KUNIT_EXPECT_EQ(test, to_t3_mr(new)->umem->addr, to_t3_mr(old)->umem->addr);
	KUNIT_EXPECT_EQ(test, new->length, 4 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, new->iova, to_t3_mr(old)->tpt.va);

	host.others = 1;
	t3_dereg_mr(old, NULL);
	KUNIT_EXPECT_EQ(test, entry(list, 3), (u64)pd->sinks[0].dma);
	KUNIT_EXPECT_NE(test, entry(list_of(new), 3), (u64)other->sinks[0].dma);
	host.others = 0;
	t3_pd_put_user(pd);
	t3_dereg_mr(new, NULL);
	t3_pd_close(dev, other);
}

/* More access is granted to pages that are pinned for it only. */
static void new_access_is_that_of_a_new_registration(struct kunit *test)
{
	static const struct {
		int old, flags, access, granted;
	} rows[] = {
		{ 0, IB_MR_REREG_ACCESS, IB_ACCESS_LOCAL_WRITE, IB_ACCESS_LOCAL_WRITE },
		{ IB_ACCESS_LOCAL_WRITE, IB_MR_REREG_ACCESS, IB_ACCESS_REMOTE_READ,
		  IB_ACCESS_REMOTE_READ },
		{ IB_ACCESS_LOCAL_WRITE, IB_MR_REREG_TRANS, 0, IB_ACCESS_LOCAL_WRITE },
		{ IB_ACCESS_REMOTE_READ, IB_MR_REREG_PD, IB_ACCESS_LOCAL_WRITE,
		  IB_ACCESS_REMOTE_READ },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ib_mr *old = register_in(pd, PAGE_SIZE, rows[i].old), *new;

		KUNIT_ASSERT_FALSE(test, IS_ERR(old));
		new = rereg(old, rows[i].flags, 0x20000000, 2 * PAGE_SIZE, rows[i].access, pd);
		KUNIT_ASSERT_FALSE(test, IS_ERR(new));
		KUNIT_EXPECT_EQ_MSG(test, to_t3_mr(new)->tpt.perms, t3_perms(rows[i].granted),
				    "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, host.writable, ib_access_writable(rows[i].granted),
				    "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, new->length,
				    (rows[i].flags & IB_MR_REREG_TRANS ? 2 : 1) * PAGE_SIZE,
				    "row %u", i);
		host.others = 1;
		t3_dereg_mr(old, NULL);
		host.others = 0;
		t3_dereg_mr(new, NULL);
	}
}

/* The core keeps the old region. */
static void failed_reregistration_leaves_the_region(struct kunit *test)
{
	const int all = IB_MR_REREG_PD | IB_MR_REREG_ACCESS;
	static struct t3_quota user;
	struct t3_tpt_entry *before;
	struct ib_mr *mr;
	u32 index;

	pd->quota = &user;
	mr = register_memory(1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	index = mr->rkey >> T3_STAG_INDEX_SHIFT;
	before = kunit_kmalloc(test, sizeof(*before), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, before);
	*before = table[index];
	host.others = 1;

	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(rereg(mr, all, 0, 0, BIT(30), pd)), -EOPNOTSUPP);
	host.umem_error = -EFAULT;	/* the memory is not there any more, or not writable */
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(rereg(mr, all, 0, 0, 0, pd)), -EFAULT);
	host.umem_error = 0;
	host.respond_error = -EFAULT;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(rereg(mr, all, 0, 0, 0, pd)), -EFAULT);
	host.respond_error = 0;
	/* A child process: its memory is not that of the region. */
	to_t3_mr(mr)->umem->mm = (void *)test;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(rereg(mr, all, 0, 0, 0, pd)), -EPERM);

	KUNIT_EXPECT_EQ(test, memcmp(before, &table[index], sizeof(*before)), 0);
	KUNIT_EXPECT_EQ(test, host.umems, 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_STAG]), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), T3_PBL_GRANULE);
	host.others = 0;
	t3_dereg_mr(mr, NULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_STAG]), 0);
}

static void regions_of_the_kernel(struct kunit *test)
{
	struct t3_fastreg fr;
	struct ib_mr *mr;
	u32 list;

	t3_pd_get_user(pd);
	mr = make_mr(test);
	list = list_of(mr);
	lists[(list - dev->info.pbl_base) / 8 + 3] = cpu_to_be64(SZ_8M); /* a fast registration */
	mr->length = PAGE_SIZE;
	to_t3_mr(mr)->npages = 1;
	mr->page_size = 2 * PAGE_SIZE;	/* larger than the sink */
	KUNIT_EXPECT_EQ(test, t3_mr_fastreg(mr, mr->rkey, 0, &fr), -EINVAL);
	t3_dereg_mr(mr, NULL);
	KUNIT_EXPECT_EQ(test, entry(list, 3), (u64)pd->sinks[0].dma);

	/* No sink has the size of the pages: the list stays, and so does the range. */
	host.required_mask = DMA_BIT_MASK(32);
	mr = t3_get_dma_mr(&pd->ibpd, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	mr->device = &dev->ibdev;
	list = list_of(mr);
	t3_dereg_mr(mr, NULL);
	KUNIT_EXPECT_EQ(test, entry(list, 1), (u64)SZ_64M);
	mr = make_mr(test);
	KUNIT_EXPECT_NE(test, list_of(mr), list);
	t3_dereg_mr(mr, NULL);
	t3_pd_put_user(pd);
}

static struct kunit_case mr_cases[] = {
	KUNIT_CASE(each_registration_gets_a_new_key),
	KUNIT_CASE(each_window_gets_a_random_key),
	KUNIT_CASE(windows_are_off_unless_the_administrator_allows_them),
	KUNIT_CASE(fast_registration_key_is_recorded),
	KUNIT_CASE(receive_names_the_pages_of_its_region),
	KUNIT_CASE(regions_and_windows_are_charged),
	KUNIT_CASE(restrack_shows_a_region),
	KUNIT_CASE(failed_tpt_write_frees_the_region),
	KUNIT_CASE(refused_page_list_is_not_charged),
	KUNIT_CASE(region_is_charged_to_the_memcg),
	KUNIT_CASE(failed_registration_releases_the_memory),
	KUNIT_CASE(region_of_all_memory_needs_no_more_than_4_gib),
	KUNIT_CASE(end_of_a_region_neutralises_its_list),
	KUNIT_CASE(peer_invalidates_fast_registrations_only),
	KUNIT_CASE(cost_of_a_registration),
	KUNIT_CASE(shorter_list_leaves_no_entry_without_a_page),
	KUNIT_CASE(failed_registration_neutralises_the_list),
	KUNIT_CASE(range_stays_with_its_domain),
	KUNIT_CASE(range_is_used_again_where_nothing_leaves_the_region),
	KUNIT_CASE(kept_ranges_are_split_and_joined),
	KUNIT_CASE(without_memory_for_a_sink_pages_are_smaller),
	KUNIT_CASE(release_waits_for_no_process),
	KUNIT_CASE(sink_is_allocated_without_the_mutex),
	KUNIT_CASE(region_moves_to_another_domain),
	KUNIT_CASE(new_access_is_that_of_a_new_registration),
	KUNIT_CASE(failed_reregistration_leaves_the_region),
	KUNIT_CASE(regions_of_the_kernel),
	{}
};

TEST_SUITE("iw_cxgb3_mr", mr_cases, .init = mr_init, .exit = mr_exit);
