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
#include "sim/core/client_fd.hh"
#include "sim/core/worker.hh"

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
///                 of what follows, or nothing if no message has this header. no_sockets: no message may
///                 carry one.
template <typename Header> class MessageSocket {
public:
    struct Message {
        Header header{};
        Buffer body;
        std::vector<Fd> fds;
    };
    /// Descriptors that one message may carry.
    static constexpr std::size_t max_fds = 16;

    /// @p worker closes the descriptors of the client, also those that still are in the socket.
    MessageSocket(Fd socket, Worker& worker) : socket_(std::move(socket)), worker_(worker) {}
    MessageSocket(const MessageSocket&) = delete;
    MessageSocket& operator=(const MessageSocket&) = delete;
    ~MessageSocket() {
        close_fds();
        shutdown(socket_.get(), SHUT_RDWR); // so that the client need not wait for the worker
        worker_.close(std::move(socket_));
    }

    enum class Status { message, incomplete, closed };
    /// Continues to read. "message": a message is complete, see message(). "closed": end of file, an error or
    /// an invalid message.
    Status receive();
    /// The message that receive() completed; valid until the next receive().
    [[nodiscard]] Message& message() { return message_; }

    /// Closes the descriptors of the message that were not taken.
    void close_fds() {
        std::erase_if(message_.fds, [](const Fd& fd) { return !fd; });
        worker_.close(std::exchange(message_.fds, {}));
    }

    /// Sends header and payload in one piece. False: the connection is lost.
    bool send(const Header& header, Bytes payload);
    /// Bytes that the socket did not accept are queued. While this is true, send and receive nothing.
    [[nodiscard]] bool output_waits() const { return !output_.empty(); }
    /// Tries again. False: the connection is lost.
    bool flush();
    /// A part of a message or of a reply waits for the client.
    [[nodiscard]] bool unfinished() const { return output_waits() || (received_ != 0 && !complete_); }

    [[nodiscard]] int fd() const { return socket_.get(); }
    /// Why the status was "closed", for the log; empty: the client disconnected between messages.
    [[nodiscard]] const char* complaint() const { return complaint_; }

private:
    Status closed(const char* complaint) {
        complaint_ = complaint;
        return Status::closed;
    }
    Status receive_some(std::uint8_t* to, std::size_t size);

    Fd socket_;
    Worker& worker_;
    Message message_;
    std::size_t received_ = 0; ///< bytes of the message so far
    bool complete_ = false;
    Buffer output_;
    const char* complaint_ = "";
};

/// "message": some bytes have been received.
template <typename Header>
typename MessageSocket<Header>::Status MessageSocket<Header>::receive_some(std::uint8_t* to,
                                                                           std::size_t size) {
    const ssize_t n = receive_with(socket_.get(), to, size, message_.fds);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? Status::incomplete : closed("receive error");
    if (n == 0)
        return closed(received_ == 0 ? "" : "end of file within a message");
    if (message_.fds.size() > max_fds)
        return closed("more descriptors than one message may carry");
    // With its own end in this process a client would not be missed when it has gone.
    if (Header::no_sockets && std::any_of(message_.fds.begin(), message_.fds.end(), is_socket))
        return closed("a socket is neither memory nor an interrupt");
    received_ += static_cast<std::size_t>(n);
    return Status::message;
}

template <typename Header> typename MessageSocket<Header>::Status MessageSocket<Header>::receive() {
    if (complete_) { // start the next message
        received_ = 0;
        complete_ = false;
    }
    if (received_ < sizeof(Header)) {
        // Exactly the bytes of the header, so that received descriptors belong to this message.
        const Status status = receive_some(reinterpret_cast<std::uint8_t*>(&message_.header) + received_,
                                           sizeof(Header) - received_);
        if (status != Status::message)
            return status;
        if (received_ < sizeof(Header))
            return Status::incomplete;
        const std::optional<std::size_t> size = body_size(message_.header);
        if (!size)
            return closed("impossible message size");
        message_.body.resize(*size);
    }
    const std::size_t have = received_ - sizeof(Header);
    if (have < message_.body.size()) {
        const Status status = receive_some(message_.body.data() + have, message_.body.size() - have);
        if (status != Status::message)
            return status;
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
