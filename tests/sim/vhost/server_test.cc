// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A guest of User Mode Linux on a socket pair: its messages, its two queues in shared memory, and what a
// guest that breaks the rules gets.
#include "sim/vhost/server.hh"

#include <ctime>
#include <optional>
#include <string>

#include <sys/eventfd.h>
#include <unistd.h>

#include "sim/core/client_fd.hh"
#include "sim/core/unix_socket.hh"
#include "tests/sim/hostile/effort.hh"
#include "tests/sim/pci_client.hh"
#include "tests/sim/waiters.hh"

namespace t3sim::vhost {
namespace {

constexpr std::uint64_t memory_start = 0x100000, memory_size = 1 << 20;
constexpr std::uint32_t queue_size = 16;
constexpr std::uint64_t msix_table = 0, msix_pending = 0x2000;

/// Where a queue's parts and its buffers are.
struct Layout {
    std::uint64_t descriptors, available, used, buffers;
};
constexpr Layout layout(unsigned queue) {
    const std::uint64_t base = memory_start + queue * 0x10000;
    return {.descriptors = base, .available = base + 0x1000, .used = base + 0x2000, .buffers = base + 0x3000};
}

class VhostTest : public testing::Test {
protected:
    VhostTest() {
        Signals::prepare();
        data = static_cast<std::uint8_t*>(
            mmap(nullptr, memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
        server.attach(device);
        connect();
    }
    ~VhostTest() override { munmap(data, memory_size); }

    void connect() {
        int pair[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        client.reset(pair[0]);
        server.adopt(Fd(pair[1]));
    }

    void settle() {
        for (int i = 0; i < 20; i++)
            loop.run_once(0);
    }

    void send(Request request, const Buffer& body, const std::vector<int>& fds = {},
              std::uint32_t flags = version) {
        const Header header{.request = static_cast<std::uint32_t>(request),
                            .flags = flags,
                            .size = static_cast<std::uint32_t>(body.size())};
        ASSERT_TRUE(send_with(client, join({raw(header), body}), fds));
        settle();
    }

    template <typename T> T reply() {
        Header header{};
        T value{};
        // The worker may still have to close what an earlier client had.
        EXPECT_TRUE(eventually([&] {
            settle();
            return recv(client.get(), &header, sizeof header, MSG_DONTWAIT) == ssize_t{sizeof header};
        }));
        EXPECT_EQ(header.flags, version | flag_reply);
        EXPECT_EQ(header.size, sizeof value);
        EXPECT_EQ(recv(client.get(), &value, sizeof value, MSG_DONTWAIT), ssize_t{sizeof value});
        return value;
    }

    /// Sends a message that asks for an acknowledgement, and checks its error.
    void call(Request request, const Buffer& body, int error = 0, const std::vector<int>& fds = {}) {
        send(request, body, fds, version | flag_need_reply);
        EXPECT_EQ(reply<std::uint64_t>(), static_cast<std::uint64_t>(error));
    }

    void share_memory(int error = 0, std::uint64_t size = memory_size) {
        call(Request::set_mem_table,
             join({raw(MemoryTable{.regions = 1, .padding = 0}),
                   raw(MemoryRegion{.guest_address = memory_start,
                                    .size = size,
                                    .user_address = memory_start,
                                    .offset = 0})}),
             error, {file.get()});
    }

    void start_queue(unsigned queue) {
        const Layout at = layout(queue);
        call(Request::set_vring_num, raw(VringState{.index = queue, .num = queue_size}));
        call(Request::set_vring_base, raw(VringState{.index = queue, .num = 0}));
        call(Request::set_vring_addr, raw(VringAddress{.index = queue,
                                                       .flags = 0,
                                                       .descriptors = at.descriptors,
                                                       .used = at.used,
                                                       .available = at.available,
                                                       .log = ~std::uint64_t{0}}));
        call(Request::set_vring_kick, raw(std::uint64_t{queue}), 0, {kicks[queue].get()});
        call(Request::set_vring_call, raw(std::uint64_t{queue}), 0, {calls[queue].get()});
        call(Request::set_vring_enable, raw(VringState{.index = queue, .num = 1}));
    }

    void start() {
        share_memory();
        start_queue(command_queue);
        start_queue(interrupt_queue);
    }

    std::uint8_t* at(std::uint64_t address) { return data + (address - memory_start); }
    template <typename T> void store(std::uint64_t address, const T& value) {
        std::memcpy(at(address), &value, sizeof value);
    }
    template <typename T> T load(std::uint64_t address) {
        T value;
        std::memcpy(&value, at(address), sizeof value);
        return value;
    }

    void make_available(unsigned queue, std::uint16_t head) {
        std::uint16_t& index = made_available[queue];
        store(layout(queue).available + 4 + 2 * (index % queue_size), head);
        index++;
        store(layout(queue).available + 2, index);
    }
    void kick(unsigned queue) {
        const std::uint64_t one = 1;
        ASSERT_EQ(write(kicks[queue].get(), &one, sizeof one), ssize_t{sizeof one});
        settle();
    }
    std::uint16_t used(unsigned queue) { return load<std::uint16_t>(layout(queue).used + 2); }
    std::uint64_t interrupts(unsigned queue) {
        std::uint64_t count = 0;
        return read(calls[queue].get(), &count, sizeof count) == sizeof count ? count : 0;
    }

    /// Descriptors 0 (request) and, if there is a response, 1.
    void make_request(const Buffer& bytes, std::uint32_t response_size) {
        const Layout& part = layout(command_queue);
        std::memcpy(at(part.buffers), bytes.data(), bytes.size());
        store(part.descriptors,
              Descriptor{.address = part.buffers,
                         .length = static_cast<std::uint32_t>(bytes.size()),
                         .flags = static_cast<std::uint16_t>(response_size ? descriptor_next : 0),
                         .next = 1});
        store(part.descriptors + sizeof(Descriptor), Descriptor{.address = part.buffers + 0x800,
                                                                .length = response_size,
                                                                .flags = descriptor_write,
                                                                .next = 0});
        make_available(command_queue, 0);
    }
    void request(const Buffer& bytes, std::uint32_t response_size) {
        make_request(bytes, response_size);
        kick(command_queue);
    }
    static Buffer message(Operation operation, std::uint8_t bar, std::uint64_t address, std::uint32_t size,
                          const Buffer& bytes = {}) {
        return join(
            {raw(PcidevMessage{
                 .operation = operation, .bar = bar, .reserved = 0, .size = size, .address = address}),
             bytes});
    }
    template <typename T> T read_from(Operation operation, std::uint8_t bar, std::uint64_t address) {
        const std::uint16_t before = used(command_queue);
        request(message(operation, bar, address, sizeof(T)), sizeof(T));
        EXPECT_EQ(used(command_queue), static_cast<std::uint16_t>(before + 1));
        const auto entry = load<Used>(layout(command_queue).used + 4 + sizeof(Used) * (before % queue_size));
        EXPECT_EQ(entry.length, sizeof(T));
        return load<T>(layout(command_queue).buffers + 0x800);
    }
    template <typename T>
    void write_to(Operation operation, std::uint8_t bar, std::uint64_t address, T value) {
        const std::uint16_t before = used(command_queue);
        request(message(operation, bar, address, sizeof value, raw(value)), 0);
        EXPECT_EQ(used(command_queue), static_cast<std::uint16_t>(before + 1));
    }

    /// Bus mastering and MSI-X on, and a vector's entry written.
    void enable_interrupts(unsigned vector, std::uint32_t payload) {
        write_to(Operation::config_write, 0, 4, std::uint16_t{0x0006});
        write_to(Operation::config_write, 0, 0x9c + 2, std::uint16_t{0x8000});
        write_to(Operation::mmio_write, 4, msix_table + 16 * vector + 8, payload);
        write_to(Operation::mmio_write, 4, msix_table + 16 * vector + 12, std::uint32_t{0});
    }
    /// A buffer for an interrupt of the device.
    void give_buffer(std::uint16_t index) {
        const Layout& part = layout(interrupt_queue);
        store(part.descriptors + sizeof(Descriptor) * index, Descriptor{.address = part.buffers + 64 * index,
                                                                        .length = sizeof(PcidevMessage) + 4,
                                                                        .flags = descriptor_write,
                                                                        .next = 0});
        make_available(interrupt_queue, index);
    }

    bool hung_up() {
        settle();
        char c;
        return recv(client.get(), &c, 1, MSG_DONTWAIT) == 0;
    }

    EventLoop loop;
    Server server{loop};
    RecordingDevice device;
    Fd client;
    Fd file = memory_file(memory_size);
    std::uint8_t* data = nullptr;
    std::array<Fd, num_queues> kicks{Fd(eventfd(0, EFD_CLOEXEC)), Fd(eventfd(0, EFD_CLOEXEC))};
    std::array<Fd, num_queues> calls{Fd(eventfd(0, EFD_CLOEXEC)), Fd(eventfd(0, EFD_CLOEXEC))};
    std::array<std::uint16_t, num_queues> made_available{};
};

TEST_F(VhostTest, OffersTheFeaturesThatItHas) {
    send(Request::get_features, {});
    EXPECT_EQ(reply<std::uint64_t>(), feature_protocol_features | feature_version_1);
    send(Request::get_protocol_features, {});
    EXPECT_EQ(reply<std::uint64_t>(), protocol_feature_reply_ack | protocol_feature_backend_request);
    call(Request::set_features, raw(feature_version_1));
    call(Request::set_features, raw(std::uint64_t{1} << 28), EINVAL); // indirect descriptors
    call(Request::set_protocol_features, raw(protocol_feature_reply_ack));
}

TEST_F(VhostTest, TheChannelForRequestsOfTheServerStaysOpen) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const Fd ours(ends[0]);
    call(Request::set_backend_request_fd, {}, 0, {ends[1]});
    close(ends[1]);
    char c;
    EXPECT_EQ(read(ours.get(), &c, 1), -1) << "an end of file is a lost connection";
    client.reset();
    settle();
    EXPECT_TRUE(eventually([&] { return read(ours.get(), &c, 1) == 0; }));
    connect();
    call(Request::set_backend_request_fd, {}, EINVAL);
}

/// A poll, or a request for the address of the peer, may wait for the client.
TEST_F(VhostTest, TheChannelForRequestsOfTheServerIsAStreamOfUnix) {
    int pipes[2], datagrams[2];
    ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagrams), 0);
    const std::array<Fd, 6> others{Fd(pipes[0]),
                                   Fd(pipes[1]),
                                   Fd(datagrams[0]),
                                   Fd(datagrams[1]),
                                   Fd(epoll_create1(EPOLL_CLOEXEC)),
                                   Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
    for (const Fd& other : others)
        call(Request::set_backend_request_fd, {}, EINVAL, {other.get()});
}

/// Otherwise its end would stay open when the client has gone, and no other could come.
TEST_F(VhostTest, AClientCannotLeaveItsEndHere) {
    const std::string path = testing::TempDir() + "t3sim-own-end-" + std::to_string(getpid());
    Server listens(loop, path);
    RecordingDevice other;
    listens.attach(other);
    client = connect_unix(path);
    ASSERT_TRUE(eventually([&] {
        settle();
        return listens.connected();
    }));
    call(Request::set_backend_request_fd, {}, EINVAL, {client.get()});
    call(Request::set_vring_call, raw(std::uint64_t{0}), EINVAL, {client.get()});
    // That of another card, which could keep this one's in return.
    Server another(loop, path + "-another");
    RecordingDevice third;
    another.attach(third);
    Fd theirs = connect_unix(path + "-another");
    ASSERT_TRUE(eventually([&] {
        settle();
        return another.connected();
    }));
    call(Request::set_backend_request_fd, {}, EINVAL, {theirs.get()});
    call(Request::set_vring_call, raw(std::uint64_t{0}), EINVAL, {theirs.get()});
    // In the queue of a socket that the server has.
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Fd ours(ends[0]), its(ends[1]);
    call(Request::set_vring_call, raw(std::uint64_t{0}), 0, {its.get()});
    ASSERT_TRUE(send_with(ours, raw('x'), {client.get(), ours.get()}));
    for (Fd* fd : {&ours, &its, &client})
        fd->reset();
    EXPECT_TRUE(eventually([&] {
        settle();
        return !listens.connected();
    }));
}

/// In a message that never ends, also in the queue of another socket.
TEST_F(VhostTest, AClientThatLeavesItsEndInHalfAMessageIsDropped) {
    for (const bool inside : {false, true}) {
        int ends[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        Fd ours(ends[0]), its(ends[1]);
        ASSERT_TRUE(send_with(ours, raw('x'), {client.get(), ours.get()}));
        const Header header{
            .request = static_cast<std::uint32_t>(Request::set_vring_call), .flags = version, .size = 8};
        ASSERT_TRUE(send_with(client, raw(header), {inside ? its.get() : client.get()}));
        for (Fd* fd : {&ours, &its, &client})
            fd->reset();
        settle();
        EXPECT_TRUE(server.connected());
        loop.queue().advance(loop.queue().now() + Server::patience);
        EXPECT_FALSE(server.connected());
        connect();
    }
}

/// A read of a semaphore decrements it by one, and a read of any eventfd wakes all that wait for it.
TEST_F(VhostTest, AKickIsNotRead) {
    kicks[command_queue].reset(eventfd(1 << 30, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC));
    test::Waiters waiters(kicks[command_queue]);
    start();
    int longer = 0;
    for (int i = 0; i < 10; ++i) {
        make_request(message(Operation::config_read, 0, 0, 4), 4);
        const std::uint64_t one = 1;
        ASSERT_EQ(write(kicks[command_queue].get(), &one, sizeof one), ssize_t{sizeof one});
        waiters.wait_again();
        const std::uint16_t before = used(command_queue);
        test::Effort effort;
        loop.run_once(0);
        effort.action_ends();
        EXPECT_EQ(used(command_queue), before + 1);
        longer += effort.longest_action() >= 1'000'000U * test::Effort::slowness;
    }
    EXPECT_LE(longer, test::Effort::interrupted);
}

/// Each message that is received, and each reply, wakes all that wait for the client's end.
TEST_F(VhostTest, AClientWhoseMessagesTakeLongHasToRest) {
    test::Waiters waiters(client);
    const Buffer message = raw(
        Header{.request = static_cast<std::uint32_t>(Request::get_features), .flags = version, .size = 0});
    EXPECT_TRUE(test::has_to_rest(
        [&] {
            ASSERT_TRUE(send_with(client, message, {}));
            waiters.wait_again();
        },
        [&] { loop.run_once(0); }));
    EXPECT_TRUE(server.connected());
}

TEST_F(VhostTest, OnlyTheFirstInterruptThatTakesLongDelaysOthers) {
    start();
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const Fd reader(ends[0]), writer(ends[1]);
    call(Request::set_vring_call, raw(std::uint64_t{interrupt_queue}), 0, {writer.get()});
    enable_interrupts(3, 77);
    test::Waiters waiters(reader);
    const auto raise = [&](std::uint16_t buffer) {
        give_buffer(buffer);
        waiters.wait_again();
        test::Effort effort;
        server.raise_irq(3);
        effort.action_ends();
        std::uint64_t one = 0;
        EXPECT_TRUE(eventually([&] { return read(reader.get(), &one, sizeof one) == sizeof one; }));
        return effort.longest_action();
    };
    EXPECT_GT(raise(0), 1'500'000U);
    int longer = 0;
    for (std::uint16_t i = 1; i < queue_size; ++i)
        longer += raise(i) >= 1'000'000U * test::Effort::slowness;
    EXPECT_LE(longer, test::Effort::interrupted);
}

TEST_F(VhostTest, ReadsAndWritesConfigSpaceAndBars) {
    start();
    EXPECT_EQ(read_from<std::uint32_t>(Operation::config_read, 0, 0), 0x00361425U);
    EXPECT_EQ(read_from<std::uint16_t>(Operation::config_read, 0, 2), 0x0036);
    EXPECT_EQ(read_from<std::uint32_t>(Operation::config_read, 0, 4096), ~0U);
    write_to(Operation::mmio_write, 0, 0x10, std::uint32_t{0x12345678});
    EXPECT_EQ(read_from<std::uint32_t>(Operation::mmio_read, 0, 0x10), 0x12345678U);
    EXPECT_EQ(device.writes, (std::vector<RecordingDevice::Access>{{0, 0x10, 4, 0x12345678}}));
    EXPECT_TRUE(eventually([&] { return interrupts(command_queue) != 0; }));
}

TEST_F(VhostTest, AccessesOutsideOfBarsReadAsOnes) {
    start();
    EXPECT_EQ(read_from<std::uint32_t>(Operation::mmio_read, 0, 4096), ~0U);
    EXPECT_EQ(read_from<std::uint32_t>(Operation::mmio_read, 0, 4094), ~0U);
    EXPECT_EQ(read_from<std::uint64_t>(Operation::mmio_read, 7, 0), ~std::uint64_t{0});
    write_to(Operation::mmio_write, 3, 0, std::uint32_t{1});
    EXPECT_TRUE(device.reads.empty());
    EXPECT_TRUE(device.writes.empty());
}

TEST_F(VhostTest, FillsABar) {
    start();
    request(message(Operation::mmio_memset, 2, 8, 16, {0xab}), 0);
    EXPECT_EQ(device.writes, (std::vector<RecordingDevice::Access>{{2, 8, 8, 0xabababababababab},
                                                                   {2, 16, 8, 0xabababababababab}}));
}

TEST_F(VhostTest, RequestsThatMakeNoSenseAreCountedAndReturned) {
    start();
    for (const Buffer& bytes :
         {Buffer(3), message(Operation{9}, 0, 0, 0), message(Operation::mmio_write, 0, 0, 8, {1}),
          message(Operation::mmio_read, 0, 0, max_transfer + 1)}) {
        const std::uint16_t before = used(command_queue);
        request(bytes, 4);
        EXPECT_EQ(used(command_queue), static_cast<std::uint16_t>(before + 1));
    }
    EXPECT_EQ(server.counters().value("vhost.refused_requests"), 4U);
    EXPECT_TRUE(server.connected());
}

/// The ring is memory: a client need not send anything for its next request.
TEST_F(VhostTest, TheRequestsOfAClientThatRestsWait) {
    constexpr std::uint16_t requests = 6;
    start();
    device.on_write = [] {
        for (const clock_t begin = clock(); clock() - begin < 3 * CLOCKS_PER_SEC / 1000;)
            ;
    };
    for (int i = 0; i < requests; ++i)
        make_request(message(Operation::mmio_write, 0, 0, 4, raw(std::uint32_t{1})), 0);
    kick(command_queue);
    EXPECT_LT(used(command_queue), requests);
    EXPECT_TRUE(eventually([this] {
        settle();
        return used(command_queue) == requests;
    }));
}

TEST_F(VhostTest, NoInterruptForAnAnswerThatTheGuestPollsFor) {
    start();
    store(layout(command_queue).available, available_no_interrupt);
    read_from<std::uint32_t>(Operation::config_read, 0, 0);
    EXPECT_EQ(interrupts(command_queue), 0U);
}

TEST_F(VhostTest, TransfersNeedBusMasteringAndMemory) {
    start();
    Buffer bytes(8);
    EXPECT_FALSE(server.dma_read(memory_start, bytes));
    write_to(Operation::config_write, 0, 4, std::uint16_t{0x0006});
    store(memory_start + 0x40000, std::uint64_t{0x1122334455667788});
    EXPECT_TRUE(server.dma_read(memory_start + 0x40000, bytes));
    EXPECT_EQ(bytes, raw(std::uint64_t{0x1122334455667788}));
    EXPECT_FALSE(server.dma_write(memory_start + memory_size, bytes));
}

TEST_F(VhostTest, InterruptsCarryTheMessageOfTheirVector) {
    start();
    enable_interrupts(3, 77);
    give_buffer(0);
    kick(interrupt_queue);
    interrupts(interrupt_queue);
    server.raise_irq(3);
    EXPECT_EQ(used(interrupt_queue), 1);
    EXPECT_TRUE(eventually([&] { return interrupts(interrupt_queue) == 1; }));
    const auto header = load<PcidevMessage>(layout(interrupt_queue).buffers);
    EXPECT_EQ(header.operation, Operation::msi);
    EXPECT_EQ(header.size, 4U);
    EXPECT_EQ(load<std::uint32_t>(layout(interrupt_queue).buffers + sizeof header), 77U);
}

TEST_F(VhostTest, AnInterruptWithoutABufferWaitsForOne) {
    start();
    enable_interrupts(0, 5);
    server.raise_irq(0);
    server.raise_irq(0);
    EXPECT_EQ(used(interrupt_queue), 0);
    give_buffer(0);
    give_buffer(1);
    kick(interrupt_queue);
    EXPECT_EQ(used(interrupt_queue), 1) << "two edges of one vector before the guest takes the first are one";
}

TEST_F(VhostTest, MaskedVectorsStayPending) {
    start();
    enable_interrupts(2, 9);
    give_buffer(0);
    write_to(Operation::mmio_write, 4, msix_table + 16 * 2 + 12, std::uint32_t{1});
    server.raise_irq(2);
    EXPECT_EQ(used(interrupt_queue), 0);
    EXPECT_EQ(read_from<std::uint32_t>(Operation::mmio_read, 4, msix_pending), 1U << 2);
    write_to(Operation::mmio_write, 4, msix_table + 16 * 2 + 12, std::uint32_t{0});
    EXPECT_EQ(used(interrupt_queue), 1);
    EXPECT_EQ(read_from<std::uint32_t>(Operation::mmio_read, 4, msix_pending), 0U);

    write_to(Operation::config_write, 0, 0x9c + 2, std::uint16_t{0xc000}); // function mask
    give_buffer(1);
    server.raise_irq(2);
    EXPECT_EQ(used(interrupt_queue), 1);
    write_to(Operation::config_write, 0, 0x9c + 2, std::uint16_t{0x8000});
    EXPECT_EQ(used(interrupt_queue), 2);
}

TEST_F(VhostTest, NoInterruptWithoutBusMasteringOrMsix) {
    start();
    give_buffer(0);
    server.raise_irq(0);
    enable_interrupts(0, 1);
    EXPECT_EQ(used(interrupt_queue), 0) << "an interrupt from before MSI-X was enabled";
    write_to(Operation::config_write, 0, 4, std::uint16_t{0x0002});
    server.raise_irq(0);
    EXPECT_EQ(used(interrupt_queue), 0);
}

TEST_F(VhostTest, DisconnectingResetsTheDevice) {
    start();
    enable_interrupts(0, 1);
    client.reset();
    settle();
    EXPECT_EQ(device.resets, 1);
    EXPECT_FALSE(server.connected());
    Buffer byte(1);
    EXPECT_FALSE(server.dma_read(memory_start, byte));
    connect();
    made_available = {};
    std::memset(data, 0, memory_size);
    start();
    EXPECT_EQ(read_from<std::uint32_t>(Operation::config_read, 0, 0), 0x00361425U);
}

TEST_F(VhostTest, AStoppedQueueIsNotServed) {
    start();
    call(Request::set_vring_enable, raw(VringState{.index = command_queue, .num = 0}));
    request(message(Operation::config_read, 0, 0, 4), 4);
    EXPECT_EQ(used(command_queue), 0);
}

/// Each request uses up a turn, and the guest stops the queue while others wait.
TEST_F(VhostTest, AQueueThatIsStoppedBetweenTwoTurnsIsNotServed) {
    struct Busy : RecordingDevice {
        explicit Busy(EventQueue& queue) : events(queue) {}
        void mmio_write(unsigned, std::uint64_t, unsigned, std::uint64_t) override {
            events.next_of_all([] {});
        }
        EventQueue& events;
    } busy(loop.queue());
    server.attach(busy);
    start();
    for (unsigned n = 0; n < queue_size; ++n)
        make_request(message(Operation::mmio_write, 0, 0x10, 4, Buffer(4)), 0);
    const std::uint64_t one = 1;
    ASSERT_EQ(write(kicks[command_queue].get(), &one, sizeof one), ssize_t{sizeof one});
    loop.run_once(0);
    call(Request::set_vring_enable, raw(VringState{.index = command_queue, .num = 0}));
    EXPECT_LT(used(command_queue), queue_size);
    EXPECT_TRUE(server.connected());
    server.attach(device);
}

// ---- guests that break the rules

TEST_F(VhostTest, WrongMessagesAreRefused) {
    call(Request::set_vring_num, raw(VringState{.index = 2, .num = 8}), EINVAL);
    call(Request::set_vring_num, raw(VringState{.index = 0, .num = 7}), EINVAL);
    call(Request::set_vring_num, raw(VringState{.index = 0, .num = 2048}), EINVAL);
    call(Request::set_vring_num, {}, EINVAL);
    call(Request::set_vring_base, raw(VringState{.index = 0, .num = 65536}), EINVAL);
    call(Request::set_vring_addr, raw(VringAddress{}), EINVAL); // no memory yet
    call(Request::set_vring_enable, raw(VringState{.index = 0, .num = 1}), EINVAL);
    call(Request::set_vring_kick, raw(std::uint64_t{0}), EINVAL, {file.get()}); // no eventfd
    call(Request::set_vring_kick, raw(std::uint64_t{0x100}), EINVAL);           // to be polled
    call(Request{99}, {}, ENOTSUP);
    share_memory(EINVAL, memory_size + 4096); // beyond the file
    share_memory(EINVAL, memory_size - 1);
    call(Request::set_mem_table, raw(MemoryTable{.regions = 1, .padding = 0}), EINVAL);
    EXPECT_TRUE(server.connected());
}

/// A write to another descriptor of the client could wait, or end this process.
TEST_F(VhostTest, InterruptsAreForEventfdsAndStreamsOnly) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const Fd reader(ends[0]), writer(ends[1]), datagrams(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
        tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    for (const int fd : {file.get(), writer.get(), datagrams.get(), tcp.get()})
        call(Request::set_vring_call, raw(std::uint64_t{0}), EINVAL, {fd});
}

/// The client clears O_NONBLOCK and fills its socket, as User Mode Linux has one, or its eventfd.
TEST_F(VhostTest, ADescriptorOfInterruptsThatIsFullDelaysNothing) {
    start();
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    Fd reader(ends[0]), writer(ends[1]);
    call(Request::set_vring_call, raw(std::uint64_t{command_queue}), 0, {writer.get()});
    EXPECT_EQ(read_from<std::uint32_t>(Operation::config_read, 0, 0), 0x00361425U);
    std::uint64_t interrupt = 0;
    EXPECT_EQ(read(reader.get(), &interrupt, sizeof interrupt), ssize_t{sizeof interrupt});
    EXPECT_EQ(interrupt, 1U);
    const Buffer block(4096);
    while (write(writer.get(), block.data(), block.size()) > 0)
        continue;
    ASSERT_EQ(fcntl(writer.get(), F_SETFL, O_RDWR), 0);
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(read_from<std::uint32_t>(Operation::config_read, 0, 0), 0x00361425U);
    reader.reset();
    EXPECT_EQ(read_from<std::uint32_t>(Operation::config_read, 0, 0), 0x00361425U) << "no SIGPIPE";

    const Fd& eventfd = calls[command_queue];
    call(Request::set_vring_call, raw(std::uint64_t{command_queue}), 0, {eventfd.get()});
    interrupts(command_queue); // clears it
    ASSERT_EQ(fcntl(eventfd.get(), F_SETFL, O_RDWR), 0);
    const std::uint64_t full = ~std::uint64_t{0} - 1;
    ASSERT_EQ(write(eventfd.get(), &full, sizeof full), 8);
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(read_from<std::uint32_t>(Operation::config_read, 0, 0), 0x00361425U);
}

TEST_F(VhostTest, ARequestThatFailsDropsItsClient) {
    start();
    request(message(Operation::mmio_write, 4, 16380, 4, Buffer(4)), 0);
    EXPECT_TRUE(hung_up());
    EXPECT_EQ(device.resets, 1);
}

TEST_F(VhostTest, AQueueInUseKeepsItsPlace) {
    start();
    call(Request::set_vring_num, raw(VringState{.index = 0, .num = 16}), EBUSY);
    call(Request::set_vring_base, raw(VringState{.index = 0, .num = 3}), EBUSY);
    EXPECT_EQ(read_from<std::uint32_t>(Operation::config_read, 0, 0), 0x00361425U);
}

TEST_F(VhostTest, AnotherVersionEndsTheConnection) {
    send(Request::get_features, {}, {}, 2);
    EXPECT_TRUE(hung_up());
}

TEST_F(VhostTest, ACircleOfDescriptorsEndsTheConnection) {
    start();
    const Layout& part = layout(command_queue);
    store(part.descriptors,
          Descriptor{.address = part.buffers, .length = 1, .flags = descriptor_next, .next = 0});
    make_available(command_queue, 0);
    kick(command_queue);
    EXPECT_TRUE(hung_up());
    EXPECT_EQ(device.resets, 1);
}

/// Each of them may be the first access to two pages.
TEST_F(VhostTest, AChainHasFewDescriptors) {
    start();
    const Layout& part = layout(command_queue);
    const Buffer bytes = message(Operation::config_read, 0, 0, 4);
    std::memcpy(at(part.buffers), bytes.data(), bytes.size());
    for (const unsigned length : {max_chain, max_chain + 1}) {
        ASSERT_FALSE(hung_up()) << length;
        for (unsigned n = 0; n < length; ++n)
            store(part.descriptors + sizeof(Descriptor) * n,
                  Descriptor{.address = part.buffers + 4 * std::uint64_t{n},
                             .length = 4,
                             .flags = n + 1 == length ? descriptor_write : descriptor_next,
                             .next = static_cast<std::uint16_t>(n + 1)});
        make_available(command_queue, 0);
        kick(command_queue);
    }
    EXPECT_TRUE(hung_up());
    EXPECT_EQ(load<std::uint32_t>(part.buffers + 4 * (max_chain - 1)), 0x00361425U);
}

TEST_F(VhostTest, ABufferOfAnInterruptIsWrittenOnly) {
    start();
    enable_interrupts(0, 1);
    const Layout& part = layout(interrupt_queue);
    give_buffer(1);
    store(part.descriptors,
          Descriptor{.address = part.buffers, .length = 4, .flags = descriptor_next, .next = 1});
    store(part.available + 4, std::uint16_t{0});
    server.raise_irq(0);
    EXPECT_TRUE(hung_up());
}

TEST_F(VhostTest, DescriptorsOutsideOfTheQueueOrOfMemoryEndTheConnection) {
    for (const int kind : {0, 1, 2}) {
        start();
        const Layout& part = layout(command_queue);
        store(part.descriptors, Descriptor{.address = kind == 1 ? memory_start + memory_size : part.buffers,
                                           .length = kind == 2 ? ~0U : 1,
                                           .flags = 0,
                                           .next = 0});
        make_available(command_queue, kind == 0 ? queue_size : 0);
        kick(command_queue);
        EXPECT_TRUE(hung_up()) << kind;
        connect();
        made_available = {};
        std::memset(data, 0, memory_size);
    }
}

TEST_F(VhostTest, AnIndexThatJumpsEndsTheConnection) {
    start();
    store(layout(command_queue).available + 2, std::uint16_t{queue_size + 1});
    kick(command_queue);
    EXPECT_TRUE(hung_up());
}

TEST_F(VhostTest, ABadInterruptBufferEndsTheConnectionAfterTheDevicesTurn) {
    start();
    enable_interrupts(0, 1);
    store(layout(interrupt_queue).descriptors,
          Descriptor{.address = 0, .length = 20, .flags = descriptor_write, .next = 0});
    make_available(interrupt_queue, 0);
    server.raise_irq(0);
    EXPECT_EQ(device.resets, 0) << "the device is still at work";
    EXPECT_TRUE(hung_up());
    EXPECT_EQ(device.resets, 1);
}

} // namespace
} // namespace t3sim::vhost
