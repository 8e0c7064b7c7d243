// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues.
 *
 * The library reads a user CQ; the kernel only arms it and reports when one of
 * its QPs must be flushed. A kernel CQ is read here: each hardware entry is
 * applied to the work queue of its QP (cqe.c), and a QP with completions to poll
 * is in the CQ's ready list until the consumer has polled them.
 */
#include <linux/delay.h>
#include <linux/slab.h>
#include <rdma/restrack.h>

#include "uapi/t3_abi.h"
#include "t3_compat_verbs.h"
#include "verbs.h"
#include "trace.h"

/* Longest time that an entry written before arming may take to arrive in memory. */
#define T3_ARM_WAIT_US	10000

static struct t3_cqe *t3_cq_entry(const struct t3_cq *cq, u32 ptr)
{
	return (struct t3_cqe *)cq->ring.va + (ptr & (cq->entries - 1));
}

static bool t3_cq_entry_valid(const struct t3_cq *cq, u32 ptr)
{
	return t3_cqe_valid(READ_ONCE(t3_cq_entry(cq, ptr)->header),
			    t3_gen(ptr, ilog2(cq->entries)));
}

/* --- references ------------------------------------------------------------- */

static void t3_cq_release(struct kref *ref)
{
	complete(&container_of(ref, struct t3_cq, ref)->released);
}

/* The table's lock keeps a CQ that was found in it from being freed. */
static bool t3_cq_tryget(struct t3_dev *dev, struct t3_cq *cq)
{
	lockdep_assert_held(&dev->cqs.xa_lock);
	return kref_get_unless_zero(&cq->ref);
}

struct t3_cq *t3_cq_find(struct t3_dev *dev, u32 id)
{
	struct t3_cq *cq;
	unsigned long flags;

	xa_lock_irqsave(&dev->cqs, flags);
	cq = xa_load(&dev->cqs, id);
	if (cq && !t3_cq_tryget(dev, cq))
		cq = NULL;
	xa_unlock_irqrestore(&dev->cqs, flags);
	return cq;
}

void t3_cq_put(struct t3_cq *cq)
{
	kref_put(&cq->ref, t3_cq_release);
}

static void t3_cq_call_handler(struct t3_cq *cq)
{
	unsigned long flags;

	spin_lock_irqsave(&cq->comp_lock, flags);
	cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	spin_unlock_irqrestore(&cq->comp_lock, flags);
}

/*
 * Call the handler once for each time that the CQ was armed. ib_core warns of
 * a call for a kernel CQ that is not armed. An event raised by arming leaves the
 * card armed: without this check a process would get more and more events.
 */
static void t3_cq_notify_armed(struct t3_cq *cq)
{
	if (xchg(&cq->armed, false))
		t3_cq_call_handler(cq);
}

/*
 * From now on t3_cq_may_raise() allows another event. @reported: the card's event for an entry is
 * delivered.
 */
static void t3_cq_set_progress(struct t3_cq *cq, bool reported)
{
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	cq->progress = true;
	if (reported)
		cq->first_reported = true;
	spin_unlock_irqrestore(&cq->lock, flags);
}

/* The card has written an entry after the CQ was armed. */
void t3_cq_written(struct t3_cq *cq)
{
	bool armed = xchg(&cq->armed, false);

	t3_cq_set_progress(cq, armed);
	if (armed)
		t3_cq_call_handler(cq);
}

/* True for the first flush since the CQ was armed. */
static bool t3_cq_report_flush(struct t3_cq *cq)
{
	unsigned long flags;
	bool first;

	spin_lock_irqsave(&cq->lock, flags);
	first = !cq->flush_reported;
	cq->flush_reported = true;
	cq->flush_unreported = !first;
	spin_unlock_irqrestore(&cq->lock, flags);
	return first;
}

/* The CQ is armed. True if there was a flush without an event. */
static bool t3_cq_take_flush(struct t3_cq *cq)
{
	unsigned long flags;
	bool unreported;

	spin_lock_irqsave(&cq->lock, flags);
	unreported = cq->flush_unreported;
	cq->flush_reported = unreported;
	cq->flush_unreported = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	return unreported;
}

/*
 * There are completions without an entry of the card: a QP was flushed. A process
 * is notified even if the CQ is not armed, because its library detects only by
 * reading the status word that a QP must be flushed. But once for each time that it arms: an
 * event takes kernel memory until it is read, and a process can flush without end.
 */
void t3_cq_notify(struct t3_cq *cq)
{
	if (!cq->ibcq.uobject) {
		t3_cq_notify_armed(cq);
		return;
	}
	t3_cq_set_progress(cq, false);
	if (t3_cq_report_flush(cq))
		t3_cq_call_handler(cq);
}

static void t3_cq_comp_work(struct work_struct *work)
{
	t3_cq_notify(container_of(work, struct t3_cq, comp_work));
}

/* For a caller that may run inside the handler. */
void t3_cq_notify_later(struct t3_cq *cq)
{
	queue_work(t3_workqueue, &cq->comp_work);
}

/* --- polling ---------------------------------------------------------------- */

/* With the CQ lock and the QP lock. The QP has a completion for the consumer to poll. */
void t3_cq_add_ready(struct t3_cq *cq, struct t3_qp_side *side)
{
	lockdep_assert_held(&cq->lock);
	lockdep_assert_held(&side->qp->lock);
	if (list_empty(&side->node))
		list_add_tail(&side->node, &cq->ready);
}

/*
 * With the CQ lock and the QP lock. An entry contradicts the posted requests, so the positions of
 * card and driver differ, and later entries would complete the wrong requests. Entries that arrive
 * after a flush contradict nothing that still matters. The end of the QP calls the consumer, which
 * may hold its own locks now.
 */
static void t3_cq_end_qp(struct t3_qp *qp, const struct t3_cqe *cqe)
{
	lockdep_assert_held(&qp->lock);
	if (qp->bad_entry || (qp->state != T3_QPS_RTS && qp->state != T3_QPS_CLOSING))
		return;
	qp->bad_entry = true;
	qp->bad_cqe = *cqe;
	queue_work(t3_workqueue, &qp->bad_entry_work);
}

/* With the CQ lock. Apply the next hardware entry to its QP. False if there is none. */
static bool t3_cq_consume(struct t3_cq *cq)
{
	struct t3_dev *dev = to_t3_dev(cq->ibcq.device);
	enum t3_cqe_result result;
	struct t3_cqe cqe;
	struct t3_qp *qp;

	lockdep_assert_held(&cq->lock);
	if (!t3_cq_entry_valid(cq, cq->rptr))
		return false;
	/* Read the entry's other words after its generation. */
	dma_rmb();
	cqe = *t3_cq_entry(cq, cq->rptr);
	cq->rptr++;

	/* A QP is in this table until destroy has purged the CQ. */
	qp = xa_load(&cq->qps, t3_cqe_qpid(&cqe));
	if (!qp) {
		t3_count(dev, T3_CNT_CQE_STALE);
		return true;
	}

	spin_lock(&qp->lock);
	result = t3_wq_apply(&qp->wq, &cqe);
	if (result == T3_CQE_BAD)
		t3_cq_end_qp(qp, &cqe);
	if (qp->ibqp.send_cq == &cq->ibcq && t3_sq_has_completion(&qp->wq))
		t3_cq_add_ready(cq, &qp->sq);
	if (qp->ibqp.recv_cq == &cq->ibcq && t3_rq_has_completion(&qp->wq))
		t3_cq_add_ready(cq, &qp->rq);
	spin_unlock(&qp->lock);

	trace_t3_cqe(cq->id, &cqe, result);
	if (result == T3_CQE_STALE)
		t3_count(dev, T3_CNT_CQE_STALE);
	else if (result == T3_CQE_BAD)
		t3_count(dev, T3_CNT_CQE_BAD);
	return true;
}

static enum ib_wc_opcode t3_cq_send_opcode(u8 rdma_op)
{
	static const enum ib_wc_opcode opcodes[] = {
		[T3_RDMA_WRITE]		= IB_WC_RDMA_WRITE,
		[T3_RDMA_READ_REQ]	= IB_WC_RDMA_READ,
		[T3_RDMA_SEND]		= IB_WC_SEND,
		[T3_RDMA_SEND_INV]	= IB_WC_SEND,
		[T3_RDMA_SEND_SE]	= IB_WC_SEND,
		[T3_RDMA_SEND_SE_INV]	= IB_WC_SEND,
		[T3_RDMA_FASTREG]	= IB_WC_REG_MR,
		[T3_RDMA_LOCAL_INV]	= IB_WC_LOCAL_INV,
	};

	return opcodes[rdma_op];
}

/* With the CQ lock. Return the next completion to the consumer. False if there is none. */
static bool t3_cq_next_wc(struct t3_cq *cq, struct ib_wc *wc)
{
	struct t3_completion done;
	struct t3_qp_side *side;
	struct t3_qp *qp;
	bool found, more;

	lockdep_assert_held(&cq->lock);
	while (!list_empty(&cq->ready)) {
		side = list_first_entry(&cq->ready, struct t3_qp_side, node);
		qp = side->qp;
		spin_lock(&qp->lock);
		found = side->send ? t3_sq_next_completion(&qp->wq, &done) :
				     t3_rq_next_completion(&qp->wq, &done);
		more = side->send ? t3_sq_has_completion(&qp->wq) : t3_rq_has_completion(&qp->wq);
		spin_unlock(&qp->lock);
		if (!more)
			list_del_init(&side->node);
		if (found)
			goto fill;
	}
	return false;

fill:
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = done.wr_id;
	wc->status = t3_wc_status(done.status);
	wc->vendor_err = done.status;
	wc->qp = &qp->ibqp;
	wc->byte_len = done.len;
	if (side->send) {
		wc->opcode = t3_cq_send_opcode(done.rdma_op);
		return true;
	}
	wc->opcode = IB_WC_RECV;
	if (done.inv_stag) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = done.inv_stag;
	}
	if (done.scratch)
		t3_pbl_free(to_t3_dev(cq->ibcq.device), NULL, done.scratch, T3_PBL_GRANULE);
	return true;
}

static int t3_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct t3_cq *cq = to_t3_cq(ibcq);
	unsigned long flags;
	int n = 0;

	/* The ring of a process is its own, and it can write anything into it. */
	if (cq->user_rptr)
		return -EOPNOTSUPP;
	spin_lock_irqsave(&cq->lock, flags);
	while (n < num) {
		if (t3_cq_next_wc(cq, &wc[n]))
			n++;
		else if (!t3_cq_consume(cq))
			break;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

/* Apply all entries that the card has written so far. */
static void t3_cq_consume_all(struct t3_cq *cq)
{
	lockdep_assert_held(&cq->lock);
	while (t3_cq_consume(cq))
		;
}

/*
 * Flush all outstanding requests of a QP without a connection, after the
 * completions that the card has written. The caller holds a reference on the
 * QP and no lock. A QP that was reset meanwhile has nothing to flush.
 */
void t3_cq_flush_qp(struct t3_qp *qp)
{
	struct t3_cq *cqs[] = { to_t3_cq(qp->ibqp.recv_cq), to_t3_cq(qp->ibqp.send_cq) };
	unsigned long flags;
	int i;

	for (i = 0; i < 2; i++) {
		spin_lock_irqsave(&cqs[i]->lock, flags);
		t3_cq_consume_all(cqs[i]);
		spin_unlock_irqrestore(&cqs[i]->lock, flags);
	}
	for (i = 0; i < 2; i++) {
		struct t3_cq *cq = cqs[i];

		spin_lock_irqsave(&cq->lock, flags);
		spin_lock(&qp->lock);
		if (t3_qp_flushable(qp))
			t3_wq_flush(&qp->wq);
		if (cq == cqs[1] && t3_sq_has_completion(&qp->wq))
			t3_cq_add_ready(cq, &qp->sq);
		if (cq == cqs[0] && t3_rq_has_completion(&qp->wq))
			t3_cq_add_ready(cq, &qp->rq);
		spin_unlock(&qp->lock);
		spin_unlock_irqrestore(&cq->lock, flags);
	}
}

/* The QP is being destroyed or reset: discard its entries in both CQs. */
void t3_cq_purge_qp(struct t3_qp *qp)
{
	struct t3_cq *cqs[] = { to_t3_cq(qp->ibqp.recv_cq), to_t3_cq(qp->ibqp.send_cq) };
	unsigned long flags;
	int i;

	for (i = 0; i < 2; i++) {
		spin_lock_irqsave(&cqs[i]->lock, flags);
		if (!qp->user)
			t3_cq_consume_all(cqs[i]);
		if (i == 0)
			list_del_init(&qp->rq.node);
		else
			list_del_init(&qp->sq.node);
		spin_unlock_irqrestore(&cqs[i]->lock, flags);
	}
}

/* --- user CQs --------------------------------------------------------------- */

/* A QP of this CQ is in error: report to the library that it must flush the QP. */
void t3_cq_set_user_error(struct t3_cq *cq)
{
	u32 *word = (u32 *)(t3_cq_entry(cq, 0) + cq->entries);

	if (cq->status_word)
		WRITE_ONCE(*word, T3_CQ_STATUS_ERROR);
}

/* --- arming ------------------------------------------------------------------- */

/*
 * Entries that the card wrote before it was armed raise no event, and the last
 * of them may not have arrived in memory yet. A kernel consumer polls once more
 * after arming and must find them. For a process see t3_cq_raise_unread(). False: the entry has
 * not arrived.
 */
static bool t3_cq_wait_for_entry(struct t3_cq *cq, u32 ptr, bool may_sleep)
{
	unsigned int waited;

	for (waited = 0; !t3_cq_entry_valid(cq, ptr); waited++) {
		if (waited == T3_ARM_WAIT_US || t3_dev_gone(to_t3_dev(cq->ibcq.device)))
			return false;
		if (may_sleep)
			usleep_range(1, 5);
		else
			udelay(1);
	}
	return true;
}

/*
 * Number of unread entries when the card was armed, from its index and the
 * reader's. Equal indexes mean an empty or a full ring. The ring is full if the
 * first entry was valid before arming, or if the last one is valid now. The first
 * entry alone, seen after arming, proves nothing: the card may just have written
 * it.
 */
static u32 t3_cq_entries_pending(const struct t3_cq *cq, u32 index, u32 rptr, bool first_seen)
{
	u32 pending = (index - rptr) & (cq->entries - 1);

	if (!pending && (first_seen || t3_cq_entry_valid(cq, rptr + cq->entries - 1)))
		pending = cq->entries;
	return pending;
}

/*
 * True if an unread entry is of the kind that was asked for: any that completes a
 * request, or a message with solicited event, or an error. The response to the
 * driver's own RTR read completes none, and a poll would find nothing.
 */
static bool t3_cq_wanted_pending(const struct t3_cq *cq, u32 rptr, u32 pending, bool solicited)
{
	struct t3_cqe cqe;
	u8 opcode;
	u32 i;

	for (i = 0; i < pending; i++) {
		cqe = *t3_cq_entry(cq, rptr + i);
		opcode = t3_cqe_opcode(&cqe);
		if (t3_cqe_status(&cqe) != T3_STATUS_SUCCESS)
			return true;
		if (!solicited && !t3_cqe_is_rtr(&cqe))
			return true;
		if (!t3_cqe_is_sq(&cqe) &&
		    (opcode == T3_RDMA_SEND_SE || opcode == T3_RDMA_SEND_SE_INV))
			return true;
	}
	return false;
}

/*
 * The CQ was armed when the card would write its next entry at `end`. True if
 * the last entry before it already had its event: it is the first one since the
 * CQ was armed before, and the card's event for it was delivered. Arming raises no
 * other one for it: a program that takes an event, arms and then polls, as
 * perftest does, would take two events for each message. The reader's index
 * counts modulo twice the ring size.
 */
static bool t3_cq_last_reported(struct t3_cq *cq, u32 end)
{
	unsigned long flags;
	bool reported;

	spin_lock_irqsave(&cq->lock, flags);
	reported = cq->first_reported && ((end - cq->armed_end) & (2 * cq->entries - 1)) == 1;
	cq->first_reported = false;
	cq->armed_end = end;
	spin_unlock_irqrestore(&cq->lock, flags);
	return reported;
}

/*
 * A process can write any value into its reader's index and its ring, and an
 * event takes kernel memory until it is read. So arming raises another event
 * only if there was progress since the last one: the card has written more
 * entries, or fewer entries are unread. A process that reads entries between its
 * events gets every event that it needs; one that arms repeatedly without
 * reading gets a single event.
 */
static bool t3_cq_may_raise(struct t3_cq *cq, u32 index, u32 pending)
{
	unsigned long flags;
	bool may;

	spin_lock_irqsave(&cq->lock, flags);
	may = cq->progress || index != cq->raised_index || pending < cq->raised_pending;
	if (may) {
		cq->progress = false;
		cq->raised_index = index;
		cq->raised_pending = pending;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return may;
}

/*
 * A process that arms sleeps until the next event, and the card raises none for entries that it
 * wrote before. So this raises one at once if such an entry is unread, as a software driver would.
 */
static void t3_cq_raise_unread(struct t3_cq *cq, u32 index, u32 rptr, u32 pending, bool solicited)
{
	u32 unreported = pending;

	if (t3_cq_last_reported(cq, rptr + pending) && pending)
		unreported--;
	if (t3_cq_wanted_pending(cq, rptr, unreported, solicited) &&
	    t3_cq_may_raise(cq, index, pending))
		t3_cq_notify_armed(cq);
}

/*
 * The card may not be armed, or an entry is late. ib_core and most consumers poll once more only if
 * missed events are reported, and take an error for "none". So a work item calls the handler: the
 * consumer polls and arms again. A card that is gone writes no more entries: each completion that
 * is not in the ring comes from a flush, which calls the handler.
 */
static void t3_cq_arm_again(struct t3_cq *cq)
{
	if (!t3_dev_gone(to_t3_dev(cq->ibcq.device)))
		t3_cq_notify_later(cq);
}

static int t3_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct t3_dev *dev = to_t3_dev(ibcq->device);
	struct t3_cq *cq = to_t3_cq(ibcq);
	struct rdma_cq_op op = {
		.id = cq->id,
		.op = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED ?
			T3_CQ_OP_ARM_SOLICITED : T3_CQ_OP_ARM_ANY,
	};
	bool user = cq->user_rptr;
	unsigned long irq_flags;
	bool waiting = false, first_seen, arrived = true, unknown;
	u32 rptr = 0, pending;
	int index;

	/* t3_uverbs lets no page fault wait: the page may be moving to another node, or in swap. */
	unknown = user && get_user(rptr, cq->user_rptr);
	/*
	 * Set before the card is armed: its event may arrive before the command returns. Set
	 * before cq->ready is read: a flush first adds to the list and then looks whether the CQ
	 * is armed, so either its completions are seen here or the handler is called.
	 */
	WRITE_ONCE(cq->armed, true);
	if (user && t3_cq_take_flush(cq))
		t3_cq_notify_armed(cq);
	if (!user) {
		spin_lock_irqsave(&cq->lock, irq_flags);
		rptr = cq->rptr;
		waiting = !list_empty(&cq->ready);
		spin_unlock_irqrestore(&cq->lock, irq_flags);
	}
	first_seen = t3_cq_entry_valid(cq, rptr);
	index = t3_dev_context_ctl(dev, RDMA_CQ_OP, &op, user);
	if (index < 0) {
		if (user)
			return index;
		t3_cq_arm_again(cq);
		return (flags & IB_CQ_REPORT_MISSED_EVENTS) &&
		       (waiting || t3_cq_entry_valid(cq, rptr));
	}
	if (unknown) {
		/* All entries count as unread, and as those that were asked for. */
		if (t3_cq_may_raise(cq, index, cq->entries))
			t3_cq_notify_armed(cq);
		return 0;
	}
	pending = t3_cq_entries_pending(cq, index, rptr, first_seen);
	if (pending) {
		/* A user's rptr is only a hint: it picks the entry to look at. */
		arrived = t3_cq_wait_for_entry(cq, rptr + pending - 1, user);
		/* Its generation is read before the contents of earlier entries. */
		dma_rmb();
	}
	if (user)
		t3_cq_raise_unread(cq, index, rptr, pending, op.op == T3_CQ_OP_ARM_SOLICITED);
	else if (!arrived)
		t3_cq_arm_again(cq);
	return (flags & IB_CQ_REPORT_MISSED_EVENTS) && (pending || waiting);
}

/* --- creation and destruction ---------------------------------------------------- */

static int t3_cq_hw_setup(struct t3_dev *dev, struct t3_cq *cq)
{
	struct rdma_cq_setup setup = {
		.id = cq->id,
		.base_addr = cq->ring.dma,
		.size = cq->entries,
		.credits = 65535,
		.credit_thres = 1,
		.ovfl_mode = 0,
	};

	return t3_dev_context_ctl(dev, RDMA_CQ_SETUP, &setup, true);
}

static void t3_cq_hw_clear(struct t3_dev *dev, struct t3_cq *cq)
{
	struct rdma_cq_setup setup = { .id = cq->id };

	/* The card still writes to the ring, which is freed next. */
	if (t3_dev_context_ctl(dev, RDMA_CQ_SETUP, &setup, true) < 0 && !t3_dev_gone(dev))
		t3_dev_fatal(dev, "a CQ cannot be disabled");
}

/*
 * A response buffer without space for memsize comes from an older library,
 * which maps the entries only and does not read the status word.
 */
static int t3_cq_user_respond(struct t3_cq *cq, struct t3_ucontext *uc, struct ib_udata *udata)
{
	struct t3_create_cq_resp resp = {
		.cqid = cq->id,
		.size_log2 = ilog2(cq->entries),
	};
	const struct t3_mmap ring = { .mem = cq->ring };
	size_t bytes = (size_t)cq->entries * T3_CQE_BYTES;

	cq->status_word = udata->outlen >= sizeof(resp);
	if (cq->status_word) {
		bytes += T3_CQE_BYTES;
		resp.memsize = PAGE_ALIGN(bytes);
	} else if (udata->outlen < sizeof(struct t3_create_cq_resp_v0)) {
		return -EINVAL;
	}
	cq->map = t3_mmap_insert(uc, &ring, PAGE_ALIGN(bytes));
	if (IS_ERR(cq->map))
		return PTR_ERR(cq->map);
	resp.key = rdma_user_mmap_get_offset(&cq->map->rdma);
	return t3_udata_respond(udata, &resp, sizeof(resp));
}

static int t3_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct ib_udata *udata)
{
	struct t3_ucontext *uc = rdma_udata_to_drv_context(udata, struct t3_ucontext, ibucontext);
	struct t3_dev *dev = to_t3_dev(ibcq->device);
	struct t3_cq *cq = to_t3_cq(ibcq);
	int id, err;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->comp_vector ||
	    t3_over_limit(dev, "CQ entries", attr->cqe, T3_MAX_CQE))
		return -EINVAL;
	if (udata) {
		struct t3_create_cq_req req;

		if (udata->inlen < sizeof(req))
			return -EINVAL;
		err = ib_copy_from_udata(&req, udata, sizeof(req));
		if (err)
			return err;
		if (!req.user_rptr_addr)
			return -EINVAL;
		cq->user_rptr = u64_to_user_ptr(req.user_rptr_addr);
	}

	cq->entries = roundup_pow_of_two(attr->cqe + T3_CQ_SPARE);
	atomic_set(&cq->rtr_avail, cq->entries - attr->cqe);
	spin_lock_init(&cq->lock);
	spin_lock_init(&cq->comp_lock);
	context_unsafe(cq->raised_pending = U32_MAX);	/* not published yet */
	context_unsafe(INIT_LIST_HEAD(&cq->ready));	/* the same */
	xa_init_flags(&cq->qps, XA_FLAGS_LOCK_IRQ);
	INIT_WORK(&cq->comp_work, t3_cq_comp_work);
	kref_init(&cq->ref);
	init_completion(&cq->released);

	cq->quota = uc ? uc->quota : NULL;
	id = t3_id_get(dev, &dev->cq_ids, cq->quota);
	if (id < 0)
		return id;
	cq->id = id;
	/* One more entry: the status word of a user CQ is located behind the ring. */
	err = t3_dma_alloc(dev, &cq->ring, (size_t)(cq->entries + 1) * T3_CQE_BYTES, t3_gfp(uc));
	if (err)
		goto err_id;
	err = t3_cq_hw_setup(dev, cq);
	if (err)
		goto err_ring;
	err = xa_reserve_irq(&dev->cqs, cq->id, GFP_KERNEL);
	if (err)
		goto err_hw;
	ibcq->cqe = attr->cqe;
	if (uc) {
		err = t3_cq_user_respond(cq, uc, udata);
		if (err)
			goto err_reserved;
	}
	/* Nothing can fail any more: fill the reserved slot, so that lookups find the CQ. */
	WARN_ON_ONCE(xa_err(xa_store_irq(&dev->cqs, cq->id, cq, 0)));
	return 0;

err_reserved:
	xa_erase_irq(&dev->cqs, cq->id);
err_hw:
	t3_cq_hw_clear(dev, cq);
err_ring:
	/* The mmap entry of a user CQ owns the memory. */
	if (IS_ERR_OR_NULL(cq->map))
		t3_dma_free(dev, &cq->ring);
	else
		rdma_user_mmap_entry_remove(&cq->map->rdma);
err_id:
	t3_id_put(&dev->cq_ids, cq->quota, cq->id);
	return err;
}

T3_DEFINE_CREATE_CQ(t3_create_cq_op, t3_create_cq)

static int t3_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(ibcq->device);
	struct t3_cq *cq = to_t3_cq(ibcq);

	xa_erase_irq(&dev->cqs, cq->id);
	t3_cq_put(cq);
	wait_for_completion(&cq->released);
	cancel_work_sync(&cq->comp_work);

	t3_cq_hw_clear(dev, cq);
	if (cq->map)
		rdma_user_mmap_entry_remove(&cq->map->rdma);
	else
		t3_dma_free(dev, &cq->ring);
	xa_destroy(&cq->qps);
	t3_id_put(&dev->cq_ids, cq->quota, cq->id);
	return 0;
}

static int t3_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct t3_cq *cq = to_t3_cq(ibcq);
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	u32 rptr = context_unsafe(READ_ONCE(cq->rptr)); /* a snapshot */

	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32(msg, "cqid", cq->id) ||
	    rdma_nl_put_driver_u32(msg, "entries", cq->entries) ||
	    rdma_nl_put_driver_u32(msg, "user", !!cq->user_rptr) ||
	    rdma_nl_put_driver_u32(msg, "rptr", rptr)) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}

const struct ib_device_ops t3_cq_ops = {
	.create_cq	= t3_create_cq_op,
	.destroy_cq	= t3_destroy_cq,
	.poll_cq	= t3_poll_cq,
	.req_notify_cq	= t3_req_notify_cq,
	.fill_res_cq_entry = t3_fill_res_cq_entry,

	INIT_RDMA_OBJ_SIZE(ib_cq, t3_cq, ibcq),
};
