/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef T3_SHIM_LINUX_MM_H
#define T3_SHIM_LINUX_MM_H

#include <limits.h>

#include <asm/page.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define FOLL_WRITE 1
#define FOLL_LONGTERM 0x100
#define GFP_KERNEL 0u
#define GFP_KERNEL_ACCOUNT 1u
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))

struct page;
struct vm_area_struct {
    unsigned long vm_start, vm_end, vm_flags;
};
typedef struct {
    long value;
} atomic64_t;
struct mm_struct {
    atomic64_t pinned_vm;
};

static inline long atomic64_add_return(long n, atomic64_t* of) {
    return of->value += n;
}
static inline void atomic64_sub(long n, atomic64_t* of) {
    of->value -= n;
}
static inline void vm_flags_mod(struct vm_area_struct* vma, unsigned long set, unsigned long clear) {
    vma->vm_flags = (vma->vm_flags | set) & ~clear;
}
static inline void zap_vma_ptes(struct vm_area_struct* vma, unsigned long start, unsigned long size) {
    (void)vma, (void)start, (void)size;
}
static inline int __ffs64(u64 word) {
    return __builtin_ctzll(word);
}
static inline int __fls(unsigned long word) {
    return 63 - __builtin_clzl(word);
}

unsigned long __get_free_page(unsigned int gfp);
void free_page(unsigned long page);
int pin_user_pages_fast(unsigned long start, int count, unsigned int flags, struct page** pages);
void unpin_user_pages_dirty_lock(struct page** pages, unsigned long count, bool dirty);
void unpin_user_page_range_dirty_lock(struct page* first, unsigned long count, bool dirty);

#endif
