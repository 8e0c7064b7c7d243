/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* <linux/types.h> for the driver's pure files when they are built for user space. */
#ifndef T3_SHIM_LINUX_TYPES_H
#define T3_SHIM_LINUX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include_next <linux/types.h> /* the uapi one: __u8, __be32, ... */

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX

#endif
