// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues, of siw and rxe. T3 has none. */

#include "core_calls.h"
#include "rows.h"

struct uv_create_srq {
	struct ib_uobject *srq, *pd;
	struct uv_events *async;
	u64 user_handle;
	u32 max_wr, max_sge, limit;	/* max_wr and max_sge are also results */
	u32 type;
};

static int uv_do_create_srq(struct uv_call *call, void *args)
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
	uv_uevent_init(&usrq->ev, a->async, a->user_handle);
	srq = ib_create_srq_user(a->pd->object, &attr, usrq, uv_udata(call));
	if (IS_ERR(srq)) {
		uv_uevent_release(&usrq->ev);
		return PTR_ERR(srq);
	}
	a->srq->object = srq;
	a->max_wr = attr.attr.max_wr;
	a->max_sge = attr.attr.max_sge;
	return 0;
}

struct uv_modify_srq {
	struct ib_uobject *srq;
	u32 mask, max_wr, limit;
};

static int uv_do_modify_srq(struct uv_call *call, void *args)
{
	struct uv_modify_srq *a = args;
	struct ib_srq_attr attr = { .max_wr = a->max_wr, .srq_limit = a->limit };

	return call->dev->ops.modify_srq(a->srq->object, &attr, a->mask, uv_udata(call));
}

struct uv_query_srq {
	struct ib_uobject *srq;
	/* out: */
	struct ib_uverbs_query_srq_resp resp;
};

static int uv_do_query_srq(struct uv_call *call, void *args)
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
	uv_uevent_release(uv_uevent_of(uobj));
	return 0;
}

const struct uv_type uv_srq = {
	.name = "srq",
	.id = UVERBS_OBJECT_SRQ,
	.size = UV_SIZE(struct ib_usrq_object),
	.destroy = uv_srq_destroy,
};

struct uv_row uv_srq_rows[] __ro_after_init = { {
	.name = "create_srq",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_CREATE_SRQ),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(create_srq),
	.handler = uv_do_create_srq,
	UV_WRITE_FIELDS(uv_create_srq, ib_uverbs_create_srq, ib_uverbs_create_srq_resp,
			W_NEW(srq, srq_handle, srq),
			W_OBJ(pd, UV_READ, pd_handle, pd),
			W_IN(user_handle, user_handle),
			W_IN_SPAN(max_wr, srq_limit, max_wr, limit),
			W_OUT_SPAN(max_wr, max_sge, max_wr, max_sge)),
}, {
	.name = "create_xsrq",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_CREATE_XSRQ),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(create_srq),
	.handler = uv_do_create_srq,
	UV_WRITE_FIELDS(uv_create_srq, ib_uverbs_create_xsrq, ib_uverbs_create_srq_resp,
			W_NEW(srq, srq_handle, srq),
			W_OBJ(pd, UV_READ, pd_handle, pd),
			W_IN(user_handle, user_handle),
			W_IN(srq_type, type),
			W_IN_SPAN(max_wr, srq_limit, max_wr, limit),
			W_OUT_SPAN(max_wr, max_sge, max_wr, max_sge)),
}, {
	.name = "create_srq",
	UV_IOCTL_METHOD(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN2(create_srq, destroy_srq),
	.handler = uv_do_create_srq,
	UV_IOCTL_FIELDS(uv_create_srq,
			A_NEW(srq, UVERBS_ATTR_CREATE_SRQ_HANDLE, srq),
			A_OBJ(pd, UV_READ, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, pd),
			A_IN(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, user_handle),
			A_IN(UVERBS_ATTR_CREATE_SRQ_MAX_WR, max_wr),
			A_IN(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, max_sge),
			A_IN(UVERBS_ATTR_CREATE_SRQ_LIMIT, limit),
			A_CONST(UVERBS_ATTR_CREATE_SRQ_TYPE, type),
			A_FD(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, async, UV_OPTIONAL | UV_ASYNC),
			A_OUT(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, max_wr),
			A_OUT(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, max_sge)),
}, {
	.name = "modify_srq",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_MODIFY_SRQ),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(modify_srq),
	.handler = uv_do_modify_srq,
	UV_WRITE_FIELDS(uv_modify_srq, ib_uverbs_modify_srq, uv_none,
			W_OBJ(srq, UV_READ, srq_handle, srq),
			W_IN_SPAN(attr_mask, srq_limit, mask, limit)),
}, {
	.name = "query_srq",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_QUERY_SRQ),
	UV_NEEDS_FN(query_srq),
	.handler = uv_do_query_srq,
	UV_WRITE_FIELDS(uv_query_srq, ib_uverbs_query_srq, ib_uverbs_query_srq_resp,
			W_OBJ(srq, UV_READ, srq_handle, srq),
			W_OUT_ALL(resp)),
}, {
	.name = "destroy_srq",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_DESTROY_SRQ),
	UV_NEEDS_FN(destroy_srq),
	.handler = uv_do_destroy_uevent,
	UV_WRITE_FIELDS(uv_destroy_uevent, ib_uverbs_destroy_srq, ib_uverbs_destroy_srq_resp,
			W_OBJ(srq, UV_DESTROY, srq_handle, obj),
			W_OUT(events_reported, reported)),
}, {
	.name = "destroy_srq",
	UV_IOCTL_METHOD(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY),
	UV_NEEDS_FN(destroy_srq),
	.handler = uv_do_destroy_uevent,
	UV_IOCTL_FIELDS(uv_destroy_uevent,
			A_OBJ(srq, UV_DESTROY, UVERBS_ATTR_DESTROY_SRQ_HANDLE, obj),
			A_OUT(UVERBS_ATTR_DESTROY_SRQ_RESP, reported)),
}, {
	/* the end */
} };
