// SPDX-License-Identifier: GPL-2.0
/*
 * The state table of an id. A row reads: in this state, this event leads to that state, with those
 * actions. A state refuses an event that is not listed: a call returns -EINVAL; other events are
 * counted, traced and dropped.
 *
 * Unit tests and model check these rules:
 *
 *  - A QP reference is held from CONNECT or ACCEPT to CM_ACT_DROP_QP. (t3_rdma_accept() takes it
 *    just before ACCEPT, and puts it itself if ACCEPT is refused.) Every transition from a state
 *    that holds one to a state that holds none has CM_ACT_DROP_QP. While a connect or an accept of
 *    the provider is pending, the reference stays. The upcalls of REPLY_FAILED and CLOSE put it
 *    before the event is handled; CM_ACT_DROP_QP finds none then.
 *  - Each connection that was reported to the consumer ends with one of CM_ACT_REPORTS_END, or with
 *    the consumer's own DESTROY. Only notices are reported afterwards.
 *  - CLOSE is the last event of an iWARP provider. Every state that may hold a QP reference takes
 *    it, and drops the reference.
 *  - No state that follows CM_ACT_REPORT_ESTABLISHED can report it again.
 *  - Calls report no events: they have a return value.
 *  - Every state but CM_ST_DESTROYING takes DESTROY, and every state of a bound id that is not
 *    removed yet takes REMOVE.
 */
#include "cm_fsm.h"

#define ABORT_AND_DROP_QP	(CM_ACT_ABORT | CM_ACT_DROP_QP)

/* The end of an id without a connection. */
#define REMOVE_OR_DESTROY								\
		[CM_EV_REMOVE]		= TO(CM_ST_REMOVED, CM_ACT_REPORT_REMOVAL),	\
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, 0)

/* Events of an id with a device, in any state. */
#define TAKES_NOTICES(state)								\
		[CM_EV_GROUP]		= TO(state, CM_ACT_REPORT_NOTICE),		\
		[CM_EV_ADDR_CHANGE]	= TO(state, CM_ACT_REPORT_NOTICE)

/*
 * Events that may still come after the consumer has destroyed the id or its device was removed. A
 * connection that is established now has no consumer, and is aborted.
 */
#define TAKES_LATE_EVENTS(state)							\
		[CM_EV_BIND_DONE]	= STAY(state),					\
		[CM_EV_BIND_FAILED]	= STAY(state),					\
		[CM_EV_RESOLVE_FAILED]	= STAY(state),					\
		[CM_EV_ROUTE_FAILED]	= STAY(state),					\
		[CM_EV_LISTEN_FAILED]	= TO(state, CM_ACT_UNLISTEN),			\
		[CM_EV_CONNECT_FAILED]	= TO(state, CM_ACT_DROP_QP),			\
		[CM_EV_ACCEPT_FAILED]	= TO(state, CM_ACT_DROP_QP),			\
		[CM_EV_ACCEPTED]	= TO(state, CM_ACT_DROP_QP),			\
		[CM_EV_ESTABLISH_FAILED] = STAY(state),					\
		[CM_EV_ADDR_DONE]	= STAY(state),					\
		[CM_EV_ADDR_FAILED]	= STAY(state),					\
		[CM_EV_ROUTE_DONE]	= STAY(state),					\
		[CM_EV_REPLY_OK]	= TO(state, ABORT_AND_DROP_QP),			\
		[CM_EV_RESPONSE]	= TO(state, ABORT_AND_DROP_QP),			\
		[CM_EV_REPLY_FAILED]	= TO(state, CM_ACT_DROP_QP),			\
		[CM_EV_ESTABLISHED]	= TO(state, ABORT_AND_DROP_QP),			\
		[CM_EV_PEER_CLOSE]	= STAY(state),					\
		[CM_EV_CLOSE]		= TO(state, CM_ACT_DROP_QP),			\
		[CM_EV_TIMEWAIT_EXIT]	= STAY(state),					\
		[CM_EV_GROUP]		= STAY(state),					\
		[CM_EV_ADDR_CHANGE]	= STAY(state)

static const struct t3_transition cm_table[CM_NUM_STATES][CM_NUM_EVENTS] = {
	[CM_ST_IDLE] = {
		[CM_EV_BIND]		= TO(CM_ST_BINDING, 0),
		[CM_EV_REQUEST]		= TO(CM_ST_REQUESTED, CM_ACT_REPORT_REQUEST),
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, 0),
	},
	[CM_ST_BINDING] = {
		[CM_EV_BIND_DONE]	= TO(CM_ST_BOUND, 0),
		[CM_EV_BIND_FAILED]	= TO(CM_ST_IDLE, 0),
		REMOVE_OR_DESTROY,
	},
	[CM_ST_BOUND] = {
		[CM_EV_RESOLVE_ADDR]	= TO(CM_ST_ADDR_QUERY, 0),
		[CM_EV_LISTEN]		= TO(CM_ST_LISTENING, 0),
		REMOVE_OR_DESTROY,
		TAKES_NOTICES(CM_ST_BOUND),
	},
	[CM_ST_ADDR_QUERY] = {
		[CM_EV_ADDR_DONE]	= TO(CM_ST_ADDR_RESOLVED, CM_ACT_REPORT_ADDR),
		[CM_EV_ADDR_FAILED]	= TO(CM_ST_BOUND, CM_ACT_REPORT_ADDR_ERROR),
		[CM_EV_RESOLVE_FAILED]	= TO(CM_ST_BOUND, 0),
		REMOVE_OR_DESTROY,
		TAKES_NOTICES(CM_ST_ADDR_QUERY),
	},
	[CM_ST_ADDR_RESOLVED] = {
		[CM_EV_RESOLVE_ROUTE]	= TO(CM_ST_ROUTE_QUERY, 0),
		REMOVE_OR_DESTROY,
		TAKES_NOTICES(CM_ST_ADDR_RESOLVED),
	},
	[CM_ST_ROUTE_QUERY] = {
		[CM_EV_ROUTE_DONE]	= TO(CM_ST_ROUTE_RESOLVED, CM_ACT_REPORT_ROUTE),
		[CM_EV_ROUTE_FAILED]	= TO(CM_ST_ADDR_RESOLVED, 0),
		REMOVE_OR_DESTROY,
		TAKES_NOTICES(CM_ST_ROUTE_QUERY),
	},
	[CM_ST_ROUTE_RESOLVED] = {
		[CM_EV_CONNECT]		= TO(CM_ST_CONNECTING, 0),
		REMOVE_OR_DESTROY,
		TAKES_NOTICES(CM_ST_ROUTE_RESOLVED),
	},
	[CM_ST_LISTENING] = {
		[CM_EV_LISTEN_FAILED]	= TO(CM_ST_BOUND, CM_ACT_UNLISTEN),
		[CM_EV_REMOVE]		= TO(CM_ST_REMOVED,
					     CM_ACT_UNLISTEN | CM_ACT_REPORT_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, CM_ACT_UNLISTEN),
		TAKES_NOTICES(CM_ST_LISTENING),
	},
	/*
	 * An id that gives up waits for the reply: a provider may be able to cancel a connect
	 * (CM_ACT_CANCEL), but reports its end all the same. It may end the connection with CLOSE
	 * instead, and then no reply follows.
	 */
	[CM_ST_CONNECTING] = {
		[CM_EV_REPLY_OK]	= TO(CM_ST_CONNECTED, CM_ACT_REPORT_ESTABLISHED),
		[CM_EV_RESPONSE]	= TO(CM_ST_RESPONDED, CM_ACT_REPORT_RESPONSE),
		[CM_EV_REPLY_FAILED]	= TO(CM_ST_CLOSED, CM_ACT_DROP_QP | CM_ACT_REPORT_FAILED),
		[CM_EV_CONNECT_FAILED]	= TO(CM_ST_ROUTE_RESOLVED, CM_ACT_DROP_QP),
		[CM_EV_CLOSE]		= TO(CM_ST_CLOSED, CM_ACT_DROP_QP | CM_ACT_REPORT_FAILED),
		[CM_EV_DISCONNECT]	= TO(CM_ST_CANCELLING, 0),
		[CM_EV_REMOVE]		= TO(CM_ST_REMOVED, CM_ACT_CANCEL | CM_ACT_REPORT_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, CM_ACT_CANCEL),
		TAKES_NOTICES(CM_ST_CONNECTING),
	},
	[CM_ST_RESPONDED] = {
		[CM_EV_ESTABLISH]	= TO(CM_ST_CONNECTED, 0),
		[CM_EV_REJECT]		= TO(CM_ST_CLOSED, ABORT_AND_DROP_QP),
		[CM_EV_DISCONNECT]	= TO(CM_ST_CLOSING, CM_ACT_CLOSE),
		[CM_EV_REPLY_FAILED]	= TO(CM_ST_CLOSED, CM_ACT_DROP_QP | CM_ACT_REPORT_FAILED),
		[CM_EV_PEER_CLOSE]	= TO(CM_ST_CLOSING, 0),
		[CM_EV_CLOSE]		= TO(CM_ST_CLOSED,
					     CM_ACT_DROP_QP | CM_ACT_REPORT_DISCONNECTED),
		[CM_EV_REMOVE]		= TO(CM_ST_REMOVED,
					     ABORT_AND_DROP_QP | CM_ACT_REPORT_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, ABORT_AND_DROP_QP),
		TAKES_NOTICES(CM_ST_RESPONDED),
	},
	[CM_ST_REQUESTED] = {
		[CM_EV_ACCEPT]		= TO(CM_ST_ACCEPTING, 0),
		[CM_EV_REJECT]		= TO(CM_ST_CLOSED, CM_ACT_REJECT),
		/* There is nothing to disconnect yet. In-tree rdma_disconnect() returns 0, too. */
		[CM_EV_DISCONNECT]	= STAY(CM_ST_REQUESTED),
		[CM_EV_REPLY_FAILED]	= TO(CM_ST_CLOSED, CM_ACT_REPORT_FAILED),
		[CM_EV_REMOVE]		= TO(CM_ST_REMOVED, CM_ACT_REJECT | CM_ACT_REPORT_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, CM_ACT_REJECT),
		TAKES_NOTICES(CM_ST_REQUESTED),
	},
	[CM_ST_ACCEPTING] = {
		[CM_EV_ESTABLISHED]	= TO(CM_ST_CONNECTED, CM_ACT_REPORT_ESTABLISHED),
		[CM_EV_ACCEPTED]	= TO(CM_ST_CONNECTED, 0),
		[CM_EV_ACCEPT_FAILED]	= TO(CM_ST_CLOSED, CM_ACT_DROP_QP),
		[CM_EV_REPLY_FAILED]	= TO(CM_ST_CLOSED, CM_ACT_DROP_QP | CM_ACT_REPORT_FAILED),
		[CM_EV_PEER_CLOSE]	= STAY(CM_ST_ACCEPTING),
		[CM_EV_CLOSE]		= TO(CM_ST_CLOSED, CM_ACT_DROP_QP | CM_ACT_REPORT_FAILED),
		[CM_EV_DISCONNECT]	= TO(CM_ST_CANCELLING, 0),
		[CM_EV_REMOVE]		= TO(CM_ST_REMOVED, CM_ACT_CANCEL | CM_ACT_REPORT_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, CM_ACT_CANCEL),
		TAKES_NOTICES(CM_ST_ACCEPTING),
	},
	/*
	 * If the connection is established nevertheless, ESTABLISHED is reported first, so that
	 * DISCONNECTED can follow.
	 */
	[CM_ST_CANCELLING] = {
		[CM_EV_REPLY_OK]	= TO(CM_ST_CLOSING,
					     CM_ACT_CLOSE | CM_ACT_REPORT_ESTABLISHED),
		[CM_EV_RESPONSE]	= TO(CM_ST_CLOSING,
					     CM_ACT_CLOSE | CM_ACT_REPORT_ESTABLISHED),
		[CM_EV_ESTABLISHED]	= TO(CM_ST_CLOSING,
					     CM_ACT_CLOSE | CM_ACT_REPORT_ESTABLISHED),
		[CM_EV_REPLY_FAILED]	= TO(CM_ST_CLOSED, CM_ACT_DROP_QP | CM_ACT_REPORT_FAILED),
		[CM_EV_CONNECT_FAILED]	= TO(CM_ST_CLOSED, CM_ACT_DROP_QP),
		[CM_EV_ACCEPT_FAILED]	= TO(CM_ST_CLOSED, CM_ACT_DROP_QP),
		[CM_EV_PEER_CLOSE]	= STAY(CM_ST_CANCELLING),
		[CM_EV_CLOSE]		= TO(CM_ST_CLOSED, CM_ACT_DROP_QP | CM_ACT_REPORT_FAILED),
		[CM_EV_DISCONNECT]	= STAY(CM_ST_CANCELLING),
		[CM_EV_REMOVE]		= TO(CM_ST_REMOVED, CM_ACT_CANCEL | CM_ACT_REPORT_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, CM_ACT_CANCEL),
		TAKES_NOTICES(CM_ST_CANCELLING),
	},
	/* RoCE: ESTABLISHED is the RTU after rdma_notify(), here and in the states that follow. */
	[CM_ST_CONNECTED] = {
		[CM_EV_ESTABLISHED]	= STAY(CM_ST_CONNECTED),
		[CM_EV_DISCONNECT]	= TO(CM_ST_CLOSING, CM_ACT_CLOSE),
		[CM_EV_ESTABLISH_FAILED] = TO(CM_ST_CLOSED, ABORT_AND_DROP_QP),
		[CM_EV_REPLY_FAILED]	= TO(CM_ST_CLOSED,
					     CM_ACT_DROP_QP | CM_ACT_REPORT_DISCONNECTED),
		[CM_EV_PEER_CLOSE]	= TO(CM_ST_CLOSING, 0),
		[CM_EV_CLOSE]		= TO(CM_ST_CLOSED,
					     CM_ACT_DROP_QP | CM_ACT_REPORT_DISCONNECTED),
		[CM_EV_REMOVE]		= TO(CM_ST_REMOVED,
					     ABORT_AND_DROP_QP | CM_ACT_REPORT_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, ABORT_AND_DROP_QP),
		TAKES_NOTICES(CM_ST_CONNECTED),
	},
	/* DESTROY does not abort here: data that was sent may still be delivered. */
	[CM_ST_CLOSING] = {
		[CM_EV_ESTABLISHED]	= STAY(CM_ST_CLOSING),
		[CM_EV_DISCONNECT]	= STAY(CM_ST_CLOSING),
		[CM_EV_ESTABLISH_FAILED] = STAY(CM_ST_CLOSING),
		[CM_EV_REPLY_FAILED]	= TO(CM_ST_CLOSED,
					     CM_ACT_DROP_QP | CM_ACT_REPORT_DISCONNECTED),
		[CM_EV_PEER_CLOSE]	= STAY(CM_ST_CLOSING),
		[CM_EV_CLOSE]		= TO(CM_ST_CLOSED,
					     CM_ACT_DROP_QP | CM_ACT_REPORT_DISCONNECTED),
		[CM_EV_REMOVE]		= TO(CM_ST_REMOVED,
					     ABORT_AND_DROP_QP | CM_ACT_REPORT_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, CM_ACT_DROP_QP),
		TAKES_NOTICES(CM_ST_CLOSING),
	},
	/* RoCE: a disconnect answers the DREQ of the peer. */
	[CM_ST_CLOSED] = {
		[CM_EV_ESTABLISHED]	= STAY(CM_ST_CLOSED),
		[CM_EV_DISCONNECT]	= TO(CM_ST_CLOSED, CM_ACT_CLOSE),
		[CM_EV_ESTABLISH_FAILED] = STAY(CM_ST_CLOSED),
		[CM_EV_REPLY_FAILED]	= STAY(CM_ST_CLOSED),
		[CM_EV_PEER_CLOSE]	= STAY(CM_ST_CLOSED),
		[CM_EV_CLOSE]		= STAY(CM_ST_CLOSED),
		[CM_EV_TIMEWAIT_EXIT]	= TO(CM_ST_CLOSED, CM_ACT_REPORT_NOTICE),
		REMOVE_OR_DESTROY,
		TAKES_NOTICES(CM_ST_CLOSED),
	},
	[CM_ST_REMOVED] = {
		TAKES_LATE_EVENTS(CM_ST_REMOVED),
		[CM_EV_DISCONNECT]	= STAY(CM_ST_REMOVED),
		[CM_EV_DESTROY]		= TO(CM_ST_DESTROYING, 0),
	},
	[CM_ST_DESTROYING] = {
		TAKES_LATE_EVENTS(CM_ST_DESTROYING),
		[CM_EV_REMOVE]		= STAY(CM_ST_DESTROYING),
	},
};

static const char *const cm_state_names[CM_NUM_STATES] = {
	[CM_ST_IDLE]		= "idle",
	[CM_ST_BINDING]		= "binding",
	[CM_ST_BOUND]		= "bound",
	[CM_ST_ADDR_QUERY]	= "addr-query",
	[CM_ST_ADDR_RESOLVED]	= "addr-resolved",
	[CM_ST_ROUTE_QUERY]	= "route-query",
	[CM_ST_ROUTE_RESOLVED]	= "route-resolved",
	[CM_ST_LISTENING]	= "listening",
	[CM_ST_CONNECTING]	= "connecting",
	[CM_ST_RESPONDED]	= "responded",
	[CM_ST_REQUESTED]	= "requested",
	[CM_ST_ACCEPTING]	= "accepting",
	[CM_ST_CANCELLING]	= "cancelling",
	[CM_ST_CONNECTED]	= "connected",
	[CM_ST_CLOSING]		= "closing",
	[CM_ST_CLOSED]		= "closed",
	[CM_ST_REMOVED]		= "removed",
	[CM_ST_DESTROYING]	= "destroying",
};

static const char *const cm_event_names[CM_NUM_EVENTS] = {
	[CM_EV_BIND]		= "bind",
	[CM_EV_BIND_DONE]	= "bind-done",
	[CM_EV_BIND_FAILED]	= "bind-failed",
	[CM_EV_RESOLVE_ADDR]	= "resolve-addr",
	[CM_EV_RESOLVE_FAILED]	= "resolve-failed",
	[CM_EV_RESOLVE_ROUTE]	= "resolve-route",
	[CM_EV_ROUTE_FAILED]	= "route-failed",
	[CM_EV_LISTEN]		= "listen",
	[CM_EV_LISTEN_FAILED]	= "listen-failed",
	[CM_EV_CONNECT]		= "connect",
	[CM_EV_CONNECT_FAILED]	= "connect-failed",
	[CM_EV_ACCEPT]		= "accept",
	[CM_EV_ACCEPT_FAILED]	= "accept-failed",
	[CM_EV_ACCEPTED]	= "accepted",
	[CM_EV_ESTABLISH]	= "establish",
	[CM_EV_ESTABLISH_FAILED] = "establish-failed",
	[CM_EV_REJECT]		= "reject",
	[CM_EV_DISCONNECT]	= "disconnect",
	[CM_EV_DESTROY]		= "destroy",
	[CM_EV_ADDR_DONE]	= "addr-done",
	[CM_EV_ADDR_FAILED]	= "addr-failed",
	[CM_EV_ROUTE_DONE]	= "route-done",
	[CM_EV_REQUEST]		= "request",
	[CM_EV_REPLY_OK]	= "reply-ok",
	[CM_EV_RESPONSE]	= "response",
	[CM_EV_REPLY_FAILED]	= "reply-failed",
	[CM_EV_ESTABLISHED]	= "established",
	[CM_EV_PEER_CLOSE]	= "peer-close",
	[CM_EV_CLOSE]		= "close",
	[CM_EV_TIMEWAIT_EXIT]	= "timewait-exit",
	[CM_EV_GROUP]		= "group",
	[CM_EV_ADDR_CHANGE]	= "addr-change",
	[CM_EV_REMOVE]		= "remove",
};

const struct t3_transition *cm_fsm(enum cm_state state, enum cm_event event)
{
	return t3_fsm_lookup(cm_table, state, event);
}

const char *cm_state_name(enum cm_state state)
{
	return t3_fsm_name(cm_state_names, state);
}

const char *cm_event_name(enum cm_event event)
{
	return t3_fsm_name(cm_event_names, event);
}
