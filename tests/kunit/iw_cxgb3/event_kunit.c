// SPDX-License-Identifier: GPL-2.0
/*
 * Async events of the card: which consumer gets them, and what they are for the connection.
 */
#include "around_event.h"
#include "qp_event.c"

static struct t3_qp *qp;
static struct t3_cq *cq;

static struct {
	int qp_refs, cq_refs, ep_refs;	/* taken */
	int qp_error;
	unsigned int confirmed, disconnected;
} card;

static struct {
	unsigned int qp[32], device[32], cq[32];
	unsigned int misdirected;
} events;

/* --- stubs of queues and connections, and consumers ------------------------- */

static void count_event(unsigned int *seen, enum ib_event_type event)
{
	if (event < 32)
		seen[event]++;
}

void t3_dev_dispatch(struct t3_dev *dev, enum ib_event_type type, u32 port)
{
	count_event(events.device, type);
}

static bool is_device_event(const struct ib_event *event)
{
	return event->event == IB_EVENT_DEVICE_FATAL || event->event == IB_EVENT_PORT_ERR ||
	       event->event == IB_EVENT_PORT_ACTIVE;
}

static void count_qp_event(struct ib_event *event, void *context)
{
	count_event(events.qp, event->event);
	if (is_device_event(event) || event->element.qp != &qp->ibqp)
		events.misdirected++;
}

static void count_cq_event(struct ib_event *event, void *context)
{
	count_event(events.cq, event->event);
	if (is_device_event(event) || event->element.cq != &cq->ibcq)
		events.misdirected++;
}

struct t3_qp *t3_qp_find(struct t3_dev *dev, u32 id)
{
	if (id != qp->id)
		return NULL;
	card.qp_refs++;
	return qp;
}

void t3_qp_put(struct t3_qp *qp)
{
	card.qp_refs--;
}

struct t3_cq *t3_cq_find(struct t3_dev *dev, u32 id)
{
	if (id != cq->id)
		return NULL;
	card.cq_refs++;
	return cq;
}

void t3_cq_put(struct t3_cq *cq)
{
	card.cq_refs--;
}

int t3_qp_fsm_apply(struct t3_qp *qp, enum t3_qp_event ev)
{
	return card.qp_error;
}

void t3_ep_get(struct t3_ep *ep)
{
	card.ep_refs++;
}

void t3_ep_put(struct t3_ep *ep)
{
	card.ep_refs--;
}

void t3_ep_disconnect(struct t3_ep *ep, bool abrupt, bool may_sleep)
{
	card.disconnected += !abrupt;
}

void t3_ep_confirm_neigh(struct t3_ep *ep)
{
	card.confirmed++;
}

static int event_init(struct kunit *test)
{
	memset(&card, 0, sizeof(card));
	memset(&events, 0, sizeof(events));
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, dev && qp && cq);
	dev->tdev = kunit_kzalloc(test, sizeof(*dev->tdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->tdev);
	dev->tdev->ulp = dev;

	spin_lock_init(&qp->lock);
	qp->id = 32;
	qp->user = true;
	qp->state = T3_QPS_RTS;
	qp->ibqp.device = &dev->ibdev;
	qp->ibqp.event_handler = count_qp_event;
	cq->id = 5;
	cq->ibcq.device = &dev->ibdev;
	cq->ibcq.event_handler = count_cq_event;
	return 0;
}

static void event_exit(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, card.qp_refs, 0);
	KUNIT_EXPECT_EQ(test, card.cq_refs, 0);
	KUNIT_EXPECT_EQ(test, card.ep_refs, 0);
}

static void async_event(u32 flags, u32 qp_id, u8 status, u8 opcode)
{
	struct sk_buff *skb = alloc_skb(sizeof(struct t3_async_event), GFP_KERNEL);
	struct t3_async_event *ae;

	if (!skb)
		return;
	ae = skb_put_zero(skb, sizeof(*ae));
	ae->flags = cpu_to_be32(flags);
	ae->cq = cpu_to_be32(cq->id);
	ae->cqe.header = cpu_to_be32(qp_id << 12 | status << 5 | T3_CQE_TYPE_SQ | opcode);
	local_bh_disable();
	t3_async_event(dev->tdev, skb);
	local_bh_enable();
	kfree_skb(skb);
}

/* uverbs would count the event to the QP, but the consumer acknowledges it as a device event. */
static void device_error_goes_to_the_device(struct kunit *test)
{
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_ECC, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, events.misdirected, 0);
	KUNIT_EXPECT_EQ(test, events.device[IB_EVENT_DEVICE_FATAL], 1);
	KUNIT_EXPECT_EQ(test, events.qp[IB_EVENT_DEVICE_FATAL], 0);
	KUNIT_EXPECT_EQ(test, events.qp[IB_EVENT_QP_FATAL], 1);
}

static void qp_error_goes_to_the_qp(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, dev->async_events, 0u);
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_ACCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, dev->async_events, 1u);	/* the card works */
	KUNIT_EXPECT_EQ(test, events.qp[IB_EVENT_QP_ACCESS_ERR], 1);
	KUNIT_EXPECT_EQ(test, events.misdirected, 0);
	KUNIT_EXPECT_EQ(test, events.device[IB_EVENT_DEVICE_FATAL], 0);
}

/* The connection has closed between the check of the state and the report. */
static void refused_error_is_not_reported(struct kunit *test)
{
	card.qp_error = -EINVAL;
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_ACCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_NULL(test, memchr_inv(events.qp, 0, sizeof(events.qp)));
}

/* Positions of card and driver differ: the QP ends as after an error that the card reports. */
static void contradictory_entry_is_an_error_of_the_qp(struct kunit *test)
{
	/* It was reset before the work item ran. */
	t3_qp_bad_entry_work(&qp->bad_entry_work);
	KUNIT_EXPECT_NULL(test, memchr_inv(events.qp, 0, sizeof(events.qp)));
	qp->bad_entry = true;
	t3_qp_bad_entry_work(&qp->bad_entry_work);
	KUNIT_EXPECT_EQ(test, events.qp[IB_EVENT_QP_FATAL], 1);
	KUNIT_EXPECT_EQ(test, events.misdirected, 0);
	KUNIT_EXPECT_EQ(test, qp->term.layer_type, 0);	/* local catastrophic error */
}

static void overflow_goes_to_the_cq_once(struct kunit *test)
{
	async_event(T3_AE_ASYNC | T3_AE_OVERFLOW, qp->id, T3_STATUS_SUCCESS, T3_RDMA_SEND);
	async_event(T3_AE_ASYNC | T3_AE_OVERFLOW, 777, T3_STATUS_SUCCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, events.cq[IB_EVENT_CQ_ERR], 1);
	KUNIT_EXPECT_EQ(test, events.misdirected, 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_CQ_OVERFLOW]), 1);
}

static void plain_completion_is_no_error(struct kunit *test)
{
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_SUCCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, events.cq[IB_EVENT_CQ_ERR], 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(events.qp, 0, sizeof(events.qp)));
	KUNIT_EXPECT_NULL(test, memchr_inv(events.device, 0, sizeof(events.device)));
}

/* Never dereferenced. */
static struct t3_ep *const some_ep = (struct t3_ep *)&card;

static void acknowledged_send_confirms_the_next_hop(struct kunit *test)
{
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_SUCCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card.confirmed, 0);
	qp->ep = some_ep;
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_SUCCESS, T3_RDMA_SEND);
	KUNIT_EXPECT_EQ(test, card.confirmed, 1);
	KUNIT_EXPECT_EQ(test, card.ep_refs, 0);
}

static void sent_terminate_ends_the_connection(struct kunit *test)
{
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_SUCCESS, T3_RDMA_TERMINATE);
	KUNIT_EXPECT_EQ(test, card.disconnected, 0);
	qp->ep = some_ep;
	async_event(T3_AE_ASYNC, qp->id, T3_STATUS_SUCCESS, T3_RDMA_TERMINATE);
	KUNIT_EXPECT_EQ(test, card.disconnected, 1);
	KUNIT_EXPECT_EQ(test, card.ep_refs, 0);
}

static struct kunit_case event_cases[] = {
	KUNIT_CASE(device_error_goes_to_the_device),
	KUNIT_CASE(qp_error_goes_to_the_qp),
	KUNIT_CASE(refused_error_is_not_reported),
	KUNIT_CASE(contradictory_entry_is_an_error_of_the_qp),
	KUNIT_CASE(overflow_goes_to_the_cq_once),
	KUNIT_CASE(plain_completion_is_no_error),
	KUNIT_CASE(acknowledged_send_confirms_the_next_hop),
	KUNIT_CASE(sent_terminate_ends_the_connection),
	{}
};

TEST_SUITE("iw_cxgb3_event", event_cases, .init = event_init, .exit = event_exit);
