// SPDX-License-Identifier: GPL-2.0
/*
 * Event files: completion channels and asynchronous events. Both are a queue of
 * small records that read() takes one at a time.
 *
 * Life of an event file: made with its descriptor reserved (uv_events_new()),
 * visible with fd_install() (uv_events_commit()). References are held by the
 * struct file, by each object that reports there, and, for a file's default
 * asynchronous one, by the file. It holds one on its uv_file: the descriptor
 * may be passed to another process and outlive the one of the device.
 *
 * The queue is closed - what waits is woken, what comes is dropped - when the
 * descriptor is closed, and when the uverbs file is torn down. In the second
 * case the records that are there can still be read, IB_EVENT_DEVICE_FATAL
 * among them; then read() says EIO.
 *
 * An event in the queue is also on a list of the object that it is about, so
 * that destroying the object takes back what nobody has read. Both lists, and
 * the object's counter of what was read, are under the lock of the queue:
 * handlers come from any context, interrupts included.
 */

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <t3_race_point.h>

#include "call.h"

struct uv_events {
	struct kref ref;
	struct uv_file *file;		/* holds a reference */
	struct list_head in_file;	/* under the device's lists_mutex */
	bool async;
	bool listening;			/* under lists_mutex */
	struct ib_event_handler handler;

	spinlock_t lock;	/* what follows, and the lists of objects that report here */
	bool closed;
	struct list_head queue;
	wait_queue_head_t wait;
	struct fasync_struct *fasync;
};

struct uv_event {
	struct list_head in_queue;
	struct list_head in_object;
	u32 *reported;		/* counts it when it is read; NULL: of the device */
	union {
		struct ib_uverbs_async_event_desc async;
		struct ib_uverbs_comp_event_desc comp;
	} desc;
};

static void events_free(struct kref *ref)
{
	struct uv_events *events = container_of(ref, struct uv_events, ref);

	uv_file_put(events->file);
	kfree(events);
}

struct uv_events *uv_events_get(struct uv_events *events)
{
	if (events)
		kref_get(&events->ref);
	return events;
}

void uv_events_put(struct uv_events *events)
{
	if (events)
		kref_put(&events->ref, events_free);
}

/* Drops an event that was not read. Needs the lock. */
static void discard(struct uv_event *event)
{
	list_del(&event->in_queue);
	list_del(&event->in_object);
	kfree(event);
}

static void tell(struct uv_events *events)
{
	wake_up_interruptible(&events->wait);
	kill_fasync(&events->fasync, SIGIO, POLL_IN);
}

/* Queues a record; without memory it is lost: nobody here can wait. Needs the lock. */
static bool enqueue(struct uv_events *events, const void *desc, size_t len,
		    struct list_head *pending, u32 *reported)
{
	struct uv_event *event = events->closed ? NULL : kmalloc(sizeof(*event), GFP_ATOMIC);

	if (!event)
		return false;
	memcpy(&event->desc, desc, len);
	event->reported = reported;
	list_add_tail(&event->in_queue, &events->queue);
	if (pending)
		list_add_tail(&event->in_object, pending);
	else
		INIT_LIST_HEAD(&event->in_object);
	return true;
}

/* Nothing comes after last, which may be NULL; who has read it sees the end at once. */
static void close_queue(struct uv_events *events, bool keep,
			const struct ib_uverbs_async_event_desc *last)
{
	struct uv_event *event, *next;

	spin_lock_irq(&events->lock);
	if (last)
		enqueue(events, last, sizeof(*last), NULL, NULL);
	events->closed = true;
	if (!keep)
		list_for_each_entry_safe(event, next, &events->queue, in_queue)
			discard(event);
	spin_unlock_irq(&events->lock);
	tell(events);
}

static void report(struct uv_events *events, const void *desc, size_t len,
		   struct list_head *pending, u32 *reported)
{
	unsigned long flags;
	bool queued;

	T3_RACE_POINT(uverbs_event_report);
	spin_lock_irqsave(&events->lock, flags);
	queued = enqueue(events, desc, len, pending, reported);
	spin_unlock_irqrestore(&events->lock, flags);
	if (queued)
		tell(events);
}

static void report_async(struct uv_events *events, u64 element, u32 type,
			 struct list_head *pending, u32 *reported)
{
	struct ib_uverbs_async_event_desc desc = { .element = element, .event_type = type };

	report(events, &desc, sizeof(desc), pending, reported);
}

static void device_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct uv_events *events = container_of(handler, struct uv_events, handler);

	report_async(events, event->element.port_num, event->event, NULL, NULL);
}

static void evented_event(struct uv_evented *ev, enum ib_event_type type)
{
	if (ev->async)
		report_async(ev->async, ev->obj.base.user_handle, type, &ev->pending,
			     &ev->reported);
}

void uv_cq_event(struct ib_event *event, void *context)
{
	evented_event(&event->element.cq->uobject->ev, event->event);
}

void uv_qp_event(struct ib_event *event, void *context)
{
	evented_event(&event->element.qp->uobject->ev, event->event);
}

void uv_srq_event(struct ib_event *event, void *context)
{
	evented_event(&event->element.srq->uobject->ev, event->event);
}

void uv_comp_handler(struct ib_cq *cq, void *context)
{
	struct ib_ucq_object *ucq = cq->uobject;
	struct ib_uverbs_comp_event_desc desc = {
		.cq_handle = ucq->ev.obj.base.user_handle,
	};

	if (ucq->channel)
		report(ucq->channel, &desc, sizeof(desc), &ucq->comp_pending, &ucq->comp_reported);
}

/* ---- objects that report ----------------------------------------------------- */

/* Before the driver makes the object: events may come at once. */
void uv_evented_init(struct uv_evented *ev, struct uv_events *async, u64 user_handle)
{
	struct uv_file *file = uv_file_of(ev->obj.base.ufile);

	ev->async = uv_events_get(async ?: READ_ONCE(file->async));
	INIT_LIST_HEAD(&ev->pending);
	ev->obj.base.user_handle = user_handle;
}

static void take_back(struct uv_events *events, struct list_head *pending)
{
	struct uv_event *event, *next;

	spin_lock_irq(&events->lock);
	list_for_each_entry_safe(event, next, pending, in_object)
		discard(event);
	spin_unlock_irq(&events->lock);
	uv_events_put(events);
}

/* After the driver has destroyed the object: no event comes any more. */
void uv_evented_release(struct uv_evented *ev)
{
	if (ev->async)
		take_back(ev->async, &ev->pending);
	ev->async = NULL;
}

void uv_cq_release_channel(struct ib_ucq_object *ucq)
{
	if (ucq->channel)
		take_back(ucq->channel, &ucq->comp_pending);
	ucq->channel = NULL;
}

/* ---- the file ------------------------------------------------------------------- */

static ssize_t events_read(struct file *filp, char __user *buf, size_t count, loff_t *pos)
{
	struct uv_events *events = filp->private_data;
	size_t len = events->async ? sizeof(struct ib_uverbs_async_event_desc) :
				     sizeof(struct ib_uverbs_comp_event_desc);
	struct uv_event *event;
	ssize_t ret = len;

	spin_lock_irq(&events->lock);
	while (list_empty(&events->queue)) {
		bool closed = events->closed;

		spin_unlock_irq(&events->lock);
		if (closed)
			return -EIO;
		if (filp->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(events->wait, !list_empty(&events->queue) ||
					     events->closed))
			return -ERESTARTSYS;
		spin_lock_irq(&events->lock);
	}
	if (count < len) {
		spin_unlock_irq(&events->lock);
		return -EINVAL;
	}
	event = list_first_entry(&events->queue, struct uv_event, in_queue);
	list_del(&event->in_queue);
	list_del(&event->in_object);
	if (event->reported)
		++*event->reported;
	spin_unlock_irq(&events->lock);

	T3_RACE_POINT(uverbs_event_taken);
	if (copy_to_user(buf, &event->desc, len))
		ret = -EFAULT;
	kfree(event);
	return ret;
}

static __poll_t events_poll(struct file *filp, struct poll_table_struct *table)
{
	struct uv_events *events = filp->private_data;
	__poll_t ready = 0;

	poll_wait(filp, &events->wait, table);
	spin_lock_irq(&events->lock);
	if (!list_empty(&events->queue))
		ready = EPOLLIN | EPOLLRDNORM;
	else if (events->closed)
		ready = EPOLLERR;
	spin_unlock_irq(&events->lock);
	return ready;
}

static int events_fasync(int fd, struct file *filp, int on)
{
	struct uv_events *events = filp->private_data;

	return fasync_helper(fd, filp, on, &events->fasync);
}

static void leave_file(struct uv_events *events)
{
	struct mutex *lists = &events->file->base.device->lists_mutex;

	mutex_lock(lists);
	list_del_init(&events->in_file);
	if (events->listening)
		ib_unregister_event_handler(&events->handler);
	events->listening = false;
	mutex_unlock(lists);
}

static int events_release(struct inode *inode, struct file *filp)
{
	struct uv_events *events = filp->private_data;

	T3_RACE_POINT(uverbs_events_release);
	leave_file(events);
	T3_RACE_POINT(uverbs_events_unlisted);
	close_queue(events, false, NULL);
	uv_events_put(events);
	return 0;
}

static const struct file_operations completion_fops = {
	.owner = THIS_MODULE,
	.read = events_read,
	.poll = events_poll,
	.fasync = events_fasync,
	.release = events_release,
};

/* Another address than completion_fops: that is how a descriptor's kind is told. */
static const struct file_operations async_fops = {
	.owner = THIS_MODULE,
	.read = events_read,
	.poll = events_poll,
	.fasync = events_fasync,
	.release = events_release,
};

int uv_events_new(struct uv_file *file, bool async, struct uv_new_fd *new)
{
	struct uv_events *events;
	int err;

	events = kzalloc(sizeof(*events), GFP_KERNEL);
	if (!events)
		return -ENOMEM;
	kref_init(&events->ref);
	kref_get(&file->base.ref);
	events->file = file;
	events->async = async;
	spin_lock_init(&events->lock);
	INIT_LIST_HEAD(&events->queue);
	INIT_LIST_HEAD(&events->in_file);
	init_waitqueue_head(&events->wait);

	new->fd = get_unused_fd_flags(O_CLOEXEC);
	if (new->fd < 0) {
		err = new->fd;
		goto err_events;
	}
	new->filp = anon_inode_getfile("[infinibandevent]", async ? &async_fops : &completion_fops,
				       events, O_RDONLY);
	if (IS_ERR(new->filp)) {
		err = PTR_ERR(new->filp);
		goto err_fd;
	}
	new->events = events;
	T3_RACE_POINT(uverbs_events_made);

	mutex_lock(&file->base.device->lists_mutex);
	list_add_tail(&events->in_file, &file->events);
	mutex_unlock(&file->base.device->lists_mutex);
	return 0;

err_fd:
	put_unused_fd(new->fd);
err_events:
	uv_events_put(events);
	return err;
}

void uv_events_commit(struct uv_new_fd *new)
{
	fd_install(new->fd, new->filp);
	T3_RACE_POINT(uverbs_events_installed);
}

void uv_events_abort(struct uv_new_fd *new)
{
	put_unused_fd(new->fd);
	fput(new->filp);	/* events_release() does the rest */
}

/* The events of the device come here from now on; those of objects if it is the file's first. */
void uv_events_listen(struct uv_events *events, struct ib_device *dev)
{
	struct uv_file *file = events->file;

	mutex_lock(&file->base.ucontext_lock);
	if (!file->async)
		WRITE_ONCE(file->async, uv_events_get(events));
	mutex_unlock(&file->base.ucontext_lock);

	T3_RACE_POINT(uverbs_events_listen);
	mutex_lock(&file->base.device->lists_mutex);
	INIT_IB_EVENT_HANDLER(&events->handler, dev, device_event);
	ib_register_event_handler(&events->handler);
	events->listening = true;
	mutex_unlock(&file->base.device->lists_mutex);
}

/* The event file behind a descriptor of the caller, if it belongs to this uverbs file. */
struct uv_events *uv_events_get_fd(struct uv_file *file, s64 fd, bool async)
{
	struct uv_events *events = ERR_PTR(-EBADF);
	struct file *filp;

	if (fd != (int)fd)
		return ERR_PTR(-EINVAL);
	filp = fget(fd);
	if (!filp)
		return events;
	T3_RACE_POINT(uverbs_events_found);
	if (filp->f_op == (async ? &async_fops : &completion_fops)) {
		struct uv_events *found = filp->private_data;

		if (found->file == file)
			events = uv_events_get(found);
	}
	fput(filp);
	return events;
}

/* No events any more: the device goes, or the file is closed. */
void uv_events_teardown(struct uv_file *file, enum rdma_remove_reason why)
{
	const struct ib_uverbs_async_event_desc fatal = { .event_type = IB_EVENT_DEVICE_FATAL };
	struct mutex *lists = &file->base.device->lists_mutex;
	bool gone = why == RDMA_REMOVE_DRIVER_REMOVE;
	struct uv_events *events;

	mutex_lock(lists);
	list_for_each_entry(events, &file->events, in_file) {
		if (events->listening)
			ib_unregister_event_handler(&events->handler);
		events->listening = false;
		close_queue(events, events->async, gone && events->async ? &fatal : NULL);
	}
	mutex_unlock(lists);
}
