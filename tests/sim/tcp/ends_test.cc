// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Two engines, by seed, whose hosts and wire do what ends a connection: refuse, reject, close in any order,
// abort, forget the connection, crash; the wire fails for a while or for ever, replays old packets and
// carries segments of a third party that has guessed the four-tuple. The oracle knows only what each host has
// sent and done:
//
//   - what arrives is a prefix of what was sent, and all of it before the peer's close is reported;
//   - what is acknowledged has arrived, a FIN too;
//   - a reset was sent by the peer; a timeout needs a dead peer, a dead wire, or a peer that does not close;
//   - an orderly end is one at both ends, unless one of them crashes or the wire fails;
//   - nothing is left at the end, neither a connection nor a timer.
//
// T3_TCP_SEEDS=N: so many seeds; T3_TCP_SEED=N: the first.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/sim/tcp/pair.hh"

namespace t3sim::tcp::test {
namespace {

enum class Leaving {
    closes,      // after its data
    closes_last, // after its data, and after the peer has closed
    aborts,      // at some time
    forgets,     // the connection, at some time: the host replies with RST then
    crashes      // at some time: nothing replies
};
constexpr std::size_t leavings = 5;
constexpr ListenId listener = 7;
constexpr Time patience = 1000 * second; ///< of a host, before it closes anyway
constexpr Time horizon = 8000 * second;

class Ends {
public:
    explicit Ends(unsigned seed) : random_(seed) {}

    void run_all() {
        prepare();
        ASSERT_TRUE(a_.end.engine.open(1, a_to_b, a_.options));
        if (simultaneous_)
            ASSERT_TRUE(
                b_.end.engine.open(1, {ip_b, ip_a, a_to_b.remote_port, a_to_b.local_port}, b_.options));
        else if (!refused_)
            b_.end.engine.listen(listener, 0, a_to_b.remote_port);
        run(events_, {&a_.end, &b_.end}, horizon);
        for (Side* me : {&a_, &b_})
            check(*me, me == &a_ ? b_ : a_);
    }
    /// How the two sides have ended, for the count.
    [[nodiscard]] std::string outcome() const { return outcome_of(a_) + ", " + outcome_of(b_); }

private:
    struct Side {
        Side(EventQueue& q, std::uint64_t s) : end(q), salt(s) {}
        End end;
        std::uint64_t salt;
        Options options;
        Leaving leaving = Leaving::closes;
        Time leaves_at = 0;
        std::size_t to_send = 0, sent = 0;
        std::optional<ConnId> id;
        bool slow_reader = false, holds = false;
        std::size_t unread = 0;
        bool closed = false; // by its host
        bool left = false;   // aborted or forgotten by its host
        bool dead = false;   // its host
        bool sent_rst = false;
        std::optional<Time> sent_fin_at;
    };

    unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }
    bool one_in(unsigned n) { return pick(n) == 0; }

    void prepare() {
        loss_ = one_in(3) ? 0 : pick(80); // per mille
        duplicate_ = pick(30);
        jitter_ = one_in(3) ? 0 : pick(2000) * microsecond;
        latency_ = (10 + pick(3000)) * microsecond;
        replay_ = one_in(2) ? 0 : pick(30);
        forge_ = one_in(2) ? 0 : pick(30);
        refused_ = one_in(30);
        rejected_ = one_in(30);
        simultaneous_ = !refused_ && one_in(12);
        if (one_in(5)) {
            fails_at_ = one_in(2) ? pick(50) * millisecond : pick(20'000) * millisecond;
            fails_for_ = one_in(2) ? horizon : pick(300) * second;
            fails_towards_ = pick(3);
        }
        for (Side* me : {&a_, &b_}) {
            me->options = {.mss = static_cast<std::uint16_t>(one_in(4) ? 60 + pick(9000) : 200 + pick(1300)),
                           .receive_buffer = static_cast<std::uint32_t>(1000 + pick(60'000)),
                           .window_scale = static_cast<std::uint8_t>(one_in(8) ? pick(15) : pick(4)),
                           .offer_window_scale = !one_in(4),
                           .nagle = one_in(4),
                           .keepalive = one_in(3),
                           .delayed_ack = one_in(3),
                           .congestion_control = !one_in(6)};
            me->leaving = one_in(2) ? Leaving::closes : static_cast<Leaving>(pick(leavings));
            me->leaves_at = one_in(2) ? pick(100) * millisecond : pick(60'000) * millisecond;
            me->to_send = one_in(4) ? 0 : pick(25'000);
            me->slow_reader = one_in(4);
            me->end.consume = !me->slow_reader;
            me->end.params.msl = one_in(4) ? 0 : 120 * second;
            me->end.params.iss = [iss = static_cast<std::uint32_t>(random_())](const FourTuple&) {
                return iss;
            };
            connect(*me, me == &a_ ? b_ : a_);
        }
    }

    // ---- What hosts do

    void connect(Side& me, Side& peer) {
        me.end.wire = [this, &me, &peer](Buffer packet) {
            const auto s = decode(packet);
            me.sent_rst |= s->has(flag_rst);
            if (s->has(flag_fin) && !me.sent_fin_at)
                me.sent_fin_at = events_.now();
            carry(peer, packet);
        };
        me.end.on_syn = [this, &me](ConnId id) {
            me.end.engine.unlisten(listener); // an old SYN starts no second connection
            events_.after(one_in(3) ? pick(20'000) * millisecond : 0, [this, &me, id] {
                if (rejected_) {
                    me.left = me.end.engine.abort(id, true);
                    return;
                }
                me.end.engine.accept(id, me.options);
            });
        };
        me.end.on_established = [this, &me](ConnId id) {
            me.id = id;
            if (one_in(6))
                me.end.engine.auto_credit(id), me.end.consume = me.slow_reader = false;
            feed(me);
        };
        me.end.on_acked = [this, &me, &peer](ConnId id) {
            const std::size_t acked = std::min(me.sent, me.to_send) - me.end.engine.unacknowledged(id);
            EXPECT_TRUE(peer.holds || acked <= peer.end.stream.size()) << "acknowledged, but not delivered";
            feed(me);
        };
        me.end.on_received = [this, &me, &peer](ConnId id, Bytes data) {
            const std::size_t begin = me.end.stream.size() - data.size();
            EXPECT_LE(me.end.stream.size(), peer.to_send);
            for (std::size_t i = 0; i < data.size(); ++i)
                if (data[i] != byte_of(peer, begin + i)) {
                    ADD_FAILURE() << "another byte than was sent, at " << begin + i;
                    break;
                }
            if (me.slow_reader) {
                me.unread += data.size();
                events_.after(pick(3'000) * millisecond, [this, &me, id] { read_some(me, id); });
            }
            if (one_in(40)) {
                me.holds = true;
                me.end.engine.hold(id, true);
                events_.after(pick(5'000) * millisecond, [&me, id] { me.end.engine.hold(id, false); });
            }
        };
        me.end.on_peer_closed = [this, &me, &peer](ConnId) {
            EXPECT_TRUE(peer.closed) << "a close that the peer has not made";
            EXPECT_EQ(me.end.stream.size(), peer.to_send) << "closed before all data was delivered";
            if (me.leaving == Leaving::closes_last)
                events_.after(pick(2'000) * millisecond, [this, &me] { feed(me); });
        };
        me.end.on_closed = [&me, &peer](ConnId) {
            EXPECT_TRUE(me.closed);
            EXPECT_EQ(peer.end.peer_closes, 1U) << "acknowledged a FIN that was not reported";
        };
        me.end.on_aborted = [this, &me](ConnId id) {
            events_.after(pick(1'000) * millisecond, [&me, id] { me.end.engine.release(id); });
        };
        me.end.can_take = [this, often = one_in(8)] { return !often || !one_in(10); };
        me.end.wire_ready = [this, &me, often = one_in(8)] {
            if (!often || !me.id || !one_in(5))
                return true;
            events_.after(pick(20) * millisecond, [&me] { me.end.engine.resume(*me.id); });
            return false;
        };
        events_.after(me.leaves_at, [this, &me] { leave(me); });
        events_.after(patience, [&me] {
            if (me.id && !me.closed)
                close(me);
        });
    }

    void read_some(Side& me, ConnId id) {
        const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(me.unread, 1 + pick(6000)));
        me.unread -= n;
        me.end.engine.credit(id, n, one_in(2));
        if (me.unread)
            events_.after(pick(3'000) * millisecond, [this, &me, id] { read_some(me, id); });
    }

    void leave(Side& me) {
        const ConnId id = me.id.value_or(1);
        if (me.leaving == Leaving::crashes) {
            me.dead = true;
            me.end.engine.release(id);
        } else if (me.leaving == Leaving::forgets || me.leaving == Leaving::aborts) {
            me.left |= me.end.engine.abort(id, me.leaving == Leaving::aborts);
        }
    }

    static void close(Side& me) {
        me.to_send = me.sent; // what the host has not sent yet, it does not send
        me.closed = me.end.engine.close(*me.id);
    }

    void feed(Side& me) {
        const ConnId id = *me.id;
        while (!me.closed && me.sent < me.to_send && me.end.engine.unacknowledged(id) < 20'000) {
            Buffer record(std::min<std::size_t>(me.to_send - me.sent, 1 + pick(3000)));
            for (std::size_t i = 0; i < record.size(); ++i)
                record[i] = byte_of(me, me.sent + i);
            const std::size_t size = record.size();
            if (!me.end.engine.send(id, std::move(record)))
                return;
            me.sent += size;
        }
        const bool may =
            me.leaving == Leaving::closes || (me.leaving == Leaving::closes_last && me.end.peer_closes);
        if (may && !me.closed && me.sent == me.to_send)
            close(me);
    }

    static std::uint8_t byte_of(const Side& from, std::size_t i) {
        return static_cast<std::uint8_t>((i * 2654435761U + from.salt) >> 7);
    }

    // ---- What the wire does

    [[nodiscard]] bool fails(const Side& to) const {
        return events_.now() >= fails_at_ && events_.now() - fails_at_ < fails_for_ &&
               (fails_towards_ == 2 || (fails_towards_ == 0) == (&to == &a_));
    }

    void carry(Side& to, const Buffer& packet) {
        for (unsigned copies = pick(1000) < duplicate_ ? 2 : 1; copies > 0; --copies)
            if (pick(1000) >= loss_)
                events_.after(latency_ + (jitter_ ? random_() % jitter_ : 0),
                              [this, &to, packet] { deliver(to, packet); });
        if (pick(1000) < replay_)
            events_.after(pick(100'000) * millisecond, [this, &to, packet] { deliver(to, packet); });
        if (pick(1000) < forge_)
            events_.after(pick(10) * millisecond, [this, &to] { forge(to); });
    }
    void deliver(Side& to, const Buffer& packet) {
        if (to.dead || fails(to) || to.end.engine.input(packet))
            return;
        if (const auto rst = reset_reply(packet)) {
            to.sent_rst = true;
            carry(&to == &a_ ? b_ : a_, *rst);
        }
    }

    /// A third party does not know the sequence numbers. What it sends may have a sequence number in the
    /// window, or an acknowledgement of what was sent, but not both, and no RST at the edge.
    void forge(Side& to) {
        const auto v = to.end.engine.view(to.id.value_or(1));
        if (to.dead || !v)
            return;
        const auto window = static_cast<std::uint32_t>(std::max(1, v->rcv_adv - v->rcv_nxt));
        const Seq in_window = v->rcv_nxt + 1 + pick(window), outside = v->rcv_adv + 1 + pick(1U << 30);
        const Seq not_sent = v->snd_max + 1 + pick(1U << 30),
                  long_ago = v->snd_una - (1U << 30) - 1 - pick(1U << 29);
        const Buffer data(pick(100), 'f');
        Segment s{.tuple = &to == &a_ ? FourTuple{ip_b, ip_a, a_to_b.remote_port, a_to_b.local_port} : a_to_b,
                  .window = static_cast<std::uint16_t>(random_()),
                  .payload = data};
        switch (pick(6)) {
        case 0:
            s.flags = flag_rst, s.seq = in_window;
            break;
        case 1:
            s.flags = flag_rst, s.seq = outside;
            break;
        case 2:
            if (v->state < State::established)
                return; // a SYN for SYN_SENT is a simultaneous open
            s.flags = flag_syn, s.seq = one_in(2) ? in_window : outside, s.payload = {};
            break;
        case 3:
            s.flags = flag_ack | flag_fin, s.seq = one_in(2) ? v->rcv_nxt : in_window, s.ack = not_sent;
            break;
        case 4:
            s.flags = flag_ack | flag_fin, s.seq = one_in(2) ? v->rcv_nxt : in_window, s.ack = long_ago;
            break;
        default:
            s.flags = flag_ack | flag_fin, s.seq = outside, s.ack = v->snd_max;
        }
        const Headers h = encode(s, 1, 64);
        Buffer packet(h.bytes.begin(), h.bytes.begin() + static_cast<std::ptrdiff_t>(h.size));
        packet.insert(packet.end(), s.payload.begin(), s.payload.end());
        to.end.engine.input(packet);
    }

    // ---- The oracle, at the end

    void check(const Side& me, const Side& peer) {
        SCOPED_TRACE(&me == &a_ ? "a" : "b");
        EXPECT_EQ(me.end.engine.connections(), 0U) << "a connection has not ended";
        EXPECT_EQ(me.end.engine.established(), 0U);
        EXPECT_FALSE(me.end.engine.next_deadline().has_value()) << "a timer without connection";
        EXPECT_EQ(std::count(me.end.log.begin(), me.end.log.end(), "gap"), 0);
        EXPECT_LE(me.end.finishes + (me.end.abort_reason ? 1U : 0U), 1U);
        const bool lost = fails_for_ != 0 || peer.dead || me.dead;
        if (me.end.finishes) {
            EXPECT_EQ(me.end.closes, 1U);
            EXPECT_EQ(me.end.peer_closes, 1U);
            // MSL 0: a lost last ACK is not repeated, and the peer's FIN is answered with RST.
            EXPECT_TRUE(peer.end.finishes || lost || peer.left || me.end.params.msl == 0)
                << "an orderly end at one side only";
        }
        if (!me.end.abort_reason) {
            EXPECT_TRUE(me.end.finishes || lost || me.left || !me.id) << "no end";
            return;
        }
        switch (*me.end.abort_reason) {
        case AbortReason::reset:
            EXPECT_TRUE(peer.sent_rst) << "a reset that the peer has not sent";
            break;
        case AbortReason::fin_wait_2_timeout:
            EXPECT_TRUE(lost || peer.left || !peer.sent_fin_at ||
                        *peer.sent_fin_at - *me.sent_fin_at > me.end.params.fin_wait_2 / 2)
                << "the peer has closed in time";
            break;
        default:
            EXPECT_TRUE(lost || peer.left || peer.end.abort_reason)
                << "a timeout, but the peer and the wire live";
        }
    }

    static std::string outcome_of(const Side& me) {
        constexpr std::array reasons{"reset",           "SYN timeout",        "timeout",
                                     "persist timeout", "FIN_WAIT_2 timeout", "keepalive timeout"};
        if (me.dead)
            return "dead";
        if (me.left)
            return "left";
        if (me.end.abort_reason)
            return reasons[static_cast<std::size_t>(*me.end.abort_reason)];
        return me.end.finishes ? "closed" : "nothing";
    }

    std::mt19937 random_;
    EventQueue events_;
    Side a_{events_, 1}, b_{events_, 99};
    unsigned loss_ = 0, duplicate_ = 0, replay_ = 0, forge_ = 0, fails_towards_ = 0;
    Time jitter_ = 0, latency_ = 0, fails_at_ = 0, fails_for_ = 0;
    bool refused_ = false, rejected_ = false, simultaneous_ = false;
};

TEST(TcpEnds, EveryConnectionEndsAndBothSidesAgree) {
    const auto option = [](const char* name, unsigned otherwise) {
        const char* const value = std::getenv(name);
        return value ? static_cast<unsigned>(std::atoi(value)) : otherwise;
    };
    const unsigned first = option("T3_TCP_SEED", 0), seeds = option("T3_TCP_SEEDS", 4000);
    std::map<std::string, unsigned> outcomes;
    for (unsigned seed = first; seed < first + seeds; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Ends ends(seed);
        ends.run_all();
        ++outcomes[ends.outcome()];
        if (HasFailure())
            break;
    }
    for (const auto& [outcome, count] : outcomes)
        std::printf("%6u %s\n", count, outcome.c_str());
}

} // namespace
} // namespace t3sim::tcp::test
