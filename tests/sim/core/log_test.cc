// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/log.hh"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "sim/core/log_sink.hh"

namespace t3sim {
namespace {

TEST(Log, LevelsByPartAndInGeneral) {
    std::string wrong;
    auto& early = logger("test-early");
    ASSERT_TRUE(set_log_levels("warning,test-early=trace,test-late=debug", &wrong));
    EXPECT_EQ(early.level(), spdlog::level::trace);
    EXPECT_EQ(logger("test-late").level(), spdlog::level::debug);
    EXPECT_EQ(logger("test-other").level(), spdlog::level::warn);
}

TEST(Log, WrongWordIsNamedAndNothingChanges) {
    std::string wrong;
    auto& part = logger("test-part");
    ASSERT_TRUE(set_log_levels("test-part=error", &wrong));
    EXPECT_FALSE(set_log_levels("test-part=debug,loud", &wrong));
    EXPECT_EQ(wrong, "loud");
    EXPECT_FALSE(set_log_levels("mmio=9", &wrong));
    EXPECT_EQ(wrong, "mmio=9");
    EXPECT_EQ(part.level(), spdlog::level::err);
}

class LogSinkTest : public testing::Test {
protected:
    LogSinkTest() {
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        reader.reset(ends[0]);
        writer.reset(ends[1]);
        EXPECT_EQ(fcntl(writer.get(), F_SETFL, O_WRONLY), 0);
        sink.emplace(writer.get());
        sink->set_pattern("%v");
    }
    void write(const std::string& text, int second = 0,
               spdlog::level::level_enum level = spdlog::level::warn) {
        sink->log({spdlog::log_clock::time_point(std::chrono::seconds(second)), {}, "part", level, text});
    }
    std::string read() {
        std::string text(64 << 10, 0);
        const ssize_t n = ::read(reader.get(), text.data(), text.size());
        text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
        return text;
    }
    Fd reader, writer;
    std::optional<LogSink> sink;
};

TEST_F(LogSinkTest, LinesThatDifferInNumbersAreCounted) {
    for (int i = 0; i < 1000; ++i)
        write("tid " + std::to_string(i) + ": 0x" + std::to_string(7 * i) + "ef is wrong", 5);
    write("tid 3: another reason", 5);
    EXPECT_EQ(read(), "tid 0: 0x0ef is wrong\ntid 3: another reason\n");
    write("tid 4: another reason", 6);
    EXPECT_EQ(read(), "999 more like this: tid 999: 0x6993ef is wrong\ntid 4: another reason\n");
    write("tid 5: another reason", 6);
    sink->report(spdlog::log_clock::time_point(std::chrono::seconds(7)));
    EXPECT_EQ(read(), "1 more like this: tid 5: another reason\n");
    for (int i = 0; i < 3; ++i)
        write("of a debugger's level", 7, spdlog::level::debug);
    EXPECT_EQ(read(), "of a debugger's level\nof a debugger's level\nof a debugger's level\n");
}

TEST_F(LogSinkTest, ReasonsWithoutEndAreOneReason) {
    std::size_t lines = 0;
    for (std::size_t i = 0; i < 3 * LogSink::max_kinds; ++i) {
        std::string word;
        for (std::size_t n = i; n != 0; n /= 10)
            word += static_cast<char>('k' + n % 10);
        write(word);
        const std::string text = read();
        lines += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    }
    EXPECT_EQ(lines, LogSink::max_kinds + 1);
    write("at last", 1);
    EXPECT_EQ(read().find(std::to_string(2 * LogSink::max_kinds - 1) + " more like this: "), 0U);
}

/// It would stop all cards. A timeout of the test is a failure, too.
TEST_F(LogSinkTest, LinesThatAreNotReadAreDropped) {
    for (int i = 0; i < 20'000; ++i)
        write("a line of a certain length", i);
    const std::string kept = read();
    EXPECT_GE(kept.size(), 4096U);
    const auto lines = std::count(kept.begin(), kept.end(), '\n');
    write("the next one", -1);
    EXPECT_EQ(read(), std::to_string(20'000 - lines) +
                          " lines of the log were dropped, which were not read\nthe next one\n");
    const std::string longer(3 * LogSink::max_line, 'l');
    write(longer);
    EXPECT_LE(read().size(), LogSink::max_line);
}

} // namespace
} // namespace t3sim
