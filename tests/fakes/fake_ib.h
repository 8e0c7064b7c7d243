/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An RDMA device without hardware, registered with the real ib_core. Its functions return at once,
 * and its objects have only the part of ib_core. Work requests are dropped.
 *
 * A module includes this file in one of its own. It replaces functions by the struct ib_device_ops
 * that it sets before fake_ib_register(): ib_set_device_ops() keeps what was set first. With
 * FAKE_WATCHED it also learns of each object. That is decided by the compiler, so that a benchmark
 * without it has no cost.
 */
#ifndef T3_FAKE_IB_H
#define T3_FAKE_IB_H

#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

#include "../../kernel/include/t3_compat_verbs.h"

enum fake_kind {
	FAKE_CTX, FAKE_PD, FAKE_MR, FAKE_MW, FAKE_CQ, FAKE_QP, FAKE_SRQ, FAKE_AH, FAKE_KINDS
};

/* Functions of the module. An error of theirs is that of the call. */
#ifdef FAKE_WATCHED
static int fake_created(struct ib_device *ib, enum fake_kind kind, void *object,
			struct ib_udata *udata);
static int fake_destroyed(struct ib_device *ib, enum fake_kind kind);
#else
static inline int fake_created(struct ib_device *ib, enum fake_kind kind, void *object,
			       struct ib_udata *udata)
{
	return 0;
}

static inline int fake_destroyed(struct ib_device *ib, enum fake_kind kind)
{
	return 0;
}
#endif

static int fake_query_device(struct ib_device *ib, struct ib_device_attr *attr,
			     struct ib_udata *udata)
{
	attr->max_qp = 1234;
	attr->max_qp_wr = 1000;
	attr->max_cq = 1000;
	attr->max_cqe = 100000;
	attr->max_mr = 1000;
	attr->max_pd = 1000;
	attr->max_send_sge = 4;
	attr->max_recv_sge = 4;
	attr->max_qp_rd_atom = 4;
	attr->max_qp_init_rd_atom = 4;
	return 0;
}

static int fake_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->gid_tbl_len = 1;
	return 0;
}

static int fake_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	/* Not iWARP, for which ib_core needs a network interface. */
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_RAW_PACKET;
	immutable->gid_tbl_len = 1;
	return 0;
}

static int fake_query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0x42, sizeof(*gid));
	return 0;
}

static int fake_alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	return fake_created(context->device, FAKE_CTX, context, udata);
}

static void fake_dealloc_ucontext(struct ib_ucontext *context)
{
	fake_destroyed(context->device, FAKE_CTX);
}

static int fake_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return fake_created(pd->device, FAKE_PD, pd, udata);
}

static int fake_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return fake_destroyed(pd->device, FAKE_PD);
}

static struct ib_mr *fake_new_mr(struct ib_device *ib)
{
	static atomic_t keys = ATOMIC_INIT(0x1000);
	struct ib_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	int err = mr ? fake_created(ib, FAKE_MR, mr, NULL) : -ENOMEM;

	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	mr->lkey = atomic_inc_return(&keys);
	mr->rkey = mr->lkey;
	return mr;
}

static struct ib_mr *fake_get_dma_mr(struct ib_pd *pd, int access)
{
	return fake_new_mr(pd->device);
}

static struct ib_mr *fake_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt, int access,
				      struct ib_udata *udata)
{
	return fake_new_mr(pd->device);
}

T3_DEFINE_REG_USER_MR(fake_op_reg_user_mr, fake_reg_user_mr)

static int fake_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	int err = fake_destroyed(mr->device, FAKE_MR);

	if (!err)
		kfree(mr);
	return err;
}

static int fake_alloc_mw(struct ib_mw *mw, struct ib_udata *udata)
{
	return fake_created(mw->device, FAKE_MW, mw, udata);
}

static int fake_dealloc_mw(struct ib_mw *mw)
{
	return fake_destroyed(mw->device, FAKE_MW);
}

static int fake_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
			  struct ib_udata *udata)
{
	cq->cqe = attr->cqe;
	return fake_created(cq->device, FAKE_CQ, cq, udata);
}

T3_DEFINE_CREATE_CQ(fake_op_create_cq, fake_create_cq)

static int fake_destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	return fake_destroyed(cq->device, FAKE_CQ);
}

static int fake_poll_cq(struct ib_cq *cq, int most, struct ib_wc *wc)
{
	return 0;
}

static int fake_req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	return 0;
}

static int fake_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	static atomic_t number = ATOMIC_INIT(1);

	qp->qp_num = atomic_inc_return(&number) & 0xffffff;
	return fake_created(qp->device, FAKE_QP, qp, udata);
}

static int fake_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
			  struct ib_udata *udata)
{
	return 0;
}

static int fake_query_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
			 struct ib_qp_init_attr *init)
{
	attr->qp_state = IB_QPS_RTS;
	return 0;
}

static int fake_destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	return fake_destroyed(qp->device, FAKE_QP);
}

static int fake_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			  const struct ib_send_wr **bad)
{
	return 0;
}

static int fake_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
			  const struct ib_recv_wr **bad)
{
	return 0;
}

static const struct ib_device_ops fake_ib_ops = {
	.owner = THIS_MODULE,
	.query_device = fake_query_device,
	.query_port = fake_query_port,
	.get_port_immutable = fake_port_immutable,
	.query_gid = fake_query_gid,
	.alloc_ucontext = fake_alloc_ucontext,
	.dealloc_ucontext = fake_dealloc_ucontext,
	.alloc_pd = fake_alloc_pd,
	.dealloc_pd = fake_dealloc_pd,
	.get_dma_mr = fake_get_dma_mr,
	.reg_user_mr = fake_op_reg_user_mr,
	.dereg_mr = fake_dereg_mr,
	.alloc_mw = fake_alloc_mw,
	.dealloc_mw = fake_dealloc_mw,
	.create_cq = fake_op_create_cq,
	.destroy_cq = fake_destroy_cq,
	.poll_cq = fake_poll_cq,
	.req_notify_cq = fake_req_notify_cq,
	.create_qp = fake_create_qp,
	.modify_qp = fake_modify_qp,
	.query_qp = fake_query_qp,
	.destroy_qp = fake_destroy_qp,
	.post_send = fake_post_send,
	.post_recv = fake_post_recv,
	.size_ib_cq = sizeof(struct ib_cq),
	.size_ib_mw = sizeof(struct ib_mw),
	.size_ib_pd = sizeof(struct ib_pd),
	.size_ib_qp = sizeof(struct ib_qp),
	.size_ib_ucontext = sizeof(struct ib_ucontext),
};

static void fake_disassociate_ucontext(struct ib_ucontext *context)
{
}

/* With it removal does not wait for open files. */
static const struct ib_device_ops __maybe_unused fake_removable_ops = {
	.disassociate_ucontext = fake_disassociate_ucontext,
};

/* An iWARP device has a net device before. */
static int fake_ib_register(struct ib_device *ib, const char *name)
{
	ib_set_device_ops(ib, &fake_ib_ops);
	ib->node_type = RDMA_NODE_RNIC;
	ib->phys_port_cnt = 1;
	ib->num_comp_vectors = 2;
	ib->uverbs_cmd_mask = ~0ULL;
	return ib_register_device(ib, name, NULL);
}

#endif
