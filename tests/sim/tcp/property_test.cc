// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Two engines over a hostile wire, by seed: loss, duplication, reordering, jitter; random segment sizes,
// windows, options and read patterns. Invariants: both streams arrive complete, no segment exceeds the peer's
// right edge, no edge moves back, a record is cut only if a window requires it, both ends close and leave no
// timer, and the same seed gives the same packets.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/sim/tcp/pair.hh"

namespace t3sim::tcp::test {
namespace {

std::uint8_t pattern(std::size_t i, std::uint64_t salt) {
    return static_cast<std::uint8_t>((i * 2654435761U + salt) >> 7);
}

class Simulation {
public:
    explicit Simulation(unsigned seed) : random_(seed) {}

    void run_all() {
        loss_ = pick(3) == 0 ? 0 : pick(60); // per mille
        duplicate_ = pick(20);
        jitter_ = pick(2) ? pick(400) * microsecond : 0;
        latency_ = (10 + pick(2000)) * microsecond;
        for (Side* s : {&a_, &b_}) {
            s->options = {.mss = static_cast<std::uint16_t>(pick(5) ? 200 + pick(1300) : 60 + pick(9000)),
                          .receive_buffer = static_cast<std::uint32_t>(1000 + pick(100'000)),
                          .window_scale = static_cast<std::uint8_t>(pick(5)),
                          .offer_window_scale = pick(4) != 0,
                          .nagle = pick(4) == 0,
                          .keepalive = pick(3) == 0,
                          .delayed_ack = pick(3) == 0,
                          .congestion_control = pick(6) != 0};
            s->to_send = pick(30'000);
            s->slow_reader = pick(4) == 0;
            s->auto_credit = !s->slow_reader && pick(3) == 0;
            s->end.params.msl = 120 * second; // TIME_WAIT, for a lost last ACK (trap 8 tests MSL 0)
            s->end.params.iss = [iss = static_cast<std::uint32_t>(random_())](const FourTuple&) {
                return iss;
            };
        }
        connect(a_, b_);
        connect(b_, a_);
        b_.end.auto_accept = b_.options;
        b_.end.engine.listen(7, 0, a_to_b.remote_port);
        ASSERT_TRUE(a_.end.engine.open(1, a_to_b, a_.options));
        run(events_, {&a_.end, &b_.end}, 3000 * second);

        for (const Side* s : {&a_, &b_}) {
            EXPECT_FALSE(s->end.abort_reason.has_value());
            EXPECT_EQ(s->end.closes, 1U);
            EXPECT_EQ(s->end.peer_closes, 1U);
            EXPECT_EQ(s->end.finishes, 1U);
            EXPECT_EQ(s->end.engine.connections(), 0U);
            EXPECT_FALSE(s->end.engine.next_deadline().has_value()) << "a timer without connection";
            EXPECT_EQ(std::count(s->end.log.begin(), s->end.log.end(), "gap"), 0);
        }
        check_stream(a_, b_);
        check_stream(b_, a_);
    }
    [[nodiscard]] std::uint64_t hash() const { return hash_; }

private:
    struct Side {
        explicit Side(EventQueue& q, std::uint64_t s) : end(q), salt(s) {}
        End end;
        std::uint64_t salt;
        Options options;
        std::size_t to_send = 0, sent = 0;
        bool slow_reader = false, auto_credit = false;
        std::size_t unread = 0;
        std::optional<Seq> edge;                   // that this side has advertised
        std::map<std::uint32_t, std::size_t> cuts; // sequence number -> length of the unit that starts there
        bool tight = false;                        // the peer's window may have cut units
        std::uint8_t scale = 0;
    };

    unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }

    void connect(Side& me, Side& peer) {
        me.end.consume = !me.slow_reader && !me.auto_credit;
        me.tight = peer.options.receive_buffer < 4U * me.options.mss || peer.slow_reader;
        me.end.wire = [this, &peer](Buffer packet) { carry(peer, std::move(packet)); };
        me.end.on_established = [this, &me](ConnId id) {
            me.scale = me.end.up->window_scaling ? me.options.window_scale : 0;
            if (me.auto_credit)
                me.end.engine.auto_credit(id);
            feed(me, id);
        };
        me.end.on_acked = [this, &me](ConnId id) { feed(me, id); };
        me.end.on_received = [this, &me](ConnId id, Bytes data) {
            if (!me.slow_reader)
                return;
            me.unread += data.size();
            events_.after(pick(3'000) * millisecond, [this, &me, id] {
                const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(me.unread, 1 + pick(6000)));
                me.unread -= n;
                me.end.engine.credit(id, n, pick(2) == 0);
                if (me.unread)
                    me.end.on_received(id, {});
            });
        };
        me.end.on_transmit = [&me, &peer](const Segment& s) { audit(me, peer, s); };
    }

    /// Sends from within established() and acked(): output must not be re-entered (trap 7).
    void feed(Side& me, ConnId id) {
        while (me.sent < me.to_send && me.end.engine.unacknowledged(id) < 20'000) {
            Buffer record(std::min<std::size_t>(me.to_send - me.sent, 1 + pick(3000)));
            for (auto& byte : record)
                byte = pattern(me.sent++, me.salt);
            ASSERT_TRUE(me.end.engine.send(id, std::move(record)));
        }
        if (me.sent == me.to_send) {
            ++me.sent;
            me.end.engine.close(id);
        }
    }

    static void audit(Side& me, const Side& peer, const Segment& s) {
        if (s.has(flag_rst)) {
            ADD_FAILURE() << "RST";
            return;
        }
        if (s.has(flag_ack)) {
            const Seq edge = s.ack + (std::uint32_t{s.window} << (s.has(flag_syn) ? 0 : me.scale));
            if (me.edge) { // by less than a unit of the window field it may: RFC 7323 2.4
                EXPECT_GT(edge - *me.edge, -(1 << me.scale)) << "the edge moved back";
            }
            me.edge = me.edge ? std::max(edge, *me.edge) : edge;
        }
        if (!s.payload.empty()) {
            ASSERT_TRUE(peer.edge.has_value());
            EXPECT_LE(s.seq + s.length() - *peer.edge, 0) << "past the edge";
            const auto [unit, first] = me.cuts.emplace(s.seq.value(), s.payload.size());
            if (!me.tight && !first) {
                EXPECT_EQ(unit->second, s.payload.size()) << "another cut";
            }
        }
    }

    void carry(Side& to, Buffer packet) {
        for (const std::uint8_t byte : packet)
            hash_ = (hash_ ^ byte) * 0x100000001b3U;
        for (unsigned copies = pick(1000) < duplicate_ ? 2 : 1; copies > 0; --copies) {
            if (pick(1000) < loss_)
                continue;
            events_.after(latency_ + (jitter_ ? random_() % jitter_ : 0),
                          [&to, packet] { to.end.engine.input(packet); });
        }
    }

    static void check_stream(const Side& from, const Side& to) {
        ASSERT_EQ(to.end.stream.size(), from.to_send);
        for (std::size_t i = 0; i < from.to_send; ++i)
            ASSERT_EQ(to.end.stream[i], pattern(i, from.salt)) << "at byte " << i;
    }

    std::mt19937 random_;
    EventQueue events_;
    Side a_{events_, 1}, b_{events_, 99};
    unsigned loss_ = 0, duplicate_ = 0;
    Time jitter_ = 0, latency_ = 0;
    std::uint64_t hash_ = 0xcbf29ce484222325U;
};

class HostileWire : public testing::TestWithParam<unsigned> {};

TEST_P(HostileWire, StreamsArriveComplete) {
    constexpr unsigned seeds = 250;
    for (unsigned seed = GetParam() * seeds; seed < (GetParam() + 1) * seeds; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Simulation s(seed);
        s.run_all();
        if (HasFailure())
            return;
    }
}
INSTANTIATE_TEST_SUITE_P(Seeds, HostileWire, testing::Range(0U, 20U));

TEST(HostileWireOnce, SameSeedSamePackets) {
    Simulation one(4242), two(4242);
    one.run_all();
    two.run_all();
    EXPECT_EQ(one.hash(), two.hash());
}

} // namespace
} // namespace t3sim::tcp::test
