/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Conversations with the connection manager, as data: calls of the consumer, events of the
 * provider, and the events that the consumer must get. The consumer and the run of a conversation
 * are here; each suite adds its own cases.
 */
#ifndef T3_CONVERSATION_H
#define T3_CONVERSATION_H

#include "fake_provider.h"

/* --- the consumer --------------------------------------------------------- */

struct reported_event {
	enum rdma_cm_event_type event;
	int status;
	u8 data_len;
};

static struct {
	struct reported_event events[16];
	unsigned int written, read;
	int next_return;		/* of the handler, once */
	struct rdma_cm_id *request;	/* the id of the last connect request */
	struct rdma_cm_id *destroyed;	/* must get no more events */
	bool event_after_destroy;
	unsigned int established, ended;
} got;

static bool ends_connection(enum rdma_cm_event_type event)
{
	return event == RDMA_CM_EVENT_REJECTED || event == RDMA_CM_EVENT_UNREACHABLE ||
	       event == RDMA_CM_EVENT_CONNECT_ERROR || event == RDMA_CM_EVENT_DISCONNECTED;
}

static bool no_memory_in_upcalls;

static int handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct reported_event *reported;
	int ret = got.next_return;

	/* In an upcall ucm_handler() returns 0 or -ENOMEM. */
	if (to_cm_id(id)->in_upcall && (ret || no_memory_in_upcalls))
		return -ENOMEM;
	reported = &got.events[got.written++ % ARRAY_SIZE(got.events)];
	*reported = (struct reported_event) {
		event->event, event->status, event->param.conn.private_data_len,
	};
	got.event_after_destroy |= got.destroyed == id;
	if (event->event == RDMA_CM_EVENT_ESTABLISHED ||
	    event->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		got.established++;
	got.ended += ends_connection(event->event);
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && !ret)
		got.request = id;
	got.next_return = 0;
	if (ret)
		got.destroyed = id;
	return ret;
}

static struct rdma_cm_id *make_id(void)
{
	struct cm_id *id = cm_id_alloc(&init_net, handler, NULL, RDMA_PS_TCP, IB_QPT_RC, NULL,
				       GFP_KERNEL);

	if (!id)
		return NULL;
	cm_queue_init(id);
	return &id->base.id;
}

/* --- steps ----------------------------------------------------------------- */

enum kind {
	END,
	/* Calls; value: the expected return value. */
	BIND, RESOLVE, ROUTE, LISTEN, CONNECT, ACCEPT, REJECT, ESTABLISH, DISCONNECT, DESTROY,
	DESTROY_LISTENER, PREPARE_QP,
	/* Events of the provider; value: status, or the expected return value of a request. */
	LOOKUP_DONE, REQUEST, REPLY, ESTABLISHED, PEER_CLOSE, CLOSE,
	/* Set up the next call: error, route, event inside the call. */
	NEXT_ERROR, ROUTE_KNOWN, IN_CALL_REPLY, IN_CALL_ESTABLISHED, IN_CALL_CLOSE,
	IN_CALL_PEER_CLOSE,
	/* Expected events, in this order; length of the last one's data; no more events. */
	GOT_ADDR, GOT_ADDR_ERROR, GOT_ROUTE, GOT_REQUEST, GOT_RESPONSE, GOT_ESTABLISHED,
	GOT_REJECTED, GOT_UNREACHABLE, GOT_ERROR, GOT_DISCONNECTED, GOT_REMOVAL, DATA, GOT_NOTHING,
	/* Next return value of the handler; hold the handler's mutex; release it. */
	HANDLER_RETURNS, LOCK_HANDLER, UNLOCK_HANDLER,
	/* Context of upcalls; the worker of the id does not run; it runs again. */
	CONTEXT, DELAY_WORKER, RUN_WORKER,
	/* The device is removed. */
	REMOVE,
	/* Expected counts of the provider's calls. */
	REJECTS, CLOSES, ABORTS, CANCELS,
	/* Shorthand: an active id with a resolved route; a passive id of a connect request. */
	READY, REQUESTED,
};

struct step {
	enum kind kind;
	int value;
};

struct conversation {
	const char *name;
	struct step steps[26];
};

/* A step without and with a value. */
#define S(kind)		{ kind, 0 }
#define V(kind, value)	{ kind, value }

/* --- a run ----------------------------------------------------------------- */

static struct rdma_cm_id *id, *listener;
static bool handler_locked;
static struct cm_id *delayed_id;	/* its worker does not run */
static struct work_struct removal;
static bool removing;

static int conversation_init(struct kunit *test)
{
	INIT_WORK(&removal, fake_remove_device);
	no_memory_in_upcalls = false;
	KUNIT_ASSERT_EQ(test, cm_ports_init(), 0);
	KUNIT_ASSERT_EQ(test, cm_roce_init(), 0);
	return cm_events_init();
}

static void begin(struct kunit *test, enum fake_context context)
{
	memset(&got, 0, sizeof(got));
	handler_locked = false;
	removing = false;
	listener = NULL;
	reserve_tcp_ports = false;	/* the host does not have the addresses of the device */
	fake_add_devices(test, context);
	id = make_id();
	KUNIT_ASSERT_NOT_NULL(test, id);
}

static void flush_events(void)
{
	if (handler_locked)
		return;
	flush_workqueue(cm_wq);
}

/* Keeps the worker of the id from running: it looks as if it was queued. */
static void delay_worker(void)
{
	delayed_id = to_cm_id(id);
	cm_id_get(delayed_id);
	set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&delayed_id->work));
}

static void run_worker(void)
{
	clear_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&delayed_id->work));
	cm_queue_work(delayed_id);
	delayed_id = NULL;
}

static void destroy(struct rdma_cm_id **victim)
{
	if (!*victim)
		return;
	t3_rdma_destroy_id(*victim);
	*victim = NULL;
}

/* Ends the connection, destroys all ids, removes the device, and checks that nothing is left. */
static void end(struct kunit *test)
{
	if (handler_locked) {
		unlock_handler(id);
		handler_locked = false;
	}
	if (delayed_id)
		run_worker();
	flush_workqueue(cm_wq);
	if (got.destroyed == id)
		id = NULL;		/* its handler did it */
	if (listener != id)
		destroy(&listener);
	destroy(&id);
	destroy(&got.request);
	flush_workqueue(cm_wq);
	if (fake.conn)
		fake_report(fake.open ? FAKE_CLOSE : FAKE_REPLY, -ECONNRESET);
	flush_workqueue(cm_wq);
	if (!removing)
		queue_work(system_long_wq, &removal);
	flush_work(&removal);		/* waits for the last user of the device */
	fake_release_port();
	if (fake_two_devices)
		cm_remove_one(&fake.other, fake.other_dev);
	fake_two_devices = false;
	KUNIT_EXPECT_FALSE(test, got.event_after_destroy);
	KUNIT_EXPECT_FALSE(test, fake.used_after_removal);
	KUNIT_EXPECT_EQ(test, number_of_ids(), 0u);
	/* C12 */
	KUNIT_EXPECT_EQ(test, fake_res.entries, 0);
	KUNIT_EXPECT_FALSE(test, fake_res.without_device);
	KUNIT_EXPECT_FALSE(test, fake_res.after_removal);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.uobject.usecnt), fake.qp_destroying ? -1 : 0);
	KUNIT_EXPECT_EQ(test, fake.entry_refs, 0);
	KUNIT_EXPECT_EQ(test, fake.route_refs, 0);
	KUNIT_EXPECT_EQ(test, fake.neighbour_refs, 0);
	KUNIT_EXPECT_FALSE(test, fake.qp_used_after_free);
	KUNIT_EXPECT_NULL(test, fake.listener);
	KUNIT_EXPECT_EQ(test, fake_ib.ids, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.gid_refs, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.ah_refs, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	KUNIT_EXPECT_FALSE(test, fake_ib.destroyed_in_callback);
	KUNIT_EXPECT_TRUE(test, ports_are_free());
	KUNIT_EXPECT_TRUE(test, list_empty(&cm_listening_ids));
}

static void conversation_exit(struct kunit *test)
{
	cm_cancel_updates();
	cm_events_exit();
	cm_roce_exit();
	cm_ports_exit();
}

/* For suites that begin and end with their tests. */
static int __maybe_unused begin_init(struct kunit *test)
{
	int ret = conversation_init(test);

	if (!ret)
		begin(test, IN_PROCESS);
	return ret;
}

static void __maybe_unused end_exit(struct kunit *test)
{
	end(test);
	conversation_exit(test);
}

/*
 * Begins the removal of the device, which waits for its users. When this returns, the event is in
 * the queue of each id.
 */
static void remove_device(void)
{
	bool begun = false;

	removing = true;
	refcount_inc(&fake.cm_dev->users);	/* the removal frees it */
	queue_work(system_long_wq, &removal);
	while (!begun) {
		spin_lock(&fake.cm_dev->lock);
		begun = fake.cm_dev->removed;
		spin_unlock(&fake.cm_dev->lock);
		cond_resched();
	}
	cm_dev_put(fake.cm_dev);
}

static void __maybe_unused expect_event(struct kunit *test, const char *name,
					unsigned int step,
					enum rdma_cm_event_type event, int status)
{
	const struct reported_event *reported;

	flush_events();
	KUNIT_ASSERT_GT_MSG(test, got.written, got.read, "%s, step %u: no event", name,
			    step);
	reported = &got.events[got.read++ % ARRAY_SIZE(got.events)];
	KUNIT_EXPECT_EQ_MSG(test, reported->event, event, "%s, step %u", name, step);
	KUNIT_EXPECT_EQ_MSG(test, reported->status, status, "%s, step %u", name, step);
}

static const struct rdma_ucm_ece no_ece;
static struct rdma_conn_param param = { .qp_num = FAKE_QPN, .responder_resources = 1 };

static int call(enum kind kind)
{
	struct sockaddr_storage here = fake_address(FAKE_LOCAL, 7000);
	struct sockaddr_storage there = fake_address(FAKE_REMOTE, 7000);
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT };
	int mask, ret;

	switch (kind) {
	case BIND:
		return t3_rdma_bind_addr(id, (struct sockaddr *)&here);
	case RESOLVE:
		return t3_rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 1000);
	case ROUTE:
		return t3_rdma_resolve_route(id, 1000);
	case LISTEN:
		ret = t3_rdma_listen(id, 2);
		if (!ret)
			listener = id;
		return ret;
	case CONNECT:
		return t3_rdma_connect(id, &param, &no_ece);
	case ACCEPT:
		return t3_rdma_accept(id, &param, &no_ece);
	case REJECT:
		return t3_rdma_reject(id, "no", 2, IB_CM_REJ_CONSUMER_DEFINED);
	case ESTABLISH:
		return t3_rdma_establish(id);
	case DISCONNECT:
		return t3_rdma_disconnect(id);
	case PREPARE_QP:
		return t3_rdma_init_qp_attr(id, &attr, &mask);
	default:
		return -ENOSYS;
	}
}

static void run(struct kunit *test, const struct conversation *conversation);

/* Steps that stand for several others. */
static void run_shorthand(struct kunit *test, enum kind kind)
{
	static const struct conversation ready = { "ready", {
		S(BIND), S(PREPARE_QP), S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR), S(ROUTE),
		S(GOT_ROUTE) } };
	static const struct conversation requested = { "requested", {
		S(BIND), S(LISTEN), V(REQUEST, 0), S(GOT_REQUEST) } };

	run(test, kind == READY ? &ready : &requested);
	if (kind == REQUESTED) {
		KUNIT_ASSERT_NOT_NULL(test, got.request);
		id = got.request;
		got.request = NULL;
	}
}

static void step(struct kunit *test, const char *name, unsigned int number, const struct step *now)
{
	static const enum rdma_cm_event_type reported[] = {
		[GOT_ADDR] = RDMA_CM_EVENT_ADDR_RESOLVED,
		[GOT_ADDR_ERROR] = RDMA_CM_EVENT_ADDR_ERROR,
		[GOT_ROUTE] = RDMA_CM_EVENT_ROUTE_RESOLVED,
		[GOT_REQUEST] = RDMA_CM_EVENT_CONNECT_REQUEST,
		[GOT_RESPONSE] = RDMA_CM_EVENT_CONNECT_RESPONSE,
		[GOT_ESTABLISHED] = RDMA_CM_EVENT_ESTABLISHED,
		[GOT_REJECTED] = RDMA_CM_EVENT_REJECTED,
		[GOT_UNREACHABLE] = RDMA_CM_EVENT_UNREACHABLE,
		[GOT_ERROR] = RDMA_CM_EVENT_CONNECT_ERROR,
		[GOT_DISCONNECTED] = RDMA_CM_EVENT_DISCONNECTED,
		[GOT_REMOVAL] = RDMA_CM_EVENT_DEVICE_REMOVAL,
	};
	const struct reported_event *last;
	int value = now->value;

	switch (now->kind) {
	case DESTROY:
		flush_events();
		if (id == listener)
			listener = NULL;
		got.destroyed = id;
		destroy(&id);
		break;
	case DESTROY_LISTENER:
		if (id == listener)
			id = NULL;
		destroy(&listener);
		break;
	case LOOKUP_DONE:
		fake_lookup_done(value);
		break;
	case REQUEST:
		KUNIT_EXPECT_EQ_MSG(test, fake_request(), value, "%s, step %u", name, number);
		break;
	case REPLY ... CLOSE:
		flush_events();
		KUNIT_ASSERT_NOT_NULL_MSG(test, fake.conn, "%s, step %u", name, number);
		KUNIT_EXPECT_EQ_MSG(test, fake_report(FAKE_REPLY + now->kind - REPLY, value), 0,
				    "%s, step %u", name, number);
		break;
	case NEXT_ERROR:
		fake.next_error = value;
		break;
	case ROUTE_KNOWN:
		fake.route_known = true;
		break;
	case IN_CALL_REPLY:
		fake.in_call = FAKE_REPLY;
		fake.in_call_status = value;
		break;
	case IN_CALL_ESTABLISHED:
	case IN_CALL_CLOSE:
	case IN_CALL_PEER_CLOSE:
		fake.in_call = now->kind == IN_CALL_CLOSE ? FAKE_CLOSE :
			      now->kind == IN_CALL_PEER_CLOSE ? FAKE_PEER_CLOSE : FAKE_ESTABLISHED;
		fake.in_call_status = 0;
		break;
	case GOT_ADDR ... GOT_REMOVAL:
		expect_event(test, name, number, reported[now->kind], value);
		break;
	case DATA:
		last = &got.events[(got.read - 1) % ARRAY_SIZE(got.events)];
		KUNIT_EXPECT_EQ_MSG(test, last->data_len, value, "%s, step %u", name, number);
		break;
	case GOT_NOTHING:
		flush_events();
		KUNIT_EXPECT_EQ_MSG(test, got.written, got.read, "%s, step %u", name, number);
		break;
	case HANDLER_RETURNS:
		got.next_return = value;
		break;
	case LOCK_HANDLER:
		flush_events();
		lock_handler(id);
		handler_locked = true;
		break;
	case UNLOCK_HANDLER:
		unlock_handler(id);
		handler_locked = false;
		break;
	case CONTEXT:
		fake.context = value;
		break;
	case DELAY_WORKER:
		flush_events();
		delay_worker();
		break;
	case RUN_WORKER:
		run_worker();
		break;
	case REMOVE:
		remove_device();
		break;
	case REJECTS:
		flush_events();
		KUNIT_EXPECT_EQ_MSG(test, fake.rejects, value, "%s, step %u", name, number);
		break;
	case CLOSES:
		flush_events();
		KUNIT_EXPECT_EQ_MSG(test, fake.closes, value, "%s, step %u", name, number);
		break;
	case CANCELS:
		flush_events();
		KUNIT_EXPECT_EQ_MSG(test, fake.cancels, value, "%s, step %u", name, number);
		break;
	case ABORTS:
		flush_events();
		KUNIT_EXPECT_EQ_MSG(test, fake.aborts, value, "%s, step %u", name, number);
		break;
	case READY:
	case REQUESTED:
		run_shorthand(test, now->kind);
		break;
	default:
		KUNIT_EXPECT_EQ_MSG(test, call(now->kind), value, "%s, step %u", name, number);
	}
}

static void run(struct kunit *test, const struct conversation *conversation)
{
	unsigned int number;

	for (number = 0; conversation->steps[number].kind != END; number++)
		step(test, conversation->name, number, &conversation->steps[number]);
}

#endif
