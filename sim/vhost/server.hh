// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A vhost-user server: one PCI device behind one unix socket, one guest of User Mode Linux at a time. The
// guest reaches it with its driver virt-pci: requests for config space and BARs in one virtqueue, interrupts
// in another.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "sim/core/event_loop.hh"
#include "sim/core/message_socket.hh"
#include "sim/core/pci_server.hh"
#include "sim/core/unix_socket.hh"
#include "sim/vhost/msix.hh"
#include "sim/vhost/protocol.hh"
#include "sim/vhost/virtqueue.hh"

namespace t3sim::vhost {

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

    void attach(Device& device) override;
    /// Handles a connected socket as if it had been accepted.
    void adopt(Fd socket);
    [[nodiscard]] bool connected() const override { return connection_ != nullptr; }

    void raise_irq(unsigned vector) override;
    /// User Mode Linux has no handler for the pin's interrupt: only MSI-X is delivered.
    void set_intx(bool) override {}

private:
    struct Queue {
        explicit Queue(const DmaTable& memory) : ring(memory) {}
        Virtqueue ring;
        Fd kick;
        EventLoop::Watch watch = 0;
        bool enabled = false;
    };

    void receive();
    /// An errno, or 0 with the payload in reply_.
    int handle(Message& message);
    int set_memory(Message& message);
    int set_vring(Message& message, Request request);
    int set_vring_descriptor(Message& message, Request request);
    void disconnect(const char* why);
    void stop(Queue& queue);
    /// Ends the connection of a guest that breaks the rules: later, because the device may be at work now.
    void fail(const char* why);

    void kicked(unsigned index);
    void serve_commands();
    void serve_interrupts();
    /// Executes one request of the guest. Returns its answer.
    [[nodiscard]] Bytes execute(const Virtqueue::Chain& chain);
    void access_bar(const PcidevMessage& request, Bytes data);
    void refresh_command() override;

    EventLoop& loop_;
    std::unique_ptr<Connection> connection_;
    std::unique_ptr<Listener> listener_;
    EventLoop::Watch watch_ = 0;
    Fd backend_requests_; ///< the guest takes its end for a lost connection
    std::array<Queue, num_queues> queues_;
    EventQueue::Id more_ = {};
    EventQueue::Id failing_ = {};
    Buffer reply_;
    Buffer answer_;
    Msix msix_;
    std::uint32_t msix_capability_ = 0;
    struct Place {
        unsigned bar = 0;
        std::uint64_t offset = 0;
    } table_, pending_;
};

} // namespace t3sim::vhost
