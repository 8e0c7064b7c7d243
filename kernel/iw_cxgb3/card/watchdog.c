// SPDX-License-Identifier: GPL-2.0
/*
 * While there are queue pairs or endpoints, the card must confirm a write every two seconds.
 */
#include "card.h"

#define T3_WATCHDOG_INTERVAL	(2 * HZ)

static void t3_watchdog_work(struct work_struct *work)
{
	struct t3_dev *dev = container_of(to_delayed_work(work), struct t3_dev, watchdog_work);

	if (t3_dev_gone(dev))
		return;
	/* Entry 0 of the TPT is unused and zero: the write does not change it. */
	if (!xa_empty(&dev->qps) || t3_conn_ops.busy(dev))
		t3_ctrl_write(dev, dev->info.tpt_base, NULL, T3_TPT_ENTRY_BYTES);
	queue_delayed_work(t3_workqueue, &dev->watchdog_work, T3_WATCHDOG_INTERVAL);
}

void t3_watchdog_init(struct t3_dev *dev)
{
	INIT_DELAYED_WORK(&dev->watchdog_work, t3_watchdog_work);
}

/* The control QP works. It must not be closed before t3_watchdog_stop(). */
void t3_watchdog_start(struct t3_dev *dev)
{
	queue_delayed_work(t3_workqueue, &dev->watchdog_work, T3_WATCHDOG_INTERVAL);
}

void t3_watchdog_stop(struct t3_dev *dev)
{
	cancel_delayed_work_sync(&dev->watchdog_work);
}
