/* SPDX-License-Identifier: GPL-2.0 */
/* Work items that do what has changed with interfaces and addresses. */
#ifndef T3_UPDATE_H
#define T3_UPDATE_H

#include <linux/jiffies.h>
#include <linux/minmax.h>

/*
 * The delay of a work item that took @took jiffies when it ran last. It is for processes that
 * change interfaces and addresses of a namespace of their own in a loop, and may have many ids or
 * connections: they use a fifth of a processor, unless an update takes so long that the changes of
 * others would have to wait.
 */
static inline unsigned long t3_update_delay(unsigned long took)
{
	return HZ / 50 + min(4 * took, (unsigned long)HZ);
}

#endif
