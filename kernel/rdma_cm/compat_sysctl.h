/* SPDX-License-Identifier: GPL-2.0 */
/* Sysctls, where 6.1, 6.12 and 7.2 differ. */
#ifndef T3_RDMA_CM_COMPAT_SYSCTL_H
#define T3_RDMA_CM_COMPAT_SYSCTL_H

#include <linux/version.h>

/* Tables end with an empty row up to 6.10; later it would be a row. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define T3_SYSCTL_END { }
#else
#define T3_SYSCTL_END
#endif

#endif
