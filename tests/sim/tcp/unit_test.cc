// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The parts that have no connection: sequence numbers, headers, reassembly, timers.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <unordered_set>

#include "sim/core/timer_heap.hh"
#include "sim/tcp/engine.hh"
#include "sim/tcp/reassembly.hh"
#include "sim/tcp/segment.hh"
#include "tests/sim/hostile/effort.hh"

namespace t3sim::tcp::test {
namespace {

TEST(TcpSeq, ComparesAroundTheWrap) {
    const Seq last(0xffffffff), first(0);
    EXPECT_LT(last, first);
    EXPECT_GT(last + 1, last);
    EXPECT_EQ(first - last, 1);
    EXPECT_EQ(last + 2, Seq(1));
    EXPECT_GE(Seq(0x80000000), Seq(1));
    EXPECT_LE(Seq(7), Seq(7));
}

TEST(TcpSegment, ChecksumOfRfc1071) {
    const Buffer data{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
    EXPECT_EQ(fold(sum(data)), 0x220d);
    const Buffer odd{0x00, 0x01, 0xf2};
    EXPECT_EQ(fold(sum(odd)), static_cast<std::uint16_t>(~0xf201));
}

TEST(TcpChecksum, EverySizeAsWordByWord) {
    Buffer data(1500);
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<std::uint8_t>(~(i * i >> 4 ^ i)); // many carries
    for (std::size_t at = 0; at < 2; ++at)
        for (std::size_t size = 0; size <= data.size() - at; ++size) {
            std::uint64_t words = 0;
            for (std::size_t i = 0; i < size; ++i)
                words += static_cast<std::uint64_t>(data[at + i]) << (i % 2 == 0 ? 8 : 0);
            EXPECT_EQ(fold(sum(Bytes(data).subspan(at, size))), fold(words)) << size;
        }
}

Buffer packet_of(const Segment& s) {
    const Headers h = encode(s, 7, 64);
    Buffer p(h.bytes.begin(), h.bytes.begin() + static_cast<std::ptrdiff_t>(h.size));
    p.insert(p.end(), s.payload.begin(), s.payload.end());
    return p;
}

const Buffer payload{'h', 'e', 'l', 'l', 'o'};
const Segment sample{.tuple = {0x0a000001, 0x0a000002, 50000, 7471},
                     .seq = Seq(0xfffffff0),
                     .ack = Seq(17),
                     .flags = flag_syn | flag_ack | flag_psh,
                     .window = 4242,
                     .tos = 0x10,
                     .mss = 1460,
                     .window_scale = 3,
                     .payload = payload};

TEST(TcpSegment, EncodedSegmentsDecode) {
    const Buffer p = packet_of(sample);
    const auto to = peek(p);
    ASSERT_TRUE(to);
    EXPECT_EQ(to->tuple, (FourTuple{0x0a000002, 0x0a000001, 7471, 50000})) << "the receiver's view";
    const auto s = decode(p);
    ASSERT_TRUE(s);
    EXPECT_EQ(s->seq, sample.seq);
    EXPECT_EQ(s->ack, sample.ack);
    EXPECT_EQ(s->flags, sample.flags);
    EXPECT_EQ(s->window, 4242);
    EXPECT_EQ(s->tos, 0x10);
    EXPECT_EQ(s->mss, 1460);
    EXPECT_EQ(s->window_scale, 3);
    EXPECT_TRUE(std::equal(s->payload.begin(), s->payload.end(), payload.begin(), payload.end()));
}

TEST(TcpSegment, EthernetPaddingIsNotPayload) {
    Buffer p = packet_of(sample);
    p.insert(p.end(), 9, 0);
    EXPECT_EQ(decode(p)->payload.size(), payload.size());
}

TEST(TcpSegment, AnyFlippedBitIsDetected) {
    const Buffer good = packet_of(sample);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
        Buffer bad = good;
        bad[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
        if (peek(bad)) {
            EXPECT_FALSE(decode(bad)) << "bit " << bit;
        }
    }
}

TEST(TcpSegment, InconsistentLengths) {
    const Buffer good = packet_of(sample);
    const auto with_header_checksum = [](Buffer p) {
        put_be16(&p[10], 0);
        put_be16(&p[10], fold(sum(Bytes(p).first(20))));
        return p;
    };
    Buffer longer = good;
    put_be16(&longer[2], static_cast<std::uint16_t>(good.size() + 1));
    EXPECT_FALSE(decode(with_header_checksum(longer)));
    Buffer shorter = good;
    put_be16(&shorter[2], 39);
    EXPECT_FALSE(decode(with_header_checksum(shorter)));
    for (const unsigned words : {0U, 4U, 15U}) { // the TCP header's own length
        Buffer p = good;
        p[32] = static_cast<std::uint8_t>(words << 4);
        EXPECT_FALSE(decode(p)) << words;
    }
}

/// A SYN with these option bytes and good checksums.
std::optional<Segment> with_options(const Buffer& options) {
    Segment s = sample;
    s.payload = {};
    s.mss.reset();
    s.window_scale.reset();
    const Headers h = encode(s, 7, 64);
    Buffer p(h.bytes.begin(), h.bytes.begin() + 40);
    p.insert(p.end(), options.begin(), options.end());
    p.resize((p.size() + 3) / 4 * 4, 0);
    put_be16(&p[2], static_cast<std::uint16_t>(p.size()));
    put_be16(&p[10], 0);
    put_be16(&p[10], fold(sum(Bytes(p).first(20))));
    p[32] = static_cast<std::uint8_t>((p.size() - 20) / 4 << 4);
    put_be16(&p[36], 0);
    const std::uint64_t pseudo = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 6 + (p.size() - 20);
    put_be16(&p[36], fold(sum(Bytes(p).subspan(20), pseudo)));
    return decode(p);
}

TEST(TcpSegment, Options) {
    const auto linux_syn = with_options({2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7});
    ASSERT_TRUE(linux_syn);
    EXPECT_EQ(linux_syn->mss, 1460);
    EXPECT_EQ(linux_syn->window_scale, 7);
    EXPECT_TRUE(linux_syn->sack_permitted);
    EXPECT_TRUE(linux_syn->timestamps);
    EXPECT_TRUE(with_options({99, 4, 0, 0})) << "an unknown option is skipped";
    EXPECT_FALSE(with_options({2, 0, 0, 0})) << "length 0";
    EXPECT_FALSE(with_options({2, 3, 5, 0})) << "an MSS of one byte";
    EXPECT_FALSE(with_options({1, 1, 1, 2})) << "cut off";
    EXPECT_FALSE(with_options({99, 9, 0, 0})) << "over the end";
}

TEST(TcpReassembly, MatchesANaiveModel) {
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        const Seq base(0xffffffff - random() % 500);
        Reassembly r;
        std::map<std::uint32_t, std::uint8_t> naive; // offset -> byte, the first copy is kept
        std::uint32_t next = 0;
        for (int i = 0; i < 40; ++i) {
            const std::uint32_t offset = random() % 200;
            Buffer data(random() % 40);
            for (auto& byte : data)
                byte = static_cast<std::uint8_t>(random());
            if (offset < next)
                continue;
            ASSERT_TRUE(r.insert(base + offset, data));
            for (std::uint32_t b = 0; b < data.size(); ++b)
                naive.emplace(offset + b, data[b]);
            if (random() % 4 != 0)
                continue;
            const Buffer got = r.take(base + next);
            for (const std::uint8_t byte : got) {
                ASSERT_TRUE(naive.contains(next));
                ASSERT_EQ(byte, naive[next]);
                ++next;
            }
            ASSERT_FALSE(naive.contains(next)) << "part of the data is missing";
            next += random() % 3; // the hole was filled by a segment of its own
            naive.erase(naive.begin(), naive.lower_bound(next));
        }
    }
}

TEST(TcpReassembly, HolesAreLimited) {
    Reassembly r;
    const Buffer byte(1);
    for (std::uint32_t i = 0; i < Reassembly::max_ranges; ++i)
        ASSERT_TRUE(r.insert(Seq(2 * i), byte));
    EXPECT_FALSE(r.insert(Seq(100'000), byte));
    EXPECT_TRUE(r.insert(Seq(1), byte)) << "data that closes a hole needs no range";
    EXPECT_TRUE(r.insert(Seq(100'000), byte));
}

// A peer may send a window of 1 MB and then bytes in front of it, from right to left.
TEST(TcpReassembly, AByteInFrontOfMuchDataCostsLittle) {
    constexpr std::uint32_t front = 2000;
    const Buffer much(1 << 20), byte(1);
    const auto run = [&] {
        Reassembly r;
        EXPECT_TRUE(r.insert(Seq(front), much));
        t3sim::test::Effort effort;
        for (std::uint32_t i = front - 1; i > 0; --i)
            EXPECT_TRUE(r.insert(Seq(i), byte));
        effort.action_ends();
        EXPECT_EQ(r.take(Seq(1)).size() + r.take(Seq(front)).size(), (1U << 20) + front - 1);
        EXPECT_EQ(r.cost(), 0U);
        return effort;
    };
    EXPECT_EQ(t3sim::test::Effort::excess_each_time(run), "");
}

// One range of 16 MiB was copied while it grew, and moved for a byte that was received twice: 5 ms each.
TEST(TcpReassembly, AWindowOfDataIsManyRanges) {
    constexpr std::uint32_t window = 16 << 20, size = 1460;
    const Buffer segment(size, 'x');
    Reassembly r;
    std::uint32_t end = 0, next = 1;
    for (; end < window; end += size)
        ASSERT_TRUE(r.insert(Seq(end), segment));
    for (Buffer part; !(part = r.take(Seq(next))).empty();) {
        ASSERT_LE(part.size(), Reassembly::large + size);
        next += static_cast<std::uint32_t>(part.size());
    }
    EXPECT_EQ(next, end);
    EXPECT_EQ(r.cost(), 0U);
}

TEST(TcpTupleHash, TuplesChosenForOneKeyAreSpreadByAnother) {
    const SipKey guessed{1, 2}, key{3, 4};
    std::unordered_set<FourTuple, TupleHash> table(1000, TupleHash{key});
    const std::size_t buckets = table.bucket_count();
    FourTuple tuple{.local_ip = 0x0a000001, .remote_ip = 0x0a000002, .local_port = 7471, .remote_port = 0};
    while (table.size() < 200) {
        if (++tuple.remote_port == 0)
            ++tuple.remote_ip;
        if (TupleHash{guessed}(tuple) % buckets == 0)
            table.insert(tuple);
    }
    std::size_t longest = 0;
    for (std::size_t n = 0; n < buckets; ++n)
        longest = std::max(longest, table.bucket_size(n));
    EXPECT_LE(longest, 8U) << "of 200 tuples that are in one bucket with the other key";
}

TEST(TcpTimerHeap, FiresInOrderWithoutStoppedTimers) {
    std::mt19937 random(5);
    TimerHeap heap;
    std::deque<Timer> timers(200);
    for (Timer& t : timers)
        heap.start(t, random() % 50);
    for (Timer& t : timers)
        if (random() % 3 == 0)
            heap.stop(t);
        else if (random() % 3 == 0)
            heap.start(t, random() % 50);
    Time last = 0;
    std::size_t fired = 0, running = heap.size();
    while (Timer* t = heap.earliest()) {
        EXPECT_GE(t->when(), last);
        last = t->when();
        heap.stop(*t);
        EXPECT_FALSE(t->running());
        ++fired;
    }
    EXPECT_EQ(fired, running);
    EXPECT_LT(fired, timers.size());
}

TEST(TcpTimerHeap, EqualTimesFireInOrderOfStart) {
    TimerHeap heap;
    Timer a, b, c;
    for (Timer* t : {&b, &a, &c})
        heap.start(*t, 7);
    for (Timer* t : {&b, &a, &c}) {
        EXPECT_EQ(heap.earliest(), t);
        heap.stop(*t);
    }
}

} // namespace
} // namespace t3sim::tcp::test
