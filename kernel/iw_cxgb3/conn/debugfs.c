// SPDX-License-Identifier: GPL-2.0
/*
 * debugfs: connections of a device with their last transitions, the last ended
 * connections, and listeners.
 *
 *   12 tid 0x0003 10.0.0.1:41234 -> 10.0.0.2:7471 fpdu
 *        0.000000 idle + connect -> connecting
 *        0.003125 connecting + established -> mpa-req-sent
 */
#include <linux/debugfs.h>
#include <linux/math64.h>
#include <linux/seq_file.h>

#include "cm.h"

static void t3_ep_show_steps(struct seq_file *s, const struct t3_ep_log *log)
{
	unsigned int i, oldest = t3_fsm_oldest(&log->history), end = log->history.events;
	u64 start = log->ns[oldest % T3_FSM_HISTORY];
	const struct t3_fsm_entry *step;
	u32 usec;
	u64 sec;

	for (i = oldest; i != end; i++) {
		step = &log->history.entries[i % T3_FSM_HISTORY];
		sec = div_u64_rem(div_u64(log->ns[i % T3_FSM_HISTORY] - start, NSEC_PER_USEC),
				  USEC_PER_SEC, &usec);
		seq_printf(s, "%6llu.%06u %s + %s -> %s%s\n", sec, usec,
			   ep_state_name(step->from), ep_event_name(step->event),
			   ep_state_name(step->to), step->refused ? " REFUSED" : "");
	}
}

static void t3_ep_show_head(struct seq_file *s, u32 id, u32 tid, const struct sockaddr_in *local,
			    const struct sockaddr_in *remote, bool active, const char *state)
{
	seq_printf(s, "%u tid 0x%04x %pISpc %s %pISpc %s\n", id, tid, local,
		   active ? "->" : "<-", remote, state);
}

/*
 * The runners of the endpoints run concurrently: a line may be outdated, and a
 * transition that is being recorded may be incomplete.
 */
static int endpoints_show(struct seq_file *s, void *unused)
{
	struct t3_cm_dev *cm = s->private;
	struct t3_ep *ep;
	unsigned long id;

	xa_for_each(&cm->eps, id, ep) {
		ep = t3_ep_find(cm->dev, id);
		if (!ep)
			continue;
		t3_ep_show_head(s, ep->id, ep->tid, &ep->local, &ep->remote, ep->active,
				ep_state_name(READ_ONCE(ep->state)));
		t3_ep_show_steps(s, &ep->log);
		t3_ep_put(ep);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(endpoints);

static int closed_endpoints_show(struct seq_file *s, void *unused)
{
	struct t3_cm_dev *cm = s->private;
	struct t3_ep_log *log;
	unsigned int i;

	log = kmalloc(sizeof(*log), GFP_KERNEL);
	if (!log)
		return -ENOMEM;
	for (i = 0; i < T3_CLOSED_LOGS; i++) {
		spin_lock_bh(&cm->lock);
		*log = cm->closed_logs[(cm->nclosed + i) & (T3_CLOSED_LOGS - 1)];
		spin_unlock_bh(&cm->lock);
		if (!log->history.events)
			continue;
		t3_ep_show_head(s, log->id, log->tid, &log->local, &log->remote, log->active,
				"ended");
		t3_ep_show_steps(s, log);
	}
	kfree(log);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(closed_endpoints);

static int listeners_show(struct seq_file *s, void *unused)
{
	struct t3_cm_dev *cm = s->private;
	struct t3_listener *l;

	spin_lock_bh(&cm->lock);
	list_for_each_entry(l, &cm->listeners, link)
		seq_printf(s, "stid 0x%x %pI4:%u half-open %u of %u%s\n", l->stid, &l->addr,
			   be16_to_cpu(l->port),
			   context_unsafe(READ_ONCE(l->half_open)),	/* a snapshot */
			   l->max_half_open, READ_ONCE(l->replied) ? "" : ", no reply yet");
	spin_unlock_bh(&cm->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(listeners);

void t3_cm_debugfs_add(struct t3_cm_dev *cm)
{
	struct dentry *dir = debugfs_create_dir("cm", cm->dev->debugfs);

	debugfs_create_file("endpoints", 0400, dir, cm, &endpoints_fops);
	debugfs_create_file("closed_endpoints", 0400, dir, cm, &closed_endpoints_fops);
	debugfs_create_file("listeners", 0400, dir, cm, &listeners_fops);
	cm->debugfs = dir;
}

void t3_cm_debugfs_remove(struct t3_cm_dev *cm)
{
	debugfs_remove_recursive(cm->debugfs);
}
