// SPDX-License-Identifier: GPL-2.0
/* Commands on a device without hardware: creation and its undo, errors, events. */
#include "kinds.h"
#include "../pollers.h"

static int dispatch_init(struct kunit *test)
{
	user_response_at = NULL;
	user_begin(test, true);
	KUNIT_ASSERT_EQ(test, user_get_context(opened, NULL), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &pd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, -1, &cq), 0);
	return 0;
}

/* --- open() --------------------------------------------------------------------------- */

struct opener {
	int err;
	struct completion done;
};

static int opener(void *data)
{
	struct opener *opener = data;

	opener->err = PTR_ERR_OR_ZERO(user_open());
	complete_all(&opener->done);
	return 0;
}

/*
 * A process at the limit of its memory cgroup reclaims for long: others that open, close and
 * create event files must not wait for it. Here its allocation fails while the mutex is held.
 */
static void open_allocates_without_lists_mutex(struct kunit *test)
{
	struct opener other = {};
	struct task_struct *thread;

	init_completion(&other.done);
	thread = kthread_create(opener, &other, "open");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	failing.nth = 1;
	allocations_fail();
	mutex_lock(&uverbs->base.lists_mutex);
	wake_up_process(thread);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&other.done, 5 * HZ), 0);
	mutex_unlock(&uverbs->base.lists_mutex);
	wait_for_completion(&other.done);
	allocations_work();
	KUNIT_EXPECT_EQ(test, other.err, -ENOMEM);
}

/* --- each type of object ------------------------------------------------------------- */

static void create_and_destroy_by_write(struct kunit *test)
{
	const struct object_kind *of = test->param_value;
	int before = fake->live[of->kind];
	u32 handle;

	KUNIT_ASSERT_EQ(test, of->create(opened, &handle), 0);
	KUNIT_EXPECT_EQ(test, fake->live[of->kind], before + 1);
	KUNIT_EXPECT_EQ(test, of->destroy(opened, handle), 0);
	KUNIT_EXPECT_EQ(test, fake->live[of->kind], before);
	KUNIT_EXPECT_EQ(test, of->destroy(opened, handle), -ENOENT);
}

static void destroy_by_ioctl(struct kunit *test)
{
	const struct object_kind *of = test->param_value;
	int before = fake->live[of->kind];
	u32 handle;

	KUNIT_ASSERT_EQ(test, of->create(opened, &handle), 0);
	KUNIT_EXPECT_EQ(test, user_ioctl_destroy(opened, of->object, of->method, handle,
						 of->response), 0);
	KUNIT_EXPECT_EQ(test, fake->live[of->kind], before);
	KUNIT_EXPECT_EQ(test, user_ioctl_destroy(opened, of->object, of->method, handle,
						 of->response), -ENOENT);
}

/* A creation that fails leaves no object and no handle, and no use of other objects. */
static void expect_undone(struct kunit *test, int driver_result, void __user *response_at,
			  int result)
{
	const struct object_kind *of = test->param_value;
	int before = fake_live(fake);
	u32 handle, again;

	KUNIT_ASSERT_EQ(test, of->create(opened, &handle), 0);
	KUNIT_ASSERT_EQ(test, of->destroy(opened, handle), 0);
	fake->fail_create[of->kind] = driver_result;
	user_response_at = response_at;
	KUNIT_EXPECT_EQ(test, of->create(opened, &again), result);
	user_response_at = NULL;
	KUNIT_EXPECT_EQ(test, fake_live(fake), before);
	KUNIT_EXPECT_EQ(test, of->create(opened, &again), 0);
	KUNIT_EXPECT_EQ(test, again, handle);
	KUNIT_EXPECT_EQ(test, of->destroy(opened, again), 0);
	KUNIT_EXPECT_EQ(test, destroy_cq(opened, cq), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), 0);
}

static void failed_creation_leaves_no_handle(struct kunit *test)
{
	expect_undone(test, -ENOSPC, NULL, -ENOSPC);
}

static void unwritable_response_undoes_creation(struct kunit *test)
{
	expect_undone(test, 0, USER_HOLE, -EFAULT);
}

static void failed_destroy_keeps_the_object(struct kunit *test)
{
	const struct object_kind *of = test->param_value;
	u32 handle;

	KUNIT_ASSERT_EQ(test, of->create(opened, &handle), 0);
	fake->fail_destroy[of->kind] = -EBUSY;
	KUNIT_EXPECT_EQ(test, of->destroy(opened, handle), -EBUSY);
	KUNIT_EXPECT_EQ(test, of->destroy(opened, handle), 0);
}

static void handle_of_another_file_is_enoent(struct kunit *test)
{
	const struct object_kind *of = test->param_value;
	struct file *second = user_open();
	u32 handle;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_ASSERT_EQ(test, of->create(opened, &handle), 0);
	KUNIT_EXPECT_EQ(test, of->destroy(second, handle), -ENOENT);
	KUNIT_EXPECT_EQ(test, of->destroy(opened, handle), 0);
	user_close(second);
}

/* An open event file keeps the struct uv_file, but no objects and no handles. */
static void close_frees_objects(struct kunit *test)
{
	struct file *second = user_open();
	struct uv_file *file;
	u32 handle;
	int fd;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_ASSERT_EQ(test, user_get_context(second, &fd), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(second, &handle), 0);
	file = second->private_data;
	KUNIT_EXPECT_NOT_NULL(test, file->handles.slots);
	user_close(second);
	KUNIT_EXPECT_NULL(test, file->handles.slots);
	close_fd(fd);
}

static void close_destroys_the_object(struct kunit *test)
{
	const struct object_kind *of = test->param_value;
	u32 handle;

	KUNIT_ASSERT_EQ(test, of->create(opened, &handle), 0);
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_EQ(test, fake_live(fake), 0);
}

static const struct uv_row *row_of(const char *name, u8 abi)
{
	unsigned int i;

	for (i = 0; i < uv_row_count; i++)
		if (uv_rows[i]->abi == abi && !strcmp(uv_rows[i]->name, name))
			return uv_rows[i];
	return NULL;
}

static void calls_and_failures_are_counted(struct kunit *test)
{
	const struct uv_row *row = row_of("dealloc_pd", UV_ABI_WRITE);
	struct uv_stats *stats = uverbs->stats;
	u32 handle;

	KUNIT_ASSERT_NOT_NULL(test, row);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, 9999), -ENOENT);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &handle), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, handle), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&stats->row[row->number].calls), 2);
	KUNIT_EXPECT_EQ(test, atomic64_read(&stats->row[row->number].failed), 1);
}

/* --- objects that use others ------------------------------------------------------------------ */

static void destroy_of_used_object_is_ebusy(struct kunit *test)
{
	u32 mr, mw, qp, srq, ah;

	KUNIT_ASSERT_EQ(test, user_create_srq(opened, pd, &srq), 0);
	KUNIT_ASSERT_EQ(test, user_create_qp(opened, pd, cq, srq, &qp), 0);
	KUNIT_EXPECT_EQ(test, destroy_cq(opened, cq), -EBUSY);
	KUNIT_EXPECT_EQ(test, destroy_srq(opened, srq), -EBUSY);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, destroy_qp(opened, qp), 0);
	KUNIT_EXPECT_EQ(test, destroy_cq(opened, cq), 0);
	KUNIT_EXPECT_EQ(test, destroy_srq(opened, srq), 0);

	KUNIT_ASSERT_EQ(test, user_reg_mr(opened, pd, &mr), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, user_dereg_mr(opened, mr), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_mw(opened, pd, &mw), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, user_dealloc_mw(opened, mw), 0);
	KUNIT_ASSERT_EQ(test, user_create_ah(opened, pd, &ah), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, user_destroy_ah(opened, ah), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), 0);
}

static void close_destroys_newest_first(struct kunit *test)
{
	u32 handle, srq;

	KUNIT_ASSERT_EQ(test, user_reg_mr(opened, pd, &handle), 0);
	KUNIT_ASSERT_EQ(test, user_create_srq(opened, pd, &srq), 0);
	KUNIT_ASSERT_EQ(test, user_create_qp(opened, pd, cq, srq, &handle), 0);
	KUNIT_ASSERT_EQ(test, user_create_ah(opened, pd, &handle), 0);
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_STREQ(test, fake->order, "aqsrcpx");
}

/* REREG_MR makes an older object use a newer one, so the newer is destroyed in the second round. */
static void close_repeats_failed_destroys(struct kunit *test)
{
	u32 mr, young;
	struct ib_uverbs_rereg_mr request = { .flags = IB_MR_REREG_PD };
	struct ib_uverbs_rereg_mr_resp response;

	KUNIT_ASSERT_EQ(test, user_reg_mr(opened, pd, &mr), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &young), 0);
	request.mr_handle = mr;
	request.pd_handle = young;
	KUNIT_ASSERT_EQ(test, UV_CMD(opened, REREG_MR, &request, &response), 0);
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_STREQ(test, fake->order, "rcppx");
}

static void rereg_mr_changes_pd(struct kunit *test)
{
	struct ib_uverbs_rereg_mr request = { .flags = IB_MR_REREG_PD };
	struct ib_uverbs_rereg_mr_resp response;
	u32 mr, second;

	KUNIT_ASSERT_EQ(test, user_reg_mr(opened, pd, &mr), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &second), 0);
	request.mr_handle = mr;
	request.pd_handle = second;
	KUNIT_EXPECT_EQ(test, UV_CMD(opened, REREG_MR, &request, &response), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, second), -EBUSY);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), 0);
	KUNIT_EXPECT_EQ(test, user_dereg_mr(opened, mr), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, second), 0);
}

/* The driver may return a new region: the handle stays. */
static void rereg_mr_replaces_region(struct kunit *test)
{
	struct ib_uverbs_rereg_mr request = { .flags = IB_MR_REREG_ACCESS };
	struct ib_uverbs_rereg_mr_resp response;
	u32 mr;

	fake->rereg_returns_new = true;
	KUNIT_ASSERT_EQ(test, user_reg_mr(opened, pd, &mr), 0);
	request.mr_handle = mr;
	KUNIT_EXPECT_EQ(test, UV_CMD(opened, REREG_MR, &request, &response), 0);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_MR], 1);
	/* The old one cannot be destroyed: the new one is. */
	fake->fail_destroy[FAKE_MR] = -EBUSY;
	KUNIT_EXPECT_EQ(test, UV_CMD(opened, REREG_MR, &request, &response), -EBUSY);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_MR], 1);
	KUNIT_EXPECT_EQ(test, user_dereg_mr(opened, mr), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), 0);
}

/* --- the context ------------------------------------------------------------------------------ */

static void commands_need_a_context(struct kunit *test)
{
	struct file *second = user_open();
	u32 handle;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_EXPECT_EQ(test, user_alloc_pd(second, &handle), -EINVAL);
	fake->fail_create[FAKE_CTX] = -ENOMEM;
	KUNIT_EXPECT_EQ(test, user_get_context(second, NULL), -ENOMEM);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(second, &handle), -EINVAL);
	KUNIT_EXPECT_EQ(test, user_get_context(second, NULL), 0);
	KUNIT_EXPECT_EQ(test, user_get_context(second, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(second, &handle), 0);
	user_close(second);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_CTX], 1);
}

/* The core enters the mappings of a process, with GFP_KERNEL. */
static void table_of_mappings_is_charged_to_the_memcg(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, fake->context->mmap_xa.xa_flags & XA_FLAGS_ACCOUNT);
}

/* Creates a QP on a file that has a context. fake->qp is the QP. */
static u32 create_first_qp(struct kunit *test, struct file *filp)
{
	u32 new_pd, new_cq, qp;

	KUNIT_ASSERT_EQ(test, user_alloc_pd(filp, &new_pd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(filp, -1, &new_cq), 0);
	KUNIT_ASSERT_EQ(test, user_create_qp(filp, new_pd, new_cq, -1, &qp), 0);
	return qp;
}

static void report_qp_event(enum ib_event_type type)
{
	struct ib_event cause = { .device = &fake->ib, .element.qp = fake->qp, .event = type };

	fake->qp->event_handler(&cause, fake->qp->qp_context);
}

/* This event file must be the default for the events of objects. */
static void expect_qp_event(struct kunit *test, struct file *filp, int fd)
{
	struct ib_uverbs_async_event_desc event = {};

	create_first_qp(test, filp);
	report_qp_event(IB_EVENT_QP_FATAL);
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), sizeof(event));
	KUNIT_EXPECT_EQ(test, (int)event.event_type, IB_EVENT_QP_FATAL);
}

/* Neither a context nor a default event file is left: GET_CONTEXT can be repeated. */
static void unwritable_response_undoes_context(struct kunit *test)
{
	struct file *second = user_open();
	struct user_ioctl io;
	u32 handle;
	int fd;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	user_response_at = USER_HOLE;
	KUNIT_EXPECT_EQ(test, user_get_context(second, NULL), -EFAULT);
	user_response_at = NULL;
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_CTX], 1);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(second, &handle), -EINVAL);

	user_ioctl_begin(&io, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
	user_attr(&io, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, sizeof(u32), (u64)USER_HOLE);
	KUNIT_EXPECT_EQ(test, user_ioctl(second, &io), -EFAULT);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_CTX], 1);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(second, &handle), -EINVAL);

	KUNIT_ASSERT_EQ(test, user_get_context(second, &fd), 0);
	expect_qp_event(test, second, fd);
	close_fd(fd);
	user_close(second);
}

/* An ioctl whose attributes can be read but not written: in device memory. */
static int user_ioctl_read_only(struct file *filp, const struct user_ioctl *io)
{
	size_t length = struct_size(&io->hdr, attrs, io->hdr.num_attrs);
	struct ib_uverbs_ioctl_hdr *hdr = page_address(fake->page);
	unsigned long at;
	int err;

	memcpy(hdr, io, length);
	hdr->length = length;
	at = vm_mmap(opened, 0, PAGE_SIZE, PROT_READ, MAP_SHARED, 0);
	if (IS_ERR_VALUE(at))
		return at;
	err = uv_ioctl(filp, RDMA_VERBS_IOCTL, at);
	vm_munmap(at, PAGE_SIZE);
	return err;
}

/* The default event file is the first one that the process knows. */
static void unwritable_attribute_undoes_async_file(struct kunit *test)
{
	struct file *second = user_open();
	struct user_ioctl io;
	int fd;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	user_ioctl_begin(&io, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
	KUNIT_ASSERT_EQ(test, user_ioctl(second, &io), 0);
	user_ioctl_begin(&io, UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
	user_attr(&io, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0, 0);
	KUNIT_EXPECT_EQ(test, user_ioctl_read_only(second, &io), -EFAULT);
	flush_delayed_fput();
	KUNIT_ASSERT_EQ(test, user_ioctl(second, &io), 0);
	fd = io.attrs[0].data;
	expect_qp_event(test, second, fd);
	close_fd(fd);
	user_close(second);
}

/* The response is written, but its attribute cannot be marked: the handle is not valid. */
static void invoke_write_without_its_mark_creates_nothing(struct kunit *test)
{
	struct ib_uverbs_alloc_pd request = {};
	int before = fake->live[FAKE_PD];
	struct user_ioctl io;

	KUNIT_ASSERT_EQ(test, copy_to_user(USER_REQUEST, &request, sizeof(request)), 0);
	user_ioctl_begin(&io, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	user_attr(&io, UVERBS_ATTR_CORE_IN, sizeof(request), (u64)USER_REQUEST);
	user_attr(&io, UVERBS_ATTR_CORE_OUT, sizeof(struct ib_uverbs_alloc_pd_resp),
		  (u64)USER_RESPONSE);
	user_attr(&io, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_ALLOC_PD);
	KUNIT_EXPECT_EQ(test, user_ioctl_read_only(opened, &io), -EFAULT);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_PD], before);
}

/* --- posted work requests and multicast ------------------------------------------------------- */

/* Posts two requests of two elements each, the second one with this id. */
static int post_two_sends(u32 qp, u64 second_id, u32 *bad)
{
	struct {
		struct ib_uverbs_post_send head;
		struct ib_uverbs_send_wr wr[2];
		struct ib_uverbs_sge sge[4];
	} __packed request = {
		.head = {
			.qp_handle = qp, .wr_count = 2, .sge_count = 4,
			.wqe_size = sizeof(struct ib_uverbs_send_wr),
		},
		.wr = { { .num_sge = 2, .opcode = IB_WR_SEND },
			{ .num_sge = 2, .opcode = IB_WR_SEND } },
	};
	struct ib_uverbs_post_send_resp response = {};
	int err;

	request.wr[1].wr_id = second_id;
	err = UV_CMD(opened, POST_SEND, &request, &response);
	if (copy_from_user(&response, USER_RESPONSE, sizeof(response)))
		return -EIO;
	*bad = response.bad_wr;
	return err;
}

static void post_send_returns_bad_wr(struct kunit *test)
{
	u32 qp, bad;

	KUNIT_ASSERT_EQ(test, create_qp(opened, &qp), 0);
	KUNIT_EXPECT_EQ(test, post_two_sends(qp, 7, &bad), 0);
	KUNIT_EXPECT_EQ(test, bad, 0);
	KUNIT_EXPECT_EQ(test, fake->posted, 6);
	/* The driver refuses the second one: bad_wr is its position. */
	KUNIT_EXPECT_EQ(test, post_two_sends(qp, 13, &bad), -ENOMEM);
	KUNIT_EXPECT_EQ(test, bad, 2);
	KUNIT_EXPECT_EQ(test, fake->posted, 9);
}

static void close_detaches_mcast(struct kunit *test)
{
	struct ib_uverbs_attach_mcast request = { .gid = { 0xff, 0x0e } };
	u32 qp;

	KUNIT_ASSERT_EQ(test, create_qp(opened, &qp), 0);
	request.qp_handle = qp;
	/* ib_core supports multicast for UD only. */
	fake->qp->qp_type = IB_QPT_UD;
	KUNIT_EXPECT_EQ(test, UV_CMD_NO_RESP(opened, ATTACH_MCAST, &request), 0);
	/* attached already */
	KUNIT_EXPECT_EQ(test, UV_CMD_NO_RESP(opened, ATTACH_MCAST, &request), 0);
	KUNIT_EXPECT_EQ(test, fake->multicast, 1);
	KUNIT_EXPECT_EQ(test, destroy_qp(opened, qp), -EBUSY);
	KUNIT_EXPECT_EQ(test, UV_CMD_NO_RESP(opened, DETACH_MCAST, &request), 0);
	KUNIT_EXPECT_EQ(test, UV_CMD_NO_RESP(opened, DETACH_MCAST, &request), -EINVAL);
	KUNIT_EXPECT_EQ(test, UV_CMD_NO_RESP(opened, ATTACH_MCAST, &request), 0);
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_EQ(test, fake->multicast, 0);
}

/*
 * The driver refuses the first destroy. The teardown tries again, since it could destroy another
 * object. Groups are detached once: KASAN reports a second time.
 */
static void close_repeats_destroy_of_a_qp_with_groups(struct kunit *test)
{
	struct ib_uverbs_attach_mcast request = { .gid = { 0xff, 0x0e } };
	unsigned int i;
	u32 qp, other;

	KUNIT_ASSERT_EQ(test, create_qp(opened, &qp), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &other), 0);
	request.qp_handle = qp;
	fake->qp->qp_type = IB_QPT_UD;
	for (i = 0; i < 2; i++) {
		request.gid[15] = i;
		KUNIT_ASSERT_EQ(test, UV_CMD_NO_RESP(opened, ATTACH_MCAST, &request), 0);
	}
	KUNIT_EXPECT_EQ(test, fake->multicast, 2);
	fake->fail_destroy[FAKE_QP] = -EBUSY;
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_EQ(test, fake->fail_destroy[FAKE_QP], 0);
	KUNIT_EXPECT_EQ(test, fake->multicast, 0);
	KUNIT_EXPECT_STREQ(test, fake->order, "pqcpx");
}

/* --- events ----------------------------------------------------------------------------------- */

static unsigned int references_to_events(int fd)
{
	struct file *filp = fget(fd);
	struct uv_events *events = filp->private_data;
	unsigned int references = kref_read(&events->ref);

	fput(filp);
	return references;
}

static void refused_cq_releases_its_channel(struct kunit *test)
{
	unsigned int before;
	u32 handle;
	int fd;

	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &fd), 0);
	before = references_to_events(fd);
	fake->fail_create[FAKE_CQ] = -ENOSPC;
	KUNIT_EXPECT_EQ(test, user_create_cq(opened, fd, &handle), -ENOSPC);
	KUNIT_EXPECT_EQ(test, references_to_events(fd), before);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, fd, &handle), 0);
	KUNIT_EXPECT_EQ(test, references_to_events(fd), before + 1);
	KUNIT_EXPECT_EQ(test, user_destroy_cq(opened, handle, NULL), 0);
	KUNIT_EXPECT_EQ(test, references_to_events(fd), before);
	close_fd(fd);
}

static void completion_events_are_read_and_counted(struct kunit *test)
{
	struct ib_uverbs_destroy_cq_resp response = {};
	struct ib_uverbs_comp_event_desc event = {};
	u32 handle;
	int fd;

	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &fd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, fd, &handle), 0);
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), -EAGAIN);
	KUNIT_EXPECT_EQ(test, (int)user_poll(fd), 0);
	fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	KUNIT_EXPECT_EQ(test, (int)user_poll(fd), (int)(EPOLLIN | EPOLLRDNORM));
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event) - 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), sizeof(event));
	KUNIT_EXPECT_EQ(test, event.cq_handle, USER_COOKIE);
	/* One was read; the other is discarded with its CQ. */
	KUNIT_EXPECT_EQ(test, user_destroy_cq(opened, handle, &response), 0);
	KUNIT_EXPECT_EQ(test, response.comp_events_reported, 1);
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), -EAGAIN);
	close_fd(fd);
}

/* Unread events need no allocation, so none is lost when memory is short. */
static void events_need_no_allocation(struct kunit *test)
{
#ifdef CONFIG_FAULT_INJECTION
	struct ib_uverbs_comp_event_desc event;
	unsigned int i, wrong = 0;
	u32 handle;
	int fd;

	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &fd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, fd, &handle), 0);
	for (i = 0; i < 1000; i++) {
		/* An allocation would fail. */
		current->fail_nth = 1;
		fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
		wrong += current->fail_nth != 1;
		current->fail_nth = 0;
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
	for (i = 0; i < 1000; i++)
		wrong += user_read_event(fd, &event, sizeof(event)) != sizeof(event);
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), -EAGAIN);
	KUNIT_EXPECT_EQ(test, user_destroy_cq(opened, handle, NULL), 0);
	close_fd(fd);
#else
	/* kunit_skip() ends the thread. Another one would close the file, which is not allowed. */
	kunit_mark_skipped(test, "the kernel cannot make allocations fail");
#endif
}

/* Two CQs share a channel: read() alternates between them. */
static void cqs_of_a_channel_alternate(struct kunit *test)
{
	static const char order[] = "abab";
	struct ib_uverbs_comp_event_desc event = {};
	struct ib_uverbs_create_cq request = { .cqe = 16 };
	struct ib_uverbs_create_cq_resp response;
	unsigned int i, j;
	int fd;

	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &fd), 0);
	request.comp_channel = fd;
	for (i = 0; i < 2; i++) {
		request.user_handle = 'a' + i;
		KUNIT_ASSERT_EQ(test, UV_CMD(opened, CREATE_CQ, &request, &response), 0);
		for (j = 0; j < 2; j++)
			fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	}
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), sizeof(event));
		KUNIT_EXPECT_EQ(test, (char)event.cq_handle, order[i]);
	}
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), -EAGAIN);
	close_fd(fd);
}

/* The events of a QP are read in their order. */
static void async_events_keep_their_order(struct kunit *test)
{
	static const enum ib_event_type happened[] = {
		IB_EVENT_COMM_EST, IB_EVENT_SQ_DRAINED, IB_EVENT_SQ_DRAINED, IB_EVENT_COMM_EST,
		IB_EVENT_QP_FATAL, IB_EVENT_QP_LAST_WQE_REACHED, IB_EVENT_QP_FATAL,
	};
	struct ib_uverbs_async_event_desc event = {};
	struct ib_event cause = { .device = &fake->ib };
	struct file *second = user_open();
	u32 second_pd, second_cq, qp, reported;
	unsigned int i;
	int fd;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_ASSERT_EQ(test, user_get_context(second, &fd), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(second, &second_pd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(second, -1, &second_cq), 0);
	KUNIT_ASSERT_EQ(test, user_create_qp(second, second_pd, second_cq, -1, &qp), 0);
	cause.element.qp = fake->qp;
	for (i = 0; i < ARRAY_SIZE(happened); i++) {
		cause.event = happened[i];
		fake->qp->event_handler(&cause, fake->qp->qp_context);
	}
	for (i = 0; i < ARRAY_SIZE(happened); i++) {
		KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), sizeof(event));
		KUNIT_EXPECT_EQ(test, event.element, USER_COOKIE);
		KUNIT_EXPECT_EQ(test, (int)event.event_type, (int)happened[i]);
	}
	/* More runs than UV_ASYNC_RUNS: no event is lost. */
	for (i = 0; i < 100; i++) {
		cause.event = i % 2 ? IB_EVENT_SQ_DRAINED : IB_EVENT_COMM_EST;
		fake->qp->event_handler(&cause, fake->qp->qp_context);
	}
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), sizeof(event));
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), -EAGAIN);
	KUNIT_EXPECT_EQ(test, user_destroy_qp(second, qp, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 100 + ARRAY_SIZE(happened));
	close_fd(fd);
	user_close(second);
}

/* More runs than UV_ASYNC_RUNS: the oldest are merged, and each type keeps its latest position. */
static void full_runs_keep_the_latest_order(struct kunit *test)
{
	static const char happened[] = "eaeaeaeaeaela", expected[] = "aaeeeaeaeaela";
	struct ib_uverbs_async_event_desc event = {};
	struct file *second = user_open();
	unsigned int i;
	u32 qp, reported;
	char order[sizeof(expected)] = "";
	int fd;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_ASSERT_EQ(test, user_get_context(second, &fd), 0);
	qp = create_first_qp(test, second);
	for (i = 0; happened[i]; i++)
		report_qp_event(happened[i] == 'e' ? IB_EVENT_COMM_EST :
				happened[i] == 'a' ? IB_EVENT_SQ_DRAINED : IB_EVENT_QP_FATAL);
	for (i = 0; i < sizeof(order) - 1; i++) {
		if (user_read_event(fd, &event, sizeof(event)) != sizeof(event))
			break;
		order[i] = event.event_type == IB_EVENT_COMM_EST ? 'e' :
			   event.event_type == IB_EVENT_SQ_DRAINED ? 'a' : 'l';
	}
	KUNIT_EXPECT_STREQ(test, order, expected);
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), -EAGAIN);
	KUNIT_EXPECT_EQ(test, user_destroy_qp(second, qp, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, strlen(happened));
	close_fd(fd);
	user_close(second);
}

static void channel_closed_before_its_cq(struct kunit *test)
{
	u32 handle;
	int fd;

	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &fd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, fd, &handle), 0);
	fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	KUNIT_EXPECT_EQ(test, fake->cq->uobject->comp.unread, 1);
	close_fd(fd);
	flush_delayed_fput();
	/* Later events are dropped. The one in the queue ends with its CQ. */
	fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	KUNIT_EXPECT_EQ(test, fake->cq->uobject->comp.unread, 1);
	KUNIT_EXPECT_EQ(test, user_destroy_cq(opened, handle, NULL), 0);
}

static void channel_of_another_file_is_ebadf(struct kunit *test)
{
	struct file *second = user_open();
	int fd, async_fd;
	u32 handle;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_ASSERT_EQ(test, user_get_context(second, &async_fd), 0);
	KUNIT_ASSERT_EQ(test, user_create_channel(second, &fd), 0);
	KUNIT_EXPECT_EQ(test, user_create_cq(opened, fd, &handle), -EBADF);
	KUNIT_EXPECT_EQ(test, user_create_cq(second, async_fd, &handle), -EBADF);
	KUNIT_EXPECT_EQ(test, user_create_cq(second, 12345, &handle), -EBADF);
	KUNIT_EXPECT_EQ(test, user_create_cq(second, fd, &handle), 0);
	close_fd(fd);
	close_fd(async_fd);
	user_close(second);
}

/* The file is freed: KASAN reports an event that still goes to it. */
static void closed_event_file_gets_no_event(struct kunit *test)
{
	struct ib_event cause = { .device = &fake->ib, .event = IB_EVENT_PORT_ERR };
	struct user_ioctl io;

	user_ioctl_begin(&io, UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
	user_attr(&io, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0, 0);
	KUNIT_ASSERT_EQ(test, user_ioctl(opened, &io), 0);
	close_fd(io.attrs[0].data);
	flush_delayed_fput();
	cause.element.port_num = 1;
	ib_dispatch_event(&cause);
	flush_workqueue(ib_wq);
	KUNIT_EXPECT_EQ(test, fake_live(fake), 3);
}

/* The reference on the GID ends with the command: user_end(). */
static void gid_entry_of_a_port(struct kunit *test)
{
	struct ib_uverbs_gid_entry entry = {};
	struct user_ioctl io;

	user_ioctl_begin(&io, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY);
	user_attr(&io, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 8, 1);
	user_attr(&io, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, 8, 0);
	user_attr(&io, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 4, 0);
	user_attr(&io, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, sizeof(entry), (u64)USER_RESPONSE);
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&entry, USER_RESPONSE, sizeof(entry)), 0UL);
	KUNIT_EXPECT_EQ(test, entry.port_num, 1U);
	KUNIT_EXPECT_EQ(test, entry.gid_index, 0U);
	KUNIT_EXPECT_EQ(test, ((u8 *)entry.gid)[0], 0x42);
}

struct reader {
	int fd;
	size_t size;			/* of its buffer */
	ssize_t read;
	struct completion begins, ended;
};

static int read_event(void *data)
{
	struct reader *reader = data;
	struct file *filp = fget(reader->fd);
	loff_t pos = 0;

	kthread_use_mm(user_mm);
	complete(&reader->begins);
	reader->read = filp->f_op->read(filp, USER_RESPONSE, reader->size, &pos);
	kthread_unuse_mm(user_mm);
	fput(filp);
	complete(&reader->ended);
	return 0;
}

/* Without O_NONBLOCK. Returns when the reader sleeps. */
static void start_reader(struct kunit *test, struct reader *reader, int fd, size_t size)
{
	struct task_struct *thread;

	reader->fd = fd;
	reader->size = size;
	init_completion(&reader->begins);
	init_completion(&reader->ended);
	thread = kthread_run(read_event, reader, "read");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	wait_for_completion(&reader->begins);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&reader->ended, HZ / 10), 0);
}

static ssize_t end_reader(struct reader *reader)
{
	return wait_for_completion_timeout(&reader->ended, 10 * HZ) ? reader->read : -ETIME;
}

/* Each event wakes one. A reader with a short buffer leaves it to another one. */
static void readers_sleep_until_an_event_comes(struct kunit *test)
{
	const size_t size = sizeof(struct ib_uverbs_comp_event_desc);
	struct reader short_one = {}, first = {}, second = {};
	u32 handle;
	int fd;

	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &fd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, fd, &handle), 0);
	start_reader(test, &short_one, fd, size - 1);
	start_reader(test, &first, fd, size);
	start_reader(test, &second, fd, size);
	fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	KUNIT_EXPECT_EQ(test, end_reader(&short_one), -EINVAL);
	KUNIT_EXPECT_EQ(test, end_reader(&first), size);
	fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	KUNIT_EXPECT_EQ(test, end_reader(&second), size);
	close_fd(fd);
}

static void all_readers_end_with_the_file(struct kunit *test)
{
	const size_t size = sizeof(struct ib_uverbs_comp_event_desc);
	struct reader first = {}, second = {};
	int fd;

	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &fd), 0);
	start_reader(test, &first, fd, size);
	start_reader(test, &second, fd, size);
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_EQ(test, end_reader(&first), -EIO);
	KUNIT_EXPECT_EQ(test, end_reader(&second), -EIO);
	close_fd(fd);
}

/* The softirq of the card calls the handler, and serves all users of the card. */
static void the_handler_wakes_no_pollers(struct kunit *test)
{
	struct file *filp;
	u32 handle;
	int fd;

	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &fd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, fd, &handle), 0);
	filp = fget(fd);
	pollers_begin(test, filp);
	fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	pollers_end(test);
	fput(filp);
	close_fd(fd);
}

static void async_events_of_qp_and_device(struct kunit *test)
{
	struct ib_uverbs_async_event_desc event = {};
	struct ib_event cause = { .device = &fake->ib };
	struct file *second = user_open();
	u32 second_pd, second_cq, qp, reported;
	int fd;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_ASSERT_EQ(test, user_get_context(second, &fd), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(second, &second_pd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(second, -1, &second_cq), 0);
	KUNIT_ASSERT_EQ(test, user_create_qp(second, second_pd, second_cq, -1, &qp), 0);
	cause.element.qp = fake->qp;
	cause.event = IB_EVENT_QP_FATAL;
	fake->qp->event_handler(&cause, fake->qp->qp_context);
	fake->qp->event_handler(&cause, fake->qp->qp_context);
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), sizeof(event));
	KUNIT_EXPECT_EQ(test, event.element, USER_COOKIE);
	KUNIT_EXPECT_EQ(test, (int)event.event_type, IB_EVENT_QP_FATAL);
	KUNIT_EXPECT_EQ(test, user_destroy_qp(second, qp, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1);
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), -EAGAIN);

	cause.element.port_num = 1;
	cause.event = IB_EVENT_PORT_ERR;
	ib_dispatch_event(&cause);
	flush_workqueue(ib_wq);
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), sizeof(event));
	KUNIT_EXPECT_EQ(test, event.element, 1);
	KUNIT_EXPECT_EQ(test, (int)event.event_type, IB_EVENT_PORT_ERR);
	user_close(second);
	/* The queue is closed. */
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), -EIO);
	KUNIT_EXPECT_EQ(test, (int)user_poll(fd), (int)EPOLLERR);
	close_fd(fd);
}

/* --- concurrent calls ------------------------------------------------------------------------- */

static int get_and_put_pd(void *data)
{
	struct uv_file *file = opened->private_data;
	struct ib_uobject *uobj;
	int i;

	for (i = 0; i < 2000; i++) {
		uobj = uv_object_get(file, &uv_pd, pd, UV_READ);
		if (!IS_ERR(uobj)) {
			cond_resched();
			uv_object_unlock(uobj, UV_READ);
		}
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void destroy_of_locked_object_is_ebusy(struct kunit *test)
{
	struct task_struct *threads[3];
	unsigned int i, busy = 0;
	int err;

	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		threads[i] = kthread_run(get_and_put_pd, NULL, "use");
		KUNIT_ASSERT_FALSE(test, IS_ERR(threads[i]));
	}
	while ((err = user_dealloc_pd(opened, pd)) == -EBUSY) {
		busy++;
		cond_resched();
	}
	KUNIT_EXPECT_EQ_MSG(test, err, 0, "after %u times EBUSY", busy);
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		kthread_stop(threads[i]);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_PD], 0);
}

static struct kunit_case dispatch_cases[] = {
	KUNIT_CASE(open_allocates_without_lists_mutex),
	KUNIT_CASE_PARAM(create_and_destroy_by_write, kind_gen_params),
	KUNIT_CASE_PARAM(destroy_by_ioctl, kind_gen_params),
	KUNIT_CASE_PARAM(failed_creation_leaves_no_handle, kind_gen_params),
	KUNIT_CASE_PARAM(unwritable_response_undoes_creation, kind_gen_params),
	KUNIT_CASE_PARAM(failed_destroy_keeps_the_object, kind_gen_params),
	KUNIT_CASE_PARAM(handle_of_another_file_is_enoent, kind_gen_params),
	KUNIT_CASE_PARAM(close_destroys_the_object, kind_gen_params),
	KUNIT_CASE(close_frees_objects),
	KUNIT_CASE(calls_and_failures_are_counted),
	KUNIT_CASE(destroy_of_used_object_is_ebusy),
	KUNIT_CASE(close_destroys_newest_first),
	KUNIT_CASE(close_repeats_failed_destroys),
	KUNIT_CASE(rereg_mr_changes_pd),
	KUNIT_CASE(rereg_mr_replaces_region),
	KUNIT_CASE(commands_need_a_context),
	KUNIT_CASE(table_of_mappings_is_charged_to_the_memcg),
	KUNIT_CASE(unwritable_response_undoes_context),
	KUNIT_CASE(unwritable_attribute_undoes_async_file),
	KUNIT_CASE(invoke_write_without_its_mark_creates_nothing),
	KUNIT_CASE(post_send_returns_bad_wr),
	KUNIT_CASE(close_detaches_mcast),
	KUNIT_CASE(close_repeats_destroy_of_a_qp_with_groups),
	KUNIT_CASE(refused_cq_releases_its_channel),
	KUNIT_CASE(completion_events_are_read_and_counted),
	KUNIT_CASE(events_need_no_allocation),
	KUNIT_CASE(cqs_of_a_channel_alternate),
	KUNIT_CASE(async_events_keep_their_order),
	KUNIT_CASE(full_runs_keep_the_latest_order),
	KUNIT_CASE(channel_closed_before_its_cq),
	KUNIT_CASE(channel_of_another_file_is_ebadf),
	KUNIT_CASE(closed_event_file_gets_no_event),
	KUNIT_CASE(gid_entry_of_a_port),
	KUNIT_CASE(readers_sleep_until_an_event_comes),
	KUNIT_CASE(all_readers_end_with_the_file),
	KUNIT_CASE(the_handler_wakes_no_pollers),
	KUNIT_CASE(async_events_of_qp_and_device),
	KUNIT_CASE(destroy_of_locked_object_is_ebusy),
	{}
};

TEST_SUITE("t3_uverbs_dispatch", dispatch_cases, .suite_init = user_suite_init,
	   .suite_exit = user_suite_exit, .init = dispatch_init, .exit = user_end);
