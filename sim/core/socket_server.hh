// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The connection of a PciServer: the listening socket, one client at a time, messages of one header.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "sim/core/event_loop.hh"
#include "sim/core/log.hh"
#include "sim/core/message_socket.hh"
#include "sim/core/pci_server.hh"
#include "sim/core/unix_socket.hh"

namespace t3sim {

template <typename Header> class SocketServer : public PciServer {
public:
    using Connection = MessageSocket<Header>;
    using Message = typename Connection::Message;

    void attach(Device& device) final {
        device_ = &device;
        attached();
        refresh_command();
        admit(true);
    }
    /// Handles a connected socket as if it had been accepted.
    void adopt(Fd socket) {
        connection_ = std::make_unique<Connection>(std::move(socket), worker_);
        for_client([&] {
            admit(false); // the next client waits until this one has disconnected
            watch_ = loop_.watch(
                connection_->fd(), EPOLLIN, [this](std::uint32_t events) { ready(events); }, share_);
            log_.debug("client connected");
        });
    }
    [[nodiscard]] bool connected() const final { return connection_ != nullptr; }

    /// A client that leaves a message, or the reading of replies, unfinished for so long is dropped. What it
    /// has sent meanwhile may hold its own end of the connection, so that it would not be missed when it has
    /// gone.
    static constexpr Time patience = 300'000'000'000;

protected:
    /// @p protocol: name of the logger, prefix of the counters. @p path: where it listens; clients wait until
    /// attach(). Throws std::runtime_error with a complete sentence if the path cannot be used. Without a
    /// path: for tests, which adopt() one end of a socket pair.
    SocketServer(EventLoop& loop, const std::string& protocol, const std::string& path)
        : PciServer(protocol), loop_(loop), log_(logger(protocol)) {
        worker_.on_idle(loop, [this] { worker_is_idle(); });
        if (path.empty())
            return;
        listener_ = std::make_unique<Listener>(
            loop, path, [this](Fd socket) { adopt(std::move(socket)); }, share_);
        admit(false);
    }
    ~SocketServer() override {
        loop_.queue().cancel(failing_);
        loop_.queue().cancel(unfinished_);
        loop_.unwatch(watch_);
    }

    /// The device is set; its configuration space can be read.
    virtual void attached() = 0;
    /// The socket is readable, and no output waits.
    virtual void receive() = 0;
    /// Drops everything that the client has set up, and scheduled events for it.
    virtual void forget_client() = 0;

    /// Ends the connection and resets the device for the next client. @p why: for the log; empty: the client
    /// has disconnected.
    void disconnect(const char* why) {
        if (*why)
            log_.warn("client dropped: {}", why);
        else
            log_.debug("client disconnected");
        loop_.queue().cancel(std::exchange(failing_, {}));
        loop_.queue().cancel(unfinished_);
        loop_.unwatch(std::exchange(watch_, 0));
        connection_.reset();
        // Unmap guest memory before the reset, so that DMA of the card during the reset cannot reach the
        // guest.
        dma_.clear();
        signals_.forget_client();
        forget_client();
        device_->restore_nonvolatile();
        reset_device();
        // worker_is_idle() admits the next one when all that this one had is closed.
    }
    void fail(const char* why) override {
        if (failing_ == EventQueue::Id{})
            failing_ = later([this, why] { disconnect(why); });
    }
    /// Executes what a client asks for. Whatever fails ends only its connection.
    template <typename F> void for_client(F&& f) {
        try {
            f();
        } catch (const std::exception& e) {
            if (connection_)
                disconnect(e.what());
        }
    }
    /// The same in an event, for work that the client has caused.
    template <typename F> EventQueue::Id later(F f, Time delay = 0) {
        return loop_.queue().after(delay, [this, f] { loop_.charge(share_, [&] { for_client(f); }); });
    }
    /// Reads from the socket. True: connection_->message() is complete. If the client is gone, the connection
    /// has ended.
    bool receive_message() {
        if (worker_.is_behind()) { // until worker_is_idle()
            loop_.change(watch_, 0);
            return false;
        }
        switch (connection_->receive()) {
        case Connection::Status::incomplete:
            return false;
        case Connection::Status::closed:
            disconnect(connection_->complaint());
            return false;
        case Connection::Status::message:
            break;
        }
        return true;
    }
    /// Sends a reply. While a part of it waits, receive() is not called.
    void send(const Header& header, Bytes payload) {
        if (!connection_->send(header, payload))
            disconnect("send error");
        else if (connection_->output_waits())
            loop_.change(watch_, EPOLLOUT);
        be_patient();
    }

    EventLoop& loop_;
    std::unique_ptr<Connection> connection_;
    Buffer reply_;
    const EventLoop::SharedShare share_ = std::make_shared<EventLoop::Share>(); ///< of all clients

private:
    void ready(std::uint32_t events) {
        for_client([&] {
            if (worker_.is_behind() && (events & (EPOLLHUP | EPOLLERR)) != 0)
                return disconnect("");
            if (connection_->output_waits()) {
                if (!connection_->flush())
                    return disconnect("send error");
                if (connection_->output_waits())
                    return;
                loop_.change(watch_, EPOLLIN);
            }
            receive();
        });
        be_patient();
    }
    /// Begins to wait again: something has moved.
    void be_patient() {
        loop_.queue().cancel(std::exchange(unfinished_, {}));
        if (connection_ && connection_->unfinished())
            unfinished_ = later([this] { disconnect("it has left something unfinished"); }, patience);
    }
    void worker_is_idle() {
        if (!connection_)
            admit(device_ != nullptr);
        else
            loop_.change(watch_, connection_->output_waits() ? EPOLLOUT : EPOLLIN);
    }
    void admit(bool clients) {
        if (listener_)
            listener_->pause(!clients);
    }

    spdlog::logger& log_;
    std::unique_ptr<Listener> listener_;
    EventLoop::Watch watch_ = 0;
    EventQueue::Id failing_ = {}, unfinished_ = {};
};

} // namespace t3sim
