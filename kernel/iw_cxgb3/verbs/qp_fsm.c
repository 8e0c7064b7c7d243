// SPDX-License-Identifier: GPL-2.0
/*
 * QP transitions. An event without a row is illegal: the caller counts and
 * refuses it, and nothing changes.
 */
#include "qp_fsm.h"

#define END_IN_ERROR	(T3_QPA_MARK_ERROR | T3_QPA_FLUSH | T3_QPA_DROP_EP)

#define TO(state, acts) { .legal = true, .next = T3_QPS_##state, .actions = (acts) }

static const struct t3_qp_transition t3_qp_transitions[T3_QPS_NUM][T3_QPEV_NUM] = {
	[T3_QPS_IDLE] = {
		[T3_QPEV_CONNECT]	= TO(RTS, T3_QPA_NONE),
		[T3_QPEV_LOST]		= TO(ERROR, END_IN_ERROR),
		/* As rdma_accept() of librdmacm and the kernel do after an error. */
		[T3_QPEV_ACCEPT_FAILED]	= TO(ERROR, T3_QPA_MARK_ERROR | T3_QPA_FLUSH),
		[T3_QPEV_USER_RESET]	= TO(IDLE, T3_QPA_RESET),
		[T3_QPEV_USER_INIT]	= TO(IDLE, T3_QPA_NONE),
		/* The peer may have completed the close before the consumer requests one. */
		[T3_QPEV_USER_CLOSE]	= TO(IDLE, T3_QPA_NONE),
		[T3_QPEV_USER_ERROR]	= TO(ERROR, T3_QPA_MARK_ERROR | T3_QPA_FLUSH |
						    T3_QPA_ABORT_CONNECT),
		[T3_QPEV_DESTROY]	= TO(ERROR, T3_QPA_MARK_ERROR | T3_QPA_FLUSH),
	},
	[T3_QPS_RTS] = {
		[T3_QPEV_PEER_CLOSE]	= TO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_CLOSED]	= TO(IDLE, T3_QPA_FLUSH | T3_QPA_DROP_EP),
		[T3_QPEV_LOST]		= TO(ERROR, END_IN_ERROR),
		/* It has another connection. */
		[T3_QPEV_ACCEPT_FAILED]	= TO(RTS, T3_QPA_NONE),
		[T3_QPEV_PROTO_ERROR]	= TO(TERMINATE, T3_QPA_MARK_ERROR | T3_QPA_TERMINATE),
		[T3_QPEV_TERM_RCVD]	= TO(TERMINATE, T3_QPA_MARK_ERROR | T3_QPA_DISCONNECT),
		[T3_QPEV_USER_TERM]	= TO(TERMINATE, T3_QPA_MARK_ERROR | T3_QPA_TERMINATE),
		[T3_QPEV_USER_CLOSE]	= TO(CLOSING, T3_QPA_DISCONNECT),
		[T3_QPEV_USER_ERROR]	= TO(ERROR, END_IN_ERROR | T3_QPA_ABORT),
		[T3_QPEV_DESTROY]	= TO(ERROR, END_IN_ERROR | T3_QPA_ABORT),
	},
	/*
	 * Destroy lets a close in progress complete, so that data which the peer
	 * has not acknowledged yet is not lost. T3_EP_LINGER limits it: destroy waits.
	 */
	[T3_QPS_CLOSING] = {
		[T3_QPEV_PEER_CLOSE]	= TO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_CLOSED]	= TO(IDLE, T3_QPA_FLUSH | T3_QPA_DROP_EP),
		[T3_QPEV_LOST]		= TO(ERROR, END_IN_ERROR),
		[T3_QPEV_ACCEPT_FAILED]	= TO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_PROTO_ERROR]	= TO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_TERM_RCVD]	= TO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_USER_CLOSE]	= TO(CLOSING, T3_QPA_NONE),
		[T3_QPEV_USER_ERROR]	= TO(ERROR, END_IN_ERROR | T3_QPA_ABORT),
		[T3_QPEV_DESTROY]	= TO(CLOSING, T3_QPA_LINGER),
	},
	/* Left only when the connection ends. */
	[T3_QPS_TERMINATE] = {
		[T3_QPEV_PEER_CLOSE]	= TO(TERMINATE, T3_QPA_NONE),
		[T3_QPEV_CLOSED]	= TO(ERROR, END_IN_ERROR),
		[T3_QPEV_LOST]		= TO(ERROR, END_IN_ERROR),
		[T3_QPEV_ACCEPT_FAILED]	= TO(TERMINATE, T3_QPA_NONE),
		[T3_QPEV_PROTO_ERROR]	= TO(TERMINATE, T3_QPA_NONE),
		[T3_QPEV_TERM_RCVD]	= TO(TERMINATE, T3_QPA_DISCONNECT),
		[T3_QPEV_USER_TERM]	= TO(TERMINATE, T3_QPA_NONE),
		[T3_QPEV_USER_CLOSE]	= TO(TERMINATE, T3_QPA_NONE),
		[T3_QPEV_USER_ERROR]	= TO(ERROR, END_IN_ERROR | T3_QPA_ABORT),
		[T3_QPEV_DESTROY]	= TO(TERMINATE, T3_QPA_LINGER),
	},
	/*
	 * Late events of a dropped connection are legal. So is a close: rdma_disconnect() starts
	 * with one, and the peer may have ended the connection before.
	 */
	[T3_QPS_ERROR] = {
		[T3_QPEV_PEER_CLOSE]	= TO(ERROR, T3_QPA_NONE),
		[T3_QPEV_CLOSED]	= TO(ERROR, T3_QPA_NONE),
		[T3_QPEV_LOST]		= TO(ERROR, T3_QPA_NONE),
		[T3_QPEV_ACCEPT_FAILED]	= TO(ERROR, T3_QPA_NONE),
		[T3_QPEV_PROTO_ERROR]	= TO(ERROR, T3_QPA_NONE),
		[T3_QPEV_TERM_RCVD]	= TO(ERROR, T3_QPA_NONE),
		[T3_QPEV_USER_RESET]	= TO(IDLE, T3_QPA_RESET),
		[T3_QPEV_USER_CLOSE]	= TO(ERROR, T3_QPA_NONE),
		[T3_QPEV_USER_ERROR]	= TO(ERROR, T3_QPA_NONE),
		[T3_QPEV_DESTROY]	= TO(ERROR, T3_QPA_NONE),
	},
};

struct t3_qp_transition t3_qp_fsm(enum t3_qp_state from, enum t3_qp_event ev)
{
	static const struct t3_qp_transition illegal;

	if ((unsigned int)from >= T3_QPS_NUM || (unsigned int)ev >= T3_QPEV_NUM)
		return illegal;
	return t3_qp_transitions[from][ev];
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
		[T3_QPEV_ACCEPT_FAILED]	= "accept failed",
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
