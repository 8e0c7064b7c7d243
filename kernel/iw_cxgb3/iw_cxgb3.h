/* SPDX-License-Identifier: GPL-2.0 */
/*
 * iw_cxgb3: RDMA driver for the Chelsio T3. The device, the layers, and the locks.
 *
 * Layers, from top to bottom, each in a folder with a header, which includes that of the layer
 * below: device.h, cm.h, verbs.h, card.h. A file calls its own folder and those below it.
 * Upward it names only t3_conn_ops, and t3_client, which is this driver for cxgb3
 * (tests/lab/test_kernel_layers.py).
 *
 *   device/  main.c    module, lifetime of a device, ops table, sysfs
 *            event.c   async events and adapter events
 *            port.c    links, removed addresses; stats.c counters
 *   conn/    connections: cm.h has the files
 *   verbs/   verbs.c   queries, ucontext, mmap, PD
 *            qp.c      lifetime of a QP; qp_state.c, qp_fsm.c its states; qp_event.c its errors;
 *                      post.c its requests
 *            cq.c      lifetime of a CQ, polling, flushing; cqe.c its entries
 *            mr.c      regions and windows; tpt.c their entries in the card; umem.c user memory
 *            pbl.c     page lists of a protection domain, which may outlive their regions
 *            doorbell_fifo.c  rings all QPs after the FIFO of the card was full
 *   card/    nic.c     use of the NIC driver; cxgb3_ulp.h its structures
 *            ctrl.c    control QP: writes to adapter memory; wr.c requests in slots
 *            health.c  deadlines of the card; watchdog.c a write every two seconds
 *            doorbell.c  the ring
 *            pools.c   ids, doorbell groups, adapter memory pools; quota.c shares of them
 *
 * Pure logic, without the driver's objects: qp_fsm, wr, wq.h, cqe, tpt, ep_fsm, mpa.
 *
 * Locks, outermost first (docs/locking.md has the reasons):
 *
 *   t3_dev.db_mutex   T3_DEV_DB_OFF and the status words of all QPs; sleeps
 *   t3_ctrl.mutex     slots of the control ring; sleeps
 *   t3_pd.mutex       kept page lists and sinks of a domain; sleeps
 *   t3_qp_groups.mutex  doorbell groups of a context; sleeps
 *   t3_cq.lock        ring and ready list of a CQ (irq)
 *   t3_qp.lock        state, ep, counters and arrays of a QP (irq); inside a
 *                     CQ lock, never the other way round
 *   xarray locks      qps, cqs, mrs, t3_cq.qps (irq); mrs inside t3_qp.lock
 *   t3_quotas.lock, t3_dev.gone_lock   innermost
 *   t3_cq.comp_lock   serializes the calls of a completion handler (irq);
 *                     none of the above is held
 *
 * No lock of this list is held across a call into the connection manager (but
 * t3_ep_get(), which takes no lock), ib_core or a consumer, comp_lock around the
 * completion handler excepted.
 */
#ifndef IW_CXGB3_H
#define IW_CXGB3_H

#include <linux/idr.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "cxgb3_ulp.h"
#include "hw/t3_wr.h"
#include "quota.h"
#include "t3_context.h"

struct t3_term;
struct t3_ep;	/* one end of a connection, private to the connection manager */
struct t3_cm_dev;	/* connection manager's part of a device, private to it as well */

/*
 * Control QP: the ring of memory writes. producer and consumer are running
 * counters; the async event of a write carries its counter back.
 */
struct t3_ctrl {
	struct mutex mutex;		/* slots and producer */
	union t3_wr_slot *ring;
	dma_addr_t dma;
	u32 producer __guarded_by(&mutex);
	u32 consumer;			/* written by the event handler only */
	wait_queue_head_t wait;
	bool modified;			/* a reply to the last MODIFY_QP has arrived */
	bool replies_to_modify;		/* this firmware replies, as t3_ctrl_open() found out */
	struct sk_buff *last_skb;	/* for the MODIFY_QP that takes the ring from the card */
	bool ready;
};

/* A range of ids. A freed id is reused as late as possible. */
struct t3_ids {
	struct ida ida;
	enum t3_quota_kind kind;
	u32 min, max, next;
};

/*
 * QP ids of one owner: a user context, or the driver itself. Ids whose
 * doorbells share a page must belong to one owner, so they are allocated in
 * groups.
 */
struct t3_qp_groups {
	struct mutex mutex;		/* also for the elements of the list */
	struct list_head list __guarded_by(&mutex);	/* t3_qp_group */
	struct t3_quota *quota;		/* of the owner; NULL: no limit */
};

/* Counters of the driver, device/stats.c has their names. */
enum t3_counter {
	T3_CNT_QP_BAD_EVENT,
	T3_CNT_CQE_STALE,
	T3_CNT_CQE_BAD,
	T3_CNT_AE_NO_OBJECT,
	T3_CNT_AE_ERROR,
	T3_CNT_TERM_SENT,
	T3_CNT_TERM_RCVD,
	T3_CNT_FLUSHED_QP,
	T3_CNT_DB_DROP,
	T3_CNT_CM_BAD_EVENT,
	T3_CNT_CM_ABORT,
	T3_CNT_CARD_POLL,
	T3_CNT_CQ_OVERFLOW,
	T3_CNT_OVER_QUOTA,
	T3_CNT_NUM
};

/*
 * A card.
 *
 * The NIC driver's add callback creates it. Its remove callback sets
 * T3_DEV_GONE; the NIC driver's tables must not be accessed after that,
 * although consumers may still hold objects of the device. So every user of
 * tdev is between t3_dev_enter() and t3_dev_leave(), and remove waits for
 * them. Registration with ib_core and unregistration run on an ordered
 * workqueue, since remove may be called with rtnl held. ib_core owns the
 * memory (ib_dealloc_device).
 */
struct t3_dev {
	struct ib_device ibdev;		/* must be first */
	struct t3cdev *tdev;
	struct pci_dev *pdev;
	struct rdma_info info;
	struct adap_ports ports;
	struct ch_embedded_info fw;
	unsigned long flags;		/* T3_DEV_* */
	spinlock_t gone_lock;		/* setting T3_DEV_GONE; irq */
	struct mutex db_mutex;		/* T3_DEV_DB_OFF and the QPs' status words */
	unsigned long db_next __guarded_by(&db_mutex);	/* id of the QP to ring next */
	unsigned long ports_up;		/* bit per port, port.c */
	unsigned long ports_slow;	/* the same: at most 1 Gbit/s, or no link */
	struct t3_ctrl ctrl;

	struct xarray qps;		/* id -> t3_qp, irq lock */
	atomic64_t qp_serial;		/* of the last one */
	struct xarray cqs;		/* id -> t3_cq, irq lock */
	struct xarray mrs;		/* STag index -> t3_mr, irq lock */

	/* Ids and adapter memory, pools.c. */
	struct t3_ids qp_groups;
	struct t3_ids cq_ids;
	struct t3_ids pd_ids;
	struct t3_ids stags;
	u8 *stag_keys;			/* by index: the key of its last STag */
	u32 qp_group_size;		/* ids per doorbell page */
	struct gen_pool *pbl_pool;
	struct gen_pool *rqt_pool;
	struct t3_qp_groups kernel_groups;
	struct t3_quotas quotas;	/* shares of these */

	atomic64_t counters[T3_CNT_NUM];
	u64 async_events;		/* of QPs; written in the softirq of the card */
	struct dentry *debugfs;
	struct list_head node;		/* in main.c */
	struct workqueue_struct *life_wq;	/* of the card; runs the next three */
	struct work_struct register_work;
	struct work_struct shutdown_work;
	struct work_struct unregister_work;
	struct delayed_work db_work;	/* rings every QP after lost doorbells */
	struct delayed_work watchdog_work;
	struct work_struct fatal_work;

	struct t3_cm_dev *cm;
};

/* Bits of t3_dev.flags. */
#define T3_DEV_GONE		0	/* removed, or the card is unresponsive */
#define T3_DEV_DOWN		1	/* in reset: the log need not advise to unbind */
#define T3_DEV_REGISTERED	2
#define T3_DEV_DB_OFF		3	/* doorbell FIFO is full: queue work, do not ring */
#define T3_DEV_UNBINDING	4	/* cxgb3 is being unbound: abort connections */
#define T3_DEV_SHUT_DOWN	5	/* the card has no address of our memory any more */

static inline struct t3_dev *to_t3_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct t3_dev, ibdev);
}

/* True if a request exceeds a limit of the card. The debug message names the limit. */
static inline bool t3_over_limit(struct t3_dev *dev, const char *what, u64 value, u64 limit)
{
	if (value <= limit)
		return false;
	ibdev_dbg(&dev->ibdev, "%llu %s requested, at most %llu are possible\n", value, what,
		  limit);
	return true;
}

static inline bool t3_dev_gone(const struct t3_dev *dev)
{
	return test_bit(T3_DEV_GONE, &dev->flags);
}

static inline void t3_count(struct t3_dev *dev, enum t3_counter which)
{
	atomic64_inc(&dev->counters[which]);
}

/* RDMA's device of a NIC device, or NULL. It stays until the end of the RCU read-side section. */
static inline struct t3_dev *t3_dev_of(const struct t3cdev *tdev)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_any_held(), "the device may be freed");
	return READ_ONCE(tdev->ulp);
}

extern struct workqueue_struct *t3_workqueue;	/* device/main.c */
extern struct cxgb3_client t3_client;		/* the same */

/*
 * What the layers below the connections call of them: the only calls upward. Any context, without
 * a lock of this driver, unless stated otherwise.
 */
struct t3_conn_ops {
	/* T3_DEV_GONE is set, but cxgb3 still uses the card: as t3_cm_stop(). Does not wait. */
	void (*fatal)(struct t3_dev *dev);
	/* True if the device has endpoints. */
	bool (*busy)(struct t3_dev *dev);
	/* A QP is dying, or is in ERROR: end a pending connect for it. */
	void (*abort_connects)(struct t3_dev *dev, u64 qp_serial);

	void (*get)(struct t3_ep *ep);	/* may be called with a lock */
	void (*put)(struct t3_ep *ep);
	/*
	 * Close the connection with a FIN, or with a RST if abrupt. The outcome is reported as a
	 * QP event. If the caller may sleep, the FIN or the RST is sent before the return, unless
	 * another thread handles the connection at the time.
	 */
	void (*disconnect)(struct t3_ep *ep, bool abrupt, bool may_sleep);
	/*
	 * Once for a connection. Send a TERMINATE with @term, and abort the connection if it does
	 * not close before a deadline. Nothing is sent if this side has closed the stream.
	 */
	void (*terminate)(struct t3_ep *ep, struct t3_term term);
	/*
	 * The QP of a connection that is being closed is destroyed: abort the connection if it does
	 * not close within T3_CLOSE_TIMEOUT of the begin of the close.
	 */
	void (*limit_close)(struct t3_ep *ep);
};

extern const struct t3_conn_ops t3_conn_ops;	/* cm.c */

#endif
