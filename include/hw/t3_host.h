/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the sources shared by the kernel module and the user library need of
 * either side: byte order, errno, memcpy().
 */
#ifndef T3_HW_HOST_H
#define T3_HW_HOST_H

#include <linux/types.h>

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#define t3_to_be32	cpu_to_be32
#define t3_to_be64	cpu_to_be64
#define t3_from_be32	be32_to_cpu
#define t3_from_be64	be64_to_cpu
#ifdef __BIG_ENDIAN
#define T3_BIG_ENDIAN
#endif

#else
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#ifndef __force
#define __force
#endif

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define T3_BIG_ENDIAN
#define t3_to_be32(x)	((__u32)(x))
#define t3_to_be64(x)	((__u64)(x))
#else
#define t3_to_be32(x)	__builtin_bswap32(x)
#define t3_to_be64(x)	((__u64)__builtin_bswap64(x))
#endif
/* Swapping is its own inverse. */
#define t3_from_be32	t3_to_be32
#define t3_from_be64	t3_to_be64

#endif

/* A function of its arguments alone; C++ may use it in constant expressions. */
#ifdef __cplusplus
#define t3_constant_fn	constexpr __always_inline
#else
#define t3_constant_fn	static __always_inline
#endif

/* Two 32-bit halves of memory, one after the other, in one word. */
t3_constant_fn __u64 t3_two_words(__u32 first, __u32 second)
{
#ifdef T3_BIG_ENDIAN
	return (__u64)first << 32 | second;
#else
	return (__u64)second << 32 | first;
#endif
}

/* Two bytes and two of zero. */
t3_constant_fn __u32 t3_two_bytes(__u8 first, __u8 second)
{
#ifdef T3_BIG_ENDIAN
	return (__u32)first << 24 | (__u32)second << 16;
#else
	return (__u32)second << 8 | first;
#endif
}

#define t3_likely(x)	__builtin_expect(!!(x), 1)
#define t3_unlikely(x)	__builtin_expect(!!(x), 0)

#endif
