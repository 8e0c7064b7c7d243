// SPDX-License-Identifier: GPL-2.0
/* Events, from an id's handler to GET_EVENT. */
#include <linux/file.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include <t3_race_point.h>

#include "compat_event.h"
#include "rdma_cm.h"
#include "ucm.h"

/* Values of later kernels' rdma_cm_event_type. */
#define UCM_EVENT_USER		18
#define UCM_EVENT_INTERNAL	19

static void event_free(struct ucm_event *event)
{
	if (event->request)
		ucm_context_put(event->request);
	atomic_dec(&event->ctx->unread);
	ucm_context_put(event->ctx);
	kfree(event);
}

/* One that user space will not see; the request that it is about ends. */
static void event_drop(struct ucm_event *event)
{
	if (event->request && ucm_context_claim(event->request))
		ucm_context_end(event->request);
	event_free(event);
}

/*
 * @id: of the context, or the one that a request of it is about. Its process is charged. If that is
 * over its limit the end of a connection is reported all the same: that is a few events per id.
 */
static struct ucm_event *event_make(struct ucm_context *ctx, const struct rdma_cm_id *id, u32 type,
				    gfp_t gfp)
{
	struct mem_cgroup *memcg = container_of(id, struct cm_id, mirror.id)->memcg;
	struct ucm_event *event;

	event = cm_zalloc(memcg, sizeof(*event), gfp);
	if (!event && type != RDMA_CM_EVENT_CONNECT_REQUEST && gfpflags_allow_blocking(gfp))
		event = kzalloc(sizeof(*event), gfp);
	if (!event)
		return NULL;
	kref_get(&ctx->ref);
	atomic_inc(&ctx->unread);
	event->ctx = ctx;
	event->resp.uid = READ_ONCE(ctx->uid);
	event->resp.id = ctx->number;
	event->resp.event = type;
	return event;
}

static struct ucm_event *event_of(struct ucm_context *ctx, const struct rdma_cm_id *id,
				  const struct rdma_cm_event *told, gfp_t gfp)
{
	const struct rdma_conn_param *from = &told->param.conn;
	struct rdma_ucm_conn_param *to;
	struct ucm_event *event;

	event = event_make(ctx, id, told->event, gfp);
	if (!event)
		return NULL;
	to = &event->resp.param.conn;
	event->resp.status = told->status;
	if (from->private_data_len)
		memcpy(to->private_data, from->private_data, from->private_data_len);
	to->private_data_len = from->private_data_len;
	to->responder_resources = from->responder_resources;
	to->initiator_depth = from->initiator_depth;
	to->qp_num = from->qp_num;
	return event;
}

/* Behind all others of the file. */
static void queue(struct ucm_file *file, struct ucm_event *event)
{
	spin_lock(&file->lock);
	list_add_tail(&event->item, &file->events);
	spin_unlock(&file->lock);
	wake_up_interruptible(&file->readers);
}

/* A request gets a context, whose number user space learns with the event. */
static int queue_request(struct rdma_cm_id *id, struct rdma_cm_event *told)
{
	struct ucm_context *listener = id->context, *ctx;
	struct ucm_file *file = listener->file;
	struct ucm_event *event;
	int ret = -ENOMEM;

	/* And the listener's, which cannot be looked at: its context may have let go of it. */
	lockdep_assert_held(&to_cm_id(id)->handler_mutex);
	if (!atomic_add_unless(&listener->room, -1, 0))
		return -ENOMEM;
	ctx = ucm_context_make(file, to_cm_id(id)->memcg);
	if (!ctx)
		goto give_back_room;
	event = event_of(listener, id, told, GFP_KERNEL);
	if (!event)
		goto unmake_context;
	event->resp.id = ctx->number;
	event->request = ctx;
	kref_get(&ctx->ref);
	ctx->cm_id = id;
	id->context = ctx;

	T3_RACE_POINT(ucm_request_made);
	mutex_lock(&file->mutex);
	ret = ucm_context_show(ctx);
	T3_RACE_POINT(ucm_request_shown);
	if (!ret)
		queue(file, event);
	mutex_unlock(&file->mutex);
	T3_RACE_POINT(ucm_request_queued);
	if (!ret)
		return 0;

	event_free(event);
unmake_context:
	/* The id is destroyed by whoever called this handler. */
	ucm_context_unmake(ctx);
give_back_room:
	atomic_inc(&listener->room);
	return ret;
}

/**
 * ucm_handler - the handler of all ids of processes
 * @id: the id
 * @told: the event
 *
 * Of a request that was not accepted nothing else is told: the accept will fail.
 *
 * Return: not 0 for a request that cannot be queued, which refuses it; in an upcall of the
 * provider also -ENOMEM, if there is none without sleeping.
 */
int ucm_handler(struct rdma_cm_id *id, struct rdma_cm_event *told)
{
	bool in_upcall = to_cm_id(id)->in_upcall;
	struct ucm_context *ctx = id->context;
	struct ucm_event *event;

	lockdep_assert_held(&to_cm_id(id)->handler_mutex);
	if (told->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return queue_request(id, told);
	if (READ_ONCE(ctx->uid)) {
		event = event_of(ctx, id, told, in_upcall ? GFP_NOWAIT | __GFP_NOWARN : GFP_KERNEL);
		if (event)
			queue(ctx->file, event);
		else if (in_upcall)
			return -ENOMEM;
	}
	T3_RACE_POINT(ucm_event_queued);
	if (told->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		kref_get(&ctx->ref);
		if (!queue_work(system_unbound_wq, &ctx->close))
			ucm_context_put(ctx);
	}
	return 0;
}

static void move_request(struct ucm_context *ctx, struct ucm_file *to);

/*
 * An event that could not be copied is not lost, unless its context ended meanwhile; then it ends
 * as if it had been in the queue. The context may have moved to another file during the copy: then
 * the event belongs there, and so does the request that it is about. ctx->mutex keeps the context
 * where it is.
 */
static void give_back(struct ucm_event *event)
{
	struct ucm_context *ctx = event->ctx, *request = event->request;
	struct ucm_file *file;
	bool ended;

	mutex_lock(&ctx->mutex);
	file = ctx->file;
	if (request && READ_ONCE(request->file) != file) {
		mutex_lock_nested(&request->mutex, SINGLE_DEPTH_NESTING);
		move_request(request, file);
		mutex_unlock(&request->mutex);
	}
	T3_RACE_POINT(ucm_give_back_located);
	mutex_lock(&file->mutex);
	ctx->reported--;
	ended = ctx->ended;
	if (!ended) {
		spin_lock(&file->lock);
		list_add(&event->item, &file->events);
		spin_unlock(&file->lock);
		wake_up_interruptible(&file->readers);
	}
	mutex_unlock(&file->mutex);
	mutex_unlock(&ctx->mutex);
	if (ended)
		event_drop(event);
}

int ucm_get_event(struct ucm_call *call)
{
	const struct rdma_ucm_get_event *cmd = call->cmd;
	struct ucm_file *file = call->file;
	struct ucm_event *event;
	int ret;

	T3_RACE_POINT(ucm_get_event_begins);
	mutex_lock(&file->mutex);
	while (list_empty_careful(&file->events)) {
		mutex_unlock(&file->mutex);
		if (call->filp->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(file->readers, !list_empty_careful(&file->events)))
			return -ERESTARTSYS;
		mutex_lock(&file->mutex);
	}
	spin_lock(&file->lock);
	event = list_first_entry(&file->events, struct ucm_event, item);
	list_del_init(&event->item);
	spin_unlock(&file->lock);
	/* Counted before user space has it, so that DESTROY_ID waits for its acknowledgment. */
	event->ctx->reported++;
	mutex_unlock(&file->mutex);
	T3_RACE_POINT(ucm_get_event_found);
	ret = ucm_copy_answer(call, cmd->response, &event->resp, sizeof(event->resp));
	T3_RACE_POINT(ucm_get_event_taken);
	if (ret) {
		give_back(event);
		return ret;
	}
	if (event->request)
		atomic_inc(&event->ctx->room);
	event_free(event);
	return 0;
}

#ifdef UCM_WRITE_EVENT
/* librdmacm's own events, which it sends itself through the id's file. */
int ucm_write_event(struct ucm_call *call)
{
	const struct ucm_write_event_cmd *cmd = call->cmd;
	struct ucm_event *event;

	if (cmd->event != UCM_EVENT_USER && cmd->event != UCM_EVENT_INTERNAL)
		return -EINVAL;
	if (atomic_read(&call->ctx->unread) >= UCM_MAX_UNREAD)
		return -ENOBUFS;
	event = event_make(call->ctx, call->ctx->cm_id, cmd->event, GFP_KERNEL);
	if (!event)
		return -ENOMEM;
	event->resp.status = cmd->status;
	memcpy(&event->resp.param, &cmd->param, sizeof(cmd->param.arg));
	/* Not call->file: the context may have moved before its mutex was taken. */
	queue(call->ctx->file, event);
	return 0;
}
#endif

/* Takes the events of a context off its file. */
static void take_events(struct ucm_file *file, const struct ucm_context *ctx,
			struct list_head *taken)
{
	struct ucm_event *event, *next;

	lockdep_assert_held(&file->mutex);
	spin_lock(&file->lock);
	list_for_each_entry_safe(event, next, &file->events, item)
		if (event->ctx == ctx)
			list_move_tail(&event->item, taken);
	spin_unlock(&file->lock);
}

/*
 * A context ends: what is queued of it is dropped. If it was a listener, requests that
 * user space has not seen end with it. Returns how many of its events user space was given.
 */
u32 ucm_drop_events(struct ucm_context *ctx)
{
	struct ucm_file *file = ctx->file;
	struct ucm_event *event, *next;
	LIST_HEAD(dropped);
	u32 reported;

	mutex_lock(&file->mutex);
	take_events(file, ctx, &dropped);
	list_del_init(&ctx->item);
	WRITE_ONCE(ctx->ended, true);
	reported = ctx->reported;
	mutex_unlock(&file->mutex);
	wake_up(&file->contexts_left);

	T3_RACE_POINT(ucm_events_dropped);
	list_for_each_entry_safe(event, next, &dropped, item)
		event_drop(event);
	return reported;
}

/* What is left when no context is: events that were queued while their id moved away. */
void ucm_free_events(struct ucm_file *file)
{
	struct ucm_event *event, *next;

	list_for_each_entry_safe(event, next, &file->events, item)
		event_free(event);
}

static void move_context(struct ucm_context *ctx, struct ucm_file *to)
{
	struct ucm_file *from = ctx->file;

	lockdep_assert_held(&ctx->mutex);
	mutex_lock(&from->mutex);
	list_del_init(&ctx->item);
	mutex_unlock(&from->mutex);

	T3_RACE_POINT(ucm_move_off_list);
	kref_get(&to->ref);
	mutex_lock(&to->mutex);
	WRITE_ONCE(ctx->file, to);
	list_add_tail(&ctx->item, &to->contexts);
	mutex_unlock(&to->mutex);
	wake_up(&from->contexts_left);
	ucm_file_put(from);
}

/*
 * Of a listener's request, read or not: a process may have guessed its number, accepted it,
 * and be told of it just now.
 */
static void move_request(struct ucm_context *ctx, struct ucm_file *to)
{
	struct cm_id *id;

	lockdep_assert_held(&ctx->mutex);
	if (!ctx->cm_id)
		return;
	id = to_cm_id(ctx->cm_id);
	mutex_lock_nested(&id->handler_mutex, SINGLE_DEPTH_NESTING);
	move_context(ctx, to);
	mutex_unlock(&id->handler_mutex);
}

/**
 * ucm_move - MIGRATE_ID: a context changes its file
 * @ctx: the context, open; the caller holds its mutex, and its id's handler stands still
 * @to: the new file
 *
 * Its events go along, and with a listener's requests their contexts.
 */
void ucm_move(struct ucm_context *ctx, struct ucm_file *to)
{
	struct ucm_file *from = ctx->file;
	struct ucm_event *event;
	LIST_HEAD(moved);

	lockdep_assert_held(&ctx->mutex);
	lockdep_assert_held(&to_cm_id(ctx->cm_id)->handler_mutex);
	mutex_lock(&from->mutex);
	take_events(from, ctx, &moved);
	mutex_unlock(&from->mutex);

	T3_RACE_POINT(ucm_move_events_taken);
	move_context(ctx, to);
	T3_RACE_POINT(ucm_moved);
	list_for_each_entry(event, &moved, item) {
		if (!event->request)
			continue;
		mutex_lock_nested(&event->request->mutex, SINGLE_DEPTH_NESTING);
		move_request(event->request, to);
		mutex_unlock(&event->request->mutex);
	}

	spin_lock(&to->lock);
	list_splice_tail(&moved, &to->events);
	spin_unlock(&to->lock);
	wake_up_interruptible(&to->readers);
}
