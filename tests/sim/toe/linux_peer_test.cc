// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Toe against the TCP of the kernel that runs this test: a TAP device in a network namespace of its own,
// sockets on the kernel's side, CPL messages on the other. Skipped where namespaces or TAP are not allowed.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <random>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/sim/toe/lab.hh"

namespace t3sim::test {
namespace {

using namespace std::chrono_literals;

class Fd {
public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    ~Fd() { close(); }
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    operator int() const { return fd_; }
    void close() {
        if (fd_ >= 0)
            ::close(std::exchange(fd_, -1));
    }

private:
    int fd_ = -1;
};

sockaddr_in address(const char* ip, std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    inet_pton(AF_INET, ip, &a.sin_addr);
    return a;
}

template <class Address> sockaddr* raw(Address& a) {
    return reinterpret_cast<sockaddr*>(&a);
}

class LinuxPeer : public testing::Test, public CardAndScript {
protected:
    void SetUp() override {
        if (unshare(CLONE_NEWNET) != 0)
            GTEST_SKIP() << "no network namespaces: " << std::strerror(errno);
        tap_ = Fd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK));
        ifreq r{};
        r.ifr_flags = IFF_TAP | IFF_NO_PI;
        std::strcpy(r.ifr_name, "card0");
        if (tap_ < 0 || ioctl(tap_, TUNSETIFF, &r) != 0)
            GTEST_SKIP() << "no TAP devices: " << std::strerror(errno);

        const Fd control(socket(AF_INET, SOCK_DGRAM, 0));
        const Buffer mac = words("00074333 4400"); // the script's, so L2T entry 1 fits
        std::memcpy(r.ifr_hwaddr.sa_data, mac.data(), mac.size());
        r.ifr_hwaddr.sa_family = ARPHRD_ETHER;
        ASSERT_EQ(ioctl(control, SIOCSIFHWADDR, &r), 0);
        auto ip = address("10.0.0.2", 0);
        std::memcpy(&r.ifr_addr, &ip, sizeof ip);
        ASSERT_EQ(ioctl(control, SIOCSIFADDR, &r), 0);
        ip = address("255.255.255.0", 0);
        std::memcpy(&r.ifr_netmask, &ip, sizeof ip);
        ASSERT_EQ(ioctl(control, SIOCSIFNETMASK, &r), 0);
        r.ifr_flags = IFF_UP | IFF_RUNNING;
        ASSERT_EQ(ioctl(control, SIOCSIFFLAGS, &r), 0);
        arpreq neighbour{};
        ip = address("10.0.0.1", 0);
        std::memcpy(&neighbour.arp_pa, &ip, sizeof ip);
        neighbour.arp_ha.sa_family = ARPHRD_ETHER;
        std::memcpy(neighbour.arp_ha.sa_data, words("00074311 2200").data(), 6);
        neighbour.arp_flags = ATF_PERM | ATF_COM;
        std::strcpy(neighbour.arp_dev, "card0");
        ASSERT_EQ(ioctl(control, SIOCSARP, &neighbour), 0);

        a.mac.wire = [this](unsigned, const Buffer& frame) {
            a.mac.frames.clear();
            if (lost())
                return;
            EXPECT_EQ(write(tap_, frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
        };
    }

    /// Runs wire and clock until @p done, or for @p most. False: it did not come about.
    template <class Done> bool until(Done done, std::chrono::milliseconds most = 5s) {
        const auto deadline = std::chrono::steady_clock::now() + most;
        while (!done()) {
            const auto now = std::chrono::steady_clock::now();
            if (now > deadline)
                return false;
            events.advance(static_cast<Time>(std::chrono::nanoseconds(now - start_).count()));
            pollfd p{tap_, POLLIN, 0};
            poll(&p, 1, 1);
            std::uint8_t frame[2048];
            for (ssize_t n; (n = read(tap_, frame, sizeof frame)) > 0;)
                if (!lost())
                    a.toe.frame_in(0, Bytes(frame, static_cast<std::size_t>(n)));
            take_messages();
        }
        return true;
    }
    bool lost() { return loss_percent > 0 && random_() % 100 < loss_percent; }

    /// Keeps the stream and the credits apart from the other messages, whose opcodes go to `seen`.
    void take_messages() {
        while (!a.sge.messages.empty()) {
            const Buffer m = std::move(a.sge.messages.front().bytes);
            a.sge.messages.pop_front();
            if (m[0] == 0x39) {
                from_peer.insert(from_peer.end(), m.begin() + 16, m.end());
                if (reading)
                    a.control(rx_data_ack(0, static_cast<std::uint32_t>(m.size() - 16), false));
            } else if (m[0] == 0xa0) {
                outstanding -= be16(&m[4]);
            } else {
                seen += text(Bytes(m).first(1)) + ' ';
                last = text(m);
            }
        }
    }

    Fd listening_socket() {
        Fd s(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        auto at = address("10.0.0.2", 7471);
        EXPECT_EQ(bind(s, raw(at), sizeof at), 0);
        EXPECT_EQ(listen(s, 4), 0);
        return s;
    }
    /// Active open by the card; the kernel's end.
    Fd connected() {
        const Fd server = listening_socket();
        a.control(TwoCards::act_open);
        Fd s;
        EXPECT_TRUE(until([&] { return (s = Fd(accept4(server, nullptr, nullptr, SOCK_NONBLOCK))) >= 0; }));
        EXPECT_TRUE(until([&] { return seen == "50 "; })) << seen;
        seen.clear();
        return s;
    }
    /// Passive open at the card; the kernel's end.
    Fd connected_to_card() {
        a.control(
            "01c00000 81000005 01003d7c c3500000 00000000 00000000 00010001 00100000 00000000 00080000");
        Fd s(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        auto to = address("10.0.0.1", 50000);
        ::connect(s, raw(to), sizeof to);
        EXPECT_TRUE(until([&] { return seen == "41 70 "; })) << seen;
        CardAndScript::accept();
        EXPECT_TRUE(until([&] { return seen == "41 70 51 "; })) << seen;
        seen.clear();
        return s;
    }

    /// @p size bytes each way at a time, compared.
    void exchange(const Fd& s, std::size_t size) {
        Buffer there(size), back(size), received;
        for (std::size_t i = 0; i < size; ++i) {
            there[i] = static_cast<std::uint8_t>(random_());
            back[i] = static_cast<std::uint8_t>(random_());
        }
        from_peer.clear();
        std::size_t sent_by_card = 0, sent_by_peer = 0;
        const bool complete = until([&] {
            while (sent_by_card < size && outstanding < 8) {
                const std::size_t n = std::min<std::size_t>(size - sent_by_card, 1 + random_() % 9000);
                a.offload(tx_data(0, std::string(&there[sent_by_card], &there[sent_by_card] + n)));
                sent_by_card += n;
                ++outstanding;
                take_messages();
            }
            if (sent_by_peer < size)
                if (const auto n = ::send(s, &back[sent_by_peer], size - sent_by_peer, MSG_NOSIGNAL); n > 0)
                    sent_by_peer += static_cast<std::size_t>(n);
            std::uint8_t buffer[65536];
            for (ssize_t n; (n = recv(s, buffer, sizeof buffer, 0)) > 0;)
                received.insert(received.end(), buffer, buffer + n);
            return received.size() >= size && from_peer.size() >= size;
        });
        EXPECT_TRUE(complete) << received.size() << " and " << from_peer.size() << " of " << size;
        EXPECT_TRUE(received == there);
        EXPECT_TRUE(from_peer == back);
    }
    /// recv() says end of file, or the error.
    int end_of(const Fd& s) {
        int result = -1;
        until([&] {
            std::uint8_t byte;
            const ssize_t n = recv(s, &byte, 1, 0);
            result = n == 0 ? 0 : errno;
            return n == 0 || (n < 0 && errno != EAGAIN);
        });
        take_messages();
        return result;
    }

    Buffer from_peer;
    std::string seen, last;
    int outstanding = 0;
    bool reading = true;
    unsigned loss_percent = 0;

private:
    Fd tap_;
    std::mt19937 random_{11};
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST_F(LinuxPeer, ActiveOpenRefused) {
    a.control(TwoCards::act_open);
    ASSERT_TRUE(until([&] { return !seen.empty(); }));
    EXPECT_EQ(last, "40000000 c3501d2f 0a000001 0a000002 00010000 00000014");
}

TEST_F(LinuxPeer, ActiveOpenDataBothWaysAndClose) {
    Fd s = connected();
    tcp_info info{};
    socklen_t length = sizeof info;
    getsockopt(s, IPPROTO_TCP, TCP_INFO, &info, &length);
    EXPECT_EQ(info.tcpi_snd_mss, 1460U);
    EXPECT_EQ(info.tcpi_options & (TCPI_OPT_TIMESTAMPS | TCPI_OPT_SACK), 0) << "never negotiated";
    EXPECT_EQ(info.tcpi_snd_wscale, 3);
    exchange(s, 2'000'000);
    a.offload(close_con(0));
    EXPECT_EQ(end_of(s), 0);
    s.close();
    EXPECT_TRUE(until([&] { return seen == "32 26 "; })) << seen;
}

TEST_F(LinuxPeer, PassiveOpenDataBothWaysAndPeerCloses) {
    Fd s = connected_to_card();
    exchange(s, 500'000);
    shutdown(s, SHUT_WR);
    EXPECT_TRUE(until([&] { return seen == "26 "; })) << seen;
    a.offload(tx_data(0, "half closed, still heard"));
    a.offload(close_con(0));
    std::string got;
    EXPECT_TRUE(until([&] {
        char buffer[64];
        const auto n = recv(s, buffer, sizeof buffer, 0);
        if (n > 0)
            got.append(buffer, static_cast<std::size_t>(n));
        return n == 0;
    }));
    EXPECT_EQ(got, "half closed, still heard");
    EXPECT_TRUE(until([&] { return seen == "26 32 "; })) << seen;
}

TEST_F(LinuxPeer, RequestByteByByte) {
    Fd s = connected_to_card();
    const int on = 1;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const std::string request = "MPA ID Req Frame";
    for (std::size_t i = 0; i < request.size(); ++i) {
        ASSERT_EQ(::send(s, &request[i], 1, 0), 1);
        ASSERT_TRUE(until([&] { return from_peer.size() == i + 1; }));
    }
    EXPECT_EQ(std::string(from_peer.begin(), from_peer.end()), request);
}

TEST_F(LinuxPeer, ResetByThePeer) {
    Fd s = connected();
    const linger at_once{1, 0};
    setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    s.close();
    EXPECT_TRUE(until([&] { return seen == "30 30 "; })) << seen;
    EXPECT_EQ(last, "30000000 00000000 00140000 00000000");
}

TEST_F(LinuxPeer, AbortByTheCard) {
    Fd s = connected();
    a.offload(abort_req(0));
    EXPECT_EQ(end_of(s), ECONNRESET);
    EXPECT_EQ(seen, "31 31 ");
}

TEST_F(LinuxPeer, HalfOpenTidReleaseRefusesTheConnection) {
    a.control("01c00000 81000005 01003d7c c3500000 00000000 00000000 00010001 00100000 00000000 00080000");
    Fd s(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    auto to = address("10.0.0.1", 50000);
    ::connect(s, raw(to), sizeof to);
    ASSERT_TRUE(until([&] { return seen == "41 70 "; }));
    a.control(tid_release(0));
    EXPECT_EQ(end_of(s), ECONNREFUSED);
}

TEST_F(LinuxPeer, HostThatDoesNotReadClosesTheWindow) {
    Fd s = connected();
    reading = false;
    const Buffer data(1'000'000, 'x');
    std::size_t sent = 0;
    EXPECT_FALSE(until(
        [&] {
            if (const auto n = ::send(s, data.data(), data.size() - sent, MSG_NOSIGNAL); n > 0)
                sent += static_cast<std::size_t>(n);
            return from_peer.size() > (256U << 10);
        },
        500ms));
    EXPECT_GT(from_peer.size(), 250U << 10);
    reading = true;
    a.control(rx_data_ack(0, static_cast<std::uint32_t>(from_peer.size())));
    EXPECT_TRUE(until([&] { return from_peer.size() >= sent; })) << from_peer.size() << " of " << sent;
}

TEST_F(LinuxPeer, OnePercentLossBothWays) {
    Fd s = connected();
    loss_percent = 1;
    exchange(s, 500'000);
}

} // namespace
} // namespace t3sim::test
