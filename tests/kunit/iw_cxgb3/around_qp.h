/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For suites of queue pairs and completion queues: qp.c and cq.c with stubs for the card and the
 * endpoint, a device with a CQ, and the steps of the tests.
 */
#ifndef T3_KUNIT_AROUND_QP_H
#define T3_KUNIT_AROUND_QP_H

#include <linux/delay.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <net/netlink.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

/* Replaces trace.h: tests add no events to tracefs. */
#define T3_TRACE_H
#include "verbs.h"
#include "uapi/t3_abi.h"

static inline void trace_t3_qp_state(const struct t3_qp *qp, enum t3_qp_state from,
				     enum t3_qp_event ev,
				     const struct t3_transition *to)
{
}

static inline void trace_t3_cqe(u32 cq, const struct t3_cqe *cqe, int result)
{
}

#include "../failing_alloc.h"

#undef kvcalloc
#define kvcalloc(n, size, gfp) kvzalloc((n) * (size), gfp)
#define xa_reserve_irq(xa, index, gfp) \
	(alloc_fails(gfp, __func__) ? -ENOMEM : (xa_reserve_irq)(xa, index, gfp))

static int fake_copy_from(void *to, struct ib_udata *udata, size_t len);
static int fake_copy_to(struct ib_udata *udata, void *from, size_t len);
static void fake_entry_remove(struct rdma_user_mmap_entry *entry);
static void count_grace_period(unsigned long since);

#define ib_copy_from_udata fake_copy_from
#define ib_copy_to_udata fake_copy_to
#define rdma_user_mmap_entry_remove fake_entry_remove
#define cond_synchronize_rcu_expedited count_grace_period

#include "qp_fsm.c"
#include "wr.c"
#include "cqe.c"
static const struct t3_transition *fsm_lookup(enum t3_qp_state from, enum t3_qp_event ev);

#define t3_qp_fsm fsm_lookup
#include "quota.c"
#include "qp_state.c"
#include "qp.c"
#include "post.c"
#undef t3_qp_fsm
#include "cq.c"

struct workqueue_struct *t3_workqueue;
bool t3_memory_windows;

/* Another thread resets this QP, and finishes between two lookups in the table. */
static struct {
	struct t3_qp *qp;
	unsigned int lookups;
} other_reset;

static const struct t3_transition *fsm_lookup(enum t3_qp_state from, enum t3_qp_event ev)
{
	if (other_reset.qp && ++other_reset.lookups == 2)
		other_reset.qp->resetting = false;
	return t3_qp_fsm(from, ev);
}

enum { PBL_ADDR = 0x8000 };

static struct {
	unsigned int sent, aborts, connect_aborts, closes, limited_closes, terminates;
	unsigned int rung, handlers;
	struct t3_term term;		/* of the last TERMINATE */
	unsigned int disconnected_now;	/* aborts and closes in the caller's context */
	int queues_at_free;		/* of the last ring */
	int send_error, respond_error;
	int ids, rqts, entries, rings, pbls;	/* allocated */
	int queues;			/* set up in the card */
	int ep_refs;
	int setup_error;
	unsigned int uncharged;		/* ids and rings allocated without a memory cgroup */
	bool found_early;
	unsigned int grace_periods;
	struct ib_qp *late_reader;
	unsigned int fastregs;
	unsigned int bad_entries;	/* that end their QP */
	unsigned int bad_entry_ms;	/* that this takes */
	unsigned int ended_by_entry;
	u64 fastreg_page;
	u32 next_id;
	u8 qp_caps;
} card;

static struct t3_dev *dev;
static struct t3_ucontext *ucontext;

/* --- stubs of the driver --------------------------------------------------- */

int t3_dev_context_ctl(struct t3_dev *dev, unsigned int req, void *data, bool may_sleep)
{
	const struct rdma_cq_setup *setup = data;

	if (req != RDMA_CQ_SETUP)
		return 0;
	if (setup->size && card.setup_error)
		return card.setup_error;
	card.queues += setup->size ? 1 : -1;
	return 0;
}

int t3_dev_send(struct t3_dev *dev, struct sk_buff *skb)
{
	const struct t3_wr_rdma_init *init = (const void *)skb->data;

	if (skb->len == sizeof(*init))
		card.qp_caps = init->qp_caps;
	card.sent++;
	kfree_skb(skb);
	return card.send_error;
}

int t3_id_get(struct t3_dev *dev, struct t3_ids *ids, struct t3_quota *quota)
{
	card.ids++;
	return ++card.next_id;
}

void t3_id_put(struct t3_ids *ids, struct t3_quota *quota, u32 id)
{
	card.ids--;
}

int t3_qp_id_get(struct t3_dev *dev, struct t3_qp_groups *groups, gfp_t gfp)
{
	card.uncharged += !(gfp & __GFP_ACCOUNT);
	card.ids++;
	return ++card.next_id;
}

void t3_qp_id_put(struct t3_dev *dev, struct t3_qp_groups *groups, u32 id)
{
	card.ids--;
}

u32 t3_rqt_alloc(struct t3_dev *dev, struct t3_quota *quota, u32 entries)
{
	card.rqts++;
	return 0x1000;
}

void t3_rqt_free(struct t3_dev *dev, struct t3_quota *quota, u32 addr, u32 entries)
{
	card.rqts--;
}

u32 t3_pbl_alloc(struct t3_dev *dev, struct t3_quota *quota, u32 bytes)
{
	card.pbls++;
	return PBL_ADDR;
}

void t3_pbl_free(struct t3_dev *dev, struct t3_quota *quota, u32 addr, u32 bytes)
{
	card.pbls -= addr == PBL_ADDR;
}

int t3_dma_alloc(struct t3_dev *dev, struct t3_dma *mem, size_t size, gfp_t gfp)
{
	card.uncharged += !(gfp & __GFP_ACCOUNT);
	mem->size = PAGE_ALIGN(size);
	mem->va = kzalloc(mem->size, GFP_KERNEL);
	card.rings += !!mem->va;
	return mem->va ? 0 : -ENOMEM;
}

void t3_dma_free(struct t3_dev *dev, struct t3_dma *mem)
{
	card.rings -= !!mem->va;
	card.queues_at_free = card.queues;
	kfree(mem->va);
	mem->va = NULL;
}

/* No lookup may find an object whose creation can still fail. */
static void look_for_objects(void)
{
	unsigned long id = 0;

	if (xa_find(&dev->qps, &id, ULONG_MAX, XA_PRESENT))
		card.found_early = true;
	id = 0;
	if (xa_find(&dev->cqs, &id, ULONG_MAX, XA_PRESENT))
		card.found_early = true;
}

static int fake_copy_from(void *to, struct ib_udata *udata, size_t len)
{
	memset(to, 0xff, len);
	return 0;
}

static int fake_copy_to(struct ib_udata *udata, void *from, size_t len)
{
	if (card.respond_error)
		look_for_objects();
	return card.respond_error;
}

struct t3_mmap *t3_mmap_insert(struct t3_ucontext *uc, const struct t3_mmap *what, size_t len)
{
	struct t3_mmap *map = kmemdup(what, sizeof(*what), GFP_KERNEL);

	if (!map)
		return ERR_PTR(-ENOMEM);
	card.entries++;
	return map;
}

static void fake_entry_remove(struct rdma_user_mmap_entry *entry)
{
	struct t3_mmap *map = container_of(entry, struct t3_mmap, rdma);

	t3_dma_free(dev, &map->mem);
	kfree(map);
	card.entries--;
}

/* A grace period: no lookup finds the QP any more, and the last reader takes its reference. */
static void count_grace_period(unsigned long since)
{
	card.grace_periods++;
	if (!card.late_reader)
		return;
	if (completion_done(&to_t3_qp(card.late_reader)->released) ||
	    !to_t3_qp(card.late_reader)->dying)
		card.found_early = true;
	t3_iw_add_ref(card.late_reader);
}

int t3_mr_fastreg(struct ib_mr *ibmr, u32 key, int access, struct t3_fastreg *fr)
{
	fr->stag = key;
	fr->npages = 1;
	fr->pages = &card.fastreg_page;
	return 0;
}

void t3_mr_fastreg_posted(struct t3_dev *dev, struct ib_mr *ibmr, const struct t3_fastreg *fr)
{
	card.fastregs++;
}

void t3_qp_bad_entry_work(struct work_struct *work)
{
	WRITE_ONCE(card.bad_entries, card.bad_entries + 1);
	msleep(card.bad_entry_ms);
	card.ended_by_entry++;
}

static void abort_connects(struct t3_dev *dev, u64 qp_serial)
{
	card.connect_aborts++;
}

void t3_ring_doorbell(struct t3_dev *dev, u32 context)
{
	card.rung++;
}

static void get_ep(struct t3_ep *ep)
{
	card.ep_refs++;
}

static void put_ep(struct t3_ep *ep)
{
	card.ep_refs--;
}

static void disconnect(struct t3_ep *ep, bool abrupt, bool may_sleep)
{
	if (may_sleep)
		might_sleep();
	card.disconnected_now += may_sleep;
	if (abrupt)
		card.aborts++;
	else
		card.closes++;
}

static void terminate(struct t3_ep *ep, struct t3_term term)
{
	card.terminates++;
	card.term = term;
}

static void limit_close(struct t3_ep *ep)
{
	card.limited_closes++;
}

const struct t3_conn_ops t3_conn_ops = {
	.abort_connects	= abort_connects,
	.get		= get_ep,
	.put		= put_ep,
	.disconnect	= disconnect,
	.terminate	= terminate,
	.limit_close	= limit_close,
};

void t3_pd_put_user(struct t3_pd *pd)
{
	atomic_dec(&pd->users);
}

/* --- a device, a CQ and QPs ------------------------------------------------ */

static struct t3_ep *const some_ep = (struct t3_ep *)&card;	/* for fakes only */
static struct t3_cq *cq;
static struct t3_pd pd;
static struct uverbs_attr_bundle bundle;
static u32 produced;

static void on_completion(struct ib_cq *ibcq, void *context)
{
	card.handlers++;
}

static struct t3_cq *alloc_cq(struct kunit *test)
{
	struct t3_cq *new = kunit_kzalloc(test, sizeof(*new), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, new);
	new->ibcq.device = &dev->ibdev;
	new->ibcq.comp_handler = on_completion;
	return new;
}

static struct t3_cq *make_cq(struct kunit *test)
{
	const struct ib_cq_init_attr attr = { .cqe = 64 };
	struct t3_cq *new = alloc_cq(test);

	KUNIT_ASSERT_EQ(test, t3_create_cq(&new->ibcq, &attr, NULL), 0);
	return new;
}

static int qp_init(struct kunit *test)
{
	memset(&card, 0, sizeof(card));
	card.next_id = 100;
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev);
	ucontext = kunit_kzalloc(test, sizeof(*ucontext), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ucontext);
	dev->ports.lldevs[0] = kunit_kzalloc(test, sizeof(struct net_device), GFP_KERNEL);
	dev->ports.lldevs[1] = kunit_kzalloc(test, sizeof(struct net_device), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, dev->ports.lldevs[0] && dev->ports.lldevs[1]);
	dev->ports.nports = 2;
	dev->ports.lldevs[0]->mtu = 1500;
	dev->ports.lldevs[1]->mtu = 9000;
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->cqs, XA_FLAGS_LOCK_IRQ);
	dev->qp_group_size = 32;
	memset(&bundle, 0, sizeof(bundle));
	bundle.context = &ucontext->ibucontext;
	bundle.driver_udata.outlen = 64;
	t3_workqueue = alloc_workqueue("qp_kunit", 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_workqueue);
	cq = make_cq(test);
	produced = 0;
	return 0;
}

static void qp_exit(struct kunit *test)
{
	destroy_workqueue(t3_workqueue);
	KUNIT_EXPECT_EQ(test, t3_destroy_cq(&cq->ibcq, NULL), 0);
	KUNIT_EXPECT_EQ(test, card.ids, 0);
	KUNIT_EXPECT_EQ(test, card.rqts, 0);
	KUNIT_EXPECT_EQ(test, card.entries, 0);
	KUNIT_EXPECT_EQ(test, card.rings, 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);
	KUNIT_EXPECT_EQ(test, card.queues, 0);
	KUNIT_EXPECT_EQ(test, card.ep_refs, 0);
	KUNIT_EXPECT_FALSE(test, t3_pd_is_used(&pd));
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->qps));
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->cqs));
}

static struct t3_qp *alloc_qp(struct kunit *test)
{
	struct t3_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->ibqp.device = &dev->ibdev;
	qp->ibqp.pd = &pd.ibpd;
	qp->ibqp.send_cq = &cq->ibcq;
	qp->ibqp.recv_cq = &cq->ibcq;
	return qp;
}

static int create(struct t3_qp *qp, bool user)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 7 },
		.sq_sig_type = IB_SIGNAL_ALL_WR,
	};

	return t3_create_qp(&qp->ibqp, &init, user ? &bundle.driver_udata : NULL);
}

static struct t3_qp *make_qp(struct kunit *test, bool user)
{
	struct t3_qp *qp = alloc_qp(test);

	KUNIT_ASSERT_EQ(test, create(qp, user), 0);
	return qp;
}

static int connect_attrs(struct t3_qp *qp, const struct t3_conn_attrs *attrs)
{
	bool acked;

	return t3_qp_connect(qp, some_ep, attrs, &acked);
}

static int __maybe_unused connect(struct t3_qp *qp, u8 rtr_type)
{
	const struct t3_conn_attrs attrs = { .tid = 7, .rtr_type = rtr_type };

	return connect_attrs(qp, &attrs);
}

static int __maybe_unused move(struct t3_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return t3_modify_qp(&qp->ibqp, &attr, IB_QP_STATE, NULL);
}

static void __maybe_unused recv(struct kunit *test, struct t3_qp *qp, u64 wr_id)
{
	const struct ib_recv_wr wr = { .wr_id = wr_id }, *bad;

	KUNIT_EXPECT_EQ(test, t3_post_recv(&qp->ibqp, &wr, &bad), 0);
}

static void __maybe_unused send(struct kunit *test, struct t3_qp *qp, u64 wr_id)
{
	const struct ib_send_wr wr = { .wr_id = wr_id, .opcode = IB_WR_SEND }, *bad;

	KUNIT_EXPECT_EQ(test, t3_post_send(&qp->ibqp, &wr, &bad), 0);
}

/* The card receives a message and writes an entry for it. */
static void __maybe_unused received(struct t3_qp *qp, u32 msn)
{
	struct t3_cqe *e = (struct t3_cqe *)cq->ring.va + produced;

	e->u.rq.msn = cpu_to_be32(msn);
	e->header = cpu_to_be32(T3_CQE_GEN | qp->id << 12 | T3_RDMA_SEND);
	produced++;
}

/* The number of completions, which must all have this status. */
static int __maybe_unused polled(struct kunit *test, enum ib_wc_status status)
{
	struct ib_wc wc[16];
	int i, n;

	/* The consumer's array, from its stack. */
	memset(wc, 0xff, sizeof(wc));
	n = t3_poll_cq(&cq->ibcq, ARRAY_SIZE(wc), wc);
	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_EQ(test, (int)wc[i].status, (int)status);
		KUNIT_EXPECT_EQ(test, wc[i].wc_flags, 0);
		KUNIT_EXPECT_EQ(test, wc[i].src_qp, 0U);
	}
	return n;
}

static u64 __maybe_unused status_of(const struct t3_qp *qp)
{
	return atomic64_read((atomic64_t *)(qp->ring.va + T3_QP_STATUS_OFFSET));
}

/* The endpoint reports the end of the connection, and the last message of the card. */
static void __maybe_unused connection_ends(struct t3_qp *qp, enum t3_qp_event ev)
{
	t3_qp_fsm_apply(qp, ev);
	t3_qp_disconnected(qp);
}

struct destroyer {
	struct work_struct work;
	struct t3_qp *qp;
	struct completion done;
};

static void __maybe_unused destroy_work(struct work_struct *work)
{
	struct destroyer *d = container_of(work, struct destroyer, work);

	t3_destroy_qp(&d->qp->ibqp, NULL);
	complete(&d->done);
}

#endif
