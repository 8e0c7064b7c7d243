// SPDX-License-Identifier: GPL-2.0
/*
 * The devices that ib_core adds and removes, and the changes of interfaces and addresses.
 *
 * Any process can change these in a namespace of its own, as often as it likes, and a notifier may
 * hold rtnl. So the notifiers only queue an update.
 */
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/addrconf.h>

#include "rdma_cm.h"

/* --- link addresses, IP addresses, namespaces -------------------------------- */

/* Another one than in the last update, and than the one that the peers of the id know. */
static bool cm_link_addr_changed(struct cm_id *id)
{
	const struct rdma_dev_addr *dev_addr = &id->base.id.route.addr.dev_addr;
	u8 addr[ETH_ALEN];		/* all that RDMA uses are Ethernet, or loopback */
	struct net_device *ndev;

	lockdep_assert_held(&cm_dev_of(id)->lock);
	rcu_read_lock();
	ndev = dev_get_by_index_rcu(dev_addr->net, dev_addr->bound_dev_if);
	memcpy(addr, ndev ? ndev->dev_addr : id->link_addr, sizeof(addr));
	rcu_read_unlock();
	/* If the interface changed meanwhile, another update follows. */
	if (!memcmp(addr, id->link_addr, sizeof(addr)))
		return false;
	memcpy(id->link_addr, addr, sizeof(addr));
	return memcmp(addr, dev_addr->src_dev_addr, sizeof(addr));
}

/* The peers of an id send to the link address that the interface had: the consumer decides. */
static void cm_update_link_addr(struct cm_id *id)
{
	if (cm_link_addr_changed(id))
		cm_event_post(id, CM_SLOT_ADDR_CHANGE, CM_EV_ADDR_CHANGE, 0, CM_DISPATCH_WORKER);
}

static void cm_update_link_addrs(void)
{
	struct cm_dev *dev;
	u64 at = 0;

	while ((dev = cm_next_device(&at))) {
		cm_dev_visit_ids(dev, cm_update_link_addr);
		cm_dev_put(dev);
	}
}

static struct cm_update cm_link_addrs_update = {
	__DELAYED_WORK_INITIALIZER(cm_link_addrs_update.work, cm_update_work, 0),
	cm_update_link_addrs,
};

/* None runs any more when this returns, if none is queued meanwhile. */
static void cm_cancel_updates(void)
{
	cancel_delayed_work_sync(&cm_link_addrs_update.work);
	cm_cancel_listen_update();
}

static int cm_netdev_event(struct notifier_block *self, unsigned long event, void *ptr)
{
	switch (event) {
	case NETDEV_REGISTER:		/* also when it has come from another namespace */
	case NETDEV_UNREGISTER:
	case NETDEV_CHANGEUPPER:	/* it has got a VLAN, or lost one */
		cm_queue_listen_update();
		break;
	case NETDEV_CHANGEADDR:		/* a bond that fails over, if its address changes */
		cm_update_queue(&cm_link_addrs_update);
	}
	return NOTIFY_DONE;
}

static struct notifier_block cm_netdev_notifier = { .notifier_call = cm_netdev_event };

static int cm_inetaddr_event(struct notifier_block *self, unsigned long event, void *ptr)
{
	cm_queue_listen_update();
	return NOTIFY_DONE;
}

static struct notifier_block cm_inetaddr_notifier = { .notifier_call = cm_inetaddr_event };
static struct notifier_block cm_inet6addr_notifier = { .notifier_call = cm_inetaddr_event };

/* --- addition and removal ------------------------------------------------ */

static struct ib_client cm_client;

static const struct cm_transport *const cm_transports[] = { &cm_iw_transport, &cm_roce_transport };

/* The transport that serves a device, or NULL. */
static const struct cm_transport *cm_transport_of(struct ib_device *device)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(cm_transports); i++)
		if (cm_transports[i]->serves(device))
			return cm_transports[i];
	return NULL;
}

static int cm_add_one(struct ib_device *device)
{
	const struct cm_transport *transport = cm_transport_of(device);
	struct cm_dev *dev;

	if (!transport)
		return -EOPNOTSUPP;
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	dev->device = device;
	dev->transport = transport;
	refcount_set(&dev->users, 1);
	init_completion(&dev->gone);
	mutex_init(&dev->walk);
	spin_lock_init(&dev->lock);
	/* Not published yet. */
	context_unsafe(INIT_LIST_HEAD(&dev->ids));
	context_unsafe(INIT_LIST_HEAD(&dev->listeners));
	ib_set_client_data(device, &cm_client, dev);

	cm_dev_list(dev);
	cm_listen_on_added(dev);
	return 0;
}

static void cm_post_removal(struct cm_id *id)
{
	cm_event_post(id, CM_SLOT_REMOVE, CM_EV_REMOVE, 0, CM_DISPATCH_WORKER);
}

/*
 * Posts the removal to the ids on the device; each consumer must then destroy its id. Takes ids
 * that listen on all devices off this one. Returns when the last user of the device has gone.
 */
static void cm_remove_one(struct ib_device *device, void *data)
{
	struct cm_dev *dev = data;
	struct cm_listener *l;
	struct cm_id *id;

	if (dev->transport->cancel_waits)
		dev->transport->cancel_waits(dev);
	cm_dev_unlist(dev);
	spin_lock(&dev->lock);
	WRITE_ONCE(dev->removed, true);
	spin_unlock(&dev->lock);
	cm_dev_visit_ids(dev, cm_post_removal);
	spin_lock(&dev->lock);
	while ((l = list_first_entry_or_null(&dev->listeners, struct cm_listener, dev_item))) {
		id = l->id;
		cm_id_get(id);
		cm_dev_list_del(dev, &l->dev_item);
		spin_unlock(&dev->lock);
		cm_unlisten(id, dev);
		cm_id_put(id);
		spin_lock(&dev->lock);
	}
	spin_unlock(&dev->lock);
	cm_dev_put(dev);
	wait_for_completion(&dev->gone);
	/* A lookup that has found the device takes no reference any more, but still reads it. */
	synchronize_rcu();
	kfree(dev);
}

/*
 * librdmacm queries ib_core for a client of this name. ib_core returns the client that was
 * registered first, so that is the connection manager of the machine.
 */
static struct ib_client cm_client = {
	.name = "rdma_cm",
	.add = cm_add_one,
	.remove = cm_remove_one,
};
MODULE_ALIAS_RDMA_CLIENT("rdma_cm");

static int cm_notifiers_register(void)
{
	int ret = register_netdevice_notifier(&cm_netdev_notifier);

	if (ret)
		return ret;
	/* These two cannot fail. */
	register_inetaddr_notifier(&cm_inetaddr_notifier);
	if (IS_ENABLED(CONFIG_IPV6))
		register_inet6addr_notifier(&cm_inet6addr_notifier);
	return 0;
}

static void cm_notifiers_unregister(void)
{
	if (IS_ENABLED(CONFIG_IPV6))
		unregister_inet6addr_notifier(&cm_inet6addr_notifier);
	unregister_inetaddr_notifier(&cm_inetaddr_notifier);
	unregister_netdevice_notifier(&cm_netdev_notifier);
	cm_cancel_updates();
}

/**
 * cm_devices_init - from now on ib_core reports its devices
 * @nl_info: replies to librdmacm, which asks for the user device
 *
 * Return: 0, or an error of a registration.
 */
int cm_devices_init(int (*nl_info)(struct ib_client_nl_info *res))
{
	int ret = cm_notifiers_register();

	if (ret)
		return ret;
	cm_client.get_global_nl_info = nl_info;
	ret = ib_register_client(&cm_client);
	if (ret)
		cm_notifiers_unregister();
	return ret;
}

void cm_devices_exit(void)
{
	ib_unregister_client(&cm_client);
	cm_notifiers_unregister();
}
