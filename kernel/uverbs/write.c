// SPDX-License-Identifier: GPL-2.0
/*
 * The write() ABI: one write() is one command. It has two headers. The lengths in
 * a plain header are in words of 4 bytes; in_words includes the header. In an
 * extended header they are in words of 8 bytes, without the headers. The driver's
 * part follows the core's part in the request and in the response.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "run_write.h"
#include "steps.h"

/* Checks the lengths, copies the request to wire, and sets the parts of core and driver. */
static int uv_write_parse(struct uv_call *call, const struct ib_uverbs_cmd_hdr *hdr,
			  const char __user *buf, size_t count, u64 *wire,
			  struct uv_write_parts *parts)
{
	const struct uv_row *row = call->row;
	size_t in_len = hdr->in_words * 4;
	size_t out_len = hdr->out_words * 4;
	struct ib_udata *udata = uv_udata(call);

	if (in_len != count)
		return -EINVAL;
	/*
	 * libibverbs of rdma-core 18 and 19 passes a length of 16 bytes for
	 * DESTROY_CQ, whose request has 24. ib_uverbs accepts it, too.
	 */
	if (row->write.command == IB_USER_VERBS_CMD_DESTROY_CQ && count == 16)
		in_len = sizeof(*hdr) + row->write.request;
	if (in_len < sizeof(*hdr) + row->write.request || out_len < row->write.response)
		return -ENOSPC;
	parts->in = buf + sizeof(*hdr);
	parts->in_len = in_len - sizeof(*hdr);
	parts->out_len = out_len;
	if (uv_write_copy(row, wire, parts))
		return -EFAULT;

	/* A request that has a response begins with the address of the response. */
	parts->out = row->write.response ? u64_to_user_ptr(wire[0]) : NULL;
	if (row->flags & UV_DRIVER_DATA) {
		udata->inlen = parts->in_len - row->write.request;
		parts->in_len = row->write.request;
		if (udata->inlen)
			udata->inbuf = parts->in + parts->in_len;
		if (row->write.response) {
			udata->outlen = parts->out_len - row->write.response;
			parts->out_len = row->write.response;
			if (udata->outlen)
				udata->outbuf = parts->out + parts->out_len;
		}
	}
	return 0;
}

static int uv_write_parse_ex(struct uv_call *call, const struct ib_uverbs_cmd_hdr *hdr,
			     const char __user *buf, size_t count, u64 *wire,
			     struct uv_write_parts *parts)
{
	struct ib_udata *udata = uv_udata(call);
	struct ib_uverbs_ex_cmd_hdr ex;
	size_t in_len = hdr->in_words * 8;
	size_t out_len = hdr->out_words * 8;
	size_t driver_in, driver_out;

	if (count < sizeof(*hdr) + sizeof(ex))
		return -EINVAL;
	if (t3_copy_in(&ex, sizeof(ex), buf + sizeof(*hdr), sizeof(ex)))
		return -EFAULT;
	driver_in = ex.provider_in_words * 8;
	driver_out = ex.provider_out_words * 8;
	if (in_len + driver_in != count - sizeof(*hdr) - sizeof(ex))
		return -EINVAL;
	/* As in ib_uverbs, an extended request may be short: the missing part is zero. */
	if (ex.cmd_hdr_reserved || !ex.response != !(out_len + driver_out))
		return -EINVAL;
	if (ex.response && !access_ok(u64_to_user_ptr(ex.response), out_len + driver_out))
		return -EFAULT;
	buf += sizeof(*hdr) + sizeof(ex);
	if (driver_in) {
		udata->inbuf = buf + in_len;
		udata->inlen = driver_in;
	}
	if (driver_out) {
		udata->outbuf = u64_to_user_ptr(ex.response + out_len);
		udata->outlen = driver_out;
	}
	*parts = (struct uv_write_parts) { buf, u64_to_user_ptr(ex.response), in_len, out_len };
	return uv_write_copy(call->row, wire, parts);
}

/* Return: false if memory of the call cannot be accessed at all. */
static noinline bool uv_write_fault_in(const char __user *buf, size_t count,
				       const struct uv_write_parts *parts,
				       const struct ib_udata *driver)
{
	return uv_fault_in_readable(buf, count) &&
	       (!parts->out || uv_fault_in_writeable(parts->out, parts->out_len)) &&
	       uv_fault_in_writeable(driver->outbuf, driver->outlen);
}

ssize_t uv_write(struct file *filp, const char __user *buf, size_t count, loff_t *pos)
{
	struct uv_file *file = filp->private_data;
	struct ib_uverbs_cmd_hdr hdr __uninitialized;
	const struct uv_row *row;
	struct ib_device *ib_dev;
	struct uv_call call __uninitialized;
	struct uv_write_parts parts __uninitialized;
	u64 wire[UV_MAX_WIRE / sizeof(u64)] __uninitialized;
	struct ib_udata driver __uninitialized;
	unsigned int repeats = 0;
	int srcu, err;
	bool parsed;

	/*
	 * A process could pass this file as standard output to a program of
	 * higher privilege. What that program writes must not run as a command
	 * with its privilege.
	 */
	if (filp->f_cred != current_cred()) {
		pr_err_once("%s[%d]: credentials changed since the device was opened: refused\n",
			    current->comm, task_tgid_vnr(current));
		return -EACCES;
	}
	if (count < sizeof(hdr))
		return -EINVAL;
	if (t3_copy_in(&hdr, sizeof(hdr), buf, sizeof(hdr)))
		return -EFAULT;
	row = uv_find_write(hdr.command);
	if (IS_ERR(row))
		return PTR_ERR(row);

repeat:
	parts.out = NULL;
	srcu = uv_enter(file);
	ib_dev = uv_file_ibdev(file);
	uv_call_init(&call, file, ib_dev, row);
	if (!uv_call_supported(file, ib_dev, row))
		err = -EOPNOTSUPP;
	else if (row->abi == UV_ABI_WRITE_EX)
		err = uv_write_parse_ex(&call, &hdr, buf, count, wire, &parts);
	else
		err = uv_write_parse(&call, &hdr, buf, count, wire, &parts);
	parsed = !err;
	if (parsed)
		err = uv_run_write(&call, wire, &parts);
	if (unlikely(err == -EFAULT))
		driver = *uv_udata(&call);
	if (parsed)
		uv_call_finish(&call, err);
	uv_leave(file, srcu);
	if (unlikely(err == -EFAULT) && !uv_call_is_final(&call) && repeats++ < UV_MAX_REPEATS &&
	    uv_write_fault_in(buf, count, &parts, &driver))
		goto repeat;
	if (unlikely(call.late.to) && uv_call_respond_late(&call))
		err = -EFAULT;
	uv_call_count(file, row, err);
	return err ?: count;
}
