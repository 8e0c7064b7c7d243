/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that ib_core exports but declares in no public header, and differences
 * between 6.1, 6.12 and 7.2 in the functions that a dispatcher calls. The loader
 * does not compare these prototypes with the real ones: before a change here read
 * the source of the kernel.
 */
#ifndef T3_UVERBS_CORE_CALLS_H
#define T3_UVERBS_CORE_CALLS_H

#include <linux/device/class.h>
#include <linux/mm.h>
#include <linux/version.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_verbs.h>
#include <rdma/restrack.h>
#include <rdma/uverbs_ioctl.h>

#include "core_layout.h"

int ib_rdmacg_try_charge(struct ib_rdmacg_object *cg, struct ib_device *dev,
			 enum rdmacg_resource_type type);
void ib_rdmacg_uncharge(struct ib_rdmacg_object *cg, struct ib_device *dev,
			enum rdmacg_resource_type type);
void ib_qp_usecnt_inc(struct ib_qp *qp);

/* Waits for readers of a resource's attributes. Kernels without it do not wait. */
#ifdef T3_HAVE_rdma_restrack_sync
void rdma_restrack_sync(struct rdma_restrack_entry *res);
#else
static inline void rdma_restrack_sync(struct rdma_restrack_entry *res)
{
}
#endif

/* Older kernels have no sysctl that allows all users privileged Q_Keys. */
#ifdef T3_HAVE_rdma_nl_get_privileged_qkey
bool rdma_nl_get_privileged_qkey(void);
#else
static inline bool rdma_nl_get_privileged_qkey(void)
{
	return capable(CAP_NET_RAW);
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
struct ib_qp *ib_create_qp_user(struct ib_device *dev, struct ib_pd *pd,
				struct ib_qp_init_attr *attr, struct ib_udata *udata,
				struct ib_uqp_object *uobj, const char *caller);
#else
struct ib_qp *ib_create_qp_user(struct ib_device *dev, struct ib_pd *pd,
				struct ib_qp_init_attr *attr, struct uverbs_attr_bundle *attrs,
				struct ib_uqp_object *uobj, const char *caller);
#endif

static inline struct ib_qp *uv_core_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *attr,
					      struct uverbs_attr_bundle *attrs,
					      struct ib_uqp_object *uobj)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	return ib_create_qp_user(pd->device, pd, attr, &attrs->driver_udata, uobj, KBUILD_MODNAME);
#else
	return ib_create_qp_user(pd->device, pd, attr, attrs, uobj, KBUILD_MODNAME);
#endif
}

static inline int uv_core_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
				    struct uverbs_attr_bundle *attrs)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
	return cq->device->ops.create_cq(cq, attr, &attrs->driver_udata);
#elif LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	return cq->device->ops.create_cq(cq, attr, attrs);
#else
	if (!attr->cqe)
		return -EINVAL;
	if (cq->device->ops.create_user_cq)
		return cq->device->ops.create_user_cq(cq, attr, attrs);
	return cq->device->ops.create_cq(cq, attr, attrs);
#endif
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define UV_OP_RESIZE_CQ resize_cq
#else
#define UV_OP_RESIZE_CQ resize_user_cq
#endif

static inline struct ib_mr *uv_core_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt,
						int access, struct ib_udata *udata)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
	return pd->device->ops.reg_user_mr(pd, start, length, virt, access, udata);
#else
	return pd->device->ops.reg_user_mr(pd, start, length, virt, access, NULL, udata);
#endif
}

static inline bool uv_core_raw_cap(struct ib_device *dev)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	return capable(CAP_NET_RAW);
#else
	return rdma_dev_has_raw_cap(dev);
#endif
}

/* IB_UVERBS_CORE_SUPPORT_*: the extensions of the ABI that this module has. */
static inline u64 uv_core_support(const struct ib_device *dev)
{
	u64 bits = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	if (dev->ops.uverbs_robust_udata)
		bits |= IB_UVERBS_CORE_SUPPORT_ROBUST_UDATA;
#endif
	return bits;
}

static inline void uv_core_port_speed(struct ib_uverbs_query_port_resp_ex *to,
				      const struct ib_port_attr *from)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	to->active_speed_ex = from->active_speed;
#endif
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define UV_DEVNODE_CONST
#else
#define UV_DEVNODE_CONST const
#endif

static inline struct class *uv_core_class_create(const char *name)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
	return class_create(THIS_MODULE, name);
#else
	return class_create(name);
#endif
}

/* Unmaps the I/O pages of a mapping. The next access faults. */
static inline void uv_zap_vma(struct vm_area_struct *vma)
{
	mmap_assert_locked(vma->vm_mm);
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
	zap_vma_ptes(vma, vma->vm_start, vma->vm_end - vma->vm_start);
#else
	zap_special_vma_range(vma, vma->vm_start, vma->vm_end - vma->vm_start);
#endif
}

#endif
