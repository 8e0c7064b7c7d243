// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tests/sim/hostile/client.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

namespace t3sim::test {
namespace {

template <typename T> Buffer bytes_of(const T& value) {
    Buffer bytes;
    t3sim::append(bytes, value);
    return bytes;
}

constexpr std::uint64_t page = 4096;

} // namespace

// ---- descriptors

Descriptors::Descriptors() {
    for (const std::uint64_t size :
         {std::uint64_t{0}, std::uint64_t{1}, page, 16 * page + 1, 256 * page, std::uint64_t{1} << 40,
          std::uint64_t{1} << 46, (std::uint64_t{1} << 62)}) {
        memory_.emplace_back(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        (void)!ftruncate(memory_.back().get(), static_cast<off_t>(size));
    }
    others_.emplace_back(memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    (void)!ftruncate(others_.back().get(), page);
    fcntl(others_.back().get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK);
    others_.emplace_back(memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB));
    for (const char* path : {"/proc/self/exe", "/proc/self/maps", "/dev/zero", "/dev/null", "/dev/shm", "/"})
        for (const int flags : {O_RDONLY, O_PATH})
            others_.emplace_back(open(path, flags | O_CLOEXEC));
    others_.emplace_back(eventfd(0, EFD_CLOEXEC));
    others_.emplace_back(eventfd(1000, EFD_CLOEXEC | EFD_SEMAPHORE));
    others_.emplace_back(epoll_create1(EPOLL_CLOEXEC));
    others_.emplace_back(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0)
        for (const int end : ends)
            others_.emplace_back(end);
    for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET})
        if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0)
            for (const int end : ends)
                others_.emplace_back(end);
    std::erase_if(others_, [](const Fd& fd) { return !fd; });
}

int Descriptors::any(Choices& choices) const {
    return others_[choices.below(static_cast<std::uint32_t>(others_.size()))].get();
}

int Descriptors::memory(Choices& choices) const {
    return memory_[choices.below(static_cast<std::uint32_t>(memory_.size()))].get();
}

void Descriptors::disturb(Choices& choices) const {
    if (choices.one_in(2)) {
        (void)!ftruncate(memory(choices), static_cast<off_t>(choices.below(64) * page));
        return;
    }
    const int fd = any(choices);
    const std::uint64_t nearly = ~std::uint64_t{0} - 1;
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_PATH) != 0)
        return;
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    std::uint8_t bytes[4096];
    if ((flags & O_ACCMODE) != O_WRONLY && choices.one_in(2))
        for (int i = 0; i < 32 && read(fd, bytes, sizeof bytes) > 0; ++i)
            continue;
    else if ((flags & O_ACCMODE) != O_RDONLY)
        for (int i = 0; i < 32 && write(fd, &nearly, sizeof nearly) > 0; ++i)
            continue;
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK); // what the server has set
}

// ---- both protocols

void HostileClient::step() {
    if (!connected()) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
            std::abort();
        socket_.reset(pair[0]);
        adopt(Fd(pair[1]));
    }
    if (choices_.one_in(64))
        socket_.reset();
    else if (choices_.one_in(16))
        descriptors_.disturb(choices_);
    else
        act();
    std::uint8_t replies[65536];
    // Some replies wait for a long time.
    while (socket_ && !choices_.one_in(4) && recv(socket_.get(), replies, sizeof replies, MSG_DONTWAIT) > 0)
        continue;
}

void HostileClient::send(Buffer bytes, const std::vector<int>& fds) {
    if (choices_.one_in(32) && !bytes.empty())
        bytes[choices_.below(static_cast<std::uint32_t>(bytes.size()))] ^= 1U << choices_.below(8);
    if (choices_.one_in(32))
        bytes.resize(choices_.below(static_cast<std::uint32_t>(bytes.size() + 64)));
    if (bytes.empty())
        return;
    const std::size_t first = choices_.one_in(16) ? 1 + choices_.below(20) : bytes.size();
    alignas(cmsghdr) char control[CMSG_SPACE(32 * sizeof(int))] = {};
    iovec part{bytes.data(), std::min(first, bytes.size())};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
        cmsghdr* c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
    }
    ssize_t n = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0 && static_cast<std::size_t>(n) < bytes.size())
        (void)::send(socket_.get(), bytes.data() + n, bytes.size() - static_cast<std::size_t>(n),
                     MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::vector<int> HostileClient::some_descriptors() {
    std::vector<int> fds(choices_.one_in(8) ? choices_.below(32) : choices_.below(3));
    for (int& fd : fds)
        fd = sends_itself_ && choices_.one_in(8) ? socket_.get()
             : choices_.one_in(2)                ? descriptors_.memory(choices_)
                                                 : descriptors_.any(choices_);
    return fds;
}

std::uint64_t HostileClient::number() {
    const std::uint64_t value = choices_.one_in(4)
                                    ? std::uint64_t{choices_.edge_value()} << 32 | choices_.edge_value()
                                    : choices_.edge_value();
    return choices_.one_in(3) ? value : value / page * page;
}

void HostileClient::append(Buffer& to, std::uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i)
        to.push_back(static_cast<std::uint8_t>(value >> 8 * i));
}

// ---- vfio-user

void HostileVfioClient::adopt(Fd socket) {
    server_.adopt(std::move(socket));
    version(!choices_.one_in(4));
    if (!choices_.one_in(8)) // bus mastering
        message(vfio::Command::region_write, [] {
            Buffer body = bytes_of(vfio::RegionAccess{4, vfio::region_config, 2});
            t3sim::append(body, std::uint16_t{6});
            return body;
        }());
}

Buffer HostileVfioClient::version_text() {
    std::string text;
    switch (choices_.below(4)) {
    case 0:
        text = R"({"":)" + std::string(choices_.below(60'000), '[');
        break;
    case 1:
        for (std::uint32_t i = choices_.below(6000); i != 0; --i)
            text += R"({"":)";
        break;
    case 2:
        text = "{\"capabilities\":" + std::string(choices_.below(1000), '9') + "e99999}";
        break;
    default:
        text = R"({"capabilities":{"max_msg_fds":-1}})";
    }
    Buffer bytes(text.begin(), text.end());
    if (!choices_.one_in(8))
        bytes.push_back(0);
    return bytes;
}

void HostileVfioClient::version(bool valid) {
    Buffer body = bytes_of(vfio::Version{.major = 0, .minor = 0});
    if (!valid) {
        const Buffer text = version_text();
        body.insert(body.end(), text.begin(), text.end());
    }
    message(vfio::Command::version, body, valid ? std::vector<int>{} : some_descriptors());
}

void HostileVfioClient::message(vfio::Command command, Buffer body, const std::vector<int>& fds) {
    Buffer bytes =
        bytes_of(vfio::Header{.id = static_cast<std::uint16_t>(choices_.word()),
                              .command = static_cast<std::uint16_t>(command),
                              .size = static_cast<std::uint32_t>(sizeof(vfio::Header) + body.size()),
                              .flags = choices_.one_in(4) ? vfio::flag::no_reply : 0,
                              .error = 0});
    bytes.insert(bytes.end(), body.begin(), body.end());
    send(std::move(bytes), fds);
}

/// Where it has mapped something, maybe.
std::uint64_t HostileVfioClient::address() {
    return choices_.one_in(8) ? number() : choices_.below(64) * page;
}

void HostileVfioClient::act() {
    using namespace vfio;
    Buffer body;
    switch (choices_.below(10)) {
    case 0:
    case 1: {
        const bool valid = !choices_.one_in(3);
        append(body, sizeof(DmaMapRequest), 4);
        append(body, valid ? 3 : choices_.below(5), 4);
        append(body, valid ? choices_.below(8) * page : number(), 8);
        append(body, address(), 8);
        append(body, valid ? page << choices_.below(6) : number(), 8);
        return message(Command::dma_map, body,
                       valid ? std::vector{descriptors_.memory(choices_)} : some_descriptors());
    }
    case 2:
        append(body, sizeof(DmaUnmapRequest), 4);
        append(body, choices_.one_in(8) ? choices_.below(4) : 0, 4);
        append(body, address(), 8);
        append(body, choices_.one_in(2) ? number() : page << choices_.below(12), 8);
        return message(Command::dma_unmap, body,
                       choices_.one_in(8) ? some_descriptors() : std::vector<int>{});
    case 3: {
        const std::uint32_t count = choices_.one_in(8) ? choices_.edge_value() : choices_.below(5);
        append(body, sizeof(SetIrqs), 4);
        append(body, choices_.one_in(4) ? choices_.word() & 0x7f : set_irqs::data_eventfd | set_irqs::trigger,
               4);
        append(body, choices_.below(6), 4);
        append(body, choices_.one_in(8) ? choices_.edge_value() : choices_.below(4), 4);
        append(body, count, 4);
        body.resize(body.size() + choices_.below(16), 1);
        std::vector<int> fds(std::min(count, 16U));
        for (int& fd : fds)
            fd = descriptors_.any(choices_);
        return message(Command::device_set_irqs, body, fds);
    }
    case 4:
    case 5: { // registers, and what makes the device transfer
        const std::uint32_t count =
            choices_.one_in(8) ? choices_.below(vfio::max_data_xfer + 2) : 1U << choices_.below(4);
        append(body, choices_.one_in(8) ? number() : choices_.below(1 << 20), 8);
        append(body, choices_.one_in(8) ? choices_.below(10) : 2, 4);
        append(body, choices_.one_in(16) ? choices_.edge_value() : count, 4);
        if (choices_.one_in(2))
            return message(Command::region_read, body);
        while (body.size() < sizeof(RegionAccess) + count)
            append(body, address(), 8);
        body.resize(sizeof(RegionAccess) + count);
        return message(Command::region_write, body);
    }
    case 6: {
        const std::uint32_t count = choices_.one_in(8) ? choices_.below(2700) : choices_.below(20);
        append(body, choices_.one_in(16) ? number() : count, 8);
        for (std::uint32_t i = 0; i < count; ++i) {
            append(body, choices_.below(1 << 20), 8);
            append(body, choices_.one_in(8) ? choices_.below(10) : 2, 4);
            append(body, choices_.one_in(8) ? choices_.edge_value() : 8, 4);
            append(body, address(), 8);
        }
        return message(Command::region_write_multi, body);
    }
    case 7:
        version(choices_.one_in(2));
        return;
    case 8: { // raw bytes
        Buffer bytes(choices_.below(256));
        for (auto& byte : bytes)
            byte = static_cast<std::uint8_t>(choices_.word());
        return send(std::move(bytes), some_descriptors());
    }
    default:
        for (std::uint32_t n = choices_.below(12); n != 0; --n)
            append(body, number(), choices_.one_in(2) ? 4 : 8);
        message(static_cast<Command>(choices_.one_in(8) ? choices_.word() : choices_.below(20)), body,
                some_descriptors());
    }
}

// ---- vhost-user

namespace {

constexpr std::uint64_t memory_start = 0x100000;
constexpr std::size_t memory_size = 64 << 10;
constexpr std::uint32_t queue_size = 8;
enum Part : unsigned { descriptors, available, used, buffers };

/// Of a queue, in the memory.
constexpr std::size_t part(unsigned queue, Part part) {
    return queue * 0x4000 + part * 0x1000;
}

} // namespace

HostileVhostClient::HostileVhostClient(Choices& choices, const Descriptors& descriptors, EventLoop& loop)
    : HostileClient(choices, descriptors, false), server_(loop), device_(server_),
      file_(memfd_create("guest", MFD_CLOEXEC)) {
    if (ftruncate(file_.get(), memory_size) != 0)
        std::abort();
    memory_ = static_cast<std::uint8_t*>(
        mmap(nullptr, memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
    server_.attach(device_);
}

HostileVhostClient::~HostileVhostClient() {
    munmap(memory_, memory_size);
}

void HostileVhostClient::adopt(Fd socket) {
    server_.adopt(std::move(socket));
    std::fill_n(memory_, memory_size, std::uint8_t{0});
    if (choices_.one_in(4))
        return;
    share_memory(true);
    start_queue(vhost::command_queue);
    start_queue(vhost::interrupt_queue);
}

void HostileVhostClient::message(vhost::Request request, Buffer body, const std::vector<int>& fds) {
    Buffer bytes =
        bytes_of(vhost::Header{.request = static_cast<std::uint32_t>(request),
                               .flags = vhost::version | (choices_.one_in(2) ? vhost::flag_need_reply : 0),
                               .size = static_cast<std::uint32_t>(body.size())});
    bytes.insert(bytes.end(), body.begin(), body.end());
    send(std::move(bytes), fds);
}

void HostileVhostClient::share_memory(bool valid) {
    const std::uint32_t regions = valid ? 1 : choices_.below(10);
    Buffer body = bytes_of(vhost::MemoryTable{.regions = regions, .padding = 0});
    std::vector<int> fds;
    for (std::uint32_t i = 0; i < regions; ++i) {
        t3sim::append(body,
                      valid ? vhost::MemoryRegion{memory_start, memory_size, memory_start, 0}
                            : vhost::MemoryRegion{number(), number(), number(), choices_.below(8) * page});
        fds.push_back(valid ? file_.get() : descriptors_.memory(choices_));
    }
    message(vhost::Request::set_mem_table, body, fds);
}

void HostileVhostClient::start_queue(std::uint32_t queue) {
    using namespace vhost;
    const auto address = [&](Part of) { return memory_start + part(queue, of); };
    kicks_[queue].reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    calls_[queue].reset(eventfd(0, EFD_CLOEXEC));
    message(Request::set_vring_num, bytes_of(VringState{queue, queue_size}));
    message(Request::set_vring_base, bytes_of(VringState{queue, 0}));
    message(Request::set_vring_addr, bytes_of(VringAddress{.index = queue,
                                                           .flags = 0,
                                                           .descriptors = address(descriptors),
                                                           .used = address(used),
                                                           .available = address(available),
                                                           .log = 0}));
    message(Request::set_vring_kick, bytes_of(std::uint64_t{queue}), {kicks_[queue].get()});
    message(Request::set_vring_call, bytes_of(std::uint64_t{queue}),
            {choices_.one_in(2) ? calls_[queue].get() : descriptors_.any(choices_)});
    message(Request::set_vring_enable, bytes_of(VringState{queue, 1}));
}

void HostileVhostClient::descriptor(unsigned queue, unsigned number, std::uint64_t address,
                                    std::uint32_t length, std::uint16_t flags, std::uint16_t next) {
    const vhost::Descriptor d{.address = address, .length = length, .flags = flags, .next = next};
    std::memcpy(memory_ + part(queue, descriptors) + number * sizeof d, &d, sizeof d);
}

void HostileVhostClient::make_available(unsigned queue, std::uint16_t head) {
    std::uint8_t* ring = memory_ + part(queue, available);
    std::uint16_t index;
    std::memcpy(&index, ring + 2, sizeof index);
    std::memcpy(ring + 4 + 2 * (index % queue_size), &head, sizeof head);
    ++index;
    std::memcpy(ring + 2, &index, sizeof index);
}

void HostileVhostClient::kick(unsigned queue) const {
    const std::uint64_t one = 1;
    if (kicks_[queue])
        (void)!write(kicks_[queue].get(), &one, sizeof one);
}

/// Valid descriptors; the fields of the request and its data may be anything.
void HostileVhostClient::request() {
    using namespace vhost;
    const bool large = choices_.one_in(8);
    const PcidevMessage message{.operation = static_cast<Operation>(choices_.below(9)),
                                .bar = static_cast<std::uint8_t>(choices_.one_in(4) ? choices_.below(7) : 2),
                                .reserved = 0,
                                .size = large ? choices_.below(max_transfer + 2) : choices_.below(17),
                                .address = choices_.one_in(8) ? number() : choices_.below(1 << 20)};
    std::uint8_t* at = memory_ + part(command_queue, buffers);
    std::memcpy(at, &message, sizeof message);
    const std::uint64_t target = memory_start + choices_.below(16) * page;
    std::memcpy(at + sizeof message, &target, sizeof target);
    descriptor(command_queue, 0, memory_start + part(command_queue, buffers),
               sizeof message + (large ? std::min(message.size, 0xc000U) : 16), descriptor_next, 1);
    descriptor(command_queue, 1, memory_start + part(command_queue, used) + 0x800,
               choices_.one_in(8) ? choices_.edge_value() : message.size, descriptor_write, 0);
    make_available(command_queue, 0);
    kick(command_queue);
}

void HostileVhostClient::act() {
    using namespace vhost;
    switch (choices_.below(8)) {
    case 0: {
        Buffer body;
        append(body, choices_.below(3), 4);
        for (std::uint32_t n = choices_.below(12); n != 0; --n)
            append(body, choices_.one_in(2) ? memory_start + choices_.below(20) * 0x1000 : number(),
                   choices_.one_in(2) ? 4 : 8);
        return message(static_cast<Request>(choices_.below(24)), body, some_descriptors());
    }
    case 1:
        return share_memory(choices_.one_in(2));
    case 2:
        return start_queue(choices_.below(num_queues));
    case 3: { // anything into its memory
        const std::uint32_t at = choices_.below(memory_size - 8);
        const std::uint64_t value = number();
        std::memcpy(memory_ + at, &value, sizeof value);
        return kick(choices_.below(num_queues));
    }
    case 4: { // many requests, and long chains
        for (unsigned n = 0; n < queue_size; ++n) {
            descriptor(command_queue, n, memory_start + choices_.below(17) * page,
                       choices_.edge_value() & 0x7fff, static_cast<std::uint16_t>(choices_.below(4)),
                       static_cast<std::uint16_t>(choices_.below(9)));
            make_available(command_queue, static_cast<std::uint16_t>(choices_.below(queue_size)));
        }
        return kick(command_queue);
    }
    case 5: // buffers for interrupts, then one
        descriptor(interrupt_queue, 0, memory_start + part(interrupt_queue, buffers), 0x800, descriptor_write,
                   0);
        make_available(interrupt_queue, static_cast<std::uint16_t>(choices_.below(queue_size)));
        return server_.raise_irq(choices_.below(16));
    default:
        return request();
    }
}

} // namespace t3sim::test
