// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues, as ib_create_cq() and ib_destroy_cq() make and free them: their sizes and
 * rings, when lookups find them, their references, and the handler of completions.
 */
#include "around_qp.h"

/* E6: the card's events go to any CQ that a lookup finds. */
static void cq_is_published_only_after_success(struct kunit *test)
{
	const struct ib_cq_init_attr attr = { .cqe = 64 };
	struct t3_cq *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	int queues = card.queues;

	KUNIT_ASSERT_NOT_NULL(test, other);
	other->ibcq.device = &dev->ibdev;
	xa_erase_irq(&dev->cqs, cq->id);
	bundle.driver_udata.inlen = sizeof(struct t3_create_cq_req);
	card.respond_error = -EFAULT;
	KUNIT_EXPECT_EQ(test, t3_create_cq(&other->ibcq, &attr, &bundle.driver_udata), -EFAULT);
	KUNIT_EXPECT_FALSE(test, card.found_early);
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->cqs));
	KUNIT_EXPECT_EQ(test, card.entries, 0);
	KUNIT_EXPECT_EQ_MSG(test, card.queues_at_free, queues,
			    "the card had the ring when it was freed");
	xa_store_irq(&dev->cqs, cq->id, cq, GFP_KERNEL);
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

static struct kunit_case create_cq_cases[] = {
	KUNIT_CASE(cq_is_published_only_after_success),
	KUNIT_CASE(ring_of_a_user_cq_ends_with_its_mapping),
	KUNIT_CASE(rtr_read_needs_an_entry_of_the_send_cq),
	KUNIT_CASE(cq_has_spare_entries),
	KUNIT_CASE(cq_without_references_is_not_found),
	KUNIT_CASE(destroy_waits_for_an_event_of_the_cq),
	KUNIT_CASE(handler_is_not_called_after_destroy),
	KUNIT_CASE(cq_that_the_card_refuses_is_freed),
	KUNIT_CASE(cq_without_memory),
	{}
};

TEST_SUITE("iw_cxgb3_create_cq", create_cq_cases, .init = qp_init, .exit = qp_exit);
