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

/* Appends an event to the queue of a file. */
static void ucm_event_queue(struct ucm_file *file, struct ucm_event *event)
{
	spin_lock(&file->lock);
	list_add_tail(&event->item, &file->events);
	list_add_tail(&event->ctx_item, &event->ctx->events);
	spin_unlock(&file->lock);
	wake_up_interruptible(&file->readers);
}

/* Allocates a context for a connect request. User space gets its number with the event. */
static int ucm_queue_request(struct rdma_cm_id *id, struct rdma_cm_event *cm_event)
{
	struct ucm_context *listener = id->context, *ctx;
	struct ucm_file *file = ucm_context_file(listener);
	struct cm_id *cm = to_cm_id(id);
	struct ucm_event *event;

	/* MIGRATE_ID and the end of the listener wait for this. */
	lockdep_assert_held(&cm->handler_mutex);
	lockdep_assert_held(&cm->listener->requests);
	if (atomic_dec_if_positive(&listener->backlog_left) < 0)
		return -ENOMEM;
	ctx = ucm_context_alloc(file, cm->memcg, UCM_HANDLER_GFP);
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

	if (!cm->in_upcall)
		mutex_lock(&file->mutex);
	else if (!mutex_trylock(&file->mutex))
		goto free_event;
	ucm_context_publish(ctx);
	ucm_event_queue(file, event);
	mutex_unlock(&file->mutex);
	return 0;

free_event:
	ucm_event_free(event);
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
		if (event)
			ucm_event_queue(ucm_context_file(ctx), event);
		else if (cm->in_upcall)
			return -ENOMEM;
	}
	if (cm_event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		kref_get(&ctx->ref);
		if (!queue_work(t3_unbound_wq, &ctx->close))
			ucm_context_put(ctx);
	}
	return 0;
}

static void ucm_move_request(struct ucm_context *request, struct ucm_file *to);

/* Adds @n to the number of events of the context, and of the group, that GET_EVENT returned. */
static void ucm_event_count(struct ucm_file *file, struct ucm_event *event, int n)
	__must_hold(&file->mutex)
{
	lockdep_assert_held(&file->mutex);
	event->ctx->reported += n;
	if (event->group)
		event->group->reported += n;
}

/*
 * Puts an event that could not be copied back to the front of the queue; if its context has been
 * destroyed meanwhile, drops it. If MIGRATE_ID has moved the context meanwhile, the event goes to
 * the new file, and so does the context of its connect request. ctx->mutex keeps the context in
 * its file, and from being destroyed.
 */
static void ucm_event_requeue(struct ucm_event *event)
{
	struct ucm_context *ctx = event->ctx, *request = event->request;
	struct ucm_file *file;
	bool ended;

	mutex_lock(&ctx->mutex);
	file = ctx->file;
	ended = ctx->ended || (event->group && event->group->ended);
	if (!ended && request && ucm_context_file(request) != file)
		ucm_move_request(request, file);
	mutex_lock(&file->mutex);
	ucm_event_count(file, event, -1);
	if (!ended) {
		spin_lock(&file->lock);
		list_add(&event->item, &file->events);
		list_add(&event->ctx_item, &ctx->events);
		spin_unlock(&file->lock);
		wake_up_interruptible(&file->readers);
	}
	mutex_unlock(&file->mutex);
	mutex_unlock(&ctx->mutex);
	if (ended)
		ucm_event_drop(event);
}

int ucm_get_event(struct ucm_call *call)
{
	const struct rdma_ucm_get_event *cmd = call->cmd;
	struct ucm_file *file = call->file;
	struct ucm_event *event;
	int ret;

	mutex_lock(&file->mutex);
	while (!ucm_has_events(file)) {
		mutex_unlock(&file->mutex);
		if (call->filp->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(file->readers, ucm_has_events(file)))
			return -ERESTARTSYS;
		mutex_lock(&file->mutex);
	}
	spin_lock(&file->lock);
	event = list_first_entry(&file->events, struct ucm_event, item);
	list_del_init(&event->item);
	list_del(&event->ctx_item);
	spin_unlock(&file->lock);
	/* Count it before user space has it, so that DESTROY_ID waits for its acknowledgment. */
	ucm_event_count(file, event, 1);
	mutex_unlock(&file->mutex);
	if (event->request && ucm_context_file(event->request) != file)
		ucm_move_request(event->request, file);
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
	/* Not call->file: MIGRATE_ID may have moved the context before its mutex was taken. */
	ucm_event_queue(call->ctx->file, event);
	return 0;
}

/* Takes the events of a context, or only those of its @group, off the queue of its file. */
static void ucm_take_events(struct ucm_file *file, struct ucm_context *ctx,
			    const struct ucm_group *group, struct list_head *taken)
	__must_hold(&file->mutex)
{
	struct ucm_event *event, *next;

	lockdep_assert_held(&file->mutex);
	spin_lock(&file->lock);
	list_for_each_entry_safe(event, next, &ctx->events, ctx_item) {
		if (group && event->group != group)
			continue;
		list_del(&event->ctx_item);
		list_move_tail(&event->item, taken);
	}
	spin_unlock(&file->lock);
}

/**
 * ucm_context_unlist - take a context that is destroyed off its file
 * @ctx: the context, which has no id. The caller holds its mutex, or no other task knows it
 * @events: receives the queued events of the context
 *
 * Return: number of events that GET_EVENT returned.
 */
u32 ucm_context_unlist(struct ucm_context *ctx, struct list_head *events)
{
	struct ucm_file *file = ucm_context_file(ctx);
	u32 reported;

	mutex_lock(&file->mutex);
	ucm_take_events(file, ctx, NULL, events);
	list_del_init(&ctx->item);
	WRITE_ONCE(ctx->ended, true);
	reported = ctx->reported;
	mutex_unlock(&file->mutex);
	wake_up(&file->contexts_left);
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
	struct ucm_file *file = group->ctx->file;
	u32 reported;

	lockdep_assert_held(&group->ctx->mutex);
	mutex_lock(&file->mutex);
	ucm_take_events(file, group->ctx, group, events);
	group->ended = true;
	reported = group->reported;
	mutex_unlock(&file->mutex);
	return reported;
}

/* Drops events, and with them the connect requests that user space has not got. */
void ucm_drop_events(struct list_head *events)
{
	struct ucm_event *event, *next;

	list_for_each_entry_safe(event, next, events, item)
		ucm_event_drop(event);
}

/*
 * Moves a context, and takes its events off the queue. No handler of its id runs. Return: number of
 * events that GET_EVENT returned before.
 */
static u32 ucm_move_context(struct ucm_context *ctx, struct ucm_file *to,
			    struct list_head *events)
	__must_hold(&ctx->mutex)
{
	struct ucm_file *from = ctx->file;
	u32 reported;

	lockdep_assert_held(&ctx->mutex);
	lockdep_assert(!ctx->cm_id || lockdep_is_held(&to_cm_id(ctx->cm_id)->handler_mutex));
	mutex_lock(&from->mutex);
	ucm_take_events(from, ctx, NULL, events);
	list_del_init(&ctx->item);
	reported = ctx->reported;
	mutex_unlock(&from->mutex);

	kref_get(&to->ref);
	mutex_lock(&to->mutex);
	WRITE_ONCE(ctx->file, to);
	list_add_tail(&ctx->item, &to->contexts);
	mutex_unlock(&to->mutex);
	wake_up(&from->contexts_left);
	ucm_file_put(from);
	return reported;
}

/* Appends events to the queue of a file. */
static void ucm_queue_events(struct ucm_file *file, struct list_head *events)
{
	struct ucm_event *event;

	spin_lock(&file->lock);
	list_for_each_entry(event, events, item)
		list_add_tail(&event->ctx_item, &event->ctx->events);
	list_splice_tail(events, &file->events);
	spin_unlock(&file->lock);
	wake_up_interruptible(&file->readers);
}

/*
 * Moves a connect request, along with its listener. A process may have guessed its number before
 * GET_EVENT has returned it, and so:
 *
 *  - it may have accepted the request, and then events of the request come;
 *  - it may have destroyed the request, and then the context is not moved.
 *
 * The request has no id if its device was removed.
 */
static void ucm_move_locked_request(struct ucm_context *request, struct ucm_file *to)
	__context_unsafe(/* without an id there is no handler to lock out */)
{
	struct cm_id *id;
	LIST_HEAD(moved);

	lockdep_assert_held(&request->mutex);
	id = request->cm_id ? to_cm_id(request->cm_id) : NULL;
	if (id)
		mutex_lock_nested(&id->handler_mutex, SINGLE_DEPTH_NESTING);
	if (!request->ended) {
		ucm_move_context(request, to, &moved);
		ucm_queue_events(to, &moved);
	}
	if (id)
		cm_handler_release(id);
}

static void ucm_move_request(struct ucm_context *request, struct ucm_file *to)
{
	mutex_lock_nested(&request->mutex, SINGLE_DEPTH_NESTING);
	ucm_move_locked_request(request, to);
	mutex_unlock(&request->mutex);
}

/**
 * ucm_move - move a context to another file, for MIGRATE_ID
 * @ctx: the context, which has an id; the caller holds its mutex and the id's handler_mutex
 * @to: the new file
 *
 * Moves its events, too, and the contexts of a listener's queued requests. Workers wait meanwhile
 * that handle other requests, so this does not wait for a command on a request, of a process that
 * has guessed its number: then GET_EVENT moves the request.
 *
 * Return: number of events of the context that GET_EVENT returned from the old file. The new file
 * may be read as soon as it has the others.
 */
u32 ucm_move(struct ucm_context *ctx, struct ucm_file *to)
{
	struct ucm_event *event;
	LIST_HEAD(moved);
	u32 reported;

	lockdep_assert_held(&ctx->mutex);
	reported = ucm_move_context(ctx, to, &moved);
	list_for_each_entry(event, &moved, item)
		if (event->request && mutex_trylock(&event->request->mutex)) {
			ucm_move_locked_request(event->request, to);
			mutex_unlock(&event->request->mutex);
		}
	ucm_queue_events(to, &moved);
	return reported;
}
