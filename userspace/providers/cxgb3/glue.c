// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The functions that libibverbs calls: commands to the kernel, mappings, creation and destruction of objects. Off the data path.
 *
 * Order of destruction: the kernel first, since it may refuse (EBUSY) and the object must then still work; then
 * the core, then the mappings. The kernel keeps a ring allocated until it is unmapped. After removal of the device the
 * mapping shows zeros.
 */
#define _GNU_SOURCE /* secure_getenv() */
#include "userspace/providers/cxgb3/border.h"
#include "userspace/providers/cxgb3/domains.h"
#include "userspace/providers/cxgb3/mapping.h"
#include "userspace/providers/cxgb3/self_check.h"

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_tpt.h"
#include "include/hw/t3_wr.h"

#include <errno.h>
#include <limits.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

_Static_assert(offsetof(struct cxgb3_cq, vcq) == 0 && offsetof(struct cxgb3_qp, vqp) == 0,
	       "the data path casts ibv_cq and ibv_qp");

static struct cxgb3_context *to_context(struct ibv_context *context)
{
	return container_of(context, struct cxgb3_context, vctx.context);
}

static struct cxgb3_cq *to_cq(struct ibv_cq *cq)
{
	return container_of(cq, struct cxgb3_cq, vcq.cq);
}

static struct cxgb3_qp *to_qp(struct ibv_qp *qp)
{
	return container_of(qp, struct cxgb3_qp, vqp.qp);
}

/* ---- device, port ---- */

static int cxgb3_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
				 struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct cxgb3_query_device_resp resp = { 0 };
	size_t resp_size = sizeof(resp);
	int err;

	err = ibv_cmd_query_device_any(context, input, attr, attr_size, &resp, &resp_size);
	if (err)
		return err;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u",
		 (unsigned)(resp.fw_ver >> 32) & 0xffff, (unsigned)(resp.fw_ver >> 16) & 0xffff,
		 (unsigned)resp.fw_ver & 0xffff);
	return 0;
}

static int cxgb3_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	struct cxgb3_cmd_query_port cmd;

	return ibv_cmd_query_port(context, port, attr, &cmd, sizeof(cmd));
}

/* ---- memory ---- */

static struct ibv_mr *cxgb3_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access)
{
	struct cxgb3_cmd_reg_mr cmd;
	struct {
		uint8_t core[CXGB3_CORE_RESP_REG_MR];
		struct t3_reg_mr_resp drv;
	} resp = { 0 };
	struct cxgb3_mr *mr;
	int err;

	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	err = ibv_cmd_reg_mr(pd, addr, length, hca_va, access, &mr->vmr, &cmd, sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(mr);
		errno = err;
		return NULL;
	}
	mr->hca_va = hca_va;
	mr->pbl_addr = resp.drv.pbl_addr;
	mr->page_code = (uint8_t)(__builtin_ctzl(cxgb3_page_size()) - T3_PAGE_CODE_SHIFT);
	cxgb3_hold_pd(pd);
	return &mr->vmr.ibv_mr;
}

/* The kernel makes a new region with new keys, which the library stores in the old one's object. */
static int cxgb3_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct cxgb3_mr *mr = container_of(vmr, struct cxgb3_mr, vmr);
	struct cxgb3_cmd_rereg_mr cmd;
	struct {
		uint8_t core[CXGB3_CORE_RESP_REREG_MR];
		struct t3_reg_mr_resp drv;
	} resp = { 0 };
	int err;

	err = ibv_cmd_rereg_mr(vmr, (uint32_t)flags, addr, length, (uintptr_t)addr, access, pd, &cmd, sizeof(cmd), &resp,
			       sizeof(resp));
	if (err)
		return err;
	mr->pbl_addr = resp.drv.pbl_addr;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		mr->hca_va = (uintptr_t)addr;
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		cxgb3_hold_pd(pd);
		cxgb3_release_pd(vmr->ibv_mr.pd); /* which libibverbs replaces afterwards */
	}
	return 0;
}

static int cxgb3_dereg_mr(struct verbs_mr *vmr)
{
	struct ibv_pd *pd = vmr->ibv_mr.pd;
	int err = ibv_cmd_dereg_mr(vmr);

	if (err)
		return err;
	cxgb3_release_pd(pd);
	free(container_of(vmr, struct cxgb3_mr, vmr));
	return 0;
}

/* No window can be bound to it, because the kernel does not name its page list here. */
static struct ibv_mr *cxgb3_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct cxgb3_mr *mr = calloc(1, sizeof(*mr));
	int err;

	if (!mr)
		return NULL;
	err = ibv_cmd_query_mr(pd, &mr->vmr, handle);
	if (err) {
		free(mr);
		errno = err;
		return NULL;
	}
	cxgb3_hold_pd(pd);
	return &mr->vmr.ibv_mr;
}

static void cxgb3_unimport_mr(struct ibv_mr *mr)
{
	cxgb3_release_pd(mr->pd);
	free(container_of(mr, struct cxgb3_mr, vmr.ibv_mr));
}

static struct ibv_mw *cxgb3_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct cxgb3_cmd_alloc_mw cmd;
	struct cxgb3_alloc_mw_core_resp resp = { 0 };
	struct ibv_mw *mw;
	int err;

	if (type != IBV_MW_TYPE_1) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	err = ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(mw);
		errno = err;
		return NULL;
	}
	cxgb3_hold_pd(pd);
	return mw;
}

static int cxgb3_dealloc_mw(struct ibv_mw *mw)
{
	struct ibv_pd *pd = mw->pd;
	int err = ibv_cmd_dealloc_mw(mw);

	if (err)
		return err;
	cxgb3_release_pd(pd);
	free(mw);
	return 0;
}

/* ---- completion queues ---- */

static struct cxgb3_cq *make_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
				int comp_vector, bool needs_locks)
{
	struct {
		uint8_t core[CXGB3_CORE_CMD_CREATE_CQ];
		struct t3_create_cq_req drv;
	} cmd;
	struct {
		uint8_t core[CXGB3_CORE_RESP_CREATE_CQ];
		struct t3_create_cq_resp drv;
	} resp = { 0 };
	struct cxgb3_context *ctx = to_context(context);
	struct cxgb3_cq *cq;
	int err;

	_Static_assert(offsetof(typeof(cmd), drv) == CXGB3_CORE_CMD_CREATE_CQ, "no gap in front of the driver part");
	_Static_assert(offsetof(typeof(resp), drv) == CXGB3_CORE_RESP_CREATE_CQ, "no gap in front of the driver part");

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	pthread_mutex_init(&cq->arm_lock, NULL);
	err = cxgb3_core_create_cq(cq, needs_locks, ctx->counters);
	if (err)
		goto free_cq;
	cmd.drv.user_rptr_addr = cxgb3_core_cq_counter(cq);
	err = ibv_cmd_create_cq(context, cqe, channel, comp_vector, &cq->vcq.cq, &cmd, sizeof(cmd), &resp,
				sizeof(resp));
	if (err)
		goto free_core;

	cq->ring_bytes = resp.drv.memsize;
	if (resp.drv.size_log2 > 15 || cxgb3_whole_pages((((size_t)1 << resp.drv.size_log2) + 1) * T3_CQE_BYTES) > cq->ring_bytes) {
		err = EPROTO; /* the kernel left no space for the status word */
		goto destroy;
	}
	cq->ring = cxgb3_map_ring(context->cmd_fd, cq->ring_bytes, resp.drv.key);
	if (!cq->ring) {
		err = errno;
		goto destroy;
	}
	cxgb3_core_cq_use_ring(cq, &resp.drv);
	return cq;

destroy:
	ibv_cmd_destroy_cq(&cq->vcq.cq);
free_core:
	cxgb3_core_destroy_cq(cq);
free_cq:
	pthread_mutex_destroy(&cq->arm_lock);
	free(cq);
	errno = err;
	return NULL;
}

static struct ibv_cq *cxgb3_create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
				      int comp_vector)
{
	struct cxgb3_cq *cq = make_cq(context, cqe, channel, comp_vector, to_context(context)->needs_locks);

	return cq ? &cq->vcq.cq : NULL;
}

/*
 * Completions of this card carry the fields of an ibv_wc and no others: no time stamps, VLANs, flow tags or tag
 * matching. The library detects an overrun of the ring, and cannot be configured to ignore it.
 */
static int check_cq_attr(const struct ibv_cq_init_attr_ex *attr)
{
	if (attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS)
		return EOPNOTSUPP;
	if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    (!attr->parent_domain || !cxgb3_is_parent_domain(attr->parent_domain)))
		return EINVAL;
	if (attr->cqe > INT_MAX || attr->comp_vector > INT_MAX) /* types of make_cq() */
		return EINVAL;
	return 0;
}

static struct ibv_cq_ex *cxgb3_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct cxgb3_context *ctx = to_context(context);
	bool needs_locks = ctx->needs_locks;
	struct cxgb3_cq *cq;
	int err;

	err = check_cq_attr(attr);
	if (err) {
		errno = err;
		return NULL;
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		needs_locks = false;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && cxgb3_has_thread_domain(attr->parent_domain))
		needs_locks = false;
	cq = make_cq(context, (int)attr->cqe, attr->channel, (int)attr->comp_vector, needs_locks);
	if (!cq)
		return NULL;
	cxgb3_set_readers(cq, ctx->counters);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		cq->parent_domain = attr->parent_domain;
		cxgb3_hold_pd(cq->parent_domain);
	}
	return &cq->vcq.cq_ex;
}

static int cxgb3_destroy_cq(struct ibv_cq *ibcq)
{
	struct cxgb3_cq *cq = to_cq(ibcq);
	int err = ibv_cmd_destroy_cq(ibcq);

	if (err)
		return err;
	if (cq->parent_domain)
		cxgb3_release_pd(cq->parent_domain);
	cxgb3_core_destroy_cq(cq);
	munmap(cq->ring, cq->ring_bytes);
	pthread_mutex_destroy(&cq->arm_lock);
	free(cq);
	return 0;
}

/*
 * Arming writes a register of the card that no process may map, so it takes a system call. A CQ that is armed and
 * whose event was not read yet needs no second one: its event is pending or will be raised.
 */
static int arm_now(struct cxgb3_cq *cq, enum cxgb3_armed how)
{
	struct cxgb3_counters *counters = to_context(cq->vcq.cq.context)->counters;
	int err;

	cxgb3_core_publish_consumed(cq);
	err = ibv_cmd_req_notify_cq(&cq->vcq.cq, how == CXGB3_ARMED_SOLICITED);
	cq->armed = err ? CXGB3_NOT_ARMED : how;
	if (counters)
		__atomic_fetch_add(&counters->arm_system_calls, 1, __ATOMIC_RELAXED);
	return err;
}

static int cxgb3_arm_cq(struct ibv_cq *ibcq, int solicited_only)
{
	const enum cxgb3_armed how = solicited_only ? CXGB3_ARMED_SOLICITED : CXGB3_ARMED_ANY;
	struct cxgb3_counters *counters = to_context(ibcq->context)->counters;
	struct cxgb3_cq *cq = to_cq(ibcq);
	int err = 0;

	if (counters)
		__atomic_fetch_add(&counters->arm, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&cq->arm_lock);
	if (ibcq->channel && cq->armed >= how) {
		if (cq->wanted < how)
			cq->wanted = how;
	} else {
		err = arm_now(cq, how);
	}
	pthread_mutex_unlock(&cq->arm_lock);
	return err;
}

/*
 * The program has read the event. If the CQ was armed again before that, another thread relies on it, so it is
 * armed now.
 */
static void cxgb3_cq_event(struct ibv_cq *ibcq)
{
	struct cxgb3_cq *cq = to_cq(ibcq);
	enum cxgb3_armed wanted;

	pthread_mutex_lock(&cq->arm_lock);
	wanted = cq->wanted;
	cq->armed = CXGB3_NOT_ARMED;
	cq->wanted = CXGB3_NOT_ARMED;
	if (wanted)
		arm_now(cq, wanted);
	pthread_mutex_unlock(&cq->arm_lock);
}

/* ---- queue pairs ---- */

/* Limits of the card are for the kernel to check: its log names the one that a request exceeds. */
static int check_qp_attr(const struct ibv_qp_init_attr *attr)
{
	if (attr->qp_type != IBV_QPT_RC || attr->srq)
		return EOPNOTSUPP;
	if (!attr->send_cq || !attr->recv_cq)
		return EINVAL;
	return 0;
}

static int map_qp(struct cxgb3_qp *qp, int fd, const struct t3_create_qp_resp *resp)
{
	void *doorbell;

	if (resp->size_log2 > 16 || resp->sq_size_log2 > 16 || resp->rq_size_log2 > 16 || resp->qpid > T3_MAX_ID)
		return EPROTO;
	qp->ring_bytes = cxgb3_whole_pages((size_t)T3_WR_SLOT_BYTES << resp->size_log2);
	qp->ring = cxgb3_map_ring(fd, qp->ring_bytes, resp->key);
	if (!qp->ring)
		return errno;
	/* The kernel does not let a child inherit it. Keys are page aligned: the doorbell is the page's start. */
	doorbell = mmap(NULL, cxgb3_page_size(), PROT_WRITE, MAP_SHARED, fd, (off_t)resp->db_key);
	if (doorbell == MAP_FAILED) {
		int err = errno;

		munmap(qp->ring, qp->ring_bytes);
		return err;
	}
	qp->doorbell = doorbell;
	return 0;
}

static void unmap_qp(struct cxgb3_qp *qp)
{
	munmap((void *)qp->doorbell, cxgb3_page_size());
	munmap(qp->ring, qp->ring_bytes);
}

/*
 * Polling found an entry that is not valid, which the kernel does not see. The connection must end before its work
 * can be flushed. Called with a CQ's lock held; other threads that poll it wait for this system call.
 */
static void abort_qp(void *owner)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct cxgb3_cmd_modify_qp cmd = { 0 };
	struct cxgb3_qp *qp = owner;

	ibv_cmd_modify_qp(&qp->vqp.qp, &attr, IBV_QP_STATE, &cmd, sizeof(cmd));
}

static struct ibv_qp *cxgb3_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct cxgb3_context *ctx = to_context(pd->context);
	struct cxgb3_cmd_create_qp cmd;
	struct {
		uint8_t core[CXGB3_CORE_RESP_CREATE_QP];
		struct t3_create_qp_resp drv;
	} resp = { 0 };
	struct cxgb3_qp *qp;
	int err;

	err = check_qp_attr(attr);
	if (err) {
		errno = err;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	err = ibv_cmd_create_qp(pd, &qp->vqp.qp, attr, &cmd, sizeof(cmd), &resp, sizeof(resp));
	if (err)
		goto free_qp;
	err = map_qp(qp, pd->context->cmd_fd, &resp.drv);
	if (err)
		goto destroy;
	err = cxgb3_core_create_qp(qp, &resp.drv, attr->sq_sig_all, ctx->needs_locks && !cxgb3_has_thread_domain(pd),
				   ctx->counters, abort_qp);
	if (err)
		goto unmap;

	attr->cap.max_send_wr = 1U << resp.drv.sq_size_log2;
	attr->cap.max_recv_wr = (1U << resp.drv.rq_size_log2) - 1;
	attr->cap.max_send_sge = T3_MAX_SGE;
	attr->cap.max_recv_sge = T3_MAX_SGE;
	attr->cap.max_inline_data = T3_MAX_INLINE;
	cxgb3_hold_pd(pd);
	return &qp->vqp.qp;

unmap:
	unmap_qp(qp);
destroy:
	ibv_cmd_destroy_qp(&qp->vqp.qp);
free_qp:
	free(qp);
	errno = err;
	return NULL;
}

/* What ibv_wr_*() can post. */
#define SEND_OPS                                                                                                     \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_LOCAL_INV |      \
	 IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)

static int check_qp_attr_ex(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if (attr->comp_mask & ~known)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && attr->send_ops_flags & ~(uint64_t)SEND_OPS)
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd)
		return EINVAL;
	return 0;
}

static int cxgb3_destroy_qp(struct ibv_qp *ibqp);

static struct ibv_qp *cxgb3_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int err;

	_Static_assert(offsetof(struct ibv_qp_init_attr_ex, comp_mask) == offsetof(struct ibv_qp_init_attr, sq_sig_all) + 4,
		       "the one begins with the other");
	err = check_qp_attr_ex(attr);
	if (err) {
		errno = err;
		return NULL;
	}
	qp = cxgb3_create_qp(attr->pd, (struct ibv_qp_init_attr *)attr);
	if (!qp || !(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return qp;
	err = cxgb3_set_builders(to_qp(qp), to_context(context)->counters);
	if (err) {
		cxgb3_destroy_qp(qp);
		errno = err;
		return NULL;
	}
	return qp;
}

static int cxgb3_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct cxgb3_cmd_modify_qp cmd = { 0 };
	struct cxgb3_qp *qp = to_qp(ibqp);
	int err;

	err = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
	if (err || !(attr_mask & IBV_QP_STATE))
		return err;
	if (attr->qp_state == IBV_QPS_RESET)
		cxgb3_core_reset_qp(qp);
	else if (attr->qp_state == IBV_QPS_ERR)
		cxgb3_core_stop_qp(qp);
	return 0;
}

static int cxgb3_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			  struct ibv_qp_init_attr *init_attr)
{
	struct cxgb3_cmd_query_qp cmd;

	return ibv_cmd_query_qp(qp, attr, attr_mask, init_attr, &cmd, sizeof(cmd));
}

static int cxgb3_destroy_qp(struct ibv_qp *ibqp)
{
	struct cxgb3_qp *qp = to_qp(ibqp);
	int err = ibv_cmd_destroy_qp(ibqp); /* waits until the program has acknowledged the QP's events */

	if (err)
		return err;
	cxgb3_release_pd(ibqp->pd);
	cxgb3_core_destroy_qp(qp);
	unmap_qp(qp);
	free(qp);
	return 0;
}

/* Called after the event was read and before the program sees it: what it posts then does not go to the card. */
static void cxgb3_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)context;
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		cxgb3_core_stop_qp(to_qp(event->element.qp));
		break;
	default:
		break;
	}
}

/* ---- context, registration ---- */

static void cxgb3_free_context(struct ibv_context *context);

static const struct verbs_context_ops cxgb3_context_ops = {
	.alloc_mw = cxgb3_alloc_mw,
	.alloc_parent_domain = cxgb3_alloc_parent_domain,
	.alloc_pd = cxgb3_alloc_pd,
	.alloc_td = cxgb3_alloc_td,
	.async_event = cxgb3_async_event,
	.bind_mw = cxgb3_bind_mw,
	.cq_event = cxgb3_cq_event,
	.create_cq = cxgb3_create_cq,
	.create_cq_ex = cxgb3_create_cq_ex,
	.create_qp = cxgb3_create_qp,
	.create_qp_ex = cxgb3_create_qp_ex,
	.dealloc_mw = cxgb3_dealloc_mw,
	.dealloc_pd = cxgb3_dealloc_pd,
	.dealloc_td = cxgb3_dealloc_td,
	.dereg_mr = cxgb3_dereg_mr,
	.destroy_cq = cxgb3_destroy_cq,
	.destroy_qp = cxgb3_destroy_qp,
	.free_context = cxgb3_free_context,
	.import_mr = cxgb3_import_mr,
	.import_pd = cxgb3_import_pd,
	.modify_qp = cxgb3_modify_qp,
	.poll_cq = cxgb3_poll_cq,
	.post_recv = cxgb3_post_recv,
	.post_send = cxgb3_post_send,
	.query_device_ex = cxgb3_query_device_ex,
	.query_port = cxgb3_query_port,
	.query_qp = cxgb3_query_qp,
	.reg_mr = cxgb3_reg_mr,
	.req_notify_cq = cxgb3_arm_cq,
	.rereg_mr = cxgb3_rereg_mr,
	.unimport_mr = cxgb3_unimport_mr,
	.unimport_pd = cxgb3_unimport_pd,
};

/* Replaces these entries of the table above if CXGB3_COUNTERS is 1. */
static const struct verbs_context_ops cxgb3_counted_ops = {
	.poll_cq = cxgb3_poll_cq_counted,
	.post_recv = cxgb3_post_recv_counted,
	.post_send = cxgb3_post_send_counted,
};

/* A setuid program ignores the environment of its caller. */
static bool requested(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && !strcmp(value, "1");
}

static int get_context(struct verbs_context *vctx)
{
	struct cxgb3_cmd_get_context cmd;
	struct cxgb3_get_context_resp resp = { 0 };

#if T3_RDMA_CORE >= 57
	return ibv_cmd_get_context(vctx, &cmd, sizeof(cmd), NULL, &resp, sizeof(resp));
#else
	return ibv_cmd_get_context(vctx, &cmd, sizeof(cmd), &resp, sizeof(resp));
#endif
}

/* Of a file that another process has opened: the kernel has a context. */
static int query_context(struct verbs_context *vctx)
{
	return ibv_cmd_query_context(&vctx->context, NULL);
}

static struct verbs_context *make_context(struct ibv_device *device, int cmd_fd, int (*ask)(struct verbs_context *))
{
	struct cxgb3_context *ctx;
	int err;

	ctx = _verbs_init_and_alloc_context(device, cmd_fd, sizeof(*ctx),
					    (struct verbs_context *)offsetof(struct cxgb3_context, vctx),
					    RDMA_DRIVER_CXGB3);
	if (!ctx)
		return NULL;
	err = ask(&ctx->vctx);
	if (err) {
		verbs_uninit_context(&ctx->vctx);
		free(ctx);
		errno = err;
		return NULL;
	}
	ctx->needs_locks = !requested("CXGB3_SINGLE_THREADED");
	verbs_set_ops(&ctx->vctx, &cxgb3_context_ops);
	if (requested("CXGB3_COUNTERS"))
		ctx->counters = cxgb3_map_counters(ibv_get_device_name(device));
	if (ctx->counters)
		verbs_set_ops(&ctx->vctx, &cxgb3_counted_ops);
	return &ctx->vctx;
}

static struct verbs_context *cxgb3_alloc_context(struct ibv_device *device, int cmd_fd, void *private_data)
{
	(void)private_data;
	return make_context(device, cmd_fd, get_context);
}

static struct verbs_context *cxgb3_import_context(struct ibv_device *device, int cmd_fd)
{
	return make_context(device, cmd_fd, query_context);
}

static void cxgb3_free_context(struct ibv_context *context)
{
	struct cxgb3_context *ctx = to_context(context);

	cxgb3_unmap_counters(ctx->counters);
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

static struct verbs_device *cxgb3_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	(void)sysfs_dev;
	return calloc(1, sizeof(struct verbs_device));
}

static void cxgb3_uninit_device(struct verbs_device *device)
{
	free(device);
}

#define CHELSIO(id)                                                                                                  \
	{                                                                                                            \
		.kind = VERBS_MATCH_PCI, .vendor = 0x1425, .device = (id)                                            \
	}

/* By netlink the kernel names the driver; over plain sysfs only the PCI id is known. */
static const struct verbs_match_ent match_table[] = {
	{ .kind = VERBS_MATCH_DRIVER_ID, .u = { .driver_id = RDMA_DRIVER_CXGB3 } },
	CHELSIO(0x0020),
	CHELSIO(0x0021),
	CHELSIO(0x0022),
	CHELSIO(0x0023),
	CHELSIO(0x0024),
	CHELSIO(0x0025),
	CHELSIO(0x0026),
	CHELSIO(0x0030),
	CHELSIO(0x0031),
	CHELSIO(0x0032),
	CHELSIO(0x0035),
	CHELSIO(0x0036),
	{ .kind = VERBS_MATCH_SENTINEL },
};

static const struct verbs_device_ops cxgb3_device_ops = {
	.name = "cxgb3",
	.match_min_abi_version = T3_ABI_VERSION, /* version 0 has no CQ status word */
	.match_max_abi_version = T3_ABI_VERSION,
	.match_table = match_table,
	.alloc_context = cxgb3_alloc_context,
	.import_context = cxgb3_import_context,
	.alloc_device = cxgb3_alloc_device,
	.uninit_device = cxgb3_uninit_device,
};

static __attribute__((constructor)) void cxgb3_register(void)
{
	const char *mismatch = cxgb3_self_check(&cxgb3_context_ops);

	if (mismatch) {
		fprintf(stderr,
			"libibverbs: Warning: the cxgb3 provider was built for rdma-core %d and does not fit this "
			"libibverbs (%s); not used\n",
			T3_RDMA_CORE, mismatch);
		return;
	}
	verbs_register_driver_name(&cxgb3_device_ops);
}
