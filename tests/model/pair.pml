/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two machines: an id that connects, a listener, the id of its connect request, and a wire between the two providers. The actions of one
 * side are the events of the other. So this shows what one.pml cannot: that a connection which ends on one side also ends on the other,
 * that no side keeps half of one, and what happens to a request whose listener is destroyed or whose device is removed.
 *
 * Messages of both directions cross freely. The wire may break at any time: then all messages on it are lost, and each provider gives up
 * at any time. Otherwise a provider reports nothing but what the other side has sent.
 *
 * A call, the handling of an event by a worker, and the receipt of a message by a provider are one atomic step each. one.pml covers what
 * happens in the middle of them.
 *
 * A device is removed when its last user has gone, as in cm_dev.users: an id from attaching until it is freed, and a listener while its
 * provider has it. Each call asserts that the device of its provider has not been removed.
 *
 * The transport is iWARP, or RoCE (ROCE): the wire has the messages of ib_cm, whose states are those of the provider. Its consumers are processes.
 *
 * CALLS: how often each consumer may call, besides connect, accept and destroy. REMOVED_SIDE: the side whose device is removed, A or B; undefined:
 * none. ATTACHED_BY_WORKER: a fault for check-faults: a request holds its device only after the listener's worker has handled it.
 */
#define IDS 3
#define A 0		/* connects */
#define B 1		/* accepts */
#define L 2		/* listens */
/* provider.c closes a QP, and roce.c in any state: in that of CLOSED it sends the DREP. */
#ifdef ROCE
#define CLOSES(i) true
#else
#define CLOSES(i) id[i].qp
#endif
#include "id.pml"

#ifndef CALLS
#define CALLS 1
#endif

#define P_NONE 0	/* has no connection */
#define P_REQUESTED 1	/* has reported a request; the peer may have given up by now */
#define P_PENDING 2	/* is going to report a reply, or CLOSE */
#define P_OPEN 3	/* is going to report CLOSE */
byte provider[IDS];
bool fin_sent[2], fin_seen[2];
bool listens;		/* the provider of B has a listener */
bool removing[2];
bool attached[2];	/* the id holds its device */
bool removed[2];	/* the device has gone */
#define DEVICE_OF(i) (i == A -> A : B)
bool requested;		/* the request has reached a listener's queue */
bool known;		/* it was reported to the listener's consumer */

#define M_REQUEST 1
#define M_ACCEPT 2
#define M_REJECT 3
#define M_FIN 4
#define M_RESET 5
/* RoCE: REQ, REP, REJ, DREQ are the first four. */
#define M_RTU 6
#define M_DREP 7
chan wire[2] = [3] of { byte };		/* to A, to B */
bool broken;

inline send(i, what) {
	if
	:: !broken -> wire[1 - i]!what
	:: else
	fi
}

inline provider_unlisten(i) {
	assert(i == L);
	assert(!listens || !removed[B]);
	listens = false
}

#ifdef ROCE
#define P_REPLIED 4	/* REP_RCVD: has reported the reply, and sends the RTU when the consumer establishes */
#define P_CLOSING 5	/* DREQ_SENT */
#define P_CLOSED 6	/* DREQ_RCVD: a disconnect or the destroy sends the DREP */
#define P_TIMEWAIT 7	/* may report TIMEWAIT_EXIT */

/* cm_event_post() of an event that repeats one that is queued does nothing. */
inline post_end(i, what) {
	if
	:: !id[i].taken[SLOT_CLOSE] -> post(i, SLOT_CLOSE, what)
	:: else
	fi
}

/* cm_roce_close(): ib_cm sends the message that is due in its state. */
inline provider_close(i) {
	assert(!removed[DEVICE_OF(i)]);
	if
	:: provider[i] == P_OPEN -> send(i, M_FIN); provider[i] = P_CLOSING
	:: provider[i] == P_CLOSED -> send(i, M_DREP); provider[i] = P_TIMEWAIT
	:: else ->
		if
		:: provider[i] == P_REQUESTED || provider[i] == P_PENDING || provider[i] == P_REPLIED ->
			send(i, M_REJECT); provider[i] = (i == B && provider[i] == P_PENDING -> P_TIMEWAIT : P_NONE)
		:: else
		fi;
		if
		:: id[i].state != ST_CLOSED -> post_end(i, EV_CLOSE)
		:: else
		fi
	fi
}

inline provider_abort(i) {
	provider_close(i)
}

inline provider_cancel(i) {
	assert(!removed[DEVICE_OF(i)])
}

inline provider_reject(i) {
	assert(i == B);
	assert(!removed[B]);
	if
	:: provider[B] == P_REQUESTED -> send(B, M_REJECT); provider[B] = P_NONE
	:: else		/* the peer has given up */
	fi
}

/* ib_send_cm_rtu() */
inline provider_establish(i, failed) {
	assert(!removed[DEVICE_OF(i)]);
	if
	:: provider[i] == P_REPLIED -> send(i, M_RTU); provider[i] = P_OPEN; failed = false
	:: else -> failed = true
	fi
}

/* ib_destroy_cm_id(): sends the message that is due, and no event comes any more. There is no reference on the QP. */
inline provider_release(i) {
	if
	:: i != L ->
		assert(provider[i] == P_NONE || !removed[DEVICE_OF(i)]);
		if
		:: provider[i] == P_OPEN -> send(i, M_FIN)
		:: provider[i] == P_CLOSED -> send(i, M_DREP)
		:: provider[i] == P_REQUESTED || provider[i] == P_PENDING || provider[i] == P_REPLIED -> send(i, M_REJECT)
		:: else
		fi;
		provider[i] = P_NONE;
		id[i].qp = false
	:: else
	fi
}

inline provider_connect(i, failed) {
	assert(!removed[DEVICE_OF(i)]);
	send(i, M_REQUEST);
	provider[i] = P_PENDING;
	failed = false
}

/* The peer may have given up. */
inline provider_accept(i, failed) {
	assert(!removed[DEVICE_OF(i)]);
	if
	:: provider[i] == P_REQUESTED -> send(i, M_ACCEPT); provider[i] = P_PENDING; failed = false
	:: else -> failed = true
	fi
}
#else
inline provider_over(i) {
	post(i, SLOT_CLOSE, EV_CLOSE);
	provider[i] = P_NONE
}

inline provider_close(i) {
	assert(!removed[DEVICE_OF(i)]);
	if
	:: provider[i] == P_OPEN && !fin_sent[i] -> fin_sent[i] = true; send(i, M_FIN)
	:: else
	fi
}

inline provider_abort(i) {
	assert(!removed[DEVICE_OF(i)]);
	if
	:: provider[i] == P_OPEN -> send(i, M_RESET); provider_over(i)
	:: else
	fi
}

/* A provider that cannot cancel: the reply or the end of the wire comes as ever. */
inline provider_cancel(i) {
	assert(!removed[DEVICE_OF(i)]);
	if
	:: provider[i] == P_OPEN -> send(i, M_RESET); provider_over(i)
	:: else
	fi
}

inline provider_reject(i) {
	assert(i == B);
	assert(!removed[B]);
	send(B, M_REJECT);
	provider[B] = P_NONE
}

inline provider_establish(i, failed) {
	failed = false
}
inline provider_release(i) {
	skip
}

inline provider_connect(i, failed) {
	assert(!removed[DEVICE_OF(i)]);
	send(i, M_REQUEST);
	provider[i] = P_PENDING;
	failed = false
}

/* The peer may have given up: then there is nothing to accept. */
inline provider_accept(i, failed) {
	assert(!removed[DEVICE_OF(i)]);
	if
	:: broken -> failed = true; provider[i] = P_NONE
	:: else -> send(i, M_ACCEPT); post(i, SLOT_OPEN, EV_ESTABLISHED); provider[i] = P_OPEN; failed = false
	fi
}
#endif

/* cm_listener_upcall(): called by the provider, which has the listener, and so the device. */
inline request_arrives() {
#ifndef ATTACHED_BY_WORKER
	attached[B] = true;
#endif
	/* In the queue of its own id, before an end of the connection. */
	post(B, SLOT_REQUEST, EV_REQUEST);
	provider[B] = P_REQUESTED;
	requested = true
}

#ifdef ROCE
/* Messages from the wire. Without the peer a message is repeated, and then fails; but an open connection gets no notice that its peer has gone. */
proctype the_provider(byte i) {
	byte message;
end:	do
	:: atomic { wire[i]?message ->
		if
		:: message == M_REQUEST && listens -> request_arrives()
		:: message == M_REQUEST && !listens -> send(B, M_REJECT)
		:: message == M_ACCEPT && provider[i] == P_PENDING ->
			if
			:: id[i].own_qp -> post(i, SLOT_OPEN, EV_RESPONSE); provider[i] = P_REPLIED
			:: else -> post(i, SLOT_OPEN, EV_REPLY_OK); send(i, M_RTU); provider[i] = P_OPEN
			fi
		:: message == M_RTU && provider[i] == P_PENDING -> post(i, SLOT_OPEN, EV_ESTABLISHED); provider[i] = P_OPEN
		:: message == M_REJECT && (provider[i] == P_REQUESTED || provider[i] == P_PENDING) -> post_end(i, EV_REPLY_FAILED); provider[i] = P_NONE
		/* It has crossed the RTU or the DREQ. */
		:: message == M_REJECT && (provider[i] == P_REPLIED || provider[i] == P_OPEN || provider[i] == P_CLOSING) ->
			post_end(i, EV_REPLY_FAILED); provider[i] = P_TIMEWAIT
		:: message == M_FIN && (provider[i] == P_OPEN || provider[i] == P_CLOSING || provider[i] == P_PENDING) ->
			post_end(i, EV_CLOSE); provider[i] = P_CLOSED
		:: message == M_FIN && (provider[i] == P_TIMEWAIT || provider[i] == P_NONE) -> send(i, M_DREP)
		:: message == M_DREP && (provider[i] == P_CLOSING || provider[i] == P_CLOSED) -> post_end(i, EV_CLOSE); provider[i] = P_TIMEWAIT
		:: else		/* the connection has ended */
		fi;
		message = 0 }
	:: atomic { provider[i] == P_TIMEWAIT -> post(i, SLOT_TIMEWAIT, EV_TIMEWAIT_EXIT); provider[i] = P_NONE }
	:: atomic { broken && provider[i] == P_PENDING -> post_end(i, EV_REPLY_FAILED); provider[i] = P_NONE }
	:: atomic { broken && provider[i] == P_CLOSING -> post_end(i, EV_CLOSE); provider[i] = P_TIMEWAIT }
	od
}
#else
/* Messages from the wire, and the end of the wire. */
proctype the_provider(byte i) {
	byte message;
end:	do
	:: atomic { wire[i]?message ->
		if
		:: message == M_REQUEST && listens -> request_arrives()
		:: message == M_REQUEST && !listens -> send(B, M_REJECT)
		:: message == M_ACCEPT && provider[i] == P_PENDING ->
			if
			:: id[i].own_qp -> post(i, SLOT_OPEN, EV_RESPONSE)
			:: else -> post(i, SLOT_OPEN, EV_REPLY_OK)
			fi;
			provider[i] = P_OPEN
		:: message == M_REJECT && provider[i] == P_PENDING -> post(i, SLOT_OPEN, EV_REPLY_FAILED); provider[i] = P_NONE
		/* The other side closes, so this one closes, too. */
		:: message == M_FIN && provider[i] == P_OPEN -> fin_seen[i] = true;
			if
			:: !fin_sent[i] -> post(i, SLOT_PEER_CLOSE, EV_PEER_CLOSE); fin_sent[i] = true; send(i, M_FIN)
			:: else
			fi
		:: message == M_RESET && provider[i] == P_OPEN -> provider_over(i)
		:: else		/* the connection has ended */
		fi;
		message = 0 }
	:: atomic { provider[i] == P_OPEN && fin_sent[i] && fin_seen[i] -> provider_over(i) }
	:: atomic { broken && provider[i] == P_PENDING -> post(i, SLOT_OPEN, EV_REPLY_FAILED); provider[i] = P_NONE }
	:: atomic { broken && provider[i] == P_PENDING -> provider_over(i) }
	:: atomic { broken && provider[i] == P_OPEN -> provider_over(i) }
	od
}
#endif

/* cm_request_deliver(). A wildcard listener stays when the device of the request is removed. */
inline handle_request() {
	fsm_apply(B, EV_REQUEST);
	assert(legal);
	if
	:: id[L].state != ST_LISTENING || removing[B] -> destroy_id(B)
	:: else -> attached[B] = true; known = true; report(B); handler_returns(B)
	fi
}

proctype worker(byte i) {
	bool legal; int acts; byte slot, event;
end:	do
	:: atomic { queue[i]?slot, event ->
		if
		:: event == EV_REQUEST -> id[i].taken[slot] = false; handle_request()
		:: else -> id[i].taken[slot] = false; fsm_apply(i, event); assert(legal); finish_event(i)
		fi;
		legal = false; acts = 0; slot = 0; event = 0 }
	od
}

#ifdef ROCE
#define NO_NOTICE(i) (broken && !closed)
#else
#define NO_NOTICE(i) false
#endif
#define END_REPORTED(i) (id[i].ended || id[i].removal_reported || id[i].destroyed)

/*
 * Connects or accepts, may make other calls, and destroys the id. Before that it may wait for the end of the connection, if that is sure to
 * come: after its own disconnect, or after the destroy on the other side.
 */
proctype consumer(byte i) {
	bool legal, failed; int acts; bool pending = false, closed = false; byte calls = CALLS;
end:	(i == A || known);
	if
	:: atomic { !id[i].destroyed ->
		if
		:: i == A -> connect(A)
		:: else -> accept(B)
		fi;
		legal = false; failed = false; acts = 0 }
	:: true
	fi;
#ifdef ROCE
	if
	:: atomic { i == A && id[A].state == ST_RESPONDED -> establish(A); legal = false; failed = false; acts = 0 }
	:: true
	fi;
#endif
	do
	:: atomic { calls && !id[i].destroyed -> calls--;
		if
		:: fsm_apply(i, EV_DISCONNECT); closed = pending && legal; run_actions(i)
		:: i == A && id[A].own_qp -> establish(A)
		:: fsm_apply(i, EV_REJECT); run_actions(i); pending = pending && !legal	/* closed by our own call */
		fi;
		legal = false; acts = 0 }
	:: break
	od;
	if
	:: pending && (closed || id[1 - i].destroyed) -> (END_REPORTED(i) || NO_NOTICE(i))
	:: true
	fi;
	atomic { destroy(i) }
}

/* A listener is destroyed at any time. */
proctype listener() {
	bool legal; int acts;
	atomic { destroy(L) }
}

proctype wire_breaks() {
	byte lost;
	broken = true;
	do
	:: atomic { wire[A]?lost -> lost = 0 }
	:: atomic { wire[B]?lost -> lost = 0 }
	:: atomic { empty(wire[A]) && empty(wire[B]) -> break }
	od
}

#define FREED(i) (id[i].state == ST_DESTROYING && provider[i] == P_NONE && empty(queue[i]) && !id[i].handler_mutex)
#define ABSENT (id[B].state == ST_IDLE && !requested)

#ifdef REMOVED_SIDE
/* cm_remove_one(): posts the removal to all ids of the device, and takes its listener off; then it waits for the last user. */
proctype remover() {
	atomic {
		removing[REMOVED_SIDE] = true;
#if REMOVED_SIDE == A
		if
		:: id[A].state != ST_DESTROYING -> post(A, SLOT_REMOVE, EV_REMOVE)
		:: else
		fi
#else
		listens = false;
		/* A wildcard listener stays for the other devices. */
		if
		:: id[L].state != ST_DESTROYING -> post(L, SLOT_REMOVE, EV_REMOVE)
		:: true
		fi;
		if
		:: id[B].state != ST_IDLE && id[B].state != ST_DESTROYING -> post(B, SLOT_REMOVE, EV_REMOVE)
		:: else
		fi
#endif
	};
	/* The users: ids that are attached and not freed. */
	atomic { !attached[REMOVED_SIDE] || FREED(REMOVED_SIDE) -> attached[REMOVED_SIDE] = false; removed[REMOVED_SIDE] = true };
	assert(!id[REMOVED_SIDE].qp)
}
#endif

init {
	atomic {
		id[A].state = ST_ROUTE_RESOLVED;
		attached[A] = true;
		id[L].state = ST_LISTENING;
		listens = true;
		if
		:: id[A].own_qp = true
		:: true
		fi;
		run worker(A);
		run worker(B);
		run worker(L);
		run the_provider(A);
		run the_provider(B);
		run consumer(A);
		run consumer(B);
		run listener();
		if
		:: run wire_breaks()
		:: true
		fi;
#ifdef REMOVED_SIDE
		run remover()
#endif
	};
	/* At the end no reference is left. A consumer that waits got the end of its connection. */
	FREED(A) && id[A].destroyed && FREED(L) && id[L].destroyed && (ABSENT || FREED(B) && id[B].destroyed);
	assert(!id[A].qp && !id[B].qp && !listens)
}
