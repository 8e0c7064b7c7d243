// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Hostile clients of the two servers: they send every message, with odd sizes and fields, with files and
// descriptors of any kind, in pieces, and without reading replies. Their devices do transfers for them. What
// they do comes from a stream of choices, as with the hostile guest.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/event_loop.hh"
#include "sim/vfio/server.hh"
#include "sim/vhost/server.hh"
#include "tests/fuzz/toy.hh"
#include "tests/sim/choices.hh"

namespace t3sim::test {

/// One of each kind that a client can send: memory of many sizes, files, pipes, sockets, counters.
class Descriptors {
public:
    Descriptors();
    [[nodiscard]] int any(Choices& choices) const;
    [[nodiscard]] int memory(Choices& choices) const;
    /// Changes the length of a file, or fills or empties what can be full.
    void disturb(Choices& choices) const;

private:
    std::vector<Fd> memory_, others_;
};

/// What the clients of both protocols do.
class HostileClient {
public:
    /// @p sends_itself: the client may send its own end of the connection.
    HostileClient(Choices& choices, const Descriptors& descriptors, bool sends_itself)
        : choices_(choices), descriptors_(descriptors), sends_itself_(sends_itself) {}
    virtual ~HostileClient() = default;
    /// Sends something, or does something to its memory. The server has not run yet.
    void step();

protected:
    virtual void adopt(Fd socket) = 0;
    [[nodiscard]] virtual bool connected() const = 0;
    virtual void act() = 0;

    void send(Buffer bytes, const std::vector<int>& fds);
    std::vector<int> some_descriptors();
    /// A 64-bit number, often at the limit of a range, often a multiple of a page.
    std::uint64_t number();
    void append(Buffer& to, std::uint64_t value, unsigned size);

    Choices& choices_;
    const Descriptors& descriptors_;
    bool sends_itself_;
    Fd socket_;
};

class HostileVfioClient : public HostileClient {
public:
    HostileVfioClient(Choices& choices, const Descriptors& descriptors, EventLoop& loop)
        : HostileClient(choices, descriptors, true), server_(loop), device_(server_) {
        server_.attach(device_);
    }
    [[nodiscard]] const PciServer& server() const { return server_; }

private:
    void adopt(Fd socket) override;
    [[nodiscard]] bool connected() const override { return server_.connected(); }
    void act() override;
    void message(vfio::Command command, Buffer body, const std::vector<int>& fds = {});
    void version(bool valid);
    Buffer version_text();
    std::uint64_t address();

    vfio::Server server_;
    Toy device_;
};

class HostileVhostClient : public HostileClient {
public:
    HostileVhostClient(Choices& choices, const Descriptors& descriptors, EventLoop& loop);
    ~HostileVhostClient() override;
    [[nodiscard]] const PciServer& server() const { return server_; }

private:
    void adopt(Fd socket) override;
    [[nodiscard]] bool connected() const override { return server_.connected(); }
    void act() override;
    void message(vhost::Request request, Buffer body, const std::vector<int>& fds = {});
    void share_memory(bool valid);
    void start_queue(std::uint32_t queue);
    void request();
    void descriptor(unsigned queue, unsigned number, std::uint64_t address, std::uint32_t length,
                    std::uint16_t flags, std::uint16_t next);
    void make_available(unsigned queue, std::uint16_t head);
    void kick(unsigned queue) const;

    vhost::Server server_;
    Toy device_;
    Fd file_, kicks_[vhost::num_queues], calls_[vhost::num_queues];
    std::uint8_t* memory_;
};

} // namespace t3sim::test
