// SPDX-License-Identifier: GPL-2.0
/*
 * RoCE over a fake ib_cm: datagrams (SIDR) from both ends, and multicast groups.
 */
#include "roce.h"

/* --- datagrams ---------------------------------------------------------------------- */

static void datagrams_active(struct kunit *test)
{
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(READY), S(CONNECT));
	KUNIT_EXPECT_EQ(test, fake_ib.sidr_reqs, 1u);
	KUNIT_EXPECT_EQ(test, fake_ib.service_id, service_of(RDMA_PS_UDP, 7000));
	fake_ib.qkey = RDMA_UDP_QKEY;
	fake_ib_event(IB_CM_SIDR_REP_RECEIVED, 0);
	STEPS(S(GOT_ESTABLISHED), V(DISCONNECT, -EINVAL), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.ah_refs, 1);
	STEPS(S(DESTROY));
}

static void datagrams_are_refused(struct kunit *test)
{
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_SIDR_REP_RECEIVED, IB_SIDR_REJECT);
	STEPS(V(GOT_UNREACHABLE, IB_SIDR_REJECT), S(DESTROY));
}

static void datagrams_with_another_q_key(struct kunit *test)
{
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	/* READY queries the attributes of a QP, which fixes the Q_Key. */
	STEPS(S(READY), S(CONNECT));
	fake_ib.qkey = 0x1111;
	fake_ib_event(IB_CM_SIDR_REP_RECEIVED, 0);
	STEPS(V(GOT_ERROR, -EINVAL), S(DESTROY));
}

static void datagrams_without_a_reply(struct kunit *test)
{
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_SIDR_REQ_ERROR, 0);
	STEPS(V(GOT_UNREACHABLE, -ETIMEDOUT), S(DESTROY));
}

static void datagrams_passive(struct kunit *test)
{
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(BIND), S(LISTEN));
	peer_header(FAKE_LOCAL);
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_SIDR_REQ_RECEIVED, RDMA_PS_UDP, 7000), 0);
	KUNIT_EXPECT_EQ(test, fake_ib.mras, 0u);
	take_request(test);
	STEPS(V(DATA, IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE - 36), S(ACCEPT), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, cm_state(to_cm_id(id)), CM_ST_CONNECTED);
	KUNIT_EXPECT_EQ(test, fake_ib.sidr_status, (int)IB_SIDR_SUCCESS);
	KUNIT_EXPECT_EQ(test, fake_ib.qkey, (u32)RDMA_UDP_QKEY);
	STEPS(V(DISCONNECT, -EINVAL), S(DESTROY));
}

static void a_datagram_request_is_rejected(struct kunit *test)
{
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(BIND), S(LISTEN));
	peer_header(FAKE_LOCAL);
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_SIDR_REQ_RECEIVED, RDMA_PS_UDP, 7000), 0);
	take_request(test);
	STEPS(S(REJECT));
	KUNIT_EXPECT_EQ(test, fake_ib.sidr_status, (int)IB_SIDR_REJECT);
	STEPS(S(DESTROY));
}

/* iWARP has no datagrams. */
static void datagrams_over_iwarp(struct kunit *test)
{
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

	roce_end(test);
	begin(test, IN_PROCESS);
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(READY), V(CONNECT, -EINVAL), S(GOT_NOTHING), S(DESTROY));
	id = make_id();
	KUNIT_ASSERT_NOT_NULL(test, id);
	id->qp_type = IB_QPT_UD;
	KUNIT_ASSERT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	STEPS(S(LISTEN));
	KUNIT_EXPECT_NULL(test, fake.listener);
	end(test);
	roce_begin(test);
}

/* --- multicast ---------------------------------------------------------------------- */

enum { GROUP = 0xe1010101 };	/* 225.1.1.1 */

static void may_join(struct kunit *test)
{
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(BIND));
}

static int join(u32 addr, u8 join_state, void *context)
{
	struct sockaddr_storage group = fake_address(addr, 0);

	return t3_rdma_join_multicast(id, (struct sockaddr *)&group, join_state, context);
}

static void leave(u32 addr)
{
	struct sockaddr_storage group = fake_address(addr, 0);

	cm_leave(to_cm_id(id), (struct sockaddr *)&group, NULL);
}

static void join_and_leave(struct kunit *test)
{
	static const u8 mgid[] = { [10] = 0xff, 0xff, 0xe1, 1, 1, 1 };

	may_join(test);
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), 0);
	expect_event(test, "join", 0, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	KUNIT_EXPECT_EQ(test, memcmp(&fake_ib.mgid, mgid, sizeof(mgid)), 0);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 1);
	leave(GROUP + 1);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 1);
	leave(GROUP);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.ah_refs, 0);
	leave(GROUP);
	STEPS(S(GOT_NOTHING), S(DESTROY));
}

/* A lookup between join and leave has found a route over another one. */
static void a_leave_is_on_the_interface_of_the_join(struct kunit *test)
{
	int *ifindex, before;

	may_join(test);
	ifindex = &id->route.addr.dev_addr.bound_dev_if;
	before = *ifindex;
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), 0);
	expect_event(test, "join", 0, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	*ifindex = 4711;
	leave(GROUP);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	*ifindex = before;
	STEPS(S(DESTROY));
}

static void a_sender_does_not_join_on_the_interface(struct kunit *test)
{
	may_join(test);
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(SENDONLY_FULLMEMBER_JOIN), NULL), 0);
	expect_event(test, "join", 0, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	STEPS(S(DESTROY));
}

static void joins_that_fail(struct kunit *test)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_addr.s6_addr = { 0xff, 0x0e } };

	may_join(test);
	KUNIT_EXPECT_EQ(test, join(FAKE_REMOTE, BIT(FULLMEMBER_JOIN), NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP,
			t3_rdma_join_multicast(id, (struct sockaddr *)&in6, BIT(FULLMEMBER_JOIN),
					       NULL));
	fake_ib.join_error = -ENOMEM;
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), -ENOMEM);
	fake_ib.join_error = 0;
	fake_ib.no_ipv4 = true;
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), -ENODEV);
	fake_ib.no_ipv4 = false;
	KUNIT_EXPECT_EQ_MSG(test, fake_ib.ah_refs, 0, "attributes of a group that was not joined");
	STEPS(S(LISTEN));
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), -EINVAL);
	STEPS(S(GOT_NOTHING));
	use_id(test, RDMA_PS_TCP, IB_QPT_RC);
	listener = NULL;
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), -EINVAL);
}

/* Each join and leave takes rtnl. */
static void the_groups_of_an_id_are_limited(struct kunit *test)
{
	u32 i;

	may_join(test);
	for (i = 0; i < 1024; i++)
		KUNIT_ASSERT_EQ(test, join(GROUP + i, BIT(FULLMEMBER_JOIN), NULL), 0);
	KUNIT_EXPECT_EQ(test, join(GROUP + i, BIT(FULLMEMBER_JOIN), NULL), -ENOBUFS);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 1024);
	leave(GROUP);
	KUNIT_EXPECT_EQ(test, join(GROUP + i, BIT(FULLMEMBER_JOIN), NULL), 0);
	flush_events();
	got.read = got.written;
	STEPS(S(DESTROY));
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
}

static void the_groups_of_a_user_are_limited(struct kunit *test)
{
	atomic_t *left;

	may_join(test);
	KUNIT_ASSERT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), 0);
	left = &to_cm_id(id)->user->left[CM_SHARE_GROUPS];
	KUNIT_EXPECT_EQ(test, atomic_read(left), CM_MAX_USER_GROUPS - 1);
	atomic_set(left, 0);
	KUNIT_EXPECT_EQ(test, join(GROUP + 1, BIT(FULLMEMBER_JOIN), NULL), -ENOBUFS);
	leave(GROUP);
	fake_ib.join_error = -ENOMEM;
	KUNIT_EXPECT_EQ(test, join(GROUP + 1, BIT(FULLMEMBER_JOIN), NULL), -ENOMEM);
	fake_ib.join_error = 0;
	KUNIT_EXPECT_EQ(test, join(GROUP + 1, BIT(FULLMEMBER_JOIN), NULL), 0);
	flush_events();
	got.read = got.written;
	STEPS(S(DESTROY));
}

static void joins_over_iwarp(struct kunit *test)
{
	roce_end(test);
	begin(test, IN_PROCESS);
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(BIND));
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), -ENOSYS);
	end(test);
	roce_begin(test);
}

/* C1: the event of a group that is left is not reported, neither from the queue nor deferred. */
static void a_leave_cancels_the_event(struct kunit *test)
{
	may_join(test);
	delay_worker();
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), 0);
	KUNIT_EXPECT_EQ(test, join(GROUP + 1, BIT(FULLMEMBER_JOIN), NULL), 0);
	leave(GROUP);
	run_worker();
	expect_event(test, "join", 0, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	STEPS(S(GOT_NOTHING), S(DESTROY));
}

static void a_destroy_leaves_all_groups(struct kunit *test)
{
	may_join(test);
	delay_worker();
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), 0);
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), &sent), 0);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 2);
	destroy(&id);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	run_worker();
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, got.written, 0u);
}

static void join_without_memory(struct kunit *test)
{
	int ret;

	may_join(test);
	allocations_fail();
	ret = join(GROUP, BIT(FULLMEMBER_JOIN), NULL);
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, failing.where ? 0 : 1);
	roce_again(test);
}

static void a_join_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, join_without_memory), 1u);
	failing.nth = 0;
}

static struct kunit_case roce_ud_cases[] = {
	KUNIT_CASE(datagrams_active),
	KUNIT_CASE(datagrams_are_refused),
	KUNIT_CASE(datagrams_with_another_q_key),
	KUNIT_CASE(datagrams_without_a_reply),
	KUNIT_CASE(datagrams_passive),
	KUNIT_CASE(a_datagram_request_is_rejected),
	KUNIT_CASE(datagrams_over_iwarp),
	KUNIT_CASE(join_and_leave),
	KUNIT_CASE(a_leave_is_on_the_interface_of_the_join),
	KUNIT_CASE(a_sender_does_not_join_on_the_interface),
	KUNIT_CASE(joins_that_fail),
	KUNIT_CASE(the_groups_of_an_id_are_limited),
	KUNIT_CASE(the_groups_of_a_user_are_limited),
	KUNIT_CASE(joins_over_iwarp),
	KUNIT_CASE(a_leave_cancels_the_event),
	KUNIT_CASE(a_destroy_leaves_all_groups),
	KUNIT_CASE(a_join_without_memory),
	{}
};

TEST_SUITE("t3_rdma_cm_roce_ud", roce_ud_cases, .init = roce_init,
	   .exit = roce_exit);
