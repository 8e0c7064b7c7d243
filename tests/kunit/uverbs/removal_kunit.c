// SPDX-License-Identifier: GPL-2.0
/* A device that goes while programs have it open: what they still can, and who waits for whom. */
#include "user.h"

static int async_fd;
static u32 pd, cq;

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
	close_fd(async_fd);
	user_end(test);
}

static void objects_go_with_the_device(struct kunit *test)
{
	u32 handle;

	KUNIT_ASSERT_EQ(test, user_create_qp(opened, pd, cq, -1, &handle), 0);
	KUNIT_ASSERT_EQ(test, user_reg_mr(opened, pd, &handle), 0);
	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, fake_live(fake), 0);
	KUNIT_EXPECT_STREQ(test, fake->order, "rqcpx");
}

static void calls_say_eio_afterwards(struct kunit *test)
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

/* Programs clean up behind themselves, and must not be told that they have done wrong. */
static void late_destroy_succeeds_and_reports(struct kunit *test)
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

static void last_event_is_that_it_is_gone(struct kunit *test)
{
	struct ib_uverbs_async_event_desc event = {};

	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, (int)user_poll(async_fd), (int)(EPOLLIN | EPOLLRDNORM));
	KUNIT_EXPECT_EQ(test, user_read_event(async_fd, &event, sizeof(event)), sizeof(event));
	KUNIT_EXPECT_EQ(test, (int)event.event_type, IB_EVENT_DEVICE_FATAL);
	KUNIT_EXPECT_EQ(test, user_read_event(async_fd, &event, sizeof(event)), -EIO);
}

static void file_without_context_survives_removal(struct kunit *test)
{
	struct file *second = user_open();
	u32 handle;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	fake_device_remove(fake);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(second, &handle), -EIO);
	user_close(second);
}

static void second_device_is_another_one(struct kunit *test)
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

/* --- mappings ----------------------------------------------------------------------------- */

static unsigned long map(struct file *filp)
{
	return vm_mmap(filp, 0, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
}

static void mapping_shows_the_device_and_then_zeros(struct kunit *test)
{
	unsigned long at = map(opened);
	struct file *second;
	u32 word = 0;

	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	KUNIT_EXPECT_EQ(test, put_user(0x12345678, (u32 __user *)at), 0);
	KUNIT_EXPECT_EQ(test, *(u32 *)page_address(fake->page), 0x12345678);
	/* The mapping keeps the file, but not the device. */
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

static void mapping_needs_a_context(struct kunit *test)
{
	struct file *second = user_open();

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_EXPECT_EQ(test, map(second), -EINVAL);
	user_close(second);
}

static void split_mapping_is_two(struct kunit *test)
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

/* --- a driver that cannot do without its contexts --------------------------------------------- */

static int remove_device(void *data)
{
	struct completion *removed = data;

	fake_device_remove(fake);
	complete(removed);
	return 0;
}

static int stubborn_init(struct kunit *test)
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

static void open_file_holds_the_driver(struct kunit *test)
{
	struct file *second;
	int before;

	flush_delayed_fput();	/* of what was closed before */
	before = module_refcount(THIS_MODULE);
	second = user_open();
	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	/* Once by the struct file, once for the driver. */
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before + 2);
	user_close(second);
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before);
}

static struct kunit_case removal_cases[] = {
	KUNIT_CASE(objects_go_with_the_device),
	KUNIT_CASE(calls_say_eio_afterwards),
	KUNIT_CASE(late_destroy_succeeds_and_reports),
	KUNIT_CASE(last_event_is_that_it_is_gone),
	KUNIT_CASE(file_without_context_survives_removal),
	KUNIT_CASE(second_device_is_another_one),
	KUNIT_CASE(mapping_shows_the_device_and_then_zeros),
	KUNIT_CASE(mapping_needs_a_context),
	KUNIT_CASE(split_mapping_is_two),
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

static struct kunit_case stubborn_cases[] = {
	KUNIT_CASE(removal_waits_for_the_last_file),
	KUNIT_CASE(open_file_holds_the_driver),
	{}
};

/* product_init() was called: its table is filled once. */
static int stubborn_suite_init(struct kunit_suite *suite)
{
	memset(&uv_index, 0, sizeof(uv_index));
	return user_suite_init(suite);
}

static struct kunit_suite stubborn_suite = {
	.name = "t3_uverbs_stubborn_driver",
	.suite_init = stubborn_suite_init,
	.suite_exit = user_suite_exit,
	.init = stubborn_init,
	.exit = user_end,
	.test_cases = stubborn_cases,
};

kunit_test_suites(&removal_suite, &stubborn_suite);

MODULE_LICENSE("GPL");
