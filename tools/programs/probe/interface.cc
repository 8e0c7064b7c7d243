// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "interface.hh"

#include <arpa/inet.h>
#include <cerrno>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace probe {

Datagrams::Datagrams(const std::string& address) : fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(9);
    inet_pton(AF_INET, address.c_str(), &to.sin_addr);
    error_ = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) ? errno : 0;
}

Datagrams::~Datagrams() {
    close(fd);
}

std::string interface_to(const std::string& address) {
    const Datagrams datagrams(address);
    sockaddr_in own{};
    socklen_t size = sizeof(own);
    std::string name;
    if (!datagrams.error() && !getsockname(datagrams.fd, reinterpret_cast<sockaddr*>(&own), &size)) {
        ifaddrs* all = nullptr;
        if (!getifaddrs(&all))
            for (const ifaddrs* one = all; one; one = one->ifa_next)
                if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET &&
                    reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr ==
                        own.sin_addr.s_addr)
                    name = one->ifa_name;
        freeifaddrs(all);
    }
    return name;
}

} // namespace probe
