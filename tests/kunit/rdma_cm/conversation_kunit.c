// SPDX-License-Identifier: GPL-2.0
/*
 * Conversations with the connection manager, as data: what the consumer calls, what the provider
 * says, and what the consumer must then have been told. Each is held three times, with the
 * provider speaking in process, softirq and hard interrupt context; and again with ids as processes
 * have them, which are told in the upcall, and whose handler may have to be asked once more.
 *
 * And the same without a script: every order in which a provider that keeps its contract, a
 * consumer and a device that goes can do what they do, up to a number of moves.
 */
#include "fake_provider.h"

/* --- the consumer --------------------------------------------------------- */

struct told {
	enum rdma_cm_event_type event;
	int status;
	u8 data_len;
};

static struct {
	struct told told[16];
	unsigned int written, read;
	int answer;			/* of the handler, once */
	struct rdma_cm_id *child;	/* of the last request */
	struct rdma_cm_id *gone;	/* was destroyed, and must be silent */
	bool spoke_when_gone;
	unsigned int established, ended;
} heard;

static bool is_end(enum rdma_cm_event_type event)
{
	return event == RDMA_CM_EVENT_REJECTED || event == RDMA_CM_EVENT_UNREACHABLE ||
	       event == RDMA_CM_EVENT_CONNECT_ERROR || event == RDMA_CM_EVENT_DISCONNECTED;
}

static enum { OF_A_MODULE, OF_A_PROCESS, OF_A_POOR_PROCESS } ids;

static int handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	int answer = heard.answer;
	struct told *told;

	/* To answer otherwise is not for a process's handler. */
	if (to_cm_id(id)->in_upcall && (answer || ids == OF_A_POOR_PROCESS))
		return -ENOMEM;
	told = &heard.told[heard.written++ % ARRAY_SIZE(heard.told)];
	*told = (struct told) { event->event, event->status, event->param.conn.private_data_len };
	heard.spoke_when_gone |= heard.gone == id;
	if (event->event == RDMA_CM_EVENT_ESTABLISHED ||
	    event->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		heard.established++;
	heard.ended += is_end(event->event);
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && !answer)
		heard.child = id;
	heard.answer = 0;
	if (answer)
		heard.gone = id;
	return answer;
}

static struct rdma_cm_id *make_id(void)
{
	struct cm_id *id = cm_id_alloc(&init_net, handler, NULL, RDMA_PS_TCP, IB_QPT_RC, NULL,
				      GFP_KERNEL);

	if (!id)
		return NULL;
	id->user = ids != OF_A_MODULE;
	return &id->base.id;
}

/* --- steps ----------------------------------------------------------------- */

enum kind {
	END,
	/* Calls; value: what they must return. */
	BIND, RESOLVE, ROUTE, LISTEN, CONNECT, ACCEPT, REJECT, ESTABLISH, DISCONNECT, DESTROY,
	DESTROY_LISTENER, PREPARE_QP,
	/* The provider; value: status, or what a request must be answered. */
	FOUND, REQUEST, REPLY, ESTABLISHED, PEER_CLOSE, CLOSE,
	/* Before a call: what it will meet. */
	FAILS, KNOWN, INSIDE_REPLY, INSIDE_ESTABLISHED, INSIDE_CLOSE, INSIDE_PEER_CLOSE,
	/* What must have been told, in this order; data with the last; and that it was all. */
	TOLD_ADDR, TOLD_ADDR_ERROR, TOLD_ROUTE, TOLD_REQUEST, TOLD_RESPONSE, TOLD_ESTABLISHED,
	TOLD_REJECTED, TOLD_UNREACHABLE, TOLD_ERROR, TOLD_DISCONNECTED, TOLD_REMOVAL, DATA, SILENCE,
	/* The handler's next answer; events wait; events come. */
	HANDLER_RETURNS, HOLD, LET_GO_ON,
	/* The provider speaks in this context; the worker of the id does not run; it does again. */
	FROM, WORKER_IS_LATE, WORKER_COMES,
	/* The device goes. */
	REMOVE,
	/* What the provider was told in all. */
	REJECTS, CLOSES, ABORTS,
	/* Shorthand: an active id whose route is resolved; a listener with a request. */
	READY, ASKED,
};

struct step {
	enum kind kind;
	int value;
};

struct conversation {
	const char *name;
	struct step steps[26];
};

/* Rows are short: a step is a word, or a word with a number. */
#define S(kind)		{ kind, 0 }
#define V(kind, value)	{ kind, value }

static const struct conversation conversations[] = {
	{ "a connection from its request to its end", {
		S(READY), S(CONNECT), V(REPLY, 0), S(TOLD_ESTABLISHED), S(PEER_CLOSE), S(SILENCE),
		S(CLOSE), S(TOLD_DISCONNECTED), S(DESTROY), V(CLOSES, 0) } },
	{ "the reply comes inside the connect", {
		S(READY), S(INSIDE_REPLY), S(CONNECT), S(TOLD_ESTABLISHED), S(CLOSE),
		S(TOLD_DISCONNECTED), S(DESTROY) } },
	{ "a refusal inside the connect", {
		S(READY), V(INSIDE_REPLY, -ECONNREFUSED), S(CONNECT),
		V(TOLD_REJECTED, -ECONNREFUSED), V(CONNECT, -EINVAL), S(DESTROY) } },
	{ "a connect that fails may be tried again", {
		S(READY), V(FAILS, -ENOMEM), V(CONNECT, -ENOMEM), S(SILENCE), S(CONNECT),
		V(REPLY, 0), S(TOLD_ESTABLISHED), S(DESTROY), V(ABORTS, 1) } },
	{ "refused", {
		S(READY), S(CONNECT), V(REPLY, -ECONNREFUSED), V(TOLD_REJECTED, -ECONNREFUSED),
		V(DATA, sizeof("private")), V(DISCONNECT, 0), S(DESTROY) } },
	{ "reset", {
		S(READY), S(CONNECT), V(REPLY, -ECONNRESET), V(TOLD_REJECTED, -ECONNRESET),
		S(DESTROY) } },
	{ "no answer", {
		S(READY), S(CONNECT), V(REPLY, -ETIMEDOUT), V(TOLD_UNREACHABLE, -ETIMEDOUT),
		S(DESTROY) } },
	{ "broken off, with data that is not there", {
		S(READY), S(CONNECT), V(REPLY, -ECONNABORTED), V(TOLD_ERROR, -ECONNABORTED),
		V(DATA, 0), S(DESTROY) } },
	{ "no MPA", {
		S(READY), S(CONNECT), V(REPLY, -EPROTO), V(TOLD_ERROR, -EPROTO), S(DESTROY) } },
	{ "closed instead of a reply", {
		S(READY), S(CONNECT), V(CLOSE, -ECONNRESET), V(TOLD_ERROR, -ECONNRESET),
		V(CONNECT, -EINVAL), V(DISCONNECT, 0), S(DESTROY), S(SILENCE) } },
	{ "closed inside the connect", {
		S(READY), S(INSIDE_CLOSE), S(CONNECT), V(TOLD_ERROR, -ECONNRESET), S(DESTROY),
		S(SILENCE) } },
	{ "disconnected while it connects, and closed instead of a reply", {
		S(READY), S(CONNECT), S(DISCONNECT), S(CLOSE), V(TOLD_ERROR, -ECONNRESET),
		S(DESTROY), S(SILENCE), V(CLOSES, 0) } },
	{ "destroyed while it connects, and closed instead of a reply", {
		S(READY), S(CONNECT), S(DESTROY), S(CLOSE), S(SILENCE), V(ABORTS, 0) } },
	{ "the device goes while it connects, and it is closed instead of a reply", {
		S(READY), S(CONNECT), S(REMOVE), S(TOLD_REMOVAL), S(CLOSE), S(DESTROY),
		S(SILENCE), V(ABORTS, 0) } },
	{ "an id without a QP is told of the response", {
		S(BIND), S(RESOLVE), V(FOUND, 0), S(TOLD_ADDR), S(ROUTE), S(TOLD_ROUTE),
		S(CONNECT), V(REPLY, 0), S(TOLD_RESPONSE), S(ESTABLISH), V(ESTABLISH, -EINVAL),
		S(CLOSE), S(TOLD_DISCONNECTED), S(DESTROY) } },
	{ "a response is rejected", {
		S(BIND), S(RESOLVE), V(FOUND, 0), S(TOLD_ADDR), S(ROUTE), S(TOLD_ROUTE),
		S(CONNECT), V(REPLY, 0), S(TOLD_RESPONSE), S(REJECT), V(ESTABLISH, -EINVAL),
		S(SILENCE), S(DESTROY), V(ABORTS, 1) } },
	{ "reply, close and the peer's close before anybody looked", {
		S(READY), S(CONNECT), S(HOLD), V(REPLY, 0), S(PEER_CLOSE), S(CLOSE), S(LET_GO_ON),
		S(TOLD_ESTABLISHED), S(TOLD_DISCONNECTED), S(DESTROY) } },
	{ "a disconnect and the peer's close cross", {
		S(READY), S(CONNECT), V(REPLY, 0), S(TOLD_ESTABLISHED), S(HOLD), S(PEER_CLOSE),
		V(DISCONNECT, 0), S(LET_GO_ON), S(SILENCE), S(CLOSE), S(TOLD_DISCONNECTED),
		V(DISCONNECT, 0), S(DESTROY), V(CLOSES, 1) } },
	{ "the close comes inside the disconnect", {
		S(READY), S(CONNECT), V(REPLY, 0), S(TOLD_ESTABLISHED), S(INSIDE_CLOSE),
		S(DISCONNECT), S(TOLD_DISCONNECTED), S(DESTROY) } },
	{ "the peer's close comes inside the disconnect", {
		S(READY), S(CONNECT), V(REPLY, 0), S(TOLD_ESTABLISHED), S(INSIDE_PEER_CLOSE),
		S(DISCONNECT), S(SILENCE), S(CLOSE), S(TOLD_DISCONNECTED), S(DESTROY) } },
	{ "disconnected while it connects: told, closed, told", {
		S(READY), S(CONNECT), S(DISCONNECT), S(SILENCE), V(REPLY, 0), S(TOLD_ESTABLISHED),
		S(CLOSE), S(TOLD_DISCONNECTED), S(DESTROY), V(CLOSES, 1) } },
	{ "disconnected while it connects, and refused", {
		S(READY), S(CONNECT), S(DISCONNECT), V(REPLY, -ECONNREFUSED),
		V(TOLD_REJECTED, -ECONNREFUSED), S(DESTROY) } },
	{ "C13 C14: destroyed while it connects", {
		S(READY), S(CONNECT), S(DESTROY), V(REPLY, 0), S(SILENCE), V(ABORTS, 1) } },
	{ "C13 C14: destroyed while it connects, and refused", {
		S(READY), S(CONNECT), S(DESTROY), V(REPLY, -ECONNREFUSED), S(SILENCE) } },
	{ "C13 C14: destroyed with the reply in the queue", {
		S(READY), S(CONNECT), S(HOLD), V(REPLY, 0), S(LET_GO_ON), S(TOLD_ESTABLISHED),
		S(DESTROY), S(SILENCE), V(ABORTS, 1) } },
	{ "destroyed while it closes: what was sent may arrive", {
		S(READY), S(CONNECT), V(REPLY, 0), S(TOLD_ESTABLISHED), S(DISCONNECT), S(DESTROY),
		V(CLOSES, 1), V(ABORTS, 0), S(CLOSE), S(SILENCE) } },
	{ "C17: the handler of ESTABLISHED destroys", {
		S(READY), S(CONNECT), V(HANDLER_RETURNS, 1), V(REPLY, 0), S(TOLD_ESTABLISHED),
		S(SILENCE), V(ABORTS, 1) } },
	{ "C17: the handler of DISCONNECTED destroys", {
		S(READY), S(CONNECT), V(REPLY, 0), S(TOLD_ESTABLISHED), V(HANDLER_RETURNS, 1),
		S(CLOSE), S(TOLD_DISCONNECTED), S(SILENCE) } },
	{ "C17: the handler of ROUTE_RESOLVED destroys", {
		S(BIND), S(RESOLVE), V(FOUND, 0), S(TOLD_ADDR), V(HANDLER_RETURNS, 1), S(ROUTE),
		S(TOLD_ROUTE), S(SILENCE) } },
	{ "a lookup that fails, and one that does not", {
		S(BIND), S(RESOLVE), V(FOUND, -ETIMEDOUT), V(TOLD_ADDR_ERROR, -ETIMEDOUT),
		S(RESOLVE), V(RESOLVE, -EINVAL), V(FOUND, 0), S(TOLD_ADDR), V(BIND, -EINVAL),
		S(DESTROY) } },
	{ "a lookup that cannot begin", {
		S(BIND), V(FAILS, -ENETUNREACH), V(RESOLVE, -ENETUNREACH), S(SILENCE), S(RESOLVE),
		V(FOUND, 0), S(TOLD_ADDR), S(DESTROY) } },
	{ "a way that is known", {
		S(BIND), S(KNOWN), S(RESOLVE), S(TOLD_ADDR), S(ROUTE), S(TOLD_ROUTE),
		S(DESTROY) } },
	{ "a way that is known by the second lookup", {
		S(BIND), S(RESOLVE), V(FOUND, -ETIMEDOUT), V(TOLD_ADDR_ERROR, -ETIMEDOUT),
		S(KNOWN), S(RESOLVE), S(TOLD_ADDR), S(SILENCE), S(DESTROY) } },
	{ "C17: the handler of ADDR_RESOLVED destroys within the call", {
		S(BIND), S(KNOWN), V(HANDLER_RETURNS, 1), S(RESOLVE), S(TOLD_ADDR),
		S(SILENCE) } },
	{ "a way that is known while the handler is held", {
		S(BIND), S(KNOWN), S(HOLD), S(RESOLVE), S(LET_GO_ON), S(TOLD_ADDR), S(DESTROY) } },
	{ "C6 C9: destroyed while an address is looked up", {
		S(BIND), S(RESOLVE), S(DESTROY), S(SILENCE) } },
	{ "C6: destroyed with a route in the queue", {
		S(BIND), S(RESOLVE), V(FOUND, 0), S(TOLD_ADDR), S(HOLD), S(ROUTE),
		V(ROUTE, -EINVAL), S(LET_GO_ON), S(TOLD_ROUTE), S(DESTROY), S(SILENCE) } },
	{ "a request is accepted", {
		S(ASKED), S(PREPARE_QP), S(ACCEPT), S(SILENCE), V(ESTABLISHED, 0),
		S(TOLD_ESTABLISHED), S(CLOSE), S(TOLD_DISCONNECTED), V(ACCEPT, -EINVAL),
		S(DESTROY) } },
	{ "established inside the accept", {
		S(ASKED), S(INSIDE_ESTABLISHED), S(ACCEPT), S(TOLD_ESTABLISHED), S(CLOSE),
		S(TOLD_DISCONNECTED), S(DESTROY) } },
	{ "closed inside the accept", {
		S(ASKED), S(INSIDE_CLOSE), S(ACCEPT), V(TOLD_ERROR, -ECONNRESET),
		V(DISCONNECT, 0), S(DESTROY) } },
	{ "an accept that fails", {
		S(ASKED), V(FAILS, -ECONNRESET), V(ACCEPT, -ECONNRESET), S(SILENCE),
		V(ACCEPT, -EINVAL), S(DESTROY) } },
	{ "a request is rejected", {
		S(ASKED), S(REJECT), V(REJECTS, 1), V(REJECT, -EINVAL), V(ACCEPT, -EINVAL),
		S(DESTROY), V(REJECTS, 1) } },
	{ "C5: a request is forgotten", {
		S(ASKED), S(DESTROY), V(REJECTS, 1) } },
	{ "C5: the handler refuses a request", {
		S(BIND), S(LISTEN), V(HANDLER_RETURNS, 1), V(REQUEST, 0), S(TOLD_REQUEST),
		V(REJECTS, 1), S(DESTROY_LISTENER) } },
	{ "disconnected and destroyed while it accepts", {
		S(ASKED), S(ACCEPT), S(DISCONNECT), S(DESTROY), V(ESTABLISHED, 0), S(SILENCE),
		V(ABORTS, 1) } },
	{ "C10: the listener goes, the request stays", {
		S(ASKED), S(DESTROY_LISTENER), S(ACCEPT), V(ESTABLISHED, 0), S(TOLD_ESTABLISHED),
		S(DESTROY), V(ABORTS, 1) } },
	{ "the queue of a listener is full", {
		S(BIND), V(LISTEN, 0), S(HOLD), V(REQUEST, 0), V(REQUEST, 0), V(REQUEST, -ENOMEM),
		V(HANDLER_RETURNS, 1), S(LET_GO_ON), S(TOLD_REQUEST), S(TOLD_REQUEST), V(REJECTS, 1),
		S(DESTROY_LISTENER) } },
	{ "listening fails, and then not", {
		S(BIND), V(FAILS, -EADDRINUSE), V(LISTEN, -EADDRINUSE), S(LISTEN),
		V(LISTEN, -EINVAL), S(DESTROY_LISTENER) } },
	{ "C17: the device goes: idle with an address", {
		S(BIND), S(REMOVE), S(TOLD_REMOVAL), V(RESOLVE, -EINVAL), S(DESTROY) } },
	{ "C17: the device goes: listening", {
		S(BIND), S(LISTEN), S(REMOVE), S(TOLD_REMOVAL), S(DESTROY_LISTENER) } },
	{ "C17: the device goes: connecting", {
		S(READY), S(CONNECT), S(REMOVE), S(TOLD_REMOVAL), S(DESTROY), V(REPLY, 0),
		S(SILENCE), V(ABORTS, 1) } },
	{ "C17: the device goes: connected", {
		S(READY), S(CONNECT), V(REPLY, 0), S(TOLD_ESTABLISHED), S(REMOVE),
		S(TOLD_REMOVAL), S(SILENCE), V(DISCONNECT, 0), S(DESTROY), V(ABORTS, 1) } },
	{ "C17: the device goes: asked", {
		S(ASKED), S(DESTROY_LISTENER), S(REMOVE), S(TOLD_REMOVAL), V(REJECTS, 1),
		V(ACCEPT, -EINVAL), S(DESTROY) } },
	{ "C17: the handler of DEVICE_REMOVAL destroys", {
		S(READY), S(CONNECT), V(REPLY, 0), S(TOLD_ESTABLISHED), V(HANDLER_RETURNS, 1),
		S(REMOVE), S(TOLD_REMOVAL), S(SILENCE) } },
	{ "calls that make no sense", {
		V(LISTEN, 0), V(LISTEN, -EINVAL), V(BIND, -EINVAL), V(ROUTE, -EINVAL),
		V(CONNECT, -EINVAL), V(ACCEPT, -EINVAL), V(REJECT, -EINVAL),
		V(ESTABLISH, -EINVAL), V(DISCONNECT, -EINVAL), S(SILENCE),
		S(DESTROY_LISTENER) } },
};

/* Of an id of a process, whose events are handled in the upcall if they can be. */
static const struct conversation of_a_process[] = {
	{ "told in the upcall", {
		S(READY), S(CONNECT), S(WORKER_IS_LATE), V(REPLY, 0), S(TOLD_ESTABLISHED),
		S(CLOSE), S(TOLD_DISCONNECTED), S(DESTROY) } },
	{ "told by the worker if the provider holds a lock", {
		S(READY), S(CONNECT), S(WORKER_IS_LATE), V(FROM, UNDER_LOCK), V(REPLY, 0),
		S(SILENCE), S(WORKER_COMES), S(TOLD_ESTABLISHED), S(DESTROY), V(ABORTS, 1) } },
	{ "told by the worker if the provider is in a softirq", {
		S(READY), S(CONNECT), S(WORKER_IS_LATE), V(FROM, IN_SOFTIRQ), V(REPLY, 0),
		S(SILENCE), S(WORKER_COMES), S(TOLD_ESTABLISHED), S(DESTROY), V(ABORTS, 1) } },
	{ "a close that the upcall left to the worker", {
		S(READY), S(CONNECT), S(DISCONNECT), S(WORKER_IS_LATE), V(REPLY, 0),
		S(TOLD_ESTABLISHED), V(CLOSES, 0), S(WORKER_COMES), V(CLOSES, 1), S(CLOSE),
		S(TOLD_DISCONNECTED), S(DESTROY) } },
	{ "a close that the upcall left to the worker, and the id goes first", {
		S(READY), S(CONNECT), S(DISCONNECT), S(WORKER_IS_LATE), V(REPLY, 0),
		S(TOLD_ESTABLISHED), S(DESTROY), V(CLOSES, 1), V(ABORTS, 0), S(CLOSE),
		S(SILENCE) } },
};

static void conversation_name(const struct conversation *conversation, char *name)
{
	strscpy(name, conversation->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(conversation, conversations, conversation_name);
KUNIT_ARRAY_PARAM(of_a_process, of_a_process, conversation_name);

/* --- the stage ------------------------------------------------------------- */

static struct rdma_cm_id *id, *listener;
static bool held;
static struct cm_id *late;	/* its worker does not run */
static struct work_struct removal;
static bool removing;

static int start(struct kunit *test)
{
	INIT_WORK(&removal, fake_remove_device);
	ids = OF_A_MODULE;
	return cm_events_init();
}

static void begin(struct kunit *test, enum fake_context context)
{
	memset(&heard, 0, sizeof(heard));
	held = false;
	removing = false;
	listener = NULL;
	fake_add_devices(test, context);
	if (ids != OF_A_MODULE)
		fake_assign_qp_to_process();
	id = make_id();
	KUNIT_ASSERT_NOT_NULL(test, id);
}

static void let_events_come(void)
{
	if (held)
		return;
	flush_workqueue(cm_wq);
}

/* Who queues the id's work finds it queued already, as long as this has not come to it. */
static void worker_is_late(void)
{
	late = to_cm_id(id);
	cm_id_get(late);
	set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&late->work));
}

static void worker_comes(void)
{
	clear_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&late->work));
	cm_queue_work(late);
	late = NULL;
}

static void destroy(struct rdma_cm_id **victim)
{
	if (!*victim)
		return;
	t3_rdma_destroy_id(*victim);
	*victim = NULL;
}

/* The provider ends what is open, everybody goes, and then nothing is left. */
static void end(struct kunit *test)
{
	if (held) {
		t3_rdma_unlock_handler(id);
		held = false;
	}
	if (late)
		worker_comes();
	flush_workqueue(cm_wq);
	if (heard.gone == id)
		id = NULL;		/* its handler did it */
	if (listener != id)
		destroy(&listener);
	destroy(&id);
	destroy(&heard.child);
	flush_workqueue(cm_wq);
	if (fake.conn)
		fake_report(fake.open ? FAKE_CLOSE : FAKE_REPLY, -ECONNRESET);
	flush_workqueue(cm_wq);
	if (!removing)
		queue_work(system_long_wq, &removal);
	flush_work(&removal);		/* waits for the last user of the device */
	fake_release_port();
	reserve_tcp_ports = false;
	if (fake_two_devices)
		cm_remove_one(&fake.other, fake.other_dev);
	fake_two_devices = false;
	KUNIT_EXPECT_FALSE(test, heard.spoke_when_gone);
	KUNIT_EXPECT_FALSE(test, fake.used_after_removal);
	KUNIT_EXPECT_EQ(test, number_of_ids(), 0u);
	/* C12 */
	KUNIT_EXPECT_EQ(test, fake_res.entries, 0);
	KUNIT_EXPECT_FALSE(test, fake_res.without_device);
	KUNIT_EXPECT_FALSE(test, fake_res.after_removal);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.uobject.usecnt), fake.qp_destroying ? -1 : 0);
	KUNIT_EXPECT_EQ(test, fake.entry_refs, 0);
	KUNIT_EXPECT_FALSE(test, fake.qp_used_after_free);
	KUNIT_EXPECT_NULL(test, fake.listener);
	KUNIT_EXPECT_TRUE(test, hash_empty(cm_ports));
	KUNIT_EXPECT_TRUE(test, list_empty(&cm_wildcard_ids));
}

static void stop(struct kunit *test)
{
	cm_events_exit();
}

/*
 * The device goes, and waits for its users, of which there is one at least. All ids have the
 * event in their queues when this returns.
 */
static void unplug(void)
{
	bool gone = false;

	removing = true;
	refcount_inc(&fake.cm_dev->users);	/* or it might go while it is looked at */
	queue_work(system_long_wq, &removal);
	while (!gone) {
		mutex_lock(&cm_devices_mutex);
		gone = list_empty(&fake.cm_dev->item);
		mutex_unlock(&cm_devices_mutex);
		cond_resched();
	}
	cm_dev_put(fake.cm_dev);
}

static void expect_told(struct kunit *test, const char *name, unsigned int step,
			enum rdma_cm_event_type event, int status)
{
	const struct told *told;

	let_events_come();
	KUNIT_ASSERT_GT_MSG(test, heard.written, heard.read, "%s, step %u: nothing was told", name,
			    step);
	told = &heard.told[heard.read++ % ARRAY_SIZE(heard.told)];
	KUNIT_EXPECT_EQ_MSG(test, told->event, event, "%s, step %u", name, step);
	KUNIT_EXPECT_EQ_MSG(test, told->status, status, "%s, step %u", name, step);
}

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
		return t3_rdma_connect(id, &param);
	case ACCEPT:
		return t3_rdma_accept(id, &param);
	case REJECT:
		return t3_rdma_reject(id, "no", 2);
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

/* The steps that are more than one call. */
static void shorthand(struct kunit *test, enum kind kind)
{
	static const struct conversation ready = { "ready", {
		S(BIND), S(PREPARE_QP), S(RESOLVE), V(FOUND, 0), S(TOLD_ADDR), S(ROUTE),
		S(TOLD_ROUTE) } };
	static const struct conversation asked = { "asked", {
		S(BIND), S(LISTEN), V(REQUEST, 0), S(TOLD_REQUEST) } };

	run(test, kind == READY ? &ready : &asked);
	if (kind == ASKED) {
		KUNIT_ASSERT_NOT_NULL(test, heard.child);
		id = heard.child;
		heard.child = NULL;
	}
}

static void step(struct kunit *test, const char *name, unsigned int number, const struct step *now)
{
	static const enum rdma_cm_event_type told[] = {
		[TOLD_ADDR] = RDMA_CM_EVENT_ADDR_RESOLVED,
		[TOLD_ADDR_ERROR] = RDMA_CM_EVENT_ADDR_ERROR,
		[TOLD_ROUTE] = RDMA_CM_EVENT_ROUTE_RESOLVED,
		[TOLD_REQUEST] = RDMA_CM_EVENT_CONNECT_REQUEST,
		[TOLD_RESPONSE] = RDMA_CM_EVENT_CONNECT_RESPONSE,
		[TOLD_ESTABLISHED] = RDMA_CM_EVENT_ESTABLISHED,
		[TOLD_REJECTED] = RDMA_CM_EVENT_REJECTED,
		[TOLD_UNREACHABLE] = RDMA_CM_EVENT_UNREACHABLE,
		[TOLD_ERROR] = RDMA_CM_EVENT_CONNECT_ERROR,
		[TOLD_DISCONNECTED] = RDMA_CM_EVENT_DISCONNECTED,
		[TOLD_REMOVAL] = RDMA_CM_EVENT_DEVICE_REMOVAL,
	};
	const struct told *last;
	int value = now->value;

	switch (now->kind) {
	case DESTROY:
		let_events_come();
		if (id == listener)
			listener = NULL;
		heard.gone = id;
		destroy(&id);
		break;
	case DESTROY_LISTENER:
		if (id == listener)
			id = NULL;
		destroy(&listener);
		break;
	case FOUND:
		fake_lookup_done(value);
		break;
	case REQUEST:
		KUNIT_EXPECT_EQ_MSG(test, fake_request(), value, "%s, step %u", name, number);
		break;
	case REPLY ... CLOSE:
		let_events_come();
		KUNIT_ASSERT_NOT_NULL_MSG(test, fake.conn, "%s, step %u", name, number);
		KUNIT_EXPECT_EQ_MSG(test, fake_report(FAKE_REPLY + now->kind - REPLY, value), 0,
				    "%s, step %u", name, number);
		break;
	case FAILS:
		fake.next_error = value;
		break;
	case KNOWN:
		fake.route_known = true;
		break;
	case INSIDE_REPLY:
		fake.in_call = FAKE_REPLY;
		fake.in_call_status = value;
		break;
	case INSIDE_ESTABLISHED:
	case INSIDE_CLOSE:
	case INSIDE_PEER_CLOSE:
		fake.in_call = now->kind == INSIDE_CLOSE ? FAKE_CLOSE :
			      now->kind == INSIDE_PEER_CLOSE ? FAKE_PEER_CLOSE : FAKE_ESTABLISHED;
		fake.in_call_status = 0;
		break;
	case TOLD_ADDR ... TOLD_REMOVAL:
		expect_told(test, name, number, told[now->kind], value);
		break;
	case DATA:
		last = &heard.told[(heard.read - 1) % ARRAY_SIZE(heard.told)];
		KUNIT_EXPECT_EQ_MSG(test, last->data_len, value, "%s, step %u", name, number);
		break;
	case SILENCE:
		let_events_come();
		KUNIT_EXPECT_EQ_MSG(test, heard.written, heard.read, "%s, step %u", name, number);
		break;
	case HANDLER_RETURNS:
		heard.answer = value;
		break;
	case HOLD:
		let_events_come();
		t3_rdma_lock_handler(id);
		held = true;
		break;
	case LET_GO_ON:
		t3_rdma_unlock_handler(id);
		held = false;
		break;
	case FROM:
		fake.context = value;
		break;
	case WORKER_IS_LATE:
		let_events_come();
		worker_is_late();
		break;
	case WORKER_COMES:
		worker_comes();
		break;
	case REMOVE:
		unplug();
		break;
	case REJECTS:
		let_events_come();
		KUNIT_EXPECT_EQ_MSG(test, fake.rejects, value, "%s, step %u", name, number);
		break;
	case CLOSES:
		let_events_come();
		KUNIT_EXPECT_EQ_MSG(test, fake.closes, value, "%s, step %u", name, number);
		break;
	case ABORTS:
		let_events_come();
		KUNIT_EXPECT_EQ_MSG(test, fake.aborts, value, "%s, step %u", name, number);
		break;
	case READY:
	case ASKED:
		shorthand(test, now->kind);
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

static void hold(struct kunit *test, enum fake_context context)
{
	begin(test, context);
	run(test, test->param_value);
	end(test);
}

static void in_process_context(struct kunit *test)
{
	hold(test, IN_PROCESS);
}

static void with_ids_of_a_process(struct kunit *test)
{
	ids = OF_A_PROCESS;
	hold(test, IN_PROCESS);
	ids = OF_A_POOR_PROCESS;
	hold(test, IN_PROCESS);
	ids = OF_A_PROCESS;
	hold(test, IN_SOFTIRQ);
	hold(test, UNDER_LOCK);
}

static void who_tells_a_process(struct kunit *test)
{
	ids = OF_A_PROCESS;
	hold(test, IN_PROCESS);
}

static void in_softirq_context(struct kunit *test)
{
	hold(test, IN_SOFTIRQ);
}

static void in_hardirq_context(struct kunit *test)
{
	hold(test, IN_HARDIRQ);
}

/* --- without a script ------------------------------------------------------ */

/*
 * Choices that a run makes, one after another; next_run() changes the last one that can still
 * be made otherwise, until all have been made in every way.
 */
#define TURNS (IS_ENABLED(CONFIG_KASAN) ? 4 : 5)	/* there everything takes longer */
#define MOST_TURNS 5
static struct {
	u8 taken[MOST_TURNS], of[MOST_TURNS];
	unsigned int known, now;
} choices;

static unsigned int choose(unsigned int of)
{
	if (choices.now == choices.known) {
		choices.taken[choices.known] = 0;
		choices.of[choices.known++] = of;
	}
	return choices.taken[choices.now++];
}

static bool next_run(void)
{
	choices.now = 0;
	while (choices.known && ++choices.taken[choices.known - 1] == choices.of[choices.known - 1])
		choices.known--;
	return choices.known;
}

enum move {
	M_CALL, M_DISCONNECT, M_ESTABLISH, M_REJECT, M_DESTROY, M_HOLD, M_LET_GO_ON, M_HANDLER_FAILS,
	M_REMOVE, M_SAY_YES, M_SAY_NO, M_PEER_CLOSE, M_CLOSE, NUM_MOVES
};

static const char *const move_names[NUM_MOVES] = {
	"call", "disconnect", "establish", "reject", "destroy", "hold", "let-go-on", "handler-says",
	"remove", "say-yes", "say-no", "peer-close", "close",
};

static struct {
	bool active, called, owed, handler_told, peer_closed;
	char story[160];
} play;

/* The moves that can be made now; once each where more say nothing new. */
static unsigned int possible(enum move moves[NUM_MOVES])
{
	bool alive = id && heard.gone != id;
	unsigned int n = 0;

	if (alive && !play.called)
		moves[n++] = M_CALL;
	if (alive) {
		moves[n++] = M_DISCONNECT;
		if (play.active)
			moves[n++] = M_ESTABLISH;
		moves[n++] = M_REJECT;
		moves[n++] = M_DESTROY;
		moves[n++] = held ? M_LET_GO_ON : M_HOLD;
		if (!play.handler_told)
			moves[n++] = M_HANDLER_FAILS;
		if (!removing)
			moves[n++] = M_REMOVE;
	}
	if (fake.conn && !fake.open) {
		moves[n++] = M_SAY_YES;
		moves[n++] = M_SAY_NO;
	}
	if (fake.conn && fake.open) {
		if (!play.peer_closed)
			moves[n++] = M_PEER_CLOSE;
		moves[n++] = M_CLOSE;
	}
	return n;
}

static void make(struct kunit *test, enum move move)
{
	int ret = 0;

	strlcat(play.story, " ", sizeof(play.story));
	strlcat(play.story, move_names[move], sizeof(play.story));
	switch (move) {
	case M_CALL:
		play.called = true;
		play.owed = !call(play.active ? CONNECT : ACCEPT);
		break;
	case M_DISCONNECT:
		call(DISCONNECT);
		break;
	case M_ESTABLISH:
		call(ESTABLISH);
		break;
	case M_REJECT:
		play.owed &= !!call(REJECT);
		break;
	case M_DESTROY:
		if (held)
			t3_rdma_unlock_handler(id);
		held = false;
		let_events_come();
		if (heard.gone == id) {
			id = NULL;
			break;
		}
		heard.gone = id;
		destroy(&id);
		break;
	case M_HOLD:
		t3_rdma_lock_handler(id);
		held = true;
		break;
	case M_LET_GO_ON:
		t3_rdma_unlock_handler(id);
		held = false;
		break;
	case M_HANDLER_FAILS:
		play.handler_told = true;
		heard.answer = 1;
		break;
	case M_REMOVE:
		unplug();
		break;
	case M_SAY_YES:
		ret = fake_report(play.active ? FAKE_REPLY : FAKE_ESTABLISHED, 0);
		break;
	case M_SAY_NO:
		ret = fake_report(play.active ? FAKE_REPLY : FAKE_CLOSE, -ECONNREFUSED);
		break;
	case M_PEER_CLOSE:
		play.peer_closed = true;
		ret = fake_report(FAKE_PEER_CLOSE, 0);
		break;
	case M_CLOSE:
		ret = fake_report(FAKE_CLOSE, 0);
		break;
	case NUM_MOVES:
		break;
	}
	/* There is always a place for what the provider says. */
	KUNIT_EXPECT_EQ_MSG(test, ret, 0, "%s", play.story);
	let_events_come();
}

static void one_run(struct kunit *test, bool active, bool with_qp)
{
	static const struct conversation qpless = { "ready without a QP", {
		S(BIND), S(RESOLVE), V(FOUND, 0), S(TOLD_ADDR), S(ROUTE), S(TOLD_ROUTE) } };
	enum move moves[NUM_MOVES];
	unsigned int turn;

	memset(&play, 0, sizeof(play));
	play.active = active;
	begin(test, IN_PROCESS);
	if (active && !with_qp) {
		run(test, &qpless);
	} else {
		shorthand(test, active ? READY : ASKED);
		destroy(&listener);
	}
	for (turn = 0; turn < TURNS; turn++) {
		unsigned int n = possible(moves);

		if (!n)
			break;
		make(test, moves[choose(n)]);
	}
	if (held)
		make(test, M_LET_GO_ON);
	/* Who waits for the end of what it began is told, if the provider has said it. */
	if (play.owed && !fake.conn && id && heard.gone != id && !removing)
		KUNIT_EXPECT_EQ_MSG(test, heard.ended, 1u, "%s", play.story);
	end(test);
	KUNIT_EXPECT_LE_MSG(test, heard.established, 1u, "%s", play.story);
	KUNIT_EXPECT_LE_MSG(test, heard.ended, 1u, "%s", play.story);
}

static bool has_failed(struct kunit *test)
{
	return READ_ONCE(test->status) == KUNIT_FAILURE;
}

static void every_order(struct kunit *test, bool active, bool with_qp)
{
	unsigned int runs = 0;

	memset(&choices, 0, sizeof(choices));
	do {
		one_run(test, active, with_qp);
		runs++;
		cond_resched();
	} while (next_run() && !has_failed(test));
	kunit_info(test, "%u runs\n", runs);
	KUNIT_EXPECT_GT(test, runs, 500u);
}

static void every_order_active(struct kunit *test)
{
	every_order(test, true, true);
}

static void every_order_without_qp(struct kunit *test)
{
	every_order(test, true, false);
}

static void every_order_passive(struct kunit *test)
{
	every_order(test, false, true);
}

static void every_order_active_of_a_process(struct kunit *test)
{
	ids = OF_A_PROCESS;
	every_order(test, true, true);
}

static void every_order_passive_of_a_process(struct kunit *test)
{
	ids = OF_A_PROCESS;
	every_order(test, false, true);
}

/* --- devices --------------------------------------------------------------- */

static void listen_on_wildcard(struct kunit *test)
{
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

	KUNIT_ASSERT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	KUNIT_ASSERT_EQ(test, call(LISTEN), 0);
}

/*
 * The device goes while a request is in the queue of a listener that has no device of its own:
 * the removal waits for the request, which is refused through the device.
 */
static void a_queued_request_keeps_its_device(struct kunit *test)
{
	begin(test, IN_PROCESS);
	listen_on_wildcard(test);
	t3_rdma_lock_handler(id);
	held = true;
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	removing = true;
	queue_work(system_long_wq, &removal);
	while (!READ_ONCE(fake.removal_waits))
		cond_resched();
	KUNIT_EXPECT_TRUE(test, fake.removal_has_users);
	t3_rdma_unlock_handler(id);
	held = false;
	flush_work(&removal);
	KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
	KUNIT_EXPECT_EQ(test, heard.written, 0u);
	end(test);
}

/* Two devices are on one interface: a request is of the one that it arrived on. */
static void a_request_is_of_the_device_it_arrived_on(struct kunit *test)
{
	fake_two_devices = true;
	begin(test, IN_PROCESS);
	listen_on_wildcard(test);
	KUNIT_ASSERT_NOT_NULL(test, fake.other_listener);
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	expect_told(test, "request", 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	KUNIT_ASSERT_NOT_NULL(test, heard.child);
	KUNIT_EXPECT_PTR_EQ(test, heard.child->device, &fake.device);
	KUNIT_EXPECT_EQ(test, (int)heard.child->port_num, 1);
	end(test);
}

struct wildcard {
	const char *name;
	bool has_other, other_in_other_netns;
	int other_answers, answers, result;
	unsigned int warnings;
};

static const struct wildcard listens[] = {
	{ "both listen", true, false, 0, 0, 0, 0 },
	{ "the port is in use on the only one", false, false, 0, -EADDRINUSE, -EADDRINUSE, 1 },
	{ "the port is in use on one of two", true, false, 0, -EADDRINUSE, -EADDRINUSE, 1 },
	{ "the port is in use, the other is in another namespace", true, true, 0, -EADDRINUSE,
	  -EADDRINUSE, 1 },
	{ "no IPv6 on one, in use on the other", true, false, -EAFNOSUPPORT, -EADDRINUSE,
	  -EADDRINUSE, 2 },
	{ "no IPv6 on one, the other listens", true, false, -EAFNOSUPPORT, 0, 0, 1 },
	{ "no IPv6, the other is in another namespace", true, true, 0, -EAFNOSUPPORT, 0, 1 },
	{ "no IPv6 on both", true, false, -EAFNOSUPPORT, -EAFNOSUPPORT, 0, 2 },
	{ "no IPv6 on one, no memory on the other", true, false, -EAFNOSUPPORT, -ENOMEM,
	  -ENOMEM, 2 },
	{ "no memory on one, the other listens", true, false, -ENOMEM, 0, 0, 1 },
};

static void wildcard_name(const struct wildcard *wildcard, char *name)
{
	strscpy(name, wildcard->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(wildcard, listens, wildcard_name);

/* What the devices answer to a listener on all of them, and what it is told. */
static void a_listener_on_all_devices(struct kunit *test)
{
	const struct wildcard *wildcard = test->param_value;
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

	fake_two_devices = wildcard->has_other;
	begin(test, IN_PROCESS);
	fake.other_in_other_netns = wildcard->other_in_other_netns;
	fake.other_listen_error = wildcard->other_answers;
	fake.listen_error = wildcard->answers;
	KUNIT_ASSERT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	KUNIT_EXPECT_EQ(test, call(LISTEN), wildcard->result);
	KUNIT_EXPECT_EQ(test, !!fake.listener, !wildcard->result && !wildcard->answers);
	KUNIT_EXPECT_EQ(test, !!fake.other_listener, wildcard->has_other && !wildcard->result &&
			!wildcard->other_in_other_netns && !wildcard->other_answers);
	KUNIT_EXPECT_EQ(test, fake.warnings, wildcard->warnings);
	end(test);
}

/* A program may listen again and again: a device without IPv6 is in the log once. */
static void a_device_without_ipv6_is_logged_once(struct kunit *test)
{
	begin(test, IN_PROCESS);
	fake.listen_error = -EAFNOSUPPORT;
	listen_on_wildcard(test);
	listener = NULL;
	destroy(&id);
	id = make_id();
	KUNIT_ASSERT_NOT_NULL(test, id);
	listen_on_wildcard(test);
	KUNIT_EXPECT_EQ(test, fake.warnings, 1u);
	end(test);
}

/* A device that is added and refuses is logged; the listener stays where it is. */
static void a_new_device_refuses_a_listener(struct kunit *test)
{
	begin(test, IN_PROCESS);
	listen_on_wildcard(test);
	fake.other_listen_error = -ENOMEM;
	fake_add(test, &fake.other);
	fake_two_devices = true;
	KUNIT_EXPECT_NULL(test, fake.other_listener);
	KUNIT_EXPECT_EQ(test, fake.warnings, 1u);
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	expect_told(test, "request", 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	end(test);
}

/* As in-tree: it listens on the devices that will come. */
static void a_listener_without_a_device(struct kunit *test)
{
	begin(test, IN_PROCESS);
	removing = true;
	fake_remove_device(NULL);
	listen_on_wildcard(test);
	KUNIT_EXPECT_NULL(test, fake.listener);
	fake_add(test, &fake.device);
	KUNIT_EXPECT_NOT_NULL(test, fake.listener);
	removing = false;
	fake.removed = false;
	end(test);
}

/* A device that goes while a listener comes to it is not there for it. */
static void a_device_goes_while_a_listener_comes(struct kunit *test)
{
	begin(test, IN_PROCESS);
	fake.point = "cm_listen_next_device";
	fake.at_point = unplug;
	listen_on_wildcard(test);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_NULL(test, fake.listener);
	end(test);
}

/* --- addresses ------------------------------------------------------------- */

/* A lookup that fails leaves the id on no interface: the next one may lead elsewhere. */
static void a_failed_lookup_binds_to_no_interface(struct kunit *test)
{
	struct rdma_dev_addr *dev_addr;

	begin(test, IN_PROCESS);
	dev_addr = &id->route.addr.dev_addr;
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	fake_lookup_done(-ETIMEDOUT);
	expect_told(test, "failed", 0, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, dev_addr->bound_dev_if, 0);
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	fake.no_rdma_device = true;
	fake.gid_attr.gid.raw[0] = 1;
	fake_lookup_done(0);
	expect_told(test, "no device", 0, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	KUNIT_EXPECT_EQ(test, dev_addr->bound_dev_if, 0);
	fake.no_rdma_device = false;
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	fake_lookup_done(0);
	expect_told(test, "found", 0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	KUNIT_EXPECT_NE(test, dev_addr->bound_dev_if, 0);
	end(test);
}

/* --- ports of the host's TCP ------------------------------------------------ */

/* reserve_tcp_ports does not take a port from a provider that takes it by a socket of its own. */
static void a_provider_with_sockets_listens(struct kunit *test)
{
	begin(test, IN_PROCESS);
	reserve_tcp_ports = true;
	fake.has_sockets = true;
	fake.device.iw_driver_flags = IW_F_NO_PORT_MAP;
	listen_on_wildcard(test);
	KUNIT_EXPECT_NOT_NULL(test, fake.sock);
	end(test);
}

static void a_provider_with_sockets_connects(struct kunit *test)
{
	static const struct conversation ready = { "ready", {
		S(RESOLVE), V(FOUND, 0), S(TOLD_ADDR), S(ROUTE), S(TOLD_ROUTE) } };

	begin(test, IN_PROCESS);
	reserve_tcp_ports = true;
	fake.has_sockets = true;
	fake.device.iw_driver_flags = IW_F_NO_PORT_MAP;
	run(test, &ready);
	KUNIT_EXPECT_EQ(test, call(CONNECT), 0);
	KUNIT_EXPECT_NOT_NULL(test, fake.sock);
	end(test);
}

/* --- QPs ------------------------------------------------------------------- */

struct qp_window {
	const char *name;
	void (*meanwhile)(void);
	bool passive, untracked;
};

static const struct qp_window qp_windows[] = {
	{ "connect, destroy", fake_destroy_qp, false, false },
	{ "connect, close", fake_close_verbs, false, false },
	{ "accept, destroy", fake_destroy_qp, true, false },
	{ "accept, close", fake_close_verbs, true, false },
	{ "connect, destroy, not tracked", fake_destroy_qp, false, true },
	{ "accept, destroy, not tracked", fake_destroy_qp, true, true },
};

/* Points that each call comes to; of a QP that is tracked, and of any. */
static const char *const points_of_tracked[] = { "cm_qp_found", "cm_qp_held" };

static const char *const points_of_connect[] = {
	"cm_qp_entry_held", "cm_connect_provider", "cm_connect_called",
};

static const char *const points_of_accept[] = {
	"cm_qp_entry_held", "cm_accept_provider", "cm_accept_called",
};

static void qp_window_name(const struct qp_window *window, char *name)
{
	strscpy(name, window->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(qp_window, qp_windows, qp_window_name);

static void destroy_at(struct kunit *test, const struct qp_window *window, const char *at)
{
	int ret;

	ids = OF_A_PROCESS;
	begin(test, IN_PROCESS);
	fake.untracked = window->untracked;
	shorthand(test, window->passive ? ASKED : READY);
	fake.at_point = window->meanwhile;
	fake.point = at;
	ret = call(window->passive ? ACCEPT : CONNECT);
	KUNIT_EXPECT_NULL_MSG(test, fake.point, "the call did not come to %s", at);
	KUNIT_EXPECT_FALSE_MSG(test, fake.qp_used_after_free, "%s", at);
	if (ret) {
		KUNIT_EXPECT_EQ_MSG(test, ret, -EINVAL, "%s", at);
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&fake.qp_refs), 0, "%s", at);
	} else {
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&fake.qp_refs), 1, "%s", at);
		KUNIT_EXPECT_FALSE_MSG(test, fake.qp_freed, "%s", at);
	}
	if (!window->untracked)
		KUNIT_EXPECT_FALSE_MSG(test, fake.qp_not_found, "%s", at);
	end(test);
}

/*
 * E9. A process destroys a QP while it connects it: whatever comes first, no reference is taken on
 * a QP that has gone, and of a QP that is tracked the provider never has to look for one that has.
 */
static void a_qp_is_destroyed_while_it_is_connected(struct kunit *test)
{
	const struct qp_window *window = test->param_value;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(points_of_tracked) && !window->untracked; i++)
		destroy_at(test, window, points_of_tracked[i]);
	for (i = 0; i < ARRAY_SIZE(points_of_connect); i++)
		destroy_at(test, window, window->passive ? points_of_accept[i] :
							   points_of_connect[i]);
}

/* A QP that resource tracking does not have is held all the same. */
static void a_qp_that_is_not_tracked(struct kunit *test)
{
	ids = OF_A_PROCESS;
	begin(test, IN_PROCESS);
	fake.untracked = true;
	shorthand(test, READY);
	KUNIT_EXPECT_EQ(test, call(CONNECT), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 1);
	KUNIT_EXPECT_EQ(test, fake_report(FAKE_REPLY, 0), 0);
	KUNIT_EXPECT_EQ(test, call(DISCONNECT), 0);
	KUNIT_EXPECT_EQ(test, fake.closes, 1u);
	end(test);
}

/* A number may be guessed: a process has no part in QPs of modules, and of other users. */
static void a_process_connects_its_own_qps(struct kunit *test)
{
	struct task_struct *stranger = kunit_kzalloc(test, sizeof(*stranger), GFP_KERNEL);
	struct cred *cred = kunit_kzalloc(test, sizeof(*cred), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, stranger);
	KUNIT_ASSERT_NOT_NULL(test, cred);
	cred->uid = KUIDT_INIT(1000);
	rcu_assign_pointer(stranger->real_cred, cred);
	ids = OF_A_PROCESS;
	begin(test, IN_PROCESS);
	shorthand(test, READY);
	fake.qp.res.task = stranger;
	KUNIT_EXPECT_EQ(test, call(CONNECT), -EINVAL);
	fake.qp.uobject = NULL;
	fake.qp.res.task = NULL;
	KUNIT_EXPECT_EQ(test, call(CONNECT), -EINVAL);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 0);
	fake_assign_qp_to_process();
	KUNIT_EXPECT_EQ(test, call(CONNECT), 0);
	end(test);
}

static struct kunit_case conversation_cases[] = {
	KUNIT_CASE_PARAM(in_process_context, conversation_gen_params),
	KUNIT_CASE_PARAM(with_ids_of_a_process, conversation_gen_params),
	KUNIT_CASE_PARAM(who_tells_a_process, of_a_process_gen_params),
	KUNIT_CASE_PARAM(in_softirq_context, conversation_gen_params),
	KUNIT_CASE_PARAM(in_hardirq_context, conversation_gen_params),
	KUNIT_CASE(a_queued_request_keeps_its_device),
	KUNIT_CASE(a_request_is_of_the_device_it_arrived_on),
	KUNIT_CASE_PARAM(a_listener_on_all_devices, wildcard_gen_params),
	KUNIT_CASE(a_device_without_ipv6_is_logged_once),
	KUNIT_CASE(a_new_device_refuses_a_listener),
	KUNIT_CASE(a_listener_without_a_device),
	KUNIT_CASE(a_device_goes_while_a_listener_comes),
	KUNIT_CASE(a_failed_lookup_binds_to_no_interface),
	KUNIT_CASE(a_provider_with_sockets_listens),
	KUNIT_CASE(a_provider_with_sockets_connects),
	KUNIT_CASE_PARAM(a_qp_is_destroyed_while_it_is_connected, qp_window_gen_params),
	KUNIT_CASE(a_qp_that_is_not_tracked),
	KUNIT_CASE(a_process_connects_its_own_qps),
	KUNIT_CASE(every_order_active),
	KUNIT_CASE(every_order_without_qp),
	KUNIT_CASE(every_order_passive),
	KUNIT_CASE(every_order_active_of_a_process),
	KUNIT_CASE(every_order_passive_of_a_process),
	{}
};

static struct kunit_suite conversation_suite = {
	.name = "t3_rdma_cm_conversation",
	.init = start,
	.exit = stop,
	.test_cases = conversation_cases,
};

kunit_test_suites(&conversation_suite);

MODULE_LICENSE("GPL");
