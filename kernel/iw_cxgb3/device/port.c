// SPDX-License-Identifier: GPL-2.0
/*
 * Events of the ports and of the VLAN devices on them: the link state and speed; the MAC address,
 * which makes the GID; and addresses and interfaces that are removed. From 6.14 on
 * ib_core reports the link state of a port. On older kernels the driver must.
 * cxgb3's own events (OFFLOAD_PORT_UP, OFFLOAD_PORT_DOWN) are not sufficient: they report
 * that an interface is set up or down, not that a cable is unplugged.
 */
#include <linux/ethtool.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>

#include <t3_netdev.h>

#include "t3_compat_verbs.h"
#include "device.h"

static bool t3_port_has_link(const struct net_device *netdev)
{
	return netif_running(netdev) && netif_carrier_ok(netdev);
}

/*
 * The speed that ib_get_eth_speed() finds, for query_port, which must not take rtnl as that
 * function does (docs/locking.md).
 */
static void t3_port_check_speed(struct t3_dev *dev, u32 i)
{
	struct ethtool_link_ksettings link;

	ASSERT_RTNL();
	if (__ethtool_get_link_ksettings(dev->ports.lldevs[i], &link))
		return;
	assign_bit(i, &dev->ports_slow,
		   link.base.speed <= SPEED_1000 || link.base.speed == (u32)SPEED_UNKNOWN);
}

/* ports_up is the state that the last event or a query reported to consumers. */
void t3_ports_init(struct t3_dev *dev)
{
	u32 i;

	rtnl_lock();
	for (i = 0; i < dev->ports.nports; i++) {
		t3_port_check_speed(dev, i);
		assign_bit(i, &dev->ports_up, t3_port_has_link(dev->ports.lldevs[i]));
	}
	rtnl_unlock();
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
	if (event == NETDEV_CHANGEADDR) {
		t3_dev_dispatch(dev, IB_EVENT_GID_CHANGE, i + 1);
		return;
	}
	t3_port_check_speed(dev, i);	/* before a consumer learns of the link */
	t3_port_check_link(dev, i);
}

/* The device of a port, or NULL. Its reference keeps the device registered. */
static struct t3_dev *t3_port_get_dev(struct net_device *port)
{
	struct ib_device *ibdev = ib_device_get_by_netdev(port, RDMA_DRIVER_CXGB3);

	if (!ibdev)
		return NULL;
	if (ibdev->ops.owner == THIS_MODULE)
		return to_t3_dev(ibdev);
	ib_device_put(ibdev);
	return NULL;
}

/*
 * Connections hold their interface, and the kernel waits for them when it removes the interface or
 * its network namespace.
 */
static void t3_port_addr_removed(struct net_device *netdev)
{
	struct t3_dev *dev = t3_port_get_dev(t3_vlan_below(netdev) ?: netdev);

	if (!dev)
		return;
	t3_cm_addr_removed(dev);
	ib_device_put(&dev->ibdev);
}

static int t3_port_netdev_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(info);
	struct t3_dev *dev;
	u32 i;

	if (event == NETDEV_UNREGISTER)
		t3_port_addr_removed(netdev);
	if (event != NETDEV_UP && event != NETDEV_DOWN && event != NETDEV_CHANGE &&
	    event != NETDEV_CHANGEADDR)
		return NOTIFY_DONE;
	dev = t3_port_get_dev(netdev);
	if (!dev)
		return NOTIFY_DONE;
	for (i = 0; i < dev->ports.nports; i++)
		if (dev->ports.lldevs[i] == netdev)
			t3_port_event(dev, i, event);
	ib_device_put(&dev->ibdev);
	return NOTIFY_DONE;
}

static struct notifier_block t3_port_notifier = {
	.notifier_call = t3_port_netdev_event,
};

static int t3_port_inetaddr_event(struct notifier_block *nb, unsigned long event, void *info)
{
	const struct in_ifaddr *ifa = info;

	if (event == NETDEV_DOWN)
		t3_port_addr_removed(ifa->ifa_dev->dev);
	return NOTIFY_DONE;
}

static struct notifier_block t3_port_inetaddr_notifier = {
	.notifier_call = t3_port_inetaddr_event,
};

int t3_ports_watch(void)
{
	int err = register_netdevice_notifier(&t3_port_notifier);

	if (err)
		return err;
	err = register_inetaddr_notifier(&t3_port_inetaddr_notifier);
	if (err)
		unregister_netdevice_notifier(&t3_port_notifier);
	return err;
}

void t3_ports_unwatch(void)
{
	unregister_inetaddr_notifier(&t3_port_inetaddr_notifier);
	unregister_netdevice_notifier(&t3_port_notifier);
}
