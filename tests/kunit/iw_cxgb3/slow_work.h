/* SPDX-License-Identifier: GPL-2.0 */
/* A work item that takes a while: what ends its queue must wait for it. */
#ifndef T3_KUNIT_SLOW_WORK_H
#define T3_KUNIT_SLOW_WORK_H

#include <linux/delay.h>
#include <linux/workqueue.h>

struct slow_work {
	struct work_struct work;
	bool done;
};

static void run_slowly(struct work_struct *work)
{
	msleep(50);
	container_of(work, struct slow_work, work)->done = true;
}

#endif
