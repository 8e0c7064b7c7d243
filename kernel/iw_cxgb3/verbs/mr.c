// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions and windows: entries of the card's TPT, with page lists in
 * its PBL.
 *
 * The card confirms every write to adapter memory before the next step, so its
 * TPT never has an entry without a valid page list and pinned pages. It may use a page list
 * without the TPT entry of the region (pbl.c), so the list is neutralised before the pages are
 * unpinned.
 */
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <rdma/iter.h>
#include <rdma/restrack.h>

#include "uapi/t3_abi.h"
#include "t3_compat_verbs.h"
#include "verbs.h"
#include "trace.h"
#include "umem.h"

/*
 * REMOTE_ATOMIC is accepted without effect: a T3 has no atomics, but libfabric
 * requests this access whenever it requests remote write.
 */
#define T3_MR_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | \
			 IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_MW_BIND | IB_ACCESS_OPTIONAL)

static u32 t3_tpt_addr(const struct t3_dev *dev, u32 stag)
{
	return dev->info.tpt_base + (stag >> T3_STAG_INDEX_SHIFT) * T3_TPT_ENTRY_BYTES;
}

static int t3_tpt_write(struct t3_dev *dev, const struct t3_tpt *tpt)
{
	struct t3_tpt_entry entry;

	t3_tpt_build(&entry, tpt);
	return t3_ctrl_write(dev, t3_tpt_addr(dev, tpt->stag), &entry, sizeof(entry));
}

static int t3_tpt_clear(struct t3_dev *dev, u32 stag)
{
	return t3_ctrl_write(dev, t3_tpt_addr(dev, stag), NULL, sizeof(struct t3_tpt_entry));
}

/*
 * A peer with one STag must not be able to predict others, and a stale STag must
 * not give access to the next region with the same index. So the key is random,
 * and differs from the previous key of the index.
 */
static int t3_stag_get(struct t3_dev *dev, struct t3_quota *quota, u32 *stag)
{
	int index = t3_id_get(dev, &dev->stags, quota);
	u8 key;

	if (index < 0)
		return index;
	key = dev->stag_keys[index] + 1 + get_random_u32_below(T3_STAG_KEY);
	*stag = (u32)index << T3_STAG_INDEX_SHIFT | key;
	return 0;
}

/* Record the current key, which fast registrations may have changed. */
static void t3_stag_put(struct t3_dev *dev, struct t3_quota *quota, u32 stag)
{
	dev->stag_keys[stag >> T3_STAG_INDEX_SHIFT] = stag & T3_STAG_KEY;
	t3_id_put(&dev->stags, quota, stag >> T3_STAG_INDEX_SHIFT);
}

static u8 t3_pbl_rights(int access)
{
	u8 rights = 0;

	if (access & IB_ACCESS_MW_BIND)	/* a window may grant any right */
		return T3_PBL_ALL_RIGHTS;
	if (ib_access_writable(access))
		rights |= T3_PBL_WRITABLE;
	if (access & IB_ACCESS_REMOTE_READ)
		rights |= T3_PBL_REMOTE_READ;
	if (access & IB_ACCESS_REMOTE_WRITE)
		rights |= T3_PBL_REMOTE_WRITE;
	return rights;
}

/* @whole: see t3_pbl_get(). */
static int t3_mr_pbl_alloc(struct t3_dev *dev, struct t3_mr *mr, u32 entries, u8 rights,
			   bool whole)
{
	struct t3_pbl_range *range;
	int err;

	range = kzalloc(sizeof(*range), t3_gfp(mr->umem));
	if (!range)
		return -ENOMEM;
	range->bytes = ALIGN(entries * 8, T3_PBL_GRANULE);
	range->page_code = mr->tpt.page_code;
	range->rights = rights;
	err = t3_pbl_get(dev, mr->pd, range, whole);
	if (err) {
		kfree(range);
		return err;
	}
	mr->range = range;
	mr->tpt.pbl_index = (range->addr - dev->info.pbl_base) >> 3;
	mr->tpt.pbl_entries = entries;
	return 0;
}

/*
 * The region has no TPT entry, or none any more. Write the sink's address into each entry of its
 * list, if the card may still use the list. The last write waits for transfers that have fetched an
 * entry already: they end before the card confirms it (guess G55). Entry 0 of the TPT is always
 * zero. The writes fail only if the card is gone, and then it has no DMA any more.
 */
static void t3_mr_unlist(struct t3_dev *dev, struct t3_mr *mr)
{
	if (t3_pd_is_used(mr->pd) && mr->sink != DMA_MAPPING_ERROR) {
		t3_ctrl_fill(dev, mr->range->addr, mr->sink,
			     ALIGN(mr->tpt.pbl_entries * 8, T3_MEM_UNIT));
		t3_tpt_clear(dev, 0);
	}
	t3_pbl_put(dev, mr->pd, mr->range);
}

/*
 * The list is written in pieces of a page: a large region needs no large buffer. The card may still
 * use the entries up to the next unit, if another region had the range before.
 */
static int t3_mr_pbl_write(struct t3_dev *dev, struct t3_mr *mr)
{
	const u32 max = PAGE_SIZE / sizeof(__be64);
	unsigned long pgsz = 1UL << (T3_PAGE_CODE_SHIFT + mr->tpt.page_code);
	struct ib_block_iter block;
	u32 n = 0, addr = mr->range->addr;
	__be64 *list;
	int err = 0;

	list = (__be64 *)__get_free_page(GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	rdma_for_each_block(mr->umem->table.sgt.sgl, &block,
			    mr->umem->table.sgt.nents, pgsz) {
		list[n++] = cpu_to_be64(rdma_block_iter_dma_address(&block));
		if (n < max)
			continue;
		err = t3_ctrl_write(dev, addr, list, n * sizeof(*list));
		if (err)
			goto free;
		addr += n * sizeof(*list);
		n = 0;
	}
	while (!IS_ALIGNED(n * sizeof(*list), T3_MEM_UNIT))
		list[n++] = cpu_to_be64(mr->sink);
	if (n)
		err = t3_ctrl_write(dev, addr, list, n * sizeof(*list));
free:
	free_page((unsigned long)list);
	return err;
}

/*
 * Allocate the STag of a region, enter the region into dev->mrs, where kernel
 * receives look it up, and write its TPT entry.
 */
static int t3_mr_publish(struct t3_dev *dev, struct t3_mr *mr)
{
	u32 index;
	int err;

	err = t3_stag_get(dev, mr->pd->quota, &mr->tpt.stag);
	if (err)
		return err;
	index = mr->tpt.stag >> T3_STAG_INDEX_SHIFT;
	err = xa_insert_irq(&dev->mrs, index, mr, GFP_KERNEL);
	if (err)
		goto err_stag;
	err = t3_tpt_write(dev, &mr->tpt);
	if (err)
		goto err_mrs;
	mr->ibmr.lkey = mr->tpt.stag;
	mr->ibmr.rkey = mr->tpt.stag;
	trace_t3_mr(dev, &mr->tpt, true);
	return 0;

err_mrs:
	xa_erase_irq(&dev->mrs, index);
err_stag:
	t3_stag_put(dev, mr->pd->quota, mr->tpt.stag);
	return err;
}

static int t3_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(ibmr->device);
	struct t3_mr *mr = to_t3_mr(ibmr);

	trace_t3_mr(dev, &mr->tpt, false);
	xa_erase_irq(&dev->mrs, mr->tpt.stag >> T3_STAG_INDEX_SHIFT);
	t3_tpt_clear(dev, mr->tpt.stag);
	t3_mr_unlist(dev, mr);
	if (mr->umem)
		t3_umem_put(mr->umem);
	t3_stag_put(dev, mr->pd->quota, mr->tpt.stag);
	kfree(mr);
	return 0;
}

static struct ib_mr *t3_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt,
				    int access, struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(pd->device);
	bool writable = ib_access_writable(access);
	struct t3_reg_mr_resp resp = {};
	unsigned int shift;
	struct t3_mr *mr;
	u64 pages;
	int err;

	if (access & ~T3_MR_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	if (!length || t3_over_limit(dev, "bytes of a region", length, U32_MAX))
		return ERR_PTR(-EINVAL);
	err = t3_udata_empty(udata);
	if (err)
		return ERR_PTR(err);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->pd = to_t3_pd(pd);
	mr->access = access;
	mr->umem = t3_umem_get(&dev->pdev->dev, start, length, writable);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto err_mr;
	}
	/*
	 * BIND_MW names the pages of the window. The library has only the
	 * index of the region's first page, so the pages must have the size
	 * that it assumes.
	 */
	shift = t3_umem_page_shift(mr->umem, virt,
				   access & IB_ACCESS_MW_BIND ? PAGE_SIZE : T3_MR_PAGE_SIZES);
	if (!shift) {
		err = -EINVAL;
		goto err_umem;
	}
	shift = t3_sink_get(dev, mr->pd, shift, &mr->sink);
	if (!shift) {
		err = -ENOMEM;
		goto err_umem;
	}
	mr->tpt.page_code = shift - T3_PAGE_CODE_SHIFT;
	mr->tpt.pdid = to_t3_pd(pd)->id;
	mr->tpt.type = T3_TPT_TYPE_MR;
	mr->tpt.perms = t3_perms(access);
	mr->tpt.fixed = true;
	mr->tpt.usable = true;
	mr->tpt.len = length;
	mr->tpt.va = virt;
	pages = t3_pages(virt, length, mr->tpt.page_code);
	if (pages > T3_MAX_PBL_PAGES) {
		err = -ENOMEM;
		goto err_umem;
	}
	err = t3_mr_pbl_alloc(dev, mr, pages, t3_pbl_rights(access),
			      t3_umem_is_whole(mr->umem, shift));
	if (err)
		goto err_umem;
	err = t3_mr_pbl_write(dev, mr);
	if (err)
		goto err_pbl;
	err = t3_mr_publish(dev, mr);
	if (err)
		goto err_pbl;

	resp.pbl_addr = mr->tpt.pbl_index;
	err = t3_udata_respond(udata, &resp, sizeof(resp));
	if (err) {
		mr->ibmr.device = pd->device;
		t3_dereg_mr(&mr->ibmr, udata);
		return ERR_PTR(err);
	}
	return &mr->ibmr;

err_pbl:
	t3_mr_unlist(dev, mr);
err_umem:
	t3_umem_put(mr->umem);
err_mr:
	kfree(mr);
	return ERR_PTR(err);
}

T3_DEFINE_REG_USER_MR(t3_reg_user_mr_op, t3_reg_user_mr)

/*
 * A new region takes the old one's place, and the core deregisters the old one. So nothing that the
 * card still does with the old page list reaches the new domain, the new access is checked against
 * the pages as always, and an error leaves the old region as it is. The keys are new, which the
 * verb permits.
 *
 * The pages are pinned again. At the same addresses a child process has other ones.
 */
static struct ib_mr *t3_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length,
				      u64 virt, int access, struct ib_pd *pd,
				      struct ib_udata *udata)
{
	const struct t3_mr *old = to_t3_mr(ibmr);
	struct ib_mr *new;

	if (!(flags & IB_MR_REREG_TRANS)) {
		if (old->umem->mm != current->mm)
			return ERR_PTR(-EPERM);
		start = old->umem->addr;
		length = old->umem->len;
		virt = old->tpt.va;
	}
	if (!(flags & IB_MR_REREG_ACCESS))
		access = old->access;
	new = t3_reg_user_mr(pd, start, length, virt, access, udata);
	if (IS_ERR(new))
		return new;
	new->length = length;	/* without TRANS ib_uverbs sets neither */
	new->iova = virt;
	return new;
}

/*
 * A region of all memory, for kernel consumers that do not use the local DMA
 * key. An STag covers 4 GiB (64 pages of 64 MiB), so larger hosts are refused. No sink has the
 * size of these pages, so the list outlives the region unchanged: the end of the region gives away
 * none of the memory. Only another region of this kind uses the range before the last connection of
 * the domain has ended.
 */
static struct ib_mr *t3_get_dma_mr(struct ib_pd *pd, int access)
{
	enum { PAGES = 64, PAGE_CODE = 14 };
	struct t3_dev *dev = to_t3_dev(pd->device);
	__be64 list[PAGES];
	struct t3_mr *mr;
	int err, i;

	if (dma_get_required_mask(&dev->pdev->dev) > U32_MAX)
		return ERR_PTR(-EOPNOTSUPP);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->pd = to_t3_pd(pd);
	mr->sink = DMA_MAPPING_ERROR;
	mr->tpt.page_code = PAGE_CODE;
	mr->tpt.pdid = to_t3_pd(pd)->id;
	mr->tpt.type = T3_TPT_TYPE_MR;
	mr->tpt.perms = t3_perms(access);
	mr->tpt.fixed = true;
	mr->tpt.usable = true;
	mr->tpt.len = U32_MAX;
	for (i = 0; i < PAGES; i++)
		list[i] = cpu_to_be64((u64)i << (T3_PAGE_CODE_SHIFT + PAGE_CODE));

	err = t3_mr_pbl_alloc(dev, mr, PAGES, T3_PBL_ALL_RIGHTS, true);
	if (err)
		goto err_mr;
	err = t3_ctrl_write(dev, mr->range->addr, list, sizeof(list));
	if (err)
		goto err_pbl;
	err = t3_mr_publish(dev, mr);
	if (err)
		goto err_pbl;
	return &mr->ibmr;

err_pbl:
	t3_mr_unlist(dev, mr);
err_mr:
	kfree(mr);
	return ERR_PTR(err);
}

/* --- fast registration ----------------------------------------------------- */

static struct ib_mr *t3_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_num_sg)
{
	struct t3_dev *dev = to_t3_dev(pd->device);
	struct t3_mr *mr;
	int err;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg ||
	    t3_over_limit(dev, "pages of a fast registration", max_num_sg,
			  T3_MAX_FASTREG_PAGES))
		return ERR_PTR(-EINVAL);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->pd = to_t3_pd(pd);
	if (!t3_sink_get(dev, mr->pd, PAGE_SHIFT, &mr->sink)) {
		err = -ENOMEM;
		goto err_mr;
	}
	mr->tpt.page_code = PAGE_SHIFT - T3_PAGE_CODE_SHIFT;
	mr->tpt.pdid = to_t3_pd(pd)->id;
	mr->tpt.type = T3_TPT_TYPE_MR;
	err = t3_mr_pbl_alloc(dev, mr, max_num_sg, T3_PBL_ALL_RIGHTS, true);
	if (err)
		goto err_mr;
	err = t3_mr_publish(dev, mr);
	if (err)
		goto err_pbl;
	return &mr->ibmr;

err_pbl:
	t3_mr_unlist(dev, mr);
err_mr:
	kfree(mr);
	return ERR_PTR(err);
}

static int t3_mr_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct t3_mr *mr = to_t3_mr(ibmr);

	if (mr->npages == mr->tpt.pbl_entries)
		return -ENOMEM;
	mr->pages[mr->npages++] = addr;
	return 0;
}

static int t3_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
			unsigned int *sg_offset)
{
	to_t3_mr(ibmr)->npages = 0;
	return ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, t3_mr_set_page);
}

/* Describes a fast registration for the ring. Return: 0, or -EINVAL. */
int t3_mr_fastreg(struct ib_mr *ibmr, u32 key, int access, struct t3_fastreg *fr)
{
	struct t3_mr *mr = to_t3_mr(ibmr);

	/* The sink of the region has the size of a page. */
	if (!mr->npages || ibmr->length > U32_MAX || ibmr->page_size > PAGE_SIZE)
		return -EINVAL;
	if ((key ^ mr->tpt.stag) & ~T3_STAG_KEY)
		return -EINVAL;
	fr->stag = key;
	fr->len = ibmr->length;
	fr->va = ibmr->iova;
	fr->page_code = ilog2(ibmr->page_size) - T3_PAGE_CODE_SHIFT;
	fr->perms = t3_perms(access);
	fr->npages = mr->npages;
	fr->pages = mr->pages;
	return 0;
}

/* A region's entry in the card's table, as the driver knows it: fast registrations change it. */
static struct t3_tpt *t3_mr_tpt(struct t3_dev *dev, struct t3_mr *mr)
{
	lockdep_assert_held(&dev->mrs.xa_lock);
	return &mr->tpt;
}

/* With the QP lock (irq). The registration is in the ring: the region changes from now on. */
void t3_mr_fastreg_posted(struct t3_dev *dev, struct ib_mr *ibmr, const struct t3_fastreg *fr)
{
	struct t3_tpt *tpt;

	lockdep_assert_irqs_disabled();
	xa_lock(&dev->mrs);
	tpt = t3_mr_tpt(dev, to_t3_mr(ibmr));
	tpt->stag = fr->stag;
	tpt->len = fr->len;
	tpt->va = fr->va;
	tpt->page_code = fr->page_code;
	tpt->usable = true;
	xa_unlock(&dev->mrs);
}

/*
 * Translate an SGE of a kernel receive, which names pages instead of virtual
 * addresses: page size and PBL index of its first page, and as address the
 * offset in this page.
 */
int t3_mr_resolve(struct t3_dev *dev, struct t3_host_sge *sge, u8 *page_code, u32 *pbl_index)
{
	const struct t3_tpt *tpt;
	unsigned long flags;
	struct t3_mr *mr;
	int err = 0;

	xa_lock_irqsave(&dev->mrs, flags);
	mr = xa_load(&dev->mrs, sge->stag >> T3_STAG_INDEX_SHIFT);
	tpt = mr ? t3_mr_tpt(dev, mr) : NULL;
	if (!tpt || !tpt->usable || sge->addr < tpt->va || sge->len > tpt->len ||
	    sge->addr - tpt->va > tpt->len - sge->len) {
		err = -EINVAL;
		goto unlock;
	}
	*page_code = tpt->page_code;
	*pbl_index = tpt->pbl_index + t3_page_index(tpt->va, sge->addr, tpt->page_code);
	sge->addr &= (1ULL << (T3_PAGE_CODE_SHIFT + tpt->page_code)) - 1;
unlock:
	xa_unlock_irqrestore(&dev->mrs, flags);
	return err;
}

/* Without keys: ib_core shows them to privileged callers. */
static int t3_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct t3_dev *dev = to_t3_dev(ibmr->device);
	unsigned long flags;
	struct nlattr *table;
	struct t3_tpt tpt;

	xa_lock_irqsave(&dev->mrs, flags);
	tpt = *t3_mr_tpt(dev, to_t3_mr(ibmr));
	xa_unlock_irqrestore(&dev->mrs, flags);

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32(msg, "stag_index", tpt.stag >> T3_STAG_INDEX_SHIFT) ||
	    rdma_nl_put_driver_u32(msg, "usable", tpt.usable) ||
	    rdma_nl_put_driver_u32_hex(msg, "perms", tpt.perms) ||
	    rdma_nl_put_driver_u32(msg, "page_shift", tpt.page_code + T3_PAGE_CODE_SHIFT) ||
	    rdma_nl_put_driver_u32(msg, "pbl_index", tpt.pbl_index) ||
	    rdma_nl_put_driver_u32(msg, "pbl_entries", tpt.pbl_entries)) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}

/* --- windows ---------------------------------------------------------------- */

/*
 * The request that binds a window names a page list and a page size, and a process writes it
 * into its ring itself. If the card does not compare them with the region (guess G56), each
 * process with a window can reach all memory. So QPs may bind only if the administrator trusts
 * the card, or all processes.
 */
bool t3_memory_windows;
module_param_named(memory_windows, t3_memory_windows, bool, 0644);
MODULE_PARM_DESC(memory_windows,
		 "processes may use memory windows (default N): safe only with a card whose t3accept report has G56 as modelled");

/* A window is bound by a request in a QP's ring. There is no kernel verb for that. */
static int t3_alloc_mw(struct ib_mw *mw, struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(mw->device);
	struct t3_tpt tpt = {
		.pdid = to_t3_pd(mw->pd)->id,
		.type = T3_TPT_TYPE_MW,
		.fixed = true,
	};
	struct t3_pd *pd = to_t3_pd(mw->pd);
	int err;

	if (mw->type != IB_MW_TYPE_1)
		return -EOPNOTSUPP;
	if (!t3_memory_windows) {
		ibdev_dbg(&dev->ibdev,
			  "memory windows are off (module parameter memory_windows)\n");
		return -EOPNOTSUPP;
	}
	err = t3_udata_empty(udata);
	if (err)
		return err;
	err = t3_stag_get(dev, pd->quota, &tpt.stag);
	if (err)
		return err;
	err = t3_tpt_write(dev, &tpt);
	if (err) {
		t3_stag_put(dev, pd->quota, tpt.stag);
		return err;
	}
	t3_pd_get_user(pd);	/* the window may have the page list of a region that ends */
	mw->rkey = tpt.stag;
	return 0;
}

static int t3_dealloc_mw(struct ib_mw *mw)
{
	struct t3_dev *dev = to_t3_dev(mw->device);
	struct t3_pd *pd = to_t3_pd(mw->pd);

	t3_tpt_clear(dev, mw->rkey);
	t3_pd_put_user(pd);
	t3_stag_put(dev, pd->quota, mw->rkey);
	return 0;
}

const struct ib_device_ops t3_mr_ops = {
	.reg_user_mr	= t3_reg_user_mr_op,
	.rereg_user_mr	= t3_rereg_user_mr,
	.get_dma_mr	= t3_get_dma_mr,
	.alloc_mr	= t3_alloc_mr,
	.map_mr_sg	= t3_map_mr_sg,
	.dereg_mr	= t3_dereg_mr,
	.fill_res_mr_entry = t3_fill_res_mr_entry,
	.alloc_mw	= t3_alloc_mw,
	.dealloc_mw	= t3_dealloc_mw,

	INIT_RDMA_OBJ_SIZE(ib_mw, t3_mw, ibmw),
};
