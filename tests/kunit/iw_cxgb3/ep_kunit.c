// SPDX-License-Identifier: GPL-2.0
/*
 * The endpoint's runner: references, queue, timer and close. The transition table is
 * real. Everything that sends, or reports to the consumer, is a fake.
 */
#include <linux/delay.h>

#include "conn.h"
#include "../failing_alloc.h"

#include "ep_fsm.c"
#include "quota.c"
#include "ep.c"
#include "debugfs.c"

static struct {
	unsigned int sent_close, sent_abort, sent_abort_rpl, reported_end, released, messages,
		     calls, ids_returned, sent_open, fatal_calls, polls;
	unsigned int last_event;
	atomic_t inside;		/* contexts that use the endpoint at the same time */
	bool overlap;
	bool no_memory;
	int open_error;
	unsigned long timeout;
} seen;

/* --- fakes of the other files --------------------------------------------- */

static void in_the_runner(void)
{
	if (atomic_inc_return(&seen.inside) > 1)
		seen.overlap = true;
	if (!in_softirq())
		cond_resched();
	atomic_dec(&seen.inside);
}

unsigned long t3_cm_timeout(void)
{
	return seen.timeout;
}

int t3_cpl_reserve(struct t3_ep *ep)
{
	struct sk_buff *skb = seen.no_memory ? NULL : sure_skb(64, GFP_KERNEL);

	if (!skb)
		return -ENOMEM;
	skb_queue_tail(&ep->spare, skb);
	return 0;
}

static bool hold_messages;	/* the next message, until message_released */
static DECLARE_COMPLETION(message_held);
static DECLARE_COMPLETION(message_released);
static struct t3_ep *disconnect_in_call;
static bool request_in_message;
static unsigned int hold_message_after;	/* the one after so many */
static unsigned int event_in_message;	/* EP_EV_ABORT_RPL in the nth message */

void t3_cpl_handle(struct t3_ep *ep, struct sk_buff *skb)
{
	if (hold_messages || (hold_message_after && hold_message_after == seen.messages)) {
		hold_messages = false;
		hold_message_after = 0;
		complete(&message_held);
		wait_for_completion_timeout(&message_released, 20 * HZ);
	}
	in_the_runner();
	seen.messages++;
	if (event_in_message && event_in_message == seen.messages)
		t3_ep_fsm_apply(ep, EP_EV_ABORT_RPL, 0);
	if (request_in_message) {
		request_in_message = false;
		t3_ep_request(ep, T3_REQ_CALL, T3_RUN_QUEUED);
	}
}

void t3_cm_run_call(struct t3_ep *ep)
{
	atomic_inc(&seen.inside);
	if (disconnect_in_call == ep) {
		disconnect_in_call = NULL;
		t3_ep_disconnect(ep, false, true);
	}
	atomic_dec(&seen.inside);
	in_the_runner();
	seen.calls++;
}

void t3_cm_report_end(struct t3_ep *ep, enum ep_event event, int status)
{
	in_the_runner();
	seen.reported_end++;
	seen.last_event = event;
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

void t3_card_poll(struct t3_dev *dev)
{
	seen.polls++;
}

static bool match_any(struct t3_ep *ep, const void *arg)
{
	return true;
}

/* As the work item of health.c: close every connection of the failed device. */
void t3_dev_fatal(struct t3_dev *fatal, const char *what)
{
	/* Called before the ids are released: else the card could still use them. */
	if (!seen.ids_returned)
		seen.fatal_calls = 1;
	t3_ep_request_if(fatal, T3_REQ_DEVICE_DOWN, match_any, NULL);
}

void t3_send_close_con_req(struct t3_ep *ep)
{
	in_the_runner();
	seen.sent_close++;
}

void t3_send_abort_req(struct t3_ep *ep)
{
	in_the_runner();
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

void t3_ep_return_id(struct t3_ep *ep)
{
	seen.ids_returned++;
}

/* --- a device ------------------------------------------------------------------ */

static struct t3_dev *dev;
static const char *shut_down_at;

/* As t3_cm_shut_down(), at a point. */
void t3_race_point(const char *name)
{
	if (!shut_down_at || strcmp(name, shut_down_at))
		return;
	shut_down_at = NULL;
	WRITE_ONCE(dev->cm->stopped, true);
	smp_mb();	/* pairs with those in t3_ep_count() and t3_ep_publish() */
	t3_ep_request_if(dev, T3_REQ_SHUT_DOWN, match_any, NULL);
}

static int ep_init(struct kunit *test)
{
	memset(&seen, 0, sizeof(seen));
	seen.timeout = 60 * HZ;
	hold_messages = false;
	reinit_completion(&message_held);
	reinit_completion(&message_released);
	request_in_message = false;
	hold_message_after = 0;
	event_in_message = 0;
	disconnect_in_call = NULL;
	dev = conn_dev(test);
	t3_cm_wq = alloc_workqueue("ep_kunit", 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_cm_wq);
	return 0;
}

/* No test leaves an endpoint. A missing reference is a use after free, a leaked one shows here. */
static void ep_exit(struct kunit *test)
{
	drain_workqueue(t3_cm_wq);
	destroy_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_allocated), 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->cm->eps));
	KUNIT_EXPECT_FALSE(test, seen.overlap);
	rcu_barrier();
}

/* An endpoint in the given state, with a reference of the caller. */
static struct t3_ep *new_ep(struct kunit *test, enum ep_state state)
{
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	ep->state = state;
	if (ep_state_has_timer(state))
		t3_ep_set_timer(ep, seen.timeout);
	return ep;
}

/* The last reference is the test's own. */
static void expect_closed(struct kunit *test, struct t3_ep *ep)
{
	flush_work(&ep->work);
	flush_delayed_work(&ep->timer);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	KUNIT_EXPECT_EQ(test, kref_read(&ep->ref), 1);
	KUNIT_EXPECT_NULL(test, t3_ep_find(dev, ep->id));
	t3_ep_put(ep);
}

static void end(struct kunit *test, struct t3_ep *ep)
{
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	expect_closed(test, ep);
}

/* --- tests ---------------------------------------------------------------------- */

static void state_name(const enum ep_state *state, char *name)
{
	strscpy(name, ep_state_name(*state), KUNIT_PARAM_DESC_SIZE);
}

static const enum ep_state open_states[] = {
	EP_IDLE, EP_CONNECTING, EP_OPEN_DELAYED, EP_ABANDONED, EP_SYN_RCVD, EP_MPA_REQ_SENT,
	EP_MPA_REQ_WAIT, EP_MPA_REQ_RCVD, EP_ACCEPTING, EP_FPDU, EP_TERMINATING, EP_CLOSING,
	EP_FIN_WAIT, EP_LAST_ACK, EP_ABORTING, EP_ABORT_CROSSED,
};

KUNIT_ARRAY_PARAM(open_state, open_states, state_name);

static void device_down_releases_everything(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, *(const enum ep_state *)test->param_value);

	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.released, 1);
	KUNIT_EXPECT_EQ(test, seen.ids_returned, 1);
	expect_closed(test, ep);
}

/* Without any message of the card or the peer, timeouts end every state with a timer. */
static void timeout_ends_every_state(struct kunit *test)
{
	enum ep_state state = *(const enum ep_state *)test->param_value;
	struct t3_ep *ep;
	unsigned int tries;

	if (!ep_state_has_timer(state))
		return;
	seen.timeout = 1;
	ep = new_ep(test, state);
	for (tries = 0; tries < 500 && READ_ONCE(ep->state) != EP_CLOSED &&
	     READ_ONCE(ep->state) != EP_ABANDONED; tries++)
		msleep(20);
	if (ep->state == EP_ABANDONED)	/* only the card's reply ends this state */
		t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	flush_work(&ep->work);
	/* Without a reply to the abort the card may still use ring and TID. */
	KUNIT_EXPECT_EQ(test, seen.fatal_calls, seen.sent_abort ||
			state == EP_ABORTING || state == EP_ABORT_CROSSED);
	expect_closed(test, ep);
}

static void conn_exist_repeats_the_open(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	KUNIT_EXPECT_EQ(test, t3_ep_fsm_apply(ep, EP_EV_OPEN_EXISTS, 0), 0);
	KUNIT_EXPECT_EQ(test, ep->state, EP_OPEN_DELAYED);
	KUNIT_EXPECT_FALSE(test, time_after(ep->deadline, jiffies + T3_CONN_EXIST_DELAY));
	KUNIT_EXPECT_EQ(test, t3_ep_fsm_apply(ep, EP_EV_TIMEOUT, 0), 0);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CONNECTING);
	KUNIT_EXPECT_EQ(test, seen.sent_open, 1);
	end(test, ep);
}

/* The card has replied to the first open, and no other message is pending. */
static void abort_before_the_second_open_closes(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	t3_ep_fsm_apply(ep, EP_EV_OPEN_EXISTS, 0);
	t3_ep_request(ep, T3_REQ_ABORT, T3_RUN_QUEUED);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.sent_open, 0);
	KUNIT_EXPECT_EQ(test, seen.reported_end, 1);
	expect_closed(test, ep);
}

static void unsent_second_open_closes(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	seen.open_error = -ENOMEM;
	t3_ep_fsm_apply(ep, EP_EV_OPEN_EXISTS, 0);
	t3_ep_fsm_apply(ep, EP_EV_TIMEOUT, 0);
	KUNIT_EXPECT_EQ(test, seen.reported_end, 1);
	KUNIT_EXPECT_EQ(test, seen.last_event, EP_EV_ARP_FAILED);
	expect_closed(test, ep);
}

static void stopped_timer_is_ignored(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	/* It expired, and was restarted before the runner handled the request. */
	t3_ep_set_timer(ep, 60 * HZ);
	t3_ep_request(ep, T3_REQ_TIMER, T3_RUN_QUEUED);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	t3_ep_stop_timer(ep);
	t3_ep_request(ep, T3_REQ_TIMER, T3_RUN_QUEUED);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_CM_BAD_EVENT]), 0);
	end(test, ep);
}

static const enum ep_state close_states[] = {
	EP_TERMINATING, EP_CLOSING, EP_FIN_WAIT, EP_LAST_ACK,
};

KUNIT_ARRAY_PARAM(close_state, close_states, state_name);

/* A destroy of the QP waits for the end, and the peer may keep its side open. */
static void destroyed_qp_shortens_the_close(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, *(const enum ep_state *)test->param_value);
	unsigned long earlier;

	KUNIT_ASSERT_TRUE(test, time_after(ep->deadline, jiffies + 2 * T3_CLOSE_TIMEOUT));
	t3_ep_limit_close(ep);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, *(const enum ep_state *)test->param_value);
	KUNIT_EXPECT_TRUE(test, ep->timer_armed);
	KUNIT_EXPECT_FALSE(test, time_after(ep->deadline, jiffies + T3_CLOSE_TIMEOUT));

	/* A second request does not extend it. */
	earlier = jiffies + HZ;
	t3_ep_set_timer(ep, HZ);
	t3_ep_limit_close(ep);
	flush_work(&ep->work);
	KUNIT_EXPECT_FALSE(test, time_after(ep->deadline, earlier + 1));

	/* Nor does the next state of the close. */
	t3_ep_fsm_apply(ep, ep->state == EP_CLOSING ? EP_EV_CLOSE_RPL : EP_EV_PEER_CLOSE, 0);
	KUNIT_EXPECT_FALSE(test, time_after(ep->deadline, jiffies + T3_CLOSE_TIMEOUT));
	end(test, ep);
}

/*
 * The peers of a process that is killed are dead. Its QPs are destroyed one by one: the closes of
 * the later ones have had their time when the first one was waited for.
 */
static void destroyed_qps_wait_once_for_all(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, *(const enum ep_state *)test->param_value);
	struct t3_ep *later = new_ep(test, ep->state);

	ep->timer_start -= T3_CLOSE_TIMEOUT / 2;
	later->timer_start -= T3_CLOSE_TIMEOUT;
	t3_ep_limit_close(ep);
	t3_ep_limit_close(later);
	flush_work(&ep->work);
	flush_work(&later->work);
	KUNIT_EXPECT_FALSE(test, time_after(ep->deadline, jiffies + T3_CLOSE_TIMEOUT / 2));
	KUNIT_EXPECT_NE(test, ep->state, EP_ABORTING);
	flush_delayed_work(&later->timer);
	flush_work(&later->work);
	KUNIT_EXPECT_EQ(test, later->state, EP_ABORTING);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	t3_ep_request(later, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	expect_closed(test, ep);
	expect_closed(test, later);
}

/* The card's reply to an abort may take as long as ever. */
static void destroyed_qp_does_not_shorten_an_abort(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);
	unsigned long deadline;

	t3_ep_fsm_apply(ep, EP_EV_ABORT, 0);
	deadline = ep->deadline;
	t3_ep_limit_close(ep);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->deadline, deadline);
	end(test, ep);
}

static void refused_event_changes_nothing(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	KUNIT_EXPECT_EQ(test, t3_ep_fsm_apply(ep, EP_EV_SYN, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_CM_BAD_EVENT]), 1);
	KUNIT_EXPECT_EQ(test, ep->log.history.events, 1);
	KUNIT_EXPECT_TRUE(test, ep->log.history.entries[0].refused);
	end(test, ep);
}

/* Also when the first one is done: a call uses up the consumer's reference. */
static void one_call_in_a_life(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_MPA_REQ_RCVD);

	KUNIT_EXPECT_TRUE(test, t3_ep_reserve_call(ep));
	KUNIT_EXPECT_FALSE(test, t3_ep_reserve_call(ep));
	t3_ep_request(ep, T3_REQ_CALL, T3_RUN_QUEUED);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.calls, 1);
	KUNIT_EXPECT_FALSE(test, t3_ep_reserve_call(ep));
	end(test, ep);
}

/* The end of the device may overtake the call. Its cm_id and QP have references to put. */
static void closed_endpoint_runs_its_call(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	t3_ep_request(ep, T3_REQ_CALL, T3_RUN_QUEUED);
	expect_closed(test, ep);
	KUNIT_EXPECT_EQ(test, seen.calls, 1);
}

/* It has a route and an id before it is in the table, so the end of the device waits for it. */
static void counted_endpoint_holds_up_the_end(struct kunit *test)
{
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_EQ(test, t3_ep_count(ep), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 1);
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->cm->eps));
	t3_ep_discard(ep);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 0);
	KUNIT_EXPECT_EQ(test, seen.released, 1);
	KUNIT_EXPECT_EQ(test, seen.ids_returned, 1);

	KUNIT_ASSERT_EQ(test, t3_ep_count(ep), 0);
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 1);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
	expect_closed(test, ep);

	dev->cm->stopped = true;
	ep = t3_ep_alloc(dev);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_EXPECT_EQ(test, t3_ep_count(ep), -ENODEV);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 0);
	t3_ep_put(ep);
	dev->cm->stopped = false;
}

/* A pointer from the TID table may refer to an endpoint without references. */
static void endpoint_without_references_is_not_found(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_IDLE);
	u32 id = ep->id;

	rcu_read_lock();
	t3_ep_put(ep);
	t3_ep_put(ep);	/* the initial one, as if it had closed */
	KUNIT_EXPECT_FALSE(test, t3_ep_tryget(ep));
	KUNIT_EXPECT_NULL(test, t3_ep_find(dev, id));
	rcu_read_unlock();
	xa_erase_bh(&dev->cm->eps, id);
	atomic_dec(&dev->cm->num_eps);
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
		if (n % 2) {
			t3_ep_receive(p->ep, skb, T3_RUN_QUEUED, NULL);
		} else {
			local_bh_disable();
			t3_ep_receive(p->ep, skb, T3_RUN_NOW, NULL);
			local_bh_enable();
		}
		if (n % 16 == 0)
			cond_resched();
	}
	t3_ep_request(p->ep, T3_REQ_DISCONNECT, T3_RUN_NOW);
	t3_ep_put(p->ep);
}

/* Many senders, one runner at a time: each message is handled once, and one after another. */
static void messages_are_handled_in_order(struct kunit *test)
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
	end(test, ep);
}

static struct sk_buff *new_message(struct kunit *test)
{
	struct sk_buff *skb = alloc_skb(16, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	return skb;
}

/* The work item is the runner, until message_released. */
static void hold_runner(struct kunit *test, struct t3_ep *ep)
{
	hold_messages = true;
	t3_ep_receive(ep, new_message(test), T3_RUN_QUEUED, NULL);
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&message_held, 20 * HZ), 0);
}

/* Another thread is the runner while a call makes its request: that thread handles it. */
static void request_of_a_call_is_left_to_the_runner(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_MPA_REQ_RCVD);

	hold_runner(test, ep);
	t3_ep_request(ep, T3_REQ_CALL, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, seen.calls, 0);
	t3_ep_request(ep, T3_REQ_CALL, T3_RUN_QUEUED);
	/* The runner takes both: neither has queued the work item again. */
	KUNIT_EXPECT_FALSE(test, work_pending(&ep->work));
	complete(&message_released);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.calls, 1);
	KUNIT_EXPECT_EQ(test, seen.messages, 1);
	end(test, ep);
}

/* Also what others have left in the queue before, in order: requests before messages. */
static void request_of_a_call_is_handled_before_the_return(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_MPA_REQ_RCVD);

	t3_ep_receive(ep, new_message(test), T3_RUN_LATER, NULL);
	KUNIT_EXPECT_EQ(test, seen.messages, 0);
	t3_ep_request(ep, T3_REQ_CALL, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, seen.calls, 1);
	KUNIT_EXPECT_EQ(test, seen.messages, 1);
	t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	expect_closed(test, ep);
}

static void receive_in_softirq(struct kunit *test, struct t3_ep *ep)
{
	struct sk_buff *skb = new_message(test);

	local_bh_disable();
	t3_ep_receive(ep, skb, T3_RUN_NOW, NULL);
	local_bh_enable();
}

static void message_in_softirq_is_handled_before_the_return(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	receive_in_softirq(test, ep);
	KUNIT_EXPECT_EQ(test, seen.messages, 1);
	KUNIT_EXPECT_FALSE(test, work_pending(&ep->work));
	/* Its handler makes a request, which may sleep: the work item handles it. */
	request_in_message = true;
	receive_in_softirq(test, ep);
	KUNIT_EXPECT_EQ(test, seen.messages, 2);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.calls, 1);
	end(test, ep);
}

/* It would overtake what the queue has, and be a second runner. */
static void message_in_softirq_keeps_the_order(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_MPA_REQ_RCVD);

	t3_ep_receive(ep, new_message(test), T3_RUN_LATER, NULL);
	receive_in_softirq(test, ep);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.messages, 2);

	hold_runner(test, ep);
	receive_in_softirq(test, ep);
	KUNIT_EXPECT_EQ(test, seen.messages, 2);
	complete(&message_released);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.messages, 4);
	end(test, ep);
}

struct interrupted {
	struct work_struct work;
	struct kunit *test;
	struct t3_ep *ep;
};

static void interrupted_worker(struct work_struct *work)
{
	struct interrupted *worker = container_of(work, struct interrupted, work);

	receive_in_softirq(worker->test, worker->ep);
	KUNIT_EXPECT_EQ(worker->test, seen.messages, 0);
	complete(&message_released);
}

/* The worker may be cxgb3's, which holds the lock of a send queue (docs/upstream). */
static void softirq_in_a_worker_sends_nothing(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);
	struct interrupted worker = { .test = test, .ep = ep };

	INIT_WORK_ONSTACK(&worker.work, interrupted_worker);
	/* The endpoint's work item waits until the softirq has returned. */
	hold_messages = true;
	queue_work(system_unbound_wq, &worker.work);
	flush_work(&worker.work);
	destroy_work_on_stack(&worker.work);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.messages, 1);
	end(test, ep);
}

static bool is_not_closing(const struct t3_ep *ep)
{
	return ep->state != EP_CLOSING;
}

/* A message that changes nothing in EP_CLOSING waits for the next one. */
static void message_waits_only_in_its_state(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CLOSING);

	t3_ep_receive(ep, new_message(test), T3_RUN_LATER, is_not_closing);
	KUNIT_EXPECT_FALSE(test, work_pending(&ep->work));
	KUNIT_EXPECT_EQ(test, seen.messages, 0);
	t3_ep_request(ep, T3_REQ_TERMINATE, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, seen.messages, 1);

	WRITE_ONCE(ep->state, EP_LAST_ACK);
	t3_ep_receive(ep, new_message(test), T3_RUN_LATER, is_not_closing);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.messages, 2);
	end(test, ep);
}

/* A user's requests may ask the card for acks that nothing waits for. */
static void messages_for_later_are_few(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);
	unsigned int i;

	for (i = 0; i < T3_EP_LATER_MESSAGES; i++)
		t3_ep_receive(ep, new_message(test), T3_RUN_LATER, NULL);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.messages, 0);
	t3_ep_receive(ep, new_message(test), T3_RUN_LATER, NULL);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.messages, T3_EP_LATER_MESSAGES + 1);
	end(test, ep);
}

/* Else a thread that waits for a processor would make the device fail. */
static void reply_to_an_abort_comes_before_the_timer(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_ABORTING);
	unsigned int i;

	for (i = 0; i < 2; i++)
		t3_ep_receive(ep, new_message(test), T3_RUN_LATER, NULL);
	ep->deadline = jiffies - 1;
	event_in_message = 2;
	t3_ep_request(ep, T3_REQ_TIMER, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, seen.messages, 2);
	KUNIT_EXPECT_EQ(test, seen.fatal_calls, 0);
	expect_closed(test, ep);
}

/* The host stood still, as a guest that is paused, and the interrupt of the reply was lost. */
static void missing_reply_to_an_abort_is_polled_for(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_ABORTING);

	ep->deadline = jiffies - 1;
	t3_ep_request(ep, T3_REQ_TIMER, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, seen.polls, 1);
	KUNIT_EXPECT_EQ(test, seen.fatal_calls, 0);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	ep->deadline = jiffies - 1;
	t3_ep_request(ep, T3_REQ_TIMER, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, seen.fatal_calls, 1);
	expect_closed(test, ep);
}

/* A process does not handle messages without end. */
static void call_handles_few_messages(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_MPA_REQ_RCVD);
	unsigned int i;

	for (i = 0; i < T3_EP_CALLER_MESSAGES + 4; i++)
		t3_ep_receive(ep, new_message(test), T3_RUN_LATER, NULL);
	hold_message_after = T3_EP_CALLER_MESSAGES;
	t3_ep_request(ep, T3_REQ_CALL, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, seen.messages, T3_EP_CALLER_MESSAGES);
	complete(&message_released);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, seen.messages, T3_EP_CALLER_MESSAGES + 4);
	end(test, ep);
}

/* A request of the thread that is the runner, from an upcall. */
static void request_of_an_upcall_follows_the_upcall(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	disconnect_in_call = ep;
	t3_ep_request(ep, T3_REQ_CALL, T3_RUN_NOW);
	KUNIT_EXPECT_FALSE(test, seen.overlap);
	KUNIT_EXPECT_EQ(test, seen.calls, 1);
	KUNIT_EXPECT_EQ(test, seen.sent_close, 1);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSING);
	end(test, ep);
}

static void stopped_device_refuses_new_endpoints(struct kunit *test)
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
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 0);
}

/* It is counted, but not in the table yet: the shutdown waits for it, so it must close. */
static void endpoint_published_during_a_shutdown_closes(struct kunit *test)
{
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	shut_down_at = "t3_ep_publishing";
	KUNIT_EXPECT_EQ(test, t3_ep_publish(ep), 0);
	KUNIT_EXPECT_NULL(test, shut_down_at);
	expect_closed(test, ep);
	dev->cm->stopped = false;
}

/*
 * The listener ends, or needs the place, before the connect request of its child. The peer may have
 * closed the connection without one.
 */
static void child_without_a_listener_closes(struct kunit *test)
{
	static const enum ep_state states[] = {
		EP_IDLE, EP_SYN_RCVD, EP_MPA_REQ_WAIT, EP_LAST_ACK, EP_CLOSING,
	};
	static struct t3_listener listener;
	struct t3_ep *ep;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		ep = new_ep(test, states[i]);
		ep->listener = &listener;
		t3_ep_request(ep, T3_REQ_HALF_OPEN_END, T3_RUN_QUEUED);
		flush_work(&ep->work);
		KUNIT_EXPECT_EQ(test, ep->state, i ? EP_ABORTING : EP_CLOSED);
		t3_ep_request(ep, T3_REQ_DEVICE_DOWN, T3_RUN_QUEUED);
		expect_closed(test, ep);
	}
	ep = new_ep(test, EP_MPA_REQ_RCVD);
	t3_ep_request(ep, T3_REQ_HALF_OPEN_END, T3_RUN_QUEUED);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_MPA_REQ_RCVD);
	end(test, ep);
}

/* An event of the device would close it while the caller fills it in. */
static void unpublished_endpoint_is_not_found(struct kunit *test)
{
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	t3_ep_request_if(dev, T3_REQ_SHUT_DOWN, match_any, NULL);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, ep->state, EP_IDLE);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 0);
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	t3_ep_request_if(dev, T3_REQ_SHUT_DOWN, match_any, NULL);
	expect_closed(test, ep);
}

/* A process that connects allocates its endpoint. */
static void memory_is_charged_to_the_memcg(struct kunit *test)
{
	struct t3_ep *ep;

	count_uncharged();
	ep = t3_ep_alloc(dev);
	KUNIT_EXPECT_EQ(test, uncharged(), 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	t3_ep_put(ep);
}

/* The logs of the last closed endpoints are kept, each with its last transitions. */
static void closed_logs_keep_the_last(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < T3_CLOSED_LOGS + 3; i++) {
		struct t3_ep *ep = new_ep(test, EP_IDLE);

		ep->tid = 100 + i;
		t3_ep_request(ep, T3_REQ_ABORT, T3_RUN_QUEUED);
		expect_closed(test, ep);
	}
	KUNIT_EXPECT_EQ(test, dev->cm->nclosed, T3_CLOSED_LOGS + 3);
	KUNIT_EXPECT_EQ(test, dev->cm->closed_logs[2].tid, 100 + T3_CLOSED_LOGS + 2);
	KUNIT_EXPECT_EQ(test, dev->cm->closed_logs[3].tid, 103);
	KUNIT_EXPECT_EQ(test, dev->cm->closed_logs[2].history.entries[0].event, EP_EV_ABORT);
}

static unsigned int freed;

static void count_freed(struct sk_buff *skb)
{
	freed++;
}

static void messages_of_an_endpoint_are_freed_with_it(struct kunit *test)
{
	struct t3_ep *ep = t3_ep_alloc(dev);
	struct sk_buff *skb = alloc_skb(16, GFP_KERNEL);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->destructor = count_freed;
	freed = 0;
	t3_ep_receive(ep, skb, T3_RUN_LATER, NULL);
	t3_ep_put(ep);
	KUNIT_EXPECT_EQ(test, freed, 1);
	KUNIT_EXPECT_EQ(test, seen.messages, 0);
}

/* --- debugfs ---------------------------------------------------------------------- */

static struct seq_file *new_seq_file(struct kunit *test)
{
	struct seq_file *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->size = PAGE_SIZE;
	s->buf = kunit_kzalloc(test, s->size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, s->buf);
	s->private = dev->cm;
	return s;
}

static void debugfs_shows_open_and_closed_endpoints(struct kunit *test)
{
	struct seq_file *open = new_seq_file(test), *closed = new_seq_file(test);
	struct t3_ep *ep = new_ep(test, EP_IDLE);
	unsigned int references = kref_read(&ep->ref);

	KUNIT_EXPECT_EQ(test, endpoints_show(open, NULL), 0);
	KUNIT_EXPECT_EQ(test, kref_read(&ep->ref), references);
	KUNIT_EXPECT_NOT_NULL(test, strstr(open->buf, ep_state_name(EP_IDLE)));
	t3_ep_request(ep, T3_REQ_ABORT, T3_RUN_QUEUED);
	expect_closed(test, ep);
	/* kmemleak reports the copy of the log, if it is not freed. */
	KUNIT_EXPECT_EQ(test, closed_endpoints_show(closed, NULL), 0);
	KUNIT_EXPECT_NOT_NULL(test, strstr(closed->buf, "ended"));
	open->count = 0;
	KUNIT_EXPECT_EQ(test, endpoints_show(open, NULL), 0);
	KUNIT_EXPECT_EQ(test, open->count, 0);
}

/* An open file would read the manager, which is freed next. */
static void debugfs_files_are_removed(struct kunit *test)
{
	struct dentry *found;

	dev->debugfs = debugfs_create_dir("iw_cxgb3_ep_kunit", NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(dev->debugfs));
	t3_cm_debugfs_add(dev->cm);
	found = debugfs_lookup("cm", dev->debugfs);
	KUNIT_EXPECT_NOT_NULL(test, found);
	dput(found);
	t3_cm_debugfs_remove(dev->cm);
	found = debugfs_lookup("cm", dev->debugfs);
	KUNIT_EXPECT_NULL(test, found);
	dput(found);
	debugfs_remove_recursive(dev->debugfs);
}

static struct kunit_case ep_cases[] = {
	KUNIT_CASE_PARAM(device_down_releases_everything, open_state_gen_params),
	KUNIT_CASE_PARAM(timeout_ends_every_state, open_state_gen_params),
	KUNIT_CASE(conn_exist_repeats_the_open),
	KUNIT_CASE(abort_before_the_second_open_closes),
	KUNIT_CASE(unsent_second_open_closes),
	KUNIT_CASE(stopped_timer_is_ignored),
	KUNIT_CASE_PARAM(destroyed_qp_shortens_the_close, close_state_gen_params),
	KUNIT_CASE_PARAM(destroyed_qps_wait_once_for_all, close_state_gen_params),
	KUNIT_CASE(destroyed_qp_does_not_shorten_an_abort),
	KUNIT_CASE(refused_event_changes_nothing),
	KUNIT_CASE(one_call_in_a_life),
	KUNIT_CASE(closed_endpoint_runs_its_call),
	KUNIT_CASE(counted_endpoint_holds_up_the_end),
	KUNIT_CASE(endpoint_without_references_is_not_found),
	KUNIT_CASE(messages_are_handled_in_order),
	KUNIT_CASE(request_of_a_call_is_left_to_the_runner),
	KUNIT_CASE(request_of_a_call_is_handled_before_the_return),
	KUNIT_CASE(message_in_softirq_is_handled_before_the_return),
	KUNIT_CASE(message_in_softirq_keeps_the_order),
	KUNIT_CASE(messages_for_later_are_few),
	KUNIT_CASE(reply_to_an_abort_comes_before_the_timer),
	KUNIT_CASE(missing_reply_to_an_abort_is_polled_for),
	KUNIT_CASE(call_handles_few_messages),
	KUNIT_CASE(softirq_in_a_worker_sends_nothing),
	KUNIT_CASE(message_waits_only_in_its_state),
	KUNIT_CASE(request_of_an_upcall_follows_the_upcall),
	KUNIT_CASE(stopped_device_refuses_new_endpoints),
	KUNIT_CASE(unpublished_endpoint_is_not_found),
	KUNIT_CASE(endpoint_published_during_a_shutdown_closes),
	KUNIT_CASE(child_without_a_listener_closes),
	KUNIT_CASE(memory_is_charged_to_the_memcg),
	KUNIT_CASE(closed_logs_keep_the_last),
	KUNIT_CASE(messages_of_an_endpoint_are_freed_with_it),
	KUNIT_CASE(debugfs_shows_open_and_closed_endpoints),
	KUNIT_CASE(debugfs_files_are_removed),
	{}
};

TEST_SUITE("iw_cxgb3_ep", ep_cases, .init = ep_init, .exit = ep_exit);
