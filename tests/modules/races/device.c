// SPDX-License-Identifier: GPL-2.0
/*
 * The verbs of the device without hardware. Its objects are those of ib_core, and are counted.
 * It supports disassociate_ucontext(), as a card does, so that it can be removed while programs
 * have it open.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/slab.h>

#include "t3_compat_verbs.h"
#include "races.h"

struct races_pd { struct ib_pd ib; };
struct races_mw { struct ib_mw ib; };
struct races_ucontext { struct ib_ucontext ib; };

atomic_t races_objects[T3_RACES_KINDS];

static DEFINE_MUTEX(plug_mutex);	/* plugging and unplugging */
static DECLARE_RWSEM(device_rwsem);	/* read: an event; write: the device is freed */
static struct races_device *device;	/* under device_rwsem */

/* --- verbs ------------------------------------------------------------------ */

static int races_query_device(struct ib_device *ib, struct ib_device_attr *attr,
			      struct ib_udata *udata)
{
	attr->max_qp = 1000;
	attr->max_qp_wr = 1000;
	attr->max_cq = 1000;
	attr->max_cqe = 1000;
	attr->max_mr = 1000;
	attr->max_pd = 1000;
	attr->max_send_sge = 4;
	attr->max_recv_sge = 4;
	return 0;
}

static int races_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->gid_tbl_len = 1;
	return 0;
}

static int races_port_immutable(struct ib_device *ib, u32 port,
				struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	immutable->gid_tbl_len = 1;
	return 0;
}

static int races_query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	memcpy(gid->raw, to_races_device(ib)->ndev->dev_addr, ETH_ALEN);
	return 0;
}

static int races_alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	atomic_inc(&races_objects[T3_RACES_CONTEXT]);
	return 0;
}

static void races_dealloc_ucontext(struct ib_ucontext *context)
{
	atomic_dec(&races_objects[T3_RACES_CONTEXT]);
}

static void races_disassociate_ucontext(struct ib_ucontext *context)
{
}

static int races_map(struct ib_ucontext *context, struct vm_area_struct *vma)
{
	return rdma_user_mmap_io(context, vma, page_to_pfn(races_page),
				 vma->vm_end - vma->vm_start, vma->vm_page_prot, NULL);
}

static int races_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	atomic_inc(&races_objects[T3_RACES_PD]);
	return 0;
}

static int races_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	atomic_dec(&races_objects[T3_RACES_PD]);
	return 0;
}

static struct ib_mr *races_new_mr(void)
{
	static atomic_t keys = ATOMIC_INIT(0x1000);
	struct ib_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->lkey = atomic_inc_return(&keys);
	mr->rkey = mr->lkey;
	atomic_inc(&races_objects[T3_RACES_MR]);
	return mr;
}

static struct ib_mr *races_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt,
				       int access, struct ib_udata *udata)
{
	return races_new_mr();
}

T3_DEFINE_REG_USER_MR(op_reg_user_mr, races_reg_user_mr)

/* A new region takes the place of the old one. */
static struct ib_mr *races_rereg_user_mr(struct ib_mr *mr, int flags, u64 start, u64 length,
					 u64 virt, int access, struct ib_pd *pd,
					 struct ib_udata *udata)
{
	return races_new_mr();
}

static struct ib_mr *races_get_dma_mr(struct ib_pd *pd, int access)
{
	return races_new_mr();
}

static int races_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	atomic_dec(&races_objects[T3_RACES_MR]);
	kfree(mr);
	return 0;
}

static int races_alloc_mw(struct ib_mw *mw, struct ib_udata *udata)
{
	atomic_inc(&races_objects[T3_RACES_MW]);
	return 0;
}

static int races_dealloc_mw(struct ib_mw *mw)
{
	atomic_dec(&races_objects[T3_RACES_MW]);
	return 0;
}

/* --- completion queues ----------------------------------------------------- */

static struct races_cq *to_races_cq(struct ib_cq *cq)
{
	return container_of(cq, struct races_cq, ib);
}

static void races_cq_released(struct kref *ref)
{
	complete(&container_of(ref, struct races_cq, ref)->released);
}

static int races_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr,
			   struct ib_udata *udata)
{
	struct races_cq *cq = to_races_cq(ib);

	kref_init(&cq->ref);
	init_completion(&cq->released);
	ib->cqe = attr->cqe;
	atomic_inc(&races_objects[T3_RACES_CQ]);
	return 0;
}

T3_DEFINE_CREATE_CQ(op_create_cq, races_create_cq)

static int races_destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	struct races_cq *cq = to_races_cq(ib);

	kref_put(&cq->ref, races_cq_released);
	wait_for_completion(&cq->released);
	atomic_dec(&races_objects[T3_RACES_CQ]);
	return 0;
}

static int races_poll_cq(struct ib_cq *cq, int most, struct ib_wc *wc)
{
	return 0;
}

static int races_req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	return 0;
}

/* --- queue pairs ----------------------------------------------------------- */

static void races_qp_released(struct kref *ref)
{
	complete(&container_of(ref, struct races_qp, ref)->released);
}

void races_qp_put(struct races_qp *qp)
{
	kref_put(&qp->ref, races_qp_released);
}

/* With a reference; NULL if it is being destroyed. */
struct races_qp *races_qp_find(struct races_device *dev, u32 number)
{
	struct races_qp *qp;

	xa_lock(&dev->qps);
	qp = xa_load(&dev->qps, number);
	if (qp && !kref_get_unless_zero(&qp->ref))
		qp = NULL;
	xa_unlock(&dev->qps);
	return qp;
}

static int races_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init,
			   struct ib_udata *udata)
{
	struct races_device *dev = to_races_device(ib->device);
	struct races_qp *qp = to_races_qp(ib);
	u32 number;
	int err;

	kref_init(&qp->ref);
	init_completion(&qp->released);
	err = xa_alloc(&dev->qps, &number, qp, XA_LIMIT(1, 1000), GFP_KERNEL);
	if (err)
		return err;
	ib->qp_num = number;
	atomic_inc(&races_objects[T3_RACES_QP]);
	return 0;
}

static int races_destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	struct races_device *dev = to_races_device(ib->device);
	struct races_qp *qp = to_races_qp(ib);

	xa_erase(&dev->qps, ib->qp_num);
	races_qp_disconnect(qp, -ECONNRESET);
	races_qp_put(qp);
	/* A connect that found the QP before xa_erase() may have attached a connection since. */
	while (!wait_for_completion_timeout(&qp->released, 1))
		races_qp_disconnect(qp, -ECONNRESET);
	atomic_dec(&races_objects[T3_RACES_QP]);
	return 0;
}

static int races_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
			   struct ib_udata *udata)
{
	if (mask & IB_QP_STATE && attr->qp_state == IB_QPS_ERR)
		races_qp_disconnect(to_races_qp(ib), -ECONNRESET);
	return 0;
}

static int races_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
			  struct ib_qp_init_attr *init)
{
	attr->qp_state = IB_QPS_RTS;
	return 0;
}

static int races_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			   const struct ib_send_wr **bad)
{
	return 0;
}

static int races_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
			   const struct ib_recv_wr **bad)
{
	return 0;
}

static const struct ib_device_ops device_ops = {
	.owner = THIS_MODULE,
	/* A driver that t3_uverbs serves; the tests' commands have its layouts. */
	.driver_id = RDMA_DRIVER_CXGB3,
	.uverbs_abi_ver = 1,
	.query_device = races_query_device,
	.query_port = races_query_port,
	.get_port_immutable = races_port_immutable,
	.query_gid = races_query_gid,
	.alloc_ucontext = races_alloc_ucontext,
	.dealloc_ucontext = races_dealloc_ucontext,
	.disassociate_ucontext = races_disassociate_ucontext,
	.mmap = races_map,
	.alloc_pd = races_alloc_pd,
	.dealloc_pd = races_dealloc_pd,
	.get_dma_mr = races_get_dma_mr,
	.reg_user_mr = op_reg_user_mr,
	.rereg_user_mr = races_rereg_user_mr,
	.dereg_mr = races_dereg_mr,
	.alloc_mw = races_alloc_mw,
	.dealloc_mw = races_dealloc_mw,
	.create_cq = op_create_cq,
	.destroy_cq = races_destroy_cq,
	.poll_cq = races_poll_cq,
	.req_notify_cq = races_req_notify_cq,
	.create_qp = races_create_qp,
	.destroy_qp = races_destroy_qp,
	.modify_qp = races_modify_qp,
	.query_qp = races_query_qp,
	.post_send = races_post_send,
	.post_recv = races_post_recv,
	INIT_RDMA_OBJ_SIZE(ib_cq, races_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_mw, races_mw, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, races_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, races_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, races_ucontext, ib),
};

/* --- events ----------------------------------------------------------------- */

static int races_qp_event(struct races_qp *qp, u32 type)
{
	struct ib_event event = { .device = qp->ib.device };
	struct races_cq *cq;

	if (type == T3_RACES_EV_QP_EVENT) {
		event.event = IB_EVENT_QP_FATAL;
		event.element.qp = &qp->ib;
		qp->ib.event_handler(&event, qp->ib.qp_context);
		return 0;
	}
	/* The QP holds its CQ until it is destroyed, which waits for this reference. */
	cq = to_races_cq(qp->ib.send_cq);
	kref_get(&cq->ref);
	if (type == T3_RACES_EV_CQ_EVENT) {
		event.event = IB_EVENT_CQ_ERR;
		event.element.cq = &cq->ib;
		cq->ib.event_handler(&event, cq->ib.cq_context);
	} else {
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
	}
	kref_put(&cq->ref, races_cq_released);
	return 0;
}

static int races_report_qp(const struct t3_races_event *event)
{
	struct races_qp *qp = races_qp_find(device, event->which);
	int ret;

	if (!qp)
		return -ENOENT;
	ret = event->type >= T3_RACES_EV_QP_EVENT ? races_qp_event(qp, event->type) :
						   races_conn_event(qp, event);
	races_qp_put(qp);
	return ret;
}

int races_report(const struct t3_races_event *event)
{
	struct ib_event fatal = { .event = IB_EVENT_DEVICE_FATAL };
	int ret;

	down_read(&device_rwsem);
	if (!device) {
		ret = -ENODEV;
	} else if (event->type == T3_RACES_EV_REQUEST) {
		ret = races_request(device, event->which);
	} else if (event->type == T3_RACES_EV_DEVICE_FATAL) {
		fatal.device = &device->ib;
		ib_dispatch_event(&fatal);
		ret = 0;
	} else {
		ret = races_report_qp(event);
	}
	up_read(&device_rwsem);
	return ret;
}

/* --- plugging and unplugging ------------------------------------------------ */

static void races_device_free(struct races_device *dev)
{
	xa_destroy(&dev->qps);
	ib_dealloc_device(&dev->ib);
}

static int races_register(struct net_device *ndev)
{
	struct races_device *dev = ib_alloc_device(races_device, ib);
	int err;

	if (!dev)
		return -ENOMEM;
	dev->ndev = ndev;
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC1);
	ib_set_device_ops(&dev->ib, &device_ops);
	ib_set_device_ops(&dev->ib, &races_iw_ops);
	dev->ib.node_type = RDMA_NODE_RNIC;
	dev->ib.phys_port_cnt = 1;
	dev->ib.num_comp_vectors = 1;
	dev->ib.uverbs_cmd_mask = ~0ULL;
	memcpy(&dev->ib.node_guid, ndev->dev_addr, ETH_ALEN);
	strscpy(dev->ib.iw_ifname, ndev->name, sizeof(dev->ib.iw_ifname));
	err = ib_device_set_netdev(&dev->ib, ndev, 1);
	if (err)
		goto err_free;
	down_write(&device_rwsem);
	device = dev;
	up_write(&device_rwsem);
	err = ib_register_device(&dev->ib, "race%d", NULL);
	if (!err)
		return 0;
	down_write(&device_rwsem);
	device = NULL;
	up_write(&device_rwsem);
err_free:
	races_device_free(dev);
	return err;
}

int races_plug(struct net_device *ndev)
{
	int err;

	mutex_lock(&plug_mutex);
	err = races_plugged() ? -EBUSY : races_register(ndev);
	mutex_unlock(&plug_mutex);
	return err;
}

/* Events end after the clients have released the device, so no connection or listener is left. */
int races_unplug(void)
{
	struct races_device *dev;

	mutex_lock(&plug_mutex);
	dev = device;
	if (dev) {
		ib_unregister_device(&dev->ib);
		down_write(&device_rwsem);
		device = NULL;
		up_write(&device_rwsem);
		races_device_free(dev);
	}
	mutex_unlock(&plug_mutex);
	return dev ? 0 : -ENODEV;
}

bool races_plugged(void)
{
	return READ_ONCE(device);
}

