// SPDX-License-Identifier: GPL-2.0
/*
 * Messages of the card through the real cpl.c into the real table: the range of TIDs, a failed
 * open and its repetition, and replies to an abort.
 */
#include "conn.h"
#include "../failing_alloc.h"

#include "ep_fsm.c"
#include "ep.c"
#include "quota.c"
#include "tids.c"
#include "cpl.c"
#include "wr.c"

static struct {
	unsigned int sent, released_tids, freed_atids, inserted_tids, ended, detached, places;
	bool next_hop;
	u32 last_tid;
	int send_error, route_error;
	bool host_is_connected;		/* with the addresses of the SYN */
	struct t3_cpl_pass_accept_rpl accepted;		/* the last one */
	u8 message[T3_WR_IMM_MAX];			/* the last one */
	unsigned int message_len;
	int atid;		/* the one that is free; 0: none */
} card;

/* --- fakes of the other files --------------------------------------------- */

int t3_dev_send(struct t3_dev *dev, struct sk_buff *skb)
{
	const struct t3_cpl_tid_release *msg = (const void *)skb->data;

	if (be32_to_cpu(msg->ot) >> 24 == T3_CPL_TID_RELEASE) {
		card.released_tids++;
		card.last_tid = be32_to_cpu(msg->ot) & T3_CPL_ID;
		kfree_skb(skb);
		return 0;
	}
	card.sent += !card.send_error;
	card.message_len = min_t(unsigned int, skb->len, sizeof(card.message));
	memcpy(card.message, skb->data, card.message_len);
	kfree_skb(skb);
	return card.send_error;
}

int t3_route_send(struct t3_ep *ep, struct sk_buff *skb, arp_failure_handler_func failed)
{
	if (skb->len == sizeof(card.accepted))
		memcpy(&card.accepted, skb->data, sizeof(card.accepted));
	return t3_dev_send(ep->dev, skb);
}

int cxgb3_alloc_atid(struct t3cdev *tdev, struct cxgb3_client *client, void *ctx)
{
	return card.atid ?: -1;
}

void *cxgb3_free_atid(struct t3cdev *tdev, int atid)
{
	card.freed_atids++;
	return NULL;
}

void cxgb3_insert_tid(struct t3cdev *tdev, struct cxgb3_client *client, void *ctx,
		      unsigned int tid)
{
	card.inserted_tids++;
	card.last_tid = tid;
}

void cxgb3_remove_tid(struct t3cdev *tdev, void *ctx, unsigned int tid)
{
	card.released_tids++;
	card.last_tid = tid;
}

void t3_cm_report_end(struct t3_ep *ep, enum ep_event event, int status)
{
	card.ended++;
}

void t3_listener_drop_old(struct t3_listener *l, bool next_hop)
{
	card.places++;
	card.next_hop = next_hop;
}

void t3_qp_disconnected(struct t3_qp *qp)
{
	card.detached++;
}

int t3_route_resolve(struct t3_ep *ep)
{
	return card.route_error;
}

bool t3_tcp_is_connected(const struct t3_ep *ep)
{
	return card.host_is_connected;
}

/* --- a device --------------------------------------------------------------- */

enum { TIDS = 64, ATID = 5 };

static struct t3_dev *dev;
static struct t3cdev tdev;
static struct t3c_data nic;
static struct l2t_entry l2t;

/* TIDs, after the work item that sends their releases. */
static unsigned int released_tids(void)
{
	flush_work(&dev->cm->release_work);
	return card.released_tids;
}

static int cpl_init(struct kunit *test)
{
	memset(&card, 0, sizeof(card));
	memset(&nic, 0, sizeof(nic));
	dev = conn_dev(test);
	nic.tid_maps.tid_tab = kunit_kcalloc(test, TIDS, sizeof(struct t3c_tid_entry), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, nic.tid_maps.tid_tab);
	nic.tid_maps.ntids = TIDS;
	tdev.l4opt = &nic;
	dev->tdev = &tdev;
	dev->cm->nmtus = 1;
	dev->cm->mtus[0] = 1500;
	t3_cm_wq = alloc_workqueue("cpl_kunit", 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_cm_wq);
	t3_cpl_init();
	return t3_tids_open(dev->cm, t3_cpl_release_tids);
}

static void cpl_exit(struct kunit *test)
{
	drain_workqueue(t3_cm_wq);
	destroy_workqueue(t3_cm_wq);
	t3_tids_close(dev->cm);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 0);
	rcu_barrier();
}

/* With a reference of the test. An active open has an ATID, later states have a TID. */
static struct t3_ep *new_ep(struct kunit *test, enum ep_state state)
{
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	ep->state = state;
	ep->active = true;
	ep->l2t = &l2t;
	ep->tid = ATID;
	ep->id_kind = state == EP_CONNECTING ? T3_ID_ATID : T3_ID_TID;
	if (ep_state_has_timer(state))
		t3_ep_set_timer(ep, 60 * HZ);
	return ep;
}

static void end(struct kunit *test, struct t3_ep *ep)
{
	if (ep->state != EP_CLOSED)
		t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	flush_work(&ep->work);
	flush_delayed_work(&ep->timer);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	KUNIT_EXPECT_EQ(test, kref_read(&ep->ref), 1);
	t3_ep_put(ep);
}

/* Let an endpoint handle a message. */
static void handle(struct kunit *test, struct t3_ep *ep, u8 opcode, const void *cpl, size_t len)
{
	struct sk_buff *skb = alloc_skb(len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_put_data(skb, cpl, len);
	skb->csum = (__force __wsum)cpu_to_be32((u32)opcode << 24);
	t3_cpl_handle(ep, skb);
	kfree_skb(skb);
}

static void open_rpl(struct kunit *test, struct t3_ep *ep, u8 status, u32 tid)
{
	const struct t3_cpl_act_open_rpl rpl = { .ot = cpu_to_be32(tid), .status = status };

	handle(test, ep, T3_CPL_ACT_OPEN_RPL, &rpl, sizeof(rpl));
}

static void abort_rpl(struct kunit *test, struct t3_ep *ep, u8 status)
{
	const struct t3_cpl_abort_rss rpl = { .status = status };

	handle(test, ep, T3_CPL_ABORT_RPL_RSS, &rpl, sizeof(rpl));
}

/* --- tests ------------------------------------------------------------------ */

static void failed_open_releases_its_tid(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	open_rpl(test, ep, T3_CPL_ERR_CONN_RESET, TIDS - 1);
	KUNIT_EXPECT_EQ(test, released_tids(), 1);
	KUNIT_EXPECT_EQ(test, card.last_tid, TIDS - 1);
	KUNIT_EXPECT_EQ(test, card.freed_atids, 1);
	KUNIT_EXPECT_EQ(test, card.ended, 1);
	end(test, ep);
}

/* A SYN has no TID to release then, and no TID is entered for an ACT_ESTABLISH. */
static void short_messages_are_dropped(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);
	unsigned int opcode, counted = 0;

	for (opcode = 0; opcode < CXGB3_NUM_CPL_CMDS; opcode++) {
		const struct t3_cpl_message *msg = &t3_cpl_messages[opcode];
		struct sk_buff *skb;
		int ret;

		KUNIT_ASSERT_EQ(test, !t3_cpl_handlers[opcode], !msg->min_len);
		if (!msg->min_len)
			continue;
		skb = alloc_skb(64, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		skb_put_zero(skb, msg->min_len - 1);
		skb->csum = (__force __wsum)cpu_to_be32((u32)opcode << 24);
		rcu_read_lock();
		ret = t3_cpl_handlers[opcode](&tdev, skb, ep);
		rcu_read_unlock();
		KUNIT_EXPECT_EQ(test, ret, msg->listener ? CPL_RET_BUF_DONE : 0);
		if (ret)
			kfree_skb(skb);
		else
			counted++;
	}
	KUNIT_EXPECT_EQ(test, counted, 11);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_CM_BAD_EVENT]), counted);
	KUNIT_EXPECT_EQ(test, card.inserted_tids, 0);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CONNECTING);
	end(test, ep);
}

/* A message may name any TID of the table: of another connection, or one already released. */
static void any_tid_is_released(struct kunit *test)
{
	struct t3c_tid_entry *entry = &nic.tid_maps.tid_tab[7];
	const struct t3c_tid_entry other = { .client = &t3_client, .ctx = entry };
	unsigned int i;

	*entry = other;
	for (i = 1; i <= 2; i++) {
		struct t3_ep *ep = new_ep(test, EP_CONNECTING);

		open_rpl(test, ep, T3_CPL_ERR_CONN_RESET, 7);
		KUNIT_EXPECT_EQ(test, released_tids(), i);
		KUNIT_EXPECT_EQ(test, card.last_tid, 7);
		KUNIT_EXPECT_EQ(test, memcmp(entry, &other, sizeof(other)), 0);
		end(test, ep);
	}
}

/* B10: cxgb3 would use the TID as an index. */
static void out_of_range_tid_is_not_released(struct kunit *test)
{
	static const u32 bad[] = { TIDS, TIDS + 1, T3_CPL_ID };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		struct t3_ep *ep = new_ep(test, EP_CONNECTING);

		open_rpl(test, ep, T3_CPL_ERR_CONN_RESET, bad[i]);
		KUNIT_EXPECT_EQ(test, released_tids(), 0);
		KUNIT_EXPECT_EQ(test, card.ended, i + 1);
		end(test, ep);
	}
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_CM_BAD_EVENT]), i);
}

static void syn_with_an_out_of_range_tid_is_dropped(struct kunit *test)
{
	struct t3_cpl_pass_accept_req req = { .ot = cpu_to_be32(TIDS) };
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	ep->id_kind = T3_ID_NONE;
	handle(test, ep, T3_CPL_PASS_ACCEPT_REQ, &req, sizeof(req));
	KUNIT_EXPECT_EQ(test, card.inserted_tids, 0);
	KUNIT_EXPECT_EQ(test, released_tids(), 0);
	KUNIT_EXPECT_EQ(test, card.sent, 0);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	end(test, ep);

	ep = new_ep(test, EP_IDLE);
	ep->id_kind = T3_ID_NONE;
	req.ot = cpu_to_be32(TIDS - 1);
	handle(test, ep, T3_CPL_PASS_ACCEPT_REQ, &req, sizeof(req));
	KUNIT_EXPECT_EQ(test, card.inserted_tids, 1);
	KUNIT_EXPECT_EQ(test, ep->state, EP_SYN_RCVD);
	end(test, ep);
}

/* The card would take the segments of the host's connection. */
static void syn_with_the_addresses_of_a_connection_is_refused(struct kunit *test)
{
	struct t3_cpl_pass_accept_req req = { .ot = cpu_to_be32(TIDS - 1) };
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	ep->id_kind = T3_ID_NONE;
	card.host_is_connected = true;
	handle(test, ep, T3_CPL_PASS_ACCEPT_REQ, &req, sizeof(req));
	KUNIT_EXPECT_EQ(test, card.inserted_tids, 0);
	KUNIT_EXPECT_EQ(test, released_tids(), 1);
	KUNIT_EXPECT_EQ(test, card.sent, 0);
	end(test, ep);
}

/* B16: for example, the address was removed after the listen. route_kunit has the cases. */
static void syn_to_an_address_not_on_a_port_is_refused(struct kunit *test)
{
	struct t3_cpl_pass_accept_req req = { .ot = cpu_to_be32(TIDS - 1) };
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	ep->id_kind = T3_ID_NONE;
	card.route_error = -EADDRNOTAVAIL;
	handle(test, ep, T3_CPL_PASS_ACCEPT_REQ, &req, sizeof(req));
	KUNIT_EXPECT_EQ(test, card.inserted_tids, 0);
	KUNIT_EXPECT_EQ(test, released_tids(), 1);
	KUNIT_EXPECT_EQ(test, card.last_tid, TIDS - 1);
	KUNIT_EXPECT_EQ(test, card.sent, 0);
	end(test, ep);
}

/* The end of most connections would free none. */
static void syn_without_a_next_hop_takes_that_of_another(struct kunit *test)
{
	struct t3_cpl_pass_accept_req req = { .ot = cpu_to_be32(TIDS - 1) };
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	ep->id_kind = T3_ID_NONE;
	card.route_error = -ENOMEM;
	handle(test, ep, T3_CPL_PASS_ACCEPT_REQ, &req, sizeof(req));
	KUNIT_EXPECT_EQ(test, released_tids(), 1);
	KUNIT_EXPECT_EQ(test, card.places, 1);
	KUNIT_EXPECT_TRUE(test, card.next_hop);
	end(test, ep);
}

/* B19: the reply has the DSCP of the SYN. The two bits below it are ECN. */
static void accept_reply_has_the_dscp_of_the_syn(struct kunit *test)
{
	static const u8 tos[] = { 0, 0x03, 0xb8, 0xbb, 0xff };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tos); i++) {
		struct t3_cpl_pass_accept_req req = {
			.ot = cpu_to_be32(TIDS - 1),
			.tos_tid = cpu_to_be32(FIELD_PREP(T3_CPL_TOS, tos[i])),
		};
		struct t3_ep *ep = new_ep(test, EP_IDLE);
		u32 dscp;

		ep->id_kind = T3_ID_NONE;
		handle(test, ep, T3_CPL_PASS_ACCEPT_REQ, &req, sizeof(req));
		KUNIT_EXPECT_EQ(test, card.sent, i + 1);
		dscp = FIELD_GET(T3_OPT0L_TOS, be32_to_cpu(card.accepted.opt0l_status));
		KUNIT_EXPECT_EQ(test, dscp, (u32)tos[i] >> 2);
		end(test, ep);
	}
}

/* Of 64 TIDs one user gets 56, for requests that are never accepted and for opens. */
static void tids_are_charged_to_the_user(struct kunit *test)
{
	struct t3_cpl_pass_accept_req req = {};
	static struct t3_quota user = { .refs = 1000 };
	struct t3_ep *eps[TIDS - TIDS / 8], *ep;
	unsigned int i;

	t3_quotas_init(&dev->quotas);
	for (i = 0; i <= ARRAY_SIZE(eps); i++) {
		ep = new_ep(test, EP_IDLE);
		ep->id_kind = T3_ID_NONE;
		ep->active = false;
		ep->quota = &user;
		req.ot = cpu_to_be32(i);
		handle(test, ep, T3_CPL_PASS_ACCEPT_REQ, &req, sizeof(req));
		if (i < ARRAY_SIZE(eps))
			eps[i] = ep;
	}
	KUNIT_EXPECT_EQ(test, card.inserted_tids, ARRAY_SIZE(eps));
	KUNIT_EXPECT_EQ(test, released_tids(), 1);
	KUNIT_EXPECT_EQ(test, card.last_tid, ARRAY_SIZE(eps));
	KUNIT_EXPECT_EQ(test, card.places, 1);	/* the oldest half-open connection ends */
	KUNIT_EXPECT_FALSE(test, card.next_hop);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_TID]), (int)ARRAY_SIZE(eps));
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	/* The same limit refuses an open, although cxgb3 has a free ATID. */
	card.atid = ATID;
	nic.tid_maps.natids = 16;
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_OVER_QUOTA]), 1);
	KUNIT_EXPECT_EQ(test, t3_ep_take_atid(ep), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_OVER_QUOTA]), 2);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_ATID]), 0);
	end(test, ep);

	for (i = 0; i < ARRAY_SIZE(eps); i++)
		end(test, eps[i]);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_TID]), 0);
}

/* An open is charged for its TID at once: the reply with the TID cannot be refused. */
static void open_is_charged_for_its_tid(struct kunit *test)
{
	static struct t3_quota user = { .refs = 1000 };
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	t3_quotas_init(&dev->quotas);
	nic.tid_maps.natids = 16;
	ep->quota = &user;
	ep->id_kind = T3_ID_NONE;
	KUNIT_EXPECT_EQ(test, t3_ep_take_atid(ep), -ENOMEM);	/* cxgb3 has none */
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_ATID]), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_TID]), 0);

	card.atid = ATID;
	atomic_set(&user.used[T3_QUOTA_ATID], 14);	/* the user's share */
	KUNIT_EXPECT_EQ(test, t3_ep_take_atid(ep), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_ATID]), 14);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_TID]), 0);
	atomic_set(&user.used[T3_QUOTA_ATID], 0);

	KUNIT_EXPECT_EQ(test, t3_ep_take_atid(ep), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_ATID]), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_TID]), 1);
	t3_ep_exchange_atid(ep, 7);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_ATID]), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_TID]), 1);
	t3_ep_return_id(ep);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_TID]), 0);

	KUNIT_EXPECT_EQ(test, t3_ep_take_atid(ep), 0);
	t3_ep_return_id(ep);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_ATID]), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&user.used[T3_QUOTA_TID]), 0);
	end(test, ep);
}

/* cxgb3 still looks up endpoints in its table, and frees it later. */
static void id_of_a_dead_card_is_cleared(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	ep->tid = 7;
	ep->id_kind = T3_ID_TID;
	nic.tid_maps.tid_tab[7].ctx = ep;
	set_bit(T3_DEV_GONE, &dev->flags);
	t3_ep_return_id(ep);
	KUNIT_EXPECT_PTR_EQ(test, nic.tid_maps.tid_tab[7].ctx, NULL);
	KUNIT_EXPECT_EQ(test, (int)ep->id_kind, T3_ID_NONE);
	clear_bit(T3_DEV_GONE, &dev->flags);
	end(test, ep);
}

/* The card has replied, so no message ends this state. */
static void abort_after_conn_exist_closes(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	open_rpl(test, ep, T3_CPL_ERR_CONN_EXIST, 0);
	KUNIT_EXPECT_EQ(test, card.ended, 0);
	t3_ep_request(ep, T3_REQ_ABORT, T3_RUN_QUEUED);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, card.ended, 1);
	KUNIT_EXPECT_EQ(test, card.freed_atids, 1);
	end(test, ep);
}

static void second_conn_exist_fails_the_open(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	open_rpl(test, ep, T3_CPL_ERR_CONN_EXIST, 0);
	t3_ep_fsm_apply(ep, EP_EV_TIMEOUT, 0);
	KUNIT_EXPECT_EQ(test, card.sent, 1);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CONNECTING);
	open_rpl(test, ep, T3_CPL_ERR_CONN_EXIST, 0);
	KUNIT_EXPECT_EQ(test, card.ended, 1);
	end(test, ep);
}

static void unsent_second_open_fails_the_open(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	open_rpl(test, ep, T3_CPL_ERR_CONN_EXIST, 0);
	card.send_error = -EIO;
	t3_ep_fsm_apply(ep, EP_EV_TIMEOUT, 0);
	KUNIT_EXPECT_EQ(test, card.ended, 1);
	KUNIT_EXPECT_EQ(test, card.freed_atids, 1);
	end(test, ep);
}

static void abort_reply_has_two_copies(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CLOSING);

	ep->qp = (struct t3_qp *)ep;	/* any address: only fakes get it */
	t3_ep_fsm_apply(ep, EP_EV_ABORT, -ECONNABORTED);
	KUNIT_EXPECT_EQ(test, card.sent, 1);
	abort_rpl(test, ep, T3_CPL_ERR_NONE);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	KUNIT_EXPECT_EQ(test, card.detached, 0);
	abort_rpl(test, ep, T3_CPL_ERR_NONE);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	KUNIT_EXPECT_EQ(test, card.detached, 1);
	end(test, ep);
}

/* Both ends had closed: the card sends this reply once, and the device has not failed. */
static void abort_failed_reply_closes(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_LAST_ACK);

	t3_ep_fsm_apply(ep, EP_EV_ABORT, -ECONNABORTED);
	abort_rpl(test, ep, T3_CPL_ERR_ABORT_FAILED);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	end(test, ep);
}

/* A softirq may get none. The messages of the teardown keep theirs. */
static void reply_to_a_syn_needs_no_memory(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_SYN_RCVD);
	int ret[2], i;

	failing.nth = 1;
	for (i = 0; i < 2; i++) {
		allocations_fail();
		ret[i] = t3_send_pass_accept_rpl(ep);
		allocations_work();
	}
	KUNIT_EXPECT_EQ(test, ret[0], 0);
	KUNIT_EXPECT_EQ(test, ret[1], -ENOMEM);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&ep->spare), TEARDOWN_SKBS);
	end(test, ep);
}

static const struct t3_term term = { .layer_type = 0x11, .code = 0x02 };

/* An async event reports the error in softirq. */
static void error_in_softirq(struct kunit *test, struct t3_ep *ep)
{
	local_bh_disable();
	t3_ep_terminate(ep, term);
	local_bh_enable();
	flush_work(&ep->work);
}

static void runner_sends_the_terminate(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);
	u8 expected[T3_TERMINATE_WR_BYTES];

	error_in_softirq(test, ep);
	KUNIT_EXPECT_EQ(test, ep->state, EP_TERMINATING);
	KUNIT_EXPECT_EQ(test, card.sent, 1);
	t3_wr_build_terminate(expected, ATID, 0x11, 0x02);
	KUNIT_ASSERT_EQ(test, card.message_len, sizeof(expected));
	KUNIT_EXPECT_EQ(test, memcmp(card.message, expected, sizeof(expected)), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_TERM_SENT]), 1);
	end(test, ep);
}

/* The FIN was the last message of this side. */
static void terminate_does_not_follow_the_fin(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CLOSING);

	error_in_softirq(test, ep);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSING);
	KUNIT_EXPECT_EQ(test, card.sent, 0);
	end(test, ep);
}

static void terminate_without_memory(struct t3_ep *ep)
{
	failing.nth = 1;
	allocations_fail();
	t3_ep_terminate(ep, term);
	flush_work(&ep->work);
	allocations_work();
}

static void terminate_with_its_spare_needs_no_memory(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	terminate_without_memory(ep);
	KUNIT_EXPECT_EQ(test, ep->state, EP_TERMINATING);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&ep->spare), TEARDOWN_SKBS);
	end(test, ep);
}

/* The abort cannot be sent either; its timer declares the card dead. */
static void terminate_that_is_not_sent_aborts(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	card.send_error = -EIO;
	t3_ep_terminate(ep, term);
	flush_work(&ep->work);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_TERM_SENT]), 0);
	end(test, ep);
}

static void terminate_without_memory_aborts(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	while (skb_queue_len(&ep->spare) > TEARDOWN_SKBS)
		kfree_skb(__skb_dequeue(&ep->spare));
	terminate_without_memory(ep);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	KUNIT_EXPECT_EQ(test, card.sent, 1);	/* the abort */
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_TERM_SENT]), 0);
	end(test, ep);
}

static void ack_arrives(struct kunit *test, struct t3_ep *ep)
{
	const struct t3_cpl_wr_ack ack = { .credits = cpu_to_be16(1) };
	struct sk_buff *skb = alloc_skb(sizeof(ack), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_put_data(skb, &ack, sizeof(ack));
	skb->csum = (__force __wsum)cpu_to_be32((u32)T3_CPL_TX_DMA_ACK << 24);
	local_bh_disable();
	rcu_read_lock();
	KUNIT_EXPECT_EQ(test, t3_cpl_handlers[T3_CPL_TX_DMA_ACK](NULL, skb, ep), 0);
	rcu_read_unlock();
	local_bh_enable();
	flush_work(&ep->work);
}

/* The ack of a frame can wait for the next message, that of RDMA_INIT cannot. */
static void only_the_ack_of_init_runs_the_endpoint(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_ACCEPTING);

	ep->streaming_unacked = 1;
	ack_arrives(test, ep);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&ep->messages), 1);
	KUNIT_EXPECT_EQ(test, ep->streaming_unacked, 1);
	ep->init_unacked = true;
	ack_arrives(test, ep);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&ep->messages), 0);
	KUNIT_EXPECT_EQ(test, ep->streaming_unacked, 0);
	KUNIT_EXPECT_FALSE(test, ep->init_unacked);
	/* One that is never handled is freed with the endpoint. */
	ack_arrives(test, ep);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&ep->messages), 1);
	end(test, ep);
}

/* An event of the device closed the endpoint before it handled the SYN. */
static void syn_of_a_closed_endpoint_releases_its_tid(struct kunit *test)
{
	const struct t3_cpl_pass_accept_req req = { .ot = cpu_to_be32(TIDS - 1) };
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	ep->id_kind = T3_ID_NONE;
	t3_ep_fsm_apply(ep, EP_EV_SHUT_DOWN, -ENODEV);
	KUNIT_EXPECT_EQ(test, released_tids(), 0);
	handle(test, ep, T3_CPL_PASS_ACCEPT_REQ, &req, sizeof(req));
	KUNIT_EXPECT_EQ(test, released_tids(), 1);
	KUNIT_EXPECT_EQ(test, card.last_tid, TIDS - 1);
	end(test, ep);
}

/* Each connection of a process has them until its end. */
static void spare_messages_are_charged_to_the_memcg(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	ep->id_kind = T3_ID_NONE;
	__skb_queue_purge(&ep->spare);
	count_uncharged();
	KUNIT_EXPECT_EQ(test, t3_cpl_reserve(ep), 0);
	KUNIT_EXPECT_EQ(test, uncharged(), 0);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&ep->spare), SPARE_SKBS);
	end(test, ep);
}

static struct kunit_case cpl_cases[] = {
	KUNIT_CASE(failed_open_releases_its_tid),
	KUNIT_CASE(short_messages_are_dropped),
	KUNIT_CASE(any_tid_is_released),
	KUNIT_CASE(out_of_range_tid_is_not_released),
	KUNIT_CASE(syn_with_an_out_of_range_tid_is_dropped),
	KUNIT_CASE(syn_of_a_closed_endpoint_releases_its_tid),
	KUNIT_CASE(tids_are_charged_to_the_user),
	KUNIT_CASE(open_is_charged_for_its_tid),
	KUNIT_CASE(id_of_a_dead_card_is_cleared),
	KUNIT_CASE(syn_to_an_address_not_on_a_port_is_refused),
	KUNIT_CASE(syn_without_a_next_hop_takes_that_of_another),
	KUNIT_CASE(syn_with_the_addresses_of_a_connection_is_refused),
	KUNIT_CASE(accept_reply_has_the_dscp_of_the_syn),
	KUNIT_CASE(abort_after_conn_exist_closes),
	KUNIT_CASE(second_conn_exist_fails_the_open),
	KUNIT_CASE(unsent_second_open_fails_the_open),
	KUNIT_CASE(abort_reply_has_two_copies),
	KUNIT_CASE(abort_failed_reply_closes),
	KUNIT_CASE(reply_to_a_syn_needs_no_memory),
	KUNIT_CASE(runner_sends_the_terminate),
	KUNIT_CASE(terminate_does_not_follow_the_fin),
	KUNIT_CASE(terminate_with_its_spare_needs_no_memory),
	KUNIT_CASE(terminate_that_is_not_sent_aborts),
	KUNIT_CASE(terminate_without_memory_aborts),
	KUNIT_CASE(spare_messages_are_charged_to_the_memcg),
	KUNIT_CASE(only_the_ack_of_init_runs_the_endpoint),
	{}
};

TEST_SUITE("iw_cxgb3_cpl", cpl_cases, .init = cpl_init, .exit = cpl_exit);
