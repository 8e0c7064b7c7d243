// SPDX-License-Identifier: GPL-2.0
/* In debugfs: t3_rdma_cm/ids, each id with its history; t3_rdma_cm/mappings, the port mapper. */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "iwpm.h"

static struct dentry *cm_debugfs_dir;

static void cm_show_history_entry(struct seq_file *seq, const struct t3_fsm_entry *entry)
{
	seq_printf(seq, "    %s + %s %s %s status=%d\n", cm_state_name(entry->from),
		   cm_event_name(entry->event), entry->refused ? "refused, stays" : "->",
		   cm_state_name(entry->to), entry->status);
}

static int cm_show_id(struct seq_file *seq, void *v)
{
	struct cm_id *id = v;
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&id->lock, flags);
	seq_printf(seq, "id %u: %s, %u refused, %pISpc - %pISpc%s%s\n", id->number,
		   cm_state_name(id->state), id->history.refused, cm_src(id), cm_dst(id),
		   id->dev ? " on " : "", id->dev ? dev_name(&id->dev->device->dev) : "");
	for (i = t3_fsm_oldest(&id->history); i < id->history.events; i++)
		cm_show_history_entry(seq, &id->history.entries[i % T3_FSM_HISTORY]);
	spin_unlock_irqrestore(&id->lock, flags);
	return 0;
}

/* The id at a position of the list; it has a reference between start and stop. */
static void *cm_ids_start(struct seq_file *seq, loff_t *pos)
{
	struct cm_id *id = cm_ids_next(NULL);
	loff_t left = *pos;

	while (id && left--)
		id = cm_ids_next(id);
	return id;
}

static void *cm_ids_seq_next(struct seq_file *seq, void *v, loff_t *pos)
{
	++*pos;
	return cm_ids_next(v);
}

static void cm_ids_stop(struct seq_file *seq, void *v)
{
	if (v)
		cm_id_put(v);
}

static const struct seq_operations cm_ids_sops = {
	.start = cm_ids_start,
	.next = cm_ids_seq_next,
	.stop = cm_ids_stop,
	.show = cm_show_id,
};
DEFINE_SEQ_ATTRIBUTE(cm_ids);

static int cm_mappings_show(struct seq_file *seq, void *unused)
{
	cm_iwpm_show(seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(cm_mappings);

void cm_debugfs_init(void)
{
	cm_debugfs_dir = debugfs_create_dir("t3_rdma_cm", NULL);
	debugfs_create_file("ids", 0400, cm_debugfs_dir, NULL, &cm_ids_fops);
	debugfs_create_file("mappings", 0400, cm_debugfs_dir, NULL, &cm_mappings_fops);
}

void cm_debugfs_exit(void)
{
	debugfs_remove_recursive(cm_debugfs_dir);
}
