// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A card whose rings are refilled as fast as it reads them must not starve other work: file descriptors
// (registers of other cards, the control socket, SIGTERM), its own Ethernet side, the other cards. Delays are
// counted in frames of the stream, never in time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include <sys/eventfd.h>

#include "sim/core/event_loop.hh"
#include "tests/sim/scale/test_driver.hh"

namespace t3sim::test {
namespace {

/// A test fails after this number of frames of one stream.
constexpr std::uint64_t endless = 200'000;
/// Limit of stream frames between two polls of the descriptors, and before another frame of the card: two
/// turns' events, each of which may be a frame, and the frames that the wire holds.
constexpr std::uint64_t few = 4096;

/// Keeps the ring of connection 0 of a card full, with a doorbell after what it posts, and counts its frames.
class Stream : public WireObserver {
public:
    Stream(EventQueue& events, Wire& wire, TestDriver& sender)
        : wire_(wire), sender_(sender), doorbell_(events, [this] { sender_.ring_doorbell(0); }) {
        wire_.add_observer(*this);
    }
    ~Stream() override { wire_.remove_observer(*this); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void begin() {
        begun_ = sender_.card().counters().value("rnic.work_requests");
        refill();
    }
    void frame(unsigned port, Bytes, std::string_view) override {
        if (port != 0 || !begun_)
            return;
        if (++frames < endless)
            refill();
    }
    std::uint64_t frames = 0;

private:
    void refill() {
        const std::uint64_t executed = sender_.card().counters().value("rnic.work_requests") - *begun_;
        for (; posted_ - executed < TestDriver::slots; ++posted_) {
            sender_.post_write(0);
            doorbell_.after(0); // not here: the card may be in the middle of a frame
        }
    }

    Wire& wire_;
    TestDriver& sender_;
    EventQueue::Repeated doorbell_;
    std::optional<std::uint64_t> begun_; ///< initial value of the counter
    std::uint64_t posted_ = 0;
};

class Fairness : public testing::Test {
protected:
    Fairness() : pairs(2, 2, &loop.queue()), other(eventfd(1, EFD_CLOEXEC)) {
        pairs.connect_all();
        // Represents all other descriptors: one that is always ready.
        watch = loop.watch(other.get(), EPOLLIN, [this](std::uint32_t) {
            longest_gap = std::max(longest_gap, stream.frames - last_look);
            last_look = stream.frames;
            if (at_look)
                at_look();
        });
    }
    ~Fairness() override { loop.unwatch(watch); }

    void run_until(std::uint64_t frames) {
        for (std::uint64_t turn = 0; stream.frames < frames && longest_gap < endless / 2; ++turn) {
            ASSERT_LT(turn, 100 * frames) << "the stream has stopped";
            loop.run_once(0);
        }
    }

    EventLoop loop;
    CardPairs pairs;
    Stream stream{loop.queue(), pairs.wire(0), pairs.card(0)};
    Fd other;
    EventLoop::Watch watch = 0;
    std::uint64_t last_look = 0, longest_gap = 0;
    std::function<void()> at_look;
};

TEST_F(Fairness, DescriptorsAreServedWhileAStreamOfWritesNeverEnds) {
    stream.begin();
    run_until(20'000);
    EXPECT_LT(longest_gap, few);
    EXPECT_EQ(pairs.card(0).card().counters().value("rnic.errors"), 0U);
}

TEST_F(Fairness, EthernetOfBothPortsGoesOnBesideAStreamOfWrites) {
    Wire second(loop.queue(), "second");
    struct End : Endpoint {
        void frame_in(Bytes) override { ++frames; }
        void carrier(bool) override {}
        unsigned frames = 0;
    } end;
    pairs.card(0).card().connect(1, second);
    second.attach(pairs.card(0).card().port(1), "0");
    second.attach(end, "end");

    // Repeated packets on each port: each waits for at most a few frames of the stream.
    std::uint64_t posted_at = 0, worst = 0;
    std::uint64_t sent = 0;
    at_look = [&] {
        const std::uint64_t packets = pairs.card(0).card().counters().value("nic.tx_packets");
        if (packets < sent)
            return;
        if (sent != 0)
            worst = std::max(worst, stream.frames - posted_at);
        posted_at = stream.frames;
        pairs.card(0).transmit(0, 60);
        pairs.card(0).transmit(1, 60);
        sent += 2;
    };
    stream.begin();
    run_until(20'000);
    EXPECT_LT(longest_gap, few);
    EXPECT_LT(worst, 2 * few);
    EXPECT_GT(sent, 8U);
    EXPECT_GT(end.frames, 4U);
}

TEST_F(Fairness, OtherQpsOfTheCardGoOnBesideAStreamOfWrites) {
    std::uint64_t posted_at = 0, worst = 0, done = 0, messages = 0;
    at_look = [&] {
        const std::uint64_t completions = pairs.card(1).completions();
        if (messages != 0 && completions == done)
            return;
        if (messages != 0)
            worst = std::max(worst, stream.frames - posted_at);
        done = completions;
        posted_at = stream.frames;
        pairs.card(1).receive(1);
        pairs.card(0).send(1);
        ++messages;
    };
    stream.begin();
    run_until(20'000);
    EXPECT_LT(longest_gap, few);
    EXPECT_LT(worst, 2 * few);
    EXPECT_GT(messages, 4U);
}

TEST_F(Fairness, OtherCardsGoOnBesideAStreamOfWrites) {
    std::uint64_t posted_at = 0, worst = 0, done = 0, messages = 0;
    at_look = [&] {
        const std::uint64_t completions = pairs.card(3).completions();
        if (messages != 0 && completions == done)
            return;
        if (messages != 0)
            worst = std::max(worst, stream.frames - posted_at);
        done = completions;
        posted_at = stream.frames;
        pairs.card(3).receive(1);
        pairs.card(2).send(1);
        ++messages;
    };
    stream.begin();
    run_until(20'000);
    EXPECT_LT(worst, 2 * few);
    EXPECT_GT(messages, 4U);
}

/// Numbered frames from one card to another, as TCP sends data: the receiver acknowledges once a turn what it
/// has received, and a window limits the frames that are not acknowledged.
class WindowedFlow {
public:
    WindowedFlow(TestDriver& from, TestDriver& to) : from_(from), to_(to) {
        to_.on_frame = [this](Bytes frame) {
            in_order &= number(frame) == received_;
            ++received_;
        };
        from_.on_frame = [this](Bytes frame) { acknowledged_ = number(frame); };
    }
    ~WindowedFlow() {
        from_.on_frame = to_.on_frame = [](Bytes) {};
    }
    WindowedFlow(const WindowedFlow&) = delete;
    WindowedFlow& operator=(const WindowedFlow&) = delete;

    /// What both hosts do in one turn.
    void turn() {
        const std::uint16_t before = received_;
        to_.process_responses();
        if (received_ != before)
            to_.transmit(0, 60, 0, received_);
        from_.process_responses();
        for (; sent_ - acknowledged_ < window; ++sent_)
            from_.transmit(0, 1514, 0, sent_);
    }
    [[nodiscard]] unsigned received() const { return received_; }
    bool in_order = true;

private:
    static constexpr int window = 300;

    static std::uint16_t number(Bytes frame) { return be16(&frame[TestDriver::number_at]); }

    TestDriver &from_, &to_;
    std::uint16_t sent_ = 0, received_ = 0, acknowledged_ = 0;
};

/// As `ib_write_bw -t 128`: QPs with 128 outstanding RDMA writes of 64 KiB each, more than a test waits for.
class WriteBandwidth : public testing::TestWithParam<unsigned>, public WireObserver {
protected:
    static constexpr std::uint32_t outstanding = 128;
    /// A test ends before this number of frames of the stream.
    static constexpr std::uint64_t stream_end = outstanding * TestDriver::write_size / 1500;

    WriteBandwidth() : pairs(1, GetParam(), &loop.queue(), outstanding) {
        pairs.connect_all();
        pairs.card(0).register_memory();
        pairs.card(1).register_memory();
        pairs.settle();
        pairs.card(0).card().connect(1, second);
        second.attach(pairs.card(0).card().port(1), "0");
        second.attach(end, "end");
        for (unsigned n = 0; n < GetParam(); ++n) {
            for (std::uint32_t i = 0; i < outstanding; ++i)
                pairs.card(0).post_full_write(n);
            pairs.card(0).ring_doorbell(n);
        }
        pairs.wire(0).add_observer(*this);
    }
    ~WriteBandwidth() override { pairs.wire(0).remove_observer(*this); }

    void TearDown() override {
        EXPECT_LT(stream, stream_end) << "the stream has ended";
        for (unsigned number : {0U, 1U})
            EXPECT_EQ(pairs.card(number).card().counters().value("rnic.errors"), 0U);
    }

    void frame(unsigned port, Bytes frame, std::string_view) override {
        constexpr std::uint16_t type_ipv4 = 0x0800;
        if (be16(&frame[12]) == type_ipv4)
            stream += port == 0 ? 1 : 0;
        else
            ethernet_frame(frame);
    }
    void ethernet_frame(Bytes frame) {
        ++ethernet[frame.size()];
        stream_then = stream;
    }
    void expect_both_go_on(WindowedFlow&& flow);
    void run_until_sent(std::size_t size, std::uint64_t frames) {
        while (ethernet[size] < frames && stream < stream_end)
            loop.run_once(0);
    }

    EventLoop loop;
    CardPairs pairs;
    Wire second{loop.queue(), "second"};
    struct End : Endpoint {
        explicit End(WriteBandwidth& test) : test(test) {}
        void frame_in(Bytes frame) override { test.ethernet_frame(frame); }
        void carrier(bool) override {}
        WriteBandwidth& test;
    } end{*this};
    std::uint64_t stream = 0;                      ///< frames of the stream
    std::map<std::size_t, std::uint64_t> ethernet; ///< other frames, by size
    std::uint64_t stream_then = 0;                 ///< at the last of these
};

/// A frame waits for what the wire holds and for one turn of a QP, however much is outstanding.
TEST_P(WriteBandwidth, AnEthernetFrameWaitsForFewFramesOfTheStream) {
    constexpr std::uint64_t on_the_wire = Wire::send_limit / 1500, segments_per_turn = 16;
    struct {
        unsigned card, port;
    } constexpr from[] = {{0, 0}, {0, 1}, {1, 0}};
    constexpr std::uint32_t size = 60;
    for (const auto& [card, port] : from) {
        SCOPED_TRACE("card " + std::to_string(card) + " port " + std::to_string(port));
        std::uint64_t worst = 0;
        for (int round = 0; round < 10; ++round) {
            loop.run_once(0);
            const std::uint64_t before = stream, sent = ethernet[size];
            pairs.card(card).transmit(port, size);
            run_until_sent(size, sent + 1);
            worst = std::max(worst, stream_then - before);
        }
        EXPECT_LE(worst, on_the_wire + segments_per_turn);
    }
}

/// At a full wire the rings of the NIC and the connections of the TOE take turns, whatever the size of a
/// request.
TEST_P(WriteBandwidth, EthernetHasItsShareOfAFullWire) {
    constexpr std::uint64_t frames = 500;
    loop.run_once(0);
    const std::uint64_t before = stream;
    for (std::uint64_t n = 0; n < frames; ++n)
        pairs.card(0).transmit(0, 1514);
    run_until_sent(1514, frames);
    EXPECT_LE(stream_then - before, 2 * frames);
}

TEST_P(WriteBandwidth, EthernetRingsTakeTurnsAtAFullWire) {
    constexpr std::uint64_t frames = 400;
    constexpr std::uint32_t size[] = {1514, 1510};
    loop.run_once(0);
    for (std::uint64_t n = 0; n < frames; ++n)
        for (unsigned ring : {0U, 1U})
            pairs.card(0).transmit(0, size[ring], ring);
    while (ethernet[size[0]] + ethernet[size[1]] < frames && stream < stream_end)
        loop.run_once(0);
    EXPECT_GE(ethernet[size[0]], frames / 4);
    EXPECT_GE(ethernet[size[1]], frames / 4);
}

/// Until the flow has sent enough, or the stream has sent far more.
void WriteBandwidth::expect_both_go_on(WindowedFlow&& flow) {
    constexpr std::uint64_t frames = 1000;
    const std::uint64_t before = stream;
    while (flow.received() < frames && stream - before < 4 * frames) {
        flow.turn();
        loop.run_once(0);
    }
    EXPECT_GE(flow.received(), frames);
    EXPECT_TRUE(flow.in_order);
    EXPECT_GE(stream - before, frames / 4);
}

TEST_P(WriteBandwidth, AFlowInTheSameDirectionGoesOn) {
    expect_both_go_on({pairs.card(0), pairs.card(1)});
}

/// The acknowledgements of the stream, which never wait, share the wire with the flow.
TEST_P(WriteBandwidth, AFlowInTheOtherDirectionGoesOn) {
    expect_both_go_on({pairs.card(1), pairs.card(0)});
}

INSTANTIATE_TEST_SUITE_P(Qps, WriteBandwidth, testing::Values(1U, 2U, 8U));

/// With virtual time a run is exactly repeatable: no budget depends on the clock.
TEST(VirtualTime, ARunUnderLoadIsRepeated) {
    struct Sum : WireObserver {
        explicit Sum(EventQueue& q) : queue(q) {}
        void frame(unsigned port, Bytes frame, std::string_view) override {
            for (const std::uint8_t byte : frame)
                sum = (sum ^ byte) * 0x100000001b3U;
            sum = (sum ^ port ^ queue.now()) * 0x100000001b3U;
            ++frames;
        }
        EventQueue& queue;
        std::uint64_t sum = 0xcbf29ce484222325U, frames = 0;
    };
    std::optional<std::uint64_t> first;
    for (int run = 0; run < 2; ++run) {
        EventQueue queue;
        CardPairs pairs(1, 8, &queue);
        Sum sum(queue);
        pairs.wire(0).add_observer(sum);
        pairs.connect_all();
        for (unsigned n = 0; n < 8; ++n)
            for (unsigned i = 0; i < TestDriver::slots; ++i)
                pairs.card(0).post_write(n);
        for (unsigned n = 0; n < 8; ++n)
            pairs.card(0).ring_doorbell(n);
        pairs.settle();
        EXPECT_GT(sum.frames, 8U * TestDriver::slots);
        EXPECT_EQ(first.value_or(sum.sum), sum.sum);
        first = sum.sum;
        pairs.wire(0).remove_observer(sum);
    }
}

} // namespace
} // namespace t3sim::test
