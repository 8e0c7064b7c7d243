// SPDX-License-Identifier: GPL-2.0
/* The reference of a connection on its QP. */
#include "conversation.h"

struct qp_race {
	const char *name;
	void (*at_point)(void);
	bool passive, untracked;
};

static const struct qp_race qp_races[] = {
	{ "connect, destroy", fake_destroy_qp, false, false },
	{ "connect, close", fake_close_verbs, false, false },
	{ "accept, destroy", fake_destroy_qp, true, false },
	{ "accept, close", fake_close_verbs, true, false },
	{ "connect, destroy, not tracked", fake_destroy_qp, false, true },
	{ "accept, destroy, not tracked", fake_destroy_qp, true, true },
};

/* Points that each call reaches: only with a QP that is tracked, and with any. */
static const char *const points_of_tracked[] = { "cm_qp_found", "cm_qp_held" };

static const char *const points_of_connect[] = {
	"cm_qp_entry_held", "cm_connect_provider", "cm_connect_called",
};

static const char *const points_of_accept[] = {
	"cm_qp_entry_held", "cm_accept_provider", "cm_accept_called",
};

NAMED_PARAM(qp_race, qp_races);

static void qp_destroyed_at(struct kunit *test, const struct qp_race *race, const char *point)
{
	int ret;

	begin(test, IN_PROCESS);
	fake.untracked = race->untracked;
	run_shorthand(test, race->passive ? REQUESTED : READY);
	fake.at_point = race->at_point;
	fake.point = point;
	ret = call(race->passive ? ACCEPT : CONNECT);
	KUNIT_EXPECT_NULL_MSG(test, fake.point, "the call did not come to %s", point);
	KUNIT_EXPECT_FALSE_MSG(test, fake.qp_used_after_free, "%s", point);
	if (ret) {
		KUNIT_EXPECT_EQ_MSG(test, ret, -EINVAL, "%s", point);
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&fake.qp_refs), 0, "%s", point);
	} else {
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&fake.qp_refs), 1, "%s", point);
		KUNIT_EXPECT_FALSE_MSG(test, fake.qp_freed, "%s", point);
	}
	if (!race->untracked)
		KUNIT_EXPECT_FALSE_MSG(test, fake.qp_not_found, "%s", point);
	end(test);
}

/*
 * E9. A process destroys a QP while another thread connects it. No reference is taken on a QP that
 * was freed; and if the QP is tracked, the provider never looks for one that was freed.
 */
static void a_qp_is_destroyed_during_connect(struct kunit *test)
{
	const struct qp_race *race = test->param_value;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(points_of_tracked) && !race->untracked; i++)
		qp_destroyed_at(test, race, points_of_tracked[i]);
	for (i = 0; i < ARRAY_SIZE(points_of_connect); i++)
		qp_destroyed_at(test, race, race->passive ? points_of_accept[i] :
							   points_of_connect[i]);
}

/* The id takes a reference on a QP that resource tracking lacks, too. */
static void a_qp_that_is_not_tracked(struct kunit *test)
{
	begin(test, IN_PROCESS);
	fake.untracked = true;
	run_shorthand(test, READY);
	KUNIT_EXPECT_EQ(test, call(CONNECT), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 1);
	KUNIT_EXPECT_EQ(test, fake_report(FAKE_REPLY, 0), 0);
	flush_events();
	KUNIT_EXPECT_EQ(test, call(DISCONNECT), 0);
	KUNIT_EXPECT_EQ(test, fake.closes, 1u);
	end(test);
}

/* A provider frees a QP that iw_get_qp() has returned only after a grace period. */
static void an_object_is_not_looked_up(struct kunit *test)
{
	begin(test, IN_PROCESS);
	run_shorthand(test, READY);
	KUNIT_EXPECT_EQ(test, call(CONNECT), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 1);
	KUNIT_EXPECT_EQ(test, fake.qp_lookups, 0u);
	end(test);
}

/* Dumpable or not: as after a change of its credentials. A task that has ended has no memory. */
static void set_task_dumpable(struct kunit *test, struct task_struct *task, bool dumpable)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
	task->mm = kunit_kzalloc(test, sizeof(*task->mm), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, task->mm);
	task->mm->flags = dumpable ? SUID_DUMP_USER : SUID_DUMP_ROOT;
#else
	struct task_exec_state *state = kunit_kzalloc(test, sizeof(*state), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, state);
	state->dumpable = dumpable ? TASK_DUMPABLE_OWNER : TASK_DUMPABLE_ROOT;
	rcu_assign_pointer(task->exec_state, state);
#endif
}

/* A process of another user that has ended, with the number of the present one. */
static struct task_struct *ended_process(struct kunit *test, struct cred *cred)
{
	struct task_struct *task = kunit_kzalloc(test, sizeof(*task), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, task);
	task->signal = kunit_kzalloc(test, sizeof(*task->signal), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, task->signal);
	task->tgid = current->tgid;
	cred->uid = KUIDT_INIT(1000);
	rcu_assign_pointer(task->real_cred, cred);
	spin_lock_init(&task->alloc_lock);
	set_task_dumpable(test, task, true);
	task->mm = NULL;
	return task;
}

/*
 * A process can guess numbers: it must not connect QPs of modules or of other users, also if it
 * has the number that the creator had.
 */
static void a_process_connects_its_own_qps(struct kunit *test)
{
	struct cred cred = {};
	struct task_struct *other_task = ended_process(test, &cred);

	begin(test, IN_PROCESS);
	run_shorthand(test, READY);
	fake.qp.res.task = other_task;
	fake.point = "cm_uobject_taken";	/* a destroy by the owner would fail there */
	fake.at_point = fake_destroy_qp;
	KUNIT_EXPECT_EQ(test, call(CONNECT), -EINVAL);
	KUNIT_EXPECT_NOT_NULL(test, fake.point);
	fake.point = NULL;
	fake.qp.uobject = NULL;
	fake.qp.res.task = NULL;
	KUNIT_EXPECT_EQ(test, call(CONNECT), -EINVAL);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 0);
	fake_assign_qp_to_process();
	KUNIT_EXPECT_EQ(test, call(CONNECT), 0);
	end(test);
}

/* Another process of the same user, as after a fork; and a set-uid program that he has started. */
static void a_process_connects_qps_of_those_that_it_may_trace(struct kunit *test)
{
	struct cred cred = *current_cred();
	struct task_struct *other_task = ended_process(test, &cred);

	cred.uid = current_uid();
	begin(test, IN_PROCESS);
	run_shorthand(test, READY);
	fake.qp.res.task = other_task;
	cred.euid = KUIDT_INIT(1000);
	KUNIT_EXPECT_EQ(test, call(CONNECT), -EINVAL);
	cred.euid = current_uid();
	/* It was privileged when it created the QP, and has this user's ids now. */
	set_task_dumpable(test, other_task, false);
	KUNIT_EXPECT_EQ(test, call(CONNECT), -EINVAL);
	set_task_dumpable(test, other_task, true);
	KUNIT_EXPECT_EQ(test, call(CONNECT), 0);
	end(test);
}

static struct task_struct *next_creator;

static void the_number_is_that_of_another_qp(void)
{
	fake.qp.res.task = next_creator;
}

/*
 * The same for a QP that resource tracking lacks, as while it is being created: the provider is not
 * called. If the number is that of another QP by then, the owner is found inside the call. The
 * connection is aborted, and no reference is left.
 */
static void the_qp_of_another_user_is_not_tracked(struct kunit *test)
{
	static const struct conversation closed = { "aborted at once", {
		S(IN_CALL_REPLY), S(CONNECT), S(GOT_ESTABLISHED), V(ABORTS, 1),
		V(GOT_DISCONNECTED, -ECONNRESET), S(GOT_NOTHING) } };
	static const struct conversation failed = { "aborted while connecting", {
		S(CONNECT), V(CANCELS, 1), V(REPLY, -ECONNRESET), V(GOT_REJECTED, -ECONNRESET),
		S(GOT_NOTHING) } };
	static const struct conversation late = { "established all the same", {
		S(CONNECT), V(CANCELS, 1), V(REPLY, 0), S(GOT_ESTABLISHED), V(CLOSES, 1), S(CLOSE),
		S(GOT_DISCONNECTED), S(GOT_NOTHING) } };
	static const struct conversation accepted = { "an accept is aborted", {
		S(IN_CALL_ESTABLISHED), S(ACCEPT), S(GOT_ESTABLISHED), V(ABORTS, 1),
		V(GOT_DISCONNECTED, -ECONNRESET), S(GOT_NOTHING) } };
	static const struct conversation *const ends[] = { &closed, &failed, &late, &accepted };
	struct cred cred = {};
	struct task_struct *other_task = ended_process(test, &cred);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		begin(test, IN_PROCESS);
		fake.untracked = true;
		run_shorthand(test, ends[i] == &accepted ? REQUESTED : READY);
		next_creator = other_task;
		fake.point = ends[i] == &accepted ? "cm_accept_provider" : "cm_connect_provider";
		fake.at_point = the_number_is_that_of_another_qp;
		run(test, ends[i]);
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&fake.qp_refs), 0, "%s", ends[i]->name);
		end(test);
	}
	/* The command waits between the first check and the provider's call. */
	for (i = 0; i < 2; i++) {
		begin(test, IN_PROCESS);
		fake.untracked = true;
		run_shorthand(test, i ? REQUESTED : READY);
		next_creator = other_task;
		fake.point = i ? "cm_accept_begins" : "cm_connect_waits";
		fake.at_point = the_number_is_that_of_another_qp;
		KUNIT_EXPECT_EQ(test, call(i ? ACCEPT : CONNECT), -EINVAL);
		KUNIT_EXPECT_EQ(test, fake.rejects, i);
		KUNIT_EXPECT_EQ(test, fake.cancels, 0u);
		KUNIT_EXPECT_EQ(test, atomic_read(&fake.qp_refs), 0);
		end(test);
	}
	begin(test, IN_PROCESS);
	fake.untracked = true;
	run_shorthand(test, READY);
	fake.qp.res.task = other_task;
	KUNIT_EXPECT_EQ(test, call(CONNECT), -EINVAL);
	KUNIT_EXPECT_NULL(test, fake.conn);
	KUNIT_EXPECT_EQ(test, fake.cancels, 0u);
	end(test);
}

static int qp_refs_of_destroy;
static enum fake_event abort_event;

/*
 * Destroys its QP when the device is removed, as in-tree iser does. The driver aborts the
 * connection, and waits for the last reference on the QP.
 */
static int handler_that_destroys_its_qp(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		fake_report(abort_event, -ECONNRESET);
		qp_refs_of_destroy = atomic_read(&fake.qp_refs);
	}
	return handler(id, event);
}

struct qp_removal {
	const char *name;
	bool passive, disconnect;
	enum fake_event abort_event;
};

static const struct qp_removal qp_removals[] = {
	{ "connecting, failed reply", false, false, FAKE_REPLY },
	{ "connecting, CLOSE", false, false, FAKE_CLOSE },
	{ "cancelling, failed reply", false, true, FAKE_REPLY },
	{ "accepting, CLOSE", true, false, FAKE_CLOSE },
};

NAMED_PARAM(qp_removal, qp_removals);

/*
 * A handler of DEVICE_REMOVAL destroys the QP while the provider connects it. The worker, which
 * handles the end of the connection, is busy with that handler. So the upcall puts the reference.
 */
static void a_removal_handler_destroys_the_qp(struct kunit *test)
{
	const struct qp_removal *qp_removal = test->param_value;

	begin(test, IN_PROCESS);
	run_shorthand(test, qp_removal->passive ? REQUESTED : READY);
	destroy(&listener);
	KUNIT_ASSERT_EQ(test, call(qp_removal->passive ? ACCEPT : CONNECT), 0);
	if (qp_removal->disconnect)
		KUNIT_ASSERT_EQ(test, call(DISCONNECT), 0);
	qp_refs_of_destroy = -1;
	abort_event = qp_removal->abort_event;
	id->event_handler = handler_that_destroys_its_qp;
	remove_device();
	expect_event(test, "removal", 0, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	KUNIT_EXPECT_EQ_MSG(test, qp_refs_of_destroy, 0, "the destroy of the QP waits for ever");
	end(test);
}

static struct kunit_case cm_qp_cases[] = {
	KUNIT_CASE_PARAM(a_qp_is_destroyed_during_connect, qp_race_gen_params),
	KUNIT_CASE(a_qp_that_is_not_tracked),
	KUNIT_CASE(an_object_is_not_looked_up),
	KUNIT_CASE(a_process_connects_its_own_qps),
	KUNIT_CASE(a_process_connects_qps_of_those_that_it_may_trace),
	KUNIT_CASE(the_qp_of_another_user_is_not_tracked),
	KUNIT_CASE_PARAM(a_removal_handler_destroys_the_qp, qp_removal_gen_params),
	{}
};

TEST_SUITE("t3_rdma_cm_qp", cm_qp_cases, .init = conversation_init, .exit = conversation_exit);
