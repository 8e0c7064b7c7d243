/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* As of kernels since 6.3; what else umem.c uses did not change. */
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(6, 3, 0)
