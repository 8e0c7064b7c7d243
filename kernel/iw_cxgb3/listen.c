// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners, and the endpoints that they give birth to.
 *
 * A SYN becomes an endpoint in the listener's work item, the rest of its life
 * takes place in the endpoint's own. A listener may go away before its children
 * have reached the consumer: they are aborted then, and so that none slips
 * through, a connect request is delivered between t3_listener_upcall_begin() and
 * _end(), which destroy waits for.
 */
#include <linux/slab.h>

#include <t3_race_point.h>

#include "cm.h"

static void listener_free(struct kref *ref)
{
	struct t3_listener *l = container_of(ref, struct t3_listener, ref);

	skb_queue_purge(&l->inbox);
	kfree_rcu(l, rcu);
}

void t3_listener_put(struct t3_listener *l)
{
	kref_put(&l->ref, listener_free);
}

bool t3_listener_upcall_begin(struct t3_listener *l)
{
	bool listening;

	spin_lock_bh(&l->lock);
	listening = l->listening;
	if (listening)
		l->upcalls++;
	spin_unlock_bh(&l->lock);
	return listening;
}

void t3_listener_upcall_end(struct t3_listener *l)
{
	spin_lock_bh(&l->lock);
	l->upcalls--;
	spin_unlock_bh(&l->lock);
	wake_up_all(&l->wait);
}

/* The child has reached the consumer, or died before. */
void t3_listener_forget(struct t3_ep *ep)
{
	struct t3_listener *l = ep->listener;

	if (!l)
		return;
	ep->listener = NULL;
	spin_lock_bh(&l->lock);
	l->embryos--;
	spin_unlock_bh(&l->lock);
	t3_listener_put(l);
}

static void refuse_syn(struct t3_dev *dev, struct sk_buff *skb)
{
	const struct t3_cpl_pass_accept_req *req = (const void *)skb->data;

	t3_release_tid(dev, be32_to_cpu(req->ot) & T3_CPL_ID);
	kfree_skb(skb);
}

/* Count a child, unless the consumer lets too many of them pile up. */
static bool adopt(struct t3_listener *l, struct t3_ep *ep)
{
	bool room;

	spin_lock_bh(&l->lock);
	room = l->listening && l->embryos < l->max_embryos;
	if (room) {
		l->embryos++;
		/* l->quota is valid as long as l->listening, which l->lock keeps. */
		ep->quota = t3_quota_share(&l->dev->quotas, l->quota);
	}
	spin_unlock_bh(&l->lock);
	if (room) {
		kref_get(&l->ref);
		ep->listener = l;
	}
	return room;
}

/*
 * The endpoint enters the table when it has its listener and its SYN. From then on an
 * event of the device may end it, and that end needs both: the listener's count and
 * reference, and the TID in the SYN, which on_pass_accept_req() releases.
 */
static void give_birth(struct t3_listener *l, struct sk_buff *skb)
{
	struct t3_ep *ep;

	if (!pskb_may_pull(skb, sizeof(struct t3_cpl_pass_accept_req))) {
		kfree_skb(skb);
		return;
	}
	ep = t3_ep_alloc(l->dev);
	if (IS_ERR(ep)) {
		refuse_syn(l->dev, skb);
		return;
	}
	T3_RACE_POINT(t3_syn_endpoint_made);
	if (!adopt(l, ep))
		goto err_free;
	skb_queue_tail(&ep->inbox, skb);
	t3_ep_get(ep);
	if (t3_ep_publish(ep))
		goto err_forget;
	T3_RACE_POINT(t3_syn_endpoint_published);
	t3_ep_kick(ep);
	t3_ep_put(ep);
	return;

err_forget:
	skb_unlink(skb, &ep->inbox);
	t3_listener_forget(ep);
	t3_ep_put(ep);
err_free:
	t3_ep_put(ep);
	refuse_syn(l->dev, skb);
}

static void listener_work(struct work_struct *work)
{
	struct t3_listener *l = container_of(work, struct t3_listener, work);
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&l->inbox)))
		give_birth(l, skb);
	t3_listener_put(l);
}

/* Softirq: CPL_PASS_ACCEPT_REQ. */
int t3_listener_enqueue(struct t3cdev *tdev, struct sk_buff *skb, void *ctx)
{
	struct t3_listener *l = ctx;

	if (!kref_get_unless_zero(&l->ref))
		return CPL_RET_BUF_DONE;
	skb_queue_tail(&l->inbox, skb);
	if (!queue_work(t3_cm_wq, &l->work))
		t3_listener_put(l);
	return 0;
}

/* Softirq: CPL_PASS_OPEN_RPL and CPL_CLOSE_LISTSRV_RPL. */
int t3_listener_reply(struct t3cdev *tdev, struct sk_buff *skb, void *ctx)
{
	struct t3_listener *l = ctx;
	unsigned int opcode = t3_cpl_opcode(skb);

	if (kref_get_unless_zero(&l->ref)) {
		if (opcode == T3_CPL_PASS_OPEN_RPL)
			l->status = ((const struct t3_cpl_pass_open_rpl *)skb->data)->status;
		else
			l->status = ((const struct t3_cpl_status *)skb->data)->status;
		smp_store_release(&l->replied, true); /* status is there */
		wake_up_all(&l->wait);
		t3_listener_put(l);
	}
	return CPL_RET_BUF_DONE;
}

static int wait_reply(struct t3_listener *l, const char *what)
{
	t3_wait_or_fatal(l->dev, l->wait,
			 /* pairs with t3_listener_reply(): status after replied */
			 smp_load_acquire(&l->replied), what);
	return l->replied ? t3_cpl_status_to_errno(l->status) : -EIO;
}

/* The card would give a SYN to either of two listeners that overlap. */
static int enlist(struct t3_cm_dev *cm, struct t3_listener *l)
{
	struct t3_listener *other;
	int ret = 0;

	spin_lock_bh(&cm->lock);
	if (cm->stopped)
		ret = -ENODEV;
	list_for_each_entry(other, &cm->listeners, link)
		if (other->port == l->port &&
		    (other->addr == l->addr || !other->addr || !l->addr))
			ret = -EADDRINUSE;
	if (!ret)
		list_add_tail(&l->link, &cm->listeners);
	spin_unlock_bh(&cm->lock);
	return ret;
}

static void delist(struct t3_listener *l)
{
	spin_lock_bh(&l->cm->lock);
	list_del(&l->link);
	spin_unlock_bh(&l->cm->lock);
}

/*
 * The card terminates TCP over IPv4 only. A wildcard IPv6 listener accepts IPv4
 * connections too, and the card takes those, unless the consumer set afonly
 * (IPV6_V6ONLY). Every other IPv6 address is -EAFNOSUPPORT.
 */
static int listen_address(const struct iw_cm_id *cm_id, __be32 *addr, __be16 *port)
{
	const struct sockaddr_in6 *sin6 = (const void *)&cm_id->m_local_addr;
	const struct sockaddr_in *sin = (const void *)&cm_id->m_local_addr;

	switch (cm_id->m_local_addr.ss_family) {
	case AF_INET:
		*addr = sin->sin_addr.s_addr;
		*port = sin->sin_port;
		return 0;
	case AF_INET6:
		if (!ipv6_addr_any(&sin6->sin6_addr) || cm_id->afonly)
			return -EAFNOSUPPORT;
		*addr = 0;
		*port = sin6->sin6_port;
		return 0;
	default:
		return -EAFNOSUPPORT;
	}
}

static bool is_child(const struct t3_ep *ep, const void *listener)
{
	return READ_ONCE(ep->listener) == listener;
}

static void t3_listener_stop_upcalls(struct t3_listener *l)
{
	spin_lock_bh(&l->lock);
	l->listening = false;
	spin_unlock_bh(&l->lock);
}

/* Afterwards no SYN finds the listener, and no connect request of it is being delivered. */
static void t3_listener_shut_down(struct t3_listener *l)
{
	struct iw_cm_id *cm_id = l->cm_id;

	t3_return_stid(l);
	t3_quota_put(&l->dev->quotas, l->quota);
	T3_RACE_POINT(t3_unlisten_closed);
	/* Children that the consumer has not seen yet have nobody left to go to. */
	t3_ep_request_if(l->dev, T3_REQ_ORPHAN, is_child, l);
	wait_event(l->wait, !READ_ONCE(l->upcalls));

	delist(l);
	cm_id->provider_data = NULL;
	l->cm_id = NULL;
	cm_id->rem_ref(cm_id);
	t3_listener_put(l);
}

/**
 * t3_cm_create_listen - iw_create_listen: take connections on an address
 * @cm_id: listener's id; gets connect requests until t3_cm_destroy_listen()
 * @backlog: half-open connections that the consumer expects at most
 *
 * Waits for the card. Return: 0; -EADDRINUSE; -EAFNOSUPPORT for an IPv6 address that
 * cannot mean IPv4 (a specific one, or the wildcard with afonly); -ENOMEM (memory, or
 * no free listener id), -ENODEV, -EIO.
 */
int t3_cm_create_listen(struct iw_cm_id *cm_id, int backlog)
{
	struct t3_dev *dev = to_t3_dev(cm_id->device);
	struct t3_listener *l;
	__be32 addr;
	__be16 port;
	int ret;

	ret = listen_address(cm_id, &addr, &port);
	if (ret) {
		ibdev_dbg(&dev->ibdev, "listen refused: %pISpc%s, and the card has no IPv6\n",
			  &cm_id->m_local_addr, cm_id->afonly ? " (IPv6 only)" : "");
		return ret;
	}
	l = kzalloc(sizeof(*l), GFP_KERNEL_ACCOUNT);
	if (!l)
		return -ENOMEM;
	kref_init(&l->ref);
	l->dev = dev;
	l->cm = dev->cm;
	l->addr = addr;
	l->port = port;
	l->max_embryos = max(backlog, 0) + T3_EMBRYO_SLACK;
	spin_lock_init(&l->lock);
	skb_queue_head_init(&l->inbox);
	INIT_WORK(&l->work, listener_work);
	init_waitqueue_head(&l->wait);

	l->quota = t3_quota_get(&dev->quotas);
	if (IS_ERR(l->quota)) {
		ret = PTR_ERR(l->quota);
		goto err_put;
	}
	ret = enlist(l->cm, l);
	if (ret)
		goto err_quota;
	T3_RACE_POINT(t3_listen_listed);
	ret = t3_take_stid(l);
	if (ret)
		goto err_delist;
	/* The first SYN may be faster than the reply that we wait for. */
	cm_id->add_ref(cm_id);
	l->cm_id = cm_id;
	cm_id->provider_data = l;
	l->listening = true;
	T3_RACE_POINT(t3_listen_ready);
	ret = t3_send_pass_open_req(l);
	if (!ret)
		ret = wait_reply(l, "PASS_OPEN_REQ");
	if (ret)
		goto err_stop;
	return 0;

err_stop:
	/* The card may have opened it all the same, and sent connections. */
	t3_listener_stop_upcalls(l);
	t3_listener_shut_down(l);
	return ret;
err_delist:
	delist(l);
err_quota:
	t3_quota_put(&dev->quotas, l->quota);
err_put:
	t3_listener_put(l);
	return ret;
}

/**
 * t3_cm_destroy_listen - iw_destroy_listen: no connect request after this
 * @cm_id: listener's id
 *
 * Waits for the card, and for connect requests that are being delivered.
 * Return: 0.
 */
int t3_cm_destroy_listen(struct iw_cm_id *cm_id)
{
	struct t3_listener *l = cm_id->provider_data;

	t3_listener_stop_upcalls(l);
	l->replied = false;
	T3_RACE_POINT(t3_unlisten_begins);
	if (!t3_send_close_listsrv_req(l))
		wait_reply(l, "CLOSE_LISTSRV_REQ");
	t3_listener_shut_down(l);
	return 0;
}

/* The adapter is going: whoever waits for it need not any longer. */
void t3_listener_stop_all(struct t3_cm_dev *cm)
{
	struct t3_listener *l;

	spin_lock_bh(&cm->lock);
	list_for_each_entry(l, &cm->listeners, link)
		wake_up_all(&l->wait);
	spin_unlock_bh(&cm->lock);
}
