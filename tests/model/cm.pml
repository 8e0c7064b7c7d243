/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An id of t3_rdma_cm, checked by spin against the table that the kernel runs (table.pml is made from it): the connecting and the
 * asked side. It has what it has in the kernel: a consumer that calls what it likes at any time, a queue with a place per kind of
 * event, a worker that hands events to the consumer's handler, and a provider. The device may go at any time.
 *
 * The provider says whatever its contract allows, whenever it likes: so it stands for every peer, and for a wire that loses, delays
 * and crosses messages. What it says inside our calls, or beside them, is in there too.
 *
 * Asserted: a place in the queue is always free when its event comes; all that comes is foreseen; ESTABLISHED is told once; nothing
 * is told after the end, nor after destroy; a QP reference is neither taken twice nor kept. A state in which somebody waits for ever is a
 * deadlock, which spin reports: a consumer that waits for its connection's last event, a device that waits for its last user.
 */
#include "table.pml"

/* The provider. */
#define P_NONE 0	/* knows nothing; owes nothing */
#define P_ASKED 1	/* told of a request; the peer may have given up by now */
#define P_OWES 2	/* a reply */
#define P_OPEN 3	/* owes CLOSE */
byte provider = P_NONE;
bool peer_closed;	/* it said so */

/* The id. */
bool connecting;
bool qpless;		/* its consumer never asked for attributes of a QP */
byte state;
bool qp;
bool handler_mutex;

#define SLOT_REQUEST 0
#define SLOT_OPEN 1
#define SLOT_PEER_CLOSE 2
#define SLOT_CLOSE 3
#define SLOT_REMOVE 4
#define SLOTS 5
bool taken[SLOTS];
chan queue = [SLOTS] of { byte, byte };

/* The consumer, and what it was told. */
bool calling;		/* is in a call */
bool leaving;		/* its handler said that the id is to be destroyed */
byte established;
bool ended;
bool told_removal;
bool gone;		/* destroyed: the handler must not run any more */

/* --- the provider's side, in the order of need ------------------------------------------ */

inline post(slot, what) {
	assert(!taken[slot]);
	taken[slot] = true;
	queue!slot, what
}

inline provider_over() {
	post(SLOT_CLOSE, E_CLOSE);
	provider = P_NONE
}

/* ib_modify_qp(SQD): CLOSE may come inside the call, or later. */
inline provider_close() {
	if
	:: provider == P_OPEN -> provider_over()
	:: true
	fi
}

/* ib_modify_qp(ERR) */
inline provider_abort() {
	if
	:: provider == P_OPEN -> provider_over()
	:: else
	fi
}

/* The reply may come inside the call too: the_provider() runs whenever it is P_OWES. */
inline provider_connect(failed) {
	if
	:: failed = true
	:: failed = false; provider = P_OWES
	fi
}

inline provider_accept(failed) {
	if
	:: failed = true; provider = P_NONE
	:: failed = false; post(SLOT_OPEN, E_ESTABLISHED); provider = P_OPEN
	:: failed = false; provider_over()
	:: failed = false; provider = P_OWES
	fi
}

proctype the_provider() {
end:	do
	:: atomic { state == S_IDLE && provider == P_NONE && !connecting -> post(SLOT_REQUEST, E_REQUEST); provider = P_ASKED }
	:: atomic { provider == P_OWES && connecting ->
		if
		:: qpless -> post(SLOT_OPEN, E_REPLY_OK_QPLESS); provider = P_OPEN
		:: !qpless -> post(SLOT_OPEN, E_REPLY_OK); provider = P_OPEN
		:: post(SLOT_OPEN, E_REPLY_FAILED); provider = P_NONE
		fi }
	:: atomic { provider == P_OWES && !connecting ->
		if
		:: post(SLOT_OPEN, E_ESTABLISHED); provider = P_OPEN
		:: provider_over()
		fi }
	:: atomic { provider == P_OPEN && !peer_closed -> peer_closed = true; post(SLOT_PEER_CLOSE, E_PEER_CLOSE) }
	:: atomic { provider == P_OPEN -> provider_over() }
	od
}

/* --- id.c ------------------------------------------------------------------------------ */

/* cm_step(): what the table says, and, if it takes the event, the new state. */
byte r_event;
int r_cell;
inline take_step(what) {
	r_event = what;
	c_code { now.r_cell = cells[now.state][now.r_event]; };
	legal = (r_cell != -1);
	acts = (legal -> r_cell & 65535 : 0);
	state = (legal -> r_cell >> 16 : state);
	r_event = 0;
	r_cell = 0
}

#define ACTS (DO_CLOSE | DO_ABORT | DO_REFUSE | DO_DROP_QP)

/* Actions of a step but what is told. Anything may happen between the step and them. */
inline act() {
	if
	:: acts & ACTS -> atomic {
		if
		:: acts & DO_CLOSE && qp -> provider_close()
		:: acts & DO_ABORT && qp -> provider_abort()
		:: acts & DO_REFUSE -> provider = P_NONE
		:: else
		fi;
		if
		:: acts & DO_DROP_QP -> qp = false
		:: else
		fi }
	:: else
	fi
}

inline tell() {
	assert(!gone);
	assert(!told_removal);
	if
	:: acts & DO_TELL_REMOVAL -> told_removal = true
	:: else ->
		assert(!ended);
		if
		:: acts & (DO_TELL_ESTABLISHED | DO_TELL_RESPONSE) -> assert(established == 0); established++
		:: acts & (DO_TELL_FAILED | DO_TELL_DISCONNECTED) -> ended = true
		:: else
		fi
	fi
}

#define TOLD (DO_TELL_REQUEST | DO_TELL_RESPONSE | DO_TELL_ESTABLISHED | DO_TELL_FAILED | DO_TELL_DISCONNECTED | DO_TELL_REMOVAL)

/* cm_id_end(): by DESTROY, or by a handler that answered non-zero. */
inline end_id() {
	atomic { take_step(E_DESTROY) };
	if
	:: legal -> act(); gone = true
	:: else
	fi
}

proctype worker() {
	bool legal; int acts; byte slot, event;
end:	do
	:: atomic { nempty(queue) && !handler_mutex -> handler_mutex = true };
		do
		:: atomic { queue?slot, event -> taken[slot] = false; take_step(event); assert(legal) };
			act();
			if
			:: acts & TOLD -> tell();
				if
				:: true
				/* The handler may say so, unless its consumer is in a call; then it calls no more. */
				:: atomic { !gone && !calling -> leaving = true }; end_id()
				fi
			:: else
			fi;
			d_step { legal = false; acts = 0; slot = 0; event = 0 }
		:: atomic { empty(queue) -> handler_mutex = false; break }
		od
	od
}

/* --- the consumer ---------------------------------------------------------------------- */

inline connect() {
	atomic { take_step(E_CONNECT) };
	if
	:: legal ->
		atomic { assert(!qp); qp = true };
		atomic { provider_connect(failed) };
		if
		:: failed -> atomic { take_step(E_CONNECT_FAILED) }; act()
		:: else -> owed = true
		fi
	:: else
	fi
}

inline accept() {
	if
	:: state == S_REQUESTED ->
		atomic { assert(!qp); qp = true };
		atomic { take_step(E_ACCEPT) };
		if
		:: legal ->
			atomic { provider_accept(failed) };
			if
			:: failed -> atomic { take_step(E_ACCEPT_FAILED) }; act()
			:: else -> owed = true
			fi
		:: else -> qp = false
		fi
	:: else
	fi
}

inline destroy() {
	atomic { !handler_mutex -> handler_mutex = true };
	if
	:: !gone -> end_id()
	:: else		/* its handler did */
	fi;
	handler_mutex = false
}

/* Any call at any time; at last it destroys, and before that may wait for the end of what it began. */
proctype consumer() {
	bool legal, failed; int acts; bool owed = false;
	do
	:: atomic { !gone && !leaving && (connecting || state != S_IDLE) -> calling = true };
		if
		:: connecting -> connect()
		:: !connecting -> accept()
		:: atomic { take_step(E_DISCONNECT) }; act()
		:: atomic { take_step(E_ESTABLISH) }; act()
		:: atomic { take_step(E_REJECT) }; act(); owed = owed && !legal	/* closed by our own word */
		fi;
		d_step { legal = false; failed = false; acts = 0; calling = false }
	:: owed -> (ended || told_removal || gone); break
	:: connecting || state != S_IDLE -> break
	od;
	destroy()
}

/* A device goes: its id is told, and it waits until nobody needs it. */
#define FREED (state == S_DYING && provider == P_NONE && empty(queue) && !handler_mutex)

proctype remover() {
end:	atomic { state != S_IDLE && state != S_DYING -> post(SLOT_REMOVE, E_REMOVE) };
	FREED;
	assert(!qp)
}

init {
	atomic {
		if
		:: connecting = true; state = S_ROUTE_RESOLVED
		:: connecting = false; state = S_IDLE
		fi;
		if
		:: qpless = connecting
		:: qpless = false
		fi;
		run worker();
		run the_provider();
		run consumer();
		if
		:: run remover()
		:: true
		fi
	};
end:	FREED && gone;		/* or no request ever came */
	assert(!qp)
}
