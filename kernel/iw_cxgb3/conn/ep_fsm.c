// SPDX-License-Identifier: GPL-2.0
/*
 * Transition table of a connection. In the row of a state, a cell gives the next state and
 * the actions for an event. An event that a state does not list is refused.
 *
 * Rules, which the unit tests check:
 *
 *  - A transition into a state with a timer has EP_ACT_START_TIMER or keeps the
 *    running timer. One from there into a state without a timer has EP_ACT_STOP_TIMER.
 *  - Each transition into EP_CLOSED has EP_ACT_RELEASE. From a state with an attached
 *    QP it also has EP_ACT_QP_DISCONNECTED, which lets the QP free its ring: the card
 *    does not access the ring any more.
 *  - Each transition into EP_ABORTING from another state has EP_ACT_SEND_ABORT.
 *  - EP_ABORTING ends with a reply of the card or with EP_EV_DEVICE_DOWN, never with
 *    a timeout alone: a card that is only slow may still use the ring and the TID.
 *  - EP_EV_DEVICE_DOWN leads from every state to EP_CLOSED.
 *
 * Five flags of the endpoint (cm.h) belong to states, but change no transition. They decide what an
 * action reports, or what follows EP_EV_INIT_DONE:
 *
 *  - init_unacked, from EP_ACCEPTING or EP_FPDU on: the card has not acknowledged RDMA_INIT. The
 *    ack makes EP_EV_INIT_DONE. On the active side EP_FPDU does not wait for it.
 *  - rtr_due, active, in EP_FPDU: the RTR read follows that ack. In later states it is not sent.
 *  - accept_pending, from the consumer's accept to its result: EP_ACT_REPORT_END reports
 *    ESTABLISHED with an error, and CLOSE.
 *  - rev1_due, active, in EP_LAST_ACK: the end is not reported yet. In EP_CLOSED
 *    EP_ACT_REPORT_END connects again in revision 1 of MPA, or reports the end.
 *  - no_upcalls, after an accept and a reject: iw_cm takes no events, so the actions report none.
 */
#include "ep_fsm.h"

/* Common sets of actions. "WITH_QP": in states with an attached QP. */
#define ENDED			(EP_ACT_STOP_TIMER | EP_ACT_RELEASE | EP_ACT_REPORT_END)
#define ENDED_WITH_QP		(ENDED | EP_ACT_QP_DISCONNECTED)
#define LOST_WITH_QP		(ENDED_WITH_QP | EP_ACT_QP_LOST)
#define RESET_WITH_QP		(LOST_WITH_QP | EP_ACT_SEND_ABORT_RPL)
#define ABORT			(EP_ACT_START_TIMER | EP_ACT_SEND_ABORT)
#define ABORT_WITH_QP		(ABORT | EP_ACT_QP_LOST)
#define CLOSE			(EP_ACT_START_TIMER | EP_ACT_SEND_CLOSE)
/* The card has not replied to an abort. DEVICE_DOWN follows. */
#define NO_REPLY		(EP_ACT_START_TIMER | EP_ACT_DEVICE_FATAL)

/* How a state ends that waits for the peer or the card, without a QP. @acts: for an abort. */
#define ENDS(acts)								\
		[EP_EV_ABORT]		= TO(EP_ABORTING, acts),		\
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, acts),		\
		[EP_EV_SHUT_DOWN]	= TO(EP_ABORTING, acts),		\
		[EP_EV_PEER_ABORT]	= TO(EP_CLOSED, ENDED | EP_ACT_SEND_ABORT_RPL),	\
		[EP_EV_DEVICE_DOWN]	= TO(EP_CLOSED, ENDED)

/* The same with a QP. @acts: more actions of an abort. */
#define ENDS_WITH_QP(acts)							\
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT_WITH_QP | (acts)),	\
		[EP_EV_SHUT_DOWN]	= TO(EP_ABORTING, ABORT_WITH_QP | (acts)),	\
		[EP_EV_PEER_ABORT]	= TO(EP_CLOSED, RESET_WITH_QP),		\
		[EP_EV_DEVICE_DOWN]	= TO(EP_CLOSED, LOST_WITH_QP)

/* Our FIN was sent. */
#define CLOSES(state)								\
		[EP_EV_BAD_CLOSE]	= TO(EP_ABORTING, ABORT_WITH_QP),	\
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT_WITH_QP),	\
		[EP_EV_DISCONNECT]	= STAY(state),				\
		[EP_EV_TERMINATE]	= STAY(state),				\
		[EP_EV_INIT_DONE]	= STAY(state),				\
		[EP_EV_MPA_BAD]		= STAY(state),				\
		ENDS_WITH_QP(0)

/* Only the card's reply to our abort counts. */
#define ABORTS(state)								\
		[EP_EV_DISCONNECT]	= STAY(state),				\
		[EP_EV_ABORT]		= STAY(state),				\
		[EP_EV_TERMINATE]	= STAY(state),				\
		[EP_EV_INIT_DONE]	= STAY(state),				\
		[EP_EV_MPA_BAD]		= STAY(state),				\
		[EP_EV_PEER_CLOSE]	= STAY(state),				\
		[EP_EV_CLOSE_RPL]	= STAY(state),				\
		[EP_EV_BAD_CLOSE]	= STAY(state),				\
		[EP_EV_ESTABLISHED]	= STAY(state),				\
		[EP_EV_ARP_FAILED]	= STAY(state),				\
		[EP_EV_SHUT_DOWN]	= STAY(state),				\
		[EP_EV_TIMEOUT]		= TO(state, NO_REPLY),			\
		[EP_EV_DEVICE_DOWN]	= TO(EP_CLOSED, ENDED_WITH_QP)

static const struct t3_transition ep_table[EP_NUM_STATES][EP_NUM_EVENTS] = {
	[EP_IDLE] = {
		[EP_EV_CONNECT]		= TO(EP_CONNECTING, EP_ACT_START_TIMER),
		[EP_EV_SYN]		= TO(EP_SYN_RCVD, EP_ACT_START_TIMER),
		[EP_EV_ABORT]		= TO(EP_CLOSED, EP_ACT_RELEASE),
		[EP_EV_SHUT_DOWN]	= TO(EP_CLOSED, EP_ACT_RELEASE),
		[EP_EV_DEVICE_DOWN]	= TO(EP_CLOSED, EP_ACT_RELEASE),
	},
	[EP_CONNECTING] = {
		[EP_EV_ESTABLISHED]	= TO(EP_MPA_REQ_SENT, EP_ACT_START_TIMER),
		[EP_EV_OPEN_FAILED]	= TO(EP_CLOSED, ENDED),
		[EP_EV_OPEN_EXISTS]	= TO(EP_OPEN_DELAYED, EP_ACT_START_TIMER),
		[EP_EV_ARP_FAILED]	= TO(EP_CLOSED, ENDED),
		/* An active open cannot be cancelled. The card's retries bound it. */
		[EP_EV_TIMEOUT]		= TO(EP_ABANDONED, EP_ACT_STOP_TIMER | EP_ACT_REPORT_END),
		[EP_EV_ABORT]		= TO(EP_ABANDONED, EP_ACT_STOP_TIMER | EP_ACT_REPORT_END),
		[EP_EV_SHUT_DOWN]	= TO(EP_ABANDONED, EP_ACT_STOP_TIMER | EP_ACT_REPORT_END),
		[EP_EV_DEVICE_DOWN]	= TO(EP_CLOSED, ENDED),
	},
	/* The card has replied, and has no state of this connection. */
	[EP_OPEN_DELAYED] = {
		[EP_EV_TIMEOUT]		= TO(EP_CONNECTING, EP_ACT_START_TIMER | EP_ACT_SEND_OPEN),
		[EP_EV_ABORT]		= TO(EP_CLOSED, ENDED),
		[EP_EV_SHUT_DOWN]	= TO(EP_CLOSED, ENDED),
		[EP_EV_DEVICE_DOWN]	= TO(EP_CLOSED, ENDED),
	},
	[EP_ABANDONED] = {
		[EP_EV_ESTABLISHED]	= TO(EP_ABORTING, ABORT),
		[EP_EV_OPEN_FAILED]	= TO(EP_CLOSED, EP_ACT_RELEASE),
		[EP_EV_ARP_FAILED]	= TO(EP_CLOSED, EP_ACT_RELEASE),
		[EP_EV_ABORT]		= STAY(EP_ABANDONED),
		[EP_EV_SHUT_DOWN]	= STAY(EP_ABANDONED),
		[EP_EV_DEVICE_DOWN]	= TO(EP_CLOSED, EP_ACT_RELEASE),
	},
	[EP_SYN_RCVD] = {
		[EP_EV_ESTABLISHED]	= TO(EP_MPA_REQ_WAIT, EP_ACT_START_TIMER),
		[EP_EV_ARP_FAILED]	= TO(EP_CLOSED, ENDED),
		ENDS(ABORT),
	},
	[EP_MPA_REQ_SENT] = {
		[EP_EV_MPA_FRAME]	= TO(EP_FPDU, EP_ACT_STOP_TIMER),
		[EP_EV_MPA_REJECTED]	= TO(EP_CLOSING, CLOSE | EP_ACT_REPORT_END),
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT | EP_ACT_REPORT_END),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, CLOSE | EP_ACT_REPORT_END),
		ENDS(ABORT | EP_ACT_REPORT_END),
	},
	[EP_MPA_REQ_WAIT] = {
		[EP_EV_MPA_FRAME]	= TO(EP_MPA_REQ_RCVD, EP_ACT_STOP_TIMER),
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, CLOSE),
		ENDS(ABORT),
	},
	/*
	 * An end in this state is not reported: the consumer's accept or reject
	 * fails, because the endpoint is in another state.
	 */
	[EP_MPA_REQ_RCVD] = {
		[EP_EV_ACCEPT]		= TO(EP_ACCEPTING, EP_ACT_START_TIMER),
		[EP_EV_REJECT]		= TO(EP_CLOSING, CLOSE),
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, CLOSE),
		[EP_EV_PEER_ABORT]	= TO(EP_CLOSED, EP_ACT_SEND_ABORT_RPL | EP_ACT_RELEASE),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT),
		[EP_EV_SHUT_DOWN]	= TO(EP_ABORTING, ABORT),
		[EP_EV_DEVICE_DOWN]	= TO(EP_CLOSED, EP_ACT_RELEASE),
	},
	[EP_ACCEPTING] = {
		[EP_EV_INIT_DONE]	= TO(EP_FPDU, EP_ACT_STOP_TIMER),
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT_WITH_QP | EP_ACT_REPORT_END),
		[EP_EV_PEER_CLOSE]	= TO(EP_ABORTING, ABORT_WITH_QP | EP_ACT_REPORT_END),
		[EP_EV_DISCONNECT]	= TO(EP_ABORTING, ABORT_WITH_QP | EP_ACT_REPORT_END),
		[EP_EV_TERMINATE]	= TO(EP_ABORTING, ABORT_WITH_QP | EP_ACT_REPORT_END),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT_WITH_QP | EP_ACT_REPORT_END),
		ENDS_WITH_QP(EP_ACT_REPORT_END),
	},
	[EP_FPDU] = {
		/* Active side: the card acknowledges RDMA_INIT in this state. */
		[EP_EV_INIT_DONE]	= STAY(EP_FPDU),
		[EP_EV_DISCONNECT]	= TO(EP_CLOSING, CLOSE),
		[EP_EV_TERMINATE]	= TO(EP_TERMINATING, EP_ACT_START_TIMER |
								  EP_ACT_SEND_TERMINATE),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, CLOSE | EP_ACT_QP_PEER_CLOSE |
							  EP_ACT_REPORT_PEER_CLOSE),
		[EP_EV_BAD_CLOSE]	= TO(EP_ABORTING, ABORT_WITH_QP),
		/* RX_DATA: the card left RDMA mode, the stream position is lost. */
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT_WITH_QP),
		ENDS_WITH_QP(0),
	},
	[EP_TERMINATING] = {
		[EP_EV_INIT_DONE]	= STAY(EP_TERMINATING),
		[EP_EV_TERMINATE]	= STAY(EP_TERMINATING),
		[EP_EV_DISCONNECT]	= TO(EP_CLOSING, CLOSE),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, CLOSE | EP_ACT_REPORT_PEER_CLOSE),
		[EP_EV_BAD_CLOSE]	= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT_WITH_QP),
		ENDS_WITH_QP(0),
	},
	/*
	 * A consumer that disconnects and then destroys its QP expects delivery of
	 * its last messages, so a destroy requests no abort (qp_fsm.c). A consumer
	 * that moves its QP to ERR expects its buffers back. Only an abort stops the
	 * card from using them before the peer closes too.
	 */
	[EP_CLOSING] = {
		CLOSES(EP_CLOSING),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, 0),
		[EP_EV_CLOSE_RPL]	= TO(EP_FIN_WAIT, 0),
	},
	[EP_FIN_WAIT] = {
		CLOSES(EP_FIN_WAIT),
		[EP_EV_PEER_CLOSE]	= TO(EP_CLOSED, ENDED_WITH_QP | EP_ACT_QP_CLOSED),
	},
	[EP_LAST_ACK] = {
		CLOSES(EP_LAST_ACK),
		[EP_EV_CLOSE_RPL]	= TO(EP_CLOSED, ENDED_WITH_QP | EP_ACT_QP_CLOSED),
	},
	/*
	 * Our abort and the peer's may cross. Both exchanges must be complete before
	 * the TID is released to the card.
	 */
	[EP_ABORTING] = {
		ABORTS(EP_ABORTING),
		[EP_EV_PEER_ABORT]	= TO(EP_ABORTING, EP_ACT_SEND_ABORT_RPL),
		[EP_EV_ABORT_RPL]	= TO(EP_CLOSED, ENDED_WITH_QP),
		[EP_EV_ABORT_RPL_CROSSED] = TO(EP_ABORT_CROSSED, 0),
	},
	[EP_ABORT_CROSSED] = {
		ABORTS(EP_ABORT_CROSSED),
		[EP_EV_PEER_ABORT]	= TO(EP_CLOSED, ENDED_WITH_QP | EP_ACT_SEND_ABORT_RPL),
	},
	/* Events that the host had queued before the end. */
	[EP_CLOSED] = {
		[EP_EV_DISCONNECT]	= STAY(EP_CLOSED),
		[EP_EV_ABORT]		= STAY(EP_CLOSED),
		[EP_EV_TERMINATE]	= STAY(EP_CLOSED),
		[EP_EV_TIMEOUT]		= STAY(EP_CLOSED),
		[EP_EV_ARP_FAILED]	= STAY(EP_CLOSED),
		[EP_EV_SHUT_DOWN]	= STAY(EP_CLOSED),
		[EP_EV_DEVICE_DOWN]	= STAY(EP_CLOSED),
	},
};

static const char *const ep_state_names[EP_NUM_STATES] = {
	[EP_IDLE]		= "idle",
	[EP_CONNECTING]		= "connecting",
	[EP_OPEN_DELAYED]	= "open-delayed",
	[EP_ABANDONED]		= "abandoned",
	[EP_SYN_RCVD]		= "syn-rcvd",
	[EP_MPA_REQ_SENT]	= "mpa-req-sent",
	[EP_MPA_REQ_WAIT]	= "mpa-req-wait",
	[EP_MPA_REQ_RCVD]	= "mpa-req-rcvd",
	[EP_ACCEPTING]		= "accepting",
	[EP_FPDU]		= "fpdu",
	[EP_TERMINATING]	= "terminating",
	[EP_CLOSING]		= "closing",
	[EP_FIN_WAIT]		= "fin-wait",
	[EP_LAST_ACK]		= "last-ack",
	[EP_ABORTING]		= "aborting",
	[EP_ABORT_CROSSED]	= "abort-crossed",
	[EP_CLOSED]		= "closed",
};

static const char *const ep_event_names[EP_NUM_EVENTS] = {
	[EP_EV_CONNECT]		= "connect",
	[EP_EV_ACCEPT]		= "accept",
	[EP_EV_REJECT]		= "reject",
	[EP_EV_DISCONNECT]	= "disconnect",
	[EP_EV_ABORT]		= "abort",
	[EP_EV_TERMINATE]	= "terminate",
	[EP_EV_SYN]		= "syn",
	[EP_EV_ESTABLISHED]	= "established",
	[EP_EV_OPEN_FAILED]	= "open-failed",
	[EP_EV_OPEN_EXISTS]	= "open-exists",
	[EP_EV_INIT_DONE]	= "init-done",
	[EP_EV_MPA_FRAME]	= "mpa-frame",
	[EP_EV_MPA_REJECTED]	= "mpa-rejected",
	[EP_EV_MPA_BAD]		= "mpa-bad",
	[EP_EV_PEER_CLOSE]	= "peer-close",
	[EP_EV_CLOSE_RPL]	= "close-rpl",
	[EP_EV_PEER_ABORT]	= "peer-abort",
	[EP_EV_ABORT_RPL]	= "abort-rpl",
	[EP_EV_ABORT_RPL_CROSSED] = "abort-rpl-crossed",
	[EP_EV_BAD_CLOSE]	= "bad-close",
	[EP_EV_ARP_FAILED]	= "arp-failed",
	[EP_EV_TIMEOUT]		= "timeout",
	[EP_EV_SHUT_DOWN]	= "shut-down",
	[EP_EV_DEVICE_DOWN]	= "device-down",
};

const struct t3_transition *ep_fsm(enum ep_state state, enum ep_event event)
{
	return t3_fsm_lookup(ep_table, state, event);
}

/* The state waits for a message of the peer or the card. */
bool ep_state_has_timer(enum ep_state state)
{
	switch (state) {
	case EP_IDLE:
	case EP_ABANDONED:
	case EP_MPA_REQ_RCVD:
	case EP_FPDU:
	case EP_CLOSED:
		return false;
	default:
		return true;
	}
}

const char *ep_state_name(enum ep_state state)
{
	return t3_fsm_name(ep_state_names, state);
}

const char *ep_event_name(enum ep_event event)
{
	return t3_fsm_name(ep_event_names, event);
}
