// SPDX-License-Identifier: GPL-2.0
/* What each user may have of what all share: lookups of addresses, requests, listeners, groups. */
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

/*
 * A request is allocated where nothing can wait, so its charge exceeds the limit of a cgroup, and
 * what a provider has of it is not charged: up to 9 KB together. A process could read requests, or
 * reject them, and keep their ids.
 */
#define CM_MAX_REQUESTS		32768

/* One work item visits the listening ids of all users whenever an address changes. */
#define CM_MAX_LISTENERS	1024

/* The groups of all users are in one list of their interface. */
#define CM_MAX_USER_GROUPS	4096

static const int cm_shares[CM_NUM_SHARES] = {
	[CM_SHARE_REQUESTS] = CM_MAX_REQUESTS,
	[CM_SHARE_LISTENERS] = CM_MAX_LISTENERS,
	[CM_SHARE_GROUPS] = CM_MAX_USER_GROUPS,
};

/**
 * struct cm_user - a user
 * @number: the index in cm_users
 * @ref: its ids
 * @lookups: how many more may begin
 * @left: how many more of each share it may have
 */
struct cm_user {
	unsigned long number;
	refcount_t ref;
	struct semaphore lookups;
	atomic_t left[CM_NUM_SHARES];
};

static DEFINE_XARRAY_FLAGS(cm_users, XA_FLAGS_LOCK_IRQ);

/**
 * cm_user_number - the user of some credentials, to compare with others
 * @cred: the credentials
 * @net: the network namespace of the id that the user has
 *
 * All ids of a container are one user. One without a user namespace has the ids of the host, so it
 * is known by its network namespace. It may make user namespaces that count as the root of the
 * host: these have another bit.
 */
unsigned long cm_user_number(const struct cred *cred, const struct net *net)
{
	kuid_t user = t3_cred_user(cred);

	if (!net_eq(net, &init_net) && net->user_ns == &init_user_ns)
		return (unsigned long)net;
	if (cred->user_ns != &init_user_ns && uid_eq(user, GLOBAL_ROOT_UID))
		return BIT_ULL(32);
	return __kuid_val(user);
}

/* The current user, for an id in @net, with a reference; NULL without memory. */
static struct cm_user *cm_user_get(const struct net *net)
{
	struct cm_user *user, *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	int i;

	if (!new)
		return NULL;
	new->number = cm_user_number(current_cred(), net);
	refcount_set(&new->ref, 1);
	sema_init(&new->lookups, CM_MAX_LOOKUPS);
	for (i = 0; i < CM_NUM_SHARES; i++)
		atomic_set(&new->left[i], cm_shares[i]);
	xa_lock_irq(&cm_users);
	user = __xa_cmpxchg(&cm_users, new->number, NULL, new, GFP_KERNEL);
	if (!user)
		swap(user, new);
	else if (xa_is_err(user))
		user = NULL;
	else
		refcount_inc(&user->ref);
	xa_unlock_irq(&cm_users);
	kfree(new);
	return user;
}

/* Any context. */
static void cm_user_put(struct cm_user *user)
{
	unsigned long flags;

	if (!user)
		return;
	xa_lock_irqsave(&cm_users, flags);
	if (refcount_dec_and_test(&user->ref))
		__xa_erase(&cm_users, user->number);
	else
		user = NULL;
	xa_unlock_irqrestore(&cm_users, flags);
	kfree(user);
}

/**
 * cm_user_set - the id gets the current user, before it takes anything of it
 * @id: the id; cm_user_release() puts the reference
 *
 * Return: 0 or -ENOMEM.
 */
int cm_user_set(struct cm_id *id)
{
	if (!id->user)
		id->user = cm_user_get(cm_net(id));
	return id->user ? 0 : -ENOMEM;
}

/**
 * cm_user_take - take one of what a user has a limited number of
 * @user: the user
 * @share: of what; cm_user_give() gives it back
 *
 * Any context. Return: false if the user has no more.
 */
bool cm_user_take(struct cm_user *user, enum cm_share share)
{
	return atomic_dec_if_positive(&user->left[share]) >= 0;
}

void cm_user_give(struct cm_user *user, enum cm_share share)
{
	atomic_inc(&user->left[share]);
}

/**
 * cm_user_add_request - before a connect request makes another id
 * @user: the listener's
 *
 * Any context. Return: false if the user has too many of them. Otherwise the user has a reference
 * for the new id; cm_user_remove_request() follows, when that id ends.
 */
bool cm_user_add_request(struct cm_user *user)
{
	if (!cm_user_take(user, CM_SHARE_REQUESTS))
		return false;
	refcount_inc(&user->ref);
	return true;
}

void cm_user_remove_request(struct cm_user *user)
{
	cm_user_give(user, CM_SHARE_REQUESTS);
	cm_user_put(user);
}

/* At the end of an id. */
void cm_user_release(struct cm_id *id)
{
	if (id->is_request)
		cm_user_remove_request(id->user);
	else
		cm_user_put(id->user);
}

/**
 * cm_lookup_begin - before a lookup that waits
 * @id: the id
 *
 * Return: 0; -ENOMEM; or -ENOBUFS if none of the others has ended.
 */
int cm_lookup_begin(struct cm_id *id)
{
	int ret = cm_user_set(id);

	if (ret)
		return ret;
	if (down_timeout(&id->user->lookups, CM_LOOKUP_WAIT))
		return -ENOBUFS;
	WRITE_ONCE(id->lookup_waits, 1);
	return 0;
}

/* The callback and the cancel of a lookup call this, in any order; the first one ends it. */
void cm_lookup_end(struct cm_id *id)
{
	if (xchg(&id->lookup_waits, 0))
		up(&id->user->lookups);
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
