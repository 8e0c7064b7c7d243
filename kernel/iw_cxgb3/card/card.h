/* SPDX-License-Identifier: GPL-2.0 */
/* The lowest layer: use of the NIC driver, deadlines of the card, its ids and memory. */
#ifndef IW_CXGB3_CARD_H
#define IW_CXGB3_CARD_H

#include <linux/genalloc.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>

#include "hw/t3_cqe.h"
#include "hw/t3_tpt.h"
#include "iw_cxgb3.h"
#include "wq.h"
#include "wr.h"

/* --- nic.c ----------------------------------------------------------------- */

/*
 * If true, the card may be used until t3_dev_leave(). Must not sleep in
 * between (RCU).
 */
bool t3_dev_enter(struct t3_dev *dev);

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
 *
 * A caller that may sleep takes a failure for the end of the card. While it gets no processor time,
 * the timeout passes without an attempt, and two attempts may both meet the command of another
 * thread. So it also makes T3_CONTEXT_ATTEMPTS, which take less than a second while it runs.
 */
int t3_dev_context_ctl(struct t3_dev *dev, unsigned int req, void *data, bool may_sleep);
#define T3_CONTEXT_ATOMIC_MS	10
#define T3_CONTEXT_ATTEMPTS	100
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

/* Longest wait, in card timeouts, for a card that works but has much to do. */
#define T3_CARD_TIMEOUT_LIMIT	6

/*
 * Counted in polls, not in jiffies: if the host stood still (a guest that was paused, a debugger)
 * any time has passed, but the card has had no chance to reply.
 */
struct t3_card_deadline {
	unsigned long polls;		/* that the card may leave unanswered */
	unsigned long polls_in_all;
	u64 reports;			/* t3_card_reports() when polls was set */
};

/* What the card has reported, so that it works: dropped doorbells, and async events. */
static inline u64 t3_card_reports(const struct t3_dev *dev)
{
	return atomic64_read(&dev->counters[T3_CNT_DB_DROP]) + READ_ONCE(dev->async_events);
}

/*
 * True if the deadline has passed, after one more wait. The deadline moves while the card reports
 * something, but only up to its limit, since the waiter cannot be killed. A program can make the
 * card drop doorbells without end. And the reply waits for async events before it, which call the
 * handlers of consumers: the in-tree ib_uverbs wakes any number of pollers there.
 */
static inline bool t3_card_deadline_passed(const struct t3_dev *dev,
					   struct t3_card_deadline *deadline)
{
	u64 reports = t3_card_reports(dev);

	if (reports != deadline->reports) {
		deadline->reports = reports;
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
		.reports = t3_card_reports(_dev),				\
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
/* Total of ids in a range, and of bytes for page lists and receive queues. */
static inline u32 t3_ids_total(const struct t3_ids *ids)
{
	return ids->max - ids->min + 1;
}

static inline u32 t3_pbl_total(const struct t3_dev *dev)
{
	return dev->info.pbl_top - dev->info.pbl_base + 1;
}

static inline u32 t3_rqt_total(const struct t3_dev *dev)
{
	return dev->info.rqt_top - dev->info.rqt_base + 1;
}

/* An id is charged to the quota, if there is one, and must be freed with the same quota. */
int t3_id_get(struct t3_dev *dev, struct t3_ids *ids, struct t3_quota *quota);
void t3_id_put(struct t3_ids *ids, struct t3_quota *quota, u32 id);
void t3_qp_groups_init(struct t3_qp_groups *groups);
void t3_qp_groups_free(struct t3_dev *dev, struct t3_qp_groups *groups);
int t3_qp_id_get(struct t3_dev *dev, struct t3_qp_groups *groups, gfp_t gfp);
void t3_qp_id_put(struct t3_dev *dev, struct t3_qp_groups *groups, u32 id);
/* Adapter memory is charged, too. */
u32 t3_pbl_alloc(struct t3_dev *dev, struct t3_quota *quota, u32 bytes);
void t3_pbl_free(struct t3_dev *dev, struct t3_quota *quota, u32 addr, u32 bytes);
u32 t3_rqt_alloc(struct t3_dev *dev, struct t3_quota *quota, u32 entries);
void t3_rqt_free(struct t3_dev *dev, struct t3_quota *quota, u32 addr, u32 entries);

/* Memory shared with the card. */
struct t3_dma {
	void *va;
	dma_addr_t dma;
	struct page *page;
	size_t size;
};

int t3_dma_alloc(struct t3_dev *dev, struct t3_dma *mem, size_t size, gfp_t gfp);
void t3_dma_free(struct t3_dev *dev, struct t3_dma *mem);
/* 0, -ENOMEM, or -EOPNOTSUPP if memory shared with the card would need syncing. */
int t3_dma_check(struct t3_dev *dev);

/* doorbell.c. Any context. */
void t3_ring_doorbell(struct t3_dev *dev, u32 context);

#endif
