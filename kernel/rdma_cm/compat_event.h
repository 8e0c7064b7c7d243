/* SPDX-License-Identifier: GPL-2.0 */
/* Commands of the user device, where 6.1, 6.12 and 7.2 differ. */
#ifndef T3_RDMA_CM_COMPAT_EVENT_H
#define T3_RDMA_CM_COMPAT_EVENT_H

#include <linux/version.h>

/* RDMA_USER_CM_CMD_WRITE_CM_EVENT: since 7.1; before, the in-tree manager has no such command. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 1, 0)
#define UCM_WRITE_EVENT	24
#endif

#endif
