// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions and windows: entries of the card's TPT, with page lists in
 * its PBL.
 *
 * Each step below is one confirmed write into adapter memory, so that the card
 * never has an entry whose page list or pages are not there.
 */
#include <linux/dma-mapping.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <rdma/iter.h>
#include <rdma/restrack.h>

#include <t3_race_point.h>

#include "uapi/t3_abi.h"
#include "compat_verbs.h"
#include "iw_cxgb3.h"
#include "trace.h"
#include "umem.h"

/*
 * REMOTE_ATOMIC is taken and gives nothing: no peer can send an atomic over this
 * iWARP, and libfabric asks for the permission whenever it asks for a write.
 */
#define T3_MR_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | \
			 IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_MW_BIND | IB_ACCESS_OPTIONAL)

static u32 tpt_addr(const struct t3_dev *dev, u32 stag)
{
	return dev->info.tpt_base + (stag >> T3_STAG_INDEX_SHIFT) * T3_TPT_ENTRY_BYTES;
}

static int tpt_write(struct t3_dev *dev, const struct t3_tpt *tpt)
{
	struct t3_tpt_entry entry;

	t3_tpt_build(&entry, tpt);
	return t3_ctrl_write(dev, tpt_addr(dev, tpt->stag), &entry, sizeof(entry));
}

static int tpt_clear(struct t3_dev *dev, u32 stag)
{
	return t3_ctrl_write(dev, tpt_addr(dev, stag), NULL, sizeof(struct t3_tpt_entry));
}

/*
 * A peer that knows one STag must not be able to tell the next one, and one that
 * has kept an STag must not reach what its index is used for later. So the key is
 * random, and not the one that the index had last.
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

/* With the key that it has now, which fast registrations may have changed. */
static void t3_stag_put(struct t3_dev *dev, struct t3_quota *quota, u32 stag)
{
	dev->stag_keys[stag >> T3_STAG_INDEX_SHIFT] = stag & T3_STAG_KEY;
	t3_id_put(&dev->stags, quota, stag >> T3_STAG_INDEX_SHIFT);
}

static int pbl_get(struct t3_dev *dev, struct t3_mr *mr, u32 entries)
{
	u32 bytes = ALIGN(entries * 8, T3_PBL_GRANULE);

	if (t3_quota_charge(dev, mr->quota, T3_QUOTA_PBL, bytes, t3_pbl_all(dev)))
		return -ENOMEM;
	mr->pbl_addr = t3_pbl_alloc(dev, bytes);
	if (!mr->pbl_addr) {
		t3_quota_uncharge(mr->quota, T3_QUOTA_PBL, bytes);
		return -ENOMEM;
	}
	mr->pbl_bytes = bytes;
	mr->tpt.pbl_index = (mr->pbl_addr - dev->info.pbl_base) >> 3;
	mr->tpt.pbl_entries = entries;
	return 0;
}

static void pbl_put(struct t3_dev *dev, struct t3_mr *mr)
{
	if (mr->pbl_bytes) {
		t3_pbl_free(dev, mr->pbl_addr, mr->pbl_bytes);
		t3_quota_uncharge(mr->quota, T3_QUOTA_PBL, mr->pbl_bytes);
	}
	mr->pbl_bytes = 0;
}

/* Page lists go out a page at a time: a large region must not need large memory. */
static int pbl_write(struct t3_dev *dev, struct t3_mr *mr)
{
	const u32 max = PAGE_SIZE / sizeof(__be64);
	unsigned long pgsz = 1UL << (T3_PAGE_CODE_SHIFT + mr->tpt.page_code);
	struct ib_block_iter block;
	u32 n = 0, addr = mr->pbl_addr;
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
	if (n)
		err = t3_ctrl_write(dev, addr, list, n * sizeof(*list));
free:
	free_page((unsigned long)list);
	return err;
}

/*
 * Gives the region its STag: the entry goes into the card, the region into the
 * table of kernel receives.
 */
static int mr_publish(struct t3_dev *dev, struct t3_mr *mr)
{
	u32 index;
	int err;

	err = t3_stag_get(dev, mr->quota, &mr->tpt.stag);
	if (err)
		return err;
	index = mr->tpt.stag >> T3_STAG_INDEX_SHIFT;
	err = xa_insert_irq(&dev->mrs, index, mr, t3_gfp(mr->umem));
	if (err)
		goto err_stag;
	T3_RACE_POINT(t3_mr_inserted);
	err = tpt_write(dev, &mr->tpt);
	if (err)
		goto err_mrs;
	T3_RACE_POINT(t3_mr_written);
	mr->ibmr.lkey = mr->tpt.stag;
	mr->ibmr.rkey = mr->tpt.stag;
	trace_t3_mr(dev, &mr->tpt, true);
	return 0;

err_mrs:
	xa_erase_irq(&dev->mrs, index);
err_stag:
	t3_stag_put(dev, mr->quota, mr->tpt.stag);
	return err;
}

static int dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(ibmr->device);
	struct t3_mr *mr = to_t3_mr(ibmr);

	trace_t3_mr(dev, &mr->tpt, false);
	xa_erase_irq(&dev->mrs, mr->tpt.stag >> T3_STAG_INDEX_SHIFT);
	T3_RACE_POINT(t3_dereg_mr_erased);
	/* Fails only if the card is dead, and then it reaches no memory either. */
	tpt_clear(dev, mr->tpt.stag);
	T3_RACE_POINT(t3_dereg_mr_cleared);
	pbl_put(dev, mr);
	if (mr->umem)
		t3_umem_put(mr->umem);
	t3_stag_put(dev, mr->quota, mr->tpt.stag);
	kfree(mr);
	return 0;
}

static struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt,
				 int access, struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(pd->device);
	struct t3_reg_mr_resp resp = {};
	unsigned int shift;
	struct t3_mr *mr;
	u64 pages;
	int err;

	if (access & ~T3_MR_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	if (!length || length > U32_MAX)
		return ERR_PTR(-EINVAL);
	err = t3_udata_empty(udata);
	if (err)
		return ERR_PTR(err);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->quota = to_t3_pd(pd)->quota;
	mr->umem = t3_umem_get(&dev->pdev->dev, start, length, ib_access_writable(access));
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto err_mr;
	}
	/*
	 * BIND_MW names the pages of the window itself. All that the library
	 * knows of them is where the first one is, so they must be of the size
	 * that it takes for granted.
	 */
	shift = t3_umem_page_shift(mr->umem, virt,
				   access & IB_ACCESS_MW_BIND ? PAGE_SIZE : T3_PAGE_SIZES);
	if (!shift) {
		err = -EINVAL;
		goto err_umem;
	}
	mr->tpt.page_code = shift - T3_PAGE_CODE_SHIFT;
	mr->tpt.pdid = to_t3_pd(pd)->id;
	mr->tpt.type = T3_TPT_TYPE_MR;
	mr->tpt.perms = t3_perms(access);
	mr->tpt.usable = true;
	mr->tpt.len = length;
	mr->tpt.va = virt;
	pages = t3_pages(virt, length, mr->tpt.page_code);
	if (pages > T3_MAX_PBL_PAGES) {
		err = -ENOMEM;
		goto err_umem;
	}
	err = pbl_get(dev, mr, pages);
	if (err)
		goto err_umem;
	err = pbl_write(dev, mr);
	if (err)
		goto err_pbl;
	err = mr_publish(dev, mr);
	if (err)
		goto err_pbl;

	resp.pbl_addr = mr->tpt.pbl_index;
	err = t3_udata_respond(udata, &resp, sizeof(resp));
	if (err) {
		mr->ibmr.device = pd->device;
		dereg_mr(&mr->ibmr, udata);
		return ERR_PTR(err);
	}
	return &mr->ibmr;

err_pbl:
	pbl_put(dev, mr);
err_umem:
	t3_umem_put(mr->umem);
err_mr:
	kfree(mr);
	return ERR_PTR(err);
}

T3_DEFINE_REG_USER_MR(op_reg_user_mr, reg_user_mr)

/*
 * All of memory, for kernel consumers that do not use the local DMA key. An
 * STag covers 4 GiB, so this is for small hosts only: 64 pages of 64 MiB.
 */
static struct ib_mr *get_dma_mr(struct ib_pd *pd, int access)
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
	mr->tpt.page_code = PAGE_CODE;
	mr->tpt.pdid = to_t3_pd(pd)->id;
	mr->tpt.type = T3_TPT_TYPE_MR;
	mr->tpt.perms = t3_perms(access);
	mr->tpt.usable = true;
	mr->tpt.len = U32_MAX;
	for (i = 0; i < PAGES; i++)
		list[i] = cpu_to_be64((u64)i << (T3_PAGE_CODE_SHIFT + PAGE_CODE));

	err = pbl_get(dev, mr, PAGES);
	if (err)
		goto err_mr;
	err = t3_ctrl_write(dev, mr->pbl_addr, list, sizeof(list));
	if (err)
		goto err_pbl;
	err = mr_publish(dev, mr);
	if (err)
		goto err_pbl;
	return &mr->ibmr;

err_pbl:
	pbl_put(dev, mr);
err_mr:
	kfree(mr);
	return ERR_PTR(err);
}

/* --- fast registration ----------------------------------------------------- */

static struct ib_mr *alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_num_sg)
{
	struct t3_dev *dev = to_t3_dev(pd->device);
	struct t3_mr *mr;
	int err;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > T3_MAX_FASTREG_PAGES)
		return ERR_PTR(-EINVAL);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->tpt.pdid = to_t3_pd(pd)->id;
	mr->tpt.type = T3_TPT_TYPE_MR;
	err = pbl_get(dev, mr, max_num_sg);
	if (err)
		goto err_mr;
	err = mr_publish(dev, mr);
	if (err)
		goto err_pbl;
	return &mr->ibmr;

err_pbl:
	pbl_put(dev, mr);
err_mr:
	kfree(mr);
	return ERR_PTR(err);
}

static int set_page(struct ib_mr *ibmr, u64 addr)
{
	struct t3_mr *mr = to_t3_mr(ibmr);

	if (mr->npages == mr->tpt.pbl_entries)
		return -ENOMEM;
	mr->pages[mr->npages++] = addr;
	return 0;
}

static int map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		     unsigned int *sg_offset)
{
	to_t3_mr(ibmr)->npages = 0;
	return ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, set_page);
}

/* A fast registration is being posted: what it says holds from now on. With the QP lock (irq). */
int t3_mr_fastreg(struct t3_dev *dev, struct ib_mr *ibmr, u32 key, int access,
		  struct t3_fastreg *fr)
{
	struct t3_mr *mr = to_t3_mr(ibmr);

	if (!mr->npages || ibmr->length > U32_MAX)
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
	if (fr->page_code > T3_MAX_PAGE_CODE)
		return -EINVAL;

	lockdep_assert_irqs_disabled();
	xa_lock(&dev->mrs);
	mr->tpt.stag = key;
	mr->tpt.len = fr->len;
	mr->tpt.va = fr->va;
	mr->tpt.page_code = fr->page_code;
	mr->tpt.usable = true;
	xa_unlock(&dev->mrs);
	return 0;
}

/*
 * A receive of the kernel names pages, not addresses: page size and index of
 * the first page of each entry, and the offset in it as address.
 */
int t3_mr_resolve(struct t3_dev *dev, struct t3_host_sge *sge, u8 *page_code, u32 *pbl_index)
{
	struct t3_mr *mr;
	unsigned long flags;
	int err = 0;

	xa_lock_irqsave(&dev->mrs, flags);
	mr = xa_load(&dev->mrs, sge->stag >> T3_STAG_INDEX_SHIFT);
	if (!mr || !mr->tpt.usable || sge->addr < mr->tpt.va || sge->len > mr->tpt.len ||
	    sge->addr - mr->tpt.va > mr->tpt.len - sge->len) {
		err = -EINVAL;
		goto unlock;
	}
	*page_code = mr->tpt.page_code;
	*pbl_index = mr->tpt.pbl_index +
		     t3_page_index(mr->tpt.va, sge->addr, mr->tpt.page_code);
	sge->addr &= (1ULL << (T3_PAGE_CODE_SHIFT + mr->tpt.page_code)) - 1;
unlock:
	xa_unlock_irqrestore(&dev->mrs, flags);
	return err;
}

/* No key: who may see keys gets them from ib_core. */
static int t3_mr_fill_res_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct t3_dev *dev = to_t3_dev(ibmr->device);
	struct t3_mr *mr = to_t3_mr(ibmr);
	unsigned long flags;
	struct nlattr *table;
	struct t3_tpt tpt;

	/* Fast registrations change it. */
	xa_lock_irqsave(&dev->mrs, flags);
	tpt = mr->tpt;
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

/* Bound by a request in the QP's ring, which the kernel has no verb for. */
static int alloc_mw(struct ib_mw *mw, struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(mw->device);
	struct t3_tpt tpt = {
		.pdid = to_t3_pd(mw->pd)->id,
		.type = T3_TPT_TYPE_MW,
	};
	struct t3_quota *quota = to_t3_pd(mw->pd)->quota;
	int err;

	if (mw->type != IB_MW_TYPE_1)
		return -EOPNOTSUPP;
	err = t3_udata_empty(udata);
	if (err)
		return err;
	err = t3_stag_get(dev, quota, &tpt.stag);
	if (err)
		return err;
	err = tpt_write(dev, &tpt);
	if (err) {
		t3_stag_put(dev, quota, tpt.stag);
		return err;
	}
	to_t3_mw(mw)->quota = quota;
	mw->rkey = tpt.stag;
	return 0;
}

static int dealloc_mw(struct ib_mw *mw)
{
	struct t3_dev *dev = to_t3_dev(mw->device);

	tpt_clear(dev, mw->rkey);
	t3_stag_put(dev, to_t3_mw(mw)->quota, mw->rkey);
	return 0;
}

const struct ib_device_ops t3_mr_ops = {
	.reg_user_mr	= op_reg_user_mr,
	.get_dma_mr	= get_dma_mr,
	.alloc_mr	= alloc_mr,
	.map_mr_sg	= map_mr_sg,
	.dereg_mr	= dereg_mr,
	.fill_res_mr_entry = t3_mr_fill_res_entry,
	.alloc_mw	= alloc_mw,
	.dealloc_mw	= dealloc_mw,

	INIT_RDMA_OBJ_SIZE(ib_mw, t3_mw, ibmw),
};
