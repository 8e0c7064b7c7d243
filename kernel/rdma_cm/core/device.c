// SPDX-License-Identifier: GPL-2.0
/*
 * Devices: the list of them, the lookup by address, and what is on a device.
 *
 * A walk that calls into a provider must drop cm_devices_mutex for the call. So devices have
 * sequence numbers, and the list is sorted by them. The walk keeps the number of its current device
 * and looks up the next higher one. A device that is added meanwhile has the highest number, so the
 * walk still finds it.
 *
 * A lookup takes no lock that other lookups take: it walks the list under RCU, and the removal of a
 * device waits for such walks.
 */
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/rculist.h>

#include "rdma_cm.h"

/* Devices, and ids that listen (listen.c). */
DEFINE_MUTEX(cm_devices_mutex);
/* Changed under the mutex, read under RCU, too. */
static struct list_head cm_devices __guarded_by(&cm_devices_mutex) = LIST_HEAD_INIT(cm_devices);
static u64 cm_last_dev __guarded_by(&cm_devices_mutex);

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

/*
 * An id may connect and listen on the device. Only an id of RDMA_PS_TCP has a port of the host's
 * TCP: another one would take the SYNs and connections of a server that has this port.
 */
bool cm_dev_takes(const struct cm_dev *dev, const struct cm_id *id)
{
	return !dev->transport->tcp ||
	       (id->bind.ps == RDMA_PS_TCP && id->base.id.qp_type == IB_QPT_RC);
}

/*
 * A device that the id's namespace may use, with a port of the net device; or NULL. If there are
 * several, one that takes the id. On another one a connect or a listen fails.
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
		if (!found || (other && !cm_dev_takes(dev, id)))
			continue;
		*port = found;
		if (cm_dev_takes(dev, id))
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
	if (present) {
		memcpy(id->link_addr, id->base.id.route.addr.dev_addr.src_dev_addr,
		       sizeof(id->link_addr));
		id->visited = dev->visited;
		list_add_tail(&id->dev_item, &dev->ids);
	}
	spin_unlock(&dev->lock);
	return present;
}

/* A bound of the time for which a walk holds the lock of a device. */
#define CM_MAX_IDS_LOCKED 256

/* The next id of a walk, or NULL. It becomes the last one of the list. */
static struct cm_id *cm_dev_next_id(struct cm_dev *dev)
	__must_hold(&dev->lock)
{
	struct cm_id *id = list_first_entry_or_null(&dev->ids, struct cm_id, dev_item);

	lockdep_assert_held(&dev->lock);
	if (!id || id->visited == dev->visited)
		return NULL;
	id->visited = dev->visited;
	list_move_tail(&id->dev_item, &dev->ids);
	return id;
}

/**
 * cm_dev_visit_ids - call a function for each id of a device
 * @dev: the device
 * @visit: the function; under dev->lock
 *
 * A process chooses how many ids it has, so the lock is dropped now and then. Ids that are added
 * meanwhile are not visited.
 */
void cm_dev_visit_ids(struct cm_dev *dev, void (*visit)(struct cm_id *id))
{
	struct cm_id *id;
	unsigned int n;

	mutex_lock(&dev->walk);
	spin_lock(&dev->lock);
	dev->visited = !dev->visited;
	for (n = 1; (id = cm_dev_next_id(dev)); n++) {
		visit(id);
		if (n % CM_MAX_IDS_LOCKED)
			continue;
		spin_unlock(&dev->lock);
		cond_resched();
		spin_lock(&dev->lock);
	}
	spin_unlock(&dev->lock);
	mutex_unlock(&dev->walk);
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
	dev = cm_dev_find(id, ndev, &port);
	/* A VLAN without an RDMA device uses the one of its parent interface. */
	if (!dev && is_vlan_dev(ndev))
		dev = cm_dev_find(id, vlan_dev_real_dev(ndev), &port);
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
	if (dev && dev->transport->attach)
		ret = dev->transport->attach(id, ndev);
	dev_put(ndev);
	if (ret)
		cm_dev_detach(id);
	return dev ? ret : -ENODEV;
}

/* @item: of an id or a listener, in the device's list or in none. */
void cm_dev_list_del(struct cm_dev *dev, struct list_head *item)
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
bool cm_dev_is_for(const struct cm_dev *dev, struct cm_id *id)
{
	if (cm_dev_of(id))
		return cm_dev_of(id) == dev;
	return rdma_dev_access_netns(dev->device, cm_net(id)) && cm_dev_takes(dev, id);
}

/* --- the list ------------------------------------------------------------ */

/* Lookups find the device from now on. */
void cm_dev_list(struct cm_dev *dev)
{
	mutex_lock(&cm_devices_mutex);
	dev->seq = ++cm_last_dev;
	list_add_tail_rcu(&dev->item, &cm_devices);
	mutex_unlock(&cm_devices_mutex);
}

/* Readers under RCU may find the device until a grace period has ended. */
void cm_dev_unlist(struct cm_dev *dev)
{
	mutex_lock(&cm_devices_mutex);
	list_del_rcu(&dev->item);
	mutex_unlock(&cm_devices_mutex);
}

/* The next device of a walk, with a reference, or NULL. @at: number of the last one; 0 at first. */
struct cm_dev *cm_next_device(u64 *at)
{
	struct cm_dev *dev, *next = NULL;

	mutex_lock(&cm_devices_mutex);
	list_for_each_entry(dev, &cm_devices, item) {
		if (dev->seq <= *at)
			continue;
		refcount_inc(&dev->users);
		*at = dev->seq;
		next = dev;
		break;
	}
	mutex_unlock(&cm_devices_mutex);
	return next;
}
