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
 *   4. an object that is to be destroyed is destroyed;
 *   5. the handler acts;
 *   6. the response goes to the caller's memory, which may fail;
 *   7. only now the new object can be found by others, or, if anything failed,
 *	it is destroyed and its handle given back; what was taken is released.
 */

#include <linux/uaccess.h>

#include "call.h"
#include "copy.h"

static int need_context(struct uv_call *call)
{
	/* Pairs with the release in make_context(). */
	struct ib_ucontext *context = smp_load_acquire(&call->file->base.ucontext);

	if (!call->dev)
		return -EIO;
	if (!context)
		return -EINVAL;
	call->attrs.context = context;
	return 0;
}

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
	*(struct uv_events **)(args + field->arg) = events;
	return 0;
}

/* An object or event file that the caller names. */
int uv_take_handle(struct uv_call *call, const struct uv_field *field, u64 id, void *args)
{
	struct ib_uobject *uobj;

	if (field->kind == UV_FD)
		return take_events(call, field, id, args);
	if (!call->dev && field->access != UV_DESTROY)
		return -EIO;
	uobj = uv_object_get(call->file, field->type, id, field->access);
	if (IS_ERR(uobj))
		return PTR_ERR(uobj);
	take(call, field, uobj);
	if (field->access == UV_DESTROY)
		call->doomed = uobj;
	call->attrs.context = uobj->context;
	*(struct ib_uobject **)(args + field->arg) = uobj;
	return 0;
}

/* What the command is to make: reserved now, seen by others only after uv_finish(). */
int uv_make(struct uv_call *call, const struct uv_field *field, void *args)
{
	int err;

	if (field->kind == UV_FD_NEW) {
		err = uv_events_new(call->file, field->flags & UV_ASYNC, &call->new_fd);
		if (err)
			return err;
		*(struct uv_events **)(args + field->arg) = call->new_fd.events;
	} else {
		struct ib_uobject *uobj;

		err = need_context(call);
		if (err)
			return err;
		uobj = uv_object_new(call->file, field->type, call->attrs.context);
		if (IS_ERR(uobj))
			return PTR_ERR(uobj);
		call->new = uobj;
		*(struct ib_uobject **)(args + field->arg) = uobj;
	}
	return 0;
}

/* The handle or descriptor of what was made. */
s64 uv_new_id(const struct uv_call *call)
{
	return call->new ? call->new->id : call->new_fd.fd;
}

int uv_execute(struct uv_call *call, void *args)
{
	int err;

	if (call->row->flags & UV_CONTEXT) {
		err = need_context(call);
		if (err)
			return err;
	}
	if (call->doomed) {
		err = uv_object_destroy(call->doomed, &call->attrs);
		if (err)
			return err;
	}
	return call->row->handler ? call->row->handler(call, args) : 0;
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

/* Most values have one of two lengths. */
static void copy_value(void *to, const void *from, u16 len)
{
	if (len == sizeof(u32))
		memcpy(to, from, sizeof(u32));
	else if (len == sizeof(u64))
		memcpy(to, from, sizeof(u64));
	else
		memcpy(to, from, len);
}

static int write_in(struct uv_call *call, const struct uv_field *field, void *wire, void *args)
{
	const void *from = wire + field->at;

	if (field->when && !field->when(wire))
		return 0;
	switch (field->kind) {
	case UV_IN:
		copy_value(args + field->arg, from, field->len);
		return 0;
	case UV_BITS:
		return (field->len == sizeof(u8) ? *(u8 *)from : *(u32 *)from) & ~field->allowed ?
			       field->error : 0;
	case UV_OBJ:
		return uv_take_handle(call, field, *(u32 *)from, args);
	case UV_FD:
		if (field->flags & UV_OPTIONAL && *(s32 *)from < 0)
			return 0;
		return uv_take_handle(call, field, *(s32 *)from, args);
	case UV_NEW:
	case UV_FD_NEW:
		call->new_field = field;
		return uv_make(call, field, args);
	default:
		return 0;
	}
}

static void write_out(struct uv_call *call, const struct uv_field *field, void *wire, void *args,
		      size_t out_len)
{
	switch (field->kind) {
	case UV_OUT:
		copy_value(wire + field->at, args + field->arg, field->len);
		break;
	case UV_OUT_LEN:
		*(u32 *)(wire + field->at) = min_t(size_t, out_len, call->row->response);
		break;
	}
}

/*
 * Runs a command of the write() ABI whose header a door has read; both know
 * that the request is not too short. call->attrs.driver_udata has been set.
 */
int uv_run_write(struct uv_call *call, const void __user *in, size_t in_len, void __user *out,
		 size_t out_len)
{
	const struct uv_row *row = call->row;
	/* Of either only what the row says is used, and that is filled or zeroed first. */
	u64 wire[UV_MAX_WIRE / sizeof(u64)] __uninitialized;
	u64 args[UV_MAX_ARGS / sizeof(u64)] __uninitialized;
	size_t known = min_t(size_t, in_len, row->request);
	const struct uv_field *field, *end = row->fields + row->nfields;
	size_t room;
	int err;

	err = uv_copy_in(wire, in, known);
	if (err)
		goto done;
	if (known < row->request)
		memset((void *)wire + known, 0, row->request - known);
	if (row->flags & UV_TAIL) {
		call->tail = in + known;
		call->tail_len = in_len - known;
	} else {
		err = uv_zero_tail(in, known, in_len);
		if (err)
			goto done;
	}
	call->out = out;
	call->out_len = out_len;

	memset(args, 0, row->args);
	/* Results stand behind all else; uv_table_init() has seen to that. */
	for (field = row->fields; field < end && !uv_is_result(field); field++) {
		err = write_in(call, field, wire, args);
		if (err)
			goto done;
	}

	err = uv_execute(call, args);
	if ((err && !call->answer_error) || !row->response || row->flags & UV_OWN_RESPONSE)
		goto done;

	memset(wire, 0, row->response);
	if (call->new_field)
		*(u32 *)((void *)wire + call->new_field->at) = uv_new_id(call);
	for (; field < end; field++)
		write_out(call, field, wire, args, out_len);
	room = min_t(size_t, out_len, row->response);
	if (uv_copy_out(out, wire, room) ||
	    (out_len > room && clear_user(out + room, out_len - room)))
		err = -EFAULT;
done:
	uv_finish(call, err);
	return err;
}
