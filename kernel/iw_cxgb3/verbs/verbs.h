/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The verbs: their objects, with lifetimes and locks, and what the connection manager calls.
 */
#ifndef IW_CXGB3_VERBS_H
#define IW_CXGB3_VERBS_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/completion.h>
#include <linux/kref.h>
#include <rdma/iw_cm.h>

#include "card.h"
#include "cqe.h"
#include "qp_fsm.h"
#include "tpt.h"

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
	bool left;			/* this work, to the task that holds the mutex */
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
	int access;			/* the same: enum ib_access_flags */
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
 * Set or clear bits of a status word that a process has mapped. Kernel threads and the library
 * change the word concurrently, each of them atomically. Not with a loop of cmpxchg: the process
 * could change the word all the time, while interrupts are off here. Ordered before and after.
 */
static inline void t3_status_change(u64 *word, u64 set, u64 clear)
{
	smp_mb__before_atomic(); /* as cmpxchg */
	if (set)
		atomic64_or(set, (atomic64_t *)word);
	if (clear)
		atomic64_andnot(clear, (atomic64_t *)word);
	smp_mb__after_atomic(); /* the same */
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
 * has T3_CLOSE_TIMEOUT to end), removes it from the table and waits until all
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
	/* Set by t3_qp_fsm_apply() and t3_qp_connect(). */
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
	return context_unsafe(&qp->wq);	/* the sizes only */
}

/* Without the lock the answer may be outdated. */
static inline bool t3_qp_is_busy(struct t3_qp *qp)
{
	return context_unsafe(READ_ONCE(qp->busy));	/* a snapshot */
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

extern const struct ib_device_ops t3_verbs_ops, t3_qp_ops, t3_cq_ops, t3_mr_ops;

/* verbs.c. The entry takes over the ring's memory. Return error pointers. */
struct t3_mmap *t3_mmap_insert(struct t3_ucontext *uc, const struct t3_mmap *what, size_t len);

/* pbl.c */
void t3_pd_init(struct t3_pd *pd);
void t3_pd_close(struct t3_dev *dev, struct t3_pd *pd);
/*
 * A connected QP or a window: the card may use page lists of regions that have ended. Any context.
 * After the last put the ranges that the domain keeps are freed.
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

/* doorbell_fifo.c */
void t3_doorbells_off(struct t3_dev *dev);
void t3_doorbell_work(struct work_struct *work);
void t3_doorbell_init(struct t3_qp *qp);

/* --- for the connection manager ------------------------------------------- */

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
int t3_qp_fsm_apply(struct t3_qp *qp, enum t3_qp_event ev);

#endif
