// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/control.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>

#include <sys/socket.h>

#include "sim/rig/commands.hh"

namespace t3sim {
namespace {

constexpr std::size_t max_line = 8 << 10;

} // namespace

Control::Control(EventLoop& loop, Rig& rig, const std::string& path)
    : loop_(loop), rig_(rig), listener_(
                                  loop, path, [this](Fd socket) { accept(std::move(socket)); }, share_) {
    for (Worker& worker : workers_)
        worker.on_idle(loop, [this] { listener_.pause(false); });
}

Control::~Control() {
    for (const auto& client : clients_)
        loop_.unwatch(client.watch);
}

std::string Control::handle_line(const std::string& line, std::shared_ptr<Subscription>& subscription) {
    commands::Context context{loop_, rig_, {}, {}, 0, {}, subscription, waker()};
    Json reply{{"version", commands::protocol_version}};
    try {
        Json result = commands::execute(context, line);
        reply["ok"] = true;
        reply["result"] = std::move(result);
        if (!context.next.is_null())
            reply["next"] = context.next;
    } catch (const std::runtime_error& e) {
        reply["ok"] = false;
        reply["error"] = e.what();
    } catch (const std::invalid_argument& e) { // of a card, about its arguments
        reply["ok"] = false;
        reply["error"] = e.what();
    }
    // The request may contain invalid UTF-8, which the reply must not repeat.
    return reply.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Control::accept(Fd socket) {
    if (clients_.size() >= max_clients) {
        const auto idle =
            std::ranges::find_if(clients_, [](const Client& one) { return one.idle() && !one.subscription; });
        drop(idle == clients_.end() ? clients_.begin() : idle);
    }
    listener_.pause(free_worker().is_behind()); // until one is idle
    const auto client = clients_.emplace(clients_.end());
    client->socket = std::move(socket);
    try {
        client->watch = loop_.watch(
            client->socket.get(), EPOLLIN,
            [this, client](std::uint32_t events) {
                if (!ready(*client, events))
                    drop(client);
            },
            share_);
    } catch (...) {
        drop(client); // by a worker, as it may have sent descriptors
        throw;
    }
}

std::function<void()> Control::waker() {
    return [this, token = std::weak_ptr(share_)] {
        loop_.post([this, token] {
            if (token.lock())
                wake_subscribers();
        });
    };
}

void Control::wake_subscribers() {
    for (const Client& client : clients_)
        if (client.subscription)
            loop_.change(client.watch, client.idle() ? EPOLLIN : EPOLLOUT);
}

void Control::drop(ClientPlace client) {
    if (client->subscription)
        commands::unsubscribe(rig_, client->subscription);
    loop_.unwatch(client->watch);
    shutdown(client->socket.get(), SHUT_RDWR);
    free_worker().close(std::move(client->socket));
    clients_.erase(client);
}

Worker& Control::free_worker() {
    const auto free = std::ranges::find_if(workers_, [](const Worker& one) { return !one.is_behind(); });
    return free == workers_.end() ? workers_.back() : *free;
}

bool Control::ready(Client& client, std::uint32_t events) {
    if (client.idle())
        return read(client) && work(client);
    return (events & (EPOLLHUP | EPOLLERR)) == 0 && work(client);
}

bool Control::read(Client& client) {
    std::array<char, 4096> piece{};
    iovec vec{piece.data(), piece.size()};
    msghdr message{};
    message.msg_iov = &vec;
    message.msg_iovlen = 1;
    // Descriptors stay in the socket, and its close by a worker closes them: received here without space for
    // them, they would be closed in this thread.
    ssize_t n = recvmsg(client.socket.get(), &message, MSG_DONTWAIT | MSG_PEEK);
    if (n > 0 && (message.msg_flags & MSG_CTRUNC) != 0)
        return false;
    if (n > 0)
        n = recv(client.socket.get(), piece.data(), static_cast<std::size_t>(n), MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    client.input.append(piece.data(), static_cast<std::size_t>(n));
    return true;
}

/// Executes one request, or sends the rest of its reply. Between two requests the cards and the other clients
/// have their turns.
bool Control::work(Client& client) {
    if (const auto end = client.input.find('\n'); client.output.empty() && end != std::string::npos) {
        client.output = handle_line(client.input.substr(0, end), client.subscription) + '\n';
        client.input.erase(0, end + 1);
    } else if (client.output.empty() && client.subscription) {
        client.output = client.subscription->lines();
    }
    if (!client.output.empty() && !send_output(client))
        return false;
    loop_.change(client.watch, client.idle() ? EPOLLIN : EPOLLOUT);
    return !client.idle() || client.input.size() <= max_line;
}

bool Control::send_output(Client& client) {
    const ssize_t n =
        ::send(client.socket.get(), client.output.data(), client.output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    client.output.erase(0, static_cast<std::size_t>(n));
    return true;
}

} // namespace t3sim
