/* SPDX-License-Identifier: GPL-2.0 */
/*
 * iw_cxgb3: RDMA driver for the Chelsio T3. Objects, their lifetime, their
 * locks, and the interface between the verbs side and the connection manager.
 *
 * Layers, from top to bottom, each in a folder. A file calls its own folder and those below it.
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
#include "t3_context.h"
#include "tpt.h"
#include "wq.h"
#include "wr.h"

#define DRV_NAME		"iw_cxgb3"
#define T3_FW_MAJOR		7
#define T3_MAX_PORTS		2
#define T3_MAX_RD_ATOM		8
/* Entries of a CQ beyond those requested, for CQEs of no posted request (RTR responses). */
#define T3_CQ_SPARE		16
#define T3_MAX_CQE		(T3_MAX_CQ_ENTRIES - T3_CQ_SPARE)
#define T3_MAX_PBL_PAGES	BIT(20)
/*
 * Page sizes of user regions, as a bitmap. Each protection domain with a region has a sink of the
 * size of the region's pages.
 */
#define T3_MR_PAGE_SIZES	(T3_PAGE_SIZES & (2UL * SZ_2M - 1) & PAGE_MASK)
#define T3_MR_PAGE_SHIFTS	(ilog2(SZ_2M) - PAGE_SHIFT + 1)

#define T3_SHUT_DOWN_TIMEOUT	(2 * HZ)	/* for connections to be aborted */
/* For RDMA to end before a suspend: as long as the kernel waits for processes to freeze. */
#define T3_SUSPEND_TIMEOUT	(20 * HZ)

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

/*
 * If true, the card may be used until t3_dev_leave(). Must not sleep in
 * between (RCU).
 */
bool t3_dev_enter(struct t3_dev *dev);	/* nic.c, as the next functions */

static inline void t3_dev_leave(struct t3_dev *dev)
{
	__acquire_shared(RCU);	/* sparse does not track the conditional lock of t3_dev_enter() */
	rcu_read_unlock();
}

/* How long to wait for a reply of the card, in jiffies. */
unsigned long t3_card_timeout(void);

/* ctl() of the NIC driver; -EIO once the card is gone. Interrupts must be on. */
int t3_dev_ctl(struct t3_dev *dev, unsigned int req, void *data);
/*
 * The same for a command on an SGE context, which is repeated while the card is slow: until the
 * card's timeout, or for T3_CONTEXT_ATOMIC_MS if the caller may not sleep.
 */
int t3_dev_context_ctl(struct t3_dev *dev, unsigned int req, void *data, bool may_sleep);
#define T3_CONTEXT_ATOMIC_MS	10
/* Always consumes the buffer. 0 or -errno; congestion (NET_XMIT_CN) is success. */
int t3_dev_send(struct t3_dev *dev, struct sk_buff *skb);
/*
 * False in a softirq that has interrupted a worker. cxgb3 restarts a full send queue in a work
 * item, and holds the queue's lock there with softirqs enabled (docs/limits.md). A softirq that
 * sends would wait for this lock forever.
 */
static inline bool t3_dev_may_send(void)
{
	return !in_softirq() || !(current->flags & PF_WQ_WORKER);
}

/* --- health.c -------------------------------------------------------------- */

void t3_health_init(struct t3_dev *dev);
void t3_dev_dispatch(struct t3_dev *dev, enum ib_event_type type, u32 port);
/*
 * Mark the card as gone: every waiter and every later use fails with -EIO. False if
 * it was gone before. stop_dma: take bus mastering from the card first. It is needed
 * unless the card has confirmed that it does not access our memory any more.
 */
bool t3_dev_set_gone(struct t3_dev *dev, bool stop_dma);
/* The card is unresponsive, or cannot be used safely any more. Any context. */
void t3_dev_fatal(struct t3_dev *dev, const char *what);
/* A card that was unplugged replies to nothing, so no thread must wait for it. Any context. */
void t3_dev_check_present(struct t3_dev *dev);
/*
 * Poll for messages whose interrupt was lost. A card that is not there any more is marked as gone.
 */
void t3_card_poll(struct t3_dev *dev);

#define T3_CARD_POLL	HZ

/* In card timeouts: the longest wait for a card that reports dropped doorbells. */
#define T3_CARD_TIMEOUT_LIMIT	6

/*
 * Counted in polls, not in jiffies: if the host stood still (a guest that was paused, a debugger)
 * any time has passed, but the card has had no chance to reply.
 */
struct t3_card_deadline {
	unsigned long polls;		/* that the card may leave unanswered */
	unsigned long polls_in_all;
	s64 drops;			/* T3_CNT_DB_DROP when polls was set */
};

/*
 * True if the deadline has passed, after one more wait. The deadline moves when the card reports
 * dropped doorbells, but only up to its limit: a program can make the card drop doorbells without
 * end, and the waiter cannot be killed.
 */
static inline bool t3_card_deadline_passed(const struct t3_dev *dev,
					   struct t3_card_deadline *deadline)
{
	s64 drops = atomic64_read(&dev->counters[T3_CNT_DB_DROP]);

	if (drops != deadline->drops) {
		deadline->drops = drops;
		deadline->polls = t3_card_timeout() / T3_CARD_POLL;
	}
	return !deadline->polls-- || !deadline->polls_in_all--;
}

/*
 * Sleep on a wait queue until the card has fulfilled a condition, and call poll(dev)
 * every T3_CARD_POLL. If the deadline passes, the device is marked as gone
 * (t3_dev_fatal()). 0, or -EIO if the device is gone.
 */
#define t3_wait_or_fatal(dev, wq, cond, poll, what) ({			\
	struct t3_dev *_dev = (dev);					\
	struct t3_card_deadline _deadline = {				\
		.polls = t3_card_timeout() / T3_CARD_POLL,		\
		.polls_in_all = T3_CARD_TIMEOUT_LIMIT * t3_card_timeout() / T3_CARD_POLL,	\
		.drops = atomic64_read(&_dev->counters[T3_CNT_DB_DROP]),	\
	};								\
									\
	while (!wait_event_timeout(wq, (cond) || t3_dev_gone(_dev),	\
				   T3_CARD_POLL)) {			\
		if (t3_card_deadline_passed(_dev, &_deadline)) {		\
			t3_dev_fatal(_dev, what);			\
			break;						\
		}							\
		(poll)(_dev);						\
	}								\
	t3_dev_gone(_dev) ? -EIO : 0;					\
})

/* --- memory shared with the card and, for user objects, with a process ---- */

struct t3_dma {
	void *va;
	dma_addr_t dma;
	struct page *page;
	size_t size;
};

/*
 * A region that a process may map. The entry of a ring owns the ring's memory
 * from its insertion on: the memory is freed with the last mapping.
 */
struct t3_mmap {
	struct rdma_user_mmap_entry rdma;
	struct t3_dma mem;
	phys_addr_t doorbell;		/* a page of BAR 2, instead of mem */
};

struct t3_ucontext {
	struct ib_ucontext ibucontext;
	struct t3_qp_groups groups;
	struct t3_quota *quota;		/* holds a reference; its objects use it */
};

/* What the card may do with the pages of a list. */
#define T3_PBL_WRITABLE		BIT(0)
#define T3_PBL_REMOTE_READ	BIT(1)
#define T3_PBL_REMOTE_WRITE	BIT(2)
#define T3_PBL_ALL_RIGHTS	(T3_PBL_WRITABLE | T3_PBL_REMOTE_READ | T3_PBL_REMOTE_WRITE)

/* A range of adapter memory for page lists: that of a region, or one that a domain keeps. */
struct t3_pbl_range {
	struct list_head node;		/* in t3_pd.kept */
	u32 addr;			/* absolute byte address */
	u32 bytes;
	u8 page_code;			/* of the region, or of the last one that had it */
	u8 rights;			/* T3_PBL_*, the same */
};

struct t3_pd {
	struct ib_pd ibpd;
	u32 id;
	struct t3_quota *quota;		/* of the context; regions and windows use it */
	/* Page lists, pbl.c. */
	struct mutex mutex;		/* also for the elements of the list */
	struct list_head kept __guarded_by(&mutex);	/* t3_pbl_range */
	struct t3_dma sinks[T3_MR_PAGE_SHIFTS] __guarded_by(&mutex);	/* by page size */
	atomic_t users;			/* connected QPs, and windows */
	struct work_struct release_work;	/* frees the kept ranges after the last user */
};

/*
 * A memory region. Deregistration, in this order: the TPT entry is zeroed and the card confirms
 * the write, the page list is neutralised (t3_mr_unlist()), pages are unpinned, the STag is freed.
 */
struct t3_mr {
	struct ib_mr ibmr;
	struct t3_tpt tpt;		/* the entry as last written or posted */
	struct t3_pd *pd;
	struct t3_pbl_range *range;	/* of the page list */
	dma_addr_t sink;		/* for the entries of the list after the region's end */
	struct t3_umem *umem;		/* user regions only */
	/* Fast registration: the list for the next work request. */
	u32 npages;
	u64 pages[T3_MAX_FASTREG_PAGES];
};

struct t3_mw {
	struct ib_mw ibmw;
};

/*
 * A completion queue.
 *
 * References: one from creation, one per async event in progress. Destroy
 * removes the CQ from the table and waits until the others are dropped.
 */
struct t3_cq {
	struct ib_cq ibcq;
	u32 id;
	struct t3_quota *quota;
	u32 entries;			/* power of two, cqe + T3_CQ_SPARE at least */
	atomic_t rtr_avail;		/* spare entries, see t3_qp_reserve_rtr_entry() */
	spinlock_t lock;		/* also for the state of kernel work queues */
	spinlock_t comp_lock;		/* one completion handler at a time */
	bool armed;			/* the next event calls the handler */
	/* User CQ: the last event that arming raised, see t3_cq_may_raise(). */
	bool progress __guarded_by(&lock);	/* an entry was reported, or a QP flushed, since */
	u32 raised_index __guarded_by(&lock);	/* index of the card then */
	u32 raised_pending __guarded_by(&lock);	/* unread entries then */
	/* User CQ: flushes since the CQ was armed, see t3_cq_notify(). */
	bool flush_reported __guarded_by(&lock);
	bool flush_unreported __guarded_by(&lock);	/* after that: when the CQ is armed */
	/* User CQ: the last arming, see t3_cq_last_reported(). */
	bool first_reported __guarded_by(&lock);	/* first entry since: had its event */
	u32 armed_end __guarded_by(&lock);	/* the card's next entry, modulo 2 * entries */
	u32 rptr __guarded_by(&lock);	/* hardware entries consumed, unmasked */
	struct list_head ready __guarded_by(&lock);	/* t3_qp_side with completions to poll */
	struct xarray qps;		/* id -> t3_qp, kernel QPs that use this CQ */
	struct work_struct comp_work;	/* calls the handler for a caller that may run inside it */
	struct t3_dma ring;
	struct t3_mmap *map;		/* user CQ: owner of the ring's memory */
	u32 __user *user_rptr;
	bool status_word;		/* user CQ: the library reads the status word */
	bool overflowed;		/* reported to the consumer */
	struct kref ref;
	struct completion released;
};

/* Attributes of a connection, from the endpoint. t3_qp_connect() copies them into the QP. */
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
 * Change bits of a status word that a process has mapped. Kernel threads and the library
 * change the word concurrently, each of them atomically.
 */
static inline void t3_status_change(u64 *word, u64 set, u64 clear)
{
	set_mask_bits(word, clear, set);
}

/* Send or receive side of a QP, as an element of the ready list of its CQ. */
struct t3_qp_side {
	struct list_head node;
	struct t3_qp *qp;
	bool send;
};

/*
 * A queue pair.
 *
 * References (ref): one from creation; one for the connection, from
 * t3_qp_connect() until the last message of the card about it, because the card
 * may fetch from the ring until then; those of the iWARP CM core; one per event
 * in progress. Destroy moves the QP to ERROR (a connection that is being closed
 * has T3_EP_LINGER to end), removes it from the table and waits until all
 * references are dropped. A lookup takes its reference under the
 * table's lock, except for t3_iw_get_qp(), which describes why.
 *
 * ep is set from t3_qp_connect() until the event that drops the endpoint; while
 * it is set the QP holds a reference on the endpoint.
 */
struct t3_qp {
	struct ib_qp ibqp;
	u32 id;
	u64 serial;			/* of no other QP, also not of one that gets the id later */
	spinlock_t lock;		/* taken in interrupts */
	/* Set by t3_qp_report() and t3_qp_connect(). */
	enum t3_qp_state state __guarded_by(&lock);
	struct t3_ep *ep __guarded_by(&lock);
	struct t3_conn_attrs conn __guarded_by(&lock);	/* valid while ep is set */
	struct t3_wq wq __guarded_by(&lock);
	struct t3_qp_side sq, rq;		/* in t3_cq.ready; CQ lock */
	struct t3_term term;		/* control word of the next TERMINATE */
	bool user;
	bool used __guarded_by(&lock);	/* had a connection since the last reset */
	bool busy __guarded_by(&lock);	/* the card may still access ring and buffers */
	bool resetting __guarded_by(&lock);	/* connects are refused */
	bool dying;			/* no lookup finds it; lock of t3_dev.qps */
	bool found_by_cm;		/* t3_iw_get_qp() returned it; lock of t3_dev.qps */
	unsigned long found_at;		/* RCU state of the last time; the same lock */
	bool sq_sig_all;
	/* Kernel QP: an entry of a CQ contradicts its requests, see t3_cq_end_qp(). */
	bool bad_entry __guarded_by(&lock);
	struct t3_cqe bad_cqe __guarded_by(&lock);
	struct work_struct bad_entry_work;
	/* Holds a spare entry of the send CQ for an RTR read. */
	bool rtr_entry __guarded_by(&lock);
	u32 max_ord;
	u32 max_ird;
	u32 access;			/* enum ib_access_flags; 0: all remote access */
	u32 rqt_addr;			/* absolute byte address */
	struct t3_dma ring;
	struct t3_mmap *map;		/* user QP: owner of the ring's memory */
	struct t3_mmap *db_map;
	struct t3_qp_groups *groups;	/* the id is allocated from them */
	const struct cred *cred;	/* user QP: of its creator at the creation */
	struct pid *creator;		/* user QP: the process that created it */
	struct kref ref;
	struct completion released;
};

/* The sizes of the rings do not change, so they may be read without the lock. */
static inline const struct t3_wq *t3_qp_sizes_of(struct t3_qp *qp)
{
	return context_unsafe(&qp->wq);
}

/* Without the lock the answer may be outdated. */
static inline bool t3_qp_is_busy(struct t3_qp *qp)
{
	return context_unsafe(READ_ONCE(qp->busy));
}

/* RDMA's device of a NIC device, or NULL. It stays until the end of the RCU read-side section. */
static inline struct t3_dev *t3_dev_of(const struct t3cdev *tdev)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_any_held(), "the device may be freed");
	return READ_ONCE(tdev->ulp);
}

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
 * True if the posted requests may be flushed: there is no connection, and the card does not
 * access ring and buffers any more. False while a connection still closes, in any state.
 */
static inline bool t3_qp_flushable(const struct t3_qp *qp)
{
	lockdep_assert_held(&qp->lock);
	if (qp->busy)
		return false;
	return qp->state == T3_QPS_ERROR || (qp->state == T3_QPS_IDLE && qp->used);
}

/* Memory for a process is charged to its memory cgroup, which limits it. */
static inline gfp_t t3_gfp(bool user)
{
	return user ? GFP_KERNEL_ACCOUNT : GFP_KERNEL;
}

/* --- shared by the files of the verbs side and the card services ---------- */

extern struct workqueue_struct *t3_workqueue;

/* verbs.c. The entry takes over the ring's memory. Return error pointers. */
struct t3_mmap *t3_mmap_insert(struct t3_ucontext *uc, const struct t3_dma *mem, size_t len);
struct t3_mmap *t3_mmap_insert_doorbell(struct t3_ucontext *uc, phys_addr_t addr);

/* watchdog.c */
void t3_watchdog_init(struct t3_dev *dev);
void t3_watchdog_start(struct t3_dev *dev);
void t3_watchdog_stop(struct t3_dev *dev);

/* ctrl.c */
int t3_ctrl_open(struct t3_dev *dev);
void t3_ctrl_close(struct t3_dev *dev);
/* Write to adapter memory; NULL writes zeroes. Returns when the card has confirmed it. */
int t3_ctrl_write(struct t3_dev *dev, u32 addr, const void *data, u32 len);
/* The same with an array in which each element has this value, as BE64. */
int t3_ctrl_fill(struct t3_dev *dev, u32 addr, u64 value, u32 len);
void t3_ctrl_completed(struct t3_dev *dev, u32 counter);
void t3_ctrl_modified(struct t3_dev *dev);
void t3_ctrl_ring_again(struct t3_dev *dev);

/* pools.c */
int t3_rsc_open(struct t3_dev *dev);
void t3_rsc_close(struct t3_dev *dev);
/* Total of ids in a range, and of bytes for page lists. */
static inline u32 t3_ids_total(const struct t3_ids *ids)
{
	return ids->max - ids->min + 1;
}

static inline u32 t3_pbl_total(const struct t3_dev *dev)
{
	return dev->info.pbl_top - dev->info.pbl_base + 1;
}

/* An id is charged to the quota, if there is one, and must be freed with the same quota. */
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

/* pbl.c */
void t3_pd_init(struct t3_pd *pd);
void t3_pd_close(struct t3_dev *dev, struct t3_pd *pd);
/*
 * A connected QP or a window: the card may use page lists of regions that have ended. Any context.
 * The last put frees the ranges that the domain keeps.
 */
static inline void t3_pd_get_user(struct t3_pd *pd)
{
	atomic_inc(&pd->users);
	/* Before RDMA_INIT: a region that ends and does not see the user has cleared its entry. */
	smp_mb__after_atomic();
}

static inline bool t3_pd_is_used(const struct t3_pd *pd)
{
	smp_mb(); /* after the card has confirmed that the TPT entry is cleared */
	return atomic_read(&pd->users);
}

void t3_pd_put_user(struct t3_pd *pd);
/*
 * Make a sink for a region whose pages have a size of 1 << shift, or the next smaller size for
 * which there is memory. Return: log2 of this size, or 0 if there is no memory.
 */
unsigned int t3_sink_get(struct t3_dev *dev, struct t3_pd *pd, unsigned int shift,
			 dma_addr_t *sink);
/*
 * Find adapter memory for a page list: all members of the range but its address are set. @whole:
 * all bytes of all pages are pinned. 0 or -ENOMEM.
 */
int t3_pbl_get(struct t3_dev *dev, struct t3_pd *pd, struct t3_pbl_range *want, bool whole);
/* The region has ended. Takes over the range. */
void t3_pbl_put(struct t3_dev *dev, struct t3_pd *pd, struct t3_pbl_range *range);

/* cq.c. Any context; the last four are for async events and flushing. */
struct t3_cq *t3_cq_find(struct t3_dev *dev, u32 id);
void t3_cq_put(struct t3_cq *cq);
void t3_cq_add_ready(struct t3_cq *cq, struct t3_qp_side *side);
void t3_cq_purge_qp(struct t3_qp *qp);
void t3_cq_flush_qp(struct t3_qp *qp);
void t3_cq_set_user_error(struct t3_cq *cq);
void t3_cq_notify(struct t3_cq *cq);
void t3_cq_notify_later(struct t3_cq *cq);
void t3_cq_written(struct t3_cq *cq);

/* mr.c; the functions are for posting */
extern bool t3_memory_windows;
int t3_mr_fastreg(struct ib_mr *ibmr, u32 key, int access, struct t3_fastreg *fr);
void t3_mr_fastreg_posted(struct t3_dev *dev, struct ib_mr *ibmr, const struct t3_fastreg *fr);
int t3_mr_resolve(struct t3_dev *dev, struct t3_host_sge *sge, u8 *page_code, u32 *pbl_index);

/* post.c */
int t3_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		 const struct ib_send_wr **bad_wr);
int t3_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		 const struct ib_recv_wr **bad_wr);

/* qp_state.c */
struct t3_qp *t3_qp_next(struct t3_dev *dev, unsigned long *id, unsigned long last);
void t3_qp_set_status(struct t3_qp *qp, u64 set, u64 clear);
void t3_qp_free_scratch(struct t3_qp *qp);
enum ib_qp_state t3_qp_verbs_state(const struct t3_qp *qp);

/* qp_event.c */
void t3_qp_async_error(struct t3_qp *qp, const struct t3_cqe *cqe, enum t3_ae_class class);
void t3_qp_bad_entry_work(struct work_struct *work);

/* doorbell.c. Any context. */
void t3_ring_doorbell(struct t3_dev *dev, u32 context);

/* doorbell_fifo.c */
void t3_doorbells_off(struct t3_dev *dev);
void t3_doorbell_work(struct work_struct *work);
void t3_doorbell_init(struct t3_qp *qp);

/* event.c */
int t3_async_event(struct t3cdev *tdev, struct sk_buff *skb);
void t3_adapter_event(struct t3_dev *dev, u32 event);

/* port.c */
void t3_ports_init(struct t3_dev *dev);
int t3_ports_watch(void);
void t3_ports_unwatch(void);

/* stats.c, verbs.c, qp.c, cq.c, mr.c */
extern const struct ib_device_ops t3_stats_ops, t3_verbs_ops, t3_qp_ops, t3_cq_ops, t3_mr_ops;

/* --- interface for the connection manager -------------------------------- */

/* Any context. The lookup takes a reference, or returns NULL. */
struct t3_qp *t3_qp_find(struct t3_dev *dev, u32 id);
void t3_qp_get(struct t3_qp *qp);
void t3_qp_put(struct t3_qp *qp);
/*
 * The last message of the card about the connection of t3_qp_connect() has arrived, or the
 * card has lost its bus mastering. Flushes outstanding requests and drops the endpoint's
 * reference on the QP.
 */
void t3_qp_disconnected(struct t3_qp *qp);

bool t3_qp_reserve_rtr_entry(struct t3_qp *qp);
/* True if the QP grants RDMA READ to the peer. May change with the next modify. */
bool t3_qp_allows_remote_read(struct t3_qp *qp);
bool t3_qp_in_state(struct t3_qp *qp, enum ib_qp_state state);
/* True if the consumer that connects or accepts with this id may use the QP. Process context. */
bool t3_qp_permits(const struct t3_qp *qp, const struct iw_cm_id *cm_id);

/*
 * IDLE -> RTS: attach the endpoint, and create the QP's context in the card with
 * an RDMA_INIT on the connection's offload queue. May sleep. On success the QP
 * holds a reference on ep (t3_ep_get) and the endpoint one on the QP. The
 * endpoint drops it with t3_qp_disconnected() at the last CPL of the connection,
 * since the card may fetch from the ring until then.
 *
 * *acked is set if the card will acknowledge the RDMA_INIT with a
 * CPL_TX_DMA_ACK, which it does if receives were posted.
 */
int t3_qp_connect(struct t3_qp *qp, struct t3_ep *ep,
		  const struct t3_conn_attrs *attrs, bool *acked);

/*
 * Report an event to the QP. Any context; an event of the consumer may sleep
 * (t3_qp_event_may_sleep()). 0, or -EINVAL if the state machine refuses it
 * (counted and traced). Events of the connection:
 *
 *   T3_QPEV_PEER_CLOSE	FIN of the peer in RDMA mode
 *   T3_QPEV_CLOSED	both directions closed: drop the endpoint, IDLE
 *   T3_QPEV_LOST	reset, timeout, bad close: drop the endpoint, ERROR
 *   T3_QPEV_ACCEPT_FAILED	ERROR, unless the QP has a connection
 *
 * Dropping the endpoint is a t3_ep_put(), which may free it: the caller needs
 * its own reference.
 */
int t3_qp_report(struct t3_qp *qp, enum t3_qp_event ev);

/* --- interface of the connection manager --------------------------------- */

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
/* Process context: an interface of the card has lost an address; NULL: it is removed. */
void t3_cm_addr_removed(struct t3_dev *dev, const struct net_device *ndev, const __be32 *addr);
/* After ib_unregister_device(). Waits for the last endpoint and all work items. */
void t3_cm_close(struct t3_dev *dev);
extern cxgb3_cpl_handler_func t3_cpl_handlers[CXGB3_NUM_CPL_CMDS];
extern struct cxgb3_client t3_client;

int t3_cm_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int t3_cm_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int t3_cm_reject(struct iw_cm_id *cm_id, const void *pdata, u8 len);
int t3_cm_create_listen(struct iw_cm_id *cm_id, int backlog);
int t3_cm_destroy_listen(struct iw_cm_id *cm_id);
int t3_cm_fill_res_entry(struct sk_buff *msg, struct rdma_cm_id *cm_id);

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
	 * not close within T3_EP_LINGER of the begin of the close.
	 */
	void (*linger)(struct t3_ep *ep);
};

extern const struct t3_conn_ops t3_conn_ops;	/* cm.c */

/* Any context. */
void t3_ep_get(struct t3_ep *ep);
void t3_ep_put(struct t3_ep *ep);
void t3_ep_disconnect(struct t3_ep *ep, bool abrupt, bool may_sleep);
/*
 * Softirq or process context. The connection makes progress: confirm the neighbour entry of its
 * next hop.
 */
void t3_ep_confirm_neigh(struct t3_ep *ep);

#endif
