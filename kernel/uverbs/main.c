// SPDX-License-Identifier: GPL-2.0
/* Module init and exit, and the parameter that selects the drivers. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/string.h>
#include <rdma/ib_verbs.h>

#include "table.h"
#include "uverbs.h"

static char *drivers = "cxgb3,siw,rxe";
module_param(drivers, charp, 0444);
MODULE_PARM_DESC(drivers, "drivers whose devices are served: a list of cxgb3, siw, rxe");

/*
 * These drivers use no function of ib_uverbs, only the inline functions of
 * <rdma/uverbs_ioctl.h>. Others may have attributes of their own, which this module
 * does not pass on.
 */
static const struct {
	const char *name;
	enum rdma_driver_id id;
} uv_known_drivers[] = {
	{ "cxgb3", RDMA_DRIVER_CXGB3 },
	{ "siw", RDMA_DRIVER_SIW },
	{ "rxe", RDMA_DRIVER_RXE },
};

static u64 uv_allowed_drivers;	/* set of enum rdma_driver_id */

bool uv_driver_allowed(enum rdma_driver_id id)
{
	return id < 64 && uv_allowed_drivers & BIT_ULL(id);
}

static int uv_parse_drivers(void)
{
	const char *name = drivers;
	size_t len;
	int i;

	while (*name) {
		len = strcspn(name, ",");
		for (i = 0; i < ARRAY_SIZE(uv_known_drivers); i++)
			if (len == strlen(uv_known_drivers[i].name) &&
			    !strncmp(name, uv_known_drivers[i].name, len))
				break;
		if (i == ARRAY_SIZE(uv_known_drivers)) {
			pr_err("drivers=: %.*s is not one of cxgb3, siw, rxe\n", (int)len, name);
			return -EINVAL;
		}
		uv_allowed_drivers |= BIT_ULL(uv_known_drivers[i].id);
		name += len;
		if (*name)
			name++;
	}
	return 0;
}

static int __init uv_init(void)
{
	int err;

	err = uv_parse_drivers();
	if (err)
		return err;
	uv_table_init();
	err = uv_stats_init();
	if (err)
		return err;
	err = uv_events_init();
	if (err)
		goto err_stats;
	err = uv_devices_init();
	if (err)
		goto err_events;
	return 0;

err_events:
	uv_events_exit();
err_stats:
	uv_stats_exit();
	return err;
}

static void __exit uv_exit(void)
{
	uv_devices_exit();
	uv_events_exit();
	uv_stats_exit();
}

module_init(uv_init);
module_exit(uv_exit);

MODULE_DESCRIPTION("Verbs dispatcher of t3rdma");
MODULE_LICENSE("GPL");
/* No alias rdma-client-uverbs: ib_uverbs has it. modprobe would load both, and one would fail. */
