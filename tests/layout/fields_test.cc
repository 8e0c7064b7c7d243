// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Fields inside words: the driver's masks against what the model's accessors see.
#include <gtest/gtest.h>

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_tpt.h"
#include "include/hw/t3_wr.h"
#include "sim/hw/cqe.hh"
#include "sim/hw/tpt.hh"
#include "sim/hw/wr.hh"

namespace t3sim {
namespace {

constexpr std::uint32_t all = 0xffffffff;
constexpr std::uint32_t top(std::uint32_t mask) {
    return mask >> __builtin_ctz(mask);
}

/// A word of ones and zeroes: exactly the bits of the mask are the field.
template <typename Layout, typename Get>
void expect_field(hw::Be32 Layout::*word, Get get, std::uint32_t mask) {
    Layout layout{};
    layout.*word = mask;
    EXPECT_EQ(static_cast<std::uint32_t>(get(layout)), top(mask));
    layout.*word = all & ~mask;
    EXPECT_EQ(static_cast<std::uint32_t>(get(layout)), 0U);
}

TEST(Fields, OfATptEntry) {
    using E = hw::TptEntry;
    expect_field(
        &E::state_word, [](const E& e) { return e.in_use(); }, T3_TPT_VALID);
    expect_field(
        &E::state_word, [](const E& e) { return e.key(); }, T3_TPT_KEY);
    expect_field(
        &E::state_word, [](const E& e) { return e.valid(); }, T3_TPT_STATE);
    expect_field(
        &E::state_word, [](const E& e) { return e.type(); }, T3_TPT_TYPE);
    expect_field(
        &E::state_word, [](const E& e) { return e.pd(); }, T3_TPT_PDID);
    expect_field(
        &E::rights_word, [](const E& e) { return e.rights(); }, T3_TPT_PERMS);
    expect_field(
        &E::rights_word, [](const E& e) { return e.remote_inv_disabled(); }, T3_TPT_RI_DISABLE);
    expect_field(
        &E::rights_word, [](const E& e) { return e.va_based(); }, T3_TPT_VA_BASED);
    expect_field(
        &E::rights_word, [](const E& e) { return e.bind_enabled(); }, T3_TPT_BIND_ENABLE);
    expect_field(
        &E::rights_word, [](const E& e) { return e.page_code(); }, T3_TPT_PAGE_CODE);
    expect_field(
        &E::rights_word, [](const E& e) { return e.qp(); }, T3_TPT_QPID);
    expect_field(
        &E::pbl_addr, [](const E& e) { return e.pbl_index(); }, T3_TPT_PBL_ADDR);
}

TEST(Fields, OfAWorkRequest) {
    using W = hw::WrHeader;
    expect_field(
        &W::hi, [](const W& w) { return static_cast<unsigned>(w.opcode()); }, T3_WR_OPCODE);
    expect_field(
        &W::lo, [](const W& w) { return w.tid(); }, T3_WR_TID);
    expect_field(
        &W::lo, [](const W& w) { return w.flits(); }, T3_WR_LEN);
    using F = hw::FastRegisterWr;
    expect_field(
        &F::page_type_perms, [](const F& f) { return f.pages(); }, T3_FASTREG_PAGES);
    expect_field(
        &F::page_type_perms, [](const F& f) { return f.page_code(); }, T3_FASTREG_PAGE_CODE);
    expect_field(
        &F::page_type_perms, [](const F& f) { return f.va_based(); }, T3_FASTREG_VA_BASED);
}

TEST(Fields, OfACqe) {
    EXPECT_EQ(hw::cqe_header(all, false, 0, false, 0), T3_CQE_QPID);
    EXPECT_EQ(hw::cqe_header(0, true, 0, false, 0), T3_CQE_GEN);
    EXPECT_EQ(hw::cqe_header(0, false, 0xff, false, 0), T3_CQE_STATUS);
    EXPECT_EQ(hw::cqe_header(0, false, 0, true, 0), T3_CQE_TYPE_SQ);
    EXPECT_EQ(hw::cqe_header(0, false, 0, false, 0xff), T3_CQE_OPCODE);
}

} // namespace
} // namespace t3sim
