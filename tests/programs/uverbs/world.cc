// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "world.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace uv {

namespace {

constexpr int most_files = 128;

std::vector<uint8_t> bytes_of(const std::vector<Field>& fields, const World& world) {
    std::vector<uint8_t> bytes;
    for (const Field& field : fields) {
        uint64_t value = field.value;
        if (field.kind == Kind::handle || field.kind == Kind::fd)
            value = world.of(field.object);
        else if (field.kind == Kind::address)
            value = some_memory();
        const size_t at = bytes.size();
        bytes.resize(at + field.bytes);
        std::memcpy(&bytes[at], &value, std::min<size_t>(field.bytes, sizeof(value)));
    }
    return bytes;
}

unsigned handles(int fd, uint16_t type) {
    struct { // ib_uverbs_ioctl_hdr ends in an array without a length
        uint16_t length = sizeof(*this), object = UVERBS_OBJECT_DEVICE, method = UVERBS_METHOD_INFO_HANDLES,
                 number = 3;
        uint64_t reserved1 = 0;
        uint32_t driver, reserved2 = 0;
        ib_uverbs_attr attributes[3] = {};
    } call;
    call.driver = RDMA_DRIVER_CXGB3;
    uint32_t total = 0, list[256];
    const auto attribute = [&](unsigned i, uint16_t id, uint16_t length, uint64_t data) {
        call.attributes[i].attr_id = id;
        call.attributes[i].len = length;
        call.attributes[i].flags = UVERBS_ATTR_F_MANDATORY;
        call.attributes[i].data = data;
    };
    attribute(0, UVERBS_ATTR_INFO_OBJECT_ID, 8, type);
    attribute(1, UVERBS_ATTR_INFO_TOTAL_HANDLES, sizeof(total), reinterpret_cast<uint64_t>(&total));
    attribute(2, UVERBS_ATTR_INFO_HANDLES_LIST, sizeof(list), reinterpret_cast<uint64_t>(list));
    if (ioctl(fd, RDMA_VERBS_IOCTL, &call) < 0) {
        std::fprintf(stderr, "info_handles of %u: %s\n", type, std::strerror(errno));
        std::exit(1);
    }
    return total;
}

} // namespace

unsigned open_files() {
    unsigned count = 0;
    for (int fd = 0; fd < most_files; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

uint64_t some_memory() {
    alignas(4096) static uint8_t memory[2 * 4096];
    return reinterpret_cast<uint64_t>(memory);
}

World::World(Sender& sender, std::string device, unsigned others)
    : sender_(sender), device_(std::move(device)), others_(others) {
    make();
}

World::~World() {
    close_from(fd_);
}

int World::open_device() const {
    const int fd = open(device_.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        std::fprintf(stderr, "%s: %s\n", device_.c_str(), std::strerror(errno));
        std::exit(1);
    }
    return fd;
}

void World::make() {
    fd_ = open_device();
    objects_.fill(unused_handle);
    const auto create = [this](std::string_view name, Object object) {
        const Outcome outcome = sender_.write(fd_, message(command(name)));
        if (outcome.error) {
            std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(name.size()), name.data(),
                         std::strerror(outcome.error));
            std::exit(1);
        }
        objects_.at(static_cast<size_t>(object)) = outcome.handle();
    };
    create("get_context", Object::async);
    create("create_comp_channel", Object::channel);
    for (unsigned i = 0; i < others_; i++)
        create("alloc_pd", Object::pd);
    create("alloc_pd", Object::pd);
    create("alloc_pd", Object::spare_pd);
    create("create_cq", Object::cq);
    create("create_cq", Object::spare_cq);
    create("create_qp", Object::qp);
    create("reg_mr", Object::mr);
    create("alloc_mw", Object::mw);
    after_ = static_cast<int>(of(Object::channel)) + 1;
}

void World::close_from(int first) const {
    for (int fd = first; fd < most_files; fd++)
        close(fd);
}

void World::close_new_files() const {
    close_from(after_);
}

void World::renew() {
    close_from(fd_);
    make();
}

Message World::message(const Command& command) const {
    Message message;
    message.command = command.number;
    message.extended = command.extended;
    message.core = bytes_of(command.fields, *this);
    message.has_response = command.extended
                               ? command.out + command.driver_out > 0
                               : !command.fields.empty() && command.fields[0].kind == Kind::response;
    message.driver = bytes_of(command.driver, *this);
    message.out = command.out;
    message.driver_out = command.driver_out;
    for (const Changing& part : command.changing)
        message.changing.push_back({part.at, part.length});
    return message;
}

Ioctl World::call(const Method& method) const {
    using Role = Attribute::Role;
    Ioctl call;
    call.object = method.object;
    call.method = method.method;
    for (const Attr& attr : method.attributes) {
        Attribute a{.id = attr.id, .length = attr.bytes, .data = attr.value, .changing = attr.changing};
        switch (attr.kind) {
        case AttrKind::handle:
        case AttrKind::fd:
            a.role = Role::handle;
            a.data = of(attr.object);
            break;
        case AttrKind::created:
            a.role = Role::created;
            a.data = 0xaaaa; // to detect whether the kernel writes it
            break;
        case AttrKind::out:
            a.role = Role::out;
            break;
        case AttrKind::address:
            a.data = some_memory();
            break;
        default:
            break;
        }
        for (const uint32_t word : attr.words) {
            const auto* bytes = reinterpret_cast<const uint8_t*>(&word);
            a.pointed.insert(a.pointed.end(), bytes, bytes + sizeof(word));
        }
        call.attributes.push_back(a);
    }
    return call;
}

std::string World::census() const {
    static constexpr struct {
        const char* name;
        uint16_t type;
    } kinds[] = {{"pd", UVERBS_OBJECT_PD},
                 {"cq", UVERBS_OBJECT_CQ},
                 {"qp", UVERBS_OBJECT_QP},
                 {"mr", UVERBS_OBJECT_MR},
                 {"mw", UVERBS_OBJECT_MW}};
    std::string text;
    for (const auto& kind : kinds)
        text += std::string(kind.name) + ' ' + std::to_string(handles(fd_, kind.type)) + ' ';
    return text + "files " + std::to_string(open_files());
}

} // namespace uv
