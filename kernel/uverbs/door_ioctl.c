// SPDX-License-Identifier: GPL-2.0
/*
 * The newer door: RDMA_VERBS_IOCTL with a list of attributes, each an id, a
 * length and a value or address. The row's fields are the attributes that we
 * know; those that we do not know are ignored unless the caller says that they
 * matter. libibverbs goes to write() when it gets EPROTONOSUPPORT, so that is
 * said only of a method or attribute that is not here, never by a handler.
 */

#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <t3_race_point.h>

#include "args.h"
#include "copy.h"
#include "run_write.h"

/* The caller's list is on our stack unless it is longer; QP.CREATE has 15, and 2 for the driver. */
#define FEW_ATTRS 20

/* An ioctl under way. */
struct ioctl_call {
	const struct uv_row *row;
	struct ib_uverbs_attr __user *user;	/* the caller's list */
	const struct ib_uverbs_attr *attrs;	/* our copy */
	unsigned int nattrs;
	u32 given;			/* the fields that have an attribute */
	u8 index[UV_MAX_FIELDS];	/* of a field that is given: its attribute */
	u8 uhw_out;			/* the one for the driver's response + 1, 0: not given */
	struct uv_call call;		/* ends in a flexible array */
};

/* Small values stand in the attribute itself. */
static bool is_inline(const struct ib_uverbs_attr *attr)
{
	return attr->len <= sizeof(attr->data);
}

static int read_value(const struct ib_uverbs_attr *attr, void *to, size_t size, size_t len)
{
	if (is_inline(attr))
		memcpy(to, &attr->data, len);
	else
		return uv_copy_in(to, size, u64_to_user_ptr(attr->data), len);
	return 0;
}

static int in_bytes(const struct uv_field *field, const struct ib_uverbs_attr *attr, void *args)
{
	if (attr->len > field->len && field->flags & UV_EXTENDS) {
		int err;

		if (is_inline(attr))
			err = memchr_inv((const void *)&attr->data + field->len, 0,
					 attr->len - field->len) ? -EOPNOTSUPP : 0;
		else
			err = uv_zero_tail(u64_to_user_ptr(attr->data), field->len, attr->len);
		if (err)
			return err;
	}
	if (attr->len < field->min || (attr->len > field->len && !(field->flags & UV_EXTENDS)))
		return -EINVAL;
	return read_value(attr, args + field->arg, UV_MAX_ARGS - field->arg,
			  min(attr->len, field->len));
}

static int in_const(const struct uv_field *field, const struct ib_uverbs_attr *attr, void *args)
{
	if (attr->len != sizeof(u64) ||
	    (field->len < sizeof(u64) && attr->data >> (8 * field->len)))
		return -EINVAL;
	switch (field->len) {
	case 1:
		*(u8 *)(args + field->arg) = attr->data;
		break;
	case 2:
		*(u16 *)(args + field->arg) = attr->data;
		break;
	case 4:
		*(u32 *)(args + field->arg) = attr->data;
		break;
	case 8:
		*(u64 *)(args + field->arg) = attr->data;
		break;
	}
	return 0;
}

static int in_flags(const struct uv_field *field, const struct ib_uverbs_attr *attr, void *args)
{
	u64 flags;

	if (attr->len == sizeof(u64))
		flags = attr->data;
	else if (attr->len == sizeof(u32))
		flags = *(const u32 *)&attr->data;
	else
		return -EINVAL;
	if (flags & ~(u64)field->allowed)
		return -EINVAL;
	*(u32 *)(args + field->arg) = flags;
	return 0;
}

static int in_attr(struct ioctl_call *io, const struct uv_field *field,
		   const struct ib_uverbs_attr *attr, void *args)
{
	struct uv_buf *buf;

	if (attr->attr_data.reserved)
		return -EINVAL;
	switch (field->kind) {
	case UV_IN:
		return in_bytes(field, attr, args);
	case UV_CONST:
		return in_const(field, attr, args);
	case UV_FLAGS:
		return in_flags(field, attr, args);
	case UV_OUT:
		return attr->len < field->min ||
		       (attr->len > field->len && !(field->flags & UV_EXTENDS)) ? -EINVAL : 0;
	case UV_BUF:
		if (attr->len < field->min)
			return -EINVAL;
		buf = args + field->arg;
		buf->len = attr->len;
		/* A small value to be read is where the attribute is. */
		if (!(field->flags & UV_WRITES) && is_inline(attr))
			buf->at = &io->user[attr - io->attrs].data;
		else
			buf->at = u64_to_user_ptr(attr->data);
		return 0;
	case UV_OBJ:
	case UV_FD:
		return attr->len ? -EINVAL : uv_take_handle(&io->call, field, attr->data, args);
	case UV_NEW:
	case UV_FD_NEW:
		return attr->len ? -EINVAL : uv_make(&io->call, field, args);
	default:
		return -EINVAL;
	}
}

/* One that is no field: the driver's, or one that we do not know. */
static int other_attr(struct ioctl_call *io, const struct ib_uverbs_attr *attr)
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
		udata->inbuf = is_inline(attr) ? &io->user[attr - io->attrs].data :
						 u64_to_user_ptr(attr->data);
		udata->inlen = attr->len;
	}
	return 0;
}

static const struct uv_field *find_field(const struct uv_row *row, u16 id)
{
	u8 place = id < UV_MAX_ATTRS ? row->place[array_index_nospec(id, UV_MAX_ATTRS)] : 0;

	return place ? &row->fields[place - 1] : NULL;
}

static int in_attrs(struct ioctl_call *io, void *args)
{
	const struct uv_row *row = io->row;
	const struct ib_uverbs_attr *attr;
	const struct uv_field *field;
	u32 bit;
	int err;

	for (attr = io->attrs; attr < io->attrs + io->nattrs; attr++) {
		field = find_field(row, attr->attr_id);
		if (!field) {
			err = other_attr(io, attr);
			if (err)
				return err;
			continue;
		}
		bit = BIT(field - row->fields);
		if (io->given & bit)
			return -EINVAL;
		io->given |= bit;
		io->index[field - row->fields] = attr - io->attrs;
		err = in_attr(io, field, attr, args);
		if (err)
			return err;
	}
	return row->wanted & ~io->given ? -EINVAL : 0;
}

/* Tells the caller that an answer was written. */
static int mark_output(struct ioctl_call *io, unsigned int index)
{
	return put_user((u16)(io->attrs[index].flags | UVERBS_ATTR_F_VALID_OUTPUT),
			&io->user[index].flags) ? -EFAULT : 0;
}

static int out_bytes(struct ioctl_call *io, const struct uv_field *field, unsigned int index,
		     const void *args)
{
	void __user *to = u64_to_user_ptr(io->attrs[index].data);
	size_t room = io->attrs[index].len;
	size_t len = min_t(size_t, room, field->len);

	if (uv_copy_out(to, args + field->arg, UV_MAX_ARGS - field->arg, len) ||
	    (room > len && clear_user(to + len, room - len)))
		return -EFAULT;
	return mark_output(io, index);
}

static int out_attrs(struct ioctl_call *io, const void *args)
{
	const struct uv_row *row = io->row;
	u32 left = row->answered & io->given;
	int err = 0;

	for (; left && !err; left &= left - 1) {
		const struct uv_field *field = &row->fields[__ffs(left)];
		unsigned int index = io->index[field - row->fields];

		switch (field->kind) {
		case UV_OUT:
			err = out_bytes(io, field, index, args);
			break;
		case UV_BUF:
			if (((const struct uv_buf *)(args + field->arg))->len)
				err = mark_output(io, index);
			break;
		case UV_NEW:
		case UV_FD_NEW:
			if (put_user((u64)uv_new_id(&io->call), &io->user[index].data))
				err = -EFAULT;
			break;
		}
	}
	/* Drivers do not say whether they answered. */
	if (!err && io->uhw_out)
		err = mark_output(io, io->uhw_out - 1);
	return err;
}

static int run(struct uv_file *file, struct ib_device *dev, const struct ib_uverbs_ioctl_hdr *hdr,
	       struct ib_uverbs_attr __user *user)
{
	struct ib_uverbs_attr few[FEW_ATTRS] __uninitialized, *attrs = few;
	size_t size = sizeof(few);
	u64 args[UV_MAX_ARGS / sizeof(u64)] __uninitialized;
	struct ioctl_call io __uninitialized;
	const struct uv_row *row;
	size_t bytes;
	int err;

	if (dev && hdr->driver_id != dev->ops.driver_id)
		return -EINVAL;
	row = uv_find_ioctl(hdr->object_id, hdr->method_id);
	if (!row)
		return -EPROTONOSUPPORT;
	if (!uv_offered(file, dev, row)) {
		/* Not done here, or not a method of this device: only then write() is tried. */
		err = row->refused ? -EOPNOTSUPP : -EPROTONOSUPPORT;
		uv_stats_count(uv_device_of(file), row, err);
		return err;
	}

	bytes = array_size(hdr->num_attrs, sizeof(*attrs));
	if (hdr->num_attrs > ARRAY_SIZE(few)) {
		attrs = kmalloc(bytes, GFP_KERNEL_ACCOUNT);
		if (!attrs)
			return -ENOMEM;
		size = bytes;
	}
	io.given = 0;
	io.uhw_out = 0;
	io.row = row;
	io.user = user;
	io.attrs = attrs;
	io.nattrs = hdr->num_attrs;
	uv_call_init(&io.call, file, dev, row);
	uv_zero(args, row->args);

	err = uv_copy_in(attrs, size, user, bytes) ?: in_attrs(&io, args);
	T3_RACE_POINT(uverbs_ioctl_read);
	if (!err) {
		err = uv_execute(&io.call, args);
		/* See the top: libibverbs would do it again, by write(). */
		if (WARN_ON_ONCE(err == -EPROTONOSUPPORT))
			err = -EINVAL;
	}
	T3_RACE_POINT(uverbs_ioctl_executed);
	if (!err)
		err = out_attrs(&io, args);
	T3_RACE_POINT(uverbs_ioctl_answered);
	uv_finish(&io.call, err);
	uv_stats_count(uv_device_of(file), row, err);
	if (attrs != few)
		kfree(attrs);
	return err;
}

long uv_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct ib_uverbs_ioctl_hdr __user *user = (void __user *)arg;
	struct uv_file *file = filp->private_data;
	struct srcu_struct *srcu = &file->base.device->disassociate_srcu;
	struct ib_uverbs_ioctl_hdr hdr __uninitialized;
	int idx, err;

	if (cmd != RDMA_VERBS_IOCTL)
		return -ENOIOCTLCMD;
	if (uv_copy_in(&hdr, sizeof(hdr), user, sizeof(hdr)))
		return -EFAULT;
	if (hdr.length > PAGE_SIZE || hdr.length != struct_size(&hdr, attrs, hdr.num_attrs))
		return -EINVAL;
	if (hdr.reserved1 || hdr.reserved2)
		return -EPROTONOSUPPORT;

	T3_RACE_POINT(uverbs_ioctl_copied);
	idx = srcu_read_lock(srcu);
	err = run(file, uv_file_device(file), &hdr, user->attrs);
	T3_RACE_POINT(uverbs_ioctl_finished);
	srcu_read_unlock(srcu, idx);
	return err;
}

/*
 * A command of the other door, carried through this one: it has no header, and
 * the driver's parts are attributes of their own.
 */
int uv_do_invoke_write(struct uv_call *outer, void *args)
{
	struct uv_invoke_write *a = args;
	const struct uv_row *row = uv_find_write(a->command);
	struct uv_call call __uninitialized;
	int err;

	if (IS_ERR(row))
		return PTR_ERR(row);
	if (!uv_offered(outer->file, outer->dev, row)) {
		err = -EOPNOTSUPP;
	} else if (a->in.len < row->request_min || a->out.len < row->response_min) {
		err = -ENOSPC;
	} else {
		uv_call_init(&call, outer->file, outer->dev, row);
		if (row->flags & UV_DRIVER_DATA)
			call.attrs.driver_udata = outer->attrs.driver_udata;
		err = uv_run_write(&call, a->in.at, a->in.len, a->out.at, a->out.len);
		if (!row->response)
			a->out.len = 0;
	}
	uv_stats_count(uv_device_of(outer->file), row, err);
	return err;
}
