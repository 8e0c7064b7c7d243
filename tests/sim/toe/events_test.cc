// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The effect of each event on the wire: one test per row of docs/hw/toe.md 7, the demultiplexing of
// docs/hw/toe.md 8, and the guarantees and permitted orders of docs/hw/toe.md 9.
#include <gtest/gtest.h>

#include <random>

#include "sim/tcp/siphash.hh"
#include "tests/sim/toe/lab.hh"

namespace t3sim::test {
namespace {

using namespace tcp;

class ToeEvent : public testing::Test, public CardAndScript {
protected:
    /// One connection, of a card that was reset with @p n others.
    void connect_after_a_reset(Tid n) {
        connect_all(n);
        a.toe.reset();
        a.control("01c00000 81000004 14000000 000f0000 00000000 00000000 00000007 43112200");
        a.control("01c00000 81000003 12000001 007ff801 00000007 43334400");
        card_port = 50000;
        connect();
    }
};

TEST_F(ToeEvent, SynForAServerIsReportedOnce) {
    listen_and_syn();
    EXPECT_EQ(a.next(), "70000000 c3501d2f 0a000001 0a000002 00003d7c 05b40000 00074311 22000fff 00074333 "
                        "44008000 20000000 00000000");
    EXPECT_TRUE(syn());
    EXPECT_TRUE(syn());
    EXPECT_EQ(a.next(), "");
    EXPECT_EQ(take_sent(), "") << "no reply before the host's decision";
}

TEST_F(ToeEvent, RetransmittedSynAfterAcceptGetsTheSynAckAgain) {
    listen_and_syn();
    accept();
    EXPECT_EQ(take_sent(), "SA 10000000 20000001 0");
    syn();
    EXPECT_EQ(take_sent(), "SA 10000000 20000001 0");
    EXPECT_EQ(a.opcodes(), "70");
}

TEST_F(ToeEvent, SynWithoutServerGoesToTheNic) {
    EXPECT_FALSE(syn());
}

TEST_F(ToeEvent, SynWhileOffloadModeIsOffGoesToTheNic) {
    a.toe.params().offload_mode = false;
    a.control("01c00000 81000005 01003d7c c3500000 00000000 00000000 00010001 00100000 00000000 00080000");
    EXPECT_FALSE(syn());
}

TEST_F(ToeEvent, SynWithoutFreeTidIsDropped) {
    a.toe.params().tids = 0;
    a.control("01c00000 81000005 01003d7c c3500000 00000000 00000000 00010001 00100000 00000000 00080000");
    a.opcodes();
    EXPECT_TRUE(syn()) << "the host must not reply to it either";
    EXPECT_EQ(a.opcodes(), "");
    EXPECT_EQ(take_sent(), "");
    EXPECT_EQ(a.counters.value("toe.tids_exhausted"), 1U);
}

TEST_F(ToeEvent, ServerAddressTakesPrecedenceOverAny) {
    a.control("01c00000 81000005 01003d7c c3500000 00000000 00000000 00010001 00100000 00000000 00080000");
    a.control("01c00000 81000005 01003d7d c3500000 0a000001 00000000 00010001 00100000 00000000 00080000");
    a.opcodes();
    syn();
    EXPECT_EQ(a.next().substr(36, 8), "00003d7d");
}

TEST_F(ToeEvent, SynAckEstablishes) {
    open();
    send_segment(flag_syn | flag_ack, script_isn - 1, card_isn);
    EXPECT_EQ(take_sent(), "A 10000001 20000001 0");
    // No options: default MSS 536 = MTU index 4, no scaling.
    EXPECT_EQ(a.next(), "50000000 c3501d2f 0a000001 0a000002 10010000 00204000 10000001 20000001");
}

TEST_F(ToeEvent, RstForOurSynFailsTheOpenWithATid) {
    open();
    send_segment(flag_rst | flag_ack, 0, card_isn);
    EXPECT_EQ(a.next(), "40000000 c3501d2f 0a000001 0a000002 00010000 00000014");
    EXPECT_EQ(a.next(), "");
}

TEST_F(ToeEvent, SynRetriesExhaustedFailTheOpen) {
    open();
    run(300 * second);
    EXPECT_EQ(a.mac.frames.size(), 6U) << "retransmissions";
    EXPECT_EQ(a.next(), "40000000 c3501d2f 0a000001 0a000002 00010000 0000001e");
    EXPECT_FALSE(send_segment(flag_syn | flag_ack, script_isn - 1, card_isn))
        << "too late: the host replies with RST";
}

TEST_F(ToeEvent, FinalAckEstablishesBeforeItsData) {
    listen_and_syn();
    accept();
    a.opcodes();
    send_segment(flag_ack, script_isn, card_isn, "early");
    EXPECT_EQ(a.next(), "51000000 c3501d2f 0a000001 0a000002 10003d7c 00208000 10000001 20000001");
    EXPECT_EQ(a.next(), "39000000 00000005 20000001 00000000 6561726c 79");
}

TEST_F(ToeEvent, SynAckRetriesExhausted) {
    listen_and_syn();
    accept();
    a.opcodes();
    run(300 * second);
    EXPECT_EQ(a.next(), "30000000 00000000 001e0000 00000000");
    EXPECT_EQ(a.opcodes(), "30");
}

TEST_F(ToeEvent, RstInSynReceived) {
    listen_and_syn();
    accept();
    a.opcodes();
    send_segment(flag_rst, script_isn, 0);
    EXPECT_EQ(a.next(), "30000000 00000000 00140000 00000000");
    EXPECT_EQ(a.opcodes(), "30");
}

TEST_F(ToeEvent, RstWhileTheHostDecides) {
    listen_and_syn();
    a.opcodes();
    send_segment(flag_rst, script_isn, 0);
    EXPECT_EQ(a.opcodes(), "30 30");
    accept();
    EXPECT_EQ(take_sent(), "") << "too late";
}

TEST_F(ToeEvent, InOrderDataIsDelivered) {
    connect();
    send_segment(flag_ack | flag_psh, script_isn, card_isn, "hello");
    EXPECT_EQ(a.next(), "39000000 00000005 20000001 00000400 68656c6c 6f");
    EXPECT_EQ(take_sent(), "A 10000001 20000006 0");
}

TEST_F(ToeEvent, DataInAnyOrderIsDeliveredInSequence) {
    connect();
    send_segment(flag_ack, script_isn + 3, card_isn, "lo");
    send_segment(flag_ack, script_isn + 1, card_isn, "el");
    EXPECT_EQ(a.opcodes(), "");
    send_segment(flag_ack, script_isn, card_isn, "h");
    EXPECT_EQ(a.next(), "39000000 00000001 20000001 00000000 68");
    EXPECT_EQ(a.next(), "39000000 00000004 20000002 00000000 656c6c6f");
}

TEST_F(ToeEvent, DataInRdmaModeGoesToTheRnicAndReopensTheWindow) {
    connect();
    a.offload(rdma_init(0, true));
    const std::string block(1000, 'x');
    for (std::uint32_t i = 0; i < 1000; ++i) // four times the window
        send_segment(flag_ack, script_isn + 1000 * i, card_isn, block);
    EXPECT_EQ(a.rnic.stream.size(), 1'000'000U);
    EXPECT_EQ(a.opcodes(), "");
}

/// RDMA_INIT finds data that was held while the host had quiesced the connection, and of which the first part
/// was delivered as a stream: the rest belongs to the FPDUs.
TEST_F(ToeEvent, DataHeldBeforeRdmaInitGoesToTheRnic) { // [guess G3]
    connect();
    a.control("01c00000 81000005 05000000 00000019 ffffffff ffffffff 00000000 00000002"); // RX_QUIESCE
    constexpr std::uint32_t held = 3 * 8192;
    for (std::uint32_t at = 0; at < held; at += 1024)
        send_segment(flag_ack, script_isn + at, card_isn, std::string(1024, 'x'));
    a.sge.messages.clear();
    // Runs before the connection's own event of the same time.
    events.after(1, [&] {
        a.offload(rdma_init(0, true));
        EXPECT_EQ(a.rnic.log.at(0), "wr 10c00000 at " + word(script_isn + 8192));
    });
    a.control("01c00000 81000005 05000000 00000019 ffffffff ffffffff 00000000 00000000");
    const auto messages = static_cast<std::uint32_t>(std::ranges::count_if(
        a.sge.messages, [](const auto& message) { return text(message.bytes).starts_with("39"); }));
    ASSERT_EQ(messages, 1U) << "one event delivers 8 KiB";
    run();
    EXPECT_EQ(a.rnic.stream.size(), held - 8192);
}

TEST_F(ToeEvent, FinIsAcknowledgedAndReportedOnce) {
    connect();
    send_segment(flag_ack | flag_fin, script_isn, card_isn, "last");
    EXPECT_EQ(take_sent(), "A 10000001 20000006 0");
    send_segment(flag_ack | flag_fin, script_isn, card_isn, "last");
    EXPECT_EQ(a.next().substr(0, 8), "39000000");
    EXPECT_EQ(a.next(), "26000000 20000006");
    EXPECT_EQ(a.next(), "");
}

// E10
TEST_F(ToeEvent, FinBehindAHoleWaitsForTheData) {
    connect();
    send_segment(flag_ack | flag_fin, script_isn + 4, card_isn);
    EXPECT_EQ(a.opcodes(), "");
    send_segment(flag_ack, script_isn, card_isn, "last");
    EXPECT_EQ(a.opcodes(), "39 26");
}

TEST_F(ToeEvent, FinInsideAnFpduIsReportedAfterPeerClose) {
    connect();
    a.offload(rdma_init(0, true));
    a.rnic.cut_short = true;
    send_segment(flag_ack | flag_fin, script_isn, card_isn, "half an FPDU");
    EXPECT_EQ(a.next(), "26000000 2000000e");
    EXPECT_EQ(a.next(), "a5000000 00000001");
}

TEST_F(ToeEvent, AckOfOurFinClosesOnce) {
    connect();
    a.offload(close_con(0));
    EXPECT_EQ(take_sent(), "FA 10000001 20000001 0");
    send_segment(flag_ack, script_isn, card_isn + 1);
    EXPECT_EQ(a.next(), "32000000 00000000 10000002 20000001");
    send_segment(flag_ack, script_isn, card_isn + 1);
    EXPECT_EQ(a.next(), "");
}

TEST_F(ToeEvent, AfterBothFinsTheTidStaysAllocated) {
    connect();
    a.offload(close_con(0));
    send_segment(flag_ack | flag_fin, script_isn, card_isn + 1);
    EXPECT_EQ(a.opcodes(), "32 26");
    EXPECT_FALSE(send_segment(flag_ack | flag_fin, script_isn, card_isn + 1)) << "MSL 0: the host's now";
    a.toe.params().tids = 1;
    a.control(TwoCards::act_open);
    EXPECT_EQ(a.next().substr(45), "00000003") << "the TID is still allocated";
    a.control(tid_release(0));
    run();
    a.control(TwoCards::act_open);
    EXPECT_EQ(a.opcodes(), "");
}

TEST_F(ToeEvent, DataAfterOurFinIsStillDelivered) {
    connect();
    a.offload(close_con(0));
    send_segment(flag_ack, script_isn, card_isn + 1, "late");
    EXPECT_EQ(a.opcodes(), "32 39");
}

TEST_F(ToeEvent, RstReportsTwoAbortsAndConsumesSegmentsUntilTheReply) {
    connect();
    send_segment(flag_rst, script_isn, 0);
    EXPECT_EQ(a.next(), "30000000 00000000 00140000 00000000");
    EXPECT_EQ(a.next(), "30000000 00000000 00140000 00000000");
    EXPECT_TRUE(send_segment(flag_ack, script_isn, card_isn, "x")) << "aborting: not passed to the host";
    EXPECT_EQ(take_sent(), "");
    a.offload(abort_rpl(0));
    EXPECT_FALSE(send_segment(flag_ack, script_isn, card_isn, "x"));
    EXPECT_EQ(a.opcodes(), "");
}

TEST_F(ToeEvent, RstInRdmaModeEndsTheQp) {
    connect();
    a.offload(rdma_init(0, true));
    send_segment(flag_rst, script_isn, 0);
    EXPECT_EQ(a.rnic.log.back(), "gone");
    EXPECT_EQ(a.opcodes(), "30 30");
}

TEST_F(ToeEvent, RstNearTheMarkIsChallenged) {
    connect();
    send_segment(flag_rst, script_isn + 5, 0);
    EXPECT_EQ(take_sent(), "A 10000001 20000001 0");
    send_segment(flag_rst, script_isn - 5, 0);
    EXPECT_EQ(take_sent(), "");
    EXPECT_EQ(a.opcodes(), "");
}

TEST_F(ToeEvent, RetransmissionsExhausted) {
    connect();
    a.offload(tx_data(0, "8 octets"));
    a.opcodes();
    run(1200 * second);
    EXPECT_EQ(a.next(), "30000000 00000000 001f0000 00000000");
    EXPECT_EQ(a.opcodes(), "30");
}

TEST_F(ToeEvent, NegativeAdviceOnlyByKnobAndOnce) {
    connect();
    a.toe.knobs().negative_advice = true;
    a.offload(tx_data(0, "8 octets"));
    a.opcodes();
    run(60 * second);
    EXPECT_EQ(a.next(), "30000000 00000000 00230000 00000000");
    EXPECT_EQ(a.next(), "");
    send_segment(flag_ack, script_isn, card_isn + 8);
    run(1200 * second);
    EXPECT_EQ(a.next(), "") << "no state has changed";
}

TEST_F(ToeEvent, NegativeAdviceAsTheOtherAnswer) {
    connect();
    a.faults.guesses.set("G14=other");
    a.offload(tx_data(0, "8 octets"));
    a.opcodes();
    run(22 * second);
    EXPECT_EQ(a.next(), "30000000 00000000 00230000 00000000");
}

TEST_F(ToeEvent, InjectedNegativeAdviceChangesNothing) {
    connect();
    a.opcodes();
    a.toe.advise_all();
    EXPECT_EQ(a.next(), "30000000 00000000 00230000 00000000");
    EXPECT_EQ(a.next(), "") << "once, unlike aborts";
    a.offload(tx_data(0, "still here"));
    EXPECT_EQ(a.opcodes(), "a0");
}

TEST_F(ToeEvent, InjectedAbortIsARegularAbort) {
    connect();
    a.opcodes();
    take_sent();
    a.toe.abort_all();
    EXPECT_EQ(a.next(), "30000000 00000000 001f0000 00000000");
    EXPECT_EQ(a.next(), "30000000 00000000 001f0000 00000000");
    EXPECT_EQ(a.next(), "");
    EXPECT_NE(take_sent().find('R'), std::string::npos) << "the peer receives a RST";
    a.toe.abort_all();
    EXPECT_EQ(a.next(), "") << "no connection is left to abort";
}

TEST_F(ToeEvent, SynInsideTheWindowIsChallenged) {
    connect();
    send_segment(flag_syn, script_isn + 100, 0);
    EXPECT_EQ(take_sent(), "A 10000001 20000001 0");
    EXPECT_EQ(a.opcodes(), "");
}

TEST_F(ToeEvent, WindowProbeGetsAnAck) {
    connect();
    send_segment(flag_ack, script_isn - 1, card_isn);
    EXPECT_EQ(take_sent(), "A 10000001 20000001 0");
}

TEST_F(ToeEvent, ZeroWindowIsProbed) {
    connect();
    Segment closed = segment(flag_ack, script_isn, card_isn);
    closed.window = 0;
    a.toe.frame_in(0, frame(closed));
    a.offload(tx_data(0, "patience"));
    EXPECT_EQ(take_sent(), "");
    run(6 * second);
    EXPECT_EQ(take_sent(), "A 10000000 20000001 0");
    send_segment(flag_ack, script_isn, card_isn);
    EXPECT_EQ(take_sent(), "A 10000001 20000001 8");
}

TEST_F(ToeEvent, OtherFramesGoToTheNic) {
    connect();
    Buffer f = frame(segment(flag_ack, script_isn, card_isn));
    const auto changed = [&](std::size_t at, std::uint8_t value) {
        Buffer c = f;
        c[at] = value;
        return a.toe.frame_in(0, c);
    };
    EXPECT_TRUE(a.toe.frame_in(0, f));
    EXPECT_FALSE(changed(13, 0x06)) << "ARP";
    EXPECT_FALSE(changed(23, 17)) << "UDP";
    EXPECT_FALSE(changed(14, 0x65)) << "version 6";
    EXPECT_FALSE(changed(20, 0x20)) << "more fragments";
    EXPECT_FALSE(changed(21, 1)) << "a later fragment";
    EXPECT_FALSE(changed(37, 1)) << "another port";
    EXPECT_FALSE(changed(0, 0x01)) << "multicast";
    for (std::size_t size = 0; size < 54; ++size)
        EXPECT_FALSE(a.toe.frame_in(0, Bytes(f).first(size))) << size;
}

TEST_F(ToeEvent, BadChecksumIsCountedAndDropped) {
    connect();
    Segment s = segment(flag_ack, script_isn, card_isn);
    const Buffer data{1, 2, 3};
    s.payload = data;
    Buffer f = frame(s);
    f.back() ^= 1;
    EXPECT_TRUE(a.toe.frame_in(0, f)) << "consumed, though invalid";
    EXPECT_EQ(a.opcodes(), "");
    EXPECT_EQ(a.toe.mib(43), 1U) << "tcpInErrs";
}

TEST_F(ToeEvent, TaggedFramesKeepTheirVlan) {
    a.control("01c00000 81000003 12000001 68032801 00000007 43334400"); // VLAN 0x65, priority 5
    open();
    run(4 * second);
    EXPECT_EQ(text(Bytes(a.mac.frames.at(0)).first(18)), "00074333 44000007 43112200 8100a065 0800");
}

// ---- What the card guarantees (docs/hw/toe.md 9) -----------------------------------------------------

TEST_F(ToeEvent, NothingFollowsTheSecondAbortReply) {
    connect();
    a.offload(abort_req(0));
    EXPECT_EQ(a.opcodes(), "31 31");
    send_segment(flag_ack, script_isn, card_isn, "late");
    a.offload(tx_data(0, "late"));
    a.offload(close_con(0));
    a.control("01c00000 81000004 05000000 00000019 00000000 00000002 00000000 00000000");
    run(100 * second);
    EXPECT_EQ(a.opcodes(), "");
}

TEST_F(ToeEvent, NothingFollowsTidRelease) {
    connect();
    a.control(tid_release(0));
    send_segment(flag_ack, script_isn, card_isn, "late");
    a.offload(tx_data(0, "late"));
    a.offload(close_con(0));
    a.control(rx_data_ack(0, 10));
    run(100 * second);
    EXPECT_EQ(a.opcodes(), "");
    EXPECT_GE(a.counters.value("toe.ignored"), 3U);
}

// A5
TEST_F(ToeEvent, PassiveSwitchHoldsFpdusUntilTheReplyIsInTheStream) {
    connect();
    send_segment(flag_ack, script_isn, card_isn, "request");
    a.offload(rdma_init(0, false));
    send_segment(flag_ack, script_isn + 7, card_isn, "early FPDU");
    EXPECT_EQ(a.rnic.stream.size(), 0U);
    a.offload(tx_data(0, "reply"));
    EXPECT_EQ(a.rnic.log, (std::vector<std::string>{"wr 10c00000 at 20000008", "switched", "in"}));
    EXPECT_EQ(a.opcodes(), "39 a0");
}

TEST_F(ToeEvent, SecondStreamingMessageAfterRdmaInitIsDroppedButAcknowledged) {
    connect();
    a.offload(rdma_init(0, false));
    a.offload(tx_data(0, "reply"));
    take_sent();
    a.offload(tx_data(0, "again"));
    EXPECT_EQ(take_sent(), "");
    EXPECT_EQ(a.opcodes(), "a0 a0");
    EXPECT_EQ(a.counters.value("toe.tx_data_in_rdma_mode"), 1U);
}

TEST_F(ToeEvent, OddTidsGoToAnotherQueueByKnob) {
    a.toe.knobs().odd_tid_queue = 3;
    connect();
    card_port = 50001;
    a.control("01c00000 81000005 03010000 c3511d2f 0a000001 0a000002 804d0010 10100000 00000000 00008c00");
    send_segment(flag_syn | flag_ack, script_isn - 1, card_isn);
    ASSERT_EQ(a.sge.messages.size(), 1U);
    EXPECT_EQ(a.sge.messages[0].queue, 3U);
}

TEST_F(ToeEvent, SingleAbortsIfThatGuessIsOther) {
    a.faults.guesses.set("G12=other");
    connect();
    a.offload(abort_req(0));
    EXPECT_EQ(a.opcodes(), "31");
}

// ---- What the card accepts (docs/hw/toe.md 9) --------------------------------------------------------

TEST_F(ToeEvent, TidReleaseBeforeAnEarlierAbortReply) {
    connect();
    send_segment(flag_rst, script_isn, 0);
    a.opcodes();
    a.control(tid_release(0));
    a.offload(abort_rpl(0));
    EXPECT_EQ(a.opcodes(), "");
    EXPECT_EQ(take_sent(), "");
}

TEST_F(ToeEvent, TidReleaseBeforeAnEarlierCloseRequest) {
    connect();
    a.control(tid_release(0));
    take_sent();
    a.offload(close_con(0));
    EXPECT_EQ(a.opcodes(), "");
    EXPECT_EQ(take_sent(), "");
}

TEST_F(ToeEvent, RxDataAckForMoreOrFewerBytesAndInRdmaMode) {
    connect();
    send_segment(flag_ack, script_isn, card_isn, "four");
    a.control(rx_data_ack(0, 0x7ffffff));
    a.control(rx_data_ack(0, 1));
    take_sent();
    send_segment(flag_ack, script_isn + 4, card_isn, "more");
    const auto reply = decode(Bytes(a.mac.frames.back()).subspan(14));
    EXPECT_LE(reply->window, 0xffffU);
    a.offload(rdma_init(0, true));
    a.control(rx_data_ack(0, 100));
    EXPECT_EQ(a.opcodes(), "39 39");
}

TEST_F(ToeEvent, PassAcceptWithoutL2tEntryTimesOut) {
    listen_and_syn();
    a.opcodes();
    a.control("01c00000 81000004 02000000 00008c00 00008c00 0a000002 804d0090 10100000");
    EXPECT_EQ(take_sent(), "");
    EXPECT_EQ(a.counters.value("toe.no_l2t_entry"), 1U);
    run(300 * second);
    EXPECT_EQ(a.opcodes(), "30 30");
}

TEST_F(ToeEvent, CloseRequestFollowedByAbort) {
    connect();
    a.offload(close_con(0));
    a.offload(abort_req(0));
    EXPECT_EQ(a.opcodes(), "31 31");
    EXPECT_EQ(take_sent(), "FA 10000001 20000001 0, RA 10000002 20000001 0");
}

TEST_F(ToeEvent, AbortCrossingThePeersReset) {
    connect();
    send_segment(flag_rst, script_isn, 0);
    a.offload(abort_req(0));
    EXPECT_EQ(a.opcodes(), "30 30 31 31");
    a.offload(abort_rpl(0));
    EXPECT_EQ(a.opcodes(), "");
}

TEST_F(ToeEvent, AbortReplyOfAnyKindAndLength) {
    connect();
    send_segment(flag_rst, script_isn, 0);
    a.opcodes();
    a.offload(offload_header("0fc00000", 0, 6) +
              "0b000000 ffffffff ff02ffff ffffffff 00000000 00000000 00000000 00000000 00000000 00000000");
    a.offload(abort_rpl(0, 0));
    EXPECT_EQ(a.opcodes(), "");
    EXPECT_EQ(take_sent(), "");
}

TEST_F(ToeEvent, GarbageInReservedFields) {
    connect();
    a.offload("09c00000 ffff0002 08000000 deadbeef"); // TID 0x0fff00: no such connection
    EXPECT_EQ(a.opcodes(), "");
    a.offload("09c00000 f0000002 08000000 deadbeef");
    send_segment(flag_ack, script_isn, card_isn + 1);
    EXPECT_EQ(a.opcodes(), "32");
}

TEST_F(ToeEvent, TxInitInEveryTxData) {
    connect();
    a.offload(tx_data(0, "one"));
    a.offload(tx_data(0, "two"));
    EXPECT_EQ(a.opcodes(), "a0 a0");
}

// ---- Bad input ------------------------------------------------------------------------------------------

TEST_F(ToeEvent, ShortAndUnknownWorkRequestsAreCounted) {
    connect();
    for (const std::size_t size : {0U, 4U})
        a.toe.offload_wr(0, Buffer(size, 0), 1);
    a.toe.control_wr(0, Buffer(4, 0));
    a.control("01c00000 81000001");                                         // FORWARD without a CPL
    a.control("01c00000 81000002 03010000 c3501d2f");                       // half an ACT_OPEN_REQ
    a.offload("0de00000 80000002 00000004 00000000");                       // half a TX_DATA
    a.offload("0de00000 80000003 00000fff 00040000 0 0 00000000 00010000"); // more than there is
    EXPECT_EQ(a.counters.value("toe.malformed"), 7U);
    a.offload("7fc00000 80000002 00000000 00000000");
    a.control("7fc00000 80000002 00000000 00000000");
    EXPECT_EQ(a.counters.value("toe.unknown_wr"), 2U);
    a.control("01c00000 80000002 77000000 00000000");
    EXPECT_EQ(a.counters.value("toe.unknown_cpl"), 1U);
    EXPECT_EQ(a.rnic.log.size(), 0U);
}

TEST_F(ToeEvent, TcbWordsAndTidsOutOfRange) {
    a.control("01c00000 81000004 05000000 00000020 00000000 00000001 00000000 00000001"); // word 32
    a.control("01c00000 81000004 05ffffff 00000000 00000000 00000001 00000000 00000001");
    a.control("01c00000 81000002 06ffffff 00000000");
    EXPECT_EQ(a.opcodes(), "");
    a.control("01c00000 81000004 05000000 0000001f 00000000 00000001 00000000 00000001"); // the last word
    EXPECT_EQ(a.opcodes(), "2d");
}

TEST_F(ToeEvent, MoreWorkRequestsThanCreditsAreRefused) {
    connect();
    Segment closed = segment(flag_ack, script_isn, card_isn);
    closed.window = 0;
    a.toe.frame_in(0, frame(closed));
    for (int i = 0; i < 100; ++i)
        a.offload(tx_data(0, std::string(40'000, 'A')));
    EXPECT_EQ(a.counters.value("toe.too_many_wrs"), 83U) << "one fetched, sixteen waiting";
}

TEST_F(ToeEvent, RandomWorkRequestsNeitherCrashNorGrow) {
    std::mt19937 random(7);
    connect();
    constexpr std::uint8_t opcodes[] = {0x01, 0x05, 0x09, 0x0b, 0x0d, 0x0f, 0x10, 0x14, 0x16, 0x1b, 0x1d};
    constexpr std::uint8_t cpls[] = {0x01, 0x02, 0x03, 0x05, 0x06, 0x08, 0x09, 0x0a,
                                     0x0b, 0x0d, 0x10, 0x12, 0x14, 0x18, 0x1a};
    for (int i = 0; i < 20'000; ++i) {
        Buffer wr(random() % 120);
        for (auto& byte : wr)
            byte = static_cast<std::uint8_t>(random() & (random() % 3 ? 0xff : 0));
        if (wr.size() >= 12) {
            wr[0] = opcodes[random() % std::size(opcodes)];
            put_be32(&wr[4], random() % 4 << 8);
            put_be32(&wr[8], std::uint32_t{cpls[random() % std::size(cpls)]} << 24 | random() % 4);
        }
        if (random() % 2)
            a.toe.control_wr(0, wr);
        else
            a.toe.offload_wr(0, wr, 1);
        if (random() % 8 == 0)
            send_segment(static_cast<std::uint8_t>(random()), script_isn + random() % 64,
                         card_isn + random() % 64, "data");
        run(random() % 100 * millisecond);
        a.sge.messages.clear();
        a.mac.frames.clear();
    }
}

TEST_F(ToeEvent, ResetRemovesEverything) {
    listen_and_syn();
    a.toe.reset();
    EXPECT_FALSE(syn());
    run(300 * second);
    a.opcodes();
    EXPECT_EQ(take_sent(), "");
    EXPECT_FALSE(events.next().has_value()) << "an event of before the reset";
}

// ---- Bounds ------------------------------------------------------------------------------------------

/// One acknowledgement of 84,650 segments took 4 ms.
TEST_F(ToeEvent, SmallSegmentsOfTheSendBufferCountAsTheMemoryThatTheyCost) {
    connect(48);
    for (unsigned n = 0; n < 500; ++n)
        offload_in_an_event(greedy_data(0, 64 << 10));
    EXPECT_GT(a.toe.memory().sending, Toe::send_memory / 8);
    EXPECT_LE(a.toe.memory().sending, Toe::send_memory / 4);
}

TEST_F(ToeEvent, SendBufferIsBoundedByTheCardsMemory) {
    connect();
    std::size_t offered = 0;
    // The peer acknowledges nothing, and the host sends as long as it can.
    for (unsigned n = 0; n < 2000; ++n, offered += 64 << 10)
        offload_in_an_event(greedy_data(0, 64 << 10));
    ASSERT_GT(offered, Toe::send_memory);
    EXPECT_LE(a.toe.memory().sending, Toe::send_memory);
    EXPECT_GT(a.toe.memory().sending, 8U << 20) << "but it uses most of it";
    EXPECT_LE(a.toe.memory().work_requests, std::size_t{16} * (66 << 10));
    EXPECT_LE(a.toe.memory().sending, Toe::send_memory / 4) << "others find some";
    a.offload(abort_req(0));
    EXPECT_EQ(a.toe.memory().sending, 0U);
    EXPECT_EQ(a.toe.memory().work_requests, 0U);
}

/// Connections share the memory: each gets at most a quarter of the free part, and waiting work requests stop
/// the rings before they exceed their limit.
TEST_F(ToeEvent, ManyBusyConnectionsStayWithinTheBounds) {
    constexpr unsigned connections = 100;
    connect_all(connections);
    a.opcodes();
    a.mac.frames.clear();
    const auto within = [&] {
        return a.toe.memory().sending <= Toe::send_memory + (64U << 10) &&
               a.toe.memory().work_requests <= Toe::work_request_memory + (66U << 10);
    };
    for (unsigned n = 0; n < 100; ++n)
        for (Tid tid = 0; tid < connections && !a.toe.congested(); ++tid) {
            a.offload(greedy_data(tid, 64 << 10));
            ASSERT_TRUE(within()) << a.toe.memory().sending << " " << a.toe.memory().work_requests;
        }
    EXPECT_TRUE(a.toe.congested());
    // Another ring may ask before most work requests are done. The rings that wait are still woken.
    Tid aborted = 0;
    while (a.toe.congested() && aborted < connections / 2)
        a.offload(abort_req(aborted++));
    EXPECT_GT(a.toe.memory().work_requests, Toe::work_request_memory / 2);
    EXPECT_EQ(a.sge.drained, 0U);
    // Memory that one connection frees goes to the others, and the rings are read again.
    while (aborted < connections / 2)
        a.offload(abort_req(aborted++));
    run();
    EXPECT_EQ(a.sge.drained, 1U);
    EXPECT_TRUE(within());
    EXPECT_FALSE(a.toe.congested());
    EXPECT_LT(a.toe.memory().work_requests, Toe::work_request_memory / 2);
    for (Tid tid = connections / 2; tid < connections; ++tid)
        a.offload(abort_req(tid));
    run();
    EXPECT_EQ(a.toe.memory().sending, 0U);
    EXPECT_EQ(a.toe.memory().work_requests, 0U);
}

/// A peer that reads nothing decides how long that memory is full.
TEST_F(ToeEvent, AConnectionWithoutDataMaySendAlthoughOthersFillTheMemory) {
    constexpr Tid others = 1500, last = others, unused = last + 1;
    connect_all(others + 2);
    for (Tid tid = 0; tid < others; ++tid)
        a.offload(greedy_data(tid, 64 << 10));
    run(0);
    ASSERT_GE(a.toe.memory().sending, Toe::send_memory);
    offload_in_an_event(greedy_data(last, 100));
    run(0);
    EXPECT_EQ(a.toe.state(last)->unacknowledged, 100U);
    EXPECT_EQ(a.toe.state(last)->waiting, 0U);
    EXPECT_GT(a.toe.send_space_or_wait(unused), 0U) << "in RDMA mode";
    EXPECT_EQ(a.toe.send_space_or_wait(0), 0U);
}

/// Memory that becomes free at once is not filled at once, and what it held is not freed at once.
TEST_F(ToeEvent, WaitingRequestsAndEndedQueuesTakeManyEvents) {
    constexpr Tid connections = 12;
    connect_all(connections);
    for (unsigned n = 0; n < 300; ++n)
        for (Tid tid = 0; tid < connections && !a.toe.congested(); ++tid)
            a.offload(greedy_data(tid, 64 << 10));
    const std::size_t full = a.toe.memory().sending;
    ASSERT_GT(a.toe.memory().work_requests, 4U << 20);
    a.offload(abort_req(0));
    a.offload(abort_req(1));
    EXPECT_LT(a.toe.memory().sending, full - (8U << 20));
    unsigned refills = 0;
    for (bool more = true; more;) {
        const std::size_t before = a.toe.memory().sending;
        bool first = true;
        more = events.run_due(events.now(), [&] { return std::exchange(first, false); });
        const std::size_t now = a.toe.memory().sending;
        ASSERT_LE(now, before + (512U << 10));
        refills += now > before ? 1 : 0;
    }
    EXPECT_GT(refills, 4U);
}

/// Those beyond the first 16 were not asked after a refusal.
TEST_F(ToeEvent, EachConnectionThatWaitsForMemoryIsAsked) {
    constexpr Tid large = 16, small = large, first_other = small + 1, others = 14;
    constexpr std::uint32_t size = 64 << 10;
    connect_all(first_other + others);
    const auto send = [&](Tid tid) {
        events.at(events.now(), [&] { a.offload(greedy_data(tid, size)); });
        run(0);
    };
    for (Tid tid = 0; tid < large; ++tid)
        for (const std::size_t waits = a.toe.memory().work_requests; a.toe.memory().work_requests == waits;)
            send(tid);
    const std::size_t waits = a.toe.memory().work_requests;
    for (Tid tid = small; tid < first_other + others; ++tid)
        send(tid);
    EXPECT_EQ(a.toe.memory().work_requests, waits);
    send(small);
    EXPECT_GT(a.toe.memory().work_requests, waits + size);
    for (Tid tid = first_other; tid < first_other + 3; ++tid)
        a.offload(abort_req(tid));
    unsigned count = 0;
    events.run_due(events.now(), [&] { return ++count < 100; });
    EXPECT_LT(count, 100U) << "the others are not asked again and again";
    EXPECT_EQ(a.toe.memory().work_requests, waits) << "it has enough memory, and the first 16 have not";
}

/// An ACK that freed space had all requests that waited for it executed in one event.
TEST_F(ToeEvent, AnAckExecutesALimitedPartOfWhatWaits) {
    constexpr std::uint32_t size = 128 << 10;
    connect();
    for (unsigned n = 0; n < 100 && a.toe.memory().work_requests < 10 * size; ++n)
        offload_in_an_event(greedy_data(0, size));
    std::size_t before = a.toe.memory().work_requests;
    ASSERT_GE(before, 10 * size);
    const auto executed_a_part = [&] {
        const std::size_t now = a.toe.memory().work_requests;
        EXPECT_LE(before - now, 3 * size);
        before = now;
    };
    std::uint32_t acked = 0;
    for (unsigned n = 0; before != 0 && n < 100'000; ++n) {
        for (const Buffer& f : a.mac.frames)
            acked = std::max(acked, tcp::decode(Bytes(f).subspan(14))->seq.value() +
                                        static_cast<std::uint32_t>(f.size() - 54));
        a.mac.frames.clear();
        send_segment(tcp::flag_ack, script_isn, acked);
        executed_a_part();
        for (bool more = true; more;) {
            bool first = true;
            more = events.run_due(events.now(), [&] { return std::exchange(first, false); });
            executed_a_part();
        }
        events.advance(events.now() + tcp::microsecond);
    }
    EXPECT_EQ(before, 0U);
}

/// 12,000 connections that waited for a wire were resumed in one event, if they sent nothing that filled it.
TEST_F(ToeEvent, AWireThatIsReadyResumesALimitedNumberOfConnections) {
    constexpr unsigned connections = 1000;
    connect_all(connections);
    a.mac.frames.clear();
    a.mac.ready = false;
    for (Tid tid = 0; tid < connections; ++tid)
        offload_in_an_event(tx_data(tid, "x"));
    EXPECT_TRUE(a.mac.frames.empty());
    a.mac.ready = true;
    a.mac.asked = 0;
    a.toe.resume(0);
    EXPECT_GE(a.mac.asked, 256U);
    EXPECT_LE(a.mac.asked, 600U) << "by the connection, and after it";
    for (unsigned n = 0; n < 3; ++n) {
        const auto before = std::exchange(a.mac.asked, 0);
        EXPECT_LE(before, 600U);
        run(1);
    }
    EXPECT_EQ(a.mac.frames.size(), connections);
}

/// What an event has left waits when the wire is full again, and for a reset.
TEST_F(ToeEvent, ConnectionsThatAreResumedLaterWaitForTheWireAgain) {
    constexpr unsigned connections = 600;
    connect_all(connections);
    a.mac.ready = false;
    for (Tid tid = 0; tid < connections; ++tid)
        offload_in_an_event(tx_data(tid, "x"));
    a.mac.frames.clear();
    a.mac.ready = true;
    a.toe.resume(0);
    EXPECT_EQ(a.mac.frames.size(), 256U);
    a.mac.ready = false;
    run(1);
    EXPECT_EQ(a.mac.frames.size(), 256U);
    a.mac.ready = true;
    a.toe.resume(0);
    EXPECT_EQ(a.mac.frames.size(), 512U);
    a.toe.reset();
    run(1);
    EXPECT_EQ(a.mac.frames.size(), 512U);
}

/// A connection of 48 bytes a segment has 20,000 of them; all were freed at once, also by a reset.
TEST_F(ToeEvent, TheQueueOfAnEndedConnectionIsFreedInManyEvents) {
    for (const bool reset : {false, true}) {
        connect(48);
        for (unsigned n = 0; n < 20; ++n)
            offload_in_an_event(greedy_data(0, 64 << 10));
        const std::size_t before = a.toe.memory().sending;
        ASSERT_GT(before, 8U << 20);
        if (reset)
            a.toe.reset();
        else
            a.offload(abort_req(0));
        EXPECT_EQ(a.toe.memory().sending, 0U);
        unsigned count = 0;
        events.run_due(events.now(), [&] { return ++count < 1000; });
        EXPECT_GT(count, before / 600 / Discard::at_a_time / 2);
        a.toe.reset();
        events.advance(events.now());
        a.control("01c00000 81000004 14000000 000f0000 00000000 00000000 00000007 43112200");
        a.control("01c00000 81000003 12000001 007ff801 00000007 43334400");
    }
}

/// After a reset one TX_DATA freed up to 11,000 connections, so that queues cannot grow faster than they end.
TEST_F(ToeEvent, OneRequestFreesALimitedNumberOfOldConnections) {
    connect_after_a_reset(3000);
    a.offload(greedy_data(0, 64 << 10));
    EXPECT_GE(a.toe.memory().work_requests, 64U << 10) << "waits for another event";
    EXPECT_EQ(a.toe.memory().sending, 0U);
    unsigned count = 0;
    events.run_due(events.now(), [&] { return a.toe.memory().work_requests != 0 && ++count < 100; });
    EXPECT_EQ(a.toe.memory().work_requests, 0U);
    EXPECT_GT(a.toe.memory().sending, 64U << 10);
    EXPECT_GE(count, 2U);
    EXPECT_LE(count, 10U);
}

/// The same for FPDUs, which an event sends for several QPs.
TEST_F(ToeEvent, FpdusOfOneEventFreeALimitedNumberOfOldConnections) {
    connect_after_a_reset(3000);
    const auto send = [&] {
        unsigned sent = 0;
        for (; sent < 100 && a.toe.send_space_or_wait(0) != 0; ++sent)
            a.toe.send_record(0, Packet(1000, Toe::record_headroom));
        return sent;
    };
    const unsigned first = send();
    EXPECT_GT(first, 10U);
    EXPECT_LT(first, 50U);
    bool over = false;
    events.run_due(events.now(), [&] { return !std::exchange(over, true); });
    EXPECT_GT(send(), 10U) << "the next event has its own budget";
    events.advance(events.now());
    EXPECT_EQ(send(), 100U) << "nothing is left";
}

TEST_F(ToeEvent, DataIsRefusedWhileTheHostDoesNotPoll) {
    connect();
    a.sge.is_full = true;
    send_segment(tcp::flag_ack, script_isn, card_isn, "abc");
    EXPECT_EQ(a.opcodes(), "");
    EXPECT_EQ(take_sent(), "A 10000001 20000001 0") << "not acknowledged";
    EXPECT_EQ(a.counters.value("toe.segments_refused"), 1U);
    a.sge.is_full = false;
    send_segment(tcp::flag_ack, script_isn, card_isn, "abc");
    EXPECT_EQ(take_sent(), "A 10000001 20000004 0");
}

/// While the host has quiesced a connection, in-order data is held, limited to the card's memory over all
/// connections.
TEST_F(ToeEvent, HeldDataIsBounded) {
    a.toe.params().tcp.receive_memory = 10'000;
    connect();
    a.control("01c00000 81000005 05000000 00000019 ffffffff ffffffff 00000000 00000002"); // RX_QUIESCE
    a.opcodes();
    take_sent();
    const auto send_all = [&] {
        for (std::uint32_t n = 0; n < 20; ++n)
            send_segment(tcp::flag_ack, script_isn + 1000 * n, card_isn, std::string(1000, 'x'));
        return take_sent().find("A 10000001 20004e21") != std::string::npos;
    };
    EXPECT_FALSE(send_all());
    EXPECT_GE(a.toe.memory().receiving, 8'000U);
    EXPECT_LE(a.toe.memory().receiving, 20'000U) << "the block of the last segment may be twice as large";
    // The peer sends dropped data again when memory is free.
    a.control("01c00000 81000005 05000000 00000019 ffffffff ffffffff 00000000 00000000");
    run();
    EXPECT_EQ(a.toe.memory().receiving, 0U);
    EXPECT_TRUE(send_all());
    run();
    EXPECT_EQ(a.toe.memory().receiving, 0U);
}

/// SYNs from spoofed addresses: they use at most the listener's share of the TIDs, and another listener still
/// works.
TEST_F(ToeEvent, HalfOpenConnectionsAreBoundedPerServer) {
    a.control("01c00000 81000005 01003d7c c3500000 00000000 00000000 00010001 00100000 00000000 00080000");
    a.control("01c00000 81000005 01003d7d c3510000 00000000 00000000 00010001 00100000 00000000 00080000");
    a.opcodes();
    const auto requests = [&] {
        const std::string all = a.opcodes();
        return (all.size() + 1) / 3;
    };
    for (unsigned n = 0; n < 2 * Toe::half_open_per_server; ++n) {
        script_port = static_cast<std::uint16_t>(10000 + n);
        syn();
    }
    EXPECT_EQ(requests(), Toe::half_open_per_server);
    EXPECT_EQ(a.counters.value("toe.syn_backlog_full"), Toe::half_open_per_server);
    card_port = 50001;
    syn();
    EXPECT_EQ(requests(), 1U) << "the other server";
    // One is established, one released: two more are accepted.
    card_port = 50000, script_port = 10000;
    accept();
    send_segment(tcp::flag_ack, script_isn, card_isn);
    a.opcodes();
    a.control(tid_release(1));
    for (unsigned n = 0; n < 10; ++n) {
        script_port = static_cast<std::uint16_t>(20000 + n);
        syn();
    }
    EXPECT_EQ(requests(), 2U);
}

/// Without the secret the next number cannot be predicted from earlier ones.
TEST(InitialSequenceNumbers, AreAKeyedHash) {
    // The vectors of the paper: key 00 01 .. 0f, words 00 01 .. 07 and so on.
    const std::array<std::uint64_t, 2> key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
    EXPECT_EQ(tcp::siphash(key, {}), 0x726fdb47dd0e0e31U);
    EXPECT_EQ(tcp::siphash(key, {0x0706050403020100}), 0x93f5f5799a932462U);

    const auto number = [](std::optional<std::uint64_t> secret, std::uint16_t port) {
        EventQueue events;
        Machine m{events};
        if (secret)
            m.toe.params().tcp.iss_secret = {*secret, 0};
        m.control("01c00000 81000004 14000000 000f0000 00000000 00000000 00000007 43112200");
        m.control("01c00000 81000003 12000001 007ff801 00000007 43334400");
        m.control("01c00000 81000005 03010000 " + word(std::uint32_t{port} << 16 | 7471) +
                  " 0a000001 0a000002 804d0010 10100000 00000000 00008c00");
        return tcp::decode(Bytes(m.mac.frames.at(0)).subspan(14))->seq.value();
    };
    EXPECT_EQ(number(std::nullopt, 1), number(std::nullopt, 1)) << "a run repeats";
    EXPECT_NE(number(1, 1), number(2, 1));
    EXPECT_NE(number(1, 1), number(1, 2));
}

} // namespace
} // namespace t3sim::test
