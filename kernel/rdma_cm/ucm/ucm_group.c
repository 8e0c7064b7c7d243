// SPDX-License-Identifier: GPL-2.0
/*
 * Multicast groups of contexts.
 *
 * A group has a number in a table of its own. Only the task that takes it off the table may end
 * it: a LEAVE_MCAST, or the destroy of its context. Events hold references.
 */
#include <linux/slab.h>
#include <linux/xarray.h>
#include <rdma/ib_sa.h>

#include "rdma_cm.h"
#include "ucm.h"

static DEFINE_XARRAY_FLAGS(ucm_group_table, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);

static void ucm_group_free(struct kref *ref)
{
	kfree(container_of(ref, struct ucm_group, ref));
}

void ucm_group_get(struct ucm_group *group)
{
	kref_get(&group->ref);
}

void ucm_group_put(struct ucm_group *group)
{
	kref_put(&group->ref, ucm_group_free);
}

/* Takes a group off the table. Return: true for one task only, which gets the table's reference. */
static bool ucm_group_claim(struct ucm_group *group)
{
	return xa_cmpxchg(&ucm_group_table, group->number, group, NULL, GFP_KERNEL) == group;
}

/* For the end of a context, which has no id and no events any more. */
void ucm_end_groups(struct ucm_context *ctx)
{
	struct ucm_group *group, *next;

	lockdep_assert_held(&ctx->mutex);
	list_for_each_entry_safe(group, next, &ctx->groups, item) {
		list_del_init(&group->item);
		if (ucm_group_claim(group))
			ucm_group_put(group);
	}
}

void ucm_begin_join(struct ucm_call *call)
{
	call->joined = NULL;
}

static int ucm_do_join(struct ucm_call *call, u64 response, u64 uid, struct sockaddr *addr,
		       u8 join_state)
{
	struct rdma_ucm_create_id_resp resp;
	struct cm_id *id = to_cm_id(ucm_id(call));
	struct ucm_group *group;
	int ret;

	lockdep_assert_held(&call->ctx->mutex);
	group = cm_zalloc(id->memcg, sizeof(*group), GFP_KERNEL);
	if (!group)
		return -ENOMEM;
	kref_init(&group->ref);
	group->uid = uid;
	group->ctx = call->ctx;
	cm_addr_copy((struct sockaddr *)&group->addr, addr);
	/* LEAVE_MCAST cannot find it before it has been joined. */
	ret = xa_alloc(&ucm_group_table, &group->number, NULL, xa_limit_32b, GFP_KERNEL);
	if (ret)
		goto put;
	ret = t3_rdma_join_multicast(&id->base.id, addr, join_state, group);
	if (ret)
		goto erase;
	list_add_tail(&group->item, &call->ctx->groups);
	resp.id = group->number;
	/* For ucm_finish_join(). */
	ucm_group_get(group);
	kref_get(&group->ctx->ref);
	call->joined = group;
	/* Cannot fail: the entry is allocated. */
	xa_store(&ucm_group_table, group->number, group, GFP_KERNEL);
	return ucm_respond(call, response, &resp, sizeof(resp));
erase:
	xa_erase(&ucm_group_table, group->number);
put:
	ucm_group_put(group);
	return ret;
}

int ucm_join_ip(struct ucm_call *call)
{
	const struct rdma_ucm_join_ip_mcast *cmd = call->cmd;
	struct sockaddr_in6 addr = cmd->addr;

	if (!rdma_addr_size_in6(&addr))
		return -EINVAL;
	return ucm_do_join(call, cmd->response, cmd->uid, (struct sockaddr *)&addr,
			   BIT(FULLMEMBER_JOIN));
}

int ucm_join(struct ucm_call *call)
{
	const struct rdma_ucm_join_mcast *cmd = call->cmd;
	struct __kernel_sockaddr_storage addr = cmd->addr;
	u8 join_state;

	if (!cmd->addr_size || cmd->addr_size != rdma_addr_size_kss(&addr))
		return -EINVAL;
	switch (cmd->join_flags) {
	case RDMA_MC_JOIN_FLAG_FULLMEMBER:
		join_state = BIT(FULLMEMBER_JOIN);
		break;
	case RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER:
		join_state = BIT(SENDONLY_FULLMEMBER_JOIN);
		break;
	default:
		return -EINVAL;
	}
	return ucm_do_join(call, cmd->response, cmd->uid, (struct sockaddr *)&addr, join_state);
}

/* Takes the group of a number off the table, and a reference on its context. */
static struct ucm_group *ucm_group_take(struct ucm_file *file, u32 number)
{
	struct ucm_group *group;

	xa_lock(&ucm_group_table);
	group = xa_load(&ucm_group_table, number);
	if (!group) {
		group = ERR_PTR(-ENOENT);
	} else if (ucm_context_file(group->ctx) != file) {
		group = ERR_PTR(-EINVAL);
	} else {
		kref_get(&group->ctx->ref);
		__xa_erase(&ucm_group_table, number);
	}
	xa_unlock(&ucm_group_table);
	return group;
}

/*
 * Leaves a group that the caller has taken off the table, with a reference on its context. Puts
 * both references. Return: number of events of the group that GET_EVENT returned.
 */
static u32 ucm_group_leave(struct ucm_group *group)
{
	struct ucm_context *ctx = group->ctx;
	LIST_HEAD(events);
	u32 reported;

	mutex_lock(&ctx->mutex);
	/* Afterwards no handler uses the group. Without an id there is none. */
	if (ctx->cm_id)
		cm_leave(to_cm_id(ctx->cm_id), (struct sockaddr *)&group->addr, group);
	list_del_init(&group->item);
	reported = ucm_group_unlist(group, &events);
	ucm_context_unlock(ctx);
	ucm_drop_events(&events);
	ucm_group_put(group);
	ucm_context_put(ctx);
	return reported;
}

/*
 * The response of a join was copied, or @error: then user space does not know the number. Another
 * thread that has guessed it may have left the group.
 */
void ucm_finish_join(struct ucm_call *call, int error)
{
	struct ucm_group *group = call->joined;

	if (!group)
		return;
	if (error && ucm_group_claim(group))
		ucm_group_leave(group);
	else
		ucm_context_put(group->ctx);
	ucm_group_put(group);
}

int ucm_leave(struct ucm_call *call)
{
	const struct rdma_ucm_destroy_id *cmd = call->cmd;
	struct rdma_ucm_destroy_id_resp resp = {};
	struct ucm_group *group;

	group = ucm_group_take(call->file, cmd->id);
	if (IS_ERR(group))
		return PTR_ERR(group);
	resp.events_reported = ucm_group_leave(group);
	return ucm_respond(call, cmd->response, &resp, sizeof(resp));
}
