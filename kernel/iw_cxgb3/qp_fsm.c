// SPDX-License-Identifier: GPL-2.0
/*
 * QP transitions. An empty row is an illegal event: it is counted and refused
 * by the caller, and changes nothing.
 */
#include "qp_fsm.h"

#define TO_ERROR	(T3_QPA_MARK_ERROR | T3_QPA_FLUSH | T3_QPA_DETACH)

#define GO(state, act) { .legal = true, .next = T3_QPS_##state, .actions = (act) }

static const struct t3_qp_step steps[T3_QPS_NUM][T3_QPEV_NUM] = {
	[T3_QPS_IDLE] = {
		[T3_QPEV_CONNECT]	= GO(RTS, T3_QPA_NONE),
		[T3_QPEV_LOST]		= GO(ERROR, TO_ERROR),
		[T3_QPEV_USER_RESET]	= GO(IDLE, T3_QPA_RESET),
		[T3_QPEV_USER_INIT]	= GO(IDLE, T3_QPA_NONE),
		/* The peer may have completed the close before the consumer asks for it. */
		[T3_QPEV_USER_CLOSE]	= GO(IDLE, T3_QPA_NONE),
		[T3_QPEV_USER_ERROR]	= GO(ERROR, T3_QPA_MARK_ERROR | T3_QPA_FLUSH),
		[T3_QPEV_DESTROY]	= GO(ERROR, T3_QPA_MARK_ERROR | T3_QPA_FLUSH),
	},
	[T3_QPS_RTS] = {
		[T3_QPEV_PEER_CLOSE]	= GO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_CLOSED]	= GO(IDLE, T3_QPA_FLUSH | T3_QPA_DETACH),
		[T3_QPEV_LOST]		= GO(ERROR, TO_ERROR),
		[T3_QPEV_PROTO_ERROR]	= GO(TERMINATE, T3_QPA_MARK_ERROR | T3_QPA_TERMINATE),
		[T3_QPEV_TERM_RCVD]	= GO(TERMINATE, T3_QPA_MARK_ERROR | T3_QPA_DISCONNECT),
		[T3_QPEV_USER_TERM]	= GO(TERMINATE, T3_QPA_MARK_ERROR | T3_QPA_TERMINATE),
		[T3_QPEV_USER_CLOSE]	= GO(CLOSING, T3_QPA_DISCONNECT),
		[T3_QPEV_USER_ERROR]	= GO(ERROR, TO_ERROR | T3_QPA_ABORT),
		[T3_QPEV_DESTROY]	= GO(ERROR, TO_ERROR | T3_QPA_ABORT),
	},
	/*
	 * Destroy lets a close that has begun come to its end, instead of
	 * throwing away data that the peer has not acknowledged yet: the
	 * connection manager has a deadline for it.
	 */
	[T3_QPS_CLOSING] = {
		[T3_QPEV_PEER_CLOSE]	= GO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_CLOSED]	= GO(IDLE, T3_QPA_FLUSH | T3_QPA_DETACH),
		[T3_QPEV_LOST]		= GO(ERROR, TO_ERROR),
		[T3_QPEV_PROTO_ERROR]	= GO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_TERM_RCVD]	= GO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_USER_CLOSE]	= GO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_USER_ERROR]	= GO(ERROR, TO_ERROR | T3_QPA_ABORT),
		[T3_QPEV_DESTROY]	= GO(CLOSING, T3_QPA_NONE),
	},
	/* The way out of here is the end of the connection. */
	[T3_QPS_TERMINATE] = {
		[T3_QPEV_PEER_CLOSE]	= GO(TERMINATE, T3_QPA_NONE),
		[T3_QPEV_CLOSED]	= GO(ERROR, TO_ERROR),
		[T3_QPEV_LOST]		= GO(ERROR, TO_ERROR),
		[T3_QPEV_PROTO_ERROR]	= GO(TERMINATE, T3_QPA_NONE),
		[T3_QPEV_TERM_RCVD]	= GO(TERMINATE, T3_QPA_DISCONNECT),
		[T3_QPEV_USER_TERM]	= GO(TERMINATE, T3_QPA_NONE),
		[T3_QPEV_USER_CLOSE]	= GO(TERMINATE, T3_QPA_NONE),
		[T3_QPEV_USER_ERROR]	= GO(ERROR, TO_ERROR | T3_QPA_ABORT),
		[T3_QPEV_DESTROY]	= GO(TERMINATE, T3_QPA_NONE),
	},
	/* Late events of a connection that was given up are no error. */
	[T3_QPS_ERROR] = {
		[T3_QPEV_PEER_CLOSE]	= GO(ERROR, T3_QPA_NONE),
		[T3_QPEV_CLOSED]	= GO(ERROR, T3_QPA_NONE),
		[T3_QPEV_LOST]		= GO(ERROR, T3_QPA_NONE),
		[T3_QPEV_PROTO_ERROR]	= GO(ERROR, T3_QPA_NONE),
		[T3_QPEV_TERM_RCVD]	= GO(ERROR, T3_QPA_NONE),
		[T3_QPEV_USER_RESET]	= GO(IDLE, T3_QPA_RESET),
		[T3_QPEV_USER_ERROR]	= GO(ERROR, T3_QPA_NONE),
		[T3_QPEV_DESTROY]	= GO(ERROR, T3_QPA_NONE),
	},
};

struct t3_qp_step t3_qp_fsm(enum t3_qp_state from, enum t3_qp_event ev)
{
	static const struct t3_qp_step illegal;

	if ((unsigned int)from >= T3_QPS_NUM || (unsigned int)ev >= T3_QPEV_NUM)
		return illegal;
	return steps[from][ev];
}

const char *t3_qp_state_name(enum t3_qp_state state)
{
	static const char * const names[T3_QPS_NUM] = {
		[T3_QPS_IDLE]		= "IDLE",
		[T3_QPS_RTS]		= "RTS",
		[T3_QPS_ERROR]		= "ERROR",
		[T3_QPS_TERMINATE]	= "TERMINATE",
		[T3_QPS_CLOSING]	= "CLOSING",
	};

	return (unsigned int)state < T3_QPS_NUM ? names[state] : "?";
}

const char *t3_qp_event_name(enum t3_qp_event ev)
{
	static const char * const names[T3_QPEV_NUM] = {
		[T3_QPEV_CONNECT]	= "connect",
		[T3_QPEV_PEER_CLOSE]	= "peer close",
		[T3_QPEV_CLOSED]	= "closed",
		[T3_QPEV_LOST]		= "lost",
		[T3_QPEV_PROTO_ERROR]	= "protocol error",
		[T3_QPEV_TERM_RCVD]	= "terminate received",
		[T3_QPEV_USER_RESET]	= "user reset",
		[T3_QPEV_USER_INIT]	= "user init",
		[T3_QPEV_USER_TERM]	= "user terminate",
		[T3_QPEV_USER_CLOSE]	= "user close",
		[T3_QPEV_USER_ERROR]	= "user error",
		[T3_QPEV_DESTROY]	= "destroy",
	};

	return (unsigned int)ev < T3_QPEV_NUM ? names[ev] : "?";
}
