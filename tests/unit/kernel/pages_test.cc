// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What depends on the size of a system page, built for pages of 4, 16 and 64 KB: doorbell pages, pinned
// memory, and the pages of a region. The kernel's functions for memory are fakes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <vector>

extern "C" {
#include "kernel/iw_cxgb3/verbs/tpt.h"
#include "kernel/iw_cxgb3/verbs/umem.h"
#include <asm/page.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

u32 qps_per_doorbell_page(u32 bar_bytes);
u64 doorbell_page(u32 qp_id, u32 qps_per_page);
}

namespace {

constexpr unsigned shift = PAGE_SHIFT;

// The value for this size of pages.
template <class T> T by_page(T with_4k, T with_16k, T with_64k) {
    return shift == 12 ? with_4k : shift == 14 ? with_16k : with_64k;
}

// A process and the memory below it. The page at address A is the page frame frame(A) of physical memory.
struct Host {
    std::function<u64(u64)> frame;
    u64 unmapped = ~u64{0};          // the first address that is not
    unsigned long limit = 1ul << 40; // RLIMIT_MEMLOCK, in bytes
    bool iommu = false;              // all segments have one DMA address after the other
    std::map<u64, int> pins;         // of page frames
    std::vector<int> batches;        // how many pages each call pinned
    int dma_maps = 0;
};
Host host;

page* page_of(u64 frame) {
    return reinterpret_cast<struct page*>(frame * 64);
}
u64 frame_of(const struct page* of) {
    return reinterpret_cast<u64>(of) / 64;
}
void unpin(u64 frame) {
    if (--host.pins[frame] == 0)
        host.pins.erase(frame);
}

mm_struct memory;
task_struct process{&memory};

} // namespace

extern "C" {

task_struct* current = &process;

unsigned long rlimit(unsigned int) {
    return host.limit;
}
unsigned long __get_free_page(unsigned int) {
    return reinterpret_cast<unsigned long>(std::malloc(PAGE_SIZE));
}
void free_page(unsigned long address) {
    std::free(reinterpret_cast<void*>(address));
}
int pin_user_pages_fast(unsigned long start, int count, unsigned int, struct page** pages) {
    EXPECT_EQ(start % PAGE_SIZE, 0u);
    int n = 0;
    for (u64 at = start; n < count && at < host.unmapped; n++, at += PAGE_SIZE) {
        host.pins[host.frame(at)]++;
        pages[n] = page_of(host.frame(at));
    }
    host.batches.push_back(n);
    return n ? n : -EFAULT;
}
void unpin_user_pages_dirty_lock(struct page** pages, unsigned long count, bool) {
    for (unsigned long i = 0; i < count; i++)
        unpin(frame_of(pages[i]));
}
void unpin_user_page_range_dirty_lock(struct page* first, unsigned long count, bool) {
    for (unsigned long i = 0; i < count; i++)
        unpin(frame_of(first) + i);
}
int sg_alloc_append_table_from_pages(sg_append_table* table, struct page** pages, unsigned int count,
                                     unsigned int, unsigned long size, unsigned int most, unsigned int,
                                     unsigned int) {
    EXPECT_EQ(size, count * PAGE_SIZE);
    sg_table& sgt = table->sgt;
    for (unsigned i = 0; i < count; i++) {
        scatterlist* last = sgt.orig_nents ? &sgt.sgl[sgt.orig_nents - 1] : nullptr;
        if (last && frame_of(last->first) + last->length / PAGE_SIZE == frame_of(pages[i]) &&
            last->length + PAGE_SIZE <= most) {
            last->length += PAGE_SIZE;
            continue;
        }
        sgt.sgl = static_cast<scatterlist*>(std::realloc(sgt.sgl, (sgt.orig_nents + 1) * sizeof(*sgt.sgl)));
        sgt.sgl[sgt.orig_nents++] = {pages[i], static_cast<unsigned>(PAGE_SIZE), 0, 0};
    }
    return 0;
}
void sg_free_append_table(sg_append_table* table) {
    std::free(table->sgt.sgl);
    table->sgt = {};
}
int dma_map_sgtable(device*, sg_table* sgt, int, unsigned long) {
    host.dma_maps++;
    sgt->nents = sgt->orig_nents;
    for (unsigned i = 0; i < sgt->orig_nents; i++) {
        sgt->sgl[i].dma_address = frame_of(sgt->sgl[i].first) << shift;
        sgt->sgl[i].dma_length = sgt->sgl[i].length;
    }
    if (host.iommu && sgt->nents) {
        sgt->sgl[0].dma_address = u64{1} << 32;
        for (unsigned i = 1; i < sgt->orig_nents; i++)
            sgt->sgl[0].dma_length += sgt->sgl[i].length;
        sgt->nents = 1;
    }
    return 0;
}
void dma_unmap_sgtable(device*, sg_table*, int, unsigned long) {
    host.dma_maps--;
}

} // extern "C"

namespace {

// --- doorbells

// docs/hw/qp.md 3
TEST(DoorbellPages, IdsPerPageAsInTheManual) {
    EXPECT_EQ(qps_per_doorbell_page(1 << 20), by_page(256u, 1024u, 4096u));
    EXPECT_EQ(qps_per_doorbell_page(8 << 20), by_page(32u, 128u, 512u));
    EXPECT_EQ(qps_per_doorbell_page(64 << 20), by_page(4u, 16u, 64u));
    EXPECT_EQ(qps_per_doorbell_page(256 << 20), by_page(1u, 4u, 16u));
    EXPECT_EQ(qps_per_doorbell_page(1u << 31), by_page(1u, 1u, 2u));
}

TEST(DoorbellPages, OfAWindowThatIsHardlyAPage) {
    EXPECT_EQ(qps_per_doorbell_page(0), 0u);
    EXPECT_EQ(qps_per_doorbell_page(PAGE_SIZE - 1), 0u);
    EXPECT_EQ(qps_per_doorbell_page(PAGE_SIZE), 65536u) << "one page has all";
    EXPECT_EQ(qps_per_doorbell_page(3 * PAGE_SIZE), 32768u) << "the card counts with a power of two";
}

TEST(DoorbellPages, OfAnId) {
    const u32 ids = qps_per_doorbell_page(8 << 20);
    EXPECT_EQ(doorbell_page(0, ids), 0u);
    EXPECT_EQ(doorbell_page(31, ids), 0u);
    EXPECT_EQ(doorbell_page(32, ids), by_page(u64{0x1000}, u64{0}, u64{0}));
    EXPECT_EQ(doorbell_page(0x1234, ids), by_page(u64{0x91000}, u64{0x90000}, u64{0x90000}));
    EXPECT_EQ(doorbell_page(32767, ids), by_page(u64{0x3ff000}, u64{0x3fc000}, u64{0x3f0000}));
}

// The byte address of a QP's doorbell is id << qpshift (docs/hw/qp.md 3), for any size of pages. A process
// can ring all doorbells of a page that it has mapped, so two ids are in one page exactly if the driver
// counts them to one group.
TEST(DoorbellPages, APageHasTheDoorbellsOfOneGroup) {
    for (const u32 bar : {1u << 20, 8u << 20, 256u << 20}) {
        const u32 ids = qps_per_doorbell_page(bar);
        std::set<u64> pages;
        for (u32 id = 0; id < 65536; id++) {
            const u64 doorbell = u64{id} * (bar / 65536);
            ASSERT_EQ(doorbell_page(id, ids), doorbell / PAGE_SIZE * PAGE_SIZE)
                << "id " << id << ", BAR 2 of " << bar;
            ASSERT_LE(doorbell_page(id, ids) + PAGE_SIZE, bar);
            pages.insert(doorbell_page(id, ids));
        }
        EXPECT_EQ(pages.size(), 65536 / ids);
    }
}

// --- pinned memory

class Pinned : public testing::Test {
protected:
    Pinned() {
        host = {};
        host.frame = scattered;
    }
    ~Pinned() override {
        EXPECT_TRUE(host.pins.empty()) << "pages stay pinned";
        EXPECT_EQ(memory.pinned_vm.value, 0) << "pages stay charged";
        EXPECT_EQ(host.dma_maps, 0);
    }
    // No two pages are neighbours, and each is aligned to its own size only.
    static u64 scattered(u64 address) { return (address >> shift) * 2 + 1; }
    // One block of physical memory from this address on. The process has it at `base`.
    static std::function<u64(u64)> block(u64 physical) {
        return [physical](u64 address) { return (physical + address - base) >> shift; };
    }
    // log2 of the size of a region's pages; 0: refused.
    static unsigned region(u64 addr, u64 len, u64 va, unsigned long sizes = T3_PAGE_SIZES) {
        t3_umem* umem = t3_umem_get(nullptr, addr, len, true);
        const unsigned found = t3_umem_page_shift(umem, va, sizes);
        t3_umem_put(umem);
        return found;
    }
    static constexpr u64 base = 0x7f0000000000;
};

TEST_F(Pinned, WholePagesAreChargedAndPinned) {
    const struct {
        u64 at, len;
        unsigned long pages;
    } rows[] = {
        {0x12345, 70000, by_page(18ul, 5ul, 2ul)},
        {0x12345, 1, 1},
        {0x1ffff, 2, 2},
        {0x10000, 0x10000, by_page(16ul, 4ul, 1ul)},
        {0x10001, 0x10000, by_page(17ul, 5ul, 2ul)},
        {0xfff, 2, by_page(2ul, 1ul, 1ul)},
        {0x3fff, 2, by_page(2ul, 2ul, 1ul)},
    };
    for (const auto& row : rows) {
        t3_umem* umem = t3_umem_get(nullptr, base + row.at, row.len, true);
        EXPECT_EQ(umem->npages, row.pages) << row.at << " " << row.len;
        EXPECT_EQ(host.pins.size(), row.pages);
        EXPECT_EQ(memory.pinned_vm.value, static_cast<long>(row.pages));
        t3_umem_put(umem);
        EXPECT_TRUE(host.pins.empty());
    }
}

// RLIMIT_MEMLOCK is in bytes.
TEST_F(Pinned, UpToTheLimitOfTheProcess) {
    host.limit = 0x20000;
    t3_umem* umem = t3_umem_get(nullptr, base, 0x20000, true);
    ASSERT_EQ(umem->npages * PAGE_SIZE, 0x20000u);
    EXPECT_EQ(t3_umem_get(nullptr, base + 0x20000, 1, true), reinterpret_cast<t3_umem*>(-ENOMEM));
    t3_umem_put(umem);
}

// Page pointers are collected in one page.
TEST_F(Pinned, ManyPagesInBatches) {
    const int batch = by_page(512, 2048, 8192);
    t3_umem* umem = t3_umem_get(nullptr, base, (2 * u64(batch) + 1) * PAGE_SIZE, true);
    EXPECT_EQ(host.batches, (std::vector{batch, batch, 1}));
    EXPECT_EQ(umem->table.sgt.orig_nents, 2u * batch + 1);
    t3_umem_put(umem);

    host.unmapped = base + (batch + 1) * PAGE_SIZE;
    EXPECT_EQ(t3_umem_get(nullptr, base, 3 * u64(batch) * PAGE_SIZE, true),
              reinterpret_cast<t3_umem*>(-EFAULT));
}

// --- pages of a region

TEST_F(Pinned, ScatteredMemoryHasRegionsOfSystemPages) {
    EXPECT_EQ(region(base, 8 * PAGE_SIZE, base), shift);
    EXPECT_EQ(region(base + 0x777, 8 * PAGE_SIZE, base + 0x777), shift);
    EXPECT_EQ(region(base, 1, base), shift);
}

TEST_F(Pinned, ABlockOfMemoryIsOnePage) {
    host.frame = block(0x40000000);
    EXPECT_EQ(region(base, 0x200000, base), 21u);
    EXPECT_EQ(region(base + 0x1234, 0x100000, base + 0x1234), 21u) << "also if it is not all of the region's";
    EXPECT_EQ(region(base, 0x10000, base), 16u);
    // The card's largest page is of 128 MiB.
    EXPECT_EQ(region(base, 0x20000000, base), 27u);
    // A window's region has pages of the size that the library assumes.
    EXPECT_EQ(region(base, 0x200000, base, PAGE_SIZE), shift);
}

// The address that the peer uses and the card's have the same offset in a page.
TEST_F(Pinned, PagesAreNoLargerThanTheMemoryIsAligned) {
    host.frame = block(0x40000000 + PAGE_SIZE);
    EXPECT_EQ(region(base, 0x200000, base), shift);
    host.frame = block(0x40000000 + 0x20000);
    EXPECT_EQ(region(base, 0x200000, base), 17u);
    host.frame = block(0x40000000);
    EXPECT_EQ(region(base, 0x200000, base + 0x20000), 17u) << "the peer's address counts";
}

// Two blocks of 64 KiB: smaller system pages are joined, and those of 64 KiB are taken as they are.
TEST_F(Pinned, BlocksOf64K) {
    host.frame = [](u64 address) { return ((address >> 16) * 0x20000 + (address & 0xffff)) >> shift; };
    EXPECT_EQ(region(base, 0x40000, base), 16u);
    EXPECT_EQ(region(base, 0x40000, base, 0xf000), by_page(15u, 15u, 0u)) << "a card with pages up to 32 KiB";
}

TEST_F(Pinned, BehindAnIommuTheRegionIsOneBlock) {
    host.iommu = true;
    EXPECT_EQ(region(base, 0x200000, base), 21u);
    EXPECT_EQ(region(base + 0x777, 100, base + 0x777), shift) << "no larger than what is pinned";
}

TEST_F(Pinned, AnAddressWithAnotherOffsetInThePageIsRefused) {
    EXPECT_EQ(region(base, 0x40000, base + 0x100), 0u);
    EXPECT_EQ(region(base, 0x40000, base + 0x1000), by_page(12u, 0u, 0u));
    EXPECT_EQ(region(base, 0x40000, base + 0x4000), by_page(12u, 14u, 0u));
    EXPECT_EQ(region(base, 0x40000, base + 0x10000), shift);
}

// What the card keeps of an old region may reach each byte of the pages, and not only the region.
TEST_F(Pinned, WholePagesHaveNoByteThatIsNotPinned) {
    host.frame = block(0x40000000);
    const struct {
        u64 at, len;
        unsigned shift;
        bool whole;
    } rows[] = {
        {0, 0x400000, 21, true},         {0x777, 0x400000 - 0x777, 21, true},
        {0, 0x3f0000, 21, false},        {0x10000, 0x3f0000, 21, false},
        {0, 0x10000, 16, true},          {0x10000, 0x10000, shift, true},
        {0, PAGE_SIZE + 1, shift, true},
    };
    for (const auto& row : rows) {
        t3_umem* umem = t3_umem_get(nullptr, base + row.at, row.len, true);
        EXPECT_EQ(t3_umem_is_whole(umem, row.shift), row.whole) << row.at << " " << row.len;
        t3_umem_put(umem);
    }
}

// The page list has an entry for each page that is pinned, and no entry beyond.
TEST_F(Pinned, ThePageListIsThatOfThePinnedPages) {
    for (const u64 at : {0x0, 0x1, 0xfff, 0x1000, 0x3fff, 0x4000, 0xffff, 0x12345}) {
        for (const u64 len : {1, 2, 0x1000, 0x4000, 0x10000, 70000}) {
            t3_umem* umem = t3_umem_get(nullptr, base + at, len, true);
            EXPECT_EQ(t3_pages(base + at, len, shift - T3_PAGE_CODE_SHIFT), umem->npages) << at << " " << len;
            t3_umem_put(umem);
        }
    }
}

} // namespace
