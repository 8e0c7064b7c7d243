// SPDX-License-Identifier: GPL-2.0
/*
 * A consumer of verbs in the kernel: whether a receive of its QP reaches a region that was
 * deregistered. One guest listens, another one connects. A line written to t3_kernel_receive is a
 * command; the write returns its result:
 *
 *	listen ADDRESS		accepts one connection
 *	connect ADDRESS		returns when the connection is established, or has failed
 *	receive			of the passive end: posts a receive into a region
 *	deregister		the same, and deregisters the region
 *	send			of the active end: sends a page
 *	check			of the passive end: waits for the receive; -EUCLEAN if the page has
 *				changed
 *	quit			ends all
 */
#include <linux/debugfs.h>
#include <linux/dma-mapping.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <rdma/rdma_cm.h>

#define PORT		"7650"
#define TIMEOUT_MS	20000

/* The listener, and the id of the connection; the objects of its QP. */
static struct rdma_cm_id *listener, *conn;
static struct ib_pd *pd;
static struct ib_cq *cq;
static struct completion settled;	/* the connection: established, or failed with @result */
static int result;
static struct page *page;		/* of the region */
static struct ib_mr *mr;		/* the region, or NULL */
static dma_addr_t mapped;

/* A request and its completion. */
struct request {
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
};

static struct request receive;

static int kr_wait(struct completion *done)
{
	return wait_for_completion_timeout(done, msecs_to_jiffies(TIMEOUT_MS)) ? 0 : -ETIME;
}

static void kr_request_done(struct ib_cq *of, struct ib_wc *wc)
{
	struct request *request = container_of(wc->wr_cqe, struct request, cqe);

	request->status = wc->status;
	complete(&request->done);
}

static void kr_request_init(struct request *request)
{
	request->cqe.done = kr_request_done;
	init_completion(&request->done);
}

static int kr_run_send(struct ib_send_wr *wr)
{
	struct request request;
	int ret;

	kr_request_init(&request);
	wr->wr_cqe = &request.cqe;
	wr->send_flags = IB_SEND_SIGNALED;
	ret = ib_post_send(conn->qp, wr, NULL);
	if (ret)
		return ret;
	ret = kr_wait(&request.done);
	if (ret) {
		ib_drain_qp(conn->qp); /* the completion is on this stack */
		return ret;
	}
	return request.status ? -EIO : 0;
}

/* --- the connection -------------------------------------------------------- */

static int kr_create_qp(void)
{
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

	pd = ib_alloc_pd(conn->device, 0);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
	cq = ib_alloc_cq(conn->device, NULL, 16, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	return rdma_create_qp(conn, pd, &attr);
}

static int kr_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	int ret = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (conn)
			return -EBUSY; /* destroys the id of the request */
		conn = id;
		ret = kr_create_qp();
		if (!ret)
			ret = rdma_accept(id, &param);
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		ret = rdma_resolve_route(id, TIMEOUT_MS);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ret = kr_create_qp();
		if (!ret)
			ret = rdma_connect_locked(id, &param);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		complete(&settled);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		ret = event->status ? event->status : -EPROTO;
		break;
	}
	if (ret) {
		result = ret;
		complete(&settled);
	}
	return 0;
}

static struct rdma_cm_id *kr_create_id(void)
{
	return rdma_create_id(current->nsproxy->net_ns, kr_handler, NULL, RDMA_PS_TCP, IB_QPT_RC);
}

static int kr_listen(struct sockaddr *addr)
{
	struct rdma_cm_id *id = kr_create_id();
	int ret;

	if (IS_ERR(id))
		return PTR_ERR(id);
	listener = id;
	ret = rdma_bind_addr(id, addr);
	return ret ? ret : rdma_listen(id, 1);
}

static int kr_connect(struct sockaddr *addr)
{
	struct rdma_cm_id *id = kr_create_id();
	int ret;

	if (IS_ERR(id))
		return PTR_ERR(id);
	conn = id;
	ret = rdma_resolve_addr(id, NULL, addr, TIMEOUT_MS);
	if (!ret)
		ret = kr_wait(&settled);
	return ret ? ret : result;
}

/* --- the region -------------------------------------------------------------- */

static int kr_register(void)
{
	struct ib_reg_wr wr = { .wr.opcode = IB_WR_REG_MR, .access = IB_ACCESS_LOCAL_WRITE };
	struct scatterlist sg;

	sg_init_table(&sg, 1);
	sg_set_page(&sg, page, PAGE_SIZE, 0);
	sg_dma_address(&sg) = mapped;
	sg_dma_len(&sg) = PAGE_SIZE;
	if (ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE) != 1)
		return -EINVAL;
	wr.mr = mr;
	wr.key = mr->rkey;
	return kr_run_send(&wr.wr);
}

static int kr_post_receive(void)
{
	struct ib_sge sge = { .addr = mr->iova, .length = PAGE_SIZE, .lkey = mr->lkey };
	struct ib_recv_wr wr = { .wr_cqe = &receive.cqe, .sg_list = &sge, .num_sge = 1 };

	kr_request_init(&receive);
	return ib_post_recv(conn->qp, &wr, NULL);
}

static void kr_deregister(void)
{
	if (!mr)
		return;
	ib_dereg_mr(mr);
	ib_dma_unmap_page(conn->device, mapped, PAGE_SIZE, DMA_FROM_DEVICE);
	mr = NULL;
}

static int kr_receive(bool deregister)
{
	int ret;

	if (mr || kr_wait(&settled))
		return -ENOTCONN;
	complete(&settled);
	if (!page)
		page = alloc_page(GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	memset(page_address(page), 'v', PAGE_SIZE);
	mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(mr)) {
		ret = PTR_ERR(mr);
		mr = NULL;
		return ret;
	}
	mapped = ib_dma_map_page(conn->device, page, 0, PAGE_SIZE, DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(conn->device, mapped)) {
		ib_dereg_mr(mr);
		mr = NULL;
		return -ENOMEM;
	}
	ret = kr_register();
	if (!ret)
		ret = kr_post_receive();
	if (ret || deregister)
		kr_deregister();
	return ret;
}

static int kr_send(void)
{
	struct ib_sge sge = { .length = PAGE_SIZE, .lkey = pd->local_dma_lkey };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = &sge, .num_sge = 1 };
	void *data = kzalloc(PAGE_SIZE, GFP_KERNEL);
	int ret = -ENOMEM;

	if (!data)
		return ret;
	sge.addr = ib_dma_map_single(conn->device, data, PAGE_SIZE, DMA_TO_DEVICE);
	if (!ib_dma_mapping_error(conn->device, sge.addr)) {
		ret = kr_run_send(&wr);
		ib_dma_unmap_single(conn->device, sge.addr, PAGE_SIZE, DMA_TO_DEVICE);
	}
	kfree(data);
	return ret;
}

static int kr_check(void)
{
	int ret = kr_wait(&receive.done);

	kr_deregister();
	if (!ret && memchr_inv(page_address(page), 'v', PAGE_SIZE))
		ret = -EUCLEAN;
	return ret;
}

static void kr_quit(void)
{
	if (listener)
		rdma_destroy_id(listener);
	if (conn && conn->qp)
		rdma_destroy_qp(conn);
	kr_deregister();
	if (!IS_ERR_OR_NULL(cq))
		ib_free_cq(cq);
	if (!IS_ERR_OR_NULL(pd))
		ib_dealloc_pd(pd);
	if (conn)
		rdma_destroy_id(conn);
	if (page)
		__free_page(page);
	listener = NULL;
	conn = NULL;
	cq = NULL;
	pd = NULL;
	page = NULL;
	result = 0;
	reinit_completion(&settled);
}

/* --- commands ------------------------------------------------------------------ */

static int kr_run(const char *line)
{
	char what[16] = "", address[64];
	struct sockaddr_storage addr;

	if (sscanf(line, "%15s %63s", what, address) == 2) {
		if (inet_pton_with_scope(current->nsproxy->net_ns, AF_UNSPEC, address, PORT, &addr))
			return -EINVAL;
		if (!strcmp(what, "listen") && !listener)
			return kr_listen((struct sockaddr *)&addr);
		if (!strcmp(what, "connect") && !conn)
			return kr_connect((struct sockaddr *)&addr);
		return -EINVAL;
	}
	if (!strcmp(what, "quit")) {
		kr_quit();
		return 0;
	}
	if (!conn)
		return -ENOTCONN;
	if (!strcmp(what, "receive") || !strcmp(what, "deregister"))
		return kr_receive(what[0] == 'd');
	if (!strcmp(what, "send"))
		return kr_send();
	if (!strcmp(what, "check") && page)
		return kr_check();
	return -EINVAL;
}

/* The test writes one command after the other. */
static ssize_t kr_write(struct file *file, const char __user *buf, size_t length, loff_t *pos)
{
	char *line;
	int ret;

	if (length > PAGE_SIZE)
		return -EINVAL;
	line = memdup_user_nul(buf, length);
	if (IS_ERR(line))
		return PTR_ERR(line);
	ret = kr_run(line);
	kfree(line);
	return ret ? ret : length;
}

static const struct file_operations kr_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = kr_write,
};

static struct dentry *commands;

static int __init kr_init(void)
{
	init_completion(&settled);
	commands = debugfs_create_file("t3_kernel_receive", 0200, NULL, NULL, &kr_fops);
	return 0;
}

static void __exit kr_exit(void)
{
	debugfs_remove(commands);
	kr_quit();
}

module_init(kr_init);
module_exit(kr_exit);
MODULE_DESCRIPTION("A kernel receive into a region that was deregistered, for tests");
MODULE_LICENSE("GPL");
