// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Every synchronized state against every kind of segment, and the ways into and out of the states.
#include "tests/sim/hostile/effort.hh"
#include "tests/sim/tcp/script.hh"

namespace t3sim::tcp::test {
namespace {

constexpr State synchronized[] = {State::established, State::fin_wait_1, State::fin_wait_2, State::close_wait,
                                  State::closing,     State::last_ack,   State::time_wait};
constexpr const char* names[] = {"ESTABLISHED", "FIN_WAIT_1", "FIN_WAIT_2", "CLOSE_WAIT",
                                 "CLOSING",     "LAST_ACK",   "TIME_WAIT"};

/// The numbers of a connection that has been brought into a state.
struct Numbers {
    std::uint32_t snd_nxt, snd_una, rcv_nxt;
};

class TcpState : public Script {
protected:
    /// Both ends scale their windows.
    void connect_with_scale() {
        options.window_scale = 6;
        options.offer_window_scale = true;
        open();
        send_segment(
            {.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .mss = 1000, .scale = std::uint8_t{6}});
    }

    Numbers enter(State wanted) {
        end.params.msl = 30 * second;
        connect();
        const auto fin = [&](std::uint32_t ack) {
            send_segment({.flags = flag_fin | flag_ack, .seq = 5001, .ack = ack});
        };
        switch (wanted) {
        case State::fin_wait_1:
            end.engine.close(conn);
            break;
        case State::fin_wait_2:
            end.engine.close(conn);
            send_ack(1002);
            break;
        case State::close_wait:
            fin(1001);
            break;
        case State::closing:
            end.engine.close(conn);
            fin(1001);
            break;
        case State::last_ack:
            fin(1001);
            end.engine.close(conn);
            break;
        case State::time_wait:
            end.engine.close(conn);
            fin(1002);
            break;
        default:
            break;
        }
        EXPECT_EQ(state(), wanted);
        take_sent();
        end.log.clear();
        const View v = *end.engine.view(conn);
        return {v.snd_nxt.value(), v.snd_una.value(), v.rcv_nxt.value()};
    }
    static std::string ack(const Numbers& n) {
        return "A " + std::to_string(n.snd_nxt) + ' ' + std::to_string(n.rcv_nxt);
    }
};

class TcpEveryState : public TcpState, public testing::WithParamInterface<unsigned> {
protected:
    State entered = synchronized[GetParam()];
};
INSTANTIATE_TEST_SUITE_P(All, TcpEveryState, testing::Range(0U, 7U),
                         [](const auto& p) { return std::string(names[p.param]); });

TEST_P(TcpEveryState, SynInTheWindowIsChallenged) { // RFC 5961 4
    const Numbers n = enter(entered);               // without a listener: TIME_WAIT accepts no SYN
    send_segment({.flags = flag_syn, .seq = n.rcv_nxt + 10});
    EXPECT_EQ(take_sent(), ack(n));
    EXPECT_EQ(state(), entered);
}

TEST_P(TcpEveryState, ExactRstAbortsInexactIsChallengedFarIsDropped) { // RFC 5961 3
    const Numbers n = enter(entered);
    send_segment({.flags = flag_rst, .seq = n.rcv_nxt + 200'000});
    send_segment({.flags = flag_rst, .seq = n.rcv_nxt - 2});
    EXPECT_EQ(take_sent(), "");
    send_segment({.flags = flag_rst, .seq = n.rcv_nxt + 1});
    EXPECT_EQ(take_sent(), ack(n));
    EXPECT_EQ(state(), entered);
    send_segment({.flags = flag_rst, .seq = n.rcv_nxt});
    EXPECT_EQ(state(), entered == State::time_wait ? State::time_wait : State::aborted);
    EXPECT_EQ(end.abort_reason.has_value(), entered != State::time_wait);
    EXPECT_EQ(take_sent(), "");
}

TEST_P(TcpEveryState, AckOfWhatWasNeverSentIsChallenged) { // RFC 5961 5
    const Numbers n = enter(entered);
    send_segment({.seq = n.rcv_nxt, .ack = n.snd_nxt + 1, .data = "evil"});
    EXPECT_EQ(take_sent(), ack(n));
    send_segment({.seq = n.rcv_nxt, .ack = n.snd_una - 100'000, .data = "evil"});
    EXPECT_EQ(take_sent(), ack(n));
    EXPECT_TRUE(end.stream.empty());
    EXPECT_EQ(state(), entered);
}

TEST_P(TcpEveryState, SegmentWithoutAckIsDropped) {
    const Numbers n = enter(entered);
    send_segment({.flags = 0, .seq = n.rcv_nxt, .data = "evil"});
    send_segment({.flags = flag_fin, .seq = n.rcv_nxt});
    EXPECT_EQ(take_sent(), "");
    EXPECT_EQ(state(), entered);
}

TEST_P(TcpEveryState, DataOutsideTheWindowGetsACorrectAck) {
    const Numbers n = enter(entered);
    send_segment({.seq = n.rcv_nxt + 100'000, .ack = n.snd_una, .data = "right"});
    EXPECT_EQ(take_sent(), ack(n));
    send_segment({.seq = n.rcv_nxt - 10, .ack = n.snd_una, .data = "left"});
    EXPECT_EQ(take_sent(), ack(n));
    EXPECT_TRUE(end.stream.empty());
}

TEST_P(TcpEveryState, DataInTheWindowCountsUntilThePeersFin) {
    const Numbers n = enter(entered);
    send_segment({.seq = n.rcv_nxt, .ack = n.snd_una, .data = "data"});
    const bool open = entered <= State::fin_wait_2;
    EXPECT_EQ(end.stream.size(), open ? 4U : 0U);
    EXPECT_EQ(take_sent(), ack({n.snd_nxt, n.snd_una, n.rcv_nxt + (open ? 4 : 0)}));
}

TEST_P(TcpEveryState, FinIsProcessedOnceAndAcknowledged) {
    const Numbers n = enter(entered);
    const bool open = entered <= State::fin_wait_2;
    const std::uint32_t fin_seq = open ? n.rcv_nxt : n.rcv_nxt - 1;
    for (int i = 0; i < 2; ++i) {
        send_segment({.flags = flag_fin | flag_ack, .seq = fin_seq, .ack = n.snd_una});
        EXPECT_EQ(take_sent(), "A " + std::to_string(n.snd_nxt) + ' ' + std::to_string(fin_seq + 1));
    }
    EXPECT_EQ(end.peer_closes, 1U);
    const std::map<State, State> next{{State::established, State::close_wait},
                                      {State::fin_wait_1, State::closing},
                                      {State::fin_wait_2, State::time_wait}};
    EXPECT_EQ(state(), next.contains(entered) ? next.at(entered) : entered);
}

TEST_P(TcpEveryState, SendAndClose) {
    enter(entered);
    const bool may_send = entered == State::established || entered == State::close_wait;
    EXPECT_EQ(send(1), may_send);
    EXPECT_EQ(end.engine.close(conn), may_send);
    EXPECT_FALSE(send(1)) << "not after a FIN";
    EXPECT_FALSE(end.engine.close(conn));
}

TEST_P(TcpEveryState, AbortSendsRstAndRemoves) {
    const Numbers n = enter(entered);
    EXPECT_TRUE(end.engine.abort(conn, true));
    EXPECT_EQ(take_sent(), entered == State::time_wait ? "" : "R" + ack(n));
    EXPECT_EQ(end.engine.connections(), 0U);
    EXPECT_FALSE(send_segment({.seq = n.rcv_nxt, .ack = n.snd_nxt}));
    EXPECT_FALSE(end.engine.next_deadline());
}

// ---- Opening --------------------------------------------------------------------------------------------

TEST_F(TcpState, SynSentIgnoresUnacceptableSegments) {
    open();
    send_segment({.flags = flag_ack, .seq = 5000, .ack = 1001});
    EXPECT_EQ(take_sent(), "") << "an ACK alone is ignored";
    send_segment({.flags = flag_rst, .seq = 5000});
    EXPECT_EQ(state(), State::syn_sent) << "a RST without ACK is a guess";
    send_segment({.flags = flag_rst | flag_ack, .seq = 5000, .ack = 999});
    EXPECT_EQ(state(), State::syn_sent);
    send_segment({.flags = flag_ack, .seq = 5000, .ack = 4711});
    EXPECT_EQ(take_sent(), "R 4711") << "half-open connection discovered";
    send_segment({.flags = flag_rst | flag_ack, .seq = 5000, .ack = 1001});
    EXPECT_EQ(end.abort_reason, AbortReason::reset);
}

TEST_F(TcpState, SynReceivedResetsAWrongAck) {
    end.engine.listen(3, 0, 50000);
    send_segment({.flags = flag_syn, .seq = 5000});
    EXPECT_EQ(take_sent(), "") << "held";
    ASSERT_TRUE(end.engine.accept(1, options));
    EXPECT_EQ(take_sent(), "SA 1000 5001");
    send_ack(1002);
    EXPECT_EQ(take_sent(), "R 1002");
    EXPECT_EQ(state(), State::syn_received);
    send_ack(1001);
    EXPECT_EQ(state(), State::established);
}

TEST_F(TcpState, HeldSynIsRefusedWithRst) {
    end.engine.listen(3, ip_a, 50000);
    send_segment({.flags = flag_syn, .seq = 5000});
    EXPECT_TRUE(end.engine.abort(1, true));
    EXPECT_EQ(take_sent(), "RA 0 5001");
}

TEST_F(TcpState, DroppedSynLeavesNothingBehind) {
    end.engine.listen(3, 0, 50000);
    end.refuse_syns = true;
    EXPECT_TRUE(send_segment({.flags = flag_syn, .seq = 5000}));
    EXPECT_EQ(end.engine.connections(), 0U);
    end.engine.unlisten(3);
    EXPECT_FALSE(send_segment({.flags = flag_syn, .seq = 5000}));
}

TEST_F(TcpState, ListenersTakeSynsOnly) {
    end.engine.listen(3, 0, 50000);
    for (const int flags :
         {0 + flag_ack, flag_syn | flag_ack, 0 + flag_rst, 0 + flag_fin, flag_syn | flag_rst})
        EXPECT_FALSE(send_segment({.flags = static_cast<std::uint8_t>(flags), .seq = 5000, .ack = 1}));
}

TEST_F(TcpState, TheOldestListenerOfAnAddressAcceptsAndASpecificAddressFirst) {
    for (const ListenId id : {5U, 4U, 3U})
        end.engine.listen(id, 0, 50000);
    end.engine.listen(5, 0, 50001); // its entry is overwritten
    end.refuse_syns = true;
    send_segment({.flags = flag_syn, .seq = 5000});
    end.engine.listen(6, ip_a, 50000);
    send_segment({.flags = flag_syn, .seq = 5000});
    end.engine.unlisten(6);
    end.engine.unlisten(4);
    send_segment({.flags = flag_syn, .seq = 5000});
    EXPECT_EQ(end.asked, (std::vector<ListenId>{4, 6, 3}));
}

// A host may program 16,000 servers; the card reads 1,600 requests of a ring in one event.
TEST_F(TcpState, AListenerIsReplacedWithoutASearch) {
    constexpr ListenId listeners = 16'000, requests = 1600;
    for (ListenId id = 0; id < listeners; ++id)
        end.engine.listen(id, 0, static_cast<std::uint16_t>(id + 1));
    const auto run = [&] {
        t3sim::test::Effort effort;
        for (ListenId id = 0; id < requests; ++id) {
            end.engine.unlisten(id);
            end.engine.listen(id, 0, static_cast<std::uint16_t>(id + 1));
        }
        effort.action_ends();
        return effort;
    };
    EXPECT_EQ(t3sim::test::Effort::excess_each_time(run), "");
}

TEST_F(TcpState, WindowScalingNeedsBothSides) {
    options.window_scale = 3;
    options.receive_buffer = 256 << 10;
    open();
    send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .mss = 1000});
    EXPECT_FALSE(end.up->window_scaling);
    EXPECT_EQ(sent.back().window, 0xffff);
    send(10);
    EXPECT_EQ(sent.back().window, 0xffff);
}

TEST_F(TcpState, MssIsTheSmallerOneWithAMinimum) {
    open();
    send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .mss = 0});
    EXPECT_EQ(end.up->mss, 48);
}

TEST_F(TcpState, SequenceNumbersWrap) {
    end.params.iss = [](const FourTuple&) { return 0xfffffff0U; };
    ASSERT_TRUE(end.engine.open(conn, a_to_b, options));
    send_segment({.flags = flag_syn | flag_ack, .seq = 0xffffffff, .ack = 0xfffffff1, .mss = 1000});
    send(1000);
    send_segment({.seq = 0, .ack = 0xfffffff1 + 1000, .data = "over the wrap"});
    EXPECT_EQ(end.stream.size(), 13U);
    EXPECT_EQ(end.engine.unacknowledged(conn), 0U);
}

TEST_F(TcpState, OneFourTupleOneConnection) {
    open();
    EXPECT_FALSE(end.engine.open(2, a_to_b, options));
    FourTuple other = a_to_b;
    ++other.local_port;
    EXPECT_FALSE(end.engine.open(conn, other, options)) << "the id is in use";
    EXPECT_TRUE(end.engine.open(2, other, options));
}

// ---- Closing --------------------------------------------------------------------------------------------

TEST_F(TcpState, TimeWaitEndsAndRestartsWithEachFin) {
    const Numbers n = enter(State::time_wait);
    run(50 * second);
    send_segment({.flags = flag_fin | flag_ack, .seq = n.rcv_nxt - 1, .ack = n.snd_nxt});
    run(50 * second);
    EXPECT_EQ(end.finishes, 0U);
    run(20 * second);
    EXPECT_EQ(end.finishes, 1U);
    EXPECT_FALSE(end.engine.next_deadline());
}

TEST_F(TcpState, TimeWaitAcceptsALaterSyn) {
    const Numbers n = enter(State::time_wait);
    end.engine.listen(3, 0, 50000);
    end.next_id = 2;
    EXPECT_TRUE(send_segment({.flags = flag_syn, .seq = n.rcv_nxt + 1000}));
    EXPECT_EQ(end.log, (std::vector<std::string>{"finished", "syn"}));
    EXPECT_EQ(end.engine.view(2)->state, State::syn_held);
}

TEST_F(TcpState, AbortedConnectionConsumesSegmentsUntilReleased) {
    const Numbers n = enter(State::established);
    send_segment({.flags = flag_rst, .seq = n.rcv_nxt});
    EXPECT_TRUE(send_segment({.seq = n.rcv_nxt, .ack = n.snd_nxt, .data = "x"}));
    EXPECT_EQ(take_sent(), "");
    EXPECT_TRUE(end.engine.release(conn));
    EXPECT_FALSE(send_segment({.seq = n.rcv_nxt, .ack = n.snd_nxt, .data = "x"}));
}

TEST_F(TcpState, AbortFromWithinACallback) {
    connect();
    end.on_received = [&](ConnId id, Bytes) { end.engine.abort(id, true); };
    send_segment({.flags = flag_ack | flag_fin, .seq = 5001, .ack = 1001, .data = "poison"});
    EXPECT_EQ(take_sent(), "RA 1001 5007");
    EXPECT_EQ(end.peer_closes, 0U);
}

TEST_F(TcpState, HalfCloseCarriesDataTheOtherWay) {
    connect();
    send_segment({.flags = flag_fin | flag_ack, .seq = 5001, .ack = 1001});
    take_sent();
    ASSERT_TRUE(send(700));
    EXPECT_EQ(take_sent(), "A 1001 5002 +700");
}

/// Of a connection that ends, or whose engine is not used any more: 512 blocks of the heap in one element.
TEST_F(TcpState, DataThatWaitsIsFreedInParts) {
    std::function<bool()> table;
    end.on_discard = [&](std::function<bool()> drop_one) { table = std::move(drop_one); };
    for (const bool reset : {false, true})
        for (const bool held : {false, true}) {
            SCOPED_TRACE(std::to_string(reset) + ' ' + std::to_string(held));
            options.receive_buffer = 200'000;
            connect_with_scale();
            end.engine.hold(conn, held);
            const std::size_t before = end.engine.memory().receiving;
            for (std::uint32_t n = 0; n < 180; ++n) // in order, or each behind a hole
                send_segment({.seq = 5001 + n * 1000 + (held ? 0U : 1U),
                              .ack = 1001,
                              .data = std::string(held ? 1000 : 1, 'x')});
            ASSERT_GT(end.engine.memory().receiving, before);
            if (!reset) {
                end.engine.abort(conn, false);
                EXPECT_EQ(end.engine.memory().receiving, 0U);
            }
            ASSERT_TRUE(reset || table);
            unsigned parts = 1;
            while (reset ? end.engine.drop_one() : table())
                ++parts;
            EXPECT_GE(parts, held ? 180U * 1000 / 2 / Engine::drained_at_a_time : 180U);
            table = {};
            take_sent();
        }
}

/// A receive buffer of 16 MiB that was filled with FPDUs of 20 bytes took 21 ms; 64 KiB of them took 18 ms if
/// each was the first access to two pages. One event delivers no more than a jumbo frame can bring.
TEST_F(TcpState, DataThatWaitsIsDeliveredInParts) {
    static_assert(Engine::drained_at_a_time <= 9'000);
    options.receive_buffer = 1 << 20;
    std::size_t in_action = 0;
    end.on_received = [&](ConnId, Bytes data) { in_action += data.size(); };
    for (const bool held : {false, true}) {
        if (!held) // behind a hole
            connect_with_scale();
        else
            end.engine.hold(conn, true);
        const auto first = 5001 + static_cast<std::uint32_t>(end.stream.size());
        constexpr std::uint32_t segments = 500, size = 1000;
        for (std::uint32_t n = held ? 0 : 1; n < segments; ++n)
            send_segment({.seq = first + n * size, .ack = 1001, .data = std::string(size, 'x')});
        ASSERT_EQ(in_action, 0U);
        if (held)
            end.engine.hold(conn, false);
        else
            send_segment({.seq = first, .ack = 1001, .data = std::string(size, 'x')});
        unsigned actions = 0;
        for (; in_action != 0 && actions < 100; ++actions) {
            EXPECT_LE(std::exchange(in_action, 0), Engine::drained_at_a_time + size);
            if (actions == 2) // one more behind those that wait
                send_segment({.flags = static_cast<std::uint8_t>(held ? flag_ack | flag_fin : flag_ack),
                              .seq = first + segments * size,
                              .ack = 1001,
                              .data = "more"});
            const bool all = end.stream.size() == first - 5001 + segments * size + 4;
            EXPECT_LE(end.peer_closes, all ? 1U : 0U);
            run(1);
        }
        EXPECT_GE(actions, 8U);
        EXPECT_EQ(end.stream.size(), first - 5001 + segments * size + 4);
        EXPECT_EQ(end.peer_closes, held ? 1U : 0U);
        EXPECT_EQ(std::ranges::count(end.log, "gap"), 0);
        EXPECT_EQ(end.engine.memory().receiving, 0U);
    }
}

/// 256 connections that one request of the host released delivered 16 MiB in one event.
/// A guest can make a frame of 16 KB.
TEST_F(TcpState, ALongSegmentIsDeliveredInParts) {
    options.receive_buffer = 1 << 20;
    connect_with_scale();
    std::vector<std::size_t> parts;
    end.on_received = [&](ConnId, Bytes data) { parts.push_back(data.size()); };
    constexpr std::size_t size = 16'000, first = Engine::delivered_at_once;
    send_segment({.flags = flag_ack | flag_fin, .seq = 5001, .ack = 1001, .data = std::string(size, 'x')});
    EXPECT_EQ(parts, std::vector{first});
    EXPECT_EQ(end.peer_closes, 0U);
    run(1);
    EXPECT_EQ(parts, (std::vector{first, size - first}));
    EXPECT_EQ(end.stream.size(), size);
    EXPECT_EQ(end.peer_closes, 1U);
}

TEST_F(TcpState, DataOfManyConnectionsIsDeliveredInParts) {
    constexpr ConnId connections = 8;
    constexpr std::uint32_t segments = 6, size = 1000;
    std::map<ConnId, std::size_t> received;
    std::size_t in_action = 0;
    end.on_received = [&](ConnId id, Bytes data) {
        received[id] += data.size();
        in_action += data.size();
    };
    FourTuple tuple = a_to_b;
    for (ConnId id = 1; id <= connections; ++id, ++tuple.local_port) {
        const std::uint16_t to = tuple.local_port;
        ASSERT_TRUE(end.engine.open(id, tuple, options));
        send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .mss = 1000, .to = to});
        end.engine.hold(id, true);
        for (std::uint32_t n = 0; n < segments; ++n)
            send_segment({.seq = 5001 + n * size, .ack = 1001, .data = std::string(size, 'x'), .to = to});
        send_segment({.flags = flag_fin | flag_ack, .seq = 5001 + segments * size, .ack = 1001, .to = to});
    }
    ASSERT_EQ(in_action, 0U);
    for (int again = 0; again < 2; ++again) // one that is released twice gets no more
        for (ConnId id = 1; id <= connections; ++id) {
            end.engine.hold(id, true);
            end.engine.hold(id, false);
        }
    EXPECT_EQ(received.size(), 2U) << "all of the first one, the beginning of the second";
    EXPECT_EQ(end.peer_closes, 1U);
    unsigned actions = 0;
    for (; in_action != 0; ++actions) {
        EXPECT_LE(std::exchange(in_action, 0), Engine::drained_at_a_time + size);
        if (const auto next = end.engine.next_deadline())
            events.advance(std::max(events.now(), *next));
        end.engine.advance();
    }
    EXPECT_GT(actions, connections * segments * size / Engine::drained_at_a_time);
    for (ConnId id = 1; id <= connections; ++id) {
        EXPECT_EQ(received[id], segments * size);
        EXPECT_EQ(end.engine.view(id)->state, State::close_wait);
    }
    EXPECT_EQ(end.peer_closes, connections);
    EXPECT_EQ(end.engine.memory().receiving, 0U);
}

TEST_F(TcpState, HeldDataAndFinWaitForRelease) {
    connect();
    end.engine.hold(conn, true);
    send_segment({.flags = flag_fin | flag_ack, .seq = 5001, .ack = 1001, .data = "later"});
    EXPECT_EQ(end.log, std::vector<std::string>{"established"});
    EXPECT_TRUE(end.stream.empty());
    end.engine.hold(conn, false);
    EXPECT_EQ(end.stream.size(), 5U);
    EXPECT_EQ(end.peer_closes, 1U);
}

} // namespace
} // namespace t3sim::tcp::test
