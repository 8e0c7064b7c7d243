/* SPDX-License-Identifier: GPL-2.0 */
/*
 * t3_rdma_cm: a connection manager for iWARP devices.
 *
 *	consumer (ucm.c, or a kernel module)
 *	   | calls				   ^ events
 *	resolve.c, conn.c			   |
 *	   | cm_step()				   |
 *	id.c: one table (cm_fsm.c); event.c: one queue and one worker per id
 *	   |					   ^ cm_post()
 *	iw.c: the provider's iw_* calls, and what it calls back
 *
 * Life of an id
 *
 * struct cm_id is made by a consumer, or for a connect request by iw.c. It has
 * references (ref) of: its consumer, until t3_rdma_destroy_id(); its worker, while it
 * is queued; the provider, from a successful connect or accept to its last word;
 * an address lookup, while it calls back. The last one frees it, in any context:
 * whatever sleeps was done by then, in cm_id_end().
 *
 * An id that was destroyed while the provider still owes an answer is CM_DYING.
 * It has no port, no entry in `rdma resource` and tells nothing, but it holds its QP
 * and its device until the answer has come and been undone. So nobody ever waits for
 * the network, but a device that goes: its removal waits for the last id.
 *
 * struct cm_listener is an id's ear on one device. The id's list and the provider
 * hold references on it; it holds one on the id.
 *
 * struct cm_dev is a device. Ids and listeners count in users; it goes when
 * the device's removal has seen the last of them.
 *
 * A connect request is attached to the listener's device in the provider's upcall, where
 * the listener keeps the device alive, so the removal waits for it from then on.
 *
 * Locks, in the order in which they are taken; docs/rdma_cm.md has the map of the module
 *
 *  id->handler_mutex	an event is with the consumer. Held by whoever handles it;
 *			taken by whoever must not run beside that. A request
 *			is handled under the listener's and the new id's, in that order.
 *  id->listen_mutex	id->listeners. Held across iw_create_listen and iw_destroy_listen,
 *			and never taken by what these could wait for.
 *  cm_devices_mutex	devices, ids and listeners of each, ids that listen on all.
 *  cm_ports_mutex	the port spaces.
 *  id->lock		state, queue and slots, qp, counters, history. Taken in upcalls, that
 *			is in any context; nothing else is taken below it.
 *
 * Only listen_mutex and handler_mutex are held across a call into the provider, the
 * latter by who handles an event or ends an id. The provider's upcalls take id->lock,
 * and handler_mutex if it is free: they may come inside our calls, from softirq, in any
 * order, and wait for nothing.
 *
 * Who handles an event
 *
 * The worker, for ids of modules: their handlers may sleep and call what they like. The
 * handler of processes (ucm.c) only queues, so what happens to their ids is handled where
 * it happens, without the detour, as long as nobody else has the id, nothing needs
 * to sleep, and who comes with it holds no spinlock. What remains (cm_id->rest) is the
 * worker's. Connect requests are always the worker's.
 */
#ifndef T3_RDMA_CM_H
#define T3_RDMA_CM_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/mutex.h>
#include <linux/socket.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#include <t3_rdma_cm.h>

#include "cm_fsm.h"
#include "res.h"

struct cm_id;
struct socket;

/**
 * struct cm_dev - a device that has connections
 * @device: ib_core's
 * @users: ids and listeners that point here, and one for the client's own
 * @gone: completed by the last of @users
 * @seq: orders devices by age, for walks that let go of the lock
 * @family_warned: the log has that the device takes no IPv6
 */
struct cm_dev {
	struct ib_device *device;
	struct list_head item;
	u64 seq;
	bool family_warned;
	refcount_t users;
	struct completion gone;
	struct list_head ids;
	struct list_head listeners;
};

/**
 * struct cm_listener - an id that listens, on one device
 * @mirror: its entry in `rdma resource`, if the id itself, having no device, has none
 */
struct cm_listener {
	struct cm_mirror mirror;
	struct iw_cm_id iw;
	struct kref ref;
	struct cm_id *id;
	struct cm_dev *dev;
	struct list_head of_id;
	struct list_head of_dev;
};

/*
 * Places for what can wait in an id's queue. Each kind of event has its own in the
 * id, so that queueing needs no memory and cannot fail; an event whose place is
 * taken comes too often, and is refused.
 */
enum cm_slot {
	CM_SLOT_ADDR,
	CM_SLOT_ROUTE,
	CM_SLOT_REQUEST,	/* of the new id; waits in the listener's queue */
	CM_SLOT_OPEN,		/* CONNECT_REPLY, ESTABLISHED */
	CM_SLOT_PEER_CLOSE,
	CM_SLOT_CLOSE,
	CM_SLOT_REMOVE,
	CM_NUM_SLOTS
};

/**
 * struct cm_note - an event in a queue
 * @item: in the queue, or empty
 * @id: whom it is about
 */
struct cm_note {
	struct list_head item;
	struct cm_id *id;
	int status;
	u8 event;
};

/**
 * enum cm_where - where an event of a process's id may be handled
 * @CM_BY_WORKER: by the worker
 * @CM_IN_CALL: before cm_post() returns, and that may sleep
 * @CM_IN_UPCALL: before cm_post() returns, but nothing may sleep
 */
enum cm_where {
	CM_BY_WORKER,
	CM_IN_CALL,
	CM_IN_UPCALL
};

/**
 * struct cm_rest - an event whose step is done, and what is left to do of it
 * @actions: set of enum cm_action; 0: nothing
 */
struct cm_rest {
	u16 actions;
	enum cm_event event;
	int status;
};

/**
 * struct cm_peer_says - what the other side sent with a request or a reply
 */
struct cm_peer_says {
	struct sockaddr_storage local;
	struct sockaddr_storage remote;
	u8 ird;
	u8 ord;
	u8 len;
	u8 data[256];
};

#define CM_HISTORY 16

/**
 * struct cm_moment - a step in the history of an id
 */
struct cm_moment {
	u64 ns;
	int status;
	u8 event;
	u8 from;
	u8 to;
	bool legal;
};

/**
 * struct cm_binding - an id's place in the port space
 * @item: in the port's list of owners; unhashed if the id has no port
 */
struct cm_binding {
	struct hlist_node item;
	struct socket *reserved;
	enum rdma_ucm_port_space ps;
	u16 port;
	bool reuse;
	bool afonly;
	bool afonly_set;
};

/**
 * struct cm_id - an id
 * @mirror: the public part and what ib_core reads; must come first
 * @number: for traces and debugfs
 * @handler_task: who runs the consumer's handler right now
 * @user: a process made it, or its listener
 * @in_upcall: the handler must not sleep; it answers -ENOMEM and is called again
 * @rest: for the worker to do before all that is queued
 * @says: written by upcalls before their note is queued; read by the worker
 * @backlog_left: how many more requests a listener's queue takes; cm_backlog_get()
 * @refused: events that the table did not take
 * @qp_prepared: the consumer asked for attributes, or made a QP through us, before
 *	connect: it wants ESTABLISHED, not CONNECT_RESPONSE
 * @qp_wanted: the provider is to find the QP, and the id takes its reference then
 * @bound_if: the interface that the id was bound to before a lookup, or 0
 * @memcg: what a process's id is charged to; NULL for ids of modules
 * @listen_cred: credentials of the caller of t3_rdma_listen(); a device that is added later
 *	listens with them
 * @addr_used: there was a lookup
 * @addr_pending: a lookup will still call back
 */
struct cm_id {
	struct cm_mirror mirror;
	struct kref ref;
	u32 number;

	struct mutex handler_mutex;	/* see above; all down to @rest */
	struct task_struct *handler_task;
	bool user;
	bool in_upcall;
	struct cm_rest rest;
	struct mem_cgroup *memcg;	/* set once */

	spinlock_t lock;		/* all down to @says */
	enum cm_state state;
	bool addr_used;
	bool addr_pending;
	bool qp_prepared;
	u32 refused;
	unsigned int steps;
	struct cm_moment history[CM_HISTORY];
	struct list_head queue;
	struct work_struct work;
	struct cm_note slots[CM_NUM_SLOTS];
	struct cm_peer_says says;

	struct cm_dev *dev;
	struct list_head of_dev;
	struct cm_binding bind;

	struct iw_cm_id iw;
	struct ib_qp *qp;	/* @lock; qp.c */
	bool qp_wanted;		/* @lock */
	u8 tos;
	bool tos_set;
	int bound_if;

	struct mutex listen_mutex;	/* @listeners */
	struct list_head listeners;
	struct list_head wildcard;
	u64 wildcard_seq;
	int backlog;
	atomic_t backlog_left;
	const struct cred *listen_cred;	/* set once */

	struct list_head of_all;
};

static inline struct cm_id *to_cm_id(struct rdma_cm_id *id)
{
	return container_of(id, struct cm_id, mirror.id);
}

static inline struct sockaddr *cm_src(struct cm_id *id)
{
	return (struct sockaddr *)&id->mirror.id.route.addr.src_addr;
}

static inline struct sockaddr *cm_dst(struct cm_id *id)
{
	return (struct sockaddr *)&id->mirror.id.route.addr.dst_addr;
}

static inline struct net *cm_net(struct cm_id *id)
{
	return id->mirror.id.route.addr.dev_addr.net;
}

/* id.c */
struct cm_id *cm_id_make(struct net *net, rdma_cm_event_handler handler, void *context,
			 enum rdma_ucm_port_space ps, enum ib_qp_type qp_type,
			 struct mem_cgroup *memcg, gfp_t gfp);
void *cm_zalloc(struct mem_cgroup *memcg, size_t size, gfp_t gfp);
struct rdma_cm_id *cm_create_user_id(rdma_cm_event_handler handler, void *context,
				     enum rdma_ucm_port_space ps, enum ib_qp_type qp_type);
void cm_id_get(struct cm_id *id);
void cm_id_put(struct cm_id *id);
void cm_id_end(struct cm_id *id);
int cm_step(struct cm_id *id, enum cm_event event, int status, const struct cm_cell **cell);
void cm_act(struct cm_id *id, u16 actions);
int cm_do(struct cm_id *id, enum cm_event event, int status);
enum cm_state cm_state(struct cm_id *id);

/* event.c */
int cm_post(struct cm_id *queue_of, struct cm_id *id, enum cm_slot slot, enum cm_event event,
	    int status, const struct iw_cm_event *said, enum cm_where where);
bool cm_backlog_get(struct cm_id *listener);
void cm_backlog_put(struct cm_id *listener);
void cm_queue_init(struct cm_id *id);
int cm_events_init(void);
void cm_events_exit(void);

/* The consumer's handler of the id runs in this task. */
static inline bool cm_in_handler(const struct cm_id *id)
{
	return READ_ONCE(id->handler_task) == current;
}

/* address.c */
bool cm_addr_any(const struct sockaddr *addr);
bool cm_addr_same(const struct sockaddr *a, const struct sockaddr *b);
u16 cm_addr_port(const struct sockaddr *addr);
void cm_addr_set_port(struct sockaddr *addr, u16 port);
void cm_addr_copy(struct sockaddr *to, const struct sockaddr *from);

/* route.c */
bool cm_route_known(struct sockaddr *src, const struct sockaddr *dst,
		    struct rdma_dev_addr *dev_addr);

/* resolve.c */
int cm_bind_any(struct cm_id *id, const struct sockaddr *dst);
void cm_addr_stop(struct cm_id *id);
enum cm_event cm_addr_result(struct cm_id *id, int *status);

/* device.c */
int cm_dev_attach(struct cm_id *id);
void cm_dev_hold(struct cm_id *id, struct cm_dev *dev);
int cm_dev_link(struct cm_id *id);
void cm_dev_release(struct cm_id *id);
void cm_dev_detach(struct cm_id *id);
void cm_dev_put(struct cm_dev *dev);
int cm_listen_on_all(struct cm_id *id);
void cm_listen_no_more(struct cm_id *id);
bool cm_dev_link_listener(struct cm_listener *l);
void cm_dev_unlink_listener(struct cm_listener *l);
int cm_devices_init(void);
void cm_devices_exit(void);

/* port.c */
int cm_port_get(struct cm_id *id);
void cm_port_put(struct cm_id *id);
int cm_port_listen(struct cm_id *id);
void cm_port_leave_to(struct cm_id *id, const struct ib_device *device);

/* iw.c */
int cm_iw_listen(struct cm_id *id, struct cm_dev *dev);
void cm_iw_unlisten(struct cm_id *id, struct cm_dev *dev);
int cm_iw_connect(struct cm_id *id, const struct rdma_conn_param *param);
int cm_iw_accept(struct cm_id *id, const struct rdma_conn_param *param);
int cm_iw_refuse(struct cm_id *id, const void *data, u8 len);
void cm_iw_close(struct cm_id *id, bool abrupt);
bool cm_iw_able(struct ib_device *device);

/* qp.c */
int cm_qp_hold(struct cm_id *id, u32 qpn);
void cm_qp_hold_late(struct cm_id *id);
void cm_qp_drop(struct cm_id *id);

/* ucm.c */
int cm_ucm_nl_info(struct ib_client_nl_info *res);
int cm_ucm_init(void);
void cm_ucm_exit(void);

/* debugfs.c */
void cm_debugfs_init(void);
void cm_debugfs_exit(void);
void cm_all_ids(void (*show)(struct cm_id *id, void *arg), void *arg);

#endif
