// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/descriptor_end.hh"

#include <array>
#include <cerrno>
#include <utility>

#include <unistd.h>

namespace t3sim {
namespace {

constexpr std::size_t max_frame = 65536 + 64;
// The other ends are served after this many frames.
constexpr int frames_per_turn = 64;

} // namespace

void DescriptorEnd::start(Fd fd) {
    fd_ = std::move(fd);
    watch_ = loop_.watch(fd_.get(), EPOLLIN, [this](std::uint32_t) { ready(); });
}

DescriptorEnd::~DescriptorEnd() {
    loop_.unwatch(watch_);
}

void DescriptorEnd::ready() {
    std::array<std::uint8_t, max_frame> frame; // NOLINT: read() fills it
    for (int i = 0; i < frames_per_turn; i++) {
        if (!link_.ready_or_wait(*this)) { // frames queue up in the kernel, as for any slow port
            loop_.change(watch_, 0);
            return;
        }
        const ssize_t n = ::read(fd_.get(), frame.data(), frame.size());
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n > 0)
            link_.send(*this, Bytes(frame.data(), static_cast<std::size_t>(n)));
        else if (!goes_on(n < 0 ? errno : 0)) // the descriptor is ready for ever
            return loop_.unwatch(std::exchange(watch_, 0));
    }
}

void DescriptorEnd::frame_in(Bytes frame) {
    [[maybe_unused]] const ssize_t n = ::write(fd_.get(), frame.data(), frame.size());
}

void DescriptorEnd::resume_send() {
    loop_.change(watch_, EPOLLIN);
}

} // namespace t3sim
