/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One id, active or passive, with every behaviour of the others. The provider reports any event that its contract allows, at any time: so
 * it covers every peer, and a wire that loses, delays and reorders messages. Its events also come inside our calls, or in parallel to them.
 * The device may be removed at any time. The transport is iWARP, or RoCE with what ib_cm reports: a REJ in any state, TIMEWAIT_EXIT, a destroy
 * that ends all events at once.
 *
 * In addition to id.pml this asserts that no QP reference is left. Spin reports a wait without an end as a deadlock: a consumer that waits
 * for the last event of its connection, a removal that waits for the last user of the device.
 */
#define IDS 1
#define CLOSES(i) id[i].qp
#include "id.pml"

/* The provider. */
#define P_NONE 0	/* has no connection */
#define P_REQUESTED 1	/* has reported a request; the peer may have given up by now */
#define P_PENDING 2	/* is going to report a reply or ESTABLISHED, or CLOSE */
#define P_OPEN 3	/* is going to report CLOSE */
#define P_TIMEWAIT 4	/* RoCE: may report TIMEWAIT_EXIT */
byte provider = P_NONE;
bool peer_closed;	/* it has reported PEER_CLOSE */
bool connecting;
bool roce;

#define provider_ended (roce -> P_TIMEWAIT : P_NONE)

inline provider_over() {
	post(0, SLOT_CLOSE, EV_CLOSE);
	provider = provider_ended
}

/* RoCE: a REJ, or a reply or an RTU that is missing. */
inline provider_rejected() {
	post(0, SLOT_CLOSE, EV_REPLY_FAILED);
	provider = P_TIMEWAIT
}

/* The RTU may fail, and does so if the peer has given up. */
inline provider_establish(i, failed) {
	if
	:: roce -> failed = true
	:: !roce || provider == P_OPEN -> failed = false
	fi
}

/* ib_destroy_cm_id(): no event comes any more. There is no reference on the QP. */
inline provider_release(i) {
	if
	:: roce -> provider = P_NONE; id[i].qp = false
	:: else
	fi
}

/* ib_modify_qp(SQD): CLOSE may come inside the call, or later. */
inline provider_close(i) {
	if
	:: provider == P_OPEN -> provider_over()
	:: true
	fi
}

/* ib_modify_qp(ERR) */
inline provider_abort(i) {
	if
	:: provider == P_OPEN -> provider_over()
	:: else
	fi
}

/* ib_modify_qp(ERR) of a QP whose connect or accept is pending: its event may come inside the call. RoCE has nothing to do. */
inline provider_cancel(i) {
	if
	:: !roce && provider == P_PENDING && connecting -> post(0, SLOT_OPEN, EV_REPLY_FAILED); provider = P_NONE
	:: !roce && provider == P_OPEN -> provider_over()
	:: true
	fi
}

inline provider_reject(i) {
	provider = P_NONE
}

inline provider_unlisten(i) {
	assert(false)
}

/* The reply may come inside the call too: the_provider() runs whenever it is P_PENDING. */
inline provider_connect(i, failed) {
	if
	:: failed = true
	:: failed = false; provider = P_PENDING
	fi
}

inline provider_accept(i, failed) {
	if
	:: provider == P_REQUESTED -> failed = true; provider = P_NONE
	:: provider == P_REQUESTED -> failed = false; post(0, SLOT_OPEN, EV_ESTABLISHED); provider = P_OPEN
	:: provider == P_REQUESTED -> failed = false; provider_over()
	:: provider == P_REQUESTED -> failed = false; provider = P_PENDING
	:: else -> failed = true	/* RoCE: the peer has given up */
	fi
}

proctype the_provider() {
end:	do
	:: atomic { id[0].state == ST_IDLE && provider == P_NONE && !connecting && empty(queue[0]) -> post(0, SLOT_REQUEST, EV_REQUEST); provider = P_REQUESTED }
	:: atomic { provider == P_PENDING && connecting ->
		if
		:: id[0].own_qp -> post(0, SLOT_OPEN, EV_RESPONSE); provider = P_OPEN
		:: !id[0].own_qp -> post(0, SLOT_OPEN, EV_REPLY_OK); provider = P_OPEN
		:: !roce -> post(0, SLOT_OPEN, EV_REPLY_FAILED); provider = P_NONE
		:: provider_over()	/* instead of a reply */
		fi }
	:: atomic { provider == P_PENDING && !connecting ->
		if
		:: post(0, SLOT_OPEN, EV_ESTABLISHED); provider = P_OPEN
		:: provider_over()
		fi }
	:: atomic { roce && (provider == P_REQUESTED || provider == P_PENDING || provider == P_OPEN) -> provider_rejected() }
	:: atomic { provider == P_TIMEWAIT -> post(0, SLOT_TIMEWAIT, EV_TIMEWAIT_EXIT); provider = P_NONE }
	:: atomic { provider == P_OPEN && !peer_closed && !roce -> peer_closed = true; post(0, SLOT_PEER_CLOSE, EV_PEER_CLOSE) }
	:: atomic { provider == P_OPEN -> provider_over() }
	od
}

proctype worker() {
	bool legal; int acts; byte slot, event;
end:	do
	:: atomic { nempty(queue[0]) && !id[0].handler_mutex -> id[0].handler_mutex = true };
		do
		:: atomic { queue[0]?slot, event -> id[0].taken[slot] = false; fsm_apply(0, event); assert(legal) };
			finish_event(0);
			d_step { legal = false; acts = 0; slot = 0; event = 0 }
		:: atomic { empty(queue[0]) -> id[0].handler_mutex = false; break }
		od
	od
}

#define BEGUN (connecting || id[0].state != ST_IDLE)

/* Any call at any time. At the end it destroys the id, and before that may wait for the end of its connection. */
proctype consumer() {
	bool legal, failed; int acts; bool pending = false;
	do
	:: atomic { !id[0].destroyed && !id[0].handler_failed && BEGUN -> id[0].calling = true };
		if
		:: connecting -> connect(0)
		:: !connecting -> accept(0)
		:: atomic { fsm_apply(0, EV_DISCONNECT) }; run_actions(0)
		:: establish(0)
		:: atomic { fsm_apply(0, EV_REJECT) }; run_actions(0); pending = pending && !legal	/* closed by our own call */
		fi;
		d_step { legal = false; failed = false; acts = 0; id[0].calling = false }
	:: pending -> (id[0].ended || id[0].removal_reported || id[0].destroyed); break
	:: BEGUN -> break
	od;
	destroy(0)
}

/* cm_remove_one(): posts the removal to the id, and waits until the id is freed. */
/* The link address of the interface changes, once. */
proctype notifier() {
end:	atomic { id[0].state != ST_IDLE && id[0].state != ST_DESTROYING -> post(0, SLOT_ADDR_CHANGE, EV_ADDR_CHANGE) }
}

#define FREED (id[0].state == ST_DESTROYING && provider == P_NONE && empty(queue[0]) && !id[0].handler_mutex)

proctype remover() {
end:	atomic { id[0].state != ST_IDLE && id[0].state != ST_DESTROYING -> post(0, SLOT_REMOVE, EV_REMOVE) };
	FREED;
	assert(!id[0].qp)
}

init {
	atomic {
		if
		:: connecting = true; id[0].state = ST_ROUTE_RESOLVED
		:: connecting = false; id[0].state = ST_IDLE
		fi;
		if
		:: roce = true
		:: roce = false
		fi;
		if
		:: id[0].own_qp = connecting
		:: id[0].own_qp = false
		fi;
		run worker();
		run the_provider();
		run consumer();
		if
		:: run remover()
		:: run notifier()
		:: true
		fi
	};
end:	FREED && id[0].destroyed;		/* or no request ever came */
	assert(!id[0].qp)
}
