// SPDX-License-Identifier: GPL-2.0
/*
 * Port events: the link state, and the MAC address, which makes the GID. From 6.14 on
 * ib_core reports the link state of a port. On older kernels the driver must.
 * cxgb3's own events (OFFLOAD_PORT_UP, OFFLOAD_PORT_DOWN) are not sufficient: they report
 * that an interface is set up or down, not that a cable is unplugged.
 */
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>

#include "t3_compat_verbs.h"
#include "iw_cxgb3.h"

static bool t3_port_has_link(const struct net_device *netdev)
{
	return netif_running(netdev) && netif_carrier_ok(netdev);
}

/* ports_up is the state that the last event or a query reported to consumers. */
void t3_ports_init(struct t3_dev *dev)
{
	u32 i;

	for (i = 0; i < dev->ports.nports; i++)
		assign_bit(i, &dev->ports_up, t3_port_has_link(dev->ports.lldevs[i]));
}

static void t3_port_check_link(struct t3_dev *dev, u32 i)
{
	bool up = t3_port_has_link(dev->ports.lldevs[i]);
	bool was_up = up ? test_and_set_bit(i, &dev->ports_up) :
			   test_and_clear_bit(i, &dev->ports_up);

	if (up != was_up && !T3_CORE_REPORTS_PORTS)
		t3_dev_dispatch(dev, up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR, i + 1);
}

/* On a GID_CHANGE ib_core queries the GID again before it forwards the event. */
static void t3_port_event(struct t3_dev *dev, u32 i, unsigned long event)
{
	ASSERT_RTNL();
	if (event == NETDEV_CHANGEADDR)
		t3_dev_dispatch(dev, IB_EVENT_GID_CHANGE, i + 1);
	else
		t3_port_check_link(dev, i);
}

/* The reference keeps the device registered. */
static int t3_port_netdev_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(info);
	struct ib_device *ibdev;
	struct t3_dev *dev;
	u32 i;

	if (event != NETDEV_UP && event != NETDEV_DOWN && event != NETDEV_CHANGE &&
	    event != NETDEV_CHANGEADDR)
		return NOTIFY_DONE;
	ibdev = ib_device_get_by_netdev(netdev, RDMA_DRIVER_CXGB3);
	if (!ibdev)
		return NOTIFY_DONE;
	if (ibdev->ops.owner == THIS_MODULE) {
		dev = to_t3_dev(ibdev);
		for (i = 0; i < dev->ports.nports; i++)
			if (dev->ports.lldevs[i] == netdev)
				t3_port_event(dev, i, event);
	}
	ib_device_put(ibdev);
	return NOTIFY_DONE;
}

static struct notifier_block t3_port_notifier = {
	.notifier_call = t3_port_netdev_event,
};

int t3_ports_watch(void)
{
	return register_netdevice_notifier(&t3_port_notifier);
}

void t3_ports_unwatch(void)
{
	unregister_netdevice_notifier(&t3_port_notifier);
}
