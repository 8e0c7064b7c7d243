// SPDX-License-Identifier: GPL-2.0
/*
 * RoCE: listeners, and the ids of connect requests.
 *
 * Ids that listen on the same port of one device share an ib_cm_id (ib_cm_insert_listen()). Its
 * callback finds the listener of a request by the address in the request, in a table. A listener is
 * in the table while it has its share of the ib_cm_id; the callback takes a reference on it.
 */
#include <linux/netdevice.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <net/ip6_route.h>
#include <net/ip_fib.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>

#include "compat.h"
#include "rdma_cm.h"
#include "roce.h"
#include "trace.h"

static const struct rhashtable_params cm_roce_params = {
	.key_len = sizeof(struct cm_roce_key),
	.key_offset = offsetof(struct cm_listener, key),
	.head_offset = offsetof(struct cm_listener, item),
	.automatic_shrinking = true,
};

static struct rhltable cm_roce_listeners;	/* under cm_roce_lock */
DEFINE_SPINLOCK(cm_roce_lock);	/* process context only; innermost */

int cm_roce_init(void)
{
	return rhltable_init(&cm_roce_listeners, &cm_roce_params);
}

/* Nothing listens. */
void cm_roce_exit(void)
{
	rhltable_destroy(&cm_roce_listeners);
}

static struct cm_roce_key cm_roce_key(const struct cm_listener *l)
{
	return (struct cm_roce_key) {
		.device = l->dev->device,
		.net = cm_net(l->id),
		.service_id = cm_roce_service_id(l->id, cm_src(l->id)),
	};
}

/*
 * Whether a listener takes requests to @local, and how specific its address is. Return: 0 if it
 * does not take them; 3 for the address itself; less for a wildcard.
 */
static int cm_roce_match(const struct cm_listener *l, const struct sockaddr *local, int ifindex)
{
	const struct sockaddr *addr = cm_src(l->id);
	int bound = l->id->base.id.route.addr.dev_addr.bound_dev_if;

	if (!cm_addr_any(addr))
		return cm_addr_same(addr, local) && (!bound || bound == ifindex) ? 3 : 0;
	if (addr->sa_family == local->sa_family)
		return 2;
	return addr->sa_family == AF_INET6 && !l->id->bind.afonly ? 1 : 0;
}

/* The listener of a request, with a reference; or NULL. Those of one key are owners of one port. */
static struct cm_listener *cm_roce_find_listener(const struct cm_roce_key *key, int ifindex,
						 const struct sockaddr *local)
{
	struct cm_listener *l, *found = NULL;
	struct rhlist_head *list, *pos;
	int match, best = 0;

	rcu_read_lock();
	spin_lock(&cm_roce_lock);
	list = rhltable_lookup(&cm_roce_listeners, key, cm_roce_params);
	rhl_for_each_entry_rcu(l, pos, list, item) {
		match = cm_roce_match(l, local, ifindex);
		if (match > best) {
			best = match;
			found = l;
		}
	}
	if (found)
		cm_listener_get(found);
	spin_unlock(&cm_roce_lock);
	rcu_read_unlock();
	return found;
}

/* The parts of a request that REQ and SIDR REQ have in common. */
struct cm_roce_request {
	__be64 service_id;
	const struct ib_gid_attr *sgid_attr;
	const struct ib_cm_req_event_param *req;	/* or NULL */
	enum ib_qp_type qp_type;
	unsigned int data_len;
};

/* Return: false if the event is no request, or one without a GID. */
static bool cm_roce_request_of(struct cm_roce_request *request, const struct ib_cm_event *event)
{
	switch (event->event) {
	case IB_CM_REQ_RECEIVED:
		*request = (struct cm_roce_request) {
			.service_id = event->param.req_rcvd.listen_id->service_id,
			.sgid_attr = event->param.req_rcvd.ppath_sgid_attr,
			.req = &event->param.req_rcvd,
			.qp_type = event->param.req_rcvd.qp_type,
			.data_len = IB_CM_REQ_PRIVATE_DATA_SIZE,
		};
		break;
	case IB_CM_SIDR_REQ_RECEIVED:
		*request = (struct cm_roce_request) {
			.service_id = event->param.sidr_req_rcvd.service_id,
			.sgid_attr = event->param.sidr_req_rcvd.sgid_attr,
			.qp_type = IB_QPT_UD,
			.data_len = IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE,
		};
		break;
	default:
		return false;
	}
	return !!request->sgid_attr;
}

/* The interface on which a request came. Return: false if it is gone. */
static bool cm_roce_request_interface(const struct ib_gid_attr *attr, struct net **net,
				      int *ifindex)
{
	struct net_device *ndev;
	bool found;

	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	found = !IS_ERR_OR_NULL(ndev);
	if (found) {
		*net = dev_net(ndev);
		*ifindex = ndev->ifindex;
	}
	rcu_read_unlock();
	return found;
}

static bool cm_roce_ipv4_is_on(struct net_device *ndev, const struct sockaddr_in *local,
			       const struct sockaddr_in *remote)
	__must_hold_shared(RCU)
{
	struct flowi4 flow = {
		.flowi4_oif = ndev->ifindex,
		.daddr = remote->sin_addr.s_addr,
		.saddr = local->sin_addr.s_addr,
	};
	struct fib_result route;

	if (ipv4_is_zeronet(flow.daddr) || ipv4_is_loopback(flow.daddr) ||
	    ipv4_is_multicast(flow.daddr) || ipv4_is_lbcast(flow.daddr))
		return false;
	return !fib_lookup(dev_net(ndev), &flow, &route, 0) && route.type != RTN_BROADCAST &&
	       FIB_RES_DEV(route) == ndev;
}

static bool cm_roce_ipv6_is_on(struct net_device *ndev, const struct sockaddr_in6 *local,
			       const struct sockaddr_in6 *remote)
	__must_hold_shared(RCU)
{
	int type = ipv6_addr_type(&remote->sin6_addr);
	struct rt6_info *route;
	bool is_on;

	if (!IS_ENABLED(CONFIG_IPV6) || !(type & IPV6_ADDR_UNICAST) ||
	    type & (IPV6_ADDR_LOOPBACK | IPV6_ADDR_MAPPED))
		return false;
	route = rt6_lookup(dev_net(ndev), &remote->sin6_addr, &local->sin6_addr, ndev->ifindex,
			   NULL, type & IPV6_ADDR_LINKLOCAL ? RT6_LOOKUP_F_IFACE : 0);
	if (!route)
		return false;
	is_on = route->rt6i_idev && route->rt6i_idev->dev == ndev;
	ip6_rt_put(route);
	return is_on;
}

/*
 * The peer names its IP address itself. As the source of an IP packet, it must be an address of a
 * host to which a route leads over the interface of arrival. One that this machine has on that
 * interface is right: the peer may be here.
 */
static bool cm_roce_peer_is_on(const struct ib_gid_attr *attr, const struct cm_peer_params *peer)
{
	struct net_device *ndev;
	bool is_on = false;

	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	if (!IS_ERR_OR_NULL(ndev) && peer->remote.sin6_family == AF_INET)
		is_on = cm_roce_ipv4_is_on(ndev, (const struct sockaddr_in *)&peer->local,
					   (const struct sockaddr_in *)&peer->remote);
	else if (!IS_ERR_OR_NULL(ndev))
		is_on = cm_roce_ipv6_is_on(ndev, &peer->local, &peer->remote);
	rcu_read_unlock();
	return is_on;
}

/* Gives the id of a request its GID, its path, and the parameters of the peer. */
static void cm_roce_fill_request(struct cm_id *id, const struct cm_roce_request *request)
{
	const struct ib_cm_req_event_param *req = request->req;
	struct rdma_route *route = &id->base.id.route;
	struct cm_peer_params *peer = &id->peer;

	rdma_hold_gid_attr(request->sgid_attr);
	route->addr.dev_addr.sgid_attr = request->sgid_attr;
	if (!req)
		return;
	id->roce->path = *req->primary_path;
	route->path_rec = &id->roce->path;
	route->num_pri_alt_paths = 1;
	peer->ird = req->initiator_depth;
	peer->ord = req->responder_resources;
	peer->flow_control = req->flow_control;
	peer->retry_count = req->retry_count;
	peer->rnr_retry_count = req->rnr_retry_count;
	peer->srq = req->srq;
	peer->qpn = req->remote_qpn;
	peer->ece = req->ece;
}

/*
 * Makes the id of a request, and queues it. From the post on the ib_cm_id belongs to the new id,
 * whose destroy waits for the callback that runs now. Return: 0, or an error, with which ib_cm
 * rejects the peer.
 */
static int cm_roce_make_request(struct cm_listener *l, struct ib_cm_id *ib,
				const struct cm_roce_request *request, struct cm_peer_params *peer)
{
	struct cm_id *listener = l->id, *id;

	id = cm_request_alloc(l, listener->bind.ps, listener->base.id.qp_type);
	if (!id)
		return -ENOMEM;
	if (cm_roce_alloc(id)) {
		cm_request_free(l, id);
		return -ENOMEM;
	}
	/* As in provider.c: cm_remove_one() waits while the request is queued. */
	cm_dev_assign(id, l->dev);
	id->peer = *peer;
	cm_roce_fill_request(id, request);
	id->ack_timeout = listener->ack_timeout;
	id->ack_timeout_set = listener->ack_timeout_set;
	id->roce->ib = ib;
	cm_id_get(id);		/* of the ib_cm_id; cm_roce_release() puts it */
	ib->context = id;
	ib->cm_handler = cm_roce_callback;
	/* Cannot fail, as the slot of a new id is free. */
	cm_request_post(listener, id, NULL);
	return 0;
}

/*
 * A request for a service id that is listened on. ib_cm rejects it, and destroys its ib_cm_id, if
 * the return value is not 0.
 */
static int cm_roce_listen_callback(struct ib_cm_id *ib, const struct ib_cm_event *event)
{
	struct cm_roce_key key = { .device = ib->device };
	struct cm_roce_request request;
	struct cm_peer_params *peer;
	struct cm_listener *l;
	int ifindex, ret = -EINVAL;

	if (!cm_roce_request_of(&request, event) ||
	    !cm_roce_request_interface(request.sgid_attr, &key.net, &ifindex))
		return -EINVAL;
	key.service_id = request.service_id;
	peer = kzalloc(sizeof(*peer), GFP_KERNEL);
	if (!peer)
		return -ENOMEM;
	if (!cm_roce_parse_request(peer, event->private_data, request.data_len, request.service_id,
				   ifindex))
		goto free;
	if (!cm_roce_peer_is_on(request.sgid_attr, peer)) {
		ret = -EHOSTUNREACH;
		goto free;
	}
	l = cm_roce_find_listener(&key, ifindex, (struct sockaddr *)&peer->local);
	if (!l)
		goto free;
	trace_cm_ib_upcall(l->id->number, event->event);
	if (l->id->base.id.qp_type == request.qp_type)
		ret = cm_roce_make_request(l, ib, &request, peer);
	/* The consumer may take long. */
	if (!ret && request.req)
		t3_ib_cm_mra(ib, ROCE_MRA_TIMEOUT);
	cm_listener_put(l);
free:
	kfree(peer);
	return ret;
}

static void cm_roce_unhash(struct cm_listener *l)
{
	spin_lock(&cm_roce_lock);
	rhltable_remove(&cm_roce_listeners, &l->item, cm_roce_params);
	spin_unlock(&cm_roce_lock);
}

int cm_roce_listen(struct cm_listener *l)
{
	int ret;

	l->key = cm_roce_key(l);
	spin_lock(&cm_roce_lock);
	ret = rhltable_insert(&cm_roce_listeners, &l->item, cm_roce_params);
	spin_unlock(&cm_roce_lock);
	if (ret)
		return ret;
	l->ib = ib_cm_insert_listen(l->dev->device, cm_roce_listen_callback, l->key.service_id);
	if (!IS_ERR(l->ib))
		return 0;
	cm_roce_unhash(l);
	return PTR_ERR(l->ib);
}

/* Waits for the callbacks, unless other ids listen on the same port of the device. */
void cm_roce_unlisten(struct cm_listener *l)
{
	cm_roce_unhash(l);
	ib_destroy_cm_id(l->ib);
}
