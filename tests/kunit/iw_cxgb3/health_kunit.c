// SPDX-License-Identifier: GPL-2.0
/*
 * A card that has failed or is being reset: its bus mastering, its carrier and the reports. And the
 * polling for messages whose interrupt was lost. The waits that find a failure: ctrl_kunit.c.
 */
#include "around_health.h"
#include "watchdog.c"

static bool polled_with_interrupts;

static int health_init(struct kunit *test)
{
	polled_with_interrupts = false;
	make_card(test);
	t3_watchdog_init(dev);
	return 0;
}

static void health_exit(struct kunit *test)
{
	t3_watchdog_stop(dev);
	end_card();
}

/* cxgb3 sees that the link is up, but the card cannot access any frame. */
static void fatal_card_has_no_carrier(struct kunit *test)
{
	struct net_device *ndev = dev->ports.lldevs[0];

	dev->ports.nports = 1;
	KUNIT_ASSERT_TRUE(test, netif_carrier_ok(ndev));
	t3_dev_fatal(dev, "as a test");
	KUNIT_EXPECT_FALSE(test, netif_carrier_ok(ndev));
}

/* cxgb3 handles its ports itself. */
static void carrier_of_a_card_in_reset_is_left_alone(struct kunit *test)
{
	dev->ports.nports = 1;
	t3_adapter_event(dev, OFFLOAD_STATUS_DOWN);
	KUNIT_EXPECT_TRUE(test, netif_carrier_ok(dev->ports.lldevs[0]));
}

/* The device is freed after the stop. */
static void stop_waits_for_the_report_of_a_failure(struct kunit *test)
{
	t3_dev_fatal(dev, "as a test");
	t3_watchdog_stop(dev);
	flush_work(&dev->fatal_work);
	KUNIT_EXPECT_EQ(test, card.fatal, 1);
}

/* With T3_DEV_GONE set, memory is freed whose address the card has. */
static void bus_mastering_ends_before_gone_is_set(struct kunit *test)
{
	t3_dev_fatal(dev, "as a test");
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, card.gone_before_cleared);
}

static void bus_mastering_ends_before_a_reset(struct kunit *test)
{
	t3_adapter_event(dev, OFFLOAD_STATUS_DOWN);
	KUNIT_EXPECT_EQ(test, card.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, card.gone_before_cleared);
}

static void poll_queues(struct net_device *ndev)
{
	card.polls++;
	if (!irqs_disabled())
		polled_with_interrupts = true;
}

static void queues_are_polled_with_interrupts_off(struct kunit *test)
{
	static const struct net_device_ops ops = { .ndo_poll_controller = poll_queues };

	t3_card_poll(dev);
	KUNIT_EXPECT_EQ(test, card.polls, 0);
	dev->ports.lldevs[0]->netdev_ops = &ops;
	t3_card_poll(dev);
	KUNIT_EXPECT_EQ(test, card.polls, 1);
	KUNIT_EXPECT_FALSE(test, polled_with_interrupts);
	KUNIT_EXPECT_FALSE(test, irqs_disabled());
	set_bit(T3_DEV_GONE, &dev->flags);
	t3_card_poll(dev);
	KUNIT_EXPECT_EQ(test, card.polls, 1);
}

static struct kunit_case health_cases[] = {
	KUNIT_CASE(fatal_card_has_no_carrier),
	KUNIT_CASE(carrier_of_a_card_in_reset_is_left_alone),
	KUNIT_CASE(stop_waits_for_the_report_of_a_failure),
	KUNIT_CASE(bus_mastering_ends_before_gone_is_set),
	KUNIT_CASE(bus_mastering_ends_before_a_reset),
	KUNIT_CASE(queues_are_polled_with_interrupts_off),
	{}
};

TEST_SUITE("iw_cxgb3_health", health_cases, .init = health_init, .exit = health_exit);
