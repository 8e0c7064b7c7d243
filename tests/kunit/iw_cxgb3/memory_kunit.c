// SPDX-License-Identifier: GPL-2.0
/*
 * Connections and listeners with one failing allocation, in the real connection manager: in a
 * connect, an accept, a reject, and in the handling of the card's messages. The consumer gets one
 * event, and nothing leaks: no endpoint, id, route, reference, charge or half-open child, and all
 * credits are returned to the card. Card, peer, NIC driver, QP and consumer are stubs in this file.
 */
#include <linux/capability.h>

#include "conn.h"
#include "../failing_alloc.h"

/* The test runs as root, which quotas do not limit. */
#define capable(cap) false

#include "ep_fsm.c"
#include "quota.c"
#include "ep.c"
#include "mpa.c"
#include "tids.c"
#include "cpl.c"
#include "wr.c"
#include "listen.c"
#include "cm.c"

enum { TIDS = 64, ATID = 3, FIRST_TID = 10, QPN = 32, BACKLOG = 3 };
enum { SND_ISN = 1000, RCV_ISN = 2000 };

static struct t3_dev *dev;
static struct t3cdev tdev;
static struct t3c_data nic;
static union listen_entry stids[4];
static struct t3_qp *qp;
static struct t3_quota *quota;		/* of this user */

static struct {
	int ports_held;
	struct workqueue_struct *wq;
	struct work_struct work;
	struct sk_buff_head sent;	/* to the card, and not handled yet */
	atomic_t messages;		/* total sent to the card */
	void *atid_ctx, *tid_ctx[TIDS];
	u32 tid;			/* of the last connection */
	bool active;
	u8 request[MPA_MAX_FRAME_LEN];	/* sent by the host as the active side */
	unsigned int request_len;
	unsigned int window, credits;	/* received by the host; returned by it */
	int atids, tids, routes;	/* allocated */
	atomic_t qp_refs;		/* of connect's caller and of the endpoint's work item */
	int qp_users;
	unsigned int dead;
	/* Behaviour in this test. */
	bool init_is_acked;		/* receives were posted */
	bool rev1_only;
} card;

static struct {
	unsigned int replies, established, closes, others, requests;
	int reply;
	int refs;
	bool refuses;			/* connect requests, with -ENOMEM */
	struct t3_ep *request;
} consumer;

static struct iw_cm_id conn_id, listen_id;

/* --- the consumer --------------------------------------------------------- */

static int on_event(struct iw_cm_id *id, struct iw_cm_event *event)
{
	switch (event->event) {
	case IW_CM_EVENT_CONNECT_REPLY:
		consumer.replies++;
		consumer.reply = event->status;
		return 0;
	case IW_CM_EVENT_ESTABLISHED:
		consumer.established++;
		return 0;
	case IW_CM_EVENT_CLOSE:
		consumer.closes++;
		return 0;
	case IW_CM_EVENT_DISCONNECT:
		return 0;
	case IW_CM_EVENT_CONNECT_REQUEST:
		consumer.requests++;
		if (consumer.refuses)
			return -ENOMEM;
		consumer.request = event->provider_data;
		return 0;
	default:
		consumer.others++;
		return -EINVAL;
	}
}

static void get_id_ref(struct iw_cm_id *id)
{
	consumer.refs++;
}

static void put_id_ref(struct iw_cm_id *id)
{
	consumer.refs--;
}

/* --- the card, and the peer ------------------------------------------------ */

/* A message of the card: call the handler, as the NIC driver does. */
static void deliver(void *ctx, u8 opcode, const void *cpl, size_t len, const void *data,
		    size_t data_len)
{
	struct sk_buff *skb = sure_skb(len + data_len, GFP_KERNEL);

	if (WARN_ON(!skb))
		return;
	skb_put_data(skb, cpl, len);
	skb_put_data(skb, data, data_len);
	skb->csum = (__force __wsum)cpu_to_be32((u32)opcode << 24);
	local_bh_disable();
	rcu_read_lock();
	if (!ctx || t3_cpl_handlers[opcode](&tdev, skb, ctx) & CPL_RET_BUF_DONE)
		kfree_skb(skb);
	rcu_read_unlock();
	local_bh_enable();
}

static void deliver_to_tid(u8 opcode, const void *cpl, size_t len)
{
	deliver(card.tid_ctx[card.tid], opcode, cpl, len, NULL, 0);
}

static void peer_sends(const u8 *data, unsigned int len)
{
	const struct t3_cpl_rx_data rx = {
		.len = cpu_to_be16(len),
		.seq = cpu_to_be32(RCV_ISN + card.window),
	};

	card.window += len;
	deliver(card.tid_ctx[card.tid], T3_CPL_RX_DATA, &rx, sizeof(rx), data, len);
}

static void peer_sends_frame(enum mpa_kind kind, u8 rev)
{
	static const u8 pdata[MPA_MAX_CONSUMER_PD];
	const struct mpa_startup frame = {
		.kind = kind,
		.rev = rev,
		.crc = true,
		.enhanced = rev == MPA_REVISION_2,
		.peer_to_peer = rev == MPA_REVISION_2,
		.rtr = rev == MPA_REVISION_2 ? MPA_RTR_READ : 0,
		.ird = 4,
		.ord = 4,
		.pdata = pdata,
		.pdata_len = sizeof(pdata),
	};
	u8 bytes[MPA_MAX_FRAME_LEN];
	int len = mpa_build(bytes, sizeof(bytes), &frame);

	if (WARN_ON(len < 0))
		return;
	peer_sends(bytes, len);
}

/* An abort, or the reply to one; the card sends both twice. */
static void abort_message(u8 opcode)
{
	const struct t3_cpl_abort_rss msg = { .status = T3_CPL_ERR_NONE };

	deliver_to_tid(opcode, &msg, sizeof(msg));
	deliver_to_tid(opcode, &msg, sizeof(msg));
}

static void established(u8 opcode, void *ctx)
{
	const struct t3_cpl_establish est = {
		.ot = cpu_to_be32(card.tid),
		.snd_isn = cpu_to_be32(SND_ISN),
		.rcv_isn = cpu_to_be32(RCV_ISN),
	};

	deliver(ctx, opcode, &est, sizeof(est), NULL, 0);
}

/* The peer of an active open receives some bytes. */
static void peer_receives(const u8 *data, unsigned int len)
{
	struct mpa_startup request;

	if (!card.active || WARN_ON(card.request_len + len > sizeof(card.request)))
		return;
	memcpy(card.request + card.request_len, data, len);
	card.request_len += len;
	if (mpa_parse(MPA_REQUEST, card.request, card.request_len, &request) != MPA_COMPLETE)
		return;
	if (request.rev == MPA_REVISION_2 && card.rev1_only)
		abort_message(T3_CPL_ABORT_REQ_RSS);
	else
		peer_sends_frame(MPA_REPLY, request.rev);
}

static void begin_connection(bool active)
{
	card.tid++;
	card.tids++;
	card.active = active;
	card.request_len = 0;
	card.window = 0;
	card.credits = 0;
}

static void on_forwarded(const struct t3_cpl_act_open_req *msg)
{
	switch (be32_to_cpu(msg->ot) >> 24) {
	case T3_CPL_ACT_OPEN_REQ:
		begin_connection(true);
		established(T3_CPL_ACT_ESTABLISH, card.atid_ctx);
		break;
	case T3_CPL_PASS_ACCEPT_RPL:
		established(T3_CPL_PASS_ESTABLISH, card.tid_ctx[card.tid]);
		peer_sends_frame(MPA_REQUEST, MPA_REVISION_2);
		break;
	case T3_CPL_RX_DATA_ACK:
		card.credits += be32_to_cpu(((const struct t3_cpl_rx_data_ack *)msg)->credit_dack) &
				T3_RX_CREDITS;
		break;
	}
}

static void on_message(struct sk_buff *skb)
{
	const struct t3_cpl_wr_ack ack = { .credits = cpu_to_be16(1) };
	const struct t3_cpl_close_con_rpl closed = {};
	const struct t3_cpl_peer_close peer_close = {};
	const struct t3_wr_hdr *wr = (const void *)skb->data;

	switch (FIELD_GET(T3_WR_OPCODE, be32_to_cpu(wr->hi))) {
	case T3_WR_OP_FORWARD:
		on_forwarded((const void *)skb->data);
		break;
	case T3_WR_OP_OFLD_TX_DATA:
		deliver_to_tid(T3_CPL_TX_DMA_ACK, &ack, sizeof(ack));
		peer_receives(skb->data + sizeof(struct t3_wr_tx_data),
			      skb->len - sizeof(struct t3_wr_tx_data));
		break;
	case T3_WR_OP_RDMA_INIT:
		if (card.init_is_acked)
			deliver_to_tid(T3_CPL_TX_DMA_ACK, &ack, sizeof(ack));
		break;
	case T3_WR_OP_OFLD_CLOSE_CON:
		deliver_to_tid(T3_CPL_PEER_CLOSE, &peer_close, sizeof(peer_close));
		deliver_to_tid(T3_CPL_CLOSE_CON_RPL, &closed, sizeof(closed));
		break;
	case T3_WR_OP_OFLD_ABORT_REQ:
		abort_message(T3_CPL_ABORT_RPL_RSS);
		break;
	}
}

static void card_work(struct work_struct *work)
{
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&card.sent))) {
		on_message(skb);
		kfree_skb(skb);
	}
}

/* The thread that opens or closes a listener waits for this reply. */
static void reply_to_listener(u8 opcode)
{
	const struct t3_cpl_pass_open_rpl rpl = {};

	deliver(stids[0].t3c_tid.ctx, opcode, &rpl, sizeof(rpl), NULL, 0);
}

int t3_dev_send(struct t3_dev *dev, struct sk_buff *skb)
{
	const struct t3_cpl_act_open_req *msg = (const void *)skb->data;

	if (FIELD_GET(T3_WR_OPCODE, be32_to_cpu(msg->wr.hi)) == T3_WR_OP_FORWARD) {
		switch (be32_to_cpu(msg->ot) >> 24) {
		case T3_CPL_PASS_OPEN_REQ:
			reply_to_listener(T3_CPL_PASS_OPEN_RPL);
			break;
		case T3_CPL_TID_RELEASE:
			card.tids--;
			break;
		case T3_CPL_CLOSE_LISTSRV_REQ:
			reply_to_listener(T3_CPL_CLOSE_LISTSRV_RPL);
			break;
		}
	}
	atomic_inc(&card.messages);
	skb_queue_tail(&card.sent, skb);
	queue_work(card.wq, &card.work);
	return 0;
}

/* The work item of a listener or an endpoint may queue that of another endpoint. */
static void flush_endpoints(void)
{
	int i;

	for (i = 0; i < 3; i++)
		flush_workqueue(t3_cm_wq);
}

/* Run until the replies of the card lead to no other message. */
static void settle(void)
{
	int before;

	do {
		before = atomic_read(&card.messages);
		flush_endpoints();
		flush_workqueue(card.wq);
		flush_endpoints();
	} while (before != atomic_read(&card.messages));
}

/* --- the NIC driver -------------------------------------------------------- */

int cxgb3_alloc_atid(struct t3cdev *tdev, struct cxgb3_client *client, void *ctx)
{
	if (alloc_fails(GFP_ATOMIC, __func__))
		return -1;
	card.atids++;
	card.atid_ctx = ctx;
	return ATID;
}

void *cxgb3_free_atid(struct t3cdev *tdev, int atid)
{
	card.atids--;
	card.atid_ctx = NULL;
	return NULL;
}

void cxgb3_insert_tid(struct t3cdev *tdev, struct cxgb3_client *client, void *ctx,
		      unsigned int tid)
{
	card.tid_ctx[tid] = ctx;
}

void cxgb3_remove_tid(struct t3cdev *tdev, void *ctx, unsigned int tid)
{
	card.tid_ctx[tid] = NULL;
	card.tids--;
}

/* --- stubs of the driver ---------------------------------------------------- */

void t3_dev_fatal(struct t3_dev *dev, const char *what)
{
	card.dead++;
}

int t3_route_resolve(struct t3_ep *ep)
{
	ep->l2t = kzalloc(sizeof(*ep->l2t), GFP_ATOMIC);
	if (!ep->l2t)
		return -ENOMEM;
	card.routes++;
	return 0;
}

int t3_tcp_port_listen(struct t3_dev *dev, const struct iw_cm_id *cm_id, struct sockaddr_in *local,
		       struct list_head *places)
{
	card.ports_held++;
	return alloc_fails(GFP_KERNEL, __func__) ? -ENOMEM : 0;
}

void t3_tcp_port_unlisten(struct list_head *places)
{
	card.ports_held--;
}

struct t3_tcp_port *t3_tcp_port_connect(struct t3_dev *dev, const struct iw_cm_id *cm_id,
					struct sockaddr_in *local)
{
	if (alloc_fails(GFP_KERNEL, __func__))
		return ERR_PTR(-ENOMEM);
	card.ports_held++;
	return (void *)&card;
}

void t3_tcp_port_release(struct t3_tcp_port *held)
{
	card.ports_held -= !!held;
}

void t3_route_release(struct t3_ep *ep)
{
	if (!ep->l2t)
		return;
	kfree(ep->l2t);
	ep->l2t = NULL;
	card.routes--;
}

int t3_route_send(struct t3_ep *ep, struct sk_buff *skb, arp_failure_handler_func failed)
{
	return t3_dev_send(ep->dev, skb);
}

struct t3_qp *t3_qp_find(struct t3_dev *dev, u32 id)
{
	if (id != QPN)
		return NULL;
	atomic_inc(&card.qp_refs);
	return qp;
}

void t3_qp_put(struct t3_qp *qp)
{
	atomic_dec(&card.qp_refs);
}

/* qp_kunit tests the real function. */
int t3_qp_connect(struct t3_qp *qp, struct t3_ep *ep, const struct t3_conn_attrs *attrs,
		  bool *acked)
{
	struct sk_buff *skb = alloc_skb(sizeof(struct t3_wr_hdr), GFP_KERNEL);

	if (!skb)
		return -ENOMEM;
	t3_ep_get(ep);
	qp->ep = ep;
	card.qp_users++;
	t3_cpl_put_wr(skb, sizeof(struct t3_wr_hdr), T3_WR_OP_RDMA_INIT, ep->tid);
	*acked = card.init_is_acked;
	return t3_dev_send(ep->dev, skb);
}

void t3_qp_disconnected(struct t3_qp *qp)
{
	struct t3_ep *ep = qp->ep;

	qp->ep = NULL;
	card.qp_users--;
	t3_ep_put(ep);
}

/* --- a device ---------------------------------------------------------------- */

static void make_id(struct iw_cm_id *id)
{
	struct sockaddr_in *sin;

	memset(id, 0, sizeof(*id));
	id->device = &dev->ibdev;
	id->event_handler = on_event;
	id->add_ref = get_id_ref;
	id->rem_ref = put_id_ref;
	sin = (void *)&id->m_local_addr;
	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = cpu_to_be32(0x0a000001);
	sin->sin_port = cpu_to_be16(7174);
	sin = (void *)&id->m_remote_addr;
	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = cpu_to_be32(0x0a000002);
	sin->sin_port = cpu_to_be16(7175);
}

static int memory_init(struct kunit *test)
{
	unsigned int i;

	memset(&card, 0, sizeof(card));
	memset(&nic, 0, sizeof(nic));
	dev = conn_dev(test);
	INIT_LIST_HEAD(&dev->cm->listeners);
	t3_quotas_init(&dev->quotas);
	nic.tid_maps.tid_tab = kunit_kcalloc(test, TIDS, sizeof(struct t3c_tid_entry), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, nic.tid_maps.tid_tab);
	nic.tid_maps.ntids = TIDS;
	nic.tid_maps.natids = TIDS;
	nic.tid_maps.stid_tab = stids;
	nic.tid_maps.nstids = ARRAY_SIZE(stids);
	spin_lock_init(&nic.tid_maps.stid_lock);
	for (i = 0; i < ARRAY_SIZE(stids); i++)
		stids[i].next = i + 1 < ARRAY_SIZE(stids) ? &stids[i + 1] : NULL;
	nic.tid_maps.sfree = stids;
	tdev.l4opt = &nic;
	dev->tdev = &tdev;
	dev->cm->nmtus = 1;
	dev->cm->mtus[0] = 1500;
	qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->id = QPN;
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	KUNIT_ASSERT_EQ(test, xa_insert_irq(&dev->qps, QPN, qp, GFP_KERNEL), 0);
	skb_queue_head_init(&card.sent);
	INIT_WORK(&card.work, card_work);
	card.wq = alloc_ordered_workqueue("memory_kunit", 0);
	KUNIT_ASSERT_NOT_NULL(test, card.wq);
	KUNIT_ASSERT_EQ(test, t3_cm_init(), 0);
	KUNIT_ASSERT_EQ(test, t3_tids_open(dev->cm, t3_cpl_release_tids), 0);
	quota = t3_quota_get(&dev->quotas);
	KUNIT_ASSERT_FALSE(test, IS_ERR_OR_NULL(quota));
	return 0;
}

static void memory_exit(struct kunit *test)
{
	allocations_work();
	settle();
	KUNIT_EXPECT_EQ(test, quota->refs, 1);
	t3_quota_put(&dev->quotas, quota);
	KUNIT_EXPECT_TRUE(test, list_empty(&dev->quotas.list));
	KUNIT_EXPECT_EQ(test, nic.tid_maps.stids_in_use, 0);
	KUNIT_EXPECT_EQ(test, card.ports_held, 0);
	destroy_workqueue(card.wq);
	t3_cm_exit();
	t3_tids_close(dev->cm);
	xa_destroy(&dev->qps);
}

static void begin(void)
{
	consumer = (typeof(consumer)){ .refs = consumer.refs, .refuses = consumer.refuses };
	card.tid = FIRST_TID - 1;
	make_id(&conn_id);
}

/* Whichever allocation failed, all objects are freed without further calls. */
static void expect_nothing_left(struct kunit *test, unsigned int listeners)
{
	const char *what = alloc_that_failed();
	int i;

	KUNIT_EXPECT_EQ_MSG(test, atomic_read(&dev->cm->num_eps), 0, "endpoints, %s", what);
	KUNIT_EXPECT_TRUE_MSG(test, xa_empty(&dev->cm->eps), "numbers, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, card.atids, 0, "ATIDs, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, card.tids, 0, "TIDs, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, nic.tid_maps.stids_in_use, listeners, "STIDs, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, card.routes, 0, "routes, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, atomic_read(&card.qp_refs), 0, "references on the QP, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, card.qp_users, 0, "endpoints of the QP, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, consumer.refs, listeners, "references on ids, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, consumer.others, 0, "unknown events, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, card.dead, 0, "the card is declared dead, %s", what);
	KUNIT_EXPECT_EQ_MSG(test, quota->refs, 1 + listeners, "users of the quota, %s", what);
	for (i = 0; i < T3_QUOTA_NUM; i++)
		KUNIT_EXPECT_EQ_MSG(test, (unsigned int)atomic_read(&quota->used[i]),
				    i == T3_QUOTA_STID ? listeners : 0, "%s, %s", t3_quota_names[i],
				    what);
	KUNIT_EXPECT_EQ_MSG(test, atomic64_read(&dev->counters[T3_CNT_CM_BAD_EVENT]), 0,
			    "refused events, %s", what);
}

/* All credits of an established connection were returned; then it is closed. */
static void close_connection(struct kunit *test)
{
	KUNIT_EXPECT_EQ_MSG(test, card.credits, card.window, "credits, %s", alloc_that_failed());
	if (qp->ep)
		t3_ep_disconnect(qp->ep, false, false);
	settle();
}

/* --- the active side ---------------------------------------------------------- */

static void connect_and_close(struct kunit *test)
{
	static const u8 pdata[MPA_MAX_CONSUMER_PD];
	struct iw_cm_conn_param param = {
		.qpn = QPN, .ord = 4, .ird = 4,
		.private_data = pdata, .private_data_len = sizeof(pdata),
	};
	bool connected;
	int ret;

	begin();
	allocations_fail();
	ret = t3_cm_connect(&conn_id, &param);
	settle();
	connected = !ret && !consumer.reply;
	if (connected)
		close_connection(test);
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, consumer.replies, !ret, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, consumer.closes, connected, "%s", alloc_that_failed());
	if (!failing.where)
		KUNIT_EXPECT_TRUE(test, connected);
	expect_nothing_left(test, 0);
}

static void connect_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, connect_and_close), 13U);
	card.init_is_acked = true;
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, connect_and_close), 13U);
}

/* The peer resets revision 2, and there is a second connection in revision 1. */
static void second_try_without_memory(struct kunit *test)
{
	card.rev1_only = true;
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, connect_and_close), 20U);
}

/* --- the passive side ---------------------------------------------------------- */

static enum { ACCEPTS, REJECTS, REFUSES } listener_does;

static void peer_connects(struct t3_listener *l)
{
	struct t3_cpl_pass_accept_req req = {
		.local_port = cpu_to_be16(7174), .local_ip = cpu_to_be32(0x0a000001),
		.peer_port = cpu_to_be16(7175), .peer_ip = cpu_to_be32(0x0a000002),
	};

	begin_connection(false);
	req.ot = cpu_to_be32(card.tid);
	deliver(l, T3_CPL_PASS_ACCEPT_REQ, &req, sizeof(req), NULL, 0);
	settle();
}

static int accept_or_reject(void)
{
	static const u8 pdata[MPA_MAX_CONSUMER_PD];
	struct iw_cm_conn_param param = {
		.qpn = QPN, .ord = 4, .ird = 4,
		.private_data = pdata, .private_data_len = sizeof(pdata),
	};
	int ret;

	conn_id.provider_data = consumer.request;
	ret = listener_does == ACCEPTS ? t3_cm_accept(&conn_id, &param) :
					 t3_cm_reject(&conn_id, pdata, sizeof(pdata));
	settle();
	return ret;
}

static void accept_one(struct kunit *test)
{
	struct t3_listener *l = listen_id.provider_data;
	bool accepted = false;

	begin();
	consumer.refuses = listener_does == REFUSES;
	allocations_fail();
	peer_connects(l);
	KUNIT_EXPECT_EQ_MSG(test, l->half_open, 0, "after the request, %s", alloc_that_failed());
	if (consumer.request)
		accepted = !accept_or_reject() && listener_does == ACCEPTS;
	if (accepted)
		close_connection(test);
	allocations_work();
	KUNIT_EXPECT_LE_MSG(test, consumer.requests, 1, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, consumer.established, accepted, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, consumer.closes, accepted, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, l->half_open, 0, "half-open, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, l->upcalls, 0, "upcalls, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, kref_read(&l->ref), 1, "%s", alloc_that_failed());
	if (!failing.where) {
		KUNIT_EXPECT_EQ(test, consumer.requests, 1);
		KUNIT_EXPECT_EQ(test, accepted, listener_does == ACCEPTS);
	}
	expect_nothing_left(test, 1);
}

static void accept_connections(struct kunit *test, unsigned int allocations)
{
	make_id(&listen_id);
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(&listen_id, BACKLOG), 0);
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, accept_one), allocations);
	KUNIT_EXPECT_EQ(test, t3_cm_destroy_listen(&listen_id), 0);
}

static void accept_without_memory(struct kunit *test)
{
	listener_does = ACCEPTS;
	accept_connections(test, 11);
	card.init_is_acked = true;
	accept_connections(test, 11);
}

static void reject_without_memory(struct kunit *test)
{
	listener_does = REJECTS;
	accept_connections(test, 10);
}

static void consumer_refusal_without_memory(struct kunit *test)
{
	listener_does = REFUSES;
	accept_connections(test, 8);
}

static void listen_and_stop(struct kunit *test)
{
	int ret;

	make_id(&listen_id);
	allocations_fail();
	ret = t3_cm_create_listen(&listen_id, BACKLOG);
	if (!ret)
		ret = t3_cm_destroy_listen(&listen_id);
	allocations_work();
	settle();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_TRUE(test, list_empty(&dev->cm->listeners));
	expect_nothing_left(test, 0);
}

static void listener_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, listen_and_stop), 3U);
}

/* A listener that is refused has no share of the user's quota. */
static void refused_listener_leaves_the_quota(struct kunit *test)
{
	make_id(&listen_id);
	make_id(&conn_id);
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(&listen_id, BACKLOG), 0);
	KUNIT_EXPECT_EQ(test, quota->refs, 2);
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(&conn_id, BACKLOG), -EADDRINUSE);
	KUNIT_EXPECT_EQ(test, quota->refs, 2);
	KUNIT_EXPECT_EQ(test, t3_cm_destroy_listen(&listen_id), 0);
	settle();
	KUNIT_EXPECT_EQ(test, quota->refs, 1);
}

/* --- the manager itself ------------------------------------------------------- */

static void open_and_close_manager(struct kunit *test)
{
	struct t3_dev *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, other);
	other->tdev = &tdev;
	allocations_fail();
	ret = t3_cm_open(other);
	if (!ret) {
		t3_cm_stop(other);
		t3_cm_close(other);
	}
	allocations_work();
	KUNIT_EXPECT_EQ(test, ret, failing.where ? -ENOMEM : 0);
	KUNIT_EXPECT_NULL(test, other->cm);
}

static void manager_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, open_and_close_manager), 1U);
}

static struct kunit_case memory_cases[] = {
	KUNIT_CASE(connect_without_memory),
	KUNIT_CASE(second_try_without_memory),
	KUNIT_CASE(accept_without_memory),
	KUNIT_CASE(reject_without_memory),
	KUNIT_CASE(consumer_refusal_without_memory),
	KUNIT_CASE(listener_without_memory),
	KUNIT_CASE(refused_listener_leaves_the_quota),
	KUNIT_CASE(manager_without_memory),
	{}
};

TEST_SUITE("iw_cxgb3_memory", memory_cases, .init = memory_init, .exit = memory_exit);
