/* SPDX-License-Identifier: GPL-2.0 */
/*
 * struct ib_uverbs_file of ib_core: an open verbs device and the objects created through it.
 *
 * ib_core reads it through each ib_ucontext, and so does t3_rdma_cm, which, like a verbs command,
 * locks a QP against destruction. <rdma/uverbs_types.h> declares it since 7.0; before 7.0 no public
 * header declares it, so it is repeated here: the same members, types and order.
 * tests/layout/check-btf compares it with the BTF of the kernel's ib_core.ko.
 */
#ifndef T3_UVERBS_FILE_H
#define T3_UVERBS_FILE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/version.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_types.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
struct ib_uverbs_async_event_file;
struct ib_uverbs_device;

struct ib_uverbs_file {
	struct kref				ref;
	struct ib_uverbs_device			*device;
	struct mutex				ucontext_lock; /* ucontext */
	struct ib_ucontext			*ucontext;
	struct ib_uverbs_async_event_file	*default_async_file;
	struct list_head			list;
	struct rw_semaphore			hw_destroy_rwsem;
	spinlock_t				uobjects_lock; /* uobjects */
	struct list_head			uobjects;
	struct mutex				umap_lock; /* umaps, disassociate_page */
	struct list_head			umaps;
	struct page				*disassociate_page;
	struct xarray				idr;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	struct mutex				disassociation_lock; /* unused here */
#endif
};
#endif

#endif
