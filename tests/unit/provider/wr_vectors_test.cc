// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Work requests and completions of the examples in docs/hw/test-vectors.md, byte by byte.
#include "tests/unit/kernel/words.hh"
#include "tests/unit/provider/fake_card.hh"

using namespace fake;
using testing::ElementsAreArray;

namespace {

// Host A of the examples is posted 1 receive and 5 sends, all done, before each example begins; host B 5
// receives.
class Vectors : public testing::Test {
protected:
    Vectors() : a_cq(4), b_cq(5), a(a_cq, a_cq), b(b_cq, b_cq, {.qpid = 0x40}) {
        EXPECT_EQ(a.recv_empty(0), 0);
        for (uint32_t i = 0; i < 5; i++) {
            EXPECT_EQ(a.send_signaled(i), 0);
            a_cq.sent(0x21, i);
            EXPECT_EQ(b.recv_empty(i), 0);
            b_cq.received(0x40, i + 1, 0);
        }
        EXPECT_EQ(a_cq.poll().size(), 5u);
        EXPECT_EQ(b_cq.poll().size(), 5u);
        a.rung();
        b.rung();
    }

    static void expect_flits(QpMemory& q, unsigned slot, unsigned first, unsigned count,
                             const std::string& hex) {
        const uint8_t* at = q.slot_bytes(slot) + 8 * first;
        EXPECT_THAT(std::vector<uint8_t>(at, at + 8 * count), ElementsAreArray(bytes(hex)))
            << "slot " << slot;
    }
    static void write_raw(CqMemory& cq, const std::string& hex) {
        const auto raw = bytes(hex);
        std::memcpy(cq.entry(cq.produced++), raw.data(), raw.size());
    }

    CqMemory a_cq, b_cq;
    QpMemory a, b;
};

} // namespace

TEST_F(Vectors, ReceiveOf256Bytes) {
    const fake::Sge sge{0x00005500aabbc040, 256, 0x002345ff};
    ASSERT_EQ(b.recv({.wr_id = 6, .sg = {&sge, 1}}), 0);
    expect_flits(b, 5, 0, 13,
                 "17c00100 8000000d  00000000 00000000  00000000 00000001  002345ff 00000100"
                 "00005500 aabbc040  00000000 00000000  00000000 00000000  00000000 00000000"
                 "00000000 00000000  00000000 00000000  00000000 00000000  00000000 00000000"
                 "00000000 00000000");
    expect_flits(b, 5, 15, 1, "00000000 00000001");
    EXPECT_TRUE(b.rung());

    write_raw(b_cq, "00040403 00000064 00000000 00000006");
    const auto c = b_cq.poll();
    ASSERT_EQ(c.size(), 1u);
    EXPECT_EQ(c[0].wr_id, 6u);
    EXPECT_EQ(c[0].op, t3::WorkOp::recv);
    EXPECT_EQ(c[0].byte_len, 100u);
    EXPECT_EQ(c[0].qpid, 0x40u);
    EXPECT_EQ(c[0].status, T3_STATUS_SUCCESS);
    EXPECT_FALSE(c[0].with_invalidate);
}

TEST_F(Vectors, SendOf100Bytes) {
    const fake::Sge sge{0x00007f0012345ff8, 100, 0x001234ff};
    ASSERT_EQ(a.send({.wr_id = 77, .signaled = true, .sg = {&sge, 1}}), 0);
    expect_flits(a, 6, 0, 6,
                 "14c00100 80000006  " + raw(5) +
                     " 00000000  03000000 00000000  00000064 00000001"
                     "001234ff 00000064  00007f00 12345ff8");
    expect_flits(a, 6, 15, 1, "00000000 00000001");
    EXPECT_EQ(a.doorbell, common::to_le(uint32_t{0x21}));

    write_raw(a_cq, "00021413 00000000 " + raw(5) + " 00000000");
    const auto c = a_cq.poll();
    ASSERT_EQ(c.size(), 1u);
    EXPECT_EQ(c[0].wr_id, 77u);
    EXPECT_EQ(c[0].op, t3::WorkOp::send);
    EXPECT_EQ(c[0].status, T3_STATUS_SUCCESS);
}

TEST_F(Vectors, SolicitedSendDiffersInFlagAndOpcode) {
    const fake::Sge sge{0x00007f0012345ff8, 100, 0x001234ff};
    ASSERT_EQ(a.send({.wr_id = 77, .signaled = true, .solicited = true, .sg = {&sge, 1}}), 0);
    expect_flits(a, 6, 0, 1, "14c00500 80000006");
    expect_flits(a, 6, 2, 1, "05000000 00000000");
}

TEST_F(Vectors, WriteThenReadCompleteInOrder) {
    const fake::Sge first{0x00007f0012345ff8, 100, 0x001234ff};
    ASSERT_EQ(a.send({.wr_id = 77, .signaled = true, .sg = {&first, 1}}), 0);

    const fake::Sge source{0x00007f0012345678, 41, 0x001234ff};
    ASSERT_EQ(a.send({.wr_id = 78,
                      .op = fake::SendOp::write,
                      .signaled = true,
                      .sg = {&source, 1},
                      .remote_stag = 0x002345ff,
                      .remote_addr = 0x00005500aabbc100}),
              0);
    expect_flits(a, 7, 0, 7,
                 "11c00100 80000007  " + raw(6) +
                     " 00000000  00000000 002345ff  00005500 aabbc100"
                     "00000029 00000001  001234ff 00000029  00007f00 12345678");
    expect_flits(a, 7, 15, 1, "00000000 00000001");

    const fake::Sge sink{0x00007f00123456b8, 50, 0x001234ff};
    ASSERT_EQ(a.send({.wr_id = 79,
                      .op = fake::SendOp::read,
                      .signaled = true,
                      .sg = {&sink, 1},
                      .remote_stag = 0x002345ff,
                      .remote_addr = 0x00005500aabbc140}),
              0);
    expect_flits(a, 8, 0, 6,
                 "16c00000 80000006  " + raw(7) +
                     " 00000000  01000000 002345ff  00005500 aabbc140"
                     "001234ff 00000032  00007f00 123456b8");
    expect_flits(a, 8, 15, 1, "00000000 00000001");

    write_raw(a_cq, "00021413 00000000 " + raw(5) + " 00000000");
    write_raw(a_cq, "00021410 00000000 " + raw(6) + " 00000000");
    write_raw(a_cq, "00021402 00000000 001234ff 00000000");
    const auto c = a_cq.poll();
    EXPECT_THAT(wr_ids(c), testing::ElementsAre(77, 78, 79));
    ASSERT_EQ(c.size(), 3u);
    EXPECT_EQ(c[1].op, t3::WorkOp::write);
    EXPECT_EQ(c[2].op, t3::WorkOp::read);
    EXPECT_EQ(c[2].byte_len, 50u);
}
