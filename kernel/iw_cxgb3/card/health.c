// SPDX-License-Identifier: GPL-2.0
/*
 * Detection of an unresponsive card.
 *
 * A card stops replying for one of three reasons: an interrupt was lost, its
 * firmware hangs, or it was reset without a notice. cxgb3 detects none of them. So
 * every wait for the card has a deadline (t3_wait_or_fatal()), and as long as there
 * are queue pairs or endpoints the watchdog performs such a wait (watchdog.c):
 *
 *   after T3_CARD_POLL        poll the response queues of the NIC driver, which
 *                             makes up for a lost interrupt
 *   after as many polls as card_timeout_secs has seconds
 *                             the card is unusable. It may still write to memory,
 *                             so its bus mastering is disabled before anything is
 *                             freed. A card that reports dropped doorbells or async
 *                             events works: it gets up to T3_CARD_TIMEOUT_LIMIT
 *                             times as long.
 *
 * The card stays unusable until cxgb3 resets the chip, which it does when the card
 * is unbound from it and bound again. Connections end as if the card had been
 * unplugged: their queue pairs are flushed, and consumers get an event.
 */
#include <linux/netdevice.h>
#include <linux/pci.h>

#include "card.h"

/*
 * Run the interrupt handlers of a port's queues once, as netconsole does. All
 * messages for RDMA arrive on the first queue of the first port. In a kernel without
 * netpoll a lost interrupt makes the card unusable.
 */
static void t3_card_poll_queues(struct t3_dev *dev)
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
	t3_dev_check_present(dev);
	t3_card_poll_queues(dev);
}

/*
 * An event of the device or of a port (0: of the device). Any context. The
 * device must be registered, and stay so until this returns.
 */
void t3_dev_dispatch(struct t3_dev *dev, enum ib_event_type type, u32 port)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.element.port_num = port,
		.event = type,
	};

	ib_dispatch_event(&event);
}

/* Consumers get an event of the device and one of each connection, as after an unplug. */
static void t3_dev_fatal_work(struct work_struct *work)
{
	struct t3_dev *dev = container_of(work, struct t3_dev, fatal_work);

	if (test_bit(T3_DEV_REGISTERED, &dev->flags))
		t3_dev_dispatch(dev, IB_EVENT_DEVICE_FATAL, 0);
	t3_conn_ops.fatal(dev);
}

/*
 * With T3_DEV_GONE set, requests are flushed and memory is freed without a
 * confirmation of the card. So bus mastering of a card that may still transfer data
 * is disabled before: after the write to the command register all earlier writes of
 * the card are in memory, and no others follow. The lock ensures that a second
 * caller does not disable it on a card that cxgb3 has reset meanwhile.
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
		smp_mb__before_atomic();	/* the flag implies that DMA has stopped */
		set_bit(T3_DEV_GONE, &dev->flags);
	}
	spin_unlock_irqrestore(&dev->gone_lock, flags);

	wake_up_all(&dev->ctrl.wait);
	return first;
}

/*
 * Without bus mastering the card does not send and receive frames of the host either. Bonds and
 * routing daemons must not use its ports: cxgb3 does not know.
 */
static void t3_dev_carrier_off(struct t3_dev *dev)
{
	u32 i;

	for (i = 0; i < dev->ports.nports; i++)
		netif_carrier_off(dev->ports.lldevs[i]);
}

/* cxgb3 enables bus mastering again after it has reset the chip. */
void t3_dev_fatal(struct t3_dev *dev, const char *what)
{
	bool first, reset = test_bit(T3_DEV_DOWN, &dev->flags);

	/* t3_client_remove() marks the card as gone and waits, so the interfaces exist. */
	rcu_read_lock();
	first = t3_dev_set_gone(dev, true);
	if (first && !reset)
		t3_dev_carrier_off(dev);
	rcu_read_unlock();
	if (!first)
		return;
	if (reset)
		dev_err(&dev->pdev->dev, "RDMA is down: %s\n", what);
	else
		dev_err(&dev->pdev->dev,
			"RDMA is down: %s; to recover, unbind the card from cxgb3 and bind it again\n",
			what);
	queue_work(t3_workqueue, &dev->fatal_work);
}

void t3_dev_check_present(struct t3_dev *dev)
{
	if (!pci_device_is_present(dev->pdev))
		t3_dev_fatal(dev, "the card does not respond on the PCI bus");
}

void t3_health_init(struct t3_dev *dev)
{
	spin_lock_init(&dev->gone_lock);
	INIT_WORK(&dev->fatal_work, t3_dev_fatal_work);
}
