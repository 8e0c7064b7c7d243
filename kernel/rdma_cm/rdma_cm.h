/* SPDX-License-Identifier: GPL-2.0 */
/*
 * t3_rdma_cm: a connection manager.
 *
 *	consumer (ucm, for a process)
 *	   | calls				   ^ the handler of the id
 *	create.c, resolve.c, conn.c, multicast.c   |
 *	   | cm_fsm_apply()			   |
 *	state.c: one state table (cm_fsm.c); event.c: one queue and one worker per id
 *	   |					   ^ cm_event_post()
 *	transport.h: what a device does, by its kind
 *	   iwarp: with the iw_* functions of the device
 *	   roce: with the kernel's ib_cm
 *
 * These files are in the folder core. It calls the folder ucm by the handler of an id, and a
 * transport by struct cm_transport; they call it by its functions.
 *
 * Lifetime of an id
 *
 * A consumer creates a struct cm_id; a transport creates one for each connect request. References
 * (ref) are held by: the consumer, until t3_rdma_destroy_id(); the worker, while it is queued;
 * an iWARP provider, from a successful connect or accept to its last event; an ib_cm_id (RoCE),
 * until it is destroyed; an address lookup, while its callback runs. The last put frees the id, in
 * any context: cm_id_destroy() has done everything that sleeps by then.
 *
 * iWARP: if an id is destroyed before the provider has completed a connect or an accept, it stays
 * in CM_ST_DESTROYING. It has no port and no entry in `rdma resource`, and reports nothing. It
 * keeps its QP and its device until the provider has completed, and aborts a connection that is
 * established then. So a destroy does not wait for the network. The removal of a device does: it
 * waits for the last id on the device.
 *
 * RoCE: a destroy cancels the connect, and waits only for the callbacks of ib_cm that run (roce.c).
 *
 * struct cm_listener is the listener of an id on one device and address. The id's list and the
 * provider hold references on it; it holds one on the id.
 *
 * struct cm_dev is a device. Ids and listeners count in @users; the removal of the device
 * waits for the last of them and frees the struct.
 *
 * The id of a connect request takes its device reference in the provider's upcall, while the
 * cm_listener still holds one. From then on the removal waits for the request, too.
 *
 * Locks, in the order in which they are taken; docs/rdma_cm.md has the map of the module
 *
 *  id->handler_mutex	serializes the handling of events. A task that must not run at the
 *			same time as the handler takes it, too.
 *  id->requests	read: the handlers of connect requests to the id, under the
 *			handler_mutex of the new id, at the same time. Write: the end of the id.
 *  id->listen_mutex	id->listeners. Held across iw_create_listen and iw_destroy_listen;
 *			nothing that these calls may wait for takes it.
 *  rtnl		of the network; joins and leaves of multicast groups take it
 *  cm_devices_mutex	the list of devices, which lookups read under RCU; ids that listen.
 *  cm_port->lock	the owners of a port; before id->lock.
 *  cm_ports_lock		the table of ports.
 *  cm_ids_lock		list of all ids, for debugfs; before id->lock.
 *  dev->lock		ids and listeners of a device; before id->lock.
 *  cm_iwpm_lock		the port mapper; taken in upcalls
 *  cm_roce_lock		RoCE: the table of listeners
 *  id->lock		see struct cm_id. Taken in upcalls, so in any context; the innermost
 *			lock.
 *
 * Only listen_mutex and handler_mutex are held across a call into the provider or ib_cm:
 * handler_mutex by a task that handles an event or destroys an id, and by a connect over RoCE. Any
 * other call of the consumer takes no lock of its own around that call (a command holds
 * ctx->mutex).
 *
 * Upcalls of an iWARP provider take id->lock, and handler_mutex if it is free. They come inside our
 * calls, from softirq, and in any order, so they wait for nothing. Callbacks of ib_cm come from its
 * workers, and may sleep. They, too, only try handler_mutex, as our workers do: the task that holds
 * it queues the worker when it unlocks (cm_handler_release()).
 *
 * Who handles an event
 *
 * The handler (ucm_handler()) only queues. So events are handled in the context that posts them,
 * which saves a context switch, unless another task holds handler_mutex, the event needs to sleep,
 * the caller holds a spinlock, or others wait for the caller, as for the callback of a lookup. The
 * worker does what remains (cm_id->deferred). A connect request is an event of the new id, so that
 * several are handled at the same time.
 */
#ifndef T3_RDMA_CM_H
#define T3_RDMA_CM_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/socket.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#include <t3_context.h>

#include "cm_fsm.h"
#include "restrack.h"
#include "transport.h"

struct cm_id;
struct cm_user;
struct cm_mapping;
struct cm_port;
struct cm_roce;
struct ib_client_nl_info;
struct ib_cm_id;
struct socket;

/* Named here for the members that they protect. Only the first is used in several files. */
extern struct mutex cm_devices_mutex;
extern spinlock_t cm_ids_lock;
extern spinlock_t cm_iwpm_lock;
extern spinlock_t cm_roce_lock;
int cm_roce_init(void);
void cm_roce_exit(void);

/**
 * struct cm_dev - a device that can have connections
 * @device: ib_core's device
 * @transport: what the device does for a connection
 * @item: in the list of devices
 * @seq: increases with each device, so that a walk of the list can drop the lock
 * @family_warned: the log has a line that the device does not support an address family
 * @users: ids and listeners that point here, and one reference of the ib_client
 * @gone: completed by the last of @users
 * @walk: held by a walk of @ids
 * @lock: the members below; before id->lock
 * @removed: the removal of the device has begun
 * @ids: ids on the device; the walk moves those that it has visited to the end
 * @visited: the value that these have in their @visited
 * @listeners: listeners on the device
 * @map_cancelled: the removal has begun: no thread waits for the port mapper any more
 */
struct cm_dev {
	struct ib_device *device;
	const struct cm_transport *transport;
	struct list_head item;		/* changed under cm_devices_mutex */
	u64 seq __guarded_by(&cm_devices_mutex);
	bool family_warned __guarded_by(&cm_devices_mutex);
	refcount_t users;
	struct completion gone;
	struct mutex walk;		/* a walk of ids */
	spinlock_t lock;		/* ids and listeners */
	bool removed __guarded_by(&lock);
	struct list_head ids __guarded_by(&lock);
	bool visited __guarded_by(&lock);
	struct list_head listeners __guarded_by(&lock);
	bool map_cancelled __guarded_by(&cm_iwpm_lock);
};

/* The device uses sockets of the host's TCP, as siw does. */
static inline bool cm_dev_has_sockets(const struct ib_device *device)
{
	return device->iw_driver_flags & IW_F_NO_PORT_MAP;
}

static inline bool cm_dev_removed(const struct cm_dev *dev)
{
	return context_unsafe(READ_ONCE(dev->removed)); /* it never becomes false again */
}

/* An address and port of a listener, as the provider sees it. */
struct cm_iw_bound {
	struct iw_cm_id iw;
	struct cm_listener *listener;
};

/**
 * struct cm_iw_listener - what an iWARP device needs of a listener, which has allocated this
 * @own: its port
 * @map_work: asks the port mapper
 * @mapping: the mapped port, or NULL
 * @mapped: that port, if it is another one
 */
struct cm_iw_listener {
	struct cm_iw_bound own;
	struct work_struct map_work;
	struct cm_mapping *mapping;	/* id->listen_mutex */
	struct cm_iw_bound mapped;
};

/**
 * struct cm_roce_key - what the listeners have in common among which a request chooses
 * @device: the device
 * @net: network namespace of the id
 * @service_id: port space and port
 */
struct cm_roce_key {
	struct ib_device *device;
	struct net *net;
	__be64 service_id;
};

/**
 * struct cm_update - an update of what depends on interfaces and addresses; update.c
 * @work: calls @update
 * @update: the function
 * @took: how long it took last; jiffies
 */
struct cm_update {
	struct delayed_work work;
	void (*update)(void);
	unsigned long took;		/* read at any time */
};

/**
 * struct cm_listener - an id that listens, on one device and address
 * @ref: references, of @id's list and of the provider
 * @id: the id
 * @dev: the device
 * @addr: the address: that of the id, or one of the device
 * @res: an entry in `rdma resource`, if the id is on no device and so has none of its own
 * @iw: the provider's part, if the device has iWARP
 * @ib: ib_cm's part, if the device has RoCE
 * @key: RoCE: of the table of listeners
 * @item: in that table
 * @id_item: in @id's list of listeners
 * @dev_item: in @dev's list of listeners
 * @map_cancelled: for the port mapper: the listener has ended; changed under @id->listen_mutex, too
 */
struct cm_listener {
	struct kref ref;
	struct cm_id *id;
	struct cm_dev *dev;
	struct sockaddr_in6 addr;
	struct cm_base *res;
	struct cm_iw_listener *iw;
	struct ib_cm_id *ib;
	struct cm_roce_key key;		/* constant while in the table */
	struct rhlist_head item;	/* under cm_roce_lock */
	struct list_head id_item;	/* id->listen_mutex */
	struct list_head dev_item;	/* dev->lock */
	bool map_cancelled __guarded_by(&cm_iwpm_lock);
};

/*
 * Slots for pending events. An id has one slot per kind of event, so queueing allocates no memory.
 * An event is refused only if the last one of its kind is still queued.
 */
enum cm_slot {
	CM_SLOT_ADDR,
	CM_SLOT_ROUTE,
	CM_SLOT_REQUEST,
	CM_SLOT_OPEN,		/* CONNECT_REPLY, ESTABLISHED */
	CM_SLOT_PEER_CLOSE,
	CM_SLOT_CLOSE,		/* CLOSE; RoCE: REPLY_FAILED, too */
	CM_SLOT_TIMEWAIT,
	CM_SLOT_ADDR_CHANGE,
	CM_SLOT_REMOVE,
	CM_NUM_SLOTS
};

/**
 * struct cm_pending - a pending event: a slot of an id, or of a multicast group
 * @item: in the queue of an id, or empty
 * @status: result
 * @event: enum cm_event
 */
struct cm_pending {
	struct list_head item;
	int status;
	u8 event;
};

/**
 * enum cm_dispatch - where an event may be handled
 * @CM_DISPATCH_WORKER: by the worker
 * @CM_DISPATCH_MAY_SLEEP: inside cm_event_post(), and it may sleep
 * @CM_DISPATCH_ATOMIC: inside cm_event_post(), and nothing may sleep
 */
enum cm_dispatch {
	CM_DISPATCH_WORKER,
	CM_DISPATCH_MAY_SLEEP,
	CM_DISPATCH_ATOMIC
};

/**
 * struct cm_deferred - an event whose state change is done, with actions that are not
 * @actions: set of enum cm_action; 0: nothing is left to do
 * @event: the event
 * @group: its multicast group, or NULL
 * @status: its result
 */
struct cm_deferred {
	u16 actions;
	enum cm_event event;
	struct cm_group *group;
	int status;
};

/**
 * struct cm_peer_params - parameters of the peer's request or reply
 * @local: IP address of this end; of IPv4 or IPv6
 * @remote: IP address of the peer
 * @ird: inbound RDMA READ depth
 * @ord: outbound RDMA READ depth
 * @len: length of @data
 * @data: private data
 * @flow_control: RoCE, as all that follow: end-to-end flow control
 * @retry_count: retries of the peer
 * @rnr_retry_count: its retries while there is no receive buffer
 * @srq: its QP has a shared receive queue
 * @qpn: its QP
 * @qkey: Q_Key of its datagrams
 * @ece: enhanced connection establishment options
 */
struct cm_peer_params {
	struct sockaddr_in6 local;
	struct sockaddr_in6 remote;
	u8 ird;
	u8 ord;
	u8 len;
	u8 data[256];
	u8 flow_control;
	u8 retry_count;
	u8 rnr_retry_count;
	u8 srq;
	u32 qpn;
	u32 qkey;
	struct rdma_ucm_ece ece;
};

/**
 * struct cm_group - a multicast group that an id has joined
 * @item: in the id's list
 * @pending: memory of its event
 * @addr: its address
 * @context: of the consumer
 * @send_only: the id receives nothing
 * @ifindex: the interface on which the host has joined the IP group; 0: none. A lookup may give the
 *	id another one
 * @qkey: Q_Key of its datagrams
 * @ah: attributes of an address handle for the group
 */
struct cm_group {
	struct list_head item;		/* id->handler_mutex, as the members below @pending */
	struct cm_pending pending;
	struct sockaddr_storage addr;
	void *context;
	bool send_only;
	int ifindex;
	u32 qkey;
	struct rdma_ah_attr ah;
};

/**
 * struct cm_binding - the port of an id
 * @owned: the id is an owner of it, in a port space; NULL if the id has no port
 * @item: in its list of owners
 * @reserved: a socket on the same port of the host's TCP, or NULL
 * @ps: port space
 * @port: the port; without @owned, the last one
 * @reuse: the id shares its address with others that allow it, too; read by calls for others
 * @afonly: the wildcard address of IPv6 takes no IPv4 peers
 * @afonly_set: the consumer has set @afonly
 * @reserve_late: a lookup has bound the id: cm_port_reserve() makes @reserved
 */
struct cm_binding {
	struct cm_port *owned;
	struct hlist_node item;		/* under owned->lock */
	struct socket *reserved;
	enum rdma_ucm_port_space ps;
	u16 port;
	bool reuse;
	bool afonly;
	bool afonly_set;
	bool reserve_late;
};

/**
 * struct cm_id - an id
 * @base: the public rdma_cm_id and its restrack entry; must come first
 * @ref: references
 * @number: for traces and debugfs
 * @memcg: the cgroup that the id is charged to; NULL without cgroups
 * @all_item: in the list of all ids
 * @handler_mutex: serializes the handling of events
 * @listener: of a connect request that is not reported yet; with a reference
 * @requests: held by the handlers of connect requests to the id
 * @in_upcall: the handler must not sleep. If it returns non-zero, the worker calls it again
 * @deferred: what the worker does before it takes an event off @queue
 * @lock: state, queue, QP, and the addresses of an id that has a port
 * @state: changed by cm_fsm_apply() only
 * @history: its last events; @refused counts events that found their slot full, too
 * @queue: pending events
 * @left: events wait until another task unlocks @handler_mutex, and queues the worker with the
 *	reference that this has
 * @slots: memory of pending events
 * @conn_qp: iWARP: the QP that the connection holds a reference on; qp.c
 * @qp_by_provider: @conn_qp is not set yet: cm_qp_get_late() sets it inside the provider's call
 * @qp_refused: cm_qp_get_late() found that the process may not use the QP
 * @qp_tgid: the process that connects or accepts
 * @qp_cred: its credentials then
 * @work: the worker
 * @peer: parameters of the peer. Written by the upcall or lookup before its event is queued; read,
 *	under @handler_mutex, when the event is handled
 * @dev: the device, or NULL
 * @dev_item: in the device's list of ids
 * @visited: by the walk of that list that runs, or by the last one
 * @link_addr: the link address that the interface had when this was looked at last
 * @bind: the port
 * @iw: the provider's part, if the device has iWARP, from the first connect or the request
 * @mapping: the mapped ports of a connection, or NULL; it ends with the id
 * @roce: what an id on a RoCE device has; or NULL
 * @ack_timeout: RoCE: as the QP attribute; 0: none
 * @ack_timeout_set: the consumer has set it
 * @ece: RoCE: enhanced connection establishment options for the peer
 * @qp_prepared: before connect the consumer queried the attributes of a QP: it gets ESTABLISHED,
 *	not CONNECT_RESPONSE
 * @res_late: a request that was handled in an upcall: its entry in `rdma resource` is not added yet
 * @addr_used: there was a lookup that waits
 * @lookup_waits: the lookup of the address has one of the user's places; see user.c
 * @tos: IP type of service
 * @tos_set: the consumer has set @tos
 * @bound_if: the interface that the id was bound to before a lookup, or 0
 * @listen_mutex: @listeners
 * @listen_begun: the caller of t3_rdma_listen() has been on all devices: workers may listen for it
 * @listen_change: counts listens and unlistens; a task that gives up the mutex compares it
 * @listen_from: the address to begin with, in the order of the device's
 * @listeners: one per device and address that the id listens on
 * @groups: multicast groups
 * @number_of_groups: how many
 * @listening: in the list of ids that listen
 * @listen_update: number of the last update of that list that has visited the id
 * @backlog: the backlog for the provider, and of the queue
 * @backlog_left: how many more requests the queue takes; cm_request_alloc(). Negative if requests
 *	of a listen that failed are still queued and @backlog is smaller now
 * @user: the user whose share the id has, as a request, a listener ...; see user.c
 * @is_request: a connect request has made the id
 * @listen_cred: credentials of the caller of t3_rdma_listen(); a device that is added later
 *	listens with them
 *
 * Where no lock is named, the call that may change the field in the current state is the only
 * one that does: the table admits one such call at a time.
 */
struct cm_id {
	struct cm_base base;
	struct kref ref;
	u32 number;			/* constant, as @memcg */
	struct mem_cgroup *memcg;
	struct list_head all_item __guarded_by(&cm_ids_lock);

	struct cm_id *listener;
	struct rw_semaphore requests;	/* after the handler_mutex of a request's id */
	struct mutex handler_mutex;	/* serializes events */
	bool in_upcall __guarded_by(&handler_mutex);
	struct cm_deferred deferred __guarded_by(&handler_mutex);

	spinlock_t lock;		/* innermost */
	enum cm_state state __guarded_by(&lock);
	struct t3_fsm_history history __guarded_by(&lock);
	struct list_head queue __guarded_by(&lock);
	bool left __guarded_by(&lock);
	int lookup_waits;		/* by xchg() */
	struct cm_pending slots[CM_NUM_SLOTS];	/* under @lock */
	struct ib_qp *conn_qp __guarded_by(&lock);
	bool qp_by_provider __guarded_by(&lock);
	bool qp_refused;		/* written inside the provider's call, read after it */
	bool is_request;		/* set once */
	struct pid *qp_tgid;		/* written before that call, as @qp_cred */
	const struct cred *qp_cred;
	struct work_struct work;
	struct cm_peer_params peer;	/* by the order of upcall, queue and handling */

	struct cm_dev *dev __guarded_by(&lock);	/* see cm_dev_of() */
	struct list_head dev_item;	/* dev->lock */
	bool visited;			/* dev->lock */
	u8 link_addr[ETH_ALEN];		/* dev->lock */
	struct cm_binding bind;

	struct iw_cm_id *iw;
	struct cm_mapping *mapping;
	struct cm_roce *roce;
	u8 ack_timeout;
	bool ack_timeout_set;
	struct rdma_ucm_ece ece;
	bool qp_prepared;
	bool res_late;
	bool addr_used;
	u8 tos;
	bool tos_set;
	int bound_if;

	struct mutex listen_mutex;	/* listen and its end */
	bool listen_begun;
	u16 listen_from __guarded_by(&listen_mutex);
	unsigned int listen_change __guarded_by(&listen_mutex);
	struct list_head listeners __guarded_by(&listen_mutex);
	struct list_head groups __guarded_by(&handler_mutex);
	unsigned int number_of_groups __guarded_by(&handler_mutex);
	struct list_head listening __guarded_by(&cm_devices_mutex);
	u64 listen_update __guarded_by(&cm_devices_mutex);
	int backlog;
	atomic_t backlog_left;
	const struct cred *listen_cred;	/* set once */
	struct cm_user *user;		/* set once */
};

/* One allocation of slabs, also with what other kernels add to the parts that are theirs. */
#if !defined(CONFIG_DEBUG_SPINLOCK) && !defined(CONFIG_DEBUG_LOCK_ALLOC)
static_assert(sizeof(struct cm_id) <= 2048);
#endif

static inline struct cm_id *to_cm_id(struct rdma_cm_id *id)
{
	return container_of(id, struct cm_id, base.id);
}

static inline struct sockaddr *cm_src(struct cm_id *id)
{
	return (struct sockaddr *)&id->base.id.route.addr.src_addr;
}

static inline struct sockaddr *cm_dst(struct cm_id *id)
{
	return (struct sockaddr *)&id->base.id.route.addr.dst_addr;
}

/* The device of an id, for the call that may change it: others need id->lock. */
static inline struct cm_dev *cm_dev_of(const struct cm_id *id)
{
	return context_unsafe(id->dev);
}

/* The transport of an id that has a device. */
static inline const struct cm_transport *cm_transport(const struct cm_id *id)
{
	return cm_dev_of(id)->transport;
}

static inline struct net *cm_net(struct cm_id *id)
{
	return id->base.id.route.addr.dev_addr.net;
}

/* For the commands on the id of a process, which may sleep, and are serialized with its destroy. */
static inline void cm_res_add_late(struct cm_id *id)
{
	if (!id->res_late)
		return;
	id->res_late = false;
	cm_res_add(&id->base);
}

/* id.c */
struct cm_id *cm_id_alloc(struct net *net, rdma_cm_event_handler handler, void *context,
			  enum rdma_ucm_port_space ps, enum ib_qp_type qp_type,
			  struct mem_cgroup *memcg, gfp_t gfp);
void *cm_zalloc(struct mem_cgroup *memcg, size_t size, gfp_t gfp);
void *cm_zalloc_nowait(struct mem_cgroup *memcg, size_t size);
void cm_id_get(struct cm_id *id);
void cm_id_put(struct cm_id *id);
struct cm_id *cm_ids_next(struct cm_id *after);

/* state.c */
int cm_fsm_apply(struct cm_id *id, enum cm_event event, int status,
		 const struct t3_transition **transition);
enum cm_state cm_state(struct cm_id *id);
bool cm_past_connect(enum cm_state state);

/* actions.c */
void cm_run_actions(struct cm_id *id, u16 actions);
int cm_fsm_run(struct cm_id *id, enum cm_event event, int status);
void cm_id_destroy(struct cm_id *id) __must_hold(&id->handler_mutex);

/* create.c */
struct rdma_cm_id *t3_rdma_create_id(rdma_cm_event_handler handler, void *context,
				     enum rdma_ucm_port_space ps, enum ib_qp_type qp_type);
void t3_rdma_destroy_id(struct rdma_cm_id *id);

/* resolve.c */
int t3_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			 const struct sockaddr *dst, unsigned long timeout_ms);
int t3_rdma_resolve_route(struct rdma_cm_id *id, unsigned long timeout_ms);

/* conn.c */
int t3_rdma_listen(struct rdma_cm_id *id, int backlog);
int t3_rdma_connect(struct rdma_cm_id *id, const struct rdma_conn_param *param,
		    const struct rdma_ucm_ece *ece);
int t3_rdma_accept(struct rdma_cm_id *id, const struct rdma_conn_param *param,
		   const struct rdma_ucm_ece *ece);
int t3_rdma_establish(struct rdma_cm_id *id);
int t3_rdma_reject(struct rdma_cm_id *id, const void *private_data, u8 len, u8 reason);
int t3_rdma_disconnect(struct rdma_cm_id *id);
int t3_rdma_init_qp_attr(struct rdma_cm_id *id, struct ib_qp_attr *attr, int *mask);
int t3_rdma_notify(struct rdma_cm_id *id, enum ib_event_type event);
int t3_rdma_set_service_type(struct rdma_cm_id *id, int tos);
int t3_rdma_set_reuseaddr(struct rdma_cm_id *id, int reuse);
int t3_rdma_set_afonly(struct rdma_cm_id *id, int afonly);
int t3_rdma_set_ack_timeout(struct rdma_cm_id *id, int timeout);

/* queue.c */
int cm_event_add(struct cm_id *id, struct cm_pending *pending, enum cm_event event, int status,
		 const struct iw_cm_event *iw);
struct cm_pending *cm_event_dequeue(struct cm_id *id, struct cm_pending *pending, bool may_sleep);
bool cm_is_conn_event(enum cm_event event);
void cm_queue_work(struct cm_id *id);
void cm_group_event_post(struct cm_id *id, struct cm_group *group);
void cm_group_event_cancel(struct cm_id *id, struct cm_group *group);
bool cm_handler_try(struct cm_id *id) t3_cond_acquires(&id->handler_mutex);
void cm_handler_release(struct cm_id *id) t3_releases(&id->handler_mutex);
void cm_handler_lock(struct cm_id *id) t3_acquires(&id->handler_mutex);
int cm_events_init(void);
void cm_events_exit(void);

/* event.c */
int cm_event_post(struct cm_id *id, enum cm_slot slot, enum cm_event event, int status,
		  enum cm_dispatch dispatch);
int cm_reply_post(struct cm_id *id, enum cm_event event, const struct iw_cm_event *iw);
int cm_request_post(struct cm_id *listener, struct cm_id *id, const struct iw_cm_event *iw);
struct cm_id *cm_request_alloc(struct cm_listener *l, enum rdma_ucm_port_space ps,
			       enum ib_qp_type qp_type);
void cm_request_free(struct cm_listener *l, struct cm_id *id);
void cm_queue_init(struct cm_id *id);

/* address.c */
bool cm_addr_any(const struct sockaddr *addr);
bool cm_addr_wildcard(const struct sockaddr *addr);
bool cm_addr_same(const struct sockaddr *a, const struct sockaddr *b);
u16 cm_addr_port(const struct sockaddr *addr);
void cm_addr_set_port(struct sockaddr *addr, u16 port);
void cm_addr_copy(struct sockaddr *to, const struct sockaddr *from);

/* bind.c */
int t3_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int cm_bind(struct cm_id *id, const struct sockaddr *addr, const struct sockaddr *dst);
int cm_bind_any(struct cm_id *id, const struct sockaddr *dst);
enum cm_event cm_addr_result(struct cm_id *id, int *status);

/* qp_user.c */
void cm_qp_set_user(struct cm_id *id);
bool cm_qp_permitted(const struct cm_id *id, const struct ib_qp *qp);

/* user.c */

/* Of what a user has a limited number. */
enum cm_share {
	CM_SHARE_REQUESTS,	/* ids that connect requests have made */
	CM_SHARE_LISTENERS,	/* ids that listen */
	CM_SHARE_GROUPS,	/* multicast groups */
	CM_NUM_SHARES
};

unsigned long cm_user_number(const struct cred *cred, const struct net *net);
int cm_user_set(struct cm_id *id);
bool cm_user_take(struct cm_user *user, enum cm_share share);
void cm_user_give(struct cm_user *user, enum cm_share share);
bool cm_user_add_request(struct cm_user *user);
void cm_user_remove_request(struct cm_user *user);
void cm_user_release(struct cm_id *id);
int cm_lookup_begin(struct cm_id *id);
void cm_lookup_end(struct cm_id *id);
void cm_addr_cancel(struct cm_id *id);

/* device.c */
int cm_dev_attach(struct cm_id *id);
void cm_dev_assign(struct cm_id *id, struct cm_dev *dev);
int cm_dev_link(struct cm_id *id);
bool cm_dev_is_removed(const struct cm_id *id);
bool cm_dev_exists_for(struct cm_id *id);
bool cm_dev_takes(const struct cm_dev *dev, const struct cm_id *id);
bool cm_dev_is_for(const struct cm_dev *dev, struct cm_id *id);
void cm_dev_list_del(struct cm_dev *dev, struct list_head *item) __must_hold(&dev->lock);
void cm_dev_unlink(struct cm_id *id);
void cm_dev_detach(struct cm_id *id);
void cm_dev_put(struct cm_dev *dev);
bool cm_dev_link_listener(struct cm_listener *l);
void cm_dev_unlink_listener(struct cm_listener *l);
void cm_dev_list(struct cm_dev *dev);
void cm_dev_unlist(struct cm_dev *dev);
struct cm_dev *cm_next_device(u64 *at);
void cm_dev_visit_ids(struct cm_dev *dev, void (*visit)(struct cm_id *id));

/* client.c */
int cm_devices_init(int (*nl_info)(struct ib_client_nl_info *res));
void cm_devices_exit(void);

/* port.c */
int cm_port_assign(struct cm_id *id);
int cm_port_reserve(struct cm_id *id, bool any);
void cm_port_release(struct cm_id *id);
int cm_port_end_reuse(struct cm_id *id);
void cm_port_set_addr(struct cm_id *id, struct sockaddr *to, const struct sockaddr *from);
int cm_ports_init(void);
void cm_ports_exit(void);
void cm_port_release_tcp(struct cm_id *id, const struct ib_device *device);
void cm_port_share_tcp(struct cm_id *id, const struct ib_device *device, bool share);

/* listener.c */
int cm_listen_at(struct cm_id *id, struct cm_dev *dev, const struct sockaddr_in6 *addr)
	__must_hold(&id->listen_mutex);
void cm_unlisten_at(struct cm_listener *l);
int cm_listener_call(struct cm_listener *l, int (*listen)(struct cm_listener *l));
void cm_listener_get(struct cm_listener *l);
void cm_listener_put(struct cm_listener *l);

/* listen.c */
void cm_unlisten(struct cm_id *id, struct cm_dev *dev);
int cm_listen_start(struct cm_id *id);
void cm_listen_stop(struct cm_id *id);
void cm_listen_on_added(struct cm_dev *dev);
void cm_queue_listen_update(void);
void cm_cancel_listen_update(void);

/* update.c */
void cm_update_work(struct work_struct *work);
void cm_update_queue(struct cm_update *update);

/* multicast.c */
int t3_rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, u8 join_state,
			   void *context);
void cm_leave(struct cm_id *id, const struct sockaddr *addr, const void *context);
void cm_leave_all(struct cm_id *id) __must_hold(&id->handler_mutex);

/* debugfs.c */
void cm_debugfs_init(void);
void cm_debugfs_exit(void);

#endif
