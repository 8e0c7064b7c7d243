// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Framing of vfio-user and vhost-user: receives complete messages with their descriptors from a non-blocking
// stream socket and sends replies. A client that sends half a message, or does not read its replies, delays
// only itself.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include "sim/core/bytes.hh"
#include "sim/core/fd.hh"

namespace t3sim {

/// Reads a layout in the byte order of the host from the start of a message. False: too short.
template <typename T> bool take(Bytes body, T& value) {
    if (body.size() < sizeof value)
        return false;
    std::memcpy(&value, body.data(), sizeof value);
    return true;
}

/// Appends a layout to a message.
template <typename T> void append(Buffer& buffer, const T& value) {
    const auto* raw = reinterpret_cast<const std::uint8_t*>(&value);
    buffer.insert(buffer.end(), raw, raw + sizeof value);
}

/// @tparam Header  begins each message. body_size(const Header&), next to its definition, returns the length
///                 of what follows, or nothing if no message has this header.
template <typename Header> class MessageSocket {
public:
    struct Message {
        Header header{};
        Buffer body;
        std::vector<Fd> fds;
    };
    /// Descriptors that one message may carry.
    static constexpr std::size_t max_fds = 16;

    explicit MessageSocket(Fd socket) : socket_(std::move(socket)) {}

    enum class Status { message, incomplete, closed };
    /// Continues to read. "message": a message is complete, see message(). "closed": end of file, an error or
    /// an invalid message.
    Status receive();
    /// The message that receive() completed; valid until the next receive().
    [[nodiscard]] Message& message() { return message_; }

    /// Sends header and payload in one piece. False: the connection is lost.
    bool send(const Header& header, Bytes payload);
    /// Bytes that the socket did not accept are queued. While this is true, send and receive nothing.
    [[nodiscard]] bool output_waits() const { return !output_.empty(); }
    /// Tries again. False: the connection is lost.
    bool flush();

    [[nodiscard]] int fd() const { return socket_.get(); }
    /// Why the status was "closed", for the log; empty: the client disconnected between messages.
    [[nodiscard]] const char* complaint() const { return complaint_; }

private:
    Status closed(const char* complaint) {
        complaint_ = complaint;
        return Status::closed;
    }
    Status receive_header();

    Fd socket_;
    Message message_;
    std::size_t received_ = 0; ///< bytes of the message so far
    bool complete_ = false;
    Buffer output_;
    const char* complaint_ = "";
};

/// Reads exactly the bytes of the header, so that received descriptors belong to this message.
template <typename Header> typename MessageSocket<Header>::Status MessageSocket<Header>::receive_header() {
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
    const std::optional<std::size_t> size = body_size(message_.header);
    if (!size)
        return closed("impossible message size");
    message_.body.resize(*size);
    return Status::message;
}

template <typename Header> typename MessageSocket<Header>::Status MessageSocket<Header>::receive() {
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
        if (received_ < sizeof(Header) + message_.body.size())
            return Status::incomplete;
    }
    complete_ = true;
    return Status::message;
}

template <typename Header> bool MessageSocket<Header>::send(const Header& header, Bytes payload) {
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

template <typename Header> bool MessageSocket<Header>::flush() {
    const ssize_t n = ::send(socket_.get(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    output_.erase(output_.begin(), output_.begin() + n);
    return true;
}

} // namespace t3sim
