/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef CXGB3_MAPPING_H
#define CXGB3_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t cxgb3_page_size(void);
size_t cxgb3_whole_pages(size_t bytes);

/*
 * A ring shared with the card. A child after fork() must not touch it, and copy-on-write in the parent must not
 * move it away from the card, so a child does not get it at all. NULL with errno set.
 */
void *cxgb3_map_ring(int fd, size_t bytes, uint64_t key);

#ifdef __cplusplus
}
#endif

#endif /* CXGB3_MAPPING_H */
