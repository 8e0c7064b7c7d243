// SPDX-License-Identifier: GPL-2.0
/*
 * An RDMA device that does nothing: its functions return at once, and its objects
 * have only the part of ib_core. So a command on it has the cost of the dispatcher
 * and of ib_core. It reports the driver number of rxe, so that t3_uverbs serves it,
 * as ib_uverbs does.
 */

#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

/* ib_core allocates these; each begins with its own part. */
struct null_device {
	struct ib_device base;
};

struct null_context {
	struct ib_ucontext base;
};

struct null_pd {
	struct ib_pd base;
};

struct null_cq {
	struct ib_cq base;
};

struct null_qp {
	struct ib_qp base;
};

static struct null_device *null_device;

static int null_query_device(struct ib_device *dev, struct ib_device_attr *attr,
			     struct ib_udata *udata)
{
	return 0;
}

static int null_query_port(struct ib_device *dev, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->gid_tbl_len = 1;
	return 0;
}

static int null_query_gid(struct ib_device *dev, u32 port, int index, union ib_gid *gid)
{
	*gid = (union ib_gid){};
	return 0;
}

static int null_port_immutable(struct ib_device *dev, u32 port, struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = 1;
	return 0;
}

static int null_alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	return 0;
}

static void null_dealloc_ucontext(struct ib_ucontext *context)
{
}

static int null_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int null_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static struct ib_mr *null_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt, int access,
				      struct ib_udata *udata)
{
	struct ib_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	return mr ?: ERR_PTR(-ENOMEM);
}

static int null_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	kfree(mr);
	return 0;
}

static int null_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
			  struct ib_udata *udata)
{
	cq->cqe = attr->cqe;
	return 0;
}

static int null_destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	return 0;
}

static int null_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	static u32 number = 1;

	qp->qp_num = ++number & 0xffffff;
	return 0;
}

static int null_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
			  struct ib_udata *udata)
{
	return 0;
}

static int null_destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	return 0;
}

static const struct ib_device_ops null_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_RXE,
	.uverbs_abi_ver = 1,
	.query_device = null_query_device,
	.query_port = null_query_port,
	.query_gid = null_query_gid,
	.get_port_immutable = null_port_immutable,
	.alloc_ucontext = null_alloc_ucontext,
	.dealloc_ucontext = null_dealloc_ucontext,
	.alloc_pd = null_alloc_pd,
	.dealloc_pd = null_dealloc_pd,
	.reg_user_mr = null_reg_user_mr,
	.dereg_mr = null_dereg_mr,
	.create_cq = null_create_cq,
	.destroy_cq = null_destroy_cq,
	.create_qp = null_create_qp,
	.modify_qp = null_modify_qp,
	.destroy_qp = null_destroy_qp,
	INIT_RDMA_OBJ_SIZE(ib_ucontext, null_context, base),
	INIT_RDMA_OBJ_SIZE(ib_pd, null_pd, base),
	INIT_RDMA_OBJ_SIZE(ib_cq, null_cq, base),
	INIT_RDMA_OBJ_SIZE(ib_qp, null_qp, base),
};

static int __init null_init(void)
{
	int err;

	null_device = ib_alloc_device(null_device, base);
	if (!null_device)
		return -ENOMEM;
	null_device->base.node_type = RDMA_NODE_UNSPECIFIED;
	null_device->base.phys_port_cnt = 1;
	null_device->base.num_comp_vectors = 1;
	ib_set_device_ops(&null_device->base, &null_ops);
	err = ib_register_device(&null_device->base, "null%d", NULL);
	if (err)
		ib_dealloc_device(&null_device->base);
	return err;
}

static void __exit null_exit(void)
{
	ib_unregister_device(&null_device->base);
	ib_dealloc_device(&null_device->base);
}

module_init(null_init);
module_exit(null_exit);

MODULE_DESCRIPTION("RDMA device that does nothing, for bench-uverbs");
MODULE_LICENSE("GPL");
