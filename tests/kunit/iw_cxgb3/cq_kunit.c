// SPDX-License-Identifier: GPL-2.0
/*
 * Arming of CQs: which events are raised, when, and how often. With a ring in memory, a card that
 * returns its index, and a process that may write any value into its reader's index.
 */
#include <linux/uaccess.h>

#include "../suite.h"

/* Replaces trace.h: tests add no events to tracefs. */
#define T3_TRACE_H

struct t3_cqe;
static inline void trace_t3_cqe(u32 cq, const struct t3_cqe *cqe, int result)
{
}

/* Tests have no user memory. */
static bool reader_is_absent;

#undef get_user
#define get_user(x, ptr) (reader_is_absent ? -EFAULT : ((x) = *(__force const u32 *)(ptr), 0))

#include "quota.c"
#include "cq.c"

#define LOG2	3
#define ENTRIES	BIT(LOG2)

static struct {
	u32 produced;			/* entries that the card has written */
	u32 at_arming;			/* to be written before the next command returns */
	u32 after_arming;		/* to be written after that */
	u32 late;			/* written by the card, and not yet in memory */
	unsigned int arms, calls, fatal_calls;
	int error;			/* of the next commands */
	const char *flush_at;
	u8 op;
} card;

struct workqueue_struct *t3_workqueue;
static struct t3_dev device;
static struct t3_cq cq;
static struct ib_ucq_object *const some_object = (void *)&card;	/* never dereferenced */
static u32 reader;
static struct t3_cqe ring[ENTRIES + 1];

/* --- stubs of the driver --------------------------------------------------- */

static void produce(unsigned int n, u32 what)
{
	while (n--) {
		struct t3_cqe *cqe = &ring[card.produced % ENTRIES];

		cqe->header = cpu_to_be32(what | (t3_gen(card.produced, LOG2) ? T3_CQE_GEN : 0));
		card.produced++;
	}
}

int t3_dev_context_ctl(struct t3_dev *dev, unsigned int req, void *data, bool may_sleep)
{
	const struct rdma_cq_op *op = data;
	u32 index;

	if (card.error)
		return card.error;
	card.arms++;
	card.op = op->op;
	produce(card.at_arming, T3_RDMA_SEND);
	index = (card.produced + card.late) % ENTRIES;
	produce(card.after_arming, T3_RDMA_SEND);
	card.at_arming = 0;
	card.after_arming = 0;
	return index;
}

void t3_dev_fatal(struct t3_dev *dev, const char *what)
{
	card.fatal_calls++;
}

/* --- a CQ ------------------------------------------------------------------- */

static void handler(struct ib_cq *ibcq, void *context)
{
	lockdep_assert_held(&cq.comp_lock); /* one call at a time */
	card.calls++;
}

static int cq_init(struct kunit *test)
{
	memset(&card, 0, sizeof(card));
	memset(&cq, 0, sizeof(cq));
	memset(ring, 0, sizeof(ring));
	reader = 0;
	reader_is_absent = false;
	cq.ibcq.device = &device.ibdev;
	cq.ibcq.comp_handler = handler;
	cq.entries = ENTRIES;
	cq.ring.va = ring;
	cq.raised_pending = U32_MAX;
	spin_lock_init(&cq.lock);
	spin_lock_init(&cq.comp_lock);
	INIT_LIST_HEAD(&cq.ready);
	xa_init_flags(&cq.qps, XA_FLAGS_LOCK_IRQ);
	INIT_WORK(&cq.comp_work, t3_cq_comp_work);
	t3_workqueue = alloc_workqueue("cq_kunit", 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_workqueue);
	return 0;
}

static void cq_exit(struct kunit *test)
{
	destroy_workqueue(t3_workqueue);
}

static struct t3_qp flushed_qp;

/* A QP is flushed on another CPU: first its completions are there, then the CQ is notified. */
void t3_race_point(const char *name)
{
	unsigned long flags;

	if (!card.flush_at || strcmp(name, card.flush_at))
		return;
	card.flush_at = NULL;
	spin_lock_irqsave(&cq.lock, flags);
	spin_lock(&flushed_qp.lock);
	t3_cq_add_ready(&cq, &flushed_qp.sq);
	spin_unlock(&flushed_qp.lock);
	spin_unlock_irqrestore(&cq.lock, flags);
	t3_cq_notify(&cq);
}

static void make_user_cq(void)
{
	cq.user_rptr = (u32 __user *)&reader;
	cq.ibcq.uobject = some_object;
}

/* The number of handler calls that arming makes. */
static unsigned int arm(struct kunit *test, enum ib_cq_notify_flags flags)
{
	unsigned int before = card.calls;

	KUNIT_EXPECT_EQ(test, t3_req_notify_cq(&cq.ibcq, flags), 0);
	return card.calls - before;
}

/* The library polls the ring itself. The driver does not enable the command of uverbs. */
static void ring_of_a_process_is_not_polled(struct kunit *test)
{
	struct ib_wc wc;

	produce(1, 0);
	make_user_cq();
	KUNIT_EXPECT_EQ(test, t3_poll_cq(&cq.ibcq, 1, &wc), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, cq.rptr, 0);
}

static int arm_reporting_missed(enum ib_cq_notify_flags flags)
{
	return t3_req_notify_cq(&cq.ibcq, flags | IB_CQ_REPORT_MISSED_EVENTS);
}

/* The event of the card for an entry that it has written since it was armed. */
static unsigned int card_event(void)
{
	unsigned int before = card.calls;

	t3_cq_written(&cq);
	return card.calls - before;
}

/* --- processes ---------------------------------------------------------------- */

static void unread_entries_raise_an_event(struct kunit *test)
{
	make_user_cq();
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
	produce(1, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card_event(), 1);

	/* Read one entry at a time: each arming finds the unread ones. */
	produce(4, T3_RDMA_SEND);
	for (reader = 1; reader < 5; reader++)
		KUNIT_EXPECT_EQ_MSG(test, arm(test, IB_CQ_NEXT_COMP), 1, "%u read", reader);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);

	/* An entry that is written during the command may raise no event of the card. */
	card.at_arming = 1;
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
}

static void full_ring_raises_an_event(struct kunit *test)
{
	unsigned int lap;

	make_user_cq();
	for (lap = 0; lap < 4; lap++) {
		produce(ENTRIES, T3_RDMA_SEND);
		KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
		reader += ENTRIES;
		KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
		/* The card is still armed, and reports the first entry of the next lap. */
		card_event();
	}
	card.at_arming = ENTRIES;
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
}

/* The ring was empty when it was armed. The card reports the entry that it writes afterwards. */
static void entry_after_arming_is_reported_by_the_card(struct kunit *test)
{
	make_user_cq();
	card.after_arming = 1;
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
	KUNIT_EXPECT_EQ(test, card_event(), 1);
}

/* As perftest -e does: take an event, arm, poll. Each message has one event, which finds it. */
static void entry_with_its_event_raises_no_other(struct kunit *test)
{
	unsigned int i;

	make_user_cq();
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
	for (i = 0; i < 3 * ENTRIES; i++) {
		produce(1, T3_RDMA_SEND);
		KUNIT_EXPECT_EQ(test, card_event(), 1);
		KUNIT_EXPECT_EQ_MSG(test, arm(test, IB_CQ_NEXT_COMP), 0, "message %u", i);
		reader = (reader + 1) % (2 * ENTRIES);
	}

	/* A second entry has no event of its own. */
	produce(2, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card_event(), 1);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
	reader += 2;

	/* This arming raises an event, so the card's for the next entry is dropped. */
	produce(1, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card_event(), 0);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
	reader++;

	/* The index is that of one more entry, but the unread one belongs to the next lap. */
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
	produce(1 + ENTRIES, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card_event(), 1);
	reader += ENTRIES;
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
}

/* It completes no request, so a poll would find nothing. An error is always reported. */
static void response_to_the_rtr_read_raises_no_event(struct kunit *test)
{
	make_user_cq();
	ring[0].u.rq.stag = cpu_to_be32(T3_RTR_STAG);
	produce(1, T3_RDMA_READ_RESP);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
	produce(1, T3_RDMA_READ_RESP);
	KUNIT_EXPECT_EQ(test, card_event(), 1);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
	produce(1, T3_RDMA_READ_RESP);
	KUNIT_EXPECT_EQ(test, card_event(), 1);
	produce(1, T3_RDMA_READ_RESP);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);

	reader = card.produced;
	ring[reader].u.rq.stag = cpu_to_be32(T3_RTR_STAG);
	produce(1, T3_STATUS_ACCESS << 5 | T3_RDMA_READ_RESP);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
}

static void one_event_per_arming(struct kunit *test)
{
	make_user_cq();
	produce(2, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
	/* The card is still armed. */
	produce(1, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card_event(), 0);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
	reader = 3;
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
	produce(1, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card_event(), 1);
	KUNIT_EXPECT_EQ(test, card_event(), 0);
}

/* Without progress of reader or card there is one event, for any value of the reader's index. */
static void arming_without_reading_raises_one_event(struct kunit *test)
{
	unsigned int i, calls = 0;

	make_user_cq();
	produce(3, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
	for (i = 0; i < 100; i++)
		calls += arm(test, IB_CQ_NEXT_COMP);
	KUNIT_EXPECT_EQ(test, calls, 0);

	/* The process can write to the ring: make the entry that is waited for look valid. */
	for (i = 0; i < 1000; i++) {
		u32 pending;

		reader = i * 2654435761U;
		pending = ((3 - reader) & (ENTRIES - 1)) ?: ENTRIES;
		memset(ring, t3_gen(reader + pending - 1, LOG2) ? 0xff : 0, sizeof(ring));
		calls += arm(test, i & 2 ? IB_CQ_SOLICITED : IB_CQ_NEXT_COMP);
	}
	KUNIT_EXPECT_LE(test, calls, ENTRIES);
}

/* Its page moves to another node, or is in swap. */
static void absent_index_of_the_reader_raises_one_event(struct kunit *test)
{
	unsigned int i, calls = 0;

	make_user_cq();
	reader_is_absent = true;
	produce(3, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
	/* With the page or without it, the process does not read. */
	for (i = 0; i < 100; i++) {
		reader_is_absent = i & 1;
		calls += arm(test, i & 2 ? IB_CQ_SOLICITED : IB_CQ_NEXT_COMP);
	}
	KUNIT_EXPECT_LE(test, calls, 1);

	/* The card is armed, and reports the next entry. */
	reader_is_absent = true;
	reader = 3;
	produce(1, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
	reader = 4;
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
	produce(1, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card_event(), 1);
}

static void full_lap_between_two_armings_raises_an_event(struct kunit *test)
{
	make_user_cq();
	produce(2, T3_RDMA_SEND);
	reader = 1;
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
	/* A full lap is written and read: the card has the same index as before. */
	produce(ENTRIES, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card_event(), 0);
	reader += ENTRIES;
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
}

static void solicited_arming_ignores_other_entries(struct kunit *test)
{
	static const struct {
		u32 header;
		unsigned int calls;
	} rows[] = {
		{ T3_RDMA_SEND, 0 },
		{ T3_RDMA_SEND_INV, 0 },
		{ T3_RDMA_READ_RESP, 0 },
		{ T3_CQE_TYPE_SQ | T3_RDMA_SEND_SE, 0 },	/* one that was sent */
		{ T3_RDMA_SEND_SE, 1 },
		{ T3_RDMA_SEND_SE_INV, 1 },
		{ T3_STATUS_ACCESS << 5 | T3_CQE_TYPE_SQ | T3_RDMA_WRITE, 1 },
	};
	unsigned int i;

	make_user_cq();
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		reader = card.produced;
		produce(1, T3_RDMA_SEND);
		produce(1, rows[i].header);
		produce(1, T3_RDMA_SEND);
		KUNIT_EXPECT_EQ_MSG(test, arm(test, IB_CQ_SOLICITED), rows[i].calls, "row %u", i);
		KUNIT_EXPECT_EQ(test, card.op, T3_CQ_OP_ARM_SOLICITED);
	}
}

/* The library has to flush a QP: the process is notified even if the CQ is not armed. */
static void qp_flush_notifies_without_arming(struct kunit *test)
{
	make_user_cq();
	t3_cq_notify(&cq);
	KUNIT_EXPECT_EQ(test, card.calls, 1);
	KUNIT_EXPECT_EQ(test, card_event(), 0);
}

/* Each event takes memory until the process reads it. This one reads none. */
static void flushes_without_arming_raise_one_event(struct kunit *test)
{
	unsigned int i;

	make_user_cq();
	for (i = 0; i < 100; i++)
		t3_cq_notify(&cq);
	KUNIT_EXPECT_EQ(test, card.calls, 1);
	/* The rest of them has one when the process arms, since it may sleep next. */
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 1);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
	t3_cq_notify(&cq);
	KUNIT_EXPECT_EQ(test, card.calls, 3);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
}

/* --- kernel consumers --------------------------------------------------------- */

static void flush_while_arming(struct kunit *test, const char *point)
{
	int missed;

	spin_lock_init(&flushed_qp.lock);
	INIT_LIST_HEAD(&flushed_qp.sq.node);
	flushed_qp.sq.qp = &flushed_qp;
	card.flush_at = point;
	card.calls = 0;
	missed = arm_reporting_missed(IB_CQ_NEXT_COMP);
	KUNIT_EXPECT_NULL_MSG(test, card.flush_at, "%s is not reached", point);
	KUNIT_EXPECT_TRUE_MSG(test, missed || card.calls, "no poll follows %s", point);
	list_del_init(&flushed_qp.sq.node);
}

/* ib_drain_qp() would wait for ever: a flushed request makes no entry that raises another event. */
static void flush_while_arming_is_reported(struct kunit *test)
{
	flush_while_arming(test, "t3_cq_ready_read");
	flush_while_arming(test, "t3_cq_arming");
}

/* The card would write to memory that is freed. */
static void cq_that_cannot_be_disabled_is_fatal(struct kunit *test)
{
	t3_cq_hw_clear(&device, &cq);
	KUNIT_EXPECT_EQ(test, card.fatal_calls, 0);
	card.error = -EBUSY;
	t3_cq_hw_clear(&device, &cq);
	KUNIT_EXPECT_EQ(test, card.fatal_calls, 1);
	device.flags = BIT(T3_DEV_GONE);
	t3_cq_hw_clear(&device, &cq);
	KUNIT_EXPECT_EQ(test, card.fatal_calls, 1);
	device.flags = 0;
}

/* Arming does not call the handler; unread entries are reported by the return value, on request. */
static void arming_never_calls_a_kernel_consumer(struct kunit *test)
{
	produce(2, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_NEXT_COMP), 0);
	KUNIT_EXPECT_EQ(test, arm(test, IB_CQ_SOLICITED), 0);
	KUNIT_EXPECT_EQ(test, arm_reporting_missed(IB_CQ_NEXT_COMP), 1);
	KUNIT_EXPECT_EQ(test, arm_reporting_missed(IB_CQ_SOLICITED), 1);
	produce(ENTRIES - 2, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, arm_reporting_missed(IB_CQ_NEXT_COMP), 1);
	cq.rptr = ENTRIES;
	KUNIT_EXPECT_EQ(test, arm_reporting_missed(IB_CQ_NEXT_COMP), 0);
	card.after_arming = 1;
	KUNIT_EXPECT_EQ(test, arm_reporting_missed(IB_CQ_NEXT_COMP), 0);
	KUNIT_EXPECT_EQ(test, card.calls, 0);
	KUNIT_EXPECT_EQ(test, card_event(), 1);
	KUNIT_EXPECT_EQ(test, card_event(), 0);
}

static void poll_follows_arming(struct kunit *test, const char *what, int missed,
				unsigned int calls)
{
	card.calls = 0;
	KUNIT_EXPECT_EQ_MSG(test, arm_reporting_missed(IB_CQ_NEXT_COMP), missed, "%s", what);
	flush_work(&cq.comp_work);
	KUNIT_EXPECT_EQ_MSG(test, card.calls, calls, "%s", what);
}

/* ib_core takes an error for "nothing was missed": ib_drain_qp() would wait for ever. */
static void failed_arming_leads_to_a_poll(struct kunit *test)
{
	card.error = -EIO;
	poll_follows_arming(test, "nothing waits", 0, 1);
	produce(1, T3_RDMA_SEND);
	poll_follows_arming(test, "an entry", 1, 1);
	card.error = 0;
	cq.rptr = 1;
	card.late = 1;
	poll_follows_arming(test, "an entry that is late", 1, 1);
	card.late = 0;

	/* It writes no more entries. */
	device.flags = BIT(T3_DEV_GONE);
	card.error = -EIO;
	poll_follows_arming(test, "a dead card, nothing waits", 0, 0);
	produce(1, T3_RDMA_SEND);
	poll_follows_arming(test, "a dead card, an entry", 1, 0);
	cq.rptr = 2;
	flush_while_arming(test, "t3_cq_ready_read");
	flush_while_arming(test, "t3_cq_arming");
	device.flags = 0;
}

static struct kunit_case cq_cases[] = {
	KUNIT_CASE(ring_of_a_process_is_not_polled),
	KUNIT_CASE(unread_entries_raise_an_event),
	KUNIT_CASE(full_ring_raises_an_event),
	KUNIT_CASE(entry_after_arming_is_reported_by_the_card),
	KUNIT_CASE(entry_with_its_event_raises_no_other),
	KUNIT_CASE(response_to_the_rtr_read_raises_no_event),
	KUNIT_CASE(one_event_per_arming),
	KUNIT_CASE(arming_without_reading_raises_one_event),
	KUNIT_CASE(absent_index_of_the_reader_raises_one_event),
	KUNIT_CASE(full_lap_between_two_armings_raises_an_event),
	KUNIT_CASE(solicited_arming_ignores_other_entries),
	KUNIT_CASE(qp_flush_notifies_without_arming),
	KUNIT_CASE(flushes_without_arming_raise_one_event),
	KUNIT_CASE(arming_never_calls_a_kernel_consumer),
	KUNIT_CASE(flush_while_arming_is_reported),
	KUNIT_CASE(failed_arming_leads_to_a_poll),
	KUNIT_CASE(cq_that_cannot_be_disabled_is_fatal),
	{}
};

TEST_SUITE("iw_cxgb3_cq", cq_cases, .init = cq_init, .exit = cq_exit);
