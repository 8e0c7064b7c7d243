// SPDX-License-Identifier: GPL-2.0
/* Handles and objects without a device: creation, locking, destruction and teardown. */
#include <linux/kthread.h>

#include "../suite.h"

void t3_race_point(const char *name)
{
}

/*
 * Counts the acquires and releases of usecnt. x86 has a strong memory order, so that no result of a
 * test depends on them.
 */
static struct {
	unsigned int acquires, releases;
} orders;

static int watched_read_acquire(const atomic_t *v)
{
	orders.acquires++;
	return atomic_read_acquire(v);
}

static int watched_cmpxchg_acquire(atomic_t *v, int old, int new)
{
	orders.acquires++;
	return atomic_cmpxchg_acquire(v, old, new);
}

static void watched_set_release(atomic_t *v, int i)
{
	orders.releases++;
	atomic_set_release(v, i);
}

static int watched_fetch_dec_release(atomic_t *v)
{
	orders.releases++;
	return atomic_fetch_dec_release(v);
}

/* uv_object_unlock() is in a header. */
#define atomic_set_release watched_set_release
#define atomic_fetch_dec_release watched_fetch_dec_release
#include "handles.c"

static struct uv_file *file;
static unsigned int unlocked_changes;

/* The list of a file's objects must be changed under uobjects_lock. */
static void watched_list_del_init(struct list_head *entry)
{
#ifdef CONFIG_LOCKDEP
	if (!lockdep_is_held(&file->base.uobjects_lock))
		unlocked_changes++;
#endif
	list_del_init(entry);
}

/* Warnings: they end up in no log. */
static unsigned int warnings;

static bool watched_warning(bool condition)
{
	warnings += condition;
	return condition;
}

/*
 * There is no device, so no SRCU. Without CONFIG_KASAN: the tests run the code of kernels that are
 * in production.
 */
#pragma push_macro("CONFIG_KASAN")
#undef CONFIG_KASAN
#pragma push_macro("WARN_ON")
#undef WARN_ON
#define WARN_ON(condition) watched_warning(condition)
#define srcu_read_lock_held(ssp) true
#define list_del_init watched_list_del_init
#define atomic_read_acquire watched_read_acquire
#define atomic_cmpxchg_acquire watched_cmpxchg_acquire
#include "objects.c"
#undef list_del_init
#undef atomic_read_acquire
#undef atomic_cmpxchg_acquire
#undef atomic_set_release
#undef atomic_fetch_dec_release
#pragma pop_macro("WARN_ON")
#pragma pop_macro("CONFIG_KASAN")

/* --- stubs of the other files ---------------------------------------------------- */

static struct {
	int charged;
	int charge_error;
	int destroy_error;
	unsigned int destroyed;
	u32 last_destroyed;
	enum rdma_remove_reason why;
	unsigned int contexts_freed, disassociated, events_torn_down, mmaps_taken;
	/* The order of a teardown: user_handle of an object, E events, M mappings, C context. */
	char order[32];
} seen;

static void record(char what)
{
	size_t length = strlen(seen.order);

	if (length < sizeof(seen.order) - 1)
		seen.order[length] = what;
}

int uv_charge(struct ib_rdmacg_object *cg, struct ib_device *dev, enum rdmacg_resource_type type)
{
	if (seen.charge_error)
		return seen.charge_error;
	seen.charged++;
	return 0;
}

void uv_uncharge(struct ib_rdmacg_object *cg, struct ib_device *dev,
		 enum rdmacg_resource_type type)
{
	seen.charged--;
}

void rdma_restrack_del(struct rdma_restrack_entry *res)
{
}

void uv_events_teardown(struct uv_file *file, enum rdma_remove_reason why)
{
	record('E');
}

void uv_mmap_disassociate(struct uv_file *file)
{
	record('M');
}

static int thing_destroy(struct ib_uobject *uobj, enum rdma_remove_reason why,
			 struct uverbs_attr_bundle *attrs)
{
	seen.why = why;
	if (seen.destroy_error)
		return seen.destroy_error;
	/* Is used by others: cannot be destroyed before two of them are. */
	if (uobj->user_handle == 'p' && seen.destroyed < 2 && why != RDMA_REMOVE_DESTROY)
		return -EBUSY;
	seen.destroyed++;
	seen.last_destroyed = uobj->id;
	record(uobj->user_handle ?: '.');
	return 0;
}

static const struct uv_type thing = {
	.name = "thing",
	.id = 7,
	.size = UV_SIZE(struct uv_object),
	.destroy = thing_destroy,
};

static const struct uv_type other = {
	.name = "other",
	.id = 8,
	.size = UV_SIZE(struct uv_object),
	.destroy = thing_destroy,
};

static void fake_dealloc_ucontext(struct ib_ucontext *context)
{
	record('C');
	seen.contexts_freed++;
}

static void fake_disassociate(struct ib_ucontext *context)
{
	seen.disassociated++;
}

/* --- a file with a context --------------------------------------------------------- */

static struct ib_device *dev;
static struct ib_ucontext *context;
static struct uverbs_attr_bundle attrs;

static int objects_init(struct kunit *test)
{
	memset(&seen, 0, sizeof(seen));
	unlocked_changes = 0;
	warnings = 0;
	file = kunit_kzalloc(test, sizeof(*file), GFP_KERNEL);
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	context = kzalloc(sizeof(*context), GFP_KERNEL);	/* freed by the teardown */
	KUNIT_ASSERT_TRUE(test, file && dev && context);
	dev->ops.dealloc_ucontext = fake_dealloc_ucontext;
	dev->ops.disassociate_ucontext = fake_disassociate;
	context->device = dev;
	xa_init(&context->mmap_xa);
	seen.charged = 1;	/* the context */
	file->base.ucontext = context;
	init_rwsem(&file->base.hw_destroy_rwsem);
	spin_lock_init(&file->base.uobjects_lock);
	INIT_LIST_HEAD(&file->base.uobjects);
	uv_handles_init(&file->handles);
	return 0;
}

/* After each test: close leaves no object. */
static void objects_exit(struct kunit *test)
{
	seen.destroy_error = 0;
	uv_file_teardown(file, RDMA_REMOVE_CLOSE);
	uv_file_free_handles(file);
	KUNIT_EXPECT_EQ(test, seen.charged, 0);
	KUNIT_EXPECT_EQ(test, seen.contexts_freed, 1);
	KUNIT_EXPECT_TRUE(test, list_empty(&file->base.uobjects));
	KUNIT_EXPECT_EQ(test, unlocked_changes, 0);
	KUNIT_EXPECT_EQ(test, warnings, 0);
}

static struct ib_uobject *new_object(struct kunit *test, const struct uv_type *type, char name)
{
	struct ib_uobject *uobj = uv_object_new(file, type, context);

	KUNIT_ASSERT_FALSE(test, IS_ERR(uobj));
	uobj->user_handle = name;
	uobj->object = &seen;
	return uobj;
}

static u32 create(struct kunit *test, const struct uv_type *type, char name)
{
	struct ib_uobject *uobj = new_object(test, type, name);

	uv_object_commit(uobj);
	return uobj->id;
}

static struct ib_uobject *get(u32 handle, enum uv_access access)
{
	return uv_object_get(file, &thing, handle, access);
}

static int destroy(u32 handle)
{
	struct ib_uobject *uobj = uv_object_destroy(file, &thing, handle, &attrs);

	if (IS_ERR(uobj))
		return PTR_ERR(uobj);
	uv_object_free_destroyed(uobj);
	return 0;
}

/* --- tests ---------------------------------------------------------------------------- */

static void new_object_is_not_found(struct kunit *test)
{
	struct ib_uobject *uobj = uv_object_new(file, &thing, context);

	KUNIT_ASSERT_FALSE(test, IS_ERR(uobj));
	KUNIT_EXPECT_EQ(test, PTR_ERR(get(uobj->id, UV_READ)), -ENOENT);
	KUNIT_EXPECT_EQ(test, PTR_ERR(get(uobj->id, UV_WRITE)), -ENOENT);
	KUNIT_EXPECT_EQ(test, destroy(uobj->id), -ENOENT);
	uobj->object = &seen;
	uv_object_commit(uobj);
	KUNIT_EXPECT_PTR_EQ(test, get(uobj->id, UV_READ), uobj);
	uv_object_unlock(uobj, UV_READ);
}

static void abort_before_driver_creation(struct kunit *test)
{
	struct ib_uobject *uobj = uv_object_new(file, &thing, context);
	u32 handle;

	KUNIT_ASSERT_FALSE(test, IS_ERR(uobj));
	handle = uobj->id;
	uv_object_abort(uobj, &attrs);
	KUNIT_EXPECT_EQ(test, seen.destroyed, 0);	/* the driver had no object */
	KUNIT_EXPECT_EQ(test, seen.charged, 1);
	KUNIT_EXPECT_EQ(test, PTR_ERR(get(handle, UV_READ)), -ENOENT);
	KUNIT_EXPECT_EQ(test, create(test, &thing, 0), handle);
}

static void abort_after_driver_creation(struct kunit *test)
{
	uv_object_abort(new_object(test, &thing, 0), &attrs);
	KUNIT_EXPECT_EQ(test, seen.destroyed, 1);
	KUNIT_EXPECT_EQ(test, (int)seen.why, RDMA_REMOVE_ABORT);
	KUNIT_EXPECT_EQ(test, seen.charged, 1);
}

/* Each has its own allocation, so that KASAN finds accesses beyond it. */
static void each_object_is_its_own_allocation(struct kunit *test)
{
	struct ib_uobject *first = new_object(test, &thing, 0), *second = new_object(test, &other,
										     0);
	const void *begin = file, *end = file + 1;

	KUNIT_EXPECT_TRUE(test, (void *)first < begin || (void *)first >= end);
	KUNIT_EXPECT_TRUE(test, (void *)second < begin || (void *)second >= end);
	uv_object_commit(first);
	uv_object_commit(second);
}

/* uv_object_unlock() holds no lock, so the next uv_object_get() must acquire. */
static void get_acquires_and_put_releases(struct kunit *test)
{
	static const enum uv_access accesses[] = { UV_READ, UV_WRITE };
	u32 handle = create(test, &thing, 0);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(accesses); i++) {
		struct ib_uobject *uobj;

		memset(&orders, 0, sizeof(orders));
		uobj = get(handle, accesses[i]);
		KUNIT_ASSERT_FALSE(test, IS_ERR(uobj));
		KUNIT_EXPECT_EQ(test, orders.acquires, 1);
		KUNIT_EXPECT_EQ(test, orders.releases, 0);
		uv_object_unlock(uobj, accesses[i]);
		KUNIT_EXPECT_EQ(test, orders.releases, 1);
	}
}

static void cgroup_limit_fails_creation(struct kunit *test)
{
	seen.charge_error = -EAGAIN;
	KUNIT_EXPECT_EQ(test, PTR_ERR(uv_object_new(file, &thing, context)), -EAGAIN);
	/* The handle was released. */
	seen.charge_error = 0;
	KUNIT_EXPECT_EQ(test, create(test, &thing, 0), 0);
}

/* The handle released last is allocated first. A lookup of a free handle fails. */
static void handles_are_reused(struct kunit *test)
{
	u32 first = create(test, &thing, 0), second = create(test, &thing, 0);
	u32 third = create(test, &thing, 0);

	KUNIT_EXPECT_EQ(test, destroy(first), 0);
	KUNIT_EXPECT_EQ(test, destroy(third), 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR(get(first, UV_READ)), -ENOENT);
	KUNIT_EXPECT_EQ(test, PTR_ERR(get(third, UV_READ)), -ENOENT);
	KUNIT_EXPECT_EQ(test, create(test, &thing, 0), third);
	KUNIT_EXPECT_EQ(test, create(test, &thing, 0), first);
	KUNIT_EXPECT_EQ(test, create(test, &thing, 0), third + 1);
	KUNIT_EXPECT_EQ(test, destroy(second), 0);
}

#define MANY 1000

/* The array of handles grows: each object keeps its handle. */
static void many_handles(struct kunit *test)
{
	struct ib_uobject **objects = kunit_kcalloc(test, MANY, sizeof(*objects), GFP_KERNEL);
	unsigned int i, wrong = 0;

	KUNIT_ASSERT_NOT_NULL(test, objects);
	for (i = 0; i < MANY; i++) {
		objects[i] = new_object(test, &thing, 0);
		uv_object_commit(objects[i]);
	}
	for (i = 0; i < MANY; i++) {
		wrong += objects[i]->id != i || get(i, UV_READ) != objects[i];
		uv_object_unlock(objects[i], UV_READ);
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR(get(MANY, UV_READ)), -ENOENT);
	KUNIT_EXPECT_EQ(test, PTR_ERR(get(U32_MAX, UV_READ)), -ENOENT);
	for (i = 0; i < MANY; i += 2)
		wrong += destroy(i) != 0;
	for (i = 0; i < MANY; i++)
		wrong += destroy(i) != (i % 2 ? 0 : -ENOENT);
	KUNIT_EXPECT_EQ(test, wrong, 0);
}

/* A file with the greatest number of handles: creation fails and changes nothing. */
static void handle_limit_is_enospc(struct kunit *test)
{
	u32 handle = create(test, &thing, 0), size = file->handles.size;

	file->handles.size = UV_MAX_HANDLES;
	file->handles.used = UV_MAX_HANDLES;
	KUNIT_EXPECT_EQ(test, PTR_ERR(uv_object_new(file, &thing, context)), -ENOSPC);
	file->handles.size = size;
	file->handles.used = 1;
	KUNIT_EXPECT_EQ(test, seen.charged, 2);
	KUNIT_EXPECT_EQ(test, destroy(handle), 0);
}

static void handle_of_wrong_type_or_unknown(struct kunit *test)
{
	u32 handle = create(test, &other, 0);

	KUNIT_EXPECT_EQ(test, PTR_ERR(get(handle, UV_READ)), -EINVAL);
	KUNIT_EXPECT_EQ(test, destroy(handle), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(get(handle + 1, UV_READ)), -ENOENT);
	/* By ioctl a handle has 64 bits. */
	KUNIT_EXPECT_EQ(test, PTR_ERR(uv_object_get(file, &other, handle | BIT_ULL(32), UV_READ)),
			-ENOENT);
	KUNIT_EXPECT_EQ(test, PTR_ERR(uv_object_get(file, &other, -1LL, UV_READ)), -EINVAL);
}

struct access_pair {
	const char *name;
	enum uv_access first, second;
	int result;
};

static const struct access_pair access_pairs[] = {
	{ "reader beside reader", UV_READ, UV_READ, 0 },
	{ "writer beside reader", UV_READ, UV_WRITE, -EBUSY },
	{ "destroyer beside reader", UV_READ, UV_DESTROY, -EBUSY },
	{ "reader beside writer", UV_WRITE, UV_READ, -EBUSY },
	{ "writer beside writer", UV_WRITE, UV_WRITE, -EBUSY },
	{ "destroyer beside writer", UV_WRITE, UV_DESTROY, -EBUSY },
};

NAMED_PARAM(access_pair, access_pairs);

static void second_lock_of_an_object(struct kunit *test)
{
	const struct access_pair *pair = test->param_value;
	u32 handle = create(test, &thing, 0);
	struct ib_uobject *first = get(handle, pair->first), *second;
	int err = 0;

	KUNIT_ASSERT_FALSE(test, IS_ERR(first));
	if (pair->second == UV_DESTROY) {
		err = destroy(handle);
	} else {
		second = get(handle, pair->second);
		if (IS_ERR(second))
			err = PTR_ERR(second);
		else
			uv_object_unlock(second, pair->second);
	}
	KUNIT_EXPECT_EQ(test, err, pair->result);
	KUNIT_EXPECT_EQ(test, seen.destroyed, 0);
	uv_object_unlock(first, pair->first);
	/* The failure has not changed usecnt. */
	KUNIT_EXPECT_EQ(test, destroy(handle), 0);
	KUNIT_EXPECT_EQ(test, destroy(handle), -ENOENT);
	KUNIT_EXPECT_EQ(test, seen.destroyed, 1);
}

static void failed_destroy_changes_nothing(struct kunit *test)
{
	u32 handle = create(test, &thing, 0);
	struct ib_uobject *uobj;

	seen.destroy_error = -EBUSY;
	KUNIT_EXPECT_EQ(test, destroy(handle), -EBUSY);
	seen.destroy_error = 0;
	uobj = get(handle, UV_WRITE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(uobj));
	uv_object_unlock(uobj, UV_WRITE);
	KUNIT_EXPECT_EQ(test, destroy(handle), 0);
	KUNIT_EXPECT_EQ(test, (int)seen.why, RDMA_REMOVE_DESTROY);
}

static void handles_are_listed_by_type(struct kunit *test)
{
	u32 first = create(test, &thing, 0), second = create(test, &other, 0);
	u32 third = create(test, &thing, 0);
	u32 list[4] = {};

	KUNIT_EXPECT_EQ(test, uv_objects_list(file, thing.id, list, 4), 2);
	KUNIT_EXPECT_EQ(test, list[0] + list[1], first + third);
	KUNIT_EXPECT_EQ(test, uv_objects_list(file, thing.id, list, 1), 1);
	KUNIT_EXPECT_EQ(test, uv_objects_list(file, other.id, list, 4), 1);
	KUNIT_EXPECT_EQ(test, list[0], second);
	KUNIT_EXPECT_EQ(test, uv_objects_list(file, 99, list, 4), 0);
}

/* The newest first; 'p' is used by two others. */
static void close_order(struct kunit *test)
{
	create(test, &thing, 'a');
	create(test, &thing, 'b');
	create(test, &thing, 'p');
	create(test, &thing, 'd');
	uv_file_teardown(file, RDMA_REMOVE_CLOSE);
	KUNIT_EXPECT_STREQ(test, seen.order, "dbapEC");
	KUNIT_EXPECT_EQ(test, (int)seen.why, RDMA_REMOVE_CLOSE);
	KUNIT_EXPECT_EQ(test, seen.disassociated, 0);
}

/* Mappings are removed before the context. Handles stay. */
static void removal_order(struct kunit *test)
{
	u32 handle = create(test, &thing, 'a');

	uv_file_teardown(file, RDMA_REMOVE_DRIVER_REMOVE);
	KUNIT_EXPECT_STREQ(test, seen.order, "aEMC");
	KUNIT_EXPECT_EQ(test, seen.disassociated, 1);
	KUNIT_EXPECT_EQ(test, seen.charged, 0);
	/* A later destroy succeeds once and does not call the driver. */
	KUNIT_EXPECT_EQ(test, destroy(handle), 0);
	KUNIT_EXPECT_EQ(test, destroy(handle), -ENOENT);
	KUNIT_EXPECT_EQ(test, seen.destroyed, 1);
}

static void close_after_removal_does_nothing(struct kunit *test)
{
	create(test, &thing, 'a');
	uv_file_teardown(file, RDMA_REMOVE_DRIVER_REMOVE);
	uv_file_teardown(file, RDMA_REMOVE_CLOSE);
	KUNIT_EXPECT_STREQ(test, seen.order, "aEMC");
}

/* The driver may still point to the memory of an object that it refuses to destroy. */
static void leaked_object_is_not_freed(struct kunit *test)
{
	struct ib_uobject *uobj = new_object(test, &thing, 'a');

	uv_object_commit(uobj);
	seen.destroy_error = -EBUSY;
	uv_file_teardown(file, RDMA_REMOVE_CLOSE);
	KUNIT_EXPECT_EQ(test, warnings, 1);
	warnings = 0;
	/* uv_file_free_handles() frees each object that has a handle. */
	KUNIT_EXPECT_EQ(test, PTR_ERR(get(uobj->id, UV_READ)), -ENOENT);
	uv_file_free_handles(file);
	KUNIT_EXPECT_EQ(test, seen.charged, 0);
	kfree(uv_object_of(uobj));
}

/* --- concurrent calls --------------------------------------------------------------------- */

static atomic_t destroyed_by;

static int get_and_destroy(void *data)
{
	u32 handle = *(u32 *)data;
	struct ib_uobject *uobj;
	int round;

	for (round = 0; round < 200; round++) {
		uobj = get(handle, round % 2 ? UV_READ : UV_WRITE);
		if (!IS_ERR(uobj)) {
			cond_resched();
			uv_object_unlock(uobj, round % 2 ? UV_READ : UV_WRITE);
		}
		if (round > 100 && !destroy(handle))
			atomic_inc(&destroyed_by);
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void one_of_concurrent_destroys_succeeds(struct kunit *test)
{
	u32 handle = create(test, &thing, 0);
	struct task_struct *threads[4];
	unsigned int i;

	atomic_set(&destroyed_by, 0);
	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		threads[i] = kthread_run(get_and_destroy, &handle, "rush");
		KUNIT_ASSERT_FALSE(test, IS_ERR(threads[i]));
	}
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		kthread_stop(threads[i]);
	KUNIT_EXPECT_EQ(test, atomic_read(&destroyed_by), 1);
	KUNIT_EXPECT_EQ(test, seen.destroyed, 1);
}

static struct kunit_case objects_cases[] = {
	KUNIT_CASE(new_object_is_not_found),
	KUNIT_CASE(abort_before_driver_creation),
	KUNIT_CASE(abort_after_driver_creation),
	KUNIT_CASE(each_object_is_its_own_allocation),
	KUNIT_CASE(get_acquires_and_put_releases),
	KUNIT_CASE(cgroup_limit_fails_creation),
	KUNIT_CASE(handles_are_reused),
	KUNIT_CASE(many_handles),
	KUNIT_CASE(handle_limit_is_enospc),
	KUNIT_CASE(handle_of_wrong_type_or_unknown),
	KUNIT_CASE_PARAM(second_lock_of_an_object, access_pair_gen_params),
	KUNIT_CASE(failed_destroy_changes_nothing),
	KUNIT_CASE(handles_are_listed_by_type),
	KUNIT_CASE(close_order),
	KUNIT_CASE(removal_order),
	KUNIT_CASE(close_after_removal_does_nothing),
	KUNIT_CASE(leaked_object_is_not_freed),
	KUNIT_CASE(one_of_concurrent_destroys_succeeds),
	{}
};

TEST_SUITE("t3_uverbs_objects", objects_cases, .init = objects_init, .exit = objects_exit);
