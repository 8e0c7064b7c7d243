/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A list of segments in one array, as it is while it is short in the kernel. */
#ifndef T3_SHIM_LINUX_SCATTERLIST_H
#define T3_SHIM_LINUX_SCATTERLIST_H

#include <linux/types.h>

struct page;

struct scatterlist {
    struct page* first;
    unsigned int length;
    u64 dma_address;
    unsigned int dma_length;
};
struct sg_table {
    struct scatterlist* sgl;
    unsigned int nents;      /* as DMA sees them */
    unsigned int orig_nents; /* as they are in memory */
};
struct sg_append_table {
    struct sg_table sgt;
};

#define sg_page(sg) ((sg)->first)
#define sg_dma_address(sg) ((sg)->dma_address)
#define sg_dma_len(sg) ((sg)->dma_length)
#define for_each_sgtable_sg(table, sg, i) for (i = 0, sg = (table)->sgl; i < (table)->orig_nents; i++, sg++)
#define for_each_sgtable_dma_sg(table, sg, i) for (i = 0, sg = (table)->sgl; i < (table)->nents; i++, sg++)

int sg_alloc_append_table_from_pages(struct sg_append_table* table, struct page** pages, unsigned int count,
                                     unsigned int offset, unsigned long size, unsigned int most,
                                     unsigned int left, unsigned int gfp);
void sg_free_append_table(struct sg_append_table* table);

#endif
