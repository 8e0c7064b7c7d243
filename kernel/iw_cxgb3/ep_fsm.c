// SPDX-License-Identifier: GPL-2.0
/*
 * The connection table. Read a row as: in this state, this event leads there and
 * makes cm.c do that. A pair that is not listed is refused.
 *
 * Conventions that the unit tests hold the table to:
 *
 *  - a state with a timer is entered with EP_START_TIMER or keeps the running
 *    one, and is left with EP_STOP_TIMER;
 *  - every way into EP_DEAD has EP_RELEASE, and every way there from a state
 *    with an attached QP has EP_QP_DETACH, for the ring may be freed only when
 *    the card has let go of it;
 *  - every way into EP_ABORTING has EP_SEND_ABORT;
 *  - the way out of EP_ABORTING is an answer of the card, or the end of the card:
 *    one that is merely late may still use the ring and the TID;
 *  - every state but EP_DEAD answers EP_EV_DEVICE_DOWN with EP_DEAD.
 */
#include <linux/types.h>

#include "ep_fsm.h"

#define TO(next_state, acts)	{ .legal = true, .next = (next_state), .actions = (acts) }
/* Late or repeated, and harmless: it is on that way already, or was when it came. */
#define STAY(state)		TO(state, 0)

/* What the end of a connection has in common. */
#define GONE			(EP_STOP_TIMER | EP_RELEASE | EP_TELL_END)
#define GONE_WITH_QP		(GONE | EP_QP_DETACH)
#define ABORT			(EP_START_TIMER | EP_SEND_ABORT)
#define ABORT_WITH_QP		(ABORT | EP_QP_ERROR)
#define CLOSE			(EP_START_TIMER | EP_SEND_CLOSE)

static const struct ep_step ep_table[EP_NUM_STATES][EP_NUM_EVENTS] = {
	[EP_IDLE] = {
		[EP_EV_CONNECT]		= TO(EP_CONNECTING, EP_START_TIMER),
		[EP_EV_SYN]		= TO(EP_SYN_RCVD, EP_START_TIMER),
		[EP_EV_ABORT]		= TO(EP_DEAD, EP_RELEASE),
		[EP_EV_RETIRE]		= TO(EP_DEAD, EP_RELEASE),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, EP_RELEASE),
	},
	[EP_CONNECTING] = {
		[EP_EV_ESTABLISHED]	= TO(EP_MPA_REQ_SENT, EP_START_TIMER),
		[EP_EV_OPEN_FAILED]	= TO(EP_DEAD, GONE),
		[EP_EV_OPEN_EXISTS]	= TO(EP_OPEN_DELAYED, EP_START_TIMER),
		[EP_EV_ARP_FAILED]	= TO(EP_DEAD, GONE),
		/* An active open cannot be called back; the card bounds it. */
		[EP_EV_TIMEOUT]		= TO(EP_ABANDONED, EP_STOP_TIMER | EP_TELL_END),
		[EP_EV_ABORT]		= TO(EP_ABANDONED, EP_STOP_TIMER | EP_TELL_END),
		[EP_EV_RETIRE]		= TO(EP_ABANDONED, EP_STOP_TIMER | EP_TELL_END),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE),
	},
	/* The card has answered: it has nothing of this connection. */
	[EP_OPEN_DELAYED] = {
		[EP_EV_TIMEOUT]		= TO(EP_CONNECTING, EP_START_TIMER | EP_SEND_OPEN),
		[EP_EV_ABORT]		= TO(EP_DEAD, GONE),
		[EP_EV_RETIRE]		= TO(EP_DEAD, GONE),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE),
	},
	[EP_ABANDONED] = {
		[EP_EV_ESTABLISHED]	= TO(EP_ABORTING, ABORT),
		[EP_EV_OPEN_FAILED]	= TO(EP_DEAD, EP_RELEASE),
		[EP_EV_ARP_FAILED]	= TO(EP_DEAD, EP_RELEASE),
		[EP_EV_ABORT]		= STAY(EP_ABANDONED),
		[EP_EV_RETIRE]		= STAY(EP_ABANDONED),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, EP_RELEASE),
	},
	[EP_SYN_RCVD] = {
		[EP_EV_ESTABLISHED]	= TO(EP_MPA_REQ_WAIT, EP_START_TIMER),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, GONE | EP_SEND_ABORT_RPL),
		[EP_EV_ARP_FAILED]	= TO(EP_DEAD, GONE),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT),
		[EP_EV_RETIRE]		= TO(EP_ABORTING, ABORT),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE),
	},
	[EP_MPA_REQ_SENT] = {
		[EP_EV_MPA_FRAME]	= TO(EP_FPDU, EP_STOP_TIMER),
		[EP_EV_MPA_REJECTED]	= TO(EP_CLOSING, CLOSE | EP_TELL_END),
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT | EP_TELL_END),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, CLOSE | EP_TELL_END),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, GONE | EP_SEND_ABORT_RPL),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT | EP_TELL_END),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT | EP_TELL_END),
		[EP_EV_RETIRE]		= TO(EP_ABORTING, ABORT | EP_TELL_END),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE),
	},
	[EP_MPA_REQ_WAIT] = {
		[EP_EV_MPA_FRAME]	= TO(EP_MPA_REQ_RCVD, EP_STOP_TIMER),
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, CLOSE),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, GONE | EP_SEND_ABORT_RPL),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT),
		[EP_EV_RETIRE]		= TO(EP_ABORTING, ABORT),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE),
	},
	/*
	 * The consumer learns of an end in this state from its accept or reject,
	 * which finds the endpoint elsewhere.
	 */
	[EP_MPA_REQ_RCVD] = {
		[EP_EV_ACCEPT]		= TO(EP_ACCEPTING, EP_START_TIMER),
		[EP_EV_REJECT]		= TO(EP_CLOSING, CLOSE),
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, CLOSE),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, EP_SEND_ABORT_RPL | EP_RELEASE),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT),
		[EP_EV_RETIRE]		= TO(EP_ABORTING, ABORT),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, EP_RELEASE),
	},
	[EP_ACCEPTING] = {
		[EP_EV_INIT_DONE]	= TO(EP_FPDU, EP_STOP_TIMER),
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT_WITH_QP | EP_TELL_END),
		[EP_EV_PEER_CLOSE]	= TO(EP_ABORTING, ABORT_WITH_QP | EP_TELL_END),
		[EP_EV_DISCONNECT]	= TO(EP_ABORTING, ABORT_WITH_QP | EP_TELL_END),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT_WITH_QP | EP_TELL_END),
		[EP_EV_TERMINATE]	= TO(EP_ABORTING, ABORT_WITH_QP | EP_TELL_END),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT_WITH_QP | EP_TELL_END),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR |
						      EP_SEND_ABORT_RPL),
		[EP_EV_RETIRE]		= TO(EP_ABORTING, ABORT_WITH_QP | EP_TELL_END),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR),
	},
	[EP_FPDU] = {
		/* Active side: the init's ack comes when we are here already. */
		[EP_EV_INIT_DONE]	= STAY(EP_FPDU),
		[EP_EV_DISCONNECT]	= TO(EP_CLOSING, CLOSE),
		[EP_EV_TERMINATE]	= TO(EP_TERMINATING, EP_START_TIMER),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, CLOSE | EP_QP_CLOSING |
							  EP_TELL_PEER_CLOSED),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_BAD_CLOSE]	= TO(EP_ABORTING, ABORT_WITH_QP),
		/* The card left RDMA mode: the stream position is lost. */
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR |
						      EP_SEND_ABORT_RPL),
		[EP_EV_RETIRE]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR),
	},
	[EP_TERMINATING] = {
		[EP_EV_INIT_DONE]	= STAY(EP_TERMINATING),
		[EP_EV_TERMINATE]	= STAY(EP_TERMINATING),
		[EP_EV_DISCONNECT]	= TO(EP_CLOSING, CLOSE),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, CLOSE | EP_TELL_PEER_CLOSED),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_BAD_CLOSE]	= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_MPA_BAD]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR |
						      EP_SEND_ABORT_RPL),
		[EP_EV_RETIRE]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR),
	},
	/*
	 * A consumer that disconnects and then destroys its QP wants its last
	 * messages delivered; so a destroy asks for no abort (qp_fsm.c). One that
	 * moves its QP to ERR wants its buffers back, and only an abort makes the
	 * card let go of them before the peer closes, too.
	 */
	[EP_CLOSING] = {
		[EP_EV_DISCONNECT]	= STAY(EP_CLOSING),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_TERMINATE]	= STAY(EP_CLOSING),
		[EP_EV_INIT_DONE]	= STAY(EP_CLOSING),
		[EP_EV_MPA_BAD]		= STAY(EP_CLOSING),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR |
						      EP_SEND_ABORT_RPL),
		[EP_EV_BAD_CLOSE]	= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_RETIRE]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR),
		[EP_EV_PEER_CLOSE]	= TO(EP_LAST_ACK, 0),
		[EP_EV_CLOSE_RPL]	= TO(EP_FIN_WAIT, 0),
	},
	[EP_FIN_WAIT] = {
		[EP_EV_DISCONNECT]	= STAY(EP_FIN_WAIT),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_TERMINATE]	= STAY(EP_FIN_WAIT),
		[EP_EV_INIT_DONE]	= STAY(EP_FIN_WAIT),
		[EP_EV_MPA_BAD]		= STAY(EP_FIN_WAIT),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR |
						      EP_SEND_ABORT_RPL),
		[EP_EV_BAD_CLOSE]	= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_RETIRE]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR),
		[EP_EV_PEER_CLOSE]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_IDLE),
	},
	[EP_LAST_ACK] = {
		[EP_EV_DISCONNECT]	= STAY(EP_LAST_ACK),
		[EP_EV_ABORT]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_TERMINATE]	= STAY(EP_LAST_ACK),
		[EP_EV_INIT_DONE]	= STAY(EP_LAST_ACK),
		[EP_EV_MPA_BAD]		= STAY(EP_LAST_ACK),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR |
						      EP_SEND_ABORT_RPL),
		[EP_EV_BAD_CLOSE]	= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_RETIRE]		= TO(EP_ABORTING, ABORT_WITH_QP),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_ERROR),
		[EP_EV_CLOSE_RPL]	= TO(EP_DEAD, GONE_WITH_QP | EP_QP_IDLE),
	},
	/*
	 * The two aborts may cross. Each one that was started must be finished
	 * before the TID goes back to the card.
	 */
	[EP_ABORTING] = {
		[EP_EV_DISCONNECT]	= STAY(EP_ABORTING),
		[EP_EV_ABORT]		= STAY(EP_ABORTING),
		[EP_EV_TERMINATE]	= STAY(EP_ABORTING),
		[EP_EV_INIT_DONE]	= STAY(EP_ABORTING),
		[EP_EV_MPA_BAD]		= STAY(EP_ABORTING),
		[EP_EV_PEER_CLOSE]	= STAY(EP_ABORTING),
		[EP_EV_CLOSE_RPL]	= STAY(EP_ABORTING),
		[EP_EV_BAD_CLOSE]	= STAY(EP_ABORTING),
		[EP_EV_ESTABLISHED]	= STAY(EP_ABORTING),
		[EP_EV_ARP_FAILED]	= STAY(EP_ABORTING),
		[EP_EV_TIMEOUT]		= TO(EP_ABORTING, EP_START_TIMER | EP_CARD_DEAD),
		[EP_EV_RETIRE]		= STAY(EP_ABORTING),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE_WITH_QP),
		[EP_EV_PEER_ABORT]	= TO(EP_ABORTING, EP_SEND_ABORT_RPL),
		[EP_EV_ABORT_RPL]	= TO(EP_DEAD, GONE_WITH_QP),
		[EP_EV_ABORT_RPL_CROSSED] = TO(EP_ABORT_CROSSED, 0),
	},
	[EP_ABORT_CROSSED] = {
		[EP_EV_DISCONNECT]	= STAY(EP_ABORT_CROSSED),
		[EP_EV_ABORT]		= STAY(EP_ABORT_CROSSED),
		[EP_EV_TERMINATE]	= STAY(EP_ABORT_CROSSED),
		[EP_EV_INIT_DONE]	= STAY(EP_ABORT_CROSSED),
		[EP_EV_MPA_BAD]		= STAY(EP_ABORT_CROSSED),
		[EP_EV_PEER_CLOSE]	= STAY(EP_ABORT_CROSSED),
		[EP_EV_CLOSE_RPL]	= STAY(EP_ABORT_CROSSED),
		[EP_EV_BAD_CLOSE]	= STAY(EP_ABORT_CROSSED),
		[EP_EV_ESTABLISHED]	= STAY(EP_ABORT_CROSSED),
		[EP_EV_ARP_FAILED]	= STAY(EP_ABORT_CROSSED),
		[EP_EV_TIMEOUT]		= TO(EP_ABORT_CROSSED, EP_START_TIMER | EP_CARD_DEAD),
		[EP_EV_RETIRE]		= STAY(EP_ABORT_CROSSED),
		[EP_EV_DEVICE_DOWN]	= TO(EP_DEAD, GONE_WITH_QP),
		[EP_EV_PEER_ABORT]	= TO(EP_DEAD, GONE_WITH_QP | EP_SEND_ABORT_RPL),
	},
	/* What the host had queued when the end came. */
	[EP_DEAD] = {
		[EP_EV_DISCONNECT]	= STAY(EP_DEAD),
		[EP_EV_ABORT]		= STAY(EP_DEAD),
		[EP_EV_TERMINATE]	= STAY(EP_DEAD),
		[EP_EV_TIMEOUT]		= STAY(EP_DEAD),
		[EP_EV_ARP_FAILED]	= STAY(EP_DEAD),
		[EP_EV_RETIRE]		= STAY(EP_DEAD),
		[EP_EV_DEVICE_DOWN]	= STAY(EP_DEAD),
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
	[EP_DEAD]		= "dead",
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
	[EP_EV_RETIRE]		= "retire",
	[EP_EV_DEVICE_DOWN]	= "device-down",
};

static const char *const ep_action_names[EP_NUM_ACTIONS] = {
	"stop-timer", "start-timer", "qp-closing", "qp-error", "send-close", "send-abort",
	"send-abort-rpl", "tell-peer-closed", "qp-idle", "qp-detach", "release", "tell-end",
	"send-open", "card-dead",
};

/**
 * ep_fsm - look a pair up
 * @state: state of the endpoint
 * @event: what happened
 *
 * Return: the step, or NULL if the event is not legal in this state.
 */
const struct ep_step *ep_fsm(enum ep_state state, enum ep_event event)
{
	const struct ep_step *step;

	if ((unsigned int)state >= EP_NUM_STATES || (unsigned int)event >= EP_NUM_EVENTS)
		return NULL;
	step = &ep_table[state][event];
	return step->legal ? step : NULL;
}

/* Waiting for something that another machine or the card must send. */
bool ep_state_has_timer(enum ep_state state)
{
	switch (state) {
	case EP_IDLE:
	case EP_ABANDONED:
	case EP_MPA_REQ_RCVD:
	case EP_FPDU:
	case EP_DEAD:
		return false;
	default:
		return true;
	}
}

const char *ep_state_name(enum ep_state state)
{
	return (unsigned int)state < EP_NUM_STATES ? ep_state_names[state] : "?";
}

const char *ep_event_name(enum ep_event event)
{
	return (unsigned int)event < EP_NUM_EVENTS ? ep_event_names[event] : "?";
}

const char *ep_action_name(unsigned int bit)
{
	return bit < EP_NUM_ACTIONS ? ep_action_names[bit] : "?";
}
