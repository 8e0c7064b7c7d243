/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An id of t3_rdma_cm, around the state table that the kernel runs (table.pml is made from it). As in the kernel, it has a queue with a
 * slot per kind of event, a worker that reports events to the consumer's handler, and calls that may come at any time. The models define
 * the provider (provider_close(), provider_abort(), provider_reject(), provider_unlisten(), provider_connect(), provider_accept(),
 * provider_establish(), provider_release()) and the consumers.
 *
 * Asserted here: the slot of an event is free when it comes; the state takes every event that comes; ESTABLISHED is reported once; nothing
 * is reported after the end of a connection, nor after destroy; a QP reference is not taken twice.
 */
#include "table.pml"

#define SLOT_REQUEST 0
#define SLOT_OPEN 1
#define SLOT_PEER_CLOSE 2
#define SLOT_CLOSE 3
#define SLOT_REMOVE 4
#define SLOT_TIMEWAIT 5
#define SLOT_ADDR_CHANGE 6
#define SLOTS 7

typedef Id {
	byte state;
	bool qp;		/* a reference is held */
	bool own_qp;		/* its consumer never queried attributes of a QP */
	bool handler_mutex;
	bool taken[SLOTS];
	/* What its consumer does, and what was reported to it. */
	bool calling;		/* is in a call */
	bool handler_failed;	/* its handler refused the request: the id is destroyed */
	bool established;
	bool ended;
	bool removal_reported;
	bool destroyed		/* the handler must not run any more */
};
Id id[IDS];
chan queue[IDS] = [SLOTS] of { byte, byte };

inline post(i, place, what) {
	assert(!id[i].taken[place]);
	id[i].taken[place] = true;
	queue[i]!place, what
}

/* cm_fsm_apply(): looks up the cell and, if the state takes the event, sets the new state. */
byte r_id, r_event;
int r_cell;
inline fsm_apply(i, what) {
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

#define ACT_CALLS (ACT_UNLISTEN | ACT_CLOSE | ACT_ABORT | ACT_CANCEL | ACT_REJECT | ACT_DROP_QP)

/* cm_run_actions(). Other processes may run between the change of the state and the actions. */
inline run_actions(i) {
	if
	:: acts & ACT_CALLS -> atomic {
		if
		:: acts & ACT_UNLISTEN -> provider_unlisten(i)
		:: acts & ACT_CLOSE && CLOSES(i) -> provider_close(i)
		:: acts & ACT_ABORT && id[i].qp -> provider_abort(i)
		:: acts & ACT_CANCEL && id[i].qp -> provider_cancel(i)
		:: acts & ACT_REJECT -> provider_reject(i)
		:: else
		fi;
		if
		:: acts & ACT_DROP_QP -> id[i].qp = false
		:: else
		fi }
	:: else
	fi
}

inline report(i) {
	d_step {
		assert(!id[i].destroyed);
		assert(!id[i].removal_reported);
		if
		:: acts & ACT_REPORT_REMOVAL -> id[i].removal_reported = true
		:: acts & ACT_REPORT_NOTICE
		:: else ->
			assert(!id[i].ended);
			if
			:: acts & (ACT_REPORT_ESTABLISHED | ACT_REPORT_RESPONSE) ->
				assert(!id[i].established); id[i].established = true
			:: acts & (ACT_REPORT_FAILED | ACT_REPORT_DISCONNECTED) -> id[i].ended = true
			:: else
			fi
		fi
	}
}

#define REPORTS (ACT_REPORT_REQUEST | ACT_REPORT_RESPONSE | ACT_REPORT_ESTABLISHED | ACT_REPORT_FAILED | ACT_REPORT_DISCONNECTED | ACT_REPORT_REMOVAL | \
		 ACT_REPORT_NOTICE)

/* cm_id_destroy(): by DESTROY, or after a handler that refused a request. */
inline destroy_id(i) {
	atomic { fsm_apply(i, EV_DESTROY) };
	if
	:: legal -> run_actions(i); atomic { provider_release(i); id[i].destroyed = true }
	:: else
	fi
}

/* The handler may refuse a request. Then the consumer makes no calls. */
inline handler_returns(i) {
	if
	:: true
	:: atomic { !id[i].destroyed && !id[i].calling -> id[i].handler_failed = true }; destroy_id(i)
	fi
}

/* cm_event_finish() */
inline finish_event(i) {
	run_actions(i);
	if
	:: acts & ACT_REPORT_REQUEST -> report(i); handler_returns(i)
	:: acts & REPORTS && !(acts & ACT_REPORT_REQUEST) -> report(i)
	:: else
	fi
}

/* Calls of consumers. */
inline connect(i) {
	atomic { fsm_apply(i, EV_CONNECT) };
	if
	:: legal ->
		atomic { assert(!id[i].qp); id[i].qp = true };
		atomic { provider_connect(i, failed) };
		if
		:: failed -> atomic { fsm_apply(i, EV_CONNECT_FAILED) }; run_actions(i)
		:: else -> pending = true
		fi
	:: else
	fi
}

inline accept(i) {
	if
	:: id[i].state == ST_REQUESTED ->
		atomic { assert(!id[i].qp); id[i].qp = true };
		atomic { fsm_apply(i, EV_ACCEPT) };
		if
		:: legal ->
			atomic { provider_accept(i, failed) };
			if
			:: failed -> atomic { fsm_apply(i, EV_ACCEPT_FAILED) }; run_actions(i)
			:: else -> pending = true
			fi
		:: else -> id[i].qp = false
		fi
	:: else
	fi
}

inline establish(i) {
	atomic { fsm_apply(i, EV_ESTABLISH) };
	run_actions(i);
	if
	:: legal -> atomic { provider_establish(i, failed) };
		if
		:: failed -> atomic { fsm_apply(i, EV_ESTABLISH_FAILED) }; run_actions(i); pending = false
		:: else
		fi
	:: else
	fi
}

inline destroy(i) {
	atomic { !id[i].handler_mutex -> id[i].handler_mutex = true };
	if
	:: !id[i].destroyed -> destroy_id(i)
	:: else		/* its handler has failed */
	fi;
	id[i].handler_mutex = false
}
