// SPDX-License-Identifier: GPL-2.0
/*
 * STags of regions and windows, with the pools of rsc.c and an array as the TPT of the card. User
 * memory is a fake.
 */
#include <kunit/test.h>
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* Replaces trace.h: tests add no events to tracefs. */
#define T3_TRACE_H
#include "iw_cxgb3.h"
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
	u64 required_mask;		/* for DMA */
} host;

#define ib_copy_to_udata(udata, from, len) (host.respond_error)
#define dma_get_required_mask(device) (host.required_mask)

#include "quota.c"
#include "rsc.c"
#include "tpt.c"
#include "mr.c"

#define STAGS	16

static struct t3_tpt_entry table[STAGS];
static struct t3_dev *dev;
static struct t3_pd *pd;
static int write_error;
static unsigned int writes_before_error;

int t3_ctrl_write(struct t3_dev *dev, u32 addr, const void *data, u32 len)
{
	u32 index = (addr - dev->info.tpt_base) / T3_TPT_ENTRY_BYTES;

	if (write_error && !writes_before_error)
		return write_error;
	if (write_error)
		writes_before_error--;
	if (addr < dev->info.tpt_base || index >= STAGS)
		return 0;	/* a page list */
	if (data)
		memcpy(&table[index], data, len);
	else
		memset(&table[index], 0, len);
	return 0;
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
	sg_dma_address(umem->table.sgt.sgl) = 0x10000;
	sg_dma_len(umem->table.sgt.sgl) = PAGE_ALIGN(len);
	host.umems++;
	return umem;
}

void t3_umem_put(struct t3_umem *umem)
{
	host.unpinned_early |= memchr_inv(table, 0, sizeof(table)) || !xa_empty(&dev->mrs);
	host.umems--;
	kfree(umem);
}

unsigned int t3_umem_page_shift(const struct t3_umem *umem, u64 va, unsigned long sizes)
{
	return host.umem_shift;
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
	memset(&host, 0, sizeof(host));
	host.umem_shift = PAGE_SHIFT;
	write_error = 0;
	writes_before_error = 0;
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	pd = kunit_kzalloc(test, sizeof(*pd), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, dev && pd);
	dev->info = small_card;
	xa_init_flags(&dev->mrs, XA_FLAGS_LOCK_IRQ);
	pd->ibpd.device = &dev->ibdev;
	KUNIT_ASSERT_EQ(test, t3_rsc_open(dev), 0);
	return 0;
}

static void mr_exit(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, list_pages, 0);
	KUNIT_EXPECT_EQ(test, host.umems, 0);
	KUNIT_EXPECT_FALSE(test, host.unpinned_early);
	KUNIT_EXPECT_TRUE(test, ida_is_empty(&dev->stags.ida));
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->mrs));
	t3_rsc_close(dev);
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
	struct t3_quota user = {};
	struct t3_mr mr = { .quota = &user };
	u32 all = STAGS - 1, share = all - all / 8, i;

	pd->quota = &user;
	for (i = 0; i < share; i++) {
		windows[i] = make_window();
		KUNIT_ASSERT_EQ(test, t3_alloc_mw(&windows[i].ibmw, NULL), 0);
	}
	windows[i] = make_window();
	KUNIT_EXPECT_EQ(test, t3_alloc_mw(&windows[i].ibmw, NULL), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_OVER_QUOTA]), 1);
	pd->quota = NULL;	/* the remainder is available without this quota */
	KUNIT_EXPECT_EQ(test, t3_alloc_mw(&windows[i].ibmw, NULL), 0);
	for (i = 0; i <= share; i++)
		t3_dealloc_mw(&windows[i].ibmw);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_STAG]), 0);

	KUNIT_EXPECT_EQ(test, t3_mr_pbl_alloc(dev, &mr, STAGS * T3_PBL_GRANULE / 8), -ENOMEM);
	KUNIT_EXPECT_EQ(test, t3_mr_pbl_alloc(dev, &mr, 1), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), T3_PBL_GRANULE);
	t3_mr_pbl_free(dev, &mr);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), 0);
}

/* Another user of the card has the rest of the page lists. */
static void refused_page_list_is_not_charged(struct kunit *test)
{
	struct t3_quota user = {};
	struct t3_mr mr = { .quota = &user };
	u32 lists[STAGS], i;

	for (i = 0; i < STAGS; i++) {
		lists[i] = t3_pbl_alloc(dev, T3_PBL_GRANULE);
		KUNIT_ASSERT_NE(test, lists[i], 0U);
	}
	KUNIT_EXPECT_EQ(test, t3_mr_pbl_alloc(dev, &mr, 1), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_PBL]), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_OVER_QUOTA]), 0);
	for (i = 0; i < STAGS; i++)
		t3_pbl_free(dev, lists[i], T3_PBL_GRANULE);
}

static struct ib_mr *register_memory(u64 pages)
{
	struct ib_udata udata = { .outlen = sizeof(struct t3_reg_mr_resp) };

	return t3_reg_user_mr(&pd->ibpd, 0x10000, pages * PAGE_SIZE, 0x10000,
			      IB_ACCESS_LOCAL_WRITE, &udata);
}

static void region_is_charged_to_the_memcg(struct kunit *test)
{
	struct ib_mr *mr;

	count_uncharged();
	mr = register_memory(1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, uncharged(), 0);
	mr->device = &dev->ibdev;	/* as ib_core does */
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
	struct t3_quota user = {};
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
	mr->device = &dev->ibdev;
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

static struct kunit_case mr_cases[] = {
	KUNIT_CASE(each_registration_gets_a_new_key),
	KUNIT_CASE(each_window_gets_a_random_key),
	KUNIT_CASE(fast_registration_key_is_recorded),
	KUNIT_CASE(receive_names_the_pages_of_its_region),
	KUNIT_CASE(regions_and_windows_are_charged),
	KUNIT_CASE(restrack_shows_a_region),
	KUNIT_CASE(failed_tpt_write_frees_the_region),
	KUNIT_CASE(refused_page_list_is_not_charged),
	KUNIT_CASE(region_is_charged_to_the_memcg),
	KUNIT_CASE(failed_registration_releases_the_memory),
	KUNIT_CASE(region_of_all_memory_needs_no_more_than_4_gib),
	{}
};

static struct kunit_suite mr_suite = {
	.name = "iw_cxgb3_mr",
	.init = mr_init,
	.exit = mr_exit,
	.test_cases = mr_cases,
};

kunit_test_suites(&mr_suite);

MODULE_DESCRIPTION("KUnit tests of iw_cxgb3: mr");
MODULE_LICENSE("GPL");
