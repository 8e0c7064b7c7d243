// SPDX-License-Identifier: GPL-2.0
/* Memory regions and windows. */

#include <linux/slab.h>

#include "core_calls.h"
#include "rows.h"

/* The offset in the first page must be the same in the virtual address and in the IOVA. */
static bool uv_mr_same_offset(u64 start, u64 virt)
{
	return offset_in_page(start) == offset_in_page(virt);
}

/*
 * Initializes the members that the driver does not, counts the PD's user, and adds the MR to
 * resource tracking.
 */
static void uv_mr_publish(struct ib_mr *mr, struct ib_pd *pd, struct ib_uobject *uobj, u64 virt,
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

struct uv_reg_mr {
	struct ib_uobject *mr, *pd;
	u64 start, length, virt;
	u32 access;
	/* out: */
	u32 lkey, rkey;
};

static int uv_do_reg_mr(struct uv_call *call, void *args)
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
	uv_mr_publish(mr, pd, a->mr, a->virt, a->length);
	a->mr->object = mr;
	a->lkey = mr->lkey;
	a->rkey = mr->rkey;
	return 0;
}

struct uv_rereg_mr {
	struct ib_uobject *mr, *pd;
	u32 flags;
	u64 start, length, virt;
	u32 access;
	/* out: */
	u32 lkey, rkey;
};

/* The driver has created a new region. It replaces the old one under the same handle. */
static int uv_mr_replace(struct uv_call *call, struct uv_rereg_mr *a, struct ib_pd *pd,
			 struct ib_mr *mr)
{
	struct ib_mr *old = a->mr->object;
	bool moved = a->flags & IB_MR_REREG_TRANS;
	int err;

	uv_mr_publish(mr, pd, a->mr, moved ? a->virt : old->iova,
		      moved ? a->length : old->length);
	err = ib_dereg_mr_user(old, uv_no_udata(&call->attrs));
	if (err) {
		WARN_ON(ib_dereg_mr_user(mr, uv_no_udata(&call->attrs)));
		return err;
	}
	a->mr->object = mr;
	return 0;
}

static int uv_do_rereg_mr(struct uv_call *call, void *args)
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

static bool uv_rereg_has_pd(const void *request)
{
	return ((const struct ib_uverbs_rereg_mr *)request)->flags & IB_MR_REREG_PD;
}

struct uv_query_mr {
	struct ib_uobject *mr;
	/* out: */
	u32 lkey, rkey;
	u64 length, iova;
};

static int uv_do_query_mr(struct uv_call *call, void *args)
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

struct uv_alloc_mw {
	struct ib_uobject *mw, *pd;
	u8 type;
	/* out: */
	u32 rkey;
};

static int uv_do_alloc_mw(struct uv_call *call, void *args)
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

struct uv_row uv_mr_rows[] __ro_after_init = { {
	.name = "reg_mr",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_REG_MR),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(reg_user_mr),
	.handler = uv_do_reg_mr,
	UV_WRITE_FIELDS(uv_reg_mr, ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp,
			W_NEW(mr, mr_handle, mr),
			W_OBJ(pd, UV_READ, pd_handle, pd),
			W_IN_SPAN(start, hca_va, start, virt),
			W_IN(access_flags, access),
			W_OUT_SPAN(lkey, rkey, lkey, rkey)),
}, {
	.name = "rereg_mr",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_REREG_MR),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(rereg_user_mr),
	.handler = uv_do_rereg_mr,
	UV_WRITE_FIELDS(uv_rereg_mr, ib_uverbs_rereg_mr, ib_uverbs_rereg_mr_resp,
			W_BITS(flags, IB_MR_REREG_SUPPORTED, EOPNOTSUPP),
			W_OBJ(mr, UV_WRITE, mr_handle, mr),
			W_OBJ_WHEN(uv_rereg_has_pd, pd, UV_READ, pd_handle, pd),
			W_IN(flags, flags),
			W_IN_SPAN(start, hca_va, start, virt),
			W_IN(access_flags, access),
			W_OUT_SPAN(lkey, rkey, lkey, rkey)),
}, {
	.name = "query_mr",
	UV_IOCTL_METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR),
	.handler = uv_do_query_mr,
	UV_IOCTL_FIELDS(uv_query_mr,
			A_OBJ(mr, UV_READ, UVERBS_ATTR_QUERY_MR_HANDLE, mr),
			A_OUT(UVERBS_ATTR_QUERY_MR_RESP_LKEY, lkey),
			A_OUT(UVERBS_ATTR_QUERY_MR_RESP_RKEY, rkey),
			A_OUT(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, length),
			A_OUT(UVERBS_ATTR_QUERY_MR_RESP_IOVA, iova, UV_OPTIONAL)),
}, {
	.name = "dereg_mr",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_DEREG_MR),
	UV_NEEDS_FN(dereg_mr),
	UV_WRITE_FIELDS(uv_destroy, ib_uverbs_dereg_mr, uv_none,
			W_OBJ(mr, UV_DESTROY, mr_handle, obj)),
}, {
	.name = "dereg_mr",
	UV_IOCTL_METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY),
	UV_NEEDS_FN(dereg_mr),
	UV_IOCTL_FIELDS(uv_destroy,
			A_OBJ(mr, UV_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE, obj)),
}, {
	.name = "alloc_mw",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_ALLOC_MW),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(alloc_mw),
	.handler = uv_do_alloc_mw,
	UV_WRITE_FIELDS(uv_alloc_mw, ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp,
			W_NEW(mw, mw_handle, mw),
			W_OBJ(pd, UV_READ, pd_handle, pd),
			W_IN(mw_type, type),
			W_OUT(rkey, rkey)),
}, {
	.name = "dealloc_mw",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_DEALLOC_MW),
	UV_NEEDS_FN(dealloc_mw),
	UV_WRITE_FIELDS(uv_destroy, ib_uverbs_dealloc_mw, uv_none,
			W_OBJ(mw, UV_DESTROY, mw_handle, obj)),
}, {
	.name = "dealloc_mw",
	UV_IOCTL_METHOD(UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY),
	UV_NEEDS_FN(dealloc_mw),
	UV_IOCTL_FIELDS(uv_destroy,
			A_OBJ(mw, UV_DESTROY, UVERBS_ATTR_DESTROY_MW_HANDLE, obj)),
}, {
	/* the end */
} };
