// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/vfio/connection.hh"

#include <array>
#include <cerrno>

#include <sys/socket.h>
#include <sys/uio.h>

namespace t3sim::vfio {

/// Reads exactly the 16 bytes of the header, so that received descriptors belong to this message.
Connection::Status Connection::receive_header() {
    iovec vec{reinterpret_cast<std::uint8_t*>(&message_.header) + received_, sizeof(Header) - received_};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(max_fds * sizeof(int))> control{};
    msghdr msg{};
    msg.msg_iov = &vec;
    msg.msg_iovlen = 1;
    msg.msg_control = control.data();
    msg.msg_controllen = control.size();
    const ssize_t n = recvmsg(socket_.get(), &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? Status::incomplete : closed("receive error");
    if (n == 0)
        return closed(received_ == 0 ? "" : "end of file within a header");
    for (cmsghdr* c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; i++) {
            int fd;
            std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            message_.fds.emplace_back(fd);
        }
    }
    if ((msg.msg_flags & MSG_CTRUNC) != 0 || message_.fds.size() > max_fds)
        return closed("more descriptors than one message may carry");
    received_ += static_cast<std::size_t>(n);
    if (received_ < sizeof(Header))
        return Status::incomplete;
    if (message_.header.size < sizeof(Header) || message_.header.size > max_message)
        return closed("impossible message size");
    message_.body.resize(message_.header.size - sizeof(Header));
    return Status::message;
}

Connection::Status Connection::receive() {
    if (complete_) { // start the next message
        message_.fds.clear();
        received_ = 0;
        complete_ = false;
    }
    if (received_ < sizeof(Header)) {
        const Status status = receive_header();
        if (status != Status::message)
            return status;
    }
    const std::size_t have = received_ - sizeof(Header);
    if (have < message_.body.size()) {
        const ssize_t n =
            recv(socket_.get(), message_.body.data() + have, message_.body.size() - have, MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? Status::incomplete : closed("receive error");
        if (n == 0)
            return closed("end of file within a message");
        received_ += static_cast<std::size_t>(n);
        if (received_ < message_.header.size)
            return Status::incomplete;
    }
    complete_ = true;
    return Status::message;
}

bool Connection::send(const Header& header, Bytes payload) {
    iovec vec[2] = {{const_cast<Header*>(&header), sizeof header},
                    {const_cast<std::uint8_t*>(payload.data()), payload.size()}};
    msghdr msg{};
    msg.msg_iov = vec;
    msg.msg_iovlen = 2;
    std::size_t sent = 0;
    if (output_.empty()) {
        const ssize_t n = sendmsg(socket_.get(), &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        sent = n < 0 ? 0 : static_cast<std::size_t>(n);
    }
    for (const iovec& part : vec) {
        const auto* bytes = static_cast<const std::uint8_t*>(part.iov_base);
        const std::size_t skip = std::min(sent, part.iov_len);
        output_.insert(output_.end(), bytes + skip, bytes + part.iov_len);
        sent -= skip;
    }
    return true;
}

bool Connection::flush() {
    const ssize_t n = ::send(socket_.get(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    output_.erase(output_.begin(), output_.begin() + n);
    return true;
}

} // namespace t3sim::vfio
