// SPDX-License-Identifier: GPL-2.0
/*
 * The control QP: its writes, its dropped doorbells, how long a writer waits, and its end.
 * Functions of this file simulate the card: it executes the writes in the ring when the doorbell is
 * rung, drops doorbells, or does not respond.
 */
#include <linux/delay.h>
#include <linux/io.h>

#include "around_health.h"

static inline void trace_t3_ctrl_write(const struct t3_dev *dev, u32 addr, u32 len, u32 target)
{
}

static void card_doorbell(u32 value);

#include "../failing_alloc.h"

static void *ring_alloc(size_t size);
static void ring_free(void *ring);

#undef dma_alloc_coherent
#undef dma_free_coherent
#define dma_alloc_coherent(dev, size, dma, gfp) (*(dma) = 0x1000, ring_alloc(size))
#define dma_free_coherent(dev, size, ring, dma) ring_free(ring)

#undef writel
#define writel(value, addr) ((void)(addr), card_doorbell(value))

#include "wr.c"
#include "ctrl.c"
#include "doorbell.c"
#include "doorbell_fifo.c"

static struct work_struct drop_work;	/* cxgb3 reports a dropped doorbell */

static struct {
	atomic_t drop;			/* doorbells to drop */
	bool reports;			/* to the NIC driver */
	bool unresponsive, no_reply_to_modify, slow;
	int send_error;
	u32 executed;			/* writes of the ring */
	atomic_t dropped;
	bool has_ring, freed_before;	/* of the card */
	int queues, rings;		/* set up */
} control;

/* --- the card -------------------------------------------------------------- */

/* From then on the card drops no more: else an unbounded wait would never end. */
static unsigned long drops_end;

#define MIN_EXTENDED_TIMEOUT	(5 * HZ)

static void card_executes(struct work_struct *work)
{
	struct t3_ctrl *ctrl = &dev->ctrl;
	const union t3_wr_slot *slot;
	u32 gen;

	for (;;) {
		slot = &ctrl->ring[control.executed % T3_CTRL_SLOTS];
		gen = t3_gen(control.executed, T3_CTRL_SLOTS_LOG2);
		if (slot->flit[T3_WR_GEN2_FLIT] != t3_wr_gen2(gen))
			return;
		control.executed++;
		t3_ctrl_completed(dev, control.executed - 1);
	}
}

/* Of a card that is slow. */
static DECLARE_DELAYED_WORK(execute_work, card_executes);

static void card_doorbell(u32 value)
{
	if ((value & 0xffff) != T3_CTRL_QP_CONTEXT || control.unresponsive)
		return;
	if (drops_end && time_after(jiffies, drops_end))
		atomic_set(&control.drop, 0);
	if (atomic_add_unless(&control.drop, -1, 0)) {
		atomic_inc(&control.dropped);
		if (control.reports)
			queue_work(system_wq, &drop_work);
		return;
	}
	if (control.slow)
		schedule_delayed_work(&execute_work, msecs_to_jiffies(20));
	else
		card_executes(NULL);
}

static void nic_driver_reports_drop(struct work_struct *work)
{
	t3_adapter_event(dev, OFFLOAD_DB_DROP);
}

int t3_dev_context_ctl(struct t3_dev *dev, unsigned int req, void *data, bool may_sleep)
{
	if (req == RDMA_CQ_SETUP)
		control.queues += ((struct rdma_cq_setup *)data)->size ? 1 : -1;
	return 0;
}

static void *ring_alloc(size_t size)
{
	void *ring = kzalloc(size, GFP_KERNEL);

	control.rings += !!ring;
	return ring;
}

/* A card with bus mastering could still fetch from a ring that it has. */
static void ring_free(void *ring)
{
	control.freed_before |= control.has_ring && !card.masters_cleared;
	control.rings--;
	kfree(ring);
}

int t3_dev_send(struct t3_dev *dev, struct sk_buff *skb)
{
	const struct t3_wr_modify_qp *modify = (const void *)skb->data;

	if (control.send_error || control.unresponsive) {
		kfree_skb(skb);
		return control.send_error;
	}
	control.has_ring = modify->ctx1;
	kfree_skb(skb);
	if (!control.no_reply_to_modify)
		t3_ctrl_modified(dev);
	return 0;
}

static unsigned int card_timeout_secs;

unsigned long t3_card_timeout(void)
{
	return card_timeout_secs * HZ;
}

/* --- a device, and threads that write -------------------------------------- */

static int ctrl_init(struct kunit *test)
{
	memset(&control, 0, sizeof(control));
	make_card(test);
	mutex_init(&dev->ctrl.mutex);
	mutex_init(&dev->db_mutex);
	INIT_DELAYED_WORK(&dev->db_work, t3_doorbell_work);
	INIT_WORK(&drop_work, nic_driver_reports_drop);
	dev->ctrl.ring = kunit_kzalloc(test, T3_CTRL_SLOTS * T3_WR_SLOT_BYTES, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->ctrl.ring);
	card_timeout_secs = 1;
	return 0;
}

static void ctrl_exit(struct kunit *test)
{
	flush_work(&drop_work);
	cancel_delayed_work_sync(&dev->db_work);
	end_card();
}

/* A memory write in a thread of its own, as a registration does it. */
struct writer {
	struct work_struct work;
	struct completion done;
	u32 len;
	bool fill;
	int ret;
	u32 executed;			/* by the card, at the end */
};

static void write_memory(struct work_struct *work)
{
	struct writer *w = container_of(work, struct writer, work);

	w->ret = w->fill ? t3_ctrl_fill(dev, 0x1000, 1, w->len) :
			   t3_ctrl_write(dev, 0x1000, NULL, w->len);
	w->executed = control.executed;
	complete(&w->done);
}

static struct writer *start_write_or_fill(struct kunit *test, u32 len, bool fill)
{
	struct writer *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	init_completion(&w->done);
	w->len = len;
	w->fill = fill;
	INIT_WORK(&w->work, write_memory);
	queue_work(system_unbound_wq, &w->work);
	return w;
}

static struct writer *start_writer(struct kunit *test, u32 len)
{
	return start_write_or_fill(test, len, false);
}

static int end_writer(struct writer *w)
{
	wait_for_completion(&w->done);
	flush_work(&w->work);
	return w->ret;
}

static void wait_for_drops(int count)
{
	while (atomic_read(&control.dropped) < count)
		msleep(20);
}

/* --- writes ---------------------------------------------------------------- */

static void writes_are_executed_in_order(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, t3_ctrl_write(dev, 0x1000, NULL,
						    T3_CTRL_SLOTS * T3_BYPASS_MAX_DATA), 0);
	KUNIT_EXPECT_EQ(test, control.executed, 3 * T3_CTRL_SLOTS);
	KUNIT_EXPECT_EQ(test, dev->ctrl.producer, dev->ctrl.consumer);
}

static void fill_repeats_one_value(struct kunit *test)
{
	const u32 len = 2 * T3_BYPASS_MAX_DATA + 2 * T3_MEM_UNIT;
	u32 i, j;

	KUNIT_EXPECT_EQ(test, t3_ctrl_fill(dev, 0x1000, 0x123456789abcULL, len), 0);
	KUNIT_EXPECT_EQ(test, control.executed, 3);
	for (i = 0; i < 3; i++) {
		const struct t3_wr_bypass *wr = &dev->ctrl.ring[i].bypass;
		const __be64 *data = (const __be64 *)wr->data;

		KUNIT_EXPECT_EQ(test, be32_to_cpu(wr->cmd_addr) & T3_MEM_ADDR,
				(0x1000 + i * T3_BYPASS_MAX_DATA) / T3_MEM_UNIT);
		for (j = 0; j < (i == 2 ? 8 : 12); j++)
			KUNIT_EXPECT_EQ(test, be64_to_cpu(data[j]), 0x123456789abcULL);
	}
}

/* The end of a large region: the registrations of others do not wait for it. */
static void others_write_between_the_pieces_of_a_fill(struct kunit *test)
{
	struct writer *fill, *other;

	control.slow = true;
	fill = start_write_or_fill(test, 8 * T3_CTRL_SLOTS * T3_BYPASS_MAX_DATA, true);
	while (!READ_ONCE(control.executed))
		msleep(20);
	other = start_writer(test, 32);
	KUNIT_EXPECT_EQ(test, end_writer(other), 0);
	KUNIT_EXPECT_LE(test, other->executed, 4 * T3_CTRL_SLOTS);
	KUNIT_EXPECT_EQ(test, end_writer(fill), 0);
	KUNIT_EXPECT_EQ(test, control.executed, 8 * T3_CTRL_SLOTS + 1);
	flush_delayed_work(&execute_work);
}

static void dropped_doorbell_of_the_control_qp_is_rung_again(struct kunit *test)
{
	struct writer *w;

	atomic_set(&control.drop, 1);
	w = start_writer(test, 32);
	wait_for_drops(1);
	t3_adapter_event(dev, OFFLOAD_DB_DROP);
	KUNIT_EXPECT_TRUE(test, test_bit(T3_DEV_DB_OFF, &dev->flags));
	flush_delayed_work(&dev->db_work);
	KUNIT_EXPECT_EQ(test, control.executed, 1);
	KUNIT_EXPECT_EQ(test, end_writer(w), 0);
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
}

/* The interrupt that reports the drop can be lost as well. */
static void doorbell_drop_without_a_report_is_rung_again(struct kunit *test)
{
	struct writer *w;

	card_timeout_secs = 10;
	atomic_set(&control.drop, 1);
	w = start_writer(test, 32);
	wait_for_drops(1);
	KUNIT_EXPECT_EQ(test, end_writer(w), 0);
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
}

/* A program that floods its doorbell page must not get the card declared dead. */
static void reported_drops_are_not_fatal(struct kunit *test)
{
	struct writer *w;

	control.reports = true;
	atomic_set(&control.drop, INT_MAX);
	w = start_writer(test, 32);
	wait_for_drops(1);
	msleep(3 * MSEC_PER_SEC);	/* three times card_timeout_secs */
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
	atomic_set(&control.drop, 0);
	KUNIT_EXPECT_EQ(test, end_writer(w), 0);
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
}

/* Consumers take long in the handlers of async events, which are before the reply. */
static void async_events_before_the_reply_are_not_fatal(struct kunit *test)
{
	struct writer *w;
	int i;

	control.unresponsive = true;
	w = start_writer(test, 32);
	for (i = 0; i < 6; i++) {	/* three times card_timeout_secs */
		msleep(MSEC_PER_SEC / 2);
		dev->async_events++;
	}
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
	control.unresponsive = false;
	KUNIT_EXPECT_EQ(test, end_writer(w), 0);
}

/* The extension is limited, because the waiter cannot be killed. */
static void endless_drops_are_fatal(struct kunit *test)
{
	unsigned long begin = jiffies;

	control.reports = true;
	atomic_set(&control.drop, INT_MAX);
	drops_end = begin + 12 * HZ;
	KUNIT_EXPECT_EQ(test, t3_ctrl_write(dev, 0x1000, NULL, 32), -EIO);
	KUNIT_EXPECT_TRUE(test, t3_dev_gone(dev));
	KUNIT_EXPECT_TRUE(test, time_after_eq(jiffies, begin + MIN_EXTENDED_TIMEOUT));
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	drops_end = 0;
}

static void unresponsive_card_is_fatal(struct kunit *test)
{
	control.unresponsive = true;
	KUNIT_EXPECT_EQ(test, t3_ctrl_write(dev, 0x1000, NULL, 32), -EIO);
	KUNIT_EXPECT_TRUE(test, t3_dev_gone(dev));
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	t3_dev_fatal(dev, "second report");
	flush_work(&dev->fatal_work);
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	KUNIT_EXPECT_EQ(test, card.fatal, 1);
	KUNIT_EXPECT_EQ(test, card.fatal_events, 1);
}

static void unplugged_card_is_not_waited_for(struct kunit *test)
{
	unsigned long begin = jiffies;

	card_timeout_secs = 60;
	control.unresponsive = true;
	card.unplugged = true;
	KUNIT_EXPECT_EQ(test, t3_ctrl_write(dev, 0x1000, NULL, 32), -EIO);
	KUNIT_EXPECT_TRUE(test, time_before(jiffies, begin + 10 * HZ));
}

/* cxgb3's handlers assume the context of an interrupt. */
static void reply_is_found(struct net_device *ndev)
{
	card.polls++;
	control.unresponsive = false;
	card_doorbell(T3_CTRL_QP_CONTEXT);
}

/*
 * The host stands still, as a guest that is paused, for longer than the card may take. The card has
 * replied, but its interrupt was lost.
 */
static void stalled_host_polls_before_it_gives_the_card_up(struct kunit *test)
{
	static const struct net_device_ops ops = { .ndo_poll_controller = reply_is_found };
	struct writer *w;

	dev->ports.lldevs[0]->netdev_ops = &ops;
	control.unresponsive = true;
	w = start_writer(test, 32);
	msleep(200);
	preempt_disable();
	mdelay(2500);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, end_writer(w), 0);
	KUNIT_EXPECT_EQ(test, card.polls, 1);
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
}

/* --- its end --------------------------------------------------------------- */

static void open_and_close(struct kunit *test)
{
	union t3_wr_slot *ring = dev->ctrl.ring;
	int ret;

	dev->ctrl.ring = NULL;
	allocations_fail();
	ret = t3_ctrl_open(dev);
	if (!ret) {
		KUNIT_EXPECT_TRUE(test, control.has_ring);
		t3_ctrl_close(dev);
	}
	allocations_work();
	dev->ctrl.ring = ring;
	KUNIT_EXPECT_TRUE(test, !ret || (ret == -ENOMEM && failing.where));
	KUNIT_EXPECT_FALSE_MSG(test, control.has_ring, "the card has the ring, %s",
			       alloc_that_failed());
	KUNIT_EXPECT_FALSE_MSG(test, control.freed_before, "the card had the ring, %s",
			       alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, control.rings, 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, control.queues, 0, "%s", alloc_that_failed());
}

/* Allocations of a probe fail. The removal must not need any. */
static void control_qp_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, open_and_close), 3U);
}

/* With bus mastering the card could still fetch from the freed ring. */
static void unconfirmed_close_ends_bus_mastering(struct kunit *test)
{
	union t3_wr_slot *ring = dev->ctrl.ring;

	KUNIT_ASSERT_EQ(test, t3_ctrl_open(dev), 0);
	control.unresponsive = true;
	t3_ctrl_close(dev);
	KUNIT_EXPECT_TRUE(test, control.has_ring);
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, control.freed_before);
	KUNIT_EXPECT_EQ(test, control.rings, 0);
	dev->ctrl.ring = ring;
}

static void close_that_cannot_be_sent_ends_bus_mastering(struct kunit *test)
{
	union t3_wr_slot *ring = dev->ctrl.ring;

	KUNIT_ASSERT_EQ(test, t3_ctrl_open(dev), 0);
	control.send_error = -ENOMEM;
	t3_ctrl_close(dev);
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, control.freed_before);
	dev->ctrl.ring = ring;
}

/* Otherwise each rmmod would take the Ethernet of such a card down. */
static void firmware_without_modify_replies_keeps_bus_mastering(struct kunit *test)
{
	union t3_wr_slot *ring = dev->ctrl.ring;
	unsigned long begin;

	control.no_reply_to_modify = true;
	KUNIT_ASSERT_EQ(test, t3_ctrl_open(dev), 0);
	begin = jiffies;
	t3_ctrl_close(dev);
	/* It gets time to do so before the ring is freed. */
	KUNIT_EXPECT_TRUE(test, time_after_eq(jiffies, begin + HZ));
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 0);
	KUNIT_EXPECT_FALSE(test, control.freed_before);
	dev->ctrl.ring = ring;
}

static struct kunit_case ctrl_cases[] = {
	KUNIT_CASE(writes_are_executed_in_order),
	KUNIT_CASE(fill_repeats_one_value),
	KUNIT_CASE(others_write_between_the_pieces_of_a_fill),
	KUNIT_CASE(dropped_doorbell_of_the_control_qp_is_rung_again),
	KUNIT_CASE(doorbell_drop_without_a_report_is_rung_again),
	KUNIT_CASE(reported_drops_are_not_fatal),
	KUNIT_CASE(async_events_before_the_reply_are_not_fatal),
	KUNIT_CASE(endless_drops_are_fatal),
	KUNIT_CASE(unresponsive_card_is_fatal),
	KUNIT_CASE(unplugged_card_is_not_waited_for),
	KUNIT_CASE(stalled_host_polls_before_it_gives_the_card_up),
	KUNIT_CASE(control_qp_without_memory),
	KUNIT_CASE(unconfirmed_close_ends_bus_mastering),
	KUNIT_CASE(close_that_cannot_be_sent_ends_bus_mastering),
	KUNIT_CASE(firmware_without_modify_replies_keeps_bus_mastering),
	{}
};

TEST_SUITE("iw_cxgb3_ctrl", ctrl_cases, .init = ctrl_init, .exit = ctrl_exit);
