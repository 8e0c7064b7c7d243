// SPDX-License-Identifier: GPL-2.0
/* Completion queues. */

#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/opa_addr.h>

#include "core_calls.h"
#include "rows.h"

static struct ib_ucq_object *uv_ucq_of(struct ib_uobject *uobj)
{
	return container_of(uobj, struct ib_ucq_object, ev.obj.base);
}

struct uv_comp_channel {
	struct uv_events *channel;
};

struct uv_create_cq {
	struct ib_uobject *cq;
	struct uv_events *channel, *async;
	u64 user_handle;
	u32 cqe, comp_vector, flags;
};

static int uv_do_create_cq(struct uv_call *call, void *args)
{
	struct uv_create_cq *a = args;
	struct ib_ucq_object *ucq = uv_ucq_of(a->cq);
	struct ib_cq_init_attr attr = {
		.cqe = a->cqe,
		.comp_vector = a->comp_vector,
		.flags = a->flags,
	};
	struct ib_cq *cq;
	int err;

	if (a->comp_vector >= call->file->base.device->num_comp_vectors)
		return -EINVAL;
	cq = rdma_zalloc_drv_obj_gfp(call->dev, ib_cq, GFP_KERNEL_ACCOUNT);
	if (!cq)
		return -ENOMEM;
	INIT_LIST_HEAD(&ucq->comp.in_queue);
	ucq->channel = uv_events_get(a->channel);
	uv_uevent_init(&ucq->ev, a->async, a->user_handle);
	cq->device = call->dev;
	cq->uobject = ucq;
	cq->comp_handler = uv_comp_handler;
	cq->event_handler = uv_cq_event;
	rdma_restrack_new(&cq->res, RDMA_RESTRACK_CQ);
	rdma_restrack_set_name(&cq->res, NULL);

	err = uv_core_create_cq(cq, &attr, &call->attrs);
	if (err) {
		rdma_restrack_put(&cq->res);
		kfree(cq);
		uv_cq_release_channel(ucq);
		uv_uevent_release(&ucq->ev);
		return err;
	}
	rdma_restrack_add(&cq->res);
	a->cq->object = cq;
	a->cqe = cq->cqe;
	return 0;
}

struct uv_resize_cq {
	struct ib_uobject *cq;
	u32 cqe;	/* also a result */
};

static int uv_do_resize_cq(struct uv_call *call, void *args)
{
	struct uv_resize_cq *a = args;
	struct ib_cq *cq = a->cq->object;
	int err;

	err = call->dev->ops.UV_OP_RESIZE_CQ(cq, a->cqe, uv_udata(call));
	a->cqe = cq->cqe;
	return err;
}

struct uv_modify_cq {
	struct ib_uobject *cq;
	u32 mask;
	struct ib_uverbs_cq_moderation moderation;
};

static int uv_do_modify_cq(struct uv_call *call, void *args)
{
	struct uv_modify_cq *a = args;

	if (!a->mask)
		return -EINVAL;
	return rdma_set_cq_moderation(a->cq->object, a->moderation.cq_count,
				      a->moderation.cq_period);
}

static void uv_wc_to_user(struct ib_uverbs_wc *to, struct ib_device *dev, const struct ib_wc *from)
{
	*to = (struct ib_uverbs_wc) {
		.wr_id = from->wr_id,
		.status = from->status,
		.opcode = from->opcode,
		.vendor_err = from->vendor_err,
		.byte_len = from->byte_len,
		.ex.imm_data = from->ex.imm_data,
		.qp_num = from->qp->qp_num,
		.src_qp = from->src_qp,
		.wc_flags = from->wc_flags,
		.pkey_index = from->pkey_index,
		.slid = rdma_cap_opa_ah(dev, from->port_num) ? OPA_TO_IB_UCAST_LID(from->slid) :
							       ib_lid_cpu16(from->slid),
		.sl = from->sl,
		.dlid_path_bits = from->dlid_path_bits,
		.port_num = from->port_num,
	};
}

struct uv_poll_cq {
	struct ib_uobject *cq;
	u32 entries;
};

/* A completion that was polled is lost if its memory is not present: see uv_enter(). */
static bool uv_can_store_wc(struct ib_uverbs_wc __user *to)
{
	return !put_user(0, (u8 __user *)to) && !put_user(0, (u8 __user *)(to + 1) - 1);
}

/* The response is a count and that many completions. */
static int uv_do_poll_cq(struct uv_call *call, void *args)
{
	struct uv_poll_cq *a = args;
	struct ib_cq *cq = a->cq->object;
	struct ib_uverbs_poll_cq_resp resp = {};
	struct ib_uverbs_wc __user *to = call->out + sizeof(resp);
	struct ib_uverbs_wc wc_user;
	struct ib_wc wc;
	int polled;

	if (copy_to_user(call->out, &resp, sizeof(resp)))
		return -EFAULT;
	while (resp.count < a->entries) {
		if (!uv_can_store_wc(&to[resp.count])) {
			if (!resp.count)
				return -EFAULT;
			break;
		}
		polled = ib_poll_cq(cq, 1, &wc);
		if (polled < 0)
			return polled;
		if (!polled)
			break;
		uv_wc_to_user(&wc_user, call->dev, &wc);
		if (copy_to_user(&to[resp.count], &wc_user, sizeof(wc_user)))
			return -EFAULT;
		resp.count++;
	}
	return copy_to_user(call->out, &resp, sizeof(resp)) ? -EFAULT : 0;
}

struct uv_notify_cq {
	struct ib_uobject *cq;
	u32 solicited_only;
};

static int uv_do_notify_cq(struct uv_call *call, void *args)
{
	struct uv_notify_cq *a = args;

	/* The ABI has no result for missed completions: the caller polls again. */
	ib_req_notify_cq(a->cq->object, a->solicited_only ? IB_CQ_SOLICITED : IB_CQ_NEXT_COMP);
	return 0;
}

struct uv_destroy_cq {
	struct ib_uobject *cq;
	/* out: */
	struct ib_uverbs_destroy_cq_resp resp;
};

/* The CQ is destroyed. libibverbs waits until the program has acknowledged this many events. */
static int uv_do_destroy_cq(struct uv_call *call, void *args)
{
	struct uv_destroy_cq *a = args;
	struct ib_ucq_object *ucq = uv_ucq_of(a->cq);

	a->resp.comp_events_reported = ucq->comp.reported;
	a->resp.async_events_reported = ucq->ev.source.base.reported;
	return 0;
}

static int uv_cq_destroy(struct ib_uobject *uobj, enum rdma_remove_reason why,
			 struct uverbs_attr_bundle *attrs)
{
	struct ib_ucq_object *ucq = uv_ucq_of(uobj);
	int err;

	err = ib_destroy_cq_user(uobj->object, &attrs->driver_udata);
	if (err)
		return err;
	uv_cq_release_channel(ucq);
	uv_uevent_release(&ucq->ev);
	return 0;
}

const struct uv_type uv_cq = {
	.name = "cq",
	.id = UVERBS_OBJECT_CQ,
	.size = UV_SIZE(struct ib_ucq_object),
	.destroy = uv_cq_destroy,
};

struct uv_row uv_cq_rows[] __ro_after_init = { {
	/* There is no handler: the dispatcher creates the event file. */
	.name = "create_comp_channel",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL),
	.flags = UV_CONTEXT,
	UV_WRITE_FIELDS(uv_comp_channel, ib_uverbs_create_comp_channel,
			ib_uverbs_create_comp_channel_resp,
			W_FD_NEW(0, fd, channel)),
}, {
	.name = "create_cq",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_CREATE_CQ),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(create_cq),
	.handler = uv_do_create_cq,
	UV_WRITE_FIELDS(uv_create_cq, ib_uverbs_create_cq, ib_uverbs_create_cq_resp,
			W_NEW(cq, cq_handle, cq),
			W_FD_OR_NONE(comp_channel, channel),
			W_IN_SPAN(user_handle, comp_vector, user_handle, comp_vector),
			W_OUT(cqe, cqe)),
}, {
	.name = "create_cq",
	UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_CREATE_CQ),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(create_cq),
	.handler = uv_do_create_cq,
	UV_WRITE_FIELDS(uv_create_cq, ib_uverbs_ex_create_cq, ib_uverbs_ex_create_cq_resp,
			W_ZERO(comp_mask),
			W_ZERO(reserved),
			W_NEW(cq, base.cq_handle, cq),
			W_FD_OR_NONE(comp_channel, channel),
			W_IN_SPAN(user_handle, comp_vector, user_handle, comp_vector),
			W_IN(flags, flags),
			W_OUT(base.cqe, cqe),
			W_OUT_LEN(response_length)),
}, {
	.name = "create_cq",
	UV_IOCTL_METHOD(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN2(create_cq, destroy_cq),
	.handler = uv_do_create_cq,
	UV_IOCTL_FIELDS(uv_create_cq,
			A_NEW(cq, UVERBS_ATTR_CREATE_CQ_HANDLE, cq),
			A_IN(UVERBS_ATTR_CREATE_CQ_CQE, cqe),
			A_IN(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, user_handle),
			A_FD(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, channel, UV_OPTIONAL),
			A_IN(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, comp_vector),
			A_FLAGS(UVERBS_ATTR_CREATE_CQ_FLAGS,
				IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION |
				IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN, flags, UV_OPTIONAL),
			A_OUT(UVERBS_ATTR_CREATE_CQ_RESP_CQE, cqe),
			A_FD(UVERBS_ATTR_CREATE_CQ_EVENT_FD, async, UV_OPTIONAL | UV_ASYNC)),
}, {
	.name = "resize_cq",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_RESIZE_CQ),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(UV_OP_RESIZE_CQ),
	.handler = uv_do_resize_cq,
	UV_WRITE_FIELDS(uv_resize_cq, ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp,
			W_OBJ(cq, UV_READ, cq_handle, cq),
			W_IN(cqe, cqe),
			W_OUT(cqe, cqe)),
}, {
	.name = "modify_cq",
	UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_MODIFY_CQ),
	UV_NEEDS_FN(modify_cq),
	.handler = uv_do_modify_cq,
	UV_WRITE_FIELDS(uv_modify_cq, ib_uverbs_ex_modify_cq, uv_none,
			W_ZERO(reserved),
			W_BITS(attr_mask, IB_CQ_MODERATE, EOPNOTSUPP),
			W_OBJ(cq, UV_READ, cq_handle, cq),
			W_IN(attr_mask, mask),
			W_IN(attr, moderation)),
}, {
	.name = "poll_cq",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_POLL_CQ),
	.flags = UV_OWN_RESPONSE,
	UV_NEEDS_FN(poll_cq),
	.handler = uv_do_poll_cq,
	UV_WRITE_FIELDS(uv_poll_cq, ib_uverbs_poll_cq, ib_uverbs_poll_cq_resp,
			W_OBJ(cq, UV_READ, cq_handle, cq),
			W_IN(ne, entries)),
}, {
	.name = "req_notify_cq",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ),
	UV_NEEDS_FN(req_notify_cq),
	.handler = uv_do_notify_cq,
	UV_WRITE_FIELDS(uv_notify_cq, ib_uverbs_req_notify_cq, uv_none,
			W_OBJ(cq, UV_READ, cq_handle, cq),
			W_IN(solicited_only, solicited_only)),
}, {
	.name = "destroy_cq",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_DESTROY_CQ),
	UV_NEEDS_FN(destroy_cq),
	.handler = uv_do_destroy_cq,
	UV_WRITE_FIELDS(uv_destroy_cq, ib_uverbs_destroy_cq, ib_uverbs_destroy_cq_resp,
			W_OBJ(cq, UV_DESTROY, cq_handle, cq),
			W_OUT_ALL(resp)),
}, {
	.name = "destroy_cq",
	UV_IOCTL_METHOD(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY),
	UV_NEEDS_FN(destroy_cq),
	.handler = uv_do_destroy_cq,
	UV_IOCTL_FIELDS(uv_destroy_cq,
			A_OBJ(cq, UV_DESTROY, UVERBS_ATTR_DESTROY_CQ_HANDLE, cq),
			A_OUT(UVERBS_ATTR_DESTROY_CQ_RESP, resp)),
}, {
	/* the end */
} };
