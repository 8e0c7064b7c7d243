/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The steps of a call, after write.c or ioctl.c has found the row of the
 * command:
 *
 *   1. sizes, flags and reserved bytes are checked;
 *   2. the objects and event files that the request names are looked up and
 *	held;
 *   3. a handle or descriptor is reserved for a new object or event file;
 *   4. an object to be destroyed is looked up and destroyed;
 *   5. the handler runs;
 *   6. the response is copied to the caller's memory, which may fail;
 *   7. the new object, event file or context becomes visible to other calls or,
 *	after an error, is destroyed. What the call holds is released.
 *
 * Steps 1 to 3 are done field by field, in any order: by write() in the order of
 * the row, by ioctl in that of the caller's attributes. None of them is visible
 * to other calls. Steps 4 to 7 follow in this order. Each call ends with
 * uv_call_finish(), also after an error. It undoes a creation if a later step
 * fails; a destroy (4) is final.
 *
 * write.c and ioctl.c inline the steps: most commands are so short that function
 * calls are measurable.
 *
 * The steps run between uv_enter() and uv_leave(). A removal of the device waits for
 * that, so there they do not wait for user memory, which may be that of a FUSE file
 * whose server does not reply. A copy of memory that is not present fails. Then all
 * is undone, the memory is faulted in, and the call is repeated; or, if the command
 * cannot be undone, its response is copied after uv_leave().
 */
#ifndef T3_UVERBS_STEPS_H
#define T3_UVERBS_STEPS_H

#include <linux/pagemap.h>
#include <linux/uaccess.h>

#include <t3_copy.h>

#include "call.h"
#include "trace.h"

/* Times that a call is repeated: the memory may be reclaimed again. */
#define UV_MAX_REPEATS 3

/* From here on a removal of the device waits. Until uv_leave() page faults fail. */
static inline int uv_enter(struct uv_file *file)
	__context_unsafe(/* uv_leave() releases it */)
{
	int srcu = srcu_read_lock(&file->base.device->disassociate_srcu);

	pagefault_disable();
	return srcu;
}

static inline void uv_leave(struct uv_file *file, int srcu)
	__context_unsafe(/* of uv_enter() */)
{
	pagefault_enable();
	srcu_read_unlock(&file->base.device->disassociate_srcu, srcu);
}

static inline bool uv_fault_in_readable(const void __user *from, size_t len)
{
	return !len || !fault_in_readable(from, len);
}

static inline bool uv_fault_in_writeable(const void __user *to, size_t len)
{
	return !len || !fault_in_safe_writeable(to, len);
}

/*
 * Initializes only what is read before it is written. ->nheld bounds ->held, and uv_run_write()
 * sets ->tail and ->out. Callers declare the variable __uninitialized, because a kernel with
 * INIT_STACK_ALL_ZERO would otherwise clear all of it in each call.
 */
static inline void uv_call_init(struct uv_call *call, struct uv_file *file, struct ib_device *dev,
				const struct uv_row *row)
{
	call->file = file;
	call->dev = dev;
	call->row = row;
	call->new = NULL;
	call->new_fd.events = NULL;
	call->new_context = NULL;
	call->new_field = NULL;
	call->destroy = NULL;
	call->respond_on_error = false;
	call->executed = false;
	call->late.to = NULL;
	call->nheld = 0;
	memset(&call->attrs, 0, sizeof(call->attrs));
	call->attrs.ufile = &file->base;
}

/*
 * Whether the device supports the command. After its removal every command counts as supported,
 * except those that no device supports: the call then fails with EIO, or destroys an object.
 */
static inline bool uv_call_supported(const struct uv_file *file, const struct ib_device *dev,
				     const struct uv_row *row)
{
	return dev ? test_bit(row->number, uv_file_uvdev(file)->supported_rows) :
		     !(row->flags & UV_UNSUPPORTED);
}

static inline int uv_call_need_context(struct uv_call *call)
{
	/* Pairs with the release in uv_context_finish(). */
	struct ib_ucontext *context = smp_load_acquire(&call->file->base.ucontext);

	if (!call->dev)
		return -EIO;
	if (!context)
		return -EINVAL;
	call->attrs.context = context;
	return 0;
}

/* ---- 2. look up and hold ------------------------------------------------------------ */

static inline void uv_call_hold(struct uv_call *call, const struct uv_field *field, void *object)
{
	call->held[call->nheld].object = object;
	call->held[call->nheld].kind = field->kind;
	call->held[call->nheld].access = field->access;
	call->nheld++;
}

static inline int uv_call_get_events(struct uv_call *call, const struct uv_field *field, u64 fd,
				     void *args)
{
	struct uv_events *events;

	if (!call->dev)
		return -EIO;
	events = uv_events_get_fd(call->file, fd, field->flags & UV_ASYNC);
	if (IS_ERR(events))
		return PTR_ERR(events);
	uv_call_hold(call, field, events);
	*(struct uv_events **)(args + field->arg) = events;
	return 0;
}

/* An object or event file of the request. */
static inline int uv_call_get_handle(struct uv_call *call, const struct uv_field *field, u64 id,
				     void *args)
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
	call->attrs.context = uobj->context;
	*(struct ib_uobject **)(args + field->arg) = uobj;
	return 0;
}

/* ---- 3. reserve ---------------------------------------------------------------------- */

/* Reserves the new object or event file. Other calls find it only after uv_call_finish(). */
static inline int uv_call_create(struct uv_call *call, const struct uv_field *field, void *args)
{
	int err;

	if (field->kind == UV_FD_NEW) {
		if (!call->dev)
			return -EIO;
		err = uv_events_new(call->file, call->dev, field->flags & UV_ASYNC,
				    &call->new_fd);
		if (err)
			return err;
		*(struct uv_events **)(args + field->arg) = call->new_fd.events;
	} else {
		struct ib_uobject *uobj;

		err = uv_call_need_context(call);
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

/* ---- 4. destroy ------------------------------------------------------------------------ */

/*
 * Destroys the object of the request. Its memory is freed by uv_call_finish(), so the
 * handler can read the counters of events.
 */
static inline int uv_call_destroy(struct uv_call *call, void *args)
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

/* ---- 5. run the handler ----------------------------------------------------------------- */

/* Does step 4 first if the command has it. */
static inline int uv_call_execute(struct uv_call *call, void *args)
{
	int err;

	if (call->row->flags & UV_CONTEXT) {
		err = uv_call_need_context(call);
		if (err)
			return err;
	}
	if (call->destroy) {
		err = uv_call_destroy(call, args);
		if (err)
			return err;
		call->executed = true;
	}
	err = call->row->handler ? call->row->handler(call, args) : 0;
	if (!err || call->respond_on_error)
		call->executed = true;
	return err;
}

/* The call cannot be undone, nor repeated. */
static inline bool uv_call_is_final(const struct uv_call *call)
{
	return call->executed && !call->new && !call->new_context && !call->new_fd.events;
}

/* ---- 6. respond -------------------------------------------------------------------------- */

/* The handle or descriptor of the new object or event file, for the response. */
static inline s64 uv_call_new_id(const struct uv_call *call)
{
	return call->new ? call->new->id : call->new_fd.fd;
}

/* After uv_leave(). */
static inline int uv_call_respond_late(const struct uv_call *call)
{
	return copy_to_user(call->late.to, call->late.from, call->late.len) ||
	       clear_user(call->late.to + call->late.len, call->late.clear) ? -EFAULT : 0;
}

/* ---- 7. commit or undo --------------------------------------------------------------------- */

static inline void uv_call_finish(struct uv_call *call, int err)
{
	if (call->new && err)
		uv_object_abort(call->new, &call->attrs);
	else if (call->new)
		uv_object_commit(call->new);

	if (call->new_context)
		uv_context_finish(call, err);

	if (call->new_fd.events && err)
		uv_events_abort(&call->new_fd);
	else if (call->new_fd.events)
		uv_events_commit(&call->new_fd, call->dev);

	while (call->nheld) {
		call->nheld--;
		if (call->held[call->nheld].kind == UV_FD)
			uv_events_put(call->held[call->nheld].object);
		else if (call->held[call->nheld].access == UV_DESTROY)
			uv_object_free_destroyed(call->held[call->nheld].object);
		else
			uv_object_unlock(call->held[call->nheld].object,
					 call->held[call->nheld].access);
	}
}

/* The end of a command, also of one that is refused. */
static inline void uv_call_count(const struct uv_file *file, const struct uv_row *row, int err)
{
	struct uv_stats *stats = uv_file_uvdev(file)->stats;

	atomic64_inc(&stats->row[row->number].calls);
	if (err)
		atomic64_inc(&stats->row[row->number].failed);
	trace_t3_uverbs_command(stats->name, row, err);
}

#endif
