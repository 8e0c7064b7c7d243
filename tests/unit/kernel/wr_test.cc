// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Work requests, byte by byte against the documented examples, and requests that must be refused.
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

extern "C" {
#include "hw/t3_tpt.h"
#include "kernel/iw_cxgb3/card/wr.h"
}
#include "send.hh"
#include "words.hh"

namespace {

/// A work queue of 32 slots, 16 sends and 16 receives, with the documented counters.
class Queue : public ::testing::Test {
protected:
    Queue() {
        std::memset(slots_.data(), 0xa5, sizeof(slots_)); // stale content
        wq.slots = slots_.data();
        wq.sq = sq_.data();
        wq.rq = rq_.data();
        wq.slots_log2 = 5;
        wq.sq_log2 = 4;
        wq.rq_log2 = 4;
    }

    std::string flits(std::size_t index, std::size_t first, std::size_t count) const {
        return words(&slots_[index].flit[first], 2 * count);
    }

    t3_wq wq{};

private:
    std::array<t3_wr_slot, 32> slots_;
    std::array<t3_sq_entry, 16> sq_{};
    std::array<t3_rq_entry, 16> rq_{};
};

Send request(std::uint8_t op, std::uint8_t rdma_op, std::uint64_t addr, std::uint32_t len,
             std::uint32_t stag = 0x001234ff) {
    Send req{};
    req.wr_id = 42;
    req.op = op;
    req.rdma_op = rdma_op;
    req.flags = T3_WR_F_COMPLETION;
    req.num_sge = 1;
    req.sge[0] = {addr, len, stag};
    return req;
}

class InitiatorQueue : public Queue {
protected:
    InitiatorQueue() {
        wq.wptr = 6;
        wq.sq_wptr = wq.sq_rptr = 5;
        wq.rq_wptr = 1;
    }
};

TEST_F(InitiatorQueue, Send) {
    const auto req = request(T3_WR_OP_SEND, T3_RDMA_SEND, 0x7f0012345ff8, 100);
    ASSERT_EQ(post_send(wq, req), 0);
    EXPECT_EQ(flits(6, 0, 6), "14c00100 80000006 " + raw(5) +
                                  " 00000000 03000000 00000000 00000064 00000001 "
                                  "001234ff 00000064 00007f00 12345ff8");
    EXPECT_EQ(flits(6, 15, 1), "00000000 00000001");
    EXPECT_EQ(wq.wptr, 7u);
    EXPECT_EQ(wq.sq_wptr, 6u);
    EXPECT_EQ(t3_sq_at(&wq, 5)->wr_id, 42u);
    EXPECT_TRUE(t3_sq_at(&wq, 5)->signaled);
}

TEST_F(InitiatorQueue, SolicitedSend) {
    auto req = request(T3_WR_OP_SEND, T3_RDMA_SEND_SE, 0x7f0012345ff8, 100);
    req.flags |= T3_WR_F_SOLICITED;
    ASSERT_EQ(post_send(wq, req), 0);
    EXPECT_EQ(flits(6, 0, 1), "14c00500 80000006");
    EXPECT_EQ(flits(6, 2, 1), "05000000 00000000");
}

TEST_F(InitiatorQueue, Write) {
    wq.wptr = 7;
    wq.sq_wptr = wq.sq_rptr = 6;
    auto req = request(T3_WR_OP_WRITE, T3_RDMA_WRITE, 0x7f0012345678, 41);
    req.rkey = 0x002345ff;
    req.remote_addr = 0x00005500aabbc100;
    ASSERT_EQ(post_send(wq, req), 0);
    EXPECT_EQ(flits(7, 0, 7), "11c00100 80000007 " + raw(6) +
                                  " 00000000 00000000 002345ff 00005500 aabbc100 "
                                  "00000029 00000001 001234ff 00000029 00007f00 12345678");
    EXPECT_EQ(flits(7, 15, 1), "00000000 00000001");
}

TEST_F(InitiatorQueue, ReadHasNoFlags) {
    wq.wptr = 8;
    wq.sq_wptr = wq.sq_rptr = 7;
    auto req = request(T3_WR_OP_READ, T3_RDMA_READ_REQ, 0x7f00123456b8, 50);
    req.flags |= T3_WR_F_SOLICITED;
    req.rkey = 0x002345ff;
    req.remote_addr = 0x00005500aabbc140;
    ASSERT_EQ(post_send(wq, req), 0);
    EXPECT_EQ(flits(8, 0, 6), "16c00000 80000006 " + raw(7) +
                                  " 00000000 01000000 002345ff 00005500 aabbc140 "
                                  "001234ff 00000032 00007f00 123456b8");
    EXPECT_EQ(t3_sq_at(&wq, 7)->read_len, 50u);
    EXPECT_TRUE(t3_sq_at(&wq, 7)->signaled);
}

// A9: a zero-length read with STag 0 would make the peer terminate the connection.
TEST_F(InitiatorQueue, ZeroLengthReadHasNonzeroStags) {
    auto req = request(T3_WR_OP_READ, T3_RDMA_READ_REQ, 0, 0, 0);
    for (const unsigned num_sge : {0U, 1U}) {
        req.num_sge = num_sge;
        const auto at = wq.wptr;
        ASSERT_EQ(post_send(wq, req), 0);
        EXPECT_EQ(flits(at, 2, 4), "01000000 00000002 00000000 00000000 00000002 00000000 00000000 00000000");
    }
}

TEST_F(InitiatorQueue, ReadIntoBusAddressIsRefused) {
    const auto req = request(T3_WR_OP_READ, T3_RDMA_READ_REQ, 0x1000, 50, 0);
    EXPECT_EQ(post_send(wq, req), -EINVAL);
    EXPECT_EQ(wq.wptr, 6u);
    EXPECT_EQ(wq.sq_wptr, 5u);
}

// A8
TEST_F(InitiatorQueue, InlineIsConcatenatedAndRoundedUp) {
    const char first[] = "0123456789", second[] = "abc";
    auto req = request(T3_WR_OP_SEND, T3_RDMA_SEND, reinterpret_cast<std::uintptr_t>(first), 10);
    req.is_inline = true;
    req.num_sge = 2;
    req.sge[1] = {reinterpret_cast<std::uintptr_t>(second), 3, 0};
    ASSERT_EQ(post_send(wq, req), 0);
    EXPECT_EQ(flits(6, 0, 1), "14c00100 80000006"); // 4 flits and 13 bytes
    EXPECT_EQ(flits(6, 3, 1), "0000000d 00000000"); // num_sge 0
    EXPECT_EQ(flits(6, 4, 1), "30313233 34353637");
}

TEST_F(InitiatorQueue, InlineLimits) {
    std::array<char, 65> data{};
    for (const unsigned len : {0U, 1U, 63U, 64U}) {
        auto req = request(T3_WR_OP_WRITE, T3_RDMA_WRITE, reinterpret_cast<std::uintptr_t>(data.data()), len);
        req.is_inline = true;
        const auto at = wq.wptr;
        ASSERT_EQ(post_send(wq, req), 0) << len;
        const auto flits_used = flits(at, 0, 1).substr(15, 2);
        EXPECT_EQ(std::stoul(flits_used, nullptr, 16), 5 + (len + 7) / 8) << len;
    }
    auto req = request(T3_WR_OP_WRITE, T3_RDMA_WRITE, reinterpret_cast<std::uintptr_t>(data.data()), 65);
    req.is_inline = true;
    EXPECT_EQ(post_send(wq, req), -EMSGSIZE);
}

// X1: the sum of the lengths must not wrap before it is compared.
TEST_F(InitiatorQueue, LengthsThatWrapAreRefused) {
    auto req = request(T3_WR_OP_SEND, T3_RDMA_SEND, 0x1000, 0xfffffff0);
    req.num_sge = 2;
    req.sge[1] = {0x2000, 0x20, 0x001234ff};
    for (const bool is_inline : {false, true}) {
        req.is_inline = is_inline;
        EXPECT_EQ(post_send(wq, req), -EMSGSIZE);
    }
    req.num_sge = T3_MAX_SGE + 1;
    req.is_inline = false;
    EXPECT_EQ(post_send(wq, req), -EINVAL);
    EXPECT_EQ(wq.wptr, 6u);
}

TEST_F(InitiatorQueue, LocalInvalidate) {
    auto req = request(T3_WR_OP_LOCAL_INV, T3_RDMA_LOCAL_INV, 0, 0);
    req.flags |= T3_WR_F_LOCAL_FENCE;
    req.inv_stag = 0x00123456;
    ASSERT_EQ(post_send(wq, req), 0);
    EXPECT_EQ(flits(6, 0, 3), "1ac01100 80000003 " + raw(5) + " 00000000 00123456 00000000");
}

TEST_F(InitiatorQueue, FastRegister) {
    const std::array<std::uint64_t, T3_MAX_FASTREG_PAGES + 1> pages{0x100aa0000, 0x100bb1000};
    auto req = request(T3_WR_OP_FASTREG, T3_RDMA_FASTREG, 0, 0);
    req.num_sge = 0;
    req.fr = {0x00123456,
              0x1800,
              0x7f0012345800,
              0,
              T3_PERM_LOCAL_READ | T3_PERM_REMOTE_READ,
              2,
              reinterpret_cast<const __u64*>(pages.data())};
    ASSERT_EQ(post_send(wq, req), 0);
    EXPECT_EQ(flits(6, 0, 7), "19c00100 80000007 " + raw(5) +
                                  " 00000000 00123456 00001800 00007f00 12345800 "
                                  "0200010a 00000000 00000001 00aa0000 00000001 00bb1000");
    for (const unsigned npages : {0U, T3_MAX_FASTREG_PAGES + 1U}) {
        req.fr.npages = npages;
        EXPECT_EQ(post_send(wq, req), -EINVAL) << npages;
    }
}

TEST_F(Queue, ReceiveOfPages) {
    wq.wptr = wq.rq_wptr = wq.rq_rptr = wq.rq_done = 5;
    t3_recv req{};
    req.wr_id = 7;
    req.num_sge = 1;
    req.sge[0] = {0x40, 0x100, 0x002345ff};
    req.pages.pbl_index[0] = 0x40;
    ASSERT_EQ(t3_wq_post_recv(&wq, &req), 0);
    EXPECT_EQ(flits(5, 0, 13), "17c00100 8000000d 00000000 00000000 00000000 00000001 002345ff 00000100 "
                               "00000000 00000040 00000000 00000000 00000000 00000000 00000000 00000000 "
                               "00000000 00000000 00000000 00000000 00000000 00000000 00000040 00000000 "
                               "00000000 00000000");
    EXPECT_EQ(flits(5, 15, 1), "00000000 00000001");
}

TEST_F(Queue, ZeroLengthReceive) {
    const t3_recv req{};
    ASSERT_EQ(t3_wq_post_recv(&wq, &req), 0);
    EXPECT_EQ(flits(0, 0, 3), "17c00100 8000000d 00000000 00000000 00000000 00000000");
}

// The hardware's receive queue holds one entry less than its size.
TEST_F(Queue, FullQueues) {
    const auto send = request(T3_WR_OP_SEND, T3_RDMA_SEND, 0x1000, 1);
    const t3_recv recv{};
    for (int i = 0; i < 16; i++)
        ASSERT_EQ(post_send(wq, send), 0) << i;
    EXPECT_EQ(post_send(wq, send), -ENOMEM);
    EXPECT_EQ(defer_send(wq, send), -ENOMEM);
    for (int i = 0; i < 15; i++)
        ASSERT_EQ(t3_wq_post_recv(&wq, &recv), 0) << i;
    EXPECT_EQ(t3_wq_post_recv(&wq, &recv), -ENOMEM);
    EXPECT_EQ(t3_wq_defer_recv(&wq, &recv), -ENOMEM);
    EXPECT_EQ(wq.wptr, 31u);
}

// A11: counters wrap at 2^32, the generation alternates with each lap.
TEST_F(Queue, GenerationAlternatesAcrossTheWrap) {
    const auto req = request(T3_WR_OP_SEND, T3_RDMA_SEND, 0x1000, 1);
    wq.wptr = 0xffffffc0; // a multiple of both sizes of ring
    wq.sq_wptr = wq.sq_rptr = 0xfffffff8;
    for (int i = 0; i < 128; i++) {
        const auto at = wq.wptr;
        ASSERT_EQ(post_send(wq, req), 0);
        const bool generation = !(at & 32);
        EXPECT_EQ(flits(at % 32, 15, 1), generation ? "00000000 00000001" : "00000000 00000000") << at;
        EXPECT_EQ(flits(at % 32, 0, 1).substr(9, 1), generation ? "8" : "0") << at;
        wq.sq_rptr = wq.sq_wptr;
    }
}

TEST_F(Queue, LeadingReceives) {
    const auto send = request(T3_WR_OP_SEND, T3_RDMA_SEND, 0x1000, 1);
    const t3_recv recv{};
    std::memset(static_cast<void*>(wq.slots), 0, 32 * sizeof(t3_wr_slot));
    EXPECT_EQ(t3_wq_leading_recvs(&wq), 0);
    ASSERT_EQ(t3_wq_post_recv(&wq, &recv), 0);
    ASSERT_EQ(t3_wq_post_recv(&wq, &recv), 0);
    ASSERT_EQ(post_send(wq, send), 0);
    ASSERT_EQ(t3_wq_post_recv(&wq, &recv), 0);
    EXPECT_EQ(t3_wq_leading_recvs(&wq), 2);
    // User space can write any content to its ring.
    std::memset(static_cast<void*>(wq.slots), 0x17, 32 * sizeof(t3_wr_slot));
    EXPECT_EQ(t3_wq_leading_recvs(&wq), (1 << wq.rq_log2) - 1);
}

t3_rdma_init scenario() {
    t3_rdma_init init{};
    init.tid = 0x12;
    init.qpid = 0x21;
    init.pdid = 1;
    init.scqid = 1;
    init.rcqid = 2;
    init.rq_addr = 0x400;
    init.rq_size = 16;
    init.mpa_attrs = T3_MPA_CRC | T3_MPA_IETF;
    init.qp_caps = T3_QPCAP_RDMA_READ | T3_QPCAP_RDMA_WRITE | T3_QPCAP_BIND;
    init.initiator = true;
    init.ulpdu_size = 0x5b4;
    init.rqe_count = 1;
    init.ord = init.ird = 4;
    init.ring_dma = 0x123456000;
    init.ring_slots = 32;
    init.irs = 0x20000015;
    return init;
}

// SOP and EOP are added by the NIC driver.
TEST(WrRdmaInit, Initiator) {
    t3_wr_rdma_init wr;
    const auto init = scenario();
    t3_wr_build_rdma_init(&wr, &init);
    EXPECT_EQ(words(&wr, 18), "10000000 00001209 00000000 00000000 00000021 00000001 00000001 00000002 "
                              "00000400 00000010 0c0705b4 00010001 00000004 00000004 00000001 23456000 "
                              "00000020 20000015");
}

TEST(WrRdmaInit, RtrTypeAndChannel) {
    t3_wr_rdma_init wr;
    auto init = scenario();
    init.initiator = false;
    init.rtr_type = T3_RTR_READ;
    init.channel = 1;
    t3_wr_build_rdma_init(&wr, &init);
    EXPECT_EQ(words(&wr.flags_rtr_type, 1), "00140001");
}

TEST(WrTerminate, IsASendOfTheControlWord) {
    std::array<std::uint8_t, T3_TERMINATE_WR_BYTES> wr;
    t3_wr_build_terminate(wr.data(), 0x12, 0x11, 0x01);
    EXPECT_EQ(words(wr.data(), 10), "14c00300 00001205 00000000 00000000 07000000 00000000 00000004 00000000 "
                                    "11010000 00000000");
}

TEST(WrControlContext, SetUpAndTearDown) {
    t3_wr_modify_qp wr;
    t3_wr_build_ctrl_context(&wr, 0x0000123456789000, 256);
    EXPECT_EQ(words(&wr.sge_cmd, 6), "03000000 00fff703 88008400 00012345 67890100 00000010");
    EXPECT_EQ(words(&wr, 4), "1bc00300 00000007 00000000 00000000");
    t3_wr_build_ctrl_context(&wr, 0, 0);
    EXPECT_EQ(words(&wr.sge_cmd, 6), "00000000 00fff703 00000000 00000000 00000000 00000000");
}

// The page list and the TPT entry of the scenario's region, on a fresh control QP.
TEST(WrMemoryWrite, RegistrationOfTheScenario) {
    t3_wr_slot slot{};
    const auto pages =
        from_words<std::array<std::uint64_t, 3>>("00000001 00aa0000 00000001 00bb1000 00000001 00cc2000");
    auto flits = t3_wr_build_mem_write(&slot.bypass, 0x07000100, pages.data(), sizeof(pages), 0, true);
    t3_wr_publish(&slot, flits, T3_CTRL_QP_CONTEXT, t3_gen(0, 8));
    EXPECT_EQ(words(&slot, 14), "1cc00100 80fff707 00000000 00000000 30380008 10000005 00000001 00aa0000 "
                                "00000001 00bb1000 00000001 00cc2000 00000000 00000000");
    EXPECT_EQ(words(&slot.flit[15], 2), "00000000 00000001");

    const auto entry = from_words<std::array<std::uint32_t, 8>>(
        "ffc00001 f4000000 00000020 00002000 00007f00 12345678 00000000 00000000");
    flits = t3_wr_build_mem_write(&slot.bypass, 0x05024680, entry.data(), sizeof(entry), 1, true);
    t3_wr_publish(&slot, flits, T3_CTRL_QP_CONTEXT, t3_gen(1, 8));
    EXPECT_EQ(words(&slot, 8),
              "1cc00100 80fff707 00000000 " + raw(1) + " 30281234 10000005 ffc00001 f4000000");
}

TEST(WrMemoryWrite, ZeroesAndLengths) {
    t3_wr_slot slot;
    std::memset(static_cast<void*>(&slot), 0xff, sizeof(slot));
    EXPECT_EQ(t3_wr_build_mem_write(&slot.bypass, 0x05000020, nullptr, 32, 9, false), 7u);
    EXPECT_EQ(words(&slot.bypass.data, 8), words(std::array<std::uint32_t, 8>{}.data(), 8));
    EXPECT_EQ(words(&slot, 1), "1cc00000");
    EXPECT_EQ(t3_wr_build_mem_write(&slot.bypass, 0x05000020, nullptr, 33, 9, false), 11u);
    EXPECT_EQ(t3_wr_build_mem_write(&slot.bypass, 0x05000020, nullptr, 96, 9, false), 15u);
}

} // namespace
