// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/wire.hh"

#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/sim/net/recording_end.hh"

namespace t3sim {
namespace {

struct WireTest : testing::Test {
    WireTest() {
        wire.attach(a, "a.0");
        wire.attach(b, "b.0");
    }
    void settle() { queue.advance(queue.now()); }

    EventQueue queue;
    Wire wire{queue, "w"};
    RecordingEnd a{queue}, b{queue}, c{queue};
};

TEST_F(WireTest, DeliversToTheOtherEndLaterAndInOrder) {
    wire.send(a, numbered(1));
    wire.send(a, numbered(2));
    EXPECT_TRUE(b.frames.empty()) << "never from within send()";
    settle();
    EXPECT_EQ(b.frames, (Frames{numbered(1), numbered(2)}));
    EXPECT_TRUE(a.frames.empty()) << "no echo";
}

/// An end that notes where bursts begin and end.
struct BurstEnd : RecordingEnd {
    using RecordingEnd::RecordingEnd;
    void frame_in(Bytes) override { events += '.'; }
    [[nodiscard]] bool takes_bursts() const override { return takes; }
    void burst(bool on) override { events += on ? '(' : ')'; }
    std::string events;
    bool takes = true;
};

struct WireBurst : testing::Test {
    WireBurst() {
        wire.attach(a, "a.0");
        wire.attach(b, "b.0");
    }
    /// What the receiver gets.
    std::string sent(std::uint32_t frames = 3) {
        for (std::uint32_t number = 0; number < frames; ++number)
            wire.send(a, numbered(number));
        queue.advance(queue.now());
        return std::exchange(b.events, {});
    }
    EventQueue queue;
    Wire wire{queue, "w"};
    BurstEnd a{queue}, b{queue};
};

TEST_F(WireBurst, TheFramesOfATurnAreABurst) {
    EXPECT_EQ(sent(), "(...)");
    EXPECT_EQ(sent(1), ".");
}

TEST_F(WireBurst, BothEndsMustTakeIt) {
    for (BurstEnd* end : {&a, &b}) {
        end->takes = false;
        EXPECT_EQ(sent(), "...");
        end->takes = true;
    }
    EXPECT_EQ(sent(), "(...)");
}

TEST_F(WireBurst, FramesThatAreObservedAreNone) {
    struct : WireObserver {
        void frame(unsigned, Bytes, std::string_view) override {}
    } observer;
    wire.add_observer(observer);
    EXPECT_EQ(sent(), "...");
    wire.remove_observer(observer);
    wire.compute_sums(true);
    EXPECT_EQ(sent(), "...");
    wire.compute_sums(false);
    EXPECT_EQ(sent(), "(...)");
    wire.impair(1, {});
    EXPECT_EQ(sent(), "...") << "the replies are impaired";
}

TEST_F(WireBurst, AnObserverSeesTheRepliesToFramesThatWaitForDelivery) {
    struct : WireObserver {
        void frame(unsigned, Bytes, std::string_view) override {}
    } observer;
    wire.send(a, numbered(1));
    wire.add_observer(observer);
    EXPECT_EQ(sent(), "....");
    wire.remove_observer(observer);
}

TEST_F(WireBurst, AHubHasNone) {
    BurstEnd third{queue};
    wire.attach(third, "c.0");
    EXPECT_EQ(sent(), "...");
}

TEST_F(WireTest, MoreThanTwoEndsMakeAHub) {
    wire.attach(c, "c.0");
    wire.send(b, numbered(7));
    settle();
    EXPECT_EQ(a.frames.size(), 1U);
    EXPECT_EQ(c.frames.size(), 1U);
    EXPECT_TRUE(b.frames.empty());
}

/// The work of one event does not grow with the number of receivers, each of which may make a frame
/// expensive.
TEST_F(WireTest, AFrameOnAHubCountsOnceForEachReceiver) {
    const auto frames_of_one_event = [this] {
        b.frames.clear();
        for (std::uint32_t number = 0; number < 16; ++number)
            wire.send(a, numbered(number));
        queue.run_due(0, [this] { return b.frames.empty(); });
        const auto count = b.frames.size();
        settle();
        EXPECT_EQ(b.frames.size(), 16U);
        return count;
    };
    const auto alone = frames_of_one_event();
    wire.attach(c, "c.0");
    EXPECT_EQ(frames_of_one_event(), (alone + 1) / 2);
}

/// What it costs is the choice of its receivers: each has it in a turn of its own.
TEST_F(WireTest, ALongFrameHasATurnForEachReceiver) {
    wire.attach(c, "c.0");
    wire.send(a, numbered(1));
    wire.send(a, numbered(2, 9000));
    wire.send(a, numbered(3));
    queue.run_due(0, [this] { return b.frames.empty(); });
    EXPECT_EQ(b.frames.size(), 1U);
    EXPECT_EQ(c.frames.size(), 1U);
    queue.run_due(0, [this] { return b.frames.size() == 1; });
    EXPECT_EQ(b.frames.size(), 2U);
    EXPECT_EQ(c.frames.size(), 1U);
    settle();
    EXPECT_EQ(b.frames.size(), 3U);
    EXPECT_EQ(c.frames, b.frames);
}

TEST_F(WireTest, ACableThatIsPulledLosesAFrameForTheReceiversThatDoNotHaveIt) {
    wire.attach(c, "c.0");
    wire.send(a, numbered(1, 9000));
    queue.run_due(0, [this] { return b.frames.empty(); });
    EXPECT_EQ(c.frames.size(), 0U);
    wire.set_up(false);
    settle();
    EXPECT_EQ(c.frames.size(), 0U);
    EXPECT_EQ(wire.statistics().lost_down, 1U);
}

/// Sends a frame from within frame_in(), as a card may.
struct Echo : RecordingEnd {
    Echo(const EventQueue& queue, Wire& wire) : RecordingEnd(queue), wire(wire) {}
    void frame_in(Bytes frame) override {
        ASSERT_FALSE(inside) << "re-entered";
        inside = true;
        RecordingEnd::frame_in(frame);
        if (frames.size() < 5)
            wire.send(*this, frame);
        inside = false;
    }
    Wire& wire;
    bool inside = false;
};

TEST(Wire, SendsWithinFrameInDoNotReenter) {
    EventQueue queue;
    Wire wire(queue, "w");
    Echo left(queue, wire), right(queue, wire);
    wire.attach(left, "l");
    wire.attach(right, "r");
    wire.send(left, numbered(1));
    queue.advance(0);
    EXPECT_EQ(left.frames.size() + right.frames.size(), 9U);
}

TEST_F(WireTest, BothEndsDeliverTheSameNumberOfBytes) {
    constexpr std::size_t small = 100, large = 60;
    for (std::uint32_t n = 0; n < large; ++n)
        wire.send(a, numbered(n, 1514));
    for (std::uint32_t n = 0; n < small; ++n)
        wire.send(b, numbered(n, 60));
    queue.run_due(0, [this] { return a.frames.size() < small; });
    EXPECT_LT(b.frames.size(), large) << "as many frames";
    EXPECT_GT(b.frames.size(), 10U);
}

TEST_F(WireTest, UnpluggingLosesFramesInFlight) {
    EXPECT_EQ(b.carriers, (std::vector<bool>{true}));
    wire.impair(0, {.delay = 1000});
    wire.send(a, numbered(1));
    wire.set_up(false);
    wire.send(a, numbered(2));
    wire.set_up(true);
    wire.send(a, numbered(3));
    queue.advance(5000);
    EXPECT_EQ(b.frames, (Frames{numbered(3)})) << "not even after the cable is back";
    EXPECT_EQ(b.carriers, (std::vector<bool>{true, false, true}));
    EXPECT_EQ(wire.statistics().lost_down, 2U);
    wire.set_up(true);
    EXPECT_EQ(b.carriers.size(), 3U) << "no event without a change";
}

TEST_F(WireTest, EndAttachedToADownWireHasNoCarrier) {
    wire.set_up(false);
    wire.attach(c, "c.0");
    EXPECT_EQ(c.carriers, (std::vector<bool>{false}));
}

TEST_F(WireTest, UnattachedEndpointsMayNotSend) {
    EXPECT_THROW(wire.send(c, numbered(1)), std::logic_error);
}

TEST_F(WireTest, ImpairsOneDirectionOnly) {
    wire.impair(0, {.loss = 1});
    wire.send(a, numbered(1));
    wire.send(b, numbered(2));
    settle();
    EXPECT_TRUE(b.frames.empty());
    EXPECT_EQ(a.frames.size(), 1U);
    wire.impair(0, {});
    wire.send(a, numbered(3));
    settle();
    EXPECT_EQ(b.frames.size(), 1U);
    EXPECT_THROW(wire.impair(2, {}), std::out_of_range);
}

TEST_F(WireTest, CorruptionFlipsOneBitOfTheCopy) {
    wire.impair(0, {.corrupt = 1});
    const Buffer sent = numbered(0x12345678, 1514);
    const Packet kept = Packet::copy(sent); // as a sender does that may send it again
    wire.send(a, Packet(kept));
    settle();
    EXPECT_EQ(Buffer(kept.data(), kept.data() + kept.size()), sent);
    ASSERT_EQ(b.frames.size(), 1U);
    int bits = 0;
    for (std::size_t i = 0; i < sent.size(); i++)
        bits += __builtin_popcount(static_cast<unsigned>(sent[i] ^ b.frames[0][i]));
    EXPECT_EQ(bits, 1);
}

/// Those that an impairment delays or loses do not fill the wire, nor those that a wire loses which is down.
TEST(Wire, OneEventSendsALimitedNumberOfFrames) {
    constexpr unsigned many = 2000;
    struct Sender : RecordingEnd {
        Sender(const EventQueue& queue, Wire& wire) : RecordingEnd(queue), wire(wire) {}
        void resume_send() override {
            unsigned now = 0;
            for (; sent < many && wire.ready_or_wait(*this); ++now)
                wire.send(*this, numbered(sent++));
            most = std::max(most, now);
        }
        Wire& wire;
        unsigned sent = 0, most = 0;
    };
    Impairments far, lossy;
    far.delay = 1000;
    lossy.loss = 1;
    for (const auto& [up, impairments] : {std::pair{true, far}, {true, lossy}, {false, far}}) {
        EventQueue queue;
        Wire wire(queue, "w");
        Sender a(queue, wire);
        RecordingEnd b(queue);
        wire.attach(a, "a");
        wire.attach(b, "b");
        wire.impair(0, impairments);
        wire.set_up(up);
        a.resume_send();
        queue.advance(2000);
        EXPECT_EQ(a.sent, many);
        EXPECT_LE(a.most, Wire::sent_at_a_time);
        ASSERT_EQ(b.frames.size(), up && impairments.loss == 0 ? many : 0);
        for (std::uint32_t n = 0; n < b.frames.size(); ++n)
            ASSERT_EQ(b.frames[n], numbered(n));
    }
}

TEST(Wire, FramesInFlightAreBounded) {
    EventQueue queue;
    Wire wire(queue, "w");
    struct Waiting : RecordingEnd {
        using RecordingEnd::RecordingEnd;
        void resume_send() override { ++resumed; }
        unsigned resumed = 0;
    } a(queue);
    struct Count : Endpoint {
        void frame_in(Bytes) override { ++frames; }
        void carrier(bool) override {}
        unsigned frames = 0;
    } b;
    wire.attach(a, "a");
    wire.attach(b, "b");
    constexpr unsigned many = 300'000;

    // A sender that calls ready_or_wait() is refused, and resumed when half of its frames are delivered.
    unsigned sent = 0;
    for (; sent < many && wire.ready_or_wait(a); ++sent)
        wire.send(a, numbered(sent));
    EXPECT_LE(wire.in_flight(0), Wire::send_limit + Wire::frame_cost + 60);
    queue.advance(queue.now());
    EXPECT_EQ(b.frames, sent);
    EXPECT_EQ(a.resumed, 1U);

    // A sender that does not call ready_or_wait() loses frames.
    for (unsigned n = 0; n < many; ++n)
        wire.send(a, numbered(n));
    EXPECT_LE(wire.in_flight(0), Wire::backlog_limit);
    EXPECT_EQ(wire.in_flight(1), 0U);
    queue.advance(queue.now());
    EXPECT_EQ(wire.in_flight(0), 0U);
    EXPECT_EQ(b.frames + wire.statistics().lost_full, sent + many);

    // A delayed wire holds more frames, but has a limit.
    Impairments far;
    far.delay = 1'000'000'000;
    wire.impair(0, far);
    const auto lost = wire.statistics().lost_full;
    for (unsigned n = 0; n < many; ++n)
        wire.send(a, numbered(n));
    EXPECT_LE(wire.in_flight(0), Wire::delay_limit);
    EXPECT_GT(wire.in_flight(0), Wire::backlog_limit);
    EXPECT_GT(wire.statistics().lost_full, lost);
    queue.after(0, [] {});
    queue.advance(queue.now()); // what one event sends is limited
    EXPECT_TRUE(wire.ready_or_wait(a)) << "delayed frames do not count for ready_or_wait()";
}

} // namespace
} // namespace t3sim
