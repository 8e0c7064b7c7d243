// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3doctor/probe.hh"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace t3doctor {

namespace {

constexpr int arp_timeout_ms = 4000;
constexpr int tcp_timeout_ms = 8000; // three SYNs

class Fd {
public:
    explicit Fd(int fd) : fd_(fd) {}
    ~Fd() {
        if (fd_ >= 0)
            close(fd_);
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    operator int() const { return fd_; }

private:
    int fd_;
};

bool interface_ioctl(const std::string& name, unsigned long what, ifreq& request) {
    const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
    return ioctl(socket, what, &request) == 0;
}

sockaddr_in socket_address(const std::string& address, int port) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, address.c_str(), &in.sin_addr);
    return in;
}

std::string text_of(const sockaddr_in& in) {
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
    return text;
}

/// The CM's next event; `came` is false after the timeout.
struct Event {
    bool came = false;
    rdma_cm_event_type type{};
    int status = 0;
};
Event next_event(rdma_event_channel* channel, int timeout_ms) {
    pollfd waiting{channel->fd, POLLIN, 0};
    rdma_cm_event* event = nullptr;
    if (poll(&waiting, 1, timeout_ms) <= 0 || rdma_get_cm_event(channel, &event) != 0)
        return {};
    const Event copy{true, event->event, event->status};
    rdma_ack_cm_event(event);
    return copy;
}

} // namespace

Probe::Interface SystemProbe::interface(const std::string& name) {
    Interface found;
    ifreq request{};
    if (interface_ioctl(name, SIOCGIFFLAGS, request)) {
        found.up = (request.ifr_flags & IFF_UP) != 0;
        found.carrier = (request.ifr_flags & IFF_RUNNING) != 0;
    }
    ethtool_drvinfo info{};
    info.cmd = ETHTOOL_GDRVINFO;
    request = {};
    request.ifr_data = reinterpret_cast<char*>(&info);
    if (interface_ioctl(name, SIOCETHTOOL, request))
        found.firmware = info.fw_version;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) == 0) {
        for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next)
            if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
                name == entry->ifa_name)
                found.addresses.push_back(text_of(*reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)));
        freeifaddrs(list);
    }
    return found;
}

Probe::Memlock SystemProbe::memlock() {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    const bool capable =
        syscall(SYS_capget, &header, data) == 0 && (data[0].effective & (1U << CAP_IPC_LOCK)) != 0;
    return {capable || limit.rlim_cur == RLIM_INFINITY, limit.rlim_cur};
}

/// In a child, because libibverbs prints warnings only to standard error.
Probe::Verbs SystemProbe::verbs() {
    int names[2], errors[2];
    if (pipe2(names, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0)
        return {};
    const pid_t child = fork();
    if (child == 0) {
        dup2(errors[1], STDERR_FILENO);
        setenv("IBV_SHOW_WARNINGS", "1", 1);
        int count = 0;
        ibv_device** list = ibv_get_device_list(&count);
        for (int i = 0; list != nullptr && i < count; i++) {
            const std::string line = std::string(ibv_get_device_name(list[i])) + "\n";
            if (write(names[1], line.data(), line.size()) < 0)
                break;
        }
        _exit(0);
    }
    close(names[1]);
    close(errors[1]);
    const auto drain = [](int fd) {
        std::string text;
        char chunk[4096];
        for (ssize_t got; (got = read(fd, chunk, sizeof(chunk))) > 0;)
            text.append(chunk, static_cast<std::size_t>(got));
        close(fd);
        return text;
    };
    Verbs verbs;
    std::istringstream lines(drain(names[0]));
    for (std::string line; std::getline(lines, line);)
        verbs.devices.push_back(line);
    verbs.warnings = drain(errors[0]);
    if (child > 0)
        waitpid(child, nullptr, 0);
    while (!verbs.warnings.empty() && verbs.warnings.back() == '\n')
        verbs.warnings.pop_back();
    return verbs;
}

/// Connecting a datagram socket sends nothing and determines the source address.
Probe::Route SystemProbe::route(const std::string& address) {
    const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto target = socket_address(address, 9);
    sockaddr_in source{};
    socklen_t size = sizeof(source);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0 ||
        getsockname(socket, reinterpret_cast<sockaddr*>(&source), &size) != 0)
        return {"", std::strerror(errno)};
    return {text_of(source), ""};
}

Probe::Connection SystemProbe::connect(const std::string& address, int port) {
    using End = Connection::End;
    const std::unique_ptr<rdma_event_channel, void (*)(rdma_event_channel*)> channel(
        rdma_create_event_channel(), rdma_destroy_event_channel);
    rdma_cm_id* raw = nullptr;
    if (!channel || rdma_create_id(channel.get(), &raw, nullptr, RDMA_PS_TCP) != 0)
        return {End::other, "", std::string("no connection manager: ") + std::strerror(errno)};
    const std::unique_ptr<rdma_cm_id, void (*)(rdma_cm_id*)> id(raw, [](rdma_cm_id* it) {
        if (it->qp != nullptr)
            rdma_destroy_qp(it);
        rdma_destroy_id(it);
    });
    auto target = socket_address(address, port);
    if (rdma_resolve_addr(id.get(), nullptr, reinterpret_cast<sockaddr*>(&target), arp_timeout_ms) != 0)
        return {errno == ENODEV || errno == EADDRNOTAVAIL ? End::no_device : End::other, "",
                std::strerror(errno)};
    auto event = next_event(channel.get(), arp_timeout_ms + 1000);
    if (!event.came || event.type != RDMA_CM_EVENT_ADDR_RESOLVED)
        return {event.status == -ENODEV ? End::no_device : End::no_address, "", std::strerror(-event.status)};
    if (id->verbs == nullptr)
        return {End::no_device, "", ""};
    const std::string device = ibv_get_device_name(id->verbs->device);
    if (rdma_resolve_route(id.get(), arp_timeout_ms) != 0)
        return {End::other, device, std::strerror(errno)};
    event = next_event(channel.get(), arp_timeout_ms + 1000);
    if (!event.came || event.type != RDMA_CM_EVENT_ROUTE_RESOLVED)
        return {End::other, device, "the route was not resolved"};
    ibv_qp_init_attr wanted{};
    wanted.cap = {1, 1, 1, 1, 0};
    wanted.qp_type = IBV_QPT_RC;
    if (rdma_create_qp(id.get(), nullptr, &wanted) != 0)
        return {End::other, device, std::string("no queue pair: ") + std::strerror(errno)};
    rdma_conn_param parameters{};
    if (rdma_connect(id.get(), &parameters) != 0)
        return {End::other, device, std::strerror(errno)};
    event = next_event(channel.get(), tcp_timeout_ms);
    if (!event.came)
        return {End::no_answer, device, ""};
    switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
        rdma_disconnect(id.get());
        return {End::accepted, device, ""};
    case RDMA_CM_EVENT_REJECTED:
        return {End::refused, device, ""};
    case RDMA_CM_EVENT_UNREACHABLE:
        return {End::no_answer, device, ""};
    default:
        return {End::other, device, rdma_event_str(event.type)};
    }
}

bool SystemProbe::may_open(const std::string& node) {
    return access(node.c_str(), R_OK | W_OK) == 0;
}

} // namespace t3doctor
