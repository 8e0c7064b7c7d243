// SPDX-License-Identifier: GPL-2.0
/*
 * Is the card alive?
 *
 * Three things can make it silent: an interrupt got lost, its firmware hangs, or
 * it was reset behind our back. cxgb3 notices none of them, so each wait for the
 * card looks by itself (t3_card_wait()), and while somebody has a queue pair a
 * beat sees to it that there is such a wait:
 *
 *   after T3_CARD_POLL        the NIC driver is asked to look into its response
 *                             queues. That is all that a lost interrupt needs.
 *                             The control QP is rung again: its doorbell may be
 *                             lost.
 *   after card_timeout_secs   the card is dead. It may still write memory, so
 *                             its bus mastering goes before anything is freed.
 *                             Not if it reports that it drops doorbells: then it
 *                             is alive, and somebody rings too often. It has
 *                             T3_CARD_PATIENCE times as long then.
 *
 * What is dead stays dead until cxgb3 resets the chip: it does when the card is
 * unbound from it and bound again. Connections end as if the card had been
 * pulled: their queue pairs are flushed, and consumers get an event.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>

#include <t3_race_point.h>

#include "iw_cxgb3.h"

#define T3_BEAT		(2 * HZ)

static unsigned int card_timeout_secs = 10;
module_param(card_timeout_secs, uint, 0644);
MODULE_PARM_DESC(card_timeout_secs,
		 "seconds without an answer after which the card is declared dead (default 10)");

unsigned long t3_card_timeout(void)
{
	return clamp(READ_ONCE(card_timeout_secs), 1U, 3600U) * HZ;
}

/*
 * As netconsole does it: the interrupt handlers of a port's queues run once. All
 * that concerns RDMA arrives on the first queue of the first port. Without netpoll
 * in the kernel a lost interrupt is a dead card.
 */
static void t3_card_look(struct t3_dev *dev)
{
#ifdef CONFIG_NET_POLL_CONTROLLER
	struct net_device *ndev = dev->ports.lldevs[0];
	unsigned long flags;

	if (!ndev->netdev_ops->ndo_poll_controller || !t3_dev_enter(dev))
		return;
	t3_count(dev, T3_CNT_CARD_POLL);
	local_irq_save(flags);
	ndev->netdev_ops->ndo_poll_controller(ndev);
	local_irq_restore(flags);
	t3_dev_leave(dev);
#endif
}

void t3_card_poll(struct t3_dev *dev)
{
	t3_card_look(dev);
	t3_ctrl_ring_again(dev);
}

/* Consumers get two events, as from a card that was pulled: of device and connections. */
static void fatal_work(struct work_struct *work)
{
	struct t3_dev *dev = container_of(work, struct t3_dev, fatal_work);

	T3_RACE_POINT(t3_fatal_begins);
	if (test_bit(T3_DEV_REGISTERED, &dev->flags))
		t3_dev_dispatch(dev, IB_EVENT_DEVICE_FATAL, 0);
	T3_RACE_POINT(t3_fatal_reported);
	t3_cm_fatal(dev);
}

/*
 * From T3_DEV_GONE on, requests are flushed and memory is freed without asking the
 * card. If it may still transfer anything its bus mastering is off before that:
 * when the command register has been written, what the card wrote before is in
 * memory, and nothing comes behind it. The lock makes sure that a second caller
 * does not do it to a card that cxgb3 has reset meanwhile.
 */
bool t3_dev_set_gone(struct t3_dev *dev, bool stop_dma)
{
	unsigned long flags;
	bool first;

	spin_lock_irqsave(&dev->gone_lock, flags);
	first = !t3_dev_gone(dev);
	if (first) {
		if (stop_dma)
			pci_clear_master(dev->pdev);
		smp_mb__before_atomic();	/* who sees the flag sees a card without DMA */
		set_bit(T3_DEV_GONE, &dev->flags);
	}
	spin_unlock_irqrestore(&dev->gone_lock, flags);

	wake_up_all(&dev->ctrl.wait);
	return first;
}

/* cxgb3 switches bus mastering on again when it has reset the chip. */
void t3_dev_fatal(struct t3_dev *dev, const char *what)
{
	if (!t3_dev_set_gone(dev, true))
		return;
	T3_RACE_POINT(t3_fatal_gone);
	if (test_bit(T3_DEV_DOWN, &dev->flags))
		dev_err(&dev->pdev->dev, "RDMA is down: %s\n", what);
	else
		dev_err(&dev->pdev->dev,
			"RDMA is down: %s; to recover, unbind the card from cxgb3 and bind it again\n",
			what);
	queue_work(t3_wq, &dev->fatal_work);
}

static void beat(struct work_struct *work)
{
	struct t3_dev *dev = container_of(to_delayed_work(work), struct t3_dev, beat_work);

	if (t3_dev_gone(dev))
		return;
	/* Entry 0 of the TPT is nobody's: zeroes to zeroes. */
	if (!xa_empty(&dev->qps) || t3_cm_busy(dev))
		t3_ctrl_write(dev, dev->info.tpt_base, NULL, T3_TPT_ENTRY_BYTES);
	queue_delayed_work(t3_wq, &dev->beat_work, T3_BEAT);
}

void t3_health_init(struct t3_dev *dev)
{
	spin_lock_init(&dev->gone_lock);
	INIT_WORK(&dev->fatal_work, fatal_work);
	INIT_DELAYED_WORK(&dev->beat_work, beat);
}

/* From when the control QP works until it is closed. */
void t3_health_start(struct t3_dev *dev)
{
	queue_delayed_work(t3_wq, &dev->beat_work, T3_BEAT);
}

void t3_health_stop(struct t3_dev *dev)
{
	cancel_delayed_work_sync(&dev->beat_work);
	flush_work(&dev->fatal_work);
}
