// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The file format: writing and reading, also of truncated and damaged files.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/core/recorder.hh"
#include "sim/trace/trace.hh"
#include "tests/sim/trace/folder.hh"

namespace t3sim::test {
namespace {

using testing::HasSubstr;

struct RecorderTest : testing::Test {
    /// @p events DMA reads of 4 bytes at 0, 1, 2 ... us.
    void record(unsigned events, std::uint64_t limit = 0) {
        Recorder recorder(queue, file, limit);
        const Probe a(&recorder, recorder.add_card("a")), b(&recorder, recorder.add_card("b"));
        for (unsigned i = 0; i < events; ++i) {
            const std::uint8_t data[] = {1, 2, 3, static_cast<std::uint8_t>(i)};
            (i % 2 == 0 ? a : b)({.kind = EventKind::dma_read, .where = i, .tid = 7, .qp = 0x10}, data);
            queue.advance(queue.now() + 1000);
        }
    }
    std::string error(const std::string& path) {
        try {
            trace::read(path);
            return "no error";
        } catch (const trace::BadTrace& e) {
            return e.what();
        }
    }

    EventQueue queue;
    Folder folder;
    std::string file = folder / "run.t3t";
};

TEST_F(RecorderTest, AllFieldsComeBack) {
    {
        Recorder recorder(queue, file);
        queue.advance(0x1234567890);
        const Probe probe(&recorder, recorder.add_card("first"));
        const std::uint8_t data[] = {0xde, 0xad};
        probe({.kind = EventKind::fpdu_in,
               .unit = 2,
               .flags = 1,
               .where = 0x1122334455667788,
               .length = 1460,
               .tid = 5,
               .qp = 0x11},
              data);
    }
    const trace::Trace t = trace::read(file);
    ASSERT_EQ(t.cards, std::vector<std::string>{"first"});
    ASSERT_EQ(t.events.size(), 1U);
    const trace::Event& e = t.events[0];
    EXPECT_EQ(e.time, 0x1234567890U);
    EXPECT_EQ(e.head.kind, EventKind::fpdu_in);
    EXPECT_EQ(e.head.unit, 2);
    EXPECT_EQ(e.head.flags, 1);
    EXPECT_EQ(e.head.where, 0x1122334455667788U);
    EXPECT_EQ(e.head.length, 1460U);
    EXPECT_EQ(e.head.tid, 5U);
    EXPECT_EQ(e.head.qp, 0x11U);
    EXPECT_EQ(Buffer(e.data.begin(), e.data.end()), (Buffer{0xde, 0xad}));
    EXPECT_EQ(t.remark, "");
}

/// The layout of docs/trace-format.md, byte by byte.
TEST_F(RecorderTest, LayoutIsTheDocumentedOne) {
    {
        Recorder recorder(queue, file);
        const Probe probe(&recorder, recorder.add_card("a"));
        queue.advance(2);
        probe({.kind = EventKind::doorbell, .unit = 3, .where = 4, .tid = 5, .qp = 6});
    }
    const std::string bytes = content(file);
    ASSERT_EQ(bytes.size(), 32U + 37U + 36U);
    EXPECT_EQ(bytes.substr(0, 12), std::string("T3TRACE\0\x01\0\x20\0", 12));
    EXPECT_EQ(bytes.substr(32, 4), std::string("\x25\0\0\0", 4));
    EXPECT_EQ(bytes.substr(68, 1), "a");
    EXPECT_EQ(bytes.substr(69), std::string("\x24\0\x03\0\x03\0\0\0"
                                            "\x02\0\0\0\0\0\0\0"
                                            "\x04\0\0\0\0\0\0\0"
                                            "\0\0\0\0\x05\0\0\0\x06\0\0\0",
                                            36));
}

TEST_F(RecorderTest, DataIsTruncatedAndItsLengthKept) {
    {
        Recorder recorder(queue, file);
        Probe(&recorder, recorder.add_card("a"))({.kind = EventKind::frame_in}, Buffer(1500, 0x55));
    }
    const trace::Trace t = trace::read(file);
    ASSERT_EQ(t.events.size(), 1U);
    EXPECT_EQ(t.events[0].head.length, 1500U);
    EXPECT_EQ(t.events[0].data.size(), trace_file::max_data);
}

TEST_F(RecorderTest, LimitKeepsTheNewestAndTheDiskSmall) {
    constexpr std::uint64_t limit = 16384;
    record(5000, limit);
    const auto older = trace_file::older_part(file);
    EXPECT_LE(std::filesystem::file_size(file) + std::filesystem::file_size(older), limit);
    const trace::Trace t = trace::read(file);
    ASSERT_GT(t.events.size(), limit / 4 / 40);
    EXPECT_EQ(t.events.back().head.where, 4999U);
    EXPECT_EQ(t.cards, (std::vector<std::string>{"a", "b"}));
    for (std::size_t i = 1; i < t.events.size(); ++i) // both parts, in order, without a hole
        ASSERT_EQ(t.events[i].head.where, t.events[i - 1].head.where + 1);
}

TEST_F(RecorderTest, TimeRangeIsApplied) {
    record(10);
    const trace::Trace t = trace::read(file);
    const auto events = select(t, {.from = 3000, .to = 5000});
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(events.front()->head.where, 3U);
    EXPECT_EQ(events.back()->head.where, 5U);
}

TEST_F(RecorderTest, OlderPartOfAnotherRecordingIsNotMixedIn) {
    record(5000, 16384);
    std::filesystem::copy_file(trace_file::older_part(file), folder / "stale");
    record(5000, 16384);
    std::filesystem::rename(folder / "stale", trace_file::older_part(file));
    const trace::Trace t = trace::read(file);
    for (std::size_t i = 1; i < t.events.size(); ++i)
        ASSERT_EQ(t.events[i].head.where, t.events[i - 1].head.where + 1);
}

/// Two components, whose cards have the same numbers in their files: events by time, cards by name.
TEST_F(RecorderTest, FilesOfComponentsAreReadAsOneRecording) {
    constexpr std::uint64_t id = 7;
    EventQueue other;
    {
        Recorder first(queue, file, 0, {0, 2, id}),
            second(other, trace_file::file_of(file, 1), 0, {1, 2, id});
        const Probe a(&first, first.add_card("a")), b(&second, second.add_card("b"));
        for (unsigned i = 0; i < 10; ++i) {
            queue.advance(1000 * i);
            a({.kind = EventKind::dma_read, .where = i});
        }
        for (unsigned i = 0; i < 4; ++i) {
            other.advance(2000 * i + 500);
            b({.kind = EventKind::dma_write, .where = i});
        }
    }
    trace::Trace t = trace::read(file);
    EXPECT_EQ(t.cards, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(t.remark, "");
    ASSERT_EQ(t.events.size(), 14U);
    for (std::size_t i = 1; i < t.events.size(); ++i)
        EXPECT_GE(t.events[i].time, t.events[i - 1].time) << i;
    const auto of_b = select(t, {.card = "b"});
    ASSERT_EQ(of_b.size(), 4U);
    EXPECT_EQ(of_b[3]->time, 6500U);
    EXPECT_EQ(of_b[3]->head.kind, EventKind::dma_write);

    EXPECT_EQ(trace::read(trace_file::file_of(file, 1)).cards, std::vector<std::string>{"b"}) << "alone";
    std::filesystem::remove(trace_file::file_of(file, 1));
    t = trace::read(file);
    EXPECT_EQ(t.events.size(), 10U);
    EXPECT_THAT(t.remark, HasSubstr("a part of the recording is missing: cannot read"));
    Recorder(other, trace_file::file_of(file, 1), 0, {1, 2, id + 1});
    EXPECT_THAT(trace::read(file).remark, HasSubstr("is of another recording"));
}

TEST_F(RecorderTest, TruncatedFileShowsCompleteRecords) {
    record(10);
    const std::string original = content(file);
    for (std::size_t cut = 1; cut < 40; ++cut) {
        write_file(file, original.substr(0, original.size() - cut));
        const trace::Trace t = trace::read(file);
        EXPECT_EQ(t.events.size(), 9U) << cut;
        EXPECT_THAT(t.remark, HasSubstr("in the middle of a record")) << cut;
        EXPECT_THAT(trace::to_text(t, {}), HasSubstr("-- the file ends in the middle of a record"));
    }
}

TEST_F(RecorderTest, DamageIsReportedWithItsOffset) {
    record(3);
    std::string bytes = content(file);
    const std::size_t last = bytes.size() - 40;
    bytes[last + 2] = static_cast<char>(200); // no such kind
    write_file(file, bytes);
    const trace::Trace t = trace::read(file);
    EXPECT_EQ(t.events.size(), 2U);
    EXPECT_EQ(t.remark, "the file is damaged from byte " + std::to_string(last) + " on");
    bytes[last + 2] = static_cast<char>(EventKind::dma_read);
    bytes[last + 3] = 9; // no such card
    write_file(file, bytes);
    EXPECT_THAT(trace::read(file).remark, HasSubstr("damaged"));
}

/// A wrong byte in a file must not crash the reader.
TEST_F(RecorderTest, AnyByteMayBeWrong) {
    record(4);
    const std::string original = content(file);
    for (std::size_t at = 0; at < original.size(); ++at) {
        for (const char value : {'\0', '\1', '\x7f', '\xff'}) {
            std::string bytes = original;
            bytes[at] = value;
            write_file(file, bytes);
            try {
                const trace::Trace t = trace::read(file);
                (void)trace::to_text(t, {});
                (void)trace::to_perfetto(t, {});
            } catch (const trace::BadTrace&) {
            }
        }
    }
}

TEST_F(RecorderTest, OtherFilesAreRefused) {
    EXPECT_EQ(error(folder / "none"), "cannot read '" + folder / "none" + "'");
    write_file(file, "");
    EXPECT_THAT(error(file), HasSubstr("is not a t3sim recording"));
    write_file(file, std::string(100, 'x'));
    EXPECT_THAT(error(file), HasSubstr("is not a t3sim recording"));
    record(1);
    std::string bytes = content(file);
    bytes[8] = 9;
    write_file(file, bytes);
    EXPECT_THAT(error(file), HasSubstr("has format version 9, this t3sim supports version 1"));
}

TEST_F(RecorderTest, UnwritableFileIsReported) {
    try {
        const Recorder recorder(queue, folder / "no/such/folder");
        FAIL() << "no error";
    } catch (const std::runtime_error& e) {
        EXPECT_THAT(e.what(), HasSubstr("cannot write"));
    }
}

} // namespace
} // namespace t3sim::test
