// SPDX-License-Identifier: GPL-2.0
/* Events, from the handler of an id to GET_EVENT. */
#include <linux/file.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compat.h"
#include "rdma_cm.h"
#include "ucm.h"

/* Values of later kernels' rdma_cm_event_type. */
#define UCM_EVENT_USER		18
#define UCM_EVENT_INTERNAL	19

/* A handler may run in an upcall, and others wait for its worker: it does not wait for memory. */
#define UCM_HANDLER_GFP		(GFP_ATOMIC | __GFP_NOWARN)

DEFINE_SPINLOCK(ucm_lock);

static void ucm_event_free(struct ucm_event *event)
{
	if (event->request)
		ucm_context_put(event->request);
	if (event->group)
		ucm_group_put(event->group);
	if (event->resp.event == RDMA_CM_EVENT_ADDR_CHANGE)
		WRITE_ONCE(event->ctx->addr_change_unread, false);
	atomic_dec(&event->ctx->unread);
	ucm_context_put(event->ctx);
	kfree(event);
}

/* Frees an event that user space does not get, and destroys the connect request that it reports. */
static void ucm_event_drop(struct ucm_event *event)
{
	if (event->request && ucm_context_claim(event->request))
		ucm_context_destroy(event->request);
	ucm_event_free(event);
}

static void ucm_event_init(struct ucm_event *event, struct ucm_context *ctx, u32 type)
{
	kref_get(&ctx->ref);
	atomic_inc(&ctx->unread);
	event->ctx = ctx;
	event->resp.uid = ucm_context_uid(ctx);
	event->resp.id = ctx->number;
	event->resp.event = type;
	if (type == RDMA_CM_EVENT_ADDR_CHANGE)
		WRITE_ONCE(ctx->addr_change_unread, true);
}

/*
 * The owner of the interface can repeat ADDR_CHANGE without end. One that is not read yet is about
 * all changes until it is read.
 */
static bool ucm_event_is_new(const struct ucm_context *ctx, enum rdma_cm_event_type type)
{
	return type != RDMA_CM_EVENT_ADDR_CHANGE ||
	       (!READ_ONCE(ctx->addr_change_unread) &&
		atomic_read(&ctx->unread) < UCM_MAX_UNREAD);
}

/*
 * The cgroup of @id is charged: the id of the context, or of the connect request. Events of a
 * connection are not lost: without memory in an upcall, the worker tries again.
 */
static struct ucm_event *ucm_event_alloc(const struct cm_id *id, u32 type)
	__must_hold(&id->handler_mutex)
{
	lockdep_assert_held(&id->handler_mutex);
	if (id->in_upcall || type == RDMA_CM_EVENT_CONNECT_REQUEST)
		return cm_zalloc(id->memcg, sizeof(struct ucm_event), UCM_HANDLER_GFP);
	return cm_zalloc_nowait(id->memcg, sizeof(struct ucm_event));
}

static void ucm_copy_conn(struct rdma_ucm_conn_param *to, const struct rdma_conn_param *from)
{
	if (from->private_data_len)
		memcpy(to->private_data, from->private_data, from->private_data_len);
	to->private_data_len = from->private_data_len;
	to->responder_resources = from->responder_resources;
	to->initiator_depth = from->initiator_depth;
	to->flow_control = from->flow_control;
	to->retry_count = from->retry_count;
	to->rnr_retry_count = from->rnr_retry_count;
	to->srq = from->srq;
	to->qp_num = from->qp_num;
}

static void ucm_copy_ud(struct rdma_ucm_ud_param *to, const struct rdma_ud_param *from)
{
	if (from->private_data_len)
		memcpy(to->private_data, from->private_data, from->private_data_len);
	to->private_data_len = from->private_data_len;
	ucm_copy_ah_attr(&to->ah_attr, &from->ah_attr);
	to->qp_num = from->qp_num;
	to->qkey = from->qkey;
}

/* The event is about a group, and names it instead of the id. The group exists: see ucm_leave(). */
static void ucm_event_set_group(struct ucm_event *event, struct ucm_group *group)
{
	ucm_group_get(group);
	event->group = group;
	event->resp.uid = group->uid;
	event->resp.id = group->number;
}

static struct ucm_event *ucm_event_new(struct ucm_context *ctx, const struct cm_id *id,
				       const struct rdma_cm_event *cm_event)
	__must_hold(&id->handler_mutex)
{
	struct ucm_event *event = ucm_event_alloc(id, cm_event->event);

	if (!event)
		return NULL;
	ucm_event_init(event, ctx, cm_event->event);
	event->resp.status = cm_event->status;
	event->resp.ece = cm_event->ece;
	if (cm_event->event == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    cm_event->event == RDMA_CM_EVENT_MULTICAST_ERROR)
		ucm_event_set_group(event, (void *)cm_event->param.ud.private_data);
	if (id->base.id.qp_type == IB_QPT_UD)
		ucm_copy_ud(&event->resp.param.ud, &cm_event->param.ud);
	else
		ucm_copy_conn(&event->resp.param.conn, &cm_event->param.conn);
	return event;
}

void ucm_wake_work(struct work_struct *work)
{
	struct ucm_file *file = container_of(work, struct ucm_file, wake_work);

	wake_up_interruptible(&file->pollers);
	ucm_file_put(file);
}

/* After events were queued. @readers: how many may read, or 0: all. Takes over a reference. */
static void ucm_wake(struct ucm_file *file, int readers)
{
	wake_up_interruptible_nr(&file->readers, readers);
	if (!wq_has_sleeper(&file->pollers) || !queue_work(ucm_wake_wq, &file->wake_work))
		ucm_file_put(file);
}

/* Queues an event to the file of its context. Return: the file, for ucm_wake(). */
static struct ucm_file *ucm_event_queue(struct ucm_event *event)
	__must_hold(&ucm_lock)
{
	struct ucm_file *file = event->ctx->file;

	lockdep_assert_held(&ucm_lock);
	list_add_tail(&event->item, &file->events);
	list_add_tail(&event->ctx_item, &event->ctx->events);
	kref_get(&file->ref);
	return file;
}

static void ucm_event_send(struct ucm_event *event)
{
	struct ucm_file *file;

	spin_lock(&ucm_lock);
	file = ucm_event_queue(event);
	spin_unlock(&ucm_lock);
	ucm_wake(file, 1);
}

/* Allocates a context for a connect request. User space gets its number with the event. */
static int ucm_queue_request(struct rdma_cm_id *id, struct rdma_cm_event *cm_event)
{
	struct ucm_context *listener = id->context, *ctx;
	struct ucm_file *file;
	struct cm_id *cm = to_cm_id(id);
	struct ucm_event *event;

	/* The end of the listener waits for this. */
	lockdep_assert_held(&cm->handler_mutex);
	lockdep_assert_held(&cm->listener->requests);
	if (atomic_dec_if_positive(&listener->backlog_left) < 0)
		return -ENOMEM;
	ctx = ucm_context_alloc(cm->memcg, UCM_HANDLER_GFP);
	if (!ctx)
		goto put_backlog;
	event = ucm_event_new(listener, cm, cm_event);
	if (!event)
		goto cancel_context;
	event->resp.id = ctx->number;
	event->request = ctx;
	kref_get(&ctx->ref);
	context_unsafe(ctx->cm_id = id); /* not published yet */
	id->context = ctx;

	spin_lock(&ucm_lock);
	ucm_context_publish(ctx, listener->file);
	file = ucm_event_queue(event);
	spin_unlock(&ucm_lock);
	ucm_wake(file, 1);
	return 0;

cancel_context:
	/* The caller of this handler destroys the id. */
	ucm_context_cancel(ctx);
put_backlog:
	atomic_inc(&listener->backlog_left);
	return -ENOMEM;
}

/**
 * ucm_handler - the handler of all ids of processes
 * @id: the id
 * @cm_event: the event
 *
 * Until user space has accepted a request it has no uid for the id, so events of the id are not
 * queued. That loses nothing: a later accept fails.
 *
 * Return: an error for a connect request that cannot be queued, which rejects it; -ENOMEM in an
 * upcall of the provider, if this would have to sleep: the worker calls again.
 */
int ucm_handler(struct rdma_cm_id *id, struct rdma_cm_event *cm_event)
{
	struct ucm_context *ctx = id->context;
	struct cm_id *cm = to_cm_id(id);
	struct ucm_event *event;

	lockdep_assert_held(&cm->handler_mutex);
	if (cm_event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return ucm_queue_request(id, cm_event);
	if (ucm_context_uid(ctx) && ucm_event_is_new(ctx, cm_event->event)) {
		event = ucm_event_new(ctx, cm, cm_event);
		if (!event && cm->in_upcall)
			return -ENOMEM;
		if (event)
			ucm_event_send(event);
	}
	if (cm_event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		kref_get(&ctx->ref);
		if (!queue_work(ucm_close_wq, &ctx->close))
			ucm_context_put(ctx);
	}
	return 0;
}

/* Adds @n to the number of events of the context, and of the group, that GET_EVENT returned. */
static void ucm_event_count(struct ucm_event *event, int n)
	__must_hold(&ucm_lock)
{
	lockdep_assert_held(&ucm_lock);
	event->ctx->reported += n;
	if (event->group)
		event->group->reported += n;
}

/*
 * Moves a context and its queued events. It may have ended: a process may guess the number of a
 * connect request, and destroy it, before GET_EVENT has returned it.
 */
static void ucm_move_context(struct ucm_context *ctx, struct ucm_file *to)
	__must_hold(&ucm_lock)
{
	struct ucm_file *from = ctx->file;
	struct ucm_event *event;

	lockdep_assert_held(&ucm_lock);
	if (ctx->ended || from == to)
		return;
	list_for_each_entry(event, &ctx->events, ctx_item)
		list_move_tail(&event->item, &to->events);
	list_move_tail(&ctx->item, &to->contexts);
	kref_get(&to->ref);
	WRITE_ONCE(ctx->file, to);
	wake_up(&from->contexts_left);
	ucm_file_put(from);
}

/**
 * ucm_move - move a context, its events, and a listener's queued requests, for MIGRATE_ID
 * @ctx: the context
 * @from: its file
 * @to: the new file
 * @reported: receives the number of events of the context that GET_EVENT returned from @from
 *
 * Return: 0, or -ENOENT if another MIGRATE_ID has moved it.
 */
int ucm_move(struct ucm_context *ctx, struct ucm_file *from, struct ucm_file *to, u32 *reported)
{
	struct ucm_event *event;
	int ret = -ENOENT;

	kref_get(&to->ref);
	spin_lock(&ucm_lock);
	if (ctx->file == from) {
		ret = 0;
		*reported = ctx->reported;
		ucm_move_context(ctx, to);
		list_for_each_entry(event, &ctx->events, ctx_item)
			if (event->request)
				ucm_move_context(event->request, to);
	}
	spin_unlock(&ucm_lock);
	ucm_wake(to, 0);
	return ret;
}

/*
 * Puts an event that could not be copied back to the front of the queue; if its context has been
 * destroyed meanwhile, drops it. If MIGRATE_ID has moved the context meanwhile, the event goes to
 * the new file, and so does the context of its connect request.
 */
static void ucm_event_requeue(struct ucm_event *event)
{
	struct ucm_context *ctx = event->ctx;
	struct ucm_file *file = NULL;

	spin_lock(&ucm_lock);
	ucm_event_count(event, -1);
	if (!ctx->ended && !(event->group && event->group->ended)) {
		file = ctx->file;
		kref_get(&file->ref);
		list_add(&event->item, &file->events);
		list_add(&event->ctx_item, &ctx->events);
		if (event->request)
			ucm_move_context(event->request, file);
	}
	spin_unlock(&ucm_lock);
	if (file)
		ucm_wake(file, 0);
	else
		ucm_event_drop(event);
}

/* Takes the oldest event of a file, or returns NULL. */
static struct ucm_event *ucm_event_take(struct ucm_file *file)
{
	struct ucm_event *event;

	spin_lock(&ucm_lock);
	event = list_first_entry_or_null(&file->events, struct ucm_event, item);
	if (event) {
		list_del_init(&event->item);
		list_del(&event->ctx_item);
		/* Before user space has it, so that DESTROY_ID waits for its acknowledgment. */
		ucm_event_count(event, 1);
	}
	spin_unlock(&ucm_lock);
	return event;
}

int ucm_get_event(struct ucm_call *call)
{
	const struct rdma_ucm_get_event *cmd = call->cmd;
	struct ucm_file *file = call->file;
	struct ucm_event *event;
	int ret;

	while (!(event = ucm_event_take(file))) {
		if (call->filp->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible_exclusive(file->readers, ucm_has_events(file)))
			return -ERESTARTSYS;
	}
	ret = ucm_copy_resp(call, cmd->response, &event->resp, sizeof(event->resp));
	if (ret) {
		ucm_event_requeue(event);
		return ret;
	}
	if (event->request)
		atomic_inc(&event->ctx->backlog_left);
	ucm_event_free(event);
	return 0;
}

/* WRITE_CM_EVENT: librdmacm queues an event of its own. */
int ucm_write_event(struct ucm_call *call)
{
	const struct ucm_write_event_cmd *cmd = call->cmd;
	struct ucm_event *event;

	lockdep_assert_held(&call->ctx->mutex);
	if (cmd->event != UCM_EVENT_USER && cmd->event != UCM_EVENT_INTERNAL)
		return -EINVAL;
	if (atomic_read(&call->ctx->unread) >= UCM_MAX_UNREAD)
		return -ENOBUFS;
	event = cm_zalloc(to_cm_id(call->ctx->cm_id)->memcg, sizeof(*event), GFP_KERNEL);
	if (!event)
		return -ENOMEM;
	ucm_event_init(event, call->ctx, cmd->event);
	event->resp.status = cmd->status;
	memcpy(&event->resp.param, &cmd->param, sizeof(cmd->param.arg));
	ucm_event_send(event);
	return 0;
}

/* Takes the events of a context, or only those of its @group, off the queue of its file. */
static void ucm_take_events(struct ucm_context *ctx, const struct ucm_group *group,
			    struct list_head *taken)
	__must_hold(&ucm_lock)
{
	struct ucm_event *event, *next;

	lockdep_assert_held(&ucm_lock);
	list_for_each_entry_safe(event, next, &ctx->events, ctx_item) {
		if (group && event->group != group)
			continue;
		list_del(&event->ctx_item);
		list_move_tail(&event->item, taken);
	}
}

/**
 * ucm_context_unlist - take a context that is destroyed off its file, if it has one
 * @ctx: the context, which has no id
 * @events: receives the queued events of the context
 *
 * Return: number of events that GET_EVENT returned.
 */
u32 ucm_context_unlist(struct ucm_context *ctx, struct list_head *events)
{
	u32 reported;

	spin_lock(&ucm_lock);
	ucm_take_events(ctx, NULL, events);
	list_del_init(&ctx->item);
	WRITE_ONCE(ctx->ended, true);
	reported = ctx->reported;
	if (ctx->file)
		wake_up(&ctx->file->contexts_left);
	spin_unlock(&ucm_lock);
	return reported;
}

/**
 * ucm_group_unlist - take the events of a group that is left off the queue
 * @group: the group; the caller holds the mutex of its context
 * @events: receives the events
 *
 * Return: number of events of the group that GET_EVENT returned.
 */
u32 ucm_group_unlist(struct ucm_group *group, struct list_head *events)
{
	u32 reported;

	lockdep_assert_held(&group->ctx->mutex);
	spin_lock(&ucm_lock);
	ucm_take_events(group->ctx, group, events);
	group->ended = true;
	reported = group->reported;
	spin_unlock(&ucm_lock);
	return reported;
}

/* Drops events, and with them the connect requests that user space has not got. */
void ucm_drop_events(struct list_head *events)
{
	struct ucm_event *event, *next;

	list_for_each_entry_safe(event, next, events, item)
		ucm_event_drop(event);
}
