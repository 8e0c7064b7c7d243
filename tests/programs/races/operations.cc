// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "operations.hh"

#include "device.hh"
#include "netlink.hh"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <net/if.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_netlink.h>
#include <sched.h>
#include <set>
#include <stop_token>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace races {

std::string modules_folder = "/t3/races";

namespace {

using namespace std::chrono_literals;

constexpr const char* netns_path = "/run/t3_races_netns";

using Operations = std::vector<Operation>;

int error_of(long result) {
    return result < 0 ? errno : 0;
}

// Each thread has its own memory for its arguments. It is never freed: a killed thread may still use it.
template <typename T, typename... Args> T& own(Args... args) {
    return *new T(args...);
}

// ---- verbs

Operation verbs(std::string name, bool second, std::function<int(Fixture&)> run) {
    return {.name = std::move(name), .place = Place::subject, .second = second, .inside = std::move(run)};
}

uv::Message message_for(Fixture& fixture, const uv::Command& command) {
    return fixture.world().message(command);
}

int fd_for(Fixture& fixture, bool fresh) {
    return fresh ? fixture.fresh : fixture.world().fd();
}

// A command with another handle, which is at an offset of its request.
uv::Message message_with_handle(Fixture& fixture, const char* name, size_t at, uint32_t handle) {
    uv::Message message = fixture.world().message(uv::command(name));
    std::memcpy(&message.core[at], &handle, sizeof(handle));
    return message;
}

// The handle of the next object that is created.
uint32_t next_handle(Fixture& fixture) {
    return static_cast<uint32_t>(fixture.world().of(uv::Object::mw)) + 1;
}

void add_commands(Operations& list) {
    static const std::set<std::string_view> seconds = {
        "get_context", "alloc_pd",   "dealloc_pd", "reg_mr",        "rereg_mr",       "dereg_mr",
        "dealloc_mw",  "create_cq",  "destroy_cq", "poll_cq",       "create_qp",      "query_qp",
        "modify_qp",   "destroy_qp", "post_send",  "req_notify_cq", "query_device_ex"};
    for (const uv::Command& command : uv::commands()) {
        const std::string name(command.name);
        list.push_back(verbs("write." + name, seconds.contains(command.name), [&command](Fixture& fixture) {
            return own<uv::Sender>(3)
                .write(fd_for(fixture, command.fresh), message_for(fixture, command))
                .error;
        }));
        if (!command.fresh)
            list.push_back(verbs("invoke_write." + name, false, [&command](Fixture& fixture) {
                return own<uv::Sender>(3)
                    .invoke_write(fixture.world().fd(), message_for(fixture, command))
                    .error;
            }));
    }
    static const std::set<std::string_view> ioctl_seconds = {
        "info_handles", "destroy_qp", "destroy_cq", "destroy_mr", "create_cq", "alloc_async_event"};
    for (const uv::Method& method : uv::methods())
        list.push_back(verbs("ioctl." + std::string(method.name), ioctl_seconds.contains(method.name),
                             [&method](Fixture& fixture) {
                                 return own<uv::Sender>(3)
                                     .ioctl(fd_for(fixture, method.fresh), fixture.world().call(method))
                                     .error;
                             }));
}

int flush_qp(Fixture& fixture, uint32_t handle) {
    uv::Message message = message_with_handle(fixture, "modify_qp", 64, handle);
    const uint32_t state_only = 1;
    std::memcpy(&message.core[68], &state_only, sizeof(state_only));
    message.core[96] = 6; // ERR
    return own<uv::Sender>(3).write(fixture.world().fd(), message).error;
}

int read_event(int fd, size_t bytes) {
    auto& slot = own<uv::Slot>();
    const uint64_t at = slot.place(uv::Where::normal, bytes);
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, 0) < 1)
        return EAGAIN;
    return error_of(read(fd, reinterpret_cast<void*>(at), bytes));
}

void add_files(Operations& list) {
    // Commands with the handle of an object that is being created.
    struct Guess {
        const char *name, *command;
        size_t at;
    };
    static constexpr Guess guesses[] = {
        {"guess.dealloc_pd", "dealloc_pd", 0}, {"guess.destroy_cq", "destroy_cq", 8},
        {"guess.destroy_qp", "destroy_qp", 8}, {"guess.query_qp", "query_qp", 8},
        {"guess.dereg_mr", "dereg_mr", 0},     {"guess.dealloc_mw", "dealloc_mw", 0}};
    for (const Guess& guess : guesses)
        list.push_back(verbs(guess.name, true, [&guess](Fixture& fixture) {
            return own<uv::Sender>(3)
                .write(fixture.world().fd(),
                       message_with_handle(fixture, guess.command, guess.at, next_handle(fixture)))
                .error;
        }));
    list.push_back(verbs("flush_qp", true, [](Fixture& fixture) {
        return flush_qp(fixture, static_cast<uint32_t>(fixture.world().of(uv::Object::qp)));
    }));
    Operation opens = verbs("open", true, [](Fixture&) {
        const int fd = open(verbs_path().c_str(), O_RDWR | O_CLOEXEC);
        const int error = error_of(fd);
        if (fd >= 0)
            close(fd);
        return error;
    });
    opens.bare = true;
    list.push_back(opens);
    list.push_back(
        verbs("close", true, [](Fixture& fixture) { return error_of(close(fixture.world().fd())); }));
    list.push_back(verbs("close_async", true, [](Fixture& fixture) {
        return error_of(close(static_cast<int>(fixture.world().of(uv::Object::async))));
    }));
    list.push_back(verbs("close_channel", true, [](Fixture& fixture) {
        return error_of(close(static_cast<int>(fixture.world().of(uv::Object::channel))));
    }));
    list.push_back(verbs("read_async", true, [](Fixture& fixture) {
        return read_event(static_cast<int>(fixture.world().of(uv::Object::async)),
                          sizeof(ib_uverbs_async_event_desc));
    }));
    list.push_back(verbs("read_channel", true, [](Fixture& fixture) {
        return read_event(static_cast<int>(fixture.world().of(uv::Object::channel)),
                          sizeof(ib_uverbs_comp_event_desc));
    }));
    list.push_back(verbs("mmap", true, [](Fixture& fixture) {
        void* at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fixture.world().fd(), 0);
        return at == MAP_FAILED ? errno : 0;
    }));
    Operation touch = verbs("touch", true, [](Fixture& fixture) {
        *static_cast<volatile uint32_t*>(fixture.mapping) = 1;
        return 0;
    });
    touch.mapped = true;
    list.push_back(touch);
    Operation unmap = verbs("munmap", true, [](Fixture& fixture) {
        return error_of(munmap(std::exchange(fixture.mapping, nullptr), 4096));
    });
    unmap.mapped = true;
    list.push_back(unmap);
    Operation forks = verbs("fork", true, [](Fixture&) {
        const pid_t child = fork();
        if (child == 0)
            _exit(0);
        return child < 0 ? errno : error_of(waitpid(child, nullptr, 0));
    });
    forks.mapped = true;
    list.push_back(forks);
    Operation remap = verbs("mremap", true, [](Fixture& fixture) {
        void* to = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (to == MAP_FAILED)
            return errno;
        void* from = std::exchange(fixture.mapping, nullptr);
        to = mremap(from, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to);
        if (to == MAP_FAILED)
            return errno;
        fixture.mapping = to;
        return 0;
    });
    remap.mapped = true;
    list.push_back(remap);
    Operation child = verbs("fork_child_stays", true, [](Fixture& fixture) { return fixture.start_child(); });
    child.mapped = true;
    list.push_back(child);
    Operation exits = verbs("exit", false, [](Fixture&) -> int { _exit(0); });
    exits.mapped = true;
    exits.ends_subject = true;
    exits.connections = true;
    list.push_back(exits);
    Operation reads = verbs("sysfs", true, [](Fixture&) {
        int error = 0;
        for (const char* name : {"ibdev", "abi_version"}) {
            char text[64];
            const std::string path = "/sys/class/infiniband_verbs/" +
                                     std::filesystem::path(verbs_path()).filename().string() + "/" + name;
            const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
            error = error_of(fd < 0 ? fd : read(fd, text, sizeof(text)));
            if (fd >= 0)
                close(fd);
        }
        return error;
    });
    reads.bare = true;
    list.push_back(reads);
}

// ---- the connection manager

Operation cm(std::string name, std::function<int(Fixture&, CmClient&)> run, bool second = true) {
    return {.name = "cm." + name,
            .place = Place::subject,
            .connections = true,
            .second = second,
            .inside = [run = std::move(run)](Fixture& fixture) { return run(fixture, own<CmClient>()); }};
}

uint32_t qpn(const Facts& facts, Queue queue) {
    return facts.qpn.at(static_cast<size_t>(queue));
}

void add_cm(Operations& list) {
    list.push_back(cm("create", [](Fixture& s, CmClient& client) { return client.create(s.cm, nullptr); }));
    for (size_t i = 0; i < ids(); i++) {
        const auto which = static_cast<Id>(i);
        list.push_back(cm(std::string("destroy_") + name_of(which), [which](Fixture& s, CmClient& client) {
            return client.destroy(s.cm, s.id(which));
        }));
    }
    list.push_back(cm("bind", [](Fixture& s, CmClient& client) {
        return client.bind(s.cm, s.id(Id::idle), device().here, 0);
    }));
    list.push_back(cm("bind_sockaddr", [](Fixture& s, CmClient& client) {
        return client.bind_sockaddr(s.cm, s.id(Id::idle), device().here, 0);
    }));
    list.push_back(cm("resolve_sockaddr", [](Fixture& s, CmClient& client) {
        return client.resolve_sockaddr(s.cm, s.id(Id::bound), device().peer, 1000);
    }));
    list.push_back(cm("resolve", [](Fixture& s, CmClient& client) {
        return client.resolve(s.cm, s.id(Id::bound), device().peer, 1000);
    }));
    list.push_back(cm("resolve_unbound", [](Fixture& s, CmClient& client) {
        return client.resolve(s.cm, s.id(Id::idle), device().peer, 1000);
    }));
    list.push_back(cm("resolve_unused", [](Fixture& s, CmClient& client) {
        return client.resolve(s.cm, s.id(Id::bound), device().unused, 20);
    }));
    list.push_back(
        cm("route", [](Fixture& s, CmClient& client) { return client.route(s.cm, s.id(Id::resolved)); }));
    list.push_back(cm("connect", [](Fixture& s, CmClient& client) {
        return client.connect(s.cm, s.id(Id::routed), qpn(s.facts(), Queue::routed));
    }));
    list.push_back(
        cm("listen", [](Fixture& s, CmClient& client) { return client.listen(s.cm, s.id(Id::bound)); }));
    list.push_back(cm("listen_wildcard",
                      [](Fixture& s, CmClient& client) { return client.listen(s.cm, s.id(Id::idle)); }));
    list.push_back(cm("accept", [](Fixture& s, CmClient& client) {
        return client.accept(s.cm, s.id(Id::requested), qpn(s.facts(), Queue::requested));
    }));
    list.push_back(
        cm("reject", [](Fixture& s, CmClient& client) { return client.reject(s.cm, s.id(Id::requested)); }));
    for (const Id which : {Id::connected, Id::connecting, Id::accepting})
        list.push_back(cm(std::string("disconnect_") + name_of(which), [which](Fixture& s, CmClient& client) {
            return client.disconnect(s.cm, s.id(which));
        }));
    list.push_back(cm("attributes", [](Fixture& s, CmClient& client) {
        return client.attributes(s.cm, s.id(Id::routed), 1);
    }));
    list.push_back(cm("query_route", [](Fixture& s, CmClient& client) {
        return client.query_route(s.cm, s.id(Id::connected));
    }));
    for (const uint32_t option : {0U, 1U, 2U})
        list.push_back(cm(
            "query_" + std::to_string(option),
            [option](Fixture& s, CmClient& client) { return client.query(s.cm, s.id(Id::routed), option); },
            option == 0));
    list.push_back(
        cm("option", [](Fixture& s, CmClient& client) { return client.option(s.cm, s.id(Id::idle)); }));
    list.push_back(
        cm("notify", [](Fixture& s, CmClient& client) { return client.notify(s.cm, s.id(Id::connected)); }));
    // A join is refused on an iWARP device after the id is looked up.
    const Id joins = device().roce ? Id::datagram : Id::resolved;
    list.push_back(cm(
        "join_ip", [joins](Fixture& s, CmClient& client) { return client.join_ip(s.cm, s.id(joins)); },
        device().roce));
    list.push_back(cm(
        "join", [joins](Fixture& s, CmClient& client) { return client.join(s.cm, s.id(joins)); },
        device().roce));
    list.push_back(cm(
        "leave", [](Fixture& s, CmClient& client) { return client.leave(s.cm, s.group()); }, device().roce));
    if (device().roce)
        list.push_back(cm("request_datagram", [](Fixture& s, CmClient& client) {
            return client.connect(s.cm, s.id(Id::datagram), s.facts().world_qpn);
        }));
    list.push_back(cm("get_event", [](Fixture& s, CmClient& client) {
        pollfd ready{s.cm, POLLIN, 0};
        return poll(&ready, 1, 0) < 1 ? EAGAIN : client.event(s.cm, nullptr, nullptr);
    }));
    for (const Id which : {Id::connected, Id::listener, Id::wildcard, Id::requested})
        list.push_back(cm(std::string("migrate_") + name_of(which), [which](Fixture& s, CmClient& client) {
            return client.migrate(s.other_cm, s.id(which), s.cm);
        }));
    list.push_back(cm("write_event", [](Fixture& s, CmClient& client) {
        return client.write_event(s.cm, s.id(Id::connected));
    }));
    list.push_back(cm("close", [](Fixture& s, CmClient&) { return error_of(close(s.cm)); }));
    list.push_back(cm("close_other", [](Fixture& s, CmClient&) { return error_of(close(s.other_cm)); }));
    // The QPs below the connections.
    struct Below {
        const char* name;
        Queue queue;
    };
    static constexpr Below queues[] = {{"routed", Queue::routed},
                                       {"connecting", Queue::connecting},
                                       {"connected", Queue::connected},
                                       {"requested", Queue::requested},
                                       {"accepting", Queue::accepting}};
    for (const Below& below : queues) {
        list.push_back(cm(std::string("destroy_qp_") + below.name, [&below](Fixture& s, CmClient&) {
            return own<uv::Sender>(3)
                .write(s.world().fd(), message_with_handle(s, "destroy_qp", 8, s.queue(below.queue)))
                .error;
        }));
        list.push_back(cm(std::string("flush_qp_") + below.name,
                          [&below](Fixture& s, CmClient&) { return flush_qp(s, s.queue(below.queue)); }));
    }
}

// ---- events of the provider

Operation event(std::string name, bool connections, t3_races_event_type type,
                std::function<uint32_t(const Facts&)> which, int status = 0) {
    return {.name = "event." + name,
            .place = Place::outside,
            .connections = connections,
            .second = true,
            .outside = [=](const Outside& at) { return device().report(type, which(at.facts), status); }};
}

void add_events(Operations& list) {
    const auto world = [](const Facts& facts) { return facts.world_qpn; };
    list.push_back(event("qp_event", false, T3_RACES_EV_QP_EVENT, world));
    list.push_back(event("cq_event", false, T3_RACES_EV_CQ_EVENT, world));
    list.push_back(event("completion", false, T3_RACES_EV_COMPLETION, world));
    list.push_back(event("device_fatal", false, T3_RACES_EV_DEVICE_FATAL, world));
    const auto of = [](Queue queue) { return [queue](const Facts& facts) { return qpn(facts, queue); }; };
    list.push_back(event("request", true, T3_RACES_EV_REQUEST, [](const Facts&) { return listener_port; }));
    list.push_back(
        event("request_wildcard", true, T3_RACES_EV_REQUEST, [](const Facts&) { return wildcard_port; }));
    list.push_back(event("reply", true, T3_RACES_EV_REPLY, of(Queue::connecting)));
    list.push_back(event("refused", true, T3_RACES_EV_REPLY, of(Queue::connecting), -ECONNREFUSED));
    list.push_back(event("established", true, T3_RACES_EV_ESTABLISHED, of(Queue::accepting)));
    list.push_back(event("not_established", true, T3_RACES_EV_CLOSE, of(Queue::accepting), -ECONNRESET));
    list.push_back(event("peer_close", true, T3_RACES_EV_PEER_CLOSE, of(Queue::connected)));
    list.push_back(event("close", true, T3_RACES_EV_CLOSE, of(Queue::connected)));
}

// ---- the machine

ifreq of_interface() {
    ifreq request{};
    device().interface.copy(request.ifr_name, IFNAMSIZ - 1);
    return request;
}

bool is_up() {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request = of_interface();
    const bool up = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP);
    close(fd);
    return up;
}

int link(bool up) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request = of_interface();
    int error = error_of(ioctl(fd, SIOCGIFFLAGS, &request));
    request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    if (!error)
        error = error_of(ioctl(fd, SIOCSIFFLAGS, &request));
    close(fd);
    return error;
}

int load(const std::string& module) {
    const int fd = open((modules_folder + "/" + module + ".ko").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    const int error = error_of(syscall(SYS_finit_module, fd, "", 0));
    close(fd);
    return error == EEXIST ? 0 : error;
}

int unload(const std::string& module) {
    return error_of(syscall(SYS_delete_module, module.c_str(), O_NONBLOCK));
}

int toggle_name() {
    const auto found = find_device(device().prefix);
    if (!found)
        return ENODEV;
    return rename_device(found->index, found->name == device().name ? device().other_name : device().name);
}

// Another network namespace. A bind mount keeps it, so that no process has to.
int other_netns() {
    static const int fd = [] {
        const pid_t child = fork();
        if (child == 0) {
            close(open(netns_path, O_CREAT | O_RDONLY | O_CLOEXEC, 0600));
            _exit(unshare(CLONE_NEWNET) < 0 ||
                  mount("/proc/self/ns/net", netns_path, nullptr, MS_BIND, nullptr) < 0);
        }
        waitpid(child, nullptr, 0);
        return open(netns_path, O_RDONLY | O_CLOEXEC);
    }();
    return fd;
}

int move_away() {
    const auto found = find_device(device().prefix);
    return found ? move_device(found->index, other_netns()) : ENODEV;
}

int move_back() {
    int error = ENODEV;
    // setns() affects only this thread, which ends.
    std::thread([&error] {
        const int home = open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC);
        if (setns(other_netns(), CLONE_NEWNET) == 0)
            if (const auto found = find_device(device().prefix))
                error = move_device(found->index, home);
        close(home);
    }).join();
    return error;
}

Operation machine(std::string name, std::function<int(const Outside&)> run, bool changes = false) {
    return {.name = std::move(name),
            .place = Place::outside,
            .second = true,
            .outside = std::move(run),
            .slow = changes,
            .changes = changes};
}

// A connection without a reply holds its id, and so the device, until the provider gives it up. A real
// provider has a timer; this one gives up every 50 ms while the device is removed.
int remove_device(const Outside& at, const std::function<int()>& remove) {
    std::jthread timer([&at](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            std::this_thread::sleep_for(50ms);
            for (const uint32_t qpn : at.facts.qpn)
                if (!stop.stop_requested())
                    device().report(T3_RACES_EV_TIMEOUT, qpn);
        }
    });
    return remove();
}

int dump(int command) {
    const auto found = find_device(device().prefix);
    return found ? dump_resources(found->index, command) : ENODEV;
}

void add_machine(Operations& list) {
    list.push_back({.name = "kill",
                    .place = Place::ends,
                    .second = true,
                    .mapped = true,
                    .outside = [](const Outside& at) { return error_of(kill(at.subject, SIGKILL)); }});
    list.push_back(machine(
        "unplug", [](const Outside& at) { return remove_device(at, [] { return device().unplug(); }); },
        true));
    list.push_back(machine(
        "replug",
        [](const Outside& at) {
            const int error = remove_device(at, [] { return device().unplug(); });
            return error ? error : device().plug();
        },
        true));
    list.push_back(machine(
        "rename", [](const Outside&) { return toggle_name(); }, true));
    list.push_back(machine(
        "move_netns", [](const Outside& at) { return remove_device(at, move_away); }, true));
    list.push_back(machine(
        "link_down", [](const Outside&) { return link(false); }, true));
    list.push_back(machine("dump_qp", [](const Outside&) { return dump(RDMA_NLDEV_CMD_RES_QP_GET); }));
    list.push_back(machine("dump_cq", [](const Outside&) { return dump(RDMA_NLDEV_CMD_RES_CQ_GET); }));
    list.push_back(machine("dump_mr", [](const Outside&) { return dump(RDMA_NLDEV_CMD_RES_MR_GET); }));
    list.push_back(machine("dump_cm_id", [](const Outside&) { return dump(RDMA_NLDEV_CMD_RES_CM_ID_GET); }));
    list.push_back(machine("debugfs_ids", [](const Outside&) {
        std::ifstream ids("/sys/kernel/debug/t3_rdma_cm/ids");
        std::string line;
        while (std::getline(ids, line))
            ;
        return 0;
    }));
    for (const std::string& module : device().modules()) {
        // Refused while the subject has files open, and done when it has none.
        list.push_back(machine(
            "unload_" + module, [module](const Outside&) { return unload(module); }, true));
        list.push_back(machine(
            "unload_unused_" + module, [module](const Outside&) { return unload(module); }, true));
        list.back().closed = true;
    }
}

} // namespace

const std::vector<Operation>& operations() {
    static const Operations all = [] {
        Operations list;
        add_commands(list);
        add_files(list);
        add_cm(list);
        add_events(list);
        add_machine(list);
        // Over RoCE there is no file of the verbs device, whose dispatcher is ib_uverbs.
        if (device().roce)
            std::erase_if(list, [](const Operation& operation) {
                return (operation.place == Place::subject && !operation.connections) ||
                       operation.name.find("_qp_") != std::string::npos;
            });
        // Names of pairs contain no spaces.
        for (Operation& operation : list)
            std::ranges::replace(operation.name, ' ', '_');
        return list;
    }();
    return all;
}

std::string restore() {
    for (const std::string& module : device().modules())
        if (!std::filesystem::exists("/sys/module/" + module))
            if (const int error = load(module))
                return module + " cannot be loaded again:  " + std::strerror(error);
    if (!device().plugged()) {
        if (const int error = device().plug())
            return std::string("the device cannot be plugged in again: ") + std::strerror(error);
    } else if (!find_device(device().prefix)) {
        if (const int error = move_back())
            return std::string("the device cannot come back from its namespace: ") + std::strerror(error);
    }
    if (const auto found = find_device(device().prefix); found && found->name != device().name)
        if (const int error = toggle_name())
            return std::string("the device cannot have its name back: ") + std::strerror(error);
    const bool was_down = !is_up();
    if (const int error = link(true))
        return std::string("the link cannot come up again: ") + std::strerror(error);
    if (!device().wait_for_carrier())
        return "the link has no carrier again after 5 s";
    if (was_down)
        if (const int error = device().after_link_down())
            return std::string("the device does not work after the link was down: ") + std::strerror(error);
    return {};
}

} // namespace races
