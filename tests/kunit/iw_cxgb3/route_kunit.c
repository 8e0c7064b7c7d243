// SPDX-License-Identifier: GPL-2.0
/*
 * Messages of a connection whose next hop is not resolved, with the real route.c, cpl.c and
 * table: when cxgb3's ARP queue may hold them, and when not. And the references of a connection
 * on its route. cxgb3 and the kernel's routes are fakes in this file.
 */
#include <linux/inetdevice.h>
#include <linux/version.h>
#include <net/route.h>

#include "conn.h"

static struct rtable *find_route(void);

#define ip_route_output_key(net, fl4) ((void)(fl4), find_route())

static bool read_what_is_gone;

/* The other namespaces of the tests have no more than their addresses. */
static struct net_device *find_ip_dev(struct net *net, __be32 addr)
{
	read_what_is_gone |= IS_ERR(net);
	return net == &init_net ? __ip_dev_find(net, addr, false) : NULL;
}

#define __ip_dev_find(net, addr, hold)	find_ip_dev(net, addr)

/* Each port has as many macvlans. How many of them were visited. */
static unsigned int macvlans, visited;

static __maybe_unused struct net_device *next_macvlan(struct net_device *last)
{
	static struct net_device macvlan;

	return visited < macvlans && ++visited ? &macvlan : NULL;
}

/* The VLAN with the last id on a port. */
static struct net_device *last_vlan, *below_it;

#include <t3_netdev.h>
#undef netdev_for_each_upper_dev_rcu
#define netdev_for_each_upper_dev_rcu(port, upper, iter) \
	for ((iter) = NULL, (upper) = next_macvlan(port); upper; (upper) = next_macvlan(port))
#define t3_has_vlans(port)				((port) == below_it)
#define __vlan_find_dev_deep_rcu(port, proto, id)	((id) == 4094 ? last_vlan : NULL)
#define t3_vlan_below(ndev)				((ndev) == last_vlan ? below_it : NULL)

#include "ep_fsm.c"
#include "quota.c"
#include "ep.c"
#include "tids.c"
#include "cpl.c"
#include "wr.c"
#include "route.c"

enum { TIDS = 64, TID = 5 };

static struct l2t_entry l2t;
static struct neighbour next_hop;

static struct {
	unsigned int sent, others_sent, l2_freed, fatal;
	int send_error;
	bool has_l2_entry;
	u8 opcode, cmd;			/* of the last message */
	unsigned int waiting_at_release;
	bool released;
} card;

/* --- the NIC driver -------------------------------------------------------- */

int cxgb3_ofld_send(struct t3cdev *tdev, struct sk_buff *skb)
{
	const struct t3_cpl_abort *msg = (const void *)skb->data;

	if (card.send_error)
		return card.send_error;
	if (skb->len < sizeof(*msg)) {
		card.others_sent++;
	} else {
		card.sent++;
		card.opcode = be32_to_cpu(msg->ot) >> 24;
		card.cmd = msg->cmd;
	}
	kfree_skb(skb);
	return 0;
}

int t3_l2t_send_slow(struct t3cdev *tdev, struct sk_buff *skb, struct l2t_entry *e)
{
	if (e->state == L2T_STATE_RESOLVING) {
		__skb_queue_tail(&e->arpq, skb);
		return 0;
	}
	e->state = L2T_STATE_VALID;
	return cxgb3_ofld_send(tdev, skb);
}

/* The next hop's address is resolved. */
static void resolve(struct t3cdev *tdev)
{
	struct sk_buff *skb;

	l2t.state = L2T_STATE_VALID;
	while ((skb = __skb_dequeue(&l2t.arpq)))
		cxgb3_ofld_send(tdev, skb);
}

struct l2t_entry *t3_l2t_get(struct t3cdev *tdev, struct dst_entry *dst, struct net_device *ndev,
			     const void *daddr)
{
	if (!card.has_l2_entry)
		return NULL;
	atomic_inc(&l2t.refcnt);
	return &l2t;
}

void t3_l2e_free(struct l2t_data *d, struct l2t_entry *e)
{
	card.l2_freed++;
}

/* From now on the TID may belong to another connection. */
void cxgb3_remove_tid(struct t3cdev *tdev, void *ctx, unsigned int tid)
{
	card.released = true;
	card.waiting_at_release = skb_queue_len(&l2t.arpq);
}

int t3_dev_send(struct t3_dev *dev, struct sk_buff *skb)
{
	return cxgb3_ofld_send(dev->tdev, skb);
}

/* --- fakes of the other files ---------------------------------------------- */

void t3_dev_fatal(struct t3_dev *dev, const char *what)
{
	card.fatal++;
}

/* --- a connection ----------------------------------------------------------- */

static struct t3_dev *dev;
static struct t3cdev tdev;
static struct t3c_data nic;

static int route_init(struct kunit *test)
{
	memset(&card, 0, sizeof(card));
	memset(&l2t, 0, sizeof(l2t));
	dev = conn_dev(test);
	nic.tid_maps.ntids = TIDS;
	tdev.l4opt = &nic;
	tdev.ulp = dev;
	dev->tdev = &tdev;
	dev->cm->nmtus = 1;
	dev->cm->mtus[0] = 1500;
	next_hop.nud_state = NUD_REACHABLE;
	spin_lock_init(&l2t.lock);
	__skb_queue_head_init(&l2t.arpq);
	atomic_set(&l2t.refcnt, 2);
	l2t.neigh = &next_hop;
	l2t.vlan = T3_L2T_NO_VLAN;
	l2t.state = L2T_STATE_RESOLVING;
	t3_cm_wq = alloc_workqueue("route_kunit", 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_cm_wq);
	return 0;
}

static void route_exit(struct kunit *test)
{
	drain_workqueue(t3_cm_wq);
	destroy_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cm->num_eps), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&l2t.refcnt), 1);
	while (!skb_queue_empty(&l2t.arpq))
		kfree_skb(__skb_dequeue(&l2t.arpq));
	rcu_barrier();
}

static struct t3_ep *new_ep(struct kunit *test, enum ep_state state)
{
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	KUNIT_ASSERT_EQ(test, t3_ep_publish(ep), 0);
	ep->state = state;
	ep->l2t = &l2t;
	ep->tid = TID;
	ep->id_kind = T3_ID_TID;
	if (ep_state_has_timer(state))
		t3_ep_set_timer(ep, 60 * HZ);
	return ep;
}

static void end(struct kunit *test, struct t3_ep *ep)
{
	KUNIT_EXPECT_EQ(test, ep->state, EP_CLOSED);
	if (ep->state != EP_CLOSED)
		t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	flush_work(&ep->work);
	flush_delayed_work(&ep->timer);
	KUNIT_EXPECT_EQ(test, kref_read(&ep->ref), 1);
	t3_ep_put(ep);
}

/* A message of another client of cxgb3, or of another connection. */
static void queue_another(struct kunit *test)
{
	struct sk_buff *skb = alloc_skb(16, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	__skb_queue_tail(&l2t.arpq, skb);
}

/* --- tests ------------------------------------------------------------------ */

/* If the neighbour entry is removed without an update, the queue is never sent. */
static void abort_bypasses_the_arp_queue(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	queue_another(test);
	t3_ep_fsm_apply(ep, EP_EV_DISCONNECT, 0);
	queue_another(test);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&l2t.arpq), 3);
	KUNIT_EXPECT_EQ(test, card.sent, 0);
	t3_ep_fsm_apply(ep, EP_EV_ABORT, -ECONNABORTED);
	KUNIT_EXPECT_EQ(test, card.sent, 1);
	KUNIT_EXPECT_EQ(test, card.opcode, T3_CPL_ABORT_REQ);
	KUNIT_EXPECT_EQ(test, card.cmd, T3_ABORT_NO_RST);
	/* When the address is resolved, the FIN is not sent after the abort. */
	resolve(&tdev);
	KUNIT_EXPECT_EQ(test, card.sent, 1);
	KUNIT_EXPECT_EQ(test, card.others_sent, 2);
	t3_ep_fsm_apply(ep, EP_EV_ABORT_RPL, 0);
	KUNIT_EXPECT_EQ(test, card.fatal, 0);
	end(test, ep);
}

/* A FIN sent later would close the next connection with this TID. */
static void arp_queue_is_purged_before_the_tid_release(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	t3_ep_fsm_apply(ep, EP_EV_DISCONNECT, 0);
	queue_another(test);
	t3_ep_fsm_apply(ep, EP_EV_PEER_ABORT, -ECONNRESET);
	KUNIT_EXPECT_EQ(test, card.opcode, T3_CPL_ABORT_RPL);
	KUNIT_EXPECT_TRUE(test, card.released);
	KUNIT_EXPECT_EQ(test, card.waiting_at_release, 1);
	resolve(&tdev);
	KUNIT_EXPECT_EQ(test, card.sent, 1);
	KUNIT_EXPECT_EQ(test, card.others_sent, 1);
	end(test, ep);
}

static void reachable_peer_gets_a_rst(struct kunit *test)
{
	static const u16 resolved[] = { L2T_STATE_VALID, L2T_STATE_STALE };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(resolved); i++) {
		struct t3_ep *ep = new_ep(test, EP_FPDU);

		atomic_set(&l2t.refcnt, 2);
		l2t.state = resolved[i];
		t3_ep_fsm_apply(ep, EP_EV_ABORT, -ECONNABORTED);
		KUNIT_EXPECT_EQ(test, card.sent, i + 1);
		KUNIT_EXPECT_EQ(test, card.opcode, T3_CPL_ABORT_REQ);
		KUNIT_EXPECT_EQ(test, card.cmd, T3_ABORT_SEND_RST);
		KUNIT_EXPECT_EQ(test, l2t.state, L2T_STATE_VALID);
		t3_ep_fsm_apply(ep, EP_EV_ABORT_RPL, 0);
		end(test, ep);
	}
}

static struct net_device *new_port(struct kunit *test)
{
	struct net_device *port = kunit_kzalloc(test, sizeof(*port), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, port);
	INIT_LIST_HEAD(&port->adj_list.upper);
	dev_net_set(port, &init_net);
	return port;
}

/* B16: the local address is on no interface, or on one that is not the card's. */
static void local_address_must_be_on_the_card(struct kunit *test)
{
	static const u32 bad[] = { 0xc0000201, INADDR_LOOPBACK };	/* 192.0.2.1 */
	struct net_device *lo = ip_dev_find(&init_net, htonl(INADDR_LOOPBACK));
	struct net_device *port = new_port(test);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL_MSG(test, lo, "the loopback interface is down");
	dev_put(lo);
	dev->ports.nports = 1;
	dev->ports.lldevs[0] = port;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		struct t3_ep *ep = new_ep(test, EP_IDLE);

		ep->l2t = NULL;
		ep->id_kind = T3_ID_NONE;
		ep->local.sin_addr.s_addr = htonl(bad[i]);
		ep->remote.sin_addr.s_addr = htonl(0xc0000202);
		KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), -EADDRNOTAVAIL);
		KUNIT_EXPECT_NULL(test, ep->l2t);
		KUNIT_EXPECT_NULL(test, ep->dst);
		t3_ep_fsm_apply(ep, EP_EV_ABORT, 0);
		end(test, ep);
	}
	atomic_dec(&l2t.refcnt);	/* as if an endpoint had dropped it */
}

/* --- messages that cannot be sent ---------------------------------------------- */

static unsigned int freed;

static void count_freed(struct sk_buff *skb)
{
	freed++;
}

/* cxgb3 drops the message that waits, since the next hop does not answer. */
static void next_hop_is_unreachable(struct kunit *test)
{
	struct sk_buff *skb = __skb_dequeue(&l2t.arpq);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->destructor = count_freed;
	freed = 0;
	rcu_read_lock();
	((const struct l2t_skb_cb *)skb->cb)->arp_failure_handler(&tdev, skb);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, freed, 1);
}

static void unreachable_next_hop_ends_an_open(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	ep->id_kind = T3_ID_ATID;
	KUNIT_EXPECT_EQ(test, t3_send_act_open_req(ep), 0);
	next_hop_is_unreachable(test);
	flush_work(&ep->work);
	end(test, ep);
}

/* The end of each open searches the messages that wait, and a user chooses how many connect. */
static void opens_that_wait_for_one_next_hop_are_limited(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);
	int i;

	ep->id_kind = T3_ID_ATID;
	for (i = 0; i < T3_ROUTE_MAX_WAITING; i++)
		KUNIT_ASSERT_EQ(test, t3_send_act_open_req(ep), 0);
	KUNIT_EXPECT_EQ(test, t3_send_act_open_req(ep), -ENOBUFS);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&l2t.arpq), T3_ROUTE_MAX_WAITING);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&l2t.arpq), 0);
	end(test, ep);
}

/* The next hop does not answer, and the kernel removes its neighbour entry without a report. */
static void open_that_waits_ends_with_its_deadline(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	ep->id_kind = T3_ID_ATID;
	KUNIT_EXPECT_EQ(test, t3_send_act_open_req(ep), 0);
	queue_another(test);
	ep->deadline = jiffies;
	t3_ep_request(ep, T3_REQ_TIMER, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&l2t.arpq), 1);
	resolve(&tdev);
	KUNIT_EXPECT_EQ(test, card.sent, 0);
	end(test, ep);
}

static void open_that_the_card_has_is_abandoned(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	ep->id_kind = T3_ID_ATID;
	KUNIT_EXPECT_EQ(test, t3_send_act_open_req(ep), 0);
	resolve(&tdev);
	t3_ep_request(ep, T3_REQ_ABORT, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABANDONED);
	t3_ep_fsm_apply(ep, EP_EV_OPEN_FAILED, 0);
	end(test, ep);
}

/* The card has not got the reply to the SYN: it need not answer an abort, which would be fatal. */
static void half_open_connection_that_waits_is_not_aborted(struct kunit *test)
{
	static const enum t3_ep_request ends[] = { T3_REQ_HALF_OPEN_END, T3_REQ_SHUT_DOWN };
	static struct t3_listener listener;
	unsigned int i;

	atomic_inc(&l2t.refcnt);	/* of the second endpoint */
	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		struct t3_ep *ep = new_ep(test, EP_SYN_RCVD);

		ep->listener = &listener;
		l2t.state = L2T_STATE_RESOLVING;
		KUNIT_EXPECT_EQ(test, t3_send_pass_accept_rpl(ep), 0);
		KUNIT_EXPECT_EQ(test, skb_queue_len(&l2t.arpq), 1);
		t3_ep_request(ep, ends[i], T3_RUN_NOW);
		KUNIT_EXPECT_EQ(test, skb_queue_len(&l2t.arpq), 0);
		KUNIT_EXPECT_NE(test, card.opcode, T3_CPL_ABORT_REQ);
		end(test, ep);
	}
}

/* The endpoint's id has no endpoint any more, or the card was removed. */
static void late_report_of_the_next_hop_is_harmless(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_CONNECTING);

	ep->id_kind = T3_ID_ATID;
	KUNIT_EXPECT_EQ(test, t3_send_act_open_req(ep), 0);
	KUNIT_EXPECT_EQ(test, t3_send_act_open_req(ep), 0);
	((struct t3_route_cb *)skb_peek(&l2t.arpq)->cb)->ep_id = ep->id + 1;
	next_hop_is_unreachable(test);
	tdev.ulp = NULL;
	next_hop_is_unreachable(test);
	KUNIT_EXPECT_EQ(test, ep->state, EP_CONNECTING);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	end(test, ep);
}

/* Its deadline ends the connection, if the next hop stays unreachable. */
static void unreachable_next_hop_leaves_a_connection_open(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);

	t3_ep_fsm_apply(ep, EP_EV_DISCONNECT, 0);
	next_hop_is_unreachable(test);
	flush_work(&ep->work);
	KUNIT_EXPECT_NE(test, ep->state, EP_CLOSED);
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	end(test, ep);
}

static void message_that_cxgb3_refuses_is_freed(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_FPDU);
	struct sk_buff *skb = alloc_skb(16, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->destructor = count_freed;
	freed = 0;
	l2t.state = L2T_STATE_VALID;
	card.send_error = -EIO;
	KUNIT_EXPECT_EQ(test, t3_route_send(ep, skb, NULL), -EIO);
	KUNIT_EXPECT_EQ(test, freed, 1);
	card.send_error = 0;
	t3_ep_fsm_apply(ep, EP_EV_DEVICE_DOWN, 0);
	end(test, ep);
}

/* --- references on routes --------------------------------------------------------- */

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
#define route_refs(dst)		atomic_read(&(dst)->__refcnt)
#define set_route_refs(dst, n)	atomic_set(&(dst)->__refcnt, n)
#else
#define route_refs(dst)		((int)rcuref_read(&(dst)->__rcuref))
#define set_route_refs(dst, n)	rcuref_init(&(dst)->__rcuref, n)
#endif

static struct rtable *route;	/* the test has a reference */

static struct rtable *find_route(void)
{
	dst_hold(&route->dst);
	return route;
}

static unsigned int route_mtu(const struct dst_entry *dst)
{
	return 1500;
}

static struct rtable *new_route(struct kunit *test, struct net_device *over)
{
	static struct dst_ops ops = { .mtu = route_mtu };
	struct rtable *rt = kunit_kzalloc(test, sizeof(*rt), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rt);
	rt->dst.ops = &ops;
	rt->dst.dev = over;
	next_hop.dev = over;
	set_route_refs(&rt->dst, 1);
	return rt;
}

/* The loopback interface as the only port, since it has an address. Without a reference. */
static struct net_device *use_lo(struct kunit *test)
{
	struct net_device *lo = ip_dev_find(&init_net, htonl(INADDR_LOOPBACK));

	KUNIT_ASSERT_NOT_NULL_MSG(test, lo, "the loopback interface is down");
	dev_put(lo);
	dev->ports.nports = 1;
	dev->ports.lldevs[0] = lo;
	return lo;
}

static struct t3_ep *new_ep_without_route(struct kunit *test)
{
	struct t3_ep *ep = new_ep(test, EP_IDLE);

	ep->l2t = NULL;
	ep->id_kind = T3_ID_NONE;
	ep->local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ep->remote.sin_addr.s_addr = htonl(0xc0000202);
	atomic_set(&l2t.refcnt, 1);	/* the test's */
	ep->active = true;	/* a peer would be charged for its next hop */
	return ep;
}

static void failed_resolution_keeps_no_reference(struct kunit *test)
{
	struct net_device *lo = use_lo(test), *other;
	struct t3_ep *ep = new_ep_without_route(test);
	int refs = netdev_refcnt_read(lo);

	other = new_port(test);
	route = new_route(test, lo);
	route->rt_flags = RTCF_LOCAL;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, route_refs(&route->dst), 1);
	KUNIT_EXPECT_EQ(test, netdev_refcnt_read(lo), refs);

	route->rt_flags = RTCF_BROADCAST | RTCF_LOCAL;	/* as ip_route_output_key() sets them */
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), -ENETUNREACH);
	KUNIT_EXPECT_EQ(test, route_refs(&route->dst), 1);
	route->rt_flags = RTCF_MULTICAST | RTCF_LOCAL;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), -ENETUNREACH);

	route->rt_flags = 0;
	route->dst.dev = other;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), -EHOSTUNREACH);
	KUNIT_EXPECT_EQ(test, route_refs(&route->dst), 1);

	route->dst.dev = lo;	/* the L2 table is full */
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), -ENOMEM);
	KUNIT_EXPECT_EQ(test, route_refs(&route->dst), 1);
	KUNIT_EXPECT_EQ(test, netdev_refcnt_read(lo), refs);
	KUNIT_EXPECT_NULL(test, ep->dst);

	/* The address is on an interface that is not the card's. */
	dev->ports.lldevs[0] = other;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), -EADDRNOTAVAIL);
	KUNIT_EXPECT_EQ(test, netdev_refcnt_read(lo), refs);
	t3_ep_fsm_apply(ep, EP_EV_ABORT, 0);
	end(test, ep);
}

static void connection_holds_its_route_until_the_end(struct kunit *test)
{
	static struct l2t_data table;
	struct net_device *lo = use_lo(test);
	struct t3_ep *ep = new_ep_without_route(test);

	route = new_route(test, lo);
	card.has_l2_entry = true;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), 0);
	KUNIT_EXPECT_EQ(test, route_refs(&route->dst), 2);
	KUNIT_EXPECT_EQ(test, atomic_read(&l2t.refcnt), 2);
	KUNIT_EXPECT_EQ(test, ep->mtu, 1500);
	t3_route_release(ep);
	KUNIT_EXPECT_EQ(test, route_refs(&route->dst), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&l2t.refcnt), 1);
	KUNIT_EXPECT_EQ(test, card.l2_freed, 0);

	/* Of the last user: then cxgb3 may give the entry to another next hop. */
	atomic_set(&l2t.refcnt, 0);
	RCU_INIT_POINTER(tdev.l2opt, (void __rcu __force *)&table);
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), 0);
	t3_route_release(ep);
	KUNIT_EXPECT_EQ(test, card.l2_freed, 1);
	RCU_INIT_POINTER(tdev.l2opt, NULL);
	atomic_set(&l2t.refcnt, 1);
	t3_ep_fsm_apply(ep, EP_EV_ABORT, 0);
	end(test, ep);
}

/* Interfaces of two network namespaces have the same index, and cxgb3 finds the same entry. */
static void connection_does_not_take_the_vlan_of_another(struct kunit *test)
{
	static struct l2t_data table;
	struct net_device *lo = use_lo(test);
	struct t3_ep *ep = new_ep_without_route(test);

	route = new_route(test, lo);
	card.has_l2_entry = true;
	l2t.state = L2T_STATE_VALID;
	l2t.vlan = 5;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), -EHOSTUNREACH);
	l2t.vlan = T3_L2T_NO_VLAN;
	next_hop.dev = NULL;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), -EHOSTUNREACH);
	KUNIT_EXPECT_EQ(test, route_refs(&route->dst), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&l2t.refcnt), 1);
	KUNIT_EXPECT_EQ(test, l2t.state, L2T_STATE_VALID);

	/* The other connection has ended. */
	atomic_set(&l2t.refcnt, 0);
	RCU_INIT_POINTER(tdev.l2opt, (void __rcu __force *)&table);
	l2t.vlan = 5;
	next_hop.dev = lo;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), 0);
	KUNIT_EXPECT_EQ(test, l2t.vlan, T3_L2T_NO_VLAN);
	KUNIT_EXPECT_EQ(test, l2t.state, L2T_STATE_RESOLVING);
	t3_route_release(ep);
	RCU_INIT_POINTER(tdev.l2opt, NULL);
	atomic_set(&l2t.refcnt, 1);
	t3_ep_fsm_apply(ep, EP_EV_ABORT, 0);
	end(test, ep);
}

/*
 * An entry holds a neighbour of the host. By connects to many next hops a user took all of both,
 * and peers with many addresses took all of a user's share.
 */
static void user_has_a_share_of_the_next_hops(struct kunit *test)
{
	enum { ENTRIES = 8 };
	static struct l2t_data table = { .nentries = ENTRIES };
	struct net_device *lo = use_lo(test);
	struct t3_ep *eps[ENTRIES];
	struct t3_quota *user;
	unsigned int i;

	t3_quotas_init(&dev->quotas);
	user = kunit_kzalloc(test, sizeof(*user), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, user);
	route = new_route(test, lo);
	card.has_l2_entry = true;
	RCU_INIT_POINTER(tdev.l2opt, (void __rcu __force *)&table);
	for (i = 0; i < ENTRIES; i++) {
		eps[i] = new_ep_without_route(test);
		eps[i]->quota = user;
		eps[i]->active = i > ENTRIES / 2;
	}
	for (i = 0; i <= ENTRIES / 2; i++) {
		l2t.idx = i;
		KUNIT_EXPECT_EQ(test, t3_route_resolve(eps[i]), i < ENTRIES / 2 ? 0 : -ENOMEM);
	}
	for (i = 0; i <= ENTRIES / 2; i++)
		eps[i]->active = true;
	for (i = ENTRIES / 2; i < ENTRIES; i++) {
		l2t.idx = i;
		KUNIT_EXPECT_EQ(test, t3_route_resolve(eps[i]), i < 7 ? 0 : -ENOMEM);
	}
	/* A connection to a next hop of another one costs nothing. */
	l2t.idx = 0;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(eps[7]), 0);
	t3_route_release(eps[0]);
	l2t.idx = 7;
	t3_route_release(eps[1]);
	KUNIT_EXPECT_EQ(test, t3_route_resolve(eps[1]), 0);
	KUNIT_EXPECT_EQ(test, t3_route_resolve(eps[0]), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&user->used[T3_QUOTA_L2T]), 7);
	for (i = 0; i < ENTRIES; i++) {
		t3_route_release(eps[i]);
		eps[i]->quota = NULL;
		t3_ep_fsm_apply(eps[i], EP_EV_ABORT, 0);
		end(test, eps[i]);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&user->used[T3_QUOTA_L2T]), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&l2t.refcnt), 1);
	RCU_INIT_POINTER(tdev.l2opt, NULL);
}

/* Those of all such listeners together: a server of the kernel, or one of root. */
static void peers_of_a_listener_without_a_limit_have_a_share(struct kunit *test)
{
	static struct l2t_data table = { .nentries = 4 };
	struct net_device *lo = use_lo(test);
	struct t3_ep *eps[3];
	unsigned int i;

	t3_quotas_init(&dev->quotas);
	route = new_route(test, lo);
	card.has_l2_entry = true;
	RCU_INIT_POINTER(tdev.l2opt, (void __rcu __force *)&table);
	for (i = 0; i < ARRAY_SIZE(eps); i++) {
		eps[i] = new_ep_without_route(test);
		eps[i]->active = false;
	}
	for (i = 0; i < ARRAY_SIZE(eps); i++) {
		l2t.idx = i;
		KUNIT_EXPECT_EQ(test, t3_route_resolve(eps[i]), i < 2 ? 0 : -ENOMEM);
	}
	eps[2]->active = true;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(eps[2]), 0);
	for (i = 0; i < ARRAY_SIZE(eps); i++) {
		t3_route_release(eps[i]);
		t3_ep_fsm_apply(eps[i], EP_EV_ABORT, 0);
		end(test, eps[i]);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->quotas.peers.used[T3_QUOTA_L2T]), 0);
	RCU_INIT_POINTER(tdev.l2opt, NULL);
}

/* Of two namespaces that have the same address on ports of the card. */
static void address_belongs_to_the_namespace_of_the_id(struct kunit *test)
{
	struct net_device *lo = use_lo(test), *ndev;
	int refs = netdev_refcnt_read(lo);
	static struct net other;

	ndev = t3_route_local_dev(dev, &init_net, htonl(INADDR_LOOPBACK));
	KUNIT_EXPECT_PTR_EQ(test, ndev, lo);
	dev_put(ndev);
	ndev = t3_route_local_dev(dev, NULL, htonl(INADDR_LOOPBACK));
	KUNIT_EXPECT_PTR_EQ(test, ndev, lo);
	dev_put(ndev);
	KUNIT_EXPECT_NULL(test, t3_route_local_dev(dev, &other, htonl(INADDR_LOOPBACK)));
	/* The loopback interface has a local route for it. */
	KUNIT_EXPECT_NULL(test, t3_route_local_dev(dev, &init_net, htonl(INADDR_LOOPBACK + 1)));
	KUNIT_EXPECT_EQ(test, netdev_refcnt_read(lo), refs);
	atomic_dec(&l2t.refcnt);	/* as if an endpoint had dropped it */
}

static int of_iw_cm(struct iw_cm_id *cm_id, struct iw_cm_event *event)
{
	return 0;
}

/* Of an id in namespace @net. The device is in namespace @owner. */
static bool conflicts(struct net *net, struct net *owner, u32 addr)
{
	struct rdma_cm_id id = { .route.addr.dev_addr.net = net };
	struct iw_cm_id cm_id = { .context = &id, .cm_handler = of_iw_cm };

	write_pnet(&dev->ibdev.coredev.rdma_net, owner);
	return t3_route_conflicts(dev, &cm_id, htonl(addr));
}

/* The consumer of a repeated connect may be gone, with its namespace: nothing reads them. */
static void repeated_connect_without_a_consumer(struct kunit *test)
{
	struct net *gone = ERR_PTR(-ENOENT);
	struct iw_cm_id cm_id = { .context = ERR_PTR(-ENOENT) };
	struct t3_ep *ep = t3_ep_alloc(dev);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ep));
	use_lo(test);
	ep->local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ep->net = gone;
	ep->net_may_have_ended = true;
	KUNIT_EXPECT_EQ(test, t3_route_resolve(ep), -EADDRNOTAVAIL);
	KUNIT_EXPECT_FALSE(test, read_what_is_gone);
	KUNIT_EXPECT_FALSE(test, t3_route_conflicts(dev, &cm_id, htonl(INADDR_LOOPBACK)));
	t3_ep_put(ep);
	atomic_dec(&l2t.refcnt);	/* as if an endpoint had dropped it */
}

/* The card takes the segments to an address from each port: also those for another namespace. */
static void address_that_two_namespaces_have(struct kunit *test)
{
	static struct net other, third;

	use_lo(test);
	KUNIT_EXPECT_TRUE(test, conflicts(&other, &third, INADDR_LOOPBACK));
	KUNIT_EXPECT_TRUE(test, conflicts(&other, &init_net, INADDR_LOOPBACK));
	KUNIT_EXPECT_FALSE(test, conflicts(&init_net, &other, INADDR_LOOPBACK));
	KUNIT_EXPECT_FALSE(test, conflicts(&other, &other, INADDR_LOOPBACK));
	/* On an interface that is not the card's: only what the namespace of the device has. */
	dev->ports.lldevs[0] = new_port(test);
	KUNIT_EXPECT_FALSE(test, conflicts(&other, &third, INADDR_LOOPBACK));
	KUNIT_EXPECT_TRUE(test, conflicts(&other, &init_net, INADDR_LOOPBACK));
	KUNIT_EXPECT_FALSE(test, conflicts(&init_net, &init_net, INADDR_LOOPBACK));
	KUNIT_EXPECT_FALSE(test, conflicts(&other, &init_net, 0xc0000201));
	/* Users make any number of interfaces, and at most 4,095 VLANs. */
	macvlans = 10000;
	visited = 0;
	KUNIT_EXPECT_FALSE(test, conflicts(&other, &third, 0xc0000201));
	last_vlan = init_net.loopback_dev;
	below_it = dev->ports.lldevs[0];
	KUNIT_EXPECT_TRUE(test, conflicts(&other, &third, INADDR_LOOPBACK));
	KUNIT_EXPECT_FALSE(test, conflicts(&init_net, &third, INADDR_LOOPBACK));
	KUNIT_EXPECT_EQ(test, visited, 0);
	last_vlan = NULL;
	below_it = NULL;
	macvlans = 0;
	atomic_dec(&l2t.refcnt);	/* as if an endpoint had dropped it */
}

/* The softirq of a SYN looks its address up, and users make any number of interfaces. */
static void interfaces_that_a_look_up_visits(struct kunit *test)
{
	struct net_device *ndev;

	use_lo(test);
	macvlans = 10000;
	visited = 0;
	ndev = t3_route_local_dev(dev, &init_net, htonl(INADDR_LOOPBACK));
	KUNIT_EXPECT_PTR_EQ(test, ndev, init_net.loopback_dev);
	dev_put(ndev);
	KUNIT_EXPECT_NULL(test, t3_route_local_dev(dev, &init_net, htonl(0xc0000201)));
	KUNIT_EXPECT_EQ(test, visited, 0);
	/* Another interface has the address, too, or the namespace is not known. */
	dev->ports.lldevs[0] = new_port(test);
	KUNIT_EXPECT_NULL(test, t3_route_local_dev(dev, &init_net, htonl(INADDR_LOOPBACK)));
	KUNIT_EXPECT_NULL(test, t3_route_local_dev(dev, NULL, htonl(INADDR_LOOPBACK)));
	/* A VLAN has it. */
	last_vlan = init_net.loopback_dev;
	below_it = dev->ports.lldevs[0];
	ndev = t3_route_local_dev(dev, NULL, htonl(INADDR_LOOPBACK));
	KUNIT_EXPECT_PTR_EQ(test, ndev, init_net.loopback_dev);
	dev_put(ndev);
	KUNIT_EXPECT_EQ(test, visited, 0);
	last_vlan = NULL;
	below_it = NULL;
	macvlans = 0;
	atomic_dec(&l2t.refcnt);	/* as if an endpoint had dropped it */
}

static void addresses_that_a_look_up_visits(struct kunit *test)
{
	struct net_device *port = new_port(test);
	struct in_device in_dev = {};
	struct in_ifaddr *ifa = kunit_kcalloc(test, T3_ROUTE_MAX_VISITS + 1, sizeof(*ifa),
					      GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, ifa);
	for (i = 0; i < T3_ROUTE_MAX_VISITS; i++)
		RCU_INIT_POINTER(ifa[i].ifa_next, &ifa[i + 1]);
	RCU_INIT_POINTER(in_dev.ifa_list, ifa);
	RCU_INIT_POINTER(port->ip_ptr, &in_dev);
	dev->ports.nports = 1;
	dev->ports.lldevs[0] = port;
	ifa[i].ifa_local = htonl(0xc0000201);
	KUNIT_EXPECT_NULL(test, t3_route_local_dev(dev, NULL, htonl(0xc0000201)));
	KUNIT_EXPECT_FALSE(test, t3_route_has_address(port, htonl(0xc0000201)));
	RCU_INIT_POINTER(port->ip_ptr, NULL);
	atomic_dec(&l2t.refcnt);	/* as if an endpoint had dropped it */
}

/* As after the removal of the address: the interface of the connection does not have it. */
static void remove_address(struct t3_ep *ep)
{
	ep->local.sin_addr.s_addr = htonl(0xc0000201);
}

/* The kernel removes an interface when no route and no neighbour refers to it. */
static void removed_address_ends_a_connection(struct kunit *test)
{
	struct net_device *lo = use_lo(test);
	struct t3_ep *ep = new_ep_without_route(test);

	route = new_route(test, lo);
	card.has_l2_entry = true;
	KUNIT_ASSERT_EQ(test, t3_route_resolve(ep), 0);
	ep->id_kind = T3_ID_TID;
	ep->state = EP_FPDU;
	KUNIT_EXPECT_TRUE(test, t3_route_is_valid(ep));
	/* The interface has moved: another namespace has the address now. */
	ep->net = ERR_PTR(-ENOENT);
	KUNIT_EXPECT_FALSE(test, t3_route_is_valid(ep));
	ep->net = &init_net;
	t3_ep_request(ep, T3_REQ_ADDR_REMOVED, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, ep->state, EP_FPDU);
	remove_address(ep);
	KUNIT_EXPECT_FALSE(test, t3_route_is_valid(ep));
	t3_ep_request(ep, T3_REQ_ADDR_REMOVED, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABORTING);
	KUNIT_EXPECT_EQ(test, card.opcode, T3_CPL_ABORT_REQ);
	t3_ep_fsm_apply(ep, EP_EV_ABORT_RPL, 0);
	KUNIT_EXPECT_EQ(test, route_refs(&route->dst), 1);
	end(test, ep);
}

/* The card's retries may take minutes. */
static void removed_address_releases_an_open(struct kunit *test)
{
	struct net_device *lo = use_lo(test);
	struct t3_ep *ep = new_ep_without_route(test);

	route = new_route(test, lo);
	card.has_l2_entry = true;
	KUNIT_ASSERT_EQ(test, t3_route_resolve(ep), 0);
	ep->id_kind = T3_ID_ATID;
	ep->state = EP_CONNECTING;
	t3_ep_set_timer(ep, 60 * HZ);
	remove_address(ep);
	t3_ep_request(ep, T3_REQ_ADDR_REMOVED, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, ep->state, EP_ABANDONED);
	KUNIT_EXPECT_EQ(test, route_refs(&route->dst), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&l2t.refcnt), 1);
	/* The peer replies after all. */
	ep->id_kind = T3_ID_TID;
	t3_ep_fsm_apply(ep, EP_EV_ESTABLISHED, 0);
	KUNIT_EXPECT_EQ(test, card.opcode, T3_CPL_ABORT_REQ);
	KUNIT_EXPECT_EQ(test, card.cmd, T3_ABORT_NO_RST);
	t3_ep_fsm_apply(ep, EP_EV_ABORT_RPL, 0);
	end(test, ep);
}

/* Its SYN, which comes before any other message, looks for the route. */
static void removed_address_without_a_route_changes_nothing(struct kunit *test)
{
	struct t3_ep *ep = new_ep_without_route(test);

	remove_address(ep);
	KUNIT_EXPECT_FALSE(test, t3_route_is_valid(ep));
	t3_ep_request(ep, T3_REQ_ADDR_REMOVED, T3_RUN_NOW);
	KUNIT_EXPECT_EQ(test, ep->state, EP_IDLE);
	t3_ep_fsm_apply(ep, EP_EV_ABORT, 0);
	end(test, ep);
}

/* cxgb3 has freed its tables, while a message was built. */
static void freed_entry_is_not_read(struct kunit *test)
{
	struct t3_ep *ep = new_ep_without_route(test);
	struct l2t_entry *entry = kunit_kzalloc(test, sizeof(*entry), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, entry);
	entry->idx = 5;
	ep->l2t = entry;
	KUNIT_EXPECT_EQ(test, t3_route_l2t_index(ep), 5u);
	dev->cm->unplugged = true;
	kunit_kfree(test, entry);
	KUNIT_EXPECT_EQ(test, t3_route_l2t_index(ep), 0u);
	KUNIT_EXPECT_FALSE(test, t3_route_purge(ep));
	dev->cm->unplugged = false;
	ep->l2t = NULL;
	t3_ep_fsm_apply(ep, EP_EV_ABORT, 0);
	end(test, ep);
}

static struct kunit_case route_cases[] = {
	KUNIT_CASE(abort_bypasses_the_arp_queue),
	KUNIT_CASE(arp_queue_is_purged_before_the_tid_release),
	KUNIT_CASE(reachable_peer_gets_a_rst),
	KUNIT_CASE(local_address_must_be_on_the_card),
	KUNIT_CASE(unreachable_next_hop_ends_an_open),
	KUNIT_CASE(opens_that_wait_for_one_next_hop_are_limited),
	KUNIT_CASE(open_that_waits_ends_with_its_deadline),
	KUNIT_CASE(open_that_the_card_has_is_abandoned),
	KUNIT_CASE(half_open_connection_that_waits_is_not_aborted),
	KUNIT_CASE(late_report_of_the_next_hop_is_harmless),
	KUNIT_CASE(unreachable_next_hop_leaves_a_connection_open),
	KUNIT_CASE(message_that_cxgb3_refuses_is_freed),
	KUNIT_CASE(failed_resolution_keeps_no_reference),
	KUNIT_CASE(connection_holds_its_route_until_the_end),
	KUNIT_CASE(connection_does_not_take_the_vlan_of_another),
	KUNIT_CASE(user_has_a_share_of_the_next_hops),
	KUNIT_CASE(peers_of_a_listener_without_a_limit_have_a_share),
	KUNIT_CASE(address_belongs_to_the_namespace_of_the_id),
	KUNIT_CASE(address_that_two_namespaces_have),
	KUNIT_CASE(repeated_connect_without_a_consumer),
	KUNIT_CASE(interfaces_that_a_look_up_visits),
	KUNIT_CASE(addresses_that_a_look_up_visits),
	KUNIT_CASE(removed_address_ends_a_connection),
	KUNIT_CASE(removed_address_releases_an_open),
	KUNIT_CASE(removed_address_without_a_route_changes_nothing),
	KUNIT_CASE(freed_entry_is_not_read),
	{}
};

TEST_SUITE("iw_cxgb3_route", route_cases, .init = route_init, .exit = route_exit);
