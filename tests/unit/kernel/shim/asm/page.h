/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* PAGE_SHIFT is on the compiler's command line. */
#ifndef T3_SHIM_ASM_PAGE_H
#define T3_SHIM_ASM_PAGE_H

#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#define PAGE_ALIGN(address) (((address) + PAGE_SIZE - 1) & PAGE_MASK)

#endif
