// SPDX-License-Identifier: GPL-2.0
/*
 * The endpoint's ordered context: references, mailbox, timer and end, with the real table and
 * fakes for everything that sends or tells.
 */
#include <linux/delay.h>
#include <linux/module.h>

#include "conn.h"

#include "ep_fsm.c"
#include "quota.c"
#include "ep.c"

static struct {
	unsigned int sent_close, sent_abort, sent_abort_rpl, told_end, released, messages, calls,
		     ids_returned, sent_open, cards_dead;
	unsigned int last_event;
	atomic_t inside;		/* contexts that are in the endpoint at once */
	bool overlap;
	bool no_memory;
	int open_error;
	unsigned long timeout;
} seen;

/* --- what lies around ep.c ------------------------------------------------ */

static void in_the_ordered_context(void)
{
	if (atomic_inc_return(&seen.inside) > 1)
		seen.overlap = true;
	cond_resched();
	atomic_dec(&seen.inside);
}

unsigned long t3_cm_timeout(void)
{
	return seen.timeout;
}

int t3_cpl_reserve(struct t3_ep *ep)
{
	struct sk_buff *skb = seen.no_memory ? NULL : alloc_skb(64, GFP_KERNEL);

	if (!skb)
		return -ENOMEM;
	skb_queue_tail(&ep->spare, skb);
	return 0;
}

void t3_cpl_handle(struct t3_ep *ep, struct sk_buff *skb)
{
	in_the_ordered_context();
	seen.messages++;
}

void t3_cm_do_call(struct t3_ep *ep, struct t3_ep_call *call)
{
	in_the_ordered_context();
	seen.calls++;
	call->ret = 42;
	complete(&call->done);
}

void t3_cm_tell_end(struct t3_ep *ep, enum ep_event event, int status)
{
	in_the_ordered_context();
	seen.told_end++;
	seen.last_event = event;
}

void t3_cm_tell_peer_closed(struct t3_ep *ep)
{
}

int t3_qp_report(struct t3_qp *qp, enum t3_qp_event ev)
{
	return 0;
}

void t3_qp_disconnected(struct t3_qp *qp)
{
}

int t3_send_act_open_req(struct t3_ep *ep)
{
	seen.sent_open++;
	return seen.open_error;
}

unsigned long t3_card_timeout(void)
{
	return seen.timeout;
}

static bool is_any(const struct t3_ep *ep, const void *arg)
{
	return true;
}

/* As the work item of health.c does it: every connection of a dead card ends. */
void t3_dev_fatal(struct t3_dev *fatal, const char *what)
{
	/* Else the card could still use what was given back. */
	if (!seen.ids_returned)
		seen.cards_dead = 1;
	t3_ep_request_if(fatal, T3_REQ_DEVICE_DOWN, is_any, NULL);
}

void t3_send_close_con_req(struct t3_ep *ep)
{
	in_the_ordered_context();
	seen.sent_close++;
}

void t3_send_abort_req(struct t3_ep *ep)
{
	in_the_ordered_context();
	seen.sent_abort++;
}

void t3_send_abort_rpl(struct t3_ep *ep)
{
	seen.sent_abort_rpl++;
}

void t3_route_release(struct t3_ep *ep)
{
	seen.released++;
}

void t3_listener_forget(struct t3_ep *ep)
{
}

void t3_return_id(struct t3_ep *ep)
{
	seen.ids_returned++;
}

/* --- a device ------------------------------------------------------------------ */

static struct t3_dev *dev;

static int ep_init(struct kunit *test)
{
	memset(&seen, 0, sizeof(seen));
	seen.timeout = 60 * HZ;
	dev = conn_dev(test);
	t3_cm_wq = alloc_workqueue("ep_kunit", 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_cm_wq);
	return 0;
}

/* No test leaves an endpoint: a missing reference is a use after free, one too many shows here. */
static void ep_exit(struct kunit *test)
{
	drain_workqueue(t3_cm_wq);
	destroy_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->live), 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->cm->eps));
	KUNIT_EXPECT_FALSE(test, seen.overlap);
	rcu_barrier();
}

/* Puts an endpoint into a state by force; the caller gets a reference of its own. */
static struct t3_ep *new_ep(struct kunit *test, enum ep_state state)
{
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	t3_ep_get(ep);
	ep->state = state;
	if (ep_state_has_timer(state))
		t3_ep_set_timer(ep, seen.timeout);
	return ep;
}

/* The last reference is the test's own. */
static void expect_gone(struct kunit *test, struct t3_ep *ep)
{
	flush_work(&ep->work);
	flush_delayed_work(&ep->timer);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_DEAD);
	KUNIT_EXPECT_EQ(test, kref_read(&ep->ref), 1);
	KUNIT_EXPECT_NULL(test, t3_ep_find(dev, ep->id));
	t3_ep_put(ep);
}

/* --- tests ---------------------------------------------------------------------- */

static void state_name(const enum ep_state *state, char *name)
{
	strscpy(name, ep_state_name(*state), KUNIT_PARAM_DESC_SIZE);
}

static const enum ep_state living_states[] = {
	EP_IDLE, EP_CONNECTING, EP_OPEN_DELAYED, EP_ABANDONED, EP_SYN_RCVD, EP_MPA_REQ_SENT,
	EP_MPA_REQ_WAIT, EP_MPA_REQ_RCVD, EP_ACCEPTING, EP_FPDU, EP_TERMINATING, EP_CLOSING,
	EP_FIN_WAIT, EP_LAST_ACK, EP_ABORTING, EP_ABORT_CROSSED,
};

KUNIT_ARRAY_PARAM(living, living_states, state_name);

static void device_down_frees_everything(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, *(const enum ep_state *)test->param_value);

	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.released, 1);
	KUNIT_EXPECT_EQ(test, seen.ids_returned, 1);
	expect_gone(test, ep);
}

/* A state with a timer gets to its end by time alone, whatever the card and the peer do not do. */
static void silence_ends_every_state(struct kunit *test)
{
	enum ep_state state = *(const enum ep_state *)test->param_value;
	struct t3_ep *ep;
	unsigned int tries;

	if (!ep_state_has_timer(state))
		return;
	seen.timeout = 1;
	ep = new_ep(test, state);
	for (tries = 0; tries < 500 && READ_ONCE(ep->state) != EP_DEAD &&
	     READ_ONCE(ep->state) != EP_ABANDONED; tries++)
		msleep(20);
	if (ep->state == EP_ABANDONED)	/* the card itself ends this one */
		t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	flush_work(&ep->work);
	/* What the card did not answer for may still be in its hands. */
	KUNIT_EXPECT_EQ(test, seen.cards_dead, seen.sent_abort ||
			state == EP_ABORTING || state == EP_ABORT_CROSSED);
	expect_gone(test, ep);
}

static void refused_open_is_sent_again(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	KUNIT_EXPECT_EQ(test, t3_ep_fire(ep, EP_EV_OPEN_EXISTS, 0), 0);
	KUNIT_EXPECT_EQ(test, ep->state, EP_OPEN_DELAYED);
	KUNIT_EXPECT_FALSE(test, time_after(ep->deadline, jiffies + T3_CONN_EXIST_DELAY));
	KUNIT_EXPECT_EQ(test, t3_ep_fire(ep, EP_EV_TIMEOUT, 0), 0);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CONNECTING);
	KUNIT_EXPECT_EQ(test, seen.sent_open, 1);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	expect_gone(test, ep);
}

/* The card has answered the first open, and nothing else was sent: no one would end this. */
static void abort_before_the_second_open_ends_it(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	t3_ep_fire(ep, EP_EV_OPEN_EXISTS, 0);
	t3_ep_request(ep, T3_REQ_ABORT);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.sent_open, 0);
	KUNIT_EXPECT_EQ(test, seen.told_end, 1);
	expect_gone(test, ep);
}

static void second_open_that_cannot_be_sent_ends_it(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	seen.open_error = -ENOMEM;
	t3_ep_fire(ep, EP_EV_OPEN_EXISTS, 0);
	t3_ep_fire(ep, EP_EV_TIMEOUT, 0);
	KUNIT_EXPECT_EQ(test, seen.told_end, 1);
	KUNIT_EXPECT_EQ(test, seen.last_event, EP_EV_ARP_FAILED);
	expect_gone(test, ep);
}

static void stopped_timer_is_nobody(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	/* One that expired, and was started anew before anybody looked at its request. */
	t3_ep_set_timer(ep, 60 * HZ);
	t3_ep_request(ep, T3_REQ_TIMER);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	ep_stop_timer(ep);
	t3_ep_request(ep, T3_REQ_TIMER);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_CM_BAD_EVENT]), 0);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	expect_gone(test, ep);
}

static void event_without_a_cell_changes_nothing(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	KUNIT_EXPECT_EQ(test, t3_ep_fire(ep, EP_EV_SYN, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_CM_BAD_EVENT]), 1);
	KUNIT_EXPECT_EQ(test, ep->log.nsteps, 1);
	KUNIT_EXPECT_TRUE(test, ep->log.steps[0].refused);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	expect_gone(test, ep);
}

static void only_one_call_at_a_time(struct kunit *test)
{
	struct t3_ep_call first = { .what = EP_EV_CONNECT }, second = { .what = EP_EV_REJECT };
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	KUNIT_EXPECT_EQ(test, t3_ep_call(ep, &first), 42);
	ep->call = &first;	/* one that nobody has taken yet */
	KUNIT_EXPECT_EQ(test, t3_ep_call(ep, &second), -EBUSY);
	ep->call = NULL;
	KUNIT_EXPECT_EQ(test, seen.calls, 1);
	t3_ep_request(ep, T3_REQ_ABORT);
	expect_gone(test, ep);
}

/* A pointer out of the TID table may be to an endpoint that has no reference left. */
static void dead_endpoint_is_not_taken_again(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_IDLE);
	u32 id = ep->id;

	rcu_read_lock();
	t3_ep_put(ep);
	t3_ep_put(ep);	/* the one from birth: as if it had died */
	KUNIT_EXPECT_FALSE(test, t3_ep_tryget(ep));
	KUNIT_EXPECT_NULL(test, t3_ep_find(dev, id));
	rcu_read_unlock();
	xa_erase_bh(&dev->cm->eps, id);
	atomic_dec(&dev->cm->live);
}

struct pusher {
	struct work_struct work;
	struct t3_ep *ep;
	unsigned int messages;
};

static void push(struct work_struct *work)
{
	struct pusher *p = container_of(work, struct pusher, work);
	struct sk_buff *skb;
	unsigned int n;

	for (n = 0; n < 200; n++) {
		skb = alloc_skb(16, GFP_KERNEL);
		if (!skb)
			continue;
		p->messages++;
		skb_queue_tail(&p->ep->inbox, skb);
		t3_ep_kick(p->ep);
		if (n % 16 == 0)
			cond_resched();
	}
	t3_ep_request(p->ep, T3_REQ_DISCONNECT);
	t3_ep_put(p->ep);
}

/* Many senders, one context: nothing is handled twice, nothing is lost, no two at once. */
static void context_is_ordered(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);
	struct pusher *pushers;
	unsigned int i, sent = 0;

	pushers = kunit_kcalloc(test, 4, sizeof(*pushers), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pushers);
	for (i = 0; i < 4; i++) {
		INIT_WORK(&pushers[i].work, push);
		t3_ep_get(ep);
		pushers[i].ep = ep;
		queue_work(system_unbound_wq, &pushers[i].work);
	}
	for (i = 0; i < 4; i++) {
		flush_work(&pushers[i].work);
		sent += pushers[i].messages;
	}
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.messages, sent);
	KUNIT_EXPECT_EQ(test, seen.sent_close, 1);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSING);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN);
	expect_gone(test, ep);
}

static void nothing_is_born_after_the_stop(struct kunit *test)
{
	struct t3_ep *ep;

	dev->cm->stopped = true;
	ep = t3_ep_alloc(dev);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_EXPECT_EQ(test, t3_ep_publish(ep), -ENODEV);
	KUNIT_EXPECT_EQ(test, kref_read(&ep->ref), 1);
	t3_ep_put(ep);
	dev->cm->stopped = false;
	seen.no_memory = true;
	ep = t3_ep_alloc(dev);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ep), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->live), 0);
}

/* An event of the device would drop the only reference to it, while its maker fills it in. */
static void event_cannot_find_an_incomplete_endpoint(struct kunit *test)
{
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	t3_ep_get(ep);
	t3_ep_request_if(dev, T3_REQ_RETIRE, is_any, NULL);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, ep->state, EP_IDLE);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->live), 0);
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	t3_ep_request_if(dev, T3_REQ_RETIRE, is_any, NULL);
	expect_gone(test, ep);
}

/* What is left of the dead is the end of their lives, and the newest of them. */
static void graveyard_keeps_the_last(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < T3_GRAVES + 3; i++) {
		struct t3_ep *ep = new_ep(test, EP_IDLE);

		ep->tid = 100 + i;
		t3_ep_request(ep, T3_REQ_ABORT);
		expect_gone(test, ep);
	}
	KUNIT_EXPECT_EQ(test, dev->cm->nburied, T3_GRAVES + 3);
	KUNIT_EXPECT_EQ(test, dev->cm->graves[2].tid, 100 + T3_GRAVES + 2);
	KUNIT_EXPECT_EQ(test, dev->cm->graves[3].tid, 103);
	KUNIT_EXPECT_EQ(test, dev->cm->graves[2].steps[0].event, EP_EV_ABORT);
}

static struct kunit_case ep_cases[] = {
	KUNIT_CASE_PARAM(device_down_frees_everything, living_gen_params),
	KUNIT_CASE_PARAM(silence_ends_every_state, living_gen_params),
	KUNIT_CASE(refused_open_is_sent_again),
	KUNIT_CASE(abort_before_the_second_open_ends_it),
	KUNIT_CASE(second_open_that_cannot_be_sent_ends_it),
	KUNIT_CASE(stopped_timer_is_nobody),
	KUNIT_CASE(event_without_a_cell_changes_nothing),
	KUNIT_CASE(only_one_call_at_a_time),
	KUNIT_CASE(dead_endpoint_is_not_taken_again),
	KUNIT_CASE(context_is_ordered),
	KUNIT_CASE(nothing_is_born_after_the_stop),
	KUNIT_CASE(event_cannot_find_an_incomplete_endpoint),
	KUNIT_CASE(graveyard_keeps_the_last),
	{}
};

static struct kunit_suite ep_suite = {
	.name = "iw_cxgb3_ep",
	.init = ep_init,
	.exit = ep_exit,
	.test_cases = ep_cases,
};

kunit_test_suites(&ep_suite);

MODULE_LICENSE("GPL");
