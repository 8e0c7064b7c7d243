// SPDX-License-Identifier: GPL-2.0
/* t3_rdma_cm/ids in debugfs: every id, with its last steps. */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "rdma_cm.h"

static struct dentry *dir;

static void show_moment(struct seq_file *seq, const struct cm_moment *moment)
{
	u64 us = moment->ns;

	do_div(us, 1000);
	seq_printf(seq, "    %llu us  %s + %s %s %s status=%d\n", us, cm_state_name(moment->from),
		   cm_event_name(moment->event), moment->legal ? "->" : "refused, stays",
		   cm_state_name(moment->to), moment->status);
}

static void show_id(struct cm_id *id, void *arg)
{
	struct seq_file *seq = arg;
	unsigned int step;

	spin_lock(&id->lock);
	seq_printf(seq, "id %u: %s, %u refused, %pISpc - %pISpc%s%s\n", id->number,
		   cm_state_name(id->state), id->refused, cm_src(id), cm_dst(id),
		   id->dev ? " on " : "", id->dev ? dev_name(&id->dev->device->dev) : "");
	step = id->steps > CM_HISTORY ? id->steps - CM_HISTORY : 0;
	for (; step < id->steps; step++)
		show_moment(seq, &id->history[step % CM_HISTORY]);
	spin_unlock(&id->lock);
}

static int ids_show(struct seq_file *seq, void *unused)
{
	cm_all_ids(show_id, seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ids);

void cm_debugfs_init(void)
{
	dir = debugfs_create_dir("t3_rdma_cm", NULL);
	debugfs_create_file("ids", 0400, dir, NULL, &ids_fops);
}

void cm_debugfs_exit(void)
{
	debugfs_remove_recursive(dir);
}
