// SPDX-License-Identifier: GPL-2.0
/*
 * MPA Request and Reply Frames. The buffer of a frame to parse has exactly its size, so
 * that KASAN detects a read beyond the end.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/slab.h>

#include "mpa.c"

static enum mpa_status parse_exactly(struct kunit *test, enum mpa_kind kind, const u8 *bytes,
				     size_t len, struct mpa_startup *frame)
{
	u8 *exact = kmalloc(max_t(size_t, len, 1), GFP_KERNEL);
	enum mpa_status status;

	KUNIT_ASSERT_NOT_NULL(test, exact);
	memcpy(exact, bytes, len);
	status = mpa_parse(kind, len ? exact : exact + 1, len, frame);
	if (status == MPA_COMPLETE && frame->pdata_len)
		KUNIT_EXPECT_TRUE(test, frame->pdata >= exact &&
				  frame->pdata + frame->pdata_len <= exact + len);
	kfree(exact);
	return status;
}

struct shape {
	const char *name;
	struct mpa_startup frame;
};

static const u8 pdata[MPA_MAX_CONSUMER_PD] = { 'p', 'r', 'i', 'v', 'a', 't', 'e' };

static const struct shape shapes[] = {
	{ "rev 1 request", { .kind = MPA_REQUEST, .rev = 1, .crc = true } },
	{ "rev 1 request with data",
	  { .kind = MPA_REQUEST, .rev = 1, .markers = true, .pdata = pdata, .pdata_len = 7 } },
	{ "rev 1 reply", { .kind = MPA_REPLY, .rev = 1 } },
	{ "rev 1 reject", { .kind = MPA_REPLY, .rev = 1, .reject = true, .pdata = pdata,
			    .pdata_len = sizeof(pdata) } },
	{ "rev 2 request",
	  { .kind = MPA_REQUEST, .rev = 2, .crc = true, .enhanced = true, .ird = 8, .ord = 1,
	    .peer_to_peer = true, .rtr = MPA_RTR_READ, .pdata = pdata, .pdata_len = 1 } },
	{ "rev 2 reply", { .kind = MPA_REPLY, .rev = 2, .enhanced = true,
			   .ird = MPA_V2_DEPTH_NONE, .ord = 0,
			   .rtr = MPA_RTR_SEND | MPA_RTR_WRITE } },
	{ "rev 2 without depths", { .kind = MPA_REQUEST, .rev = 2 } },
	{ "rev 2, longest private data",
	  { .kind = MPA_REPLY, .rev = 2, .enhanced = true, .ird = 1, .ord = 1, .pdata = pdata,
	    .pdata_len = sizeof(pdata) } },
};

static void shape_name(const struct shape *shape, char *name)
{
	strscpy(name, shape->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(shape, shapes, shape_name);

static void built_frame_is_parsed(struct kunit *test)
{
	const struct mpa_startup *sent = &((const struct shape *)test->param_value)->frame;
	u8 *buf = kunit_kzalloc(test, MPA_MAX_FRAME_LEN, GFP_KERNEL);
	struct mpa_startup got;
	int len;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	len = mpa_build(buf, MPA_MAX_FRAME_LEN, sent);
	KUNIT_ASSERT_GT(test, len, 0);
	KUNIT_EXPECT_EQ(test, mpa_build(buf, len - 1, sent), -ENOSPC);
	KUNIT_ASSERT_EQ(test, mpa_parse(sent->kind, buf, len, &got), MPA_COMPLETE);

	KUNIT_EXPECT_EQ(test, got.rev, sent->rev);
	KUNIT_EXPECT_EQ(test, got.markers, sent->markers);
	KUNIT_EXPECT_EQ(test, got.crc, sent->crc);
	KUNIT_EXPECT_EQ(test, got.reject, sent->reject);
	KUNIT_EXPECT_EQ(test, got.enhanced, sent->enhanced);
	KUNIT_EXPECT_EQ(test, got.peer_to_peer, sent->peer_to_peer);
	KUNIT_EXPECT_EQ(test, got.rtr, sent->rtr);
	KUNIT_EXPECT_EQ(test, got.ird, sent->enhanced ? sent->ird : MPA_V2_DEPTH_NONE);
	KUNIT_EXPECT_EQ(test, got.ord, sent->enhanced ? sent->ord : MPA_V2_DEPTH_NONE);
	KUNIT_ASSERT_EQ(test, got.pdata_len, sent->pdata_len);
	if (sent->pdata_len)
		KUNIT_EXPECT_EQ(test, memcmp(got.pdata, pdata, sent->pdata_len), 0);
}

/* Each prefix is incomplete, one more byte is an error, and no byte after the end is read. */
static void other_lengths_are_not_complete(struct kunit *test)
{
	const struct mpa_startup *sent = &((const struct shape *)test->param_value)->frame;
	u8 *buf = kunit_kzalloc(test, MPA_MAX_FRAME_LEN + 1, GFP_KERNEL);
	struct mpa_startup got;
	int len, n;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	len = mpa_build(buf, MPA_MAX_FRAME_LEN, sent);
	KUNIT_ASSERT_GT(test, len, 0);
	for (n = 0; n <= len + 1; n++)
		KUNIT_EXPECT_EQ_MSG(test, parse_exactly(test, sent->kind, buf, n, &got),
				    n < len ? MPA_INCOMPLETE :
				    n == len ? MPA_COMPLETE : MPA_EXCESS, "%d of %d", n, len);
	KUNIT_EXPECT_EQ(test, parse_exactly(test, !sent->kind, buf, len, &got), MPA_BAD_KEY);
}

/* Random bytes after a valid key: no crash, and no inconsistent frame. */
static void random_bytes_are_safe(struct kunit *test)
{
	u8 *buf = kunit_kzalloc(test, 64, GFP_KERNEL);
	unsigned int seen[MPA_EXCESS + 1] = {};
	struct rnd_state random;
	struct mpa_startup got;
	unsigned int round;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	prandom_seed_state(&random, 6581);
	for (round = 0; round < 4000; round++) {
		size_t len = prandom_u32_state(&random) % 65;
		enum mpa_kind kind = round & 1;
		enum mpa_status status;

		prandom_bytes_state(&random, buf, 64);
		if (round & 2)
			memcpy(buf, mpa_key[kind], MPA_KEY_SIZE);
		if (round & 4)
			buf[REVISION_AT] = 1 + (round & 8) / 8;
		if (round & 16) {
			buf[PD_LENGTH_AT] = 0;
			buf[PD_LENGTH_AT + 1] &= 0x1f;
		}
		status = parse_exactly(test, kind, buf, len, &got);
		KUNIT_ASSERT_LE(test, status, MPA_EXCESS);
		seen[status]++;
		if (status != MPA_COMPLETE)
			continue;
		KUNIT_EXPECT_TRUE(test, got.rev == 1 || got.rev == 2);
		KUNIT_EXPECT_TRUE(test, got.rev == 2 || !got.enhanced);
		KUNIT_EXPECT_EQ(test, MPA_HDR_LEN + (got.enhanced ? MPA_ENHANCED_LEN : 0) +
				got.pdata_len, len);
	}
	/* The rounds must cover each status. */
	for (round = 0; round < ARRAY_SIZE(seen); round++)
		KUNIT_EXPECT_NE_MSG(test, seen[round], 0, "%s", mpa_status_name(round));
}

static void invalid_contents_are_not_built(struct kunit *test)
{
	struct mpa_startup frame = { .kind = MPA_REQUEST, .rev = 1, .enhanced = true };
	u8 buf[MPA_HDR_LEN + MPA_ENHANCED_LEN];

	KUNIT_EXPECT_EQ(test, mpa_build(buf, sizeof(buf), &frame), -EINVAL);
	frame = (struct mpa_startup){ .kind = MPA_REQUEST, .rev = 2, .reject = true };
	KUNIT_EXPECT_EQ(test, mpa_build(buf, sizeof(buf), &frame), -EINVAL);
	frame = (struct mpa_startup){ .kind = MPA_REPLY, .rev = 1, .pdata = pdata,
				      .pdata_len = MPA_MAX_CONSUMER_PD + 1 };
	KUNIT_EXPECT_EQ(test, mpa_build(buf, sizeof(buf), &frame), -EINVAL);
}

/* RFC 6581, sections 8 and 9: layer 2, type 0, code 6; with the CRC of the unit test. */
static void terminate_has_its_length_and_crc(struct kunit *test)
{
	static const u8 expected[] = {
		0, 22, 0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x20, 6, 0, 0,
		0x65, 0x40, 0xfb, 0x1b,
	};
	u8 buf[MPA_TERMINATE_LEN];

	KUNIT_EXPECT_EQ(test, mpa_build_terminate(buf, sizeof(buf), 6), (int)sizeof(expected));
	KUNIT_EXPECT_EQ(test, memcmp(buf, expected, sizeof(expected)), 0);
	KUNIT_EXPECT_EQ(test, mpa_build_terminate(buf, sizeof(buf) - 1, 6), -ENOSPC);
}

static struct kunit_case mpa_cases[] = {
	KUNIT_CASE_PARAM(built_frame_is_parsed, shape_gen_params),
	KUNIT_CASE_PARAM(other_lengths_are_not_complete, shape_gen_params),
	KUNIT_CASE(random_bytes_are_safe),
	KUNIT_CASE(invalid_contents_are_not_built),
	KUNIT_CASE(terminate_has_its_length_and_crc),
	{}
};

static struct kunit_suite mpa_suite = {
	.name = "iw_cxgb3_mpa",
	.test_cases = mpa_cases,
};

kunit_test_suites(&mpa_suite);

MODULE_DESCRIPTION("KUnit tests of iw_cxgb3: mpa");
MODULE_LICENSE("GPL");
