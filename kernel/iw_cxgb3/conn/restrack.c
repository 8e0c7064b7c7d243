// SPDX-License-Identifier: GPL-2.0
/*
 * Details of a connection or a listener for `rdma resource show cm_id -dd`. The
 * id belongs to the RDMA connection manager (in-tree or ours), and its pointer to
 * our endpoint is private. So the endpoint is looked up by the addresses.
 */
#include <rdma/rdma_cm.h>
#include <rdma/restrack.h>

#include "cm.h"

static bool t3_addr_is(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_family == AF_INET && b->sin_family == AF_INET &&
	       a->sin_addr.s_addr == b->sin_addr.s_addr && a->sin_port == b->sin_port;
}

/* The endpoint with a reference, or NULL. */
static struct t3_ep *t3_ep_find_by_addr(struct t3_cm_dev *cm, const struct sockaddr_in *local,
					const struct sockaddr_in *remote)
{
	struct t3_ep *ep, *found = NULL;
	unsigned long id;

	rcu_read_lock();
	xa_for_each(&cm->eps, id, ep) {
		if (!t3_addr_is(&ep->local, local) || !t3_addr_is(&ep->remote, remote))
			continue;
		if (t3_ep_tryget(ep)) {
			found = ep;
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

/* The values may be outdated: the endpoint's runner runs concurrently. */
static int t3_ep_fill_res(struct sk_buff *msg, const struct t3_ep *ep)
{
	if (rdma_nl_put_driver_u32(msg, "ep", ep->id) ||
	    rdma_nl_put_driver_string(msg, "ep_state", ep_state_name(READ_ONCE(ep->state))) ||
	    rdma_nl_put_driver_u32_hex(msg, "tid", READ_ONCE(ep->tid)) ||
	    rdma_nl_put_driver_u32(msg, "active", ep->active) ||
	    rdma_nl_put_driver_u32(msg, "mpa_rev", ep->mpa_rev) ||
	    rdma_nl_put_driver_u32(msg, "ird", ep->ird) ||
	    rdma_nl_put_driver_u32(msg, "ord", ep->ord) ||
	    rdma_nl_put_driver_u32(msg, "emss", ep->emss))
		return -EMSGSIZE;
	return 0;
}

static int t3_listener_fill_res(struct sk_buff *msg, struct t3_cm_dev *cm,
				const struct sockaddr_in *local)
{
	struct t3_listener *l;
	int err = 0;

	spin_lock_bh(&cm->lock);
	list_for_each_entry(l, &cm->listeners, link) {
		if (l->addr != local->sin_addr.s_addr || l->port != local->sin_port)
			continue;
		if (rdma_nl_put_driver_u32_hex(msg, "stid", l->stid))
			err = -EMSGSIZE;
		break;
	}
	spin_unlock_bh(&cm->lock);
	return err;
}

/* ib_core holds the device during the call, so dev->cm is valid. */
int t3_cm_fill_res_entry(struct sk_buff *msg, struct rdma_cm_id *cm_id)
{
	const struct sockaddr_in *remote = (const void *)&cm_id->route.addr.dst_addr;
	const struct sockaddr_in *local = (const void *)&cm_id->route.addr.src_addr;
	struct t3_cm_dev *cm = to_t3_dev(cm_id->device)->cm;
	struct nlattr *table;
	struct t3_ep *ep;
	int err;

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	/* A listener has no remote address, or one that is all zeroes. */
	if (remote->sin_family == AF_INET && remote->sin_port) {
		ep = t3_ep_find_by_addr(cm, local, remote);
		err = ep ? t3_ep_fill_res(msg, ep) : 0;
		if (ep)
			t3_ep_put(ep);
	} else {
		err = t3_listener_fill_res(msg, cm, local);
	}
	if (err) {
		nla_nest_cancel(msg, table);
		return err;
	}
	nla_nest_end(msg, table);
	return 0;
}
