// SPDX-License-Identifier: GPL-2.0
/*
 * Handles and the objects behind them.
 *
 * Life of an object:
 *
 *   made	uv_object_new(): its handle is taken, it is charged to the cgroup,
 *		and owned exclusively (usecnt -1) by the call that makes it. Who
 *		guesses the handle finds nothing yet.
 *   in use	uv_object_commit(): on the file's list, usecnt 0. Calls take it
 *		shared or exclusively with uv_object_get() and give it back with
 *		uv_object_put(). While any call has it, it cannot be destroyed.
 *   destroyed	by a command (uv_object_destroy()), because making it failed
 *		(uv_object_abort()), or with its file (uv_file_teardown()).
 *		The driver's object has gone, ->object is NULL, and the object is
 *		on no list. A command gives the handle back at once; after a
 *		teardown by device removal it stays until the file is closed, so
 *		that a late destroy still succeeds and reports its events.
 *   freed	by the only one who still knows it: the call that destroyed it, once
 *		it has read the results, or the end of its file.
 *
 * A handle is looked up and the object taken in one go under uobjects_lock, so
 * that who has found an object has it: nothing else keeps it alive. To give it
 * back needs no lock; who then finds usecnt 0 sees all that was done before.
 * What must be gone first is known to ib_core and the drivers by their own
 * counters: a PD with regions cannot be destroyed and answers EBUSY.
 *
 * Order of a teardown: newest object first, because users are younger than
 * what they use; again while anything could be destroyed; event files; the
 * mappings (only on removal: on closing there are none left, they hold the
 * file); the context last. What a driver will not give up after all of that is
 * left behind with a warning.
 *
 * A teardown excludes the commands that make and use objects: on closing no
 * system call is under way, on removal ib_dev was cleared and SRCU waited for.
 * A destroy is allowed after ib_dev was cleared, so it excludes the teardown
 * with hw_destroy_rwsem, held for reading from the lookup until the object is
 * off the list. A destroy that comes second finds ->object NULL and succeeds.
 */

#include <linux/slab.h>

#include <t3_race_point.h>

#include "call.h"
#include "core_calls.h"

/* A call that has seen the device: removal waits for disassociate_srcu before the teardown. */
static void assert_in_call(const struct uv_file *file)
{
	lockdep_assert(srcu_read_lock_held(&file->base.device->disassociate_srcu));
}

/* Sizes that are constants spare a search for the allocator's cache. */
static struct uv_object *object_alloc(const struct uv_type *type)
{
	if (type->size == sizeof(struct uv_object))
		return kzalloc(sizeof(struct uv_object), GFP_KERNEL_ACCOUNT);
	return kzalloc(sizeof(union uv_any_object), GFP_KERNEL_ACCOUNT);
}

static void object_free(struct ib_uobject *uobj)
{
	kfree(uv_object_of(uobj));
}

/* Gives back the number and the memory of an object that was never on a list. */
static void object_drop(struct ib_uobject *uobj)
{
	struct uv_file *file = uv_file_of(uobj->ufile);

	WARN_ON_ONCE(!list_empty(&uobj->list));
	spin_lock(&file->base.uobjects_lock);
	uv_handle_drop(&file->handles, uobj->id);
	spin_unlock(&file->base.uobjects_lock);
	object_free(uobj);
}

/*
 * Takes a destroyed object off the list, which INFO_HANDLES may be walking with the lock held. Its
 * number is given back as well when a command destroyed it.
 */
static void object_unlist(struct ib_uobject *uobj, enum rdma_remove_reason why)
{
	struct uv_file *file = uv_file_of(uobj->ufile);

	lockdep_assert_held(&file->base.hw_destroy_rwsem);
	spin_lock(&file->base.uobjects_lock);
	list_del_init(&uobj->list);
	if (why == RDMA_REMOVE_DESTROY)
		uv_handle_drop(&file->handles, uobj->id);
	spin_unlock(&file->base.uobjects_lock);
}

struct ib_uobject *uv_object_new(struct uv_file *file, const struct uv_type *type,
				 struct ib_ucontext *context)
{
	struct ib_uobject *uobj;
	struct uv_object *obj;
	u32 handle;
	int err;

	assert_in_call(file);
	/* Only the number: who guesses it finds nothing, whatever it was before. */
	err = uv_handle_reserve(file, &handle);
	if (err)
		return ERR_PTR(err);
	T3_RACE_POINT(uverbs_handle_reserved);
	obj = object_alloc(type);
	if (!obj) {
		err = -ENOMEM;
		goto err_handle;
	}
	obj->type = type;
	uobj = &obj->base;
	uobj->id = handle;
	uobj->ufile = &file->base;
	uobj->context = context;
	INIT_LIST_HEAD(&uobj->list);
	atomic_set(&uobj->usecnt, -1);

	err = uv_charge(&uobj->cg_obj, context->device, RDMACG_RESOURCE_HCA_OBJECT);
	if (err) {
		object_drop(uobj);
		return ERR_PTR(err);
	}
	return uobj;

err_handle:
	spin_lock(&file->base.uobjects_lock);
	uv_handle_drop(&file->handles, handle);
	spin_unlock(&file->base.uobjects_lock);
	return ERR_PTR(err);
}

void uv_object_commit(struct ib_uobject *uobj)
{
	struct ib_uverbs_file *ufile = uobj->ufile;

	assert_in_call(uv_file_of(ufile));
	spin_lock(&ufile->uobjects_lock);
	list_add(&uobj->list, &ufile->uobjects);
	atomic_set(&uobj->usecnt, 0);
	uv_handle_show(&uv_file_of(ufile)->handles, uobj);
	/* From here on others may take it, and destroy it. */
	spin_unlock(&ufile->uobjects_lock);
}

/*
 * The driver's part. On success the object is only a handle; on error it is what it was. The caller
 * owns the object, and keeps teardown and destroy apart: see the top.
 */
static int destroy_hw(struct ib_uobject *uobj, enum rdma_remove_reason why,
		      struct uverbs_attr_bundle *attrs)
{
	struct ib_device *dev;
	int err;

	if (why == RDMA_REMOVE_ABORT)
		assert_in_call(uv_file_of(uobj->ufile));
	else
		lockdep_assert_held(&uobj->ufile->hw_destroy_rwsem);
	lockdep_assert(atomic_read(&uobj->usecnt) == -1);
	if (!uobj->context)
		return 0;
	dev = uobj->context->device;
	T3_RACE_POINT(uverbs_destroy_begins);
	if (uobj->object) {
		err = uv_object_of(uobj)->type->destroy(uobj, why, attrs);
		if (err)
			return err;
		uobj->object = NULL;
	}
	T3_RACE_POINT(uverbs_driver_destroyed);
	uv_uncharge(&uobj->cg_obj, dev, RDMACG_RESOURCE_HCA_OBJECT);
	uobj->context = NULL;
	return 0;
}

/* Undoes uv_object_new() and, if the handler had succeeded, what it made. */
void uv_object_abort(struct ib_uobject *uobj, struct uverbs_attr_bundle *attrs)
{
	uv_no_udata(attrs);
	if (WARN_ON(destroy_hw(uobj, RDMA_REMOVE_ABORT, attrs))) {
		/* The driver keeps it. Closing the file tries again. */
		uv_object_commit(uobj);
		return;
	}
	object_drop(uobj);
}

/*
 * Needs uobjects_lock, without which there is no new user or owner. A user or owner leaves without
 * it, so both ways in are an acquire, which pairs with the release in uv_object_put().
 */
static int own(struct ib_uobject *uobj, enum uv_access access)
{
	lockdep_assert_held(&uobj->ufile->uobjects_lock);
	if (access == UV_READ) {
		if (atomic_read_acquire(&uobj->usecnt) >= 0) {
			atomic_inc(&uobj->usecnt);
			return 0;
		}
	} else if (atomic_cmpxchg_acquire(&uobj->usecnt, 0, -1) == 0) {
		return 0;
	}
	return -EBUSY;
}

/* The object with a handle, if it is of that type and can be had so: UV_READ or UV_WRITE. */
struct ib_uobject *uv_object_get(struct uv_file *file, const struct uv_type *type, u64 handle,
				 enum uv_access access)
{
	struct ib_uobject *uobj;
	int err = -ENOENT;

	if (handle > U32_MAX)
		return ERR_PTR((s64)handle < 0 ? -EINVAL : -ENOENT);
	spin_lock(&file->base.uobjects_lock);
	uobj = uv_handle_find(&file->handles, handle);
	if (uobj)
		err = uv_object_of(uobj)->type == type ? own(uobj, access) : -EINVAL;
	spin_unlock(&file->base.uobjects_lock);
	return err ? ERR_PTR(err) : uobj;
}

/*
 * Destroys the object with a handle, which names nothing then. Its memory stays until it is put
 * with UV_DESTROY: it counts how many events were read. One that was destroyed with its device is
 * found as well, and the driver is not called again.
 */
struct ib_uobject *uv_object_destroy(struct uv_file *file, const struct uv_type *type, u64 handle,
				     struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj;
	int err;

	down_read(&file->base.hw_destroy_rwsem);
	uobj = uv_object_get(file, type, handle, UV_WRITE);
	if (IS_ERR(uobj))
		goto out;
	attrs->context = uobj->context;
	err = destroy_hw(uobj, RDMA_REMOVE_DESTROY, attrs);
	if (err) {
		uv_object_put(uobj, UV_WRITE);
		uobj = ERR_PTR(err);
	} else {
		object_unlist(uobj, RDMA_REMOVE_DESTROY);
	}
out:
	up_read(&file->base.hw_destroy_rwsem);
	return uobj;
}

void uv_object_put(struct ib_uobject *uobj, enum uv_access access)
{
	if (access == UV_READ) {
		lockdep_assert(atomic_read(&uobj->usecnt) > 0);
		atomic_fetch_dec_release(&uobj->usecnt);
		return;
	}
	lockdep_assert(atomic_read(&uobj->usecnt) == -1);
	if (access == UV_DESTROY) {
		T3_RACE_POINT(uverbs_object_drop);
		object_free(uobj);
	} else {
		atomic_set_release(&uobj->usecnt, 0);
	}
}

/* The handles of a file's objects of one type; how many there was room for. */
u32 uv_objects_list(struct uv_file *file, u16 type, u32 *handles, u32 room)
{
	struct ib_uobject *uobj;
	u32 count = 0;

	spin_lock(&file->base.uobjects_lock);
	list_for_each_entry(uobj, &file->base.uobjects, list) {
		if (count == room)
			break;
		if (uv_object_of(uobj)->type->id == type)
			handles[count++] = uobj->id;
	}
	spin_unlock(&file->base.uobjects_lock);
	return count;
}

/* One round over what is left, newest first. Returns whether anything could be destroyed. */
static bool destroy_round(struct uv_file *file, enum rdma_remove_reason why)
{
	struct uverbs_attr_bundle attrs = { .ufile = &file->base };
	struct ib_uobject *uobj, *next;
	bool progress = false;

	lockdep_assert_held_write(&file->base.hw_destroy_rwsem);
	list_for_each_entry_safe(uobj, next, &file->base.uobjects, list) {
		/* Nobody else can own it now; see the top. */
		WARN_ON(atomic_cmpxchg(&uobj->usecnt, 0, -1) != 0);
		attrs.context = uobj->context;
		if (!destroy_hw(uobj, why, &attrs)) {
			object_unlist(uobj, why);
			progress = true;
		}
		atomic_set_release(&uobj->usecnt, 0);
	}
	return progress;
}

static void context_free(struct uv_file *file, enum rdma_remove_reason why)
{
	struct ib_ucontext *context = file->base.ucontext;
	struct ib_device *dev = context->device;

	lockdep_assert_held_write(&file->base.hw_destroy_rwsem);
	if (why == RDMA_REMOVE_DRIVER_REMOVE) {
		uv_mmap_disassociate(file);
		if (dev->ops.disassociate_ucontext)
			dev->ops.disassociate_ucontext(context);
	}
	T3_RACE_POINT(uverbs_context_disassociated);
	uv_uncharge(&context->cg_obj, dev, RDMACG_RESOURCE_HCA_HANDLE);
	rdma_restrack_del(&context->res);
	dev->ops.dealloc_ucontext(context);
	WARN_ON(!xa_empty(&context->mmap_xa));
	kfree(context);
	WRITE_ONCE(file->base.ucontext, NULL);
}

/* Destroys everything that the file made on its device. Harmless when that was done before. */
void uv_file_teardown(struct uv_file *file, enum rdma_remove_reason why)
{
	struct ib_uobject *uobj;

	T3_RACE_POINT(uverbs_teardown_begins);
	down_write(&file->base.hw_destroy_rwsem);
	if (file->base.ucontext) {
		while (!list_empty(&file->base.uobjects) && destroy_round(file, why))
			;
		while (WARN_ON(!list_empty(&file->base.uobjects))) {
			uobj = list_first_entry(&file->base.uobjects, struct ib_uobject, list);
			object_unlist(uobj, why);
			uobj->object = NULL;
			uobj->context = NULL;
		}
		T3_RACE_POINT(uverbs_teardown_objects_gone);
		uv_events_teardown(file, why);
		context_free(file, why);
	}
	up_write(&file->base.hw_destroy_rwsem);
}

/* The last handles, of objects that went with their device. */
void uv_file_drop_handles(struct uv_file *file)
{
	uv_handles_end(&file->handles, object_free);
}
