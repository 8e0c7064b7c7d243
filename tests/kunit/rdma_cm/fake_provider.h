/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All of t3_rdma_cm but its user device, over a fake device: iWARP, or with fake_roce RoCE. The
 * test chooses the events of the provider, their context, and whether they come inside our calls.
 *
 * The fake keeps the contract of a provider: it holds a reference on the iw_cm_id from a
 * successful connect or accept to its last event. It counts our calls.
 */
#ifndef T3_FAKE_PROVIDER_H
#define T3_FAKE_PROVIDER_H

#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/nsproxy.h>
#include <net/ipv6.h>
#include <net/neighbour.h>
#include <net/net_namespace.h>
#include <net/route.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "../suite.h"

/* Instead of trace.h: the suites have no tracepoints. */
#define T3_RDMA_CM_TRACE_H
#include <t3_netdev.h>
#include <t3_tcp_port.h>
#include <t3_uverbs_file.h>

#include "compat.h"
#include "rdma_cm.h"

#include "fake_ib_cm.h"
#ifndef FAKE_WITH_IWPM
#include "fake_iwpm.h"
#endif

#define trace_cm_ib_upcall(...)	do { } while (0)
#define trace_cm_fsm_apply(...)	do { } while (0)
#define trace_cm_fsm_refuse(...)	do { } while (0)
#define trace_cm_upcall(...)	do { } while (0)
#define trace_cm_report(...)	do { } while (0)

#define FAKE_QPN 7

enum fake_context { IN_PROCESS, IN_SOFTIRQ, IN_HARDIRQ, UNDER_LOCK };

/* Events of the provider. */
enum fake_event { FAKE_NO_EVENT, FAKE_REPLY, FAKE_ESTABLISHED, FAKE_PEER_CLOSE, FAKE_CLOSE };

/* There is a second device, added before the first and on the same interface. */
static bool fake_two_devices;

/* The devices have RoCE. */
static bool fake_roce;

static struct {
	struct ib_device device, other;
	struct ib_port_data port_data[2];
	struct ib_port_data *ports_of_other;	/* if they differ */
	struct ib_gid_attr gid_attr;
	/* A net device above that of the port, or NULL; the address of both. */
	struct net_device *upper;
	struct in_device in_dev;
	struct in_ifaddr ifa;
	struct inet6_dev *in6_dev;	/* the IPv6 addresses of the port */
	unsigned int ipv6_reads;	/* how often these were read */
	/* Another namespace has the address on the card, too; that of the device on a bridge. */
	bool addr_in_other_net, addr_on_bridge, addr_gone;
	unsigned int addr_looks;
	struct ib_qp qp;
	struct cm_dev *cm_dev, *other_dev;
	/* The QP as an object of a process; resource tracking does not have it. */
	struct ib_uobject uobject;
	struct ib_uverbs_file ufile;
	bool untracked;
	int entry_refs;
	/* Its destroy has begun; it was freed; it was used after that. */
	bool qp_destroying, qp_freed, qp_used_after_free;
	int qp_destroyed;		/* return value of the destroy */
	bool requests_held;
	bool qp_not_found;		/* by a connect or an accept; siw warns */
	/* The function that the first thread at a named point runs. */
	const char *point;
	void (*at_point)(void);
	/* cm_remove_one() waits; had users then; has returned; the device was used after that. */
	bool removal_waits, removal_has_users, removed, used_after_removal;
	enum fake_context context;
	/* The connection, and the listener of each device. */
	struct iw_cm_id *conn, *listener, *other_listener, *mapped_listener;
	unsigned int listens;		/* number of listeners */
	unsigned int listen_calls;
	bool open;			/* the connection is established: its last event is CLOSE */
	int next_error;			/* return value of the next call */
	enum fake_event in_call;	/* event inside the next call */
	int in_call_status;
	/* Counts of our calls. */
	atomic_t qp_refs;
	unsigned int rejects, closes, aborts, cancels, qp_lookups;
	bool can_cancel;		/* a pending connect ends when its QP goes to ERR */
	/* Return value of each listen on the two devices. */
	int listen_error, other_listen_error, mapped_listen_error;
	bool other_in_other_netns;	/* the other device is in another namespace */
	unsigned int warnings;		/* lines in the kernel log */
	kuid_t listen_uid;		/* the user whose quota has the last listen */
	const struct net *listen_net;	/* the namespace in which siw makes its socket then */
	/* The provider binds sockets in the host's TCP, as siw does. */
	bool has_sockets;
	struct socket *sock;
	/* An address lookup. */
	bool route_known;		/* the next lookup finds a route at once */
	bool route_has_neighbour;	/* it is to another machine */
	u8 neighbour_state;		/* NUD_*; 0: there is no entry */
	int route_refs, neighbour_refs;
	void (*lookup_done)(int status, struct sockaddr *src, struct rdma_dev_addr *addr,
			    void *context);
	void *lookup;
	unsigned int lookups_cancelled;	/* number of waits for the end of a lookup */
} fake;

/*
 * Charges that sleep above memory.high of their cgroup, in a worker that serves others, too. The
 * test itself is the process that calls.
 */
static unsigned int fake_sleeping_charges;

static bool fake_others_wait(void)
{
	return current->flags & PF_WQ_WORKER;
}

void t3_race_point(const char *name)
{
	if (!fake.point || strcmp(fake.point, name))
		return;
	fake.point = NULL;
	fake.at_point();
}

/* --- its events ----------------------------------------------------------- */

struct fake_upcall {
	struct iw_cm_id *to;
	struct iw_cm_event iw_event;
	int ret;
	struct irq_work irq_work;
	struct tasklet_struct tasklet;
	struct completion done;
};

/* A lock of the provider, which it also takes in softirqs. */
static DEFINE_SPINLOCK(fake_lock);

static void fake_upcall_now(struct fake_upcall *up)
{
	up->ret = up->to->event_handler(up->to, &up->iw_event);
	complete(&up->done);
}

static void fake_upcall_softirq(struct tasklet_struct *tasklet)
{
	fake_upcall_now(container_of(tasklet, struct fake_upcall, tasklet));
}

static void fake_upcall_hardirq(struct irq_work *work)
{
	fake_upcall_now(container_of(work, struct fake_upcall, irq_work));
}

/* Runs an upcall in the context of the test, and waits for it. */
static int fake_upcall_in_context(struct iw_cm_id *to, const struct iw_cm_event *iw_event)
{
	struct fake_upcall up = { .to = to, .iw_event = *iw_event };

	init_completion(&up.done);
	switch (fake.context) {
	case IN_PROCESS:
		/* A task, but nothing may sleep. */
		non_block_start();
		fake_upcall_now(&up);
		non_block_end();
		break;
	case UNDER_LOCK:
		spin_lock(&fake_lock);
		fake_upcall_now(&up);
		spin_unlock(&fake_lock);
		break;
	case IN_SOFTIRQ:
		tasklet_setup(&up.tasklet, fake_upcall_softirq);
		tasklet_schedule(&up.tasklet);
		wait_for_completion(&up.done);
		tasklet_kill(&up.tasklet);
		break;
	case IN_HARDIRQ:
		init_irq_work(&up.irq_work, fake_upcall_hardirq);
		irq_work_queue(&up.irq_work);
		wait_for_completion(&up.done);
		irq_work_sync(&up.irq_work);
		break;
	}
	return up.ret;
}

static struct sockaddr_storage fake_address(u32 addr, u16 port)
{
	struct sockaddr_storage storage = {};
	struct sockaddr_in *sin = (struct sockaddr_in *)&storage;

	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(addr);
	sin->sin_port = htons(port);
	return storage;
}

enum { FAKE_LOCAL = 0x0a000001, FAKE_REMOTE = 0x0a000002 };

/* Reports an event of the connection; the last one puts the reference. */
static int fake_report(enum fake_event event, int status)
{
	char data[] = "private";
	struct iw_cm_id *conn = fake.conn;
	struct iw_cm_event iw_event = { .status = status };
	bool last = false;
	int ret;

	switch (event) {
	case FAKE_REPLY:
		iw_event.event = IW_CM_EVENT_CONNECT_REPLY;
		iw_event.local_addr = fake_address(FAKE_LOCAL, 4000);
		iw_event.remote_addr = fake_address(FAKE_REMOTE, 7000);
		/* As with siw: the peer announced the length, and the data never came. */
		iw_event.private_data = status == -ECONNABORTED ? (void *)4 : data;
		iw_event.private_data_len = sizeof(data);
		iw_event.ird = 2;
		iw_event.ord = 3;
		fake.open = !status;
		last = status;
		break;
	case FAKE_ESTABLISHED:
		iw_event.event = IW_CM_EVENT_ESTABLISHED;
		fake.open = true;
		break;
	case FAKE_PEER_CLOSE:
		iw_event.event = IW_CM_EVENT_DISCONNECT;
		break;
	case FAKE_CLOSE:
		iw_event.event = IW_CM_EVENT_CLOSE;
		last = true;
		break;
	default:
		return 0;
	}
	if (last) {
		fake.conn = NULL;
		fake.open = false;
	}
	ret = fake_upcall_in_context(conn, &iw_event);
	if (last)
		conn->rem_ref(conn);
	return ret;
}

/* A connect request. Return: the return value of the upcall. */
static int __maybe_unused fake_request(void)
{
	char data[] = "hello";
	struct iw_cm_event iw_event = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr = fake_address(FAKE_LOCAL, 7000),
		.remote_addr = fake_address(FAKE_REMOTE, 4000),
		.private_data = data,
		.private_data_len = sizeof(data),
		.ird = 2,
		.ord = 3,
		.provider_data = &fake,
	};

	return fake_upcall_in_context(fake.listener, &iw_event);
}

/* --- its calls ------------------------------------------------------------ */

static struct ib_qp *fake_get_qp(struct ib_device *device, int qpn)
{
	return qpn == FAKE_QPN && !fake.qp_freed ? &fake.qp : NULL;
}

/* The manager's calls of it. */
static struct ib_qp *fake_iw_get_qp(struct ib_device *device, int qpn)
{
	fake.qp_lookups++;
	return fake_get_qp(device, qpn);
}

static void fake_add_ref(struct ib_qp *qp)
{
	fake.qp_used_after_free |= fake.qp_freed;
	atomic_inc(&fake.qp_refs);
}

static void fake_rem_ref(struct ib_qp *qp)
{
	fake.qp_used_after_free |= fake.qp_freed;
	if (atomic_dec_and_test(&fake.qp_refs) && fake.qp_destroying)
		fake.qp_freed = true;
}

/*
 * A destroy in another thread: the verbs file refuses it while the object is in use, and the
 * provider waits for the last reference.
 */
static void fake_destroy_qp(void)
{
	fake.qp_destroyed = atomic_cmpxchg(&fake.uobject.usecnt, 0, -1) ? -EBUSY : 0;
	if (fake.qp_destroyed)
		return;
	fake.qp_destroying = true;
	fake.qp_freed = !atomic_read(&fake.qp_refs);
}

/* The same by the close of the verbs file, which waits for commands that run. */
static void __maybe_unused fake_close_verbs(void)
{
	fake.qp_destroyed = -EBUSY;
	if (!down_write_trylock(&fake.ufile.hw_destroy_rwsem))
		return;
	fake_destroy_qp();
	up_write(&fake.ufile.hw_destroy_rwsem);
}

static int fake_bind_port(const struct iw_cm_id *iw, bool listens)
{
	const struct sockaddr_in *local = (const struct sockaddr_in *)&iw->m_local_addr;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = local->sin_port };
	int ret;

	if (!fake.has_sockets)
		return 0;
	ret = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &fake.sock);
	if (ret)
		return ret;
	sock_set_reuseaddr(fake.sock->sk);
	ret = t3_kernel_bind(fake.sock, (struct sockaddr *)&any, sizeof(any));
	if (!ret && listens)
		ret = kernel_listen(fake.sock, 1);
	if (ret) {
		sock_release(fake.sock);
		fake.sock = NULL;
	}
	return ret;
}

static void fake_release_port(void)
{
	if (fake.sock)
		sock_release(fake.sock);
	fake.sock = NULL;
}

/*
 * The common end of the calls: it fails if the test has set an error, and reports the event that
 * the test has set. It looks the QP up again by its number, as providers do.
 */
static int fake_complete_call(struct iw_cm_id *iw, u32 qpn)
{
	enum fake_event in_call = fake.in_call;
	int ret = fake.next_error;

	fake.next_error = 0;
	fake.in_call = FAKE_NO_EVENT;
	if (ret)
		return ret;
	if (!fake_get_qp(iw->device, qpn)) {
		fake.qp_not_found = true;
		return -EINVAL;
	}
	fake_add_ref(&fake.qp);
	iw->add_ref(iw);
	fake_rem_ref(&fake.qp);
	fake.conn = iw;
	fake_report(in_call, fake.in_call_status);
	return 0;
}

static int fake_connect(struct iw_cm_id *iw, struct iw_cm_conn_param *param)
{
	int ret = fake_bind_port(iw, false);

	if (ret)
		return ret;
	return fake_complete_call(iw, param->qpn);
}

static int fake_accept(struct iw_cm_id *iw, struct iw_cm_conn_param *param)
{
	return fake_complete_call(iw, param->qpn);
}

static int fake_reject(struct iw_cm_id *iw, const void *data, u8 len)
{
	fake.used_after_removal |= fake.removed;
	fake.rejects++;
	return 0;
}

/* The listener of the mapped port is another one, on the same device. */
static bool fake_is_mapped(const struct iw_cm_id *iw)
{
	return memcmp(&iw->local_addr, &iw->m_local_addr, sizeof(struct sockaddr_in));
}

static struct iw_cm_id **fake_listener_of(const struct iw_cm_id *iw)
{
	if (fake_is_mapped(iw))
		return &fake.mapped_listener;
	return iw->device == &fake.other ? &fake.other_listener : &fake.listener;
}

static int fake_create_listen(struct iw_cm_id *iw, int backlog)
{
	int ret = fake.next_error;

	fake.listen_calls++;
	fake.listen_uid = current_uid();
	fake.listen_net = current->nsproxy->net_ns;
#ifdef CONFIG_MEMCG
	fake_sleeping_charges += fake_others_wait() && current->active_memcg;
#endif
	fake.next_error = 0;
	if (!ret && fake_is_mapped(iw))
		ret = fake.mapped_listen_error;
	else if (!ret)
		ret = iw->device == &fake.other ? fake.other_listen_error : fake.listen_error;
	if (!ret)
		ret = fake_bind_port(iw, true);
	if (ret)
		return ret;
	iw->add_ref(iw);
	*fake_listener_of(iw) = iw;
	fake.listens++;
	return 0;
}

static int fake_destroy_listen(struct iw_cm_id *iw)
{
	*fake_listener_of(iw) = NULL;
	fake.listens--;
	fake_release_port();
	iw->rem_ref(iw);
	return 0;
}

/* An abort ends the connection at once; a graceful close when the test reports CLOSE. */
static int fake_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask)
{
	enum fake_event in_call = fake.in_call;

	fake.qp_used_after_free |= fake.qp_freed;
	if (!fake.open && attr->qp_state == IB_QPS_ERR) {
		fake.cancels++;
		if (fake.can_cancel && fake.conn)
			fake_report(FAKE_REPLY, -ECONNRESET);
		return 0;
	}
	if (attr->qp_state == IB_QPS_ERR)
		fake.aborts++;
	else
		fake.closes++;
	if (!fake.open)
		return -EINVAL;
	fake.in_call = FAKE_NO_EVENT;
	if (attr->qp_state == IB_QPS_ERR)
		fake_report(FAKE_CLOSE, -ECONNRESET);
	else
		fake_report(in_call, 0);
	return 0;
}

/* --- ib_core -------------------------------------------------------------- */

static int fake_translate_ip(const struct sockaddr *addr, struct rdma_dev_addr *dev_addr)
{
	dev_addr->bound_dev_if = init_net.loopback_dev->ifindex;
	return 0;
}

static int fake_resolve_ip(struct sockaddr *src, const struct sockaddr *dst,
			   struct rdma_dev_addr *addr, unsigned long timeout_ms,
			   void (*lookup_done)(int status, struct sockaddr *src,
					       struct rdma_dev_addr *addr, void *context),
			   bool by_gid, void *context)
{
	int ret = fake.next_error;

	fake.next_error = 0;
	if (ret)
		return ret;
	fake.lookup_done = lookup_done;
	fake.lookup = context;
	return 0;
}

/*
 * A route to an address of this machine, which needs no wait, or to a neighbour; none unless the
 * test has one.
 */
static struct rtable *fake_route(struct net *net, struct flowi4 *flow)
{
	static struct net_device interface = { .addr_len = ETH_ALEN };
	static u32 metrics[RTAX_MAX];
	static struct rtable rt;

	if (!fake.route_known)
		return ERR_PTR(-ENETUNREACH);
	fake.route_known = false;
	fake.route_refs++;
	dev_net_set(&interface, &init_net);
	rt.dst.dev = fake.route_has_neighbour ? &interface : init_net.loopback_dev;
	rt.dst._metrics = (unsigned long)metrics;
	flow->saddr = htonl(FAKE_LOCAL);
	return &rt;
}

static void fake_put_route(struct rtable *rt)
{
	fake.route_refs--;
}

static struct neighbour *fake_neighbour(const struct dst_entry *dst, const void *addr)
{
	static struct neighbour neighbour;

	if (!fake.neighbour_state)
		return NULL;
	fake.neighbour_refs++;
	seqlock_init(&neighbour.ha_lock);
	memset(neighbour.ha, 2, ETH_ALEN);
	neighbour.nud_state = fake.neighbour_state;
	return &neighbour;
}

static void fake_put_neighbour(struct neighbour *neighbour)
{
	fake.neighbour_refs--;
}

/* References on memory cgroups. */
static atomic_t fake_memcg_refs;

static struct mem_cgroup *fake_memcg_of(struct mm_struct *mm)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(mm);

	if (memcg)
		atomic_inc(&fake_memcg_refs);
	return memcg;
}

static void __maybe_unused fake_hold_css(struct cgroup_subsys_state *css)
{
	css_get(css);
	atomic_inc(&fake_memcg_refs);
}

static void fake_put_memcg(struct mem_cgroup *memcg)
{
	if (memcg)
		atomic_dec(&fake_memcg_refs);
	mem_cgroup_put(memcg);
}

static void fake_addr_cancel(struct rdma_dev_addr *addr)
{
	fake.lookups_cancelled++;
	fake.lookup = NULL;
}

/* Completes a lookup. */
static void __maybe_unused fake_lookup_done(int status)
{
	struct cm_id *id = fake.lookup;
	struct sockaddr_storage src = fake_address(FAKE_LOCAL, cm_addr_port(cm_src(id)));

	fake_translate_ip(NULL, &id->base.id.route.addr.dev_addr);
	fake.lookup = NULL;
	fake.lookup_done(status, (struct sockaddr *)&src, &id->base.id.route.addr.dev_addr, id);
}

static struct net_device *fake_upper(void)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "the net device may be freed");
	return fake.upper;
}

/* The interface above the port is a VLAN on it. */
static struct net_device *fake_vlan_below(const struct net_device *ndev)
{
	return ndev == fake.upper ?
	       rcu_dereference(fake.port_data[1].netdev) : NULL;
}

static struct in_device *fake_addrs_of(const struct net_device *ndev)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "the addresses may be freed");
	if (net_eq(dev_net(ndev), &init_net) ? fake.addr_gone : !fake.addr_in_other_net)
		return NULL;
	fake.ifa.ifa_local = htonl(FAKE_LOCAL);
	RCU_INIT_POINTER(fake.in_dev.ifa_list, &fake.ifa);
	return &fake.in_dev;
}

static struct inet6_dev *fake_addrs6_of(const struct net_device *ndev)
{
	fake.ipv6_reads++;
	return fake.in6_dev;
}

static bool fake_has_ipv4(const struct net_device *ndev, __be32 addr)
{
	return ndev && fake_addrs_of(ndev) && addr == fake.ifa.ifa_local;
}

/* Of the port, and of the interface above it. */
static struct net_device *fake_ip_dev(struct net *net, __be32 addr)
{
	struct net_device *port = rcu_dereference(fake.port_data[1].netdev);

	fake.addr_looks++;
	if (fake.addr_on_bridge && net_eq(net, read_pnet(&fake.device.coredev.rdma_net)))
		return init_net.loopback_dev;
	if (port && net_eq(net, dev_net(port)) && fake_has_ipv4(port, addr))
		return port;
	if (fake.upper && net_eq(net, dev_net(fake.upper)) && fake_has_ipv4(fake.upper, addr))
		return fake.upper;
	return NULL;
}

static const struct ib_gid_attr *fake_find_gid(struct ib_device *device, const union ib_gid *gid,
					       enum ib_gid_type type, u32 port,
					       struct net_device *ndev)
{
	if (fake_ib.no_gid || type != IB_GID_TYPE_ROCE_UDP_ENCAP)
		return ERR_PTR(-ENOENT);
	fake_ib.gid_refs++;
	fake.gid_attr.gid_type = type;
	return &fake.gid_attr;
}

static struct net_device *fake_gid_ndev(const struct ib_gid_attr *attr)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "the net device may be freed");
	return init_net.loopback_dev;
}

static bool fake_access_netns(const struct ib_device *device, const struct net *net)
{
	return !fake.other_in_other_netns || device != &fake.other;
}

static struct rdma_restrack_entry *fake_entry(struct ib_device *device,
					      enum rdma_restrack_type type, u32 id)
{
	if (fake.untracked || fake.qp_freed || id != FAKE_QPN)
		return ERR_PTR(-ENOENT);
	fake.entry_refs++;
	return &fake.qp.res;
}

static int fake_put_entry(struct rdma_restrack_entry *entry)
{
	fake.entry_refs--;
	return 0;
}

#undef ibdev_warn_ratelimited
#define ibdev_warn(device, ...) \
	do { no_printk(__VA_ARGS__); fake.warnings++; } while (0)
#define ibdev_warn_ratelimited		ibdev_warn
#define rdma_restrack_get_byid		fake_entry
#define rdma_restrack_put		fake_put_entry
#define ib_modify_qp			fake_modify_qp
#define rdma_translate_ip		fake_translate_ip
#define rdma_resolve_ip			fake_resolve_ip
#define rdma_addr_cancel		fake_addr_cancel
#define ip_route_output_key		fake_route
#undef ip_rt_put
#define ip_rt_put			fake_put_route
#define dst_neigh_lookup		fake_neighbour
#define neigh_release			fake_put_neighbour
#define get_mem_cgroup_from_mm		fake_memcg_of
#define css_get				fake_hold_css
#define mem_cgroup_put			fake_put_memcg
#define t3_has_vlans(ndev)		true
#define __vlan_find_dev_deep_rcu(ndev, proto, id)	((id) == 5 ? fake_upper() : NULL)
#define t3_vlan_below			fake_vlan_below
#define __in_dev_get_rcu		fake_addrs_of
#define __in6_dev_get			fake_addrs6_of
#define t3_netdev_find_ipv4(ndev, addr, left)	((void)(left), fake_has_ipv4(ndev, addr))
#define __ip_dev_find(net, addr, hold)	fake_ip_dev(net, addr)
#define rdma_read_gid_attr_ndev_rcu	fake_gid_ndev
#define rdma_dev_access_netns		fake_access_netns
#define ib_set_client_data(dev, client, data) \
	(*((dev) == &fake.other ? &fake.other_dev : &fake.cm_dev) = (data))
#ifndef FAKE_WITH_LOAD
#define ib_register_client(client)	((void)(client), 0)
#define ib_unregister_client(client)	((void)(client))
#endif
#undef EXPORT_SYMBOL
#define EXPORT_SYMBOL(symbol)
#undef MODULE_ALIAS_RDMA_CLIENT
#define MODULE_ALIAS_RDMA_CLIENT(name)

void cm_res_init(struct cm_base *base, const char *caller, const struct cm_base *parent)
{
}

/* Number of entries; whether one had no device, or outlived the removal of its device (C12). */
static struct {
	int entries;
	bool without_device, after_removal;
} fake_res;

void cm_res_add(struct cm_base *base)
{
	fake_res.without_device |= !base->id.device;
	base->res.valid = true;
	fake_res.entries++;
}

void cm_res_del(struct cm_base *base)
{
	if (!base->res.valid)
		return;
	fake_res.without_device |= !base->id.device;
	base->res.valid = false;
	fake_res.entries--;
}

enum cm_res_state cm_res_state(enum cm_state state)
{
	return CM_RES_IDLE;
}

/* Workers wait before they handle a connect request, and no upcall handles one. */
static DECLARE_WAIT_QUEUE_HEAD(fake_requests_wait);

static bool fake_try_read(struct rw_semaphore *sem)
{
	if (sem != &fake.ufile.hw_destroy_rwsem && READ_ONCE(fake.requests_held))
		wait_event(fake_requests_wait, !READ_ONCE(fake.requests_held));
	return down_read_trylock(sem);
}

static bool fake_preemptible(void)
{
	return preemptible() && !READ_ONCE(fake.requests_held);
}

#define down_read_trylock		fake_try_read
#undef preemptible
#define preemptible			fake_preemptible

/* The wait of a device removal. */
static void fake_wait_for_users(struct completion *gone)
{
	fake.removal_has_users = !completion_done(gone);
	WRITE_ONCE(fake.removal_waits, true);
	wait_for_completion(gone);
}

/* Allocations that no memory cgroup is charged for, but those of a struct cm_dev. */
static unsigned int fake_uncharged;

static inline void *fake_kzalloc(size_t size, gfp_t gfp)
{
	if (!(gfp & __GFP_ACCOUNT))
		fake_uncharged++;
	else if (fake_others_wait() && gfpflags_allow_blocking(gfp))
		fake_sleeping_charges++;
	return kzalloc(size, gfp);
}

#undef kzalloc
#define kzalloc				fake_kzalloc

#include "address.c"
#include "cm_fsm.c"
#include "device.c"
#include "port.c"
#include "ports.h"
#include "id.c"
#include "state.c"
#include "queue.c"
#include "listener.c"
#include "update.c"
#include "listen.c"
#include "multicast.c"
#include "bind.c"
#include "actions.c"
#include "event.c"
#include "create.c"
#include "qp_user.c"
#include "user.c"
#include "resolve.c"
#include "conn.c"
#define wait_for_completion		fake_wait_for_users
#include "client.c"
#undef wait_for_completion
#include "interfaces.c"
#include "iwpm_send.c"
#include "iwpm.c"
#include "iwpm_recv.c"
#include "qp.c"
#include "provider.c"
#include "roce_id.c"
#include "roce_qp.c"
#include "roce_event.c"
#include "roce_listen.c"
#include "roce_group.c"
#include "roce.c"

/* The number of all ids, with those that are being destroyed. */
static unsigned int __maybe_unused number_of_ids(void)
{
	struct list_head *item;
	unsigned int n = 0;

	list_for_each(item, &cm_ids)
		n++;
	return n;
}

/* --- addition and removal ------------------------------------------------- */

static void fake_add(struct kunit *test, struct ib_device *device)
{
	unsigned int uncharged = fake_uncharged;

	device->phys_port_cnt = 1;
	write_pnet(&device->coredev.rdma_net, &init_net);
	device->port_data = device == &fake.other && fake.ports_of_other ? fake.ports_of_other :
									  fake.port_data;
	device->ops.iw_connect = fake_connect;
	device->ops.iw_accept = fake_accept;
	device->ops.iw_reject = fake_reject;
	device->ops.iw_create_listen = fake_create_listen;
	device->ops.iw_destroy_listen = fake_destroy_listen;
	device->ops.iw_get_qp = fake_iw_get_qp;
	device->ops.iw_add_ref = fake_add_ref;
	device->ops.iw_rem_ref = fake_rem_ref;
	KUNIT_ASSERT_EQ(test, cm_add_one(device), 0);
	cm_cancel_updates();		/* the tests run them */
	fake_uncharged = uncharged;
}

/*
 * The devices' interface gets a link address of one byte and zeros; it has had zeros. The notifier
 * comes with rtnl held, and takes no mutex of all devices.
 */
static void __maybe_unused fake_link_address(u8 byte)
{
	struct netdev_notifier_info info = { .dev = init_net.loopback_dev };
	const u8 addr[ETH_ALEN] = { byte };

	mutex_lock(&cm_devices_mutex);
	rtnl_lock();
	dev_addr_mod(init_net.loopback_dev, 0, addr, sizeof(addr));
	cm_netdev_event(&cm_netdev_notifier, NETDEV_CHANGEADDR, &info);
	rtnl_unlock();
	mutex_unlock(&cm_devices_mutex);
	flush_delayed_work(&cm_link_addrs_update.work);
	flush_workqueue(cm_wq);
}

/* Makes the QP one of the current process. */
static void fake_assign_qp_to_process(void)
{
	init_rwsem(&fake.ufile.hw_destroy_rwsem);
	fake.uobject.ufile = &fake.ufile;
	fake.qp.uobject = (struct ib_uqp_object *)&fake.uobject;
	fake.qp.res.task = current;
}

static void __maybe_unused
fake_add_devices(struct kunit *test, enum fake_context context)
{
	memset(&fake, 0, sizeof(fake));
	memset(&fake_res, 0, sizeof(fake_res));
	fake_ib_reset();
	fake.context = context;
	fake.port_data[1].immutable.core_cap_flags =
		fake_roce ? RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP :
			    RDMA_CORE_CAP_PROT_IWARP | RDMA_CORE_CAP_IW_CM;
	RCU_INIT_POINTER(fake.port_data[1].netdev, init_net.loopback_dev);
	fake.qp.device = &fake.device;
	fake.qp.qp_num = FAKE_QPN;
	fake_assign_qp_to_process();
	if (fake_two_devices)
		fake_add(test, &fake.other);
	fake_add(test, &fake.device);
}

static void __maybe_unused release_requests(void)
{
	WRITE_ONCE(fake.requests_held, false);
	wake_up_all(&fake_requests_wait);
}

/* No event of the id is handled, and no connect request. */
static void __maybe_unused lock_handler(struct rdma_cm_id *id)
{
	mutex_lock(&to_cm_id(id)->handler_mutex);
	WRITE_ONCE(fake.requests_held, true);
}

static void __maybe_unused unlock_handler(struct rdma_cm_id *id)
{
	release_requests();
	cm_handler_release(to_cm_id(id));
}

/* Removes the device, and waits for its last user. */
static void __maybe_unused fake_remove_device(struct work_struct *work)
{
	cm_remove_one(&fake.device, fake.cm_dev);
	fake_res.after_removal |= fake_res.entries && !fake_two_devices;
	fake.removed = true;
}

#endif
