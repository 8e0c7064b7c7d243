// SPDX-License-Identifier: GPL-2.0
/*
 * A consumer of t3_rdma_cm in the kernel, which takes commands in debugfs. A line written to
 * t3_cm_user/run is a command; the write returns its result:
 *
 *	listen ADDRESS PORT LENGTH accept|reject|drop
 *				until "quit"; drop: the handler returns non-zero
 *	connect ADDRESS PORT LENGTH
 *				returns when the connection is established, or has failed
 *	abandon ADDRESS PORT LENGTH
 *				destroys the id as soon as it connects
 *	deregister		of the passive end: posts a receive, and deregisters its region;
 *				then "send" of the active end sends a page, and "check" fails with
 *				-EUCLEAN if the page of the region has changed
 *	disconnect		disconnects all connections; returns when they are destroyed
 *	quit			destroys all ids in any state
 *
 * LENGTH is that of the private data. Reading t3_cm_user/log returns and removes a line per event.
 *
 * A WQ_MEM_RECLAIM workqueue destroys the ids, as in storage drivers: the workqueue code warns if
 * a destroy waits for a workqueue without a rescuer (C15).
 */
#include <linux/debugfs.h>
#include <linux/dma-mapping.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <rdma/ib_cm.h>

#include <t3_rdma_cm.h>

#define CM_USER_TIMEOUT_MS	5000
#define CM_USER_TIMEOUT	msecs_to_jiffies(20 * MSEC_PER_SEC)

enum cm_user_reply { ACCEPT, REJECT, DROP };

/**
 * struct end - an id and its objects
 * @name: its name in the log
 * @reply: a listener's, to connect requests
 * @abandoned: it is destroyed as soon as it connects
 * @ending: its close is queued; only one may be
 * @status: of the connection, once @settled is complete
 * @page: of the passive end, whose region was deregistered
 */
struct end {
	struct list_head item;
	struct rdma_cm_id *id;
	const char *name;
	enum cm_user_reply reply;
	u8 length;
	bool abandoned;
	unsigned long ending;
	struct ib_pd *pd;
	struct ib_cq *cq;
	int status;
	struct completion settled;
	struct completion closed;
	struct work_struct close;
	struct page *page;
	struct ib_mr *mr;
	dma_addr_t mapped;
};

static struct workqueue_struct *queue;
static struct dentry *folder;
static LIST_HEAD(ends);
static DEFINE_MUTEX(ends_mutex);
static DEFINE_MUTEX(log_mutex);	/* @log, @log_length */
static char log[16384];
static size_t log_length;

/* --- the log -------------------------------------------------------------- */

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

static u8 cm_user_pattern(int i)
{
	return 7 * i % 251;
}

static bool cm_user_is_pattern(const u8 *data, u8 length)
{
	int i;

	for (i = 0; i < length; i++)
		if (data[i] != cm_user_pattern(i))
			return false;
	return true;
}

static void cm_user_log_event(const struct end *end, const struct rdma_cm_event *event)
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
				cm_user_is_pattern(conn->private_data, conn->private_data_len),
				conn->responder_resources, conn->initiator_depth);
	mutex_unlock(&log_mutex);
}

static int cm_user_log_show(struct seq_file *file, void *unused)
{
	mutex_lock(&log_mutex);
	seq_write(file, log, log_length);
	log_length = 0;
	mutex_unlock(&log_mutex);
	return 0;
}

static int cm_user_log_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, cm_user_log_show, NULL, sizeof(log) + 1);
}

static const struct file_operations cm_user_log_fops = {
	.owner = THIS_MODULE,
	.open = cm_user_log_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

/* --- requests ------------------------------------------------------------ */

/* A request and its completion. */
struct request {
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
};

static void cm_user_request_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct request *request = container_of(wc->wr_cqe, struct request, cqe);

	request->status = wc->status;
	complete(&request->done);
}

static void cm_user_request_init(struct request *request)
{
	request->cqe.done = cm_user_request_done;
	init_completion(&request->done);
}

static int cm_user_request_wait(struct request *request)
{
	if (!wait_for_completion_timeout(&request->done, CM_USER_TIMEOUT))
		return -ETIME;
	return request->status ? -EIO : 0;
}

/* One page, by a fast registration. */
static int cm_user_register(struct end *end, struct page *page)
{
	struct ib_device *device = end->id->device;
	struct request request;
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.wr.send_flags = IB_SEND_SIGNALED,
		.wr.wr_cqe = &request.cqe,
		.access = IB_ACCESS_LOCAL_WRITE,
	};
	struct scatterlist sg;
	int ret;

	end->mr = ib_alloc_mr(end->pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(end->mr)) {
		ret = PTR_ERR(end->mr);
		end->mr = NULL;
		return ret;
	}
	end->mapped = ib_dma_map_page(device, page, 0, PAGE_SIZE, DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(device, end->mapped)) {
		ib_dereg_mr(end->mr);
		end->mr = NULL;
		return -ENOMEM;
	}
	sg_init_table(&sg, 1);
	sg_set_page(&sg, page, PAGE_SIZE, 0);
	sg_dma_address(&sg) = end->mapped;
	sg_dma_len(&sg) = PAGE_SIZE;
	if (ib_map_mr_sg(end->mr, &sg, 1, NULL, PAGE_SIZE) != 1)
		return -EINVAL;
	wr.mr = end->mr;
	wr.key = end->mr->rkey;
	cm_user_request_init(&request);
	ret = ib_post_send(end->id->qp, &wr.wr, NULL);
	return ret ? ret : cm_user_request_wait(&request);
}

static void cm_user_deregister(struct end *end)
{
	if (!end->mr)
		return;
	ib_dereg_mr(end->mr);
	ib_dma_unmap_page(end->id->device, end->mapped, PAGE_SIZE, DMA_FROM_DEVICE);
	end->mr = NULL;
}

/* --- ends ---------------------------------------------------------------- */

static void cm_user_end_free(struct end *end)
{
	if (end->page)
		__free_page(end->page);
	if (end->cq)
		ib_free_cq(end->cq);
	if (end->pd)
		ib_dealloc_pd(end->pd);
	kfree(end);
}

static void cm_user_end_close(struct work_struct *work)
{
	struct end *end = container_of(work, struct end, close);

	if (end->id->qp)
		t3_rdma_destroy_qp(end->id);
	cm_user_deregister(end);
	t3_rdma_destroy_id(end->id);
	mutex_lock(&ends_mutex);
	list_del(&end->item);
	mutex_unlock(&ends_mutex);
	cm_user_end_free(end);
}

/* In any context; @end is destroyed later. */
static void cm_user_queue_close(struct end *end)
{
	if (!test_and_set_bit(0, &end->ending))
		queue_work(queue, &end->close);
}

static struct end *cm_user_end_create(const char *name, u8 length)
{
	struct end *end;

	end = kzalloc(sizeof(*end), GFP_KERNEL);
	if (!end)
		return NULL;
	end->name = name;
	end->length = length;
	init_completion(&end->settled);
	init_completion(&end->closed);
	INIT_WORK(&end->close, cm_user_end_close);
	return end;
}

/* From now on only cm_user_queue_close() destroys it. */
static void cm_user_end_add(struct end *end)
{
	mutex_lock(&ends_mutex);
	list_add_tail(&end->item, &ends);
	mutex_unlock(&ends_mutex);
}

static int cm_user_create_qp(struct end *end)
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

static struct rdma_conn_param cm_user_parameters(u8 *data, u8 length)
{
	int i;

	for (i = 0; i < length; i++)
		data[i] = cm_user_pattern(i);
	return (struct rdma_conn_param) {
		.private_data = data,
		.private_data_len = length,
		.responder_resources = 3,
		.initiator_depth = 2,
	};
}

/* --- events -------------------------------------------------------------- */

static int cm_user_handler(struct rdma_cm_id *id, struct rdma_cm_event *event);

static int cm_user_accept(struct end *listener, struct rdma_cm_id *id)
{
	u8 data[U8_MAX];
	struct rdma_conn_param param = cm_user_parameters(data, listener->length);
	struct end *end;
	int ret;

	end = cm_user_end_create("passive", 0);
	if (!end)
		return -ENOMEM;
	end->id = id;
	ret = cm_user_create_qp(end);
	if (!ret)
		ret = t3_rdma_accept(id, &param);
	if (ret) {
		if (id->qp)
			t3_rdma_destroy_qp(id);
		cm_user_end_free(end);
		return ret;
	}
	/* The next event waits until this handler returns. */
	id->context = end;
	cm_user_end_add(end);
	return 0;
}

/* A non-zero return value destroys the new id. */
static int cm_user_request(struct end *listener, struct rdma_cm_id *id)
{
	u8 data[U8_MAX];

	switch (listener->reply) {
	case ACCEPT:
		return cm_user_accept(listener, id);
	case REJECT:
		cm_user_parameters(data, listener->length);
		t3_rdma_reject(id, data, listener->length, IB_CM_REJ_CONSUMER_DEFINED);
		return 1;
	default:
		return 1;
	}
}

static int cm_user_connect(struct end *end)
{
	u8 data[U8_MAX];
	struct rdma_conn_param param = cm_user_parameters(data, end->length);
	int ret;

	ret = cm_user_create_qp(end);
	if (!ret)
		ret = t3_rdma_connect(end->id, &param);
	if (!ret && end->abandoned)
		complete(&end->settled);
	return ret;
}

static void cm_user_settle(struct end *end, int status)
{
	end->status = status;
	complete(&end->settled);
}

static int cm_user_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct end *end = id->context;
	int ret = 0;

	cm_user_log_event(end, event);
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return cm_user_request(end, id);
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		ret = t3_rdma_resolve_route(id, CM_USER_TIMEOUT_MS);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ret = cm_user_connect(end);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		cm_user_settle(end, 0);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		complete(&end->closed);
		fallthrough;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		cm_user_queue_close(end);
		break;
	default:
		ret = event->status ? event->status : -EPROTO;
		break;
	}
	if (ret)
		cm_user_settle(end, ret);
	return 0;
}

/* --- commands ------------------------------------------------------------ */

static struct end *cm_user_end_create_id(const char *name, u8 length)
{
	struct end *end;

	end = cm_user_end_create(name, length);
	if (!end)
		return ERR_PTR(-ENOMEM);
	end->id = t3_rdma_create_id(current->nsproxy->net_ns, cm_user_handler, end, RDMA_PS_TCP,
				    IB_QPT_RC);
	if (IS_ERR(end->id)) {
		int ret = PTR_ERR(end->id);

		kfree(end);
		return ERR_PTR(ret);
	}
	cm_user_end_add(end);
	return end;
}

static int cm_user_listen(struct sockaddr *addr, u8 length, enum cm_user_reply reply)
{
	struct end *end;
	int ret;

	end = cm_user_end_create_id("listener", length);
	if (IS_ERR(end))
		return PTR_ERR(end);
	end->reply = reply;
	ret = t3_rdma_set_reuseaddr(end->id, 1);
	if (!ret)
		ret = t3_rdma_bind_addr(end->id, addr);
	if (!ret)
		ret = t3_rdma_listen(end->id, 8);
	if (ret) {
		cm_user_queue_close(end);
		flush_workqueue(queue);
	}
	return ret;
}

static int cm_user_run_connect(struct sockaddr *addr, u8 length, bool abandoned)
{
	struct end *end;
	int ret;

	end = cm_user_end_create_id("active", length);
	if (IS_ERR(end))
		return PTR_ERR(end);
	end->abandoned = abandoned;
	ret = t3_rdma_resolve_addr(end->id, NULL, addr, CM_USER_TIMEOUT_MS);
	if (!ret && !wait_for_completion_timeout(&end->settled, CM_USER_TIMEOUT))
		ret = -ETIME;
	if (!ret)
		ret = end->status;
	if (ret || abandoned) {
		cm_user_queue_close(end);
		flush_workqueue(queue);
	}
	return ret;
}

/* The handler of a connection closes it, without ends_mutex. */
static int cm_user_disconnect(void)
{
	struct end *end;
	int ret = 0;

	mutex_lock(&ends_mutex);
	list_for_each_entry(end, &ends, item) {
		if (strcmp(end->name, "active"))
			continue;
		ret = t3_rdma_disconnect(end->id);
		if (!ret && !wait_for_completion_timeout(&end->closed, CM_USER_TIMEOUT))
			ret = -ETIME;
		if (ret)
			break;
	}
	mutex_unlock(&ends_mutex);
	flush_workqueue(queue);
	return ret;
}

static struct end *cm_user_find(const char *name)
{
	struct end *end, *found = NULL;

	mutex_lock(&ends_mutex);
	list_for_each_entry(end, &ends, item)
		if (!strcmp(end->name, name))
			found = end;
	mutex_unlock(&ends_mutex);
	return found;
}

/* It outlives the command: its completion may come with the end of the connection. */
static struct request receive;

static int cm_user_run_deregister(void)
{
	struct end *end = cm_user_find("passive");
	struct ib_recv_wr wr = { .wr_cqe = &receive.cqe, .num_sge = 1 };
	struct ib_sge sge;
	int ret;

	if (!end || end->page)
		return -ENOTCONN;
	end->page = alloc_page(GFP_KERNEL);
	if (!end->page)
		return -ENOMEM;
	memset(page_address(end->page), 'v', PAGE_SIZE);
	ret = cm_user_register(end, end->page);
	if (ret)
		return ret;
	sge.addr = end->mr->iova;
	sge.length = PAGE_SIZE;
	sge.lkey = end->mr->lkey;
	wr.sg_list = &sge;
	cm_user_request_init(&receive);
	ret = ib_post_recv(end->id->qp, &wr, NULL);
	if (ret)
		return ret;
	cm_user_deregister(end);
	return 0;
}

static int cm_user_run_send(void)
{
	struct end *end = cm_user_find("active");
	struct request request;
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.wr_cqe = &request.cqe,
		.num_sge = 1,
	};
	struct ib_sge sge = { .length = PAGE_SIZE };
	struct page *page;
	int ret;

	page = end ? alloc_page(GFP_KERNEL | __GFP_ZERO) : NULL;
	if (!page)
		return -ENOTCONN;
	sge.lkey = end->pd->local_dma_lkey;
	sge.addr = ib_dma_map_page(end->id->device, page, 0, PAGE_SIZE, DMA_TO_DEVICE);
	wr.sg_list = &sge;
	cm_user_request_init(&request);
	ret = ib_post_send(end->id->qp, &wr, NULL);
	if (!ret)
		ret = cm_user_request_wait(&request);
	ib_dma_unmap_page(end->id->device, sge.addr, PAGE_SIZE, DMA_TO_DEVICE);
	__free_page(page);
	return ret;
}

static int cm_user_run_check(void)
{
	struct end *end = cm_user_find("passive");

	if (!end || !end->page)
		return -ENOTCONN;
	if (!wait_for_completion_timeout(&receive.done, CM_USER_TIMEOUT))
		return -ETIME;
	return memchr_inv(page_address(end->page), 'v', PAGE_SIZE) ? -EUCLEAN : 0;
}

static void cm_user_quit(void)
{
	struct end *end;

	/* First the listeners, which create ends. */
	mutex_lock(&ends_mutex);
	list_for_each_entry(end, &ends, item)
		if (!strcmp(end->name, "listener"))
			cm_user_queue_close(end);
	mutex_unlock(&ends_mutex);
	flush_workqueue(queue);

	mutex_lock(&ends_mutex);
	list_for_each_entry(end, &ends, item)
		cm_user_queue_close(end);
	mutex_unlock(&ends_mutex);
	flush_workqueue(queue);
}

static int cm_user_reply_named(const char *name)
{
	static const char * const names[] = { "accept", "reject", "drop" };

	return match_string(names, ARRAY_SIZE(names), name);
}

static int cm_user_run(const char *line)
{
	char what[16], address[64], port[8], how[8] = "accept";
	struct sockaddr_storage addr;
	unsigned int length;
	int words, named;

	words = sscanf(line, "%15s %63s %7s %u %7s", what, address, port, &length, how);
	if (words == 1 && !strcmp(what, "disconnect"))
		return cm_user_disconnect();
	if (words == 1 && !strcmp(what, "deregister"))
		return cm_user_run_deregister();
	if (words == 1 && !strcmp(what, "send"))
		return cm_user_run_send();
	if (words == 1 && !strcmp(what, "check"))
		return cm_user_run_check();
	if (words == 1 && !strcmp(what, "quit")) {
		cm_user_quit();
		return 0;
	}
	named = cm_user_reply_named(how);
	if (words < 4 || length > U8_MAX || named < 0 ||
	    inet_pton_with_scope(current->nsproxy->net_ns, AF_UNSPEC, address, port, &addr))
		return -EINVAL;
	if (!strcmp(what, "listen"))
		return cm_user_listen((struct sockaddr *)&addr, length, named);
	if (!strcmp(what, "connect") || !strcmp(what, "abandon"))
		return cm_user_run_connect((struct sockaddr *)&addr, length, what[0] == 'a');
	return -EINVAL;
}

static ssize_t cm_user_run_write(struct file *file, const char __user *buf, size_t length,
				 loff_t *pos)
{
	char *line;
	int ret;

	if (length > PAGE_SIZE)
		return -EINVAL;
	line = memdup_user_nul(buf, length);
	if (IS_ERR(line))
		return PTR_ERR(line);
	ret = cm_user_run(line);
	kfree(line);
	return ret ? ret : length;
}

static const struct file_operations cm_user_run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = cm_user_run_write,
};

static int __init cm_user_init(void)
{
	queue = alloc_workqueue("t3_cm_user", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!queue)
		return -ENOMEM;
	folder = debugfs_create_dir("t3_cm_user", NULL);
	debugfs_create_file("run", 0200, folder, NULL, &cm_user_run_fops);
	debugfs_create_file("log", 0400, folder, NULL, &cm_user_log_fops);
	return 0;
}

static void __exit cm_user_exit(void)
{
	debugfs_remove(folder);
	cm_user_quit();
	destroy_workqueue(queue);
}

module_init(cm_user_init);
module_exit(cm_user_exit);
MODULE_DESCRIPTION("A consumer of t3_rdma_cm in the kernel, for tests");
MODULE_LICENSE("GPL");
