// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// From RDMA_INIT to the end of the connection: the acknowledgement rule, the passive switch, the
// ready-to-receive hold, TERMINATE, the close rules (docs/hw/engine.md 7 and docs/hw/engine.md 8;
// docs/hw/cpl.md 25; docs/hw/connections.md 6, docs/hw/connections.md 7 and docs/hw/connections.md 10).
#include <algorithm>
#include <functional>
#include <utility>

#include <gmock/gmock.h>

#include "sim/card/rnic/ddp.hh"
#include "tests/sim/hostile/effort.hh"
#include "tests/sim/rnic/node.hh"

namespace t3sim::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

const std::string empty_send = "00124143 00000000 00000000 00000001 00000000 ";
const std::string rtr_read =
    "002e4141 00000000 00000001 00000001 00000000 00000001 00000000 00000001 00000000 "
    "00000001 00000000 00000001 7b84584a";
const std::string rtr_response = "000ec142 00000001 00000000 00000001 222083cc";
const std::string terminate_fpdu = "00164147 00000000 00000002 00000001 00000000 01020000 4c5a458f";

InitOptions with_rtr(InitOptions init, unsigned type = 1) {
    init.rtr = type;
    return init;
}

// ---------------------------------------------------------------- RDMA_INIT

TEST(Init, IsAcknowledgedOnlyWithReceivesPosted) { // [guess G1]
    InitOptions init = options_a();
    EXPECT_FALSE(Node(init).connect());
    init.rqe_count = 3;
    EXPECT_TRUE(Node(init).connect());
    init.rqe_count = 0;
    Node other(init);
    other.faults.guesses.set("G1=other");
    EXPECT_TRUE(other.connect());
}

TEST(Init, ConsumesTheReceivesAtTheFrontOfTheRing) {
    Node node(options_b());
    for (int i = 0; i < 3; ++i)
        node.post(wr::receive({}));
    node.post(wr::send(1, {}));
    node.post(wr::receive({}));
    node.ring_doorbell(); // before the connection exists
    EXPECT_EQ(node.sge.fetched, 0U);
    EXPECT_EQ(node.counters.value("rnic.doorbells_without_qp"), 1U);
    node.options.rqe_count = 3;
    EXPECT_TRUE(node.connect());
    EXPECT_EQ(node.sge.fetched, 3U) << "the send and the receive after it wait for the switch";
    node.rnic.stream_switched(0x15);
    EXPECT_EQ(node.sge.fetched, 5U);
}

TEST(Init, RefusesInvalidParameters) {
    const struct {
        const char* what;
        void (*change)(InitOptions&);
        unsigned status;
    } rows[] = {
        {"QP id of an offload queue", [](InitOptions& o) { o.qp = 7; }, 0x1f},
        {"QP id of the control QP", [](InitOptions& o) { o.qp = 65527; }, 0x1f},
        {"RQ of 8", [](InitOptions& o) { o.rq_size = 8; }, 0x1f},
        {"RQ of 48", [](InitOptions& o) { o.rq_size = 48; }, 0x1f},
        {"RQ of 2048", [](InitOptions& o) { o.rq_size = 2048; }, 0x1f},
        {"RQ of 0", [](InitOptions& o) { o.rq_size = 0; }, 0x1f},
        {"RQ behind the RQT", [](InitOptions& o) { o.rq_addr = 0x20000 - 15 * 64; }, 0x1e},
        {"RQ address that wraps", [](InitOptions& o) { o.rq_addr = 0xffffffc0; }, 0x1e},
    };
    for (const auto& row : rows) {
        SCOPED_TRACE(row.what);
        InitOptions init = options_a();
        init.rqe_count = 1;
        row.change(init);
        Node node(init);
        EXPECT_FALSE(node.connect());
        EXPECT_FALSE(node.rnic.rdma_mode(init.tid));
        EXPECT_TRUE(node.sge.contexts.empty());
        ASSERT_THAT(node.sge.records, SizeIs(1));
        EXPECT_EQ(node.sge.records[0].entry.status, row.status);
        EXPECT_EQ(node.sge.records[0].entry.opcode, 8);
    }
    Node node(options_a());
    node.options.slots = 0;
    EXPECT_FALSE(node.connect());
    node.options.slots = 0x10000;
    EXPECT_FALSE(node.connect());
    node.options.slots = 32;
    node.ring += 8;
    EXPECT_FALSE(node.connect());
    node.ring -= 8;
    node.connect();
    EXPECT_TRUE(node.rnic.rdma_mode(0x12));
    node.take_records();
    EXPECT_FALSE(node.connect()) << "twice on one connection";
    EXPECT_THAT(node.take_records(), SizeIs(1));
}

TEST(Init, OtherOffloadWorkRequestsAreCountedAndIgnored) {
    Node node(options_a());
    for (const Words& words :
         {wr::ready_read(0x12), wr::terminate(0x12), Words{0x10c00000, 0x80001209}, Words{}})
        node.rnic.offload_wr(0x12, Node::pack(words), 0);
    EXPECT_EQ(node.counters.value("rnic.malformed_work_requests"), 4U);
    EXPECT_THAT(node.take_records(), IsEmpty());
}

TEST(Init, MarkersCountFromIrs) { // [guess G3, G39]
    InitOptions init = options_a();
    init.mpa_attrs = 0x09; // receive markers, no CRC
    Node node(init);
    node.connect(init.irs + 508); // the stream starts 4 bytes before a marker
    node.run(wr::receive({}));
    Framer plain({.crc = false});
    Packet unmarked = Framer::start(18);
    write_header(Framer::ulpdu(unmarked).data(), {.last = true, .op = hw::RdmaOp::send, .msn = 1});
    Buffer fpdu(unmarked.data(), unmarked.data() + unmarked.size());
    const std::uint8_t marker[] = {0, 0, 0, 4};
    fpdu.insert(fpdu.begin() + 4, marker, marker + 4);
    node.receive(fpdu);
    EXPECT_THAT(node.take_records(), ElementsAre(StartsWith("cqe cq 2: 00021403")));
}

// ---------------------------------------------------------------- the switch and the hold

// A5
TEST(PassiveSwitch, KeepsEarlyFpdusAndHoldsTheRing) { // [guess G4]
    Connection pair;
    pair.a.connect();
    pair.b.post(wr::receive({}));
    pair.b.post(wr::send(9, {}));
    pair.b.connect();
    pair.a.run(wr::receive({}));
    pair.a.run(wr::send(1, {}));
    pair.settle();
    EXPECT_THAT(pair.b.take_records(), IsEmpty());
    EXPECT_THAT(pair.a.take_records(), SizeIs(1)) << "its own send only";
    pair.b.rnic.stream_switched(0x15);
    EXPECT_THAT(pair.b.sge.records, SizeIs(2));
    pair.settle();
    EXPECT_THAT(pair.a.take_records(), ElementsAre(HasSubstr("00021403")));
}

TEST(Hold, OfTheResponderEndsWithTheReadyRead) { // [guess G5]
    Connection pair(with_rtr(options_a()), with_rtr(options_b()));
    pair.b.post(wr::send(1, {}));
    pair.b.post(wr::receive({}));
    pair.connect();
    pair.a.post(wr::receive({}));
    pair.a.post(wr::send(2, {}));
    pair.a.ring_doorbell();
    EXPECT_THAT(pair.a.stream.records, IsEmpty()) << "the initiator is held too";
    EXPECT_EQ(pair.b.sge.fetched, 0U);

    pair.a.offload(wr::ready_read(0x12));
    EXPECT_EQ(SgeRecord::hex(pair.a.stream.records.at(0)), rtr_read);
    EXPECT_EQ(pair.a.stream.records.size(), 2U) << "and the send after it";
    pair.b.receive(from_hex(rtr_read));
    EXPECT_EQ(SgeRecord::hex(pair.b.stream.records.at(0)), rtr_response);
    EXPECT_EQ(pair.b.stream.records.size(), 2U);
    pair.a.stream.records.pop_front();
    pair.settle();
    EXPECT_THAT(pair.a.take_records(),
                ElementsAre(HasSubstr("00021413"), "cqe cq 1: 00021402 00000000 00000001 00000000",
                            HasSubstr("00021403")));
    EXPECT_THAT(pair.b.take_records(), ElementsAre(HasSubstr("00040413"), HasSubstr("00040403")));
}

TEST(Hold, EndsOnlyWithTheNegotiatedMessage) { // [guess G40]
    const struct {
        unsigned type;
        hw::RdmaOp op;
    } rows[] = {{2, hw::RdmaOp::write}, {3, hw::RdmaOp::send}};
    for (const auto& row : rows) {
        Node node(with_rtr(options_b(), row.type));
        node.connect();
        node.rnic.stream_switched(0x15);
        node.run(wr::receive({}));
        node.run(wr::receive({}));
        node.run(wr::send(1, {}));
        Framer peer({});
        const auto receive = [&](const DdpSegment& segment, std::size_t size) {
            Packet fpdu = Framer::start(ddp_header_size(segment.op) + size);
            write_header(Framer::ulpdu(fpdu).data(), segment);
            node.receive(peer.finish(std::move(fpdu)));
        };
        node.take_records();
        std::uint32_t msn = 1;
        if (row.op == hw::RdmaOp::write)
            receive({.last = true, .op = hw::RdmaOp::send, .msn = msn++}, 0);
        else
            receive({.last = true, .op = hw::RdmaOp::write, .stag = 5}, 0);
        EXPECT_THAT(node.stream.records, IsEmpty());
        receive({.last = true, .op = row.op, .stag = row.op == hw::RdmaOp::write ? 5U : 0U, .msn = msn}, 0);
        EXPECT_THAT(node.stream.records, SizeIs(1));
    }
}

TEST(Hold, ReadyReadNeedsOrdAndIrd) {
    InitOptions init = with_rtr(options_a());
    init.ord = 0;
    Node active(init);
    active.connect();
    active.offload(wr::ready_read(0x12));
    EXPECT_THAT(active.sent(), IsEmpty());
    EXPECT_THAT(active.take_records(), ElementsAre("event cq 1: 000217f1 00000000 00000000 00000000"));

    InitOptions responder = with_rtr(options_b());
    responder.ird = 0;
    Node passive(responder);
    passive.connect();
    passive.rnic.stream_switched(0x15);
    passive.receive(from_hex(rtr_read));
    EXPECT_THAT(passive.take_records(), ElementsAre("event cq 4: 000407b2 00000000 00000000 00000000"));
}

// ---------------------------------------------------------------- TERMINATE

TEST(Terminate, IsTheLastMessage) {
    Connection pair;
    pair.connect();
    const Region region = pair.a.add_region(0x001111aa, 0, 100000);
    pair.a.stream.space = 3000;
    pair.a.run(wr::write(1, {{region.stag, 0, 100000}}, 0x1234, 0));
    pair.a.sent();
    pair.a.offload(wr::terminate(0x12));
    EXPECT_THAT(pair.a.sent(), ElementsAre(terminate_fpdu)) << "the remainder of the write is dropped";
    EXPECT_THAT(pair.a.take_records(), ElementsAre("event cq 1: 00021417 00000000 00000000 00000000"));
    pair.a.run(wr::send(2, {}));
    pair.a.receive(from_hex(rtr_read));
    pair.a.offload(wr::terminate(0x12));
    EXPECT_THAT(pair.a.sent(), IsEmpty());
    EXPECT_THAT(pair.a.take_records(), IsEmpty());
    pair.a.rnic.close_requested(0x12);
    EXPECT_TRUE(pair.a.stream.fin);
}

TEST(Terminate, WorksInErrorAndWaitsForSpace) {
    Node node(options_a());
    node.connect();
    node.run({0xffc00100, 3, 7, 8});
    EXPECT_THAT(node.take_records(), SizeIs(1));
    node.stream.space = 0;
    node.offload(wr::terminate(0x12));
    node.rnic.close_requested(0x12);
    EXPECT_FALSE(node.stream.fin) << "FIN follows the TERMINATE";
    EXPECT_THAT(node.take_records(), IsEmpty());
    node.stream.space = 100;
    node.rnic.stream_writable(0x12);
    EXPECT_EQ(SgeRecord::hex(node.stream.records.at(0)), terminate_fpdu);
    EXPECT_TRUE(node.stream.fin);
    EXPECT_THAT(node.take_records(), ElementsAre("event cq 1: 00021417 00000000 00000000 00000000"));
}

TEST(Terminate, WithoutNotifyGivesNoEvent) {
    Node node(options_a());
    node.connect();
    node.offload(wr::terminate(0x12, wr::none));
    EXPECT_THAT(node.sent(), SizeIs(1));
    EXPECT_THAT(node.take_records(), IsEmpty());
}

TEST(Terminate, BeforeTheSwitchSendsNothing) {
    Node node(options_b());
    node.connect();
    node.offload(wr::terminate(0x15));
    EXPECT_THAT(node.sent(), IsEmpty());
    EXPECT_THAT(node.take_records(), SizeIs(1));
}

TEST(Terminate, ReceivedGivesTheMessageThenTheEvent) { // [guess G9, G46]
    Node node(options_b());
    node.connect();
    node.rnic.stream_switched(0x15);
    node.receive(from_hex(terminate_fpdu));
    EXPECT_THAT(node.take_records(), ElementsAre("cpl a2000015 00000001 00000000 01020000 00000000",
                                                 "event cq 5: 00040407 00000000 00000000 00000000"));
    node.receive(from_hex(terminate_fpdu));
    node.run(wr::send(1, {}));
    EXPECT_THAT(node.take_records(), IsEmpty());
    EXPECT_THAT(node.sent(), IsEmpty());
    node.rnic.close_requested(0x15);
    EXPECT_TRUE(node.stream.fin);
}

TEST(Terminate, LongOnesAreTruncated) {
    Node node(options_b());
    node.connect();
    node.rnic.stream_switched(0x15);
    Framer peer({});
    Packet fpdu = Framer::start(18 + 40000);
    std::ranges::fill(Framer::ulpdu(fpdu), std::uint8_t{0});
    write_header(Framer::ulpdu(fpdu).data(), {.last = true, .op = hw::RdmaOp::terminate, .msn = 1});
    node.receive(peer.finish(std::move(fpdu)));
    ASSERT_THAT(node.sge.records, SizeIs(2));
    EXPECT_EQ(node.sge.records[0].message.size(), 4U + 64);
}

// ---------------------------------------------------------------- close

// B3
TEST(Close, RunsTheRingToItsEnd) { // [guess G11]
    Connection pair;
    pair.connect();
    const Region region = pair.a.add_region(0x001111aa, 0, 100000);
    pair.a.stream.space = 3000;
    pair.a.post(wr::write(1, {{region.stag, 0, 100000}}, 0, 0));
    pair.a.post(wr::send(2, {}));
    pair.a.ring_doorbell();
    pair.a.rnic.close_requested(0x12);
    EXPECT_FALSE(pair.a.stream.fin);
    while (!pair.a.sent().empty())
        pair.a.rnic.stream_writable(0x12);
    EXPECT_THAT(pair.a.take_records(), SizeIs(2));
    EXPECT_TRUE(pair.a.stream.fin);
    pair.a.run(wr::send(3, {}));
    EXPECT_THAT(pair.a.take_records(), IsEmpty()) << "slots after the FIN are never executed";
}

TEST(Close, WaitsForARingThatWasNotRead) {
    Connection pair;
    pair.connect();
    pair.a.sge.busy = true; // the response queue is congested
    pair.a.run(wr::send(1, {}));
    pair.a.rnic.close_requested(0x12);
    EXPECT_FALSE(pair.a.stream.fin) << "the send would be lost";
    pair.a.sge.busy = false;
    pair.a.ring_doorbell();
    EXPECT_THAT(pair.a.sent(), SizeIs(1));
    EXPECT_TRUE(pair.a.stream.fin);
}

TEST(Close, DoesNotWaitForThePeer) { // [guess G11]
    Connection pair;
    pair.connect();
    const Region region = pair.a.add_region(0x001111aa, 0, 100);
    pair.a.post(wr::read(1, {region.stag, 0, 4}, 1, 0));
    pair.a.post(wr::send(2, {}, wr::signaled | wr::read_fence));
    pair.a.ring_doorbell();
    pair.a.rnic.close_requested(0x12);
    EXPECT_TRUE(pair.a.stream.fin);
    EXPECT_THAT(pair.a.sent(), SizeIs(1));
}

TEST(Close, SendsQueuedResponsesFirst) {
    Connection pair;
    pair.connect();
    pair.b.stream.space = 0;
    pair.b.receive(from_hex(rtr_read));
    pair.b.rnic.close_requested(0x15);
    EXPECT_FALSE(pair.b.stream.fin);
    pair.b.stream.space = 100;
    pair.b.rnic.stream_writable(0x15);
    EXPECT_THAT(pair.b.sent(), ElementsAre(rtr_response));
    EXPECT_TRUE(pair.b.stream.fin);
}

TEST(Close, OfAHeldResponderIsAtOnce) {
    Node node(with_rtr(options_b()));
    node.connect();
    node.run(wr::send(1, {}));
    node.rnic.close_requested(0x15);
    EXPECT_TRUE(node.stream.fin);
}

TEST(Close, StillReceivesAfterItsFin) {
    Connection pair;
    pair.connect();
    pair.b.run(wr::receive({}));
    pair.b.rnic.close_requested(0x15);
    EXPECT_TRUE(pair.b.stream.fin);
    pair.a.run(wr::send(1, {}));
    pair.a.run(wr::read(2, {1, 1, 0}, 1, 1));
    pair.settle();
    EXPECT_THAT(pair.b.take_records(), ElementsAre(HasSubstr("00040403")));
}

/// 124 requests to close in one event executed 124 rings of 256 slots.
TEST(Close, OfManyConnectionsRunsALimitedNumberOfSlots) {
    constexpr unsigned connections = 24, slots = 255;
    InitOptions init = options_a();
    init.slots = slots + 1;
    init.rq_size = 256;
    Node node(init);
    const auto for_each = [&](auto what) {
        for (unsigned n = 0; n < connections; ++n) {
            node.options.tid = init.tid + n;
            node.options.qp = init.qp + n;
            what();
        }
    };
    for_each([&] { node.connect(); });
    for (unsigned n = 0; n < slots; ++n) // all QPs read the same ring
        node.post(wr::receive({}));
    for_each([&] { node.rnic.close_requested(node.options.tid); });
    EXPECT_GT(node.sge.fetched, slots);
    EXPECT_LE(node.sge.fetched, 8 * 256U);
    EXPECT_TRUE(node.events.next().has_value()) << "the others follow in events of their own";
    node.events.advance(node.events.now());
    EXPECT_EQ(node.sge.fetched, connections * slots);
}

TEST(Close, OfANonRdmaConnectionSendsFin) {
    Node node(options_a());
    node.rnic.close_requested(0x77);
    EXPECT_TRUE(node.stream.fin);
}

TEST(Close, PeersFinInsideAnFpduIsReported) { // [guess G10]
    Node node(options_b());
    node.connect();
    node.rnic.stream_switched(0x15);
    EXPECT_FALSE(node.rnic.peer_closed(0x15));
    const Buffer fpdu = from_hex(rtr_read);
    node.receive(fpdu);
    EXPECT_FALSE(node.rnic.peer_closed(0x15));
    node.receive(Bytes(fpdu).first(5));
    EXPECT_TRUE(node.rnic.peer_closed(0x15));
    EXPECT_FALSE(node.rnic.peer_closed(0x16));
}

TEST(Close, EndOfTheConnectionEndsTheContext) { // [guess G44]
    Connection pair;
    pair.connect();
    pair.b.run(wr::receive({}));
    EXPECT_TRUE(pair.b.sge.contexts.contains(0x40));
    pair.b.rnic.connection_ended(0x15);
    EXPECT_FALSE(pair.b.sge.contexts.contains(0x40));
    EXPECT_FALSE(pair.b.rnic.rdma_mode(0x15));
    pair.b.receive(from_hex(rtr_read));
    pair.b.ring_doorbell();
    pair.b.rnic.stream_writable(0x15);
    pair.b.rnic.stream_switched(0x15);
    pair.b.rnic.connection_ended(0x15);
    EXPECT_THAT(pair.b.take_records(), IsEmpty());
    EXPECT_THAT(pair.b.sent(), IsEmpty());
}

TEST(Close, QpIdMovesToItsNextConnection) {
    Node node(options_a());
    node.connect();
    node.options.tid = 0x13;
    node.connect();
    node.rnic.connection_ended(0x12); // late event of the first connection
    EXPECT_TRUE(node.sge.contexts.contains(0x21));
    node.run(wr::send(1, {}));
    EXPECT_THAT(node.take_records(), SizeIs(1));
}

TEST(Close, ResetRemovesEverything) {
    Connection pair;
    pair.connect();
    pair.a.rnic.reset();
    EXPECT_FALSE(pair.a.rnic.rdma_mode(0x12));
    pair.a.run(wr::send(1, {}));
    EXPECT_THAT(pair.a.take_records(), IsEmpty());
}

TEST(Close, TheQpsOfManyResetsAreFreedAsFastAsOthersAreMade) {
    Node node(options_a());
    Effort effort;
    std::size_t of_one = 0;
    for (int resets = 0; resets < 10; ++resets, node.rnic.reset()) {
        for (Tid tid = 0; tid < 500; ++tid) {
            node.options.tid = tid;
            node.options.qp = 0x21 + tid;
            node.connect();
        }
        node.sge.records.clear();
        effort.look_at_heap();
        if (resets == 0)
            of_one = effort.heap_growth();
    }
    EXPECT_GT(of_one, 500U * 300);
    EXPECT_LT(effort.heap_growth(), 3 * of_one);
}

/// What is left of a turn that a guest uses up.
void run_one(EventQueue& events) {
    bool over = false;
    events.run_due(events.now(), [&] { return !std::exchange(over, true); });
}

/// One QP at the highest TID, and many resets. A guest that uses up each turn makes them.
TEST(Close, AQpOfAHighTidIsFreedAsFastAsOthersAreMade) {
    Node node(options_a());
    const std::function<void()> busy = [&] { node.events.after(0, busy); };
    busy();
    Effort effort;
    for (int resets = 0; resets < 500; ++resets, node.rnic.reset()) {
        for (const Tid tid : {Tid{5}, Tid{16383}}) {
            node.options.tid = tid;
            node.options.qp = 0x21 + tid;
            node.connect();
        }
        node.sge.records.clear();
        run_one(node.events);
        effort.look_at_heap();
    }
    EXPECT_LT(effort.heap_growth(), 1U << 20);
}

/// It has more work than one event does, and its connection ends.
TEST(Close, AQpThatWaitsForItsTurnIsNotKept) {
    Node node(options_a());
    const std::function<void()> busy = [&] { node.events.after(0, busy); };
    busy();
    const Region region = node.add_region(0x100, 0, 1 << 20);
    Effort effort;
    for (int ended = 0; ended < 50'000; ++ended) {
        node.wptr = 0;
        node.post(wr::write(1, {{region.stag, 0, 1 << 20}}, 0x1234, 0));
        node.connect();
        ASSERT_LT(node.stream.records.size(), 600U) << "not all of it";
        for (const Buffer& record : std::exchange(node.stream.records, {}))
            node.stream.space += record.size();
        node.rnic.connection_ended(node.options.tid);
        node.sge.records.clear();
        if (ended % 16 == 0)
            run_one(node.events);
    }
    effort.look_at_heap();
    EXPECT_LT(effort.heap_growth(), 128U << 10);
}

/// A guest that uses up each turn ends one in each of them.
TEST(Close, EndedQpsAreFreedAlthoughOthersEnd) {
    Node node(options_a());
    const std::function<void()> busy = [&] { node.events.after(0, busy); };
    busy();
    Effort effort;
    for (int turns = 0; turns < 10'000; ++turns) {
        node.connect();
        node.rnic.connection_ended(node.options.tid);
        node.sge.records.clear();
        run_one(node.events);
        effort.look_at_heap();
    }
    EXPECT_LT(effort.heap_growth(), 1U << 20);
}

} // namespace
} // namespace t3sim::test
