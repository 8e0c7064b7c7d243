// SPDX-License-Identifier: GPL-2.0
/*
 * Code that the driver shares with the user library: building requests and decoding completions.
 * Uses the tables of tests/unit/kernel/shared_test.cc, here with the kernel's byte order, memcpy()
 * and compiler flags.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "tests/tables/requests.h"

#define NAME_OF(type)							\
	static void type##_name(const struct type *row, char *name)	\
	{								\
		strscpy(name, row->name, KUNIT_PARAM_DESC_SIZE);	\
	}

NAME_OF(t3_request_row)
NAME_OF(t3_header_row)
NAME_OF(t3_entry_row)

KUNIT_ARRAY_PARAM(request, t3_request_rows, t3_request_row_name);
KUNIT_ARRAY_PARAM(header, t3_header_rows, t3_header_row_name);
KUNIT_ARRAY_PARAM(entry, t3_entry_rows, t3_entry_row_name);

static void request_is_built_as_tabulated(struct kunit *test)
{
	const struct t3_request_row *row = test->param_value;
	union t3_wr_slot *slot = kunit_kzalloc(test, sizeof(*slot), GFP_KERNEL);
	const u8 *bytes = (const u8 *)slot;
	static const u8 patterns[] = { 0xa5, 0x5a };
	unsigned int i, p;

	KUNIT_ASSERT_NOT_NULL(test, slot);
	for (p = 0; p < ARRAY_SIZE(patterns); p++) {
		memset(slot, patterns[p], sizeof(*slot));
		KUNIT_ASSERT_EQ(test, t3_build_row(row, slot), row->flits);
		if (row->flits < 0)
			continue;
		KUNIT_EXPECT_EQ(test, t3_row_compare(row->words, bytes + 16), 8 * (row->flits - 2));
		/* The builder must not write the header, the status word or the generation. */
		for (i = 0; i < 16; i++)
			KUNIT_EXPECT_EQ(test, bytes[i], patterns[p]);
		for (i = 8 * T3_RECV_FLITS; i < sizeof(*slot); i++)
			KUNIT_EXPECT_EQ(test, bytes[i], patterns[p]);
	}
}

static void wr_header_is_built_as_tabulated(struct kunit *test)
{
	const struct t3_header_row *row = test->param_value;
	const __be32 words[] = { t3_wr_hi(row->opcode, row->flags),
				 t3_wr_lo(row->flits, row->tid, row->gen) };

	KUNIT_EXPECT_EQ(test, t3_row_compare(row->words, (const u8 *)words), 8);
}

static void cqe_header_is_decoded_as_tabulated(struct kunit *test)
{
	const struct t3_entry_row *row = test->param_value;

	KUNIT_EXPECT_EQ(test, t3_header_qpid(row->header), row->qpid);
	KUNIT_EXPECT_EQ(test, t3_header_status(row->header), row->status);
	KUNIT_EXPECT_EQ(test, t3_header_opcode(row->header), row->opcode);
	KUNIT_EXPECT_EQ(test, t3_header_is_sq(row->header), row->sq);
	KUNIT_EXPECT_EQ(test, t3_header_gen(row->header), row->gen);
	KUNIT_EXPECT_EQ(test, t3_header_kind(row->header), row->kind);
	KUNIT_EXPECT_TRUE(test, t3_cqe_valid(cpu_to_be32(row->header), row->gen));
	KUNIT_EXPECT_FALSE(test, t3_cqe_valid(cpu_to_be32(row->header), !row->gen));
}

static void every_type_and_opcode_is_classified(struct kunit *test)
{
	unsigned int op;

	for (op = 0; op < 16; op++) {
		KUNIT_EXPECT_EQ(test, t3_header_kind(T3_CQE_TYPE_SQ | op) == T3_KIND_SENT,
				(T3_SENT_OPCODES >> op & 1) != 0);
		KUNIT_EXPECT_EQ(test, t3_kind_is_message(t3_header_kind(op)),
				(T3_MESSAGE_OPCODES >> op & 1) != 0);
		KUNIT_EXPECT_EQ(test, t3_header_kind(op) == T3_KIND_READ, op == T3_RDMA_READ_RESP);
	}
}

static void every_status_maps_to_a_wc_status(struct kunit *test)
{
	unsigned int status, i, known = 0;

	for (status = 0; status < 256; status++) {
		u8 wc = T3_WC_FATAL_ERR;

		for (i = 0; i < ARRAY_SIZE(t3_status_rows); i++) {
			if (t3_status_rows[i].status == status) {
				wc = t3_status_rows[i].wc;
				known++;
			}
		}
		KUNIT_EXPECT_EQ_MSG(test, t3_status_to_wc(status), wc, "status 0x%x", status);
	}
	KUNIT_EXPECT_EQ(test, known, ARRAY_SIZE(t3_status_rows));
}

static void msn_gap_fails_a_message(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(t3_msn_rows); i++) {
		const struct t3_msn_row *row = &t3_msn_rows[i];

		KUNIT_EXPECT_EQ(test, t3_message_status(row->status << 5, row->msn, row->expected),
				row->verdict);
	}
}

static struct kunit_case shared_cases[] = {
	KUNIT_CASE_PARAM(request_is_built_as_tabulated, request_gen_params),
	KUNIT_CASE_PARAM(wr_header_is_built_as_tabulated, header_gen_params),
	KUNIT_CASE_PARAM(cqe_header_is_decoded_as_tabulated, entry_gen_params),
	KUNIT_CASE(every_type_and_opcode_is_classified),
	KUNIT_CASE(every_status_maps_to_a_wc_status),
	KUNIT_CASE(msn_gap_fails_a_message),
	{}
};

static struct kunit_suite shared_suite = {
	.name = "iw_cxgb3_shared",
	.test_cases = shared_cases,
};

kunit_test_suites(&shared_suite);

MODULE_DESCRIPTION("KUnit tests of iw_cxgb3: shared");
MODULE_LICENSE("GPL");
