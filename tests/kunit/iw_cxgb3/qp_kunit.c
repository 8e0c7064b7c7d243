// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs with their completion queues: qp.c and cq.c with stubs for the card and the
 * endpoint. When lookups find a QP, its references, when its requests are flushed, and the effects
 * of a modify.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <net/netlink.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

/* Replaces trace.h: tests add no events to tracefs. */
#define T3_TRACE_H
#include "iw_cxgb3.h"
#include "uapi/t3_abi.h"

static inline void trace_t3_qp_state(const struct t3_qp *qp, enum t3_qp_state from,
				     enum t3_qp_event ev,
				     const struct t3_qp_transition *tr)
{
}

static inline void trace_t3_cqe(u32 cq, const struct t3_cqe *cqe, int verdict)
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
static struct t3_qp_transition fsm_lookup(enum t3_qp_state from, enum t3_qp_event ev);

#define t3_qp_fsm fsm_lookup
#include "quota.c"
#include "qp.c"
#undef t3_qp_fsm
#include "cq.c"

struct workqueue_struct *t3_wq;

/* Another thread resets this QP, and finishes between two lookups in the table. */
static struct {
	struct t3_qp *qp;
	unsigned int lookups;
} other_reset;

static struct t3_qp_transition fsm_lookup(enum t3_qp_state from, enum t3_qp_event ev)
{
	if (other_reset.qp && ++other_reset.lookups == 2)
		other_reset.qp->resetting = false;
	return t3_qp_fsm(from, ev);
}

enum { PBL_ADDR = 0x8000 };

static struct {
	unsigned int sent, aborts, connect_aborts, closes, lingers, rung, handlers;
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
	u64 fastreg_page;
	u32 next_id;
	u8 qp_caps;
} card;

static struct t3_dev *dev;
static struct t3_ucontext *ucontext;

/* --- stubs of the driver --------------------------------------------------- */

bool t3_dev_enter(struct t3_dev *dev)
{
	rcu_read_lock();
	return true;
}

int t3_dev_ctl(struct t3_dev *dev, unsigned int req, void *data)
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

u32 t3_pbl_alloc(struct t3_dev *dev, u32 bytes)
{
	card.pbls++;
	return PBL_ADDR;
}

void t3_pbl_free(struct t3_dev *dev, u32 addr, u32 bytes)
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

struct t3_mmap *t3_mmap_insert(struct t3_ucontext *uc, const struct t3_dma *mem, size_t len)
{
	struct t3_mmap *map = kzalloc(sizeof(*map), GFP_KERNEL);

	if (!map)
		return ERR_PTR(-ENOMEM);
	map->mem = *mem;
	card.entries++;
	return map;
}

struct t3_mmap *t3_mmap_insert_doorbell(struct t3_ucontext *uc, phys_addr_t addr)
{
	struct t3_dma none = {};

	return t3_mmap_insert(uc, &none, PAGE_SIZE);
}

static void fake_entry_remove(struct rdma_user_mmap_entry *entry)
{
	struct t3_mmap *map = container_of(entry, struct t3_mmap, rdma);

	t3_dma_free(dev, &map->mem);
	kfree(map);
	card.entries--;
}

/* A grace period: the QP is removed from the table, and the last reader takes its reference. */
static void count_grace_period(unsigned long since)
{
	card.grace_periods++;
	if (!card.late_reader)
		return;
	if (completion_done(&to_t3_qp(card.late_reader)->released) ||
	    xa_load(&dev->qps, to_t3_qp(card.late_reader)->id))
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

void t3_dev_fatal(struct t3_dev *dev, const char *what)
{
}

int t3_mr_resolve(struct t3_dev *dev, struct t3_host_sge *sge, u8 *page_code, u32 *pbl_index)
{
	return -EINVAL;
}

void t3_cm_abort_connects(struct t3_dev *dev, u32 qpn)
{
	card.connect_aborts++;
}

void t3_ring_doorbell(struct t3_dev *dev, u32 context)
{
	card.rung++;
}

void t3_doorbell_init(struct t3_qp *qp)
{
}

void t3_ep_get(struct t3_ep *ep)
{
	card.ep_refs++;
}

void t3_ep_put(struct t3_ep *ep)
{
	card.ep_refs--;
}

void t3_ep_disconnect(struct t3_ep *ep, bool abrupt)
{
	if (abrupt)
		card.aborts++;
	else
		card.closes++;
}

void t3_ep_terminating(struct t3_ep *ep)
{
}

void t3_ep_linger(struct t3_ep *ep)
{
	card.lingers++;
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
	t3_wq = alloc_workqueue("qp_kunit", 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_wq);
	cq = make_cq(test);
	produced = 0;
	return 0;
}

static void qp_exit(struct kunit *test)
{
	destroy_workqueue(t3_wq);
	KUNIT_EXPECT_EQ(test, t3_destroy_cq(&cq->ibcq, NULL), 0);
	KUNIT_EXPECT_EQ(test, card.ids, 0);
	KUNIT_EXPECT_EQ(test, card.rqts, 0);
	KUNIT_EXPECT_EQ(test, card.entries, 0);
	KUNIT_EXPECT_EQ(test, card.rings, 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);
	KUNIT_EXPECT_EQ(test, card.queues, 0);
	KUNIT_EXPECT_EQ(test, card.ep_refs, 0);
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

static int connect(struct t3_qp *qp, u8 rtr_type)
{
	const struct t3_conn_attrs attrs = { .tid = 7, .rtr_type = rtr_type };

	return connect_attrs(qp, &attrs);
}

static int move(struct t3_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return t3_modify_qp(&qp->ibqp, &attr, IB_QP_STATE, NULL);
}

static void recv(struct kunit *test, struct t3_qp *qp, u64 wr_id)
{
	const struct ib_recv_wr wr = { .wr_id = wr_id }, *bad;

	KUNIT_EXPECT_EQ(test, t3_post_recv(&qp->ibqp, &wr, &bad), 0);
}

/* With STag 0: it needs a page list of its own. Return: 0 or -errno. */
static int recv_stag0(struct t3_qp *qp)
{
	struct ib_sge sge = { .addr = 0x5000, .length = 64 };
	const struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return t3_post_recv(&qp->ibqp, &wr, &bad);
}

static void send(struct kunit *test, struct t3_qp *qp, u64 wr_id)
{
	const struct ib_send_wr wr = { .wr_id = wr_id, .opcode = IB_WR_SEND }, *bad;

	KUNIT_EXPECT_EQ(test, t3_post_send(&qp->ibqp, &wr, &bad), 0);
}

/* The card receives a message and writes an entry for it. */
static void received(struct t3_qp *qp, u32 msn)
{
	struct t3_cqe *e = (struct t3_cqe *)cq->ring.va + produced;

	e->u.rq.msn = cpu_to_be32(msn);
	e->header = cpu_to_be32(T3_CQE_GEN | qp->id << 12 | T3_RDMA_SEND);
	produced++;
}

/* The number of completions, which must all have this status. */
static int polled(struct kunit *test, enum ib_wc_status status)
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

static u64 status_of(const struct t3_qp *qp)
{
	return atomic64_read((atomic64_t *)(qp->ring.va + T3_QP_STATUS_OFFSET));
}

/* The endpoint reports the end of the connection, and the last message of the card. */
static void connection_ends(struct t3_qp *qp, enum t3_qp_event ev)
{
	t3_qp_report(qp, ev);
	t3_qp_disconnected(qp);
}

/* --- tests: lookups and references ------------------------------------------ */

/* E6: ids are easy to guess, and a connect uses any QP that it finds. */
static void qp_is_published_only_after_success(struct kunit *test)
{
	struct t3_qp *qp = alloc_qp(test);

	xa_erase_irq(&dev->cqs, cq->id);	/* for look_for_objects() */
	card.respond_error = -EFAULT;
	KUNIT_EXPECT_EQ(test, create(qp, true), -EFAULT);
	KUNIT_EXPECT_FALSE(test, card.found_early);
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->qps));
	KUNIT_EXPECT_EQ(test, card.entries, 0);

	card.respond_error = 0;
	qp = alloc_qp(test);
	KUNIT_ASSERT_EQ(test, create(qp, true), 0);
	KUNIT_EXPECT_PTR_EQ(test, t3_qp_find(dev, qp->id), qp);
	t3_qp_put(qp);
	t3_destroy_qp(&qp->ibqp, NULL);
	xa_store_irq(&dev->cqs, cq->id, cq, GFP_KERNEL);
}

static void cq_is_published_only_after_success(struct kunit *test)
{
	const struct ib_cq_init_attr attr = { .cqe = 64 };
	struct t3_cq *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, other);
	other->ibcq.device = &dev->ibdev;
	xa_erase_irq(&dev->cqs, cq->id);
	bundle.driver_udata.inlen = sizeof(struct t3_create_cq_req);
	card.respond_error = -EFAULT;
	KUNIT_EXPECT_EQ(test, t3_create_cq(&other->ibcq, &attr, &bundle.driver_udata), -EFAULT);
	KUNIT_EXPECT_FALSE(test, card.found_early);
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->cqs));
	KUNIT_EXPECT_EQ(test, card.entries, 0);
	xa_store_irq(&dev->cqs, cq->id, cq, GFP_KERNEL);
}

/* Memory of user objects is charged to a memory cgroup, that of kernel consumers is not. */
static void user_rings_are_charged_to_the_memcg(struct kunit *test)
{
	const struct ib_cq_init_attr attr = { .cqe = 64 };
	struct t3_cq *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	struct t3_qp *qp = alloc_qp(test);

	KUNIT_ASSERT_NOT_NULL(test, other);
	card.uncharged = 0;
	KUNIT_ASSERT_EQ(test, create(qp, true), 0);
	KUNIT_EXPECT_EQ(test, card.uncharged, 0);
	t3_destroy_qp(&qp->ibqp, NULL);

	qp = alloc_qp(test);
	KUNIT_ASSERT_EQ(test, create(qp, false), 0);
	KUNIT_EXPECT_EQ(test, card.uncharged, 2);
	t3_destroy_qp(&qp->ibqp, NULL);

	card.uncharged = 0;
	other->ibcq.device = &dev->ibdev;
	bundle.driver_udata.inlen = sizeof(struct t3_create_cq_req);
	card.respond_error = -EFAULT;	/* after all allocations */
	KUNIT_EXPECT_EQ(test, t3_create_cq(&other->ibcq, &attr, &bundle.driver_udata), -EFAULT);
	KUNIT_EXPECT_EQ(test, card.uncharged, 0);
}

/* The process may keep it mapped; the entry frees the memory after that. */
static void ring_of_a_user_cq_ends_with_its_mapping(struct kunit *test)
{
	const struct ib_cq_init_attr attr = { .cqe = 64 };
	struct t3_cq *made = kunit_kzalloc(test, sizeof(*made), GFP_KERNEL);
	unsigned int before = card.entries;

	KUNIT_ASSERT_NOT_NULL(test, made);
	made->ibcq.device = &dev->ibdev;
	bundle.driver_udata.inlen = sizeof(struct t3_create_cq_req);
	KUNIT_ASSERT_EQ(test, t3_create_cq(&made->ibcq, &attr, &bundle.driver_udata), 0);
	KUNIT_EXPECT_EQ(test, card.entries, before + 1);
	t3_destroy_cq(&made->ibcq, NULL);
	KUNIT_EXPECT_EQ(test, card.entries, before);
}

/* The ring has 128 entries for the 64 requested: the others are for RTR reads. */
static void rtr_read_needs_an_entry_of_the_send_cq(struct kunit *test)
{
	struct t3_qp *with, *without;

	KUNIT_EXPECT_EQ(test, cq->ibcq.cqe, 64);
	KUNIT_EXPECT_EQ(test, cq->entries, 128U);
	KUNIT_EXPECT_EQ(test, atomic_read(&cq->rtr_avail), 64);
	atomic_set(&cq->rtr_avail, 1);
	with = make_qp(test, false);
	without = make_qp(test, false);
	KUNIT_EXPECT_EQ(test, atomic_read(&cq->rtr_avail), 1);	/* reserved by a connect only */
	KUNIT_EXPECT_TRUE(test, t3_qp_reserve_rtr_entry(with));
	KUNIT_EXPECT_TRUE(test, t3_qp_reserve_rtr_entry(with));	/* connects again */
	KUNIT_EXPECT_FALSE(test, t3_qp_reserve_rtr_entry(without));
	KUNIT_EXPECT_EQ(test, atomic_read(&cq->rtr_avail), 0);
	t3_destroy_qp(&without->ibqp, NULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&cq->rtr_avail), 0);
	t3_destroy_qp(&with->ibqp, NULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&cq->rtr_avail), 1);
}

static void cq_has_spare_entries(struct kunit *test)
{
	static const struct { u32 cqe; int err; u32 entries; } sizes[] = {
		{ 0, -EINVAL, 0 }, { 1, 0, 32 }, { 16, 0, 32 }, { 112, 0, 128 }, { 113, 0, 256 },
		{ 128, 0, 256 }, { 32752, 0, 32768 }, { 32753, -EINVAL, 0 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		const struct ib_cq_init_attr attr = { .cqe = sizes[i].cqe };
		struct t3_cq *sized = kunit_kzalloc(test, sizeof(*sized), GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, sized);
		sized->ibcq.device = &dev->ibdev;
		KUNIT_EXPECT_EQ(test, t3_create_cq(&sized->ibcq, &attr, NULL), sizes[i].err);
		if (sizes[i].err)
			continue;
		KUNIT_EXPECT_EQ(test, sized->entries, sizes[i].entries);
		KUNIT_EXPECT_EQ(test, sized->ibcq.cqe, (int)sizes[i].cqe);
		t3_destroy_cq(&sized->ibcq, NULL);
	}
}

static void kernel_qp_is_in_the_tables_of_its_cqs(struct kunit *test)
{
	struct t3_cq *rcq = make_cq(test);
	struct t3_qp *qp = alloc_qp(test);

	qp->ibqp.recv_cq = &rcq->ibcq;
	KUNIT_ASSERT_EQ(test, create(qp, false), 0);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&cq->qps, qp->id), (void *)qp);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&rcq->qps, qp->id), (void *)qp);
	t3_destroy_qp(&qp->ibqp, NULL);
	KUNIT_EXPECT_TRUE(test, xa_empty(&cq->qps));
	KUNIT_EXPECT_TRUE(test, xa_empty(&rcq->qps));
	t3_destroy_cq(&rcq->ibcq, NULL);
}

static struct t3_qp *referenced;	/* by t3_for_each_qp(), in its call */
static unsigned int references, calls;

static void note_references(struct t3_qp *qp)
{
	calls++;
	referenced = qp;
	references = kref_read(&qp->ref);
}

/* A QP that is being destroyed has no reference left, and waits for none. */
static void loop_over_qps_holds_a_reference_in_each_call(struct kunit *test)
{
	struct t3_qp *ending = make_qp(test, false), *qp = make_qp(test, false);

	calls = 0;
	t3_qp_put(ending);
	t3_for_each_qp(dev, note_references);
	KUNIT_EXPECT_EQ(test, calls, 1);
	KUNIT_EXPECT_PTR_EQ(test, referenced, qp);
	KUNIT_EXPECT_EQ(test, references, 2);
	KUNIT_EXPECT_EQ(test, kref_read(&qp->ref), 1);
	kref_init(&ending->ref);
	reinit_completion(&ending->released);
	t3_destroy_qp(&ending->ibqp, NULL);
	t3_destroy_qp(&qp->ibqp, NULL);
}

static void cq_without_references_is_not_found(struct kunit *test)
{
	KUNIT_EXPECT_PTR_EQ(test, t3_cq_find(dev, cq->id), cq);
	KUNIT_EXPECT_EQ(test, kref_read(&cq->ref), 2);
	t3_cq_put(cq);
	t3_cq_put(cq);	/* the last reference */
	KUNIT_EXPECT_NULL(test, t3_cq_find(dev, cq->id));
	kref_init(&cq->ref);
	reinit_completion(&cq->released);
}

struct cq_destroyer {
	struct work_struct work;
	struct t3_cq *cq;
	struct completion done;
};

static void destroy_cq_work(struct work_struct *work)
{
	struct cq_destroyer *d = container_of(work, struct cq_destroyer, work);

	t3_destroy_cq(&d->cq->ibcq, NULL);
	complete(&d->done);
}

/* An async event has found the CQ, and calls its handler. */
static void destroy_waits_for_an_event_of_the_cq(struct kunit *test)
{
	struct cq_destroyer d = { .cq = make_cq(test) };

	KUNIT_ASSERT_PTR_EQ(test, t3_cq_find(dev, d.cq->id), d.cq);
	INIT_WORK_ONSTACK(&d.work, destroy_cq_work);
	init_completion(&d.done);
	queue_work(system_unbound_wq, &d.work);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&d.done, HZ / 5), 0);
	KUNIT_EXPECT_EQ(test, card.queues, 2);
	t3_cq_put(d.cq);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&d.done, 20 * HZ), 0);
	flush_work(&d.work);
	destroy_work_on_stack(&d.work);
}

struct blocker {
	struct work_struct work;
	struct completion end;
};

static void block(struct work_struct *work)
{
	wait_for_completion(&container_of(work, struct blocker, work)->end);
}

/* The work item that calls the handler is still queued, behind another one. */
static void handler_is_not_called_after_destroy(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("qp_kunit_busy", 0);
	struct t3_cq *destroyed = make_cq(test);
	struct blocker busy;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	INIT_WORK_ONSTACK(&busy.work, block);
	init_completion(&busy.end);
	queue_work(wq, &busy.work);
	destroyed->armed = true;
	queue_work(wq, &destroyed->comp_work);
	t3_destroy_cq(&destroyed->ibcq, NULL);
	complete(&busy.end);
	destroy_workqueue(wq);
	destroy_work_on_stack(&busy.work);
	KUNIT_EXPECT_EQ(test, card.handlers, 0);
}

static void cq_that_the_card_refuses_is_freed(struct kunit *test)
{
	const struct ib_cq_init_attr attr = { .cqe = 64 };
	struct t3_cq *refused = alloc_cq(test);

	card.setup_error = -EIO;
	KUNIT_EXPECT_EQ(test, t3_create_cq(&refused->ibcq, &attr, NULL), -EIO);
	KUNIT_EXPECT_EQ(test, card.rings, 1);
	KUNIT_EXPECT_EQ(test, card.ids, 1);
	KUNIT_EXPECT_EQ(test, card.queues, 1);
}

/* --- tests: receives with STag 0 ----------------------------------------------- */

/* Each has a page list in the card until it is polled, or the QP is reset or destroyed. */
static void page_list_of_a_receive_is_freed_once(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	KUNIT_EXPECT_EQ(test, recv_stag0(qp), 0);
	KUNIT_EXPECT_EQ(test, recv_stag0(qp), 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 2);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 2);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);

	KUNIT_EXPECT_EQ(test, recv_stag0(qp), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 1);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);

	KUNIT_EXPECT_EQ(test, recv_stag0(qp), 0);
	KUNIT_EXPECT_EQ(test, card.pbls, 1);
	t3_destroy_qp(&qp->ibqp, NULL);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);
}

static void refused_receive_keeps_no_page_list(struct kunit *test)
{
	struct ib_sge mixed[] = { { .addr = 0x5000, .length = 64 },
				  { .addr = 0x6000, .length = 64, .lkey = 0x100 } };
	const struct ib_recv_wr wr = { .sg_list = mixed, .num_sge = 2 }, *bad;
	struct t3_qp *qp = make_qp(test, false);
	int posted = 0, ret;

	KUNIT_EXPECT_EQ(test, t3_post_recv(&qp->ibqp, &wr, &bad), -EINVAL);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr);
	KUNIT_EXPECT_EQ(test, card.pbls, 0);
	while (!(ret = recv_stag0(qp)))
		posted++;
	KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
	KUNIT_EXPECT_GT(test, posted, 0);
	KUNIT_EXPECT_EQ(test, card.pbls, posted);
	t3_destroy_qp(&qp->ibqp, NULL);
}

struct destroyer {
	struct work_struct work;
	struct t3_qp *qp;
	struct completion done;
};

static void destroy_work(struct work_struct *work)
{
	struct destroyer *d = container_of(work, struct destroyer, work);

	t3_destroy_qp(&d->qp->ibqp, NULL);
	complete(&d->done);
}

/*
 * E9: iw_cm calls t3_iw_get_qp() and then t3_iw_add_ref(), under a spinlock. A destroy in between
 * must not complete, because the QP is freed then. Here the second call comes at the very end of
 * the grace period.
 */
static void destroy_waits_for_callers_of_iw_get_qp(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);
	struct destroyer d = { .qp = qp };

	rcu_read_lock();
	card.late_reader = t3_iw_get_qp(&dev->ibdev, qp->id);
	/* A grace period that ends after this reader. */
	KUNIT_EXPECT_FALSE(test, poll_state_synchronize_rcu(qp->found_at));
	rcu_read_unlock();
	KUNIT_ASSERT_NOT_NULL(test, card.late_reader);
	INIT_WORK_ONSTACK(&d.work, destroy_work);
	init_completion(&d.done);
	queue_work(system_unbound_wq, &d.work);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&d.done, HZ / 5), 0);
	KUNIT_EXPECT_EQ(test, card.grace_periods, 1);
	KUNIT_EXPECT_FALSE(test, card.found_early);
	if (card.grace_periods)
		t3_iw_rem_ref(&qp->ibqp);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&d.done, 20 * HZ), 0);
	flush_work(&d.work);
	destroy_work_on_stack(&d.work);
}

static void no_grace_period_without_iw_get_qp(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	KUNIT_EXPECT_PTR_EQ(test, t3_qp_find(dev, qp->id), qp);
	t3_qp_put(qp);
	t3_destroy_qp(&qp->ibqp, NULL);
	KUNIT_EXPECT_EQ(test, card.grace_periods, 0);
}

static void qp_without_references_is_not_found(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	t3_qp_put(qp);	/* the last reference */
	KUNIT_EXPECT_NULL(test, t3_qp_find(dev, qp->id));
	kref_init(&qp->ref);
	reinit_completion(&qp->released);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* --- tests: flushing ---------------------------------------------------------- */

/* B3: buffers of completed requests may be freed, so a flush waits until the card is done. */
static void flush_waits_for_the_card(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	recv(test, qp, 2);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	send(test, qp, 3);
	cq->armed = true;
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, card.aborts, 1);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 0);
	KUNIT_EXPECT_EQ(test, card.handlers, 0);

	/* As ib_drain_qp() does. */
	card.rung = 0;
	recv(test, qp, 4);
	send(test, qp, 5);
	flush_workqueue(t3_wq);
	KUNIT_EXPECT_EQ(test, card.rung, 0);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 0);

	/* The card still completes a request. */
	received(qp, 1);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_SUCCESS), 1);

	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, card.handlers, 1);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 4);
	recv(test, qp, 6);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	flush_workqueue(t3_wq);
	t3_destroy_qp(&qp->ibqp, NULL);
}

static void user_qp_is_stopped_and_later_flushed(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, true);
	u32 *cq_word = (u32 *)((struct t3_cqe *)cq->ring.va + cq->entries);

	cq->status_word = true;
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, status_of(qp), T3_QP_STATUS_STOPPED);
	KUNIT_EXPECT_EQ(test, *cq_word, 0);
	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, status_of(qp), T3_QP_STATUS_STOPPED | T3_QP_STATUS_ERROR);
	KUNIT_EXPECT_EQ(test, *cq_word, T3_CQ_STATUS_ERROR);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* Its owner has posted receives, as before each accept. They are flushed; a connection stays. */
static void failed_accept_flushes(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_EXPECT_EQ(test, t3_qp_report(qp, T3_QPEV_ACCEPT_FAILED), 0);
	KUNIT_EXPECT_EQ(test, qp->state, T3_QPS_ERROR);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	KUNIT_EXPECT_EQ(test, card.aborts, 0);
	t3_destroy_qp(&qp->ibqp, NULL);

	qp = make_qp(test, false);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	recv(test, qp, 1);
	KUNIT_EXPECT_EQ(test, t3_qp_report(qp, T3_QPEV_ACCEPT_FAILED), 0);
	KUNIT_EXPECT_EQ(test, qp->state, T3_QPS_RTS);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 0);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
}

static void every_end_of_a_connection_flushes_once(struct kunit *test)
{
	static const struct {
		enum t3_qp_event before, end;
	} ends[] = {
		{ T3_QPEV_PEER_CLOSE, T3_QPEV_CLOSED },
		{ T3_QPEV_PEER_CLOSE, T3_QPEV_LOST },
		{ T3_QPEV_USER_CLOSE, T3_QPEV_CLOSED },
		{ T3_QPEV_USER_ERROR, T3_QPEV_LOST },
		{ T3_QPEV_PROTO_ERROR, T3_QPEV_CLOSED },
		{ T3_QPEV_TERM_RCVD, T3_QPEV_LOST },
		{ T3_QPEV_LOST, T3_QPEV_LOST },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		struct t3_qp *qp = make_qp(test, false);

		KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
		recv(test, qp, 1);
		send(test, qp, 2);
		t3_qp_report(qp, ends[i].before);
		KUNIT_EXPECT_EQ_MSG(test, polled(test, IB_WC_WR_FLUSH_ERR), 0, "%s",
				    t3_qp_event_name(ends[i].before));
		t3_qp_report(qp, ends[i].end);
		KUNIT_EXPECT_EQ_MSG(test, polled(test, IB_WC_WR_FLUSH_ERR), 0, "%s",
				    t3_qp_event_name(ends[i].end));
		t3_qp_disconnected(qp);
		KUNIT_EXPECT_EQ_MSG(test, polled(test, IB_WC_WR_FLUSH_ERR), 2, "%s, %s",
				    t3_qp_event_name(ends[i].before),
				    t3_qp_event_name(ends[i].end));
		t3_destroy_qp(&qp->ibqp, NULL);
	}
}

static void unconnected_qp_is_flushed_at_once(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	t3_destroy_qp(&qp->ibqp, NULL);

	/* Likewise if the connect fails. */
	qp = make_qp(test, false);
	recv(test, qp, 1);
	card.send_error = -EIO;
	KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), -EIO);
	card.send_error = 0;
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* The iWARP CM has a reference while a connect is pending. */
static void error_aborts_a_pending_connect(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	KUNIT_EXPECT_FALSE(test, t3_qp_in_state(qp, IB_QPS_ERR));
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_TRUE(test, t3_qp_in_state(qp, IB_QPS_ERR));
	KUNIT_EXPECT_EQ(test, card.connect_aborts, 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);

	t3_qp_get(qp);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_SQD), 0);
	KUNIT_EXPECT_EQ(test, card.connect_aborts, 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, card.connect_aborts, 1);
	t3_qp_put(qp);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* Also after a disconnect: a FIN flushes nothing, and the peer may not reply for long. */
static void error_after_a_disconnect_aborts(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_SQD), 0);
	KUNIT_EXPECT_EQ(test, card.closes, 1);
	KUNIT_EXPECT_EQ(test, card.aborts, 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, card.aborts, 1);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* A destroy does not abort at once: the last messages may still be in flight. */
static void destroy_after_a_disconnect_waits(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);
	struct destroyer d = { .qp = qp };

	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_SQD), 0);
	INIT_WORK_ONSTACK(&d.work, destroy_work);
	init_completion(&d.done);
	queue_work(system_unbound_wq, &d.work);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&d.done, HZ / 5), 0);
	KUNIT_EXPECT_EQ(test, card.aborts, 0);
	KUNIT_EXPECT_EQ(test, card.lingers, 1);
	connection_ends(qp, T3_QPEV_CLOSED);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&d.done, 20 * HZ), 0);
	flush_work(&d.work);
	destroy_work_on_stack(&d.work);
}

/* --- tests: reset, rights, status word --------------------------------------- */

static void refused_reset_changes_nothing(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	received(qp, 1);
	/* Applied to the QP, but not polled yet. */
	spin_lock_irq(&cq->lock);
	t3_cq_consume_all(cq);
	spin_unlock_irq(&cq->lock);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), -EINVAL);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_SUCCESS), 1);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* Old entries in the CQs would be taken for completions of the next connection. */
static void reset_without_a_purge_is_refused(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	connection_ends(qp, T3_QPEV_LOST);
	qp->resetting = true;
	other_reset.qp = qp;
	other_reset.lookups = 0;
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), -EINVAL);
	KUNIT_EXPECT_FALSE(test, qp->resetting);
	other_reset.qp = NULL;
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* The FIFO of doorbells is still full: the next requests must not ring. */
static void reset_keeps_the_doorbells_off(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, true);

	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	connection_ends(qp, T3_QPEV_LOST);
	t3_qp_set_status(qp, T3_QP_STATUS_DB_OFF, 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	KUNIT_EXPECT_EQ(test, status_of(qp), T3_QP_STATUS_DB_OFF);
	t3_destroy_qp(&qp->ibqp, NULL);
}

static int post_fastreg(struct t3_qp *qp)
{
	const struct ib_reg_wr wr = { .wr.opcode = IB_WR_REG_MR, .key = 0x100 };
	const struct ib_send_wr *bad;

	return t3_post_send(&qp->ibqp, &wr.wr, &bad);
}

/* The driver's copy of a region changes with the card's: not if the request gets no slot. */
static void fast_registration_counts_when_posted(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);
	unsigned int posted = 0;

	while (!post_fastreg(qp))
		posted++;
	KUNIT_EXPECT_GT(test, posted, 0);
	KUNIT_EXPECT_EQ(test, card.fastregs, posted);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	while (polled(test, IB_WC_WR_FLUSH_ERR))
		;
	KUNIT_EXPECT_EQ(test, post_fastreg(qp), 0);	/* only to be flushed */
	KUNIT_EXPECT_EQ(test, card.fastregs, posted);
	t3_destroy_qp(&qp->ibqp, NULL);
}

static void reset_qp_connects_again(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), -EINVAL);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 0);
	/* A concurrent flush finds nothing to do. */
	t3_qp_flush(qp);
	recv(test, qp, 2);
	t3_cq_flush_qp(qp);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 0);
	KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	t3_destroy_qp(&qp->ibqp, NULL);
}

static void query(struct t3_qp *qp, struct ib_qp_attr *attr)
{
	struct ib_qp_init_attr init;

	t3_query_qp(&qp->ibqp, attr, IB_QP_STATE | IB_QP_PATH_MTU, &init);
}

/* As every in-tree iWARP driver does, and as rdma-core's test_query_rc_qp expects. */
static void idle_qp_is_reported_in_init(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, true);
	struct ib_qp_attr attr;

	query(qp, &attr);
	KUNIT_EXPECT_EQ(test, (int)attr.qp_state, (int)IB_QPS_INIT);
	KUNIT_EXPECT_EQ(test, (int)attr.cur_qp_state, (int)IB_QPS_INIT);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_INIT), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_INIT), -EINVAL);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	query(qp, &attr);
	KUNIT_EXPECT_EQ(test, (int)attr.qp_state, (int)IB_QPS_INIT);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* The largest IB MTU that fits into the port's, as ib_query_port() has it. */
static void path_mtu_is_the_active_mtu_of_the_port(struct kunit *test)
{
	const struct t3_conn_attrs over_port_2 = { .tid = 7, .channel = 1 };
	struct t3_qp *qp = make_qp(test, true);
	struct ib_qp_attr attr;

	query(qp, &attr);
	KUNIT_EXPECT_EQ(test, attr.port_num, 1);
	KUNIT_EXPECT_EQ(test, (int)attr.path_mtu, (int)IB_MTU_1024);
	KUNIT_ASSERT_EQ(test, connect_attrs(qp, &over_port_2), 0);
	query(qp, &attr);
	KUNIT_EXPECT_EQ(test, attr.port_num, 2);
	KUNIT_EXPECT_EQ(test, (int)attr.path_mtu, (int)IB_MTU_4096);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* rdma_cm moves to RTR without a path; ibv_rc_pingpong with the path to its peer. */
static void rtr_with_an_infiniband_path_is_refused(struct kunit *test)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTR, .max_dest_rd_atomic = 4 };
	struct t3_qp *qp = make_qp(test, true);

	KUNIT_EXPECT_EQ(test, t3_modify_qp(&qp->ibqp, &attr,
					   IB_QP_STATE | IB_QP_ACCESS_FLAGS, NULL), 0);
	KUNIT_EXPECT_EQ(test, t3_modify_qp(&qp->ibqp, &attr, IB_QP_STATE | IB_QP_AV |
					IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
					IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER, NULL),
			-EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, qp->max_ird, 1U);
	KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* The u32 that rdma(8) shows under a name, or -1. */
static s64 driver_u32(const struct sk_buff *skb, const char *name)
{
	const struct nlattr *table = (const void *)skb->data, *attr;
	bool found = false;
	int left;

	nla_for_each_nested(attr, table, left) {
		if (nla_type(attr) == RDMA_NLDEV_ATTR_DRIVER_STRING)
			found = !nla_strcmp(attr, name);
		else if (nla_type(attr) == RDMA_NLDEV_ATTR_DRIVER_U32 && found)
			return nla_get_u32(attr);
	}
	return -1;
}

static void resource_shows_requests_of_kernel_qps_only(struct kunit *test)
{
	struct t3_qp *kernel = make_qp(test, false), *user = make_qp(test, true);
	struct sk_buff *skb = alloc_skb(PAGE_SIZE, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	recv(test, kernel, 1);
	recv(test, kernel, 2);
	send(test, kernel, 3);
	KUNIT_EXPECT_EQ(test, t3_fill_res_qp_entry(skb, &kernel->ibqp), 0);
	KUNIT_EXPECT_EQ(test, driver_u32(skb, "recvs"), 2LL);
	KUNIT_EXPECT_EQ(test, driver_u32(skb, "sends"), 1LL);
	skb_trim(skb, 0);
	/* The kernel does not see the posts of a process. */
	KUNIT_EXPECT_EQ(test, t3_fill_res_qp_entry(skb, &user->ibqp), 0);
	KUNIT_EXPECT_EQ(test, driver_u32(skb, "user"), 1LL);
	KUNIT_EXPECT_EQ(test, driver_u32(skb, "recvs"), -1LL);
	KUNIT_EXPECT_EQ(test, driver_u32(skb, "sends"), -1LL);
	kfree_skb(skb);
	t3_destroy_qp(&user->ibqp, NULL);
	t3_destroy_qp(&kernel->ibqp, NULL);
}

static void qp_access_flags_limit_the_peer(struct kunit *test)
{
	static const struct {
		int flags;
		u8 caps;
	} rights[] = {
		{ -1, T3_QPCAP_RDMA_READ | T3_QPCAP_RDMA_WRITE },	/* never set */
		{ 0, T3_QPCAP_RDMA_READ | T3_QPCAP_RDMA_WRITE },	/* as rdma_cm sets them */
		{ IB_ACCESS_LOCAL_WRITE, 0 },
		{ IB_ACCESS_REMOTE_READ, T3_QPCAP_RDMA_READ },
		{ IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE, T3_QPCAP_RDMA_WRITE },
		{ IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ,
		  T3_QPCAP_RDMA_READ | T3_QPCAP_RDMA_WRITE },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rights); i++) {
		struct ib_qp_attr attr = {
			.qp_state = IB_QPS_INIT, .qp_access_flags = rights[i].flags,
		};
		struct t3_qp *qp = make_qp(test, true);

		if (rights[i].flags >= 0)
			KUNIT_EXPECT_EQ(test, t3_modify_qp(&qp->ibqp, &attr, IB_QP_STATE |
							IB_QP_ACCESS_FLAGS, NULL), 0);
		KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
		KUNIT_EXPECT_EQ(test, card.qp_caps, rights[i].caps | T3_QPCAP_BIND);
		KUNIT_EXPECT_EQ(test, t3_qp_allows_remote_read(qp),
				!!(rights[i].caps & T3_QPCAP_RDMA_READ));
		connection_ends(qp, T3_QPEV_LOST);
		/* A peer that opens with an RTR read needs the right to read. */
		KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
		KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_READ),
				rights[i].caps & T3_QPCAP_RDMA_READ ? 0 : -EINVAL);
		if (qp->busy)
			connection_ends(qp, T3_QPEV_LOST);
		t3_destroy_qp(&qp->ibqp, NULL);
	}
}

/* --- tests: one allocation fails --------------------------------------------- */

/* A failed connect leaves the QP unchanged, and can be repeated. */
static void make_and_connect(struct kunit *test)
{
	struct t3_qp *qp = alloc_qp(test);
	const int rtr_entries = atomic_read(&cq->rtr_avail);
	unsigned int refs;
	int ret;

	card.sent = 0;
	allocations_fail();
	ret = create(qp, false);
	if (ret)
		goto out;
	refs = kref_read(&qp->ref);
	ret = connect(qp, T3_RTR_NONE);
	allocations_work();
	if (ret) {
		KUNIT_EXPECT_EQ(test, (int)qp->state, (int)T3_QPS_IDLE);
		KUNIT_EXPECT_FALSE(test, qp->busy);
		KUNIT_EXPECT_NULL(test, qp->ep);
		KUNIT_EXPECT_EQ(test, kref_read(&qp->ref), refs);
		KUNIT_EXPECT_EQ(test, card.sent, 0);
		KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	}
	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, kref_read(&qp->ref), refs);
	KUNIT_EXPECT_EQ(test, t3_destroy_qp(&qp->ibqp, NULL), 0);
out:
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, card.ids, 1, "ids, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, card.rqts, 0, "receive queues, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, atomic_read(&cq->rtr_avail), rtr_entries, "entries, %s",
			    alloc_that_failed());
	KUNIT_EXPECT_TRUE_MSG(test, xa_empty(&dev->qps), "%s", alloc_that_failed());
	KUNIT_EXPECT_TRUE_MSG(test, xa_empty(&cq->qps), "%s", alloc_that_failed());
}

static void connect_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, make_and_connect), 7U);
}

/* In softirq. Without memory for a TERMINATE the connection is aborted. */
static void fail_while_connected(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	card.sent = 0;
	card.aborts = 0;
	local_bh_disable();
	allocations_fail();
	KUNIT_EXPECT_EQ(test, t3_qp_report(qp, T3_QPEV_PROTO_ERROR), 0);
	allocations_work();
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, card.sent, !failing.where);
	KUNIT_EXPECT_EQ(test, card.aborts, !!failing.where);
	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, t3_destroy_qp(&qp->ibqp, NULL), 0);
}

static void terminate_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, fail_while_connected), 1U);
}

static void make_cq_without_memory(struct kunit *test)
{
	const struct ib_cq_init_attr attr = { .cqe = 64 };
	struct t3_cq *made = alloc_cq(test);
	int ret;

	allocations_fail();
	ret = t3_create_cq(&made->ibcq, &attr, NULL);
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	if (!ret)
		t3_destroy_cq(&made->ibcq, NULL);
	KUNIT_EXPECT_EQ_MSG(test, card.ids, 1, "ids, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, card.rings, 1, "rings, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, card.queues, 1, "queues, %s", alloc_that_failed());
}

static void cq_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, make_cq_without_memory), 2U);
}

static struct kunit_case qp_cases[] = {
	KUNIT_CASE(qp_is_published_only_after_success),
	KUNIT_CASE(cq_is_published_only_after_success),
	KUNIT_CASE(user_rings_are_charged_to_the_memcg),
	KUNIT_CASE(ring_of_a_user_cq_ends_with_its_mapping),
	KUNIT_CASE(rtr_read_needs_an_entry_of_the_send_cq),
	KUNIT_CASE(cq_has_spare_entries),
	KUNIT_CASE(kernel_qp_is_in_the_tables_of_its_cqs),
	KUNIT_CASE(loop_over_qps_holds_a_reference_in_each_call),
	KUNIT_CASE(cq_without_references_is_not_found),
	KUNIT_CASE(destroy_waits_for_an_event_of_the_cq),
	KUNIT_CASE(handler_is_not_called_after_destroy),
	KUNIT_CASE(cq_that_the_card_refuses_is_freed),
	KUNIT_CASE(page_list_of_a_receive_is_freed_once),
	KUNIT_CASE(refused_receive_keeps_no_page_list),
	KUNIT_CASE(destroy_waits_for_callers_of_iw_get_qp),
	KUNIT_CASE(no_grace_period_without_iw_get_qp),
	KUNIT_CASE(qp_without_references_is_not_found),
	KUNIT_CASE(flush_waits_for_the_card),
	KUNIT_CASE(user_qp_is_stopped_and_later_flushed),
	KUNIT_CASE(failed_accept_flushes),
	KUNIT_CASE(every_end_of_a_connection_flushes_once),
	KUNIT_CASE(unconnected_qp_is_flushed_at_once),
	KUNIT_CASE(error_after_a_disconnect_aborts),
	KUNIT_CASE(error_aborts_a_pending_connect),
	KUNIT_CASE(destroy_after_a_disconnect_waits),
	KUNIT_CASE(refused_reset_changes_nothing),
	KUNIT_CASE(reset_without_a_purge_is_refused),
	KUNIT_CASE(reset_keeps_the_doorbells_off),
	KUNIT_CASE(fast_registration_counts_when_posted),
	KUNIT_CASE(reset_qp_connects_again),
	KUNIT_CASE(idle_qp_is_reported_in_init),
	KUNIT_CASE(path_mtu_is_the_active_mtu_of_the_port),
	KUNIT_CASE(rtr_with_an_infiniband_path_is_refused),
	KUNIT_CASE(resource_shows_requests_of_kernel_qps_only),
	KUNIT_CASE(qp_access_flags_limit_the_peer),
	KUNIT_CASE(connect_without_memory),
	KUNIT_CASE(cq_without_memory),
	KUNIT_CASE(terminate_without_memory),
	{}
};

static struct kunit_suite qp_suite = {
	.name = "iw_cxgb3_qp",
	.init = qp_init,
	.exit = qp_exit,
	.test_cases = qp_cases,
};

kunit_test_suites(&qp_suite);

MODULE_DESCRIPTION("KUnit tests of iw_cxgb3: qp");
MODULE_LICENSE("GPL");
