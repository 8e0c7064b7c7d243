// SPDX-License-Identifier: GPL-2.0
/*
 * Lookups: from a destination to the source address, the interface and the link address of the next
 * hop. What the routing and neighbour tables have is found at once. Otherwise ib_core waits for the
 * neighbour, and calls back.
 */
#include <linux/semaphore.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <net/neighbour.h>
#include <net/route.h>

#include <t3_cred.h>

#include "rdma_cm.h"

/* --- routes that the kernel has ------------------------------------------ */

static bool cm_neigh_lookup(const struct rtable *rt, const __be32 *dst, struct net_device *ndev,
			    struct rdma_dev_addr *dev_addr)
{
	struct neighbour *neighbour = dst_neigh_lookup(&rt->dst, dst);
	bool valid;

	if (!neighbour)
		return false;
	valid = READ_ONCE(neighbour->nud_state) & NUD_VALID;
	if (valid)
		neigh_ha_snapshot(dev_addr->dst_dev_addr, neighbour, ndev);
	neigh_release(neighbour);
	return valid;
}

static bool cm_rt_lookup(const struct rtable *rt, const struct sockaddr_in *dst,
			 struct rdma_dev_addr *dev_addr)
	__must_hold_shared(RCU)
{
	struct net_device *ndev = READ_ONCE(rt->dst.dev);

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "the net device may be freed");

	/*
	 * An address of this machine. RDMA does not use the loopback interface: the device is that
	 * of the interface with the address.
	 */
	if (ndev->flags & IFF_LOOPBACK) {
		if (rdma_translate_ip((const struct sockaddr *)dst, dev_addr))
			return false;
		memcpy(dev_addr->dst_dev_addr, dev_addr->src_dev_addr, MAX_ADDR_LEN);
		return true;
	}
	if (!cm_neigh_lookup(rt, &dst->sin_addr.s_addr, ndev, dev_addr))
		return false;
	/* With an interface in dev_addr rdma_translate_ip() does not look at the address. */
	dev_addr->bound_dev_if = ndev->ifindex;
	return !rdma_translate_ip((const struct sockaddr *)dst, dev_addr);
}

/*
 * Looks a route up without a wait: rdma_resolve_ip() calls back from a worker of ib_core even if
 * the routing and neighbour tables have the result. Only for IPv4, whose routing lookup is exported
 * by every kernel. @src is the source address or the wildcard, and becomes the one that routing
 * chooses; @dev_addr becomes what rdma_resolve_ip() would make of it.
 *
 * Return: false if the caller must use rdma_resolve_ip(), which also finds out what is wrong.
 */
static bool cm_route_lookup(struct sockaddr *src, const struct sockaddr *dst,
			    struct rdma_dev_addr *dev_addr)
{
	const struct sockaddr_in *to = (const struct sockaddr_in *)dst;
	struct sockaddr_in *from = (struct sockaddr_in *)src;
	struct flowi4 flow = {};
	struct rtable *rt;
	bool found;

	if (dst->sa_family != AF_INET)
		return false;
	flow.daddr = to->sin_addr.s_addr;
	flow.saddr = from->sin_addr.s_addr;
	flow.flowi4_oif = dev_addr->bound_dev_if;
	rt = ip_route_output_key(dev_addr->net, &flow);
	if (IS_ERR(rt))
		return false;
	rcu_read_lock();
	found = cm_rt_lookup(rt, to, dev_addr);
	rcu_read_unlock();
	if (found) {
		from->sin_addr.s_addr = flow.saddr;
		dev_addr->hoplimit = ip4_dst_hoplimit(&rt->dst);
		dev_addr->network = rt->rt_uses_gateway ? RDMA_NETWORK_IPV4 : RDMA_NETWORK_IB;
	}
	ip_rt_put(rt);
	return found;
}

/* --- lookups that wait ----------------------------------------------------- */

/*
 * ib_core has one list of the lookups of all users. Whenever a neighbour changes it walks this list
 * with softirqs off, and queues all of them. So a user has a limited number there. A program that
 * resolves many addresses at once waits for the end of its others. It has a command then, which the
 * removal of a device waits for, and chose the time limits of the others: so it does not wait long.
 */
#define CM_MAX_LOOKUPS		256
#define CM_LOOKUP_WAIT		HZ

/**
 * struct cm_lookups - the lookups of a user
 * @user: the index in cm_lookups_of
 * @refs: lookups, and calls that wait; under the lock of cm_lookups_of
 * @left: how many more may begin
 */
struct cm_lookups {
	unsigned long user;
	unsigned int refs;
	struct semaphore left;
};

static DEFINE_XARRAY(cm_lookups_of);

/*
 * All ids of a container are one user. One without a user namespace has the ids of the host, so it
 * is known by its network namespace. It may make user namespaces, where root is then that of the
 * host: these have another bit.
 */
static unsigned long cm_lookup_user(struct net *net)
{
	unsigned long user = __kuid_val(t3_cred_user(current_cred()));

	if (!net_eq(net, &init_net) && net->user_ns == &init_user_ns)
		return (unsigned long)net;
	return current_user_ns() == &init_user_ns ? user : user | BIT_ULL(32);
}

/* Those of the current user, with a reference; NULL without memory. */
static struct cm_lookups *cm_lookups_get(struct net *net)
{
	struct cm_lookups *lookups, *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);

	if (!new)
		return NULL;
	new->user = cm_lookup_user(net);
	sema_init(&new->left, CM_MAX_LOOKUPS);
	xa_lock(&cm_lookups_of);
	lookups = __xa_cmpxchg(&cm_lookups_of, new->user, NULL, new, GFP_KERNEL);
	if (!lookups)
		swap(lookups, new);
	else if (xa_is_err(lookups))
		lookups = NULL;
	if (lookups)
		lookups->refs++;
	xa_unlock(&cm_lookups_of);
	kfree(new);
	return lookups;
}

static void cm_lookups_put(struct cm_lookups *lookups)
{
	bool last;

	xa_lock(&cm_lookups_of);
	last = !--lookups->refs;
	if (last)
		__xa_erase(&cm_lookups_of, lookups->user);
	xa_unlock(&cm_lookups_of);
	if (last)
		kfree(lookups);
}

/* Return: 0; -ENOMEM; or -ENOBUFS if none of the others has ended. */
static int cm_lookup_begin(struct cm_id *id)
{
	struct cm_lookups *lookups = cm_lookups_get(cm_net(id));

	if (!lookups)
		return -ENOMEM;
	if (down_timeout(&lookups->left, CM_LOOKUP_WAIT)) {
		cm_lookups_put(lookups);
		return -ENOBUFS;
	}
	WRITE_ONCE(id->lookups, lookups);
	return 0;
}

/* The callback and the cancel of a lookup call this, in any order; the first one ends it. */
static void cm_lookup_end(struct cm_id *id)
{
	struct cm_lookups *lookups = xchg(&id->lookups, NULL);

	if (!lookups)
		return;
	up(&lookups->left);
	cm_lookups_put(lookups);
}

/* --- address resolution -------------------------------------------------- */

/* ib_core looks up all addresses of the machine in one worker, so this waits for nothing. */
static void cm_addr_handler(int status, struct sockaddr *src, struct rdma_dev_addr *addr,
			    void *context)
{
	struct cm_id *id = context;

	cm_id_get(id);
	cm_lookup_end(id);
	cm_addr_copy((struct sockaddr *)&id->peer.local, src);
	cm_event_post(id, CM_SLOT_ADDR, CM_EV_ADDR_DONE, status, CM_DISPATCH_WORKER);
	cm_id_put(id);
}

/* As for sockets, the wildcard as a destination is this machine. */
static void cm_addr_set_dst(struct cm_id *id, const struct sockaddr *to)
{
	struct sockaddr_storage storage = {};
	struct sockaddr *dst = (struct sockaddr *)&storage;

	cm_addr_copy(dst, to);
	if (cm_addr_any(dst) && dst->sa_family == AF_INET)
		((struct sockaddr_in *)dst)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (cm_addr_any(dst))
		((struct sockaddr_in6 *)dst)->sin6_addr = in6addr_loopback;
	cm_port_set_addr(id, cm_dst(id), dst);
}

/*
 * Afterwards a lookup does not call back, and its callback has returned: at the end of an id the
 * module can be unloaded.
 */
void cm_addr_cancel(struct cm_id *id)
{
	if (!id->addr_used)
		return;
	rdma_addr_cancel(&id->base.id.route.addr.dev_addr);
	cm_lookup_end(id);
}

/**
 * cm_addr_lookup - find the address, the interface and the next hop of a destination
 * @id: the id
 * @dst: the destination
 * @timeout_ms: limit for the reply of the neighbour
 *
 * Return: 0, and CM_EV_ADDR_DONE follows; or an error.
 */
int cm_addr_lookup(struct cm_id *id, const struct sockaddr *dst, unsigned long timeout_ms)
{
	struct rdma_dev_addr *dev_addr = &id->base.id.route.addr.dev_addr;
	struct sockaddr *src = (struct sockaddr *)&id->peer.local;
	int ret;

	if (cm_src(id)->sa_family != dst->sa_family)
		return -EINVAL;
	if (dst->sa_family == AF_IB)
		return -ENODEV;
	cm_addr_set_dst(id, dst);
	cm_addr_cancel(id);		/* the callback of the last lookup may still run */
	cm_addr_copy(src, cm_src(id));
	id->bound_if = dev_addr->bound_dev_if;
	if (cm_route_lookup(src, cm_dst(id), dev_addr))
		return cm_event_post(id, CM_SLOT_ADDR, CM_EV_ADDR_DONE, 0, CM_DISPATCH_MAY_SLEEP);
	dev_addr->bound_dev_if = id->bound_if;
	ret = cm_lookup_begin(id);
	if (ret)
		return ret;
	id->addr_used = true;
	ret = rdma_resolve_ip(cm_src(id), cm_dst(id), dev_addr, timeout_ms, cm_addr_handler, false,
			      id);
	if (ret) {
		cm_lookup_end(id);
		dev_addr->bound_dev_if = id->bound_if;
	}
	return ret;
}

/* --- the result ------------------------------------------------------------ */

/**
 * cm_addr_result - take over the result of a lookup
 * @id: the id
 * @status: result of the lookup; becomes -ENODEV if no RDMA device is on the route
 *
 * Return: the event for the state table.
 */
enum cm_event cm_addr_result(struct cm_id *id, int *status)
{
	struct sockaddr_storage before = id->base.id.route.addr.src_addr;

	lockdep_assert_held(&id->handler_mutex);
	if (cm_state(id) != CM_ST_ADDR_QUERY)
		return *status ? CM_EV_ADDR_FAILED : CM_EV_ADDR_DONE;
	if (*status)
		goto failed;
	cm_port_set_addr(id, cm_src(id), (struct sockaddr *)&id->peer.local);
	if (cm_dev_of(id))
		return CM_EV_ADDR_DONE;
	*status = cm_dev_attach(id);
	if (*status)
		goto failed;
	*status = cm_port_reserve(id, true);
	if (*status) {
		cm_dev_detach(id);
		goto failed;
	}
	cm_res_add(&id->base);
	return CM_EV_ADDR_DONE;
failed:
	/* The next lookup may find another route. */
	cm_port_set_addr(id, cm_src(id), (struct sockaddr *)&before);
	id->base.id.route.addr.dev_addr.bound_dev_if = id->bound_if;
	return CM_EV_ADDR_FAILED;
}
