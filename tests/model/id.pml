/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An id of t3_rdma_cm as spin sees it, around the table that the kernel runs (table.pml is made from it). It has what it has in the
 * kernel: a queue with a place per kind of event, a worker that hands events to the consumer's handler, and calls that may come at any
 * time. The models say who provides (provider_close(), provider_abort(), provider_refuse(), provider_unlisten(), provider_connect(),
 * provider_accept()) and what consumers do.
 *
 * Asserted here: a place in the queue is always free when its event comes; all that comes is foreseen; ESTABLISHED is told once; nothing
 * is told after the end, nor after destroy; a QP reference is not taken twice.
 */
#include "table.pml"

#define SLOT_REQUEST 0
#define SLOT_OPEN 1
#define SLOT_PEER_CLOSE 2
#define SLOT_CLOSE 3
#define SLOT_REMOVE 4
#define SLOTS 5

typedef Id {
	byte state;
	bool qp;		/* a reference is held */
	bool qpless;		/* its consumer never asked for attributes of a QP */
	bool handler_mutex;
	bool taken[SLOTS];
	/* What its consumer does, and what it was told. */
	bool calling;		/* is in a call */
	bool leaving;		/* its handler said that the id is to be destroyed */
	bool established;
	bool ended;
	bool told_removal;
	bool gone		/* destroyed: the handler must not run any more */
};
Id id[IDS];
chan queue[IDS] = [SLOTS] of { byte, byte };

inline post_to(queue_of, about, place, what) {
	assert(!id[about].taken[place]);
	id[about].taken[place] = true;
	queue[queue_of]!place, what
}
#define post(i, slot, what) post_to(i, i, slot, what)

/* cm_fsm_apply(): what the table says, and, if it takes the event, the new state. */
byte r_id, r_event;
int r_cell;
inline take_step(i, what) {
	r_id = i;
	r_event = what;
	c_code { now.r_cell = cells[now.id[now.r_id].state][now.r_event]; };
	legal = (r_cell != -1);
	acts = (legal -> r_cell & 65535 : 0);
	id[i].state = (legal -> r_cell >> 16 : id[i].state);
	r_id = 0;
	r_event = 0;
	r_cell = 0
}

#define ACTS (DO_UNLISTEN | DO_CLOSE | DO_ABORT | DO_REFUSE | DO_DROP_QP)

/* Actions of a step but what is told. Anything may happen between the step and them. */
inline act(i) {
	if
	:: acts & ACTS -> atomic {
		if
		:: acts & DO_UNLISTEN -> provider_unlisten(i)
		:: acts & DO_CLOSE && id[i].qp -> provider_close(i)
		:: acts & DO_ABORT && id[i].qp -> provider_abort(i)
		:: acts & DO_REFUSE -> provider_refuse(i)
		:: else
		fi;
		if
		:: acts & DO_DROP_QP -> id[i].qp = false
		:: else
		fi }
	:: else
	fi
}

inline tell(i) {
	d_step {
		assert(!id[i].gone);
		assert(!id[i].told_removal);
		if
		:: acts & DO_TELL_REMOVAL -> id[i].told_removal = true
		:: else ->
			assert(!id[i].ended);
			if
			:: acts & (DO_TELL_ESTABLISHED | DO_TELL_RESPONSE) ->
				assert(!id[i].established); id[i].established = true
			:: acts & (DO_TELL_FAILED | DO_TELL_DISCONNECTED) -> id[i].ended = true
			:: else
			fi
		fi
	}
}

#define TOLD (DO_TELL_REQUEST | DO_TELL_RESPONSE | DO_TELL_ESTABLISHED | DO_TELL_FAILED | DO_TELL_DISCONNECTED | DO_TELL_REMOVAL)

/* cm_id_destroy(): by DESTROY, or by a handler that answered non-zero. */
inline end_id(i) {
	atomic { take_step(i, E_DESTROY) };
	if
	:: legal -> act(i); id[i].gone = true
	:: else
	fi
}

/* The handler's answer: it may say that the id is to end, unless its consumer is in a call; then it calls no more. */
inline answer(i) {
	if
	:: true
	:: atomic { !id[i].gone && !id[i].calling -> id[i].leaving = true }; end_id(i)
	fi
}

/* cm_handle() */
inline handle(i) {
	act(i);
	if
	:: acts & TOLD -> tell(i); answer(i)
	:: else
	fi
}

/* Calls of consumers. */
inline connect(i) {
	atomic { take_step(i, E_CONNECT) };
	if
	:: legal ->
		atomic { assert(!id[i].qp); id[i].qp = true };
		atomic { provider_connect(i, failed) };
		if
		:: failed -> atomic { take_step(i, E_CONNECT_FAILED) }; act(i)
		:: else -> owed = true
		fi
	:: else
	fi
}

inline accept(i) {
	if
	:: id[i].state == S_REQUESTED ->
		atomic { assert(!id[i].qp); id[i].qp = true };
		atomic { take_step(i, E_ACCEPT) };
		if
		:: legal ->
			atomic { provider_accept(i, failed) };
			if
			:: failed -> atomic { take_step(i, E_ACCEPT_FAILED) }; act(i)
			:: else -> owed = true
			fi
		:: else -> id[i].qp = false
		fi
	:: else
	fi
}

inline destroy(i) {
	atomic { !id[i].handler_mutex -> id[i].handler_mutex = true };
	if
	:: !id[i].gone -> end_id(i)
	:: else		/* its handler did */
	fi;
	id[i].handler_mutex = false
}
