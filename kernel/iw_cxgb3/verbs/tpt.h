/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Entries of the card's memory table. Pure logic: no card, no locks, no memory.
 */
#ifndef T3_TPT_H
#define T3_TPT_H

#include <linux/types.h>

#include "hw/t3_tpt.h"

struct t3_tpt {
	u32 stag;
	u32 pdid;
	u8 type;		/* T3_TPT_TYPE_* */
	u8 perms;		/* T3_PERM_* */
	u8 page_code;
	bool fixed;		/* a peer cannot invalidate it */
	bool usable;		/* false: allocated, but no fast registration or bind yet */
	u32 len;
	u64 va;
	u32 pbl_index;		/* 8-byte units from the PBL base */
	u32 pbl_entries;
};

void t3_tpt_build(struct t3_tpt_entry *entry, const struct t3_tpt *tpt);

/* IB access flags to T3_PERM_*. */
u8 t3_perms(unsigned int access);

/*
 * Index of the page list entry for an access at addr, counted from the
 * region's first one (VA based).
 */
u64 t3_page_index(u64 va, u64 addr, u8 page_code);

/* Number of pages of a region, including partial pages at both ends. */
u64 t3_pages(u64 va, u64 len, u8 page_code);

#endif
