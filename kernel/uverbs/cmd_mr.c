// SPDX-License-Identifier: GPL-2.0
/* Memory regions and windows. */

#include <linux/slab.h>

#include <t3_race_point.h>

#include "args.h"
#include "core_calls.h"

/* The offset in the first page must be the same in the virtual address and in the IOVA. */
static bool uv_mr_same_offset(u64 start, u64 virt)
{
	return offset_in_page(start) == offset_in_page(virt);
}

/* Initializes the members that the driver does not. */
static void uv_mr_init(struct ib_mr *mr, struct ib_pd *pd, struct ib_uobject *uobj, u64 virt,
		       u64 length)
{
	mr->device = pd->device;
	mr->pd = pd;
	mr->type = IB_MR_TYPE_USER;
	mr->dm = NULL;
	mr->sig_attrs = NULL;
	mr->uobject = uobj;
	mr->iova = virt;
	mr->length = length;
	atomic_inc(&pd->usecnt);
	rdma_restrack_new(&mr->res, RDMA_RESTRACK_MR);
	rdma_restrack_set_name(&mr->res, NULL);
	rdma_restrack_add(&mr->res);
}

int uv_do_reg_mr(struct uv_call *call, void *args)
{
	struct uv_reg_mr *a = args;
	struct ib_pd *pd = a->pd->object;
	struct ib_mr *mr;
	int err;

	if (!uv_mr_same_offset(a->start, a->virt))
		return -EINVAL;
	err = ib_check_mr_access(call->dev, a->access);
	if (err)
		return err;
	mr = uv_core_reg_user_mr(pd, a->start, a->length, a->virt, a->access, uv_udata(call));
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	uv_mr_init(mr, pd, a->mr, a->virt, a->length);
	a->mr->object = mr;
	a->lkey = mr->lkey;
	a->rkey = mr->rkey;
	return 0;
}

/* The driver has created a new region. It replaces the old one under the same handle. */
static int uv_mr_replace(struct uv_call *call, struct uv_rereg_mr *a, struct ib_pd *pd,
			 struct ib_mr *mr)
{
	struct ib_mr *old = a->mr->object;
	bool moved = a->flags & IB_MR_REREG_TRANS;
	int err;

	uv_mr_init(mr, pd, a->mr, moved ? a->virt : old->iova, moved ? a->length : old->length);
	T3_RACE_POINT(uverbs_mr_replace);
	err = ib_dereg_mr_user(old, uv_no_udata(&call->attrs));
	if (err) {
		WARN_ON(ib_dereg_mr_user(mr, uv_no_udata(&call->attrs)));
		return err;
	}
	a->mr->object = mr;
	return 0;
}

int uv_do_rereg_mr(struct uv_call *call, void *args)
{
	struct uv_rereg_mr *a = args;
	struct ib_mr *mr = a->mr->object, *new;
	struct ib_pd *old_pd = mr->pd;
	struct ib_pd *pd = a->pd ? a->pd->object : old_pd;
	int err;

	if (!a->flags)
		return -EINVAL;
	if (a->flags & IB_MR_REREG_TRANS && !uv_mr_same_offset(a->start, a->virt))
		return -EINVAL;
	if (a->flags & IB_MR_REREG_ACCESS) {
		err = ib_check_mr_access(call->dev, a->access);
		if (err)
			return err;
	}
	if (pd == old_pd)
		a->flags &= ~IB_MR_REREG_PD;

	new = call->dev->ops.rereg_user_mr(mr, a->flags, a->start, a->length, a->virt, a->access,
					   pd, uv_udata(call));
	if (IS_ERR(new))
		return PTR_ERR(new);
	if (new) {
		err = uv_mr_replace(call, a, pd, new);
		if (err)
			return err;
		mr = new;
	} else {
		if (a->flags & IB_MR_REREG_PD) {
			atomic_inc(&pd->usecnt);
			WRITE_ONCE(mr->pd, pd);
			rdma_restrack_sync(&mr->res);
			atomic_dec(&old_pd->usecnt);
		}
		if (a->flags & IB_MR_REREG_TRANS) {
			mr->iova = a->virt;
			mr->length = a->length;
		}
	}
	a->lkey = mr->lkey;
	a->rkey = mr->rkey;
	return 0;
}

int uv_do_query_mr(struct uv_call *call, void *args)
{
	struct uv_query_mr *a = args;
	struct ib_mr *mr = a->mr->object;

	a->lkey = mr->lkey;
	a->rkey = mr->rkey;
	a->length = mr->length;
	a->iova = mr->iova;
	return 0;
}

static int uv_mr_destroy(struct ib_uobject *uobj, enum rdma_remove_reason why,
			 struct uverbs_attr_bundle *attrs)
{
	return ib_dereg_mr_user(uobj->object, &attrs->driver_udata);
}

const struct uv_type uv_mr = {
	.name = "mr",
	.id = UVERBS_OBJECT_MR,
	.size = UV_SIZE(struct uv_object),
	.destroy = uv_mr_destroy,
};

int uv_do_alloc_mw(struct uv_call *call, void *args)
{
	struct uv_alloc_mw *a = args;
	struct ib_pd *pd = a->pd->object;
	struct ib_mw *mw;
	int err;

	if (a->type != IB_MW_TYPE_1 && a->type != IB_MW_TYPE_2)
		return -EINVAL;
	mw = rdma_zalloc_drv_obj_gfp(call->dev, ib_mw, GFP_KERNEL_ACCOUNT);
	if (!mw)
		return -ENOMEM;
	mw->device = call->dev;
	mw->pd = pd;
	mw->uobject = a->mw;
	mw->type = a->type;
	err = call->dev->ops.alloc_mw(mw, uv_udata(call));
	if (err) {
		kfree(mw);
		return err;
	}
	atomic_inc(&pd->usecnt);
	a->mw->object = mw;
	a->rkey = mw->rkey;
	return 0;
}

static int uv_mw_destroy(struct ib_uobject *uobj, enum rdma_remove_reason why,
			 struct uverbs_attr_bundle *attrs)
{
	struct ib_mw *mw = uobj->object;
	struct ib_pd *pd = mw->pd;
	int err;

	err = mw->device->ops.dealloc_mw(mw);
	if (err)
		return err;
	atomic_dec(&pd->usecnt);
	kfree(mw);
	return 0;
}

const struct uv_type uv_mw = {
	.name = "mw",
	.id = UVERBS_OBJECT_MW,
	.size = UV_SIZE(struct uv_object),
	.destroy = uv_mw_destroy,
};
