// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/udp_socket.hh"

#include <memory>
#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "sim/net/wire.hh"
#include "tests/sim/net/recording_end.hh"

namespace t3sim {
namespace {

struct Socket {
    Socket() { open(); }
    void open() { // again: at the same port
        fd.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        socklen_t length = sizeof(address);
        if (bind(fd.get(), generic(), length) != 0 || getsockname(fd.get(), generic(), &length) != 0)
            throw std::runtime_error("no UDP port on the loopback interface");
    }
    sockaddr* generic() { return reinterpret_cast<sockaddr*>(&address); }
    [[nodiscard]] std::string port() const { return std::to_string(ntohs(address.sin_port)); }
    void send(Bytes bytes, Socket& to) {
        EXPECT_EQ(sendto(fd.get(), bytes.data(), bytes.size(), 0, to.generic(), sizeof(to.address)),
                  static_cast<ssize_t>(bytes.size()));
    }
    Buffer receive() {
        Buffer got(2000);
        const ssize_t n = recv(fd.get(), got.data(), got.size(), 0);
        got.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
        return got;
    }

    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    Fd fd;
};

struct UdpSocketTest : testing::Test {
    UdpSocketTest() {
        own.fd.reset(); // its port is free now
        open();
        wire.attach(*end, "udp");
        wire.attach(card, "a.0");
    }
    void open() { end = std::make_unique<UdpSocket>(loop, wire, own.port() + "@127.0.0.1:" + peer.port()); }
    void settle() {
        for (int i = 0; i < 20; i++)
            loop.run_once(0);
    }

    EventLoop loop;
    Wire wire{loop.queue(), "w"};
    RecordingEnd card{loop.queue()};
    Socket own, peer, third;
    std::unique_ptr<UdpSocket> end;
};

TEST_F(UdpSocketTest, AFrameIsADatagramBothWays) {
    peer.send(numbered(1), own);
    peer.send(numbered(2, 1514), own);
    settle();
    EXPECT_EQ(card.frames, (Frames{numbered(1), numbered(2, 1514)}));
    wire.send(card, numbered(3, 1514));
    settle();
    EXPECT_EQ(peer.receive(), numbered(3, 1514));
}

TEST_F(UdpSocketTest, OthersThanThePeerAndEmptyDatagramsAreIgnored) {
    third.send(numbered(1), own);
    peer.send({}, own);
    peer.send(numbered(2), own);
    settle();
    EXPECT_EQ(card.frames, Frames{numbered(2)});
}

TEST_F(UdpSocketTest, FramesToAPeerThatIsNotThereAreLost) {
    peer.fd.reset();
    for (int i = 0; i < 3; i++) {
        wire.send(card, numbered(1));
        settle();
    }
    peer.open();
    wire.send(card, numbered(2));
    settle();
    EXPECT_EQ(peer.receive(), numbered(2));
}

TEST_F(UdpSocketTest, TwoEndsOfOneWireOverIpv6) {
    Socket left, right;
    left.fd.reset();
    right.fd.reset();
    Wire second{loop.queue(), "v"};
    RecordingEnd far{loop.queue()};
    UdpSocket a(loop, wire, left.port() + "@[::1]:" + right.port());
    UdpSocket b(loop, second, right.port() + "@[::1]:" + left.port());
    wire.attach(a, "udp6");
    second.attach(b, "udp6");
    second.attach(far, "b.0");
    wire.send(card, numbered(7));
    settle();
    EXPECT_EQ(far.frames, Frames{numbered(7)});
}

TEST_F(UdpSocketTest, AddressesThatAreNoneAreRefused) {
    for (const char* where : {"", "7000", "host:", ":7000", "@127.0.0.1:7000", "1@:7000", "127.0.0.1:port"})
        EXPECT_THROW(UdpSocket(loop, wire, where), std::runtime_error) << where;
    EXPECT_THROW(open(), std::runtime_error) << "the port is taken";
}

} // namespace
} // namespace t3sim
