// SPDX-License-Identifier: GPL-2.0
/*
 * Points: a recording lists the threads that pass them, and the armed point holds one thread.
 * There is one recording and one held thread at a time.
 */
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "races.h"

static DEFINE_SPINLOCK(lock);
static bool recording;
static u32 count;
static struct t3_races_passage passages[T3_RACES_MOST];

static struct t3_races_arm armed;
static bool is_armed;
static u32 seen;
static bool passed;		/* by a thread that must not sleep */
static struct completion held = COMPLETION_INITIALIZER(held);
static struct completion released = COMPLETION_INITIALIZER(released);

/* False in an RCU read-side section, in an interrupt and under a spinlock. */
static bool races_may_sleep(void)
{
	return preemptible() && !rcu_preempt_depth();
}

void t3_race_point(const char *name)
{
	unsigned long flags;
	bool hold;

	if (!READ_ONCE(recording) && !READ_ONCE(is_armed))
		return;
	hold = races_may_sleep();
	spin_lock_irqsave(&lock, flags);
	if (recording && count < T3_RACES_MOST) {
		strscpy(passages[count].name, name, T3_RACES_NAME);
		passages[count].may_sleep = hold;
		count++;
	}
	if (is_armed && !strcmp(armed.name, name) && ++seen == armed.nth) {
		WRITE_ONCE(is_armed, false);
		passed = !hold;
		complete(&held);
	} else {
		hold = false;
	}
	spin_unlock_irqrestore(&lock, flags);
	if (hold)
		wait_for_completion(&released);
}
EXPORT_SYMBOL_GPL(t3_race_point);

void races_record(void)
{
	spin_lock_irq(&lock);
	count = 0;
	WRITE_ONCE(recording, true);
	spin_unlock_irq(&lock);
}

int races_recording(struct t3_races_recording __user *to)
{
	struct t3_races_recording request;

	spin_lock_irq(&lock);
	WRITE_ONCE(recording, false);
	spin_unlock_irq(&lock);
	if (copy_from_user(&request, to, sizeof(request)))
		return -EFAULT;
	request.count = min(request.capacity, count);
	if (copy_to_user(u64_to_user_ptr(request.passages), passages,
			 request.count * sizeof(passages[0])) ||
	    copy_to_user(to, &request, sizeof(request)))
		return -EFAULT;
	return 0;
}

int races_arm(const struct t3_races_arm *arm)
{
	spin_lock_irq(&lock);
	armed = *arm;
	armed.name[T3_RACES_NAME - 1] = 0;
	seen = 0;
	passed = false;
	reinit_completion(&held);
	reinit_completion(&released);
	WRITE_ONCE(is_armed, true);
	spin_unlock_irq(&lock);
	return 0;
}

int races_wait(unsigned int ms)
{
	long left = wait_for_completion_interruptible_timeout(&held, msecs_to_jiffies(ms));

	if (left < 0)
		return left;
	if (!left)
		return -ETIMEDOUT;
	return passed ? -EAGAIN : 0;
}

void races_release(void)
{
	spin_lock_irq(&lock);
	WRITE_ONCE(is_armed, false);
	spin_unlock_irq(&lock);
	complete_all(&released);
}
