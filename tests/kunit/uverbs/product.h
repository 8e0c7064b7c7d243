/* SPDX-License-Identifier: GPL-2.0 */
/* All files of t3_uverbs, for suites that use its system calls. */
#ifndef T3_UVERBS_PRODUCT_H
#define T3_UVERBS_PRODUCT_H

#include <linux/anon_inodes.h>
#include <linux/cache.h>
#include <linux/cdev.h>
#include <linux/cgroup.h>
#include <linux/file.h>
#include <linux/idr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "../failing_alloc.h"

/* Suites fill the table after their module's init has returned. */
#undef __ro_after_init
#define __ro_after_init

/* Replaces trace.h: a test has no tracepoints. */
#define T3_UVERBS_TRACE_H
#include "table.h"

static inline void trace_t3_uverbs_command(const char *device, const struct uv_row *row, int err)
{
}

void t3_race_point(const char *name)
{
}

/* --- charges to the memory cgroup -------------------------------------------------------- */

/*
 * Counts allocations of a running call that are not charged to the memory cgroup of the calling
 * process. Those of the driver are not counted.
 */
static atomic_t product_calls, product_uncharged;

static inline gfp_t charged(gfp_t gfp)
{
	if (atomic_read(&product_calls) && !(gfp & __GFP_ACCOUNT))
		atomic_inc(&product_uncharged);
	return gfp;
}

/*
 * Contexts and objects that are charged to the rdma cgroup. A KUnit suite runs in the root cgroup,
 * which is not charged: here it seems to have a parent.
 */
static atomic_t product_charges;

#ifdef CONFIG_CGROUP_RDMA
static struct cgroup_subsys_state product_css = { .parent = &product_css };

static inline int product_charge(struct ib_rdmacg_object *cg, struct ib_device *dev,
				 enum rdmacg_resource_type type)
{
	cg->cg = (struct rdma_cgroup *)&product_css;
	atomic_inc(&product_charges);
	return 0;
}

static inline void product_uncharge(struct ib_rdmacg_object *cg, struct ib_device *dev,
				    enum rdmacg_resource_type type)
{
	atomic_dec(&product_charges);
}
#endif

/* References on GIDs. */
static atomic_t product_gids;

static inline const struct ib_gid_attr *product_get_gid_attr(struct ib_device *dev, u32 port,
							     int index)
{
	const struct ib_gid_attr *gid = rdma_get_gid_attr(dev, port, index);

	if (!IS_ERR(gid))
		atomic_inc(&product_gids);
	return gid;
}

static inline void product_put_gid_attr(const struct ib_gid_attr *gid)
{
	atomic_dec(&product_gids);
	rdma_put_gid_attr(gid);
}

/* Pages that were allocated and not freed. */
static atomic_t product_pages;

static inline struct page *product_alloc_pages(gfp_t gfp, unsigned int order)
{
	struct page *page = alloc_pages(charged(gfp), order);

	if (page)
		atomic_inc(&product_pages);
	return page;
}

static inline void product_free_page(struct page *page)
{
	atomic_dec(&product_pages);
	__free_page(page);
}

static inline void *charged_kmalloc(size_t size, gfp_t gfp)
{
	return kmalloc(size, charged(gfp));
}

static inline void *charged_kmalloc_array(size_t n, size_t size, gfp_t gfp)
{
	return kmalloc_array(n, size, charged(gfp));
}

static inline void *charged_kcalloc(size_t n, size_t size, gfp_t gfp)
{
	return kcalloc(n, size, charged(gfp));
}

static inline void *charged_kvmalloc_array(size_t n, size_t size, gfp_t gfp)
{
	return kvmalloc_array(n, size, charged(gfp));
}

static inline void *charged_kvcalloc(size_t n, size_t size, gfp_t gfp)
{
	return kvcalloc(n, size, charged(gfp));
}

static inline int product_init_srcu_struct(struct srcu_struct *srcu)
{
	return init_srcu_struct(srcu);
}

/* Ranges of device numbers that were registered and not unregistered. */
static int product_regions;

static inline int product_region(int err)
{
	product_regions += !err;
	return err;
}

static inline void product_unregister_region(dev_t from, unsigned int count)
{
	product_regions--;
	unregister_chrdev_region(from, count);
}

/* As in the files that define it, before they include headers. */
#undef pr_fmt
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#pragma push_macro("kmalloc")
#pragma push_macro("kzalloc")
#pragma push_macro("kmalloc_array")
#pragma push_macro("kcalloc")
#pragma push_macro("kvmalloc_array")
#pragma push_macro("kvcalloc")
#pragma push_macro("alloc_pages")
#pragma push_macro("__free_page")
#pragma push_macro("init_srcu_struct")
#pragma push_macro("rdma_zalloc_drv_obj")
#pragma push_macro("rdma_zalloc_drv_obj_gfp")
#undef kmalloc
#undef kzalloc
#undef kmalloc_array
#undef kcalloc
#undef kvmalloc_array
#undef kvcalloc
#undef alloc_pages
#undef __free_page
#undef init_srcu_struct
#undef rdma_zalloc_drv_obj
#undef rdma_zalloc_drv_obj_gfp
#define FAIL_OR(error, call)	(alloc_fails(0, __func__) ? (error) : call)
#define kmalloc(size, gfp)	FAIL_OR(NULL, charged_kmalloc(size, gfp))
#define kzalloc(size, gfp) \
	(alloc_fails(gfp, __func__) ? NULL : sure_kzalloc(size, charged(gfp)))
#define kmalloc_array(n, size, gfp)	FAIL_OR(NULL, charged_kmalloc_array(n, size, gfp))
#define kcalloc(n, size, gfp)	FAIL_OR(NULL, charged_kcalloc(n, size, gfp))
#define kvmalloc_array(n, size, gfp)	FAIL_OR(NULL, charged_kvmalloc_array(n, size, gfp))
#define kvcalloc(n, size, gfp)	FAIL_OR(NULL, charged_kvcalloc(n, size, gfp))
#define alloc_pages(gfp, order)	FAIL_OR(NULL, product_alloc_pages(gfp, order))
#define __free_page(page)	product_free_page(page)
#define init_srcu_struct(srcu)	FAIL_OR(-ENOMEM, product_init_srcu_struct(srcu))
#define rdma_zalloc_drv_obj_gfp(dev, type, gfp) \
	FAIL_OR(NULL, (struct type *)rdma_zalloc_obj(dev, (dev)->ops.size_##type, charged(gfp), \
						     false))
#define rdma_zalloc_drv_obj(dev, type) rdma_zalloc_drv_obj_gfp(dev, type, GFP_KERNEL)

/* Calls of the core that can fail count as allocations. */
#include "core_calls.h"
#define alloc_chrdev_region(...) \
	FAIL_OR(-ENOMEM, product_region(alloc_chrdev_region(__VA_ARGS__)))
#define anon_inode_getfile(...)	FAIL_OR(ERR_PTR(-ENFILE), anon_inode_getfile(__VA_ARGS__))
#define cdev_device_add(...)	FAIL_OR(-ENOMEM, cdev_device_add(__VA_ARGS__))
#define class_create_file(...)	FAIL_OR(-ENOMEM, class_create_file(__VA_ARGS__))
#define dev_set_name(...)	FAIL_OR(-ENOMEM, dev_set_name(__VA_ARGS__))
#define get_unused_fd_flags(...)	FAIL_OR(-EMFILE, get_unused_fd_flags(__VA_ARGS__))
#define ib_attach_mcast(...)	FAIL_OR(-ENOMEM, ib_attach_mcast(__VA_ARGS__))
#define ib_register_client(...)	FAIL_OR(-ENOMEM, ib_register_client(__VA_ARGS__))
#define ida_alloc_max(...)	FAIL_OR(-ENOSPC, ida_alloc_max(__VA_ARGS__))
#define register_chrdev_region(...) \
	FAIL_OR(-EBUSY, product_region(register_chrdev_region(__VA_ARGS__)))
#define unregister_chrdev_region	product_unregister_region
#define uv_core_class_create(...) \
	FAIL_OR(ERR_PTR(-EEXIST), uv_core_class_create(__VA_ARGS__))

/* main.c has functions for the load and the unload of the module: this one has others. */
#pragma push_macro("module_init")
#pragma push_macro("module_exit")
#undef module_init
#undef module_exit
#undef __init
#undef __exit
#define __init
#define __exit
#define module_init(function)
#define module_exit(function)

#define rdma_get_gid_attr	product_get_gid_attr
#define rdma_put_gid_attr	product_put_gid_attr
#ifdef CONFIG_CGROUP_RDMA
#undef task_css_check
#define task_css_check(...)	(&product_css)
#define ib_rdmacg_try_charge	product_charge
#define ib_rdmacg_uncharge	product_uncharge
#endif
#include "charge.c"
#include "cmd_ah.c"
#include "cmd_cq.c"
#include "cmd_device.c"
#include "cmd_mr.c"
#include "cmd_pd.c"
#include "cmd_post.c"
#include "cmd_qp.c"
#include "cmd_srq.c"
#include "device.c"
#include "ioctl.c"
#include "write.c"
#include "events.c"
#include "handles.c"
#include "mmap.c"
#include "objects.c"
#include "stats.c"
#include "table.c"
#include "main.c"

#undef alloc_chrdev_region
#undef anon_inode_getfile
#undef cdev_device_add
#undef class_create_file
#undef dev_set_name
#undef get_unused_fd_flags
#undef ib_attach_mcast
#undef ib_register_client
#undef ida_alloc_max
#undef register_chrdev_region
#undef unregister_chrdev_region
#undef uv_core_class_create
#pragma pop_macro("module_exit")
#pragma pop_macro("module_init")
#pragma pop_macro("rdma_zalloc_drv_obj_gfp")
#pragma pop_macro("rdma_zalloc_drv_obj")
#pragma pop_macro("init_srcu_struct")
#pragma pop_macro("__free_page")
#pragma pop_macro("alloc_pages")
#pragma pop_macro("kvcalloc")
#pragma pop_macro("kvmalloc_array")
#pragma pop_macro("kcalloc")
#pragma pop_macro("kmalloc_array")
#pragma pop_macro("kzalloc")
#pragma pop_macro("kmalloc")

/* The devices of the suites have no driver of their own. */
static inline int product_init(void)
{
	/* Several suites of a module run one after another; a module fills it once. */
	memset(&uv_index, 0, sizeof(uv_index));
	uv_allowed_drivers = BIT_ULL(RDMA_DRIVER_UNKNOWN);
	return uv_init();
}

static inline void product_exit(void)
{
	uv_exit();
}

#endif
