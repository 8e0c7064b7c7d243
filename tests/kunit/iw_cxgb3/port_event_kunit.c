// SPDX-License-Identifier: GPL-2.0
/*
 * Events of the ports' interfaces: the MAC address, addresses and interfaces that are removed.
 */
#include <linux/netdevice.h>

#include "../suite.h"
#include "device.h"

static struct ib_device *ibdev_of_netdev(const struct net_device *netdev);
static void put_ibdev(struct ib_device *ibdev);

#define ib_device_get_by_netdev(netdev, driver) ibdev_of_netdev(netdev)
#define ib_device_put put_ibdev
#include "port.c"

static struct t3_dev *dev;
static int ibdev_refs;			/* taken */
static unsigned int gid_changes;	/* reported */

static unsigned int removals;		/* reported */

static struct ib_device *ibdev_of_netdev(const struct net_device *netdev)
{
	if (netdev != dev->ports.lldevs[0])
		return NULL;
	ibdev_refs++;
	return &dev->ibdev;
}

static void put_ibdev(struct ib_device *ibdev)
{
	ibdev_refs--;
}

void t3_dev_dispatch(struct t3_dev *dev, enum ib_event_type type, u32 port)
{
	gid_changes += type == IB_EVENT_GID_CHANGE;
}

void t3_cm_addr_removed(struct t3_dev *dev)
{
	removals++;
}

static int port_event_init(struct kunit *test)
{
	ibdev_refs = 0;
	gid_changes = 0;
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->ports.lldevs[0] = kunit_kzalloc(test, sizeof(struct net_device), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->ports.lldevs[0]);
	return 0;
}

static void port_event_exit(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, ibdev_refs, 0);
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
	KUNIT_EXPECT_EQ(test, gid_changes, 1);
	rtnl_lock();
	t3_port_netdev_event(&t3_port_notifier, NETDEV_CHANGENAME, &info);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, gid_changes, 1);
}

static struct {
	u32 speed;
	int error;
} cable;

static int settings_of_the_link(struct net_device *netdev, struct ethtool_link_ksettings *link)
{
	link->base.speed = cable.speed;
	return cable.error;
}

/* As ib_get_eth_speed(), for which a port without a link has 1 Gbit/s. */
static void port_has_the_speed_of_its_link(struct kunit *test)
{
	static const struct ethtool_ops ops = { .get_link_ksettings = settings_of_the_link };
	static const struct {
		u32 speed;
		int error;
		bool slow, was_slow;
	} rows[] = {
		{ .speed = SPEED_1000, .slow = true },
		{ .speed = SPEED_100, .slow = true },
		{ .speed = SPEED_10000, .was_slow = true },
		{ .speed = (u32)SPEED_UNKNOWN, .slow = true },
		{ .error = -ENODEV },
		{ .error = -ENODEV, .slow = true, .was_slow = true },
	};
	struct net_device *port = dev->ports.lldevs[0];
	struct netdev_notifier_info info = { .dev = port };
	unsigned int i;

	dev->ibdev.ops.owner = THIS_MODULE;
	dev->ports.nports = 1;
	port->ethtool_ops = &ops;
	set_bit(__LINK_STATE_PRESENT, &port->state);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		cable.speed = rows[i].speed;
		cable.error = rows[i].error;
		dev->ports_slow = rows[i].was_slow;
		t3_ports_init(dev);
		KUNIT_EXPECT_EQ_MSG(test, dev->ports_slow, rows[i].slow, "row %u", i);
		dev->ports_slow = rows[i].was_slow;
		rtnl_lock();
		t3_port_netdev_event(&t3_port_notifier, NETDEV_CHANGE, &info);
		rtnl_unlock();
		KUNIT_EXPECT_EQ_MSG(test, dev->ports_slow, rows[i].slow, "row %u", i);
	}
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
	struct in_ifaddr ifa = { .ifa_dev = &in_dev };
	struct net_device *const over[] = { port, vlan };
	struct netdev_notifier_info info;
	unsigned int i;

	dev->ibdev.ops.owner = THIS_MODULE;
	for (i = 0; i < ARRAY_SIZE(over); i++) {
		removals = 0;
		in_dev.dev = over[i];
		info.dev = over[i];
		t3_port_inetaddr_event(NULL, NETDEV_UP, &ifa);
		KUNIT_EXPECT_EQ(test, removals, 0);
		t3_port_inetaddr_event(NULL, NETDEV_DOWN, &ifa);
		KUNIT_EXPECT_EQ(test, removals, 1);
		t3_port_netdev_event(NULL, NETDEV_UNREGISTER, &info);
		KUNIT_EXPECT_EQ(test, removals, 2);
	}
	in_dev.dev = new_vlan(test, vlan);
	info.dev = in_dev.dev;
	t3_port_inetaddr_event(NULL, NETDEV_DOWN, &ifa);
	t3_port_netdev_event(NULL, NETDEV_UNREGISTER, &info);
	KUNIT_EXPECT_EQ(test, removals, 2);
	/* Another driver's port, and one of another module. */
	in_dev.dev = vlan;
	vlan_dev_priv(vlan)->real_dev = vlan;
	vlan->priv_flags = 0;
	t3_port_inetaddr_event(NULL, NETDEV_DOWN, &ifa);
	dev->ibdev.ops.owner = NULL;
	in_dev.dev = port;
	t3_port_inetaddr_event(NULL, NETDEV_DOWN, &ifa);
	KUNIT_EXPECT_EQ(test, removals, 2);
}

/* Their code is freed when the module is unloaded. */
static void notifiers_of_ports_are_removed(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, t3_ports_watch(), 0);
	t3_ports_unwatch();
	KUNIT_EXPECT_EQ(test, unregister_netdevice_notifier(&t3_port_notifier), -ENOENT);
	KUNIT_EXPECT_EQ(test, unregister_inetaddr_notifier(&t3_port_inetaddr_notifier), -ENOENT);
}

static struct kunit_case port_event_cases[] = {
	KUNIT_CASE(mac_address_change_reports_gid_change),
	KUNIT_CASE(port_has_the_speed_of_its_link),
	KUNIT_CASE(removed_addresses_are_reported),
	KUNIT_CASE(notifiers_of_ports_are_removed),
	{}
};

TEST_SUITE("iw_cxgb3_port_event", port_event_cases, .init = port_event_init,
	   .exit = port_event_exit);
