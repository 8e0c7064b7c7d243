/* SPDX-License-Identifier: GPL-2.0 */
/*
 * iw_cxgb3: RDMA driver for the Chelsio T3. Objects, their lifetime, their
 * locks, and the border between the verbs side and the connection manager.
 *
 *   main.c    module, life of a device, ops table, sysfs, counters
 *   verbs.c   queries, ucontext, mmap, PD
 *   qp.c      life of a QP, posting; qp_fsm.c its states; wr.c its requests
 *   cq.c      life of a CQ, polling, flushing; cqe.c its entries
 *   mr.c      regions and windows; tpt.c their entries in the card
 *   ctrl.c    control QP: writes into adapter memory
 *   event.c   async events and adapter events
 *   rsc.c     ids, doorbell groups, adapter memory pools; quota.c shares of them
 *   cm.c, cpl.c, ep_fsm.c, mpa.c: connections (cm.h)
 *
 * Locks, outermost first (docs/locking.md has the reasons):
 *
 *   t3_ctrl.mutex     slots of the control ring; sleeps
 *   t3_cq.lock        ring and ready list of a CQ (irq)
 *   t3_qp.lock        state, ep, counters and arrays of a QP (irq); inside a
 *                     CQ lock, never the other way round
 *   t3_cq.comp_lock   keeps a completion handler from running twice (irq);
 *                     none of the above is held
 *
 * No lock of this list is held across a call into the connection manager,
 * ib_core or a consumer, comp_lock around the completion handler excepted.
 */
#ifndef IW_CXGB3_H
#define IW_CXGB3_H

#include <linux/bitops.h>
#include <linux/completion.h>
#include <linux/genalloc.h>
#include <linux/gfp.h>
#include <linux/idr.h>
#include <linux/jiffies.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#include "cxgb3_ulp.h"
#include "cqe.h"
#include "hw/t3_cqe.h"
#include "hw/t3_tpt.h"
#include "hw/t3_wr.h"
#include "qp_fsm.h"
#include "quota.h"
#include "tpt.h"
#include "wq.h"
#include "wr.h"

#define DRV_NAME		"iw_cxgb3"
#define T3_FW_MAJOR		7
#define T3_MAX_PORTS		2
#define T3_MAX_RD_ATOM		8
/* Entries of a CQ beyond those asked for, for what the card writes by itself. */
#define T3_CQ_SPARE		16
#define T3_MAX_CQE		(T3_MAX_CQ_ENTRIES - T3_CQ_SPARE)
#define T3_MAX_PBL_PAGES	BIT(20)

#define T3_RETIRE_TIMEOUT	(2 * HZ)	/* for connections to be aborted */

struct t3_ep;	/* a connection or a listener, private to the connection manager */
struct t3_cm_dev;	/* connection manager's part of a device, likewise */

/*
 * Control QP: the ring of memory writes. producer and consumer are running
 * counters; the async event of a write carries its counter back.
 */
struct t3_ctrl {
	struct mutex mutex;		/* slots and producer */
	union t3_wr_slot *ring;
	dma_addr_t dma;
	u32 producer;
	u32 consumer;			/* written by the event handler only */
	wait_queue_head_t wait;
	bool modified;			/* the card has replied to the last MODIFY_QP */
	bool replies_to_modify;		/* and has replied to the first one */
	struct sk_buff *last_skb;	/* for the message that takes the ring from the card */
	bool ready;
};

/* A range of ids that are reused as late as possible. */
struct t3_ids {
	struct ida ida;
	enum t3_quota_kind kind;
	u32 min, max, next;
};

/*
 * QP ids of one owner: a user context, or the driver itself. Ids whose
 * doorbells share a page must belong to one owner, so they are taken in
 * groups.
 */
struct t3_qp_groups {
	struct mutex mutex;		/* list and its elements */
	struct list_head list;		/* t3_qp_group */
	struct t3_quota *quota;		/* of the owner; NULL: no limit */
};

/* Names of hardware counters and of our own error paths; see stats.c. */
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
 * Made by the NIC driver's add callback and put to rest by its remove
 * callback, which sets T3_DEV_GONE. From then on the NIC driver's tables must
 * not be touched, although consumers may hold objects of the device for a
 * while: whoever uses tdev does so between t3_dev_enter() and t3_dev_leave(),
 * which remove waits for. Registration with ib_core and its end run on an
 * ordered workqueue, since remove may be called with rtnl held. The memory is
 * ib_core's (ib_dealloc_device).
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
	unsigned long ports_up;		/* bit per port, port.c */
	struct t3_ctrl ctrl;

	struct xarray qps;		/* id -> t3_qp, irq lock */
	struct xarray cqs;		/* id -> t3_cq, irq lock */
	struct xarray mrs;		/* STag index -> t3_mr, irq lock */

	/* Ids and adapter memory, rsc.c. */
	struct t3_ids qp_groups;
	struct t3_ids cq_ids;
	struct t3_ids pd_ids;
	struct t3_ids stags;
	u8 *stag_keys;			/* by index: the key that it had last */
	u32 qp_group_size;		/* ids per doorbell page */
	struct gen_pool *pbl_pool;
	struct gen_pool *rqt_pool;
	struct t3_qp_groups kernel_groups;
	struct t3_quotas quotas;	/* shares of these */

	atomic64_t counters[T3_CNT_NUM];
	struct dentry *debugfs;
	struct list_head node;		/* in main.c */
	struct workqueue_struct *life_wq;	/* of the card; for the next three */
	struct work_struct register_work;
	struct work_struct shutdown_work;
	struct work_struct unregister_work;
	struct delayed_work db_work;	/* rings every QP after lost doorbells */
	struct delayed_work beat_work;	/* health.c */
	struct work_struct fatal_work;

	struct t3_cm_dev *cm;
};

/* Bits of t3_dev.flags. */
#define T3_DEV_GONE		0	/* remove was called, or the card does not answer */
#define T3_DEV_DOWN		1	/* being reset: remove will be called with rtnl held */
#define T3_DEV_REGISTERED	2
#define T3_DEV_DB_OFF		3	/* doorbell FIFO is full: queue work, do not ring */
#define T3_DEV_UNBINDING	4	/* the PCI device loses its driver: abort connections */
#define T3_DEV_SHUT_DOWN	5	/* the card knows none of our memory any more */

static inline struct t3_dev *to_t3_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct t3_dev, ibdev);
}

static inline bool t3_dev_gone(const struct t3_dev *dev)
{
	return test_bit(T3_DEV_GONE, &dev->flags);
}

static inline void t3_count(struct t3_dev *dev, enum t3_counter which)
{
	atomic64_inc(&dev->counters[which]);
}

/*
 * The card may be used until t3_dev_leave(), if the result is true. Atomic in
 * between (RCU).
 */
bool t3_dev_enter(struct t3_dev *dev);

static inline void t3_dev_leave(struct t3_dev *dev)
{
	__acquire(RCU);	/* sparse cannot follow the conditional lock of t3_dev_enter() */
	rcu_read_unlock();
}

/* ctl() of the NIC driver; -EIO once the card is gone. Interrupts must be on. */
int t3_dev_ctl(struct t3_dev *dev, unsigned int req, void *data);
/* Always consumes the buffer; 0 or -errno, congestion is success. */
int t3_dev_send(struct t3_dev *dev, struct sk_buff *skb);

/* --- health.c -------------------------------------------------------------- */

void t3_health_init(struct t3_dev *dev);
void t3_health_start(struct t3_dev *dev);
void t3_health_stop(struct t3_dev *dev);
/*
 * Every waiter and every later use of the card fails with -EIO. False if that was
 * so before. stop_dma: unless the card has confirmed that it is done with all of
 * our memory.
 */
bool t3_dev_set_gone(struct t3_dev *dev, bool stop_dma);
/* The card does not answer. */
void t3_dev_fatal(struct t3_dev *dev, const char *what);
/* Looks for messages whose interrupt got lost, and rings for doorbells that did. */
void t3_card_poll(struct t3_dev *dev);
/* How long a silent card is waited for. */
unsigned long t3_card_timeout(void);

#define T3_CARD_POLL	HZ

/* As many card timeouts are the most that a card is waited for that drops doorbells. */
#define T3_CARD_PATIENCE	6

struct t3_card_deadline {
	unsigned long end;		/* jiffies */
	unsigned long last;		/* likewise: end does not move beyond it */
	s64 drops;			/* T3_CNT_DB_DROP when it was set */
};

/*
 * Whether the deadline has passed. It moves when the card reports that it drops doorbells, but
 * not for ever: a program can make it drop them without an end, and what waits cannot be killed.
 */
static inline bool t3_card_overdue(const struct t3_dev *dev, struct t3_card_deadline *deadline)
{
	s64 drops = atomic64_read(&dev->counters[T3_CNT_DB_DROP]);

	if (drops != deadline->drops) {
		deadline->drops = drops;
		deadline->end = jiffies + t3_card_timeout();
	}
	return time_after_eq(jiffies, deadline->end) || time_after_eq(jiffies, deadline->last);
}

/*
 * Sleeps on a wait queue until the card has done something; 0, or -EIO once the
 * device is gone, which it is when the card has taken too long.
 */
#define t3_card_wait(dev, wq, cond, what) ({				\
	struct t3_dev *_dev = (dev);					\
	struct t3_card_deadline _deadline = {				\
		.end = jiffies + t3_card_timeout(),			\
		.last = jiffies + T3_CARD_PATIENCE * t3_card_timeout(),	\
		.drops = atomic64_read(&_dev->counters[T3_CNT_DB_DROP]),	\
	};								\
									\
	while (!wait_event_timeout(wq, (cond) || t3_dev_gone(_dev),	\
				   T3_CARD_POLL)) {			\
		if (t3_card_overdue(_dev, &_deadline)) {		\
			t3_dev_fatal(_dev, what);			\
			break;						\
		}							\
		t3_card_poll(_dev);					\
	}								\
	t3_dev_gone(_dev) ? -EIO : 0;					\
})

/* --- memory shared with the card and, perhaps, with user space ----------- */

struct t3_dma {
	void *va;
	dma_addr_t dma;
	struct page *page;
	size_t size;
};

/*
 * What a user may map. An entry of a ring owns the ring's memory from its
 * insertion on: it goes away with the last mapping.
 */
struct t3_mmap {
	struct rdma_user_mmap_entry rdma;
	struct t3_dma mem;
	phys_addr_t doorbell;		/* instead of mem: a page of BAR 2 */
};

struct t3_ucontext {
	struct ib_ucontext ibucontext;
	struct t3_qp_groups groups;
	struct t3_quota *quota;		/* with a reference; objects borrow it */
};

struct t3_pd {
	struct ib_pd ibpd;
	u32 id;
	struct t3_quota *quota;		/* of the context; regions and windows borrow it */
};

/*
 * A memory region. The order of death: TPT entry zeroed and the write
 * confirmed by the card, PBL space freed, pages unpinned, STag freed.
 */
struct t3_mr {
	struct ib_mr ibmr;
	struct t3_tpt tpt;		/* what the card was told last */
	u32 pbl_addr;			/* absolute byte address; 0 if none */
	u32 pbl_bytes;
	struct t3_umem *umem;		/* user regions only */
	struct t3_quota *quota;
	/* Fast registration: the list for the next work request. */
	u32 npages;
	u64 pages[T3_MAX_FASTREG_PAGES];
};

struct t3_mw {
	struct ib_mw ibmw;
	struct t3_quota *quota;
};

/*
 * A completion queue.
 *
 * References: one from creation, one per async event in progress. Destroy
 * takes it out of the table and waits for the others.
 */
struct t3_cq {
	struct ib_cq ibcq;
	u32 id;
	struct t3_quota *quota;
	u32 entries;			/* power of two, cqe + T3_CQ_SPARE at least */
	atomic_t rtr_left;		/* spare entries, for t3_qp_take_rtr_entry() */
	spinlock_t lock;		/* rptr, ready, state of kernel work queues */
	spinlock_t comp_lock;		/* one completion handler at a time */
	bool armed;			/* a call of the handler is owed */
	/* User CQ, with the lock: of the last event that arming raised, see may_raise(). */
	bool written;			/* the card has reported an entry since */
	u32 raised_index;		/* where the card was */
	u32 raised_pending;		/* entries that waited */
	u32 rptr;			/* hardware entries consumed, unmasked */
	struct list_head ready;		/* t3_half with retirable work */
	struct xarray qps;		/* id -> t3_qp, those that use this CQ */
	struct work_struct comp_work;	/* completion handler, for callers that may be inside it */
	struct t3_dma ring;
	struct t3_mmap *map;		/* user CQ: owner of the ring's memory */
	u32 __user *user_rptr;
	bool status_word;		/* user CQ: the library looks at it */
	bool overflowed;		/* reported to the consumer */
	struct kref ref;
	struct completion released;
};

/*
 * How a connection hands itself to a QP; t3_qp_connect() copies it.
 */
struct t3_conn_attrs {
	u32 tid;
	u8 channel;			/* egress port, L2T smt_idx */
	u8 mpa_rev;
	u8 mpa_attrs;			/* T3_MPA_* */
	u8 rtr_type;			/* T3_RTR_* */
	bool initiator;
	u16 ulpdu_size;			/* effective segment size */
	u32 ord;
	u32 ird;
	u32 irs;			/* sequence number of the first FPDU byte */
};

static inline const char *t3_rtr_name(u8 type)
{
	return type == T3_RTR_READ ? "read" : "none";
}

/*
 * A status word that a process has mapped. Kernel threads and the library change
 * bits of it at the same time, each atomically.
 */
static inline void t3_status_change(u64 *word, u64 set, u64 clear)
{
	set_mask_bits(word, clear, set);
}

/* One side of a QP, as an element of its CQ's ready list. */
struct t3_half {
	struct list_head node;
	struct t3_qp *qp;
	bool send;
};

/*
 * A queue pair.
 *
 * References (ref): one from creation; one for the connection from
 * t3_qp_connect() until the card has said its last word about it, because
 * until then it may fetch from the ring; those of the iWARP CM core; one per
 * event in progress. Destroy moves the QP to ERROR, takes it out of the table
 * and waits for all of them. A lookup takes its reference under the table's lock,
 * iw_get_qp() excepted, see there.
 *
 * ep is set between t3_qp_connect() and the event that detaches it; while it is
 * set the QP holds a reference on the endpoint.
 */
struct t3_qp {
	struct ib_qp ibqp;
	u32 id;
	spinlock_t lock;		/* state, ep, conn, wq, flags below */
	enum t3_qp_state state;		/* set by t3_qp_report() only */
	struct t3_ep *ep;
	struct t3_conn_attrs conn;	/* valid while ep is set */
	struct t3_wq wq;
	struct t3_half sq, rq;		/* in t3_cq.ready; CQ lock */
	struct t3_term term;		/* what the next TERMINATE says */
	bool user;
	bool used;			/* had a connection since the last reset */
	bool busy;			/* the card may still use ring and buffers */
	bool resetting;			/* no connection now */
	bool found_by_cm;		/* iw_get_qp() returned it; lock of t3_dev.qps */
	bool sq_sig_all;
	bool rtr_entry;			/* the send CQ has one for the RTR read's response */
	u32 max_ord;
	u32 max_ird;
	u32 access;			/* enum ib_access_flags; 0: all remote ones */
	u32 rqt_addr;			/* absolute byte address */
	struct t3_dma ring;
	struct t3_mmap *map;		/* user QP: owner of the ring's memory */
	struct t3_mmap *db_map;
	struct t3_qp_groups *groups;	/* where the id comes from */
	struct kref ref;
	struct completion released;
};

static inline struct t3_ucontext *to_t3_ucontext(struct ib_ucontext *uc)
{
	return container_of(uc, struct t3_ucontext, ibucontext);
}

static inline struct t3_pd *to_t3_pd(struct ib_pd *pd)
{
	return container_of(pd, struct t3_pd, ibpd);
}

static inline struct t3_mr *to_t3_mr(struct ib_mr *mr)
{
	return container_of(mr, struct t3_mr, ibmr);
}

static inline struct t3_mw *to_t3_mw(struct ib_mw *mw)
{
	return container_of(mw, struct t3_mw, ibmw);
}

static inline struct t3_cq *to_t3_cq(struct ib_cq *cq)
{
	return container_of(cq, struct t3_cq, ibcq);
}

static inline struct t3_qp *to_t3_qp(struct ib_qp *qp)
{
	return container_of(qp, struct t3_qp, ibqp);
}

static inline struct t3_dev *t3_qp_dev(const struct t3_qp *qp)
{
	return to_t3_dev(qp->ibqp.device);
}

/*
 * The connection has ended, or will never be, and the card has let go of what was posted: it
 * may be flushed. False while a connection still ends, whatever the state says.
 */
static inline bool t3_qp_over(const struct t3_qp *qp)
{
	lockdep_assert_held(&qp->lock);
	return !qp->busy && (qp->state == T3_QPS_ERROR || (qp->state == T3_QPS_IDLE && qp->used));
}

/* What a process asks for is charged to its memory cgroup, which bounds it. */
static inline gfp_t t3_gfp(bool user)
{
	return user ? GFP_KERNEL_ACCOUNT : GFP_KERNEL;
}

/* --- between the files of the verbs side --------------------------------- */

extern struct workqueue_struct *t3_wq;

/* verbs.c. The entry takes over the ring's memory; errors as pointers. */
struct t3_mmap *t3_mmap_insert(struct t3_ucontext *uc, const struct t3_dma *mem, size_t len);
struct t3_mmap *t3_mmap_insert_doorbell(struct t3_ucontext *uc, phys_addr_t addr);

/* ctrl.c */
int t3_ctrl_open(struct t3_dev *dev);
void t3_ctrl_close(struct t3_dev *dev);
/* Write to adapter memory, NULL writes zeroes; returns when the card has done it. */
int t3_ctrl_write(struct t3_dev *dev, u32 addr, const void *data, u32 len);
void t3_ctrl_completed(struct t3_dev *dev, u32 counter);
void t3_ctrl_modified(struct t3_dev *dev);
void t3_ctrl_ring_again(struct t3_dev *dev);

/* rsc.c */
int t3_rsc_open(struct t3_dev *dev);
void t3_rsc_close(struct t3_dev *dev);
/* How many there are, and how many bytes of page lists. */
static inline u32 t3_ids_all(const struct t3_ids *ids)
{
	return ids->max - ids->min + 1;
}

static inline u32 t3_pbl_all(const struct t3_dev *dev)
{
	return dev->info.pbl_top - dev->info.pbl_base + 1;
}

/* Of a user's share, if there is a quota; to be given back with the same one. */
int t3_id_get(struct t3_dev *dev, struct t3_ids *ids, struct t3_quota *quota);
void t3_id_put(struct t3_ids *ids, struct t3_quota *quota, u32 id);
void t3_qp_groups_init(struct t3_qp_groups *groups);
void t3_qp_groups_free(struct t3_dev *dev, struct t3_qp_groups *groups);
int t3_qp_id_get(struct t3_dev *dev, struct t3_qp_groups *groups, gfp_t gfp);
void t3_qp_id_put(struct t3_dev *dev, struct t3_qp_groups *groups, u32 id);
u32 t3_pbl_alloc(struct t3_dev *dev, u32 bytes);
void t3_pbl_free(struct t3_dev *dev, u32 addr, u32 bytes);
u32 t3_rqt_alloc(struct t3_dev *dev, struct t3_quota *quota, u32 entries);
void t3_rqt_free(struct t3_dev *dev, struct t3_quota *quota, u32 addr, u32 entries);
int t3_dma_alloc(struct t3_dev *dev, struct t3_dma *mem, size_t size, gfp_t gfp);
void t3_dma_free(struct t3_dev *dev, struct t3_dma *mem);
/* 0, -ENOMEM, or -EOPNOTSUPP if memory shared with the card would need syncing. */
int t3_dma_check(struct t3_dev *dev);

/* cq.c; the last three for async events and flushing, any context */
struct t3_cq *t3_cq_find(struct t3_dev *dev, u32 id);
void t3_cq_put(struct t3_cq *cq);
void t3_half_ready(struct t3_cq *cq, struct t3_half *half);
void t3_cq_purge_qp(struct t3_qp *qp);
void t3_cq_flush_qp(struct t3_qp *qp);
void t3_cq_tell_user(struct t3_cq *cq);
void t3_cq_notify(struct t3_cq *cq);
void t3_cq_written(struct t3_cq *cq);

/* mr.c, for posting */
int t3_mr_fastreg(struct t3_dev *dev, struct ib_mr *ibmr, u32 key, int access,
		  struct t3_fastreg *fr);
int t3_mr_resolve(struct t3_dev *dev, struct t3_host_sge *sge, u8 *page_code, u32 *pbl_index);

/* qp.c */
void t3_for_each_qp(struct t3_dev *dev, void (*fn)(struct t3_qp *qp));
void t3_qp_set_status(struct t3_qp *qp, u64 set, u64 clear);
void t3_ring_doorbell(struct t3_dev *dev, u32 context);

/* event.c */
int t3_async_event(struct t3cdev *tdev, struct sk_buff *skb);
void t3_adapter_event(struct t3_dev *dev, u32 event);
void t3_doorbell_work(struct work_struct *work);
void t3_doorbell_init(struct t3_qp *qp);
void t3_dev_dispatch(struct t3_dev *dev, enum ib_event_type type, u32 port);

/* port.c */
void t3_ports_init(struct t3_dev *dev);
int t3_ports_watch(void);
void t3_ports_unwatch(void);

/* stats.c */
extern const struct ib_device_ops t3_stats_ops;
extern const struct ib_device_ops t3_verbs_ops, t3_qp_ops, t3_cq_ops, t3_mr_ops;

/* --- border: what the connection manager calls --------------------------- */

/* Atomic. The first takes a reference, or returns NULL. */
struct t3_qp *t3_qp_find(struct t3_dev *dev, u32 id);
void t3_qp_get(struct t3_qp *qp);
void t3_qp_put(struct t3_qp *qp);
/*
 * The card has said its last word about the connection of t3_qp_connect(), or has lost its
 * bus mastering: what is outstanding is flushed.
 */
void t3_qp_disconnected(struct t3_qp *qp);

bool t3_qp_take_rtr_entry(struct t3_qp *qp);
/* The peer may read from memory of this QP, until the next modify. */
bool t3_qp_readable(struct t3_qp *qp);

/*
 * IDLE -> RTS: attach the endpoint, create the QP's context in the card with
 * an RDMA_INIT on the connection's offload queue. May sleep. On success the QP
 * holds a reference on ep (t3_ep_get) and the endpoint one on the QP, to be
 * dropped with t3_qp_disconnected() at the last CPL of the connection, since
 * until then the card may fetch from the ring.
 *
 * *acked tells whether the card will acknowledge the RDMA_INIT with a
 * CPL_TX_DMA_ACK (it does if receives were posted).
 */
int t3_qp_connect(struct t3_qp *qp, struct t3_ep *ep,
		  const struct t3_conn_attrs *attrs, bool *acked);

/*
 * Report an event of the connection. Any context. 0, or -EINVAL if the state
 * machine refuses it (counted and traced). Events of the connection:
 *
 *   T3_QPEV_PEER_CLOSE	FIN of the peer, or our own graceful close has begun
 *   T3_QPEV_CLOSED	both directions closed: detach, IDLE
 *   T3_QPEV_LOST	reset, timeout, bad close: detach, ERROR
 *
 * Detaching drops the QP's reference on the endpoint (t3_ep_put), and may be
 * the last thing that happens to it: the caller needs its own.
 */
int t3_qp_report(struct t3_qp *qp, enum t3_qp_event ev);

/* --- border: what the connection manager offers -------------------------- */

int t3_cm_init(void);
void t3_cm_exit(void);
/* add callback; tables of tdev may be used. */
int t3_cm_open(struct t3_dev *dev);
/*
 * The card works and will go on: every connection is aborted on it, so that it
 * has none left of which nobody knows. Bounded, as t3_cm_stop().
 */
void t3_cm_retire(struct t3_dev *dev);
/*
 * remove callback, T3_DEV_GONE is set and no handler runs any more: every
 * endpoint gives up its ids and L2T entry, reports LOST or CLOSED, and wakes
 * its waiters. Bounded; must not take rtnl nor wait for someone who does.
 */
void t3_cm_stop(struct t3_dev *dev);
/*
 * T3_DEV_GONE is set, but cxgb3 does not know: the same for endpoints and for
 * those who wait for listeners, without waiting for them.
 */
void t3_cm_fatal(struct t3_dev *dev);
/* Whether there is any endpoint. */
bool t3_cm_busy(struct t3_dev *dev);
/* A QP that was taken out of dev->qps: a connect that is meant for it ends now. */
void t3_cm_qp_goes(struct t3_dev *dev, u32 qpn);
/* After ib_unregister_device(): no endpoint is left. */
void t3_cm_close(struct t3_dev *dev);
extern cxgb3_cpl_handler_func t3_cpl_handlers[CXGB3_NUM_CPL_CMDS];
int t3_cm_redirect(void *ctx, struct dst_entry *old, struct dst_entry *new,
		   struct l2t_entry *l2t);
extern struct cxgb3_client t3_client;

int t3_cm_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int t3_cm_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int t3_cm_reject(struct iw_cm_id *cm_id, const void *pdata, u8 len);
int t3_cm_create_listen(struct iw_cm_id *cm_id, int backlog);
int t3_cm_destroy_listen(struct iw_cm_id *cm_id);
int t3_cm_fill_res_entry(struct sk_buff *msg, struct rdma_cm_id *cm_id);

/* Atomic. */
void t3_ep_get(struct t3_ep *ep);
void t3_ep_put(struct t3_ep *ep);
/*
 * Any context, no lock of ours held. Close the connection: with a FIN, or, if
 * abrupt, with a RST. Returns at once; the outcome comes as a QP event.
 */
void t3_ep_disconnect(struct t3_ep *ep, bool abrupt);
/*
 * Any context. A TERMINATE has been posted on the connection: if it is not
 * closed within a deadline, abort it.
 */
void t3_ep_terminating(struct t3_ep *ep);
/* Softirq. The connection makes progress: its next hop is reachable. */
void t3_ep_confirm_neigh(struct t3_ep *ep);

#endif
