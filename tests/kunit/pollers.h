/* SPDX-License-Identifier: GPL-2.0 */
/* Many pollers of one file, as an epoll instance with many descriptors of it adds them. */
#ifndef T3_KUNIT_POLLERS_H
#define T3_KUNIT_POLLERS_H

#include <linux/poll.h>

#define NUMBER_OF_POLLERS	100

struct poller {
	struct poll_table_struct table;
	struct wait_queue_entry entry;
	wait_queue_head_t *queue;
};

static struct {
	struct poller *pollers;
	struct task_struct *poster;	/* queues the event */
	atomic_t woken_by_poster, woken;
} polling;

static int poller_woken(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	if (current == polling.poster)
		atomic_inc(&polling.woken_by_poster);
	atomic_inc(&polling.woken);
	return 1;
}

static void add_poller(struct file *filp, wait_queue_head_t *queue, struct poll_table_struct *table)
{
	struct poller *poller = container_of(table, struct poller, table);

	poller->queue = queue;
	init_waitqueue_func_entry(&poller->entry, poller_woken);
	add_wait_queue(queue, &poller->entry);
}

static void pollers_begin(struct kunit *test, struct file *filp)
{
	int i;

	polling.pollers = kunit_kcalloc(test, NUMBER_OF_POLLERS, sizeof(*polling.pollers),
					GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, polling.pollers);
	polling.poster = current;
	atomic_set(&polling.woken_by_poster, 0);
	atomic_set(&polling.woken, 0);
	for (i = 0; i < NUMBER_OF_POLLERS; i++) {
		init_poll_funcptr(&polling.pollers[i].table, add_poller);
		filp->f_op->poll(filp, &polling.pollers[i].table);
	}
}

/* After an event: all are woken, and none of them by the task that has queued it. */
static void pollers_end(struct kunit *test)
{
	int i;

	for (i = 0; i < 500 && atomic_read(&polling.woken) < NUMBER_OF_POLLERS; i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, atomic_read(&polling.woken), NUMBER_OF_POLLERS);
	KUNIT_EXPECT_EQ(test, atomic_read(&polling.woken_by_poster), 0);
	for (i = 0; i < NUMBER_OF_POLLERS; i++)
		remove_wait_queue(polling.pollers[i].queue, &polling.pollers[i].entry);
}

#endif
