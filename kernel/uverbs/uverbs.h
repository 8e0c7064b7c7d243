/* SPDX-License-Identifier: GPL-2.0 */
/*
 * t3_uverbs: the verbs dispatcher behind /dev/infiniband/uverbsN.
 *
 * A command arrives by write() (write.c) or by the ioctl RDMA_VERBS_IOCTL
 * (ioctl.c). Both look up its row in the table of commands (table.c). The row
 * lists the fields of the request. The dispatcher converts them - values,
 * handles, descriptors - to the arguments of a handler (cmd_*.c), calls the
 * handler and copies its results to the response (steps.h).
 *
 * docs/uverbs.md has the locks and their order. A function that needs a lock
 * asserts it.
 *
 * The rules of lifetime are in objects.c (objects and handles), events.c
 * (event files) and device.c (devices and files).
 */
#ifndef T3_UVERBS_H
#define T3_UVERBS_H

#include <linux/build_bug.h>
#include <linux/nospec.h>
#include <linux/types.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/uverbs_ioctl.h>

#include "core_layout.h"
#include "table.h"

struct uv_events;
struct uv_file;
struct uv_stats;

/* ---- objects (objects.c) ---------------------------------------------------- */

enum uv_access {
	UV_READ,	/* shared with other readers */
	UV_WRITE,	/* exclusive */
	UV_DESTROY,	/* destroyed before the handler runs, freed after the response */
};

/* A type of object that has handles. */
struct uv_type {
	const char *name;
	u16 id;		/* UVERBS_OBJECT_* */
	u16 size;	/* of the structure that begins with struct uv_object */
	/* Destroys the driver's object. On error it still exists. */
	int (*destroy)(struct ib_uobject *uobj, enum rdma_remove_reason why,
		       struct uverbs_attr_bundle *attrs);
};

extern const struct uv_type uv_pd, uv_mr, uv_mw, uv_cq, uv_qp, uv_srq, uv_ah;

struct uv_object {
	struct ib_uobject base;		/* must be first: ib_core has pointers to it */
	const struct uv_type *type;
};

/*
 * Unread events of one object or port. They are counted, not allocated: to report an event needs no
 * memory, so it cannot fail, and unread events cannot exhaust memory. All under uv_events.lock.
 */
struct uv_source {
	struct list_head in_queue;	/* in uv_events.queue while unread > 0 */
	u32 unread;
	u32 reported;			/* events that were read */
};

/*
 * Unread asynchronous events, run-length encoded. When all runs are in use, the oldest history is
 * shortened; each type keeps its latest position. No source has as many types of events as runs
 * (a QP has nine, and so has a port), so that one of them recurs.
 */
#define UV_ASYNC_RUNS 10
#define UV_ASYNC_MOST GENMASK(23, 0)	/* events of a run */

struct uv_async_source {
	struct uv_source base;	/* must be first: uv_events.queue links it */
	u64 element;		/* user_handle of the object, or number of the port */
	u32 nruns;
	struct {
		u32 type : 8, count : 24;
	} run[UV_ASYNC_RUNS];
};

/* An object that reports asynchronous events: CQ, QP, SRQ. */
struct uv_uevent {
	struct uv_object obj;
	struct uv_events *async;	/* holds a reference */
	struct uv_async_source source;	/* under async->lock */
};

/* ib_core has pointers to structures of these tags and expects a struct ib_uobject at offset 0. */
struct ib_ucq_object {
	struct uv_uevent ev;
	struct uv_events *channel;	/* holds a reference */
	struct uv_source comp;		/* under channel->lock */
};

struct ib_uqp_object {
	struct uv_uevent ev;
	struct mutex mcast_lock;	/* attach and detach */
	struct list_head mcast __guarded_by(&mcast_lock);	/* uv_mcast_entry.list */
};

struct ib_usrq_object {
	struct uv_uevent ev;
};

/* As large as the largest object. */
union uv_any_object {
	struct uv_object obj;
	struct ib_ucq_object cq;
	struct ib_uqp_object qp;
	struct ib_usrq_object srq;
};

/* The value of uv_type.size; uv_object_alloc() allocates no more than the union. */
#define UV_SIZE(object) \
	(sizeof(object) + BUILD_BUG_ON_ZERO(sizeof(object) > sizeof(union uv_any_object)))

static inline struct uv_object *uv_object_of(struct ib_uobject *uobj)
{
	return container_of(uobj, struct uv_object, base);
}

static inline struct uv_uevent *uv_uevent_of(struct ib_uobject *uobj)
{
	return container_of(uobj, struct uv_uevent, obj.base);
}

struct ib_uobject *uv_object_new(struct uv_file *file, const struct uv_type *type,
				 struct ib_ucontext *context);
void uv_object_commit(struct ib_uobject *uobj);
void uv_object_abort(struct ib_uobject *uobj, struct uverbs_attr_bundle *attrs);
struct ib_uobject *uv_object_get(struct uv_file *file, const struct uv_type *type, u64 handle,
				 enum uv_access access);
struct ib_uobject *uv_object_destroy(struct uv_file *file, const struct uv_type *type, u64 handle,
				     struct uverbs_attr_bundle *attrs);
void uv_object_free_destroyed(struct ib_uobject *uobj);
u32 uv_objects_list(struct uv_file *file, u16 type, u32 *handles, u32 max);
void uv_file_teardown(struct uv_file *file, enum rdma_remove_reason why);
void uv_file_free_handles(struct uv_file *file);

/* Undoes the lock of uv_object_get(): UV_READ or UV_WRITE. */
static inline void uv_object_unlock(struct ib_uobject *uobj, enum uv_access access)
{
	if (access == UV_READ) {
		lockdep_assert(atomic_read(&uobj->usecnt) > 0);
		atomic_fetch_dec_release(&uobj->usecnt);
	} else {
		lockdep_assert(atomic_read(&uobj->usecnt) == -1);
		atomic_set_release(&uobj->usecnt, 0);
	}
}

/* ---- handles (handles.c) ---------------------------------------------- */

struct uv_handles {
	unsigned long *slots;		/* NULL until the first object is created */
	u32 size;			/* of slots */
	u32 used;			/* slots from here on were never used */
	u32 free;			/* the first of the list of free slots, or UV_NO_HANDLE */
};

void uv_handles_init(struct uv_handles *table);
void uv_handles_free(struct uv_handles *table, void (*free)(struct ib_uobject *uobj));
int uv_handle_reserve(struct uv_file *file);

/* Whether a slot holds the number of the next free slot. */
static inline bool uv_slot_is_free(unsigned long slot)
{
	return slot & 1;
}

/* ---- devices and files (device.c) ---------------------------------------- */

struct uv_device {
	struct ib_uverbs_device base;	/* the part that ib_core reads; must be first */
	struct uv_stats *stats;
	DECLARE_BITMAP(supported_rows, UV_MAX_ROWS);	/* by uv_row.number */
};

struct uv_file {
	struct ib_uverbs_file base;	/* the part that ib_core reads; must be first */
	struct list_head events;	/* uv_events.in_file, under lists_mutex */
	struct uv_handles handles;	/* under uobjects_lock */
};

static inline struct uv_file *uv_file_of(struct ib_uverbs_file *base)
{
	return container_of(base, struct uv_file, base);
}

void uv_handle_release(struct uv_file *file, u32 handle)
	__must_hold(&file->base.uobjects_lock);

/* Makes the object visible to lookups of its handle. */
static inline void uv_handle_publish(struct uv_file *file, struct ib_uobject *uobj)
	__must_hold(&file->base.uobjects_lock)
{
	lockdep_assert_held(&file->base.uobjects_lock);
	file->handles.slots[uobj->id] = (unsigned long)uobj;
}

/* The object with this handle, or NULL. */
static inline struct ib_uobject *uv_handle_find(const struct uv_file *file, u32 handle)
	__must_hold(&file->base.uobjects_lock)
{
	const struct uv_handles *table = &file->handles;
	unsigned long slot;

	lockdep_assert_held(&file->base.uobjects_lock);
	if (handle >= table->used)
		return NULL;
	slot = table->slots[array_index_nospec(handle, table->used)];
	return uv_slot_is_free(slot) ? NULL : (struct ib_uobject *)slot;
}

/* The default file for asynchronous events, or NULL. It is set once, under ucontext_lock. */
static inline struct uv_events *uv_file_async(const struct uv_file *file)
{
	return (struct uv_events *)READ_ONCE(file->base.default_async_file);
}

static inline void uv_file_set_async(struct uv_file *file, struct uv_events *async)
	__must_hold(&file->base.ucontext_lock)
{
	lockdep_assert_held(&file->base.ucontext_lock);
	/* Pairs with uv_file_async(), whose callers need no lock to use the event file. */
	smp_store_release(&file->base.default_async_file,
			  (struct ib_uverbs_async_event_file *)async);
}

static inline struct uv_device *uv_file_uvdev(const struct uv_file *file)
{
	return container_of(file->base.device, struct uv_device, base);
}

/* The RDMA device, or NULL if it was removed. Needs disassociate_srcu. */
static inline struct ib_device *uv_file_ibdev(const struct uv_file *file)
	__context_unsafe(/* the dispatcher holds disassociate_srcu; lockdep checks it */)
{
	return srcu_dereference(file->base.device->ib_dev, &file->base.device->disassociate_srcu);
}

struct ib_client;
extern struct ib_client uv_client;
int uv_devices_init(void);
void uv_devices_exit(void);
void uv_file_put(struct uv_file *file);
bool uv_driver_allowed(enum rdma_driver_id id);

/* ---- charges to cgroups (charge.c) --------------------------------------------- */

int uv_charge(struct ib_rdmacg_object *cg, struct ib_device *dev, enum rdmacg_resource_type type);
void uv_uncharge(struct ib_rdmacg_object *cg, struct ib_device *dev,
		 enum rdmacg_resource_type type);

/* ---- events (events.c) ------------------------------------------------------- */

struct uv_new_fd {
	int fd;
	struct file *filp;
	struct uv_events *events;
};

int uv_events_new(struct uv_file *file, struct ib_device *dev, bool async, struct uv_new_fd *new);
void uv_events_commit(struct uv_new_fd *new, struct ib_device *dev);
void uv_events_abort(struct uv_new_fd *new);
struct uv_events *uv_events_get_fd(struct uv_file *file, s64 fd, bool async);
struct uv_events *uv_events_get(struct uv_events *events);
void uv_events_put(struct uv_events *events);
void uv_events_teardown(struct uv_file *file, enum rdma_remove_reason why);
int uv_events_init(void);
void uv_events_exit(void);

void uv_uevent_init(struct uv_uevent *ev, struct uv_events *async, u64 user_handle);
void uv_uevent_release(struct uv_uevent *ev);
void uv_cq_release_channel(struct ib_ucq_object *ucq);
void uv_comp_handler(struct ib_cq *cq, void *context);
void uv_cq_event(struct ib_event *event, void *context);
void uv_qp_event(struct ib_event *event, void *context);
void uv_srq_event(struct ib_event *event, void *context);

/* ---- mappings (mmap.c) --------------------------------------------------------- */

int uv_mmap(struct file *filp, struct vm_area_struct *vma);
void uv_mmap_disassociate(struct uv_file *file);

/* ---- system calls (write.c, ioctl.c) --------------------------------------------------------- */

ssize_t uv_write(struct file *filp, const char __user *buf, size_t count, loff_t *pos);
long uv_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);

/* ---- counters (stats.c) -------------------------------------------------------------- */

struct uv_stats {
	struct dentry *dentry;
	/* Of the ib_device at registration (a rename is not followed), for traces. */
	char name[IB_DEVICE_NAME_MAX];
	/* By uv_row.number. */
	struct {
		atomic64_t calls;
		atomic64_t failed;
	} row[];
};

int uv_stats_init(void);
void uv_stats_exit(void);
int uv_stats_add(struct uv_device *dev, struct ib_device *ib_dev);
void uv_stats_hide(struct uv_device *dev);
void uv_stats_free(struct uv_device *dev);

#endif
