// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/tap.hh"

#include <array>
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
namespace {

constexpr std::size_t max_tap_frame = 65536 + 64;
// The other ends are served after this many frames.
constexpr int frames_per_turn = 64;

} // namespace

TapDevice::TapDevice(EventLoop& loop, Link& link, const std::string& name)
    : loop_(loop), link_(link), name_(name) {
    if (name.empty() || name.size() >= IFNAMSIZ)
        throw std::runtime_error(
            fmt::format("TAP interface '{}': a name has 1 to {} characters", name, IFNAMSIZ - 1));
    fd_.reset(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!fd_)
        throw std::runtime_error(
            fmt::format("TAP interface '{}': /dev/net/tun: {}", name, std::strerror(errno)));
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    std::memcpy(request.ifr_name, name.c_str(), name.size());
    if (ioctl(fd_.get(), TUNSETIFF, &request) != 0)
        throw std::runtime_error(
            fmt::format("TAP interface '{}': {}; 'ip tuntap add {} mode tap user $USER' creates one "
                        "that needs no privileges",
                        name, std::strerror(errno), name));
    watch_ = loop_.watch(fd_.get(), EPOLLIN, [this](std::uint32_t) { ready(); });
}

TapDevice::~TapDevice() {
    loop_.unwatch(watch_);
}

void TapDevice::ready() {
    std::array<std::uint8_t, max_tap_frame> frame; // NOLINT: read() fills it
    for (int i = 0; i < frames_per_turn; i++) {
        if (!link_.ready_or_wait(*this)) { // frames queue up in the kernel, as for any slow port
            loop_.change(watch_, 0);
            return;
        }
        const ssize_t n = ::read(fd_.get(), frame.data(), frame.size());
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) { // the interface was deleted: its descriptor is ready for ever
            wire_log.error("TAP interface '{}': {}; its cable is dead", name_, std::strerror(errno));
            return loop_.unwatch(std::exchange(watch_, 0));
        }
        link_.send(*this, Bytes(frame.data(), static_cast<std::size_t>(n)));
    }
}

void TapDevice::frame_in(Bytes frame) {
    if (::write(fd_.get(), frame.data(), frame.size()) != static_cast<ssize_t>(frame.size()))
        dropped_++;
}

void TapDevice::resume_send() {
    loop_.change(watch_, EPOLLIN);
}

void TapDevice::carrier(bool up) {
#ifdef TUNSETCARRIER
    int on = up;
    ioctl(fd_.get(), TUNSETCARRIER, &on); // fails while the interface is down, when it does not matter
#else
    (void)up;
#endif
}

} // namespace t3sim
