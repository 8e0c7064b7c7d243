/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connection manager of iw_cxgb3.
 *
 *   cm.c      calls of the consumer (iw_cm ops), MPA negotiation, events to the consumer
 *   ep.c      the endpoint: references, queue, timer, the setter of its state
 *   ep_fsm.c  the table behind the setter (pure)
 *   mpa.c     MPA Request and Reply Frames (pure)
 *   listen.c  listeners, and the endpoints of connection requests
 *   cpl.c     messages to and from the card
 *   tids.c    TIDs, ATIDs and STIDs
 *   route.c   routes and the card's L2 table
 *   tcp_port.c  local ports that the host's TCP must not use
 *   debugfs.c open and closed connections
 *   restrack.c  connections in rdma resource
 *
 * Contexts. A CPL handler runs in softirq. It takes a reference and puts the message into
 * the endpoint's queue. Consumers, the QP and the timer leave requests in the same
 * queue. The thread that takes from the queue is the endpoint's runner: the
 * endpoint's work item or that of its timer; or, to save the switches (T3_RUN_NOW), a call that
 * may sleep, or the softirq if the handler of the message does not sleep. Only the runner changes
 * the state, sends, and calls the consumer, and it holds no lock of this driver meanwhile. There is
 * one runner at a time: t3_ep.running is set until the queue is empty. So the events of a
 * connection are handled one after another, and a timeout never races with a message.
 *
 * A message: t3_cpl_receive(), t3_ep_receive(), t3_ep_run(), t3_cpl_handle(), its handler in
 * t3_cpl_messages[]. A call: t3_cm_connect(), t3_ep_request(), t3_ep_run(), t3_cm_run_call(). From
 * both: t3_ep_fsm_apply(), the transition in ep_table[], t3_ep_run_actions(), t3_send_*().
 *
 * No connect, accept, reject or disconnect waits for a runner: the call handles its
 * request itself, or leaves it to the thread that is the runner; its result is an
 * event. No runner waits for the card or for another endpoint. So an upcall that may
 * sleep may connect, accept and reject. A CONNECT_REPLY with an error may come in softirq.
 *
 * Locks:
 *
 *   t3_ep.queue_lock	messages, requests, running, called (irq); innermost
 *   t3_ep.id_lock	id_kind, tid (BH)
 *   t3_ep.route_lock	dst, l2t (BH); held across l2t sends
 *   t3_listener.lock	listening, upcalls, children (BH)
 *   t3_cm_dev.eps	its xarray lock (BH)
 *   t3_cm_dev.lock	listeners, closed_logs, writes of stopped (BH)
 */
#ifndef IW_CXGB3_CM_H
#define IW_CXGB3_CM_H

#include <linux/in.h>
#include <linux/kref.h>
#include <linux/rcupdate.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/sock.h>
#include <rdma/iw_cm.h>

#include "ep_fsm.h"
#include "hw/t3_cpl.h"
#include "mpa.h"
#include "verbs.h"

#define T3_SHUT_DOWN_TIMEOUT	(2 * HZ)	/* for connections to be aborted */

/* Receive window and send buffer of a connection, bytes. */
#define T3_RCV_WIN		(256 * 1024)
#define T3_SND_WIN		(32 * 1024)

/* The card may keep a four-tuple for a short time after the close: then CONN_EXIST. */
#define T3_CONN_EXIST_DELAY	(HZ / 2)
/*
 * A QP that is destroyed gives its peer as long to close, from the begin of the close: some
 * retransmissions of the last messages of this side fit in. A process that exits waits, too.
 */
#define T3_CLOSE_TIMEOUT	(10UL * HZ)

/* Messages that a request with T3_RUN_NOW handles; the work item handles the others. */
#define T3_EP_CALLER_MESSAGES		16

/* Messages that wait for another event (T3_RUN_LATER); more of them are handled without one. */
#define T3_EP_LATER_MESSAGES		16

/*
 * Half-open connections of a listener beyond its backlog, and at most. The card has a limit of its
 * own, perhaps 1,024 (guess G53), and drops SYNs above it. Above the driver's limit a SYN takes the
 * place of the oldest one, if that is as old as T3_HALF_OPEN_AGE. Otherwise the reply is a RST.
 */
#define T3_HALF_OPEN_SLACK		128
#define T3_MAX_HALF_OPEN		960
#define T3_HALF_OPEN_AGE		(HZ / 10)

/* An endpoint for debugfs, also after its end. */
struct t3_ep_log {
	u32 id;
	u32 tid;
	struct sockaddr_in local;
	struct sockaddr_in remote;
	bool active;
	struct t3_fsm_history history;
	u64 ns[T3_FSM_HISTORY];		/* the time of each event */
};

#define T3_CM_MTUS		16	/* size of the card's MTU table */
#define T3_CLOSED_LOGS		32	/* power of two */

struct t3_cm_dev {
	struct t3_dev *dev;
	unsigned int nmtus;		/* the card's MTU table */
	u16 mtus[T3_CM_MTUS];
	struct xarray eps;		/* endpoints before EP_CLOSED, by id */
	u32 next_ep_id;
	atomic_t num_eps;
	wait_queue_head_t idle;		/* woken when num_eps is 0 */
	atomic_t num_allocated;		/* endpoints that are not freed yet */

	spinlock_t lock;		/* taken in softirqs */
	struct list_head listeners __guarded_by(&lock);
	bool stopped __guarded_by(&lock);	/* new endpoints and listeners are refused */
	bool unplugged;			/* tables of tdev are freed (RCU) */
	unsigned int ntids;
	unsigned long *released_tids;	/* that release_work sends to the card */
	struct work_struct release_work;
	struct delayed_work addrs_work;	/* looks for connections that have lost their address */
	unsigned long addrs_took;	/* jiffies of its last run */
	struct dentry *debugfs;
	unsigned int nclosed __guarded_by(&lock);
	/* Of the last endpoints that closed. */
	struct t3_ep_log closed_logs[T3_CLOSED_LOGS] __guarded_by(&lock);
};

/* Requests in the queue of an endpoint. */
enum t3_ep_request {
	T3_REQ_CALL,			/* ->call is complete */
	T3_REQ_TERMINATE,		/* ->term is set */
	T3_REQ_DISCONNECT,
	T3_REQ_ABORT,
	T3_REQ_HALF_OPEN_END,	/* the listener has no place for it any more */
	T3_REQ_LIMIT_CLOSE,		/* the QP is being destroyed */
	T3_REQ_ARP_FAILED,
	T3_REQ_ADDR_REMOVED,		/* the local address, or the interface, may be gone */
	T3_REQ_TIMER,
	T3_REQ_SHUT_DOWN,		/* the driver is unbound from a working card */
	T3_REQ_DEVICE_DOWN,
};

/* The runner for a message or a request, unless the endpoint has one already. */
enum t3_ep_run {
	T3_RUN_NOW,			/* this thread, which saves the switches to a worker */
	T3_RUN_QUEUED,			/* the work item */
	T3_RUN_LATER,			/* that of the next message or request */
};

/*
 * A consumer's call, which the runner executes: the only one in the life of an
 * endpoint. The consumer does not wait for it. Its private data are in pdata of the endpoint.
 */
struct t3_ep_call {
	enum ep_event event;		/* EP_EV_CONNECT, _ACCEPT or _REJECT */
	struct iw_cm_id *cm_id;		/* with a reference; NULL for a reject */
	struct t3_qp *qp;		/* of the first accept, with a reference; or NULL */
	u16 ord;			/* of an accept */
	u16 ird;
};

/* The cxgb3 table that has an entry for the connection. */
enum t3_ep_id_kind {
	T3_ID_NONE,
	T3_ID_ATID,
	T3_ID_TID,
};

/*
 * One end of a connection.
 *
 * References: the creator's, from t3_ep_alloc(); the runner's, from
 * t3_ep_publish() to EP_CLOSED; one while the timer runs; one while the work item is
 * queued; the QP's, while it is attached; the consumer's, from the connect request to
 * accept or reject. The memory is freed after a grace period, because a CPL
 * handler may have read the pointer from the TID table just before the entry was removed.
 * An iw_cm_id has the pointer from the connect request to the last event.
 */
struct t3_ep {
	struct kref ref;
	struct rcu_head rcu;
	struct t3_dev *dev;
	struct t3_cm_dev *cm;
	u32 id;

	/* Queue: any context. */
	spinlock_t queue_lock;
	struct sk_buff_head messages;	/* queue_lock; its own lock is not used */
	unsigned long requests __guarded_by(&queue_lock);	/* T3_REQ_* */
	bool running __guarded_by(&queue_lock);	/* a thread is the runner */
	bool called __guarded_by(&queue_lock);	/* ->call is taken */
	struct t3_ep_call call;		/* written before T3_REQ_CALL, and never again */
	struct t3_term term;		/* written before T3_REQ_TERMINATE, and never again */
	struct work_struct work;
	struct delayed_work timer;
	unsigned long deadline;		/* jiffies; runner */
	unsigned long timer_start;	/* jiffies; runner */
	bool timer_armed;
	bool close_limited;		/* the QP is being destroyed; runner */
	bool polled;			/* for the reply to an abort, after its timeout; same */
	bool counted;			/* counted in num_eps; before t3_ep_publish() */
	bool no_upcalls;		/* see t3_cm_reject(); written once */

	/* From here on: runner, unless noted. */
	enum ep_state state;		/* written by t3_ep_fsm_apply() only */
	bool active;
	bool est_reported;		/* ESTABLISHED or a good CONNECT_REPLY was delivered */
	bool peer_abort_seen;		/* one copy of ABORT_REQ_RSS */
	bool abort_rpl_seen;		/* one copy of ABORT_RPL_RSS */
	bool open_retried;		/* ACT_OPEN_REQ repeated after CONN_EXIST */
	bool rev1_due;			/* active: connect in revision 1 after the close */
	bool init_unacked;		/* the ack of RDMA_INIT is pending */
	bool rtr_due;			/* active: the RTR read is to be sent */
	unsigned int streaming_unacked;	/* WRs with MPA frames */
	bool accept_pending;		/* neither ESTABLISHED nor its failure was delivered */
	struct iw_cm_id *cm_id;		/* with a reference */
	u32 qpn;			/* of the active side */
	u64 qp_serial;			/* of the active side; else 0, that of no QP */
	struct t3_quota *quota;		/* of the connecting or listening user; with a reference */
	struct t3_listener *listener;	/* passive; with a reference; written with its lock */
	struct list_head half_open;	/* in its children; its lock */
	unsigned long half_open_since;
	struct t3_tcp_port *held;	/* active; see tcp_port.c */
	struct net *net;		/* of the consumer's id, whose end it may outlive */
	bool net_may_have_ended;	/* a retry, whose consumer may be gone */
	struct t3_qp *qp;		/* until t3_qp_disconnected() */
	struct t3_qp *iw_cm_qp;		/* of the last accept, see t3_cm_accept_again(); cm->lock */

	spinlock_t id_lock;		/* id_kind and tid against the ACT_ESTABLISH handler */
	enum t3_ep_id_kind id_kind __guarded_by(&id_lock);
	u32 tid;			/* or ATID; written with id_lock */
	struct sockaddr_in local;
	struct sockaddr_in remote;
	u8 tos;

	spinlock_t route_lock;		/* t3_ep_confirm_neigh() is called in any context */
	struct dst_entry *dst __guarded_by(&route_lock);
	struct l2t_entry *l2t __guarded_by(&route_lock);
	struct net_device *ndev;	/* has the local address; a reference, as the route */
	u16 smt_idx;
	u16 charged_l2t;		/* index of l2t, which is charged to the quota */
	u16 mtu;

	u32 snd_nxt;			/* streaming mode */
	u32 rcv_nxt;
	u16 emss;
	bool tx_init_done;

	/* MPA parameters: our offer, and after the negotiation its result. */
	u8 mpa_rev;			/* of the frames that this side sends */
	bool enhanced;			/* they have the revision 2 words */
	u8 mpa_attrs;			/* T3_MPA_* */
	u8 rtr_type;			/* T3_RTR_* */
	u16 ord;
	u16 ird;
	u16 peer_ord;			/* MPA_V2_DEPTH_NONE if not in the request */
	u16 peer_ird;

	/* The frame to send (active: from connect on) and the one being received. */
	u16 tx_len;
	u16 tx_sent;
	u16 rx_len;
	u16 pdata_len;			/* the consumer's; active: kept for a retry */
	u16 peer_pdata_len;
	const u8 *peer_pdata;		/* in rx_frame */
	u8 pdata[MPA_MAX_CONSUMER_PD];
	u8 tx_frame[MPA_MAX_FRAME_LEN];
	u8 rx_frame[MPA_MAX_FRAME_LEN + 1];

	struct sk_buff_head spare;	/* see t3_cpl_reserve() */
	struct t3_ep_log log;
};

struct t3_listener {
	struct kref ref;
	struct rcu_head rcu;
	struct t3_dev *dev;
	struct t3_cm_dev *cm;
	struct list_head link;		/* cm->lock */
	struct iw_cm_id *cm_id;		/* with a reference while listening */
	__be32 addr;			/* 0: any */
	__be16 port;
	int stid;
	struct list_head places;	/* that hold its port; see tcp_port.c */
	struct net *net;		/* of its id; valid while listening or in an upcall */
	struct t3_quota *quota;		/* for the STID; with a reference while listening */

	struct sk_buff_head syns;
	struct work_struct work;

	spinlock_t lock;		/* upcalls, the list of children, ->listener of these */
	bool listening __guarded_by(&lock);
	unsigned int upcalls __guarded_by(&lock);	/* in progress */
	unsigned int half_open __guarded_by(&lock);	/* number of children */
	/* Endpoints before their connect request, oldest first. */
	struct list_head children __guarded_by(&lock);
	unsigned int max_half_open;
	bool replied;			/* the card replied to open or close */
	u8 status;
	wait_queue_head_t wait;
};

/*
 * The network namespace of an id, inside a call for it. Its context is the rdma_cm_id, the first
 * member of the private id of either connection manager.
 */
static inline struct net *t3_cm_id_net(const struct iw_cm_id *cm_id)
{
	const struct rdma_cm_id *id = cm_id->context;

	return id ? id->route.addr.dev_addr.net : NULL;
}

/* For an endpoint, charged to the cgroup of a process that connects. A softirq has no process. */
static inline gfp_t t3_ep_gfp(void)
{
	return in_softirq() ? GFP_ATOMIC : GFP_KERNEL_ACCOUNT;
}

/* --- for the device -------------------------------------------------------- */

int t3_cm_init(void);
void t3_cm_exit(void);
/* In the add callback, when the tables of tdev are valid. */
int t3_cm_open(struct t3_dev *dev);
/*
 * The card works and keeps working: abort every connection, so that the card has
 * no connection without an endpoint. Waits for a limited time.
 */
void t3_cm_shut_down(struct t3_dev *dev);
/*
 * In the remove callback. T3_DEV_GONE is set and no handler runs any more. Every
 * endpoint releases its ids and L2T entry, and reports LOST to its QP; threads that
 * wait for a listener are woken. Waits for a limited time; must not take rtnl, nor
 * wait for a thread that takes it.
 */
void t3_cm_stop(struct t3_dev *dev);
/* Process context: an interface of the card has lost an address, or is removed. Does not wait. */
void t3_cm_addr_removed(struct t3_dev *dev);
/* After ib_unregister_device(). Waits for the last endpoint and all work items. */
void t3_cm_close(struct t3_dev *dev);
extern cxgb3_cpl_handler_func t3_cpl_handlers[CXGB3_NUM_CPL_CMDS];

int t3_cm_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int t3_cm_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int t3_cm_reject(struct iw_cm_id *cm_id, const void *pdata, u8 len);
int t3_cm_create_listen(struct iw_cm_id *cm_id, int backlog);
int t3_cm_destroy_listen(struct iw_cm_id *cm_id);
int t3_cm_fill_res_entry(struct sk_buff *msg, struct rdma_cm_id *cm_id);

/* Any context. */
void t3_ep_get(struct t3_ep *ep);
void t3_ep_put(struct t3_ep *ep);
void t3_ep_disconnect(struct t3_ep *ep, bool abrupt, bool may_sleep);
/*
 * Softirq or process context. The connection makes progress: confirm the neighbour entry of its
 * next hop.
 */
void t3_ep_confirm_neigh(struct t3_ep *ep);

/* --- for the files of this folder ------------------------------------------- */

/* cm.c */
unsigned long t3_cm_timeout(void);
void t3_cm_established(struct t3_ep *ep);
void t3_cm_rx_stream(struct t3_ep *ep);
void t3_cm_init_acked(struct t3_ep *ep);
void t3_cm_run_call(struct t3_ep *ep);
void t3_cm_report_peer_close(struct t3_ep *ep);
void t3_cm_report_end(struct t3_ep *ep, enum ep_event event, int status);

/* cxgb3's tables exist until the end of the RCU read-side section. */
static inline bool t3_cm_has_tables(const struct t3_cm_dev *cm)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "cxgb3 may free its tables");
	return !READ_ONCE(cm->unplugged);
}

/* ep.c */
extern struct workqueue_struct *t3_cm_wq;
struct t3_ep *t3_ep_alloc(struct t3_dev *dev);
int t3_ep_count(struct t3_ep *ep);
void t3_ep_discard(struct t3_ep *ep);
int t3_ep_publish(struct t3_ep *ep);
struct t3_ep *t3_ep_find(struct t3_dev *dev, u32 id);
bool t3_ep_tryget(struct t3_ep *ep);
void t3_ep_request(struct t3_ep *ep, enum t3_ep_request req, enum t3_ep_run run);
void t3_ep_receive(struct t3_ep *ep, struct sk_buff *skb, enum t3_ep_run run,
		   bool (*urgent)(const struct t3_ep *ep));
void t3_ep_request_if(struct t3_dev *dev, enum t3_ep_request req,
		      bool (*match)(struct t3_ep *ep, const void *arg), const void *arg);
void t3_ep_terminate(struct t3_ep *ep, struct t3_term term);
void t3_ep_limit_close(struct t3_ep *ep);
bool t3_ep_reserve_call(struct t3_ep *ep);
int t3_ep_fsm_apply(struct t3_ep *ep, enum ep_event event, int status);

/* tids.c */
int t3_ep_take_atid(struct t3_ep *ep);
int t3_ep_take_tid(struct t3_ep *ep, u32 tid);
void t3_release_tid(struct t3_dev *dev, u32 tid);
int t3_tids_open(struct t3_cm_dev *cm, work_func_t release);
void t3_tids_close(struct t3_cm_dev *cm);
void t3_ep_exchange_atid(struct t3_ep *ep, u32 tid);
void t3_ep_return_id(struct t3_ep *ep);
int t3_listener_take_stid(struct t3_listener *l);
void t3_listener_return_stid(struct t3_listener *l);

/* listen.c */
void t3_listener_put(struct t3_listener *l);
bool t3_listener_upcall_begin(struct t3_listener *l);
void t3_listener_upcall_end(struct t3_listener *l);
void t3_listener_remove_child(struct t3_ep *ep);
void t3_listener_drop_old(struct t3_listener *l, bool next_hop);
void t3_listener_wake_all(struct t3_cm_dev *cm);
int t3_listener_receive_syn(struct t3cdev *tdev, struct sk_buff *skb, void *ctx);
int t3_listener_reply(struct t3cdev *tdev, struct sk_buff *skb, void *ctx);

/* cpl.c: each sends one message; 0 or -errno */
int t3_send_act_open_req(struct t3_ep *ep);
int t3_send_pass_accept_rpl(struct t3_ep *ep);
int t3_send_pass_open_req(struct t3_listener *l);
int t3_send_close_listsrv_req(struct t3_listener *l);
int t3_send_stream(struct t3_ep *ep, unsigned int until);
int t3_send_rx_data_ack(struct t3_ep *ep, unsigned int credits);
int t3_send_rtr_read(struct t3_ep *ep);
int t3_send_terminate(struct t3_ep *ep);
void t3_send_close_con_req(struct t3_ep *ep);
void t3_send_abort_req(struct t3_ep *ep);
void t3_send_abort_rpl(struct t3_ep *ep);
void t3_cpl_init(void);
void t3_cpl_handle(struct t3_ep *ep, struct sk_buff *skb);
void t3_cpl_release_tids(struct work_struct *work);
int t3_cpl_reserve(struct t3_ep *ep);
int t3_cpl_status_to_errno(u8 status);
static inline u8 t3_cpl_opcode(const struct sk_buff *skb)
{
	return be32_to_cpu((__force __be32)skb->csum) >> 24;
}

/* route.c */

/* In skb->cb of a message that may wait in cxgb3's ARP queue. */
struct t3_route_cb {
	struct l2t_skb_cb l2t;		/* must be first: cxgb3 reads it */
	const struct t3_ep *owner;	/* to compare; no reference, never dereferenced */
	u32 ep_id;			/* for t3_ep_find(), since the endpoint may be freed */
};

int t3_route_resolve(struct t3_ep *ep);
void t3_route_release(struct t3_ep *ep);
bool t3_route_is_alone(const struct t3_ep *ep);
int t3_route_send(struct t3_ep *ep, struct sk_buff *skb, arp_failure_handler_func failed);
unsigned int t3_route_l2t_index(struct t3_ep *ep);
struct net_device *t3_route_local_dev(struct t3_dev *dev, struct net *net, __be32 addr);
bool t3_route_has_address(const struct net_device *ndev, __be32 addr);
bool t3_route_keeps_address(const struct t3_ep *ep);
bool t3_route_is_valid(struct t3_ep *ep);
bool t3_route_conflicts(struct t3_dev *dev, const struct iw_cm_id *cm_id, __be32 addr);
bool t3_route_purge(struct t3_ep *ep);
bool t3_route_take_back(struct t3_ep *ep);
void t3_route_revalidate(struct t3_ep *ep);

/* tcp_port.c */
struct t3_tcp_port;
struct t3_tcp_port *t3_tcp_port_connect(struct t3_dev *dev, const struct iw_cm_id *cm_id,
					struct sockaddr_in *local);
int t3_tcp_port_listen(struct t3_dev *dev, const struct iw_cm_id *cm_id, struct sockaddr_in *local,
		       struct list_head *places);
void t3_tcp_port_unlisten(struct list_head *places);
void t3_tcp_port_release(struct t3_tcp_port *held);
bool t3_tcp_is_connected(const struct t3_ep *ep);
int t3_tcp_ports_init(void);
void t3_tcp_ports_exit(void);

/* debugfs.c */
void t3_cm_debugfs_add(struct t3_cm_dev *cm);
void t3_cm_debugfs_remove(struct t3_cm_dev *cm);

#endif /* IW_CXGB3_CM_H */
