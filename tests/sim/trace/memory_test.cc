// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Views read a recording piece by piece: ten times as many events need no more memory. Counted at operator
// new.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

#include <malloc.h>

#include "sim/core/recorder.hh"
#include "sim/trace/trace.hh"
#include "tests/sim/trace/folder.hh"

namespace {

std::size_t in_use = 0, most = 0; // bytes of the heap; the tests have one thread

} // namespace

// NOLINTBEGIN(misc-new-delete-overloads)
void* operator new(std::size_t size) {
    void* block = std::malloc(size);
    if (!block)
        throw std::bad_alloc();
    in_use += malloc_usable_size(block);
    most = std::max(most, in_use);
    return block;
}
void operator delete(void* block) noexcept {
    if (block)
        in_use -= malloc_usable_size(block);
    std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
    operator delete(block);
}
// NOLINTEND(misc-new-delete-overloads)

namespace t3sim::test {
namespace {

/// The peak memory of a view of a recording with @p events events.
template <typename View> std::size_t memory_of(unsigned events, View view) {
    const Folder folder;
    {
        EventQueue queue;
        Recorder recorder(queue, folder / "run.t3t", 0);
        const std::uint8_t card = recorder.add_card("a");
        std::array<std::uint8_t, 64> frame{}; // of IPv4 and TCP, an ACK
        put_be16(&frame[12], 0x0800);
        frame[14] = 0x45;
        put_be16(&frame[16], 50);
        frame[23] = 6;
        frame[46] = 0x50;
        frame[47] = trace::Segment::ack_flag;
        for (unsigned n = 0; n < events; ++n) {
            queue.advance(Time{n} * 1000);
            put_be32(&frame[38], n);
            recorder.record(card, {.kind = EventKind::segment_out, .length = 64, .tid = 5}, frame);
        }
    }
    const std::size_t before = in_use;
    most = before;
    view(trace::File(folder / "run.t3t"));
    return most - before;
}

template <typename View> void expect_constant(View view) {
    const std::size_t few = memory_of(2'000, view), many = memory_of(20'000, view);
    EXPECT_LT(many, few + few / 10);
    EXPECT_LT(many, 1U << 20);
}

TEST(TraceMemory, TextIsWrittenAsItIsRead) {
    expect_constant([](const trace::File& file) {
        std::size_t lines = 0;
        trace::to_text(file, {}, [&](std::string_view) { ++lines; });
        EXPECT_GE(lines, 2'000U);
    });
}

TEST(TraceMemory, PerfettosFileIsWrittenAsItIsRead) {
    expect_constant([](const trace::File& file) {
        std::size_t bytes = 0;
        trace::to_perfetto(file, {}, [&](std::string_view piece) { bytes += piece.size(); });
        EXPECT_GE(bytes, std::size_t{2'000} * 100);
    });
}

TEST(TraceMemory, ALadderHoldsOnlyWhatItDraws) {
    expect_constant([](const trace::File& file) {
        const std::string drawn = trace::to_ladder(file, {});
        EXPECT_NE(drawn.find("the first 600 of "), std::string::npos);
    });
}

} // namespace
} // namespace t3sim::test
