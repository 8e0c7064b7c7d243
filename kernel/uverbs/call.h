/* SPDX-License-Identifier: GPL-2.0 */
/* The state of a call, for its steps (steps.h) and the handlers (cmd_*.c). */
#ifndef T3_UVERBS_CALL_H
#define T3_UVERBS_CALL_H

#include "table.h"
#include "uverbs.h"

struct uv_call {
	struct uv_file *file;
	struct ib_device *dev;		/* NULL: was removed; only a destroy can succeed */
	const struct uv_row *row;

	/* A call creates at most one object or event file. */
	struct ib_uobject *new;
	struct uv_new_fd new_fd;	/* valid if ->events is set */
	struct ib_ucontext *new_context;	/* GET_CONTEXT holds ucontext_lock from then on */
	const struct uv_write_field *new_field;	/* write(): the field of its handle or descriptor */
	const struct uv_field *destroy;	/* the object to destroy before the handler runs */
	u64 destroy_id;			/* its handle */
	bool respond_on_error;		/* write(): an error has a response too */
	bool executed;			/* the handler has succeeded, or an object is destroyed */
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

	/* write(): a response that is copied when the device is released. See uv_enter(). */
	struct {
		const void *from;
		void __user *to;	/* or NULL */
		size_t len;
		size_t clear;		/* after them */
	} late;

	/*
	 * Drivers get &attrs.driver_udata. They use container_of() to get the
	 * bundle and its context from it, so they must not get any other
	 * struct ib_udata. The bundle ends in a flexible array of attributes,
	 * which stays empty.
	 */
	struct uverbs_attr_bundle attrs;
};

void uv_context_finish(struct uv_call *call, int err);

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
