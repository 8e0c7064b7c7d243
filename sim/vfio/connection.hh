// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Framing: receives complete messages with their descriptors from a non-blocking stream socket and sends
// replies. A client that sends half a message, or does not read its replies, delays only itself.
#pragma once

#include <optional>
#include <vector>

#include "sim/core/bytes.hh"
#include "sim/core/fd.hh"
#include "sim/vfio/protocol.hh"

namespace t3sim::vfio {

struct Message {
    Header header{};
    Buffer body;
    std::vector<Fd> fds;
};

class Connection {
public:
    explicit Connection(Fd socket) : socket_(std::move(socket)) {}

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

} // namespace t3sim::vfio
