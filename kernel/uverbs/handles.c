// SPDX-License-Identifier: GPL-2.0
/*
 * Handles of the objects of a file: indices of slots in an array that grows.
 * To allocate, look up or release a handle takes constant time.
 *
 * A slot contains one of:
 *
 *	the pointer to the object;
 *	0, if the handle is reserved for an object under creation;
 *	if bit 0 is set, the number of the next free slot. The free slots form a
 *	list, so that the handle released last is the next to be allocated.
 *
 * Slots from ->used on were never used and are not initialized.
 *
 * The file's uobjects_lock protects the array. A file without objects has none.
 */

#include <linux/mm.h>
#include <linux/slab.h>

#include "uverbs.h"

/* To grow the array copies it under the lock: at most 2^21 slots, 16 MB. A handle fits an int. */
#define UV_MAX_HANDLES BIT(22)
#define UV_NO_HANDLE U32_MAX
#define UV_FIRST_SLOTS 16U

static unsigned long uv_slot_free(u32 next)
{
	return (unsigned long)next << 1 | 1;
}

void uv_handles_init(struct uv_handles *table)
{
	table->slots = NULL;
	table->size = 0;
	table->used = 0;
	table->free = UV_NO_HANDLE;
}

/* Calls free() for each object that still has a handle. No other user of the table is left. */
void uv_handles_free(struct uv_handles *table, void (*free)(struct ib_uobject *uobj))
{
	u32 i;

	for (i = 0; i < table->used; i++)
		if (table->slots[i] && !uv_slot_is_free(table->slots[i]))
			free((struct ib_uobject *)table->slots[i]);
	kvfree(table->slots);
	uv_handles_init(table);
}

/* Doubles the array, unless another call has changed its size from @from. */
static int uv_handles_grow(struct uv_file *file, u32 from)
{
	struct uv_handles *table = &file->handles;
	u32 size = from ? 2 * from : UV_FIRST_SLOTS;
	unsigned long *slots;

	if (from >= UV_MAX_HANDLES)
		return -ENOSPC;
	/* With a constant size the compiler selects the slab cache. */
	if (from)
		slots = kvmalloc_array(size, sizeof(*slots), GFP_KERNEL_ACCOUNT);
	else
		slots = kmalloc_array(UV_FIRST_SLOTS, sizeof(*slots), GFP_KERNEL_ACCOUNT);
	if (!slots)
		return -ENOMEM;
	spin_lock(&file->base.uobjects_lock);
	if (table->size == from) {
		if (from)
			memcpy(slots, table->slots, array_size(from, sizeof(*slots)));
		swap(slots, table->slots);
		WRITE_ONCE(table->size, size);
	}
	spin_unlock(&file->base.uobjects_lock);
	/* The old array, or the new one if it was not used. */
	kvfree(slots);
	return 0;
}

/*
 * Returns a reserved handle, or an error. A lookup does not find it before
 * uv_handle_publish(). Takes the lock.
 */
int uv_handle_reserve(struct uv_file *file)
{
	struct uv_handles *table = &file->handles;
	u32 size, handle;
	int err;

	/* The file's first object. */
	if (!READ_ONCE(table->size)) {
		err = uv_handles_grow(file, 0);
		if (err)
			return err;
	}
	spin_lock(&file->base.uobjects_lock);
	while (table->free == UV_NO_HANDLE && table->used == table->size) {
		size = table->size;
		spin_unlock(&file->base.uobjects_lock);
		err = uv_handles_grow(file, size);
		if (err)
			return err;
		spin_lock(&file->base.uobjects_lock);
	}
	if (table->free != UV_NO_HANDLE) {
		handle = table->free;
		table->free = table->slots[handle] >> 1;
	} else {
		handle = table->used++;
	}
	table->slots[handle] = 0;
	spin_unlock(&file->base.uobjects_lock);
	return handle;
}

/* Releases a handle, published or not. */
void uv_handle_release(struct uv_file *file, u32 handle)
{
	struct uv_handles *table = &file->handles;

	lockdep_assert_held(&file->base.uobjects_lock);
	table->slots[handle] = uv_slot_free(table->free);
	table->free = handle;
}
