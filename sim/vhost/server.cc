// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/vhost/server.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>

#include "sim/core/client_fd.hh"
#include "sim/core/log.hh"

namespace t3sim::vhost {
namespace {

spdlog::logger& log = logger("vhost");

constexpr std::uint64_t features = feature_protocol_features | feature_version_1;
constexpr std::uint64_t protocol_features = protocol_feature_reply_ack | protocol_feature_backend_request;

/// Whether @p fd, a stream of AF_UNIX, is the client's end of a connection to a card, in this process or
/// another. The client would not be missed when it has gone, as long as a card has its end. The other end of
/// such a connection has the name of a listening socket, that of a socketpair() has none.
bool is_clients_end(const Fd& fd) {
    sockaddr_un name{};
    socklen_t size = sizeof name;
    return getpeername(fd.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0 ||
           size > sizeof name.sun_family;
}

bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t start, std::uint64_t length) {
    return offset >= start && offset - start < length && size <= length - (offset - start);
}

} // namespace

Server::Server(EventLoop& loop, const std::string& path)
    : SocketServer(loop, "vhost", path), queues_{Queue(dma_), Queue(dma_)} {}

Server::~Server() {
    Server::forget_client();
}

void Server::attached() {
    msix_ = Msix(device_->msix_vectors());
    msix_capability_ = find_capability(*device_, 0x11);
    const auto place = [&](std::uint32_t at) {
        std::uint32_t word = 0;
        std::array<std::uint8_t, 4> raw{};
        device_->config_read(msix_capability_ + at, raw);
        std::memcpy(&word, raw.data(), sizeof word);
        return Place{.bar = word & 7, .offset = word & ~std::uint32_t{7}};
    };
    if (msix_capability_ != 0) {
        table_ = place(4);
        pending_ = place(8);
    }
}

void Server::stop(Queue& queue) {
    close_call(queue);
    if (queue.watch)
        loop_.unwatch(queue.watch);
    worker_.close(std::move(queue.kick));
    queue = Queue(dma_);
}

void Server::fail(const char* why) {
    for (Queue& queue : queues_)
        queue.enabled = false;
    SocketServer::fail(why);
}

void Server::forget_client() {
    loop_.queue().cancel(more_);
    for (Queue& queue : queues_)
        stop(queue);
    close_backend_requests();
}

/// Also as soon as the client sends something, which may be a descriptor of its own end of the connection.
void Server::close_backend_requests() {
    loop_.unwatch(std::exchange(backend_watch_, 0));
    worker_.close(std::move(backend_requests_));
}
void Server::close_call(Queue& queue) {
    loop_.unwatch(std::exchange(queue.call_watch, 0));
    signals_.release(std::move(queue.call));
}

void Server::reset_device() {
    device_->reset();
    msix_ = Msix(device_->msix_vectors());
    refresh_command();
}

// ---- messages

void Server::receive() {
    if (!receive_message())
        return;
    messages_++;
    Message& message = connection_->message();
    const Header& header = message.header;
    if ((header.flags & version_mask) != version)
        return disconnect("not version 1 of vhost-user");
    reply_.clear();
    const int error = handle(message);
    connection_->close_fds();
    if (error) {
        refused_++;
        log.debug("request {} refused: {}", header.request, std::strerror(error));
    }
    if (reply_.empty()) {
        if ((header.flags & flag_need_reply) == 0)
            return;
        append(reply_, static_cast<std::uint64_t>(error));
    }
    const Header reply{.request = header.request,
                       .flags = version | flag_reply,
                       .size = static_cast<std::uint32_t>(reply_.size())};
    send(reply, reply_);
}

int Server::handle(Message& message) {
    const auto request = static_cast<Request>(message.header.request);
    switch (request) {
    case Request::get_features:
        append(reply_, features);
        return 0;
    case Request::get_protocol_features:
        append(reply_, protocol_features);
        return 0;
    case Request::set_features:
    case Request::set_protocol_features: {
        std::uint64_t wanted = 0;
        const std::uint64_t offered = request == Request::set_features ? features : protocol_features;
        return take(message.body, wanted) && (wanted & ~offered) == 0 ? 0 : EINVAL;
    }
    case Request::set_backend_request_fd:
        // The poll of a file may ask the client's own FUSE server.
        if (message.fds.size() != 1 || !is_unix_stream(message.fds[0]) || is_clients_end(message.fds[0]))
            return EINVAL;
        close_backend_requests();
        backend_requests_ = std::move(message.fds[0]);
        backend_watch_ = loop_.watch(
            backend_requests_.get(), EPOLLIN, [this](std::uint32_t) { close_backend_requests(); }, share_);
        return 0;
    case Request::set_owner:
        return 0;
    case Request::set_mem_table:
        return set_memory(message);
    case Request::set_vring_num:
    case Request::set_vring_addr:
    case Request::set_vring_base:
    case Request::get_vring_base:
    case Request::set_vring_enable:
        return set_vring(message, request);
    case Request::set_vring_kick:
    case Request::set_vring_call:
    case Request::set_vring_err:
        return set_vring_descriptor(message, request);
    case Request::reset_owner:
        break;
    }
    return ENOTSUP;
}

int Server::set_memory(Message& message) {
    MemoryTable table{};
    if (!take(message.body, table) || table.regions > max_regions || table.regions != message.fds.size() ||
        message.body.size() < sizeof table + table.regions * sizeof(MemoryRegion))
        return EINVAL;
    dma_.clear();
    for (std::uint32_t i = 0; i < table.regions; i++) {
        MemoryRegion region{};
        take(Bytes(message.body).subspan(sizeof table + i * sizeof region), region);
        const int error =
            dma_.map(region.guest_address, region.size, message.fds[i].get(), region.offset, true, true);
        log.debug("map {:#x} + {:#x}{}", region.guest_address, region.size, error ? ", refused" : "");
        if (error) {
            dma_.clear();
            return error;
        }
    }
    return 0;
}

int Server::set_vring(Message& message, Request request) {
    VringState state{};
    if (!take(message.body, state) || state.index >= num_queues)
        return EINVAL;
    Queue& queue = queues_[state.index];
    if (request == Request::get_vring_base) {
        append(reply_, VringState{.index = state.index, .num = queue.ring.base()});
        stop(queue);
        return 0;
    }
    if (request == Request::set_vring_enable) {
        if (state.num == 0) {
            stop(queue);
            return 0;
        }
        if (!queue.ring.usable())
            return EINVAL;
        queue.enabled = true;
        kicked(state.index);
        return 0;
    }
    if (queue.enabled)
        return EBUSY;
    switch (request) {
    case Request::set_vring_num:
        return queue.ring.set_size(state.num) ? 0 : EINVAL;
    case Request::set_vring_base:
        if (state.num > 0xffff)
            return EINVAL;
        queue.ring.set_base(static_cast<std::uint16_t>(state.num));
        return 0;
    default: {
        VringAddress addresses{};
        return take(message.body, addresses) && queue.ring.set_addresses(addresses) ? 0 : EINVAL;
    }
    }
}

int Server::set_vring_descriptor(Message& message, Request request) {
    std::uint64_t value = 0;
    if (!take(message.body, value) || (value & vring_index_mask) >= num_queues)
        return EINVAL;
    const auto index = static_cast<unsigned>(value & vring_index_mask);
    Queue& queue = queues_[index];
    if ((value & vring_no_descriptor) != 0 || message.fds.size() != 1)
        return EINVAL; // a queue that is polled is not supported
    Fd& fd = message.fds[0];
    if (request == Request::set_vring_err)
        return 0; // errors end the connection
    if (request == Request::set_vring_call) {
        const bool socket = is_unix_stream(fd);
        if (socket ? is_clients_end(fd) : !usable_eventfd(fd))
            return EINVAL;
        close_call(queue);
        queue.call = std::make_shared<Eventfd>(std::move(fd), socket);
        if (socket)
            queue.call_watch = loop_.watch(
                queue.call->fd.get(), EPOLLIN, [this, index](std::uint32_t) { close_call(queues_[index]); },
                share_);
        return 0;
    }
    if (queue.watch || !usable_eventfd(fd))
        return EINVAL;
    queue.kick = std::move(fd);
    // Each write is an edge, so the count need not be read: that wakes all that wait to write, and a client
    // can let 100,000 instances of epoll wait.
    queue.watch = loop_.watch(
        queue.kick.get(), EPOLLIN | EPOLLET,
        [this, index](std::uint32_t) { for_client([&] { kicked(index); }); }, share_);
    return 0;
}

// ---- queues

void Server::kicked(unsigned index) {
    if (!queues_[index].enabled)
        return;
    if (index == command_queue)
        serve_commands();
    else
        serve_interrupts();
}

void Server::serve_commands() {
    Virtqueue& ring = queues_[command_queue].ring;
    loop_.queue().cancel(more_);
    if (share_->rests) // at its end the kick comes again
        return;
    bool some = false;
    for (;;) {
        std::optional<Virtqueue::Chain> chain;
        if (!ring.pop(chain, sizeof(PcidevMessage) + max_transfer))
            return fail("the queue of requests breaks the rules");
        if (!chain)
            break;
        const Bytes response = execute(*chain);
        if (!ring.push(*chain, response))
            return fail("a response cannot be written");
        some = true;
        if (loop_.turn_is_over()) {
            more_ = later([this] { kicked(command_queue); }); // unless it is stopped meanwhile
            break;
        }
    }
    if (some)
        interrupt(queues_[command_queue]);
    serve_interrupts();
}

Bytes Server::execute(const Virtqueue::Chain& chain) {
    response_.clear();
    PcidevMessage request{};
    if (!take(chain.request, request) || request.size > max_transfer) {
        refused_++;
        return {};
    }
    const Bytes data = Bytes(chain.request).subspan(sizeof request);
    const bool reads =
        request.operation == Operation::config_read || request.operation == Operation::mmio_read;
    const bool fills = request.operation == Operation::mmio_memset;
    // Without a device at an address a bus reads all ones.
    if (reads)
        response_.assign(std::min<std::size_t>(request.size, chain.response_size), 0xff);
    else if (data.size() < (fills ? 1 : request.size)) {
        refused_++;
        return {};
    }
    switch (request.operation) {
    case Operation::config_read:
        if (inside(request.address, response_.size(), 0, config_size))
            device_->config_read(static_cast<std::uint32_t>(request.address), response_);
        break;
    case Operation::config_write:
        if (inside(request.address, request.size, 0, config_size))
            write_config(static_cast<std::uint32_t>(request.address), data.first(request.size));
        break;
    case Operation::mmio_read:
        loop_.expect_request();
        access_bar(request, {});
        break;
    case Operation::mmio_write:
        access_bar(request, data.first(request.size));
        break;
    case Operation::mmio_memset:
        access_bar(request, Buffer(request.size, data[0]));
        break;
    default:
        refused_++;
    }
    return response_;
}

/// Reads into response_ if @p data is empty.
void Server::access_bar(const PcidevMessage& request, Bytes data) {
    const std::uint64_t size = data.empty() ? response_.size() : data.size();
    if (!in_bar(request.bar, request.address, size)) {
        refused_++;
        return;
    }
    const bool table =
        request.bar == table_.bar && inside(request.address, size, table_.offset, msix_.table_size());
    const bool pending =
        request.bar == pending_.bar && inside(request.address, size, pending_.offset, msix_.pending_size());
    if (msix_capability_ == 0 || (!table && !pending)) {
        if (data.empty())
            read_bar(request.bar, request.address, response_);
        else
            write_bar(request.bar, request.address, data);
        return;
    }
    if (request.address % 4 != 0 || size % 4 != 0) {
        refused_++;
        return;
    }
    for (std::uint64_t at = 0; at < size; at += 4) {
        const std::uint64_t offset = request.address + at;
        std::uint32_t word = 0;
        if (data.empty()) {
            word = table ? msix_.read(offset - table_.offset) : msix_.read_pending(offset - pending_.offset);
            std::memcpy(&response_[at], &word, sizeof word);
        } else if (table) {
            std::memcpy(&word, &data[at], sizeof word);
            msix_.write(offset - table_.offset, word);
        }
    }
}

// ---- interrupts

void Server::interrupt(Queue& queue) {
    if (queue.call && queue.ring.wants_interrupt())
        signals_.signal(queue.call);
}

void Server::refresh_command() {
    PciServer::refresh_command();
    if (msix_capability_ == 0)
        return;
    const std::uint16_t control = config_word(*device_, msix_capability_ + 2);
    msix_.set_control((control & 0x8000) != 0, (control & 0x4000) != 0);
}

void Server::raise_irq(unsigned vector) {
    if (!bus_master_)
        return; // a message-signalled interrupt is a memory write
    interrupts_raised_++;
    msix_.raise(vector);
    serve_interrupts();
}

void Server::serve_interrupts() {
    Queue& queue = queues_[interrupt_queue];
    if (!queue.enabled)
        return;
    bool some = false;
    // A vector stays pending until the guest has given a buffer; more edges of it are one, as on a real bus.
    while (const auto vector = msix_.deliverable()) {
        std::optional<Virtqueue::Chain> chain;
        if (!queue.ring.pop(chain, 0))
            return fail("the queue of interrupts breaks the rules");
        if (!chain)
            break;
        const Msix::Message message = msix_.take(*vector);
        Buffer bytes;
        append(bytes, PcidevMessage{.operation = Operation::msi,
                                    .bar = 0,
                                    .reserved = 0,
                                    .size = sizeof message.data,
                                    .address = message.address});
        append(bytes, message.data);
        if (!queue.ring.push(*chain, bytes))
            return fail("an interrupt cannot be written");
        some = true;
    }
    if (some)
        interrupt(queue);
}

} // namespace t3sim::vhost
