// SPDX-License-Identifier: GPL-2.0
/*
 * Whole conversations. Each runs with the provider's events in process, softirq and hard interrupt
 * context, and under a lock; and with a handler that has no memory in the upcall, and so is called
 * again. Each checks the entries of resource tracking (C12).
 */
#include "conversation.h"

static const struct conversation conversations[] = {
	{ "connect, established, closed by the peer", {
		S(READY), S(CONNECT), V(REPLY, 0), S(GOT_ESTABLISHED), S(PEER_CLOSE),
		S(GOT_NOTHING), S(CLOSE), S(GOT_DISCONNECTED), S(DESTROY), V(CLOSES, 0) } },
	{ "reply inside the connect", {
		S(READY), S(IN_CALL_REPLY), S(CONNECT), S(GOT_ESTABLISHED), S(CLOSE),
		S(GOT_DISCONNECTED), S(DESTROY) } },
	{ "rejected inside the connect", {
		S(READY), V(IN_CALL_REPLY, -ECONNREFUSED), S(CONNECT),
		V(GOT_REJECTED, -ECONNREFUSED), V(CONNECT, -EINVAL), S(DESTROY) } },
	{ "a connect that fails, and a second one", {
		S(READY), V(NEXT_ERROR, -ENOMEM), V(CONNECT, -ENOMEM), S(GOT_NOTHING), S(CONNECT),
		V(REPLY, 0), S(GOT_ESTABLISHED), S(DESTROY), V(ABORTS, 1) } },
	{ "rejected", {
		S(READY), S(CONNECT), V(REPLY, -ECONNREFUSED), V(GOT_REJECTED, -ECONNREFUSED),
		V(DATA, sizeof("private")), V(DISCONNECT, 0), S(DESTROY) } },
	{ "reset", {
		S(READY), S(CONNECT), V(REPLY, -ECONNRESET), V(GOT_REJECTED, -ECONNRESET),
		S(DESTROY) } },
	{ "no reply", {
		S(READY), S(CONNECT), V(REPLY, -ETIMEDOUT), V(GOT_UNREACHABLE, -ETIMEDOUT),
		S(DESTROY) } },
	{ "MPA reply broken off, private data missing", {
		S(READY), S(CONNECT), V(REPLY, -ECONNABORTED), V(GOT_ERROR, -ECONNABORTED),
		V(DATA, 0), S(DESTROY) } },
	{ "peer without MPA", {
		S(READY), S(CONNECT), V(REPLY, -EPROTO), V(GOT_ERROR, -EPROTO), S(DESTROY) } },
	{ "CLOSE instead of a reply", {
		S(READY), S(CONNECT), V(CLOSE, -ECONNRESET), V(GOT_ERROR, -ECONNRESET),
		V(CONNECT, -EINVAL), V(DISCONNECT, 0), S(DESTROY), S(GOT_NOTHING) } },
	{ "CLOSE inside the connect", {
		S(READY), S(IN_CALL_CLOSE), S(CONNECT), V(GOT_ERROR, -ECONNRESET), S(DESTROY),
		S(GOT_NOTHING) } },
	{ "disconnect while connecting, then CLOSE instead of a reply", {
		S(READY), S(CONNECT), S(DISCONNECT), S(CLOSE), V(GOT_ERROR, -ECONNRESET),
		S(DESTROY), S(GOT_NOTHING), V(CLOSES, 0) } },
	{ "destroy while connecting, then CLOSE instead of a reply", {
		S(READY), S(CONNECT), S(DESTROY), S(CLOSE), S(GOT_NOTHING), V(ABORTS, 0) } },
	{ "removal while connecting, then CLOSE instead of a reply", {
		S(READY), S(CONNECT), S(REMOVE), S(GOT_REMOVAL), S(CLOSE), S(DESTROY),
		S(GOT_NOTHING), V(ABORTS, 0) } },
	{ "an id without a QP gets CONNECT_RESPONSE", {
		S(BIND), S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR), S(ROUTE), S(GOT_ROUTE),
		S(CONNECT), V(REPLY, 0), S(GOT_RESPONSE), S(ESTABLISH), V(ESTABLISH, -EINVAL),
		S(CLOSE), S(GOT_DISCONNECTED), S(DESTROY) } },
	{ "a response is rejected", {
		S(BIND), S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR), S(ROUTE), S(GOT_ROUTE),
		S(CONNECT), V(REPLY, 0), S(GOT_RESPONSE), S(REJECT), V(ESTABLISH, -EINVAL),
		S(GOT_NOTHING), S(DESTROY), V(ABORTS, 1) } },
	{ "reply, the peer's close and CLOSE in one queue", {
		S(READY), S(CONNECT), S(LOCK_HANDLER), V(REPLY, 0), S(PEER_CLOSE), S(CLOSE),
		S(UNLOCK_HANDLER), S(GOT_ESTABLISHED), S(GOT_DISCONNECTED), S(DESTROY) } },
	{ "a disconnect and the peer's close cross", {
		S(READY), S(CONNECT), V(REPLY, 0), S(GOT_ESTABLISHED), S(LOCK_HANDLER),
		S(PEER_CLOSE), V(DISCONNECT, 0), S(UNLOCK_HANDLER), S(GOT_NOTHING), S(CLOSE),
		S(GOT_DISCONNECTED), V(DISCONNECT, 0), S(DESTROY), V(CLOSES, 1) } },
	{ "CLOSE inside the disconnect", {
		S(READY), S(CONNECT), V(REPLY, 0), S(GOT_ESTABLISHED), S(IN_CALL_CLOSE),
		S(DISCONNECT), S(GOT_DISCONNECTED), S(DESTROY) } },
	{ "the peer's close inside the disconnect", {
		S(READY), S(CONNECT), V(REPLY, 0), S(GOT_ESTABLISHED), S(IN_CALL_PEER_CLOSE),
		S(DISCONNECT), S(GOT_NOTHING), S(CLOSE), S(GOT_DISCONNECTED), S(DESTROY) } },
	{ "disconnect while connecting, then established", {
		S(READY), S(CONNECT), S(DISCONNECT), S(GOT_NOTHING), V(REPLY, 0),
		S(GOT_ESTABLISHED), S(CLOSE), S(GOT_DISCONNECTED), S(DESTROY), V(CLOSES, 1) } },
	{ "disconnect while connecting, then rejected", {
		S(READY), S(CONNECT), S(DISCONNECT), V(REPLY, -ECONNREFUSED),
		V(GOT_REJECTED, -ECONNREFUSED), S(DESTROY) } },
	{ "C13 C14: destroy while connecting", {
		S(READY), S(CONNECT), S(DESTROY), V(REPLY, 0), S(GOT_NOTHING), V(ABORTS, 1) } },
	{ "C13 C14: destroy while connecting, then rejected", {
		S(READY), S(CONNECT), S(DESTROY), V(REPLY, -ECONNREFUSED), S(GOT_NOTHING) } },
	{ "C13 C14: destroy with the reply in the queue", {
		S(READY), S(CONNECT), S(LOCK_HANDLER), V(REPLY, 0), S(UNLOCK_HANDLER),
		S(GOT_ESTABLISHED), S(DESTROY), S(GOT_NOTHING), V(ABORTS, 1) } },
	{ "destroy while closing does not abort", {
		S(READY), S(CONNECT), V(REPLY, 0), S(GOT_ESTABLISHED), S(DISCONNECT), S(DESTROY),
		V(CLOSES, 1), V(ABORTS, 0), S(CLOSE), S(GOT_NOTHING) } },
	{ "a lookup that fails, and one that does not", {
		S(BIND), S(RESOLVE), V(LOOKUP_DONE, -ETIMEDOUT), V(GOT_ADDR_ERROR, -ETIMEDOUT),
		S(RESOLVE), V(RESOLVE, -EINVAL), V(LOOKUP_DONE, 0), S(GOT_ADDR), V(BIND, -EINVAL),
		S(DESTROY) } },
	{ "a lookup that fails to start", {
		S(BIND), V(NEXT_ERROR, -ENETUNREACH), V(RESOLVE, -ENETUNREACH), S(GOT_NOTHING),
		S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR), S(DESTROY) } },
	{ "a known route", {
		S(BIND), S(ROUTE_KNOWN), S(RESOLVE), S(GOT_ADDR), S(ROUTE), S(GOT_ROUTE),
		S(DESTROY) } },
	{ "a known route for the second lookup", {
		S(BIND), S(RESOLVE), V(LOOKUP_DONE, -ETIMEDOUT), V(GOT_ADDR_ERROR, -ETIMEDOUT),
		S(ROUTE_KNOWN), S(RESOLVE), S(GOT_ADDR), S(GOT_NOTHING), S(DESTROY) } },
	{ "a known route while the handler's mutex is held", {
		S(BIND), S(ROUTE_KNOWN), S(LOCK_HANDLER), S(RESOLVE), S(UNLOCK_HANDLER),
		S(GOT_ADDR), S(DESTROY) } },
	{ "C6 C9: destroy during a lookup", {
		S(BIND), S(RESOLVE), S(DESTROY), S(GOT_NOTHING) } },
	{ "C6: destroy with a route in the queue", {
		S(BIND), S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR), S(LOCK_HANDLER), S(ROUTE),
		V(ROUTE, -EINVAL), S(UNLOCK_HANDLER), S(GOT_ROUTE), S(DESTROY), S(GOT_NOTHING) } },
	{ "a request is accepted", {
		S(REQUESTED), S(PREPARE_QP), S(ACCEPT), S(GOT_NOTHING), V(ESTABLISHED, 0),
		S(GOT_ESTABLISHED), S(CLOSE), S(GOT_DISCONNECTED), V(ACCEPT, -EINVAL),
		S(DESTROY) } },
	{ "established inside the accept", {
		S(REQUESTED), S(IN_CALL_ESTABLISHED), S(ACCEPT), S(GOT_ESTABLISHED), S(CLOSE),
		S(GOT_DISCONNECTED), S(DESTROY) } },
	{ "CLOSE inside the accept", {
		S(REQUESTED), S(IN_CALL_CLOSE), S(ACCEPT), V(GOT_ERROR, -ECONNRESET),
		V(DISCONNECT, 0), S(DESTROY) } },
	{ "an accept that fails after its return", {
		S(REQUESTED), S(PREPARE_QP), S(ACCEPT), V(ESTABLISHED, -ECONNRESET), S(GOT_NOTHING),
		V(CLOSE, -ECONNRESET), V(GOT_ERROR, -ECONNRESET), S(GOT_NOTHING), S(DESTROY),
		V(ABORTS, 0) } },
	{ "an accept that fails after its return, destroyed first", {
		S(REQUESTED), S(ACCEPT), S(DESTROY), V(ESTABLISHED, -ETIMEDOUT),
		V(CLOSE, -ETIMEDOUT), S(GOT_NOTHING), V(ABORTS, 0) } },
	{ "an accept that fails after its return and a disconnect", {
		S(REQUESTED), S(ACCEPT), S(DISCONNECT), V(ESTABLISHED, -ECONNRESET),
		V(CLOSE, -ECONNRESET), V(GOT_ERROR, -ECONNRESET), S(GOT_NOTHING), V(CLOSES, 0),
		S(DESTROY) } },
	{ "an accept that fails", {
		S(REQUESTED), V(NEXT_ERROR, -ECONNRESET), V(ACCEPT, -ECONNRESET), S(GOT_NOTHING),
		V(ACCEPT, -EINVAL), S(DESTROY) } },
	{ "a request is rejected", {
		S(REQUESTED), S(REJECT), V(REJECTS, 1), V(REJECT, -EINVAL), V(ACCEPT, -EINVAL),
		S(DESTROY), V(REJECTS, 1) } },
	{ "C5: a request is destroyed", {
		S(REQUESTED), S(DESTROY), V(REJECTS, 1) } },
	{ "C5: the handler fails for a request", {
		S(BIND), S(LISTEN), V(HANDLER_RETURNS, 1), V(REQUEST, 0), S(GOT_REQUEST),
		V(REJECTS, 1), S(DESTROY_LISTENER) } },
	{ "disconnect and destroy while accepting", {
		S(REQUESTED), S(ACCEPT), S(DISCONNECT), S(DESTROY), V(ESTABLISHED, 0),
		S(GOT_NOTHING), V(ABORTS, 1) } },
	{ "C10: a request outlives its listener", {
		S(REQUESTED), S(DESTROY_LISTENER), S(ACCEPT), V(ESTABLISHED, 0), S(GOT_ESTABLISHED),
		S(DESTROY), V(ABORTS, 1) } },
	{ "the backlog of a listener is full", {
		S(BIND), V(LISTEN, 0), S(LOCK_HANDLER), V(REQUEST, 0), V(REQUEST, 0),
		V(REQUEST, -ENOMEM), V(HANDLER_RETURNS, 1), S(UNLOCK_HANDLER), S(GOT_REQUEST),
		S(GOT_REQUEST), V(REJECTS, 1), S(DESTROY_LISTENER) } },
	{ "a listen that fails, and a second one", {
		S(BIND), V(NEXT_ERROR, -EADDRINUSE), V(LISTEN, -EADDRINUSE), S(LISTEN),
		V(LISTEN, -EINVAL), S(DESTROY_LISTENER) } },
	{ "C17: removal when bound", {
		S(BIND), S(REMOVE), S(GOT_REMOVAL), V(RESOLVE, -EINVAL), S(DESTROY) } },
	{ "C17: removal when listening", {
		S(BIND), S(LISTEN), S(REMOVE), S(GOT_REMOVAL), S(DESTROY_LISTENER) } },
	{ "C17: removal when connecting", {
		S(READY), S(CONNECT), S(REMOVE), S(GOT_REMOVAL), S(DESTROY), V(REPLY, 0),
		S(GOT_NOTHING), V(ABORTS, 1) } },
	{ "C17: removal when connected", {
		S(READY), S(CONNECT), V(REPLY, 0), S(GOT_ESTABLISHED), S(REMOVE), S(GOT_REMOVAL),
		S(GOT_NOTHING), V(DISCONNECT, 0), S(DESTROY), V(ABORTS, 1) } },
	{ "C17: removal with a request", {
		S(REQUESTED), S(DESTROY_LISTENER), S(REMOVE), S(GOT_REMOVAL), V(REJECTS, 1),
		V(ACCEPT, -EINVAL), S(DESTROY) } },
	{ "calls that make_move no sense", {
		V(LISTEN, 0), V(LISTEN, -EINVAL), V(BIND, -EINVAL), V(ROUTE, -EINVAL),
		V(CONNECT, -EINVAL), V(ACCEPT, -EINVAL), V(REJECT, -EINVAL), V(ESTABLISH, -EINVAL),
		V(DISCONNECT, -EINVAL), S(GOT_NOTHING), S(DESTROY_LISTENER) } },
};

/* Events that are handled in the upcall, if that is possible. */
static const struct conversation upcall_conversations[] = {
	{ "reported in the upcall", {
		S(READY), S(CONNECT), S(DELAY_WORKER), V(REPLY, 0), S(GOT_ESTABLISHED), S(CLOSE),
		S(GOT_DISCONNECTED), S(DESTROY) } },
	{ "reported by the worker if the provider holds a lock", {
		S(READY), S(CONNECT), S(DELAY_WORKER), V(CONTEXT, UNDER_LOCK), V(REPLY, 0),
		S(GOT_NOTHING), S(RUN_WORKER), S(GOT_ESTABLISHED), S(DESTROY), V(ABORTS, 1) } },
	{ "reported by the worker if the provider is in a softirq", {
		S(READY), S(CONNECT), S(DELAY_WORKER), V(CONTEXT, IN_SOFTIRQ), V(REPLY, 0),
		S(GOT_NOTHING), S(RUN_WORKER), S(GOT_ESTABLISHED), S(DESTROY), V(ABORTS, 1) } },
	{ "a close that the upcall left to the worker", {
		S(READY), S(CONNECT), S(DISCONNECT), S(DELAY_WORKER), V(REPLY, 0),
		S(GOT_ESTABLISHED), V(CLOSES, 0), S(RUN_WORKER), V(CLOSES, 1), S(CLOSE),
		S(GOT_DISCONNECTED), S(DESTROY) } },
	{ "a close that the upcall left to the worker, destroy first", {
		S(READY), S(CONNECT), S(DISCONNECT), S(DELAY_WORKER), V(REPLY, 0),
		S(GOT_ESTABLISHED), S(DESTROY), V(CLOSES, 1), V(ABORTS, 0), S(CLOSE),
		S(GOT_NOTHING) } },
};

NAMED_PARAM(conversation, conversations);
NAMED_PARAM(upcall_conversations, upcall_conversations);

static void run_conversation(struct kunit *test, enum fake_context context)
{
	begin(test, context);
	run(test, test->param_value);
	end(test);
}

static void in_process_context(struct kunit *test)
{
	run_conversation(test, IN_PROCESS);
}

static void without_memory_in_the_upcall(struct kunit *test)
{
	no_memory_in_upcalls = true;
	run_conversation(test, IN_PROCESS);
}

static void in_the_upcall(struct kunit *test)
{
	/* Then the worker handles each event: cm_dispatch(). */
	if (!IS_ENABLED(CONFIG_PREEMPT_COUNT))
		kunit_skip(test, "the kernel has no preemption counter");
	run_conversation(test, IN_PROCESS);
}

static void under_a_lock(struct kunit *test)
{
	run_conversation(test, UNDER_LOCK);
}

static void in_softirq_context(struct kunit *test)
{
	run_conversation(test, IN_SOFTIRQ);
}

static void in_hardirq_context(struct kunit *test)
{
	run_conversation(test, IN_HARDIRQ);
}

static struct kunit_case conversation_cases[] = {
	KUNIT_CASE_PARAM(in_process_context, conversation_gen_params),
	KUNIT_CASE_PARAM(without_memory_in_the_upcall, conversation_gen_params),
	KUNIT_CASE_PARAM(in_the_upcall, upcall_conversations_gen_params),
	KUNIT_CASE_PARAM(under_a_lock, conversation_gen_params),
	KUNIT_CASE_PARAM(in_softirq_context, conversation_gen_params),
	KUNIT_CASE_PARAM(in_hardirq_context, conversation_gen_params),
	{}
};

TEST_SUITE("t3_rdma_cm_conversation", conversation_cases, .init = conversation_init,
	   .exit = conversation_exit);
