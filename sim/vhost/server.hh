// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A vhost-user server: one PCI device behind one unix socket, one guest of User Mode Linux at a time. The
// guest reaches it with its driver virt-pci: requests for config space and BARs in one virtqueue, interrupts
// in another.
#pragma once

#include <array>
#include <string>

#include "sim/core/event_loop.hh"
#include "sim/core/socket_server.hh"
#include "sim/vhost/msix.hh"
#include "sim/vhost/protocol.hh"
#include "sim/vhost/virtqueue.hh"

namespace t3sim::vhost {

class Server : public SocketServer<Header> {
public:
    explicit Server(EventLoop& loop, const std::string& path = {});
    ~Server() override;

    void reset_device() override;
    void raise_irq(unsigned vector) override;
    /// User Mode Linux has no handler for the pin's interrupt: only MSI-X is delivered.
    void set_intx(bool) override {}

private:
    struct Queue {
        explicit Queue(const DmaTable& memory) : ring(memory) {}
        Virtqueue ring;
        SharedEventfd call; ///< how the guest is interrupted
        EventLoop::Watch call_watch = 0;
        Fd kick;
        EventLoop::Watch watch = 0;
        bool enabled = false;
    };

    void attached() override;
    void receive() override;
    void forget_client() override;
    /// An errno, or 0 with the payload in reply_.
    int handle(Message& message);
    int set_memory(Message& message);
    int set_vring(Message& message, Request request);
    int set_vring_descriptor(Message& message, Request request);
    void stop(Queue& queue);
    void close_backend_requests();
    void close_call(Queue& queue);
    void interrupt(Queue& queue);
    void fail(const char* why) override;

    void kicked(unsigned index);
    void serve_commands();
    void serve_interrupts();
    /// Executes one request of the guest. Returns its response.
    [[nodiscard]] Bytes execute(const Virtqueue::Chain& chain);
    void access_bar(const PcidevMessage& request, Bytes data);
    void refresh_command() override;

    Fd backend_requests_; ///< the guest takes its end for a lost connection
    EventLoop::Watch backend_watch_ = 0;
    std::array<Queue, num_queues> queues_;
    EventQueue::Id more_ = {};
    Buffer response_;
    Msix msix_;
    std::uint32_t msix_capability_ = 0;
    struct Place {
        unsigned bar = 0;
        std::uint64_t offset = 0;
    } table_, pending_;
};

} // namespace t3sim::vhost
