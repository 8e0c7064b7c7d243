// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// One connection between a Toe and the kernel's TCP, from opening to closing.
#include "tests/sim/toe/linux_peer.hh"

namespace t3sim::test {
namespace {

TEST_F(LinuxPeer, ActiveOpenRefused) {
    a.control(TwoCards::act_open);
    ASSERT_TRUE(until([&] { return !seen.empty(); }));
    EXPECT_EQ(last, "40000000 c3501d2f 0a000001 0a000002 00010000 00000014");
}

TEST_F(LinuxPeer, ActiveOpenDataBothWaysAndClose) {
    Handle s = connected();
    const tcp_info info = info_of(s);
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
    Handle s = connected_to_card();
    exchange(s, 500'000);
    shutdown(s, SHUT_WR);
    EXPECT_TRUE(until([&] { return seen == "26 "; })) << seen;
    a.offload(tx_data(0, "half closed, still output"));
    a.offload(close_con(0));
    std::string got;
    EXPECT_TRUE(until([&] {
        char buffer[64];
        const auto n = recv(s, buffer, sizeof buffer, 0);
        if (n > 0)
            got.append(buffer, static_cast<std::size_t>(n));
        return n == 0;
    }));
    EXPECT_EQ(got, "half closed, still output");
    EXPECT_TRUE(until([&] { return seen == "26 32 "; })) << seen;
}

TEST_F(LinuxPeer, RequestByteByByte) {
    Handle s = connected_to_card();
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
    Handle s = connected();
    const linger at_once{1, 0};
    setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    s.close();
    EXPECT_TRUE(until([&] { return seen == "30 30 "; })) << seen;
    EXPECT_EQ(last, "30000000 00000000 00140000 00000000");
}

TEST_F(LinuxPeer, AbortByTheCard) {
    Handle s = connected();
    a.offload(abort_req(0));
    EXPECT_EQ(end_of(s), ECONNRESET);
    EXPECT_EQ(seen, "31 31 ");
}

TEST_F(LinuxPeer, HalfOpenTidReleaseRefusesTheConnection) {
    listen_at_the_card();
    const Handle s = connecting_socket();
    ASSERT_TRUE(until([&] { return seen == "41 70 "; }));
    a.control(tid_release(0));
    EXPECT_EQ(end_of(s), ECONNREFUSED);
}

TEST_F(LinuxPeer, HostThatDoesNotReadClosesTheWindow) {
    Handle s = connected();
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

} // namespace
} // namespace t3sim::test
