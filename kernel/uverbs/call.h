/* SPDX-License-Identifier: GPL-2.0 */
/* One call of a command: the state that write.c, ioctl.c, call.c and the handlers share. */
#ifndef T3_UVERBS_CALL_H
#define T3_UVERBS_CALL_H

#include <t3_race_point.h>

#include "table.h"
#include "uverbs.h"

struct uv_call {
	struct uv_file *file;
	struct ib_device *dev;		/* NULL: was removed; only a destroy can succeed */
	const struct uv_row *row;

	/* A call creates at most one object or event file. */
	struct ib_uobject *new;
	struct uv_new_fd new_fd;	/* valid if ->events is set */
	const struct uv_field *new_field;	/* write(): the field of its handle or descriptor */
	const struct uv_field *destroy;	/* the object to destroy before the handler runs */
	u64 destroy_id;			/* its handle */
	bool respond_on_error;		/* write(): an error has a response too */
	u8 nheld;
	struct {
		void *object;
		u8 kind;
		u8 access;
	} held[UV_MAX_HELD];		/* released by uv_call_finish() */

	/* write(): for handlers whose request or response has a variable length. */
	const void __user *tail;
	u32 tail_len;
	void __user *out;
	u32 out_len;

	/*
	 * Drivers get &attrs.driver_udata. They use container_of() to get the
	 * bundle and its context from it, so they must not get any other
	 * struct ib_udata. The bundle ends in a flexible array of attributes,
	 * which stays empty.
	 */
	struct uverbs_attr_bundle attrs;
};

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
	call->new_field = NULL;
	call->destroy = NULL;
	call->respond_on_error = false;
	call->nheld = 0;
	memset(&call->attrs, 0, sizeof(call->attrs));
	call->attrs.ufile = &file->base;
}

/*
 * Whether the device supports the command. After its removal the answer is yes for all commands but
 * those that no device supports: the call then fails with EIO, or destroys an object.
 */
static inline bool uv_file_supports(const struct uv_file *file, const struct ib_device *dev,
				    const struct uv_row *row)
{
	return dev ? test_bit(row->number, uv_file_uvdev(file)->supported) : !row->unsupported;
}

int uv_call_get_handle(struct uv_call *call, const struct uv_field *field, u64 id, void *args);
int uv_call_destroy(struct uv_call *call, void *args);
void uv_call_finish(struct uv_call *call, int err);
int uv_check_zero_tail(const void __user *buf, size_t known, size_t len);

static inline int uv_call_need_context(struct uv_call *call)
{
	/* Pairs with the release in uv_context_create(). */
	struct ib_ucontext *context = smp_load_acquire(&call->file->base.ucontext);

	if (!call->dev)
		return -EIO;
	if (!context)
		return -EINVAL;
	call->attrs.context = context;
	return 0;
}

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
		T3_RACE_POINT(uverbs_object_destroyed);
	}
	return call->row->handler ? call->row->handler(call, args) : 0;
}

/* The handle or descriptor of the new object or event file. */
static inline s64 uv_call_new_id(const struct uv_call *call)
{
	return call->new ? call->new->id : call->new_fd.fd;
}

static inline struct ib_udata *uv_udata(struct uv_call *call)
{
	return &call->attrs.driver_udata;
}

/* Before the driver is called to undo something: it must not read or write the caller's data. */
static inline struct ib_udata *uv_no_udata(struct uverbs_attr_bundle *attrs)
{
	attrs->driver_udata = (struct ib_udata){};
	return &attrs->driver_udata;
}

#endif
