// SPDX-License-Identifier: GPL-2.0
/*
 * Port events. From 6.14 on ib_core tells of a port when its net device gains
 * or loses its link; before, that is a driver's duty. The NIC driver's own
 * events (OFFLOAD_PORT_UP, OFFLOAD_PORT_DOWN) will not do: they come when an
 * interface is taken up or down, not when a cable is pulled.
 */
#include <linux/netdevice.h>

#include "compat_verbs.h"
#include "iw_cxgb3.h"

#if T3_CORE_REPORTS_PORTS
void t3_ports_init(struct t3_dev *dev)
{
}

int t3_ports_watch(void)
{
	return 0;
}

void t3_ports_unwatch(void)
{
}
#else
static bool has_link(const struct net_device *netdev)
{
	return netif_running(netdev) && netif_carrier_ok(netdev);
}

/* What consumers were told last, or would have been. */
void t3_ports_init(struct t3_dev *dev)
{
	u32 i;

	for (i = 0; i < dev->ports.nports; i++)
		assign_bit(i, &dev->ports_up, has_link(dev->ports.lldevs[i]));
}

static void look_at_port(struct t3_dev *dev, u32 i)
{
	bool up = has_link(dev->ports.lldevs[i]);
	struct ib_event event = {
		.device = &dev->ibdev,
		.element.port_num = i + 1,
		.event = up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
	};
	bool was_up = up ? test_and_set_bit(i, &dev->ports_up) :
			   test_and_clear_bit(i, &dev->ports_up);

	if (up != was_up)
		ib_dispatch_event(&event);
}

/* With rtnl held. */
static int netdev_event(struct notifier_block *nb, unsigned long what, void *info)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(info);
	struct ib_device *ibdev;
	struct t3_dev *dev;
	u32 i;

	if (what != NETDEV_UP && what != NETDEV_DOWN && what != NETDEV_CHANGE)
		return NOTIFY_DONE;
	ibdev = ib_device_get_by_netdev(netdev, RDMA_DRIVER_CXGB3);
	if (!ibdev)
		return NOTIFY_DONE;
	if (ibdev->ops.owner == THIS_MODULE) {
		dev = to_t3_dev(ibdev);
		for (i = 0; i < dev->ports.nports; i++)
			if (dev->ports.lldevs[i] == netdev)
				look_at_port(dev, i);
	}
	ib_device_put(ibdev);
	return NOTIFY_DONE;
}

static struct notifier_block watch = {
	.notifier_call = netdev_event,
};

int t3_ports_watch(void)
{
	return register_netdevice_notifier(&watch);
}

void t3_ports_unwatch(void)
{
	unregister_netdevice_notifier(&watch);
}
#endif
