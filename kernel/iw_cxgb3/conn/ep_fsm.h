/* SPDX-License-Identifier: GPL-2.0 */
/*
 * State machine of a connection: [state][event] -> next state, actions.
 *
 * ep_fsm.c is pure: it holds the table and the names, and accesses no endpoint.
 * t3_ep_fsm_apply() in ep.c is the only function that changes ep->state. It looks
 * up the transition and runs its actions. docs/states.md shows the table as a
 * picture.
 */
#ifndef IW_CXGB3_EP_FSM_H
#define IW_CXGB3_EP_FSM_H

#include <t3_fsm.h>

/*
 * The last column states whether the endpoint's timer runs. The timer does not run
 * where the consumer decides (MPA_REQ_RCVD, FPDU), before anything is sent (IDLE),
 * after the end (CLOSED), and where the card's own retries bound the wait for its
 * reply (ABANDONED).
 */
enum ep_state {
	EP_IDLE,		/* allocated, nothing sent yet			     no  */
	EP_CONNECTING,		/* active: ACT_OPEN_REQ sent			     yes */
	EP_OPEN_DELAYED,	/* active: CONN_EXIST, ACT_OPEN_REQ to be repeated   yes */
	EP_ABANDONED,		/* active: given up, the card's reply still pending  no  */
	EP_SYN_RCVD,		/* passive: PASS_ACCEPT_RPL sent		     yes */
	EP_MPA_REQ_SENT,	/* active: waiting for the MPA reply		     yes */
	EP_MPA_REQ_WAIT,	/* passive: waiting for the MPA request		     yes */
	EP_MPA_REQ_RCVD,	/* passive: waiting for accept or reject	     no  */
	EP_ACCEPTING,		/* passive: RDMA_INIT sent, not acknowledged	     yes */
	EP_FPDU,		/* RDMA mode					     no  */
	EP_TERMINATING,		/* our TERMINATE was sent			     yes */
	EP_CLOSING,		/* our FIN sent, its ack and the peer's FIN pending  yes */
	EP_FIN_WAIT,		/* our FIN acknowledged, the peer's FIN pending	     yes */
	EP_LAST_ACK,		/* peer's FIN received, ours not acknowledged	     yes */
	EP_ABORTING,		/* ABORT_REQ sent, its reply pending		     yes */
	EP_ABORT_CROSSED,	/* reply complete, one copy of the peer's abort due  yes */
	EP_CLOSED,		/* the card has no state of the connection	     no  */
	EP_NUM_STATES
};

/*
 * The card sends ABORT_REQ_RSS and ABORT_RPL_RSS twice. The second copy makes the
 * event.
 */
enum ep_event {
	/* consumer */
	EP_EV_CONNECT,
	EP_EV_ACCEPT,
	EP_EV_REJECT,
	EP_EV_DISCONNECT,	/* graceful */
	EP_EV_ABORT,		/* abrupt, or a call that failed */
	EP_EV_TERMINATE,	/* QP error: a TERMINATE is due, and a close follows */
	/* card, connection set-up */
	EP_EV_SYN,		/* PASS_ACCEPT_REQ, for a new endpoint */
	EP_EV_ESTABLISHED,	/* ACT_ESTABLISH, PASS_ESTABLISH */
	EP_EV_OPEN_FAILED,	/* ACT_OPEN_RPL */
	EP_EV_OPEN_EXISTS,	/* the same, CONN_EXIST for the first time */
	EP_EV_INIT_DONE,	/* RDMA_INIT acknowledged, or sent if the card acks none */
	/* stream, as mpa_parse() classifies it */
	EP_EV_MPA_FRAME,	/* the expected frame */
	EP_EV_MPA_REJECTED,	/* a reply with the R flag */
	EP_EV_MPA_BAD,		/* anything else */
	/* card, tear-down */
	EP_EV_PEER_CLOSE,
	EP_EV_CLOSE_RPL,
	EP_EV_PEER_ABORT,
	EP_EV_ABORT_RPL,
	EP_EV_ABORT_RPL_CROSSED, /* the same, after one copy of a peer abort */
	EP_EV_BAD_CLOSE,	/* RDMA_EC_STATUS not 0 */
	/* host */
	EP_EV_ARP_FAILED,	/* an opening message could not be sent */
	EP_EV_TIMEOUT,
	EP_EV_SHUT_DOWN,	/* the driver is unbound from a working card */
	EP_EV_DEVICE_DOWN,	/* adapter failed or removed: no more messages */
	EP_NUM_EVENTS
};

/* t3_ep_run_actions() in ep.c runs the actions of a transition in this order. */
enum ep_action {
	EP_ACT_STOP_TIMER	= 1 << 0,
	EP_ACT_START_TIMER	= 1 << 1,
	EP_ACT_QP_PEER_CLOSE	= 1 << 2,	/* T3_QPEV_PEER_CLOSE */
	EP_ACT_QP_LOST		= 1 << 3,	/* T3_QPEV_LOST */
	EP_ACT_SEND_CLOSE	= 1 << 4,	/* CLOSE_CON_REQ */
	EP_ACT_SEND_ABORT	= 1 << 5,	/* ABORT_REQ, with RST if it can be sent */
	EP_ACT_SEND_ABORT_RPL	= 1 << 6,
	EP_ACT_REPORT_PEER_CLOSE = 1 << 7,	/* IW_CM_EVENT_DISCONNECT */
	EP_ACT_QP_CLOSED	= 1 << 8,	/* T3_QPEV_CLOSED */
	EP_ACT_QP_DISCONNECTED	= 1 << 9,	/* t3_qp_disconnected() */
	EP_ACT_RELEASE		= 1 << 10,	/* TID or ATID, route, L2T entry */
	EP_ACT_REPORT_END	= 1 << 11,	/* failed CONNECT_REPLY or accept, or CLOSE */
	EP_ACT_DEVICE_FATAL	= 1 << 12,	/* t3_dev_fatal(); DEVICE_DOWN follows */
	EP_ACT_SEND_OPEN	= 1 << 13,	/* ACT_OPEN_REQ; a failure is an event */
	EP_ACT_SEND_TERMINATE	= 1 << 14,	/* a failure is EP_EV_ABORT */
};

const struct t3_transition *ep_fsm(enum ep_state state, enum ep_event event);
bool ep_state_has_timer(enum ep_state state);
const char *ep_state_name(enum ep_state state);
const char *ep_event_name(enum ep_event event);

#endif /* IW_CXGB3_EP_FSM_H */
