// SPDX-License-Identifier: GPL-2.0
/*
 * JOIN_MCAST and LEAVE_MCAST: the groups of an id, their events, and joins that fail.
 */
#include "ucm_process.h"

/* An id for datagrams; the device has RoCE. */
static u32 id_for_datagrams(struct kunit *test)
{
	struct rdma_ucm_create_id_resp resp = {};
	struct rdma_ucm_create_id cmd = {
		.uid = 1, .response = (uintptr_t)&resp, .ps = RDMA_PS_UDP,
	};

	fake.cm_dev->transport = &cm_roce_transport;
	fake.port_data[1].immutable.core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	KUNIT_ASSERT_EQ(test, command(RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(resp)),
			0);
	KUNIT_ASSERT_EQ(test, bind(resp.id, FAKE_LOCAL), 0);
	return resp.id;
}

enum { GROUP = 0xe1010101 };	/* 225.1.1.1 */

static struct rdma_ucm_create_id_resp join_resp;

static int join_address(u32 id, u32 addr, u32 *group)
{
	struct sockaddr_storage to = fake_address(addr, 0);
	struct rdma_ucm_join_mcast cmd = {
		.response = (uintptr_t)&join_resp, .uid = 77, .id = id,
		.addr_size = sizeof(struct sockaddr_in),
	};

	int ret;

	memcpy(&cmd.addr, &to, sizeof(struct sockaddr_in));
	ret = command(RDMA_USER_CM_CMD_JOIN_MCAST, &cmd, sizeof(cmd), sizeof(join_resp));
	flush_workqueue(cm_wq);
	*group = join_resp.id;
	return ret;
}

static u32 join(struct kunit *test, u32 id)
{
	u32 group;

	KUNIT_ASSERT_EQ(test, join_address(id, GROUP, &group), 0);
	return group;
}

static int leave_of(struct file *of, u32 group, u32 *reported)
{
	struct rdma_ucm_destroy_id_resp resp = { .events_reported = 99 };
	struct rdma_ucm_destroy_id cmd = { .id = group, .response = (uintptr_t)&resp };
	int ret;

	ret = command_to(of, RDMA_USER_CM_CMD_LEAVE_MCAST, &cmd, sizeof(cmd), sizeof(resp));
	*reported = resp.events_reported;
	return ret;
}

static void a_group_is_joined_and_left(struct kunit *test)
{
	u32 id = id_for_datagrams(test), group = join(test, id), reported;

	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, event.event, (u32)RDMA_CM_EVENT_MULTICAST_JOIN);
	KUNIT_EXPECT_EQ(test, event.uid, 77ull);
	KUNIT_EXPECT_EQ(test, event.id, group);
	KUNIT_EXPECT_EQ(test, event.param.ud.qp_num, (u32)IB_MULTICAST_QPN);
	KUNIT_EXPECT_EQ(test, event.param.ud.qkey, (u32)RDMA_UDP_QKEY);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 1);
	KUNIT_EXPECT_EQ(test, leave_of(&other_filp, group, &reported), -EINVAL);
	KUNIT_EXPECT_EQ(test, leave_of(&filp, group, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1u);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	KUNIT_EXPECT_EQ(test, leave_of(&filp, group, &reported), -ENOENT);
	KUNIT_EXPECT_EQ(test, destroy(id, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1u);
}

static void a_group_is_left_with_an_unread_event(struct kunit *test)
{
	u32 id = id_for_datagrams(test), group = join(test, id), other = join(test, id), reported;

	KUNIT_EXPECT_EQ(test, leave_of(&filp, group, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 0u);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	KUNIT_EXPECT_EQ(test, event.id, other);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, destroy(id, NULL), 0);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_group_table));
}

static void leave_victim(void)
{
	during_copy = NULL;
	victim_result = leave_of(&filp, victim, &victim_reported);
}

static void a_group_is_left_while_its_event_is_copied(struct kunit *test)
{
	u32 id = id_for_datagrams(test), reported;

	victim = join(test, id);
	fail_the_copy(test, leave_victim);
	KUNIT_EXPECT_EQ(test, victim_reported, 1u);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, destroy(id, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 0u);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_group_table));
}

static bool found_early;

static void look_for_groups(void)
{
	unsigned long number = 0;

	found_early = xa_find(&ucm_group_table, &number, ULONG_MAX, XA_PRESENT);
}

/* C1: numbers are easy to guess. A LEAVE_MCAST of another thread would free the group. */
static void a_group_is_found_only_after_the_join(struct kunit *test)
{
	u32 id = id_for_datagrams(test), group, reported;

	found_early = true;
	fake.at_point = look_for_groups;
	fake.point = "ucm_group_joined";
	group = join(test, id);
	KUNIT_EXPECT_FALSE(test, found_early);
	KUNIT_EXPECT_EQ(test, leave_of(&filp, group, &reported), 0);
	KUNIT_EXPECT_EQ(test, destroy(id, NULL), 0);
}

static void leave_joined(void)
{
	unsigned long number = 0;

	during_copy = NULL;
	xa_find(&ucm_group_table, &number, ULONG_MAX, XA_PRESENT);
	victim_result = leave_of(&filp, number, &victim_reported);
}

static void destroy_joined(void)
{
	during_copy = NULL;
	victim_result = destroy(victim, &victim_reported);
}

/* Its number is unknown to user space. Meanwhile another thread may leave it, or destroy the id. */
static void a_join_whose_response_faults_leaves_no_group(struct kunit *test)
{
	static void (*const meanwhile[])(void) = { NULL, leave_joined, destroy_joined };
	unsigned int i;
	u32 group;

	for (i = 0; i < ARRAY_SIZE(meanwhile); i++) {
		victim = id_for_datagrams(test);
		victim_result = 0;
		slow_memory = &join_resp;
		unmapped_memory = &join_resp;
		during_copy = meanwhile[i];
		KUNIT_EXPECT_EQ(test, join_address(victim, GROUP, &group), -EFAULT);
		unmapped_memory = NULL;
		KUNIT_EXPECT_EQ(test, victim_result, 0);
		KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
		KUNIT_EXPECT_EQ(test, fake_ib.ah_refs, 0);
		KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_group_table));
		KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
		KUNIT_EXPECT_EQ(test, destroy(victim, NULL),
				meanwhile[i] == destroy_joined ? -ENOENT : 0);
	}
}

static void an_id_ends_with_its_groups(struct kunit *test)
{
	u32 id = id_for_datagrams(test), reported;

	join(test, id);
	KUNIT_EXPECT_EQ(test, get_event(), 0);
	join(test, id);
	KUNIT_EXPECT_EQ(test, destroy(id, &reported), 0);
	KUNIT_EXPECT_EQ(test, reported, 1u);
	KUNIT_EXPECT_EQ(test, get_event(), -EAGAIN);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.ah_refs, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.gid_refs, 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_group_table));
}

static void join_and_leave(struct kunit *test)
{
	u32 group, reported;
	int ret;

	allocations_fail();
	ret = join_address(victim, GROUP, &group);
	allocations_work();
	KUNIT_EXPECT_EQ(test, ret, get_event() ? -ENOMEM : 0);
	if (!ret)
		KUNIT_EXPECT_EQ(test, leave_of(&filp, group, &reported), 0);
	KUNIT_EXPECT_EQ_MSG(test, fake_ib.igmp, 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_TRUE_MSG(test, xa_empty(&ucm_group_table), "%s", alloc_that_failed());
}

static void a_join_that_fails_leaves_no_group(struct kunit *test)
{
	u32 group;

	victim = id_for_datagrams(test);
	KUNIT_EXPECT_EQ(test, join_address(victim, FAKE_REMOTE, &group), -EINVAL);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_group_table));
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, join_and_leave), 3u);
	uncharged_by_design(test);
}

static struct kunit_case ucm_multicast_cases[] = {
	KUNIT_CASE(a_group_is_joined_and_left),
	KUNIT_CASE(a_group_is_left_with_an_unread_event),
	KUNIT_CASE(a_group_is_left_while_its_event_is_copied),
	KUNIT_CASE(a_group_is_found_only_after_the_join),
	KUNIT_CASE(a_join_whose_response_faults_leaves_no_group),
	KUNIT_CASE(an_id_ends_with_its_groups),
	KUNIT_CASE(a_join_that_fails_leaves_no_group),
	{}
};

TEST_SUITE("t3_rdma_cm_ucm_multicast", ucm_multicast_cases, .init = open_files,
	   .exit = close_files);
