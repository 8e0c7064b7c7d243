// SPDX-License-Identifier: GPL-2.0
/* Commands on a device without hardware: what is made, undone, refused and reported. */
#include "kinds.h"

static int dispatch_init(struct kunit *test)
{
	user_answer_at = NULL;
	user_begin(test, true);
	KUNIT_ASSERT_EQ(test, user_get_context(opened, NULL), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &pd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, -1, &cq), 0);
	return 0;
}

/* --- every kind of object ------------------------------------------------------------- */

static void object_is_made_and_destroyed(struct kunit *test)
{
	const struct object_kind *of = test->param_value;
	int before = fake->live[of->kind];
	u32 handle;

	KUNIT_ASSERT_EQ(test, of->make(opened, &handle), 0);
	KUNIT_EXPECT_EQ(test, fake->live[of->kind], before + 1);
	KUNIT_EXPECT_EQ(test, of->unmake(opened, handle), 0);
	KUNIT_EXPECT_EQ(test, fake->live[of->kind], before);
	KUNIT_EXPECT_EQ(test, of->unmake(opened, handle), -ENOENT);
}

static void object_is_destroyed_by_ioctl(struct kunit *test)
{
	const struct object_kind *of = test->param_value;
	int before = fake->live[of->kind];
	u32 handle;

	KUNIT_ASSERT_EQ(test, of->make(opened, &handle), 0);
	KUNIT_EXPECT_EQ(test, user_ioctl_destroy(opened, of->object, of->method, handle,
						 of->response), 0);
	KUNIT_EXPECT_EQ(test, fake->live[of->kind], before);
	KUNIT_EXPECT_EQ(test, user_ioctl_destroy(opened, of->object, of->method, handle,
						 of->response), -ENOENT);
}

/* Something is made in vain once, and leaves nothing: no object, no handle, no use of others. */
static void undone(struct kunit *test, int driver_says, void __user *answer_at, int result)
{
	const struct object_kind *of = test->param_value;
	int before = fake_live(fake);
	u32 handle, again;

	KUNIT_ASSERT_EQ(test, of->make(opened, &handle), 0);
	KUNIT_ASSERT_EQ(test, of->unmake(opened, handle), 0);
	fake->fail_make[of->kind] = driver_says;
	user_answer_at = answer_at;
	KUNIT_EXPECT_EQ(test, of->make(opened, &again), result);
	user_answer_at = NULL;
	KUNIT_EXPECT_EQ(test, fake_live(fake), before);
	KUNIT_EXPECT_EQ(test, of->make(opened, &again), 0);
	KUNIT_EXPECT_EQ(test, again, handle);
	KUNIT_EXPECT_EQ(test, of->unmake(opened, again), 0);
	KUNIT_EXPECT_EQ(test, unmake_cq(opened, cq), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), 0);
}

static void driver_that_refuses_leaves_no_handle(struct kunit *test)
{
	undone(test, -ENOSPC, NULL, -ENOSPC);
}

static void answer_that_cannot_be_written_undoes_all(struct kunit *test)
{
	undone(test, 0, USER_HOLE, -EFAULT);
}

static void driver_that_will_not_destroy_keeps_the_object(struct kunit *test)
{
	const struct object_kind *of = test->param_value;
	u32 handle;

	KUNIT_ASSERT_EQ(test, of->make(opened, &handle), 0);
	fake->fail_destroy[of->kind] = -EBUSY;
	KUNIT_EXPECT_EQ(test, of->unmake(opened, handle), -EBUSY);
	KUNIT_EXPECT_EQ(test, of->unmake(opened, handle), 0);
}

static void handle_of_another_file_is_none(struct kunit *test)
{
	const struct object_kind *of = test->param_value;
	struct file *second = user_open();
	u32 handle;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_ASSERT_EQ(test, of->make(opened, &handle), 0);
	KUNIT_EXPECT_EQ(test, of->unmake(second, handle), -ENOENT);
	KUNIT_EXPECT_EQ(test, of->unmake(opened, handle), 0);
	user_close(second);
}

static void closing_destroys_it(struct kunit *test)
{
	const struct object_kind *of = test->param_value;
	u32 handle;

	KUNIT_ASSERT_EQ(test, of->make(opened, &handle), 0);
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_EQ(test, fake_live(fake), 0);
}

/* --- what uses what ---------------------------------------------------------------------- */

static void what_is_in_use_cannot_be_destroyed(struct kunit *test)
{
	u32 mr, mw, qp, srq, ah;

	KUNIT_ASSERT_EQ(test, user_create_srq(opened, pd, &srq), 0);
	KUNIT_ASSERT_EQ(test, user_create_qp(opened, pd, cq, srq, &qp), 0);
	KUNIT_EXPECT_EQ(test, unmake_cq(opened, cq), -EBUSY);
	KUNIT_EXPECT_EQ(test, unmake_srq(opened, srq), -EBUSY);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, unmake_qp(opened, qp), 0);
	KUNIT_EXPECT_EQ(test, unmake_cq(opened, cq), 0);
	KUNIT_EXPECT_EQ(test, unmake_srq(opened, srq), 0);

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

static void closing_destroys_the_newest_first(struct kunit *test)
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

/* An older object that was given a younger one to use: a second round finds it free. */
static void closing_tries_again(struct kunit *test)
{
	u32 mr, young;
	struct ib_uverbs_rereg_mr request = { .flags = IB_MR_REREG_PD };
	struct ib_uverbs_rereg_mr_resp response;

	KUNIT_ASSERT_EQ(test, user_reg_mr(opened, pd, &mr), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &young), 0);
	request.mr_handle = mr;
	request.pd_handle = young;
	KUNIT_ASSERT_EQ(test, ASK(opened, REREG_MR, &request, &response), 0);
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_STREQ(test, fake->order, "rcppx");
}

static void region_moves_to_another_domain(struct kunit *test)
{
	struct ib_uverbs_rereg_mr request = { .flags = IB_MR_REREG_PD };
	struct ib_uverbs_rereg_mr_resp response;
	u32 mr, second;

	KUNIT_ASSERT_EQ(test, user_reg_mr(opened, pd, &mr), 0);
	KUNIT_ASSERT_EQ(test, user_alloc_pd(opened, &second), 0);
	request.mr_handle = mr;
	request.pd_handle = second;
	KUNIT_EXPECT_EQ(test, ASK(opened, REREG_MR, &request, &response), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, second), -EBUSY);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), 0);
	KUNIT_EXPECT_EQ(test, user_dereg_mr(opened, mr), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, second), 0);
}

/* The driver may answer with a new region: the handle stays. */
static void region_is_replaced(struct kunit *test)
{
	struct ib_uverbs_rereg_mr request = { .flags = IB_MR_REREG_ACCESS };
	struct ib_uverbs_rereg_mr_resp response;
	u32 mr;

	fake->rereg_makes_new = true;
	KUNIT_ASSERT_EQ(test, user_reg_mr(opened, pd, &mr), 0);
	request.mr_handle = mr;
	KUNIT_EXPECT_EQ(test, ASK(opened, REREG_MR, &request, &response), 0);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_MR], 1);
	/* The old one will not go: the new one is given up. */
	fake->fail_destroy[FAKE_MR] = -EBUSY;
	KUNIT_EXPECT_EQ(test, ASK(opened, REREG_MR, &request, &response), -EBUSY);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_MR], 1);
	KUNIT_EXPECT_EQ(test, user_dereg_mr(opened, mr), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, pd), 0);
}

/* --- the context ------------------------------------------------------------------------------ */

static void nothing_goes_without_a_context(struct kunit *test)
{
	struct file *second = user_open();
	u32 handle;

	KUNIT_ASSERT_FALSE(test, IS_ERR(second));
	KUNIT_EXPECT_EQ(test, user_alloc_pd(second, &handle), -EINVAL);
	fake->fail_make[FAKE_CTX] = -ENOMEM;
	KUNIT_EXPECT_EQ(test, user_get_context(second, NULL), -ENOMEM);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(second, &handle), -EINVAL);
	KUNIT_EXPECT_EQ(test, user_get_context(second, NULL), 0);
	KUNIT_EXPECT_EQ(test, user_get_context(second, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(second, &handle), 0);
	user_close(second);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_CTX], 1);
}

/* --- requests that act ----------------------------------------------------------------------- */

/* Two requests of two elements each, the second one with an id of the caller's choice. */
static int post_two(u32 qp, u64 second_id, u32 *bad)
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
	err = ASK(opened, POST_SEND, &request, &response);
	if (copy_from_user(&response, USER_RESPONSE, sizeof(response)))
		return -EIO;
	*bad = response.bad_wr;
	return err;
}

static void requests_are_posted(struct kunit *test)
{
	u32 qp, bad;

	KUNIT_ASSERT_EQ(test, make_qp(opened, &qp), 0);
	KUNIT_EXPECT_EQ(test, post_two(qp, 7, &bad), 0);
	KUNIT_EXPECT_EQ(test, bad, 0);
	KUNIT_EXPECT_EQ(test, fake->posted, 6);
	/* The driver takes the first only: the caller learns which one it was. */
	KUNIT_EXPECT_EQ(test, post_two(qp, 13, &bad), -ENOMEM);
	KUNIT_EXPECT_EQ(test, bad, 2);
	KUNIT_EXPECT_EQ(test, fake->posted, 9);
}

static void groups_are_left_with_the_queue_pair(struct kunit *test)
{
	struct ib_uverbs_attach_mcast request = { .gid = { 0xff, 0x0e } };
	u32 qp;

	KUNIT_ASSERT_EQ(test, make_qp(opened, &qp), 0);
	request.qp_handle = qp;
	/* ib_core has groups for UD only. */
	fake->qp->qp_type = IB_QPT_UD;
	KUNIT_EXPECT_EQ(test, TELL(opened, ATTACH_MCAST, &request), 0);
	KUNIT_EXPECT_EQ(test, TELL(opened, ATTACH_MCAST, &request), 0);	/* is in it already */
	KUNIT_EXPECT_EQ(test, fake->multicast, 1);
	KUNIT_EXPECT_EQ(test, unmake_qp(opened, qp), -EBUSY);
	KUNIT_EXPECT_EQ(test, TELL(opened, DETACH_MCAST, &request), 0);
	KUNIT_EXPECT_EQ(test, TELL(opened, DETACH_MCAST, &request), -EINVAL);
	KUNIT_EXPECT_EQ(test, TELL(opened, ATTACH_MCAST, &request), 0);
	user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_EQ(test, fake->multicast, 0);
}

/* --- events ----------------------------------------------------------------------------------- */

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
	/* One was read; the other goes with its CQ. */
	KUNIT_EXPECT_EQ(test, user_destroy_cq(opened, handle, &response), 0);
	KUNIT_EXPECT_EQ(test, response.comp_events_reported, 1);
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), -EAGAIN);
	close_fd(fd);
}

/* A program that reads none takes no more memory, and no event is lost for want of it. */
static void unread_events_take_no_memory(struct kunit *test)
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

/* Two queues that share a channel: neither keeps the other's events waiting. */
static void queues_of_a_channel_take_turns(struct kunit *test)
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
		KUNIT_ASSERT_EQ(test, ASK(opened, CREATE_CQ, &request, &response), 0);
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

/* What happened to a queue pair, in the order in which it happened, without memory for it. */
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
	/* More runs than there is place for: none is lost. */
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

static void channel_may_be_closed_before_its_queue(struct kunit *test)
{
	u32 handle;
	int fd;

	KUNIT_ASSERT_EQ(test, user_create_channel(opened, &fd), 0);
	KUNIT_ASSERT_EQ(test, user_create_cq(opened, fd, &handle), 0);
	fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	close_fd(fd);
	flush_delayed_fput();
	fake->cq->comp_handler(fake->cq, fake->cq->cq_context);
	KUNIT_EXPECT_EQ(test, user_destroy_cq(opened, handle, NULL), 0);
}

static void only_channels_of_this_file_count(struct kunit *test)
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

static void events_of_objects_and_of_the_device(struct kunit *test)
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
	/* Nothing will come any more. */
	KUNIT_EXPECT_EQ(test, user_read_event(fd, &event, sizeof(event)), -EIO);
	KUNIT_EXPECT_EQ(test, (int)user_poll(fd), (int)EPOLLERR);
	close_fd(fd);
}

/* --- several at once -------------------------------------------------------------------------- */

static int use_domain(void *data)
{
	struct uv_file *file = opened->private_data;
	struct ib_uobject *uobj;
	int i;

	for (i = 0; i < 2000; i++) {
		uobj = uv_object_get(file, &uv_pd, pd, UV_READ);
		if (!IS_ERR(uobj)) {
			cond_resched();
			uv_object_put(uobj, UV_READ);
		}
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void destroying_waits_for_nobody(struct kunit *test)
{
	struct task_struct *threads[3];
	unsigned int i, busy = 0;
	int err;

	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		threads[i] = kthread_run(use_domain, NULL, "use");
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
	KUNIT_CASE_PARAM(object_is_made_and_destroyed, kind_gen_params),
	KUNIT_CASE_PARAM(object_is_destroyed_by_ioctl, kind_gen_params),
	KUNIT_CASE_PARAM(driver_that_refuses_leaves_no_handle, kind_gen_params),
	KUNIT_CASE_PARAM(answer_that_cannot_be_written_undoes_all, kind_gen_params),
	KUNIT_CASE_PARAM(driver_that_will_not_destroy_keeps_the_object, kind_gen_params),
	KUNIT_CASE_PARAM(handle_of_another_file_is_none, kind_gen_params),
	KUNIT_CASE_PARAM(closing_destroys_it, kind_gen_params),
	KUNIT_CASE(what_is_in_use_cannot_be_destroyed),
	KUNIT_CASE(closing_destroys_the_newest_first),
	KUNIT_CASE(closing_tries_again),
	KUNIT_CASE(region_moves_to_another_domain),
	KUNIT_CASE(region_is_replaced),
	KUNIT_CASE(nothing_goes_without_a_context),
	KUNIT_CASE(requests_are_posted),
	KUNIT_CASE(groups_are_left_with_the_queue_pair),
	KUNIT_CASE(completion_events_are_read_and_counted),
	KUNIT_CASE(unread_events_take_no_memory),
	KUNIT_CASE(queues_of_a_channel_take_turns),
	KUNIT_CASE(async_events_keep_their_order),
	KUNIT_CASE(channel_may_be_closed_before_its_queue),
	KUNIT_CASE(only_channels_of_this_file_count),
	KUNIT_CASE(events_of_objects_and_of_the_device),
	KUNIT_CASE(destroying_waits_for_nobody),
	{}
};

static struct kunit_suite dispatch_suite = {
	.name = "t3_uverbs_dispatch",
	.suite_init = user_suite_init,
	.suite_exit = user_suite_exit,
	.init = dispatch_init,
	.exit = user_end,
	.test_cases = dispatch_cases,
};

kunit_test_suites(&dispatch_suite);

MODULE_LICENSE("GPL");
