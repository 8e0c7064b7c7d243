// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners: an id that listens, on one device and address each. What the device does is in its
 * transport.
 */
#include <linux/cred.h>
#include <linux/slab.h>

#include <t3_race_point.h>

#include "rdma_cm.h"

static void cm_listener_free(struct kref *ref)
{
	struct cm_listener *l = container_of(ref, struct cm_listener, ref);
	struct cm_dev *dev = l->dev;

	cm_id_put(l->id);
	kfree(l->iw);
	kfree(l->res);
	kfree(l);
	/* Last, as in cm_id_free(). */
	cm_dev_put(dev);
}

void cm_listener_get(struct cm_listener *l)
{
	kref_get(&l->ref);
}

void cm_listener_put(struct cm_listener *l)
{
	kref_put(&l->ref, cm_listener_free);
}

/* `rdma resource` lists an id that listens on all devices once for each device and address. */
static void cm_listener_res_add(struct cm_listener *l)
{
	struct rdma_cm_id *entry, *id = &l->id->base.id;

	lockdep_assert_held(&l->id->listen_mutex);
	if (!l->res)
		return;
	entry = &l->res->id;
	entry->device = l->dev->device;
	entry->ps = id->ps;
	entry->qp_type = id->qp_type;
	cm_addr_copy((struct sockaddr *)&entry->route.addr.src_addr, (struct sockaddr *)&l->addr);
	l->res->state = cm_res_state(CM_ST_LISTENING);
	cm_res_init(l->res, NULL, &l->id->base);
	cm_res_add(l->res);
}

static void cm_listener_res_del(struct cm_listener *l)
{
	lockdep_assert_held(&l->id->listen_mutex);
	if (l->res)
		cm_res_del(l->res);
}

static struct cm_listener *cm_listener_alloc(struct cm_id *id, struct cm_dev *dev,
					     const struct sockaddr_in6 *addr)
{
	struct cm_listener *l = cm_zalloc_nowait(id->memcg, sizeof(*l));

	if (!l)
		return NULL;
	kref_init(&l->ref);
	l->id = id;
	l->dev = dev;
	l->addr = *addr;
	if (cm_dev_of(id))
		return l;
	l->res = cm_zalloc_nowait(id->memcg, sizeof(*l->res));
	if (!l->res) {
		kfree(l);
		return NULL;
	}
	return l;
}

/*
 * Calls a function that makes the provider listen. For a device that is added later, and for a
 * mapped port, this runs in a kworker. The listener is in the provider's quota of the user who
 * called listen in each case. The cgroup of that user is charged for the provider's memory in its
 * own call only: the provider's allocations may sleep.
 */
int cm_listener_call(struct cm_listener *l, int (*listen)(struct cm_listener *l))
{
	const struct cred *cred;
	int ret;

	cred = override_creds(l->id->listen_cred);
	ret = listen(l);
	revert_creds(cred);
	return ret;
}

static int cm_listen_at(struct cm_id *id, struct cm_dev *dev, const struct sockaddr_in6 *addr)
	__must_hold(&id->listen_mutex)
{
	struct cm_listener *l;
	int ret;

	lockdep_assert_held(&id->listen_mutex);
	l = cm_listener_alloc(id, dev, addr);
	if (!l)
		return -ENOMEM;
	if (!cm_dev_link_listener(l)) {
		kfree(l->res);
		kfree(l);
		return -ENODEV;
	}
	cm_id_get(id);
	ret = cm_listener_call(l, dev->transport->listen);
	T3_RACE_POINT(cm_listener_listens);
	if (ret) {
		cm_dev_unlink_listener(l);
		cm_listener_put(l);
	} else {
		list_add_tail(&l->id_item, &id->listeners);
		cm_listener_res_add(l);
	}
	return ret;
}

static void cm_unlisten_at(struct cm_listener *l)
{
	lockdep_assert_held(&l->id->listen_mutex);
	T3_RACE_POINT(cm_unlisten_provider);
	l->dev->transport->unlisten(l);
	T3_RACE_POINT(cm_unlistened);
	list_del(&l->id_item);
	cm_listener_res_del(l);
	cm_dev_unlink_listener(l);
	cm_listener_put(l);
}

/* Those on which the id is to listen, or NULL without memory. The caller frees them. */
static struct cm_addrs *cm_listen_addrs(struct cm_id *id, struct cm_dev *dev)
{
	struct cm_addrs *addrs = kvzalloc(sizeof(*addrs), GFP_KERNEL);

	if (!addrs)
		return NULL;
	addrs->visits = CM_MAX_VISITS;
	if (dev->transport->listen_addrs) {
		dev->transport->listen_addrs(id, dev->device, addrs);
	} else {
		addrs->n = 1;
		cm_addr_copy((struct sockaddr *)&addrs->at[0], cm_src(id));
	}
	return addrs;
}

static enum cm_addr_use cm_addr_use(struct cm_id *id, struct cm_dev *dev,
				    const struct sockaddr_in6 *addr, struct cm_addrs *addrs)
{
	if (!dev->transport->addr_use)
		return CM_ADDR_FREE;
	return dev->transport->addr_use(id, dev->device, addr, &addrs->visits);
}

static bool cm_listens_at(struct cm_id *id, const struct cm_dev *dev,
			  const struct sockaddr_in6 *addr)
	__must_hold(&id->listen_mutex)
{
	struct cm_listener *l;

	lockdep_assert_held(&id->listen_mutex);
	list_for_each_entry(l, &id->listeners, id_item)
		if (l->dev == dev && cm_addr_same((const struct sockaddr *)&l->addr,
						  (const struct sockaddr *)addr))
			return true;
	return false;
}

/* The id is still to listen where it does. */
static bool cm_listener_is_due(struct cm_listener *l, struct cm_addrs *addrs)
{
	unsigned int i;

	for (i = 0; i < addrs->n; i++)
		if (cm_addr_same((struct sockaddr *)&l->addr, (struct sockaddr *)&addrs->at[i]))
			return cm_addr_use(l->id, l->dev, &l->addr, addrs) != CM_ADDR_TAKEN;
	return false;
}

/*
 * Before it listens on others: a provider may refuse an address beside a wildcard. Another id may
 * have been refused because of a listener that ends here, so all are to try again.
 */
static void cm_unlisten_undue(struct cm_id *id, struct cm_dev *dev, struct cm_addrs *addrs)
	__must_hold(&id->listen_mutex)
{
	struct cm_listener *l, *next;

	lockdep_assert_held(&id->listen_mutex);
	list_for_each_entry_safe(l, next, &id->listeners, id_item)
		if (l->dev == dev && !cm_listener_is_due(l, addrs)) {
			cm_unlisten_at(l);
			cm_queue_listen_update();
		}
}

static int cm_listen_at_due(struct cm_id *id, struct cm_dev *dev, const struct sockaddr_in6 *addr,
			    struct cm_addrs *addrs)
	__must_hold(&id->listen_mutex)
{
	lockdep_assert_held(&id->listen_mutex);
	if (cm_listens_at(id, dev, addr))
		return 0;
	if (cm_addr_use(id, dev, addr, addrs) != CM_ADDR_FREE)
		return -EADDRINUSE;
	return cm_listen_at(id, dev, addr);
}

/*
 * A process whose cgroup is above its limit sleeps for seconds at each address. The updates of all
 * ids and the removal of devices wait for the mutex, so they get it between two addresses. False if
 * the addresses are not those to listen on any more.
 */
static bool cm_listen_yield(struct cm_id *id, unsigned int change)
	__must_hold(&id->listen_mutex)
{
	lockdep_assert_held(&id->listen_mutex);
	mutex_unlock(&id->listen_mutex);
	cond_resched();
	T3_RACE_POINT(cm_listen_yields);
	mutex_lock(&id->listen_mutex);
	return id->listen_change == change;
}

/* A device without IPv6 is asked once. */
static int cm_listen_at_all(struct cm_id *id, struct cm_dev *dev, struct cm_addrs *addrs)
	__must_hold(&id->listen_mutex)
{
	bool listens = false, no_ipv6 = false;
	const struct sockaddr_in6 *addr;
	unsigned int i, change = ++id->listen_change;
	int ret = 0, error = 0;

	lockdep_assert_held(&id->listen_mutex);
	for (i = 0; i < addrs->n && error != -ENOMEM; i++) {
		if (i && !cm_listen_yield(id, change)) {
			cm_queue_listen_update();
			break;
		}
		addr = &addrs->at[i];
		if (no_ipv6 && addr->sin6_family == AF_INET6)
			continue;
		error = cm_listen_at_due(id, dev, addr, addrs);
		no_ipv6 |= error == -EAFNOSUPPORT && addr->sin6_family == AF_INET6;
		listens |= !error;
		if (error && (!ret || ret == -EAFNOSUPPORT))
			ret = error;
	}
	return ret == -EAFNOSUPPORT && listens ? 0 : ret;
}

/**
 * cm_listen - listen on a device, on those of its addresses that are due
 * @id: the id
 * @dev: the device
 *
 * Ends the listeners on its other addresses.
 *
 * Return: 0, also if the id listens there already, or if a wildcard has no address there; -EINVAL
 * if its state is not LISTENING any more; -EADDRNOTAVAIL if its address is no more in its
 * namespace; -ENOMEM; or the first error of the provider. That one address of several is of a
 * family that the provider lacks is no error.
 */
int cm_listen(struct cm_id *id, struct cm_dev *dev)
{
	struct cm_addrs *addrs;
	int ret = -EINVAL;

	mutex_lock(&id->listen_mutex);
	if (cm_state(id) != CM_ST_LISTENING)
		goto out;
	ret = -ENOMEM;
	addrs = cm_listen_addrs(id, dev);
	if (!addrs)
		goto out;
	cm_unlisten_undue(id, dev, addrs);
	ret = cm_listen_at_all(id, dev, addrs);
	if (!addrs->n && cm_dev_of(id))
		ret = -EADDRNOTAVAIL;
	kvfree(addrs);
out:
	mutex_unlock(&id->listen_mutex);
	return ret;
}

/**
 * cm_unlisten - end the listeners of an id
 * @id: the id
 * @dev: only the listeners on this device; NULL: all
 */
void cm_unlisten(struct cm_id *id, struct cm_dev *dev)
{
	struct cm_listener *l, *next;

	mutex_lock(&id->listen_mutex);
	id->listen_change++;
	list_for_each_entry_safe(l, next, &id->listeners, id_item)
		if (!dev || l->dev == dev)
			cm_unlisten_at(l);
	mutex_unlock(&id->listen_mutex);
}
