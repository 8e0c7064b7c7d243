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
 * case the events that are there can still be read, IB_EVENT_DEVICE_FATAL
 * among them; then read() says EIO.
 *
 * The queue links sources: objects, and ports of the device, that have unread
 * events. Each counts its own (struct uv_source), so to report one takes no
 * memory and cannot fail, in whatever context a driver does it, and destroying
 * the object takes back what was not read. read() takes one event of the first
 * source, which goes to the end of the queue if it has more. Queue, sources
 * and the count of what was read are under the lock of the queue: drivers
 * report from any context, interrupts included.
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

	spinlock_t lock;	/* what follows, and the sources that are objects */
	bool closed;
	struct list_head queue;		/* uv_source.in_queue */
	wait_queue_head_t wait;
	struct fasync_struct *fasync;

	/* Of an asynchronous one: the device itself and its ports, which count from 1. */
	u32 nports;
	struct uv_async_source port[];
};

/* What read() returns. */
union uv_event_desc {
	struct ib_uverbs_async_event_desc async;
	struct ib_uverbs_comp_event_desc comp;
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

static void wake(struct uv_events *events)
{
	wake_up_interruptible(&events->wait);
	kill_fasync(&events->fasync, SIGIO, POLL_IN);
}

/* Counts one more event of a source. Needs the lock. */
static void enqueue(struct uv_events *events, struct uv_source *source)
{
	lockdep_assert_held(&events->lock);
	if (!source->unread++)
		list_add_tail(&source->in_queue, &events->queue);
}

/* Takes back what was not read of a source. Needs the lock. */
static void discard(struct uv_events *events, struct uv_source *source)
{
	lockdep_assert_held(&events->lock);
	list_del_init(&source->in_queue);
	source->unread = 0;
}

/*
 * Adds an event to the runs of a source. If there is no place for another run, the event joins an
 * earlier one of its type. False if it cannot be counted. Needs the lock.
 */
static bool add_to_run(struct uv_events *events, struct uv_async_source *source, u32 type)
{
	const u32 most = GENMASK(23, 0);
	u32 i = source->nruns;

	lockdep_assert_held(&events->lock);
	if (WARN_ON_ONCE(type > U8_MAX))
		return false;
	if (!i || source->run[i - 1].type != type) {
		if (i < UV_ASYNC_RUNS) {
			source->run[i].type = type;
			source->run[i].count = 0;
			source->nruns++;
			i++;
		} else {
			while (i && source->run[i - 1].type != type)
				i--;
		}
	}
	if (WARN_ON_ONCE(!i) || source->run[i - 1].count == most)
		return false;
	source->run[i - 1].count++;
	return true;
}

/* The type of the first event of a source, which is taken. Needs the lock. */
static u32 take_from_run(struct uv_events *events, struct uv_async_source *source)
{
	u32 type = source->run[0].type;

	lockdep_assert_held(&events->lock);
	if (!--source->run[0].count)
		memmove(&source->run[0], &source->run[1], --source->nruns * sizeof(source->run[0]));
	return type;
}

static bool enqueue_async(struct uv_events *events, struct uv_async_source *source, u32 type)
{
	if (events->closed || !add_to_run(events, source, type))
		return false;
	enqueue(events, &source->base);
	return true;
}

/* Nothing comes any more. An asynchronous queue keeps what is there, behind which comes the end. */
static void close_queue(struct uv_events *events, bool keep, bool fatal)
{
	struct uv_source *source, *next;

	spin_lock_irq(&events->lock);
	if (fatal)
		enqueue_async(events, &events->port[0], IB_EVENT_DEVICE_FATAL);
	WRITE_ONCE(events->closed, true);
	if (!keep)
		list_for_each_entry_safe(source, next, &events->queue, in_queue)
			discard(events, source);
	spin_unlock_irq(&events->lock);
	wake(events);
}

static void report_async(struct uv_events *events, struct uv_async_source *source, u32 type)
{
	unsigned long flags;
	bool queued;

	T3_RACE_POINT(uverbs_event_report);
	spin_lock_irqsave(&events->lock, flags);
	queued = enqueue_async(events, source, type);
	spin_unlock_irqrestore(&events->lock, flags);
	if (queued)
		wake(events);
}

static void device_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct uv_events *events = container_of(handler, struct uv_events, handler);
	u32 port = event->element.port_num;

	/* Not every driver fills the port in for an event of the whole device. */
	report_async(events, &events->port[port <= events->nports ? port : 0], event->event);
}

static void evented_event(struct uv_evented *ev, enum ib_event_type type)
{
	if (ev->async)
		report_async(ev->async, &ev->source, type);
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
	struct uv_events *channel = ucq->channel;
	unsigned long flags;
	bool queued;

	if (!channel)
		return;
	T3_RACE_POINT(uverbs_comp_report);
	spin_lock_irqsave(&channel->lock, flags);
	queued = !channel->closed && ucq->comp.unread < U32_MAX;
	if (queued)
		enqueue(channel, &ucq->comp);
	spin_unlock_irqrestore(&channel->lock, flags);
	if (queued)
		wake(channel);
}

/* ---- objects that report ----------------------------------------------------- */

static void source_init(struct uv_async_source *source, u64 element)
{
	INIT_LIST_HEAD(&source->base.in_queue);
	source->element = element;
}

/* Before the driver makes the object: events may come at once. */
void uv_evented_init(struct uv_evented *ev, struct uv_events *async, u64 user_handle)
{
	struct uv_file *file = uv_file_of(ev->obj.base.ufile);

	ev->async = uv_events_get(async ?: uv_file_async(file));
	source_init(&ev->source, user_handle);
	ev->obj.base.user_handle = user_handle;
}

static void take_back(struct uv_events *events, struct uv_source *source)
{
	spin_lock_irq(&events->lock);
	discard(events, source);
	spin_unlock_irq(&events->lock);
	uv_events_put(events);
}

/* After the driver has destroyed the object: no event comes any more. */
void uv_evented_release(struct uv_evented *ev)
{
	if (ev->async)
		take_back(ev->async, &ev->source.base);
	ev->async = NULL;
}

void uv_cq_release_channel(struct ib_ucq_object *ucq)
{
	if (ucq->channel)
		take_back(ucq->channel, &ucq->comp);
	ucq->channel = NULL;
}

/* ---- the file ------------------------------------------------------------------- */

/* Takes the first event of the queue, in which there is one. Needs the lock. */
static void take_first(struct uv_events *events, union uv_event_desc *desc)
{
	struct uv_source *source;

	lockdep_assert_held(&events->lock);
	source = list_first_entry(&events->queue, struct uv_source, in_queue);
	memset(desc, 0, sizeof(*desc));
	if (events->async) {
		struct uv_async_source *async = container_of(source, struct uv_async_source, base);

		desc->async.element = async->element;
		desc->async.event_type = take_from_run(events, async);
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

static ssize_t events_read(struct file *filp, char __user *buf, size_t count, loff_t *pos)
{
	struct uv_events *events = filp->private_data;
	size_t len = events->async ? sizeof(struct ib_uverbs_async_event_desc) :
				     sizeof(struct ib_uverbs_comp_event_desc);
	union uv_event_desc desc;

	spin_lock_irq(&events->lock);
	while (list_empty(&events->queue)) {
		bool closed = events->closed;

		spin_unlock_irq(&events->lock);
		if (closed)
			return -EIO;
		if (filp->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(events->wait, !list_empty(&events->queue) ||
					     READ_ONCE(events->closed)))
			return -ERESTARTSYS;
		spin_lock_irq(&events->lock);
	}
	if (count < len) {
		spin_unlock_irq(&events->lock);
		return -EINVAL;
	}
	take_first(events, &desc);
	spin_unlock_irq(&events->lock);

	T3_RACE_POINT(uverbs_event_taken);
	return copy_to_user(buf, &desc, len) ? -EFAULT : len;
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
	close_queue(events, false, false);
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

int uv_events_new(struct uv_file *file, struct ib_device *dev, bool async, struct uv_new_fd *new)
{
	u32 i, sources = async ? dev->phys_port_cnt + 1 : 0;
	struct uv_events *events;
	int err;

	events = kzalloc(struct_size(events, port, sources), GFP_KERNEL_ACCOUNT);
	if (!events)
		return -ENOMEM;
	for (i = 0; i < sources; i++)
		source_init(&events->port[i], i);
	events->nports = dev->phys_port_cnt;
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
	if (!uv_file_async(file))
		uv_file_set_async(file, uv_events_get(events));
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

/* No events any more: the device goes, or the file is closed. Needs hw_destroy_rwsem, to write. */
void uv_events_teardown(struct uv_file *file, enum rdma_remove_reason why)
{
	struct mutex *lists = &file->base.device->lists_mutex;
	bool gone = why == RDMA_REMOVE_DRIVER_REMOVE;
	struct uv_events *events;

	lockdep_assert_held_write(&file->base.hw_destroy_rwsem);
	mutex_lock(lists);
	list_for_each_entry(events, &file->events, in_file) {
		if (events->listening)
			ib_unregister_event_handler(&events->handler);
		events->listening = false;
		close_queue(events, events->async, gone && events->async);
	}
	mutex_unlock(lists);
}
