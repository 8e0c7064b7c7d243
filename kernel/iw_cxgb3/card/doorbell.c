// SPDX-License-Identifier: GPL-2.0
/*
 * The doorbell of a queue pair that the driver rings. Programs ring those of their own queue pairs
 * on a page that they have mapped.
 */
#include <linux/io.h>

#include "card.h"

void t3_ring_doorbell(struct t3_dev *dev, u32 context)
{
	if (context != T3_CTRL_QP_CONTEXT) {
		/*
		 * Make the slots visible before reading the flag: either the flag
		 * is clear here, or t3_doorbells_on() rings after the slots are
		 * visible.
		 */
		smp_mb();
		if (test_bit(T3_DEV_DB_OFF, &dev->flags))
			return;
	}
	if (!t3_dev_enter(dev))
		return;
	/* writel() orders the slots before the doorbell. */
	writel(T3_KDOORBELL_EGRESS | context, dev->info.kdb_addr);
	t3_dev_leave(dev);
}
