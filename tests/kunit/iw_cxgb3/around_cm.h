/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For suites of a consumer's calls and events: the real cm.c, ep.c and tables, with fakes for the
 * card, the QP and the consumer. At the end of each test the consumer has got one result, and its
 * reference is dropped.
 */
#ifndef T3_KUNIT_AROUND_CM_H
#define T3_KUNIT_AROUND_CM_H

#include <linux/delay.h>

#include "conn.h"

#include "ep_fsm.c"
#include "quota.c"
#include "ep.c"
#include "mpa.c"
#include "cm.c"

enum { QPN = 32, FOREIGN_QPN = 96 };

static struct {
	unsigned int opens, streams, rtrs, closes, aborts, abort_rpls, connects;
	int rtr_error, connect_error, stream_error, route_error, atid_error;
	unsigned int accepts_failed;		/* T3_QPEV_ACCEPT_FAILED */
	bool address_removed, conflicts;
	int ports_held, port_error;
	bool host_is_connected;			/* its TCP, with the same addresses */
	int foreign_puts;
	int without_interface;
	u16 port_shift;				/* to another local port */
	bool init_is_acked, no_qp, no_rtr_entry, no_connect, qp_in_error;
	int qp_refs;
	unsigned int ids, max_ids;		/* ATIDs and TIDs, each of which is charged */
	unsigned int lost, detached;
	u8 mpa_rev, rtr_type, mpa_attrs;
	unsigned int handled;			/* messages; each takes a while */
	void (*message)(struct t3_ep *ep);	/* what the next one does instead */
	int debugfs;				/* folders */
} card;

static struct {
	unsigned int replies, established, closes, requests, others;
	int reply, established_status, close;
	int refs;
	unsigned int pdata_len;
	bool no_memory;			/* for a copy of the private data */
	void (*answer)(void);		/* to a request, inside its event */
	int answered;			/* its result */
} consumer;

static struct {
	const char *name;
	void (*happens)(void);
} at;

static struct t3_dev *dev;
static struct t3_qp *qp, foreign_qp;
static struct iw_cm_id cm_id;

void t3_race_point(const char *name)
{
	if (!at.name || strcmp(name, at.name))
		return;
	at.name = NULL;
	at.happens();
}

/* --- the consumer --------------------------------------------------------- */

static int on_event(struct iw_cm_id *id, struct iw_cm_event *event)
{
	switch (event->event) {
	case IW_CM_EVENT_CONNECT_REPLY:
		if (consumer.no_memory && event->private_data_len)
			return -ENOMEM;
		consumer.replies++;
		consumer.reply = event->status;
		consumer.pdata_len = event->private_data_len;
		break;
	case IW_CM_EVENT_CONNECT_REQUEST:
		consumer.requests++;
		id->provider_data = event->provider_data;
		if (consumer.answer)
			consumer.answer();
		break;
	case IW_CM_EVENT_ESTABLISHED:
		/* iw_cm: BUG() after another event of the connection. */
		consumer.others += consumer.closes;
		consumer.established++;
		consumer.established_status = event->status;
		break;
	case IW_CM_EVENT_CLOSE:
		/* iw_cm: BUG() before the connection is established. */
		consumer.others += !consumer.established && !consumer.replies;
		consumer.closes++;
		consumer.close = event->status;
		break;
	default:
		consumer.others++;
	}
	return 0;
}

static void take(struct iw_cm_id *id)
{
	consumer.refs++;
}

static void drop(struct iw_cm_id *id)
{
	consumer.refs--;
}

/* --- the QP --------------------------------------------------------------- */

struct t3_qp *t3_qp_find(struct t3_dev *dev, u32 id)
{
	if (card.no_qp || (id != QPN && id != FOREIGN_QPN))
		return NULL;
	card.qp_refs++;
	return id == QPN ? qp : &foreign_qp;
}

void t3_qp_put(struct t3_qp *qp)
{
	card.qp_refs--;
	card.foreign_puts += qp == &foreign_qp;
}

bool t3_qp_permits(const struct t3_qp *qp, const struct iw_cm_id *cm_id)
{
	return qp != &foreign_qp;
}

bool t3_qp_reserve_rtr_entry(struct t3_qp *qp)
{
	return !card.no_rtr_entry;
}

bool t3_qp_in_state(struct t3_qp *qp, enum ib_qp_state state)
{
	return state == IB_QPS_ERR && card.qp_in_error;
}

int t3_qp_connect(struct t3_qp *qp, struct t3_ep *ep, const struct t3_conn_attrs *attrs,
		  bool *acked)
{
	card.connects++;
	card.mpa_rev = attrs->mpa_rev;
	card.rtr_type = attrs->rtr_type;
	card.mpa_attrs = attrs->mpa_attrs;
	*acked = card.init_is_acked;
	return card.connect_error;
}

int t3_qp_fsm_apply(struct t3_qp *qp, enum t3_qp_event ev)
{
	card.lost += ev == T3_QPEV_LOST;
	card.accepts_failed += ev == T3_QPEV_ACCEPT_FAILED;
	return 0;
}

void t3_qp_disconnected(struct t3_qp *qp)
{
	card.detached++;
}

/* --- the card ------------------------------------------------------------- */

int t3_send_act_open_req(struct t3_ep *ep)
{
	card.opens++;
	card.mpa_rev = ep->mpa_rev;
	return 0;
}

int t3_send_stream(struct t3_ep *ep, unsigned int until)
{
	card.streams++;
	return card.stream_error;
}

int t3_send_rtr_read(struct t3_ep *ep)
{
	card.rtrs += !card.rtr_error;
	return card.rtr_error;
}

void t3_send_close_con_req(struct t3_ep *ep)
{
	card.closes++;
}

void t3_send_abort_req(struct t3_ep *ep)
{
	card.aborts++;
}

void t3_send_abort_rpl(struct t3_ep *ep)
{
	card.abort_rpls++;
}

void t3_cpl_handle(struct t3_ep *ep, struct sk_buff *skb)
{
	void (*message)(struct t3_ep *ep) = card.message;

	if (message) {
		card.message = NULL;
		message(ep);
		return;
	}
	msleep(50);
	card.handled++;
}

int t3_ep_take_atid(struct t3_ep *ep)
{
	if (card.atid_error)
		return card.atid_error;
	ep->id_kind = T3_ID_ATID;
	card.max_ids = max(card.max_ids, ++card.ids);
	return 0;
}

void t3_ep_return_id(struct t3_ep *ep)
{
	card.ids -= ep->id_kind != T3_ID_NONE;
	ep->id_kind = T3_ID_NONE;
}

int t3_route_resolve(struct t3_ep *ep)
{
	ep->ndev = init_net.loopback_dev;
	return card.route_error;
}

struct t3_tcp_port *t3_tcp_port_connect(struct t3_dev *dev, const struct iw_cm_id *cm_id,
					struct sockaddr_in *local)
{
	if (card.port_error)
		return ERR_PTR(card.port_error);
	local->sin_port = cpu_to_be16(be16_to_cpu(local->sin_port) + card.port_shift);
	card.ports_held++;
	return (void *)&card;
}

void t3_tcp_port_release(struct t3_tcp_port *held)
{
	card.ports_held -= !!held;
}

bool t3_tcp_is_connected(const struct t3_ep *ep)
{
	return card.host_is_connected;
}

bool t3_route_conflicts(struct t3_dev *dev, const struct iw_cm_id *cm_id, __be32 addr)
{
	return card.conflicts;
}

bool t3_route_has_address(const struct net_device *ndev, __be32 addr)
{
	card.without_interface += !ndev;
	return !card.address_removed;
}

bool t3_route_keeps_address(const struct t3_ep *ep)
{
	return !card.address_removed;
}

bool t3_route_is_valid(struct t3_ep *ep)
{
	return !card.address_removed;
}

void t3_route_release(struct t3_ep *ep)
{
	ep->ndev = NULL;
}

void t3_cm_debugfs_add(struct t3_cm_dev *cm)
{
	card.debugfs++;
}

void t3_cm_debugfs_remove(struct t3_cm_dev *cm)
{
	card.debugfs--;
}

/* --- a device and a consumer ----------------------------------------------- */

static int cm_init(struct kunit *test)
{
	memset(&card, 0, sizeof(card));
	memset(&consumer, 0, sizeof(consumer));
	dev = conn_dev(test);
	INIT_DELAYED_WORK(&dev->cm->addrs_work, t3_cm_addrs_work);
	qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->id = QPN;
	qp->serial = 1;
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	foreign_qp.id = FOREIGN_QPN;
	KUNIT_ASSERT_EQ(test, xa_insert_irq(&dev->qps, QPN, qp, GFP_KERNEL), 0);
	KUNIT_ASSERT_EQ(test, xa_insert_irq(&dev->qps, FOREIGN_QPN, &foreign_qp, GFP_KERNEL), 0);
	cm_id = (struct iw_cm_id){ .device = &dev->ibdev };
	cm_id.event_handler = on_event;
	cm_id.add_ref = take;
	cm_id.rem_ref = drop;
	KUNIT_ASSERT_EQ(test, t3_cm_init(), 0);
	return 0;
}

static void cm_exit(struct kunit *test)
{
	drain_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 0);
	KUNIT_EXPECT_EQ(test, card.ids, 0);
	KUNIT_EXPECT_EQ(test, card.ports_held, 0);
	KUNIT_EXPECT_EQ(test, card.without_interface, 0);
	KUNIT_EXPECT_EQ(test, card.qp_refs, 0);
	KUNIT_EXPECT_NULL(test, at.name);
	KUNIT_EXPECT_EQ(test, consumer.others, 0);
	KUNIT_EXPECT_EQ(test, consumer.replies, !card.no_connect);
	KUNIT_EXPECT_EQ(test, consumer.refs, 0);
	KUNIT_EXPECT_EQ(test, card.debugfs, 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_CM_BAD_EVENT]), 0);
	t3_cm_exit();
	xa_destroy(&dev->qps);
}

static void __maybe_unused end(struct kunit *test, struct t3_ep *ep)
{
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	KUNIT_EXPECT_NULL(test, ep->cm_id);
	flush_work(&ep->work);
	flush_delayed_work(&ep->timer);
	KUNIT_EXPECT_EQ(test, kref_read(&ep->ref), 1);
	t3_ep_put(ep);
}

#endif
