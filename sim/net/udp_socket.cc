// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/udp_socket.hh"

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

namespace t3sim {
namespace {

// As a port of a switch: a burst of one or two TCP windows of each of some connections.
constexpr int receive_buffer = 4 << 20;

struct Where {
    std::string local_port, host, port;
};

Where parse(const std::string& where) {
    const auto colon = where.rfind(':');
    const auto at = where.find('@');
    const auto start = at == where.npos ? 0 : at + 1;
    if (colon == where.npos || colon <= start || colon + 1 == where.size() || at == 0)
        throw std::runtime_error(
            fmt::format("UDP end '{}': expected [PORT@]HOST:PORT, for example 192.0.2.7:7000", where));
    Where parts{at == where.npos ? where.substr(colon + 1) : where.substr(0, at),
                where.substr(start, colon - start), where.substr(colon + 1)};
    if (parts.host.front() == '[' && parts.host.back() == ']')
        parts.host = parts.host.substr(1, parts.host.size() - 2);
    return parts;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// @p host is NULL for the local side.
Addresses look_up(const std::string& where, const char* host, const std::string& port, int family) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_NUMERICSERV | (host ? 0 : AI_PASSIVE);
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(host, port.c_str(), &hints, &found); error != 0)
        throw std::runtime_error(fmt::format("UDP end '{}': {}", where, gai_strerror(error)));
    return {found, freeaddrinfo};
}

} // namespace

UdpSocket::UdpSocket(EventLoop& loop, Link& link, const std::string& where) : DescriptorEnd(loop, link) {
    const Where parts = parse(where);
    const Addresses peer = look_up(where, parts.host.c_str(), parts.port, AF_UNSPEC);
    const Addresses local = look_up(where, nullptr, parts.local_port, peer->ai_family);
    Fd socket(::socket(peer->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer,
               sizeof(receive_buffer)); // or what is allowed
    if (!socket || bind(socket.get(), local->ai_addr, local->ai_addrlen) != 0 ||
        connect(socket.get(), peer->ai_addr, peer->ai_addrlen) != 0)
        throw std::runtime_error(fmt::format("UDP end '{}': {}", where, std::strerror(errno)));
    start(std::move(socket));
}

/// An earlier frame was refused by the peer's host, or the datagram is empty.
bool UdpSocket::goes_on(int) {
    return true;
}

} // namespace t3sim
