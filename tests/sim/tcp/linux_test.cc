// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The engine against Linux's TCP, over a wire that loses, repeats and delays packets, by seed: many
// connections at a time, opened by either end, with random data, readers and ends. The oracle knows what each
// application has sent and done:
//
//   - what arrives is a prefix of what was sent, and all of it before the peer's close is reported;
//   - without an abort both ends close in order, with all data, and neither reports an error;
//   - a reset is reported only if the peer has aborted;
//   - every connection ends, unless the peer of an end that has aborted may not have accepted the reset. TCP
//     does not repeat it, and an end that has sent all and waits for the peer's close does not miss it.
//     Besides a reset that is lost, this is one that overtakes data: Linux answers with a challenge ACK (RFC
//     5961), which may be lost, and which Linux leaves out if it has sent another one within half a second.
//
// Time is real, so a seed gives the same plan, not the same packets. T3_TCP_CONNECTIONS=N: so many of each
// kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <netinet/tcp.h>
#include <poll.h>

#include "tests/sim/linux_tap.hh"
#include "tests/sim/tcp/pair.hh"

namespace t3sim::tcp::test {
namespace {

using t3sim::test::address;
using t3sim::test::Handle;
using t3sim::test::LinuxTap;
using t3sim::test::raw;

constexpr std::uint16_t kernels_port = 7471, engines_port = 50000, first_port = 20000;
/// After this time an application closes, whatever its plan is.
constexpr Time patience = 6 * second, limit = 100 * second;

enum class Leaving { closes, closes_last, aborts };

std::uint8_t byte_of(unsigned connection, bool by_kernel, std::size_t i) {
    return static_cast<std::uint8_t>((i * 2654435761U + connection * 2 + by_kernel) >> 7);
}

/// What one application does and has seen.
struct Application {
    Leaving leaving = Leaving::closes;
    Time aborts_at = 0;
    std::size_t to_send = 0, sent = 0, received = 0;
    bool slow = false;
    bool closed = false, aborted = false;    // by itself
    bool peer_closed = false, reset = false; // reported to it
    bool failed = false;                     // a timeout was reported
    [[nodiscard]] bool may_close() const {
        return !closed && sent == to_send &&
               (leaving == Leaving::closes || (leaving == Leaving::closes_last && peer_closed));
    }
};

struct Connection {
    unsigned number = 0;
    bool by_engine = false; // opened
    Application engine, kernel;
    std::optional<ConnId> id;
    Handle socket;
    bool connected = false;
    bool reset_unsure = false; // the wire has lost or reordered it, or what follows it
    Time late_until = 0;       // a packet is on the wire until then
    std::size_t unread = 0;    // delivered by the engine, not credited
    bool engine_ended = false; // the engine has nothing of it
    [[nodiscard]] bool kernel_ended() const { return connected && socket < 0; }
};

class LinuxDifferential : public testing::TestWithParam<bool>, public Sink {
protected:
    LinuxDifferential() : engine_(*this, params_, [this] { return events_.now(); }) {
        params_.rto_initial = 300 * millisecond;
        params_.rto_min = 50 * millisecond;
        params_.rto_max = second;
        params_.persist_min = 100 * millisecond;
        params_.persist_max = 500 * millisecond;
        params_.fin_wait_2 = limit;
        params_.msl = second;
        params_.sws_override = 100 * millisecond;
        options_ = {.receive_buffer = 30'000, .window_scale = 2};
    }
    void SetUp() override {
        if (const std::string why = tap_.open(); !why.empty())
            GTEST_SKIP() << why;
        if (!LinuxTap::sysctl("tcp_sack", GetParam() ? "1" : "0") ||
            !LinuxTap::sysctl("tcp_timestamps", GetParam() ? "1" : "0"))
            GTEST_SKIP() << "sysctls cannot be written here";
    }

    unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }
    bool one_in(unsigned n) { return pick(n) == 0; }

    void plan(Connection& c) {
        c.by_engine = one_in(2);
        for (Application* app : {&c.engine, &c.kernel}) {
            app->leaving = static_cast<Leaving>(one_in(5) ? 2 : pick(2));
            app->aborts_at = pick(1500) * millisecond;
            app->to_send = one_in(5) ? 0 : pick(60'000);
            app->slow = one_in(4);
        }
        if (c.engine.leaving == Leaving::closes_last && c.kernel.leaving == Leaving::closes_last)
            c.engine.leaving = Leaving::closes;
    }
    void open(Connection& c) {
        const auto port = static_cast<std::uint16_t>(first_port + c.number);
        if (c.by_engine) {
            c.id = c.number;
            ASSERT_TRUE(engine_.open(c.number, {ip_a, ip_b, port, kernels_port}, options_));
            return;
        }
        c.socket = Handle(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        auto from = address("10.0.0.2", port), to = address("10.0.0.1", engines_port);
        ASSERT_EQ(bind(c.socket, raw(from), sizeof from), 0);
        ::connect(c.socket, raw(to), sizeof to);
        c.connected = true;
    }

    // ---- The wire

    /// @p delay: of the packet; nothing if it is lost.
    void note(Bytes packet, std::optional<Time> delay) {
        constexpr std::uint8_t rst = 0x04;
        if (packet[9] != IPPROTO_TCP)
            return;
        const Bytes tcp = packet.subspan((packet[0] & 0xfU) * 4);
        const std::uint16_t from = be16(tcp.data()), to = be16(&tcp[2]);
        const std::uint16_t own = from == kernels_port || from == engines_port ? to : from;
        Connection& c = connections_.at(own - first_port);
        const bool resets = (tcp[13] & rst) != 0, ordered = delay == 0 && c.late_until <= events_.now();
        if (delay ? resets && !ordered : resets || c.engine.aborted || c.kernel.aborted)
            c.reset_unsure = true;
        c.late_until = std::max(c.late_until, events_.now() + delay.value_or(0));
    }
    void carry(Buffer packet, bool to_kernel) {
        for (unsigned copies = one_in(50) ? 2 : 1; copies > 0; --copies) {
            if (pick(1000) < loss_) {
                note(packet, {});
                continue;
            }
            const Time delay = one_in(10) ? pick(5000) * microsecond : 0;
            note(packet, delay);
            events_.after(delay, [this, packet, to_kernel] {
                if (!to_kernel) {
                    if (!engine_.input(packet))
                        if (auto rst = reset_reply(packet))
                            carry(std::move(*rst), true);
                    return;
                }
                Buffer frame(LinuxTap::kernels_mac.begin(), LinuxTap::kernels_mac.end());
                frame.insert(frame.end(), LinuxTap::tests_mac.begin(), LinuxTap::tests_mac.end());
                frame.insert(frame.end(), {0x08, 0x00});
                frame.insert(frame.end(), packet.begin(), packet.end());
                tap_.write(frame);
            });
        }
    }
    void transmit(ConnId, Packet&& packet) override {
        carry(Buffer(packet.data(), packet.data() + packet.size()), true);
    }

    static bool gives_up(const Connection& c, Time age) {
        return c.reset_unsure && (c.engine.aborted || c.kernel.aborted) && age > 2 * patience;
    }

    // ---- The engine's applications

    std::optional<ConnId> syn(ListenId, const SynInfo& info) override {
        Connection& c = connections_.at(info.tuple.remote_port - first_port);
        if (c.id)
            return std::nullopt; // an old SYN
        c.id = c.number;
        events_.after(0, [this, &c] { engine_.accept(*c.id, options_); });
        return c.id;
    }
    void established(ConnId id, const Established&) override { feed(connections_[id]); }
    void acked(ConnId id) override { feed(connections_[id]); }
    void received(ConnId id, Seq, Bytes data, bool, const Packet*) override {
        Connection& c = connections_[id];
        take(c, c.engine, c.kernel, true, data);
        c.unread += data.size();
        if (!c.engine.slow)
            credit(c, c.unread);
    }
    void peer_closed(ConnId id, Seq) override {
        Connection& c = connections_[id];
        see_close(c.engine, c.kernel);
        feed(c);
    }
    void closed(ConnId, Seq, Seq) override {}
    void finished(ConnId id) override { connections_[id].engine_ended = true; }
    void aborted(ConnId id, AbortReason reason) override {
        Connection& c = connections_[id];
        (reason == AbortReason::reset ? c.engine.reset : c.engine.failed) = true;
        c.engine_ended = true;
        engine_.release(id);
    }
    void advice(ConnId, Advice) override {}

    void credit(Connection& c, std::size_t bytes) {
        c.unread -= bytes;
        engine_.credit(*c.id, static_cast<std::uint32_t>(bytes), false);
    }
    void feed(Connection& c) {
        Application& app = c.engine;
        while (app.sent < app.to_send && !app.closed && engine_.unacknowledged(*c.id) < 20'000) {
            Buffer record(std::min<std::size_t>(app.to_send - app.sent, 1 + pick(3000)));
            for (std::size_t i = 0; i < record.size(); ++i)
                record[i] = byte_of(c.number, false, app.sent + i);
            const std::size_t size = record.size();
            if (!engine_.send(*c.id, std::move(record)))
                return;
            app.sent += size;
        }
        if (app.may_close())
            app.closed = engine_.close(*c.id);
    }
    void engine_step(Connection& c, Time age) {
        if (!c.id || c.engine_ended)
            return;
        if (gives_up(c, age)) {
            c.engine.aborted = c.engine_ended = engine_.abort(*c.id, true);
            return;
        }
        if (c.engine.slow && c.unread && one_in(20))
            credit(c, std::min<std::size_t>(c.unread, 1 + pick(8000)));
        if (age > patience && !c.engine.closed) {
            c.engine.to_send = c.engine.sent;
            c.engine.leaving = Leaving::closes;
            feed(c);
        }
        if (c.engine.leaving == Leaving::aborts && age > c.engine.aborts_at && engine_.abort(*c.id, true))
            c.engine.aborted = c.engine_ended = true;
    }

    // ---- The kernel's applications

    void accept_sockets() {
        sockaddr_in from{};
        socklen_t length = sizeof from;
        for (int fd; (fd = accept4(server_, raw(from), &length, SOCK_NONBLOCK)) >= 0;) {
            Connection& c = connections_.at(ntohs(from.sin_port) - first_port);
            EXPECT_LT(c.socket, 0) << "a second connection of one four-tuple";
            c.socket = Handle(fd);
            c.connected = true;
        }
    }
    void kernel_step(Connection& c, Time age) {
        if (c.socket < 0)
            return;
        Application& app = c.kernel;
        if (gives_up(c, age)) {
            c.socket.close();
            return;
        }
        if (app.leaving == Leaving::aborts && age > app.aborts_at) {
            const linger now{1, 0};
            setsockopt(c.socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
            app.aborted = true;
            c.socket.close();
            return;
        }
        tcp_info info{};
        socklen_t length = sizeof info;
        getsockopt(c.socket, IPPROTO_TCP, TCP_INFO, &info, &length);
        if (info.tcpi_state == TCP_SYN_SENT) { // shutdown() would end it
            if (c.engine.aborted && age > patience)
                c.socket.close(); // the engine drops the repeated SYN of this connection
            return;
        }
        if (!app.slow || one_in(20)) {
            const ssize_t n = recv(c.socket, buffer_.data(), app.slow ? 5000 : buffer_.size(), 0);
            if (n > 0)
                take(c, app, c.engine, false, Bytes(buffer_).first(static_cast<std::size_t>(n)));
            else if (n == 0 && !app.peer_closed)
                see_close(app, c.engine);
            else if (n < 0 && errno != EAGAIN)
                return fail(c);
        }
        while (app.sent < app.to_send && !app.closed) {
            const std::size_t size = std::min<std::size_t>(app.to_send - app.sent, 1 + pick(8000));
            for (std::size_t i = 0; i < size; ++i)
                buffer_[i] = byte_of(c.number, true, app.sent + i);
            const ssize_t n = ::send(c.socket, buffer_.data(), size, MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN && errno != ENOTCONN)
                return fail(c);
            if (n <= 0)
                break;
            app.sent += static_cast<std::size_t>(n);
        }
        if (age > patience && !app.closed) {
            app.to_send = app.sent;
            app.leaving = Leaving::closes;
        }
        if (app.may_close() && shutdown(c.socket, SHUT_WR) == 0)
            app.closed = true;
        if (app.closed && app.peer_closed)
            c.socket.close();
    }
    static void fail(Connection& c) {
        (errno == ECONNRESET || errno == EPIPE || errno == ECONNREFUSED ? c.kernel.reset : c.kernel.failed) =
            true;
        c.socket.close();
    }

    // ---- The oracle

    static void take(const Connection& c, Application& to, const Application& from, bool by_kernel,
                     Bytes data) {
        for (std::size_t i = 0; i < data.size(); ++i)
            if (data[i] != byte_of(c.number, by_kernel, to.received + i)) {
                ADD_FAILURE() << "connection " << c.number << ": another byte than was sent, at "
                              << to.received + i;
                break;
            }
        to.received += data.size();
        EXPECT_LE(to.received, from.to_send);
    }
    static void see_close(Application& to, const Application& from) {
        to.peer_closed = true;
        EXPECT_TRUE(from.closed) << "a close that the peer has not made";
        EXPECT_EQ(to.received, from.sent) << "closed before all data was delivered";
    }
    static void check(const Connection& c) {
        SCOPED_TRACE("connection " + std::to_string(c.number) +
                     (c.by_engine ? " of the engine" : " of the kernel"));
        EXPECT_TRUE(c.engine_ended || !c.id) << "the engine's end remains";
        EXPECT_TRUE(c.socket < 0) << "the kernel's end remains";
        EXPECT_FALSE(c.engine.failed || c.kernel.failed) << "a timeout";
        EXPECT_TRUE(!c.engine.reset || c.kernel.aborted)
            << "the engine reports a reset that the kernel has not sent";
        EXPECT_TRUE(!c.kernel.reset || c.engine.aborted)
            << "the kernel reports a reset that the engine has not sent";
        if (c.engine.aborted || c.kernel.aborted)
            return;
        EXPECT_TRUE(c.engine.closed && c.kernel.closed && c.engine.peer_closed && c.kernel.peer_closed);
        EXPECT_EQ(c.engine.received, c.kernel.to_send);
        EXPECT_EQ(c.kernel.received, c.engine.to_send);
    }

    void run_all(unsigned count) {
        loss_ = GetParam() ? 20 : 40; // per mille, each way
        server_ = Handle(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        auto at = address("10.0.0.2", kernels_port);
        ASSERT_EQ(bind(server_, raw(at), sizeof at), 0);
        ASSERT_EQ(listen(server_, 1000), 0);
        engine_.listen(1, 0, engines_port);
        connections_.resize(count);
        for (unsigned n = 0; n < count; ++n) {
            connections_[n].number = n;
            plan(connections_[n]);
        }
        const auto start = std::chrono::steady_clock::now();
        const auto now = [&start] {
            return static_cast<Time>(
                std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
        };
        constexpr unsigned at_a_time = 100;
        std::vector<Time> began(count);
        for (unsigned first = 0, opened = 0; first < count;) {
            for (; opened < count && opened < first + at_a_time; ++opened) {
                began[opened] = events_.now();
                open(connections_[opened]);
            }
            pollfd p{tap_.fd(), POLLIN, 0};
            poll(&p, 1, 1);
            for (Bytes frame; !(frame = tap_.read()).empty();)
                if (frame.size() > 14 && be16(&frame[12]) == 0x0800)
                    carry(Buffer(frame.begin() + 14, frame.end()), false);
            events_.advance(now());
            for (auto next = engine_.next_deadline(); next && *next <= events_.now();
                 next = engine_.next_deadline())
                engine_.advance();
            accept_sockets();
            for (unsigned n = first; n < opened; ++n) {
                Connection& c = connections_[n];
                const Time age = events_.now() - began[n];
                engine_step(c, age);
                kernel_step(c, age);
                // An abort in front of the handshake's end may leave the other end without a connection.
                const bool ended = (c.engine_ended || !c.id) && (c.kernel_ended() || !c.connected) &&
                                   (c.id || c.connected) && !(c.by_engine && !c.engine_ended);
                if (n == first && (ended || age > limit))
                    ++first;
            }
        }
        unsigned orderly = 0, aborted = 0;
        for (const Connection& c : connections_) {
            check(c);
            ++(c.engine.aborted || c.kernel.aborted ? aborted : orderly);
        }
        std::printf("%u connections: %u closed by both, %u aborted; %.1f s\n", count, orderly, aborted,
                    static_cast<double>(now()) / 1e9);
    }

    EventQueue events_;
    Params params_;
    Options options_;
    LinuxTap tap_;
    Engine engine_;
    Handle server_;
    std::vector<Connection> connections_;
    Buffer buffer_ = Buffer(30'000);
    std::mt19937 random_{GetParam()};
    unsigned loss_ = 0;
};

TEST_P(LinuxDifferential, BothEndsAgreeAndEveryConnectionEnds) {
    const char* const option = std::getenv("T3_TCP_CONNECTIONS");
    run_all(option ? static_cast<unsigned>(std::atoi(option)) : 100);
}
INSTANTIATE_TEST_SUITE_P(SackAndTimestamps, LinuxDifferential, testing::Bool());

} // namespace
} // namespace t3sim::tcp::test
