/* SPDX-License-Identifier: GPL-2.0 */
/*
 * State machines as tables: [state][event] -> next state, actions.
 *
 * The files with a table (ep_fsm.c, qp_fsm.c, cm_fsm.c) are pure: they access no object. An object
 * has one function that changes its state: it looks the event up, records and traces it, stores
 * the next state and runs the actions. A state refuses the events that its row does not list.
 */
#ifndef T3_FSM_H
#define T3_FSM_H

#include <linux/kernel.h>
#include <linux/types.h>

/**
 * struct t3_transition - one cell of a table
 * @legal: the state takes this event
 * @next: state afterwards
 * @actions: set of actions, whose bits the table's header defines
 */
struct t3_transition {
	bool legal;
	u8 next;
	u16 actions;
};

#define TO(next_state, acts)	{ .legal = true, .next = (next_state), .actions = (acts) }
/* The event changes nothing in this state. */
#define STAY(state)		TO(state, 0)

/* The transition of a table, or NULL if the state refuses the event. */
#define t3_fsm_lookup(table, state, event)						\
	((unsigned int)(state) < ARRAY_SIZE(table) &&					\
	 (unsigned int)(event) < ARRAY_SIZE((table)[0]) &&				\
	 (table)[state][event].legal ? &(table)[state][event] : NULL)

/* The name of a state or an event. */
#define t3_fsm_name(names, i)	((unsigned int)(i) < ARRAY_SIZE(names) ? (names)[i] : "?")

#define T3_FSM_HISTORY		16	/* power of two */

/* An event of an object, and its result. */
struct t3_fsm_entry {
	int status;
	u8 from;
	u8 event;
	u8 to;
	bool refused;
};

/* The last events of an object, for debugfs; the tracepoints have times. */
struct t3_fsm_history {
	unsigned int events;		/* so far; the last T3_FSM_HISTORY are kept */
	unsigned int refused;		/* of all */
	struct t3_fsm_entry entries[T3_FSM_HISTORY];
};

/* @to: the transition, or NULL if the event is refused. The object's own lock protects @history. */
static inline void t3_fsm_record(struct t3_fsm_history *history, u8 from, u8 event,
				 const struct t3_transition *to, int status)
{
	struct t3_fsm_entry *entry = &history->entries[history->events++ % T3_FSM_HISTORY];

	entry->status = status;
	entry->from = from;
	entry->event = event;
	entry->to = to ? to->next : from;
	entry->refused = !to;
	if (!to)
		history->refused++;
}

/* The number of the oldest event that is kept. */
static inline unsigned int t3_fsm_oldest(const struct t3_fsm_history *history)
{
	return history->events > T3_FSM_HISTORY ? history->events - T3_FSM_HISTORY : 0;
}

#endif
