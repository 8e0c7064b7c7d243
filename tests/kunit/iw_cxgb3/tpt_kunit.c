// SPDX-License-Identifier: GPL-2.0
/* Page arithmetic against a count of pages, and TPT entries in the card's format. */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "tpt.c"

/* By definition: the number of pages from the first byte to the last one. */
static u64 count_pages(u64 va, u64 len, u8 page_code)
{
	unsigned int shift = T3_PAGE_CODE_SHIFT + page_code;

	return len ? ((va + len - 1) >> shift) - (va >> shift) + 1 : 0;
}

static void pages_are_counted_right(struct kunit *test)
{
	struct rnd_state random;
	unsigned int round;

	prandom_seed_state(&random, 5040);
	for (round = 0; round < 2000; round++) {
		u64 va = (u64)prandom_u32_state(&random) << (prandom_u32_state(&random) % 24);
		u64 len = prandom_u32_state(&random) >> (prandom_u32_state(&random) % 32);
		u8 code = prandom_u32_state(&random) % (T3_MAX_PAGE_CODE + 1);
		u64 pages = t3_pages(va, len, code);

		KUNIT_ASSERT_EQ_MSG(test, pages, count_pages(va, len, code), "va %llx len %llx",
				    va, len);
		if (len) {
			KUNIT_ASSERT_EQ(test, t3_page_index(va, va, code), 0);
			KUNIT_ASSERT_EQ(test, t3_page_index(va, va + len - 1, code), pages - 1);
		}
	}
}

/* B17: a region at the end of the address space. */
static void page_count_does_not_overflow(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, t3_pages(~0ULL, 1, 0), 1);
	KUNIT_EXPECT_EQ(test, t3_pages(~0ULL - 4096, 4097, 0), 2);
	KUNIT_EXPECT_EQ(test, t3_pages(0, ~0U, 0), 0x100000);
}

static void tpt_entry_is_big_endian_and_complete(struct kunit *test)
{
	struct t3_tpt tpt = {
		.stag = 0x001234ab, .pdid = 0x7fff, .perms = t3_perms(IB_ACCESS_LOCAL_WRITE),
		.page_code = 3, .usable = true, .len = 0x11223344, .va = 0x5566778899aabbccULL,
		.pbl_index = 0x40, .pbl_entries = 12,
	};
	static const u8 wanted[T3_TPT_ENTRY_BYTES] = {
		0xd5, 0xc0, 0x7f, 0xff, 0xc4, 0x30, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40,
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03,
	};
	struct t3_tpt_entry entry;

	memset(&entry, 0xff, sizeof(entry));
	t3_tpt_build(&entry, &tpt);
	KUNIT_EXPECT_EQ(test, memcmp(&entry, wanted, sizeof(wanted)), 0);
}

static void access_flags_map_to_exactly_their_permissions(struct kunit *test)
{
	static const struct {
		unsigned int access;
		u8 perm;
	} rights[] = {
		{ IB_ACCESS_LOCAL_WRITE, T3_PERM_LOCAL_WRITE },
		{ IB_ACCESS_REMOTE_READ, T3_PERM_REMOTE_READ },
		{ IB_ACCESS_REMOTE_WRITE, T3_PERM_REMOTE_WRITE },
		{ IB_ACCESS_MW_BIND, T3_PERM_BIND },
	};
	unsigned int set, i;

	for (set = 0; set < BIT(ARRAY_SIZE(rights)); set++) {
		unsigned int access = IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_RELAXED_ORDERING;
		u8 wanted = T3_PERM_LOCAL_READ;

		for (i = 0; i < ARRAY_SIZE(rights); i++) {
			if (set & BIT(i)) {
				access |= rights[i].access;
				wanted |= rights[i].perm;
			}
		}
		KUNIT_EXPECT_EQ_MSG(test, t3_perms(access), wanted, "access %#x", access);
	}
}

static struct kunit_case tpt_cases[] = {
	KUNIT_CASE(pages_are_counted_right),
	KUNIT_CASE(page_count_does_not_overflow),
	KUNIT_CASE(tpt_entry_is_big_endian_and_complete),
	KUNIT_CASE(access_flags_map_to_exactly_their_permissions),
	{}
};

static struct kunit_suite tpt_suite = {
	.name = "iw_cxgb3_tpt",
	.test_cases = tpt_cases,
};

kunit_test_suites(&tpt_suite);

MODULE_DESCRIPTION("KUnit tests of iw_cxgb3: tpt");
MODULE_LICENSE("GPL");
