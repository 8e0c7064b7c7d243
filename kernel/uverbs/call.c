// SPDX-License-Identifier: GPL-2.0
/*
 * A command, once a door has found its row: take what it needs, run it, keep
 * or undo what it made. Every call ends in uv_finish(), whatever happened.
 *
 * The order is the same for every command, and it is what makes failure safe:
 *
 *   1. sizes, flags and reserved bytes are checked;
 *   2. objects are taken, in the order of the row's fields;
 *   3. a handle or descriptor for the new object is reserved;
 *   4. an object that is to be destroyed is looked up and destroyed;
 *   5. the handler acts;
 *   6. the response goes to the caller's memory, which may fail;
 *   7. only now the new object can be found by others, or, if anything failed,
 *	it is destroyed and its handle given back; what was taken is released.
 */

#include <linux/uaccess.h>

#include <t3_race_point.h>

#include "call.h"

static void take(struct uv_call *call, const struct uv_field *field, void *object)
{
	call->taken[call->ntaken].object = object;
	call->taken[call->ntaken].kind = field->kind;
	call->taken[call->ntaken].access = field->access;
	call->ntaken++;
}

static int take_events(struct uv_call *call, const struct uv_field *field, u64 fd, void *args)
{
	struct uv_events *events;

	if (!call->dev)
		return -EIO;
	events = uv_events_get_fd(call->file, fd, field->flags & UV_ASYNC);
	if (IS_ERR(events))
		return PTR_ERR(events);
	take(call, field, events);
	T3_RACE_POINT(uverbs_events_taken);
	*(struct uv_events **)(args + field->arg) = events;
	return 0;
}

/* An object or event file that the caller names. */
int uv_take_handle(struct uv_call *call, const struct uv_field *field, u64 id, void *args)
{
	struct ib_uobject *uobj;

	if (field->kind == UV_FD)
		return take_events(call, field, id, args);
	if (field->access == UV_DESTROY) {
		/* Looked up when it is destroyed, with the lock that keeps the teardown away. */
		call->destroy = field;
		call->destroy_id = id;
		return 0;
	}
	if (!call->dev)
		return -EIO;
	uobj = uv_object_get(call->file, field->type, id, field->access);
	if (IS_ERR(uobj))
		return PTR_ERR(uobj);
	take(call, field, uobj);
	T3_RACE_POINT(uverbs_object_taken);
	call->attrs.context = uobj->context;
	*(struct ib_uobject **)(args + field->arg) = uobj;
	return 0;
}

/* Destroys what the caller named. The object stays until uv_finish(), for the handler to read. */
int uv_destroy(struct uv_call *call, void *args)
{
	const struct uv_field *field = call->destroy;
	struct ib_uobject *uobj;

	uobj = uv_object_destroy(call->file, field->type, call->destroy_id, &call->attrs);
	if (IS_ERR(uobj))
		return PTR_ERR(uobj);
	take(call, field, uobj);
	*(struct ib_uobject **)(args + field->arg) = uobj;
	return 0;
}

void uv_finish(struct uv_call *call, int err)
{
	if (call->new && err)
		uv_object_abort(call->new, &call->attrs);
	else if (call->new)
		uv_object_commit(call->new);

	if (call->new_fd.events && err)
		uv_events_abort(&call->new_fd);
	else if (call->new_fd.events)
		uv_events_commit(&call->new_fd);

	T3_RACE_POINT(uverbs_kept_or_undone);
	while (call->ntaken--) {
		if (call->taken[call->ntaken].kind == UV_FD)
			uv_events_put(call->taken[call->ntaken].object);
		else
			uv_object_put(call->taken[call->ntaken].object,
				      call->taken[call->ntaken].access);
	}
}

/* A caller newer than we are may send more than we know, if it is zero: it does without. */
int uv_zero_tail(const void __user *buf, size_t known, size_t len)
{
	int zero;

	if (len <= known)
		return 0;
	zero = check_zeroed_user(buf + known, len - known);
	if (zero < 0)
		return zero;
	return zero ? 0 : -EOPNOTSUPP;
}
