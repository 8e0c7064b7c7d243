// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The effect of each message of the host: one test per row of docs/hw/toe.md 6.
#include <gtest/gtest.h>

#include "tests/sim/toe/lab.hh"

namespace t3sim::test {
namespace {

class ToeMessage : public testing::Test, public TwoCards {
protected:
    /// Sizes of the payloads that TCP carried from a to b, in order.
    std::vector<std::size_t> segments_from_a() {
        std::vector<std::size_t> out;
        for (const Buffer& frame : a.mac.frames)
            if (const auto s = tcp::decode(Bytes(frame).subspan(14)); s && !s->payload.empty())
                out.push_back(s->payload.size());
        return out;
    }
    std::optional<tcp::Segment> last_from(Machine& m) {
        return m.mac.frames.empty() ? std::nullopt : tcp::decode(Bytes(m.mac.frames.back()).subspan(14));
    }
};

TEST_F(ToeMessage, TableWritesGetOneReply) {
    a.opcodes();
    a.control("01c00000 81000004 14000001 001f0000 00000000 00000000 00000007 43112201");
    EXPECT_EQ(a.next(), "2e000001 00000000");
    a.control("01c00000 81000003 120007ff 007ff801 00000007 43334400");
    EXPECT_EQ(a.next(), "230007ff 00000000");
    a.control("01c00000 81000004 10000123 00000000 00000000 00000000 00000000 00000000");
    EXPECT_EQ(a.next(), "28000123 00000000");
    EXPECT_EQ(a.next(), "");
}

TEST_F(ToeMessage, RepliesGoToTheQueueOfTheControlRing) {
    a.opcodes();
    a.toe.control_wr(3, words("01c00000 81000003 12000001 007ff801 00000007 43334400"));
    ASSERT_EQ(a.sge.messages.size(), 1U);
    EXPECT_EQ(a.sge.messages[0].queue, 3U);
}

// The parity exercise of cxgb3 at each bring-up of a T3C: it expects 4113 replies.
TEST_F(ToeMessage, ParityExerciseGetsAllReplies) {
    a.opcodes();
    for (unsigned i = 0; i < 16; ++i)
        a.control("01c00000 81000004 " + word(0x14000000 | i) +
                  " 000f0000 00000000 00000000 00000000 00000000");
    for (unsigned i = 0; i < 2048; ++i)
        a.control("01c00000 81000003 " + word(0x12000000 | i) + " " + word(i) + " 00000000 00000000");
    for (unsigned i = 0; i < 2048; ++i)
        a.control("01c00000 81000004 " + word(0x10000000 | i) +
                  " 00000000 00000000 00000000 00000000 00000000");
    a.control("01c00000 81000004 05000000 00000000 00000000 00000001 00000000 00000000");
    EXPECT_EQ(a.sge.messages.size(), 4113U);
    EXPECT_EQ(text(a.sge.messages.back().bytes), "2d000000 00000000");
    // The zero MACs that this writes are not valid addresses.
    a.opcodes();
    a.control(act_open);
    EXPECT_EQ(a.next(), "40000000 c3501d2f 0a000001 0a000002 00010000 00000017");
}

TEST_F(ToeMessage, SetTcbFieldIsMaskedAndGetsAReply) {
    connect();
    a.control("01c00000 81000004 05000000 0000001e 00000000 0000ff00 12345678 9abcdef0");
    EXPECT_EQ(a.next(), "2d000000 00000000");
    a.control("01c00000 81000004 05000000 0000001e 00000000 000000f0 ffffffff ffffffff");
    EXPECT_EQ(a.next(), "2d000000 00000000");
    a.control("01c00000 81000002 06000000 00000000");
    const std::string tcb = a.next();
    EXPECT_EQ(tcb.substr(0, 17), "22000000 00000080");
    EXPECT_EQ(tcb.substr(18, 17), "00000000 0000def0") << "word 31, then word 30";
}

TEST_F(ToeMessage, SetTcbFieldWithoutReply) {
    connect();
    a.control("01c00000 81000004 05000000 8000001e 00000000 0000ff00 00000000 00000000");
    EXPECT_EQ(a.next(), "");
}

TEST_F(ToeMessage, SetTcbFieldL2tIndexRedirects) {
    connect();
    a.control("01c00000 81000003 12000005 007ff805 00000007 43999900");
    a.control("01c00000 81000004 05000000 80000000 00000000 0003ff80 00000000 00000280"); // index 5 << 7
    a.offload(tx_data(0, "x"));
    EXPECT_EQ(text(Bytes(a.mac.frames.back()).first(8)), "00074399 99000007");
}

TEST_F(ToeMessage, SetTcbFieldQuiesceClosesTheWindow) {
    connect();
    b.offload("01c00000 80000004 05000000 80000019 00000000 00000002 00000000 00000002");
    a.offload(tx_data(0, "held back"));
    run();
    EXPECT_EQ(b.next(), "");
    b.offload("01c00000 80000004 05000000 80000019 00000000 00000002 00000000 00000000");
    EXPECT_EQ(b.opcodes(), "39");
}

TEST_F(ToeMessage, GetTcbShowsTheConnection) {
    connect();
    a.control("01c00000 81000002 06000000 00000000");
    const Buffer tcb = words(a.next());
    ASSERT_EQ(tcb.size(), 136U);
    const auto w = [&](unsigned i) { return be32(&tcb[8 + 4 * (31 - i)]); };
    EXPECT_EQ(w(4) >> 15 | (w(5) & 0x7fff) << 17, 0x20000001U) << "RCV_NXT";
    EXPECT_EQ(w(12) >> 11 | (w(13) & 0x7ff) << 21, 0x0a000002U) << "DIP";
    EXPECT_EQ(bits(w(0), 17, 7), 1U) << "L2T_IX";
    EXPECT_EQ(bits(w(0), 3, 0), 3U) << "T_STATE";

    const auto in_memory = a.toe.tcb(0);
    ASSERT_TRUE(in_memory);
    EXPECT_EQ(Buffer(in_memory->begin(), in_memory->end()), Buffer(tcb.begin() + 8, tcb.end()));
    a.faults.guesses.set("G37=other");
    EXPECT_EQ(a.toe.tcb(0)->back() & 15, 4);
    EXPECT_FALSE(a.toe.tcb(1));
}

TEST_F(ToeMessage, PassOpenAddsAServer) {
    b.opcodes();
    b.control(pass_open);
    EXPECT_EQ(b.next(), "41003d7c 1d2f0000 00000000 00000000 00000000 00000000");
}

TEST_F(ToeMessage, PassOpenOutsideTheServerRegionIsRefused) {
    b.opcodes();
    b.control("01c00000 81000005 01000007 1d2f0000 00000000 00000000 00010001 00100000 00000000 00080000");
    EXPECT_EQ(b.next(), "41000007 1d2f0000 00000000 00000000 00000000 00000003");
}

TEST_F(ToeMessage, CloseListsrvRemovesTheServer) {
    listen();
    b.control("01c00000 81000002 09003d7c 00000000");
    EXPECT_EQ(b.next(), "20003d7c 00000000");
    a.control(act_open);
    run();
    EXPECT_EQ(b.next(), "") << "the SYN is the host's now";
}

TEST_F(ToeMessage, CloseListsrvOfAnUnknownStidGetsAReply) {
    b.opcodes();
    b.control("01c00000 81000002 09003dff 00000000");
    EXPECT_EQ(b.next(), "20003dff 00000000");
}

TEST_F(ToeMessage, ActOpenGetsNoReplyAtOnce) {
    a.opcodes();
    a.control(act_open);
    EXPECT_EQ(a.next(), "");
    const auto syn = last_from(a);
    ASSERT_TRUE(syn);
    EXPECT_EQ(syn->flags, tcp::flag_syn);
    EXPECT_EQ(syn->mss, 1460);
    EXPECT_EQ(syn->window_scale, 3);
    EXPECT_EQ(syn->window, 0xffff) << "256 KB, not scaled in a SYN";
    EXPECT_EQ(syn->tos, 0x10);
    EXPECT_FALSE(syn->timestamps);
    EXPECT_FALSE(syn->sack_permitted);
}

TEST_F(ToeMessage, ActOpenOfAUsedFourTuple) {
    connect();
    a.control("01c00000 81000005 03010007 c3501d2f 0a000001 0a000002 804d0010 10100000 00000000 00008c00");
    EXPECT_EQ(a.next(), "40000000 c3501d2f 0a000001 0a000002 00010007 00000016");
}

TEST_F(ToeMessage, ActOpenWithoutL2tEntry) {
    a.opcodes();
    a.control("01c00000 81000005 03010000 c3501d2f 0a000001 0a000002 804d0090 10100000 00000000 00008c00");
    EXPECT_EQ(a.next(), "40000000 c3501d2f 0a000001 0a000002 00010000 00000017");
}

TEST_F(ToeMessage, ActOpenWithoutFreeTid) {
    a.opcodes();
    a.toe.params().tids = 0;
    a.control(act_open);
    EXPECT_EQ(a.next(), "40000000 c3501d2f 0a000001 0a000002 00010000 00000003");
}

TEST_F(ToeMessage, FullTcamRefusesConnectionsAndListenersForAWhile) {
    a.opcodes();
    a.faults.tid.arm(1);
    a.control(act_open);
    EXPECT_EQ(a.next(), "40000000 c3501d2f 0a000001 0a000002 00010000 00000003");
    a.control(act_open);
    EXPECT_EQ(a.next(), "") << "a SYN is on its way";
    b.opcodes();
    b.faults.stid.arm(1);
    b.control(pass_open);
    EXPECT_EQ(b.next(), "41003d7c 1d2f0000 00000000 00000000 00000000 00000003");
    b.control(pass_open);
    EXPECT_EQ(b.next(), "41003d7c 1d2f0000 00000000 00000000 00000000 00000000");
}

TEST_F(ToeMessage, ActOpenMssFollowsThePortMtuToo) {
    a.toe.params().port_mtu = {1492, 1492};
    a.control(act_open);
    EXPECT_EQ(last_from(a)->mss, 1452);
}

TEST_F(ToeMessage, PassAcceptSendsSynAck) {
    listen();
    a.control(act_open);
    run();
    EXPECT_TRUE(b.mac.frames.empty()) << "the SYN is held until the host has decided";
    b.control(pass_accept(0));
    const auto syn_ack = last_from(b);
    ASSERT_TRUE(syn_ack);
    EXPECT_EQ(syn_ack->flags, tcp::flag_syn | tcp::flag_ack);
    EXPECT_EQ(syn_ack->ack.value(), 0x10000001U);
    EXPECT_EQ(syn_ack->window_scale, 3);
}

TEST_F(ToeMessage, PassAcceptRejectResets) {
    listen();
    a.control(act_open);
    run();
    b.control("01c00000 81000004 02000000 00000000 00000000 0a000001 00010000 00000001");
    EXPECT_TRUE(last_from(b)->has(tcp::flag_rst));
    run();
    b.opcodes();
    EXPECT_EQ(a.next(), "40000000 c3501d2f 0a000001 0a000002 00010000 00000014");
}

TEST_F(ToeMessage, TidReleaseOfAHalfOpenTidResets) {
    listen();
    a.control(act_open);
    run();
    b.opcodes();
    b.control(tid_release(0));
    // Sent to the source of the SYN, without an L2T entry.
    EXPECT_EQ(text(Bytes(b.mac.frames.back()).first(12)), "00074311 22000007 43334400");
    run();
    EXPECT_EQ(b.next(), "");
    EXPECT_EQ(a.next().substr(45), "00000014") << "connection refused";
}

TEST_F(ToeMessage, TidReleaseOfAnOpenConnectionResets) {
    connect();
    a.control(tid_release(0));
    EXPECT_TRUE(last_from(a)->has(tcp::flag_rst));
    run();
    EXPECT_EQ(b.opcodes(), "30 30");
    EXPECT_EQ(a.next(), "");
}

TEST_F(ToeMessage, TidReleaseFreesTheTidForLater) {
    a.toe.params().tids = 1;
    connect();
    a.offload(abort_req(0));
    a.control(tid_release(0));
    a.opcodes();
    a.control(act_open);
    EXPECT_EQ(a.next().substr(45), "00000003") << "an offload ring may still contain requests for it";
    run(10 * tcp::millisecond);
    a.control(act_open);
    EXPECT_EQ(a.next(), "");
}

TEST_F(ToeMessage, TidsAreReusedOldestFirst) {
    a.toe.params().tids = 3;
    a.opcodes();
    const auto open = [&](unsigned port) {
        a.control("01c00000 81000005 03010000 " + word(port << 16 | 9) +
                  " 0a000001 0a000002 804d0010 10100000 00000000 00008c00");
        run();
        b.opcodes();
    };
    // B has no listener, so a script replies with RST.
    for (unsigned port = 1; port <= 3; ++port)
        open(port);
    const auto refuse = [&](unsigned port) {
        tcp::Segment rst{.tuple = {0x0a000002, 0x0a000001, 9, static_cast<std::uint16_t>(port)},
                         .ack = tcp::Seq(0x10000001),
                         .flags = tcp::flag_rst | tcp::flag_ack};
        Buffer frame = words("000743112200 000743334400 0800");
        const tcp::Headers h = tcp::encode(rst, 1, 64);
        frame.insert(frame.end(), h.bytes.begin(), h.bytes.begin() + static_cast<std::ptrdiff_t>(h.size));
        a.toe.frame_in(0, frame);
    };
    for (const unsigned port : {2U, 1U, 3U}) {
        refuse(port);
        const Buffer reply = words(a.next());
        ASSERT_EQ(reply[0], 0x40);
        a.control(tid_release(be32(reply.data()) & 0xffffff));
    }
    run(10 * tcp::millisecond);
    for (const unsigned expected : {1U, 0U, 2U}) {
        open(10 + expected);
        refuse(10 + expected);
        EXPECT_EQ(a.next().substr(0, 8), word(0x40000000 | expected));
    }
}

TEST_F(ToeMessage, TxDataIsSentAndAcknowledged) {
    connect();
    a.offload(tx_data(0, "hello"));
    EXPECT_EQ(a.next(), "a0000000 00010000 10000006 10000001");
    run();
    EXPECT_EQ(b.next(), "39000000 00000005 10000001 00000000 68656c6c 6f");
}

TEST_F(ToeMessage, TxDataAckNamesTheQueueOfItsRing) {
    connect();
    a.offload(tx_data(0, "hello"), 2);
    EXPECT_EQ(a.sge.messages.at(0).queue, 2U);
}

TEST_F(ToeMessage, TxDataWithoutComplIsCountedLater) {
    connect();
    Buffer quiet = tx_data(0, "one");
    quiet[1] = 0xc0;
    a.offload(quiet);
    EXPECT_EQ(a.next(), "");
    a.offload(tx_data(0, "two"));
    EXPECT_EQ(a.next(), "a0000000 00020000 10000007 10000001");
}

TEST_F(ToeMessage, TxDataShoveSetsPush) {
    connect();
    a.offload(tx_data(0, "push", tx_init | tx_shove));
    run();
    EXPECT_EQ(b.next(), "39000000 00000004 10000001 00000400 70757368");
}

TEST_F(ToeMessage, TxDataCloseFlagSendsFin) {
    connect();
    a.offload(tx_data(0, "bye", tx_init | tx_close));
    run();
    EXPECT_EQ(b.opcodes(), "39 26");
    EXPECT_EQ(a.opcodes(), "a0 32");
}

TEST_F(ToeMessage, TxDataOfSeveralDescriptorsCostsSeveralCredits) {
    connect();
    a.offload(tx_data(0, std::string(3100, 'A')), 0, 2);
    EXPECT_EQ(a.next(), "a0000000 00020000 10000c1d 10000001");
    run();
    EXPECT_EQ(segments_from_a(), (std::vector<std::size_t>{1460, 1460, 180}));
    std::size_t got = 0;
    for (const auto& m : b.sge.messages)
        got += m.bytes.size() - 16;
    EXPECT_EQ(got, 3100U);
}

TEST_F(ToeMessage, TxDataWaitsForSpaceAndCloseWaitsBehindIt) {
    connect();
    drop = [](const tcp::Segment& s) { return s.tuple.local_ip == 0x0a000001; }; // no ACK comes back
    const Buffer big = tx_data(0, std::string(40'000, 'A'));
    a.offload(big);
    EXPECT_EQ(a.opcodes(), "a0");
    a.offload(big);
    a.offload(close_con(0));
    EXPECT_EQ(a.opcodes(), "") << "32 KB of send buffer are full";
    drop = nullptr;
    run(20 * tcp::second);
    b.control(rx_data_ack(0, 80'000));
    run(20 * tcp::second);
    EXPECT_EQ(a.opcodes(), "a0 32");
}

TEST_F(ToeMessage, CloseConSendsFinAndGetsAReplyOnItsAck) {
    connect();
    a.offload(close_con(0));
    EXPECT_EQ(a.next(), "") << "not before the FIN is acknowledged";
    run();
    EXPECT_EQ(a.next(), "32000000 00000000 10000002 20000001");
    EXPECT_EQ(b.next(), "26000000 10000002");
}

TEST_F(ToeMessage, CloseConWithComplIsAcknowledged) {
    connect();
    a.offload("09e00000 80000002 08000000 00000000");
    EXPECT_EQ(a.opcodes(), "a0");
}

TEST_F(ToeMessage, AbortReqResetsAndGetsTwoReplies) {
    connect();
    a.offload(abort_req(0));
    EXPECT_EQ(a.next(), "31000000 00000000 00000000 00000000");
    EXPECT_EQ(a.next(), "31000000 00000000 00000000 00000000");
    EXPECT_EQ(a.next(), "");
    EXPECT_TRUE(last_from(a)->has(tcp::flag_rst));
}

TEST_F(ToeMessage, AbortReqNoRstSendsNothing) {
    connect();
    a.mac.frames.clear();
    a.offload(abort_req(0, 1));
    EXPECT_EQ(a.opcodes(), "31 31");
    EXPECT_TRUE(a.mac.frames.empty());
}

TEST_F(ToeMessage, AbortReqOfAClosedConnectionGetsAReply) {
    connect();
    b.offload(abort_req(0));
    run();
    EXPECT_EQ(a.opcodes(), "30 30");
    a.offload(abort_req(0));
    EXPECT_EQ(a.opcodes(), "31 31");
    a.offload(abort_rpl(0));
    EXPECT_EQ(a.opcodes(), "");
}

TEST_F(ToeMessage, AbortReqDiscardsPendingRequests) {
    connect();
    drop = [](const tcp::Segment& s) { return s.payload.size() > 0; };
    a.offload(tx_data(0, "never arrives"));
    a.offload(abort_req(0));
    drop = nullptr;
    run(10 * tcp::second);
    EXPECT_EQ(b.opcodes(), "") << "the RST is beyond B's received data: challenged, and A has no connection";
    EXPECT_EQ(a.opcodes(), "a0 31 31");
}

TEST_F(ToeMessage, AbortReqOfAFreeTidGetsAReply) {
    a.opcodes();
    a.offload(abort_req(77));
    EXPECT_EQ(a.next(), "3100004d 00000000 00000000 00000000");
    EXPECT_EQ(a.opcodes(), "31");
}

TEST_F(ToeMessage, AbortRplEndsACardsAbort) {
    connect();
    b.offload(abort_req(0));
    run();
    a.opcodes();
    a.mac.frames.clear();
    a.offload(abort_rpl(0));
    a.offload(abort_rpl(0));
    EXPECT_EQ(a.opcodes(), "");
    EXPECT_TRUE(a.mac.frames.empty());
}

TEST_F(ToeMessage, RxDataAckOpensTheWindow) {
    connect();
    Buffer big = tx_data(0, std::string(60'000, 'A'));
    put_be16(&big[20], 16); // half a megabyte of send buffer
    for (int i = 0; i < 10; ++i)
        a.offload(big);
    run(100 * tcp::millisecond);
    std::size_t got = 0;
    for (const auto& m : b.sge.messages)
        got += m.bytes.size() - 16;
    EXPECT_LE(got, 256U << 10);
    EXPECT_GT(got, 255U << 10) << "the complete window, then nothing";
    b.opcodes();
    b.control(rx_data_ack(0, static_cast<std::uint32_t>(got)));
    run(100 * tcp::millisecond);
    EXPECT_FALSE(b.sge.messages.empty());
}

TEST_F(ToeMessage, RxDataAckForceAckSendsOne) {
    connect();
    a.offload(tx_data(0, "hello"));
    run();
    b.mac.frames.clear();
    b.control(rx_data_ack(0, 5, false));
    EXPECT_TRUE(b.mac.frames.empty());
    b.control(rx_data_ack(0, 0, true));
    EXPECT_EQ(b.mac.frames.size(), 1U);
}

TEST_F(ToeMessage, RdmaInitIsAcknowledgedOnlyIfTheRnicRequestsIt) {
    connect();
    a.offload(rdma_init(0, true));
    EXPECT_EQ(a.opcodes(), "");
    b.rnic.init_acknowledged = true;
    b.offload(rdma_init(0, false, 1));
    EXPECT_EQ(b.next(), "a0000000 00010000 20000001 20000001");
}

TEST_F(ToeMessage, RdmaInitIsNeverFoldedIntoAnotherAck) {
    connect();
    Buffer quiet = tx_data(0, "one");
    quiet[1] = 0xc0;
    a.offload(quiet);
    a.rnic.init_acknowledged = true;
    a.offload(rdma_init(0, true, 1));
    EXPECT_EQ(a.next().substr(9, 4), "0001");
}

TEST_F(ToeMessage, RtrAndTerminateGoToTheRnicWithoutAck) {
    connect();
    a.offload(rdma_init(0, true));
    a.offload("16c00100 80000006 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
              "00000000 00000000");
    a.offload("14c00100 80000006 00000000 00000000 07000000 00000000 00000000 00000000 00000000 00000000 "
              "00000000 00000000");
    EXPECT_EQ(a.opcodes(), "");
    EXPECT_EQ(a.rnic.log, (std::vector<std::string>{"wr 10c00000 at 20000001", "wr 16c00100 at 20000001",
                                                    "wr 14c00100 at 20000001"}));
}

TEST_F(ToeMessage, ModifyQpGoesToTheRnic) {
    a.control("1bc00000 81000009 00000000 00000000");
    EXPECT_EQ(a.rnic.log, std::vector<std::string>{"modify_qp"});
}

TEST_F(ToeMessage, PacketSchedulerIsIgnored) {
    a.opcodes();
    a.control("1dc00000 81000003 00000001 00000000 00000000 00000000");
    EXPECT_EQ(a.opcodes(), "");
    EXPECT_EQ(a.counters.value("toe.unknown_wr"), 0U);
}

TEST_F(ToeMessage, BypassCarriesCplsAndBarriers) {
    connect();
    a.control("05c00000 81000009 40000000 00000002 18000000 00000000 " // BARRIER
              "40000000 00000005 05000000 0000001f 00000000 0f000000 00000000 03000000 00000000 00000000");
    EXPECT_EQ(a.next(), "2d000000 00000000");
    EXPECT_EQ(a.next(), "");
}

/// A request can have 16,383, which took 6 ms.
TEST_F(ToeMessage, BypassCarriesALimitedNumberOfCpls) {
    connect();
    a.opcodes();
    std::string wr = "05c00000 81000009";
    for (unsigned n = 0; n < 256; ++n)
        wr += " 40000000 00000002 18000000 00000000";
    a.control(wr);
    EXPECT_EQ(a.counters.value("toe.malformed"), 0U);
    a.control(wr + " 40000000 00000002 18000000 00000000");
    EXPECT_EQ(a.counters.value("toe.malformed"), 1U);
}

} // namespace
} // namespace t3sim::test
