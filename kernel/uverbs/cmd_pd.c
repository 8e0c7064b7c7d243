// SPDX-License-Identifier: GPL-2.0
/* Protection domains. */

#include <linux/slab.h>

#include "args.h"
#include "core_calls.h"

int uv_do_alloc_pd(struct uv_call *call, void *args)
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
