/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The life of an id as a table: [state][event] -> next state, actions.
 *
 * Pure: cm_fsm.c holds the table and the names and touches no id. id.c has the one
 * function that changes id->state, cm_step(), and does what the table says. The
 * same table makes the picture in docs/rdma_cm.md, the model that spin checks
 * (tests/model), and the walk over every cell of tests/unit/kernel.
 */
#ifndef T3_RDMA_CM_FSM_H
#define T3_RDMA_CM_FSM_H

#include <linux/types.h>

enum cm_state {
	CM_IDLE,		/* made; no address */
	CM_BINDING,		/* a call is giving it an address and a port */
	CM_BOUND,		/* has both */
	CM_ADDR_QUERY,		/* the way to the destination is looked up */
	CM_ADDR_RESOLVED,
	CM_ROUTE_QUERY,
	CM_ROUTE_RESOLVED,
	CM_LISTENING,
	CM_CONNECTING,		/* active: the provider owes a reply or CLOSE */
	CM_ANSWERED,		/* active, no QP of ours: the consumer must establish */
	CM_REQUESTED,		/* passive: the consumer thinks about accept or reject */
	CM_ACCEPTING,		/* passive: the provider owes ESTABLISHED or CLOSE */
	CM_CANCELLING,		/* disconnected by the consumer while the provider owes */
	CM_CONNECTED,
	CM_CLOSING,		/* one side closes: the provider owes CLOSE */
	CM_CLOSED,		/* was refused, failed or closed; the consumer knows */
	CM_REMOVED,		/* its device went; only to be destroyed */
	CM_DYING,		/* destroyed; lives on while the provider has a reference */
	CM_NUM_STATES
};

enum cm_event {
	/* Calls of the consumer, with their own failures. */
	CM_EV_BIND,
	CM_EV_BIND_DONE,
	CM_EV_BIND_FAILED,
	CM_EV_RESOLVE_ADDR,
	CM_EV_RESOLVE_FAILED,
	CM_EV_RESOLVE_ROUTE,
	CM_EV_LISTEN,
	CM_EV_LISTEN_FAILED,
	CM_EV_CONNECT,
	CM_EV_CONNECT_FAILED,
	CM_EV_ACCEPT,
	CM_EV_ACCEPT_FAILED,
	CM_EV_ESTABLISH,	/* of an id without a QP, when it was answered */
	CM_EV_REJECT,
	CM_EV_DISCONNECT,
	CM_EV_DESTROY,
	/* Address resolution. */
	CM_EV_ADDR_DONE,
	CM_EV_ADDR_FAILED,
	CM_EV_ROUTE_DONE,
	/* The provider. */
	CM_EV_REQUEST,		/* what a passive id is born with */
	CM_EV_REPLY_OK,
	CM_EV_REPLY_OK_QPLESS,	/* the same, for an id without a QP */
	CM_EV_REPLY_FAILED,
	CM_EV_ESTABLISHED,
	CM_EV_PEER_CLOSE,	/* DISCONNECT: CLOSE follows */
	CM_EV_CLOSE,		/* the last word of the provider */
	/* The device. */
	CM_EV_REMOVE,
	CM_NUM_EVENTS
};

#define CM_FIRST_QUEUED	CM_EV_ADDR_DONE

/* What a step makes id.c do, in the order of the bits. */
enum cm_action {
	CM_UNLISTEN		= 1 << 0,
	CM_CLOSE		= 1 << 1,	/* gracefully */
	CM_ABORT		= 1 << 2,
	CM_REFUSE		= 1 << 3,	/* tell the peer no */
	CM_DROP_QP		= 1 << 4,	/* the reference of the connection */
	/* Events to the consumer; only in steps that come from the queue. */
	CM_TELL_ADDR		= 1 << 5,
	CM_TELL_ADDR_ERROR	= 1 << 6,
	CM_TELL_ROUTE		= 1 << 7,
	CM_TELL_REQUEST		= 1 << 8,
	CM_TELL_RESPONSE	= 1 << 9,
	CM_TELL_ESTABLISHED	= 1 << 10,
	CM_TELL_FAILED		= 1 << 11,	/* REJECTED, UNREACHABLE, CONNECT_ERROR */
	CM_TELL_DISCONNECTED	= 1 << 12,
	CM_TELL_REMOVAL		= 1 << 13,
};

#define CM_NUM_ACTIONS	14
#define CM_SLEEPS	(CM_UNLISTEN | CM_CLOSE | CM_ABORT | CM_REFUSE)
#define CM_TELL_ANY	(CM_TELL_ADDR | CM_TELL_ADDR_ERROR | CM_TELL_ROUTE | CM_TELL_REQUEST | \
			 CM_TELL_RESPONSE | CM_TELL_ESTABLISHED | CM_TELL_FAILED | \
			 CM_TELL_DISCONNECTED | CM_TELL_REMOVAL)
/* After one of these the consumer hears no more of this connection. */
#define CM_TELL_END	(CM_TELL_FAILED | CM_TELL_DISCONNECTED | CM_TELL_REMOVAL)

/**
 * struct cm_cell - one cell of the table
 * @legal: the event may come in this state; all other pairs are refused
 * @next: state afterwards
 * @actions: set of enum cm_action
 */
struct cm_cell {
	bool legal;
	u8 next;
	u16 actions;
};

const struct cm_cell *cm_fsm(enum cm_state state, enum cm_event event);
const char *cm_state_name(enum cm_state state);
const char *cm_event_name(enum cm_event event);
const char *cm_action_name(unsigned int bit);

#endif
