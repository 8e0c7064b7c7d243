// SPDX-License-Identifier: GPL-2.0
/*
 * Page lists of the regions of a protection domain.
 *
 * The card checks a region's TPT entry once for a receive, a message or a read response, and
 * keeps {page size, offset, index of the page list entry, length} for the rest of it. So it may
 * use a page list after the region has ended, until the connection has ended. t3_mr_unlist()
 * therefore writes the address of a sink into each entry. Where the card still places data, it
 * places it into the sink, and what it still sends are bytes of the sink.
 *
 * A protection domain has its own sinks, since data in a sink can be sent again: it may only
 * reach QPs of the domain to which it was sent.
 *
 * The range of such a list stays with its domain while a QP of the domain is connected or a
 * window exists ("user"). Another region of the domain may use it meanwhile. What the card has
 * kept must then reach no byte but pinned memory of this region, and must write none that is
 * pinned for reading only. So the pages of the new region are at least as large as those of the
 * old one, and they are pinned as a whole. They are writable if the old ones were. A peer may still
 * read or write through the list if it might do so before; the owner of the old region had no
 * completion to wait for. So the new region grants its peers all that the old one granted.
 */
#include <linux/minmax.h>
#include <linux/slab.h>

#include "verbs.h"

static void t3_pbl_free_range(struct t3_dev *dev, struct t3_quota *quota,
			      struct t3_pbl_range *range)
{
	t3_pbl_free(dev, quota, range->addr, range->bytes);
	kfree(range);
}

/* With the mutex. No QP is connected, so the card uses none of the kept ranges. */
static void t3_pd_free_kept(struct t3_dev *dev, struct t3_pd *pd)
	__must_hold(&pd->mutex)
{
	struct t3_pbl_range *range, *tmp;

	lockdep_assert_held(&pd->mutex);
	list_for_each_entry_safe(range, tmp, &pd->kept, node)
		t3_pbl_free_range(dev, pd->quota, range);
	INIT_LIST_HEAD(&pd->kept);
}

/*
 * Takes the mutex. If another task holds it, leaves the release to that task. No worker waits for
 * that task, which may be one of a process: all users share the workqueue, and the task may get no
 * processor time.
 */
static bool t3_pd_try(struct t3_pd *pd)
	t3_cond_acquires(&pd->mutex)
{
	WRITE_ONCE(pd->left, true);
	smp_mb();	/* a task that unlocks after the attempt sees the flag: t3_pd_unlock() */
	if (!mutex_trylock(&pd->mutex))
		return false;
	WRITE_ONCE(pd->left, false);
	return true;
}

/* Unlocks the mutex; the worker releases what was left meanwhile. */
static void t3_pd_unlock(struct t3_pd *pd)
	t3_releases(&pd->mutex)
{
	mutex_unlock(&pd->mutex);
	smp_mb();	/* t3_pd_try() */
	if (READ_ONCE(pd->left))
		queue_work(t3_workqueue, &pd->release_work);
}

/* A user that comes now cannot reach the kept ranges: their regions have no TPT entries. */
static void t3_pd_release_work(struct work_struct *work)
{
	struct t3_pd *pd = container_of(work, struct t3_pd, release_work);

	if (!t3_pd_try(pd))
		return;
	if (!t3_pd_is_used(pd))
		t3_pd_free_kept(to_t3_dev(pd->ibpd.device), pd);
	t3_pd_unlock(pd);
}

void t3_pd_init(struct t3_pd *pd)
{
	mutex_init(&pd->mutex);
	context_unsafe(INIT_LIST_HEAD(&pd->kept)); /* not published yet */
	atomic_set(&pd->users, 0);
	pd->left = false;
	INIT_WORK(&pd->release_work, t3_pd_release_work);
}

/* The domain has no region, window or QP any more, so nothing is left to the worker. */
void t3_pd_close(struct t3_dev *dev, struct t3_pd *pd)
{
	unsigned int i;

	WARN_ON(t3_pd_is_used(pd));
	cancel_work_sync(&pd->release_work);
	mutex_lock(&pd->mutex);
	t3_pd_free_kept(dev, pd);
	for (i = 0; i < ARRAY_SIZE(pd->sinks); i++)
		t3_dma_free(dev, &pd->sinks[i]);
	mutex_unlock(&pd->mutex);
	mutex_destroy(&pd->mutex);
}

void t3_pd_put_user(struct t3_pd *pd)
{
	if (atomic_dec_and_test(&pd->users))
		queue_work(t3_workqueue, &pd->release_work);
}

/*
 * Whether the domain has a sink of this page size. If it has none, it takes over @new, which may be
 * empty.
 */
static bool t3_sink_find(struct t3_pd *pd, unsigned int shift, struct t3_dma *new,
			 dma_addr_t *dma)
{
	struct t3_dma *sink;
	bool found;

	mutex_lock(&pd->mutex);
	sink = &pd->sinks[shift - PAGE_SHIFT];
	if (!sink->page)
		swap(*sink, *new);
	found = sink->page;
	*dma = sink->dma;
	t3_pd_unlock(pd);
	return found;
}

/*
 * The memory is allocated without the mutex. A process above its limit of memory may wait long for
 * it, and the ranges that the domain keeps are not released meanwhile.
 */
static bool t3_sink_make(struct t3_dev *dev, struct t3_pd *pd, unsigned int shift,
			 dma_addr_t *dma)
{
	gfp_t gfp = t3_gfp(pd->ibpd.uobject);
	struct t3_dma new = {};
	bool made;

	if (t3_sink_find(pd, shift, &new, dma))
		return true;
	if (shift > PAGE_SHIFT)
		gfp |= __GFP_NORETRY;
	if (t3_dma_alloc(dev, &new, 1UL << shift, gfp))
		return false;
	/* Memory of an area for DMA may be aligned less. */
	made = IS_ALIGNED(new.dma, 1UL << shift) && t3_sink_find(pd, shift, &new, dma);
	t3_dma_free(dev, &new);		/* if another thread was faster */
	return made;
}

unsigned int t3_sink_get(struct t3_dev *dev, struct t3_pd *pd, unsigned int shift,
			 dma_addr_t *sink)
{
	while (shift >= PAGE_SHIFT && !t3_sink_make(dev, pd, shift, sink))
		shift--;
	return shift >= PAGE_SHIFT ? shift : 0;
}

/* With the mutex. The smallest kept range that the region may use, or NULL. */
static struct t3_pbl_range *t3_pbl_find(const struct t3_pd *pd, const struct t3_pbl_range *want)
	__must_hold(&pd->mutex)
{
	struct t3_pbl_range *range, *best = NULL;

	lockdep_assert_held(&pd->mutex);
	list_for_each_entry(range, &pd->kept, node) {
		if (range->bytes < want->bytes || range->page_code > want->page_code)
			continue;
		if (range->rights & ~want->rights)
			continue;
		if (!best || range->bytes < best->bytes)
			best = range;
	}
	return best;
}

/* Take a range, or the first part of it, from those that the domain keeps. */
static bool t3_pbl_take(struct t3_pd *pd, struct t3_pbl_range *want)
{
	struct t3_pbl_range *range;

	mutex_lock(&pd->mutex);
	range = t3_pbl_find(pd, want);
	if (range) {
		want->addr = range->addr;
		range->addr += want->bytes;
		range->bytes -= want->bytes;
		if (!range->bytes) {
			list_del(&range->node);
			kfree(range);
		}
	}
	t3_pd_unlock(pd);
	return range;
}

int t3_pbl_get(struct t3_dev *dev, struct t3_pd *pd, struct t3_pbl_range *want, bool whole)
{
	if (whole && t3_pbl_take(pd, want))
		return 0;
	want->addr = t3_pbl_alloc(dev, pd->quota, want->bytes);
	return want->addr ? 0 : -ENOMEM;
}

static bool t3_pbl_joins(const struct t3_pbl_range *a, const struct t3_pbl_range *b)
{
	return a->addr + a->bytes == b->addr && a->page_code == b->page_code &&
	       a->rights == b->rights;
}

/* With the mutex. The list is in the order of addresses, and neighbours of one kind are joined. */
static void t3_pbl_keep(struct t3_pd *pd, struct t3_pbl_range *range)
	__must_hold(&pd->mutex)
{
	struct t3_pbl_range *prev, *next;

	lockdep_assert_held(&pd->mutex);
	list_for_each_entry(next, &pd->kept, node)
		if (next->addr > range->addr)
			break;
	list_add_tail(&range->node, &next->node);
	if (!list_is_last(&range->node, &pd->kept) && t3_pbl_joins(range, next)) {
		range->bytes += next->bytes;
		list_del(&next->node);
		kfree(next);
	}
	if (list_is_first(&range->node, &pd->kept))
		return;
	prev = list_prev_entry(range, node);
	if (t3_pbl_joins(prev, range)) {
		prev->bytes += range->bytes;
		list_del(&range->node);
		kfree(range);
	}
}

void t3_pbl_put(struct t3_dev *dev, struct t3_pd *pd, struct t3_pbl_range *range)
{
	mutex_lock(&pd->mutex);
	if (t3_pd_is_used(pd))
		t3_pbl_keep(pd, range);
	else
		t3_pbl_free_range(dev, pd->quota, range);
	t3_pd_unlock(pd);
}
