// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Posting: what is in the ring, what is refused, when the doorbell rings.
#include "tests/unit/provider/fake_card.hh"

#include <numeric>

using namespace fake;

namespace {

class Post : public testing::Test {
protected:
    Post() : cq(6), q(cq, cq) {}

    const t3_wr_slot& last_slot() {
        const t3_wr_slot* s = q.fetch();
        EXPECT_NE(s, nullptr);
        return s ? *s : q.slot(0);
    }
    static uint32_t flits(const t3_wr_slot& s) { return from_be<uint32_t>(s.hdr.lo) & T3_WR_LEN; }
    static uint32_t flags(const t3_wr_slot& s) {
        return (from_be<uint32_t>(s.hdr.hi) & T3_WR_FLAGS) >> std::countr_zero(T3_WR_FLAGS);
    }

    CqMemory cq;
    QpMemory q;
};

Sge sge(uint32_t length, uint64_t addr = 0x1000, uint32_t lkey = 0x1234ff) {
    return {addr, length, lkey};
}

} // namespace

TEST_F(Post, LengthInFlitsForEveryNumberOfSges) {
    const std::array<Sge, 4> sg{sge(1), sge(2), sge(3), sge(4)};
    for (uint32_t n = 0; n <= 4; n++) {
        ASSERT_EQ(q.send({.sg = {sg.data(), n}}), 0);
        const auto& s = last_slot();
        EXPECT_EQ(flits(s), 4 + 2 * n);
        EXPECT_EQ(from_be<uint32_t>(s.send.num_sge), n);
        EXPECT_EQ(from_be<uint32_t>(s.send.plen), n * (n + 1) / 2);
        ASSERT_EQ(q.send({.op = SendOp::write, .sg = {sg.data(), n}, .remote_stag = 0x99ff}), 0);
        EXPECT_EQ(flits(last_slot()), 5 + 2 * n);
    }
}

// B18
TEST_F(Post, MoreSgesThanTheCardHasAreRefused) {
    const std::array<Sge, 5> sg{sge(1), sge(1), sge(1), sge(1), sge(1)};
    EXPECT_EQ(q.send({.sg = sg}), EINVAL);
    EXPECT_EQ(q.send({.op = SendOp::write, .sg = sg}), EINVAL);
    EXPECT_EQ(q.send({.op = SendOp::read, .sg = {sg.data(), 2}}), EINVAL);
    EXPECT_EQ(q.recv({.sg = sg}), EINVAL);
    EXPECT_EQ(q.send({.sg = {sg.data(), static_cast<size_t>(-1)}}), EINVAL) << "a negative num_sge";
    EXPECT_FALSE(q.rung());
    EXPECT_EQ(q.fetch_all(), 0u);
}

// B17
TEST_F(Post, SumOfLengthsMustFit32Bits) {
    const std::array<Sge, 2> sg{sge(0xffffffff), sge(1)};
    EXPECT_EQ(q.send({.sg = sg}), EINVAL);
    EXPECT_EQ(q.recv({.sg = sg}), EINVAL);
    EXPECT_EQ(q.send({.sg = {sg.data(), 1}}), 0);
}

TEST_F(Post, A8_InlineOfEverySizeAndSplit) {
    std::array<uint8_t, 64> data;
    std::iota(data.begin(), data.end(), uint8_t{0x40});
    for (uint32_t len = 0; len <= 64; len++) {
        for (uint32_t pieces = 1; pieces <= 4; pieces++) {
            std::array<Sge, 4> sg{};
            uint32_t at = 0;
            for (uint32_t i = 0; i < pieces; i++) {
                const uint32_t n = i + 1 == pieces ? len - at : len / pieces;
                sg[i] = {reinterpret_cast<uintptr_t>(&data[0]) + at, n, 0xbad}; // the lkey is not looked at
                at += n;
            }
            for (const SendOp op : {SendOp::send, SendOp::write}) {
                ASSERT_EQ(q.send({.op = op,
                                  .signaled = true,
                                  .inline_data = true,
                                  .sg = {sg.data(), pieces},
                                  .remote_stag = 0x99ff}),
                          0);
                const auto& s = last_slot();
                const bool write = op == SendOp::write;
                EXPECT_EQ(flits(s), (write ? 5 : 4) + (len + 7) / 8);
                EXPECT_EQ(from_be<uint32_t>(write ? s.write.plen : s.send.plen), len);
                EXPECT_EQ(write ? s.write.num_sge : s.send.num_sge, 0u);
                const void* payload = write ? &s.write.sge : &s.send.sge;
                EXPECT_EQ(std::memcmp(payload, data.data(), len), 0) << len << " bytes in " << pieces;
                cq.sent(0x21, q.qp.sq().tail_relaxed() - 1, write ? T3_RDMA_WRITE : T3_RDMA_SEND);
                EXPECT_EQ(cq.poll().size(), 1u);
            }
        }
    }
}

TEST_F(Post, X1_InlineLengthThatWrapsIsRefused) {
    uint8_t data[32] = {};
    const auto at = reinterpret_cast<uintptr_t>(data);
    const std::array<Sge, 2> wraps{Sge{at, 16, 0}, Sge{at, 0xfffffff0, 0}};
    EXPECT_EQ(q.send({.inline_data = true, .sg = wraps}), EINVAL);
    EXPECT_EQ(q.send({.op = SendOp::write, .inline_data = true, .sg = wraps}), EINVAL);
    const std::array<Sge, 3> one_too_many{Sge{at, 32, 0}, Sge{at, 32, 0}, Sge{at, 1, 0}};
    EXPECT_EQ(q.send({.inline_data = true, .sg = one_too_many}), EINVAL);
    EXPECT_EQ(q.send({.op = SendOp::read, .inline_data = true, .sg = {wraps.data(), 1}}), EINVAL);
}

TEST_F(Post, A9_NothingToMoveNeverNamesStagZero) {
    ASSERT_EQ(q.send({.op = SendOp::read}), 0);
    const auto& r = last_slot();
    EXPECT_NE(r.read.rem_stag, 0u);
    EXPECT_NE(from_be<uint32_t>(r.read.local_stag), 0u);
    EXPECT_NE(from_be<uint32_t>(r.read.local_stag), uint32_t{T3_RTR_STAG})
        << "would be taken for the RTR read";
    EXPECT_EQ(r.read.local_len, 0u);
    EXPECT_EQ(flits(r), 6u);

    ASSERT_EQ(q.send({.op = SendOp::write}), 0);
    EXPECT_NE(last_slot().write.sink_stag, 0u);

    const Sge nothing = sge(0, 0, 0);
    ASSERT_EQ(q.send({.sg = {&nothing, 1}}), 0);
    EXPECT_EQ(last_slot().send.num_sge, 0u) << "an entry without bytes must not be checked by the card";
    ASSERT_EQ(q.recv({.sg = {&nothing, 1}}), 0);
    EXPECT_EQ(last_slot().recv.num_sge, 0u);
}

TEST_F(Post, FlagsGoWhereTheyBelong) {
    ASSERT_EQ(q.send({.signaled = true, .solicited = true, .fence = true}), 0);
    EXPECT_EQ(flags(last_slot()), unsigned{T3_WR_F_COMPLETION | T3_WR_F_SOLICITED | T3_WR_F_READ_FENCE});
    ASSERT_EQ(q.send({.op = SendOp::local_inv, .signaled = true, .fence = true, .inv_stag = 0x55ff}), 0);
    const auto& inv = last_slot();
    EXPECT_EQ(flags(inv), unsigned{T3_WR_F_COMPLETION | T3_WR_F_LOCAL_FENCE});
    EXPECT_EQ(from_be<uint32_t>(inv.local_inv.stag), 0x55ffu);
    EXPECT_EQ(flits(inv), 3u);
    const Sge sink = sge(8);
    ASSERT_EQ(
        q.send({.op = SendOp::read, .signaled = true, .solicited = true, .fence = true, .sg = {&sink, 1}}),
        0);
    EXPECT_EQ(flags(last_slot()), 0u) << "flags of a read must be 0";
}

TEST_F(Post, SendFlavours) {
    const struct {
        SendOp op;
        bool solicited;
        uint8_t rdma_op;
    } rows[] = {{SendOp::send, false, T3_RDMA_SEND},
                {SendOp::send_inv, false, T3_RDMA_SEND_INV},
                {SendOp::send, true, T3_RDMA_SEND_SE},
                {SendOp::send_inv, true, T3_RDMA_SEND_SE_INV}};
    for (const auto& row : rows) {
        ASSERT_EQ(q.send({.op = row.op, .solicited = row.solicited, .inv_stag = 0x77ff}), 0);
        const auto& s = last_slot();
        EXPECT_EQ(s.send.rdma_op, row.rdma_op);
        EXPECT_EQ(from_be<uint32_t>(s.send.inv_stag), row.op == SendOp::send_inv ? 0x77ffu : 0u);
    }
}

TEST_F(Post, BindOfAWindow) {
    ibv_pd pd{};
    cxgb3_mr mr{};
    mr.vmr.ibv_mr.pd = &pd;
    mr.vmr.ibv_mr.lkey = 0x1234ff;
    mr.vmr.ibv_mr.length = 0x1000;
    mr.hca_va = 0x7f0012345678;
    mr.pbl_addr = 0x20;
    ibv_mw mw{};
    mw.pd = &pd;
    mw.rkey = 0x777701;
    mw.type = IBV_MW_TYPE_1;
    ibv_mw_bind bind{};
    bind.wr_id = 1;
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = {&mr.vmr.ibv_mr, 0x7f0012345678, 0x100,
                      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    ASSERT_EQ(cxgb3_bind_mw(q.ibqp(), &mw, &bind), 0);
    EXPECT_TRUE(q.rung());
    const auto& s = last_slot();
    const auto* at = reinterpret_cast<const uint8_t*>(&s);
    EXPECT_THAT(std::vector<uint8_t>(at, at + 48),
                testing::ElementsAreArray(bytes("18c00100 80000006 00000000 00000000 00000103 001234ff"
                                                "00777702 00000100 00007f00 12345678 00000020 00000000")));
    cq.sent(0x21, 0, T3_RDMA_BIND_MW);
    const auto c = cq.poll();
    ASSERT_EQ(c.size(), 1u);
    EXPECT_EQ(c[0].op, t3::WorkOp::bind_mw);
}

TEST_F(Post, ReceiveOverwritesWhatASendLeftInItsSlot) {
    const std::array<Sge, 4> sg{sge(100, -1, -1), sge(100, -1, -1), sge(100, -1, -1), sge(100, -1, -1)};
    for (int i = 0; i < 32; i++) { // a whole lap of the longest sends
        ASSERT_EQ(q.send({.op = SendOp::write, .signaled = true, .sg = sg, .remote_stag = 0xffffffff}), 0);
        cq.sent(0x21, i, T3_RDMA_WRITE);
        cq.poll();
    }
    const Sge one = sge(64);
    ASSERT_EQ(q.recv({.sg = {&one, 1}}), 0);
    const auto* f = reinterpret_cast<const uint64_t*>(q.slot_bytes(0));
    for (unsigned i = 5; i < 13; i++)
        EXPECT_EQ(f[i], 0u) << "flit " << i;
}

TEST_F(Post, BothGenerationsFlipOnEveryLap) {
    for (uint32_t i = 0; i < 32 * 4; i++) {
        ASSERT_EQ(q.send_signaled(i), 0);
        const bool want = (i / 32) % 2 == 0;
        const auto& s = q.slot(i % 32);
        EXPECT_EQ((from_be<uint32_t>(s.hdr.lo) & T3_WR_GEN) != 0, want) << i;
        EXPECT_EQ(from_be<uint64_t>(s.flit[T3_WR_GEN2_FLIT]), want ? 1u : 0u) << i;
        ASSERT_NE(q.fetch(), nullptr);
        EXPECT_EQ(q.fetch(), nullptr) << "the next slot is still of the lap before";
        cq.sent(0x21, i);
        ASSERT_EQ(cq.poll().size(), 1u);
    }
}

TEST_F(Post, X3_FullQueuesReturnEnomemAndTheRequest) {
    std::array<ibv_send_wr, 20> wr;
    for (size_t i = 0; i < wr.size(); i++) {
        wr[i] = verbs(SendRequest{.wr_id = i, .signaled = true});
        wr[i].next = i + 1 < wr.size() ? &wr[i + 1] : nullptr;
    }
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(q.post(&wr[0], &bad), ENOMEM);
    EXPECT_EQ(bad, &wr[16]);
    EXPECT_TRUE(q.rung()) << "those before the refused one are posted";
    EXPECT_EQ(q.fetch_all(), 16u);
    EXPECT_EQ(q.send_signaled(99), ENOMEM);
    EXPECT_FALSE(q.rung()) << "nothing new, no doorbell";

    for (int i = 0; i < 15; i++)
        ASSERT_EQ(q.recv_empty(i), 0);
    EXPECT_EQ(q.recv_empty(15), ENOMEM) << "the card takes a completely full queue for an empty one";
}

TEST_F(Post, OneBadRequestInTheMiddleOfAList) {
    std::array<ibv_send_wr, 3> wr;
    const std::array<Sge, 5> five{};
    wr[0] = verbs(SendRequest{.wr_id = 0});
    wr[1] = verbs(SendRequest{.wr_id = 1, .sg = five});
    wr[2] = verbs(SendRequest{.wr_id = 2});
    wr[0].next = &wr[1];
    wr[1].next = &wr[2];
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(q.post(&wr[0], &bad), EINVAL);
    EXPECT_EQ(bad, &wr[1]);
    EXPECT_EQ(q.fetch_all(), 1u);
    EXPECT_TRUE(q.rung());
    ASSERT_EQ(q.send_signaled(3), 0) << "the slot of the refused one is used by the next";
    EXPECT_EQ(q.fetch_all(), 1u);
}

TEST_F(Post, EmptyListRingsNothing) {
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(q.post(static_cast<ibv_send_wr*>(nullptr), &bad), 0);
    EXPECT_FALSE(q.rung());
}

TEST_F(Post, A6_DoorbellIsLeftToTheKernelWhileOff) {
    q.status_word() = T3_QP_STATUS_DB_OFF;
    ASSERT_EQ(q.send_signaled(1), 0);
    EXPECT_FALSE(q.rung());
    EXPECT_EQ(q.fetch_all(), 1u) << "queued all the same";
    q.status_word() = 0;
    ASSERT_EQ(q.send_signaled(2), 0);
    EXPECT_TRUE(q.rung());
}

TEST_F(Post, NoRequestTouchesTheStatusWord) {
    const std::array<Sge, 4> sg{sge(~0u >> 2, -1, -1), sge(~0u >> 2, -1, -1), sge(~0u >> 2, -1, -1),
                                sge(1, -1, -1)};
    uint8_t data[64];
    std::memset(data, 0xff, sizeof(data));
    const Sge in{reinterpret_cast<uintptr_t>(data), 64, 0};
    for (int kind = 0; kind < 4; kind++) {
        CqMemory fresh_cq(6);
        QpMemory fresh(fresh_cq, fresh_cq);
        switch (kind) {
        case 0:
            ASSERT_EQ(fresh.send({.op = SendOp::write, .sg = sg, .remote_stag = ~0u, .remote_addr = ~0ull}),
                      0);
            break;
        case 1:
            ASSERT_EQ(
                fresh.send({.op = SendOp::write, .inline_data = true, .sg = {&in, 1}, .remote_stag = ~0u}),
                0);
            break;
        case 2:
            ASSERT_EQ(fresh.recv({.sg = sg}), 0);
            break;
        case 3:
            ASSERT_EQ(fresh.send({.op = SendOp::send_inv, .sg = sg, .inv_stag = ~0u}), 0);
            break;
        }
        EXPECT_EQ(fresh.status_word(), 0u) << "kind " << kind;
    }
}

TEST_F(Post, DoorbellIsLittleEndianOnAnyHost) {
    uint8_t reg[4] = {};
    common::mmio_write32(reinterpret_cast<volatile uint32_t*>(reg), 0x21);
    EXPECT_THAT(reg, testing::ElementsAre(0x21, 0, 0, 0)) << "A13";
}
