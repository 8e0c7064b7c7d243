// SPDX-License-Identifier: GPL-2.0
/*
 * Control QP, doorbells, events and the shutdown of a card. Functions of this file simulate the
 * card: it executes the writes in the control ring when its doorbell is rung, drops doorbells, or
 * does not respond.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/netdevice.h>
#include <linux/pci.h>

#include "uapi/t3_abi.h"

/* The error bit of this status word is set concurrently, between a read and a write of it. */
static u64 *set_error_after_read;

static inline void status_word_was_read(const void *word)
{
	if (!set_error_after_read || word != set_error_after_read)
		return;
	*set_error_after_read |= T3_QP_STATUS_ERROR;
	set_error_after_read = NULL;
}

#undef READ_ONCE
#define READ_ONCE(x) ({						\
	__unqual_scalar_typeof(x) _seen = __READ_ONCE(x);	\
								\
	status_word_was_read((const void *)&(x));					\
	_seen;							\
})

/* Replaces trace.h: tests add no events to tracefs. */
#define T3_TRACE_H
#include "device.h"

static inline void trace_t3_ctrl_write(const struct t3_dev *dev, u32 addr, u32 len, u32 target)
{
}

static inline void trace_t3_async_event(const struct t3_async_event *ae)
{
}

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

static struct ib_device *ibdev_of_netdev(const struct net_device *netdev);
static void put_ibdev(struct ib_device *ibdev);
static void card_doorbell(u32 value);
static void card_loses_mastering(struct pci_dev *pdev);
static bool card_is_present(struct pci_dev *pdev);
static void count_device_event(const struct ib_event *event);

#include "../failing_alloc.h"

static void *ring_alloc(size_t size);
static void ring_free(void *ring);

#undef dma_alloc_coherent
#undef dma_free_coherent
#define dma_alloc_coherent(dev, size, dma, gfp) (*(dma) = 0x1000, ring_alloc(size))
#define dma_free_coherent(dev, size, ring, dma) ring_free(ring)

#undef writel
#define writel(value, addr) ((void)(addr), card_doorbell(value))
#define pci_clear_master card_loses_mastering
#define pci_device_is_present card_is_present
#define ib_dispatch_event count_device_event

#include "cqe.c"
#include "wr.c"
#include "ctrl.c"
#pragma push_macro("smp_mb")
#pragma push_macro("test_bit")
#undef smp_mb
#undef test_bit
#define smp_mb() full_barrier()	/* of the first CPU */
#define test_bit(nr, flags) test_flag(nr, flags)
#include "event.c"
#include "doorbell.c"
#include "doorbell_fifo.c"
#pragma pop_macro("test_bit")
#pragma pop_macro("smp_mb")
#ifndef CONFIG_NET_POLL_CONTROLLER
/* Our kernels have no netpoll: another operation with this signature stands for its own. */
#define CONFIG_NET_POLL_CONTROLLER
#define ndo_poll_controller ndo_set_rx_mode
#endif
#include "health.c"
#include "watchdog.c"
#include "qp_event.c"
#define ib_device_get_by_netdev(netdev, driver) ibdev_of_netdev(netdev)
#define ib_device_put put_ibdev
#include "port.c"

#undef pci_clear_master
#undef pci_device_is_present
#undef ib_dispatch_event

struct workqueue_struct *t3_workqueue;
static struct t3_dev *dev;
static struct work_struct drop_work;	/* cxgb3 reports a dropped doorbell */

static struct {
	atomic_t drop;			/* doorbells of the control QP to drop */
	bool reports;			/* to the NIC driver */
	bool unresponsive, unplugged, no_reply_to_modify, slow;
	int send_error, qp_error;
	u32 executed;			/* writes of the control ring */
	atomic_t dropped;
	u32 qp_rings;
	u32 slots_found;		/* of the QP, when its doorbell was rung */
	unsigned int masters_cleared;
	bool gone_before_cleared;
	unsigned int fatal;
	bool has_ring, freed_before;	/* of the control QP */
	int queues, rings;		/* set up for the control QP */
	int qp_refs, cq_refs, ep_refs, ibdev_refs;	/* taken */
	unsigned int confirmed, disconnected;
	unsigned int polls;		/* of the queues of the NIC driver */
	bool polled_with_interrupts;
} card;

static struct {
	unsigned int qp[32], device[32], cq[32];
	unsigned int misdirected;
} events;

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

static struct ib_device *ibdev_of_netdev(const struct net_device *netdev)
{
	if (netdev != dev->ports.lldevs[0])
		return NULL;
	card.ibdev_refs++;
	return &dev->ibdev;
}

static void put_ibdev(struct ib_device *ibdev)
{
	card.ibdev_refs--;
}

/* --- the card -------------------------------------------------------------- */

/* From then on the card drops no more: else an unbounded wait would never end. */
static unsigned long drops_end;

#define MIN_EXTENDED_TIMEOUT	(5 * HZ)

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

static void card_executes(struct work_struct *work)
{
	struct t3_ctrl *ctrl = &dev->ctrl;
	const union t3_wr_slot *slot;
	u32 gen;

	for (;;) {
		slot = &ctrl->ring[card.executed % T3_CTRL_SLOTS];
		gen = t3_gen(card.executed, T3_CTRL_SLOTS_LOG2);
		if (slot->flit[T3_WR_GEN2_FLIT] != t3_wr_gen2(gen))
			return;
		card.executed++;
		t3_ctrl_completed(dev, card.executed - 1);
	}
}

/* Of a card that is slow. */
static DECLARE_DELAYED_WORK(execute_work, card_executes);

static void card_doorbell(u32 value)
{
	if ((value & 0xffff) != T3_CTRL_QP_CONTEXT) {
		card.qp_rings++;
		card.slots_found += cpus.slot_visible;
		if (fifo.nqps)
			fifo_takes((value & 0xffff) - 32);
		return;
	}
	if (card.unresponsive)
		return;
	if (drops_end && time_after(jiffies, drops_end))
		atomic_set(&card.drop, 0);
	if (atomic_add_unless(&card.drop, -1, 0)) {
		atomic_inc(&card.dropped);
		if (card.reports)
			queue_work(system_wq, &drop_work);
		return;
	}
	if (card.slow)
		schedule_delayed_work(&execute_work, msecs_to_jiffies(20));
	else
		card_executes(NULL);
}

static void card_loses_mastering(struct pci_dev *pdev)
{
	card.masters_cleared++;
	if (t3_dev_gone(dev))
		card.gone_before_cleared = true;
}

static bool card_is_present(struct pci_dev *pdev)
{
	return !card.unplugged;
}

static void nic_driver_reports_drop(struct work_struct *work)
{
	t3_adapter_event(dev, OFFLOAD_DB_DROP);
}

static void nic_driver_reports_full(struct work_struct *work)
{
	t3_adapter_event(dev, OFFLOAD_DB_FULL);
}

int t3_dev_context_ctl(struct t3_dev *dev, unsigned int req, void *data, bool may_sleep)
{
	if (req == RDMA_CQ_SETUP)
		card.queues += ((struct rdma_cq_setup *)data)->size ? 1 : -1;
	return 0;
}

static void *ring_alloc(size_t size)
{
	void *ring = kzalloc(size, GFP_KERNEL);

	card.rings += !!ring;
	return ring;
}

/* A card with bus mastering could still fetch from a ring that it has. */
static void ring_free(void *ring)
{
	card.freed_before |= card.has_ring && !card.masters_cleared;
	card.rings--;
	kfree(ring);
}

int t3_dev_send(struct t3_dev *dev, struct sk_buff *skb)
{
	const struct t3_wr_modify_qp *modify = (const void *)skb->data;

	if (card.send_error || card.unresponsive) {
		kfree_skb(skb);
		return card.send_error;
	}
	card.has_ring = modify->ctx1;
	kfree_skb(skb);
	if (!card.no_reply_to_modify)
		t3_ctrl_modified(dev);
	return 0;
}

/* --- stubs of queues and connections, and consumers ------------------------- */

static struct t3_qp *qp;
static struct t3_cq *cq;
static u64 *status_word;

static void count_event(unsigned int *seen, const struct ib_event *event)
{
	if (event->event < 32)
		seen[event->event]++;
}

static bool is_device_event(const struct ib_event *event)
{
	return event->event == IB_EVENT_DEVICE_FATAL || event->event == IB_EVENT_PORT_ERR ||
	       event->event == IB_EVENT_PORT_ACTIVE;
}

static void count_device_event(const struct ib_event *event)
{
	count_event(events.device, event);
}

static void count_qp_event(struct ib_event *event, void *context)
{
	count_event(events.qp, event);
	if (is_device_event(event) || event->element.qp != &qp->ibqp)
		events.misdirected++;
}

static void count_cq_event(struct ib_event *event, void *context)
{
	count_event(events.cq, event);
	if (is_device_event(event) || event->element.cq != &cq->ibcq)
		events.misdirected++;
}

static struct {
	unsigned int addresses, interfaces;
	const struct net_device *from;
	__be32 last;
} removed;

void t3_cm_addr_removed(struct t3_dev *dev, const struct net_device *ndev, const __be32 *addr)
{
	removed.from = ndev;
	removed.addresses += !!addr;
	removed.interfaces += !addr;
	if (addr)
		removed.last = *addr;
}

struct t3_qp *t3_qp_find(struct t3_dev *dev, u32 id)
{
	if (id != qp->id)
		return NULL;
	card.qp_refs++;
	return qp;
}

void t3_qp_put(struct t3_qp *qp)
{
	card.qp_refs--;
}

struct t3_cq *t3_cq_find(struct t3_dev *dev, u32 id)
{
	if (id != cq->id)
		return NULL;
	card.cq_refs++;
	return cq;
}

void t3_cq_put(struct t3_cq *cq)
{
	card.cq_refs--;
}

int t3_qp_report(struct t3_qp *qp, enum t3_qp_event ev)
{
	return card.qp_error;
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

void t3_ep_get(struct t3_ep *ep)
{
	card.ep_refs++;
}

void t3_ep_put(struct t3_ep *ep)
{
	card.ep_refs--;
}

void t3_ep_disconnect(struct t3_ep *ep, bool abrupt, bool may_sleep)
{
	card.disconnected += !abrupt;
}

void t3_ep_confirm_neigh(struct t3_ep *ep)
{
	card.confirmed++;
}

static void end_connections(struct t3_dev *dev)
{
	card.fatal++;
}

const struct t3_conn_ops t3_conn_ops = {
	.fatal = end_connections,
};

static unsigned int card_timeout_secs;

unsigned long t3_card_timeout(void)
{
	return card_timeout_secs * HZ;
}

/* --- a device -------------------------------------------------------------- */

static int card_init(struct kunit *test)
{
	static const struct net_device_ops no_poll;
	struct net_device *ndev;

	memset(&card, 0, sizeof(card));
	memset(&events, 0, sizeof(events));
	memset(&cpus, 0, sizeof(cpus));
	memset(&fifo, 0, sizeof(fifo));
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	ndev = kunit_kzalloc(test, sizeof(*ndev), GFP_KERNEL);
	status_word = kunit_kzalloc(test, sizeof(*status_word), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, dev && qp && cq && ndev && status_word);
	dev->pdev = kunit_kzalloc(test, sizeof(*dev->pdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->pdev);
	dev->pdev->dev.init_name = "card_kunit";
	ndev->netdev_ops = &no_poll;
	dev->ports.lldevs[0] = ndev;
	dev->tdev = kunit_kzalloc(test, sizeof(*dev->tdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->tdev);
	dev->tdev->ulp = dev;

	mutex_init(&dev->ctrl.mutex);
	mutex_init(&dev->db_mutex);
	init_waitqueue_head(&dev->ctrl.wait);
	INIT_DELAYED_WORK(&dev->db_work, t3_doorbell_work);
	INIT_WORK(&drop_work, nic_driver_reports_drop);
	INIT_WORK(&full_work, nic_driver_reports_full);
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	t3_workqueue = alloc_workqueue("card_kunit", WQ_UNBOUND, 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_workqueue);
	t3_health_init(dev);
	t3_watchdog_init(dev);
	set_bit(T3_DEV_REGISTERED, &dev->flags);
	dev->ctrl.ring = kunit_kzalloc(test, T3_CTRL_SLOTS * T3_WR_SLOT_BYTES, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->ctrl.ring);

	spin_lock_init(&qp->lock);
	qp->id = 32;
	qp->user = true;
	qp->busy = true;
	qp->state = T3_QPS_RTS;
	qp->ibqp.device = &dev->ibdev;
	qp->ibqp.event_handler = count_qp_event;
	cq->id = 5;
	cq->ibcq.device = &dev->ibdev;
	cq->ibcq.event_handler = count_cq_event;
	card_timeout_secs = 1;
	return 0;
}

static void card_exit(struct kunit *test)
{
	flush_work(&drop_work);
	flush_work(&full_work);
	cancel_delayed_work_sync(&dev->db_work);
	t3_watchdog_stop(dev);
	flush_work(&dev->fatal_work);
	destroy_workqueue(t3_workqueue);
	KUNIT_EXPECT_EQ(test, card.qp_refs, 0);
	KUNIT_EXPECT_EQ(test, card.cq_refs, 0);
	KUNIT_EXPECT_EQ(test, card.ep_refs, 0);
	KUNIT_EXPECT_EQ(test, card.ibdev_refs, 0);
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
	w->executed = card.executed;
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
	while (atomic_read(&card.dropped) < count)
		msleep(20);
}

/* --- the control QP and doorbells ------------------------------------------ */

static void writes_are_executed_in_order(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, t3_ctrl_write(dev, 0x1000, NULL,
						    T3_CTRL_SLOTS * T3_BYPASS_MAX_DATA), 0);
	KUNIT_EXPECT_EQ(test, card.executed, 3 * T3_CTRL_SLOTS);
	KUNIT_EXPECT_EQ(test, dev->ctrl.producer, dev->ctrl.consumer);
}

static void fill_repeats_one_value(struct kunit *test)
{
	const u32 len = 2 * T3_BYPASS_MAX_DATA + 2 * T3_MEM_UNIT;
	u32 i, j;

	KUNIT_EXPECT_EQ(test, t3_ctrl_fill(dev, 0x1000, 0x123456789abcULL, len), 0);
	KUNIT_EXPECT_EQ(test, card.executed, 3);
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

	card.slow = true;
	fill = start_write_or_fill(test, 8 * T3_CTRL_SLOTS * T3_BYPASS_MAX_DATA, true);
	while (!READ_ONCE(card.executed))
		msleep(20);
	other = start_writer(test, 32);
	KUNIT_EXPECT_EQ(test, end_writer(other), 0);
	KUNIT_EXPECT_LE(test, other->executed, 4 * T3_CTRL_SLOTS);
	KUNIT_EXPECT_EQ(test, end_writer(fill), 0);
	KUNIT_EXPECT_EQ(test, card.executed, 8 * T3_CTRL_SLOTS + 1);
	flush_delayed_work(&execute_work);
}

static void dropped_doorbell_of_the_control_qp_is_rung_again(struct kunit *test)
{
	struct writer *w;

	atomic_set(&card.drop, 1);
	w = start_writer(test, 32);
	wait_for_drops(1);
	t3_adapter_event(dev, OFFLOAD_DB_DROP);
	KUNIT_EXPECT_TRUE(test, test_bit(T3_DEV_DB_OFF, &dev->flags));
	flush_delayed_work(&dev->db_work);
	KUNIT_EXPECT_EQ(test, card.executed, 1);
	KUNIT_EXPECT_EQ(test, end_writer(w), 0);
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
}

/* The interrupt that reports the drop can be lost as well. */
static void doorbell_drop_without_a_report_is_rung_again(struct kunit *test)
{
	struct writer *w;

	card_timeout_secs = 10;
	atomic_set(&card.drop, 1);
	w = start_writer(test, 32);
	wait_for_drops(1);
	KUNIT_EXPECT_EQ(test, end_writer(w), 0);
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
}

/* A program that floods its doorbell page must not get the card declared dead. */
static void reported_drops_are_not_fatal(struct kunit *test)
{
	struct writer *w;

	card.reports = true;
	atomic_set(&card.drop, INT_MAX);
	w = start_writer(test, 32);
	wait_for_drops(1);
	msleep(3 * MSEC_PER_SEC);	/* three times card_timeout_secs */
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
	atomic_set(&card.drop, 0);
	KUNIT_EXPECT_EQ(test, end_writer(w), 0);
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
}

/* The extension is limited, because the waiter cannot be killed. */
static void endless_drops_are_fatal(struct kunit *test)
{
	unsigned long begin = jiffies;

	card.reports = true;
	atomic_set(&card.drop, INT_MAX);
	drops_end = begin + 12 * HZ;
	KUNIT_EXPECT_EQ(test, t3_ctrl_write(dev, 0x1000, NULL, 32), -EIO);
	KUNIT_EXPECT_TRUE(test, t3_dev_gone(dev));
	KUNIT_EXPECT_TRUE(test, time_after_eq(jiffies, begin + MIN_EXTENDED_TIMEOUT));
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	drops_end = 0;
}

static void unresponsive_card_is_fatal(struct kunit *test)
{
	card.unresponsive = true;
	KUNIT_EXPECT_EQ(test, t3_ctrl_write(dev, 0x1000, NULL, 32), -EIO);
	KUNIT_EXPECT_TRUE(test, t3_dev_gone(dev));
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	t3_dev_fatal(dev, "second report");
	flush_work(&dev->fatal_work);
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	KUNIT_EXPECT_EQ(test, card.fatal, 1);
	KUNIT_EXPECT_EQ(test, events.device[IB_EVENT_DEVICE_FATAL], 1);
}

static void unplugged_card_is_not_waited_for(struct kunit *test)
{
	unsigned long begin = jiffies;

	card_timeout_secs = 60;
	card.unresponsive = true;
	card.unplugged = true;
	KUNIT_EXPECT_EQ(test, t3_ctrl_write(dev, 0x1000, NULL, 32), -EIO);
	KUNIT_EXPECT_TRUE(test, time_before(jiffies, begin + 10 * HZ));
}

/* cxgb3 sees that the link is up, but the card cannot access any frame. */
static void fatal_card_has_no_carrier(struct kunit *test)
{
	struct net_device *ndev = dev->ports.lldevs[0];

	dev->ports.nports = 1;
	KUNIT_ASSERT_TRUE(test, netif_carrier_ok(ndev));
	t3_dev_fatal(dev, "as a test");
	KUNIT_EXPECT_FALSE(test, netif_carrier_ok(ndev));
}

/* cxgb3 handles its ports itself. */
static void carrier_of_a_card_in_reset_is_left_alone(struct kunit *test)
{
	dev->ports.nports = 1;
	t3_adapter_event(dev, OFFLOAD_STATUS_DOWN);
	KUNIT_EXPECT_TRUE(test, netif_carrier_ok(dev->ports.lldevs[0]));
}

/* The device is freed after the stop. */
static void stop_waits_for_the_report_of_a_failure(struct kunit *test)
{
	t3_dev_fatal(dev, "as a test");
	t3_watchdog_stop(dev);
	flush_work(&dev->fatal_work);
	KUNIT_EXPECT_EQ(test, card.fatal, 1);
}

/* With T3_DEV_GONE set, memory is freed whose address the card has. */
static void bus_mastering_ends_before_gone_is_set(struct kunit *test)
{
	t3_dev_fatal(dev, "as a test");
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, card.gone_before_cleared);
}

static void bus_mastering_ends_before_a_reset(struct kunit *test)
{
	t3_adapter_event(dev, OFFLOAD_STATUS_DOWN);
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, card.gone_before_cleared);
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

/* The error bit is set in softirq, between the read and the write of another change. */
static void concurrent_changes_of_a_status_word_are_kept(struct kunit *test)
{
	set_error_after_read = status_word;
	t3_status_change(status_word, T3_QP_STATUS_DB_OFF, 0);
	KUNIT_EXPECT_NULL(test, set_error_after_read);
	KUNIT_EXPECT_EQ(test, *status_word, T3_QP_STATUS_DB_OFF | T3_QP_STATUS_ERROR);

	*status_word = T3_QP_STATUS_DB_OFF;
	set_error_after_read = status_word;
	t3_status_change(status_word, 0, T3_QP_STATUS_DB_OFF);
	KUNIT_EXPECT_NULL(test, set_error_after_read);
	KUNIT_EXPECT_EQ(test, *status_word, T3_QP_STATUS_ERROR);
}

static void new_qp_gets_the_doorbell_status(struct kunit *test)
{
	t3_doorbell_init(qp);
	KUNIT_EXPECT_EQ(test, *status_word, 0);
	set_bit(T3_DEV_DB_OFF, &dev->flags);
	t3_doorbell_init(qp);
	KUNIT_EXPECT_EQ(test, *status_word, T3_QP_STATUS_DB_OFF);
}

/* --- events ---------------------------------------------------------------- */

static void async_event(u32 flags, u32 qp_id, u8 status, u8 opcode)
{
	struct sk_buff *skb = alloc_skb(sizeof(struct t3_async_event), GFP_KERNEL);
	struct t3_async_event *ae;

	if (!skb)
		return;
	ae = skb_put_zero(skb, sizeof(*ae));
	ae->flags = cpu_to_be32(flags);
	ae->cq = cpu_to_be32(cq->id);
	ae->cqe.header = cpu_to_be32(qp_id << 12 | status << 5 | T3_CQE_TYPE_SQ | opcode);
	local_bh_disable();
	t3_async_event(dev->tdev, skb);
	local_bh_enable();
	kfree_skb(skb);
}

/* uverbs would count the event to the QP, but the consumer acknowledges it as a device event. */
static void device_error_goes_to_the_device(struct kunit *test)
{
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_ECC, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, events.misdirected, 0);
	KUNIT_EXPECT_EQ(test, events.device[IB_EVENT_DEVICE_FATAL], 1);
	KUNIT_EXPECT_EQ(test, events.qp[IB_EVENT_DEVICE_FATAL], 0);
	KUNIT_EXPECT_EQ(test, events.qp[IB_EVENT_QP_FATAL], 1);
}

static void qp_error_goes_to_the_qp(struct kunit *test)
{
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_ACCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, events.qp[IB_EVENT_QP_ACCESS_ERR], 1);
	KUNIT_EXPECT_EQ(test, events.misdirected, 0);
	KUNIT_EXPECT_EQ(test, events.device[IB_EVENT_DEVICE_FATAL], 0);
}

/* The connection has closed between the check of the state and the report. */
static void refused_error_is_not_reported(struct kunit *test)
{
	card.qp_error = -EINVAL;
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_ACCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_NULL(test, memchr_inv(events.qp, 0, sizeof(events.qp)));
}

/* Positions of card and driver differ: the QP ends as after an error that the card reports. */
static void contradictory_entry_is_an_error_of_the_qp(struct kunit *test)
{
	/* It was reset before the work item ran. */
	t3_qp_bad_entry_work(&qp->bad_entry_work);
	KUNIT_EXPECT_NULL(test, memchr_inv(events.qp, 0, sizeof(events.qp)));
	qp->bad_entry = true;
	t3_qp_bad_entry_work(&qp->bad_entry_work);
	KUNIT_EXPECT_EQ(test, events.qp[IB_EVENT_QP_FATAL], 1);
	KUNIT_EXPECT_EQ(test, events.misdirected, 0);
	KUNIT_EXPECT_EQ(test, qp->term.layer_type, 0);	/* local catastrophic error */
}

static void overflow_goes_to_the_cq_once(struct kunit *test)
{
	async_event(T3_AE_ASYNC | T3_AE_OVERFLOW, qp->id, T3_STATUS_SUCCESS, T3_RDMA_SEND);
	async_event(T3_AE_ASYNC | T3_AE_OVERFLOW, 777, T3_STATUS_SUCCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, events.cq[IB_EVENT_CQ_ERR], 1);
	KUNIT_EXPECT_EQ(test, events.misdirected, 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_CQ_OVERFLOW]), 1);
}

static void plain_completion_is_no_error(struct kunit *test)
{
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_SUCCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, events.cq[IB_EVENT_CQ_ERR], 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(events.qp, 0, sizeof(events.qp)));
	KUNIT_EXPECT_NULL(test, memchr_inv(events.device, 0, sizeof(events.device)));
}

/* Never dereferenced. */
static struct t3_ep *const some_ep = (struct t3_ep *)&card;

static void acknowledged_send_confirms_the_next_hop(struct kunit *test)
{
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_SUCCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card.confirmed, 0);
	qp->ep = some_ep;
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_SUCCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card.confirmed, 1);
	KUNIT_EXPECT_EQ(test, card.ep_refs, 0);
}

static void sent_terminate_ends_the_connection(struct kunit *test)
{
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_SUCCESS, T3_RDMA_TERMINATE);
	KUNIT_EXPECT_EQ(test, card.disconnected, 0);
	qp->ep = some_ep;
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_SUCCESS, T3_RDMA_TERMINATE);
	KUNIT_EXPECT_EQ(test, card.disconnected, 1);
	KUNIT_EXPECT_EQ(test, card.ep_refs, 0);
}

static void poll_queues(struct net_device *ndev)
{
	card.polls++;
	if (!irqs_disabled())
		card.polled_with_interrupts = true;
}

/* cxgb3's handlers assume the context of an interrupt. */
static void reply_is_found(struct net_device *ndev)
{
	card.polls++;
	card.unresponsive = false;
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
	card.unresponsive = true;
	w = start_writer(test, 32);
	msleep(200);
	preempt_disable();
	mdelay(2500);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, end_writer(w), 0);
	KUNIT_EXPECT_EQ(test, card.polls, 1);
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(dev));
}

static void queues_are_polled_with_interrupts_off(struct kunit *test)
{
	static const struct net_device_ops ops = { .ndo_poll_controller = poll_queues };

	t3_card_poll(dev);
	KUNIT_EXPECT_EQ(test, card.polls, 0);
	dev->ports.lldevs[0]->netdev_ops = &ops;
	t3_card_poll(dev);
	KUNIT_EXPECT_EQ(test, card.polls, 1);
	KUNIT_EXPECT_FALSE(test, card.polled_with_interrupts);
	KUNIT_EXPECT_FALSE(test, irqs_disabled());
	set_bit(T3_DEV_GONE, &dev->flags);
	t3_card_poll(dev);
	KUNIT_EXPECT_EQ(test, card.polls, 1);
}

static void open_and_close(struct kunit *test)
{
	union t3_wr_slot *ring = dev->ctrl.ring;
	int ret;

	dev->ctrl.ring = NULL;
	allocations_fail();
	ret = t3_ctrl_open(dev);
	if (!ret) {
		KUNIT_EXPECT_TRUE(test, card.has_ring);
		t3_ctrl_close(dev);
	}
	allocations_work();
	dev->ctrl.ring = ring;
	KUNIT_EXPECT_TRUE(test, !ret || (ret == -ENOMEM && failing.where));
	KUNIT_EXPECT_FALSE_MSG(test, card.has_ring, "the card has the ring, %s",
			       alloc_that_failed());
	KUNIT_EXPECT_FALSE_MSG(test, card.freed_before, "the card had the ring, %s",
			       alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, card.rings, 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, card.queues, 0, "%s", alloc_that_failed());
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
	card.unresponsive = true;
	t3_ctrl_close(dev);
	KUNIT_EXPECT_TRUE(test, card.has_ring);
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, card.freed_before);
	KUNIT_EXPECT_EQ(test, card.rings, 0);
	dev->ctrl.ring = ring;
}

static void close_that_cannot_be_sent_ends_bus_mastering(struct kunit *test)
{
	union t3_wr_slot *ring = dev->ctrl.ring;

	KUNIT_ASSERT_EQ(test, t3_ctrl_open(dev), 0);
	card.send_error = -ENOMEM;
	t3_ctrl_close(dev);
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, card.freed_before);
	dev->ctrl.ring = ring;
}

/* Otherwise each rmmod would take the Ethernet of such a card down. */
static void firmware_without_modify_replies_keeps_bus_mastering(struct kunit *test)
{
	union t3_wr_slot *ring = dev->ctrl.ring;
	unsigned long begin;

	card.no_reply_to_modify = true;
	KUNIT_ASSERT_EQ(test, t3_ctrl_open(dev), 0);
	begin = jiffies;
	t3_ctrl_close(dev);
	/* It gets time to do so before the ring is freed. */
	KUNIT_EXPECT_TRUE(test, time_after_eq(jiffies, begin + HZ));
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 0);
	KUNIT_EXPECT_FALSE(test, card.freed_before);
	dev->ctrl.ring = ring;
}

/* The GID is the MAC address, and ib_core caches it. */
static void mac_address_change_reports_gid_change(struct kunit *test)
{
	struct netdev_notifier_info info = { .dev = dev->ports.lldevs[0] };

	dev->ibdev.ops.owner = THIS_MODULE;
	dev->ports.nports = 1;
	rtnl_lock();
	t3_port_netdev_event(&t3_port_notifier, NETDEV_CHANGEADDR, &info);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, events.device[IB_EVENT_GID_CHANGE], 1);
	rtnl_lock();
	t3_port_netdev_event(&t3_port_notifier, NETDEV_CHANGENAME, &info);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, events.device[IB_EVENT_GID_CHANGE], 1);
}

static struct net_device *new_vlan(struct kunit *test, struct net_device *below)
{
	size_t priv = ALIGN(sizeof(*below), NETDEV_ALIGN);
	struct net_device *vlan = kunit_kzalloc(test, priv + sizeof(struct vlan_dev_priv),
						GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, vlan);
	vlan->priv_flags = IFF_802_1Q_VLAN;
	vlan_dev_priv(vlan)->real_dev = below;
	vlan_dev_priv(vlan)->vlan_proto = htons(ETH_P_8021Q);
	return vlan;
}

/* Connections over the port or over a VLAN on it must end. The card has no VLAN on a VLAN. */
static void removed_addresses_are_reported(struct kunit *test)
{
	struct net_device *port = dev->ports.lldevs[0];
	struct net_device *vlan = new_vlan(test, port);
	struct in_device in_dev = {};
	struct in_ifaddr ifa = { .ifa_dev = &in_dev, .ifa_local = htonl(0x0a000001) };
	struct net_device *const over[] = { port, vlan };
	struct netdev_notifier_info info;
	unsigned int i;

	dev->ibdev.ops.owner = THIS_MODULE;
	for (i = 0; i < ARRAY_SIZE(over); i++) {
		memset(&removed, 0, sizeof(removed));
		in_dev.dev = over[i];
		info.dev = over[i];
		t3_port_inetaddr_event(NULL, NETDEV_UP, &ifa);
		KUNIT_EXPECT_EQ(test, removed.addresses, 0);
		t3_port_inetaddr_event(NULL, NETDEV_DOWN, &ifa);
		KUNIT_EXPECT_EQ(test, removed.addresses, 1);
		KUNIT_EXPECT_EQ(test, removed.last, ifa.ifa_local);
		KUNIT_EXPECT_EQ(test, removed.interfaces, 0);
		t3_port_netdev_event(NULL, NETDEV_UNREGISTER, &info);
		KUNIT_EXPECT_EQ(test, removed.interfaces, 1);
		KUNIT_EXPECT_PTR_EQ(test, removed.from, over[i]);
	}
	in_dev.dev = new_vlan(test, vlan);
	info.dev = in_dev.dev;
	t3_port_inetaddr_event(NULL, NETDEV_DOWN, &ifa);
	t3_port_netdev_event(NULL, NETDEV_UNREGISTER, &info);
	KUNIT_EXPECT_EQ(test, removed.addresses, 1);
	KUNIT_EXPECT_EQ(test, removed.interfaces, 1);
	/* Another driver's port, and one of another module. */
	in_dev.dev = vlan;
	vlan_dev_priv(vlan)->real_dev = vlan;
	vlan->priv_flags = 0;
	t3_port_inetaddr_event(NULL, NETDEV_DOWN, &ifa);
	dev->ibdev.ops.owner = NULL;
	in_dev.dev = port;
	t3_port_inetaddr_event(NULL, NETDEV_DOWN, &ifa);
	KUNIT_EXPECT_EQ(test, removed.addresses, 1);
}

/* Their code is freed when the module is unloaded. */
static void notifiers_of_ports_are_removed(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, t3_ports_watch(), 0);
	t3_ports_unwatch();
	KUNIT_EXPECT_EQ(test, unregister_netdevice_notifier(&t3_port_notifier), -ENOENT);
	KUNIT_EXPECT_EQ(test, unregister_inetaddr_notifier(&t3_port_inetaddr_notifier), -ENOENT);
}

static struct kunit_case card_cases[] = {
	KUNIT_CASE(writes_are_executed_in_order),
	KUNIT_CASE(fill_repeats_one_value),
	KUNIT_CASE(others_write_between_the_pieces_of_a_fill),
	KUNIT_CASE(dropped_doorbell_of_the_control_qp_is_rung_again),
	KUNIT_CASE(doorbell_drop_without_a_report_is_rung_again),
	KUNIT_CASE(reported_drops_are_not_fatal),
	KUNIT_CASE(endless_drops_are_fatal),
	KUNIT_CASE(unresponsive_card_is_fatal),
	KUNIT_CASE(unplugged_card_is_not_waited_for),
	KUNIT_CASE(fatal_card_has_no_carrier),
	KUNIT_CASE(carrier_of_a_card_in_reset_is_left_alone),
	KUNIT_CASE(stop_waits_for_the_report_of_a_failure),
	KUNIT_CASE(bus_mastering_ends_before_gone_is_set),
	KUNIT_CASE(bus_mastering_ends_before_a_reset),
	KUNIT_CASE(doorbells_off_sets_status_and_on_rings),
	KUNIT_CASE(doorbells_come_back_without_a_report),
	KUNIT_CASE(many_qps_do_not_fill_the_fifo),
	KUNIT_CASE(qps_without_a_connection_are_not_rung),
	KUNIT_CASE(every_qp_is_rung_beside_programs_that_fill_the_fifo),
	KUNIT_CASE(creation_of_a_qp_does_not_wait_for_all_doorbells),
	KUNIT_CASE(slot_is_visible_before_the_flag_is_read),
	KUNIT_CASE(concurrent_changes_of_a_status_word_are_kept),
	KUNIT_CASE(new_qp_gets_the_doorbell_status),
	KUNIT_CASE(device_error_goes_to_the_device),
	KUNIT_CASE(qp_error_goes_to_the_qp),
	KUNIT_CASE(refused_error_is_not_reported),
	KUNIT_CASE(contradictory_entry_is_an_error_of_the_qp),
	KUNIT_CASE(overflow_goes_to_the_cq_once),
	KUNIT_CASE(plain_completion_is_no_error),
	KUNIT_CASE(acknowledged_send_confirms_the_next_hop),
	KUNIT_CASE(sent_terminate_ends_the_connection),
	KUNIT_CASE(stalled_host_polls_before_it_gives_the_card_up),
	KUNIT_CASE(queues_are_polled_with_interrupts_off),
	KUNIT_CASE(control_qp_without_memory),
	KUNIT_CASE(unconfirmed_close_ends_bus_mastering),
	KUNIT_CASE(close_that_cannot_be_sent_ends_bus_mastering),
	KUNIT_CASE(firmware_without_modify_replies_keeps_bus_mastering),
	KUNIT_CASE(mac_address_change_reports_gid_change),
	KUNIT_CASE(removed_addresses_are_reported),
	KUNIT_CASE(notifiers_of_ports_are_removed),
	{}
};

TEST_SUITE("iw_cxgb3_card", card_cases, .init = card_init, .exit = card_exit);
