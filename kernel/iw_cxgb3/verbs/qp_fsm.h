/* SPDX-License-Identifier: GPL-2.0 */
/*
 * States of a QP, as a table. Pure logic: no card, no locks, no memory.
 *
 * iWARP has no RTR state, and only a connection moves a QP to RTS. IDLE is
 * reported as the verbs state INIT.
 */
#ifndef T3_QP_FSM_H
#define T3_QP_FSM_H

#include <t3_fsm.h>

enum t3_qp_state {
	T3_QPS_IDLE,
	T3_QPS_RTS,
	T3_QPS_ERROR,
	T3_QPS_TERMINATE,
	T3_QPS_CLOSING,
	T3_QPS_NUM
};

enum t3_qp_event {
	/* from the connection manager */
	T3_QPEV_CONNECT,	/* through t3_qp_connect() */
	T3_QPEV_PEER_CLOSE,	/* FIN of the peer in RDMA mode */
	T3_QPEV_CLOSED,		/* the graceful close is complete */
	T3_QPEV_LOST,		/* reset, timeout, bad close, card gone */
	T3_QPEV_ACCEPT_FAILED,	/* of a connection that the QP did not get */
	/* from async events */
	T3_QPEV_PROTO_ERROR,	/* error detected here: send a TERMINATE */
	T3_QPEV_TERM_RCVD,	/* error detected by the peer */
	/* from the consumer, ib_modify_qp() and destroy: may sleep; see t3_qp_event_may_sleep() */
	T3_QPEV_USER_RESET,
	T3_QPEV_USER_INIT,
	T3_QPEV_USER_TERM,	/* SQE */
	T3_QPEV_USER_CLOSE,	/* SQD */
	T3_QPEV_USER_ERROR,	/* ERR */
	T3_QPEV_DESTROY,
	T3_QPEV_NUM
};

/*
 * Actions of a transition besides the change of state. t3_qp_fsm_apply() runs the first three under
 * the QP lock.
 */
enum t3_qp_action {
	T3_QPA_MARK_ERROR	= 1 << 0, /* stop adding requests to the ring */
	T3_QPA_RESET		= 1 << 1, /* clear ring, counters and flags */
	T3_QPA_DROP_EP		= 1 << 2, /* drop the endpoint; its reference is put at the end */
	T3_QPA_FLUSH		= 1 << 3, /* flush, once the card is done with the buffers */
	T3_QPA_TERMINATE	= 1 << 4, /* the connection sends a TERMINATE */
	T3_QPA_DISCONNECT	= 1 << 5, /* close with FIN */
	T3_QPA_ABORT		= 1 << 6, /* close with RST */
	T3_QPA_ABORT_CONNECT	= 1 << 7, /* the same for a connect that is pending */
	T3_QPA_LIMIT_CLOSE	= 1 << 8, /* abort soon, unless the peer closes before */
};

const struct t3_transition *t3_qp_fsm(enum t3_qp_state state, enum t3_qp_event ev);

static inline bool t3_qp_event_may_sleep(enum t3_qp_event ev)
{
	return ev >= T3_QPEV_USER_RESET;
}

const char *t3_qp_state_name(enum t3_qp_state state);
const char *t3_qp_event_name(enum t3_qp_event ev);

#endif
