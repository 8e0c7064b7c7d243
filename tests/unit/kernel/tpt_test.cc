// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// TPT entries and page arithmetic, against the documented examples.
#include <random>

#include <gtest/gtest.h>

extern "C" {
#include "kernel/iw_cxgb3/verbs/tpt.h"
#include <rdma/ib_verbs.h>
}
#include "words.hh"

namespace {

constexpr unsigned all_access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ;

std::string build(const t3_tpt& tpt) {
    t3_tpt_entry entry;
    t3_tpt_build(&entry, &tpt);
    return words(&entry, 8);
}

t3_tpt region() {
    t3_tpt tpt{};
    tpt.stag = 0x001234ff;
    tpt.pdid = 1;
    tpt.perms = t3_perms(all_access);
    tpt.usable = true;
    tpt.len = 0x2000;
    tpt.va = 0x00007f0012345678;
    tpt.pbl_index = 0x20;
    tpt.pbl_entries = 3;
    return tpt;
}

TEST(TptBuild, RegionOfTheScenario) {
    EXPECT_EQ(build(region()), "ffc00001 f4000000 00000020 00002000 00007f00 12345678 00000000 00000000");
}

TEST(TptBuild, PeersRegion) {
    auto tpt = region();
    tpt.stag = 0x002345ff;
    tpt.pdid = 3;
    tpt.len = 0x1000;
    tpt.va = 0x00005500aabbc000;
    tpt.pbl_index = 0x40;
    tpt.pbl_entries = 1;
    EXPECT_EQ(build(tpt), "ffc00003 f4000000 00000040 00001000 00005500 aabbc000 00000000 00000000");
}

TEST(TptBuild, AllocatedButNotUsable) {
    t3_tpt tpt{};
    tpt.stag = 0x000042ff;
    tpt.pdid = 7;
    tpt.type = T3_TPT_TYPE_MW;
    EXPECT_EQ(build(tpt), "ffa00007 04000000 00000000 00000000 00000000 00000000 00000000 00000000");
}

TEST(TptBuild, BindEnableLargePagesAndSizeInFours) {
    auto tpt = region();
    tpt.perms = t3_perms(IB_ACCESS_MW_BIND);
    tpt.page_code = 9;
    tpt.pbl_entries = 7;
    EXPECT_EQ(build(tpt), "ffc00001 86900000 00000020 00002000 00007f00 12345678 00000000 00000001");
}

TEST(TptPerms, EachAccessFlag) {
    EXPECT_EQ(t3_perms(0), T3_PERM_LOCAL_READ);
    EXPECT_EQ(t3_perms(IB_ACCESS_LOCAL_WRITE), T3_PERM_LOCAL_READ | T3_PERM_LOCAL_WRITE);
    EXPECT_EQ(t3_perms(IB_ACCESS_REMOTE_READ), T3_PERM_LOCAL_READ | T3_PERM_REMOTE_READ);
    EXPECT_EQ(t3_perms(IB_ACCESS_REMOTE_WRITE), T3_PERM_LOCAL_READ | T3_PERM_REMOTE_WRITE);
    EXPECT_EQ(t3_perms(IB_ACCESS_MW_BIND), T3_PERM_LOCAL_READ | T3_PERM_BIND);
}

TEST(TptPerms, FlagsOfOtherCardsGrantNothing) {
    const unsigned ours = all_access | IB_ACCESS_MW_BIND;
    for (unsigned access = 0; access < 32; access++)
        EXPECT_EQ(t3_perms(access | ~ours), t3_perms(access & ours)) << access;
}

// The number of pages from the first byte to the last one, for regions anywhere.
TEST(TptPages, AreCountedFromFirstToLastByte) {
    std::mt19937 random(5040);
    for (int round = 0; round < 2000; round++) {
        const std::uint64_t va = std::uint64_t{random()} << random() % 24;
        const std::uint64_t len = random() >> random() % 32;
        const std::uint8_t code = random() % (T3_MAX_PAGE_CODE + 1);
        const unsigned shift = T3_PAGE_CODE_SHIFT + code;
        const auto pages = t3_pages(va, len, code);
        ASSERT_EQ(pages, len ? ((va + len - 1) >> shift) - (va >> shift) + 1 : 0) << va << ' ' << len;
        if (len) {
            ASSERT_EQ(t3_page_index(va, va + len - 1, code), pages - 1);
        }
    }
}

TEST(TptPages, IndexCountsFromTheFirstPage) {
    const std::uint64_t va = 0x7f0012345678;
    EXPECT_EQ(t3_page_index(va, va, 0), 0u);
    EXPECT_EQ(t3_page_index(va, va + 0x980, 0), 0u);
    EXPECT_EQ(t3_page_index(va, va + 0x988, 0), 1u);
    EXPECT_EQ(t3_pages(va, 0x2000, 0), 3u);
    EXPECT_EQ(t3_pages(va, 0x988, 0), 1u);
    EXPECT_EQ(t3_pages(va, 0x989, 0), 2u);
    EXPECT_EQ(t3_pages(va, 0, 0), 0u);
    EXPECT_EQ(t3_pages(0x1fffff, 2, 9), 2u);
}

// A region of nearly 4 GiB at the top of the address space.
// B17
TEST(TptPages, CountDoesNotOverflow) {
    const std::uint64_t va = 0xffffffff00000000;
    EXPECT_EQ(t3_pages(va, 0xffffffff, 0), 0x100000u);
    EXPECT_EQ(t3_pages(~0ULL, 1, 0), 1u);
    EXPECT_EQ(t3_pages(~0ULL - 4096, 4097, 0), 2u);
}

} // namespace
