// SPDX-License-Identifier: GPL-2.0
/*
 * Routes: from the addresses of a connection to a port of the card and an entry of its L2
 * table.
 */
#include <net/arp.h>
#include <net/dst.h>
#include <net/ip.h>
#include <net/neighbour.h>
#include <net/net_namespace.h>
#include <net/route.h>

#include <t3_netdev.h>

#include "cm.h"
#include "handover.h"

#define T3_L2T_NO_VLAN	0xfff	/* in an L2T entry */

/*
 * cxgb3 reads the driver-private memory of each net_device that it gets. So it must only
 * get its own: the port below a VLAN device, never the VLAN device.
 */
static struct net_device *t3_route_port(struct t3_dev *dev, struct net_device *ndev)
{
	struct net_device *below = t3_vlan_below(ndev);
	unsigned int i;

	if (below)
		ndev = below;
	for (i = 0; i < dev->ports.nports; i++)
		if (dev->ports.lldevs[i] == ndev)
			return ndev;
	return NULL;
}

/*
 * How many addresses of a port and its VLANs a look-up visits: it may be in the softirq of a SYN,
 * and the owner of a port or a VLAN can make any number of them.
 */
#define T3_ROUTE_MAX_VISITS	1024

/*
 * Whether an interface that does not go away during the call has the address, or a local route for
 * it. Only an address that another interface of the namespace has, too, needs visits.
 */
bool t3_route_has_address(const struct net_device *ndev, __be32 addr)
{
	unsigned int left = T3_ROUTE_MAX_VISITS;
	bool has;

	rcu_read_lock();
	has = __ip_dev_find(dev_net(ndev), addr, false) == ndev ||
	      t3_netdev_find_ipv4(ndev, addr, &left);
	rcu_read_unlock();
	return has;
}

/*
 * Whether the interface of an endpoint is still in the namespace of the endpoint, and has the local
 * address. For the runner, or with route_lock: a route holds the interface.
 */
bool t3_route_keeps_address(const struct t3_ep *ep)
{
	if (ep->net && !net_eq(ep->net, dev_net(ep->ndev)))
		return false;
	return t3_route_has_address(ep->ndev, ep->local.sin_addr.s_addr);
}

/*
 * The same for threads that are not the runner. False without a route: the endpoint may be about to
 * look for one.
 */
bool t3_route_is_valid(struct t3_ep *ep)
{
	bool valid;

	spin_lock_bh(&ep->route_lock);
	valid = ep->dst && t3_route_keeps_address(ep);
	spin_unlock_bh(&ep->route_lock);
	return valid;
}

/**
 * struct t3_route_search - a search of the interfaces of a card for an address
 * @net: the namespace of the interface, which is only compared; NULL: any
 * @addr: the address
 * @left: how many addresses of the port and its VLANs to visit
 */
struct t3_route_search {
	const struct net *net;
	__be32 addr;
	unsigned int left;
};

static bool t3_route_match(const struct net_device *ndev, struct t3_route_search *search)
	__must_hold_shared(RCU)
{
	return (!search->net || net_eq(search->net, dev_net(ndev))) &&
	       t3_netdev_find_ipv4(ndev, search->addr, &search->left);
}

static struct net_device *t3_route_search_port(struct net_device *port,
					       struct t3_route_search *search)
	__must_hold_shared(RCU)
{
	struct net_device *vlan;
	unsigned int id;

	if (t3_route_match(port, search))
		return port;
	t3_for_each_vlan_rcu(port, vlan, id)
		if (t3_route_match(vlan, search))
			return vlan;
	return NULL;
}

/* Each port has its share of the visits, so that the owner of another port does not use it up. */
static struct net_device *t3_route_search(struct t3_dev *dev, struct t3_route_search search)
	__must_hold_shared(RCU)
{
	const unsigned int visits = search.left;
	struct net_device *found = NULL;
	unsigned int i;

	for (i = 0; !found && i < dev->ports.nports; i++) {
		search.left = visits;
		found = t3_route_search_port(dev->ports.lldevs[i], &search);
	}
	return found;
}

/* Whether it is an interface of the card, and has the address: a local route is not enough. */
static bool t3_route_is_on(struct t3_dev *dev, struct net_device *ndev, __be32 addr)
	__must_hold_shared(RCU)
{
	unsigned int left = T3_ROUTE_MAX_VISITS;

	return t3_route_port(dev, ndev) && t3_netdev_find_ipv4(ndev, addr, &left);
}

/* As t3_route_local_dev(), but @net is only compared: it may have ended. */
static struct net_device *t3_route_walk(struct t3_dev *dev, const struct net *net, __be32 addr)
{
	const struct t3_route_search search = {
		.net = net, .addr = addr, .left = T3_ROUTE_MAX_VISITS,
	};
	struct net_device *found;

	rcu_read_lock();
	found = t3_route_search(dev, search);
	dev_hold(found);
	rcu_read_unlock();
	return found;
}

/*
 * Find the interface with a local address.
 * @net: the network namespace that the interface must be in, which does not end during the call;
 *	NULL: any
 * @addr: the address
 *
 * Another namespace may have the same address on another port of the card. The address must be
 * that of a port or of a VLAN device on it. All ports are searched if the namespace has the address
 * on another interface, too.
 *
 * Return: the interface, with a reference, or NULL.
 */
struct net_device *t3_route_local_dev(struct t3_dev *dev, struct net *net, __be32 addr)
{
	struct net_device *found;

	if (!net)
		return t3_route_walk(dev, NULL, addr);
	rcu_read_lock();
	found = __ip_dev_find(net, addr, false);
	if (found && !t3_route_is_on(dev, found, addr))
		found = t3_route_walk(dev, net, addr);
	else
		dev_hold(found);
	rcu_read_unlock();
	return found;
}

/* One lookup, since the other namespace chooses how many addresses its interface has. */
static bool t3_route_others_have(const struct net_device *ndev, const struct net *net, __be32 addr)
	__must_hold_shared(RCU)
{
	return !net_eq(dev_net(ndev), net) && __ip_dev_find(dev_net(ndev), addr, false) == ndev;
}

/* Whether another namespace has an address on a port or a VLAN on it. */
static bool t3_route_conflicts_on(struct net_device *port, const struct net *net, __be32 addr)
	__must_hold_shared(RCU)
{
	struct net_device *vlan;
	unsigned int id;

	if (t3_route_others_have(port, net, addr))
		return true;
	t3_for_each_vlan_rcu(port, vlan, id)
		if (t3_route_others_have(vlan, net, addr))
			return true;
	return false;
}

/*
 * Whether the address of an id belongs to another network namespace, too.
 * @cm_id: the id
 * @addr: the address; 0: any
 *
 * The card finds listeners and connections by their addresses, whichever port a segment comes from.
 * The namespace of the device has priority, with any of its interfaces. If two others have an
 * address on the card, neither can use it. t3_rdma_cm, whose ids have no handler of
 * iw_cm, applies the rule itself. The context of such an id is not valid when a connect is
 * repeated.
 */
bool t3_route_conflicts(struct t3_dev *dev, const struct iw_cm_id *cm_id, __be32 addr)
{
	struct net *owner = read_pnet(&dev->ibdev.coredev.rdma_net);
	const struct net *net;
	unsigned int i;
	bool conflicts;

	if (!cm_id->cm_handler || !addr)
		return false;
	net = t3_cm_id_net(cm_id);
	if (!net || net_eq(net, owner))
		return false;
	rcu_read_lock();
	conflicts = __ip_dev_find(owner, addr, false);
	for (i = 0; !conflicts && i < dev->ports.nports; i++)
		conflicts = t3_route_conflicts_on(dev->ports.lldevs[i], net, addr);
	rcu_read_unlock();
	return conflicts;
}

/*
 * A user who connects to many next hops would take all entries of the table, or all neighbours of
 * the host, which the entries hold. Connections that peers open use at most half of the share:
 * otherwise SYNs from many hosts would leave the user none to connect to. Those to listeners
 * without a limit use at most half of the table together. Between t3_dev_enter() and
 * t3_dev_leave().
 */
static struct t3_quota *t3_route_quota(const struct t3_ep *ep)
{
	return ep->quota || ep->active ? ep->quota : &ep->dev->quotas.peers;
}

static int t3_route_charge_l2t(struct t3_ep *ep, const struct l2t_entry *e)
{
	const struct l2t_data *table = rcu_dereference(ep->dev->tdev->l2opt);
	u32 total = min_t(u32, table ? table->nentries : 0, READ_ONCE(arp_tbl.gc_thresh3));
	int err;

	if (!ep->active)
		total /= 2;
	err = t3_quota_charge_l2t(ep->dev, t3_route_quota(ep), e->idx, total);
	if (!err)
		ep->charged_l2t = e->idx;
	return err;
}

/* Drop an L2T reference. RCU, because cxgb3 may be freeing the table. */
static void t3_route_put_l2t(struct t3_ep *ep, struct l2t_entry *e)
{
	struct l2t_data *d;

	rcu_read_lock();
	if (t3_cm_has_tables(ep->cm) && atomic_dec_and_test(&e->refcnt)) {
		d = rcu_dereference(ep->dev->tdev->l2opt);
		if (d)
			t3_l2e_free(d, e);
	}
	rcu_read_unlock();
}

/*
 * cxgb3 finds an entry by next hop, port, and index of the interface. Another interface may have
 * the same index in another network namespace. An entry without other users gets the neighbour of
 * the new interface then, but keeps the VLAN of the old one.
 */
static int t3_route_check_l2t(struct l2t_entry *e, const struct net_device *ndev)
{
	u16 vlan = is_vlan_dev(ndev) ? vlan_dev_vlan_id(ndev) : T3_L2T_NO_VLAN;
	int ret = 0;

	spin_lock_bh(&e->lock);
	if (e->vlan != vlan && atomic_read(&e->refcnt) == 1) {
		e->vlan = vlan;
		e->state = L2T_STATE_RESOLVING;	/* cxgb3 writes it to the card */
	}
	if (e->vlan != vlan || e->neigh->dev != ndev)
		ret = -EHOSTUNREACH;
	spin_unlock_bh(&e->lock);
	return ret;
}

/**
 * t3_route_resolve - set route, L2T entry, port and path MTU of an endpoint
 * @ep: endpoint with both addresses set; its namespace is valid, or net_may_have_ended is set
 *
 * Does not sleep. Return: 0; -EADDRNOTAVAIL if no port of the card has the local address,
 * -ENETUNREACH for a broadcast or multicast address,
 * -EOPNOTSUPP if the destination is this host (the card has no loopback),
 * -EHOSTUNREACH if no route to the destination leads through this card, or if the entry is still
 * that of another interface.
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
	struct l2t_entry *l2t;
	struct rtable *rt;
	int ret;

	ndev = ep->net_may_have_ended ? t3_route_walk(dev, ep->net, fl4.saddr) :
					t3_route_local_dev(dev, ep->net, fl4.saddr);
	if (!ndev)
		return -EADDRNOTAVAIL;
	fl4.flowi4_oif = ndev->ifindex;
	rt = ip_route_output_key(dev_net(ndev), &fl4);
	if (IS_ERR(rt)) {
		dev_put(ndev);
		return -EHOSTUNREACH;
	}
	if (rt->rt_flags & (RTCF_BROADCAST | RTCF_MULTICAST)) {	/* as TCP; also local then */
		ret = -ENETUNREACH;
		goto err_route;
	}
	if (rt->rt_flags & RTCF_LOCAL) {
		ret = -EOPNOTSUPP;
		goto err_route;
	}
	port = t3_route_port(dev, rt->dst.dev);
	if (!port) {
		ret = -EHOSTUNREACH;
		goto err_route;
	}

	if (!t3_dev_enter(dev)) {
		ret = -ENODEV;
		goto err_route;
	}
	l2t = t3_l2t_get(dev->tdev, &rt->dst, port, &fl4.daddr);
	ret = l2t ? t3_route_check_l2t(l2t, rt->dst.dev) : -ENOMEM;
	if (!ret)
		ret = t3_route_charge_l2t(ep, l2t);
	if (!ret)
		ep->smt_idx = l2t->smt_idx;
	t3_dev_leave(dev);
	if (ret)
		goto err_l2t;
	ep->ndev = ndev;
	ep->mtu = dst_mtu(&rt->dst);
	spin_lock_bh(&ep->route_lock);
	ep->dst = &rt->dst;
	ep->l2t = l2t;
	spin_unlock_bh(&ep->route_lock);
	return 0;

err_l2t:
	if (l2t)
		t3_route_put_l2t(ep, l2t);
err_route:
	ip_rt_put(rt);
	dev_put(ndev);
	return ret;
}

/*
 * Free the endpoint's messages in the ARP queue of an L2T entry. Other connections share
 * the queue, also those of other clients of cxgb3. The caller holds rcu_read_lock(). Return: their
 * number.
 */
static unsigned int t3_route_purge_l2t(struct t3_ep *ep, struct l2t_entry *e)
{
	struct sk_buff *skb, *next;
	unsigned int purged = 0;

	if (!t3_cm_has_tables(ep->cm))
		return 0;
	spin_lock_bh(&e->lock);
	skb_queue_walk_safe(&e->arpq, skb, next) {
		if (((const struct t3_route_cb *)skb->cb)->owner != ep)
			continue;
		__skb_unlink(skb, &e->arpq);
		kfree_skb(skb);
		purged++;
	}
	spin_unlock_bh(&e->lock);
	return purged;
}

/**
 * t3_route_l2t_index - index of the endpoint's L2T entry
 * @ep: endpoint with a route
 *
 * Return: 0 without cxgb3's tables, when no message reaches the card any more.
 */
unsigned int t3_route_l2t_index(struct t3_ep *ep)
{
	unsigned int index = 0;

	rcu_read_lock();
	spin_lock_bh(&ep->route_lock);
	if (t3_cm_has_tables(ep->cm))
		index = ep->l2t->idx;
	spin_unlock_bh(&ep->route_lock);
	rcu_read_unlock();
	return index;
}

/*
 * Free messages that wait for the next hop's address.
 * Return: true if the L2T entry has the address.
 */
bool t3_route_purge(struct t3_ep *ep)
{
	bool reachable = false;
	struct l2t_entry *e;

	rcu_read_lock();
	spin_lock_bh(&ep->route_lock);
	e = ep->l2t;
	if (e && t3_cm_has_tables(ep->cm)) {
		t3_route_purge_l2t(ep, e);
		/* An entry with a reference does not become unresolved again. */
		reachable = READ_ONCE(e->state) != L2T_STATE_RESOLVING;
	}
	spin_unlock_bh(&ep->route_lock);
	rcu_read_unlock();
	return reachable;
}

/*
 * The same for a connection whose only message may be waiting.
 * Return: true if it waited, so that the card has not got it.
 */
bool t3_route_take_back(struct t3_ep *ep)
{
	bool waited;

	rcu_read_lock();
	spin_lock_bh(&ep->route_lock);
	waited = ep->l2t && t3_route_purge_l2t(ep, ep->l2t);
	spin_unlock_bh(&ep->route_lock);
	rcu_read_unlock();
	return waited;
}

/* Whether the end of the connection gives its user a next hop back now. */
bool t3_route_is_alone(const struct t3_ep *ep)
{
	const struct t3_quota *quota = t3_route_quota(ep);

	return context_unsafe(READ_ONCE(ep->l2t)) && quota &&
	       READ_ONCE(quota->l2t_users[ep->charged_l2t]) == 1;
}

/*
 * Release route and L2T entry.
 * Must precede the release of the TID: messages in the ARP queue would otherwise be sent
 * for the next connection with this TID.
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
		t3_route_purge_l2t(ep, l2t);
		rcu_read_unlock();
		t3_route_put_l2t(ep, l2t);
		t3_quota_uncharge_l2t(ep->dev, t3_route_quota(ep), ep->charged_l2t);
	}
	dst_release(dst);
	dev_put(ep->ndev);
	ep->ndev = NULL;
}

/*
 * Messages that wait for one next hop. The end of each endpoint searches them with softirqs off, so
 * a user who opens connections to a next hop that does not answer would make that long.
 */
#define T3_ROUTE_MAX_WAITING	512

/*
 * Send a message that needs the next hop's address.
 * @skb: message; always consumed
 * @failed: called, possibly much later, if the address cannot be resolved
 *
 * Return: 0 or -errno; -ENOBUFS if too many messages wait for this next hop
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
		else if (e && skb_queue_len_lockless(&e->arpq) >= T3_ROUTE_MAX_WAITING)
			ret = -ENOBUFS;
		else if (e)
			ret = t3_l2t_send_slow(dev->tdev, skb, e);
		spin_unlock_bh(&ep->route_lock);
		t3_dev_leave(dev);
	}
	return t3_handed_over(skb, ret);
}

/* The card's retransmissions fail: make the kernel resolve the next hop again. */
void t3_route_revalidate(struct t3_ep *ep)
{
	rcu_read_lock();
	spin_lock_bh(&ep->route_lock);
	if (ep->l2t && t3_cm_has_tables(ep->cm))
		t3_l2t_send_event(ep->dev->tdev, ep->l2t);
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
