/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Structures of ib_core that no public header declares, or (ib_uverbs_file) none
 * before 7.0. They are repeated with the same members, types and order, also of
 * members that this module does not use.
 *
 * Each ib_ucontext points to an ib_uverbs_file (t3_uverbs_file.h), which points to
 * an ib_uverbs_device.
 *
 * ib_core uses file->device, ucontext, umap_lock and umaps, and device->ib_dev and
 * disassociate_srcu. A different layout would corrupt memory, so
 * tests/layout/check-btf compares both structures with the BTF of the kernel's
 * ib_core.ko. This module's own members follow them in struct uv_file and struct
 * uv_device.
 */
#ifndef T3_UVERBS_CORE_LAYOUT_H
#define T3_UVERBS_CORE_LAYOUT_H

#include <linux/cdev.h>
#include <linux/completion.h>
#include <linux/device.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/version.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_types.h>

#include <t3_context.h>
#include <t3_ib_core.h>
#include <t3_uverbs_file.h>

struct uverbs_api;

struct ib_uverbs_device {
	refcount_t				refcount;
	u32					num_comp_vectors;
	struct completion			comp;
	struct device				dev;
	const struct attribute_group		*groups[2];
	struct ib_device	__rcu		*ib_dev;
	int					devnum;
	struct cdev				cdev;
	struct rb_root				xrcd_tree;
	struct mutex				xrcd_tree_mutex; /* unused here */
	struct srcu_struct			disassociate_srcu;
	struct mutex				lists_mutex; /* lists of files and event files */
	struct list_head			uverbs_file_list __guarded_by(&lists_mutex);
	struct uverbs_api			*uapi;
};

/* vma->vm_private_data of a mapping of I/O pages, listed in ib_uverbs_file.umaps. */
struct rdma_umap_priv {
	struct vm_area_struct *vma;
	struct list_head list;
	struct rdma_user_mmap_entry *entry;
};

#endif
