/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two machines: an id that connects, a listener, the id that it makes of the request, and a wire between their providers. What one side
 * does is what the other is told, so this shows what one.pml cannot: that a connection which one side ends also ends for the other, that
 * nobody keeps half of one, and what becomes of a request whose listener, or whose listener's device, goes.
 *
 * Messages of both directions cross freely. The wire may break at any time: all that is under way is lost, and each provider gives up
 * when it likes. Without that no provider says anything that it was not told by the other side.
 *
 * A call, an event that a worker handles, a message that a provider takes: each is one step here. What may happen in the middle of them
 * is in one.pml.
 *
 * A device goes when nothing holds it any more, as cm_dev.users counts: an id from the moment it is attached until it is freed, and a
 * listener while its provider has it. Nobody may call a provider whose device has gone: asserted in each call.
 *
 * CALLS: how often each consumer may call beside connect, accept and destroy. GOES: whose device goes, A or B; undefined: nobody's.
 * ATTACHED_BY_WORKER: a request holds its device only when the listener's worker has come to it, as it once was; check-faults wants that
 * found.
 */
#define IDS 3
#define A 0		/* connects */
#define B 1		/* is asked */
#define L 2		/* listens */
#include "id.pml"

#ifndef CALLS
#define CALLS 1
#endif

#define P_NONE 0	/* knows nothing; owes nothing */
#define P_ASKED 1	/* told of a request; the peer may have given up by now */
#define P_OWES 2	/* a reply, or CLOSE */
#define P_OPEN 3	/* owes CLOSE */
byte provider[IDS];
bool fin_sent[2], fin_seen[2];
bool listens;		/* the provider of B has a listener */
bool removing[2];
bool attached[2];	/* the id holds its device */
bool removed[2];	/* the device has gone */
#define DEVICE_OF(i) (i == A -> A : B)
bool asked;		/* the request has reached a listener's queue */
bool known;		/* the listener's consumer was told of it */

#define M_REQUEST 1
#define M_ACCEPT 2
#define M_REFUSE 3
#define M_FIN 4
#define M_RESET 5
chan wire[2] = [3] of { byte };		/* to A, to B */
bool broken;

inline send(i, what) {
	if
	:: !broken -> wire[1 - i]!what
	:: else
	fi
}

inline provider_over(i) {
	post(i, SLOT_CLOSE, E_CLOSE);
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

inline provider_refuse(i) {
	assert(i == B);
	assert(!removed[B]);
	send(B, M_REFUSE);
	provider[B] = P_NONE
}

inline provider_unlisten(i) {
	assert(i == L);
	assert(!listens || !removed[B]);
	listens = false
}

inline provider_connect(i, failed) {
	assert(!removed[DEVICE_OF(i)]);
	send(i, M_REQUEST);
	provider[i] = P_OWES;
	failed = false
}

/* The peer may have given up: then there is nothing to accept. */
inline provider_accept(i, failed) {
	assert(!removed[DEVICE_OF(i)]);
	if
	:: broken -> failed = true; provider[i] = P_NONE
	:: else -> send(i, M_ACCEPT); post(i, SLOT_OPEN, E_ESTABLISHED); provider[i] = P_OPEN; failed = false
	fi
}

/* cm_listener_upcall(): in the provider, which has the listener, and so the device, at that moment. */
inline request_arrives() {
#ifndef ATTACHED_BY_WORKER
	attached[B] = true;
#endif
	post_to(L, B, SLOT_REQUEST, E_REQUEST);
	provider[B] = P_ASKED;
	asked = true
}

/* What comes over the wire, and what its end brings about. */
proctype the_provider(byte i) {
	byte said;
end:	do
	:: atomic { wire[i]?said ->
		if
		:: said == M_REQUEST && listens -> request_arrives()
		:: said == M_REQUEST && !listens -> send(B, M_REFUSE)
		:: said == M_ACCEPT && provider[i] == P_OWES ->
			if
			:: id[i].qpless -> post(i, SLOT_OPEN, E_REPLY_OK_QPLESS)
			:: else -> post(i, SLOT_OPEN, E_REPLY_OK)
			fi;
			provider[i] = P_OPEN
		:: said == M_REFUSE && provider[i] == P_OWES -> post(i, SLOT_OPEN, E_REPLY_FAILED); provider[i] = P_NONE
		/* The other side closes: so does this one, at its leisure. */
		:: said == M_FIN && provider[i] == P_OPEN -> fin_seen[i] = true;
			if
			:: !fin_sent[i] -> post(i, SLOT_PEER_CLOSE, E_PEER_CLOSE); fin_sent[i] = true; send(i, M_FIN)
			:: else
			fi
		:: said == M_RESET && provider[i] == P_OPEN -> provider_over(i)
		:: else		/* for who is not there any more */
		fi;
		said = 0 }
	:: atomic { provider[i] == P_OPEN && fin_sent[i] && fin_seen[i] -> provider_over(i) }
	:: atomic { broken && provider[i] == P_OWES -> post(i, SLOT_OPEN, E_REPLY_FAILED); provider[i] = P_NONE }
	:: atomic { broken && provider[i] == P_OWES -> provider_over(i) }
	:: atomic { broken && provider[i] == P_OPEN -> provider_over(i) }
	od
}

/* cm_request_deliver(): in the listener's worker. The listener may be one of all devices: then it does not go with this one. */
inline handle_request() {
	take_step(B, E_REQUEST);
	assert(legal);
	if
	:: id[L].state != S_LISTENING || removing[B] -> end_id(B)
	:: else -> attached[B] = true; known = true; tell(B); answer(B)
	fi
}

proctype worker(byte i) {
	bool legal; int acts; byte slot, event;
end:	do
	:: atomic { queue[i]?slot, event ->
		if
		:: event == E_REQUEST -> id[B].taken[slot] = false; handle_request()
		:: else -> id[i].taken[slot] = false; take_step(i, event); assert(legal); handle(i)
		fi;
		legal = false; acts = 0; slot = 0; event = 0 }
	od
}

#define TOLD_END(i) (id[i].ended || id[i].told_removal || id[i].gone)

/*
 * Connects or accepts, may do something else, and destroys. Before that it may wait for the end, if it is sure to come: because it
 * disconnected, or because the other side has gone.
 */
proctype consumer(byte i) {
	bool legal, failed; int acts; bool owed = false, closed = false; byte calls = CALLS;
end:	(i == A || known);
	if
	:: atomic { !id[i].gone ->
		if
		:: i == A -> connect(A)
		:: else -> accept(B)
		fi;
		legal = false; failed = false; acts = 0 }
	:: true
	fi;
	do
	:: atomic { calls && !id[i].gone -> calls--;
		if
		:: take_step(i, E_DISCONNECT); closed = owed && legal; act(i)
		:: i == A && id[A].qpless -> take_step(A, E_ESTABLISH); act(A)
		:: take_step(i, E_REJECT); act(i); owed = owed && !legal	/* closed by our own word */
		fi;
		legal = false; acts = 0 }
	:: break
	od;
	if
	:: owed && (closed || id[1 - i].gone) -> TOLD_END(i)
	:: true
	fi;
	atomic { destroy(i) }
}

/* A listener goes whenever it likes. */
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

#define FREED(i) (id[i].state == S_DYING && provider[i] == P_NONE && empty(queue[i]) && !id[i].handler_mutex)
#define ABSENT (id[B].state == S_IDLE && !asked)

#ifdef GOES
/* cm_remove_one(): all ids of the device are told, its listener is taken off; then it waits for the last user. */
proctype remover() {
	atomic {
		removing[GOES] = true;
#if GOES == A
		if
		:: id[A].state != S_DYING -> post(A, SLOT_REMOVE, E_REMOVE)
		:: else
		fi
#else
		listens = false;
		/* On a wildcard address it stays for the other devices. */
		if
		:: id[L].state != S_DYING -> post(L, SLOT_REMOVE, E_REMOVE)
		:: true
		fi;
		if
		:: id[B].state != S_IDLE && id[B].state != S_DYING -> post(B, SLOT_REMOVE, E_REMOVE)
		:: else
		fi
#endif
	};
	/* The users: who is attached, and an id that is freed is not any more. */
	atomic { !attached[GOES] || FREED(GOES) -> attached[GOES] = false; removed[GOES] = true };
	assert(!id[GOES].qp)
}
#endif

init {
	atomic {
		id[A].state = S_ROUTE_RESOLVED;
		attached[A] = true;
		id[L].state = S_LISTENING;
		listens = true;
		if
		:: id[A].qpless = true
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
#ifdef GOES
		run remover()
#endif
	};
	/* All is over: nobody holds anything, and who was told of a connection was told its end, or did not wait for it. */
	FREED(A) && id[A].gone && FREED(L) && id[L].gone && (ABSENT || FREED(B) && id[B].gone);
	assert(!id[A].qp && !id[B].qp && !listens)
}
