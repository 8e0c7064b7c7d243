/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Runs a command of the write() ABI. write.c and INVOKE_WRITE in ioctl.c inline
 * it: most commands are so short that a function call is measurable.
 */
#ifndef T3_UVERBS_RUN_WRITE_H
#define T3_UVERBS_RUN_WRITE_H

#include <t3_copy.h>

#include "steps.h"

/* t3_zero() clears parts of buffers of these sizes. */
static_assert(UV_MAX_WIRE % T3_ZERO_STEP == 0 && UV_MAX_ARGS % T3_ZERO_STEP == 0);

/* The core's parts of a request and of its response. */
struct uv_write_parts {
	const void __user *in;
	void __user *out;
	size_t in_len, out_len;
};

/*
 * Copies the core's part of a request. Only the first row->write.request bytes of wire are used.
 * The part that a short request lacks is zero.
 */
static __always_inline int uv_write_copy(const struct uv_row *row, u64 *wire,
					 const struct uv_write_parts *parts)
{
	size_t known = min_t(size_t, parts->in_len, row->write.request);

	if (t3_copy_in(wire, UV_MAX_WIRE, parts->in, known))
		return -EFAULT;
	if (known < row->write.request)
		memset((void *)wire + known, 0, row->write.request - known);
	return 0;
}

/* Most values have 4 or 8 bytes. */
static __always_inline void uv_copy_value(void *to, const void *from, u16 len)
{
	if (len == sizeof(u32))
		memcpy(to, from, sizeof(u32));
	else if (len == sizeof(u64))
		memcpy(to, from, sizeof(u64));
	else
		memcpy(to, from, len);
}

static inline int uv_write_in(struct uv_call *call, const struct uv_write_field *field, void *wire,
			      void *args)
{
	const void *from = wire + field->request_offset;
	u32 bits;

	switch (field->f.kind) {
	case UV_IN:
		uv_copy_value(args + field->f.arg, from, field->f.len);
		return 0;
	case UV_BITS:
		bits = field->f.len == sizeof(u8) ? *(u8 *)from : *(u32 *)from;
		return bits & ~field->f.allowed ? field->error : 0;
	case UV_OBJ:
		if (field->when && !field->when(wire))
			return 0;
		return uv_call_get_handle(call, &field->f, *(u32 *)from, args);
	case UV_FD:
		if (field->f.flags & UV_OPTIONAL && *(s32 *)from < 0)
			return 0;
		return uv_call_get_handle(call, &field->f, *(s32 *)from, args);
	case UV_NEW:
	case UV_FD_NEW:
		call->new_field = field;
		return uv_call_create(call, &field->f, args);
	default:
		return 0;
	}
}

static inline void uv_write_out(struct uv_call *call, const struct uv_write_field *field,
				void *wire, void *args, size_t out_len)
{
	switch (field->f.kind) {
	case UV_OUT:
		uv_copy_value(wire + field->response_offset, args + field->f.arg, field->f.len);
		break;
	case UV_OUT_LEN:
		*(u32 *)(wire + field->response_offset) = min_t(size_t, out_len,
								call->row->write.response);
		break;
	}
}

/*
 * The caller has parsed the header, checked that the request is not too short, copied it to wire
 * and set call->attrs.driver_udata. It calls uv_call_finish(). The response is built in wire, too,
 * which must exist until uv_call_respond_late().
 */
static __always_inline int uv_run_write(struct uv_call *call, u64 *wire,
					const struct uv_write_parts *parts)
{
	const struct uv_row *row = call->row;
	/* Only the first row->args_size bytes are used; each is written before it is read. */
	u64 args[UV_MAX_ARGS / sizeof(u64)] __uninitialized;
	size_t known = min_t(size_t, parts->in_len, row->write.request);
	const struct uv_write_field *field, *end = row->write.fields + row->write.ninputs;
	size_t space;
	int err;

	if (row->flags & UV_TAIL) {
		call->tail = parts->in + known;
		call->tail_len = parts->in_len - known;
	} else {
		err = t3_check_zero_tail(parts->in, known, parts->in_len);
		if (err)
			return err;
	}
	call->out = parts->out;
	call->out_len = parts->out_len;

	t3_zero(args, row->args_size);
	for (field = row->write.fields; field < end; field++) {
		err = uv_write_in(call, field, wire, args);
		if (err)
			return err;
	}

	err = uv_call_execute(call, args);
	if ((err && !call->respond_on_error) || !row->write.response ||
	    row->flags & UV_OWN_RESPONSE)
		return err;

	t3_zero(wire, row->write.response);
	if (call->new_field)
		*(u32 *)((void *)wire + call->new_field->response_offset) = uv_call_new_id(call);
	for (end = row->write.fields + row->nfields; field < end; field++)
		uv_write_out(call, field, wire, args, parts->out_len);
	space = min_t(size_t, parts->out_len, row->write.response);
	if (!t3_copy_out(parts->out, wire, UV_MAX_WIRE, space) &&
	    (parts->out_len <= space || !clear_user(parts->out + space, parts->out_len - space)))
		return err;
	if (!uv_call_is_final(call))
		return -EFAULT;
	call->late.from = wire;
	call->late.to = parts->out;
	call->late.len = space;
	call->late.clear = parts->out_len - space;
	return err;
}

#endif
