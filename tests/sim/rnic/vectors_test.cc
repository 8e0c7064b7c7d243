// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The examples of docs/hw/test-vectors.md, byte by byte: registration, SEND, RDMA WRITE, RDMA READ.
#include <gmock/gmock.h>

#include "tests/sim/rnic/node.hh"

namespace t3sim::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t stag_a = 0x001234ff;
constexpr std::uint32_t stag_b = 0x002345ff;
constexpr std::uint64_t va_a = 0x00007f0012345678;
constexpr std::uint64_t va_b = 0x00005500aabbc000;

/// Both cards at the start of the examples: regions registered, A has sent 5 messages to B.
class Examples : public testing::Test, public Connection {
protected:
    void SetUp() override {
        a.put_tpt(stag_a, {0xffc00001, 0xf4000000, 0x20, 0x2000, 0x7f00, 0x12345678, 0, 0});
        b.put_tpt(stag_b, {0xffc00003, 0xf4000000, 0x40, 0x1000, 0x5500, 0xaabbc000, 0, 0});
        // The page addresses of the examples are outside of the test's memory; the page lists use other
        // pages.
        for (unsigned i = 0; i < 3; ++i) {
            page_a[i] = a.host.alloc(4096);
            a.put_pbl(0x20 + i, page_a[i]);
        }
        page_b = b.host.alloc(4096);
        b.put_pbl(0x40, page_b);
        connect();
        a.run(wr::receive({}));
        for (unsigned i = 0; i < 5; ++i) {
            b.run(wr::receive({}));
            a.run(wr::send(i << 24, {}));
        }
        settle();
        a.take_records();
        b.take_records();
    }
    std::uint64_t page_a[3]{}, page_b = 0;
};

TEST_F(Examples, SendOf100Bytes) {
    for (unsigned i = 0; i < 100; ++i)
        *a.host.at((i < 8 ? page_a[0] + 0xff8 : page_a[1] - 8) + i) = static_cast<std::uint8_t>(i);
    b.run({0x17c00100, 0x8000000d, 0, 0, 0, 1, stag_b, 0x100, 0x5500, 0xaabbc040, 0, 0, 0,
           0,          0,          0, 0, 0, 0, 0,      0,     0,      0,          0, 0, 0});
    a.run({0x14c00100, 0x80000006, 0x05000000, 0, 0x03000000, 0, 100, 1, stag_a, 100, 0x7f00, 0x12345ff8});
    const std::string fpdu =
        "00764143 00000000 00000000 00000006 00000000 00010203 04050607 08090a0b 0c0d0e0f 10111213 14151617 "
        "18191a1b 1c1d1e1f 20212223 24252627 28292a2b 2c2d2e2f 30313233 34353637 38393a3b 3c3d3e3f 40414243 "
        "44454647 48494a4b 4c4d4e4f 50515253 54555657 58595a5b 5c5d5e5f 60616263 28f10513";
    EXPECT_THAT(a.sent(), ElementsAre(fpdu));
    EXPECT_THAT(a.take_records(), ElementsAre("cqe cq 1: 00021413 00000000 05000000 00000000"));
    b.receive(from_hex(fpdu));
    EXPECT_THAT(b.take_records(), ElementsAre("cqe cq 5: 00040403 00000064 00000000 00000006"));
    for (unsigned i = 0; i < 100; ++i)
        EXPECT_EQ(*b.host.at(page_b + 0x40 + i), i);
    EXPECT_EQ(*b.host.at(page_b + 0x3f), 0);
    EXPECT_EQ(*b.host.at(page_b + 0x40 + 100), 0);
}

TEST_F(Examples, WriteOf41Bytes) {
    for (unsigned i = 0; i < 41; ++i)
        *a.host.at(page_a[0] + 0x678 + i) = static_cast<std::uint8_t>(0x80 + i);
    a.run({0x11c00100, 0x80000007, 0x06000000, 0, 0, stag_b, 0x5500, 0xaabbc100, 41, 1, stag_a, 41, 0x7f00,
           0x12345678});
    const std::string fpdu =
        "0037c140 002345ff 00005500 aabbc100 80818283 84858687 88898a8b 8c8d8e8f 90919293 "
        "94959697 98999a9b 9c9d9e9f a0a1a2a3 a4a5a6a7 a8000000 c04ec549";
    EXPECT_THAT(a.sent(), ElementsAre(fpdu));
    EXPECT_THAT(a.take_records(), ElementsAre("cqe cq 1: 00021410 00000000 06000000 00000000"));
    b.receive(from_hex(fpdu));
    EXPECT_THAT(b.take_records(), IsEmpty());
    for (unsigned i = 0; i < 41; ++i)
        EXPECT_EQ(*b.host.at(page_b + 0x100 + i), 0x80 + i);
}

TEST_F(Examples, ReadOf50Bytes) {
    for (unsigned i = 0; i < 50; ++i)
        *b.host.at(page_b + 0x140 + i) = static_cast<std::uint8_t>(0xc0 + i);
    a.run({0x16c00000, 0x80000006, 0x07000000, 0, 0x01000000, stag_b, 0x5500, 0xaabbc140, stag_a, 50, 0x7f00,
           0x123456b8});
    const std::string request = "002e4141 00000000 00000001 00000001 00000000 001234ff 00007f00 123456b8 "
                                "00000032 002345ff 00005500 aabbc140 327dabff";
    EXPECT_THAT(a.sent(), ElementsAre(request));
    EXPECT_THAT(a.take_records(), IsEmpty());
    b.receive(from_hex(request));
    const std::string response =
        "0040c142 001234ff 00007f00 123456b8 c0c1c2c3 c4c5c6c7 c8c9cacb cccdcecf d0d1d2d3 d4d5d6d7 "
        "d8d9dadb dcdddedf e0e1e2e3 e4e5e6e7 e8e9eaeb ecedeeef f0f10000 f2d742c8";
    EXPECT_THAT(b.sent(), ElementsAre(response));
    EXPECT_THAT(b.take_records(), IsEmpty());
    a.receive(from_hex(response));
    EXPECT_THAT(a.take_records(), ElementsAre("cqe cq 1: 00021402 00000000 001234ff 00000000"));
    for (unsigned i = 0; i < 50; ++i)
        EXPECT_EQ(*a.host.at(page_a[0] + 0x6b8 + i), 0xc0 + i);
}

/// The control QP: its context by MODIFY_QP, then the page list and the TPT entry of A's region.
class Registration : public testing::Test, public Node {
protected:
    Registration() : Node(options_a()), control_ring(host.alloc(256 * slot_size)) {}

    void open() {
        const std::uint64_t ctx0 = (control_ring >> 12 & 0xffff) << 48 | 0x0000010000000010;
        const std::uint64_t ctx1 = 0x8800840000000000 | (control_ring >> 28 & 0xffffffff);
        rnic.control_wr(pack({0x1bc00300, 0x81000007, 0, 0x2a000000, 8, 0, 0, 0, 0x03000000, 0x00fff703,
                              wr::hi(ctx1), wr::lo(ctx1), wr::hi(ctx0), wr::lo(ctx0)}));
    }
    std::uint64_t control_ring;
};

TEST_F(Registration, ModifyQpOpensTheControlQp) {
    open();
    EXPECT_THAT(take_records(), ElementsAre("event cq 0: 0fff841c 00000000 00000000 2a000000"));
    const auto& context = sge.contexts.at(65527);
    EXPECT_EQ(context.base, control_ring);
    EXPECT_EQ(context.slots, 256U);
    EXPECT_EQ(context.tid, 65552U);
    rnic.control_wr(pack({0x1bc00300, 0x81000007, 0, 0, 8, 0, 0, 0, 0, 0x00fff703, 0, 0, 0, 0}));
    EXPECT_TRUE(sge.contexts.empty());
}

TEST_F(Registration, ModifyQpCannotChangeTheNicDriversContexts) {
    rnic.control_wr(pack({0x1bc00300, 0x81000007, 0, 0, 8, 0, 0, 0, 0x03000000, 0x00000003, 0x88808400,
                          0x12345, 0x67890100, 0x10}));
    EXPECT_TRUE(sge.contexts.empty());
    EXPECT_THAT(take_records(), ElementsAre("event cq 0: 0fff87fc 00000000 00000000 00000000"));
}

TEST_F(Registration, OfTheExamplesRegion) {
    open();
    take_records();
    host.put_words(control_ring, {0x1cc00100, 0x80fff707, 0, 0, 0x30380008, 0x10000005, 1, 0x00aa0000, 1,
                                  0x00bb1000, 1, 0x00cc2000, 0, 0});
    host.put_words(control_ring + 120, {0, 1});
    rnic.doorbell(65527);
    EXPECT_THAT(take_records(), ElementsAre("event cq 0: 0fff741d 00000000 00000000 00000000"));
    EXPECT_EQ(memory.get(0x07000100, 6), (Words{1, 0x00aa0000, 1, 0x00bb1000, 1, 0x00cc2000}));

    const std::uint64_t slot1 = control_ring + slot_size;
    host.put_words(slot1, {0x1cc00100, 0x80fff707, 0, 0x01000000, 0x30281234, 0x10000005, 0xffc00001,
                           0xf4000000, 0x20, 0x2000, 0x7f00, 0x12345678, 0, 0});
    rnic.doorbell(65527); // the second generation is missing
    EXPECT_THAT(take_records(), IsEmpty());
    host.put_words(slot1 + 120, {0, 1});
    rnic.doorbell(65527);
    EXPECT_THAT(take_records(), ElementsAre("event cq 0: 0fff741d 00000000 00000000 01000000"));
    EXPECT_EQ(tpt(stag_a), (Words{0xffc00001, 0xf4000000, 0x20, 0x2000, 0x7f00, 0x12345678, 0, 0}));
}

TEST_F(Registration, OnlySignaledOrBadWritesGiveEvents) {
    open();
    take_records();
    struct {
        const char* what;
        std::uint32_t hi, lo, command, size;
        std::uint8_t status;
        bool no_event;
    } const rows[] = {
        {"three units, no completion", 0x1cc00000, 0x80fff70f, 0x30280000, 0x3000000d, 0, true},
        {"no units", 0x1cc00100, 0x80fff703, 0x30280000, 0x00000001, 0x1f, false},
        {"four units", 0x1cc00100, 0x80fff70f, 0x30280000, 0x40000011, 0x1f, false},
        {"a memory read", 0x1cc00100, 0x80fff707, 0x20280000, 0x10000005, 0x1f, false},
        {"lengths that disagree", 0x1cc00100, 0x80fff70b, 0x30280000, 0x10000005, 0x1f, false},
        {"outside the memory", 0x1cc00000, 0x80fff707, 0x37ffffff, 0x10000005, 0x1f, false},
        {"another opcode", 0x14c00100, 0x80fff707, 0x30280000, 0x10000005, 0x1f, false},
    };
    std::uint64_t slot = control_ring;
    for (const auto& row : rows) {
        SCOPED_TRACE(row.what);
        host.put_words(slot, {row.hi, row.lo, 0, 7, row.command, row.size});
        host.put_words(slot + 120, {0, 1});
        slot += slot_size;
        rnic.doorbell(65527);
        ASSERT_EQ(sge.records.empty(), row.no_event);
        if (!row.no_event) {
            EXPECT_EQ(sge.records.back().kind, SgeRecord::event);
            EXPECT_EQ(sge.records.back().entry.status, row.status);
            EXPECT_EQ(sge.records.back().entry.qp, 65527U);
        }
        sge.records.clear();
    }
}

} // namespace
} // namespace t3sim::test
