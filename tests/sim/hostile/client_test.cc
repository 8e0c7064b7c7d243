// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Seeded runs of hostile clients, beside a card that another client uses. T3_HOSTILE_SEED=N runs another
// seed, T3_HOSTILE_STEPS=N longer; a failure names the seed.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <linux/fuse.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "sim/core/client_fd.hh"
#include "sim/core/log.hh"
#include "tests/sim/hostile/client.hh"
#include "tests/sim/hostile/effort.hh"
#include "tests/sim/hostile/lingering_socket.hh"
#include "tests/sim/pci_client.hh"

namespace t3sim::test {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

std::ptrdiff_t entries(const char* folder) {
    const auto all = std::filesystem::directory_iterator(folder);
    return std::distance(begin(all), end(all));
}

/// Of the address space of the process.
std::uint64_t mapped_bytes() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * 4096;
}

/// Another card of the same thread, and its client, which reads a register now and then.
class Neighbour {
public:
    explicit Neighbour(EventLoop& loop) : loop_(loop), server_(loop) {
        server_.attach(device_);
        int pair[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        socket_.reset(pair[0]);
        server_.adopt(Fd(pair[1]));
        Buffer hello = raw(vfio::Header{.id = 1, .command = 1, .size = 20, .flags = 0, .error = 0});
        hello.insert(hello.end(), 4, 0);
        exchange(hello, 20);
    }

    /// Turns of the loop until the reply has arrived.
    unsigned read_register() {
        return exchange(join({raw(vfio::Header{.id = 2, .command = 9, .size = 32, .flags = 0, .error = 0}),
                              raw(vfio::RegionAccess{.offset = 0, .region = 0, .count = 4})}),
                        36);
    }
    Effort effort;

private:
    unsigned exchange(const Buffer& request, std::size_t reply_size) {
        EXPECT_TRUE(send_with(socket_, request, {}));
        Buffer reply(reply_size);
        for (unsigned turns = 1; turns < 1000; ++turns) {
            effort.action_begins();
            loop_.run_once(0);
            effort.action_ends();
            if (recv(socket_.get(), reply.data(), reply.size(), MSG_DONTWAIT) > 0)
                return turns;
        }
        return 1000;
    }

    EventLoop& loop_;
    vfio::Server server_;
    RecordingDevice device_;
    Fd socket_;
};

class HostileClients : public testing::TestWithParam<unsigned> {
protected:
    void SetUp() override {
        signal(SIGPIPE, SIG_IGN);
        const char* levels = std::getenv("T3_HOSTILE_LOG");
        ASSERT_TRUE(set_log_levels(levels ? levels : "off", nullptr));
    }

    static Effort run(std::uint64_t seed, std::uint64_t steps) {
        SeededChoices choices(seed, ~std::uint64_t{0});
        const Descriptors descriptors;
        EventLoop loop;
        Neighbour neighbour(loop);
        const auto files = entries("/proc/self/fd"), threads = entries("/proc/self/task");
        const std::uint64_t mapped = mapped_bytes();
        HostileVfioClient vfio(choices, descriptors, loop);
        HostileVhostClient vhost(choices, descriptors, loop);
        for (std::uint64_t i = 0; i < steps; ++i) {
            for (std::uint32_t n = choices.below(4); n != 0; --n)
                if (choices.one_in(2))
                    vfio.step();
                else
                    vhost.step();
            const unsigned turns = neighbour.read_register();
            EXPECT_LE(turns, 3U) << "step " << i;
            neighbour.effort.look_at_heap();
            if (i % 64 != 0)
                continue;
            // Of a client: its vectors, a message, and what the worker has not closed yet.
            EXPECT_LE(entries("/proc/self/fd"), files + 2 * (16 + 16 + 9 * 16)) << "step " << i;
            EXPECT_LE(entries("/proc/self/task"), threads + 2) << "step " << i;
            EXPECT_LE(mapped_bytes(), mapped + 2 * DmaTable::max_bytes + (std::uint64_t{1} << 30));
        }
        if (std::getenv("T3_HOSTILE_COUNTERS")) {
            std::printf("longest turn %ju us, heap %zu KiB\n",
                        static_cast<std::uintmax_t>(neighbour.effort.longest_action() / 1000),
                        neighbour.effort.heap_growth() >> 10);
            for (const PciServer* server : {&vfio.server(), &vhost.server()})
                server->counters().for_each([](const std::string& name, Counter value) {
                    std::printf("%s %ju\n", name.c_str(), static_cast<std::uintmax_t>(value));
                });
        }
        return neighbour.effort;
    }
};

TEST_P(HostileClients, DelayNoOtherCard) {
    const std::uint64_t seed = from_environment("T3_HOSTILE_SEED", GetParam());
    const std::uint64_t steps = from_environment("T3_HOSTILE_STEPS", 4000);
    SCOPED_TRACE("seed " + std::to_string(seed));
    EXPECT_EQ(Effort::excess_each_time([&] { return run(seed, steps); }), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, HostileClients, testing::Range(1U, 5U));

constexpr unsigned close_time = 20; // seconds

/// One client, whose descriptors cannot be closed for so long.
class StallingDescriptor : public HostileClients {
protected:
    void send(int fd) {
        int pair[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        client.reset(pair[0]);
        server.attach(device);
        server.adopt(Fd(pair[1]));
        Buffer hello = raw(vfio::Header{.id = 1, .command = 1, .size = 20, .flags = 0, .error = 0});
        hello.insert(hello.end(), 4, 0);
        ASSERT_TRUE(send_with(client, hello, {}));
        const Buffer map = join({raw(vfio::Header{.id = 2, .command = 2, .size = 48, .flags = 0, .error = 0}),
                                 raw(vfio::DmaMapRequest{32, 3, 0, 0, 4096})});
        ASSERT_TRUE(send_with(client, map, {fd}));
        // One more comes with bytes that are no header, one is not received at all.
        ASSERT_TRUE(send_with(client, Bytes(map).first(8), {}));
        ASSERT_TRUE(send_with(client, Bytes(map).subspan(8, 30), {fd}));
        ASSERT_TRUE(send_with(client, Bytes(map).subspan(38, 1), {fd}));
    }
    void expect_that_the_neighbour_is_served() {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 20; ++i)
            EXPECT_LE(neighbour.read_register(), 3U);
        client.reset();
        for (int i = 0; i < 20; ++i)
            EXPECT_LE(neighbour.read_register(), 3U);
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(close_time / 2));
    }

    EventLoop loop;
    Neighbour neighbour{loop};
    RecordingDevice device;
    vfio::Server server{loop};
    Fd client;
};

/// The last close of a socket that lingers waits until its peer has read.
TEST_F(StallingDescriptor, ASocketThatLingers) {
    LingeringSocket lingers(close_time);
    ASSERT_TRUE(lingers.socket);
    send(lingers.socket.get());
    lingers.socket.reset(); // the first close only shortens the count
    expect_that_the_neighbour_is_served();
}

/// Serves a file system with one file, and never replies to a read, a request for its attributes, or its
/// close. Returns if this is not possible here. What waits for it ends with it, but a process that is killed
/// while it waits could not end it, so it ends by itself.
void stalling_file(int to_parent, const char* folder) {
    alarm(close_time);
    const uid_t user = getuid();
    if (user != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            return;
        std::ofstream("/proc/self/setgroups") << "deny";
        std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
    } else if (unshare(CLONE_NEWNS) != 0) {
        return;
    }
    Fd fuse(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const std::string options =
        "fd=" + std::to_string(fuse.get()) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("t3", folder, "fuse", 0, options.c_str()) != 0)
        return;
    if (fork() == 0) { // opens the file, and sends it to the test
        alarm(close_time);
        fuse.reset(); // the server is the only one to have it
        const std::string path = std::string(folder) + "/ram";
        const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
        const std::uint8_t byte = 1;
        const Fd socket(to_parent);
        send_with(socket, Bytes(&byte, 1), file < 0 ? std::vector<int>{} : std::vector{file});
        pause();
    }
    for (;;) {
        alignas(fuse_in_header) std::array<std::uint8_t, 1 << 17> request{};
        const ssize_t n = read(fuse.get(), request.data(), request.size());
        if (n < static_cast<ssize_t>(sizeof(fuse_in_header)))
            continue;
        fuse_in_header head{};
        std::memcpy(&head, request.data(), sizeof head);
        const auto reply = [&](const auto& body) {
            const Buffer all = join(
                {raw(fuse_out_header{.len = static_cast<std::uint32_t>(sizeof(fuse_out_header) + sizeof body),
                                     .error = 0,
                                     .unique = head.unique}),
                 raw(body)});
            (void)!write(fuse.get(), all.data(), all.size());
        };
        if (head.opcode == FUSE_INIT) {
            fuse_init_out init{};
            init.major = FUSE_KERNEL_VERSION;
            init.minor = 31;
            init.max_write = 65536;
            reply(init);
        } else if (head.opcode == FUSE_LOOKUP) {
            fuse_entry_out entry{};
            entry.nodeid = 2;
            entry.entry_valid = 3600;
            entry.attr.ino = 2;
            entry.attr.size = 1 << 20;
            entry.attr.mode = S_IFREG | 0666;
            entry.attr.nlink = 1;
            reply(entry);
        } else if (head.opcode == FUSE_OPEN) {
            reply(fuse_open_out{});
        }
    }
}

/// Its end, with that of its server, ends all that waits for it.
class StallingFile {
public:
    StallingFile() {
        int pair[2];
        if (!mkdtemp(folder_) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
            return;
        child_ = fork();
        if (child_ == 0) {
            setpgid(0, 0);
            close(pair[0]);
            stalling_file(pair[1], folder_);
            _exit(1);
        }
        setpgid(child_, child_);
        close(pair[1]);
        const Fd from_child(pair[0]);
        std::uint8_t byte = 0;
        eventually([&] { return receive_with(from_child.get(), &byte, 1, files_) >= 0; });
    }
    ~StallingFile() {
        if (child_ > 0) {
            kill(-child_, SIGKILL);
            waitpid(child_, nullptr, 0);
        }
        std::filesystem::remove(folder_);
    }
    StallingFile(const StallingFile&) = delete;
    StallingFile& operator=(const StallingFile&) = delete;
    /// -1: this process may not mount a FUSE file system.
    [[nodiscard]] int fd() const { return files_.size() == 1 ? files_[0].get() : -1; }

private:
    char folder_[32] = "/tmp/t3sim-fuse-XXXXXX";
    pid_t child_ = 0;
    std::vector<Fd> files_;
};

TEST_F(StallingDescriptor, AFileOfTheClientsOwnServer) {
    const StallingFile file;
    if (file.fd() < 0)
        GTEST_SKIP() << "this process may not mount a FUSE file system";
    send(file.fd());
    expect_that_the_neighbour_is_served();
}

/// The server of a file also decides when a poll of it ends.
TEST_F(StallingDescriptor, AFileAsAChannelForRequests) {
    const StallingFile file;
    if (file.fd() < 0)
        GTEST_SKIP() << "this process may not mount a FUSE file system";
    vhost::Server other{loop};
    other.attach(device);
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    client.reset(pair[0]);
    other.adopt(Fd(pair[1]));
    const vhost::Header header{.request = static_cast<std::uint32_t>(vhost::Request::set_backend_request_fd),
                               .flags = vhost::version,
                               .size = 0};
    ASSERT_TRUE(send_with(client, raw(header), {file.fd()}));
    expect_that_the_neighbour_is_served();
}

} // namespace
} // namespace t3sim::test
