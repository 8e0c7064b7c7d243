// SPDX-License-Identifier: GPL-2.0
/* Completion queues. */

#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/opa_addr.h>

#include "args.h"
#include "core_calls.h"

static struct ib_ucq_object *uv_ucq_of(struct ib_uobject *uobj)
{
	return container_of(uobj, struct ib_ucq_object, ev.obj.base);
}

int uv_do_create_cq(struct uv_call *call, void *args)
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
	uv_evented_init(&ucq->ev, a->async, a->user_handle);
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
		uv_evented_release(&ucq->ev);
		return err;
	}
	rdma_restrack_add(&cq->res);
	a->cq->object = cq;
	a->cqe = cq->cqe;
	return 0;
}

int uv_do_resize_cq(struct uv_call *call, void *args)
{
	struct uv_resize_cq *a = args;
	struct ib_cq *cq = a->cq->object;
	int err;

	err = call->dev->ops.UV_OP_RESIZE_CQ(cq, a->cqe, uv_udata(call));
	a->cqe = cq->cqe;
	return err;
}

int uv_do_modify_cq(struct uv_call *call, void *args)
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

/* The response is a count and that many completions. */
int uv_do_poll_cq(struct uv_call *call, void *args)
{
	struct uv_poll_cq *a = args;
	struct ib_cq *cq = a->cq->object;
	struct ib_uverbs_poll_cq_resp resp = {};
	struct ib_uverbs_wc __user *to = call->out + sizeof(resp);
	struct ib_uverbs_wc wc_user;
	struct ib_wc wc;
	int polled;

	while (resp.count < a->entries) {
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

int uv_do_notify_cq(struct uv_call *call, void *args)
{
	struct uv_notify_cq *a = args;

	/* The ABI has no result for missed completions: the caller polls again. */
	ib_req_notify_cq(a->cq->object, a->solicited_only ? IB_CQ_SOLICITED : IB_CQ_NEXT_COMP);
	return 0;
}

/* The CQ is destroyed. libibverbs waits until the program has acknowledged this many events. */
int uv_do_destroy_cq(struct uv_call *call, void *args)
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
	uv_evented_release(&ucq->ev);
	return 0;
}

const struct uv_type uv_cq = {
	.name = "cq",
	.id = UVERBS_OBJECT_CQ,
	.size = UV_SIZE(struct ib_ucq_object),
	.destroy = uv_cq_destroy,
};
