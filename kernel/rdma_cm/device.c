// SPDX-License-Identifier: GPL-2.0
/*
 * Devices: which there are, which one an address belongs to, who listens on all of
 * them, and what happens to ids when one goes.
 *
 * Walks that call into a provider must not hold cm_devices_mutex. They remember
 * the sequence number of where they are, and look up the next one each time; both lists
 * are in order of that number. What joins during a walk is either still ahead of
 * it or walks itself.
 */
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>

#include <t3_race_point.h>

#include "rdma_cm.h"

static DEFINE_MUTEX(cm_devices_mutex);
static LIST_HEAD(devices);
static LIST_HEAD(wildcards);	/* ids that listen on all devices */
static u64 last_seq;

/* --- which device -------------------------------------------------------- */

/*
 * Whether a port is the RDMA side of a net device. ib_core knows, from the GID of
 * the port; kernels that do not keep it there (6.1) have the MAC address in that GID.
 */
static bool port_is_on(struct ib_device *device, u32 port, struct net_device *ndev)
{
	const struct ib_gid_attr *attr;
	struct net_device *of_port;
	union ib_gid mac = {};
	bool is;

	attr = rdma_get_gid_attr(device, port, 0);
	if (IS_ERR(attr))
		return false;
	rcu_read_lock();
	of_port = rdma_read_gid_attr_ndev_rcu(attr);
	if (!IS_ERR_OR_NULL(of_port)) {
		is = of_port == ndev;
	} else {
		memcpy(&mac, ndev->dev_addr, min_t(size_t, ndev->addr_len, sizeof(mac)));
		is = !memcmp(&mac, &attr->gid, sizeof(mac));
	}
	rcu_read_unlock();
	rdma_put_gid_attr(attr);
	return is;
}

/* The port that is on a net device; 0 if none is. */
static u32 port_on(struct cm_dev *dev, struct net_device *ndev)
{
	u32 port;

	rdma_for_each_port(dev->device, port)
		if (rdma_cap_iw_cm(dev->device, port) && port_is_on(dev->device, port, ndev))
			return port;
	return 0;
}

/* The device that may be used in the namespace and has a port on a net device; or NULL. */
static struct cm_dev *dev_on(struct net *net, struct net_device *ndev, u32 *port)
{
	struct cm_dev *dev;

	lockdep_assert_held(&cm_devices_mutex);
	list_for_each_entry(dev, &devices, item) {
		if (!rdma_dev_access_netns(dev->device, net))
			continue;
		*port = port_on(dev, ndev);
		if (*port)
			return dev;
	}
	return NULL;
}

void cm_dev_put(struct cm_dev *dev)
{
	if (refcount_dec_and_test(&dev->users))
		complete(&dev->gone);
}

/**
 * cm_dev_hold - give an id a device that the caller keeps alive; in any context
 * @id: the id, not published yet
 * @dev: the device
 *
 * The reference lasts until the id is freed. cm_dev_link() puts the id on the
 * device's list, which takes a mutex.
 */
void cm_dev_hold(struct cm_id *id, struct cm_dev *dev)
{
	refcount_inc(&dev->users);
	id->dev = dev;
	id->mirror.id.device = dev->device;
}

/* A bridge's or link aggregate's address may be on no port of the device: it is the first then. */
static u32 port_for(struct cm_dev *dev, struct net_device *ndev)
{
	u32 port = port_on(dev, ndev);

	if (!port && is_vlan_dev(ndev))
		port = port_on(dev, vlan_dev_real_dev(ndev));
	return port ? port : rdma_start_port(dev->device);
}

/**
 * cm_dev_link - put an id that has its device on that device's list
 * @id: the id, after cm_dev_hold(); its dev_addr knows the net device
 *
 * From here on the id gets the device's removal as an event.
 *
 * Return: 0, or -ENODEV if the removal has begun already.
 */
int cm_dev_link(struct cm_id *id)
{
	struct rdma_dev_addr *dev_addr = &id->mirror.id.route.addr.dev_addr;
	struct net_device *ndev;
	bool present;

	ndev = dev_get_by_index(dev_addr->net, dev_addr->bound_dev_if);
	if (!ndev)
		return -ENODEV;
	mutex_lock(&cm_devices_mutex);
	present = !list_empty(&id->dev->item);
	if (present) {
		id->mirror.id.port_num = port_for(id->dev, ndev);
		list_add_tail(&id->of_dev, &id->dev->ids);
	}
	mutex_unlock(&cm_devices_mutex);
	dev_put(ndev);
	return present ? 0 : -ENODEV;
}

/**
 * cm_dev_attach - give an id the device that its source address belongs to
 * @id: the id; its dev_addr knows the net device
 *
 * Return: 0, or -ENODEV.
 */
int cm_dev_attach(struct cm_id *id)
{
	struct rdma_dev_addr *dev_addr = &id->mirror.id.route.addr.dev_addr;
	struct net_device *ndev;
	struct cm_dev *dev;
	u32 port;

	ndev = dev_get_by_index(dev_addr->net, dev_addr->bound_dev_if);
	if (!ndev)
		return -ENODEV;
	T3_RACE_POINT(cm_attach_ndev_found);
	mutex_lock(&cm_devices_mutex);
	dev = dev_on(dev_addr->net, ndev, &port);
	/* A VLAN that has no device of its own uses that of the interface below (C20). */
	if (!dev && is_vlan_dev(ndev))
		dev = dev_on(dev_addr->net, vlan_dev_real_dev(ndev), &port);
	if (dev) {
		cm_dev_hold(id, dev);
		id->mirror.id.port_num = port;
		list_add_tail(&id->of_dev, &dev->ids);
	}
	mutex_unlock(&cm_devices_mutex);
	T3_RACE_POINT(cm_attached);
	dev_put(ndev);
	return dev ? 0 : -ENODEV;
}

/* Off the device's list; the reference stays with the id until it is freed. */
void cm_dev_detach(struct cm_id *id)
{
	mutex_lock(&cm_devices_mutex);
	list_del_init(&id->of_dev);
	mutex_unlock(&cm_devices_mutex);
}

/* The whole of cm_dev_attach() undone. */
void cm_dev_release(struct cm_id *id)
{
	struct cm_dev *dev = id->dev;

	if (!dev)
		return;
	cm_dev_detach(id);
	/* debugfs looks at it. */
	spin_lock_irq(&id->lock);
	id->dev = NULL;
	spin_unlock_irq(&id->lock);
	id->mirror.id.device = NULL;
	id->mirror.id.port_num = 0;
	cm_dev_put(dev);
}

/* --- who listens --------------------------------------------------------- */

/* False if the device is going: nothing would take the listener off again. */
bool cm_dev_link_listener(struct cm_listener *l)
{
	bool linked;

	mutex_lock(&cm_devices_mutex);
	linked = !list_empty(&l->dev->item);
	if (linked) {
		refcount_inc(&l->dev->users);
		list_add_tail(&l->of_dev, &l->dev->listeners);
	}
	mutex_unlock(&cm_devices_mutex);
	return linked;
}

void cm_dev_unlink_listener(struct cm_listener *l)
{
	mutex_lock(&cm_devices_mutex);
	list_del_init(&l->of_dev);
	mutex_unlock(&cm_devices_mutex);
}

static struct cm_dev *next_device(u64 after)
{
	struct cm_dev *dev;

	lockdep_assert_held(&cm_devices_mutex);
	list_for_each_entry(dev, &devices, item) {
		if (dev->seq <= after)
			continue;
		refcount_inc(&dev->users);
		return dev;
	}
	return NULL;
}

static struct cm_id *next_wildcard(u64 after)
{
	struct cm_id *id;

	lockdep_assert_held(&cm_devices_mutex);
	list_for_each_entry(id, &wildcards, wildcard) {
		if (id->wildcard_seq <= after)
			continue;
		cm_id_get(id);
		return id;
	}
	return NULL;
}

/*
 * Logs that a device does not take a wildcard listener. A program can repeat its listen, so the
 * rate is limited; and what a device without IPv6 does is logged once.
 */
static void listen_failed(struct cm_dev *dev, struct cm_id *id, int error)
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

/**
 * cm_listen_on_all - listen on all devices, and on those that will come
 * @id: the id
 *
 * Each device that refuses is logged. What the refusal means for the call:
 *
 *  - EADDRINUSE fails it, as a part of the peers would reach another listener;
 *  - EAFNOSUPPORT is as if the device was not there: the address is IPv6 only, the device IPv4;
 *  - any other error fails it if no device listens.
 *
 * A device that is added later and refuses is logged, too, and is not tried again: the listener
 * stays on the other devices. A new listen tries all devices.
 *
 * Return: 0 if a device listens, or if there is no device for it yet; else an error, and the id
 * is to listen on none.
 */
int cm_listen_on_all(struct cm_id *id)
{
	struct cm_dev *dev;
	bool any = false, in_use = false, access;
	int first = 0, ret;
	u64 at = 0;

	mutex_lock(&cm_devices_mutex);
	id->wildcard_seq = ++last_seq;
	list_add_tail(&id->wildcard, &wildcards);
	while ((dev = next_device(at))) {
		at = dev->seq;
		mutex_unlock(&cm_devices_mutex);
		T3_RACE_POINT(cm_listen_next_device);
		access = rdma_dev_access_netns(dev->device, cm_net(id));
		ret = access ? cm_iw_listen(id, dev) : 0;
		mutex_lock(&cm_devices_mutex);
		/* One of another namespace, or that is being removed, is not there. */
		if (access && !list_empty(&dev->item)) {
			any |= !ret;
			in_use |= ret == -EADDRINUSE;
			if (ret)
				listen_failed(dev, id, ret);
			if (ret && ret != -EAFNOSUPPORT && !first)
				first = ret;
		}
		cm_dev_put(dev);
	}
	mutex_unlock(&cm_devices_mutex);
	if (in_use)
		return -EADDRINUSE;
	return any ? 0 : first;
}

void cm_listen_no_more(struct cm_id *id)
{
	mutex_lock(&cm_devices_mutex);
	list_del_init(&id->wildcard);
	mutex_unlock(&cm_devices_mutex);
}

/* --- devices come and go ------------------------------------------------- */

static struct ib_client cm_client;

static int cm_add_one(struct ib_device *device)
{
	struct cm_dev *dev;
	struct cm_id *id;
	u64 at = 0;
	int ret;

	if (!cm_iw_able(device))
		return -EOPNOTSUPP;
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	dev->device = device;
	refcount_set(&dev->users, 1);
	init_completion(&dev->gone);
	INIT_LIST_HEAD(&dev->ids);
	INIT_LIST_HEAD(&dev->listeners);
	ib_set_client_data(device, &cm_client, dev);
	T3_RACE_POINT(cm_add_made);

	mutex_lock(&cm_devices_mutex);
	dev->seq = ++last_seq;
	list_add_tail(&dev->item, &devices);
	while ((id = next_wildcard(at))) {
		at = id->wildcard_seq;
		mutex_unlock(&cm_devices_mutex);
		T3_RACE_POINT(cm_add_next_listener);
		ret = 0;
		if (rdma_dev_access_netns(device, cm_net(id)))
			ret = cm_iw_listen(id, dev);
		mutex_lock(&cm_devices_mutex);
		if (ret && cm_state(id) == CM_LISTENING)
			listen_failed(dev, id, ret);
		cm_id_put(id);
	}
	mutex_unlock(&cm_devices_mutex);
	return 0;
}

/*
 * Ids that are on the device are told, and told to let go; their consumers must
 * destroy them. Ids that listen on all devices lose one ear. Returns when nobody
 * uses the device any more.
 */
static void cm_remove_one(struct ib_device *device, void *data)
{
	struct cm_dev *dev = data;
	struct cm_listener *l;
	struct cm_id *id;

	T3_RACE_POINT(cm_remove_begins);
	mutex_lock(&cm_devices_mutex);
	list_del_init(&dev->item);
	list_for_each_entry(id, &dev->ids, of_dev)
		cm_post(id, id, CM_SLOT_REMOVE, CM_EV_REMOVE, 0, NULL, CM_BY_WORKER);
	while ((l = list_first_entry_or_null(&dev->listeners, struct cm_listener, of_dev))) {
		id = l->id;
		cm_id_get(id);
		list_del_init(&l->of_dev);
		mutex_unlock(&cm_devices_mutex);
		T3_RACE_POINT(cm_remove_listener);
		cm_iw_unlisten(id, dev);
		cm_id_put(id);
		mutex_lock(&cm_devices_mutex);
	}
	mutex_unlock(&cm_devices_mutex);
	T3_RACE_POINT(cm_remove_unlinked);
	cm_dev_put(dev);
	wait_for_completion(&dev->gone);
	T3_RACE_POINT(cm_remove_waited);
	kfree(dev);
}

/*
 * The name is what librdmacm asks ib_core for: who answers to it first is the
 * connection manager of this machine.
 */
static struct ib_client cm_client = {
	.name = "rdma_cm",
	.add = cm_add_one,
	.remove = cm_remove_one,
	.get_global_nl_info = cm_ucm_nl_info,
};
MODULE_ALIAS_RDMA_CLIENT("rdma_cm");

int cm_devices_init(void)
{
	return ib_register_client(&cm_client);
}

void cm_devices_exit(void)
{
	ib_unregister_client(&cm_client);
}
