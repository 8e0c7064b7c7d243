// SPDX-License-Identifier: GPL-2.0
/*
 * The queue of an id's events, and the workqueue of the workers. event.c handles the events.
 */
#include "rdma_cm.h"

static struct workqueue_struct *cm_wq;

/* Queues the worker, which takes over a reference of the caller on @id. */
void cm_queue_work(struct cm_id *id)
{
	if (!queue_work(cm_wq, &id->work))
		cm_id_put(id);
}

/*
 * Events of the device about a connection. Applying one of them does not sleep; its actions may
 * (CM_ACT_SLEEPS).
 */
bool cm_is_conn_event(enum cm_event event)
{
	return event >= CM_EV_REPLY_OK && event <= CM_EV_TIMEWAIT_EXIT;
}

/*
 * siw has no data of a reply that was broken off, and still adds the offset of the private data to
 * its buffer pointer, which is NULL. So the pointer may be a few bytes above NULL.
 */
static bool cm_is_buffer(const void *data)
{
	return (unsigned long)data >= PAGE_SIZE;
}

/* private_data_len is a byte, so any private data fits into @peer. */
static void cm_save_peer_params(struct cm_peer_params *peer, const struct iw_cm_event *event)
{
	peer->ird = event->ird;
	peer->ord = event->ord;
	if (event->event == IW_CM_EVENT_ESTABLISHED)
		return;
	memcpy(&peer->local, &event->local_addr, sizeof(peer->local));
	memcpy(&peer->remote, &event->remote_addr, sizeof(peer->remote));
	peer->len = cm_is_buffer(event->private_data) ? event->private_data_len : 0;
	if (peer->len)
		memcpy(peer->data, event->private_data, peer->len);
}

/*
 * Appends an event, with its memory @pending, to the queue of @id. @iw has parameters of the
 * peer, or is NULL. Return: 0, or -EBUSY if the last event of the slot is still queued.
 */
int cm_event_add(struct cm_id *id, struct cm_pending *pending, enum cm_event event, int status,
		 const struct iw_cm_event *iw)
{
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	if (!list_empty(&pending->item)) {
		id->history.refused++;
		spin_unlock_irqrestore(&id->lock, flags);
		return -EBUSY;
	}
	if (iw)
		cm_save_peer_params(&id->peer, iw);
	pending->event = event;
	pending->status = status;
	list_add_tail(&pending->item, &id->queue);
	cm_id_get(id);
	spin_unlock_irqrestore(&id->lock, flags);
	return 0;
}

/* Takes an event off the queue, and so frees its memory. */
static void cm_event_unqueue(struct cm_id *id, struct cm_pending *pending)
	__must_hold(&id->lock)
{
	lockdep_assert_held(&id->lock);
	list_del_init(&pending->item);
}

/* Queues the event of a group that was joined. The caller holds handler_mutex. */
void cm_group_event_post(struct cm_id *id, struct cm_group *group)
{
	if (!cm_event_add(id, &group->pending, CM_EV_GROUP, 0, NULL))
		cm_queue_work(id);
}

/* Takes the event of a group off the queue, for the end of the group. */
void cm_group_event_cancel(struct cm_id *id, struct cm_group *group)
{
	unsigned long flags;

	lockdep_assert_held(&id->handler_mutex);
	spin_lock_irqsave(&id->lock, flags);
	cm_event_unqueue(id, &group->pending);
	spin_unlock_irqrestore(&id->lock, flags);
	if (id->deferred.group == group)
		id->deferred = (struct cm_deferred) {};
}

/*
 * Takes the oldest event off the queue, and frees its slot. In an upcall it stops at an event that
 * only the worker handles. Return: NULL, or the slot, for what it is part of; @pending has a copy
 * of it.
 */
struct cm_pending *cm_event_dequeue(struct cm_id *id, struct cm_pending *pending, bool may_sleep)
{
	struct cm_pending *first;
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	first = list_first_entry_or_null(&id->queue, struct cm_pending, item);
	if (first && !may_sleep && !cm_is_conn_event(first->event) && first->event != CM_EV_REQUEST)
		first = NULL;
	if (first) {
		cm_event_unqueue(id, first);
		*pending = *first;
	}
	spin_unlock_irqrestore(&id->lock, flags);
	return first;
}

/*
 * Takes handler_mutex. If another task holds it, leaves the events of the id to that task, with the
 * caller's reference. No worker waits for that task, which may be one of a process: the events of
 * other users wait for the workers, and the task may wait, as for rtnl.
 */
bool cm_handler_try(struct cm_id *id)
{
	bool locked, left = false;
	unsigned long flags;

	spin_lock_irqsave(&id->lock, flags);
	locked = mutex_trylock(&id->handler_mutex);
	if (!locked) {
		left = id->left;
		id->left = true;
	}
	spin_unlock_irqrestore(&id->lock, flags);
	if (left)
		cm_id_put(id);
	return locked;
}

/*
 * Unlocks handler_mutex; the worker handles what was left meanwhile. The caller has a reference:
 * its own, or that of the consumer, whose commands on the id come one after another.
 */
void cm_handler_release(struct cm_id *id)
{
	unsigned long flags;
	bool left;

	mutex_unlock(&id->handler_mutex);
	spin_lock_irqsave(&id->lock, flags);
	left = id->left;
	id->left = false;
	spin_unlock_irqrestore(&id->lock, flags);
	if (left)
		cm_queue_work(id);
}

/*
 * For calls of the consumer: no event of the id is handled until cm_handler_release(). A process
 * that repeats its call does not keep the worker from its turn.
 */
void cm_handler_lock(struct cm_id *id)
{
	if (work_pending(&id->work))
		flush_work(&id->work);
	mutex_lock(&id->handler_mutex);
}

int cm_events_init(void)
{
	cm_wq = alloc_workqueue("t3_rdma_cm", WQ_UNBOUND, 0);
	return cm_wq ? 0 : -ENOMEM;
}

void cm_events_exit(void)
{
	destroy_workqueue(cm_wq);
}
