// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A card whose rings are refilled as fast as it reads them must not starve other work: file descriptors
// (registers of other cards, the control socket, SIGTERM), its own Ethernet side, the other cards. Delays are
// counted in frames of the stream, never in time.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

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

/// Keeps the ring of connection 0 of a card full, and counts its frames.
class Stream : public Tap {
public:
    Stream(Wire& wire, TestDriver& sender) : wire_(wire), sender_(sender) { wire_.add_tap(*this); }
    ~Stream() override { wire_.remove_tap(*this); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void begin() {
        begun_ = sender_.card().counters().value("rnic.work_requests");
        refill();
        sender_.ring_doorbell(0);
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
        for (; posted_ - executed < TestDriver::slots; ++posted_)
            sender_.post_write(0);
    }

    Wire& wire_;
    TestDriver& sender_;
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
    Stream stream{pairs.wire(0), pairs.card(0)};
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

/// With virtual time a run is exactly repeatable: no budget depends on the clock.
TEST(VirtualTime, ARunUnderLoadIsRepeated) {
    struct Sum : Tap {
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
        pairs.wire(0).add_tap(sum);
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
        pairs.wire(0).remove_tap(sum);
    }
}

} // namespace
} // namespace t3sim::test
