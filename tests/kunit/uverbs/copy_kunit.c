// SPDX-License-Identifier: GPL-2.0
/* t3_copy_in() and t3_copy_out(): each length, and the hooks of debugging kernels. */
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>

#include "../suite.h"
#include "../user_memory.h"

/* The arguments of the hooks of a debugging kernel. */
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
#include <t3_copy.h>
#undef should_fail_usercopy
#undef instrument_copy_from_user_before
#undef instrument_copy_to_user

#define MAX_LEN 200	/* beyond T3_COPY_SHORT */

static struct mm_struct *user_mm;
static u8 __user *user;

/* A suite starts in the process that loads the module; the tests use that process's memory. */
static int copy_suite_init(struct kunit_suite *suite)
{
	unsigned long at;

	if (!current->mm)
		return -EINVAL;
	at = vm_mmap(NULL, 0, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE,
		     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (IS_ERR_VALUE(at))
		return at;
	/* The buffer ends at the end of the mapping. */
	vm_munmap(at + PAGE_SIZE, PAGE_SIZE);
	user = (u8 __user *)(at + PAGE_SIZE - MAX_LEN);
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
	user_memory_begin(user_mm);
	return 0;
}

static void copy_exit(struct kunit *test)
{
	user_memory_end(user_mm);
}

static void copy_in_each_length(struct kunit *test)
{
	u8 pattern[MAX_LEN], to[MAX_LEN];
	size_t len, i;

	for (i = 0; i < MAX_LEN; i++)
		pattern[i] = i + 1;
	for (len = 0; len <= MAX_LEN; len++) {
		memset(to, 0, sizeof(to));
		KUNIT_ASSERT_EQ(test, copy_to_user(user + MAX_LEN - len, pattern, len), 0);
		KUNIT_EXPECT_EQ(test, t3_copy_in(to, sizeof(to), user + MAX_LEN - len, len), 0);
		KUNIT_EXPECT_EQ(test, memcmp(to, pattern, len), 0);
		KUNIT_EXPECT_NULL(test, memchr_inv(to + len, 0, sizeof(to) - len));
	}
	KUNIT_EXPECT_EQ(test, t3_copy_in(to, sizeof(to), user + 1, MAX_LEN), -EFAULT);
}

static void copy_out_each_length(struct kunit *test)
{
	u8 pattern[MAX_LEN], back[MAX_LEN];
	size_t len, i;

	for (i = 0; i < MAX_LEN; i++)
		pattern[i] = i + 1;
	for (len = 0; len <= MAX_LEN; len++) {
		KUNIT_ASSERT_EQ(test, clear_user(user, MAX_LEN), 0);
		KUNIT_EXPECT_EQ(test, t3_copy_out(user + MAX_LEN - len, pattern, MAX_LEN, len), 0);
		KUNIT_ASSERT_EQ(test, copy_from_user(back, user, MAX_LEN), 0);
		KUNIT_EXPECT_EQ(test, memcmp(back + MAX_LEN - len, pattern, len), 0);
		KUNIT_EXPECT_NULL(test, memchr_inv(back, 0, MAX_LEN - len));
	}
	KUNIT_EXPECT_EQ(test, t3_copy_out(user + 1, pattern, MAX_LEN, MAX_LEN), -EFAULT);
}

/* Where words are not copied one by one, copy_from_user() and copy_to_user() call the hooks. */
static bool copied_as_words(struct kunit *test)
{
	if (IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS))
		return true;
	/* Not kunit_skip(): the thread must end with copy_exit(). */
	kunit_mark_skipped(test, "this architecture has no unaligned accesses");
	return false;
}

/* The same hooks as in copy_from_user() and copy_to_user(): KASAN, KCSAN, KMSAN. */
static void debug_hooks_are_called(struct kunit *test)
{
	u8 buffer[MAX_LEN] = {};

	if (!copied_as_words(test))
		return;
	KUNIT_EXPECT_EQ(test, t3_copy_in(buffer + 8, sizeof(buffer) - 8, user, 21), 0);
	KUNIT_EXPECT_EQ(test, seen.may_sleep, 1);
	KUNIT_EXPECT_PTR_EQ(test, seen.written, (const void *)buffer + 8);
	KUNIT_EXPECT_EQ(test, seen.written_len, 21);
	KUNIT_EXPECT_EQ(test, t3_copy_out(user, buffer + 16, sizeof(buffer) - 16, 13), 0);
	KUNIT_EXPECT_EQ(test, seen.may_sleep, 2);
	KUNIT_EXPECT_PTR_EQ(test, seen.read, (const void *)buffer + 16);
	KUNIT_EXPECT_EQ(test, seen.read_len, 13);
}

static void injected_faults_fail_the_copy(struct kunit *test)
{
	u8 buffer[MAX_LEN] = {};

	if (!copied_as_words(test))
		return;
	seen.fail = true;
	KUNIT_EXPECT_EQ(test, t3_copy_in(buffer, sizeof(buffer), user, 8), -EFAULT);
	KUNIT_EXPECT_EQ(test, t3_copy_out(user, buffer, sizeof(buffer), 8), -EFAULT);
}

static struct kunit_case copy_cases[] = {
	KUNIT_CASE(copy_in_each_length),
	KUNIT_CASE(copy_out_each_length),
	KUNIT_CASE(debug_hooks_are_called),
	KUNIT_CASE(injected_faults_fail_the_copy),
	{}
};

TEST_SUITE("t3_uverbs_copy", copy_cases, .suite_init = copy_suite_init,
	   .suite_exit = copy_suite_exit, .init = copy_init, .exit = copy_exit);
