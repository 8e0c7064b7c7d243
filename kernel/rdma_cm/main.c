// SPDX-License-Identifier: GPL-2.0
/* The module. */
#include <linux/module.h>

#include "iwarp.h"
#include "rdma_cm.h"
#include "ucm.h"

static int __init t3_rdma_cm_init(void)
{
	int ret;

	ret = cm_ports_init();
	if (ret)
		return ret;
	ret = cm_roce_init();
	if (ret)
		goto ports;
	ret = cm_events_init();
	if (ret)
		goto roce;
	ret = cm_iwpm_init();
	if (ret)
		goto events;
	cm_debugfs_init();
	/* Before the client, as cm_ucm_nl_info() returns this device. */
	ret = cm_ucm_init();
	if (ret)
		goto iwpm;
	ret = cm_devices_init(cm_ucm_nl_info);
	if (ret)
		goto ucm;
	return 0;

ucm:
	cm_ucm_exit();
iwpm:
	cm_debugfs_exit();
	cm_iwpm_exit();
events:
	cm_events_exit();
roce:
	cm_roce_exit();
ports:
	cm_ports_exit();
	return ret;
}

static void __exit t3_rdma_cm_exit(void)
{
	cm_devices_exit();
	cm_ucm_exit();
	cm_debugfs_exit();
	cm_iwpm_exit();
	cm_events_exit();
	cm_roce_exit();
	cm_ports_exit();
}

module_init(t3_rdma_cm_init);
module_exit(t3_rdma_cm_exit);

MODULE_DESCRIPTION("RDMA connection manager for iWARP and RoCE devices");
MODULE_LICENSE("GPL");
