/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * T3 memory keys (STags), their table (TPT) and page lists (PBL) in adapter
 * memory.
 */
#ifndef T3_HW_TPT_H
#define T3_HW_TPT_H

#include <linux/types.h>

#define T3_STAG_INDEX_SHIFT	8
#define T3_STAG_KEY		0x000000ffU
#define T3_MAX_STAGS		32768 /* the old library indexes a table of this size */

#define T3_TPT_ENTRY_BYTES	32
#define T3_PBL_GRANULE		256 /* allocation unit, 32 pages */
#define T3_RQT_GRANULE		1024 /* allocation unit, 16 RQEs */

struct t3_tpt_entry {
	__be32 valid_stag_pdid;
	__be32 flags_pagesize_qpid;
	__be32 pbl_addr; /* 8-byte units from the PBL base */
	__be32 len;
	__be32 va_hi;
	__be32 va_lo_fbo;
	__be32 bind_cnt_pstag;
	__be32 pbl_size; /* entries / 4 */
};

#define T3_TPT_VALID		0x80000000U
#define T3_TPT_KEY		0x7f800000U
#define T3_TPT_STATE		0x00400000U
#define T3_TPT_TYPE		0x00300000U
#define T3_TPT_PDID		0x000fffffU

#define T3_TPT_TYPE_MR		0
#define T3_TPT_TYPE_SHARED_MR	1
#define T3_TPT_TYPE_MW		2
#define T3_TPT_TYPE_MW_RELAXED	3

#define T3_TPT_PERMS		0xf0000000U
#define T3_TPT_RI_DISABLE	0x08000000U
#define T3_TPT_VA_BASED		0x04000000U
#define T3_TPT_BIND_ENABLE	0x02000000U
#define T3_TPT_PAGE_CODE	0x01f00000U
#define T3_TPT_QPID		0x000fffffU

#define T3_TPT_PBL_ADDR		0x1fffffffU
#define T3_TPT_PBL_SIZE		0x000fffffU

/* Permissions; the first four are T3_TPT_PERMS, BIND has a bit of its own. */
#define T3_PERM_REMOTE_WRITE	0x01
#define T3_PERM_REMOTE_READ	0x02
#define T3_PERM_LOCAL_WRITE	0x04
#define T3_PERM_LOCAL_READ	0x08
#define T3_PERM_BIND		0x10

/* Page size code: log2(page size) - 12. */
#define T3_PAGE_CODE_SHIFT	12
#define T3_MAX_PAGE_CODE	15 /* 128 MiB */
#define T3_PAGE_SIZES		0x0ffff000UL /* as a page_size_cap bitmap */

/*
 * A receive through STag 0 needs private PBL memory which the firmware fills
 * in: two entries of 128 MiB pages for each scatter entry.
 */
#define T3_STAG0_PBL_BYTES	64
#define T3_STAG0_PAGE_CODE	15

#endif
