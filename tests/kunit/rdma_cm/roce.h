/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For the suites of RoCE: an id and a fake ib_cm, requests of a peer, and the beginning and end of
 * a test.
 */
#ifndef T3_KUNIT_CM_ROCE_H
#define T3_KUNIT_CM_ROCE_H

#include "../failing_alloc.h"

#include "conversation.h"

/* What the peer sends with a request. */
static struct {
	struct cm_ip_header header;
	char data[IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE];
} sent;

static int interface_refs;	/* before the test */

static void __maybe_unused roce_begin(struct kunit *test)
{
	fake_roce = true;
	interface_refs = netdev_refcnt_read(init_net.loopback_dev);
	begin(test, IN_PROCESS);
}

static void __maybe_unused roce_end(struct kunit *test)
{
	end(test);
	KUNIT_EXPECT_EQ(test, netdev_refcnt_read(init_net.loopback_dev), interface_refs);
	fake_roce = false;
}

/* For suites that begin and end with their tests. */
static int __maybe_unused roce_init(struct kunit *test)
{
	int ret = conversation_init(test);

	if (!ret)
		roce_begin(test);
	return ret;
}

static void __maybe_unused roce_exit(struct kunit *test)
{
	roce_end(test);
	conversation_exit(test);
}

static void __maybe_unused roce_again(struct kunit *test)
{
	roce_end(test);
	roce_begin(test);
}

/* Instead of the id of begin(). */
static void __maybe_unused use_id(struct kunit *test, enum rdma_ucm_port_space ps,
				  enum ib_qp_type type)
{
	destroy(&id);
	id = make_id();
	KUNIT_ASSERT_NOT_NULL(test, id);
	id->ps = ps;
	id->qp_type = type;
	to_cm_id(id)->bind.ps = ps;
}

static void __maybe_unused use_steps(struct kunit *test, const struct step *steps)
{
	unsigned int number;

	for (number = 0; steps[number].kind != END; number++)
		step(test, "roce", number, &steps[number]);
}

#define STEPS(...) use_steps(test, (const struct step []){ __VA_ARGS__, S(END) })

static __be64 __maybe_unused service_of(enum rdma_ucm_port_space ps, u16 port)
{
	return cpu_to_be64(((u64)ps << 16) + port);
}

static void __maybe_unused peer_header(u32 to)
{
	memset(&sent, 0, sizeof(sent));
	sent.header.ip_version = 4 << 4;
	sent.header.port = htons(4000);
	sent.header.src.s6_addr32[3] = htonl(FAKE_REMOTE);
	sent.header.dst.s6_addr32[3] = htonl(to);
	strscpy(sent.data, "hello", sizeof(sent.data));
}

/* A request. ib_cm destroys its id if the callback returns an error. */
static int __maybe_unused ib_request(enum ib_cm_event_type type, enum rdma_ucm_port_space ps,
				     u16 port)
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

static int __maybe_unused req(void)
{
	peer_header(FAKE_LOCAL);
	return ib_request(IB_CM_REQ_RECEIVED, RDMA_PS_TCP, 7000);
}

static void __maybe_unused take_request(struct kunit *test)
{
	expect_event(test, "request", 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	KUNIT_ASSERT_NOT_NULL(test, got.request);
	id = got.request;
	got.request = NULL;
}

static void __maybe_unused listening(struct kunit *test)
{
	STEPS(S(BIND), S(LISTEN));
	KUNIT_ASSERT_NOT_NULL(test, fake_ib.listener);
	KUNIT_EXPECT_EQ(test, fake_ib.listener->service_id, service_of(RDMA_PS_TCP, 7000));
}

/* A connection whose request has been delivered: id is that of the request. */
static void __maybe_unused requested(struct kunit *test)
{
	listening(test);
	KUNIT_ASSERT_EQ(test, req(), 0);
	take_request(test);
}

#endif
