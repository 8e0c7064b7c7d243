// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs: owner, creation and destruction, modify and query.
 */
#include <linux/build_bug.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/log2.h>
#include <linux/netdevice.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <rdma/rdma_cm.h>
#include <rdma/restrack.h>

#include <t3_cred.h>

#include "uapi/t3_abi.h"
#include "t3_compat_verbs.h"
#include "doorbell_page.h"
#include "verbs.h"

/* --- owner ------------------------------------------------------------------- */

/*
 * Consumers name a QP by its number, which is easy to guess, and the in-tree rdma_cm and iw_cm
 * compare no owner. Any context; true if the task may name the QP.
 *
 * A process connects and accepts with a write() to the device of rdma_ucm or t3_rdma_cm. Both
 * refuse a file that was opened with other credentials, and call the driver in that system call.
 * So `current` is the consumer. It may use the QPs that its process created, also with
 * privileges that it has dropped, and those of a process that it may trace, as after a fork.
 * The sender of the command to create a QP is its creator, even if the verbs file was passed.
 *
 * Kernel consumers call from workers and kernel threads, or from mount(2) (9p).
 */
static bool t3_qp_permits_task(const struct t3_qp *qp)
{
	if (!qp->user)
		return current->flags & PF_KTHREAD ||
		       ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
	return task_tgid(current) == qp->creator || t3_may_act_as(current_cred(), qp->cred);
}

/*
 * A kernel QP also needs the id for which it was created. rdma_create_qp(), which all in-tree
 * consumers call, stores the QP in the id, and an id of a process never has one. For the context
 * of the iw_cm_id see t3_cm_id_net().
 */
bool t3_qp_permits(const struct t3_qp *qp, const struct iw_cm_id *cm_id)
{
	const struct rdma_cm_id *id = cm_id->context;

	return t3_qp_permits_task(qp) && (qp->user || (id && id->qp == &qp->ibqp));
}

/* A pid of which a reference is held is not used again for another process. */
static void t3_qp_set_creator(struct t3_qp *qp)
{
	qp->cred = get_current_cred();
	qp->creator = get_pid(task_tgid(current));
}

static void t3_qp_put_creator(struct t3_qp *qp)
{
	put_pid(qp->creator);
	put_cred(qp->cred);
}

/* --- references of iw_cm -------------------------------------------------------- */

static void t3_iw_add_ref(struct ib_qp *ibqp)
{
	t3_qp_get(to_t3_qp(ibqp));
}

static void t3_iw_rem_ref(struct ib_qp *ibqp)
{
	t3_qp_put(to_t3_qp(ibqp));
}

static void t3_qp_set_found(struct t3_dev *dev, struct t3_qp *qp)
{
	lockdep_assert_held(&dev->qps.xa_lock);
	qp->found_by_cm = true;
	qp->found_at = get_state_synchronize_rcu();
}

/*
 * The iWARP CM core calls this for a pointer and then t3_iw_add_ref() for a reference. iw_cm
 * calls both under a spinlock; other callers must call both under rcu_read_lock(). So destroy
 * marks the QP as dying, waits for a grace period, and only then drops the reference from
 * creation: each caller that has found the QP holds a reference by then. A grace period takes
 * time, so destroy waits only if found_by_cm is set, and if none has passed since then. Flag and
 * state change under the table's lock, so they cannot change any more when the QP is dying.
 *
 * iw_cm accepts twice if a process does, and the second time stores the QP that it finds here
 * without asking the driver. So the owner is compared here too.
 */
static struct ib_qp *t3_iw_get_qp(struct ib_device *ibdev, int qpn)
{
	struct t3_dev *dev = to_t3_dev(ibdev);
	unsigned long flags;
	struct t3_qp *qp;

	RCU_LOCKDEP_WARN(!rcu_read_lock_any_held(), "neither RCU nor a spinlock is held");
	xa_lock_irqsave(&dev->qps, flags);
	qp = xa_load(&dev->qps, qpn);
	if (qp && (qp->dying || !t3_qp_permits_task(qp)))
		qp = NULL;
	if (qp)
		t3_qp_set_found(dev, qp);
	xa_unlock_irqrestore(&dev->qps, flags);
	return qp ? &qp->ibqp : NULL;
}

/* --- modify and query ------------------------------------------------------------ */

static int t3_qp_event_for(enum ib_qp_state state)
{
	switch (state) {
	case IB_QPS_RESET:
		return T3_QPEV_USER_RESET;
	case IB_QPS_INIT:
		return T3_QPEV_USER_INIT;
	case IB_QPS_SQD:
		return T3_QPEV_USER_CLOSE;
	case IB_QPS_SQE:
		return T3_QPEV_USER_TERM;
	case IB_QPS_ERR:
		return T3_QPEV_USER_ERROR;
	default:
		return -EINVAL;
	}
}

static int t3_qp_set_attrs(struct t3_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	unsigned long flags;
	int err = 0;

	if (!(mask & (IB_QP_ACCESS_FLAGS | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_MAX_DEST_RD_ATOMIC)))
		return 0;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > T3_MAX_RD_ATOM)
		return -EINVAL;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > T3_MAX_RD_ATOM)
		return -EINVAL;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->state != T3_QPS_IDLE) {
		err = -EINVAL;
		goto unlock;
	}
	if (mask & IB_QP_ACCESS_FLAGS)
		qp->access = attr->qp_access_flags;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		qp->max_ord = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		qp->max_ird = attr->max_dest_rd_atomic;
unlock:
	spin_unlock_irqrestore(&qp->lock, flags);
	return err;
}

/*
 * iWARP: a QP gets to RTS by its connection, and there is no RTR. librdmacm moves a QP to
 * RTR all the same, and later sets nothing but a port; both succeed and change nothing. A
 * program that connects QPs itself (ibv_rc_pingpong) sets the InfiniBand path to the peer
 * with RTR. That is refused at once, since no such QP ever gets to RTS.
 */
static int t3_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
			struct ib_udata *udata)
{
	struct t3_qp *qp = to_t3_qp(ibqp);
	int ev, err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	err = t3_udata_empty(udata);
	if (err)
		return err;
	if (mask & IB_QP_STATE && attr->qp_state == IB_QPS_RTR &&
	    mask & (IB_QP_AV | IB_QP_DEST_QPN)) {
		ibdev_dbg(ibqp->device, "qp %u: iWARP connects by the RDMA CM only\n", qp->id);
		return -EOPNOTSUPP;
	}
	err = t3_qp_set_attrs(qp, attr, mask);
	if (err || !(mask & IB_QP_STATE) || attr->qp_state == IB_QPS_RTR)
		return err;
	if (attr->qp_state != IB_QPS_RESET && t3_qp_in_state(qp, attr->qp_state))
		return 0;
	ev = t3_qp_event_for(attr->qp_state);
	return ev < 0 ? ev : t3_qp_fsm_apply(qp, ev);
}

static int t3_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		       struct ib_qp_init_attr *init)
{
	struct t3_dev *dev = to_t3_dev(ibqp->device);
	struct t3_qp *qp = to_t3_qp(ibqp);
	unsigned long flags;
	u32 port;

	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	spin_lock_irqsave(&qp->lock, flags);
	attr->qp_state = t3_qp_verbs_state(qp);
	attr->qp_access_flags = qp->access;
	attr->max_rd_atomic = qp->used ? qp->conn.ord : qp->max_ord;
	attr->max_dest_rd_atomic = qp->used ? qp->conn.ird : qp->max_ird;
	port = qp->ep ? qp->conn.channel + 1 : 1;
	spin_unlock_irqrestore(&qp->lock, flags);
	attr->cur_qp_state = attr->qp_state;
	attr->port_num = port;
	/* As ib_core reports the active MTU of the port. */
	attr->path_mtu = ib_mtu_int_to_enum(READ_ONCE(dev->ports.lldevs[port - 1]->mtu));
	attr->cap.max_send_wr = t3_sq_size(t3_qp_sizes_of(qp));
	attr->cap.max_recv_wr = t3_rq_size(t3_qp_sizes_of(qp)) - 1;
	attr->cap.max_send_sge = T3_MAX_SGE;
	attr->cap.max_recv_sge = T3_MAX_SGE;
	attr->cap.max_inline_data = T3_MAX_INLINE;
	init->qp_type = ibqp->qp_type;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->qp_context = ibqp->qp_context;
	init->event_handler = ibqp->event_handler;
	init->sq_sig_type = qp->sq_sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->cap = attr->cap;
	return 0;
}

/* --- creation and destruction ---------------------------------------------------- */

struct t3_qp_sizes {
	u32 sq, rq, slots;
};

static int t3_qp_check_init(struct t3_dev *dev, const struct ib_qp_init_attr *init,
			    struct t3_qp_sizes *sizes)
{
	const struct ib_qp_cap *cap = &init->cap;

	if (init->qp_type != IB_QPT_RC || init->create_flags || init->srq)
		return -EOPNOTSUPP;
	if (t3_over_limit(dev, "send WRs", cap->max_send_wr, T3_MAX_RQ_ENTRIES - 1) ||
	    t3_over_limit(dev, "receive WRs", cap->max_recv_wr, T3_MAX_RQ_ENTRIES - 1) ||
	    t3_over_limit(dev, "SGEs of a send WR", cap->max_send_sge, T3_MAX_SGE) ||
	    t3_over_limit(dev, "SGEs of a receive WR", cap->max_recv_sge, T3_MAX_SGE) ||
	    t3_over_limit(dev, "bytes of inline data", cap->max_inline_data, T3_MAX_INLINE))
		return -EINVAL;

	sizes->rq = max_t(u32, roundup_pow_of_two(cap->max_recv_wr + 1), T3_MIN_RQ_ENTRIES);
	sizes->sq = roundup_pow_of_two(max(cap->max_send_wr, 1U));
	sizes->slots = roundup_pow_of_two(sizes->rq + sizes->sq);
	return 0;
}

static int t3_qp_user_respond(struct t3_qp *qp, struct t3_ucontext *uc, struct ib_udata *udata)
{
	const struct t3_wq *sizes = t3_qp_sizes_of(qp);
	struct t3_dev *dev = t3_qp_dev(qp);
	struct t3_create_qp_resp resp = {
		.qpid = qp->id,
		.size_log2 = sizes->slots_log2,
		.sq_size_log2 = sizes->sq_log2,
		.rq_size_log2 = sizes->rq_log2,
	};
	const struct t3_mmap ring = { .mem = qp->ring };
	const struct t3_mmap doorbell = {
		.doorbell = dev->info.udbell_physbase +
			    t3_doorbell_page(qp->id, dev->qp_group_size),
	};
	int err;

	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	qp->map = t3_mmap_insert(uc, &ring, qp->ring.size);
	if (IS_ERR(qp->map))
		return PTR_ERR(qp->map);
	qp->db_map = t3_mmap_insert(uc, &doorbell, PAGE_SIZE);
	if (IS_ERR(qp->db_map)) {
		err = PTR_ERR(qp->db_map);
		goto err_map;
	}
	resp.key = rdma_user_mmap_get_offset(&qp->map->rdma);
	resp.db_key = rdma_user_mmap_get_offset(&qp->db_map->rdma);
	err = t3_udata_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_db;
	return 0;

err_db:
	rdma_user_mmap_entry_remove(&qp->db_map->rdma);
err_map:
	rdma_user_mmap_entry_remove(&qp->map->rdma);
	return err;
}

static int t3_qp_alloc_arrays(struct t3_wq *wq)
{
	wq->sq = kvcalloc(t3_sq_size(wq), sizeof(*wq->sq), GFP_KERNEL);
	wq->rq = kvcalloc(t3_rq_size(wq), sizeof(*wq->rq), GFP_KERNEL);
	if (wq->sq && wq->rq)
		return 0;
	kvfree(wq->sq);
	kvfree(wq->rq);
	return -ENOMEM;
}

/*
 * A QP is looked up by its id in the device's table, and a kernel QP also in the tables of its
 * CQs, whose entries name the id. Slots of the tables are reserved while creation may still
 * fail, and filled when it cannot fail any more. Until then no lookup finds the QP: ids are
 * easy to guess, and a connect uses any QP that it finds.
 */
static int t3_qp_reserve(struct t3_qp *qp)
{
	struct t3_cq *scq = to_t3_cq(qp->ibqp.send_cq), *rcq = to_t3_cq(qp->ibqp.recv_cq);
	struct t3_dev *dev = t3_qp_dev(qp);
	int err;

	err = xa_reserve_irq(&dev->qps, qp->id, GFP_KERNEL);
	if (err || qp->user)
		return err;
	err = xa_reserve_irq(&scq->qps, qp->id, GFP_KERNEL);
	if (err)
		goto err_dev;
	/* Does nothing if both CQs are the same. */
	err = xa_reserve_irq(&rcq->qps, qp->id, GFP_KERNEL);
	if (err)
		goto err_scq;
	return 0;

err_scq:
	xa_erase_irq(&scq->qps, qp->id);
err_dev:
	xa_erase_irq(&dev->qps, qp->id);
	return err;
}

/* Fill the reserved slots, which needs no memory. */
static void t3_qp_publish(struct t3_qp *qp)
{
	if (!qp->user) {
		xa_store_irq(&to_t3_cq(qp->ibqp.send_cq)->qps, qp->id, qp, 0);
		xa_store_irq(&to_t3_cq(qp->ibqp.recv_cq)->qps, qp->id, qp, 0);
	}
	WARN_ON_ONCE(xa_err(xa_store_irq(&t3_qp_dev(qp)->qps, qp->id, qp, 0)));
}

static void t3_qp_leave_cqs(struct t3_qp *qp)
{
	struct t3_cq *scq = to_t3_cq(qp->ibqp.send_cq), *rcq = to_t3_cq(qp->ibqp.recv_cq);

	t3_cq_purge_qp(qp);
	xa_erase_irq(&scq->qps, qp->id);
	xa_erase_irq(&rcq->qps, qp->id);
	/* From now on a poll does not find the QP. Discard what an earlier one has added. */
	t3_cq_purge_qp(qp);
	/* No connect finds the QP any more. */
	if (context_unsafe(qp->rtr_entry))
		atomic_inc(&scq->rtr_avail);
}

static int t3_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct t3_ucontext *uc = rdma_udata_to_drv_context(udata, struct t3_ucontext, ibucontext);
	struct t3_dev *dev = to_t3_dev(ibqp->device);
	struct t3_qp *qp = to_t3_qp(ibqp);
	struct t3_wq *wq = context_unsafe(&qp->wq);	/* the QP is not published yet */
	struct t3_qp_sizes sizes;
	int id, err;

	err = t3_qp_check_init(dev, init, &sizes);
	if (err)
		return err;
	err = t3_udata_empty(udata);
	if (err)
		return err;

	qp->user = uc;
	qp->groups = uc ? &uc->groups : &dev->kernel_groups;
	qp->sq_sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->max_ord = 1;
	qp->max_ird = 1;
	qp->access = IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE;
	wq->slots_log2 = ilog2(sizes.slots);
	wq->sq_log2 = ilog2(sizes.sq);
	wq->rq_log2 = ilog2(sizes.rq);
	spin_lock_init(&qp->lock);
	qp->sq = (struct t3_qp_side){ .qp = qp, .send = true };
	qp->rq = (struct t3_qp_side){ .qp = qp, .send = false };
	INIT_LIST_HEAD(&qp->sq.node);
	INIT_LIST_HEAD(&qp->rq.node);
	kref_init(&qp->ref);
	init_completion(&qp->released);
	INIT_WORK(&qp->bad_entry_work, t3_qp_bad_entry_work);

	id = t3_qp_id_get(dev, qp->groups, t3_gfp(uc));
	if (id < 0)
		return id;
	qp->id = id;
	qp->serial = atomic64_inc_return(&dev->qp_serial);
	qp->rqt_addr = t3_rqt_alloc(dev, qp->groups->quota, sizes.rq);
	if (!qp->rqt_addr) {
		err = -ENOMEM;
		goto err_id;
	}
	err = t3_dma_alloc(dev, &qp->ring, (size_t)sizes.slots * T3_WR_SLOT_BYTES, t3_gfp(uc));
	if (err)
		goto err_rqt;
	wq->slots = qp->ring.va;
	if (!qp->user) {
		err = t3_qp_alloc_arrays(wq);
		if (err)
			goto err_ring;
	}
	err = t3_qp_reserve(qp);
	if (err)
		goto err_arrays;
	if (uc) {
		err = t3_qp_user_respond(qp, uc, udata);
		if (err)
			goto err_reserved;
		t3_qp_set_creator(qp);
	}

	ibqp->qp_num = qp->id;
	init->cap.max_send_wr = sizes.sq;
	init->cap.max_recv_wr = sizes.rq - 1;
	init->cap.max_inline_data = T3_MAX_INLINE;
	t3_qp_publish(qp);
	/* From now on t3_qp_next() finds the QP, and its status word is updated. */
	if (uc)
		t3_doorbell_init(qp);
	return 0;

err_reserved:
	xa_erase_irq(&dev->qps, qp->id);	/* of a user QP: it is in no table of a CQ */
err_arrays:
	kvfree(wq->sq);
	kvfree(wq->rq);
err_ring:
	if (IS_ERR_OR_NULL(qp->map))
		t3_dma_free(dev, &qp->ring);
err_rqt:
	t3_rqt_free(dev, qp->groups->quota, qp->rqt_addr, sizes.rq);
err_id:
	t3_qp_id_put(dev, qp->groups, qp->id);
	return err;
}

static int t3_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(ibqp->device);
	struct t3_qp *qp = to_t3_qp(ibqp);
	struct t3_wq *wq = context_unsafe(&qp->wq);	/* used after the last reference was put */

	t3_qp_fsm_apply(qp, T3_QPEV_DESTROY);
	xa_lock_irq(&dev->qps);
	WRITE_ONCE(qp->dying, true);
	xa_unlock_irq(&dev->qps);
	if (qp->found_by_cm)
		cond_synchronize_rcu_expedited(qp->found_at);	/* see t3_iw_get_qp() */
	t3_qp_put(qp);
	/* The ERROR state ends a connection; a connect that is still pending is ended here. */
	if (!t3_qp_is_busy(qp) && !completion_done(&qp->released))
		t3_conn_ops.abort_connects(dev, qp->serial);
	/* The connection's reference is dropped when the card is done with the ring. */
	wait_for_completion(&qp->released);
	/* Without a connection no entry ends the QP, see t3_cq_end_qp(). */
	cancel_work_sync(&qp->bad_entry_work);
	xa_erase_irq(&dev->qps, qp->id);

	if (qp->user)
		t3_qp_put_creator(qp);
	t3_qp_leave_cqs(qp);
	t3_qp_free_scratch(qp);
	kvfree(wq->sq);
	kvfree(wq->rq);
	if (qp->map) {
		rdma_user_mmap_entry_remove(&qp->db_map->rdma);
		rdma_user_mmap_entry_remove(&qp->map->rdma);
	} else {
		t3_dma_free(dev, &qp->ring);
	}
	t3_rqt_free(dev, qp->groups->quota, qp->rqt_addr, t3_rq_size(wq));
	t3_qp_id_put(dev, qp->groups, qp->id);
	return 0;
}

static int t3_qp_fill_res_conn(struct sk_buff *msg, const struct t3_conn_attrs *conn)
{
	if (rdma_nl_put_driver_u32_hex(msg, "tid", conn->tid) ||
	    rdma_nl_put_driver_u32(msg, "mpa_rev", conn->mpa_rev) ||
	    rdma_nl_put_driver_u32(msg, "mpa_crc", !!(conn->mpa_attrs & T3_MPA_CRC)) ||
	    rdma_nl_put_driver_u32(msg, "rx_markers", !!(conn->mpa_attrs & T3_MPA_RX_MARKERS)) ||
	    rdma_nl_put_driver_u32(msg, "tx_markers", !!(conn->mpa_attrs & T3_MPA_TX_MARKERS)) ||
	    rdma_nl_put_driver_string(msg, "rtr", t3_rtr_name(conn->rtr_type)) ||
	    rdma_nl_put_driver_u32(msg, "ird", conn->ird) ||
	    rdma_nl_put_driver_u32(msg, "ord", conn->ord))
		return -EMSGSIZE;
	return 0;
}

/*
 * The values of one point in time: a connection may begin or end meanwhile. The requests of
 * a user QP are posted and counted by its library alone, so they are left out.
 */
static int t3_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct t3_qp *qp = to_t3_qp(ibqp);
	const struct t3_wq *sizes = t3_qp_sizes_of(qp);
	struct t3_conn_attrs conn;
	enum t3_qp_state state;
	struct nlattr *table;
	unsigned long flags;
	u32 sends, recvs;
	bool connected;

	spin_lock_irqsave(&qp->lock, flags);
	state = qp->state;
	conn = qp->conn;
	connected = qp->ep;
	sends = qp->wq.sq_wptr - qp->wq.sq_rptr;
	recvs = qp->wq.rq_wptr - qp->wq.rq_rptr;
	spin_unlock_irqrestore(&qp->lock, flags);

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_string(msg, "t3_state", t3_qp_state_name(state)) ||
	    rdma_nl_put_driver_u32(msg, "slots", t3_wq_slots(sizes)) ||
	    rdma_nl_put_driver_u32(msg, "sq", t3_sq_size(sizes)) ||
	    rdma_nl_put_driver_u32(msg, "rq", t3_rq_size(sizes)) ||
	    rdma_nl_put_driver_u32(msg, "user", qp->user) ||
	    (!qp->user && rdma_nl_put_driver_u32(msg, "sends", sends)) ||
	    (!qp->user && rdma_nl_put_driver_u32(msg, "recvs", recvs)) ||
	    (connected && t3_qp_fill_res_conn(msg, &conn))) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}

const struct ib_device_ops t3_qp_ops = {
	.create_qp	= t3_create_qp,
	.destroy_qp	= t3_destroy_qp,
	.modify_qp	= t3_modify_qp,
	.query_qp	= t3_query_qp,
	.post_send	= t3_post_send,
	.post_recv	= t3_post_recv,
	.fill_res_qp_entry = t3_fill_res_qp_entry,
	.iw_add_ref	= t3_iw_add_ref,
	.iw_rem_ref	= t3_iw_rem_ref,
	.iw_get_qp	= t3_iw_get_qp,

	INIT_RDMA_OBJ_SIZE(ib_qp, t3_qp, ibqp),
};
