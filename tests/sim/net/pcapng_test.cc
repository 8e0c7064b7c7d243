// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// tshark reads the written files.
#include "sim/net/pcapng.hh"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/sim/net/recording_end.hh"

namespace t3sim {
namespace {

std::string output_of(const std::string& command) {
    std::string text;
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    char piece[4096];
    while (std::fgets(piece, sizeof piece, pipe.get()))
        text += piece;
    return text;
}

struct PcapngTest : testing::Test {
    PcapngTest() {
        wire.attach(a, "a.0");
        wire.attach(b, "b.1");
    }
    void SetUp() override {
        if (std::system("command -v tshark >/dev/null") != 0) // NOLINT(cert-env33-c)
            GTEST_SKIP() << "tshark is not installed";
        char name[] = "/tmp/t3sim-pcapng-XXXXXX";
        directory = mkdtemp(name);
        path = directory / "wire.pcapng";
    }
    void TearDown() override {
        if (!directory.empty())
            std::filesystem::remove_all(directory);
    }
    std::string tshark(const std::string& file, const std::string& fields) {
        return output_of("tshark -n -r " + file + " -T fields -E separator=/s " + fields +
                         " 2>&1 | grep -v 'as user'");
    }

    EventQueue queue;
    Wire wire{queue, "w"};
    RecordingEnd a{queue}, b{queue};
    std::filesystem::path directory, path;
};

TEST_F(PcapngTest, TsharkReadsInterfacesTimesLengthsAndComments) {
    PcapngWriter writer(queue, wire, path);
    wire.send(a, numbered(1, 60));
    queue.advance(1'000'000'007);
    wire.send(b, numbered(2, 1514));
    wire.impair(0, {.loss = 1});
    wire.send(a, numbered(3, 61));
    // The writer still runs: the file must already contain every frame.
    EXPECT_EQ(
        tshark(path,
               "-e frame.number -e frame.interface_name -e frame.len -e frame.time_delta -e frame.comment"),
        "1 a.0 60 0.000000000 \n"
        "2 b.1 1514 1.000000007 \n"
        "3 a.0 61 0.000000000 lost\n");
}

TEST_F(PcapngTest, AnEmptyCaptureIsAValidFile) {
    PcapngWriter writer(queue, wire, path);
    EXPECT_EQ(tshark(path, "-e frame.number"), "");
}

TEST_F(PcapngTest, APortPluggedInLaterGetsItsInterface) {
    RecordingEnd late(queue);
    PcapngWriter writer(queue, wire, path);
    wire.send(a, numbered(1));
    wire.attach(late, "late");
    wire.send(late, numbered(2));
    EXPECT_EQ(tshark(path, "-e frame.interface_name"), "a.0\nlate\n");
}

TEST_F(PcapngTest, TheLimitKeepsTheNewestFrames) {
    constexpr std::uint64_t limit = 20000;
    PcapngWriter writer(queue, wire, path, limit);
    for (std::uint32_t i = 0; i < 1000; i++)
        wire.send(a, numbered(i, 200));
    const auto old = directory / "wire.old.pcapng";
    ASSERT_TRUE(std::filesystem::exists(old));
    EXPECT_LE(std::filesystem::file_size(path) + std::filesystem::file_size(old), limit);
    EXPECT_GE(std::filesystem::file_size(old), limit / 4);
    const std::string last =
        output_of("tshark -n -r " + path.string() + " -x 2>/dev/null | grep ^0000 | tail -1");
    EXPECT_EQ(last.substr(6, 11), "00 00 03 e7") << "frame 999";
    EXPECT_NE(tshark(old, "-e frame.number"), "");
}

TEST_F(PcapngTest, DestructorStopsTheCapture) {
    std::make_unique<PcapngWriter>(queue, wire, path).reset();
    wire.send(a, numbered(1));
    EXPECT_EQ(tshark(path, "-e frame.number"), "");
}

TEST_F(PcapngTest, UnwritablePathIsReported) {
    try {
        const PcapngWriter writer(queue, wire, "/proc/nowhere/x.pcapng");
        FAIL() << "opened";
    } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "cannot write '/proc/nowhere/x.pcapng': No such file or directory");
    }
}

} // namespace
} // namespace t3sim
