/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copies of requests and responses: a few words between user space and a buffer of
 * known size on the stack. Like copy_from_user() and copy_to_user(), they call
 * might_fault(), fault injection and the hooks of KASAN, KCSAN and KMSAN, all of
 * which are empty in kernels without debugging. In place of check_object_size()
 * they compare with the size of the buffer, which the caller passes. That is
 * stricter: check_object_size() knows only the bounds of the stack frame. Long copies are left to
 * copy_from_user() and copy_to_user(), whose string instructions are faster than a loop then.
 */
#ifndef T3_COPY_H
#define T3_COPY_H

#include <linux/bug.h>
#include <linux/fault-inject-usercopy.h>
#include <linux/instrumented.h>
#include <linux/kernel.h>
#include <linux/math.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/uaccess.h>

#define T3_COPY_SHORT	128
/* t3_zero() clears a multiple of this size. */
#define T3_ZERO_STEP	(2 * sizeof(u64))

#define T3_COPY_IN(type, at) \
	unsafe_get_user(*(type *)(to + (at)), (const type __user *)(from + (at)), fault)
#define T3_COPY_OUT(type, at) \
	unsafe_put_user(*(const type *)(from + (at)), (type __user *)(to + (at)), fault)

/* Copies len bytes into a buffer of size bytes. */
static __always_inline int t3_copy_in(void *to, size_t size, const void __user *from, size_t len)
{
	size_t pairs = round_down(len, 2 * sizeof(u64)), at;

	if (WARN_ON_ONCE(len > size))
		return -EFAULT;
	if (!IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) || len > T3_COPY_SHORT)
		return copy_from_user(to, from, len) ? -EFAULT : 0;
	might_fault();
	instrument_copy_from_user_before(to, from, len);
	if (should_fail_usercopy() || !user_read_access_begin(from, len))
		return -EFAULT;
	for (at = 0; at < pairs; at += 2 * sizeof(u64)) {
		T3_COPY_IN(u64, at);
		T3_COPY_IN(u64, at + sizeof(u64));
	}
	if (len & sizeof(u64)) {
		T3_COPY_IN(u64, at);
		at += sizeof(u64);
	}
	if (len & sizeof(u32)) {
		T3_COPY_IN(u32, at);
		at += sizeof(u32);
	}
	for (; at < len; at++)
		T3_COPY_IN(u8, at);
	user_read_access_end();
	instrument_copy_from_user_after(to, from, len, 0);
	return 0;
fault:
	user_read_access_end();
	return -EFAULT;
}

/*
 * Clears len bytes, rounded up to T3_ZERO_STEP. For a few words memset() spends more instructions
 * on the selection of a method than on the stores. WRITE_ONCE() keeps the compiler from making a
 * memset() of the loop.
 */
static inline void t3_zero(u64 *to, size_t len)
{
	const u64 *end = to + round_up(len, T3_ZERO_STEP) / sizeof(*to);

	if (len > 8 * sizeof(*to)) {
		memset(to, 0, len);
		return;
	}
	for (; to < end; to += 2) {
		WRITE_ONCE(to[0], 0);
		WRITE_ONCE(to[1], 0);
	}
}

/* Copies len bytes of a buffer of size bytes. */
static __always_inline int t3_copy_out(void __user *to, const void *from, size_t size, size_t len)
{
	size_t pairs = round_down(len, 2 * sizeof(u64)), at;

	if (WARN_ON_ONCE(len > size))
		return -EFAULT;
	if (!IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) || len > T3_COPY_SHORT)
		return copy_to_user(to, from, len) ? -EFAULT : 0;
	might_fault();
	instrument_copy_to_user(to, from, len);
	if (should_fail_usercopy() || !user_write_access_begin(to, len))
		return -EFAULT;
	for (at = 0; at < pairs; at += 2 * sizeof(u64)) {
		T3_COPY_OUT(u64, at);
		T3_COPY_OUT(u64, at + sizeof(u64));
	}
	if (len & sizeof(u64)) {
		T3_COPY_OUT(u64, at);
		at += sizeof(u64);
	}
	if (len & sizeof(u32)) {
		T3_COPY_OUT(u32, at);
		at += sizeof(u32);
	}
	for (; at < len; at++)
		T3_COPY_OUT(u8, at);
	user_write_access_end();
	return 0;
fault:
	user_write_access_end();
	/* Writes the bytes before the fault, as copy_to_user() in ib_uverbs does. */
	return copy_to_user(to, from, len) ? -EFAULT : 0;
}

/*
 * Bytes beyond the structure that this version knows must be zero, or the caller uses an extension:
 * EOPNOTSUPP.
 */
static inline int t3_check_zero_tail(const void __user *buf, size_t known, size_t len)
{
	int zero;

	if (len <= known)
		return 0;
	zero = check_zeroed_user(buf + known, len - known);
	if (zero < 0)
		return zero;
	return zero ? 0 : -EOPNOTSUPP;
}

#undef T3_COPY_SHORT
#undef T3_COPY_IN
#undef T3_COPY_OUT

#endif
