// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3accept/end.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/common/cli.hh"
#include "tools/report/inventory.hh"

namespace t3accept {

namespace {

using std::chrono::milliseconds;
constexpr auto listen_limit = std::chrono::seconds(30);
constexpr auto transfer_limit = std::chrono::seconds(60);
constexpr std::size_t longest_line = 8 << 20;
constexpr std::size_t largest_transfer = std::size_t{1} << 30;

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
}

char pattern(std::size_t at) {
    return static_cast<char>(at * 7 + (at >> 8));
}

} // namespace

// ---- this machine

LocalEnd::LocalEnd(const t3tools::Machine& machine, t3doctor::Probe& probe, std::string role,
                   std::string folder)
    : machine_(machine), probe_(probe), role_(std::move(role)), folder_(std::move(folder)) {}

Json LocalEnd::inventory() {
    return t3report::inventory(machine_, probe_, role_);
}

Counters LocalEnd::counters() {
    return read_counters(machine_);
}

std::vector<std::string> LocalEnd::new_log() {
    const auto shown = machine_.run({"dmesg"});
    if (shown.status != 0)
        throw std::runtime_error(machine_.privileged() ? "dmesg: " + shown.output
                                                       : "only root can read the kernel log");
    auto now = lines(shown.output);
    auto fresh = new_lines(log_, now);
    log_ = std::move(now);
    return fresh;
}

Json LocalEnd::objects() {
    const auto shown = machine_.run({"rdma", "-j", "resource", "show"});
    if (shown.status == 127)
        throw Missing{"rdma"};
    auto parsed = Json::parse(shown.output, nullptr, false);
    if (shown.status != 0 || parsed.is_discarded())
        throw std::runtime_error("rdma resource show: " + shown.output);
    return parsed;
}

bool LocalEnd::listens(int port) const {
    const auto shown = machine_.run({"rdma", "resource", "show", "cm_id"});
    if (shown.status != 0) {
        std::this_thread::sleep_for(std::chrono::seconds(1)); // it cannot be seen, so it gets some time
        return true;
    }
    const auto number = fmt::format(":{} ", port);
    return std::ranges::any_of(lines(shown.output), [&](const std::string& line) {
        return line.find("state LISTEN") != line.npos && (line + " ").find(number) != line.npos;
    });
}

int LocalEnd::start(const Task& task, Side side, const std::string& server) {
    auto job = std::make_unique<Job>(command(task, side, server, folder_));
    if (side == Side::server) {
        const auto until = Clock::now() + listen_limit;
        // The server of t3-probe has no RDMA listener; it prints when it listens, as all of our programs do.
        const auto ready = [&] {
            return task.program == "t3-probe" ? job->output().find("listening") != std::string::npos
                                              : listens(port(task));
        };
        while (!ready()) {
            if (!job->running()) {
                const auto done = job->finish(milliseconds(0));
                throw std::runtime_error(fmt::format("the server's {} ended with status {}: {}", task.program,
                                                     done.status, done.output));
            }
            if (Clock::now() > until)
                throw std::runtime_error(fmt::format("the server's {} does not listen", task.program));
            std::this_thread::sleep_for(milliseconds(50));
        }
    }
    jobs_[++last_] = std::move(job);
    return last_;
}

Done LocalEnd::finish(int number, milliseconds limit) {
    const auto job = jobs_.find(number);
    if (job == jobs_.end())
        throw std::runtime_error("no such job");
    auto done = job->second->finish(limit);
    jobs_.erase(job);
    return done;
}

// ---- the control connection: a line of JSON for each request and each reply

class Stream {
public:
    explicit Stream(int fd) : fd_(fd) {
        const int yes = 1;
        setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    }
    ~Stream() { close(fd_); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void write(const char* data, std::size_t size) {
        while (size > 0) {
            const auto sent = ::send(fd_, data, size, MSG_NOSIGNAL);
            if (sent < 0 && errno == EINTR)
                continue;
            if (sent <= 0)
                fail("the connection to the other end");
            data += sent;
            size -= static_cast<std::size_t>(sent);
        }
    }
    void write(const Json& json) {
        const auto line = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
        write(line.data(), line.size());
    }
    /// Nothing if the other end closed the connection.
    std::optional<Json> read(milliseconds limit) {
        const auto until = Clock::now() + limit;
        for (std::size_t from = 0;;) {
            const auto end = buffer_.find('\n', from);
            if (end != buffer_.npos) {
                auto json = Json::parse(buffer_.substr(0, end), nullptr, false);
                buffer_.erase(0, end + 1);
                if (json.is_discarded())
                    throw std::runtime_error("the other end is not a t3accept");
                return json;
            }
            if (buffer_.size() > longest_line)
                throw std::runtime_error("the other end is not a t3accept");
            from = buffer_.size();
            if (!fill(until))
                return std::nullopt;
        }
    }
    void send_pattern(std::size_t size) {
        std::vector<char> chunk(64 << 10);
        for (std::size_t at = 0; at < size; at += chunk.size()) {
            chunk.resize(std::min(chunk.size(), size - at));
            for (std::size_t i = 0; i < chunk.size(); i++)
                chunk[i] = pattern(at + i);
            write(chunk.data(), chunk.size());
        }
    }
    bool receive_pattern(std::size_t size) {
        const auto until = Clock::now() + transfer_limit;
        bool intact = true;
        for (std::size_t at = 0; at < size;) {
            if (buffer_.empty() && !fill(until))
                return false;
            const auto part = std::min(buffer_.size(), size - at);
            for (std::size_t i = 0; i < part; i++)
                intact = intact && buffer_[i] == pattern(at + i);
            buffer_.erase(0, part);
            at += part;
        }
        return intact;
    }

private:
    bool fill(Clock::time_point until) {
        for (;;) {
            const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
            pollfd waiting{fd_, POLLIN, 0};
            const int ready = poll(&waiting, 1, static_cast<int>(std::max<long long>(left, 0)));
            if (ready < 0 && errno == EINTR && !interrupted())
                continue;
            if (ready < 0)
                fail("poll");
            if (ready == 0)
                throw std::runtime_error("the other end does not reply");
            std::array<char, 64 << 10> chunk{};
            const auto got = recv(fd_, chunk.data(), chunk.size(), 0);
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                fail("the connection to the other end");
            buffer_.append(chunk.data(), static_cast<std::size_t>(got));
            return got > 0;
        }
    }

    int fd_;
    std::string buffer_;
};

// ---- the client's side of it

namespace {

sockaddr_in socket_address(const std::string& address, int port) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(static_cast<std::uint16_t>(port));
    if (inet_pton(AF_INET, address.c_str(), &in.sin_addr) != 1)
        throw std::runtime_error(address + " is not an IPv4 address");
    return in;
}

} // namespace

RemoteEnd::RemoteEnd(const std::string& address, int port) : address_(address), port_(port) {
    connect();
}

RemoteEnd::~RemoteEnd() = default;

void RemoteEnd::connect() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("socket");
    auto stream = std::make_unique<Stream>(fd);
    const auto target = socket_address(address_, port_);
    const timeval limit{10, 0}; // also of connect()
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0)
        fail(fmt::format("cannot connect to t3accept --server at {} port {}", address_, port_));
    stream_ = std::move(stream);
    const auto hello = exchange({{"do", "hello"}}, std::chrono::seconds(30));
    if (hello.at("version") != t3tools::version)
        throw std::runtime_error(fmt::format("the server is t3accept {}, this is {}",
                                             hello.at("version").get<std::string>(), t3tools::version));
}

Json RemoteEnd::exchange(const Json& request, milliseconds limit) {
    stream_->write(request);
    auto reply = stream_->read(limit);
    if (!reply)
        throw std::runtime_error("the server closed the connection");
    return *reply;
}

template <typename F> auto RemoteEnd::guarded(F&& action) {
    try {
        if (!stream_)
            connect();
        return action();
    } catch (...) {
        stream_.reset();
        throw;
    }
}

Json RemoteEnd::ask(const Json& request, milliseconds limit) {
    const auto reply = guarded([&] { return exchange(request, limit); });
    if (reply.contains("missing"))
        throw Missing{reply.at("missing").get<std::string>(), true};
    if (reply.contains("error"))
        throw std::runtime_error(reply.at("error").get<std::string>());
    return reply;
}

Json RemoteEnd::inventory() {
    return ask({{"do", "inventory"}}).at("value");
}

Counters RemoteEnd::counters() {
    return ask({{"do", "counters"}}).at("value").get<Counters>();
}

std::vector<std::string> RemoteEnd::new_log() {
    return ask({{"do", "log"}}).at("value").get<std::vector<std::string>>();
}

Json RemoteEnd::objects() {
    return ask({{"do", "objects"}}).at("value");
}

int RemoteEnd::start(const Task& task, Side side, const std::string& server) {
    return ask({{"do", "start"},
                {"task", to_json(task)},
                {"server", side == Side::server},
                {"address", server}})
        .at("job")
        .get<int>();
}

Done RemoteEnd::finish(int job, milliseconds limit) {
    const auto reply =
        ask({{"do", "finish"}, {"job", job}, {"ms", limit.count()}}, limit + std::chrono::seconds(30));
    return {reply.at("status").get<int>(), reply.at("late").get<bool>(),
            reply.at("output").get<std::string>(), reply.at("seconds").get<double>()};
}

Transfer RemoteEnd::send(std::size_t bytes) {
    return guarded([&] {
        const auto started = Clock::now();
        stream_->write({{"do", "take"}, {"bytes", bytes}});
        stream_->send_pattern(bytes);
        const auto reply = stream_->read(transfer_limit);
        const std::chrono::duration<double> took = Clock::now() - started;
        return Transfer{reply && reply->value("intact", false), took.count()};
    });
}

Transfer RemoteEnd::receive(std::size_t bytes) {
    return guarded([&] {
        const auto started = Clock::now();
        stream_->write({{"do", "give"}, {"bytes", bytes}});
        const bool intact = stream_->receive_pattern(bytes);
        const std::chrono::duration<double> took = Clock::now() - started;
        return Transfer{intact, took.count()};
    });
}

// ---- the server's side of it

namespace {

Json reply_to(const Json& request, End& end) {
    const auto what = request.at("do").get<std::string>();
    if (what == "hello")
        return {{"version", t3tools::version}};
    if (what == "inventory")
        return {{"value", end.inventory()}};
    if (what == "counters")
        return {{"value", end.counters()}};
    if (what == "log")
        return {{"value", end.new_log()}};
    if (what == "objects")
        return {{"value", end.objects()}};
    if (what == "start")
        return {{"job", end.start(task_from(request.at("task")),
                                  request.at("server").get<bool>() ? Side::server : Side::client,
                                  request.at("address").get<std::string>())}};
    if (what == "finish") {
        const auto done = end.finish(request.at("job").get<int>(), milliseconds(request.at("ms").get<int>()));
        return {
            {"status", done.status}, {"late", done.late}, {"output", done.output}, {"seconds", done.seconds}};
    }
    return {{"error", "unknown request " + what}};
}

void serve_one(Stream& stream, End& end) {
    constexpr auto idle_limit = std::chrono::minutes(15);
    while (const auto request = stream.read(idle_limit)) {
        Json reply;
        try {
            const auto bytes = request->value("bytes", std::size_t{0});
            if (bytes > largest_transfer)
                throw std::runtime_error("too much data");
            if (request->at("do") == "take") {
                reply = {{"intact", stream.receive_pattern(bytes)}};
            } else if (request->at("do") == "give") {
                stream.send_pattern(bytes);
                continue;
            } else {
                reply = reply_to(*request, end);
            }
        } catch (const Missing& missing) {
            reply = {{"missing", missing.program}};
        } catch (const std::exception& error) {
            reply = {{"error", error.what()}};
        }
        stream.write(reply);
    }
}

} // namespace

void serve(const std::string& address, int port, End& end, const std::function<void()>& ready) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    const auto own = socket_address(address, port);
    if (listener < 0 || bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0 ||
        listen(listener, 1) != 0)
        fail(fmt::format("cannot listen at {} port {}", address, port));
    handle_signals();
    ready();
    while (!interrupted()) {
        const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            fail("accept");
        }
        Stream stream(fd);
        try {
            serve_one(stream, end);
        } catch (const std::exception&) { // the client sees the end of the connection; the next one may come
        }
        end.reset();
    }
    close(listener);
}

} // namespace t3accept
