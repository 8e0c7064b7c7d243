// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Eight known mistakes of TCP implementations of this kind.
#include "tests/sim/tcp/script.hh"

namespace t3sim::tcp::test {
namespace {

class TcpTrap : public Script {};

// The SYN|ACK of a simultaneous open has an old sequence number (IRS). If it is challenged instead of
// accepted, both ends send SYN|ACKs forever.
TEST_F(TcpTrap, SimultaneousOpenCompletes) {
    open();
    send_segment({.flags = flag_syn, .seq = 5000, .mss = 1000});
    EXPECT_EQ(take_sent(), "SA 1000 5001");
    EXPECT_EQ(state(), State::syn_received);
    send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .mss = 1000});
    EXPECT_EQ(state(), State::established);
    EXPECT_EQ(take_sent(), "A 1001 5001");
}

TEST(TcpTrapPair, SimultaneousOpenOfTwoEnginesEndsQuietly) {
    EventQueue events;
    End a(events), b(events);
    unsigned packets = 0;
    const auto join = [&](End& from, End& to) {
        from.wire = [&](Buffer p) {
            ++packets;
            events.after(millisecond, [&to, p = std::move(p)] { to.engine.input(p); });
        };
    };
    join(a, b);
    join(b, a);
    ASSERT_TRUE(a.engine.open(1, a_to_b, {}));
    ASSERT_TRUE(b.engine.open(1, {ip_b, ip_a, 7471, 50000}, {}));
    run(events, {&a, &b}, 10 * second);
    EXPECT_EQ(a.log, std::vector<std::string>{"established"});
    EXPECT_EQ(b.log, std::vector<std::string>{"established"});
    EXPECT_LE(packets, 6U);
}

// A scaled SYN window looks like a huge buffer of the peer: then "half of the largest window seen" is never
// reached again and the sender's SWS avoidance waits forever.
TEST_F(TcpTrap, WindowOfASynIsNotScaled) {
    options.window_scale = 7;
    open();
    send_segment(
        {.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .window = 600, .mss = 1000, .scale = 7});
    EXPECT_EQ(end.engine.view(conn)->snd_wnd, 600U);
    take_sent();
    ASSERT_TRUE(send(1000));
    EXPECT_EQ(take_sent(), "A 1001 5001 +600") << "the window is smaller than the record, so it is cut";
    send_ack(1601, 100);
    EXPECT_EQ(end.engine.view(conn)->snd_wnd, 100U << 7) << "later ones are scaled";
}

// A window that is open but too small for the record, and a peer that sends nothing more.
TEST_F(TcpTrap, SmallWindowIsUsedAfterTheOverrideTimer) {
    connect(2000);
    send_ack(1001, 300);
    ASSERT_TRUE(send(1000));
    EXPECT_EQ(take_sent(), "") << "silly window avoidance";
    run(end.params.sws_override);
    EXPECT_EQ(take_sent(), "A 1001 5001 +300");
}

// Each cut by a window that shrinks would add a unit of some hundred bytes, which nothing limits.
TEST_F(TcpTrap, AWindowThatShrinksCutsTheSameDataOnce) {
    connect(999);
    ASSERT_TRUE(send(1000));
    EXPECT_EQ(take_sent(), "A 1001 5001 +999");
    const std::size_t once = end.engine.sending_memory(conn);
    for (std::uint16_t window = 998; window > 990; --window) {
        send_ack(1001, 0);
        run(2 * end.params.rto_max); // sent_ is at the front again
        take_sent();
        send_ack(1001, window);
        run(end.params.sws_override);
        EXPECT_EQ(take_sent(), "A 1001 5001 +" + std::to_string(window));
        EXPECT_EQ(end.engine.sending_memory(conn), once);
    }
    send_ack(1992, 2000);
    EXPECT_EQ(take_sent(), "A 1992 5001 +9");
}

// While lost data fills cwnd, a first fast retransmission that checks cwnd would wait for the RTO.
TEST_F(TcpTrap, FirstFastRetransmitIgnoresCwnd) {
    connect();
    for (int i = 0; i < 10; ++i)
        send(1000);
    take_sent();
    const View before = *end.engine.view(conn);
    ASSERT_GE(before.snd_nxt - before.snd_una + 1000, static_cast<std::int32_t>(before.cwnd))
        << "cwnd is full";
    for (int i = 0; i < 3; ++i)
        send_ack(1001);
    EXPECT_TRUE(end.engine.view(conn)->in_recovery);
    EXPECT_NE(take_sent().find("A 1001 5001 +1000"), std::string::npos);
    EXPECT_EQ(end.engine.view(conn)->retries, 0U) << "no timeout was needed";
}

// If the only ACK of a window is lost, only a timer helps, and the RTO is at least 250 ms.
TEST_F(TcpTrap, LostAckOfAWholeWindowCostsATailProbeNotAnRto) {
    connect();
    send(1000);
    send(1000);
    take_sent();
    run(20 * millisecond);
    EXPECT_EQ(take_sent(), "A 2001 5001 +1000") << "the last segment again";
    send_ack(3001);
    run(10 * second);
    EXPECT_EQ(take_sent(), "");
    EXPECT_EQ(end.engine.view(conn)->retries, 0U);
}

// Timers of removed connections must not keep next_deadline() finite.
TEST_F(TcpTrap, NoTimerOutlivesItsConnection) {
    options.keepalive = true;
    connect();
    send(1000);
    EXPECT_TRUE(end.engine.next_deadline());
    end.engine.abort(conn, true);
    EXPECT_FALSE(end.engine.next_deadline());
}

// send() from within acked(): output must wait until the current segment has been processed.
TEST_F(TcpTrap, SendWithinAckedDoesNotReenterOutput) {
    connect();
    bool inside = false;
    end.on_acked = [&](ConnId) {
        inside = true;
        const std::size_t before = sent.size();
        ASSERT_TRUE(send(500));
        EXPECT_EQ(sent.size(), before) << "nothing is sent within a call of the engine";
    };
    send(1000);
    take_sent();
    send_ack(2001);
    EXPECT_TRUE(inside);
    EXPECT_EQ(take_sent(), "A 2001 5001 +500");
}

// The driver programs MSL 0: there is no TIME_WAIT, and a retransmitted FIN is not consumed. The host's stack
// replies to it with RST.
TEST_F(TcpTrap, LateFinAfterTimeWaitOfZeroIsNotConsumed) {
    ASSERT_EQ(end.params.msl, 0U);
    connect();
    end.engine.close(conn);
    send_segment({.flags = flag_fin | flag_ack, .seq = 5001, .ack = 1002});
    EXPECT_EQ(take_sent(), "FA 1001 5001, A 1002 5002");
    EXPECT_EQ(end.finishes, 1U);
    EXPECT_FALSE(send_segment({.flags = flag_fin | flag_ack, .seq = 5001, .ack = 1002}));
}

} // namespace
} // namespace t3sim::tcp::test
