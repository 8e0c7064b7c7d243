// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests that are posted through the kernel: for devices whose queues are
 * not mapped to user space. siw and rxe use a post without requests as a doorbell.
 *
 * The fixed part is followed by wr_count requests of wqe_size bytes each, which
 * may be longer than the structures of this version, and then by the
 * scatter/gather elements of all requests.
 */

#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <t3_copy.h>

#include "rows.h"

struct uv_post {
	struct ib_uobject *obj;
	u32 wr_count, sge_count, wqe_size;
	/* out: */
	u32 bad_wr;
};

/* The two arrays in the caller's memory. */
struct uv_post_tail {
	const void __user *wqes;
	const struct ib_uverbs_sge __user *sges;
	u32 sge_count;	/* that remain */
};

static int uv_post_read_tail(struct uv_call *call, const struct uv_post *a, size_t wqe_min,
			     struct uv_post_tail *tail)
{
	size_t wqes = size_mul(a->wqe_size, a->wr_count);
	size_t sges = size_mul(a->sge_count, sizeof(struct ib_uverbs_sge));

	if (size_add(wqes, sges) > call->tail_len)
		return -ENOSPC;
	if (a->wqe_size < wqe_min)
		return -EINVAL;
	tail->wqes = call->tail;
	tail->sges = call->tail + wqes;
	tail->sge_count = a->sge_count;
	return t3_check_zero_tail(call->tail, wqes + sges, call->tail_len);
}

/*
 * Allocates a request of this size and, behind it, its elements, which are copied from the caller.
 */
static void *uv_post_alloc_wr(struct uv_post_tail *tail, size_t size, u32 num_sge,
			      struct ib_sge **sg_list)
{
	void *wr;

	BUILD_BUG_ON(sizeof(struct ib_sge) != sizeof(struct ib_uverbs_sge));
	if (num_sge > tail->sge_count)
		return ERR_PTR(-EINVAL);
	size = ALIGN(size, sizeof(struct ib_sge));
	wr = kzalloc(size_add(size, size_mul(num_sge, sizeof(struct ib_sge))),
		     GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!wr)
		return ERR_PTR(-ENOMEM);
	*sg_list = num_sge ? wr + size : NULL;
	if (copy_from_user(wr + size, tail->sges, num_sge * sizeof(struct ib_sge))) {
		kfree(wr);
		return ERR_PTR(-EFAULT);
	}
	tail->sges += num_sge;
	tail->sge_count -= num_sge;
	return wr;
}

/* ---- send ---------------------------------------------------------------------------- */

static struct ib_send_wr *uv_ud_wr_from_user(struct uv_call *call, struct uv_post_tail *tail,
					     const struct ib_uverbs_send_wr *from,
					     struct ib_sge **sg_list)
{
	struct ib_uobject *ah;
	struct ib_ud_wr *wr;

	if (from->opcode != IB_WR_SEND && from->opcode != IB_WR_SEND_WITH_IMM)
		return ERR_PTR(-EINVAL);
	wr = uv_post_alloc_wr(tail, sizeof(*wr), from->num_sge, sg_list);
	if (IS_ERR(wr))
		return ERR_CAST(wr);
	/* One for each request, more than uv_call.held can list. uv_free_send_wrs() puts them. */
	ah = uv_object_get(call->file, &uv_ah, from->wr.ud.ah, UV_READ);
	if (IS_ERR(ah)) {
		kfree(wr);
		return ERR_CAST(ah);
	}
	wr->ah = ah->object;
	wr->remote_qpn = from->wr.ud.remote_qpn;
	wr->remote_qkey = from->wr.ud.remote_qkey;
	return &wr->wr;
}

static struct ib_send_wr *uv_rdma_wr_from_user(struct uv_post_tail *tail,
					       const struct ib_uverbs_send_wr *from,
					       struct ib_sge **sg_list)
{
	struct ib_rdma_wr *wr = uv_post_alloc_wr(tail, sizeof(*wr), from->num_sge, sg_list);

	if (IS_ERR(wr))
		return ERR_CAST(wr);
	wr->remote_addr = from->wr.rdma.remote_addr;
	wr->rkey = from->wr.rdma.rkey;
	return &wr->wr;
}

static struct ib_send_wr *uv_atomic_wr_from_user(struct uv_post_tail *tail,
						 const struct ib_uverbs_send_wr *from,
						 struct ib_sge **sg_list)
{
	struct ib_atomic_wr *wr = uv_post_alloc_wr(tail, sizeof(*wr), from->num_sge, sg_list);

	if (IS_ERR(wr))
		return ERR_CAST(wr);
	wr->remote_addr = from->wr.atomic.remote_addr;
	wr->compare_add = from->wr.atomic.compare_add;
	wr->swap = from->wr.atomic.swap;
	wr->rkey = from->wr.atomic.rkey;
	return &wr->wr;
}

static struct ib_send_wr *uv_send_wr_from_user(struct uv_call *call, bool ud,
					       struct uv_post_tail *tail,
					       const struct ib_uverbs_send_wr *from)
{
	struct ib_send_wr *wr;
	struct ib_sge *sg_list;

	if (ud) {
		wr = uv_ud_wr_from_user(call, tail, from, &sg_list);
	} else {
		switch (from->opcode) {
		case IB_WR_RDMA_WRITE:
		case IB_WR_RDMA_WRITE_WITH_IMM:
		case IB_WR_RDMA_READ:
			wr = uv_rdma_wr_from_user(tail, from, &sg_list);
			break;
		case IB_WR_ATOMIC_CMP_AND_SWP:
		case IB_WR_ATOMIC_FETCH_AND_ADD:
			wr = uv_atomic_wr_from_user(tail, from, &sg_list);
			break;
		case IB_WR_SEND:
		case IB_WR_SEND_WITH_IMM:
		case IB_WR_SEND_WITH_INV:
			wr = uv_post_alloc_wr(tail, sizeof(*wr), from->num_sge, &sg_list);
			break;
		default:
			return ERR_PTR(-EINVAL);
		}
	}
	if (IS_ERR(wr))
		return wr;
	wr->wr_id = from->wr_id;
	wr->num_sge = from->num_sge;
	wr->sg_list = sg_list;
	wr->opcode = from->opcode;
	wr->send_flags = from->send_flags;
	if (from->opcode == IB_WR_SEND_WITH_INV)
		wr->ex.invalidate_rkey = from->ex.invalidate_rkey;
	else
		wr->ex.imm_data = (__force __be32)from->ex.imm_data;
	return wr;
}

static void uv_free_send_wrs(struct ib_send_wr *wr, bool ud)
{
	struct ib_send_wr *next;

	for (; wr; wr = next) {
		next = wr->next;
		if (ud)
			uv_object_unlock(ud_wr(wr)->ah->uobject, UV_READ);
		kfree(wr);
	}
}

static int uv_do_post_send(struct uv_call *call, void *args)
{
	struct uv_post *a = args;
	struct ib_qp *qp = a->obj->object;
	bool ud = qp->qp_type == IB_QPT_UD;
	struct ib_uverbs_send_wr from;
	struct ib_send_wr *first = NULL, **link = &first, *wr;
	const struct ib_send_wr *bad = NULL;
	struct uv_post_tail tail;
	u32 i;
	int err;

	err = uv_post_read_tail(call, a, sizeof(from), &tail);
	if (err)
		return err;
	for (i = 0; i < a->wr_count; i++, tail.wqes += a->wqe_size) {
		if (copy_from_user(&from, tail.wqes, sizeof(from))) {
			err = -EFAULT;
			goto out;
		}
		wr = uv_send_wr_from_user(call, ud, &tail, &from);
		if (IS_ERR(wr)) {
			err = PTR_ERR(wr);
			goto out;
		}
		*link = wr;
		link = &wr->next;
	}
	err = call->dev->ops.post_send(qp->real_qp, first, &bad);
	call->respond_on_error = true;
	for (wr = err ? first : NULL; wr; wr = wr->next) {
		a->bad_wr++;
		if (wr == bad)
			break;
	}
out:
	uv_free_send_wrs(first, ud);
	return err;
}

/* ---- receive --------------------------------------------------------------------------- */

static void uv_free_recv_wrs(struct ib_recv_wr *wr)
{
	struct ib_recv_wr *next;

	for (; wr; wr = next) {
		next = wr->next;
		kfree(wr);
	}
}

static struct ib_recv_wr *uv_read_recv_wrs(struct uv_call *call, const struct uv_post *a)
{
	struct ib_uverbs_recv_wr from;
	struct ib_recv_wr *first = NULL, **link = &first, *wr;
	struct ib_sge *sg_list;
	struct uv_post_tail tail;
	u32 i;
	int err;

	err = uv_post_read_tail(call, a, sizeof(from), &tail);
	if (err)
		return ERR_PTR(err);
	for (i = 0; i < a->wr_count; i++, tail.wqes += a->wqe_size) {
		if (copy_from_user(&from, tail.wqes, sizeof(from))) {
			err = -EFAULT;
			goto err_free;
		}
		wr = uv_post_alloc_wr(&tail, sizeof(*wr), from.num_sge, &sg_list);
		if (IS_ERR(wr)) {
			err = PTR_ERR(wr);
			goto err_free;
		}
		wr->wr_id = from.wr_id;
		wr->num_sge = from.num_sge;
		wr->sg_list = sg_list;
		*link = wr;
		link = &wr->next;
	}
	return first;

err_free:
	uv_free_recv_wrs(first);
	return ERR_PTR(err);
}

static u32 uv_recv_wr_position(const struct ib_recv_wr *wr, const struct ib_recv_wr *bad)
{
	u32 count = 0;

	for (; wr; wr = wr->next) {
		count++;
		if (wr == bad)
			break;
	}
	return count;
}

static int uv_do_post_recv(struct uv_call *call, void *args)
{
	struct uv_post *a = args;
	struct ib_qp *qp = a->obj->object;
	struct ib_recv_wr *first = uv_read_recv_wrs(call, a);
	const struct ib_recv_wr *bad = NULL;
	int err;

	if (IS_ERR(first))
		return PTR_ERR(first);
	err = call->dev->ops.post_recv(qp->real_qp, first, &bad);
	call->respond_on_error = true;
	if (err)
		a->bad_wr = uv_recv_wr_position(first, bad);
	uv_free_recv_wrs(first);
	return err;
}

static int uv_do_post_srq_recv(struct uv_call *call, void *args)
{
	struct uv_post *a = args;
	struct ib_recv_wr *first = uv_read_recv_wrs(call, a);
	const struct ib_recv_wr *bad = NULL;
	int err;

	if (IS_ERR(first))
		return PTR_ERR(first);
	err = call->dev->ops.post_srq_recv(a->obj->object, first, &bad);
	call->respond_on_error = true;
	if (err)
		a->bad_wr = uv_recv_wr_position(first, bad);
	uv_free_recv_wrs(first);
	return err;
}

struct uv_row uv_post_rows[] __ro_after_init = { {
	.name = "post_send",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_POST_SEND),
	.flags = UV_TAIL,
	UV_NEEDS_FN(post_send),
	.handler = uv_do_post_send,
	UV_WRITE_FIELDS(uv_post, ib_uverbs_post_send, ib_uverbs_post_send_resp,
			W_OBJ(qp, UV_READ, qp_handle, obj),
			W_IN_SPAN(wr_count, wqe_size, wr_count, wqe_size),
			W_OUT(bad_wr, bad_wr)),
}, {
	.name = "post_recv",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_POST_RECV),
	.flags = UV_TAIL,
	UV_NEEDS_FN(post_recv),
	.handler = uv_do_post_recv,
	UV_WRITE_FIELDS(uv_post, ib_uverbs_post_recv, ib_uverbs_post_recv_resp,
			W_OBJ(qp, UV_READ, qp_handle, obj),
			W_IN_SPAN(wr_count, wqe_size, wr_count, wqe_size),
			W_OUT(bad_wr, bad_wr)),
}, {
	.name = "post_srq_recv",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_POST_SRQ_RECV),
	.flags = UV_TAIL,
	UV_NEEDS_FN(post_srq_recv),
	.handler = uv_do_post_srq_recv,
	UV_WRITE_FIELDS(uv_post, ib_uverbs_post_srq_recv, ib_uverbs_post_srq_recv_resp,
			W_OBJ(srq, UV_READ, srq_handle, obj),
			W_IN_SPAN(wr_count, wqe_size, wr_count, wqe_size),
			W_OUT(bad_wr, bad_wr)),
}, {
	/* the end */
} };
