// SPDX-License-Identifier: GPL-2.0
/*
 * Handles and the objects that they name.
 *
 * States of an object:
 *
 *   new	uv_object_new(): the handle is reserved, the object is charged to
 *		the cgroup and locked exclusively (usecnt -1) by the call that
 *		creates it. A lookup of the handle does not find it.
 *   in use	uv_object_commit(): the object is on the file's list, usecnt is 0.
 *		Calls lock it shared or exclusively with uv_object_get() and
 *		unlock it with uv_object_unlock(). A locked object cannot be
 *		destroyed.
 *   destroyed	by a command (uv_object_destroy()), after a failed creation
 *		(uv_object_abort()), or with its file (uv_file_teardown()).
 *		The driver's object is gone, ->object is NULL, and the object is
 *		on no list. A command releases the handle at once. After a
 *		teardown the handle stays until the file is closed, so that a
 *		destroy after device removal still succeeds and reports the
 *		events of the object.
 *   freed	by the call that destroyed it, after it has read the results, or
 *		when its file is closed. There is no other reference.
 *
 * uv_object_get() looks a handle up and locks the object under one hold of
 * uobjects_lock. The object exists as long as it is locked; nothing else keeps
 * it. uv_object_unlock() takes no lock: its release pairs with the acquire of the
 * next uv_object_get(), which therefore sees all earlier changes of the object.
 *
 * t3_rdma_cm also takes shared use of a QP: it holds hw_destroy_rwsem for reading
 * and increments usecnt, without uobjects_lock, if it is not -1
 * (rdma_cm/iwarp/qp.c). Its reference in resource tracking, for which the
 * destruction of the QP waits, keeps the object until it has both.
 *
 * usecnt of the ib_core object counts its users; this module maintains the PD's for
 * MRs and MWs. A PD in use: EBUSY.
 *
 * Order of a teardown: objects, newest first, because an object is newer than
 * those that it uses, repeated while any could be destroyed; event files;
 * mappings (only on removal: on close there are none left, as each holds the
 * file); the context. Objects that the driver still refuses to destroy are
 * leaked with a warning, and their memory too, because the driver may still point
 * to it, and that of their event files. They hold nothing else: the file is freed,
 * and a removal does not wait for it.
 *
 * A teardown excludes commands that create or use objects: on close no system
 * call is running, on removal ib_dev was cleared and SRCU readers have left.
 * A destroy is allowed after ib_dev was cleared. hw_destroy_rwsem excludes it
 * from the teardown: the destroy holds it for reading from the lookup until the
 * object is off the list. If the teardown was first, the destroy finds ->object
 * NULL and succeeds.
 */

#include <linux/slab.h>

#include "call.h"
#include "core_calls.h"

/* Removal waits for readers of disassociate_srcu before the teardown. */
static void uv_assert_srcu_held(const struct uv_file *file)
{
	lockdep_assert(srcu_read_lock_held(&file->base.device->disassociate_srcu));
}

/* With constant sizes the compiler selects the slab cache. */
static struct uv_object *uv_object_alloc(const struct uv_type *type)
{
	if (type->size == sizeof(struct uv_object))
		return kzalloc(sizeof(struct uv_object), GFP_KERNEL_ACCOUNT);
	return kzalloc(sizeof(union uv_any_object), GFP_KERNEL_ACCOUNT);
}

static void uv_object_free(struct ib_uobject *uobj)
{
	kfree(uv_object_of(uobj));
}

/* Releases the handle and the memory of an object that was on no list. */
static void uv_object_drop(struct ib_uobject *uobj)
{
	struct uv_file *file = uv_file_of(uobj->ufile);

	WARN_ON_ONCE(!list_empty(&uobj->list));
	spin_lock(&file->base.uobjects_lock);
	uv_handle_release(file, uobj->id);
	spin_unlock(&file->base.uobjects_lock);
	uv_object_free(uobj);
}

/* Removes an object from the list, which INFO_HANDLES walks under the lock. */
static void uv_object_unlist(struct ib_uobject *uobj, bool release_handle)
{
	struct uv_file *file = uv_file_of(uobj->ufile);

	lockdep_assert_held(&file->base.hw_destroy_rwsem);
	spin_lock(&file->base.uobjects_lock);
	list_del_init(&uobj->list);
	if (release_handle)
		uv_handle_release(file, uobj->id);
	spin_unlock(&file->base.uobjects_lock);
}

struct ib_uobject *uv_object_new(struct uv_file *file, const struct uv_type *type,
				 struct ib_ucontext *context)
{
	struct ib_uobject *uobj;
	struct uv_object *obj;
	int handle, err;

	uv_assert_srcu_held(file);
	/* A lookup of the handle fails until uv_object_commit(). */
	handle = uv_handle_reserve(file);
	if (handle < 0)
		return ERR_PTR(handle);
	obj = uv_object_alloc(type);
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
		uv_object_drop(uobj);
		return ERR_PTR(err);
	}
	return uobj;

err_handle:
	spin_lock(&file->base.uobjects_lock);
	uv_handle_release(file, handle);
	spin_unlock(&file->base.uobjects_lock);
	return ERR_PTR(err);
}

void uv_object_commit(struct ib_uobject *uobj)
{
	struct uv_file *file = uv_file_of(uobj->ufile);

	uv_assert_srcu_held(file);
	spin_lock(&file->base.uobjects_lock);
	list_add(&uobj->list, &file->base.uobjects);
	atomic_set(&uobj->usecnt, 0);
	uv_handle_publish(file, uobj);
	/* From here on other calls may use and destroy it. */
	spin_unlock(&file->base.uobjects_lock);
}

/*
 * Destroys the driver's object. On error the object still exists; a teardown may already have
 * detached a QP's multicast groups. The caller has locked the object exclusively and excludes
 * teardown and destroy from each other, see the top.
 */
static int uv_object_destroy_hw(struct ib_uobject *uobj, enum rdma_remove_reason why,
				struct uverbs_attr_bundle *attrs)
{
	struct ib_device *dev;
	int err;

	if (why == RDMA_REMOVE_ABORT)
		uv_assert_srcu_held(uv_file_of(uobj->ufile));
	else
		lockdep_assert_held(&uobj->ufile->hw_destroy_rwsem);
	lockdep_assert(atomic_read(&uobj->usecnt) == -1);
	if (!uobj->context)
		return 0;
	dev = uobj->context->device;
	if (uobj->object) {
		err = uv_object_of(uobj)->type->destroy(uobj, why, attrs);
		if (err)
			return err;
		uobj->object = NULL;
	}
	uv_uncharge(&uobj->cg_obj, dev, RDMACG_RESOURCE_HCA_OBJECT);
	uobj->context = NULL;
	return 0;
}

/* Undoes uv_object_new() and, if the handler succeeded, the creation of the driver's object. */
void uv_object_abort(struct ib_uobject *uobj, struct uverbs_attr_bundle *attrs)
{
	uv_no_udata(attrs);
	if (WARN_ON(uv_object_destroy_hw(uobj, RDMA_REMOVE_ABORT, attrs))) {
		/* The driver keeps its object. The teardown of the file tries again. */
		uv_object_commit(uobj);
		return;
	}
	uv_object_drop(uobj);
}

/*
 * Locks an object: UV_READ shared, with usecnt the number of users, else exclusively, with usecnt
 * -1. uv_object_unlock() does not take uobjects_lock, so both branches acquire, which pairs with
 * the release there.
 */
static int uv_object_try_lock(struct ib_uobject *uobj, enum uv_access access)
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

/* Looks up an object of this type and locks it: UV_READ or UV_WRITE. */
struct ib_uobject *uv_object_get(struct uv_file *file, const struct uv_type *type, u64 handle,
				 enum uv_access access)
{
	struct ib_uobject *uobj;
	int err = -ENOENT;

	if (handle > U32_MAX)
		return ERR_PTR((s64)handle < 0 ? -EINVAL : -ENOENT);
	spin_lock(&file->base.uobjects_lock);
	uobj = uv_handle_find(file, handle);
	if (uobj)
		err = uv_object_of(uobj)->type == type ? uv_object_try_lock(uobj, access) : -EINVAL;
	spin_unlock(&file->base.uobjects_lock);
	return err ? ERR_PTR(err) : uobj;
}

/*
 * Destroys an object and releases its handle. The memory of the object, which has the counters of
 * its events, stays until uv_object_free_destroyed(). An object that was destroyed with its device
 * is found as well; the driver is not called again.
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
	err = uv_object_destroy_hw(uobj, RDMA_REMOVE_DESTROY, attrs);
	if (err) {
		uv_object_unlock(uobj, UV_WRITE);
		uobj = ERR_PTR(err);
	} else {
		uv_object_unlist(uobj, true);
	}
out:
	up_read(&file->base.hw_destroy_rwsem);
	return uobj;
}

/* Frees an object that uv_object_destroy() has returned. */
void uv_object_free_destroyed(struct ib_uobject *uobj)
{
	lockdep_assert(atomic_read(&uobj->usecnt) == -1);
	uv_object_free(uobj);
}

/* Copies up to @max handles of the file's objects of one type. Returns their number. */
u32 uv_objects_list(struct uv_file *file, u16 type, u32 *handles, u32 max)
{
	struct ib_uobject *uobj;
	u32 count = 0;

	spin_lock(&file->base.uobjects_lock);
	list_for_each_entry(uobj, &file->base.uobjects, list) {
		if (count == max)
			break;
		if (uv_object_of(uobj)->type->id == type)
			handles[count++] = uobj->id;
	}
	spin_unlock(&file->base.uobjects_lock);
	return count;
}

/* Destroys the objects of the list, newest first. Returns whether any could be destroyed. */
static bool uv_file_destroy_objects(struct uv_file *file, enum rdma_remove_reason why)
{
	struct uverbs_attr_bundle attrs = { .ufile = &file->base };
	struct ib_uobject *uobj, *next;
	bool progress = false;

	lockdep_assert_held_write(&file->base.hw_destroy_rwsem);
	list_for_each_entry_safe(uobj, next, &file->base.uobjects, list) {
		/* No call uses it any more, see the top. */
		WARN_ON(atomic_cmpxchg(&uobj->usecnt, 0, -1) != 0);
		attrs.context = uobj->context;
		if (!uv_object_destroy_hw(uobj, why, &attrs)) {
			uv_object_unlist(uobj, false);
			progress = true;
		}
		atomic_set_release(&uobj->usecnt, 0);
	}
	return progress;
}

static void uv_context_free(struct uv_file *file, enum rdma_remove_reason why)
{
	struct ib_ucontext *context = file->base.ucontext;
	struct ib_device *dev = context->device;

	lockdep_assert_held_write(&file->base.hw_destroy_rwsem);
	if (why == RDMA_REMOVE_DRIVER_REMOVE) {
		uv_mmap_disassociate(file);
		if (dev->ops.disassociate_ucontext)
			dev->ops.disassociate_ucontext(context);
	}
	uv_uncharge(&context->cg_obj, dev, RDMACG_RESOURCE_HCA_HANDLE);
	rdma_restrack_del(&context->res);
	dev->ops.dealloc_ucontext(context);
	WARN_ON(!xa_empty(&context->mmap_xa));
	kfree(context);
	WRITE_ONCE(file->base.ucontext, NULL);
}

/* Destroys all that the file has created on its device. A second call does nothing. */
void uv_file_teardown(struct uv_file *file, enum rdma_remove_reason why)
{
	struct ib_uobject *uobj;

	down_write(&file->base.hw_destroy_rwsem);
	if (file->base.ucontext) {
		while (!list_empty(&file->base.uobjects) && uv_file_destroy_objects(file, why))
			;
		while (WARN_ON(!list_empty(&file->base.uobjects))) {
			uobj = list_first_entry(&file->base.uobjects, struct ib_uobject, list);
			/* Without a handle it is not freed. */
			uv_object_unlist(uobj, true);
			uv_uncharge(&uobj->cg_obj, uobj->context->device,
				    RDMACG_RESOURCE_HCA_OBJECT);
			uobj->object = NULL;
			uobj->context = NULL;
		}
		uv_events_teardown(file, why);
		uv_context_free(file, why);
	}
	up_write(&file->base.hw_destroy_rwsem);
}

/* Frees the objects that a teardown has destroyed, and the handles. No call uses the file. */
void uv_file_free_handles(struct uv_file *file)
{
	uv_handles_free(&file->handles, uv_object_free);
}
