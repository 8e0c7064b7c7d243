// SPDX-License-Identifier: GPL-2.0
/*
 * Work queues with random completion entries: each request completes once, in posting order, and
 * no write is outside of the arrays (KASAN detects it). tests/unit/kernel tests valid completions.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "wr.c"
#include "cqe.c"

enum { SLOTS_LOG2 = 6, SQ_LOG2 = 4, RQ_LOG2 = 3 };

static struct t3_wq *make_wq(struct kunit *test)
{
	struct t3_wq *wq = kunit_kzalloc(test, sizeof(*wq), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, wq);
	wq->slots_log2 = SLOTS_LOG2;
	wq->sq_log2 = SQ_LOG2;
	wq->rq_log2 = RQ_LOG2;
	wq->slots = kunit_kcalloc(test, 1 << SLOTS_LOG2, sizeof(*wq->slots), GFP_KERNEL);
	wq->sq = kunit_kcalloc(test, 1 << SQ_LOG2, sizeof(*wq->sq), GFP_KERNEL);
	wq->rq = kunit_kcalloc(test, 1 << RQ_LOG2, sizeof(*wq->rq), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, wq->slots);
	KUNIT_ASSERT_NOT_NULL(test, wq->sq);
	KUNIT_ASSERT_NOT_NULL(test, wq->rq);
	return wq;
}

/* Progress of both sides, as a consumer sees it. */
struct ledger {
	u64 sent, received;		/* posted */
	u64 sends_back, receives_back;	/* completed */
};

static void post_some(struct t3_wq *wq, struct ledger *l, struct rnd_state *random)
{
	static const u8 ops[] = { T3_RDMA_SEND, T3_RDMA_WRITE, T3_RDMA_READ_REQ };
	unsigned int n;

	for (n = prandom_u32_state(random) % 5; n && t3_sq_avail(wq); n--) {
		struct t3_sq_entry *sq = t3_sq_at(wq, wq->sq_wptr++);

		*sq = (struct t3_sq_entry){
			.wr_id = l->sent++, .rdma_op = ops[prandom_u32_state(random) % 3],
			.signaled = true, .read_len = 64,
		};
	}
	for (n = prandom_u32_state(random) % 4; n && t3_rq_avail(wq); n--) {
		struct t3_rq_entry *rq = t3_rq_at(wq, wq->rq_wptr++);

		*rq = (struct t3_rq_entry){ .wr_id = l->received++ };
	}
}

static void poll_all(struct kunit *test, struct t3_wq *wq, struct ledger *l)
{
	struct t3_completion out;

	while (t3_sq_has_completion(wq)) {
		KUNIT_ASSERT_TRUE(test, t3_sq_next_completion(wq, &out));
		KUNIT_ASSERT_EQ(test, out.wr_id, l->sends_back++);
	}
	KUNIT_EXPECT_FALSE(test, t3_sq_next_completion(wq, &out));
	while (t3_rq_has_completion(wq)) {
		KUNIT_ASSERT_TRUE(test, t3_rq_next_completion(wq, &out));
		KUNIT_ASSERT_EQ(test, out.wr_id, l->receives_back++);
	}
	KUNIT_EXPECT_FALSE(test, t3_rq_next_completion(wq, &out));
	KUNIT_ASSERT_LE(test, l->sends_back, l->sent);
	KUNIT_ASSERT_LE(test, l->receives_back, l->received);
}

static void random_entries_complete_each_request_once(struct kunit *test)
{
	unsigned int seen[T3_CQE_BAD + 1] = {}, life, round;
	struct rnd_state random;
	struct t3_cqe cqe;

	prandom_seed_state(&random, 5041);
	for (life = 0; life < 50; life++) {
		struct t3_wq *wq = make_wq(test);
		struct ledger l = {};

		wq->rtr_expected = life % 5 == 0;
		for (round = 0; round < 30; round++) {
			enum t3_cqe_verdict verdict;

			post_some(wq, &l, &random);
			prandom_bytes_state(&random, &cqe, sizeof(cqe));
			if (round & 1)	/* success: nearly all random entries are errors */
				cqe.header &= ~cpu_to_be32(T3_CQE_STATUS);
			/* Sometimes the expected value, which is never random. */
			if (round % 3 == 0)
				cqe.u.rq.msn = cpu_to_be32(wq->rq_done + 1);
			if (round % 5 == 0)
				cqe.u.sq.wrid_hi = wq->sq_rptr;
			verdict = t3_wq_apply(wq, &cqe);
			KUNIT_ASSERT_LE(test, verdict, T3_CQE_BAD);
			seen[verdict]++;
			if (round % 7 == 0)
				t3_wq_record_error(wq, &cqe);
			if (round % 3)
				poll_all(test, wq, &l);
		}
		t3_wq_flush(wq);
		poll_all(test, wq, &l);
		KUNIT_ASSERT_EQ(test, l.sends_back, l.sent);
		KUNIT_ASSERT_EQ(test, l.receives_back, l.received);
		kunit_kfree(test, wq->rq);
		kunit_kfree(test, wq->sq);
		kunit_kfree(test, wq->slots);
		kunit_kfree(test, wq);
	}
	KUNIT_EXPECT_NE(test, seen[T3_CQE_SEND_DONE], 0);
	KUNIT_EXPECT_NE(test, seen[T3_CQE_RECV_DONE], 0);
	KUNIT_EXPECT_NE(test, seen[T3_CQE_STALE], 0);
	KUNIT_EXPECT_NE(test, seen[T3_CQE_BAD], 0);
}

static void every_status_and_opcode_is_mapped(struct kunit *test)
{
	unsigned int status, opcode;

	for (status = 0; status <= 0x1f; status++) {
		KUNIT_EXPECT_NOT_NULL(test, t3_status_name(status));
		KUNIT_EXPECT_EQ(test, t3_wc_status(status) == IB_WC_SUCCESS, status == 0);
		for (opcode = 0; opcode < 16; opcode++) {
			struct t3_cqe cqe = { .header = cpu_to_be32(status << 5 | opcode) };

			struct t3_term term = t3_term_for(status, opcode, opcode & 1);

			KUNIT_EXPECT_LE(test, t3_ae_classify(&cqe), T3_AE_TERM_RCVD);
			KUNIT_EXPECT_LE(test, term.layer_type >> 4, 2);	/* RDMAP, DDP, MPA */
		}
	}
}

static void generation_flips_with_each_lap(struct kunit *test)
{
	u32 ptr;

	for (ptr = 0; ptr < 4 << SLOTS_LOG2; ptr++)
		KUNIT_ASSERT_EQ(test, t3_gen(ptr, SLOTS_LOG2), !((ptr >> SLOTS_LOG2) % 2));
	/* The counter wraps. */
	KUNIT_EXPECT_EQ(test, t3_gen(~0U, SLOTS_LOG2), 0);
	KUNIT_EXPECT_EQ(test, t3_gen(~0U + 1, SLOTS_LOG2), 1);
}

static struct kunit_case wq_cases[] = {
	KUNIT_CASE(random_entries_complete_each_request_once),
	KUNIT_CASE(every_status_and_opcode_is_mapped),
	KUNIT_CASE(generation_flips_with_each_lap),
	{}
};

static struct kunit_suite wq_suite = {
	.name = "iw_cxgb3_wq",
	.test_cases = wq_cases,
};

kunit_test_suites(&wq_suite);

MODULE_DESCRIPTION("KUnit tests of iw_cxgb3: wq");
MODULE_LICENSE("GPL");
