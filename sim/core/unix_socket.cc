// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/unix_socket.hh"

#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "sim/core/log.hh"

namespace t3sim {
namespace {

spdlog::logger& loop_log = logger("loop");

bool make_address(const std::string& path, sockaddr_un& address) {
    address = {};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return false;
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return true;
}

} // namespace

Fd connect_unix(const std::string& path) {
    sockaddr_un address{};
    if (!make_address(path, address))
        return {};
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket && ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        return {};
    return socket;
}

Listener::Listener(EventLoop& loop, std::string path, Accepted accepted, EventLoop::SharedShare share)
    : loop_(loop), path_(std::move(path)), accepted_(std::move(accepted)),
      retry_(loop.queue(), [this] { pause(paused_); }) {
    sockaddr_un address{};
    if (!make_address(path_, address))
        throw std::runtime_error(fmt::format("socket path '{}' has {} characters, at most {} are possible",
                                             path_, path_.size(), sizeof address.sun_path - 1));
    struct stat there {};
    if (lstat(path_.c_str(), &there) == 0) {
        if (!S_ISSOCK(there.st_mode))
            throw std::runtime_error(fmt::format("'{}' exists and is not a socket", path_));
        if (connect_unix(path_))
            throw std::runtime_error(fmt::format("another process already listens at '{}'", path_));
        ::unlink(path_.c_str());
    }
    socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_ || ::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(socket_.get(), 4) != 0)
        throw std::runtime_error(fmt::format("cannot listen at '{}': {}{}", path_, std::strerror(errno),
                                             errno == ENOENT ? "; its folder must exist" : ""));
    watch_ = loop_.watch(
        socket_.get(), EPOLLIN, [this](std::uint32_t) { accept(); }, std::move(share));
}

void Listener::accept() {
    Fd client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client) {
        try {
            accepted_(std::move(client));
        } catch (const std::exception& e) { // epoll may have no memory, or reach the user's limit
            loop_log.warn("a client is dropped: {}", e.what());
        }
        return;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
        return;
    // The client stays in the backlog, so the socket stays ready.
    loop_log.warn("cannot accept a client: {}", std::strerror(errno));
    loop_.change(watch_, 0);
    retry_.after(retry_time);
}

Listener::~Listener() {
    loop_.unwatch(watch_);
    if (socket_)
        ::unlink(path_.c_str());
}

} // namespace t3sim
