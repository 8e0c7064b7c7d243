// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The input is what a guest of User Mode Linux does: messages to the vhost-user server, valid or not, what it
// writes into the memory that it shares (so into its queues), and kicks.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/core/log.hh"
#include "sim/vhost/server.hh"
#include "tests/fuzz/toy.hh"

namespace {

using namespace t3sim;
using namespace t3sim::vhost;

constexpr std::uint64_t memory_start = 0x100000;
constexpr std::size_t memory_size = 64 << 10, queue_size = 8;

/// Of a queue, in the memory.
constexpr std::size_t part(unsigned queue, unsigned number) {
    return queue * 0x4000 + number * 0x1000;
}
enum Part : unsigned { descriptors, available, used, buffers };

class Guest {
public:
    Guest(Bytes input, EventLoop& loop) : left_(input), loop_(loop), server_(loop), toy_(server_) {
        server_.attach(toy_);
        std::fill_n(memory(), memory_size, std::uint8_t{0});
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
            std::abort();
        socket_.reset(pair[0]);
        server_.adopt(Fd(pair[1]));
        for (Fd* fd : {&kicks_[0], &kicks_[1], &call_})
            fd->reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    }

    void run() {
        while (!left_.empty() && server_.connected()) {
            step();
            // Two turns: what the first one defers is done in the second.
            for (int turn = 0; turn < 2; ++turn)
                loop_.run_once(0);
            std::uint8_t replies[4096];
            while (recv(socket_.get(), replies, sizeof replies, MSG_DONTWAIT) > 0)
                continue;
        }
    }

private:
    void step() {
        switch (byte() % 8) {
        case 0:
            any_message();
            break;
        case 1:
            share_memory();
            break;
        case 2:
            start_queue(byte() % 2);
            break;
        case 3: { // what a guest writes into its memory
            const std::size_t at = (byte() << 8 | byte()) % memory_size;
            const Bytes bytes = take(std::min<std::size_t>(byte(), memory_size - at));
            std::copy(bytes.begin(), bytes.end(), memory() + at);
            break;
        }
        case 4:
            request();
            break;
        case 5:
            kick(byte() % 2);
            break;
        case 6: // buffers for interrupts, then one
            descriptor(interrupt_queue, 0, buffers, 0x800, descriptor_write, 0);
            make_available(interrupt_queue, byte() % queue_size);
            server_.raise_irq(byte() % 16);
            break;
        default: { // no message at all
            const Bytes bytes = take(byte());
            (void)::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
            break;
        }
        }
    }

    void any_message() {
        const Header header{.request = byte() % 24U,
                            .flags = byte() % 8U != 0 ? version | (byte() & flag_need_reply) : byte(),
                            .size = byte() % 128U};
        std::array<int, 3> fds{memory_file(), kicks_[0].get(), call_.get()};
        std::rotate(fds.begin(), fds.begin() + byte() % 3, fds.end());
        send(header, take(header.size), {fds.data(), byte() % 4U});
    }

    void share_memory() {
        Buffer body;
        append(body, MemoryTable{.regions = 1, .padding = 0});
        append(body, MemoryRegion{.guest_address = memory_start,
                                  .size = memory_size,
                                  .user_address = memory_start,
                                  .offset = 0});
        const int fd = memory_file();
        valid(Request::set_mem_table, body, {&fd, 1});
    }

    void start_queue(std::uint32_t queue) {
        const auto address = [queue](Part number) { return memory_start + part(queue, number); };
        const int kick = kicks_[queue].get(), call = call_.get();
        valid(Request::set_vring_num, body_of(VringState{.index = queue, .num = queue_size}));
        valid(Request::set_vring_base, body_of(VringState{.index = queue, .num = 0}));
        valid(Request::set_vring_addr, body_of(VringAddress{.index = queue,
                                                            .flags = 0,
                                                            .descriptors = address(descriptors),
                                                            .used = address(used),
                                                            .available = address(available),
                                                            .log = 0}));
        valid(Request::set_vring_kick, body_of(std::uint64_t{queue}), {&kick, 1});
        valid(Request::set_vring_call, body_of(std::uint64_t{queue}), {&call, 1});
        valid(Request::set_vring_enable, body_of(VringState{.index = queue, .num = 1}));
    }

    /// A request of the driver, with valid descriptors; its fields and its data may be anything.
    void request() {
        PcidevMessage message{.operation = static_cast<Operation>(byte() % 9),
                              .bar = static_cast<std::uint8_t>(byte() % 7),
                              .reserved = 0,
                              .size = byte(),
                              .address = std::uint64_t{byte()} << byte() % 20};
        if (byte() % 8 == 0)
            message.size <<= 16;
        const Bytes data = take(byte());
        std::uint8_t* at = memory() + part(command_queue, buffers);
        std::memcpy(at, &message, sizeof message);
        std::copy(data.begin(), data.end(), at + sizeof message);
        descriptor(command_queue, 0, buffers, static_cast<std::uint32_t>(sizeof message + data.size()),
                   descriptor_next, 1);
        descriptor(command_queue, 1, used, byte() * 8U, descriptor_write, 0);
        make_available(command_queue, 0);
        kick(command_queue);
    }

    void descriptor(unsigned queue, unsigned number, Part target, std::uint32_t length, std::uint16_t flags,
                    std::uint16_t next) {
        const Descriptor d{.address = memory_start + part(queue, target) + (target == used ? 0x800 : 0),
                           .length = length,
                           .flags = flags,
                           .next = next};
        std::memcpy(memory() + part(queue, descriptors) + number * sizeof d, &d, sizeof d);
    }
    void make_available(unsigned queue, std::uint16_t head) {
        std::uint8_t* ring = memory() + part(queue, available);
        std::uint16_t index;
        std::memcpy(&index, ring + 2, sizeof index);
        std::memcpy(ring + 4 + 2 * (index % queue_size), &head, sizeof head);
        ++index;
        std::memcpy(ring + 2, &index, sizeof index);
    }
    void kick(unsigned queue) {
        const std::uint64_t one = 1;
        (void)!write(kicks_[queue].get(), &one, sizeof one);
    }

    template <typename T> static void append(Buffer& to, const T& value) {
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
        to.insert(to.end(), bytes, bytes + sizeof value);
    }
    template <typename T> static Buffer body_of(const T& value) {
        Buffer body;
        append(body, value);
        return body;
    }
    void valid(Request request, const Buffer& body, std::span<const int> fds = {}) {
        send({.request = static_cast<std::uint32_t>(request),
              .flags = version,
              .size = static_cast<std::uint32_t>(body.size())},
             body, fds);
        loop_.run_once(0);
    }
    void send(const Header& header, Bytes body, std::span<const int> fds) {
        iovec parts[2] = {{const_cast<Header*>(&header), sizeof header},
                          {const_cast<std::uint8_t*>(body.data()), body.size()}};
        alignas(cmsghdr) std::uint8_t control[CMSG_SPACE(3 * sizeof(int))] = {};
        msghdr message{};
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        if (!fds.empty()) {
            message.msg_control = control;
            message.msg_controllen = CMSG_SPACE(fds.size_bytes());
            cmsghdr* head = CMSG_FIRSTHDR(&message);
            head->cmsg_level = SOL_SOCKET;
            head->cmsg_type = SCM_RIGHTS;
            head->cmsg_len = CMSG_LEN(fds.size_bytes());
            std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
        }
        (void)sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }

    std::uint8_t byte() {
        const Bytes one = take(1);
        return one.empty() ? std::uint8_t{0} : one[0];
    }
    Bytes take(std::size_t count) {
        const Bytes taken = left_.first(std::min(count, left_.size()));
        left_ = left_.subspan(taken.size());
        return taken;
    }

    static int memory_file() {
        static const int fd = [] {
            const int made = memfd_create("guest", MFD_CLOEXEC);
            if (made < 0 || ftruncate(made, memory_size) != 0)
                std::abort();
            return made;
        }();
        return fd;
    }
    static std::uint8_t* memory() {
        static auto* const mapped = static_cast<std::uint8_t*>(
            mmap(nullptr, memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file(), 0));
        return mapped;
    }

    Bytes left_;
    EventLoop& loop_;
    Server server_;
    Toy toy_;
    Fd socket_, call_;
    std::array<Fd, 2> kicks_;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool quiet = set_log_levels("off", nullptr);
    (void)quiet;
    EventLoop loop;
    Guest({data, size}, loop).run();
    return 0;
}
