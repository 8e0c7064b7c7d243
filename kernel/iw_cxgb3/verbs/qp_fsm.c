// SPDX-License-Identifier: GPL-2.0
/*
 * QP transitions. An event without a row is illegal: the caller counts and
 * refuses it, and nothing changes.
 */
#include "qp_fsm.h"

#define STOP_AND_FLUSH		(T3_QPA_MARK_ERROR | T3_QPA_FLUSH)
#define END_IN_ERROR		(STOP_AND_FLUSH | T3_QPA_DROP_EP)
#define STOP_AND_TERMINATE	(T3_QPA_MARK_ERROR | T3_QPA_TERMINATE)
#define STOP_AND_DISCONNECT	(T3_QPA_MARK_ERROR | T3_QPA_DISCONNECT)

static const struct t3_transition t3_qp_table[T3_QPS_NUM][T3_QPEV_NUM] = {
	[T3_QPS_IDLE] = {
		[T3_QPEV_CONNECT]	= TO(T3_QPS_RTS, 0),
		[T3_QPEV_LOST]		= TO(T3_QPS_ERROR, END_IN_ERROR),
		/* As rdma_accept() of librdmacm and the kernel do after an error. */
		[T3_QPEV_ACCEPT_FAILED]	= TO(T3_QPS_ERROR, STOP_AND_FLUSH),
		[T3_QPEV_USER_RESET]	= TO(T3_QPS_IDLE, T3_QPA_RESET),
		[T3_QPEV_USER_INIT]	= STAY(T3_QPS_IDLE),
		/* The peer may have completed the close before the consumer requests one. */
		[T3_QPEV_USER_CLOSE]	= STAY(T3_QPS_IDLE),
		[T3_QPEV_USER_ERROR]	= TO(T3_QPS_ERROR, STOP_AND_FLUSH | T3_QPA_ABORT_CONNECT),
		[T3_QPEV_DESTROY]	= TO(T3_QPS_ERROR, STOP_AND_FLUSH),
	},
	[T3_QPS_RTS] = {
		[T3_QPEV_PEER_CLOSE]	= TO(T3_QPS_CLOSING, 0),
		[T3_QPEV_CLOSED]	= TO(T3_QPS_IDLE, T3_QPA_FLUSH | T3_QPA_DROP_EP),
		[T3_QPEV_LOST]		= TO(T3_QPS_ERROR, END_IN_ERROR),
		/* The QP has another connection. */
		[T3_QPEV_ACCEPT_FAILED]	= STAY(T3_QPS_RTS),
		[T3_QPEV_PROTO_ERROR]	= TO(T3_QPS_TERMINATE, STOP_AND_TERMINATE),
		[T3_QPEV_TERM_RCVD]	= TO(T3_QPS_TERMINATE, STOP_AND_DISCONNECT),
		[T3_QPEV_USER_TERM]	= TO(T3_QPS_TERMINATE, STOP_AND_TERMINATE),
		[T3_QPEV_USER_CLOSE]	= TO(T3_QPS_CLOSING, T3_QPA_DISCONNECT),
		[T3_QPEV_USER_ERROR]	= TO(T3_QPS_ERROR, END_IN_ERROR | T3_QPA_ABORT),
		[T3_QPEV_DESTROY]	= TO(T3_QPS_ERROR, END_IN_ERROR | T3_QPA_ABORT),
	},
	/*
	 * Destroy lets a close in progress complete, so that data which the peer
	 * has not acknowledged yet is not lost. T3_CLOSE_TIMEOUT limits it: destroy waits.
	 */
	[T3_QPS_CLOSING] = {
		[T3_QPEV_PEER_CLOSE]	= STAY(T3_QPS_CLOSING),
		[T3_QPEV_CLOSED]	= TO(T3_QPS_IDLE, T3_QPA_FLUSH | T3_QPA_DROP_EP),
		[T3_QPEV_LOST]		= TO(T3_QPS_ERROR, END_IN_ERROR),
		[T3_QPEV_ACCEPT_FAILED]	= STAY(T3_QPS_CLOSING),
		[T3_QPEV_PROTO_ERROR]	= STAY(T3_QPS_CLOSING),
		[T3_QPEV_TERM_RCVD]	= STAY(T3_QPS_CLOSING),
		[T3_QPEV_USER_CLOSE]	= STAY(T3_QPS_CLOSING),
		[T3_QPEV_USER_ERROR]	= TO(T3_QPS_ERROR, END_IN_ERROR | T3_QPA_ABORT),
		[T3_QPEV_DESTROY]	= TO(T3_QPS_CLOSING, T3_QPA_LIMIT_CLOSE),
	},
	/* Left only when the connection ends. */
	[T3_QPS_TERMINATE] = {
		[T3_QPEV_PEER_CLOSE]	= STAY(T3_QPS_TERMINATE),
		[T3_QPEV_CLOSED]	= TO(T3_QPS_ERROR, END_IN_ERROR),
		[T3_QPEV_LOST]		= TO(T3_QPS_ERROR, END_IN_ERROR),
		[T3_QPEV_ACCEPT_FAILED]	= STAY(T3_QPS_TERMINATE),
		[T3_QPEV_PROTO_ERROR]	= STAY(T3_QPS_TERMINATE),
		[T3_QPEV_TERM_RCVD]	= TO(T3_QPS_TERMINATE, T3_QPA_DISCONNECT),
		[T3_QPEV_USER_TERM]	= STAY(T3_QPS_TERMINATE),
		[T3_QPEV_USER_CLOSE]	= STAY(T3_QPS_TERMINATE),
		[T3_QPEV_USER_ERROR]	= TO(T3_QPS_ERROR, END_IN_ERROR | T3_QPA_ABORT),
		[T3_QPEV_DESTROY]	= TO(T3_QPS_TERMINATE, T3_QPA_LIMIT_CLOSE),
	},
	/*
	 * Late events of a dropped connection are legal. So is a close: rdma_disconnect() starts
	 * with one, and the peer may have ended the connection before.
	 */
	[T3_QPS_ERROR] = {
		[T3_QPEV_PEER_CLOSE]	= STAY(T3_QPS_ERROR),
		[T3_QPEV_CLOSED]	= STAY(T3_QPS_ERROR),
		[T3_QPEV_LOST]		= STAY(T3_QPS_ERROR),
		[T3_QPEV_ACCEPT_FAILED]	= STAY(T3_QPS_ERROR),
		[T3_QPEV_PROTO_ERROR]	= STAY(T3_QPS_ERROR),
		[T3_QPEV_TERM_RCVD]	= STAY(T3_QPS_ERROR),
		[T3_QPEV_USER_RESET]	= TO(T3_QPS_IDLE, T3_QPA_RESET),
		[T3_QPEV_USER_CLOSE]	= STAY(T3_QPS_ERROR),
		[T3_QPEV_USER_ERROR]	= STAY(T3_QPS_ERROR),
		[T3_QPEV_DESTROY]	= STAY(T3_QPS_ERROR),
	},
};

static const char *const t3_qp_state_names[T3_QPS_NUM] = {
	[T3_QPS_IDLE]		= "IDLE",
	[T3_QPS_RTS]		= "RTS",
	[T3_QPS_ERROR]		= "ERROR",
	[T3_QPS_TERMINATE]	= "TERMINATE",
	[T3_QPS_CLOSING]	= "CLOSING",
};

static const char *const t3_qp_event_names[T3_QPEV_NUM] = {
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

const struct t3_transition *t3_qp_fsm(enum t3_qp_state state, enum t3_qp_event ev)
{
	return t3_fsm_lookup(t3_qp_table, state, ev);
}

const char *t3_qp_state_name(enum t3_qp_state state)
{
	return t3_fsm_name(t3_qp_state_names, state);
}

const char *t3_qp_event_name(enum t3_qp_event ev)
{
	return t3_fsm_name(t3_qp_event_names, ev);
}
