/* SPDX-License-Identifier: GPL-2.0 */
/* The whole of t3_uverbs but for main.c, in one file: for suites that come in by its doors. */
#ifndef T3_UVERBS_PRODUCT_H
#define T3_UVERBS_PRODUCT_H

#include <linux/cache.h>

/* Suites run, and fill the table, when their module's init is over. */
#undef __ro_after_init
#define __ro_after_init

/* Instead of trace.h: no events of a test in tracefs. */
#define T3_UVERBS_TRACE_H
#include "table.h"

static inline void trace_t3_uverbs_command(const char *device, const struct uv_row *row, int err)
{
}

#include "call.c"
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
#include "door_ioctl.c"
#include "door_write.c"
#include "events.c"
#include "handles.c"
#include "mmap.c"
#include "objects.c"
#include "stats.c"
#include "table.c"

/* Of main.c. */
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
