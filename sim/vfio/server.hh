// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A vfio-user server: one PCI device behind one unix socket, one client (QEMU) at a time. It implements Host
// for the device and the device for the client.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "sim/core/event_loop.hh"
#include "sim/core/socket_server.hh"
#include "sim/vfio/interrupts.hh"

namespace t3sim::vfio {

class Server : public SocketServer<Header> {
public:
    explicit Server(EventLoop& loop, const std::string& path = {}) : SocketServer(loop, "vfio", path) {}
    ~Server() override;

    void raise_irq(unsigned vector) override;
    void set_intx(bool asserted) override;

private:
    /// Result of a command handler: an errno, or 0 with the payload in reply_.
    using Result = int;
    struct Row;
    static const std::array<Row, 17> commands;

    void attached() override;
    void receive() override;
    void forget_client() override;
    [[nodiscard]] bool write_some();
    void handle(Message& message);
    void send_reply(const Header& header, Result error);

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

    bool negotiated_ = false;
    bool unmaps_ = false; ///< DMA_UNMAP continues in an event
    EventQueue::Id more_unmaps_ = {};
    Interrupts interrupts_{signals_};
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
