// SPDX-License-Identifier: GPL-2.0
/* Protection domains. */

#include <linux/slab.h>

#include "core_calls.h"
#include "rows.h"

struct uv_alloc_pd {
	struct ib_uobject *pd;
};

static int uv_do_alloc_pd(struct uv_call *call, void *args)
{
	struct uv_alloc_pd *a = args;
	struct ib_pd *pd;
	int err;

	pd = rdma_zalloc_drv_obj_gfp(call->dev, ib_pd, GFP_KERNEL_ACCOUNT);
	if (!pd)
		return -ENOMEM;
	pd->device = call->dev;
	pd->uobject = a->pd;
	rdma_restrack_new(&pd->res, RDMA_RESTRACK_PD);
	rdma_restrack_set_name(&pd->res, NULL);

	err = call->dev->ops.alloc_pd(pd, uv_udata(call));
	if (err) {
		rdma_restrack_put(&pd->res);
		kfree(pd);
		return err;
	}
	rdma_restrack_add(&pd->res);
	a->pd->object = pd;
	return 0;
}

static int uv_pd_destroy(struct ib_uobject *uobj, enum rdma_remove_reason why,
			 struct uverbs_attr_bundle *attrs)
{
	struct ib_pd *pd = uobj->object;

	if (atomic_read(&pd->usecnt))
		return -EBUSY;
	return ib_dealloc_pd_user(pd, &attrs->driver_udata);
}

const struct uv_type uv_pd = {
	.name = "pd",
	.id = UVERBS_OBJECT_PD,
	.size = UV_SIZE(struct uv_object),
	.destroy = uv_pd_destroy,
};

struct uv_row uv_pd_rows[] __ro_after_init = { {
	.name = "alloc_pd",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_ALLOC_PD),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(alloc_pd),
	.handler = uv_do_alloc_pd,
	UV_WRITE_FIELDS(uv_alloc_pd, ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp,
			W_NEW(pd, pd_handle, pd)),
}, {
	.name = "dealloc_pd",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_DEALLOC_PD),
	UV_NEEDS_FN(dealloc_pd),
	UV_WRITE_FIELDS(uv_destroy, ib_uverbs_dealloc_pd, uv_none,
			W_OBJ(pd, UV_DESTROY, pd_handle, obj)),
}, {
	.name = "dealloc_pd",
	UV_IOCTL_METHOD(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY),
	UV_NEEDS_FN(dealloc_pd),
	UV_IOCTL_FIELDS(uv_destroy,
			A_OBJ(pd, UV_DESTROY, UVERBS_ATTR_DESTROY_PD_HANDLE, obj)),
}, {
	/* the end */
} };
