// SPDX-License-Identifier: GPL-2.0
/*
 * Each call fails once at each place where an allocation, or a call of the core, can fail. A failed
 * call leaves nothing: no object, handle, descriptor, number, name or memory.
 */
#include "kinds.h"

static u32 qp, srq, ah;		/* that requests name */
static struct file *second;	/* another open file of the device */

struct attempt {
	const char *name;
	unsigned int failures;	/* at least */
	int (*run)(void);
	void (*undo)(void);
};

static u32 made;	/* the object of the attempt */
static int made_fd;

/* --- files and event files ---------------------------------------------------------------- */

static int open_file(void)
{
	second = user_open();
	return PTR_ERR_OR_ZERO(second);
}

static void close_file(void)
{
	user_close(second);
}

static int get_context(void)
{
	int err = open_file();

	if (err)
		return err;
	err = user_get_context(second, &made_fd);
	if (err)
		close_file();
	return err;
}

static void drop_context(void)
{
	close_fd(made_fd);
	close_file();
}

static int make_channel(void)
{
	return user_create_channel(opened, &made_fd);
}

static int make_async_file(void)
{
	struct user_ioctl io;
	int err;

	user_ioctl_begin(&io, UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
	user_attr(&io, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0, 0);
	err = user_ioctl(opened, &io);
	made_fd = io.attrs[0].data;
	return err;
}

static void close_descriptor(void)
{
	close_fd(made_fd);
}

/* --- requests ------------------------------------------------------------------------------ */

#define TWO_REQUESTS(head_type, wr_type) \
	struct { \
		struct head_type head; \
		struct wr_type wr[2]; \
		struct ib_uverbs_sge sge[4]; \
	} __packed

static int post_sends(u32 destination)
{
	TWO_REQUESTS(ib_uverbs_post_send, ib_uverbs_send_wr) request = {
		.head = {
			.qp_handle = qp, .wr_count = 2, .sge_count = 4,
			.wqe_size = sizeof(struct ib_uverbs_send_wr),
		},
		.wr = {
			{ .num_sge = 2, .opcode = IB_WR_SEND, .wr.ud.ah = destination },
			{ .num_sge = 2, .opcode = IB_WR_SEND, .wr.ud.ah = destination },
		},
	};
	struct ib_uverbs_post_send_resp response;

	return UV_CMD(opened, POST_SEND, &request, &response);
}

static int post_send(void)
{
	return post_sends(0);
}

static int post_datagram(void)
{
	int err;

	fake->qp->qp_type = IB_QPT_UD;
	err = post_sends(ah);
	fake->qp->qp_type = IB_QPT_RC;
	return err;
}

static int post_recv(void)
{
	TWO_REQUESTS(ib_uverbs_post_recv, ib_uverbs_recv_wr) request = {
		.head = {
			.qp_handle = qp, .wr_count = 2, .sge_count = 4,
			.wqe_size = sizeof(struct ib_uverbs_recv_wr),
		},
		.wr = { { .num_sge = 2 }, { .num_sge = 2 } },
	};
	struct ib_uverbs_post_recv_resp response;

	return UV_CMD(opened, POST_RECV, &request, &response);
}

static int post_srq_recv(void)
{
	TWO_REQUESTS(ib_uverbs_post_srq_recv, ib_uverbs_recv_wr) request = {
		.head = {
			.srq_handle = srq, .wr_count = 2, .sge_count = 4,
			.wqe_size = sizeof(struct ib_uverbs_recv_wr),
		},
		.wr = { { .num_sge = 2 }, { .num_sge = 2 } },
	};
	struct ib_uverbs_post_srq_recv_resp response;

	return UV_CMD(opened, POST_SRQ_RECV, &request, &response);
}

static void posted(void)
{
}

static const struct ib_uverbs_attach_mcast multicast = { .gid = { 0xff, 0x0e } };

static int attach_mcast(void)
{
	struct ib_uverbs_attach_mcast request = multicast;
	int err;

	request.qp_handle = qp;
	fake->qp->qp_type = IB_QPT_UD;	/* ib_core supports multicast for UD only */
	err = UV_CMD_NO_RESP(opened, ATTACH_MCAST, &request);
	fake->qp->qp_type = IB_QPT_RC;
	return err;
}

static void detach_mcast(void)
{
	struct ib_uverbs_attach_mcast request = multicast;

	request.qp_handle = qp;
	fake->qp->qp_type = IB_QPT_UD;
	UV_CMD_NO_RESP(opened, DETACH_MCAST, &request);
	fake->qp->qp_type = IB_QPT_RC;
}

/* More attributes than the stack has space for; the optional ones are not known. */
static int query_with_many_attributes(void)
{
	struct user_ioctl io;
	u16 i;

	user_ioctl_begin(&io, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	user_attr(&io, UVERBS_ATTR_QUERY_PORT_PORT_NUM, 8, 1);
	user_attr(&io, UVERBS_ATTR_QUERY_PORT_RESP, sizeof(struct ib_uverbs_query_port_resp_ex),
		  (u64)USER_RESPONSE);
	for (i = 0; i < USER_MAX_ATTRS - 2; i++)
		user_attr(&io, 100 + i, 0, 0)->flags = 0;
	return user_ioctl(opened, &io);
}

static const struct attempt attempts[] = {
	{ "open", 1, open_file, close_file },
	{ "get context", 4, get_context, drop_context },
	{ "completion channel", 3, make_channel, close_descriptor },
	{ "asynchronous event file", 3, make_async_file, close_descriptor },
	{ "post_send", 2, post_send, posted },
	{ "post_send of datagrams", 2, post_datagram, posted },
	{ "post_recv", 2, post_recv, posted },
	{ "post_srq_recv", 2, post_srq_recv, posted },
	{ "attach_mcast", 2, attach_mcast, detach_mcast },
	{ "many attributes", 1, query_with_many_attributes, posted },
};

NAMED_PARAM(attempt, attempts);

static int faults_init(struct kunit *test)
{
	user_begin(test, true);
	KUNIT_ASSERT_EQ(test, user_get_context(opened, NULL), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &pd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, -1, &cq), 0);
	KUNIT_ASSERT_EQ(test, user_create_srq(opened, pd, &srq), 0);
	KUNIT_ASSERT_EQ(test, user_create_ah(opened, pd, &ah), 0);
	KUNIT_ASSERT_EQ(test, user_create_qp(opened, pd, cq, -1, &qp), 0);
	return 0;
}

/* What a failed call could leave. */
struct resources {
	int objects, files, descriptor;
	u32 handle;
};

static struct resources resources(struct kunit *test)
{
	struct resources now;

	flush_delayed_fput();
	now.objects = fake_live(fake);
	now.files = refcount_read(&uverbs->base.refcount);
	now.descriptor = get_unused_fd_flags(0);
	put_unused_fd(now.descriptor);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &now.handle), 0);
	KUNIT_ASSERT_EQ(test, user_dealloc_pd(opened, now.handle), 0);
	return now;
}

static void expect_resources(struct kunit *test, const struct resources *before)
{
	struct resources now = resources(test);

	KUNIT_EXPECT_EQ(test, now.objects, before->objects);
	KUNIT_EXPECT_EQ(test, now.files, before->files);
	KUNIT_EXPECT_EQ(test, now.descriptor, before->descriptor);
	KUNIT_EXPECT_EQ(test, now.handle, before->handle);
}

static int with_failure(int (*run)(void))
{
	int err;

	allocations_fail();
	err = run();
	allocations_work();
	return err;
}

static void run_attempt(struct kunit *test)
{
	const struct attempt *attempt = test->param_value;
	struct resources before = resources(test);
	int err = with_failure(attempt->run);

	KUNIT_EXPECT_EQ_MSG(test, !err, !failing.where, "%s", alloc_that_failed());
	if (!err)
		attempt->undo();
	expect_resources(test, &before);
}

static void failed_call_leaves_nothing(struct kunit *test)
{
	const struct attempt *attempt = test->param_value;

	KUNIT_EXPECT_GE(test, fail_each_allocation(test, run_attempt), attempt->failures);
}

static const struct object_kind *creating;

static int create(void)
{
	return creating->create(opened, &made);
}

static void run_creation(struct kunit *test)
{
	struct resources before = resources(test);
	int err = with_failure(create);

	KUNIT_EXPECT_EQ_MSG(test, err, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	if (!err)
		KUNIT_EXPECT_EQ(test, creating->destroy(opened, made), 0);
	expect_resources(test, &before);
}

static void failed_creation_leaves_nothing(struct kunit *test)
{
	creating = test->param_value;
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, run_creation), 1);
}

/* The first objects of a file need no allocation: others fill their places. */
static void failed_creation_in_a_file_with_objects(struct kunit *test)
{
	unsigned int i;
	u32 other_pd;

	for (i = 0; i < 40; i++)
		KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &other_pd), 0);
	creating = test->param_value;
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, run_creation), 2);
}

/* A request that is refused is freed: its address handle does not exist. */
static void datagram_without_an_address_handle(struct kunit *test)
{
	fake->qp->qp_type = IB_QPT_UD;
	KUNIT_EXPECT_EQ(test, post_sends(9999), -ENOENT);
	fake->qp->qp_type = IB_QPT_RC;
	KUNIT_EXPECT_EQ(test, fake->posted, 0);
}

/* The elements of the request are behind the end of the mapped memory. */
static void request_with_unmapped_elements(struct kunit *test)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_recv post;
		struct ib_uverbs_recv_wr wr;
	} __packed request = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_POST_RECV,
			.in_words = (sizeof(request) + sizeof(struct ib_uverbs_sge)) / 4,
			.out_words = sizeof(struct ib_uverbs_post_recv_resp) / 4,
		},
		.post = {
			.response = (u64)USER_REQUEST, .qp_handle = qp, .wr_count = 1,
			.sge_count = 1, .wqe_size = sizeof(struct ib_uverbs_recv_wr),
		},
		.wr.num_sge = 1,
	};
	char __user *at = (char __user *)USER_HOLE - sizeof(request);
	loff_t pos = 0;

	KUNIT_ASSERT_EQ(test, copy_to_user(at, &request, sizeof(request)), 0);
	KUNIT_EXPECT_EQ(test, uv_write(opened, at, request.hdr.in_words * 4, &pos), -EFAULT);
	KUNIT_EXPECT_EQ(test, fake->posted, 0);
}

/* --- a driver whose module an open file holds ------------------------------------------------ */

static int hold_init(struct kunit *test)
{
	user_begin(test, false);
	return 0;
}

static void failed_open_releases_the_driver(struct kunit *test)
{
	int before;

	flush_delayed_fput();
	before = module_refcount(THIS_MODULE);
	failing.nth = 1;
	KUNIT_EXPECT_EQ(test, with_failure(open_file), -ENOMEM);
	flush_delayed_fput();
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before);
}

static struct fake_device *other;

static int add_device(void)
{
	other = fake_device_new(true);
	return PTR_ERR_OR_ZERO(other);
}

/* ib_core keeps a device that a client cannot serve. */
static void run_addition(struct kunit *test)
{
	struct uv_device *added;
	char name[16];

	KUNIT_ASSERT_EQ(test, with_failure(add_device), 0);
	added = ib_get_client_data(&other->ib, &uv_client);
	KUNIT_EXPECT_EQ_MSG(test, !added, !!failing.where, "%s", alloc_that_failed());
	/* The number of an earlier device, which failed or was removed, is free. */
	if (added)
		KUNIT_EXPECT_EQ(test, added->base.devnum, uverbs->base.devnum + 1);
	snprintf(name, sizeof(name), "%s%d", prefix, uverbs->base.devnum + 1);
	KUNIT_EXPECT_EQ(test, in_debugfs(name, uv_debugfs_root), !!added);
	fake_device_free(other);
	KUNIT_EXPECT_FALSE(test, in_debugfs(name, uv_debugfs_root));
}

static void failed_addition_leaves_nothing(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, run_addition), 6);
	failing.nth = 0;
	failing.where = NULL;
	run_addition(test);
}

/* --- load and unload ------------------------------------------------------------------------- */

static void run_load(struct kunit *test)
{
	int err = with_failure(product_init);

	KUNIT_EXPECT_EQ_MSG(test, !err, !failing.where, "%s", alloc_that_failed());
	if (!err)
		product_exit();
	KUNIT_EXPECT_EQ_MSG(test, product_regions, 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_FALSE_MSG(test, in_debugfs("t3_uverbs", NULL), "%s", alloc_that_failed());
}

static void failed_load_leaves_nothing(struct kunit *test)
{
	product_exit();
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, run_load), 4);
	KUNIT_EXPECT_EQ(test, product_init(), 0);
}

static struct kunit_case faults_cases[] = {
	KUNIT_CASE_PARAM(failed_call_leaves_nothing, attempt_gen_params),
	KUNIT_CASE_PARAM(failed_creation_leaves_nothing, kind_gen_params),
	KUNIT_CASE_PARAM(failed_creation_in_a_file_with_objects, kind_gen_params),
	KUNIT_CASE(datagram_without_an_address_handle),
	KUNIT_CASE(request_with_unmapped_elements),
	{}
};

static struct kunit_suite faults_suite = {
	.name = "t3_uverbs_faults",
	.suite_init = user_suite_init,
	.suite_exit = user_suite_exit,
	.init = faults_init,
	.exit = user_end,
	.test_cases = faults_cases,
};

static struct kunit_case hold_cases[] = {
	KUNIT_CASE(failed_open_releases_the_driver),
	KUNIT_CASE(failed_addition_leaves_nothing),
	{}
};

static struct kunit_suite hold_suite = {
	.name = "t3_uverbs_faults_of_devices",
	.suite_init = user_suite_init,
	.suite_exit = user_suite_exit,
	.init = hold_init,
	.exit = user_end,
	.test_cases = hold_cases,
};

static struct kunit_case load_cases[] = {
	KUNIT_CASE(failed_load_leaves_nothing),
	{}
};

static struct kunit_suite load_suite = {
	.name = "t3_uverbs_faults_of_load",
	.suite_init = user_suite_init,
	.suite_exit = user_suite_exit,
	.test_cases = load_cases,
};

TEST_MODULE("t3_uverbs_faults", &faults_suite, &hold_suite, &load_suite);
