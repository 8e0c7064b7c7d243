// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A vfio-user server: one PCI device behind one unix socket, one client (QEMU) at a time. It implements Host
// for the device and the device for the client.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "sim/core/counters.hh"
#include "sim/core/event_loop.hh"
#include "sim/core/host.hh"
#include "sim/core/unix_socket.hh"
#include "sim/vfio/connection.hh"
#include "sim/vfio/dma_table.hh"
#include "sim/vfio/interrupts.hh"

namespace t3sim::vfio {

class Server : public Host {
public:
    /// Listens at @p path; clients wait until attach(). Throws std::runtime_error with a complete sentence if
    /// the path cannot be used.
    Server(EventLoop& loop, const std::string& path);
    /// Without a listener; for tests, which adopt() one end of a socket pair.
    explicit Server(EventLoop& loop);
    ~Server() override;
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// Sets the device for all clients. The device must outlive the server's last event; the server, as the
    /// device's Host, must outlive the device. So create the server, then the device with it, then attach.
    void attach(Device& device);
    /// Handles a connected socket as if it had been accepted.
    void adopt(Fd socket);

    [[nodiscard]] bool connected() const { return connection_ != nullptr; }
    [[nodiscard]] const Counters& counters() const { return counters_; }

    // Host. With bus mastering disabled all transfers fail and no vector is raised, as on a real bus.
    bool dma_read(std::uint64_t addr, MutableBytes to) override;
    bool dma_write(std::uint64_t addr, Bytes from) override;
    bool dma_load(std::uint64_t addr, std::uint32_t& raw) override;
    bool dma_store(std::uint64_t addr, std::uint32_t raw) override;
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
    /// Reads the command register, which enables DMA and INTx.
    void refresh_command();
    bool bus_error(const char* what, std::uint64_t addr, std::size_t size);
    template <typename T> void reply_with(const T& value);

    EventLoop& loop_;
    Device* device_ = nullptr;
    std::unique_ptr<Connection> connection_;
    std::unique_ptr<Listener> listener_;
    EventLoop::Watch watch_ = 0;
    bool negotiated_ = false;
    bool bus_master_ = false;
    DmaTable dma_;
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
    Counters counters_;
    Counter& messages_ = counters_["vfio.messages"];
    Counter& mmio_reads_ = counters_["vfio.bar_reads"];
    Counter& mmio_writes_ = counters_["vfio.bar_writes"];
    Counter& dma_reads_ = counters_["vfio.dma_reads"];
    Counter& dma_writes_ = counters_["vfio.dma_writes"];
    Counter& bus_errors_ = counters_["vfio.bus_errors"];
    Counter& interrupts_raised_ = counters_["vfio.interrupts"];
    Counter& refused_ = counters_["vfio.refused_requests"];
};

} // namespace t3sim::vfio
