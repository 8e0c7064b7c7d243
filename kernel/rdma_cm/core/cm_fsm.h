/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state machine of an id as a table: [state][event] -> next state, actions.
 *
 * Pure: cm_fsm.c has the table and the names, and accesses no id. state.c has the one function that
 * changes id->state, cm_fsm_apply(); actions.c runs the actions. The diagram in docs/rdma_cm.md and
 * the model for spin (tests/model) are made from this table; tests/unit/kernel checks every cell.
 */
#ifndef T3_RDMA_CM_FSM_H
#define T3_RDMA_CM_FSM_H

#include <t3_fsm.h>

enum cm_state {
	CM_ST_IDLE,		/* no address */
	CM_ST_BINDING,		/* a call assigns an address and a port */
	CM_ST_BOUND,		/* has an address and a port */
	CM_ST_ADDR_QUERY,	/* the address of the destination is looked up */
	CM_ST_ADDR_RESOLVED,
	CM_ST_ROUTE_QUERY,
	CM_ST_ROUTE_RESOLVED,
	CM_ST_LISTENING,
	CM_ST_CONNECTING,	/* active: waits for the provider's reply or CLOSE */
	CM_ST_RESPONDED,	/* active, RESPONSE: the consumer must establish */
	CM_ST_REQUESTED,	/* passive: the consumer must accept or reject */
	CM_ST_ACCEPTING,	/* passive: waits for ESTABLISHED or CLOSE */
	CM_ST_CANCELLING,	/* the consumer disconnected while connecting or accepting */
	CM_ST_CONNECTED,
	CM_ST_CLOSING,		/* one side closes: waits for the provider's CLOSE */
	CM_ST_CLOSED,		/* rejected, failed or closed; that was reported */
	CM_ST_REMOVED,		/* its device was removed; the consumer must destroy it */
	CM_ST_DESTROYING,	/* destroyed; exists while the provider has a reference */
	CM_NUM_STATES
};

enum cm_event {
	/* Calls of the consumer, and their failures. */
	CM_EV_BIND,
	CM_EV_BIND_DONE,
	CM_EV_BIND_FAILED,
	CM_EV_RESOLVE_ADDR,
	CM_EV_RESOLVE_FAILED,
	CM_EV_RESOLVE_ROUTE,
	CM_EV_ROUTE_FAILED,
	CM_EV_LISTEN,
	CM_EV_LISTEN_FAILED,
	CM_EV_CONNECT,
	CM_EV_CONNECT_FAILED,
	CM_EV_ACCEPT,
	CM_EV_ACCEPT_FAILED,
	CM_EV_ACCEPTED,		/* an accept for datagrams: nothing follows */
	CM_EV_ESTABLISH,	/* after RESPONSE */
	CM_EV_ESTABLISH_FAILED,
	CM_EV_REJECT,
	CM_EV_DISCONNECT,
	CM_EV_DESTROY,
	/* Address resolution. */
	CM_EV_ADDR_DONE,
	CM_EV_ADDR_FAILED,
	CM_EV_ROUTE_DONE,
	/* The device. cm_is_conn_event(): REPLY_OK..TIMEWAIT_EXIT must stay adjacent. */
	CM_EV_REQUEST,		/* the first event of a passive id */
	CM_EV_REPLY_OK,
	CM_EV_RESPONSE,		/* the consumer moves its QP, and then establishes */
	CM_EV_REPLY_FAILED,	/* RoCE: also a REJ after the reply, or an RTU that is missing */
	CM_EV_ESTABLISHED,
	CM_EV_PEER_CLOSE,	/* iWARP. DISCONNECT: CLOSE follows */
	CM_EV_CLOSE,		/* the last event of an iWARP provider */
	CM_EV_TIMEWAIT_EXIT,	/* RoCE: the number of the QP can be used again */
	CM_EV_GROUP,		/* a multicast group was joined */
	CM_EV_ADDR_CHANGE,	/* the interface has another link address */
	CM_EV_REMOVE,		/* the device is removed */
	CM_NUM_EVENTS
};

#define CM_FIRST_QUEUED	CM_EV_ADDR_DONE

/* What cm_run_actions() does, in the order of the bits; reports come last, from event.c. */
enum cm_action {
	CM_ACT_UNLISTEN		= 1 << 0,
	CM_ACT_CLOSE		= 1 << 1,	/* gracefully */
	CM_ACT_ABORT		= 1 << 2,
	CM_ACT_CANCEL		= 1 << 3,	/* a connect or an accept that is pending */
	CM_ACT_REJECT		= 1 << 4,	/* the connect request of the peer */
	CM_ACT_DROP_QP		= 1 << 5,	/* put the reference of the connection */
	/* Events for the consumer; only for events from the queue. */
	CM_ACT_REPORT_ADDR		= 1 << 6,
	CM_ACT_REPORT_ADDR_ERROR	= 1 << 7,
	CM_ACT_REPORT_ROUTE		= 1 << 8,
	CM_ACT_REPORT_REQUEST		= 1 << 9,
	CM_ACT_REPORT_RESPONSE		= 1 << 10,
	CM_ACT_REPORT_ESTABLISHED	= 1 << 11,
	CM_ACT_REPORT_FAILED		= 1 << 12,	/* rejected or broken off */
	CM_ACT_REPORT_DISCONNECTED	= 1 << 13,
	CM_ACT_REPORT_REMOVAL		= 1 << 14,
	CM_ACT_REPORT_NOTICE		= 1 << 15,	/* an event that leaves the state */
};

#define CM_ACT_SLEEPS \
	(CM_ACT_UNLISTEN | CM_ACT_CLOSE | CM_ACT_ABORT | CM_ACT_CANCEL | CM_ACT_REJECT)
#define CM_ACT_REPORTS \
	(CM_ACT_REPORT_ADDR | CM_ACT_REPORT_ADDR_ERROR | CM_ACT_REPORT_ROUTE | \
	 CM_ACT_REPORT_REQUEST | CM_ACT_REPORT_RESPONSE | CM_ACT_REPORT_ESTABLISHED | \
	 CM_ACT_REPORT_FAILED | CM_ACT_REPORT_DISCONNECTED | CM_ACT_REPORT_REMOVAL | \
	 CM_ACT_REPORT_NOTICE)
/* After one of these the consumer gets no more events of this connection, but notices. */
#define CM_ACT_REPORTS_END \
	(CM_ACT_REPORT_FAILED | CM_ACT_REPORT_DISCONNECTED | CM_ACT_REPORT_REMOVAL)

const struct t3_transition *cm_fsm(enum cm_state state, enum cm_event event);
const char *cm_state_name(enum cm_state state);
const char *cm_event_name(enum cm_event event);

#endif
