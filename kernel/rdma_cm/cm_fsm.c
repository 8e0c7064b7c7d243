// SPDX-License-Identifier: GPL-2.0
/*
 * The table of an id's life. Read a row as: in this state, this event leads there
 * and makes id.c do that. A pair that is not listed is refused: a call answers
 * EINVAL, an event is counted, traced and dropped.
 *
 * What the unit tests and the model hold the table to:
 *
 *  - a QP reference is held from CONNECT or ACCEPT to CM_DROP_QP, and every way
 *    from a state that holds one to a state that holds none has CM_DROP_QP;
 *    where the provider still owes us an answer the reference stays;
 *  - each connection that the consumer was told of ends in one of CM_TELL_END, or
 *    in the consumer's own DESTROY, and nothing is told afterwards;
 *  - CLOSE is the provider's last word: every state that may hold a QP reference takes it
 *    and drops the reference;
 *  - CM_TELL_ESTABLISHED leads to no state in which it could come again;
 *  - calls tell nothing: they return what they have to say;
 *  - every state but CM_DYING takes DESTROY, every state of a bound id REMOVE.
 */
#include <linux/types.h>

#include "cm_fsm.h"

#define TO(next_state, acts)	{ .legal = true, .next = (next_state), .actions = (acts) }
/* Late, or already under way: nothing to do. */
#define STAY(state)		TO(state, 0)

#define LET_GO			(CM_ABORT | CM_DROP_QP)

/* Before there is a connection an id ends like this. */
#define ENDS_SIMPLY								\
		[CM_EV_REMOVE]		= TO(CM_REMOVED, CM_TELL_REMOVAL),	\
		[CM_EV_DESTROY]		= TO(CM_DYING, 0)

/*
 * What may still be under way when an id is taken from its consumer. A connection
 * that comes about now is nobody's: it is aborted.
 */
#define TAKES_WHAT_IS_LATE(state)						\
		[CM_EV_BIND_DONE]	= STAY(state),				\
		[CM_EV_BIND_FAILED]	= STAY(state),				\
		[CM_EV_RESOLVE_FAILED]	= STAY(state),				\
		[CM_EV_LISTEN_FAILED]	= TO(state, CM_UNLISTEN),		\
		[CM_EV_CONNECT_FAILED]	= TO(state, CM_DROP_QP),		\
		[CM_EV_ACCEPT_FAILED]	= TO(state, CM_DROP_QP),		\
		[CM_EV_ADDR_DONE]	= STAY(state),				\
		[CM_EV_ADDR_FAILED]	= STAY(state),				\
		[CM_EV_ROUTE_DONE]	= STAY(state),				\
		[CM_EV_REPLY_OK]	= TO(state, LET_GO),			\
		[CM_EV_REPLY_OK_QPLESS]	= TO(state, LET_GO),			\
		[CM_EV_REPLY_FAILED]	= TO(state, CM_DROP_QP),		\
		[CM_EV_ESTABLISHED]	= TO(state, LET_GO),			\
		[CM_EV_PEER_CLOSE]	= STAY(state),				\
		[CM_EV_CLOSE]		= TO(state, CM_DROP_QP)

static const struct cm_cell cm_table[CM_NUM_STATES][CM_NUM_EVENTS] = {
	[CM_IDLE] = {
		[CM_EV_BIND]		= TO(CM_BINDING, 0),
		[CM_EV_REQUEST]		= TO(CM_REQUESTED, CM_TELL_REQUEST),
		[CM_EV_DESTROY]		= TO(CM_DYING, 0),
	},
	[CM_BINDING] = {
		[CM_EV_BIND_DONE]	= TO(CM_BOUND, 0),
		[CM_EV_BIND_FAILED]	= TO(CM_IDLE, 0),
		ENDS_SIMPLY,
	},
	[CM_BOUND] = {
		[CM_EV_RESOLVE_ADDR]	= TO(CM_ADDR_QUERY, 0),
		[CM_EV_LISTEN]		= TO(CM_LISTENING, 0),
		ENDS_SIMPLY,
	},
	[CM_ADDR_QUERY] = {
		[CM_EV_ADDR_DONE]	= TO(CM_ADDR_RESOLVED, CM_TELL_ADDR),
		[CM_EV_ADDR_FAILED]	= TO(CM_BOUND, CM_TELL_ADDR_ERROR),
		[CM_EV_RESOLVE_FAILED]	= TO(CM_BOUND, 0),
		ENDS_SIMPLY,
	},
	[CM_ADDR_RESOLVED] = {
		[CM_EV_RESOLVE_ROUTE]	= TO(CM_ROUTE_QUERY, 0),
		ENDS_SIMPLY,
	},
	[CM_ROUTE_QUERY] = {
		[CM_EV_ROUTE_DONE]	= TO(CM_ROUTE_RESOLVED, CM_TELL_ROUTE),
		ENDS_SIMPLY,
	},
	[CM_ROUTE_RESOLVED] = {
		[CM_EV_CONNECT]		= TO(CM_CONNECTING, 0),
		ENDS_SIMPLY,
	},
	[CM_LISTENING] = {
		[CM_EV_LISTEN_FAILED]	= TO(CM_BOUND, CM_UNLISTEN),
		[CM_EV_REMOVE]		= TO(CM_REMOVED, CM_UNLISTEN | CM_TELL_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_DYING, CM_UNLISTEN),
	},
	/*
	 * A provider cannot call a connect back: whoever gives up waits for its reply. It may
	 * end the connection with CLOSE instead, and then there is no reply any more.
	 */
	[CM_CONNECTING] = {
		[CM_EV_REPLY_OK]	= TO(CM_CONNECTED, CM_TELL_ESTABLISHED),
		[CM_EV_REPLY_OK_QPLESS]	= TO(CM_ANSWERED, CM_TELL_RESPONSE),
		[CM_EV_REPLY_FAILED]	= TO(CM_CLOSED, CM_DROP_QP | CM_TELL_FAILED),
		[CM_EV_CONNECT_FAILED]	= TO(CM_ROUTE_RESOLVED, CM_DROP_QP),
		[CM_EV_CLOSE]		= TO(CM_CLOSED, CM_DROP_QP | CM_TELL_FAILED),
		[CM_EV_DISCONNECT]	= TO(CM_CANCELLING, 0),
		[CM_EV_REMOVE]		= TO(CM_REMOVED, CM_TELL_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_DYING, 0),
	},
	[CM_ANSWERED] = {
		[CM_EV_ESTABLISH]	= TO(CM_CONNECTED, 0),
		[CM_EV_REJECT]		= TO(CM_CLOSED, LET_GO),
		[CM_EV_DISCONNECT]	= TO(CM_CLOSING, CM_CLOSE),
		[CM_EV_PEER_CLOSE]	= TO(CM_CLOSING, 0),
		[CM_EV_CLOSE]		= TO(CM_CLOSED, CM_DROP_QP | CM_TELL_DISCONNECTED),
		[CM_EV_REMOVE]		= TO(CM_REMOVED, LET_GO | CM_TELL_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_DYING, LET_GO),
	},
	[CM_REQUESTED] = {
		[CM_EV_ACCEPT]		= TO(CM_ACCEPTING, 0),
		[CM_EV_REJECT]		= TO(CM_CLOSED, CM_REFUSE),
		/* Nothing to disconnect yet; the call has always been let through. */
		[CM_EV_DISCONNECT]	= STAY(CM_REQUESTED),
		[CM_EV_REMOVE]		= TO(CM_REMOVED, CM_REFUSE | CM_TELL_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_DYING, CM_REFUSE),
	},
	[CM_ACCEPTING] = {
		[CM_EV_ESTABLISHED]	= TO(CM_CONNECTED, CM_TELL_ESTABLISHED),
		[CM_EV_ACCEPT_FAILED]	= TO(CM_CLOSED, CM_DROP_QP),
		[CM_EV_PEER_CLOSE]	= STAY(CM_ACCEPTING),
		[CM_EV_CLOSE]		= TO(CM_CLOSED, CM_DROP_QP | CM_TELL_FAILED),
		[CM_EV_DISCONNECT]	= TO(CM_CANCELLING, 0),
		[CM_EV_REMOVE]		= TO(CM_REMOVED, CM_TELL_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_DYING, 0),
	},
	/* A connection that comes about all the same is told, so that its end can be. */
	[CM_CANCELLING] = {
		[CM_EV_REPLY_OK]	= TO(CM_CLOSING, CM_CLOSE | CM_TELL_ESTABLISHED),
		[CM_EV_REPLY_OK_QPLESS]	= TO(CM_CLOSING, CM_CLOSE | CM_TELL_ESTABLISHED),
		[CM_EV_ESTABLISHED]	= TO(CM_CLOSING, CM_CLOSE | CM_TELL_ESTABLISHED),
		[CM_EV_REPLY_FAILED]	= TO(CM_CLOSED, CM_DROP_QP | CM_TELL_FAILED),
		[CM_EV_CONNECT_FAILED]	= TO(CM_CLOSED, CM_DROP_QP),
		[CM_EV_ACCEPT_FAILED]	= TO(CM_CLOSED, CM_DROP_QP),
		[CM_EV_PEER_CLOSE]	= STAY(CM_CANCELLING),
		[CM_EV_CLOSE]		= TO(CM_CLOSED, CM_DROP_QP | CM_TELL_FAILED),
		[CM_EV_DISCONNECT]	= STAY(CM_CANCELLING),
		[CM_EV_REMOVE]		= TO(CM_REMOVED, CM_TELL_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_DYING, 0),
	},
	[CM_CONNECTED] = {
		[CM_EV_DISCONNECT]	= TO(CM_CLOSING, CM_CLOSE),
		[CM_EV_PEER_CLOSE]	= TO(CM_CLOSING, 0),
		[CM_EV_CLOSE]		= TO(CM_CLOSED, CM_DROP_QP | CM_TELL_DISCONNECTED),
		[CM_EV_REMOVE]		= TO(CM_REMOVED, LET_GO | CM_TELL_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_DYING, LET_GO),
	},
	/* Destroyed while it closes: what was sent may still arrive, so no abort. */
	[CM_CLOSING] = {
		[CM_EV_DISCONNECT]	= STAY(CM_CLOSING),
		[CM_EV_PEER_CLOSE]	= STAY(CM_CLOSING),
		[CM_EV_CLOSE]		= TO(CM_CLOSED, CM_DROP_QP | CM_TELL_DISCONNECTED),
		[CM_EV_REMOVE]		= TO(CM_REMOVED, LET_GO | CM_TELL_REMOVAL),
		[CM_EV_DESTROY]		= TO(CM_DYING, CM_DROP_QP),
	},
	[CM_CLOSED] = {
		[CM_EV_DISCONNECT]	= STAY(CM_CLOSED),
		[CM_EV_PEER_CLOSE]	= STAY(CM_CLOSED),
		[CM_EV_CLOSE]		= STAY(CM_CLOSED),
		ENDS_SIMPLY,
	},
	[CM_REMOVED] = {
		TAKES_WHAT_IS_LATE(CM_REMOVED),
		[CM_EV_DISCONNECT]	= STAY(CM_REMOVED),
		[CM_EV_DESTROY]		= TO(CM_DYING, 0),
	},
	[CM_DYING] = {
		TAKES_WHAT_IS_LATE(CM_DYING),
		[CM_EV_REMOVE]		= STAY(CM_DYING),
	},
};

static const char *const cm_state_names[CM_NUM_STATES] = {
	[CM_IDLE]		= "idle",
	[CM_BINDING]		= "binding",
	[CM_BOUND]		= "bound",
	[CM_ADDR_QUERY]		= "addr-query",
	[CM_ADDR_RESOLVED]	= "addr-resolved",
	[CM_ROUTE_QUERY]	= "route-query",
	[CM_ROUTE_RESOLVED]	= "route-resolved",
	[CM_LISTENING]		= "listening",
	[CM_CONNECTING]		= "connecting",
	[CM_ANSWERED]		= "answered",
	[CM_REQUESTED]		= "requested",
	[CM_ACCEPTING]		= "accepting",
	[CM_CANCELLING]		= "cancelling",
	[CM_CONNECTED]		= "connected",
	[CM_CLOSING]		= "closing",
	[CM_CLOSED]		= "closed",
	[CM_REMOVED]		= "removed",
	[CM_DYING]		= "dying",
};

static const char *const cm_event_names[CM_NUM_EVENTS] = {
	[CM_EV_BIND]		= "bind",
	[CM_EV_BIND_DONE]	= "bind-done",
	[CM_EV_BIND_FAILED]	= "bind-failed",
	[CM_EV_RESOLVE_ADDR]	= "resolve-addr",
	[CM_EV_RESOLVE_FAILED]	= "resolve-failed",
	[CM_EV_RESOLVE_ROUTE]	= "resolve-route",
	[CM_EV_LISTEN]		= "listen",
	[CM_EV_LISTEN_FAILED]	= "listen-failed",
	[CM_EV_CONNECT]		= "connect",
	[CM_EV_CONNECT_FAILED]	= "connect-failed",
	[CM_EV_ACCEPT]		= "accept",
	[CM_EV_ACCEPT_FAILED]	= "accept-failed",
	[CM_EV_ESTABLISH]	= "establish",
	[CM_EV_REJECT]		= "reject",
	[CM_EV_DISCONNECT]	= "disconnect",
	[CM_EV_DESTROY]		= "destroy",
	[CM_EV_ADDR_DONE]	= "addr-done",
	[CM_EV_ADDR_FAILED]	= "addr-failed",
	[CM_EV_ROUTE_DONE]	= "route-done",
	[CM_EV_REQUEST]		= "request",
	[CM_EV_REPLY_OK]	= "reply-ok",
	[CM_EV_REPLY_OK_QPLESS]	= "reply-ok-qpless",
	[CM_EV_REPLY_FAILED]	= "reply-failed",
	[CM_EV_ESTABLISHED]	= "established",
	[CM_EV_PEER_CLOSE]	= "peer-close",
	[CM_EV_CLOSE]		= "close",
	[CM_EV_REMOVE]		= "remove",
};

static const char *const cm_action_names[CM_NUM_ACTIONS] = {
	"unlisten", "close", "abort", "refuse", "drop-qp", "tell-addr", "tell-addr-error",
	"tell-route", "tell-request", "tell-response", "tell-established", "tell-failed",
	"tell-disconnected", "tell-removal",
};

/**
 * cm_fsm - look a pair up
 * @state: state of the id
 * @event: what happened
 *
 * Return: the cell, or NULL if the event is not legal in this state.
 */
const struct cm_cell *cm_fsm(enum cm_state state, enum cm_event event)
{
	const struct cm_cell *cell;

	if ((unsigned int)state >= CM_NUM_STATES || (unsigned int)event >= CM_NUM_EVENTS)
		return NULL;
	cell = &cm_table[state][event];
	return cell->legal ? cell : NULL;
}

const char *cm_state_name(enum cm_state state)
{
	return (unsigned int)state < CM_NUM_STATES ? cm_state_names[state] : "?";
}

const char *cm_event_name(enum cm_event event)
{
	return (unsigned int)event < CM_NUM_EVENTS ? cm_event_names[event] : "?";
}

const char *cm_action_name(unsigned int bit)
{
	return bit < CM_NUM_ACTIONS ? cm_action_names[bit] : "?";
}
