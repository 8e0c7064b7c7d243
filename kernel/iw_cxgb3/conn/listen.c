// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners, and the endpoints of their connection requests (children).
 *
 * The listener creates an endpoint for each SYN, in softirq, or in a work item if the
 * softirq gets no memory. All events are handled in the endpoint's runner.
 * Destroying a listener aborts the children whose connect request was not delivered yet.
 * Connect requests are delivered between t3_listener_upcall_begin() and _end(), and destroy
 * waits for the end, so that no request is delivered after it.
 */
#include <linux/slab.h>

#include "cm.h"

static void t3_listener_free(struct kref *ref)
{
	struct t3_listener *l = container_of(ref, struct t3_listener, ref);

	skb_queue_purge(&l->syns);
	kfree_rcu(l, rcu);
}

void t3_listener_put(struct t3_listener *l)
{
	kref_put(&l->ref, t3_listener_free);
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

/* The connect request was delivered, or the child closed before. */
void t3_listener_remove_child(struct t3_ep *ep)
{
	struct t3_listener *l = ep->listener;

	if (!l)
		return;
	spin_lock_bh(&l->lock);
	ep->listener = NULL;
	if (!list_empty(&ep->half_open)) {
		list_del_init(&ep->half_open);
		l->half_open--;
	}
	spin_unlock_bh(&l->lock);
	t3_listener_put(l);
}

/*
 * The oldest half-open child, or the oldest that gives a next hop back, with a reference, off the
 * list; NULL if there is none that is as old as @age.
 */
static struct t3_ep *t3_listener_take_oldest(struct t3_listener *l, unsigned long age,
					     bool next_hop)
	__must_hold(&l->lock)
{
	struct t3_ep *ep;

	lockdep_assert_held(&l->lock);
	list_for_each_entry(ep, &l->children, half_open) {
		if (time_before(jiffies, ep->half_open_since + age))
			break;
		if (next_hop && !t3_route_is_alone(ep))
			continue;
		t3_ep_get(ep);
		list_del_init(&ep->half_open);
		l->half_open--;
		return ep;
	}
	return NULL;
}

static void t3_listener_drop(struct t3_ep *ep)
{
	if (!ep)
		return;
	t3_ep_request(ep, T3_REQ_HALF_OPEN_END, T3_RUN_QUEUED);
	t3_ep_put(ep);
}

/**
 * t3_listener_drop_old - drop the oldest half-open child, which takes the place of another one
 * @l: the listener
 * @next_hop: one that gives a next hop back, not only a TID
 *
 * A peer may open connections and send no MPA requests. A child that was opened just now stays: of
 * many clients that connect at once, those that have nearly connected would be dropped.
 */
void t3_listener_drop_old(struct t3_listener *l, bool next_hop)
{
	struct t3_ep *ep;

	spin_lock_bh(&l->lock);
	ep = t3_listener_take_oldest(l, T3_HALF_OPEN_AGE, next_hop);
	spin_unlock_bh(&l->lock);
	t3_listener_drop(ep);
}

static void t3_listener_refuse_syn(struct t3_dev *dev, struct sk_buff *skb)
{
	const struct t3_cpl_pass_accept_req *req = (const void *)skb->data;

	t3_release_tid(dev, be32_to_cpu(req->ot) & T3_CPL_ID);
	kfree_skb(skb);
}

/* SYNs that wait for memory count, too. */
static bool t3_listener_has_place(struct t3_listener *l)
{
	struct t3_ep *old = NULL;
	bool has;

	spin_lock_bh(&l->lock);
	if (l->half_open >= l->max_half_open)
		old = t3_listener_take_oldest(l, T3_HALF_OPEN_AGE, false);
	has = l->listening && l->half_open + skb_queue_len(&l->syns) < l->max_half_open;
	spin_unlock_bh(&l->lock);
	t3_listener_drop(old);
	return has;
}

/* Return: false if the listener stops. */
static bool t3_listener_add_child(struct t3_listener *l, struct t3_ep *ep)
{
	bool added;

	spin_lock_bh(&l->lock);
	added = l->listening;
	if (added) {
		/* l->quota is valid while l->listening, which l->lock protects. */
		ep->quota = t3_quota_share(&l->dev->quotas, l->quota);
		kref_get(&l->ref);
		ep->listener = l;
	}
	spin_unlock_bh(&l->lock);
	return added;
}

/* A child in the table is half-open until its connect request. It may have been closed already. */
static void t3_listener_add_half_open(struct t3_listener *l, struct t3_ep *ep)
{
	struct t3_ep *late = NULL;

	spin_lock_bh(&l->lock);
	if (ep->listener && l->listening) {
		ep->half_open_since = jiffies;
		list_add_tail(&ep->half_open, &l->children);
		l->half_open++;
	} else if (ep->listener) {
		t3_ep_get(ep);
		late = ep;
	}
	spin_unlock_bh(&l->lock);
	t3_listener_drop(late);
}

/*
 * The endpoint enters the table when it has its listener. From then on an event of the device may
 * close it. The close drops the listener's count and reference, and t3_cpl_on_pass_accept_req()
 * releases the TID in the SYN. After an error the caller keeps the SYN.
 */
static int t3_listener_new_child(struct t3_listener *l, struct sk_buff *skb)
{
	struct t3_ep *ep = t3_ep_alloc(l->dev);
	int ret = -ECONNREFUSED;

	if (IS_ERR(ep))
		return PTR_ERR(ep);
	ep->net = l->net;
	if (!t3_listener_add_child(l, ep))
		goto err_free;
	ret = t3_ep_publish(ep);
	if (ret)
		goto err_remove;
	t3_listener_add_half_open(l, ep);
	t3_ep_receive(ep, skb, T3_RUN_NOW, NULL);
	t3_ep_put(ep);
	return 0;

err_remove:
	t3_listener_remove_child(ep);
err_free:
	t3_ep_put(ep);
	return ret;
}

/* SYNs for which the softirq had no memory. */
static void t3_listener_work(struct work_struct *work)
{
	struct t3_listener *l = container_of(work, struct t3_listener, work);
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&l->syns)))
		if (t3_listener_new_child(l, skb))
			t3_listener_refuse_syn(l->dev, skb);
	t3_listener_put(l);
}

static void t3_listener_queue_syn(struct t3_listener *l, struct sk_buff *skb)
{
	skb_queue_tail(&l->syns, skb);
	kref_get(&l->ref);
	if (!queue_work(t3_cm_wq, &l->work))
		t3_listener_put(l);
}

/* Softirq: CPL_PASS_ACCEPT_REQ. */
int t3_listener_receive_syn(struct t3cdev *tdev, struct sk_buff *skb, void *ctx)
{
	struct t3_listener *l = ctx;
	int ret;

	if (!kref_get_unless_zero(&l->ref))
		return CPL_RET_BUF_DONE;
	ret = t3_listener_has_place(l) ? t3_listener_new_child(l, skb) : -ECONNREFUSED;
	if (ret == -ENOMEM)
		t3_listener_queue_syn(l, skb);
	else if (ret)
		t3_listener_refuse_syn(l->dev, skb);
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
		smp_store_release(&l->replied, true); /* after status */
		wake_up_all(&l->wait);
		t3_listener_put(l);
	}
	return CPL_RET_BUF_DONE;
}

static int t3_listener_wait_reply(struct t3_listener *l, const char *what)
{
	t3_wait_or_fatal(l->dev, l->wait,
			 /* pairs with t3_listener_reply(): read status after replied */
			 smp_load_acquire(&l->replied), t3_card_poll, what);
	return l->replied ? t3_cpl_status_to_errno(l->status) : -EIO;
}

/* Of two overlapping listeners the card would choose an arbitrary one for a SYN. */
static int t3_listener_insert(struct t3_cm_dev *cm, struct t3_listener *l)
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

static void t3_listener_remove(struct t3_listener *l)
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
static int t3_listener_address(const struct iw_cm_id *cm_id, struct sockaddr_in *addr)
{
	const struct sockaddr_in6 *sin6 = (const void *)&cm_id->m_local_addr;
	const struct sockaddr_in *sin = (const void *)&cm_id->m_local_addr;

	*addr = (struct sockaddr_in){ .sin_family = AF_INET };
	switch (cm_id->m_local_addr.ss_family) {
	case AF_INET:
		addr->sin_addr = sin->sin_addr;
		addr->sin_port = sin->sin_port;
		return 0;
	case AF_INET6:
		if (!ipv6_addr_any(&sin6->sin6_addr) || cm_id->afonly)
			return -EAFNOSUPPORT;
		addr->sin_port = sin6->sin6_port;
		return 0;
	default:
		return -EAFNOSUPPORT;
	}
}

static void t3_listener_stop_upcalls(struct t3_listener *l)
{
	spin_lock_bh(&l->lock);
	l->listening = false;
	spin_unlock_bh(&l->lock);
}

static bool t3_listener_idle(struct t3_listener *l)
{
	bool idle;

	spin_lock_bh(&l->lock);
	idle = !l->upcalls;
	spin_unlock_bh(&l->lock);
	return idle;
}

static void t3_listener_drop_children(struct t3_listener *l)
{
	struct t3_ep *ep;

	do {
		spin_lock_bh(&l->lock);
		ep = t3_listener_take_oldest(l, 0, false);
		spin_unlock_bh(&l->lock);
		t3_listener_drop(ep);
	} while (ep);
}

/* Afterwards no SYN finds the listener, and none of its connect requests is in delivery. */
static void t3_listener_shut_down(struct t3_listener *l)
{
	struct iw_cm_id *cm_id = l->cm_id;

	t3_listener_return_stid(l);
	t3_quota_put(&l->dev->quotas, l->quota);
	t3_listener_drop_children(l);
	wait_event(l->wait, t3_listener_idle(l));

	t3_listener_remove(l);
	t3_tcp_port_unlisten(&l->places);
	cm_id->provider_data = NULL;
	l->cm_id = NULL;
	cm_id->rem_ref(cm_id);
	t3_listener_put(l);
}

/*
 * When a device is added, the in-tree rdma_cm listens on it for the wildcard ids of all processes.
 * It does so in a kernel thread, which has no limit, and the process is not known. So all of these
 * listeners, and their connections, have an account in common.
 */
static struct t3_quota *t3_listener_get_quota(struct t3_quotas *quotas,
					      const struct iw_cm_id *cm_id, __be32 addr)
{
	if (current->flags & PF_KTHREAD && cm_id->cm_handler && !addr)
		return t3_quota_share(quotas, &quotas->peers);
	return t3_quota_get(quotas);
}

/**
 * t3_cm_create_listen - iw_create_listen: listen on an address
 * @cm_id: listener's id; receives connect requests until t3_cm_destroy_listen()
 * @backlog: limit of half-open connections, to which T3_HALF_OPEN_SLACK is added, up to
 *	T3_MAX_HALF_OPEN
 *
 * Waits for the card, because a listener has no event that could report its answer. No runner
 * calls this. Return: 0; -EADDRINUSE, also if the host's TCP has the port, or another
 * network namespace the address; -EADDRNOTAVAIL,
 * -EACCES; -EAFNOSUPPORT for an IPv6 address that cannot mean IPv4 (a specific one, or the
 * wildcard with afonly); -ENOMEM (memory, or no free listener id), -ENODEV, -EIO.
 */
int t3_cm_create_listen(struct iw_cm_id *cm_id, int backlog)
{
	struct t3_dev *dev = to_t3_dev(cm_id->device);
	struct sockaddr_in local;
	struct t3_listener *l;
	int ret;

	ret = t3_listener_address(cm_id, &local);
	if (ret) {
		ibdev_dbg(&dev->ibdev, "listen refused: %pISpc%s, and the card has no IPv6\n",
			  &cm_id->m_local_addr, cm_id->afonly ? " (IPv6 only)" : "");
		return ret;
	}
	if (t3_route_conflicts(dev, cm_id, local.sin_addr.s_addr))
		return -EADDRINUSE;
	l = kzalloc(sizeof(*l), GFP_KERNEL_ACCOUNT);
	if (!l)
		return -ENOMEM;
	kref_init(&l->ref);
	l->dev = dev;
	l->cm = dev->cm;
	l->net = t3_cm_id_net(cm_id);
	l->addr = local.sin_addr.s_addr;
	l->port = local.sin_port;
	l->max_half_open = min(max(backlog, 0) + T3_HALF_OPEN_SLACK, T3_MAX_HALF_OPEN);
	spin_lock_init(&l->lock);
	skb_queue_head_init(&l->syns);
	INIT_LIST_HEAD(&l->places);
	context_unsafe(INIT_LIST_HEAD(&l->children));
	INIT_WORK(&l->work, t3_listener_work);
	init_waitqueue_head(&l->wait);

	l->quota = t3_listener_get_quota(&dev->quotas, cm_id, l->addr);
	if (IS_ERR(l->quota)) {
		ret = PTR_ERR(l->quota);
		goto err_put;
	}
	ret = t3_listener_insert(l->cm, l);
	if (ret)
		goto err_quota;
	ret = t3_tcp_port_listen(dev, cm_id, &local, &l->places);
	if (!ret)
		ret = t3_listener_take_stid(l);
	if (ret)
		goto err_delist;
	/* The first SYN may arrive before the reply. */
	cm_id->add_ref(cm_id);
	l->cm_id = cm_id;
	cm_id->provider_data = l;
	spin_lock_bh(&l->lock);
	l->listening = true;
	spin_unlock_bh(&l->lock);
	ret = t3_send_pass_open_req(l);
	if (!ret)
		ret = t3_listener_wait_reply(l, "no reply to PASS_OPEN_REQ");
	if (ret)
		goto err_stop;
	return 0;

err_stop:
	/* The card may have opened the listener nevertheless, and sent SYNs. */
	t3_listener_stop_upcalls(l);
	t3_listener_shut_down(l);
	return ret;
err_delist:
	t3_tcp_port_unlisten(&l->places);
	t3_listener_remove(l);
err_quota:
	t3_quota_put(&dev->quotas, l->quota);
err_put:
	t3_listener_put(l);
	return ret;
}

/**
 * t3_cm_destroy_listen - iw_destroy_listen: stop listening
 * @cm_id: listener's id
 *
 * Waits for the card, and for connect requests in delivery. None is delivered after the
 * return, so an upcall of this listener must not call this. Return: 0.
 */
int t3_cm_destroy_listen(struct iw_cm_id *cm_id)
{
	struct t3_listener *l = cm_id->provider_data;

	t3_listener_stop_upcalls(l);
	l->replied = false;
	if (!t3_send_close_listsrv_req(l))
		t3_listener_wait_reply(l, "no reply to CLOSE_LISTSRV_REQ");
	t3_listener_shut_down(l);
	return 0;
}

/* The device is gone: wake the calls that wait for the card's replies. */
void t3_listener_wake_all(struct t3_cm_dev *cm)
{
	struct t3_listener *l;

	spin_lock_bh(&cm->lock);
	list_for_each_entry(l, &cm->listeners, link)
		wake_up_all(&l->wait);
	spin_unlock_bh(&cm->lock);
}
