// SPDX-License-Identifier: GPL-2.0
/*
 * Updates of what depends on interfaces and addresses. The notifiers of their changes only queue
 * them.
 */
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

/*
 * The delay is for processes that change interfaces and addresses in a loop, and may have many
 * ids: they use a fifth of a processor, unless an update takes so long that the changes of others
 * would have to wait.
 */
static unsigned long cm_update_delay(const struct cm_update *update)
{
	return HZ / 50 + min(4 * READ_ONCE(update->took), (unsigned long)HZ);
}

void cm_update_queue(struct cm_update *update)
{
	queue_delayed_work(t3_unbound_wq, &update->work, cm_update_delay(update));
}
