/* SPDX-License-Identifier: GPL-2.0 */
/* Differences between kernels that only the suites meet. */
#ifndef T3_KUNIT_COMPAT_H
#define T3_KUNIT_COMPAT_H

#include <linux/version.h>

/* Its name since Linux 7.3. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0)
#define rcu_gp_oldstate rcu_gp_seq
#endif

#endif
