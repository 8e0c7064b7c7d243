// SPDX-License-Identifier: GPL-2.0
/*
 * RoCE over a fake ib_cm: connections from both ends, requests and their listeners, and the device.
 */
#include "roce.h"

/* --- the active end ------------------------------------------------------------ */

static void connected(struct kunit *test)
{
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(S(GOT_RESPONSE), V(DATA, IB_CM_REP_PRIVATE_DATA_SIZE), S(ESTABLISH));
	KUNIT_EXPECT_EQ(test, fake_ib.rtus, 1u);
}

static void a_request_has_the_addresses_of_annex_11(struct kunit *test)
{
	const struct cm_ip_header *header = (const void *)fake_ib.data;
	struct rdma_conn_param with_data = {
		.qp_num = 8, .private_data = "abc", .private_data_len = 3,
	};
	struct rdma_ucm_ece ece = { .vendor_id = 3, .attr_mod = 4 };

	STEPS(S(READY));
	KUNIT_EXPECT_EQ(test, t3_rdma_connect(id, &with_data, &ece), 0);
	KUNIT_EXPECT_EQ(test, fake_ib.service_id, service_of(RDMA_PS_TCP, 7000));
	KUNIT_EXPECT_EQ(test, (int)fake_ib.data_len, 39);
	KUNIT_EXPECT_EQ(test, (int)header->version, 0);
	KUNIT_EXPECT_EQ(test, (int)header->ip_version, 0x40);
	KUNIT_EXPECT_EQ(test, ntohs(header->port), 7000);
	KUNIT_EXPECT_EQ(test, ntohl(header->src.s6_addr32[3]), (u32)FAKE_LOCAL);
	KUNIT_EXPECT_EQ(test, ntohl(header->dst.s6_addr32[3]), (u32)FAKE_REMOTE);
	KUNIT_EXPECT_EQ(test, memcmp(header + 1, "abc", 3), 0);
	KUNIT_EXPECT_EQ(test, fake_ib.ece.attr_mod, 4u);
	KUNIT_EXPECT_EQ(test, id->route.num_pri_alt_paths, 1);
	KUNIT_EXPECT_EQ(test, (int)id->route.path_rec->rec_type, (int)SA_PATH_REC_TYPE_ROCE_V2);
	STEPS(S(DESTROY));
}

static void too_much_private_data(struct kunit *test)
{
	static u8 data[IB_CM_REQ_PRIVATE_DATA_SIZE - 35];
	struct rdma_conn_param with_data = {
		.private_data = data, .private_data_len = sizeof(data),
	};

	STEPS(S(READY));
	KUNIT_EXPECT_EQ(test, t3_rdma_connect(id, &with_data, &no_ece), -EINVAL);
	KUNIT_EXPECT_EQ(test, fake_ib.ids, 0);
	with_data.private_data_len--;
	KUNIT_EXPECT_EQ(test, t3_rdma_connect(id, &with_data, &no_ece), 0);
	STEPS(S(DESTROY));
}

/*
 * ib_cm of the peer ends the connection of the QP whose number comes a second time. A number that
 * resource tracking does not know may be one that a library has reserved.
 */
static void a_process_names_its_own_qps(struct kunit *test)
{
	static const u32 others[] = { FAKE_QPN, FAKE_QPN | 1 << 24 };
	struct rdma_conn_param named = { };
	const struct rdma_ucm_ece no_ece = {};
	unsigned int i;

	STEPS(S(READY));
	fake.qp.res.task = NULL;	/* of the kernel */
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		named.qp_num = others[i];
		KUNIT_EXPECT_EQ(test, t3_rdma_connect(id, &named, &no_ece), -EINVAL);
	}
	KUNIT_EXPECT_EQ(test, fake_ib.reqs, 0u);
	KUNIT_EXPECT_EQ(test, fake.entry_refs, 0);
	named.qp_num = FAKE_QPN;
	fake.qp.qp_type = IB_QPT_XRC_TGT;
	KUNIT_EXPECT_EQ(test, t3_rdma_connect(id, &named, &no_ece), -EINVAL);
	fake.qp.qp_type = IB_QPT_RC;
	fake_assign_qp_to_process();
	roce_again(test);
	STEPS(S(READY));
	KUNIT_EXPECT_EQ(test, t3_rdma_connect(id, &named, &no_ece), 0);
	roce_again(test);
	STEPS(S(READY));
	named.qp_num = FAKE_QPN + 1;
	KUNIT_EXPECT_EQ(test, t3_rdma_connect(id, &named, &no_ece), 0);
	STEPS(S(DESTROY));

	roce_again(test);
	requested(test);
	fake.qp.res.task = NULL;
	STEPS(V(ACCEPT, -EINVAL));
	KUNIT_EXPECT_EQ(test, fake_ib.reps, 0u);
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	fake_assign_qp_to_process();
	STEPS(S(DESTROY));
}

static void connect_and_disconnect(struct kunit *test)
{
	connected(test);
	STEPS(S(DISCONNECT), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.dreqs, 1u);
	fake_ib_event(IB_CM_DREP_RECEIVED, 0);
	STEPS(S(GOT_DISCONNECTED));
	fake_ib_event(IB_CM_TIMEWAIT_EXIT, 0);
	expect_event(test, "timewait", 0, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	STEPS(S(DESTROY), S(GOT_NOTHING));
}

static void the_peer_disconnects(struct kunit *test)
{
	connected(test);
	fake_ib_event(IB_CM_DREQ_RECEIVED, 0);
	STEPS(S(GOT_DISCONNECTED));
	KUNIT_EXPECT_EQ(test, fake_ib.dreps, 0u);
	/* The reply waits until the consumer has stopped its QP. */
	STEPS(S(DISCONNECT), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.dreps, 1u);
	STEPS(S(DISCONNECT));
	KUNIT_EXPECT_EQ(test, fake_ib.dreps, 1u);
	STEPS(S(DESTROY), S(GOT_NOTHING));
}

static void a_disconnect_without_an_answer(struct kunit *test)
{
	connected(test);
	STEPS(S(DISCONNECT));
	fake_ib_event(IB_CM_DREQ_ERROR, 0);
	STEPS(V(GOT_DISCONNECTED, -ETIMEDOUT), S(DESTROY));
}

static void a_disconnect_that_cannot_be_sent(struct kunit *test)
{
	connected(test);
	fake_ib.next_error = -ENOMEM;
	STEPS(S(DISCONNECT), S(GOT_DISCONNECTED), S(DESTROY), S(GOT_NOTHING));
}

static void refused_with_a_reason(struct kunit *test)
{
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_REJ_RECEIVED, IB_CM_REJ_INVALID_SERVICE_ID);
	STEPS(V(GOT_REJECTED, IB_CM_REJ_INVALID_SERVICE_ID), V(DATA, IB_CM_REJ_PRIVATE_DATA_SIZE),
	      V(CONNECT, -EINVAL), S(DISCONNECT), S(DESTROY), S(GOT_NOTHING));
}

static void no_reply(struct kunit *test)
{
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_MRA_RECEIVED, 0);
	STEPS(S(GOT_NOTHING));
	fake_ib_event(IB_CM_REQ_ERROR, 0);
	STEPS(V(GOT_UNREACHABLE, -ETIMEDOUT), S(DESTROY));
}

static void a_connect_that_fails_and_a_second_one(struct kunit *test)
{
	STEPS(S(READY), V(NEXT_ERROR, 0));
	fake_ib.next_error = -ENOMEM;
	STEPS(V(CONNECT, -ENOMEM), S(GOT_NOTHING), S(CONNECT));
	KUNIT_EXPECT_EQ(test, fake_ib.ids, 1);
	STEPS(S(DESTROY));
}

static void a_response_is_rejected(struct kunit *test)
{
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(S(GOT_RESPONSE), S(REJECT), V(ESTABLISH, -EINVAL), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	KUNIT_EXPECT_EQ(test, (int)fake_ib.data_len, 2);
	STEPS(S(DESTROY));
}

static void an_establish_that_fails(struct kunit *test)
{
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(S(GOT_RESPONSE));
	fake_ib.next_error = -ENOMEM;
	STEPS(V(ESTABLISH, -ENOMEM), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, cm_state(to_cm_id(id)), CM_ST_CLOSED);
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	STEPS(S(DESTROY));
}

/* The peer gives up after its reply, and the REJ comes before the consumer establishes. */
static void a_reject_after_the_response(struct kunit *test)
{
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(S(GOT_RESPONSE));
	fake_ib_event(IB_CM_REJ_RECEIVED, IB_CM_REJ_CONSUMER_DEFINED);
	STEPS(V(GOT_REJECTED, IB_CM_REJ_CONSUMER_DEFINED), V(ESTABLISH, -EINVAL), S(DESTROY));
}

static void a_disconnect_while_connecting(struct kunit *test)
{
	STEPS(S(READY), S(CONNECT), S(DISCONNECT), S(GOT_NOTHING));
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(S(GOT_ESTABLISHED), S(GOT_DISCONNECTED));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	STEPS(S(DESTROY));
}

static void the_ack_timeout(struct kunit *test)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTS };
	int mask;

	KUNIT_EXPECT_EQ(test, t3_rdma_set_ack_timeout(id, 12), 0);
	STEPS(S(READY), S(CONNECT));
	KUNIT_EXPECT_EQ(test, (int)id->route.path_rec->packet_life_time, 11);
	KUNIT_EXPECT_EQ(test, t3_rdma_init_qp_attr(id, &attr, &mask), 0);
	KUNIT_EXPECT_EQ(test, (int)attr.timeout, 12);
	STEPS(S(DESTROY));
}

/* The address was taken off the interface. */
static void an_address_without_a_gid(struct kunit *test)
{
	fake_ib.no_gid = true;
	STEPS(V(BIND, -ENODEV));
	fake_ib.no_gid = false;
	STEPS(S(BIND), S(DESTROY));
}

static void routes_that_cannot_be_resolved(struct kunit *test)
{
	int index;

	STEPS(S(BIND), S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR));
	index = id->route.addr.dev_addr.bound_dev_if;
	id->route.addr.dev_addr.bound_dev_if = 99999;
	STEPS(V(ROUTE, -ENODEV), S(GOT_NOTHING));
	id->route.addr.dev_addr.bound_dev_if = index;
	STEPS(S(ROUTE), S(GOT_ROUTE), S(DESTROY));
}

/*
 * Two connections have different labels; that of an IPv6 address is used as it is. Without a label
 * QP 1 of rxe may stop.
 */
static void the_flow_label_of_a_route(struct kunit *test)
{
	struct sockaddr_in6 *src;
	u32 label, last = 0;
	int port;

	for (port = 4000; port < 4002; port++) {
		STEPS(S(BIND), S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR));
		cm_addr_set_port(cm_src(to_cm_id(id)), port);
		STEPS(S(ROUTE), S(GOT_ROUTE));
		label = be32_to_cpu(id->route.path_rec->flow_label);
		KUNIT_EXPECT_TRUE(test, label && label <= IB_GRH_FLOWLABEL_MASK);
		KUNIT_EXPECT_NE(test, label, last);
		last = label;
		STEPS(S(DESTROY));
		roce_again(test);
	}
	STEPS(S(BIND), S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR));
	src = (struct sockaddr_in6 *)cm_src(to_cm_id(id));
	src->sin6_family = AF_INET6;
	src->sin6_flowinfo = cpu_to_be32(0x61234567);	/* with a traffic class */
	STEPS(S(ROUTE), S(GOT_ROUTE));
	KUNIT_EXPECT_EQ(test, be32_to_cpu(id->route.path_rec->flow_label), 0x34567u);
	STEPS(S(DESTROY));
}

/* --- the passive end -------------------------------------------------------------- */

static void accept_and_disconnect(struct kunit *test)
{
	listening(test);
	KUNIT_ASSERT_EQ(test, req(), 0);
	KUNIT_EXPECT_EQ(test, fake_ib.mras, 1u);
	take_request(test);
	STEPS(V(DATA, IB_CM_REQ_PRIVATE_DATA_SIZE - 36));
	KUNIT_EXPECT_EQ(test, (int)cm_addr_port(cm_src(to_cm_id(id))), 7000);
	KUNIT_EXPECT_EQ(test, (int)cm_addr_port(cm_dst(to_cm_id(id))), 4000);
	KUNIT_EXPECT_EQ(test, (int)id->port_num, 1);
	STEPS(S(ACCEPT), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.reps, 1u);
	fake_ib_event(IB_CM_RTU_RECEIVED, 0);
	STEPS(S(GOT_ESTABLISHED), S(DISCONNECT));
	fake_ib_event(IB_CM_DREP_RECEIVED, 0);
	STEPS(S(GOT_DISCONNECTED), S(DESTROY));
}

static void data_came_before_the_rtu(struct kunit *test)
{
	requested(test);
	STEPS(S(ACCEPT));
	KUNIT_EXPECT_EQ(test, t3_rdma_notify(id, IB_EVENT_PATH_MIG), -EINVAL);
	KUNIT_EXPECT_EQ(test, t3_rdma_notify(id, IB_EVENT_COMM_EST), 0);
	STEPS(S(GOT_ESTABLISHED));
	KUNIT_EXPECT_EQ(test, t3_rdma_notify(id, IB_EVENT_COMM_EST), -EISCONN);
}

/* Data comes before the RTU, and the consumer reports it. The RTU is no second ESTABLISHED. */
static void data_before_the_rtu(struct kunit *test)
{
	data_came_before_the_rtu(test);
	fake_ib_event(IB_CM_RTU_RECEIVED, 0);
	STEPS(S(GOT_NOTHING), S(DISCONNECT));
	KUNIT_EXPECT_EQ(test, fake_ib.dreqs, 1u);
	fake_ib_event(IB_CM_DREP_RECEIVED, 0);
	STEPS(S(GOT_DISCONNECTED), S(DESTROY));
}

/* ib_cm still waits for the RTU: only the end of its id ends the repetition of its REP. */
static void a_disconnect_after_data_without_an_rtu(struct kunit *test)
{
	data_came_before_the_rtu(test);
	STEPS(S(DISCONNECT), S(GOT_DISCONNECTED));
	KUNIT_EXPECT_NULL(test, fake_ib.conn);
	KUNIT_EXPECT_EQ(test, fake_ib.dreqs, 0u);
	STEPS(S(DESTROY));
}

static void the_rtu_after_data_does_not_come(struct kunit *test)
{
	data_came_before_the_rtu(test);
	fake_ib_event(IB_CM_REP_ERROR, 0);
	STEPS(V(GOT_DISCONNECTED, -ETIMEDOUT), S(DESTROY));
}

static void an_accept_without_an_rtu(struct kunit *test)
{
	requested(test);
	STEPS(S(ACCEPT));
	fake_ib_event(IB_CM_REP_ERROR, 0);
	STEPS(V(GOT_UNREACHABLE, -ETIMEDOUT), S(DESTROY));
}

static void an_accept_is_rejected_by_the_peer(struct kunit *test)
{
	requested(test);
	STEPS(S(ACCEPT));
	fake_ib_event(IB_CM_REJ_RECEIVED, IB_CM_REJ_CONSUMER_DEFINED);
	STEPS(V(GOT_REJECTED, IB_CM_REJ_CONSUMER_DEFINED), S(DESTROY));
}

static void an_accept_that_fails(struct kunit *test)
{
	requested(test);
	fake_ib.next_error = -ENOMEM;
	STEPS(V(ACCEPT, -ENOMEM), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	STEPS(S(DESTROY));
}

static void a_reject_has_the_reason(struct kunit *test)
{
	requested(test);
	KUNIT_EXPECT_EQ(test, 0,
			t3_rdma_reject(id, "no", 2, IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED));
	KUNIT_EXPECT_EQ(test, fake_ib.rej_reason, (int)IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED);
	STEPS(S(DESTROY));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
}

static void a_request_that_is_destroyed_is_rejected(struct kunit *test)
{
	requested(test);
	STEPS(S(DESTROY));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	KUNIT_EXPECT_EQ(test, fake_ib.rej_reason, (int)IB_CM_REJ_CONSUMER_DEFINED);
}

static void requests_that_are_refused(struct kunit *test)
{
	listening(test);
	/* Another address, another port, no address, datagrams. */
	peer_header(0x0a000003);
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_REQ_RECEIVED, RDMA_PS_TCP, 7000), -EINVAL);
	peer_header(FAKE_LOCAL);
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_REQ_RECEIVED, RDMA_PS_TCP, 7001), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_REQ_RECEIVED, RDMA_PS_IB, 7000), -EINVAL);
	sent.header.ip_version = 5 << 4;
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_REQ_RECEIVED, RDMA_PS_TCP, 7000), -EINVAL);
	peer_header(FAKE_LOCAL);
	sent.header.version = 1;
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_REQ_RECEIVED, RDMA_PS_TCP, 7000), -EINVAL);
	peer_header(FAKE_LOCAL);
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_SIDR_REQ_RECEIVED, RDMA_PS_TCP, 7000), -EINVAL);
	/* The backlog is 2. */
	lock_handler(id);
	KUNIT_EXPECT_EQ(test, req(), 0);
	KUNIT_EXPECT_EQ(test, req(), 0);
	KUNIT_EXPECT_EQ(test, req(), -ENOMEM);
	got.next_return = 1;
	unlock_handler(id);
	flush_events();
	expect_event(test, "request", 1, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	expect_event(test, "request", 2, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

/* Two ids with different addresses share the ib_cm_id of their port. */
static void two_listeners_on_one_port(struct kunit *test)
{
	struct sockaddr_storage there = fake_address(0x0a000005, 7000);
	struct rdma_cm_id *other;

	listening(test);
	other = make_id();
	KUNIT_ASSERT_NOT_NULL(test, other);
	other->context = &there;
	KUNIT_EXPECT_EQ(test, t3_rdma_bind_addr(other, (struct sockaddr *)&there), 0);
	KUNIT_EXPECT_EQ(test, t3_rdma_listen(other, 2), 0);
	KUNIT_EXPECT_EQ(test, fake_ib.listener_users, 2);
	KUNIT_EXPECT_EQ(test, req(), 0);
	expect_event(test, "request", 1, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	KUNIT_ASSERT_NOT_NULL(test, got.request);
	KUNIT_EXPECT_NULL(test, got.request->context);
	destroy(&got.request);
	peer_header(0x0a000005);
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_REQ_RECEIVED, RDMA_PS_TCP, 7000), 0);
	expect_event(test, "request", 2, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	KUNIT_ASSERT_NOT_NULL(test, got.request);
	KUNIT_EXPECT_PTR_EQ(test, got.request->context, (void *)&there);
	destroy(&got.request);
	t3_rdma_destroy_id(other);
	KUNIT_EXPECT_EQ(test, fake_ib.listener_users, 1);
}

static void a_listen_that_fails(struct kunit *test)
{
	fake_ib.listen_error = -EBUSY;
	STEPS(S(BIND), V(LISTEN, -EBUSY));
	fake_ib.listen_error = 0;
	STEPS(S(LISTEN));
}

/* The listener ends while a request is in its callback, which has found it. */
static void destroy_the_listener(void)
{
	fake_ib.in_callback = NULL;	/* stands for another task */
	atomic_dec(&fake_ib.callbacks);
	id = NULL;
	destroy(&listener);
	atomic_inc(&fake_ib.callbacks);
}

static void a_listener_ends_during_a_request(struct kunit *test)
{
	listening(test);
	/* Another id shares the ib_cm_id, so that its destroy does not wait. */
	fake_ib.listener_users++;
	fake.point = "cm_roce_listener_found";
	fake.at_point = destroy_the_listener;
	KUNIT_EXPECT_EQ(test, req(), 0);
	KUNIT_EXPECT_NULL(test, fake.point);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, got.written, 0u);
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	fake_ib_destroy(fake_ib.listener);
}

static void the_device_of_a_queued_request_is_removed(struct kunit *test)
{
	listening(test);
	lock_handler(id);
	handler_locked = true;
	KUNIT_EXPECT_EQ(test, req(), 0);
	removing = true;
	queue_work(system_long_wq, &removal);
	while (!READ_ONCE(fake.removal_waits))
		cond_resched();
	KUNIT_EXPECT_TRUE(test, fake.removal_has_users);
	unlock_handler(id);
	handler_locked = false;
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
}

/* --- ADDR_CHANGE ---------------------------------------------------------------------- */

/* C18: in the link address of the fake device's interface one bit changes. */
static void the_link_address_changes(struct kunit *test)
{
	int roce;

	roce_end(test);
	for (roce = 0; roce < 2; roce++) {
		fake_roce = roce;
		begin(test, IN_PROCESS);
		STEPS(S(READY));
		fake_link_address(0);
		STEPS(S(GOT_NOTHING));
		fake_link_address(2);
		expect_event(test, "change", roce, RDMA_CM_EVENT_ADDR_CHANGE, 0);
		/* That was reported, and that is known. */
		fake_link_address(2);
		fake_link_address(0);
		STEPS(S(GOT_NOTHING));
		fake_link_address(4);
		expect_event(test, "change", roce, RDMA_CM_EVENT_ADDR_CHANGE, 0);
		KUNIT_EXPECT_EQ(test, cm_state(to_cm_id(id)), CM_ST_ROUTE_RESOLVED);
		STEPS(S(DESTROY));
		fake_link_address(0);
		end(test);
	}
	roce_begin(test);
}

static struct work_struct query;
static int query_result;

static void query_attributes(struct work_struct *work)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT };
	int mask;

	query_result = t3_rdma_init_qp_attr(id, &attr, &mask);
}

static void query_during_lookup(void)
{
	queue_work(system_long_wq, &query);
	msleep(100);
}

/* A lookup has given the id its device, and not yet what belongs to it. */
static void attributes_while_a_lookup_ends(struct kunit *test)
{
	query_result = 1;
	INIT_WORK(&query, query_attributes);
	KUNIT_EXPECT_EQ(test, call(RESOLVE), 0);
	fake.at_point = query_during_lookup;
	fake.point = "cm_attached";
	fake_lookup_done(0);
	flush_workqueue(cm_wq);
	flush_work(&query);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_EQ(test, query_result, 0);
}

/* --- one allocation fails -------------------------------------------------------------- */

static void connect_without_memory(struct kunit *test)
{
	int ret;

	allocations_fail();
	ret = call(BIND);
	if (!ret)
		ret = call(RESOLVE);
	if (!ret) {
		fake_lookup_done(0);
		flush_workqueue(cm_wq);
		ret = call(ROUTE);
	}
	flush_workqueue(cm_wq);
	if (!ret)
		ret = call(CONNECT);
	if (!ret)
		fake_ib_event(IB_CM_REP_RECEIVED, 0);
	flush_workqueue(cm_wq);
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ(test, got.established, failing.where ? 0u : 1u);
	roce_again(test);
}

static void a_connect_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, connect_without_memory), 3u);
	failing.nth = 0;
}

static void listen_without_memory(struct kunit *test)
{
	int ret;

	allocations_fail();
	ret = call(BIND);
	if (!ret)
		ret = call(LISTEN);
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	roce_again(test);
}

static void a_listen_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, listen_without_memory), 3u);
	failing.nth = 0;
}

static void request_without_memory(struct kunit *test)
{
	int ret;

	listening(test);
	ret = req();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, got.written, failing.where ? 0u : 1u);
	/* The backlog has all its places. */
	KUNIT_EXPECT_EQ(test, atomic_read(&to_cm_id(id)->backlog_left), 2);
	roce_again(test);
}

static void a_request_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, request_without_memory), 3u);
	failing.nth = 0;
}

/* The device is removed in each state of a connection. */
static void removal_in_each_state(struct kunit *test)
{
	unsigned int at;

	for (at = 0; at < 4; at++) {
		STEPS(S(READY));
		if (at > 0)
			STEPS(S(CONNECT));
		if (at > 1) {
			fake_ib_event(IB_CM_REP_RECEIVED, 0);
			STEPS(S(GOT_RESPONSE));
		}
		if (at > 2)
			STEPS(S(ESTABLISH));
		STEPS(S(REMOVE), S(GOT_REMOVAL), S(DESTROY), S(GOT_NOTHING));
		roce_again(test);
	}
}

struct peer_identity {
	const char *name;
	u32 ipv4;
	bool ipv6;			/* the peer has this instead */
	u8 ipv6_begin[2], ipv6_end[6];
	u8 route_type;
	bool route_elsewhere;
	bool refused;
};

static const struct peer_identity peer_identities[] = {
	{ "a neighbour", FAKE_REMOTE, .refused = false },
	{ "this machine", FAKE_LOCAL, .route_type = RTN_LOCAL, .refused = false },
	{ "loopback", INADDR_LOOPBACK, .refused = true },
	{ "zero", INADDR_ANY, .refused = true },
	{ "multicast", 0xe0000001, .refused = true },
	{ "broadcast", INADDR_BROADCAST, .refused = true },
	{ "broadcast of the network", 0x0a0000ff, .route_type = RTN_BROADCAST, .refused = true },
	{ "of another interface", FAKE_REMOTE, .route_elsewhere = true, .refused = true },
	{ "IPv6", .ipv6 = true, .ipv6_begin = { 0x20, 0x01 }, .ipv6_end[5] = 2, .refused = false },
	{ "IPv6, link-local", .ipv6 = true, .ipv6_begin = { 0xfe, 0x80 }, .ipv6_end[5] = 2,
	  .refused = false },
	{ "IPv6, loopback", .ipv6 = true, .ipv6_end[5] = 1, .refused = true },
	{ "IPv6, zero", .ipv6 = true, .refused = true },
	{ "IPv6, multicast", .ipv6 = true, .ipv6_begin = { 0xff, 0x02 }, .ipv6_end[5] = 1,
	  .refused = true },
	{ "IPv6, mapped IPv4", .ipv6 = true, .ipv6_end = { 0xff, 0xff, 127, 0, 0, 1 },
	  .refused = true },
	{ "IPv6, of another interface", .ipv6 = true, .ipv6_begin = { 0x20, 0x01 },
	  .ipv6_end[5] = 2, .route_elsewhere = true, .refused = true },
};

NAMED_PARAM(peer_identity, peer_identities);

/* A program may trust the address of its peer, which the peer itself names. */
static void the_identity_of_a_peer(struct kunit *test)
{
	const struct peer_identity *identity = test->param_value;
	struct in6_addr *src = &sent.header.src;
	int accepted = identity->ipv6 ? -EINVAL : 0;	/* no listener for IPv6 */

	listening(test);
	fake_ib.route_elsewhere = identity->route_elsewhere;
	fake_ib.route_type = identity->route_type;
	peer_header(FAKE_LOCAL);
	src->s6_addr32[3] = htonl(identity->ipv4);
	if (identity->ipv6) {
		sent.header.ip_version = 6 << 4;
		memcpy(src->s6_addr, identity->ipv6_begin, 2);
		memcpy(src->s6_addr + 10, identity->ipv6_end, 6);
	}
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_REQ_RECEIVED, RDMA_PS_TCP, 7000),
			identity->refused ? -EHOSTUNREACH : accepted);
}

/* --- a wildcard listener on both kinds of devices ---------------------------------------- */

/* The id listens on a RoCE device, and on an iWARP device that comes later. */
static void one_listener_on_both_kinds_of_devices(struct kunit *test)
{
	static struct ib_port_data iwarp_port[2];
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

	iwarp_port[1].immutable.core_cap_flags = RDMA_CORE_CAP_PROT_IWARP | RDMA_CORE_CAP_IW_CM;
	RCU_INIT_POINTER(iwarp_port[1].netdev, init_net.loopback_dev);
	KUNIT_ASSERT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	STEPS(S(LISTEN));
	KUNIT_EXPECT_EQ(test, fake_ib.listener_users, 1);
	fake.ports_of_other = iwarp_port;
	fake_add(test, &fake.other);
	fake_two_devices = true;
	KUNIT_EXPECT_NOT_NULL(test, fake.other_listener);
	KUNIT_EXPECT_PTR_EQ(test, fake.other_dev->transport, &cm_iw_transport);
	KUNIT_EXPECT_PTR_EQ(test, fake.cm_dev->transport, &cm_roce_transport);
	KUNIT_EXPECT_EQ(test, req(), 0);
	take_request(test);
	KUNIT_EXPECT_PTR_EQ(test, id->device, &fake.device);
	STEPS(S(DESTROY));
	destroy(&listener);
	KUNIT_EXPECT_NULL(test, fake.other_listener);
	KUNIT_EXPECT_EQ(test, fake_ib.listener_users, 0);
}

/* A device with an InfiniBand port is left alone. */
static void infiniband_is_left_alone(struct kunit *test)
{
	static struct ib_port_data ports[3];

	ports[1].immutable.core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	ports[2].immutable.core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	fake.other.port_data = ports;
	fake.other.phys_port_cnt = 1;
	KUNIT_EXPECT_TRUE(test, cm_roce_serves(&fake.other));
	fake.other.phys_port_cnt = 2;
	KUNIT_EXPECT_FALSE(test, cm_roce_serves(&fake.other));
	KUNIT_EXPECT_EQ(test, cm_add_one(&fake.other), -EOPNOTSUPP);
}

static struct kunit_case roce_cases[] = {
	KUNIT_CASE_PARAM(the_identity_of_a_peer, peer_identity_gen_params),
	KUNIT_CASE(a_request_has_the_addresses_of_annex_11),
	KUNIT_CASE(too_much_private_data),
	KUNIT_CASE(a_process_names_its_own_qps),
	KUNIT_CASE(connect_and_disconnect),
	KUNIT_CASE(the_peer_disconnects),
	KUNIT_CASE(a_disconnect_without_an_answer),
	KUNIT_CASE(a_disconnect_that_cannot_be_sent),
	KUNIT_CASE(refused_with_a_reason),
	KUNIT_CASE(no_reply),
	KUNIT_CASE(a_connect_that_fails_and_a_second_one),
	KUNIT_CASE(a_response_is_rejected),
	KUNIT_CASE(an_establish_that_fails),
	KUNIT_CASE(a_reject_after_the_response),
	KUNIT_CASE(a_disconnect_while_connecting),
	KUNIT_CASE(the_ack_timeout),
	KUNIT_CASE(an_address_without_a_gid),
	KUNIT_CASE(routes_that_cannot_be_resolved),
	KUNIT_CASE(the_flow_label_of_a_route),
	KUNIT_CASE(attributes_while_a_lookup_ends),
	KUNIT_CASE(accept_and_disconnect),
	KUNIT_CASE(data_before_the_rtu),
	KUNIT_CASE(a_disconnect_after_data_without_an_rtu),
	KUNIT_CASE(the_rtu_after_data_does_not_come),
	KUNIT_CASE(an_accept_without_an_rtu),
	KUNIT_CASE(an_accept_is_rejected_by_the_peer),
	KUNIT_CASE(an_accept_that_fails),
	KUNIT_CASE(a_reject_has_the_reason),
	KUNIT_CASE(a_request_that_is_destroyed_is_rejected),
	KUNIT_CASE(requests_that_are_refused),
	KUNIT_CASE(two_listeners_on_one_port),
	KUNIT_CASE(a_listen_that_fails),
	KUNIT_CASE(a_listener_ends_during_a_request),
	KUNIT_CASE(the_device_of_a_queued_request_is_removed),
	KUNIT_CASE(the_link_address_changes),
	KUNIT_CASE(removal_in_each_state),
	KUNIT_CASE(a_connect_without_memory),
	KUNIT_CASE(a_listen_without_memory),
	KUNIT_CASE(a_request_without_memory),
	KUNIT_CASE(one_listener_on_both_kinds_of_devices),
	KUNIT_CASE(infiniband_is_left_alone),
	{}
};

TEST_SUITE("t3_rdma_cm_roce", roce_cases, .init = roce_init, .exit = roce_exit);
