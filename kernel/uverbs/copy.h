/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copies of requests and answers: a few words, between the caller and a buffer
 * of known size on our stack. They do what copy_from_user() and copy_to_user()
 * do for debugging kernels, which costs nothing in others: might_fault(), fault
 * injection, and the report of what is read and written to KASAN, KCSAN and
 * KMSAN. check_object_size() is replaced by the size that the caller gives,
 * which is exact, where the former knows only the frame of the stack.
 */
#ifndef T3_UVERBS_COPY_H
#define T3_UVERBS_COPY_H

#include <linux/bug.h>
#include <linux/fault-inject-usercopy.h>
#include <linux/instrumented.h>
#include <linux/kernel.h>
#include <linux/math.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/uaccess.h>

#define UV_COPY_IN(type, at) \
	unsafe_get_user(*(type *)(to + (at)), (const type __user *)(from + (at)), fault)
#define UV_COPY_OUT(type, at) \
	unsafe_put_user(*(const type *)(from + (at)), (type __user *)(to + (at)), fault)

/* len bytes into a buffer of size bytes. */
static inline int uv_copy_in(void *to, size_t size, const void __user *from, size_t len)
{
	size_t words = len / sizeof(u64), i, at = words * sizeof(u64);

	if (WARN_ON_ONCE(len > size))
		return -EFAULT;
	if (!IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS))
		return copy_from_user(to, from, len) ? -EFAULT : 0;
	might_fault();
	instrument_copy_from_user_before(to, from, len);
	if (should_fail_usercopy() || !user_read_access_begin(from, len))
		return -EFAULT;
	for (i = 0; i < words; i++)
		UV_COPY_IN(u64, i * sizeof(u64));
	if (len & sizeof(u32)) {
		UV_COPY_IN(u32, at);
		at += sizeof(u32);
	}
	for (; at < len; at++)
		UV_COPY_IN(u8, at);
	user_read_access_end();
	instrument_copy_from_user_after(to, from, len, 0);
	return 0;
fault:
	user_read_access_end();
	return -EFAULT;
}

/*
 * So many bytes, made up to words. For a few, memset() spends more on finding
 * out how to write than on writing; the compiler would see one in plain stores.
 */
static inline void uv_zero(u64 *to, size_t len)
{
	const u64 *end = to + DIV_ROUND_UP(len, sizeof(*to));

	if (len > 8 * sizeof(*to)) {
		memset(to, 0, len);
		return;
	}
	for (; to < end; to++)
		WRITE_ONCE(*to, 0);
}

/* len bytes of a buffer of size bytes. */
static inline int uv_copy_out(void __user *to, const void *from, size_t size, size_t len)
{
	size_t words = len / sizeof(u64), i, at = words * sizeof(u64);

	if (WARN_ON_ONCE(len > size))
		return -EFAULT;
	if (!IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS))
		return copy_to_user(to, from, len) ? -EFAULT : 0;
	might_fault();
	instrument_copy_to_user(to, from, len);
	if (should_fail_usercopy() || !user_write_access_begin(to, len))
		return -EFAULT;
	for (i = 0; i < words; i++)
		UV_COPY_OUT(u64, i * sizeof(u64));
	if (len & sizeof(u32)) {
		UV_COPY_OUT(u32, at);
		at += sizeof(u32);
	}
	for (; at < len; at++)
		UV_COPY_OUT(u8, at);
	user_write_access_end();
	return 0;
fault:
	user_write_access_end();
	/* Byte by byte as far as it goes, which is what callers have always seen. */
	return copy_to_user(to, from, len) ? -EFAULT : 0;
}

#undef UV_COPY_IN
#undef UV_COPY_OUT

#endif
