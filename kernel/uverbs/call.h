/* SPDX-License-Identifier: GPL-2.0 */
/* A command under way: what both doors share (call.c), and the handlers (cmd_*.c) see. */
#ifndef T3_UVERBS_CALL_H
#define T3_UVERBS_CALL_H

#include <t3_race_point.h>

#include "table.h"
#include "uverbs.h"

struct uv_call {
	struct uv_file *file;
	struct ib_device *dev;		/* NULL: has gone, only destroying makes sense */
	const struct uv_row *row;

	struct ib_uobject *new;		/* at most one object or event file is made */
	struct uv_new_fd new_fd;	/* if it has ->events */
	const struct uv_field *new_field;	/* write(): which one that is */
	const struct uv_field *destroy;	/* names what is destroyed before the handler runs */
	u64 destroy_id;			/* the caller's handle for it */
	bool answer_error;		/* the response says what failed */
	u8 ntaken;
	struct {
		void *object;
		u8 kind;
		u8 access;
	} taken[UV_MAX_TAKEN];

	/* write(): the core's part of request and response, for handlers of variable length. */
	const void __user *tail;
	u32 tail_len;
	void __user *out;
	u32 out_len;

	/*
	 * What drivers get: each struct ib_udata that they see is the one in
	 * here, because they go from it to the context by container_of().
	 * Ends in a flexible array, which stays empty: no attribute is present.
	 */
	struct uverbs_attr_bundle attrs;
};

/*
 * What needs no value yet gets none: ->taken is told by ->ntaken, and
 * uv_run_write() fills ->tail and ->out. So the variable is declared __uninitialized,
 * or a kernel that zeroes the stack would do it all once more.
 */
static inline void uv_call_init(struct uv_call *call, struct uv_file *file, struct ib_device *dev,
				const struct uv_row *row)
{
	call->file = file;
	call->dev = dev;
	call->row = row;
	call->new = NULL;
	call->new_fd.events = NULL;
	call->new_field = NULL;
	call->destroy = NULL;
	call->answer_error = false;
	call->ntaken = 0;
	memset(&call->attrs, 0, sizeof(call->attrs));
	call->attrs.ufile = &file->base;
}

/* A device that has gone offers all that anybody could ask of it, and says EIO. */
static inline bool uv_offered(const struct uv_file *file, const struct ib_device *dev,
			      const struct uv_row *row)
{
	return dev ? test_bit(row->number, uv_device_of(file)->offered) : !row->refused;
}

int uv_take_handle(struct uv_call *call, const struct uv_field *field, u64 id, void *args);
int uv_destroy(struct uv_call *call, void *args);
void uv_finish(struct uv_call *call, int err);
int uv_zero_tail(const void __user *buf, size_t known, size_t len);

static inline int uv_need_context(struct uv_call *call)
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

/* What the command is to make: reserved now, seen by others only after uv_finish(). */
static inline int uv_make(struct uv_call *call, const struct uv_field *field, void *args)
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

		err = uv_need_context(call);
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

static inline int uv_execute(struct uv_call *call, void *args)
{
	int err;

	if (call->row->flags & UV_CONTEXT) {
		err = uv_need_context(call);
		if (err)
			return err;
	}
	if (call->destroy) {
		err = uv_destroy(call, args);
		if (err)
			return err;
		T3_RACE_POINT(uverbs_object_destroyed);
	}
	return call->row->handler ? call->row->handler(call, args) : 0;
}

/* The handle or descriptor of what was made. */
static inline s64 uv_new_id(const struct uv_call *call)
{
	return call->new ? call->new->id : call->new_fd.fd;
}

static inline struct ib_udata *uv_udata(struct uv_call *call)
{
	return &call->attrs.driver_udata;
}

/* For undoing: the driver must not find the caller's data again. */
static inline struct ib_udata *uv_no_udata(struct uverbs_attr_bundle *attrs)
{
	attrs->driver_udata = (struct ib_udata){};
	return &attrs->driver_udata;
}

#endif
