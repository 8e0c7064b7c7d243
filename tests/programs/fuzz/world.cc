// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "world.hh"

#include "program.hh"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fuzz {

// ---- memory

constexpr size_t arena_pages = 10;

Arena::Arena() {
    void* at = mmap(nullptr, arena_pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        prog::fail("mmap: %s", std::strerror(errno));
    base_ = static_cast<uint8_t*>(at);
    mprotect(read_only(), page, PROT_READ);
    mprotect(hole(), page, PROT_NONE);
}

Arena::~Arena() {
    munmap(base_, arena_pages * page);
}

uint64_t Arena::pointer(uint64_t value) const {
    const auto data = reinterpret_cast<uint64_t>(base_ + 4 * page);
    switch (value % 16) {
    case 9:
        return data + value / 16 % (4 * page); // anywhere
    case 10:
        return reinterpret_cast<uint64_t>(read_only());
    case 11:
        return reinterpret_cast<uint64_t>(hole());
    case 12:
        return reinterpret_cast<uint64_t>(hole()) - value / 16 % 64; // into the hole
    case 13:
        return value; // anything
    case 14:
        return value | 0xffff800000000000ULL; // of the kernel
    default:
        return data;
    }
}

// ---- addresses

constexpr uint16_t first_port = 7800;
constexpr unsigned ports = 3;

// An address by a number: one of a few addresses and ports (so that programs connect), sometimes an invalid
// one.
static void make_address(const Targets& targets, uint64_t value, uint8_t* at, size_t size) {
    sockaddr_storage storage{};
    auto& in = reinterpret_cast<sockaddr_in&>(storage);
    auto& in6 = reinterpret_cast<sockaddr_in6&>(storage);
    const auto port = htons(static_cast<uint16_t>(first_port + value / 8 % ports));
    in.sin_family = AF_INET;
    in.sin_port = port;
    switch (value % 8) {
    case 0:
        in.sin_addr.s_addr = targets.own;
        break;
    case 1:
        in.sin_addr.s_addr = targets.peer;
        break;
    case 2:
        break; // any
    case 3:
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        break;
    case 4:
        in6 = {};
        in6.sin6_family = AF_INET6;
        in6.sin6_port = port;
        in6.sin6_addr.s6_addr[15] = static_cast<uint8_t>(value / 32);
        break;
    case 5:
        in.sin_addr.s_addr = htonl(0xe0000000 | static_cast<uint32_t>(value / 32)); // a group
        break;
    case 6:
        storage.ss_family = static_cast<sa_family_t>(value / 8);
        break;
    case 7:
        storage.ss_family = 0;
        break;
    }
    std::memcpy(at, &storage, std::min(size, sizeof(storage)));
}

// ---- files

// A QP number for each world: ib_cm at the peer refuses that of an earlier connection for some seconds.
static uint32_t next_qpn() {
    static std::atomic<uint32_t> last = static_cast<uint32_t>(getpid()) << 10;
    return ++last & 0xffffff;
}

void World::open_all() {
    for (int& fd : uverbs_)
        fd = open(targets_.uverbs.c_str(), O_RDWR | O_CLOEXEC);
    for (int& fd : cm_)
        fd = open(targets_.cm.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (roce())
        remember(QpNumber, next_qpn());
}

void World::close_all() {
    for (const auto& mapping : mappings_)
        munmap(mapping.at, mapping.length);
    mappings_.clear();
    for (const Kind kind : {Channel, Async}) {
        for (const auto fd : objects_[kind])
            close(static_cast<int>(fd));
    }
    for (auto& list : objects_)
        list.clear();
    for (int* fds : {uverbs_, cm_}) {
        for (int i = 0; i < 2; i++) {
            if (fds[i] >= 0)
                close(fds[i]);
            fds[i] = -1;
        }
    }
}

int World::file(Path path, const Call& call) {
    const std::lock_guard lock(mutex_);
    return (path == Path::Cm ? cm_ : uverbs_)[call.file % 2];
}

constexpr uint64_t raw = 1ULL << 63;

uint64_t World::object(Kind kind, uint64_t selector) {
    const std::lock_guard lock(mutex_);
    if (kind == Kinds) // the other connection manager's file
        return static_cast<uint64_t>(cm_[1 - selector % 2]);
    const auto& list = objects_[kind];
    if (selector & raw)
        return selector == ~0ULL ? ~0ULL : selector & ~raw;
    return list.empty() ? 0 : list[list.size() - 1 - selector % list.size()];
}

void World::remember(Kind kind, uint64_t handle) {
    constexpr size_t enough = 60;
    const std::lock_guard lock(mutex_);
    if (objects_[kind].size() < enough)
        objects_[kind].push_back(handle);
}

void World::forget(Kind kind, uint64_t handle) {
    const std::lock_guard lock(mutex_);
    auto& list = objects_[kind];
    if (const auto it = std::find(list.rbegin(), list.rend(), handle); it != list.rend())
        list.erase(std::next(it).base());
}

void World::put(const Field& field, uint64_t value, uint8_t* at, const Arena& arena) {
    switch (field.role) {
    case Role::Address:
        make_address(targets_, value, at, field.size);
        return;
    case Role::Words:
        for (size_t i = 0; i + 4 <= field.size; i += 4)
            std::memcpy(at + i, &value, 4);
        return;
    case Role::Handle:
        value = object(field.kind, value);
        break;
    case Role::Pointer:
        value = arena.pointer(value);
        break;
    default:
        break;
    }
    std::memcpy(at, &value, std::min<size_t>(field.size, sizeof(value)));
}

void World::take_results(const Command& command, const uint8_t* response, size_t size) {
    for (const auto& made : command.made) {
        uint64_t handle = 0;
        if (made.at + made.size > size)
            continue;
        std::memcpy(&handle, response + made.at, made.size);
        remember(made.kind, handle);
    }
}

// ---- write()

// Of <rdma/rdma_user_cm.h>, which conflicts with librdmacm's header.
struct CmHeader {
    uint32_t command;
    uint16_t in, out;
};

int World::write(const Command& command, const Call& call, const Arena& arena) {
    std::vector<uint8_t> request(command.request + command.driver_in + 64);
    size_t length = command.request + command.driver_in,
           response_size = command.response + command.driver_out;
    size_t driver_in = command.driver_in, driver_out = command.driver_out;
    uint8_t* response = arena.response();
    uint64_t first = 0;

    for (size_t i = 0; i < command.fields.size(); i++)
        put(command.fields[i], call.value[i], request.data() + command.fields[i].at, arena);
    if (!command.fields.empty() && command.ends != Kinds) // keep the handle before it is malformed
        std::memcpy(&first, request.data() + command.fields[0].at, command.fields[0].size);

    const unsigned some = 4 + call.malformation_arg % 13 * 4;
    switch (call.malformation) {
    case Shorter:
        length -= std::min<size_t>(length, some);
        driver_in = 0;
        break;
    case LongerGarbage:
        std::memset(request.data() + length, 0xa5, request.size() - length);
        [[fallthrough]];
    case Longer:
        length += some;
        break;
    case ResponseShorter:
        response_size -= std::min<size_t>(response_size, some);
        driver_out = 0;
        break;
    case ResponseLonger:
        response_size += some;
        break;
    case ResponseInHole:
        response = arena.hole() - call.malformation_arg % 2 * 4;
        break;
    case ResponseReadOnly:
        response = arena.read_only();
        break;
    case NoDriverPart:
        length = command.request;
        response_size = command.response;
        driver_in = driver_out = 0;
        break;
    default:
        break;
    }
    if (command.path == Path::WriteEx) {
        length &= ~7U;
        driver_in = std::min(length, driver_in & ~7U);
    }
    const auto at = reinterpret_cast<uint64_t>(response);
    if (command.response_at >= 0)
        std::memcpy(request.data() + command.response_at, &at, sizeof(at));

    std::vector<uint8_t> message;
    const auto append = [&message](const void* data, size_t size) {
        const auto* bytes = static_cast<const uint8_t*>(data);
        message.insert(message.end(), bytes, bytes + size);
    };
    const uint32_t bits = call.malformation == WrongHeader ? 1U << call.malformation_arg % 32 : 0;
    const auto wrong =
        static_cast<uint16_t>(call.malformation == WrongCount ? 1 + call.malformation_arg % 3 : 0);
    switch (command.path) {
    case Path::Write: {
        const ib_uverbs_cmd_hdr header = {command.number ^ bits,
                                          static_cast<uint16_t>((length + sizeof(header)) / 4 + wrong),
                                          static_cast<uint16_t>(response_size / 4)};
        append(&header, sizeof(header));
        break;
    }
    case Path::WriteEx: {
        const size_t core_in = length - driver_in,
                     core_out = (response_size - std::min(response_size, driver_out)) & ~7U;
        const ib_uverbs_cmd_hdr header = {(command.number | IB_USER_VERBS_CMD_FLAG_EXTENDED) ^ bits,
                                          static_cast<uint16_t>(core_in / 8 + wrong),
                                          static_cast<uint16_t>(core_out / 8)};
        const ib_uverbs_ex_cmd_hdr more = {core_out + driver_out ? at : 0,
                                           static_cast<uint16_t>(driver_in / 8),
                                           static_cast<uint16_t>(driver_out / 8), 0};
        append(&header, sizeof(header));
        append(&more, sizeof(more));
        break;
    }
    default: {
        const CmHeader header = {command.number ^ bits, static_cast<uint16_t>(length + wrong),
                                 static_cast<uint16_t>(response_size)};
        append(&header, sizeof(header));
    }
    }
    append(request.data(), length);

    uint8_t* from = arena.request();
    if (call.malformation ==
        RequestInHole) { // the page before the hole is read-only, so its content does not matter
        from = arena.hole() - std::min<size_t>(message.size(), call.malformation_arg % 64);
    } else {
        std::memcpy(from, message.data(), std::min(message.size(), 2 * Arena::page));
    }
    if (::write(file(command.path, call), from, message.size()) < 0)
        return errno;
    if (response == arena.response())
        take_results(command, response, response_size);
    if (command.ends != Kinds)
        forget(command.ends, static_cast<uint32_t>(first));
    return 0;
}

// ---- ioctl

int World::ioctl(const Command& command, const Call& call, const Arena& arena) {
    constexpr size_t most = 60;
    ib_uverbs_ioctl_hdr header{};
    std::vector<ib_uverbs_attr> attrs;
    uint8_t* data = arena.request() + 2048; // what attributes point to
    uint8_t* response = arena.response();
    uint64_t first = 0;

    const auto add = [&](uint16_t id, size_t length, uint64_t value) {
        ib_uverbs_attr attr{};
        attr.attr_id = id;
        attr.len = static_cast<uint16_t>(length);
        attr.flags = UVERBS_ATTR_F_MANDATORY;
        attr.data = value;
        attrs.push_back(attr);
    };
    for (size_t i = 0; i < command.fields.size(); i++) {
        const Field& field = command.fields[i];
        const auto here = reinterpret_cast<uint64_t>(data);
        uint64_t value = call.value[i];
        switch (field.role) {
        case Role::Handle:
            value = object(field.kind, value);
            if (value == ~0ULL)
                continue; // optional
            if (!i)
                first = value;
            add(field.at, 0, value);
            break;
        case Role::NewId:
            add(field.at, 0, 0);
            break;
        case Role::Output:
            add(field.at, field.size, arena.pointer(value));
            break;
        case Role::Words:
            put(field, value, data, arena);
            if (field.size <= 8)
                std::memcpy(&value, data, field.size);
            add(field.at, field.size, field.size > 8 ? here : value);
            data += (field.size + 7) & ~7;
            break;
        default:
            add(field.at, field.size, field.size < 8 ? value & ((1ULL << 8 * field.size) - 1) : value);
        }
    }
    if (command.driver_in && call.malformation != NoDriverPart)
        add(UVERBS_ATTR_UHW_IN, command.driver_in, arena.pointer(0));
    if (command.driver_out && call.malformation != NoDriverPart)
        add(UVERBS_ATTR_UHW_OUT, command.driver_out, reinterpret_cast<uint64_t>(response));

    if (attrs.empty())
        attrs.emplace_back();
    auto& victim = attrs[call.malformation_arg % attrs.size()];
    switch (call.malformation) {
    case AttrDropped:
        victim = attrs.back();
        attrs.pop_back();
        break;
    case AttrTwice:
        attrs.push_back(ib_uverbs_attr(victim));
        break;
    case AttrLength:
    case Shorter:
        victim.len = static_cast<uint16_t>(victim.len + call.malformation_arg / 64 % 64 - 32);
        break;
    case Longer:
    case ResponseLonger:
        victim.len = static_cast<uint16_t>(victim.len + call.malformation_arg / 64 % 2048);
        break;
    case AttrReserved:
        victim.attr_data.reserved = static_cast<uint16_t>(call.malformation_arg >> 8);
        break;
    case AttrUnknown:
        add(static_cast<uint16_t>(call.malformation_arg >> 8), 8, call.malformation_arg);
        attrs.back().flags = static_cast<uint16_t>(call.malformation_arg & 3);
        break;
    case ManyAttrs:
        while (attrs.size() < most) {
            add(static_cast<uint16_t>(0x300 + attrs.size()), 8, 0);
            attrs.back().flags = 0;
        }
        break;
    case ResponseInHole:
    case ResponseReadOnly:
        victim.data = reinterpret_cast<uint64_t>(call.malformation == ResponseInHole ? arena.hole()
                                                                                     : arena.read_only());
        break;
    default:
        break;
    }
    header.object_id = command.number;
    header.method_id = command.method;
    header.driver_id = targets_.driver_id;
    header.num_attrs = static_cast<uint16_t>(attrs.size());
    header.length = static_cast<uint16_t>(sizeof(header) + attrs.size() * sizeof(attrs[0]));
    if (call.malformation == WrongCount)
        header.length = static_cast<uint16_t>(header.length + call.malformation_arg % 33 - 16);
    if (call.malformation == WrongHeader)
        reinterpret_cast<uint8_t*>(&header)[call.malformation_arg % sizeof(header)] ^=
            static_cast<uint8_t>(1U << call.malformation_arg / 64 % 8);
    uint8_t* list = arena.request() + sizeof(header);
    std::memcpy(arena.request(), &header, sizeof(header));
    std::memcpy(list, attrs.data(), attrs.size() * sizeof(attrs[0]));
    if (::ioctl(file(command.path, call), RDMA_VERBS_IOCTL, arena.request()) < 0)
        return errno;
    std::memcpy(attrs.data(), list, attrs.size() * sizeof(attrs[0]));
    for (const auto& made : command.made) {
        for (const auto& attr : attrs) {
            if (attr.attr_id == made.at)
                remember(made.kind, attr.data);
        }
    }
    if (command.driver_out >= 8) { // the drivers' responses begin with a key for mmap()
        uint64_t key;
        std::memcpy(&key, response, sizeof(key));
        remember(Key, key);
    }
    if (command.ends != Kinds)
        forget(command.ends, first);
    return 0;
}

// ---- other system calls

void World::read_events(const Arena& arena) {
    std::vector<uint64_t> fds;
    {
        const std::lock_guard lock(mutex_);
        for (const Kind kind : {Channel, Async})
            fds.insert(fds.end(), objects_[kind].begin(), objects_[kind].end());
    }
    for (const auto number : fds) {
        const int fd = static_cast<int>(number);
        fcntl(fd, F_SETFL, O_NONBLOCK | O_ASYNC);
        prog::wait_readable(fd, prog::in_ms(0));
        if (read(fd, arena.response(), 64) < 0 && errno == EBADF)
            continue;
    }
}

// A child shares files and mappings and exits after a while.
static int fork_child(uint64_t how) {
    const pid_t child = fork();
    if (!child) {
        usleep(static_cast<useconds_t>(how % 20000));
        _exit(0);
    }
    if (child > 0 && how % 2)
        waitpid(child, nullptr, 0);
    return child < 0 ? errno : 0;
}

int World::action(const Command& command, const Call& call, const Arena& arena) {
    const uint64_t value = call.value[0];
    switch (command.number) {
    case Reopen: {
        int* fd = (value % 2 ? cm_ : uverbs_) + call.file % 2;
        const int opened = value % 2 ? open(targets_.cm.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)
                                     : open(targets_.uverbs.c_str(), O_RDWR | O_CLOEXEC);
        int before;
        {
            const std::lock_guard lock(mutex_);
            before = std::exchange(*fd, opened);
        }
        if (before >= 0)
            close(before);
        return opened < 0 ? errno : 0;
    }
    case ReadEvents:
        read_events(arena);
        return 0;
    case Map: {
        const size_t length = Arena::page << call.value[1] % 3;
        const auto key = object(Key, value);
        void* at = mmap(nullptr, length, value & 16 ? PROT_READ : PROT_READ | PROT_WRITE,
                        value & 32 ? MAP_PRIVATE : MAP_SHARED, file(Path::Write, call),
                        static_cast<off_t>(key & ~4095ULL));
        if (at == MAP_FAILED)
            return errno;
        const std::lock_guard lock(mutex_);
        mappings_.push_back({at, length});
        return 0;
    }
    case Touch: {
        // An access that is not allowed ends this worker by SIGSEGV or SIGBUS; the next one continues.
        const std::lock_guard lock(mutex_);
        if (mappings_.empty())
            return ENOENT;
        auto* word = static_cast<volatile uint64_t*>(mappings_[value % mappings_.size()].at);
        if (call.value[1] % 2)
            word[call.value[1] % 64] = value;
        else
            (void)word[call.value[1] % 64];
        return 0;
    }
    case Unmap: {
        const std::lock_guard lock(mutex_);
        if (mappings_.empty())
            return ENOENT;
        auto& mapping = mappings_.back();
        munmap(mapping.at, call.value[1] % 2 ? Arena::page : mapping.length);
        mappings_.pop_back();
        return 0;
    }
    case Fork:
        return fork_child(value);
    case CloseEvents: {
        const Kind kind = value % 2 ? Async : Channel;
        uint64_t fd;
        {
            const std::lock_guard lock(mutex_);
            if (objects_[kind].empty())
                return ENOENT;
            fd = objects_[kind].back();
            objects_[kind].pop_back();
        }
        return close(static_cast<int>(fd)) ? errno : 0;
    }
    case Wait: {
        // For an event of the connection manager, so that a slow machine gets as far as a fast one.
        pollfd files[2] = {};
        {
            const std::lock_guard lock(mutex_);
            for (int i = 0; i < 2; i++)
                files[i] = {cm_[i], POLLIN, 0};
        }
        poll(files, 2, static_cast<int>(value ? value % 256 : 100));
        return 0;
    }
    case Garbage: {
        Random random(value);
        for (size_t i = 0; i < 256; i += 8) {
            const uint64_t word = random();
            std::memcpy(arena.request() + i, &word, 8);
        }
        const uint32_t command_word = static_cast<uint32_t>(call.value[1]) & 0x800000ff;
        std::memcpy(arena.request(), &command_word, 4);
        return ::write(file(value & 1 ? Path::Cm : Path::Write, call), arena.request(), value % 257) < 0
                   ? errno
                   : 0;
    }
    }
    return EINVAL;
}

int World::run(const Call& call, const Arena& arena) {
    const Command& command = commands()[call.command];
    switch (command.path) {
    case Path::Action:
        return action(command, call, arena);
    case Path::Ioctl:
        return ioctl(command, call, arena);
    default:
        return write(command, call, arena);
    }
}

} // namespace fuzz
