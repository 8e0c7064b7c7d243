// SPDX-License-Identifier: GPL-2.0
/*
 * A consumer of t3_rdma_cm inside the kernel, which does what it is told in debugfs.
 * A line written to t3_cm_user/run is a command; the write's result is the command's:
 *
 *	listen ADDRESS PORT LENGTH accept|reject|drop
 *				until "quit"; drop: the handler answers non-zero
 *	connect ADDRESS PORT LENGTH
 *				returns when it is established, or has failed
 *	abandon ADDRESS PORT LENGTH
 *				destroys the id as soon as it connects
 *	disconnect		all that "connect" made; returns when they are gone
 *	quit			destroys everything, whatever its state
 *
 * LENGTH is that of the private data. Reading t3_cm_user/log takes away a line per event.
 *
 * Whatever is destroyed is so by a worker of a WQ_MEM_RECLAIM queue, as by storage
 * drivers: the workqueue code warns if that waits for a queue that has no
 * rescuer (C15).
 */
#include <linux/debugfs.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include <t3_rdma_cm.h>

#define PATIENCE_MS	5000
#define PATIENCE	msecs_to_jiffies(20 * MSEC_PER_SEC)

enum answer { ACCEPT, REJECT, DROP };

/**
 * struct end - an id and what belongs to it
 * @name: in the log: whose end it is
 * @answer: a listener's, to connect requests
 * @abandoned: it is to go as soon as it connects
 * @ending: its close is queued; only one may be
 * @status: of the connection, when it is @settled
 */
struct end {
	struct list_head item;
	struct rdma_cm_id *id;
	const char *name;
	enum answer answer;
	u8 length;
	bool abandoned;
	unsigned long ending;
	struct ib_pd *pd;
	struct ib_cq *cq;
	int status;
	struct completion settled;
	struct completion closed;
	struct work_struct close;
};

static struct workqueue_struct *queue;
static struct dentry *folder;
static LIST_HEAD(ends);
static DEFINE_MUTEX(ends_mutex);
static DEFINE_MUTEX(log_mutex);	/* @log, @log_length */
static char log[16384];
static size_t log_length;

/* --- what happened ------------------------------------------------------- */

static const char * const event_names[] = {
	[RDMA_CM_EVENT_ADDR_RESOLVED]	 = "ADDR_RESOLVED",
	[RDMA_CM_EVENT_ADDR_ERROR]	 = "ADDR_ERROR",
	[RDMA_CM_EVENT_ROUTE_RESOLVED]	 = "ROUTE_RESOLVED",
	[RDMA_CM_EVENT_CONNECT_REQUEST]	 = "CONNECT_REQUEST",
	[RDMA_CM_EVENT_CONNECT_RESPONSE] = "CONNECT_RESPONSE",
	[RDMA_CM_EVENT_CONNECT_ERROR]	 = "CONNECT_ERROR",
	[RDMA_CM_EVENT_UNREACHABLE]	 = "UNREACHABLE",
	[RDMA_CM_EVENT_REJECTED]	 = "REJECTED",
	[RDMA_CM_EVENT_ESTABLISHED]	 = "ESTABLISHED",
	[RDMA_CM_EVENT_DISCONNECTED]	 = "DISCONNECTED",
	[RDMA_CM_EVENT_DEVICE_REMOVAL]	 = "DEVICE_REMOVAL",
};

static u8 pattern(int i)
{
	return 7 * i % 251;
}

static bool is_pattern(const u8 *data, u8 length)
{
	int i;

	for (i = 0; i < length; i++)
		if (data[i] != pattern(i))
			return false;
	return true;
}

static void say(const struct end *end, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *conn = &event->param.conn;
	const char *name = NULL;

	if (event->event < ARRAY_SIZE(event_names))
		name = event_names[event->event];
	mutex_lock(&log_mutex);
	log_length += scnprintf(log + log_length, sizeof(log) - log_length,
				"%s %s status=%d length=%u intact=%d depths=%u,%u\n",
				end->name, name ? name : "?", event->status,
				conn->private_data_len,
				is_pattern(conn->private_data, conn->private_data_len),
				conn->responder_resources, conn->initiator_depth);
	mutex_unlock(&log_mutex);
}

static int log_show(struct seq_file *file, void *unused)
{
	mutex_lock(&log_mutex);
	seq_write(file, log, log_length);
	log_length = 0;
	mutex_unlock(&log_mutex);
	return 0;
}

static int log_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, log_show, NULL, sizeof(log) + 1);
}

static const struct file_operations log_fops = {
	.owner = THIS_MODULE,
	.open = log_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

/* --- ends ---------------------------------------------------------------- */

static void end_free(struct end *end)
{
	if (end->cq)
		ib_free_cq(end->cq);
	if (end->pd)
		ib_dealloc_pd(end->pd);
	kfree(end);
}

static void end_close(struct work_struct *work)
{
	struct end *end = container_of(work, struct end, close);

	if (end->id->qp)
		t3_rdma_destroy_qp(end->id);
	t3_rdma_destroy_id(end->id);
	mutex_lock(&ends_mutex);
	list_del(&end->item);
	mutex_unlock(&ends_mutex);
	end_free(end);
}

/* In any context; @end goes in a while. */
static void ask_close(struct end *end)
{
	if (!test_and_set_bit(0, &end->ending))
		queue_work(queue, &end->close);
}

static struct end *end_make(const char *name, u8 length)
{
	struct end *end;

	end = kzalloc(sizeof(*end), GFP_KERNEL);
	if (!end)
		return NULL;
	end->name = name;
	end->length = length;
	init_completion(&end->settled);
	init_completion(&end->closed);
	INIT_WORK(&end->close, end_close);
	return end;
}

/* From now on it ends through ask_close() only. */
static void end_show(struct end *end)
{
	mutex_lock(&ends_mutex);
	list_add_tail(&end->item, &ends);
	mutex_unlock(&ends_mutex);
}

static int give_qp(struct end *end)
{
	struct ib_device *device = end->id->device;
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = {
			.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	end->pd = ib_alloc_pd(device, 0);
	if (IS_ERR(end->pd)) {
		int ret = PTR_ERR(end->pd);

		end->pd = NULL;
		return ret;
	}
	end->cq = ib_alloc_cq(device, NULL, 8, 0, IB_POLL_SOFTIRQ);
	if (IS_ERR(end->cq)) {
		int ret = PTR_ERR(end->cq);

		end->cq = NULL;
		return ret;
	}
	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	return t3_rdma_create_qp(end->id, end->pd, &attr);
}

static struct rdma_conn_param parameters(u8 *data, u8 length)
{
	int i;

	for (i = 0; i < length; i++)
		data[i] = pattern(i);
	return (struct rdma_conn_param) {
		.private_data = data,
		.private_data_len = length,
		.responder_resources = 3,
		.initiator_depth = 2,
	};
}

/* --- events -------------------------------------------------------------- */

static int handler(struct rdma_cm_id *id, struct rdma_cm_event *event);

static int accept(struct end *listener, struct rdma_cm_id *id)
{
	u8 data[U8_MAX];
	struct rdma_conn_param param = parameters(data, listener->length);
	struct end *end;
	int ret;

	end = end_make("passive", 0);
	if (!end)
		return -ENOMEM;
	end->id = id;
	ret = give_qp(end);
	if (!ret)
		ret = t3_rdma_accept(id, &param);
	if (ret) {
		if (id->qp)
			t3_rdma_destroy_qp(id);
		end_free(end);
		return ret;
	}
	/* The next event waits until this handler has returned. */
	id->context = end;
	end_show(end);
	return 0;
}

/* Whatever is not 0 destroys the new id. */
static int answer(struct end *listener, struct rdma_cm_id *id)
{
	u8 data[U8_MAX];

	switch (listener->answer) {
	case ACCEPT:
		return accept(listener, id);
	case REJECT:
		parameters(data, listener->length);
		t3_rdma_reject(id, data, listener->length);
		return 1;
	default:
		return 1;
	}
}

static int connect(struct end *end)
{
	u8 data[U8_MAX];
	struct rdma_conn_param param = parameters(data, end->length);
	int ret;

	ret = give_qp(end);
	if (!ret)
		ret = t3_rdma_connect(end->id, &param);
	if (!ret && end->abandoned)
		complete(&end->settled);
	return ret;
}

static void settle(struct end *end, int status)
{
	end->status = status;
	complete(&end->settled);
}

static int handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct end *end = id->context;
	int ret = 0;

	say(end, event);
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return answer(end, id);
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		ret = t3_rdma_resolve_route(id, PATIENCE_MS);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ret = connect(end);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		settle(end, 0);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		complete(&end->closed);
		fallthrough;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		ask_close(end);
		break;
	default:
		ret = event->status ? event->status : -EPROTO;
		break;
	}
	if (ret)
		settle(end, ret);
	return 0;
}

/* --- commands ------------------------------------------------------------ */

static struct end *end_with_id(const char *name, u8 length)
{
	struct end *end;

	end = end_make(name, length);
	if (!end)
		return ERR_PTR(-ENOMEM);
	end->id = t3_rdma_create_id(current->nsproxy->net_ns, handler, end, RDMA_PS_TCP,
				    IB_QPT_RC);
	if (IS_ERR(end->id)) {
		int ret = PTR_ERR(end->id);

		kfree(end);
		return ERR_PTR(ret);
	}
	end_show(end);
	return end;
}

static int run_listen(struct sockaddr *addr, u8 length, enum answer answer)
{
	struct end *end;
	int ret;

	end = end_with_id("listener", length);
	if (IS_ERR(end))
		return PTR_ERR(end);
	end->answer = answer;
	ret = t3_rdma_set_reuseaddr(end->id, 1);
	if (!ret)
		ret = t3_rdma_bind_addr(end->id, addr);
	if (!ret)
		ret = t3_rdma_listen(end->id, 8);
	if (ret) {
		ask_close(end);
		flush_workqueue(queue);
	}
	return ret;
}

static int run_connect(struct sockaddr *addr, u8 length, bool abandoned)
{
	struct end *end;
	int ret;

	end = end_with_id("active", length);
	if (IS_ERR(end))
		return PTR_ERR(end);
	end->abandoned = abandoned;
	ret = t3_rdma_resolve_addr(end->id, NULL, addr, PATIENCE_MS);
	if (!ret && !wait_for_completion_timeout(&end->settled, PATIENCE))
		ret = -ETIME;
	if (!ret)
		ret = end->status;
	if (ret || abandoned) {
		ask_close(end);
		flush_workqueue(queue);
	}
	return ret;
}

/* A connection closes only by what its own handler does, which needs no ends_mutex. */
static int run_disconnect(void)
{
	struct end *end;
	int ret = 0;

	mutex_lock(&ends_mutex);
	list_for_each_entry(end, &ends, item) {
		if (strcmp(end->name, "active"))
			continue;
		ret = t3_rdma_disconnect(end->id);
		if (!ret && !wait_for_completion_timeout(&end->closed, PATIENCE))
			ret = -ETIME;
		if (ret)
			break;
	}
	mutex_unlock(&ends_mutex);
	flush_workqueue(queue);
	return ret;
}

static void quit(void)
{
	struct end *end;

	/* First those who make ends. */
	mutex_lock(&ends_mutex);
	list_for_each_entry(end, &ends, item)
		if (!strcmp(end->name, "listener"))
			ask_close(end);
	mutex_unlock(&ends_mutex);
	flush_workqueue(queue);

	mutex_lock(&ends_mutex);
	list_for_each_entry(end, &ends, item)
		ask_close(end);
	mutex_unlock(&ends_mutex);
	flush_workqueue(queue);
}

static int answer_named(const char *name)
{
	static const char * const names[] = { "accept", "reject", "drop" };

	return match_string(names, ARRAY_SIZE(names), name);
}

static int run(const char *line)
{
	char what[16], address[64], port[8], how[8] = "accept";
	struct sockaddr_storage addr;
	unsigned int length;
	int words, named;

	words = sscanf(line, "%15s %63s %7s %u %7s", what, address, port, &length, how);
	if (words == 1 && !strcmp(what, "disconnect"))
		return run_disconnect();
	if (words == 1 && !strcmp(what, "quit")) {
		quit();
		return 0;
	}
	named = answer_named(how);
	if (words < 4 || length > U8_MAX || named < 0 ||
	    inet_pton_with_scope(current->nsproxy->net_ns, AF_UNSPEC, address, port, &addr))
		return -EINVAL;
	if (!strcmp(what, "listen"))
		return run_listen((struct sockaddr *)&addr, length, named);
	if (!strcmp(what, "connect") || !strcmp(what, "abandon"))
		return run_connect((struct sockaddr *)&addr, length, what[0] == 'a');
	return -EINVAL;
}

static ssize_t run_write(struct file *file, const char __user *buf, size_t length, loff_t *pos)
{
	char *line;
	int ret;

	if (length > PAGE_SIZE)
		return -EINVAL;
	line = memdup_user_nul(buf, length);
	if (IS_ERR(line))
		return PTR_ERR(line);
	ret = run(line);
	kfree(line);
	return ret ? ret : length;
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = run_write,
};

static int __init cm_user_init(void)
{
	queue = alloc_workqueue("t3_cm_user", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!queue)
		return -ENOMEM;
	folder = debugfs_create_dir("t3_cm_user", NULL);
	debugfs_create_file("run", 0200, folder, NULL, &run_fops);
	debugfs_create_file("log", 0400, folder, NULL, &log_fops);
	return 0;
}

static void __exit cm_user_exit(void)
{
	debugfs_remove(folder);
	quit();
	destroy_workqueue(queue);
}

module_init(cm_user_init);
module_exit(cm_user_exit);
MODULE_DESCRIPTION("A consumer of t3_rdma_cm in the kernel, for tests");
MODULE_LICENSE("GPL");
