/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef T3_SHIM_LINUX_LOG2_H
#define T3_SHIM_LINUX_LOG2_H

#define ilog2(n) (63 - __builtin_clzll(n))
#define roundup_pow_of_two(n) ((n) > 1 ? 2ULL << ilog2((n) - 1) : 1ULL)

#endif
