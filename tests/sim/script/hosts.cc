// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Two guests of a t3sim without an emulator: drivers of its first two cards, whose ports a wire must join.
// The first card opens connections to the second one and sends a message on each of them again and again,
// until its input ends.
//
//     t3sim_hosts SOCKET SOCKET CONNECTIONS
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/core/fd.hh"
#include "sim/core/unix_socket.hh"
#include "sim/vfio/protocol.hh"
#include "tests/sim/scale/test_driver.hh"

namespace t3sim::test {
namespace {

using vfio::Command;
using vfio::Header;

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
}

/// A card of another process over vfio-user. Accesses are posted; nothing is read.
class RemoteCard final : public Device {
public:
    explicit RemoteCard(const std::string& path) : socket_(connect_unix(path)) {
        if (!socket_)
            fail(path);
        Buffer version = bytes(vfio::Version{.major = 0, .minor = 0});
        const std::string capabilities = R"({"capabilities":{}})";
        version.insert(version.end(), capabilities.c_str(), capabilities.c_str() + capabilities.size() + 1);
        call(Command::version, version);
    }
    void map(int memory, std::uint64_t address, std::size_t size) {
        call(Command::dma_map,
             bytes(vfio::DmaMapRequest{.argsz = sizeof(vfio::DmaMapRequest),
                                       .flags = vfio::dma_readable | vfio::dma_writable,
                                       .offset = 0,
                                       .address = address,
                                       .size = size}),
             memory);
    }

    [[nodiscard]] std::uint64_t bar_size(unsigned) const override { return 0; }
    [[nodiscard]] unsigned msix_vectors() const override { return 0; }
    std::uint64_t mmio_read(unsigned, std::uint64_t, unsigned) override { return 0; }
    void mmio_write(unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value) override {
        const auto* raw = reinterpret_cast<const std::uint8_t*>(&value);
        write(bar, offset, Bytes(raw, size));
    }
    void config_read(std::uint32_t, MutableBytes) override {}
    void config_write(std::uint32_t offset, Bytes from) override { write(vfio::region_config, offset, from); }
    void reset() override {}
    void restore_nonvolatile() override {}

private:
    template <typename T> static Buffer bytes(const T& value) {
        const auto* raw = reinterpret_cast<const std::uint8_t*>(&value);
        return {raw, raw + sizeof value};
    }
    void send(Command command, Bytes body, std::uint32_t flags, int descriptor = -1) {
        Buffer message = bytes(Header{.id = ++id_,
                                      .command = static_cast<std::uint16_t>(command),
                                      .size = static_cast<std::uint32_t>(sizeof(Header) + body.size()),
                                      .flags = flags,
                                      .error = 0});
        message.insert(message.end(), body.begin(), body.end());
        iovec piece{message.data(), message.size()};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
        msghdr all{};
        all.msg_iov = &piece;
        all.msg_iovlen = 1;
        if (descriptor >= 0) {
            all.msg_control = control;
            all.msg_controllen = sizeof control;
            cmsghdr* const one = CMSG_FIRSTHDR(&all);
            one->cmsg_level = SOL_SOCKET;
            one->cmsg_type = SCM_RIGHTS;
            one->cmsg_len = CMSG_LEN(sizeof(int));
            std::memcpy(CMSG_DATA(one), &descriptor, sizeof descriptor);
        }
        if (sendmsg(socket_.get(), &all, MSG_NOSIGNAL) != static_cast<ssize_t>(message.size()))
            fail("the card is gone");
    }
    void call(Command command, Bytes body, int descriptor = -1) {
        send(command, body, vfio::flag::command, descriptor);
        Header reply{};
        if (recv(socket_.get(), &reply, sizeof reply, MSG_WAITALL) != sizeof reply ||
            (reply.flags & vfio::flag::error) != 0)
            fail("the card refuses its guest");
        Buffer body_of_reply(reply.size - sizeof reply);
        if (!body_of_reply.empty() && recv(socket_.get(), body_of_reply.data(), body_of_reply.size(),
                                           MSG_WAITALL) != static_cast<ssize_t>(body_of_reply.size()))
            fail("no reply");
    }
    void write(unsigned region, std::uint64_t offset, Bytes data) {
        Buffer body = bytes(vfio::RegionAccess{
            .offset = offset, .region = region, .count = static_cast<std::uint32_t>(data.size())});
        body.insert(body.end(), data.begin(), data.end());
        send(Command::region_write, body, vfio::flag::command | vfio::flag::no_reply);
    }

    Fd socket_;
    std::uint16_t id_ = 0;
};

struct Guest {
    Guest(const std::string& path, unsigned number, unsigned connections)
        : size((CardDriver::memory_size(connections) + 4095) / 4096 * 4096),
          file(memfd_create("guest", MFD_CLOEXEC)), card(path), memory(map(file.get(), size)),
          host(memory, size), driver(card, host, number, connections) {
        card.map(file.get(), FakeHost::default_base, size);
        driver.bring_up(1 - number);
    }
    static std::uint8_t* map(int file, std::size_t size) {
        void* const at = ftruncate(file, static_cast<off_t>(size)) == 0
                             ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                             : MAP_FAILED;
        if (at == MAP_FAILED)
            fail("no memory");
        return static_cast<std::uint8_t*>(at);
    }
    std::size_t size;
    Fd file;
    RemoteCard card;
    std::uint8_t* memory;
    FakeHost host;
    CardDriver driver;
};

void run(const char* from, const char* to, unsigned connections) {
    Guest a(from, 0, connections), b(to, 1, connections);
    b.driver.listen();
    for (unsigned n = 0; n < connections; ++n)
        a.driver.open(n, 1);
    constexpr int interval = 20; // ms between two messages of a connection
    unsigned ready = 0;
    for (int time = 0;; ++time) {
        a.driver.process_responses();
        b.driver.process_responses();
        if (time % interval == 0) {
            for (unsigned n = 0; n < ready; ++n) {
                b.driver.receive(n);
                a.driver.send(n);
            }
            // From the next time on: then both ends are in RDMA mode.
            ready = static_cast<unsigned>(std::min(a.driver.connected(), b.driver.connected()));
        }
        pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
        if (poll(&input, 1, 1) != 0)
            return;
    }
}

} // namespace
} // namespace t3sim::test

int main(int argc, char** argv) {
    const unsigned connections = argc == 4 ? static_cast<unsigned>(std::atoi(argv[3])) : 0;
    if (connections == 0) {
        std::fprintf(stderr, "usage: %s SOCKET SOCKET CONNECTIONS\n", argv[0]);
        return 2;
    }
    try {
        t3sim::test::run(argv[1], argv[2], connections);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
        return 1;
    }
    return 0;
}
