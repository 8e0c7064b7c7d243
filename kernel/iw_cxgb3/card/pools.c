// SPDX-License-Identifier: GPL-2.0
/*
 * Ids, doorbell groups, adapter memory.
 */
#include <linux/bitmap.h>
#include <linux/dma-map-ops.h>
#include <linux/iommu.h>
#include <linux/log2.h>
#include <linux/slab.h>

#include "doorbell_page.h"
#include "card.h"

static void t3_ids_init(struct t3_ids *ids, enum t3_quota_kind kind, u32 min, u32 max)
{
	ida_init(&ids->ida);
	ids->kind = kind;
	ids->min = min;
	ids->max = max;
	ids->next = min;
}

/*
 * Late entries and packets for a freed id are harmless as long as the id has no
 * new user. So all other ids of the range are allocated before one is reused.
 *
 * No memory cgroup is charged for the bitmap: users share it, and the card has one bit per id.
 */
int t3_id_get(struct t3_dev *dev, struct t3_ids *ids, struct t3_quota *quota)
{
	int id = t3_quota_charge(dev, quota, ids->kind, 1, t3_ids_total(ids));

	if (id)
		return id;
	id = ida_alloc_range(&ids->ida, READ_ONCE(ids->next), ids->max, GFP_KERNEL);
	if (id == -ENOSPC)
		id = ida_alloc_range(&ids->ida, ids->min, ids->max, GFP_KERNEL);
	if (id >= 0)
		WRITE_ONCE(ids->next, id == ids->max ? ids->min : id + 1);
	else
		t3_quota_uncharge(quota, ids->kind, 1);
	return id;
}

void t3_id_put(struct t3_ids *ids, struct t3_quota *quota, u32 id)
{
	ida_free(&ids->ida, id);
	t3_quota_uncharge(quota, ids->kind, 1);
}

/* --- QP ids ---------------------------------------------------------------- */

struct t3_qp_group {
	struct list_head node;
	u32 base;
	u32 next;
	unsigned long used[];
};

void t3_qp_groups_init(struct t3_qp_groups *groups)
{
	mutex_init(&groups->mutex);
	context_unsafe(INIT_LIST_HEAD(&groups->list)); /* not published yet */
	groups->quota = NULL;
}

/* The owner has no QP any more. */
void t3_qp_groups_free(struct t3_dev *dev, struct t3_qp_groups *groups)
{
	struct t3_qp_group *group, *tmp;

	mutex_lock(&groups->mutex);
	list_for_each_entry_safe(group, tmp, &groups->list, node) {
		t3_id_put(&dev->qp_groups, groups->quota, group->base / dev->qp_group_size);
		kfree(group);
	}
	INIT_LIST_HEAD(&groups->list);
	mutex_unlock(&groups->mutex);
	mutex_destroy(&groups->mutex);
}

/* With groups->mutex. The next free id of a group of the list, or -ENOSPC. */
static int t3_qp_group_take(const struct t3_qp_groups *groups, struct t3_qp_group *group, u32 size)
{
	u32 bit = find_next_zero_bit(group->used, size, group->next);

	lockdep_assert_held(&groups->mutex);
	if (bit >= size)
		bit = find_first_zero_bit(group->used, size);
	if (bit >= size)
		return -ENOSPC;
	__set_bit(bit, group->used);
	group->next = (bit + 1) % size;
	return group->base + bit;
}

int t3_qp_id_get(struct t3_dev *dev, struct t3_qp_groups *groups, gfp_t gfp)
{
	u32 size = dev->qp_group_size;
	struct t3_qp_group *group;
	int id;

	mutex_lock(&groups->mutex);
	list_for_each_entry(group, &groups->list, node) {
		id = t3_qp_group_take(groups, group, size);
		if (id >= 0)
			goto unlock;
	}

	group = kzalloc(struct_size(group, used, BITS_TO_LONGS(size)), gfp);
	if (!group) {
		id = -ENOMEM;
		goto unlock;
	}
	id = t3_id_get(dev, &dev->qp_groups, groups->quota);
	if (id < 0) {
		kfree(group);
		goto unlock;
	}
	group->base = id * size;
	list_add(&group->node, &groups->list);
	id = t3_qp_group_take(groups, group, size);
unlock:
	mutex_unlock(&groups->mutex);
	return id;
}

void t3_qp_id_put(struct t3_dev *dev, struct t3_qp_groups *groups, u32 id)
{
	struct t3_qp_group *group;

	mutex_lock(&groups->mutex);
	list_for_each_entry(group, &groups->list, node) {
		if (id - group->base < dev->qp_group_size) {
			__clear_bit(id - group->base, group->used);
			break;
		}
	}
	mutex_unlock(&groups->mutex);
}

/* --- adapter memory -------------------------------------------------------- */

/* "top" is the last byte of the region, which is valid. */
static struct gen_pool *t3_region_pool(u32 base, u32 top, u32 granule)
{
	struct gen_pool *pool = gen_pool_create(ilog2(granule), -1);

	if (!pool)
		return NULL;
	if (gen_pool_add(pool, base, top - base + 1, -1)) {
		gen_pool_destroy(pool);
		return NULL;
	}
	return pool;
}

/*
 * Absolute byte address in adapter memory, or 0 if the memory is exhausted. The pool takes the
 * lowest range that is large enough, so the top of the region is used last.
 */
static u32 t3_region_alloc(struct t3_dev *dev, struct t3_quota *quota, enum t3_quota_kind kind,
			   u32 bytes)
{
	bool pbl = kind == T3_QUOTA_PBL;
	struct gen_pool *pool = pbl ? dev->pbl_pool : dev->rqt_pool;
	u32 base = pbl ? dev->info.pbl_base : dev->info.rqt_base;
	u32 total = pbl ? t3_pbl_total(dev) : t3_rqt_total(dev);
	u32 addr;

	if (t3_quota_charge(dev, quota, kind, bytes, total))
		return 0;
	addr = gen_pool_alloc(pool, bytes);
	if (addr && t3_quota_check_top(dev, quota, kind, addr + bytes - base, total)) {
		gen_pool_free(pool, addr, bytes);
		addr = 0;
	}
	if (!addr)
		t3_quota_uncharge(quota, kind, bytes);
	return addr;
}

u32 t3_pbl_alloc(struct t3_dev *dev, struct t3_quota *quota, u32 bytes)
{
	return t3_region_alloc(dev, quota, T3_QUOTA_PBL, bytes);
}

void t3_pbl_free(struct t3_dev *dev, struct t3_quota *quota, u32 addr, u32 bytes)
{
	gen_pool_free(dev->pbl_pool, addr, bytes);
	t3_quota_uncharge(quota, T3_QUOTA_PBL, bytes);
}

static u32 t3_rqt_bytes(u32 entries)
{
	return ALIGN(entries << T3_RQE_SHIFT, T3_RQT_GRANULE);
}

u32 t3_rqt_alloc(struct t3_dev *dev, struct t3_quota *quota, u32 entries)
{
	return t3_region_alloc(dev, quota, T3_QUOTA_RQT, t3_rqt_bytes(entries));
}

void t3_rqt_free(struct t3_dev *dev, struct t3_quota *quota, u32 addr, u32 entries)
{
	u32 bytes = t3_rqt_bytes(entries);

	gen_pool_free(dev->rqt_pool, addr, bytes);
	t3_quota_uncharge(quota, T3_QUOTA_RQT, bytes);
}

/* --- resources of a device ------------------------------------------------- */

/*
 * The limits come from registers of the card, which may read as anything. A pool cannot have the
 * address 0, and the card's memory is written in units.
 */
static bool t3_region_valid(u32 base, u32 top)
{
	return base && base < top && IS_ALIGNED(base, T3_MEM_UNIT);
}

int t3_rsc_open(struct t3_dev *dev)
{
	const struct rdma_info *info = &dev->info;
	u32 stags = (info->tpt_top - info->tpt_base + 1) / T3_TPT_ENTRY_BYTES;

	dev->qp_group_size = t3_qps_per_doorbell_page(info->udbell_len);
	if (!dev->qp_group_size || stags < 2 ||
	    !t3_region_valid(info->tpt_base, info->tpt_top) ||
	    !t3_region_valid(info->pbl_base, info->pbl_top) ||
	    !t3_region_valid(info->rqt_base, info->rqt_top))
		return -ENODEV;
	/* No group fits if all QPs share one doorbell page. */
	if (dev->qp_group_size > (T3_MAX_ID + 1) / 2)
		return -ENODEV;
	stags = min_t(u32, stags, T3_MAX_STAGS);

	/* Whole groups only; the first one has no id below T3_MIN_QP_ID. */
	t3_ids_init(&dev->qp_groups, T3_QUOTA_QP_GROUP,
		    DIV_ROUND_UP(T3_MIN_QP_ID, dev->qp_group_size),
		 (T3_MAX_ID + 1) / dev->qp_group_size - 1);
	t3_ids_init(&dev->cq_ids, T3_QUOTA_CQ, T3_CTRL_CQ_ID + 1, T3_MAX_ID);
	t3_ids_init(&dev->pd_ids, T3_QUOTA_PD, 1, T3_MAX_ID);
	/* Index 0 is the special STag 0, "bus address". */
	t3_ids_init(&dev->stags, T3_QUOTA_STAG, 1, stags - 1);
	t3_qp_groups_init(&dev->kernel_groups);
	t3_quotas_init(&dev->quotas);

	dev->stag_keys = kvzalloc(stags, GFP_KERNEL);
	if (!dev->stag_keys)
		goto err_ids;
	dev->pbl_pool = t3_region_pool(info->pbl_base, info->pbl_top, T3_PBL_GRANULE);
	if (!dev->pbl_pool)
		goto err_keys;
	dev->rqt_pool = t3_region_pool(info->rqt_base, info->rqt_top, T3_RQT_GRANULE);
	if (!dev->rqt_pool)
		goto err_pbl;
	return 0;

err_pbl:
	gen_pool_destroy(dev->pbl_pool);
err_keys:
	kvfree(dev->stag_keys);
err_ids:
	ida_destroy(&dev->stags.ida);
	ida_destroy(&dev->pd_ids.ida);
	ida_destroy(&dev->cq_ids.ida);
	ida_destroy(&dev->qp_groups.ida);
	return -ENOMEM;
}

void t3_rsc_close(struct t3_dev *dev)
{
	gen_pool_destroy(dev->rqt_pool);
	gen_pool_destroy(dev->pbl_pool);
	kvfree(dev->stag_keys);
	t3_qp_groups_free(dev, &dev->kernel_groups);
	t3_quotas_close(&dev->quotas);
	ida_destroy(&dev->stags.ida);
	ida_destroy(&dev->pd_ids.ida);
	ida_destroy(&dev->cq_ids.ida);
	ida_destroy(&dev->qp_groups.ida);
}

/* --- memory shared with the card ------------------------------------------- */

/*
 * Physically contiguous, page aligned and zeroed. User space maps the pages of a
 * ring, so dma_alloc_coherent() is not used, which may return memory without
 * struct page. DMA must be coherent, as it is on every platform that the card was
 * made for; t3_dma_check() has verified it.
 *
 * dma_alloc_pages() passes the flags to the page allocator, so that __GFP_ACCOUNT
 * charges the pages. Pages from a CMA area or from the pool of a restricted
 * device are not charged; the size of the area limits them.
 */
int t3_dma_alloc(struct t3_dev *dev, struct t3_dma *mem, size_t size, gfp_t gfp)
{
	mem->size = PAGE_ALIGN(size);
	mem->page = dma_alloc_pages(&dev->pdev->dev, mem->size, &mem->dma,
				    DMA_BIDIRECTIONAL, gfp | __GFP_NOWARN);
	if (!mem->page)
		return -ENOMEM;
	/* DMA-API debugging reports an unchecked handle as a bug. */
	if (dma_mapping_error(&dev->pdev->dev, mem->dma)) {
		t3_dma_free(dev, mem);
		return -ENOMEM;
	}
	mem->va = page_address(mem->page);
	memset(mem->va, 0, mem->size);
	return 0;
}

void t3_dma_free(struct t3_dev *dev, struct t3_dma *mem)
{
	if (mem->page)
		dma_free_pages(&dev->pdev->dev, mem->size, mem->page, mem->dma,
			       DMA_BIDIRECTIONAL);
	mem->page = NULL;
}

/*
 * Before 6.10 dma_need_sync() is true for each device whose DMA an IOMMU translates, since
 * the IOMMU's code has functions for syncs; later it is once a buffer of the device was
 * bounced. Whole pages, as those of rings, are never bounced there.
 */
static bool t3_dma_need_sync(struct device *device, dma_addr_t dma)
{
	const struct iommu_domain *domain = iommu_get_domain_for_dev(device);

	if (domain && domain->type != IOMMU_DOMAIN_IDENTITY)
		return !dev_is_dma_coherent(device);
	return dma_need_sync(device, dma);
}

int t3_dma_check(struct t3_dev *dev)
{
	struct t3_dma probe;
	int err;

	err = t3_dma_alloc(dev, &probe, PAGE_SIZE, GFP_KERNEL);
	if (err)
		return err;
	/* Not coherent, or behind a bounce buffer. */
	if (t3_dma_need_sync(&dev->pdev->dev, probe.dma))
		err = -EOPNOTSUPP;
	t3_dma_free(dev, &probe);
	return err;
}
