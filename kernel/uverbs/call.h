/* SPDX-License-Identifier: GPL-2.0 */
/* A command under way: what both doors share (call.c), and the handlers (cmd_*.c) see. */
#ifndef T3_UVERBS_CALL_H
#define T3_UVERBS_CALL_H

#include "table.h"
#include "uverbs.h"

/*
 * Where a call works: too large for the stack, and kept with the file for the
 * next call. A command that is carried by another (invoke_write) shares it, so
 * each has its own parts.
 */
struct uv_room {
	/* ioctl: the caller's list, if it is no longer; QP.CREATE has 15, and 2 for the driver. */
	struct ib_uverbs_attr attrs[20];
	u64 ioctl_args[UV_MAX_ARGS / sizeof(u64)];
	/* write(): request or response, and the arguments. */
	u64 wire[UV_MAX_WIRE / sizeof(u64)];
	u64 args[UV_MAX_ARGS / sizeof(u64)];
};

struct uv_call {
	struct uv_file *file;
	struct uv_room *room;
	struct ib_device *dev;		/* NULL: has gone, only destroying makes sense */
	const struct uv_row *row;

	/* write(): the core's part of request and response, for handlers of variable length. */
	const void __user *tail;
	u32 tail_len;
	void __user *out;
	u32 out_len;
	bool answer_error;		/* the response says what failed */

	struct {
		void *object;
		u8 kind;
		u8 access;
	} taken[UV_MAX_TAKEN];
	u8 ntaken;
	struct ib_uobject *new;		/* at most one object or event file is made */
	struct uv_new_fd new_fd;
	struct ib_uobject *doomed;	/* to be destroyed before the handler runs */

	/*
	 * What drivers get: each struct ib_udata that they see is the one in
	 * here, because they go from it to the context by container_of().
	 * Ends in a flexible array, which stays empty: no attribute is present.
	 */
	struct uverbs_attr_bundle attrs;
};

struct uv_room *uv_room_get(struct uv_file *file);
void uv_room_put(struct uv_file *file, struct uv_room *room);
void uv_call_init(struct uv_call *call, struct uv_file *file, struct uv_room *room,
		  struct ib_device *dev, const struct uv_row *row);
int uv_take_handle(struct uv_call *call, const struct uv_field *field, u64 id, void *args);
int uv_make(struct uv_call *call, const struct uv_field *field, void *args);
int uv_execute(struct uv_call *call, void *args);
s64 uv_new_id(const struct uv_call *call);
void uv_finish(struct uv_call *call, int err);
int uv_zero_tail(const void __user *buf, size_t known, size_t len);

int uv_run_write(struct uv_call *call, const void __user *in, size_t in_len, void __user *out,
		 size_t out_len);

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
