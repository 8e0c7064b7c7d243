// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Toe with the TCP of the running kernel as its peer: a TAP device in a network namespace of its own,
// sockets at the kernel's side, CPL messages at the other, and a Wire between, so that frames can be impaired
// and captured. Skipped if namespaces or TAP are not permitted.
//
// At the end of a test tshark checks the captured frames (see labkit/wirecheck.py).
#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <netinet/tcp.h>
#include <poll.h>
#include <random>

#include "sim/net/pcapng.hh"
#include "sim/net/wire.hh"
#include "tests/sim/linux_tap.hh"
#include "tests/sim/toe/lab.hh"

namespace t3sim::test {

using namespace std::chrono_literals;

class LinuxPeer : public testing::Test, public CardAndScript {
protected:
    static constexpr unsigned from_card = 0, from_kernel = 1; ///< ports of the wire
    /// The peer of `connected()` and the listener of `connected_to_card()`.
    static constexpr std::uint16_t kernels_port = 7471, cards_port = 50000;

    void SetUp() override {
        if (const std::string why = tap_.open(); !why.empty())
            GTEST_SKIP() << why;
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
        tap_.set_mtu(kernels);
        a.toe.params().port_mtu = {cards, cards};
        mtu_index_ = index;
    }
    void impair(unsigned port, const Impairments& what) { wire_.impair(port, what); }
    void watch(WireObserver& observer) { wire_.add_observer(observer); }
    [[nodiscard]] const Wire& wire() const { return wire_; }

    /// Runs wire and clock until @p done, or for @p most. False: timeout.
    template <class Done> bool until(Done done, std::chrono::milliseconds most = 5s) {
        const auto deadline = std::chrono::steady_clock::now() + most;
        while (!done()) {
            if (std::chrono::steady_clock::now() > deadline)
                return false;
            advance();
            pollfd p{tap_.fd(), POLLIN, 0};
            poll(&p, 1, 1);
            for (Bytes frame; !(frame = tap_.read()).empty();)
                wire_.send(kernel_end_, frame);
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
        void frame_in(Bytes frame) override { peer.tap_.write(frame); }
        void carrier(bool) override {}
        LinuxPeer& peer;
    };

    /// The top digit of opt0h.
    [[nodiscard]] std::string with_mtu_index(std::string wr) const {
        wr[wr.find("804d0010")] = mtu_index_;
        return wr;
    }
    void advance() {
        const auto now = std::chrono::steady_clock::now() - start_;
        events.advance(static_cast<Time>(std::chrono::nanoseconds(now).count()));
    }

    LinuxTap tap_;
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
