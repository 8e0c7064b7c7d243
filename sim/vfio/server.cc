// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/vfio/server.hh"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "sim/core/log.hh"

namespace t3sim::vfio {
namespace {

spdlog::logger& log = logger("vfio");

// After this many messages of one client, or when the turn's time is over, the other cards and the timers are
// served.
constexpr int messages_per_turn = 64;

// QEMU rejects a reply that is longer than its request, and cloud-hypervisor's client one without
// capabilities. So the reply has the first text that is short enough. max_dma_maps is the protocol's
// default.
constexpr const char* capabilities[] = {
    R"({"capabilities":{"max_msg_fds":16,"max_data_xfer_size":4096,"write_multiple":true}})",
    R"({"capabilities":{"max_data_xfer_size":4096}})",
    R"({"capabilities":{}})",
};
// Longer ones are none of a client. A text of numbers would keep the parser busy for some milliseconds.
constexpr std::size_t max_version_text = 4096;
static_assert(Server::Connection::max_fds == 16 && max_data_xfer == 4096 && DmaTable::max_ranges == 65535);

} // namespace

struct Server::Row {
    const char* name;
    Result (Server::*handler)(Message&);
};

// Indexed by command number. The reply to a command without a handler is ENOTSUP: only servers send in-band
// DMA; migration and dirty page tracking are refused (a card's connections cannot migrate).
const std::array<Server::Row, 17> Server::commands{{
    {"(none)", nullptr},
    {"VERSION", &Server::version},
    {"DMA_MAP", &Server::dma_map},
    {"DMA_UNMAP", &Server::dma_unmap},
    {"DEVICE_GET_INFO", &Server::device_get_info},
    {"DEVICE_GET_REGION_INFO", &Server::device_get_region_info},
    {"DEVICE_GET_REGION_IO_FDS", nullptr},
    {"DEVICE_GET_IRQ_INFO", &Server::device_get_irq_info},
    {"DEVICE_SET_IRQS", &Server::device_set_irqs},
    {"REGION_READ", &Server::region_read},
    {"REGION_WRITE", &Server::region_write},
    {"DMA_READ", nullptr},
    {"DMA_WRITE", nullptr},
    {"DEVICE_RESET", &Server::device_reset},
    {"DIRTY_PAGES", nullptr},
    {"REGION_WRITE_MULTI", &Server::region_write_multi},
    {"DEVICE_FEATURE", nullptr},
}};

Server::~Server() {
    loop_.queue().cancel(writes_.more);
    loop_.queue().cancel(more_unmaps_);
}

void Server::attached() {
    const std::uint32_t msi = find_capability(*device_, 0x05);
    std::array<std::uint8_t, 1> pin{};
    device_->config_read(0x3d, pin);
    interrupts_.set_counts(pin[0] != 0 ? 1 : 0, msi ? 1U << (config_word(*device_, msi + 2) >> 1 & 7) : 0,
                           device_->msix_vectors());
}

void Server::forget_client() {
    loop_.queue().cancel(writes_.more);
    writes_ = {};
    loop_.queue().cancel(more_unmaps_);
    unmaps_ = negotiated_ = false;
    interrupts_.clear();
}

void Server::receive() {
    if (writes_.under_way) {
        if (!write_some())
            return;
        send_reply(connection_->message().header, writes_.result);
    }
    if (unmaps_) {
        loop_.queue().cancel(more_unmaps_);
        const Result error = dma_unmap(connection_->message());
        if (unmaps_)
            return;
        send_reply(connection_->message().header, error);
    }
    if (share_->rests) // the rest of an earlier message is done, the next one is not read
        return;
    for (int i = 0; connection_ && i < messages_per_turn; i++) {
        if (connection_->output_waits())
            return;
        if (i != 0 && loop_.turn_is_over())
            return;
        if (!receive_message())
            return;
        handle(connection_->message());
        if (connection_)
            connection_->close_fds();
        if (writes_.under_way || unmaps_)
            return;
    }
}

void Server::handle(Message& message) {
    messages_++;
    const Header& header = message.header;
    if ((header.flags & flag::type_mask) != flag::command)
        return disconnect("unexpected reply");
    if (!negotiated_ && header.command != static_cast<std::uint16_t>(Command::version))
        return disconnect("the first message is not VERSION");

    const Row& row = header.command < commands.size() ? commands[header.command] : commands[0];
    reply_.clear();
    const Result error = row.handler ? (this->*row.handler)(message) : ENOTSUP;
    if (!writes_.under_way && !unmaps_)
        send_reply(header, error);
}

void Server::send_reply(const Header& header, Result error) {
    if (error) {
        refused_++;
        const Row& row = header.command < commands.size() ? commands[header.command] : commands[0];
        log.debug("{} ({}) refused: {}", row.name, header.command, std::strerror(error));
    }
    if (!connection_ || (header.flags & flag::no_reply) != 0)
        return;
    if (error)
        reply_.clear();
    const Header reply{.id = header.id,
                       .command = header.command,
                       .size = static_cast<std::uint32_t>(sizeof(Header) + reply_.size()),
                       .flags = flag::reply | (error ? flag::error : 0),
                       .error = static_cast<std::uint32_t>(error)};
    send(reply, reply_);
}

Server::Result Server::version(Message& message) {
    Version theirs{};
    if (negotiated_ || !take(message.body, theirs) || theirs.major != 0)
        return EINVAL;
    const Bytes text = Bytes(message.body).subspan(sizeof theirs);
    if (!text.empty()) {
        if (text.size() > max_version_text || text.back() != 0)
            return EINVAL;
        const auto* begin = reinterpret_cast<const char*>(text.data());
        // Does not make the values: 60,000 nested arrays took 10 ms.
        if (text.size() > 1 && (*begin != '{' || !nlohmann::json::accept(begin, begin + text.size() - 1)))
            return EINVAL;
    }
    append(reply_, Version{.major = 0, .minor = 0});
    const auto* const fits = std::ranges::find_if(
        capabilities, [&](const char* reply) { return std::strlen(reply) + 1 <= text.size(); });
    if (fits != std::end(capabilities))
        reply_.insert(reply_.end(), *fits, *fits + std::strlen(*fits) + 1);
    negotiated_ = true;
    return 0;
}

Server::Result Server::dma_map(Message& message) {
    DmaMapRequest request{};
    if (!take(message.body, request) || (request.flags & ~(dma_readable | dma_writable)) != 0 ||
        message.fds.size() > 1)
        return EINVAL;
    const int fd = message.fds.empty() ? -1 : message.fds[0].get();
    const int error = dma_.map(request.address, request.size, fd, request.offset,
                               (request.flags & dma_readable) != 0, (request.flags & dma_writable) != 0);
    log.debug("map {:#x} + {:#x} {}{}{}{}", request.address, request.size,
              (request.flags & dma_readable) != 0 ? "r" : "-",
              (request.flags & dma_writable) != 0 ? "w" : "-", fd < 0 ? ", no descriptor" : "",
              error ? ", refused" : "");
    return error;
}

Server::Result Server::dma_unmap(Message& message) {
    unmaps_ = false;
    DmaUnmapRequest request{};
    if (!take(message.body, request) || (request.flags & ~unmap_all) != 0)
        return EINVAL;
    log.debug("unmap {:#x} + {:#x}{}", request.address, request.size,
              (request.flags & unmap_all) != 0 ? ", all" : "");
    if ((request.flags & unmap_all) != 0)
        dma_.clear();
    else if (const int error = dma_.unmap(request.address, request.size)) {
        unmaps_ = error == EAGAIN;
        if (unmaps_)
            more_unmaps_ = later([this] { receive(); });
        return error;
    }
    append(reply_, request);
    return 0;
}

Server::Result Server::device_get_info(Message& message) {
    DeviceInfo info{};
    if (!take(message.body, info) || info.argsz < sizeof info)
        return EINVAL;
    append(reply_, DeviceInfo{.argsz = sizeof info,
                              .flags = device_can_reset | device_is_pci,
                              .num_regions = num_regions,
                              .num_irqs = num_irqs});
    return 0;
}

std::uint64_t Server::region_size(std::uint32_t region) const {
    if (region < num_bars)
        return device_->bar_size(region);
    return region == region_config ? config_size : 0;
}

bool Server::in_region(std::uint32_t region, std::uint64_t offset, std::uint64_t count) const {
    const std::uint64_t size = region_size(region);
    return offset <= size && count <= size - offset;
}

Server::Result Server::device_get_region_info(Message& message) {
    RegionInfo info{};
    if (!take(message.body, info) || info.argsz < sizeof info || info.index >= num_regions)
        return EINVAL;
    // A region that does not exist has size 0; on an error QEMU would refuse the device. No region is
    // mappable: one mappable region would disable posted writes for the complete device.
    const std::uint64_t size = region_size(info.index);
    append(reply_, RegionInfo{.argsz = sizeof info,
                              .flags = size ? region_readable | region_writable : 0,
                              .index = info.index,
                              .cap_offset = 0,
                              .size = size,
                              .offset = 0});
    return 0;
}

Server::Result Server::device_get_irq_info(Message& message) {
    IrqInfo info{};
    if (!take(message.body, info) || info.argsz < sizeof info || info.index >= num_irqs)
        return EINVAL;
    append(reply_, interrupts_.info(info.index));
    return 0;
}

Server::Result Server::device_set_irqs(Message& message) {
    SetIrqs request{};
    if (!take(message.body, request) || request.argsz < sizeof request)
        return EINVAL;
    return interrupts_.set(request, Bytes(message.body).subspan(sizeof request), message.fds);
}

Server::Result Server::region_read(Message& message) {
    RegionAccess access{};
    if (!take(message.body, access) || access.count > max_data_xfer ||
        !in_region(access.region, access.offset, access.count))
        return EINVAL;
    append(reply_, access);
    const std::size_t at = reply_.size();
    reply_.resize(at + access.count);
    const MutableBytes out = MutableBytes(reply_).subspan(at);
    if (access.region == region_config) {
        device_->config_read(static_cast<std::uint32_t>(access.offset), out);
        return 0;
    }
    loop_.expect_request(); // a CPU waits for the value, and often reads another register then
    read_bar(access.region, access.offset, out);
    return 0;
}

void Server::write_region(std::uint32_t region, std::uint64_t offset, Bytes data) {
    if (region == region_config)
        write_config(static_cast<std::uint32_t>(offset), data);
    else
        write_bar(region, offset, data);
}

Server::Result Server::region_write(Message& message) {
    RegionAccess access{};
    if (!take(message.body, access))
        return EINVAL;
    const Bytes data = Bytes(message.body).subspan(sizeof access);
    if (data.size() != access.count || access.count > max_data_xfer ||
        !in_region(access.region, access.offset, access.count))
        return EINVAL;
    write_region(access.region, access.offset, data);
    append(reply_, access);
    return 0;
}

Server::Result Server::region_write_multi(Message& message) {
    std::uint64_t count = 0;
    if (!take(message.body, count))
        return EINVAL;
    const Bytes elements = Bytes(message.body).subspan(sizeof count);
    if (count > elements.size() / sizeof(WriteMultiElement) ||
        elements.size() != count * sizeof(WriteMultiElement))
        return EINVAL;
    writes_ = {.under_way = true, .next = sizeof count};
    return write_some() ? writes_.result : 0;
}

/// Continues with the writes of a message until the turn's time is over; the remaining ones follow after all
/// descriptors have been polled. The writes are independent: a bad one does not affect the others. True: all
/// are done, and the reply is in reply_.
bool Server::write_some() {
    const Message& message = connection_->message();
    loop_.queue().cancel(writes_.more);
    while (writes_.next < message.body.size()) {
        WriteMultiElement element{};
        take(Bytes(message.body).subspan(writes_.next), element);
        writes_.next += sizeof element;
        if (element.count <= sizeof element.data && in_region(element.region, element.offset, element.count))
            write_region(element.region, element.offset, Bytes(element.data, element.count));
        else
            writes_.result = EINVAL;
        if (writes_.next < message.body.size() && loop_.turn_is_over()) {
            writes_.more = later([this] { receive(); });
            return false;
        }
    }
    writes_.under_way = false;
    append(reply_, std::uint64_t{(writes_.next - sizeof(std::uint64_t)) / sizeof(WriteMultiElement)});
    return true;
}

Server::Result Server::device_reset(Message&) {
    log.debug("device reset");
    reset_device();
    return 0;
}

void Server::refresh_command() {
    PciServer::refresh_command();
    interrupts_.set_intx_disabled((command_ & 0x0400) != 0);
}

void Server::raise_irq(unsigned vector) {
    if (!bus_master_)
        return; // a message-signalled interrupt is a memory write
    interrupts_raised_++;
    interrupts_.raise(vector);
}

void Server::set_intx(bool asserted) {
    interrupts_.set_intx(asserted);
}

} // namespace t3sim::vfio
