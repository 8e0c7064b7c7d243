// SPDX-License-Identifier: GPL-2.0
/*
 * The verbs of the device without hardware, and its events. Its objects are counted. It supports
 * disassociate_ucontext(), as a card does, so that it can be removed while programs have it open.
 */
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>

#define FAKE_WATCHED
#include "../../fakes/fake_ib.h"
#include "races.h"

atomic_t races_objects[T3_RACES_KINDS];

static DEFINE_MUTEX(plug_mutex);	/* plugging and unplugging */
static DECLARE_RWSEM(device_rwsem);	/* read: an event; write: the device is freed */
static struct fake_iw_device *device;	/* under device_rwsem */

/* --- verbs ------------------------------------------------------------------ */

/* The kinds that the device has are the first of both. */
static_assert(T3_RACES_QP == (int)FAKE_QP);

static int fake_created(struct ib_device *ib, enum fake_kind kind, void *object,
			struct ib_udata *udata)
{
	atomic_inc(&races_objects[kind]);
	return 0;
}

static int fake_destroyed(struct ib_device *ib, enum fake_kind kind)
{
	atomic_dec(&races_objects[kind]);
	return 0;
}

static int races_map(struct ib_ucontext *context, struct vm_area_struct *vma)
{
	return rdma_user_mmap_io(context, vma, page_to_pfn(races_page),
				 vma->vm_end - vma->vm_start, vma->vm_page_prot, NULL);
}

/* A new region takes the place of the old one. */
static struct ib_mr *races_rereg_user_mr(struct ib_mr *mr, int flags, u64 start, u64 length,
					 u64 virt, int access, struct ib_pd *pd,
					 struct ib_udata *udata)
{
	return fake_new_mr(pd->device);
}

/* --- queue pairs ----------------------------------------------------------- */

static int races_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init,
			   struct ib_udata *udata)
{
	struct fake_iw_device *dev = to_fake_iw(ib->device);
	struct fake_iw_qp *qp = to_fake_qp(ib);
	u32 number;
	int err;

	fake_qp_init(qp);
	err = xa_alloc(&dev->qps, &number, qp, XA_LIMIT(1, 1000), GFP_KERNEL);
	if (err)
		return err;
	ib->qp_num = number;
	return fake_created(ib->device, FAKE_QP, ib, udata);
}

static int races_destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	fake_qp_destroy(to_fake_qp(ib));
	return fake_destroyed(ib->device, FAKE_QP);
}

static int races_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
			   struct ib_udata *udata)
{
	if (mask & IB_QP_STATE && attr->qp_state == IB_QPS_ERR)
		fake_qp_disconnect(to_fake_qp(ib));
	return 0;
}

static const struct ib_device_ops races_ops = {
	/* A driver that t3_uverbs serves; the tests' commands have its layouts. */
	.driver_id = RDMA_DRIVER_CXGB3,
	.uverbs_abi_ver = 1,
	.mmap = races_map,
	.rereg_user_mr = races_rereg_user_mr,
	.create_qp = races_create_qp,
	.modify_qp = races_modify_qp,
	.destroy_qp = races_destroy_qp,
};

/* --- events ----------------------------------------------------------------- */

/* The caller holds the QP, and so its CQ, which ib_core does not destroy before the QP. */
static int races_qp_event(struct fake_iw_qp *qp, u32 type)
{
	struct ib_event event = { .device = qp->ib.device };
	struct ib_cq *cq = qp->ib.send_cq;

	if (type == T3_RACES_EV_QP_EVENT) {
		event.event = IB_EVENT_QP_FATAL;
		event.element.qp = &qp->ib;
		qp->ib.event_handler(&event, qp->ib.qp_context);
	} else if (type == T3_RACES_EV_CQ_EVENT) {
		event.event = IB_EVENT_CQ_ERR;
		event.element.cq = cq;
		cq->event_handler(&event, cq->cq_context);
	} else {
		cq->comp_handler(cq, cq->cq_context);
	}
	return 0;
}

static int races_report_qp(const struct t3_races_event *event)
{
	struct fake_iw_qp *qp = fake_qp_find(device, event->which);
	int ret;

	if (!qp)
		return -ENOENT;
	ret = event->type >= T3_RACES_EV_QP_EVENT ? races_qp_event(qp, event->type) :
						   races_conn_event(qp, event);
	fake_qp_put(qp);
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

static void races_device_free(struct fake_iw_device *dev)
{
	xa_destroy(&dev->qps);
	ib_dealloc_device(&dev->ib);
}

static int races_register(struct net_device *ndev)
{
	struct fake_iw_device *dev = ib_alloc_device(fake_iw_device, ib);
	int err;

	if (!dev)
		return -ENOMEM;
	dev->ndev = ndev;
	ib_set_device_ops(&dev->ib, &races_ops);
	ib_set_device_ops(&dev->ib, &races_conn_ops);
	ib_set_device_ops(&dev->ib, &fake_removable_ops);
	err = fake_iw_init(dev);
	if (err)
		goto err_free;
	down_write(&device_rwsem);
	device = dev;
	up_write(&device_rwsem);
	err = fake_ib_register(&dev->ib, "race%d");
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
	struct fake_iw_device *dev;

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
