/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For suites whose card can fail: health.c over a PCI device that loses its bus mastering. What is
 * reported is counted. Include before other .c files.
 */
#ifndef T3_KUNIT_AROUND_HEALTH_H
#define T3_KUNIT_AROUND_HEALTH_H

#include <linux/netdevice.h>
#include <linux/pci.h>

#include "around_event.h"

static void card_loses_mastering(struct pci_dev *pdev);
static bool card_is_present(struct pci_dev *pdev);
static void count_device_event(const struct ib_event *event);

#define pci_clear_master card_loses_mastering
#define pci_device_is_present card_is_present
#define ib_dispatch_event count_device_event
#ifndef CONFIG_NET_POLL_CONTROLLER
/* Our kernels have no netpoll: another operation with this signature stands for its own. */
#define CONFIG_NET_POLL_CONTROLLER
#define ndo_poll_controller ndo_set_rx_mode
#endif
#include "health.c"
#undef pci_clear_master
#undef pci_device_is_present
#undef ib_dispatch_event

static struct {
	bool unplugged;
	unsigned int masters_cleared;
	bool gone_before_cleared;
	unsigned int fatal;		/* reports to connections */
	unsigned int fatal_events;	/* for consumers */
	unsigned int polls;		/* of the queues of the NIC driver */
} card;

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

static void count_device_event(const struct ib_event *event)
{
	card.fatal_events += event->event == IB_EVENT_DEVICE_FATAL;
}

static void end_connections(struct t3_dev *dev)
{
	card.fatal++;
}

const struct t3_conn_ops t3_conn_ops = {
	.fatal = end_connections,
};

static void make_card(struct kunit *test)
{
	static const struct net_device_ops no_poll;
	struct net_device *ndev;

	memset(&card, 0, sizeof(card));
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	ndev = kunit_kzalloc(test, sizeof(*ndev), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, dev && ndev);
	dev->pdev = kunit_kzalloc(test, sizeof(*dev->pdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->pdev);
	dev->pdev->dev.init_name = KBUILD_MODNAME;
	ndev->netdev_ops = &no_poll;
	dev->ports.lldevs[0] = ndev;
	init_waitqueue_head(&dev->ctrl.wait);
	t3_workqueue = alloc_workqueue(KBUILD_MODNAME, WQ_UNBOUND, 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_workqueue);
	t3_health_init(dev);
	set_bit(T3_DEV_REGISTERED, &dev->flags);
}

static void end_card(void)
{
	flush_work(&dev->fatal_work);
	destroy_workqueue(t3_workqueue);
}

#endif
