// SPDX-License-Identifier: GPL-2.0
/*
 * Counters of the calls and failed calls of each device and row of the table. In
 * debugfs t3_uverbs/<uverbsN> has one line for each row that was called:
 *
 *	abi name calls failed
 */

#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "uverbs.h"

static struct dentry *uv_debugfs_root;

static int uv_commands_show(struct seq_file *seq, void *unused)
{
	static const char * const abis[] = { "write", "write_ex", "ioctl" };
	struct uv_stats *stats = seq->private;
	unsigned int i;

	for (i = 0; i < uv_row_count; i++) {
		s64 calls = atomic64_read(&stats->row[i].calls);

		if (calls)
			seq_printf(seq, "%s %s %lld %lld\n", abis[uv_rows[i]->abi],
				   uv_rows[i]->name, calls,
				   atomic64_read(&stats->row[i].failed));
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(uv_commands);

int uv_stats_add(struct uv_device *dev, struct ib_device *ib_dev)
{
	struct uv_stats *stats = kzalloc(struct_size(stats, row, uv_row_count), GFP_KERNEL);

	if (!stats)
		return -ENOMEM;
	strscpy(stats->name, dev_name(&ib_dev->dev), sizeof(stats->name));
	dev->stats = stats;
	stats->dentry = debugfs_create_file(dev_name(&dev->base.dev), 0400, uv_debugfs_root, stats,
					    &uv_commands_fops);
	return 0;
}

/* Frees the name for another device. Calls on open files still count. */
void uv_stats_hide(struct uv_device *dev)
{
	debugfs_remove(dev->stats->dentry);
}

void uv_stats_free(struct uv_device *dev)
{
	kfree(dev->stats);
}

int uv_stats_init(void)
{
	uv_debugfs_root = debugfs_create_dir("t3_uverbs", NULL);
	return 0;
}

void uv_stats_exit(void)
{
	debugfs_remove(uv_debugfs_root);
}
