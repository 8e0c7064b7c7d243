// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/qemu_socket.hh"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "sim/net/wire.hh"
#include "tests/sim/net/recording_end.hh"
#include "tests/sim/waiters.hh"

namespace t3sim {
namespace {

struct QemuSocketTest : testing::Test {
    QemuSocketTest() {
        char name[] = "/tmp/t3sim-qemu-XXXXXX";
        directory = mkdtemp(name);
        end = std::make_unique<QemuSocket>(loop, wire, directory / "n.sock");
        wire.attach(*end, "qemu");
        wire.attach(card, "a.0");
        qemu = connect_unix(directory / "n.sock");
        settle();
    }
    ~QemuSocketTest() override { std::filesystem::remove_all(directory); }

    void settle() {
        for (int i = 0; i < 20; i++)
            loop.run_once(0);
    }
    void send(Bytes bytes) {
        ASSERT_EQ(::send(qemu.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(bytes.size()));
    }
    static Buffer framed(const Buffer& frame) {
        Buffer out(4);
        put_be32(out.data(), static_cast<std::uint32_t>(frame.size()));
        out.insert(out.end(), frame.begin(), frame.end());
        return out;
    }
    Buffer receive(std::size_t size) {
        Buffer got(size);
        const ssize_t n = recv(qemu.get(), got.data(), size, MSG_DONTWAIT);
        got.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
        return got;
    }

    EventLoop loop;
    Wire wire{loop.queue(), "w"};
    RecordingEnd card{loop.queue()};
    std::filesystem::path directory;
    std::unique_ptr<QemuSocket> end;
    Fd qemu;
};

TEST_F(QemuSocketTest, FramesBothWays) {
    ASSERT_TRUE(end->connected());
    send(framed(numbered(1)));
    settle();
    EXPECT_EQ(card.frames, (Frames{numbered(1)}));
    wire.send(card, numbered(2, 100));
    settle();
    EXPECT_EQ(receive(1000), framed(numbered(2, 100)));
}

TEST_F(QemuSocketTest, FramesInPiecesAndSeveralAtOnce) {
    Buffer stream;
    for (std::uint32_t i = 0; i < 3; i++) {
        const Buffer one = framed(numbered(i, 60 + i));
        stream.insert(stream.end(), one.begin(), one.end());
    }
    send(Bytes(stream).first(70));
    settle();
    EXPECT_EQ(card.frames.size(), 1U);
    for (const std::uint8_t byte : Bytes(stream).subspan(70)) {
        send(Bytes(&byte, 1));
        loop.run_once(0);
    }
    settle();
    EXPECT_EQ(card.frames, (Frames{numbered(0, 60), numbered(1, 61), numbered(2, 62)}));
}

TEST_F(QemuSocketTest, BadLengthsEndTheConnectionAndAnotherIsAccepted) {
    send(Buffer{0xff, 0xff, 0xff, 0xff, 1});
    settle();
    EXPECT_FALSE(end->connected());
    qemu = connect_unix(directory / "n.sock");
    for (int i = 0; i < 1000 && !end->connected(); ++i)
        loop.run_once(10); // until all that the earlier one sent is closed
    EXPECT_TRUE(end->connected());
    send(framed(numbered(5)));
    settle();
    EXPECT_EQ(card.frames, (Frames{numbered(5)}));
}

TEST_F(QemuSocketTest, SlowReaderLosesOnlyCompleteFrames) {
    for (std::uint32_t i = 0; i < 2000; i++) {
        wire.send(card, numbered(i, 9000));
        loop.run_once(0);
    }
    EXPECT_GT(end->dropped(), 0U);
    Buffer stream;
    for (int idle = 0; idle < 5;) {
        settle();
        const Buffer got = receive(1 << 20);
        idle = got.empty() ? idle + 1 : 0;
        stream.insert(stream.end(), got.begin(), got.end());
    }
    EXPECT_EQ(stream.size() % 9004, 0U);
    EXPECT_EQ(stream.size() / 9004 + end->dropped(), 2000U);
    for (std::size_t at = 0; at < stream.size(); at += 9004)
        ASSERT_EQ(be32(stream.data() + at), 9000U);
}

TEST_F(QemuSocketTest, BurstOfAWindowIsQueuedForALateReader) {
    for (std::uint32_t i = 0; i < 500; i++)
        wire.send(card, numbered(i, 1514));
    settle();
    Buffer stream;
    for (int idle = 0; idle < 5;) {
        settle();
        const Buffer got = receive(1 << 16);
        idle = got.empty() ? idle + 1 : 0;
        stream.insert(stream.end(), got.begin(), got.end());
    }
    EXPECT_EQ(end->dropped(), 0U);
    Buffer expected;
    for (std::uint32_t i = 0; i < 500; i++) {
        const Buffer one = framed(numbered(i, 1514));
        expected.insert(expected.end(), one.begin(), one.end());
    }
    EXPECT_EQ(stream, expected);
}

/// Each frame wakes all that wait for QEMU's end.
TEST_F(QemuSocketTest, AQemuWhoseFramesTakeLongHasToRest) {
    test::Waiters waiters(qemu);
    std::size_t received = 0;
    EXPECT_TRUE(test::has_to_rest(
        [&] {
            received += receive(1 << 16).size();
            waiters.wait_again();
            wire.send(card, numbered(1, 96));
        },
        [&] { loop.run_once(0); }));
    for (int i = 0; i < 10'000 && received < std::size_t{40} * 100; ++i) {
        loop.run_once(1);
        received += receive(1 << 16).size();
    }
    EXPECT_EQ(received, std::size_t{40} * 100);
}

TEST_F(QemuSocketTest, WithoutQemuFramesAreDropped) {
    qemu.reset();
    settle();
    EXPECT_FALSE(end->connected());
    wire.send(card, numbered(1));
    settle();
    EXPECT_EQ(end->dropped(), 1U);
}

TEST_F(QemuSocketTest, DestructorRemovesTheSocketFile) {
    EXPECT_TRUE(std::filesystem::exists(directory / "n.sock"));
    end.reset();
    EXPECT_FALSE(std::filesystem::exists(directory / "n.sock"));
}

} // namespace
} // namespace t3sim
