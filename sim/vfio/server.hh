// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A vfio-user server: one PCI device behind one unix socket, one client (QEMU) at a time. It implements Host
// for the device and the device for the client.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "sim/core/event_loop.hh"
#include "sim/core/message_socket.hh"
#include "sim/core/pci_server.hh"
#include "sim/core/unix_socket.hh"
#include "sim/vfio/interrupts.hh"

namespace t3sim::vfio {

using Connection = MessageSocket<Header>;
using Message = Connection::Message;

class Server : public PciServer {
public:
    /// Listens at @p path; clients wait until attach(). Throws std::runtime_error with a complete sentence if
    /// the path cannot be used.
    Server(EventLoop& loop, const std::string& path);
    /// Without a listener; for tests, which adopt() one end of a socket pair.
    explicit Server(EventLoop& loop);
    ~Server() override;
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    void attach(Device& device) override;
    /// Handles a connected socket as if it had been accepted.
    void adopt(Fd socket);

    [[nodiscard]] bool connected() const override { return connection_ != nullptr; }

    void raise_irq(unsigned vector) override;
    void set_intx(bool asserted) override;

private:
    /// Result of a command handler: an errno, or 0 with the payload in reply_.
    using Result = int;
    struct Row;
    static const std::array<Row, 17> commands;

    void ready(std::uint32_t events);
    void receive();
    [[nodiscard]] bool write_some();
    void handle(Message& message);
    void send_reply(const Header& header, Result error);
    void disconnect(const char* why);

    Result version(Message& message);
    Result dma_map(Message& message);
    Result dma_unmap(Message& message);
    Result device_get_info(Message& message);
    Result device_get_region_info(Message& message);
    Result device_get_irq_info(Message& message);
    Result device_set_irqs(Message& message);
    Result region_read(Message& message);
    Result region_write(Message& message);
    Result region_write_multi(Message& message);
    Result device_reset(Message& message);

    [[nodiscard]] std::uint64_t region_size(std::uint32_t region) const;
    [[nodiscard]] bool in_region(std::uint32_t region, std::uint64_t offset, std::uint64_t count) const;
    void write_region(std::uint32_t region, std::uint64_t offset, Bytes data);
    /// Also reads whether INTx is enabled.
    void refresh_command() override;
    template <typename T> void reply_with(const T& value);

    EventLoop& loop_;
    std::unique_ptr<Connection> connection_;
    std::unique_ptr<Listener> listener_;
    EventLoop::Watch watch_ = 0;
    bool negotiated_ = false;
    Interrupts interrupts_;
    Buffer reply_;
    /// Progress of a REGION_WRITE_MULTI: the offset of its next write in the message, and the result of the
    /// earlier ones.
    struct Writes {
        bool under_way = false;
        std::size_t next = 0;
        Result result = 0;
        EventQueue::Id more = {};
    } writes_;
};

} // namespace t3sim::vfio
