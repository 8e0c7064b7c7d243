/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef T3_SHIM_LINUX_MINMAX_H
#define T3_SHIM_LINUX_MINMAX_H

#define min(a, b) ((a) < (b) ? (a) : (b))

#endif
