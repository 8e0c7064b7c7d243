// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues, of siw and rxe. T3 has none. */

#include "args.h"
#include "core_calls.h"

int uv_do_create_srq(struct uv_call *call, void *args)
{
	struct uv_create_srq *a = args;
	struct ib_usrq_object *usrq = container_of(a->srq, struct ib_usrq_object, ev.obj.base);
	struct ib_srq_init_attr attr = {
		.event_handler = uv_srq_event,
		.srq_type = a->type,
		.attr.max_wr = a->max_wr,
		.attr.max_sge = a->max_sge,
		.attr.srq_limit = a->limit,
	};
	struct ib_srq *srq;

	/* There are no XRC domains, and no device supports tag matching. */
	if (a->type != IB_SRQT_BASIC)
		return a->type == IB_SRQT_XRC ? -EINVAL : -EOPNOTSUPP;
	uv_evented_init(&usrq->ev, a->async, a->user_handle);
	srq = ib_create_srq_user(a->pd->object, &attr, usrq, uv_udata(call));
	if (IS_ERR(srq)) {
		uv_evented_release(&usrq->ev);
		return PTR_ERR(srq);
	}
	a->srq->object = srq;
	a->max_wr = attr.attr.max_wr;
	a->max_sge = attr.attr.max_sge;
	return 0;
}

int uv_do_modify_srq(struct uv_call *call, void *args)
{
	struct uv_modify_srq *a = args;
	struct ib_srq_attr attr = { .max_wr = a->max_wr, .srq_limit = a->limit };

	return call->dev->ops.modify_srq(a->srq->object, &attr, a->mask, uv_udata(call));
}

int uv_do_query_srq(struct uv_call *call, void *args)
{
	struct uv_query_srq *a = args;
	struct ib_srq_attr attr = {};
	int err;

	err = ib_query_srq(a->srq->object, &attr);
	if (err)
		return err;
	a->resp.max_wr = attr.max_wr;
	a->resp.max_sge = attr.max_sge;
	a->resp.srq_limit = attr.srq_limit;
	return 0;
}

static int uv_srq_destroy(struct ib_uobject *uobj, enum rdma_remove_reason why,
			  struct uverbs_attr_bundle *attrs)
{
	int err;

	err = ib_destroy_srq_user(uobj->object, &attrs->driver_udata);
	if (err)
		return err;
	uv_evented_release(uv_evented_of(uobj));
	return 0;
}

const struct uv_type uv_srq = {
	.name = "srq",
	.id = UVERBS_OBJECT_SRQ,
	.size = UV_SIZE(struct ib_usrq_object),
	.destroy = uv_srq_destroy,
};
