/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Doorbells of QPs in the pages of BAR 2. Pure logic: no card, no locks, no memory.
 */
#ifndef T3_DOORBELL_PAGE_H
#define T3_DOORBELL_PAGE_H

#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <asm/page.h>

/*
 * QP ids whose doorbells share a system page, which only one process may map. The
 * card spreads 65536 ids over BAR 2. 0: it is smaller than a page.
 */
static inline u32 t3_qps_per_doorbell_page(u32 bar_bytes)
{
	u32 pages = bar_bytes >> PAGE_SHIFT;

	return pages ? 65536 >> min(ilog2(pages), 16) : 0;
}

/* Offset in BAR 2 of the page with the doorbell of a QP. */
static inline u64 t3_doorbell_page(u32 qp_id, u32 qps_per_page)
{
	return (u64)(qp_id / qps_per_page) << PAGE_SHIFT;
}

#endif
