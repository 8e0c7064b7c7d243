// SPDX-License-Identifier: GPL-2.0
/*
 * Updates of what depends on interfaces and addresses. The notifiers of their changes only queue
 * them.
 */
#include <t3_update.h>

#include "compat.h"
#include "rdma_cm.h"

/* Of the work item of a struct cm_update. */
void cm_update_work(struct work_struct *work)
{
	struct cm_update *update = container_of(work, struct cm_update, work.work);
	unsigned long start = jiffies;

	update->update();
	WRITE_ONCE(update->took, jiffies - start);
}

void cm_update_queue(struct cm_update *update)
{
	queue_delayed_work(t3_unbound_wq, &update->work,
			   t3_update_delay(READ_ONCE(update->took)));
}
