// SPDX-License-Identifier: GPL-2.0
/*
 * Event files: completion channels and files of asynchronous events. Both are a
 * queue of small records; each read() returns one.
 *
 * uv_events_new() creates an event file and reserves its descriptor;
 * uv_events_commit() installs it. References are held by the struct file, by each
 * object that reports to it, by the work item that wakes pollers, and by the uverbs
 * file for its default asynchronous event file. The struct file also holds a
 * reference on the uv_file, because its descriptor may be passed to another process
 * and be closed after that of the device. Objects do not: one that a driver refuses
 * to destroy keeps the memory of its event file, to which the driver may still
 * report.
 *
 * The queue is closed when the descriptor is closed and when the uverbs file is
 * torn down: readers are woken and new events are dropped. After a teardown the
 * events in the queue can still be read. After a removal IB_EVENT_DEVICE_FATAL
 * follows as the last event. Then read() returns EIO.
 *
 * The queue links sources that have unread events. A source is an object or a
 * port of the device. It counts its events (struct uv_source), so a driver can
 * report an event in any context without an allocation that could fail, and the
 * destruction of the object discards its unread events. read() returns one event
 * of the first source, which moves to the end of the queue if it has more.
 */

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "uverbs.h"

static struct workqueue_struct *uv_wake_wq;

struct uv_events {
	struct kref ref;
	struct uv_file *file;		/* exists until the descriptor is closed */
	struct list_head in_file;	/* under the device's lists_mutex */
	bool async;
	bool registered;		/* handler, under lists_mutex */
	struct ib_event_handler handler;

	spinlock_t lock;		/* also for the sources in the queue; irq */
	bool closed __guarded_by(&lock);
	bool fatal __guarded_by(&lock);	/* DEVICE_FATAL follows the events in the queue */
	struct list_head queue __guarded_by(&lock);	/* uv_source.in_queue */
	wait_queue_head_t readers;	/* each waits exclusively */
	wait_queue_head_t pollers;
	struct fasync_struct *fasync;
	struct work_struct wake_work;	/* of the last two; has a reference while it is queued */

	/* For asynchronous events: the device (0) and its ports, which are numbered from 1. */
	u32 nports;
	struct uv_async_source port[];
};

/* The record that read() returns. */
union uv_event_desc {
	struct ib_uverbs_async_event_desc async;
	struct ib_uverbs_comp_event_desc comp;
};

static void uv_events_free(struct kref *ref)
{
	kfree(container_of(ref, struct uv_events, ref));
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
		kref_put(&events->ref, uv_events_free);
}

static void uv_events_wake_work(struct work_struct *work)
{
	struct uv_events *events = container_of(work, struct uv_events, wake_work);

	wake_up_interruptible(&events->pollers);
	kill_fasync(&events->fasync, SIGIO, POLL_IN);
	uv_events_put(events);
}

/*
 * In any context, also in the softirq of the card, which serves all users. A process decides how
 * many pollers there are (epoll and dup(), poll() of an epoll instance), and who gets a signal. So
 * a work item wakes these.
 */
static void uv_events_wake(struct uv_events *events)
{
	wake_up_interruptible(&events->readers);
	if (!wq_has_sleeper(&events->pollers) && !READ_ONCE(events->fasync))
		return;
	kref_get(&events->ref);
	if (!queue_work(uv_wake_wq, &events->wake_work))
		uv_events_put(events);
}

/* Counts one more event of a source. */
static void uv_events_enqueue(struct uv_events *events, struct uv_source *source)
	__must_hold(&events->lock)
{
	lockdep_assert_held(&events->lock);
	if (!source->unread++)
		list_add_tail(&source->in_queue, &events->queue);
}

/* Discards the unread events of a source. */
static void uv_events_discard(struct uv_events *events, struct uv_source *source)
	__must_hold(&events->lock)
{
	lockdep_assert_held(&events->lock);
	list_del_init(&source->in_queue);
	source->unread = 0;
}

static void uv_async_run_remove(struct uv_async_source *source, u32 i)
{
	source->nruns--;
	memmove(&source->run[i], &source->run[i + 1],
		(source->nruns - i) * sizeof(source->run[0]));
}

/* Frees the oldest run whose type has a later one: its events join that. */
static void uv_async_runs_shorten(struct uv_async_source *source)
{
	u32 i, j;

	for (i = 0; i < source->nruns; i++) {
		for (j = i + 1; j < source->nruns; j++) {
			if (source->run[j].type != source->run[i].type ||
			    source->run[j].count + source->run[i].count > UV_ASYNC_MOST)
				continue;
			source->run[j].count += source->run[i].count;
			uv_async_run_remove(source, i);
			return;
		}
	}
}

/* Adds an event to the runs of a source. Returns false if the event cannot be counted. */
static bool uv_async_run_add(struct uv_events *events, struct uv_async_source *source, u32 type)
	__must_hold(&events->lock)
{
	u32 i;

	lockdep_assert_held(&events->lock);
	if (WARN_ON_ONCE(type > U8_MAX))
		return false;
	if (!source->nruns || source->run[source->nruns - 1].type != type) {
		if (source->nruns == UV_ASYNC_RUNS)
			uv_async_runs_shorten(source);
		if (source->nruns == UV_ASYNC_RUNS)
			return false;
		i = source->nruns++;
		source->run[i].type = type;
		source->run[i].count = 0;
	}
	i = source->nruns - 1;
	if (source->run[i].count == UV_ASYNC_MOST)
		return false;
	source->run[i].count++;
	return true;
}

/* Removes the first event of a source and returns its type. */
static u32 uv_async_run_take(struct uv_events *events, struct uv_async_source *source)
	__must_hold(&events->lock)
{
	u32 type = source->run[0].type;

	lockdep_assert_held(&events->lock);
	if (!--source->run[0].count)
		uv_async_run_remove(source, 0);
	return type;
}

static bool uv_events_enqueue_async(struct uv_events *events, struct uv_async_source *source,
				    u32 type)
	__must_hold(&events->lock)
{
	if (events->closed || !uv_async_run_add(events, source, type))
		return false;
	uv_events_enqueue(events, &source->base);
	return true;
}

/*
 * Drops new events. Sources stay in the queue until they are read or released: a process has any
 * number of CQs on a channel, and others wait for this lock. @fatal: DEVICE_FATAL follows.
 */
static void uv_events_close_queue(struct uv_events *events, bool fatal)
{
	spin_lock_irq(&events->lock);
	if (!events->closed)
		events->fatal = fatal;
	WRITE_ONCE(events->closed, true);
	spin_unlock_irq(&events->lock);
	wake_up_interruptible_all(&events->readers);
	uv_events_wake(events);
}

static void uv_events_report_async(struct uv_events *events, struct uv_async_source *source,
				   u32 type)
{
	unsigned long flags;
	bool queued;

	spin_lock_irqsave(&events->lock, flags);
	queued = uv_events_enqueue_async(events, source, type);
	spin_unlock_irqrestore(&events->lock, flags);
	if (queued)
		uv_events_wake(events);
}

static void uv_events_device_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct uv_events *events = container_of(handler, struct uv_events, handler);
	u32 port = event->element.port_num;

	/* Some drivers do not set the port in an event of the device. */
	uv_events_report_async(events, &events->port[port <= events->nports ? port : 0],
			       event->event);
}

static void uv_uevent_report(struct uv_uevent *ev, enum ib_event_type type)
{
	if (ev->async)
		uv_events_report_async(ev->async, &ev->source, type);
}

void uv_cq_event(struct ib_event *event, void *context)
{
	uv_uevent_report(&event->element.cq->uobject->ev, event->event);
}

void uv_qp_event(struct ib_event *event, void *context)
{
	uv_uevent_report(&event->element.qp->uobject->ev, event->event);
}

void uv_srq_event(struct ib_event *event, void *context)
{
	uv_uevent_report(&event->element.srq->uobject->ev, event->event);
}

void uv_comp_handler(struct ib_cq *cq, void *context)
{
	struct ib_ucq_object *ucq = cq->uobject;
	struct uv_events *channel = ucq->channel;
	unsigned long flags;
	bool queued;

	if (!channel)
		return;
	spin_lock_irqsave(&channel->lock, flags);
	queued = !channel->closed && ucq->comp.unread < U32_MAX;
	if (queued)
		uv_events_enqueue(channel, &ucq->comp);
	spin_unlock_irqrestore(&channel->lock, flags);
	if (queued)
		uv_events_wake(channel);
}

/* ---- objects that report ----------------------------------------------------- */

static void uv_async_source_init(struct uv_async_source *source, u64 element)
{
	INIT_LIST_HEAD(&source->base.in_queue);
	source->element = element;
}

/* Before the driver creates the object, which may report events at once. */
void uv_uevent_init(struct uv_uevent *ev, struct uv_events *async, u64 user_handle)
{
	struct uv_file *file = uv_file_of(ev->obj.base.ufile);

	ev->async = uv_events_get(async ?: uv_file_async(file));
	uv_async_source_init(&ev->source, user_handle);
	ev->obj.base.user_handle = user_handle;
}

static void uv_source_release(struct uv_events *events, struct uv_source *source)
{
	spin_lock_irq(&events->lock);
	uv_events_discard(events, source);
	spin_unlock_irq(&events->lock);
	uv_events_put(events);
}

/* After the driver has destroyed the object, which reports no more events. */
void uv_uevent_release(struct uv_uevent *ev)
{
	if (ev->async)
		uv_source_release(ev->async, &ev->source.base);
	ev->async = NULL;
}

void uv_cq_release_channel(struct ib_ucq_object *ucq)
{
	if (ucq->channel)
		uv_source_release(ucq->channel, &ucq->comp);
	ucq->channel = NULL;
}

/* ---- the file ------------------------------------------------------------------- */

static bool uv_events_unread(const struct uv_events *events)
	__must_hold(&events->lock)
{
	lockdep_assert_held(&events->lock);
	return !list_empty(&events->queue) || events->fatal;
}

/* Without the lock: whether a reader shall look again. */
static bool uv_events_may_read(const struct uv_events *events)
{
	return context_unsafe(!list_empty(&events->queue) || READ_ONCE(events->closed));
}

/* Removes the first of the unread events. */
static void uv_events_dequeue(struct uv_events *events, union uv_event_desc *desc)
	__must_hold(&events->lock)
{
	struct uv_source *source;

	lockdep_assert_held(&events->lock);
	memset(desc, 0, sizeof(*desc));
	if (list_empty(&events->queue)) {
		desc->async.event_type = IB_EVENT_DEVICE_FATAL;
		events->fatal = false;
		return;
	}
	source = list_first_entry(&events->queue, struct uv_source, in_queue);
	if (events->async) {
		struct uv_async_source *async = container_of(source, struct uv_async_source, base);

		desc->async.element = async->element;
		desc->async.event_type = uv_async_run_take(events, async);
	} else {
		struct ib_ucq_object *ucq = container_of(source, struct ib_ucq_object, comp);

		desc->comp.cq_handle = ucq->ev.source.element;
	}
	source->reported++;
	if (--source->unread)
		list_move_tail(&source->in_queue, &events->queue);
	else
		list_del_init(&source->in_queue);
}

static ssize_t uv_events_read(struct file *filp, char __user *buf, size_t count, loff_t *pos)
{
	struct uv_events *events = filp->private_data;
	size_t len = events->async ? sizeof(struct ib_uverbs_async_event_desc) :
				     sizeof(struct ib_uverbs_comp_event_desc);
	union uv_event_desc desc;

	spin_lock_irq(&events->lock);
	while (!uv_events_unread(events)) {
		bool closed = events->closed;

		spin_unlock_irq(&events->lock);
		if (closed)
			return -EIO;
		if (filp->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible_exclusive(events->readers,
						       uv_events_may_read(events)))
			return -ERESTARTSYS;
		spin_lock_irq(&events->lock);
	}
	if (count < len) {
		spin_unlock_irq(&events->lock);
		wake_up_interruptible(&events->readers); /* the event is another reader's */
		return -EINVAL;
	}
	uv_events_dequeue(events, &desc);
	spin_unlock_irq(&events->lock);

	return copy_to_user(buf, &desc, len) ? -EFAULT : len;
}

static __poll_t uv_events_poll(struct file *filp, struct poll_table_struct *table)
{
	struct uv_events *events = filp->private_data;
	__poll_t ready = 0;

	poll_wait(filp, &events->pollers, table);
	spin_lock_irq(&events->lock);
	if (uv_events_unread(events))
		ready = EPOLLIN | EPOLLRDNORM;
	else if (events->closed)
		ready = EPOLLERR;
	spin_unlock_irq(&events->lock);
	return ready;
}

static int uv_events_fasync(int fd, struct file *filp, int on)
{
	struct uv_events *events = filp->private_data;

	return fasync_helper(fd, filp, on, &events->fasync);
}

/* The event files of a uverbs file. */
static struct list_head *uv_file_events(struct uv_file *file)
	__must_hold(&file->base.device->lists_mutex)
{
	return &file->events;
}

static void uv_events_register_handler(struct uv_events *events, struct ib_device *dev)
	__must_hold(&events->file->base.device->lists_mutex)
{
	INIT_IB_EVENT_HANDLER(&events->handler, dev, uv_events_device_event);
	ib_register_event_handler(&events->handler);
	events->registered = true;
}

static void uv_events_unregister_handler(struct uv_events *events)
{
	lockdep_assert_held(&events->file->base.device->lists_mutex);
	if (events->registered)
		ib_unregister_event_handler(&events->handler);
	events->registered = false;
}

static void uv_events_unlist(struct uv_events *events)
{
	struct mutex *lists = &events->file->base.device->lists_mutex;

	mutex_lock(lists);
	list_del_init(&events->in_file);
	uv_events_unregister_handler(events);
	mutex_unlock(lists);
}

static int uv_events_release(struct inode *inode, struct file *filp)
{
	struct uv_events *events = filp->private_data;
	struct uv_file *file = events->file;

	uv_events_unlist(events);
	uv_events_close_queue(events, false);
	uv_events_put(events);
	uv_file_put(file);
	return 0;
}

static const struct file_operations uv_comp_fops = {
	.owner = THIS_MODULE,
	.read = uv_events_read,
	.poll = uv_events_poll,
	.fasync = uv_events_fasync,
	.release = uv_events_release,
};

/* The same functions as uv_comp_fops. Its address identifies a file of asynchronous events. */
static const struct file_operations uv_async_fops = {
	.owner = THIS_MODULE,
	.read = uv_events_read,
	.poll = uv_events_poll,
	.fasync = uv_events_fasync,
	.release = uv_events_release,
};

int uv_events_new(struct uv_file *file, struct ib_device *dev, bool async, struct uv_new_fd *new)
{
	u32 i, sources = async ? dev->phys_port_cnt + 1 : 0;
	struct uv_events *events;
	int err;

	events = kzalloc(struct_size(events, port, sources), GFP_KERNEL_ACCOUNT);
	if (!events)
		return -ENOMEM;
	for (i = 0; i < sources; i++)
		uv_async_source_init(&events->port[i], i);
	events->nports = dev->phys_port_cnt;
	kref_init(&events->ref);
	kref_get(&file->base.ref);
	events->file = file;
	events->async = async;
	spin_lock_init(&events->lock);
	context_unsafe(INIT_LIST_HEAD(&events->queue)); /* not published yet */
	INIT_LIST_HEAD(&events->in_file);
	init_waitqueue_head(&events->readers);
	init_waitqueue_head(&events->pollers);
	INIT_WORK(&events->wake_work, uv_events_wake_work);

	new->fd = get_unused_fd_flags(O_CLOEXEC);
	if (new->fd < 0) {
		err = new->fd;
		goto err_events;
	}
	new->filp = anon_inode_getfile("[infinibandevent]", async ? &uv_async_fops : &uv_comp_fops,
				       events, O_RDONLY);
	if (IS_ERR(new->filp)) {
		err = PTR_ERR(new->filp);
		goto err_fd;
	}
	new->events = events;

	mutex_lock(&file->base.device->lists_mutex);
	list_add_tail(&events->in_file, uv_file_events(file));
	mutex_unlock(&file->base.device->lists_mutex);
	return 0;

err_fd:
	put_unused_fd(new->fd);
err_events:
	uv_events_put(events);
	uv_file_put(file);
	return err;
}

/*
 * Registers an event file for the events of the device. The first one of a uverbs file becomes its
 * default for the events of objects.
 */
static void uv_events_register(struct uv_events *events, struct ib_device *dev)
{
	struct uv_file *file = events->file;

	mutex_lock(&file->base.ucontext_lock);
	if (!uv_file_async(file))
		uv_file_set_async(file, uv_events_get(events));
	mutex_unlock(&file->base.ucontext_lock);

	mutex_lock(&file->base.device->lists_mutex);
	uv_events_register_handler(events, dev);
	mutex_unlock(&file->base.device->lists_mutex);
}

/* After the response was written. A file of asynchronous events gets events from here on. */
void uv_events_commit(struct uv_new_fd *new, struct ib_device *dev)
{
	if (new->events->async)
		uv_events_register(new->events, dev);
	fd_install(new->fd, new->filp);
}

void uv_events_abort(struct uv_new_fd *new)
{
	put_unused_fd(new->fd);
	fput(new->filp);	/* calls uv_events_release() */
}

/* The event file of a descriptor, if it belongs to this uverbs file. */
struct uv_events *uv_events_get_fd(struct uv_file *file, s64 fd, bool async)
{
	struct uv_events *events = ERR_PTR(-EBADF);
	struct file *filp;

	if (fd != (int)fd)
		return ERR_PTR(-EINVAL);
	filp = fget(fd);
	if (!filp)
		return events;
	if (filp->f_op == (async ? &uv_async_fops : &uv_comp_fops)) {
		struct uv_events *found = filp->private_data;

		if (found->file == file)
			events = uv_events_get(found);
	}
	fput(filp);
	return events;
}

/* With the device's lists_mutex. The release of the descriptor finds the event file unlisted. */
static struct uv_events *uv_events_unlist_first(struct uv_file *file)
	__must_hold(&file->base.device->lists_mutex)
{
	struct uv_events *events = list_first_entry_or_null(uv_file_events(file), struct uv_events,
							    in_file);

	lockdep_assert_held(&file->base.device->lists_mutex);
	if (events) {
		list_del_init(&events->in_file);
		uv_events_unregister_handler(events);
	}
	return events;
}

/*
 * Closes all event queues of a file before the context is freed. A process can have any number of
 * them, and others on the device need lists_mutex, so they get it after each one.
 */
void uv_events_teardown(struct uv_file *file, enum rdma_remove_reason why)
{
	struct mutex *lists = &file->base.device->lists_mutex;
	bool removed = why == RDMA_REMOVE_DRIVER_REMOVE;
	struct uv_events *events;

	lockdep_assert_held_write(&file->base.hw_destroy_rwsem);
	do {
		mutex_lock(lists);
		events = uv_events_unlist_first(file);
		/* It exists, since its release waits for the mutex. */
		if (events)
			uv_events_close_queue(events, events->async && removed);
		mutex_unlock(lists);
	} while (events);
}

int uv_events_init(void)
{
	uv_wake_wq = alloc_workqueue("t3_uverbs", WQ_UNBOUND, 0);
	return uv_wake_wq ? 0 : -ENOMEM;
}

void uv_events_exit(void)
{
	destroy_workqueue(uv_wake_wq);
}
