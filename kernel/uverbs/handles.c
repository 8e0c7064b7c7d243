// SPDX-License-Identifier: GPL-2.0
/*
 * Numbers of a file's objects: places in an array that grows. To take a
 * number, to find its object and to give it back is one step each.
 *
 * A place holds the object; or 0, while the object is being made; or, marked
 * by its lowest bit, the number of the next free place: the last number that
 * was given back is the next one to be given away. Places from ->fresh on have
 * never been used and hold nothing.
 *
 * Everything here is under the file's uobjects_lock. A file without objects
 * has no array.
 */

#include <linux/mm.h>
#include <linux/slab.h>

#include <t3_race_point.h>

#include "uverbs.h"

/* The array is copied with the lock held, which bounds it; no device here has as many objects. */
#define MOST BIT(22)
#define NONE U32_MAX
#define FIRST_SIZE 16U

static unsigned long free_place(u32 next)
{
	return (unsigned long)next << 1 | 1;
}

void uv_handles_init(struct uv_handles *table)
{
	table->at = NULL;
	table->size = 0;
	table->fresh = 0;
	table->free = NONE;
}

/* Calls for each object that still has a number. Nobody else is here any more. */
void uv_handles_end(struct uv_handles *table, void (*each)(struct ib_uobject *uobj))
{
	u32 i;

	for (i = 0; i < table->fresh; i++)
		if (table->at[i] && !uv_handle_is_free(table->at[i]))
			each((struct ib_uobject *)table->at[i]);
	kvfree(table->at);
	uv_handles_init(table);
}

/* To twice the size, unless another call has been here meanwhile. */
static int grow(struct uv_file *file, u32 from)
{
	struct uv_handles *table = &file->handles;
	u32 size = from ? 2 * from : FIRST_SIZE;
	unsigned long *old;

	if (from >= MOST)
		return -ENOSPC;
	/* Takes the place of whatever is given up below. A constant size spares a search. */
	if (from)
		old = kvmalloc_array(size, sizeof(*old), GFP_KERNEL_ACCOUNT);
	else
		old = kmalloc_array(FIRST_SIZE, sizeof(*old), GFP_KERNEL_ACCOUNT);
	if (!old)
		return -ENOMEM;
	T3_RACE_POINT(uverbs_handles_grow);
	spin_lock(&file->base.uobjects_lock);
	if (table->size == from) {
		if (from)
			memcpy(old, table->at, array_size(from, sizeof(*old)));
		swap(old, table->at);
		WRITE_ONCE(table->size, size);
	}
	spin_unlock(&file->base.uobjects_lock);
	kvfree(old);
	return 0;
}

/* Takes a number, under which nothing is found yet. Takes the lock by itself. */
int uv_handle_reserve(struct uv_file *file, u32 *handle)
{
	struct uv_handles *table = &file->handles;
	u32 size;
	int err;

	/* The file's first object. */
	if (!READ_ONCE(table->size)) {
		err = grow(file, 0);
		if (err)
			return err;
	}
	spin_lock(&file->base.uobjects_lock);
	while (table->free == NONE && table->fresh == table->size) {
		size = table->size;
		spin_unlock(&file->base.uobjects_lock);
		err = grow(file, size);
		if (err)
			return err;
		spin_lock(&file->base.uobjects_lock);
	}
	if (table->free != NONE) {
		*handle = table->free;
		table->free = table->at[*handle] >> 1;
	} else {
		*handle = table->fresh++;
	}
	table->at[*handle] = 0;
	spin_unlock(&file->base.uobjects_lock);
	return 0;
}

/* From now on the object is found by its number. */
void uv_handle_show(struct uv_handles *table, struct ib_uobject *uobj)
{
	lockdep_assert_held(uv_handles_lock(table));
	table->at[uobj->id] = (unsigned long)uobj;
}

/* Gives a number back, whether or not its object could be found. */
void uv_handle_drop(struct uv_handles *table, u32 handle)
{
	lockdep_assert_held(uv_handles_lock(table));
	table->at[handle] = free_place(table->free);
	table->free = handle;
}
