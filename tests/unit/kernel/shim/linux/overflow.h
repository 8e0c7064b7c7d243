/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#define check_add_overflow(a, b, sum) __builtin_add_overflow(a, b, sum)
