/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Layouts prove themselves wherever they are compiled: kernel C, user-space C and C++.
 */
#ifndef WIRE_ASSERT_H
#define WIRE_ASSERT_H

#ifdef __cplusplus
#define WIRE_ASSERT(condition)	static_assert(condition, #condition)
#else
#define WIRE_ASSERT(condition)	_Static_assert(condition, #condition)
#endif

#define WIRE_ASSERT_SIZE(type, bytes)	WIRE_ASSERT(sizeof(type) == (bytes))
#define WIRE_ASSERT_OFFSET(type, field, bytes) \
	WIRE_ASSERT(__builtin_offsetof(type, field) == (bytes))

#endif /* WIRE_ASSERT_H */
