/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One id, the connecting or the asked one, and everybody else at their worst. The provider says whatever its contract allows, whenever
 * it likes: so it stands for every peer, and for a wire that loses, delays and crosses messages. What it says inside our calls, or
 * beside them, is in there too. The device may go at any time.
 *
 * Beside what id.pml asserts: no QP reference is kept. A state in which somebody waits for ever is a deadlock, which spin reports: a
 * consumer that waits for its connection's last event, a device that waits for its last user.
 */
#define IDS 1
#include "id.pml"

/* The provider. */
#define P_NONE 0	/* knows nothing; owes nothing */
#define P_ASKED 1	/* told of a request; the peer may have given up by now */
#define P_OWES 2	/* a reply, or CLOSE */
#define P_OPEN 3	/* owes CLOSE */
byte provider = P_NONE;
bool peer_closed;	/* it said so */
bool connecting;

inline provider_over() {
	post(0, SLOT_CLOSE, E_CLOSE);
	provider = P_NONE
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

inline provider_refuse(i) {
	provider = P_NONE
}

inline provider_unlisten(i) {
	assert(false)
}

/* The reply may come inside the call too: the_provider() runs whenever it is P_OWES. */
inline provider_connect(i, failed) {
	if
	:: failed = true
	:: failed = false; provider = P_OWES
	fi
}

inline provider_accept(i, failed) {
	if
	:: failed = true; provider = P_NONE
	:: failed = false; post(0, SLOT_OPEN, E_ESTABLISHED); provider = P_OPEN
	:: failed = false; provider_over()
	:: failed = false; provider = P_OWES
	fi
}

proctype the_provider() {
end:	do
	:: atomic { id[0].state == S_IDLE && provider == P_NONE && !connecting -> post(0, SLOT_REQUEST, E_REQUEST); provider = P_ASKED }
	:: atomic { provider == P_OWES && connecting ->
		if
		:: id[0].qpless -> post(0, SLOT_OPEN, E_REPLY_OK_QPLESS); provider = P_OPEN
		:: !id[0].qpless -> post(0, SLOT_OPEN, E_REPLY_OK); provider = P_OPEN
		:: post(0, SLOT_OPEN, E_REPLY_FAILED); provider = P_NONE
		:: provider_over()	/* instead of a reply */
		fi }
	:: atomic { provider == P_OWES && !connecting ->
		if
		:: post(0, SLOT_OPEN, E_ESTABLISHED); provider = P_OPEN
		:: provider_over()
		fi }
	:: atomic { provider == P_OPEN && !peer_closed -> peer_closed = true; post(0, SLOT_PEER_CLOSE, E_PEER_CLOSE) }
	:: atomic { provider == P_OPEN -> provider_over() }
	od
}

proctype worker() {
	bool legal; int acts; byte slot, event;
end:	do
	:: atomic { nempty(queue[0]) && !id[0].handler_mutex -> id[0].handler_mutex = true };
		do
		:: atomic { queue[0]?slot, event -> id[0].taken[slot] = false; take_step(0, event); assert(legal) };
			handle(0);
			d_step { legal = false; acts = 0; slot = 0; event = 0 }
		:: atomic { empty(queue[0]) -> id[0].handler_mutex = false; break }
		od
	od
}

#define BEGUN (connecting || id[0].state != S_IDLE)

/* Any call at any time; at last it destroys, and before that may wait for the end of what it began. */
proctype consumer() {
	bool legal, failed; int acts; bool owed = false;
	do
	:: atomic { !id[0].gone && !id[0].leaving && BEGUN -> id[0].calling = true };
		if
		:: connecting -> connect(0)
		:: !connecting -> accept(0)
		:: atomic { take_step(0, E_DISCONNECT) }; act(0)
		:: atomic { take_step(0, E_ESTABLISH) }; act(0)
		:: atomic { take_step(0, E_REJECT) }; act(0); owed = owed && !legal	/* closed by our own word */
		fi;
		d_step { legal = false; failed = false; acts = 0; id[0].calling = false }
	:: owed -> (id[0].ended || id[0].told_removal || id[0].gone); break
	:: BEGUN -> break
	od;
	destroy(0)
}

/* A device goes: its id is told, and it waits until nobody needs it. */
#define FREED (id[0].state == S_DYING && provider == P_NONE && empty(queue[0]) && !id[0].handler_mutex)

proctype remover() {
end:	atomic { id[0].state != S_IDLE && id[0].state != S_DYING -> post(0, SLOT_REMOVE, E_REMOVE) };
	FREED;
	assert(!id[0].qp)
}

init {
	atomic {
		if
		:: connecting = true; id[0].state = S_ROUTE_RESOLVED
		:: connecting = false; id[0].state = S_IDLE
		fi;
		if
		:: id[0].qpless = connecting
		:: id[0].qpless = false
		fi;
		run worker();
		run the_provider();
		run consumer();
		if
		:: run remover()
		:: true
		fi
	};
end:	FREED && id[0].gone;		/* or no request ever came */
	assert(!id[0].qp)
}
