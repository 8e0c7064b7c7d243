// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Toe with the TCP of the running kernel as its peer: a TAP device in a network namespace of its own,
// sockets at the kernel's side, CPL messages at the other, and a Wire between, so that frames can be impaired
// and captured. Skipped if namespaces or TAP are not permitted.
//
// At the end of a test tshark checks the captured frames (see labkit/wirecheck.py).
#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <random>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sim/net/pcapng.hh"
#include "sim/net/wire.hh"
#include "sim/tcp/wire.hh"
#include "tests/sim/toe/lab.hh"

namespace t3sim::test {

using namespace std::chrono_literals;

class Handle {
public:
    Handle() = default;
    explicit Handle(int fd) : fd_(fd) {}
    ~Handle() { close(); }
    Handle(Handle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Handle& operator=(Handle&& other) noexcept {
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

inline sockaddr_in address(const char* ip, std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    inet_pton(AF_INET, ip, &a.sin_addr);
    return a;
}

template <class Address> sockaddr* raw(Address& a) {
    return reinterpret_cast<sockaddr*>(&a);
}

/// struct virtio_net_hdr, whose own header file is not C++.
struct VirtioNetHeader {
    static constexpr std::uint8_t needs_checksum = 1;
    std::uint8_t flags, gso_type;
    std::uint16_t header_length, gso_size, checksum_start, checksum_offset;
};
static_assert(sizeof(VirtioNetHeader) == 10);

class LinuxPeer : public testing::Test, public CardAndScript {
protected:
    static constexpr unsigned from_card = 0, from_kernel = 1; ///< ports of the wire
    /// The peer of `connected()` and the listener of `connected_to_card()`.
    static constexpr std::uint16_t kernels_port = 7471, cards_port = 50000;

    void SetUp() override {
        if (unshare(CLONE_NEWNET) != 0)
            GTEST_SKIP() << "no network namespaces: " << std::strerror(errno);
        control_ = Handle(socket(AF_INET, SOCK_DGRAM, 0));
        tap_ = Handle(::open("/dev/net/tun", O_RDWR | O_NONBLOCK));
        ifreq r = request();
        r.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
        if (tap_ < 0 || ioctl(tap_, TUNSETIFF, &r) != 0 || ioctl(tap_, TUNSETOFFLOAD, TUN_F_CSUM) != 0)
            GTEST_SKIP() << "no TAP devices: " << std::strerror(errno);

        const Buffer mac = words("00074333 4400"); // the script's, so L2T entry 1 fits
        std::memcpy(r.ifr_hwaddr.sa_data, mac.data(), mac.size());
        r.ifr_hwaddr.sa_family = ARPHRD_ETHER;
        ASSERT_EQ(ioctl(control_, SIOCSIFHWADDR, &r), 0);
        auto ip = address("10.0.0.2", 0);
        std::memcpy(&r.ifr_addr, &ip, sizeof ip);
        ASSERT_EQ(ioctl(control_, SIOCSIFADDR, &r), 0);
        ip = address("255.255.255.0", 0);
        std::memcpy(&r.ifr_netmask, &ip, sizeof ip);
        ASSERT_EQ(ioctl(control_, SIOCSIFNETMASK, &r), 0);
        r.ifr_flags = IFF_UP | IFF_RUNNING;
        ASSERT_EQ(ioctl(control_, SIOCSIFFLAGS, &r), 0);
        arpreq neighbour{};
        ip = address("10.0.0.1", 0);
        std::memcpy(&neighbour.arp_pa, &ip, sizeof ip);
        neighbour.arp_ha.sa_family = ARPHRD_ETHER;
        std::memcpy(neighbour.arp_ha.sa_data, words("00074311 2200").data(), 6);
        neighbour.arp_flags = ATF_PERM | ATF_COM;
        std::strcpy(neighbour.arp_dev, "card0");
        ASSERT_EQ(ioctl(control_, SIOCSARP, &neighbour), 0);

        wire_.attach(card_end_, "card");
        wire_.attach(kernel_end_, "kernel");
        a.mac.wire = [this](unsigned, const Buffer& frame) {
            a.mac.frames.clear();
            wire_.send(card_end_, frame);
        };
        capture_file_ = std::filesystem::temp_directory_path() /
                        ("t3-linux-peer-" + std::to_string(getpid()) + ".pcapng");
        capture_.emplace(events, wire_, capture_file_.string());
    }

    void TearDown() override {
        if (!capture_)
            return;
        capture_.reset();
        if (audited && !IsSkipped() && std::system("command -v tshark >/dev/null") == 0) {
            const std::string command =
                T3LAB " check-wire --connections 0 " + capture_file_.string() + " 2>&1";
            std::string report;
            FILE* const output = popen(command.c_str(), "r");
            ASSERT_NE(output, nullptr);
            char buffer[512];
            while (std::fgets(buffer, sizeof buffer, output))
                report += buffer;
            EXPECT_EQ(pclose(output), 0) << report;
        }
        std::filesystem::remove(capture_file_);
    }

    /// Before the first connection.
    void set_mtu(int kernels, std::uint16_t cards, char index) {
        ifreq r = request();
        r.ifr_mtu = kernels;
        ASSERT_EQ(ioctl(control_, SIOCSIFMTU, &r), 0);
        a.toe.params().port_mtu = {cards, cards};
        mtu_index_ = index;
    }
    /// Sets a sysctl of the test's namespace. False: it cannot be set here.
    static bool sysctl(const std::string& name, const std::string& value) {
        std::ofstream file("/proc/sys/net/ipv4/" + name);
        file << value << std::flush;
        return file.good();
    }
    void impair(unsigned port, const Impairments& what) { wire_.impair(port, what); }
    void watch(Tap& tap) { wire_.add_tap(tap); }
    [[nodiscard]] const Wire& wire() const { return wire_; }

    /// Runs wire and clock until @p done, or for @p most. False: timeout.
    template <class Done> bool until(Done done, std::chrono::milliseconds most = 5s) {
        const auto deadline = std::chrono::steady_clock::now() + most;
        while (!done()) {
            if (std::chrono::steady_clock::now() > deadline)
                return false;
            advance();
            pollfd p{tap_, POLLIN, 0};
            poll(&p, 1, 1);
            while (read_frame())
                ;
            advance();
            take_messages();
        }
        return true;
    }

    /// Processes data and credits; appends the opcodes of all other messages to `seen`.
    void take_messages() {
        while (!a.sge.messages.empty()) {
            const Buffer m = std::move(a.sge.messages.front().bytes);
            a.sge.messages.pop_front();
            if (on_message && on_message(m))
                continue;
            if (m[0] == 0x39) {
                from_peer.insert(from_peer.end(), m.begin() + 16, m.end());
                if (reading)
                    a.control(rx_data_ack(tid, static_cast<std::uint32_t>(m.size() - 16), false));
            } else if (m[0] == 0xa0) {
                outstanding -= be16(&m[4]);
            } else {
                seen += text(Bytes(m).first(1)) + ' ';
                last = text(m);
            }
        }
    }

    static Handle listening_socket(int backlog = 4) {
        Handle s(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        const int on = 1;
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        auto at = address("10.0.0.2", kernels_port);
        EXPECT_EQ(bind(s, raw(at), sizeof at), 0);
        EXPECT_EQ(listen(s, backlog), 0);
        return s;
    }
    /// Active open by the card; the kernel's end.
    Handle connected() {
        const Handle server = listening_socket();
        seen.clear();
        a.control(with_mtu_index(TwoCards::act_open));
        Handle s;
        EXPECT_TRUE(
            until([&] { return (s = Handle(accept4(server, nullptr, nullptr, SOCK_NONBLOCK))) >= 0; }));
        EXPECT_TRUE(until([&] { return seen == "50 "; })) << seen;
        seen.clear();
        return s;
    }
    static Handle connecting_socket() {
        Handle s(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        auto to = address("10.0.0.1", cards_port);
        ::connect(s, raw(to), sizeof to);
        return s;
    }
    void listen_at_the_card() {
        a.control(
            "01c00000 81000005 01003d7c c3500000 00000000 00000000 00010001 00100000 00000000 00080000");
    }
    void accept_at_the_card(Tid id) {
        a.control(with_mtu_index("01c00000 81000004 " + word(0x02000000 | id) +
                                 " 00008c00 00008c00 0a000002 804d0010 10100000"));
    }
    /// Passive open at the card; the kernel's end.
    Handle connected_to_card() {
        seen.clear();
        listen_at_the_card();
        Handle s = connecting_socket();
        EXPECT_TRUE(until([&] { return seen == "41 70 "; })) << seen;
        accept_at_the_card(tid);
        EXPECT_TRUE(until([&] { return seen == "41 70 51 "; })) << seen;
        seen.clear();
        return s;
    }
    static tcp_info info_of(const Handle& s) {
        tcp_info info{};
        socklen_t length = sizeof info;
        getsockopt(s, IPPROTO_TCP, TCP_INFO, &info, &length);
        return info;
    }

    /// @p size bytes each way at a time, compared.
    void exchange(const Handle& s, std::size_t size, std::chrono::milliseconds most = 5s) {
        Pattern there(1), back(2);
        from_peer.clear();
        std::size_t sent_by_card = 0, sent_by_peer = 0, got_by_card = 0, got_by_peer = 0;
        bool equal = true;
        std::vector<std::uint8_t> buffer(65536);
        const bool complete = until(
            [&] {
                while (sent_by_card < size && outstanding < 8) {
                    const std::size_t n = std::min<std::size_t>(size - sent_by_card, 1 + random_() % 9000);
                    a.offload(
                        tx_data(tid, std::string(reinterpret_cast<const char*>(there.at(sent_by_card)), n)));
                    sent_by_card += n;
                    ++outstanding;
                    take_messages();
                }
                while (sent_by_peer < size) {
                    const std::size_t piece = std::min<std::size_t>(size - sent_by_peer, 30'000);
                    const auto n = ::send(s, back.at(sent_by_peer), piece, MSG_NOSIGNAL);
                    if (n <= 0)
                        break;
                    sent_by_peer += static_cast<std::size_t>(n);
                }
                for (ssize_t n; (n = recv(s, buffer.data(), 30'000, 0)) > 0;) {
                    equal &=
                        std::memcmp(buffer.data(), there.at(got_by_peer), static_cast<std::size_t>(n)) == 0;
                    got_by_peer += static_cast<std::size_t>(n);
                }
                for (std::size_t at = 0; at < from_peer.size();) {
                    const std::size_t n = std::min<std::size_t>(from_peer.size() - at, 30'000);
                    equal &= std::memcmp(&from_peer[at], back.at(got_by_card), n) == 0;
                    at += n;
                    got_by_card += n;
                }
                from_peer.clear();
                return !equal || (got_by_peer >= size && got_by_card >= size);
            },
            most);
        EXPECT_TRUE(complete) << got_by_peer << " and " << got_by_card << " of " << size;
        EXPECT_TRUE(equal) << "data differs from the sent data within the first " << got_by_peer << " or "
                           << got_by_card;
        EXPECT_EQ(got_by_peer, size);
        EXPECT_EQ(got_by_card, size);
    }
    /// The result of recv(): end of file, or the error.
    int end_of(const Handle& s) {
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

    Tid tid = 0; ///< of the current connection
    Buffer from_peer;
    std::string seen, last;
    int outstanding = 0;
    bool reading = true;
    bool audited = true;                                ///< by tshark, at the end
    std::function<bool(const Buffer&)> on_message = {}; ///< true: the message is handled

private:
    /// An endless pseudo-random stream with access to any 30,000 bytes.
    class Pattern {
    public:
        explicit Pattern(unsigned seed) : bytes_(period + 30'000) {
            std::mt19937 random(seed);
            for (std::size_t i = 0; i < period; ++i)
                bytes_[i] = static_cast<std::uint8_t>(random());
            std::copy_n(bytes_.begin(), 30'000, bytes_.begin() + period);
        }
        [[nodiscard]] const std::uint8_t* at(std::size_t position) const {
            return &bytes_[position % period];
        }

    private:
        static constexpr std::size_t period = 65'521;
        Buffer bytes_;
    };
    struct CardEnd : Endpoint {
        explicit CardEnd(LinuxPeer& peer) : peer(peer) {}
        void frame_in(Bytes frame) override { peer.a.toe.frame_in(0, frame); }
        void carrier(bool) override {}
        LinuxPeer& peer;
    };
    struct KernelEnd : Endpoint {
        explicit KernelEnd(LinuxPeer& peer) : peer(peer) {}
        void frame_in(Bytes frame) override {
            VirtioNetHeader header{};
            const iovec parts[] = {{&header, sizeof header},
                                   {const_cast<std::uint8_t*>(frame.data()), frame.size()}};
            EXPECT_EQ(writev(peer.tap_, parts, 2), static_cast<ssize_t>(sizeof header + frame.size()));
        }
        void carrier(bool) override {}
        LinuxPeer& peer;
    };

    /// Reads the next frame of the kernel, if there is one. A TCP retransmission may rewrite the header of a
    /// frame that waits in the TAP queue, after its checksum was computed. So checksum offload is enabled and
    /// this function computes it.
    bool read_frame() {
        VirtioNetHeader header{};
        std::array<std::uint8_t, 16384> frame;
        const iovec parts[] = {{&header, sizeof header}, {frame.data(), frame.size()}};
        const ssize_t n = readv(tap_, parts, 2);
        if (n <= static_cast<ssize_t>(sizeof header))
            return false;
        const auto bytes = std::span(frame).first(static_cast<std::size_t>(n) - sizeof header);
        if (header.flags & VirtioNetHeader::needs_checksum) {
            const std::uint16_t checksum = tcp::fold(tcp::sum(bytes.subspan(header.checksum_start)));
            bytes[header.checksum_start + header.checksum_offset] = static_cast<std::uint8_t>(checksum >> 8);
            bytes[header.checksum_start + header.checksum_offset + 1U] = static_cast<std::uint8_t>(checksum);
        }
        wire_.send(kernel_end_, bytes);
        return true;
    }

    static ifreq request() {
        ifreq r{};
        std::strcpy(r.ifr_name, "card0");
        return r;
    }
    /// The top digit of opt0h.
    [[nodiscard]] std::string with_mtu_index(std::string wr) const {
        wr[wr.find("804d0010")] = mtu_index_;
        return wr;
    }
    void advance() {
        const auto now = std::chrono::steady_clock::now() - start_;
        events.advance(static_cast<Time>(std::chrono::nanoseconds(now).count()));
    }

    Handle tap_, control_;
    char mtu_index_ = '8';
    Wire wire_{events, "tap"};
    CardEnd card_end_{*this};
    KernelEnd kernel_end_{*this};
    std::filesystem::path capture_file_;
    std::optional<PcapngWriter> capture_;
    std::mt19937 random_{11};
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace t3sim::test
