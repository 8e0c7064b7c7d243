// SPDX-License-Identifier: GPL-2.0
/* Loading and unloading, and the devices that we serve. */

#include <linux/module.h>
#include <linux/string.h>
#include <rdma/ib_verbs.h>

#include "table.h"
#include "uverbs.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static char *drivers = "cxgb3,siw,rxe";
module_param(drivers, charp, 0444);
MODULE_PARM_DESC(drivers, "drivers whose devices are served, of cxgb3, siw, rxe; those of others are left alone");

/*
 * Served devices take nothing from ib_uverbs but what <rdma/uverbs_ioctl.h> has
 * inline. A driver that parses attributes of its own would find none.
 */
static const struct {
	const char *name;
	enum rdma_driver_id id;
} known_drivers[] = {
	{ "cxgb3", RDMA_DRIVER_CXGB3 },
	{ "siw", RDMA_DRIVER_SIW },
	{ "rxe", RDMA_DRIVER_RXE },
};

static u64 allowed;	/* bits by enum rdma_driver_id */

bool uv_driver_allowed(enum rdma_driver_id id)
{
	return id < 64 && allowed & BIT_ULL(id);
}

static int read_drivers(void)
{
	const char *name = drivers;
	size_t len;
	int i;

	while (*name) {
		len = strcspn(name, ",");
		for (i = 0; i < ARRAY_SIZE(known_drivers); i++)
			if (len == strlen(known_drivers[i].name) &&
			    !strncmp(name, known_drivers[i].name, len))
				break;
		if (i == ARRAY_SIZE(known_drivers)) {
			pr_err("drivers=: %.*s is none of cxgb3, siw, rxe\n", (int)len, name);
			return -EINVAL;
		}
		allowed |= BIT_ULL(known_drivers[i].id);
		name += len;
		if (*name)
			name++;
	}
	return 0;
}

static int __init uv_init(void)
{
	int err;

	err = read_drivers();
	if (err)
		return err;
	err = uv_table_init();
	if (err)
		return err;
	err = uv_stats_init();
	if (err)
		return err;
	err = uv_devices_init();
	if (err)
		uv_stats_exit();
	return err;
}

static void __exit uv_exit(void)
{
	uv_devices_exit();
	uv_stats_exit();
}

module_init(uv_init);
module_exit(uv_exit);

MODULE_DESCRIPTION("Verbs dispatcher of t3rdma");
MODULE_LICENSE("GPL");
/* No alias rdma-client-uverbs: ib_uverbs has it, modprobe would load both, and one would fail. */
