// SPDX-License-Identifier: GPL-2.0
/*
 * The user device: files, and one table with a row per command. A row has what is checked before
 * the function of the command runs. ucm.h describes lifetimes and locks.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>
#include <rdma/ib.h>

#include <t3_ib_core.h>

#include "compat.h"
#include "rdma_cm.h"
#include "ucm.h"

#define UCM_STOCK_NAME "rdma_cm"

static char *device_name = UCM_STOCK_NAME;
module_param(device_name, charp, 0444);
MODULE_PARM_DESC(device_name, "name below /dev/infiniband; another than rdma_cm beside the in-tree module");

static const struct file_operations ucm_fops;

/* --- commands on contexts ------------------------------------------------ */

static int ucm_create_id(struct ucm_call *call)
{
	const struct rdma_ucm_create_id *cmd = call->cmd;
	struct rdma_ucm_create_id_resp resp = {};
	enum ib_qp_type qp_type;
	struct mem_cgroup *memcg;
	struct ucm_context *ctx;
	struct rdma_cm_id *id;
	int ret;

	switch (cmd->ps) {
	case RDMA_PS_TCP:
		qp_type = IB_QPT_RC;
		break;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		qp_type = IB_QPT_UD;
		break;
	case RDMA_PS_IB:
		qp_type = cmd->qp_type;
		break;
	default:
		return -EINVAL;
	}
	memcg = get_mem_cgroup_from_mm(current->mm);
	ctx = ucm_context_alloc(memcg, GFP_KERNEL);
	mem_cgroup_put(memcg);
	if (!ctx)
		return -ENOMEM;
	context_unsafe(ctx->uid = cmd->uid); /* not published yet */
	id = t3_rdma_create_id(ucm_handler, ctx, cmd->ps, qp_type);
	if (IS_ERR(id)) {
		ret = PTR_ERR(id);
		goto end;
	}
	context_unsafe(ctx->cm_id = id); /* not published yet */
	resp.id = ctx->number;
	ret = ucm_copy_resp(call, cmd->response, &resp, sizeof(resp));
	if (ret)
		goto end;
	spin_lock(&ucm_lock);
	ucm_context_publish(ctx, call->file);
	spin_unlock(&ucm_lock);
	return 0;
end:
	ucm_context_destroy(ctx);
	return ret;
}

static int ucm_destroy_id(struct ucm_call *call)
{
	const struct rdma_ucm_destroy_id *cmd = call->cmd;
	struct rdma_ucm_destroy_id_resp resp = {};
	struct ucm_context *ctx;
	bool mine;

	ctx = ucm_context_get(call->file, cmd->id);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	mine = ucm_context_claim(ctx);
	if (mine)
		resp.events_reported = ucm_context_destroy(ctx);
	ucm_context_put(ctx);
	return mine ? ucm_respond(call, cmd->response, &resp, sizeof(resp)) : -ENOENT;
}

/* Moves a context from the file of the descriptor to this one. */
static int ucm_migrate(struct ucm_call *call, struct ucm_file *from)
{
	const struct rdma_ucm_migrate_id *cmd = call->cmd;
	struct rdma_ucm_migrate_resp resp = {};
	struct ucm_context *ctx;
	int ret = -ENXIO;

	ctx = ucm_context_get(from, cmd->id);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	mutex_lock(&ctx->mutex);
	if (ctx->cm_id)
		ret = ucm_move(ctx, from, call->file, &resp.events_reported);
	ucm_context_unlock(ctx);
	ucm_context_put(ctx);
	return ret ? ret : ucm_respond(call, cmd->response, &resp, sizeof(resp));
}

static int ucm_migrate_id(struct ucm_call *call)
{
	const struct rdma_ucm_migrate_id *cmd = call->cmd;
	struct file *from;
	int ret;

	/* The reference keeps the other file, and with it its contexts, open. */
	from = fget(cmd->fd);
	if (!from)
		return -ENOENT;
	if (from->f_op == &ucm_fops)
		ret = ucm_migrate(call, from->private_data);
	else
		ret = -EINVAL;
	fput(from);
	return ret;
}

/* --- the table ----------------------------------------------------------- */

/**
 * struct ucm_row - a command
 * @run: the command's function; NULL for ENOSYS
 * @prepare: runs before the context is looked up, to copy from user space; or NULL
 * @finish: runs after the response was copied, or with the error of the command; or NULL
 * @in: minimum length of the command
 * @size: length of the struct that @run reads; the part that user space did not send is zeros
 * @out: minimum length of the space for the response
 * @id: offset of the number of the id, with @on_id
 * @on_id: the command names an id. @run finds its context in call->ctx, with the mutex held
 * @on_device: the id must have a device
 */
struct ucm_row {
	int (*run)(struct ucm_call *call);
	void (*prepare)(struct ucm_call *call);
	void (*finish)(struct ucm_call *call, int error);
	u16 in;
	u16 size;
	u16 out;
	u16 id;
	bool on_id;
	bool on_device;
};

#define ROW(fn, type, length, space) \
	.run = fn, .in = length, .size = sizeof(type), .out = space
#define PLAIN(fn, type, space)	{ ROW(fn, type, sizeof(type), space) }
#define ON_ID(fn, type, space)	{ ROW(fn, type, sizeof(type), space), \
				  .on_id = true, .id = offsetof(type, id) }
#define JOIN(fn, type)		{ ROW(fn, type, sizeof(type), \
				      sizeof(struct rdma_ucm_create_id_resp)), \
				  .on_id = true, .id = offsetof(type, id), \
				  .prepare = ucm_begin_join, .finish = ucm_finish_join }
#define ON_DEVICE(fn, type, length, space) { ROW(fn, type, length, space), \
				  .on_id = true, .on_device = true, .id = offsetof(type, id) }

static const struct ucm_row ucm_table[] = {
	[RDMA_USER_CM_CMD_CREATE_ID] =
		PLAIN(ucm_create_id, struct rdma_ucm_create_id,
		      sizeof(struct rdma_ucm_create_id_resp)),
	[RDMA_USER_CM_CMD_DESTROY_ID] =
		PLAIN(ucm_destroy_id, struct rdma_ucm_destroy_id,
		      sizeof(struct rdma_ucm_destroy_id_resp)),
	[RDMA_USER_CM_CMD_BIND_IP] = ON_ID(ucm_bind_ip, struct rdma_ucm_bind_ip, 0),
	[RDMA_USER_CM_CMD_RESOLVE_IP] = ON_ID(ucm_resolve_ip, struct rdma_ucm_resolve_ip, 0),
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] =
		ON_DEVICE(ucm_resolve_route, struct rdma_ucm_resolve_route,
			  sizeof(struct rdma_ucm_resolve_route), 0),
	[RDMA_USER_CM_CMD_QUERY_ROUTE] =
		ON_ID(ucm_query_route, struct rdma_ucm_query,
		      offsetof(struct rdma_ucm_query_route_resp, ibdev_index)),
	/* Libraries before ECE send connect and accept without it. */
	[RDMA_USER_CM_CMD_CONNECT] =
		ON_DEVICE(ucm_connect, struct rdma_ucm_connect,
			  offsetofend(struct rdma_ucm_connect, reserved), 0),
	[RDMA_USER_CM_CMD_LISTEN] = ON_ID(ucm_listen, struct rdma_ucm_listen, 0),
	[RDMA_USER_CM_CMD_ACCEPT] =
		ON_DEVICE(ucm_accept, struct rdma_ucm_accept,
			  offsetofend(struct rdma_ucm_accept, reserved), 0),
	[RDMA_USER_CM_CMD_REJECT] =
		ON_DEVICE(ucm_reject, struct rdma_ucm_reject, sizeof(struct rdma_ucm_reject), 0),
	[RDMA_USER_CM_CMD_DISCONNECT] =
		ON_DEVICE(ucm_disconnect, struct rdma_ucm_disconnect,
			  sizeof(struct rdma_ucm_disconnect), 0),
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] =
		ON_DEVICE(ucm_init_qp_attr, struct rdma_ucm_init_qp_attr,
			  sizeof(struct rdma_ucm_init_qp_attr), sizeof(struct ib_uverbs_qp_attr)),
	[RDMA_USER_CM_CMD_GET_EVENT] =
		PLAIN(ucm_get_event, struct rdma_ucm_get_event,
		      offsetof(struct rdma_ucm_event_resp, reserved)),
	[RDMA_USER_CM_CMD_SET_OPTION] = {
		ROW(ucm_set_option, struct rdma_ucm_set_option, sizeof(struct rdma_ucm_set_option),
		    0),
		.on_id = true, .id = offsetof(struct rdma_ucm_set_option, id),
		.prepare = ucm_copy_option },
	[RDMA_USER_CM_CMD_NOTIFY] =
		ON_DEVICE(ucm_notify, struct rdma_ucm_notify, sizeof(struct rdma_ucm_notify), 0),
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] =
		JOIN(ucm_join_ip, struct rdma_ucm_join_ip_mcast),
	[RDMA_USER_CM_CMD_LEAVE_MCAST] =
		PLAIN(ucm_leave, struct rdma_ucm_destroy_id,
		      sizeof(struct rdma_ucm_destroy_id_resp)),
	[RDMA_USER_CM_CMD_MIGRATE_ID] =
		PLAIN(ucm_migrate_id, struct rdma_ucm_migrate_id,
		      sizeof(struct rdma_ucm_migrate_resp)),
	[RDMA_USER_CM_CMD_QUERY] = ON_ID(ucm_query, struct rdma_ucm_query, 0),
	[RDMA_USER_CM_CMD_BIND] = ON_ID(ucm_bind, struct rdma_ucm_bind, 0),
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] =
		ON_ID(ucm_resolve_addr, struct rdma_ucm_resolve_addr, 0),
	[RDMA_USER_CM_CMD_JOIN_MCAST] =
		JOIN(ucm_join, struct rdma_ucm_join_mcast),
	[UCM_WRITE_EVENT] = ON_ID(ucm_write_event, struct ucm_write_event_cmd, 0),
};

/* The in-tree manager of this kernel has a command of this number. */
static bool ucm_has_command(u32 number)
{
	return number < ARRAY_SIZE(ucm_table) &&
	       (number != UCM_WRITE_EVENT || UCM_HAS_WRITE_EVENT);
}

/* The commands with the largest structs. */
union ucm_any_cmd {
	struct rdma_ucm_connect connect;
	struct rdma_ucm_accept accept;
	struct rdma_ucm_reject reject;
	struct rdma_ucm_resolve_addr resolve;
	struct ucm_write_event_cmd event;
	u32 words[1];
};

static int ucm_run_on_id(const struct ucm_row *row, struct ucm_call *call)
{
	u32 number;
	int ret;

	memcpy(&number, call->cmd + row->id, sizeof(number));
	call->ctx = ucm_context_get(call->file, number);
	if (IS_ERR(call->ctx))
		return PTR_ERR(call->ctx);
	mutex_lock(&call->ctx->mutex);
	if (!call->ctx->cm_id) {
		ret = -ENXIO;
	} else if (row->on_device && !call->ctx->cm_id->device) {
		ret = -EINVAL;
	} else {
		cm_res_add_late(to_cm_id(call->ctx->cm_id));
		ret = row->run(call);
	}
	ucm_context_unlock(call->ctx);
	ucm_context_put(call->ctx);
	return ret;
}

static ssize_t ucm_write(struct file *filp, const char __user *buf, size_t len, loff_t *pos)
{
	/* All that a command reads is written below. Zeroing takes a quarter of the time. */
	union ucm_any_cmd cmd __uninitialized;
	union ucm_any_resp resp __uninitialized;
	struct rdma_ucm_cmd_hdr hdr __uninitialized;
	struct ucm_call call __uninitialized;
	const struct ucm_row *row;
	int ret;

	/* A process that passes its descriptor to a more privileged one must not gain by it. */
	if (!ib_safe_file_access(filp))
		return -EACCES;
	if (len < sizeof(hdr))
		return -EINVAL;
	if (t3_copy_in(&hdr, sizeof(hdr), buf, sizeof(hdr)))
		return -EFAULT;
	if (!ucm_has_command(hdr.cmd) || hdr.in + sizeof(hdr) > len)
		return -EINVAL;
	row = &ucm_table[array_index_nospec(hdr.cmd, ARRAY_SIZE(ucm_table))];
	if (!row->run)
		return hdr.cmd <= RDMA_USER_CM_CMD_JOIN_MCAST ? -ENOSYS : -EINVAL;
	if (hdr.out < row->out)
		return -ENOSPC;
	if (hdr.in < row->in)
		return -EINVAL;

	/* Each member but those that the command's own steps set. */
	call.filp = filp;
	call.file = filp->private_data;
	call.cmd = &cmd;
	call.resp = &resp;
	call.resp_len = 0;
	call.option_fault = false;
	call.in = min_t(size_t, hdr.in, sizeof(cmd));
	call.out = hdr.out;
	if (t3_copy_in(&cmd, sizeof(cmd), buf + sizeof(hdr), call.in))
		return -EFAULT;
	if (call.in < row->size)
		memset((void *)&cmd + call.in, 0, row->size - call.in);
	if (row->prepare)
		row->prepare(&call);
	ret = row->on_id ? ucm_run_on_id(row, &call) : row->run(&call);
	if (!ret && call.resp_len)
		ret = ucm_copy_resp(&call, call.resp_to, &resp, call.resp_len);
	if (row->finish)
		row->finish(&call, ret);
	return ret ? ret : len;
}

/* --- files --------------------------------------------------------------- */

static __poll_t ucm_poll(struct file *filp, struct poll_table_struct *wait)
{
	struct ucm_file *file = filp->private_data;

	poll_wait(filp, &file->pollers, wait);
	return ucm_has_events(file) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int ucm_open(struct inode *inode, struct file *filp)
{
	struct ucm_file *file;

	file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	if (!file)
		return -ENOMEM;
	kref_init(&file->ref);
	/* Not published yet. */
	context_unsafe(INIT_LIST_HEAD(&file->contexts));
	context_unsafe(INIT_LIST_HEAD(&file->events));
	init_waitqueue_head(&file->readers);
	init_waitqueue_head(&file->pollers);
	INIT_WORK(&file->wake_work, ucm_wake_work);
	init_waitqueue_head(&file->contexts_left);
	filp->private_data = file;
	return stream_open(inode, filp);
}

/* The oldest context of a file, with a reference, or NULL. */
static struct ucm_context *ucm_first_context(struct ucm_file *file)
	__must_hold(&ucm_lock)
{
	lockdep_assert_held(&ucm_lock);
	return list_first_entry_or_null(&file->contexts, struct ucm_context, item);
}

static struct ucm_context *ucm_file_oldest(struct ucm_file *file)
{
	struct ucm_context *ctx;

	spin_lock(&ucm_lock);
	ctx = ucm_first_context(file);
	if (ctx)
		kref_get(&ctx->ref);
	spin_unlock(&ucm_lock);
	return ctx;
}

/* The context has ended, or has moved to another file. None moves to a file that closes. */
static bool ucm_context_left(const struct ucm_context *ctx, const struct ucm_file *file)
{
	return READ_ONCE(ctx->ended) || ucm_context_file(ctx) != file;
}

/*
 * No command of this file runs any more. Connect requests may still add contexts, but each behind
 * its listener, and only while the listener exists: so an empty list stays empty. If a context
 * cannot be claimed, another thread is destroying it together with its listener, which is in
 * another file. That may take as long as an accept on the context, if the provider waits in it.
 */
static int ucm_release(struct inode *inode, struct file *filp)
{
	struct ucm_file *file = filp->private_data;
	struct ucm_context *ctx;

	while ((ctx = ucm_file_oldest(file))) {
		if (ucm_context_claim(ctx))
			ucm_context_destroy(ctx);
		else
			wait_event(file->contexts_left, ucm_context_left(ctx, file));
		ucm_context_put(ctx);
	}
	WARN_ON(ucm_has_events(file));	/* a context that ends or moves takes them along */
	ucm_file_put(file);
	return 0;
}

static const struct file_operations ucm_fops = {
	.owner = THIS_MODULE,
	.open = ucm_open,
	.release = ucm_release,
	.write = ucm_write,
	.poll = ucm_poll,
};

/* --- the device ---------------------------------------------------------- */

static struct miscdevice ucm_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.mode = 0666,
	.fops = &ucm_fops,
};

/* From this librdmacm learns which device to open. */
int cm_ucm_nl_info(struct ib_client_nl_info *res)
{
	res->abi = RDMA_USER_CM_ABI_VERSION;
	res->cdev = ucm_misc.this_device;
	return 0;
}

static ssize_t abi_version_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", RDMA_USER_CM_ABI_VERSION);
}
static DEVICE_ATTR_RO(abi_version);

static struct attribute *ucm_attrs[] = { &dev_attr_abi_version.attr, NULL };
ATTRIBUTE_GROUPS(ucm);

/* The sysctl of the in-tree module. Registered only together with its device name. */
static struct ctl_table ucm_sysctls[] = {
	{
		.procname = "max_backlog",
		.data = &ucm_max_backlog,
		.maxlen = sizeof(ucm_max_backlog),
		.mode = 0644,
		.proc_handler = proc_douintvec,
	},
	T3_SYSCTL_END
};

static struct ctl_table_header *ucm_sysctl;

/* Wakes the pollers of files. */
struct workqueue_struct *ucm_wake_wq;

static int ucm_create_workqueues(void)
{
	ucm_close_wq = alloc_workqueue("t3_rdma_ucm", WQ_UNBOUND, 0);
	if (!ucm_close_wq)
		return -ENOMEM;
	ucm_wake_wq = alloc_workqueue("t3_rdma_ucm_wake", WQ_UNBOUND, 0);
	if (ucm_wake_wq)
		return 0;
	destroy_workqueue(ucm_close_wq);
	return -ENOMEM;
}

static void ucm_destroy_workqueues(void)
{
	destroy_workqueue(ucm_close_wq);
	destroy_workqueue(ucm_wake_wq);
}

int cm_ucm_init(void)
{
	int ret;

	ucm_misc.name = device_name;
	ucm_misc.groups = ucm_groups;
	ucm_misc.nodename = kasprintf(GFP_KERNEL, "infiniband/%s", device_name);
	if (!ucm_misc.nodename)
		return -ENOMEM;
	ret = ucm_create_workqueues();
	if (ret)
		goto free_name;
	ret = misc_register(&ucm_misc);
	if (ret)
		goto destroy_workqueues;
	if (!strcmp(device_name, UCM_STOCK_NAME))
		ucm_sysctl = register_net_sysctl(&init_net, "net/rdma_ucm", ucm_sysctls);
	return 0;

destroy_workqueues:
	ucm_destroy_workqueues();
free_name:
	kfree(ucm_misc.nodename);
	return ret;
}

void cm_ucm_exit(void)
{
	if (ucm_sysctl)
		unregister_net_sysctl_table(ucm_sysctl);
	misc_deregister(&ucm_misc);
	ucm_destroy_workqueues();
	kfree(ucm_misc.nodename);
}
