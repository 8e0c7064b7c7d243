// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Toe and the kernel's TCP under different network conditions: options, MTUs, congestion control, loss,
// black holes, killed peers, much data, many connections.
#include "tests/sim/toe/linux_peer.hh"

#include <csignal>
#include <sys/wait.h>

namespace t3sim::test {
namespace {

// ---- Options of the peer
// ----------------------------------------------------------------------------------------

struct PeerOptions {
    bool sack, timestamps, scaling;
    bool reno; ///< else the kernel's default
};

class LinuxPeerOptions : public LinuxPeer, public testing::WithParamInterface<PeerOptions> {};

TEST_P(LinuxPeerOptions, EveryCombinationWorksBothWays) {
    const PeerOptions& peer = GetParam();
    if (!LinuxTap::sysctl("tcp_sack", peer.sack ? "1" : "0") ||
        !LinuxTap::sysctl("tcp_timestamps", peer.timestamps ? "1" : "0") ||
        !LinuxTap::sysctl("tcp_window_scaling", peer.scaling ? "1" : "0") ||
        (peer.reno && !LinuxTap::sysctl("tcp_congestion_control", "reno")))
        GTEST_SKIP() << "sysctls cannot be written here";
    const auto agreed_as_expected = [&](const Handle& s) {
        const tcp_info info = info_of(s);
        EXPECT_EQ(info.tcpi_options & (TCPI_OPT_TIMESTAMPS | TCPI_OPT_SACK), 0)
            << "the card never negotiates them";
        EXPECT_EQ((info.tcpi_options & TCPI_OPT_WSCALE) != 0, peer.scaling);
    };
    const Handle active = connected();
    agreed_as_expected(active);
    exchange(active, 300'000);
    tid = 1;
    const Handle passive = connected_to_card();
    agreed_as_expected(passive);
    exchange(passive, 300'000);
}
INSTANTIATE_TEST_SUITE_P(
    Sysctls, LinuxPeerOptions,
    testing::Values(PeerOptions{true, true, true, true}, PeerOptions{true, true, false, true},
                    PeerOptions{true, false, true, true}, PeerOptions{true, false, false, true},
                    PeerOptions{false, true, true, true}, PeerOptions{false, true, false, true},
                    PeerOptions{false, false, true, true}, PeerOptions{false, false, false, true},
                    PeerOptions{true, true, true, false}),
    [](const auto& p) {
        return std::string(p.param.sack ? "Sack" : "NoSack") + (p.param.timestamps ? "Stamps" : "NoStamps") +
               (p.param.scaling ? "Scaling" : "NoScaling") + (p.param.reno ? "Reno" : "AsItIs");
    });

// ---- MTU
// --------------------------------------------------------------------------------------------------------

struct Mtu {
    int kernels;
    std::uint16_t cards;
    char index; ///< of the card's MTU table
};

class LinuxPeerMtu : public LinuxPeer, public testing::WithParamInterface<Mtu> {
protected:
    /// The longest frame that each end has sent.
    struct Longest : WireObserver {
        std::array<std::size_t, 2> of{};
        void frame(unsigned port, Bytes frame, std::string_view) override {
            of.at(port) = std::max(of.at(port), frame.size());
        }
    } longest_;
};

TEST_P(LinuxPeerMtu, SegmentsAreAsLongAsTheSmallerOneAllows) {
    const Mtu& mtu = GetParam();
    set_mtu(mtu.kernels, mtu.cards, mtu.index);
    watch(longest_);
    const auto smaller = static_cast<std::size_t>(std::min<int>(mtu.kernels, mtu.cards));
    const Handle active = connected();
    EXPECT_EQ(info_of(active).tcpi_snd_mss, smaller - 40);
    exchange(active, 1'000'000);
    tid = 1;
    const Handle passive = connected_to_card();
    EXPECT_EQ(info_of(passive).tcpi_snd_mss, smaller - 40);
    exchange(passive, 1'000'000);
    constexpr std::size_t ethernet = 14;
    EXPECT_EQ(longest_.of[from_kernel], smaller + ethernet);
    EXPECT_EQ(longest_.of[from_card], smaller + ethernet);
}
INSTANTIATE_TEST_SUITE_P(Sizes, LinuxPeerMtu,
                         testing::Values(Mtu{576, 576, '4'}, Mtu{1500, 1500, '8'}, Mtu{9000, 9000, 'e'},
                                         Mtu{1500, 9000, 'e'}, Mtu{9000, 1500, '8'}),
                         [](const auto& p) {
                             return "Kernel" + std::to_string(p.param.kernels) + "Card" +
                                    std::to_string(p.param.cards);
                         });

// ---- Loss
// -------------------------------------------------------------------------------------------------------

TEST_F(LinuxPeer, OnePercentLossBothWays) {
    const Handle s = connected();
    impair(from_card, {.loss = 0.01, .seed = 3});
    impair(from_kernel, {.loss = 0.01, .seed = 4});
    exchange(s, 500'000, 20s);
    EXPECT_GT(wire().impairer(from_card)->statistics().lost, 0U);
}

TEST_F(LinuxPeer, LossDuplicationReorderingCorruptionAndJitter) {
    const Handle s = connected();
    Impairments what{.loss = 0.01,
                     .duplicate = 0.01,
                     .reorder = 0.02,
                     .corrupt = 0.005,
                     .jitter = 200 * tcp::microsecond,
                     .reorder_delay = 2 * tcp::millisecond};
    for (const unsigned port : {from_card, from_kernel}) {
        what.seed = 20 + port;
        impair(port, what);
    }
    exchange(s, 500'000, 30s);
    for (const unsigned port : {from_card, from_kernel}) {
        const auto& done = wire().impairer(port)->statistics();
        EXPECT_TRUE(done.lost && done.duplicated && done.reordered && done.corrupted);
    }
}

TEST_F(LinuxPeer, RateLimitWithAShortQueue) {
    const Handle s = connected();
    for (const unsigned port : {from_card, from_kernel})
        impair(port, {.rate = 1'000'000'000, .queue = 30'000});
    exchange(s, 300'000, 20s);
    EXPECT_GT(wire().impairer(from_card)->statistics().overflowed, 0U);
}

// ---- Black holes
// ----------------------------------------------------------------------------------------------------

class LinuxPeerBlackHole : public LinuxPeer {
protected:
    /// Short timers, because those of the driver take minutes. Many retries, because a busy machine may stop
    /// this process for a second.
    void SetUp() override {
        LinuxPeer::SetUp();
        tcp::Params& params = a.toe.params().tcp;
        params.rto_min = params.rto_initial = 50 * tcp::millisecond;
        params.rto_max = 200 * tcp::millisecond;
        params.persist_min = params.persist_max = 100 * tcp::millisecond;
        params.syn_retries = params.persist_probes = 100;
    }
    void black_hole(bool begins) {
        for (const unsigned port : {from_card, from_kernel})
            impair(port, {.loss = begins ? 1.0 : 0.0});
    }
};

TEST_F(LinuxPeerBlackHole, BlackHoleEndsInATimeoutOnBothSides) {
    const Handle s = connected();
    const int most = 700; // ms
    setsockopt(s, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof most);
    exchange(s, 10'000);
    a.toe.params().tcp.r2 = 5;
    black_hole(true);
    a.offload(tx_data(tid, "8 octets"));
    EXPECT_EQ(::send(s, "you?", 4, MSG_NOSIGNAL), 4);
    EXPECT_EQ(end_of(s), ETIMEDOUT);
    EXPECT_TRUE(until([&] { return seen == "30 30 "; })) << seen;
    EXPECT_EQ(last, "30000000 00000000 001f0000 00000000") << "retransmissions exhausted";
}

TEST_F(LinuxPeerBlackHole, BlackHoleThatEndsCostsOnlyTime) {
    const Handle s = connected();
    exchange(s, 10'000);
    black_hole(true);
    EXPECT_EQ(::send(s, "lost for a while", 16, MSG_NOSIGNAL), 16);
    EXPECT_FALSE(until([&] { return !from_peer.empty(); }, 250ms));
    black_hole(false);
    EXPECT_TRUE(until([&] { return from_peer.size() == 16; }));
    from_peer.clear();
    exchange(s, 100'000);
}

TEST_F(LinuxPeerBlackHole, BlackHoleForTheSynOnly) {
    black_hole(true);
    const Handle server = listening_socket();
    a.control(TwoCards::act_open);
    EXPECT_FALSE(until([&] { return !seen.empty(); }, 120ms));
    black_hole(false);
    EXPECT_TRUE(until([&] { return seen == "50 "; })) << seen;
}

TEST_F(LinuxPeerBlackHole, SynWithoutReply) {
    black_hole(true);
    a.toe.params().tcp.syn_retries = 3;
    a.control(TwoCards::act_open);
    EXPECT_TRUE(until([&] { return seen == "40 "; })) << seen;
    EXPECT_EQ(last.substr(last.size() - 2), "1e") << "timed out";
}

TEST_F(LinuxPeerBlackHole, PeerThatDoesNotReadIsProbedUntilItDoes) {
    const Handle s = connected();
    const std::string block(8000, 'x');
    std::size_t sent = 0, got = 0;
    EXPECT_FALSE(until(
        [&] {
            while (outstanding < 8) {
                a.offload(tx_data(tid, block));
                sent += block.size();
                ++outstanding;
                take_messages();
            }
            return false;
        },
        600ms));
    EXPECT_GT(sent, 100'000U);
    std::vector<char> buffer(65536);
    EXPECT_TRUE(until([&] {
        for (ssize_t n; (n = recv(s, buffer.data(), buffer.size(), 0)) > 0;)
            got += static_cast<std::size_t>(n);
        return got >= sent;
    })) << got
        << " of " << sent;
}

// ---- Killed peers
// ---------------------------------------------------------------------------------------------

class LinuxPeerKilled : public LinuxPeer {
protected:
    /// Passes the socket to another process and kills it.
    void kill_the_holder_of(Handle s) {
        const pid_t child = fork();
        if (child == 0) {
            for (;;)
                pause();
        }
        ASSERT_GT(child, 0);
        s.close();
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
};

TEST_F(LinuxPeerKilled, AfterReadingAllIsAClose) {
    kill_the_holder_of(connected());
    EXPECT_TRUE(until([&] { return seen == "26 "; })) << seen;
    a.offload(close_con(tid));
    EXPECT_TRUE(until([&] { return seen == "26 32 "; })) << seen;
}

TEST_F(LinuxPeerKilled, WithDataUnreadIsAReset) {
    Handle s = connected();
    a.offload(tx_data(tid, "10 octets."));
    EXPECT_TRUE(until([&] {
        char byte;
        return recv(s, &byte, 1, MSG_PEEK) == 1;
    }));
    kill_the_holder_of(std::move(s));
    EXPECT_TRUE(until([&] { return seen == "30 30 "; })) << seen;
}

// ---- Much, and many
// ---------------------------------------------------------------------------------------------

TEST_F(LinuxPeer, HundredMegabytesEachWay) {
    audited = false; // tshark would take longer than the test
    const Handle s = connected();
    exchange(s, 100'000'000, 90s);
}

/// A host that accepts all connections, echoes all data, and closes when its peer does.
class LinuxPeerMany : public LinuxPeer {
protected:
    void serve() {
        on_message = [this](const Buffer& m) {
            const Tid id = be32(m.data()) & 0xffffff;
            switch (m[0]) {
            case 0x70: // PASS_ACCEPT_REQ
                accept_at_the_card(id);
                return true;
            case 0x51: // PASS_ESTABLISH
                ++established_;
                return true;
            case 0x39: { // RX_DATA
                a.offload(tx_data(id, std::string(m.begin() + 16, m.end())));
                a.control(rx_data_ack(id, static_cast<std::uint32_t>(m.size() - 16), false));
                return true;
            }
            case 0x26: // PEER_CLOSE
                a.offload(close_con(id));
                return true;
            case 0x32: // CLOSE_CON_RPL
                a.control(tid_release(id));
                ++closed_;
                return true;
            default:
                return false;
            }
        };
    }
    unsigned established_ = 0, closed_ = 0;
};

TEST_F(LinuxPeerMany, ThousandConnectionsAtATime) {
    constexpr unsigned count = 1000;
    listen_at_the_card();
    EXPECT_TRUE(until([&] { return seen == "41 "; })) << seen;
    serve();
    constexpr unsigned batch = 100; // more at a time would overflow the TAP device
    std::vector<Handle> sockets;
    const auto message_of = [](std::size_t i) { return "connection " + std::to_string(i); };
    while (sockets.size() < count) {
        for (unsigned i = 0; i < batch; ++i)
            sockets.push_back(connecting_socket());
        ASSERT_TRUE(until([&] { return established_ == sockets.size(); }, 20s)) << established_;
    }
    for (std::size_t i = 0; i < count; ++i) {
        const std::string text = message_of(i);
        ASSERT_EQ(::send(sockets[i], text.data(), text.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(text.size()));
        if (i % batch == 0)
            until([] { return false; }, 2ms);
    }
    std::vector<std::string> output(count);
    ASSERT_TRUE(until(
        [&] {
            bool all = true;
            for (std::size_t i = 0; i < count; ++i) {
                char buffer[64];
                if (output[i].size() < message_of(i).size())
                    if (const auto n = recv(sockets[i], buffer, sizeof buffer, 0); n > 0)
                        output[i].append(buffer, static_cast<std::size_t>(n));
                all &= output[i].size() >= message_of(i).size();
            }
            return all;
        },
        20s));
    for (std::size_t i = 0; i < count; ++i)
        EXPECT_EQ(output[i], message_of(i));
    for (unsigned left = count; left != 0;) {
        left -= batch;
        sockets.resize(left);
        ASSERT_TRUE(until([&] { return closed_ == count - left; }, 20s)) << closed_;
    }
    EXPECT_EQ(seen, "41 ") << "no other message";
}

} // namespace
} // namespace t3sim::test
