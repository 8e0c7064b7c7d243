// SPDX-License-Identifier: GPL-2.0
/*
 * Multicast groups of an id. What a join does to the network is in the transport.
 *
 * id->groups and the groups are protected by handler_mutex, so no event of a group is being handled
 * when a leave frees it.
 */
#include <linux/slab.h>

#include "rdma_cm.h"

/* Of an id. The end of the id leaves them one by one, with rtnl, and others wait for that. */
#define CM_MAX_GROUPS	1024

/* The first group with an address, and with a context unless that is NULL; or NULL. */
static struct cm_group *cm_group_find(struct cm_id *id, const struct sockaddr *addr,
				      const void *context)
{
	struct cm_group *group;

	lockdep_assert_held(&id->handler_mutex);
	list_for_each_entry(group, &id->groups, item)
		if (cm_addr_same((struct sockaddr *)&group->addr, addr) &&
		    (!context || group->context == context))
			return group;
	return NULL;
}

static void cm_group_leave(struct cm_id *id, struct cm_group *group)
{
	lockdep_assert_held(&id->handler_mutex);
	cm_group_event_cancel(id, group);
	list_del(&group->item);
	id->number_of_groups--;
	cm_transport(id)->leave(id, group);
	cm_user_give(id->user, CM_SHARE_GROUPS);
	kfree(group);
}

/* For the end of an id. */
void cm_leave_all(struct cm_id *id)
{
	struct cm_group *group;

	while ((group = list_first_entry_or_null(&id->groups, struct cm_group, item)))
		cm_group_leave(id, group);
}

static int cm_may_join(struct cm_id *id)
	__must_hold(&id->handler_mutex)
{
	lockdep_assert_held(&id->handler_mutex);
	if (!cm_dev_of(id) || id->base.id.qp_type != IB_QPT_UD)
		return -EINVAL;
	if (!cm_transport(id)->join)
		return -ENOSYS;
	switch (cm_state(id)) {
	case CM_ST_BOUND:
	case CM_ST_ADDR_RESOLVED:
	case CM_ST_ROUTE_RESOLVED:
		return id->number_of_groups < CM_MAX_GROUPS ? 0 : -ENOBUFS;
	default:
		return -EINVAL;
	}
}

static int cm_join(struct cm_id *id, struct cm_group *group)
{
	int ret;

	lockdep_assert_held(&id->handler_mutex);
	ret = cm_may_join(id);
	if (ret)
		return ret;
	if (!cm_user_take(id->user, CM_SHARE_GROUPS))
		return -ENOBUFS;
	ret = cm_transport(id)->join(id, group);
	if (ret) {
		cm_user_give(id->user, CM_SHARE_GROUPS);
		return ret;
	}
	list_add_tail(&group->item, &id->groups);
	id->number_of_groups++;
	cm_group_event_post(id, group);
	return 0;
}

/**
 * t3_rdma_join_multicast - join a multicast group
 * @id: the id for datagrams, which has a device
 * @addr: address of the group
 * @join_state: BIT(FULLMEMBER_JOIN), or BIT(SENDONLY_FULLMEMBER_JOIN)
 * @context: for the event, as its private data
 *
 * The handler may run before this returns.
 *
 * Return: 0: MULTICAST_JOIN follows, unless the id leaves the group before;
 * -EINVAL in the wrong state, for another kind of id, or if @addr is no multicast address;
 * -EOPNOTSUPP for IPv6 with RoCE version 2; -ENOSYS for iWARP; -ENOBUFS if the id has 1,024 groups,
 * or its user 4,096.
 */
int t3_rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, u8 join_state,
			   void *context)
{
	struct cm_id *cm = to_cm_id(id);
	struct cm_group *group;
	int ret;

	ret = cm_user_set(cm);
	if (ret)
		return ret;
	group = cm_zalloc(cm->memcg, sizeof(*group), GFP_KERNEL);
	if (!group)
		return -ENOMEM;
	INIT_LIST_HEAD(&group->pending.item);
	cm_addr_copy((struct sockaddr *)&group->addr, addr);
	group->send_only = join_state == BIT(SENDONLY_FULLMEMBER_JOIN);
	group->context = context;
	cm_handler_lock(cm);
	ret = cm_join(cm, group);
	cm_handler_release(cm);
	if (ret)
		kfree(group);
	return ret;
}

/* Leaves the group that was joined with an address and a context; NULL: any context. */
void cm_leave(struct cm_id *id, const struct sockaddr *addr, const void *context)
{
	struct cm_group *group;

	cm_handler_lock(id);
	group = cm_group_find(id, addr, context);
	if (group)
		cm_group_leave(id, group);
	cm_handler_release(id);
}
