// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbells of queue pairs while the doorbell FIFO of the card is full, and the status words that
 * programs read. Functions of this file simulate the FIFO and a second CPU.
 */
#include <linux/delay.h>
#include <linux/io.h>

#include "uapi/t3_abi.h"

static u64 *status_word;
static unsigned int reads_of_status_word;

static inline void status_word_was_read(const void *word)
{
	reads_of_status_word += word == status_word;
}

#undef READ_ONCE
#define READ_ONCE(x) ({						\
	__unqual_scalar_typeof(x) _seen = __READ_ONCE(x);	\
								\
	status_word_was_read((const void *)&(x));					\
	_seen;							\
})

#include "around_event.h"

/*
 * Two CPUs. The slot that the first one posts stays in its store buffer, invisible to the card,
 * until its next full barrier, while its reads may execute at once. The second CPU runs right after
 * a read of a flag.
 */
static struct {
	bool second_cpu;
	bool slot_visible;
	void (*second)(void);
} cpus;

static void full_barrier(void)
{
	if (!cpus.second_cpu)
		cpus.slot_visible = true;
}

static bool test_flag(int nr, const unsigned long *flags)
{
	void (*second)(void) = cpus.second;
	bool set = test_bit(nr, flags);

	cpus.second = NULL;
	if (second) {
		cpus.second_cpu = true;
		second();
		cpus.second_cpu = false;
	}
	return set;
}

static void card_doorbell(u32 value);

#undef writel
#define writel(value, addr) ((void)(addr), card_doorbell(value))

#pragma push_macro("smp_mb")
#pragma push_macro("test_bit")
#undef smp_mb
#undef test_bit
#define smp_mb() full_barrier()	/* of the first CPU */
#define test_bit(nr, flags) test_flag(nr, flags)
#include "doorbell.c"
#include "doorbell_fifo.c"
#pragma pop_macro("test_bit")
#pragma pop_macro("smp_mb")

static struct t3_qp *qp;

static struct {
	u32 qp_rings;
	u32 slots_found;		/* of the QP, when its doorbell was rung */
	int qp_refs;			/* taken */
} card;

/* The doorbell FIFO, and QPs with the ids that follow that of the first one. */
enum { NQPS = 200, FIFO_ENTRIES = 64, FIFO_ENTRIES_PER_MS = 100 };

static struct {
	unsigned int nqps;		/* 0: doorbells are counted only */
	struct t3_qp *qps;
	unsigned int fill, overflows;
	ktime_t last;
	unsigned int rings[NQPS + 1];	/* by QP */
	unsigned int walked;		/* doorbells since the FIFO has filled last */
	bool filled_by_programs;	/* while QPs are rung */
} fifo;

static struct work_struct full_work;	/* cxgb3 reports a full FIFO */

static void fifo_takes(u32 id)
{
	s64 us = ktime_us_delta(ktime_get(), fifo.last);

	fifo.last = ktime_get();
	fifo.fill -= min_t(s64, fifo.fill, us * FIFO_ENTRIES_PER_MS / USEC_PER_MSEC);
	if (++fifo.fill > FIFO_ENTRIES)
		fifo.overflows++;
	fifo.rings[id]++;
	if (fifo.filled_by_programs && ++fifo.walked == 20)
		queue_work(system_wq, &full_work);
}

static void card_doorbell(u32 value)
{
	card.qp_rings++;
	card.slots_found += cpus.slot_visible;
	if (fifo.nqps)
		fifo_takes((value & 0xffff) - 32);
}

static void nic_driver_reports_full(struct work_struct *work)
{
	t3_adapter_event(dev, OFFLOAD_DB_FULL);
}

void t3_qp_put(struct t3_qp *qp)
{
	card.qp_refs--;
}

struct t3_qp *t3_qp_next(struct t3_dev *dev, unsigned long *id, unsigned long last)
{
	*id = max_t(unsigned long, *id, qp->id);
	if (*id > last || *id > qp->id + fifo.nqps)
		return NULL;
	card.qp_refs++;
	return *id == qp->id ? qp : &fifo.qps[*id - qp->id - 1];
}

void t3_qp_set_status(struct t3_qp *qp, u64 set, u64 clear)
{
	t3_status_change(status_word, set, clear);
}

static int doorbell_init(struct kunit *test)
{
	memset(&card, 0, sizeof(card));
	memset(&cpus, 0, sizeof(cpus));
	memset(&fifo, 0, sizeof(fifo));
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	status_word = kunit_kzalloc(test, sizeof(*status_word), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, dev && qp && status_word);
	mutex_init(&dev->db_mutex);
	INIT_DELAYED_WORK(&dev->db_work, t3_doorbell_work);
	INIT_WORK(&full_work, nic_driver_reports_full);
	t3_workqueue = alloc_workqueue(KBUILD_MODNAME, WQ_UNBOUND, 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_workqueue);
	qp->id = 32;
	qp->user = true;
	qp->busy = true;
	qp->ibqp.device = &dev->ibdev;
	return 0;
}

static void doorbell_exit(struct kunit *test)
{
	flush_work(&full_work);
	cancel_delayed_work_sync(&dev->db_work);
	destroy_workqueue(t3_workqueue);
	KUNIT_EXPECT_EQ(test, card.qp_refs, 0);
}

static void doorbells_off_sets_status_and_on_rings(struct kunit *test)
{
	t3_adapter_event(dev, OFFLOAD_DB_FULL);
	KUNIT_EXPECT_EQ(test, *status_word, T3_QP_STATUS_DB_OFF);
	t3_ring_doorbell(dev, qp->id);
	KUNIT_EXPECT_EQ(test, card.qp_rings, 0);
	t3_adapter_event(dev, OFFLOAD_DB_EMPTY);
	flush_delayed_work(&dev->db_work);
	KUNIT_EXPECT_EQ(test, *status_word, 0);
	KUNIT_EXPECT_EQ(test, card.qp_rings, 1);
}

/* The interrupt that reports the empty FIFO can be lost. */
static void doorbells_come_back_without_a_report(struct kunit *test)
{
	unsigned long end = jiffies + 10 * HZ;

	t3_adapter_event(dev, OFFLOAD_DB_FULL);
	while (test_bit(T3_DEV_DB_OFF, &dev->flags) && time_before(jiffies, end))
		msleep(20);
	KUNIT_EXPECT_FALSE(test, test_bit(T3_DEV_DB_OFF, &dev->flags));
	flush_delayed_work(&dev->db_work);
	KUNIT_EXPECT_EQ(test, *status_word, 0);
	KUNIT_EXPECT_EQ(test, card.qp_rings, 1);
}

static void make_qps(struct kunit *test)
{
	unsigned int i;

	fifo.qps = kunit_kcalloc(test, NQPS, sizeof(*fifo.qps), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, fifo.qps);
	for (i = 0; i < NQPS; i++) {
		fifo.qps[i].id = qp->id + 1 + i;
		fifo.qps[i].ibqp.device = &dev->ibdev;
		fifo.qps[i].busy = true;
	}
	fifo.nqps = NQPS;
}

static unsigned int qps_not_rung(void)
{
	unsigned int i, n = 0;

	for (i = 0; i <= NQPS; i++)
		n += !fifo.rings[i];
	return n;
}

/* Doorbells that overflow the FIFO are those of the same QPs each time. */
static void many_qps_do_not_fill_the_fifo(struct kunit *test)
{
	make_qps(test);
	t3_adapter_event(dev, OFFLOAD_DB_FULL);
	t3_adapter_event(dev, OFFLOAD_DB_EMPTY);
	flush_delayed_work(&dev->db_work);
	KUNIT_EXPECT_EQ(test, fifo.overflows, 0);
	KUNIT_EXPECT_EQ(test, qps_not_rung(), 0);
	KUNIT_EXPECT_EQ(test, card.qp_rings, NQPS + 1);
}

/* Without a doorbell and a pause for each: a user can have 14,000. */
static void qps_without_a_connection_are_not_rung(struct kunit *test)
{
	unsigned int i;

	make_qps(test);
	for (i = 0; i < NQPS; i++)
		fifo.qps[i].busy = i == NQPS - 1;
	t3_adapter_event(dev, OFFLOAD_DB_FULL);
	t3_adapter_event(dev, OFFLOAD_DB_EMPTY);
	flush_delayed_work(&dev->db_work);
	KUNIT_EXPECT_EQ(test, qps_not_rung(), NQPS - 1);
	KUNIT_EXPECT_EQ(test, fifo.rings[NQPS], 1);
}

/* Programs whose doorbells are on again fill the FIFO before the last QPs are rung. */
static void every_qp_is_rung_beside_programs_that_fill_the_fifo(struct kunit *test)
{
	unsigned int i;

	make_qps(test);
	fifo.filled_by_programs = true;
	t3_adapter_event(dev, OFFLOAD_DB_FULL);
	for (i = 0; i <= NQPS / 20; i++) {
		fifo.walked = 0;
		t3_adapter_event(dev, OFFLOAD_DB_EMPTY);
		flush_delayed_work(&dev->db_work);
		flush_work(&full_work);
		KUNIT_EXPECT_TRUE(test, test_bit(T3_DEV_DB_OFF, &dev->flags));
	}
	KUNIT_EXPECT_EQ(test, qps_not_rung(), 0);
}

static void creation_of_a_qp_does_not_wait_for_all_doorbells(struct kunit *test)
{
	make_qps(test);
	t3_adapter_event(dev, OFFLOAD_DB_FULL);
	t3_adapter_event(dev, OFFLOAD_DB_EMPTY);
	while (!READ_ONCE(card.qp_rings))
		cond_resched();
	t3_doorbell_init(qp);
	KUNIT_EXPECT_NE(test, qps_not_rung(), 0);
	flush_delayed_work(&dev->db_work);
	KUNIT_EXPECT_EQ(test, qps_not_rung(), 0);
}

static void switch_doorbells_on(void)
{
	t3_doorbells_on(dev);
}

/*
 * Doorbells are switched on right after the poster has read the flag. The poster does not ring, so
 * the doorbell of t3_doorbells_on() must find the slot: a full barrier precedes the read (X12).
 */
static void slot_is_visible_before_the_flag_is_read(struct kunit *test)
{
	t3_adapter_event(dev, OFFLOAD_DB_FULL);
	cpus.second = switch_doorbells_on;
	t3_ring_doorbell(dev, qp->id);
	KUNIT_EXPECT_NULL(test, cpus.second);
	KUNIT_EXPECT_EQ(test, card.qp_rings, 1);
	KUNIT_EXPECT_EQ_MSG(test, card.slots_found, 1, "the last doorbell comes before the slot");
}

/*
 * A softirq and the process change the word concurrently, and the process all the time: a change
 * that reads the word first would lose theirs, or try again without end.
 */
static void a_status_word_is_changed_without_a_read(struct kunit *test)
{
	reads_of_status_word = 0;
	*status_word = T3_QP_STATUS_ERROR;
	t3_status_change(status_word, T3_QP_STATUS_DB_OFF, 0);
	KUNIT_EXPECT_EQ(test, *status_word, T3_QP_STATUS_DB_OFF | T3_QP_STATUS_ERROR);
	t3_status_change(status_word, 0, T3_QP_STATUS_ERROR);
	KUNIT_EXPECT_EQ(test, *status_word, T3_QP_STATUS_DB_OFF);
	*status_word = ~0ULL;
	t3_status_change(status_word, 0, ~T3_QP_STATUS_DB_OFF);
	KUNIT_EXPECT_EQ(test, *status_word, T3_QP_STATUS_DB_OFF);
	KUNIT_EXPECT_EQ(test, reads_of_status_word, 0u);
}

static void new_qp_gets_the_doorbell_status(struct kunit *test)
{
	t3_doorbell_init(qp);
	KUNIT_EXPECT_EQ(test, *status_word, 0);
	set_bit(T3_DEV_DB_OFF, &dev->flags);
	t3_doorbell_init(qp);
	KUNIT_EXPECT_EQ(test, *status_word, T3_QP_STATUS_DB_OFF);
}

/* Without db_mutex: a process without processor time would keep the doorbells of all others off. */
static void doorbells_are_switched_on_while_a_qp_is_created(struct kunit *test)
{
	cpus.second = switch_doorbells_on;
	set_bit(T3_DEV_DB_OFF, &dev->flags);
	t3_doorbell_init(qp);
	KUNIT_EXPECT_NULL(test, cpus.second);
	KUNIT_EXPECT_EQ(test, *status_word, 0);
}

static struct kunit_case doorbell_cases[] = {
	KUNIT_CASE(doorbells_off_sets_status_and_on_rings),
	KUNIT_CASE(doorbells_come_back_without_a_report),
	KUNIT_CASE(many_qps_do_not_fill_the_fifo),
	KUNIT_CASE(qps_without_a_connection_are_not_rung),
	KUNIT_CASE(every_qp_is_rung_beside_programs_that_fill_the_fifo),
	KUNIT_CASE(creation_of_a_qp_does_not_wait_for_all_doorbells),
	KUNIT_CASE(slot_is_visible_before_the_flag_is_read),
	KUNIT_CASE(a_status_word_is_changed_without_a_read),
	KUNIT_CASE(new_qp_gets_the_doorbell_status),
	KUNIT_CASE(doorbells_are_switched_on_while_a_qp_is_created),
	{}
};

TEST_SUITE("iw_cxgb3_doorbell", doorbell_cases, .init = doorbell_init, .exit = doorbell_exit);
