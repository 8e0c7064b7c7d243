// SPDX-License-Identifier: GPL-2.0
/*
 * The steps of a call, after write.c or ioctl.c has found the row of the
 * command. They have the same order in each command, so that a failure in any
 * of them can be undone:
 *
 *   1. sizes, flags and reserved bytes are checked;
 *   2. the objects and event files that the request names are looked up and
 *	held, in the order of the row's fields;
 *   3. a handle or descriptor is reserved for a new object or event file;
 *   4. an object to be destroyed is looked up and destroyed;
 *   5. the handler runs;
 *   6. the response is copied to the caller's memory, which may fail;
 *   7. the new object becomes visible to other calls or, after an error, is
 *	destroyed and its handle released. What the call holds is released.
 *
 * Each call ends with uv_call_finish(), also after an error.
 */

#include <linux/uaccess.h>

#include <t3_race_point.h>

#include "call.h"

static void uv_call_hold(struct uv_call *call, const struct uv_field *field, void *object)
{
	call->held[call->nheld].object = object;
	call->held[call->nheld].kind = field->kind;
	call->held[call->nheld].access = field->access;
	call->nheld++;
}

static int uv_call_get_events(struct uv_call *call, const struct uv_field *field, u64 fd,
			      void *args)
{
	struct uv_events *events;

	if (!call->dev)
		return -EIO;
	events = uv_events_get_fd(call->file, fd, field->flags & UV_ASYNC);
	if (IS_ERR(events))
		return PTR_ERR(events);
	uv_call_hold(call, field, events);
	T3_RACE_POINT(uverbs_events_taken);
	*(struct uv_events **)(args + field->arg) = events;
	return 0;
}

/* Step 2: looks up and holds an object or event file of the request. */
int uv_call_get_handle(struct uv_call *call, const struct uv_field *field, u64 id, void *args)
{
	struct ib_uobject *uobj;

	if (field->kind == UV_FD)
		return uv_call_get_events(call, field, id, args);
	if (field->access == UV_DESTROY) {
		/* uv_call_destroy() looks it up, under the lock that excludes the teardown. */
		call->destroy = field;
		call->destroy_id = id;
		return 0;
	}
	if (!call->dev)
		return -EIO;
	uobj = uv_object_get(call->file, field->type, id, field->access);
	if (IS_ERR(uobj))
		return PTR_ERR(uobj);
	uv_call_hold(call, field, uobj);
	T3_RACE_POINT(uverbs_object_taken);
	call->attrs.context = uobj->context;
	*(struct ib_uobject **)(args + field->arg) = uobj;
	return 0;
}

/*
 * Step 4: destroys the object of the request. Its memory is freed by uv_call_finish(), so the
 * handler can read the counters of events.
 */
int uv_call_destroy(struct uv_call *call, void *args)
{
	const struct uv_field *field = call->destroy;
	struct ib_uobject *uobj;

	uobj = uv_object_destroy(call->file, field->type, call->destroy_id, &call->attrs);
	if (IS_ERR(uobj))
		return PTR_ERR(uobj);
	uv_call_hold(call, field, uobj);
	*(struct ib_uobject **)(args + field->arg) = uobj;
	return 0;
}

/* Step 7. */
void uv_call_finish(struct uv_call *call, int err)
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
	while (call->nheld--) {
		if (call->held[call->nheld].kind == UV_FD)
			uv_events_put(call->held[call->nheld].object);
		else
			uv_object_put(call->held[call->nheld].object,
				      call->held[call->nheld].access);
	}
}

/*
 * The part of a request that this version does not know must be zero: the caller does not use it.
 */
int uv_check_zero_tail(const void __user *buf, size_t known, size_t len)
{
	int zero;

	if (len <= known)
		return 0;
	zero = check_zeroed_user(buf + known, len - known);
	if (zero < 0)
		return zero;
	return zero ? 0 : -EOPNOTSUPP;
}
