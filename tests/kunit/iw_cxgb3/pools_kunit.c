// SPDX-License-Identifier: GPL-2.0
/*
 * Allocators of ids and adapter memory, on a device that consists of its figures
 * only. Each test frees all memory; kmemleak detects leaks.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/genalloc.h>
#include <linux/iommu.h>

#include "card.h"
#include "../failing_alloc.h"

#define gen_pool_create(order, nid) \
	(alloc_fails(GFP_KERNEL, __func__) ? NULL : (gen_pool_create)(order, nid))
#define gen_pool_add(pool, addr, size, nid) \
	(alloc_fails(GFP_KERNEL, __func__) ? -ENOMEM : (gen_pool_add)(pool, addr, size, nid))

static struct {
	int rings;			/* allocated for the card */
	bool unmapped, needs_sync;
	bool incoherent;
	struct iommu_domain *domain;	/* of the card, if there is an IOMMU */
	unsigned int warnings;
	struct user_namespace *ns;	/* of the process; NULL: the first one */
} host;

static inline struct page *fake_dma_pages(size_t size, dma_addr_t *dma, gfp_t gfp)
{
	struct page *page = alloc_fails(gfp, __func__) ? NULL : alloc_pages(gfp, get_order(size));

	host.rings += !!page;
	*dma = 0x1000;
	return page;
}

static inline void fake_dma_free(size_t size, struct page *page)
{
	host.rings--;
	__free_pages(page, get_order(size));
}

#undef dma_alloc_pages
#undef dma_free_pages
#define dma_alloc_pages(device, size, dma, dir, gfp) fake_dma_pages(size, dma, gfp)
#define dma_free_pages(device, size, page, dma, dir) fake_dma_free(size, page)
#undef dma_mapping_error
#define dma_mapping_error(device, dma) (host.unmapped)
#undef dma_need_sync
#define dma_need_sync(device, dma) (host.needs_sync)
#define iommu_get_domain_for_dev(device) (host.domain)
#define dev_is_dma_coherent(device) (!host.incoherent)
#pragma push_macro("WARN_ON")
#undef WARN_ON
#define WARN_ON(condition) ((void)(host.warnings += !!(condition)))
#include "quota.c"
#pragma pop_macro("WARN_ON")
#include "pools.c"

/* Small enough to exhaust: 32 ids per doorbell page, 64 STags, 8 and 16 granules. */
static const struct rdma_info small_card = {
	.tpt_base = 0x1000, .tpt_top = 0x1000 + 64 * T3_TPT_ENTRY_BYTES - 1,
	.pbl_base = 0x10000, .pbl_top = 0x10000 + 8 * T3_PBL_GRANULE - 1,
	.rqt_base = 0x20000, .rqt_top = 0x20000 + 16 * T3_RQT_GRANULE - 1,
	.udbell_len = 2048 << PAGE_SHIFT,
};

static int rsc_init(struct kunit *test)
{
	memset(&host, 0, sizeof(host));
	return 0;
}

static struct t3_dev *open_card(struct kunit *test, const struct rdma_info *info)
{
	struct t3_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->info = *info;
	KUNIT_ASSERT_EQ(test, t3_rsc_open(dev), 0);
	return dev;
}

/* An id is reused only after all others were allocated, because of late messages of the card. */
static void freed_id_is_reused_last(struct kunit *test)
{
	struct t3_dev *dev = open_card(test, &small_card);
	u32 first, count, i;

	first = t3_id_get(dev, &dev->stags, NULL);
	KUNIT_EXPECT_EQ(test, first, 1);	/* 0 is the special STag */
	t3_id_put(&dev->stags, NULL, first);
	count = dev->stags.max - dev->stags.min + 1;
	KUNIT_EXPECT_EQ(test, count, 63);
	for (i = 1; i < count; i++)
		KUNIT_EXPECT_NE(test, t3_id_get(dev, &dev->stags, NULL), (int)first);
	KUNIT_EXPECT_EQ(test, t3_id_get(dev, &dev->stags, NULL), (int)first);
	KUNIT_EXPECT_EQ(test, t3_id_get(dev, &dev->stags, NULL), -ENOSPC);
	for (i = 0; i < count; i++)
		t3_id_put(&dev->stags, NULL, dev->stags.min + i);
	t3_rsc_close(dev);
}

static void ids_fit_the_tables_of_the_old_library(struct kunit *test)
{
	struct t3_dev *dev = open_card(test, &small_card);

	KUNIT_EXPECT_EQ(test, dev->qp_group_size, 32);
	KUNIT_EXPECT_GE(test, dev->qp_groups.min * dev->qp_group_size, T3_MIN_QP_ID);
	KUNIT_EXPECT_LE(test, (dev->qp_groups.max + 1) * dev->qp_group_size - 1, T3_MAX_ID);
	KUNIT_EXPECT_GT(test, dev->cq_ids.min, T3_CTRL_CQ_ID);
	KUNIT_EXPECT_LE(test, dev->cq_ids.max, T3_MAX_ID);
	KUNIT_EXPECT_LE(test, dev->pd_ids.max, T3_MAX_ID);
	t3_rsc_close(dev);
}

/* Two owners never share a doorbell page: either could ring the other's queues. */
static void owners_never_share_a_doorbell_page(struct kunit *test)
{
	struct t3_dev *dev = open_card(test, &small_card);
	struct t3_qp_groups a, b;
	unsigned long pages_a[2] = {}, pages_b[2] = {};
	u32 size = dev->qp_group_size, i;
	int id;

	t3_qp_groups_init(&a);
	t3_qp_groups_init(&b);
	for (i = 0; i < 3 * size; i++) {
		id = t3_qp_id_get(dev, &a, GFP_KERNEL);
		KUNIT_ASSERT_GE(test, id, 0);
		__set_bit(id / size, pages_a);
		id = t3_qp_id_get(dev, &b, GFP_KERNEL);
		KUNIT_ASSERT_GE(test, id, 0);
		__set_bit(id / size, pages_b);
	}
	KUNIT_EXPECT_EQ(test, bitmap_weight(pages_a, 128), 3);
	KUNIT_EXPECT_EQ(test, bitmap_weight(pages_b, 128), 3);
	KUNIT_EXPECT_FALSE(test, bitmap_intersects(pages_a, pages_b, 128));
	t3_qp_groups_free(dev, &a);
	t3_qp_groups_free(dev, &b);
	KUNIT_EXPECT_TRUE(test, ida_is_empty(&dev->qp_groups.ida));
	t3_rsc_close(dev);
}

static void qp_ids_are_unique_and_limited(struct kunit *test)
{
	struct t3_dev *dev = open_card(test, &small_card);
	unsigned long *seen = kunit_kzalloc(test, BITS_TO_LONGS(T3_MAX_ID + 1) * sizeof(long),
					    GFP_KERNEL);
	u32 wanted = (dev->qp_groups.max - dev->qp_groups.min + 1) * dev->qp_group_size;
	u32 got = 0;
	int id;

	KUNIT_ASSERT_NOT_NULL(test, seen);
	while ((id = t3_qp_id_get(dev, &dev->kernel_groups, GFP_KERNEL)) >= 0) {
		KUNIT_ASSERT_LE(test, id, T3_MAX_ID);
		KUNIT_ASSERT_FALSE(test, __test_and_set_bit(id, seen));
		KUNIT_ASSERT_LE(test, ++got, wanted);
	}
	KUNIT_EXPECT_EQ(test, id, -ENOSPC);
	KUNIT_EXPECT_EQ(test, got, wanted);
	t3_qp_id_put(dev, &dev->kernel_groups, 777);
	KUNIT_EXPECT_EQ(test, t3_qp_id_get(dev, &dev->kernel_groups, GFP_KERNEL), 777);
	t3_rsc_close(dev);
}

static void all_adapter_memory_can_be_allocated_once(struct kunit *test)
{
	struct t3_dev *dev = open_card(test, &small_card);
	u32 pbl[8], rqt[16], i;

	for (i = 0; i < ARRAY_SIZE(pbl); i++) {
		pbl[i] = t3_pbl_alloc(dev, NULL, 8);	/* rounded up to a granule */
		KUNIT_EXPECT_GE(test, pbl[i], small_card.pbl_base);
		KUNIT_EXPECT_LE(test, pbl[i] + T3_PBL_GRANULE - 1, small_card.pbl_top);
	}
	KUNIT_EXPECT_EQ(test, t3_pbl_alloc(dev, NULL, 8), 0);
	t3_pbl_free(dev, NULL, pbl[3], 8);
	KUNIT_EXPECT_EQ(test, t3_pbl_alloc(dev, NULL, T3_PBL_GRANULE), pbl[3]);
	KUNIT_EXPECT_EQ(test, t3_pbl_alloc(dev, NULL, 2 * T3_PBL_GRANULE), 0);
	for (i = 0; i < ARRAY_SIZE(pbl); i++)
		t3_pbl_free(dev, NULL, pbl[i], 8);

	for (i = 0; i < ARRAY_SIZE(rqt); i++)
		rqt[i] = t3_rqt_alloc(dev, NULL, T3_RQT_GRANULE >> T3_RQE_SHIFT);
	KUNIT_EXPECT_EQ(test, t3_rqt_alloc(dev, NULL, 1), 0);
	for (i = 0; i < ARRAY_SIZE(rqt); i++)
		t3_rqt_free(dev, NULL, rqt[i], T3_RQT_GRANULE >> T3_RQE_SHIFT);
	/* gen_pool_destroy() has a BUG_ON() for memory that was not freed. */
	t3_rsc_close(dev);
}

/* The quota of a process of this user, without the capability. */
static struct t3_quota *quota_of_uid(struct kunit *test, struct t3_dev *dev, unsigned int uid)
{
	const struct cred *before;
	struct t3_quota *quota;
	struct cred *cred = prepare_creds();
	struct user_namespace *own;

	KUNIT_ASSERT_NOT_NULL(test, cred);
	own = cred->user_ns;
	cred->user_ns = host.ns ?: own;
	cred->uid = KUIDT_INIT(uid);
	cap_lower(cred->cap_effective, CAP_SYS_RESOURCE);
	before = override_creds(cred);
	quota = t3_quota_get(&dev->quotas);
	revert_creds(before);
	cred->user_ns = own;
	put_cred(cred);
	KUNIT_ASSERT_FALSE(test, IS_ERR_OR_NULL(quota));
	return quota;
}

/* A user with subordinate ids has one share, also in namespaces inside its own. */
static void user_namespace_is_charged_to_who_made_it(struct kunit *test)
{
	struct user_namespace *outer = kunit_kzalloc(test, sizeof(*outer), GFP_KERNEL);
	struct user_namespace *inner = kunit_kzalloc(test, sizeof(*inner), GFP_KERNEL);
	struct t3_dev *dev = open_card(test, &small_card);
	struct t3_quota *user, *quota;

	KUNIT_ASSERT_TRUE(test, outer && inner);
	outer->parent = &init_user_ns;
	outer->owner = KUIDT_INIT(1000);
	inner->parent = outer;
	inner->owner = KUIDT_INIT(100001);
	user = quota_of_uid(test, dev, 1000);
	host.ns = outer;
	quota = quota_of_uid(test, dev, 100001);
	KUNIT_EXPECT_PTR_EQ(test, quota, user);
	t3_quota_put(&dev->quotas, quota);
	host.ns = inner;
	quota = quota_of_uid(test, dev, 100002);
	KUNIT_EXPECT_PTR_EQ(test, quota, user);
	t3_quota_put(&dev->quotas, quota);
	host.ns = NULL;
	quota = quota_of_uid(test, dev, 100002);
	KUNIT_EXPECT_PTR_NE(test, quota, user);
	t3_quota_put(&dev->quotas, quota);
	t3_quota_put(&dev->quotas, user);
	t3_rsc_close(dev);
}

/* Containers that root starts have ranges of ids, which root chooses. */
static void containers_of_root_have_a_share_each(struct kunit *test)
{
	static const u32 first[] = { 100000, 200000, 100000 };
	struct t3_dev *dev = open_card(test, &small_card);
	struct t3_quota *quotas[ARRAY_SIZE(first)];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(first); i++) {
		host.ns = kunit_kzalloc(test, sizeof(*host.ns), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, host.ns);
		host.ns->parent = &init_user_ns;
		host.ns->owner = GLOBAL_ROOT_UID;
		host.ns->uid_map.nr_extents = 1;
		host.ns->uid_map.extent[0] = (struct uid_gid_extent){
			.lower_first = first[i],
			.count = 65536,
		};
		quotas[i] = quota_of_uid(test, dev, first[i] + 1000);
	}
	host.ns = NULL;
	KUNIT_EXPECT_PTR_NE(test, quotas[0], quotas[1]);
	KUNIT_EXPECT_PTR_EQ(test, quotas[0], quotas[2]);
	for (i = 0; i < ARRAY_SIZE(first); i++)
		t3_quota_put(&dev->quotas, quotas[i]);
	t3_rsc_close(dev);
}

/*
 * A set-uid program makes the namespace, as root. The user gets no second share in it, nor that of
 * another user in such a sandbox.
 */
static void sandbox_is_charged_to_its_user(struct kunit *test)
{
	const struct uid_gid_extent own = { .first = 1000, .lower_first = 1000, .count = 1 };
	/* Inside, 0 is no id, the id of those without a mapping, or the root of the host. */
	const struct uid_gid_extent roots[] = {
		{}, { .lower_first = overflowuid, .count = 1 }, { .count = 1 },
	};
	struct t3_dev *dev = open_card(test, &small_card);
	struct t3_quota *user = quota_of_uid(test, dev, 1000);
	struct user_namespace *inner = kunit_kzalloc(test, sizeof(*inner), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, inner);
	for (i = 0; i < ARRAY_SIZE(roots); i++) {
		struct user_namespace *sandbox = kunit_kzalloc(test, sizeof(*sandbox), GFP_KERNEL);
		struct t3_quota *quota;

		KUNIT_ASSERT_NOT_NULL(test, sandbox);
		sandbox->parent = &init_user_ns;
		sandbox->owner = GLOBAL_ROOT_UID;
		sandbox->uid_map.nr_extents = i ? 2 : 1;
		sandbox->uid_map.extent[0] = own;
		sandbox->uid_map.extent[1] = roots[i];
		host.ns = sandbox;
		quota = quota_of_uid(test, dev, 1000);
		KUNIT_EXPECT_PTR_EQ(test, quota, user);
		t3_quota_put(&dev->quotas, quota);
		inner->parent = sandbox;
		inner->owner = KUIDT_INIT(1000);
		host.ns = inner;
		quota = quota_of_uid(test, dev, 1000);
		KUNIT_EXPECT_PTR_EQ(test, quota, user);
		t3_quota_put(&dev->quotas, quota);
		host.ns = NULL;
	}
	t3_quota_put(&dev->quotas, user);
	t3_rsc_close(dev);
}

/* For any number of contexts of a user, an eighth of each resource remains for others. */
static void user_is_limited_to_seven_eighths(struct kunit *test)
{
	struct t3_dev *dev = open_card(test, &small_card);
	struct t3_quota *one = quota_of_uid(test, dev, 1000);
	struct t3_quota *again = quota_of_uid(test, dev, 1000);
	struct t3_quota *other = quota_of_uid(test, dev, 1001);
	const u32 entries = T3_RQT_GRANULE >> T3_RQE_SHIFT;
	struct t3_qp_groups a, b, c;
	u32 rqt[16], all, got = 0;
	unsigned int i;

	KUNIT_EXPECT_PTR_EQ(test, one, again);
	KUNIT_EXPECT_PTR_NE(test, one, other);
	KUNIT_EXPECT_NULL(test, t3_quota_get(&dev->quotas));	/* the test has the capability */

	for (i = 0; i < 14; i++) {
		rqt[i] = t3_rqt_alloc(dev, one, entries - i);	/* whole granules are charged */
		KUNIT_EXPECT_NE(test, rqt[i], 0);
	}
	KUNIT_EXPECT_EQ(test, t3_rqt_alloc(dev, again, entries), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_OVER_QUOTA]), 1);
	rqt[14] = t3_rqt_alloc(dev, other, entries);
	KUNIT_EXPECT_NE(test, rqt[14], 0);
	rqt[15] = t3_rqt_alloc(dev, NULL, entries);
	KUNIT_EXPECT_NE(test, rqt[15], 0);
	/* A failed allocation is not charged. */
	KUNIT_EXPECT_EQ(test, t3_rqt_alloc(dev, other, entries), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&other->used[T3_QUOTA_RQT]), T3_RQT_GRANULE);
	for (i = 0; i < 14; i++)
		t3_rqt_free(dev, one, rqt[i], entries - i);
	t3_rqt_free(dev, other, rqt[14], entries);
	t3_rqt_free(dev, NULL, rqt[15], entries);

	t3_qp_groups_init(&a);
	t3_qp_groups_init(&b);
	t3_qp_groups_init(&c);
	a.quota = one;
	b.quota = again;
	c.quota = other;
	all = t3_ids_total(&dev->qp_groups);
	while (t3_qp_id_get(dev, got % 2 ? &a : &b, GFP_KERNEL) >= 0)
		KUNIT_ASSERT_LE(test, ++got, all * dev->qp_group_size);
	KUNIT_EXPECT_EQ(test, got, (all - all / 8) * dev->qp_group_size);
	KUNIT_EXPECT_GE(test, t3_qp_id_get(dev, &c, GFP_KERNEL), 0);
	t3_qp_groups_free(dev, &a);
	t3_qp_groups_free(dev, &b);
	t3_qp_groups_free(dev, &c);

	for (i = 0; i < T3_QUOTA_NUM; i++) {
		KUNIT_EXPECT_EQ(test, atomic_read(&one->used[i]), 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&other->used[i]), 0);
	}
	t3_quota_put(&dev->quotas, one);
	t3_quota_put(&dev->quotas, other);
	KUNIT_EXPECT_PTR_EQ(test, t3_quota_share(&dev->quotas, again), one);
	t3_quota_put(&dev->quotas, again);
	KUNIT_EXPECT_FALSE(test, list_empty(&dev->quotas.list));
	t3_quota_put(&dev->quotas, again);
	KUNIT_EXPECT_TRUE(test, list_empty(&dev->quotas.list));
	t3_rsc_close(dev);
}

#define REGION_GRANULES	1024	/* so that a sixteenth holds the largest receive queue */

static u32 take(struct t3_dev *dev, struct t3_quota *quota, bool pbl, u32 granules)
{
	return pbl ? t3_pbl_alloc(dev, quota, granules * T3_PBL_GRANULE) :
		     t3_rqt_alloc(dev, quota, granules * T3_RQT_GRANULE >> T3_RQE_SHIFT);
}

static void give_back(struct t3_dev *dev, struct t3_quota *quota, bool pbl, u32 addr, u32 granules)
{
	if (pbl)
		t3_pbl_free(dev, quota, addr, granules * T3_PBL_GRANULE);
	else
		t3_rqt_free(dev, quota, addr, granules * T3_RQT_GRANULE >> T3_RQE_SHIFT);
}

static u32 take_all(struct t3_dev *dev, struct t3_quota *quota, bool pbl, u32 granules, u32 *addrs)
{
	u32 n = 0;

	while (n < REGION_GRANULES) {
		addrs[n] = take(dev, quota, pbl, granules);
		if (!addrs[n])
			break;
		n++;
	}
	return n;
}

/* A user fills the share, frees every second granule, and takes ranges that need two. */
static void user_leaves_ranges(struct kunit *test, bool pbl)
{
	struct rdma_info info = small_card;
	struct t3_quota *one, *other;
	u32 *single, *pair, singles, pairs, others, kernels, i;
	const u32 large = REGION_GRANULES / 16;
	struct t3_dev *dev;

	info.rqt_base = 0x200000;
	info.rqt_top = info.rqt_base + REGION_GRANULES * T3_RQT_GRANULE - 1;
	info.pbl_top = info.pbl_base + REGION_GRANULES * T3_PBL_GRANULE - 1;
	dev = open_card(test, &info);
	one = quota_of_uid(test, dev, 1000);
	other = quota_of_uid(test, dev, 1001);
	single = kunit_kcalloc(test, REGION_GRANULES, sizeof(*single), GFP_KERNEL);
	pair = kunit_kcalloc(test, REGION_GRANULES, sizeof(*pair), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, single && pair);

	singles = take_all(dev, one, pbl, 1, single);
	KUNIT_EXPECT_EQ(test, singles, REGION_GRANULES / 8 * 7);
	for (i = 0; i < singles; i += 2)
		give_back(dev, one, pbl, single[i], 1);
	atomic64_set(&dev->counters[T3_CNT_OVER_QUOTA], 0);
	pairs = take_all(dev, one, pbl, 2, pair);
	KUNIT_EXPECT_EQ(test, pairs, 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_OVER_QUOTA]), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&one->used[pbl ? T3_QUOTA_PBL : T3_QUOTA_RQT]),
			singles / 2 * (pbl ? T3_PBL_GRANULE : T3_RQT_GRANULE));

	others = take(dev, other, pbl, large);
	KUNIT_EXPECT_NE(test, others, 0);
	KUNIT_EXPECT_EQ(test, take(dev, other, pbl, 2), 0);	/* more than a sixteenth */
	kernels = take(dev, NULL, pbl, large);
	KUNIT_EXPECT_NE(test, kernels, 0);

	for (i = 1; i < singles; i += 2)
		give_back(dev, one, pbl, single[i], 1);
	for (i = 0; i < pairs; i++)
		give_back(dev, one, pbl, pair[i], 2);
	if (others)
		give_back(dev, other, pbl, others, large);
	if (kernels)
		give_back(dev, NULL, pbl, kernels, large);
	t3_quota_put(&dev->quotas, one);
	t3_quota_put(&dev->quotas, other);
	t3_rsc_close(dev);
}

static void user_leaves_ranges_for_receive_queues(struct kunit *test)
{
	user_leaves_ranges(test, false);
}

static void user_leaves_ranges_for_page_lists(struct kunit *test)
{
	user_leaves_ranges(test, true);
}

/* A process without the capability causes the allocation. */
static void quota_is_charged_to_the_memcg(struct kunit *test)
{
	struct t3_dev *dev = open_card(test, &small_card);
	struct t3_quota *user;

	count_uncharged();
	user = quota_of_uid(test, dev, 1000);
	KUNIT_EXPECT_EQ(test, uncharged(), 0);
	t3_quota_put(&dev->quotas, user);
	t3_rsc_close(dev);
}

/* The flags of the caller count: a QP of a process or of the kernel. */
static void group_of_ids_is_charged_to_the_memcg(struct kunit *test)
{
	struct t3_dev *dev = open_card(test, &small_card);
	struct t3_qp_groups groups;
	int id;

	t3_qp_groups_init(&groups);
	count_uncharged();
	id = t3_qp_id_get(dev, &groups, GFP_KERNEL_ACCOUNT);
	KUNIT_EXPECT_GE(test, id, 0);
	KUNIT_EXPECT_EQ(test, uncharged(), 0);
	t3_qp_id_put(dev, &groups, id);
	t3_qp_groups_free(dev, &groups);
	t3_rsc_close(dev);
}

/* Other users have all ids. */
static void refused_id_is_not_charged(struct kunit *test)
{
	struct t3_dev *dev = open_card(test, &small_card);
	struct t3_quota *user = quota_of_uid(test, dev, 1000);
	u32 id;

	while (t3_id_get(dev, &dev->stags, NULL) >= 0)
		;
	KUNIT_EXPECT_EQ(test, t3_id_get(dev, &dev->stags, user), -ENOSPC);
	KUNIT_EXPECT_EQ(test, atomic_read(&user->used[T3_QUOTA_STAG]), 0);
	for (id = dev->stags.min; id <= dev->stags.max; id++)
		t3_id_put(&dev->stags, NULL, id);
	t3_quota_put(&dev->quotas, user);
	t3_rsc_close(dev);
	KUNIT_EXPECT_EQ(test, host.warnings, 0);
}

/* A context or a connection that outlives the device would uncharge freed memory. */
static void user_that_outlives_the_device_is_reported(struct kunit *test)
{
	struct t3_dev *dev = open_card(test, &small_card);
	struct t3_quota *user = quota_of_uid(test, dev, 1000);

	t3_rsc_close(dev);
	KUNIT_EXPECT_EQ(test, host.warnings, 1);
	t3_quota_put(&dev->quotas, user);
}

/* --- memory shared with the card ---------------------------------------------- */

static struct t3_dev *card_with_memory(struct kunit *test)
{
	struct t3_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->pdev = kunit_kzalloc(test, sizeof(*dev->pdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->pdev);
	return dev;
}

static void ring_is_zeroed_whole_pages(struct kunit *test)
{
	struct t3_dev *dev = card_with_memory(test);
	struct t3_dma ring;

	KUNIT_ASSERT_EQ(test, t3_dma_alloc(dev, &ring, PAGE_SIZE + 1, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, ring.size, 2 * PAGE_SIZE);
	KUNIT_EXPECT_NULL(test, memchr_inv(ring.va, 0, ring.size));
	KUNIT_EXPECT_EQ(test, host.rings, 1);
	t3_dma_free(dev, &ring);
	KUNIT_EXPECT_EQ(test, host.rings, 0);
	t3_dma_free(dev, &ring);	/* does nothing */
	KUNIT_EXPECT_EQ(test, host.rings, 0);
}

static void ring_is_charged_to_the_memcg(struct kunit *test)
{
	struct t3_dev *dev = card_with_memory(test);
	struct t3_dma ring;

	count_uncharged();
	KUNIT_ASSERT_EQ(test, t3_dma_alloc(dev, &ring, PAGE_SIZE, GFP_KERNEL_ACCOUNT), 0);
	KUNIT_EXPECT_EQ(test, uncharged(), 0);
	t3_dma_free(dev, &ring);
}

static void ring_without_a_dma_address_is_freed(struct kunit *test)
{
	struct t3_dev *dev = card_with_memory(test);
	struct t3_dma ring;

	host.unmapped = true;
	KUNIT_EXPECT_EQ(test, t3_dma_alloc(dev, &ring, PAGE_SIZE, GFP_KERNEL), -ENOMEM);
	KUNIT_EXPECT_EQ(test, host.rings, 0);
	KUNIT_EXPECT_NULL(test, ring.page);
}

static void host_whose_memory_needs_syncing_is_refused(struct kunit *test)
{
	struct t3_dev *dev = card_with_memory(test);

	KUNIT_EXPECT_EQ(test, t3_dma_check(dev), 0);
	KUNIT_EXPECT_EQ(test, host.rings, 0);
	host.needs_sync = true;
	KUNIT_EXPECT_EQ(test, t3_dma_check(dev), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, host.rings, 0);
}

/* dma_need_sync() of 6.1 is true for all devices whose DMA is translated. */
static void host_whose_iommu_translates_needs_coherent_memory_only(struct kunit *test)
{
	struct t3_dev *dev = card_with_memory(test);
	struct iommu_domain domain = { .type = IOMMU_DOMAIN_DMA };

	host.domain = &domain;
	host.needs_sync = true;
	KUNIT_EXPECT_EQ(test, t3_dma_check(dev), 0);
	host.incoherent = true;
	KUNIT_EXPECT_EQ(test, t3_dma_check(dev), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, host.rings, 0);
}

/* iommu=pt: memory may be bounced as without an IOMMU. */
static void host_whose_iommu_passes_addresses_through_must_not_bounce(struct kunit *test)
{
	struct t3_dev *dev = card_with_memory(test);
	struct iommu_domain domain = { .type = IOMMU_DOMAIN_IDENTITY };

	host.domain = &domain;
	KUNIT_EXPECT_EQ(test, t3_dma_check(dev), 0);
	host.needs_sync = true;
	KUNIT_EXPECT_EQ(test, t3_dma_check(dev), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, host.rings, 0);
}

/* --- opening ------------------------------------------------------------------- */

/* The figures that the NIC driver reports are checked. */
static void invalid_figures_of_the_nic_driver_are_refused(struct kunit *test)
{
	static const struct {
		const char *what;
		size_t at;
		u32 value;
	} bad[] = {
		{ "no doorbells", offsetof(struct rdma_info, udbell_len), 0 },
		{ "no STags", offsetof(struct rdma_info, tpt_top), 0 },
		{ "no page lists", offsetof(struct rdma_info, pbl_top), 0 },
		{ "no receive queues", offsetof(struct rdma_info, rqt_top), 0 },
		/* Registers that read as 0, all ones, or with another bit. */
		{ "one STag", offsetof(struct rdma_info, tpt_top), 0x1020 },
		{ "STags at 0", offsetof(struct rdma_info, tpt_base), 0 },
		{ "page lists at 0", offsetof(struct rdma_info, pbl_base), 0 },
		{ "page lists between units", offsetof(struct rdma_info, pbl_base), 0x10001 },
		{ "receive queues at 0", offsetof(struct rdma_info, rqt_base), 0 },
		{ "receive queues at the end", offsetof(struct rdma_info, rqt_base), U32_MAX },
	};
	struct t3_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, dev);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		dev->info = small_card;
		memcpy((u8 *)&dev->info + bad[i].at, &bad[i].value, sizeof(bad[i].value));
		KUNIT_EXPECT_EQ_MSG(test, t3_rsc_open(dev), -ENODEV, "%s", bad[i].what);
	}
}

static void open_and_close(struct kunit *test)
{
	struct t3_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->info = small_card;
	allocations_fail();
	ret = t3_rsc_open(dev);
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	if (!ret)
		t3_rsc_close(dev);
}

/* Each allocation of a probe fails once. */
static void open_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, open_and_close), 5U);
}

static struct kunit_case rsc_cases[] = {
	KUNIT_CASE(freed_id_is_reused_last),
	KUNIT_CASE(ids_fit_the_tables_of_the_old_library),
	KUNIT_CASE(owners_never_share_a_doorbell_page),
	KUNIT_CASE(qp_ids_are_unique_and_limited),
	KUNIT_CASE(all_adapter_memory_can_be_allocated_once),
	KUNIT_CASE(user_namespace_is_charged_to_who_made_it),
	KUNIT_CASE(containers_of_root_have_a_share_each),
	KUNIT_CASE(sandbox_is_charged_to_its_user),
	KUNIT_CASE(user_is_limited_to_seven_eighths),
	KUNIT_CASE(user_leaves_ranges_for_receive_queues),
	KUNIT_CASE(user_leaves_ranges_for_page_lists),
	KUNIT_CASE(quota_is_charged_to_the_memcg),
	KUNIT_CASE(group_of_ids_is_charged_to_the_memcg),
	KUNIT_CASE(refused_id_is_not_charged),
	KUNIT_CASE(user_that_outlives_the_device_is_reported),
	KUNIT_CASE(ring_is_zeroed_whole_pages),
	KUNIT_CASE(ring_is_charged_to_the_memcg),
	KUNIT_CASE(ring_without_a_dma_address_is_freed),
	KUNIT_CASE(host_whose_memory_needs_syncing_is_refused),
	KUNIT_CASE(host_whose_iommu_translates_needs_coherent_memory_only),
	KUNIT_CASE(host_whose_iommu_passes_addresses_through_must_not_bounce),
	KUNIT_CASE(invalid_figures_of_the_nic_driver_are_refused),
	KUNIT_CASE(open_without_memory),
	{}
};

TEST_SUITE("iw_cxgb3_rsc", rsc_cases, .init = rsc_init);
