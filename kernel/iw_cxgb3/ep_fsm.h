/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The life of a connection as a table: [state][event] -> next state, actions.
 *
 * Pure: ep_fsm.c holds the table and the names and touches no endpoint. cm.c
 * has the one function that changes ep->state, and it does what the table says.
 * docs/states.md shows the same table as a picture.
 */
#ifndef IW_CXGB3_EP_FSM_H
#define IW_CXGB3_EP_FSM_H

#include <linux/types.h>

/*
 * The last column is whether the endpoint's timer runs. A state without a timer
 * is one in which the consumer decides (MPA_REQ_RCVD, FPDU), nothing was sent
 * (IDLE), everything is over (DEAD), or the card bounds the wait by itself and
 * will answer (ABANDONED).
 */
enum ep_state {
	EP_IDLE,		/* made, nothing sent yet			     no  */
	EP_CONNECTING,		/* active: ACT_OPEN_REQ sent			     yes */
	EP_OPEN_DELAYED,	/* active: refused for a moment, to be sent again    yes */
	EP_ABANDONED,		/* active: gave up; the card will still answer	     no  */
	EP_SYN_RCVD,		/* passive: PASS_ACCEPT_RPL sent		     yes */
	EP_MPA_REQ_SENT,	/* active: waiting for the MPA reply		     yes */
	EP_MPA_REQ_WAIT,	/* passive: waiting for the MPA request		     yes */
	EP_MPA_REQ_RCVD,	/* passive: consumer thinks about accept or reject   no  */
	EP_ACCEPTING,		/* passive: RDMA_INIT sent, its ack not here yet     yes */
	EP_FPDU,		/* RDMA mode					     no  */
	EP_TERMINATING,		/* our TERMINATE is on its way			     yes */
	EP_CLOSING,		/* our FIN sent, neither its ack nor peer's FIN here yes */
	EP_FIN_WAIT,		/* our FIN acknowledged, peer's FIN not here	     yes */
	EP_LAST_ACK,		/* peer's FIN here, ours sent but not acknowledged   yes */
	EP_ABORTING,		/* ABORT_REQ sent, reply not complete		     yes */
	EP_ABORT_CROSSED,	/* reply complete, but the peer's abort is only half here yes */
	EP_DEAD,		/* the card has forgotten the connection	     no  */
	EP_NUM_STATES
};

/*
 * Messages that the card sends twice (ABORT_REQ_RSS, ABORT_RPL_RSS) make one
 * event, when the second copy is there.
 */
enum ep_event {
	/* consumer */
	EP_EV_CONNECT,
	EP_EV_ACCEPT,
	EP_EV_REJECT,
	EP_EV_DISCONNECT,	/* graceful */
	EP_EV_ABORT,		/* abrupt, or a call that failed half way */
	EP_EV_TERMINATE,	/* QP error: tell the peer, then close */
	/* card, connection set-up */
	EP_EV_SYN,		/* PASS_ACCEPT_REQ: this endpoint is its child */
	EP_EV_ESTABLISHED,	/* ACT_ESTABLISH, PASS_ESTABLISH */
	EP_EV_OPEN_FAILED,	/* ACT_OPEN_RPL */
	EP_EV_OPEN_EXISTS,	/* the same, CONN_EXIST for the first time */
	EP_EV_INIT_DONE,	/* RDMA_INIT acknowledged, or sent when no ack comes */
	/* stream, judged by mpa.c */
	EP_EV_MPA_FRAME,	/* the frame that was due */
	EP_EV_MPA_REJECTED,	/* a reply with the R flag */
	EP_EV_MPA_BAD,		/* anything else */
	/* card, tear-down */
	EP_EV_PEER_CLOSE,
	EP_EV_CLOSE_RPL,
	EP_EV_PEER_ABORT,
	EP_EV_ABORT_RPL,
	EP_EV_ABORT_RPL_CROSSED, /* the same, with one copy of a peer abort seen */
	EP_EV_BAD_CLOSE,	/* RDMA_EC_STATUS not 0 */
	/* neither */
	EP_EV_ARP_FAILED,	/* an opening message could not leave the host */
	EP_EV_TIMEOUT,
	EP_EV_RETIRE,		/* the driver leaves a card that works */
	EP_EV_DEVICE_DOWN,	/* adapter dead or going: no message will come */
	EP_NUM_EVENTS
};

/* What a step makes cm.c do, in the order of the bits. */
enum ep_action {
	EP_STOP_TIMER		= 1 << 0,
	EP_START_TIMER		= 1 << 1,
	EP_QP_CLOSING		= 1 << 2,
	EP_QP_ERROR		= 1 << 3,
	EP_SEND_CLOSE		= 1 << 4,	/* CLOSE_CON_REQ */
	EP_SEND_ABORT		= 1 << 5,	/* ABORT_REQ, with RST if it can be sent */
	EP_SEND_ABORT_RPL	= 1 << 6,
	EP_TELL_PEER_CLOSED	= 1 << 7,	/* DISCONNECT event */
	EP_QP_IDLE		= 1 << 8,
	EP_QP_DETACH		= 1 << 9,
	EP_RELEASE		= 1 << 10,	/* TID or ATID, route, L2T entry */
	EP_TELL_END		= 1 << 11,	/* failed CONNECT_REPLY or accept, or CLOSE */
	EP_SEND_OPEN		= 1 << 12,	/* ACT_OPEN_REQ; a failure is an event */
	EP_CARD_DEAD		= 1 << 13,	/* DEVICE_DOWN follows */
};

#define EP_NUM_ACTIONS	14

/**
 * struct ep_step - one cell of the table
 * @legal: the event may come in this state; all other cells are refused
 * @next: state afterwards
 * @actions: set of enum ep_action
 */
struct ep_step {
	bool legal;
	u8 next;
	u16 actions;
};

const struct ep_step *ep_fsm(enum ep_state state, enum ep_event event);
bool ep_state_has_timer(enum ep_state state);
const char *ep_state_name(enum ep_state state);
const char *ep_event_name(enum ep_event event);
const char *ep_action_name(unsigned int bit);

#endif /* IW_CXGB3_EP_FSM_H */
