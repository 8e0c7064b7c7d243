// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "peer.hh"

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace probe {

namespace {

constexpr size_t largest_read = 64 << 10;
constexpr int accept_limit_ms = 10000;

using Clock = std::chrono::steady_clock;

int ms_left(Clock::time_point until) {
    return static_cast<int>(std::max<long long>(
        0, std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count()));
}

sockaddr_in address_of(const std::string& address, uint16_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(port);
    if (inet_pton(AF_INET, address.c_str(), &out.sin_addr) != 1)
        throw std::runtime_error("bad address " + address);
    return out;
}

[[noreturn]] void fail(const char* what) {
    throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

bool readable(int fd, Clock::time_point until) {
    pollfd p{fd, POLLIN, 0};
    return poll(&p, 1, ms_left(until)) > 0;
}

void write_all(int fd, const void* data, size_t size) {
    const auto* at = static_cast<const char*>(data);
    while (size) {
        const ssize_t n = ::send(fd, at, size, MSG_NOSIGNAL);
        if (n <= 0)
            fail("send");
        at += n;
        size -= static_cast<size_t>(n);
    }
}

std::string read_line(int fd, std::string& input) {
    for (;;) {
        if (const auto end = input.find('\n'); end != input.npos) {
            std::string line = input.substr(0, end);
            input.erase(0, end + 1);
            return line;
        }
        char part[4096];
        const ssize_t n = recv(fd, part, sizeof(part), 0);
        if (n <= 0)
            throw std::runtime_error("the control connection has ended");
        input.append(part, static_cast<size_t>(n));
    }
}

int listener(uint16_t port, int receive_buffer) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (receive_buffer)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    if (bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(any)) || ::listen(fd, 4)) {
        const int error = errno;
        close(fd);
        errno = error;
        fail("listen");
    }
    return fd;
}

void ignore_segments(int fd) {
    sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    const sock_fprog program{1, drop_all};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
        fail("SO_ATTACH_FILTER");
}

// A connection that is closed while it ignores segments would stay for minutes.
void end_ignoring(int fd) {
    const int unused = 0;
    setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)); // fails if there is none
}

// The sockets of one control connection.
struct Sockets {
    sockaddr_in controller{};
    int listening = -1, stream = -1;
    ~Sockets() {
        if (stream >= 0)
            end_ignoring(stream);
        for (const int fd : {listening, stream})
            if (fd >= 0)
                close(fd);
    }
};

void no_delay(int fd) {
    const int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

std::string receive(int fd, size_t least, int ms) {
    const auto until = Clock::now() + std::chrono::milliseconds(ms);
    Bytes all;
    bool ended = false;
    while (all.size() < least && readable(fd, until)) {
        Bytes part(largest_read);
        const ssize_t n = recv(fd, part.data(), part.size(), 0);
        if (n <= 0) {
            ended = true;
            break;
        }
        all.insert(all.end(), part.begin(), part.begin() + n);
    }
    return std::string(ended ? "end" : "more") + " " + hex(all);
}

std::string info(int fd) {
    tcp_info out{};
    socklen_t size = sizeof(out);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &out, &size))
        fail("TCP_INFO");
    uint32_t memory[SK_MEMINFO_VARS] = {};
    size = sizeof(memory);
    getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &size); // Linux before 4.12 has none: no drops
    std::ostringstream text;
    text << !!(out.tcpi_options & TCPI_OPT_TIMESTAMPS) << ' ' << !!(out.tcpi_options & TCPI_OPT_SACK) << ' '
         << !!(out.tcpi_options & TCPI_OPT_WSCALE) << ' ' << out.tcpi_data_segs_in << ' '
         << memory[SK_MEMINFO_DROPS];
    return text.str();
}

// Executes one line; the reply.
std::string execute(Sockets& sockets, uint16_t port, const std::string& line) {
    std::istringstream words(line);
    std::string what, data;
    int number = 0, ms = 0;
    words >> what;
    if (what == "listen") {
        words >> number;
        if (sockets.listening >= 0)
            close(sockets.listening);
        sockets.listening = listener(port, number);
    } else if (what == "accept") {
        if (!readable(sockets.listening, Clock::now() + std::chrono::milliseconds(accept_limit_ms)))
            throw std::runtime_error("no connection came");
        sockets.stream = accept4(sockets.listening, nullptr, nullptr, SOCK_CLOEXEC);
        no_delay(sockets.stream);
    } else if (what == "connect") {
        words >> number;
        sockets.stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        auto to = sockets.controller; // to no other machine
        to.sin_port = htons(static_cast<uint16_t>(number));
        if (::connect(sockets.stream, reinterpret_cast<const sockaddr*>(&to), sizeof(to)))
            fail("connect");
        no_delay(sockets.stream);
    } else if (what == "send") {
        words >> data;
        const auto bytes = from_hex(data);
        write_all(sockets.stream, bytes.data(), bytes.size());
    } else if (what == "receive") {
        words >> number >> ms;
        return receive(sockets.stream, static_cast<size_t>(number), ms);
    } else if (what == "info") {
        return info(sockets.stream);
    } else if (what == "ignore") {
        words >> number;
        number ? ignore_segments(sockets.stream) : end_ignoring(sockets.stream);
    } else if (what == "shut") {
        shutdown(sockets.stream, SHUT_WR);
    } else if (what == "reset" && sockets.stream >= 0) {
        end_ignoring(sockets.stream);
        const linger now{1, 0};
        setsockopt(sockets.stream, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(sockets.stream);
        sockets.stream = -1;
    }
    return "";
}

} // namespace

bool serve(uint16_t port) {
    int control = -1;
    try {
        control = listener(static_cast<uint16_t>(port + 1), 0);
    } catch (const std::runtime_error&) {
        return false;
    }
    std::fprintf(stderr, "listening\n");
    for (;;) {
        Sockets sockets;
        socklen_t size = sizeof(sockets.controller);
        const int fd =
            accept4(control, reinterpret_cast<sockaddr*>(&sockets.controller), &size, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        no_delay(fd);
        std::string input;
        try {
            for (;;) {
                const auto line = read_line(fd, input);
                if (line == "quit") {
                    close(fd);
                    return true;
                }
                std::string reply;
                try {
                    reply = "ok " + execute(sockets, port, line);
                } catch (const std::runtime_error& error) {
                    reply = std::string("error ") + error.what();
                }
                reply += '\n';
                write_all(fd, reply.data(), reply.size());
            }
        } catch (const std::runtime_error&) { // the next probe has another connection
        }
        close(fd);
    }
}

Peer::Peer(const std::string& address, uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto to = address_of(address, static_cast<uint16_t>(port + 1));
    // The program may not listen yet.
    const auto until = Clock::now() + std::chrono::milliseconds(accept_limit_ms);
    while (::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to))) {
        if (Clock::now() > until || errno != ECONNREFUSED)
            fail("connection to the program at the other end");
        close(fd_);
        usleep(50000);
        fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    no_delay(fd_);
}

Peer::~Peer() {
    close(fd_);
}

std::string Peer::ask(const std::string& line) {
    const auto request = line + '\n';
    write_all(fd_, request.data(), request.size());
    const auto reply = read_line(fd_, input_);
    if (reply.rfind("ok ", 0) != 0)
        throw std::runtime_error("the other end: " + reply);
    return reply.substr(3);
}

void Peer::listen(unsigned receive_buffer) {
    ask("listen " + std::to_string(receive_buffer));
}
void Peer::accept() {
    ask("accept");
}
void Peer::connect(uint16_t port) {
    ask("connect " + std::to_string(port));
}
void Peer::send(const Bytes& bytes) {
    ask("send " + hex(bytes));
}
void Peer::shut() {
    ask("shut");
}
void Peer::reset() {
    ask("reset");
    stream_.clear();
    ended_ = false;
}

Bytes& Peer::receive(size_t least, int ms) {
    if (stream_.size() < least && !ended_) {
        const auto reply =
            ask("receive " + std::to_string(least - stream_.size()) + " " + std::to_string(ms));
        const auto space = reply.find(' ');
        ended_ = reply.substr(0, space) == "end";
        const auto bytes = from_hex(reply.substr(space + 1));
        stream_.insert(stream_.end(), bytes.begin(), bytes.end());
    }
    return stream_;
}

TcpInfo Peer::info() {
    TcpInfo out;
    std::istringstream words(ask("info"));
    words >> out.timestamps >> out.sack >> out.window_scale >> out.data_segments_in >> out.dropped;
    return out;
}

void Peer::ignore_segments(bool ignored) {
    ask(ignored ? "ignore 1" : "ignore 0");
}

void Peer::quit() {
    write_all(fd_, "quit\n", 5);
}

std::vector<Segment> Peer::fpdus(size_t least, int ms) {
    const auto until = Clock::now() + std::chrono::milliseconds(ms);
    std::vector<Segment> all;
    for (;;) {
        for (auto& segment : take_fpdus(stream_))
            all.push_back(std::move(segment));
        const int left = ms_left(until);
        if (all.size() >= least || ended_ || left == 0)
            return all;
        receive(stream_.size() + 1, left);
    }
}

} // namespace probe
