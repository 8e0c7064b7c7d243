// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A vfio-user client on a socket pair, for tests of the server.
#pragma once

#include <cstring>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "sim/core/event_loop.hh"
#include "sim/vfio/server.hh"
#include "tests/sim/pci_client.hh"

namespace t3sim::vfio {

struct Reply {
    Header header{};
    Buffer body;
    template <typename T> T as() const {
        T value{};
        std::memcpy(&value, body.data(), std::min(sizeof value, body.size()));
        return value;
    }
};

class ServerTest : public testing::Test {
protected:
    ServerTest() {
        Signals::prepare();
        server.attach(device);
        connect();
    }

    void connect() {
        int pair[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        client.reset(pair[0]);
        server.adopt(Fd(pair[1]));
    }

    /// Runs the server until it has no more work.
    void settle() {
        for (int i = 0; i < 20; i++)
            loop.run_once(0);
    }

    void send_raw(Bytes bytes, const std::vector<int>& fds = {}) {
        ASSERT_TRUE(send_with(client, bytes, fds));
    }

    Buffer frame(Command command, const Buffer& body, std::uint32_t flags = flag::command) {
        const Header header{.id = ++id,
                            .command = static_cast<std::uint16_t>(command),
                            .size = static_cast<std::uint32_t>(sizeof(Header) + body.size()),
                            .flags = flags,
                            .error = 0};
        return join({raw(header), body});
    }

    std::optional<Reply> receive() {
        settle();
        Reply reply;
        if (recv(client.get(), &reply.header, sizeof reply.header, MSG_DONTWAIT) != sizeof reply.header)
            return std::nullopt;
        reply.body.resize(reply.header.size - sizeof(Header));
        if (!reply.body.empty() && recv(client.get(), reply.body.data(), reply.body.size(), MSG_DONTWAIT) !=
                                       static_cast<ssize_t>(reply.body.size()))
            return std::nullopt;
        return reply;
    }

    /// Sends a command and checks its reply for the id and @p error.
    Reply call(Command command, const Buffer& body, int error = 0, const std::vector<int>& fds = {}) {
        send_raw(frame(command, body), fds);
        auto reply = receive();
        eventually([&] { return reply || (reply = receive()) || !server.connected(); });
        EXPECT_TRUE(reply) << "no reply to command " << static_cast<int>(command);
        if (!reply)
            return {};
        EXPECT_EQ(reply->header.id, id);
        EXPECT_EQ(reply->header.command, static_cast<std::uint16_t>(command));
        EXPECT_EQ(reply->header.error, static_cast<std::uint32_t>(error)) << std::strerror(error);
        EXPECT_EQ(reply->header.flags, error ? 0x21U : 0x1U);
        EXPECT_TRUE(error == 0 || reply->body.empty());
        return *reply;
    }

    /// A text as long as that of QEMU 11.1.
    static Buffer version_body(std::uint16_t minor = 0) {
        std::string text = R"({"capabilities":{"pgsizes":4096,"max_msg_fds":16,"max_dma_maps":65535,)"
                           R"("max_data_xfer_size":1048576,"migration":{"max_bitmap_size":268435456,)"
                           R"("pgsize":4096},"write_multiple":true}})";
        Buffer body = raw(Version{.major = 0, .minor = minor});
        body.insert(body.end(), text.c_str(), text.c_str() + text.size() + 1);
        return body;
    }
    void negotiate() { call(Command::version, version_body()); }

    void set_command(std::uint16_t value) {
        call(Command::region_write,
             join({raw(RegionAccess{.offset = 4, .region = region_config, .count = 2}), raw(value)}));
    }

    void map(std::uint64_t address, std::uint64_t size, const Fd& file, std::uint64_t offset = 0,
             std::uint32_t flags = dma_readable | dma_writable, int error = 0) {
        call(Command::dma_map,
             raw(DmaMapRequest{
                 .argsz = 32, .flags = flags, .offset = offset, .address = address, .size = size}),
             error, file ? std::vector{file.get()} : std::vector<int>{});
    }

    /// Whether the server has closed the connection.
    bool hung_up() {
        settle();
        char c;
        return recv(client.get(), &c, 1, MSG_DONTWAIT) == 0;
    }

    static std::uint64_t events(const Fd& eventfd) {
        std::uint64_t count = 0;
        return read(eventfd.get(), &count, sizeof count) == sizeof count ? count : 0;
    }
    void set_irqs(std::uint32_t flags, std::uint32_t index, std::uint32_t start, std::uint32_t count,
                  const std::vector<int>& fds = {}, int error = 0) {
        call(Command::device_set_irqs,
             raw(SetIrqs{.argsz = 20, .flags = flags, .index = index, .start = start, .count = count}), error,
             fds);
    }

    EventLoop loop;
    Server server{loop};
    RecordingDevice device;
    Fd client;
    std::uint16_t id = 0;
};

} // namespace t3sim::vfio
