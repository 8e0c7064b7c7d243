// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Errors of a peer or a guest, with the status, type, opcode and CQ of the report: docs/hw/engine.md 5,
// docs/hw/engine.md 6. An error ends the QP but no other QP.
#include <algorithm>
#include <functional>

#include <gmock/gmock.h>

#include "sim/card/rnic/ddp.hh"
#include "sim/card/rnic/qp.hh"
#include "tests/sim/rnic/node.hh"

namespace t3sim::test {
namespace {

using hw::RdmaOp;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint32_t stag = 0x002222bb;
constexpr std::uint64_t va = 0x550000000000;
constexpr std::uint32_t length = 8192;

Buffer header(const DdpSegment& segment) {
    Buffer out(ddp_header_size(segment.op));
    write_header(out.data(), segment);
    return out;
}
Buffer with_payload(Buffer head, Bytes payload) {
    head.insert(head.end(), payload.begin(), payload.end());
    return head;
}
Buffer tagged(RdmaOp op, std::uint32_t tag, std::uint64_t to, std::size_t size, bool last = true) {
    return with_payload(header({.last = last, .op = op, .stag = tag, .to = to}), pattern(size));
}
Buffer untagged(RdmaOp op, std::uint32_t msn, std::uint32_t mo, std::size_t size, bool last = true,
                std::uint32_t inv = 0) {
    return with_payload(header({.last = last, .op = op, .stag = inv, .msn = msn, .mo = mo}), pattern(size));
}
Buffer read_request(const ReadRequest& request, std::uint32_t msn = 1) {
    Buffer body(sizeof(rdmap_read_request));
    write_read_request(body.data(), request);
    return with_payload(header({.last = true, .op = RdmaOp::read_request, .msn = msn}), body);
}
Buffer changed(Buffer ulpdu, std::size_t at, std::uint8_t value) {
    ulpdu[at] = value;
    return ulpdu;
}

/// A responder with a region, and a Framer that acts as its peer.
class Target : public Node {
public:
    explicit Target(InitOptions init = options_b()) : Node(init), peer_(mpa(init)) {
        region = add_region(stag, va, length, 0xf);
        connect();
        rnic.stream_switched(options.tid);
    }
    void receive_ulpdu(const Buffer& ulpdu) {
        Packet fpdu = Framer::start(ulpdu.size());
        std::copy(ulpdu.begin(), ulpdu.end(), Framer::ulpdu(fpdu).begin());
        receive(peer_.finish(std::move(fpdu)));
    }
    Region region;

private:
    static MpaOptions mpa(const InitOptions& init) {
        return {(init.mpa_attrs & 1) != 0, (init.mpa_attrs & 4) != 0};
    }
    Framer peer_;
};

// ---------------------------------------------------------------- received FPDUs

using Ulpdus = std::vector<Buffer>;

struct Inbound {
    const char* what;
    std::function<Ulpdus()> ulpdus;
    unsigned status;
    bool send_side = false;
    unsigned opcode = 3;
    CqId cq = 5;
    std::function<void(Target&)> prepare = {};
    std::function<void(InitOptions&)> options = {};
};
std::ostream& operator<<(std::ostream& out, const Inbound& row) {
    return out << row.what;
}

void post_receive(Target& t) {
    t.run(wr::receive({{stag, va, 3000}}));
}
void post_read(Target& t) {
    t.run(wr::read(1, {stag, va + 100, 3000}, 0x1, 0));
}
std::function<void(Target&)> tpt_word(unsigned index, std::uint32_t clear, std::uint32_t set) {
    return [=](Target& t) {
        post_receive(t);
        Words words = t.tpt(stag);
        words[index] = (words[index] & ~clear) | set;
        t.put_tpt(stag, words);
    };
}

const RdmaOp send = RdmaOp::send, write = RdmaOp::write, response = RdmaOp::read_response;

const std::vector<Inbound> inbound_rows{
    // 1 length
    {"empty", [] { return Ulpdus{Buffer{}}; }, 0x12},
    {"tagged, 13 bytes", [] { return Ulpdus{Buffer(13, 0xc1)}; }, 0x12},
    {"untagged, 17 bytes", [] { return Ulpdus{Buffer(17, 0x41)}; }, 0x12},
    // 4 to 8
    {"DDP version 0", [] { return Ulpdus{changed(untagged(send, 1, 0, 4), 0, 0x40)}; }, 0x14},
    {"DDP version 2", [] { return Ulpdus{changed(tagged(write, stag, va, 4), 0, 0xc2)}; }, 0x14},
    {"RDMAP version 0", [] { return Ulpdus{changed(untagged(send, 1, 0, 4), 1, 0x03)}; }, 0x15},
    {"RDMAP version 2", [] { return Ulpdus{changed(untagged(send, 1, 0, 4), 1, 0x83)}; }, 0x15},
    {"opcode 8", [] { return Ulpdus{changed(untagged(send, 1, 0, 4), 1, 0x48)}; }, 0x16},
    {"opcode 15", [] { return Ulpdus{changed(untagged(send, 1, 0, 4), 1, 0x4f)}; }, 0x16},
    {"tagged send", [] { return Ulpdus{changed(tagged(write, stag, va, 40), 1, 0x43)}; }, 0x19},
    {"untagged write", [] { return Ulpdus{changed(untagged(send, 1, 0, 4), 1, 0x40)}; }, 0x19, false, 0},
    {"untagged response", [] { return Ulpdus{changed(untagged(send, 1, 0, 4), 1, 0x42)}; }, 0x19, false, 2},
    {"tagged read request", [] { return Ulpdus{changed(tagged(write, stag, va, 40), 1, 0x41)}; }, 0x19, true,
     2, 4},
    {"send on queue 1", [] { return Ulpdus{changed(untagged(send, 1, 0, 4), 9, 1)}; }, 0x17},
    {"send on queue 2^24", [] { return Ulpdus{changed(untagged(send, 1, 0, 4), 6, 1)}; }, 0x17},
    {"read request on queue 0", [] { return Ulpdus{changed(read_request({}), 9, 0)}; }, 0x17, true, 2, 4},
    {"terminate on queue 3", [] { return Ulpdus{changed(untagged(RdmaOp::terminate, 1, 0, 4), 9, 3)}; }, 0x17,
     false, 7},
    // 9 MSN
    {"send MSN 0", [] { return Ulpdus{untagged(send, 0, 0, 4)}; }, 0x18, false, 3, 5, post_receive},
    {"send MSN 2", [] { return Ulpdus{untagged(send, 2, 0, 4)}; }, 0x18, false, 3, 5, post_receive},
    {"send MSN 17, alike in 4 bits", [] { return Ulpdus{untagged(send, 17, 0, 4)}; }, 0x18, false, 3, 5,
     post_receive},
    {"read request MSN 2",
     [] {
         return Ulpdus{read_request({1, 0, 0, 1, 0}, 2)};
     },
     0x18, true, 2, 4},
    {"terminate MSN 2", [] { return Ulpdus{untagged(RdmaOp::terminate, 2, 0, 4)}; }, 0x18, false, 7},
    // 10 MO
    {"send MO 4 first", [] { return Ulpdus{untagged(send, 1, 4, 4)}; }, 0x1a, false, 3, 5, post_receive},
    {"send MO gap",
     [] {
         return Ulpdus{untagged(send, 1, 0, 4, false), untagged(send, 1, 8, 4)};
     },
     0x1a, false, 3, 5, post_receive},
    {"send MO again",
     [] {
         return Ulpdus{untagged(send, 1, 0, 4, false), untagged(send, 1, 0, 4)};
     },
     0x1a, false, 3, 5, post_receive},
    {"read request MO 1",
     [] {
         return Ulpdus{changed(read_request({1, 0, 0, 1, 0}), 17, 1)};
     },
     0x1a, true, 2, 4},
    {"terminate MO 4", [] { return Ulpdus{untagged(RdmaOp::terminate, 1, 4, 4)}; }, 0x1a, false, 7},
    // Write
    {"write not enabled",
     [] { return Ulpdus{tagged(write, stag, va, 4)}; },
     0x04,
     false,
     0,
     5,
     {},
     [](InitOptions& o) { o.caps = 0x1d; }},
    {"write to STag 0", [] { return Ulpdus{tagged(write, 0, va, 4)}; }, 0x01, false, 0},
    {"write of nothing to STag 0", [] { return Ulpdus{tagged(write, 0, va, 0)}; }, 0x01, false, 0},
    {"write to another key", [] { return Ulpdus{tagged(write, stag ^ 1, va, 4)}; }, 0x01, false, 0},
    {"write to another PD", [] { return Ulpdus{tagged(write, stag, va, 4)}; }, 0x02, false, 0, 5,
     tpt_word(0, 0xfffff, 9)},
    {"write without the right", [] { return Ulpdus{tagged(write, stag, va, 4)}; }, 0x04, false, 0, 5,
     tpt_word(1, 1U << 28, 0)},
    {"write that wraps", [] { return Ulpdus{tagged(write, stag, UINT64_MAX, 4)}; }, 0x05, false, 0},
    {"write one too far", [] { return Ulpdus{tagged(write, stag, va + length - 3, 4)}; }, 0x06, false, 0},
    {"write behind the PBL", [] { return Ulpdus{tagged(write, stag, va, 4)}; }, 0x0b, false, 0, 5,
     tpt_word(2, 0, 0x10000)},
    {"second segment of a write",
     [] {
         return Ulpdus{tagged(write, stag, va, 4, false), tagged(write, stag, va + length, 4)};
     },
     0x06, false, 0},
    // Send
    {"no receive", [] { return Ulpdus{untagged(send, 1, 0, 4)}; }, 0x13},
    {"no receive for nothing", [] { return Ulpdus{untagged(send, 1, 0, 0)}; }, 0x13},
    {"no receive, solicited", [] { return Ulpdus{untagged(RdmaOp::send_se, 1, 0, 4)}; }, 0x13, false, 5},
    {"message longer than its receive", [] { return Ulpdus{untagged(send, 1, 0, 3001)}; }, 0x12, false, 3, 5,
     post_receive},
    {"longer in its second segment",
     [] {
         return Ulpdus{untagged(send, 1, 0, 2999, false), untagged(send, 1, 2999, 2)};
     },
     0x12, false, 3, 5, post_receive},
    {"invalidate an unknown STag", [] { return Ulpdus{untagged(RdmaOp::send_inv, 1, 0, 0, true, stag ^ 1)}; },
     0x01, false, 4, 5, post_receive},
    {"invalidate STag 0", [] { return Ulpdus{untagged(RdmaOp::send_se_inv, 1, 0, 0, true, 0)}; }, 0x01, false,
     6, 5, post_receive},
    {"invalidate twice", [] { return Ulpdus{untagged(RdmaOp::send_inv, 1, 0, 0, true, stag)}; }, 0x01, false,
     4, 5, tpt_word(0, 1U << 22, 0)},
    {"invalidate in another PD", [] { return Ulpdus{untagged(RdmaOp::send_inv, 1, 0, 0, true, stag)}; }, 0x02,
     false, 4, 5, tpt_word(0, 0xfffff, 9)},
    {"invalidate a shared region", [] { return Ulpdus{untagged(RdmaOp::send_inv, 1, 0, 0, true, stag)}; },
     0x07, false, 4, 5, tpt_word(0, 0, 1U << 20)},
    {"invalidate under a window", [] { return Ulpdus{untagged(RdmaOp::send_se_inv, 1, 0, 0, true, stag)}; },
     0x08, false, 6, 5, tpt_word(6, 0, 1)},
    // Read request
    {"read not enabled",
     [] {
         return Ulpdus{read_request({1, 0, 4, stag, va})};
     },
     0x04,
     true,
     2,
     4,
     {},
     [](InitOptions& o) { o.caps = 0x1e; }},
    {"read with IRD 0",
     [] {
         return Ulpdus{read_request({1, 0, 0, 1, 0})};
     },
     0x1d,
     true,
     2,
     4,
     {},
     [](InitOptions& o) { o.ird = 0; }},
    {"read request of 27 bytes",
     [] {
         Buffer r = read_request({1, 0, 0, 1, 0});
         r.pop_back();
         return Ulpdus{r};
     },
     0x12, true, 2, 4},
    {"read request of 29 bytes",
     [] {
         Buffer r = read_request({1, 0, 0, 1, 0});
         r.push_back(0);
         return Ulpdus{r};
     },
     0x12, true, 2, 4},
    {"read request, not last",
     [] {
         return Ulpdus{changed(read_request({1, 0, 0, 1, 0}), 0, 0x01)};
     },
     0x12, true, 2, 4},
    {"read from STag 0",
     [] {
         return Ulpdus{read_request({1, 0, 4, 0, va})};
     },
     0x01, true, 2, 4},
    {"read of nothing from STag 0",
     [] {
         return Ulpdus{read_request({1, 0, 0, 0, va})};
     },
     0x01, true, 2, 4},
    {"read without the right",
     [] {
         return Ulpdus{read_request({1, 0, 4, stag, va})};
     },
     0x04, true, 2, 4, tpt_word(1, 1U << 29, 0)},
    {"read one too far",
     [] {
         return Ulpdus{read_request({1, 0, length + 1, stag, va})};
     },
     0x06, true, 2, 4},
    {"read that wraps",
     [] {
         return Ulpdus{read_request({1, 0, UINT32_MAX, stag, UINT64_MAX - 3})};
     },
     0x05, true, 2, 4},
    // Read response
    {"response to nothing", [] { return Ulpdus{tagged(response, stag, va, 4)}; }, 0x16, false, 2},
    {"response to another STag", [] { return Ulpdus{tagged(response, stag ^ 1, va + 100, 3000)}; }, 0x01,
     false, 2, 5, post_read},
    {"response to another place", [] { return Ulpdus{tagged(response, stag, va + 101, 2999)}; }, 0x06, false,
     2, 5, post_read},
    {"response that is too long", [] { return Ulpdus{tagged(response, stag, va + 100, 3001)}; }, 0x06, false,
     2, 5, post_read},
    {"response with a gap",
     [] {
         return Ulpdus{tagged(response, stag, va + 100, 10, false), tagged(response, stag, va + 111, 2989)};
     },
     0x06, false, 2, 5, post_read},
    {"response that ends early", [] { return Ulpdus{tagged(response, stag, va + 100, 2999)}; }, 0x12, false,
     2, 5, post_read},
    {"sink without any write right", [] { return Ulpdus{tagged(response, stag, va + 100, 3000)}; }, 0x04,
     false, 2, 5,
     [](Target& t) {
         post_read(t);
         Words w = t.tpt(stag);
         w[1] &= 0xa7ffffff;
         t.put_tpt(stag, w);
     }},
    {"sink STag 0", [] { return Ulpdus{tagged(response, 0, 0, 0)}; }, 0x01, false, 2, 5,
     [](Target& t) {
         t.run(wr::read(1, {0, 0, 0}, 1, 0));
     }},
};

class InboundError : public testing::TestWithParam<Inbound> {};

// E1: the rows about length. E2: those about read responses.
TEST_P(InboundError, IsReportedOnceAndEndsTheQp) {
    const Inbound& row = GetParam();
    InitOptions options = options_b();
    if (row.options)
        row.options(options);
    Target target(options);
    if (row.prepare)
        row.prepare(target);
    target.sent();
    for (const Buffer& ulpdu : row.ulpdus())
        target.receive_ulpdu(ulpdu);
    ASSERT_THAT(target.sge.records, SizeIs(1));
    const SgeRecord& record = target.sge.records[0];
    EXPECT_EQ(record.kind, SgeRecord::event);
    EXPECT_EQ(record.entry.status, row.status);
    EXPECT_EQ(record.entry.send_side, row.send_side);
    EXPECT_EQ(record.entry.opcode, row.opcode);
    EXPECT_EQ(record.cq, row.cq);
    EXPECT_EQ(record.entry.qp, 0x40U);
    target.take_records();

    // The QP executes nothing more and reports no further error [guess G29].
    target.run(wr::write_inline(1, pattern(4), 0x1111, 0));
    target.receive_ulpdu(tagged(write, 0, 0, 4));
    target.receive_ulpdu(read_request({1, 0, 0, 1, 0}));
    EXPECT_THAT(target.take_records(), IsEmpty());
    EXPECT_THAT(target.sent(), IsEmpty());
    EXPECT_EQ(target.counters.value("rnic.errors"), 1U);
}

INSTANTIATE_TEST_SUITE_P(Rnic, InboundError, testing::ValuesIn(inbound_rows));

TEST(InboundErrors, CrcAndMarkers) {
    Framer plain({});
    Packet fpdu = Framer::start(22);
    std::ranges::fill(Framer::ulpdu(fpdu), std::uint8_t{0});
    write_header(Framer::ulpdu(fpdu).data(), {.last = true, .op = send, .msn = 1});
    fpdu = plain.finish(std::move(fpdu));
    fpdu.data()[21] ^= 1;
    Target target;
    target.receive(fpdu);
    EXPECT_THAT(target.take_records(), ElementsAre("event cq 5: 00040603 00000000 00000000 00000000"));

    InitOptions options = options_b();
    options.mpa_attrs = 0x0d;
    Target marked(options);
    marked.receive(from_hex("00000004 00124143 00000000 00000000 00000001 00000000 00000000"));
    EXPECT_THAT(marked.take_records(), ElementsAre("event cq 5: 00040623 00000000 00000000 00000000"));
}

TEST(InboundErrors, NothingIsPlacedAfterAnError) {
    Target target;
    target.receive_ulpdu(tagged(write, stag, va + length - 3, 4));
    EXPECT_EQ(target.contents(target.region, va + length - 3, 3), Buffer(3, 0));
    Target second;
    post_receive(second);
    second.receive_ulpdu(untagged(send, 1, 0, 3001));
    EXPECT_EQ(second.contents(second.region, va, 3000), Buffer(3000, 0));
}

TEST(InboundErrors, IrdCountsUntilTheResponseIsQueued) {
    Target target;
    target.stream.space = 0;
    for (std::uint32_t msn = 1; msn <= 4; ++msn)
        target.receive_ulpdu(read_request({1, 0, 0, 1, 0}, msn));
    EXPECT_THAT(target.take_records(), IsEmpty());
    target.stream.space = 65536;
    target.rnic.stream_writable(target.options.tid);
    EXPECT_THAT(target.sent(), SizeIs(4));
    target.stream.space = 0;
    for (std::uint32_t msn = 5; msn <= 9; ++msn)
        target.receive_ulpdu(read_request({1, 0, 0, 1, 0}, msn));
    EXPECT_THAT(target.take_records(), ElementsAre("event cq 4: 000407b2 00000000 00000000 00000000"));
}

TEST(InboundErrors, ReadsThatWaitAreBoundedWhateverTheIrd) { // [guess G54]
    InitOptions init = options_b();
    init.ird = 0xffffffff;
    Target target(init);
    target.stream.space = 0;
    for (std::uint32_t msn = 1; msn <= Qp::max_reads; ++msn)
        target.receive_ulpdu(read_request({1, 0, 0, 1, 0}, msn));
    EXPECT_THAT(target.take_records(), IsEmpty());
    target.receive_ulpdu(read_request({1, 0, 0, 1, 0}, Qp::max_reads + 1));
    EXPECT_THAT(target.take_records(), ElementsAre("event cq 4: 000407b2 00000000 00000000 00000000"));
}

TEST(InboundErrors, SourceInvalidatedWhileItsReadWaits) {
    Target target;
    target.stream.space = 0;
    target.receive_ulpdu(read_request({1, 0, 100, stag, va}, 1));
    target.receive_ulpdu(read_request({1, 0, 100, stag, va}, 2));
    target.put_tpt(stag, Words(8));
    target.stream.space = 65536;
    target.rnic.stream_writable(target.options.tid);
    EXPECT_THAT(target.take_records(), ElementsAre("event cq 4: 00040432 00000000 00000000 00000000"));
}

TEST(InboundErrors, UnmappedMemory) {
    Target target;
    post_receive(target);
    target.host.unmap(target.region.pages[0], 4096);
    target.receive_ulpdu(untagged(send, 1, 0, 4));
    EXPECT_THAT(target.take_records(), ElementsAre("event cq 5: 000407e3 00000000 00000000 00000000"));
}

// ---------------------------------------------------------------- work requests

struct Posted {
    const char* what;
    Words words;
    unsigned status;
    unsigned opcode;
    bool send_side = true;
    std::uint8_t caps = 0x1f;
};
std::ostream& operator<<(std::ostream& out, const Posted& row) {
    return out << row.what;
}

Words set(Words words, std::size_t index, std::uint32_t word) {
    words.resize(std::max(words.size(), index + 1));
    words[index] = word;
    return words;
}

const std::vector<Posted> posted_rows{
    // [guess G28]
    {"opcode 0", {0x00c00100, 3, 7, 8}, 0x1f, 3},
    {"opcode 0xff", {0xffc00100, 3, 7, 8}, 0x1f, 3},
    {"RDMA_INIT", {0x10c00100, 9, 7, 8}, 0x1f, 3},
    {"MODIFY_QP", {0x1bc00100, 7, 7, 8}, 0x1f, 3},
    {"BYPASS would write card memory", {0x1cc00100, 7, 7, 8, 0x30280010, 0x10000005}, 0x1f, 3},
    {"send of length 5", set(wr::send(7, {}), 1, 5), 0x1f, 3},
    {"send of length 0", set(wr::send(7, {}), 1, 0), 0x1f, 3},
    {"send with 5 SGEs", wr::send(7, std::vector<wr::Sge>(5, {stag, va, 1})), 0x1f, 3},
    {"send with 2^31 SGEs", set(wr::send(7, {}), 7, 0x80000000), 0x1f, 3},
    {"send whose lengths disagree", set(wr::send(7, {{stag, va, 100}}), 6, 99), 0x1f, 3},
    {"send of 65 bytes inline", wr::send_inline(7, pattern(65)), 0x1f, 3},
    {"send of 2^32 - 1 bytes inline", set(wr::send(7, {}), 6, 0xffffffff), 0x1f, 3},
    {"TERMINATE by the ring", wr::send(7, {}, wr::signaled, 7), 0x1f, 3},
    {"send of a write", wr::send(7, {}, wr::signaled, 0), 0x1f, 3},
    {"write of a send", set(wr::write(7, {}, 1, 1), 4, 3U << 24), 0x1f, 0},
    {"write with 5 SGEs", set(wr::write(7, {}, 1, 1), 9, 5), 0x1f, 0},
    {"write of 65 bytes inline", wr::write_inline(7, pattern(65), 1, 1), 0x1f, 0},
    {"read of length 7", set(wr::read(7, {stag, va, 1}, 1, 1), 1, 7), 0x1f, 1},
    {"read of a send", set(wr::read(7, {stag, va, 1}, 1, 1), 4, 3U << 24), 0x1f, 1},
    {"receive of length 12", set(wr::receive({}), 1, 12), 0x1f, 3, false},
    {"receive with 5 SGEs", set(wr::receive({}), 5, 5), 0x1f, 3, false},
    {"local invalidate of length 4", set(wr::local_inv(7, stag), 1, 4), 0x1f, 11},
    {"bind of length 5", set(wr::bind(7, 1, 1, 1, 1, 1), 1, 5), 0x1f, 9},
    {"fast register of 11 pages", set(wr::fast_register(7, stag, 0, 1, {}), 8, 11U << 24), 0x1f, 10},
    {"fast register whose lengths disagree", set(wr::fast_register(7, stag, 0, 1, {1}), 8, 2U << 24), 0x1f,
     10},
    {"two-slot form", set(wr::fast_register(7, stag, 0, 1, {1}), 0, 0x19800100), 0x1f, 10},
    // Protection
    {"send from an unknown STag", wr::send(7, {{stag ^ 1, va, 1}}), 0x01, 3},
    {"solicited send from an unknown STag", wr::send(7, {{stag ^ 1, va, 1}}, wr::signaled, 5), 0x01, 5},
    {"unsignaled send from an unknown STag", wr::send(7, {{stag ^ 1, va, 1}}, wr::none), 0x01, 3},
    {"send whose second SGE is wrong", wr::send(7, {{stag, va, 1}, {stag, va + length, 1}}), 0x06, 3},
    {"write from behind the region", wr::write(7, {{stag, va + length, 1}}, 1, 1), 0x06, 0},
    {"write from STag 0", wr::write(7, {{0, 0x100000000, 1}}, 1, 1), 0x01, 0, true, 0x0f},
    {"write from no memory", wr::write(7, {{0, 0x10, 1}}, 1, 1), 0x1f, 0},
    {"receive into an unknown STag", wr::receive({{stag ^ 1, va, 1}}), 0x01, 3, false},
    {"receive behind the region", wr::receive({{stag, va + length, 1}}), 0x06, 3, false},
    {"receive into STag 0", wr::receive({{0, 0x100000000, 1}}), 0x01, 3, false, 0x0f},
    {"local invalidate of an unknown STag", wr::local_inv(7, stag ^ 1), 0x01, 11},
    {"fast register not allowed", wr::fast_register(7, stag, 0, 1, {1}), 0x04, 10, true, 0x07},
    {"bind of no window", wr::bind(7, stag, 0x100, va, 1, 0x20), 0x01, 9},
};

class PostedError : public testing::TestWithParam<Posted> {};

// E11
TEST_P(PostedError, IsReportedAndEndsTheQp) {
    const Posted& row = GetParam();
    InitOptions options = options_b();
    options.caps = row.caps;
    Target target(options);
    target.post(row.words);
    target.post(wr::write_inline(8, pattern(4), 0x1111, 0));
    target.ring_doorbell();
    ASSERT_THAT(target.sge.records, SizeIs(1));
    const SgeRecord& record = target.sge.records[0];
    EXPECT_EQ(record.kind, SgeRecord::event);
    EXPECT_EQ(record.entry.status, row.status);
    EXPECT_EQ(record.entry.opcode, row.opcode);
    EXPECT_EQ(record.entry.send_side, row.send_side);
    EXPECT_EQ(record.cq, row.send_side ? 4U : 5U);
    EXPECT_EQ(record.entry.word2, row.send_side ? 7U : 0U) << "WR id as posted";
    EXPECT_THAT(target.sent(), IsEmpty()) << "no byte of it is sent";
    EXPECT_EQ(target.sge.fetched, 1U);
}

INSTANTIATE_TEST_SUITE_P(Rnic, PostedError, testing::ValuesIn(posted_rows));

TEST(PostedErrors, OneReceiveTooMany) {
    Target target;
    for (int i = 0; i < 15; ++i)
        target.run(wr::receive({}));
    EXPECT_THAT(target.take_records(), IsEmpty());
    target.run(wr::receive({}));
    EXPECT_THAT(target.take_records(), ElementsAre("event cq 5: 000407c3 00000000 00000000 00000000"));
}

TEST(PostedErrors, SourceInvalidatedWithinAMessage) {
    Target target;
    target.stream.space = 2000;
    target.run(wr::write(7, {{stag, va, length}}, 1, 1));
    EXPECT_THAT(target.sent(), SizeIs(2));
    target.host.unmap(target.region.pages[1], 4096);
    target.rnic.stream_writable(target.options.tid);
    EXPECT_THAT(target.take_records(), ElementsAre("event cq 4: 000407f0 00000000 00000007 00000000"));
}

TEST(PostedErrors, EccErrorOfATptEntryAffectsOneAccess) {
    Target target;
    target.faults.tpt_entry.arm(1);
    target.run(wr::write(1, {{target.region.stag, target.region.va, 4}}, 0x1111, 0));
    EXPECT_THAT(target.take_records(), ElementsAre(HasSubstr("event cq 4: 00040530")))
        << "status 9, send side, WRITE";
    EXPECT_EQ(target.counters.value("faults.tpt_ecc_errors"), 1U);
}

TEST(PostedErrors, AnotherQpGoesOn) {
    Target target;
    const std::uint64_t ring = target.host.alloc(32 * slot_size);
    target.rnic.offload_wr(0x16,
                           Node::pack({0x10c00000, 0x80001609, 0, 0, 0x41, 3, 4, 5, 0x1000, 16, 0x0c1f05b4,
                                       0x00010000, 4, 4, wr::hi(ring), wr::lo(ring), 32, 0}),
                           0);
    target.receive_ulpdu(Buffer{});
    EXPECT_THAT(target.take_records(), SizeIs(1));
    target.host.put(ring, Node::pack(wr::write_inline(1, pattern(4), 0x1111, 0)));
    target.host.put_words(ring + 4, {0x80000006});
    target.host.put_words(ring + 124, {1});
    target.rnic.doorbell(0x41);
    EXPECT_THAT(target.take_records(), ElementsAre(HasSubstr("cqe cq 4: 00041410")));
    EXPECT_THAT(target.sent(), SizeIs(1));
}

} // namespace
} // namespace t3sim::test
