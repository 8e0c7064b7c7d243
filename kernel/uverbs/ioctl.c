// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctl ABI: RDMA_VERBS_IOCTL with a list of attributes, each of which has an
 * id, a length and a value or address. The row's fields are the known attributes.
 * An unknown attribute is ignored unless it has UVERBS_ATTR_F_MANDATORY.
 *
 * After EPROTONOSUPPORT libibverbs repeats the command by write(). So it is
 * returned only where write() may succeed instead: reserved header fields,
 * unknown methods or attributes, functions that the driver lacks. Never by a
 * handler.
 */

#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <t3_copy.h>

#include "rows.h"
#include "run_write.h"
#include "steps.h"

/* A longer list is allocated. QP_CREATE has 15 attributes and 2 for the driver. */
#define STACK_ATTRS 20

/* The indices of a list, which is shorter than a page, fit into 16 bits. */
static_assert(PAGE_SIZE / sizeof(struct ib_uverbs_attr) <= U16_MAX);

struct uv_ioctl_call {
	const struct uv_row *row;
	struct ib_uverbs_attr __user *user;	/* the caller's list */
	const struct ib_uverbs_attr *attrs;	/* the copy in the kernel */
	unsigned int nattrs;
	u32 present;			/* set of the fields that have an attribute */
	u16 attr_of_field[UV_MAX_FIELDS];	/* index of the attribute of a present field */
	u16 uhw_out;			/* index of UHW_OUT + 1, 0: absent */
	u64 wire[UV_MAX_WIRE / sizeof(u64)];	/* of INVOKE_WRITE */
	struct uv_call call;		/* ends in a flexible array */
};

/* A value of up to 8 bytes is stored in the attribute itself. */
static bool uv_attr_is_inline(const struct ib_uverbs_attr *attr)
{
	return attr->len <= sizeof(attr->data);
}

static int uv_attr_read(const struct ib_uverbs_attr *attr, void *to, size_t size, size_t len)
{
	if (uv_attr_is_inline(attr))
		memcpy(to, &attr->data, len);
	else
		return t3_copy_in(to, size, u64_to_user_ptr(attr->data), len);
	return 0;
}

static int uv_ioctl_in_bytes(const struct uv_ioctl_field *field, const struct ib_uverbs_attr *attr,
			     void *args)
{
	if (attr->len > field->f.len && field->f.flags & UV_EXTENSIBLE) {
		int err;

		if (uv_attr_is_inline(attr))
			err = memchr_inv((const void *)&attr->data + field->f.len, 0,
					 attr->len - field->f.len) ? -EOPNOTSUPP : 0;
		else
			err = t3_check_zero_tail(u64_to_user_ptr(attr->data), field->f.len,
						 attr->len);
		if (err)
			return err;
	}
	if (attr->len < field->min_len ||
	    (attr->len > field->f.len && !(field->f.flags & UV_EXTENSIBLE)))
		return -EINVAL;
	return uv_attr_read(attr, args + field->f.arg, UV_MAX_ARGS - field->f.arg,
			    min(attr->len, field->f.len));
}

static int uv_ioctl_in_const(const struct uv_ioctl_field *field, const struct ib_uverbs_attr *attr,
			     void *args)
{
	if (attr->len != sizeof(u64) ||
	    (field->f.len < sizeof(u64) && attr->data >> (8 * field->f.len)))
		return -EINVAL;
	switch (field->f.len) {
	case 1:
		*(u8 *)(args + field->f.arg) = attr->data;
		break;
	case 2:
		*(u16 *)(args + field->f.arg) = attr->data;
		break;
	case 4:
		*(u32 *)(args + field->f.arg) = attr->data;
		break;
	case 8:
		*(u64 *)(args + field->f.arg) = attr->data;
		break;
	}
	return 0;
}

static int uv_ioctl_in_flags(const struct uv_ioctl_field *field, const struct ib_uverbs_attr *attr,
			     void *args)
{
	u64 flags;

	if (attr->len == sizeof(u64))
		flags = attr->data;
	else if (attr->len == sizeof(u32))
		flags = *(const u32 *)&attr->data;
	else
		return -EINVAL;
	if (flags & ~(u64)field->f.allowed)
		return -EINVAL;
	*(u32 *)(args + field->f.arg) = flags;
	return 0;
}

static int uv_ioctl_in_attr(struct uv_ioctl_call *io, const struct uv_ioctl_field *field,
			    const struct ib_uverbs_attr *attr, void *args)
{
	struct uv_buf *buf;

	if (attr->attr_data.reserved)
		return -EINVAL;
	switch (field->f.kind) {
	case UV_IN:
		return uv_ioctl_in_bytes(field, attr, args);
	case UV_CONST:
		return uv_ioctl_in_const(field, attr, args);
	case UV_FLAGS:
		return uv_ioctl_in_flags(field, attr, args);
	case UV_OUT:
		return attr->len < field->min_len ||
		       (attr->len > field->f.len &&
			!(field->f.flags & UV_EXTENSIBLE)) ? -EINVAL : 0;
	case UV_BUF:
		if (attr->len < field->min_len)
			return -EINVAL;
		buf = args + field->f.arg;
		buf->len = attr->len;
		/* An inline value is read from the attribute in the caller's memory. */
		if (!(field->f.flags & UV_BUF_OUT) && uv_attr_is_inline(attr))
			buf->ptr = &io->user[attr - io->attrs].data;
		else
			buf->ptr = u64_to_user_ptr(attr->data);
		return 0;
	case UV_OBJ:
	case UV_FD:
		return attr->len ? -EINVAL : uv_call_get_handle(&io->call, &field->f, attr->data,
								args);
	case UV_NEW:
	case UV_FD_NEW:
		return attr->len ? -EINVAL : uv_call_create(&io->call, &field->f, args);
	default:
		return -EINVAL;
	}
}

/* An attribute without a field: the driver's, or an unknown one. */
static int uv_ioctl_other_attr(struct uv_ioctl_call *io, const struct ib_uverbs_attr *attr)
{
	struct ib_udata *udata = uv_udata(&io->call);

	if (!(io->row->flags & UV_DRIVER_DATA) || (attr->attr_id != UVERBS_ATTR_UHW_IN &&
						   attr->attr_id != UVERBS_ATTR_UHW_OUT))
		return attr->flags & UVERBS_ATTR_F_MANDATORY ? -EPROTONOSUPPORT : 0;
	if (attr->attr_data.reserved)
		return -EINVAL;
	if (attr->attr_id == UVERBS_ATTR_UHW_OUT) {
		if (io->uhw_out)
			return -EINVAL;
		io->uhw_out = attr - io->attrs + 1;
		udata->outbuf = u64_to_user_ptr(attr->data);
		udata->outlen = attr->len;
	} else {
		if (udata->inbuf)
			return -EINVAL;
		udata->inbuf = uv_attr_is_inline(attr) ? &io->user[attr - io->attrs].data :
							 u64_to_user_ptr(attr->data);
		udata->inlen = attr->len;
	}
	return 0;
}

/* The index of the attribute's field, or -1. */
static int uv_ioctl_find_field(const struct uv_row *row, u16 id)
{
	if (id >= UV_MAX_ATTRS)
		return -1;
	return row->ioctl.field_of_attr[array_index_nospec(id, UV_MAX_ATTRS)] - 1;
}

static int uv_ioctl_in_attrs(struct uv_ioctl_call *io, void *args)
{
	const struct uv_row *row = io->row;
	const struct ib_uverbs_attr *attr = io->attrs, *end = attr + io->nattrs;
	int field, err;

	for (; attr < end; attr++) {
		field = uv_ioctl_find_field(row, attr->attr_id);
		if (field < 0) {
			err = uv_ioctl_other_attr(io, attr);
			if (err)
				return err;
			continue;
		}
		if (io->present & BIT(field))
			return -EINVAL;
		io->present |= BIT(field);
		io->attr_of_field[field] = attr - io->attrs;
		err = uv_ioctl_in_attr(io, &row->ioctl.fields[field], attr, args);
		if (err)
			return err;
	}
	return row->ioctl.mandatory & ~io->present ? -EINVAL : 0;
}

/* Marks an attribute as written. */
static int uv_ioctl_mark_output(struct uv_ioctl_call *io, unsigned int index)
{
	return put_user((u16)(io->attrs[index].flags | UVERBS_ATTR_F_VALID_OUTPUT),
			&io->user[index].flags) ? -EFAULT : 0;
}

static int uv_ioctl_out_bytes(struct uv_ioctl_call *io, const struct uv_ioctl_field *field,
			      unsigned int index, const void *args)
{
	void __user *to = u64_to_user_ptr(io->attrs[index].data);
	size_t space = io->attrs[index].len;
	size_t len = min_t(size_t, space, field->f.len);

	if (t3_copy_out(to, args + field->f.arg, UV_MAX_ARGS - field->f.arg, len) ||
	    (space > len && clear_user(to + len, space - len)))
		return -EFAULT;
	return uv_ioctl_mark_output(io, index);
}

static int uv_ioctl_out_attrs(struct uv_ioctl_call *io, const void *args)
{
	const struct uv_row *row = io->row;
	u32 pending = row->ioctl.outputs & io->present;
	int err = 0;

	for (; pending && !err; pending &= pending - 1) {
		const struct uv_ioctl_field *field = &row->ioctl.fields[__ffs(pending)];
		unsigned int index = io->attr_of_field[__ffs(pending)];

		switch (field->f.kind) {
		case UV_OUT:
			err = uv_ioctl_out_bytes(io, field, index, args);
			break;
		case UV_BUF:
			if (((const struct uv_buf *)(args + field->f.arg))->len)
				err = uv_ioctl_mark_output(io, index);
			break;
		case UV_NEW:
		case UV_FD_NEW:
			if (put_user((u64)uv_call_new_id(&io->call), &io->user[index].data))
				err = -EFAULT;
			break;
		}
	}
	/* Drivers do not report whether they wrote a response. */
	if (!err && io->uhw_out)
		err = uv_ioctl_mark_output(io, io->uhw_out - 1);
	return err;
}

/* The memory of an attribute. Return: false if it cannot be accessed at all. */
static bool uv_ioctl_fault_in_attr(const struct uv_row *row, const struct ib_uverbs_attr *attr)
{
	const void __user *at = u64_to_user_ptr(attr->data);
	int field = uv_ioctl_find_field(row, attr->attr_id);
	const struct uv_field *f;

	if (field < 0) {
		if (!(row->flags & UV_DRIVER_DATA))
			return true;
		if (attr->attr_id == UVERBS_ATTR_UHW_OUT)
			return uv_fault_in_writeable(at, attr->len);
		return attr->attr_id != UVERBS_ATTR_UHW_IN || uv_attr_is_inline(attr) ||
		       uv_fault_in_readable(at, attr->len);
	}
	f = &row->ioctl.fields[field].f;
	if (f->kind == UV_OUT || (f->kind == UV_BUF && f->flags & UV_BUF_OUT))
		return uv_fault_in_writeable(at, attr->len);
	if (f->kind != UV_IN && f->kind != UV_BUF)
		return true;
	return uv_attr_is_inline(attr) || uv_fault_in_readable(at, attr->len);
}

/* Return: false if memory of the call cannot be accessed at all. */
static noinline bool uv_ioctl_fault_in(const struct uv_ioctl_call *io, size_t bytes)
{
	unsigned int i;

	/* A list without outputs may be constant. */
	if (!uv_fault_in_writeable(io->user, bytes) && !uv_fault_in_readable(io->user, bytes))
		return false;
	for (i = 0; i < io->nattrs; i++)
		if (!uv_ioctl_fault_in_attr(io->row, &io->attrs[i]))
			return false;
	return true;
}

/* The row of a method that the device supports. @row is set if there is one at all. */
static __always_inline int uv_ioctl_find(const struct uv_file *file, const struct ib_device *dev,
					 const struct ib_uverbs_ioctl_hdr *hdr,
					 const struct uv_row **row)
{
	*row = NULL;
	if (dev && hdr->driver_id != dev->ops.driver_id)
		return -EINVAL;
	*row = uv_find_ioctl(hdr->object_id, hdr->method_id);
	if (!*row)
		return -EPROTONOSUPPORT;
	/* After EPROTONOSUPPORT libibverbs repeats the command by write(). */
	if (!uv_call_supported(file, dev, *row))
		return (*row)->flags & UV_UNSUPPORTED ? -EOPNOTSUPP : -EPROTONOSUPPORT;
	return 0;
}

static __always_inline int uv_ioctl_run(struct uv_file *file,
					const struct ib_uverbs_ioctl_hdr *hdr,
					struct ib_uverbs_attr __user *user)
{
	struct ib_uverbs_attr stack_attrs[STACK_ATTRS] __uninitialized, *attrs = stack_attrs;
	size_t bytes = array_size(hdr->num_attrs, sizeof(*attrs)), size = sizeof(stack_attrs);
	u64 args[UV_MAX_ARGS / sizeof(u64)] __uninitialized;
	struct uv_ioctl_call io __uninitialized;
	unsigned int repeats = 0;
	struct ib_device *dev;
	bool mark_late = false;
	int srcu, err;

	if (hdr->num_attrs > ARRAY_SIZE(stack_attrs)) {
		attrs = kmalloc(bytes, GFP_KERNEL_ACCOUNT);
		if (!attrs)
			return -ENOMEM;
		size = bytes;
	}
	io.user = user;
	io.attrs = attrs;
repeat:
	srcu = uv_enter(file);
	dev = uv_file_ibdev(file);
	uv_call_init(&io.call, file, dev, NULL);
	err = uv_ioctl_find(file, dev, hdr, &io.row);
	if (err)
		goto leave;
	io.present = 0;
	io.uhw_out = 0;
	io.nattrs = 0;
	io.call.row = io.row;
	t3_zero(args, io.row->args_size);

	err = t3_copy_in(attrs, size, user, bytes);
	if (!err) {
		io.nattrs = hdr->num_attrs;
		err = uv_ioctl_in_attrs(&io, args);
	}
	if (!err) {
		err = uv_call_execute(&io.call, args);
		/* See the top: libibverbs would repeat the command by write(). */
		if (WARN_ON_ONCE(err == -EPROTONOSUPPORT))
			err = -EINVAL;
	}
	if (!err) {
		err = uv_ioctl_out_attrs(&io, args);
		if (unlikely(err) && uv_call_is_final(&io.call)) {
			mark_late = true;
			err = 0;
		}
	}
	uv_call_finish(&io.call, err);
leave:
	uv_leave(file, srcu);
	if (unlikely(err == -EFAULT) && !uv_call_is_final(&io.call) &&
	    repeats++ < UV_MAX_REPEATS && uv_ioctl_fault_in(&io, bytes))
		goto repeat;
	if (unlikely(io.call.late.to) && uv_call_respond_late(&io.call))
		err = -EFAULT;
	else if (unlikely(mark_late))
		err = uv_ioctl_out_attrs(&io, args);
	if (io.row)
		uv_call_count(file, io.row, err);
	if (attrs != stack_attrs)
		kfree(attrs);
	return err;
}

long uv_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct ib_uverbs_ioctl_hdr __user *user = (void __user *)arg;
	struct ib_uverbs_ioctl_hdr hdr __uninitialized;

	if (cmd != RDMA_VERBS_IOCTL)
		return -ENOIOCTLCMD;
	if (t3_copy_in(&hdr, sizeof(hdr), user, sizeof(hdr)))
		return -EFAULT;
	if (hdr.length > PAGE_SIZE || hdr.length != struct_size(&hdr, attrs, hdr.num_attrs))
		return -EINVAL;
	if (hdr.reserved1 || hdr.reserved2)
		return -EPROTONOSUPPORT;

	return uv_ioctl_run(filp->private_data, &hdr, user->attrs);
}

struct uv_invoke_write {
	u32 command;
	struct uv_buf in, out;
};

/*
 * INVOKE_WRITE: a command of the write() ABI in an ioctl. It has no header; the driver's parts are
 * the UHW attributes. What it creates belongs to the call of the ioctl, which may still fail when
 * it marks the attributes.
 */
static int uv_do_invoke_write(struct uv_call *call, void *args)
{
	struct uv_invoke_write *a = args;
	const struct uv_row *ioctl_row = call->row, *row = uv_find_write(a->command);
	struct uv_write_parts parts = { a->in.ptr, a->out.ptr, a->in.len, a->out.len };
	u64 *wire = container_of(call, struct uv_ioctl_call, call)->wire;
	int err;

	if (IS_ERR(row))
		return PTR_ERR(row);
	if (!uv_call_supported(call->file, call->dev, row)) {
		err = -EOPNOTSUPP;
	} else if (a->in.len < row->write.request_min || a->out.len < row->write.response_min) {
		err = -ENOSPC;
	} else {
		if (!(row->flags & UV_DRIVER_DATA))
			uv_no_udata(&call->attrs);
		call->row = row;
		err = uv_write_copy(row, wire, &parts);
		if (!err)
			err = uv_run_write(call, wire, &parts);
		call->row = ioctl_row;
		if (!row->write.response)
			a->out.len = 0;
	}
	uv_call_count(call->file, row, err);
	return err;
}

struct uv_row uv_ioctl_rows[] __ro_after_init = { {
	.name = "invoke_write",
	UV_IOCTL_METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE),
	.flags = UV_DRIVER_DATA,
	.handler = uv_do_invoke_write,
	UV_IOCTL_FIELDS(uv_invoke_write,
			A_BUF(UVERBS_ATTR_CORE_IN, sizeof(u32), in, UV_OPTIONAL),
			A_BUF(UVERBS_ATTR_CORE_OUT, 0, out, UV_BUF_OUT | UV_OPTIONAL),
			A_CONST(UVERBS_ATTR_WRITE_CMD, command)),
}, {
	/* the end */
} };
