// SPDX-License-Identifier: GPL-2.0
/* Removal of a device that has open files: later calls, and what removal waits for. */
#include <linux/bug.h>
#include <linux/cred.h>

/* Warnings: they end up in no log. */
static unsigned int warnings;

static inline bool watched_warning(bool condition)
{
	warnings += condition;
	return condition;
}

#pragma push_macro("WARN_ON")
#undef WARN_ON
#define WARN_ON(condition) watched_warning(condition)
#include "kinds.h"
#pragma pop_macro("WARN_ON")

static int async_fd;

static int removal_init(struct kunit *test)
{
	user_begin(test, true);
	KUNIT_ASSERT_EQ(test, user_get_context(opened, &async_fd), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &pd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, -1, &cq), 0);
	return 0;
}

static void removal_exit(struct kunit *test)
{
	if (async_fd >= 0)
		close_fd(async_fd);
	user_end(test);
}

static void removal_destroys_objects(struct kunit *test)
{
	u32 handle;

	KUNIT_ASSERT_EQ(test, user_create_qp(opened, pd, cq, -1, &handle), 0);
	KUNIT_ASSERT_EQ(test, user_reg_mr(opened, pd, &handle), 0);
	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, fake_live(fake), 0);
	KUNIT_EXPECT_STREQ(test, fake->order, "rqcpx");
}

static void calls_after_removal_are_eio(struct kunit *test)
{
	struct user_ioctl io;
	u32 handle;

	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(opened, &handle), -EIO);
	KUNIT_EXPECT_EQ(test, user_get_context(opened, NULL), -EIO);
	KUNIT_EXPECT_EQ(test, user_create_cq(opened, -1, &handle), -EIO);
	user_ioctl_begin(&io, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), -EIO);
	KUNIT_EXPECT_EQ(test, PTR_ERR(user_open()), -EIO);
}

/* Its counters are freed later, with the last open file. */
static void removal_ends_the_device_in_debugfs(struct kunit *test)
{
	char name[16];

	strscpy(name, dev_name(&uverbs->base.dev), sizeof(name));
	KUNIT_EXPECT_TRUE(test, in_debugfs(name, uv_debugfs_root));
	fake_device_remove(fake);
	KUNIT_EXPECT_FALSE(test, in_debugfs(name, uv_debugfs_root));
}

/* Programs destroy their objects after the removal: this must not fail. */
static void destroy_after_removal_reports_events(struct kunit *test)
{
	struct ib_uverbs_async_event_desc event;
	struct ib_event cause = { .device = &fake->ib, .event = IB_EVENT_QP_FATAL };
	u32 qp, reported = 0;

	KUNIT_ASSERT_EQ(test, user_create_qp(opened, pd, cq, -1, &qp), 0);
	cause.element.qp = fake->qp;
	fake->qp->event_handler(&cause, fake->qp->qp_context);
	KUNIT_ASSERT_EQ(test, user_read_event(async_fd, &event, sizeof(event)), sizeof(event));
	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, user_destroy_qp(opened, qp, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1);
	KUNIT_EXPECT_EQ(test, user_destroy_qp(opened, qp, NULL), -ENOENT);
	KUNIT_EXPECT_EQ(test, user_ioctl_destroy(opened, UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY,
						 pd, 0), 0);
	KUNIT_EXPECT_EQ(test, user_destroy_cq(opened, cq, NULL), 0);
}

static void last_event_is_device_fatal(struct kunit *test)
{
	struct ib_uverbs_async_event_desc event = {};

	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, (int)user_poll(async_fd), (int)(EPOLLIN | EPOLLRDNORM));
	KUNIT_EXPECT_EQ(test, user_read_event(async_fd, &event, sizeof(event)), sizeof(event));
	KUNIT_EXPECT_EQ(test, (int)event.event_type, IB_EVENT_DEVICE_FATAL);
	KUNIT_EXPECT_EQ(test, user_read_event(async_fd, &event, sizeof(event)), -EIO);
}

/* Programs stop reading at DEVICE_FATAL, so it follows all other events. */
static void device_fatal_follows_unread_events(struct kunit *test)
{
	static const enum ib_event_type happened[] = {
		IB_EVENT_PORT_ERR, IB_EVENT_PORT_ACTIVE, IB_EVENT_DEVICE_FATAL,
	};
	struct ib_event cause = { .device = &fake->ib, .element.port_num = 1 };
	struct ib_uverbs_async_event_desc event = {};
	unsigned int i;

	for (i = 0; i < 2; i++) {
		cause.event = happened[i];
		ib_dispatch_event(&cause);
		flush_workqueue(ib_wq);
	}
	fake_device_remove(fake);
	for (i = 0; i < ARRAY_SIZE(happened); i++) {
		KUNIT_EXPECT_EQ(test, (int)user_poll(async_fd), (int)(EPOLLIN | EPOLLRDNORM));
		KUNIT_EXPECT_EQ(test, user_read_event(async_fd, &event, sizeof(event)),
				sizeof(event));
		KUNIT_EXPECT_EQ(test, (int)event.event_type, (int)happened[i]);
	}
	KUNIT_EXPECT_EQ(test, event.element, 0);
	KUNIT_EXPECT_EQ(test, user_read_event(async_fd, &event, sizeof(event)), -EIO);
	KUNIT_EXPECT_EQ(test, (int)user_poll(async_fd), (int)EPOLLERR);
}

/* One by one: a process can have any number of channels, and others wait for lists_mutex. */
static void removal_unlists_event_files(struct kunit *test)
{
	struct uv_file *file = opened->private_data;
	int first, second;

	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &first), 0);
	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &second), 0);
	close_fd(first);
	KUNIT_EXPECT_FALSE(test, list_empty(&file->events));
	fake_device_remove(fake);
	KUNIT_EXPECT_TRUE(test, list_empty(&file->events));
	KUNIT_EXPECT_EQ(test, (int)user_poll(second), (int)EPOLLERR);
	close_fd(second);
	KUNIT_EXPECT_TRUE(test, list_empty(&file->events));
}

/* D9: DEVICE_FATAL needs no allocation, so it is never lost. */
static void device_fatal_needs_no_allocation(struct kunit *test)
{
#ifdef CONFIG_FAULT_INJECTION
	struct uv_file *file = opened->private_data;
	struct ib_uverbs_async_event_desc event = {};

	down_write(&file->base.hw_destroy_rwsem);
	current->fail_nth = 1;
	uv_events_teardown(file, RDMA_REMOVE_DRIVER_REMOVE);
	current->fail_nth = 0;
	up_write(&file->base.hw_destroy_rwsem);
	KUNIT_EXPECT_EQ(test, user_read_event(async_fd, &event, sizeof(event)), sizeof(event));
	KUNIT_EXPECT_EQ(test, (int)event.event_type, IB_EVENT_DEVICE_FATAL);
	KUNIT_EXPECT_EQ(test, user_read_event(async_fd, &event, sizeof(event)), -EIO);
#else
	kunit_mark_skipped(test, "the kernel cannot make allocations fail");
#endif
}

static void removal_with_file_without_context(struct kunit *test)
{
	struct file *second = user_open();
	u32 handle;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(second, &handle), -EIO);
	user_close(second);
}

static void second_device_is_independent(struct kunit *test)
{
	struct fake_device *other = fake_device_new(true);
	u32 handle;

	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	fake_device_remove(fake);
	uverbs = ib_get_client_data(&other->ib, &uv_client);
	user_close(opened);
	opened = user_open();
	KUNIT_ASSERT_FALSE(test, IS_ERR(opened));
	KUNIT_EXPECT_EQ(test, user_get_context(opened, NULL), 0);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(opened, &handle), 0);
	KUNIT_EXPECT_EQ(test, other->live[FAKE_PD], 1);
	user_close(opened);
	opened = NULL;
	fake_device_free(other);
}

/* --- destroy and removal at the same time: D7 ------------------------------------------------- */

/* A destroy in a thread of its own. */
struct destroyer {
	struct task_struct *thread;
	struct file *filp;
	const struct object_kind *of;
	bool by_ioctl;
	u32 handle;
	int err;
	bool begun;
	struct completion done;
};

static int destroyer(void *data)
{
	struct destroyer *late = data;
	const struct object_kind *of = late->of;
	const struct cred *old = override_creds(late->filp->f_cred);

	kthread_use_mm(user_mm);
	WRITE_ONCE(late->begun, true);
	late->err = late->by_ioctl ?
		user_ioctl_destroy(late->filp, of->object, of->method, late->handle, of->response) :
		of->destroy(late->filp, late->handle);
	kthread_unuse_mm(user_mm);
	revert_creds(old);
	complete(&late->done);
	return 0;
}

/* Waits until the thread sleeps in the driver or for a lock, or has finished. */
static void wait_until_asleep(struct task_struct *thread, struct completion *done)
{
	while (READ_ONCE(thread->__state) != TASK_UNINTERRUPTIBLE && !completion_done(done))
		schedule_timeout_interruptible(1);
}

static void destroyer_begin(struct kunit *test, struct destroyer *late)
{
	init_completion(&late->done);
	late->thread = kthread_create(destroyer, late, "late");
	KUNIT_ASSERT_FALSE(test, IS_ERR(late->thread));
	get_task_struct(late->thread);
	wake_up_process(late->thread);
	while (!READ_ONCE(late->begun))
		schedule_timeout_interruptible(1);
	wait_until_asleep(late->thread, &late->done);
}

static void destroyer_end(struct destroyer *late)
{
	wait_for_completion(&late->done);
	kthread_stop(late->thread);
	put_task_struct(late->thread);
}

struct removal {
	struct task_struct *thread;
	struct completion done;
};

static int removal_thread(void *data)
{
	struct removal *removal = data;

	fake_device_remove(fake);
	complete(&removal->done);
	return 0;
}

/* Starts a removal and waits until it is in the driver to destroy the newest object of a file. */
static void removal_begin(struct kunit *test, struct removal *removal)
{
	fake_hold_init(&fake->hold_removal);
	fake_hold_init(&fake->hold_others);
	init_completion(&removal->done);
	removal->thread = kthread_create(removal_thread, removal, "remove");
	KUNIT_ASSERT_FALSE(test, IS_ERR(removal->thread));
	get_task_struct(removal->thread);
	wake_up_process(removal->thread);
	wait_for_completion(&fake->hold_removal.reached);
}

static void removal_end(struct removal *removal)
{
	wait_for_completion(&removal->done);
	kthread_stop(removal->thread);
	put_task_struct(removal->thread);
}

static void expect_each_destroyed_once(struct kunit *test)
{
	int kind;

	for (kind = 0; kind < FAKE_KINDS; kind++)
		KUNIT_EXPECT_EQ_MSG(test, fake->live[kind], 0, "of kind %c", fake_letters[kind]);
}

/* The removal is at another object and comes to this one next: the driver destroys it once. */
static void destroy_before_removal_reaches_object(struct kunit *test, bool by_ioctl)
{
	struct destroyer late = {
		.filp = opened, .of = test->param_value, .by_ioctl = by_ioctl,
	};
	struct removal removal;
	u32 newest;

	KUNIT_ASSERT_EQ(test, late.of->create(opened, &late.handle), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &newest), 0);
	removal_begin(test, &removal);
	destroyer_begin(test, &late);
	KUNIT_EXPECT_FALSE(test, completion_done(&fake->hold_others.reached));
	KUNIT_EXPECT_FALSE(test, completion_done(&late.done));
	complete(&fake->hold_removal.release);
	removal_end(&removal);
	complete(&fake->hold_others.release);
	destroyer_end(&late);
	KUNIT_EXPECT_EQ(test, late.err, 0);
	expect_each_destroyed_once(test);
}

static void destroy_by_write_waits_for_removal(struct kunit *test)
{
	destroy_before_removal_reaches_object(test, false);
}

static void destroy_by_ioctl_waits_for_removal(struct kunit *test)
{
	destroy_before_removal_reaches_object(test, true);
}

/* The removal is destroying this object: the destroy waits and succeeds. */
static void destroy_while_removal_destroys_object(struct kunit *test, bool by_ioctl)
{
	struct destroyer late = {
		.filp = opened, .of = test->param_value, .by_ioctl = by_ioctl,
	};
	struct removal removal;

	KUNIT_ASSERT_EQ(test, late.of->create(opened, &late.handle), 0);
	removal_begin(test, &removal);
	destroyer_begin(test, &late);
	complete(&fake->hold_removal.release);
	complete(&fake->hold_others.release);
	removal_end(&removal);
	destroyer_end(&late);
	KUNIT_EXPECT_EQ(test, late.err, 0);
	expect_each_destroyed_once(test);
}

static void destroy_by_write_during_removal_succeeds(struct kunit *test)
{
	destroy_while_removal_destroys_object(test, false);
}

static void destroy_by_ioctl_during_removal_succeeds(struct kunit *test)
{
	destroy_while_removal_destroys_object(test, true);
}

/* The removal is at another file: the destroy calls the driver, and removal waits for it. */
static void removal_waits_for_running_destroy(struct kunit *test)
{
	struct destroyer late = { .of = test->param_value, .by_ioctl = true };
	u32 first_pd = pd, first_cq = cq;
	struct removal removal;

	late.filp = user_open();
	KUNIT_ASSERT_FALSE(test, IS_ERR(late.filp));
	KUNIT_ASSERT_EQ(test, user_get_context(late.filp, NULL), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(late.filp, &pd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(late.filp, -1, &cq), 0);
	KUNIT_ASSERT_EQ(test, late.of->create(late.filp, &late.handle), 0);
	removal_begin(test, &removal);
	destroyer_begin(test, &late);
	KUNIT_EXPECT_TRUE(test, completion_done(&fake->hold_others.reached));
	complete(&fake->hold_removal.release);
	wait_until_asleep(removal.thread, &removal.done);
	KUNIT_EXPECT_FALSE(test, completion_done(&removal.done));
	complete(&fake->hold_others.release);
	destroyer_end(&late);
	removal_end(&removal);
	KUNIT_EXPECT_EQ(test, late.err, 0);
	expect_each_destroyed_once(test);
	user_close(late.filp);
	pd = first_pd;
	cq = first_cq;
}

/* --- mappings ----------------------------------------------------------------------------- */

static unsigned int list_count(const struct list_head *list)
{
	const struct list_head *at;
	unsigned int count = 0;

	list_for_each(at, list)
		count++;
	return count;
}

static unsigned long map(struct file *filp)
{
	return vm_mmap(filp, 0, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
}

static unsigned long map_entry(struct file *filp, unsigned long prot)
{
	return vm_mmap(filp, 0, PAGE_SIZE, prot, MAP_SHARED,
		       rdma_user_mmap_get_offset(&fake->entry));
}

/* Such a kernel does not distinguish a page of zeros from the device's. */
static bool skipped_without_special_ptes(struct kunit *test)
{
	if (IS_ENABLED(CONFIG_ARCH_HAS_PTE_SPECIAL))
		return false;
	/* Not kunit_skip(), which ends the thread that uses the mm. */
	kunit_mark_skipped(test, "the kernel has no special ptes");
	return true;
}

static void removal_replaces_mapping_with_zeros(struct kunit *test)
{
	struct file *second;
	unsigned long at;
	u32 word = 0;

	if (skipped_without_special_ptes(test))
		return;
	at = map(opened);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	KUNIT_EXPECT_EQ(test, put_user(0x12345678, (u32 __user *)at), 0);
	KUNIT_EXPECT_EQ(test, *(u32 *)page_address(fake->page), 0x12345678);
	/* The mapping holds the file, but does not delay the removal. */
	second = opened;
	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, fake_live(fake), 0);
	KUNIT_EXPECT_EQ(test, get_user(word, (u32 __user *)at), 0);
	KUNIT_EXPECT_EQ(test, word, 0);
	KUNIT_EXPECT_EQ(test, put_user(7, (u32 __user *)at), 0);
	KUNIT_EXPECT_EQ(test, *(u32 *)page_address(fake->page), 0x12345678);
	KUNIT_EXPECT_EQ(test, map(second), -EIO);
	vm_munmap(at, PAGE_SIZE);
}

/* Also on architectures that cannot replace its pages. */
static void removal_unmaps_mapping(struct kunit *test)
{
	struct uv_file *file = opened->private_data;
	unsigned long at = map(opened);

	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	KUNIT_EXPECT_TRUE(test, list_is_singular(&file->base.umaps));
	fake_device_remove(fake);
	KUNIT_EXPECT_TRUE(test, list_empty(&file->base.umaps));
	vm_munmap(at, PAGE_SIZE);
}

static void mmap_needs_a_context(struct kunit *test)
{
	struct file *second = user_open();

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_EXPECT_EQ(test, map(second), -EINVAL);
	user_close(second);
}

static void both_parts_of_split_mapping_are_tracked(struct kunit *test)
{
	unsigned long at = vm_mmap(opened, 0, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	struct uv_file *file = opened->private_data;

	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	KUNIT_EXPECT_TRUE(test, list_is_singular(&file->base.umaps));
	KUNIT_EXPECT_EQ(test, vm_munmap(at, PAGE_SIZE), 0);
	KUNIT_EXPECT_TRUE(test, list_is_singular(&file->base.umaps));
	KUNIT_EXPECT_EQ(test, vm_munmap(at + PAGE_SIZE, PAGE_SIZE), 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&file->base.umaps));
}

/* A process at the limit of its memory cgroup cannot create a copy that removal does not find. */
static void split_mapping_is_tracked_without_memory(struct kunit *test)
{
	unsigned long at = vm_mmap(opened, 0, 3 * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	struct uv_file *file = opened->private_data;

	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	failing.nth = 1;
	allocations_fail();
	KUNIT_EXPECT_EQ(test, vm_munmap(at + PAGE_SIZE, PAGE_SIZE), 0);
	allocations_work();
	KUNIT_EXPECT_EQ(test, list_count(&file->base.umaps), 2);
	fake_device_remove(fake);
	KUNIT_EXPECT_TRUE(test, list_empty(&file->base.umaps));
	vm_munmap(at, 3 * PAGE_SIZE);
}

/*
 * mremap() and fork() call ->open before the copy has pages. The copy here stays without them: it
 * has no page tables, so nothing else of the kernel knows it.
 */
static struct vm_area_struct *copy_mapping(struct kunit *test, unsigned long at)
{
	struct vm_area_struct *copy = kunit_kzalloc(test, sizeof(*copy), GFP_KERNEL);
	struct vm_area_struct *vma;

	if (!copy)
		return NULL;
	mmap_write_lock(user_mm);
	vma = find_vma(user_mm, at);
	memcpy(copy, vma, sizeof(*copy));
	copy->vm_start = (unsigned long)USER_HOLE;
	copy->vm_end = copy->vm_start + PAGE_SIZE;
	copy->vm_ops->open(copy);
	mmap_write_unlock(user_mm);
	return copy;
}

static void close_copy(struct vm_area_struct *copy)
{
	mmap_write_lock(user_mm);
	copy->vm_ops->close(copy);
	mmap_write_unlock(user_mm);
}

/* Removal has begun, but has not come to the mappings of this file. */
static void copy_during_removal_is_tracked(struct kunit *test)
{
	struct uv_file *file = opened->private_data;
	struct vm_area_struct *copy;
	unsigned long at;

	KUNIT_ASSERT_EQ(test, fake_insert_entry(fake), 0);
	at = map_entry(opened, PROT_READ | PROT_WRITE);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	rdma_user_mmap_entry_remove(&fake->entry);
	RCU_INIT_POINTER(uverbs->base.ib_dev, NULL);
	copy = copy_mapping(test, at);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	KUNIT_EXPECT_EQ(test, list_count(&file->base.umaps), 2);
	/* The pages stay until the copy is unmapped, too. */
	vm_munmap(at, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, fake->entries_freed, 0);
	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, fake->entries_freed, 1);
	KUNIT_EXPECT_TRUE(test, list_empty(&file->base.umaps));
	close_copy(copy);
	KUNIT_EXPECT_EQ(test, fake->entries_freed, 1);
}

/* It has no I/O pages. An access to it faults and shows zeros, as to its source. */
static void copy_after_removal_is_untracked(struct kunit *test)
{
	struct uv_file *file = opened->private_data;
	unsigned long at = map(opened);
	struct vm_area_struct *copy;

	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	fake_device_remove(fake);
	copy = copy_mapping(test, at);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	KUNIT_EXPECT_TRUE(test, list_empty(&file->base.umaps));
	KUNIT_EXPECT_NOT_NULL(test, copy->vm_private_data);
	close_copy(copy);
	vm_munmap(at, PAGE_SIZE);
}

static void mapping_holds_its_entry(struct kunit *test)
{
	unsigned long at;

	KUNIT_ASSERT_EQ(test, fake_insert_entry(fake), 0);
	at = map_entry(opened, PROT_READ | PROT_WRITE);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	rdma_user_mmap_entry_remove(&fake->entry);
	KUNIT_EXPECT_EQ(test, fake->entries_freed, 0);
	vm_munmap(at, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, fake->entries_freed, 1);
}

static void removal_puts_the_entry_of_a_mapping(struct kunit *test)
{
	unsigned long at;

	KUNIT_ASSERT_EQ(test, fake_insert_entry(fake), 0);
	at = map_entry(opened, PROT_READ | PROT_WRITE);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	rdma_user_mmap_entry_remove(&fake->entry);
	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, fake->entries_freed, 1);
	vm_munmap(at, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, fake->entries_freed, 1);
}

/* All mappings of a file get the same page of zeros, which the file frees. */
static void writable_mapping_has_a_page_of_its_file(struct kunit *test)
{
	struct uv_file *file = opened->private_data;
	unsigned long at[2];
	unsigned int i;
	u32 word = 1;

	if (skipped_without_special_ptes(test))
		return;
	KUNIT_ASSERT_EQ(test, fake_insert_entry(fake), 0);
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		at[i] = map_entry(opened, PROT_READ | PROT_WRITE);
		KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at[i]));
	}
	rdma_user_mmap_entry_remove(&fake->entry);
	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, get_user(word, (u32 __user *)at[0]), 0);
	KUNIT_EXPECT_EQ(test, word, 0);
	KUNIT_EXPECT_EQ(test, put_user(7, (u32 __user *)at[0]), 0);
	KUNIT_EXPECT_EQ(test, get_user(word, (u32 __user *)at[1]), 0);
	KUNIT_EXPECT_EQ(test, word, 7);
	for (i = 0; i < ARRAY_SIZE(at); i++)
		vm_munmap(at[i], PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, file->base.disassociate_page);
	KUNIT_EXPECT_EQ(test, page_count(file->base.disassociate_page), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&product_pages), 1);
	close_fd(async_fd);	/* the last one that has the file */
	async_fd = -1;
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_EQ(test, atomic_read(&product_pages), 0);
}

static void read_only_mapping_has_the_zero_page(struct kunit *test)
{
	struct uv_file *file = opened->private_data;
	int before = page_count(ZERO_PAGE(0));
	unsigned long at;
	u32 word = 1;

	if (skipped_without_special_ptes(test))
		return;
	KUNIT_ASSERT_EQ(test, fake_insert_entry(fake), 0);
	at = map_entry(opened, PROT_READ);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	rdma_user_mmap_entry_remove(&fake->entry);
	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, get_user(word, (u32 __user *)at), 0);
	KUNIT_EXPECT_EQ(test, word, 0);
	KUNIT_EXPECT_NE(test, put_user(7, (u32 __user *)at), 0);
	vm_munmap(at, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, page_count(ZERO_PAGE(0)), before);
	KUNIT_EXPECT_NULL(test, file->base.disassociate_page);
}

/* --- a driver without disassociate_ucontext --------------------------------------------- */

static int remove_device(void *data)
{
	struct completion *removed = data;

	fake_device_remove(fake);
	complete(removed);
	return 0;
}

/* A call may use the device until it leaves the SRCU section. */
static void removal_waits_for_running_calls(struct kunit *test)
{
	struct srcu_struct *srcu = &uverbs->base.disassociate_srcu;
	struct completion removed;
	struct task_struct *thread;
	int call;

	init_completion(&removed);
	call = srcu_read_lock(srcu);
	thread = kthread_run(remove_device, &removed, "remove");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&removed, HZ / 5), 0);
	srcu_read_unlock(srcu, call);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&removed, 20 * HZ), 0);
}

/* --- user memory that is absent, as that of a FUSE file whose server does not reply -------- */

static struct fake_hold delay;
static struct page *absent_page;

static vm_fault_t absent_fault(struct vm_fault *vmf)
{
	fake_hold_here(&delay);
	get_page(absent_page);
	vmf->page = absent_page;
	return 0;
}

static const struct vm_operations_struct absent_vm_ops = { .fault = absent_fault };

static int absent_mmap(struct file *filp, struct vm_area_struct *vma)
{
	vma->vm_ops = &absent_vm_ops;
	return 0;
}

static const struct file_operations absent_fops = {
	.owner = THIS_MODULE,
	.mmap = absent_mmap,
};

enum absent_memory { REQUEST, ATTRIBUTES, RESPONSE };

/* A call whose header is present. Another part of its memory, at USER_HOLE, is not. */
struct absent_call {
	const char *name;
	enum absent_memory memory;
};

static const struct absent_call absent_calls[] = {
	{ "request", REQUEST }, { "attributes", ATTRIBUTES }, { "response", RESPONSE },
};

NAMED_PARAM(absent_call, absent_calls);

/* Copies @header to the end of the page before USER_HOLE, and the rest to the absent page. */
static void __user *put_call(const void *header, size_t header_size, const void *rest,
			     size_t rest_size)
{
	void __user *at = USER_HOLE - header_size;

	memcpy(page_address(absent_page), rest, rest_size);
	return copy_to_user(at, header, header_size) ? NULL : at;
}

static int run_absent_write(bool response)
{
	struct ib_uverbs_alloc_pd request = {
		.response = (u64)(response ? USER_HOLE : USER_RESPONSE),
	};
	struct ib_uverbs_cmd_hdr hdr = {
		.command = IB_USER_VERBS_CMD_ALLOC_PD,
		.in_words = (sizeof(hdr) + sizeof(request)) / 4,
		.out_words = sizeof(struct ib_uverbs_alloc_pd_resp) / 4,
	};
	size_t count = sizeof(hdr) + sizeof(request);
	void __user *at;
	loff_t pos = 0;

	if (response)
		at = copy_to_user(USER_REQUEST, &hdr, sizeof(hdr)) ||
		     copy_to_user(USER_REQUEST + sizeof(hdr), &request, sizeof(request)) ?
		     NULL : USER_REQUEST;
	else
		at = put_call(&hdr, sizeof(hdr), &request, sizeof(request));
	return uv_write(opened, at, count, &pos);
}

static int run_absent_ioctl(void)
{
	struct user_ioctl io;

	user_ioctl_begin(&io, UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY);
	user_attr(&io, 0, 0, pd);
	io.hdr.length = struct_size(&io.hdr, attrs, 1);
	return uv_ioctl(opened, RDMA_VERBS_IOCTL,
			(unsigned long)put_call(&io.hdr, sizeof(io.hdr), io.attrs,
						sizeof(io.attrs[0])));
}

struct absent_thread {
	const struct absent_call *call;
	struct completion done;
	int result;
};

static int run_absent_call(void *data)
{
	struct absent_thread *thread = data;
	const struct cred *old = override_creds(opened->f_cred);

	kthread_use_mm(user_mm);
	if (thread->call->memory == ATTRIBUTES)
		thread->result = run_absent_ioctl();
	else
		thread->result = run_absent_write(thread->call->memory == RESPONSE);
	kthread_unuse_mm(user_mm);
	revert_creds(old);
	complete(&thread->done);
	return 0;
}

/* A removal must not wait for a process, which decides how long the fault takes. */
static void removal_does_not_wait_for_user_memory(struct kunit *test)
{
	struct absent_thread thread = { .call = test->param_value };
	struct completion removed;
	struct file *filp;
	unsigned long at;
	bool in_time;

	absent_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	KUNIT_ASSERT_NOT_NULL(test, absent_page);
	filp = anon_inode_getfile("[absent]", &absent_fops, NULL, O_RDWR);
	KUNIT_ASSERT_FALSE(test, IS_ERR(filp));
	at = vm_mmap(filp, (unsigned long)USER_HOLE, PAGE_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_FIXED, 0);
	fput(filp);
	KUNIT_ASSERT_EQ(test, at, (unsigned long)USER_HOLE);
	fake_hold_init(&delay);
	init_completion(&thread.done);
	init_completion(&removed);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(run_absent_call, &thread, "absent")));
	wait_for_completion(&delay.reached);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(remove_device, &removed, "remove")));
	in_time = wait_for_completion_timeout(&removed, 10 * HZ);
	KUNIT_EXPECT_TRUE(test, in_time);
	complete_all(&delay.release);
	wait_for_completion(&thread.done);
	if (!in_time)
		wait_for_completion(&removed);
	/* The PD was destroyed with the device. */
	KUNIT_EXPECT_EQ(test, thread.result, thread.call->memory == ATTRIBUTES ? 0 : -EIO);
	vm_munmap(at, PAGE_SIZE);
	flush_delayed_fput();
	__free_page(absent_page);
}

static int no_disassociate_init(struct kunit *test)
{
	user_begin(test, false);
	KUNIT_ASSERT_EQ(test, user_get_context(opened, NULL), 0);
	return 0;
}

static void removal_waits_for_the_last_file(struct kunit *test)
{
	struct completion removed;
	struct task_struct *thread;

	init_completion(&removed);
	thread = kthread_run(remove_device, &removed, "remove");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&removed, HZ / 2), 0);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_CTX], 1);
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&removed, 20 * HZ), 0);
}

static void open_file_holds_driver_module(struct kunit *test)
{
	struct file *second;
	int before;

	flush_delayed_fput();	/* of what was closed before */
	before = module_refcount(THIS_MODULE);
	second = user_open();
	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	/* One by the struct file, one for the driver. */
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before + 2);
	user_close(second);
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before);
}

/* What the teardown has left, as if the driver gave it up later. */
static void free_leaked(void)
{
	struct ib_pd *pd_left = fake->qp->pd;
	struct uv_object *pd_object = uv_object_of(pd_left->uobject);
	struct ib_uqp_object *uqp = fake->qp->uobject;
	struct ib_ucq_object *ucq = fake->cq->uobject;

	fake->refuses = false;
	ib_destroy_qp_user(fake->qp, NULL);
	ib_destroy_cq_user(fake->cq, NULL);
	ib_dealloc_pd_user(pd_left, NULL);
	uv_uevent_release(&uqp->ev);
	uv_uevent_release(&ucq->ev);
	uv_cq_release_channel(ucq);
	kfree(uqp);
	kfree(ucq);
	kfree(pd_object);
}

/* A removal waits for the last file. The driver may still report events of its objects. */
static void leaked_objects_do_not_hold_the_file(struct kunit *test)
{
	struct ib_event cause = { .device = &fake->ib, .event = IB_EVENT_QP_FATAL };
	int before, channel;
	u32 handle;

	flush_delayed_fput();	/* of what was closed before */
	before = module_refcount(THIS_MODULE);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &pd), 0);
	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &channel), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, channel, &cq), 0);
	KUNIT_ASSERT_EQ(test, user_create_qp(opened, pd, cq, -1, &handle), 0);
	close_fd(channel);
	warnings = 0;
	fake->refuses = true;
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_GT(test, warnings, 0u);
	KUNIT_EXPECT_EQ(test, refcount_read(&uverbs->base.refcount), 1u);
	/* One by the struct file, one for the driver. */
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before - 2);
	KUNIT_EXPECT_EQ(test, atomic_read(&product_charges), 0);
	cause.element.qp = fake->qp;
	fake->qp->event_handler(&cause, fake->qp->qp_context);
	fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	free_leaked();
}

static struct kunit_case removal_cases[] = {
	KUNIT_CASE(removal_destroys_objects),
	KUNIT_CASE(calls_after_removal_are_eio),
	KUNIT_CASE(removal_ends_the_device_in_debugfs),
	KUNIT_CASE(destroy_after_removal_reports_events),
	KUNIT_CASE(last_event_is_device_fatal),
	KUNIT_CASE(device_fatal_follows_unread_events),
	KUNIT_CASE(removal_unlists_event_files),
	KUNIT_CASE(device_fatal_needs_no_allocation),
	KUNIT_CASE(removal_with_file_without_context),
	KUNIT_CASE(second_device_is_independent),
	KUNIT_CASE_PARAM(destroy_by_write_waits_for_removal, kind_gen_params),
	KUNIT_CASE_PARAM(destroy_by_ioctl_waits_for_removal, kind_gen_params),
	KUNIT_CASE_PARAM(destroy_by_write_during_removal_succeeds, kind_gen_params),
	KUNIT_CASE_PARAM(destroy_by_ioctl_during_removal_succeeds, kind_gen_params),
	KUNIT_CASE_PARAM(removal_waits_for_running_destroy, kind_gen_params),
	KUNIT_CASE(removal_waits_for_running_calls),
	KUNIT_CASE_PARAM(removal_does_not_wait_for_user_memory, absent_call_gen_params),
	KUNIT_CASE(removal_replaces_mapping_with_zeros),
	KUNIT_CASE(removal_unmaps_mapping),
	KUNIT_CASE(mmap_needs_a_context),
	KUNIT_CASE(both_parts_of_split_mapping_are_tracked),
	KUNIT_CASE(split_mapping_is_tracked_without_memory),
	KUNIT_CASE(copy_during_removal_is_tracked),
	KUNIT_CASE(copy_after_removal_is_untracked),
	KUNIT_CASE(mapping_holds_its_entry),
	KUNIT_CASE(removal_puts_the_entry_of_a_mapping),
	KUNIT_CASE(writable_mapping_has_a_page_of_its_file),
	KUNIT_CASE(read_only_mapping_has_the_zero_page),
	{}
};

static struct kunit_suite removal_suite = {
	.name = "t3_uverbs_removal",
	.suite_init = user_suite_init,
	.suite_exit = user_suite_exit,
	.init = removal_init,
	.exit = removal_exit,
	.test_cases = removal_cases,
};

static struct kunit_case no_disassociate_cases[] = {
	KUNIT_CASE(removal_waits_for_the_last_file),
	KUNIT_CASE(open_file_holds_driver_module),
	KUNIT_CASE(leaked_objects_do_not_hold_the_file),
	{}
};

static struct kunit_suite no_disassociate_suite = {
	.name = "t3_uverbs_no_disassociate",
	.suite_init = user_suite_init,
	.suite_exit = user_suite_exit,
	.init = no_disassociate_init,
	.exit = user_end,
	.test_cases = no_disassociate_cases,
};

TEST_MODULE("t3_uverbs_removal", &removal_suite, &no_disassociate_suite);
