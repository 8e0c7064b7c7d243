/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attributes of the compiler's check of locks (context analysis, Linux 7.0 and
 * later with clang), and their empty forms for other kernels.
 *
 * A member with __guarded_by() is accessed with its lock only; a function with
 * __must_hold() is called with it. tools/kernel-headers/check-locks reports what
 * violates this. lockdep_assert_held() is for locks that only the running kernel can
 * compare; the compiler then takes the lock for held.
 */
#ifndef T3_CONTEXT_H
#define T3_CONTEXT_H

#include <linux/compiler.h>

/* For mutexes, which sparse of other kernels does not follow. */
#ifdef __guarded_by
#define t3_cond_acquires(lock)	__cond_acquires(true, lock)
#define t3_acquires(lock)	__acquires(lock)
#define t3_releases(lock)	__releases(lock)
#else
#define t3_cond_acquires(lock)
#define t3_acquires(lock)
#define t3_releases(lock)
#define __guarded_by(...)
/* An access that needs no lock, for the reason in the comment beside it. */
#define context_unsafe(...)	({ __VA_ARGS__; })
/* The same for a function; the argument is the reason. */
#define __context_unsafe(reason)
#endif

/* RCU is held shared. */
#ifndef __must_hold_shared
#define __must_hold_shared(...)
#endif

#ifndef __acquire_shared
#define __acquire_shared(context)	__acquire(context)
#define __release_shared(context)	__release(context)
#endif

#endif
