// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Two cards leave out the sums between each other, and acknowledge the segments of a burst once. A run in
// which one connection has data at a time is the same as if they computed the sums, apart from the number of
// ACKs. Observers, impairments, the recorder and other ends of the wire see the frames with sums, and an ACK
// for each segment.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/core/crc32c.hh"
#include "sim/core/recorder.hh"
#include "sim/tcp/segment.hh"
#include "tests/sim/scale/test_driver.hh"
#include "tests/sim/trace/folder.hh"

namespace t3sim::test {
namespace {

constexpr unsigned connections = 3;

using Frames = std::vector<Buffer>;

/// An end that is no card.
struct FrameRecorder : Endpoint {
    void frame_in(Bytes frame) override { frames.emplace_back(frame.begin(), frame.end()); }
    void carrier(bool) override {}
    Frames frames;
};

struct AllFrames : WireObserver {
    void frame(unsigned port, Bytes frame, std::string_view) override {
        frames.emplace_back(frame.begin(), frame.end());
        frames.back().push_back(static_cast<std::uint8_t>(port));
    }
    Frames frames;
};

/// What a run leaves behind in the hosts and cards.
struct Result {
    explicit Result(CardPairs& pairs) {
        for (unsigned side : {0U, 1U}) {
            FakeHost& host = pairs.card(side).host();
            const Bytes all = host.bytes(FakeHost::default_base, 10U << 20);
            memory.emplace_back(all.begin(), all.end());
            operations.push_back({host.reads, host.writes, host.irqs[0]});
            counters += pairs.card(side).card().counters().text();
        }
        frames = pairs.wire(0).statistics().frames;
        bytes = pairs.wire(0).statistics().bytes;
    }
    bool operator==(const Result& other) const {
        return memory == other.memory && operations == other.operations && counters == other.counters;
    }
    std::vector<Buffer> memory;
    std::vector<std::array<std::uint64_t, 3>> operations;
    std::string counters;
    std::uint64_t frames = 0, bytes = 0;
};

void fill(CardPairs& pairs) {
    for (unsigned side : {0U, 1U}) {
        pairs.card(side).register_memory();
        std::uint8_t* const memory =
            pairs.card(side).host().at(pairs.card(side).memory(), TestDriver::write_size);
        for (std::uint32_t n = 0; n < TestDriver::write_size; ++n)
            memory[n] = static_cast<std::uint8_t>(n * n >> 5 ^ n >> 3 ^ side);
    }
    pairs.settle();
}

/// Messages of all sizes and writes, both ways at once.
void traffic(CardPairs& pairs) {
    for (const std::uint32_t size : {1U, 16U, 1000U, 1376U, 1377U, 5000U, 65536U})
        for (unsigned n = 0; n < connections; ++n) {
            for (unsigned side : {0U, 1U}) {
                pairs.card(side).receive(n, size);
                pairs.card(side).send(n, size);
                pairs.card(side).post_full_write(n);
                pairs.card(side).ring_doorbell(n);
            }
            pairs.settle();
        }
}

enum class Look { none, computed, observer, impairment, recorder, none_then_observer };

Result run(Look look, Frames* seen = nullptr, bool compute = false) {
    const Folder folder;
    EventQueue queue;
    CardPairs pairs(1, connections, &queue);
    AllFrames observer;
    Recorder recorder(queue, folder / "run.t3t", 0, Recorder::Component{.number = 0, .count = 1, .id = 1});
    Wire& wire = pairs.wire(0);
    wire.compute_sums(compute || look == Look::computed);
    if (look == Look::observer)
        wire.add_observer(observer);
    if (look == Look::impairment)
        for (unsigned port : {0U, 1U})
            wire.impair(port, {});
    if (look == Look::recorder)
        for (unsigned side : {0U, 1U})
            pairs.card(side).card().record(&recorder);
    pairs.connect_all();
    fill(pairs);
    traffic(pairs);
    if (look == Look::none_then_observer)
        wire.add_observer(observer);
    traffic(pairs);
    const Result result(pairs);
    for (unsigned side : {0U, 1U})
        pairs.card(side).card().record(nullptr);
    wire.remove_observer(observer);
    if (seen)
        *seen = observer.frames;
    return result;
}

TEST(Sums, ARunIsTheSameWithAndWithoutThem) {
    const Result alone = run(Look::none);
    EXPECT_EQ(alone.counters.find("errors"), std::string::npos) << alone.counters;
    EXPECT_GT(alone.bytes, 2U * 2 * 7 * connections * TestDriver::write_size);
    EXPECT_TRUE(alone == run(Look::none));
    const std::uint64_t frames = run(Look::computed).frames;
    EXPECT_GT(frames, alone.frames) << "an ACK for each segment";
    for (const Look look :
         {Look::computed, Look::observer, Look::impairment, Look::recorder, Look::none_then_observer}) {
        const Result other = run(look);
        EXPECT_TRUE(alone == other) << static_cast<int>(look);
        if (look == Look::none_then_observer)
            EXPECT_LT(other.frames, frames);
        else
            EXPECT_EQ(other.frames, frames);
    }
}

/// Of a frame with a TCP segment, whose data is one FPDU: whether its sums are correct.
bool sums_are_correct(const Buffer& frame) {
    constexpr std::size_t mac_header = 14;
    const auto segment = tcp::decode(Bytes(frame).subspan(mac_header));
    if (!segment || segment->payload.empty())
        return segment.has_value();
    const Bytes fpdu = segment->payload.first(segment->payload.size() - 4);
    return be32(segment->payload.last(4).data()) == __builtin_bswap32(crc32c(fpdu));
}

TEST(Sums, ACaptureIsTheSameWithAndWithoutThem) {
    Frames all, computed, late;
    run(Look::observer, &all);
    run(Look::observer, &computed, true);
    EXPECT_TRUE(all == computed);
    run(Look::none_then_observer, &late);
    ASSERT_GT(late.size(), 1000U);
    ASSERT_LT(late.size(), all.size());
    EXPECT_TRUE(std::all_of(late.begin(), late.end(), [](Buffer frame) {
        frame.pop_back(); // the port
        return sums_are_correct(frame);
    })) << "sent after others without sums";
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const Buffer& frame : all)
        for (const std::uint8_t byte : frame)
            hash = (hash ^ byte) * 0x100000001b3U;
    RecordProperty("hash", std::to_string(hash)); // to compare it with that of another build
}

TEST(Sums, AnEndThatIsNoCardGetsThem) {
    const auto frames_at_a_third_end = [](bool compute) {
        EventQueue queue;
        CardPairs pairs(1, connections, &queue);
        FrameRecorder third;
        pairs.wire(0).attach(third, "third");
        pairs.wire(0).compute_sums(compute);
        pairs.connect_all();
        fill(pairs);
        traffic(pairs);
        return third.frames;
    };
    const Frames frames = frames_at_a_third_end(false);
    EXPECT_GT(frames.size(), 2000U);
    EXPECT_TRUE(frames == frames_at_a_third_end(true));
}

/// A cable that loses and reorders packets, and does not read them, so that none of them gets its sums there.
class BadCable : public Link {
public:
    BadCable(EventQueue& queue, Endpoint& a, Endpoint& b) : queue_(queue), ends_{&a, &b} {}
    void send(const Endpoint& from, Packet&& frame) override {
        if (++number_ % 53 == 0 && frame.size() > 100)
            return;
        intact += frame.intact();
        const Time delay = number_ % 17 == 0 ? 300'000 : 1'000;
        Endpoint& to = *ends_[&from == ends_[0] ? 1 : 0];
        queue_.after(delay, [&to, frame = std::move(frame)] { to.packet_in(frame); });
    }
    [[nodiscard]] bool up() const override { return true; }
    unsigned intact = 0;

private:
    EventQueue& queue_;
    std::array<Endpoint*, 2> ends_;
    unsigned number_ = 0;
};

TEST(Sums, LostAndReorderedPacketsWithoutSumsAreRepaired) {
    EventQueue queue;
    CardPairs pairs(1, connections, &queue);
    pairs.connect_all();
    fill(pairs);
    const Bytes sent = pairs.card(0).host().bytes(pairs.card(0).memory(), TestDriver::write_size);
    const Buffer before(sent.begin(), sent.end());
    BadCable cable(queue, pairs.card(0).card().port(0), pairs.card(1).card().port(0));
    for (unsigned side : {0U, 1U})
        pairs.card(side).card().connect(0, cable);
    for (unsigned round = 0; round < 10; ++round) {
        for (unsigned n = 0; n < connections; ++n) {
            pairs.card(1).receive(n, TestDriver::write_size);
            pairs.card(0).send(n, TestDriver::write_size);
        }
        for (unsigned wait = 0; wait < 50; ++wait)
            pairs.pass(100'000'000);
        EXPECT_EQ(pairs.card(1).completions(), (round + 1) * connections);
        const Bytes got = pairs.card(1).host().bytes(pairs.card(1).memory(), TestDriver::write_size);
        EXPECT_TRUE(std::equal(got.begin(), got.end(), before.begin())) << round;
        std::fill_n(pairs.card(1).host().at(pairs.card(1).memory(), TestDriver::write_size),
                    TestDriver::write_size, std::uint8_t{0});
    }
    EXPECT_GT(cable.intact, 1000U);
    for (unsigned side : {0U, 1U})
        EXPECT_EQ(pairs.card(side).card().counters().value("rnic.errors"), 0U);
}

} // namespace
} // namespace t3sim::test
