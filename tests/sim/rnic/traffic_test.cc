// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Two connected cards without errors: every work request, all sizes, fences, limits, wraps.
#include <gmock/gmock.h>

#include "sim/card/rnic/qp.hh"
#include "tests/sim/rnic/node.hh"

namespace t3sim::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr std::uint32_t big = 1 << 20;

class Traffic : public testing::Test, public Connection {
protected:
    Traffic() = default;
    Traffic(const InitOptions& init_a, const InitOptions& init_b) : Connection(init_a, init_b) {}

    void SetUp() override {
        ra = a.add_region(0x001111aa, 0x7f0000000123, big);
        rb = b.add_region(0x002222bb, 0x550000000abc, big);
        connect();
    }
    std::vector<std::uint32_t> lengths(Node& node) {
        std::vector<std::uint32_t> out;
        for (const SgeRecord& s : std::exchange(node.sge.records, {}))
            out.push_back(s.entry.length);
        return out;
    }
    Region ra, rb;
};

/// Sizes around 0, a flit, the MULPDU (1454), a page, and a megabyte.
const std::vector<std::uint32_t> sizes{0,    1,    3,    4,    7,    8,    64,   1435, 1436,  1437,
                                       1439, 1440, 1441, 1454, 2871, 2872, 2873, 4096, 65535, big};

class Sizes : public Traffic, public testing::WithParamInterface<std::tuple<std::uint8_t, std::size_t>> {
protected:
    Sizes() : Traffic(with_attrs(options_a()), with_attrs(options_b())) {}
    static InitOptions with_attrs(InitOptions init) {
        init.mpa_attrs = std::get<0>(GetParam());
        return init;
    }
};

TEST_P(Sizes, SendWriteAndReadCarryAllBytes) {
    const std::size_t cut = std::get<1>(GetParam());
    std::uint32_t id = 0;
    for (std::uint32_t size : sizes) {
        SCOPED_TRACE(size);
        const Buffer data = pattern(size, size);
        a.fill(ra, ra.va, data);
        b.fill(rb, rb.va, Buffer(size, 0));

        b.run(wr::receive({{rb.stag, rb.va, size}}));
        a.run(wr::send(++id, {{ra.stag, ra.va, size}}));
        settle(cut);
        ASSERT_EQ(b.contents(rb, rb.va, size), data);
        ASSERT_THAT(a.take_records(), ElementsAre(StartsWith("cqe cq 1: 00021413")));
        ASSERT_THAT(lengths(b), ElementsAre(size));

        b.fill(rb, rb.va, Buffer(size, 0));
        a.run(wr::write(++id, {{ra.stag, ra.va, size}}, rb.stag, rb.va));
        settle(cut);
        ASSERT_EQ(b.contents(rb, rb.va, size), data);
        ASSERT_THAT(a.take_records(), ElementsAre(StartsWith("cqe cq 1: 00021410")));
        ASSERT_THAT(b.take_records(), IsEmpty());

        a.fill(ra, ra.va, Buffer(size, 0));
        a.run(wr::read(++id, {ra.stag, ra.va, size}, rb.stag, rb.va));
        settle(cut);
        ASSERT_EQ(a.contents(ra, ra.va, size), data);
        ASSERT_THAT(a.take_records(), ElementsAre("cqe cq 1: 00021402 00000000 001111aa 00000000"));
        ASSERT_THAT(b.take_records(), IsEmpty());
    }
    EXPECT_LE(a.stream.largest, 1460U);
}

INSTANTIATE_TEST_SUITE_P(Mpa, Sizes,
                         testing::Values(std::tuple{0x0c, SIZE_MAX}, std::tuple{0x08, SIZE_MAX},
                                         std::tuple{0x0f, SIZE_MAX}, std::tuple{0x0c, 536},
                                         std::tuple{0x0f, 13}));

TEST_F(Traffic, ScattersAndGathersFourSges) {
    const Buffer data = pattern(9000);
    a.fill(ra, ra.va, data);
    b.run(wr::receive({{rb.stag, rb.va + 5000, 100},
                       {rb.stag, rb.va, 0},
                       {rb.stag, rb.va, 4000},
                       {rb.stag, rb.va + 8000, 4900}}));
    a.run(wr::send(1, {{ra.stag, ra.va + 10, 3000},
                       {ra.stag, ra.va + 3010, 1},
                       {ra.stag, ra.va, 0},
                       {ra.stag, ra.va + 3011, 5889}}));
    settle();
    EXPECT_THAT(lengths(b), ElementsAre(8890U));
    const auto part = [&](std::size_t from, std::size_t size) {
        return Buffer(data.begin() + long(from), data.begin() + long(from + size));
    };
    EXPECT_EQ(b.contents(rb, rb.va + 5000, 100), part(10, 100));
    EXPECT_EQ(b.contents(rb, rb.va, 4000), part(110, 4000));
    EXPECT_EQ(b.contents(rb, rb.va + 8000, 4790), part(4110, 4790));
    EXPECT_EQ(b.contents(rb, rb.va + 12790, 110), Buffer(110, 0)) << "after the message";
}

TEST_F(Traffic, InlineAndStagZero) {
    const Buffer data = pattern(64);
    b.run(wr::receive({{rb.stag, rb.va, 64}}));
    a.run(wr::send_inline(1, data));
    a.run(wr::write_inline(2, Bytes(data).first(13), rb.stag, rb.va + 1000));
    const std::uint64_t bus = a.host.alloc(10000);
    a.host.put(bus, pattern(10000, 5));
    a.run(wr::write(3, {{0, bus, 10000}}, rb.stag, rb.va + 2000));
    const std::uint64_t target = b.host.alloc(4096);
    b.run(wr::receive({{0, target + 7, 100}}, {0x800}));
    a.run(wr::send_inline(4, Bytes(data).first(5)));
    settle();
    EXPECT_EQ(b.contents(rb, rb.va, 64), data);
    EXPECT_EQ(b.contents(rb, rb.va + 1000, 14), [&] {
        Buffer d(data.begin(), data.begin() + 13);
        d.push_back(0);
        return d;
    }());
    EXPECT_EQ(b.contents(rb, rb.va + 2000, 10000), pattern(10000, 5));
    EXPECT_EQ(Buffer(b.host.at(target + 7), b.host.at(target + 7) + 5),
              Buffer(data.begin(), data.begin() + 5));
    EXPECT_THAT(a.take_records(), SizeIs(4));
    EXPECT_THAT(lengths(b), ElementsAre(64U, 5U));
}

TEST_F(Traffic, OnlyReadsCompleteUnsignaled) {
    b.run(wr::receive({}));
    a.run(wr::send(1, {}, wr::none));
    a.run(wr::write(2, {{ra.stag, ra.va, 10}}, rb.stag, rb.va, wr::none));
    a.run(wr::read(3, {ra.stag, ra.va, 10}, rb.stag, rb.va, wr::none));
    a.run(wr::read(4, {ra.stag, ra.va, 10}, rb.stag, rb.va, wr::signaled));
    settle();
    EXPECT_THAT(a.take_records(), ElementsAre(HasSubstr("00021402"), HasSubstr("00021402")));
}

TEST_F(Traffic, FourKindsOfSend) {
    const auto spare = b.add_region(0x00333301, 0x1000, 4096);
    const auto other = b.add_region(0x00444401, 0x1000, 4096);
    for (int i = 0; i < 4; ++i)
        b.run(wr::receive({}));
    a.run(wr::send(1, {}, wr::signaled, 3));
    a.run(wr::send(2, {}, wr::signaled, 4, spare.stag));
    a.run(wr::send(3, {}, wr::signaled, 5));
    a.run(wr::send(4, {}, wr::signaled, 6, other.stag));
    settle();
    std::vector<bool> solicited;
    for (const SgeRecord& s : b.sge.records)
        solicited.push_back(s.solicited);
    EXPECT_THAT(solicited, ElementsAre(false, false, true, true));
    EXPECT_THAT(b.take_records(), ElementsAre("cqe cq 5: 00040403 00000000 00000000 00000001",
                                              "cqe cq 5: 00040404 00000000 00333301 00000002",
                                              "cqe cq 5: 00040405 00000000 00000000 00000003",
                                              "cqe cq 5: 00040406 00000000 00444401 00000004"));
    EXPECT_THAT(a.take_records(), ElementsAre(HasSubstr("00021413"), HasSubstr("00021414"),
                                              HasSubstr("00021415"), HasSubstr("00021416")));
    EXPECT_EQ(b.tpt(spare.stag)[0] & 0x00400000, 0U);
    EXPECT_EQ(b.tpt(other.stag)[0] & 0x00400000, 0U);
    EXPECT_NE(b.tpt(rb.stag)[0] & 0x00400000, 0U);
}

TEST_F(Traffic, BothWaysAtOnce) {
    a.fill(ra, ra.va, pattern(big, 1));
    b.fill(rb, rb.va, pattern(big, 2));
    const auto sink_a = a.add_region(0x00555501, 0, big);
    const auto sink_b = b.add_region(0x00666601, 0, big);
    a.run(wr::read(1, {sink_a.stag, 0, big}, rb.stag, rb.va));
    b.run(wr::read(1, {sink_b.stag, 0, big}, ra.stag, ra.va));
    a.run(wr::write(2, {{ra.stag, ra.va, 100}}, rb.stag, rb.va, wr::signaled | wr::read_fence));
    settle();
    EXPECT_EQ(b.contents(sink_b, 0, big), pattern(big, 1));
    Buffer expected = pattern(big, 2);
    EXPECT_EQ(a.contents(sink_a, 0, big), expected);
    EXPECT_EQ(b.contents(rb, rb.va, 100), a.contents(ra, ra.va, 100));
}

TEST_F(Traffic, ResponsesAndTheRingAlternate) {
    for (std::uint32_t i = 0; i < 3; ++i)
        a.post(wr::read(i, {ra.stag, ra.va, 4}, rb.stag, rb.va));
    a.ring_doorbell();
    b.stream.space = 0;
    for (const std::string& request : a.sent())
        b.receive(from_hex(request));
    for (std::uint32_t i = 0; i < 3; ++i)
        b.post(wr::write_inline(i, pattern(1), ra.stag, ra.va));
    b.stream.space = 65536;
    b.ring_doorbell();
    std::string order;
    for (const std::string& fpdu : b.sent())
        order += fpdu.substr(7, 1);
    EXPECT_EQ(order, "202020");
}

TEST_F(Traffic, FenceWaitsForReads) {
    for (const auto fence : {wr::read_fence, wr::local_fence}) {
        a.post(wr::read(1, {ra.stag, ra.va, 4}, rb.stag, rb.va));
        a.post(wr::write_inline(2, pattern(1), rb.stag, rb.va));
        a.post(wr::write_inline(3, pattern(1), rb.stag, rb.va, wr::signaled | fence));
        a.post(wr::write_inline(4, pattern(1), rb.stag, rb.va));
        a.ring_doorbell();
        const auto fpdus = a.sent();
        ASSERT_THAT(fpdus, SizeIs(2)) << "the fenced one and all after it wait";
        for (const auto& fpdu : fpdus)
            b.receive(from_hex(fpdu));
        EXPECT_THAT(a.take_records(), ElementsAre(HasSubstr("00021410 00000000 00000002")));
        for (const auto& fpdu : b.sent())
            a.receive(from_hex(fpdu)); // no doorbell: the response resumes the ring
        EXPECT_THAT(a.take_records(),
                    ElementsAre(HasSubstr("00021402"), HasSubstr("00000003"), HasSubstr("00000004")));
        settle();
    }
}

TEST_F(Traffic, FencedReadWaitsToo) {
    a.post(wr::read(1, {ra.stag, ra.va, 4}, rb.stag, rb.va));
    a.post(wr::read(2, {ra.stag, ra.va, 4}, rb.stag, rb.va, wr::read_fence));
    a.ring_doorbell();
    EXPECT_THAT(a.stream.records, SizeIs(1));
    settle();
    EXPECT_THAT(a.take_records(), SizeIs(2));
}

TEST_F(Traffic, NoMoreReadsThanOrd) {
    for (std::uint32_t i = 0; i < 7; ++i)
        a.post(wr::read(i, {ra.stag, ra.va + i, 1}, rb.stag, rb.va));
    a.ring_doorbell();
    EXPECT_THAT(a.stream.records, SizeIs(4));
    EXPECT_EQ(a.sge.fetched, 4U);
    settle();
    EXPECT_THAT(a.take_records(), SizeIs(7));
}

struct LargeOrd : Traffic {
    LargeOrd() : Traffic(unlimited(options_a()), unlimited(options_b())) {}
    static InitOptions unlimited(InitOptions init) {
        init.ord = init.ird = 0xffffffff;
        init.slots = 256;
        return init;
    }
};

TEST_F(LargeOrd, OutstandingReadsAreBounded) { // [guess G54]
    for (std::uint32_t i = 0; i < 2 * Qp::max_reads; ++i)
        a.post(wr::read(i, {ra.stag, ra.va + i, 1}, rb.stag, rb.va));
    a.ring_doorbell();
    while (const auto next = a.events.next())
        a.events.advance(*next);
    EXPECT_THAT(a.stream.records, SizeIs(Qp::max_reads));
    settle();
    EXPECT_THAT(a.take_records(), SizeIs(2 * Qp::max_reads));
}

TEST_F(Traffic, ReceivesWaitBehindAWaitingSend) { // [guess G32]
    b.post(wr::read(1, {rb.stag, rb.va, 1}, ra.stag, ra.va));
    b.post(wr::send(2, {}, wr::read_fence));
    b.post(wr::receive({}));
    b.ring_doorbell();
    EXPECT_EQ(b.sge.fetched, 1U);
    a.run(wr::receive({}));
    settle();
    EXPECT_EQ(b.sge.fetched, 3U);
}

TEST_F(Traffic, RingWrapsManyTimes) {
    for (std::uint32_t i = 0; i < 200; ++i) {
        b.run(wr::receive({{rb.stag, rb.va, 8}}));
        a.run(wr::send_inline(i, pattern(8, i)));
        settle();
        ASSERT_EQ(b.contents(rb, rb.va, 8), pattern(8, i));
        ASSERT_THAT(b.sge.records, SizeIs(1));
        ASSERT_EQ(b.sge.records[0].entry.word3, i + 1);
        b.take_records();
        ASSERT_THAT(a.take_records(), SizeIs(1));
    }
}

TEST_F(Traffic, HalfWrittenSlotIsNotReady) {
    a.post(wr::send(1, {}, wr::signaled));
    b.run(wr::receive({}));
    *a.host.at(a.ring + 127) = 0;
    a.ring_doorbell();
    EXPECT_THAT(a.stream.records, IsEmpty());
    *a.host.at(a.ring + 127) = 1;
    a.ring_doorbell();
    EXPECT_THAT(a.stream.records, SizeIs(1));
}

TEST_F(Traffic, FetchesPayloadOnlyWithSendSpace) {
    a.stream.space = 5000;
    a.host.reads = 0;
    a.run(wr::write(1, {{ra.stag, ra.va, big}}, rb.stag, rb.va));
    EXPECT_THAT(a.stream.records, SizeIs(4)); // the last one may exceed the space
    EXPECT_LT(a.host.reads, 12U);
    EXPECT_THAT(a.take_records(), IsEmpty());
    a.fill(ra, ra.va + big - 4, pattern(4, 9)); // not read yet
    settle();
    EXPECT_EQ(b.contents(rb, rb.va + big - 4, 4), pattern(4, 9));
    EXPECT_THAT(a.take_records(), SizeIs(1));
}

TEST_F(Traffic, LocalOperations) {
    const std::uint64_t page = b.host.alloc(4096);
    b.put_tpt(0x00777700, {0x80000003, 0, 0x900, 0, 0, 0, 0, 0});
    b.run(wr::fast_register(1, 0x00777742, 0x10000, 4096, {page}, 0x1f));
    EXPECT_THAT(b.take_records(), ElementsAre("cqe cq 4: 0004041a 00000000 00000001 00000000"));
    a.run(wr::write_inline(1, pattern(20), 0x00777742, 0x10800));
    settle();
    EXPECT_EQ(Buffer(b.host.at(page + 0x800), b.host.at(page + 0x800) + 20), pattern(20));

    b.put_tpt(0x00088800, {0x80200003, 0, 0, 0, 0, 0, 0, 0}); // a window
    b.run(wr::bind(2, 0x00777742, 0x00088855, 0x10100, 0x100, 0x900));
    EXPECT_THAT(b.take_records(), ElementsAre("cqe cq 4: 00040419 00000000 00000002 00000000"));
    a.run(wr::write_inline(2, pattern(20, 2), 0x00088855, 0x10110));
    settle();
    EXPECT_EQ(Buffer(b.host.at(page + 0x110), b.host.at(page + 0x110) + 20), pattern(20, 2));

    b.run(wr::local_inv(3, 0x00088855));
    b.run(wr::local_inv(4, 0x00777742, wr::none));
    EXPECT_THAT(b.take_records(), ElementsAre("cqe cq 4: 0004041b 00000000 00000003 00000000"));
    EXPECT_EQ(b.tpt(0x00777700)[0] & 0x00400000, 0U);
}

TEST_F(Traffic, ReadWithLocalInvalidate) {
    const auto sink = a.add_region(0x00099901, 0x4000, 5000);
    b.fill(rb, rb.va, pattern(5000));
    a.run(wr::read(1, {sink.stag, 0x4000, 5000}, rb.stag, rb.va, 0, true));
    settle();
    EXPECT_EQ(a.contents(sink, 0x4000, 5000), pattern(5000));
    EXPECT_EQ(a.tpt(sink.stag)[0] & 0x00400000, 0U);
    EXPECT_THAT(a.take_records(), ElementsAre(HasSubstr("00021402 00000000 00099901")));
}

TEST_F(Traffic, ZeroLengthNamesNoMemory) {
    a.run(wr::write(1, {}, 0xffffffff, 77));
    a.run(wr::read(2, {1, 77, 0}, 1, 77));
    settle();
    EXPECT_THAT(a.take_records(),
                ElementsAre(HasSubstr("00021410"), HasSubstr("00021402 00000000 00000001")));
    EXPECT_THAT(b.take_records(), IsEmpty());
}

TEST_F(Traffic, LongQueueIsExecutedInPortions) {
    // 1000 slots without segments: the engine executes them in portions, without further doorbells.
    InitOptions init = options_a();
    init.slots = 1024;
    Node node(init);
    node.put_tpt(0x00777700, {0x80000001, 0, 0, 0, 0, 0, 0, 0});
    node.connect();
    for (std::uint32_t i = 0; i < 1000; ++i)
        node.post(wr::local_inv(i, 0x00777700));
    node.ring_doorbell();
    EXPECT_LT(node.sge.records.size(), 500U);
    while (const auto next = node.events.next())
        node.events.advance(*next);
    EXPECT_THAT(node.take_records(), SizeIs(1000));
}

/// After a self test of the memory the receives of 8 QPs filled 8,192 pages of it in one event.
TEST_F(Traffic, FirstAccessesToCardMemoryCountAsWork) {
    constexpr unsigned slots = 255;
    InitOptions init = options_a();
    init.slots = slots + 1;
    init.rq_size = 256;
    Node node(init);
    const Region region = node.add_region(0x001111aa, 0, 4096);
    node.connect();
    const wr::Sge sge{region.stag, 0, 8};
    for (unsigned n = 0; n < slots; ++n)
        node.post(wr::receive({sge, sge, sge, sge}));
    node.memory.always_fills = true;
    const auto fills = [&, before = node.memory.filled()] { return node.memory.filled() - before; };
    node.ring_doorbell();
    EXPECT_GT(fills(), 100U);
    EXPECT_LE(fills(), 400U);
    while (const auto next = node.events.next())
        node.events.advance(*next);
    EXPECT_EQ(node.sge.fetched, slots);
    EXPECT_GE(fills(), slots * 5);
}

} // namespace
} // namespace t3sim::test
