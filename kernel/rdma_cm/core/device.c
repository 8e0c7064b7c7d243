// SPDX-License-Identifier: GPL-2.0
/*
 * Devices: the list of them, the lookup by address, ids that listen, and the removal of a device.
 *
 * A walk that calls into a provider must drop cm_devices_mutex for the call. So devices and
 * ids that listen have sequence numbers, and both lists are sorted by them. The walk keeps the
 * number of its current element and looks up the next higher one. An element that is added
 * meanwhile has the highest number, so the walk still finds it.
 *
 * A lookup takes no lock that other lookups take: it walks the list under RCU, and the removal of a
 * device waits for such walks.
 */
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <net/addrconf.h>

#include <t3_race_point.h>

#include "compat.h"
#include "rdma_cm.h"

/* Devices, and ids that listen. */
DEFINE_MUTEX(cm_devices_mutex);
/* Changed under the mutex, read under RCU, too. */
static struct list_head cm_devices __guarded_by(&cm_devices_mutex) = LIST_HEAD_INIT(cm_devices);
static struct list_head cm_listening_ids __guarded_by(&cm_devices_mutex) =
	LIST_HEAD_INIT(cm_listening_ids);
static u64 cm_last_seq __guarded_by(&cm_devices_mutex);

/* --- the device of an address -------------------------------------------- */

/* The port that belongs to a net device with an address, or 0. */
static u32 cm_dev_port_on(struct cm_dev *dev, struct net_device *ndev, const struct sockaddr *addr)
{
	u32 port;

	rdma_for_each_port(dev->device, port)
		if (dev->transport->serves_port(dev->device, port) &&
		    dev->transport->port_is_on(dev->device, port, ndev, addr))
			return port;
	return 0;
}

/*
 * The namespace may use the device, and has one of its net devices. ib_core's shared mode lets each
 * namespace use each device.
 */
static bool cm_dev_is_in_net(const struct cm_dev *dev, struct net *net)
{
	return rdma_dev_access_netns(dev->device, net) &&
	       (!dev->transport->is_in_net || dev->transport->is_in_net(dev->device, net));
}

/* The device has the id's kind of QPs. */
static bool cm_dev_has_qps(const struct cm_dev *dev, const struct cm_id *id)
{
	return id->base.id.qp_type != IB_QPT_UD || dev->transport->datagrams;
}

/*
 * A device that the id's namespace may use, with a port of the net device; or NULL. If there are
 * several, one with the id's kind of QPs. Without it a connect or an accept fails.
 */
static struct cm_dev *cm_dev_find_rcu(struct cm_id *id, struct net_device *ndev, u32 *port)
	__must_hold_shared(RCU)
{
	struct cm_dev *dev, *other = NULL;
	u32 found;

	list_for_each_entry_rcu(dev, context_unsafe(&cm_devices), item) {
		if (!rdma_dev_access_netns(dev->device, cm_net(id)))
			continue;
		found = cm_dev_port_on(dev, ndev, cm_src(id));
		if (!found || (other && !cm_dev_has_qps(dev, id)))
			continue;
		*port = found;
		if (cm_dev_has_qps(dev, id))
			return dev;
		other = dev;
	}
	return other;
}

/* As cm_dev_find_rcu(), with a reference. */
static struct cm_dev *cm_dev_find(struct cm_id *id, struct net_device *ndev, u32 *port)
{
	struct cm_dev *dev;

	rcu_read_lock();
	dev = cm_dev_find_rcu(id, ndev, port);
	if (dev && !refcount_inc_not_zero(&dev->users))
		dev = NULL;
	rcu_read_unlock();
	return dev;
}

void cm_dev_put(struct cm_dev *dev)
{
	if (refcount_dec_and_test(&dev->users))
		complete(&dev->gone);
}

static void cm_dev_set(struct cm_id *id, struct cm_dev *dev)
{
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	id->dev = dev;
	spin_unlock_irqrestore(&id->lock, flags);
	id->base.id.device = dev ? dev->device : NULL;
}

/**
 * cm_dev_assign - set the device of an id, with a reference for the id; in any context
 * @id: the id, not published yet
 * @dev: the device, which the caller holds
 *
 * The id has the reference until it is freed. cm_dev_link() puts the id on the device's list.
 */
void cm_dev_assign(struct cm_id *id, struct cm_dev *dev)
{
	refcount_inc(&dev->users);
	cm_dev_set(id, dev);
}

/*
 * The removal of the id's device has begun. A CM_EV_REMOVE that is queued may be about another
 * device, if the id was bound anew.
 */
bool cm_dev_is_removed(const struct cm_id *id)
{
	lockdep_assert_held(&id->lock);
	return id->dev && cm_dev_removed(id->dev);
}

/* Return: false if the removal of the device has begun: it would not take this id off. */
static bool cm_dev_add_id(struct cm_dev *dev, struct cm_id *id)
{
	bool present;

	spin_lock(&dev->lock);
	present = !dev->removed;
	if (present)
		list_add_tail(&id->dev_item, &dev->ids);
	spin_unlock(&dev->lock);
	return present;
}

/*
 * If neither the net device nor its VLAN parent belongs to a port, as for a bridge or a bond, the
 * first port is used.
 */
static u32 cm_dev_port_for(struct cm_id *id, struct net_device *ndev)
{
	struct cm_dev *dev = cm_dev_of(id);
	u32 port = cm_dev_port_on(dev, ndev, cm_src(id));

	if (!port && is_vlan_dev(ndev))
		port = cm_dev_port_on(dev, vlan_dev_real_dev(ndev), cm_src(id));
	return port ? port : rdma_start_port(dev->device);
}

/**
 * cm_dev_link - put an id on the list of its device
 * @id: the id, after cm_dev_assign(); its dev_addr has the net device
 *
 * From now on the id receives the removal of the device as an event.
 *
 * Return: 0; -ENODEV if the removal has begun, or if the device has left the id's namespace.
 */
int cm_dev_link(struct cm_id *id)
{
	struct rdma_dev_addr *dev_addr = &id->base.id.route.addr.dev_addr;
	struct net_device *ndev;

	if (!cm_dev_is_in_net(cm_dev_of(id), dev_addr->net))
		return -ENODEV;
	ndev = dev_get_by_index(dev_addr->net, dev_addr->bound_dev_if);
	if (!ndev)
		return -ENODEV;
	id->base.id.port_num = cm_dev_port_for(id, ndev);
	dev_put(ndev);
	return cm_dev_add_id(cm_dev_of(id), id) ? 0 : -ENODEV;
}

/**
 * cm_dev_attach - give an id the device of its source address
 * @id: the id; its dev_addr has the net device
 *
 * Return: 0, or -ENODEV.
 */
int cm_dev_attach(struct cm_id *id)
{
	struct rdma_dev_addr *dev_addr = &id->base.id.route.addr.dev_addr;
	struct net_device *ndev;
	struct cm_dev *dev;
	int ret = 0;
	u32 port;

	ndev = dev_get_by_index(dev_addr->net, dev_addr->bound_dev_if);
	if (!ndev)
		return -ENODEV;
	T3_RACE_POINT(cm_attach_ndev_found);
	dev = cm_dev_find(id, ndev, &port);
	/* A VLAN without an RDMA device uses the one of its parent interface. */
	if (!dev && is_vlan_dev(ndev))
		dev = cm_dev_find(id, vlan_dev_real_dev(ndev), &port);
	T3_RACE_POINT(cm_attach_dev_found);
	if (dev) {
		/* First, as CM_EV_REMOVE is about the id's device. */
		cm_dev_set(id, dev);
		id->base.id.port_num = port;
		if (!cm_dev_add_id(dev, id)) {
			cm_dev_set(id, NULL);
			id->base.id.port_num = 0;
			cm_dev_put(dev);
			dev = NULL;
		}
	}
	T3_RACE_POINT(cm_attached);
	if (dev && dev->transport->attach)
		ret = dev->transport->attach(id, ndev);
	dev_put(ndev);
	if (ret)
		cm_dev_detach(id);
	return dev ? ret : -ENODEV;
}

/* @item: of an id or a listener, in the device's list or in none. */
static void cm_dev_list_del(struct cm_dev *dev, struct list_head *item)
	__must_hold(&dev->lock)
{
	lockdep_assert_held(&dev->lock);
	list_del_init(item);
}

/* Takes an id off its device's list. The id keeps the reference until it is freed. */
void cm_dev_unlink(struct cm_id *id)
{
	struct cm_dev *dev = cm_dev_of(id);

	if (!dev)
		return;
	spin_lock(&dev->lock);
	cm_dev_list_del(dev, &id->dev_item);
	spin_unlock(&dev->lock);
}

/* Undoes cm_dev_attach(). */
void cm_dev_detach(struct cm_id *id)
{
	struct cm_dev *dev = cm_dev_of(id);

	if (!dev)
		return;
	cm_dev_unlink(id);
	if (dev->transport->detach)
		dev->transport->detach(id);
	cm_dev_set(id, NULL);
	id->base.id.port_num = 0;
	cm_dev_put(dev);
}

/* Whether the id's namespace has a net device of its device, or of one that it may listen on. */
bool cm_dev_exists_for(struct cm_id *id)
{
	bool found = cm_dev_of(id);
	struct cm_dev *dev;

	rcu_read_lock();
	list_for_each_entry_rcu(dev, context_unsafe(&cm_devices), item)
		found |= dev->transport->is_in_net && cm_dev_is_in_net(dev, cm_net(id));
	rcu_read_unlock();
	return found;
}

/* --- listeners ----------------------------------------------------------- */

/* Return: false if the removal of the device has begun: it would not take this listener off. */
bool cm_dev_link_listener(struct cm_listener *l)
{
	struct cm_dev *dev = l->dev;
	bool linked;

	spin_lock(&dev->lock);
	linked = !dev->removed;
	if (linked) {
		refcount_inc(&dev->users);
		list_add_tail(&l->dev_item, &dev->listeners);
	}
	spin_unlock(&dev->lock);
	return linked;
}

void cm_dev_unlink_listener(struct cm_listener *l)
{
	spin_lock(&l->dev->lock);
	cm_dev_list_del(l->dev, &l->dev_item);
	spin_unlock(&l->dev->lock);
}

/* The id may listen on the device: on its own, or with a wildcard address on each. */
static bool cm_dev_is_for(const struct cm_dev *dev, struct cm_id *id)
{
	if (cm_dev_of(id))
		return cm_dev_of(id) == dev;
	return rdma_dev_access_netns(dev->device, cm_net(id)) && cm_dev_has_qps(dev, id);
}

static struct cm_dev *cm_next_device(u64 after)
{
	struct cm_dev *dev;

	lockdep_assert_held(&cm_devices_mutex);
	list_for_each_entry(dev, &cm_devices, item) {
		if (dev->seq <= after)
			continue;
		refcount_inc(&dev->users);
		return dev;
	}
	return NULL;
}

/*
 * The next id that listens, with a reference; drops that on the last one. @last: NULL at first;
 * @at: its place, which is not found by a search, as there may be many. An id that has stopped
 * meanwhile has no place any more, and one that listens again has another.
 */
static struct cm_id *cm_next_listening(struct cm_id *last, u64 *at)
{
	struct cm_id *id, *next = NULL;

	mutex_lock(&cm_devices_mutex);
	if (last && !list_empty(&last->listening) && last->listening_seq == *at)
		id = last;
	else
		id = list_entry(&cm_listening_ids, struct cm_id, listening);
	list_for_each_entry_continue(id, &cm_listening_ids, listening) {
		if (id->listening_seq <= *at)
			continue;
		cm_id_get(id);
		*at = id->listening_seq;
		next = id;
		break;
	}
	mutex_unlock(&cm_devices_mutex);
	if (last)
		cm_id_put(last);
	return next;
}

/*
 * Logs that a device refuses a wildcard listener. A program can repeat its listen, so the rate is
 * limited. That a device has no IPv6 is logged once.
 */
static void cm_dev_warn_listen(struct cm_dev *dev, struct cm_id *id, int error)
{
	u16 port = cm_addr_port(cm_src(id));

	lockdep_assert_held(&cm_devices_mutex);
	if (error != -EAFNOSUPPORT) {
		ibdev_warn_ratelimited(dev->device, "rdma_cm: no listener on port %u: error %d\n",
				       port, error);
	} else if (!dev->family_warned) {
		dev->family_warned = true;
		ibdev_warn(dev->device, "rdma_cm: no listener on port %u: the device has no IPv6\n",
			   port);
	}
}

/* Return: 0, also if a device refuses that is not for the id; or the first error. */
static int cm_listen_on_devices(struct cm_id *id)
{
	bool in_use = false, is_for;
	struct cm_dev *dev;
	int first = 0, ret;
	u64 at = 0;

	mutex_lock(&cm_devices_mutex);
	while ((dev = cm_next_device(at))) {
		at = dev->seq;
		mutex_unlock(&cm_devices_mutex);
		T3_RACE_POINT(cm_listen_next_device);
		is_for = cm_dev_is_for(dev, id);
		ret = is_for ? cm_listen(id, dev) : 0;
		mutex_lock(&cm_devices_mutex);
		/* A device of another kind or namespace, or that is removed, does not count. */
		if (ret && !cm_dev_removed(dev) && cm_state(id) == CM_ST_LISTENING) {
			cm_dev_warn_listen(dev, id, ret);
			in_use |= ret == -EADDRINUSE;
			if (ret != -EAFNOSUPPORT && !first)
				first = ret;
		}
		cm_dev_put(dev);
	}
	mutex_unlock(&cm_devices_mutex);
	return in_use ? -EADDRINUSE : first;
}

/**
 * cm_listen_start - listen on the id's device; with a wildcard address on all devices, and on
 *	devices and addresses that are added later
 * @id: the id
 *
 * Each device that refuses a wildcard is logged, and its error fails the call: the program would
 * not be reached by some of its peers. But EAFNOSUPPORT counts as if the device was absent: the
 * listener is for IPv6 only, and the device has IPv4 only. If several refuse, EADDRINUSE takes
 * precedence.
 *
 * A device or an address that is added later and refuses is logged, too. The listener stays on the
 * others. A new listen, and a change of any address, tries all again.
 *
 * Return: 0, also if there is no device for a wildcard yet. On an error the caller must take the
 * id off the devices that listen.
 */
int cm_listen_start(struct cm_id *id)
{
	mutex_lock(&cm_devices_mutex);
	id->listening_seq = ++cm_last_seq;
	list_add_tail(&id->listening, &cm_listening_ids);
	mutex_unlock(&cm_devices_mutex);
	return cm_dev_of(id) ? cm_listen(id, cm_dev_of(id)) : cm_listen_on_devices(id);
}

/* Devices and addresses that are added from now on are not for this id. */
void cm_listen_stop(struct cm_id *id)
{
	mutex_lock(&cm_devices_mutex);
	list_del_init(&id->listening);
	mutex_unlock(&cm_devices_mutex);
}

static unsigned long cm_listen_update_took;	/* jiffies; read at any time */

/* Addresses have come or gone, or net devices are in another namespace. */
static void cm_listen_update(struct work_struct *work)
{
	unsigned long start = jiffies;
	struct cm_id *id = NULL;
	u64 at = 0;

	while ((id = cm_next_listening(id, &at)))
		cm_listen_on_devices(id);
	WRITE_ONCE(cm_listen_update_took, jiffies - start);
}

static DECLARE_DELAYED_WORK(cm_listen_update_work, cm_listen_update);

/*
 * A notifier may hold rtnl, which a provider may take to listen. The delay is for processes that
 * change net devices and addresses of a namespace of their own in a loop, and may have many
 * listeners: they use a fifth of a processor, unless an update takes so long that the addresses of
 * others would have to wait.
 */
static unsigned long cm_listen_update_delay(void)
{
	return HZ / 50 + min(4 * READ_ONCE(cm_listen_update_took), (unsigned long)HZ);
}

void cm_queue_listen_update(void)
{
	queue_delayed_work(t3_unbound_wq, &cm_listen_update_work, cm_listen_update_delay());
}

/* --- link addresses, IP addresses, namespaces -------------------------------- */

static bool cm_dev_addr_changed(const struct cm_id *id, const struct net_device *ndev)
{
	const struct rdma_dev_addr *dev_addr = &id->base.id.route.addr.dev_addr;

	return dev_addr->bound_dev_if == ndev->ifindex && net_eq(dev_addr->net, dev_net(ndev)) &&
	       memcmp(dev_addr->src_dev_addr, ndev->dev_addr, ndev->addr_len);
}

/* The peers of an id send to the link address that the interface had: the consumer decides. */
static int cm_netdev_event(struct notifier_block *self, unsigned long event, void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	struct cm_dev *dev;
	struct cm_id *id;

	switch (event) {
	case NETDEV_REGISTER:		/* also when it has come from another namespace */
	case NETDEV_UNREGISTER:
	case NETDEV_CHANGEUPPER:	/* it has got a VLAN, or lost one */
		cm_queue_listen_update();
		return NOTIFY_DONE;
	case NETDEV_CHANGEADDR:
		/* A bond that fails over sends this if its address changes, and then another. */
		break;
	default:
		return NOTIFY_DONE;
	}
	T3_RACE_POINT(cm_netdev_changed);
	mutex_lock(&cm_devices_mutex);
	list_for_each_entry(dev, &cm_devices, item) {
		spin_lock(&dev->lock);
		list_for_each_entry(id, &dev->ids, dev_item)
			if (cm_dev_addr_changed(id, ndev))
				cm_event_post(id, CM_SLOT_ADDR_CHANGE, CM_EV_ADDR_CHANGE, 0,
					      CM_DISPATCH_WORKER);
		spin_unlock(&dev->lock);
	}
	mutex_unlock(&cm_devices_mutex);
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
	struct cm_id *id = NULL;
	u64 at = 0;
	int ret;

	if (!transport)
		return -EOPNOTSUPP;
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	dev->device = device;
	dev->transport = transport;
	refcount_set(&dev->users, 1);
	init_completion(&dev->gone);
	spin_lock_init(&dev->lock);
	/* Not published yet. */
	context_unsafe(INIT_LIST_HEAD(&dev->ids));
	context_unsafe(INIT_LIST_HEAD(&dev->listeners));
	ib_set_client_data(device, &cm_client, dev);
	T3_RACE_POINT(cm_add_made);

	mutex_lock(&cm_devices_mutex);
	dev->seq = ++cm_last_seq;
	list_add_tail_rcu(&dev->item, &cm_devices);
	mutex_unlock(&cm_devices_mutex);
	while ((id = cm_next_listening(id, &at))) {
		T3_RACE_POINT(cm_add_next_listener);
		ret = cm_dev_is_for(dev, id) ? cm_listen(id, dev) : 0;
		if (!ret || cm_state(id) != CM_ST_LISTENING)
			continue;
		mutex_lock(&cm_devices_mutex);
		cm_dev_warn_listen(dev, id, ret);
		mutex_unlock(&cm_devices_mutex);
	}
	return 0;
}

/* Readers under RCU may find the device until a grace period has ended. */
static void cm_dev_unlist(struct cm_dev *dev)
	__must_hold(&cm_devices_mutex)
{
	lockdep_assert_held(&cm_devices_mutex);
	list_del_rcu(&dev->item);
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

	T3_RACE_POINT(cm_remove_begins);
	if (dev->transport->cancel_waits)
		dev->transport->cancel_waits(dev);
	mutex_lock(&cm_devices_mutex);
	cm_dev_unlist(dev);
	mutex_unlock(&cm_devices_mutex);
	spin_lock(&dev->lock);
	WRITE_ONCE(dev->removed, true);
	list_for_each_entry(id, &dev->ids, dev_item)
		cm_event_post(id, CM_SLOT_REMOVE, CM_EV_REMOVE, 0, CM_DISPATCH_WORKER);
	while ((l = list_first_entry_or_null(&dev->listeners, struct cm_listener, dev_item))) {
		id = l->id;
		cm_id_get(id);
		cm_dev_list_del(dev, &l->dev_item);
		spin_unlock(&dev->lock);
		T3_RACE_POINT(cm_remove_listener);
		cm_unlisten(id, dev);
		cm_id_put(id);
		spin_lock(&dev->lock);
	}
	spin_unlock(&dev->lock);
	T3_RACE_POINT(cm_remove_unlinked);
	cm_dev_put(dev);
	wait_for_completion(&dev->gone);
	/* A lookup that has found the device takes no reference any more, but still reads it. */
	synchronize_rcu();
	T3_RACE_POINT(cm_remove_waited);
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
	cancel_delayed_work_sync(&cm_listen_update_work);
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
