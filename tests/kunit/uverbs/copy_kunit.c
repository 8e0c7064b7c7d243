// SPDX-License-Identifier: GPL-2.0
/* The dispatcher's own copies from and to user space: exact, and announced to debugging kernels. */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>

/* What was reported to the checkers of a debugging kernel. */
static struct {
	unsigned int may_sleep;
	const void *written, *read;
	size_t written_len, read_len;
	bool fail;
} seen;

static inline void written(const void *to, size_t len)
{
	instrument_copy_from_user_before(to, NULL, len);
	seen.written = to;
	seen.written_len = len;
}

static inline void read_by(const void *from, size_t len)
{
	instrument_copy_to_user(NULL, from, len);
	seen.read = from;
	seen.read_len = len;
}

#undef might_fault
#define might_fault() (seen.may_sleep++)
#define should_fail_usercopy() (seen.fail)
#define instrument_copy_from_user_before(to, from, len) written(to, len)
#define instrument_copy_to_user(to, from, len) read_by(from, len)
#include "copy.h"
#undef should_fail_usercopy
#undef instrument_copy_from_user_before
#undef instrument_copy_to_user

#define MOST 64

static struct mm_struct *user_mm;
static u8 __user *user;

/* Suites begin in the program that loads the module: its memory is borrowed. */
static int copy_suite_init(struct kunit_suite *suite)
{
	unsigned long at;

	if (!current->mm)
		return -EINVAL;
	at = vm_mmap(NULL, 0, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE,
		     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (IS_ERR_VALUE(at))
		return at;
	/* What is copied ends where the memory does. */
	vm_munmap(at + PAGE_SIZE, PAGE_SIZE);
	user = (u8 __user *)(at + PAGE_SIZE - MOST);
	user_mm = current->mm;
	mmget(user_mm);
	return 0;
}

static void copy_suite_exit(struct kunit_suite *suite)
{
	vm_munmap((unsigned long)user & PAGE_MASK, PAGE_SIZE);
	mmput(user_mm);
}

static int copy_init(struct kunit *test)
{
	memset(&seen, 0, sizeof(seen));
	kthread_use_mm(user_mm);
	return 0;
}

static void copy_exit(struct kunit *test)
{
	if (current->mm)
		kthread_unuse_mm(user_mm);
}

static void every_length_comes_in(struct kunit *test)
{
	u8 pattern[MOST], to[MOST];
	size_t len, i;

	for (i = 0; i < MOST; i++)
		pattern[i] = i + 1;
	for (len = 0; len <= MOST; len++) {
		memset(to, 0, sizeof(to));
		KUNIT_ASSERT_EQ(test, copy_to_user(user + MOST - len, pattern, len), 0);
		KUNIT_EXPECT_EQ(test, uv_copy_in(to, sizeof(to), user + MOST - len, len), 0);
		KUNIT_EXPECT_EQ(test, memcmp(to, pattern, len), 0);
		KUNIT_EXPECT_NULL(test, memchr_inv(to + len, 0, sizeof(to) - len));
	}
	KUNIT_EXPECT_EQ(test, uv_copy_in(to, sizeof(to), user + 1, MOST), -EFAULT);
}

static void every_length_goes_out(struct kunit *test)
{
	u8 pattern[MOST], back[MOST];
	size_t len, i;

	for (i = 0; i < MOST; i++)
		pattern[i] = i + 1;
	for (len = 0; len <= MOST; len++) {
		KUNIT_ASSERT_EQ(test, clear_user(user, MOST), 0);
		KUNIT_EXPECT_EQ(test, uv_copy_out(user + MOST - len, pattern, MOST, len), 0);
		KUNIT_ASSERT_EQ(test, copy_from_user(back, user, MOST), 0);
		KUNIT_EXPECT_EQ(test, memcmp(back + MOST - len, pattern, len), 0);
		KUNIT_EXPECT_NULL(test, memchr_inv(back, 0, MOST - len));
	}
	KUNIT_EXPECT_EQ(test, uv_copy_out(user + 1, pattern, MOST, MOST), -EFAULT);
}

/* As copy_from_user() and copy_to_user() do: KASAN and the others see the path that ships. */
static void checkers_are_asked(struct kunit *test)
{
	u8 buffer[MOST] = {};

	KUNIT_EXPECT_EQ(test, uv_copy_in(buffer + 8, sizeof(buffer) - 8, user, 21), 0);
	KUNIT_EXPECT_EQ(test, seen.may_sleep, 1);
	KUNIT_EXPECT_PTR_EQ(test, seen.written, (const void *)buffer + 8);
	KUNIT_EXPECT_EQ(test, seen.written_len, 21);
	KUNIT_EXPECT_EQ(test, uv_copy_out(user, buffer + 16, sizeof(buffer) - 16, 13), 0);
	KUNIT_EXPECT_EQ(test, seen.may_sleep, 2);
	KUNIT_EXPECT_PTR_EQ(test, seen.read, (const void *)buffer + 16);
	KUNIT_EXPECT_EQ(test, seen.read_len, 13);
}

static void injected_faults_fail_the_copy(struct kunit *test)
{
	u8 buffer[MOST] = {};

	seen.fail = true;
	KUNIT_EXPECT_EQ(test, uv_copy_in(buffer, sizeof(buffer), user, 8), -EFAULT);
	KUNIT_EXPECT_EQ(test, uv_copy_out(user, buffer, sizeof(buffer), 8), -EFAULT);
}

static struct kunit_case copy_cases[] = {
	KUNIT_CASE(every_length_comes_in),
	KUNIT_CASE(every_length_goes_out),
	KUNIT_CASE(checkers_are_asked),
	KUNIT_CASE(injected_faults_fail_the_copy),
	{}
};

static struct kunit_suite copy_suite = {
	.name = "t3_uverbs_copy",
	.suite_init = copy_suite_init,
	.suite_exit = copy_suite_exit,
	.init = copy_init,
	.exit = copy_exit,
	.test_cases = copy_cases,
};

kunit_test_suites(&copy_suite);

MODULE_LICENSE("GPL");
