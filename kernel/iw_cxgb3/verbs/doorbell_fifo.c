// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbells while the FIFO of the card is full.
 *
 * When the doorbell FIFO of the card is full, or has dropped a doorbell, requests
 * are still posted but no doorbell is rung. The library reads that in the QP's
 * status word. When the FIFO has drained, every connected QP is rung once, and the
 * control QP too. That happens when cxgb3 reports the empty FIFO, or after
 * T3_DB_WATCHDOG, if that interrupt was lost.
 *
 * There may be more QPs than the FIFO has entries, and doorbells that it drops are
 * always those of the last QPs. So QPs are rung in batches, with time for the card in
 * between. If programs fill the FIFO meanwhile, the next round begins where this one
 * stops: the programs that were rung first cannot keep the others from it.
 *
 * db_mutex keeps T3_DEV_DB_OFF and the status words of all QPs consistent: a QP
 * whose word stays at "off" while the flag is clear would never be rung again. No
 * process takes it: one without processor time would keep all doorbells off.
 */
#include <linux/delay.h>

#include "uapi/t3_abi.h"
#include "verbs.h"

#define T3_DB_BATCH	32
#define T3_DB_WATCHDOG	HZ

static void t3_qp_doorbell_off(struct t3_qp *qp)
{
	lockdep_assert_held(&t3_qp_dev(qp)->db_mutex);
	if (qp->user)
		t3_qp_set_status(qp, T3_QP_STATUS_DB_OFF, 0);
}

/*
 * Return: a doorbell was rung. One that is not connected needs none: RDMA_INIT makes the card read
 * the ring from its first slot. A user may have thousands of these, for which others would wait.
 */
static bool t3_qp_doorbell_on(struct t3_qp *qp)
{
	lockdep_assert_held(&t3_qp_dev(qp)->db_mutex);
	if (qp->user)
		t3_qp_set_status(qp, 0, T3_QP_STATUS_DB_OFF);
	/* Posts that saw "off" come before this, so before the RDMA_INIT of a later connection. */
	smp_mb();
	if (!t3_qp_is_busy(qp))
		return false;
	t3_ring_doorbell(t3_qp_dev(qp), qp->id);
	return true;
}

void t3_doorbells_off(struct t3_dev *dev)
{
	unsigned long id = 0;
	struct t3_qp *qp;

	/* Stops t3_doorbells_on(), which has the mutex. */
	set_bit(T3_DEV_DB_OFF, &dev->flags);
	mutex_lock(&dev->db_mutex);
	set_bit(T3_DEV_DB_OFF, &dev->flags);
	smp_mb__after_atomic();	/* a QP that the walk misses sees the flag: t3_doorbell_init() */
	for (; (qp = t3_qp_next(dev, &id, ULONG_MAX)); id++) {
		t3_qp_doorbell_off(qp);
		t3_qp_put(qp);
	}
	mutex_unlock(&dev->db_mutex);
	queue_delayed_work(t3_workqueue, &dev->db_work, T3_DB_WATCHDOG);
}

/*
 * False if the FIFO is full again. Then db_next is the next QP to ring. The mutex is free between
 * batches, so that t3_doorbells_off() comes soon.
 */
static bool t3_doorbells_on_range(struct t3_dev *dev, unsigned long id, unsigned long last)
	__must_hold(&dev->db_mutex)
{
	unsigned int batch = 0;
	struct t3_qp *qp;

	lockdep_assert_held(&dev->db_mutex);
	for (; (qp = t3_qp_next(dev, &id, last)); id++) {
		batch += t3_qp_doorbell_on(qp);
		t3_qp_put(qp);
		if (batch < T3_DB_BATCH)
			continue;
		batch = 0;
		mutex_unlock(&dev->db_mutex);
		usleep_range(1000, 2000);
		mutex_lock(&dev->db_mutex);
		if (test_bit(T3_DEV_DB_OFF, &dev->flags)) {
			dev->db_next = id + 1;
			return false;
		}
	}
	return true;
}

static void t3_doorbells_on(struct t3_dev *dev)
{
	unsigned long first;

	mutex_lock(&dev->db_mutex);
	clear_bit(T3_DEV_DB_OFF, &dev->flags);
	/* From here on each post rings its own doorbell, see t3_ring_doorbell(). */
	smp_mb__after_atomic();
	first = dev->db_next;
	if (t3_doorbells_on_range(dev, first, ULONG_MAX) && first)
		t3_doorbells_on_range(dev, 0, first - 1);
	mutex_unlock(&dev->db_mutex);
	t3_ctrl_ring_again(dev);
}

void t3_doorbell_work(struct work_struct *work)
{
	t3_doorbells_on(container_of(to_delayed_work(work), struct t3_dev, db_work));
}

/*
 * Set up the status word of a new user QP, which t3_qp_next() can already find. A task that changes
 * the flag walks the QPs after that. So the word is right if the flag is still the same after the
 * word was written (t3_status_change() is a full barrier).
 */
void t3_doorbell_init(struct t3_qp *qp)
{
	struct t3_dev *dev = t3_qp_dev(qp);
	bool off;

	do {
		off = test_bit(T3_DEV_DB_OFF, &dev->flags);
		t3_qp_set_status(qp, off ? T3_QP_STATUS_DB_OFF : 0, off ? 0 : T3_QP_STATUS_DB_OFF);
	} while (off != test_bit(T3_DEV_DB_OFF, &dev->flags));
}
