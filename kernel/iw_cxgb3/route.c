// SPDX-License-Identifier: GPL-2.0
/*
 * From a pair of addresses to a port of the card and an entry of its L2 table.
 */
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <net/dst.h>
#include <net/ip.h>
#include <net/neighbour.h>
#include <net/route.h>

#include "cm.h"
#include "handover.h"

/*
 * cxgb3 reads driver-private memory behind any net_device that it is given, so
 * only its own may be: the port under a VLAN device, never the VLAN device.
 */
static struct net_device *port_below(struct t3_dev *dev, struct net_device *ndev)
{
	unsigned int i;

	if (is_vlan_dev(ndev))
		ndev = vlan_dev_real_dev(ndev);
	for (i = 0; i < dev->ports.nports; i++)
		if (dev->ports.lldevs[i] == ndev)
			return ndev;
	return NULL;
}

/*
 * The interface that owns the local address, with a reference. An iw_cm_id does
 * not say which network namespace it belongs to, but its address does: it lives
 * on one of our ports, or on a VLAN on top, in whatever namespace that is.
 */
static struct net_device *find_local(struct t3_dev *dev, __be32 addr)
{
	struct net_device *ndev;
	unsigned int i;

	for (i = 0; i < dev->ports.nports; i++) {
		ndev = ip_dev_find(dev_net(dev->ports.lldevs[i]), addr);
		if (!ndev)
			continue;
		if (port_below(dev, ndev))
			return ndev;
		dev_put(ndev);
	}
	return NULL;
}

/* Put back an L2 reference. RCU: the table may be on its way out. */
static void l2t_put(struct t3_ep *ep, struct l2t_entry *e)
{
	struct l2t_data *d;

	rcu_read_lock();
	if (!READ_ONCE(ep->cm->unplugged) && atomic_dec_and_test(&e->refcnt)) {
		d = rcu_dereference(ep->dev->tdev->l2opt);
		if (d)
			t3_l2e_free(d, e);
	}
	rcu_read_unlock();
}

/**
 * t3_route_resolve - fill route, L2 entry, port and path MTU of an endpoint
 * @ep: endpoint with both addresses set
 *
 * May sleep. Return: 0; -EADDRNOTAVAIL if the local address is on none of the
 * card's ports, -EOPNOTSUPP if the destination is this machine (the card does not
 * talk to itself), -EHOSTUNREACH if there is no way there through this card.
 */
int t3_route_resolve(struct t3_ep *ep)
{
	struct t3_dev *dev = ep->dev;
	struct flowi4 fl4 = {
		.daddr = ep->remote.sin_addr.s_addr,
		.saddr = ep->local.sin_addr.s_addr,
		.fl4_dport = ep->remote.sin_port,
		.fl4_sport = ep->local.sin_port,
		.flowi4_proto = IPPROTO_TCP,
	};
	struct net_device *ndev, *port;
	struct rtable *rt;
	int ret;

	ndev = find_local(dev, fl4.saddr);
	if (!ndev)
		return -EADDRNOTAVAIL;
	fl4.flowi4_oif = ndev->ifindex;
	rt = ip_route_output_key(dev_net(ndev), &fl4);
	dev_put(ndev);
	if (IS_ERR(rt))
		return -EHOSTUNREACH;
	if (rt->rt_flags & RTCF_LOCAL) {
		ret = -EOPNOTSUPP;
		goto err_route;
	}
	port = port_below(dev, rt->dst.dev);
	if (!port) {
		ret = -EHOSTUNREACH;
		goto err_route;
	}

	if (!t3_dev_enter(dev)) {
		ret = -ENODEV;
		goto err_route;
	}
	ep->l2t = t3_l2t_get(dev->tdev, &rt->dst, port, &fl4.daddr);
	t3_dev_leave(dev);
	if (!ep->l2t) {
		ret = -ENOMEM;
		goto err_route;
	}
	ep->dst = &rt->dst;
	ep->smt_idx = ep->l2t->smt_idx;
	ep->mtu = dst_mtu(ep->dst);
	return 0;

err_route:
	ip_rt_put(rt);
	return ret;
}

/*
 * Takes what an endpoint has in an entry's ARP queue back. The queue is shared with other
 * connections, ours and those of other clients of cxgb3. Between rcu_read_lock() and _unlock().
 */
static void l2t_recall(struct t3_ep *ep, struct l2t_entry *e)
{
	struct sk_buff *skb, *next;

	if (READ_ONCE(ep->cm->unplugged))
		return;
	spin_lock_bh(&e->lock);
	skb_queue_walk_safe(&e->arpq, skb, next) {
		if (((const struct t3_route_cb *)skb->cb)->owner != ep)
			continue;
		__skb_unlink(skb, &e->arpq);
		kfree_skb(skb);
	}
	spin_unlock_bh(&e->lock);
}

/**
 * t3_route_recall - what still waits for the next hop's address shall not be sent
 * @ep: endpoint
 *
 * Return: whether the card has the address.
 */
bool t3_route_recall(struct t3_ep *ep)
{
	bool reachable = false;
	struct l2t_entry *e;

	rcu_read_lock();
	spin_lock_bh(&ep->route_lock);
	e = ep->l2t;
	if (e) {
		l2t_recall(ep, e);
		/* While somebody has a reference an entry does not become unresolved again. */
		reachable = READ_ONCE(e->state) != L2T_STATE_RESOLVING;
	}
	spin_unlock_bh(&ep->route_lock);
	rcu_read_unlock();
	return reachable;
}

/**
 * t3_route_release - give route and L2 entry back
 * @ep: endpoint
 *
 * Before the TID is given back: what waits in the ARP queue would be the next connection's.
 */
void t3_route_release(struct t3_ep *ep)
{
	struct dst_entry *dst;
	struct l2t_entry *l2t;

	spin_lock_bh(&ep->route_lock);
	dst = ep->dst;
	l2t = ep->l2t;
	ep->dst = NULL;
	ep->l2t = NULL;
	spin_unlock_bh(&ep->route_lock);

	if (l2t) {
		rcu_read_lock();
		l2t_recall(ep, l2t);
		rcu_read_unlock();
		l2t_put(ep, l2t);
	}
	dst_release(dst);
}

/**
 * t3_route_send - send a message that needs the next hop's address
 * @ep: endpoint
 * @skb: message; always consumed
 * @failed: called, perhaps much later, if the address cannot be resolved
 *
 * Return: 0 or -errno
 */
int t3_route_send(struct t3_ep *ep, struct sk_buff *skb, arp_failure_handler_func failed)
{
	struct t3_route_cb *cb = (struct t3_route_cb *)skb->cb;
	struct t3_dev *dev = ep->dev;
	struct l2t_entry *e;
	int ret = -ENODEV;

	cb->l2t.arp_failure_handler = failed;
	cb->owner = ep;
	cb->ep_id = ep->id;
	if (t3_dev_enter(dev)) {
		spin_lock_bh(&ep->route_lock);
		e = ep->l2t;
		if (e && e->state == L2T_STATE_VALID)
			ret = cxgb3_ofld_send(dev->tdev, skb);
		else if (e)
			ret = t3_l2t_send_slow(dev->tdev, skb, e);
		spin_unlock_bh(&ep->route_lock);
		t3_dev_leave(dev);
	}
	return t3_handed_over(skb, ret);
}

/*
 * The card's retransmissions fail: have the kernel look for the next hop again.
 * (cxgb3 exported t3_l2t_send_event() for this until 6.12; the same here.)
 */
void t3_route_revalidate(struct t3_ep *ep)
{
	struct l2t_entry *e;

	rcu_read_lock();
	spin_lock_bh(&ep->route_lock);
	e = ep->l2t;
	if (e && !READ_ONCE(ep->cm->unplugged)) {
		switch (e->state) {
		case L2T_STATE_STALE:
			neigh_event_send(e->neigh, NULL);
			spin_lock(&e->lock);
			if (e->state == L2T_STATE_STALE)
				e->state = L2T_STATE_VALID;
			spin_unlock(&e->lock);
			break;
		case L2T_STATE_RESOLVING:
			neigh_event_send(e->neigh, NULL);
			break;
		}
	}
	spin_unlock_bh(&ep->route_lock);
	rcu_read_unlock();
}

void t3_ep_confirm_neigh(struct t3_ep *ep)
{
	__be32 daddr = ep->remote.sin_addr.s_addr;

	spin_lock_bh(&ep->route_lock);
	if (ep->dst)
		dst_confirm_neigh(ep->dst, &daddr);
	spin_unlock_bh(&ep->route_lock);
}

/**
 * t3_cm_redirect - a route was redirected; cxgb3 asks every connection
 * @ctx: whatever is in the TID table
 * @old: route that is no more
 * @new: the one instead
 * @l2t: its L2 entry
 *
 * Return: 1 if the connection has moved, and cxgb3 takes a reference on @l2t for
 * us and tells the card; 0 if it does not use @old.
 */
int t3_cm_redirect(void *ctx, struct dst_entry *old, struct dst_entry *new,
		   struct l2t_entry *l2t)
{
	struct t3_ep *ep = ctx;
	struct l2t_entry *old_l2t;

	if (!ep)
		return 0;
	spin_lock_bh(&ep->route_lock);
	if (!ep->dst || ep->dst != old) {
		spin_unlock_bh(&ep->route_lock);
		return 0;
	}
	dst_hold(new);
	old_l2t = ep->l2t;
	ep->dst = new;
	ep->l2t = l2t;
	spin_unlock_bh(&ep->route_lock);

	l2t_put(ep, old_l2t);
	dst_release(old);
	return 1;
}
