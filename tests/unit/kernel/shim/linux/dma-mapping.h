/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef T3_SHIM_LINUX_DMA_MAPPING_H
#define T3_SHIM_LINUX_DMA_MAPPING_H

#include <linux/scatterlist.h>

#define DMA_BIDIRECTIONAL 0
#define DMA_ATTR_SKIP_CPU_SYNC (1UL << 5)

struct device;

int dma_map_sgtable(struct device* device, struct sg_table* table, int direction, unsigned long attributes);
void dma_unmap_sgtable(struct device* device, struct sg_table* table, int direction, unsigned long attributes);

#endif
