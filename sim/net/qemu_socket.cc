// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/qemu_socket.hh"

#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>
#include <sys/uio.h>

#include "sim/core/client_fd.hh"
#include "sim/net/log.hh"

namespace t3sim {
namespace {

// QEMU's own limit for a packet (4 KiB of slack over 64 KiB).
constexpr std::uint32_t max_socket_frame = 65536 + 4096;
constexpr std::size_t prefix = 4;
// The buffer that a switch has for one port: a burst of one or two TCP windows.
constexpr std::size_t max_queue = 1 << 20;

} // namespace

QemuSocket::QemuSocket(EventLoop& loop, Link& link, const std::string& path)
    : loop_(loop), link_(link), path_(path),
      listener_(
          loop, path, [this](Fd socket) { accept(std::move(socket)); }, share_) {
    worker_.on_idle(loop, [this] { listener_.pause(static_cast<bool>(socket_)); });
}

QemuSocket::~QemuSocket() {
    loop_.unwatch(watch_);
}

void QemuSocket::accept(Fd socket) {
    socket_ = std::move(socket);
    try {
        watch_ = loop_.watch(
            socket_.get(), EPOLLIN, [this](std::uint32_t events) { ready(events); }, share_);
    } catch (...) {
        hang_up(" at once"); // by the worker, as it may have sent descriptors
        throw;
    }
    listener_.pause(true);
    wire_log.debug("{}: QEMU connected", path_);
}

void QemuSocket::hang_up(const char* why) {
    wire_log.debug("{}: QEMU disconnected{}", path_, why);
    loop_.unwatch(watch_);
    watch_ = 0;
    shutdown(socket_.get(), SHUT_RDWR);
    worker_.close(std::move(socket_)); // the next QEMU may connect then
    input_.clear();
    output_.clear();
    full_ = false;
}

void QemuSocket::ready(std::uint32_t events) {
    if ((events & EPOLLOUT) != 0 && !output_.empty()) {
        const ssize_t n = ::send(socket_.get(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return hang_up(": send error");
        if (n > 0)
            output_.erase(output_.begin(), output_.begin() + n);
        if (output_.empty())
            watch_events();
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0)
        return;
    std::array<std::uint8_t, 65536> piece; // NOLINT: recv() fills it
    std::vector<Fd> fds;
    const ssize_t n = receive_with(socket_.get(), piece.data(), piece.size(), fds);
    if (!fds.empty()) {
        worker_.close(std::move(fds));
        return hang_up(": it sent a descriptor");
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return hang_up("");
    if (n > 0) {
        input_.insert(input_.end(), piece.data(), piece.data() + n);
        take_frames();
    }
}

/// Back-pressure: while the wire is full, QEMU's socket is not read.
void QemuSocket::resume_send() {
    if (!std::exchange(full_, false) || !socket_)
        return;
    watch_events();
    take_frames();
}

void QemuSocket::watch_events() {
    loop_.change(watch_, (full_ ? 0U : EPOLLIN) | (output_.empty() ? 0U : EPOLLOUT));
}

void QemuSocket::take_frames() {
    std::size_t at = 0;
    while (input_.size() - at >= prefix) {
        const std::uint32_t length = be32(input_.data() + at);
        if (length == 0 || length > max_socket_frame)
            return hang_up(": impossible frame length");
        if (input_.size() - at - prefix < length)
            break;
        if (!link_.ready_or_wait(*this)) {
            full_ = true;
            watch_events();
            break;
        }
        link_.send(*this, Bytes(input_).subspan(at + prefix, length));
        at += prefix + length;
    }
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(at));
}

void QemuSocket::frame_in(Bytes frame) {
    // A receiver that is too slow loses complete frames. A partly sent frame is always finished.
    if (!socket_ || output_.size() + prefix + frame.size() > max_queue) {
        dropped_++;
        return;
    }
    std::array<std::uint8_t, prefix> length{};
    put_be32(length.data(), static_cast<std::uint32_t>(frame.size()));
    if (!output_.empty()) {
        output_.insert(output_.end(), length.begin(), length.end());
        output_.insert(output_.end(), frame.begin(), frame.end());
        return;
    }
    iovec vec[2] = {{length.data(), length.size()}, {const_cast<std::uint8_t*>(frame.data()), frame.size()}};
    msghdr msg{};
    msg.msg_iov = vec;
    msg.msg_iovlen = 2;
    ssize_t n = 0;
    if (!share_->rests)
        loop_.charge(share_, [&] {
            n = sendmsg(socket_.get(), &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && (errno == EAGAIN || errno == EINTR))
                n = 0;
        });
    if (n < 0) { // ready() detects a lost connection
        dropped_++;
        return;
    }
    if (const auto sent = static_cast<std::size_t>(n); sent < prefix + frame.size()) {
        output_.reserve(max_queue); // a vector that grows by itself has twice as much
        if (sent < prefix)
            output_.assign(length.begin() + static_cast<std::ptrdiff_t>(sent), length.end());
        const Bytes unsent = frame.subspan(sent > prefix ? sent - prefix : 0);
        output_.insert(output_.end(), unsent.begin(), unsent.end());
        watch_events();
    }
}

} // namespace t3sim
