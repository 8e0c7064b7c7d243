// SPDX-License-Identifier: GPL-2.0
/*
 * Messages and commands to the NIC driver, a fake here: who frees a message, also after removal,
 * and a card that is slow to execute a command.
 */
#include "../suite.h"
#include "nic.c"

static struct {
	int result;
	unsigned int messages, commands;	/* that reached the NIC driver */
	unsigned int freed;
	unsigned int slow;		/* commands that find the last one unfinished */
	unsigned int pause;		/* ms that the thread stands still in its next command */
	struct sk_buff *taken;
} nic;

static struct t3_dev *dev;

int cxgb3_ofld_send(struct t3cdev *tdev, struct sk_buff *skb)
{
	nic.messages++;
	if (nic.result >= 0)
		nic.taken = skb;
	return nic.result;
}

static int command(struct t3cdev *tdev, unsigned int req, void *data)
{
	ktime_t end = ktime_add_ms(ktime_get(), nic.pause);

	nic.commands++;
	while (ktime_before(ktime_get(), end))
		cpu_relax();
	nic.pause = 0;
	if (nic.slow) {
		nic.slow--;
		return nic.commands == 1 ? -EAGAIN : -EBUSY;
	}
	return nic.result;
}

static int nic_init(struct kunit *test)
{
	memset(&nic, 0, sizeof(nic));
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->tdev = kunit_kzalloc(test, sizeof(*dev->tdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->tdev);
	dev->tdev->ctl = command;
	card_timeout_secs = 1;
	return 0;
}

static void count_freed(struct sk_buff *skb)
{
	nic.freed++;
}

static int send(struct kunit *test)
{
	struct sk_buff *skb = alloc_skb(16, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->destructor = count_freed;
	return t3_dev_send(dev, skb);
}

static void refused_message_is_freed(struct kunit *test)
{
	nic.result = -ENOMEM;
	KUNIT_EXPECT_EQ(test, send(test), -ENOMEM);
	KUNIT_EXPECT_EQ(test, nic.messages, 1);
	KUNIT_EXPECT_EQ(test, nic.freed, 1);
}

/* CVE-2015-8812: also if it only waits for free slots. */
static void message_that_the_nic_driver_took_is_not_freed(struct kunit *test)
{
	static const int results[] = { NET_XMIT_SUCCESS, NET_XMIT_DROP, NET_XMIT_CN };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(results); i++) {
		nic.result = results[i];
		nic.taken = NULL;
		nic.freed = 0;
		KUNIT_EXPECT_EQ(test, send(test), 0);
		KUNIT_EXPECT_EQ(test, nic.freed, 0);
		KUNIT_ASSERT_NOT_NULL(test, nic.taken);
		kfree_skb(nic.taken);
		KUNIT_EXPECT_EQ(test, nic.freed, 1);
	}
}

/* cxgb3 may have freed its tables. */
static void removed_card_is_not_used(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, t3_dev_ctl(dev, RDMA_CQ_OP, NULL), 0);
	KUNIT_EXPECT_EQ(test, nic.commands, 1);
	set_bit(T3_DEV_GONE, &dev->flags);
	KUNIT_EXPECT_EQ(test, t3_dev_ctl(dev, RDMA_CQ_OP, NULL), -EIO);
	KUNIT_EXPECT_EQ(test, nic.commands, 1);
	KUNIT_EXPECT_EQ(test, send(test), -EIO);
	KUNIT_EXPECT_EQ(test, nic.messages, 0);
	KUNIT_EXPECT_EQ(test, nic.freed, 1);
}

/* One command that takes longer than cxgb3's 100 us must not cost the host its Ethernet. */
static void slow_context_command_is_repeated(struct kunit *test)
{
	bool may_sleep;

	for (may_sleep = false;; may_sleep = true) {
		nic.commands = 0;
		nic.slow = 20;
		KUNIT_EXPECT_EQ(test, t3_dev_context_ctl(dev, RDMA_CQ_SETUP, NULL, may_sleep), 0);
		KUNIT_EXPECT_EQ(test, nic.commands, 21);
		nic.slow = UINT_MAX;
		KUNIT_EXPECT_EQ(test, t3_dev_context_ctl(dev, RDMA_CQ_SETUP, NULL, may_sleep),
				-EBUSY);
		if (may_sleep)
			break;
	}
	nic.slow = 1;
	nic.pause = 1200;
	KUNIT_EXPECT_EQ(test, t3_dev_context_ctl(dev, RDMA_CQ_SETUP, NULL, true), 0);
	nic.slow = 20;		/* commands of other threads, too */
	nic.pause = 1200;
	KUNIT_EXPECT_EQ(test, t3_dev_context_ctl(dev, RDMA_CQ_SETUP, NULL, true), 0);
	nic.slow = 0;
	nic.commands = 0;
	nic.result = -EINVAL;
	KUNIT_EXPECT_EQ(test, t3_dev_context_ctl(dev, RDMA_CQ_SETUP, NULL, true), -EINVAL);
	KUNIT_EXPECT_EQ(test, nic.commands, 1);
	set_bit(T3_DEV_GONE, &dev->flags);
	KUNIT_EXPECT_EQ(test, t3_dev_context_ctl(dev, RDMA_CQ_SETUP, NULL, true), -EIO);
	KUNIT_EXPECT_EQ(test, nic.commands, 1);
}

static struct kunit_case nic_cases[] = {
	KUNIT_CASE(refused_message_is_freed),
	KUNIT_CASE(message_that_the_nic_driver_took_is_not_freed),
	KUNIT_CASE(removed_card_is_not_used),
	KUNIT_CASE(slow_context_command_is_repeated),
	{}
};

TEST_SUITE("iw_cxgb3_nic", nic_cases, .init = nic_init);
