// SPDX-License-Identifier: GPL-2.0
/*
 * A listener: an id that listens, on one device and address. What the device does is in its
 * transport.
 */
#include <linux/cred.h>
#include <linux/slab.h>

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

int cm_listen_at(struct cm_id *id, struct cm_dev *dev, const struct sockaddr_in6 *addr)
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
	if (ret) {
		cm_dev_unlink_listener(l);
		cm_listener_put(l);
	} else {
		list_add_tail(&l->id_item, &id->listeners);
		cm_listener_res_add(l);
	}
	return ret;
}

void cm_unlisten_at(struct cm_listener *l)
{
	lockdep_assert_held(&l->id->listen_mutex);
	l->dev->transport->unlisten(l);
	list_del(&l->id_item);
	cm_listener_res_del(l);
	cm_dev_unlink_listener(l);
	cm_listener_put(l);
}
