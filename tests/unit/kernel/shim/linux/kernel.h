/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef T3_SHIM_LINUX_KERNEL_H
#define T3_SHIM_LINUX_KERNEL_H

#include <linux/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
