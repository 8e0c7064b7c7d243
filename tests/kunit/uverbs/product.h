/* SPDX-License-Identifier: GPL-2.0 */
/* All files of t3_uverbs but main.c, for suites that use its system calls. */
#ifndef T3_UVERBS_PRODUCT_H
#define T3_UVERBS_PRODUCT_H

#include <linux/cache.h>

/* Suites fill the table after their module's init has returned. */
#undef __ro_after_init
#define __ro_after_init

/* Replaces trace.h: a test has no tracepoints. */
#define T3_UVERBS_TRACE_H
#include "table.h"

static inline void trace_t3_uverbs_command(const char *device, const struct uv_row *row, int err)
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

static inline void *charged_kmalloc(size_t size, gfp_t gfp)
{
	return kmalloc(size, charged(gfp));
}

static inline void *charged_kzalloc(size_t size, gfp_t gfp)
{
	return kzalloc(size, charged(gfp));
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

/* As in the files that define it, before they include headers. */
#undef pr_fmt
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#pragma push_macro("kmalloc")
#pragma push_macro("kzalloc")
#pragma push_macro("kmalloc_array")
#pragma push_macro("kcalloc")
#pragma push_macro("kvmalloc_array")
#pragma push_macro("kvcalloc")
#pragma push_macro("rdma_zalloc_drv_obj")
#pragma push_macro("rdma_zalloc_drv_obj_gfp")
#undef kmalloc
#undef kzalloc
#undef kmalloc_array
#undef kcalloc
#undef kvmalloc_array
#undef kvcalloc
#undef rdma_zalloc_drv_obj
#undef rdma_zalloc_drv_obj_gfp
#define kmalloc charged_kmalloc
#define kzalloc charged_kzalloc
#define kmalloc_array charged_kmalloc_array
#define kcalloc charged_kcalloc
#define kvmalloc_array charged_kvmalloc_array
#define kvcalloc charged_kvcalloc
#define rdma_zalloc_drv_obj_gfp(dev, type, gfp) \
	((struct type *)rdma_zalloc_obj(dev, (dev)->ops.size_##type, charged(gfp), false))
#define rdma_zalloc_drv_obj(dev, type) rdma_zalloc_drv_obj_gfp(dev, type, GFP_KERNEL)

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

#pragma pop_macro("rdma_zalloc_drv_obj_gfp")
#pragma pop_macro("rdma_zalloc_drv_obj")
#pragma pop_macro("kvcalloc")
#pragma pop_macro("kvmalloc_array")
#pragma pop_macro("kcalloc")
#pragma pop_macro("kmalloc_array")
#pragma pop_macro("kzalloc")
#pragma pop_macro("kmalloc")

/* Replaces the one in main.c. */
bool uv_driver_allowed(enum rdma_driver_id id)
{
	return id == RDMA_DRIVER_UNKNOWN;
}

static inline int product_init(void)
{
	int err = uv_table_init() ?: uv_stats_init();

	if (err)
		return err;
	err = uv_devices_init();
	if (err)
		uv_stats_exit();
	return err;
}

static inline void product_exit(void)
{
	uv_devices_exit();
	uv_stats_exit();
}

#endif
