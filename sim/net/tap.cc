// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/tap.hh"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include "sim/net/log.hh"

namespace t3sim {

TapDevice::TapDevice(EventLoop& loop, Link& link, const std::string& name)
    : DescriptorEnd(loop, link), name_(name) {
    if (name.empty() || name.size() >= IFNAMSIZ)
        throw std::runtime_error(
            fmt::format("TAP interface '{}': a name has 1 to {} characters", name, IFNAMSIZ - 1));
    Fd tun(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!tun)
        throw std::runtime_error(
            fmt::format("TAP interface '{}': /dev/net/tun: {}", name, std::strerror(errno)));
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    std::memcpy(request.ifr_name, name.c_str(), name.size());
    if (ioctl(tun.get(), TUNSETIFF, &request) != 0)
        throw std::runtime_error(
            fmt::format("TAP interface '{}': {}; 'ip tuntap add {} mode tap user $USER' creates one "
                        "that needs no privileges",
                        name, std::strerror(errno), name));
    start(std::move(tun));
}

bool TapDevice::goes_on(int error) { // the interface was deleted
    wire_log.error("TAP interface '{}': {}; its cable is dead", name_, std::strerror(error));
    return false;
}

void TapDevice::carrier(bool up) {
#ifdef TUNSETCARRIER
    int on = up;
    ioctl(fd(), TUNSETCARRIER, &on); // fails while the interface is down, when it does not matter
#else
    (void)up;
#endif
}

} // namespace t3sim
