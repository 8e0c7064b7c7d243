// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Timers, windows and recovery on the virtual clock.
#include <algorithm>
#include <map>

#include "tests/sim/tcp/script.hh"

namespace t3sim::tcp::test {
namespace {

class TcpTiming : public Script {};

TEST_F(TcpTiming, SynIsRetransmittedWithBackoffThenAborted) {
    open();
    std::vector<Time> at;
    end.on_transmit = [&](const Segment&) { at.push_back(events.now() / second); };
    run(1000 * second);
    EXPECT_EQ(at, (std::vector<Time>{3, 9, 21, 45, 93, 157}));
    EXPECT_EQ(end.abort_reason, AbortReason::syn_timeout);
}

TEST_F(TcpTiming, RepeatedSynsAreAnsweredButGiveNoMoreTime) {
    end.engine.listen(3, 0, 50000);
    send_segment({.flags = flag_syn, .seq = 5000});
    ASSERT_TRUE(end.engine.accept(conn, options));
    for (unsigned n = 0; n < 300 && !end.abort_reason; ++n) {
        take_sent();
        send_segment({.flags = flag_syn, .seq = 5000});
        ASSERT_EQ(take_sent(), "SA 1000 5001");
        run(second);
    }
    EXPECT_EQ(end.abort_reason, AbortReason::syn_timeout);
    EXPECT_EQ(events.now() / second, 221U) << "as without them";
}

TEST_F(TcpTiming, RtoFollowsRfc6298) {
    open();
    run(100 * millisecond);
    send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .mss = 1000});
    View v = *end.engine.view(conn);
    EXPECT_EQ(v.srtt, 100 * millisecond);
    EXPECT_EQ(v.rttvar, 50 * millisecond);
    EXPECT_EQ(v.rto, 300 * millisecond);
    send(100);
    run(60 * millisecond);
    send_ack(1101);
    v = *end.engine.view(conn);
    EXPECT_EQ(v.rttvar, (3 * 50 + 40) * millisecond / 4);
    EXPECT_EQ(v.srtt, (7 * 100 + 60) * millisecond / 8);
}

TEST_F(TcpTiming, AckOfARetransmissionGivesNoRttSample) { // Karn
    connect();
    send(100);
    const Time srtt = end.engine.view(conn)->srtt;
    run(2 * second);
    send_ack(1101);
    EXPECT_EQ(end.engine.view(conn)->srtt, srtt);
}

TEST_F(TcpTiming, DataIsRetransmittedWithBackoffThenAborted) {
    connect();
    std::vector<Time> at;
    send(100);
    take_sent();
    end.on_transmit = [&](const Segment& s) {
        if (!s.has(flag_rst))
            at.push_back(events.now() / millisecond);
    };
    run(2000 * second);
    // The tail probe, then the timeout counted from it, each twice as long, up to 64 s.
    ASSERT_EQ(at.size(), 16U);
    EXPECT_EQ(at[0], 10U);
    EXPECT_EQ(at[1], 260U);
    EXPECT_EQ(at[2], 760U);
    EXPECT_EQ(at[3], 1760U);
    EXPECT_EQ(at[15] - at[14], 64'000U);
    EXPECT_EQ(end.abort_reason, AbortReason::retransmit_timeout);
    EXPECT_EQ(end.advices, 1U) << "after R1";
}

TEST_F(TcpTiming, RetransmissionsKeepSegmentBoundaries) {
    connect();
    for (const std::size_t size : {300, 700, 50})
        send(size);
    EXPECT_EQ(take_sent(), "A 1001 5001 +300, A 1301 5001 +700, A 2001 5001 +50");
    run(400 * millisecond);
    EXPECT_EQ(take_sent(), "A 2001 5001 +50, A 1001 5001 +300, A 1301 5001 +700");
    send_ack(1301);
    EXPECT_EQ(take_sent(), "A 2001 5001 +50");
}

TEST_F(TcpTiming, RecordsLargerThanTheMssAreCutAndTheEndIsPushed) {
    connect();
    send(2500, true);
    EXPECT_EQ(take_sent(), "A 1001 5001 +1000, A 2001 5001 +1000, PA 3001 5001 +500");
}

// A record is sent without a copy, with the headers in front of it. Its retransmission has other headers.
TEST_F(TcpTiming, RetransmissionLeavesAnEarlierPacketAsItWas) {
    connect();
    std::vector<Packet> packets;
    std::vector<Buffer> as_sent;
    end.on_packet = [&](const Packet& packet) {
        packets.push_back(packet);
        as_sent.emplace_back(packet.data(), packet.data() + packet.size());
    };
    send(100);
    run(2 * second);
    ASSERT_GE(packets.size(), 2U);
    EXPECT_NE(as_sent[0], as_sent[1]) << "another IP id";
    for (std::size_t n = 0; n < packets.size(); ++n)
        EXPECT_EQ(Buffer(packets[n].data(), packets[n].data() + packets[n].size()), as_sent[n]);
    // Without the earlier packets, the record's own block is used again.
    const std::uint8_t* const first = packets[0].data();
    packets.clear();
    run(30 * second);
    ASSERT_FALSE(packets.empty());
    EXPECT_EQ(packets[0].data(), first);
}

TEST_F(TcpTiming, FastRetransmitThenNewReno) {
    connect();
    for (int i = 0; i < 4; ++i)
        send(1000);
    send_ack(2001); // opens cwnd a little
    for (int i = 0; i < 4; ++i)
        send(1000);
    take_sent();
    for (int i = 0; i < 3; ++i)
        send_ack(2001);
    const std::string first = take_sent();
    EXPECT_NE(first.find("A 2001 5001 +1000"), std::string::npos) << first;
    send_ack(4001); // partial: the next hole at once
    EXPECT_NE(take_sent().find("A 4001 5001 +1000"), std::string::npos);
    EXPECT_TRUE(end.engine.view(conn)->in_recovery);
    send_ack(end.engine.view(conn)->snd_max.value());
    EXPECT_FALSE(end.engine.view(conn)->in_recovery);
    EXPECT_EQ(end.engine.view(conn)->retries, 0U);
}

// What the last loss has left is compared with sequence numbers that have advanced by more than 2^31.
TEST_F(TcpTiming, FastRetransmitWorksAllAlongAStreamOfTenGigabytes) {
    constexpr std::uint32_t size = 60'000;
    constexpr std::uint64_t between_losses = 3'000'000'000, stream = 10'000'000'000;
    options = {.mss = size, .receive_buffer = 64 << 10, .window_scale = 4};
    open();
    send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .mss = size, .scale = 4});
    const auto una = [&] { return end.engine.view(conn)->snd_una.value(); };
    std::size_t segments = 0;
    end.on_transmit = nullptr; // neither decodes nor keeps the stream
    end.on_packet = [&](const Packet&) { ++segments; };
    const Packet record(size, Engine::record_headroom); // copies share it
    std::uint64_t next_loss = between_losses;
    for (std::uint64_t sent_bytes = size; sent_bytes <= stream; sent_bytes += size) {
        events.advance(events.now() + 1); // an event sends a limited number of segments
        ASSERT_TRUE(end.engine.send(conn, Packet(record)));
        if (sent_bytes >= next_loss) {
            next_loss += between_losses;
            segments = 0;
            for (int i = 0; i < 3; ++i)
                send_ack(una());
            ASSERT_EQ(segments, 1U) << "no fast retransmit after " << sent_bytes << " bytes";
        }
        send_ack(una() + size);
    }
}

TEST_F(TcpTiming, TimersThatAreDueTogetherRunInParts) {
    constexpr unsigned connections = 1000;
    options.keepalive = true;
    for (ConnId id = 0; id < connections; ++id) {
        const FourTuple tuple{ip_a, ip_b, static_cast<std::uint16_t>(1024 + id), 7471};
        ASSERT_TRUE(end.engine.open(id, tuple, options));
        send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .to = tuple.local_port});
    }
    events.advance(end.params.keepalive_idle + second);
    unsigned calls = 0;
    for (sent.clear(); *end.engine.next_deadline() <= events.now(); sent.clear()) {
        end.engine.advance();
        ++calls;
        ASSERT_LE(sent.size(), 256U);
    }
    EXPECT_EQ(calls, 4U);
}

TEST_F(TcpTiming, NoCongOptionSendsTheWholeWindow) {
    options.congestion_control = false;
    connect(20'000);
    for (int i = 0; i < 30; ++i)
        send(1000);
    EXPECT_EQ(sent.size(), 20U);
}

/// Frames that are dropped before the wire fill it never. An event sent the windows of all connections.
TEST_F(TcpTiming, OneEventSendsALimitedNumberOfSegments) {
    constexpr ConnId connections = 8;
    constexpr std::uint32_t bytes = 48'000; // 1,000 segments
    options.congestion_control = false;
    options.mss = 48;
    std::map<Time, unsigned> segments;
    std::map<std::uint16_t, std::uint32_t> edge;
    end.on_transmit = [&](const Segment& s) {
        segments[events.now()] += s.payload.empty() ? 0 : 1;
        if (!s.payload.empty() && s.seq.value() == edge[s.tuple.remote_port])
            edge[s.tuple.remote_port] += static_cast<std::uint32_t>(s.payload.size());
    };
    FourTuple tuple = a_to_b;
    for (ConnId id = 1; id <= connections; ++id, ++tuple.local_port) {
        ASSERT_TRUE(end.engine.open(id, tuple, options));
        send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .to = tuple.local_port});
    }
    for (const Time wait : {Time{100}, 3 * second}) { // the second time after timeouts
        edge.clear();
        for (ConnId id = 1; id <= connections; ++id) {
            edge[static_cast<std::uint16_t>(a_to_b.local_port + id - 1)] = 1001;
            if (wait == 100)
                end.engine.send(id, Buffer(bytes, 'x'));
        }
        run(wait);
        for (const auto& [port, seq] : edge)
            EXPECT_EQ(seq, 1001 + bytes) << port;
    }
    const auto most = std::ranges::max_element(segments, {}, [](const auto& at) { return at.second; });
    EXPECT_LE(most->second, Engine::sent_at_a_time);
}

/// An ACK of 27,000 segments freed them at once, and so did those of other connections in the same event.
TEST_F(TcpTiming, OneEventFreesALimitedNumberOfSegments) {
    constexpr std::uint32_t segments = 3000, size = 10;
    options.congestion_control = false;
    options.mss = size;
    open();
    send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .mss = size});
    for (std::uint32_t n = 0; n < segments; ++n)
        end.engine.send(conn, Buffer(size, 'x'));
    run(millisecond);
    EXPECT_EQ(sent.size(), 1 + segments);
    std::size_t before = end.engine.unacknowledged(conn);
    ASSERT_EQ(before, segments * size);
    unsigned parts = 0;
    const auto freed_a_part = [&] {
        const std::size_t now = end.engine.unacknowledged(conn);
        EXPECT_LE(before - now, Engine::acked_at_a_time * size);
        parts += now != before ? 1 : 0;
        before = now;
    };
    send_ack(1001 + segments * size);
    freed_a_part();
    send_ack(1001 + size); // overtaken
    while (const auto next = end.engine.next_deadline()) {
        events.advance(std::max(events.now(), *next));
        end.engine.advance();
        freed_a_part();
    }
    EXPECT_EQ(before, 0U);
    EXPECT_EQ(parts, 3U);
    EXPECT_EQ(sent.size(), 1 + segments) << "nothing is sent again";
}

/// A peer must not learn from its own packets how many packets others get.
TEST_F(TcpTiming, EachConnectionNumbersItsPackets) {
    std::map<std::uint16_t, std::vector<std::uint16_t>> ids; // by the peer's port
    end.wire = [&](const Buffer& packet) { ids[be16(&packet[22])].push_back(be16(&packet[4])); };
    ASSERT_TRUE(end.engine.open(1, a_to_b, options));
    FourTuple other = a_to_b;
    ++other.remote_port;
    ASSERT_TRUE(end.engine.open(2, other, options));
    run(10 * second); // both repeat their SYN
    for (const auto& [port, numbers] : ids)
        EXPECT_EQ(numbers, (std::vector<std::uint16_t>{1, 2, 3})) << port;
    EXPECT_EQ(ids.size(), 2U);
}

TEST_F(TcpTiming, SlowStartOpensWithEachAck) {
    connect();
    for (int i = 0; i < 30; ++i)
        send(1000);
    EXPECT_EQ(sent.size(), 4U) << "RFC 3390";
    take_sent();
    send_ack(2001);
    EXPECT_EQ(sent.size(), 2U);
}

TEST_F(TcpTiming, ZeroWindowIsProbedWithoutCuttingTheRecord) {
    connect();
    send_ack(1001, 0);
    send(600);
    EXPECT_EQ(take_sent(), "");
    run(5 * second);
    EXPECT_EQ(take_sent(), "A 1000 5001") << "old sequence number, no data";
    send_ack(1001, 0);
    run(10 * second);
    EXPECT_EQ(take_sent(), "A 1000 5001") << "twice as long";
    send_ack(1001, 1000);
    EXPECT_EQ(take_sent(), "A 1001 5001 +600");
    send_ack(1601, 0);
    send(600);
    run(5 * second);
    EXPECT_EQ(take_sent(), "A 1600 5001") << "closed again: the backoff starts again";
}

// A retransmission has an old sequence number and a new acknowledgement; the segment that it overtook has the
// opposite.
TEST_F(TcpTiming, WindowIsThatOfTheNewestAckWhateverItsSequenceNumber) {
    connect(2000);
    send(1000);
    send(1000);
    send_segment({.seq = 5501, .ack = 2001, .data = std::string(500, 'b'), .window = 1000});
    EXPECT_EQ(end.engine.view(conn)->snd_wnd, 1000U);
    send_segment({.seq = 5001, .ack = 3001, .data = std::string(500, 'a'), .window = 0});
    EXPECT_EQ(end.engine.view(conn)->snd_wnd, 0U) << "else the edge would be at 4001";
    send_ack(2001, 1000, 6001);
    EXPECT_EQ(end.engine.view(conn)->snd_wnd, 0U) << "counted from 3001 it would be beyond the edge";
    take_sent();
    send(1000);
    EXPECT_EQ(take_sent(), "");
}

TEST_F(TcpTiming, ProbesWithRepliesContinueForever) {
    connect();
    send_ack(1001, 0);
    send(600);
    end.on_transmit = [&](const Segment&) { events.after(millisecond, [&] { send_ack(1001, 0); }); };
    run(10'000 * second);
    EXPECT_EQ(state(), State::established);
}

TEST_F(TcpTiming, ProbesWithoutReplyAbort) {
    connect();
    send_ack(1001, 0);
    send(600);
    run(1000 * second);
    EXPECT_EQ(end.abort_reason, AbortReason::persist_timeout);
}

TEST_F(TcpTiming, WindowShrinksUntilCreditAndReopensInGoodSteps) {
    options.receive_buffer = 4000;
    end.consume = false;
    connect();
    for (std::uint32_t i = 0; i < 4; ++i)
        send_segment({.seq = 5001 + 1000 * i, .ack = 1001, .data = std::string(1000, 'x')});
    EXPECT_EQ(sent.back().window, 0);
    take_sent();
    send_segment({.seq = 9001, .ack = 1001, .data = "too much"});
    EXPECT_EQ(take_sent(), "A 1001 9001");
    EXPECT_EQ(end.stream.size(), 4000U);
    end.engine.credit(conn, 500, false);
    EXPECT_EQ(take_sent(), "") << "receiver's silly window avoidance";
    end.engine.credit(conn, 500, false);
    EXPECT_EQ(sent.back().window, 1000);
    end.engine.credit(conn, 100'000, true);
    EXPECT_EQ(sent.back().window, 4000) << "never more than the buffer";
}

TEST_F(TcpTiming, AutoCreditKeepsTheWindowOpen) {
    options.receive_buffer = 4000;
    end.consume = false;
    connect();
    end.engine.auto_credit(conn);
    for (std::uint32_t i = 0; i < 40; ++i)
        send_segment({.seq = 5001 + 1000 * i, .ack = 1001, .data = std::string(1000, 'x')});
    EXPECT_EQ(end.stream.size(), 40'000U);
}

TEST_F(TcpTiming, HeldDataClosesTheWindowEvenWithAutoCredit) {
    options.receive_buffer = 4000;
    end.consume = false;
    connect();
    end.engine.auto_credit(conn);
    end.engine.hold(conn, true);
    for (std::uint32_t i = 0; i < 40; ++i)
        send_segment({.seq = 5001 + 1000 * i, .ack = 1001, .data = std::string(1000, 'x')});
    EXPECT_EQ(sent.back().window, 0);
    end.engine.hold(conn, false);
    EXPECT_EQ(end.stream.size(), 4000U);
    EXPECT_EQ(sent.back().window, 4000);
}

// Rounding a scaled window up with each ACK would advance the edge by the size of each tiny segment.
TEST_F(TcpTiming, TinySegmentsDoNotAdvanceTheEdge) {
    options.receive_buffer = 4000;
    options.window_scale = 3;
    end.consume = false;
    open();
    send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .mss = 1000, .scale = 0});
    for (std::uint32_t i = 0; i < 10'000; ++i)
        send_segment({.seq = 5001 + i, .ack = 1001, .data = "x"});
    EXPECT_EQ(end.stream.size(), 4000U);
}

TEST_F(TcpTiming, DelayedAckWaitsForTwoSegmentsOrTheTimer) {
    options.delayed_ack = true;
    connect();
    send_segment({.seq = 5001, .ack = 1001, .data = "x"});
    EXPECT_EQ(take_sent(), "");
    run(end.params.delayed_ack);
    EXPECT_EQ(take_sent(), "A 1001 5002");
    send_segment({.seq = 5002, .ack = 1001, .data = std::string(1000, 'x')});
    EXPECT_EQ(take_sent(), "");
    send_segment({.seq = 6002, .ack = 1001, .data = std::string(1000, 'x')});
    EXPECT_EQ(take_sent(), "A 1001 7002");
    send_segment({.seq = 8000, .ack = 1001, .data = "hole"});
    EXPECT_EQ(take_sent(), "A 1001 7002") << "at once, for fast retransmit";
}

TEST_F(TcpTiming, OneAckCoversTheSegmentsOfABurst) {
    connect();
    end.engine.burst(true);
    for (const std::uint32_t seq : {5001U, 6001U, 7001U})
        send_segment({.seq = seq, .ack = 1001, .data = std::string(1000, 'x')});
    send(100);
    EXPECT_EQ(take_sent(), "");
    EXPECT_EQ(end.stream.size(), 3000U) << "the data does not wait";
    end.engine.burst(false);
    EXPECT_EQ(take_sent(), "A 1001 8001 +100");
    send_segment({.seq = 8001, .ack = 1101, .data = "x"});
    EXPECT_EQ(take_sent(), "A 1101 8002");
}

/// Three duplicate ACKs start fast retransmit.
TEST_F(TcpTiming, EachSegmentBehindAHoleHasAnAckOfItsOwnInABurst) {
    connect();
    end.engine.burst(true);
    send_segment({.seq = 5001, .ack = 1001, .data = std::string(1000, 'x')});
    for (const std::uint32_t seq : {7001U, 8001U, 9001U})
        send_segment({.seq = seq, .ack = 1001, .data = std::string(1000, 'x')});
    end.engine.burst(false);
    EXPECT_EQ(take_sent(), "A 1001 6001, A 1001 6001, A 1001 6001, A 1001 6001");
}

TEST_F(TcpTiming, AConnectionMayEndWithinABurst) {
    connect();
    end.engine.burst(true);
    send_segment({.seq = 5001, .ack = 1001, .data = "x"});
    end.engine.release(conn);
    end.engine.burst(false);
    EXPECT_EQ(take_sent(), "");
    EXPECT_EQ(end.engine.connections(), 0U);
}

TEST_F(TcpTiming, EverySecondSegmentIsAcknowledgedAtOnceAlsoIfAllAreShorterThanTheMss) {
    options.delayed_ack = true;
    connect();
    std::uint32_t seq = 5001;
    for (int pair = 0; pair < 3; ++pair) {
        send_segment({.seq = seq, .ack = 1001, .data = std::string(997, 'x')});
        EXPECT_EQ(take_sent(), "");
        send_segment({.seq = seq + 997, .ack = 1001, .data = std::string(997, 'x')});
        seq += 2 * 997;
        EXPECT_EQ(take_sent(), "A 1001 " + std::to_string(seq));
    }
}

TEST_F(TcpTiming, NagleHoldsSmallSegmentsWhileDataIsInFlight) {
    options.nagle = true;
    connect();
    send(10);
    send(10);
    send(1000);
    EXPECT_EQ(take_sent(), "A 1001 5001 +10");
    send_ack(1011);
    EXPECT_EQ(take_sent(), "A 1011 5001 +10, A 1021 5001 +1000") << "a full segment may be sent";
}

TEST_F(TcpTiming, KeepaliveProbesAnIdleConnectionThenAborts) {
    options.keepalive = true;
    connect();
    run(7200 * second);
    EXPECT_EQ(take_sent(), "A 1000 5001");
    send_ack(1001);
    run(7200 * second);
    EXPECT_EQ(take_sent(), "A 1000 5001");
    run(9 * 75 * second);
    EXPECT_EQ(end.abort_reason, AbortReason::keepalive_timeout);
}

TEST_F(TcpTiming, UnacceptableSegmentsDoNotKeepAConnectionAlive) {
    options.keepalive = true;
    connect();
    for (unsigned minute = 0; minute < 150 && !end.abort_reason; ++minute) {
        run(60 * second);
        send_segment({.seq = 5001 + 200'000, .ack = 1001, .data = "x"}); // of a third party
        send_segment({.seq = 5001, .ack = 1001 + 200'000, .data = "x"});
    }
    EXPECT_EQ(end.abort_reason, AbortReason::keepalive_timeout);
}

TEST_F(TcpTiming, DuplicateAcksDoNotOverflowTheCongestionWindow) {
    options = {.mss = 60'000, .receive_buffer = 64 << 10, .window_scale = 4};
    open();
    send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .mss = 60'000, .scale = 4});
    send(60'000);
    send(60'000);
    std::uint32_t cwnd = 0;
    for (unsigned n = 0; n < (1ULL << 32) / 60'000; ++n) {
        send_ack(1001);
        const std::uint32_t now = end.engine.view(conn)->cwnd;
        ASSERT_TRUE(n < 3 || now >= cwnd);
        cwnd = now;
    }
}

TEST_F(TcpTiming, FinWait2TimesOut) {
    connect();
    end.engine.close(conn);
    send_ack(1002);
    run(601 * second);
    EXPECT_EQ(end.abort_reason, AbortReason::fin_wait_2_timeout);
}

TEST_F(TcpTiming, ChallengesAreLimitedInRate) {
    connect();
    for (int i = 0; i < 1000; ++i)
        send_segment({.flags = flag_syn, .seq = 5001});
    EXPECT_EQ(sent.size(), 10U);
    take_sent();
    FourTuple other = a_to_b;
    ASSERT_TRUE(end.engine.open(2, {ip_a, ip_b, ++other.local_port, 7471}, options));
    send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .to = other.local_port});
    take_sent();
    send_segment({.flags = flag_syn, .seq = 5001, .to = other.local_port});
    EXPECT_EQ(sent.size(), 1U) << "nothing can be learnt of the first connection";
    take_sent();
    run(second);
    send_segment({.flags = flag_syn, .seq = 5001});
    EXPECT_EQ(sent.size(), 1U);
}

TEST_F(TcpTiming, RepliesToProbesHaveALimitOfTheirOwn) {
    connect();
    for (int i = 0; i < 1000; ++i)
        send_ack(1001, 0xffff, 4000);
    EXPECT_EQ(sent.size(), 10U) << "challenges";
    take_sent();
    for (int i = 0; i < 1000; ++i)
        send_ack(1001, 0xffff, 5000); // keepalive, zero window: one before what is expected
    EXPECT_EQ(sent.size(), 10U);
    EXPECT_EQ(end.engine.stats().challenge_acks, 10U);
}

// A third party has sent a byte to each of them: each takes a reply of the other one for a probe.
TEST(TcpReplies, OfEndsThatAreAByteAheadOfEachOtherStop) {
    EventQueue events;
    End a{events}, b{events};
    unsigned packets = 0;
    const auto join = [&events, &packets](End& from, End& to) {
        from.wire = [&events, &packets, &to](const Buffer& packet) {
            ++packets;
            events.after(millisecond, [&to, packet] { to.engine.input(packet); });
        };
    };
    join(a, b);
    join(b, a);
    b.auto_accept = Options{};
    b.engine.listen(3, ip_b, 7471);
    ASSERT_TRUE(a.engine.open(1, a_to_b, {}));
    run(events, {&a, &b}, second);
    const auto forge = [](const End& from, End& to) {
        const View view = *from.engine.view(1);
        Buffer packet(41, 'x');
        const Headers headers = encode({.tuple = view.tuple,
                                        .seq = view.snd_max,
                                        .ack = to.engine.view(1)->snd_max,
                                        .flags = flag_ack,
                                        .window = 0xffff,
                                        .payload = Bytes(packet).last(1)},
                                       1, 64);
        std::copy_n(headers.bytes.begin(), headers.size, packet.begin());
        EXPECT_TRUE(to.engine.input(packet));
    };
    forge(a, b);
    forge(b, a);
    run(events, {&a, &b}, 10 * second);
    EXPECT_LT(packets, 100U);
}

TEST_F(TcpTiming, RepliesWaitForTheWire) {
    connect();
    send(3000);
    take_sent();
    bool full = true;
    end.wire_ready = [&full] { return !full; };
    for (int i = 0; i < 1000; ++i)
        send_segment({.seq = 1, .ack = 1001, .data = "x"}); // outside of the window
    for (int i = 0; i < 3; ++i)
        send_ack(1001);
    for (std::uint32_t acked = 1001; acked < 1500; ++acked)
        send_ack(acked + 1); // in recovery: each is a partial acknowledgement
    EXPECT_EQ(take_sent(), "");
    full = false;
    end.engine.resume(conn);
    EXPECT_EQ(take_sent(), "A 1500 5001 +501") << "the rest of the first segment, with an acknowledgement";
}

TEST_F(TcpTiming, ATailProbeWaitsForTheWire) {
    connect();
    send(1000);
    take_sent();
    end.wire_ready = [] { return false; };
    run(20 * millisecond);
    EXPECT_EQ(take_sent(), "");
    end.wire_ready = nullptr;
    end.engine.resume(conn);
    EXPECT_EQ(take_sent(), "A 1001 5001 +1000");
    send_ack(2001);
    end.engine.resume(conn);
    EXPECT_EQ(take_sent(), "") << "once";
}

TEST_F(TcpTiming, ATailProbeIsNoSecondRetransmission) {
    connect();
    send(1000);
    take_sent();
    end.wire_ready = [] { return false; };
    run(20 * millisecond);
    for (int i = 0; i < 3; ++i)
        send_ack(1001);
    end.wire_ready = nullptr;
    end.engine.resume(conn);
    EXPECT_EQ(take_sent(), "A 1001 5001 +1000");
}

TEST_F(TcpTiming, AProbeLeavesAnAcknowledgementThatWaits) {
    connect();
    send_ack(1001, 0);
    send(100);
    end.wire_ready = [] { return false; };
    send_segment({.seq = 5001, .ack = 1001, .data = "x", .window = 0});
    run(10 * second);
    EXPECT_EQ(take_sent().substr(0, 11), "A 1000 5002") << "of the persist timer";
    end.wire_ready = nullptr;
    end.engine.resume(conn);
    EXPECT_EQ(take_sent(), "A 1001 5002");
}

TEST_F(TcpTiming, NothingAcknowledgesASynThatWaitsForTheWire) {
    end.wire_ready = [] { return false; };
    ASSERT_TRUE(end.engine.open(conn, a_to_b, options));
    send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1000});
    EXPECT_EQ(state(), State::syn_sent);
    end.wire_ready = nullptr;
    end.engine.resume(conn);
    EXPECT_EQ(take_sent(), "S 1000");
}

TEST_F(TcpTiming, ASynAgainWaitsForTheWire) {
    bool full = true;
    end.wire_ready = [&full] { return !full; };
    end.engine.listen(3, 0, 50000);
    send_segment({.flags = flag_syn, .seq = 5000});
    ASSERT_TRUE(end.engine.accept(conn, options));
    for (int i = 0; i < 1000; ++i)
        send_segment({.flags = flag_syn, .seq = 5000});
    EXPECT_EQ(take_sent(), "");
    full = false;
    end.engine.resume(conn);
    EXPECT_EQ(take_sent(), "SA 1000 5001");
}

TEST_F(TcpTiming, OutOfOrderDataIsBoundedByTheWindow) {
    options.receive_buffer = 10'000;
    connect();
    for (std::uint32_t i = 1; i < 1000; ++i)
        send_segment({.seq = 5001 + 1000 * i, .ack = 1001, .data = std::string(1000, 'x')});
    send_segment({.seq = 5001, .ack = 1001, .data = std::string(1000, 'x')});
    run(1); // an event delivers a part
    EXPECT_EQ(end.stream.size(), 10'000U);
}

} // namespace
} // namespace t3sim::tcp::test
