// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners on a fake card, which replies at once, not at all, or with an error. The table of
 * listener ids is real, with four entries.
 */
#include <linux/delay.h>
#include <net/ipv6.h>

#include "cm.h"
#include "../failing_alloc.h"

#include "quota.c"
#include "tids.c"
#include "listen.c"

struct workqueue_struct *t3_cm_wq;

enum reply { REPLY_OK, REPLY_FULL, NO_REPLY, SEND_FAILS };

static struct t3_dev *dev;

static struct {
	enum reply reply;
	unsigned int opened, closed, released_tids, half_open_ends, endpoints;
	bool no_memory, no_memory_in_softirq, no_id_in_softirq;
	bool fatal;
	int ports_held, port_error;
	struct sockaddr_in local;	/* of the last port */
	const struct t3_ep *alone;	/* on its next hop */
	const char *shut_down_at;	/* point at which the driver closes all connections */
} card;

/* --- fakes of the other files -------------------------------------------- */

void t3_dev_fatal(struct t3_dev *dev, const char *what)
{
	card.fatal = true;
	set_bit(T3_DEV_GONE, &dev->flags);
}

/* With an error it holds some ports, too. */
int t3_tcp_port_listen(struct t3_dev *dev, const struct iw_cm_id *cm_id, struct sockaddr_in *local,
		       struct list_head *places)
{
	card.ports_held++;
	card.local = *local;
	return card.port_error;
}

void t3_tcp_port_unlisten(struct list_head *places)
{
	card.ports_held--;
}

int t3_cpl_status_to_errno(u8 status)
{
	return status ? -ENOMEM : 0;
}

/* Short, since some tests run into it. */
unsigned long t3_card_timeout(void)
{
	return HZ / 10;
}

static int reply(struct t3_listener *l, u8 opcode)
{
	struct sk_buff *skb;
	u8 *status;

	if (card.reply == SEND_FAILS)
		return -EIO;
	if (card.reply == NO_REPLY)
		return 0;
	skb = sure_skb(sizeof(struct t3_cpl_pass_open_rpl), GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	skb_put_zero(skb, sizeof(struct t3_cpl_pass_open_rpl));
	skb->csum = (__force __wsum)cpu_to_be32((u32)opcode << 24);
	status = opcode == T3_CPL_PASS_OPEN_RPL ?
		&((struct t3_cpl_pass_open_rpl *)skb->data)->status :
		&((struct t3_cpl_status *)skb->data)->status;
	*status = card.reply == REPLY_FULL ? T3_CPL_ERR_TCAM_FULL : T3_CPL_ERR_NONE;
	if (t3_listener_reply(NULL, skb, l) & CPL_RET_BUF_DONE)
		kfree_skb(skb);
	return 0;
}

int t3_send_pass_open_req(struct t3_listener *l)
{
	card.opened++;
	return reply(l, T3_CPL_PASS_OPEN_RPL);
}

int t3_send_close_listsrv_req(struct t3_listener *l)
{
	card.closed++;
	return reply(l, T3_CPL_CLOSE_LISTSRV_RPL);
}

struct t3_ep *t3_ep_alloc(struct t3_dev *dev)
{
	bool no_memory = card.no_memory || (card.no_memory_in_softirq && in_softirq());
	struct t3_ep *ep = no_memory ? NULL : kzalloc(sizeof(*ep), GFP_ATOMIC);

	if (!ep)
		return ERR_PTR(-ENOMEM);
	kref_init(&ep->ref);
	ep->dev = dev;
	ep->cm = dev->cm;
	skb_queue_head_init(&ep->messages);
	INIT_LIST_HEAD(&ep->half_open);
	return ep;
}

bool t3_route_is_alone(const struct t3_ep *ep)
{
	return ep == card.alone;
}

int t3_ep_publish(struct t3_ep *ep)
{
	if (ep->cm->stopped)
		return -ENODEV;
	if (card.no_id_in_softirq && in_softirq())
		return -ENOMEM;
	ep->id = card.endpoints++;
	t3_ep_get(ep);
	return xa_err(xa_store_bh(&ep->cm->eps, ep->id, ep, GFP_ATOMIC));
}

static void fake_ep_free(struct kref *ref)
{
	struct t3_ep *ep = container_of(ref, struct t3_ep, ref);

	skb_queue_purge(&ep->messages);
	t3_quota_put(&ep->dev->quotas, ep->quota);
	kfree(ep);
}

void t3_ep_get(struct t3_ep *ep)
{
	kref_get(&ep->ref);
}

void t3_ep_put(struct t3_ep *ep)
{
	kref_put(&ep->ref, fake_ep_free);
}

/* The SYN stays in the queue, unless the endpoint has closed. */
void t3_ep_receive(struct t3_ep *ep, struct sk_buff *skb, enum t3_ep_run run,
		   bool (*urgent)(const struct t3_ep *ep))
{
	if (ep->state == EP_CLOSED) {
		card.released_tids++;
		kfree_skb(skb);
	} else {
		__skb_queue_tail(&ep->messages, skb);
	}
}

/* The fake endpoint closes at once on any request, and releases the TID of a pending SYN. */
static void fake_ep_close(struct t3_ep *ep)
{
	card.released_tids += !skb_queue_empty(&ep->messages);
	ep->state = EP_CLOSED;
	t3_listener_remove_child(ep);
	xa_erase_bh(&ep->cm->eps, ep->id);
	t3_ep_put(ep);
}

void t3_ep_request(struct t3_ep *ep, enum t3_ep_request req, enum t3_ep_run run)
{
	if (req == T3_REQ_HALF_OPEN_END)
		card.half_open_ends++;
	fake_ep_close(ep);
}

void t3_ep_request_if(struct t3_dev *dev, enum t3_ep_request req,
		      bool (*match)(struct t3_ep *ep, const void *arg), const void *arg)
{
	struct t3_ep *ep;
	unsigned long id;

	xa_for_each(&dev->cm->eps, id, ep)
		if (match(ep, arg))
			t3_ep_request(ep, req, T3_RUN_QUEUED);
}

static bool match_any(struct t3_ep *ep, const void *arg)
{
	return true;
}

void t3_race_point(const char *name)
{
	if (card.shut_down_at && !strcmp(name, card.shut_down_at))
		t3_ep_request_if(dev, T3_REQ_SHUT_DOWN, match_any, NULL);
}

/* --- a device, and consumers' ids ---------------------------------------- */

static union listen_entry stids[4];
static struct t3cdev tdev;
static struct t3c_data nic;

struct consumer_id {
	struct iw_cm_id iw;
	int refs;
};

static int *id_refs(struct iw_cm_id *cm_id)
{
	return &container_of(cm_id, struct consumer_id, iw)->refs;
}

static void id_ref(struct iw_cm_id *cm_id)
{
	++*id_refs(cm_id);
}

static void id_unref(struct iw_cm_id *cm_id)
{
	--*id_refs(cm_id);
}

/* A consumer's id; too large for the stack. */
static struct iw_cm_id *make_id(struct kunit *test, u32 addr, u16 port)
{
	struct consumer_id *id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	struct iw_cm_id *cm_id = &id->iw;
	struct sockaddr_in *sin;

	KUNIT_ASSERT_NOT_NULL(test, id);
	sin = (void *)&cm_id->m_local_addr;
	cm_id->device = &dev->ibdev;
	cm_id->add_ref = id_ref;
	cm_id->rem_ref = id_unref;
	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = cpu_to_be32(addr);
	sin->sin_port = cpu_to_be16(port);
	return cm_id;
}

static void release_tids(struct work_struct *work)
{
	card.released_tids += bitmap_weight(dev->cm->released_tids, dev->cm->ntids);
	bitmap_zero(dev->cm->released_tids, dev->cm->ntids);
}

/* TIDs, after the work item that sends their releases. */
static unsigned int released_tids(void)
{
	flush_work(&dev->cm->release_work);
	return card.released_tids;
}

static int listen_init(struct kunit *test)
{
	unsigned int i;

	memset(&card, 0, sizeof(card));
	dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->cm = kunit_kzalloc(test, sizeof(*dev->cm), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dev->cm);
	dev->cm->dev = dev;
	t3_quotas_init(&dev->quotas);
	spin_lock_init(&dev->cm->lock);
	INIT_LIST_HEAD(&dev->cm->listeners);
	xa_init_flags(&dev->cm->eps, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_BH);

	memset(&nic, 0, sizeof(nic));
	nic.tid_maps.stid_tab = stids;
	nic.tid_maps.nstids = ARRAY_SIZE(stids);
	nic.tid_maps.stid_base = 1000;
	spin_lock_init(&nic.tid_maps.stid_lock);
	for (i = 0; i < ARRAY_SIZE(stids); i++)
		stids[i].next = i + 1 < ARRAY_SIZE(stids) ? &stids[i + 1] : NULL;
	nic.tid_maps.sfree = stids;
	nic.tid_maps.ntids = 1000;
	tdev.l4opt = &nic;
	dev->tdev = &tdev;

	t3_cm_wq = alloc_ordered_workqueue("listen_kunit", 0);
	KUNIT_ASSERT_NOT_NULL(test, t3_cm_wq);
	return t3_tids_open(dev->cm, release_tids);
}

static void listen_exit(struct kunit *test)
{
	destroy_workqueue(t3_cm_wq);
	t3_tids_close(dev->cm);
	/* After each test all ids are released, and no listener and endpoint exists. */
	KUNIT_EXPECT_EQ(test, nic.tid_maps.stids_in_use, 0);
	KUNIT_EXPECT_EQ(test, card.ports_held, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&dev->cm->listeners));
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->cm->eps));
	rcu_barrier();	/* listeners are freed by kfree_rcu() */
}

/* As cxgb3 in its softirq. */
static void syn_arrives(struct t3_listener *l, struct sk_buff *skb)
{
	local_bh_disable();
	rcu_read_lock();
	if (t3_listener_receive_syn(NULL, skb, l) & CPL_RET_BUF_DONE)
		kfree_skb(skb);
	rcu_read_unlock();
	local_bh_enable();
}

static int syn(struct t3_listener *l, u32 tid)
{
	struct sk_buff *skb = alloc_skb(sizeof(struct t3_cpl_pass_accept_req), GFP_KERNEL);
	struct t3_cpl_pass_accept_req *req;

	if (!skb)
		return -ENOMEM;
	req = skb_put_zero(skb, sizeof(*req));
	req->ot = cpu_to_be32(tid);
	syn_arrives(l, skb);
	return 0;
}

/* --- tests ------------------------------------------------------------------ */

static void listen_and_unlisten(struct kunit *test)
{
	struct iw_cm_id *id;

	id = make_id(test, 0x0a000001, 7174);
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id, 5), 0);
	KUNIT_EXPECT_EQ(test, *id_refs(id), 1);
	KUNIT_EXPECT_EQ(test, nic.tid_maps.stids_in_use, 1);
	KUNIT_EXPECT_EQ(test, card.ports_held, 1);
	KUNIT_EXPECT_EQ(test, card.local.sin_family, AF_INET);
	KUNIT_EXPECT_EQ(test, card.local.sin_addr.s_addr, cpu_to_be32(0x0a000001));
	KUNIT_EXPECT_EQ(test, card.local.sin_port, cpu_to_be16(7174));
	KUNIT_EXPECT_EQ(test, t3_cm_destroy_listen(id), 0);
	KUNIT_EXPECT_EQ(test, *id_refs(id), 0);
	KUNIT_EXPECT_PTR_EQ(test, id->provider_data, NULL);
	KUNIT_EXPECT_EQ(test, card.opened, 1);
	KUNIT_EXPECT_EQ(test, card.closed, 1);
}

/* The card would take the SYNs of the host's server. */
static void port_of_the_host_is_refused(struct kunit *test)
{
	struct iw_cm_id *id = make_id(test, 0x0a000001, 7174);

	card.port_error = -EADDRINUSE;
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(id, 5), -EADDRINUSE);
	KUNIT_EXPECT_EQ(test, card.opened, 0);
	KUNIT_EXPECT_PTR_EQ(test, id->provider_data, NULL);
}

static void listener_is_charged_to_the_memcg(struct kunit *test)
{
	struct iw_cm_id *id = make_id(test, 0x0a000001, 5000);

	count_uncharged();
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id, 4), 0);
	KUNIT_EXPECT_EQ(test, uncharged(), 0);
	KUNIT_EXPECT_EQ(test, t3_cm_destroy_listen(id), 0);
}

/* Of two overlapping listeners the card would choose an arbitrary one for a SYN. */
static void overlapping_addresses_are_refused(struct kunit *test)
{
	struct iw_cm_id *any, *one, *other, *port;

	one = make_id(test, 0x0a000001, 7174);
	other = make_id(test, 0x0a000002, 7174);
	port = make_id(test, 0x0a000001, 7175);
	any = make_id(test, 0, 7174);
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(one, 0), 0);
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(one, 0), -EADDRINUSE);
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(any, 0), -EADDRINUSE);
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(other, 0), 0);
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(port, 0), 0);
	t3_cm_destroy_listen(one);
	t3_cm_destroy_listen(other);
	t3_cm_destroy_listen(port);

	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(any, 0), 0);
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(one, 0), -EADDRINUSE);
	t3_cm_destroy_listen(any);
}

static void unsupported_addresses_are_refused(struct kunit *test)
{
	struct sockaddr_in6 *sin6;
	struct iw_cm_id *id;

	id = make_id(test, 0, 7174);
	sin6 = (void *)&id->m_local_addr;
	memset(sin6, 0, sizeof(*sin6));
	sin6->sin6_family = AF_INET6;
	sin6->sin6_port = cpu_to_be16(7174);
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(id, 0), 0);	/* accepts IPv4 too */
	KUNIT_EXPECT_EQ(test, card.local.sin_family, AF_INET);
	KUNIT_EXPECT_EQ(test, card.local.sin_addr.s_addr, 0);
	KUNIT_EXPECT_EQ(test, card.local.sin_port, cpu_to_be16(7174));
	t3_cm_destroy_listen(id);
	id->afonly = true;
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(id, 0), -EAFNOSUPPORT);
	id->afonly = false;
	sin6->sin6_addr.s6_addr[15] = 1;
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(id, 0), -EAFNOSUPPORT);
	ipv6_addr_set_v4mapped(cpu_to_be32(0x0a000001), &sin6->sin6_addr);
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(id, 0), -EAFNOSUPPORT);
	KUNIT_EXPECT_EQ(test, *id_refs(id), 0);
	KUNIT_EXPECT_PTR_EQ(test, id->provider_data, NULL);
	sin6->sin6_family = AF_IB;
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(id, 0), -EAFNOSUPPORT);
	KUNIT_EXPECT_EQ(test, card.opened, 1);
}

static void stids_are_limited_and_reused(struct kunit *test)
{
	struct iw_cm_id *id[ARRAY_SIZE(stids) + 1];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(id); i++) {
		id[i] = make_id(test, 0, 100 + i);
		KUNIT_EXPECT_EQ(test, t3_cm_create_listen(id[i], 0),
				i < ARRAY_SIZE(stids) ? 0 : -ENOMEM);
	}
	KUNIT_EXPECT_PTR_EQ(test, id[4]->provider_data, NULL);
	t3_cm_destroy_listen(id[1]);
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(id[4], 0), 0);
	for (i = 0; i < ARRAY_SIZE(id); i++)
		if (i != 1)
			t3_cm_destroy_listen(id[i]);
}

static void failed_open_frees_the_listener(struct kunit *test)
{
	static const enum reply replies[] = { REPLY_FULL, SEND_FAILS };
	static const int errors[] = { -ENOMEM, -EIO };
	struct iw_cm_id *id;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(replies); i++) {
		card.reply = replies[i];
		id = make_id(test, 0, 7174);
		KUNIT_EXPECT_EQ(test, t3_cm_create_listen(id, 0), errors[i]);
		KUNIT_EXPECT_EQ(test, *id_refs(id), 0);
		KUNIT_EXPECT_PTR_EQ(test, id->provider_data, NULL);
		KUNIT_EXPECT_EQ(test, nic.tid_maps.stids_in_use, 0);
	}
	KUNIT_EXPECT_FALSE(test, card.fatal);
}

/* The wait ends, and the device is declared failed. */
static void missing_reply_is_fatal(struct kunit *test)
{
	unsigned long start = jiffies;
	struct iw_cm_id *id;

	card.reply = NO_REPLY;
	id = make_id(test, 0, 7174);
	KUNIT_EXPECT_EQ(test, t3_cm_create_listen(id, 0), -EIO);
	KUNIT_EXPECT_TRUE(test, card.fatal);
	KUNIT_EXPECT_FALSE(test, time_before(jiffies, start + t3_card_timeout()));
	KUNIT_EXPECT_EQ(test, *id_refs(id), 0);
	/* The STID is lost with the device. */
	nic.tid_maps.stids_in_use = 0;
}

/* The card might still send SYNs of a listener that it did not close. */
static void missing_reply_to_a_close_is_fatal(struct kunit *test)
{
	struct iw_cm_id *id = make_id(test, 0, 7174);

	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id, 0), 0);
	card.reply = NO_REPLY;
	KUNIT_EXPECT_EQ(test, t3_cm_destroy_listen(id), 0);
	KUNIT_EXPECT_TRUE(test, card.fatal);
	nic.tid_maps.stids_in_use = 0;
}

/*
 * A SYN beyond the limit takes the place of the oldest child, if that is not new: a peer that sends
 * no MPA requests would keep all others out. Half-open endpoints close with the listener.
 */
static void half_open_connections_are_limited(struct kunit *test)
{
	const unsigned int limit = 3 + T3_HALF_OPEN_SLACK;
	static struct t3_quota user = { .refs = 2 };	/* the listener's, and ours */
	struct t3_listener *l;
	struct t3_ep *oldest, *ep;
	struct iw_cm_id *id;
	unsigned int i;

	id = make_id(test, 0, 7174);
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id, 3), 0);
	l = id->provider_data;
	l->quota = &user;
	for (i = 0; i < limit + 10; i++)
		KUNIT_ASSERT_EQ(test, syn(l, i), 0);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, l->half_open, limit);
	KUNIT_EXPECT_EQ(test, user.refs, 2 + limit);
	KUNIT_EXPECT_EQ(test, released_tids(), 10);
	KUNIT_EXPECT_EQ(test, card.half_open_ends, 0);

	oldest = xa_load(&dev->cm->eps, 0);
	oldest->half_open_since -= T3_HALF_OPEN_AGE;
	KUNIT_ASSERT_EQ(test, syn(l, i++), 0);
	KUNIT_EXPECT_EQ(test, card.half_open_ends, 1);
	KUNIT_EXPECT_PTR_EQ(test, NULL, xa_load(&dev->cm->eps, 0));
	KUNIT_EXPECT_EQ(test, l->half_open, limit);
	KUNIT_EXPECT_EQ(test, user.refs, 2 + limit);
	KUNIT_ASSERT_EQ(test, syn(l, i++), 0);
	KUNIT_EXPECT_EQ(test, card.half_open_ends, 1);
	KUNIT_EXPECT_EQ(test, released_tids(), 12);

	card.no_memory = true;
	KUNIT_ASSERT_EQ(test, syn(l, i), 0);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, released_tids(), 13);
	card.no_memory = false;

	/* For a next hop only one ends that has its next hop alone. */
	list_for_each_entry(ep, &l->children, half_open)
		ep->half_open_since -= T3_HALF_OPEN_AGE;
	t3_listener_drop_old(l, true);
	KUNIT_EXPECT_EQ(test, card.half_open_ends, 1);
	card.alone = list_last_entry(&l->children, struct t3_ep, half_open);
	t3_listener_drop_old(l, true);
	KUNIT_EXPECT_EQ(test, card.half_open_ends, 2);
	KUNIT_EXPECT_EQ(test, l->half_open, limit - 1);

	atomic_inc(&user.used[T3_QUOTA_STID]);
	t3_cm_destroy_listen(id);
	KUNIT_EXPECT_EQ(test, card.half_open_ends, 1 + limit);
	KUNIT_EXPECT_EQ(test, user.refs, 1);
}

/* The softirq gets no memory for the endpoint or its id: the work item tries again. */
static void syn_without_memory_is_not_lost(struct kunit *test)
{
	struct iw_cm_id *id = make_id(test, 0, 7174);
	struct t3_listener *l;

	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id, 3), 0);
	l = id->provider_data;
	card.no_memory_in_softirq = true;
	KUNIT_ASSERT_EQ(test, syn(l, 7), 0);
	flush_workqueue(t3_cm_wq);
	card.no_memory_in_softirq = false;
	KUNIT_EXPECT_EQ(test, card.endpoints, 1);
	card.no_id_in_softirq = true;
	KUNIT_ASSERT_EQ(test, syn(l, 8), 0);
	KUNIT_EXPECT_EQ(test, l->half_open, 1);
	flush_workqueue(t3_cm_wq);
	card.no_id_in_softirq = false;
	KUNIT_EXPECT_EQ(test, l->half_open, 2);
	KUNIT_EXPECT_EQ(test, card.endpoints, 2);
	KUNIT_EXPECT_EQ(test, released_tids(), 0);
	t3_cm_destroy_listen(id);
	KUNIT_EXPECT_EQ(test, card.half_open_ends, 2);
}

/* B10: cxgb3 would use the TID as an index. */
static void out_of_range_tid_is_not_released(struct kunit *test)
{
	struct t3_listener *l;
	struct iw_cm_id *id;

	id = make_id(test, 0, 7174);
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id, 3), 0);
	l = id->provider_data;
	card.no_memory = true;
	KUNIT_ASSERT_EQ(test, syn(l, nic.tid_maps.ntids), 0);
	KUNIT_ASSERT_EQ(test, syn(l, 0xffffff), 0);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, released_tids(), 0);
	KUNIT_ASSERT_EQ(test, syn(l, nic.tid_maps.ntids - 1), 0);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, released_tids(), 1);
	t3_cm_destroy_listen(id);
}

static const char * const shut_down_points[] = {
	"t3_syn_endpoint_made", "t3_syn_endpoint_published", "",
};

static void shut_down_point_name(const char * const *point, char *name)
{
	strscpy(name, **point ? *point : "no new endpoints", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(shut_down_point, shut_down_points, shut_down_point_name);

/*
 * The driver closes all connections while an endpoint is created for a SYN. The listener keeps
 * no reference and no count of the endpoint, and the TID is released.
 */
static void device_event_during_a_syn(struct kunit *test)
{
	const char *point = *(const char * const *)test->param_value;
	static struct t3_quota user;
	struct t3_listener *l;
	struct iw_cm_id *id;

	id = make_id(test, 0, 7174);
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id, 3), 0);
	l = id->provider_data;
	user.refs = 2;	/* the listener's, and ours */
	l->quota = &user;
	if (*point)
		card.shut_down_at = point;
	else
		dev->cm->stopped = true;
	KUNIT_ASSERT_EQ(test, syn(l, 7), 0);
	flush_workqueue(t3_cm_wq);
	card.shut_down_at = NULL;
	/* An endpoint that was not in the table at the point of the event remains open. */
	t3_ep_request_if(dev, T3_REQ_DEVICE_DOWN, match_any, NULL);
	KUNIT_EXPECT_EQ(test, l->half_open, 0);
	KUNIT_EXPECT_EQ(test, kref_read(&l->ref), 1);
	KUNIT_EXPECT_EQ(test, user.refs, 2);
	KUNIT_EXPECT_EQ(test, released_tids(), 1);
	dev->cm->stopped = false;
	atomic_inc(&user.used[T3_QUOTA_STID]);
	t3_cm_destroy_listen(id);
	KUNIT_EXPECT_EQ(test, user.refs, 1);
}

/* The SYN is in the listener's queue when the listener is destroyed. */
static void syn_after_unlisten_is_refused(struct kunit *test)
{
	struct t3_listener *l;
	struct iw_cm_id *id;

	id = make_id(test, 0, 7174);
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id, 0), 0);
	l = id->provider_data;
	kref_get(&l->ref);	/* as a running CPL handler */
	t3_cm_destroy_listen(id);
	KUNIT_ASSERT_EQ(test, syn(l, 7), 0);
	flush_workqueue(t3_cm_wq);
	KUNIT_EXPECT_EQ(test, released_tids(), 1);
	KUNIT_EXPECT_FALSE(test, t3_listener_upcall_begin(l));
	t3_listener_put(l);
}

static unsigned int freed;

static void count_freed(struct sk_buff *skb)
{
	freed++;
}

static void messages_of_a_listener_are_freed_with_it(struct kunit *test)
{
	struct iw_cm_id *id = make_id(test, 0, 7174);
	struct sk_buff *skb = alloc_skb(16, GFP_KERNEL);
	struct t3_listener *l;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->destructor = count_freed;
	freed = 0;
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id, 0), 0);
	l = id->provider_data;
	skb_queue_tail(&l->syns, skb);
	t3_cm_destroy_listen(id);
	KUNIT_EXPECT_EQ(test, freed, 1);
}

/* The user's share is used up, or the table is full. */
static void refused_listener_id_is_not_charged(struct kunit *test)
{
	static struct t3_quota user = { .refs = 1 };
	struct t3_listener l = { .dev = dev, .cm = dev->cm, .quota = &user };
	atomic_t *used = &user.used[T3_QUOTA_STID];

	atomic_set(used, ARRAY_SIZE(stids));
	KUNIT_EXPECT_EQ(test, t3_listener_take_stid(&l), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic64_read(&dev->counters[T3_CNT_OVER_QUOTA]), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(used), (int)ARRAY_SIZE(stids));
	KUNIT_EXPECT_EQ(test, nic.tid_maps.stids_in_use, 0);

	atomic_set(used, 0);
	nic.tid_maps.sfree = NULL;
	KUNIT_EXPECT_EQ(test, t3_listener_take_stid(&l), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic_read(used), 0);
}

static int no_handler(struct iw_cm_id *cm_id, struct iw_cm_event *event)
{
	return 0;
}

/* The in-tree rdma_cm lets a new device listen for the wildcards of all processes. */
static void wildcards_on_a_new_device_have_a_common_share(struct kunit *test)
{
	struct t3_quota *peers = &dev->quotas.peers;
	static struct t3_quota user = { .refs = 1 };
	struct t3_listener another = { .dev = dev, .cm = dev->cm, .quota = &user };
	struct iw_cm_id *id[ARRAY_SIZE(stids)];
	struct t3_listener *l;
	unsigned int i;

	KUNIT_ASSERT_TRUE(test, current->flags & PF_KTHREAD);
	for (i = 0; i < ARRAY_SIZE(id); i++) {
		id[i] = make_id(test, 0, 100 + i);
		id[i]->cm_handler = no_handler;
		/* One that fails would make the device useless. */
		KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id[i], 4), 0);
		l = id[i]->provider_data;
		KUNIT_EXPECT_PTR_EQ(test, l->quota, peers);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&peers->used[T3_QUOTA_STID]), (int)ARRAY_SIZE(id));
	KUNIT_EXPECT_EQ(test, syn(l, 5), 0);
	KUNIT_EXPECT_EQ(test, peers->refs, 2 + ARRAY_SIZE(id));	/* the connection's */

	/* A user has a share of the rest. */
	t3_cm_destroy_listen(id[0]);
	KUNIT_EXPECT_EQ(test, t3_listener_take_stid(&another), 0);
	t3_listener_return_stid(&another);
	atomic_set(&user.used[T3_QUOTA_STID], 1);
	KUNIT_EXPECT_EQ(test, t3_listener_take_stid(&another), -ENOMEM);
	for (i = 1; i < ARRAY_SIZE(id); i++)
		t3_cm_destroy_listen(id[i]);
	KUNIT_EXPECT_EQ(test, peers->refs, 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&peers->used[T3_QUOTA_STID]), 0);
}

/* A kernel consumer on an address of its own. And t3_rdma_cm knows the users of its ids. */
static void other_listeners_in_the_kernel_have_no_limit(struct kunit *test)
{
	struct iw_cm_id *one = make_id(test, 0x0a000001, 100), *any = make_id(test, 0, 101);
	struct t3_listener *l;

	one->cm_handler = no_handler;
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(one, 4), 0);
	l = one->provider_data;
	KUNIT_EXPECT_NULL(test, l->quota);
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(any, 4), 0);
	l = any->provider_data;
	KUNIT_EXPECT_NULL(test, l->quota);
	t3_cm_destroy_listen(one);
	t3_cm_destroy_listen(any);
}

struct destroyer {
	struct work_struct work;
	struct iw_cm_id *id;
	struct completion done;
};

static void destroy_work(struct work_struct *work)
{
	struct destroyer *d = container_of(work, struct destroyer, work);

	t3_cm_destroy_listen(d->id);
	complete(&d->done);
}

/* Destroy must wait for a connect request in delivery. */
static void destroy_waits_for_an_upcall(struct kunit *test)
{
	struct t3_listener *l;
	struct destroyer d;
	struct iw_cm_id *id;

	id = make_id(test, 0, 7174);
	KUNIT_ASSERT_EQ(test, t3_cm_create_listen(id, 0), 0);
	l = id->provider_data;
	KUNIT_ASSERT_TRUE(test, t3_listener_upcall_begin(l));
	INIT_WORK_ONSTACK(&d.work, destroy_work);
	init_completion(&d.done);
	d.id = id;
	schedule_work(&d.work);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&d.done, HZ / 5), 0);
	t3_listener_upcall_end(l);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&d.done, 20 * HZ), 0);
	flush_work(&d.work);
	destroy_work_on_stack(&d.work);
}

struct creator {
	struct work_struct work;
	struct iw_cm_id *id;
	struct completion done;
	int ret;
};

static void create_work(struct work_struct *work)
{
	struct creator *c = container_of(work, struct creator, work);

	c->ret = t3_cm_create_listen(c->id, 0);
	complete(&c->done);
}

/* The card opened the listener and sent a SYN, but failed before its reply. */
static void failed_create_waits_for_an_upcall(struct kunit *test)
{
	struct t3_listener *l = NULL;
	struct iw_cm_id *id;
	struct creator c;
	unsigned int i;

	card.reply = NO_REPLY;
	id = make_id(test, 0, 7174);
	INIT_WORK_ONSTACK(&c.work, create_work);
	init_completion(&c.done);
	c.id = id;
	schedule_work(&c.work);
	for (i = 0; i < 1000 && !(l && READ_ONCE(l->listening)); i++) {
		l = READ_ONCE(id->provider_data);
		cond_resched();
		if (!l)
			usleep_range(10, 50);
	}
	KUNIT_ASSERT_NOT_NULL(test, l);
	kref_get(&l->ref);	/* as the child in delivery */
	KUNIT_EXPECT_TRUE(test, t3_listener_upcall_begin(l));
	for (i = 0; i < 1000 && !READ_ONCE(card.fatal); i++)
		msleep(20);
	KUNIT_EXPECT_TRUE(test, card.fatal);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&c.done, HZ / 5), 0);
	KUNIT_EXPECT_EQ(test, *id_refs(id), 1);
	t3_listener_upcall_end(l);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&c.done, 20 * HZ), 0);
	flush_work(&c.work);
	destroy_work_on_stack(&c.work);
	KUNIT_EXPECT_EQ(test, c.ret, -EIO);
	KUNIT_EXPECT_EQ(test, *id_refs(id), 0);
	KUNIT_EXPECT_FALSE(test, t3_listener_upcall_begin(l));
	t3_listener_put(l);
	nic.tid_maps.stids_in_use = 0;	/* lost with the card */
}

static struct kunit_case listen_cases[] = {
	KUNIT_CASE(listen_and_unlisten),
	KUNIT_CASE(port_of_the_host_is_refused),
	KUNIT_CASE(listener_is_charged_to_the_memcg),
	KUNIT_CASE(overlapping_addresses_are_refused),
	KUNIT_CASE(unsupported_addresses_are_refused),
	KUNIT_CASE(stids_are_limited_and_reused),
	KUNIT_CASE(failed_open_frees_the_listener),
	KUNIT_CASE(missing_reply_is_fatal),
	KUNIT_CASE(missing_reply_to_a_close_is_fatal),
	KUNIT_CASE(half_open_connections_are_limited),
	KUNIT_CASE(syn_without_memory_is_not_lost),
	KUNIT_CASE(out_of_range_tid_is_not_released),
	KUNIT_CASE_PARAM(device_event_during_a_syn, shut_down_point_gen_params),
	KUNIT_CASE(syn_after_unlisten_is_refused),
	KUNIT_CASE(messages_of_a_listener_are_freed_with_it),
	KUNIT_CASE(refused_listener_id_is_not_charged),
	KUNIT_CASE(wildcards_on_a_new_device_have_a_common_share),
	KUNIT_CASE(other_listeners_in_the_kernel_have_no_limit),
	KUNIT_CASE(destroy_waits_for_an_upcall),
	KUNIT_CASE(failed_create_waits_for_an_upcall),
	{}
};

TEST_SUITE("iw_cxgb3_listen", listen_cases, .init = listen_init, .exit = listen_exit);
