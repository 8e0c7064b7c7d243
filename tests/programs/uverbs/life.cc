// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What becomes of an open file of the verbs device, in a JSON object a line, so that two dispatchers can be
// compared.
//
//     t3-uverbs_life DEVICE sharing    other processes: fork, passed descriptors, other credentials, close on
//     exec t3-uverbs_life DEVICE limits     how many contexts and objects there can be, for a process in a
//     cgroup with limits t3-uverbs_life DEVICE removal    the device goes: says "ready" and waits for that
//     t3-uverbs_life DEVICE mapped     maps, touches and unmaps until it is killed
//     t3-uverbs_life DEVICE hold       has an object of each kind until it is killed
//     t3-uverbs_life DEVICE open       whether it can be opened
//     t3-uverbs_life DEVICE opens      opens it as often as it can, in the cgroup that $CGROUP names
#include "world.hh"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace uv;

constexpr uint32_t driver = 3; // cxgb3

std::string text(int error) {
    return error ? strerrorname_np(error) : "ok";
}

void say(const std::string& what, const std::string& result) {
    std::printf("{\"case\": \"%s\", \"result\": \"%s\"}\n", what.c_str(), result.c_str());
    std::fflush(stdout);
}

const Method& method(std::string_view name) {
    for (const Method& candidate : methods())
        if (candidate.name == name)
            return candidate;
    std::abort();
}

// Runs in another process; what it returns is an errno.
template <typename Function> std::string elsewhere(Function function) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(function());
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return "no child";
    return WIFEXITED(status) ? text(WEXITSTATUS(status))
                             : "killed by signal " + std::to_string(WTERMSIG(status));
}

// ---- sharing

bool send_file(int socket, int fd) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    return sendmsg(socket, &message, 0) == 1;
}

int receive_file(int socket) {
    char byte;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    int fd = -1;
    if (recvmsg(socket, &message, 0) == 1)
        if (const cmsghdr* header = CMSG_FIRSTHDR(&message))
            std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    return fd;
}

int read_error(int fd, size_t bytes) {
    char event[64];
    return read(fd, event, bytes) < 0 ? errno : 0;
}

void sharing(const std::string& device) {
    Doors doors(driver);
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        std::exit(1);
    // Before there is anything to inherit: all that it has comes through the socket.
    const pid_t other = fork();
    if (other == 0) {
        const int fd = receive_file(sockets[1]), events = receive_file(sockets[1]);
        Doors mine(driver);
        Ioctl port; // query_port, without a world of its own
        port.object = 0;
        port.method = 2;
        using Role = Attribute::Role;
        port.attributes = {{.role = Role::in, .id = 0, .length = 8, .data = 1},
                           {.role = Role::out, .id = 1, .length = 48}};
        say("passed file: ioctl", text(mine.ioctl(fd, port).error));
        Message old;
        old.command = 1; // query_device
        old.core.resize(8);
        old.out = 176;
        say("passed file: write", text(mine.write(fd, old).error));
        fcntl(events, F_SETFL, O_NONBLOCK);
        say("passed event file: nothing to read", text(read_error(events, 16)));
        say("passed event file: too small a buffer", text(read_error(events, 1)));
        char byte = 1;
        if (write(sockets[1], &byte, 1) != 1 || read(sockets[1], &byte, 1) != 1) // until all else is closed
            _exit(1);
        say("last holder: ioctl", text(mine.ioctl(fd, port).error));
        close(fd);
        say("event file after its device's file: read", text(read_error(events, 16)));
        pollfd p{events, POLLIN, 0};
        say("event file after its device's file: poll",
            poll(&p, 1, 0) == 1 ? "ready " + std::to_string(p.revents) : "not ready");
        _exit(0);
    }
    {
        World world(doors, device);
        const int async = static_cast<int>(world.of(Thing::async)),
                  channel = static_cast<int>(world.of(Thing::channel));
        say("event file is closed on exec", std::to_string(fcntl(async, F_GETFD)));
        say("channel is closed on exec", std::to_string(fcntl(channel, F_GETFD)));
        say("event file's mode", std::to_string(fcntl(async, F_GETFL) & (O_ACCMODE | O_NONBLOCK)));

        say("child: ioctl",
            elsewhere([&] { return doors.ioctl(world.fd(), world.call(method("query_port"))).error; }));
        say("child: write",
            elsewhere([&] { return doors.write(world.fd(), world.message(command("query_device"))).error; }));
        say("child: destroys a CQ of its parent",
            elsewhere([&] { return doors.ioctl(world.fd(), world.call(method("destroy_cq"))).error; }));
        say("parent: the CQ is gone", text(doors.ioctl(world.fd(), world.call(method("destroy_cq"))).error));
        say("other user: write", elsewhere([&] {
                if (setresuid(65534, 65534, 65534))
                    return errno;
                return doors.write(world.fd(), world.message(command("query_device"))).error;
            }));
        say("other user, own file: a privileged key", elsewhere([&] {
                if (setresuid(65534, 65534, 65534))
                    return errno;
                World own(doors, device);
                Message key = own.message(command("modify_qp"));
                const uint32_t mask = 1 << 6, privileged = 0x80000001; // IB_QP_QKEY
                std::memcpy(&key.core[68], &mask, sizeof(mask));
                std::memcpy(&key.core[72], &privileged, sizeof(privileged));
                return doors.write(own.fd(), key).error;
            }));
        say("passing", send_file(sockets[0], world.fd()) && send_file(sockets[0], async) ? "ok" : "refused");
        char byte;
        if (read(sockets[0], &byte, 1) != 1)
            std::exit(1);
        say("before the end", world.census());
    }
    char byte = 1;
    if (write(sockets[0], &byte, 1) != 1)
        std::exit(1);
    int status = 0;
    waitpid(other, &status, 0);
    say("other process", std::to_string(status));
}

// ---- limits

void limits(const std::string& device) {
    Doors doors(driver);
    std::vector<int> files;
    int error = 0;
    const Message get_context = [] {
        Message m;
        m.core.resize(8);
        m.out = 8;
        return m;
    }();
    for (unsigned i = 0; i < 20 && !error; i++) {
        const int fd = open(device.c_str(), O_RDWR | O_CLOEXEC);
        error = doors.write(fd, get_context).error;
        files.push_back(fd);
    }
    say("contexts", std::to_string(files.size() - 1) + ", then " + text(error));
    close(files[0]);
    say("one closed, the last one again", text(doors.write(files.back(), get_context).error));

    Message alloc_pd = get_context;
    alloc_pd.command = command("alloc_pd").number;
    alloc_pd.out = 4;
    alloc_pd.driver_out = 4;
    unsigned pds = 0;
    Outcome made;
    while (!(made = doors.write(files[1], alloc_pd)).error && pds < 100)
        pds++;
    say("objects", std::to_string(pds) + ", then " + text(made.error));
    // Refused for another reason: it is not counted.
    Message destroy;
    destroy.command = command("dealloc_pd").number;
    destroy.answered = false;
    destroy.core = {0, 0, 0, 0};
    say("one destroyed", text(doors.write(files[1], destroy).error));
    Message unwritten = alloc_pd;
    unwritten.response = Where::no_access;
    for (unsigned i = 0; i < 3; i++)
        say("one that fails in the end", text(doors.write(files[1], unwritten).error));
    say("one made again", text(doors.write(files[1], alloc_pd).error));
    say("one too many", text(doors.write(files[1], alloc_pd).error));
}

// ---- removal

struct Mappings {
    volatile uint32_t* doorbell;
    volatile uint32_t* ring;
    uint32_t qp;

    // Says that there is work, which there is not.
    void touch() const {
        *doorbell = 1U << 31 | qp;
        (void)*ring;
    }
};

Mappings map_queue(Doors& doors, const World& world, uint64_t& doorbell_key) {
    const Outcome qp = doors.write(world.fd(), world.message(command("create_qp")));
    const uint64_t ring_key = qp.word(32) | uint64_t{qp.word(36)} << 32;
    doorbell_key = qp.word(40) | uint64_t{qp.word(44)} << 32;
    const size_t ring_bytes = size_t{128} << qp.word(52);
    void* doorbell =
        mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, world.fd(), static_cast<off_t>(doorbell_key));
    void* ring = mmap(nullptr, (ring_bytes + 4095) & ~size_t{4095}, PROT_READ | PROT_WRITE, MAP_SHARED,
                      world.fd(), static_cast<off_t>(ring_key));
    if (qp.error || doorbell == MAP_FAILED || ring == MAP_FAILED) {
        std::fprintf(stderr, "create_qp: %s, mmap: %s\n", std::strerror(qp.error), std::strerror(errno));
        std::exit(1);
    }
    return {static_cast<volatile uint32_t*>(doorbell), static_cast<volatile uint32_t*>(ring), qp.word(48)};
}

void removal(const std::string& device) {
    Doors doors(driver);
    World world(doors, device);
    const int async = static_cast<int>(world.of(Thing::async)),
              channel = static_cast<int>(world.of(Thing::channel));
    uint64_t doorbell_key;
    const Mappings maps = map_queue(doors, world, doorbell_key);
    int woken = -1;          // by the end of its channel
    std::thread reader([&] { // the driver may first tell it to look for flushed requests
        while ((woken = read_error(channel, 8)) == 0)
            ;
    });
    say("ready", "ok");

    pollfd p{async, POLLIN, 0};
    if (poll(&p, 1, 60000) != 1) {
        say("removal", "not noticed");
        std::exit(1);
    }
    uint32_t event[4] = {};
    const ssize_t bytes = read(async, event, sizeof(event));
    say("event", std::to_string(bytes) + " bytes, type " + std::to_string(event[2]));
    reader.join();
    say("who waits for completions", text(woken));
    fcntl(async, F_SETFL, O_NONBLOCK);
    say("no further event", text(read_error(async, 16)));
    p = {async, POLLIN, 0};
    say("poll for events", poll(&p, 1, 0) == 1 ? "ready " + std::to_string(p.revents) : "not ready");
    p = {channel, POLLIN, 0};
    say("poll for completions", poll(&p, 1, 0) == 1 ? "ready " + std::to_string(p.revents) : "not ready");
    say("write", text(doors.write(world.fd(), world.message(command("query_device"))).error));
    say("extended write", text(doors.write(world.fd(), world.message(command("query_device_ex"))).error));
    say("ioctl", text(doors.ioctl(world.fd(), world.call(method("query_port"))).error));
    say("carried", text(doors.carry(world.fd(), world.message(command("query_device"))).error));
    say("making a PD", text(doors.write(world.fd(), world.message(command("alloc_pd"))).error));
    say("making a channel",
        text(doors.write(world.fd(), world.message(command("create_comp_channel"))).error));
    void* late = mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, world.fd(), static_cast<off_t>(doorbell_key));
    say("mapping", late == MAP_FAILED ? text(errno) : "ok");
    maps.touch();
    say("doorbell", "survived");
    for (const char* name : {"destroy_qp", "destroy_mr", "destroy_cq", "destroy_cq in use", "destroy_pd"}) {
        const Outcome outcome = doors.ioctl(world.fd(), world.call(method(name)));
        say(std::string(name) + " by ioctl", text(outcome.error) + ' ' + outcome.effect);
    }
    say("dealloc_mw by write", text(doors.write(world.fd(), world.message(command("dealloc_mw"))).error));
    say("dealloc_pd by write",
        text(doors.write(world.fd(), world.message(command("dealloc_pd in use"))).error));
    say("destroyed twice", text(doors.ioctl(world.fd(), world.call(method("destroy_pd"))).error));
}

[[noreturn]] void mapped(const std::string& device) {
    Doors doors(driver);
    World world(doors, device);
    uint64_t key;
    const Mappings maps = map_queue(doors, world, key);
    say("ready", "ok");
    for (;;) {
        maps.touch();
        void* more = mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, world.fd(), static_cast<off_t>(key));
        if (more != MAP_FAILED)
            munmap(more, 4096);
    }
}

[[noreturn]] void hold(const std::string& device) {
    Doors doors(driver);
    const World world(doors, device);
    say("ready", "ok");
    for (;;)
        pause();
}

// ---- opens

// The memory that is charged to the cgroup in $CGROUP, which this process is in.
long charged() {
    const char* const group = std::getenv("CGROUP");
    long bytes = 0;
    std::FILE* const file =
        group ? std::fopen((std::string(group) + "/memory.current").c_str(), "r") : nullptr;
    if (!file || std::fscanf(file, "%ld", &bytes) != 1) {
        std::fprintf(stderr, "$CGROUP names no cgroup with memory.current\n");
        std::exit(1);
    }
    std::fclose(file);
    return bytes;
}

// Opens the device until that fails, or until the process is killed.
void opens(const std::string& device) {
    constexpr rlim_t most = 400000;
    constexpr long sample = 20000;
    const rlimit files{most, most};
    if (setrlimit(RLIMIT_NOFILE, &files)) {
        std::perror("RLIMIT_NOFILE");
        std::exit(1);
    }
    const long before = charged();
    for (long count = 1;; count++) {
        if (open(device.c_str(), O_RDWR | O_CLOEXEC) < 0) {
            say("end", text(errno));
            return;
        }
        if (count == sample)
            say("bytes for each", std::to_string((charged() - before) / sample));
        if (count % sample == 0)
            say("opened", std::to_string(count));
    }
}

} // namespace

int main(int argc, char** argv) {
    const std::string device = argc == 3 ? argv[1] : "";
    const std::string_view mode = argc == 3 ? argv[2] : "";
    if (mode == "sharing")
        sharing(device);
    else if (mode == "limits")
        limits(device);
    else if (mode == "removal")
        removal(device);
    else if (mode == "mapped")
        mapped(device);
    else if (mode == "hold")
        hold(device);
    else if (mode == "opens")
        opens(device);
    else if (mode == "open")
        say("open", text(open(device.c_str(), O_RDWR | O_CLOEXEC) < 0 ? errno : 0));
    else
        return std::fprintf(stderr, "usage: %s DEVICE sharing|limits|removal|mapped|hold|open|opens\n",
                            argv[0]),
               2;
}
