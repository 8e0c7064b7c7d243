// SPDX-License-Identifier: GPL-2.0
/*
 * Port events: the link, and the MAC address, which is the GID. From 6.14 on
 * ib_core reports the link of a port by itself; before, that is a driver's duty.
 * The NIC driver's own events (OFFLOAD_PORT_UP, OFFLOAD_PORT_DOWN) will not do:
 * they come when an interface is taken up or down, not when a cable is pulled.
 */
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>

#include "compat_verbs.h"
#include "iw_cxgb3.h"

static bool has_link(const struct net_device *netdev)
{
	return netif_running(netdev) && netif_carrier_ok(netdev);
}

/* The state that consumers know from the last event, or from a query. */
void t3_ports_init(struct t3_dev *dev)
{
	u32 i;

	for (i = 0; i < dev->ports.nports; i++)
		assign_bit(i, &dev->ports_up, has_link(dev->ports.lldevs[i]));
}

static void t3_port_look(struct t3_dev *dev, u32 i)
{
	bool up = has_link(dev->ports.lldevs[i]);
	bool was_up = up ? test_and_set_bit(i, &dev->ports_up) :
			   test_and_clear_bit(i, &dev->ports_up);

	if (up != was_up && !T3_CORE_REPORTS_PORTS)
		t3_dev_dispatch(dev, up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR, i + 1);
}

/* ib_core asks for the GID again and then passes the event on. */
static void t3_port_event(struct t3_dev *dev, u32 i, unsigned long what)
{
	ASSERT_RTNL();
	if (what == NETDEV_CHANGEADDR)
		t3_dev_dispatch(dev, IB_EVENT_GID_CHANGE, i + 1);
	else
		t3_port_look(dev, i);
}

/* The reference keeps the device registered. */
static int netdev_event(struct notifier_block *nb, unsigned long what, void *info)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(info);
	struct ib_device *ibdev;
	struct t3_dev *dev;
	u32 i;

	if (what != NETDEV_UP && what != NETDEV_DOWN && what != NETDEV_CHANGE &&
	    what != NETDEV_CHANGEADDR)
		return NOTIFY_DONE;
	ibdev = ib_device_get_by_netdev(netdev, RDMA_DRIVER_CXGB3);
	if (!ibdev)
		return NOTIFY_DONE;
	if (ibdev->ops.owner == THIS_MODULE) {
		dev = to_t3_dev(ibdev);
		for (i = 0; i < dev->ports.nports; i++)
			if (dev->ports.lldevs[i] == netdev)
				t3_port_event(dev, i, what);
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
