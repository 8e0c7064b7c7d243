// SPDX-License-Identifier: GPL-2.0
/*
 * Where an id listens: on which addresses of a device, and on which devices. What is due changes
 * with these, and with the addresses of interfaces.
 *
 * An update visits all ids that listen, and drops the lock for each. It moves the id that it visits
 * to the end of their list, with the number of the update, and ends when the first id has this
 * number, or a higher one.
 */
#include <linux/slab.h>

#include "rdma_cm.h"

static struct list_head cm_listening_ids __guarded_by(&cm_devices_mutex) =
	LIST_HEAD_INIT(cm_listening_ids);
static u64 cm_last_update __guarded_by(&cm_devices_mutex);

/*
 * How many addresses of a device may refuse an id before the others are left for the next update,
 * which begins with them. To find that one is refused can take a walk of all net devices.
 */
#define CM_MAX_REFUSALS	16

static void cm_update_listeners(void);

static struct cm_update cm_listeners_update = {
	__DELAYED_WORK_INITIALIZER(cm_listeners_update.work, cm_update_work, 0),
	cm_update_listeners,
};

void cm_queue_listen_update(void)
{
	cm_update_queue(&cm_listeners_update);
}

/* None runs any more when this returns, if none is queued meanwhile. */
void cm_cancel_listen_update(void)
{
	cancel_delayed_work_sync(&cm_listeners_update.work);
}

/* --- one device ---------------------------------------------------------- */

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
 * A process whose cgroup is above its limit sleeps for seconds at each address. The removal of a
 * device waits for the mutex, so it gets it between two addresses. False if the addresses are not
 * those to listen on any more.
 */
static bool cm_listen_yield(struct cm_id *id, unsigned int change)
	__must_hold(&id->listen_mutex)
{
	lockdep_assert_held(&id->listen_mutex);
	mutex_unlock(&id->listen_mutex);
	cond_resched();
	mutex_lock(&id->listen_mutex);
	return id->listen_change == change;
}

/* A device without IPv6 is asked once. */
static int cm_listen_at_all(struct cm_id *id, struct cm_dev *dev, struct cm_addrs *addrs)
	__must_hold(&id->listen_mutex)
{
	unsigned int i, refused = 0, change = ++id->listen_change;
	bool listens = false, no_ipv6 = false;
	const struct sockaddr_in6 *addr;
	int ret = 0, error = 0;

	lockdep_assert_held(&id->listen_mutex);
	for (i = 0; i < addrs->n && error != -ENOMEM && refused < CM_MAX_REFUSALS; i++) {
		if (i && !cm_listen_yield(id, change)) {
			cm_queue_listen_update();
			break;
		}
		addr = &addrs->at[(id->listen_from + i) % addrs->n];
		if (no_ipv6 && addr->sin6_family == AF_INET6)
			continue;
		error = cm_listen_at_due(id, dev, addr, addrs);
		no_ipv6 |= error == -EAFNOSUPPORT && addr->sin6_family == AF_INET6;
		listens |= !error;
		refused += error && error != -EAFNOSUPPORT;
		if (error && (!ret || ret == -EAFNOSUPPORT))
			ret = error;
	}
	id->listen_from = i < addrs->n ? (id->listen_from + i) % addrs->n : 0;
	return ret == -EAFNOSUPPORT && listens ? 0 : ret;
}

/**
 * cm_listen_locked - listen on a device, on those of its addresses that are due
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
static int cm_listen_locked(struct cm_id *id, struct cm_dev *dev)
	__must_hold(&id->listen_mutex)
{
	struct cm_addrs *addrs;
	int ret;

	lockdep_assert_held(&id->listen_mutex);
	if (cm_state(id) != CM_ST_LISTENING)
		return -EINVAL;
	addrs = cm_listen_addrs(id, dev);
	if (!addrs)
		return -ENOMEM;
	cm_unlisten_undue(id, dev, addrs);
	ret = cm_listen_at_all(id, dev, addrs);
	if (!addrs->n && cm_dev_of(id))
		ret = -EADDRNOTAVAIL;
	kvfree(addrs);
	return ret;
}

static int cm_listen(struct cm_id *id, struct cm_dev *dev)
{
	int ret;

	mutex_lock(&id->listen_mutex);
	ret = cm_listen_locked(id, dev);
	mutex_unlock(&id->listen_mutex);
	return ret;
}

/*
 * For many ids: one whose owner sleeps while it listens does not hold up those of others. It is
 * tried again in the next update. The owner listens first, since a provider may refuse a worker,
 * and a second time after an update.
 */
static int cm_listen_unless_busy(struct cm_id *id, struct cm_dev *dev)
{
	int ret;

	if (!READ_ONCE(id->listen_begun) || cm_state(id) != CM_ST_LISTENING)
		return 0;
	if (!mutex_trylock(&id->listen_mutex)) {
		cm_queue_listen_update();
		return 0;
	}
	ret = cm_listen_locked(id, dev);
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

/* --- all devices --------------------------------------------------------- */

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

/* Return: 0, also if the device does not count: of another kind or namespace, or removed. */
static int cm_listen_on_device(struct cm_id *id, struct cm_dev *dev,
			       int (*listen)(struct cm_id *id, struct cm_dev *dev))
{
	int ret = 0;

	if (cm_dev_is_for(dev, id))
		ret = listen(id, dev);
	mutex_lock(&cm_devices_mutex);
	if (cm_dev_removed(dev) || cm_state(id) != CM_ST_LISTENING)
		ret = 0;
	if (ret)
		cm_dev_warn_listen(dev, id, ret);
	mutex_unlock(&cm_devices_mutex);
	return ret;
}

/* Return: 0, or the first error of a device that counts. */
static int cm_listen_on_devices(struct cm_id *id,
				int (*listen)(struct cm_id *id, struct cm_dev *dev))
{
	struct cm_dev *dev;
	bool in_use = false;
	int first = 0, ret;
	u64 at = 0;

	while ((dev = cm_next_device(&at))) {
		ret = cm_listen_on_device(id, dev, listen);
		in_use |= ret == -EADDRINUSE;
		if (ret != -EAFNOSUPPORT && !first)
			first = ret;
		cm_dev_put(dev);
	}
	return in_use ? -EADDRINUSE : first;
}

static int cm_listen_everywhere(struct cm_id *id)
{
	return cm_dev_of(id) ? cm_listen(id, cm_dev_of(id)) : cm_listen_on_devices(id, cm_listen);
}

/* From now on updates listen for the id. Return: whether one has left it out. */
static bool cm_listen_end_begin(struct cm_id *id, u64 update)
{
	bool left_out;

	mutex_lock(&cm_devices_mutex);
	left_out = id->listen_update != update;
	WRITE_ONCE(id->listen_begun, true);
	mutex_unlock(&cm_devices_mutex);
	return left_out;
}

/**
 * cm_listen_start - listen on the id's device; with a wildcard address on all devices, and on
 *	devices and addresses that are added later
 * @id: the id, which has a user
 *
 * Each device that refuses a wildcard is logged, and its error fails the call: the program would
 * not be reached by some of its peers. But EAFNOSUPPORT counts as if the device was absent: the
 * listener is for IPv6 only, and the device has IPv4 only. If several refuse, EADDRINUSE takes
 * precedence.
 *
 * A device or an address that is added later and refuses is logged, too. The listener stays on the
 * others. A new listen, and a change of any address, tries all again.
 *
 * Return: 0, also if there is no device for a wildcard yet; -ENOMEM also if the user has too many
 * ids that listen. On an error the caller must take the id off the devices that listen.
 */
int cm_listen_start(struct cm_id *id)
{
	u64 update;
	int ret;

	if (!cm_user_take(id->user, CM_SHARE_LISTENERS))
		return -ENOMEM;
	WRITE_ONCE(id->listen_begun, false);
	mutex_lock(&cm_devices_mutex);
	update = cm_last_update;
	id->listen_update = update;
	list_add_tail(&id->listening, &cm_listening_ids);
	mutex_unlock(&cm_devices_mutex);
	ret = cm_listen_everywhere(id);
	if (cm_listen_end_begin(id, update) && !ret)
		ret = cm_listen_everywhere(id);
	return ret;
}

/* Devices and addresses that are added from now on are not for this id. */
void cm_listen_stop(struct cm_id *id)
{
	mutex_lock(&cm_devices_mutex);
	if (!list_empty(&id->listening)) {
		list_del_init(&id->listening);
		cm_user_give(id->user, CM_SHARE_LISTENERS);
	}
	mutex_unlock(&cm_devices_mutex);
}

static u64 cm_begin_update(void)
{
	u64 update;

	mutex_lock(&cm_devices_mutex);
	update = ++cm_last_update;
	mutex_unlock(&cm_devices_mutex);
	return update;
}

/* The next id for an update, with a reference; or NULL. */
static struct cm_id *cm_next_listening(u64 update)
{
	struct cm_id *id;

	mutex_lock(&cm_devices_mutex);
	id = list_first_entry_or_null(&cm_listening_ids, struct cm_id, listening);
	if (id && id->listen_update < update) {
		id->listen_update = update;
		list_move_tail(&id->listening, &cm_listening_ids);
		cm_id_get(id);
	} else {
		id = NULL;
	}
	mutex_unlock(&cm_devices_mutex);
	return id;
}

/* @added: only on this device; NULL: on all. */
static void cm_visit_listening(struct cm_dev *added)
{
	u64 update = cm_begin_update();
	struct cm_id *id;

	while ((id = cm_next_listening(update))) {
		if (added)
			cm_listen_on_device(id, added, cm_listen_unless_busy);
		else
			cm_listen_on_devices(id, cm_listen_unless_busy);
		cm_id_put(id);
		cond_resched();
	}
}

/* Addresses have come or gone, or net devices have moved. */
static void cm_update_listeners(void)
{
	cm_visit_listening(NULL);
}

/**
 * cm_listen_on_added - make the ids that listen on all devices listen on one that is added
 * @dev: the device, which cm_dev_list() has added
 *
 * It does not wait for other devices. An id that another update visits meanwhile is not visited
 * here, or not there. So an update of all follows.
 */
void cm_listen_on_added(struct cm_dev *dev)
{
	cm_visit_listening(dev);
	cm_queue_listen_update();
}
