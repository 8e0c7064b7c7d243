// SPDX-License-Identifier: GPL-2.0
/*
 * The endpoint: references, queue, timer, and t3_ep_fsm_apply(), the only function
 * that changes its state.
 */
#include <linux/ktime.h>
#include <linux/slab.h>

#include "cm.h"
#include "trace_cm.h"

struct workqueue_struct *t3_cm_wq;

/* The event of each request. Pending requests are handled in this order. */
static const struct {
	enum ep_event event;
	int status;
} t3_ep_request_events[] = {
	[T3_REQ_TERMINATE]	= { EP_EV_TERMINATE, 0 },
	[T3_REQ_DISCONNECT]	= { EP_EV_DISCONNECT, 0 },
	[T3_REQ_ABORT]		= { EP_EV_ABORT, -ECONNABORTED },
	[T3_REQ_ARP_FAILED]	= { EP_EV_ARP_FAILED, -EHOSTUNREACH },
	[T3_REQ_TIMER]		= { EP_EV_TIMEOUT, -ETIMEDOUT },
	[T3_REQ_SHUT_DOWN]	= { EP_EV_SHUT_DOWN, -ENODEV },
	[T3_REQ_DEVICE_DOWN]	= { EP_EV_DEVICE_DOWN, -ENODEV },
};

static void t3_ep_free(struct kref *ref)
{
	struct t3_ep *ep = container_of(ref, struct t3_ep, ref);

	skb_queue_purge(&ep->messages);
	skb_queue_purge(&ep->spare);
	t3_quota_put(&ep->dev->quotas, ep->quota);
	atomic_dec(&ep->cm->num_allocated);
	kfree_rcu(ep, rcu);
}

void t3_ep_get(struct t3_ep *ep)
{
	kref_get(&ep->ref);
}

/* For a pointer from a table, under RCU. */
bool t3_ep_tryget(struct t3_ep *ep)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_any_held(), "the endpoint may be freed");
	return kref_get_unless_zero(&ep->ref);
}

void t3_ep_put(struct t3_ep *ep)
{
	kref_put(&ep->ref, t3_ep_free);
}

/*
 * Look up an endpoint by id.
 * @id: t3_ep.id
 *
 * Any context. Return: the endpoint with a reference, or NULL if it has closed.
 */
struct t3_ep *t3_ep_find(struct t3_dev *dev, u32 id)
{
	struct t3_ep *ep;

	rcu_read_lock();
	ep = xa_load(&dev->cm->eps, id);
	if (ep && !t3_ep_tryget(ep))
		ep = NULL;
	rcu_read_unlock();
	return ep;
}

/*
 * Put requests, or a message unless it is NULL, into the queue. Return: true if no thread is
 * the runner, which would handle them.
 */
static bool t3_ep_post(struct t3_ep *ep, unsigned long requests, struct sk_buff *skb)
{
	unsigned long flags;
	bool idle;

	spin_lock_irqsave(&ep->queue_lock, flags);
	ep->requests |= requests;
	if (skb)
		__skb_queue_tail(&ep->messages, skb);
	idle = !ep->running;
	spin_unlock_irqrestore(&ep->queue_lock, flags);
	return idle;
}

static void t3_ep_queue_work(struct t3_ep *ep)
{
	t3_ep_get(ep);
	if (!queue_work(t3_cm_wq, &ep->work))
		t3_ep_put(ep);
}

/*
 * Make a request of each endpoint that matches.
 * @req: request
 * @match: predicate, called with a reference on @ep
 * @arg: argument of @match
 */
void t3_ep_request_if(struct t3_dev *dev, enum t3_ep_request req,
		      bool (*match)(struct t3_ep *ep, const void *arg), const void *arg)
{
	struct t3_ep *ep;
	unsigned long id;

	xa_for_each(&dev->cm->eps, id, ep) {
		ep = t3_ep_find(dev, id);
		if (!ep)
			continue;
		if (match(ep, arg))
			t3_ep_request(ep, req, T3_RUN_QUEUED);
		t3_ep_put(ep);
	}
}

void t3_ep_disconnect(struct t3_ep *ep, bool abrupt, bool may_sleep)
{
	t3_ep_request(ep, abrupt ? T3_REQ_ABORT : T3_REQ_DISCONNECT,
		      may_sleep ? T3_RUN_NOW : T3_RUN_QUEUED);
}

void t3_ep_terminate(struct t3_ep *ep, struct t3_term term)
{
	ep->term = term;
	t3_ep_request(ep, T3_REQ_TERMINATE, T3_RUN_QUEUED);
}

void t3_ep_limit_close(struct t3_ep *ep)
{
	t3_ep_request(ep, T3_REQ_LIMIT_CLOSE, T3_RUN_QUEUED);
}

/*
 * Reserve the one call of an endpoint.
 * The caller fills in @ep->call and makes T3_REQ_CALL of it, or ends the endpoint.
 *
 * Return: false if the endpoint has had its call.
 */
bool t3_ep_reserve_call(struct t3_ep *ep)
{
	bool called;

	spin_lock_irq(&ep->queue_lock);
	called = ep->called;
	ep->called = true;
	spin_unlock_irq(&ep->queue_lock);
	return !called;
}

/*
 * The timer only makes a request. The runner compares with the current
 * deadline, and ignores the request if the timer was stopped or restarted meanwhile.
 */
static void t3_ep_timer_expired(struct work_struct *work)
{
	struct t3_ep *ep = container_of(to_delayed_work(work), struct t3_ep, timer);

	t3_ep_request(ep, T3_REQ_TIMER, T3_RUN_NOW);
	t3_ep_put(ep);
}

/* Timeout of the state that was just entered. */
static unsigned long t3_ep_timeout(const struct t3_ep *ep)
{
	switch (ep->state) {
	case EP_OPEN_DELAYED:
		return T3_CONN_EXIST_DELAY;
	case EP_ABORTING:
	case EP_ABORT_CROSSED:
		/* Only the card's reply is pending. Without one the device has failed. */
		return max(t3_cm_timeout(), t3_card_timeout());
	default:
		return ep->close_limited ? min(t3_cm_timeout(), T3_CLOSE_TIMEOUT) : t3_cm_timeout();
	}
}

static void t3_ep_set_deadline(struct t3_ep *ep, unsigned long deadline)
{
	unsigned long now = jiffies;

	ep->deadline = deadline;
	ep->timer_armed = true;
	t3_ep_get(ep);
	if (mod_delayed_work(t3_cm_wq, &ep->timer,
			     time_after(deadline, now) ? deadline - now : 0))
		t3_ep_put(ep);
}

static void t3_ep_set_timer(struct t3_ep *ep, unsigned long timeout)
{
	ep->timer_start = jiffies;
	t3_ep_set_deadline(ep, ep->timer_start + timeout);
}

/*
 * From now on the states of a close have a short timeout, which has begun with the state: a process
 * that is killed destroys its QPs one by one, and waits once for all of them.
 */
static void t3_ep_handle_limit_close(struct t3_ep *ep)
{
	unsigned long deadline;

	ep->close_limited = true;
	deadline = ep->timer_start + t3_ep_timeout(ep);
	if (ep->timer_armed && time_before(deadline, ep->deadline))
		t3_ep_set_deadline(ep, deadline);
}

static void t3_ep_stop_timer(struct t3_ep *ep)
{
	ep->timer_armed = false;
	if (cancel_delayed_work(&ep->timer))
		t3_ep_put(ep);
}

static bool t3_ep_timer_is_due(struct t3_ep *ep)
{
	if (!ep->timer_armed || time_before(jiffies, ep->deadline))
		return false;
	ep->timer_armed = false;
	return true;
}

/* Copy the log to the device's closed_logs, for debugfs. */
static void t3_ep_log_close(struct t3_ep *ep)
{
	struct t3_cm_dev *cm = ep->cm;

	ep->log.id = ep->id;
	ep->log.tid = ep->tid;
	ep->log.local = ep->local;
	ep->log.remote = ep->remote;
	ep->log.active = ep->active;
	spin_lock_bh(&cm->lock);
	cm->closed_logs[cm->nclosed++ & (T3_CLOSED_LOGS - 1)] = ep->log;
	spin_unlock_bh(&cm->lock);
}

static void t3_ep_uncount(struct t3_cm_dev *cm)
{
	if (atomic_dec_and_test(&cm->num_eps))
		wake_up_all(&cm->idle);
}

/* Release what belongs to the card or the NIC driver, and leave the device's table. */
static void t3_ep_release(struct t3_ep *ep)
{
	t3_route_release(ep);
	t3_ep_return_id(ep);
	t3_listener_remove_child(ep);
	t3_ep_log_close(ep);
	skb_queue_purge(&ep->spare);	/* its consumer may keep the endpoint */

	xa_erase_bh(&ep->cm->eps, ep->id);
	t3_ep_uncount(ep->cm);
}

static void t3_ep_release_port(struct t3_ep *ep)
{
	t3_tcp_port_release(ep->held);
	ep->held = NULL;
}

static void t3_ep_run_actions(struct t3_ep *ep, unsigned int actions, enum ep_event event,
			      int status)
{
	if (actions & EP_ACT_STOP_TIMER)
		t3_ep_stop_timer(ep);
	if (actions & EP_ACT_START_TIMER)
		t3_ep_set_timer(ep, t3_ep_timeout(ep));
	if (actions & EP_ACT_QP_PEER_CLOSE && ep->qp)
		t3_qp_fsm_apply(ep->qp, T3_QPEV_PEER_CLOSE);
	if (actions & EP_ACT_QP_LOST && ep->qp)
		t3_qp_fsm_apply(ep->qp, T3_QPEV_LOST);
	if (actions & EP_ACT_SEND_CLOSE)
		t3_send_close_con_req(ep);
	if (actions & EP_ACT_SEND_ABORT) {
		t3_count(ep->dev, T3_CNT_CM_ABORT);
		t3_send_abort_req(ep);
	}
	if (actions & EP_ACT_SEND_ABORT_RPL)
		t3_send_abort_rpl(ep);
	if (actions & EP_ACT_REPORT_PEER_CLOSE)
		t3_cm_report_peer_close(ep);
	if (actions & EP_ACT_QP_CLOSED && ep->qp)
		t3_qp_fsm_apply(ep->qp, T3_QPEV_CLOSED);
	if (actions & EP_ACT_QP_DISCONNECTED && ep->qp) {
		t3_qp_disconnected(ep->qp);
		ep->qp = NULL;
	}
	if (actions & EP_ACT_RELEASE)
		t3_ep_release(ep);
	if (actions & EP_ACT_REPORT_END)
		t3_cm_report_end(ep, event, status);
	if (actions & EP_ACT_DEVICE_FATAL)
		t3_dev_fatal(ep->dev, "no reply to an abort");
	if (actions & EP_ACT_SEND_OPEN) {
		int ret = t3_send_act_open_req(ep);

		if (ret)
			t3_ep_fsm_apply(ep, EP_EV_ARP_FAILED, ret);
	}
	if (actions & EP_ACT_SEND_TERMINATE && t3_send_terminate(ep))
		t3_ep_fsm_apply(ep, EP_EV_ABORT, -ECONNABORTED);
	if (actions & EP_ACT_RELEASE) {
		/*
		 * Active sides only, whose runner may sleep. A retry in revision 1 shares the port,
		 * and has taken its share by now.
		 */
		t3_ep_release_port(ep);
		t3_ep_put(ep); /* the initial reference; the caller holds another one */
	}
}

/*
 * Apply an event: change the state and run the actions.
 * @event: the event
 * @status: 0 or -errno, for the consumer if the event ends the connection
 *
 * In the runner. Return: 0, or -EINVAL if the table refuses the event.
 */
int t3_ep_fsm_apply(struct t3_ep *ep, enum ep_event event, int status)
{
	const struct t3_transition *to = ep_fsm(ep->state, event);

	ep->log.ns[ep->log.history.events % T3_FSM_HISTORY] = ktime_get_ns();
	t3_fsm_record(&ep->log.history, ep->state, event, to, status);
	if (!to) {
		t3_count(ep->dev, T3_CNT_CM_BAD_EVENT);
		trace_t3_ep_refused(ep, event);
		ibdev_dbg(&ep->dev->ibdev, "ep %u: %s refused in %s\n", ep->id,
			  ep_event_name(event), ep_state_name(ep->state));
		return -EINVAL;
	}
	trace_t3_ep_transition(ep, event, to->next, status);
	/* t3_cm_accept(), t3_cm_reject() and t3_cpl_close_con_rpl_is_urgent() read it. */
	WRITE_ONCE(ep->state, to->next);
	t3_ep_run_actions(ep, to->actions, event, status);
	return 0;
}

/*
 * The messages are handled before the timer, which would declare the device as failed: the reply
 * may be in the queue, while this thread waited for a processor. They are few, since the card sends
 * no data of the connection any more.
 */
static bool t3_ep_waits_for_abort_rpl(const struct t3_ep *ep)
{
	return ep->state == EP_ABORTING || ep->state == EP_ABORT_CROSSED;
}

/*
 * The card replies to an open, but not to one that still waits for the address of the next hop.
 * That one may wait for ever: the kernel does not report that it has removed the neighbour entry.
 */
static void t3_ep_end_by_request(struct t3_ep *ep, enum ep_event event, int status)
{
	if ((ep->state == EP_CONNECTING || ep->state == EP_SYN_RCVD) && t3_route_take_back(ep))
		event = EP_EV_ARP_FAILED;
	t3_ep_fsm_apply(ep, event, status);
}

/*
 * The kernel removes an interface when nothing refers to it any more. An abandoned open refers to
 * it until the card's retries end. This releases its route now. The card may then send its last
 * SYNs to the next user of the L2T entry.
 */
static void t3_ep_handle_addr_removed(struct t3_ep *ep)
{
	if (!ep->ndev || t3_route_keeps_address(ep))
		return;
	t3_ep_end_by_request(ep, EP_EV_ABORT, -EADDRNOTAVAIL);
	if (ep->state == EP_ABANDONED)
		t3_route_release(ep);
}

static void t3_ep_handle_request(struct t3_ep *ep, enum t3_ep_request req)
{
	switch (req) {
	case T3_REQ_CALL:
		t3_cm_run_call(ep);
		return;
	case T3_REQ_HALF_OPEN_END:
		/* After the connect request the endpoint does not depend on its listener. */
		if (ep->listener)
			t3_ep_end_by_request(ep, EP_EV_ABORT, 0);
		return;
	case T3_REQ_LIMIT_CLOSE:
		t3_ep_handle_limit_close(ep);
		return;
	case T3_REQ_ADDR_REMOVED:
		t3_ep_handle_addr_removed(ep);
		return;
	case T3_REQ_TIMER:
		if (!t3_ep_timer_is_due(ep))
			return;
		/* The host may have stood still, and the interrupt of the reply was lost. */
		if (t3_ep_waits_for_abort_rpl(ep) && !ep->polled) {
			ep->polled = true;
			t3_ep_set_timer(ep, T3_CARD_POLL);
			t3_card_poll(ep->dev);
			return;
		}
		break;
	default:
		break;
	}
	t3_ep_end_by_request(ep, t3_ep_request_events[req].event, t3_ep_request_events[req].status);
}

/*
 * Become the runner. @direct: for a message that is not put into the queue, so the queue must be
 * empty, and a softirq must be able to send. Return: false if this is not possible, or if another
 * thread is the runner, or this one already.
 */
static bool t3_ep_begin(struct t3_ep *ep, bool direct)
{
	unsigned long flags;
	bool begun;

	spin_lock_irqsave(&ep->queue_lock, flags);
	begun = !ep->running;
	if (direct && (ep->requests || !skb_queue_empty(&ep->messages) || !t3_dev_may_send()))
		begun = false;
	if (begun)
		ep->running = true;
	spin_unlock_irqrestore(&ep->queue_lock, flags);
	return begun;
}

/*
 * Take all requests and one message from the queue. Return: false if it is empty: then this
 * thread is not the runner any more.
 */
static bool t3_ep_take(struct t3_ep *ep, unsigned long *requests, struct sk_buff **skb)
{
	bool any;

	spin_lock_irq(&ep->queue_lock);
	*requests = ep->requests;
	ep->requests = 0;
	*skb = __skb_dequeue(&ep->messages);
	any = *requests || *skb;
	ep->running = any;
	spin_unlock_irq(&ep->queue_lock);
	return any;
}

/* The work item continues with what has come meanwhile. */
static void t3_ep_end(struct t3_ep *ep)
{
	unsigned long flags;
	bool any;

	spin_lock_irqsave(&ep->queue_lock, flags);
	ep->running = false;
	any = ep->requests || !skb_queue_empty(&ep->messages);
	spin_unlock_irqrestore(&ep->queue_lock, flags);
	if (any)
		t3_ep_queue_work(ep);
}

/*
 * Be the runner until the queue is empty, or for @max messages. May sleep; without a
 * lock of this driver. If another thread is the runner, that one handles what the queue
 * has, and this function does not wait for it. Requests are handled before each message, so that
 * a stream of messages cannot starve the timer.
 */
static void t3_ep_run(struct t3_ep *ep, unsigned int max)
{
	unsigned int req, handled = 0;
	unsigned long requests;
	struct sk_buff *skb;

	might_sleep();
	if (!t3_ep_begin(ep, false))
		return;
	while (t3_ep_take(ep, &requests, &skb)) {
		if (skb && t3_ep_waits_for_abort_rpl(ep) &&
		    __test_and_clear_bit(T3_REQ_TIMER, &requests))
			t3_ep_post(ep, BIT(T3_REQ_TIMER), NULL);
		for_each_set_bit(req, &requests, T3_REQ_DEVICE_DOWN + 1)
			t3_ep_handle_request(ep, req);
		if (!skb)
			continue;
		t3_cpl_handle(ep, skb);
		kfree_skb(skb);
		if (++handled == max) {
			t3_ep_end(ep);
			return;
		}
	}
}

/**
 * t3_ep_request - make a request
 * @ep: the caller holds a reference
 * @req: request
 * @run: T3_RUN_QUEUED in any context; T3_RUN_NOW may sleep, without a lock of this driver
 *
 * If another thread is the runner, that one handles the request, and this function does not wait
 * for it.
 */
void t3_ep_request(struct t3_ep *ep, enum t3_ep_request req, enum t3_ep_run run)
{
	bool idle = t3_ep_post(ep, BIT(req), NULL);

	if (!idle)
		return;
	if (run == T3_RUN_NOW)
		t3_ep_run(ep, T3_EP_CALLER_MESSAGES);
	else
		t3_ep_queue_work(ep);
}

/**
 * t3_ep_receive - handle a message, or put it into the queue
 * @ep: the caller holds a reference
 * @skb: message, which now belongs to the endpoint
 * @run: T3_RUN_NOW needs a handler that does not sleep
 * @urgent: for T3_RUN_LATER, or NULL: true if the message is T3_RUN_QUEUED at present
 *
 * Any context. If another thread is the runner, or the queue has something, then the message
 * follows that.
 */
void t3_ep_receive(struct t3_ep *ep, struct sk_buff *skb, enum t3_ep_run run,
		   bool (*urgent)(const struct t3_ep *ep))
{
	if (run == T3_RUN_NOW && t3_ep_begin(ep, true)) {
		t3_cpl_handle(ep, skb);
		kfree_skb(skb);
		t3_ep_end(ep);
		return;
	}
	if (!t3_ep_post(ep, 0, skb))
		return;
	/*
	 * There is no runner now. A thread that makes the message urgent later becomes the runner,
	 * and takes it. The work item is for a message that is urgent already, or for a card that
	 * acknowledges requests that asked for no ack, and so fills the queue.
	 */
	if (run != T3_RUN_LATER || (urgent && urgent(ep)) ||
	    skb_queue_len_lockless(&ep->messages) > T3_EP_LATER_MESSAGES)
		t3_ep_queue_work(ep);
}

static void t3_ep_work(struct work_struct *work)
{
	struct t3_ep *ep = container_of(work, struct t3_ep, work);

	t3_ep_run(ep, UINT_MAX);
	t3_ep_put(ep);
}

/*
 * Allocate an endpoint.
 * Also allocates its spare buffers. Sleeps unless in softirq. The memory is charged to
 * the cgroup of a process that connects. That of a connection request is charged to none.
 *
 * Nothing can find the endpoint before t3_ep_publish(). Until then the caller fills it in,
 * and frees it with t3_ep_put().
 *
 * Return: the endpoint in EP_IDLE, or an error pointer.
 */
struct t3_ep *t3_ep_alloc(struct t3_dev *dev)
{
	struct t3_ep *ep;
	int ret;

	ep = kzalloc(sizeof(*ep), t3_ep_gfp());
	if (!ep)
		return ERR_PTR(-ENOMEM);
	kref_init(&ep->ref);
	ep->dev = dev;
	ep->cm = dev->cm;
	atomic_inc(&ep->cm->num_allocated);
	skb_queue_head_init(&ep->messages);
	skb_queue_head_init(&ep->spare);
	INIT_LIST_HEAD(&ep->half_open);
	spin_lock_init(&ep->queue_lock);
	spin_lock_init(&ep->id_lock);
	spin_lock_init(&ep->route_lock);
	INIT_WORK(&ep->work, t3_ep_work);
	INIT_DELAYED_WORK(&ep->timer, t3_ep_timer_expired);
	ep->state = EP_IDLE;

	ret = t3_cpl_reserve(ep);
	if (ret) {
		t3_ep_put(ep);
		return ERR_PTR(ret);
	}
	return ep;
}

/**
 * t3_ep_count - make the end of the device wait for an endpoint
 * @ep: endpoint from t3_ep_alloc()
 *
 * From now on the endpoint may take a route and an id. t3_ep_publish() or t3_ep_discard()
 * follows.
 *
 * Return: 0, or -ENODEV if the device accepts no new endpoints.
 */
int t3_ep_count(struct t3_ep *ep)
{
	struct t3_cm_dev *cm = ep->cm;

	/*
	 * Counted before the check, which needs no lock. t3_cm_stop() sets @stopped before it
	 * waits for the count, so either this function sees the flag or t3_cm_stop() sees the
	 * endpoint.
	 */
	atomic_inc(&cm->num_eps);
	smp_mb__after_atomic();	/* pairs with the one in t3_cm_refuse_new() */
	ep->counted = !context_unsafe(READ_ONCE(cm->stopped));
	if (ep->counted)
		return 0;
	t3_ep_uncount(cm);
	return -ENODEV;
}

/**
 * t3_ep_discard - undo t3_ep_count() for an endpoint that is not published
 * @ep: endpoint; releases its route, its id and its port
 */
void t3_ep_discard(struct t3_ep *ep)
{
	t3_route_release(ep);
	t3_ep_return_id(ep);
	t3_ep_release_port(ep);
	ep->counted = false;
	t3_ep_uncount(ep->cm);
}

/**
 * t3_ep_publish - enter an endpoint into the device's table
 * @ep: endpoint from t3_ep_alloc(), complete
 *
 * Sleeps unless in softirq. Takes the reference of the runner, which drops it in
 * EP_CLOSED. Events of the device (EP_EV_SHUT_DOWN, EP_EV_DEVICE_DOWN) can end the endpoint at
 * once; the caller keeps the reference from t3_ep_alloc(), and drops it with t3_ep_put() also
 * after an error. An error discards the endpoint.
 *
 * Return: 0; -ENODEV if the device accepts no new endpoints, or -ENOMEM.
 */
int t3_ep_publish(struct t3_ep *ep)
{
	struct t3_cm_dev *cm = ep->cm;
	int ret;

	ret = ep->counted ? 0 : t3_ep_count(ep);
	if (ret)
		return ret;
	t3_ep_get(ep);
	ret = xa_alloc_cyclic_bh(&cm->eps, &ep->id, ep, xa_limit_31b, &cm->next_ep_id, gfp_any());
	if (ret < 0) {
		t3_ep_put(ep);
		t3_ep_discard(ep);
		return ret;
	}
	/* t3_cm_end_all() may have walked the table before the endpoint was in it. */
	smp_mb();	/* pairs with the one in t3_cm_refuse_new() */
	if (context_unsafe(READ_ONCE(cm->stopped)))
		t3_ep_request(ep, T3_REQ_SHUT_DOWN, T3_RUN_QUEUED);
	return 0;
}
