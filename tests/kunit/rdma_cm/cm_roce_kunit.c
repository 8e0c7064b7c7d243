// SPDX-License-Identifier: GPL-2.0
/*
 * RoCE over a fake ib_cm: connections and datagrams from both ends, requests and their listeners,
 * and the lifetime of the id while callbacks run.
 */
#include "../failing_alloc.h"

#include "conversation.h"

#include <linux/delay.h>

/* What the peer sends with a request. */
static struct {
	struct cm_ip_header header;
	char data[IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE];
} sent;

static int interface_refs;	/* before the test */

static void roce_begin(struct kunit *test)
{
	fake_roce = true;
	interface_refs = netdev_refcnt_read(init_net.loopback_dev);
	begin(test, IN_PROCESS);
}

static void roce_end(struct kunit *test)
{
	end(test);
	KUNIT_EXPECT_EQ(test, netdev_refcnt_read(init_net.loopback_dev), interface_refs);
	fake_roce = false;
}

static void listening(struct kunit *test);
static int req(void);
static void take_request(struct kunit *test);

/* Instead of the id of begin(). */
static void use_id(struct kunit *test, enum rdma_ucm_port_space ps, enum ib_qp_type type)
{
	destroy(&id);
	id = make_id();
	KUNIT_ASSERT_NOT_NULL(test, id);
	id->ps = ps;
	id->qp_type = type;
	to_cm_id(id)->bind.ps = ps;
}

static void use_steps(struct kunit *test, const struct step *steps)
{
	unsigned int number;

	for (number = 0; steps[number].kind != END; number++)
		step(test, "roce", number, &steps[number]);
}

#define STEPS(...) use_steps(test, (const struct step []){ __VA_ARGS__, S(END) })

static __be64 service_of(enum rdma_ucm_port_space ps, u16 port)
{
	return cpu_to_be64(((u64)ps << 16) + port);
}

static void peer_header(u32 to)
{
	memset(&sent, 0, sizeof(sent));
	sent.header.ip_version = 4 << 4;
	sent.header.port = htons(4000);
	sent.header.src.s6_addr32[3] = htonl(FAKE_REMOTE);
	sent.header.dst.s6_addr32[3] = htonl(to);
	strscpy(sent.data, "hello", sizeof(sent.data));
}

/* A request. ib_cm destroys its id if the callback returns an error. */
static int ib_request(enum ib_cm_event_type type, enum rdma_ucm_port_space ps, u16 port)
{
	struct sa_path_rec path = { .rec_type = SA_PATH_REC_TYPE_ROCE_V2 };
	struct ib_cm_id listen = { .service_id = service_of(ps, port) };
	struct ib_cm_event event = { .event = type, .private_data = &sent };
	struct ib_cm_id *ib = fake_ib_new(&fake.device, fake_ib.listener->cm_handler, NULL);
	int ret;

	if (type == IB_CM_REQ_RECEIVED) {
		event.param.req_rcvd.listen_id = &listen;
		event.param.req_rcvd.primary_path = &path;
		event.param.req_rcvd.ppath_sgid_attr = &fake.gid_attr;
		event.param.req_rcvd.qp_type = IB_QPT_RC;
		event.param.req_rcvd.remote_qpn = 55;
		event.param.req_rcvd.initiator_depth = 2;
		event.param.req_rcvd.responder_resources = 3;
		event.param.req_rcvd.ece.vendor_id = 5;
		ib->state = IB_CM_REQ_RCVD;
	} else {
		event.param.sidr_req_rcvd.service_id = listen.service_id;
		event.param.sidr_req_rcvd.sgid_attr = &fake.gid_attr;
		ib->state = IB_CM_SIDR_REQ_RCVD;
	}
	fake_ib.conn = ib;
	if (failing.nth)
		allocations_fail();
	ret = fake_ib_call(ib, &event);
	allocations_work();
	if (ret)
		fake_ib_destroy(ib);
	return ret;
}

static int req(void)
{
	peer_header(FAKE_LOCAL);
	return ib_request(IB_CM_REQ_RECEIVED, RDMA_PS_TCP, 7000);
}

static void take_request(struct kunit *test)
{
	expect_event(test, "request", 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	KUNIT_ASSERT_NOT_NULL(test, got.request);
	id = got.request;
	got.request = NULL;
}

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

	roce_begin(test);
	STEPS(S(READY));
	KUNIT_EXPECT_EQ(test, t3_rdma_connect_ece(id, &with_data, &ece), 0);
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
	roce_end(test);
}

static void too_much_private_data(struct kunit *test)
{
	static u8 data[IB_CM_REQ_PRIVATE_DATA_SIZE - 35];
	struct rdma_conn_param with_data = {
		.private_data = data, .private_data_len = sizeof(data),
	};

	roce_begin(test);
	STEPS(S(READY));
	KUNIT_EXPECT_EQ(test, t3_rdma_connect(id, &with_data), -EINVAL);
	KUNIT_EXPECT_EQ(test, fake_ib.ids, 0);
	with_data.private_data_len--;
	KUNIT_EXPECT_EQ(test, t3_rdma_connect(id, &with_data), 0);
	STEPS(S(DESTROY));
	roce_end(test);
}

static void connect_and_disconnect(struct kunit *test)
{
	roce_begin(test);
	connected(test);
	STEPS(S(DISCONNECT), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.dreqs, 1u);
	fake_ib_event(IB_CM_DREP_RECEIVED, 0);
	STEPS(S(GOT_DISCONNECTED));
	fake_ib_event(IB_CM_TIMEWAIT_EXIT, 0);
	expect_event(test, "timewait", 0, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	STEPS(S(DESTROY), S(GOT_NOTHING));
	roce_end(test);
}

static void the_peer_disconnects(struct kunit *test)
{
	roce_begin(test);
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
	roce_end(test);
}

static void a_disconnect_without_an_answer(struct kunit *test)
{
	roce_begin(test);
	connected(test);
	STEPS(S(DISCONNECT));
	fake_ib_event(IB_CM_DREQ_ERROR, 0);
	STEPS(V(GOT_DISCONNECTED, -ETIMEDOUT), S(DESTROY));
	roce_end(test);
}

static void a_disconnect_that_cannot_be_sent(struct kunit *test)
{
	roce_begin(test);
	connected(test);
	fake_ib.next_error = -ENOMEM;
	STEPS(S(DISCONNECT), S(GOT_DISCONNECTED), S(DESTROY), S(GOT_NOTHING));
	roce_end(test);
}

static void refused_with_a_reason(struct kunit *test)
{
	roce_begin(test);
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_REJ_RECEIVED, IB_CM_REJ_INVALID_SERVICE_ID);
	STEPS(V(GOT_REJECTED, IB_CM_REJ_INVALID_SERVICE_ID), V(DATA, IB_CM_REJ_PRIVATE_DATA_SIZE),
	      V(CONNECT, -EINVAL), S(DISCONNECT), S(DESTROY), S(GOT_NOTHING));
	roce_end(test);
}

static void no_reply(struct kunit *test)
{
	roce_begin(test);
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_MRA_RECEIVED, 0);
	STEPS(S(GOT_NOTHING));
	fake_ib_event(IB_CM_REQ_ERROR, 0);
	STEPS(V(GOT_UNREACHABLE, -ETIMEDOUT), S(DESTROY));
	roce_end(test);
}

static void a_connect_that_fails_and_a_second_one(struct kunit *test)
{
	roce_begin(test);
	STEPS(S(READY), V(NEXT_ERROR, 0));
	fake_ib.next_error = -ENOMEM;
	STEPS(V(CONNECT, -ENOMEM), S(GOT_NOTHING), S(CONNECT));
	KUNIT_EXPECT_EQ(test, fake_ib.ids, 1);
	STEPS(S(DESTROY));
	roce_end(test);
}

static void a_response_is_rejected(struct kunit *test)
{
	roce_begin(test);
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(S(GOT_RESPONSE), S(REJECT), V(ESTABLISH, -EINVAL), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	KUNIT_EXPECT_EQ(test, (int)fake_ib.data_len, 2);
	STEPS(S(DESTROY));
	roce_end(test);
}

static void an_establish_that_fails(struct kunit *test)
{
	roce_begin(test);
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(S(GOT_RESPONSE));
	fake_ib.next_error = -ENOMEM;
	STEPS(V(ESTABLISH, -ENOMEM), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, cm_state(to_cm_id(id)), CM_ST_CLOSED);
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	STEPS(S(DESTROY));
	roce_end(test);
}

/* The peer gives up after its reply, and the REJ comes before the consumer establishes. */
static void a_reject_after_the_response(struct kunit *test)
{
	roce_begin(test);
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(S(GOT_RESPONSE));
	fake_ib_event(IB_CM_REJ_RECEIVED, IB_CM_REJ_CONSUMER_DEFINED);
	STEPS(V(GOT_REJECTED, IB_CM_REJ_CONSUMER_DEFINED), V(ESTABLISH, -EINVAL), S(DESTROY));
	roce_end(test);
}

static void a_disconnect_while_connecting(struct kunit *test)
{
	roce_begin(test);
	STEPS(S(READY), S(CONNECT), S(DISCONNECT), S(GOT_NOTHING));
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(S(GOT_ESTABLISHED), S(GOT_DISCONNECTED));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	STEPS(S(DESTROY));
	roce_end(test);
}

/* An id with a QP of t3_rdma_create_qp(): the manager moves it, and sends the RTU. */
static void the_qp_of_a_module(struct kunit *test)
{
	roce_begin(test);
	STEPS(S(READY));
	id->qp = &fake.qp;
	STEPS(S(CONNECT));
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(S(GOT_ESTABLISHED));
	KUNIT_EXPECT_EQ(test, fake_ib.rtus, 1u);
	KUNIT_EXPECT_EQ(test, fake_ib.qp_states[IB_QPS_RTR], 1);
	KUNIT_EXPECT_EQ(test, fake_ib.qp_states[IB_QPS_RTS], 1);
	KUNIT_EXPECT_EQ(test, fake_ib.rq_psn, fake_ib.psn);
	STEPS(S(DISCONNECT));
	KUNIT_EXPECT_EQ(test, fake_ib.qp_states[IB_QPS_ERR], 1);
	fake_ib_event(IB_CM_DREP_RECEIVED, 0);
	STEPS(S(GOT_DISCONNECTED));
	id->qp = NULL;
	STEPS(S(DESTROY));
	roce_end(test);
}

static void the_qp_of_a_module_cannot_be_moved(struct kunit *test)
{
	roce_begin(test);
	STEPS(S(READY));
	id->qp = &fake.qp;
	STEPS(S(CONNECT));
	fake_ib.qp_error = -ENOMEM;
	fake_ib_event(IB_CM_REP_RECEIVED, 0);
	STEPS(V(GOT_ERROR, -ENOMEM), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	KUNIT_EXPECT_EQ(test, fake_ib.qp_states[IB_QPS_ERR], 1);
	id->qp = NULL;
	STEPS(S(DESTROY));
	roce_end(test);
}

/* The QP of a module is in ERR after a reject of the peer, and after an accept that fails. */
static void the_qp_of_a_module_is_stopped(struct kunit *test)
{
	roce_begin(test);
	STEPS(S(READY));
	id->qp = &fake.qp;
	STEPS(S(CONNECT));
	fake_ib_event(IB_CM_REJ_RECEIVED, IB_CM_REJ_CONSUMER_DEFINED);
	STEPS(V(GOT_REJECTED, IB_CM_REJ_CONSUMER_DEFINED));
	KUNIT_EXPECT_EQ(test, fake_ib.qp_states[IB_QPS_ERR], 1);
	id->qp = NULL;
	STEPS(S(DESTROY));
	roce_end(test);

	roce_begin(test);
	listening(test);
	KUNIT_ASSERT_EQ(test, req(), 0);
	take_request(test);
	id->qp = &fake.qp;
	fake_ib.next_error = -ENOMEM;
	STEPS(V(ACCEPT, -ENOMEM));
	KUNIT_EXPECT_EQ(test, fake_ib.qp_states[IB_QPS_ERR], 1);
	id->qp = NULL;
	STEPS(S(DESTROY));
	roce_end(test);
}

static void the_ack_timeout(struct kunit *test)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTS };
	int mask;

	roce_begin(test);
	KUNIT_EXPECT_EQ(test, t3_rdma_set_ack_timeout(id, 12), 0);
	STEPS(S(READY), S(CONNECT));
	KUNIT_EXPECT_EQ(test, (int)id->route.path_rec->packet_life_time, 11);
	KUNIT_EXPECT_EQ(test, t3_rdma_init_qp_attr(id, &attr, &mask), 0);
	KUNIT_EXPECT_EQ(test, (int)attr.timeout, 12);
	STEPS(S(DESTROY));
	roce_end(test);
}

/* The address was taken off the interface. */
static void an_address_without_a_gid(struct kunit *test)
{
	roce_begin(test);
	fake_ib.no_gid = true;
	STEPS(V(BIND, -ENODEV));
	fake_ib.no_gid = false;
	STEPS(S(BIND), S(DESTROY));
	roce_end(test);
}

static void routes_that_cannot_be_resolved(struct kunit *test)
{
	int index;

	roce_begin(test);
	STEPS(S(BIND), S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR));
	index = id->route.addr.dev_addr.bound_dev_if;
	id->route.addr.dev_addr.bound_dev_if = 99999;
	STEPS(V(ROUTE, -ENODEV), S(GOT_NOTHING));
	id->route.addr.dev_addr.bound_dev_if = index;
	STEPS(S(ROUTE), S(GOT_ROUTE), S(DESTROY));
	roce_end(test);
}

/* --- the passive end -------------------------------------------------------------- */

static void listening(struct kunit *test)
{
	STEPS(S(BIND), S(LISTEN));
	KUNIT_ASSERT_NOT_NULL(test, fake_ib.listener);
	KUNIT_EXPECT_EQ(test, fake_ib.listener->service_id, service_of(RDMA_PS_TCP, 7000));
}

static void accept_and_disconnect(struct kunit *test)
{
	roce_begin(test);
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
	roce_end(test);
}

/* Data comes before the RTU, and the consumer reports it. */
static void data_before_the_rtu(struct kunit *test)
{
	roce_begin(test);
	listening(test);
	KUNIT_ASSERT_EQ(test, req(), 0);
	take_request(test);
	STEPS(S(ACCEPT));
	KUNIT_EXPECT_EQ(test, t3_rdma_notify(id, IB_EVENT_COMM_EST), 0);
	KUNIT_EXPECT_EQ(test, t3_rdma_notify(id, IB_EVENT_SQ_DRAINED), -EINVAL);
	KUNIT_EXPECT_EQ(test, fake_ib.notifies, 2u);
	fake_ib_event(IB_CM_USER_ESTABLISHED, 0);
	STEPS(S(GOT_ESTABLISHED), S(DESTROY));
	KUNIT_EXPECT_EQ(test, fake_ib.dreqs, 1u);
	roce_end(test);
}

static void an_accept_without_an_rtu(struct kunit *test)
{
	roce_begin(test);
	listening(test);
	KUNIT_ASSERT_EQ(test, req(), 0);
	take_request(test);
	STEPS(S(ACCEPT));
	fake_ib_event(IB_CM_REP_ERROR, 0);
	STEPS(V(GOT_UNREACHABLE, -ETIMEDOUT), S(DESTROY));
	roce_end(test);
}

static void an_accept_is_rejected_by_the_peer(struct kunit *test)
{
	roce_begin(test);
	listening(test);
	KUNIT_ASSERT_EQ(test, req(), 0);
	take_request(test);
	STEPS(S(ACCEPT));
	fake_ib_event(IB_CM_REJ_RECEIVED, IB_CM_REJ_CONSUMER_DEFINED);
	STEPS(V(GOT_REJECTED, IB_CM_REJ_CONSUMER_DEFINED), S(DESTROY));
	roce_end(test);
}

static void an_accept_that_fails(struct kunit *test)
{
	roce_begin(test);
	listening(test);
	KUNIT_ASSERT_EQ(test, req(), 0);
	take_request(test);
	fake_ib.next_error = -ENOMEM;
	STEPS(V(ACCEPT, -ENOMEM), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	STEPS(S(DESTROY));
	roce_end(test);
}

static void a_reject_has_the_reason(struct kunit *test)
{
	roce_begin(test);
	listening(test);
	KUNIT_ASSERT_EQ(test, req(), 0);
	take_request(test);
	KUNIT_EXPECT_EQ(test, 0,
			t3_rdma_reject(id, "no", 2, IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED));
	KUNIT_EXPECT_EQ(test, fake_ib.rej_reason, (int)IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED);
	STEPS(S(DESTROY));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	roce_end(test);
}

static void a_request_that_is_destroyed_is_rejected(struct kunit *test)
{
	roce_begin(test);
	listening(test);
	KUNIT_ASSERT_EQ(test, req(), 0);
	take_request(test);
	STEPS(S(DESTROY));
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	KUNIT_EXPECT_EQ(test, fake_ib.rej_reason, (int)IB_CM_REJ_CONSUMER_DEFINED);
	roce_end(test);
}

static void requests_that_are_refused(struct kunit *test)
{
	roce_begin(test);
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
	t3_rdma_lock_handler(id);
	KUNIT_EXPECT_EQ(test, req(), 0);
	KUNIT_EXPECT_EQ(test, req(), 0);
	KUNIT_EXPECT_EQ(test, req(), -ENOMEM);
	got.next_return = 1;
	t3_rdma_unlock_handler(id);
	flush_events();
	expect_event(test, "request", 1, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	expect_event(test, "request", 2, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	roce_end(test);
}

/* Two ids with different addresses share the ib_cm_id of their port. */
static void two_listeners_on_one_port(struct kunit *test)
{
	struct sockaddr_storage there = fake_address(0x0a000005, 7000);
	struct rdma_cm_id *other;

	roce_begin(test);
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
	roce_end(test);
}

static void a_listen_that_fails(struct kunit *test)
{
	roce_begin(test);
	fake_ib.listen_error = -EBUSY;
	STEPS(S(BIND), V(LISTEN, -EBUSY));
	fake_ib.listen_error = 0;
	STEPS(S(LISTEN));
	roce_end(test);
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
	roce_begin(test);
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
	roce_end(test);
}

static void the_device_of_a_queued_request_is_removed(struct kunit *test)
{
	roce_begin(test);
	listening(test);
	t3_rdma_lock_handler(id);
	handler_locked = true;
	KUNIT_EXPECT_EQ(test, req(), 0);
	removing = true;
	queue_work(system_long_wq, &removal);
	while (!READ_ONCE(fake.removal_waits))
		cond_resched();
	KUNIT_EXPECT_TRUE(test, fake.removal_has_users);
	t3_rdma_unlock_handler(id);
	handler_locked = false;
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	roce_end(test);
}

/* --- datagrams ---------------------------------------------------------------------- */

static void datagrams_active(struct kunit *test)
{
	roce_begin(test);
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(READY), S(CONNECT));
	KUNIT_EXPECT_EQ(test, fake_ib.sidr_reqs, 1u);
	KUNIT_EXPECT_EQ(test, fake_ib.service_id, service_of(RDMA_PS_UDP, 7000));
	fake_ib.qkey = RDMA_UDP_QKEY;
	fake_ib_event(IB_CM_SIDR_REP_RECEIVED, 0);
	STEPS(S(GOT_ESTABLISHED), V(DISCONNECT, -EINVAL), S(GOT_NOTHING));
	KUNIT_EXPECT_EQ(test, fake_ib.ah_refs, 1);
	STEPS(S(DESTROY));
	roce_end(test);
}

static void datagrams_are_refused(struct kunit *test)
{
	roce_begin(test);
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_SIDR_REP_RECEIVED, IB_SIDR_REJECT);
	STEPS(V(GOT_UNREACHABLE, IB_SIDR_REJECT), S(DESTROY));
	roce_end(test);
}

static void datagrams_with_another_q_key(struct kunit *test)
{
	roce_begin(test);
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	/* READY queries the attributes of a QP, which fixes the Q_Key. */
	STEPS(S(READY), S(CONNECT));
	fake_ib.qkey = 0x1111;
	fake_ib_event(IB_CM_SIDR_REP_RECEIVED, 0);
	STEPS(V(GOT_ERROR, -EINVAL), S(DESTROY));
	roce_end(test);
}

static void datagrams_without_a_reply(struct kunit *test)
{
	roce_begin(test);
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(READY), S(CONNECT));
	fake_ib_event(IB_CM_SIDR_REQ_ERROR, 0);
	STEPS(V(GOT_UNREACHABLE, -ETIMEDOUT), S(DESTROY));
	roce_end(test);
}

static void datagrams_passive(struct kunit *test)
{
	roce_begin(test);
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
	roce_end(test);
}

static void a_datagram_request_is_rejected(struct kunit *test)
{
	roce_begin(test);
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(BIND), S(LISTEN));
	peer_header(FAKE_LOCAL);
	KUNIT_EXPECT_EQ(test, ib_request(IB_CM_SIDR_REQ_RECEIVED, RDMA_PS_UDP, 7000), 0);
	take_request(test);
	STEPS(S(REJECT));
	KUNIT_EXPECT_EQ(test, fake_ib.sidr_status, (int)IB_SIDR_REJECT);
	STEPS(S(DESTROY));
	roce_end(test);
}

/* iWARP has no datagrams. */
static void datagrams_over_iwarp(struct kunit *test)
{
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

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
}

/* --- multicast ---------------------------------------------------------------------- */

enum { GROUP = 0xe1010101 };	/* 225.1.1.1 */

static void may_join(struct kunit *test)
{
	roce_begin(test);
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

	t3_rdma_leave_multicast(id, (struct sockaddr *)&group);
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
	roce_end(test);
}

static void a_sender_does_not_join_on_the_interface(struct kunit *test)
{
	may_join(test);
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(SENDONLY_FULLMEMBER_JOIN), NULL), 0);
	expect_event(test, "join", 0, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.igmp, 0);
	STEPS(S(DESTROY));
	roce_end(test);
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
	roce_end(test);
}

static void joins_over_iwarp(struct kunit *test)
{
	begin(test, IN_PROCESS);
	use_id(test, RDMA_PS_UDP, IB_QPT_UD);
	STEPS(S(BIND));
	KUNIT_EXPECT_EQ(test, join(GROUP, BIT(FULLMEMBER_JOIN), NULL), -ENOSYS);
	end(test);
}

/* The event of a group that is left is not reported: neither from the queue, nor a deferred one. */
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
	roce_end(test);
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
	roce_end(test);
}

/* --- ADDR_CHANGE ---------------------------------------------------------------------- */

/* As the notifier gets it: the interface of the fake device with another link address. */
static void change_link_address(unsigned long event)
{
	struct netdev_notifier_info info = { .dev = init_net.loopback_dev };

	rtnl_lock();
	cm_netdev_event(&cm_netdev_notifier, event, &info);
	rtnl_unlock();
}

static void the_link_address_changes(struct kunit *test)
{
	int roce;

	for (roce = 0; roce < 2; roce++) {
		fake_roce = roce;
		begin(test, IN_PROCESS);
		STEPS(S(READY));
		change_link_address(NETDEV_CHANGEADDR);
		STEPS(S(GOT_NOTHING));
		to_cm_id(id)->base.id.route.addr.dev_addr.src_dev_addr[0] ^= 2;
		change_link_address(NETDEV_UP);
		STEPS(S(GOT_NOTHING));
		change_link_address(NETDEV_CHANGEADDR);
		expect_event(test, "change", roce, RDMA_CM_EVENT_ADDR_CHANGE, 0);
		change_link_address(NETDEV_BONDING_FAILOVER);
		expect_event(test, "failover", roce, RDMA_CM_EVENT_ADDR_CHANGE, 0);
		KUNIT_EXPECT_EQ(test, cm_state(to_cm_id(id)), CM_ST_ROUTE_RESOLVED);
		STEPS(S(DESTROY));
		change_link_address(NETDEV_CHANGEADDR);
		end(test);
	}
	fake_roce = false;
}

/* --- lifetimes ------------------------------------------------------------------------ */

struct held_callback {
	struct work_struct work;
	enum ib_cm_event_type type;
};

static struct completion callback_held, callback_goes_on, destroy_begun;

static void hold_callback(void)
{
	complete(&callback_held);
	wait_for_completion(&callback_goes_on);
}

static void run_held_callback(struct work_struct *work)
{
	fake_ib_event(container_of(work, struct held_callback, work)->type, 0);
}

static void run_destroy(struct work_struct *work)
{
	struct rdma_cm_id *destroyed = id;

	complete(&destroy_begun);
	destroy(&id);
	got.destroyed = destroyed;	/* until here events are allowed */
}

/*
 * A callback runs while the id is destroyed. The destroy waits for the callback, and the id exists
 * as long as the callback uses it.
 */
static void destroy_with_a_callback(struct kunit *test, const char *point,
				    enum ib_cm_event_type type)
{
	struct held_callback held = { .type = type };
	struct work_struct end_of_id;

	init_completion(&callback_held);
	init_completion(&callback_goes_on);
	init_completion(&destroy_begun);
	INIT_WORK_ONSTACK(&held.work, run_held_callback);
	INIT_WORK_ONSTACK(&end_of_id, run_destroy);
	fake.at_point = hold_callback;
	fake.point = point;
	queue_work(system_long_wq, &held.work);
	wait_for_completion(&callback_held);
	queue_work(t3_unbound_wq, &end_of_id);
	wait_for_completion(&destroy_begun);
	msleep(20);
	KUNIT_EXPECT_NOT_NULL(test, fake_ib.conn);
	KUNIT_EXPECT_GE(test, number_of_ids(), 1u);
	complete(&callback_goes_on);
	flush_work(&held.work);
	flush_work(&end_of_id);
	KUNIT_EXPECT_NULL(test, fake_ib.conn);
	destroy_work_on_stack(&held.work);
	destroy_work_on_stack(&end_of_id);
}

static void a_destroy_waits_for_a_callback(struct kunit *test)
{
	static const char *const points[] = {
		"cm_roce_callback", "cm_event_posted", "cm_roce_callback_ends",
	};
	static const enum ib_cm_event_type types[] = {
		IB_CM_REP_RECEIVED, IB_CM_REJ_RECEIVED, IB_CM_REQ_ERROR,
	};
	int kind, p, t;

	for (kind = MODULE_IDS; kind <= PROCESS_IDS; kind++) {
		for (p = 0; p < ARRAY_SIZE(points); p++) {
			for (t = 0; t < ARRAY_SIZE(types); t++) {
				id_kind = kind;
				roce_begin(test);
				STEPS(S(READY), S(CONNECT));
				destroy_with_a_callback(test, points[p], types[t]);
				roce_end(test);
			}
		}
	}
	id_kind = MODULE_IDS;
}

/* The handler of an event returns non-zero while the callback that posted it still runs. */
static void a_handler_destroys_during_the_callback(struct kunit *test)
{
	struct held_callback held = { .type = IB_CM_REP_RECEIVED };
	int kind;

	for (kind = MODULE_IDS; kind <= PROCESS_IDS; kind++) {
		id_kind = kind;
		roce_begin(test);
		STEPS(S(READY), S(CONNECT));
		init_completion(&callback_held);
		init_completion(&callback_goes_on);
		INIT_WORK_ONSTACK(&held.work, run_held_callback);
		fake.at_point = hold_callback;
		fake.point = "cm_roce_callback_ends";
		got.next_return = 1;
		queue_work(system_long_wq, &held.work);
		wait_for_completion(&callback_held);
		msleep(20);
		KUNIT_EXPECT_NOT_NULL(test, fake_ib.conn);
		complete(&callback_goes_on);
		flush_work(&held.work);
		flush_workqueue(cm_wq);
		KUNIT_EXPECT_NULL(test, fake_ib.conn);
		destroy_work_on_stack(&held.work);
		expect_event(test, "response", 0, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		roce_end(test);
	}
	id_kind = MODULE_IDS;
}

static int held_result;

static void run_held_request(struct work_struct *work)
{
	held_result = req();
}

static void hold_request(const char *point, struct work_struct *work)
{
	init_completion(&callback_held);
	init_completion(&callback_goes_on);
	init_completion(&destroy_begun);
	fake.at_point = hold_callback;
	fake.point = point;
	queue_work(system_long_wq, work);
	wait_for_completion(&callback_held);
}

/* The consumer refuses a request while the callback that posted it still runs. */
static void a_request_is_destroyed_during_its_callback(struct kunit *test)
{
	struct work_struct request;

	INIT_WORK_ONSTACK(&request, run_held_request);
	roce_begin(test);
	listening(test);
	got.next_return = 1;
	hold_request("cm_roce_request_posted", &request);
	msleep(20);
	KUNIT_EXPECT_EQ(test, got.written, 1u);
	KUNIT_EXPECT_EQ(test, fake_ib.ids, 2);
	complete(&callback_goes_on);
	flush_work(&request);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, held_result, 0);
	KUNIT_EXPECT_EQ(test, fake_ib.ids, 1);
	KUNIT_EXPECT_EQ(test, fake_ib.rejs, 1u);
	roce_end(test);
	destroy_work_on_stack(&request);
}

/* A listener is destroyed while a request is in its callback: the destroy waits. */
static void the_destroy_of_a_listener_waits_for_a_request(struct kunit *test)
{
	static const char *const points[] = {
		"cm_roce_listener_found", "cm_roce_request_made", "cm_roce_request_posted",
	};
	struct work_struct request, end_of_id;
	int i;

	for (i = 0; i < ARRAY_SIZE(points); i++) {
		INIT_WORK_ONSTACK(&request, run_held_request);
		INIT_WORK_ONSTACK(&end_of_id, run_destroy);
		roce_begin(test);
		listening(test);
		got.next_return = 1;
		hold_request(points[i], &request);
		listener = NULL;
		queue_work(t3_unbound_wq, &end_of_id);
		wait_for_completion(&destroy_begun);
		msleep(20);
		KUNIT_EXPECT_NOT_NULL(test, fake_ib.listener);
		complete(&callback_goes_on);
		flush_work(&request);
		flush_work(&end_of_id);
		flush_workqueue(cm_wq);
		KUNIT_EXPECT_EQ(test, fake_ib.ids, 0);
		roce_end(test);
		destroy_work_on_stack(&request);
		destroy_work_on_stack(&end_of_id);
	}
}

/* --- one allocation fails -------------------------------------------------------------- */

static void connect_without_memory(struct kunit *test)
{
	int ret;

	roce_begin(test);
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
	roce_end(test);
}

static void a_connect_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, connect_without_memory), 3u);
	failing.nth = 0;
}

static void listen_without_memory(struct kunit *test)
{
	int ret;

	roce_begin(test);
	allocations_fail();
	ret = call(BIND);
	if (!ret)
		ret = call(LISTEN);
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	roce_end(test);
}

static void a_listen_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, listen_without_memory), 3u);
	failing.nth = 0;
}

static void request_without_memory(struct kunit *test)
{
	int ret;

	roce_begin(test);
	listening(test);
	ret = req();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, got.written, failing.where ? 0u : 1u);
	/* The backlog has all its places. */
	KUNIT_EXPECT_EQ(test, atomic_read(&to_cm_id(id)->backlog_left), 2);
	roce_end(test);
}

static void a_request_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, request_without_memory), 3u);
	failing.nth = 0;
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
	roce_end(test);
}

static void a_join_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, join_without_memory), 1u);
	failing.nth = 0;
}

/* The device is removed in each state of a connection. */
static void removal_in_each_state(struct kunit *test)
{
	unsigned int at;

	for (at = 0; at < 4; at++) {
		roce_begin(test);
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
		roce_end(test);
	}
}

/* --- a wildcard listener on both kinds of devices ---------------------------------------- */

/* The id listens on a RoCE device, and on an iWARP device that comes later. */
static void one_listener_on_both_kinds_of_devices(struct kunit *test)
{
	static struct ib_port_data iwarp_port[2];
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

	iwarp_port[1].immutable.core_cap_flags = RDMA_CORE_CAP_PROT_IWARP | RDMA_CORE_CAP_IW_CM;
	roce_begin(test);
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
	roce_end(test);
}

/* A device with an InfiniBand port is left alone. */
static void infiniband_is_left_alone(struct kunit *test)
{
	static struct ib_port_data ports[3];

	ports[1].immutable.core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	ports[2].immutable.core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	roce_begin(test);
	fake.other.port_data = ports;
	fake.other.phys_port_cnt = 1;
	KUNIT_EXPECT_TRUE(test, cm_roce_serves(&fake.other));
	fake.other.phys_port_cnt = 2;
	KUNIT_EXPECT_FALSE(test, cm_roce_serves(&fake.other));
	KUNIT_EXPECT_EQ(test, cm_add_one(&fake.other), -EOPNOTSUPP);
	roce_end(test);
}

static struct kunit_case roce_cases[] = {
	KUNIT_CASE(a_request_has_the_addresses_of_annex_11),
	KUNIT_CASE(too_much_private_data),
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
	KUNIT_CASE(the_qp_of_a_module),
	KUNIT_CASE(the_qp_of_a_module_cannot_be_moved),
	KUNIT_CASE(the_qp_of_a_module_is_stopped),
	KUNIT_CASE(the_ack_timeout),
	KUNIT_CASE(an_address_without_a_gid),
	KUNIT_CASE(routes_that_cannot_be_resolved),
	KUNIT_CASE(accept_and_disconnect),
	KUNIT_CASE(data_before_the_rtu),
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
	KUNIT_CASE(datagrams_active),
	KUNIT_CASE(datagrams_are_refused),
	KUNIT_CASE(datagrams_with_another_q_key),
	KUNIT_CASE(datagrams_without_a_reply),
	KUNIT_CASE(datagrams_passive),
	KUNIT_CASE(a_datagram_request_is_rejected),
	KUNIT_CASE(datagrams_over_iwarp),
	KUNIT_CASE(join_and_leave),
	KUNIT_CASE(a_sender_does_not_join_on_the_interface),
	KUNIT_CASE(joins_that_fail),
	KUNIT_CASE(joins_over_iwarp),
	KUNIT_CASE(a_leave_cancels_the_event),
	KUNIT_CASE(a_destroy_leaves_all_groups),
	KUNIT_CASE(the_link_address_changes),
	KUNIT_CASE(a_destroy_waits_for_a_callback),
	KUNIT_CASE(a_handler_destroys_during_the_callback),
	KUNIT_CASE(a_request_is_destroyed_during_its_callback),
	KUNIT_CASE(the_destroy_of_a_listener_waits_for_a_request),
	KUNIT_CASE(removal_in_each_state),
	KUNIT_CASE(a_connect_without_memory),
	KUNIT_CASE(a_listen_without_memory),
	KUNIT_CASE(a_request_without_memory),
	KUNIT_CASE(a_join_without_memory),
	KUNIT_CASE(one_listener_on_both_kinds_of_devices),
	KUNIT_CASE(infiniband_is_left_alone),
	{}
};

static struct kunit_suite roce_suite = {
	.name = "t3_rdma_cm_roce",
	.init = conversation_init,
	.exit = conversation_exit,
	.test_cases = roce_cases,
};

kunit_test_suites(&roce_suite);

MODULE_LICENSE("GPL");
