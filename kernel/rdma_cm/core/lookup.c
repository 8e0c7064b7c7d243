// SPDX-License-Identifier: GPL-2.0
/* Lookups of addresses for which ib_core waits. */
#include <linux/semaphore.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include <t3_cred.h>

#include "rdma_cm.h"

/*
 * ib_core has one list of the lookups of all users. Whenever a neighbour changes it walks this list
 * with softirqs off, and queues all of them. So a user has a limited number there. A program that
 * resolves many addresses at once waits for the end of its others. It has a command then, which the
 * removal of a device waits for, and chose the time limits of the others: so it does not wait long.
 */
#define CM_MAX_LOOKUPS		256
#define CM_LOOKUP_WAIT		HZ

/**
 * struct cm_lookups - the lookups of a user
 * @user: the index in cm_lookups_of
 * @refs: lookups, and calls that wait; under the lock of cm_lookups_of
 * @left: how many more may begin
 */
struct cm_lookups {
	unsigned long user;
	unsigned int refs;
	struct semaphore left;
};

static DEFINE_XARRAY(cm_lookups_of);

/*
 * All ids of a container are one user. One without a user namespace has the ids of the host, so it
 * is known by its network namespace. It may make user namespaces, where root is then that of the
 * host: these have another bit.
 */
static unsigned long cm_lookup_user(struct net *net)
{
	unsigned long user = __kuid_val(t3_cred_user(current_cred()));

	if (!net_eq(net, &init_net) && net->user_ns == &init_user_ns)
		return (unsigned long)net;
	return current_user_ns() == &init_user_ns ? user : user | BIT_ULL(32);
}

/* Those of the current user, with a reference; NULL without memory. */
static struct cm_lookups *cm_lookups_get(struct net *net)
{
	struct cm_lookups *lookups, *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);

	if (!new)
		return NULL;
	new->user = cm_lookup_user(net);
	sema_init(&new->left, CM_MAX_LOOKUPS);
	xa_lock(&cm_lookups_of);
	lookups = __xa_cmpxchg(&cm_lookups_of, new->user, NULL, new, GFP_KERNEL);
	if (!lookups)
		swap(lookups, new);
	else if (xa_is_err(lookups))
		lookups = NULL;
	if (lookups)
		lookups->refs++;
	xa_unlock(&cm_lookups_of);
	kfree(new);
	return lookups;
}

static void cm_lookups_put(struct cm_lookups *lookups)
{
	bool last;

	xa_lock(&cm_lookups_of);
	last = !--lookups->refs;
	if (last)
		__xa_erase(&cm_lookups_of, lookups->user);
	xa_unlock(&cm_lookups_of);
	if (last)
		kfree(lookups);
}

/**
 * cm_lookup_begin - before a lookup that waits
 * @id: the id
 *
 * Return: 0; -ENOMEM; or -ENOBUFS if none of the others has ended.
 */
int cm_lookup_begin(struct cm_id *id)
{
	struct cm_lookups *lookups = cm_lookups_get(cm_net(id));

	if (!lookups)
		return -ENOMEM;
	if (down_timeout(&lookups->left, CM_LOOKUP_WAIT)) {
		cm_lookups_put(lookups);
		return -ENOBUFS;
	}
	WRITE_ONCE(id->lookups, lookups);
	return 0;
}

/* The callback and the cancel of a lookup call this, in any order; the first one ends it. */
void cm_lookup_end(struct cm_id *id)
{
	struct cm_lookups *lookups = xchg(&id->lookups, NULL);

	if (!lookups)
		return;
	up(&lookups->left);
	cm_lookups_put(lookups);
}

/*
 * Afterwards a lookup does not call back, and its callback has returned: at the end of an id the
 * module can be unloaded.
 */
void cm_addr_cancel(struct cm_id *id)
{
	if (!id->addr_used)
		return;
	rdma_addr_cancel(&id->base.id.route.addr.dev_addr);
	cm_lookup_end(id);
}
