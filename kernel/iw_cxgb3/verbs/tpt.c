// SPDX-License-Identifier: GPL-2.0
#include <linux/bitfield.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/byteorder.h>
#include <rdma/ib_verbs.h>

#include "tpt.h"

void t3_tpt_build(struct t3_tpt_entry *entry, const struct t3_tpt *tpt)
{
	memset(entry, 0, sizeof(*entry));
	entry->valid_stag_pdid = cpu_to_be32(T3_TPT_VALID |
					     FIELD_PREP(T3_TPT_KEY, tpt->stag & T3_STAG_KEY) |
					     (tpt->usable ? T3_TPT_STATE : 0) |
					     FIELD_PREP(T3_TPT_TYPE, tpt->type) |
					     FIELD_PREP(T3_TPT_PDID, tpt->pdid));
	entry->flags_pagesize_qpid = cpu_to_be32(FIELD_PREP(T3_TPT_PERMS, tpt->perms & 0xf) |
						 T3_TPT_VA_BASED |
						 (tpt->fixed ? T3_TPT_RI_DISABLE : 0) |
						 (tpt->perms & T3_PERM_BIND ?
							T3_TPT_BIND_ENABLE : 0) |
						 FIELD_PREP(T3_TPT_PAGE_CODE, tpt->page_code));
	entry->pbl_addr = cpu_to_be32(FIELD_PREP(T3_TPT_PBL_ADDR, tpt->pbl_index));
	entry->len = cpu_to_be32(tpt->len);
	entry->va_hi = cpu_to_be32(tpt->va >> 32);
	entry->va_lo_fbo = cpu_to_be32((u32)tpt->va);
	entry->pbl_size = cpu_to_be32(FIELD_PREP(T3_TPT_PBL_SIZE, tpt->pbl_entries >> 2));
}

u8 t3_perms(unsigned int access)
{
	u8 perms = T3_PERM_LOCAL_READ;

	if (access & IB_ACCESS_LOCAL_WRITE)
		perms |= T3_PERM_LOCAL_WRITE;
	if (access & IB_ACCESS_REMOTE_READ)
		perms |= T3_PERM_REMOTE_READ;
	if (access & IB_ACCESS_REMOTE_WRITE)
		perms |= T3_PERM_REMOTE_WRITE;
	if (access & IB_ACCESS_MW_BIND)
		perms |= T3_PERM_BIND;
	return perms;
}

static u64 t3_page_mask(u8 page_code)
{
	return (1ULL << (T3_PAGE_CODE_SHIFT + page_code)) - 1;
}

u64 t3_page_index(u64 va, u64 addr, u8 page_code)
{
	return ((addr - va) + (va & t3_page_mask(page_code))) >> (T3_PAGE_CODE_SHIFT + page_code);
}

u64 t3_pages(u64 va, u64 len, u8 page_code)
{
	return len ? t3_page_index(va, va + len - 1, page_code) + 1 : 0;
}
