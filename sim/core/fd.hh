// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <utility>

#include <unistd.h>

namespace t3sim {

/// Owns a file descriptor.
class Fd {
public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        if (this != &other)
            reset(std::exchange(other.fd_, -1));
        return *this;
    }
    ~Fd() { reset(); }

    [[nodiscard]] int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    void reset(int fd = -1) {
        if (fd_ >= 0)
            ::close(fd_);
        fd_ = fd;
    }

private:
    int fd_ = -1;
};

/// False: not possible.
bool set_nonblocking(const Fd& fd);
/// Accepts only eventfds: an access to another descriptor of a client (a pipe, a socket, a terminal) could
/// block or end this process. Sets O_NONBLOCK, so that a counter at its limit does not block either.
bool usable_eventfd(const Fd& fd);

} // namespace t3sim
