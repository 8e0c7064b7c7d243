// SPDX-License-Identifier: GPL-2.0
/* The state of an id, and the one function that changes it. */
#include "rdma_cm.h"
#include "trace.h"

enum cm_state cm_state(struct cm_id *id)
{
	return context_unsafe(READ_ONCE(id->state)); /* it may change at any time */
}

/**
 * cm_fsm_apply - apply an event: the only place where the state of an id changes
 * @id: the id
 * @event: what happened; CM_EV_REMOVE is refused if the id's present device is not removed
 * @status: its result, for the history
 * @transition: receives the transition, whose actions the caller must run; or NULL
 *
 * Return: 0, or -EINVAL if the state refuses the event.
 */
int cm_fsm_apply(struct cm_id *id, enum cm_event event, int status,
		 const struct t3_transition **transition)
{
	const struct t3_transition *to;
	enum cm_state from;
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	from = id->state;
	to = cm_fsm(from, event);
	/* It was posted for the device of a bind that has failed since. */
	if (event == CM_EV_REMOVE && !cm_dev_is_removed(id))
		to = NULL;
	t3_fsm_record(&id->history, from, event, to, status);
	if (to) {
		WRITE_ONCE(id->state, to->next);
		id->base.state = cm_res_state(to->next);
	}
	spin_unlock_irqrestore(&id->lock, flags);

	if (!to) {
		trace_cm_fsm_refuse(id->number, from, event, status);
		return -EINVAL;
	}
	trace_cm_fsm_apply(id->number, from, event, to->next, to->actions, status);
	if (transition)
		*transition = to;
	return 0;
}

/* The id has, had, or was asked for a connection. */
bool cm_past_connect(enum cm_state state)
{
	switch (state) {
	case CM_ST_CONNECTING:
	case CM_ST_RESPONDED:
	case CM_ST_REQUESTED:
	case CM_ST_ACCEPTING:
	case CM_ST_CANCELLING:
	case CM_ST_CONNECTED:
	case CM_ST_CLOSING:
	case CM_ST_CLOSED:
		return true;
	default:
		return false;
	}
}
