// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A descriptor that a client sends, and whose last close takes long.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "sim/core/bytes.hh"
#include "sim/core/fd.hh"

namespace t3sim::test {

/// Its last close waits for so many seconds, because its peer does not read. Empty: not possible here.
struct LingeringSocket {
    explicit LingeringSocket(int seconds) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* const its_address = reinterpret_cast<sockaddr*>(&address);
        socklen_t size = sizeof address;
        const linger long_enough{.l_onoff = 1, .l_linger = seconds};
        Fd sender(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (bind(listener.get(), its_address, size) != 0 || listen(listener.get(), 1) != 0 ||
            getsockname(listener.get(), its_address, &size) != 0 ||
            connect(sender.get(), its_address, size) != 0 ||
            setsockopt(sender.get(), SOL_SOCKET, SO_LINGER, &long_enough, sizeof long_enough) != 0)
            return;
        const Buffer block(65536);
        while (send(sender.get(), block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
            continue;
        socket = std::move(sender);
    }
    Fd socket;

private:
    Fd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

} // namespace t3sim::test
