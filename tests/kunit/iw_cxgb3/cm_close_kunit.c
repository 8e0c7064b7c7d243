// SPDX-License-Identifier: GPL-2.0
/*
 * The end of the connection manager, of a device and of the module: what it waits for. The memory
 * of the table of endpoints.
 */
#include "../compat.h"
#include "around_cm.h"
#include "slow_work.h"

static struct t3_dev *other;

static struct t3_ep *endpoint_of_another_device(struct kunit *test)
{
	static struct t3c_data nic;
	static struct t3cdev tdev = { .l4opt = &nic };
	struct t3_ep *ep;

	card.no_connect = true;
	other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, other);
	other->tdev = &tdev;
	KUNIT_ASSERT_EQ(test, t3_cm_open(other), 0);
	KUNIT_EXPECT_EQ(test, card.debugfs, 1);
	ep = t3_ep_alloc(other);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	return ep;
}

/*
 * The timer has expired while the endpoint closed: its work item queues the endpoint's one more
 * time, and that one finds a message.
 */
static void close_waits_for_the_last_work_item(struct kunit *test)
{
	struct t3_ep *ep = endpoint_of_another_device(test);
	struct sk_buff *skb = alloc_skb(16, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	KUNIT_EXPECT_FALSE(test, t3_cm_busy(other));
	t3_ep_receive(ep, skb, T3_RUN_LATER, NULL);
	/* With the last reference. */
	queue_delayed_work(t3_cm_wq, &ep->timer, 0);
	t3_cm_close(other);
	KUNIT_EXPECT_EQ(test, card.handled, 1);
	KUNIT_EXPECT_NULL(test, other->cm);
}

static struct completion closed;

static void close_work(struct work_struct *work)
{
	t3_cm_close(other);
	complete(&closed);
}

static void close_waits_for_endpoints(struct kunit *test)
{
	struct t3_ep *ep = endpoint_of_another_device(test);
	struct work_struct work;

	init_completion(&closed);
	INIT_WORK_ONSTACK(&work, close_work);
	queue_work(system_unbound_wq, &work);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&closed, HZ / 5), 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	t3_ep_put(ep);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&closed, 20 * HZ), 0);
	flush_work(&work);
	destroy_work_on_stack(&work);
}

/* cxgb3 frees its tables then, which others use between t3_dev_enter() and t3_dev_leave(). */
static void stop_waits_for_users_of_the_tables(struct kunit *test)
{
	struct t3_ep *ep = endpoint_of_another_device(test);
	struct rcu_gp_oldstate before;

	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	t3_ep_put(ep);
	get_state_synchronize_rcu_full(&before);
	t3_cm_stop(other);
	KUNIT_EXPECT_TRUE(test, poll_state_synchronize_rcu_full(&before));
	t3_cm_close(other);
}

/* Its code is freed then. */
static void exit_waits_for_work_items(struct kunit *test)
{
	struct workqueue_struct *of_the_test = t3_cm_wq;
	struct slow_work *slow = kunit_kzalloc(test, sizeof(*slow), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, slow);
	card.no_connect = true;
	KUNIT_ASSERT_EQ(test, t3_cm_init(), 0);
	INIT_WORK(&slow->work, run_slowly);
	queue_work(t3_cm_wq, &slow->work);
	t3_cm_exit();
	KUNIT_EXPECT_TRUE(test, slow->done);
	flush_work(&slow->work);
	t3_cm_wq = of_the_test;
}

/* An xarray ignores __GFP_ACCOUNT of its callers if memory is free: only the flag charges. */
static void nodes_of_the_table_are_charged_to_the_memcg(struct kunit *test)
{
	struct t3_ep *ep = endpoint_of_another_device(test);

	KUNIT_EXPECT_TRUE(test, other->cm->eps.xa_flags & XA_FLAGS_ACCOUNT);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	t3_ep_put(ep);
	t3_cm_close(other);
}

static struct kunit_case cm_close_cases[] = {
	KUNIT_CASE(close_waits_for_the_last_work_item),
	KUNIT_CASE(close_waits_for_endpoints),
	KUNIT_CASE(stop_waits_for_users_of_the_tables),
	KUNIT_CASE(exit_waits_for_work_items),
	KUNIT_CASE(nodes_of_the_table_are_charged_to_the_memcg),
	{}
};

TEST_SUITE("iw_cxgb3_cm_close", cm_close_cases, .init = cm_init, .exit = cm_exit);
