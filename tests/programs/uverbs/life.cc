// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The lifetime of an open file of the verbs device: a JSON object a line, so that two dispatchers can be
// compared.
//
//     t3-uverbs_life DEVICE MODE, where MODE is
//
//     sharing  other processes: fork, passed descriptors, other credentials, close on exec
//     limits   how many contexts and objects a process in a cgroup with limits can create
//     removal  removal of the device: prints "ready" and waits for it
//     mapped   maps, accesses and unmaps until it is killed
//     hold     keeps an object of each kind until it is killed
//     open     whether the device can be opened
//     opens    opens the device as often as it can, in the cgroup that $CGROUP names
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

void report(const std::string& what, const std::string& result) {
    std::printf("{\"case\": \"%s\", \"result\": \"%s\"}\n", what.c_str(), result.c_str());
    std::fflush(stdout);
}

const Method& method(std::string_view name) {
    for (const Method& candidate : methods())
        if (candidate.name == name)
            return candidate;
    std::abort();
}

// Runs a function that returns an errno in a child process.
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
    Sender sender(driver);
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        std::exit(1);
    // It is forked before there is a file to inherit: it gets all files through the socket.
    const pid_t other = fork();
    if (other == 0) {
        const int fd = receive_file(sockets[1]), events = receive_file(sockets[1]);
        Sender own_sender(driver);
        Ioctl port; // query_port
        port.object = 0;
        port.method = 2;
        using Role = Attribute::Role;
        port.attributes = {{.role = Role::in, .id = 0, .length = 8, .data = 1},
                           {.role = Role::out, .id = 1, .length = 48}};
        report("passed file: ioctl", text(own_sender.ioctl(fd, port).error));
        Message old;
        old.command = 1; // query_device
        old.core.resize(8);
        old.out = 176;
        report("passed file: write", text(own_sender.write(fd, old).error));
        fcntl(events, F_SETFL, O_NONBLOCK);
        report("passed event file: nothing to read", text(read_error(events, 16)));
        report("passed event file: too small a buffer", text(read_error(events, 1)));
        char byte = 1;
        if (write(sockets[1], &byte, 1) != 1 ||
            read(sockets[1], &byte, 1) != 1) // until the other files are closed
            _exit(1);
        report("last holder: ioctl", text(own_sender.ioctl(fd, port).error));
        close(fd);
        report("event file after its device's file: read", text(read_error(events, 16)));
        pollfd p{events, POLLIN, 0};
        report("event file after its device's file: poll",
               poll(&p, 1, 0) == 1 ? "ready " + std::to_string(p.revents) : "not ready");
        _exit(0);
    }
    {
        World world(sender, device);
        const int async = static_cast<int>(world.of(Object::async)),
                  channel = static_cast<int>(world.of(Object::channel));
        report("event file is closed on exec", std::to_string(fcntl(async, F_GETFD)));
        report("channel is closed on exec", std::to_string(fcntl(channel, F_GETFD)));
        report("event file's mode", std::to_string(fcntl(async, F_GETFL) & (O_ACCMODE | O_NONBLOCK)));

        report("child: ioctl",
               elsewhere([&] { return sender.ioctl(world.fd(), world.call(method("query_port"))).error; }));
        report("child: write", elsewhere([&] {
                   return sender.write(world.fd(), world.message(command("query_device"))).error;
               }));
        report("child: destroys a CQ of its parent",
               elsewhere([&] { return sender.ioctl(world.fd(), world.call(method("destroy_cq"))).error; }));
        report("parent: destroys the CQ again",
               text(sender.ioctl(world.fd(), world.call(method("destroy_cq"))).error));
        report("other user: write", elsewhere([&] {
                   if (setresuid(65534, 65534, 65534))
                       return errno;
                   return sender.write(world.fd(), world.message(command("query_device"))).error;
               }));
        report("other user, own file: a privileged key", elsewhere([&] {
                   if (setresuid(65534, 65534, 65534))
                       return errno;
                   World own(sender, device);
                   Message key = own.message(command("modify_qp"));
                   const uint32_t mask = 1 << 6, privileged = 0x80000001; // IB_QP_QKEY
                   std::memcpy(&key.core[68], &mask, sizeof(mask));
                   std::memcpy(&key.core[72], &privileged, sizeof(privileged));
                   return sender.write(own.fd(), key).error;
               }));
        report("passing",
               send_file(sockets[0], world.fd()) && send_file(sockets[0], async) ? "ok" : "refused");
        char byte;
        if (read(sockets[0], &byte, 1) != 1)
            std::exit(1);
        report("before the end", world.census());
    }
    char byte = 1;
    if (write(sockets[0], &byte, 1) != 1)
        std::exit(1);
    int status = 0;
    waitpid(other, &status, 0);
    report("other process", std::to_string(status));
}

// ---- limits

void limits(const std::string& device) {
    Sender sender(driver);
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
        error = sender.write(fd, get_context).error;
        files.push_back(fd);
    }
    report("contexts", std::to_string(files.size() - 1) + ", then " + text(error));
    close(files[0]);
    report("a context after one was closed", text(sender.write(files.back(), get_context).error));

    Message alloc_pd = get_context;
    alloc_pd.command = command("alloc_pd").number;
    alloc_pd.out = 4;
    alloc_pd.driver_out = 4;
    unsigned pds = 0;
    Outcome made;
    while (!(made = sender.write(files[1], alloc_pd)).error && pds < 100)
        pds++;
    report("objects", std::to_string(pds) + ", then " + text(made.error));
    // A command that fails is not charged.
    Message destroy;
    destroy.command = command("dealloc_pd").number;
    destroy.has_response = false;
    destroy.core = {0, 0, 0, 0};
    report("one object destroyed", text(sender.write(files[1], destroy).error));
    Message unwritten = alloc_pd;
    unwritten.response = Where::no_access;
    for (unsigned i = 0; i < 3; i++)
        report("one object with a response that cannot be written",
               text(sender.write(files[1], unwritten).error));
    report("one object more", text(sender.write(files[1], alloc_pd).error));
    report("one object above the limit", text(sender.write(files[1], alloc_pd).error));
}

// ---- removal

struct Mappings {
    volatile uint32_t* doorbell;
    volatile uint32_t* ring;
    uint32_t qp;

    // Rings the doorbell without a new request.
    void access() const {
        *doorbell = 1U << 31 | qp;
        (void)*ring;
    }
};

Mappings map_queue(Sender& sender, const World& world, uint64_t& doorbell_key) {
    const Outcome qp = sender.write(world.fd(), world.message(command("create_qp")));
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
    Sender sender(driver);
    World world(sender, device);
    const int async = static_cast<int>(world.of(Object::async)),
              channel = static_cast<int>(world.of(Object::channel));
    uint64_t doorbell_key;
    const Mappings maps = map_queue(sender, world, doorbell_key);
    int woken = -1;          // errno of the read that device removal ends
    std::thread reader([&] { // the driver may first send an event for flushed requests
        while ((woken = read_error(channel, 8)) == 0)
            ;
    });
    report("ready", "ok");

    pollfd p{async, POLLIN, 0};
    if (poll(&p, 1, 60000) != 1) {
        report("removal", "not noticed");
        std::exit(1);
    }
    uint32_t event[4] = {};
    const ssize_t bytes = read(async, event, sizeof(event));
    report("event", std::to_string(bytes) + " bytes, type " + std::to_string(event[2]));
    reader.join();
    report("blocked read of the channel", text(woken));
    fcntl(async, F_SETFL, O_NONBLOCK);
    report("no further event", text(read_error(async, 16)));
    p = {async, POLLIN, 0};
    report("poll for events", poll(&p, 1, 0) == 1 ? "ready " + std::to_string(p.revents) : "not ready");
    p = {channel, POLLIN, 0};
    report("poll for completions", poll(&p, 1, 0) == 1 ? "ready " + std::to_string(p.revents) : "not ready");
    report("write", text(sender.write(world.fd(), world.message(command("query_device"))).error));
    report("extended write", text(sender.write(world.fd(), world.message(command("query_device_ex"))).error));
    report("ioctl", text(sender.ioctl(world.fd(), world.call(method("query_port"))).error));
    report("invoke_write",
           text(sender.invoke_write(world.fd(), world.message(command("query_device"))).error));
    report("alloc_pd", text(sender.write(world.fd(), world.message(command("alloc_pd"))).error));
    report("create_comp_channel",
           text(sender.write(world.fd(), world.message(command("create_comp_channel"))).error));
    void* late = mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, world.fd(), static_cast<off_t>(doorbell_key));
    report("mmap", late == MAP_FAILED ? text(errno) : "ok");
    maps.access();
    report("doorbell", "survived");
    for (const char* name : {"destroy_qp", "destroy_mr", "destroy_cq", "destroy_cq in use", "destroy_pd"}) {
        const Outcome outcome = sender.ioctl(world.fd(), world.call(method(name)));
        report(std::string(name) + " by ioctl", text(outcome.error) + ' ' + outcome.effect);
    }
    report("dealloc_mw by write", text(sender.write(world.fd(), world.message(command("dealloc_mw"))).error));
    report("dealloc_pd by write",
           text(sender.write(world.fd(), world.message(command("dealloc_pd in use"))).error));
    report("destroyed twice", text(sender.ioctl(world.fd(), world.call(method("destroy_pd"))).error));
}

[[noreturn]] void mapped(const std::string& device) {
    Sender sender(driver);
    World world(sender, device);
    uint64_t key;
    const Mappings maps = map_queue(sender, world, key);
    report("ready", "ok");
    for (;;) {
        maps.access();
        void* more = mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, world.fd(), static_cast<off_t>(key));
        if (more != MAP_FAILED)
            munmap(more, 4096);
    }
}

[[noreturn]] void hold(const std::string& device) {
    Sender sender(driver);
    const World world(sender, device);
    report("ready", "ok");
    for (;;)
        pause();
}

// ---- opens

// The memory that is charged to this process's cgroup, $CGROUP.
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

// Opens the device until open() fails or the process is killed.
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
            report("end", text(errno));
            return;
        }
        if (count == sample)
            report("bytes of each", std::to_string((charged() - before) / sample));
        if (count % sample == 0)
            report("opened", std::to_string(count));
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
        report("open", text(open(device.c_str(), O_RDWR | O_CLOEXEC) < 0 ? errno : 0));
    else
        return std::fprintf(stderr, "usage: %s DEVICE sharing|limits|removal|mapped|hold|open|opens\n",
                            argv[0]),
               2;
}
